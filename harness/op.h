/* SPDX-License-Identifier: GPL-3.0-or-later */
/* One op as a program: "gemv out=4096 in=4096 dtype=bf16". */
#ifndef NMB__OP_H
#define NMB__OP_H

#include "nmbench/nmb_ir.h"

enum { NMB__MAXDIM = 8 };

/* A spec may list several sizes for a key; each combination is one op. */
typedef struct nmb__opspec {
  const struct nmb__opkind *kind;
  const char *kind_name;
  bool matrix; /* its resident operand is one */
  nmb_dtype dtype;                /* of weights and caches */
  int ndim;                       /* keys of the kind */
  const char *key[NMB__MAXDIM];
  int n[NMB__MAXDIM];             /* sizes given for each */
  int64_t *size[NMB__MAXDIM];
  int nrow;                       /* combinations */
} nmb__opspec;

nmb_status nmb__opspec_parse(nmb_run *, const char *text, nmb__opspec *out);
/* Sizes of combination `row`, the last key fastest. */
void nmb__opspec_row(const nmb__opspec *, int row, int64_t *dim /*[ndim]*/);
/* "gemv out=4096 in=4096 dtype=bf16" */
const char *nmb__opspec_text(nmb_run *, const nmb__opspec *, int row);
/* A graph of that op alone: block "op", run once. */
nmb_prog *nmb__opspec_build(nmb_run *, const nmb__opspec *, int row);
/* The kinds, for --help: "gemv out= in= batch=1, .." */
const char *nmb__opspec_kinds(nmb_run *);
#endif
