/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Reference evaluation of programs: blocks in order, weights in float, and the caches
 * and states that go from step to step.
 *
 * Caches are kept as whole histories, so that each step's program finds the part that it
 * sees, whatever its window.  Everything is keyed by the position of a block among all
 * that run and the tensor's name, which passes keep. */
#include <cblas.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/run.h"
#include "ir/eval.h"
#include "ir/formats.h"

typedef struct item { /* a weight, cache or state of one position */
  char *name;
  float *own; /* NULL: `v` is not ours */
  const float *v;
  int64_t count;
  int64_t rows, cap; /* of a cache: rows in each sequence, and room for them */
  int64_t seen;      /* tokens that a state or cache has taken */
  bool brief;        /* goes when its block has run */
} item;

typedef struct shelf { /* what one position has */
  int n, cap;
  item *v;
} shelf;

typedef struct buffer {
  void *v;
  size_t bytes;
} buffer;

struct nmb__eval {
  nmb__weights weights;
  nmb__eval_options o;
  uint64_t kept; /* bytes of weights */
  int nshelf;
  shelf *kept_weights, *memory;
  int nbuffer;
  buffer *buffer; /* by tensor of the program at hand */
  buffer hidden, logits;
  nmb_routing *route; /* by routing table: the choice made, if any */
  int nroute;
};

static void *
room(buffer *b, size_t bytes)
{
  if (bytes > b->bytes) {
    free(b->v);
    b->v = nmb__xrealloc(NULL, bytes, 1);
    b->bytes = bytes;
  }
  return b->v;
}

/* ------------------------------------------------------------- open and close */
nmb__eval *
nmb__eval_open(const nmb__weights *w, const nmb__eval_options *o)
{
  nmb__eval *e = calloc(1, sizeof *e);
  if (!e)
    nmb__panic("out of memory");
  e->weights = *w;
  e->o = *o;
  /* Cells of a sweep run side by side, and sums must not depend on the cores. */
  openblas_set_num_threads(1);
  return e;
}

static void
shelf_clear(shelf *s)
{
  for (int i = 0; i < s->n; i++) {
    free(s->v[i].name);
    free(s->v[i].own);
  }
  free(s->v);
  *s = (shelf){0};
}

static void
routes_clear(nmb__eval *e)
{
  for (int i = 0; i < e->nroute; i++) {
    free((void *)(uintptr_t)e->route[i].expert);
    free((void *)(uintptr_t)e->route[i].load);
  }
  free(e->route);
  e->route = NULL;
  e->nroute = 0;
}

void
nmb__eval_reset(nmb__eval *e)
{
  for (int i = 0; i < e->nshelf; i++)
    shelf_clear(&e->memory[i]);
}

void
nmb__eval_close(nmb__eval *e)
{
  if (!e)
    return;
  nmb__eval_reset(e);
  for (int i = 0; i < e->nshelf; i++)
    shelf_clear(&e->kept_weights[i]);
  for (int i = 0; i < e->nbuffer; i++)
    free(e->buffer[i].v);
  routes_clear(e);
  free(e->kept_weights);
  free(e->memory);
  free(e->buffer);
  free(e->hidden.v);
  free(e->logits.v);
  free(e);
}

/* --------------------------------------------------------------------- shelves */
static item *
shelf_find(shelf *s, const char *name)
{
  for (int i = 0; i < s->n; i++)
    if (!strcmp(s->v[i].name, name))
      return &s->v[i];
  return NULL;
}

static item *
shelf_add(shelf *s, const char *name)
{
  if (s->n == s->cap) {
    s->cap = s->cap ? 2 * s->cap : 16;
    s->v = nmb__xrealloc(s->v, (size_t)s->cap, sizeof *s->v);
  }
  item *it = &s->v[s->n++];
  *it = (item){.name = nmb__xrealloc(NULL, strlen(name) + 1, 1)};
  strcpy(it->name, name);
  return it;
}

/* Gives back what may not be kept; the order of the rest does not matter. */
static void
shelf_prune(shelf *s)
{
  for (int i = s->n - 1; i >= 0; i--)
    if (s->v[i].brief) {
      free(s->v[i].name);
      free(s->v[i].own);
      s->v[i] = s->v[--s->n];
    }
}

static void
shelves_grow(nmb__eval *e, int64_t position)
{
  if (position < e->nshelf)
    return;
  const int n = (int)position + 1;
  const size_t more = (size_t)(n - e->nshelf) * sizeof(shelf);
  e->kept_weights = nmb__xrealloc(e->kept_weights, (size_t)n, sizeof(shelf));
  e->memory = nmb__xrealloc(e->memory, (size_t)n, sizeof(shelf));
  memset(e->kept_weights + e->nshelf, 0, more);
  memset(e->memory + e->nshelf, 0, more);
  e->nshelf = n;
}

/* --------------------------------------------------------------------- weights */
/* Does the program hold each head's matrix turned, as absorbing a key expansion does? */
static bool
turned(const nmb_prog *p, nmb_id tensor)
{
  const nmb_block *b = &p->block[p->tensor[tensor].block];
  for (int i = 0; i < b->nop; i++) {
    const nmb_op *o = &p->op[b->op[i]];
    if (o->code == NMB_OP_HLINEAR && o->in[1] == tensor)
      return nmb_op_int(o, "transposed", 0) != 0;
  }
  return false;
}

/* [h][K][N] -> [h][N][K] */
static void
turn(const nmb_tensor *t, float *v)
{
  const int64_t N = t->dim[1], K = t->dim[2];
  float *tmp = nmb__xrealloc(NULL, (size_t)(N * K), sizeof *tmp);
  for (int64_t h = 0; h < t->dim[0]; h++) {
    float *x = v + h * N * K;
    memcpy(tmp, x, (size_t)(N * K) * sizeof *tmp);
    for (int64_t n = 0; n < N; n++)
      for (int64_t k = 0; k < K; k++)
        x[n * K + k] = tmp[k * N + n];
  }
  free(tmp);
}

/* The values are in out, or where *ready says. */
static nmb_status
weight_load(nmb_run *run, const nmb__weights *w, const nmb_prog *p, nmb_id tensor,
            const nmb__place *at, nmb__rounding rounding, float *out, const float **ready)
{
  const nmb_tensor *t = &p->tensor[tensor];
  const bool turns = turned(p, tensor);
  bool exact = false;
  *ready = NULL;
  NMB_TRY(w->load(run, w->self, p, tensor, at, out, ready, &exact));
  const bool rounds = rounding == NMB__ROUND_STORED && (!exact || turns);
  if (*ready && (turns || (rounds && t->dtype != NMB_DT_F32))) {
    memcpy(out, *ready, (size_t)nmb_tensor_count(t) * sizeof *out);
    *ready = NULL;
  }
  if (turns)
    turn(t, out);
  if (rounds && !*ready)
    nmb__round_tensor(t, out);
  return NMB_OK;
}

nmb_status
nmb__weight_bytes(nmb_run *run, const nmb__weights *w, const nmb_prog *p, nmb_id tensor,
                  const nmb__place *at, uint8_t *out)
{
  const nmb_tensor *t = &p->tensor[tensor];
  if (w->bytes && !turned(p, tensor))
    return w->bytes(run, w->self, p, tensor, at, out);
  return nmb_fail(run, NMB_UNSUPPORTED, t->loc,
                  "%%%s of block %s is in %s, which only a file that has it so can fill",
                  t->name, p->block[t->block].name, nmb_dtype_get(t->dtype)->name);
}

nmb_status
nmb__weight_values(nmb_run *run, const nmb__weights *w, const nmb_prog *p, nmb_id tensor,
                   const nmb__place *at, nmb__rounding rounding, float *out)
{
  const float *ready;
  NMB_TRY(weight_load(run, w, p, tensor, at, rounding, out, &ready));
  if (ready)
    memcpy(out, ready, (size_t)nmb_tensor_count(&p->tensor[tensor]) * sizeof *out);
  return NMB_OK;
}

/* One shape may hold what another does not: the key has what a pass can change. */
static const char *
weight_key(nmb_run *run, const nmb_prog *p, nmb_id tensor, nmb__rounding rounding)
{
  const nmb_tensor *t = &p->tensor[tensor];
  if (rounding == NMB__ROUND_NONE)
    return turned(p, tensor) ? nmb_format(run, "%s turned", t->name) : t->name;
  /* blocks are of rows and columns: heads apart and heads together have other ones */
  const int64_t rows = t->dtype == NMB_DT_F8BLK && t->rank > 1 ? t->dim[t->rank - 2] : 0;
  return nmb_format(run, "%s %s %s %d %" PRId64, t->name, turned(p, tensor) ? "turned" : "",
                    nmb_dtype_get(t->dtype)->name, t->group, rows);
}

static nmb_status
weight_get(nmb_run *run, nmb__eval *e, const nmb_prog *p, nmb_id tensor,
           const nmb__place *at, const float **out)
{
  shelf *s = &e->kept_weights[at->position];
  const char *key = weight_key(run, p, tensor, e->o.rounding);
  item *it = shelf_find(s, key);
  const int64_t n = nmb_tensor_count(&p->tensor[tensor]);
  if (it && it->count != n)
    return nmb_fail(run, NMB_BADINPUT, p->tensor[tensor].loc,
                    "%%%s has %" PRId64 " elements, but had %" PRId64
                    " in the step before",
                    p->tensor[tensor].name, n, it->count);
  if (!it) {
    float *own = nmb__xrealloc(NULL, (size_t)n, sizeof *own);
    const float *ready = NULL;
    const nmb_status st =
        weight_load(run, &e->weights, p, tensor, at, e->o.rounding, own, &ready);
    if (st != NMB_OK || ready) {
      free(own);
      own = NULL;
    }
    NMB_TRY(st);
    it = shelf_add(s, key);
    it->own = own;
    it->v = ready ? ready : own;
    it->count = n;
    const uint64_t bytes = own ? (uint64_t)n * sizeof *own : 0;
    it->brief = e->o.keep_bytes > 0 && e->kept + bytes > e->o.keep_bytes;
    e->kept += it->brief ? 0 : bytes;
  }
  *out = it->v;
  return NMB_OK;
}

/* ----------------------------------------------------------- caches and states */
static nmb_status
continues(nmb_run *run, const nmb_prog *p, const nmb_tensor *t, int64_t seen)
{
  if (seen == p->spec.context)
    return NMB_OK;
  return nmb_fail(run, NMB_BADINPUT, t->loc,
                  "block %s: %%%s has taken %" PRId64
                  " tokens, but the step is after %" PRId64,
                  p->block[t->block].name, t->name, seen, p->spec.context);
}

static item *
memory_of(nmb__eval *e, const nmb__place *at, const nmb_tensor *t, int64_t count)
{
  item *it = shelf_find(&e->memory[at->position], t->name);
  if (it)
    return it;
  it = shelf_add(&e->memory[at->position], t->name);
  it->count = count;
  return it;
}

/* A state: zero before the first token. */
static nmb_status
state_get(nmb_run *run, nmb__eval *e, const nmb_prog *p, nmb_id tensor,
          const nmb__place *at, float **out)
{
  const nmb_tensor *t = &p->tensor[tensor];
  const int64_t n = nmb_tensor_count(t);
  item *it = memory_of(e, at, t, n);
  if (it->count != n)
    return nmb_fail(run, NMB_BADINPUT, t->loc,
                    "%%%s has %" PRId64 " elements, but had %" PRId64
                    " in the step before",
                    t->name, n, it->count);
  if (!it->own) {
    it->own = calloc((size_t)n, sizeof *it->own);
    if (!it->own)
      nmb__panic("out of memory");
  }
  if (e->o.invent && it->seen == 0 && p->spec.context > 0) {
    nmb__invent(at, t->name, 0, n, it->own);
    it->seen = p->spec.context;
  }
  NMB_TRY(continues(run, p, t, it->seen));
  *out = it->own;
  return NMB_OK;
}

/* Room for `rows` rows of `len` in each of B sequences. */
static void
history_grow(item *it, int64_t B, int64_t rows, int64_t len)
{
  if (rows <= it->cap)
    return;
  const int64_t cap = rows > 2 * it->cap ? rows : 2 * it->cap;
  float *v = calloc((size_t)(B * cap * len), sizeof *v);
  if (!v)
    nmb__panic("out of memory");
  for (int64_t b = 0; b < B && it->rows > 0; b++)
    memcpy(v + b * cap * len, it->own + b * it->cap * len,
           (size_t)(it->rows * len) * sizeof *v);
  free(it->own);
  it->own = v;
  it->cap = cap;
}

void
nmb__invent(const nmb__place *at, const char *name, int64_t first, int64_t n, float *out)
{
  uint64_t key = (uint64_t)at->position * UINT64_C(0x9e3779b97f4a7c15);
  for (; *name; name++)
    key = (key ^ (uint64_t)(unsigned char)*name) * UINT64_C(0x100000001b3);
  for (int64_t i = 0; i < n; i++) { /* splitmix64 */
    uint64_t z = key + (uint64_t)(first + i) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    out[i] = (float)((double)((z ^ (z >> 31)) >> 11) * 0x1p-52 - 1);
  }
}

nmb__cache_rows
nmb__cache_rows_of(const nmb_prog *p, nmb_id root)
{
  const nmb_block *b = &p->block[p->tensor[root].block];
  int64_t every = 1;
  for (int i = 0; i < b->nop; i++) {
    const nmb_op *o = &p->op[b->op[i]];
    const int cache = o->code == NMB_OP_KVAPPEND ? 0 : o->code == NMB_OP_QK ? 1 : NMB_NONE;
    if (cache != NMB_NONE && nmb_op_int(o, "every", 0) > 0 &&
        nmb_tensor_root(p, o->in[cache]) == root)
      every = nmb_op_int(o, "every", 0);
  }
  const int64_t context = p->spec.context;
  return (nmb__cache_rows){context / every, (context + p->spec.fresh) / every};
}

bool
nmb__positions(const nmb_prog *p, const nmb_tensor *t, int32_t *out)
{
  const int64_t n = nmb_tensor_count(t), each = n / p->spec.batch;
  int64_t every = 1;
  if (!strncmp(t->name, "pos.", 4))
    every = strtoll(t->name + 4, NULL, 10);
  else if (strcmp(t->name, "pos") != 0)
    return false;
  if (every < 1 || n % p->spec.batch)
    return false;
  const int64_t before = p->spec.context / every;
  if (each != (p->spec.context + p->spec.fresh) / every - before)
    return false;
  for (int64_t i = 0; i < n; i++)
    out[i] = (int32_t)((before + i % each) * every);
  return true;
}

/* The part of a cache's history that the step sees, with room for its new rows. */
static nmb_status
cache_get(nmb_run *run, nmb__eval *e, const nmb_prog *p, nmb_id tensor,
          const nmb__place *at, float **out)
{
  const nmb_tensor *t = &p->tensor[tensor];
  const int64_t B = t->dim[0], S = t->dim[1], len = nmb_tensor_count(t) / (B * S);
  const nmb__cache_rows c = nmb__cache_rows_of(p, tensor);
  const int64_t end = c.after, first = end - S;
  item *it = memory_of(e, at, t, B * len);
  if (it->count != B * len || first < 0)
    return nmb_fail(run, NMB_BADINPUT, t->loc,
                    "block %s: %%%s has %" PRId64 " positions of %" PRId64
                    " elements, expected at most %" PRId64 " of %" PRId64,
                    p->block[t->block].name, t->name, S, B * len, end, it->count);
  history_grow(it, B, end, len);
  if (c.before == 0) /* it has had nothing to hold */
    it->seen = p->spec.context;
  if (e->o.invent && it->seen == 0 && p->spec.context > 0) {
    const int64_t last = t->dim[t->rank - 1], n = c.before;
    for (int64_t b = 0; b < B; b++) {
      float *rows = it->own + b * it->cap * len;
      nmb__invent(at, t->name, b * n * len, n * len, rows);
      if (e->o.rounding == NMB__ROUND_STORED && nmb_dtype_codes(t->dtype))
        nmb__round(t->dtype, t->group, 1, n * len / last, last, rows);
    }
    it->rows = n;
    it->seen = p->spec.context;
  }
  NMB_TRY(continues(run, p, t, it->seen));
  if (B == 1) {
    *out = it->own + first * len;
    return NMB_OK;
  }
  float *v = room(&e->buffer[tensor], (size_t)(B * S * len) * sizeof *v);
  for (int64_t b = 0; b < B; b++)
    memcpy(v + b * S * len, it->own + (b * it->cap + first) * len,
           (size_t)((it->rows - first > 0 ? it->rows - first : 0) * len) * sizeof *v);
  *out = v;
  return NMB_OK;
}

/* Rounds the rows that kvappend has added, and takes them into the history. */
static void
cache_keep(nmb__eval *e, const nmb_prog *p, nmb_id root, const nmb__place *at, float *v)
{
  const nmb_tensor *t = &p->tensor[root];
  const int64_t B = t->dim[0], S = t->dim[1], len = nmb_tensor_count(t) / (B * S);
  const nmb__cache_rows c = nmb__cache_rows_of(p, root);
  const int64_t fresh = c.after - c.before, last = t->dim[t->rank - 1];
  item *it = memory_of(e, at, t, B * len);
  for (int64_t b = 0; b < B; b++) {
    float *rows = v + (b * S + S - fresh) * len;
    if (e->o.rounding == NMB__ROUND_STORED && nmb_dtype_codes(t->dtype))
      nmb__round(t->dtype, t->group, 1, fresh * len / last, last, rows);
    if (B > 1)
      memcpy(it->own + (b * it->cap + c.before) * len, rows,
             (size_t)(fresh * len) * sizeof *rows);
  }
  it->rows = c.after;
}

/* All caches and states have taken the step's tokens. */
static void
memory_advance(nmb__eval *e, const nmb_prog *p)
{
  for (int i = 0; i < e->nshelf; i++)
    for (int j = 0; j < e->memory[i].n; j++)
      e->memory[i].v[j].seen = p->spec.context + p->spec.fresh;
}

/* ------------------------------------------------------------------------ ops */
typedef struct stepper {
  nmb_run *run;
  nmb__eval *e;
  const nmb_prog *p;
  nmb__place at;
  nmb__place *ran; /* [nblock] where each block has run last */
  const int32_t *ids;
  void **v; /* [ntensor] values of the block at hand; NULL: none yet */
} stepper;

/* Inputs that are no whole numbers are constants of the model. */
static nmb_status
input_get(stepper *s, nmb_id tensor, void **out)
{
  const nmb_tensor *t = &s->p->tensor[tensor];
  const float *w = NULL;
  if (t->dtype != NMB_DT_I32) {
    NMB_TRY(weight_get(s->run, s->e, s->p, tensor, &s->at, &w));
    *out = (void *)(uintptr_t)w;
  } else if (!strcmp(t->name, "ids"))
    *out = (void *)(uintptr_t)s->ids;
  else {
    int32_t *pos = room(&s->e->buffer[tensor], (size_t)nmb_tensor_count(t) * sizeof *pos);
    *out = pos;
    if (nmb__positions(s->p, t, pos))
      return NMB_OK;
    return nmb_fail(s->run, NMB_UNSUPPORTED, t->loc,
                    "block %s: found input %%%s, expected ids or pos",
                    s->p->block[t->block].name, t->name);
  }
  return NMB_OK;
}

static nmb_status
value_get(stepper *s, nmb_id tensor, const void **out)
{
  const nmb_tensor *t = &s->p->tensor[tensor];
  if (!s->v[tensor]) {
    const nmb_id own = t->of ? t->of - 1 : tensor;
    const nmb__place *at = t->of ? &s->ran[s->p->tensor[own].block] : &s->at;
    const float *w = NULL;
    float *m = NULL;
    switch (t->role) {
    case NMB_ROLE_WEIGHT:
      NMB_TRY(weight_get(s->run, s->e, s->p, own, at, &w));
      s->v[tensor] = (void *)(uintptr_t)w;
      break;
    case NMB_ROLE_KV:
    case NMB_ROLE_STATE:
      NMB_TRY((t->role == NMB_ROLE_KV ? cache_get : state_get)(s->run, s->e, s->p, own,
                                                               at, &m));
      s->v[tensor] = m;
      break;
    case NMB_ROLE_INPUT: NMB_TRY(input_get(s, tensor, &s->v[tensor])); break;
    default:
      return nmb_fail(s->run, NMB_UNVERIFIED, t->loc, "block %s: %%%s has no value",
                      s->p->block[t->block].name, t->name);
    }
  }
  *out = s->v[tensor];
  return NMB_OK;
}

static void
route_set(stepper *s, const nmb_op *o, const int32_t *idx)
{
  nmb__eval *e = s->e;
  const int64_t id = nmb_op_int(o, "routing", 0);
  nmb_routing *r = &e->route[id];
  const nmb_routing *of = &s->p->routing[id];
  const int64_t n = of->ntoken * of->topk;
  int32_t *expert =
      nmb__xrealloc((void *)(uintptr_t)r->expert, (size_t)n, sizeof *expert);
  int64_t *load =
      nmb__xrealloc((void *)(uintptr_t)r->load, (size_t)of->experts, sizeof *load);
  memcpy(expert, idx, (size_t)n * sizeof *expert);
  memset(load, 0, (size_t)of->experts * sizeof *load);
  int reached = 0;
  for (int64_t i = 0; i < n; i++)
    reached += load[idx[i]]++ == 0;
  *r = (nmb_routing){of->name, of->experts, of->topk, of->ntoken, expert, load, reached};
}

/* Storage of output i: that of a cache or state that the op changes in place, or a
 * buffer of its own. */
static void *
output_room(stepper *s, const nmb_op *o, int i)
{
  const nmb_tensor *t = &s->p->tensor[o->out[i]];
  const int in = o->code == NMB_OP_SPLIT ? NMB_NONE : nmb_op_in_place(o, i);
  if (in != NMB_NONE)
    return s->v[o->in[in]];
  return room(&s->e->buffer[o->out[i]], (size_t)nmb_tensor_count(t) * sizeof(float));
}

static nmb_status
run_op(stepper *s, nmb_id id)
{
  const nmb_prog *p = s->p;
  const nmb_op *o = &p->op[id];
  nmb__vals v = {.by_table = s->e->o.by_table};
  const size_t mark = nmb__run_mark(s->run);
  for (int i = 0; i < o->nin; i++)
    NMB_TRY(value_get(s, o->in[i], &v.in[i]));
  for (int i = 0; i < o->nout; i++)
    v.out[i] = s->v[o->out[i]] = output_room(s, o, i);
  if (nmb_op_attr(o, "routing")) {
    const nmb_routing *r = &s->e->route[nmb_op_int(o, "routing", 0)];
    v.routing = r->expert && !v.by_table ? r : NULL;
  }
  if (o->code == NMB_OP_TOPK)
    v.routing = NULL; /* a choice of another layer says nothing */
  NMB_TRY(nmb__op_eval(s->run, p, id, NULL, &v));
  if (o->code == NMB_OP_TOPK)
    route_set(s, o, v.out[1]);
  for (int i = 0; i < o->nout; i++) {
    const nmb_tensor *t = &p->tensor[o->out[i]];
    if (o->code == NMB_OP_KVAPPEND)
      cache_keep(s->e, p, nmb_tensor_root(p, o->in[0]), &s->at, v.out[i]);
    else if (s->e->o.rounding == NMB__ROUND_STORED && !s->e->o.settle)
      nmb__round_tensor(t, v.out[i]);
  }
  if (s->e->o.settle && o->code != NMB_OP_KVAPPEND)
    NMB_TRY(s->e->o.settle(s->run, s->e->o.watch_self, p, &s->at, id, &v));
  if (s->e->o.watch)
    s->e->o.watch(s->e->o.watch_self, p, &s->at, id, &v);
  nmb__run_release(s->run, mark);
  return NMB_OK;
}

static nmb_status
run_block(stepper *s)
{
  nmb__eval *e = s->e;
  const nmb_block *b = &s->p->block[s->at.block];
  shelves_grow(e, s->at.position);
  memset(s->v, 0, (size_t)s->p->ntensor * sizeof *s->v);
  for (int i = 0; i < e->nroute; i++) { /* each layer chooses anew */
    free((void *)(uintptr_t)e->route[i].expert);
    e->route[i].expert = NULL;
  }
  if (b->in != NMB_NONE)
    s->v[b->in] = e->hidden.v;
  for (int i = 0; i < b->nop; i++)
    NMB_TRY(run_op(s, b->op[i]));
  if (b->out != NMB_NONE) {
    const size_t bytes = (size_t)nmb_tensor_count(&s->p->tensor[b->out]) * sizeof(float);
    const void *out;
    NMB_TRY(value_get(s, b->out, &out)); /* a block may hand on what it took */
    if (out != e->hidden.v)
      memcpy(room(&e->hidden, bytes), out, bytes);
  }
  shelf_prune(&e->kept_weights[s->at.position]);
  return NMB_OK;
}

/* ---------------------------------------------------------------------- steps */
static void
prepare(nmb__eval *e, const nmb_prog *p)
{
  if (p->ntensor > e->nbuffer) {
    e->buffer = nmb__xrealloc(e->buffer, (size_t)p->ntensor, sizeof *e->buffer);
    memset(e->buffer + e->nbuffer, 0,
           (size_t)(p->ntensor - e->nbuffer) * sizeof *e->buffer);
    e->nbuffer = p->ntensor;
  }
  routes_clear(e);
  if (p->nrouting > 0) {
    e->route = calloc((size_t)p->nrouting, sizeof *e->route);
    if (!e->route)
      nmb__panic("out of memory");
    e->nroute = p->nrouting;
  }
}

static nmb_status
give_logits(stepper *s, const float **logits, int64_t *rows, int64_t *columns)
{
  const nmb_block *b = &s->p->block[s->at.block];
  if (b->nop == 0)
    return nmb_fail(s->run, NMB_BADINPUT, NMB_NOLOC, "block %s has no op", b->name);
  const nmb_id y = s->p->op[b->op[b->nop - 1]].out[0];
  const nmb_tensor *t = &s->p->tensor[y];
  *columns = t->dim[t->rank - 1];
  *rows = nmb_tensor_count(t) / *columns;
  *logits = s->v[y];
  return NMB_OK;
}

nmb_status
nmb__eval_step(nmb_run *run, nmb__eval *e, const nmb_prog *p, const int32_t *ids,
               const float **logits, int64_t *rows, int64_t *columns)
{
  stepper s = {.run = run, .e = e, .p = p, .ids = ids};
  if (p->nsegment == 0)
    return nmb_fail(run, NMB_BADINPUT, NMB_NOLOC, "the program runs no block");
  prepare(e, p);
  s.v = NMB_NEW(run, void *, p->ntensor);
  s.ran = NMB_NEW(run, nmb__place, p->nblock);
  int64_t *layer = NMB_NEW(run, int64_t, p->nblock);
  for (int i = 0; i < p->nsegment; i++)
    for (int64_t j = 0; j < p->order[i].count; j++) {
      s.at.block = p->order[i].block;
      s.at.layer = layer[s.at.block]++;
      s.ran[s.at.block] = s.at;
      NMB_TRY(run_block(&s));
      s.at.position++;
    }
  memory_advance(e, p);
  return give_logits(&s, logits, rows, columns);
}

/* ------------------------------------------------------------- all positions */
void
nmb__prog_all_positions(nmb_prog *p)
{
  const int64_t T = p->spec.batch * p->spec.fresh;
  nmb_section_begin(p, NMB_GRAPH);
  for (nmb_id id = 0; id < p->nop; id++) {
    if (nmb_op_erased(p, id) || p->op[id].code != NMB_OP_SELECT)
      continue;
    const nmb_block *b = &p->block[p->op[id].block];
    bool after = false;
    for (int i = 0; i < b->nop; i++) {
      const nmb_op *o = &p->op[b->op[i]];
      for (int j = 0; after && j < o->nout; j++) {
        const nmb_tensor *t = &p->tensor[o->out[j]];
        int64_t dim[NMB_MAXRANK];
        memcpy(dim, t->dim, sizeof dim);
        dim[0] = T;
        if (t->dim[0] == p->spec.batch)
          nmb_tensor_reshape(p, o->out[j], t->rank, dim);
      }
      after |= b->op[i] == id;
    }
    nmb_tensor_replace(p, p->op[id].out[0], p->op[id].in[0]);
    nmb_op_erase(p, id);
  }
  nmb_prog_compact(p);
}
