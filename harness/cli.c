/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Command lines against the table of a command. */
#include <stdlib.h>
#include <string.h>

#include "base/near.h"
#include "base/path.h"
#include "base/units.h"
#include "harness/cmd.h"

/* ------------------------------------------------------------------- messages */
/* Is --json an option of the command, and given before what is wrong? */
static bool
json_asked(const nmb__cli *cli)
{
  for (int i = 0; i < cli->nset; i++)
    if (!strcmp(cli->set[i].flag->name, "json"))
      return true;
  return false;
}

static void
json_error(const nmb__cli *cli, const char *status, const char *text)
{
  json_t *shown = json_string(text); /* NULL: names of files need not be UTF-8 */
  if (json_asked(cli))
    nmb__cli_json(json_pack("{s:s, s:o}", "status", status, "error", shown ? shown : json_null()));
  else
    json_decref(shown);
}

int
nmb__cli_usage(const nmb__cli *cli, const char *fmt, ...)
{
  va_list ap;
  va_start(ap, fmt);
  char text[1024];
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  fprintf(stderr, "nmbench %s: error: %s (see 'nmbench %s --help')\n", cli->cmd->name,
          text, cli->cmd->name);
  json_error(cli, nmb_status_name(NMB_BADOPTION), text);
  return NMB__EXIT_USAGE;
}

int
nmb__cli_failed(nmb__cli *cli, nmb_status status)
{
  json_error(cli, nmb_status_name(status), nmb_error_text(cli->run));
  return nmb__exit_code(status);
}

int
nmb__exit_code(nmb_status status)
{
  switch (status) {
  case NMB_OK: return NMB__EXIT_OK;
  case NMB_UNSUPPORTED:
  case NMB_INFEASIBLE:
  case NMB_NOSOLUTION:
  case NMB_TIMEOUT: return NMB__EXIT_CHECK;
  case NMB_CRASH:
  case NMB_OOM: return NMB__EXIT_INTERNAL;
  default: return NMB__EXIT_USAGE;
  }
}

int
nmb__cli_json(json_t *j)
{
  json_dumpf(j, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(17));
  putchar('\n');
  json_decref(j);
  return NMB__EXIT_OK;
}

json_t *
nmb__json_real(double v)
{
  json_t *j = json_real(v); /* jansson refuses NaN and infinity */
  return j ? j : json_null();
}

/* ------------------------------------------------------------------ token ids */
static nmb_status
ids_bad(nmb__cli *cli, const char *flag, const char *at, int64_t n)
{
  const size_t len = strcspn(at, ", \t\n]");
  return nmb_fail(cli->run, NMB_BADINPUT, NMB_NOLOC,
                  "--%s: found %s%.*s%s after %lld ids, expected token ids separated by "
                  "commas",
                  flag, len ? "'" : "nothing", (int)(len < 40 ? len : 40), at,
                  len ? "'" : "", (long long)n);
}

nmb_status
nmb__cli_ids(nmb__cli *cli, const char *flag, int64_t room, int32_t **ids, int64_t *n)
{
  const char *const space = " \t\r\n";
  size_t len;
  const char *s = nmb__cli_text(cli, flag);
  if (!strcmp(s, "-") && !(s = nmb__read_file(cli->run, s, &len)))
    return NMB_IO;
  int32_t *v = *ids = NMB_NEW(cli->run, int32_t, (int64_t)strlen(s) + 1 + room);
  const bool bracket = s[strspn(s, space)] == '[';
  s += strspn(s, space) + bracket;
  for (*n = 0;;) {
    char *end;
    s += strspn(s, space);
    const long x = strtol(s, &end, 10);
    if (end == s || x < 0 || x > INT32_MAX)
      return ids_bad(cli, flag, s, *n);
    v[(*n)++] = (int32_t)x;
    s = end + strspn(end, space);
    if ((!*s && !bracket) || (bracket && *s == ']' && !s[1 + strspn(s + 1, space)]))
      return NMB_OK;
    if (*s != ',' && s == end)
      return ids_bad(cli, flag, s, *n);
    s += *s == ',';
  }
}

/* -------------------------------------------------------------------- parsing */
static bool
is_choice(const char *type)
{
  return type && strchr(type, '|');
}

static bool
in_choice(const char *choice, const char *word)
{
  const size_t n = strlen(word);
  for (const char *p = choice;; p++) {
    const size_t len = strcspn(p, "|");
    if (len == n && !strncmp(p, word, n))
      return true;
    p += len;
    if (!*p)
      return false;
  }
}

/* what: "option --x" or "argument" */
static int
check_choice(nmb__cli *cli, const char *what, const char *choice, const char *value)
{
  const char *names[32];
  int n = 0;
  if (in_choice(choice, value))
    return -1;
  for (const char *p = choice; n < 32; p++) {
    const int len = (int)strcspn(p, "|");
    names[n++] = nmb_format(cli->run, "%.*s", len, p);
    p += len;
    if (!*p)
      break;
  }
  return nmb__cli_usage(cli, "%s: found '%s', expected one of %s%s", what, value, choice,
                        nmb__hint(cli->run, value, names, n));
}

/* A time is in seconds where its unit is left out; anything else needs its unit. */
static const char *
with_unit(nmb_run *run, const nmb__flag *f, const char *value)
{
  const bool bare = *value && !value[strspn(value, "0123456789.")];
  return bare && !strcmp(f->type, "time") ? nmb_format(run, "%ss", value) : value;
}

static int
check_value(nmb__cli *cli, const nmb__flag *f, const char *value)
{
  double number;
  if (is_choice(f->type))
    return check_choice(cli, nmb_format(cli->run, "option --%s", f->name), f->type, value);
  if (nmb__units_type(f->type)) {
    nmb_run *quiet = nmb__run_open(NULL);
    const nmb_status s =
        nmb__units_parse(quiet, NMB_NOLOC, with_unit(quiet, f, value), f->type, &number);
    if (s != NMB_OK)
      nmb__cli_usage(cli, "option --%s: %s", f->name, nmb_error_text(quiet));
    nmb__run_close(quiet);
    if (s != NMB_OK)
      return NMB__EXIT_USAGE;
  }
  return -1;
}

static int
unknown_flag(nmb__cli *cli, const char *word)
{
  const char *names[128] = {"--help"};
  int n = 1;
  for (const nmb__flag *f = cli->cmd->flags; f->name && n < 128; f++)
    names[n++] = nmb_format(cli->run, "--%s", f->name);
  return nmb__cli_usage(cli, "unknown option '%s'%s", word,
                        nmb__hint(cli->run, word, names, n));
}

static const nmb__flag *
find_long(const nmb__command *c, const char *word, size_t len)
{
  for (const nmb__flag *f = c->flags; f->name; f++)
    if (strlen(f->name) == len && !strncmp(f->name, word, len))
      return f;
  return NULL;
}

static const nmb__flag *
find_short(const nmb__command *c, char key)
{
  for (const nmb__flag *f = c->flags; f->name; f++)
    if (f->key == key)
      return f;
  return NULL;
}

static void
add_set(nmb__cli *cli, const nmb__flag *f, const char *value)
{
  ((struct nmb__set *)(uintptr_t)cli->set)[cli->nset++] = (struct nmb__set){f, value};
}

/* One word that begins with '-'; *i moves on if it takes the next word too. */
static int
parse_option(nmb__cli *cli, int argc, char **argv, int *i)
{
  const char *word = argv[*i], *value = NULL;
  const nmb__flag *f;
  if (word[1] == '-') {
    const size_t len = strcspn(word + 2, "=");
    f = find_long(cli->cmd, word + 2, len);
    value = word[2 + len] ? word + 3 + len : NULL;
    if (!f)
      return unknown_flag(cli, nmb_format(cli->run, "%.*s", (int)len + 2, word));
  } else {
    f = find_short(cli->cmd, word[1]);
    if (!f)
      return unknown_flag(cli, nmb_format(cli->run, "-%c", word[1]));
    value = word[2] ? word + 2 : NULL;
  }
  if (!f->arg && value)
    return nmb__cli_usage(cli, "option --%s takes no value, found '%s'", f->name, value);
  if (f->arg && !value) {
    if (*i + 1 >= argc)
      return nmb__cli_usage(cli, "option --%s needs a value: %s", f->name, f->arg);
    value = argv[++*i];
  }
  const int bad = f->arg ? check_value(cli, f, value) : -1;
  if (bad < 0)
    add_set(cli, f, value);
  return bad;
}

int
nmb__cli_parse(nmb__cli *cli, int argc, char **argv)
{
  const nmb__command *c = cli->cmd;
  const char **arg = NMB_NEW(cli->run, const char *, argc + 1);
  cli->set = NMB_NEW(cli->run, struct nmb__set, argc + 1);
  cli->arg = arg;
  bool options = true;
  for (int i = 0; i < argc; i++) {
    if (!options || argv[i][0] != '-' || !argv[i][1]) {
      arg[cli->narg++] = argv[i];
    } else if (!strcmp(argv[i], "--")) {
      options = false;
    } else if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
      nmb__help_print(stdout, c);
      return NMB__EXIT_OK;
    } else {
      const int bad = parse_option(cli, argc, argv, &i);
      if (bad >= 0)
        return bad;
    }
  }
  if (cli->narg < c->min)
    return nmb__cli_usage(cli, "found %d argument%s, expected %s", cli->narg,
                          cli->narg == 1 ? "" : "s", c->args);
  if (c->max >= 0 && cli->narg > c->max)
    return nmb__cli_usage(cli, "found argument '%s', expected no more than %d",
                          arg[c->max], c->max);
  for (int i = 0; i < cli->narg && is_choice(c->arg_type); i++) {
    const int wrong = check_choice(cli, "argument", c->arg_type, arg[i]);
    if (wrong >= 0)
      return wrong;
  }
  return -1;
}

/* ------------------------------------------------------------------- reading */
static const nmb__flag *
flag_of(const nmb__cli *cli, const char *name)
{
  const nmb__flag *f = find_long(cli->cmd, name, strlen(name));
  if (!f)
    nmb__panic("command %s has no option --%s", cli->cmd->name, name);
  return f;
}

int
nmb__cli_count(const nmb__cli *cli, const char *name)
{
  const nmb__flag *f = flag_of(cli, name);
  int n = 0;
  for (int i = 0; i < cli->nset; i++)
    n += cli->set[i].flag == f;
  return n;
}

const char *
nmb__cli_nth(const nmb__cli *cli, const char *name, int nth)
{
  const nmb__flag *f = flag_of(cli, name);
  for (int i = 0; i < cli->nset; i++)
    if (cli->set[i].flag == f && nth-- == 0)
      return cli->set[i].value;
  return NULL;
}

bool
nmb__cli_given(const nmb__cli *cli, const char *name)
{
  return nmb__cli_count(cli, name) > 0;
}

bool
nmb__cli_flag(const nmb__cli *cli, const char *name)
{
  return nmb__cli_given(cli, name);
}

const char *
nmb__cli_text(const nmb__cli *cli, const char *name)
{
  const int n = nmb__cli_count(cli, name);
  return n ? nmb__cli_nth(cli, name, n - 1) : flag_of(cli, name)->dflt;
}

double
nmb__cli_real(const nmb__cli *cli, const char *name)
{
  double value = 0;
  const nmb__flag *f = flag_of(cli, name);
  const char *text = nmb__cli_text(cli, name);
  if (text && nmb__units_parse(cli->run, NMB_NOLOC, with_unit(cli->run, f, text), f->type,
                               &value) != NMB_OK)
    nmb__panic("default of option --%s is wrong", name);
  return value;
}

int64_t
nmb__cli_int(const nmb__cli *cli, const char *name)
{
  return (int64_t)nmb__cli_real(cli, name);
}
