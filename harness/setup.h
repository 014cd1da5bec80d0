/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What plan, run and status share: an experiment with its plan and its files. */
#ifndef NMB__SETUP_H
#define NMB__SETUP_H

#include "harness/cmd.h"
#include "harness/sweep.h"

typedef struct nmb__setup {
  nmb__experiment *e;
  nmb__plan plan;
  const char *output, *journal;
} nmb__setup;

/* Reads the experiment that the first argument names, with the options --only,
 * --except, --lenient and --output if the command has them (filters).  One that only asks
 * where results are reads models leniently. */
nmb_status nmb__setup_open(nmb__cli *, bool filters, nmb__setup *out);
void nmb__setup_close(nmb__setup *);
const char *nmb__journal_path(nmb_run *, const char *output);
/* results/moe.h5 -> results/moe */
const char *nmb__figure_folder(nmb_run *, const char *output);
/* "model=olmoe,machine=..": the labels that tell cells apart, for people. */
const char *nmb__cell_text(nmb_run *, const nmb__plan *, const nmb__cell *);

#define NMB__FLAG_FILTERS                                                                \
  {"only", 0,    "LABEL=PATTERN,..",                                                     \
   "text", NULL, "only cells whose labels match; several: any of them"},                 \
      {"except", 0,    "LABEL=PATTERN,..",                                               \
       "text",   NULL, "without cells whose labels match"},                              \
  {                                                                                      \
    "lenient", 0, NULL, NULL, NULL,                                                      \
        "warn of keys of models that are not understood, and keep that in the results"   \
  }
#endif
