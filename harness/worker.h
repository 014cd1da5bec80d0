/* SPDX-License-Identifier: GPL-3.0-or-later */
/* One job in a process of its own: passes, simulators, checks; its result as a line
 * for the journal.  A crash, a hang or a lack of memory ends that process only. */
#ifndef NMB__WORKER_H
#define NMB__WORKER_H

#include <sys/types.h>

#include "harness/journal.h"
#include "harness/sweep.h"

typedef struct nmb__task {
  const nmb__plan *plan;
  int job;
  const nmb_prog *graph; /* of the job's first cell; NULL if it could not be built */
  nmb_status graph_status;
  const char *graph_error;
  nmb__memo *memo; /* costs that cells share; NULL: none */
} nmb__task;

/* Runs the job here and now; the program is changed.  Fails never: what goes wrong
 * is the result.  ticks: a descriptor that gets a dot after each pass; -1: none. */
void nmb__task_run(nmb_run *, const nmb__task *, nmb_prog *, int ticks, nmb__result *out);

typedef struct nmb__limits {
  double seconds;
  int64_t bytes;
} nmb__limits;

typedef struct nmb__worker {
  pid_t pid; /* 0: none */
  int job;
  int out, err;   /* pipes from the child; -1: closed */
  double started; /* s, monotonic */
  bool killed;    /* for its time */
  size_t nout, nerr, cout, cerr;
  char *outbuf, *errbuf;
} nmb__worker;

/* Forks.  keep[nkeep]: descriptors that the child closes. */
nmb_status nmb__worker_start(nmb_run *, nmb__worker *, const nmb__task *,
                             const nmb__limits *, const int *keep, int nkeep);
/* Takes what the pipes hold; true once both are at their end. */
bool nmb__worker_drain(nmb__worker *);
/* Waits for the process and gives its result, owned by the run. */
void nmb__worker_finish(nmb_run *, nmb__worker *, const nmb__plan *, const nmb__limits *,
                        nmb__result *out);
void nmb__worker_kill(nmb__worker *);
double nmb__now(void); /* s, monotonic */
#endif
