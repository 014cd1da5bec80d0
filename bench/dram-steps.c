/* SPDX-License-Identifier: GPL-3.0-or-later */
/* How many DRAM commands a second of processor time: stepped through a channel in order,
 * each at its earliest tick, and by the controller from requests.
 * Prints "what<TAB>millions". */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "nmbench/nmb_dram.h"

#include "base/run.h"

/* The best of some rounds counts: other work on the machine can only slow one down. */
enum { STEPS = 2000000, ROUNDS = 4 };

static double
seconds(void)
{
  return (double)clock() / CLOCKS_PER_SEC;
}

static int64_t
total(const nmb_dram *d, const nmb_dramch *ch)
{
  int64_t n = 0;
  for (int i = 0; i < nmb_dram_get(d)->ncmd; i++)
    n += nmb_dramch_count(ch, i);
  return n;
}

/* Reads and writes of random banks, a new row for every `reuse` of them: every command is
 * checked against and marked in the tables. */
static void
steps(nmb_run *run, const char *kind, int reuse, nmb_dram_refresh refresh)
{
  const nmb_dram *d;
  nmb_dramch *ch;
  if (nmb_dram_open(run, kind, NULL, &d) != NMB_OK ||
      nmb_dramch_new(run, d, refresh, &ch) != NMB_OK)
    exit(1);
  const nmb_id rd = nmb_dram_command(d, "RD"), wr = nmb_dram_command(d, "WR");
  const uint32_t banks = (uint32_t)nmb_dram_get(d)->banks;
  double best = 0;
  for (int round = 0; round < ROUNDS; round++) {
    uint32_t x = 1;
    nmb_dramch_reset(ch);
    const double t = seconds();
    for (int i = 0; i < STEPS; i++) {
      x = x * 1664525u + 1013904223u;
      nmb_dramch_step(ch, x >> 31 ? wr : rd, (int)((x >> 8) % banks),
                      i / (reuse * (int)banks), 0);
    }
    const double rate = (double)total(d, ch) / (seconds() - t) * 1e-6;
    best = rate > best ? rate : best;
  }
  printf("stepped, %s, about %d columns a row\t%.1f\n", kind, reuse, best);
}

static int64_t commands;

static void
count(void *arg, int64_t tick, nmb_id cmd, int bank, int64_t row)
{
  (void)arg, (void)tick, (void)cmd, (void)bank, (void)row;
  commands++;
}

static void
controller(nmb_run *run, const char *kind, const char *workload)
{
  const nmb_dram *d;
  nmb_dramctl conf = NMB_DRAMCTL_DEFAULT;
  nmb_dram_bench b;
  nmb_dramstats r;
  conf.columns = 300000;
  conf.refresh = NMB_DRAM_ALLBANK;
  if (nmb_dram_open(run, kind, NULL, &d) != NMB_OK ||
      nmb_dram_bench_start(run, d, workload, &b) != NMB_OK)
    exit(1);
  commands = 0;
  const double t = seconds();
  if (nmb_dramctl_run(run, d, &conf, nmb_dram_bench_next, &b, NULL, NULL, count, NULL,
                      &r) != NMB_OK)
    exit(1);
  printf("controller, %s %s\t%.2f\n", kind, workload,
         (double)commands / (seconds() - t) * 1e-6);
}

int
main(void)
{
  nmb_run *run = nmb__run_open(stderr);
  steps(run, "HBM2_2000", 8, NMB_DRAM_ALLBANK);
  steps(run, "DDR4_3200AA", 8, NMB_DRAM_ALLBANK);
  steps(run, "GDDR6_AiM", 8, NMB_DRAM_ALLBANK);
  steps(run, "HBM3_6400", 1, NMB_DRAM_ALLBANK);
  controller(run, "HBM3_6400", "seq_bgi");
  controller(run, "HBM3_6400", "random");
  controller(run, "DDR4_3200AA", "random");
  nmb__run_close(run);
  return 0;
}
