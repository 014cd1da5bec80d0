/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Reading and judging the ledger of published numbers. */
#include "config.h" /* first: names outside of C11 */

#include "harness/ledger.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/near.h"
#include "base/path.h"
#include "base/run.h"
#include "base/units.h"
#include "harness/stats.h"

const char *
nmb__verdict_name(nmb__verdict v)
{
  static const char *const name[] = {
#define X(id, text, help) text,
      NMB__VERDICT_MAP(X)
#undef X
  };
  return name[v];
}

/* -------------------------------------------------------------------- reading */
#define COLUMNS(X)                                                                       \
  X(TARGET, "target")                                                                    \
  X(SOURCE, "source")                                                                    \
  X(COMMAND, "command")                                                                  \
  X(RESULT, "result")                                                                    \
  X(PUBLISHED, "published")                                                              \
  X(UNIT, "unit")                                                                        \
  X(TOLERANCE, "tolerance")                                                              \
  X(FLAGS, "flags")                                                                      \
  X(NOTE, "note")
enum {
#define X(id, name) C_##id,
  COLUMNS(X)
#undef X
      NCOLUMN
};
static const char *const column_names[] = {
#define X(id, name) name,
    COLUMNS(X)
#undef X
};

/* The fields of one line, in place; quotes as in RFC 4180, but no line breaks in them.
 * Returns how many, at most `max`; -1 if a quote is not closed. */
static int
split_line(char *line, char **field, int max)
{
  int n = 0;
  char *in = line;
  for (;;) {
    char *out = in;
    const bool quoted = *in == '"';
    if (n < max)
      field[n] = out;
    n++;
    in += quoted;
    for (; *in && (quoted || *in != ','); in++) {
      if (quoted && *in == '"') {
        if (in[1] != '"')
          break;
        in++;
      }
      *out++ = *in;
    }
    if (quoted && *in++ != '"')
      return -1;
    const char end = *in;
    *out = '\0';
    if (end != ',')
      return end ? -1 : n;
    in++;
  }
}

static nmb_status
read_tolerance(nmb_run *run, nmb__target *t)
{
  static const struct {
    const char *name;
    nmb__tolerance kind;
  } words[] = {{"exact", NMB__TOL_EXACT},
               {"at-least", NMB__TOL_AT_LEAST},
               {"at-most", NMB__TOL_AT_MOST},
               {"order", NMB__TOL_ORDER}};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (!strcmp(t->tolerance, words[i].name)) {
      t->kind = words[i].kind;
      return NMB_OK;
    }
  char *end;
  t->kind = NMB__TOL_WITHIN;
  t->limit = strtod(t->tolerance, &end) / 100;
  if (end == t->tolerance || strcmp(end, "%") || !(t->limit >= 0 && t->limit < 100))
    return nmb_fail(run, NMB_BADINPUT, t->loc,
                    "column tolerance: found '%s', expected a percentage, exact, "
                    "at-least, at-most or order",
                    t->tolerance);
  return NMB_OK;
}

static nmb_status
read_flags(nmb_run *run, nmb__target *t, char *flags)
{
  static const char *const names[] = {"quick", "calibrated", "fit", "doubtful"};
  bool *const set[] = {&t->quick, &t->calibrated, &t->fit, &t->doubtful};
  for (char *rest = flags, *word; (word = strtok_r(rest, " ", &rest));) {
    int i = 0;
    while (i < 4 && strcmp(word, names[i]))
      i++;
    if (i == 4)
      return nmb_fail(run, NMB_BADINPUT, t->loc, "column flags: unknown '%s'%s", word,
                      nmb__hint(run, word, names, 4));
    *set[i] = true;
  }
  t->calibrated |= t->fit;
  return NMB_OK;
}

static nmb_status
read_row(nmb_run *run, char **f, nmb__target *t)
{
  char *end;
  t->target = f[C_TARGET];
  t->source = f[C_SOURCE];
  t->command = f[C_COMMAND];
  t->result = f[C_RESULT];
  t->unit = f[C_UNIT];
  t->tolerance = f[C_TOLERANCE];
  t->note = f[C_NOTE];
  t->scale = nmb__units_scale(t->unit);
  t->published = strtod(f[C_PUBLISHED], &end);
  if (end == f[C_PUBLISHED] || *end || !isfinite(t->published))
    return nmb_fail(run, NMB_BADINPUT, t->loc,
                    "column published: found '%s', expected a number", f[C_PUBLISHED]);
  for (int i = 0; i < NCOLUMN; i++)
    if (!*f[i] && i != C_COMMAND && i != C_RESULT && i != C_FLAGS && i != C_NOTE)
      return nmb_fail(run, NMB_BADINPUT, t->loc, "column %s is empty", column_names[i]);
  if (!*t->command && !*t->note)
    return nmb_fail(run, NMB_BADINPUT, t->loc,
                    "a target without a command needs a note that says why");
  if (*t->command && !*t->result)
    return nmb_fail(run, NMB_BADINPUT, t->loc, "column result is empty");
  NMB_TRY(read_tolerance(run, t));
  NMB_TRY(read_flags(run, t, f[C_FLAGS]));
  if (t->doubtful && !*t->note)
    return nmb_fail(run, NMB_BADINPUT, t->loc,
                    "a doubtful target needs a note that says why");
  return NMB_OK;
}

static nmb_status
check_head(nmb_run *run, nmb_loc loc, char **f, int n)
{
  for (int i = 0; i < NCOLUMN; i++)
    if (i >= n || strcmp(f[i], column_names[i]))
      return nmb_fail(run, NMB_BADINPUT, loc, "column %d: found '%s', expected '%s'",
                      i + 1, i < n ? f[i] : "", column_names[i]);
  return NMB_OK;
}

static const char *
stem_of(nmb_run *run, const char *path)
{
  const char *slash = strrchr(path, '/');
  const char *name = slash ? slash + 1 : path;
  return nmb_format(run, "%.*s", (int)strcspn(name, "."), name);
}

/* One line of the file, which is not empty and no comment. */
static nmb_status
read_line(nmb_run *run, nmb_loc loc, const char *stem, char *line, bool *head,
          nmb__target **all, int *n)
{
  char *f[NCOLUMN];
  const int got = split_line(line, f, NCOLUMN);
  if (!*head) {
    *head = true;
    return check_head(run, loc, f, got);
  }
  if (got != NCOLUMN)
    return nmb_fail(run, NMB_BADINPUT, loc,
                    got < 0 ? "a quote is not closed, or something follows it"
                            : "found %d columns, expected %d",
                    got, NCOLUMN);
  if (*n % 64 == 0) { /* grows in the run's arena, where there is no realloc */
    nmb__target *more = NMB_NEW(run, nmb__target, *n + 64);
    if (*n)
      memcpy(more, *all, (size_t)*n * sizeof *more);
    *all = more;
  }
  nmb__target *t = &(*all)[*n];
  *t = (nmb__target){.file = stem, .loc = loc};
  NMB_TRY(read_row(run, f, t));
  ++*n;
  return NMB_OK;
}

nmb_status
nmb__ledger_read(nmb_run *run, const char *path, nmb__target **all, int *n)
{
  size_t len;
  char *text = nmb__read_file(run, path, &len), *next;
  const char *stem = stem_of(run, path);
  bool head = false;
  if (!text)
    return NMB_IO;
  nmb_loc loc = {nmb_strdup(run, path), 0, 0};
  for (char *line = text; line < text + len; line = next) {
    const size_t size = strcspn(line, "\n");
    next = line + size + 1;
    loc.line++;
    line[size - (size > 0 && line[size - 1] == '\r')] = '\0';
    line[size] = '\0';
    if (*line && *line != '#')
      NMB_TRY(read_line(run, loc, stem, line, &head, all, n));
  }
  return NMB_OK;
}

/* -------------------------------------------------------------------- judging */
static const json_t *
member(const json_t *j, const char *key)
{
  size_t i;
  json_t *row;
  if (!json_is_array(j))
    return json_object_get(j, key);
  json_array_foreach((json_t *)(uintptr_t)j, i, row)
  {
    const char *name = json_string_value(json_object_get(row, "name"));
    if (name && !strcmp(name, key))
      return row;
  }
  return NULL;
}

bool
nmb__ledger_pick(const json_t *j, const char *result, double *out)
{
  char key[128], *end;
  double factor = strtod(result, &end);
  const char op = end != result ? *end : '\0';
  if (op == '/' || op == '*')
    result = end + 1;
  while (j && *result) {
    const size_t n = strcspn(result, ".");
    snprintf(key, sizeof key, "%.*s", (int)n, result);
    j = member(j, key);
    result += n + (result[n] == '.');
  }
  if (json_is_object(j)) /* a row of a list of metrics */
    j = json_object_get(j, "value");
  if (!json_is_number(j))
    return false;
  const double v = json_number_value(j);
  *out = op == '/' ? factor / v : op == '*' ? factor * v : v;
  return isfinite(*out);
}

nmb__outcome
nmb__ledger_judge(const nmb__target *t, double value)
{
  nmb__outcome o = {.ours = value / t->scale};
  const double ratio = o.ours / t->published;
  o.error = !strcmp(t->unit, "x") && ratio > 0 ? log(ratio) : ratio - 1;
  bool ok = false;
  switch (t->kind) {
  case NMB__TOL_WITHIN: ok = fabs(o.error) <= t->limit + 1e-12; break;
  case NMB__TOL_EXACT: ok = fabs(o.error) <= 1e-9; break;
  case NMB__TOL_AT_LEAST: ok = o.ours >= t->published; break;
  case NMB__TOL_AT_MOST: ok = o.ours <= t->published; break;
  case NMB__TOL_ORDER: ok = true; break;
  }
  o.verdict = t->fit ? NMB__VERDICT_FIT : ok ? NMB__VERDICT_PASS : NMB__VERDICT_FAIL;
  if (o.verdict == NMB__VERDICT_FAIL && t->doubtful)
    o.verdict = NMB__VERDICT_DOUBT;
  return o;
}

/* ----------------------------------------------------------------------- sums */
/* Does the row's error count?  Bounds have none. */
static bool
counts(const nmb__target *t, const nmb__outcome *o)
{
  return isfinite(o->error) && !t->fit && t->kind != NMB__TOL_AT_LEAST &&
         t->kind != NMB__TOL_AT_MOST;
}

static bool
belongs(const nmb__ledger_sum *s, const nmb__target *t)
{
  return !strcmp(s->source, t->source) && s->calibrated == t->calibrated;
}

static int
sign(double x)
{
  return (x > 0) - (x < 0);
}

/* Kendall's tau-b: pairs that are tied in one of both count half by half. */
static double
kendall(const nmb__ledger_sum *s, const nmb__target *t, const nmb__outcome *o, int n)
{
  double agree = 0, ours = 0, theirs = 0;
  for (int i = 0; i < n; i++)
    for (int j = i + 1; j < n; j++) {
      if (!belongs(s, &t[i]) || !belongs(s, &t[j]) || !counts(&t[i], &o[i]) ||
          !counts(&t[j], &o[j]) || strcmp(t[i].unit, t[j].unit))
        continue;
      const int a = sign(o[i].ours - o[j].ours),
                b = sign(t[i].published - t[j].published);
      agree += a * b;
      ours += a != 0;
      theirs += b != 0;
    }
  return ours > 0 && theirs > 0 ? agree / sqrt(ours * theirs) : NAN;
}

static void
add_errors(nmb_run *run, nmb__ledger_sum *s, const nmb__target *t, const nmb__outcome *o,
           int n)
{
  double *e = NMB_NEW(run, double, n + 1), sum = 0;
  for (int i = 0; i < n; i++) {
    if (!belongs(s, &t[i]))
      continue;
    s->rows++;
    s->absent += o[i].verdict == NMB__VERDICT_ABSENT;
    if (!counts(&t[i], &o[i]))
      continue;
    e[s->counted] = fabs(o[i].error);
    sum += e[s->counted++];
    s->within += o[i].verdict == NMB__VERDICT_PASS;
    s->worst = fmax(s->worst, fabs(o[i].error));
  }
  s->mean = s->counted ? sum / s->counted : NAN;
  s->worst = s->counted ? s->worst : NAN;
  s->median = nmb__median(run, e, s->counted);
  s->tau = kendall(s, t, o, n);
}

int
nmb__ledger_sums(nmb_run *run, const nmb__target *t, const nmb__outcome *o, int n,
                 nmb__ledger_sum **out)
{
  int sums = 0;
  *out = NMB_NEW(run, nmb__ledger_sum, n + 1);
  for (int i = 0; i < n; i++) {
    int k = 0;
    while (k < sums && !belongs(&(*out)[k], &t[i]))
      k++;
    if (k == sums)
      (*out)[sums++] =
          (nmb__ledger_sum){.source = t[i].source, .calibrated = t[i].calibrated};
  }
  for (int k = 0; k < sums; k++)
    add_errors(run, &(*out)[k], t, o, n);
  return sums;
}
