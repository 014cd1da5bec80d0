/* SPDX-License-Identifier: GPL-3.0-or-later */
/* RWKV -> graph: RWKV-4 (arXiv:2305.13048), RWKV-6 (arXiv:2404.05892) and RWKV-7
 * (arXiv:2503.14456).  All mix each
 * token with the one before it, in the network too: x + (before - x) * mix, where the
 * difference is a convolution with constant taps and the last input its state. */
#include <math.h>

#include "frontend/build.h"

/* Of the group norm: rwkv.cpp, and 1e-5 times 8 squared in the models' own code. */
#define GROUP_EPS 64e-5
/* What normalize() of the models' own code keeps from dividing by: its square. */
#define UNIT_EPS 1e-24

static nmb_id
state(maker *m, const char *name, int64_t channels, int64_t each)
{
  const nmb_id s = tensor(m, name, NMB_ROLE_STATE, NMB_DT_F32, 0, 3,
                          (int64_t[]){m->batch, channels, each});
  return s;
}

/* What came before less what is. */
static nmb_id
shift(maker *m, const char *part, nmb_id x)
{
  const int64_t H = m->a->hidden;
  const char *name = nmb_format(m->run, "%s.shift", part);
  const nmb_id in[] = {
      x, state(m, nmb_format(m->run, "state.%s", name), H, 1),
      tensor(m, name, NMB_ROLE_WEIGHT, NMB_DT_F32, 0, 2, (int64_t[]){H, 2})};
  const nmb_id y = act2(m, "step", m->T, H);
  nmb_op_attr_set(m->p, stateful(m, NMB_OP_CONV, 3, in, 1, y), NMB_SYM("fn", "none"));
  return y;
}

static nmb_id
mixed(maker *m, const char *part, const char *letter, nmb_id x, nmb_id step)
{
  const int64_t H = m->a->hidden;
  const nmb_id w = vector(m, nmb_format(m->run, "%s.mix.%s", part, letter), H);
  const nmb_id s = op2(m, NMB_OP_MUL, step, w, act2(m, "share", m->T, H));
  return op2(m, NMB_OP_ADD, x, s, act2(m, "x", m->T, H));
}

/* A value by heads. */
static nmb_id
heads(maker *m, const char *name)
{
  return act3(m, name, m->T, m->l->mixer.heads, m->l->mixer.dv);
}

static nmb_id
projected(maker *m, const char *letter, nmb_id x, nmb_id step, nmb_id out)
{
  const int64_t H = m->a->hidden;
  return linear(m, nmb_format(m->run, "mixer.%s", letter), NMB__W_MIXER,
                mixed(m, "mixer", letter, x, step), H, H, false, out);
}

/* ------------------------------------------------------------------- RWKV-4 */
static nmb_id
rwkv4(maker *m, nmb_id x)
{
  const int64_t H = m->a->hidden;
  const nmb_id step = shift(m, "mixer", x);
  const nmb_id k = projected(m, "k", x, step, act2(m, "k", m->T, H));
  const nmb_id v = projected(m, "v", x, step, act2(m, "v", m->T, H));
  const nmb_id r = projected(m, "r", x, step, act2(m, "r", m->T, H));
  const nmb_id in[] = {k, v, state(m, "state.mixer", H, 3), vector(m, "mixer.decay", H),
                       vector(m, "mixer.first", H)};
  const nmb_id y = act2(m, "y", m->T, H);
  stateful(m, NMB_OP_WKV, 5, in, 2, y);
  return pointwise(m, "sigmoid", r, y, act2(m, "y", m->T, H));
}

/* ------------------------------------------------------------------- RWKV-7 */
/* By a low rank, with a function (or NULL) in between. */
static nmb_id
low(maker *m, const char *name, nmb_id x, int64_t rank, const char *fn, bool bias)
{
  const int64_t H = m->a->hidden;
  const char *down = nmb_format(m->run, "mixer.%s_down", name),
             *up = nmb_format(m->run, "mixer.%s_up", name);
  nmb_id y =
      linear(m, down, NMB__W_MIXER, x, rank, H, false, act2(m, name, m->T, rank));
  if (fn)
    y = pointwise(m, fn, y, NMB_NONE, act2(m, name, m->T, rank));
  return linear(m, up, NMB__W_MIXER, y, H, rank, bias, heads(m, name));
}

static nmb_id
per_head(maker *m, const char *name)
{
  const nmb__mixer *t = &m->l->mixer;
  return weight(m, name, NMB__W_NORM, 2, t->heads, t->dv, 0);
}

static nmb_id
normed(maker *m, const char *kind, double eps, nmb_id x, const char *name)
{
  const nmb_id y = heads(m, name);
  const nmb_id op = op_add(m, NMB_OP_NORM, 1, &x, y);
  nmb_op_attr_set(m->p, op, NMB_SYM("kind", kind));
  nmb_op_attr_set(m->p, op, NMB_REAL("eps", eps));
  return y;
}

/* b - a */
static nmb_id
difference(maker *m, nmb_id a, nmb_id b, const char *name)
{
  const nmb_id y = op2(m, NMB_OP_ADD, a, b, heads(m, name));
  scaled(m, y, -1);
  return y;
}

/* Values, moved towards those of the first layer. */
static nmb_id
values(maker *m, nmb_id x, nmb_id step)
{
  const nmb__mixer *t = &m->l->mixer;
  const int64_t H = m->a->hidden;
  const nmb_id xv = mixed(m, "mixer", "v", x, step);
  const nmb_id v = linear(m, "mixer.v", NMB__W_MIXER, xv, H, H, false, heads(m, "v"));
  if (t->first) {
    m->carried = v;
    return v;
  }
  const nmb_id by = low(m, "blend", xv, t->v_rank, NULL, true);
  const nmb_id way = difference(m, v, m->carried, "way");
  return op2(m, NMB_OP_ADD, v, pointwise(m, "sigmoid", by, way, heads(m, "way")),
             heads(m, "v"));
}

/* Norm of each head, with a weight and a bias for each component. */
static nmb_id
head_norm(maker *m, nmb_id y)
{
  const double own = m->l->mixer.norm_eps;
  y = normed(m, "layer", own > 0 ? own : GROUP_EPS, y, "y");
  y = op2(m, NMB_OP_MUL, y, per_head(m, "mixer.norm"), heads(m, "y"));
  return op2(m, NMB_OP_ADD, y, per_head(m, "mixer.norm.bias"), heads(m, "y"));
}

static nmb_id
matrix_state(maker *m)
{
  const nmb__mixer *t = &m->l->mixer;
  return tensor(m, "state.mixer", NMB_ROLE_STATE, NMB_DT_F32, 0, 4,
                (int64_t[]){m->batch, t->heads, t->dv, t->dk});
}

static nmb_id
zero_decay(maker *m)
{
  return tensor(m, "mixer.zero", NMB_ROLE_WEIGHT, NMB_DT_F32, 0, 1,
                &m->l->mixer.heads);
}

/* The state's result, from queries r, values and keys before their change by rate a. */
static nmb_id
recurrence(maker *m, nmb_id r, nmb_id k, nmb_id v, nmb_id a, nmb_id w, nmb_id *key)
{
  const nmb_id kk = normed(
      m, "l2", UNIT_EPS, op2(m, NMB_OP_MUL, k, per_head(m, "mixer.k_k"), heads(m, "kk")),
      "kk");
  const nmb_id part = op2(m, NMB_OP_MUL, k, per_head(m, "mixer.k_a"), heads(m, "ka"));
  const nmb_id more =
      difference(m, part, op2(m, NMB_OP_MUL, part, a, heads(m, "ka")), "ka");
  *key = op2(m, NMB_OP_ADD, k, more, heads(m, "k"));
  const nmb_id in[] = {
      r,
      *key,
      v,
      matrix_state(m),
      zero_decay(m),
      w,
      kk,
      op2(m, NMB_OP_MUL, kk, a, heads(m, "drop"))};
  const nmb_id y = heads(m, "y");
  const nmb_id op = stateful(m, NMB_OP_SCAN, 8, in, 3, y);
  nmb_op_attr_set(m->p, op, NMB_SYM("decay", "alog"));
  nmb_op_attr_set(m->p, op, NMB_REAL("bound", -exp(-0.5)));
  nmb_op_attr_set(m->p, op, NMB_INT("delta", 2));
  return y;
}

/* What a token gives itself: its value by the weighted product of r and its key. */
static nmb_id
bonus(maker *m, nmb_id r, nmb_id k, nmb_id v)
{
  const nmb__mixer *t = &m->l->mixer;
  const nmb_id rk = op2(m, NMB_OP_MUL, r, k, heads(m, "rk"));
  const nmb_id w = weight(m, "mixer.bonus", NMB__W_NORM, 3, t->heads, 1, t->dk);
  const nmb_id s = op2(m, NMB_OP_HLINEAR, rk, w, act3(m, "rk", m->T, t->heads, 1));
  return op2(m, NMB_OP_MUL, v, s, heads(m, "bonus"));
}

static nmb_id
rwkv7(maker *m, nmb_id x)
{
  const nmb__mixer *t = &m->l->mixer;
  const nmb_id step = shift(m, "mixer", x);
  const nmb_id r = projected(m, "r", x, step, heads(m, "r"));
  const nmb_id k = projected(m, "k", x, step, heads(m, "k"));
  const nmb_id v = values(m, x, step);
  const nmb_id w =
      low(m, "w", mixed(m, "mixer", "w", x, step), t->rank, "tanh", true);
  const nmb_id a = pointwise(
      m, "sigmoid", low(m, "a", mixed(m, "mixer", "a", x, step), t->a_rank, NULL, true),
      NMB_NONE, heads(m, "a"));
  const nmb_id g =
      low(m, "gate", mixed(m, "mixer", "g", x, step), t->gate_rank, "sigmoid", false);
  nmb_id key, y = recurrence(m, r, k, v, a, w, &key);
  y = op2(m, NMB_OP_ADD, head_norm(m, y), bonus(m, r, key, v), heads(m, "y"));
  return op2(m, NMB_OP_MUL, y, g, heads(m, "y"));
}

/* ------------------------------------------------------------------- RWKV-6 */
/* The tokens that w, k, v, r and g are made from: how much of the token before each has is
 * a number a channel and what a low rank of the two tokens says. */
static void
shared_out(maker *m, nmb_id x, nmb_id step, nmb_id out[5])
{
  const int64_t H = m->a->hidden, D = m->l->mixer.a_rank;
  nmb_id low_all = linear(m, "mixer.mix_down", NMB__W_MIXER, mixed(m, "mixer", "x", x, step),
                          5 * D, H, false, act2(m, "shares", m->T, 5 * D));
  low_all = pointwise(m, "tanh", low_all, NMB_NONE, act2(m, "shares", m->T, 5 * D));
  for (int i = 0; i < 5; i++) {
    const nmb_id part = act2(m, "part", m->T, D);
    const nmb_id op = op_add(m, NMB_OP_SPLIT, 1, &low_all, part);
    nmb_op_attr_set(m->p, op, NMB_INT("first", i * D));
    nmb_op_attr_set(m->p, op, NMB_INT("count", D));
    const char *name = nmb_format(m->run, "mixer.mix_up.%c", "wkvrg"[i]);
    const nmb_id s = op2(m, NMB_OP_MUL, step,
                         linear(m, name, NMB__W_MIXER, part, H, D, true,
                                act2(m, "share", m->T, H)),
                         act2(m, "share", m->T, H));
    out[i] = op2(m, NMB_OP_ADD, x, s, act2(m, "x", m->T, H));
  }
}

static nmb_id
rwkv6(maker *m, nmb_id x)
{
  const int64_t H = m->a->hidden;
  nmb_id from[5];
  shared_out(m, x, shift(m, "mixer", x), from);
  const nmb_id w = pointwise(m, "exp", low(m, "w", from[0], m->l->mixer.rank, "tanh", true),
                             NMB_NONE, heads(m, "w"));
  const nmb_id k = linear(m, "mixer.k", NMB__W_MIXER, from[1], H, H, false, heads(m, "k"));
  const nmb_id v = linear(m, "mixer.v", NMB__W_MIXER, from[2], H, H, false, heads(m, "v"));
  const nmb_id r = linear(m, "mixer.r", NMB__W_MIXER, from[3], H, H, false, heads(m, "r"));
  const nmb_id g = linear(m, "mixer.g", NMB__W_MIXER, from[4], H, H, false, heads(m, "g"));
  const nmb_id in[] = {r, k, v, matrix_state(m), zero_decay(m), w};
  nmb_id y = heads(m, "y");
  const nmb_id op = stateful(m, NMB_OP_SCAN, 6, in, 3, y);
  nmb_op_attr_set(m->p, op, NMB_SYM("decay", "alog"));
  nmb_op_attr_set(m->p, op, NMB_INT("before", 1));
  y = head_norm(m, op2(m, NMB_OP_ADD, y, bonus(m, r, k, v), heads(m, "y")));
  return pointwise(m, "silu", g, y, heads(m, "y"));
}

nmb_id
nmb__build_rwkv(maker *m, nmb_id x)
{
  const int64_t H = m->a->hidden, kind = m->l->mixer.kind;
  const nmb_id y = kind == NMB__MIX_RWKV4   ? rwkv4(m, x)
                   : kind == NMB__MIX_RWKV6 ? rwkv6(m, x)
                                            : rwkv7(m, x);
  return linear(m, "mixer.o", NMB__W_MIXER, y, H, H, false, act2(m, "o", m->T, H));
}

nmb_id
nmb__build_channels(maker *m, nmb_id x)
{
  const int64_t H = m->a->hidden, I = m->l->ffn.width;
  const nmb_id step = shift(m, "ffn", x);
  nmb_id y = linear(m, "ffn.up", NMB__W_FFN, mixed(m, "ffn", "k", x, step), I, H, false,
                    act2(m, "up", m->T, I));
  y = pointwise(m, "relu2", y, NMB_NONE, act2(m, "inner", m->T, I));
  y = linear(m, "ffn.down", NMB__W_FFN, y, H, I, false, act2(m, "down", m->T, H));
  if (m->l->mixer.kind == NMB__MIX_RWKV7)
    return y;
  const nmb_id r = linear(m, "ffn.gate", NMB__W_FFN, mixed(m, "ffn", "r", x, step), H, H,
                          false, act2(m, "gate", m->T, H));
  return pointwise(m, "sigmoid", r, y, act2(m, "down", m->T, H));
}
