/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The systolic array: closed form, clocked cells, and what they compute. */
#include <stdio.h>
#include <stdlib.h>

#include "base/run.h"
#include "nmbench/nmb_array.h"
#include "tests/unit/unit.h"

static bool
same(const nmb_array_work *a, const nmb_array_work *b)
{
  return a->cycles == b->cycles && a->folds == b->folds && a->macs == b->macs &&
         a->fold_cycles == b->fold_cycles && a->reads_input == b->reads_input &&
         a->reads_weight == b->reads_weight && a->writes_output == b->writes_output &&
         a->mapped == b->mapped && a->busy == b->busy && a->streamed == b->streamed;
}

static int64_t
below(nmb_run *run, int64_t n)
{
  return 1 + (int64_t)(nmb_rand(run) % (uint64_t)n);
}

/* Random arrays and products, small ones against large arrays and the other way
 * round: the clocked array multiplies right, and takes what the closed form says. */
static void
test_random(void)
{
  nmb_run *run = nmb__run_open(stderr);
  for (int i = 0; i < 300; i++) {
    const nmb_array a = {below(run, 9), below(run, 9), (nmb_flow)(i % NMB_NFLOW)};
    const int64_t m = below(run, 20), n = below(run, 20), k = below(run, 20);
    int32_t *x = NMB_NEW(run, int32_t, m * k), *w = NMB_NEW(run, int32_t, k * n);
    int64_t *y = NMB_NEW(run, int64_t, m * n);
    for (int64_t j = 0; j < m * k; j++)
      x[j] = (int32_t)below(run, 2001) - 1001;
    for (int64_t j = 0; j < k * n; j++)
      w[j] = (int32_t)below(run, 2001) - 1001;
    const nmb_array_work closed = nmb_array_gemm(&a, m, n, k);
    const nmb_array_work full = nmb_array_step(run, &a, m, n, k, x, w, y);
    nmb_array_work once;
    CU_ASSERT_TRUE_FATAL(nmb_array_stepped(run, &a, m, n, k, 1e9, &once));
    CU_ASSERT_TRUE(same(&closed, &full));
    CU_ASSERT_TRUE(same(&closed, &once));
    for (int64_t r = 0; r < m; r++)
      for (int64_t c = 0; c < n; c++) {
        int64_t sum = 0;
        for (int64_t j = 0; j < k; j++)
          sum += (int64_t)x[r * k + j] * w[j * n + c];
        CU_ASSERT_EQUAL_FATAL(y[r * n + c], sum);
      }
  }
  nmb__run_close(run);
}

/* One product of one vector: the parts of a fold, counted by hand. */
static void
test_one_vector(void)
{
  nmb_run *run = nmb__run_open(stderr);
  const nmb_array ws = {4, 3, NMB_FLOW_WS}, os = {4, 3, NMB_FLOW_OS};
  nmb_array_work w;
  /* 4 clocks load, the word enters row 3 at clock 3 and is in column 2 two later */
  CU_ASSERT_TRUE(nmb_array_stepped(run, &ws, 1, 3, 4, 1e6, &w));
  CU_ASSERT_EQUAL(w.cycles, 4 + 1 + 3 + 2 - 1);
  CU_ASSERT_EQUAL(w.macs, 12);
  CU_ASSERT_EQUAL(w.reads_input, 4);
  CU_ASSERT_EQUAL(w.reads_weight, 12);
  CU_ASSERT_EQUAL(w.writes_output, 3);
  CU_ASSERT_TRUE(nmb_array_stepped(run, &os, 1, 3, 4, 1e6, &w));
  CU_ASSERT_EQUAL(w.cycles, 4 + 3 + 2 - 1);
  CU_ASSERT_EQUAL(w.mapped, 0.25);
  nmb__run_close(run);
}

/* Sums of partial products leave once for each fold of K, but once if they stay. */
static void
test_partial_sums(void)
{
  const nmb_array ws = {8, 8, NMB_FLOW_WS}, os = {8, 8, NMB_FLOW_OS},
                  is = {8, 8, NMB_FLOW_IS};
  CU_ASSERT_EQUAL(nmb_array_gemm(&ws, 5, 8, 20).writes_output, 3 * 40);
  CU_ASSERT_EQUAL(nmb_array_gemm(&os, 5, 8, 20).writes_output, 40);
  CU_ASSERT_EQUAL(nmb_array_gemm(&is, 5, 9, 20).reads_weight, 180);
  CU_ASSERT_EQUAL(nmb_array_gemm(&is, 9, 9, 20).reads_weight, 360);
}

static void
test_limit(void)
{
  nmb_run *run = nmb__run_open(stderr);
  const nmb_array a = {8, 8, NMB_FLOW_WS};
  nmb_array_work w;
  /* two shapes of folds, of 8 + 8 + 8 + 5 - 2 clocks */
  CU_ASSERT_TRUE(nmb_array_stepped(run, &a, 5, 8, 20, 2 * 27 * 64, &w));
  CU_ASSERT_FALSE(nmb_array_stepped(run, &a, 5, 8, 20, 2 * 27 * 64 - 1, &w));
  CU_ASSERT_EQUAL(nmb_flow_find("is"), NMB_FLOW_IS);
  CU_ASSERT_EQUAL(nmb_flow_find("rs"), NMB_NFLOW);
  nmb__run_close(run);
}

UNIT_MAIN("array",
          {"the clocked array multiplies, as fast as the closed form says", test_random},
          {"the parts of one fold", test_one_vector},
          {"sums that do not stay leave for each fold", test_partial_sums},
          {"no more is stepped than allowed", test_limit})
