/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The attributes that an op may have: attrs.def as a table. */
#include "ir/attrs.h"

static const nmb__attr_info attrs[] = {
#define X(op, key, kind, required) {NMB_OP_##op, key, NMB_ATTR_##kind, required},
#include "ir/attrs.def"
#undef X
};

const nmb__attr_info *
nmb__attrs_of(nmb_opcode op, int *n)
{
  const int all = (int)(sizeof attrs / sizeof *attrs);
  int first = 0;
  while (first < all && attrs[first].op != op)
    first++;
  int end = first;
  while (end < all && attrs[end].op == op)
    end++;
  *n = end - first;
  return &attrs[first < all ? first : 0];
}

const char *
nmb__attr_kind_name(nmb_attr_kind kind)
{
  static const char *const name[] = {"an integer", "a real", "a symbol"};
  return name[kind];
}
