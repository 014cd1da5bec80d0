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
mix(maker *m, nmb_id w, nmb_id x, int64_t streams, nmb_id out)
{
  const nmb_id op = op_add(m, NMB_OP_MIX, 2, (nmb_id[]){w, x}, out);
  nmb_op_attr_set(m->p, op, NMB_INT("streams", streams));
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
