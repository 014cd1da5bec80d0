/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What may run where, and which ops may be one kernel. */
#include <assert.h>

#include "base/run.h"
#include "ir/lower.h"

/* What the rows of a value are: elementwise ops pass on what they are given. */
static nmb_rowkind
value_rows(const nmb_prog *p, nmb_id t)
{
  for (;;) {
    const nmb_id def = p->tensor[t].def;
    if (def == NMB_NONE)
      return NMB_ROWS_TOKEN;
    const nmb_op *o = &p->op[def];
    switch (o->code) {
    case NMB_OP_PERMUTE:
    case NMB_OP_GLINEAR: return NMB_ROWS_ROUTED;
    case NMB_OP_QK:
    case NMB_OP_SOFTMAX: return NMB_ROWS_UNIT;
    case NMB_OP_NORM:
    case NMB_OP_ADD:
    case NMB_OP_MUL:
    case NMB_OP_ACT:
    case NMB_OP_GLU:
    case NMB_OP_ROPE:
    case NMB_OP_SPLIT: t = o->in[0]; break;
    default: return NMB_ROWS_TOKEN;
    }
  }
}

nmb_rowkind
nmb_op_rowkind(const nmb_prog *p, nmb_id id)
{
  const nmb_op *o = &p->op[id];
  switch (o->code) {
  case NMB_OP_QK:
  case NMB_OP_SOFTMAX:
  case NMB_OP_PV:
  case NMB_OP_ATTENTION: return NMB_ROWS_UNIT;
  case NMB_OP_GLINEAR:
  case NMB_OP_PERMUTE: return NMB_ROWS_ROUTED;
  case NMB_OP_COMBINE: return NMB_ROWS_TOKEN;
  default: return value_rows(p, o->out[0]);
  }
}

bool
nmb_engine_can(const nmb_prog *p, nmb_id engine, nmb_id op)
{
  const nmb_engine *e = &p->hw->engine[engine];
  const nmb_op *o = &p->op[op];
  if (nmb_engine_is_link(e))
    return false;
  if (o->code == NMB_OP_SPLIT) /* a view: nothing runs */
    return true;
  if (!(e->ops >> (unsigned)o->code & 1))
    return false;
  for (int i = 0; i < o->nin + o->nout; i++) {
    const nmb_tensor *t = &p->tensor[i < o->nin ? o->in[i] : o->out[i - o->nin]];
    const nmb_tensor *r = &p->tensor[nmb_tensor_root(p, i < o->nin ? o->in[i] : o->out[i - o->nin])];
    if (t->dtype == NMB_DT_I32) /* indexes steer an op, they are no operands of it */
      continue;
    if (!((nmb_tensor_resident(r) ? e->weights : e->values) & NMB_BIT(t->dtype)))
      return false;
  }
  return true;
}

uint64_t
nmb_engines_for(const nmb_prog *p, const nmb_id *op, int nop)
{
  uint64_t set = 0;
  for (int e = 0; e < p->hw->nengine; e++) {
    bool can = true;
    for (int i = 0; i < nop && can; i++)
      can = nmb_engine_can(p, e, op[i]);
    if (can)
      set |= UINT64_C(1) << (unsigned)e;
  }
  return set;
}

nmb__work
nmb__work_of(const nmb_prog *p, nmb_id kernel)
{
  const nmb_kernel *k = &p->kernel[kernel];
  return (nmb__work){p, k->op, k->nop, k->block, k->engine};
}

nmb_id
nmb__kernel_of(const nmb_prog *p, nmb_id op)
{
  for (int k = 0; k < p->nkernel; k++)
    for (int i = 0; i < p->kernel[k].nop; i++)
      if (p->kernel[k].op[i] == op)
        return k;
  return NMB_NONE;
}

static bool
listed(const nmb_id *op, int nop, nmb_id id)
{
  for (int i = 0; i < nop; i++)
    if (op[i] == id)
      return true;
  return false;
}

bool
nmb__inner(const nmb__work *w, nmb_id tensor)
{
  const nmb_prog *p = w->p;
  const nmb_id root = nmb_tensor_root(p, tensor);
  const nmb_id def = p->tensor[root].def;
  if (w->nop == 1 || def == NMB_NONE || !listed(w->op, w->nop, def))
    return false;
  const nmb_block *b = &p->block[w->block];
  if (b->out != NMB_NONE && nmb_tensor_root(p, b->out) == root)
    return false;
  for (int i = 0; i < b->nop; i++) {
    const nmb_op *o = &p->op[b->op[i]];
    for (int j = 0; j < o->nin; j++)
      if (nmb_tensor_root(p, o->in[j]) == root &&
          (!listed(w->op, w->nop, b->op[i]) || o->code == NMB_OP_KVAPPEND))
        return false; /* a cache may lie in another memory than this engine's */
  }
  return true;
}

/* ------------------------------------------------------------------ kernels */
bool
nmb_fuse_legal(const nmb_prog *p, nmb_id engine, const nmb_id *op, int nop, const char **why)
{
  const char *unused;
  why = why ? why : &unused;
  *why = "";
  for (int i = 0; i < nop; i++) {
    if (p->op[op[i]].block != p->op[op[0]].block)
      return *why = "ops of two blocks", false;
    if (!nmb_engine_can(p, engine, op[i]))
      return *why = "the engine cannot run one of the ops", false;
    if (nmb_op_rowkind(p, op[i]) != nmb_op_rowkind(p, op[0]))
      return *why = "ops over different rows", false;
  }
  if (nop > 1 && p->hw->engine[engine].local == NMB_NONE)
    return *why = "the engine has no local memory", false;
  return true;
}

void
nmb_map_default(const nmb_prog *p, nmb_id kernel, nmb_map *out)
{
  (void)p;
  *out = (nmb_map){.kernel = kernel, .reuse = 1};
}
