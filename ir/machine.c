/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Reads .hw files into machines, and asks engine models what instructions cost.
 *
 * A variant is a chain of files: the outermost overrides single values of the
 * one it includes.  Values stay texts until the entry they belong to is read, so
 * that a message names the file and line that the text stands in. */
#include "ir/machine.h"

#include <ctype.h>
#include <libconfig.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/near.h"
#include "base/options.h"
#include "base/path.h"
#include "base/plugin.h"
#include "base/run.h"
#include "base/units.h"

enum { MAXDEPTH = 8, MAXENGINE = 64, MAXDEVICES = 4096, MAXENTRY = 64 };

typedef struct machine {
  nmb_hw hw;    /* first, so that a pointer to it is a pointer to this */
  nmb_run *own; /* the arena that holds all of it */
  const char *text;
} machine;

typedef struct layer {
  config_t cfg;
  const char *path;
} layer;

/* One `set` row of a variant. */
typedef struct override {
  const char *section, *entry, *key, *path;
  const config_setting_t *value;
  const char *file;
  bool used;
} override;

typedef struct reader {
  nmb_run *run, *own;
  int nlayer; /* outermost first; the last one holds the entries */
  layer layer[MAXDEPTH];
  int nover;
  override *over; /* outermost first: the first one that fits counts */
  int devices;
  char *text;
  size_t used, cap;
} reader;

#define WORD(name, dflt, help)                                                           \
  {                                                                                      \
    name, "text", NULL, dflt, "", help                                                   \
  }
static const nmb_opt mem_keys[] = {
    {"size", "size", "B", NULL, "1B..", "capacity of a device"},
    {"bandwidth", "bandwidth", "B/s", NULL, "1B/s..", "external interface of a device"},
    {"latency", "time", "s", "0", "0..", "of an access when idle"},
    {"energy", "energy/byte", "J/B", NULL, "0..", "through the external interface"},
    {"static", "power", "W", NULL, "0..", "power of a device when idle"},
    {"channels", "int", "channel", "1", "1..65536", "channels of a device"},
    {"banks", "int", "bank", "1", "1..4096", "banks of a channel"},
    {"page", "size", "B", "0", "0..", "DRAM row; 0: not DRAM"},
    {"burst", "size", "B", "64B", "1B..", "smallest access"},
    {"align", "size", "B", "64B", "1B..", "of every buffer"},
    {"local", "bool", NULL, "false", "", "holds only values inside a kernel"},
    {"per", "enum", NULL, "device", "device|system", "one a device, or one in all"},
    WORD("source", NULL, "where the numbers come from"),
    {0}};
static const nmb_opt engine_keys[] = {
    WORD("model", NULL, "engine model plugin"),
    WORD("resident", NULL, "memory of its weights and caches"),
    WORD("home", NULL, "memory of its other operands"),
    WORD("local", "", "memory of values inside a kernel"),
    {"rows-one-by-one", "bool", NULL, "false", "", "local holds one row's tile"},
    {"in-memory", "bool", NULL, "false", "", "computes in the banks of resident"},
    WORD("ops", NULL, "ops that it runs, or all"),
    WORD("weights", NULL, "formats of resident operands"),
    WORD("values", NULL, "formats of other operands"),
    {"launch", "time", "s", NULL, "0..", "overhead of starting a kernel"},
    {"static", "power", "W", NULL, "0..", "power of a device when idle"},
    {"per", "enum", NULL, "device", "device|system", "one a device, or one in all"},
    {"multiply", "enum", NULL, "fp32", "fp32|fp16|bf16", "format of products"},
    {"tree", "int", "1", "1", "1..4096", "products added in pairs before a register"},
    {"tree-sums", "enum", NULL, "fp32", "fp32|fp16|bf16", "format of sums in the tree"},
    {"sum-lanes", "int", "1", "1", "1..4096", "registers whose sums are added at the end"},
    {"accumulate", "enum", NULL, "fp32", "fp32|fp16|bf16|int32",
     "format of registers; int32: of products of whole numbers, else fp32"},
    {"piece", "int", "1", "0", "0..", "terms after which a sum leaves; 0: all"},
    {"result", "enum", NULL, "fp32", "fp32|fp16|bf16", "format in which a sum leaves"},
    {"piece-order", "enum", NULL, "forward", "forward|reverse|pairs",
     "how sums of pieces are added, in fp32"},
    WORD("source", NULL, "where the numbers come from"),
    {0}};
static const nmb_opt link_keys[] = {
    WORD("model", "link", "engine model plugin"),
    WORD("from", NULL, "memory"),
    WORD("to", NULL, "memory; the same as from: joins the devices of it"),
    {"launch", "time", "s", NULL, "0..", "overhead of starting a transfer"},
    {"static", "power", "W", NULL, "0..", "power of a device when idle"},
    {"per", "enum", NULL, "device", "device|system", "one a device, or one in all"},
    WORD("source", NULL, "where the numbers come from"),
    {0}};
#undef WORD

/* Places of a file's top level. */
static const char *const base_names[] = {"title",    "source",  "devices", "host",
                                         "memories", "engines", "links"};
static const char *const variant_names[] = {"include", "title", "source", "devices",
                                            "set"};
static const char *const set_names[] = {"path", "value"};
static const char *const sections[] = {"memories", "engines", "links"};
#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

/* --------------------------------------------------------------------- text */
static void
put(reader *r, const char *s)
{
  const size_t n = strlen(s);
  if (r->used + n + 1 > r->cap) {
    r->cap = 2 * (r->used + n + 1) + 4096;
    r->text = nmb__xrealloc(r->text, r->cap, 1);
  }
  memcpy(r->text + r->used, s, n + 1);
  r->used += n;
}

/* As a libconfig string. */
static void
put_quoted(reader *r, const char *s)
{
  put(r, "\"");
  for (; *s; s++) {
    char c[8];
    const unsigned char b = (unsigned char)*s;
    if (b == '"' || b == '\\')
      snprintf(c, sizeof c, "\\%c", b);
    else if (b < 32 || b == 127)
      snprintf(c, sizeof c, "\\x%02x", b);
    else
      snprintf(c, sizeof c, "%c", b);
    put(r, c);
  }
  put(r, "\"");
}

static void
put_key(reader *r, const char *indent, const char *key, const char *value)
{
  put(r, indent);
  put(r, key);
  put(r, " = ");
  put_quoted(r, value);
  put(r, ";\n");
}

/* ---------------------------------------------------------------- the files */
static nmb_loc
place(const char *file, const config_setting_t *s)
{
  return (nmb_loc){file, s ? (int)config_setting_source_line(s) : 0, 0};
}

static nmb_status
unknown_key(reader *r, nmb_loc loc, const char *where, const char *key,
            const char *const *names, int n)
{
  return nmb_fail(r->run, NMB_BADINPUT, loc, "%s: unknown key '%s'%s", where, key,
                  nmb__hint(r->run, key, names, n));
}

static nmb_status
check_names(reader *r, const char *file, const config_setting_t *group, const char *where,
            const char *const *names, int n)
{
  const int len = config_setting_length(group);
  for (int i = 0; i < len; i++) {
    const config_setting_t *s = config_setting_get_elem(group, (unsigned)i);
    const char *name = config_setting_name(s);
    int j = 0;
    while (j < n && strcmp(names[j], name))
      j++;
    if (j == n)
      return unknown_key(r, place(file, s), where, name, names, n);
  }
  return NMB_OK;
}

/* A member that must be text if it is there. */
static nmb_status
text_member(reader *r, const char *file, const config_setting_t *group, const char *key,
            const char **out)
{
  const config_setting_t *s = config_setting_get_member(group, key);
  *out = NULL;
  if (!s)
    return NMB_OK;
  if (config_setting_type(s) != CONFIG_TYPE_STRING)
    return nmb_fail(r->run, NMB_BADINPUT, place(file, s), "%s: expected a text in quotes",
                    key);
  *out = config_setting_get_string(s);
  return NMB_OK;
}

static nmb_status
set_row(reader *r, const char *file, const config_setting_t *row)
{
  const char *path;
  if (!config_setting_is_group(row))
    return nmb_fail(r->run, NMB_BADINPUT, place(file, row),
                    "set: expected groups {path = ..; value = ..;}");
  NMB_TRY(check_names(r, file, row, "set", set_names, COUNT(set_names)));
  NMB_TRY(text_member(r, file, row, "path", &path));
  const config_setting_t *value = config_setting_get_member(row, "value");
  if (!path || !value)
    return nmb_fail(r->run, NMB_BADINPUT, place(file, row), "set: a row lacks its %s",
                    path ? "value" : "path");
  char *copy = nmb_strdup(r->own, path);
  char *dot = strchr(copy, '.'), *dot2 = dot ? strchr(dot + 1, '.') : NULL;
  if (!dot2 || strchr(dot2 + 1, '.') || dot == copy || dot2 == dot + 1 || !dot2[1])
    return nmb_fail(r->run, NMB_BADINPUT, place(file, row),
                    "set: found path '%s', expected group.entry.key", path);
  *dot = *dot2 = '\0';
  override *o = NMB_NEW(r->own, override, r->nover + 1);
  if (r->nover)
    memcpy(o, r->over, (size_t)r->nover * sizeof *o);
  o[r->nover++] = (override){copy, dot + 1, dot2 + 1, path, value, file, false};
  r->over = o;
  return NMB_OK;
}

static nmb_status
read_set(reader *r, const layer *l)
{
  const config_setting_t *set = config_lookup(&l->cfg, "set");
  if (!set)
    return NMB_OK;
  if (!config_setting_is_list(set))
    return nmb_fail(r->run, NMB_BADINPUT, place(l->path, set),
                    "set: expected a list ( .. )");
  const int n = config_setting_length(set);
  if (n > 256)
    return nmb_fail(r->run, NMB_BADINPUT, place(l->path, set),
                    "set: found %d rows, expected at most 256", n);
  for (int i = n - 1; i >= 0; i--) /* the last of one file counts */
    NMB_TRY(set_row(r, l->path, config_setting_get_elem(set, (unsigned)i)));
  return NMB_OK;
}

static nmb_status read_named(reader *r, nmb_loc from, const char *name);

static nmb_status
read_layer(reader *r, nmb_loc from, const char *path, const char *text, size_t len)
{
  if (r->nlayer == MAXDEPTH)
    return nmb_fail(r->run, NMB_BADINPUT, from,
                    "machines include each other more than %d deep", MAXDEPTH);
  layer *l = &r->layer[r->nlayer++];
  config_init(&l->cfg);
  l->path = nmb_strdup(r->own, path);
  if (memchr(text, '\0', len))
    return nmb_fail(r->run, NMB_BADINPUT, (nmb_loc){l->path, 0, 0},
                    "found a NUL byte, expected text");
  if (!config_read_string(&l->cfg, text))
    return nmb_fail(r->run, NMB_BADINPUT,
                    (nmb_loc){l->path, config_error_line(&l->cfg), 0}, "%s",
                    config_error_text(&l->cfg));
  const config_setting_t *root = config_root_setting(&l->cfg);
  const config_setting_t *inc = config_setting_get_member(root, "include");
  const char *name;
  if (!inc)
    return check_names(r, l->path, root, "machine", base_names, COUNT(base_names));
  NMB_TRY(check_names(r, l->path, root, "variant", variant_names, COUNT(variant_names)));
  NMB_TRY(text_member(r, l->path, root, "include", &name));
  NMB_TRY(read_set(r, l));
  return read_named(r, place(l->path, inc), name);
}

static nmb_status
read_named(reader *r, nmb_loc from, const char *name)
{
  const char *path;
  size_t len;
  NMB_TRY(nmb__find_file(r->run, "machines", name, "hw", &path));
  char *text = nmb__read_file(r->run, path, &len);
  if (!text)
    return NMB_IO;
  return read_layer(r, from, path, text, len);
}

/* A value as text: scalars as they would be written, lists joined by blanks. */
static nmb_status
value_text(reader *r, nmb_loc loc, const config_setting_t *s, const char **out)
{
  switch (config_setting_type(s)) {
  case CONFIG_TYPE_STRING: *out = config_setting_get_string(s); break;
  case CONFIG_TYPE_BOOL: *out = config_setting_get_bool(s) ? "true" : "false"; break;
  case CONFIG_TYPE_INT: *out = nmb_format(r->own, "%d", config_setting_get_int(s)); break;
  case CONFIG_TYPE_INT64:
    *out = nmb_format(r->own, "%lld", config_setting_get_int64(s));
    break;
  case CONFIG_TYPE_FLOAT:
    *out = nmb_format(r->own, "%.17g", config_setting_get_float(s));
    break;
  case CONFIG_TYPE_ARRAY:
  case CONFIG_TYPE_LIST: {
    const int n = config_setting_length(s);
    *out = "";
    for (int i = 0; i < n; i++) {
      const config_setting_t *e = config_setting_get_elem(s, (unsigned)i);
      if (config_setting_type(e) != CONFIG_TYPE_STRING || n > 256)
        return nmb_fail(r->run, NMB_BADINPUT, loc, "expected a list of texts");
      *out =
          nmb_format(r->own, "%s%s%s", *out, i ? " " : "", config_setting_get_string(e));
    }
    break;
  }
  default: return nmb_fail(r->run, NMB_BADINPUT, loc, "found a group, expected a value");
  }
  return NMB_OK;
}

/* ------------------------------------------------------------------ entries */
typedef struct entry {
  const char *section, *name, *label; /* label: "engine 'pim'" */
  const config_setting_t *group;
  const char *file;
} entry;

static const config_setting_t *
section_of(const reader *r, const char *name)
{
  return config_lookup(&r->layer[r->nlayer - 1].cfg, name);
}

static nmb_status
entry_at(reader *r, const char *section, int i, entry *out)
{
  const layer *l = &r->layer[r->nlayer - 1];
  const config_setting_t *g =
      config_setting_get_elem(section_of(r, section), (unsigned)i);
  *out = (entry){section, config_setting_name(g), NULL, g, l->path};
  out->label = nmb_format(r->own, "%s.%s", section, out->name);
  if (!config_setting_is_group(g))
    return nmb_fail(r->run, NMB_BADINPUT, place(l->path, g),
                    "%s: expected a group { .. }", out->label);
  return NMB_OK;
}

/* The value of one key: the outermost override, the entry's own, the default. */
static nmb_status
entry_value(reader *r, const entry *e, const nmb_opt *key, nmb__optval *out)
{
  const config_setting_t *s = config_setting_get_member(e->group, key->name);
  const char *file = e->file, *text = key->dflt;
  for (int i = r->nover - 1; i >= 0; i--) {
    const override *o = &r->over[i];
    if (strcmp(o->section, e->section) || strcmp(o->entry, e->name) ||
        strcmp(o->key, key->name))
      continue;
    s = o->value; /* innermost first: the outermost one stays */
    file = o->file;
  }
  const nmb_loc loc = s ? place(file, s) : place(e->file, e->group);
  if (s)
    NMB_TRY(value_text(r, loc, s, &text));
  if (!text)
    return nmb_fail(r->run, NMB_BADINPUT, loc, "%s: '%s' is missing: %s", e->label,
                    key->name, key->help);
  if (nmb__option_value(r->run, loc, e->label, key, text, out) != NMB_OK)
    return NMB_BADINPUT;
  out->text = nmb_strdup(r->own, out->text);
  put_key(r, "    ", key->name, out->text);
  return NMB_OK;
}

/* All keys of a table; out has a row for each. */
static nmb_status
entry_values(reader *r, const entry *e, const nmb_opt *table, nmb__optval *out)
{
  for (int i = 0; table[i].name; i++)
    NMB_TRY(entry_value(r, e, &table[i], &out[i]));
  return NMB_OK;
}

/* Every key of the entry, and of overrides of it, stands in one of the two tables;
 * b (optional). */
static nmb_status
entry_known(reader *r, const entry *e, const nmb_opt *a, const nmb_opt *b)
{
  const char *names[128];
  int n = 0;
  for (int i = 0; a[i].name && n < COUNT(names); i++)
    names[n++] = a[i].name;
  for (int i = 0; b && b[i].name && n < COUNT(names); i++)
    names[n++] = b[i].name;
  NMB_TRY(check_names(r, e->file, e->group, e->label, names, n));
  for (int i = 0; i < r->nover; i++) {
    override *o = &r->over[i];
    int j = 0;
    if (strcmp(o->section, e->section) || strcmp(o->entry, e->name))
      continue;
    while (j < n && strcmp(names[j], o->key))
      j++;
    if (j == n)
      return unknown_key(r, place(o->file, o->value), e->label, o->key, names, n);
    o->used = true;
  }
  return NMB_OK;
}

static const nmb__optval *
pick(const nmb_opt *table, const nmb__optval *v, const char *name)
{
  int i = 0;
  while (strcmp(table[i].name, name))
    i++;
  return &v[i];
}

static nmb_status
source_given(reader *r, const entry *e, const char *text)
{
  while (isspace((unsigned char)*text))
    text++;
  if (!*text)
    return nmb_fail(r->run, NMB_BADINPUT, place(e->file, e->group),
                    "%s: its source is empty: say where the numbers come from", e->label);
  return NMB_OK;
}

static nmb_status
read_mem(reader *r, const entry *e, nmb_mem *m)
{
  nmb__optval v[COUNT(mem_keys)];
#define V(key) pick(mem_keys, v, key)
  NMB_TRY(entry_known(r, e, mem_keys, NULL));
  NMB_TRY(entry_values(r, e, mem_keys, v));
  NMB_TRY(source_given(r, e, V("source")->text));
  const bool system = !strcmp(V("per")->text, "system");
  const int n = system ? 1 : r->devices;
  const double bytes = V("size")->number * n;
  if (!(bytes < 0x1p62))
    return nmb_fail(r->run, NMB_BADINPUT, place(e->file, e->group),
                    "%s: %g bytes are too many", e->label, bytes);
  *m = (nmb_mem){.name = nmb_strdup(r->own, e->name),
                 .devices = n,
                 .bytes = (int64_t)bytes,
                 .bytes_per_s = V("bandwidth")->number * n,
                 .latency_s = V("latency")->number,
                 .j_per_byte = V("energy")->number,
                 .static_w = V("static")->number * n,
                 .channels = (int)V("channels")->integer * n,
                 .banks = (int)V("banks")->integer,
                 .page_bytes = V("page")->integer,
                 .burst_bytes = V("burst")->integer,
                 .align = V("align")->integer,
                 .local = V("local")->integer != 0,
                 .source = V("source")->text};
#undef V
  return NMB_OK;
}

static nmb_status
mem_named(reader *r, const nmb_hw *hw, const entry *e, const char *key, const char *name,
          nmb_id *out)
{
  const char *names[NMB_MAXMEM];
  for (int i = 0; i < hw->nmem; i++)
    names[i] = hw->mem[i].name;
  *out = nmb_hw_mem(hw, name);
  if (*out == NMB_NONE)
    return nmb_fail(r->run, NMB_BADINPUT, place(e->file, e->group),
                    "%s: %s: there is no memory '%s'%s", e->label, key, name,
                    nmb__hint(r->run, name, names, hw->nmem));
  return NMB_OK;
}

/* The set of words of `text` in a table of `n` names; "all" is all of them. */
static nmb_status
word_set(reader *r, const entry *e, const char *key, const char *text,
         const char *(*name)(int), int n, uint64_t *out)
{
  char *next = nmb_strdup(r->own, text);
  *out = 0;
  while (*next) {
    char *w = next;
    int i = 0;
    next += strcspn(next, " ");
    if (*next)
      *next++ = '\0';
    if (!*w)
      continue;
    if (!strcmp(w, "all")) {
      *out = n >= 64 ? UINT64_MAX : (UINT64_C(1) << n) - 1;
      continue;
    }
    while (i < n && strcmp(name(i), w))
      i++;
    if (i == n) {
      const char **names = NMB_NEW(r->run, const char *, n);
      for (int j = 0; j < n; j++)
        names[j] = name(j);
      return nmb_fail(r->run, NMB_BADINPUT, place(e->file, e->group),
                      "%s: %s: found '%s', which is unknown%s", e->label, key, w,
                      nmb__hint(r->run, w, names, n));
    }
    *out |= UINT64_C(1) << i;
  }
  if (!*out)
    return nmb_fail(r->run, NMB_BADINPUT, place(e->file, e->group), "%s: '%s' is empty",
                    e->label, key);
  return NMB_OK;
}

static const char *
op_name(int i)
{
  return nmb_op_get((nmb_opcode)i)->name;
}

static const char *
dtype_name(int i)
{
  return nmb_dtype_get((nmb_dtype)i)->name;
}

/* The model of an engine or link, and whether all keys are its or `keys`'. */
static nmb_status
read_model(reader *r, const entry *e, const nmb_opt *keys, nmb__optval *v,
           const nmb_plugin **out)
{
  NMB_TRY(entry_value(r, e, &keys[0], &v[0])); /* "model" */
  NMB_TRY(nmb__plugin_need(r->run, place(e->file, e->group), v[0].text, "model", out));
  NMB_TRY(entry_known(r, e, keys, (*out)->opts));
  return entry_values(r, e, keys + 1, v + 1);
}

/* The model's own parameters, in the order of its table. */
static nmb_status
read_params(reader *r, const entry *e, const nmb_plugin *plugin, nmb_engine *out)
{
  int n = 0;
  while (plugin->opts && plugin->opts[n].name)
    n++;
  nmb_param *p = NMB_NEW(r->own, nmb_param, n + 1);
  for (int i = 0; i < n; i++) {
    const nmb_opt *o = &plugin->opts[i];
    const bool text = !strcmp(o->type, "text") || !strcmp(o->type, "enum");
    nmb__optval v;
    NMB_TRY(entry_value(r, e, o, &v));
    p[i] = (nmb_param){nmb_strdup(r->own, o->name), v.number, text ? v.text : NULL};
  }
  out->model = nmb_strdup(r->own, plugin->name);
  out->nparam = n;
  out->param = p;
  out->impl = plugin;
  return NMB_OK;
}

static const char *const sum_name[] = {
#define X(id, name) name,
    NMB_SUM_MAP(X)
#undef X
};
static const char *const order_name[] = {
#define X(id, name) name,
    NMB_ORDER_MAP(X)
#undef X
};

/* Options were checked: it is one of them. */
static int
word_at(const char *const *names, int n, const char *word)
{
  int i = 0;
  while (i < n - 1 && strcmp(names[i], word))
    i++;
  return i;
}

static nmb_status
read_engine(reader *r, const nmb_hw *hw, const entry *e, nmb_engine *out)
{
  nmb__optval v[COUNT(engine_keys)];
  const nmb_plugin *plugin;
  uint64_t set;
#define V(key) pick(engine_keys, v, key)
  NMB_TRY(read_model(r, e, engine_keys, v, &plugin));
  NMB_TRY(source_given(r, e, V("source")->text));
  const int n = !strcmp(V("per")->text, "system") ? 1 : r->devices;
  *out = (nmb_engine){.name = nmb_strdup(r->own, e->name),
                      .devices = n,
                      .local = NMB_NONE,
                      .rows_one_by_one = V("rows-one-by-one")->integer != 0,
                      .in_memory = V("in-memory")->integer != 0,
                      .from = NMB_NONE,
                      .to = NMB_NONE,
                      .launch_s = V("launch")->number,
                      .static_w = V("static")->number * n,
                      .source = V("source")->text};
  NMB_TRY(mem_named(r, hw, e, "resident", V("resident")->text, &out->resident));
  NMB_TRY(mem_named(r, hw, e, "home", V("home")->text, &out->home));
  if (*V("local")->text)
    NMB_TRY(mem_named(r, hw, e, "local", V("local")->text, &out->local));
  NMB_TRY(word_set(r, e, "ops", V("ops")->text, op_name, NMB_NOP, &out->ops));
  NMB_TRY(word_set(r, e, "weights", V("weights")->text, dtype_name, NMB_NDTYPE, &set));
  out->weights = (nmb_bits)set;
  NMB_TRY(word_set(r, e, "values", V("values")->text, dtype_name, NMB_NDTYPE, &set));
  out->values = (nmb_bits)set;
  out->arith = (nmb_arith){
      .multiply = (nmb_sum)word_at(sum_name, NMB_NSUM, V("multiply")->text),
      .tree = (int)V("tree")->integer,
      .tree_sums = (nmb_sum)word_at(sum_name, NMB_NSUM, V("tree-sums")->text),
      .lanes = (int)V("sum-lanes")->integer,
      .accumulate = (nmb_sum)word_at(sum_name, NMB_NSUM, V("accumulate")->text),
      .piece = V("piece")->integer,
      .result = (nmb_sum)word_at(sum_name, NMB_NSUM, V("result")->text),
      .order = (nmb_order)word_at(order_name, NMB_NORDER, V("piece-order")->text)};
  return read_params(r, e, plugin, out);
#undef V
}

static nmb_status
read_link(reader *r, const nmb_hw *hw, const entry *e, nmb_engine *out)
{
  nmb__optval v[COUNT(link_keys)];
  const nmb_plugin *plugin;
#define V(key) pick(link_keys, v, key)
  NMB_TRY(read_model(r, e, link_keys, v, &plugin));
  NMB_TRY(source_given(r, e, V("source")->text));
  const int n = !strcmp(V("per")->text, "system") ? 1 : r->devices;
  *out = (nmb_engine){.name = nmb_strdup(r->own, e->name),
                      .devices = n,
                      .local = NMB_NONE,
                      .resident = NMB_NONE,
                      .home = NMB_NONE,
                      .launch_s = V("launch")->number,
                      .static_w = V("static")->number * n,
                      .source = V("source")->text};
  NMB_TRY(mem_named(r, hw, e, "from", V("from")->text, &out->from));
  NMB_TRY(mem_named(r, hw, e, "to", V("to")->text, &out->to));
  out->between_devices = out->from == out->to;
  return read_params(r, e, plugin, out);
#undef V
}

/* --------------------------------------------------------------- the machine */
/* The outermost file that has the member; NULL if none. */
static const config_setting_t *
outermost(const reader *r, const char *key, const char **file)
{
  for (int i = 0; i < r->nlayer; i++) {
    const config_setting_t *s =
        config_setting_get_member(config_root_setting(&r->layer[i].cfg), key);
    *file = r->layer[i].path;
    if (s)
      return s;
  }
  *file = r->layer[r->nlayer - 1].path;
  return NULL;
}

static nmb_status
head_text(reader *r, const char *key, const char **out)
{
  const char *file;
  const config_setting_t *s = outermost(r, key, &file);
  if (!s)
    return nmb_fail(r->run, NMB_BADINPUT, (nmb_loc){file, 0, 0},
                    "the machine has no '%s'", key);
  if (config_setting_type(s) != CONFIG_TYPE_STRING || !*config_setting_get_string(s))
    return nmb_fail(r->run, NMB_BADINPUT, place(file, s), "%s: expected a text in quotes",
                    key);
  *out = nmb_strdup(r->own, config_setting_get_string(s));
  put_key(r, "", key, *out);
  return NMB_OK;
}

static nmb_status
read_head(reader *r, nmb_hw *hw, const char **host)
{
  const char *file, *text = "1";
  NMB_TRY(head_text(r, "title", &hw->title));
  NMB_TRY(head_text(r, "source", &hw->source));
  const config_setting_t *s = outermost(r, "devices", &file);
  if (s)
    NMB_TRY(value_text(r, place(file, s), s, &text));
  char *end;
  const long n = strtol(text, &end, 10);
  if (*end || end == text || n < 1 || n > MAXDEVICES)
    return nmb_fail(r->run, NMB_BADINPUT, place(file, s),
                    "devices: found '%s', expected 1..%d", text, MAXDEVICES);
  hw->devices = r->devices = (int)n;
  put(r, nmb_format(r->own, "devices = %ld;\n", n));
  return head_text(r, "host", host);
}

/* How many entries a section has; 0 if it is not there. */
static nmb_status
section_length(reader *r, const char *name, int most, int *out)
{
  const config_setting_t *s = section_of(r, name);
  const char *file = r->layer[r->nlayer - 1].path;
  *out = 0;
  if (!s)
    return NMB_OK;
  if (!config_setting_is_group(s))
    return nmb_fail(r->run, NMB_BADINPUT, place(file, s), "%s: expected a group { .. }",
                    name);
  *out = config_setting_length(s);
  if (*out > most)
    return nmb_fail(r->run, NMB_BADINPUT, place(file, s),
                    "%s: found %d, expected at most %d", name, *out, most);
  return NMB_OK;
}

static nmb_status
open_entry(reader *r, const char *section, int i, entry *e)
{
  NMB_TRY(entry_at(r, section, i, e));
  if (i == 0)
    put(r, nmb_format(r->own, "%s = {\n", section));
  put(r, nmb_format(r->own, "  %s = {\n", e->name));
  return NMB_OK;
}

static nmb_status
read_mems(reader *r, nmb_hw *hw)
{
  int n;
  NMB_TRY(section_length(r, "memories", NMB_MAXMEM, &n));
  if (n == 0)
    return nmb_fail(r->run, NMB_BADINPUT, (nmb_loc){r->layer[r->nlayer - 1].path, 0, 0},
                    "the machine has no memories");
  nmb_mem *m = NMB_NEW(r->own, nmb_mem, n);
  hw->mem = m;
  for (int i = 0; i < n; i++) {
    entry e;
    NMB_TRY(open_entry(r, "memories", i, &e));
    NMB_TRY(read_mem(r, &e, &m[i]));
    put(r, "  };\n");
    hw->nmem++;
  }
  put(r, "};\n");
  return NMB_OK;
}

static nmb_status
read_engines(reader *r, nmb_hw *hw)
{
  int n, nlink;
  NMB_TRY(section_length(r, "engines", MAXENGINE, &n));
  NMB_TRY(section_length(r, "links", MAXENGINE - n, &nlink));
  nmb_engine *g = NMB_NEW(r->own, nmb_engine, n + nlink + 1);
  hw->engine = g;
  for (int i = 0; i < n + nlink; i++) {
    entry e;
    NMB_TRY(open_entry(r, i < n ? "engines" : "links", i < n ? i : i - n, &e));
    if (nmb_hw_engine(hw, e.name) != NMB_NONE)
      return nmb_fail(r->run, NMB_BADINPUT, place(e.file, e.group),
                      "%s: the name is taken", e.label);
    NMB_TRY(i < n ? read_engine(r, hw, &e, &g[i]) : read_link(r, hw, &e, &g[i]));
    put(r, "  };\n");
    if (i == n - 1 || i == n + nlink - 1)
      put(r, "};\n");
    hw->nengine++;
  }
  return NMB_OK;
}

static nmb_status
check_overrides(reader *r)
{
  for (int i = 0; i < r->nover; i++) {
    const override *o = &r->over[i];
    int j = 0;
    if (o->used)
      continue;
    while (j < COUNT(sections) && strcmp(sections[j], o->section))
      j++;
    if (j == COUNT(sections))
      return nmb_fail(r->run, NMB_BADINPUT, place(o->file, o->value),
                      "set: there is no '%s'%s", o->path,
                      nmb__hint(r->run, o->section, sections, COUNT(sections)));
    const config_setting_t *g = section_of(r, o->section);
    const char *names[MAXENTRY];
    const int n = g ? config_setting_length(g) : 0;
    for (int k = 0; k < n; k++)
      names[k] = config_setting_name(config_setting_get_elem(g, (unsigned)k));
    return nmb_fail(r->run, NMB_BADINPUT, place(o->file, o->value),
                    "set: there is no '%s'%s", o->path,
                    nmb__hint(r->run, o->entry, names, n));
  }
  return NMB_OK;
}

static nmb_status
check_host(reader *r, nmb_hw *hw, const char *host)
{
  const char *file;
  const config_setting_t *s = outermost(r, "host", &file);
  const char *names[MAXENGINE];
  int n = 0;
  for (int i = 0; i < hw->nengine; i++)
    if (!nmb_engine_is_link(&hw->engine[i]))
      names[n++] = hw->engine[i].name;
  hw->host = nmb_hw_engine(hw, host);
  if (hw->host == NMB_NONE || nmb_engine_is_link(&hw->engine[hw->host]))
    return nmb_fail(r->run, NMB_BADINPUT, place(file, s),
                    "host: there is no engine '%s'%s", host,
                    nmb__hint(r->run, host, names, n));
  const nmb_engine *e = &hw->engine[hw->host];
  const uint64_t all = (UINT64_C(1) << NMB_NOP) - 1;
  if (e->ops != all || e->weights != NMB_BIT(NMB_NDTYPE) - 1 ||
      e->values != NMB_BIT(NMB_NDTYPE) - 1)
    return nmb_fail(r->run, NMB_BADINPUT, place(file, s),
                    "host: engine '%s' does not run every op in every format", host);
  return NMB_OK;
}

static nmb_status
read_machine(reader *r, nmb_hw *hw)
{
  const char *host;
  NMB_TRY(read_head(r, hw, &host));
  NMB_TRY(read_mems(r, hw));
  NMB_TRY(read_engines(r, hw));
  NMB_TRY(check_overrides(r));
  return check_host(r, hw, host);
}

static nmb_status
load(nmb_run *run, const char *name, const char *text, size_t len, nmb_hw **out)
{
  nmb_run *own = nmb__run_open(NULL);
  machine *m = NMB_NEW(own, machine, 1);
  reader *r = nmb__xrealloc(NULL, 1, sizeof *r);
  memset(r, 0, sizeof *r);
  r->run = run;
  r->own = own;
  m->own = own;
  nmb_status status =
      text ? read_layer(r, NMB_NOLOC, name, text, len) : read_named(r, NMB_NOLOC, name);
  if (status == NMB_OK) {
    const char *slash = strrchr(r->layer[0].path, '/');
    char *base = nmb_strdup(own, slash ? slash + 1 : r->layer[0].path);
    char *dot = strrchr(base, '.');
    if (dot && dot != base)
      *dot = '\0';
    m->hw.name = base;
    status = read_machine(r, &m->hw);
  }
  m->text = nmb_strdup(own, r->text ? r->text : "");
  for (int i = 0; i < r->nlayer; i++)
    config_destroy(&r->layer[i].cfg);
  free(r->text);
  free(r);
  if (status != NMB_OK)
    nmb__run_close(own);
  else
    *out = &m->hw;
  return status;
}

nmb_status
nmb__machine_load(nmb_run *run, const char *name_or_path, nmb_hw **out)
{
  return load(run, name_or_path, NULL, 0, out);
}

nmb_status
nmb__machine_parse(nmb_run *run, const char *file, const char *text, size_t len,
                   nmb_hw **out)
{
  return load(run, file, text, len, out);
}

void
nmb__machine_free(nmb_hw *hw)
{
  if (hw)
    nmb__run_close(((machine *)hw)->own);
}

const char *
nmb__machine_text(nmb_run *run, const nmb_hw *hw)
{
  (void)run;
  return ((const machine *)hw)->text;
}

/* ----------------------------------------------------------------- look-ups */
nmb_id
nmb_hw_mem(const nmb_hw *hw, const char *name)
{
  for (int i = 0; i < hw->nmem; i++)
    if (!strcmp(hw->mem[i].name, name))
      return i;
  return NMB_NONE;
}

nmb_id
nmb_hw_engine(const nmb_hw *hw, const char *name)
{
  for (int i = 0; i < hw->nengine; i++)
    if (!strcmp(hw->engine[i].name, name))
      return i;
  return NMB_NONE;
}

bool
nmb_engine_is_link(const nmb_engine *e)
{
  return e->from != NMB_NONE;
}

nmb_id
nmb_hw_link(const nmb_hw *hw, nmb_id from, nmb_id to)
{
  for (int i = 0; i < hw->nengine; i++) {
    const nmb_engine *e = &hw->engine[i];
    if (nmb_engine_is_link(e) &&
        ((e->from == from && e->to == to) || (e->from == to && e->to == from)))
      return i;
  }
  return NMB_NONE;
}

static const nmb_param *
param(const nmb_engine *e, const char *name)
{
  for (int i = 0; i < e->nparam; i++)
    if (!strcmp(e->param[i].name, name))
      return &e->param[i];
  nmb__panic("model %s asks for parameter '%s', which it does not declare", e->model,
             name);
  return NULL;
}

double
nmb_param_get(const nmb_engine *e, const char *name)
{
  return param(e, name)->value;
}

const char *
nmb_param_text(const nmb_engine *e, const char *name)
{
  return param(e, name)->text;
}

/* -------------------------------------------------------------------- costs */
double
nmb_cost_seconds(const nmb_cost *c)
{
  double s = 0;
  for (int i = 0; i < NMB_NCAUSE; i++)
    s += c->time[i];
  return s;
}

double
nmb_operand_bytes(const nmb_operand *o)
{
  return o->stride == 0 ? (double)o->row_bytes : (double)o->rows * (double)o->row_bytes;
}

/* What every model promises of its answer. */
static nmb_status
check_cost(nmb_run *run, const nmb_engine *e, const nmb_cost *c, int nmem)
{
  const double d = nmb_cost_seconds(c);
  bool good = d >= 0 && d < INFINITY;
  for (int i = 0; i < NMB_NCAUSE; i++)
    good = good && c->time[i] >= 0;
  for (int i = 0; i < NMB_NEPART; i++)
    good = good && !(c->energy[i] < 0) && !isinf(c->energy[i]);
  for (int i = 0; i < nmem; i++)
    good = good && c->mem_bytes[i] >= 0 && c->mem_s[i] >= 0 &&
           c->mem_s[i] <= d * (1 + 1e-12);
  if (good)
    return NMB_OK;
  return nmb_fail(run, NMB_BADPLUGIN, NMB_NOLOC,
                  "model %s: an instruction of engine '%s' costs %g s: a time is "
                  "negative, infinite, or "
                  "less than a memory is busy",
                  e->model, e->name, d);
}

nmb_status
nmb_insn_cost_at(nmb_run *run, const nmb_prog *p, const nmb_insn *insn,
                 nmb_fidelity fidelity, const nmb_watch *watch, nmb_cost *out)
{
  const nmb_engine *e = &p->hw->engine[insn->engine];
  memset(out, 0, sizeof *out);
  if (insn->kind == NMB_INSN_SYNC) /* waiting is the simulator's part */
    return NMB_OK;
  if (!e->impl->steps)
    fidelity = NMB_ANALYTIC;
  NMB_TRY(e->impl->cost(run, p, insn, fidelity, watch, out));
  return check_cost(run, e, out, p->hw->nmem);
}

nmb_status
nmb_insn_cost(nmb_run *run, const nmb_prog *p, const nmb_insn *insn, nmb_cost *out)
{
  return nmb_insn_cost_at(run, p, insn, NMB_ANALYTIC, NULL, out);
}
