/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Figures: from the table of results to gnuplot.
 *
 * What to draw stands in the `figures` list of the experiment file, which the
 * result file carries as text, so that a result file alone is enough.  A figure
 * becomes NAME.dat (tab separated), NAME.gp (a gnuplot script that reads only
 * NAME.dat) and, by gnuplot, NAME.pdf, NAME.svg and NAME.png.
 */
#ifndef NMB__FIGURE_H
#define NMB__FIGURE_H

#include "harness/store.h"

/* X(id, name, help) */
#define NMB__FIGKIND_MAP(X)                                                              \
  X(BARS, "bars", "speed-up over a named case, by group, with its geometric mean")       \
  X(GAP, "gap", "how many times the bound a metric is, as bars")                         \
  X(STACKED, "stacked", "parts of a metric, which must add up to it")                    \
  X(PARETO, "pareto", "two metrics of every cell, and the cells that none beats")        \
  X(LINES, "lines", "speed-up against a number")                                         \
  X(WATERFALL, "waterfall",                                                              \
    "from one pipeline to another: what leaving out each part costs")

typedef enum nmb__figkind {
#define X(id, name, help) NMB__FIG_##id,
  NMB__FIGKIND_MAP(X)
#undef X
      NMB__NFIGKIND
} nmb__figkind;

typedef struct nmb__pick { /* the column has one of these values, in this order */
  const char *column;
  int n;
  const char **value;
} nmb__pick;

typedef struct nmb__figure {
  const char *name, *title;
  nmb__figkind kind;
  const char *x, *y;  /* columns */
  const char *z, *label; /* (optional) of pareto: shown by area, written beside points */
  const char *error;     /* (optional) of pareto: half the length of y's whiskers */
  const char *columns;   /* (optional) of pareto: more metrics for its tables */
  const char *group;  /* column along the x axis */
  const char *series; /* column told apart by colour */
  const char *facet;  /* (optional) column: one panel for each value */
  const char
      *relative_to; /* value of column relative_by that the others are divided by */
  const char *relative_by;
  const char *of;       /* waterfall: the pipeline at the end */
  const char *parts;    /* dimension of y's breakdown, or two with a space between */
  const char *unit;     /* (optional) column that is resampled for the mean over groups */
  const char *width;    /* column or page */
  const char *log;      /* "", "x", "y", "xy" */
  const char *interval; /* bca or percentile */
  bool geomean, share;
  double ymin, ymax, height, confidence; /* 0: chosen; cm; */
  int resamples;
  int npick;
  const nmb__pick *pick;
  nmb_loc loc;
} nmb__figure;

typedef struct nmb__figures {
  int n;
  const nmb__figure *v;
  int nlabel; /* names to print instead of those in the file */
  const char *const *label_from, *const *label_to;
} nmb__figures;

/* The `figures` and `labels` lists of an experiment file; unknown keys and kinds are
 * errors.  A file without the lists has no figures. */
nmb_status nmb__figures_parse(nmb_run *, const char *file, const char *text,
                              nmb__figures *out);

/* Writes dir/NAME.dat and dir/NAME.gp. */
nmb_status nmb__figure_write(nmb_run *, const nmb__store *, const nmb__figures *,
                             const nmb__figure *, const char *dir);
/* Runs gnuplot on dir/NAME.gp.  NMB_UNSUPPORTED if there is no gnuplot. */
nmb_status nmb__figure_render(nmb_run *, const nmb__figure *, const char *dir);
/* All figures of the results (or the one called `only`), with a line of progress for
 * each on `log` (optional).  Goes on after a failure and returns the first. */
nmb_status nmb__figures_draw(nmb_run *, const nmb__store *, const char *dir,
                             const char *only, FILE *log);
#endif
