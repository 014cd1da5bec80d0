/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Reference evaluation: conv, wkv and scan, token by token, with their states in place.
 * A tile is whole sequences of some channels (conv), or units and rows of their states
 * (scan). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/run.h"
#include "ir/eval-op.h"

/* The last W-1 of what the state held and the new inputs are the state after. */
static void
conv_channel(const nmb__opctx *c, int64_t b, int64_t ch, int64_t fresh, nmb__fn fn,
             float *line)
{
  const int64_t C = c->s.n, W = c->s.k;
  const float *w = nmb__in(c, 2) + ch * W, *bias = nmb__in(c, 3);
  float *state = (float *)c->v->out[1] + (b * C + ch) * (W - 1);
  memcpy(line, nmb__in(c, 1) + (b * C + ch) * (W - 1), (size_t)(W - 1) * sizeof *line);
  for (int64_t t = 0; t < fresh; t++)
    line[W - 1 + t] = nmb__in(c, 0)[(b * fresh + t) * C + ch];
  for (int64_t t = 0; t < fresh; t++) {
    double y = bias ? (double)bias[ch] : 0;
    for (int64_t j = 0; j < W; j++)
      y += (double)w[j] * (double)line[t + j];
    nmb__out(c)[(b * fresh + t) * C + ch] = fn ? fn((float)y, 0) : (float)y;
  }
  memcpy(state, line + fresh, (size_t)(W - 1) * sizeof *line);
}

nmb_status
nmb__eval_conv(const nmb__opctx *c)
{
  const int64_t fresh = c->s.m / c->in[1]->dim[0], W = c->s.k;
  const char *name = nmb_op_sym(c->op, "fn", "none");
  const nmb__fn fn = strcmp(name, "none") ? nmb__fn_find(name) : NULL;
  float *line = NMB_NEW(c->run, float, W - 1 + fresh);
  for (int64_t b = c->t.m0 / fresh; b < c->t.m1 / fresh; b++)
    for (int64_t ch = c->t.n0; ch < c->t.n1; ch++)
      conv_channel(c, b, ch, fresh, fn, line);
  return NMB_OK;
}

/* ---------------------------------------------------------------------- wkv */
/* Sums of weights e^x and of weighted values, both times e^-top. */
typedef struct mean {
  double sum, weight, top;
} mean;

static mean
mean_add(mean m, double decay, double x, double v)
{
  const bool empty = !(m.weight > 0); /* no token so far: any exponent will do */
  const double top = empty || x > m.top + decay ? x : m.top + decay;
  const double was = empty ? 0 : exp(m.top + decay - top), is = exp(x - top);
  return (mean){was * m.sum + is * v, was * m.weight + is, top};
}

nmb_status
nmb__eval_wkv(const nmb__opctx *c)
{
  const int64_t C = c->s.n, fresh = c->s.m / c->in[2]->dim[0];
  for (int64_t b = c->t.m0 / fresh; b < c->t.m1 / fresh; b++)
    for (int64_t ch = c->t.n0; ch < c->t.n1; ch++) {
      const float *from = nmb__in(c, 2) + (b * C + ch) * 3;
      float *to = (float *)c->v->out[1] + (b * C + ch) * 3;
      mean m = {(double)from[0], (double)from[1], (double)from[2]};
      const double w = (double)nmb__in(c, 3)[ch], u = (double)nmb__in(c, 4)[ch];
      for (int64_t i = b * fresh * C + ch; i < (b + 1) * fresh * C; i += C) {
        const double k = (double)nmb__in(c, 0)[i], v = (double)nmb__in(c, 1)[i];
        const mean y = mean_add(m, 0, u + k, v);
        nmb__out(c)[i] = (float)(y.sum / y.weight);
        m = mean_add(m, w, k, v);
      }
      to[0] = (float)m.sum;
      to[1] = (float)m.weight;
      to[2] = (float)m.top;
    }
  return NMB_OK;
}

/* --------------------------------------------------------------------- scan */
typedef struct mixer {
  int64_t T, h, hq, hk, dv, dk;
  const float *q, *k, *v, *a, *dt, *beta;
  const float *read, *drop; /* of delta=2 */
  bool a_wide, dt_wide; /* one for each component of a key */
  bool delta, before; /* before: the result is of the state as it was */
  char decay;          /* 'l'og, 'a', 'e'xponential of a */
  double scale, bound; /* bound 0: none */
} mixer;

static mixer
mixer_of(const nmb__opctx *c)
{
  const nmb_tensor *s = c->in[3];
  const char *decay = nmb_op_sym(c->op, "decay", "log");
  mixer m = {.T = c->in[0]->dim[0],
             .h = s->dim[1],
             .hq = c->in[0]->dim[1],
             .hk = c->in[1]->dim[1],
             .dv = s->dim[2],
             .dk = s->dim[3],
             .q = nmb__in(c, 0),
             .k = nmb__in(c, 1),
             .v = nmb__in(c, 2),
             .a = nmb__in(c, 4),
             .delta = nmb_op_int(c->op, "delta", 0) == 1,
             .before = nmb_op_int(c->op, "before", 0) == 1,
             .decay = !strcmp(decay, "alog") ? 'e' : *decay,
             .scale = nmb_op_real(c->op, "scale", 1),
             .bound = nmb_op_real(c->op, "bound", 0)};
  const bool fixed = m.decay == 'l';
  m.dt = fixed ? NULL : nmb__in(c, 5);
  const int next = fixed ? 5 : 6;
  const bool apart = nmb_op_int(c->op, "delta", 0) == 2;
  m.beta = apart ? NULL : nmb__in(c, next);
  m.read = apart ? nmb__in(c, next) : NULL;
  m.drop = apart ? nmb__in(c, next + 1) : NULL;
  m.a_wide = nmb_tensor_count(c->in[4]) != m.h;
  m.dt_wide = m.dt && nmb_tensor_count(c->in[5]) != m.T * m.h;
  return m;
}

/* exp(g) of a token, head and component. */
static double
decay(const mixer *m, int64_t t, int64_t head, int64_t k)
{
  const double a = (double)m->a[m->a_wide ? head * m->dk + k : head];
  if (m->decay == 'l')
    return exp(a);
  const int64_t at = t * m->h + head;
  const double dt = (double)m->dt[m->dt_wide ? at * m->dk + k : at];
  if (m->bound < 0)
    return exp(m->bound / (1 + exp(-exp(a) * dt)));
  return exp(m->decay == 'e' ? -exp(a) * dt : a * dt);
}

/* Token t on rows [n0,n1) of a head's state. */
static void
scan_token(const mixer *m, int64_t t, int64_t head, int64_t n0, int64_t n1,
           const double *keep, float *S, float *o)
{
  const float *q = m->q + (t * m->hq + head * m->hq / m->h) * m->dk;
  const float *k = m->k + (t * m->hk + head * m->hk / m->h) * m->dk;
  const int64_t at = (t * m->h + head) * m->dk;
  const double beta = m->beta ? (double)m->beta[t * m->h + head] : 1;
  for (int64_t n = n0; n < n1; n++) {
    float *row = S + n * m->dk;
    double held = 0, y = 0, seen = 0;
    for (int64_t j = 0; m->read && j < m->dk; j++)
      seen += (double)row[j] * (double)m->read[at + j];
    for (int64_t j = 0; m->before && j < m->dk; j++)
      y += (double)row[j] * (double)q[j];
    for (int64_t j = 0; j < m->dk; j++) {
      row[j] = (float)(keep[j] * (double)row[j]);
      held += (double)row[j] * (double)k[j];
    }
    const double v = (double)m->v[(t * m->h + head) * m->dv + n];
    const double u = beta * (m->delta ? v - held : v);
    for (int64_t j = 0; j < m->dk; j++) {
      const double less = m->drop ? seen * (double)m->drop[at + j] : 0;
      row[j] = (float)((double)row[j] + u * (double)k[j] - less);
      y += m->before ? 0 : (double)row[j] * (double)q[j];
    }
    o[(t * m->h + head) * m->dv + n] = (float)(m->scale * y);
  }
}

nmb_status
nmb__eval_scan(const nmb__opctx *c)
{
  const mixer m = mixer_of(c);
  const int64_t fresh = c->s.m, each = m.dv * m.dk;
  double *keep = NMB_NEW(c->run, double, m.dk);
  for (int64_t u = c->t.b0; u < c->t.b1; u++) {
    float *S = (float *)c->v->out[1] + u * each;
    const float *from = nmb__in(c, 3) + u * each;
    if (S != from)
      memcpy(S + c->t.n0 * m.dk, from + c->t.n0 * m.dk,
             (size_t)((c->t.n1 - c->t.n0) * m.dk) * sizeof *S);
    for (int64_t t = u / m.h * fresh; t < (u / m.h + 1) * fresh; t++) {
      const int64_t head = u % m.h;
      const bool wide = m.a_wide || m.dt_wide;
      for (int64_t j = 0; j < m.dk; j++)
        keep[j] = j && !wide ? keep[0] : decay(&m, t, head, j);
      scan_token(&m, t, head, c->t.n0, c->t.n1, keep, S, nmb__out(c));
    }
  }
  return NMB_OK;
}
