/* SPDX-License-Identifier: GPL-3.0-or-later */
/* rope_scaling, rope_parameters -> how the heads of a layer rotate.
 *
 * The meaning of every number is that of op rope in ops.def.  A file gives one object
 * for all layers or one for each type of layer.  After the rotary functions of the
 * published classes, and their papers: linear (arXiv:2306.15595), dynamic (NTK), YaRN
 * (arXiv:2309.00071), LongRoPE (arXiv:2402.13753), Llama 3.1 (arXiv:2407.21783). */
#include <math.h>
#include <string.h>

#include "base/near.h"
#include "frontend/arch.h"

static const char *const rope_names[NMB__NROPE] = {"default", "linear",  "llama3",
                                                   "yarn",    "dynamic", "longrope"};

const char *
nmb__rope_name(int64_t k)
{
  return rope_names[k];
}

/* One object of scaling, and where it stands in the file. */
typedef struct scaling {
  const builder *b;
  const json_t *j;
  const char *path;
} scaling;

static nmb_status
bad(const scaling *s, const char *key, const json_t *v, const char *expected)
{
  return nmb_fail(s->b->run, NMB_BADINPUT, nmb__place(s->b, NMB__F_ROPE_SCALING),
                  "%s.%s: found %s, expected %s", s->path, key,
                  v ? nmb__json_show(s->b->run, v) : "nothing", expected);
}

/* A number above 0; dflt where it is absent or null. */
static nmb_status
number(const scaling *s, const char *key, double dflt, double *out)
{
  const json_t *v = json_object_get(s->j, key);
  *out = dflt;
  if (!v || json_is_null(v))
    return NMB_OK;
  *out = json_number_value(v);
  if (!json_is_number(v) || !(*out > 0 && *out <= 1e12))
    return bad(s, key, v, "a number above 0");
  return NMB_OK;
}

/* Every key must be one that is understood. */
static nmb_status
keys_check(const scaling *s)
{
  static const char *const known[] = {
      "type", "rope_type", "rope_theta", "factor", "partial_rotary_factor",
      "low_freq_factor", "high_freq_factor", "original_max_position_embeddings",
      "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "attention_factor",
      "truncate", "short_factor", "long_factor", "short_mscale", "long_mscale", "alpha",
      "llama_4_scaling_beta", "max_position_embeddings",
      /* three positions of a token, equal in text; without effect in the library */
      "mrope_section", "mrope_interleaved", "finetuned", "extrapolation_factor"};
  const int n = (int)(sizeof known / sizeof *known);
  const char *key;
  json_t *v;
  json_object_foreach((json_t *)(uintptr_t)s->j, key, v)
  {
    int i = 0;
    while (i < n && strcmp(known[i], key))
      i++;
    if (i == n)
      return nmb_fail(s->b->run, NMB_BADINPUT, nmb__place(s->b, NMB__F_ROPE_SCALING),
                      "%s.%s: unknown key, which may change the architecture%s", s->path,
                      key, nmb__hint(s->b->run, key, known, n));
  }
  return NMB_OK;
}

/* *proportional: Gemma 4's partial rotation, see `live` of op rope. */
static nmb_status
kind_read(const scaling *s, int64_t *kind, bool *proportional)
{
  static const struct {
    const char *name;
    int kind;
  } more[] = {{"su", NMB__ROPE_LONG}, {"mrope", NMB__ROPE_PLAIN},
              {"deepseek_yarn", NMB__ROPE_YARN}, {"proportional", NMB__ROPE_PLAIN}};
  const json_t *t = json_object_get(s->j, "rope_type");
  if (!t)
    t = json_object_get(s->j, "type");
  const char *name = json_string_value(t);
  *proportional = name && !strcmp(name, "proportional");
  *kind = NMB__ROPE_PLAIN;
  if (!t && !json_object_get(s->j, "factor"))
    return NMB_OK; /* only theta */
  for (int i = 0; name && i < NMB__NROPE; i++)
    if (!strcmp(rope_names[i], name)) {
      *kind = i;
      return NMB_OK;
    }
  for (size_t i = 0; name && i < sizeof more / sizeof *more; i++)
    if (!strcmp(more[i].name, name)) {
      *kind = more[i].kind;
      return NMB_OK;
    }
  return bad(s, json_object_get(s->j, "rope_type") ? "rope_type" : "type", t,
             "one of default, linear, llama3, yarn, dynamic, longrope, proportional");
}

static double
yarn_m(double factor, double m)
{
  return factor > 1 ? 0.1 * m * log(factor) + 1 : 1;
}

static nmb_status
yarn_read(const scaling *s, nmb__rope *out, double *score)
{
  double all = 0, m = 0;
  const json_t *t = json_object_get(s->j, "truncate");
  NMB_TRY(number(s, "mscale", 0, &m));
  NMB_TRY(number(s, "mscale_all_dim", 0, &all));
  NMB_TRY(number(s, "beta_fast", 32, &out->beta_fast));
  NMB_TRY(number(s, "beta_slow", 1, &out->beta_slow));
  if (t && !json_is_boolean(t))
    return bad(s, "truncate", t, "true or false");
  out->truncate = !t || json_is_true(t);
  out->attention = yarn_m(out->factor, m > 0 ? m : 1) / yarn_m(out->factor, all);
  NMB_TRY(number(s, "attention_factor", out->attention, &out->attention));
  if (all > 0)
    *score = yarn_m(out->factor, all) * yarn_m(out->factor, all);
  return NMB_OK;
}

/* One divisor for each frequency. */
static nmb_status
factors_read(const scaling *s, const char *key, int64_t n, const double **out)
{
  const json_t *v = json_object_get(s->j, key);
  if (!json_is_array(v) || (int64_t)json_array_size(v) != n)
    return bad(s, key, v,
               nmb_format(s->b->run, "a list of %ld numbers, one for each frequency",
                          (long)n));
  double *f = NMB_NEW(s->b->run, double, n);
  for (int64_t i = 0; i < n; i++) {
    const json_t *x = json_array_get(v, (size_t)i);
    f[i] = json_number_value(x);
    if (!json_is_number(x) || !(f[i] > 0 && f[i] <= 1e36)) /* GGUF writes 1e30 for no rotation */
      return bad(s, nmb_format(s->b->run, "%s.%ld", key, (long)i), x,
                 "a number above 0");
  }
  *out = f;
  return NMB_OK;
}

/* The lists are kept by the architecture, as all layers share them. */
static nmb_status
long_read(const scaling *s, nmb__rope *out)
{
  nmb__arch *a = s->b->a;
  const int64_t n = out->dims / 2;
  NMB_TRY(factors_read(s, "short_factor", n, &a->rope_short));
  NMB_TRY(factors_read(s, "long_factor", n, &a->rope_long));
  a->rope_factors = n;
  const double longest = (double)I(s->b, CONTEXT), given = out->factor;
  if (out->orig > 1 && longest > out->orig)
    out->factor = longest / out->orig;
  if (json_object_get(s->j, "factor"))
    out->factor = given;
  const double m =
      out->factor > 1 && out->orig > 1 ? sqrt(1 + log(out->factor) / log(out->orig)) : 1;
  NMB_TRY(number(s, "attention_factor", m, &out->attention));
  NMB_TRY(number(s, "long_mscale", out->attention, &out->attention));
  return number(s, "short_mscale", out->attention, &out->attention_short);
}

/* What depends on the number of dimensions that rotate. */
static nmb_status
kind_apply(const scaling *s, int64_t width, nmb__rope *out, double *score)
{
  const double base = I(s->b, CONTEXT_BASE) ? (double)I(s->b, CONTEXT_BASE)
                                            : (double)I(s->b, CONTEXT);
  NMB_TRY(number(s, "original_max_position_embeddings", base, &out->orig));
  switch (out->kind) {
  case NMB__ROPE_LLAMA3:
    NMB_TRY(number(s, "low_freq_factor", 1, &out->low));
    return number(s, "high_freq_factor", 4, &out->high);
  case NMB__ROPE_YARN: return yarn_read(s, out, score);
  case NMB__ROPE_LONG: return long_read(s, out);
  case NMB__ROPE_DYNAMIC:
    if (json_object_get(s->j, "alpha") && width > 2) {
      double alpha; /* Hunyuan: a fixed base instead of one that follows the length */
      NMB_TRY(number(s, "alpha", 1, &alpha));
      out->theta *= pow(alpha, (double)width / (double)(width - 2));
      out->kind = NMB__ROPE_PLAIN;
      out->factor = 1;
    }
    return NMB_OK;
  default: return NMB_OK;
  }
}

static nmb_status
dims_resolve(const builder *b, int64_t width, double share, bool proportional,
             nmb__rope *out)
{
  if (share > 1)
    return nmb_fail(b->run, NMB_BADINPUT, nmb__place(b, NMB__F_ROTARY_FACTOR),
                    "rotary share is %g, expected at most 1", share);
  out->dims = I(b, ROTARY_DIM) ? I(b, ROTARY_DIM) : (int64_t)(share * (double)width);
  out->live = out->dims;
  if (proportional) {
    out->dims = width;
    out->live = 2 * (int64_t)(share * (double)width / 2);
  }
  if (out->dims <= width && out->dims % 2 == 0)
    return NMB_OK;
  return nmb_fail(
      b->run, NMB_BADINPUT, b->top,
      "%ld of %ld dimensions rotate, expected an even number of at most %ld",
      (long)out->dims, (long)width, (long)width);
}

/* The object for the layer, or none. */
static scaling
object_for(const builder *b, bool local)
{
  const char *path = nmb__spelled(b, NMB__F_ROPE_SCALING);
  const json_t *j = J(b, ROPE_SCALING);
  static const char *const names[2][3] = {
      {"full_attention", "main", "global"},
      {"sliding_attention", "compress", "local"}};
  for (int i = 0; i < 3; i++) {
    const json_t *one = json_object_get(j, names[local][i]);
    if (json_is_object(one))
      return (scaling){b, one, nmb_format(b->run, "%s.%s", path, names[local][i])};
  }
  return (scaling){b, j, path};
}

nmb_status
nmb__rope_resolve(const builder *b, int64_t width, bool local, nmb__rope *out,
                  double *score)
{
  bool proportional = false;
  double share = R(b, ROTARY_FACTOR);
  const scaling s = object_for(b, local);
  *score = 1;
  *out = (nmb__rope){.theta = R(b, THETA) * R(b, ROPE_RATIO), .factor = 1, .attention = 1};
  if (strcmp(S(b, POSITION), "rope")) {
    *out = (nmb__rope){0};
    return NMB_OK;
  }
  out->adjacent = !strcmp(S(b, PAIRS), "adjacent");
  const bool own = local && R(b, THETA_WINDOW) > 0 && s.j == J(b, ROPE_SCALING);
  const bool unscaled = local && I(b, WINDOW_UNSCALED) && s.j == J(b, ROPE_SCALING);
  if (own)
    out->theta = R(b, THETA_WINDOW);
  if (s.j && !own) {
    NMB_TRY(keys_check(&s));
    NMB_TRY(kind_read(&s, &out->kind, &proportional));
    NMB_TRY(number(&s, "rope_theta", out->theta, &out->theta));
    NMB_TRY(number(&s, "partial_rotary_factor", share, &share));
    NMB_TRY(number(&s, "factor", 1, &out->factor));
  }
  if (unscaled) {
    out->kind = NMB__ROPE_PLAIN;
    out->factor = 1;
  }
  NMB_TRY(dims_resolve(b, width, share, proportional, out));
  out->attention_short = out->attention;
  if (!s.j || own || unscaled)
    return NMB_OK;
  NMB_TRY(kind_apply(&s, width, out, score));
  if (out->kind != NMB__ROPE_LONG)
    out->attention_short = out->attention;
  if (out->kind == NMB__ROPE_PLAIN && out->factor > 1) /* a factor alone divides */
    out->kind = proportional ? NMB__ROPE_LINEAR : NMB__ROPE_PLAIN;
  return NMB_OK;
}
