/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Statistics against values worked out by hand or, for the bootstrap, against the
 * exact distribution of all n^n draws (enumerated with Python's standard library). */
#include <math.h>
#include <string.h>

#include "base/run.h"
#include "harness/stats.h"
#include "unit.h"

#define NEAR(a, b, eps) CU_ASSERT_DOUBLE_EQUAL(a, b, eps)

static void
test_geomean(void)
{
  const double x[] = {2, 8, 0.5};
  NEAR(nmb__geomean(x, 3), 2, 1e-12); /* (2 * 8 / 2)^(1/3) */
  const double zero[] = {2, 0};
  CU_ASSERT_TRUE(isnan(nmb__geomean(zero, 2)));
  const double inf[] = {2, INFINITY};
  CU_ASSERT_TRUE(isnan(nmb__geomean(inf, 2)));
  CU_ASSERT_TRUE(isnan(nmb__geomean(x, 0)));
}

/* Three logs 0, 1, 2 (base 2): a draw of three has mean 0 with probability 1/27, mean
 * 1/3 with 3/27.  So the 2.5 % point is 0 and the 5 % point 1/3; mirrored above. */
static void
test_percentile(void)
{
  nmb_run *run = nmb__run_open(NULL);
  const double x[] = {1, 2, 4};
  nmb__boot_spec spec = {NMB__BOOT_PERCENTILE, 0.95, 20000, 7};
  nmb__interval ci = nmb__geomean_interval(run, x, NULL, 3, &spec);
  CU_ASSERT_EQUAL(ci.n, 3);
  NEAR(ci.value, 2, 1e-12);
  NEAR(ci.low, 1, 1e-9);
  NEAR(ci.high, 4, 1e-9);
  spec.confidence = 0.90;
  ci = nmb__geomean_interval(run, x, NULL, 3, &spec);
  NEAR(ci.low, pow(2, 1.0 / 3), 1e-9);
  NEAR(ci.high, pow(2, 5.0 / 3), 1e-9);
  nmb__run_close(run);
}

static const double skewed[] = {1.02, 1.05, 1.11, 1.30, 2.10, 1.07};

static void
test_bca(void)
{
  nmb_run *run = nmb__run_open(NULL);
  nmb__boot_spec spec = {NMB__BOOT_PERCENTILE, 0.90, 200000, 3};
  nmb__interval ci = nmb__geomean_interval(run, skewed, NULL, 6, &spec);
  NEAR(ci.value, 1.2305798865, 1e-9);
  NEAR(ci.low, 1.0644755, 2e-3);
  NEAR(ci.high, 1.4915176, 5e-3);
  spec.kind = NMB__BOOT_BCA; /* moves both ends towards the long tail */
  ci = nmb__geomean_interval(run, skewed, NULL, 6, &spec);
  NEAR(ci.low, 1.0878003, 2e-3);
  NEAR(ci.high, 1.5944919, 5e-3);
  nmb__run_close(run);
}

static void
test_seed(void)
{
  nmb_run *run = nmb__run_open(NULL);
  nmb__boot_spec spec = {NMB__BOOT_BCA, 0.95, 500, 11};
  const nmb__interval a = nmb__geomean_interval(run, skewed, NULL, 6, &spec);
  const nmb__interval b = nmb__geomean_interval(run, skewed, NULL, 6, &spec);
  CU_ASSERT_TRUE(a.low == b.low && a.high == b.high);
  spec.seed = 12;
  const nmb__interval c = nmb__geomean_interval(run, skewed, NULL, 6, &spec);
  CU_ASSERT_TRUE(a.low != c.low || a.high != c.high);
  CU_ASSERT_TRUE(a.value == c.value);
  nmb__run_close(run);
}

/* Three models, the first with four ratios: it still counts once. */
static void
test_units(void)
{
  nmb_run *run = nmb__run_open(NULL);
  const double x[] = {2, 2, 8, 8, 2, 8};
  const int unit[] = {0, 0, 0, 0, 1, 2};
  const nmb__boot_spec spec = NMB__BOOT_DEFAULT;
  const nmb__interval ci = nmb__geomean_interval(run, x, unit, 6, &spec);
  CU_ASSERT_EQUAL(ci.n, 3);
  NEAR(ci.value, 4, 1e-12); /* units: 4, 2, 8 */
  CU_ASSERT_TRUE(ci.low >= 2 && ci.low < 4 && ci.high > 4 && ci.high <= 8);
  nmb__run_close(run);
}

static void
test_few(void)
{
  nmb_run *run = nmb__run_open(NULL);
  const nmb__boot_spec spec = NMB__BOOT_DEFAULT;
  const double x[] = {2, 8, 2, 2};
  const int unit[] = {0, 0, 1, 1}; /* four ratios, two units */
  nmb__interval ci = nmb__geomean_interval(run, x, unit, 4, &spec);
  CU_ASSERT_EQUAL(ci.n, 2);
  NEAR(ci.value, sqrt(8), 1e-12);
  CU_ASSERT_TRUE(isnan(ci.low) && isnan(ci.high));
  ci = nmb__geomean_interval(run, x, NULL, 0, &spec);
  CU_ASSERT_TRUE(ci.n == 0 && isnan(ci.value));
  const double bad[] = {1, 2, -3};
  ci = nmb__geomean_interval(run, bad, NULL, 3, &spec);
  CU_ASSERT_TRUE(isnan(ci.value) && isnan(ci.low));
  const double same[] = {1.5, 1.5, 1.5, 1.5};
  ci = nmb__geomean_interval(run, same, NULL, 4, &spec);
  NEAR(ci.low, 1.5, 1e-12);
  NEAR(ci.high, 1.5, 1e-12);
  nmb__run_close(run);
}

static void
test_quantile(void)
{
  nmb_run *run = nmb__run_open(NULL);
  const double x[] = {9, 1, 4, 2};
  NEAR(nmb__median(run, x, 4), 3, 1e-12);
  NEAR(nmb__quantile(run, x, 4, 0.25), 1.75, 1e-12); /* 1 + 0.75 * (2 - 1) */
  NEAR(nmb__quantile(run, x, 4, 1), 9, 1e-12);
  NEAR(x[0], 9, 0); /* the input stays as it was */
  CU_ASSERT_TRUE(isnan(nmb__median(run, x, 0)));
  nmb__run_close(run);
}

static void
test_pareto(void)
{
  nmb_run *run = nmb__run_open(NULL);
  /*                  on  no  on  twin of 2  no(same x)  NaN  no(same y) */
  const double x[] = {1, 3, 2, 2, 2, 0, 4, 5};
  const double y[] = {9, 8, 5, 5, 6, NAN, 5, 1};
  const bool want[] = {true, false, true, true, false, false, false, true};
  bool front[8];
  CU_ASSERT_EQUAL(nmb__pareto(run, x, y, 8, front), 4);
  for (int i = 0; i < 8; i++)
    CU_ASSERT_EQUAL(front[i], want[i]);
  CU_ASSERT_EQUAL(nmb__pareto(run, x, y, 0, front), 0);
  nmb__run_close(run);
}

static void
test_match(void)
{
  nmb_run *run = nmb__run_open(NULL);
  const char *a[] = {"m1/8", "m2/8", "m3/8"}, *b[] = {"m3/8", "m1/8", "m1/8", "m4/8"};
  int partner[3];
  CU_ASSERT_EQUAL(nmb__match(run, a, 3, b, 4, partner), 2);
  CU_ASSERT_EQUAL(partner[0], 1); /* the first of two */
  CU_ASSERT_EQUAL(partner[1], NMB_NONE);
  CU_ASSERT_EQUAL(partner[2], 0);
  nmb__run_close(run);
}

UNIT_MAIN("stats", {"a geometric mean of what is not positive is unknown", test_geomean},
          {"percentile bootstrap of three values", test_percentile},
          {"BCa bootstrap against all draws of six", test_bca},
          {"the seed alone decides the interval", test_seed},
          {"ratios of one unit are drawn together", test_units},
          {"no interval for fewer than three units", test_few},
          {"quantiles interpolate", test_quantile},
          {"the Pareto front keeps twins and drops ties", test_pareto},
          {"matching by key", test_match})
