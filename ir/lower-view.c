/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Rectangles of bytes: tensors, and views of ranges of their last dimension. */
#include "base/run.h"
#include "ir/lower.h"

nmb__view
nmb__view_of(const nmb_prog *p, nmb_id tensor)
{
  const nmb_tensor *t = &p->tensor[tensor];
  const nmb_op *o = t->def == NMB_NONE ? NULL : &p->op[t->def];
  if (t->of)
    return nmb__view_of(p, t->of - 1);
  const int same = o ? nmb_op_in_place(o, o->nout > 1 && o->out[1] == tensor) : NMB_NONE;
  if (same != NMB_NONE && o->code != NMB_OP_SPLIT)
    return nmb__view_of(p, o->in[same]);
  if (same == NMB_NONE) {
    const int64_t last = t->dim[t->rank - 1];
    return (nmb__view){tensor, nmb_tensor_count(t) / last, last, 0, last};
  }
  nmb__view v = nmb__view_of(p, o->in[0]);
  const nmb_tensor *x = &p->tensor[o->in[0]];
  const int64_t len = x->dim[x->rank - 1];
  if (v.cols == v.stride) { /* dense: any row length will do */
    v.rows = v.rows * v.cols / len;
    v.stride = len;
  }
  v.first += nmb_op_int(o, "first", 0);
  v.cols = nmb_op_int(o, "count", len);
  return v;
}

bool
nmb__rect(const nmb_prog *p, nmb_id tensor, int64_t len, int64_t m0, int64_t m1,
          int64_t c0, int64_t c1, nmb_operand *out)
{
  const nmb__view v = nmb__view_of(p, tensor);
  const nmb_tensor *t = &p->tensor[v.root];
#define BYTES(n) nmb_bytes(t->dtype, t->group, n)
  out->tensor = v.root;
  if (v.cols == v.stride) {
    out->offset = m0 * BYTES(len) + BYTES(c0);
    out->rows = m1 - m0;
    out->row_bytes = BYTES(c1) - BYTES(c0);
    out->stride = BYTES(len);
    return true;
  }
  const int64_t pitch = BYTES(v.stride),
                per = len > v.cols ? len / v.cols : 1; /* runs a row */
  if (c0 == 0 && c1 == len) {
    out->offset = m0 * per * pitch + BYTES(v.first);
    out->rows = (m1 - m0) * per;
    out->row_bytes = BYTES(v.first + v.cols) - BYTES(v.first);
    out->stride = pitch;
    return true;
  }
  const int64_t h0 = c0 / v.cols, h1 = (c1 - 1) / v.cols;
  if (h0 == h1) { /* inside one run */
    const int64_t at = v.first + c0 - h0 * v.cols;
    out->offset = (m0 * per + h0) * pitch + BYTES(at);
    out->rows = m1 - m0;
    out->row_bytes = BYTES(at + c1 - c0) - BYTES(at);
    out->stride = per * pitch;
    return true;
  }
  if (m1 - m0 != 1 || c0 % v.cols || c1 % v.cols)
    return false;
  out->offset = (m0 * per + h0) * pitch + BYTES(v.first);
  out->rows = h1 - h0 + 1;
  out->row_bytes = BYTES(v.first + v.cols) - BYTES(v.first);
  out->stride = pitch;
  return true;
#undef BYTES
}

int64_t
nmb__storage_bytes(const nmb_tensor *t)
{
  const int64_t last = t->dim[t->rank - 1];
  if (t->role == NMB_ROLE_WEIGHT)
    return nmb_tensor_bytes(t);
  return nmb_tensor_count(t) / last * nmb_bytes(t->dtype, t->group, last);
}
