/* SPDX-License-Identifier: GPL-3.0-or-later */
/* quantization_config -> stored formats.
 *
 * A class of tensors is stored in the quantised format unless one of its modules is
 * named in the list of those that stay (modules_to_not_convert, ignore).  Patterns
 * are matched as the loaders do: a glob that covers the module's name from its
 * start, a name that ends it, or after "re:" a regular expression. */
#include <string.h>

#include "frontend/quant-method.h"

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
    return nmb__quant_bad(q, path, v, "the name of a module");
  if (strncmp(p->text, "re:", 3))
    return NMB_OK;
  /* long or counted expressions can take the memory of the machine */
  if (strlen(p->text) > 200 || strchr(p->text, '{') ||
      regcomp(&p->re, posix(q->run, p->text + 3), REG_EXTENDED | REG_NOSUB))
    return nmb__quant_bad(q, path, v, "a plain regular expression of at most 200 characters");
  p->compiled = true;
  return NMB_OK;
}

nmb_status
nmb__quant_patterns(quant *q, const json_t *list, const char *path, pattern **out, int *n)
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
                  "%s '%.60s' is not supported, expected bfloat16, float16 or float32",
                  s->key ? s->key : "dtype", s->s);
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
  return nmb__quant_float4(q, 32, "quant_method", NULL);
}

static nmb_status
quant_read(quant *q, nmb__arch *a, nmb__layer *layer)
{
  NMB_TRY(nmb__quant_method(q));
  NMB_TRY(nmb__quant_patterns(q, q->keep_list ? q->keep_list : keep_list(q->j), "ignore",
                              &q->keep, &q->nkeep));
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
nmb__quant_resolve(nmb_run *run, nmb__config *c, nmb_loc file, nmb__arch *a,
                   nmb__layer *layer)
{
  nmb__format plain;
  NMB_TRY(plain_format(c, run, file, &plain));
  a->embed = a->head = a->final_norm = a->position = plain;
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
  nmb_status st = quant_read(&q, a, layer);
  if (st == NMB_OK)
    st = nmb__quant_keys(&q, c);
  json_decref(q.own_list);
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
    int64_t across = (cols + c - 1) / c;
    if (s->pad_blocks)
      across = (across + s->pad_blocks - 1) / s->pad_blocks * s->pad_blocks;
    const int64_t blocks = ((rows + r - 1) / r) * across;
    bits += blocks * (s->scale_bits + s->zero_bits);
  }
  return (bits + 7) / 8 + s->column_bytes * cols + s->matrix_bytes;
}
