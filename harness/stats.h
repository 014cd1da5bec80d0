/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Statistics of results.  Simulated numbers do not vary from run to run: what
 * varies is the model, the machine or the workload, and that is what a
 * confidence interval here speaks about.  There are no p-values.
 *
 * Geometric means are for ratios only; times are added, never averaged so.
 */
#ifndef NMB__STATS_H
#define NMB__STATS_H

#include "nmbench/nmb_base.h"

typedef enum nmb__boot { NMB__BOOT_PERCENTILE, NMB__BOOT_BCA } nmb__boot;

/* n: units that were resampled.  low, high: NaN where n < 3, since resampling two
 * numbers says nothing about a third. */
typedef struct nmb__interval {
  int n;
  double value, low, high;
} nmb__interval;

typedef struct nmb__boot_spec {
  nmb__boot kind;
  double confidence; /* 0.95 */
  int resamples;     /* 10000 */
  uint64_t seed;     /* the same seed gives the same interval */
} nmb__boot_spec;
#define NMB__BOOT_DEFAULT ((nmb__boot_spec){NMB__BOOT_BCA, 0.95, 10000, 1})

/* NaN if n is 0 or a value is not positive and finite. */
NMB_API double nmb__geomean(const double *x, int n);

/* The geometric mean of the units' geometric means, and its bootstrap interval.
 * unit[i] >= 0 says which unit ratio i belongs to (a model, say): ratios of one unit
 * are drawn together, as they are not independent.  unit NULL: each ratio is one. */
NMB_API nmb__interval nmb__geomean_interval(nmb_run *, const double *ratio,
                                            const int *unit, int n,
                                            const nmb__boot_spec *);

/* Linear interpolation between order statistics (R's type 7); NaN if n is 0. */
NMB_API double nmb__quantile(nmb_run *, const double *x, int n, double p);
NMB_API double nmb__median(nmb_run *, const double *x, int n);

/* Points that no other point beats, when less is better in both directions: none is
 * at most as large in both and smaller in one.  Equal points are kept together; a
 * NaN is never on the front.  Returns how many.  O(n log n). */
NMB_API int nmb__pareto(nmb_run *, const double *x, const double *y, int n, bool *front);

/* For each a[i] the j with b[j] equal (as text), NMB_NONE if there is none; the
 * first one where several are.  Returns how many found a partner.  O(n log n). */
NMB_API int nmb__match(nmb_run *, const char *const *a, int na, const char *const *b,
                       int nb, int *partner);
#endif
