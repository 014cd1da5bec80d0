/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Several values of a token side by side, in place of one residual path. */
#include "frontend/build.h"

/* Weights of a few streams are small and kept exact. */
static nmb_id
exact2(maker *m, const char *name, int64_t rows, int64_t cols)
{
  return tensor(m, name, NMB_ROLE_ACT, NMB_DT_F32, 0, 2, (int64_t[]){rows, cols});
}

static nmb_id
mix(maker *m, nmb_id w, nmb_id x, int64_t n, nmb_id out)
{
  const nmb_id op = op_add(m, NMB_OP_MIX, 2, (nmb_id[]){w, x}, out);
  nmb_op_attr_set(m->p, op, NMB_INT("streams", n));
  return out;
}

/* A query for the values, and the norm of what it is compared to. */
static void
attend_weights(maker *m, const char *prefix, nmb_id w[2])
{
  const int64_t H = m->a->hidden;
  w[0] = vector(m, nmb_format(m->run, "%s.residuals.norm", prefix), H);
  w[1] = weight(m, nmb_format(m->run, "%s.residuals.query", prefix), NMB__W_STREAM, 1, H,
                0, 0);
}

nmb_id
nmb__build_attend(maker *m, const char *prefix, nmb_id x, int64_t blocks, int64_t rows)
{
  const int64_t H = m->a->hidden, n = blocks + 1;
  nmb_id in[2];
  attend_weights(m, prefix, in);
  if (!blocks) /* the file has them all the same */
    return x;
  const nmb_id k = act2(m, "keys", rows, n * H);
  const nmb_id op = op_add(m, NMB_OP_NORM, 2, (nmb_id[]){x, in[0]}, k);
  nmb_op_attr_set(m->p, op, NMB_SYM("kind", "rms"));
  nmb_op_attr_set(m->p, op, NMB_REAL("eps", m->l->eps));
  const nmb_id s = op2(m, NMB_OP_DOT, k, in[1], exact2(m, "shares", rows, n));
  const nmb_id w = unit_norm(m, "softmax", s, exact2(m, "shares", rows, n));
  return mix(m, w, x, n, act2(m, "x", rows, H));
}

/* ------------------------------------------------------------ hyper-connections */
nmb_id
nmb__build_copies(maker *m, nmb_id h)
{
  const int64_t H = m->a->hidden;
  nmb_id all = h;
  for (int64_t n = 1; n < m->l->hyper;) {
    const bool twice = 2 * n <= m->l->hyper;
    n += twice ? n : 1;
    all = op2(m, NMB_OP_CONCAT, all, twice ? all : h, act2(m, "h", m->T, n * H));
  }
  return all;
}

/* x times a learned scale, plus a learned base, of one of the parts of the weights. */
static nmb_id
affine(maker *m, const char *prefix, const char *part, nmb_id x, int64_t rows, int64_t n)
{
  const nmb_id scale = weight(m, nmb_format(m->run, "%s.hyper.scale%s", prefix, part),
                              NMB__W_STREAM, 1, 1, 0, 0),
               base = weight(m, nmb_format(m->run, "%s.hyper.base%s", prefix, part),
                             NMB__W_STREAM, 1, n, 0, 0);
  x = op2(m, NMB_OP_MUL, x, scale, exact2(m, "shares", rows, n));
  return op2(m, NMB_OP_ADD, x, base, exact2(m, "shares", rows, n));
}

/* What the streams as a whole say of how to mix them: n columns of each of `rows`. */
static nmb_id
say(maker *m, const char *prefix, nmb_id in, int64_t rows, int64_t n)
{
  const int64_t wide = m->l->hyper * m->a->hidden;
  const nmb_id x = unit_norm(m, "rms", in, exact2(m, "streams", rows, wide));
  return linear(m, nmb_format(m->run, "%s.hyper", prefix), NMB__W_STREAM, x, n, wide,
                false, exact2(m, "shares", rows, n));
}

static nmb_id
sigmoid(maker *m, nmb_id x, double scale, double shift, int64_t rows, int64_t n)
{
  const nmb_id y = pointwise(m, "sigmoid", x, NMB_NONE, exact2(m, "shares", rows, n));
  scaled(m, y, scale);
  if (shift > 0)
    nmb_op_attr_set(m->p, m->p->tensor[y].def, NMB_REAL("shift", shift));
  return y;
}

nmb__streams
nmb__build_gather(maker *m, const char *prefix, nmb_id in)
{
  const int64_t n = m->l->hyper, T = m->T;
  const int64_t first[] = {0, n, 2 * n}, count[] = {n, n, n * n};
  static const char *const parts[] = {".pre", ".post", ".comb"};
  const nmb_id all = say(m, prefix, in, T, (2 + n) * n);
  nmb_id w[3];
  for (int i = 0; i < 3; i++)
    w[i] = affine(m, prefix, parts[i],
                  split(m, all, first[i], count[i], exact2(m, "shares", T, count[i])), T,
                  count[i]);
  nmb__streams s = {.x = mix(m, sigmoid(m, w[0], 1, m->l->hyper_eps, T, n), in, n,
                        act2(m, "x", T, m->a->hidden)),
               .post = sigmoid(m, w[1], 2, 0, T, n),
               .comb = unit_norm(m, "sinkhorn", w[2], exact2(m, "shares", T, n * n))};
  const nmb_id op = m->p->tensor[s.comb].def;
  nmb_op_attr_set(m->p, op, NMB_REAL("eps", m->l->hyper_eps));
  nmb_op_attr_set(m->p, op, NMB_INT("rounds", m->l->hyper_rounds));
  return s;
}

nmb_id
nmb__build_spread(maker *m, const nmb__streams *s, nmb_id in, nmb_id y)
{
  const int64_t n = m->l->hyper, wide = n * m->a->hidden;
  const nmb_id kept = mix(m, s->comb, in, n, act2(m, "h", m->T, wide));
  nmb_op_attr_set(m->p, m->p->tensor[kept].def, NMB_INT("transposed", 1));
  const nmb_id more = mix(m, s->post, y, 1, act2(m, "h", m->T, wide));
  return op2(m, NMB_OP_ADD, kept, more, act2(m, "h", m->T, wide));
}

nmb_id
nmb__build_join(maker *m, nmb_id last)
{
  const int64_t n = m->l->hyper, B = m->batch;
  const nmb_id w = affine(m, "head", "", say(m, "head", last, B, n), B, n);
  return mix(m, sigmoid(m, w, 1, m->l->hyper_eps, B, n), last, n,
             act2(m, "last", B, m->a->hidden));
}
