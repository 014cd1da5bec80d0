/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Reference evaluation: rotary positions (Su et al., arXiv:2104.09864) and the scalings
 * of their frequencies, as the head of ops.def states them. */
#include <math.h>
#include <string.h>

#include "ir/eval-op.h"

#define PI 3.14159265358979323846

typedef struct rotation {
  int64_t dims, first;
  bool adjacent;
  double *f, *co, *si; /* [dims/2] radians per position; cosine, sine at the position */
} rotation;

static double
llama3(const nmb_op *o, double f, double s, double orig)
{
  const double low = nmb_op_real(o, "low", 1), high = nmb_op_real(o, "high", 4);
  const double w = 2 * PI / f;
  if (w < orig / high)
    return f;
  if (w > orig / low)
    return f / s;
  const double m = (orig / w - low) / (high - low);
  return m * f + (1 - m) * f / s;
}

/* The pair that turns `times` times within the first `orig` positions. */
static double
yarn_pair(double times, double dims, double theta, double orig)
{
  return dims * log(orig / (2 * PI * times)) / (2 * log(theta));
}

static double
yarn(const nmb_op *o, double f, int64_t j, int64_t dims, double theta, double s,
     double orig)
{
  double lo = yarn_pair(nmb_op_real(o, "beta_fast", 32), (double)dims, theta, orig);
  double hi = yarn_pair(nmb_op_real(o, "beta_slow", 1), (double)dims, theta, orig);
  if (nmb_op_int(o, "truncate", 1)) {
    lo = floor(lo);
    hi = ceil(hi);
  }
  lo = lo < 0 ? 0 : lo;
  hi = hi > (double)(dims - 1) ? (double)(dims - 1) : hi;
  if (!(hi > lo) && !(hi < lo))
    hi += 0.001;
  double g = ((double)j - lo) / (hi - lo);
  g = g < 0 ? 0 : g > 1 ? 1 : g;
  return f * ((1 - g) + g / s);
}

static nmb_status
frequencies(const nmb__opctx *c, const rotation *r)
{
  const nmb_op *o = c->op;
  const char *kind = nmb_op_sym(o, "scaling", "default");
  const double s = nmb_op_real(o, "factor", 1), orig = nmb_op_real(o, "orig", 0);
  const double T = (double)(c->p->spec.context + c->p->spec.fresh), d = (double)r->dims;
  const int64_t live = nmb_op_int(o, "live", r->dims);
  const float *factors = nmb__in(c, 2);
  double theta = nmb_op_real(o, "theta", 1e4);
  if (!strcmp(kind, "dynamic") && T > orig && r->dims > 2)
    theta *= pow(s * T / orig - (s - 1), d / (d - 2));
  for (int64_t j = 0; j < r->dims / 2; j++) {
    double f = pow(theta, -2 * (double)j / d);
    f /= factors ? (double)factors[j] : 1;
    if (!strcmp(kind, "linear"))
      f /= s;
    else if (!strcmp(kind, "llama3"))
      f = llama3(o, f, s, orig);
    else if (!strcmp(kind, "yarn"))
      f = yarn(o, f, j, r->dims, theta, s, orig);
    else if (strcmp(kind, "default") && strcmp(kind, "dynamic") &&
             strcmp(kind, "longrope"))
      return nmb_fail(c->run, NMB_UNSUPPORTED, o->loc,
                      "rope: found scaling %s, which has no evaluation", kind);
    r->f[j] = j < live / 2 ? f : 0;
  }
  return NMB_OK;
}

/* One head times `all`. */
static void
rotate(const rotation *r, int64_t d, double all, const float *x, float *y)
{
  const int64_t half = r->dims / 2;
  for (int64_t j = 0; j < d; j++)
    if (j < r->first || j >= r->first + r->dims)
      y[j] = (float)(all * (double)x[j]);
  for (int64_t j = 0; j < half; j++) {
    const int64_t a = r->first + (r->adjacent ? 2 * j : j);
    const int64_t b = r->adjacent ? a + 1 : a + half;
    const double u = (double)x[a], v = (double)x[b];
    y[a] = (float)(all * (u * r->co[j] - v * r->si[j]));
    y[b] = (float)(all * (v * r->co[j] + u * r->si[j]));
  }
}

/* The factor on all of a row at `pos` (Llama 4 and Ministral 3 scale queries so). */
static double
stretch(const nmb_op *o, double pos)
{
  const double by = nmb_op_real(o, "stretch", 0);
  const double every = nmb_op_real(o, "stretch_every", 1);
  const double from = nmb_op_real(o, "stretch_from", 0);
  return 1 + by * log(1 + floor((pos + from) / every));
}

/* A tile's columns are whole heads. */
nmb_status
nmb__eval_rope(const nmb__opctx *c)
{
  const int64_t N = c->s.n, d = c->in[0]->dim[c->in[0]->rank - 1];
  const double attention = nmb_op_real(c->op, "attention", 1);
  const double sign = nmb_op_int(c->op, "inverse", 0) ? -1 : 1;
  rotation r = {.dims = nmb_op_int(c->op, "dims", d),
                .first = nmb_op_int(c->op, "first", 0),
                .adjacent = !strcmp(nmb_op_sym(c->op, "pairs", "half"), "adjacent")};
  r.f = NMB_NEW(c->run, double, 3 * (r.dims / 2) + 1);
  r.co = r.f + r.dims / 2;
  r.si = r.co + r.dims / 2;
  NMB_TRY(frequencies(c, &r));
  for (int64_t i = c->t.m0; i < c->t.m1; i++) {
    const double pos = (double)nmb__ids(c, 1)[i];
    for (int64_t j = 0; j < r.dims / 2; j++) {
      r.co[j] = attention * cos(pos * r.f[j]);
      r.si[j] = attention * sin(sign * pos * r.f[j]);
    }
    for (int64_t h = c->t.n0; h < c->t.n1; h += d)
      rotate(&r, d, stretch(c->op, pos), nmb__in(c, 0) + i * N + h,
             nmb__out(c) + i * N + h);
  }
  return NMB_OK;
}
