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

/* A weight of a layer that may be quantised: its name in the graph, and what loaders
 * call its module.  "L" stands for the number of the layer. */
static const struct {
  const char *name;
  const char *module[5];
} modules[] = {
#define X(name, ...) {name, {__VA_ARGS__}},
#include "frontend/modules.def"
#undef X
};
#define NMODULE ((int)(sizeof modules / sizeof *modules))
_Static_assert(sizeof modules / sizeof *modules <= NMB__NMODULE, "specs have no room");

enum { MAXGROUP = 8 };

/* A module name, a glob or a regular expression. */
typedef struct pattern {
  const char *text;
  bool compiled;
  regex_t re;
} pattern;

typedef struct quant {
  nmb_run *run;
  const nmb__config *c;
  nmb_loc loc;
  const json_t *j;
  int plain_bytes; /* of an element that is not quantised: scales are often stored so */
  pattern *keep;
  int nkeep;
  nmb__scheme *scheme; /* one for each group of settings */
  pattern *target[MAXGROUP];
  int nscheme, ntarget[MAXGROUP]; /* no targets: all */
  bool experts_only, head;
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
      return bad(q, path, b, "two sizes of a block, each from 1 to 65536");
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
    return bad(q, path, g, "a group of 8 to 65536 weights, or -1");
  s->group = n > 0 ? (int)n : 0;
  s->block_rows = 1;
  s->block_cols = n > 0 ? n : 0;
  return NMB_OK;
}

static nmb_status
method_int4(quant *q)
{
  const json_t *bits = json_object_get(q->j, "bits");
  const json_int_t n = json_integer_value(bits);
  if (n != 2 && n != 3 && n != 4 && n != 8)
    return bad(q, "bits", bits, "2, 3, 4 or 8");
  /* fewer bits are widened to four where machines compute */
  nmb__scheme *s = scheme_add(q, n <= 4 ? NMB_DT_I4Z : NMB_DT_I8, (int)n);
  NMB_TRY(group_of(q, q->j, "group_size", s));
  s->scale_bits = 16;
  s->zero_bits = (int)n;
  if (!strcmp(text_of(q->j, "quant_method"), "gptq"))
    s->column_bytes = 4; /* g_idx */
  q->head = json_is_true(json_object_get(q->j, "lm_head"));
  return NMB_OK;
}

/* 4 bit floats: 16 with an E4M3 scale and a global fp32 one, or 32 with an E8M0 one. */
static nmb_status
four_bit_float(quant *q, int group, const char *path, const json_t *found)
{
  if (group != 16 && group != 32)
    return bad(q, path, found, "groups of 16 or 32");
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
    return bad(q, nmb_format(q->run, "%s.strategy", path), json_object_get(w, "strategy"),
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
    return four_bit_float(q, (int)per, nmb_format(q->run, "%s.group_size", at),
                          json_object_get(w, "group_size"));
  if (strcmp(type, "int") || bits != 4)
    return bad(q, at, w, "8 or 4 bit, float or int");
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

static nmb_status patterns_read(quant *, const json_t *, const char *path, pattern **,
                                int *n);

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
    if (at == MAXGROUP)
      return bad(q, path, v, "at most 8 groups");
    NMB_TRY(group_read(q, v, path, modelopt));
    bool all = !targets;
    for (size_t i = 0; i < json_array_size(targets); i++) {
      const char *s = json_string_value(json_array_get(targets, i));
      all |= s && !strcmp(s, "Linear");
    }
    if (!all)
      NMB_TRY(patterns_read(q, targets, nmb_format(q->run, "%s.targets", path),
                            &q->target[at], &q->ntarget[at]));
  }
  return q->nscheme ? NMB_OK : bad(q, "config_groups", groups, "a group of settings");
}

static nmb_status
method_compressed(quant *q)
{
  return groups_read(q, json_object_get(q->j, "config_groups"), false);
}

static nmb_status
method_modelopt(quant *q)
{
  const json_t *groups = json_object_get(q->j, "config_groups");
  const json_t *algo = json_object_get(q->j, "quant_algo");
  const char *s = json_string_value(algo);
  if (groups)
    return groups_read(q, groups, true);
  if (s && !strcmp(s, "FP8"))
    scaled_by(scheme_add(q, NMB_DT_F8E4M3, 8), 0, 0, 32);
  else if (s && !strncmp(s, "NVFP4", 5))
    return four_bit_float(q, 16, "quant_algo", algo);
  else if (s && !strncmp(s, "FP8_PB", 6))
    scaled_by(scheme_add(q, NMB_DT_F8BLK, 8), 128, 128, 32);
  else
    return bad(q, "quant_algo", algo, "FP8, FP8_PB_WO or NVFP4");
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
    return bad(q, "load_in_4bit", json_object_get(q->j, "load_in_4bit"), "true");
  if (*type && strcmp(type, "nf4") && strcmp(type, "fp4"))
    return bad(q, "bnb_4bit_quant_type", json_object_get(q->j, "bnb_4bit_quant_type"),
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
  nmb__scheme *s = scheme_add(q, NMB_DT_TERNARY, 2);
  s->matrix_bytes = q->plain_bytes;
  return NMB_OK;
}

/* gpt-oss: the experts only; its list of modules says so too. */
static nmb_status
method_mxfp4(quant *q)
{
  q->experts_only = true;
  return four_bit_float(q, 32, "quant_method", NULL);
}

static const struct {
  const char *name;
  nmb_status (*read)(quant *);
} methods[] = {
    {"fp8", method_fp8},           {"mxfp4", method_mxfp4},
    {"gptq", method_int4},         {"awq", method_int4},
    {"fbgemm_fp8", method_fbgemm}, {"compressed-tensors", method_compressed},
    {"modelopt", method_modelopt}, {"bitsandbytes", method_bitsandbytes},
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

/* What Python's expressions have and POSIX's do not, as far as loaders' lists use it:
 * digits, groups without a number, lazy stars.  Anchored, as by re.match. */
static const char *
posix(nmb_run *run, const char *s)
{
  char *out = NMB_NEW(run, char, 5 * strlen(s) + 2), *o = out;
  *o++ = '^';
  for (; *s; s++) {
    if (s[0] == '\\' && s[1] == 'd') {
      memcpy(o, "[0-9]", 5);
      o += 5;
      s++;
    } else if (!strncmp(s, "(?:", 3)) {
      *o++ = '(';
      s += 2;
    } else if ((s[0] == '*' || s[0] == '+') && s[1] == '?') {
      *o++ = *s++;
    } else
      *o++ = *s;
  }
  return out;
}

static nmb_status
pattern_read(quant *q, const json_t *v, const char *path, pattern *p)
{
  p->text = json_string_value(v);
  if (!p->text)
    return bad(q, path, v, "the name of a module");
  if (strncmp(p->text, "re:", 3))
    return NMB_OK;
  /* long or counted expressions can take the memory of the machine */
  if (strlen(p->text) > 200 || strchr(p->text, '{') ||
      regcomp(&p->re, posix(q->run, p->text + 3), REG_EXTENDED | REG_NOSUB))
    return bad(q, path, v, "a plain regular expression of at most 200 characters");
  p->compiled = true;
  return NMB_OK;
}

static nmb_status
patterns_read(quant *q, const json_t *list, const char *path, pattern **out, int *n)
{
  const size_t all = json_array_size(list);
  *out = NMB_NEW(q->run, pattern, (int64_t)all + 1);
  *n = 0;
  for (size_t i = 0; i < all; i++) {
    NMB_TRY(pattern_read(q, json_array_get(list, i),
                         nmb_format(q->run, "%s.%zu", path, i), &(*out)[i]));
    *n = (int)i + 1;
  }
  return NMB_OK;
}

static void
patterns_free(pattern *p, int n)
{
  for (int i = 0; i < n; i++)
    if (p[i].compiled)
      regfree(&p[i].re);
}

/* Models with other parts keep the text model under one of these. */
static const char *
inner_name(const char *s)
{
  static const char *const outer[] = {"model.language_model.", "language_model."};
  for (size_t i = 0; i < sizeof outer / sizeof *outer; i++)
    if (!strncmp(s, outer[i], strlen(outer[i])))
      return s + strlen(outer[i]);
  return s;
}

static bool
covers(const pattern *p, const char *module)
{
  if (p->compiled)
    return regexec(&p->re, module, 0, NULL, 0) == 0;
  const char *text = inner_name(p->text);
  const char *name = strncmp(text, "model.", 6) ? module + strlen("model.") : module;
  const size_t n = strlen(text), m = strlen(module);
  return glob_prefix(text, module) || (text != p->text && glob_prefix(text, name)) ||
         (n < m && module[m - n - 1] == '.' && !strcmp(module + m - n, text));
}

static bool
covered(const pattern *p, int n, const char *module)
{
  for (int i = 0; i < n; i++)
    if (covers(&p[i], module))
      return true;
  return false;
}

/* 1 + the scheme of a module, 0 if it stays as it is. */
static int64_t
scheme_of(const quant *q, int m, int layer)
{
  const bool expert = !strncmp(modules[m].name, "moe.", 4);
  int64_t out = 0;
  if (q->experts_only && !expert)
    return 0;
  for (int i = 0; i < 5 && modules[m].module[i]; i++) {
    char name[128];
    const char *s = modules[m].module[i], *at = strchr(s, 'L');
    snprintf(name, sizeof name, "%.*s%d%s", (int)(at - s), s, layer, at + 1);
    if (covered(q->keep, q->nkeep, name))
      return 0;
    for (int g = 0; !out && g < q->nscheme; g++)
      if (!q->ntarget[g] || covered(q->target[g], q->ntarget[g], name))
        out = g + 1;
  }
  return out;
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

/* A list of modules that stay, under whatever key it is. */
static const json_t *
keep_list(const json_t *j)
{
  static const char *const keys[] = {"modules_to_not_convert", "ignore",
                                     "exclude_modules", "llm_int8_skip_modules",
                                     "ignored_layers"};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    const json_t *v = json_object_get(j, keys[i]);
    if (json_is_array(v))
      return v;
  }
  return NULL;
}

/* DeepSeek-V4's experts have a format of their own. */
static nmb_status
experts_read(quant *q)
{
  const nmb__setting *s = &q->c->set[NMB__F_EXPERT_DTYPE];
  if (!*s->s || !strcmp(s->s, "fp8"))
    return NMB_OK;
  if (strcmp(s->s, "fp4"))
    return nmb_fail(q->run, NMB_UNSUPPORTED, s->loc, "%s is '%s', expected fp8 or fp4",
                    s->key, s->s);
  return four_bit_float(q, 32, "quant_method", NULL);
}

static nmb_status
quant_read(quant *q, nmb__arch *a, nmb__layer *layer)
{
  NMB_TRY(patterns_read(q, keep_list(q->j), "ignore", &q->keep, &q->nkeep));
  NMB_TRY(method_read(q));
  const int general = q->nscheme;
  NMB_TRY(experts_read(q));
  const bool own = q->nscheme > general;
  if (own)
    q->nscheme = general;
  for (int i = 0; i < a->nlayer; i++)
    for (int m = 0; m < NMODULE; m++) {
      const int64_t at = scheme_of(q, m, i);
      layer[i].scheme[m] = own && at && !strncmp(modules[m].name, "moe.", 4)
                               ? general + 1
                               : at;
    }
  if (q->head) {
    a->head_scheme = &q->scheme[0];
    a->head = (nmb__format){q->scheme[0].dtype, q->scheme[0].group};
  }
  return NMB_OK;
}

nmb_status
nmb__quant_resolve(nmb_run *run, const nmb__config *c, nmb_loc file, nmb__arch *a,
                   nmb__layer *layer)
{
  nmb__format plain;
  NMB_TRY(plain_format(c, run, file, &plain));
  a->embed = a->head = a->final_norm = plain;
  for (int i = 0; i < a->nlayer; i++)
    for (int k = 0; k < NMB__NCLASS; k++) /* selection biases are stored in
                                           fp32, and what mixes streams */
      layer[i].dtype[k] = k == NMB__W_SELECT || (k == NMB__W_STREAM && layer[i].hyper)
                              ? NMB_DT_F32
                          : k == NMB__W_HASH ? NMB_DT_I32
                                             : (int64_t)plain.dtype;
  const nmb__setting *s = &c->set[NMB__F_QUANT];
  if (!s->j)
    return NMB_OK;
  quant q = {.run = run, .c = c, .loc = s->loc, .j = s->j};
  q.plain_bytes = nmb_dtype_get(plain.dtype)->bits / 8;
  q.scheme = NMB_NEW(run, nmb__scheme, MAXGROUP + 1);
  a->scheme = q.scheme;
  const nmb_status st = quant_read(&q, a, layer);
  patterns_free(q.keep, q.nkeep);
  for (int g = 0; g < MAXGROUP; g++)
    patterns_free(q.target[g], q.ntarget[g]);
  return st;
}

const nmb__scheme *
nmb__scheme_of(const nmb__arch *a, const nmb__layer *l, const char *name)
{
  for (int m = 0; m < NMODULE; m++)
    if (!strcmp(modules[m].name, name))
      return l->scheme[m] ? &a->scheme[l->scheme[m] - 1] : NULL;
  return NULL;
}

nmb__format
nmb__stored_format(const nmb__arch *a, const nmb__layer *l, nmb__class c,
                   const char *name)
{
  const nmb__scheme *s = nmb__scheme_of(a, l, name);
  return s ? (nmb__format){s->dtype, s->group}
           : (nmb__format){(nmb_dtype)l->dtype[c], (int)l->group[c]};
}

int64_t
nmb__scheme_bytes(const nmb__scheme *s, int64_t rows, int64_t cols)
{
  const int64_t n = rows * cols;
  int64_t bits = n * s->bits;
  if (s->flat) {
    const int64_t blocks = (n + s->flat - 1) / s->flat;
    bits += blocks * s->scale_bits;
    if (s->second)
      bits += (blocks + s->second - 1) / s->second * 32;
  } else {
    const int64_t r = s->block_rows ? s->block_rows : rows;
    const int64_t c = s->block_cols ? s->block_cols : cols;
    const int64_t blocks = ((rows + r - 1) / r) * ((cols + c - 1) / c);
    bits += blocks * (s->scale_bits + s->zero_bits);
  }
  return (bits + 7) / 8 + s->column_bytes * cols + s->matrix_bytes;
}
