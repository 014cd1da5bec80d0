/* SPDX-License-Identifier: GPL-3.0-or-later */
/* nmbench run: the cells of an experiment that are left, and the file of results. */
#include "config.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness/collect.h"
#include "harness/executor.h"
#include "harness/figure.h"
#include "harness/setup.h"

/* Makes the folders that lead to a file. */
static nmb_status
make_folders(nmb_run *run, const char *path)
{
  for (const char *p = path; (p = strchr(p, '/')); p++) {
    const char *folder = nmb_format(run, "%.*s", (int)(p - path), path);
    if (*folder && mkdir(folder, 0777) != 0 && errno != EEXIST)
      return nmb_fail(run, NMB_IO, NMB_NOLOC, "cannot make the folder %s: %s", folder,
                      strerror(errno));
  }
  return NMB_OK;
}

/* The result file is written apart and renamed over the old one, so that anything else
 * of that name, a device say, would be gone. */
static nmb_status
check_output(nmb_run *run, const char *path)
{
  struct stat st;
  if (!*path)
    return nmb_fail(run, NMB_IO, NMB_NOLOC, "the name of the output is empty");
  if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
    return nmb_fail(run, NMB_IO, (nmb_loc){path, 0, 0},
                    "found a %s, expected an ordinary file to replace",
                    S_ISDIR(st.st_mode) ? "folder" : "device, pipe or socket");
  return NMB_OK;
}

static nmb__exec_options
options(const nmb__cli *cli, const nmb__experiment *e)
{
  const bool quiet = nmb__cli_flag(cli, "quiet");
  nmb__exec_options o = {
      .workers = (int)nmb__cli_int(cli, "jobs"),
      .limits = {e->time_limit, e->memory_limit},
      .retry = nmb__cli_flag(cli, "retry-failed"),
      .apart = nmb__cli_flag(cli, "apart"),
      .progress =
          quiet ? NMB__PROGRESS_NONE : nmb__progress_find(nmb__cli_text(cli, "progress")),
  };
  if (!nmb__cli_given(cli, "jobs"))
    o.workers = (int)sysconf(_SC_NPROCESSORS_ONLN);
  if (o.workers > NMB__MAXWORKER)
    o.workers = NMB__MAXWORKER;
  if (nmb__cli_given(cli, "timeout"))
    o.limits.seconds = nmb__cli_real(cli, "timeout");
  if (nmb__cli_given(cli, "memory"))
    o.limits.bytes = (int64_t)nmb__cli_real(cli, "memory");
  return o;
}

/* The command line, as a shell would take it back. */
static const char *
command_line(const nmb__cli *cli)
{
  const char *text = "nmbench run";
  for (int i = 0; i < cli->narg; i++)
    text = nmb_format(cli->run, "%s %s", text, cli->arg[i]);
  for (int i = 0; i < cli->nset; i++)
    text = cli->set[i].flag->arg
               ? nmb_format(cli->run, "%s --%s='%s'", text, cli->set[i].flag->name,
                            cli->set[i].value)
               : nmb_format(cli->run, "%s --%s", text, cli->set[i].flag->name);
  return text;
}

/* The table of all that the journal holds of this experiment. */
static nmb_status
write_results(nmb__cli *cli, const nmb__setup *s)
{
  nmb__journal_data d;
  nmb_status st = nmb__journal_read(cli->run, s->journal, &d);
  if (st == NMB_OK) {
    const nmb__result *const *r = nmb__results_match(d.run, &s->plan, &d);
    nmb__store *t = nmb__collect(d.run, &s->plan, r);
    nmb__collect_provenance(t, &s->plan, command_line(cli));
    st = nmb__store_write(t, s->output);
    if (st != NMB_OK)
      nmb_fail(cli->run, st, NMB_NOLOC, "%s", nmb_error_text(d.run));
  }
  nmb__journal_forget(&d);
  return st;
}

/* Counts cells by status and says where things are. */
static int
summary(const nmb__setup *s, const nmb__exec *x, bool quiet)
{
  int by[NMB_NSTATUS] = {0}, left = 0, failed = 0;
  for (int i = 0; i < s->plan.ncell; i++) {
    const nmb__cell *c = &s->plan.cell[i];
    if (!c->wanted)
      continue;
    if (!x->done[c->job]) {
      left++;
      continue;
    }
    by[x->status[c->job]]++;
    failed += nmb__status_failed(x->status[c->job]);
  }
  if (!quiet) {
    printf("%s: %d cells", s->e->name, s->plan.nwanted);
    for (int i = 0; i < NMB_NSTATUS; i++)
      if (by[i])
        printf(", %d %s", by[i], nmb_status_name((nmb_status)i));
    if (left)
      printf(", %d left", left);
    printf("\n%d jobs run now, %d had been done\n", x->nrun, x->nbefore);
    if (x->memo_found)
      printf("costs of instructions: %llu found in other cells, %llu shared with them\n",
             (unsigned long long)x->memo_found, (unsigned long long)x->memo_put);
    printf("results: %s\n", s->output);
  }
  if (x->signal)
    fprintf(stderr, "nmbench: stopped; the same command goes on from here\n");
  return x->signal ? 128 + x->signal : failed ? NMB__EXIT_CELLS : NMB__EXIT_OK;
}

/* Only of a whole table: a figure of a part would look like the whole. */
static void
draw_figures(nmb__cli *cli, const nmb__setup *s, const nmb__exec *x)
{
  const bool quiet = nmb__cli_flag(cli, "quiet");
  nmb__store *t = NULL;
  int left = 0;
  for (int i = 0; i < s->plan.njob; i++)
    left += !x->done[i];
  if (left && !quiet)
    printf("figures: not drawn, %d jobs are left\n", left);
  if (left || nmb__store_read(cli->run, s->output, &t) != NMB_OK)
    return;
  const char *folder = nmb__figure_folder(cli->run, s->output);
  if (nmb__figures_draw(cli->run, t, folder, NULL, quiet ? NULL : stdout) != NMB_OK)
    nmb_warn(cli->run, NMB_NOLOC,
             "not all figures are drawn; 'nmbench plot %s' tries again", s->output);
}

static nmb_status
run_jobs(nmb__cli *cli, const nmb__setup *s, nmb__journal *j, nmb__journal_data *old,
         nmb__exec *x)
{
  const nmb__exec_options o = options(cli, s->e);
  signal(SIGXFSZ, SIG_IGN); /* a file too large is an ordinary failed write */
  nmb__exec_init(cli->run, &s->plan, old, x);
  if (old->damaged)
    nmb_warn(cli->run, (nmb_loc){s->journal, 0, 0},
             "%d damaged lines are dropped; their cells run again", old->damaged);
  nmb__journal_forget(old); /* forks copy what stays in memory */
  NMB_TRY(nmb__journal_note(
      j, nmb_format(cli->run, "%d jobs of %s", s->plan.njob, s->e->path)));
  return nmb__execute(cli->run, &s->plan, j, &o, x);
}

static int
run_experiment(nmb__cli *cli, const nmb__setup *s)
{
  nmb__journal *j = NULL;
  nmb__journal_data old = {0};
  nmb__exec x = {0};
  nmb_status st = check_output(cli->run, s->output);
  if (st == NMB_OK)
    st = make_folders(cli->run, s->output);
  if (st == NMB_OK)
    st = nmb__journal_open(cli->run, s->journal, nmb__cli_flag(cli, "fresh"), &old, &j);
  if (st != NMB_OK) {
    nmb__journal_forget(&old);
    return NMB__EXIT_USAGE;
  }
  st = run_jobs(cli, s, j, &old, &x);
  if (st == NMB_OK)
    st = write_results(cli, s);
  nmb__journal_close(j);
  if (st == NMB_OK) {
    const int code = summary(s, &x, nmb__cli_flag(cli, "quiet"));
    if (!x.signal && !nmb__cli_flag(cli, "no-figures"))
      draw_figures(cli, s, &x);
    return code;
  }
  fprintf(stderr, "nmbench: what was done is kept; the same command goes on from here\n");
  return NMB__EXIT_OUTPUT;
}

static int
cmd_run(nmb__cli *cli)
{
  nmb__setup s;
  if (nmb__cli_given(cli, "jobs") && nmb__cli_int(cli, "jobs") < 1)
    return nmb__cli_usage(cli, "found -j %lld, expected 1 or more",
                          (long long)nmb__cli_int(cli, "jobs"));
  if (nmb__cli_given(cli, "timeout") && !(nmb__cli_real(cli, "timeout") > 0))
    return nmb__cli_usage(cli, "found --timeout 0, expected more than 0");
  if (nmb__cli_given(cli, "memory") && !(nmb__cli_real(cli, "memory") >= 1))
    return nmb__cli_usage(cli, "found --memory 0, expected more than 0");
  nmb_status st = nmb__setup_open(cli, true, &s);
  if (st == NMB_OK && s.plan.nwanted == 0)
    st = nmb_fail(cli->run, NMB_BADINPUT, NMB_NOLOC,
                  "no cell is left by skips and filters");
  const int code = st == NMB_OK ? run_experiment(cli, &s) : nmb__exit_code(st);
  nmb__setup_close(&s);
  return code;
}

static const nmb__flag flags[] = {
    {"jobs", 'j', "N", "int", NULL, "worker processes (default: one for each processor)"},
    {"output", 'o', "FILE.h5", "file", NULL,
     "where results go (default: `output` of the file, else results/NAME.h5)"},
    {"fresh", 0, NULL, NULL, NULL,
     "forget earlier results of this output and start over"},
    {"retry-failed", 0, NULL, NULL, NULL,
     "run cells again that crashed or ran out of time or memory"},
    NMB__FLAG_FILTERS,
    {"timeout", 0, "TIME", "time", NULL, "most time of one cell, e.g. 30s or 5min"},
    {"memory", 0, "SIZE", "size", NULL, "most memory of one cell, e.g. 2GiB"},
    {"apart", 0, NULL, NULL, NULL,
     "let no cell look up what an instruction costs in another (the results are the same)"},
    {"progress", 0, "KIND", "auto|bar|plain|json|none", "auto", "how progress is shown"},
    {"no-figures", 0, NULL, NULL, NULL, "do not draw figures at the end"},
    {"quiet", 'q', NULL, NULL, NULL, "no progress and no summary"},
    {NULL, 0, NULL, NULL, NULL, NULL}};

const nmb__command nmb__cmd_run = {
    .name = "run",
    .args = "FILE.cfg",
    .arg_type = "file",
    .min = 1,
    .max = 1,
    .summary = "run an experiment, or what is left of it",
    .help =
        "Runs each cell of an experiment in a process of its own and writes all results "
        "to "
        "one HDF5 file. A cell that crashes, hangs or cannot fit becomes a row with a "
        "status "
        "and a reason.\n\n"
        "Each result is appended to FILE.h5.journal at once. The same command goes on "
        "where an earlier one was stopped or killed, and never runs a finished cell "
        "again "
        "unless something that decides its result has changed. One interrupt lets "
        "running "
        "cells end, a second one stops them.\n\n"
        "Exit codes: 0 all cells ended in an outcome (ok, infeasible, unsupported, "
        "nosolution); 2 nothing was run; 3 some cells failed; 6 the output could not be "
        "written, what was done is kept; 130 or 143 interrupted.",
    .example = "nmbench run moe -j 2",
    .flags = flags,
    .main = cmd_run,
};
