/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Products as the engines of a machine add them up.
 *
 * Digital engines.  Terms are rounded to `multiply`.  `tree` of them are added in pairs, each
 * sum rounded to `tree-sums`, and go to a register, `sum-lanes` registers in turn, each sum
 * rounded to `accumulate`.  After `piece` terms the registers are added in pairs, the sum
 * leaves as `result` (where all of this is fp32, as float has it), and what has left is added in fp32 in `piece-order`.  int32 registers
 * add products of whole numbers (times a scale) without error; others in fp32.
 *
 * Arrays of cells (engine model cim; both signs of a number drive a pair of rows or columns,
 * so that a sum of small numbers is small: Xiao et al., arXiv:2109.01262).  Inputs are
 * whole numbers of input-bits with a scale for each vector, weights of weight-bits with a
 * scale for each column of an array, both amax over the largest number.  Magnitudes are cut
 * into slices of dac-bits and cell-bits.  The sum over up to active-rows rows of one slice
 * of each is what a converter sees: adc-bits with a sign over adc-range of the largest
 * sum that the rows in use can have, in steps of at least one; beyond it clips.  Its noise is
 * normal with adc-noise steps.  Slices, groups of rows and arrays add up without error. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/run.h"
#include "ir/eval-op.h"
#include "ir/formats.h"
#include "nmbench/nmb_hw.h"

static double
param(const nmb_engine *e, const char *name, double dflt)
{
  for (int i = 0; i < e->nparam; i++)
    if (!strcmp(e->param[i].name, name))
      return e->param[i].value;
  return dflt;
}

static bool
is_array(const nmb_engine *e)
{
  return e->model && !strcmp(e->model, "cim");
}

bool
nmb__arith_differs(const nmb_engine *e)
{
  const nmb_arith *a = &e->arith;
  return is_array(e) || a->multiply || a->accumulate || a->result || a->tree > 1 ||
         a->lanes > 1 || a->piece > 0;
}

/* -------------------------------------------------------------------- digital */
static float
as(nmb_sum f, double x)
{
  switch (f) {
  case NMB_SUM_FP16: return nmb__f16_value(nmb__f16_code((float)x));
  case NMB_SUM_BF16: return nmb__bf16_value(nmb__bf16_code((float)x));
  default: return (float)x;
  }
}

/* v[n] in pairs, in place. */
static float
pairs(nmb_sum f, float *v, int64_t n)
{
  for (; n > 1; n = (n + 1) / 2)
    for (int64_t i = 0; i < (n + 1) / 2; i++)
      v[i] = 2 * i + 1 < n ? as(f, (double)v[2 * i] + (double)v[2 * i + 1]) : v[2 * i];
  return n ? v[0] : 0;
}

typedef struct adder {
  const nmb_arith *a;
  nmb_sum accumulate;
  bool whole;        /* int32: sums without error */
  float *tree, *lane, *piece;
} adder;

/* One piece of a product: terms of k elements, `step` apart in w. */
static float
piece_sum(const adder *d, const float *x, const float *w, int64_t step, int64_t k)
{
  const nmb_arith *a = d->a;
  double exact = 0;
  int lane = 0;
  if (d->whole) {
    for (int64_t i = 0; i < k; i++)
      exact += (double)x[i] * (double)w[i * step];
    return as(a->result, exact);
  }
  memset(d->lane, 0, (size_t)a->lanes * sizeof *d->lane);
  for (int64_t i = 0; i < k; i += a->tree) {
    const int64_t n = k - i < a->tree ? k - i : a->tree;
    for (int64_t j = 0; j < n; j++)
      d->tree[j] = as(a->multiply, (double)x[i + j] * (double)w[(i + j) * step]);
    d->lane[lane] = as(d->accumulate,
                       (double)d->lane[lane] + (double)pairs(a->tree_sums, d->tree, n));
    lane = lane + 1 < a->lanes ? lane + 1 : 0;
  }
  return as(a->result, pairs(d->accumulate, d->lane, a->lanes));
}

static float
product(const adder *d, const float *x, const float *w, int64_t step, int64_t k)
{
  const int64_t each = d->a->piece > 0 ? d->a->piece : k > 0 ? k : 1, n = (k + each - 1) / each;
  for (int64_t i = 0; i < n; i++) {
    const int64_t to = d->a->order == NMB_ORDER_REVERSE ? n - 1 - i : i, at = i * each;
    d->piece[to] = piece_sum(d, x + at, w + at * step, step, k - at < each ? k - at : each);
  }
  if (d->a->order == NMB_ORDER_PAIRS)
    return pairs(NMB_SUM_FP32, d->piece, n);
  float sum = 0;
  for (int64_t i = 0; i < n; i++)
    sum += d->piece[i];
  return sum;
}

/* Trees and registers of fp32: a piece at a time as float has it, in the order of sums that
 * the reference takes, which is many times faster. */
static void
float_pieces(const nmb_arith *a, int64_t m, int64_t n, int64_t k, const float *x,
             int64_t ldx, const float *w, int64_t ldw, float *y, int64_t ldy)
{
  const int64_t each = a->piece > 0 ? a->piece : k, pieces = (k + each - 1) / each;
  float *v = nmb__xrealloc(NULL, (size_t)(m * n * pieces), sizeof *v);
  float *sum = nmb__xrealloc(NULL, (size_t)pieces, sizeof *sum);
  for (int64_t p = 0; p < pieces; p++) {
    const int64_t at = p * each, len = k - at < each ? k - at : each;
    nmb__product(m, n, len, x + at, ldx, w + at, ldw, v + p * m * n, n);
  }
  for (int64_t i = 0; i < m * n; i++) {
    float total = 0;
    for (int64_t p = 0; p < pieces; p++) {
      const int64_t to = a->order == NMB_ORDER_REVERSE ? pieces - 1 - p : p;
      sum[to] = as(a->result, (double)v[p * m * n + i]);
    }
    if (a->order == NMB_ORDER_PAIRS)
      total = pairs(NMB_SUM_FP32, sum, pieces);
    else
      for (int64_t p = 0; p < pieces; p++)
        total += sum[p];
    y[i / n * ldy + i % n] = total;
  }
  free(sum);
  free(v);
}

static bool
whole_numbers(nmb_dtype d)
{
  return d == NMB_DT_I8 || d == NMB_DT_I4 || d == NMB_DT_I4Z || d == NMB_DT_TERNARY;
}

/* w: element l of column j is at j ldw + l step. */
static void
digital(const nmb__opctx *c, int64_t m, int64_t n, int64_t k, const float *x, int64_t ldx,
        const float *w, int64_t ldw, int64_t step, float *y, int64_t ldy)
{
  const nmb_arith *a = &c->v->arith->engine->arith;
  const bool integer = a->accumulate == NMB_SUM_INT32;
  adder d = {.a = a,
             .accumulate = integer ? NMB_SUM_FP32 : a->accumulate,
             .whole = integer && c->in[1] && whole_numbers(c->in[0]->dtype) &&
                      whole_numbers(c->in[1]->dtype)};
  if (step == 1 && k > 0 && !a->multiply && !a->tree_sums && !a->accumulate) {
    float_pieces(a, m, n, k, x, ldx, w, ldw, y, ldy);
    return;
  }
  const size_t pieces = a->piece > 0 ? (size_t)(k / a->piece + 1) : 1;
  d.tree = nmb__xrealloc(NULL, (size_t)(a->tree + a->lanes) + pieces, sizeof *d.tree);
  d.lane = d.tree + a->tree;
  d.piece = d.lane + a->lanes;
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++)
      y[i * ldy + j] = product(&d, x + i * ldx, w + j * ldw, step, k);
  free(d.tree);
}

/* --------------------------------------------------------------------- arrays */
typedef struct array {
  int64_t rows, active;
  int dac, adc, cell, input, weight; /* bits */
  double noise, range;
  uint64_t seed;
} array;

static int
bits_of(const nmb_engine *e, const char *name, const nmb_tensor *t)
{
  const int n = (int)param(e, name, 0);
  const int own = t ? nmb_dtype_get(t->dtype)->bits : 16;
  const int b = n ? n : own;
  return b < 2 ? 2 : b > 24 ? 24 : b; /* floats hold whole numbers up to 2^24 */
}

static array
array_of(const nmb__opctx *c)
{
  const nmb_engine *e = c->v->arith->engine;
  array a = {.rows = (int64_t)param(e, "rows", 1),
             .active = (int64_t)param(e, "active-rows", 0),
             .dac = (int)param(e, "dac-bits", 1),
             .adc = (int)param(e, "adc-bits", 0),
             .cell = (int)param(e, "cell-bits", 1),
             .input = bits_of(e, "input-bits", c->in[0]),
             .weight = bits_of(e, "weight-bits", c->in[1]),
             .noise = param(e, "adc-noise", 0),
             .range = param(e, "adc-range", 1),
             .seed = c->v->arith->seed};
  a.active = a.active > 0 && a.active < a.rows ? a.active : a.rows;
  return a;
}

/* n rows of k numbers as whole ones times scale[n]. */
static void
to_whole(int bits, int64_t n, int64_t k, const float *x, int64_t ldx, float *q,
         float *scale)
{
  const float top = (float)((1 << (bits - 1)) - 1);
  for (int64_t i = 0; i < n; i++) {
    float most = 0;
    for (int64_t l = 0; l < k; l++)
      most = fmaxf(most, fabsf(x[i * ldx + l]));
    scale[i] = most > 0 && isfinite(most) ? most / top : 1;
    for (int64_t l = 0; l < k; l++) {
      const float v = rintf(x[i * ldx + l] / scale[i]);
      q[i * k + l] = v > top ? top : v < -top ? -top : isnan(v) ? 0 : v;
    }
  }
}

/* Bits [at, at + n) of the magnitudes of columns [a, b), with the sign. */
static void
slice(int64_t rows, int64_t k, const float *q, int64_t a, int64_t b, int at, int n,
      float *out)
{
  for (int64_t i = 0; i < rows; i++)
    for (int64_t l = a; l < b; l++) {
      const int v = (int)q[i * k + l], u = (v < 0 ? -v : v) >> at & ((1 << n) - 1);
      out[i * (b - a) + l - a] = (float)(v < 0 ? -u : u);
    }
}

/* Standard normal but for the tails (four uniform numbers of 16 bits, variance 1/3 in all):
 * nothing beyond 3.5. */
static double
noise_of(uint64_t seed, uint64_t where)
{
  uint64_t z = seed + where * UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 */
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  z ^= z >> 31;
  const double sum = (double)(z & 0xffff) + (double)(z >> 16 & 0xffff) +
                     (double)(z >> 32 & 0xffff) + (double)(z >> 48);
  return (sum / 65536 - 2 + 2.0 / 65536) * 1.7320508075688772;
}

/* What converters make of sums[m][n]; `used` rows conduct.  at: of the output's first
 * element; part: which slices and rows. */
static void
convert(const array *a, int64_t m, int64_t n, int64_t used, float *sum, uint64_t at,
        uint64_t part, int64_t ldy)
{
  if (a->adc == 0)
    return;
  const double top = (double)((INT64_C(1) << (a->adc - 1)) - 1);
  const double full = (double)used * ((1 << a->dac) - 1) * ((1 << a->cell) - 1) * a->range;
  const double step = fmax(full / fmax(top, 1), 1), levels = fmax(rint(full / step), 1);
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++) {
      double v = (double)sum[i * n + j] / step;
      if (a->noise > 0)
        v += a->noise * noise_of(a->seed + part * UINT64_C(0xd1342543de82ef95),
                                 at + (uint64_t)(i * ldy + j));
      v = rint(v);
      sum[i * n + j] = (float)(step * (v > levels ? levels : v < -levels ? -levels : v));
    }
}

typedef struct block {
  const float *qx, *qw; /* [m][k], [n][k] whole numbers */
  int64_t m, n, k;
  uint64_t at, part;
  int64_t ldy;
  float *xs, *ws, *sum;
  double *acc; /* [m][n] */
} block;

/* All slices of rows [l0, l1) of an array. */
static void
convert_rows(const array *a, block *b, int64_t l0, int64_t l1)
{
  for (int s = 0; s < a->input - 1; s += a->dac) {
    slice(b->m, b->k, b->qx, l0, l1, s, a->dac, b->xs);
    for (int j = 0; j < a->weight - 1; j += a->cell) {
      slice(b->n, b->k, b->qw, l0, l1, j, a->cell, b->ws);
      nmb__product(b->m, b->n, l1 - l0, b->xs, l1 - l0, b->ws, l1 - l0, b->sum, b->n);
      convert(a, b->m, b->n, l1 - l0, b->sum, b->at, b->part++, b->ldy);
      for (int64_t i = 0; i < b->m * b->n; i++)
        b->acc[i] += ldexp((double)b->sum[i], s + j);
    }
  }
}

static void
analog(const nmb__opctx *c, int64_t m, int64_t n, int64_t k, const float *x, int64_t ldx,
       const float *w, int64_t ldw, float *y, int64_t ldy)
{
  const array a = array_of(c);
  const int64_t most = k < a.rows ? k : a.rows;
  const float *out = nmb__out(c);
  const int64_t count = nmb_tensor_count(c->out[0]);
  float *v = nmb__xrealloc(NULL, (size_t)(2 * (m + n) * most + m * n + m + n), sizeof *v);
  float *qx = v, *qw = qx + m * most, *sx = qw + n * most, *sw = sx + m;
  block b = {.qx = qx, .qw = qw, .m = m, .n = n, .ldy = ldy};
  b.at = y >= out && y < out + count ? (uint64_t)(y - out) : 0;
  b.xs = sw + n;
  b.ws = b.xs + m * most;
  b.sum = b.ws + n * most;
  b.acc = nmb__xrealloc(NULL, (size_t)(m * n), sizeof *b.acc);
  for (int64_t i = 0; i < m; i++)
    memset(y + i * ldy, 0, (size_t)n * sizeof *y);
  for (int64_t k0 = 0; k0 < k; k0 += a.rows) {
    b.k = k - k0 < a.rows ? k - k0 : a.rows;
    to_whole(a.input, m, b.k, x + k0, ldx, qx, sx);
    to_whole(a.weight, n, b.k, w + k0, ldw, qw, sw);
    memset(b.acc, 0, (size_t)(m * n) * sizeof *b.acc);
    for (int64_t l = 0; l < b.k; l += a.active)
      convert_rows(&a, &b, l, l + a.active < b.k ? l + a.active : b.k);
    for (int64_t i = 0; i < m; i++)
      for (int64_t j = 0; j < n; j++)
        y[i * ldy + j] += (float)(b.acc[i * n + j] * (double)sx[i] * (double)sw[j]);
  }
  free(b.acc);
  free(v);
}

/* ------------------------------------------------------------------ any order */
static float *
magnitudes(int64_t rows, int64_t len, const float *x, int64_t ld)
{
  float *v = nmb__xrealloc(NULL, (size_t)(rows * len) + 1, sizeof *v);
  for (int64_t i = 0; i < rows; i++)
    for (int64_t l = 0; l < len; l++)
      v[i * len + l] = fabsf(x[i * ld + l]);
  return v;
}

/* From m x n sums of k products to one end of what they can be in another order: twice the
 * error bound of values-each.h.  plain: w is [k][n].  The sum of magnitudes S is in float, too,
 * at least (1 - g) S, so that S is at most 1 + 2 g of it; the two more terms cover what is
 * rounded here; each product may underflow. */
static void
one_end(int side, bool plain, int64_t m, int64_t n, int64_t k, const float *x, int64_t ldx,
        const float *w, int64_t ldw, float *y, int64_t ldy)
{
  const double ku = (double)(k + 2) * 0x1p-24, g = ku / (1 - ku);
  float *a = magnitudes(m, k, x, ldx);
  float *b = plain ? magnitudes(k, n, w, ldw) : magnitudes(n, k, w, ldw);
  float *sum = nmb__xrealloc(NULL, (size_t)(m * n) + 1, sizeof *sum);
  if (plain)
    nmb__product_plain(m, n, k, a, k, b, n, sum, n);
  else
    nmb__product(m, n, k, a, k, b, k, sum, n);
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++) {
      const double far = 2 * g * (1 + 2 * g) * (double)sum[i * n + j] + (double)k * 0x1p-148;
      float *to = &y[i * ldy + j];
      *to = nextafterf((float)((double)*to + side * far), side > 0 ? INFINITY : -INFINITY);
    }
  free(a);
  free(b);
  free(sum);
}

/* ------------------------------------------------------------------- products */
void
nmb__product_on(const nmb__opctx *c, int64_t m, int64_t n, int64_t k, const float *x,
                int64_t ldx, const float *w, int64_t ldw, float *y, int64_t ldy)
{
  if (m <= 0 || n <= 0)
    return;
  if (!c->v->arith)
    nmb__product(m, n, k, x, ldx, w, ldw, y, ldy);
  else if (c->v->arith->side) {
    nmb__product(m, n, k, x, ldx, w, ldw, y, ldy);
    one_end(c->v->arith->side, false, m, n, k, x, ldx, w, ldw, y, ldy);
  } else if (is_array(c->v->arith->engine))
    analog(c, m, n, k, x, ldx, w, ldw, y, ldy);
  else
    digital(c, m, n, k, x, ldx, w, ldw, 1, y, ldy);
}

void
nmb__product_plain_on(const nmb__opctx *c, int64_t m, int64_t n, int64_t k, const float *p,
                      int64_t ldp, const float *v, int64_t ldv, float *y, int64_t ldy)
{
  const nmb__arith *a = c->v->arith;
  if (!a || a->side || is_array(a->engine)) /* arrays take linear alone */
    nmb__product_plain(m, n, k, p, ldp, v, ldv, y, ldy);
  if (a && a->side)
    one_end(a->side, true, m, n, k, p, ldp, v, ldv, y, ldy);
  else if (a && !is_array(a->engine))
    digital(c, m, n, k, p, ldp, v, 1, ldv, y, ldy);
}
