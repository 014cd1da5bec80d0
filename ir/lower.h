/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Inside of lowering: views of values, kernels seen with an engine and a mapping. */
#ifndef NMB__LOWER_H
#define NMB__LOWER_H

#include "nmbench/nmb_lower.h"

/* Ops to run as one kernel on `engine`, which need not be in the program's tables. */
typedef struct nmb__work {
  const nmb_prog *p;
  const nmb_id *op;
  int nop;
  nmb_id block, engine;
} nmb__work;

NMB_API nmb__work nmb__work_of(const nmb_prog *, nmb_id kernel);
NMB_API nmb_id nmb__kernel_of(const nmb_prog *, nmb_id op); /* NMB_NONE before groups */
/* What the rows of a value are: elementwise ops pass on what they are given. */
NMB_API nmb_rowkind nmb__value_rows(const nmb_prog *, nmb_id tensor);
NMB_API nmb_id nmb__step_row(const nmb_prog *,
                             const nmb_step *); /* NMB_NONE: not scheduled */
/* Is the root of `tensor` made and used up inside the kernel, hence in local memory? */
NMB_API bool nmb__inner(const nmb__work *, nmb_id tensor);
/* May the kernel be cut along n? */
NMB_API bool nmb__cuts_n(const nmb__work *);
/* Bytes of all inner values of one tile; a tile size of 0 means uncut. */
NMB_API int64_t nmb__inner_bytes(const nmb__work *, const nmb_map *);
NMB_API void nmb__map_default(const nmb__work *, nmb_map *out);

/* A tensor as a layout sees it: units of rows of elements. */
typedef struct nmb__shape {
  int64_t units, rows, row;
} nmb__shape;
NMB_API nmb__shape nmb__shape_of(const nmb_prog *, nmb_id tensor);

/* Where a tensor's elements lie in its root: `rows` runs of `cols` elements, from
 * `first` on, `stride` elements apart. */
typedef struct nmb__view {
  nmb_id root;
  int64_t rows, cols, first, stride;
} nmb__view;
NMB_API nmb__view nmb__view_of(const nmb_prog *, nmb_id tensor);
/* The rectangle of rows [m0, m1) and columns [c0, c1) of a tensor seen as rows of
 * `len` elements; fills tensor, offset, rows, row_bytes, stride.  False if it is not
 * one rectangle. */
NMB_API bool nmb__rect(const nmb_prog *, nmb_id tensor, int64_t len, int64_t m0,
                       int64_t m1, int64_t c0, int64_t c1, nmb_operand *out);
NMB_API int64_t nmb__storage_bytes(const nmb_tensor *); /* rows rounded up to bytes */

/* Which device holds what of a value (see nmb_lower.h). */
typedef enum nmb__shard {
  NMB__WHOLE, /* every device holds all of it */
  NMB__HEADS, /* each device holds some heads */
  NMB__COLS,  /* each device holds some columns */
  NMB__UNITS, /* each device holds some units of attention */
  NMB__PARTS  /* any other way */
} nmb__shard;
/* w: (optional) ops that are taken to run on w's engine. */
NMB_API nmb__shard nmb__shard_of(const nmb_prog *, const nmb__work *w, nmb_id tensor);
/* Does the op, on an engine of several devices, need all of input i on each? */
NMB_API bool nmb__needs_whole(const nmb_prog *, const nmb__work *w, nmb_id op, int i);
/* Where all blocks take over and hand on the hidden state. */
NMB_API nmb_id nmb__handover_mem(const nmb_prog *);
/* 0, 1: the tensor is the `in`, the `out` of its block, and the memory is where they are
 * handed over; else NMB_NONE.  The two are two buffers that all blocks share and that
 * change roles from block to block. */
NMB_API int nmb__hidden_buffer(const nmb_prog *, nmb_id tensor, nmb_id mem);
/* Memories that keep the cache whose root is `cache`: a bit per memory. */
NMB_API uint32_t nmb__cache_mems(const nmb_prog *, nmb_id cache, nmb_id writer_engine);

/* What an operand is of its tensor, seen as rows of `len` elements: rows [m0, m1),
 * columns [c0, c1).  arg: input of the op, or nin + output. */
typedef struct nmb__region {
  nmb_id tensor;
  int arg;
  int64_t len, m0, m1, c0, c1;
} nmb__region;
/* The operands of an instruction for the tile, one after another, with nothing in local
 * memory; how many.  0: the tile is no rectangle of each operand.  Not for kvappend. */
NMB_API int nmb__regions(const nmb_prog *, nmb_id engine, nmb_id op, const nmb_tile *,
                         nmb__region *region /*[NMB_MAXOPND]*/,
                         nmb_operand *opnd /*[NMB_MAXOPND]*/);

/* Gets each instruction of a kernel in turn. */
typedef nmb_status (*nmb__sink)(void *, const nmb_insn *);
/* step: gives axis and part; its kernel is not looked at. */
NMB_API nmb_status nmb__walk(nmb_run *, const nmb__work *, const nmb_step *,
                             const nmb_map *, const nmb_layout *, int nlayout, nmb__sink,
                             void *to);
NMB_API void nmb__insns_push(nmb_run *, nmb_insns *, const nmb_insn *);
#endif
