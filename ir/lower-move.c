/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Values between memories and between devices. */
#include "base/run.h"
#include "ir/lower.h"

/* ----------------------------------------------------------- who holds what */
/* The engine that makes a value; NMB_NONE if nothing in the block does, or it has
 * not been dispatched. */
static nmb_id
maker(const nmb_prog *p, const nmb__work *w, nmb_id root)
{
  const nmb_id def = p->tensor[root].def;
  if (def == NMB_NONE)
    return NMB_NONE;
  for (int i = 0; w && i < w->nop; i++)
    if (w->op[i] == def)
      return w->engine;
  const nmb_id k = nmb__kernel_of(p, def);
  if (k != NMB_NONE && p->kernel[k].engine != NMB_NONE)
    return p->kernel[k].engine;
  return w ? w->engine : NMB_NONE; /* not dispatched yet: as if by the asking engine */
}

static bool
even_heads(const nmb_tensor *t, int devices)
{
  return t->rank == 3 && t->dim[1] % devices == 0;
}

/* How attention with `nk` KV heads and u units is dealt to devices: by head, so that
 * what linears have made of each head is there already, or by unit. */
static nmb__shard
deal(int64_t units, int64_t nk, int devices)
{
  if (nk % devices == 0)
    return NMB__HEADS;
  return units % devices == 0 ? NMB__UNITS : NMB__PARTS;
}

static nmb__shard
made(const nmb_prog *p, const nmb__work *w, nmb_id id, nmb_id tensor, int devices)
{
  const nmb_op *o = &p->op[id];
  nmb__shard a, b;
  switch (o->code) {
  case NMB_OP_LINEAR:
  case NMB_OP_HLINEAR:
    return even_heads(&p->tensor[tensor], devices) ? NMB__HEADS : NMB__COLS;
  case NMB_OP_QK:
  case NMB_OP_PV: return deal(nmb_op_space(p, id).b, p->tensor[o->in[1]].dim[2], devices);
  case NMB_OP_SCAN:
    return deal(nmb_op_space(p, id).b, p->tensor[o->in[3]].dim[1], devices);
  case NMB_OP_SOFTMAX: /* whole rows, gathered where a unit was spread */
    a = nmb__shard_of(p, w, o->in[0]);
    return a == NMB__PARTS ? NMB__WHOLE : a;
  case NMB_OP_NORM:
    a = nmb__shard_of(p, w, o->in[0]);
    return a == NMB__HEADS && even_heads(&p->tensor[tensor], devices) ? a : NMB__WHOLE;
  case NMB_OP_TOPK:
  case NMB_OP_PICK:
  case NMB_OP_CONCAT:
  case NMB_OP_MIX:
  case NMB_OP_DOT:
  case NMB_OP_POOL:
  case NMB_OP_COMBINE: return NMB__WHOLE;
  case NMB_OP_GLINEAR:
  case NMB_OP_TAKE:
  case NMB_OP_EMBED: return NMB__PARTS;
  case NMB_OP_ADD:
  case NMB_OP_MUL:
  case NMB_OP_GLU:
    a = nmb__shard_of(p, w, o->in[0]);
    b = o->nin > 1 ? nmb__shard_of(p, w, o->in[1]) : NMB__WHOLE;
    return a == b || b == NMB__WHOLE ? a : a == NMB__WHOLE ? b : NMB__WHOLE;
  case NMB_OP_SPLIT: /* of the whole row: its columns are not those of the devices */
    a = nmb__shard_of(p, w, o->in[0]);
    return a == NMB__COLS ? NMB__PARTS : a;
  default: return nmb__shard_of(p, w, o->in[0]);
  }
}

nmb__shard
nmb__shard_of(const nmb_prog *p, const nmb__work *w, nmb_id tensor)
{
  const nmb_id def = p->tensor[tensor].def;
  const nmb_id e = maker(p, w, nmb_tensor_root(p, tensor));
  if (def == NMB_NONE || e == NMB_NONE || p->hw->engine[e].devices < 2)
    return NMB__WHOLE;
  return made(p, w, def, tensor, p->hw->engine[e].devices);
}

/* Heads of input i of a scan: queries and keys may have fewer than the state. */
static int64_t
scan_heads(const nmb_prog *p, const nmb_op *o, int i)
{
  return i < 2 ? p->tensor[o->in[i]].dim[1] : p->tensor[o->in[3]].dim[1];
}

bool
nmb__needs_whole(const nmb_prog *p, const nmb__work *w, nmb_id op, int i)
{
  const nmb_op *o = &p->op[op];
  const nmb__shard s = nmb__shard_of(p, w, o->in[i]);
  const int devices = p->hw->engine[w->engine].devices;
  if (s == NMB__WHOLE)
    return false;
  switch (o->code) {
  case NMB_OP_LINEAR:
  case NMB_OP_GLINEAR:
  case NMB_OP_TOPK:
  case NMB_OP_PICK:
  case NMB_OP_TAKE:
  case NMB_OP_MIX:
  case NMB_OP_DOT:
  case NMB_OP_POOL:
  case NMB_OP_COMBINE: return true;
  case NMB_OP_HLINEAR: return s != NMB__HEADS;
  case NMB_OP_NORM: return s != NMB__HEADS || !even_heads(&p->tensor[o->out[0]], devices);
  case NMB_OP_SOFTMAX:
  case NMB_OP_PV:
    if (i == 0)
      return s == NMB__PARTS;
    return true;
  case NMB_OP_QK:
    if (i == 2)
      return s != deal(nmb_op_space(p, op).b, p->tensor[o->in[1]].dim[2], devices);
    return s != NMB__HEADS || p->tensor[o->in[1]].dim[2] % devices != 0;
  case NMB_OP_SCAN: /* equal shares of its columns are shares of its heads */
    return (s != NMB__HEADS && s != NMB__COLS) || scan_heads(p, o, i) % devices != 0 ||
           p->tensor[o->in[3]].dim[1] % devices != 0;
  case NMB_OP_CONCAT: return true; /* of whole rows */
  case NMB_OP_WKV:
  case NMB_OP_CONV: return s != NMB__HEADS && s != NMB__COLS;
  case NMB_OP_KVAPPEND:
    return s != NMB__HEADS || p->tensor[o->in[0]].dim[2] % devices != 0;
  case NMB_OP_ADD:
  case NMB_OP_MUL:
  case NMB_OP_GLU: { /* two values cut in different ways: both whole */
    const nmb__shard other = o->nin > 1 ? nmb__shard_of(p, w, o->in[1 - i]) : NMB__WHOLE;
    return other != NMB__WHOLE && other != s;
  }
  default: return false;
  }
}

/* ------------------------------------------------------------------ memories */
/* Where all blocks take over and hand on the hidden state. */
nmb_id
nmb__handover_mem(const nmb_prog *p)
{
  nmb_id best = NMB_NONE, engine = NMB_NONE;
  for (int b = 0; b < p->nblock; b++) {
    if (p->block[b].out == NMB_NONE)
      continue;
    const nmb_id e = maker(p, NULL, nmb_tensor_root(p, p->block[b].out));
    if (e != NMB_NONE &&
        (best == NMB_NONE || p->block[b].repeat > p->block[best].repeat)) {
      best = b;
      engine = e;
    }
  }
  return p->hw->engine[engine == NMB_NONE ? p->hw->host : engine].home;
}

int
nmb__hidden_buffer(const nmb_prog *p, nmb_id tensor, nmb_id mem)
{
  const nmb_block *b = &p->block[p->tensor[tensor].block];
  const bool in = b->in != NMB_NONE && nmb_tensor_root(p, b->in) == tensor;
  const bool out = b->out != NMB_NONE && nmb_tensor_root(p, b->out) == tensor;
  if ((!in && !out) || mem != nmb__handover_mem(p))
    return NMB_NONE;
  return in ? 0 : 1;
}

static nmb_id
source_mem(const nmb_prog *p, nmb_id root)
{
  const nmb_id e = maker(p, NULL, root);
  if (e != NMB_NONE)
    return p->hw->engine[e].home;
  const nmb_id in = p->block[p->tensor[root].block].in;
  if (in != NMB_NONE && nmb_tensor_root(p, in) == root)
    return nmb__handover_mem(p);
  return p->hw->engine[p->hw->host].home;
}

/* Memories where kernels of the block read the cache. */
static uint32_t
readers_mems(const nmb_prog *p, const nmb_block *b, nmb_id cache)
{
  uint32_t set = 0;
  for (int i = 0; i < b->nop; i++) {
    const nmb_op *o = &p->op[b->op[i]];
    if (o->code == NMB_OP_KVAPPEND || o->code == NMB_OP_SPLIT)
      continue;
    for (int j = 0; j < o->nin; j++)
      if (nmb_tensor_root(p, o->in[j]) == cache) {
        const nmb_id k = nmb__kernel_of(p, b->op[i]);
        if (k != NMB_NONE && p->kernel[k].engine != NMB_NONE)
          set |= NMB_BIT(p->hw->engine[p->kernel[k].engine].resident);
      }
  }
  return set;
}

uint32_t
nmb__cache_mems(const nmb_prog *p, nmb_id cache, nmb_id writer)
{
  const nmb_tensor *t = &p->tensor[cache];
  const int end = t->lent ? p->nblock : t->block + 1;
  uint32_t set = 0;
  for (int b = t->block; b < end; b++)
    set |= readers_mems(p, &p->block[b], cache);
  return set ? set : NMB_BIT(p->hw->engine[writer].resident);
}

/* ------------------------------------------------------------- instructions */
typedef struct mover {
  nmb_run *run;
  const nmb_prog *p;
  nmb_id block, step;
  nmb_operand part; /* what is moved: tensor and rectangle */
  nmb_insns *out;
} mover;

/* The part in the copies of all devices, which lie one after another, `copy` bytes each.
 * False if that is no rectangle. */
static bool
on_devices(nmb_operand *o, int devices, int64_t copy)
{
  if (devices < 2)
    return true;
  if (o->rows == 1 || o->stride == o->row_bytes) {
    o->row_bytes *= o->rows;
    o->rows = devices;
    o->stride = copy;
    return true;
  }
  if (o->rows * o->stride != copy) /* rows of the tensor are left out */
    return false;
  o->rows *= devices;
  return true;
}

static nmb_status
move(mover *v, nmb_insn_kind kind, nmb_id from, nmb_id to, bool each_device)
{
  nmb_insn in = {.kind = kind,
                 .engine = nmb_hw_link(v->p->hw, from, to),
                 .block = v->block,
                 .step = v->step,
                 .op = NMB_NONE,
                 .nopnd = 2};
  if (in.engine == NMB_NONE)
    return nmb_fail(v->run, NMB_UNSUPPORTED, NMB_NOLOC, "no link from memory %s to %s",
                    v->p->hw->mem[from].name, v->p->hw->mem[to].name);
  in.opnd[0] = in.opnd[1] = v->part;
  in.opnd[0].mem = from;
  in.opnd[1].mem = to;
  in.opnd[1].write = true;
  const int devices = each_device ? v->p->hw->mem[from].devices : 1;
  const int64_t copy = nmb__storage_bytes(&v->p->tensor[v->part.tensor]);
  const bool one = on_devices(&in.opnd[0], devices, copy);
  (void)on_devices(&in.opnd[1], devices, copy);
  for (int d = 0; d < (one ? 1 : devices); d++) {
    nmb__insns_push(v->run, v->out, &in);
    in.opnd[0].offset += copy;
    in.opnd[1].offset += copy;
  }
  return NMB_OK;
}

/* Over one link, or two with a memory between. */
static nmb_status
copy(mover *v, nmb_id from, nmb_id to, bool each_device)
{
  const nmb_hw *hw = v->p->hw;
  if (nmb_hw_link(hw, from, to) == NMB_NONE)
    for (nmb_id m = 0; m < hw->nmem; m++)
      if (m != from && m != to && nmb_hw_link(hw, from, m) != NMB_NONE &&
          nmb_hw_link(hw, m, to) != NMB_NONE) {
        NMB_TRY(move(v, NMB_INSN_COPY, from, m, false));
        return move(v, NMB_INSN_COPY, m, to, false);
      }
  return move(v, NMB_INSN_COPY, from, to, each_device);
}

/* cut: the value is spread over the devices of `from`; whole: it must not be at `to`. */
static nmb_status
bring(mover *v, nmb_id from, nmb_id to, bool cut, bool whole)
{
  const nmb_mem *a = &v->p->hw->mem[from], *b = &v->p->hw->mem[to];
  if (from == to) {
    if (!cut || !whole || a->devices < 2)
      return NMB_OK;
    NMB_TRY(move(v, NMB_INSN_GATHER, from, from, false));
    return move(v, NMB_INSN_BCAST, from, from, false);
  }
  const bool alike = a->devices == b->devices; /* each device has its own link */
  if (cut && alike && !whole)
    return copy(v, from, to, false);
  if (cut && a->devices > 1) {
    NMB_TRY(move(v, NMB_INSN_GATHER, from, from, false));
    if (alike)
      NMB_TRY(move(v, NMB_INSN_BCAST, from, from, false));
  }
  NMB_TRY(copy(v, from, to, alike && a->devices > 1));
  return alike || b->devices < 2 ? NMB_OK : move(v, NMB_INSN_BCAST, to, to, false);
}

/* A list of the model, such as the factors of a rotation, has no rows of sequences. */
static bool
is_list(const nmb_tensor *t)
{
  return t->role == NMB_ROLE_INPUT && t->dtype != NMB_DT_I32;
}

/* The part of `tensor` that a step needs: rows of its sequences, or its heads. */
static void
part_rect(const nmb_prog *p, nmb_id tensor, const nmb_step *s, bool heads,
          nmb_operand *out)
{
  const nmb_tensor *t = &p->tensor[tensor];
  const int64_t n = nmb_tensor_count(t), B = p->spec.batch, part = s->part,
                parts = s->nparts;
  const int64_t T = B * p->spec.fresh;
  /* heads lie side by side for each token; scores over one key head do so, too.  Scores
   * over several have the rows of a head together, however many there are of either */
  const bool units = nmb__value_rows(p, tensor) == NMB_ROWS_UNIT;
  const bool tokens = t->rank == 3 && ((t->dim[0] == T && !units) ||
                                       (t->dim[0] == B && t->dim[1] % p->spec.fresh == 0));
  const int64_t outer = tokens ? T : B;
  *out = (nmb_operand){.slot = NMB_NONE};
  if (s->axis == NMB_AXIS_BATCH && parts > 1 && !is_list(t) && n % B == 0 &&
      B % parts == 0 &&
      nmb__rect(p, tensor, n / B, B * part / parts, B * (part + 1) / parts, 0, n / B,
                out))
    return;
  const int64_t len = n / outer;
  if (s->axis == NMB_AXIS_HEAD && parts > 1 && heads && n % outer == 0 &&
      len % parts == 0 &&
      nmb__rect(p, tensor, len, 0, outer, len * part / parts, len * (part + 1) / parts,
                out))
    return;
  const nmb__view v = nmb__view_of(p, tensor);
  (void)nmb__rect(p, tensor, v.cols, 0, v.rows, 0, v.cols, out);
}

/* Is every use of the tensor in the kernel head by head? */
static bool
by_heads(const nmb_prog *p, const nmb_kernel *k, nmb_id tensor)
{
  if (p->tensor[tensor].rank != 3)
    return false;
  for (int i = 0; i < k->nop; i++) {
    const nmb_op *o = &p->op[k->op[i]];
    for (int j = 0; j < o->nin; j++)
      if (o->in[j] == tensor && (o->code == NMB_OP_LINEAR || o->code == NMB_OP_GLINEAR))
        return false;
  }
  return true;
}

nmb_status
nmb_lower_transfer(nmb_run *run, const nmb_prog *p, nmb_id tensor, const nmb_step *step,
                   nmb_insns *out)
{
  const nmb__work w = nmb__work_of(p, step->kernel);
  const nmb_kernel *k = &p->kernel[step->kernel];
  const nmb_id root = nmb_tensor_root(p, tensor), def = p->tensor[root].def;
  const nmb_engine *e = &p->hw->engine[w.engine];
  bool whole = false, used = false;
  if (nmb_tensor_resident(&p->tensor[root]))
    return NMB_OK;
  for (int i = 0; i < k->nop; i++) {
    const nmb_op *o = &p->op[k->op[i]];
    if (k->op[i] == def)
      return NMB_OK; /* made in the kernel */
    for (int j = 0; j < o->nin; j++)
      if (o->in[j] == tensor && o->code != NMB_OP_SPLIT) {
        used = true;
        whole |= e->devices < 2 || nmb__needs_whole(p, &w, k->op[i], j);
      }
  }
  if (!used) /* a view costs nothing; who reads it brings it */
    return NMB_OK;
  mover v = {
      .run = run, .p = p, .block = w.block, .step = nmb__step_row(p, step), .out = out};
  part_rect(p, tensor, step, by_heads(p, k, tensor), &v.part);
  return bring(&v, source_mem(p, root), e->home,
               nmb__shard_of(p, NULL, tensor) != NMB__WHOLE, whole);
}

nmb_status
nmb_lower_handover(nmb_run *run, const nmb_prog *p, nmb_id block, const nmb_step *step,
                   nmb_insns *out)
{
  const nmb_id t = p->block[block].out;
  if (t == NMB_NONE)
    return NMB_OK;
  mover v = {
      .run = run, .p = p, .block = block, .step = nmb__step_row(p, step), .out = out};
  part_rect(p, t, &(nmb_step){.nparts = 1}, false, &v.part);
  return bring(&v, source_mem(p, nmb_tensor_root(p, t)), nmb__handover_mem(p),
               nmb__shard_of(p, NULL, t) != NMB__WHOLE, true);
}

bool
nmb_moves_equal(const nmb_insn *a, const nmb_insn *b)
{
  if (a->kind != b->kind || a->engine != b->engine || a->nopnd != b->nopnd)
    return false;
  for (int i = 0; i < a->nopnd; i++) {
    const nmb_operand *x = &a->opnd[i], *y = &b->opnd[i];
    if (x->tensor != y->tensor || x->mem != y->mem || x->write != y->write ||
        x->offset != y->offset || x->rows != y->rows || x->row_bytes != y->row_bytes ||
        x->stride != y->stride)
      return false;
  }
  return true;
}
