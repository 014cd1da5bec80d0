/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Verifier of the graph: SSA, arity, shapes, formats, attributes, routing, order.
 *
 * The shape rules are those at the head of ops.def.  Where a rule says [T,N] any
 * shape will do whose last dimensions multiply to N ("trailing" below).
 */
#include <inttypes.h>
#include <string.h>

#include "base/near.h"
#include "ir/attrs.h"
#include "ir/verify.h"

/* Elements of a tensor and the iteration space of an op stay below this, so that
 * bits, bytes and operation counts fit 63 bits. */
#define MOST_ELEMENTS (INT64_C(1) << 52)
#define MOST_SPACE (INT64_C(1) << 60)
#define MOST_STREAMS 4096

typedef struct ctx {
  nmb_run *run;
  const nmb_prog *p;
  nmb_id id;
  const nmb_op *o;
  const nmb_tensor *in[NMB_MAXIN], *out[NMB_MAXOUT];
} ctx;

/* found must equal expected; `what` says what was counted. */
static nmb_status
want(const ctx *c, const char *what, int64_t found, int64_t expected)
{
  if (found == expected)
    return NMB_OK;
  return nmb_fail(c->run, NMB_UNVERIFIED, c->o->loc,
                  "%s: %s: found %" PRId64 ", expected %" PRId64,
                  nmb__op_text(c->run, c->p, c->id), what, found, expected);
}

static nmb_status
want_range(const ctx *c, const char *what, int64_t found, int64_t lo, int64_t hi)
{
  if (found >= lo && found <= hi)
    return NMB_OK;
  return nmb_fail(c->run, NMB_UNVERIFIED, c->o->loc,
                  "%s: %s: found %" PRId64 ", expected %" PRId64 " to %" PRId64,
                  nmb__op_text(c->run, c->p, c->id), what, found, lo, hi);
}

static nmb_status
want_text(const ctx *c, const char *what, const char *found, const char *expected)
{
  return nmb_fail(c->run, NMB_UNVERIFIED, c->o->loc, "%s: %s: found %s, expected %s",
                  nmb__op_text(c->run, c->p, c->id), what, found, expected);
}

/* Rows of t when its last dimensions, multiplied, are one row of `width`;
 * -1 if they cannot be. */
static int64_t
rows_of(const nmb_tensor *t, int64_t width)
{
  int64_t tail = 1;
  int i = t->rank;
  while (i > 0 && tail < width)
    tail *= t->dim[--i];
  if (tail != width)
    return -1;
  int64_t rows = 1;
  while (i > 0)
    rows *= t->dim[--i];
  return rows;
}

/* t must be [rows, width]. */
static nmb_status
want_matrix(const ctx *c, const char *what, const nmb_tensor *t, int64_t rows,
            int64_t width)
{
  const int64_t found = rows_of(t, width);
  if (found == rows)
    return NMB_OK;
  if (found < 0)
    return nmb_fail(
        c->run, NMB_UNVERIFIED, c->o->loc,
        "%s: the last dimension of %s (%%%s) is %" PRId64 ", expected %" PRId64,
        nmb__op_text(c->run, c->p, c->id), what, t->name, t->dim[t->rank - 1], width);
  return nmb_fail(c->run, NMB_UNVERIFIED, c->o->loc,
                  "%s: %s (%%%s) has %" PRId64 " rows, expected %" PRId64,
                  nmb__op_text(c->run, c->p, c->id), what, t->name, found, rows);
}

static nmb_status
want_rank(const ctx *c, const char *what, const nmb_tensor *t, int rank)
{
  if (t->rank == rank)
    return NMB_OK;
  return nmb_fail(c->run, NMB_UNVERIFIED, c->o->loc,
                  "%s: %s (%%%s) has %d dimensions, expected %d",
                  nmb__op_text(c->run, c->p, c->id), what, t->name, t->rank, rank);
}

static nmb_status
want_same(const ctx *c, const char *what, const nmb_tensor *t, const nmb_tensor *like)
{
  if (t->rank == like->rank && !memcmp(t->dim, like->dim, sizeof t->dim))
    return NMB_OK;
  /* [T,N] may stand for [T,h,d] */
  const int64_t width = nmb_tensor_count(like) / like->dim[0];
  return want_matrix(c, what, t, like->dim[0], width);
}

static nmb_status
want_int32(const ctx *c, const char *what, const nmb_tensor *t)
{
  if (t->dtype == NMB_DT_I32)
    return NMB_OK;
  return want_text(c, what, nmb_dtype_get(t->dtype)->name, "int32");
}

static nmb_status
want_number(const ctx *c, const char *what, const nmb_tensor *t)
{
  if (t->dtype != NMB_DT_I32)
    return NMB_OK;
  return want_text(c, what, "int32", "a number format");
}

/* The attributes are those that attrs.def lists, of the kinds it says. */
static nmb_status
check_attrs(const ctx *c)
{
  int n;
  const nmb__attr_info *info = nmb__attrs_of(c->o->code, &n);
  const char **names = NMB_NEW(c->run, const char *, n);
  for (int i = 0; i < n; i++) {
    names[i] = info[i].key;
    const nmb_attr *a = nmb_op_attr(c->o, info[i].key);
    if (!a && info[i].required)
      return nmb_fail(c->run, NMB_UNVERIFIED, c->o->loc, "%s: attribute %s is missing",
                      nmb__op_text(c->run, c->p, c->id), info[i].key);
    const bool widened = a && info[i].kind == NMB_ATTR_REAL && a->kind == NMB_ATTR_INT;
    if (a && a->kind != info[i].kind && !widened)
      return nmb_fail(c->run, NMB_UNVERIFIED, c->o->loc,
                      "%s: attribute %s: found %s, expected %s",
                      nmb__op_text(c->run, c->p, c->id), a->key,
                      nmb__attr_kind_name(a->kind), nmb__attr_kind_name(info[i].kind));
  }
  for (int i = 0; i < c->o->nattr; i++) {
    int j = 0;
    while (j < n && strcmp(names[j], c->o->attr[i].key))
      j++;
    if (j == n)
      return nmb_fail(c->run, NMB_UNVERIFIED, c->o->loc, "%s: unknown attribute %s%s",
                      nmb__op_text(c->run, c->p, c->id), c->o->attr[i].key,
                      nmb__hint(c->run, c->o->attr[i].key, names, n));
  }
  return NMB_OK;
}

static nmb_status
want_int(const ctx *c, const char *key, int64_t lo, int64_t hi)
{
  return want_range(c, key, nmb_op_int(c->o, key, 0), lo, hi);
}

/* The routing table that the op names. */
static nmb_status
want_routing(const ctx *c, const nmb_routing **out)
{
  NMB_TRY(want_int(c, "routing", 0, c->p->nrouting - 1));
  *out = &c->p->routing[nmb_op_int(c->o, "routing", 0)];
  return NMB_OK;
}

/* -------------------------------------------------------------- shape rules */
static nmb_status
check_embed(const ctx *c)
{
  const nmb_tensor *table = c->in[1];
  NMB_TRY(want_int32(c, "ids", c->in[0]));
  NMB_TRY(want_rank(c, "the table", table, 2));
  NMB_TRY(want_int(c, "beyond", 0, table->dim[0] - 1));
  return want_matrix(c, "the output", c->out[0], nmb_tensor_count(c->in[0]),
                     table->dim[1]);
}

/* The symbol must be one of `names`. */
static nmb_status
want_choice_of(const ctx *c, const char *key, const char *const *names, int n)
{
  const char *s = nmb_op_sym(c->o, key, names[0]);
  for (int i = 0; i < n; i++)
    if (!strcmp(s, names[i]))
      return NMB_OK;
  return nmb_fail(c->run, NMB_UNVERIFIED, c->o->loc, "%s: unknown %s %s%s",
                  nmb__op_text(c->run, c->p, c->id), key, s,
                  nmb__hint(c->run, s, names, n));
}

static nmb_status
check_norm(const ctx *c)
{
  const nmb_tensor *x = c->in[0];
  static const char *const kinds[] = {"rms", "layer", "l2", "softmax", "sinkhorn",
                                      "cut", "like"};
  const char *kind = nmb_op_sym(c->o, "kind", "");
  NMB_TRY(want_choice_of(c, "kind", kinds, 7));
  if (!strcmp(kind, "like")) {
    NMB_TRY(want(c, "inputs of a norm by another value", c->o->nin, 2));
    NMB_TRY(want_same(c, "the other value", c->in[1], x));
    return want_same(c, "the output", c->out[0], x);
  }
  if (strcmp(kind, "rms") != 0 && strcmp(kind, "layer") != 0)
    NMB_TRY(want(c, "inputs of a norm without a weight", c->o->nin, 1));
  if (!strcmp(kind, "sinkhorn")) {
    const int64_t n = x->dim[x->rank - 1];
    int64_t side = 1;
    while (side * side < n && side < MOST_STREAMS)
      side++;
    NMB_TRY(want(c, "columns that make a square", n, side * side));
    NMB_TRY(want_int(c, "rounds", 1, INT16_MAX));
  }
  for (int i = 1; i < c->o->nin; i++)
    /* over the last dimensions that the weight covers: one head, or all of a row; or
     * over each of the parts of a row that are as long */
    if (x->dim[x->rank - 1] % nmb_tensor_count(c->in[i]))
      NMB_TRY(want_matrix(c, "the input", x, nmb_tensor_count(x) / nmb_tensor_count(c->in[i]),
                        nmb_tensor_count(c->in[i])));
  return want_same(c, "the output", c->out[0], x);
}

static nmb_status
check_linear(const ctx *c)
{
  const nmb_tensor *w = c->in[1];
  NMB_TRY(want_rank(c, "the weight", w, 2));
  const int64_t rows = nmb_tensor_count(c->in[0]) / w->dim[1];
  NMB_TRY(want_matrix(c, "the input", c->in[0], rows, w->dim[1]));
  if (c->o->nin > 2)
    NMB_TRY(want(c, "elements of the bias", nmb_tensor_count(c->in[2]), w->dim[0]));
  return want_matrix(c, "the output", c->out[0], rows, w->dim[0]);
}

static nmb_status
check_hlinear(const ctx *c)
{
  const nmb_tensor *x = c->in[0], *w = c->in[1], *y = c->out[0];
  NMB_TRY(want_rank(c, "the weight", w, 3));
  NMB_TRY(want_rank(c, "the input", x, 3));
  NMB_TRY(want_rank(c, "the output", y, 3));
  NMB_TRY(want(c, "heads of the input", x->dim[1], w->dim[0]));
  NMB_TRY(want(c, "columns of the input", x->dim[2], w->dim[2]));
  NMB_TRY(want(c, "rows of the output", y->dim[0], x->dim[0]));
  NMB_TRY(want(c, "heads of the output", y->dim[1], w->dim[0]));
  return want(c, "columns of the output", y->dim[2], w->dim[1]);
}

static nmb_status
check_glinear(const ctx *c)
{
  const nmb_routing *r;
  const nmb_tensor *w = c->in[1];
  NMB_TRY(want_routing(c, &r));
  const int64_t rows = r->ntoken * r->topk;
  NMB_TRY(want_rank(c, "the weight", w, 3));
  NMB_TRY(want(c, "experts of the weight", w->dim[0], r->experts));
  NMB_TRY(want_matrix(c, "the input", c->in[0], rows, w->dim[2]));
  if (c->o->nin > 2)
    NMB_TRY(want_matrix(c, "the bias", c->in[2], w->dim[0], w->dim[1]));
  return want_matrix(c, "the output", c->out[0], rows, w->dim[1]);
}

static nmb_status
check_rope(const ctx *c)
{
  const nmb_tensor *x = c->in[0];
  const int64_t d = x->dim[x->rank - 1], dims = nmb_op_int(c->o, "dims", 0);
  const char *pairs = nmb_op_sym(c->o, "pairs", "half");
  NMB_TRY(want_int(c, "dims", 0, d));
  NMB_TRY(want(c, "dims that make no pair", dims % 2, 0));
  NMB_TRY(want_int(c, "first", 0, d - dims));
  NMB_TRY(want_int(c, "live", 0, dims));
  if (strcmp(pairs, "half") && strcmp(pairs, "adjacent"))
    return want_text(c, "pairs", pairs, "half or adjacent");
  if (nmb_op_attr(c->o, "stretch"))
    NMB_TRY(want_int(c, "stretch_every", 1, INT64_MAX));
  if (c->o->nin > 2)
    NMB_TRY(want(c, "factors", nmb_tensor_count(c->in[2]), dims / 2));
  NMB_TRY(want_int32(c, "the positions", c->in[1]));
  NMB_TRY(want(c, "positions", nmb_tensor_count(c->in[1]), x->dim[0]));
  return want_same(c, "the output", c->out[0], x);
}

/* Do the dimensions of b fit the last ones of a, each the same or 1? */
static bool
broadcasts(const nmb_tensor *a, const nmb_tensor *b)
{
  const int off = a->rank - b->rank;
  for (int i = 0; i < b->rank; i++)
    if (off < 0 || (b->dim[i] != 1 && b->dim[i] != a->dim[off + i]))
      return false;
  return true;
}

static nmb_status
check_binary(const ctx *c)
{
  if (nmb_tensor_count(c->in[1]) != 1 && !broadcasts(c->in[0], c->in[1]))
    NMB_TRY(want_same(c, "the second input", c->in[1], c->in[0]));
  return want_same(c, "the output", c->out[0], c->in[0]);
}

static nmb_status
check_act(const ctx *c)
{
  return want_same(c, "the output", c->out[0], c->in[0]);
}

static nmb_status
check_glu(const ctx *c)
{
  NMB_TRY(want_same(c, "the second input", c->in[1], c->in[0]));
  return want_same(c, "the output", c->out[0], c->in[0]);
}

/* w[T,m*n] x[T,n*H] y[T,m*H] */
static nmb_status
check_mix(const ctx *c)
{
  const nmb_tensor *w = c->in[0], *x = c->in[1], *y = c->out[0];
  const int64_t T = y->dim[0], n = nmb_op_int(c->o, "streams", 0);
  NMB_TRY(want_int(c, "streams", 1, MOST_STREAMS));
  NMB_TRY(want(c, "rows of the weights", w->dim[0], T));
  NMB_TRY(want(c, "rows of the streams", x->dim[0], T));
  const int64_t each = nmb_tensor_count(w) / T, len = nmb_tensor_count(x) / T;
  NMB_TRY(want(c, "weights left over after an equal share for each stream", each % n, 0));
  NMB_TRY(want(c, "columns left over after an equal share for each stream", len % n, 0));
  return want_matrix(c, "the output", y, T, each / n * (len / n));
}

static nmb_status
check_dot(const ctx *c)
{
  const nmb_tensor *x = c->in[0], *y = c->out[0];
  const int64_t T = x->dim[0], len = nmb_tensor_count(x) / T, H = nmb_tensor_count(c->in[1]);
  NMB_TRY(want(c, "columns left over after a share of each stream", len % H, 0));
  return want_matrix(c, "the output", y, T, len / H);
}

static nmb_status
check_split(const ctx *c)
{
  const nmb_tensor *x = c->in[0];
  const int64_t last = x->dim[x->rank - 1];
  NMB_TRY(want_int(c, "count", 1, last));
  NMB_TRY(want_int(c, "first", 0, last - nmb_op_int(c->o, "count", 0)));
  return want_matrix(c, "the output", c->out[0], nmb_tensor_count(x) / last,
                     nmb_op_int(c->o, "count", 0));
}

static nmb_status
check_kvappend(const ctx *c)
{
  const nmb_tensor *cache = c->in[0], *fresh = c->in[1];
  if (cache->of)
    return want_text(c, "the cache", "one of another block", "one of this block");
  NMB_TRY(want_rank(c, "the cache", cache, 4));
  NMB_TRY(want_rank(c, "the output", c->out[0], 4));
  NMB_TRY(want_same(c, "the output", c->out[0], cache));
  if (cache->role != NMB_ROLE_KV && cache->role != NMB_ROLE_STATE)
    return want_text(c, "role of the cache",
                     cache->role == NMB_ROLE_WEIGHT ? "weight" : "act", "kv or state");
  NMB_TRY(want(c, "role of the output", c->out[0]->role, cache->role));
  NMB_TRY(want(c, "format of the output", c->out[0]->dtype, cache->dtype));
  NMB_TRY(want(c, "new rows left over after an equal share for each sequence",
               fresh->dim[0] % cache->dim[0], 0));
  NMB_TRY(want_range(c, "new rows of a sequence", fresh->dim[0] / cache->dim[0], 1,
                     cache->dim[1]));
  NMB_TRY(want_int(c, "at", 0, cache->dim[1] - fresh->dim[0] / cache->dim[0]));
  return want_matrix(c, "the new rows", fresh, fresh->dim[0],
                     cache->dim[2] * cache->dim[3]);
}

/* Output 1 must be the state of input `i` after the step. */
static nmb_status
want_state(const ctx *c, int i)
{
  const nmb_tensor *s = c->in[i], *y = c->out[1];
  if (s->role != NMB_ROLE_STATE)
    return want_text(c, "role of the state", "another", "state");
  NMB_TRY(want(c, "role of the new state", y->role, s->role));
  NMB_TRY(want(c, "format of the new state", y->dtype, s->dtype));
  return want_same(c, "the new state", y, s);
}

static nmb_status
check_conv(const ctx *c)
{
  const nmb_tensor *x = c->in[0], *s = c->in[1], *w = c->in[2];
  NMB_TRY(want_choice_of(c, "fn", (const char *const[]){"none", "silu"}, 2));
  NMB_TRY(want_rank(c, "the weight", w, 2));
  NMB_TRY(want_rank(c, "the state", s, 3));
  NMB_TRY(want_range(c, "taps", w->dim[1], 2, 1024));
  NMB_TRY(want(c, "channels of the state", s->dim[1], w->dim[0]));
  NMB_TRY(want(c, "inputs that the state keeps", s->dim[2], w->dim[1] - 1));
  NMB_TRY(want_matrix(c, "the input", x, x->dim[0], w->dim[0]));
  NMB_TRY(want(c, "rows left over after an equal share for each sequence",
               x->dim[0] % s->dim[0], 0));
  if (c->o->nin > 3)
    NMB_TRY(want(c, "elements of the bias", nmb_tensor_count(c->in[3]), w->dim[0]));
  NMB_TRY(want_matrix(c, "the output", c->out[0], x->dim[0], w->dim[0]));
  return want_state(c, 1);
}

/* [rows, heads] or [rows, heads, dk] */
static nmb_status
want_decay(const ctx *c, const char *what, const nmb_tensor *t, int64_t rows)
{
  const nmb_tensor *s = c->in[3];
  const int64_t n = nmb_tensor_count(t);
  return n == rows * s->dim[1] ? NMB_OK : want(c, what, n, rows * s->dim[1] * s->dim[3]);
}

static nmb_status
check_scan(const ctx *c)
{
  const nmb_tensor *q = c->in[0], *v = c->in[2], *s = c->in[3];
  const int64_t T = q->dim[0];
  const bool fixed = !strcmp(nmb_op_sym(c->o, "decay", ""), "log");
  NMB_TRY(want_choice_of(c, "decay", (const char *const[]){"log", "a", "alog"}, 3));
  NMB_TRY(want_int(c, "delta", 0, 2));
  const int64_t delta = nmb_op_int(c->o, "delta", 0);
  NMB_TRY(want_int(c, "before", 0, 1));
  const bool whole = delta == 2 || nmb_op_int(c->o, "before", 0); /* token by token */
  NMB_TRY(want_int(c, "chunk", 0, whole ? 0 : 65536));
  NMB_TRY(want_rank(c, "the state", s, 4));
  for (int i = 0; i < 2; i++) {
    const nmb_tensor *x = c->in[i];
    NMB_TRY(want_rank(c, i ? "k" : "q", x, 3));
    NMB_TRY(want(c, "rows of k", x->dim[0], T));
    NMB_TRY(want_range(c, "heads of q or k", x->dim[1], 1, s->dim[1]));
    NMB_TRY(want(c, "components of q or k", x->dim[2], s->dim[3]));
  }
  NMB_TRY(want(c, "rows left over after an equal share for each sequence",
               T % s->dim[0], 0));
  NMB_TRY(want_matrix(c, "v", v, T, s->dim[1] * s->dim[2]));
  NMB_TRY(want_decay(c, "elements of a", c->in[4], 1));
  const int beta = fixed ? 5 : 6;
  NMB_TRY(want_range(c, "inputs", c->o->nin, delta == 2 ? beta + 2 : beta,
                     delta == 2 ? beta + 2 : beta + 1));
  if (!fixed)
    NMB_TRY(want_decay(c, "elements of dt", c->in[5], T));
  if (delta == 2)
    for (int i = beta; i < beta + 2; i++)
      NMB_TRY(want_matrix(c, i > beta ? "drop" : "read", c->in[i], T,
                          s->dim[1] * s->dim[3]));
  else if (c->o->nin > beta)
    NMB_TRY(want_matrix(c, "beta", c->in[beta], T, s->dim[1]));
  NMB_TRY(want_matrix(c, "the output", c->out[0], T, s->dim[1] * s->dim[2]));
  return want_state(c, 3);
}

static nmb_status
check_wkv(const ctx *c)
{
  const nmb_tensor *k = c->in[0], *s = c->in[2];
  NMB_TRY(want_rank(c, "the state", s, 3));
  NMB_TRY(want(c, "numbers of a channel of the state", s->dim[2], 3));
  NMB_TRY(want_matrix(c, "k", k, k->dim[0], s->dim[1]));
  NMB_TRY(want_matrix(c, "v", c->in[1], k->dim[0], s->dim[1]));
  NMB_TRY(want(c, "rows left over after an equal share for each sequence",
               k->dim[0] % s->dim[0], 0));
  for (int i = 3; i < 5; i++)
    NMB_TRY(want(c, i > 3 ? "elements of u" : "elements of w", nmb_tensor_count(c->in[i]),
                 s->dim[1]));
  NMB_TRY(want_matrix(c, "the output", c->out[0], k->dim[0], s->dim[1]));
  return want_state(c, 2);
}

static nmb_status
check_concat(const ctx *c)
{
  const nmb_tensor *a = c->in[0], *b = c->in[1], *y = c->out[0];
  NMB_TRY(want(c, "rows of b", b->dim[0], a->dim[0]));
  if (y->rank == 3) { /* scores */
    NMB_TRY(want_rank(c, "a", a, 3));
    NMB_TRY(want_rank(c, "b", b, 3));
    NMB_TRY(want(c, "rows of a unit of b", b->dim[1], a->dim[1]));
    NMB_TRY(want(c, "units of the output", y->dim[0], a->dim[0]));
    NMB_TRY(want(c, "rows of a unit of the output", y->dim[1], a->dim[1]));
    return want(c, "columns of the output", y->dim[2], a->dim[2] + b->dim[2]);
  }
  NMB_TRY(want_rank(c, "the output", y, 2));
  return want_matrix(c, "the output", y, a->dim[0],
                     (nmb_tensor_count(a) + nmb_tensor_count(b)) / a->dim[0]);
}

/* Sequences, positions and KV heads of `cache`; nh heads of T rows on the query
 * side; the score tensor must be [u,g,S]. */
static nmb_status
want_scores(const ctx *c, const char *what, const nmb_tensor *score,
            const nmb_tensor *cache, int64_t T, int64_t nh)
{
  const int64_t B = cache->dim[0], nk = cache->dim[2];
  NMB_TRY(want_rank(c, what, score, 3));
  NMB_TRY(want(c, "rows left over after an equal share for each sequence", T % B, 0));
  NMB_TRY(
      want(c, "query heads left over after an equal share for each KV head", nh % nk, 0));
  NMB_TRY(want(c, "units of the scores", score->dim[0], B * nk));
  NMB_TRY(want(c, "rows of a unit of the scores", score->dim[1], T / B * (nh / nk)));
  return want(c, "positions of the scores", score->dim[2], cache->dim[1]);
}

static nmb_status
check_qk(const ctx *c)
{
  const nmb_tensor *q = c->in[0], *k = c->in[1];
  NMB_TRY(want_rank(c, "q", q, 3));
  NMB_TRY(want_rank(c, "the key cache", k, 4));
  NMB_TRY(want(c, "components of a key", k->dim[3], q->dim[2]));
  NMB_TRY(want_scores(c, "the output", c->out[0], k, q->dim[0], q->dim[1]));
  NMB_TRY(want_int(c, "new", q->dim[0] / k->dim[0], q->dim[0] / k->dim[0]));
  if (c->o->nin > 2 && c->in[2]->rank == 2) /* of all heads */
    NMB_TRY(want_matrix(c, "the bias", c->in[2], q->dim[0], k->dim[1]));
  else if (c->o->nin > 2 && c->in[2]->rank == 4) {
    const int64_t n = c->in[2]->dim[2];
    NMB_TRY(want(c, "KV heads left over after an equal share for each head of the bias",
                 k->dim[2] % n, 0));
    NMB_TRY(want_matrix(c, "the bias", c->in[2], q->dim[0], n * k->dim[1]));
    NMB_TRY(want(c, "positions of the bias", c->in[2]->dim[3], k->dim[1]));
  } else if (c->o->nin > 2) { /* the same scores, maybe with the heads in other units: (u, g) is
                          (B, heads, new) */
    NMB_TRY(want(c, "elements of the bias", nmb_tensor_count(c->in[2]),
                 nmb_tensor_count(c->out[0])));
    NMB_TRY(
        want(c, "positions of the bias", c->in[2]->dim[c->in[2]->rank - 1], k->dim[1]));
  }
  return NMB_OK;
}

static nmb_status
check_pick(const ctx *c)
{
  const nmb_tensor *s = c->in[0], *w = c->in[1], *y = c->out[0];
  const int64_t fresh = nmb_op_int(c->o, "new", 0), S = y->dim[y->rank - 1];
  NMB_TRY(want_rank(c, "the scores", s, 3));
  NMB_TRY(want_rank(c, "the output", y, w ? 2 : 4));
  NMB_TRY(want_int(c, "topk", 1, INT32_MAX));
  NMB_TRY(want_int(c, "new", 1, s->dim[1]));
  NMB_TRY(want_int(c, "block", 0, INT32_MAX));
  NMB_TRY(want_int(c, "local", 0, INT32_MAX));
  NMB_TRY(want_int(c, "init", 0, INT32_MAX));
  NMB_TRY(want(c, "positions of the output", S, s->dim[2]));
  if (!w)
    return want(c, "rows of the output", nmb_tensor_count(y) / S, s->dim[0] * s->dim[1]);
  NMB_TRY(want_rank(c, "the weights of heads", w, 2));
  NMB_TRY(want(c, "rows of the weights of heads", w->dim[0], y->dim[0]));
  NMB_TRY(want(c, "new rows of all sequences", s->dim[0] * fresh, y->dim[0]));
  return want(c, "rows of a sequence's scores", s->dim[1], fresh * w->dim[1]);
}

static nmb_status
check_pool(const ctx *c)
{
  const nmb_tensor *kv = c->in[0], *bias = c->in[2], *y = c->out[0];
  const nmb_step_spec *s = &c->p->spec;
  NMB_TRY(want_rank(c, "the values", kv, 4));
  NMB_TRY(want_rank(c, "the bias", bias, 2));
  NMB_TRY(want_rank(c, "the output", y, 3));
  const int64_t every = bias->dim[0], N = bias->dim[1], d = y->dim[2];
  const int64_t before = s->context / every, after = (s->context + s->fresh) / every;
  const int64_t first = s->context + s->fresh - kv->dim[1];
  NMB_TRY(want_same(c, "the gates", c->in[1], kv));
  NMB_TRY(want(c, "columns of the values", kv->dim[2] * kv->dim[3], N));
  NMB_TRY(want(c, "columns of the output in halves", N == d ? 2 * d : N, 2 * d));
  NMB_TRY(want(c, "heads of the output", y->dim[1], 1));
  NMB_TRY(want(c, "rows of the output", y->dim[0], kv->dim[0] * (after - before)));
  const int64_t from = (N > d && before > 0 ? before - 1 : before) * every;
  return want_range(c, "the first position that is there", first, 0, from);
}

static nmb_status
check_softmax(const ctx *c)
{
  const nmb_tensor *s = c->in[0];
  NMB_TRY(want_rank(c, "the scores", s, 3));
  NMB_TRY(want_int(c, "every", 0, INT32_MAX));
  NMB_TRY(want_int(c, "pooled", 0, nmb_op_int(c->o, "every", 0) ? s->dim[2] - 1 : 0));
  NMB_TRY(want_int(c, "new", 1, s->dim[1]));
  if (c->o->nin > 1)
    NMB_TRY(want(c, "rows left over after an equal share for each head with a sink",
                 s->dim[0] * s->dim[1] %
                     (nmb_tensor_count(c->in[1]) * nmb_op_int(c->o, "new", 1)),
                 0));
  return want_same(c, "the output", c->out[0], s);
}

static nmb_status
check_pv(const ctx *c)
{
  const nmb_tensor *v = c->in[1], *y = c->out[0];
  NMB_TRY(want_rank(c, "the value cache", v, 4));
  NMB_TRY(want_rank(c, "the output", y, 3));
  NMB_TRY(want_scores(c, "p", c->in[0], v, y->dim[0], y->dim[1]));
  return want(c, "components of the output", y->dim[2], v->dim[3]);
}

static nmb_status
check_attention(const ctx *c)
{
  const nmb_tensor *q = c->in[0], *k = c->in[1], *v = c->in[2], *y = c->out[0];
  NMB_TRY(want_rank(c, "q", q, 3));
  NMB_TRY(want_rank(c, "the key cache", k, 4));
  NMB_TRY(want_rank(c, "the value cache", v, 4));
  NMB_TRY(want(c, "components of a key", k->dim[3], q->dim[2]));
  for (int i = 0; i < 3; i++)
    NMB_TRY(want(c, "a dimension of the value cache", v->dim[i], k->dim[i]));
  NMB_TRY(want(c, "rows left over after an equal share for each sequence",
               q->dim[0] % k->dim[0], 0));
  NMB_TRY(want(c, "query heads left over after an equal share for each KV head",
               q->dim[1] % k->dim[2], 0));
  if (c->o->nin > 3)
    NMB_TRY(want(c, "sinks", nmb_tensor_count(c->in[3]), q->dim[1]));
  return want_matrix(c, "the output", y, q->dim[0], q->dim[1] * v->dim[3]);
}

/* w and idx of a routing decision must be [T,k]. */
static nmb_status
want_choice(const ctx *c, const nmb_routing *r, const nmb_tensor *w,
            const nmb_tensor *idx)
{
  if (w)
    NMB_TRY(want_matrix(c, "the weights of the choice", w, r->ntoken, r->topk));
  NMB_TRY(want_int32(c, "the choice", idx));
  return want_matrix(c, "the choice", idx, r->ntoken, r->topk);
}

static nmb_status
check_topk(const ctx *c)
{
  const nmb_routing *r;
  NMB_TRY(want_routing(c, &r));
  NMB_TRY(want_matrix(c, "the logits", c->in[0], r->ntoken, r->experts));
  if (nmb_op_int(c->o, "table", 0)) {
    NMB_TRY(want(c, "inputs beside a table", c->o->nin, 3));
    NMB_TRY(want_int32(c, "the ids", c->in[1]));
    NMB_TRY(want_int32(c, "the table", c->in[2]));
    NMB_TRY(want(c, "ids", nmb_tensor_count(c->in[1]), r->ntoken));
    NMB_TRY(want_rank(c, "the table", c->in[2], 2));
    NMB_TRY(want(c, "experts of a row of the table", c->in[2]->dim[1], r->topk));
    return want_choice(c, r, c->out[0], c->out[1]);
  }
  NMB_TRY(want_int(c, "factors", 0, c->o->nin > 1));
  NMB_TRY(want_range(c, "inputs", c->o->nin, 1, 2 + nmb_op_int(c->o, "factors", 0)));
  for (int i = 1; i < c->o->nin; i++)
    NMB_TRY(want(c, "elements of a bias or of factors", nmb_tensor_count(c->in[i]),
                 r->experts));
  return want_choice(c, r, c->out[0], c->out[1]);
}

static nmb_status
check_moe(const ctx *c)
{
  const nmb_routing *r;
  NMB_TRY(want_routing(c, &r));
  NMB_TRY(want_choice(c, r, c->in[1], c->in[2]));
  NMB_TRY(want_choice_of(c, "weigh", (const char *const[]){"output", "input"}, 2));
  NMB_TRY(want(c, "rows of the input", c->in[0]->dim[0], r->ntoken));
  for (int i = 3; i < c->o->nin; i++)
    NMB_TRY(want(c, "experts of a weight", c->in[i]->dim[0], r->experts));
  return want_same(c, "the output", c->out[0], c->in[0]);
}

static nmb_status
check_permute(const ctx *c)
{
  const nmb_routing *r;
  const nmb_tensor *x = c->in[0];
  NMB_TRY(want_routing(c, &r));
  NMB_TRY(want_choice(c, r, c->o->nin > 2 ? c->in[2] : NULL, c->in[1]));
  NMB_TRY(want(c, "rows of the input", x->dim[0], r->ntoken));
  return want_matrix(c, "the output", c->out[0], r->ntoken * r->topk,
                     nmb_tensor_count(x) / x->dim[0]);
}

static nmb_status
check_combine(const ctx *c)
{
  const nmb_routing *r;
  const nmb_tensor *y = c->in[0];
  NMB_TRY(want_routing(c, &r));
  NMB_TRY(want_rank(c, "the choice, or its weights,", c->in[1], 2));
  NMB_TRY(want_choice(c, r, c->o->nin > 2 ? c->in[1] : NULL, c->in[c->o->nin - 1]));
  NMB_TRY(want(c, "rows of the input", y->dim[0], r->ntoken * r->topk));
  return want_matrix(c, "the output", c->out[0], r->ntoken,
                     nmb_tensor_count(y) / y->dim[0]);
}

static nmb_status
check_take(const ctx *c)
{
  const nmb_tensor *s = c->in[0], *x = c->in[1], *y = c->out[0];
  NMB_TRY(want_rank(c, "the cache", x, 4));
  NMB_TRY(want_rank(c, "the output", y, 4));
  NMB_TRY(want(c, "sequences of the output", y->dim[0], x->dim[0]));
  NMB_TRY(want_range(c, "keys of the output", y->dim[1], 1, x->dim[1]));
  NMB_TRY(want(c, "heads of the output", y->dim[2], x->dim[2]));
  NMB_TRY(want(c, "components of the output", y->dim[3], x->dim[3]));
  if (s->rank == 2)
    return want_matrix(c, "the choice", s, x->dim[0], x->dim[1]);
  NMB_TRY(want_rank(c, "the choice", s, 4));
  NMB_TRY(want(c, "heads of the cache left over after an equal share for each choice",
               x->dim[2] % s->dim[2], 0));
  NMB_TRY(want(c, "new tokens of a sequence", s->dim[1], 1));
  return want_matrix(c, "the choice", s, x->dim[0] * s->dim[2], x->dim[1]);
}

static nmb_status
check_select(const ctx *c)
{
  const nmb_tensor *x = c->in[0], *y = c->out[0];
  NMB_TRY(want(c, "rows left over after an equal share for each sequence",
               x->dim[0] % y->dim[0], 0));
  NMB_TRY(want(c, "rows of the output", y->dim[0], c->p->spec.batch));
  return want_matrix(c, "the output", y, y->dim[0], nmb_tensor_count(x) / x->dim[0]);
}

static nmb_status (*const check_op[NMB_NOP])(const ctx *) = {
    [NMB_OP_EMBED] = check_embed,     [NMB_OP_NORM] = check_norm,
    [NMB_OP_LINEAR] = check_linear,   [NMB_OP_HLINEAR] = check_hlinear,
    [NMB_OP_GLINEAR] = check_glinear, [NMB_OP_ROPE] = check_rope,
    [NMB_OP_ADD] = check_binary,      [NMB_OP_MUL] = check_binary,
    [NMB_OP_ACT] = check_act,         [NMB_OP_GLU] = check_glu,
    [NMB_OP_SPLIT] = check_split,     [NMB_OP_KVAPPEND] = check_kvappend,
    [NMB_OP_QK] = check_qk,           [NMB_OP_SOFTMAX] = check_softmax,
    [NMB_OP_PV] = check_pv,           [NMB_OP_ATTENTION] = check_attention,
    [NMB_OP_TOPK] = check_topk,       [NMB_OP_MOE] = check_moe,
    [NMB_OP_PERMUTE] = check_permute, [NMB_OP_COMBINE] = check_combine,
    [NMB_OP_SELECT] = check_select,   [NMB_OP_CONV] = check_conv,
    [NMB_OP_PICK] = check_pick,       [NMB_OP_TAKE] = check_take,
    [NMB_OP_SCAN] = check_scan,     [NMB_OP_WKV] = check_wkv,
    [NMB_OP_CONCAT] = check_concat,
    [NMB_OP_MIX] = check_mix,         [NMB_OP_DOT] = check_dot,
    [NMB_OP_POOL] = check_pool,
};

/* ------------------------------------------------------------------ tensors */
static nmb_status
check_tensor(nmb_run *run, const nmb_prog *p, const nmb_tensor *t)
{
  if (t->block < 0 || t->block >= p->nblock)
    return nmb_fail(run, NMB_UNVERIFIED, t->loc, "%%%s is in block %d, but there are %d",
                    t->name, (int)t->block, p->nblock);
  const char *block = p->block[t->block].name;
  if (t->rank < 1 || t->rank > NMB_MAXRANK)
    return nmb_fail(run, NMB_UNVERIFIED, t->loc,
                    "block %s: %%%s has %d dimensions, expected 1 to %d", block, t->name,
                    t->rank, NMB_MAXRANK);
  int64_t count = 1;
  for (int i = 0; i < t->rank; i++) {
    if (t->dim[i] < 1 || t->dim[i] > MOST_ELEMENTS / count)
      return nmb_fail(run, NMB_UNVERIFIED, t->loc,
                      "block %s: dimension %d of %%%s is %" PRId64
                      ", expected 1 to %" PRId64,
                      block, i, t->name, t->dim[i], MOST_ELEMENTS / count);
    count *= t->dim[i];
  }
  const bool grouped = nmb_dtype_get(t->dtype)->group < 0;
  if (t->group < 0 || (t->group > 0 && !grouped))
    return nmb_fail(run, NMB_UNVERIFIED, t->loc,
                    "block %s: %%%s of format %s has a group of %d, expected %s", block,
                    t->name, nmb_dtype_get(t->dtype)->name, t->group,
                    grouped ? "0 or more" : "0");
  if (nmb_tensor_resident(t) && p->block[t->block].repeat > 0 &&
      nmb_tensor_bytes(t) > INT64_MAX / 8 / p->block[t->block].repeat)
    return nmb_fail(run, NMB_UNVERIFIED, t->loc,
                    "block %s: %%%s has %" PRId64 " bytes in each of %" PRId64
                    " layers, which is too much to count",
                    block, t->name, nmb_tensor_bytes(t), p->block[t->block].repeat);
  return NMB_OK;
}

/* A tensor whose storage is that of an earlier block, which runs once. */
static nmb_status
check_shared(nmb_run *run, const nmb_prog *p, nmb_id id)
{
  const nmb_tensor *t = &p->tensor[id];
  const char *block = p->block[t->block].name;
  if (t->of < 1 || t->of > p->ntensor)
    return nmb_fail(run, NMB_UNVERIFIED, t->loc,
                    "block %s: %%%s is said to be tensor %d, but there are %d", block,
                    t->name, (int)t->of - 1, p->ntensor);
  const nmb_tensor *o = &p->tensor[t->of - 1];
  const char *what = NULL;
  if (t->def != NMB_NONE || o->def != NMB_NONE || o->of)
    what = "that nothing makes and that has storage of its own";
  else if (t->role != o->role || (t->role != NMB_ROLE_KV && t->role != NMB_ROLE_WEIGHT))
    what = "of the same role, a cache or a weight";
  else if (o->block >= t->block || p->block[o->block].repeat != 1)
    what = "of an earlier block that runs once";
  else if (t->dtype != o->dtype || t->group != o->group || t->rank != o->rank ||
           memcmp(t->dim, o->dim, sizeof t->dim))
    what = "of the same format and dimensions";
  if (!what)
    return NMB_OK;
  return nmb_fail(run, NMB_UNVERIFIED, t->loc,
                  "block %s: %%%s is said to be %%%s of block %s, expected a tensor %s",
                  block, t->name, o->name, p->block[o->block].name, what);
}

static nmb_status
check_routing(nmb_run *run, const nmb_routing *r, int64_t *seen)
{
  if (r->topk < 1 || r->topk > r->experts || r->ntoken < 1)
    return nmb_fail(run, NMB_UNVERIFIED, NMB_NOLOC,
                    "routing %s: %" PRId64 " tokens choose %d of %d experts", r->name,
                    r->ntoken, r->topk, r->experts);
  for (int i = 0; i < r->experts; i++)
    seen[i] = -1;
  for (int64_t t = 0; t < r->ntoken; t++)
    for (int j = 0; j < r->topk; j++) {
      const int32_t e = r->expert[t * r->topk + j];
      if (e < 0 || e >= r->experts)
        return nmb_fail(run, NMB_UNVERIFIED, NMB_NOLOC,
                        "routing %s: token %" PRId64
                        " goes to expert %d, but there are %d",
                        r->name, t, (int)e, r->experts);
      if (seen[e] == t)
        return nmb_fail(run, NMB_UNVERIFIED, NMB_NOLOC,
                        "routing %s: token %" PRId64 " goes to expert %d twice", r->name,
                        t, (int)e);
      seen[e] = t;
    }
  int64_t *load = seen; /* used up: now count */
  memset(load, 0, (size_t)r->experts * sizeof *load);
  for (int64_t i = 0; i < r->ntoken * r->topk; i++)
    load[r->expert[i]]++;
  int reached = 0;
  for (int e = 0; e < r->experts; e++) {
    reached += load[e] > 0;
    if (load[e] != r->load[e])
      return nmb_fail(run, NMB_UNVERIFIED, NMB_NOLOC,
                      "routing %s: the load of expert %d is %" PRId64
                      ", but the table sends it %" PRId64 " rows",
                      r->name, e, r->load[e], load[e]);
  }
  if (reached != r->reached)
    return nmb_fail(
        run, NMB_UNVERIFIED, NMB_NOLOC,
        "routing %s: %d experts are said to be reached, but the table reaches %d",
        r->name, r->reached, reached);
  return NMB_OK;
}

/* ---------------------------------------------------------------------- SSA */
enum { UNSEEN, DECLARED, DEFINED };

static nmb_status
check_input(const ctx *c, nmb_id t, const char *state)
{
  const nmb_prog *p = c->p;
  if (t < 0 || t >= p->ntensor)
    return want_range(c, "tensor of an input", t, 0, p->ntensor - 1);
  const nmb_tensor *x = &p->tensor[t];
  if (x->block != c->o->block)
    return want_text(c, "block of an input", p->block[x->block].name,
                     p->block[c->o->block].name);
  if (state[t] == UNSEEN)
    return nmb_fail(c->run, NMB_UNVERIFIED, c->o->loc,
                    "%s: %%%s is used before it is defined",
                    nmb__op_text(c->run, p, c->id), x->name);
  return NMB_OK;
}

static nmb_status
check_output(const ctx *c, nmb_id t, char *state)
{
  const nmb_prog *p = c->p;
  const nmb_tensor *y = &p->tensor[t];
  if (state[t] != UNSEEN)
    return nmb_fail(c->run, NMB_UNVERIFIED, c->o->loc,
                    "%s: %%%s is defined a second time", nmb__op_text(c->run, p, c->id),
                    y->name);
  state[t] = DEFINED;
  NMB_TRY(want(c, "the op that is said to define the output", y->def, c->id));
  if (y->block != c->o->block)
    return want_text(c, "block of an output", p->block[y->block].name,
                     p->block[c->o->block].name);
  const int output = c->o->nout > 1 && c->o->out[1] == t;
  const bool keeps = c->o->code != NMB_OP_SPLIT && nmb_op_in_place(c->o, output) >= 0;
  if (y->role != NMB_ROLE_ACT && !keeps)
    return want_text(c, "role of the output", "input, weight, kv or state", "act");
  return NMB_OK;
}

static nmb_status
check_formats(const ctx *c)
{
  const nmb_opcode code = c->o->code;
  const bool chooses = code == NMB_OP_TOPK;
  NMB_TRY(want_number(c, "the output", c->out[0]));
  if (chooses)
    NMB_TRY(want_int32(c, "the choice", c->out[1]));
  for (int i = 0; i < c->o->nin; i++) {
    const bool index =
        (code == NMB_OP_EMBED && i == 0) || (code == NMB_OP_ROPE && i == 1) ||
        (code == NMB_OP_PERMUTE && i == 1) ||
        (code == NMB_OP_COMBINE && i == c->o->nin - 1) ||
        (code == NMB_OP_MOE && i == 2) ||
        (code == NMB_OP_TOPK && i > 0 && nmb_op_int(c->o, "table", 0));
    if (!index)
      NMB_TRY(want_number(c, "an input", c->in[i]));
  }
  return NMB_OK;
}

static nmb_status
check_space(const ctx *c)
{
  const nmb_space s = nmb_op_space(c->p, c->id);
  const int64_t d[] = {s.b, s.m, s.n, s.k};
  int64_t size = 1;
  for (int i = 0; i < 4; i++) {
    NMB_TRY(
        want_range(c, "an extent of the iteration space", d[i], 1, MOST_SPACE / size));
    size *= d[i];
  }
  return NMB_OK;
}

static nmb_status
check_one(nmb_run *run, const nmb_prog *p, nmb_id id, char *state)
{
  ctx c = {.run = run, .p = p, .id = id, .o = &p->op[id]};
  const nmb_op_info *info = nmb_op_get(c.o->code);
  if (c.o->nout != info->nout)
    return nmb_fail(
        run, NMB_UNVERIFIED, c.o->loc, "block %s: op %d (%s) has %d outputs, expected %d",
        p->block[c.o->block].name, (int)id, info->name, c.o->nout, info->nout);
  NMB_TRY(want_range(&c, "inputs", c.o->nin, info->nin_min, info->nin_max));
  for (int i = 0; i < c.o->nin; i++) {
    NMB_TRY(check_input(&c, c.o->in[i], state));
    c.in[i] = &p->tensor[c.o->in[i]];
  }
  for (int i = 0; i < c.o->nout; i++) {
    NMB_TRY(check_output(&c, c.o->out[i], state));
    c.out[i] = &p->tensor[c.o->out[i]];
  }
  NMB_TRY(check_attrs(&c));
  NMB_TRY(check_formats(&c));
  NMB_TRY(check_op[c.o->code](&c));
  return check_space(&c);
}

static nmb_status
check_block(nmb_run *run, const nmb_prog *p, nmb_id b, char *state, bool *placed)
{
  const nmb_block *blk = &p->block[b];
  for (int i = 0; i < blk->nop; i++) {
    const nmb_id id = blk->op[i];
    if (id < 0 || id >= p->nop || placed[id] || p->op[id].block != b)
      return nmb_fail(run, NMB_UNVERIFIED, NMB_NOLOC, "block %s lists op %d, which %s",
                      blk->name, (int)id,
                      id < 0 || id >= p->nop ? "does not exist"
                      : placed[id]           ? "stands in a block already"
                                             : "belongs to another block");
    placed[id] = true;
    NMB_TRY(check_one(run, p, id, state));
  }
  if (blk->in != NMB_NONE &&
      (p->tensor[blk->in].block != b || p->tensor[blk->in].def != NMB_NONE))
    return nmb_fail(
        run, NMB_UNVERIFIED, p->tensor[blk->in].loc,
        "block %s: the input %%%s is not a tensor of the block that no op makes",
        blk->name, p->tensor[blk->in].name);
  if (blk->out != NMB_NONE &&
      (p->tensor[blk->out].block != b || state[blk->out] == UNSEEN))
    return nmb_fail(run, NMB_UNVERIFIED, p->tensor[blk->out].loc,
                    "block %s: the output %%%s is not a tensor of the block", blk->name,
                    p->tensor[blk->out].name);
  return NMB_OK;
}

/* The hidden state that `from` leaves is what `to` takes. */
static nmb_status
check_chain(nmb_run *run, const nmb_prog *p, nmb_id from, nmb_id to)
{
  const nmb_block *a = &p->block[from], *b = &p->block[to];
  if (b->in == NMB_NONE || a->out == NMB_NONE)
    return nmb_fail(run, NMB_UNVERIFIED, NMB_NOLOC,
                    "block %s follows block %s, but has no %s", b->name, a->name,
                    b->in == NMB_NONE ? "input" : "output of that one to take");
  const nmb_tensor *x = &p->tensor[a->out], *y = &p->tensor[b->in];
  if (x->rank != y->rank || memcmp(x->dim, y->dim, sizeof x->dim) || x->dtype != y->dtype)
    return nmb_fail(run, NMB_UNVERIFIED, y->loc,
                    "block %s takes %%%s (%s, %" PRId64
                    " elements), but block %s leaves %%%s"
                    " (%s, %" PRId64 " elements)",
                    b->name, y->name, nmb_dtype_get(y->dtype)->name, nmb_tensor_count(y),
                    a->name, x->name, nmb_dtype_get(x->dtype)->name, nmb_tensor_count(x));
  return NMB_OK;
}

static nmb_status
check_order(nmb_run *run, const nmb_prog *p)
{
  int64_t *repeat = NMB_NEW(run, int64_t, p->nblock);
  int *first = NMB_NEW(run, int, p->nblock); /* segment that runs the block, + 1 */
  for (int i = 0; i < p->nsegment; i++) {
    const nmb_segment *s = &p->order[i];
    if (s->block < 0 || s->block >= p->nblock || s->count < 1)
      return nmb_fail(run, NMB_UNVERIFIED, NMB_NOLOC,
                      "segment %d of the order runs block %d %" PRId64 " times", i,
                      (int)s->block, s->count);
    repeat[s->block] += s->count;
    first[s->block] = first[s->block] ? first[s->block] : i + 1;
    if (s->count > 1)
      NMB_TRY(check_chain(run, p, s->block, s->block));
    if (i > 0)
      NMB_TRY(check_chain(run, p, p->order[i - 1].block, s->block));
  }
  for (int b = 0; b < p->nblock; b++)
    if (repeat[b] != p->block[b].repeat || repeat[b] == 0)
      return nmb_fail(run, NMB_UNVERIFIED, NMB_NOLOC,
                      "block %s has a repeat count of %" PRId64
                      ", but the order runs it %" PRId64 " times",
                      p->block[b].name, p->block[b].repeat, repeat[b]);
  for (int i = 0; i < p->ntensor; i++) {
    const nmb_tensor *t = &p->tensor[i];
    if (t->of && first[p->tensor[t->of - 1].block] >= first[t->block])
      return nmb_fail(run, NMB_UNVERIFIED, t->loc,
                      "block %s: %%%s is that of block %s, which does not run before",
                      p->block[t->block].name, t->name,
                      p->block[p->tensor[t->of - 1].block].name);
  }
  return NMB_OK;
}

/* An activation that no op makes must be the block's input. */
static nmb_status
check_sources(nmb_run *run, const nmb_prog *p, char *state)
{
  for (int i = 0; i < p->ntensor; i++) {
    const nmb_tensor *t = &p->tensor[i];
    if (t->def != NMB_NONE)
      continue;
    state[i] = DECLARED;
    if (t->role == NMB_ROLE_ACT && p->block[t->block].in != i)
      return nmb_fail(run, NMB_UNVERIFIED, t->loc,
                      "block %s: no op defines %%%s, and it is no input, weight or cache",
                      p->block[t->block].name, t->name);
  }
  return NMB_OK;
}

nmb_status
nmb__verify_graph(nmb_run *run, const nmb_prog *p)
{
  char *state = NMB_NEW(run, char, p->ntensor);
  bool *placed = NMB_NEW(run, bool, p->nop);
  for (int i = 0; i < p->ntensor; i++)
    NMB_TRY(check_tensor(run, p, &p->tensor[i]));
  for (int i = 0; i < p->ntensor; i++)
    if (p->tensor[i].of)
      NMB_TRY(check_shared(run, p, i));
  for (int i = 0; i < p->nrouting; i++)
    NMB_TRY(
        check_routing(run, &p->routing[i], NMB_NEW(run, int64_t, p->routing[i].experts)));
  NMB_TRY(check_sources(run, p, state));
  for (int b = 0; b < p->nblock; b++)
    NMB_TRY(check_block(run, p, b, state, placed));
  for (int i = 0; i < p->nop; i++)
    if (!placed[i] && !nmb_op_erased(p, i))
      return nmb_fail(run, NMB_UNVERIFIED, p->op[i].loc, "op %d (%s) stands in no block",
                      i, nmb_op_get(p->op[i].code)->name);
  return check_order(run, p);
}
