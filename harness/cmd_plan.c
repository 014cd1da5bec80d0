/* SPDX-License-Identifier: GPL-3.0-or-later */
/* nmbench plan: what an experiment would run. */
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "harness/executor.h"
#include "harness/setup.h"

typedef struct counts {
  int jobs, done;
  double seconds; /* mean of those done; NaN if none is */
} counts;

static counts
count(const nmb__setup *s, const nmb__result *const *r)
{
  counts n = {0};
  double sum = 0;
  int timed = 0;
  for (int i = 0; i < s->plan.njob; i++) {
    if (!s->plan.job[i].wanted)
      continue;
    n.jobs++;
    n.done += r[i] != NULL;
    for (int k = 0; r[i] && k < r[i]->n; k++)
      if (!strcmp(r[i]->entry[k].name, "wall_time")) {
        sum += r[i]->entry[k].value;
        timed++;
      }
  }
  n.seconds = timed ? sum / timed : (double)NAN;
  return n;
}

static const char *
state(const nmb__result *const *r, const nmb__cell *c)
{
  const nmb__result *one = r[c->job];
  return one ? nmb_status_name(one->status) : "left";
}

static void
print_sweeps(const nmb__setup *s)
{
  printf("%-12s %7s %9s %10s %10s %10s\n", "sweep", "models", "machines", "workloads",
         "pipelines", "cells");
  for (int i = 0; i < s->e->nsweep; i++) {
    const nmb__sweep *w = &s->e->sweep[i];
    int cells = 0;
    for (int k = 0; k < s->plan.ncell; k++)
      cells += nmb__has_word(s->plan.cell[k].sweeps, w->name);
    printf("%-12s %7d %9d %10d %10d %10d", w->name, w->models.n, w->machines.n,
           w->nworkload, w->variants.n, cells);
    for (int k = 0; k < w->nparam; k++)
      printf("%s%s (%d)", k ? ", " : "   with ", w->param[k].name, w->param[k].n);
    printf("\n");
  }
}

static void
print_cells(nmb__cli *cli, const nmb__setup *s, const nmb__result *const *r)
{
  for (int i = 0; i < s->plan.ncell; i++)
    if (s->plan.cell[i].wanted)
      printf("%5d %.12s %-11s %s\n", i, s->plan.job[s->plan.cell[i].job].key,
             state(r, &s->plan.cell[i]),
             nmb__cell_text(cli->run, &s->plan, &s->plan.cell[i]));
}

/* Where nothing has run yet: the time of a middling cell on a middling host. */
#define GUESS_SECONDS 0.02

static void
print_plan(const nmb__setup *s, const counts *n)
{
  print_sweeps(s);
  for (int i = 0; i < s->e->nskip; i++)
    printf("skipped: %d cells (%s)\n", s->plan.nskipped[i], s->e->skip[i].why);
  printf("cells: %d", s->plan.nwanted);
  if (s->plan.nwanted != s->plan.ncell)
    printf(" of %d by --only and --except", s->plan.ncell);
  if (s->plan.nrepeated)
    printf("; %d more stand in several sweeps", s->plan.nrepeated);
  printf("\njobs: %d; %d cells share the result of another\n", n->jobs,
         s->plan.nwanted - n->jobs > 0 ? s->plan.nwanted - n->jobs : 0);
  printf("done: %d; left: %d\n", n->done, n->jobs - n->done);
  const double each = isnan(n->seconds) ? GUESS_SECONDS : n->seconds;
  printf("estimated time: %.0f s of one worker, %s\n", ceil(each * (n->jobs - n->done)),
         isnan(n->seconds) ? "at a guess" : "by the mean of those done");
  printf("output: %s\n", s->output);
}

static json_t *
cell_json(nmb__cli *cli, const nmb__setup *s, const nmb__result *const *r, int i)
{
  const char **key = NULL;
  const nmb__cell *c = &s->plan.cell[i];
  const int n = nmb__label_keys(cli->run, s->e, &key);
  json_t *j = json_pack("{s:i, s:s, s:s}", "cell", i, "key", s->plan.job[c->job].key,
                        "state", state(r, c));
  for (int k = 0; k < n; k++)
    json_object_set_new(j, key[k],
                        json_string(nmb__cell_label(cli->run, &s->plan, c, key[k])));
  json_object_set_new(j, "passes", json_string(c->passes));
  return j;
}

static int
plan_json(nmb__cli *cli, const nmb__setup *s, const nmb__result *const *r,
          const counts *n)
{
  json_t *cells = json_array(), *skips = json_array();
  for (int i = 0; i < s->plan.ncell; i++)
    if (s->plan.cell[i].wanted)
      json_array_append_new(cells, cell_json(cli, s, r, i));
  for (int i = 0; i < s->e->nskip; i++)
    json_array_append_new(skips, json_pack("{s:i, s:s}", "cells", s->plan.nskipped[i],
                                           "why", s->e->skip[i].why));
  const double each = isnan(n->seconds) ? GUESS_SECONDS : n->seconds;
  return nmb__cli_json(json_pack(
      "{s:s, s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:f, s:o, s:o}", "name", s->e->name,
      "experiment", s->e->path, "output", s->output, "cells", s->plan.nwanted, "jobs",
      n->jobs, "repeated", s->plan.nrepeated, "done", n->done, "left", n->jobs - n->done,
      "estimated_seconds", each * (n->jobs - n->done), "skipped", skips, "table", cells));
}

static int
cmd_plan(nmb__cli *cli)
{
  nmb__setup s;
  nmb__journal_data d = {0};
  nmb_status st = nmb__setup_open(cli, true, &s);
  if (st == NMB_OK)
    st = nmb__journal_read(cli->run, s.journal, &d);
  int code = nmb__exit_code(st);
  if (st == NMB_OK) {
    const nmb__result *const *r = nmb__results_match(cli->run, &s.plan, &d);
    const counts n = count(&s, r);
    if (nmb__cli_flag(cli, "json"))
      code = plan_json(cli, &s, r, &n);
    else if (nmb__cli_flag(cli, "cells"))
      print_cells(cli, &s, r);
    else
      print_plan(&s, &n);
  }
  nmb__journal_forget(&d);
  nmb__setup_close(&s);
  return code;
}

static const nmb__flag flags[] = {
    {"output", 'o', "FILE.h5", "file", NULL, "where results are looked for"},
    NMB__FLAG_FILTERS,
    {"cells", 0, NULL, NULL, NULL, "print every cell: number, key, state, labels"},
    NMB__FLAG_JSON,
    {NULL, 0, NULL, NULL, NULL, NULL}};

const nmb__command nmb__cmd_plan = {
    .name = "plan",
    .args = "FILE.cfg",
    .arg_type = "file",
    .min = 1,
    .max = 1,
    .summary = "show what an experiment would run",
    .help =
        "Reads an experiment, resolves every name in it, and prints how many cells each "
        "sweep has, how many jobs that makes (cells that cannot differ share one), what "
        "is "
        "done, what is left and about how long it takes. Nothing is run.",
    .example = "nmbench plan moe",
    .flags = flags,
    .main = cmd_plan,
};
