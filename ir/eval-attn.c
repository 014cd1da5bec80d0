/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Reference evaluation: qk, softmax, pv, and attention, which is the three in turn.
 *
 * A unit is a KV head of a sequence; its rows are the new tokens, and within a token
 * the query heads that share the KV head ("rep" of them). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/run.h"
#include "ir/eval-op.h"
#include "ir/formats.h"

typedef struct shape {
  int64_t B, S, nk, nh, rep, fresh; /* fresh: new tokens of a sequence */
} shape;

static shape
shape_of(const nmb_tensor *cache, int64_t T, int64_t nh)
{
  const int64_t B = cache->dim[0], nk = cache->dim[2];
  return (shape){B, cache->dim[1], nk, nh, nh / nk, T / B};
}

/* The rows [m0,m1) of a unit as runs that a product takes at once: `rows` of them from
 * `row`, the heads of one token, or one head of all tokens. */
typedef struct rows {
  int64_t row, rows;
  bool by_token;
} rows;

/* Run number i; false if there are no more. */
static bool
rows_run(const shape *a, int64_t m0, int64_t m1, int64_t i, rows *out)
{
  const bool whole = m0 % a->rep == 0 && m1 % a->rep == 0;
  if (!whole || (m1 - m0) / a->rep < a->rep) { /* a token at a time */
    const int64_t token = m0 / a->rep + i, lo = token * a->rep, hi = lo + a->rep;
    if (lo >= m1)
      return false;
    out->row = lo > m0 ? lo : m0;
    out->rows = (hi < m1 ? hi : m1) - out->row;
    out->by_token = true;
    return true;
  }
  *out = (rows){m0 + i, (m1 - m0) / a->rep, false};
  return i < a->rep;
}

/* Element of a [T,nh,d] array at which row `r` of unit `u` is. */
static int64_t
head_at(const shape *a, int64_t u, int64_t r, int64_t d)
{
  const int64_t token = u / a->nk * a->fresh + r / a->rep;
  return (token * a->nh + u % a->nk * a->rep + r % a->rep) * d;
}

/* From one row of a run to the next: in a [T,nh,d] array, in scores. */
static int64_t
head_step(const shape *a, const rows *r, int64_t d)
{
  return r->by_token ? d : a->nh * d;
}

static int64_t
score_step(const shape *a, const rows *r)
{
  return (r->by_token ? 1 : a->rep) * a->S;
}

/* ------------------------------------------------------------------- scores */
/* ALiBi slopes: 2^(-8h/n) for n a power of two, else those of the power below and then
 * every other one of twice that (Press et al., arXiv:2108.12409, and its code). */
double
nmb__alibi_slope(int64_t head, int64_t heads)
{
  int64_t n = 1;
  while (2 * n <= heads)
    n *= 2;
  if (head < n)
    return exp2(-8.0 * (double)(head + 1) / (double)n);
  return exp2(-8.0 * (double)(2 * (head - n) + 1) / (double)(2 * n));
}

/* A bias is [u',g',S] with the query heads spread over `biask` units a sequence, or
 * [T,n,S] if biask is -n. */
static int64_t
bias_row(const shape *a, int64_t biask, int64_t u, int64_t r)
{
  if (biask < 0)
    return (u / a->nk * a->fresh + r / a->rep) * -biask + u % a->nk * -biask / a->nk;
  const int64_t head = u % a->nk * a->rep + r % a->rep, rep = a->nh / biask;
  const int64_t unit = u / a->nk * biask + head / rep;
  return unit * a->fresh * rep + r / a->rep * rep + head % rep;
}

typedef struct scoring {
  double scale, cap;
  int64_t alibi, first; /* first: position of key 0 in its sequence */
  const float *bias; /* NULL: none */
  int64_t biask;
} scoring;

static scoring
scoring_of(const nmb__opctx *c, const float *bias, int64_t biask)
{
  const nmb_step_spec *w = &c->p->spec;
  return (scoring){nmb_op_real(c->op, "scale", 1),
                   nmb_op_real(c->op, "cap", 0),
                   nmb_op_int(c->op, "alibi", 0),
                   w->context + w->fresh - c->in[1]->dim[1],
                   bias,
                   biask};
}

/* Falcon's code makes slopes and their products with the key's position bfloat16. */
static double
alibi_rounded(double slope, int64_t position)
{
  const float m = nmb__bf16_value(nmb__bf16_code((float)slope));
  return (double)nmb__bf16_value(nmb__bf16_code(m * (float)position));
}

/* Row r of unit u: products become scores of keys [n0,n1); y is that of key 0. */
static void
score_row(const shape *a, const scoring *g, int64_t u, int64_t r, int64_t n0, int64_t n1,
          float *y)
{
  const float *bias = g->bias ? g->bias + bias_row(a, g->biask, u, r) * a->S : NULL;
  const int64_t at = a->S - a->fresh + r / a->rep; /* the token's own key */
  const double slope =
      g->alibi ? nmb__alibi_slope(u % a->nk * a->rep + r % a->rep, a->nh) : 0;
  for (int64_t s = n0; s < n1; s++) {
    double x = g->scale * (double)y[s] + (bias ? (double)bias[s] : 0);
    x = g->cap > 0 ? g->cap * tanh(x / g->cap) : x;
    y[s] = (float)(g->alibi == 2 ? x + g->scale * alibi_rounded(slope, g->first + s)
                                 : x - slope * (double)(at - s));
  }
}

/* y: the scores of unit u, row by row, each of S. */
static void
scores_unit(const nmb__opctx *c, const shape *a, const scoring *g, int64_t d, const float *q, const float *k,
            int64_t u, const nmb_tile *t, float *y)
{
  const float *key = k + (u / a->nk * a->S * a->nk + u % a->nk) * d;
  rows r;
  for (int64_t i = 0; rows_run(a, t->m0, t->m1, i, &r); i++)
    nmb__product_on(c, r.rows, t->n1 - t->n0, d, q + head_at(a, u, r.row, d),
                 head_step(a, &r, d), key + t->n0 * a->nk * d, a->nk * d,
                 y + r.row * a->S + t->n0, score_step(a, &r));
  for (int64_t i = t->m0; i < t->m1; i++)
    score_row(a, g, u, i, t->n0, t->n1, y + i * a->S);
}

nmb_status
nmb__eval_qk(const nmb__opctx *c)
{
  const shape a = shape_of(c->in[1], c->in[0]->dim[0], c->in[0]->dim[1]);
  const nmb_tensor *bias = c->op->nin > 2 ? c->in[2] : NULL;
  const int64_t biask = !bias             ? 1
                        : bias->rank == 2 ? -1
                        : bias->rank == 4 ? -bias->dim[2]
                                          : bias->dim[0] / a.B;
  const scoring g = scoring_of(c, nmb__in(c, 2), biask);
  for (int64_t u = c->t.b0; u < c->t.b1; u++)
    scores_unit(c, &a, &g, c->s.k, nmb__in(c, 0), nmb__in(c, 1), u, &c->t,
                nmb__out(c) + u * c->s.m * a.S);
  return NMB_OK;
}

/* ------------------------------------------------------------------ softmax */
typedef struct mask {
  int64_t S, fresh, window, chunk, first; /* first: position of key 0 in its sequence */
  int64_t every; /* positions that a key stands for; 0: one */
  int64_t pooled; /* keys after the S that are such ones (softmax) */
  int64_t context;
} mask;

static mask
mask_of(const nmb__opctx *c, int64_t S)
{
  const nmb_step_spec *w = &c->p->spec;
  const int64_t every = nmb_op_int(c->op, "every", 0),
                pooled = nmb_op_int(c->op, "pooled", 0);
  const int64_t one = S - pooled;
  return (mask){one,
                nmb_op_int(c->op, "new", 1),
                nmb_op_int(c->op, "window", 0),
                nmb_op_int(c->op, "chunk", 0),
                every && !pooled ? 0 : w->context + w->fresh - one,
                every,
                pooled,
                w->context};
}

/* Keys of several positions that new token t sees: those that are whole. */
static int64_t
whole(const mask *k, int64_t t)
{
  return (k->context + t + 1) / k->every;
}

/* The keys [*lo,*hi) that new token t sees. */
static void
visible(const mask *k, int64_t t, int64_t *lo, int64_t *hi)
{
  if (k->every && !k->pooled) {
    *lo = 0;
    *hi = whole(k, t);
    return;
  }
  *hi = k->S - k->fresh + t + 1;
  *lo = k->window > 0 && *hi > k->window ? *hi - k->window : 0;
  if (k->chunk > 0) {
    const int64_t at = k->first + *hi - 1, from = at - at % k->chunk - k->first;
    *lo = from > *lo ? from : *lo;
  }
}

/* sink: NULL, or a further logit in the denominator.  x and y may be the same. */
static void
softmax_row(const mask *k, int64_t t, const float *sink, const float *x, float *y)
{
  int64_t lo, hi;
  visible(k, t, &lo, &hi);
  const int64_t end = k->S + k->pooled, more = k->pooled ? k->S + whole(k, t) : end;
  double top = sink ? (double)*sink : (double)x[lo], sum = 0;
#define SEEN(s) (((s) >= lo && (s) < hi) || ((s) >= k->S && (s) < more))
  for (int64_t s = lo; s < more; s++)
    if (SEEN(s) && ((double)x[s] > top || isnan(x[s]))) /* so that poison spreads */
      top = (double)x[s];
  for (int64_t s = lo; s < more; s++)
    sum += SEEN(s) ? exp((double)x[s] - top) : 0;
  if (sink)
    sum += exp((double)*sink - top);
  for (int64_t s = 0; s < end; s++)
    y[s] = SEEN(s) ? (float)(exp((double)x[s] - top) / sum) : 0;
#undef SEEN
}

/* Sinks are by query head; a unit has g / new heads, and a sequence all of them. */
static const float *
sink_of(const float *sink, int64_t heads, int64_t rep, int64_t u, int64_t r)
{
  return sink ? sink + u % (heads / rep) * rep + r % rep : NULL;
}

nmb_status
nmb__eval_softmax(const nmb__opctx *c)
{
  const int64_t S = c->s.n, g = c->s.m;
  const mask k = mask_of(c, S);
  const int64_t rep = g / k.fresh,
                heads = c->op->nin > 1 ? nmb_tensor_count(c->in[1]) : rep;
  for (int64_t u = c->t.b0; u < c->t.b1; u++)
    for (int64_t r = c->t.m0; r < c->t.m1; r++) {
      const int64_t at = (u * g + r) * S;
      softmax_row(&k, r / rep, sink_of(nmb__in(c, 1), heads, rep, u, r),
                  nmb__in(c, 0) + at, nmb__out(c) + at);
    }
  return NMB_OK;
}

/* --------------------------------------------------------------- choice of keys */
typedef struct candidate {
  double score;
  int64_t key;
} candidate;

/* The best first, of equals the first. */
static int
by_score(const void *x, const void *y)
{
  const candidate *a = x, *b = y;
  if (a->score > b->score || a->score < b->score)
    return a->score > b->score ? -1 : 1;
  return a->key < b->key ? -1 : a->key > b->key;
}

typedef struct picker {
  mask k;
  int64_t topk, block, local, init, heads;
  candidate *all; /* room for S */
} picker;

/* s: [h][S]; w: [h], or NULL for the first alone. */
static double
key_score(const picker *p, const float *s, const float *w, int64_t i)
{
  double sum = 0;
  if (!w)
    return (double)s[i];
  for (int64_t j = 0; j < p->heads; j++) {
    const double x = (double)s[j * p->k.S + i];
    sum += (double)w[j] * (x > 0 || isnan(x) ? x : 0);
  }
  return sum;
}

static void
pick_row(const picker *p, int64_t t, const float *s, const float *w, float *y)
{
  int64_t lo, hi;
  bool poison = false;
  visible(&p->k, t, &lo, &hi);
  const int64_t b0 = (p->k.first + lo) / p->block, b1 = (p->k.first + hi - 1) / p->block;
  for (int64_t b = b0; b <= b1; b++)
    p->all[b - b0] = (candidate){-INFINITY, b};
  for (int64_t i = lo; i < hi; i++) {
    const double x = key_score(p, s, w, i);
    candidate *c = &p->all[(p->k.first + i) / p->block - b0];
    c->score = x > c->score ? x : c->score;
    poison |= isnan(x);
  }
  for (int64_t b = b0; b <= b1; b++)
    if (b > b1 - p->local || b < p->init)
      p->all[b - b0].score = INFINITY;
  qsort(p->all, (size_t)(b1 - b0 + 1), sizeof *p->all, by_score);
  for (int64_t i = 0; i < p->k.S; i++)
    y[i] = poison ? NAN : -INFINITY;
  for (int64_t j = 0; j <= b1 - b0 && j < p->topk && !poison; j++)
    for (int64_t i = p->all[j].key * p->block - p->k.first, n = i + p->block; i < n; i++)
      if (i >= lo && i < hi)
        y[i] = 0;
}

nmb_status
nmb__eval_pick(const nmb__opctx *c)
{
  const nmb_op *o = c->op;
  const int64_t S = c->in[0]->dim[2], block = nmb_op_int(o, "block", 1);
  const float *w = nmb__in(c, 1);
  const int64_t apart = w ? 1 : c->out[0]->dim[2]; /* rows of a token */
  picker p = {mask_of(c, S),
              nmb_op_int(o, "topk", 1),
              block > 0 ? block : 1,
              nmb_op_int(o, "local", 0),
              nmb_op_int(o, "init", 0),
              w ? c->in[1]->dim[1] : 1,
              nmb__xrealloc(NULL, (size_t)S, sizeof *p.all)};
  for (int64_t r = c->t.m0; r < c->t.m1; r++)
    pick_row(&p, r / apart % p.k.fresh, nmb__in(c, 0) + r * p.heads * S,
             w ? w + r * p.heads : NULL, nmb__out(c) + r * S);
  free(p.all);
  return NMB_OK;
}

/* ------------------------------------------------------- rows of many positions */
/* One component of row j of sequence b: softmax over its places of gate + bias, by
 * values.  Columns [0, d) of the positions before take part if there are 2d. */
static float
pool_one(const nmb__opctx *c, int64_t b, int64_t j, int64_t e)
{
  const nmb_tensor *kv = c->in[0], *bias = c->in[2];
  const int64_t every = bias->dim[0], N = bias->dim[1], d = c->out[0]->dim[2];
  const int64_t S = kv->dim[1], first = c->p->spec.context + c->p->spec.fresh - S;
  const int64_t lo = N > d && j > 0 ? (j - 1) * every : j * every;
  double top = -INFINITY, sum = 0, y = 0;
  for (int pass = 0; pass < 2; pass++)
    for (int64_t s = lo; s < (j + 1) * every; s++) {
      const int64_t column = s >= j * every ? N - d + e : e;
      const int64_t at = (b * S + s - first) * N + column;
      const double g = (double)nmb__in(c, 1)[at] +
                       (double)nmb__in(c, 2)[s % every * N + column];
      if (pass == 0) {
        top = g > top || isnan(g) ? g : top;
        continue;
      }
      sum += exp(g - top);
      y += exp(g - top) * (double)nmb__in(c, 0)[at];
    }
  return (float)(y / sum);
}

nmb_status
nmb__eval_pool(const nmb__opctx *c)
{
  const int64_t every = c->in[2]->dim[0], before = c->p->spec.context / every;
  const int64_t each = c->s.m / c->in[0]->dim[0];
  for (int64_t r = c->t.m0; r < c->t.m1; r++)
    for (int64_t e = c->t.n0; e < c->t.n1; e++)
      nmb__out(c)[r * c->s.n + e] = pool_one(c, r / each, before + r % each, e);
  return NMB_OK;
}

/* ----------------------------------------------------------------- chosen keys */
int64_t
nmb__chosen(const float *row, int64_t S, int64_t K, int64_t *key)
{
  int64_t found = 0;
  for (int64_t s = 0; s < S; s++)
    if (!isinf(row[s])) {
      if (found < K)
        key[found] = s;
      found++;
    }
  return isnan(row[0]) ? K : found;
}

nmb_status
nmb__eval_take(const nmb__opctx *c)
{
  const nmb_tensor *x = c->in[1];
  const int64_t S = x->dim[1], h = x->dim[2], d = x->dim[3], K = c->out[0]->dim[1];
  const int64_t n = nmb_tensor_count(c->in[0]) / (x->dim[0] * S);
  int64_t *key = nmb__xrealloc(NULL, (size_t)K, sizeof *key), found = K;
  for (int64_t b = c->t.m0; b < c->t.m1; b++)
    for (int64_t j = 0; j < h && found == K; j++) {
      const float *row = nmb__in(c, 0) + (b * n + j * n / h) * S;
      found = nmb__chosen(row, S, K, key);
      for (int64_t k = 0; k < K && found == K; k++)
        for (int64_t i = 0; i < d; i++) {
          const int64_t at = (k * h + j) * d + i;
          if (at >= c->t.n0 && at < c->t.n1) /* poison stays poison */
            nmb__out(c)[b * c->s.n + at] =
                isnan(row[0]) ? NAN : nmb__in(c, 1)[((b * S + key[k]) * h + j) * d + i];
        }
    }
  free(key);
  if (found == K)
    return NMB_OK;
  return nmb_fail(c->run, NMB_BADINPUT, c->op->loc,
                  "take: found %lld chosen keys, expected %lld", (long long)found,
                  (long long)K);
}

/* ------------------------------------------------------------ sum of values */
/* p: the probabilities of unit u; y: [T,nh,dv] */
static void
sums_unit(const nmb__opctx *c, const shape *a, int64_t dv, const float *p, const float *v, int64_t u,
          const nmb_tile *t, float *y)
{
  const float *value = v + (u / a->nk * a->S * a->nk + u % a->nk) * dv + t->n0;
  rows r;
  for (int64_t i = 0; rows_run(a, t->m0, t->m1, i, &r); i++)
    nmb__product_plain_on(c, r.rows, t->n1 - t->n0, a->S, p + r.row * a->S, score_step(a, &r),
                       value, a->nk * dv, y + head_at(a, u, r.row, dv) + t->n0,
                       head_step(a, &r, dv));
}

nmb_status
nmb__eval_pv(const nmb__opctx *c)
{
  const shape a = shape_of(c->in[1], c->out[0]->dim[0], c->out[0]->dim[1]);
  for (int64_t u = c->t.b0; u < c->t.b1; u++)
    sums_unit(c, &a, c->s.n, nmb__in(c, 0) + u * c->s.m * a.S, nmb__in(c, 1), u, &c->t,
              nmb__out(c));
  return NMB_OK;
}

nmb_status
nmb__eval_attention(const nmb__opctx *c)
{
  const shape a = shape_of(c->in[1], c->in[0]->dim[0], c->in[0]->dim[1]);
  const int64_t d = c->in[1]->dim[3], dv = c->in[2]->dim[3], g = a.fresh * a.rep;
  const scoring sc = scoring_of(c, NULL, 1);
  const mask k = mask_of(c, a.S);
  float *s = nmb__xrealloc(NULL, (size_t)(g * a.S), sizeof *s);
  for (int64_t u = 0; u < a.B * a.nk; u++) {
    scores_unit(c, &a, &sc, d, nmb__in(c, 0), nmb__in(c, 1), u,
                &(nmb_tile){0, 0, 0, g, 0, a.S, 0, d}, s);
    for (int64_t r = 0; r < g; r++)
      softmax_row(&k, r / a.rep, sink_of(nmb__in(c, 3), a.nh, a.rep, u, r), s + r * a.S,
                  s + r * a.S);
    sums_unit(c, &a, dv, s, nmb__in(c, 2), u, &(nmb_tile){0, 0, 0, g, 0, dv, 0, a.S},
              nmb__out(c));
  }
  free(s);
  return NMB_OK;
}
