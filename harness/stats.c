/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Bootstrap after Efron and Tibshirani, An Introduction to the Bootstrap, 1993:
 * percentile (chapter 13) and bias-corrected and accelerated (chapter 14). */
#include "harness/stats.h"

#include <gsl/gsl_cdf.h>
#include <gsl/gsl_rng.h>
#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/run.h"

double
nmb__geomean(const double *x, int n)
{
  double sum = 0;
  for (int i = 0; i < n; i++) {
    if (!(x[i] > 0) || !isfinite(x[i]))
      return NAN;
    sum += log(x[i]);
  }
  return n > 0 ? exp(sum / n) : NAN;
}

/* Means of the logarithms by unit, in out; returns the number of units. */
static int
unit_means(nmb_run *run, const double *ratio, const int *unit, int n, double **out)
{
  int units = 0;
  for (int i = 0; i < n; i++)
    units = unit == NULL ? n : unit[i] >= units ? unit[i] + 1 : units;
  double *sum = NMB_NEW(run, double, units + 1);
  int *count = NMB_NEW(run, int, units + 1);
  for (int i = 0; i < n; i++) {
    const int u = unit == NULL ? i : unit[i];
    sum[u] += ratio[i] > 0 ? log(ratio[i]) : NAN;
    count[u]++;
  }
  int used = 0;
  for (int u = 0; u < units; u++)
    if (count[u] > 0)
      sum[used++] = sum[u] / count[u];
  *out = sum;
  return used;
}

/* Draws `times` means of n values with replacement, sorted. */
static double *
resample(nmb_run *run, const double *x, int n, int times, uint64_t seed)
{
  gsl_rng *rng = gsl_rng_alloc(gsl_rng_mt19937);
  if (rng == NULL)
    nmb__panic("out of memory");
  gsl_rng_set(rng, (unsigned long)seed);
  double *mean = NMB_NEW(run, double, times);
  for (int t = 0; t < times; t++) {
    double sum = 0;
    for (int i = 0; i < n; i++)
      sum += x[gsl_rng_uniform_int(rng, (unsigned long)n)];
    mean[t] = sum / n;
  }
  gsl_rng_free(rng);
  gsl_sort(mean, 1, (size_t)times);
  return mean;
}

/* How skewed the leave-one-out means are: Efron and Tibshirani, (14.15). */
static double
acceleration(const double *x, int n, double mean)
{
  double square = 0, cube = 0;
  for (int i = 0; i < n; i++) {
    const double d = (x[i] - mean) / (n - 1); /* mean without i, from their mean */
    square += d * d;
    cube += d * d * d;
  }
  return square > 0 ? cube / (6 * pow(square, 1.5)) : 0;
}

/* The share of sorted means below the estimate; ties count half, so that values
 * that are all alike have no bias. */
static double
share_below(const double *sorted, int n, double estimate)
{
  double below = 0;
  const double eps = 1e-12 * (fabs(estimate) + 1e-3);
  for (int i = 0; i < n && sorted[i] <= estimate + eps; i++)
    below += sorted[i] < estimate - eps ? 1 : 0.5;
  return below / n;
}

static double
bca_level(double z0, double a, double level)
{
  const double z = z0 + gsl_cdf_ugaussian_Pinv(level);
  return gsl_cdf_ugaussian_P(z0 + z / (1 - a * z));
}

nmb__interval
nmb__geomean_interval(nmb_run *run, const double *ratio, const int *unit, int n,
                      const nmb__boot_spec *spec)
{
  double *x;
  const int units = unit_means(run, ratio, unit, n, &x);
  nmb__interval out = {units, NAN, NAN, NAN};
  if (units == 0)
    return out;
  const double mean = gsl_stats_mean(x, 1, (size_t)units);
  out.value = exp(mean);
  if (units < 3 || !isfinite(mean))
    return out;
  double *boot = resample(run, x, units, spec->resamples, spec->seed);
  double low = (1 - spec->confidence) / 2, high = 1 - low;
  const double share = share_below(boot, spec->resamples, mean);
  if (spec->kind == NMB__BOOT_BCA && share > 0 && share < 1) {
    const double z0 = gsl_cdf_ugaussian_Pinv(share);
    const double a = acceleration(x, units, mean);
    low = bca_level(z0, a, low);
    high = bca_level(z0, a, high);
  }
  out.low =
      exp(gsl_stats_quantile_from_sorted_data(boot, 1, (size_t)spec->resamples, low));
  out.high =
      exp(gsl_stats_quantile_from_sorted_data(boot, 1, (size_t)spec->resamples, high));
  return out;
}

double
nmb__quantile(nmb_run *run, const double *x, int n, double p)
{
  if (n == 0)
    return NAN;
  double *sorted = NMB_NEW(run, double, n);
  memcpy(sorted, x, (size_t)n * sizeof *x);
  gsl_sort(sorted, 1, (size_t)n);
  return gsl_stats_quantile_from_sorted_data(sorted, 1, (size_t)n, p);
}

double
nmb__median(nmb_run *run, const double *x, int n)
{
  return nmb__quantile(run, x, n, 0.5);
}

typedef struct point {
  double x, y;
  int i;
} point;

static int
by_x_then_y(const void *va, const void *vb)
{
  const point *a = va, *b = vb;
  if (a->x != b->x)
    return a->x < b->x ? -1 : 1;
  if (a->y != b->y)
    return a->y < b->y ? -1 : 1;
  return (a->i > b->i) - (a->i < b->i);
}

int
nmb__pareto(nmb_run *run, const double *x, const double *y, int n, bool *front)
{
  point *p = NMB_NEW(run, point, n + 1);
  int m = 0, found = 0;
  for (int i = 0; i < n; i++) {
    front[i] = false;
    if (!isnan(x[i]) && !isnan(y[i]))
      p[m++] = (point){x[i], y[i], i};
  }
  qsort(p, (size_t)m, sizeof *p, by_x_then_y);
  double best = INFINITY; /* least y so far; points with it stood further left */
  for (int i = 0; i < m; i++) {
    const bool same = i > 0 && p[i].x == p[i - 1].x && p[i].y == p[i - 1].y;
    const bool on = same ? front[p[i - 1].i] : p[i].y < best;
    front[p[i].i] = on;
    found += on;
    if (p[i].y < best)
      best = p[i].y;
  }
  return found;
}

typedef struct key {
  const char *text;
  int i;
} key;

static int
by_text(const void *va, const void *vb)
{
  const key *a = va, *b = vb;
  const int c = strcmp(a->text, b->text);
  return c != 0 ? c : (a->i > b->i) - (a->i < b->i);
}

int
nmb__match(nmb_run *run, const char *const *a, int na, const char *const *b, int nb,
           int *partner)
{
  key *k = NMB_NEW(run, key, nb + 1);
  for (int i = 0; i < nb; i++)
    k[i] = (key){b[i], i};
  qsort(k, (size_t)nb, sizeof *k, by_text);
  int found = 0;
  for (int i = 0; i < na; i++) {
    int lo = 0, hi = nb;
    while (lo < hi) { /* the first key that is not less */
      const int mid = lo + (hi - lo) / 2;
      if (strcmp(k[mid].text, a[i]) < 0)
        lo = mid + 1;
      else
        hi = mid;
    }
    const bool hit = lo < nb && strcmp(k[lo].text, a[i]) == 0;
    partner[i] = hit ? k[lo].i : NMB_NONE;
    found += hit;
  }
  return found;
}
