/* SPDX-License-Identifier: GPL-3.0-or-later */
/* GGUF header -> normalised architecture, by the tables of gguf.def.  What the tensors
 * themselves show (biases, norms of heads, tied heads, layers with experts) is taken
 * from them, as headers leave it out. */
#include <jansson.h>
#include <string.h>

#include "base/near.h"
#include "frontend/config.h"
#include "frontend/wmodel.h"

typedef struct arch_row {
  const char *arch, *family, *values;
} arch_row;

typedef struct key_row {
  const char *key, *arch;
  int field; /* NFIELD: of no use to this architecture; NONE: a note */
  const char *why;
} key_row;

#define DEFAULT(values)
#define KEY(key, arch, field)
#define NOTE(key, why)
#define ARCH(arch, family, values) {arch, family, values},
static const arch_row archs[] = {
#include "frontend/gguf.def"
};
#undef ARCH
#undef KEY
#undef NOTE
#define ARCH(arch, family, values)
#define KEY(key, arch, field) {key, arch, NMB__F_##field, NULL},
#define NOTE(key, why) {key, "", NMB_NONE, why},
static const key_row keys[] = {
#include "frontend/gguf.def"
};
#undef ARCH
#undef KEY
#undef NOTE
#undef DEFAULT
#define ARCH(arch, family, values)
#define KEY(key, arch, field)
#define NOTE(key, why)
#define DEFAULT(values) values
static const char defaults[] =
#include "frontend/gguf.def"
    ;
#undef ARCH
#undef KEY
#undef NOTE
#undef DEFAULT
#define NARCH ((int)(sizeof archs / sizeof *archs))
#define NKEY (sizeof keys / sizeof *keys)

typedef struct reader {
  nmb_run *run;
  const nmb__wfile *w;
  const arch_row *row;
  nmb__config c;
  json_t *root; /* list of all JSON that settings borrow */
} reader;

static json_t *
kept(reader *r, json_t *j)
{
  json_array_append_new(r->root, j);
  return j;
}

static nmb_status
set(reader *r, nmb__field f, const char *key, json_t *v)
{
  return nmb__config_set(r->run, &r->c, r->w->path, f, key, kept(r, v));
}

/* A key of the architecture; NULL if absent. */
static const nmb__meta *
meta(const reader *r, const char *key)
{
  return nmb__wfile_meta(r->w, nmb_format(r->run, "%s.%s", r->row->arch, key));
}

/* -------------------------------------------------------------- settings */
static json_t *
meta_json(const reader *r, const nmb__meta *m)
{
  if (m->kind == NMB__META_INT)
    return json_integer(m->i);
  if (m->kind == NMB__META_BOOL)
    return json_boolean(m->i);
  if (m->kind == NMB__META_REAL)
    return json_real(m->r);
  if (m->kind == NMB__META_TEXT)
    return json_string(nmb__meta_text(r->run, m));
  json_t *list = json_array();
  for (uint64_t i = 0; i < m->n && i < 4096; i++) {
    const double v = nmb__meta_number(m, i);
    json_array_append_new(list, v > -0x1p53 && v < 0x1p53 && v == (double)(int64_t)v
                                    ? json_integer((int64_t)v)
                                    : json_real(v));
  }
  return list;
}

/* Layers without attention have 0 heads, others 0 of their network: a list whose other
 * numbers are alike is one number, as the tensors say which layers these are. */
static json_t *
one_number(json_t *list)
{
  const json_t *some = NULL, *v;
  size_t i;
  json_array_foreach(list, i, v)
  {
    if (!json_is_integer(v) || (json_integer_value(v) && some && !json_equal(v, some)))
      return list;
    some = json_integer_value(v) ? v : some;
  }
  if (!some)
    return list;
  json_t *out = json_integer(json_integer_value(some));
  json_decref(list);
  return out;
}

static bool
fits(const char *pattern, const char *s)
{
  const size_t n = strcspn(pattern, "*");
  return !strncmp(pattern, s, n) && (pattern[n] || !s[n]);
}

/* Is the row for the file's architecture? */
static bool
row_is(const reader *r, const key_row *k)
{
  const char *mixer = r->c.set[NMB__F_MIXER].s;
  if (!strcmp(k->arch, "(latent)"))
    return r->c.set[NMB__F_MLA].i;
  if (!strcmp(k->arch, "(heads)"))
    return !strcmp(mixer, "ssd") || !strcmp(mixer, "delta") || !strcmp(mixer, "kda");
  return !*k->arch || !strcmp(k->arch, r->row->arch);
}

static nmb_status
key_unknown(const reader *r, const char *key)
{
  const char *names[NKEY];
  for (size_t i = 0; i < NKEY; i++)
    names[i] = keys[i].key;
  const char *s = strchr(key, '.') + 1;
  return nmb_fail(r->run, NMB_BADINPUT, (nmb_loc){r->w->path, 0, 0},
                  "%s: unknown key, which may change the architecture%s", key,
                  nmb__hint(r->run, s, names, (int)NKEY));
}

static nmb_status
key_read(reader *r, const nmb__meta *m)
{
  const size_t n = strlen(r->row->arch);
  if (strncmp(m->key, r->row->arch, n) || m->key[n] != '.') {
    nmb__config_note(r->run, &r->c, m->key, "ignored", "about the file, not the model");
    return NMB_OK;
  }
  const char *s = m->key + n + 1;
  for (size_t i = 0; i < NKEY; i++) {
    const key_row *k = &keys[i];
    if (!fits(k->key, s) || !row_is(r, k))
      continue;
    if (k->field >= 0 && k->field != NMB__F_NFIELD)
      return set(r, (nmb__field)k->field, m->key, one_number(meta_json(r, m)));
    nmb__config_note(r->run, &r->c, m->key, "ignored",
                     k->why ? k->why : "the family's code does not read it");
    return NMB_OK;
  }
  return key_unknown(r, m->key);
}

/* --------------------------------------------------- what the tensors show */
static const nmb__wtensor *
global(const reader *r, const char *name)
{
  return nmb__wfile_find(r->w, name);
}

static const nmb__wtensor *
of_layer(const reader *r, int64_t layer, const char *name)
{
  return global(r, nmb_format(r->run, "blk.%ld.%s", (long)layer, name));
}

/* Of the first layer that has it. */
static const nmb__wtensor *
of_any(const reader *r, const char *name)
{
  const nmb__wtensor *t = NULL;
  for (int64_t i = 0; !t && i < r->c.set[NMB__F_LAYERS].i; i++)
    t = of_layer(r, i, name);
  return t;
}

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
              {NMB__F_SELECT_BIAS, {"exp_probs_b.bias", "exp_probs_b"}},
              {NMB__F_SINK, {"attn_sinks.weight", "attn_sinks"}}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    bool found = false;
    for (int j = 0; j < 2 && rows[i].name[j]; j++)
      found |= of_any(r, rows[i].name[j]) != NULL;
    NMB_TRY(set(r, rows[i].field, rows[i].name[0], json_boolean(found)));
  }
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
  else if (!strcmp(norm, "layer"))
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
  if (r->c.set[NMB__F_GROUPS].i > 1 && !of_any(r, "exp_probs_b.bias"))
    NMB_TRY(set(r, NMB__F_TOPK_METHOD, "expert_group_count",
                json_string("group_limited_greedy")));
  return set(r, NMB__F_MOE_LAYERS, "ffn_gate_inp.weight", list);
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
    const bool attn = of_layer(r, i, "attn_output.weight") != NULL;
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

static bool
is_arch(const reader *r, const char *arch)
{
  return !strcmp(r->row->arch, arch);
}

/* What one architecture does unlike its family. */
static nmb_status
quirks_read(reader *r)
{
  const int64_t layers = r->c.set[NMB__F_LAYERS].i, heads = r->c.set[NMB__F_HEADS].i;
  if (is_arch(r, "falcon") && !of_any(r, "attn_norm_2.weight"))
    NMB_TRY(set(r, NMB__F_PLACE, "attn_norm_2.weight", json_string("parallel")));
  if (is_arch(r, "stablelm") && of_any(r, "ffn_norm.weight"))
    NMB_TRY(set(r, NMB__F_PLACE, "ffn_norm.weight", json_string("pre")));
  if (is_arch(r, "llama4") && r->c.set[NMB__F_EXPERTS].i == 128) /* Maverick */
    NMB_TRY(set(r, NMB__F_QK_NORM_ON, "expert_count", json_false()));
  if (is_arch(r, "baichuan") && layers == 40) /* the 13B models */
    NMB_TRY(set(r, NMB__F_POSITION, "block_count", json_string("alibi")));
  const nmb__meta *tuned = meta(r, "rope.scaling.finetuned");
  if (is_arch(r, "granitehybrid") && tuned && !tuned->i)
    NMB_TRY(set(r, NMB__F_POSITION, tuned->key, json_string("none")));
  /* the 27B models scale by the width of the hidden state over the heads */
  if (((!strcmp(r->row->arch, "gemma2") && layers == 46) ||
       (!strcmp(r->row->arch, "gemma3") && layers == 62)) &&
      heads > 0)
    NMB_TRY(set(r, NMB__F_SCALAR, "block_count",
                json_real((double)(r->c.set[NMB__F_HIDDEN].i / heads))));
  return NMB_OK;
}

/* -------------------------------------------------------------------- rope */
static json_t *
factors(reader *r, const nmb__wtensor *t)
{
  json_t *list = json_array();
  const nmb__storage_info *s = nmb__storage_get(t->type);
  if (s->elems != 1 || t->count > 65536)
    return list;
  float *f = NMB_NEW(r->run, float, t->count + 1);
  s->decode(t->data, t->count, f);
  for (int64_t i = 0; i < t->count; i++)
    json_array_append_new(list, json_real((double)f[i]));
  return list;
}

static const nmb__wtensor *
factor_tensor(const reader *r, const char *name)
{
  const nmb__wtensor *t = global(r, name);
  return t ? t : of_any(r, name);
}

static void
number_copy(const reader *r, json_t *o, const char *key, const char *name, double by)
{
  const nmb__meta *m = meta(r, key);
  if (m && (m->kind == NMB__META_INT || m->kind == NMB__META_REAL) && m->r > 0)
    json_object_set_new(o, name, json_real(m->r * by));
}

static json_t *
yarn(const reader *r)
{
  json_t *o = json_pack("{s:s}", "rope_type", "yarn");
  number_copy(r, o, "rope.scaling.factor", "factor", 1);
  number_copy(r, o, "rope.scaling.original_context_length",
              "original_max_position_embeddings", 1);
  number_copy(r, o, "rope.scaling.yarn_beta_fast", "beta_fast", 1);
  number_copy(r, o, "rope.scaling.yarn_beta_slow", "beta_slow", 1);
  /* stored as 0.1 * mscale_all_dim; the two factors on cos and sin cancel */
  number_copy(r, o, "rope.scaling.yarn_log_multiplier", "mscale_all_dim", 10);
  number_copy(r, o, "rope.scaling.yarn_log_multiplier", "mscale", 10);
  if (!strcmp(r->row->arch, "gpt-oss"))
    json_object_set_new(o, "truncate", json_false());
  return o;
}

static nmb_status
scaling_read(reader *r)
{
  const nmb__wtensor *one = factor_tensor(r, "rope_freqs.weight"),
                     *lo = factor_tensor(r, "rope_factors_short.weight"),
                     *hi = factor_tensor(r, "rope_factors_long.weight");
  const char *kind = nmb__meta_text(r->run, meta(r, "rope.scaling.type"));
  json_t *o = NULL;
  if (one || (lo && hi)) {
    o = json_pack("{s:s, s:o, s:o}", "rope_type", "longrope", "short_factor",
                  factors(r, one ? one : lo), "long_factor", factors(r, one ? one : hi));
    json_object_set_new(o, "attention_factor", json_real(1));
    number_copy(r, o, "rope.scaling.attn_factor", "attention_factor", 1);
    number_copy(r, o, "rope.scaling.original_context_length",
                "original_max_position_embeddings", 1);
  } else if (!strcmp(kind, "yarn"))
    o = yarn(r);
  else if (!strcmp(kind, "linear") || meta(r, "rope.scale_linear")) {
    o = json_pack("{s:s}", "rope_type", "linear");
    number_copy(r, o, "rope.scale_linear", "factor", 1);
    number_copy(r, o, "rope.scaling.factor", "factor", 1);
  } else if (*kind && strcmp(kind, "none"))
    return nmb_fail(
        r->run, NMB_UNSUPPORTED, (nmb_loc){r->w->path, 0, 0},
        "rope.scaling.type '%s' is not supported, expected none, linear or yarn", kind);
  return o ? set(r, NMB__F_ROPE_SCALING, "rope.scaling", o) : NMB_OK;
}

/* ----------------------------------------------------------------- formats */
/* The graph's format for a stored one: the same where there is one that holds its values,
 * else the format of about its bytes that machines compute with. */
nmb__format
nmb__storage_format(nmb__storage s)
{
  switch (s) {
  case NMB__ST_F16: return (nmb__format){NMB_DT_F16, 0};
  case NMB__ST_BF16: return (nmb__format){NMB_DT_BF16, 0};
  case NMB__ST_F8_E4M3: return (nmb__format){NMB_DT_F8E4M3, 0};
  case NMB__ST_F8_E5M2: return (nmb__format){NMB_DT_F8E5M2, 0};
  case NMB__ST_MXFP4: return (nmb__format){NMB_DT_MXFP4, 0};
  case NMB__ST_NVFP4: return (nmb__format){NMB_DT_NVFP4, 0};
  case NMB__ST_Q8_0:
  case NMB__ST_Q5_0:
  case NMB__ST_Q5_1:
  case NMB__ST_Q5_K:
  case NMB__ST_Q6_K:
  case NMB__ST_I8: return (nmb__format){NMB_DT_I8, 32};
  case NMB__ST_Q4_1: return (nmb__format){NMB_DT_I4Z, 32};
  case NMB__ST_Q4_0:
  case NMB__ST_Q4_K:
  case NMB__ST_Q3_K:
  case NMB__ST_Q2_K:
  case NMB__ST_IQ4_NL:
  case NMB__ST_IQ4_XS: return (nmb__format){NMB_DT_I4, 32};
  case NMB__ST_TQ1_0:
  case NMB__ST_TQ2_0:
  case NMB__ST_Q1_0:
  case NMB__ST_Q2_0: return (nmb__format){NMB_DT_TERNARY, 0};
  default: return (nmb__format){NMB_DT_F32, 0};
  }
}

/* A tensor of each class: the first that a layer has. */
static const struct {
  nmb__class class_;
  const char *name[3];
} class_tensors[] = {
    {NMB__W_NORM,
     {"attn_norm.weight", "attn_post_norm.weight", "post_attention_norm.weight"}},
    {NMB__W_ATTN, {"attn_q.weight", "attn_qkv.weight", "attn_q_b.weight"}},
    {NMB__W_MLA_DOWN, {"attn_kv_a_mqa.weight"}},
    {NMB__W_FFN, {"ffn_up.weight", "ffn_gate.weight"}},
    {NMB__W_ROUTER, {"ffn_gate_inp.weight"}},
    {NMB__W_EXPERT, {"ffn_up_exps.weight", "ffn_up.0.weight"}},
    {NMB__W_SHARED, {"ffn_up_shexp.weight"}},
};

static nmb__format
format_of(const nmb__wtensor *t, nmb__format dflt)
{
  return t ? nmb__storage_format(t->type) : dflt;
}

static void
formats_set(const void *self, nmb__arch *a, nmb__layer *layer)
{
  const reader *r = self;
  a->embed = format_of(global(r, "token_embd.weight"), a->embed);
  a->head = format_of(global(r, "output.weight"), a->embed);
  a->final_norm = format_of(global(r, "output_norm.weight"), a->final_norm);
  for (int64_t i = 0; i < a->nlayer; i++)
    for (size_t k = 0; k < sizeof class_tensors / sizeof *class_tensors; k++) {
      const nmb__class c = class_tensors[k].class_;
      const nmb__wtensor *t = NULL;
      for (int j = 0; !t && j < 3 && class_tensors[k].name[j]; j++)
        t = of_layer(r, i, class_tensors[k].name[j]);
      if (!t)
        continue;
      layer[i].dtype[c] = (int64_t)nmb__storage_format(t->type).dtype;
      layer[i].group[c] = nmb__storage_format(t->type).group;
    }
}

/* ------------------------------------------------------------------- whole */
static nmb_status
row_find(reader *r)
{
  const nmb__meta *m = nmb__wfile_meta(r->w, "general.architecture");
  const char *arch = nmb__meta_text(r->run, m), *names[NARCH];
  for (int i = 0; i < NARCH; i++) {
    names[i] = archs[i].arch;
    if (!strcmp(arch, names[i]))
      r->row = &archs[i];
  }
  if (r->row)
    return NMB_OK;
  if (!*arch)
    return nmb_fail(r->run, NMB_BADINPUT, (nmb_loc){r->w->path, 0, 0},
                    "no key 'general.architecture' with a text");
  return nmb_fail(r->run, NMB_UNSUPPORTED, (nmb_loc){r->w->path, 0, 0},
                  "architecture '%s' is not known%s", arch,
                  nmb__hint(r->run, arch, names, NARCH));
}

/* One architecture of GGUF may be several families. */
static const char *
family_of(const reader *r)
{
  const nmb__meta *e = meta(r, "expert_count"), *g = meta(r, "expert_gating_func");
  if (!strcmp(r->row->arch, "llama") && e && e->i > 0)
    return "mixtral";
  if (!strcmp(r->row->arch, "deepseek2") && g && g->i == 2)
    return "deepseek_v3";
  return r->row->family;
}

static nmb_status
header_read(reader *r)
{
  NMB_TRY(nmb__config_begin(r->run, r->w->path, family_of(r), &r->c));
  NMB_TRY(nmb__config_apply(r->run, &r->c, defaults));
  NMB_TRY(nmb__config_apply(r->run, &r->c, r->row->values));
  for (int i = 0; i < r->w->nmeta; i++)
    NMB_TRY(key_read(r, &r->w->meta[i]));
  NMB_TRY(layers_read(r));
  NMB_TRY(flags_read(r));
  NMB_TRY(norms_read(r));
  NMB_TRY(sizes_read(r));
  NMB_TRY(experts_read(r));
  NMB_TRY(latent_read(r));
  NMB_TRY(mixers_read(r));
  NMB_TRY(quirks_read(r));
  NMB_TRY(scaling_read(r));
  nmb__config_end(r->run, &r->c);
  return NMB_OK;
}

nmb_status
nmb__gguf_arch(nmb_run *run, const nmb__wfile *w, const char *name, const nmb__arch **out)
{
  reader r = {.run = run, .w = w, .root = json_array()};
  nmb_status s = row_find(&r);
  if (s == NMB_OK)
    s = header_read(&r);
  r.c.formats = formats_set;
  r.c.formats_self = &r;
  if (s == NMB_OK)
    s = nmb__arch_of(run, &r.c, w->path, name, w->hash, out);
  json_decref(r.root);
  return s;
}
