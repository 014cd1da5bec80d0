/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Reference evaluation: rotary positions (Su et al., arXiv:2104.09864). */
#include <math.h>
#include <string.h>

#include "ir/eval-op.h"

typedef struct rotation {
  int64_t dims, first;
  bool adjacent;
  double *angle, *co,
      *si; /* [dims/2] radians per position; cosine, sine at the position */
  double attention;
} rotation;

static nmb_status
frequencies(const nmb__opctx *c, rotation *r)
{
  const char *scaling = nmb_op_sym(c->op, "scaling", "default");
  const double theta = nmb_op_real(c->op, "theta", 1e4);
  const double factor = nmb_op_real(c->op, "factor", 1);
  const float *by = nmb__in(c, 2); /* a divisor for each */
  const bool linear = !strcmp(scaling, "linear");
  if (!linear && strcmp(scaling, "default"))
    return nmb_fail(c->run, NMB_UNSUPPORTED, c->op->loc,
                    "rope: found scaling %s, which has no evaluation", scaling);
  for (int64_t j = 0; j < r->dims / 2; j++) {
    r->angle[j] = pow(theta, -2.0 * (double)j / (double)r->dims);
    r->angle[j] /= (linear ? factor : 1) * (by ? (double)by[j] : 1);
  }
  return NMB_OK;
}

/* One head: pairs are (j, j + dims/2), or (2j, 2j+1), of the part that rotates. */
static void
rotate(const rotation *r, const float *x, float *y)
{
  const int64_t half = r->dims / 2;
  for (int64_t j = 0; j < half; j++) {
    const int64_t a = r->first + (r->adjacent ? 2 * j : j);
    const int64_t b = r->adjacent ? a + 1 : a + half;
    const double u = (double)x[a], v = (double)x[b];
    y[a] = (float)(u * r->co[j] - v * r->si[j]);
    y[b] = (float)(u * r->si[j] + v * r->co[j]);
  }
}

/* A tile's columns are whole heads. */
nmb_status
nmb__eval_rope(const nmb__opctx *c)
{
  const int64_t N = c->s.n, d = c->in[0]->dim[c->in[0]->rank - 1];
  rotation r = {.dims = nmb_op_int(c->op, "dims", d),
                .first = nmb_op_int(c->op, "first", 0),
                .adjacent = !strcmp(nmb_op_sym(c->op, "pairs", "half"), "adjacent"),
                .attention = nmb_op_real(c->op, "attention", 1)};
  r.angle = NMB_NEW(c->run, double, 3 * (r.dims / 2));
  r.co = r.angle + r.dims / 2;
  r.si = r.co + r.dims / 2;
  NMB_TRY(frequencies(c, &r));
  for (int64_t i = c->t.m0; i < c->t.m1; i++) {
    for (int64_t j = 0; j < r.dims / 2; j++) {
      const double angle = (double)nmb__ids(c, 1)[i] * r.angle[j];
      r.co[j] = r.attention * cos(angle);
      r.si[j] = r.attention * sin(angle);
    }
    for (int64_t h = c->t.n0; h < c->t.n1; h += d) {
      const float *x = nmb__in(c, 0) + i * N + h;
      float *y = nmb__out(c) + i * N + h;
      for (int64_t j = 0; j < d; j++)
        if (j < r.first || j >= r.first + r.dims)
          y[j] = x[j];
      rotate(&r, x, y);
    }
  }
  return NMB_OK;
}
