/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Pipelines: passes as text, run one after the other under the contract. */
#ifndef NMB__PIPELINE_H
#define NMB__PIPELINE_H

#include <stdio.h>

#include "base/run.h"

typedef struct nmb__stage {
  const nmb_plugin *plugin;
  nmb__optval *opt;
  int nopt;
} nmb__stage;

typedef struct nmb__pipeline {
  int n;
  nmb__stage *stage;
} nmb__pipeline;

/* "quantize{weights=int4,group=128},fuse-dp": names and options are checked. */
NMB_API nmb_status nmb__pipeline_parse(nmb_run *, nmb_loc, const char *text,
                                       nmb__pipeline *out);
/* Canonical: every option, values in their shortest form. */
NMB_API const char *nmb__pipeline_text(nmb_run *, const nmb__pipeline *);

/* What one pass did; stat[nstat] are what it reported by nmb_stat. */
typedef struct nmb__pass_report {
  const nmb__stage *stage;
  double seconds; /* host time: not for results that must repeat */
  uint64_t spent; /* of its search budget */
  bool changed;
  int nstat;
  const nmb__value *stat;
} nmb__pass_report;

typedef struct nmb__pipeline_hooks {
  FILE *print;             /* (optional) where programs are printed */
  const char *print_after; /* (optional) name of a pass, or "all" */
  bool print_changed;      /* print the sections that a pass changed */
  const char *repro;       /* (optional) file to write when a pass fails or dies */
  void (*done)(void *arg, const nmb__pass_report *); /* (optional) after each pass */
  void *arg;
} nmb__pipeline_hooks;

/* Runs all passes; stops at the first that does not return NMB_OK.  After each:
 * only the declared section may have changed, it must be there, and it must
 * verify; scratch memory is released; the graph is compacted if it was written.
 * An option `budget` of a pass is its search budget, an option `seed` is mixed
 * into the run's seed; each pass draws from a sequence of its own. */
NMB_API nmb_status nmb__pipeline_run(nmb_run *, nmb_prog *, const nmb__pipeline *,
                                     const nmb__pipeline_hooks * /*(optional)*/);
/* "event{..}": adds its metrics to the run.  Sections must stay as they were and
 * each value must be finite (NaN, unknown, for energies and powers only). */
NMB_API nmb_status nmb__simulate(nmb_run *, const nmb_prog *,
                                 const char *simulator_with_options);
/* "attacc-dgx{..}": the numbers of a published system by its own rules (a plugin of
 * kind system, which is given no program), added to the run's metrics. */
NMB_API nmb_status nmb__system_run(nmb_run *, const char *system_with_options);
NMB_API const char *nmb__section_name(nmb_section);
/* Cuts "a{x=1,y=2},b" at the commas outside of braces and quotes. */
NMB_API nmb_status nmb__pipeline_split(nmb_run *, nmb_loc, const char *text,
                                       const char ***out, int *n);
/* "graph groups": the sections of a set. */
NMB_API const char *nmb__sections_text(nmb_run *, nmb_bits);
#endif
