/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Reference evaluation: expert choice, and the ops that move rows to experts. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/run.h"
#include "ir/eval-op.h"

/* ------------------------------------------------------------------- choice */
typedef struct chooser {
  const nmb_op *op;
  int experts, topk;
  double *z, *score, *order; /* [experts] logit, score, score that decides */
  bool *out;                 /* [experts] taken, or in a group that is left out */
} chooser;

static nmb_status
scores(const nmb__opctx *c, chooser *k)
{
  const char *kind = nmb_op_sym(c->op, "score", "");
  double top = k->z[0], sum = 0;
  for (int e = 1; e < k->experts; e++)
    top = k->z[e] > top ? k->z[e] : top;
  for (int e = 0; e < k->experts; e++)
    sum += exp(k->z[e] - top);
  for (int e = 0; e < k->experts; e++) {
    const double z = k->z[e];
    if (!strcmp(kind, "softmax"))
      k->score[e] = exp(z - top) / sum;
    else if (!strcmp(kind, "sigmoid"))
      k->score[e] = 1 / (1 + exp(-z));
    else if (!strcmp(kind, "sqrtsoftplus"))
      k->score[e] = sqrt(z > 30 ? z : log1p(exp(z)));
    else if (!strcmp(kind, "topk-softmax") || !strcmp(kind, "sparsemixer"))
      k->score[e] = z;
    else
      return nmb_fail(c->run, NMB_UNSUPPORTED, c->op->loc,
                      "topk: found score %s, expected softmax, sigmoid, sqrtsoftplus, "
                      "topk-softmax or sparsemixer",
                      kind);
    k->order[e] = k->score[e];
  }
  return NMB_OK;
}

static int
best(const chooser *k, const double *v, int from, int to)
{
  int at = NMB_NONE;
  for (int e = from; e < to; e++)
    if (!k->out[e] && (at == NMB_NONE || v[e] > v[at]))
      at = e;
  return at;
}

/* Groups of experts are as good as the sum of their `group_top` best; all but `keep`
 * of the groups are left out. */
static void
groups_drop(chooser *k)
{
  const int n = (int)nmb_op_int(k->op, "groups", 1),
            keep = (int)nmb_op_int(k->op, "keep", n);
  const int top = (int)nmb_op_int(k->op, "group_top", 1),
            each = k->experts / (n > 0 ? n : 1);
  if (n <= 1 || keep >= n)
    return;
  for (int drop = n - keep; drop > 0; drop--) { /* the worst; of equals the last */
    int worst = NMB_NONE;
    double least = 0;
    for (int g = 0; g < n; g++) {
      double sum = 0;
      int got = 0;
      bool gone = false;
      int taken[64];
      for (; got < top && got < each && got < 64; got++) {
        const int e = best(k, k->order, g * each, (g + 1) * each);
        if (e == NMB_NONE) {
          gone = got == 0;
          break;
        }
        sum += k->order[e];
        k->out[e] = true;
        taken[got] = e;
      }
      for (int i = 0; i < got; i++)
        k->out[taken[i]] = false;
      if (!gone && (worst == NMB_NONE || sum <= least)) {
        worst = g;
        least = sum;
      }
    }
    for (int e = worst * each; worst >= 0 && e < (worst + 1) * each; e++)
      k->out[e] = true;
  }
}

/* SparseMixer (Liu et al., arXiv:2409.12136) as Phi-3.5-MoE runs it: the weight of expert
 * e among those that are not yet taken and within the band of the best of these. */
static double
sparsemixer_weight(const chooser *k, const bool *taken, int e)
{
  const double band = nmb_op_real(k->op, "band", 0);
  double top = -INFINITY, sum = 0;
  for (int i = 0; i < k->experts; i++)
    if (!taken[i] && k->z[i] > top)
      top = k->z[i];
  for (int i = 0; i < k->experts; i++) {
    const double factor = fabs(k->z[i]) > top ? fabs(k->z[i]) : top;
    const bool in = i == e || !((top - k->z[i]) / factor > band);
    sum += !taken[i] && in ? exp(k->z[i] - top) : 0;
  }
  return exp(k->z[e] - top) / sum;
}

/* factor: NULL, or of each expert */
static void
weigh(const chooser *k, const float *factor, const int32_t *idx, float *w)
{
  const char *kind = nmb_op_sym(k->op, "score", "");
  double v[256], sum = 0;
  bool *taken = k->out;
  memset(taken, 0, (size_t)k->experts * sizeof *taken);
  double top = -INFINITY;
  for (int j = 0; j < k->topk; j++)
    top = k->z[idx[j]] > top ? k->z[idx[j]] : top;
  for (int j = 0; j < k->topk; j++) {
    const int e = idx[j];
    v[j] = !strcmp(kind, "topk-softmax")  ? exp(k->z[e] - top)
           : !strcmp(kind, "sparsemixer") ? sparsemixer_weight(k, taken, e)
                                          : k->score[e];
    taken[e] = true;
    sum += v[j];
  }
  const double scale = nmb_op_real(k->op, "scale", 1);
  const bool renorm =
      nmb_op_int(k->op, "renorm", 0) != 0 || !strcmp(kind, "topk-softmax");
  for (int j = 0; j < k->topk; j++)
    w[j] = (float)(scale * (factor ? (double)factor[idx[j]] : 1) *
                   (renorm ? v[j] / (sum > 0 ? sum : 1) : v[j]));
}

/* What the table has for the token, if it is an expert. */
static int
listed(const nmb__opctx *c, int64_t t, int j)
{
  const int64_t rows = c->in[2]->dim[0], n = c->in[2]->dim[1], id = nmb__ids(c, 1)[t];
  const float e = id >= 0 && id < rows ? nmb__in(c, 2)[id * n + j] : -1;
  return e >= 0 && e < (float)c->r->experts ? (int)e : NMB_NONE;
}

nmb_status
nmb__eval_topk(const nmb__opctx *c)
{
  const int E = (int)nmb_tensor_count(c->in[0]) / (int)c->r->ntoken, n = c->r->topk;
  chooser k = {.op = c->op, .experts = E, .topk = n};
  if (n > 256 || n > E)
    return nmb_fail(c->run, NMB_UNSUPPORTED, c->op->loc, "topk: found %d of %d experts",
                    n, E);
  k.z = NMB_NEW(c->run, double, 3 * E);
  k.score = k.z + E;
  k.order = k.z + 2 * E;
  k.out = NMB_NEW(c->run, bool, E);
  const bool factors = nmb_op_int(c->op, "factors", 0) != 0;
  const float *factor = factors ? nmb__in(c, c->op->nin - 1) : NULL;
  const bool table = nmb_op_int(c->op, "table", 0) != 0;
  const float *bias = c->op->nin - factors > 1 && !table ? nmb__in(c, 1) : NULL;
  for (int64_t t = c->t.m0; t < c->t.m1; t++) {
    int32_t *idx = (int32_t *)c->v->out[1] + t * n;
    for (int e = 0; e < E; e++)
      k.z[e] = (double)nmb__in(c, 0)[t * E + e];
    NMB_TRY(scores(c, &k));
    for (int e = 0; bias && e < E; e++)
      k.order[e] += (double)bias[e];
    memset(k.out, 0, (size_t)E * sizeof *k.out);
    groups_drop(&k);
    for (int j = 0; j < n; j++) {
      int e = c->v->by_table ? c->r->expert[t * n + j]
              : table        ? listed(c, t, j)
                             : best(&k, k.order, 0, E);
      for (int i = 0; e == NMB_NONE && i < E; i++) /* fewer are left than wanted */
        if (!k.out[i])
          e = i;
      idx[j] = e == NMB_NONE ? j : e;
      k.out[idx[j]] = true;
    }
    weigh(&k, factor, idx, nmb__out(c) + t * n);
  }
  return NMB_OK;
}

/* --------------------------------------------------------------------- rows */
void
nmb__expert_rows(const nmb_routing *r, int64_t *row)
{
  int64_t *next = calloc((size_t)r->experts, sizeof *next), at = 0;
  if (!next)
    nmb__panic("out of memory");
  for (int e = 0; e < r->experts; at += r->load[e++])
    next[e] = at;
  for (int64_t i = 0; i < r->ntoken * r->topk; i++)
    row[i] = next[r->expert[i]]++;
  free(next);
}

/* The choice that stands in memory must be the one by which rows were laid out. */
static nmb_status
same_choice(const nmb__opctx *c, const int32_t *idx, int64_t t0, int64_t t1)
{
  const int k = c->r->topk;
  for (int64_t i = t0 * k; i < t1 * k; i++)
    if (idx[i] != c->r->expert[i])
      return nmb_fail(c->run, NMB_BADINPUT, c->op->loc,
                      "%s: choice %d of token %d is expert %d, expected %d",
                      nmb_op_get(c->op->code)->name, (int)(i % k), (int)(i / k),
                      (int)idx[i], (int)c->r->expert[i]);
  return NMB_OK;
}

/* weight: NULL, or a factor */
static void
row_copy(const float *x, int64_t n, const float *weight, float *y)
{
  for (int64_t i = 0; i < n; i++)
    y[i] = weight ? *weight * x[i] : x[i];
}

nmb_status
nmb__eval_permute(const nmb__opctx *c)
{
  const float *w = nmb__in(c, 2);
  const int64_t n = c->r->ntoken * c->r->topk, H = c->s.n;
  int64_t *row = NMB_NEW(c->run, int64_t, n);
  NMB_TRY(same_choice(c, nmb__ids(c, 1), 0, c->r->ntoken));
  nmb__expert_rows(c->r, row);
  for (int64_t i = 0; i < n; i++)
    if (row[i] >= c->t.m0 && row[i] < c->t.m1)
      row_copy(nmb__in(c, 0) + i / c->r->topk * H + c->t.n0, c->t.n1 - c->t.n0,
               w ? w + i : NULL, nmb__out(c) + row[i] * H + c->t.n0);
  return NMB_OK;
}

/* y = scale * sum of w * row, over the slots of each token in order; w: NULL for 1. */
static void
weighted(const nmb__opctx *c, const float *rows, const int64_t *row, const float *w,
         const nmb_tile *t, float *y)
{
  const int k = c->r->topk;
  const int64_t H = c->s.n;
  const double scale = nmb_op_real(c->op, "scale", 1);
  for (int64_t i = t->m0; i < t->m1; i++)
    for (int64_t n = t->n0; n < t->n1; n++) {
      double sum = 0;
      for (int j = 0; j < k; j++)
        sum += (w ? (double)w[i * k + j] : 1) * (double)rows[row[i * k + j] * H + n];
      y[i * H + n] = (float)(scale * sum);
    }
}

nmb_status
nmb__eval_combine(const nmb__opctx *c)
{
  int64_t *row = NMB_NEW(c->run, int64_t, c->r->ntoken * c->r->topk);
  const bool weighs = c->op->nin > 2;
  NMB_TRY(same_choice(c, nmb__ids(c, 1 + weighs), c->t.m0, c->t.m1));
  nmb__expert_rows(c->r, row);
  weighted(c, nmb__in(c, 0), row, weighs ? nmb__in(c, 1) : NULL, &c->t, nmb__out(c));
  return NMB_OK;
}

/* ---------------------------------------------------------------- composite */
static void
bias_add(float *y, int64_t rows, int64_t n, const float *bias)
{
  for (int64_t i = 0; bias && i < rows * n; i++)
    y[i] += bias[i % n];
}

/* Inputs of the composite: x, w, idx, matrices, and the same again as biases. */
typedef struct matrices {
  int gate, up, down; /* gate 0: there is none */
  int biases;         /* from a matrix to its bias; 0: there are none */
} matrices;

static matrices
matrices_of(const nmb_op *o)
{
  const int n = o->nin - 3; /* 2 or 3, twice with biases */
  const bool gated = n == 3 || n == 6;
  return (matrices){gated ? 3 : 0, gated ? 4 : 3, gated ? 5 : 4, n > 3 ? n / 2 : 0};
}

/* y = x w^T + bias, matrix i of expert e on m rows. */
static void
expert_product(const nmb__opctx *c, int i, int biases, int64_t e, int64_t m,
               const float *x, float *y)
{
  const int64_t N = c->in[i]->dim[1], K = c->in[i]->dim[2];
  nmb__product(m, N, K, x, K, nmb__in(c, i) + e * N * K, K, y, N);
  bias_add(y, m, N, biases ? nmb__in(c, i + biases) + e * N : NULL);
}

/* The network of expert e on m rows. */
static nmb_status
expert(const nmb__opctx *c, int64_t e, int64_t m, const float *x, float *gate, float *up,
       float *y)
{
  const matrices w = matrices_of(c->op);
  if (w.gate)
    expert_product(c, w.gate, w.biases, e, m, x, gate);
  expert_product(c, w.up, w.biases, e, m, x, up);
  NMB_TRY(nmb__glu_row(c, w.gate ? gate : NULL, up, up, m * c->in[w.up]->dim[1]));
  expert_product(c, w.down, w.biases, e, m, up, y);
  return NMB_OK;
}

nmb_status
nmb__eval_moe(const nmb__opctx *c)
{
  const nmb_routing *r = c->r;
  const int64_t n = r->ntoken * r->topk, H = c->s.n;
  const int64_t I = c->in[matrices_of(c->op).up]->dim[1];
  const float *w = nmb__in(c, 1);
  const bool before = !strcmp(nmb_op_sym(c->op, "weigh", "output"), "input");
  NMB_TRY(same_choice(c, nmb__ids(c, 2), 0, r->ntoken));
  int64_t *row = NMB_NEW(c->run, int64_t, n);
  float *x = NMB_NEW(c->run, float, n *H), *y = NMB_NEW(c->run, float, n *H);
  float *gate = NMB_NEW(c->run, float, n *I), *up = NMB_NEW(c->run, float, n *I);
  nmb__expert_rows(r, row);
  for (int64_t i = 0; i < n; i++)
    row_copy(nmb__in(c, 0) + i / r->topk * H, H, before ? w + i : NULL, x + row[i] * H);
  int64_t at = 0;
  for (int64_t e = 0; e < r->experts; at += r->load[e++])
    if (r->load[e] > 0)
      NMB_TRY(expert(c, e, r->load[e], x + at * H, gate, up, y + at * H));
  weighted(c, y, row, before ? NULL : w, &c->t, nmb__out(c));
  return NMB_OK;
}
