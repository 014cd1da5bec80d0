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

#endif
