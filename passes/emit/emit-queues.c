/* SPDX-License-Identifier: GPL-3.0-or-later */
/* emit-queues: one queue of instructions for each engine.
 *
 * Steps are emitted in the order of the schedule, each after the transfers that
 * bring its operands; a transfer that has run in the block is not repeated.  An
 * instruction waits for those on other engines that write what it reads, and that
 * use what it overwrites: the same bytes of a buffer, or a buffer whose place in
 * memory it has taken over.  Waits that follow from the order of the queues and
 * from other waits are left out.
 *
 * Reads all sections before it; writes code. */
#include <string.h>

#include "nmbench/nmb_plugin.h"

/* Bytes in a slot: `rows` pieces of `width`, `stride` apart. */
typedef struct rect {
  int64_t at, rows, width, stride;
} rect;

#define NRECT 8
/* What one step did to a slot on one engine, up to its last instruction there. */
typedef struct access {
  struct access *next;
  nmb_id insn, step, engine;
  bool write;
  int nrect;
  rect r[NRECT];
} access;

typedef struct emitter {
  nmb_run *run;
  nmb_prog *p;
  nmb_id *slot_of;  /* [tensor * nmem + mem]; NMB_NONE */
  access **use;     /* [nslot] */
  nmb_id **alias;   /* [nslot] slots that share bytes with it, ends with NMB_NONE */
  nmb_id *tail;     /* [nengine] last instruction of each queue */
  nmb_id **known;   /* [insn][nengine]: last of each queue done when it starts */
  int cap, n;       /* rows of known; instructions emitted */
  nmb_insns moved;  /* transfers of this block */
  nmb_id *need;     /* [nengine] scratch: what to wait for in each queue */
} emitter;

/* ------------------------------------------------------------------- bytes */
static rect
rect_of(const nmb_operand *o)
{
  if (o->rows == 1 || o->stride == o->row_bytes)
    return (rect){o->offset, 1, o->rows * o->row_bytes, 0};
  if (o->stride == 0) /* one row used again and again */
    return (rect){o->offset, 1, o->row_bytes, 0};
  return (rect){o->offset, o->rows, o->row_bytes, o->stride};
}

/* The bytes that operand j may touch. */
static rect
reach(const nmb_prog *p, const nmb_insn *in, int j)
{
  int64_t at, end;
  if (nmb_rows_by_data(p, in, j, &at, &end))
    return (rect){at, 1, end - at, 0};
  return rect_of(&in->opnd[j]);
}

static int64_t
rect_end(const rect *r)
{
  return r->at + (r->rows - 1) * r->stride + r->width;
}

/* Does [lo, hi) touch a piece of r? */
static bool
touches(const rect *r, int64_t lo, int64_t hi)
{
  if (hi <= r->at || lo >= rect_end(r))
    return false;
  if (r->rows == 1 || hi - lo >= r->stride || lo <= r->at)
    return true;
  const int64_t k = (lo - r->at) / r->stride;
  return lo < r->at + k * r->stride + r->width || hi > r->at + (k + 1) * r->stride;
}

static bool
overlap(const rect *a, const rect *b)
{
  if (b->rows == 1)
    return touches(a, b->at, rect_end(b));
  if (a->rows == 1)
    return touches(b, a->at, rect_end(a));
  if (a->at >= rect_end(b) || b->at >= rect_end(a))
    return false;
  if (a->stride != b->stride)
    return true;
  const int64_t ca = a->at % a->stride, cb = b->at % a->stride;
  if (ca + a->width > a->stride || cb + b->width > a->stride)
    return true;
  return ca < cb + b->width && cb < ca + a->width;
}

/* Makes a cover b too, if the two are one rectangle. */
static bool
extend(rect *a, const rect *b)
{
  if (!memcmp(a, b, sizeof *a))
    return true;
  if (a->rows == 1 && b->rows == 1) {
    if (b->at >= a->at && rect_end(b) <= rect_end(a))
      return true;
    if (b->at == rect_end(a)) {
      a->width += b->width;
      return true;
    }
    if (b->at > rect_end(a) && a->width == b->width) {
      a->stride = b->at - a->at;
      a->rows = 2;
      return true;
    }
    return false;
  }
  if (a->width != b->width || b->at != a->at + a->rows * a->stride ||
      (b->rows > 1 && b->stride != a->stride))
    return false;
  a->rows += b->rows;
  return true;
}

static void
access_add(access *x, const rect *r)
{
  for (int i = 0; i < x->nrect; i++)
    if (extend(&x->r[i], r))
      return;
  if (x->nrect < NRECT) {
    x->r[x->nrect++] = *r;
    return;
  }
  rect *last = &x->r[NRECT - 1]; /* too scattered: everything between */
  const int64_t lo = last->at < r->at ? last->at : r->at;
  const int64_t hi = rect_end(last) > rect_end(r) ? rect_end(last) : rect_end(r);
  *last = (rect){lo, 1, hi - lo, 0};
}

/* ------------------------------------------------------------------- hazards */
static void
need(emitter *e, nmb_id engine, const access *x)
{
  if (x->engine != engine && x->insn > e->need[x->engine])
    e->need[x->engine] = x->insn;
}

/* What operand j of an instruction has to wait for. */
static void
hazards(emitter *e, const nmb_insn *in, int j)
{
  const nmb_operand *o = &in->opnd[j];
  const nmb_id engine = in->engine;
  const rect r = reach(e->p, in, j);
  for (const access *x = e->use[o->slot]; x; x = x->next) {
    if (!x->write && !o->write)
      continue;
    for (int i = 0; i < x->nrect; i++)
      if (overlap(&x->r[i], &r)) {
        need(e, engine, x);
        break;
      }
  }
  for (const nmb_id *s = e->alias[o->slot]; *s != NMB_NONE; s++)
    for (const access *x = e->use[*s]; x; x = x->next)
      if (x->write || o->write)
        need(e, engine, x);
}

static void
record(emitter *e, const nmb_insn *in, nmb_id id, int j)
{
  const nmb_operand *o = &in->opnd[j];
  const rect r = reach(e->p, in, j);
  access *x = e->use[o->slot];
  while (x && (x->step != in->step || x->engine != in->engine || x->write != o->write))
    x = x->next;
  if (!x) {
    x = NMB_NEW(e->run, access, 1);
    *x = (access){e->use[o->slot], id, in->step, in->engine, o->write, 0, {{0}}};
    e->use[o->slot] = x;
  }
  x->insn = id;
  access_add(x, &r);
}

/* Drops what other waits and the queue already say; fills the rest into `in`. */
static void
settle(emitter *e, nmb_insn *in, nmb_id *known)
{
  const int ne = e->p->hw->nengine;
  nmb_id *wait = NMB_NEW(e->run, nmb_id, ne);
  in->nwait = 0;
  for (nmb_id q = 0; q < ne; q++) {
    const nmb_id w = e->need[q];
    bool said = w == NMB_NONE || w <= known[q];
    for (nmb_id other = 0; other < ne && !said; other++)
      said = other != q && e->need[other] != NMB_NONE && e->known[e->need[other]][q] >= w;
    if (!said)
      wait[in->nwait++] = w;
  }
  in->wait = wait;
  for (int i = 0; i < in->nwait; i++) {
    const nmb_id q = e->p->insn[wait[i]].engine;
    if (wait[i] > known[q])
      known[q] = wait[i];
    for (nmb_id k = 0; k < ne; k++)
      if (e->known[wait[i]][k] > known[k])
        known[k] = e->known[wait[i]][k];
  }
}

static nmb_id *
known_row(emitter *e, const nmb_insn *in)
{
  const int ne = e->p->hw->nengine;
  if (e->n == e->cap) {
    nmb_id **old = e->known;
    e->cap = e->cap ? 2 * e->cap : 256;
    e->known = NMB_NEW(e->run, nmb_id *, e->cap);
    if (e->n)
      memcpy(e->known, old, (size_t)e->n * sizeof *old);
  }
  nmb_id *row = e->known[e->n++] = NMB_NEW(e->run, nmb_id, ne);
  const nmb_id prev = e->tail[in->engine];
  for (nmb_id q = 0; q < ne; q++)
    row[q] = prev == NMB_NONE ? NMB_NONE : e->known[prev][q];
  return row;
}

/* A step on an in-memory engine is done at its sync. */
static void
synced(emitter *e, const nmb_insn *in, nmb_id id)
{
  for (int s = 0; s < e->p->nslot; s++)
    for (access *x = e->use[s]; x; x = x->next)
      if (x->step == in->step && x->engine == in->engine)
        x->insn = id;
}

static nmb_status
issue(emitter *e, const nmb_insn *from)
{
  nmb_insn in = *from;
  nmb_prog *p = e->p;
  for (nmb_id q = 0; q < p->hw->nengine; q++)
    e->need[q] = NMB_NONE;
  for (int i = 0; i < in.nopnd; i++) {
    nmb_operand *o = &in.opnd[i];
    o->slot = e->slot_of[(size_t)o->tensor * (size_t)p->hw->nmem + (size_t)o->mem];
    if (o->slot == NMB_NONE)
      return nmb_fail(e->run, NMB_UNVERIFIED, p->tensor[o->tensor].loc,
                      "tensor %s has no buffer in memory %s", p->tensor[o->tensor].name,
                      p->hw->mem[o->mem].name);
    hazards(e, &in, i);
  }
  nmb_id *known = known_row(e, &in);
  settle(e, &in, known);
  const nmb_id id = nmb_insn_add(p, &in);
  for (int i = 0; i < in.nopnd; i++)
    record(e, &in, id, i);
  if (in.kind == NMB_INSN_SYNC)
    synced(e, &in, id);
  e->tail[in.engine] = id;
  return NMB_OK;
}

/* --------------------------------------------------------------------- steps */
static void
push(nmb_run *run, nmb_insns *list, const nmb_insn *in)
{
  if (list->n == list->cap) {
    nmb_insn *old = list->v;
    list->cap = list->cap ? 2 * list->cap : 32;
    list->v = NMB_NEW(run, nmb_insn, list->cap);
    if (list->n)
      memcpy(list->v, old, (size_t)list->n * sizeof *old);
  }
  list->v[list->n++] = *in;
}

static nmb_status
issue_moves(emitter *e, const nmb_insns *list)
{
  for (int i = 0; i < list->n; i++) {
    bool done = false;
    for (int j = 0; j < e->moved.n && !done; j++)
      done = nmb_moves_equal(&list->v[i], &e->moved.v[j]);
    if (done)
      continue;
    push(e->run, &e->moved, &list->v[i]);
    NMB_TRY(issue(e, &list->v[i]));
  }
  return NMB_OK;
}

static nmb_status
emit_step(emitter *e, const nmb_step *s)
{
  const nmb_prog *p = e->p;
  const nmb_kernel *k = &p->kernel[s->kernel];
  nmb_insns moves = {0}, work = {0};
  for (int i = 0; i < k->nop; i++)
    for (int j = 0; j < p->op[k->op[i]].nin; j++)
      NMB_TRY(nmb_lower_transfer(e->run, p, p->op[k->op[i]].in[j], s, &moves));
  NMB_TRY(issue_moves(e, &moves));
  NMB_TRY(nmb_lower_step(e->run, p, s, NULL, NULL, 0, &work));
  for (int i = 0; i < work.n; i++)
    NMB_TRY(issue(e, &work.v[i]));
  return NMB_OK;
}

static nmb_status
emit_blocks(emitter *e)
{
  const nmb_prog *p = e->p;
  for (int s = 0; s < p->nstep; s++) {
    const nmb_id block = p->kernel[p->step[s].kernel].block;
    NMB_TRY(emit_step(e, &p->step[s]));
    if (s + 1 < p->nstep && p->kernel[p->step[s + 1].kernel].block == block)
      continue;
    nmb_insns moves = {0};
    NMB_TRY(nmb_lower_handover(e->run, p, block, &p->step[s], &moves));
    NMB_TRY(issue_moves(e, &moves));
    /* the next block starts afresh */
    for (int i = 0; i < p->nslot; i++)
      e->use[i] = NULL;
    for (int q = 0; q < p->hw->nengine; q++)
      e->tail[q] = NMB_NONE;
    e->moved.n = 0;
  }
  return NMB_OK;
}

/* -------------------------------------------------------------------- set-up */
static bool
share_bytes(const nmb_slot *a, const nmb_slot *b)
{
  return a->mem == b->mem && a->offset < b->offset + b->bytes &&
         b->offset < a->offset + a->bytes;
}

static void
find_aliases(emitter *e)
{
  const nmb_prog *p = e->p;
  nmb_id *found = NMB_NEW(e->run, nmb_id, p->nslot + 1);
  for (int i = 0; i < p->nslot; i++) {
    int n = 0;
    for (int j = 0; j < p->nslot; j++)
      if (j != i && !p->slot[i].resident && !p->slot[j].resident &&
          p->tensor[p->slot[i].tensor].block == p->tensor[p->slot[j].tensor].block &&
          share_bytes(&p->slot[i], &p->slot[j]))
        found[n++] = j;
    e->alias[i] = NMB_NEW(e->run, nmb_id, n + 1);
    memcpy(e->alias[i], found, (size_t)n * sizeof *found);
    e->alias[i][n] = NMB_NONE;
  }
}

static nmb_status
transform(nmb_run *run, nmb_prog *p)
{
  const size_t cells = (size_t)p->ntensor * (size_t)p->hw->nmem;
  emitter e = {.run = run, .p = p};
  e.slot_of = NMB_NEW(run, nmb_id, cells + 1);
  for (size_t i = 0; i < cells; i++)
    e.slot_of[i] = NMB_NONE;
  for (int i = 0; i < p->nslot; i++)
    e.slot_of[(size_t)p->slot[i].tensor * (size_t)p->hw->nmem + (size_t)p->slot[i].mem] = i;
  e.use = NMB_NEW(run, access *, p->nslot + 1);
  e.alias = NMB_NEW(run, nmb_id *, p->nslot + 1);
  e.tail = NMB_NEW(run, nmb_id, p->hw->nengine);
  e.need = NMB_NEW(run, nmb_id, p->hw->nengine);
  for (int q = 0; q < p->hw->nengine; q++)
    e.tail[q] = NMB_NONE;
  find_aliases(&e);
  nmb_section_begin(p, NMB_CODE);
  NMB_TRY(emit_blocks(&e));
  int waits = 0;
  for (int i = 0; i < p->ninsn; i++)
    waits += p->insn[i].nwait;
  nmb_stat(run, "instructions", p->ninsn);
  nmb_stat(run, "waits", waits);
  return NMB_OK;
}

NMB_PLUGIN {
  NMB_PLUGIN_HEAD,
  .kind = "emit",
  .name = "emit-queues",
  .version = "1",
  .summary = "a queue of instructions for each engine, with waits between them",
  .source = "queues with explicit waits as in chen2018tvm (VTA's dependence tokens)",
  .limits = "transfers run just before the step that needs them, not earlier; blocks do not overlap",
  .reads = NMB_ALL & ~NMB_BIT(NMB_CODE),
  .writes = NMB_BIT(NMB_CODE),
  .transform = transform,
};
