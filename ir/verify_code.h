/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The two halves of the verifier of code. */
#ifndef NMB__VERIFY_CODE_H
#define NMB__VERIFY_CODE_H

#include "ir/verify.h"
#include "nmbench/nmb_lower.h"

/* For messages: "instruction 12 (pim exec, block moe, %q)". */
const char *nmb__insn_text(nmb_run *, const nmb_prog *, nmb_id insn);
/* Each instruction alone, and that the tiles of each op cover its work once. */
nmb_status nmb__verify_insns(nmb_run *, const nmb_prog *);
/* Waits and queues order everything that touches the same bytes. */
nmb_status nmb__verify_hazards(nmb_run *, const nmb_prog *);
#endif
