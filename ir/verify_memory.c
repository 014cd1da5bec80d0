/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Verifier of the memory plan: every buffer has room, and keeps it while it lives. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ir/lower.h"
#include "ir/verify.h"

typedef struct ctx {
  nmb_run *run;
  const nmb_prog *p;
  nmb_id *first, *last; /* [nblock] steps of each block; NMB_NONE without */
} ctx;

static const char *
slot_text(const ctx *c, nmb_id s)
{
  const nmb_slot *t = &c->p->slot[s];
  const nmb_tensor *x = &c->p->tensor[t->tensor];
  return nmb_format(c->run, "slot %d (block %s, %%%s)", (int)s,
                    c->p->block[x->block].name, x->name);
}

static nmb_status
check_place(const ctx *c, nmb_id id)
{
  const nmb_slot *s = &c->p->slot[id];
  const nmb_mem *m = &c->p->hw->mem[s->mem];
  const int64_t align = m->align > 0 ? m->align : 1;
  if (s->bytes < 1 || s->offset < 0)
    return nmb_fail(c->run, NMB_UNVERIFIED, NMB_NOLOC,
                    "%s has %" PRId64 " bytes at %" PRId64, slot_text(c, id), s->bytes,
                    s->offset);
  if (s->bytes > m->bytes || s->offset > m->bytes - s->bytes)
    return nmb_fail(c->run, NMB_UNVERIFIED, NMB_NOLOC,
                    "%s of %" PRId64 " bytes at %" PRId64
                    " ends past the end of %s, which has %" PRId64 " bytes",
                    slot_text(c, id), s->bytes, s->offset, m->name, m->bytes);
  if (s->offset % align)
    return nmb_fail(c->run, NMB_UNVERIFIED, NMB_NOLOC,
                    "%s starts at byte %" PRId64
                    " of %s, expected a multiple of %" PRId64,
                    slot_text(c, id), s->offset, m->name, align);
  return NMB_OK;
}

static nmb_status
check_slot(const ctx *c, nmb_id id)
{
  const nmb_prog *p = c->p;
  const nmb_slot *s = &p->slot[id];
  if (s->tensor < 0 || s->tensor >= p->ntensor || s->mem < 0 || s->mem >= p->hw->nmem)
    return nmb_fail(c->run, NMB_UNVERIFIED, NMB_NOLOC,
                    "slot %d names tensor %d of %d in memory %d of %d", (int)id,
                    (int)s->tensor, p->ntensor, (int)s->mem, p->hw->nmem);
  const nmb_tensor *t = &p->tensor[s->tensor];
  if (nmb_tensor_root(p, s->tensor) != s->tensor)
    return nmb_fail(c->run, NMB_UNVERIFIED, NMB_NOLOC,
                    "%s holds a view of another tensor", slot_text(c, id));
  if (s->resident != nmb_tensor_resident(t))
    return nmb_fail(c->run, NMB_UNVERIFIED, NMB_NOLOC, "%s is %s, but its tensor is not",
                    slot_text(c, id), s->resident ? "resident" : "transient");
  const nmb_id lo = c->first[t->block], hi = c->last[t->block];
  if (s->resident ? s->first != NMB_NONE || s->last != NMB_NONE
                  : s->first < lo || s->last < s->first || s->last > hi || lo < 0)
    return nmb_fail(c->run, NMB_UNVERIFIED, NMB_NOLOC,
                    "%s is live from step %d to step %d, expected %s %d to %d",
                    slot_text(c, id), (int)s->first, (int)s->last,
                    s->resident ? "always, or" : "steps in",
                    s->resident ? NMB_NONE : (int)lo, s->resident ? NMB_NONE : (int)hi);
  return check_place(c, id);
}

/* ------------------------------------------------------------------ overlap */
static int64_t
slot_end(const nmb_slot *s)
{
  return s->offset + s->bytes;
}

/* Slots of one memory, those with the lowest address first. */
static int
by_offset(const void *a, const void *b)
{
  const nmb_slot *const *x = a, *const *y = b;
  if ((*x)->offset != (*y)->offset)
    return (*x)->offset < (*y)->offset ? -1 : 1;
  return (*x < *y) ? -1 : *x > *y;
}

static int
by_first(const void *a, const void *b)
{
  const nmb_slot *const *x = a, *const *y = b;
  if ((*x)->first != (*y)->first)
    return (*x)->first < (*y)->first ? -1 : 1;
  return (*x < *y) ? -1 : *x > *y;
}

static nmb_status
overlap(const ctx *c, const nmb_slot *a, const nmb_slot *b)
{
  return nmb_fail(c->run, NMB_UNVERIFIED, NMB_NOLOC,
                  "%s at [%" PRId64 ", %" PRId64 ") and %s at [%" PRId64 ", %" PRId64
                  ") of %s overlap, and live at once%s",
                  slot_text(c, (nmb_id)(a - c->p->slot)), a->offset, slot_end(a),
                  slot_text(c, (nmb_id)(b - c->p->slot)), b->offset, slot_end(b),
                  c->p->hw->mem[a->mem].name,
                  a->resident || b->resident ? " as residents" : "");
}

/* Slots in order of address that do not overlap. */
typedef struct lane {
  int n;
  const nmb_slot **v;
} lane;

/* The first that ends after byte `at`. */
static int
lane_find(const lane *l, int64_t at)
{
  int lo = 0, hi = l->n;
  while (lo < hi) {
    const int mid = (lo + hi) / 2;
    if (slot_end(l->v[mid]) > at)
      hi = mid;
    else
      lo = mid + 1;
  }
  return lo;
}

/* One that shares bytes with s; NULL if there is none. */
static const nmb_slot *
lane_hit(const lane *l, const nmb_slot *s)
{
  const int at = lane_find(l, s->offset);
  return at < l->n && l->v[at]->offset < slot_end(s) ? l->v[at] : NULL;
}

static void
lane_add(lane *l, const nmb_slot *s)
{
  const int at = lane_find(l, s->offset);
  memmove(l->v + at + 1, l->v + at, (size_t)(l->n - at) * sizeof(*l->v));
  l->v[at] = s;
  l->n++;
}

static void
lane_drop(lane *l, const nmb_slot *s)
{
  const int at = lane_find(l, s->offset);
  memmove(l->v + at, l->v + at + 1, (size_t)(l->n - at - 1) * sizeof(*l->v));
  l->n--;
}

static int
by_last(const void *a, const void *b)
{
  const nmb_slot *const *x = a, *const *y = b;
  if ((*x)->last != (*y)->last)
    return (*x)->last < (*y)->last ? -1 : 1;
  return (*x < *y) ? -1 : *x > *y;
}

/* Sweeps over the steps: a slot enters at its first and leaves after its last. */
static nmb_status
check_transient(const ctx *c, const nmb_slot **v, int n, const lane *resident)
{
  lane live = {0, NMB_NEW(c->run, const nmb_slot *, n)};
  const nmb_slot **leave = NMB_NEW(c->run, const nmb_slot *, n);
  memcpy(leave, v, (size_t)n * sizeof(*v));
  qsort(v, (size_t)n, sizeof(*v), by_first);
  qsort(leave, (size_t)n, sizeof(*v), by_last);
  for (int i = 0, gone = 0; i < n; i++) {
    for (; leave[gone]->last < v[i]->first; gone++)
      lane_drop(&live, leave[gone]);
    const nmb_slot *hit = lane_hit(resident, v[i]);
    if (!hit)
      hit = lane_hit(&live, v[i]);
    if (hit)
      return overlap(c, hit, v[i]);
    lane_add(&live, v[i]);
  }
  return NMB_OK;
}

static nmb_status
check_memory(const ctx *c, nmb_id mem)
{
  const nmb_prog *p = c->p;
  lane resident = {0, NMB_NEW(c->run, const nmb_slot *, p->nslot)};
  const nmb_slot **v = NMB_NEW(c->run, const nmb_slot *, p->nslot);
  int n = 0;
  for (int i = 0; i < p->nslot; i++)
    if (p->slot[i].mem == mem) {
      if (p->slot[i].resident)
        resident.v[resident.n++] = &p->slot[i];
      else
        v[n++] = &p->slot[i];
    }
  qsort(resident.v, (size_t)resident.n, sizeof(*resident.v), by_offset);
  for (int i = 1; i < resident.n; i++)
    if (slot_end(resident.v[i - 1]) > resident.v[i]->offset)
      return overlap(c, resident.v[i - 1], resident.v[i]);
  return check_transient(c, v, n, &resident);
}

/* -------------------------------------------------------------------- needs */
/* Each buffer that the plan asks for has one slot, as large and as long. */
static nmb_status
check_needs(const ctx *c)
{
  const nmb_prog *p = c->p;
  const int nmem = p->hw->nmem;
  nmb_slot *need;
  int n;
  nmb_id *at = NMB_NEW(c->run, nmb_id, (size_t)p->ntensor * (size_t)nmem);
  for (int i = 0; i < p->nslot; i++) {
    nmb_id *x = &at[p->slot[i].tensor * nmem + p->slot[i].mem];
    if (*x)
      return nmb_fail(c->run, NMB_UNVERIFIED, NMB_NOLOC,
                      "%s and slot %d are the same buffer in %s", slot_text(c, i),
                      (int)*x - 1, p->hw->mem[p->slot[i].mem].name);
    *x = i + 1;
  }
  NMB_TRY(nmb_buffers(c->run, p, &need, &n));
  for (int i = 0; i < n; i++) {
    const nmb_slot *b = &need[i];
    const nmb_tensor *t = &p->tensor[b->tensor];
    const nmb_id id = at[b->tensor * nmem + b->mem] - 1;
    if (id < 0)
      return nmb_fail(c->run, NMB_UNVERIFIED, t->loc,
                      "%%%s of block %s has no slot in %s", t->name,
                      p->block[t->block].name, p->hw->mem[b->mem].name);
    const nmb_slot *s = &p->slot[id];
    if (s->bytes < b->bytes)
      return nmb_fail(c->run, NMB_UNVERIFIED, NMB_NOLOC,
                      "%s has %" PRId64 " bytes, but needs %" PRId64, slot_text(c, id),
                      s->bytes, b->bytes);
    if (!s->resident && (s->first > b->first || s->last < b->last))
      return nmb_fail(c->run, NMB_UNVERIFIED, NMB_NOLOC,
                      "%s lives from step %d to step %d, but is used from %d to %d",
                      slot_text(c, id), (int)s->first, (int)s->last, (int)b->first,
                      (int)b->last);
  }
  return NMB_OK;
}

/* The hidden state has two buffers, at the same addresses in all blocks. */
static nmb_status
check_hidden(const ctx *c)
{
  const nmb_prog *p = c->p;
  nmb_id first[2] = {NMB_NONE, NMB_NONE};
  for (int i = 0; i < p->nslot; i++) {
    const nmb_slot *s = &p->slot[i];
    const int which = nmb__hidden_buffer(p, s->tensor, s->mem);
    if (which == NMB_NONE)
      continue;
    if (first[which] == NMB_NONE)
      first[which] = i;
    if (p->slot[first[which]].offset != s->offset)
      return nmb_fail(c->run, NMB_UNVERIFIED, NMB_NOLOC,
                      "%s, in which the hidden state is handed over, is at %" PRId64
                      ", but %s at %" PRId64,
                      slot_text(c, i), s->offset, slot_text(c, first[which]),
                      p->slot[first[which]].offset);
    for (int j = 0; j < p->nslot; j++) {
      const nmb_slot *o = &p->slot[j];
      if (o->mem == s->mem && nmb__hidden_buffer(p, o->tensor, o->mem) == 1 - which &&
          o->offset < s->offset + s->bytes && s->offset < o->offset + o->bytes)
        return overlap(c, s, o);
    }
  }
  return NMB_OK;
}

nmb_status
nmb__verify_memory(nmb_run *run, const nmb_prog *p)
{
  ctx c = {run, p, NMB_NEW(run, nmb_id, p->nblock), NMB_NEW(run, nmb_id, p->nblock)};
  for (int b = 0; b < p->nblock; b++)
    c.first[b] = c.last[b] = NMB_NONE;
  for (int s = 0; s < p->nstep; s++) {
    const nmb_id b = p->kernel[p->step[s].kernel].block;
    if (c.first[b] == NMB_NONE)
      c.first[b] = s;
    c.last[b] = s;
  }
  for (int i = 0; i < p->nslot; i++)
    NMB_TRY(check_slot(&c, i));
  for (int m = 0; m < p->hw->nmem; m++)
    NMB_TRY(check_memory(&c, m));
  NMB_TRY(check_needs(&c));
  return check_hidden(&c);
}
