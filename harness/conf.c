/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Checked reading of libconfig settings. */
#include "config.h"

#include "harness/conf.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/near.h"
#include "base/path.h"
#include "base/run.h"

nmb_loc
nmb__conf_loc(nmb_run *run, const config_setting_t *s)
{
  const char *file = s ? config_setting_source_file(s) : NULL;
  if (!file)
    return NMB_NOLOC;
  return (nmb_loc){nmb_strdup(run, file), (int)config_setting_source_line(s), 0};
}

const char *
nmb__conf_kind(const config_setting_t *s)
{
  switch (config_setting_type(s)) {
  case CONFIG_TYPE_GROUP: return "a group { }";
  case CONFIG_TYPE_ARRAY: return "an array [ ]";
  case CONFIG_TYPE_LIST: return "a list ( )";
  case CONFIG_TYPE_STRING: return "a text";
  case CONFIG_TYPE_BOOL: return "true or false";
  case CONFIG_TYPE_FLOAT: return "a number with a point";
  default: return "a whole number";
  }
}

static nmb_status
wrong_type(nmb_run *run, const config_setting_t *s, const char *key, const char *want)
{
  return nmb_fail(run, NMB_BADINPUT, nmb__conf_loc(run, s), "'%s' is %s, expected %s",
                  key, nmb__conf_kind(s), want);
}

nmb_status
nmb__conf_known(nmb_run *run, const config_setting_t *group, const char *what,
                const char *const *key)
{
  if (!config_setting_is_group(group))
    return nmb_fail(run, NMB_BADINPUT, nmb__conf_loc(run, group),
                    "%s is %s, expected a group { }", what, nmb__conf_kind(group));
  int n = 0;
  while (key[n])
    n++;
  for (int i = 0; i < config_setting_length(group); i++) {
    const config_setting_t *s = config_setting_get_elem(group, (unsigned)i);
    const char *name = config_setting_name(s);
    int k = 0;
    while (k < n && strcmp(key[k], name))
      k++;
    if (k == n)
      return nmb_fail(run, NMB_BADINPUT, nmb__conf_loc(run, s),
                      "unknown key '%s' in %s%s", name, what,
                      nmb__hint(run, name, key, n));
  }
  return NMB_OK;
}

nmb_status
nmb__conf_group(nmb_run *run, const config_setting_t *group, const char *key,
                config_setting_t **out)
{
  *out = config_setting_get_member(group, key);
  if (*out && !config_setting_is_group(*out))
    return wrong_type(run, *out, key, "a group { }");
  return NMB_OK;
}

nmb_status
nmb__conf_text(nmb_run *run, const config_setting_t *group, const char *key,
               const char *dflt, const char **out)
{
  const config_setting_t *s = config_setting_get_member(group, key);
  *out = dflt;
  if (!s && dflt)
    return NMB_OK;
  if (!s)
    return nmb_fail(run, NMB_BADINPUT, nmb__conf_loc(run, group), "no '%s' here", key);
  if (config_setting_type(s) != CONFIG_TYPE_STRING)
    return wrong_type(run, s, key, "a text");
  *out = nmb_strdup(run, config_setting_get_string(s));
  return NMB_OK;
}

int
nmb__conf_count(const config_setting_t *s)
{
  const bool many = config_setting_is_list(s) || config_setting_is_array(s);
  return many ? config_setting_length(s) : 1;
}

const config_setting_t *
nmb__conf_at(const config_setting_t *s, int i)
{
  const bool many = config_setting_is_list(s) || config_setting_is_array(s);
  return many ? config_setting_get_elem(s, (unsigned)i) : s;
}

static bool
is_whole(const config_setting_t *s)
{
  const int t = config_setting_type(s);
  return t == CONFIG_TYPE_INT || t == CONFIG_TYPE_INT64;
}

static int64_t
whole(const config_setting_t *s)
{
  return config_setting_type(s) == CONFIG_TYPE_INT64 ? config_setting_get_int64(s)
                                                     : config_setting_get_int(s);
}

/* A number as text, as short as it reads back; NULL if it is none. */
static const char *
number_text(nmb_run *run, const config_setting_t *s)
{
  if (is_whole(s))
    return nmb_format(run, "%lld", (long long)whole(s));
  if (config_setting_type(s) == CONFIG_TYPE_BOOL)
    return config_setting_get_bool(s) ? "true" : "false";
  if (config_setting_type(s) != CONFIG_TYPE_FLOAT)
    return NULL;
  const double v = config_setting_get_float(s);
  for (int digits = 1; digits < 17; digits++) {
    const char *t = nmb_format(run, "%.*g", digits, v);
    if (strtod(t, NULL) == v)
      return t;
  }
  return nmb_format(run, "%.17g", v);
}

/* A value or a list of values: how many, none where there is no such key. */
static nmb_status
list_of(nmb_run *run, const config_setting_t *group, const char *key,
        const config_setting_t **s, int *n)
{
  *s = config_setting_get_member(group, key);
  *n = *s ? nmb__conf_count(*s) : 0;
  if (*s && !*n)
    return nmb_fail(run, NMB_BADINPUT, nmb__conf_loc(run, *s), "'%s' is empty", key);
  return NMB_OK;
}

nmb_status
nmb__conf_texts(nmb_run *run, const config_setting_t *group, const char *key,
                bool numbers, const char ***out, int *n)
{
  const config_setting_t *s;
  *out = NULL;
  NMB_TRY(list_of(run, group, key, &s, n));
  if (*n)
    *out = NMB_NEW(run, const char *, *n);
  for (int i = 0; i < *n; i++) {
    const config_setting_t *e = nmb__conf_at(s, i);
    const char *t = config_setting_get_string(e);
    if (!t && numbers)
      t = number_text(run, e);
    if (!t)
      return wrong_type(run, e, key, numbers ? "texts or numbers" : "a text or texts");
    (*out)[i] = nmb_strdup(run, t);
  }
  return NMB_OK;
}

nmb_status
nmb__conf_wholes(nmb_run *run, const config_setting_t *group, const char *key, int64_t lo,
                 int64_t hi, int64_t **out, int *n)
{
  const config_setting_t *s;
  *out = NULL;
  NMB_TRY(list_of(run, group, key, &s, n));
  if (*n)
    *out = NMB_NEW(run, int64_t, *n);
  for (int i = 0; i < *n; i++) {
    const config_setting_t *e = nmb__conf_at(s, i);
    if (!is_whole(e))
      return wrong_type(run, e, key, "whole numbers");
    const int64_t v = whole(e);
    if (v < lo || v > hi)
      return nmb_fail(run, NMB_BADINPUT, nmb__conf_loc(run, e),
                      "'%s' is %lld, expected %lld..%lld", key, (long long)v,
                      (long long)lo, (long long)hi);
    (*out)[i] = v;
  }
  return NMB_OK;
}

nmb_status
nmb__conf_reals(nmb_run *run, const config_setting_t *group, const char *key, double lo,
                double hi, double **out, int *n)
{
  const config_setting_t *s;
  *out = NULL;
  NMB_TRY(list_of(run, group, key, &s, n));
  if (*n)
    *out = NMB_NEW(run, double, *n);
  for (int i = 0; i < *n; i++) {
    const config_setting_t *e = nmb__conf_at(s, i);
    if (!is_whole(e) && config_setting_type(e) != CONFIG_TYPE_FLOAT)
      return wrong_type(run, e, key, "numbers");
    const double v = is_whole(e) ? (double)whole(e) : config_setting_get_float(e);
    if (!(v >= lo && v <= hi))
      return nmb_fail(run, NMB_BADINPUT, nmb__conf_loc(run, e),
                      "'%s' is %g, expected %g..%g", key, v, lo, hi);
    (*out)[i] = v;
  }
  return NMB_OK;
}

/* -------------------------------------------------------------------- files */
static const char *
folder_of(nmb_run *run, const char *path)
{
  const char *slash = strrchr(path, '/');
  if (!slash)
    return ".";
  return nmb_format(run, "%.*s", slash == path ? 1 : (int)(slash - path), path);
}

nmb_status
nmb__conf_read(nmb_run *run, const char *path, config_t *cfg)
{
  config_init(cfg);
  config_set_auto_convert(cfg, 0);
  config_set_include_dir(cfg, folder_of(run, path));
  FILE *f = fopen(path, "r");
  if (!f)
    return nmb_fail(run, NMB_IO, NMB_NOLOC, "cannot read %s", path);
  fclose(f);
  if (config_read_file(cfg, path))
    return NMB_OK;
  const char *file = config_error_file(cfg);
  const nmb_loc loc = {nmb_strdup(run, file ? file : path), config_error_line(cfg), 0};
  return nmb_fail(run, NMB_BADINPUT, loc, "%s", config_error_text(cfg));
}

/* The file that an @include line names; NULL if the line is another. */
static const char *
included(nmb_run *run, const char *line, size_t len)
{
  static const char word[] = "@include";
  size_t i = 0;
  while (i < len && (line[i] == ' ' || line[i] == '\t'))
    i++;
  if (len - i < sizeof word || memcmp(line + i, word, sizeof word - 1))
    return NULL;
  const char *open = memchr(line + i, '"', len - i);
  const char *close =
      open ? memchr(open + 1, '"', len - (size_t)(open + 1 - line)) : NULL;
  return close ? nmb_format(run, "%.*s", (int)(close - open - 1), open + 1) : NULL;
}

static nmb_status
flatten(nmb_run *run, const char *folder, const char *path, int depth, FILE *out)
{
  size_t len = 0;
  const char *text = nmb__read_file(run, path, &len);
  if (!text)
    return NMB_IO;
  for (const char *p = text, *end = text + len; p < end;) {
    const char *nl = memchr(p, '\n', (size_t)(end - p));
    const size_t n = (size_t)((nl ? nl : end) - p);
    const char *name = depth < 10 ? included(run, p, n) : NULL;
    if (name) {
      const char *sub = *name == '/' ? name : nmb_format(run, "%s/%s", folder, name);
      NMB_TRY(flatten(run, folder, sub, depth + 1, out));
    } else {
      fwrite(p, 1, n, out);
      fputc('\n', out);
    }
    p += n + 1;
  }
  return NMB_OK;
}

nmb_status
nmb__conf_flatten(nmb_run *run, const char *path, const char **out)
{
  char *text = NULL;
  size_t len = 0;
  FILE *f = open_memstream(&text, &len);
  if (!f)
    nmb__panic("no memory for %s", path);
  const nmb_status st = flatten(run, folder_of(run, path), path, 0, f);
  fclose(f);
  *out = nmb_strdup(run, text);
  free(text);
  return st;
}
