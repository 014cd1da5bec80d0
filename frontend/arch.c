/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Settings of a config.json -> layer by layer what the model is. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/near.h"
#include "frontend/arch.h"
#include "frontend/quant.h"

static const char *const act_names[NMB__NACT] = {"silu", "gelu",  "gelu-tanh",
                                                 "relu", "relu2", "swiglu-oai", "xielu", "situ"};
static const char *const score_names[NMB__NSCORE] = {
    "softmax", "sigmoid", "topk-softmax", "sparsemixer", "sqrtsoftplus"};
static const char *const norm_names[] = {"none", "rms", "layer", "layer-nobias",
                                         "layer-unit", "rms-unit"};
static const char *const place_names[] = {"pre", "post", "sandwich", "parallel",
                                          "parallel2", "after", "input"};
static const char *const qk_names[] = {"none", "head", "full", "unit",
                                       "layer-per-head"};

const char *
nmb__act_name(int64_t a)
{
  return act_names[a];
}

const char *
nmb__score_name(int64_t s)
{
  return score_names[s];
}

const char *
nmb__arch_name(const nmb__arch *a)
{
  return a->name;
}

uint64_t
nmb__arch_hash(const nmb__arch *a)
{
  return a->hash;
}

const char *
nmb__spelled(const builder *b, nmb__field f)
{
  return b->c.set[f].key ? b->c.set[f].key : nmb__field_name(f);
}

nmb_loc
nmb__place(const builder *b, nmb__field f)
{
  return b->c.set[f].loc.file ? b->c.set[f].loc : b->top;
}

nmb_status
nmb__choose(const builder *b, nmb__field f, const char *const *names, int n, int64_t *out)
{
  const char *s = b->c.set[f].s;
  for (int i = 0; i < n; i++)
    if (!strcmp(names[i], s)) {
      *out = i;
      return NMB_OK;
    }
  return nmb_fail(b->run, NMB_UNSUPPORTED, nmb__place(b, f), "%s '%.60s' is not supported%s",
                  nmb__spelled(b, f), s, nmb__hint(b->run, s, names, n));
}

nmb_status
nmb__need(const builder *b, nmb__field f)
{
  if (b->c.set[f].i > 0)
    return NMB_OK;
  return nmb_fail(b->run, NMB_BADINPUT, b->top,
                  "%s: not given, and the family '%s' has no default", nmb__field_name(f),
                  b->c.family);
}

/* Spellings of activations and scores in the files. */
static void
respell(builder *b, nmb__field f)
{
  static const char *const spelling[][2] = {{"swiglu", "silu"},
                                            {"noaux_tc", "sigmoid"},
                                            {"swigluoai", "swiglu-oai"},
                                            {"gelu_new", "gelu-tanh"},
                                            {"gelu_pytorch_tanh", "gelu-tanh"},
                                            {"gelu_fast", "gelu-tanh"},
                                            {"gelu_tanh", "gelu-tanh"},
                                            {"swish", "silu"},
                                            {"gelu_python", "gelu"},
                                            {"gelu_python_tanh", "gelu-tanh"},
                                            {"relu_squared", "relu2"}};
  if (f == NMB__F_ACT && I(b, GELU_TANH) && !strcmp(S(b, ACT), "gelu"))
    S(b, ACT) = "gelu-tanh";
  for (size_t i = 0; i < sizeof spelling / sizeof *spelling; i++)
    if (!strcmp(b->c.set[f].s, spelling[i][0]))
      b->c.set[f].s = spelling[i][1];
}

/* -------------------------------------------------------------- attention */
static nmb_status
mla_resolve(const builder *b, nmb__attn *t)
{
  t->mla = 1;
  t->q_rank = I(b, Q_RANK);
  t->kv_rank = I(b, KV_RANK);
  t->d_nope = I(b, D_NOPE);
  t->d_rope = I(b, D_ROPE);
  t->latent_eps = R(b, LATENT_EPS);
  NMB_TRY(nmb__need(b, NMB__F_KV_RANK));
  NMB_TRY(nmb__need(b, NMB__F_D_NOPE));
  NMB_TRY(nmb__need(b, NMB__F_D_ROPE));
  t->kv_heads = t->heads; /* the file's number of key heads is not used */
  t->dk = t->d_nope + t->d_rope;
  t->dv = I(b, V_DIM) ? I(b, V_DIM) : I(b, HIDDEN) / t->heads;
  return NMB_OK;
}

/* Ministral 3: queries grow with the position; the object of the rotation says it. */
static nmb_status
stretch_resolve(const builder *b, nmb__attn *t)
{
  const json_t *beta = json_object_get(J(b, ROPE_SCALING), "llama_4_scaling_beta");
  t->stretch = R(b, STRETCH);
  if (beta && !json_is_null(beta)) {
    t->stretch = json_number_value(beta);
    if (!json_is_number(beta) || !(t->stretch >= 0 && t->stretch <= 1e3))
      return nmb_fail(b->run, NMB_BADINPUT, nmb__place(b, NMB__F_ROPE_SCALING),
                      "%s.llama_4_scaling_beta: found %s, expected a number from 0",
                      nmb__spelled(b, NMB__F_ROPE_SCALING),
                      nmb__json_show(b->run, beta));
  }
  const json_t *on = J(b, STRETCH_ON);
  if (json_is_false(on) || (json_is_integer(on) && json_integer_value(on) == 0) ||
      (I(b, STRETCH_NOPE) && t->rope.dims))
    t->stretch = 0;
  if (!(t->stretch > 0))
    return NMB_OK;
  t->stretch_every = I(b, STRETCH_EVERY) ? I(b, STRETCH_EVERY) : (int64_t)t->rope.orig;
  t->stretch_from = I(b, STRETCH_FROM);
  if (t->stretch_every < 1)
    return nmb__need(b, NMB__F_STRETCH_EVERY);
  return NMB_OK;
}

/* Heads of the layer, which may differ with the kind of layer. */
static void
heads_resolve(const builder *b, bool window, nmb__attn *t)
{
  t->heads = I(b, HEADS);
  t->kv_heads = I(b, KV_HEADS) ? I(b, KV_HEADS) : t->heads;
  t->dk = I(b, HEAD_DIM) ? I(b, HEAD_DIM) : I(b, HIDDEN) / t->heads;
  if (!I(b, NEW_DECODER) && I(b, MULTI_QUERY))
    t->kv_heads = 1;
  if (window && I(b, WINDOW_HEADS))
    t->heads = I(b, WINDOW_HEADS);
  if (window && I(b, WINDOW_KV_HEADS))
    t->kv_heads = I(b, WINDOW_KV_HEADS);
  if (window && I(b, WINDOW_HEAD_DIM))
    t->dk = I(b, WINDOW_HEAD_DIM);
  if (!window && I(b, GLOBAL_KV_HEADS))
    t->kv_heads = I(b, GLOBAL_KV_HEADS);
  if (!window && I(b, GLOBAL_HEAD_DIM))
    t->dk = I(b, GLOBAL_HEAD_DIM);
  t->dv = I(b, V_DIM) ? I(b, V_DIM) : t->dk;
  if (window && I(b, WINDOW_V_DIM))
    t->dv = I(b, WINDOW_V_DIM);
}

static nmb_status
attn_resolve(const builder *b, bool window, bool nope, nmb__attn *t)
{
  static const char *const yes_no[] = {"no", "yes", "follow"};
  NMB_TRY(nmb__need(b, NMB__F_HEADS));
  heads_resolve(b, window, t);
  if (I(b, MLA))
    NMB_TRY(mla_resolve(b, t));
  else if (I(b, Q_FACTORED))
    t->q_rank = I(b, Q_RANK);
  if (t->heads % t->kv_heads)
    return nmb_fail(b->run, NMB_BADINPUT, nmb__place(b, NMB__F_KV_HEADS),
                    "%s is %ld, expected a divisor of the %ld query heads",
                    nmb__spelled(b, NMB__F_KV_HEADS), (long)t->kv_heads, (long)t->heads);
  if (t->dk < 1)
    return nmb_fail(b->run, NMB_BADINPUT, nmb__place(b, NMB__F_HEADS),
                    "%s is %ld, expected at most the hidden width %ld",
                    nmb__spelled(b, NMB__F_HEADS), (long)t->heads, (long)I(b, HIDDEN));
  t->bias = I(b, ATTN_BIAS) || I(b, ALL_BIAS);
  t->sink = I(b, SINK) || (window && I(b, WINDOW_SINK));
  t->clip = R(b, QKV_CLIP);
  t->v_scale = R(b, V_SCALE);
  NMB_TRY(nmb__choose(b, NMB__F_O_BIAS, yes_no, 3, &t->o_bias));
  if (t->o_bias == 2)
    t->o_bias = t->bias;
  t->o_bias |= I(b, O_BIAS_ON) || I(b, REST_BIAS);
  if (I(b, QK_NORM_ON))
    NMB_TRY(nmb__choose(b, NMB__F_QK_NORM, qk_names, 5, &t->qk_norm));
  t->qk_norm_after = I(b, QK_NORM_AFTER);
  double score;
  NMB_TRY(
      nmb__rope_resolve(b, t->mla ? t->d_rope : t->dk, window, &t->rope, &score));
  if (nope)
    t->rope = (nmb__rope){0};
  if (t->qk_norm == NMB__QKNORM_UNIT && !t->rope.dims)
    t->qk_norm = NMB__QKNORM_NONE;
  if (!t->mla)
    score = 1; /* others leave the scale of scores as it is */
  NMB_TRY(stretch_resolve(b, t));
  t->alibi = strcmp(S(b, POSITION), "alibi") || nope ? 0 : I(b, ALIBI_SCALED) ? 2 : 1;
  t->cap = R(b, CAP);
  t->scale = !I(b, SCORES_SCALED)   ? 1
             : R(b, SCALE) > 0      ? R(b, SCALE)
             : I(b, SCALE_BY_WIDTH) ? score / (double)t->dk
                 : score / sqrt(R(b, SCALAR) > 0 ? R(b, SCALAR) : (double)t->dk);
  return NMB_OK;
}

/* Element i of a list with one per layer. */
nmb_status
nmb__list_at(const builder *b, nmb__field f, int64_t i, const json_t **out)
{
  const json_t *j = b->c.set[f].j;
  if (!json_is_array(j) || json_array_size(j) != (size_t)b->a->nlayer)
    return nmb_fail(b->run, NMB_BADINPUT, nmb__place(b, f),
                    "%s: found %zu entries, expected %ld", nmb__spelled(b, f),
                    json_array_size(j), (long)b->a->nlayer);
  *out = json_array_get(j, (size_t)i);
  return NMB_OK;
}

/* GPT-Neo: [[["global", "local"], 12]] says that these alternate, 12 times. */
static nmb_status
type_of_runs(const builder *b, int64_t layer, const json_t **out)
{
  const json_t *runs = J(b, LAYER_RUNS);
  int64_t at = 0;
  for (size_t i = 0; i < json_array_size(runs); i++) {
    const json_t *run = json_array_get(runs, i), *types = json_array_get(run, 0);
    const int64_t n = (int64_t)json_array_size(types);
    const int64_t times = json_integer_value(json_array_get(run, 1));
    if (n < 1 || n > 2048 || times < 1 || times > 2048)
      return nmb_fail(b->run, NMB_BADINPUT, nmb__place(b, NMB__F_LAYER_RUNS),
                      "%s.%zu: found %s, expected types of layers and how often",
                      nmb__spelled(b, NMB__F_LAYER_RUNS), i, nmb__json_show(b->run, run));
    if (layer < at + n * times) {
      *out = json_array_get(types, (size_t)((layer - at) % n));
      return NMB_OK;
    }
    at += n * times;
  }
  return nmb_fail(b->run, NMB_BADINPUT, nmb__place(b, NMB__F_LAYER_RUNS),
                  "%s: found types of %ld layers, expected %ld",
                  nmb__spelled(b, NMB__F_LAYER_RUNS), (long)at, (long)b->a->nlayer);
}

/* The word of a layer's type, or the number that stands for it. */
static nmb_status
type_of(const builder *b, int64_t layer, const char **out)
{
  static const char *const local[] = {"sliding_attention", "chunked_attention",
                                      "sliding_window", "local", "compressed_sparse_attention",
                                      "heavily_compressed_attention"};
  static const char *const global[] = {"full_attention", "attention", "global", "full"};
  const json_t *v = NULL;
  NMB_TRY(J(b, LAYER_TYPES) ? nmb__list_at(b, NMB__F_LAYER_TYPES, layer, &v)
                            : type_of_runs(b, layer, &v));
  const char *s = json_string_value(v);
  *out = NULL;
  if (json_is_integer(v) || json_is_boolean(v)) { /* 1: with the window */
    const int64_t i = json_is_true(v) ? 1 : json_integer_value(v);
    *out = i == 0 ? global[0] : i == 1 ? local[0] : NULL;
  }
  for (size_t i = 0; s && i < sizeof local / sizeof *local; i++)
    *out = strcmp(s, local[i]) ? *out : local[0];
  for (size_t i = 0; s && i < sizeof global / sizeof *global; i++)
    *out = strcmp(s, global[i]) ? *out : global[0];
  if (*out)
    return NMB_OK;
  return nmb_fail(b->run, NMB_UNSUPPORTED, nmb__place(b, NMB__F_LAYER_TYPES),
                  "%s.%ld: found %s, expected full_attention or sliding_attention",
                  nmb__spelled(b, NMB__F_LAYER_TYPES), (long)layer,
                  nmb__json_show(b->run, v));
}

/* Does the layer attend to near keys only, by a window or within a chunk? */
static nmb_status
local_resolve(const builder *b, int64_t layer, bool nope, bool *local)
{
  const int64_t every = I(b, WINDOW_ALTERNATE), from = I(b, WINDOW_FROM);
  *local = I(b, WINDOW_ON) && (I(b, WINDOW) || I(b, CHUNK));
  if (J(b, LAYER_TYPES) || J(b, LAYER_RUNS)) {
    const char *type;
    NMB_TRY(type_of(b, layer, &type));
    if (!*local && !strcmp(type, "sliding_attention") && !I(b, CHUNK) && !I(b, WINDOW))
      return nmb_fail(b->run, NMB_BADINPUT, nmb__place(b, NMB__F_LAYER_TYPES),
                      "%s.%ld is sliding_attention, but there is no sliding_window",
                      nmb__spelled(b, NMB__F_LAYER_TYPES), (long)layer);
    *local = !strcmp(type, "sliding_attention");
    return NMB_OK;
  }
  const int64_t at = I(b, WINDOW_PHASE) ? layer : layer + 1;
  if (layer < from || (every && at % every == 0) || (I(b, CHUNK) && nope))
    *local = false;
  return NMB_OK;
}

static nmb_status
nope_resolve(const builder *b, int64_t layer, bool *nope)
{
  const int64_t every = I(b, NOPE_EVERY);
  *nope = every && (layer + 1) % every == 0;
  if (!J(b, NOPE_LAYERS) || json_array_size(J(b, NOPE_LAYERS)) == 0)
    return NMB_OK;
  const json_t *v = NULL;
  NMB_TRY(nmb__list_at(b, NMB__F_NOPE_LAYERS, layer, &v));
  if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) > 1)
    return nmb_fail(b->run, NMB_BADINPUT, nmb__place(b, NMB__F_NOPE_LAYERS),
                    "%s.%ld: found %s, expected 0 or 1",
                    nmb__spelled(b, NMB__F_NOPE_LAYERS), (long)layer,
                    nmb__json_show(b->run, v));
  *nope = json_integer_value(v) == 0;
  return NMB_OK;
}

static nmb_status
attention_resolve(const builder *b, int64_t layer, nmb__attn *t)
{
  bool local, nope;
  NMB_TRY(nope_resolve(b, layer, &nope));
  NMB_TRY(local_resolve(b, layer, nope, &local));
  if (local) {
    t->window = I(b, CHUNK) ? 0 : I(b, WINDOW);
    t->chunk = I(b, CHUNK);
  }
  const bool global_nope =
      I(b, NOPE_GLOBAL) && !local && (I(b, WINDOW) || I(b, CHUNK));
  NMB_TRY(attn_resolve(b, local, nope || global_nope, t));
  if (I(b, INVERSE_LAYER))
    t->scale /= (double)(layer + 1);
  t->o_bias |= I(b, O_BIAS_LAST) && layer == b->a->nlayer - 1;
  t->gate = I(b, ATTN_GATE) && !json_is_false(J(b, ATTN_GATE_KIND));
  t->gate_heads = t->gate && I(b, HEAD_GATE);
  const char *kind = json_string_value(J(b, ATTN_GATE_KIND));
  if (kind && !strcmp(kind, "per-element"))
    t->gate_heads = 0;
  else if (kind && strcmp(kind, "per-head"))
    return nmb_fail(b->run, NMB_UNSUPPORTED, nmb__place(b, NMB__F_ATTN_GATE_KIND),
                    "%s is '%s', expected true, per-head or per-element",
                    nmb__spelled(b, NMB__F_ATTN_GATE_KIND), kind);
  t->diff = I(b, ATTN_DIFF);
  if (t->diff)
    t->diff_start = 0.8 - 0.6 * exp(-0.3 * (double)layer);
  return nmb__attn_extras(b, layer, t);
}

/* --------------------------------------------------------------- networks */
static nmb_status
routed(const builder *b, int64_t layer, bool *out)
{
  const int64_t every = I(b, MOE_EVERY), off = I(b, MOE_OFFSET);
  const int64_t last = I(b, MOE_LAST);
  *out = I(b, EXPERTS) > 0 && layer >= I(b, DENSE_FIRST) && (last < 0 || layer <= last) &&
         layer % every == (off < 0 ? every - 1 : off % every);
  const char *words = S(b, MOE_WORDS);
  if (*words) {
    *out = false;
    for (char *end; *words; words = *end ? end + 1 : end) {
      *out |= strtol(words, &end, 10) == layer && end > words;
      if (end == words || (*end && *end != ','))
        return nmb_fail(b->run, NMB_BADINPUT, nmb__place(b, NMB__F_MOE_WORDS),
                        "%s: found '%.20s', expected numbers of layers with commas",
                        nmb__spelled(b, NMB__F_MOE_WORDS), words);
    }
    *out &= I(b, EXPERTS) > 0;
    return NMB_OK;
  }
  const json_t *numbers = J(b, MOE_NUMBERS);
  if (numbers)
    *out = false;
  for (size_t i = 0; i < json_array_size(numbers); i++)
    *out |= json_integer_value(json_array_get(numbers, i)) == layer;
  if (J(b, MOE_LAYERS)) {
    const json_t *v = NULL;
    NMB_TRY(nmb__list_at(b, NMB__F_MOE_LAYERS, layer, &v));
    const char *word = json_string_value(v); /* hash: routes by the token */
    *out = json_integer_value(v) == 1 || json_is_true(v) ||
           (word && (!strcmp(word, "sparse") || !strcmp(word, "hash_moe") ||
                     !strcmp(word, "moe")));
    if (word ? !*out && strcmp(word, "dense")
             : !json_is_boolean(v) &&
                   (!json_is_integer(v) || json_integer_value(v) < 0 ||
                    json_integer_value(v) > 1))
      return nmb_fail(b->run, NMB_BADINPUT, nmb__place(b, NMB__F_MOE_LAYERS),
                      "%s.%ld: found %s, expected 0 or 1, or dense or sparse", nmb__spelled(b, NMB__F_MOE_LAYERS),
                      (long)layer, nmb__json_show(b->run, v));
  }
  const json_t *j = J(b, DENSE_LAYERS);
  for (size_t i = 0; i < json_array_size(j); i++) {
    const json_t *v = json_array_get(j, i);
    if (!json_is_integer(v) || json_integer_value(v) < 0 ||
        json_integer_value(v) >= b->a->nlayer)
      return nmb_fail(b->run, NMB_BADINPUT, nmb__place(b, NMB__F_DENSE_LAYERS),
                      "%s.%zu: found %s, expected the number of a layer",
                      nmb__spelled(b, NMB__F_DENSE_LAYERS), i, nmb__json_show(b->run, v));
    if (json_integer_value(v) == layer)
      *out = false;
  }
  return NMB_OK;
}

static nmb_status
groups_check(const builder *b, const nmb__moe *m)
{
  if (m->topk > m->experts || m->topk < 1)
    return nmb_fail(b->run, NMB_BADINPUT, nmb__place(b, NMB__F_TOPK),
                    "%s is %ld, expected 1 to %ld", nmb__spelled(b, NMB__F_TOPK),
                    (long)m->topk, (long)m->experts);
  if (m->groups < 1 || m->experts % m->groups || m->topk_groups < 1 ||
      m->topk_groups > m->groups || m->topk > m->experts / m->groups * m->topk_groups)
    return nmb_fail(b->run, NMB_BADINPUT, nmb__place(b, NMB__F_GROUPS),
                    "%s: %ld experts in %ld groups, of which %ld are kept, cannot give "
                    "%ld", nmb__spelled(b, NMB__F_GROUPS), (long)m->experts, (long)m->groups, (long)m->topk_groups,
                    (long)m->topk);
  return NMB_OK;
}

static nmb_status
moe_resolve(const builder *b, int64_t layer, const nmb__ffn *dense, nmb__moe *m)
{
  static const char *const methods[] = {"greedy", "group_limited_greedy", "noaux_tc"};
  int64_t method;
  m->experts = I(b, EXPERTS);
  m->topk = I(b, TOPK);
  m->zero = I(b, ZERO_EXPERTS);
  NMB_TRY(nmb__choose(b, NMB__F_ROUTER, score_names, NMB__NSCORE, &m->score));
  NMB_TRY(nmb__choose(b, NMB__F_TOPK_METHOD, methods, 3, &method));
  m->groups = method == 0 ? 1 : I(b, GROUPS);
  m->topk_groups = method == 0 ? 1 : I(b, TOPK_GROUPS);
  m->group_top = method == 2 ? 2 : 1;
  const char *word = json_string_value(json_array_get(J(b, MOE_LAYERS), (size_t)layer));
  const bool hash = word ? !strcmp(word, "hash_moe") : layer < I(b, HASH_LAYERS);
  m->hash = hash ? I(b, VOCAB) : 0;
  m->input = I(b, ROUTE_INPUT);
  m->normed = I(b, ROUTER_NORM);
  m->select_bias = (method == 2 || I(b, SELECT_BIAS)) && !m->hash;
  m->router_bias = I(b, ROUTER_BIAS);
  m->renorm = I(b, RENORM);
  m->scale = R(b, ROUTE_SCALE);
  m->cap = R(b, ROUTER_CAP);
  m->jitter = m->score == NMB__SCORE_SPARSEMIXER ? R(b, ROUTER_JITTER) : 0;
  if (m->groups == 1)
    m->group_top = 0;
  NMB_TRY(groups_check(b, m));
  m->expert = *dense;
  m->expert.bias = I(b, EXPERT_BIAS);
  if (I(b, EXPERT_FFN))
    m->expert.width = I(b, EXPERT_FFN);
  if (m->expert.width < 1)
    return nmb__need(b, NMB__F_EXPERT_FFN);
  m->shared_gate = I(b, SHARED_GATE);
  m->latent = I(b, LATENT);
  m->latent_norm = I(b, LATENT_NORM);
  m->shared = m->expert;
  m->shared.bias = 0;
  m->shared.width = I(b, SHARED_FFN) ? I(b, SHARED_FFN) : I(b, SHARED) * m->expert.width;
  return NMB_OK;
}

/* ------------------------------------------------------------------ whole */
static nmb_status
heads_list(builder *b, int64_t layer)
{
  const json_t *v = NULL;
  if (!J(b, HEADS_LIST))
    return NMB_OK;
  NMB_TRY(nmb__list_at(b, NMB__F_HEADS_LIST, layer, &v));
  I(b, HEADS) = json_integer_value(v);
  if (json_is_integer(v) && I(b, HEADS) >= 1 && I(b, HEADS) <= 65536)
    return NMB_OK;
  return nmb_fail(b->run, NMB_BADINPUT, nmb__place(b, NMB__F_HEADS_LIST),
                  "%s.%ld: found %s, expected a number of heads",
                  nmb__spelled(b, NMB__F_HEADS_LIST), (long)layer,
                  nmb__json_show(b->run, v));
}

/* Settings given as one number per layer take that of the layer at hand. */
static nmb_status
layer_lists(builder *b, int64_t layer)
{
  for (int f = 0; f < NMB__F_NFIELD; f++) {
    nmb__setting *s = &b->c.set[f];
    if (!s->list)
      continue;
    const json_t *v = json_array_get(s->list, (size_t)layer);
    if (!v)
      return nmb_fail(b->run, NMB_BADINPUT, nmb__place(b, (nmb__field)f),
                      "%s has %zu entries, but there are %ld layers",
                      nmb__spelled(b, (nmb__field)f), json_array_size(s->list),
                      (long)b->a->nlayer);
    s->i = json_integer_value(v);
    s->r = (double)s->i;
  }
  return NMB_OK;
}

/* OpenELM: a share of hidden, rounded to a multiple, but not to less than 90%. */
static nmb_status
width_of_share(const builder *b, int64_t layer, int64_t *out)
{
  const json_t *v = NULL;
  const int64_t m = I(b, FFN_MULTIPLE);
  NMB_TRY(nmb__list_at(b, NMB__F_FFN_MULTS, layer, &v));
  const double share = json_number_value(v), want = share * (double)b->a->hidden;
  if (!json_is_number(v) || !(share > 0 && share <= 64))
    return nmb_fail(b->run, NMB_BADINPUT, nmb__place(b, NMB__F_FFN_MULTS),
                    "%s.%ld: found %s, expected a number above 0 and up to 64",
                    nmb__spelled(b, NMB__F_FFN_MULTS), (long)layer,
                    nmb__json_show(b->run, v));
  *out = (int64_t)(want + (double)m / 2) / m * m;
  if (*out < m)
    *out = m;
  if ((double)*out < 0.9 * want)
    *out += m;
  return NMB_OK;
}

/* Width of the dense network of a layer; 0: the family leaves it open. */
static nmb_status
width_resolve(const builder *b, int64_t layer, int64_t *out)
{
  *out = I(b, FFN_OVER) ? I(b, FFN_OVER)
         : I(b, FFN)    ? I(b, FFN)
                        : I(b, FFN_TIMES) * I(b, HIDDEN);
  if (J(b, FFN_MULTS))
    return width_of_share(b, layer, out);
  if (I(b, FFN_ADJUST)) { /* LFM2, arXiv:2511.23404, and its published code */
    const int64_t m = I(b, FFN_MULTIPLE);
    *out = (int64_t)(R(b, FFN_MULT) * (double)(2 * *out / 3));
    *out = (*out + m - 1) / m * m;
  }
  return NMB_OK;
}

static nmb_status
block_bad(const builder *b, int64_t layer, const char *key, const json_t *v)
{
  return nmb_fail(b->run, NMB_UNSUPPORTED, nmb__place(b, NMB__F_BLOCKS),
                  "%s.%ld.%s: found %s, which is not supported", nmb__spelled(b, NMB__F_BLOCKS),
                  (long)layer, key, v ? nmb__json_show(b->run, v) : "nothing");
}

/* Nemotron-NAS (arXiv:2411.19146): heads that share a key and the width of the network,
 * layer by layer; either part may be left out.  Sets KV heads and width for the layer. */
static nmb_status
block_read(builder *b, int64_t layer, unsigned *holds)
{
  const json_t *v = NULL;
  if (!J(b, BLOCKS))
    return NMB_OK;
  NMB_TRY(nmb__list_at(b, NMB__F_BLOCKS, layer, &v));
  const json_t *attn = json_object_get(v, "attention"), *ffn = json_object_get(v, "ffn");
  if (json_is_true(json_object_get(attn, "replace_with_linear")))
    return block_bad(b, layer, "attention.replace_with_linear", json_true());
  if (json_is_true(json_object_get(ffn, "replace_with_linear")))
    return block_bad(b, layer, "ffn.replace_with_linear", json_true());
  const json_t *share = json_object_get(attn, "n_heads_in_group");
  const json_t *mult = json_object_get(ffn, "ffn_mult");
  *holds = 0;
  if (!json_is_true(json_object_get(attn, "no_op"))) {
    const json_t *kv = json_object_get(attn, "num_key_value_heads");
    const int64_t n = json_integer_value(kv ? kv : share);
    if (!json_is_integer(kv ? kv : share) || n < 1 || I(b, HEADS) % n)
      return block_bad(b, layer,
                       kv ? "attention.num_key_value_heads"
                          : "attention.n_heads_in_group",
                       kv ? kv : share);
    *holds |= NMB__HOLDS_ATTN;
    I(b, KV_HEADS) = kv ? n : I(b, HEADS) / n;
  }
  if (!json_is_true(json_object_get(ffn, "no_op"))) {
    const json_t *width = json_object_get(ffn, "intermediate_size");
    const double m = json_number_value(mult);
    *holds |= NMB__HOLDS_FFN;
    if (json_is_integer(width) && json_integer_value(width) > 0 &&
        json_integer_value(width) <= 1 << 22) {
      I(b, FFN) = json_integer_value(width);
      return NMB_OK;
    }
    if (!json_is_number(mult) || !(m > 0 && m <= 64))
      return block_bad(b, layer, "ffn.ffn_mult", mult);
    I(b, FFN) = ((int64_t)(2 * m * (double)b->a->hidden / 3) + 255) / 256 * 256;
  }
  return NMB_OK;
}

static nmb_status
layer_resolve(builder *b, int64_t i, nmb__layer *l)
{
  bool moe;
  double scales[2];
  unsigned holds;
  NMB_TRY(layer_lists(b, i));
  NMB_TRY(heads_list(b, i));
  NMB_TRY(nmb__holds_resolve(b, i, &holds));
  NMB_TRY(block_read(b, i, &holds));
  int64_t width;
  NMB_TRY(width_resolve(b, i, &width));
  nmb__ffn dense = {.width = width,
                    .bias = I(b, FFN_BIAS) || I(b, ALL_BIAS) || I(b, REST_BIAS),
                    .gated = I(b, GATED),
                    .limit = R(b, FFN_LIMIT)};
  NMB_TRY(nmb__choose(b, NMB__F_NORM, norm_names, 6, &l->norm));
  NMB_TRY(nmb__choose(b, NMB__F_PLACE, place_names, 7, &l->place));
  if (!I(b, SANDWICH_ON) && l->place == NMB__PLACE_SANDWICH)
    l->place = NMB__PLACE_PRE;
  if (I(b, RESIDUAL_NORMED) && l->place == NMB__PLACE_PRE)
    l->place = NMB__PLACE_INPUT;
  if (!I(b, NORM_BEFORE))
    l->place = NMB__PLACE_AFTER;
  if (l->place == NMB__PLACE_INPUT && !I(b, POST_INPUT) && !I(b, RESIDUAL_NORMED))
    l->place = NMB__PLACE_PRE;
  l->eps = R(b, EPS);
  l->norm_offset = R(b, NORM_OFFSET);
  l->residual = R(b, DEPTH_SCALE) > 0
                    ? R(b, DEPTH_SCALE) / sqrt((double)b->a->nlayer)
                    : R(b, RESIDUAL_SCALE);
  if (!I(b, PARALLEL_ON) && (l->place == NMB__PLACE_PARALLEL || l->place == NMB__PLACE_PARALLEL2))
    l->place = NMB__PLACE_PRE;
  else if ((!I(b, NEW_DECODER) || I(b, PARALLEL_NORMS) == 1) &&
           l->place == NMB__PLACE_PARALLEL2)
    l->place = NMB__PLACE_PARALLEL;
  l->sub_norm = I(b, SUB_NORM);
  if (I(b, RES_BLOCK)) {
    l->res_block = I(b, RES_BLOCK);
    l->res_before = (i + l->res_block - 1) / l->res_block;
    l->res_starts = i % l->res_block == 0;
  }
  if (holds & NMB__HOLDS_MIXER)
    NMB_TRY(nmb__mixer_resolve(b, &l->mixer));
  l->mixer.first = l->mixer.kind == NMB__MIX_RWKV7 && i == 0;
  if (l->mixer.first)
    l->mixer.v_rank = 0;
  if (holds & NMB__HOLDS_ATTN)
    NMB_TRY(attention_resolve(b, i, &l->attn));
  NMB_TRY(nmb__layer_extras(b, i, l));
  dense.width /= I(b, FFN_DIVISOR);
  NMB_TRY(nmb__scales_resolve(b, l, scales));
  dense.gate_scale = scales[0];
  dense.down_scale = scales[1];
  if (!(holds & (NMB__HOLDS_FFN | NMB__HOLDS_DENSE | NMB__HOLDS_MOE)))
    return NMB_OK;
  NMB_TRY(nmb__choose(b, NMB__F_ACT, act_names, NMB__NACT, &dense.act));
  if (dense.act == NMB__ACT_SITU) { /* without a number it saturates at 1 */
    dense.limit = R(b, ACT_BETA) > 0 ? R(b, ACT_BETA) : 1;
    dense.up_limit = R(b, ACT_LINEAR_BETA);
  }
  NMB_TRY(routed(b, i, &moe));
  if (!(holds & NMB__HOLDS_FFN))
    moe = holds & NMB__HOLDS_MOE;
  if (!moe && !I(b, EXPERTS) && I(b, SHARED_FFN)) /* the shared part is all there is */
    dense.width = I(b, SHARED_FFN);
  if (l->attn.kv_from && I(b, KV_SHARED_WIDE))
    dense.width *= 2;
  l->beside = !moe ? 0 : I(b, MOE_BESIDE) ? 1 : I(b, MOE_RESIDUAL) ? 2 : I(b, MOE_AND_DENSE) ? 3 : 0;
  if (moe)
    NMB_TRY(moe_resolve(b, i, &dense, &l->moe));
  if (moe && !l->beside)
    return NMB_OK;
  if (l->beside == 2)
    dense.width = b->a->hidden;
  if (!dense.width)
    return nmb__need(b, NMB__F_FFN);
  l->ffn = dense;
  return NMB_OK;
}

/* What later layers have from earlier ones: choices of keys, and caches. */
static void
layers_link(const nmb__arch *a, nmb__layer *layer)
{
  for (int i = 0; i < a->nlayer; i++)
    if (layer[i].attn.kv_from)
      layer[layer[i].attn.kv_from - 1].attn.kv_lent = 1;
  for (int i = 0; i + 1 < a->nlayer; i++) {
    const nmb__index *next = &layer[i + 1].attn.index;
    layer[i].attn.index.gives = next->heads && !next->own;
  }
}

static void
distinct_find(nmb_run *run, nmb__arch *a)
{
  int *number = NMB_NEW(run, int, a->nlayer), *first = NMB_NEW(run, int, a->nlayer);
  for (int i = 0; i < a->nlayer; i++) {
    int j = 0;
    while (j < a->ndistinct &&
           memcmp(&a->layer[first[j]], &a->layer[i], sizeof a->layer[i]))
      j++;
    if (j == a->ndistinct)
      first[a->ndistinct++] = i;
    number[i] = j;
  }
  a->distinct = number;
  a->first = first;
}

/* Keeps every sum of products far from 2^63. */
static nmb_status
size_check(const builder *b)
{
  const double h = (double)b->a->hidden;
  double n = h * (double)(2 * b->a->vocab + b->a->positions);
  for (int i = 0; i < b->a->nlayer; i++) {
    const nmb__layer *l = &b->a->layer[i];
    const nmb__attn *t = &l->attn;
    n += h * (double)(t->heads * (t->dk + t->dv) + t->kv_heads * (t->dk + t->dv));
    n +=
        (double)t->kv_rank * (double)(t->heads * (t->dk + t->dv)) + h * (double)t->q_rank;
    const nmb__mixer *x = &l->mixer;
    n += (h + (double)x->taps + (double)x->rank) * 4 *
         ((double)x->heads * (double)(x->dk + x->dv) + (double)(x->groups * x->dk));
    n += 3 * h *
         (double)(l->ffn.width + l->moe.experts * l->moe.expert.width +
                  l->moe.shared.width);
  }
  if (n <= 0x1p48)
    return NMB_OK;
  return nmb_fail(b->run, NMB_BADINPUT, b->top,
                  "the model has %.3g parameters, expected at most %.3g", n, 0x1p48);
}

/* What stands before the first and after the last layer. */
static nmb_status
ends_resolve(builder *b, nmb__arch *a)
{
  static const char *const positions[] = {"rope", "learned", "alibi", "none", "sinusoidal"};
  int64_t kind;
  if (I(b, ALIBI) || (I(b, ALIBI_OPEN) && !I(b, CONTEXT)))
    S(b, POSITION) = "alibi";
  if (!strcmp(S(b, POSITION), "nope"))
    S(b, POSITION) = "none";
  NMB_TRY(nmb__choose(b, NMB__F_POSITION, positions, 5, &kind));
  a->waves = kind == 4;
  if (kind == 1 || kind == 4) {
    a->positions = (I(b, POSITION_ROWS) ? I(b, POSITION_ROWS) : I(b, CONTEXT));
    if (!a->positions)
      return nmb__need(b, NMB__F_CONTEXT);
    a->position_first = I(b, POSITION_EXTRA);
    a->positions += a->position_first;
  }
  a->embed_width = I(b, EMBED_WIDTH) ? I(b, EMBED_WIDTH) : a->hidden;
  a->final_norm_off = I(b, FINAL_NORM_OFF) || !I(b, NORM_BEFORE);
  a->embed_norm = I(b, EMBED_NORM);
  a->embed_scale = R(b, EMBED_SCALE) < 0 || I(b, EMBED_ROOT) ? sqrt((double)a->hidden) : R(b, EMBED_SCALE);
  a->head_bias = I(b, HEAD_BIAS);
  a->head_unit = I(b, HEAD_UNIT) || R(b, HEAD_UNIT_SAID) >= 0 ||
                 (I(b, HEAD_UNIT_VOCAB) && I(b, HEAD_UNIT_VOCAB) == I(b, VOCAB));
  a->logit_scale = R(b, LOGIT_SCALE) * R(b, LOGIT_WIDTH_SCALE) / R(b, LOGIT_DIVISOR);
  if (I(b, BASE_WIDTH))
    a->logit_scale *= (double)I(b, BASE_WIDTH) / (double)a->hidden;
  a->logit_cap = R(b, LOGIT_CAP);
  a->kv_shared_weights = I(b, KV_SHARED_WEIGHTS);
  return NMB_OK;
}

static nmb_status
resolve(builder *b)
{
  nmb__arch *a = b->a;
  if (!strcmp(S(b, ACT), "swiglu")) /* says that there is a gate, too */
    I(b, GATED) = 1;
  respell(b, NMB__F_ACT);
  respell(b, NMB__F_ROUTER);
  a->family = b->c.family;
  NMB_TRY(nmb__need(b, NMB__F_HIDDEN));
  if (!I(b, LAYERS)) /* as many as are listed */
    I(b, LAYERS) = *S(b, MIX_PATTERN) ? (int64_t)strlen(S(b, MIX_PATTERN))
                                      : (int64_t)json_array_size(J(b, LAYER_TYPES));
  NMB_TRY(nmb__need(b, NMB__F_LAYERS));
  NMB_TRY(nmb__need(b, NMB__F_VOCAB));
  a->hidden = I(b, HIDDEN);
  a->vocab = (I(b, VOCAB) + I(b, VOCAB_MULTIPLE) - 1) / I(b, VOCAB_MULTIPLE) *
             I(b, VOCAB_MULTIPLE);
  a->no_graph = b->c.no_graph ? b->c.no_graph : S(b, NO_GRAPH);
  a->nlayer = I(b, LAYERS) * I(b, LAYER_PARTS);
  a->tied = I(b, TIED);
  a->mtp = I(b, MTP);
  a->mtp_pattern = S(b, MTP_PATTERN);
  a->context = I(b, CONTEXT);
  NMB_TRY(ends_resolve(b, a));
  nmb__layer *layer = NMB_NEW(b->run, nmb__layer, a->nlayer);
  a->layer = layer;
  for (int i = 0; i < a->nlayer; i++)
    NMB_TRY(layer_resolve(b, i, &layer[i]));
  NMB_TRY(size_check(b));
  NMB_TRY(nmb__quant_resolve(b->run, &b->c, b->top, a, layer));
  if (b->c.formats)
    b->c.formats(b->c.formats_self, a, layer);
  layers_link(a, layer);
  distinct_find(b->run, a);
  a->nwarning = b->c.nwarning;
  a->warning = b->c.warning;
  a->nnote = b->c.nnote;
  a->note = b->c.note;
  return NMB_OK;
}

nmb_status
nmb__arch_parse(nmb_run *run, const char *file, const char *name, const char *text,
                size_t len, const nmb__arch **out)
{
  nmb__arch *a = NMB_NEW(run, nmb__arch, 1);
  builder b = {.run = run, .top = {nmb_strdup(run, file), 0, 0}, .a = a};
  NMB_TRY(nmb__config_read(run, b.top.file, text, len, &b.c));
  a->name = nmb_strdup(run, name);
  a->path = b.top.file;
  a->hash = nmb__hash(text, len);
  const nmb_status s = resolve(&b);
  json_decref(b.c.root);
  if (s == NMB_OK)
    *out = a;
  return s;
}

nmb_status
nmb__arch_of(nmb_run *run, const nmb__config *c, const char *file, const char *name,
             uint64_t hash, const nmb__arch **out)
{
  nmb__arch *a = NMB_NEW(run, nmb__arch, 1);
  builder b = {.run = run, .top = {nmb_strdup(run, file), 0, 0}, .c = *c, .a = a};
  a->name = nmb_strdup(run, name);
  a->path = b.top.file;
  a->hash = hash;
  NMB_TRY(resolve(&b));
  *out = a;
  return NMB_OK;
}
