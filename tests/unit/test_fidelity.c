/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Engines at both fidelities: the closed form against the stepped one, what neither may
 * beat, and scratchpads. */
#include <math.h>
#include <stdio.h>

#include "tests/unit/enginebench.h"
#include "tests/unit/unit.h"

/* Engines that have both, and how far the closed form may be off: over all shapes, and in
 * the mean. */
typedef struct engine {
  const char *machine, *name;
  double worst, mean;
} engine;
static const engine engines[] = {
    {"aim-gddr6", "pim", 0.15, 0.03},         {"aim-gddr6", "host", 0.20, 0.05},
    {"npu-hbm-pim", "npu", 0.15, 0.05},       {"npu-hbm-pim", "pim", 0.35, 0.12},
    {"gpu-a100", "gpu", 0.25, 0.07},          {"hbm2-pim", "pim", 0.35, 0.15},
    {"hbm3-attacc-stack", "pim", 0.35, 0.15}, {"upmem", "dpu", 0.10, 0.03},
    {"cim-colonnade", "cim", 0.60, 0.25},     {"cim-jia", "cim", 0.60, 0.25},
};

static nmb_cost
at(const bench *b, nmb_fidelity f)
{
  nmb_cost c;
  if (nmb_insn_cost_at(b->run, b->p, &b->in, f, NULL, &c) != NMB_OK)
    abort();
  return c;
}

static void
place(bench *b, int64_t m, int64_t n, int64_t k)
{
  const nmb_engine *e = &b->hw->engine[b->in.engine];
  const nmb_mem *mem = &b->hw->mem[e->resident];
  if (!e->in_memory)
    return;
  const int64_t lanes = (int64_t)mem->channels * mem->banks;
  const int64_t page = mem->page_bytes > 0 ? mem->page_bytes : 1 << 20;
  b->in.place.nchannel = mem->channels;
  b->in.place.banks = mem->banks;
  b->in.place.vectors = m;
  b->in.place.rows_per_bank = (n + lanes - 1) / lanes;
  b->in.place.pages = (2 * k + page - 1) / page;
  b->in.place.bursts = (2 * k + mem->burst_bytes - 1) / mem->burst_bytes;
  b->in.place.reuse = 32;
}

static void
check_engine(const engine *e)
{
  static const int64_t shapes[][3] = {{1, 4096, 4096}, {1, 1000, 17},   {3, 640, 5000},
                                      {16, 300, 2048}, {128, 512, 512}, {1, 1, 1}};
  double sum = 0;
  const int n = sizeof shapes / sizeof *shapes;
  for (int i = 0; i < n; i++) {
    char text[100];
    snprintf(text, sizeof text, "include = \"%s\";", e->machine);
    bench b = bench_open(text, e->name, shapes[i][0], shapes[i][1], shapes[i][2]);
    place(&b, shapes[i][0], shapes[i][1], shapes[i][2]);
    const nmb_cost closed = at(&b, NMB_ANALYTIC), step = at(&b, NMB_CYCLE);
    const double s = nmb_cost_seconds(&step), c = nmb_cost_seconds(&closed);
    CU_ASSERT_TRUE_FATAL(s > 0 && c > 0);
    for (int k = 0; k < NMB_NCAUSE; k++)
      CU_ASSERT_TRUE(step.time[k] >= 0 && closed.time[k] >= -1e-12 * c);
    for (int m = 0; m < b.hw->nmem; m++) /* nothing moves faster than its memory */
      CU_ASSERT_TRUE(step.mem_s[m] <= s * (1 + 1e-9) &&
                     closed.mem_s[m] <= c * (1 + 1e-9));
    for (int k = 0; k < NMB_NEPART; k++) /* the same events */
      CU_ASSERT_TRUE(isnan(step.energy[k]) ||
                     fabs(step.energy[k] - closed.energy[k]) <= 0.3 * closed.energy[k]);
    const double error = fabs(c / s - 1);
    if (error > e->worst)
      printf("%s of %s, shape %d: %g against %g\n", e->name, e->machine, i, c, s);
    CU_ASSERT_TRUE(error <= e->worst);
    sum += error;
    bench_close(&b);
  }
  if (sum > n * e->mean)
    printf("%s of %s: mean error %g\n", e->name, e->machine, sum / n);
  CU_ASSERT_TRUE(sum <= n * e->mean);
}

static void
test_engines(void)
{
  for (size_t i = 0; i < sizeof engines / sizeof *engines; i++)
    check_engine(&engines[i]);
}

/* ------------------------------------------------------------------ scratchpads */
static bench
npu(const char *spad, int buffers, const char *latency, int64_t m, int64_t n, int64_t k)
{
  char text[600];
  snprintf(text, sizeof text,
           "include = \"npu-hbm-pim\"; set = ("
           "{ path = \"engines.npu.arrays\"; value = 1; },"
           "{ path = \"engines.npu.memory-fraction\"; value = \"100%%\"; },"
           "{ path = \"engines.npu.scratchpad\"; value = \"%s\"; },"
           "{ path = \"engines.npu.buffers\"; value = %d; },"
           "{ path = \"engines.npu.dma-latency\"; value = \"%s\"; } );",
           spad, buffers, latency);
  return bench_open(text, "npu", m, n, k);
}

/* Weights of 128 x 128 are a fold of 128 + 2 x 128 + 128 - 2 = 510 cycles for 128 rows;
 * 1024 B a cycle come from memory. */
static void
test_by_hand(void)
{
  bench b = npu("1GiB", 1, "30ns", 128, 128, 128);
  CU_ASSERT_DOUBLE_EQUAL(nmb_cost_seconds(&(nmb_cost){.time = {1e-9}}), 1e-9, 1e-18);
  const double load = 2 * 128 * 128 * 2 / 1024.0, store = 128 * 128 * 2 / 1024.0;
  nmb_cost c = at(&b, NMB_CYCLE);
  CU_ASSERT_DOUBLE_EQUAL(nmb_cost_seconds(&c) * 1e9, load + 30 + 510 + store, 1e-6);
  c = at(&b, NMB_ANALYTIC);
  CU_ASSERT_DOUBLE_EQUAL(nmb_cost_seconds(&c) * 1e9, load + 30 + 510 + store, 1e-6);
  bench_close(&b);
}

/* Two buffers hide loads, one does not; a scratchpad without room for two has one; one
 * without room for a tile is an error; less room is never faster, nor fewer bytes. */
static void
test_scratchpad(void)
{
  static const char *const room[] = {"64MiB", "4MiB", "1MiB", "300KiB"};
  double before = 0, bytes = 0;
  for (int i = 0; i < 4; i++) {
    bench two = npu(room[i], 2, "0ns", 256, 2048, 4096),
          one = npu(room[i], 1, "0ns", 256, 2048, 4096);
    for (int f = 0; f < NMB_NFIDELITY; f++) {
      const nmb_cost a = at(&two, (nmb_fidelity)f), b = at(&one, (nmb_fidelity)f);
      CU_ASSERT_TRUE(nmb_cost_seconds(&a) <
                     nmb_cost_seconds(&b) * (i < 2 ? 0.999 : 1.001));
      CU_ASSERT_TRUE(a.mem_bytes[0] >= (256 * 4096 + 2048 * 4096 + 256 * 2048) * 2);
      if (f == NMB_ANALYTIC)
        continue;
      CU_ASSERT_TRUE(nmb_cost_seconds(&a) >= before && a.mem_bytes[0] >= bytes);
      before = nmb_cost_seconds(&a);
      bytes = a.mem_bytes[0];
    }
    bench_close(&one);
    bench_close(&two);
  }
  /* a tile of one row: 256 B + 32 KiB + 512 B of operands and sums fit once, not twice */
  bench tight = npu("40KiB", 2, "0ns", 1, 1024, 1024),
        single = npu("40KiB", 1, "0ns", 1, 1024, 1024);
  const nmb_cost a = at(&tight, NMB_CYCLE), b = at(&single, NMB_CYCLE);
  CU_ASSERT_EQUAL(nmb_cost_seconds(&a), nmb_cost_seconds(&b));
  bench_close(&tight);
  bench_close(&single);
  bench none = npu("32KiB", 2, "0ns", 1, 1024, 1024);
  nmb_cost c;
  FILE *quiet = tmpfile();
  nmb_run *run = nmb__run_open(quiet);
  CU_ASSERT_EQUAL(nmb_insn_cost(run, none.p, &none.in, &c), NMB_INFEASIBLE);
  nmb__run_close(run);
  fclose(quiet);
  bench_close(&none);
}

UNIT_MAIN("fidelity", {"closed forms stay near the stepped ones", test_engines},
          {"one tile by hand", test_by_hand},
          {"scratchpads: two buffers, one, splits, and none", test_scratchpad})
