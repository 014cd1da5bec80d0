/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What figures have in common before anything is drawn: cells chosen and sorted
 * into groups, ratios between cells that differ in one thing, means of them. */
#ifndef NMB__FIGURE_DATA_H
#define NMB__FIGURE_DATA_H

#include "harness/figure.h"
#include "harness/stats.h"

/* The values that a column takes, in the order in which they are drawn: as the filter
 * lists them, else as the file has them. */
typedef struct nmb__axis {
  int n;
  const char **value;
  int *of; /* [ncell] the index of the cell's value; NMB_NONE: not in the figure */
} nmb__axis;

typedef struct nmb__figdata {
  nmb_run *run;
  const nmb__store *store;
  const nmb__figures *all;
  const nmb__figure *fig;
  bool *use; /* [ncell] cells that pass the filters */
  nmb__axis group, series, facet;
  int *unit;     /* [ncell] what is resampled for a mean over groups */
  double *ratio; /* [ncell] NaN: the cell or its partner has no value */
} nmb__figdata;

typedef struct nmb__bar {
  nmb__interval mean;
  const char *missing; /* NULL, or why there is no value: "OOM" or "n/a" */
} nmb__bar;

/* NMB_BADINPUT if a column is unknown or no cell is left. */
nmb_status nmb__figdata_open(nmb_run *, const nmb__store *, const nmb__figures *,
                             const nmb__figure *, nmb__figdata *);
/* Fills ratio[]: how much better each cell is than the one that has relative_to in
 * column relative_by and is alike in all else (above 1: better). */
nmb_status nmb__figdata_speedup(nmb__figdata *);
/* Fills ratio[] with y / x. */
nmb_status nmb__figdata_quotient(nmb__figdata *);
/* The mean of ratio[] over the cells of a facet, group (NMB_NONE: all) and series.
 * units: cells of one unit count once, together; else each cell counts. */
nmb__bar nmb__figdata_bar(const nmb__figdata *, int facet, int group, int series,
                          bool units);

/* What ratio[] is, for an axis: "speed-up over baseline". */
const char *nmb__figdata_ratio_name(const nmb__figdata *);
/* The column as text, numbers as "%.10g"; NMB_BADINPUT if there is none. */
nmb_status nmb__column_text(nmb_run *, const nmb__store *, nmb_loc, const char *column,
                            const char ***out);
/* A metric's column. */
nmb_status nmb__column_real(nmb_run *, const nmb__store *, nmb_loc, const char *column,
                            const nmb__col **out);
/* As the reader should see it. */
const char *nmb__label(const nmb__figures *, const char *value);
bool nmb__cell_ok(const nmb__store *, int cell);
#endif
