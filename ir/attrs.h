/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The attributes that an op may have. */
#ifndef NMB__ATTRS_H
#define NMB__ATTRS_H

#include "nmbench/nmb_ir.h"

typedef struct nmb__attr_info {
  nmb_opcode op;
  const char *key;
  nmb_attr_kind kind; /* where a real is asked for, an integer will do */
  bool required;
} nmb__attr_info;

/* The rows of one op stand together; *n of them. */
const nmb__attr_info *nmb__attrs_of(nmb_opcode, int *n);
const char *nmb__attr_kind_name(nmb_attr_kind); /* "an integer" */
#endif
