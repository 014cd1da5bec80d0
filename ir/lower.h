/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Inside of lowering: views of values, kernels seen with an engine and a mapping. */
#ifndef NMB__LOWER_H
#define NMB__LOWER_H

#include "nmbench/nmb_lower.h"

/* ops to run as one kernel on `engine`, which need not be in the program's tables */
typedef struct nmb__work {
  const nmb_prog *p;
  const nmb_id *op;
  int nop;
  nmb_id block, engine;
} nmb__work;

NMB_API nmb__work nmb__work_of(const nmb_prog *, nmb_id kernel);
NMB_API nmb_id nmb__kernel_of(const nmb_prog *, nmb_id op); /* NMB_NONE before groups */
/* Is the root of `tensor` made and used up inside the kernel, hence in local memory? */
NMB_API bool nmb__inner(const nmb__work *, nmb_id tensor);

NMB_API nmb_id nmb__step_row(const nmb_prog *, const nmb_step *); /* NMB_NONE: not scheduled */

/* A tensor as a layout sees it: units of rows of elements. */
typedef struct nmb__shape {
  int64_t units, rows, row;
} nmb__shape;
NMB_API nmb__shape nmb__shape_of(const nmb_prog *, nmb_id tensor);
#endif
