/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Verifier of code, second half: what touches the same bytes happens in order.
 *
 * What is known to be over when an instruction starts:
 *   - what it waits for;
 *   - on engines that do one thing at a time, all that stands before it in its queue;
 *   - on engines that compute in memory, what stands before it and shares a channel,
 *     up to the last SYNC all of it;
 *   - what was over when any of these started.
 * This is kept as a vector clock: for each queue, how many of its first
 * instructions are over.  A wait for a single instruction of an engine in memory
 * says nothing of those before it on other channels: it enters the clock only if
 * they are over already, and is else looked at one by one ("direct" below).
 *
 * Accesses are kept for each slot, queue and direction in queue order.  A new one
 * is compared with the tail of each list that its clock does not cover, which is
 * empty in well synchronised code but for other channels of its own queue.
 * Blocks are apart: one starts when the one before it has ended.
 *
 * A read of a transient buffer needs all of its bytes written by what comes before it in
 * this order, and not written over since by a buffer that shares them.  As all that
 * touches the same bytes is ordered, that holds in every order that the waits allow.
 */
#include <inttypes.h>
#include <limits.h>
#include <string.h>

#include "ir/lower.h"
#include "ir/verify_code.h"
#include "ir/verify_cover.h"

typedef struct access {
  nmb_id insn;
  const nmb_operand *o;
} access;

typedef struct list {
  int n, cap;
  access *v;
} list;

typedef struct ctx {
  nmb_run *run;
  const nmb_prog *p;
  int nq, first, end; /* queues; instructions of the block: [first, end) */
  int *at;            /* [ninsn] place in its queue, from 1 */
  int *clock;         /* [(insn - first) * nq + queue] */
  bool *done;         /* [ninsn] put in order */
  list *use;          /* [(slot * nq + queue) * 2 + write] */
  nmb_id **alias;     /* [nslot] slots that share bytes with it at other times; ends with
                         NMB_NONE */
  nmb__cover *cover;  /* [nslot] bytes that hold its value */
  nmb__boxes scratch;
  bool *given;        /* [nslot] holds its value when the block starts */
} ctx;

static bool
in_memory(const ctx *c, nmb_id engine)
{
  return c->p->hw->engine[engine].in_memory;
}

static bool
share_channel(const nmb_insn *a, const nmb_insn *b)
{
  if (!a->place.nchannel || !b->place.nchannel) /* all channels */
    return true;
  return a->place.channel0 < b->place.channel0 + b->place.nchannel &&
         b->place.channel0 < a->place.channel0 + a->place.nchannel;
}

static int *
clock_of(const ctx *c, nmb_id insn)
{
  return c->clock + (size_t)(insn - c->first) * (size_t)c->nq;
}

/* -------------------------------------------------------------------- order */
static void
clock_join(const ctx *c, int *into, const int *from)
{
  for (int q = 0; q < c->nq; q++)
    if (from[q] > into[q])
      into[q] = from[q];
}

/* `b` starts after `a` is over. */
static void
clock_over(const ctx *c, int *clock, nmb_id a)
{
  const nmb_insn *n = &c->p->insn[a];
  clock_join(c, clock, clock_of(c, a));
  const bool alone =
      in_memory(c, n->engine) && n->kind != NMB_INSN_SYNC && n->place.nchannel;
  if (c->at[a] > clock[n->engine] && (!alone || clock[n->engine] == c->at[a] - 1))
    clock[n->engine] = c->at[a];
}

/* before: the instruction before it in its queue; NMB_NONE. */
static void
set_clock(const ctx *c, nmb_id id, nmb_id before)
{
  const nmb_insn *n = &c->p->insn[id];
  int *clock = clock_of(c, id);
  if (before != NMB_NONE) {
    clock_join(c, clock, clock_of(c, before));
    const nmb_insn *b = &c->p->insn[before];
    if (!in_memory(c, n->engine) || !b->place.nchannel || b->kind == NMB_INSN_SYNC ||
        (!n->place.nchannel && n->kind != NMB_INSN_SYNC))
      clock[n->engine] = c->at[before];
  }
  for (int i = 0; i < n->nwait; i++)
    clock_over(c, clock, n->wait[i]);
}

static nmb_status
check_waits(const ctx *c, nmb_id id)
{
  const nmb_insn *n = &c->p->insn[id];
  for (int i = 0; i < n->nwait; i++)
    if (n->wait[i] < c->first || n->wait[i] >= c->end || n->wait[i] == id)
      return nmb_fail(
          c->run, NMB_UNVERIFIED, NMB_NOLOC,
          "%s waits for %d, expected another instruction of its block, %d to %d",
          nmb__insn_text(c->run, c->p, id), (int)n->wait[i], c->first, c->end - 1);
  return NMB_OK;
}

static bool
ready(const ctx *c, nmb_id id)
{
  const nmb_insn *n = &c->p->insn[id];
  for (int i = 0; i < n->nwait; i++)
    if (!c->done[n->wait[i]])
      return false;
  return true;
}

/* The first instruction of a queue that cannot start, and what it waits for. */
static nmb_status
deadlock(const ctx *c, nmb_id id)
{
  const nmb_insn *n = &c->p->insn[id];
  int i = 0;
  while (c->done[n->wait[i]])
    i++;
  return nmb_fail(
      c->run, NMB_UNVERIFIED, NMB_NOLOC,
      "%s waits for %s, which waits in its turn or stands behind one that does",
      nmb__insn_text(c->run, c->p, id), nmb__insn_text(c->run, c->p, n->wait[i]));
}

/* ---------------------------------------------------------------- rectangles */
/* Bytes of an operand as addresses of the memory. */
static nmb__runs
rect_of(const nmb_prog *p, const nmb_operand *o)
{
  const int64_t at = p->slot[o->slot].offset + o->offset;
  if (o->stride == 0)
    return (nmb__runs){at, 1, o->row_bytes, 0};
  if (o->rows == 1 || o->stride <= o->row_bytes)
    return (nmb__runs){at, 1, (o->rows - 1) * o->stride + o->row_bytes, 0};
  return (nmb__runs){at, o->rows, o->row_bytes, o->stride};
}

/* The bytes that an operand of an instruction may touch. */
static nmb__runs
reach(const nmb_prog *p, nmb_id insn, const nmb_operand *o)
{
  const nmb_insn *in = &p->insn[insn];
  int64_t at, end;
  if (nmb_rows_by_data(p, in, (int)(o - in->opnd), &at, &end))
    return (nmb__runs){p->slot[o->slot].offset + at, 1, end - at, 0};
  return rect_of(p, o);
}

static int64_t
rect_end(const nmb__runs *r)
{
  return r->at + (r->rows - 1) * r->stride + r->width;
}

/* Does a row of r meet [lo, hi)? */
static bool
meets(const nmb__runs *r, int64_t lo, int64_t hi)
{
  if (hi <= r->at || lo >= rect_end(r))
    return false;
  if (r->rows == 1 || lo <= r->at)
    return true;
  const int64_t k = (lo - r->at) / r->stride, row = r->at + k * r->stride;
  return lo < row + r->width || (hi > row + r->stride && k + 1 < r->rows);
}

/* Beyond so many rows of different strides, bounds stand for the rows. */
#define MOST_ROWS 4096

static bool
rects_meet(const nmb__runs *a, const nmb__runs *b)
{
  if (a->at >= rect_end(b) || b->at >= rect_end(a))
    return false;
  if (b->rows == 1)
    return meets(a, b->at, rect_end(b));
  if (a->rows == 1)
    return meets(b, a->at, rect_end(a));
  if (a->stride == b->stride) { /* columns apart of the same rows */
    const int64_t d = (b->at - a->at) % a->stride, off = d < 0 ? d + a->stride : d;
    if (a->width <= off && off + b->width <= a->stride)
      return false;
  }
  const nmb__runs *few = a->rows < b->rows ? a : b, *many = few == a ? b : a;
  if (few->rows > MOST_ROWS)
    return true;
  for (int64_t i = 0; i < few->rows; i++)
    if (meets(many, few->at + i * few->stride, few->at + i * few->stride + few->width))
      return true;
  return false;
}

/* ------------------------------------------------------------------- hazards */
static list *
use_of(const ctx *c, nmb_id slot, int queue, bool write)
{
  return &c->use[((size_t)slot * (size_t)c->nq + (size_t)queue) * 2 + write];
}

static void
record(ctx *c, nmb_id id, const nmb_operand *o)
{
  list *l = use_of(c, o->slot, c->p->insn[id].engine, o->write);
  if (l->n == l->cap) {
    access *old = l->v;
    l->cap = l->cap ? 2 * l->cap : 8;
    l->v = NMB_NEW(c->run, access, l->cap);
    if (l->n)
      memcpy(l->v, old, (size_t)l->n * sizeof *old);
  }
  l->v[l->n++] = (access){id, o};
}

/* Is `a`, which the clock of `b` does not cover, over all the same? */
static bool
over(const ctx *c, nmb_id a, nmb_id b)
{
  const nmb_insn *x = &c->p->insn[a], *y = &c->p->insn[b];
  if (x->engine == y->engine && share_channel(x, y))
    return true;
  for (int i = 0; i < y->nwait; i++) {
    const nmb_insn *w = &c->p->insn[y->wait[i]];
    if (y->wait[i] == a ||
        (w->engine == x->engine && c->at[a] < c->at[y->wait[i]] && share_channel(x, w)))
      return true;
  }
  return false;
}

/* The memory inside an engine that computes in memory has a part for each channel. */
static bool
apart(const ctx *c, const nmb_insn *a, const nmb_insn *b, nmb_id mem)
{
  return a->engine == b->engine && in_memory(c, a->engine) && c->p->hw->mem[mem].local &&
         !share_channel(a, b);
}

static nmb_status
hazard(const ctx *c, nmb_id a, const nmb_operand *x, nmb_id b, const nmb_operand *y)
{
  const nmb_prog *p = c->p;
  return nmb_fail(
      c->run, NMB_UNVERIFIED, NMB_NOLOC,
      "%s %s %%%s in slot %d of %s, which %s %s%s, but nothing orders the two",
      nmb__insn_text(c->run, p, b), y->write ? "writes" : "reads",
      p->tensor[y->tensor].name, (int)y->slot, p->hw->mem[y->mem].name,
      nmb__insn_text(c->run, p, a), x->write ? "writes" : "reads",
      x->slot == y->slot ? ""
                         : nmb_format(c->run, " as slot %d (%%%s)", (int)x->slot,
                                      p->tensor[x->tensor].name));
}

static nmb_status
check_list(const ctx *c, const list *l, int covered, nmb_id id, const nmb_operand *o,
           const nmb__runs *r)
{
  for (int i = l->n - 1; i >= 0 && c->at[l->v[i].insn] > covered; i--) {
    const access *a = &l->v[i];
    if (a->insn == id || apart(c, &c->p->insn[a->insn], &c->p->insn[id], o->mem))
      continue;
    const nmb__runs x = reach(c->p, a->insn, a->o);
    if (rects_meet(&x, r) && !over(c, a->insn, id))
      return hazard(c, a->insn, a->o, id, o);
  }
  return NMB_OK;
}

static nmb_status
check_slot(const ctx *c, nmb_id slot, nmb_id id, const nmb_operand *o, const nmb__runs *r)
{
  const int *clock = clock_of(c, id);
  for (int q = 0; q < c->nq; q++) {
    NMB_TRY(check_list(c, use_of(c, slot, q, true), clock[q], id, o, r));
    if (o->write)
      NMB_TRY(check_list(c, use_of(c, slot, q, false), clock[q], id, o, r));
  }
  return NMB_OK;
}

/* The channels whose parts of a memory inside an engine it uses; else one stands for all. */
static void
channels_of(const ctx *c, const nmb_insn *n, nmb_id mem, int *ch0, int *ch1)
{
  const bool parts = c->p->hw->mem[mem].local && in_memory(c, n->engine);
  *ch0 = parts && n->place.nchannel ? n->place.channel0 : 0;
  *ch1 = !parts ? 1 : n->place.nchannel ? *ch0 + n->place.nchannel : INT_MAX;
}

/* Where a whole value has a copy on each device, one after the other, what an operand
 * says of all of them is said of the first: instructions that compute write all copies. */
static nmb__runs
first_copy(const nmb_prog *p, const nmb_operand *o)
{
  const nmb_slot *s = &p->slot[o->slot];
  const int devices = p->hw->mem[s->mem].devices;
  const int64_t copy = nmb__storage_bytes(&p->tensor[s->tensor]);
  nmb_operand x = *o;
  if (!s->resident && devices > 1 && !p->hw->mem[s->mem].local &&
      s->bytes / devices >= copy) {
    x.offset %= copy;
    if (x.rows % devices == 0 && x.stride > 0 && x.rows / devices * x.stride == copy)
      x.rows /= devices;
  }
  return rect_of(p, &x);
}

/* Something has put a value at each byte that it reads, and is over: what is in order
 * before `id` has been looked at, and what touches the same bytes is ordered. */
static nmb_status
check_filled(ctx *c, nmb_id id, const nmb_operand *o)
{
  const nmb_prog *p = c->p;
  int ch0, ch1;
  if (o->write || c->given[o->slot])
    return NMB_OK;
  const nmb__runs r = first_copy(p, o);
  channels_of(c, &p->insn[id], o->mem, &ch0, &ch1);
  const int64_t at =
      nmb__cover_gap(c->run, &c->cover[o->slot], &r, ch0, ch1, &c->scratch);
  if (at == NMB_NONE)
    return NMB_OK;
  const int64_t base = p->slot[o->slot].offset;
  return nmb_fail(c->run, NMB_UNVERIFIED, NMB_NOLOC,
                  "%s reads %%%s in slot %d of %s at byte %" PRId64
                  ", which nothing has written; expected all of [%" PRId64 ", %" PRId64
                  ") to be written by what it waits for",
                  nmb__insn_text(c->run, p, id), p->tensor[o->tensor].name, (int)o->slot,
                  p->hw->mem[o->mem].name, at - base, r.at - base, rect_end(&r) - base);
}

static void
record_bytes(ctx *c, nmb_id id, const nmb_operand *o)
{
  const nmb__runs all = rect_of(c->p, o), first = first_copy(c->p, o);
  int ch0, ch1;
  channels_of(c, &c->p->insn[id], o->mem, &ch0, &ch1);
  for (const nmb_id *s = c->alias[o->slot]; *s != NMB_NONE; s++)
    nmb__cover_drop(c->run, &c->cover[*s], &all, ch0, ch1, &c->scratch);
  if (!c->given[o->slot])
    nmb__cover_add(c->run, &c->cover[o->slot], &first, ch0, ch1, &c->scratch);
}

static nmb_status
check_accesses(ctx *c, nmb_id id)
{
  const nmb_insn *n = &c->p->insn[id];
  for (int i = 0; i < n->nopnd; i++) {
    const nmb_operand *o = &n->opnd[i];
    const nmb__runs r = reach(c->p, id, o);
    NMB_TRY(check_slot(c, o->slot, id, o, &r));
    for (const nmb_id *s = c->alias[o->slot]; *s != NMB_NONE; s++)
      NMB_TRY(check_slot(c, *s, id, o, &r));
    NMB_TRY(check_filled(c, id, o));
  }
  for (int i = 0; i < n->nopnd; i++) {
    record(c, id, &n->opnd[i]);
    if (n->opnd[i].write)
      record_bytes(c, id, &n->opnd[i]);
  }
  return NMB_OK;
}

/* -------------------------------------------------------------------- blocks */
/* Takes instructions from the heads of the queues as their waits allow. */
static nmb_status
check_block(ctx *c)
{
  const nmb_prog *p = c->p;
  nmb_id **queue = NMB_NEW(c->run, nmb_id *, c->nq);
  int *n = NMB_NEW(c->run, int, c->nq), *head = NMB_NEW(c->run, int, c->nq);
  for (int i = c->first; i < c->end; i++) {
    NMB_TRY(check_waits(c, i));
    c->at[i] = ++n[p->insn[i].engine];
  }
  for (int q = 0; q < c->nq; q++) {
    queue[q] = NMB_NEW(c->run, nmb_id, n[q]);
    n[q] = 0;
  }
  for (int i = c->first; i < c->end; i++)
    queue[p->insn[i].engine][n[p->insn[i].engine]++] = i;
  for (int left = c->end - c->first; left > 0;) {
    const int before = left;
    nmb_id stuck = NMB_NONE;
    for (int q = 0; q < c->nq; q++)
      for (; head[q] < n[q]; head[q]++, left--) {
        const nmb_id id = queue[q][head[q]];
        if (!ready(c, id)) {
          stuck = id;
          break;
        }
        set_clock(c, id, head[q] ? queue[q][head[q] - 1] : NMB_NONE);
        NMB_TRY(check_accesses(c, id));
        c->done[id] = true;
      }
    if (left == before)
      return deadlock(c, stuck);
  }
  return NMB_OK;
}

/* Inputs lie in the home of the host; the hidden state where the block that runs
 * most often leaves it. */
static nmb_id
hidden_mem(const nmb_prog *p, const nmb_id *kernel)
{
  nmb_id best = NMB_NONE;
  for (int b = 0; b < p->nblock; b++) {
    const nmb_id def = p->block[b].out == NMB_NONE
                           ? NMB_NONE
                           : p->tensor[nmb_tensor_root(p, p->block[b].out)].def;
    if (def != NMB_NONE &&
        (best == NMB_NONE || p->block[b].repeat > p->block[p->op[best].block].repeat))
      best = def;
  }
  const nmb_id engine = best == NMB_NONE ? p->hw->host : p->kernel[kernel[best]].engine;
  return p->hw->engine[engine].home;
}

static void
find_given(const ctx *c)
{
  const nmb_prog *p = c->p;
  nmb_id *kernel = NMB_NEW(c->run, nmb_id, p->nop + 1);
  for (int k = 0; k < p->nkernel; k++)
    for (int i = 0; i < p->kernel[k].nop; i++)
      kernel[p->kernel[k].op[i]] = k;
  const nmb_id hidden = hidden_mem(p, kernel), home = p->hw->engine[p->hw->host].home;
  for (int i = 0; i < p->nslot; i++) {
    const nmb_slot *s = &p->slot[i];
    const nmb_tensor *t = &p->tensor[s->tensor];
    const nmb_id in = p->block[t->block].in;
    const bool state = in != NMB_NONE && nmb_tensor_root(p, in) == s->tensor;
    c->given[i] =
        s->resident || (t->def == NMB_NONE && s->mem == (state ? hidden : home));
  }
}

/* Transient slots of one block that share bytes: O(n^2) at worst, in practice the
 * slots of a block, some hundred. */
static void
find_aliases(const ctx *c)
{
  const nmb_prog *p = c->p;
  nmb_id *found = NMB_NEW(c->run, nmb_id, p->nslot + 1);
  for (int i = 0; i < p->nslot; i++) {
    const nmb_slot *a = &p->slot[i];
    int n = 0;
    for (int j = 0; j < p->nslot; j++) {
      const nmb_slot *b = &p->slot[j];
      if (j != i && a->mem == b->mem && !a->resident && !b->resident &&
          a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes &&
          p->tensor[a->tensor].block == p->tensor[b->tensor].block)
        found[n++] = j;
    }
    c->alias[i] = NMB_NEW(c->run, nmb_id, n + 1);
    memcpy(c->alias[i], found, (size_t)n * sizeof *found);
    c->alias[i][n] = NMB_NONE;
  }
}

/* The widest stride of a slot's operands is the row of the table of its bytes. */
static void
find_pitches(const ctx *c)
{
  const nmb_prog *p = c->p;
  for (int i = 0; i < p->nslot; i++)
    c->cover[i] = (nmb__cover){.base = p->slot[i].offset, .pitch = 1};
  for (int i = 0; i < p->ninsn; i++)
    for (int j = 0; j < p->insn[i].nopnd; j++) {
      const nmb_operand *o = &p->insn[i].opnd[j];
      if (o->rows > 1 && o->stride > c->cover[o->slot].pitch)
        c->cover[o->slot].pitch = o->stride;
    }
  for (int i = 0; i < p->nslot; i++)
    if (c->cover[i].pitch == 1)
      c->cover[i].pitch = p->slot[i].bytes;
}

/* Blocks run one after another: what an earlier one did to a slot is over.  Most slots
 * belong to one block, so that only those of lent tensors have anything. */
static void
lists_clear(const ctx *c)
{
  for (int i = 0; i < c->p->nslot; i++)
    if (c->p->tensor[c->p->slot[i].tensor].lent)
      memset(use_of(c, i, 0, false), 0, (size_t)c->nq * 2 * sizeof(list));
}

nmb_status
nmb__verify_hazards(nmb_run *run, const nmb_prog *p)
{
  ctx c = {.run = run, .p = p, .nq = p->hw->nengine};
  const size_t slots = (size_t)p->nslot + 1;
  c.at = NMB_NEW(run, int, p->ninsn + 1);
  c.done = NMB_NEW(run, bool, p->ninsn + 1);
  c.alias = NMB_NEW(run, nmb_id *, slots);
  c.cover = NMB_NEW(run, nmb__cover, slots);
  c.given = NMB_NEW(run, bool, slots);
  c.use = NMB_NEW(run, list, slots * (size_t)c.nq * 2);
  find_aliases(&c);
  find_given(&c);
  find_pitches(&c);
  while (c.end < p->ninsn) {
    lists_clear(&c);
    for (c.first = c.end;
         c.end < p->ninsn && p->insn[c.end].block == p->insn[c.first].block;)
      c.end++;
    c.clock = NMB_NEW(run, int, (size_t)(c.end - c.first) * (size_t)c.nq);
    NMB_TRY(check_block(&c));
  }
  return NMB_OK;
}
