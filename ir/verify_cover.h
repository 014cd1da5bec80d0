/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Which bytes of a buffer have been written, for the verifier of code.
 *
 * Bytes are kept as boxes of a table whose rows are `pitch` bytes: an operand is one box
 * or a few, and tiles that lie side by side merge, so that a buffer that has been written
 * whole is one box however many instructions wrote it. */
#ifndef NMB__VERIFY_COVER_H
#define NMB__VERIFY_COVER_H

#include "nmbench/nmb_ir.h"

/* `rows` runs of `width` bytes, the first at `at`, `stride` apart. */
typedef struct nmb__runs {
  int64_t at, rows, width, stride;
} nmb__runs;

/* Rows [r0, r1), columns [c0, c1); by channels [ch0, ch1) of a memory that has a part for
 * each channel. */
typedef struct nmb__box {
  int64_t r0, r1, c0, c1;
  int ch0, ch1;
} nmb__box;

typedef struct nmb__boxes {
  int n, cap;
  nmb__box *v;
} nmb__boxes;

typedef struct nmb__cover {
  int64_t base, pitch; /* address of the first byte; bytes of a row of the table */
  nmb__boxes boxes;
} nmb__cover;

/* Bytes written; bytes that something else has written over, where that has all channels
 * of those that wrote them.  scratch: any list, for its room.  O(boxes) each. */
NMB_API void nmb__cover_add(nmb_run *, nmb__cover *, const nmb__runs *, int ch0, int ch1,
                            nmb__boxes *scratch);
NMB_API void nmb__cover_drop(nmb_run *, nmb__cover *, const nmb__runs *, int ch0, int ch1,
                             nmb__boxes *scratch);
/* Address of the lowest byte of the runs that has not been written on any of the
 * channels; NMB_NONE if there is none. */
NMB_API int64_t nmb__cover_gap(nmb_run *, const nmb__cover *, const nmb__runs *, int ch0,
                               int ch1, nmb__boxes *scratch);
#endif
