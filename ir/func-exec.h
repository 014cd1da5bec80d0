/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Inside of the execution of code: one block of a program at work. */
#ifndef NMB__FUNC_EXEC_H
#define NMB__FUNC_EXEC_H

#include "ir/func-mem.h"
#include "ir/func.h"

/* The values of a weight of a layer, read from its memory and kept. */
typedef struct nmb__kept {
  const float *value;   /* NULL: no weight */
  float scale;          /* the tensor's, beside its bytes */
  const float *block;   /* NULL, or the scales of its blocks, likewise */
  const uint8_t *bytes; /* NULL, or as a file has them */
  bool there;           /* its bytes are in memory */
} nmb__kept;

typedef struct nmb__frame {
  nmb_run *run;
  const nmb_prog *p;
  const nmb__func_options *o;
  nmb__place at;
  nmb__bytes *mem; /* [nmem] */
  nmb__bytes
      *tile; /* [nmem] of local memories, for one kernel tile that goes row by row */
  nmb__spot *spot;    /* [nslot] */
  nmb__kept *weight;  /* [nslot] of this layer; value NULL unless it is a weight */
  bool *spoiled;      /* [nslot] something else has written there */
  nmb_id **neighbour; /* [nslot] weights that share bytes with it; ends with NMB_NONE */
  int64_t swap;       /* 0 or 1: which of its two buffers the hidden state comes in */
  nmb_id hidden_in, hidden_out; /* slots of this block; NMB_NONE */
  int64_t hidden_at[2];         /* addresses of `in` and `out` in all blocks */
  void **scratch; /* [ntensor] as dense as the tensor; NaN where nothing is read */
  uint8_t *buffer;
  int64_t room;
  uint64_t digest;
} nmb__frame;

/* Within a kernel tile that goes row by row: number `side` of `nside` at work at once. */
typedef struct nmb__turn {
  const nmb_tile *tile; /* part of the instruction's */
  int64_t side, nside;
} nmb__turn;

/* From the start of the memory to the first copy of the slot's layer. */
NMB_API int64_t nmb__slot_base(const nmb__frame *, nmb_id slot);
/* turn NULL: the whole instruction. */
NMB_API nmb_status nmb__func_exec(nmb__frame *, nmb_id insn, const nmb__turn *);
NMB_API nmb_status nmb__func_move(nmb__frame *, nmb_id insn);
/* Puts the bytes of a weight into memory if they are not there. */
NMB_API nmb_status nmb__weight_place(nmb__frame *, nmb_id slot);
/* Elements of a tensor, in the order of its storage, to and from a slot; for what is
 * given before and taken after a step.  All copies are written, the first is read. */
NMB_API nmb_status nmb__slot_put(nmb__frame *, nmb_id slot, int64_t first, int64_t n,
                                 const void *value);
NMB_API nmb_status nmb__slot_get(nmb__frame *, nmb_id slot, int64_t first, int64_t n,
                                 void *value);
#endif
