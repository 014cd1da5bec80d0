/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Verifier of code, first half: each instruction alone, and the work as a whole.
 *
 * That tiles cover an iteration space exactly once is checked by measure: every
 * index along every axis gets a random weight, a tile weighs the product of the
 * weights of its four ranges, and the tiles must weigh as much as the space.  A
 * gap and an overlap of equal size do not cancel, as their weights differ (but
 * for a chance of about 2^-60).  Linear in the instructions.
 */
#include <inttypes.h>

#include "ir/verify_code.h"

const char *
nmb__insn_text(nmb_run *run, const nmb_prog *p, nmb_id id)
{
  static const char *const kind[] = {
#define X(id, name, help) name,
      NMB_INSN_MAP(X)
#undef X
  };
  const nmb_insn *n = &p->insn[id];
  const char *engine =
      n->engine >= 0 && n->engine < p->hw->nengine ? p->hw->engine[n->engine].name : "?";
  if (n->op < 0 || n->op >= p->nop)
    return nmb_format(run, "instruction %d (%s %s)", (int)id, engine, kind[n->kind]);
  return nmb_format(run, "instruction %d (%s %s, block %s, %%%s)", (int)id, engine,
                    kind[n->kind], p->block[p->op[n->op].block].name,
                    p->tensor[p->op[n->op].out[0]].name);
}

typedef struct ctx {
  nmb_run *run;
  const nmb_prog *p;
  nmb_id *kernel;    /* [nop] kernel of each op */
  uint64_t *weight;  /* [nop] of the tiles so far */
  uint32_t *written; /* [nop] memories that the op's output went to: a bit per memory */
} ctx;

static nmb_status
fail(const ctx *c, nmb_id id, const char *what, int64_t found, const char *than,
     int64_t expected)
{
  return nmb_fail(c->run, NMB_UNVERIFIED, NMB_NOLOC,
                  "%s: %s: found %" PRId64 ", expected %s%" PRId64,
                  nmb__insn_text(c->run, c->p, id), what, found, than, expected);
}

static nmb_status
fail_text(const ctx *c, nmb_id id, const char *what)
{
  return nmb_fail(c->run, NMB_UNVERIFIED, NMB_NOLOC, "%s: %s",
                  nmb__insn_text(c->run, c->p, id), what);
}

/* ----------------------------------------------------------------- measures */
/* Sum of the weights of the indexes below x along an axis (splitmix64's mixer). */
static uint64_t
below(int axis, int64_t x)
{
  uint64_t z = ((uint64_t)x << 2 | (uint64_t)axis) + UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

static uint64_t
range_weight(int axis, int64_t lo, int64_t hi)
{
  return below(axis, hi) - below(axis, lo);
}

static int64_t
least(int64_t a, int64_t b)
{
  return a < b ? a : b;
}

/* Rows beyond an expert's load are no work. */
static uint64_t
tile_weight(const nmb_prog *p, nmb_id op, const nmb_tile *t)
{
  const uint64_t nk = range_weight(2, t->n0, t->n1) * range_weight(3, t->k0, t->k1);
  const nmb_op *o = &p->op[op];
  if (o->code != NMB_OP_GLINEAR)
    return range_weight(0, t->b0, t->b1) * range_weight(1, t->m0, t->m1) * nk;
  const nmb_routing *r = &p->routing[nmb_op_int(o, "routing", 0)];
  uint64_t sum = 0;
  for (int64_t e = t->b0; e < t->b1; e++)
    sum += range_weight(0, e, e + 1) *
           range_weight(1, least(t->m0, r->load[e]), least(t->m1, r->load[e]));
  return sum * nk;
}

/* --------------------------------------------------------------------- tiles */
static nmb_status
check_range(const ctx *c, nmb_id id, const char *axis, int64_t lo, int64_t hi,
            int64_t extent)
{
  if (lo >= 0 && lo < hi && hi <= extent)
    return NMB_OK;
  return nmb_fail(c->run, NMB_UNVERIFIED, NMB_NOLOC,
                  "%s: tile [%" PRId64 ", %" PRId64
                  ") along %s, expected a part of [0, %" PRId64 ")",
                  nmb__insn_text(c->run, c->p, id), lo, hi, axis, extent);
}

static nmb_status
check_tile(const ctx *c, nmb_id id)
{
  const nmb_tile *t = &c->p->insn[id].tile;
  const nmb_space s = nmb_op_space(c->p, c->p->insn[id].op);
  NMB_TRY(check_range(c, id, "b", t->b0, t->b1, s.b));
  NMB_TRY(check_range(c, id, "m", t->m0, t->m1, s.m));
  NMB_TRY(check_range(c, id, "n", t->n0, t->n1, s.n));
  const nmb_op *o = &c->p->op[c->p->insn[id].op];
  const nmb_tensor *x = &c->p->tensor[o->in[0]];
  const int64_t row = x->dim[x->rank - 1];
  if (o->code == NMB_OP_NORM && (t->n0 % row || t->n1 % row))
    return nmb_fail(c->run, NMB_UNVERIFIED, NMB_NOLOC,
                    "%s: tile [%" PRId64 ", %" PRId64
                    ") along n cuts a row of %" PRId64 " that the op reduces",
                    nmb__insn_text(c->run, c->p, id), t->n0, t->n1, row);
  return check_range(c, id, "k", t->k0, t->k1, s.k);
}

static nmb_status
check_place(const ctx *c, nmb_id id)
{
  const nmb_insn *n = &c->p->insn[id];
  const nmb_engine *e = &c->p->hw->engine[n->engine];
  const int channels = e->in_memory ? c->p->hw->mem[e->resident].channels : 0;
  const nmb_place *l = &n->place;
  if (n->kind != NMB_INSN_EXEC || !e->in_memory) {
    if (l->nchannel != 0)
      return fail(c, id, "channels of an instruction that computes in no memory",
                  l->nchannel, "", 0);
    return NMB_OK;
  }
  if (l->channel0 < 0 || l->nchannel < 1 || l->nchannel > channels ||
      l->channel0 > channels - l->nchannel)
    return nmb_fail(c->run, NMB_UNVERIFIED, NMB_NOLOC,
                    "%s: channels [%d, %d), expected a part of [0, %d)",
                    nmb__insn_text(c->run, c->p, id), l->channel0,
                    l->channel0 + l->nchannel, channels);
  return NMB_OK;
}

/* ------------------------------------------------------------------ operands */
/* The end of the rectangle; -1 if it is none or too large to count. */
static int64_t
operand_end(const nmb_operand *o)
{
  if (o->offset < 0 || o->rows < 1 || o->row_bytes < 1 || o->stride < 0 ||
      (o->stride > 0 && o->rows - 1 > INT64_MAX / 4 / o->stride) ||
      o->row_bytes > INT64_MAX / 4 || o->offset > INT64_MAX / 4)
    return -1;
  return o->offset + (o->rows - 1) * o->stride + o->row_bytes;
}

static nmb_status
check_operand(const ctx *c, nmb_id id, const nmb_operand *o)
{
  const nmb_prog *p = c->p;
  const nmb_insn *n = &p->insn[id];
  if (o->slot < 0 || o->slot >= p->nslot)
    return fail(c, id, "slot of an operand", o->slot, "less than ", p->nslot);
  const nmb_slot *s = &p->slot[o->slot];
  const nmb_tensor *t = &p->tensor[s->tensor];
  if (o->tensor != s->tensor || o->mem != s->mem)
    return nmb_fail(c->run, NMB_UNVERIFIED, NMB_NOLOC,
                    "%s: slot %d holds %%%s in %s, not tensor %d in memory %d",
                    nmb__insn_text(c->run, p, id), (int)o->slot, t->name,
                    p->hw->mem[s->mem].name, (int)o->tensor, (int)o->mem);
  if (t->block != n->block && !t->lent)
    return nmb_fail(c->run, NMB_UNVERIFIED, NMB_NOLOC, "%s: operand %%%s is of block %s",
                    nmb__insn_text(c->run, p, id), t->name, p->block[t->block].name);
  const int64_t bytes = s->resident ? s->bytes / p->block[t->block].repeat : s->bytes;
  const int64_t end = operand_end(o);
  if (end < 0 || end > bytes)
    return nmb_fail(c->run, NMB_UNVERIFIED, NMB_NOLOC,
                    "%s: operand %%%s of %" PRId64 " rows of %" PRId64 " bytes, %" PRId64
                    " apart, at %" PRId64 " ends at byte %" PRId64
                    " of slot %d, which has %" PRId64,
                    nmb__insn_text(c->run, p, id), t->name, o->rows, o->row_bytes,
                    o->stride, o->offset, end, (int)o->slot, bytes);
  if (!s->resident && (n->step < s->first || n->step > s->last))
    return nmb_fail(
        c->run, NMB_UNVERIFIED, NMB_NOLOC,
        "%s of step %d uses slot %d (%%%s), which lives from step %d to step %d",
        nmb__insn_text(c->run, p, id), (int)n->step, (int)o->slot, t->name, (int)s->first,
        (int)s->last);
  return NMB_OK;
}

static bool
has_operand(const nmb_insn *n, nmb_id root, bool write)
{
  for (int i = 0; i < n->nopnd; i++)
    if (n->opnd[i].tensor == root && n->opnd[i].write == write)
      return true;
  return false;
}

/* An op reads what it takes and writes what it makes, and touches nothing else. */
static nmb_status
check_exec_operands(const ctx *c, nmb_id id)
{
  const nmb_prog *p = c->p;
  const nmb_insn *n = &p->insn[id];
  const nmb_op *o = &p->op[n->op];
  const bool append = o->code == NMB_OP_KVAPPEND;
  for (int i = 0; i < o->nout; i++)
    if (!has_operand(n, nmb_tensor_root(p, o->out[i]), true))
      return fail_text(
          c, id, nmb_format(c->run, "no operand writes %%%s", p->tensor[o->out[i]].name));
  for (int i = append; i < o->nin; i++)
    if (p->tensor[o->in[i]].dtype != NMB_DT_I32 &&
        !has_operand(n, nmb_tensor_root(p, o->in[i]), false))
      return fail_text(
          c, id, nmb_format(c->run, "no operand reads %%%s", p->tensor[o->in[i]].name));
  for (int j = 0; j < n->nopnd; j++) {
    const nmb_operand *x = &n->opnd[j];
    bool known = false;
    for (int i = 0; i < (x->write ? o->nout : o->nin) && !known; i++)
      known = nmb_tensor_root(p, x->write ? o->out[i] : o->in[i]) == x->tensor;
    if (!known)
      return fail_text(c, id,
                       nmb_format(c->run, "the op does not %s %%%s",
                                  x->write ? "write" : "read",
                                  p->tensor[x->tensor].name));
    if (x->write)
      c->written[n->op] |= NMB_BIT(x->mem);
  }
  return NMB_OK;
}

/* ------------------------------------------------------------- instructions */
static nmb_status
check_exec(const ctx *c, nmb_id id)
{
  const nmb_prog *p = c->p;
  const nmb_insn *n = &p->insn[id];
  if (n->op < 0 || n->op >= p->nop)
    return fail(c, id, "op", n->op, "less than ", p->nop);
  const nmb_id kernel = p->step[n->step].kernel;
  if (c->kernel[n->op] != kernel)
    return fail(c, id, "kernel of the op", c->kernel[n->op], "that of its step, ",
                kernel);
  if (n->engine != p->kernel[kernel].engine)
    return fail(c, id, "engine", n->engine, "that of its kernel, ",
                p->kernel[kernel].engine);
  NMB_TRY(check_tile(c, id));
  NMB_TRY(check_exec_operands(c, id));
  c->weight[n->op] += tile_weight(p, n->op, &n->tile);
  return NMB_OK;
}

static nmb_status
check_transfer(const ctx *c, nmb_id id)
{
  const nmb_prog *p = c->p;
  const nmb_insn *n = &p->insn[id];
  const nmb_engine *e = &p->hw->engine[n->engine];
  if (!nmb_engine_is_link(e))
    return fail_text(c, id, "the engine is no link");
  if (n->op != NMB_NONE)
    return fail(c, id, "op", n->op, "", NMB_NONE);
  if (n->nopnd != 2 || n->opnd[0].write || !n->opnd[1].write)
    return fail_text(c, id, "expected one operand to read, then one to write");
  const nmb_operand *from = &n->opnd[0], *to = &n->opnd[1];
  const bool along = (from->mem == e->from && to->mem == e->to) ||
                     (from->mem == e->to && to->mem == e->from);
  if (!along)
    return nmb_fail(c->run, NMB_UNVERIFIED, NMB_NOLOC,
                    "%s: from %s to %s, which the link does not join",
                    nmb__insn_text(c->run, p, id), p->hw->mem[from->mem].name,
                    p->hw->mem[to->mem].name);
  if (n->kind == NMB_INSN_COPY &&
      from->rows * from->row_bytes != to->rows * to->row_bytes)
    return fail(c, id, "bytes read and copied", from->rows * from->row_bytes,
                "those written, ", to->rows * to->row_bytes);
  return NMB_OK;
}

static nmb_status
check_insn(const ctx *c, nmb_id id)
{
  const nmb_prog *p = c->p;
  const nmb_insn *n = &p->insn[id];
  if (n->engine < 0 || n->engine >= p->hw->nengine)
    return fail(c, id, "engine", n->engine, "less than ", p->hw->nengine);
  if (n->step < 0 || n->step >= p->nstep)
    return fail(c, id, "step", n->step, "less than ", p->nstep);
  if (n->block != p->kernel[p->step[n->step].kernel].block)
    return fail(c, id, "block", n->block, "that of its step, ",
                p->kernel[p->step[n->step].kernel].block);
  if (id > 0 && n->block < p->insn[id - 1].block)
    return fail(c, id, "block", n->block, "at least that of the instruction before, ",
                p->insn[id - 1].block);
  NMB_TRY(check_place(c, id));
  for (int i = 0; i < n->nopnd; i++)
    NMB_TRY(check_operand(c, id, &n->opnd[i]));
  switch (n->kind) {
  case NMB_INSN_EXEC: return check_exec(c, id);
  case NMB_INSN_SYNC: return n->nopnd ? fail(c, id, "operands", n->nopnd, "", 0) : NMB_OK;
  default: return check_transfer(c, id);
  }
}

/* ----------------------------------------------------------------- coverage */
static int
bits(uint32_t set)
{
  int n = 0;
  for (; set; set &= set - 1)
    n++;
  return n;
}

/* How much of the op's space the tiles cover, to say what is wrong. */
static double
covered(const ctx *c, nmb_id op, int64_t *tiles)
{
  double volume = 0;
  *tiles = 0;
  for (int i = 0; i < c->p->ninsn; i++) {
    const nmb_insn *n = &c->p->insn[i];
    if (n->kind != NMB_INSN_EXEC || n->op != op)
      continue;
    const nmb_tile *t = &n->tile;
    ++*tiles;
    volume += (double)(t->b1 - t->b0) * (double)(t->m1 - t->m0) *
              (double)(t->n1 - t->n0) * (double)(t->k1 - t->k0);
  }
  return volume;
}

/* A cache that lies in several memories is appended to in each of them, by a copy
 * where the engine does not reach. */
static nmb_status
check_append(const ctx *c, nmb_id op)
{
  const nmb_prog *p = c->p;
  const nmb_op *o = &p->op[op];
  const nmb_tensor *x = &p->tensor[o->in[1]], *cache = &p->tensor[o->in[0]];
  const nmb_id root = nmb_tensor_root(p, o->in[0]);
  int64_t *bytes = NMB_NEW(c->run, int64_t, p->hw->nmem);
  bool *used = NMB_NEW(c->run, bool, p->hw->nmem);
  for (int i = 0; i < p->ninsn; i++)
    for (int j = 0; j < p->insn[i].nopnd && p->insn[i].block == o->block; j++) {
      const nmb_operand *y = &p->insn[i].opnd[j];
      if (y->tensor != root)
        continue;
      used[y->mem] = true;
      if (y->write)
        bytes[y->mem] += y->rows * y->row_bytes;
    }
  const int64_t expected = nmb_bytes(cache->dtype, cache->group, nmb_tensor_count(x));
  bool any = false;
  for (int m = 0; m < p->hw->nmem; m++) {
    any = any || used[m];
    /* rows of grouped formats round up one by one */
    if (used[m] &&
        (bytes[m] < expected ||
         (bytes[m] > expected && nmb_dtype_get(cache->dtype)->scale_bits == 0)))
      return nmb_fail(c->run, NMB_UNVERIFIED, o->loc,
                      "%s: %" PRId64 " bytes are appended in %s, expected %" PRId64,
                      nmb__op_text(c->run, p, op), bytes[m], p->hw->mem[m].name,
                      expected);
  }
  return any ? NMB_OK
             : nmb_fail(c->run, NMB_UNVERIFIED, o->loc, "%s is never executed",
                        nmb__op_text(c->run, p, op));
}

static nmb_status
check_coverage(const ctx *c, nmb_id op)
{
  const nmb_prog *p = c->p;
  const nmb_op *o = &p->op[op];
  if (o->code == NMB_OP_SPLIT) /* a view: nothing to do */
    return NMB_OK;
  const nmb_space s = nmb_op_space(p, op);
  const nmb_tile all = {0, s.b, 0, s.m, 0, s.n, 0, s.k};
  uint64_t expected = tile_weight(p, op, &all);
  if (o->code == NMB_OP_KVAPPEND) {
    NMB_TRY(check_append(c, op));
    expected *= (uint64_t)bits(c->written[op]); /* once for each memory it reaches */
  }
  if (c->weight[op] == expected)
    return NMB_OK;
  int64_t tiles;
  const double volume = covered(c, op, &tiles);
  const double whole = (double)s.b * (double)s.m * (double)s.n * (double)s.k;
  return nmb_fail(c->run, NMB_UNVERIFIED, o->loc,
                  "%s: its %" PRId64
                  " tiles of %.0f points in all do not cover its %.0f points "
                  "exactly once",
                  nmb__op_text(c->run, p, op), tiles, volume, whole);
}

nmb_status
nmb__verify_insns(nmb_run *run, const nmb_prog *p)
{
  ctx c = {run, p, NMB_NEW(run, nmb_id, p->nop + 1), NMB_NEW(run, uint64_t, p->nop + 1),
           NMB_NEW(run, uint32_t, p->nop + 1)};
  for (int i = 0; i < p->nop; i++)
    c.kernel[i] = NMB_NONE;
  for (int k = 0; k < p->nkernel; k++)
    for (int i = 0; i < p->kernel[k].nop; i++)
      c.kernel[p->kernel[k].op[i]] = k;
  for (int i = 0; i < p->ninsn; i++)
    NMB_TRY(check_insn(&c, i));
  for (int i = 0; i < p->nop; i++)
    if (c.kernel[i] != NMB_NONE)
      NMB_TRY(check_coverage(&c, i));
  return NMB_OK;
}

nmb_status
nmb__verify_code(nmb_run *run, const nmb_prog *p)
{
  NMB_TRY(nmb__verify_insns(run, p));
  return nmb__verify_hazards(run, p);
}
