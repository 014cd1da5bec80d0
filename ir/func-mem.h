/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Inside of the execution of code: memories, and where slots lie in them. */
#ifndef NMB__FUNC_MEM_H
#define NMB__FUNC_MEM_H

#include "ir/lower.h"

/* Bytes of a memory, as far as slots reach; who wrote each: slot + 1, 0: nothing. */
typedef struct nmb__bytes {
  uint8_t *at;
  uint16_t *tag;
  int64_t n;
} nmb__bytes;
NMB_API nmb_status nmb__bytes_open(nmb_run *, nmb__bytes *, int64_t n);
NMB_API void nmb__bytes_close(nmb__bytes *);

/* A slot as the code addresses it: `copies` copies of a tensor, one for each layer. */
typedef struct nmb__spot {
  const nmb_slot *slot;
  int64_t layer_bytes, copy_bytes; /* from layer to layer, from copy to copy */
  int64_t copies;                  /* that there is room for */
  bool everywhere;                 /* a whole value: each device has a copy */
  bool placed, transposed;
  int64_t row_bytes; /* of a row as the tensor has it; 0: rows of different sizes */
  int64_t item;      /* transposed: bytes of an element */
  int64_t h, S;      /* caches: heads, positions; else 0 */
  int64_t units, rows;
  int64_t *start;  /* [units * rows] from the start of the copy */
  int32_t *lane;   /* [units * rows] */
  int64_t *offset; /* [units * rows + 1] as the tensor counts, if row_bytes is 0 */
} nmb__spot;
/* The input of the op whose rows an engine in memory multiplies; NMB_NONE. */
NMB_API int nmb__lane_input(const nmb_op *);
NMB_API nmb_status nmb__spot_make(nmb_run *, const nmb_prog *, nmb_id slot, nmb__spot *);
/* Address of byte `at` of the tensor within a copy; *run: bytes that follow it there. */
NMB_API int64_t nmb__spot_find(const nmb__spot *, int64_t at, int64_t *run);
#endif
