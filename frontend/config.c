/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Reads config.json against the tables fields.def, families.def and keys.def.
 *
 * Every key must be in a table: a key that nobody knows may change what the model
 * is.  Files of multimodal models keep the text model under text_config; what
 * stands beside it is read only where keys.def has a field for it. */
#include "frontend/config.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/near.h"
#include "base/run.h"

typedef enum field_type { INT, REAL, BOOL, TEXT, JSON } field_type;

typedef struct field_row {
  const char *name;
  field_type type;
  const char *dflt;
  double lo, hi;
  const char *what;
} field_row;

static const field_row fields[] = {
#define X(id, name, type, dflt, lo, hi, what) {name, type, dflt, lo, hi, what},
#include "frontend/fields.def"
#undef X
};

typedef struct family_row {
  const char *name, *parent, *values, *source;
} family_row;

static const family_row families[] = {
#define X(name, parent, values, source) {name, parent, values, source},
#include "frontend/families.def"
#undef X
};
#define NFAMILY ((int)(sizeof families / sizeof *families))

/* A key of the file: what it is used for. */
typedef enum key_kind { K_USE, K_SAY, K_GRAPH, K_SKIP, K_OPEN } key_kind;
typedef struct key_row {
  key_kind kind;
  const char *key, *family;
  int field;         /* USE; NFIELD: read but of no use to this family */
  const char *value; /* SAY, GRAPH */
  const char *why;
} key_row;

#define USE(key, family, field) {K_USE, key, family, NMB__F_##field, NULL, NULL},
#define SAY(key, family, value, why) {K_SAY, key, family, 0, value, why},
#define GRAPH(key, family, value, why) {K_GRAPH, key, family, 0, value, why},
#define OPEN(key, family) {K_OPEN, key, family, 0, NULL, NULL},
#define SKIP(key, why) {K_SKIP, key, "", 0, NULL, why},
static const key_row keys[] = {
#include "frontend/keys.def"
#include "frontend/idle.def"
};
#undef USE
#undef SAY
#undef GRAPH
#undef OPEN
#undef SKIP
#define NKEY ((int)(sizeof keys / sizeof *keys))

/* State of one reading. */
typedef struct reader {
  nmb_run *run;
  const char *file, *text;
  nmb__config *c;
  nmb__key_note *note;
  int cnote;
} reader;

const char *
nmb__field_name(nmb__field f)
{
  return fields[f].name;
}

int
nmb__family_count(void)
{
  return NFAMILY;
}

const char *
nmb__family_name(int i)
{
  return families[i].name;
}

static const family_row *
family_find(const char *name)
{
  for (int i = 0; i < NFAMILY; i++)
    if (!strcmp(families[i].name, name))
      return &families[i];
  return NULL;
}

bool
nmb__family_is(const char *name, const char *ancestor)
{
  for (const family_row *f = family_find(name); f; f = family_find(f->parent))
    if (!strcmp(f->name, ancestor))
      return true;
  return false;
}

/* The line of the first "key" in the text: good enough to find it by. */
static nmb_loc
key_loc(const reader *r, const char *key)
{
  const char *quoted = nmb_format(r->run, "\"%s\"", key);
  const char *at = strstr(r->text, quoted);
  nmb_loc loc = {r->file, 0, 0};
  if (!at)
    return loc;
  loc.line = 1;
  for (const char *s = r->text; s < at; s++)
    loc.line += *s == '\n';
  return loc;
}

const char *
nmb__json_show(nmb_run *run, const json_t *j)
{
  char *s = json_dumps(j, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(9));
  const char *out =
      nmb_format(run, strlen(s ? s : "") > 40 ? "%.37s..." : "%s", s ? s : "?");
  free(s);
  return out;
}

/* A * stands for anything; there are two at most. */
static bool
matches(const char *pattern, const char *s)
{
  const char *star = strchr(pattern, '*');
  if (!star)
    return !strcmp(pattern, s);
  const size_t head = (size_t)(star - pattern);
  if (strncmp(pattern, s, head))
    return false;
  const char *rest = star + 1;
  if (!*rest)
    return true;
  for (s += head; *s; s++)
    if (matches(rest, s))
      return true;
  return false;
}

static void
note(reader *r, const char *key, const char *how, const char *what)
{
  if (r->c->nnote == r->cnote) {
    r->cnote = r->cnote ? 2 * r->cnote : 64;
    nmb__key_note *more = NMB_NEW(r->run, nmb__key_note, r->cnote);
    if (r->c->nnote)
      memcpy(more, r->note, (size_t)r->c->nnote * sizeof *more);
    r->note = more;
    r->c->note = more;
  }
  r->note[r->c->nnote++] = (nmb__key_note){nmb_strdup(r->run, key), how, what};
}

/* --------------------------------------------------------------- defaults */
static void
set_text(nmb_run *run, nmb__setting *s, const field_row *f, const char *value)
{
  *s = (nmb__setting){.s = nmb_strdup(run, value)};
  if (f->type == INT || f->type == REAL || f->type == BOOL) {
    s->r = strtod(value, NULL);
    s->i = f->type == REAL ? 0 : (int64_t)s->r;
  }
}

static int
field_find(const char *name, size_t len)
{
  for (int i = 0; i < NMB__F_NFIELD; i++)
    if (strlen(fields[i].name) == len && !strncmp(fields[i].name, name, len))
      return i;
  return NMB_NONE;
}

/* "a=1 b=text": a wrong name is our own mistake, found by the unit test. */
static nmb_status
text_apply(nmb_run *run, nmb__config *c, const char *text)
{
  for (const char *s = text; *s;) {
    const size_t n = strcspn(s, "="), m = strcspn(s + n, " ");
    const int at = field_find(s, n);
    if (at == NMB_NONE)
      return nmb_fail(run, NMB_BADINPUT, NMB_NOLOC, "%s: bad field in '%s'", c->family, s);
    set_text(run, &c->set[at], &fields[at],
             nmb_format(run, "%.*s", (int)m - 1, s + n + 1));
    s += n + m;
    s += *s == ' ';
  }
  return NMB_OK;
}

static nmb_status
defaults_apply(nmb_run *run, nmb__config *c, const family_row *f)
{
  if (*f->parent)
    NMB_TRY(defaults_apply(run, c, family_find(f->parent)));
  return text_apply(run, c, f->values);
}

/* ------------------------------------------------------------------- keys */
static nmb_status
bad_value(const reader *r, const char *path, const char *key, const json_t *v,
          const char *expected)
{
  return nmb_fail(r->run, NMB_BADINPUT, key_loc(r, key), "%s: found %s, expected %s",
                  path, nmb__json_show(r->run, v), expected);
}

static const char *
expectation(nmb_run *run, const field_row *f)
{
  switch (f->type) {
  case INT: return nmb_format(run, "an integer from %.0f to %.0f", f->lo, f->hi);
  case REAL: return nmb_format(run, "a number from %g to %g", f->lo, f->hi);
  case BOOL: return "true or false";
  case TEXT: return "a text";
  default: return "an object or a list";
  }
}

/* A number per layer, the same for all: as good as one number. */
static bool
all_alike(const json_t *v)
{
  for (size_t i = 1; i < json_array_size(v); i++)
    if (!json_equal(json_array_get(v, 0), json_array_get(v, i)))
      return false;
  return json_array_size(v) > 0;
}

/* Fields that may differ from layer to layer. */
static bool
per_layer(const field_row *f)
{
  static const int of[] = {NMB__F_HEADS,      NMB__F_KV_HEADS,   NMB__F_HEAD_DIM,
                           NMB__F_WINDOW,     NMB__F_FFN,        NMB__F_EXPERTS,
                           NMB__F_TOPK,       NMB__F_EXPERT_FFN, NMB__F_SHARED,
                           NMB__F_SHARED_FFN, NMB__F_WINDOW_HEADS};
  for (size_t i = 0; i < sizeof of / sizeof *of; i++)
    if (f == &fields[of[i]])
      return true;
  return false;
}

/* A number per layer, each within bounds. */
static bool
list_read(const field_row *f, const json_t *v)
{
  bool ok = json_array_size(v) > 0;
  for (size_t i = 0; ok && i < json_array_size(v); i++) {
    const json_t *x = json_array_get(v, i);
    const double r = (double)json_integer_value(x);
    ok = json_is_integer(x) && r >= f->lo && r <= f->hi;
  }
  return ok;
}

/* Fields kept as they are: some are objects, the others lists; one is a switch. */
static bool
json_fits(const field_row *f, const json_t *v)
{
  if (f == &fields[NMB__F_ATTN_GATE_KIND])
    return json_is_boolean(v) || json_is_string(v);
  if (f == &fields[NMB__F_STRETCH_ON])
    return json_is_boolean(v) || (json_is_integer(v) && json_integer_value(v) >= 0);
  static const int objects[] = {NMB__F_ROPE_SCALING, NMB__F_QUANT, NMB__F_INDEX_BLOCKS};
  for (size_t i = 0; i < sizeof objects / sizeof *objects; i++)
    if (f == &fields[objects[i]])
      return json_is_object(v);
  return json_is_array(v);
}

/* null: the feature is not there; for numbers that cannot be 0, the default. */
static bool
value_read(const field_row *f, const json_t *v, nmb__setting *s)
{
  if (f->type == INT && json_is_string(v) && !strcmp(json_string_value(v), "auto")) {
    s->i = 0;
    s->r = 0;
    return f->lo <= 0;
  }
  if (f->type == INT && json_is_array(v)) {
    if (!all_alike(v) && (!per_layer(f) || !list_read(f, v)))
      return false;
    const bool one = json_array_size(v) == 1; /* stands for all layers */
    s->list = one || (all_alike(v) && !per_layer(f)) ? NULL : v;
    v = json_array_get(v, 0);
  }
  if (json_is_null(v)) {
    if (f->type == INT || f->type == BOOL)
      s->i = 0, s->r = 0;
    if (f->type == REAL && !(f->lo < 0 || f->lo > 0))
      s->r = 0;
    if (f->type == JSON)
      s->j = NULL;
    return f->type != INT || f->lo <= 0;
  }
  if (f == &fields[NMB__F_WINDOW_ALTERNATE] && json_is_string(v)) { /* LLLG */
    const char *t = json_string_value(v);
    s->i = (int64_t)strlen(t);
    s->r = (double)s->i;
    return s->i > 1 && (int64_t)strspn(t, "L") == s->i - 1 && t[s->i - 1] == 'G';
  }
  if (f == &fields[NMB__F_PAIRS] && json_is_boolean(v)) {
    s->s = json_is_true(v) ? "adjacent" : "half";
    return true;
  }
  switch (f->type) {
  case INT:
    s->i = json_integer_value(v);
    s->r = (double)s->i;
    return json_is_integer(v) && s->r >= f->lo && s->r <= f->hi;
  case REAL:
    s->r = json_number_value(v);
    return json_is_number(v) && s->r >= f->lo && s->r <= f->hi;
  case BOOL:
    s->i = json_is_true(v);
    s->r = (double)s->i;
    return json_is_boolean(v);
  case TEXT: s->s = json_string_value(v); return json_is_string(v);
  default: s->j = v; return json_fits(f, v);
  }
}

static nmb_status
use_key(reader *r, const char *path, const char *key, const json_t *v, int at)
{
  const field_row *f = &fields[at];
  nmb__setting *s = &r->c->set[at], old = *s;
  if (!value_read(f, v, s))
    return bad_value(r, path, key, v, expectation(r->run, f));
  if (f->type == TEXT && s->s != old.s)
    s->s = nmb_strdup(r->run, s->s);
  const bool same = f->type == TEXT   ? !strcmp(s->s, old.s)
                    : f->type == JSON ? json_equal(s->j, old.j)
                                      : s->r >= old.r && s->r <= old.r;
  if (old.key && !same)
    return nmb_fail(r->run, NMB_BADINPUT, key_loc(r, key), "%s: differs from '%s'", path,
                    old.key);
  s->key = nmb_strdup(r->run, key);
  s->loc = key_loc(r, key);
  note(r, path, "used as", f->name);
  return NMB_OK;
}

static const key_row *
key_find(const char *family, const char *key)
{
  for (int i = 0; i < NKEY; i++)
    if (matches(keys[i].key, key) &&
        (!*keys[i].family || nmb__family_is(family, keys[i].family)))
      return &keys[i];
  return NULL;
}

/* A key that may change the architecture and is not understood. */
static nmb_status
pass(reader *r, nmb_loc loc, const char *path, const char *why)
{
  nmb__config *c = r->c;
  if (c->nwarning % 64 == 0) {
    const char **more = NMB_NEW(r->run, const char *, c->nwarning + 64);
    if (c->nwarning)
      memcpy(more, c->warning, (size_t)c->nwarning * sizeof *more);
    c->warning = more;
  }
  c->warning[c->nwarning++] = nmb_format(r->run, "%s: %s", path, why);
  nmb_warn(r->run, loc, "%s: %s", path, why);
  note(r, path, "unknown", why);
  return NMB_OK;
}

static nmb_status
let_pass(reader *r, const char *path, const char *key, const char *why)
{
  return pass(r, key_loc(r, key), path, why);
}

/* null: nothing is asked for, whatever the key means. */
static nmb_status
unknown_key(reader *r, const char *path, const char *key, const json_t *v)
{
  if (json_is_null(v)) {
    note(r, path, "ignored", "unknown, but null");
    return NMB_OK;
  }
  if (nmb__run_is_lenient(r->run))
    return let_pass(r, path, key, "unknown key, which may change the architecture");
  const char *names[NKEY];
  int n = 0;
  for (int i = 0; i < NKEY; i++)
    if (!strchr(keys[i].key, '*'))
      names[n++] = keys[i].key;
  return nmb_fail(r->run, NMB_BADINPUT, key_loc(r, key),
                  "%s: unknown key, which may change the architecture%s", path,
                  nmb__hint(r->run, key, names, n));
}

/* Is the value one of those that `want` has, as "a|b"?  1 and 1.0 are the same. */
static bool
says(const json_t *v, const char *want)
{
  for (const char *s = want;; s++) {
    const size_t n = strcspn(s, "|");
    json_t *one = json_loadb(s, n, JSON_DECODE_ANY, NULL);
    const double d = json_number_value(one) - json_number_value(v);
    const bool ok = json_is_number(one) && json_is_number(v) ? !(d < 0 || d > 0)
                                                             : json_equal(one, v);
    json_decref(one);
    if (ok)
      return true;
    s += n;
    if (!*s)
      return false;
  }
}

/* A key whose value must be as the family's code, or the graph, has it. */
static nmb_status
say_key(reader *r, const char *path, const char *key, const json_t *v, const key_row *row)
{
  if (json_is_null(v) || says(v, row->value)) {
    note(r, path, "must be", row->value);
    return NMB_OK;
  }
  if (row->kind == K_GRAPH) {
    r->c->no_graph = row->why;
    note(r, path, "not in graphs", row->why);
    return NMB_OK;
  }
  if (nmb__run_is_lenient(r->run))
    return let_pass(r, path, key,
                    nmb_format(r->run, "%s is not supported and left out", row->why));
  return nmb_fail(r->run, NMB_UNSUPPORTED, key_loc(r, key), "%s is %s: %s is not supported",
                  path, nmb__json_show(r->run, v), row->why);
}

static nmb_status key_read(reader *r, const char *prefix, const char *key,
                           const json_t *v);

/* A key of an object may have a row of its own: "object.key". */
static const key_row *
key_find_in(reader *r, const char *prefix, const char *key)
{
  const size_t n = strlen(prefix);
  if (n > 1) {
    size_t at = n - 1;
    while (at > 0 && prefix[at - 1] != '.')
      at--;
    const key_row *row =
        key_find(r->c->family, nmb_format(r->run, "%s%s", prefix + at, key));
    if (row && strchr(row->key, '.')) /* what stands for any name is for plain ones */
      return row;
  }
  return key_find(r->c->family, key);
}

static nmb_status
open_key(reader *r, const char *path, const char *key, const json_t *v)
{
  if (!json_is_object(v) || strlen(path) > 100)
    return bad_value(r, path, key, v, "an object");
  const char *prefix = nmb_format(r->run, "%s.", path), *k;
  json_t *x;
  json_object_foreach((json_t *)(uintptr_t)v, k, x) NMB_TRY(key_read(r, prefix, k, x));
  return NMB_OK;
}

/* A key for messages: one line, and not a long one. */
const char *
nmb__config_shown(nmb_run *run, const char *key)
{
  char *out = nmb_strdup(run, nmb_format(run, strlen(key) > 80 ? "%.77s..." : "%s", key));
  for (char *c = out; *c; c++)
    if (iscntrl((unsigned char)*c))
      *c = '?';
  return out;
}

static nmb_status
key_read(reader *r, const char *prefix, const char *key, const json_t *v)
{
  const char *path = nmb_format(r->run, "%s%s", prefix, nmb__config_shown(r->run, key));
  const key_row *row = key_find_in(r, prefix, key);
  if (!row)
    return unknown_key(r, path, key, v);
  if (row->kind == K_OPEN)
    return open_key(r, path, key, v);
  if (row->kind == K_SAY || row->kind == K_GRAPH)
    return say_key(r, path, key, v, row);
  if (row->kind == K_USE && row->field != NMB__F_NFIELD)
    return use_key(r, path, key, v, row->field);
  note(r, path, "ignored",
       row->kind == K_USE ? "the family's code does not read it" : row->why);
  return NMB_OK;
}

/* ------------------------------------------------------------------ whole */
/* Beside text_config only these matter; the rest is vision, audio, tokenizer. */
static bool
outer_key(const char *key)
{
  static const char *const names[] = {"quantization_config", "tie_word_embeddings",
                                      "torch_dtype", "dtype"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!strcmp(names[i], key))
      return true;
  return false;
}

/* Sizes that a nested object leaves out where they are its class's: only such objects are
 * written as differences. */
static const family_row nested[] = {
#define X(name, values, source) {name, "", values, source},
#include "frontend/nested.def"
#undef X
};

/* Objects that a family's class has where the file leaves them out; they end with it. */
static void
objects_default(nmb__config *c, json_t *top)
{
  for (int i = 0; i < NMB__F_NFIELD; i++) {
    nmb__setting *s = &c->set[i];
    if (fields[i].type != JSON || s->key || !*s->s)
      continue;
    json_t *j = json_loads(s->s, 0, NULL);
    if (json_object_set_new(top, fields[i].name, j) == 0)
      s->j = j;
  }
}

/* The key under which the text model stands, NULL if it is the whole file. */
static const char *
inner_key(const json_t *top)
{
  static const char *const names[] = {"text_config", "llm_config", "language_config",
                                      "thinker_config"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (json_object_get(top, names[i]))
      return names[i];
  return NULL;
}

/* The object of the text model and its path; NULL: the whole file.  Omni models have it
 * one level deeper. */
static json_t *
inner_find(nmb_run *run, const json_t *top, const json_t **outer, const char **path)
{
  json_t *out = NULL;
  const char *key = inner_key(top);
  *path = NULL;
  for (int depth = 0; key && depth < 2; depth++) {
    *outer = out ? out : top;
    out = json_object_get(*outer, key);
    *path = *path ? nmb_format(run, "%s.%s", *path, key) : key;
    key = json_is_object(out) ? inner_key(out) : NULL;
  }
  return out;
}

static nmb_status
object_read(reader *r, json_t *top)
{
  const char *at, *key;
  const json_t *outer = top;
  json_t *inner = inner_find(r->run, top, &outer, &at);
  const char *prefix = at ? nmb_format(r->run, "%s.", at) : "";
  json_t *v;
  json_object_foreach(inner ? inner : top, key, v)
      NMB_TRY(key_read(r, prefix, key, v));
  if (!inner)
    return NMB_OK;
  json_object_foreach(top, key, v) if (outer_key(key) && !json_object_get(inner, key))
      NMB_TRY(key_read(r, "", key, v));
  else if (strcmp(key, at)) note(r, key, "ignored", "outside the text model");
  return NMB_OK;
}

/* Files that say only the class of the model. */
static const char *
type_of(const json_t *o)
{
  static const char *const known[][2] = {{"Grok1ModelForCausalLM", "grok-1"}};
  const json_t *t = json_object_get(o, "model_type");
  if (t)
    return json_string_value(t);
  const json_t *ssm = json_object_get(o, "ssm_cfg"); /* Mamba's authors' own files */
  if (json_is_object(ssm)) {
    const char *layer = json_string_value(json_object_get(ssm, "layer"));
    return layer && !strcmp(layer, "Mamba2") ? "mamba2-native" : "mamba-native";
  }
  const char *a =
      json_string_value(json_array_get(json_object_get(o, "architectures"), 0));
  for (size_t i = 0; a && i < sizeof known / sizeof *known; i++)
    if (!strcmp(known[i][0], a))
      return known[i][1];
  return "";
}

/* "LlamaForCausalLM" names the family llama, whatever a file calls itself: the class
 * decides which code runs.  Letters and digits count; NULL: none of that name. */
static const family_row *
family_of_class(const json_t *o)
{
  static const char *const ends[] = {"ForCausalLM", "LMHeadModel",
                                     "ForConditionalGeneration", "Model"};
  const char *s =
      json_string_value(json_array_get(json_object_get(o, "architectures"), 0));
  size_t n = s ? strlen(s) : 0;
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
    if (n > strlen(ends[i]) && !strcmp(s + n - strlen(ends[i]), ends[i])) {
      n -= strlen(ends[i]);
      break;
    }
  for (int f = 0; n && f < NFAMILY; f++) {
    size_t i = 0;
    const char *t = families[f].name;
    for (; *t; t++)
      if (isalnum((unsigned char)*t)) {
        if (i == n || tolower((unsigned char)s[i]) != tolower((unsigned char)*t))
          break;
        i++;
      }
    if (!*t && i == n)
      return &families[f];
  }
  return NULL;
}

static nmb_status
family_unknown(const reader *r, const char *type)
{
  const char *names[NFAMILY];
  for (int i = 0; i < NFAMILY; i++)
    names[i] = families[i].name;
  return nmb_fail(r->run, NMB_UNSUPPORTED, key_loc(r, "model_type"),
                  "model_type '%s' is not known%s", nmb__config_shown(r->run, type),
                  nmb__hint(r->run, type, names, NFAMILY));
}

/* What the file leaves to the family, where it is more than nothing. */
static void
defaults_note(reader *r)
{
  for (int i = 0; i < NMB__F_NFIELD; i++) {
    const nmb__setting *s = &r->c->set[i];
    if (!s->key && *s->s && strcmp(s->s, "0"))
      note(r, fields[i].name, "default", s->s);
  }
}

static nmb_status
family_read(reader *r, const json_t *top)
{
  const char *at;
  const json_t *outer = top, *inner = inner_find(r->run, top, &outer, &at);
  if (inner && !json_is_object(inner))
    return bad_value(r, at, at, inner, "an object");
  const char *type = type_of(inner ? inner : top);
  if (type && !*type && inner)
    type = type_of(top);
  if (!type)
    return bad_value(r, "model_type", "model_type",
                     json_object_get(inner ? inner : top, "model_type"), "a text");
  const family_row *f = family_find(type);
  const family_row *c = family_of_class(inner ? inner : top);
  if (!c && inner && !*type)
    c = family_of_class(top);
  /* a younger class may keep the model_type of an older one (Ling 2.0) */
  if (c && (!f || (f != c && nmb__family_is(c->name, f->name)))) {
    note(r, "architectures", "used as", c->name);
    f = c;
  }
  if (!f && !*type)
    return nmb_fail(r->run, NMB_BADINPUT, (nmb_loc){r->file, 0, 0},
                    "no key 'model_type': the family of the model is unknown");
  if (!f)
    return family_unknown(r, type);
  r->c->family = f->name;
  for (int i = 0; i < NMB__F_NFIELD; i++)
    set_text(r->run, &r->c->set[i], &fields[i], fields[i].dflt);
  NMB_TRY(defaults_apply(r->run, r->c, f));
  for (size_t i = 0; inner && i < sizeof nested / sizeof *nested; i++)
    if (!strcmp(nested[i].name, f->name))
      NMB_TRY(text_apply(r->run, r->c, nested[i].values));
  return NMB_OK;
}

/* Bare Infinity and NaN, which Python writes and JSON forbids, become texts. */
static char *
mend(nmb_run *run, const char *text, size_t len, size_t *outlen)
{
  char *out = NMB_NEW(run, char, 2 * len + 1);
  size_t n = 0;
  bool quoted = false;
  for (size_t i = 0; i < len; i++) {
    static const char *const words[] = {"-Infinity", "Infinity", "NaN"};
    size_t w = 0;
    for (size_t j = 0; !quoted && !w && j < 3; j++)
      if (len - i >= strlen(words[j]) && !strncmp(text + i, words[j], strlen(words[j])))
        w = strlen(words[j]);
    if (w) {
      out[n++] = '"';
      memcpy(out + n, text + i, w);
      n += w;
      out[n++] = '"';
      i += w - 1;
      continue;
    }
    if (quoted && text[i] == '\\' && i + 1 < len)
      out[n++] = text[i++];
    else if (text[i] == '"')
      quoted = !quoted;
    out[n++] = text[i];
  }
  *outlen = n;
  return out;
}

/* The last key before a place that is no JSON: numbers too large, a cut. */
static const char *
last_key(nmb_run *run, const char *text, int at)
{
  int colon = at;
  while (colon > 0 && text[colon - 1] != ':')
    colon--;
  int end = colon - 1;
  while (end > 0 && text[end] != '"')
    end--;
  int first = end - 1;
  while (first >= 0 && text[first] != '"' && end - first < 80)
    first--;
  return first >= 0 && text[first] == '"'
             ? nmb_format(run, " (after key '%.*s')", end - first - 1, text + first + 1)
             : "";
}

nmb_status
nmb__config_read(nmb_run *run, const char *file, const char *text, size_t len,
                 nmb__config *out)
{
  json_error_t err;
  size_t n;
  *out = (nmb__config){0};
  if (len >= 3 && !memcmp(text, "\xef\xbb\xbf", 3))
    return nmb_fail(run, NMB_BADINPUT, (nmb_loc){file, 1, 1},
                    "the file starts with a byte order mark, expected '{'");
  reader r = {run, file, mend(run, text, len, &n), out, NULL, 0};
  json_t *top = json_loadb(r.text, n, JSON_REJECT_DUPLICATES, &err);
  if (!top)
    return nmb_fail(run, NMB_BADINPUT, (nmb_loc){file, err.line, err.column}, "%s%s",
                    err.text,
                    last_key(run, r.text,
                             err.position >= 0 && (size_t)err.position <= n
                                 ? err.position
                                 : (int)n));
  nmb_status s = NMB_OK;
  if (!json_is_object(top))
    s = nmb_fail(run, NMB_BADINPUT, (nmb_loc){file, 1, 0}, "found %s, expected an object",
                 nmb__json_show(run, top));
  if (s == NMB_OK)
    s = family_read(&r, top);
  if (s == NMB_OK)
    s = object_read(&r, top);
  if (s == NMB_OK) {
    objects_default(out, top);
    defaults_note(&r);
  }
  out->root = top;
  if (s != NMB_OK) {
    json_decref(top);
    out->root = NULL;
  }
  return s;
}

/* -------------------------------------------------------------- other files */
nmb_status
nmb__config_apply(nmb_run *run, nmb__config *c, const char *text)
{
  return text_apply(run, c, text);
}

nmb_status
nmb__config_begin(nmb_run *run, const char *file, const char *family, nmb__config *out)
{
  *out = (nmb__config){0};
  const reader r = {run, file, "", out, NULL, 0};
  const family_row *f = family_find(family);
  if (!f)
    return family_unknown(&r, family);
  out->family = f->name;
  for (int i = 0; i < NMB__F_NFIELD; i++)
    set_text(run, &out->set[i], &fields[i], fields[i].dflt);
  return defaults_apply(run, out, f);
}

/* A reader of no text that goes on where the settings stand. */
static reader
reader_of(nmb_run *run, const char *file, nmb__config *c)
{
  reader r = {run, file, "", c, (nmb__key_note *)(uintptr_t)c->note, c->nnote ? 64 : 0};
  while (r.cnote < c->nnote)
    r.cnote *= 2;
  return r;
}

nmb_status
nmb__config_set(nmb_run *run, nmb__config *c, const char *file, nmb__field f,
                const char *key, const json_t *v)
{
  reader r = reader_of(run, file, c);
  return use_key(&r, key, key, v, (int)f);
}

void
nmb__config_note(nmb_run *run, nmb__config *c, const char *key, const char *how,
                 const char *what)
{
  reader r = reader_of(run, "", c);
  note(&r, key, how, what);
}

nmb_status
nmb__config_pass(nmb_run *run, nmb__config *c, nmb_loc loc, const char *path,
                 const char *why)
{
  reader r = reader_of(run, "", c);
  return pass(&r, loc, path, why);
}

void
nmb__config_end(nmb_run *run, nmb__config *c)
{
  reader r = reader_of(run, "", c);
  defaults_note(&r);
}
