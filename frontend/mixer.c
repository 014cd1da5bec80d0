/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Which layers hold a state mixer, and what it is. */
#include <string.h>

#include "frontend/arch.h"

static const char *const mixer_names[] = {"none",  "mamba", "ssd",
                                          "delta", "kda",   "lightning",
                                          "rwkv4", "rwkv6", "rwkv7", "shortconv", "rglru"};

const char *
nmb__mixer_name(int64_t kind)
{
  return mixer_names[kind];
}

/* ------------------------------------------------------------ kinds of layers */
static nmb_status
kind_bad(const builder *b, nmb__field f, int64_t layer, const char *found)
{
  return nmb_fail(b->run, NMB_UNSUPPORTED, nmb__place(b, f),
                  "%s.%ld: found %s, which is no kind of layer of the family '%s'",
                  nmb__spelled(b, f), (long)layer, found, b->c.family);
}

/* A letter a layer: M(amba), * (attention), - (dense network), E(xperts). */
static nmb_status
by_pattern(const builder *b, int64_t layer, unsigned *out)
{
  const char *s = S(b, MIX_PATTERN);
  static const char letters[] = "M*-E";
  static const unsigned holds[] = {NMB__HOLDS_MIXER, NMB__HOLDS_ATTN, NMB__HOLDS_DENSE,
                                   NMB__HOLDS_MOE};
  if (strlen(s) != (size_t)b->a->nlayer)
    return nmb_fail(b->run, NMB_BADINPUT, nmb__place(b, NMB__F_MIX_PATTERN),
                    "%s: found %zu letters, expected %ld",
                    nmb__spelled(b, NMB__F_MIX_PATTERN), strlen(s), (long)b->a->nlayer);
  const char *at = strchr(letters, s[layer]);
  if (!at)
    return kind_bad(b, NMB__F_MIX_PATTERN, layer, nmb_format(b->run, "'%c'", s[layer]));
  *out = holds[at - letters];
  return NMB_OK;
}

/* A word a layer.  one: it is all that the layer holds. */
static nmb_status
by_words(const builder *b, int64_t layer, unsigned *out)
{
  static const struct {
    const char *word;
    unsigned holds;
  } words[] = {{"mamba", NMB__HOLDS_MIXER},          {"mamba2", NMB__HOLDS_MIXER},
               {"linear_attention", NMB__HOLDS_MIXER}, {"attention", NMB__HOLDS_ATTN},
               {"full_attention", NMB__HOLDS_ATTN}, {"conv", NMB__HOLDS_MIXER}, {"recurrent", NMB__HOLDS_MIXER},  {"mlp", NMB__HOLDS_DENSE},
               {"moe", NMB__HOLDS_MOE}};
  const json_t *v = NULL, *cycle = J(b, LAYER_CYCLE);
  if (json_array_size(cycle))
    v = json_array_get(cycle, (size_t)layer % json_array_size(cycle));
  else
    NMB_TRY(nmb__list_at(b, NMB__F_LAYER_TYPES, layer, &v));
  const char *s = json_string_value(v);
  for (size_t i = 0; s && i < sizeof words / sizeof *words; i++)
    if (!strcmp(words[i].word, s)) {
      *out = words[i].holds;
      return NMB_OK;
    }
  return kind_bad(b, NMB__F_LAYER_TYPES, layer, nmb__json_show(b->run, v));
}

/* Numbers of layers: with a mixer, the first being 1, or with attention, from 0. */
static nmb_status
by_numbers(const builder *b, int64_t layer, unsigned *out)
{
  const bool attn = !J(b, MIX_LAYERS);
  const nmb__field f = attn ? NMB__F_ATTN_LAYERS : NMB__F_MIX_LAYERS;
  const json_t *j = b->c.set[f].j;
  const int64_t first = attn ? 0 : 1;
  *out = attn ? NMB__HOLDS_MIXER : NMB__HOLDS_ATTN;
  for (size_t i = 0; i < json_array_size(j); i++) {
    const json_t *v = json_array_get(j, i);
    const int64_t n = json_integer_value(v) - first;
    if (!json_is_integer(v) || n < 0 || n >= b->a->nlayer)
      return nmb_fail(b->run, NMB_BADINPUT, nmb__place(b, f),
                      "%s.%zu: found %s, expected the number of a layer from %d on",
                      nmb__spelled(b, f), i, nmb__json_show(b->run, v), (int)first);
    if (n == layer)
      *out = attn ? NMB__HOLDS_ATTN : NMB__HOLDS_MIXER;
  }
  return NMB_OK;
}

/* 0 for a mixer, 1 for attention. */
static nmb_status
by_list(const builder *b, int64_t layer, unsigned *out)
{
  const json_t *v = NULL;
  NMB_TRY(nmb__list_at(b, NMB__F_MIX_LIST, layer, &v));
  if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) > 1)
    return kind_bad(b, NMB__F_MIX_LIST, layer, nmb__json_show(b->run, v));
  *out = json_integer_value(v) ? NMB__HOLDS_ATTN : NMB__HOLDS_MIXER;
  return NMB_OK;
}

nmb_status
nmb__holds_resolve(const builder *b, int64_t layer, unsigned *out)
{
  const int64_t every = I(b, ATTN_EVERY), off = I(b, ATTN_OFFSET);
  const unsigned ffn = I(b, MIX_ALONE) ? 0 : NMB__HOLDS_FFN;
  *out = NMB__HOLDS_ATTN;
  if (!strcmp(S(b, MIXER), "none"))
    ;
  else if (*S(b, MIX_PATTERN))
    return by_pattern(b, layer, out);
  else if (J(b, LAYER_TYPES) || J(b, LAYER_CYCLE))
    NMB_TRY(by_words(b, layer, out));
  else if (J(b, MIX_LIST))
    NMB_TRY(by_list(b, layer, out));
  else if (J(b, MIX_LAYERS) || J(b, ATTN_LAYERS))
    NMB_TRY(by_numbers(b, layer, out));
  else if (I(b, MIX_BESIDE))
    *out = NMB__HOLDS_MIXER | NMB__HOLDS_ATTN;
  else if (!every || layer % every != (off < 0 ? every - 1 : off % every))
    *out = NMB__HOLDS_MIXER;
  *out |= ffn;
  return NMB_OK;
}

/* -------------------------------------------------------------------- mixers */
/* A list of n factors; all 1 where it is absent. */
static nmb_status
factors(const builder *b, nmb__field f, const json_t *j, int n, double *out)
{
  for (int i = 0; i < n; i++) {
    const json_t *v = json_array_get(j, (size_t)i);
    out[i] = j ? json_number_value(v) : 1;
    if (j && (json_array_size(j) != (size_t)n || !json_is_number(v) ||
              !(out[i] > 1e-9 && out[i] < 1e9)))
      return nmb_fail(b->run, NMB_BADINPUT, nmb__place(b, f),
                      "%s: found %s, expected %d factors above 0", nmb__spelled(b, f),
                      nmb__json_show(b->run, j), n);
  }
  return NMB_OK;
}

/* Heads and their widths, each from the others where it is not given. */
static nmb_status
widths_resolve(const builder *b, nmb__mixer *t)
{
  const int64_t inner =
      I(b, MIX_INNER) ? I(b, MIX_INNER) : (int64_t)(R(b, MIX_EXPAND) * (double)b->a->hidden);
  t->dk = I(b, MIX_STATE);
  t->dv = I(b, MIX_HEAD_DIM);
  t->heads = I(b, MIX_HEADS);
  if (t->kind == NMB__MIX_MAMBA) {
    t->dv = t->groups = 1;
    t->heads = inner;
  } else if (t->kind == NMB__MIX_RGLRU) { /* one number a channel */
    t->heads = inner;
    t->dv = t->dk = 1;
  } else if (t->kind == NMB__MIX_SHORT) { /* no state but the convolution's */
    t->heads = b->a->hidden;
    t->dv = 1;
  } else if (t->kind == NMB__MIX_RWKV4) { /* three numbers a channel */
    t->heads = b->a->hidden;
    t->dv = 1;
    t->dk = 3;
  } else if (t->kind == NMB__MIX_LIGHTNING) { /* the heads of attention */
    t->heads = I(b, HEADS);
    if (I(b, HEAD_DIM))
      t->dv = I(b, HEAD_DIM);
    else if (t->heads)
      t->dv = b->a->hidden / t->heads;
  } else if (!t->heads && t->dv)
    t->heads = inner / t->dv;
  else if (!t->dv && t->heads)
    t->dv = inner / t->heads;
  if (!t->dk)
    t->dk = t->dv;
  if (t->kind != NMB__MIX_MAMBA)
    t->groups = t->kind == NMB__MIX_RGLRU ? I(b, HEADS)
                : I(b, MIX_GROUPS)        ? I(b, MIX_GROUPS)
                                          : t->heads;
  if (t->groups < 1)
    return nmb__need(b, NMB__F_HEADS);
  if (t->heads < 1 || t->dk < 1 || t->dv < 1)
    return nmb_fail(b->run, NMB_BADINPUT, b->top,
                    "a state of %ld heads of %ld x %ld, expected at least one of each",
                    (long)t->heads, (long)t->dv, (long)t->dk);
  if (nmb__is_rwkv(t) && t->heads * t->dv != b->a->hidden)
    return nmb_fail(b->run, NMB_BADINPUT, b->top,
                    "heads of %ld in a hidden width of %ld, expected a divisor",
                    (long)t->dv, (long)b->a->hidden);
  if (t->groups > t->heads || t->heads % t->groups)
    return nmb_fail(b->run, NMB_BADINPUT, nmb__place(b, NMB__F_MIX_GROUPS),
                    "%s is %ld, expected a divisor of the %ld heads of the state",
                    nmb__spelled(b, NMB__F_MIX_GROUPS), (long)t->groups, (long)t->heads);
  if (t->heads > INT64_C(1) << 22 || t->heads * t->dv > INT64_C(1) << 22 ||
      t->heads * t->dv * t->dk > INT64_C(1) << 32)
    return nmb_fail(b->run, NMB_BADINPUT, b->top,
                    "a state of %ld heads of %ld x %ld is too large", (long)t->heads,
                    (long)t->dv, (long)t->dk);
  return NMB_OK;
}

static nmb_status
norms_resolve(const builder *b, nmb__mixer *t)
{
  static const char *const norms[] = {"none", "after", "before"};
  static const char *const inner[] = {"none", "unit", "learned"};
  static const char *const gates[] = {"silu", "sigmoid"};
  NMB_TRY(nmb__choose(b, NMB__F_MIX_NORM, norms, 3, &t->norm));
  if (!I(b, MIX_NORM_ON))
    t->norm = NMB__MIXNORM_NONE;
  else if (t->norm == NMB__MIXNORM_AFTER && I(b, MIX_NORM_BEFORE))
    t->norm = NMB__MIXNORM_BEFORE;
  t->norm_shared = I(b, MIX_NORM_HEAD);
  t->norm_width = t->norm_shared           ? t->dv
                  : I(b, MIX_NORM_GROUPED) ? t->heads * t->dv / t->groups
                                           : t->heads * t->dv;
  if (t->norm == NMB__MIXNORM_NONE)
    t->norm_shared = t->norm_width = 0;
  NMB_TRY(nmb__choose(b, NMB__F_MIX_INNER_NORM, inner, 3, &t->inner_norm));
  return nmb__choose(b, NMB__F_MIX_GATE, gates, 2, &t->gate_act);
}

static nmb_status
scales_resolve(const builder *b, nmb__mixer *t)
{
  double f[5];
  const double in = R(b, MIX_IN_SCALE);
  NMB_TRY(factors(b, NMB__F_MIX_SCALES, J(b, MIX_SCALES), 5, f));
  if (t->bias && (in < 1 || in > 1))
    return nmb_fail(b->run, NMB_UNSUPPORTED, nmb__place(b, NMB__F_MIX_IN_SCALE),
                    "%s beside biases of the projections is not supported",
                    nmb__spelled(b, NMB__F_MIX_IN_SCALE));
  t->z_scale = in * f[0];
  t->x_scale = in * f[1];
  t->b_scale = in * f[2];
  t->c_scale = in * f[3];
  t->dt_scale = in * f[4];
  t->out_scale = R(b, MIX_OUT_SCALE);
  return NMB_OK;
}

/* [least, greatest]; infinity is a text, as the reader makes it one. */
static nmb_status
step_limit(const builder *b, nmb__mixer *t)
{
  const json_t *j = J(b, MIX_STEP_LIMIT), *v[2];
  for (size_t i = 0; i < 2; i++)
    v[i] = json_array_get(j, i);
  const char *text = json_string_value(v[1]);
  const bool open = text && (!strcmp(text, "Infinity") || !strcmp(text, "inf"));
  t->step_low = json_number_value(v[0]);
  t->step_high = json_number_value(v[1]);
  if (!j || json_is_null(j) ||
      (json_array_size(j) == 2 && json_is_number(v[0]) && t->step_low >= 0 &&
       (open || (json_is_number(v[1]) && t->step_high > t->step_low))))
    return NMB_OK;
  return nmb_fail(b->run, NMB_BADINPUT, nmb__place(b, NMB__F_MIX_STEP_LIMIT),
                  "%s: found %s, expected the least and the greatest step",
                  nmb__spelled(b, NMB__F_MIX_STEP_LIMIT), nmb__json_show(b->run, j));
}

nmb_status
nmb__mixer_resolve(const builder *b, nmb__mixer *t)
{
  NMB_TRY(nmb__choose(b, NMB__F_MIXER, mixer_names, 11, &t->kind));
  NMB_TRY(widths_resolve(b, t));
  NMB_TRY(norms_resolve(b, t));
  NMB_TRY(scales_resolve(b, t));
  t->taps = I(b, MIX_TAPS);
  if (t->taps == 1)
    return nmb_fail(b->run, NMB_BADINPUT, nmb__place(b, NMB__F_MIX_TAPS),
                    "%s is 1, expected 0 or at least 2", nmb__spelled(b, NMB__F_MIX_TAPS));
  t->conv_bias = t->taps && I(b, MIX_CONV_BIAS);
  t->bias = t->kind == NMB__MIX_SHORT ? t->conv_bias : I(b, MIX_BIAS);
  t->o_bias = I(b, MIX_O_OWN) ? I(b, MIX_O_BIAS) : t->bias;
  t->chunk = I(b, MIX_CHUNK);
  t->bound = R(b, MIX_BOUND);
  t->inner_eps = R(b, MIX_INNER_EPS);
  t->norm_eps = R(b, MIX_NORM_EPS);
  NMB_TRY(step_limit(b, t));
  if (t->kind == NMB__MIX_MAMBA) /* rank "auto": Mamba's own choice */
    t->rank = I(b, MIX_RANK) ? I(b, MIX_RANK) : (b->a->hidden + 15) / 16;
  if (t->kind == NMB__MIX_RWKV6) {
    t->rank = I(b, MIX_RANK);
    t->a_rank = I(b, MIX_A_RANK);
    NMB_TRY(nmb__need(b, NMB__F_MIX_RANK));
    NMB_TRY(nmb__need(b, NMB__F_MIX_A_RANK));
  }
  if (t->kind == NMB__MIX_RWKV7) {
    t->rank = I(b, MIX_RANK);
    t->gate_rank = I(b, MIX_GATE_RANK);
    t->a_rank = I(b, MIX_A_RANK);
    t->v_rank = I(b, MIX_V_RANK);
    const char *key = b->c.set[NMB__F_EPS].key; /* flash-linear-attention's code */
    if (key && !strcmp(key, "norm_eps"))
      t->norm_eps = (double)t->dv * R(b, EPS);
    NMB_TRY(nmb__need(b, NMB__F_MIX_RANK));
    NMB_TRY(nmb__need(b, NMB__F_MIX_GATE_RANK));
    NMB_TRY(nmb__need(b, NMB__F_MIX_A_RANK));
    if (b->a->nlayer > 1)
      NMB_TRY(nmb__need(b, NMB__F_MIX_V_RANK));
  }
  if (t->kind == NMB__MIX_KDA) {
    t->rank = t->dk;
    t->gate_rank = I(b, MIX_GATE_FULL) ? 0 : t->dk;
  }
  return NMB_OK;
}

/* muP's factors, and those of residual paths from the norm's output. */
nmb_status
nmb__scales_resolve(const builder *b, nmb__layer *l, double ffn[2])
{
  const double in = R(b, ATTN_IN_SCALE);
  NMB_TRY(factors(b, NMB__F_FFN_SCALES, J(b, FFN_SCALES), 2, ffn));
  if (l->attn.bias && (in < 1 || in > 1))
    return nmb_fail(b->run, NMB_UNSUPPORTED, nmb__place(b, NMB__F_ATTN_IN_SCALE),
                    "%s beside biases of the projections is not supported",
                    nmb__spelled(b, NMB__F_ATTN_IN_SCALE));
  l->attn.q_scale = in;
  l->attn.k_scale = in * R(b, KEY_SCALE);
  l->attn.v_scale *= in;
  l->attn.out_scale = R(b, ATTN_OUT_SCALE);
  l->skip = l->mixer.kind ? R(b, LINEAR_ALPHA) : R(b, FULL_ALPHA);
  l->ffn_skip = R(b, FFN_ALPHA);
  return NMB_OK;
}
