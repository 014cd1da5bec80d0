/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Runs the jobs of a plan that the journal does not hold yet. */
#ifndef NMB__EXECUTOR_H
#define NMB__EXECUTOR_H

#include "harness/progress.h"
#include "harness/worker.h"

#define NMB__MAXWORKER 256

typedef struct nmb__exec_options {
  int workers; /* at most NMB__MAXWORKER */
  nmb__limits limits;
  bool retry; /* jobs that crashed, hung or ran out of memory run again */
  bool apart; /* no cell looks up what instructions cost in another */
  nmb__progress_kind progress;
} nmb__exec_options;

typedef struct nmb__exec {
  bool *done;         /* [njob] */
  nmb_status *status; /* [njob], of those done */
  int nrun;           /* in this call */
  int nbefore;        /* wanted ones that were done already */
  int signal;         /* that ended it early; 0: none */
  uint64_t memo_found, memo_put; /* costs looked up in another cell; shared with others */
} nmb__exec;

/* Statuses that tell of the host or of a bug, rather than of the plan. */
bool nmb__status_failed(nmb_status);
/* Results of earlier runs that belong to the plan, by job; NULL elsewhere. */
const nmb__result **nmb__results_match(nmb_run *, const nmb__plan *,
                                       const nmb__journal_data *);
/* What is done already. */
void nmb__exec_init(nmb_run *, const nmb__plan *, const nmb__journal_data *,
                    nmb__exec *out);
/* Runs what is not done. */
nmb_status nmb__execute(nmb_run *, const nmb__plan *, nmb__journal *,
                        const nmb__exec_options *, nmb__exec *);
#endif
