/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What may run where, and which ops may be one kernel. */
#include <assert.h>
#include <string.h>

#include "base/run.h"
#include "ir/lower.h"

nmb_rowkind
nmb__value_rows(const nmb_prog *p, nmb_id t)
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
  case NMB_OP_SCAN:
  case NMB_OP_ATTENTION: return NMB_ROWS_UNIT;
  case NMB_OP_GLINEAR:
  case NMB_OP_PERMUTE: return NMB_ROWS_ROUTED;
  case NMB_OP_COMBINE: return NMB_ROWS_TOKEN;
  default: return nmb__value_rows(p, o->out[0]);
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
    const nmb_tensor *r =
        &p->tensor[nmb_tensor_root(p, i < o->nin ? o->in[i] : o->out[i - o->nin])];
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
  bool used = false; /* what nothing reads is the result of the step */
  if (b->out != NMB_NONE && nmb_tensor_root(p, b->out) == root)
    return false;
  for (int i = 0; i < b->nop; i++) {
    const nmb_op *o = &p->op[b->op[i]];
    for (int j = 0; j < o->nin; j++)
      if (nmb_tensor_root(p, o->in[j]) == root) {
        if (!listed(w->op, w->nop, b->op[i]) || o->code == NMB_OP_KVAPPEND)
          return false; /* a cache may lie in another memory than this engine's */
        used = true;
      }
  }
  return used;
}

/* ------------------------------------------------------------------- tiling */
/* Are all of the op's columns alike, so that a tile may hold some of them? */
static bool
columns_apart(nmb_opcode c)
{
  switch (c) {
  case NMB_OP_LINEAR:
  case NMB_OP_HLINEAR:
  case NMB_OP_GLINEAR:
  case NMB_OP_ACT:
  case NMB_OP_GLU:
  case NMB_OP_ADD:
  case NMB_OP_MUL:
  case NMB_OP_WKV:
  case NMB_OP_CONV: return true;
  default: return false;
  }
}

/* Does input i of the op enter a sum over its row? */
static bool
reduces(const nmb_op *o, int i)
{
  switch (o->code) {
  case NMB_OP_NORM: return i == 0 || !strcmp(nmb_op_sym(o, "kind", ""), "like");
  case NMB_OP_MIX: return true;
  case NMB_OP_DOT:
  case NMB_OP_SOFTMAX:
  case NMB_OP_TOPK:
  case NMB_OP_PICK:
  case NMB_OP_LINEAR:
  case NMB_OP_HLINEAR:
  case NMB_OP_GLINEAR:
  case NMB_OP_PV: return i == 0;
  case NMB_OP_QK: return i < 2;
  default: return false;
  }
}

bool
nmb__cuts_n(const nmb__work *w)
{
  int64_t n = 0;
  for (int i = 0; i < w->nop; i++) {
    const nmb_op *o = &w->p->op[w->op[i]];
    const nmb_space s = nmb_op_space(w->p, w->op[i]);
    if (!columns_apart(o->code) || (n && s.n != n) ||
        nmb_op_rowkind(w->p, w->op[i]) == NMB_ROWS_UNIT)
      return false;
    n = s.n;
    for (int j = 0; j < o->nin; j++)
      if (reduces(o, j) && nmb__inner(w, o->in[j]))
        return false;
  }
  return true;
}

static int64_t
round_up(int64_t n, int64_t to)
{
  return to > 1 ? (n + to - 1) / to * to : n;
}

/* Bytes of one tile of the value that an op makes: rows times row length. */
static int64_t
tile_bytes(const nmb__work *w, nmb_id op, const nmb_map *m)
{
  const nmb_prog *p = w->p;
  const nmb_op *o = &p->op[op];
  const nmb_tensor *y = &p->tensor[o->out[0]];
  const nmb_space s = nmb_op_space(p, op);
  const nmb_rowkind kind = nmb_op_rowkind(p, op);
  int64_t rows = s.m, len;
  if (kind == NMB_ROWS_UNIT) {
    const int64_t units = s.b > 1 ? s.b : s.m, g = s.b > 1 ? s.m : 1;
    rows = m->tile_b > 0 && m->tile_b < units ? m->tile_b : units;
    len = nmb_tensor_count(y) / (units * g);
    rows *= m->tile_m > 0 && m->tile_m < g ? m->tile_m : g;
  } else {
    len = o->code == NMB_OP_GLINEAR ? s.n : nmb_tensor_count(y) / s.m;
    if (m->tile_n > 0 && m->tile_n < s.n)
      len = m->tile_n;
    else if (s.b > 1 && o->code == NMB_OP_HLINEAR && m->tile_b > 0 && m->tile_b < s.b)
      len = s.n * m->tile_b;
    if (m->tile_m > 0 && m->tile_m < rows)
      rows = m->tile_m;
  }
  const nmb_engine *e = &p->hw->engine[w->engine];
  if (e->rows_one_by_one) {
    rows = 1;
    if (kind == NMB_ROWS_UNIT && e->in_memory) { /* one for each unit side by side */
      const int64_t side = p->hw->mem[e->resident].channels;
      rows = m->tile_b > 0 && m->tile_b < s.b ? m->tile_b : s.b;
      rows = rows < side ? rows : side;
    }
  }
  return rows * nmb_bytes(y->dtype, y->group, len);
}

/* Rows of expert order in one tile of a kernel: those of one expert. */
static int64_t
most_rows(const nmb__work *w)
{
  for (int i = 0; i < w->nop; i++)
    if (w->p->op[w->op[i]].code == NMB_OP_GLINEAR)
      return nmb_op_space(w->p, w->op[i]).m;
  return 0;
}

int64_t
nmb__inner_bytes(const nmb__work *w, const nmb_map *map)
{
  const nmb_prog *p = w->p;
  const nmb_id local = p->hw->engine[w->engine].local;
  const int64_t most = most_rows(w);
  nmb_map m = *map;
  int64_t sum = 0;
  if (most && (m.tile_m == 0 || m.tile_m > most))
    m.tile_m = most;
  for (int i = 0; i < w->nop; i++) {
    const nmb_op *o = &p->op[w->op[i]];
    if (o->code != NMB_OP_SPLIT && nmb__inner(w, o->out[0]))
      sum += round_up(tile_bytes(w, w->op[i], &m),
                      local == NMB_NONE ? 1 : p->hw->mem[local].align);
  }
  return sum;
}

/* The extents along b and m that tiles of the kernel are cut from. */
static void
extents(const nmb__work *w, int64_t *b, int64_t *m, int64_t *n)
{
  *b = 1;
  *m = *n = 0;
  for (int i = 0; i < w->nop; i++) {
    const nmb_space s = nmb_op_space(w->p, w->op[i]);
    const nmb_opcode c = w->p->op[w->op[i]].code;
    if (c == NMB_OP_SPLIT)
      continue;
    if (c == NMB_OP_QK || c == NMB_OP_SOFTMAX || c == NMB_OP_PV)
      *b = s.b;
    if (*m == 0 || c == NMB_OP_GLINEAR || *b == s.b)
      *m = s.m;
    *n = s.n;
  }
}

/* Halves `*tile` of `extent` until the inner values fit or it is at `least`. */
static bool
shrink(const nmb__work *w, nmb_map *m, int64_t *tile, int64_t extent, int64_t least,
       int64_t have)
{
  for (int64_t parts = 1;; parts *= 2) {
    const int64_t t = (extent + parts - 1) / parts;
    *tile = parts == 1 ? 0 : t > least ? t : least;
    if (nmb__inner_bytes(w, m) <= have)
      return true;
    if (t <= least)
      return false;
  }
}

#define LEAST_COLUMNS 32
static bool
fit(const nmb__work *w, nmb_map *m)
{
  const nmb_id local = w->p->hw->engine[w->engine].local;
  const int64_t have = local == NMB_NONE ? 0 : w->p->hw->mem[local].bytes;
  int64_t b, rows, n;
  if (nmb__inner_bytes(w, m) <= have)
    return true;
  extents(w, &b, &rows, &n);
  if (b > 1 && shrink(w, m, &m->tile_b, b, 1, have))
    return true;
  if (shrink(w, m, &m->tile_m, rows, 1, have))
    return true;
  return nmb__cuts_n(w) &&
         shrink(w, m, &m->tile_n, n, LEAST_COLUMNS < n ? LEAST_COLUMNS : n, have);
}

void
nmb__map_default(const nmb__work *w, nmb_map *out)
{
  *out = (nmb_map){.kernel = NMB_NONE, .reuse = 1};
  (void)fit(w, out);
}

void
nmb_map_default(const nmb_prog *p, nmb_id kernel, nmb_map *out)
{
  const nmb__work w = nmb__work_of(p, kernel);
  nmb__map_default(&w, out);
  out->kernel = kernel;
}

/* ------------------------------------------------------------------ kernels */
/* Is one op of the list joined to the others by values made in it? */
static bool
connected(const nmb_prog *p, const nmb_id *op, int nop)
{
  uint64_t in = 1; /* ops reached from the first */
  if (nop > 64)
    return false;
  for (bool more = true; more;) {
    more = false;
    for (int i = 0; i < nop; i++)
      for (int j = 0; j < p->op[op[i]].nin; j++) {
        const nmb_id def = p->tensor[p->op[op[i]].in[j]].def;
        for (int d = 0; d < i; d++)
          if (op[d] == def && (in >> (unsigned)d & 1) != (in >> (unsigned)i & 1)) {
            in |= UINT64_C(1) << (unsigned)d | UINT64_C(1) << (unsigned)i;
            more = true;
          }
      }
  }
  return in == UINT64_MAX >> (unsigned)(64 - nop);
}

static int
find(const nmb_id *op, int nop, nmb_id id)
{
  for (int i = 0; i < nop; i++)
    if (op[i] == id)
      return i;
  return NMB_NONE;
}

/* Does a path leave the list and come back?  Walks the ops between. */
static bool
leaves_and_returns(const nmb_prog *p, const nmb_id *op, int nop)
{
  const nmb_block *b = &p->block[p->op[op[0]].block];
  int lo = find(b->op, b->nop, op[0]);
  const int hi = find(b->op, b->nop, op[nop - 1]);
  bool after[512]; /* outside, and needs an op of the list */
  if (lo < 0 || hi - lo >= 512)
    return true;
  for (int i = lo; i <= hi; i++) {
    const nmb_op *o = &p->op[b->op[i]];
    const bool listed_ = listed(op, nop, b->op[i]);
    after[i - lo] = false;
    for (int j = 0; j < o->nin; j++) {
      const nmb_id def = p->tensor[o->in[j]].def;
      const int at = def == NMB_NONE ? NMB_NONE : find(b->op + lo, i - lo, def);
      if (at < 0)
        continue;
      if (after[at]) {
        if (listed_)
          return true;
        after[i - lo] = true;
      } else if (!listed_ && listed(op, nop, def))
        after[i - lo] = true;
    }
  }
  return false;
}

/* Tokens of a state mixer follow one another: its kernel is not cut along them.
 * A cache append runs where the cache is; joined with other ops it would draw the
 * whole kernel, and then the attention over the cache, to an engine that has all of
 * their ops, which is often only the host. */
static bool
stands_alone(nmb_opcode c)
{
  return c == NMB_OP_KVAPPEND || c == NMB_OP_PERMUTE || c == NMB_OP_SELECT ||
         c == NMB_OP_ATTENTION || c == NMB_OP_MOE || c == NMB_OP_PICK || c == NMB_OP_CONV ||
         c == NMB_OP_SCAN || c == NMB_OP_WKV || c == NMB_OP_CONCAT || c == NMB_OP_POOL ||
         c == NMB_OP_TAKE;
}

/* Rows that a tile along m is cut from must be the same for all ops. */
static bool
same_rows(const nmb_prog *p, const nmb_id *op, int nop)
{
  nmb_space first = {0, 0, 0, 0};
  int64_t routed = 0;
  for (int i = 0; i < nop; i++) {
    const nmb_op *o = &p->op[op[i]];
    const nmb_space s = nmb_op_space(p, op[i]);
    const nmb_rowkind kind = nmb_op_rowkind(p, op[i]);
    if (o->code == NMB_OP_SPLIT)
      continue;
    if (kind == NMB_ROWS_ROUTED) {
      const nmb_tensor *y = &p->tensor[o->out[0]];
      const int64_t rows = nmb_tensor_count(y) / y->dim[y->rank - 1];
      if (routed && rows != routed)
        return false;
      routed = rows;
      continue;
    }
    if (kind == NMB_ROWS_UNIT && o->code != NMB_OP_QK && o->code != NMB_OP_SOFTMAX &&
        o->code != NMB_OP_PV)
      continue;
    if (first.m && (s.m != first.m || (kind == NMB_ROWS_UNIT && s.b != first.b)))
      return false;
    first = s;
  }
  return true;
}

/* What an inner value cannot give: accumulators in banks do not feed products (but
 * for units of attention, which stay on their channels), and between devices only
 * whole kernels exchange values. */
static const char *
inner_trouble(const nmb__work *w)
{
  const nmb_engine *e = &w->p->hw->engine[w->engine];
  for (int i = 0; i < w->nop; i++) {
    const nmb_op *o = &w->p->op[w->op[i]];
    for (int j = 0; j < o->nin; j++) {
      const nmb_id def = w->p->tensor[nmb_tensor_root(w->p, o->in[j])].def;
      if (def == NMB_NONE || !listed(w->op, w->nop, def))
        continue;
      if (e->in_memory && reduces(o, j) && nmb_op_rowkind(w->p, w->op[i]) != NMB_ROWS_UNIT)
        return "banks cannot reduce over a value that they have just made";
      if (e->devices > 1 && nmb__needs_whole(w->p, w, w->op[i], j) &&
          nmb__shard_of(w->p, w, o->in[j]) != NMB__WHOLE)
        return "a value would have to be gathered from all devices inside the kernel";
    }
  }
  return NULL;
}

bool
nmb_fuse_legal(const nmb_prog *p, nmb_id engine, const nmb_id *op, int nop,
               const char **why)
{
  const char *unused;
  why = why ? why : &unused;
  *why = NULL;
  for (int i = 0; i < nop && !*why; i++) {
    if (p->op[op[i]].block != p->op[op[0]].block)
      *why = "ops of two blocks";
    else if (!nmb_engine_can(p, engine, op[i]))
      *why = "the engine cannot run one of the ops";
    else if (nmb_op_rowkind(p, op[i]) != nmb_op_rowkind(p, op[0]))
      *why = "ops over different kinds of rows";
    else if (nop > 1 && stands_alone(p->op[op[i]].code))
      *why = "an op that stands alone";
  }
  if (*why || nop == 1)
    return !*why;
  const nmb__work w = {p, op, nop, p->op[op[0]].block, engine};
  nmb_map m = {.kernel = NMB_NONE, .reuse = 1};
  if (p->hw->engine[engine].local == NMB_NONE)
    *why = "the engine has no local memory";
  else if (!same_rows(p, op, nop))
    *why = "different numbers of rows";
  else if (!connected(p, op, nop))
    *why = "no value between the ops";
  else if (leaves_and_returns(p, op, nop))
    *why = "a path leaves the kernel and comes back";
  else if ((*why = inner_trouble(&w)) == NULL && !fit(&w, &m))
    *why = "the smallest tile of the inner values does not fit its local memory";
  return !*why;
}
