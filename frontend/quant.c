/* SPDX-License-Identifier: GPL-3.0-or-later */
/* quantization_config -> stored formats.
 *
 * A class of tensors is stored in the quantised format unless one of its modules is
 * named in the list of those that stay (modules_to_not_convert, ignore).  Patterns
 * are matched as the loaders do: a glob that covers the module's name from its
 * start, a name that ends it, or after "re:" a regular expression. */
#include "frontend/quant.h"

#include <regex.h>
#include <string.h>

/* A module of each class that may be quantised: "L" stands for the layer. */
static const struct {
  nmb__class class_;
  const char *module[2]; /* [1]: the other spelling, or NULL */
} modules[] = {
    {NMB__W_ATTN,
     {"model.layers.L.self_attn.q_proj", "model.layers.L.self_attn.q_b_proj"}},
    {NMB__W_MLA_DOWN, {"model.layers.L.self_attn.kv_a_proj_with_mqa", NULL}},
    {NMB__W_FFN, {"model.layers.L.mlp.gate_proj", NULL}},
    {NMB__W_EXPERT,
     {"model.layers.L.mlp.experts.0.gate_proj",
      "model.layers.L.block_sparse_moe.experts.0.w1"}},
    {NMB__W_SHARED,
     {"model.layers.L.mlp.shared_experts.gate_proj",
      "model.layers.L.mlp.shared_expert.gate_proj"}},
};
#define NMODULE (sizeof modules / sizeof *modules)

typedef struct quant {
  nmb_run *run;
  const nmb__config *c;
  nmb_loc loc;
  const json_t *j, *keep;
  nmb__format format;
  uint32_t classes; /* that the method covers at all */
} quant;

static const char *
text_of(const json_t *j, const char *key)
{
  const char *s = json_string_value(json_object_get(j, key));
  return s ? s : "";
}

static nmb_status
bad(const quant *q, const char *path, const json_t *v, const char *expected)
{
  return nmb_fail(q->run, NMB_UNSUPPORTED, q->loc,
                  "quantization_config.%s: found %s, expected %s", path,
                  v ? nmb__json_show(q->run, v) : "nothing", expected);
}

/* ----------------------------------------------------------------- methods */
static nmb_status
method_fp8(quant *q)
{
  const json_t *b = json_object_get(q->j, "weight_block_size");
  q->format.dtype = NMB_DT_F8E4M3;
  if (!b || json_is_null(b))
    return NMB_OK;
  if (json_integer_value(json_array_get(b, 0)) != 128 ||
      json_integer_value(json_array_get(b, 1)) != 128 || json_array_size(b) != 2)
    return bad(q, "weight_block_size", b, "[128, 128]");
  q->format.dtype = NMB_DT_F8BLK;
  return NMB_OK;
}

static nmb_status
group_of(quant *q, const json_t *obj, const char *path)
{
  const json_t *g = json_object_get(obj, "group_size");
  const json_int_t n = json_integer_value(g);
  if (!json_is_integer(g) || n < 8 || n > 65536)
    return bad(q, path, g, "a group of 8 to 65536 weights");
  q->format.group = (int)n;
  return NMB_OK;
}

static nmb_status
method_int4(quant *q)
{
  const json_t *bits = json_object_get(q->j, "bits");
  if (json_integer_value(bits) != 4)
    return bad(q, "bits", bits, "4");
  q->format.dtype = NMB_DT_I4Z;
  return group_of(q, q->j, "group_size");
}

/* One group of settings for all linears: compressed-tensors, modelopt. */
static nmb_status
method_groups(quant *q)
{
  const json_t *w = json_object_get(
      json_object_get(json_object_get(q->j, "config_groups"), "group_0"), "weights");
  const json_int_t bits = json_integer_value(json_object_get(w, "num_bits"));
  const char *type = text_of(w, "type");
  const bool grouped = json_is_integer(json_object_get(w, "group_size"));
  if (!strcmp(type, "float") && bits == 8 && !grouped)
    q->format.dtype = NMB_DT_F8E4M3;
  else if (!strcmp(type, "int") && bits == 4 && grouped) {
    q->format.dtype = NMB_DT_I4;
    return group_of(q, w, "config_groups.group_0.weights.group_size");
  } else if (!strcmp(type, "float") && bits == 4 &&
             json_integer_value(json_object_get(w, "group_size")) == 32)
    q->format.dtype = NMB_DT_MXFP4;
  else if (!strcmp(type, "float") && bits == 4 &&
           json_integer_value(json_object_get(w, "group_size")) == 16)
    q->format.dtype = NMB_DT_NVFP4;
  else
    return bad(q, "config_groups.group_0.weights", w,
               "8 bit float, 4 bit int in groups, or 4 bit float in groups of 16 or 32");
  return NMB_OK;
}

static nmb_status
method_plain8(quant *q)
{
  q->format.dtype = NMB_DT_F8E4M3;
  return NMB_OK;
}

static nmb_status
method_bitsandbytes(quant *q)
{
  const json_t *four = json_object_get(q->j, "load_in_4bit");
  if (!json_is_true(four) || strcmp(text_of(q->j, "bnb_4bit_quant_type"), "nf4"))
    return bad(q, "bnb_4bit_quant_type", json_object_get(q->j, "bnb_4bit_quant_type"),
               "nf4 with load_in_4bit");
  q->format.dtype = NMB_DT_NF4;
  return NMB_OK;
}

static nmb_status
method_bitnet(quant *q)
{
  q->format.dtype = NMB_DT_TERNARY;
  return NMB_OK;
}

/* gpt-oss: the experts only; its list of modules says so too. */
static nmb_status
method_mxfp4(quant *q)
{
  q->format.dtype = NMB_DT_MXFP4;
  q->classes = 1u << NMB__W_EXPERT;
  return NMB_OK;
}

static const struct {
  const char *name;
  nmb_status (*read)(quant *);
} methods[] = {
    {"fp8", method_fp8},           {"mxfp4", method_mxfp4},
    {"gptq", method_int4},         {"awq", method_int4},
    {"fbgemm_fp8", method_plain8}, {"compressed-tensors", method_groups},
    {"modelopt", method_groups},   {"bitsandbytes", method_bitsandbytes},
    {"bitnet", method_bitnet},
};

/* ---------------------------------------------------------------- patterns */
/* Does the glob (only *) cover a prefix of s that ends at a dot or the end? */
static bool
glob_prefix(const char *g, const char *s)
{
  const char *star = NULL, *mark = NULL;
  for (;;) {
    if (*g == '*') {
      star = g++;
      mark = s;
    } else if (!*g && (!*s || *s == '.'))
      return true;
    else if (*g && *g == *s) {
      g++;
      s++;
    } else if (star && *mark) {
      g = star + 1;
      s = ++mark;
    } else
      return false;
  }
}

static bool
covers(const char *pattern, const char *module)
{
  if (!strncmp(pattern, "re:", 3)) {
    regex_t re;
    /* long or counted expressions can take the memory of the machine */
    if (strlen(pattern) > 200 || strchr(pattern, '{') ||
        regcomp(&re, pattern + 3, REG_EXTENDED | REG_NOSUB))
      return false;
    const bool hit = regexec(&re, module, 0, NULL, 0) == 0;
    regfree(&re);
    return hit;
  }
  const size_t n = strlen(pattern), m = strlen(module);
  return glob_prefix(pattern, module) ||
         (n < m && module[m - n - 1] == '.' && !strcmp(module + m - n, pattern));
}

static bool
stays(const quant *q, const char *module)
{
  for (size_t i = 0; i < json_array_size(q->keep); i++) {
    const char *s = json_string_value(json_array_get(q->keep, i));
    if (s && covers(s, module))
      return true;
  }
  return false;
}

static bool
class_stays(const quant *q, size_t m, int layer)
{
  if (!(q->classes >> modules[m].class_ & 1))
    return true;
  for (int i = 0; i < 2 && modules[m].module[i]; i++) {
    char name[128];
    const char *at = strchr(modules[m].module[i], 'L');
    snprintf(name, sizeof name, "%.*s%d%s", (int)(at - modules[m].module[i]),
             modules[m].module[i], layer, at + 1);
    if (stays(q, name))
      return true;
  }
  return false;
}

/* ------------------------------------------------------------------- whole */
static nmb_status
plain_format(const nmb__config *c, nmb_run *run, nmb_loc file, nmb__format *out)
{
  const nmb__setting *s = &c->set[NMB__F_DTYPE];
  static const struct {
    const char *name;
    nmb_dtype dtype;
  } names[] = {{"bfloat16", NMB_DT_BF16},
               {"float16", NMB_DT_F16},
               {"float32", NMB_DT_F32},
               {"auto", NMB_DT_BF16}};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!strcmp(names[i].name, s->s)) {
      *out = (nmb__format){names[i].dtype, 0};
      return NMB_OK;
    }
  return nmb_fail(run, NMB_UNSUPPORTED, s->loc.file ? s->loc : file,
                  "dtype '%s' is not supported, expected bfloat16, float16 or float32",
                  s->s);
}

static nmb_status
method_read(quant *q)
{
  const json_t *m = json_object_get(q->j, "quant_method");
  const char *name = text_of(q->j, "quant_method");
  if (!*name && json_object_get(q->j, "quant_algo"))
    name = "modelopt";
  for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
    if (!strcmp(methods[i].name, name))
      return methods[i].read(q);
  return bad(q, "quant_method", m,
             "one of fp8, mxfp4, gptq, awq, fbgemm_fp8, compressed-tensors, modelopt, "
             "bitsandbytes, bitnet");
}

nmb_status
nmb__quant_resolve(nmb_run *run, const nmb__config *c, nmb_loc file, nmb__arch *a,
                   nmb__layer *layer)
{
  nmb__format plain;
  NMB_TRY(plain_format(c, run, file, &plain));
  a->embed = a->head = a->final_norm = plain;
  for (int i = 0; i < a->nlayer; i++)
    for (int k = 0; k < NMB__NCLASS; k++) /* selection biases are stored in fp32 */
      layer[i].dtype[k] = k == NMB__W_SELECT ? NMB_DT_F32
                          : k == NMB__W_HASH ? NMB_DT_I32
                                             : (int64_t)plain.dtype;
  const nmb__setting *s = &c->set[NMB__F_QUANT];
  if (!s->j)
    return NMB_OK;
  quant q = {run,    c,  s->loc, s->j, json_object_get(s->j, "modules_to_not_convert"),
             {0, 0}, ~0u};
  if (!json_is_array(q.keep))
    q.keep = json_object_get(s->j, "ignore");
  NMB_TRY(method_read(&q));
  for (int i = 0; i < a->nlayer; i++)
    for (size_t m = 0; m < NMODULE; m++)
      if (!class_stays(&q, m, i)) {
        layer[i].dtype[modules[m].class_] = (int64_t)q.format.dtype;
        layer[i].group[modules[m].class_] = q.format.group;
      }
  return NMB_OK;
}
