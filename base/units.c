/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Reading and writing values with units. */
#include "base/units.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/near.h"

typedef struct unit {
  const char *type, *name;
  int ten;
  double times;
} unit;

static const unit units[] = {
#define X(type, name, ten, times) {type, name, ten, times},
#include "base/units.def"
#undef X
};
static const char *const labels[] = {
#define X(name) name,
#include "base/labels.def"
#undef X
};
enum { NUNIT = sizeof units / sizeof *units, NLABEL = sizeof labels / sizeof *labels };

bool
nmb__units_type(const char *type)
{
  for (int i = 0; i < NUNIT; i++)
    if (!strcmp(units[i].type, type))
      return true;
  return false;
}

double
nmb__units_scale(const char *name)
{
  for (int i = 0; i < NUNIT; i++)
    if (*name && !strcmp(units[i].name, name))
      return units[i].times * pow(10, units[i].ten);
  return 1;
}

static bool
known(const char *name, size_t len)
{
  for (int i = 0; i < NUNIT; i++)
    if (strlen(units[i].name) == len && !strncmp(units[i].name, name, len))
      return true;
  for (int i = 0; i < NLABEL; i++)
    if (strlen(labels[i]) == len && !strncmp(labels[i], name, len))
      return true;
  return false;
}

bool
nmb__units_known(const char *name)
{
  const size_t over = strcspn(name, "/");
  if (known(name, strlen(name)))
    return true;
  return over && name[over] && known(name, over) && name[over + 1] &&
         known(name + over + 1, strlen(name + over + 1));
}

const char *
nmb__units_base(const char *type)
{
  for (int i = 0; i < NUNIT; i++)
    if (!strcmp(units[i].type, type))
      return units[i].name;
  return "";
}

static bool
may_be_unknown(const char *type)
{
  return !strcmp(type, "power") || !strncmp(type, "energy", 6);
}

/* The end of a decimal number: sign, digits, point, exponent.  An exponent is
 * one only if digits follow ("1e" is not, "5eV" is not). */
static const char *
number_end(const char *s)
{
  if (*s == '+' || *s == '-')
    s++;
  const char *digits = s;
  while (isdigit((unsigned char)*s))
    s++;
  if (*s == '.')
    do
      s++;
    while (isdigit((unsigned char)*s));
  if (s == digits || (s == digits + 1 && *digits == '.'))
    return NULL;
  if (*s == 'e' || *s == 'E') {
    const char *e = s + 1;
    if (*e == '+' || *e == '-')
      e++;
    if (isdigit((unsigned char)*e)) {
      while (isdigit((unsigned char)*e))
        e++;
      s = e;
    }
  }
  return s;
}

/* mantissa text times 10^ten, rounded once */
static double
scaled(const char *number, size_t len, int ten)
{
  char buf[96];
  size_t cut = 0;
  long exponent = 0;
  while (cut < len && number[cut] != 'e' && number[cut] != 'E')
    cut++;
  if (cut < len)
    exponent = strtol(number + cut + 1, NULL, 10);
  if (exponent > 9999 || exponent < -9999)
    exponent = exponent > 0 ? 9999 : -9999;
  snprintf(buf, sizeof buf, "%.*se%ld", (int)(cut < 64 ? cut : 64), number,
           exponent + ten);
  return strtod(buf, NULL);
}

static const unit *
unit_find(const char *type, const char *name)
{
  for (int i = 0; i < NUNIT; i++)
    if (!strcmp(units[i].type, type) && !strcmp(units[i].name, name))
      return &units[i];
  return NULL;
}

static const char *
unit_list(nmb_run *run, const char *type)
{
  const char *list = "";
  for (int i = 0; i < NUNIT; i++)
    if (!strcmp(units[i].type, type) && *units[i].name)
      list = nmb_format(run, "%s%s%s", list, *list ? " " : "", units[i].name);
  return list;
}

nmb_status
nmb__units_parse(nmb_run *run, nmb_loc loc, const char *text, const char *type,
                 double *out)
{
  if (!strcmp(text, "unknown") && may_be_unknown(type)) {
    *out = NAN;
    return NMB_OK;
  }
  const char *end = number_end(text);
  if (!end || end - text > 64)
    return nmb_fail(run, NMB_BADINPUT, loc, "found '%s', expected %s%s%s", text,
                    strcmp(type, "int") ? "a number" : "a whole number",
                    *nmb__units_base(type) ? " with a unit: " : "",
                    *nmb__units_base(type) ? unit_list(run, type) : "");
  const char *name = end;
  while (*name == ' ')
    name++;
  const unit *u = unit_find(type, name);
  const size_t len = (size_t)(end - text);
  if (!u && !*name && scaled(text, len, 0) == 0)
    u = unit_find(type, nmb__units_base(type)); /* nothing is nothing in any unit */
  if (!u) {
    const char *known = unit_list(run, type);
    if (!*name)
      return nmb_fail(run, NMB_BADINPUT, loc,
                      "found '%s' without a unit, expected one of: %s", text, known);
    if (!*known)
      return nmb_fail(run, NMB_BADINPUT, loc,
                      "found '%s', expected a number without a unit", text);
    return nmb_fail(run, NMB_BADINPUT, loc,
                    "found unit '%s' in '%s', expected a %s in one of: %s", name, text,
                    type, known);
  }
  const double value = scaled(text, len, u->ten) * u->times;
  if (!isfinite(value))
    return nmb_fail(run, NMB_BADINPUT, loc, "'%s' is too large", text);
  if (!strcmp(type, "int") && (value != floor(value) || fabs(value) > 0x1p53))
    return nmb_fail(run, NMB_BADINPUT, loc,
                    "found '%s', expected a whole number below 2^53", text);
  if (!strcmp(type, "size") && (value != floor(value) || value < 0))
    return nmb_fail(run, NMB_BADINPUT, loc,
                    "found '%s', expected a whole number of bytes", text);
  *out = value;
  return NMB_OK;
}

/* The shortest of %.15g, %.16g, %.17g that gives the value back in this unit. */
static bool
try_unit(const unit *u, double value, char *buf, size_t size)
{
  for (int digits = 15; digits <= 17; digits++) {
    const double in_unit = value / u->times / pow(10, u->ten);
    const int n = snprintf(buf, size, "%.*g", digits, in_unit);
    if (n > 0 && scaled(buf, (size_t)n, u->ten) * u->times == value) {
      snprintf(buf + n, size - (size_t)n, "%s", u->name);
      return true;
    }
  }
  return false;
}

const char *
nmb__units_format(nmb_run *run, double value, const char *type)
{
  if (isnan(value))
    return "unknown";
  if (!strcmp(type, "int"))
    return nmb_format(run, "%.0f", value);
  char best[64] = "", buf[64];
  for (int i = 0; i < NUNIT; i++)
    if (!strcmp(units[i].type, type) && try_unit(&units[i], value, buf, sizeof buf) &&
        (!*best || strlen(buf) < strlen(best)))
      strcpy(best, buf);
  if (!*best) /* a value that no decimal text in the base unit gives: cannot be */
    return nmb_format(run, "%.17g%s", value, nmb__units_base(type));
  return nmb_strdup(run, best);
}
