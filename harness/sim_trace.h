/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Traces: instructions of in-memory engines in the form of other tools. */
#ifndef NMB__SIM_TRACE_H
#define NMB__SIM_TRACE_H

#include "harness/cmd.h"
#include "nmbench/nmb_hw.h"

/* The machine of that name, with what --set changes. */
nmb_status nmb__sim_machine(nmb__cli *, const char *name, nmb_hw **out);
/* Executes AiM instructions on the machine that --machine names, and prints. */
nmb_status nmb__sim_trace(nmb__cli *, const char *text, size_t len, nmb_hw **hw);
/* The instructions of the whole program, block after block, as an AiM trace. */
nmb_status nmb__emit_aim_trace(nmb_run *, const nmb_prog *, FILE *);

/* Loads and stores on a channel of --kind, with the settings of NMB__FLAGS_DRAM. */
nmb_status nmb__dram_trace(nmb__cli *, const char *file);
#define NMB__FLAGS_DRAM                                                                  \
  {"n", 'n', "N", "int", "20000", "column commands; of a trace: all if absent"},         \
      {"policy", 0, "POLICY", "open|closed_cap1|closed_cap4", "open",                    \
       "leave rows open, or close them after that many accesses"},                       \
      {"refresh", 0, "MODE", "none|allbank|perbank", "none", "of the DRAM"},             \
  {                                                                                      \
    "queue", 0, "ORDER", "frfcfs|inorder", "frfcfs",                                     \
        "first ready first, or first come first served"                                  \
  }
#endif
