/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The scaling of rotary frequencies that a GGUF file asks for, by keys or by tensors. */
#include "frontend/ggufarch.h"

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

nmb_status
nmb__gguf_rope(reader *r)
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
  } else if (!*kind && meta(r, "rope.scaling.factor")) /* the kind where none is said */
    kind = "linear";
  if (o)
    ;
  else if (!strcmp(kind, "yarn"))
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
