/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The `figures` and `labels` lists of an experiment file. */
#include <libconfig.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/near.h"
#include "harness/figure.h"

static const char *const kind_name[] = {
#define X(id, name, help) name,
    NMB__FIGKIND_MAP(X)
#undef X
};

typedef struct field {
  const char *key, *type; /* text, word (one of `words`), bool, real, int, column */
  size_t offset;
  const char *words;
} field;

#define AT(member) offsetof(nmb__figure, member)
static const field fields[] = {
    {"name", "text", AT(name), NULL},
    {"title", "text", AT(title), NULL},
    {"x", "text", AT(x), NULL},
    {"y", "text", AT(y), NULL},
    {"group", "text", AT(group), NULL},
    {"series", "text", AT(series), NULL},
    {"facet", "text", AT(facet), NULL},
    {"relative_to", "text", AT(relative_to), NULL},
    {"relative_by", "text", AT(relative_by), NULL},
    {"of", "text", AT(of), NULL},
    {"parts", "text", AT(parts), NULL},
    {"unit", "text", AT(unit), NULL},
    {"width", "word", AT(width), "column|page"},
    {"log", "word", AT(log), "|x|y|xy"},
    {"interval", "word", AT(interval), "bca|percentile"},
    {"geomean", "bool", AT(geomean), NULL},
    {"share", "bool", AT(share), NULL},
    {"z", "text", AT(z), NULL},
    {"label", "text", AT(label), NULL},
    {"error", "text", AT(error), NULL},
    {"columns", "text", AT(columns), NULL},
    {"ymin", "real", AT(ymin), NULL},
    {"ymax", "real", AT(ymax), NULL},
    {"height", "real", AT(height), NULL},
    {"confidence", "real", AT(confidence), NULL},
    {"resamples", "int", AT(resamples), NULL},
    {"kind", "kind", 0, NULL},
    {"where", "where", 0, NULL},
};
#define NFIELD ((int)(sizeof fields / sizeof *fields))

static nmb_loc
loc_of(const config_setting_t *s, const char *file)
{
  return (nmb_loc){file, (int)config_setting_source_line(s), 0};
}

/* Is `word` one of the words in "a|b|c"? */
static bool
one_of(const char *word, const char *words)
{
  const size_t len = strlen(word);
  for (const char *w = words;; w++) {
    const size_t n = strcspn(w, "|");
    if (n == len && strncmp(w, word, n) == 0)
      return true;
    w += n;
    if (*w == '\0')
      return false;
  }
}

static bool
is_number(const config_setting_t *s)
{
  const int t = config_setting_type(s);
  return t == CONFIG_TYPE_INT || t == CONFIG_TYPE_INT64 || t == CONFIG_TYPE_FLOAT;
}

static double
number(const config_setting_t *s)
{
  switch (config_setting_type(s)) {
  case CONFIG_TYPE_INT: return config_setting_get_int(s);
  case CONFIG_TYPE_INT64: return (double)config_setting_get_int64(s);
  default: return config_setting_get_float(s);
  }
}

/* A value of a filter as the text that a column shows. */
static nmb_status
value_text(nmb_run *run, const config_setting_t *s, const char *file, const char **out)
{
  if (config_setting_type(s) == CONFIG_TYPE_STRING)
    *out = nmb_strdup(run, config_setting_get_string(s));
  else if (is_number(s))
    *out = nmb_format(run, "%.10g", number(s));
  else
    return nmb_fail(run, NMB_BADINPUT, loc_of(s, file),
                    "found a setting of another type, expected a text or a number");
  return NMB_OK;
}

static nmb_status
read_filter(nmb_run *run, const config_setting_t *s, const char *file, nmb__pick *f)
{
  f->column = nmb_strdup(run, config_setting_name(s));
  const bool list = config_setting_is_array(s) || config_setting_is_list(s);
  f->n = list ? config_setting_length(s) : 1;
  f->value = NMB_NEW(run, const char *, f->n);
  if (!list)
    return value_text(run, s, file, &f->value[0]);
  for (int i = 0; i < f->n; i++)
    NMB_TRY(value_text(run, config_setting_get_elem(s, (unsigned)i), file, &f->value[i]));
  return NMB_OK;
}

static nmb_status
read_where(nmb_run *run, const config_setting_t *s, const char *file, nmb__figure *fig)
{
  if (!config_setting_is_group(s))
    return nmb_fail(run, NMB_BADINPUT, loc_of(s, file),
                    "where is a group: { column = value or [ values ]; ... }");
  fig->npick = config_setting_length(s);
  nmb__pick *f = NMB_NEW(run, nmb__pick, fig->npick + 1);
  for (int i = 0; i < fig->npick; i++)
    NMB_TRY(read_filter(run, config_setting_get_elem(s, (unsigned)i), file, &f[i]));
  fig->pick = f;
  return NMB_OK;
}

static nmb_status
read_kind(nmb_run *run, const config_setting_t *s, const char *file, nmb__figure *fig)
{
  const char *word = config_setting_get_string(s);
  for (int i = 0; i < NMB__NFIGKIND; i++)
    if (word != NULL && strcmp(word, kind_name[i]) == 0) {
      fig->kind = (nmb__figkind)i;
      return NMB_OK;
    }
  return nmb_fail(run, NMB_BADINPUT, loc_of(s, file), "unknown kind of figure '%s'%s",
                  word == NULL ? "" : word,
                  nmb__hint(run, word == NULL ? "" : word, kind_name, NMB__NFIGKIND));
}

static nmb_status
wrong_type(nmb_run *run, const config_setting_t *s, const char *file, const char *want)
{
  return nmb_fail(run, NMB_BADINPUT, loc_of(s, file), "%s: expected %s",
                  config_setting_name(s), want);
}

static nmb_status
read_field(nmb_run *run, const config_setting_t *s, const char *file, const field *f,
           nmb__figure *fig)
{
  char *at = (char *)fig + f->offset;
  if (strcmp(f->type, "kind") == 0)
    return read_kind(run, s, file, fig);
  if (strcmp(f->type, "where") == 0)
    return read_where(run, s, file, fig);
  if (strcmp(f->type, "bool") == 0) {
    if (config_setting_type(s) != CONFIG_TYPE_BOOL)
      return wrong_type(run, s, file, "true or false");
    *(bool *)(void *)at = config_setting_get_bool(s) != 0;
  } else if (strcmp(f->type, "real") == 0 || strcmp(f->type, "int") == 0) {
    if (!is_number(s) || !(number(s) > 0))
      return wrong_type(run, s, file, "a number above 0");
    if (f->type[0] == 'r')
      *(double *)(void *)at = number(s);
    else
      *(int *)(void *)at = (int)number(s);
  } else {
    const char *text = config_setting_get_string(s);
    if (text == NULL)
      return wrong_type(run, s, file, "a text in quotes");
    if (f->words != NULL && !one_of(text, f->words))
      return nmb_fail(run, NMB_BADINPUT, loc_of(s, file),
                      "%s: found '%s', expected one of %s", f->key, text, f->words);
    *(const char **)(void *)at = nmb_strdup(run, text);
  }
  return NMB_OK;
}

static const nmb__figure dflt = {.title = "",
                                 .group = "model",
                                 .series = "pipeline",
                                 .relative_by = "pipeline",
                                 .of = "all",
                                 .parts = "engine cause",
                                 .width = "column",
                                 .log = "",
                                 .interval = "bca",
                                 .geomean = true,
                                 .confidence = 0.95,
                                 .resamples = 10000};

static nmb_status
check_figure(nmb_run *run, nmb__figure *fig)
{
  static const char letters[] =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
  if (fig->name == NULL || *fig->name == '\0')
    return nmb_fail(run, NMB_BADINPUT, fig->loc, "a figure needs a name");
  if (fig->name[strspn(fig->name, letters)] != '\0')
    return nmb_fail(run, NMB_BADINPUT, fig->loc,
                    "figure '%s': a name holds letters, digits, - and _ only", fig->name);
  const bool ratio = fig->kind == NMB__FIG_BARS || fig->kind == NMB__FIG_LINES ||
                     fig->kind == NMB__FIG_WATERFALL;
  if (ratio && fig->relative_to == NULL)
    return nmb_fail(run, NMB_BADINPUT, fig->loc,
                    "figure '%s': kind %s needs relative_to, the %s of speed-up 1",
                    fig->name, kind_name[fig->kind], fig->relative_by);
  if (fig->y == NULL)
    fig->y = fig->kind == NMB__FIG_PARETO ? "energy" : "latency";
  if (fig->x == NULL)
    fig->x = fig->kind == NMB__FIG_PARETO ? "latency"
             : fig->kind == NMB__FIG_GAP  ? "bound"
                                          : "batch";
  if (fig->kind == NMB__FIG_LINES) { /* the x axis takes the place of the groups */
    fig->group = fig->x;
    fig->unit = fig->unit == NULL ? "model" : fig->unit;
  }
  if (!(fig->confidence < 1))
    return nmb_fail(run, NMB_BADINPUT, fig->loc,
                    "figure '%s': confidence %g, expected 0..1 as 0.95", fig->name,
                    fig->confidence);
  return NMB_OK;
}

static nmb_status
read_figure(nmb_run *run, const config_setting_t *s, const char *file, nmb__figure *fig)
{
  *fig = dflt;
  fig->loc = loc_of(s, file);
  if (!config_setting_is_group(s))
    return nmb_fail(run, NMB_BADINPUT, fig->loc,
                    "a figure is a group: { name = ..; .. }");
  const char *known[NFIELD];
  for (int i = 0; i < NFIELD; i++)
    known[i] = fields[i].key;
  if (config_setting_get_member(s, "kind") == NULL)
    return nmb_fail(run, NMB_BADINPUT, fig->loc, "a figure needs a kind");
  for (int i = 0; i < config_setting_length(s); i++) {
    const config_setting_t *e = config_setting_get_elem(s, (unsigned)i);
    const char *key = config_setting_name(e);
    int f = 0;
    while (f < NFIELD && strcmp(key, fields[f].key) != 0)
      f++;
    if (f == NFIELD)
      return nmb_fail(run, NMB_BADINPUT, loc_of(e, file),
                      "unknown key '%s' of a figure%s", key,
                      nmb__hint(run, key, known, NFIELD));
    NMB_TRY(read_field(run, e, file, &fields[f], fig));
  }
  return check_figure(run, fig);
}

static nmb_status
read_labels(nmb_run *run, const config_setting_t *s, const char *file, nmb__figures *out)
{
  const int n = s == NULL ? 0 : config_setting_length(s);
  const char **from = NMB_NEW(run, const char *, n + 1);
  const char **to = NMB_NEW(run, const char *, n + 1);
  for (int i = 0; i < n; i++) {
    const config_setting_t *e = config_setting_get_elem(s, (unsigned)i);
    const char *a = config_setting_get_string_elem(e, 0);
    const char *b = config_setting_get_string_elem(e, 1);
    if (a == NULL || b == NULL || config_setting_length(e) != 2)
      return nmb_fail(
          run, NMB_BADINPUT, loc_of(e, file),
          "labels is a list of pairs: ( [\"name in the file\", \"label\"], ... )");
    from[i] = nmb_strdup(run, a);
    to[i] = nmb_strdup(run, b);
  }
  out->nlabel = n;
  out->label_from = from;
  out->label_to = to;
  return NMB_OK;
}

static nmb_status
read_figures(nmb_run *run, const config_t *cfg, const char *file, nmb__figures *out)
{
  NMB_TRY(read_labels(run, config_lookup(cfg, "labels"), file, out));
  const config_setting_t *s = config_lookup(cfg, "figures");
  out->n = s == NULL ? 0 : config_setting_length(s);
  nmb__figure *fig = NMB_NEW(run, nmb__figure, out->n + 1);
  out->v = fig;
  for (int i = 0; i < out->n; i++) {
    NMB_TRY(read_figure(run, config_setting_get_elem(s, (unsigned)i), file, &fig[i]));
    for (int j = 0; j < i; j++)
      if (strcmp(fig[i].name, fig[j].name) == 0)
        return nmb_fail(run, NMB_BADINPUT, fig[i].loc, "two figures are called '%s'",
                        fig[i].name);
  }
  return NMB_OK;
}

nmb_status
nmb__figures_parse(nmb_run *run, const char *file, const char *text, nmb__figures *out)
{
  *out = (nmb__figures){0};
  config_t cfg;
  config_init(&cfg);
  nmb_status st;
  if (config_read_string(&cfg, text) == CONFIG_TRUE)
    st = read_figures(run, &cfg, file, out);
  else
    st = nmb_fail(run, NMB_BADINPUT, (nmb_loc){file, config_error_line(&cfg), 0}, "%s",
                  config_error_text(&cfg));
  config_destroy(&cfg);
  return st;
}
