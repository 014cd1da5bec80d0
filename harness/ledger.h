/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The ledger: published numbers, the command that gives ours, and how far apart they
 * are.  docs/validation.md tells the format of the files. */
#ifndef NMB__LEDGER_H
#define NMB__LEDGER_H

#include <jansson.h>

#include "nmbench/nmb_base.h"

typedef enum nmb__tolerance {
  NMB__TOL_WITHIN,   /* relative error (ratios: of the logarithm) up to `limit` */
  NMB__TOL_EXACT,    /* equal to the printed digits of an integer */
  NMB__TOL_AT_LEAST, /* a bound */
  NMB__TOL_AT_MOST,
  NMB__TOL_ORDER /* counts for Kendall's tau only */
} nmb__tolerance;

typedef struct nmb__target {
  const char *file; /* stem: "systolic" */
  const char *target, *source, *command, *result, *unit, *tolerance, *note;
  double published; /* as printed, in `unit` */
  double scale;     /* of the unit: published * scale is in base units */
  nmb__tolerance kind;
  double limit;
  bool quick;      /* for make check */
  bool calibrated; /* some constant was fitted on other rows of the source */
  bool fit;        /* a constant was fitted on this row: it does not count */
  bool doubtful;   /* the source is known to be wrong or to contradict itself here */
  nmb_loc loc;
} nmb__target;

#define NMB__VERDICT_MAP(X)                                                              \
  X(PASS, "pass", "within the tolerance")                                                \
  X(FAIL, "fail", "not within the tolerance")                                            \
  X(DOUBT, "doubt", "not within it, and the note says why the source is doubted")        \
  X(FIT, "fit", "a constant was fitted on this row, so it does not count")               \
  X(ABSENT, "not modelled", "no command of ours can express it")                         \
  X(ERROR, "error", "the command failed")
typedef enum nmb__verdict {
#define X(id, name, help) NMB__VERDICT_##id,
  NMB__VERDICT_MAP(X)
#undef X
      NMB__NVERDICT
} nmb__verdict;
const char *nmb__verdict_name(nmb__verdict);

typedef struct nmb__outcome {
  double ours;  /* in the target's unit; NaN if there is none */
  double error; /* relative; of a ratio (unit x) the logarithm; NaN if there is none */
  nmb__verdict verdict;
  const char *reason; /* of ABSENT and ERROR */
} nmb__outcome;

/* Adds the rows of a file; every column is checked, the place of a fault is told. */
nmb_status nmb__ledger_read(nmb_run *, const char *path, nmb__target **all, int *n);

/* A number in what a command printed: "cycles", "energy.total", "metrics.latency" (of
 * an array, the first member whose "name" is that; then its "value"), with factors:
 * "4096/time", "1e-3*time".  False if it is not there or not a number. */
bool nmb__ledger_pick(const json_t *, const char *result, double *out);
/* The outcome for a value in base units. */
nmb__outcome nmb__ledger_judge(const nmb__target *, double value);

/* All rows of one source and column. */
typedef struct nmb__ledger_sum {
  const char *source;
  bool calibrated;
  int rows, counted, within, absent; /* counted: with an error, and no fit */
  double mean, median, worst;        /* of the absolute error; NaN: none counted */
  double tau; /* Kendall's, over pairs with the same unit; NaN: none */
} nmb__ledger_sum;
/* In order of first appearance; how many. */
int nmb__ledger_sums(nmb_run *, const nmb__target *, const nmb__outcome *, int n,
                     nmb__ledger_sum **out);
#endif
