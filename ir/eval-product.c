/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Reference evaluation: linear, hlinear, glinear.
 *
 * Large products go to BLAS (one thread: see nmb__eval_open), small ones and those
 * beyond its 32 bit sizes to plain loops.  Either adds the terms of an output in
 * float, in an order of its own. */
#include <cblas.h>
#include <limits.h>
#include <string.h>

#include "base/run.h"
#include "ir/eval-op.h"

/* Multiplications below which a call of BLAS does not pay. */
#define SMALL 256

static bool
for_blas(int64_t m, int64_t n, int64_t k, int64_t a, int64_t b, int64_t c)
{
  const int64_t most = INT_MAX;
  return m <= most && n <= most && k <= most && a <= most && b <= most && c <= most &&
         m > 0 && n > 0 && k > 0 &&
         (m > SMALL || n > SMALL || k > SMALL || m * n * k > SMALL);
}

void
nmb__product(int64_t m, int64_t n, int64_t k, const float *x, int64_t ldx, const float *w,
             int64_t ldw, float *y, int64_t ldy)
{
  if (!for_blas(m, n, k, ldx, ldw, ldy)) {
    for (int64_t i = 0; i < m; i++)
      for (int64_t j = 0; j < n; j++) {
        float s = 0;
        for (int64_t l = 0; l < k; l++)
          s += x[i * ldx + l] * w[j * ldw + l];
        y[i * ldy + j] = s;
      }
  } else if (m == 1) {
    memset(y, 0, (size_t)n * sizeof *y); /* what it held may be no number */
    cblas_sgemv(CblasRowMajor, CblasNoTrans, (int)n, (int)k, 1, w, (int)ldw, x, 1, 0, y,
                1);
  } else
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)m, (int)n, (int)k, 1, x,
                (int)ldx, w, (int)ldw, 0, y, (int)ldy);
}

void
nmb__product_plain(int64_t m, int64_t n, int64_t k, const float *p, int64_t ldp,
                   const float *v, int64_t ldv, float *y, int64_t ldy)
{
  if (for_blas(m, n, k, ldp, ldv, ldy)) {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)m, (int)n, (int)k, 1, p,
                (int)ldp, v, (int)ldv, 0, y, (int)ldy);
    return;
  }
  for (int64_t i = 0; i < m; i++) {
    float *to = y + i * ldy;
    memset(to, 0, (size_t)n * sizeof *to);
    for (int64_t l = 0; l < k; l++)
      for (int64_t j = 0; j < n; j++)
        to[j] += p[i * ldp + l] * v[l * ldv + j];
  }
}

/* Bias, scale and clip of rows [m0,m1), columns [n0,n1) of y. */
static void
finish(const nmb__opctx *c, const float *bias, float *y, int64_t m0, int64_t m1,
       int64_t ldy)
{
  const float scale = (float)nmb_op_real(c->op, "scale", 1);
  const float clip = (float)nmb_op_real(c->op, "clip", 0);
  const bool scaled = scale < 1 || scale > 1;
  if (!bias && !scaled && !(clip > 0))
    return;
  for (int64_t i = m0; i < m1; i++)
    for (int64_t j = c->t.n0; j < c->t.n1; j++) {
      float x = y[i * ldy + j] + (bias ? bias[j] : 0);
      x = scaled ? scale * x : x;
      if (clip > 0)
        x = x > clip ? clip : x < -clip ? -clip : x;
      y[i * ldy + j] = x;
    }
}

nmb_status
nmb__eval_linear(const nmb__opctx *c)
{
  const nmb_tile *t = &c->t;
  const int64_t K = c->s.k, N = c->s.n;
  nmb__product_on(c, t->m1 - t->m0, t->n1 - t->n0, K, nmb__in(c, 0) + t->m0 * K, K,
               nmb__in(c, 1) + t->n0 * K, K, nmb__out(c) + t->m0 * N + t->n0, N);
  finish(c, nmb__in(c, 2), nmb__out(c), t->m0, t->m1, N);
  return NMB_OK;
}

nmb_status
nmb__eval_hlinear(const nmb__opctx *c)
{
  const nmb_tile *t = &c->t;
  const int64_t K = c->s.k, N = c->s.n, h = c->s.b;
  for (int64_t b = t->b0; b < t->b1; b++)
    nmb__product_on(c, t->m1 - t->m0, t->n1 - t->n0, K, nmb__in(c, 0) + (t->m0 * h + b) * K,
                 h * K, nmb__in(c, 1) + (b * N + t->n0) * K, K,
                 nmb__out(c) + (t->m0 * h + b) * N + t->n0, h * N);
  return NMB_OK;
}

/* A tile's rows are those of each expert: [m0,m1) of what it has. */
nmb_status
nmb__eval_glinear(const nmb__opctx *c)
{
  const nmb_tile *t = &c->t;
  const int64_t K = c->s.k, N = c->s.n;
  int64_t at = 0;
  for (int64_t e = 0; e < t->b0; e++)
    at += c->r->load[e];
  for (int64_t e = t->b0; e < t->b1; at += c->r->load[e++]) {
    const int64_t m0 = at + t->m0;
    const int64_t m1 = at + (t->m1 < c->r->load[e] ? t->m1 : c->r->load[e]);
    if (m0 >= m1)
      continue;
    nmb__product_on(c, m1 - m0, t->n1 - t->n0, K, nmb__in(c, 0) + m0 * K, K,
                 nmb__in(c, 1) + (e * N + t->n0) * K, K, nmb__out(c) + m0 * N + t->n0, N);
    finish(c, c->op->nin > 2 ? nmb__in(c, 2) + e * N : NULL, nmb__out(c), m0, m1, N);
  }
  return NMB_OK;
}
