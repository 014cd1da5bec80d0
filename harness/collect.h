/* SPDX-License-Identifier: GPL-3.0-or-later */
/* From the plan and the journal's results to the table that is stored. */
#ifndef NMB__COLLECT_H
#define NMB__COLLECT_H

#include "harness/journal.h"
#include "harness/store.h"
#include "harness/sweep.h"

/* A row for each cell whose job has a result, in the order of the plan.  result[njob]
 * as nmb__results_match gives. */
nmb__store *nmb__collect(nmb_run *, const nmb__plan *, const nmb__result *const *result);
/* Where and by what the table was made.  argv: as the user typed it. */
void nmb__collect_provenance(nmb__store *, const nmb__plan *, const char *argv);
#endif
