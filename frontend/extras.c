/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Parts of a layer that few families have: indexers of sparse attention, pooled
 * caches, several residual streams, embeddings of a layer's own.
 *
 * Sources: DeepSeek-V3.2 and V4 reports and published code; GLM-5, MiniMax-M3, Gemma 3n
 * and Gemma 4 modelling code in Hugging Face transformers. */
#include <math.h>
#include <string.h>

#include "frontend/arch.h"

static nmb_status
bad_at(const builder *b, nmb__field f, const char *key, const json_t *v,
       const char *expected)
{
  return nmb_fail(b->run, NMB_BADINPUT, nmb__place(b, f), "%s.%s: found %s, expected %s",
                  nmb__spelled(b, f), key, v ? nmb__json_show(b->run, v) : "nothing",
                  expected);
}

/* ---------------------------------------------------------------- indexers */
static nmb_status
index_own(const builder *b, int64_t layer, int64_t *own)
{
  const int64_t freq = I(b, INDEX_FREQ) > 1 ? I(b, INDEX_FREQ) : 1;
  const int64_t past = layer - I(b, INDEX_OFFSET) + 1;
  *own = (past > 0 ? past : 0) % freq == 0;
  const char *pattern = S(b, INDEX_PATTERN);
  if (layer < (int64_t)strlen(pattern))
    *own = pattern[layer] == 'F';
  if (!J(b, INDEX_TYPES))
    return NMB_OK;
  const json_t *v = NULL;
  NMB_TRY(nmb__list_at(b, NMB__F_INDEX_TYPES, layer, &v));
  const char *s = json_string_value(v);
  if (!s || (strcmp(s, "full") && strcmp(s, "shared")))
    return bad_at(b, NMB__F_INDEX_TYPES, nmb_format(b->run, "%ld", (long)layer), v,
                  "full or shared");
  *own = !strcmp(s, "full");
  if (!*own && layer == 0)
    return bad_at(b, NMB__F_INDEX_TYPES, "0", v, "full, as there is no layer before");
  return NMB_OK;
}

/* A whole number of the object of block-sparse attention. */
static nmb_status
block_number(const builder *b, const char *key, int64_t lo, int64_t dflt, int64_t *out)
{
  const json_t *v = json_object_get(J(b, INDEX_BLOCKS), key);
  *out = v ? json_integer_value(v) : dflt;
  if ((v && !json_is_integer(v)) || *out < lo || *out > 65536)
    return bad_at(b, NMB__F_INDEX_BLOCKS, key, v, "a whole number up to 65536");
  return NMB_OK;
}

/* *on: element `layer` of a list of 0 and 1. */
static nmb_status
block_flag(const builder *b, const char *key, int64_t layer, bool *on)
{
  const json_t *list = json_object_get(J(b, INDEX_BLOCKS), key);
  const json_t *v = json_array_get(list, (size_t)layer);
  *on = json_is_true(v) || json_integer_value(v) == 1;
  if (!list || *on || json_is_false(v) ||
      (json_is_integer(v) && json_integer_value(v) == 0))
    return NMB_OK;
  return bad_at(b, NMB__F_INDEX_BLOCKS, nmb_format(b->run, "%s.%ld", key, (long)layer), v,
                "0 or 1");
}

static nmb_status
blocks_resolve(const builder *b, int64_t layer, nmb__index *x)
{
  static const char *const known[] = {
      "sparse_attention_freq", "sparse_block_size", "sparse_disable_index_value",
      "sparse_index_dim", "sparse_init_block", "sparse_local_block",
      "sparse_num_index_heads", "sparse_score_type", "sparse_topk_blocks",
      "use_sparse_attention"};
  bool on, no_value;
  const char *key;
  json_t *v;
  json_object_foreach((json_t *)(uintptr_t)J(b, INDEX_BLOCKS), key, v)
  {
    size_t i = 0;
    while (i < sizeof known / sizeof *known && strcmp(known[i], key))
      i++;
    if (i == sizeof known / sizeof *known)
      return bad_at(b, NMB__F_INDEX_BLOCKS, key, v, "a key that is known");
  }
  NMB_TRY(block_flag(b, "sparse_attention_freq", layer, &on));
  NMB_TRY(block_flag(b, "sparse_disable_index_value", layer, &no_value));
  v = json_object_get(J(b, INDEX_BLOCKS), "sparse_score_type");
  if (v && (!json_is_string(v) || strcmp(json_string_value(v), "max")))
    return bad_at(b, NMB__F_INDEX_BLOCKS, "sparse_score_type", v, "\"max\"");
  if (!on || json_is_false(json_object_get(J(b, INDEX_BLOCKS), "use_sparse_attention")))
    return NMB_OK;
  NMB_TRY(block_number(b, "sparse_num_index_heads", 1, 0, &x->heads));
  NMB_TRY(block_number(b, "sparse_index_dim", 1, 0, &x->width));
  NMB_TRY(block_number(b, "sparse_topk_blocks", 1, 0, &x->topk));
  NMB_TRY(block_number(b, "sparse_block_size", 1, 0, &x->block));
  NMB_TRY(block_number(b, "sparse_local_block", 0, 1, &x->local));
  NMB_TRY(block_number(b, "sparse_init_block", 0, 0, &x->init));
  x->own = 1;
  x->value = !no_value;
  return NMB_OK;
}

static nmb_status
index_resolve(const builder *b, int64_t layer, nmb__index *x)
{
  if (J(b, INDEX_BLOCKS))
    return blocks_resolve(b, layer, x);
  if (!I(b, INDEX_HEADS))
    return NMB_OK;
  NMB_TRY(nmb__need(b, NMB__F_INDEX_DIM));
  NMB_TRY(nmb__need(b, NMB__F_INDEX_TOPK));
  NMB_TRY(nmb__need(b, NMB__F_Q_RANK));
  x->heads = I(b, INDEX_HEADS);
  x->width = I(b, INDEX_DIM);
  x->topk = I(b, INDEX_TOPK);
  x->adjacent = I(b, INDEX_ADJACENT);
  return index_own(b, layer, &x->own);
}

/* Layers with pools have a theta of their own and the scaling, those without have neither
 * (the configuration class in transformers, and the report's code, which leaves YaRN's
 * factor on cosine and sine out).  Written by kind, each kind has its own object. */
static nmb_status
latent_rope(const builder *b, nmb__attn *t)
{
  const json_t *j = J(b, ROPE_SCALING);
  const bool by_kind = json_object_get(j, "main") || json_object_get(j, "compress");
  const double theta = t->compress ? R(b, COMPRESS_THETA) : R(b, THETA);
  const int64_t width = I(b, D_ROPE)
                            ? I(b, D_ROPE)
                            : (int64_t)(R(b, ROTARY_FACTOR) * (double)t->dk);
  double score;
  NMB_TRY(nmb__rope_resolve(b, by_kind ? t->dk : width, t->compress > 0, &t->rope, &score));
  if (!by_kind) {
    t->rope.dims = t->rope.live = width;
    t->rope.theta = theta;
  }
  if (!by_kind && !t->compress)
    t->rope.kind = NMB__ROPE_PLAIN;
  if (!json_object_get(by_kind ? json_object_get(j, "compress") : j, "attention_factor"))
    t->rope.attention = t->rope.attention_short = 1;
  if (t->rope.dims > t->dk || t->rope.dims % 2)
    return nmb_fail(b->run, NMB_BADINPUT, nmb__place(b, NMB__F_D_ROPE),
                    "%ld of %ld dimensions rotate, expected an even number of them",
                    (long)t->rope.dims, (long)t->dk);
  return NMB_OK;
}

/* DeepSeek-V4: one latent key per position, pooled by `compress`.  Pools of 4 overlap and
 * have an indexer, in the list of numbers as in the words that stand for them. */
static nmb_status
compress_of(const builder *b, int64_t layer, int64_t *every, bool *indexed)
{
  static const char *const words[] = {"compressed_sparse_attention",
                                      "heavily_compressed_attention"};
  const json_t *v = json_array_get(J(b, COMPRESS), (size_t)layer);
  *indexed = json_integer_value(v) == 4;
  if (J(b, COMPRESS)) {
    *every = json_integer_value(v);
    if (json_is_integer(v) && *every >= 0 && *every <= 65536)
      return NMB_OK;
    return bad_at(b, NMB__F_COMPRESS, nmb_format(b->run, "%ld", (long)layer), v,
                  "a whole number from 0 to 65536");
  }
  int kind = layer < 2 || layer % 2 == 0; /* of the configuration class */
  if (J(b, LAYER_TYPES)) {
    NMB_TRY(nmb__list_at(b, NMB__F_LAYER_TYPES, layer, &v));
    const char *s = json_string_value(v);
    kind = s && !strcmp(s, words[0]) ? 0 : s && !strcmp(s, words[1]) ? 1 : NMB_NONE;
  }
  *indexed = kind == 0;
  *every = kind == 0 ? 4 : kind == 1 ? 128 : 0;
  v = kind == NMB_NONE ? NULL : json_object_get(J(b, COMPRESS_RATES), words[kind]);
  if (v)
    *every = json_integer_value(v);
  if (v && (!json_is_integer(v) || *every < 2 || *every > 65536))
    return bad_at(b, NMB__F_COMPRESS_RATES, words[kind], v, "a whole number from 2");
  return NMB_OK;
}

static nmb_status
compress_resolve(const builder *b, int64_t layer, nmb__attn *t)
{
  bool indexed;
  NMB_TRY(compress_of(b, layer, &t->compress, &indexed));
  t->latent = 1;
  t->q_rank = I(b, Q_RANK);
  t->o_groups = I(b, O_GROUPS);
  t->o_rank = I(b, O_RANK);
  NMB_TRY(nmb__need(b, NMB__F_Q_RANK));
  NMB_TRY(nmb__need(b, NMB__F_O_GROUPS));
  NMB_TRY(nmb__need(b, NMB__F_O_RANK));
  if (t->heads % t->o_groups || t->kv_heads != 1)
    return nmb_fail(b->run, NMB_BADINPUT, nmb__place(b, NMB__F_O_GROUPS),
                    "%s is %ld, expected a divisor of the %ld heads over 1 key head",
                    nmb__spelled(b, NMB__F_O_GROUPS), (long)t->o_groups, (long)t->heads);
  if (!indexed)
    t->index = (nmb__index){0};
  return latent_rope(b, t);
}

/* ------------------------------------------------------------ shared caches */
/* The last layer of the same kind that keeps a cache. */
static nmb_status
shared_resolve(const builder *b, int64_t layer, nmb__attn *t)
{
  const nmb__layer *all = b->a->layer;
  const int64_t first = b->a->nlayer - I(b, KV_SHARED);
  if (!I(b, KV_SHARED) || layer < first)
    return NMB_OK;
  for (int64_t i = first - 1; i >= 0; i--)
    if ((all[i].attn.window > 0) == (t->window > 0)) {
      t->kv_from = i + 1;
      return NMB_OK;
    }
  return nmb_fail(b->run, NMB_BADINPUT, nmb__place(b, NMB__F_KV_SHARED),
                  "%s is %ld: layer %ld has no layer before it to share a cache with",
                  nmb__spelled(b, NMB__F_KV_SHARED), (long)I(b, KV_SHARED), (long)layer);
}

nmb_status
nmb__attn_extras(const builder *b, int64_t layer, nmb__attn *t)
{
  t->v_norm = I(b, V_NORM);
  t->k_eq_v = I(b, K_EQ_V) && !t->window;
  NMB_TRY(index_resolve(b, layer, &t->index));
  if (J(b, COMPRESS) || I(b, O_GROUPS))
    NMB_TRY(compress_resolve(b, layer, t));
  return shared_resolve(b, layer, t);
}

/* ------------------------------------------------------------------ streams */
/* Gemma 3n cuts the gate at mean + z * deviation, z the normal quantile of the share
 * that is cut off.  Found by bisection of the error function, to the last bit. */
static double
normal_quantile(double p)
{
  double lo = -40, hi = 40;
  for (int i = 0; i < 200; i++) {
    const double mid = (lo + hi) / 2;
    if (0.5 * erfc(-mid / sqrt(2)) < p)
      lo = mid;
    else
      hi = mid;
  }
  return (lo + hi) / 2;
}

static nmb_status
sparsity_resolve(const builder *b, int64_t layer, double *out)
{
  const json_t *v = NULL;
  if (!J(b, SPARSITY))
    return NMB_OK;
  NMB_TRY(nmb__list_at(b, NMB__F_SPARSITY, layer, &v));
  const double p = json_number_value(v);
  if (!json_is_number(v) || !(p >= 0 && p < 1))
    return bad_at(b, NMB__F_SPARSITY, nmb_format(b->run, "%ld", (long)layer), v,
                  "a share from 0 to below 1");
  *out = p > 0 ? normal_quantile(p) : 0;
  return NMB_OK;
}

nmb_status
nmb__layer_extras(const builder *b, int64_t layer, nmb__layer *l)
{
  if (I(b, HYPER)) {
    l->hyper = I(b, HYPER);
    l->hyper_rounds = I(b, HYPER_ROUNDS);
    l->hyper_eps = R(b, HYPER_EPS);
  }
  if (I(b, ALTUP)) {
    l->altup = I(b, ALTUP);
    l->altup_active = I(b, ALTUP_ACTIVE);
    l->altup_scale = I(b, ALTUP_SCALE);
    if (l->altup_active >= l->altup)
      return nmb_fail(b->run, NMB_BADINPUT, nmb__place(b, NMB__F_ALTUP_ACTIVE),
                      "%s is %ld, expected less than the %ld streams",
                      nmb__spelled(b, NMB__F_ALTUP_ACTIVE), (long)l->altup_active,
                      (long)l->altup);
  }
  l->laurel = I(b, LAUREL);
  l->scalar = I(b, LAYER_SCALAR);
  l->ple = I(b, PLE);
  l->ple_rows = l->ple ? I(b, PLE_ROWS) ? I(b, PLE_ROWS) : b->a->vocab : 0;
  return sparsity_resolve(b, layer, &l->sparsity);
}
