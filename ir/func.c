/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Steps of a sequence by executing code: blocks one after another, weights and caches. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/run.h"
#include "ir/formats.h"
#include "ir/storage.h"
#include "ir/func-exec.h"
#include "ir/func-order.h"

/* What a tensor of a block of the sequence holds from step to step. */
typedef struct shelf {
  char *key;
  float *value, *before; /* before: the state that the last step began with */
  float *block; /* of a weight in blocks of rows: their scales */
  uint8_t *bytes; /* of a weight in a format of files */
  float scale;
  int64_t count, cap, seen; /* elements; of memory: of a position; positions */
} shelf;

typedef struct shelves {
  int n, cap;
  shelf *v;
} shelves;

struct nmb__func {
  nmb__weights weights;
  nmb__held held;
  nmb__func_options o;
  shelves weight, memory;
  nmb__frame f;
  int nmem, ntensor; /* of f.mem and f.tile, of f.scratch */
  float *logits;
};

static shelf *
shelf_get(shelves *s, const char *key)
{
  for (int i = 0; i < s->n; i++)
    if (!strcmp(s->v[i].key, key))
      return &s->v[i];
  if (s->n == s->cap) {
    s->cap = s->cap ? 2 * s->cap : 64;
    s->v = nmb__xrealloc(s->v, (size_t)s->cap, sizeof *s->v);
  }
  shelf *x = &s->v[s->n++];
  *x = (shelf){.scale = 1};
  x->key = nmb__xrealloc(NULL, strlen(key) + 1, 1);
  strcpy(x->key, key);
  return x;
}

static void
shelves_clear(shelves *s)
{
  for (int i = 0; i < s->n; i++) {
    free(s->v[i].key);
    free(s->v[i].value);
    free(s->v[i].before);
    free(s->v[i].block);
    free(s->v[i].bytes);
  }
  free(s->v);
  *s = (shelves){0};
}

/* ----------------------------------------------------------------- open, close */
nmb__func *
nmb__func_open(const nmb__weights *w, const nmb__func_options *o)
{
  nmb__func *s = nmb__xrealloc(NULL, 1, sizeof *s);
  *s = (nmb__func){.weights = *w, .o = o ? *o : (nmb__func_options){0}};
  return s;
}

static void
frame_close(nmb__func *s)
{
  for (int i = 0; i < s->nmem; i++) {
    nmb__bytes_close(&s->f.mem[i]);
    nmb__bytes_close(&s->f.tile[i]);
  }
  for (int i = 0; i < s->ntensor; i++)
    free(s->f.scratch[i]);
  s->nmem = s->ntensor = 0;
}

void
nmb__func_close(nmb__func *s)
{
  if (!s)
    return;
  frame_close(s);
  shelves_clear(&s->weight);
  shelves_clear(&s->memory);
  free(s->f.buffer);
  free(s->logits);
  free(s);
}

void
nmb__func_reset(nmb__func *s)
{
  shelves_clear(&s->memory);
}

void
nmb__func_order(nmb__func *s, uint64_t order)
{
  s->o.order = order;
}

nmb__held
nmb__func_held(const nmb__func *s)
{
  return s->held;
}

uint64_t
nmb__func_digest(const nmb__func *s)
{
  return s->f.digest;
}

/* ------------------------------------------------------------------- memories */
static nmb_status
open_memories(nmb_run *run, nmb__func *s, const nmb_prog *p)
{
  nmb__frame *f = &s->f;
  const int nmem = p->hw->nmem;
  f->mem = NMB_NEW(run, nmb__bytes, nmem);
  f->tile = NMB_NEW(run, nmb__bytes, nmem);
  f->scratch = NMB_NEW(run, void *, p->ntensor + 1);
  s->nmem = nmem;
  s->ntensor = p->ntensor;
  for (int m = 0; m < nmem; m++) {
    int64_t end = 0;
    for (int i = 0; i < p->nslot; i++)
      if (p->slot[i].mem == m && p->slot[i].offset + p->slot[i].bytes > end)
        end = p->slot[i].offset + p->slot[i].bytes;
    NMB_TRY(nmb__bytes_open(run, &f->mem[m], end));
    if (p->hw->mem[m].local)
      NMB_TRY(nmb__bytes_open(run, &f->tile[m], end));
  }
  return NMB_OK;
}

static bool
share_bytes(const nmb_slot *a, const nmb_slot *b)
{
  return a->mem == b->mem && a->offset < b->offset + b->bytes &&
         b->offset < a->offset + a->bytes;
}

/* Slots that a weight should have had for itself: what is written there spoils it. */
static void
find_neighbours(nmb_run *run, nmb__frame *f)
{
  const nmb_prog *p = f->p;
  nmb_id *found = NMB_NEW(run, nmb_id, p->nslot + 1);
  for (int i = 0; i < p->nslot; i++) {
    int n = 0;
    for (int j = 0; j < p->nslot; j++)
      if (j != i && p->tensor[p->slot[j].tensor].role == NMB_ROLE_WEIGHT &&
          share_bytes(&p->slot[i], &p->slot[j]))
        found[n++] = j;
    if (!n)
      continue;
    f->neighbour[i] = NMB_NEW(run, nmb_id, n + 1);
    memcpy(f->neighbour[i], found, (size_t)n * sizeof *found);
    f->neighbour[i][n] = NMB_NONE;
  }
}

static nmb_status
open_frame(nmb_run *run, nmb__func *s, const nmb_prog *p)
{
  nmb__frame *f = &s->f;
  if (p->nslot >= UINT16_MAX)
    return nmb_fail(run, NMB_UNSUPPORTED, NMB_NOLOC, "%d buffers, expected at most %d",
                    p->nslot, UINT16_MAX - 1);
  f->run = run;
  f->p = p;
  f->o = &s->o;
  f->at = (nmb__place){0};
  f->digest = 0;
  NMB_TRY(open_memories(run, s, p));
  f->spot = NMB_NEW(run, nmb__spot, p->nslot + 1);
  f->weight = NMB_NEW(run, nmb__kept, p->nslot + 1);
  f->spoiled = NMB_NEW(run, bool, p->nslot + 1);
  f->neighbour = NMB_NEW(run, nmb_id *, p->nslot + 1);
  for (int i = 0; i < p->nslot; i++)
    NMB_TRY(nmb__spot_make(run, p, i, &f->spot[i]));
  find_neighbours(run, f);
  return NMB_OK;
}

/* -------------------------------------------------------------------- weights */
/* What the values read back through the slot depend on. */
static const char *
weight_key(nmb_run *run, const nmb__frame *f, nmb_id slot)
{
  const nmb_tensor *t = &f->p->tensor[f->p->slot[slot].tensor];
  nmb_layout l;
  nmb_layout_of(f->p, f->p->slot[slot].tensor, f->p->slot[slot].mem, &l);
  return nmb_format(run, "%" PRId64 " %s %d %d %d.%" PRId64 ".%" PRId64
                         " %d.%d %d.%" PRId64 ".%d.%d",
                    f->at.position, t->name, (int)t->dtype, t->group, t->rank, t->dim[0],
                    t->dim[1], (int)f->p->slot[slot].mem, f->spot[slot].placed,
                    (int)l.kind, l.unit_rows, l.channels, l.padded);
}

/* What there is to put into memory: values and the scales beside them, or bytes. */
static nmb_status
weight_fetch(nmb_run *run, const nmb__func *s, nmb_id tensor, shelf *x, float *v)
{
  const nmb__frame *f = &s->f;
  const nmb_tensor *t = &f->p->tensor[tensor];
  const int64_t n = nmb_tensor_count(t);
  x->scale = 1;
  if (nmb__storage_native(t->dtype) != NMB_NONE) {
    x->bytes = nmb__xrealloc(NULL, (size_t)nmb_tensor_bytes(t), 1);
    return nmb__weight_bytes(run, &s->weights, f->p, tensor, &f->at, x->bytes);
  }
  NMB_TRY(nmb__weight_values(run, &s->weights, f->p, tensor, &f->at, NMB__ROUND_NONE, v));
  x->scale = nmb__tensor_scale(t->dtype, t->group, true, n, v);
  if (t->dtype == NMB_DT_F8BLK) {
    x->block = nmb__xrealloc(NULL, (size_t)nmb__blocks_count(t), sizeof *x->block);
    nmb__blocks_find(t, v, x->block);
  }
  return NMB_OK;
}

/* What the memory gives back of the values of a weight. */
static void
held_count(nmb__held *h, const nmb_tensor *t, int64_t n, const float *v, const float *back)
{
  double most = 0, square = 0;
  for (int64_t i = 0; i < n; i++) {
    const double off = fabs((double)v[i] - (double)back[i]);
    most = off > most || isnan(off) ? off : most;
    square += (double)v[i] * (double)v[i];
  }
  h->weights++;
  if (!(most > 0))
    return;
  h->rounded++;
  most /= square > 0 ? sqrt(square / (double)n) : 1;
  if (most > h->most) {
    h->most = most;
    snprintf(h->name, sizeof h->name, "%s", t->name);
  }
}

/* Puts the weight into its slot and reads it back through it, once for each layout. */
static nmb_status
weight_load(nmb_run *run, nmb__func *s, nmb_id slot)
{
  nmb__frame *f = &s->f;
  const nmb_id tensor = f->p->slot[slot].tensor;
  const nmb_tensor *t = &f->p->tensor[tensor];
  const int64_t n = nmb_tensor_count(t);
  shelf *x = shelf_get(&s->weight, weight_key(run, f, slot));
  nmb__kept *k = &f->weight[slot];
  bool alone = true;
  for (int i = 0; i < f->p->nslot && alone; i++)
    alone = i == slot || !share_bytes(&f->p->slot[i], &f->p->slot[slot]);
  if (!x->value) {
    float *v = nmb__xrealloc(NULL, (size_t)n, sizeof *v);
    nmb_status st = weight_fetch(run, s, tensor, x, v);
    *k = (nmb__kept){v, x->scale, x->block, x->bytes, false};
    if (st == NMB_OK)
      st = nmb__weight_place(f, slot);
    float *back = nmb__xrealloc(NULL, (size_t)n, sizeof *back);
    if (st == NMB_OK)
      st = nmb__slot_get(f, slot, 0, n, back);
    if (st == NMB_OK)
      held_count(&s->held, t, x->bytes ? 0 : n, v, back);
    free(v);
    x->value = back;
    x->count = n;
    *k = (nmb__kept){back, x->scale, x->block, x->bytes, true};
    return st;
  }
  *k = (nmb__kept){x->value, x->scale, x->block, x->bytes, false};
  return alone ? NMB_OK : nmb__weight_place(f, slot);
}

/* ------------------------------------------------------------ caches and states */
static const char *
memory_key(nmb_run *run, const nmb__frame *f, const nmb_tensor *t)
{
  return nmb_format(run, "%" PRId64 " %s", f->at.position, t->name);
}

/* Room for `end` positions of each sequence. */
static void
cache_grow(shelf *x, int64_t B, int64_t len, int64_t end)
{
  if (x->cap >= end && x->count == B * len)
    return;
  const int64_t cap = 2 * end;
  float *v = calloc((size_t)(B * cap * len), sizeof *v);
  if (!v)
    nmb__panic("out of memory");
  for (int64_t b = 0; b < B && x->count == B * len; b++)
    memcpy(v + b * cap * len, x->value + b * x->cap * len,
           (size_t)(x->seen * len) * sizeof *v);
  free(x->value);
  x->value = v;
  x->cap = cap;
  x->count = B * len;
}

/* Positions that a cache holds when the step starts: [S - fresh) of each sequence. */
static nmb_status
cache_give(nmb_run *run, nmb__func *s, nmb_id slot)
{
  nmb__frame *f = &s->f;
  const nmb_prog *p = f->p;
  const nmb_tensor *t = &p->tensor[p->slot[slot].tensor];
  const int64_t B = t->dim[0], S = t->dim[1], len = nmb_tensor_count(t) / (B * S);
  const nmb__cache_rows c = nmb__cache_rows_of(p, p->slot[slot].tensor);
  const int64_t old = S - (c.after - c.before), first = c.before - old;
  shelf *x = shelf_get(&s->memory, memory_key(run, f, t));
  if (old == 0)
    return NMB_OK;
  if (s->o.invent && x->seen == 0) {
    const int64_t n = c.before;
    cache_grow(x, B, len, c.after);
    for (int64_t b = 0; b < B; b++)
      nmb__invent(&f->at, t->name, b * n * len, n * len, x->value + b * x->cap * len);
    x->seen = n;
  }
  if (x->seen < c.before || x->count != B * len)
    return nmb_fail(run, NMB_BADINPUT, t->loc,
                    "block %s: %%%s has seen %" PRId64 " positions, expected %" PRId64,
                    p->block[t->block].name, t->name, x->seen, c.before);
  for (int64_t b = 0; b < B; b++)
    NMB_TRY(nmb__slot_put(f, slot, b * S * len, old * len,
                          x->value + (b * x->cap + first) * len));
  return NMB_OK;
}

/* Takes the new rows; every memory that keeps the cache has the same. */
static nmb_status
cache_take(nmb_run *run, nmb__func *s, nmb_id slot)
{
  nmb__frame *f = &s->f;
  const nmb_prog *p = f->p;
  const nmb_tensor *t = &p->tensor[p->slot[slot].tensor];
  const int64_t B = t->dim[0], S = t->dim[1], len = nmb_tensor_count(t) / (B * S);
  const nmb__cache_rows c = nmb__cache_rows_of(p, p->slot[slot].tensor);
  const int64_t fresh = c.after - c.before, end = c.after;
  shelf *x = shelf_get(&s->memory, memory_key(run, f, t));
  float *rows = NMB_NEW(run, float, fresh * len);
  if (fresh == 0)
    return NMB_OK;
  cache_grow(x, B, len, end);
  for (int64_t b = 0; b < B; b++) {
    float *to = x->value + (b * x->cap + c.before) * len;
    NMB_TRY(nmb__slot_get(f, slot, (b * S + S - fresh) * len, fresh * len, rows));
    if (x->seen == end && memcmp(to, rows, (size_t)(fresh * len) * sizeof *rows) != 0)
      return nmb_fail(run, NMB_UNVERIFIED, t->loc,
                      "block %s, layer %" PRId64
                      ": memories hold different values of %%%s",
                      p->block[t->block].name, f->at.layer, t->name);
    memcpy(to, rows, (size_t)(fresh * len) * sizeof *rows);
  }
  x->seen = end;
  return NMB_OK;
}

static nmb_status
state_give(nmb_run *run, nmb__func *s, nmb_id slot)
{
  nmb__frame *f = &s->f;
  const nmb_tensor *t = &f->p->tensor[f->p->slot[slot].tensor];
  const int64_t n = nmb_tensor_count(t);
  shelf *x = shelf_get(&s->memory, memory_key(run, f, t));
  if (x->count != n) {
    x->value = nmb__xrealloc(x->value, (size_t)n, sizeof *x->value);
    x->count = n;
    x->before = nmb__xrealloc(x->before, (size_t)n, sizeof *x->before);
    memset(x->value, 0, (size_t)n * sizeof *x->value);
    if (s->o.invent && f->p->spec.context > 0)
      nmb__invent(&f->at, t->name, 0, n, x->value);
    x->seen = f->p->spec.context;
  }
  if (x->seen == f->p->spec.context) /* else the step runs again */
    memcpy(x->before, x->value, (size_t)n * sizeof *x->value);
  return nmb__slot_put(f, slot, 0, n, x->before);
}

static nmb_status
state_take(nmb_run *run, nmb__func *s, nmb_id slot)
{
  nmb__frame *f = &s->f;
  const nmb_tensor *t = &f->p->tensor[f->p->slot[slot].tensor];
  shelf *x = shelf_get(&s->memory, memory_key(run, f, t));
  x->seen = f->p->spec.context + f->p->spec.fresh;
  return nmb__slot_get(f, slot, 0, x->count, x->value);
}

/* -------------------------------------------------------------------- blocks */
/* Addresses of the two buffers of the hidden state: the same in all blocks. */
static void
find_hidden(nmb__frame *f)
{
  const nmb_prog *p = f->p;
  for (int i = p->nslot - 1; i >= 0; i--) {
    const int which = nmb__hidden_buffer(p, p->slot[i].tensor, p->slot[i].mem);
    if (which != NMB_NONE)
      f->hidden_at[which] = p->slot[i].offset;
  }
}

static nmb_id
slot_of(const nmb_prog *p, nmb_id tensor, nmb_id mem)
{
  for (int i = 0; i < p->nslot && tensor != NMB_NONE; i++)
    if (p->slot[i].tensor == nmb_tensor_root(p, tensor) && p->slot[i].mem == mem)
      return i;
  return NMB_NONE;
}

static nmb_status
input_give(nmb_run *run, nmb__func *s, nmb_id slot, const int32_t *ids)
{
  nmb__frame *f = &s->f;
  const nmb_prog *p = f->p;
  const nmb_tensor *t = &p->tensor[p->slot[slot].tensor];
  const int64_t n = p->spec.batch * p->spec.fresh;
  if (t->dtype != NMB_DT_I32) { /* a constant of the model */
    const int64_t count = nmb_tensor_count(t);
    float *v = NMB_NEW(run, float, count);
    NMB_TRY(nmb__weight_values(run, &s->weights, p, p->slot[slot].tensor, &f->at,
                               NMB__ROUND_NONE, v));
    return nmb__slot_put(f, slot, 0, count, v);
  }
  const int64_t count = nmb_tensor_count(t);
  int32_t *pos = NMB_NEW(run, int32_t, count);
  if (!strcmp(t->name, "ids") && count == n)
    return nmb__slot_put(f, slot, 0, n, ids);
  if (!nmb__positions(p, t, pos))
    return nmb_fail(run, NMB_UNSUPPORTED, t->loc,
                    "block %s: found input %%%s, expected ids or pos",
                    p->block[t->block].name, t->name);
  return nmb__slot_put(f, slot, 0, count, pos);
}

/* Transient buffers hold nothing, but for the hidden state: what block `before` has
 * left in its `out` is the `in` of this one. */
static void
forget_values(nmb__frame *f, nmb_id before)
{
  const nmb_prog *p = f->p;
  for (int i = 0; i < p->nslot; i++) {
    const nmb_slot *x = &p->slot[i];
    uint16_t *tag = f->mem[x->mem].tag + nmb__slot_base(f, i);
    if (x->resident || p->tensor[x->tensor].block != f->at.block || i == f->hidden_in)
      continue;
    memset(tag, 0, (size_t)x->bytes * sizeof *tag);
  }
  if (f->hidden_in == NMB_NONE)
    return;
  const nmb_slot *x = &p->slot[f->hidden_in];
  uint16_t *tag = f->mem[x->mem].tag + nmb__slot_base(f, f->hidden_in);
  for (int64_t i = 0; i < x->bytes; i++)
    tag[i] = before != NMB_NONE && tag[i] == before + 1 ? (uint16_t)(f->hidden_in + 1) : 0;
}

static nmb_status
give(nmb_run *run, nmb__func *s, const int32_t *ids)
{
  nmb__frame *f = &s->f;
  const nmb_prog *p = f->p;
  const nmb_id home = p->hw->engine[p->hw->host].home;
  for (int i = 0; i < p->nslot; i++) {
    const nmb_tensor *t = &p->tensor[p->slot[i].tensor];
    if (t->block != f->at.block)
      continue;
    f->weight[i] = (nmb__kept){.scale = 1};
    f->spoiled[i] = false;
    if (t->role == NMB_ROLE_WEIGHT)
      NMB_TRY(weight_load(run, s, i));
    else if (t->role == NMB_ROLE_KV)
      NMB_TRY(cache_give(run, s, i));
    else if (t->role == NMB_ROLE_STATE)
      NMB_TRY(state_give(run, s, i));
    else if (t->role == NMB_ROLE_INPUT && p->slot[i].mem == home)
      NMB_TRY(input_give(run, s, i, ids));
  }
  return NMB_OK;
}

static nmb_status
take(nmb_run *run, nmb__func *s)
{
  nmb__frame *f = &s->f;
  const nmb_prog *p = f->p;
  for (int i = 0; i < p->nslot; i++) {
    const nmb_tensor *t = &p->tensor[p->slot[i].tensor];
    if (t->block == f->at.block && t->role == NMB_ROLE_KV)
      NMB_TRY(cache_take(run, s, i));
    else if (t->block == f->at.block && t->role == NMB_ROLE_STATE)
      NMB_TRY(state_take(run, s, i));
  }
  return NMB_OK;
}

/* ------------------------------------------------------------------ row by row */
static int64_t
least(int64_t a, int64_t b)
{
  return a < b ? a : b;
}

static int64_t
most(int64_t a, int64_t b)
{
  return a > b ? a : b;
}

/* Rows of a tile: units [u0, u1), in each of them [m0, m1); of tokens and routed rows one
 * unit, with rows as the tensor counts them. */
typedef struct span {
  bool units, whole; /* whole: the op's space is (units, rows); else rows are units */
  int64_t u0, u1, m0, m1, shift, each;
} span;

static span
rows_of(const nmb_prog *p, const nmb_insn *in)
{
  const nmb_op *o = &p->op[in->op];
  const nmb_tile *t = &in->tile;
  span r = {.u1 = 1, .m0 = t->m0, .m1 = t->m1};
  if (nmb_op_rowkind(p, in->op) == NMB_ROWS_UNIT) {
    const nmb_tensor *y = &p->tensor[o->out[0]];
    r.units = true;
    r.whole = o->code == NMB_OP_SOFTMAX || nmb_op_get(o->code)->class_ == NMB_CLASS_MAC;
    r.each = y->dim[y->rank - 1];
    if (r.whole) {
      r.u0 = t->b0;
      r.u1 = t->b1;
    } else {
      r.u0 = t->m0;
      r.u1 = t->m1;
      r.m0 = t->n0 / r.each;
      r.m1 = t->n1 / r.each;
    }
  } else if (o->code == NMB_OP_GLINEAR) {
    const nmb_routing *table = &p->routing[nmb_op_int(o, "routing", 0)];
    for (int64_t e = 0; e < t->b0; e++)
      r.shift += table->load[e];
    r.m0 += r.shift;
    r.m1 = least(r.m1, table->load[t->b0]) + r.shift;
  }
  return r;
}

static nmb_status
exec_row(nmb__frame *f, nmb_id insn, const span *r, int64_t u, int64_t m)
{
  const nmb_insn *in = &f->p->insn[insn];
  const bool beside = r->units && f->p->hw->engine[in->engine].in_memory;
  nmb_tile t = in->tile;
  nmb__turn turn = {&t, 0, 1};
  if (u < r->u0 || u >= r->u1 || m < r->m0 || m >= r->m1)
    return NMB_OK;
  if (r->units && r->whole)
    t.b0 = u, t.b1 = u + 1;
  if (r->units && !r->whole) {
    t.m0 = u, t.m1 = u + 1;
    t.n0 = m * r->each, t.n1 = (m + 1) * r->each;
  } else
    t.m0 = m - r->shift, t.m1 = t.m0 + 1;
  if (beside)
    turn.side = u - r->u0, turn.nside = r->u1 - r->u0;
  return nmb__func_exec(f, insn, &turn);
}

static nmb_status
run_rows(nmb_run *run, nmb__frame *f, const nmb__node *k)
{
  const nmb_prog *p = f->p;
  span *r = NMB_NEW(run, span, k->n), all = {0};
  for (int i = 0; i < k->n; i++) {
    r[i] = rows_of(p, &p->insn[k->insn[i]]);
    all.u0 = i ? least(all.u0, r[i].u0) : r[i].u0;
    all.m0 = i ? least(all.m0, r[i].m0) : r[i].m0;
    all.u1 = most(all.u1, r[i].u1);
    all.m1 = most(all.m1, r[i].m1);
  }
  for (int m = 0; m < p->hw->nmem; m++)
    if (f->tile[m].n)
      memset(f->tile[m].tag, 0, (size_t)f->tile[m].n * sizeof *f->tile[m].tag);
  for (int64_t u = all.u0; u < all.u1; u++)
    for (int64_t m = all.m0; m < all.m1; m++)
      for (int i = 0; i < k->n; i++)
        NMB_TRY(exec_row(f, k->insn[i], &r[i], u, m));
  return NMB_OK;
}

static nmb_status
run_node(nmb_run *run, nmb__frame *f, const nmb__node *k)
{
  if (k->rows)
    return run_rows(run, f, k);
  for (int i = 0; i < k->n; i++)
    switch (f->p->insn[k->insn[i]].kind) {
    case NMB_INSN_SYNC: break;
    case NMB_INSN_EXEC: NMB_TRY(nmb__func_exec(f, k->insn[i], NULL)); break;
    default: NMB_TRY(nmb__func_move(f, k->insn[i]));
    }
  return NMB_OK;
}

/* ---------------------------------------------------------------------- steps */
static nmb_status
run_block(nmb_run *run, nmb__func *s, const int32_t *ids, nmb_id *handed)
{
  nmb__frame *f = &s->f;
  const nmb_prog *p = f->p;
  const nmb_block *b = &p->block[f->at.block];
  const nmb_id mem = nmb__handover_mem(p);
  const size_t mark = nmb__run_mark(run);
  int first = 0, end;
  while (first < p->ninsn && p->insn[first].block != f->at.block)
    first++;
  for (end = first; end < p->ninsn && p->insn[end].block == f->at.block;)
    end++;
  f->swap = f->at.position % 2;
  f->hidden_in = slot_of(p, b->in, mem);
  f->hidden_out = slot_of(p, b->out, mem);
  forget_values(f, *handed);
  NMB_TRY(give(run, s, ids));
  nmb__order order;
  const uint64_t seed = s->o.order ? s->o.order * 1000003 + (uint64_t)f->at.position : 0;
  NMB_TRY(nmb__order_make(run, p, first, end, seed, &order));
  for (int i = 0; i < order.n; i++)
    NMB_TRY(run_node(run, f, &order.node[i]));
  NMB_TRY(take(run, s));
  *handed = f->hidden_out;
  nmb__run_release(run, mark);
  return NMB_OK;
}

static nmb_status
give_logits(nmb_run *run, nmb__func *s, const float **logits, int64_t *rows,
            int64_t *columns)
{
  nmb__frame *f = &s->f;
  const nmb_prog *p = f->p;
  const nmb_block *b = &p->block[f->at.block];
  const nmb_id op = b->nop ? b->op[b->nop - 1] : NMB_NONE;
  const nmb_id k = op == NMB_NONE ? NMB_NONE : nmb__kernel_of(p, op);
  const nmb_id slot =
      k == NMB_NONE ? NMB_NONE
                    : slot_of(p, p->op[op].out[0], p->hw->engine[p->kernel[k].engine].home);
  if (slot == NMB_NONE)
    return nmb_fail(run, NMB_UNVERIFIED, NMB_NOLOC, "block %s leaves no result", b->name);
  const nmb_tensor *t = &p->tensor[p->slot[slot].tensor];
  *columns = t->dim[t->rank - 1];
  *rows = nmb_tensor_count(t) / *columns;
  s->logits = nmb__xrealloc(s->logits, (size_t)nmb_tensor_count(t), sizeof *s->logits);
  *logits = s->logits;
  return nmb__slot_get(f, slot, 0, nmb_tensor_count(t), s->logits);
}

static nmb_status
run_blocks(nmb_run *run, nmb__func *s, const int32_t *ids)
{
  const nmb_prog *p = s->f.p;
  int64_t *layer = NMB_NEW(run, int64_t, p->nblock);
  nmb_id handed = NMB_NONE;
  for (int i = 0; i < p->nsegment; i++)
    for (int64_t j = 0; j < p->order[i].count; j++) {
      s->f.at.block = p->order[i].block;
      s->f.at.layer = layer[s->f.at.block]++;
      NMB_TRY(run_block(run, s, ids, &handed));
      s->f.at.position++;
    }
  s->f.at.position--;
  return NMB_OK;
}

nmb_status
nmb__func_step(nmb_run *run, nmb__func *s, const nmb_prog *p, const int32_t *ids,
               const float **logits, int64_t *rows, int64_t *columns)
{
  const size_t mark = nmb__run_mark(run);
  if (!(p->present & NMB_BIT(NMB_CODE)) || p->nsegment == 0)
    return nmb_fail(run, NMB_BADINPUT, NMB_NOLOC, 
                    "the program has no code; the pipeline must end with an emit pass");
  nmb_status st = open_frame(run, s, p);
  find_hidden(&s->f);
  if (st == NMB_OK)
    st = run_blocks(run, s, ids);
  if (st == NMB_OK)
    st = give_logits(run, s, logits, rows, columns);
  frame_close(s);
  nmb__run_release(run, mark);
  return st;
}
