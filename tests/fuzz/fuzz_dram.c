/* SPDX-License-Identifier: GPL-3.0-or-later */
/* DRAM files and traces of requests with random damage: the reader must answer each with
 * a status, and what it takes must run.
 *
 * Seeds are the files that ship, and a trace in all its forms.  Damage is repeatable: arguments are the number of
 * tries (400) and the first seed (1). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/path.h"
#include "base/run.h"
#include "hwsim/dram/dram.h"
#include "tests/fuzz/libconfig-leak.h"

static const char *const words[] = {
    "0",     "-1",     "999999999",  "up(",  ", ",  "\"",  "same rank", "other bank",
    "opens", "closes", "switches",   "rise", "ACT", "RDA", "mode=x",    "channel..group",
    "nREFI", "1",      "2147483647", "(",    ");",  "row", "refreshes", "second-buffer"};
enum { NWORD = sizeof words / sizeof *words, MAXTEXT = 40000 };

/* A few words, or stretches of text, put in, doubled or taken out. */
static size_t
damage(nmb_run *run, char *text, size_t len)
{
  const int n = 1 + (int)(nmb_rand(run) % 3);
  for (int i = 0; i < n && len > 8; i++) {
    const size_t at = (size_t)(nmb_rand(run) % len);
    const size_t most = len - at < 60 ? len - at : 60;
    const size_t some = 1 + (size_t)(nmb_rand(run) % most);
    const char *w = words[nmb_rand(run) % NWORD];
    const size_t k = strlen(w);
    switch (nmb_rand(run) % 12) {
    case 0:
      memmove(text + at, text + at + some, len - at - some);
      len -= some;
      break;
    case 1:
      memmove(text + at + some, text + at, len - at);
      len += some;
      break;
    case 2:
      memmove(text + at + k, text + at, len - at);
      memcpy(text + at, w, k);
      len += k;
      break;
    case 3:
      if (k < len - at)
        memcpy(text + at, w, k);
      break;
    default: { /* another number: read more often */
      const size_t to = at + strcspn(text + at, "0123456789");
      if (to < len)
        text[to] = (char)('0' + nmb_rand(run) % 10);
    }
    }
  }
  text[len] = '\0';
  return len;
}

static void
use(nmb_run *run, const nmb_dram *d, uint64_t seed)
{
  static const char *const workload[] = {"seq_bgi", "random", "rw_mix", "same_bank"};
  nmb_dramctl conf = NMB_DRAMCTL_DEFAULT;
  nmb_dram_bench b;
  nmb_dramstats r;
  nmb_dramch *ch;
  conf.columns = 60;
  conf.refresh = (nmb_dram_refresh)(seed % 3);
  conf.cap = (int)(seed % 2);
  if (nmb_dram_bench_start(run, d, workload[seed % 4], &b) == NMB_OK)
    (void)nmb_dramctl_run(run, d, &conf, nmb_dram_bench_next, &b, NULL, NULL, NULL, NULL,
                          &r);
  if (nmb_dramch_new(run, d, conf.refresh, &ch) == NMB_OK)
    for (nmb_id c = 0; c < nmb_dram_get(d)->ncmd; c++)
      if (nmb_dram_get(d)->cmd[c].does & NMB_DRAM_COLUMN)
        nmb_dramch_burst(ch, c, c % nmb_dram_get(d)->banks, 1, 50, 0);
}

/* A damaged trace on a whole kind.  *taken counts those that run. */
static bool
trace(nmb_run *run, const nmb_dram *d, uint64_t seed, int *taken)
{
  static const char lines[] = "LD 0x1f80 # read\nST 8064\n\nR 0,0,0,0,0,1,2\n"
                              "W 0,0,0,0,17,3\n0x40 R\r\n4096 W\nLD 0xffffffffffffffff\n";
  nmb_dramctl conf = NMB_DRAMCTL_DEFAULT;
  nmb_dram_trace t;
  nmb_dramstats r;
  size_t len = sizeof lines - 1;
  char *text = nmb_alloc(run, MAXTEXT, 1);
  memcpy(text, lines, len);
  if (seed % 2) /* the other half has only lines that every kind takes */
    len = (size_t)(strchr(strchr(text, '\n') + 1, '\n') - text) + 1;
  len = damage(run, text, len);
  if (nmb_dram_trace_parse(run, d, "fuzz", text, len, &t) != NMB_OK)
    return *nmb_error_text(run) != 0;
  conf.columns = t.n;
  if (nmb_dramctl_run(run, d, &conf, nmb_dram_trace_next, &t, NULL, NULL, NULL, NULL, &r) ==
      NMB_OK)
    (*taken)++;
  return true;
}

int
main(int argc, char **argv)
{
  static const char *const file[][2] = {
      {"ddr4", "DDR4_3200AA"},     {"lpddr5", "LPDDR5_6400"},
      {"hbm3", "HBM3_6400"},       {"gddr6-aim", "GDDR6_AiM"},
      {"hbm3-attacc", "HBM3_5.2"}, {"hbm2-neupims", "HBM2_NeuPIMs"}};
  const long tries = argc > 1 ? atol(argv[1]) : 400;
  const uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
  int taken = 0, traces = 0;
  for (long i = 0; i < tries; i++) {
    nmb_run *run = nmb__run_open(NULL);
    const uint64_t seed = first + (uint64_t)i;
    const char *const *f = file[seed % (sizeof file / sizeof *file)];
    const char *path;
    const nmb_dram *d;
    size_t len;
    nmb__run_seed(run, seed);
    if (nmb__find_file(run, "dram", f[0], "dram", &path) != NMB_OK)
      return 1;
    const char *text = nmb__read_file(run, path, &len);
    if (!text || len + 1000 > MAXTEXT)
      return 1;
    if (nmb__dram_load(run, run, path, text, len, f[1], NULL, &d) != NMB_OK ||
        !trace(run, d, seed, &traces)) {
      fprintf(stderr, "seed %llu: trace\n", (unsigned long long)seed);
      return 1;
    }
    char *copy = nmb_alloc(run, MAXTEXT, 1);
    memcpy(copy, text, len);
    len = damage(run, copy, len);
    if (nmb__dram_load(run, run, path, copy, len, f[1], NULL, &d) == NMB_OK) {
      use(run, d, seed);
      taken++;
    } else if (!*nmb_error_text(run)) {
      fprintf(stderr, "seed %llu: refused without a word\n", (unsigned long long)seed);
      return 1;
    }
    nmb__run_close(run);
  }
  printf("%ld files, %d taken; %ld traces, %d taken\n", tries, taken, tries, traces);
  return taken == 0 || taken == tries || traces == 0 || traces == tries;
}
