/* SPDX-License-Identifier: GPL-3.0-or-later */
/* nmbench validate: our numbers beside published ones.
 *
 * The number of a row is what the row's command prints with --json: the command's own
 * code runs in this process (nmb__command.facts), each text once. */
#include "config.h" /* first: names outside of C11 */

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/near.h"
#include "base/path.h"
#include "harness/cmd.h"
#include "harness/figure.h"
#include "harness/ledger.h"

typedef struct ledger {
  nmb_run *run;
  int n;
  nmb__target *target;
  nmb__outcome *outcome;
  json_t *memo; /* command text -> what it printed, or the reason it did not */
  nmb__ledger_sum *sum;
  int nsum;
} ledger;

/* ------------------------------------------------------------------- commands */
/* Words as a shell would split them, without its expansions; NULL at the end. */
static char **
split_words(nmb_run *run, const char *text, int *n)
{
  char **word = NMB_NEW(run, char *, strlen(text) + 2);
  char *out = nmb_alloc(run, strlen(text) + 1, 1);
  *n = 0;
  for (const char *p = text + strspn(text, " "); *p; p += strspn(p, " ")) {
    word[(*n)++] = out;
    for (char quote = 0; *p && (quote || *p != ' '); p++)
      if (quote ? *p == quote : *p == '\'' || *p == '"')
        quote = quote ? 0 : *p;
      else
        *out++ = *p;
    *out++ = '\0';
  }
  return word;
}

/* What the command gives, or {"status": .., "reason": ..}.  A new reference. */
static json_t *
run_command(const char *text)
{
  nmb_run *run = nmb__run_open(NULL);
  const nmb__commands all = nmb__commands_all();
  int n, i = 0;
  char **word = split_words(run, text, &n);
  nmb__cli cli = {.run = run};
  json_t *j = NULL;
  nmb_status s = NMB_BADOPTION;
  while (n && i < all.n && strcmp(all.v[i]->name, word[0]))
    i++;
  if (n && i < all.n && all.v[i]->facts) {
    cli.cmd = all.v[i];
    s = nmb__cli_parse(&cli, n - 1, word + 1) < 0 ? cli.cmd->facts(&cli, &j) : s;
  } else
    nmb_fail(run, s, NMB_NOLOC, "there is no command '%s' that gives facts",
             n ? word[0] : "");
  if (s != NMB_OK) {
    const char *reason = nmb_error_text(run);
    json_decref(j);
    j = json_pack("{s:s, s:s}", "status", nmb_status_name(s), "reason",
                  *reason ? reason : "wrong usage");
  }
  nmb__run_close(run);
  return j;
}

static const json_t *
facts_of(ledger *l, const char *text)
{
  json_t *j = json_object_get(l->memo, text);
  if (!j) {
    j = run_command(text);
    json_object_set_new(l->memo, text, j);
  }
  return j;
}

/* Ends that say that a machine cannot do it, not that the row is wrong. */
static nmb__verdict
verdict_of_failure(const json_t *j)
{
  const char *status = json_string_value(json_object_get(j, "status"));
  return !strcmp(status, nmb_status_name(NMB_UNSUPPORTED)) ||
                 !strcmp(status, nmb_status_name(NMB_INFEASIBLE))
             ? NMB__VERDICT_ABSENT
             : NMB__VERDICT_ERROR;
}

/* One command's number; false with the outcome filled in if there is none. */
static bool
number_of(ledger *l, const nmb__target *t, const char *command, double *v,
          nmb__outcome *out)
{
  const json_t *j = facts_of(l, command);
  if (nmb__ledger_pick(j, t->result, v))
    return true;
  const char *reason = json_string_value(json_object_get(j, "reason"));
  *out = (nmb__outcome){NAN, NAN, NMB__VERDICT_ERROR, NULL};
  if (reason)
    out->verdict = verdict_of_failure(j);
  out->reason = reason
                    ? nmb_strdup(l->run, reason)
                    : nmb_format(l->run, "the command gives no number '%s'", t->result);
  return false;
}

/* Cuts `text` at the first " op "; the rest, or NULL. */
static char *
cut(char *text, const char *op)
{
  char *at = strstr(text, op);
  if (!at)
    return NULL;
  *at = '\0';
  return at + strlen(op);
}

/* "A + B" adds the numbers of commands. */
static bool
sum_of(ledger *l, const nmb__target *t, char *text, double *v, nmb__outcome *out)
{
  *v = 0;
  for (char *next; text; text = next) {
    double one;
    next = cut(text, " + ");
    if (!number_of(l, t, text, &one, out))
      return false;
    *v += one;
  }
  return true;
}

/* "A / B" is a ratio. */
static nmb__outcome
evaluate(ledger *l, const nmb__target *t)
{
  nmb__outcome out = {NAN, NAN, NMB__VERDICT_ABSENT, t->note};
  double v, w = 1;
  if (!*t->command)
    return out;
  char *text = nmb_strdup(l->run, t->command), *under = cut(text, " / ");
  if (!sum_of(l, t, text, &v, &out) || (under && !sum_of(l, t, under, &w, &out)))
    return out;
  return nmb__ledger_judge(t, v / w);
}

/* --------------------------------------------------------------------- reading */
static nmb_status
read_all(nmb__cli *cli, ledger *l)
{
  const char **names;
  nmb_run *run = cli->run;
  for (int i = 0; i < cli->narg; i++)
    NMB_TRY(nmb__ledger_read(run, cli->arg[i], &l->target, &l->n));
  if (cli->narg)
    return NMB_OK;
  const int n = nmb__list_files(run, "validation", "csv", &names);
  for (int i = 0; i < n; i++) {
    const char *path;
    NMB_TRY(nmb__find_file(run, "validation", names[i], "csv", &path));
    NMB_TRY(nmb__ledger_read(run, path, &l->target, &l->n));
  }
  return NMB_OK;
}

static bool
names_source(const nmb__target *t, const char *word)
{
  return !strcmp(t->file, word) || strcasestr(t->source, word) ||
         !strcmp(t->target, word);
}

/* Keeps the rows that were asked for. */
static nmb_status
select_rows(nmb__cli *cli, ledger *l)
{
  const char *source = nmb__cli_text(cli, "source");
  const bool quick = nmb__cli_flag(cli, "quick");
  const char **file = NMB_NEW(cli->run, const char *, l->n + 1);
  int kept = 0, found = 0;
  for (int i = 0; i < l->n; i++) {
    const nmb__target *t = &l->target[i];
    file[i] = t->file;
    const bool named = !source || names_source(t, source);
    found += named;
    if (named && (!quick || t->quick))
      l->target[kept++] = *t;
  }
  if (!found)
    return nmb_fail(cli->run, NMB_BADOPTION, NMB_NOLOC,
                    "option --source: no target is of '%s'%s", source ? source : "",
                    nmb__hint(cli->run, source ? source : "", file, l->n));
  l->n = kept;
  return NMB_OK;
}

/* -------------------------------------------------------------------- printing */
static json_t *
row_json(const nmb__target *t, const nmb__outcome *o)
{
  json_t *j = json_pack("{s:s, s:s, s:s, s:s, s:o, s:o, s:s, s:o, s:s, s:s, s:s, s:s}",
                        "target", t->target, "source", t->source, "column",
                        t->calibrated ? "calibrated" : "uncalibrated", "command",
                        t->command, "ours", nmb__json_real(o->ours), "theirs",
                        json_real(t->published), "unit", t->unit, "error",
                        nmb__json_real(o->error), "tolerance", t->tolerance, "verdict",
                        nmb__verdict_name(o->verdict), "note", t->note, "file", t->file);
  json_object_set_new(j, "pass", json_boolean(o->verdict == NMB__VERDICT_PASS));
  if (o->reason)
    json_object_set_new(j, "reason", json_string(o->reason));
  return j;
}

static json_t *
sum_json(const nmb__ledger_sum *s)
{
  return json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:o, s:o, s:o, s:o}", "source",
                   s->source, "column", s->calibrated ? "calibrated" : "uncalibrated",
                   "rows", s->rows, "counted", s->counted, "within", s->within,
                   "not_modelled", s->absent, "mean_error", nmb__json_real(s->mean),
                   "median_error", nmb__json_real(s->median), "worst_error",
                   nmb__json_real(s->worst), "kendall_tau", nmb__json_real(s->tau));
}

static json_t *
ledger_json(const ledger *l, const int *count)
{
  json_t *rows = json_array(), *sums = json_array(), *all = json_object();
  for (int i = 0; i < l->n; i++)
    json_array_append_new(rows, row_json(&l->target[i], &l->outcome[i]));
  for (int i = 0; i < l->nsum; i++)
    json_array_append_new(sums, sum_json(&l->sum[i]));
  for (int v = 0; v < NMB__NVERDICT; v++)
    json_object_set_new(all, nmb__verdict_name((nmb__verdict)v), json_integer(count[v]));
  return json_pack("{s:o, s:o, s:o}", "rows", rows, "sources", sums, "verdicts", all);
}

static void
print_row(const nmb__target *t, const nmb__outcome *o)
{
  printf("%-38s ", t->target);
  if (isfinite(o->ours))
    printf("%12.6g %12.6g %-10s %+8.2f%%  ", o->ours, t->published, t->unit,
           100 * o->error);
  else
    printf("%12s %12.6g %-10s %9s  ", "-", t->published, t->unit, "-");
  printf("%s%s\n", nmb__verdict_name(o->verdict), t->calibrated ? " (calibrated)" : "");
  if (o->reason || (o->verdict != NMB__VERDICT_PASS && *t->note))
    printf("    %s\n", o->reason ? o->reason : t->note);
}

static void
print_share(double v)
{
  if (isfinite(v))
    printf(" %8.2f%%", 100 * v);
  else
    printf(" %9s", "-");
}

static void
print_sums(const ledger *l)
{
  printf("\n%-34s %-12s %5s %7s %6s %9s %9s %9s %6s %6s\n", "source", "column", "rows",
         "counted", "within", "mean", "median", "worst", "tau", "absent");
  for (int i = 0; i < l->nsum; i++) {
    const nmb__ledger_sum *s = &l->sum[i];
    printf("%-34s %-12s %5d %7d %6d", s->source,
           s->calibrated ? "calibrated" : "uncalibrated", s->rows, s->counted, s->within);
    print_share(s->mean);
    print_share(s->median);
    print_share(s->worst);
    if (isfinite(s->tau))
      printf(" %6.3f", s->tau);
    else
      printf(" %6s", "-");
    printf(" %6d\n", s->absent);
  }
}

/* For the paper: a row for each source and column. */
static void
latex_text(const char *s)
{
  for (; *s; s++)
    printf(strchr("%&#_", *s) ? "\\%c" : "%c", *s);
}

static void
print_latex(const ledger *l)
{
  printf(
      "\\begin{tabular}{llrrrrrr}\n\\toprule\nSource & Column & Rows & Within & Mean & "
      "Median & Worst & $\\tau$ \\\\\n\\midrule\n");
  for (int i = 0; i < l->nsum; i++) {
    const nmb__ledger_sum *s = &l->sum[i];
    if (!s->counted)
      continue;
    latex_text(s->source);
    printf(" & %s & %d & %d & %.2f\\,\\%% & %.2f\\,\\%% & %.2f\\,\\%% & ",
           s->calibrated ? "calibrated" : "uncalibrated", s->counted, s->within,
           100 * s->mean, 100 * s->median, 100 * s->worst);
    if (isfinite(s->tau))
      printf("%.3f", s->tau);
    printf(" \\\\\n");
  }
  printf("\\bottomrule\n\\end{tabular}\n");
}

static void
print_all(const ledger *l, const int *count)
{
  printf("%-38s %12s %12s %-10s %9s  verdict\n", "target", "ours", "theirs", "unit",
         "error");
  for (int i = 0; i < l->n; i++)
    print_row(&l->target[i], &l->outcome[i]);
  print_sums(l);
  const char *comma = "\n";
  for (int v = 0; v < NMB__NVERDICT; v++)
    if (count[v]) {
      printf("%s%d %s", comma, count[v], nmb__verdict_name((nmb__verdict)v));
      comma = ", ";
    }
  printf("\n");
}

/* ----------------------------------------------------------------------- plot */
static bool
plotted(const ledger *l, int i, const nmb__ledger_sum *s)
{
  const nmb__target *t = &l->target[i];
  return !strcmp(t->source, s->source) && t->calibrated == s->calibrated &&
         l->outcome[i].ours > 0 && t->published > 0;
}

/* A block of points for each source and column; how many blocks. */
static int
write_points(const ledger *l, FILE *dat, const char **title)
{
  int blocks = 0;
  fprintf(dat, "# theirs\tours\tunit\ttarget\n");
  for (int k = 0; k < l->nsum; k++) {
    const nmb__ledger_sum *s = &l->sum[k];
    int points = 0;
    for (int i = 0; i < l->n; i++) {
      if (!plotted(l, i, s))
        continue;
      if (!points++)
        fprintf(dat, "%s# %s, %s\n", blocks ? "\n\n" : "", s->source,
                s->calibrated ? "calibrated" : "uncalibrated");
      fprintf(dat, "%.9g\t%.9g\t%s\t%s\n", l->target[i].published, l->outcome[i].ours,
              l->target[i].unit, l->target[i].target);
    }
    if (points)
      title[blocks++] =
          nmb_format(l->run, "%s%s", s->source, s->calibrated ? " (calibrated)" : "");
  }
  return blocks;
}

static void
write_script(FILE *gp, const char *name, const char *ext, const char **title, int n)
{
  fprintf(gp,
          "# Published numbers against ours; run: gnuplot %s.gp\n"
          "set encoding utf8\n"
          "set terminal %s size %s font \"Helvetica,7\"\n"
          "set output '%s.%s'\n"
          "set logscale xy\nset format xy '10^{%%L}'\n"
          "set xlabel 'published (each in its own unit)'\nset ylabel 'nmbench'\n"
          "set key outside right top Left reverse samplen 1\n"
          "set grid lc rgb '#DDDDDD'\nset size ratio -1\n"
          "set colorsequence podo\n",
          name, strcmp(ext, "png") ? strcmp(ext, "svg") ? "pdfcairo" : "svg" : "pngcairo",
          strcmp(ext, "pdf") ? "700,480" : "14cm,9.5cm", name, ext);
  fprintf(gp, "plot x with lines lc rgb '#888888' title 'equal', \\\n"
              "  1.1*x with lines dt 2 lc rgb '#BBBBBB' title '10 %% off', \\\n"
              "  x/1.1 with lines dt 2 lc rgb '#BBBBBB' notitle");
  for (int i = 0; i < n; i++)
    fprintf(gp, ", \\\n  '%s.dat' index %d using 1:2 with points pt %d ps 0.4 title '%s'",
            name, i, 1 + i % 13, title[i]);
  fprintf(gp, "\n");
}

static nmb_status
write_failed(nmb_run *run, const char *path)
{
  return nmb_fail(run, NMB_IO, (nmb_loc){path, 0, 0}, "%s", strerror(errno));
}

static nmb_status
plot(const ledger *l, const char *file)
{
  nmb_run *run = l->run;
  const char *slash = strrchr(file, '/'), *base = slash ? slash + 1 : file;
  const char *dot = strrchr(base, '.'), *ext = dot ? dot + 1 : "";
  if (!dot || (strcmp(ext, "pdf") && strcmp(ext, "svg") && strcmp(ext, "png")))
    return nmb_fail(run, NMB_BADOPTION, NMB_NOLOC,
                    "option --plot: found '%s', expected a .pdf, .svg or .png file",
                    file);
  const char *dir = slash ? nmb_format(run, "%.*s", (int)(slash - file), file) : ".";
  const char *name = nmb_format(run, "%.*s", (int)(dot - base), base);
  const char *dat = nmb_format(run, "%s/%s.dat", *dir ? dir : "/", name),
             *gp = nmb_format(run, "%s/%s.gp", *dir ? dir : "/", name);
  const char **title = NMB_NEW(run, const char *, l->nsum + 1);
  FILE *f = fopen(dat, "w");
  if (!f)
    return write_failed(run, dat);
  const int n = write_points(l, f, title);
  if (ferror(f) | fclose(f))
    return write_failed(run, dat);
  if (!(f = fopen(gp, "w")))
    return write_failed(run, gp);
  write_script(f, name, ext, title, n);
  if (ferror(f) | fclose(f))
    return write_failed(run, gp);
  const nmb__figure fig = {.name = name};
  return nmb__figure_render(run, &fig, *dir ? dir : "/");
}

/* ------------------------------------------------------------------------ main */
static int
cmd_validate(nmb__cli *cli)
{
  ledger l = {.run = cli->run};
  int count[NMB__NVERDICT] = {0};
  nmb_status s = read_all(cli, &l);
  if (s == NMB_OK)
    s = select_rows(cli, &l);
  if (s != NMB_OK)
    return NMB__EXIT_USAGE;
  l.memo = json_object();
  l.outcome = NMB_NEW(cli->run, nmb__outcome, l.n + 1);
  for (int i = 0; i < l.n; i++) {
    l.outcome[i] = evaluate(&l, &l.target[i]);
    count[l.outcome[i].verdict]++;
  }
  json_decref(l.memo);
  l.nsum = nmb__ledger_sums(cli->run, l.target, l.outcome, l.n, &l.sum);
  if (nmb__cli_flag(cli, "json"))
    nmb__cli_json(ledger_json(&l, count));
  else if (nmb__cli_flag(cli, "latex"))
    print_latex(&l);
  else
    print_all(&l, count);
  if (nmb__cli_text(cli, "plot"))
    s = plot(&l, nmb__cli_text(cli, "plot"));
  if (s != NMB_OK)
    return s == NMB_IO ? NMB__EXIT_OUTPUT : nmb__exit_code(s);
  return count[NMB__VERDICT_FAIL] + count[NMB__VERDICT_ERROR] ? NMB__EXIT_CHECK
                                                              : NMB__EXIT_OK;
}

static const nmb__flag flags[] = {
    {"quick", 0, NULL, NULL, NULL, "only the rows marked quick, as make check does"},
    {"source", 0, "SOURCE", "text", NULL,
     "only this source, file (without .csv) or target"},
    {"plot", 0, "FILE", "file", NULL,
     "also draw ours against theirs: FILE.pdf, .svg or .png, with .dat and .gp beside "
     "it"},
    {"latex", 0, NULL, NULL, NULL, "print the table of sources alone, for LaTeX"},
    NMB__FLAG_JSON,
    {NULL, 0, NULL, NULL, NULL, NULL}};

const nmb__command nmb__cmd_validate = {
    .name = "validate",
    .args = "[FILE.csv ..]",
    .arg_type = "file",
    .min = 0,
    .max = -1,
    .summary = "our numbers beside published ones",
    .help =
        "Runs the command of every row of the ledger (the files of hwsim/validation, or "
        "those given) and prints our number, theirs, the error and a verdict; then mean, "
        "median and worst error and Kendall's tau for each source. Rows whose constants "
        "were fitted stand in a column of their own (calibrated), and rows they were "
        "fitted on do not count. A row that no command can express says not modelled and "
        "why.\n\n"
        "The exit code is 1 if a row fails; not if its source is marked as doubtful.",
    .example = "nmbench validate --quick\nnmbench validate --source scale-sim --json\n"
               "nmbench validate --plot validation.pdf",
    .flags = flags,
    .main = cmd_validate,
};
