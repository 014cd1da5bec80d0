/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Execution of emitted code on values.
 *
 * Memories are arrays of bytes that hold nothing at first.  An instruction reads the bytes
 * of its operands at the addresses of their slots, computes its tile (ir/eval.h), and
 * writes the result in the tensor's format at the addresses of the slot it writes.
 * Every byte knows which slot has written it: reading what nothing wrote, or what
 * another buffer left there, is an error that names instruction, operand and address.
 *
 * Placement.  A tensor whose rows an engine in memory multiplies lies in its slot as its
 * layout says: lane by lane (lane = channel * banks + bank), each lane with its rows one
 * after another, padded to pages if so.  Other tensors lie as they come.  An instruction
 * in memory reaches the channels, banks and rows of its place and no others.
 * Whole values of several devices have a copy on each, one after the other in the slot;
 * a sharded one has each part at its place in the first.
 *
 * Blocks.  The hidden state has two buffers that change roles from block to block: the
 * `in` of a block is the `out` of the one before it.
 *
 * Order.  An instruction may run as soon as what it waits for is over, what stands before
 * it in its queue has started and, on an engine that does one at a time, is over; on
 * engines in memory only what shares a channel has to be.  With a seed, one of these
 * orders is drawn, and whether an instruction takes effect when it starts or as late
 * as it can.  Instructions of a kernel tile that goes row by row run as one, row by row. */
#ifndef NMB__FUNC_H
#define NMB__FUNC_H

#include "ir/eval.h"
#include "ir/lower.h"

/* What an instruction has made: output `out` of op, or all of it that the tile holds. */
typedef struct nmb__func_event {
  const nmb_prog *p;
  const nmb__place *at;
  nmb_id insn, op;
  int out;
  const nmb__region *region;
  const float *value; /* (m1 - m0) rows of (c1 - c0), as stored */
} nmb__func_event;

typedef struct nmb__func_options {
  uint64_t order; /* seed of the order; 0: as emitted */
  bool invent;    /* as in nmb__eval_options */
  bool arith;     /* products add up as the machine's engines do; else in float */
  uint64_t noise; /* seed of the noise of converters */
  /* (optional) after each instruction; another status than NMB_OK ends the step */
  nmb_status (*watch)(nmb_run *, void *self, const nmb__func_event *);
  void *watch_self;
} nmb__func_options;

/* Weights, and caches and states of one sequence of steps.  Both structs are copied. */
typedef struct nmb__func nmb__func;
NMB_API nmb__func *nmb__func_open(const nmb__weights *, const nmb__func_options *);
NMB_API void nmb__func_close(nmb__func *); /* NULL: nothing */
NMB_API void nmb__func_reset(nmb__func *); /* forgets caches, states and what was counted */
/* Runs the code of a program as nmb__eval_step evaluates its graph; experts are those
 * of its routing tables.  The last step may be run again.  NMB_UNVERIFIED where the code reads what is not there. */
NMB_API nmb_status nmb__func_step(nmb_run *, nmb__func *, const nmb_prog *,
                                  const int32_t *ids, const float **logits, int64_t *rows,
                                  int64_t *columns);
/* The order of the next steps, as in the options. */
NMB_API void nmb__func_order(nmb__func *, uint64_t order);
/* The weights put into memories so far, one for each layer and layout: of how many the
 * memory holds other values than the model gives, as the format has no room for these. */
typedef struct nmb__held {
  int weights, rounded;
  double most; /* largest difference of one over the root mean square of its weight */
  char name[64];
} nmb__held;
NMB_API nmb__held nmb__func_held(const nmb__func *);
/* Of all values that instructions of the last step have written, in whatever order. */
NMB_API uint64_t nmb__func_digest(const nmb__func *);
#endif
