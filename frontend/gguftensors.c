/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the tensors of a GGUF file show of its architecture, as its header leaves that out:
 * biases, norms of heads, tied heads, which layers route or mix; and the few things that
 * single architectures do by a number of layers or by a key's absence. */
#include <math.h>

#include "frontend/ggufarch.h"

/* Layers that predict further tokens stand behind the others, and count as layers. */
static nmb_status
layers_read(reader *r)
{
  const nmb__meta *m = meta(r, "nextn_predict_layers");
  int64_t n = r->c.set[NMB__F_LAYERS].i;
  for (int64_t i = 0; m && i < m->i && n > 1; i++)
    n -= of_layer(r, n - 1, "nextn.eh_proj.weight") ||
         !of_layer(r, n - 1, "attn_norm.weight");
  r->c.set[NMB__F_LAYERS].key = NULL;
  return set(r, NMB__F_LAYERS, "block_count", json_integer(n));
}

/* Sinks may be in layers with a window only. */
static nmb_status
sinks_read(reader *r)
{
  bool some = false, all = true;
  for (int64_t i = 0; i < r->c.set[NMB__F_LAYERS].i; i++) {
    const bool has =
        of_layer(r, i, "attn_sinks.weight") || of_layer(r, i, "attn_sinks");
    some |= has;
    all &= has || !of_layer(r, i, "attn_output.weight");
  }
  NMB_TRY(set(r, NMB__F_SINK, "attn_sinks.weight", json_boolean(some && all)));
  return set(r, NMB__F_WINDOW_SINK, "attn_sinks.weight", json_boolean(some && !all));
}

static nmb_status
flags_read(reader *r)
{
  const struct {
    nmb__field field;
    const char *name[2];
  } rows[] = {{NMB__F_ATTN_BIAS, {"attn_q.bias", "attn_qkv.bias"}},
              {NMB__F_FFN_BIAS, {"ffn_up.bias", "ffn_down.bias"}},
              {NMB__F_EXPERT_BIAS, {"ffn_up_exps.bias", NULL}},
              {NMB__F_ROUTER_BIAS, {"ffn_gate_inp.bias", NULL}},
              {NMB__F_SELECT_BIAS, {"exp_probs_b.bias", "exp_probs_b"}}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    bool found = false;
    for (int j = 0; j < 2 && rows[i].name[j]; j++)
      found |= of_any(r, rows[i].name[j]) != NULL;
    NMB_TRY(set(r, rows[i].field, rows[i].name[0], json_boolean(found)));
  }
  NMB_TRY(sinks_read(r));
  NMB_TRY(set(r, NMB__F_O_BIAS, "attn_output.bias",
              json_string(of_any(r, "attn_output.bias") ? "yes" : "no")));
  NMB_TRY(
      set(r, NMB__F_TIED, "output.weight", json_boolean(!global(r, "output.weight"))));
  NMB_TRY(set(r, NMB__F_HEAD_BIAS, "output.bias",
              json_boolean(global(r, "output.bias") != NULL)));
  return set(r, NMB__F_EMBED_NORM, "token_embd_norm.weight",
             json_boolean(global(r, "token_embd_norm.weight") &&
                          global(r, "output_norm.weight")));
}

static nmb_status
norms_read(reader *r)
{
  const nmb__wtensor *q = of_any(r, "attn_q_norm.weight");
  const char *norm = r->c.set[NMB__F_NORM].s;
  if (global(r, "output_norm.bias"))
    norm = "layer";
  else if (!strcmp(norm, "layer") && !of_any(r, "attn_norm.bias")) /* else it is missing */
    norm = "layer-nobias";
  NMB_TRY(set(r, NMB__F_NORM, "output_norm.bias", json_string(norm)));
  if (!strcmp(r->c.set[NMB__F_QK_NORM].s, "unit")) /* has no weights */
    return NMB_OK;
  NMB_TRY(set(r, NMB__F_QK_NORM_ON, "attn_q_norm.weight", json_boolean(q != NULL)));
  if (!q)
    return NMB_OK;
  if (q->rank > 1)
    return set(r, NMB__F_QK_NORM, "attn_q_norm.weight", json_string("layer-per-head"));
  const nmb__wtensor *v = of_any(r, "attn_q.weight");
  const bool full =
      v && v->rank == 2 && v->dim[0] == q->count && r->c.set[NMB__F_HEADS].i > 1;
  return set(r, NMB__F_QK_NORM, "attn_q_norm.weight",
             json_string(full ? "full" : "head"));
}

/* Number of rows of a tensor [.., rows, columns]; 0 if it is absent. */
static int64_t
rows_of(const nmb__wtensor *t)
{
  return t && t->rank > 1 ? t->dim[t->rank - 2] : 0;
}

static nmb_status
sizes_read(reader *r)
{
  const struct {
    nmb__field field;
    const char *name;
    int64_t n;
  } rows[] = {
      {NMB__F_EXPERT_FFN, "ffn_up_exps.weight", rows_of(of_any(r, "ffn_up_exps.weight"))},
      {NMB__F_SHARED_FFN, "ffn_up_shexp.weight",
       rows_of(of_any(r, "ffn_up_shexp.weight"))},
      {NMB__F_POSITION_ROWS, "position_embd.weight",
       rows_of(global(r, "position_embd.weight"))},
      {NMB__F_VOCAB, "token_embd.weight", rows_of(global(r, "token_embd.weight"))}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (rows[i].n) {
      r->c.set[rows[i].field].key = NULL; /* the tensor decides */
      NMB_TRY(set(r, rows[i].field, rows[i].name, json_integer(rows[i].n)));
    }
  return NMB_OK;
}

static nmb_status
experts_read(reader *r)
{
  static const char *const scores[] = {"softmax", "sigmoid", "topk-softmax"};
  const nmb__meta *g = meta(r, "expert_gating_func");
  if (g && g->i >= 1 && g->i <= 3)
    NMB_TRY(set(r, NMB__F_ROUTER, g->key, json_string(scores[g->i - 1])));
  else if (g && g->i)
    return nmb_fail(
        r->run, NMB_UNSUPPORTED, (nmb_loc){r->w->path, 0, 0},
        "%s: found %ld, expected 1 (softmax), 2 (sigmoid) or 3 (softmax of the "
        "chosen)",
        g->key, (long)g->i);
  if (!r->c.set[NMB__F_EXPERTS].i)
    return NMB_OK;
  json_t *list = json_array();
  for (int64_t i = 0; i < r->c.set[NMB__F_LAYERS].i; i++)
    json_array_append_new(list,
                          json_integer(of_layer(r, i, "ffn_gate_inp.weight") != NULL));
  r->c.set[NMB__F_DENSE_FIRST] = (nmb__setting){.s = "0"};
  if (!r->c.set[NMB__F_SELECT_BIAS].i)
    NMB_TRY(set(r, NMB__F_TOPK_METHOD, "expert_group_count",
                json_string(r->c.set[NMB__F_GROUPS].i > 1 ? "group_limited_greedy"
                                                          : "greedy")));
  return set(r, NMB__F_MOE_LAYERS, "ffn_gate_inp.weight", list);
}

/* Layers that take the indexer's choice of an earlier one have none. */
static nmb_status
indexers_read(reader *r)
{
  bool all = true;
  json_t *list = json_array();
  for (int64_t i = 0; i < r->c.set[NMB__F_LAYERS].i; i++) {
    const bool own = of_layer(r, i, "indexer.attn_k.weight") != NULL;
    json_array_append_new(list, json_string(own ? "full" : "shared"));
    all &= own;
  }
  if (r->c.set[NMB__F_INDEX_HEADS].i && !all && of_any(r, "indexer.attn_k.weight"))
    return set(r, NMB__F_INDEX_TYPES, "indexer.attn_k.weight", list);
  json_decref(list);
  return NMB_OK;
}

/* Widths of the parts of latent attention. */
static nmb_status
latent_read(reader *r)
{
  const nmb__meta *k = meta(r, "attention.key_length_mla"),
                  *v = meta(r, "attention.value_length_mla");
  if (!k)
    k = meta(r, "attention.key_length");
  if (!v)
    v = meta(r, "attention.value_length");
  if (!r->c.set[NMB__F_MLA].i || !k || !v)
    return NMB_OK;
  NMB_TRY(set(r, NMB__F_D_NOPE, k->key, json_integer(k->i - r->c.set[NMB__F_D_ROPE].i)));
  return set(r, NMB__F_V_DIM, v->key, json_integer(v->i));
}

/* Which layers of a family with state mixers have one. */
static nmb_status
mixers_read(reader *r)
{
  if (!strcmp(r->c.set[NMB__F_MIXER].s, "ssd"))
    NMB_TRY(set(r, NMB__F_MIX_NORM_ON, "ssm_norm.weight",
                json_boolean(of_any(r, "ssm_norm.weight") != NULL)));
  if (!strcmp(r->c.set[NMB__F_MIXER].s, "none") || r->c.set[NMB__F_MIX_BESIDE].i)
    return NMB_OK;
  const int64_t layers = r->c.set[NMB__F_LAYERS].i;
  const char *letters = "";
  json_t *list = json_array();
  for (int64_t i = 0; i < layers; i++) {
    const bool attn = of_layer(r, i, "attn_output.weight") &&
                      !of_layer(r, i, "ssm_conv1d_q.weight");
    const bool mixes = of_layer(r, i, "ssm_out.weight") != NULL;
    json_array_append_new(list, json_integer(attn));
    letters = nmb_format(r->run, "%s%s", letters,
                         attn                                      ? "*"
                         : mixes                                   ? "M"
                         : of_layer(r, i, "ffn_gate_inp.weight") ? "E"
                                                                   : "-");
  }
  if (!r->c.set[NMB__F_MIX_ALONE].i)
    return set(r, NMB__F_MIX_LIST, "attn_output.weight", list);
  json_decref(list);
  return set(r, NMB__F_MIX_PATTERN, "attn_output.weight", json_string(letters));
}

/* Which layers have the window: a number of layers after which it is left out once, or a
 * truth for each layer. */
static nmb_status
windows_read(reader *r)
{
  const nmb__meta *m = meta(r, "attention.sliding_window_pattern");
  if (!m || !strcmp(r->c.set[NMB__F_MIXER].s, "rglru") || !r->c.set[NMB__F_WINDOW].i)
    return NMB_OK;
  if (m->kind == NMB__META_INT) {
    r->c.set[NMB__F_WINDOW_ALTERNATE].key = NULL;
    return set(r, NMB__F_WINDOW_ALTERNATE, m->key, json_integer(m->i));
  }
  json_t *list = json_array();
  for (int64_t i = 0; i < r->c.set[NMB__F_LAYERS].i && m->kind == NMB__META_LIST; i++)
    json_array_append_new(list, json_boolean(nmb__meta_number(m, (uint64_t)i) > 0));
  return set(r, NMB__F_LAYER_TYPES, m->key, list);
}

/* ------------------------------------------- what single architectures do */
static nmb_status
real(reader *r, nmb__field f, const char *key, double v)
{
  return set(r, f, key, json_real(v));
}

/* Where norms stand, and which positions there are. */
static nmb_status
places_read(reader *r)
{
  const nmb__meta *tuned = meta(r, "rope.scaling.finetuned");
  if (is_arch(r, "falcon") && !of_any(r, "attn_norm_2.weight"))
    NMB_TRY(set(r, NMB__F_PLACE, "attn_norm_2.weight", json_string("parallel")));
  if (is_arch(r, "stablelm") && of_any(r, "ffn_norm.weight"))
    NMB_TRY(set(r, NMB__F_PLACE, "ffn_norm.weight", json_string("pre")));
  if (is_arch(r, "baichuan") && r->c.set[NMB__F_LAYERS].i == 40) /* the 13B models */
    NMB_TRY(set(r, NMB__F_POSITION, "block_count", json_string("alibi")));
  if (!strncmp(r->row->arch, "granite", 7) && tuned && !tuned->i)
    NMB_TRY(set(r, NMB__F_POSITION, tuned->key, json_string("none")));
  /* the scaling is for layers without window */
  if ((is_arch(r, "olmo2") || is_arch(r, "mellum")) && r->c.set[NMB__F_WINDOW].i &&
      !meta(r, "rope.freq_base_swa"))
    NMB_TRY(real(r, NMB__F_THETA_WINDOW, "rope.freq_base", r->c.set[NMB__F_THETA].r));
  const nmb__meta *alpha = meta(r, "rope.scaling.alpha"),
                  *head = meta(r, "attention.key_length");
  if (is_arch(r, "hunyuan_vl") && alpha && alpha->r > 0 && head && head->i > 2)
    NMB_TRY(real(r, NMB__F_THETA, alpha->key,
                 r->c.set[NMB__F_THETA].r *
                     pow(alpha->r, (double)head->i / (double)(head->i - 2))));
  return NMB_OK;
}

/* The element of a list, or the number itself; -1: neither. */
static int64_t
of_list(const nmb__meta *m, int64_t i)
{
  if (!m || m->kind == NMB__META_INT)
    return m ? m->i : -1;
  return m->kind == NMB__META_LIST && (uint64_t)i < m->n
             ? (int64_t)nmb__meta_number(m, (uint64_t)i)
             : -1;
}

/* DeciLM and Nemotron-NAS: parts that a layer does not have count 0 heads or columns. */
static nmb_status
blocks_read(reader *r)
{
  const nmb__meta *heads = meta(r, "attention.head_count"),
                  *kv = meta(r, "attention.head_count_kv"),
                  *ffn = meta(r, "feed_forward_length");
  if (!is_arch(r, "deci"))
    return NMB_OK;
  json_t *list = json_array();
  for (int64_t i = 0; i < r->c.set[NMB__F_LAYERS].i; i++) {
    const int64_t h = of_list(heads, i), k = of_list(kv ? kv : heads, i),
                  n = of_list(ffn, i);
    json_t *attn = h > 0 ? json_pack("{s:I, s:b}", "num_key_value_heads", (json_int_t)k,
                                     "replace_with_linear", k == 0)
                         : json_pack("{s:b}", "no_op", 1);
    json_t *net = n > 0 ? json_pack("{s:I}", "intermediate_size", (json_int_t)n)
                        : json_pack("{s:b}", "no_op", 1);
    json_array_append_new(list, json_pack("{s:o, s:o}", "attention", attn, "ffn", net));
  }
  return set(r, NMB__F_BLOCKS, "attention.head_count", list);
}

/* Factors that older files leave out. */
static nmb_status
factors_read(reader *r)
{
  const int64_t layers = r->c.set[NMB__F_LAYERS].i, heads = r->c.set[NMB__F_HEADS].i;
  /* the 27B models scale by the width of the hidden state over the heads */
  if (((is_arch(r, "gemma2") && layers == 46) || (is_arch(r, "gemma3") && layers == 62)) &&
      heads > 0)
    NMB_TRY(real(r, NMB__F_SCALAR, "block_count",
                 (double)(r->c.set[NMB__F_HIDDEN].i / heads)));
  if (is_arch(r, "minicpm") && !meta(r, "embedding_scale"))
    NMB_TRY(real(r, NMB__F_EMBED_SCALE, "embedding_scale", 12));
  if (is_arch(r, "minicpm") && !meta(r, "residual_scale"))
    NMB_TRY(real(r, NMB__F_DEPTH_SCALE, "residual_scale", 1.4));
  if (is_arch(r, "minicpm") && !meta(r, "logit_scale"))
    NMB_TRY(set(r, NMB__F_BASE_WIDTH, "logit_scale", json_integer(256)));
  return NMB_OK;
}

/* Gemma 3n: of the first ten layers' gates the largest twentieth is left, where the file
 * does not say how many standard deviations above the mean that is. */
static nmb_status
sparsity_read(reader *r)
{
  const nmb__meta *m = meta(r, "activation_sparsity_scale");
  json_t *list = json_array();
  for (int64_t i = 0; i < r->c.set[NMB__F_LAYERS].i; i++) {
    double share = i < 10 ? 0.95 : 0;
    if (m && m->kind == NMB__META_LIST && (uint64_t)i < m->n)
      share = 0.5 * erfc(-nmb__meta_number(m, (uint64_t)i) * sqrt(0.5));
    json_array_append_new(list, share > 0 ? json_real(share) : json_integer(0));
  }
  return set(r, NMB__F_SPARSITY, "activation_sparsity_scale", list);
}

/* Gemma 3n and 4: which of the parts that only some models of the family have are there. */
static nmb_status
gemma_read(reader *r)
{
  const nmb__wtensor *table = global(r, "per_layer_token_embd.weight"),
                     *left = of_any(r, "laurel_l.weight");
  const int64_t layers = r->c.set[NMB__F_LAYERS].i;
  const bool routes = of_any(r, "ffn_gate_inp.scale") != NULL;
  if (!is_arch(r, "gemma3n") && !is_arch(r, "gemma4"))
    return NMB_OK;
  if (rows_of(table))
    NMB_TRY(set(r, NMB__F_PLE_ROWS, "per_layer_token_embd.weight",
                json_integer(rows_of(table))));
  if (is_arch(r, "gemma3n")) {
    NMB_TRY(sparsity_read(r));
    return rows_of(left)
               ? set(r, NMB__F_LAUREL, "laurel_l.weight", json_integer(rows_of(left)))
               : NMB_OK;
  }
  bool keys_only = false;
  for (int64_t i = 0; i < layers; i++)
    keys_only |= of_layer(r, i, "attn_k.weight") && !of_layer(r, i, "attn_v.weight");
  NMB_TRY(set(r, NMB__F_K_EQ_V, "attn_v.weight", json_boolean(keys_only)));
  NMB_TRY(set(r, NMB__F_MOE_BESIDE, "ffn_gate_inp.scale", json_boolean(routes)));
  NMB_TRY(set(r, NMB__F_ROUTER_NORM, "ffn_gate_inp.scale", json_boolean(routes)));
  NMB_TRY(set(r, NMB__F_LAYER_SCALAR, "layer_output_scale.weight",
              json_boolean(of_any(r, "layer_output_scale.weight") != NULL)));
  return meta(r, "rope.freq_base_swa")
             ? NMB_OK
             : real(r, NMB__F_THETA_WINDOW, "rope.freq_base", r->c.set[NMB__F_THETA].r);
}

/* What one architecture does unlike its family. */
static nmb_status
quirks_read(reader *r)
{
  const nmb__meta *unit = meta(r, "ssm.dt_b_c_rms"),
                  *window = meta(r, "attention.sliding_window");
  if (is_arch(r, "mamba") && unit && unit->i) /* Falcon-Mamba */
    NMB_TRY(set(r, NMB__F_MIX_INNER_NORM, unit->key, json_string("unit")));
  if (is_arch(r, "llama4") && r->c.set[NMB__F_EXPERTS].i == 128) /* Maverick */
    NMB_TRY(set(r, NMB__F_QK_NORM_ON, "expert_count", json_false()));
  if (is_arch(r, "llama4") && window && !window->i) { /* MobileLLM: no chunks */
    NMB_TRY(set(r, NMB__F_CHUNK, window->key, json_integer(0)));
    NMB_TRY(set(r, NMB__F_NOPE_EVERY, window->key, json_integer(0)));
  }
  if (is_arch(r, "grok") && of_any(r, "ffn_up.weight")) /* Grok-2 */
    NMB_TRY(set(r, NMB__F_MOE_AND_DENSE, "ffn_up.weight", json_true()));
  NMB_TRY(places_read(r));
  NMB_TRY(blocks_read(r));
  if (is_arch(r, "kimi-linear")) /* the heads of attention */
    NMB_TRY(set(r, NMB__F_MIX_HEADS, "attention.head_count",
                json_integer(r->c.set[NMB__F_HEADS].i)));
  NMB_TRY(gemma_read(r));
  return factors_read(r);
}

nmb_status
nmb__gguf_tensors(reader *r)
{
  NMB_TRY(layers_read(r));
  NMB_TRY(flags_read(r));
  NMB_TRY(norms_read(r));
  NMB_TRY(sizes_read(r));
  NMB_TRY(experts_read(r));
  NMB_TRY(latent_read(r));
  NMB_TRY(indexers_read(r));
  NMB_TRY(mixers_read(r));
  NMB_TRY(windows_read(r));
  return quirks_read(r);
}
