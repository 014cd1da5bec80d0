/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Engine models against closed formulas and the figures of public simulators. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/path.h"
#include "base/plugin.h"
#include "base/run.h"
#include "ir/machine.h"
#include "tests/unit/enginebench.h"
#include "tests/unit/unit.h"

static nmb_cost
bench_cost(const bench *b)
{
  nmb_cost c;
  if (nmb_insn_cost(b->run, b->p, &b->in, &c) != NMB_OK)
    abort();
  return c;
}

/* Cycles of a PIM instruction of one input vector; rows dealt evenly. */
static double
pim_cycles(const bench *b, int channels, int64_t rows, int64_t row_bytes, int64_t reuse,
           bool padded)
{
  bench c = *b;
  const nmb_engine *e = &b->hw->engine[b->in.engine];
  const nmb_mem *m = &b->hw->mem[e->resident];
  const int64_t lanes = (int64_t)channels * m->banks;
  nmb_place l = {.nchannel = channels, .banks = m->banks, .vectors = 1, .reuse = reuse};
  l.rows_per_bank = (rows + lanes - 1) / lanes;
  l.bursts = (row_bytes + m->burst_bytes - 1) / m->burst_bytes;
  l.pages = (row_bytes + m->page_bytes - 1) / m->page_bytes;
  if (!padded)
    l.opens =
        (l.rows_per_bank * l.bursts * m->burst_bytes + m->page_bytes - 1) / m->page_bytes;
  c.in.place = l;
  const nmb_cost cost = bench_cost(&c);
  return nmb_cost_seconds(&cost) / nmb_param_get(e, "t-ck");
}

/* The next row of numbers of a table in tests/data; false at its end. */
static bool
next_row(FILE *f, char *word, double *v, int n)
{
  char line[256];
  while (fgets(line, sizeof line, f)) {
    if (*line == '#')
      continue;
    char *p = line;
    for (int i = 0; i < n; i++) {
      char *end;
      v[i] = strtod(p, &end);
      if (end == p && word) /* one column is a word */
        sscanf(p, "%15[^,]", word);
      p = strchr(p, ',');
      if (!p)
        return i == n - 1;
      p++;
    }
    return true;
  }
  return false;
}

static FILE *
table(const char *name)
{
  char path[4096];
  const char *dir = getenv("srcdir");
  snprintf(path, sizeof path, "%s/tests/data/%s", dir ? dir : ".", name);
  FILE *f = fopen(path, "r");
  if (!f) {
    fprintf(stderr, "%s is missing\n", path);
    abort();
  }
  return f;
}

/* --------------------------------------------------------------------- tests */
#define NO_REFRESH "{ path = \"engines.pim.refresh\"; value = \"false\"; }"
static const char aim[] = "include = \"aim-gddr6\"; set = ( " NO_REFRESH " );";

static void
test_aim_gemv(void)
{
  FILE *f = table("aim_gemv.csv");
  double v[5];
  int n = 0;
  for (; next_row(f, NULL, v, 5); n++) {
    bench b = bench_open(aim, "pim", 1, (int64_t)v[0], (int64_t)v[1]);
    const double got =
        pim_cycles(&b, (int)v[2], (int64_t)v[0], (int64_t)v[1] * 2, (int64_t)v[3], true);
    CU_ASSERT_DOUBLE_EQUAL(got, v[4], 1e-6 * v[4]);
    bench_close(&b);
  }
  CU_ASSERT_EQUAL(n, 11);
  fclose(f);
}

/* Sharing the global buffer: 9664 against 8124 cycles for 4096 x 4096. */
static void
test_aim_reuse(void)
{
  bench b = bench_open(aim, "pim", 1, 4096, 4096);
  CU_ASSERT_DOUBLE_EQUAL(pim_cycles(&b, 32, 4096, 8192, 1, true), 9664, 1e-3);
  CU_ASSERT_DOUBLE_EQUAL(pim_cycles(&b, 32, 4096, 8192, 32, true), 8124, 1e-3);
  bench_close(&b);
}

/* A row of K in one fill instead of four: three fewer turns, each of them
 * 1 + 32 + 32 + 2 + 5 cycles and what reads and clears eight columns. */
static void
test_aim_bigger_buffer(void)
{
  bench b = bench_open("include = \"aim-gddr6-x8+gb8k\"; devices = 1; set = ( " NO_REFRESH
                       " );",
                       "pim", 1, 4096, 4096);
  CU_ASSERT_DOUBLE_EQUAL(pim_cycles(&b, 32, 4096, 8192, 32, true),
                         8124 - 3 * (1 + 32 + 32 + 2 + 5 + 7 * 5) + 3 * 12, 1e-3);
  bench_close(&b);
}

/* Keys of one head lie eight to a page: opening pages once for all of them. */
static void
test_packed_rows(void)
{
  bench b = bench_open(aim, "pim", 1, 4096, 128);
  const double packed = pim_cycles(&b, 1, 4096, 256, 32, false);
  const double padded = pim_cycles(&b, 1, 4096, 256, 32, true);
  /* 256 rows a bank, 8 a page: 32 pages instead of 256; a page costs 56 + 12 + 32 - 2 */
  CU_ASSERT_DOUBLE_EQUAL(padded - packed, (256 - 32) * (56 + 12 + 32 - 2), 1e-3);
  bench_close(&b);
}

static void
test_refresh(void)
{
  bench a = bench_open(aim, "pim", 1, 4096, 4096),
        b = bench_open("include = \"aim-gddr6\";", "pim", 1, 4096, 4096);
  const double with = pim_cycles(&b, 32, 4096, 8192, 1, true);
  CU_ASSERT_DOUBLE_EQUAL(with, 9664 * 3333.0 / (3333 - 210), 1e-3);
  bench_close(&a);
  bench_close(&b);
}

/* One head: scores (keys of 256 bytes), then the context (rows of L scores, out of
 * the local buffer); heads take turns on 16 channels; refreshes as they come. */
static double
attacc_cycles(int heads, int64_t length, bool limited)
{
  char text[400];
  snprintf(text, sizeof text,
           "include = \"hbm3-attacc-x1\"; set = ( " NO_REFRESH
           ", { path = \"engines.pim.ccd\"; value = %d; } );",
           limited ? 6 : 4);
  bench b = bench_open(text, "pim", 1, length, 128);
  double one = pim_cycles(&b, 1, length, 256, 1, false);
  b.in.opnd[0].mem = b.hw->engine[b.in.engine].local;
  one += pim_cycles(&b, 1, 128, length * 2, 1, false);
  bench_close(&b);
  const double all = one * ceil(heads / 16.0);
  return length * heads > 2048 * 16 ? all + floor(all / 5070) * 456 : all;
}

static void
test_attacc_kernels(void)
{
  FILE *f = table("attacc_kernels.csv");
  double v[4];
  int n = 0;
  for (; next_row(f, NULL, v, 4); n++) {
    const double got = attacc_cycles((int)v[0], (int64_t)v[1], v[2] != 0);
    if (fabs(got / v[3] - 1) > 0.05)
      printf("heads %g length %g: %g, expected %g\n", v[0], v[1], got, v[3]);
    CU_ASSERT_TRUE(fabs(got / v[3] - 1) <= 0.05);
  }
  CU_ASSERT_EQUAL(n, 6);
  CU_ASSERT_DOUBLE_EQUAL(attacc_cycles(16, 2048, true), 3810, 0.005 * 3810);
  fclose(f);
}

static void
test_systolic(void)
{
  FILE *f = table("systolic.csv");
  double v[7];
  char flow[16], text[600];
  int n = 0;
  for (; next_row(f, flow, v, 7); n++) {
    snprintf(
        text, sizeof text,
        "include = \"npu-hbm-pim\"; set = ( { path = \"engines.npu.rows\"; value = %d; },"
        "{ path = \"engines.npu.cols\"; value = %d; }, { path = \"engines.npu.arrays\"; "
        "value = 1; },"
        "{ path = \"engines.npu.dataflow\"; value = \"%s\"; },"
        "{ path = \"engines.npu.scratchpad\"; value = \"0B\"; }," /* never stalls */
        "{ path = \"memories.hbm.bandwidth\"; value = \"1000TB/s\"; } );",
        (int)v[0], (int)v[1], flow);
    bench b = bench_open(text, "npu", (int64_t)v[3], (int64_t)v[4], (int64_t)v[5]);
    const nmb_cost c = bench_cost(&b);
    CU_ASSERT_DOUBLE_EQUAL(nmb_cost_seconds(&c) * 1e9, v[6], 1e-6 * v[6]);
    bench_close(&b);
  }
  CU_ASSERT_EQUAL(n, 12);
  fclose(f);
}

/* Memory-bound: bytes over usable bandwidth, so linear in them; compute-bound: MACs
 * over the usable peak when tiles fill all cores. */
static void
test_roofline(void)
{
  const char *gpu = "include = \"gpu-a100\";";
  bench b = bench_open(gpu, "gpu", 1, 4096, 4096);
  nmb_cost c = bench_cost(&b);
  const double bytes = 2.0 * (4096.0 * 4096 + 4096 + 4096);
  CU_ASSERT_DOUBLE_EQUAL(nmb_cost_seconds(&c), bytes / (2039e9 * 0.917), 1e-12);
  CU_ASSERT_DOUBLE_EQUAL(c.mem_s[0], nmb_cost_seconds(&c), 1e-15);
  CU_ASSERT_DOUBLE_EQUAL(c.mem_bytes[0], bytes, 0);
  b.in.first = true;
  c = bench_cost(&b);
  CU_ASSERT_DOUBLE_EQUAL(c.time[NMB_CAUSE_LAUNCH], 0.5e-6, 1e-15);
  bench_close(&b);
  /* 108 x 128 rows: 128 x 128 tiles in 96 whole waves */
  b = bench_open(gpu, "gpu", 108 * 128, 96 * 128, 8192);
  c = bench_cost(&b);
  /* 128 x 256 tiles, 48 whole waves of them, each fed by 5 (128 + 256) operands a step */
  const double peak = 108 * 1024 * 1.41e9 * 0.974, feed = 1 + 5.0 * 384 / (128 * 256);
  CU_ASSERT_DOUBLE_EQUAL(c.time[NMB_CAUSE_COMPUTE],
                         108.0 * 128 * 96 * 128 * 8192 * feed / peak, 1e-9);
  /* what is written comes after the arithmetic */
  CU_ASSERT_DOUBLE_EQUAL(c.time[NMB_CAUSE_BUS],
                         2.0 * 108 * 128 * 96 * 128 / (2039e9 * 0.917), 1e-9);
  bench_close(&b);
}

/* Values in local memory cost no traffic; a weight in 4 bits saves three quarters. */
static void
test_roofline_bytes(void)
{
  bench b = bench_open("include = \"gpu-a100\";", "gpu", 1, 4096, 4096);
  b.in.opnd[0].mem = b.in.opnd[2].mem = nmb_hw_mem(b.hw, "smem");
  b.in.opnd[1].row_bytes = 4096 * 4096 / 2;
  const nmb_cost c = bench_cost(&b);
  CU_ASSERT_DOUBLE_EQUAL(c.mem_bytes[0], 4096.0 * 4096 / 2, 0);
  CU_ASSERT_DOUBLE_EQUAL(nmb_cost_seconds(&c), 4096.0 * 4096 / 2 / (2039e9 * 0.917),
                         1e-12);
  bench_close(&b);
}

/* Without dual row buffers PIM holds its channels' share of the interface. */
static void
test_blocking(void)
{
  bench b = bench_open(aim, "pim", 1, 4096, 4096);
  b.in.place = (nmb_place){0, 8, 16, 1, 32, 4, 256, 32, 0};
  nmb_cost c = bench_cost(&b);
  CU_ASSERT_DOUBLE_EQUAL(c.mem_s[0], nmb_cost_seconds(&c) * 8 / 32, 1e-15);
  bench_close(&b);
  b = bench_open("include = \"npu-hbm-pim\";", "pim", 1, 4096, 4096);
  b.in.place = (nmb_place){0, 32, 32, 1, 4, 8, 128, 1, 0};
  c = bench_cost(&b);
  CU_ASSERT_TRUE(c.mem_s[0] < 0.2 * nmb_cost_seconds(&c));
  bench_close(&b);
}

/* A bit-serial array: slices of the input times rounds of tiles; a weight of W bits
 * takes W + 7 columns, so eight of eight bits lie side by side. */
static void
test_cim(void)
{
  static const char *const text =
      "include = \"cim-colonnade\"; set = ( { path = \"engines.cim.arrays\"; value = 4; "
      "}, { path = \"engines.cim.weight-bits\"; value = 8; }, { path = "
      "\"engines.cim.input-bits\"; value = %d; }, { path = \"engines.cim.active-rows\"; "
      "value = %d; }, { path = \"memories.ddr.bandwidth\"; value = \"100TB/s\"; } );";
  const double pass = (8 + 7 + 8 + 2) * 0.4e-9;
  char serial[800];
  for (int bits = 1; bits <= 8; bits *= 2)
    for (int active = 0; active <= 32; active += 32) {
      snprintf(serial, sizeof serial, text, bits, active);
      bench b = bench_open(serial, "cim", 3, 8, 256); /* two tiles, on two arrays */
      nmb_cost c = bench_cost(&b);
      CU_ASSERT_DOUBLE_EQUAL(c.time[NMB_CAUSE_COMPUTE],
                             3 * bits * (active ? 4 : 1) * pass, 1e-15);
      CU_ASSERT_TRUE(c.time[NMB_CAUSE_ROW] == 0);
      CU_ASSERT_DOUBLE_EQUAL(c.energy[NMB_EPART_COMPUTE],
                             3 * 2 * bits * (active ? 4 : 1) * 139.47e-12, 1e-18);
      bench_close(&b);
      b = bench_open(serial, "cim", 3, 24, 256); /* six tiles: they do not stay */
      c = bench_cost(&b);
      CU_ASSERT_DOUBLE_EQUAL(c.time[NMB_CAUSE_COMPUTE],
                             2 * 3 * bits * (active ? 4 : 1) * pass, 1e-15);
      CU_ASSERT_DOUBLE_EQUAL(c.time[NMB_CAUSE_ROW], 2 * 128 * 10e-9, 1e-15);
      bench_close(&b);
    }
}

/* Energy of an analog array goes with the ones among its values. */
static void
test_cim_values(void)
{
  double e[3];
  for (int i = 0; i < 3; i++) {
    char text[300];
    snprintf(text, sizeof text,
             "include = \"cim-sinangil\"; set = ( { path = \"engines.cim.input-ones\"; "
             "value = \"%d%%\"; } );",
             50 * i);
    bench b = bench_open(text, "cim", 1, 16, 64);
    const nmb_cost c = bench_cost(&b);
    e[i] = c.energy[NMB_EPART_COMPUTE] + c.energy[NMB_EPART_ARRAY];
    bench_close(&b);
  }
  CU_ASSERT_DOUBLE_EQUAL(e[1] - e[0], e[2] - e[1], 1e-18);
  CU_ASSERT_DOUBLE_EQUAL(e[2] - e[0], 64 * 64 * 1.0872e-15, 1e-18);
}

/* Digital adders switch with the inputs that change and the weights that are one; drivers
 * with the inputs alone. */
static void
test_cim_toggles(void)
{
  double e[2][2];
  for (int t = 0; t < 2; t++)
    for (int w = 0; w < 2; w++) {
      char text[600];
      snprintf(text, sizeof text,
               "include = \"cim-colonnade\"; set = ("
               "{ path = \"engines.cim.energy-pass\"; value = \"0pJ\"; },"
               "{ path = \"engines.cim.energy-adder\"; value = \"3fJ\"; },"
               "{ path = \"engines.cim.energy-dac\"; value = \"7fJ\"; },"
               "{ path = \"engines.cim.input-toggles\"; value = \"%d%%\"; },"
               "{ path = \"engines.cim.weight-ones\"; value = \"%d%%\"; } );",
               t ? 60 : 30, w ? 80 : 20);
      bench b = bench_open(text, "cim", 1, 16, 128);
      const nmb_cost c = bench_cost(&b);
      e[t][w] = c.energy[NMB_EPART_COMPUTE];
      CU_ASSERT_DOUBLE_EQUAL(c.energy[NMB_EPART_ARRAY], 128 * (t ? 0.6 : 0.3) * 7e-15, 1e-22);
      bench_close(&b);
    }
  CU_ASSERT_DOUBLE_EQUAL(e[1][1], 128 * 16 * 8 * 0.6 * 0.8 * 3e-15, 1e-20);
  CU_ASSERT_DOUBLE_EQUAL(e[1][0] / e[0][0], 2, 1e-9);
  CU_ASSERT_DOUBLE_EQUAL(e[0][1] / e[0][0], 4, 1e-9);
}

/* What a machine does not know stays unknown in the costs. */
static void
test_unknown_energy(void)
{
  bench b = bench_open("include = \"npu-hbm-pim\"; set = ( { path = "
                       "\"engines.pim.energy-act\"; value = \"unknown\"; } );",
                       "pim", 1, 4096, 4096);
  b.in.place = (nmb_place){0, 32, 32, 1, 4, 8, 128, 1, 0};
  const nmb_cost c = bench_cost(&b);
  CU_ASSERT_TRUE(isnan(c.energy[NMB_EPART_ROW]));
  CU_ASSERT_FALSE(isnan(c.energy[NMB_EPART_ARRAY]));
  bench_close(&b);
}

/* Energy of the AiM GEMV: pages, bursts and sums by hand. */
static void
test_pim_energy(void)
{
  bench b = bench_open(aim, "pim", 1, 4096, 4096);
  b.in.place = (nmb_place){0, 32, 16, 1, 8, 4, 256, 32, 0};
  const nmb_cost c = bench_cost(&b);
  CU_ASSERT_DOUBLE_EQUAL(c.energy[NMB_EPART_ROW], 8 * 4 * 512 * 2.95e-9, 1e-15);
  CU_ASSERT_DOUBLE_EQUAL(c.energy[NMB_EPART_ARRAY],
                         8 * 256 * 512 * 82.15e-12 + 8 * 4 * 32 * 1.239e-9, 1e-15);
  CU_ASSERT_DOUBLE_EQUAL(c.mem_bytes[0], 2.0 * 4096 * 4096 + 2 * 8192, 0);
  /* each channel takes the vector, one result leaves */
  CU_ASSERT_DOUBLE_EQUAL(c.energy[NMB_EPART_IO], (32 * 8192 + 8192) * 44e-12, 1e-15);
  bench_close(&b);
}

static void
test_link(void)
{
  bench b = bench_open("include = \"aim-gddr6-x8\";", "pim", 1, 4096, 4096);
  b.in.engine = nmb_hw_engine(b.hw, "cxl");
  b.in.nopnd = 1;
  b.in.opnd[0] =
      (nmb_operand){0, nmb_hw_mem(b.hw, "dram"), NMB_NONE, false, 0, 1, 8192, 8192};
  b.in.kind = NMB_INSN_BCAST;
  nmb_cost c = bench_cost(&b);
  CU_ASSERT_DOUBLE_EQUAL(nmb_cost_seconds(&c), 180e-9 + 8192 / 32e9, 1e-15);
  CU_ASSERT_DOUBLE_EQUAL(c.energy[NMB_EPART_LINK], 7 * 8192 * 8 * 4.4e-12, 1e-18);
  b.in.kind = NMB_INSN_GATHER;
  c = bench_cost(&b);
  CU_ASSERT_DOUBLE_EQUAL(nmb_cost_seconds(&c), 180e-9 + 8192 * 7 / 8 / 32e9, 1e-15);
  bench_close(&b);
}

/* CENT's artifact: one RMSNorm of 4096 values and softmax of a row of 512. */
static void
test_vector(void)
{
  bench b = bench_open("include = \"aim-gddr6\";", "pnm", 1, 512, 4096);
  nmb_op soft = {.code = NMB_OP_SOFTMAX, .nin = 1, .nout = 1, .in = {2}, .out = {2}};
  b.in.op = nmb_op_add(b.p, &soft);
  b.in.nopnd = 0;
  const nmb_cost c = bench_cost(&b);
  CU_ASSERT_DOUBLE_EQUAL(nmb_cost_seconds(&c), (66 + 44 + 18.25) / 2e9, 1e-15);
  bench_close(&b);
}

UNIT_MAIN("models", {"bit-serial cells: slices, tiles, rounds", test_cim},
          {"energy by the values", test_cim_values},
          {"energy by what switches", test_cim_toggles},
          {"AiM GEMVs take the public simulator's cycles", test_aim_gemv},
          {"sharing the global buffer buys 1.19x", test_aim_reuse},
          {"a larger global buffer saves turns", test_aim_bigger_buffer},
          {"short rows share pages", test_packed_rows},
          {"refresh stretches time", test_refresh},
          {"AttAcc attention within 5%", test_attacc_kernels},
          {"systolic arrays take SCALE-Sim's cycles", test_systolic},
          {"roofline: bandwidth below the ridge, peak above", test_roofline},
          {"roofline: local values and narrow weights", test_roofline_bytes},
          {"PIM blocks its channels unless row buffers are dual", test_blocking},
          {"energy of a GEMV by hand", test_pim_energy},
          {"unknown energy stays unknown", test_unknown_energy},
          {"links by hand", test_link},
          {"near-memory units take CENT's cycles", test_vector})
