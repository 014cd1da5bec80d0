/* SPDX-License-Identifier: GPL-3.0-or-later */
/* State mixers -> graph.  One scan serves them all; they differ in where queries,
 * keys, values, decay and gate come from, and in what follows. */
#include <math.h>

#include "frontend/build.h"

typedef struct inputs {
  nmb_id q, k, v;
  nmb_id a, dt, beta; /* decay; dt, beta NMB_NONE: none */
} inputs;

static nmb_id
project(maker *m, const char *name, nmb_id x, int64_t heads, int64_t d, double scale)
{
  const nmb__mixer *t = &m->l->mixer;
  const nmb_id y = linear(m, nmb_format(m->run, "mixer.%s", name), NMB__W_MIXER, x,
                          heads * d, m->a->hidden, t->bias, act3(m, name, m->T, heads, d));
  scaled(m, y, scale);
  return y;
}

/* A norm over the last dimension; w: its weight, or NMB_NONE. */
static nmb_id
rms(maker *m, const char *kind, nmb_id x, nmb_id w, nmb_id out)
{
  const nmb_id op = op_add(m, NMB_OP_NORM, 2, (nmb_id[]){x, w}, out);
  nmb_op_attr_set(m->p, op, NMB_SYM("kind", kind));
  nmb_op_attr_set(m->p, op, NMB_REAL("eps", m->l->eps));
  return out;
}

/* eps 0: that of the layer, which the norm has. */
static void
own_eps(maker *m, nmb_id y, double eps)
{
  if (eps > 0)
    nmb_op_attr_set(m->p, m->p->tensor[y].def, NMB_REAL("eps", eps));
}

/* L2 norms have an epsilon of their own in the kernels that define them. */
static nmb_id
unit(maker *m, const char *name, nmb_id x, int64_t heads, int64_t d)
{
  const nmb_id y = rms(m, "l2", x, NMB_NONE, act3(m, name, m->T, heads, d));
  nmb_op_attr_set(m->p, m->p->tensor[y].def, NMB_REAL("eps", 1e-6));
  return y;
}

static nmb_id
state(maker *m, const char *name, int rank, const int64_t *dim)
{
  return tensor(m, name, NMB_ROLE_STATE, NMB_DT_F32, 0, rank, dim);
}

nmb_id
stateful(maker *m, nmb_opcode code, int nin, const nmb_id *in, int at, nmb_id out)
{
  const nmb_tensor *s = &m->p->tensor[in[at]];
  const nmb_id next = state(m, s->name, s->rank, s->dim);
  nmb_op o = {.code = code, .block = m->block, .nout = 2, .out = {out, next}};
  for (int i = 0; i < nin; i++)
    if (in[i] != NMB_NONE)
      o.in[o.nin++] = in[i];
  return nmb_op_add(m->p, &o);
}

/* The causal convolution with its activation; the activation alone without taps. */
static nmb_id
conv(maker *m, const char *name, nmb_id x, int64_t heads, int64_t d)
{
  const nmb__mixer *t = &m->l->mixer;
  const int64_t n = heads * d;
  const nmb_id y = act3(m, name, m->T, heads, d);
  if (!t->taps)
    return pointwise(m, "silu", x, NMB_NONE, y);
  const char *w = nmb_format(m->run, "mixer.conv.%s", name);
  const nmb_id in[] = {x,
                       state(m, nmb_format(m->run, "state.conv.%s", name), 3,
                             (int64_t[]){m->batch, n, t->taps - 1}),
                       weight(m, w, NMB__W_NORM, 2, n, t->taps, 0),
                       t->conv_bias ? vector(m, nmb_format(m->run, "%s.bias", w), n)
                                    : NMB_NONE};
  const nmb_id op = stateful(m, NMB_OP_CONV, 4, in, 1, y);
  nmb_op_attr_set(m->p, op, NMB_SYM("fn", "silu"));
  return y;
}

/* The step: fn(x + bias), the bias as wide as a row. */
static nmb_id
step(maker *m, nmb_id x, int64_t heads, int64_t d)
{
  const nmb_id b = d > 1 ? weight(m, "mixer.dt_bias", NMB__W_NORM, 2, heads, d, 0)
                         : vector(m, "mixer.dt_bias", heads);
  const nmb_id y = d > 1 ? act3(m, "dt", m->T, heads, d) : act2(m, "dt", m->T, heads);
  op2(m, NMB_OP_ADD, x, b, y);
  if (m->l->mixer.bound < 0)
    return y; /* the scan bounds it */
  const nmb_id out =
      pointwise(m, "softplus", y, NMB_NONE,
                d > 1 ? act3(m, "dt", m->T, heads, d) : act2(m, "dt", m->T, heads));
  const nmb_attr limit[] = {NMB_REAL("low", m->l->mixer.step_low),
                            NMB_REAL("high", m->l->mixer.step_high)};
  for (int i = 0; i < 2; i++)
    if (limit[i].r > 0)
      nmb_op_attr_set(m->p, m->p->tensor[out].def, limit[i]);
  return out;
}

/* ------------------------------------------------------------------ inputs */
/* Mamba: step, keys and queries come from the value, by low-rank projections. */
static inputs
mamba_streams(maker *m, nmb_id x)
{
  const nmb__mixer *t = &m->l->mixer;
  const int64_t di = t->heads;
  inputs s = {.v = conv(m, "x", project(m, "x", x, di, 1, 1), di, 1)};
  const char *const name[] = {"dt_down", "b", "c"};
  const int64_t n[] = {t->rank, t->dk, t->dk};
  nmb_id y[3];
  for (int i = 0; i < 3; i++) {
    y[i] = linear(m, nmb_format(m->run, "mixer.%s", name[i]), NMB__W_MIXER, s.v, n[i], di,
                  false, act3(m, name[i], m->T, 1, n[i]));
    if (t->inner_norm != NMB__INNER_NONE) {
      y[i] = rms(m, "rms", y[i],
                 t->inner_norm == NMB__INNER_LEARNED
                     ? vector(m, nmb_format(m->run, "mixer.%s_norm", name[i]), n[i])
                     : NMB_NONE,
                 act3(m, name[i], m->T, 1, n[i]));
      own_eps(m, y[i], t->inner_eps);
    }
  }
  s.k = y[1];
  s.q = y[2];
  s.dt = s.beta = step(m,
                       linear(m, "mixer.dt_up", NMB__W_MIXER, y[0], di, t->rank, false,
                              act2(m, "dt", m->T, di)),
                       di, 1);
  s.a = weight(m, "mixer.a_log", NMB__W_NORM, 2, di, t->dk, 0);
  return s;
}

static inputs
ssd_streams(maker *m, nmb_id x)
{
  const nmb__mixer *t = &m->l->mixer;
  const int64_t h = t->heads, g = t->groups;
  inputs s;
  s.v = conv(m, "x", project(m, "x", x, h, t->dv, t->x_scale), h, t->dv);
  s.k = conv(m, "b", project(m, "b", x, g, t->dk, t->b_scale), g, t->dk);
  s.q = conv(m, "c", project(m, "c", x, g, t->dk, t->c_scale), g, t->dk);
  const nmb_id dt = linear(m, "mixer.dt", NMB__W_MIXER, x, h, m->a->hidden, t->bias,
                           act2(m, "dt", m->T, h));
  scaled(m, dt, t->dt_scale);
  s.dt = s.beta = step(m, dt, h, 1);
  s.a = vector(m, "mixer.a_log", h);
  return s;
}

static nmb_id
low_rank(maker *m, const char *name, nmb_id x, int64_t rank, int64_t heads, int64_t d)
{
  const char *down = nmb_format(m->run, "%s_down", name),
             *up = nmb_format(m->run, "mixer.%s_up", name);
  const nmb_id y = linear(m, nmb_format(m->run, "mixer.%s", down), NMB__W_MIXER, x, rank,
                          m->a->hidden, false, act2(m, down, m->T, rank));
  return linear(m, up, NMB__W_MIXER, y, heads * d, rank, false,
                act3(m, name, m->T, heads, d));
}

/* Gated DeltaNet, one decay a head; Kimi's, one for each component of a key. */
static inputs
delta_streams(maker *m, nmb_id x)
{
  const nmb__mixer *t = &m->l->mixer;
  const int64_t h = t->heads, g = t->groups;
  inputs s;
  s.q = unit(m, "q", conv(m, "q", project(m, "q", x, g, t->dk, 1), g, t->dk), g, t->dk);
  s.k = unit(m, "k", conv(m, "k", project(m, "k", x, g, t->dk, 1), g, t->dk), g, t->dk);
  s.v = conv(m, "v", project(m, "v", x, h, t->dv, 1), h, t->dv);
  if (t->kind == NMB__MIX_KDA)
    s.dt = step(m, low_rank(m, "dt", x, t->rank, h, t->dk), h, t->dk);
  else
    s.dt = step(m,
                linear(m, "mixer.dt", NMB__W_MIXER, x, h, m->a->hidden, false,
                       act2(m, "dt", m->T, h)),
                h, 1);
  s.beta = pointwise(m, "sigmoid",
                     linear(m, "mixer.beta", NMB__W_MIXER, x, h, m->a->hidden, false,
                            act2(m, "beta", m->T, h)),
                     NMB_NONE, act2(m, "beta", m->T, h));
  s.a = vector(m, "mixer.a_log", h);
  return s;
}

/* Decay is a constant of layer and head; it is in no file. */
static inputs
lightning_streams(maker *m, nmb_id x)
{
  const nmb__mixer *t = &m->l->mixer;
  const int64_t h = t->heads;
  inputs s = {.dt = NMB_NONE, .beta = NMB_NONE};
  s.q = conv(m, "q", project(m, "q", x, h, t->dk, 1), h, t->dk);
  s.k = conv(m, "k", project(m, "k", x, h, t->dk, 1), h, t->dk);
  s.v = conv(m, "v", project(m, "v", x, h, t->dv, 1), h, t->dv);
  s.a = tensor(m, "mixer.slopes", NMB_ROLE_WEIGHT, NMB_DT_F32, 0, 1, &h);
  return s;
}

/* ------------------------------------------------------------------- update */
static nmb_id
scan(maker *m, const inputs *s)
{
  const nmb__mixer *t = &m->l->mixer;
  const bool delta = t->kind == NMB__MIX_DELTA || t->kind == NMB__MIX_KDA;
  const nmb_id out = act3(m, "y", m->T, t->heads, t->dv);
  const nmb_id in[] = {s->q,
                       s->k,
                       s->v,
                       state(m, "state.mixer", 4,
                             (int64_t[]){m->batch, t->heads, t->dv, t->dk}),
                       s->a,
                       s->dt,
                       s->beta};
  const nmb_id op = stateful(m, NMB_OP_SCAN, 7, in, 3, out);
  nmb_op_attr_set(m->p, op, NMB_SYM("decay", s->dt == NMB_NONE ? "log" : "alog"));
  if (delta) {
    nmb_op_attr_set(m->p, op, NMB_INT("delta", 1));
    nmb_op_attr_set(m->p, op, NMB_REAL("scale", 1 / sqrt((double)t->dk)));
  }
  if (t->bound < 0)
    nmb_op_attr_set(m->p, op, NMB_REAL("bound", t->bound));
  if (t->chunk > 1 && m->fresh > 1)
    nmb_op_attr_set(m->p, op, NMB_INT("chunk", t->chunk));
  return out;
}

static nmb_id
out_norm(maker *m, nmb_id y)
{
  const nmb__mixer *t = &m->l->mixer;
  const int64_t n = t->heads * t->dv, w = t->norm_width;
  const bool one = t->norm_shared || w == n;
  const nmb_id z = one ? rms(m, "rms", y, vector(m, "mixer.norm", w),
                             act3(m, "y", m->T, t->heads, t->dv))
                       : rms(m, "rms", y, NMB_NONE, act3(m, "y", m->T, n / w, w));
  own_eps(m, z, t->norm_eps);
  if (one)
    return z;
  return op2(m, NMB_OP_MUL, z, weight(m, "mixer.norm", NMB__W_NORM, 2, n / w, w, 0),
             act3(m, "y", m->T, n / w, w));
}

/* A group of columns that is normed together is a row of its own. */
static nmb_id
gated(maker *m, nmb_id y, nmb_id z)
{
  const nmb__mixer *t = &m->l->mixer;
  const int64_t n = t->heads * t->dv;
  const int64_t w = !t->norm_shared && t->norm_width ? t->norm_width : t->dv;
  const bool rows = w < n && !t->norm_shared;
  const char *fn = t->gate_act ? "sigmoid" : "silu";
  if (t->norm == NMB__MIXNORM_BEFORE)
    y = out_norm(m, y);
  y = pointwise(m, fn, z, y,
                rows ? act3(m, "y", m->T, n / w, w) : act3(m, "y", m->T, t->heads, t->dv));
  return t->norm == NMB__MIXNORM_AFTER ? out_norm(m, y) : y;
}

/* LFM2 (arXiv:2511.23404): o(c * conv(b * x)), each from the input. */
static nmb_id
short_conv(maker *m, nmb_id x)
{
  const nmb__mixer *t = &m->l->mixer;
  const int64_t n = t->heads, H = m->a->hidden;
  const nmb_id b = project(m, "b", x, n, 1, 1), c = project(m, "c", x, n, 1, 1);
  const nmb_id v = op2(m, NMB_OP_MUL, b, project(m, "x", x, n, 1, 1),
                       act3(m, "x", m->T, n, 1));
  const nmb_id y = conv(m, "x", v, n, 1);
  nmb_op_attr_set(m->p, m->p->tensor[y].def, NMB_SYM("fn", "none"));
  const nmb_id z = op2(m, NMB_OP_MUL, c, y, act3(m, "y", m->T, n, 1));
  const nmb_id o = linear(m, "mixer.o", NMB__W_MIXER, z, H, n, t->o_bias,
                          act2(m, "o", m->T, H));
  scaled(m, o, t->out_scale * m->l->residual);
  return o;
}

nmb_id
nmb__build_mixer(maker *m, nmb_id x)
{
  const nmb__mixer *t = &m->l->mixer;
  if (t->kind == NMB__MIX_SHORT)
    return short_conv(m, x);
  const int64_t n = t->heads * t->dv, H = m->a->hidden;
  const bool groups = t->norm == NMB__MIXNORM_BEFORE && !t->norm_shared && t->norm_width < n;
  const nmb_id z = groups ? project(m, "z", x, n / t->norm_width, t->norm_width, t->z_scale)
                   : t->gate_rank ? low_rank(m, "z", x, t->gate_rank, t->heads, t->dv)
                                : project(m, "z", x, t->heads, t->dv, t->z_scale);
  inputs s;
  switch (t->kind) {
  case NMB__MIX_MAMBA: s = mamba_streams(m, x); break;
  case NMB__MIX_SSD: s = ssd_streams(m, x); break;
  case NMB__MIX_LIGHTNING: s = lightning_streams(m, x); break;
  default: s = delta_streams(m, x); break;
  }
  nmb_id y = scan(m, &s);
  if (t->kind == NMB__MIX_MAMBA || t->kind == NMB__MIX_SSD) {
    const nmb_id d = weight(m, "mixer.d", NMB__W_NORM, 2, t->heads, 1, 0);
    const nmb_id skip =
        op2(m, NMB_OP_MUL, s.v, d, act3(m, "skip", m->T, t->heads, t->dv));
    const int64_t w = groups ? t->norm_width : t->dv; /* a norm follows over these */
    y = op2(m, NMB_OP_ADD, y, skip, act3(m, "y", m->T, n / w, w));
  }
  y = gated(m, y, z);
  const nmb_id o = linear(m, "mixer.o", NMB__W_MIXER, y, H, n, t->o_bias,
                          act2(m, "o", m->T, H));
  scaled(m, o, t->out_scale * m->l->residual);
  return o;
}
