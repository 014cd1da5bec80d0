/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The cells of an experiment: one for each combination of labels.
 *
 * A cell's key is a hash of all that decides its result; cells with equal keys
 * (an ablation that changes nothing, a routing of a model without experts) are one
 * job, run once and reported in each of their rows. */
#ifndef NMB__SWEEP_H
#define NMB__SWEEP_H

#include "harness/experiment.h"

typedef struct nmb__cell {
  const char *sweeps;          /* names, with a space between */
  int model, machine, variant; /* rows of the experiment's tables */
  const nmb__workload *workload;
  const char **param; /* [e->nparam], "" where the sweep has none */
  const char *passes; /* canonical */
  bool wanted;        /* by the filters of the command line */
  int job;
  const char *const *sim; /* [nsim] of the experiment, parameters filled in */
  const char *sims;       /* all of them */
} nmb__cell;

typedef struct nmb__job {
  char key[33];
  int cell;    /* the first cell that has it */
  bool wanted; /* by any of its cells */
  const nmb__pipeline *pipeline;
} nmb__job;

typedef struct nmb__plan {
  const nmb__experiment *e;
  int ncell, njob;
  int nrepeated; /* cells that several sweeps hold, counted once */
  int *nskipped; /* cells left out by each of e->skip */
  int nwanted;   /* cells that --only and --except leave */
  nmb__cell *cell;
  nmb__job *job;
} nmb__plan;

/* only, except: (optional) filters of the command line; a cell is taken if any of
 * `only` holds (or there is none) and none of `except`. */
typedef struct nmb__filters {
  int nonly, nexcept;
  const nmb__filter *only, *except;
} nmb__filters;
nmb_status nmb__plan_make(nmb_run *, const nmb__experiment *, const nmb__filters *,
                          nmb__plan *out);
/* The text of a cell's label; key as nmb__label_keys gives. */
const char *nmb__cell_label(nmb_run *, const nmb__plan *, const nmb__cell *,
                            const char *key);
bool nmb__filter_holds(nmb_run *, const nmb__plan *, const nmb__cell *,
                       const nmb__filter *);
bool nmb__has_word(const char *words, const char *word); /* words: a space between */
/* Do two cells start from the same graph? */
bool nmb__same_graph(const nmb__plan *, const nmb__cell *, const nmb__cell *);
#endif
