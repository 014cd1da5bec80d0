/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The verifier, one function per section; each trusts those the section rests on. */
#ifndef NMB__VERIFY_H
#define NMB__VERIFY_H

#include "base/run.h"

nmb_status nmb__verify_graph(nmb_run *, const nmb_prog *);
nmb_status nmb__verify_groups(nmb_run *, const nmb_prog *);
nmb_status nmb__verify_dispatch(nmb_run *, const nmb_prog *);
nmb_status nmb__verify_mapping(nmb_run *, const nmb_prog *);
nmb_status nmb__verify_schedule(nmb_run *, const nmb_prog *);
nmb_status nmb__verify_memory(nmb_run *, const nmb_prog *);
nmb_status nmb__verify_code(nmb_run *, const nmb_prog *);

/* For messages: "block moe, linear %q" and "kernel 3 (block moe, %q)". */
const char *nmb__op_text(nmb_run *, const nmb_prog *, nmb_id op);
const char *nmb__kernel_text(nmb_run *, const nmb_prog *, nmb_id kernel);
#endif
