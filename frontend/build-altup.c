/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Gemma 3n and the small Gemma 4 models -> graph: several streams of which a layer computes
 * one (AltUp, arXiv:2301.13310), a learned residual (LAuReL, arXiv:2411.07501) and
 * embeddings of each layer's own, which are made from the token and from the model's
 * embedding of it.  The hidden state of a token is its streams side by side, and behind
 * them that embedding.  Formulas: modelling code in Hugging Face transformers. */
#include <math.h>

#include "frontend/build.h"

/* Least mean square that a stream is scaled by (the same code). */
#define LEAST_SQUARE 1e-5

static int64_t
streams(const maker *m)
{
  return m->l->altup ? m->l->altup : 1;
}

int64_t
nmb__altup_width(const maker *m)
{
  const int64_t H = m->a->hidden;
  return streams(m) * H + (m->l->ple ? H : 0);
}

static nmb_id
hidden(maker *m, const char *name)
{
  return act2(m, name, m->T, m->a->hidden);
}

static nmb_id
times(maker *m, nmb_id x, double factor, nmb_id out)
{
  pointwise(m, "none", x, NMB_NONE, out);
  scaled(m, out, factor);
  return out;
}

/* `factor` times x, made as large as `like` is: by the roots of mean squares. */
static nmb_id
as_large(maker *m, nmb_id x, nmb_id like, double factor, nmb_id out)
{
  const nmb_id op = op_add(m, NMB_OP_NORM, 2, (nmb_id[]){x, like}, out);
  nmb_op_attr_set(m->p, op, NMB_SYM("kind", "like"));
  nmb_op_attr_set(m->p, op, NMB_REAL("eps", LEAST_SQUARE));
  scaled(m, out, factor);
  return out;
}

/* ----------------------------------------------------------------- the ends */
nmb_id
nmb__altup_spread(maker *m, nmb_id e)
{
  const int64_t H = m->a->hidden;
  nmb_id h = e;
  if (m->l->ple) /* of all layers, which have it from here */
    vector(m, "ple.norm", m->l->ple);
  for (int64_t i = 1; i < streams(m); i++) {
    nmb_id x = linear(m, nmb_format(m->run, "embed.stream%d", (int)i), NMB__W_STREAM, e, H,
                      H, false, hidden(m, "stream"));
    x = as_large(m, x, e, 1, hidden(m, "stream"));
    h = op2(m, NMB_OP_CONCAT, h, x, act2(m, "h", m->T, (i + 1) * H));
  }
  return m->l->ple ? op2(m, NMB_OP_CONCAT, h, e, act2(m, "h", m->T, nmb__altup_width(m)))
                   : h;
}

nmb_id
nmb__altup_join(maker *m, nmb_id h)
{
  const int64_t H = m->a->hidden, B = m->batch, n = streams(m);
  const nmb_id first = split(m, h, 0, H, act2(m, "last", B, H));
  nmb_id sum = first;
  for (int64_t i = 1; i < n; i++) {
    nmb_id x = split(m, h, i * H, H, act2(m, "stream", B, H));
    x = linear(m, nmb_format(m->run, "head.stream%d", (int)i), NMB__W_STREAM, x, H, H,
               false, act2(m, "stream", B, H));
    x = as_large(m, x, first, 1 / (double)n, act2(m, "stream", B, H));
    sum = op2(m, NMB_OP_ADD, sum, x, act2(m, "last", B, H));
    if (i == 1)
      scaled(m, sum, 1 / (double)n);
  }
  return sum;
}

/* ------------------------------------------------------- a layer's embedding */
/* [T,ple], from the token and its embedding e. */
static nmb_id
own_embedding(maker *m, nmb_id e)
{
  const nmb__layer *l = m->l;
  const int64_t H = m->a->hidden, n = l->ple;
  const nmb_id ids = tensor(m, "ids", NMB_ROLE_INPUT, NMB_DT_I32, 0, 1, &m->T);
  const nmb_id table = weight(m, "ple.table", NMB__W_NORM, 2, l->ple_rows, n, 0);
  const nmb_id t = op2(m, NMB_OP_EMBED, ids, table, act2(m, "ple", m->T, n));
  scaled(m, t, sqrt((double)n / 2));
  if (l->ple_rows < m->a->vocab) /* tokens that have none take the first */
    nmb_op_attr_set(m->p, m->p->tensor[t].def, NMB_INT("beyond", 0));
  nmb_id x = linear(m, "ple.model", NMB__W_STREAM, e, n, H, false, act2(m, "ple", m->T, n));
  scaled(m, x, 1 / sqrt((double)H));
  const nmb_id in[2] = {x, nmb__mk_lent(m, 0, "ple.norm")};
  x = act2(m, "ple", m->T, n);
  const nmb_id op = op_add(m, NMB_OP_NORM, 2, in, x);
  nmb_op_attr_set(m->p, op, NMB_SYM("kind", "rms"));
  nmb_op_attr_set(m->p, op, NMB_REAL("eps", l->eps));
  const nmb_id y = op2(m, NMB_OP_ADD, x, t, act2(m, "ple", m->T, n));
  scaled(m, y, sqrt(0.5));
  return y;
}

/* What the embedding adds, gated by x. */
static nmb_id
gated_embedding(maker *m, nmb_id x, nmb_id e)
{
  const int64_t H = m->a->hidden, n = m->l->ple;
  const nmb_id own = own_embedding(m, e);
  const nmb_id g = linear(m, "ple.gate", NMB__W_STREAM, x, n, H, false,
                          act2(m, "gate", m->T, n));
  const nmb_id y = pointwise(m, nmb__act_name(m->l->ffn.act), g, own,
                             act2(m, "inner", m->T, n));
  return norm(m, "ple.post_norm",
              linear(m, "ple.up", NMB__W_STREAM, y, H, n, false, hidden(m, "o")), H,
              hidden(m, "o"));
}

/* ---------------------------------------------------------------- one stream */
nmb_id
nmb__altup_plain(maker *m, nmb_id in, nmb_id (*body)(maker *, nmb_id x))
{
  const int64_t H = m->a->hidden;
  const nmb_id e = split(m, in, H, H, hidden(m, "e"));
  nmb_id h = body(m, split(m, in, 0, H, hidden(m, "h")));
  h = op2(m, NMB_OP_ADD, h, gated_embedding(m, h, e), hidden(m, "h"));
  if (m->l->scalar)
    h = op2(m, NMB_OP_MUL, h, vector(m, "layer.scalar", 1), hidden(m, "h"));
  return op2(m, NMB_OP_CONCAT, h, e, act2(m, "h", m->T, 2 * H));
}

/* ------------------------------------------------------------------- streams */
static nmb_id
mix(maker *m, nmb_id w, nmb_id x, int64_t n)
{
  const nmb_id y = act3(m, "streams", m->T, streams(m), m->a->hidden);
  const nmb_id op = op_add(m, NMB_OP_MIX, 2, (nmb_id[]){w, x}, y);
  nmb_op_attr_set(m->p, op, NMB_INT("streams", n));
  return y;
}

/* Coefficients of `rows` mixtures: how x scores, by a second matrix. */
static nmb_id
coefficients(maker *m, const char *name, nmb_id router[2], nmb_id x, int64_t rows)
{
  const int64_t H = m->a->hidden, n = streams(m);
  const nmb_id in[2] = {x, router[0]}, y = hidden(m, "x");
  const nmb_id op = op_add(m, NMB_OP_NORM, 2, in, y), s = act2(m, "modes", m->T, n);
  nmb_op_attr_set(m->p, op, NMB_SYM("kind", "rms"));
  nmb_op_attr_set(m->p, op, NMB_REAL("eps", m->l->eps));
  op2(m, NMB_OP_LINEAR, y, router[1], s);
  scaled(m, s, 1 / (double)H);
  const nmb_id t = pointwise(m, "tanh", s, NMB_NONE, act2(m, "modes", m->T, n));
  return linear(m, name, NMB__W_STREAM, t, rows, n, false, act2(m, "mixture", m->T, rows));
}

/* h, normed, and a low rank of it. */
static nmb_id
laurel(maker *m, nmb_id x)
{
  const int64_t H = m->a->hidden, r = m->l->laurel;
  nmb_id y = linear(m, "laurel.left", NMB__W_STREAM, x, r, H, false,
                    act2(m, "laurel", m->T, r));
  y = linear(m, "laurel.right", NMB__W_STREAM, y, H, r, false, hidden(m, "laurel"));
  y = norm(m, "laurel.norm", y, H, hidden(m, "laurel"));
  return op2(m, NMB_OP_ADD, x, y, hidden(m, "laurel"));
}

/* Attention and network on the stream at work. */
static nmb_id
computed(maker *m, nmb_id h, nmb_id (*attend)(maker *, nmb_id),
         nmb_id (*network)(maker *, nmb_id))
{
  const int64_t H = m->a->hidden;
  const nmb_id x = norm(m, "attn.norm", h, H, hidden(m, "x"));
  const nmb_id side = m->l->laurel ? laurel(m, x) : NMB_NONE;
  nmb_id y = norm(m, "attn.post_norm", attend(m, x), H, hidden(m, "x"));
  y = op2(m, NMB_OP_ADD, h, y, hidden(m, "h"));
  if (side != NMB_NONE) {
    y = op2(m, NMB_OP_ADD, y, side, hidden(m, "h"));
    y = times(m, y, sqrt(0.5), hidden(m, "h"));
  }
  const nmb_id z = network(m, norm(m, "ffn.norm", y, H, hidden(m, "x")));
  return op2(m, NMB_OP_ADD, y, norm(m, "ffn.post_norm", z, H, hidden(m, "x")),
             hidden(m, "h"));
}

/* All but the first stream take what the layer's embedding adds. */
static nmb_id
embedded(maker *m, nmb_id all, nmb_id e, nmb_id scale)
{
  const nmb__layer *l = m->l;
  const int64_t H = m->a->hidden, n = l->altup;
  nmb_id x = split(m, all, l->altup_active * H, H, hidden(m, "x"));
  if (l->altup_scale)
    x = op2(m, NMB_OP_MUL, x, scale, hidden(m, "x"));
  const nmb_id add = gated_embedding(m, x, e);
  const nmb_id first = split(m, all, 0, H, hidden(m, "h"));
  nmb_id rest = split(m, all, H, (n - 1) * H, act3(m, "rest", m->T, n - 1, H));
  nmb_id one = split(m, add, 0, H, act3(m, "one", m->T, 1, H));
  rest = op2(m, NMB_OP_ADD, rest, one, act3(m, "rest", m->T, n - 1, H));
  return op2(m, NMB_OP_CONCAT, first, rest, act2(m, "h", m->T, n * H));
}

nmb_id
nmb__altup_layer(maker *m, nmb_id in, nmb_id (*attend)(maker *, nmb_id),
                 nmb_id (*network)(maker *, nmb_id))
{
  const nmb__layer *l = m->l;
  const int64_t H = m->a->hidden, n = l->altup;
  nmb_id router[2] = {vector(m, "altup.norm", H),
                      weight(m, "altup.router", NMB__W_STREAM, 2, n, H, 0)};
  const nmb_id all = split(m, in, 0, n * H, act3(m, "streams", m->T, n, H));
  const nmb_id old = split(m, in, l->altup_active * H, H, hidden(m, "x"));
  nmb_id c = coefficients(m, "altup.predict", router, old, n * n);
  const nmb_id predicted = op2(m, NMB_OP_ADD, mix(m, c, all, n), all,
                               act2(m, "streams", m->T, n * H));
  const nmb_id active = split(m, predicted, l->altup_active * H, H, hidden(m, "h"));
  const nmb_id made = computed(m, active, attend, network);
  c = coefficients(m, "altup.correct", router, made, n);
  const nmb_id share = pointwise(m, "none", c, NMB_NONE, act2(m, "mixture", m->T, n));
  nmb_op_attr_set(m->p, m->p->tensor[share].def, NMB_REAL("shift", 1));
  const nmb_id news = op2(m, NMB_OP_ADD, active, made, hidden(m, "news"));
  scaled(m, news, -1);
  nmb_id out = op2(m, NMB_OP_ADD, predicted, mix(m, share, news, 1),
                   act2(m, "streams", m->T, n * H));
  const nmb_id scale = vector(m, "altup.scale", H);
  if (!l->ple) /* the file has it all the same */
    return out;
  const nmb_id e = split(m, in, n * H, H, hidden(m, "e"));
  return op2(m, NMB_OP_CONCAT, embedded(m, out, e, scale), e,
             act2(m, "h", m->T, (n + 1) * H));
}
