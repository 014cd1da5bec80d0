/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Weights and work of state mixers, by arithmetic. */
#include "frontend/counts.h"

/* Channels that pass the convolution. */
static int64_t
conv_channels(const nmb__mixer *t)
{
  const int64_t v = t->heads * t->dv;
  return t->kind == NMB__MIX_MAMBA || t->kind == NMB__MIX_SHORT ||
                 t->kind == NMB__MIX_RGLRU
             ? v : v + 2 * t->groups * t->dk;
}

int64_t
nmb__state_elements(const nmb__mixer *t)
{
  if (!t->kind)
    return 0;
  if (nmb__is_rwkv(t)) /* and the last input of each of the two parts */
    return t->heads * t->dv * (t->dk + 2);
  return (t->kind == NMB__MIX_SHORT ? 0 : t->heads * t->dv * t->dk) +
         (t->taps ? conv_channels(t) * (t->taps - 1) : 0);
}

double
nmb__mixer_macs(const nmb__mixer *t, int64_t fresh)
{
  if (!t->kind)
    return 0;
  if (t->kind == NMB__MIX_RWKV4 || t->kind == NMB__MIX_SHORT ||
      t->kind == NMB__MIX_RGLRU)
    return 0; /* exponentials, no products of matrices */
  if (t->kind == NMB__MIX_RWKV7)
    return 4 * (double)(t->heads * t->dk * t->dv) * (double)fresh;
  const bool delta = t->kind == NMB__MIX_DELTA || t->kind == NMB__MIX_KDA;
  const double k = (double)t->dk, v = (double)t->dv, n = (double)fresh;
  double one = n * k * v * (delta ? 3 : 2);
  if (t->chunk > 1 && fresh > 1) { /* squares of the blocks, the last one cut */
    const double c = (double)t->chunk, tail = (double)(fresh % t->chunk);
    const double squares = (double)(fresh / t->chunk) * c * c + tail * tail;
    one += squares * (delta ? 3 * k + 2 * v : k + v);
  }
  return (double)t->heads * one;
}

/* ----------------------------------------------------------------- weights */
typedef struct list {
  nmb_run *run;
  const nmb__mixer *t;
  nmb__piece_sink sink;
  void *to;
  int64_t hidden;
} list;

static void
piece(const list *s, const char *name, nmb__use use, nmb__class c, int64_t rows,
      int64_t cols)
{
  s->sink(s->to, nmb_format(s->run, "mixer.%s", name), use, c, rows, cols);
}

static void
vec(const list *s, const char *name, int64_t n)
{
  piece(s, name, NMB__USE_VECTOR, NMB__W_NORM, n, 1);
}

static void
matrix(const list *s, const char *name, int64_t rows, int64_t cols, bool bias)
{
  piece(s, name, NMB__USE_TOKEN, NMB__W_MIXER, rows, cols);
  if (bias)
    vec(s, nmb_format(s->run, "%s.bias", name), rows);
}

/* A projection of the input and the convolution of its columns. */
static void
convolved(const list *s, const char *name, int64_t n, bool conv)
{
  const nmb__mixer *t = s->t;
  const char *c = nmb_format(s->run, "conv.%s", name);
  matrix(s, name, n, s->hidden, t->bias);
  if (!conv || !t->taps)
    return;
  piece(s, c, NMB__USE_TOKEN, NMB__W_NORM, n, t->taps);
  if (t->conv_bias)
    vec(s, nmb_format(s->run, "%s.bias", c), n);
}

static void
mamba(const list *s)
{
  const nmb__mixer *t = s->t;
  const int64_t di = t->heads;
  convolved(s, "x", di, true);
  matrix(s, "dt_down", t->rank, di, false);
  matrix(s, "b", t->dk, di, false);
  matrix(s, "c", t->dk, di, false);
  if (t->inner_norm == NMB__INNER_LEARNED) {
    vec(s, "dt_down_norm", t->rank);
    vec(s, "b_norm", t->dk);
    vec(s, "c_norm", t->dk);
  }
  matrix(s, "dt_up", di, t->rank, false);
  vec(s, "dt_bias", di);
  vec(s, "a_log", di * t->dk);
  vec(s, "d", di);
}

static void
qkv(const list *s, const char *q, const char *k, const char *v)
{
  const nmb__mixer *t = s->t;
  convolved(s, q, t->groups * t->dk, true);
  convolved(s, k, t->groups * t->dk, true);
  convolved(s, v, t->heads * t->dv, true);
}

static void
delta(const list *s)
{
  const nmb__mixer *t = s->t;
  const int64_t n = t->heads * (t->kind == NMB__MIX_KDA ? t->dk : 1);
  qkv(s, "q", "k", "v");
  if (t->kind == NMB__MIX_KDA) {
    matrix(s, "dt_down", t->rank, s->hidden, false);
    matrix(s, "dt_up", n, t->rank, false);
  } else
    matrix(s, "dt", n, s->hidden, false);
  vec(s, "dt_bias", n);
  vec(s, "a_log", t->heads);
  matrix(s, "beta", t->heads, s->hidden, false);
}

/* Tokens are mixed with those before them by constant taps. */
static void
shifted(const list *s, const char *prefix, const char *letters)
{
  s->sink(s->to, nmb_format(s->run, "%s.shift", prefix), NMB__USE_TAPS, NMB__W_SELECT,
          s->hidden, 2);
  for (; *letters; letters++)
    s->sink(s->to, nmb_format(s->run, "%s.mix.%c", prefix, *letters), NMB__USE_VECTOR,
            NMB__W_NORM, s->hidden, 1);
}

static void
rwkv(const list *s)
{
  const int64_t H = s->hidden;
  const nmb__mixer *t = s->t;
  const bool seven = t->kind == NMB__MIX_RWKV7, six = t->kind == NMB__MIX_RWKV6;
  const struct {
    const char *name;
    int64_t rank;
    bool bias;
  } low[] = {{"w", t->rank, true},
             {"a", t->a_rank, true},
             {"gate", t->gate_rank, false},
             {"blend", t->v_rank, true}};
  shifted(s, "mixer", seven ? "rwkvag" : six ? "x" : "kvr");
  matrix(s, "r", H, H, false);
  matrix(s, "k", H, H, false);
  matrix(s, "v", H, H, false);
  matrix(s, "o", H, H, false);
  if (six) { /* shares of the token before, by a low rank */
    matrix(s, "mix_down", 5 * t->a_rank, H, false);
    for (const char *c = "wkvrg"; *c; c++)
      matrix(s, nmb_format(s->run, "mix_up.%c", *c), H, t->a_rank, true);
    matrix(s, "g", H, H, false);
    matrix(s, "w_down", t->rank, H, false);
    matrix(s, "w_up", H, t->rank, true);
  } else if (!seven) {
    vec(s, "decay", H);
    vec(s, "first", H);
    return;
  }
  for (size_t i = 0; seven && i < sizeof low / sizeof *low; i++)
    if (low[i].rank) {
      matrix(s, nmb_format(s->run, "%s_down", low[i].name), low[i].rank, H, false);
      matrix(s, nmb_format(s->run, "%s_up", low[i].name), H, low[i].rank, low[i].bias);
    }
  if (seven) {
    vec(s, "k_k", H);
    vec(s, "k_a", H);
  }
  piece(s, "zero", NMB__USE_CONSTANT, NMB__W_SELECT, t->heads, 1);
  piece(s, "bonus", NMB__USE_TOKEN, NMB__W_NORM, t->heads, t->dk);
  vec(s, "norm", H);
  vec(s, "norm.bias", H);
}

void
nmb__channel_pieces(nmb_run *run, const nmb__mixer *t, int64_t hidden,
                    nmb__piece_sink sink, void *to)
{
  const list s = {run, t, sink, to, hidden};
  const bool gate = t->kind != NMB__MIX_RWKV7;
  shifted(&s, "ffn", gate ? "kr" : "k");
  if (gate)
    sink(to, "ffn.gate", NMB__USE_TOKEN, NMB__W_FFN, hidden, hidden);
}

void
nmb__mixer_pieces(nmb_run *run, const nmb__mixer *t, int64_t hidden, nmb__piece_sink sink,
                  void *to)
{
  const list s = {run, t, sink, to, hidden};
  const int64_t n = t->heads * t->dv;
  if (nmb__is_rwkv(t)) {
    rwkv(&s);
    return;
  }
  if (t->kind == NMB__MIX_SHORT) {
    matrix(&s, "b", n, hidden, t->bias);
    matrix(&s, "c", n, hidden, t->bias);
    convolved(&s, "x", n, true);
    matrix(&s, "o", hidden, n, t->o_bias);
    return;
  }
  if (t->kind == NMB__MIX_RGLRU) { /* gates are block diagonal, a block a head */
    matrix(&s, "z", n, hidden, true);
    matrix(&s, "x", n, hidden, true);
    piece(&s, "conv.x", NMB__USE_TOKEN, NMB__W_NORM, n, t->taps);
    vec(&s, "conv.x.bias", n);
    matrix(&s, "gate_in", n, n / t->groups, true);
    matrix(&s, "gate_decay", n, n / t->groups, true);
    vec(&s, "decay", n);
    matrix(&s, "o", hidden, n, true);
    return;
  }
  switch (t->kind) {
  case NMB__MIX_MAMBA: mamba(&s); break;
  case NMB__MIX_SSD:
    qkv(&s, "c", "b", "x");
    matrix(&s, "dt", t->heads, hidden, t->bias);
    vec(&s, "dt_bias", t->heads);
    vec(&s, "a_log", t->heads);
    vec(&s, "d", t->heads);
    break;
  case NMB__MIX_LIGHTNING:
    qkv(&s, "q", "k", "v");
    piece(&s, "slopes", NMB__USE_CONSTANT, NMB__W_SELECT, t->heads, 1);
    break;
  default: delta(&s); break;
  }
  if (t->gate_rank) {
    matrix(&s, "z_down", t->gate_rank, hidden, false);
    matrix(&s, "z_up", n, t->gate_rank, false);
  } else
    matrix(&s, "z", n, hidden, t->bias);
  if (t->norm != NMB__MIXNORM_NONE)
    vec(&s, "norm", t->norm_shared ? t->dv : n);
  matrix(&s, "o", hidden, n, t->o_bias);
}
