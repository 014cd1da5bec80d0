/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Which steps need which, and how far a kernel can be cut into parts. */
#include "base/run.h"
#include "ir/lower.h"

bool
nmb_step_depends(const nmb_prog *p, nmb_id a, nmb_id b)
{
  const nmb_kernel *ka = &p->kernel[a], *kb = &p->kernel[b];
  if (a == b || ka->block != kb->block)
    return false;
  for (int i = 0; i < ka->nop; i++)
    for (int y = 0; y < p->op[ka->op[i]].nout; y++)
      for (int j = 0; j < kb->nop; j++)
        for (int x = 0; x < p->op[kb->op[j]].nin; x++)
          if (p->op[kb->op[j]].in[x] == p->op[ka->op[i]].out[y])
            return true;
  return false;
}

/* Steps of several blocks find a shared cache in one place each; heads that are cut are dealt to
 * channels part by part, which a block that is not cut would not know. */
static bool
over_shared(const nmb_prog *p, const nmb_op *o)
{
  if (o->code != NMB_OP_QK && o->code != NMB_OP_PV)
    return false;
  const nmb_tensor *t = &p->tensor[nmb_tensor_root(p, o->in[1])];
  return t->of || t->lent;
}

/* KV heads that attention of the kernel's block has; 1 if not all alike. */
static int64_t
op_extent(const nmb_prog *p, nmb_id id, nmb_axis axis)
{
  const nmb_op *o = &p->op[id];
  const nmb_space s = nmb_op_space(p, id);
  const nmb_rowkind kind = nmb_op_rowkind(p, id);
  if (axis == NMB_AXIS_BATCH) {
    if (kind == NMB_ROWS_ROUTED || o->code == NMB_OP_COMBINE)
      return 1; /* rows of a sequence are scattered over the experts */
    const int64_t rows = kind == NMB_ROWS_UNIT ? s.b : s.m;
    return rows % p->spec.batch == 0 ? p->spec.batch : 1;
  }
  if (over_shared(p, o))
    return 1;
  if (kind == NMB_ROWS_UNIT)
    return s.b / p->spec.batch;
  const nmb_tensor *y = &p->tensor[o->out[0]];
  if (o->code == NMB_OP_KVAPPEND)
    y = &p->tensor[o->in[1]];
  const nmb_tensor *x = &p->tensor[o->in[0]];
  const int64_t last = y->dim[y->rank - 1];
  if (o->code == NMB_OP_NORM &&
      (x->dim[x->rank - 1] != last ||
       (o->nin > 1 && nmb_tensor_count(&p->tensor[o->in[1]]) != last)))
    return 1; /* over all heads at once */
  return kind == NMB_ROWS_TOKEN && y->rank == 3 ? y->dim[1] : 1;
}

static int64_t
gcd(int64_t a, int64_t b)
{
  return b ? gcd(b, a % b) : a;
}

int64_t
nmb_kernel_extent(const nmb_prog *p, nmb_id kernel, nmb_axis axis)
{
  const nmb_kernel *k = &p->kernel[kernel];
  if (axis == NMB_AXIS_NONE)
    return 1;
  int64_t e = 0;
  for (int i = 0; i < k->nop; i++)
    e = gcd(op_extent(p, k->op[i], axis), e);
  return e;
}

bool
nmb_kernel_separable(const nmb_prog *p, nmb_id kernel, nmb_axis axis)
{
  return nmb_kernel_extent(p, kernel, axis) > 1;
}

/* Does an op of kernel b mix the heads of a value that kernel a made? */
static bool
mixes_heads(const nmb_prog *p, nmb_id a, nmb_id b)
{
  const nmb_kernel *kb = &p->kernel[b];
  for (int j = 0; j < kb->nop; j++) {
    const nmb_op *o = &p->op[kb->op[j]];
    const nmb_id def = p->tensor[o->in[0]].def;
    if ((o->code == NMB_OP_LINEAR || o->code == NMB_OP_GLINEAR) && def != NMB_NONE &&
        nmb__kernel_of(p, def) == a)
      return true;
  }
  return false;
}

bool
nmb_parts_depend(const nmb_prog *p, const nmb_step *a, const nmb_step *b)
{
  if (!nmb_step_depends(p, a->kernel, b->kernel))
    return false;
  if (a->axis == NMB_AXIS_NONE || a->axis != b->axis || a->nparts != b->nparts)
    return true;
  if (a->axis == NMB_AXIS_HEAD && mixes_heads(p, a->kernel, b->kernel))
    return true;
  return a->part == b->part;
}
