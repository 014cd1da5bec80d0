/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Inside of a program: capacities of its tables and what it owns. */
#ifndef NMB__PROG_H
#define NMB__PROG_H

#include "nmbench/nmb_ir.h"

typedef struct nmb__prog {
  nmb_prog p; /* first, so that a pointer to it is a pointer to this */
  int ctensor, cop, cblock, csegment, crouting, ckernel, cmap, clayout, cstep, cslot,
      cinsn;
  int nstring, cstring;
  const char **string; /* sorted */
  int nerased;
  bool *erased; /* [nerased] by op id */
} nmb__prog;

/* The program's own copy of s; NULL for NULL. */
NMB_API const char *nmb__prog_string(nmb_prog *, const char *s);
/* Another choice in the table: expert[ntoken][topk]. */
NMB_API void nmb__routing_set(nmb_prog *, nmb_id routing, const int32_t *expert);
#endif
