/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Inside of the execution of code: orders that waits and queues allow. */
#ifndef NMB__FUNC_ORDER_H
#define NMB__FUNC_ORDER_H

#include "nmbench/nmb_ir.h"

/* Instructions that run as one: a single one, or those of a kernel tile that goes row by
 * row.  Rows [first, first + n) of the block's instructions of one queue, as listed. */
typedef struct nmb__node {
  int n;
  const nmb_id *insn;
  bool rows; /* row by row */
} nmb__node;

typedef struct nmb__order {
  int n;
  nmb__node *node; /* in the order to run */
} nmb__order;

/* The instructions [first, end) of a block in one legal order; seed 0: the first ready in
 * the order of the text.  NMB_UNVERIFIED if they wait for each other in a circle. */
nmb_status nmb__order_make(nmb_run *, const nmb_prog *, int first, int end, uint64_t seed,
                           nmb__order *out);
#endif
