/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Inside of the reference evaluation: one op at hand. */
#ifndef NMB__EVAL_OP_H
#define NMB__EVAL_OP_H

#include "ir/eval.h"

typedef struct nmb__opctx {
  nmb_run *run;
  const nmb_prog *p;
  const nmb_op *op;
  nmb_space s;
  nmb_tile t;
  const nmb__vals *v;
  const nmb_tensor *in[NMB_MAXIN], *out[NMB_MAXOUT];
  const nmb_routing *r; /* NULL unless the op names one */
} nmb__opctx;

static inline const float *
nmb__in(const nmb__opctx *c, int i)
{
  return i < c->op->nin ? (const float *)c->v->in[i] : NULL;
}

static inline const int32_t *
nmb__ids(const nmb__opctx *c, int i)
{
  return (const int32_t *)c->v->in[i];
}

static inline float *
nmb__out(const nmb__opctx *c)
{
  return (float *)c->v->out[0];
}

nmb_status nmb__eval_linear(const nmb__opctx *);
nmb_status nmb__eval_hlinear(const nmb__opctx *);
nmb_status nmb__eval_glinear(const nmb__opctx *);
nmb_status nmb__eval_qk(const nmb__opctx *);
nmb_status nmb__eval_softmax(const nmb__opctx *);
nmb_status nmb__eval_pick(const nmb__opctx *);
nmb_status nmb__eval_pool(const nmb__opctx *);
nmb_status nmb__eval_take(const nmb__opctx *);
/* The keys that a row of a choice lets through, in order; how many.  A choice that is not
 * a number gives the first K. */
int64_t nmb__chosen(const float *row, int64_t S, int64_t K, int64_t *key /*[K]*/);
nmb_status nmb__eval_pv(const nmb__opctx *);
nmb_status nmb__eval_attention(const nmb__opctx *);
nmb_status nmb__eval_topk(const nmb__opctx *);
nmb_status nmb__eval_permute(const nmb__opctx *);
nmb_status nmb__eval_combine(const nmb__opctx *);
nmb_status nmb__eval_moe(const nmb__opctx *);
nmb_status nmb__eval_norm(const nmb__opctx *);
nmb_status nmb__eval_rope(const nmb__opctx *);
nmb_status nmb__eval_conv(const nmb__opctx *);
nmb_status nmb__eval_scan(const nmb__opctx *);
nmb_status nmb__eval_wkv(const nmb__opctx *);

/* y[m][n] = x[m][k] w[n][k]^T; ldx, ldw, ldy: elements from row to row. */
void nmb__product(int64_t m, int64_t n, int64_t k, const float *x, int64_t ldx,
                  const float *w, int64_t ldw, float *y, int64_t ldy);
/* y[m][n] = p[m][k] v[k][n] */
void nmb__product_plain(int64_t m, int64_t n, int64_t k, const float *p, int64_t ldp,
                        const float *v, int64_t ldv, float *y, int64_t ldy);

/* The same for the output of the op at hand, as the engine's arithmetic has it. */
void nmb__product_on(const nmb__opctx *, int64_t m, int64_t n, int64_t k, const float *x,
                     int64_t ldx, const float *w, int64_t ldw, float *y, int64_t ldy);
void nmb__product_plain_on(const nmb__opctx *, int64_t m, int64_t n, int64_t k,
                           const float *p, int64_t ldp, const float *v, int64_t ldv,
                           float *y, int64_t ldy);

/* fn(x) of act, and of the gate of glu; NULL if unknown. */
typedef float (*nmb__fn)(float x, float limit);
nmb__fn nmb__fn_find(const char *name);
/* fn(gate) * up of n values, in place of `gate` or elsewhere. */
nmb_status nmb__glu_row(const nmb__opctx *, const float *gate, const float *up, float *y,
                        int64_t n);

/* Where the row of (token, slot) lies in expert order: rows by expert, then token. */
void nmb__expert_rows(const nmb_routing *, int64_t *row);
#endif
