/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Reads a kind of DRAM from a family's file.  docs/dram.md describes the format.
 *
 * Order of evaluation: organisation and timing columns; values of `set`; derived values
 * that no column gave; values of `set` again, so that they win. */
#include "hwsim/dram/kind.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/near.h"

const char *const nmb__kind_level_key[NMB_DRAM_NLEVEL] = {"channel", "rank", "sid",
                                                          "group", "bank"};

nmb_loc
nmb__kind_place(const nmb__kind *r, const config_setting_t *s)
{
  return (nmb_loc){r->path, s ? (int)config_setting_source_line(s) : 0, 0};
}

/* ------------------------------------------------------------ pieces of a file */
nmb_status
nmb__kind_text_at(nmb__kind *r, const config_setting_t *row, int i, const char *what,
                  const char **out)
{
  const config_setting_t *e = config_setting_get_elem(row, (unsigned)i);
  if (!e || config_setting_type(e) != CONFIG_TYPE_STRING)
    return nmb_fail(r->run, NMB_BADINPUT, nmb__kind_place(r, e ? e : row),
                    "item %d: expected %s, a text in quotes", i + 1, what);
  *out = config_setting_get_string(e);
  return NMB_OK;
}

nmb_status
nmb__kind_text_key(nmb__kind *r, const char *key, const char *dflt, const char **out)
{
  const config_setting_t *s = config_lookup(&r->cfg, key);
  *out = dflt;
  if (s && config_setting_type(s) == CONFIG_TYPE_STRING)
    *out = config_setting_get_string(s);
  else if (s || !dflt)
    return nmb_fail(r->run, NMB_BADINPUT, nmb__kind_place(r, s),
                    "%s: expected a text in quotes", key);
  return NMB_OK;
}

nmb_status
nmb__kind_list_key(nmb__kind *r, const char *key, const config_setting_t **out, int *n)
{
  *out = config_lookup(&r->cfg, key);
  *n = *out ? config_setting_length(*out) : 0;
  if (!*out || !config_setting_is_list(*out))
    return nmb_fail(r->run, NMB_BADINPUT, nmb__kind_place(r, *out),
                    "%s: expected a list ( .. )", key);
  return NMB_OK;
}

nmb_status
nmb__kind_row(nmb__kind *r, const config_setting_t *list, int i, int least,
              const config_setting_t **out)
{
  *out = config_setting_get_elem(list, (unsigned)i);
  if (!config_setting_is_list(*out) || config_setting_length(*out) < least)
    return nmb_fail(r->run, NMB_BADINPUT, nmb__kind_place(r, *out),
                    "%s: expected a row of at least %d items", config_setting_name(list),
                    least);
  return NMB_OK;
}

/* The next word of *p in `word`; false at the end. */
bool
nmb__kind_word(const char **p, char word[NMB__KIND_WORD])
{
  size_t n = 0;
  while (isspace((unsigned char)**p))
    (*p)++;
  for (; **p && !isspace((unsigned char)**p); (*p)++)
    if (n < NMB__KIND_WORD - 1)
      word[n++] = **p;
  word[n] = '\0';
  return n > 0;
}

nmb_status
nmb__kind_integer(nmb__kind *r, nmb_loc loc, const char *word, int64_t *out)
{
  char *end;
  const long long v = strtoll(word, &end, 10);
  if (*end || end == word || v > INT32_MAX || v < 0)
    return nmb_fail(r->run, NMB_BADINPUT, loc, "found '%s', expected a number up to 2^31",
                    word);
  *out = v;
  return NMB_OK;
}

/* -------------------------------------------------------------------- values */
static int
param_find(const nmb__kind *r, const char *name)
{
  for (int i = 0; i < r->nparam; i++)
    if (!strcmp(r->param[i].name, name))
      return i;
  return -1;
}

static nmb_status
param_set(nmb__kind *r, nmb_loc loc, const char *name, int64_t v)
{
  int i = param_find(r, name);
  if (i < 0) {
    if (r->nparam == NMB__KIND_PARAMS)
      return nmb_fail(r->run, NMB_BADINPUT, loc, "more than %d values", NMB__KIND_PARAMS);
    i = r->nparam++;
    r->param[i].name = nmb_strdup(r->own, name);
  }
  r->param[i].value = v;
  return NMB_OK;
}

static nmb_status
param_get(nmb__kind *r, const char *name, int64_t least, int64_t most, int64_t *out)
{
  const int i = param_find(r, name);
  if (i < 0)
    return nmb_fail(r->run, NMB_BADINPUT, (nmb_loc){r->path, 0, 0}, "%s is not given",
                    name);
  *out = r->param[i].value;
  if (*out < least || *out > most)
    return nmb_fail(r->run, NMB_BADINPUT, (nmb_loc){r->path, 0, 0},
                    "%s: found %lld, expected %lld..%lld", name, (long long)*out,
                    (long long)least, (long long)most);
  return NMB_OK;
}

/* "a b c" beside "1 2 -": values of the names; - gives none. */
static nmb_status
columns(nmb__kind *r, nmb_loc loc, const char *names, const char *values)
{
  char name[NMB__KIND_WORD], value[NMB__KIND_WORD];
  while (nmb__kind_word(&names, name)) {
    int64_t v;
    if (!nmb__kind_word(&values, value))
      return nmb_fail(r->run, NMB_BADINPUT, loc, "column '%s' has no value", name);
    if (!strcmp(value, "-"))
      continue;
    NMB_TRY(nmb__kind_integer(r, loc, value, &v));
    NMB_TRY(param_set(r, loc, name, v));
  }
  if (nmb__kind_word(&values, value))
    return nmb_fail(r->run, NMB_BADINPUT, loc, "value '%s' has no column", value);
  return NMB_OK;
}

/* Pairs of `set`: "nRCD=20,org=x".  What: apply values of names that are known. */
static nmb_status
set_values(nmb__kind *r, const char *set, bool last)
{
  char pair[NMB__KIND_WORD * 2];
  for (const char *p = set; p && *p;) {
    const size_t n = strcspn(p, ",");
    if (n >= sizeof pair)
      return nmb_fail(r->run, NMB_BADOPTION, NMB_NOLOC, "'%.32s..' is too long", p);
    memcpy(pair, p, n);
    pair[n] = '\0';
    p += n + (p[n] == ',');
    char *eq = strchr(pair, '=');
    if (!eq || eq == pair)
      return nmb_fail(r->run, NMB_BADOPTION, NMB_NOLOC, "found '%s', expected name=value",
                      pair);
    *eq = '\0';
    if (!strcmp(pair, "org"))
      continue;
    int64_t v;
    NMB_TRY(nmb__kind_integer(r, NMB_NOLOC, eq + 1, &v));
    const int i = param_find(r, pair);
    if (i >= 0) {
      r->param[i].value = v;
    } else if (last) {
      const char **names = NMB_NEW(r->run, const char *, r->nparam + 1);
      for (int k = 0; k < r->nparam; k++)
        names[k] = r->param[k].name;
      return nmb_fail(r->run, NMB_BADOPTION, NMB_NOLOC, "%s has no value '%s'%s",
                      r->d->info.name, pair, nmb__hint(r->run, pair, names, r->nparam));
    }
  }
  return NMB_OK;
}

static const char *
org_of_set(nmb__kind *r, const char *set)
{
  for (const char *p = set; p && *p; p += strcspn(p, ","), p += *p == ',')
    if (!strncmp(p, "org=", 4))
      return nmb_format(r->run, "%.*s", (int)strcspn(p + 4, ","), p + 4);
  return NULL;
}

/* Is `name` one of the words of `list`? */
static bool
among(const char *list, const char *name)
{
  char word[NMB__KIND_WORD];
  while (nmb__kind_word(&list, word))
    if (!strcmp(word, name))
      return true;
  return false;
}

/* The row of `list` whose first item holds `name`. */
static nmb_status
find_row(nmb__kind *r, const char *key, const char *name, int least,
         const config_setting_t **out)
{
  const config_setting_t *list, *row;
  const char *have;
  int n;
  NMB_TRY(nmb__kind_list_key(r, key, &list, &n));
  const char **names = NMB_NEW(r->run, const char *, n + 1);
  for (int i = 0; i < n; i++) {
    NMB_TRY(nmb__kind_row(r, list, i, least, &row));
    NMB_TRY(nmb__kind_text_at(r, row, 0, "a name", &have));
    names[i] = have;
    if (among(have, name)) {
      *out = row;
      return NMB_OK;
    }
  }
  return nmb_fail(r->run, NMB_BADOPTION, nmb__kind_place(r, list), "%s: no '%s'%s", key,
                  name, nmb__hint(r->run, name, names, n));
}

static nmb_status
derive(nmb__kind *r)
{
  const config_setting_t *list = config_lookup(&r->cfg, "derived"), *row;
  int n;
  if (!list)
    return NMB_OK;
  NMB_TRY(nmb__kind_list_key(r, "derived", &list, &n));
  for (int i = 0; i < n; i++) {
    const char *name, *expr;
    int64_t v;
    NMB_TRY(nmb__kind_row(r, list, i, 2, &row));
    NMB_TRY(nmb__kind_text_at(r, row, 0, "a name", &name));
    NMB_TRY(nmb__kind_text_at(r, row, 1, "an expression", &expr));
    if (param_find(r, name) >= 0)
      continue;
    NMB_TRY(
        nmb__dram_expr(r->run, nmb__kind_place(r, row), expr, r->param, r->nparam, &v));
    NMB_TRY(param_set(r, nmb__kind_place(r, row), name, v));
  }
  return NMB_OK;
}

static nmb_status
values(nmb__kind *r, const char *kind, const char *set)
{
  const config_setting_t *row, *org;
  const char *names, *cells, *org_name = org_of_set(r, set), *own;
  NMB_TRY(find_row(r, "kinds", kind, 3, &row));
  NMB_TRY(nmb__kind_text_at(r, row, 1, "an organisation", &own));
  NMB_TRY(find_row(r, "organisations", org_name ? org_name : own, 2, &org));
  r->d->info.org = nmb_strdup(r->own, org_name ? org_name : own);
  NMB_TRY(nmb__kind_text_key(r, "organisation", NULL, &names));
  NMB_TRY(nmb__kind_text_at(r, org, 1, "values", &cells));
  NMB_TRY(columns(r, nmb__kind_place(r, org), names, cells));
  NMB_TRY(nmb__kind_text_key(r, "timing", NULL, &names));
  NMB_TRY(nmb__kind_text_at(r, row, 2, "values", &cells));
  NMB_TRY(columns(r, nmb__kind_place(r, row), names, cells));
  const char *source;
  NMB_TRY(nmb__kind_text_key(r, "source", NULL, &source));
  if (config_setting_length(row) > 3) {
    const char *more;
    NMB_TRY(nmb__kind_text_at(r, row, 3, "a source", &more));
    source = more;
  }
  r->d->info.source = nmb_strdup(r->own, source);
  NMB_TRY(set_values(r, set, false));
  NMB_TRY(derive(r));
  return set_values(r, set, true);
}

/* -------------------------------------------------------------- organisation */
static nmb_status
organisation(nmb__kind *r)
{
  nmb_dram_info *o = &r->d->info;
  int64_t v, width, prefetch;
  const config_setting_t *levels = config_lookup(&r->cfg, "levels");
  if (!levels || !config_setting_is_group(levels))
    return nmb_fail(r->run, NMB_BADINPUT, nmb__kind_place(r, levels),
                    "levels: expected a group { bank = \"Bank\"; .. }");
  o->banks = 1;
  for (int l = 0; l < NMB_DRAM_NLEVEL; l++) {
    const char *name = NULL;
    o->count[l] = 1;
    if (l == NMB_DRAM_CHANNEL)
      name = "Channel";
    else if (config_setting_lookup_string(levels, nmb__kind_level_key[l], &name)) {
      NMB_TRY(param_get(r, nmb__kind_level_key[l], 1, NMB__DRAM_MAXBANKS, &v));
      o->count[l] = (int)v;
    }
    o->level_name[l] = name ? nmb_strdup(r->own, name) : NULL;
    o->banks *= o->count[l];
    if (o->banks > NMB__DRAM_MAXBANKS)
      return nmb_fail(r->run, NMB_BADINPUT, nmb__kind_place(r, levels),
                      "found more than %d banks in a channel", NMB__DRAM_MAXBANKS);
  }
  NMB_TRY(param_get(r, "prefetch", 1, 256, &prefetch));
  NMB_TRY(param_get(r, "channel_width", 1, 4096, &width));
  NMB_TRY(param_get(r, "row", 1, (int64_t)1 << 30, &o->rows));
  NMB_TRY(param_get(r, "column", prefetch, 1 << 20, &o->columns));
  o->columns /= prefetch;
  o->tx_bytes = (int)(prefetch * width / 8);
  if (o->tx_bytes < 1)
    return nmb_fail(r->run, NMB_BADINPUT, nmb__kind_place(r, levels),
                    "a column command moves %lld bits, expected a byte or more",
                    (long long)(prefetch * width));
  NMB_TRY(param_get(r, "ticks_per_ck", 1, 2, &v));
  o->ticks_per_ck = (int)v;
  NMB_TRY(param_get(r, "tCK_ps", 1, 1000000, &v));
  o->tick_ps = (double)v / o->ticks_per_ck;
  return NMB_OK;
}

/* --------------------------------------------------------------------- refresh */
static nmb_status
latency(nmb__kind *r, const char *key, int *out)
{
  const char *expr;
  int64_t v;
  NMB_TRY(nmb__kind_text_key(r, key, NULL, &expr));
  NMB_TRY(nmb__dram_expr(r->run, nmb__kind_place(r, config_lookup(&r->cfg, key)), expr,
                         r->param, r->nparam, &v));
  if (v < 0 || v > 100000)
    return nmb_fail(r->run, NMB_BADINPUT, (nmb_loc){r->path, 0, 0}, "%s: found %lld", key,
                    (long long)v);
  *out = (int)v * r->d->info.ticks_per_ck;
  return NMB_OK;
}

static nmb_status
refresh(nmb__kind *r)
{
  nmb_dram *d = r->d;
  d->refab = nmb_dram_command(d, "REFab");
  d->refpb = nmb_dram_command(d, "REFpb");
  const int all = param_find(r, "nREFI"), one = param_find(r, "nREFIpb");
  d->refi = d->refab < 0 || all < 0 ? 0 : r->param[all].value * d->info.ticks_per_ck;
  d->refipb = d->refpb < 0 || one < 0 ? 0 : r->param[one].value * d->info.ticks_per_ck;
  const int parts = param_find(r, "refpb_parts");
  const int64_t together = parts < 0 ? 1 : r->param[parts].value;
  if (together < 1 || d->info.banks % together != 0)
    return nmb_fail(r->run, NMB_BADINPUT, (nmb_loc){r->path, 0, 0},
                    "refpb_parts: found %lld, expected a divisor of the %d banks",
                    (long long)together, d->info.banks);
  d->refpb_step = (int)(d->info.banks / together);
  for (int i = 0; i < d->nrow; i++) {
    const nmb__dram_row *c = &d->row[i];
    if (c->from == d->refab && d->refi > 0 && c->ticks >= d->refi)
      return nmb_fail(
          r->run, NMB_BADINPUT, (nmb_loc){r->path, c->line, 0},
          "a refresh takes %lld ticks, expected fewer than the %lld between two",
          (long long)c->ticks, (long long)d->refi);
    if (c->from == d->refpb && c->level < NMB_DRAM_BANK && d->refipb > 0 &&
        c->ticks >= d->refipb)
      d->refipb = 0; /* bank after bank is not fast enough */
  }
  return NMB_OK;
}

static nmb_status
read_all(nmb__kind *r, const char *kind, const char *set)
{
  const char *family;
  NMB_TRY(nmb__kind_text_key(r, "family", NULL, &family));
  r->d->info.family = nmb_strdup(r->own, family);
  r->d->info.name = nmb_strdup(r->own, kind);
  NMB_TRY(values(r, kind, set));
  NMB_TRY(organisation(r));
  NMB_TRY(nmb__kind_commands(r));
  NMB_TRY(nmb__kind_constraints(r));
  NMB_TRY(latency(r, "read-latency", &r->d->info.read_latency));
  NMB_TRY(latency(r, "data", &r->d->info.burst));
  if (r->d->info.burst < 1 || r->d->info.burst > r->d->info.read_latency)
    return nmb_fail(r->run, NMB_BADINPUT, (nmb_loc){r->path, 0, 0},
                    "data: found %d ticks, expected 1 to the read latency",
                    r->d->info.burst);
  nmb__dram_param *keep = NMB_NEW(r->own, nmb__dram_param, r->nparam + 1);
  memcpy(keep, r->param, (size_t)r->nparam * sizeof *keep);
  r->d->param = keep;
  r->d->nparam = r->nparam;
  NMB_TRY(refresh(r));
  return nmb__dram_compile(r->run, r->own, r->d);
}

nmb_status
nmb__dram_load(nmb_run *run, nmb_run *own, const char *path, const char *text, size_t len,
               const char *kind, const char *set, const nmb_dram **out)
{
  nmb__kind *r = NMB_NEW(run, nmb__kind, 1);
  r->run = run;
  r->own = own;
  r->path = nmb_strdup(own, path);
  r->d = NMB_NEW(own, nmb_dram, 1);
  if (strlen(text) != len)
    return nmb_fail(run, NMB_BADINPUT, (nmb_loc){r->path, 0, 0}, "found a NUL byte");
  config_init(&r->cfg);
  nmb_status status;
  if (config_read_string(&r->cfg, text))
    status = read_all(r, kind, set);
  else
    status =
        nmb_fail(run, NMB_BADINPUT, (nmb_loc){r->path, config_error_line(&r->cfg), 0},
                 "%s", config_error_text(&r->cfg));
  config_destroy(&r->cfg);
  *out = r->d;
  return status;
}
