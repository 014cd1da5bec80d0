/* SPDX-License-Identifier: GPL-3.0-or-later */
/* An experiment file: what is swept, checked and with every name resolved.
 * docs/experiment.md describes the format.  Everything is owned by the run, except
 * the configuration and the machines (nmb__experiment_free). */
#ifndef NMB__EXPERIMENT_H
#define NMB__EXPERIMENT_H

#include <libconfig.h>

#include "frontend/model.h"
#include "frontend/wmodel.h"
#include "ir/pipeline.h"

typedef struct nmb__model_use {
  const char *name;
  const nmb__arch *arch;
  bool routed; /* has experts: the routing matters */
  uint64_t hash; /* of the file it is from: its settings, or all its weights */
  nmb__wmodel *weights; /* (optional) */
  const int32_t *ids;   /* (optional) of the text that is executed */
  int64_t nid;
  int32_t bos;
} nmb__model_use;

typedef struct nmb__machine_use {
  const char *name;
  nmb_hw *hw;
  uint64_t hash; /* of its whole text and of the models of its engines */
} nmb__machine_use;

typedef struct nmb__workload {
  nmb_phase phase;
  int64_t batch, context;
  const char *routing; /* label: "uniform", "zipf1.2", ... */
  const char *kind;
  double skew;
  int64_t seed;
} nmb__workload;

/* A pipeline as the file gives it, or generated from the stages. */
typedef struct nmb__variant {
  const char *name;     /* "base", "+fuse", "-fuse", "all", ... */
  const char *ablation; /* baseline add leave all cumulative factorial swap, or "" */
  const char *slot;     /* of add, leave and swap: which; else "" */
  const char *passes;   /* text; may hold ${parameter} */
  nmb_loc loc;
} nmb__variant;

typedef struct nmb__param { /* an extra axis: a text put into pipelines */
  const char *name;
  int n;
  const char **value;
  nmb_loc loc;
} nmb__param;

/* Rows of the experiment's tables. */
typedef struct nmb__rows {
  int n;
  const int *id;
} nmb__rows;

typedef struct nmb__sweep {
  const char *name;
  nmb__rows models, machines, variants;
  int nworkload, nparam;
  const nmb__workload *workload;
  const nmb__param *param; /* parallel to the experiment's */
} nmb__sweep;

/* Conditions that must all hold: key, glob ("mixtral*|qwen*"). */
typedef struct nmb__filter {
  int n;
  const char **key, **glob;
  const char *why; /* of a skip */
} nmb__filter;

typedef struct nmb__experiment {
  const char *path, *name, *title, *text, *output;
  const char *sample; /* (optional) file with the text that models with weights read */
  config_t cfg;
  int nmodel, nmachine, nvariant, nsweep, nskip, nsim, nparam;
  nmb__model_use *model;
  nmb__machine_use *machine;
  nmb__variant *variant;
  nmb__sweep *sweep;
  nmb__filter *skip;
  const char **sim;     /* "event", with options as in a pipeline, ${parameter} too */
  const char *sim_text; /* for keys: all, with versions of their plugins */
  const char **param;   /* names */
  double time_limit;    /* s, of one cell */
  int64_t memory_limit; /* bytes, of one cell */
} nmb__experiment;

/* Loads the plugins that the file names, too.  On failure *out is NULL. */
nmb_status nmb__experiment_read(nmb_run *, const char *path, nmb__experiment **out);
void nmb__experiment_free(nmb__experiment *);
/* "event{..}" with every option, and the digest of its code; fails if unknown.  Options
 * that hold ${parameter} are left as they are. */
nmb_status nmb__simulator_text(nmb_run *, nmb_loc, const char *text, const char **out);
/* "model=mixtral*,machine=aim*" */
nmb_status nmb__filter_parse(nmb_run *, nmb_loc, const nmb__experiment *,
                             const char *text, nmb__filter *out);
/* Every key that a filter, a skip or a label may have: the fixed ones, then params. */
int nmb__label_keys(nmb_run *, const nmb__experiment *, const char ***out);
#endif
