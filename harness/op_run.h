/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Compiling and timing one op. */
#ifndef NMB__OP_RUN_H
#define NMB__OP_RUN_H

#include <jansson.h>

#include "harness/op.h"
#include "nmbench/nmb_hw.h"

typedef struct nmb__opsetup {
  const char *pipeline, *host; /* host: the pipeline that runs all there */
  bool compare;                /* with the host */
  const char *fidelity;
  bool stamps;
} nmb__opsetup;

typedef struct nmb__oppart {
  const char *name;
  double value;
} nmb__oppart;

/* Commands of the busiest channel, in order of first appearance. */
typedef struct nmb__opcount {
  const char *name;
  int64_t n;
  bool isr;
} nmb__opcount;
typedef struct nmb__opcounts {
  int n, cap;
  nmb__opcount *v;
} nmb__opcounts;

typedef struct nmb__opresult {
  const char *engine;   /* that does the op's MACs */
  const char *fidelity; /* "analytic" where the engine's model has no other */
  const char *limit;    /* cause that most of the time goes to */
  double cycles, seconds, cycles_analytic, error; /* of the closed form, relative */
  double joule, share, bound, host_seconds;       /* host_seconds 0: not asked */
  double transfer_s, transfer_j, transfer_bytes;  /* over links, on top of all above */
  int channels;                                   /* that work */
  int ntime, nenergy, nstamp;
  nmb__oppart *time, *energy;
  nmb__opcounts counts;
  nmb_command *stamp;
} nmb__opresult;

/* Adds commands to `counts`, and to `stamp` if `stamps`; ticks count from `*start`. */
nmb_watch nmb__op_watch(nmb_run *, nmb__opresult *, bool stamps, int64_t **start);
/* The passes that an op goes through without --pipeline; mapping: "" or ",reuse=1". */
const char *nmb__op_pipeline(nmb_run *, const nmb__opspec *, bool on_host,
                             const char *mapping);
nmb_status nmb__op_run(nmb_run *, const nmb_hw *, const nmb__opspec *, int row,
                       const nmb__opsetup *, nmb__opresult *out);
/* {"MAC16": 2048, ..}: commands, or instructions of the memory's own set. */
json_t *nmb__opcounts_json(const nmb__opcounts *, bool isr);
json_t *nmb__opstamps_json(const nmb__opresult *);
void nmb__opcounts_print(const nmb__opcounts *, bool isr, const char *what);
void nmb__opstamps_print(const nmb__opresult *);
json_t *nmb__cycles_json(double); /* whole where it is */
/* Time in memory and on the host over the last key with several sizes, as a PDF. */
nmb_status nmb__op_plot(nmb_run *, const nmb_hw *, const nmb__opspec *,
                        const nmb__opresult *, const char *file);
#endif
