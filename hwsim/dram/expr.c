/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Expressions of DRAM files, by recursive descent. */
#include "hwsim/dram/dram.h"

#include <ctype.h>
#include <string.h>

#include "base/near.h"

enum { MAXDEPTH = 32, MAXARGS = 32 };
#define LIMIT ((int64_t)1 << 40) /* of every value on the way: no overflow below */

typedef struct parser {
  nmb_run *run;
  nmb_loc loc;
  const char *text, *p;
  const nmb__dram_param *param;
  int n, depth;
} parser;

static nmb_status sum(parser *s, int64_t *out);

static void
blanks(parser *s)
{
  while (isspace((unsigned char)*s->p))
    s->p++;
}

static nmb_status
bad(parser *s, const char *expected)
{
  return nmb_fail(s->run, NMB_BADINPUT, s->loc, "'%s': found '%.16s', expected %s",
                  s->text, *s->p ? s->p : "end", expected);
}

static nmb_status
within(parser *s, int64_t v)
{
  if (v > LIMIT || v < -LIMIT)
    return nmb_fail(s->run, NMB_BADINPUT, s->loc, "'%s': a value exceeds 2^40", s->text);
  return NMB_OK;
}

static nmb_status
lookup(parser *s, const char *name, size_t len, int64_t *out)
{
  const char **names = NMB_NEW(s->run, const char *, s->n + 1);
  for (int i = 0; i < s->n; i++) {
    names[i] = s->param[i].name;
    if (strlen(names[i]) == len && !memcmp(names[i], name, len)) {
      *out = s->param[i].value;
      return within(s, *out);
    }
  }
  const char *word = nmb_format(s->run, "%.*s", (int)len, name);
  return nmb_fail(s->run, NMB_BADINPUT, s->loc, "'%s': unknown value '%s'%s", s->text,
                  word, nmb__hint(s->run, word, names, s->n));
}

static nmb_status
divide(parser *s, int64_t a, int64_t b, bool up, int64_t *out)
{
  if (b <= 0)
    return nmb_fail(s->run, NMB_BADINPUT, s->loc,
                    "'%s': found divisor %lld, expected > 0", s->text, (long long)b);
  const int64_t down = a / b - (a % b < 0);
  *out = down + (up && a - down * b > 0);
  return NMB_OK;
}

/* f(arg, ..), after the opening parenthesis. */
static nmb_status
call(parser *s, const char *name, size_t len, int64_t *out)
{
  int64_t a[MAXARGS];
  int n = 0;
  do {
    if (n == MAXARGS)
      return bad(s, "fewer arguments");
    NMB_TRY(sum(s, &a[n++]));
    blanks(s);
  } while (*s->p == ',' && s->p++);
  if (*s->p != ')')
    return bad(s, "',' or ')'");
  s->p++;
  const char *word = nmb_format(s->run, "%.*s", (int)len, name);
  const bool max = !strcmp(word, "max"), min = !strcmp(word, "min");
  if (max || min) {
    *out = a[0];
    for (int i = 1; i < n; i++)
      if (max ? a[i] > *out : a[i] < *out)
        *out = a[i];
    return NMB_OK;
  }
  if (!strcmp(word, "up") && n == 2)
    return divide(s, a[0], a[1], true, out);
  if (!strcmp(word, "step") && n % 2 == 0) {
    int i = 1;
    while (i + 1 < n && a[0] > a[i])
      i += 2;
    *out = i + 1 < n ? a[i + 1] : a[i];
    return NMB_OK;
  }
  return nmb_fail(s->run, NMB_BADINPUT, s->loc,
                  "'%s': no function '%s' of %d arguments; there are max, min, up(a, b), "
                  "step(x, limit, value, .., value)",
                  s->text, word, n);
}

static nmb_status
atom(parser *s, int64_t *out)
{
  blanks(s);
  if (*s->p == '(') {
    s->p++;
    NMB_TRY(sum(s, out));
    blanks(s);
    if (*s->p != ')')
      return bad(s, "')'");
    s->p++;
    return NMB_OK;
  }
  if (isdigit((unsigned char)*s->p)) {
    for (*out = 0; isdigit((unsigned char)*s->p); s->p++) {
      *out = *out * 10 + (*s->p - '0');
      NMB_TRY(within(s, *out));
    }
    return NMB_OK;
  }
  const char *name = s->p;
  while (isalnum((unsigned char)*s->p) || *s->p == '_')
    s->p++;
  const size_t len = (size_t)(s->p - name);
  if (len == 0)
    return bad(s, "a number, a name or '('");
  blanks(s);
  if (*s->p == '(') {
    s->p++;
    return call(s, name, len, out);
  }
  return lookup(s, name, len, out);
}

static nmb_status
product(parser *s, int64_t *out)
{
  NMB_TRY(atom(s, out));
  for (blanks(s); *s->p == '*' || *s->p == '/'; blanks(s)) {
    const char op = *s->p++;
    int64_t b;
    NMB_TRY(atom(s, &b));
    if (op == '/') {
      NMB_TRY(divide(s, *out, b, false, out));
      continue;
    }
    if (*out != 0 &&
        (b > LIMIT / (*out > 0 ? *out : -*out) || b < -LIMIT / (*out > 0 ? *out : -*out)))
      return within(s, LIMIT + 1);
    *out *= b;
  }
  return NMB_OK;
}

static nmb_status
sum(parser *s, int64_t *out)
{
  if (++s->depth > MAXDEPTH)
    return bad(s, "less nesting");
  NMB_TRY(product(s, out));
  for (blanks(s); *s->p == '+' || *s->p == '-'; blanks(s)) {
    const char op = *s->p++;
    int64_t b;
    NMB_TRY(product(s, &b));
    *out += op == '+' ? b : -b;
    NMB_TRY(within(s, *out));
  }
  s->depth--;
  return NMB_OK;
}

nmb_status
nmb__dram_expr(nmb_run *run, nmb_loc loc, const char *text, const nmb__dram_param *param,
               int n, int64_t *out)
{
  parser s = {run, loc, text, text, param, n, 0};
  NMB_TRY(sum(&s, out));
  blanks(&s);
  return *s.p ? bad(&s, "the end") : NMB_OK;
}
