/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Pipelines that are generated from stages.
 *
 * Each stage is a fixed pass, or a slot with a pass of the baseline and one of the
 * full pipeline.  A design says which slots are improved in which pipeline:
 *   baseline      none            base
 *   add-one-in    one             +fuse
 *   leave-one-out all but one     -fuse
 *   full          all             all
 *   cumulative    the first k     +fuse+dispatch
 *   factorial     every subset
 *   swaps         all, one slot taken by an alternative   fuse=fuse-greedy
 * Sets of one slot, all, none and all but one have the names of the designs above
 * it; others list what is improved. */
#ifndef NMB__ABLATION_H
#define NMB__ABLATION_H

#include "harness/experiment.h"

typedef struct nmb__slot_spec {
  const char *name;        /* NULL: a fixed stage, `full` in every pipeline */
  const char *base, *full; /* "" : no pass here */
  int nalso;
  const char **also;
} nmb__slot_spec;

typedef struct nmb__design {
  const char *name; /* "add-one-in", ... */
  nmb_loc loc;
} nmb__design;

/* Appends to v[*n..cap); a name that stands already is left out if its passes are
 * the same text, and is an error otherwise. */
typedef struct nmb__variants {
  int n, cap;
  nmb__variant *v;
} nmb__variants;
nmb_status nmb__variant_add(nmb_run *, nmb__variants *, const nmb__variant *);
nmb_status nmb__ablate(nmb_run *, const nmb__slot_spec *, int nslot, const nmb__design *,
                       nmb__variants *);
#endif
