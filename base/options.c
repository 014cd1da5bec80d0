/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Options: types, ranges, defaults. */
#include "base/options.h"

#include <math.h>
#include <string.h>

#include "base/near.h"
#include "base/units.h"

static int
count(const nmb_opt *table)
{
  int n = 0;
  while (table && table[n].name)
    n++;
  return n;
}

static bool
is_text(const nmb_opt *o)
{
  return !strcmp(o->type, "text") || !strcmp(o->type, "enum");
}

static bool
required(const nmb_opt *o)
{
  return !o->dflt || (!*o->dflt && strcmp(o->type, "text"));
}

/* Is `word` one of the words of "a|b|c"? */
static bool
in_choice(const char *range, const char *word)
{
  const size_t n = strlen(word);
  for (const char *p = range;;) {
    const size_t len = strcspn(p, "|");
    if (len == n && !strncmp(p, word, n))
      return true;
    if (!p[len])
      return false;
    p += len + 1;
  }
}

/* ------------------------------------------------------------------- values */
static nmb_status
parse_bool(nmb_run *run, nmb_loc loc, const char *owner, const nmb_opt *o,
           const char *text, nmb__optval *out)
{
  static const char *const yes[] = {"true", "yes", "on", "1"};
  static const char *const no[] = {"false", "no", "off", "0"};
  for (int i = 0; i < 4; i++)
    if (!strcmp(text, yes[i]) || !strcmp(text, no[i])) {
      out->integer = !strcmp(text, yes[i]);
      out->number = (double)out->integer;
      out->text = out->integer ? "true" : "false";
      return NMB_OK;
    }
  return nmb_fail(run, NMB_BADOPTION, loc,
                  "%s: option '%s': found '%s', expected true or false", owner, o->name,
                  text);
}

/* One end of "lo..hi"; an empty end is open. */
static nmb_status
range_end(nmb_run *run, nmb_loc loc, const nmb_opt *o, const char *s, size_t len,
          double open, double *out)
{
  *out = open;
  if (len == 0)
    return NMB_OK;
  char *word = nmb_strdup(run, s);
  word[len] = '\0';
  return nmb__units_parse(run, loc, word, o->type, out);
}

static nmb_status
range_of(nmb_run *run, nmb_loc loc, const nmb_opt *o, double *lo, double *hi)
{
  const char *dots = o->range ? strstr(o->range, "..") : NULL;
  *lo = -INFINITY;
  *hi = INFINITY;
  if (!o->range || !*o->range)
    return NMB_OK;
  if (!dots)
    return nmb_fail(run, NMB_BADPLUGIN, loc,
                    "option '%s': found range '%s', expected 'lo..hi'", o->name,
                    o->range);
  NMB_TRY(range_end(run, loc, o, o->range, (size_t)(dots - o->range), -INFINITY, lo));
  return range_end(run, loc, o, dots + 2, strlen(dots + 2), INFINITY, hi);
}

static nmb_status
parse_number(nmb_run *run, nmb_loc loc, const char *owner, const nmb_opt *o,
             const char *text, nmb__optval *out)
{
  double lo, hi;
  if (nmb__units_parse(run, loc, text, o->type, &out->number) != NMB_OK)
    return NMB_BADOPTION;
  NMB_TRY(range_of(run, loc, o, &lo, &hi));
  if (out->number < lo || out->number > hi)
    return nmb_fail(run, NMB_BADOPTION, loc, "%s: option '%s': found %s, expected %s",
                    owner, o->name, text, o->range);
  const double whole = rint(out->number);
  out->integer = fabs(whole) < 0x1p63 ? (int64_t)whole : 0;
  out->text = nmb__units_format(run, out->number, o->type);
  return NMB_OK;
}

nmb_status
nmb__option_value(nmb_run *run, nmb_loc loc, const char *owner, const nmb_opt *o,
                  const char *text, nmb__optval *out)
{
  *out = (nmb__optval){.name = o->name};
  if (!strcmp(o->type, "bool"))
    return parse_bool(run, loc, owner, o, text, out);
  if (!is_text(o))
    return parse_number(run, loc, owner, o, text, out);
  if (o->range && *o->range && !in_choice(o->range, text))
    return nmb_fail(run, NMB_BADOPTION, loc,
                    "%s: option '%s': found '%s', expected one of %s", owner, o->name,
                    text, o->range);
  if (strchr(text, '"'))
    return nmb_fail(run, NMB_BADOPTION, loc, "%s: option '%s': a value cannot hold '\"'",
                    owner, o->name);
  out->text = nmb_strdup(run, text);
  return NMB_OK;
}

/* -------------------------------------------------------------------- tables */
static nmb_status
unknown_option(nmb_run *run, nmb_loc loc, const char *owner, const nmb_opt *table,
               const char *name)
{
  const int n = count(table);
  const char **names = NMB_NEW(run, const char *, n + 1);
  for (int i = 0; i < n; i++)
    names[i] = table[i].name;
  if (n == 0)
    return nmb_fail(run, NMB_BADOPTION, loc, "%s has no options, found '%s'", owner,
                    name);
  return nmb_fail(run, NMB_BADOPTION, loc, "%s has no option '%s'%s", owner, name,
                  nmb__hint(run, name, names, n));
}

/* Cuts "key=value" off the head of *p; a quoted value loses its quotes. */
static nmb_status
next_pair(nmb_run *run, nmb_loc loc, const char *owner, const char **p, char **key,
          char **value)
{
  const char *s = *p;
  while (*s == ' ')
    s++;
  const size_t nkey = strcspn(s, "=,");
  *key = nmb_strdup(run, s);
  (*key)[nkey] = '\0';
  for (size_t i = nkey; i > 0 && (*key)[i - 1] == ' '; i--)
    (*key)[i - 1] = '\0';
  if (s[nkey] != '=')
    return nmb_fail(run, NMB_BADOPTION, loc, "%s: found '%s', expected option=value",
                    owner, *key);
  s += nkey + 1;
  while (*s == ' ')
    s++;
  const bool quoted = *s == '"';
  s += quoted;
  const size_t nval = strcspn(s, quoted ? "\"" : ",");
  *value = nmb_strdup(run, s);
  (*value)[nval] = '\0';
  for (size_t i = nval; !quoted && i > 0 && (*value)[i - 1] == ' '; i--)
    (*value)[i - 1] = '\0';
  s += nval;
  if (quoted && *s++ != '"')
    return nmb_fail(run, NMB_BADOPTION, loc, "%s: option '%s': the quote is not closed",
                    owner, *key);
  while (*s == ' ')
    s++;
  if (*s && *s != ',')
    return nmb_fail(run, NMB_BADOPTION, loc, "%s: found '%s', expected a comma", owner,
                    s);
  if (*s == ',' && !s[1])
    return nmb_fail(run, NMB_BADOPTION, loc,
                    "%s: found a comma, expected another option after it", owner);
  *p = *s ? s + 1 : s;
  return NMB_OK;
}

nmb_status
nmb__options_parse(nmb_run *run, nmb_loc loc, const char *owner, const nmb_opt *table,
                   const char *text, nmb__optval **out, int *n)
{
  *n = count(table);
  *out = NMB_NEW(run, nmb__optval, *n + 1);
  for (const char *p = text ? text : ""; *p;) {
    char *key = NULL, *value = NULL;
    int i = 0;
    NMB_TRY(next_pair(run, loc, owner, &p, &key, &value));
    while (i < *n && strcmp(table[i].name, key))
      i++;
    if (i == *n)
      return unknown_option(run, loc, owner, table, key);
    if ((*out)[i].name)
      return nmb_fail(run, NMB_BADOPTION, loc, "%s: option '%s' is given twice", owner,
                      key);
    NMB_TRY(nmb__option_value(run, loc, owner, &table[i], value, &(*out)[i]));
  }
  for (int i = 0; i < *n; i++) {
    if ((*out)[i].name)
      continue;
    if (required(&table[i]))
      return nmb_fail(run, NMB_BADOPTION, loc, "%s: option '%s' must be given", owner,
                      table[i].name);
    NMB_TRY(nmb__option_value(run, loc, owner, &table[i], table[i].dflt, &(*out)[i]));
  }
  return NMB_OK;
}

const char *
nmb__options_text(nmb_run *run, const nmb_opt *table, const nmb__optval *v, int n)
{
  if (n == 0)
    return "";
  size_t need = 3;
  for (int i = 0; i < n; i++)
    need += strlen(v[i].name) + strlen(v[i].text) + 4;
  char *s = nmb_alloc(run, need, 1), *p = s;
  for (int i = 0; i < n; i++) {
    const bool quote = is_text(&table[i]) && (!*v[i].text || strpbrk(v[i].text, ",{}= "));
    p += snprintf(p, need - (size_t)(p - s), "%c%s=%s%s%s", i ? ',' : '{', v[i].name,
                  quote ? "\"" : "", v[i].text, quote ? "\"" : "");
  }
  *p++ = '}';
  *p = '\0';
  return s;
}

nmb_status
nmb__options_check(nmb_run *run, nmb_loc loc, const char *owner, const nmb_opt *table)
{
  for (const nmb_opt *o = table; o && o->name; o++) {
    nmb__optval v;
    if (!o->type || (!nmb__units_type(o->type) && strcmp(o->type, "bool") && !is_text(o)))
      return nmb_fail(run, NMB_BADPLUGIN, loc,
                      "%s: option '%s': found type '%s', expected one of int real bool "
                      "text enum size "
                      "time freq bandwidth power energy energy/byte ratio",
                      owner, o->name, o->type ? o->type : "");
    if (o->unit && !nmb__units_known(o->unit))
      return nmb_fail(run, NMB_BADPLUGIN, loc, "%s: option '%s': unknown unit '%s'",
                      owner, o->name, o->unit);
    if (!strcmp(o->type, "enum") && (!o->range || !*o->range))
      return nmb_fail(run, NMB_BADPLUGIN, loc,
                      "%s: option '%s': an enum needs its values as range", owner,
                      o->name);
    for (const nmb_opt *other = table; other < o; other++)
      if (!strcmp(other->name, o->name))
        return nmb_fail(run, NMB_BADPLUGIN, loc, "%s: option '%s' is listed twice", owner,
                        o->name);
    if (!required(o) && nmb__option_value(run, loc, owner, o, o->dflt, &v) != NMB_OK)
      return NMB_BADPLUGIN;
  }
  return NMB_OK;
}
