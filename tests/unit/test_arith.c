/* SPDX-License-Identifier: GPL-3.0-or-later */
/* How engines add up products: registers and trees of few bits, sums of pieces in an order,
 * converters of analog arrays with their noise. */
#include <stdio.h>

#include "base/plugin.h"
#include "frontend/infer.h"
#include "ir/formats.h"
#include "ir/machine.h"
#include "ir/values.h"
#include "nmbench/nmb_hw.h"
#include "tests/unit/opbench.h"

enum { T = 3, K = 200, N = 17 };

typedef struct case_ {
  bench b;
  nmb_engine e;
  nmb__arith arith;
  const float *x, *w, *y;
} case_;

static void
case_open(case_ *c, nmb_arith a)
{
  *c = (case_){.b = bench_open(NMB_OP_LINEAR, 1, T, 0)};
  c->e = (nmb_engine){.name = "e", .model = "dram-pim", .arith = a};
  c->arith = (nmb__arith){&c->e, 5, 0};
  c->x = bench_in(&c->b, NMB_ROLE_ACT, DIMS(T, K));
  c->w = bench_in(&c->b, NMB_ROLE_WEIGHT, DIMS(N, K));
  c->y = bench_out(&c->b, NMB_DT_F32, DIMS(T, N));
  c->b.v.arith = &c->arith;
}

static float
half(double x)
{
  return nmb__f16_value(nmb__f16_code((float)x));
}

static float
brain(double x)
{
  return nmb__bf16_value(nmb__bf16_code((float)x));
}

/* One register of fp16: each product and each sum is rounded, first to last. */
static void
test_half_sums(void)
{
  case_ c;
  case_open(&c, (nmb_arith){.multiply = NMB_SUM_FP16, .accumulate = NMB_SUM_FP16,
                            .tree = 1, .lanes = 1});
  bench_run(&c.b);
  double off = 0;
  for (int t = 0; t < T; t++)
    for (int n = 0; n < N; n++) {
      float s = 0;
      double exact = 0;
      for (int k = 0; k < K; k++) {
        const double p = (double)c.x[t * K + k] * (double)c.w[n * K + k];
        s = half((double)s + (double)half(p));
        exact += p;
      }
      CU_ASSERT_DOUBLE_EQUAL(c.y[t * N + n], s, 0);
      off = fmax(off, fabs((double)s - exact));
    }
  CU_ASSERT_TRUE(off > 1e-4 && off < 0.1);
  bench_tiles(&c.b, 1, 2, 8);
  bench_close(&c.b);
}

/* Sixteen lanes in turn, added in pairs. */
static void
test_lanes(void)
{
  case_ c;
  case_open(&c, (nmb_arith){.accumulate = NMB_SUM_FP16, .tree = 1, .lanes = 16});
  bench_run(&c.b);
  for (int n = 0; n < N; n++) {
    float lane[16] = {0};
    for (int k = 0; k < K; k++)
      lane[k % 16] = half((double)lane[k % 16] + (double)(float)((double)c.x[k] *
                                                                  (double)c.w[n * K + k]));
    for (int s = 1; s < 16; s *= 2)
      for (int i = 0; i < 16; i += 2 * s)
        lane[i] = half((double)lane[i] + (double)lane[i + s]);
    CU_ASSERT_DOUBLE_EQUAL(c.y[n], lane[0], 0);
  }
  bench_close(&c.b);
}

/* Pieces of 64 leave as bf16; first to last, last to first, in pairs. */
static void
test_pieces(void)
{
  int differ = 0;
  float was[T * N];
  for (int order = 0; order < 2 * NMB_NORDER; order++) {
    const bool bits = order >= NMB_NORDER; /* of bf16 any order gives the same in fp32 */
    case_ c;
    case_open(&c, (nmb_arith){.tree = 16, .lanes = 1, .piece = 64,
                              .result = bits ? NMB_SUM_BF16 : NMB_SUM_FP32,
                              .order = (nmb_order)(order % NMB_NORDER)});
    bench_run(&c.b);
    for (int n = 0; n < N; n++) {
      float p[4];
      for (int i = 0; i < 4; i++) {
        double s = 0;
        for (int k = 64 * i; k < K && k < 64 * (i + 1); k++)
          s += (double)c.x[k] * (double)c.w[n * K + k];
        p[i] = bits ? brain(s) : (float)s;
      }
      const int kind = order % NMB_NORDER;
      const float want = kind == NMB_ORDER_FORWARD   ? ((p[0] + p[1]) + p[2]) + p[3]
                         : kind == NMB_ORDER_REVERSE ? ((p[3] + p[2]) + p[1]) + p[0]
                                                      : (p[0] + p[1]) + (p[2] + p[3]);
      /* a sum next to the middle of two bf16 may go to either */
      CU_ASSERT_DOUBLE_EQUAL(c.y[n], want, bits ? 0.02 : 1e-5);
      differ += order && !bits && memcmp(&was[n], &c.y[n], sizeof *was) != 0;
    }
    memcpy(was, c.y, sizeof was);
    bench_close(&c.b);
  }
  CU_ASSERT_TRUE(differ > 0);
}

/* ---------------------------------------------------------------------- arrays */
static double
array_error(int adc, double noise, double range, int active, uint64_t seed, float *out)
{
  case_ c;
  case_open(&c, (nmb_arith){.tree = 1, .lanes = 1});
  const nmb_param par[] = {{"rows", 128, NULL},           {"active-rows", active, NULL},
                           {"dac-bits", 1, NULL},         {"adc-bits", adc, NULL},
                           {"adc-noise", noise, NULL},    {"adc-range", range, NULL},
                           {"cell-bits", 1, NULL},        {"input-bits", 8, NULL},
                           {"weight-bits", 8, NULL}};
  c.e.model = "cim";
  c.e.param = par;
  c.e.nparam = (int)(sizeof par / sizeof *par);
  c.arith.seed = seed;
  bench_run(&c.b);
  if (noise > 0)
    bench_tiles(&c.b, 1, 1, 5); /* noise belongs to an output, not to when it is made */
  double sum = 0;
  for (int t = 0; t < T; t++)
    for (int n = 0; n < N; n++) {
      double s = 0;
      for (int k = 0; k < K; k++)
        s += (double)c.x[t * K + k] * (double)c.w[n * K + k];
      sum += (s - (double)c.y[t * N + n]) * (s - (double)c.y[t * N + n]);
    }
  if (out)
    memcpy(out, c.y, T * N * sizeof *out);
  bench_close(&c.b);
  return sqrt(sum / (T * N));
}

static void
test_converters(void)
{
  const double ideal = array_error(0, 0, 1, 0, 1, NULL);
  const double eight = array_error(8, 0, 1, 0, 1, NULL);
  const double six = array_error(6, 0, 1, 0, 1, NULL);
  const double four = array_error(4, 0, 1, 0, 1, NULL);
  CU_ASSERT_TRUE(ideal > 1e-4 && ideal < 0.08); /* 8 bit inputs and weights */
  CU_ASSERT_TRUE(ideal <= eight && eight < six && six < four);
  /* few rows at once: the same converter has to tell fewer sums apart */
  CU_ASSERT_TRUE(array_error(4, 0, 1, 7, 1, NULL) < four / 2);
  CU_ASSERT_DOUBLE_EQUAL(array_error(8, 0, 1, 64, 1, NULL), ideal, 1e-6);
  /* sums are much smaller than the largest: half of the range is better, a hundredth clips */
  CU_ASSERT_TRUE(array_error(5, 0, 0.4, 0, 1, NULL) < array_error(5, 0, 1, 0, 1, NULL));
  CU_ASSERT_TRUE(array_error(8, 0, 0.01, 0, 1, NULL) > 2 * eight);
}

static void
test_noise(void)
{
  float a[T * N], b[T * N], d[T * N];
  const double quiet = array_error(8, 0, 1, 0, 1, NULL);
  const double some = array_error(8, 0.5, 1, 0, 1, a), more = array_error(8, 2, 1, 0, 1, d);
  CU_ASSERT_TRUE(quiet < some && some < more);
  CU_ASSERT_DOUBLE_EQUAL(array_error(8, 0.5, 1, 0, 1, b), some, 0);
  CU_ASSERT_EQUAL(memcmp(a, b, sizeof a), 0);
  array_error(8, 0.5, 1, 0, 2, b);
  CU_ASSERT_NOT_EQUAL(memcmp(a, b, sizeof a), 0);
}

/* ----------------------------------------------------------------- a real model */
/* KL divergence of the first tokens of a story. */
static double
model_kl(const char *machine, const char *weights, const char *prefer, uint64_t seed)
{
  static const int32_t ids[] = {1,   403, 407, 261, 378, 432, 383, 286, 261, 376, 298,
                                315, 421, 395, 317, 426, 317, 381, 261, 262, 423};
  enum { n = sizeof ids / sizeof *ids };
  nmb_run *run = nmb__run_open(NULL);
  nmb__wmodel *m;
  nmb_hw *hw = NULL;
  nmb__pipeline pl;
  nmb__agreement a = {0};
  const float *y;
  nmb__run_seed(run, seed);
  CU_ASSERT_EQUAL_FATAL(nmb__plugins_load(run, NULL), NMB_OK);
  CU_ASSERT_EQUAL_FATAL(nmb__wmodel_open(run, "stories260k", &m), NMB_OK);
  CU_ASSERT_EQUAL_FATAL(nmb__machine_load(run, machine, &hw), NMB_OK);
  const char *passes = nmb_format(
      run,
      "legalize,quantize{weights=%s,activations=bf16,kv=bf16,group=64},fuse-none,"
      "dispatch-rule{threshold=1e9,prefer=%s},map-interleave,sched-inorder,mem-bump,"
      "emit-queues",
      weights, prefer);
  CU_ASSERT_EQUAL_FATAL(nmb__pipeline_parse(run, NMB_NOLOC, passes, &pl), NMB_OK);
  nmb__infer *f = nmb__infer_open(run, m);
  nmb__infer_compiled(run, f, hw, &pl);
  CU_ASSERT_EQUAL_FATAL(nmb__infer_step(run, f, ids, n, true, &y), NMB_OK);
  nmb__agreement_add(&a, nmb__infer_exact(f), y, n, 512, NULL);
  nmb__infer_close(f);
  nmb__machine_free(hw);
  nmb__wmodel_close(m);
  nmb__run_close(run);
  return a.divergence / n;
}

static void
test_model(void)
{
  const double ideal = model_kl("cim-jia-x16+ideal", "int8", "cim", 1);
  const double eight = model_kl("cim-jia-x16", "int8", "cim", 1);
  const double four = model_kl("cim-jia-x16+adc4", "int8", "cim", 1);
  const double noise = model_kl("cim-jia-x16+noise", "int8", "cim", 1);
  CU_ASSERT_TRUE(ideal < 0.01 && ideal < eight && eight < four && four > 1);
  CU_ASSERT_TRUE(noise > eight);
  CU_ASSERT_DOUBLE_EQUAL(model_kl("cim-jia-x16+noise", "int8", "cim", 1), noise, 0);
  CU_ASSERT_NOT_EQUAL(model_kl("cim-jia-x16+noise", "int8", "cim", 2), noise);
  /* fp16 sums in the banks of HBM-PIM cost a little beside those of AiM's tree in fp32 */
  const double aim = model_kl("aim-gddr6", "fp16", "pim", 1);
  const double hbm = model_kl("hbm2-pim", "fp16", "pim", 1);
  CU_ASSERT_TRUE(aim < 0.005 && hbm < 0.005);
  CU_ASSERT_NOT_EQUAL(aim, hbm);
}

UNIT_MAIN("arith", {"products and sums of fp16 round one by one", test_half_sums},
          {"lanes take terms in turn and are added in pairs", test_lanes},
          {"sums of pieces are added in an order", test_pieces},
          {"narrow converters, many rows and clipping cost accuracy", test_converters},
          {"noise is that of its seed, wherever it is drawn", test_noise},
          {"a real model: 4 bits are worse than 8, 8 than none", test_model})
