/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The published kinds of quantization_config -> schemes: how a matrix is stored.
 *
 * Sources: the classes of quantization configurations in Hugging Face transformers, and
 * the packing code of AutoGPTQ, AutoAWQ, bitsandbytes, compressed-tensors, ModelOpt, Quark,
 * HQQ, EETQ, AQLM and torchao. */
#include "frontend/quant-method.h"

#include <string.h>

#include "base/near.h"

static const char *
text_of(const json_t *j, const char *key)
{
  const char *s = json_string_value(json_object_get(j, key));
  return s ? s : "";
}

nmb_status
nmb__quant_bad(const quant *q, const char *path, const json_t *v, const char *expected)
{
  return nmb_fail(q->run, NMB_UNSUPPORTED, q->loc,
                  "quantization_config.%s: found %s, expected %s", path,
                  v ? nmb__json_show(q->run, v) : "nothing", expected);
}

/* ----------------------------------------------------------------- methods */
static nmb__scheme *
scheme_add(quant *q, nmb_dtype dtype, int bits)
{
  nmb__scheme *s = &q->scheme[q->nscheme++];
  *s = (nmb__scheme){.dtype = dtype, .bits = bits};
  return s;
}

/* A scale for each rows x cols weights; 0: for all of a matrix. */
static void
scaled_by(nmb__scheme *s, int64_t rows, int64_t cols, int bits)
{
  s->block_rows = rows;
  s->block_cols = cols;
  s->scale_bits = bits;
}

static nmb_status
block_of(const quant *q, const json_t *b, const char *path, int64_t out[2])
{
  for (size_t i = 0; i < 2; i++) {
    const json_t *v = json_array_get(b, i);
    out[i] = json_integer_value(v);
    if (!json_is_integer(v) || out[i] < 1 || out[i] > 65536 || json_array_size(b) != 2)
      return nmb__quant_bad(q, path, b, "two sizes of a block, each from 1 to 65536");
  }
  return NMB_OK;
}

static nmb_status
method_fp8(quant *q)
{
  const json_t *b = json_object_get(q->j, "weight_block_size");
  const bool packed = *q->c->set[NMB__F_EXPERT_DTYPE].s;
  int64_t size[2] = {0, 0};
  if (b && !json_is_null(b))
    NMB_TRY(block_of(q, b, "weight_block_size", size));
  const bool usual = size[0] == 128 && size[1] == 128;
  nmb__scheme *s = scheme_add(q, usual ? NMB_DT_F8BLK : NMB_DT_F8E4M3, 8);
  scaled_by(s, size[0], size[1], packed ? 8 : 32); /* DeepSeek-V4's scales are E8M0 */
  return NMB_OK;
}

static nmb_status
method_fbgemm(quant *q)
{
  scaled_by(scheme_add(q, NMB_DT_F8E4M3, 8), 1, 0, 32);
  return NMB_OK;
}

/* -1: a group is a whole row. */
static nmb_status
group_of(quant *q, const json_t *obj, const char *path, nmb__scheme *s)
{
  const json_t *g = json_object_get(obj, "group_size");
  const json_int_t n = json_integer_value(g);
  if (!json_is_integer(g) || (n != -1 && (n < 8 || n > 65536)))
    return nmb__quant_bad(q, path, g, "a group of 8 to 65536 weights, or -1");
  s->group = n > 0 ? (int)n : 0;
  s->block_rows = 1;
  s->block_cols = n > 0 ? n : 0;
  return NMB_OK;
}

/* GPTQModel's rules by module: "-:expression" stays as it is; others are refused. */
static nmb_status
rules_read(quant *q, const char *list)
{
  const json_t *rules = json_object_get(q->j, list);
  const char *key;
  json_t *v, *out = json_array();
  json_object_foreach((json_t *)(uintptr_t)rules, key, v)
  {
    const json_t *bits = json_object_get(v, "bits");
    const bool keep = !strncmp(key, "-:", 2) ||
                      (json_is_integer(bits) && json_integer_value(bits) >= 16);
    if (!keep) {
      json_decref(out);
      return nmb__quant_bad(q, nmb_format(q->run, "%s.%s", list, key), v,
                            "modules that stay as they are");
    }
    json_array_append_new(out, json_sprintf("%s%s", *key == '-' ? "re:" : "",
                                            *key == '-' ? key + 2 : key));
  }
  q->keep_list = json_array_size(out) ? out : NULL;
  q->own_list = out;
  return NMB_OK;
}

/* AutoAWQ's gemv layout: zero points of a row fill whole words, of 32 groups with groups
 * of 32, 16 with 64, else 8; there are as many scales. */
static void
gemv_pad(nmb__scheme *s)
{
  s->pad_blocks = s->group == 32 ? 32 : s->group == 64 ? 16 : 8;
}

static nmb_status
layout_check(const quant *q, const char *key, const char *const *names, int n)
{
  const char *s = text_of(q->j, key);
  for (int i = 0; *s && i < n; i++)
    if (!strcmp(names[i], s))
      return NMB_OK;
  return *s ? nmb__quant_bad(q, key, json_object_get(q->j, key), "a layout that is known")
            : NMB_OK;
}

/* Integers by groups of a row, with 16 bit scales and zero points.  Fewer than four bits
 * are widened to four where machines compute; in files they are 8 / bits to a byte,
 * 3 bit ones 32 to three words. */
static nmb_status
method_int4(quant *q)
{
  static const char *const layouts[] = {"gptq", "gptq_v2", "marlin", "gemm", "gemv",
                                        "gemv_fast", "exllama", "ipex", "bitblas"};
  const char *method = nmb__quant_name(q);
  const char *key = json_object_get(q->j, "w_bit") ? "w_bit" : "bits";
  const json_t *bits = json_object_get(q->j, key);
  const json_int_t n = json_integer_value(bits);
  if (!json_is_integer(bits) || (n != 2 && n != 3 && n != 4 && n != 8))
    return nmb__quant_bad(q, key, bits, "2, 3, 4 or 8");
  NMB_TRY(layout_check(q, "checkpoint_format", layouts, 9));
  NMB_TRY(layout_check(q, "format", layouts, 9));
  nmb__scheme *s = scheme_add(q, n <= 4 ? NMB_DT_I4Z : NMB_DT_I8, (int)n);
  const char *group = json_object_get(q->j, "q_group_size") ? "q_group_size" : "group_size";
  const json_t *g = json_object_get(q->j, group);
  json_t *as = json_pack("{s:I}", "group_size", json_integer_value(g));
  nmb_status st = json_is_integer(g) || !g ? group_of(q, g ? as : q->j, group, s)
                                           : nmb__quant_bad(q, group, g, "a whole number");
  json_decref(as);
  NMB_TRY(st);
  s->scale_bits = 16;
  s->zero_bits = (int)n;
  if (!strcmp(method, "awq")) {
    static const char *const versions[] = {"gemm", "gemv", "gemv_fast", "exllama", "ipex",
                                           "marlin", "GEMM", "GEMV"};
    NMB_TRY(layout_check(q, "version", versions, 8));
    if (!strcmp(text_of(q->j, "version"), "gemv") || !strcmp(text_of(q->j, "version"), "GEMV"))
      gemv_pad(s);
  }
  if (!strcmp(method, "auto-round")) {
    const char *type = text_of(q->j, "data_type");
    if (*type && strcmp(type, "int"))
      return nmb__quant_bad(q, "data_type", json_object_get(q->j, "data_type"), "int");
    NMB_TRY(rules_read(q, "extra_config"));
  }
  if (!strcmp(method, "gptq")) {
    s->column_bytes = strcmp(text_of(q->j, "checkpoint_format"), "marlin") ? 4 : 0; /* g_idx */
    NMB_TRY(rules_read(q, "dynamic"));
  }
  q->head = json_is_true(json_object_get(q->j, "lm_head"));
  return NMB_OK;
}

/* 4 bit floats: 16 with an E4M3 scale and a global fp32 one, or 32 with an E8M0 one. */
nmb_status
nmb__quant_float4(quant *q, int group, const char *path, const json_t *found)
{
  if (group != 16 && group != 32)
    return nmb__quant_bad(q, path, found, "groups of 16 or 32");
  nmb__scheme *s = scheme_add(q, group == 16 ? NMB_DT_NVFP4 : NMB_DT_MXFP4, 4);
  scaled_by(s, 1, group, 8);
  s->matrix_bytes = group == 16 ? 4 : 0;
  return NMB_OK;
}

/* 8 bit weights: scales by tensor, channel, block or group. */
static nmb_status
eight_bit(quant *q, const json_t *w, const char *path, nmb_dtype dtype, int scale_bits)
{
  const char *strategy = text_of(w, "strategy");
  nmb__scheme *s = scheme_add(q, dtype, 8);
  scaled_by(s, 0, 0, scale_bits);
  if (dtype == NMB_DT_I8 && json_is_false(json_object_get(w, "symmetric")))
    s->zero_bits = 8;
  if (!strcmp(strategy, "channel"))
    s->block_rows = 1;
  else if (!strcmp(strategy, "block")) {
    int64_t size[2];
    NMB_TRY(block_of(q, json_object_get(w, "block_structure"),
                     nmb_format(q->run, "%s.block_structure", path), size));
    scaled_by(s, size[0], size[1], scale_bits);
  } else if (!strcmp(strategy, "group"))
    return group_of(q, w, nmb_format(q->run, "%s.group_size", path), s);
  else if (*strategy && strcmp(strategy, "tensor"))
    return nmb__quant_bad(q, nmb_format(q->run, "%s.strategy", path), json_object_get(w, "strategy"),
               "tensor, channel, block or group");
  return NMB_OK;
}

static nmb_status
group_read(quant *q, const json_t *group, const char *path, bool modelopt)
{
  const json_t *w = json_object_get(group, "weights");
  const json_int_t bits = json_integer_value(json_object_get(w, "num_bits"));
  const json_int_t per = json_integer_value(json_object_get(w, "group_size"));
  const char *type = text_of(w, "type");
  const char *at = nmb_format(q->run, "%s.weights", path);
  const int scale = modelopt ? 32 : 8 * q->plain_bytes;
  if (!strcmp(type, "float") && bits == 8)
    return eight_bit(q, w, at, NMB_DT_F8E4M3, scale);
  if (!strcmp(type, "int") && bits == 8)
    return eight_bit(q, w, at, NMB_DT_I8, scale);
  if (!strcmp(type, "float") && bits == 4)
    return nmb__quant_float4(q, (int)per, nmb_format(q->run, "%s.group_size", at),
                          json_object_get(w, "group_size"));
  if (strcmp(type, "int") || bits != 4)
    return nmb__quant_bad(q, nmb_format(q->run, "%s.num_bits", at),
                          w ? json_object_get(w, "num_bits") : NULL,
                          "8 or 4, of type float or int");
  nmb__scheme *s =
      scheme_add(q, json_is_false(json_object_get(w, "symmetric")) ? NMB_DT_I4Z : NMB_DT_I4,
                 4);
  s->scale_bits = scale;
  s->zero_bits = s->dtype == NMB_DT_I4Z ? 4 : 0;
  if (!strcmp(text_of(w, "actorder"), "group"))
    s->column_bytes = 4;
  s->block_rows = 1;
  if (!strcmp(text_of(w, "strategy"), "channel"))
    return NMB_OK;
  return group_of(q, w, nmb_format(q->run, "%s.group_size", at), s);
}

/* Formats of compressed-tensors whose bytes are those of dense codes and scales. */
static nmb_status
format_check(const quant *q, const char *path, const json_t *v)
{
  static const char *const known[] = {
      "pack-quantized",      "int-quantized",        "float-quantized", "naive-quantized",
      "nvfp4-pack-quantized", "mxfp4-pack-quantized", "dense",           "mixed-precision"};
  const char *s = json_string_value(v);
  for (size_t i = 0; s && i < sizeof known / sizeof *known; i++)
    if (!strcmp(known[i], s))
      return NMB_OK;
  return !v || json_is_null(v)
             ? NMB_OK
             : nmb__quant_bad(q, path, v, "pack-, int-, float-, naive-, nvfp4-pack- or "
                                          "mxfp4-pack-quantized");
}

/* Groups of settings, each for the modules that its targets name. */
static nmb_status
groups_read(quant *q, const json_t *groups, bool modelopt)
{
  const char *key;
  json_t *v;
  json_object_foreach((json_t *)(uintptr_t)groups, key, v)
  {
    const char *path = nmb_format(q->run, "config_groups.%s", key);
    const json_t *targets = json_object_get(v, "targets");
    const int at = q->nscheme;
    NMB_TRY(format_check(q, nmb_format(q->run, "%s.format", path),
                         json_object_get(v, "format")));
    if (at == MAXGROUP)
      return nmb__quant_bad(q, path, v, "at most 8 groups");
    NMB_TRY(group_read(q, v, path, modelopt));
    bool all = !targets;
    for (size_t i = 0; i < json_array_size(targets); i++) {
      const char *s = json_string_value(json_array_get(targets, i));
      all |= s && !strcmp(s, "Linear");
    }
    if (!all)
      NMB_TRY(nmb__quant_patterns(q, targets, nmb_format(q->run, "%s.targets", path),
                            &q->target[at], &q->ntarget[at]));
  }
  return q->nscheme ? NMB_OK : nmb__quant_bad(q, "config_groups", groups, "a group of settings");
}

static nmb_status
method_compressed(quant *q)
{
  const json_t *sparse = json_object_get(q->j, "sparsity_config");
  const json_t *turn = json_object_get(q->j, "transform_config");
  const char *how = text_of(sparse, "format");
  if (*how && strcmp(how, "dense"))
    return nmb__quant_bad(q, "sparsity_config.format", json_object_get(sparse, "format"),
                          "dense");
  if (json_object_size(json_object_get(turn, "config_groups")))
    return nmb__quant_bad(q, "transform_config", turn, "no transforms");
  NMB_TRY(format_check(q, "format", json_object_get(q->j, "format")));
  return groups_read(q, json_object_get(q->j, "config_groups"), false);
}

static nmb_status
method_modelopt(quant *q)
{
  const json_t *inner = json_object_get(q->j, "quantization"), *j = inner ? inner : q->j;
  const json_t *groups = json_object_get(j, "config_groups");
  const json_t *algo = json_object_get(j, "quant_algo");
  const char *s = json_string_value(algo);
  if (inner)
    q->keep_list = json_object_get(inner, "exclude_modules");
  if (groups)
    return groups_read(q, groups, true);
  if (s && !strcmp(s, "FP8"))
    scaled_by(scheme_add(q, NMB_DT_F8E4M3, 8), 0, 0, 32);
  else if (s && !strcmp(s, "FP8_PER_CHANNEL_PER_TOKEN"))
    scaled_by(scheme_add(q, NMB_DT_F8E4M3, 8), 1, 0, 32);
  else if (s && !strncmp(s, "NVFP4", 5))
    return nmb__quant_float4(q, 16, "quant_algo", algo);
  else if (s && !strcmp(s, "MXFP8"))
    scaled_by(scheme_add(q, NMB_DT_MXFP8, 8), 1, 32, 8);
  else if (s && !strncmp(s, "FP8_PB", 6))
    scaled_by(scheme_add(q, NMB_DT_F8BLK, 8), 128, 128, 32);
  else
    return nmb__quant_bad(q, "quant_algo", algo,
                          "FP8, FP8_PER_CHANNEL_PER_TOKEN, FP8_PB_WO, MXFP8 or NVFP4");
  return NMB_OK;
}

/* bitsandbytes: blocks of 64 over the weights as they lie; with double quantisation
 * the scales are bytes, and 256 of them share one in fp32. */
static nmb_status
method_bitsandbytes(quant *q)
{
  if (json_is_true(json_object_get(q->j, "load_in_8bit"))) {
    scaled_by(scheme_add(q, NMB_DT_I8, 8), 1, 0, 32);
    return NMB_OK;
  }
  const char *type = text_of(q->j, "bnb_4bit_quant_type");
  if (!json_is_true(json_object_get(q->j, "load_in_4bit")))
    return nmb__quant_bad(q, "load_in_4bit", json_object_get(q->j, "load_in_4bit"), "true");
  if (*type && strcmp(type, "nf4") && strcmp(type, "fp4"))
    return nmb__quant_bad(q, "bnb_4bit_quant_type", json_object_get(q->j, "bnb_4bit_quant_type"),
               "nf4 or fp4");
  const bool twice = json_is_true(json_object_get(q->j, "bnb_4bit_use_double_quant"));
  nmb__scheme *s = scheme_add(q, twice ? NMB_DT_NF4D : NMB_DT_NF4, 4);
  s->flat = 64;
  s->scale_bits = twice ? 8 : 32;
  s->second = twice ? 256 : 0;
  return NMB_OK;
}

static nmb_status
method_bitnet(quant *q)
{
  if (!strcmp(text_of(q->j, "quantization_mode"), "online") &&
      !strcmp(text_of(q->j, "linear_class"), "autobitlinear"))
    return NMB_OK; /* the master weights are stored */
  nmb__scheme *s = scheme_add(q, NMB_DT_TERNARY, 2);
  s->matrix_bytes = q->plain_bytes;
  return NMB_OK;
}

/* gpt-oss: the experts only; its list of modules says so too. */
static nmb_status
method_mxfp4(quant *q)
{
  q->experts_only = true;
  return nmb__quant_float4(q, 32, "quant_method", NULL);
}

/* AMD Quark: one format for all, but for modules that are excluded. */
static nmb_status
method_quark(quant *q)
{
  const json_t *all = json_object_get(q->j, "global_quant_config");
  const json_t *w = json_object_get(all, "weight"), *dtype = json_object_get(w, "dtype");
  static const char *const others[] = {"layer_quant_config", "layer_type_quant_config"};
  for (size_t i = 0; i < 2; i++)
    if (json_object_size(json_object_get(q->j, others[i])))
      return nmb__quant_bad(q, others[i], json_object_get(q->j, others[i]), "{}");
  const char *type = text_of(w, "dtype"), *by = text_of(w, "qscheme");
  const char *at = "global_quant_config.weight";
  q->keep_list = json_object_get(q->j, "exclude");
  if (!strcmp(type, "fp4"))
    return nmb__quant_float4(q, (int)json_integer_value(json_object_get(w, "group_size")),
                             nmb_format(q->run, "%s.group_size", at),
                             json_object_get(w, "group_size"));
  const bool four = !strcmp(type, "int4") || !strcmp(type, "uint4");
  const bool eight = !strcmp(type, "int8") || !strcmp(type, "uint8");
  if (!four && !eight && strcmp(type, "fp8_e4m3"))
    return nmb__quant_bad(q, nmb_format(q->run, "%s.dtype", at), dtype,
                          "fp8_e4m3, int8, int4, uint4 or fp4");
  const bool zero = *type == 'u' || json_is_false(json_object_get(w, "symmetric"));
  nmb__scheme *s = scheme_add(q,
                              four    ? zero ? NMB_DT_I4Z : NMB_DT_I4
                              : eight ? NMB_DT_I8
                                      : NMB_DT_F8E4M3,
                              four ? 4 : 8);
  s->scale_bits = 32;
  s->zero_bits = (four || eight) && zero ? s->bits : 0;
  if (!strcmp(by, "per_group"))
    return group_of(q, w, nmb_format(q->run, "%s.group_size", at), s);
  if (!strcmp(by, "per_channel"))
    s->block_rows = 1;
  else if (strcmp(by, "per_tensor"))
    return nmb__quant_bad(q, nmb_format(q->run, "%s.qscheme", at),
                          json_object_get(w, "qscheme"),
                          "per_tensor, per_channel or per_group");
  return NMB_OK;
}

/* HQQ (Badri and Shaji, 2023): a scale and a zero point for each group, in 16 bit. */
static nmb_status
method_hqq(quant *q)
{
  const char *at = "quant_config.weight_quant_params";
  const json_t *w = json_object_get(json_object_get(q->j, "quant_config"),
                                    "weight_quant_params");
  const json_t *bits = json_object_get(w, "nbits");
  const json_int_t n = json_integer_value(bits);
  if (n != 1 && n != 2 && n != 4 && n != 8)
    return nmb__quant_bad(q, nmb_format(q->run, "%s.nbits", at), bits, "1, 2, 4 or 8");
  nmb__scheme *s = scheme_add(q, n == 8 ? NMB_DT_I8 : NMB_DT_I4Z, (int)n);
  NMB_TRY(group_of(q, w, nmb_format(q->run, "%s.group_size", at), s));
  s->scale_bits = s->zero_bits = 8 * q->plain_bytes;
  q->keep_list = json_object_get(q->j, "skip_modules");
  return NMB_OK;
}

static nmb_status
method_eetq(quant *q)
{
  const char *w = text_of(q->j, "weights");
  if (*w && strcmp(w, "int8"))
    return nmb__quant_bad(q, "weights", json_object_get(q->j, "weights"), "int8");
  scaled_by(scheme_add(q, NMB_DT_I8, 8), 1, 0, 16);
  return NMB_OK;
}

/* AQLM (arXiv:2401.06118): codes of groups of weights, code books of a matrix, and a
 * scale a row. */
static nmb_status
method_aqlm(quant *q)
{
  static const char *const key[] = {"in_group_size", "out_group_size", "num_codebooks",
                                    "nbits_per_codebook"};
  int64_t v[4];
  for (int i = 0; i < 4; i++) {
    const json_t *x = json_object_get(q->j, key[i]);
    v[i] = json_integer_value(x);
    if (!json_is_integer(x) || v[i] < 1 || v[i] > (i == 3 ? 16 : 64))
      return nmb__quant_bad(q, key[i], x,
                            i == 3 ? "1 to 16" : "a whole number from 1 to 64");
  }
  const int64_t code = v[3] <= 8 ? 8 : 16, in = v[0] * v[1];
  if (v[2] * code % in)
    return nmb__quant_bad(q, "nbits_per_codebook", json_object_get(q->j, key[3]),
                          "a whole number of bits a weight");
  nmb__scheme *s = scheme_add(q, NMB_DT_TERNARY, (int)(v[2] * code / in));
  scaled_by(s, v[1], 0, 16);
  s->matrix_bytes = v[2] * (INT64_C(1) << v[3]) * in * 2;
  q->keep_list = json_object_get(q->j, "linear_weights_not_to_quantize");
  return NMB_OK;
}

/* torchao: the name of a kind, as a text or as the object of its class. */
static nmb_status
method_torchao(quant *q)
{
  static const struct {
    const char *name;
    nmb_dtype dtype;
    int bits, group; /* group 0: rows */
  } kind[] = {
      {"int4_weight_only", NMB_DT_I4Z, 4, 128},
      {"Int4WeightOnlyConfig", NMB_DT_I4Z, 4, 128},
      {"int8_weight_only", NMB_DT_I8, 8, 0},
      {"Int8WeightOnlyConfig", NMB_DT_I8, 8, 0},
      {"int8_dynamic_activation_int8_weight", NMB_DT_I8, 8, 0},
      {"Int8DynamicActivationInt8WeightConfig", NMB_DT_I8, 8, 0},
      {"float8_weight_only", NMB_DT_F8E4M3, 8, 0},
      {"Float8WeightOnlyConfig", NMB_DT_F8E4M3, 8, 0},
      {"float8_dynamic_activation_float8_weight", NMB_DT_F8E4M3, 8, 0},
      {"Float8DynamicActivationFloat8WeightConfig", NMB_DT_F8E4M3, 8, 0},
  };
  const json_t *type = json_object_get(q->j, "quant_type");
  const json_t *one = json_object_get(type, "default");
  const json_t *args = one ? json_object_get(one, "_data")
                           : json_object_get(q->j, "quant_type_kwargs");
  const char *name = one ? text_of(one, "_type") : text_of(q->j, "quant_type");
  if (json_is_true(json_object_get(q->j, "include_input_output_embeddings")))
    return nmb__quant_bad(q, "include_input_output_embeddings", json_true(), "false");
  for (size_t i = 0; i < sizeof kind / sizeof *kind; i++) {
    if (strcmp(kind[i].name, name))
      continue;
    nmb__scheme *s = scheme_add(q, kind[i].dtype, kind[i].bits);
    const json_t *g = json_object_get(args, "group_size");
    s->block_rows = 1;
    s->scale_bits = kind[i].dtype == NMB_DT_F8E4M3 ? 32 : 8 * q->plain_bytes;
    if (!kind[i].group)
      return NMB_OK;
    s->zero_bits = s->scale_bits;
    s->block_cols = s->group = kind[i].group;
    return g && !json_is_null(g)
               ? group_of(q, args, "quant_type.default._data.group_size", s)
               : NMB_OK;
  }
  return nmb__quant_bad(q, "quant_type", type,
                        "int4 or int8 weights, or float8 weights, as torchao names them");
}

/* Known, but in tables of vectors or lattices that are not counted here. */
static nmb_status
method_other(quant *q)
{
  return nmb__quant_bad(q, "quant_method", json_object_get(q->j, "quant_method"),
                        "a method whose bytes are known; this one is not");
}

static const struct {
  const char *name;
  nmb_status (*read)(quant *);
} methods[] = {
    {"fp8", method_fp8},           {"mxfp4", method_mxfp4},
    {"gptq", method_int4},         {"awq", method_int4},
    {"auto-round", method_int4},   {"bitsandbytes", method_bitsandbytes},
    {"fbgemm_fp8", method_fbgemm}, {"compressed-tensors", method_compressed},
    {"modelopt", method_modelopt}, {"quark", method_quark},
    {"torchao", method_torchao},   {"hqq", method_hqq},
    {"eetq", method_eetq},         {"aqlm", method_aqlm},
    {"bitnet", method_bitnet},     {"vptq", method_other},
    {"higgs", method_other},       {"spqr", method_other},
    {"quip", method_other},        {"fp_quant", method_other},
    {"quanto", method_other},      {"sinq", method_other},
};
#define NMETHOD ((int)(sizeof methods / sizeof *methods))

/* Other spellings: X(in files, ours). */
static const char *const spelled[][2] = {{"intel/auto-round", "auto-round"},
                                         {"auto_round", "auto-round"},
                                         {"modelopt_fp4", "modelopt"},
                                         {"modelopt_mixed", "modelopt"},
                                         {"compressed_tensors", "compressed-tensors"}};

const char *
nmb__quant_name(const quant *q)
{
  const char *name = text_of(q->j, "quant_method");
  if (!*name && (json_object_get(q->j, "quant_algo") ||
                 json_object_get(q->j, "quantization")))
    return "modelopt";
  if (!*name && (json_object_get(q->j, "load_in_4bit") || json_object_get(q->j, "load_in_8bit")))
    return "bitsandbytes";
  for (size_t i = 0; i < sizeof spelled / sizeof *spelled; i++)
    if (!strcmp(spelled[i][0], name))
      return spelled[i][1];
  return name;
}

nmb_status
nmb__quant_method(quant *q)
{
  const char *names[NMETHOD], *name = nmb__quant_name(q);
  for (int i = 0; i < NMETHOD; i++) {
    names[i] = methods[i].name;
    if (!strcmp(methods[i].name, name))
      return methods[i].read(q);
  }
  return nmb__quant_bad(q, "quant_method", json_object_get(q->j, "quant_method"),
                        nmb_format(q->run,
                                   "one of fp8, mxfp4, gptq, awq, auto-round, fbgemm_fp8, "
                                   "compressed-tensors, modelopt, bitsandbytes, quark, "
                                   "torchao, hqq, eetq, aqlm, bitnet%s",
                                   nmb__hint(q->run, name, names, NMETHOD)));
}
