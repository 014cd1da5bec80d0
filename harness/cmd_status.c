/* SPDX-License-Identifier: GPL-3.0-or-later */
/* nmbench status and log: how far a sweep is, and all about one cell. */
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/executor.h"
#include "harness/setup.h"
#include "harness/store.h"

/* ------------------------------------------------------------------- status */
/* Cells, or jobs of the journal, that ended alike. */
typedef struct group {
  nmb_status status;
  const char *reason;
  const char *first; /* the first of them: its number, or its key */
  int n;
} group;

typedef struct groups {
  nmb_run *run;
  int n, cap, total;
  group *v;
} groups;

static void
count_one(groups *g, nmb_status status, const char *reason, const char *which)
{
  g->total++;
  for (int i = 0; i < g->n; i++)
    if (g->v[i].status == status && !strcmp(g->v[i].reason, reason)) {
      g->v[i].n++;
      return;
    }
  if (g->n == g->cap) {
    g->cap = g->cap ? 2 * g->cap : 16;
    group *fresh = NMB_NEW(g->run, group, g->cap);
    if (g->n)
      memcpy(fresh, g->v, (size_t)g->n * sizeof *fresh);
    g->v = fresh;
  }
  g->v[g->n++] = (group){status, reason, which, 1};
}

static nmb_status
status_find(const char *name)
{
  int i = 0;
  while (i < NMB_NSTATUS && strcmp(nmb_status_name((nmb_status)i), name))
    i++;
  return i < NMB_NSTATUS ? (nmb_status)i : NMB_CRASH;
}

static nmb_status
read_table(nmb_run *run, const char *path, groups *g)
{
  nmb__store *s = NULL;
  NMB_TRY(nmb__store_read(run, path, &s));
  for (int i = 0; i < s->ncell; i++)
    count_one(g, status_find(nmb__store_text(s, "status", i)),
              nmb__store_text(s, "reason", i), nmb_format(run, "cell %d", i));
  return NMB_OK;
}

static int
by_key_last(const void *a, const void *b)
{
  const nmb__result *const *x = a, *const *y = b;
  const int order = strcmp((*x)->key, (*y)->key);
  return order ? order : (*x > *y) - (*x < *y);
}

/* The last line of each key. */
static void
read_journal(nmb_run *run, const nmb__journal_data *d, groups *g)
{
  const nmb__result **r = NMB_NEW(run, const nmb__result *, d->n + 1);
  for (int i = 0; i < d->n; i++)
    r[i] = &d->result[i];
  qsort(r, (size_t)d->n, sizeof *r, by_key_last);
  for (int i = 0; i < d->n; i++)
    if (i + 1 == d->n || strcmp(r[i]->key, r[i + 1]->key))
      count_one(g, r[i]->status, r[i]->reason, nmb_format(run, "job %.12s", r[i]->key));
}

static void
print_groups(const char *what, const groups *g, bool reasons)
{
  int by[NMB_NSTATUS] = {0};
  for (int i = 0; i < g->n; i++)
    by[g->v[i].status] += g->v[i].n;
  printf("%s: %d", what, g->total);
  for (int i = 0; i < NMB_NSTATUS; i++)
    if (by[i])
      printf(", %d %s", by[i], nmb_status_name((nmb_status)i));
  printf("\n");
  for (int i = 0; reasons && i < g->n; i++)
    if (g->v[i].status != NMB_OK)
      printf("  %-11s %5d  %s  (first: %s)\n", nmb_status_name(g->v[i].status), g->v[i].n,
             g->v[i].reason, g->v[i].first);
}

static json_t *
groups_json(const groups *g)
{
  json_t *list = json_array();
  for (int i = 0; i < g->n; i++)
    json_array_append_new(list, json_pack("{s:s, s:s, s:i, s:s}", "status",
                                          nmb_status_name(g->v[i].status), "reason",
                                          g->v[i].reason, "count", g->v[i].n, "first",
                                          g->v[i].first));
  return json_pack("{s:i, s:o}", "total", g->total, "groups", list);
}

/* The results that an experiment writes, or the file itself. */
static nmb_status
results_path(nmb__cli *cli, const char **out)
{
  const char *name = cli->arg[0];
  const size_t n = strlen(name);
  *out = name;
  if ((n > 3 && !strcmp(name + n - 3, ".h5")) || access(name, R_OK) == 0) {
    if (n < 4 || strcmp(name + n - 4, ".cfg"))
      return NMB_OK;
  }
  nmb__setup s;
  const nmb_status st = nmb__setup_open(cli, false, &s);
  *out = s.output;
  nmb__setup_close(&s);
  return st;
}

static int
cmd_status(nmb__cli *cli)
{
  const char *path = NULL;
  groups cells = {.run = cli->run}, jobs = {.run = cli->run};
  nmb__journal_data d = {0};
  nmb_status st = results_path(cli, &path);
  const bool table = st == NMB_OK && access(path, R_OK) == 0;
  if (table)
    st = read_table(cli->run, path, &cells);
  if (st == NMB_OK)
    st = nmb__journal_read(cli->run, nmb__journal_path(cli->run, path), &d);
  if (st == NMB_OK && !table && d.n == 0 && !*d.note)
    st = nmb_fail(cli->run, NMB_IO, NMB_NOLOC, "there is neither %s nor its journal",
                  path);
  int code = nmb__exit_code(st);
  if (st == NMB_OK) {
    read_journal(cli->run, &d, &jobs);
    if (nmb__cli_flag(cli, "json")) {
      code = nmb__cli_json(json_pack(
          "{s:s, s:o, s:o, s:s, s:i}", "results", path, "cells", groups_json(&cells),
          "jobs", groups_json(&jobs), "plan", d.note, "damaged", d.damaged));
    } else {
      if (table)
        print_groups(path, &cells, true);
      if (*d.note)
        printf("last run: %s\n", d.note);
      if (d.n)
        print_groups("journal", &jobs, !table);
      if (d.damaged)
        printf("journal: %d damaged lines\n", d.damaged);
    }
  }
  nmb__journal_forget(&d);
  return code;
}

/* ---------------------------------------------------------------------- log */
/* A number, or the beginning of a key: eight letters of it or more, so that a number
 * past the end never finds a cell whose key happens to begin like it. */
#define KEY_LETTERS 8
static nmb_status
find_cell(nmb_run *run, const nmb__store *s, const char *which, int *out)
{
  char *end = NULL;
  const long n = strtol(which, &end, 10);
  const bool key = strlen(which) >= KEY_LETTERS;
  if (*which && !*end && n >= 0 && n < s->ncell && !key) {
    *out = (int)n;
    return NMB_OK;
  }
  for (int i = 0; i < s->ncell; i++)
    if (key && !strncmp(nmb__store_text(s, "key", i), which, strlen(which))) {
      *out = i;
      return NMB_OK;
    }
  return nmb_fail(run, NMB_BADINPUT, NMB_NOLOC,
                  "no cell '%s', expected 0..%d or the first 8 letters of a key or more", which,
                  s->ncell - 1);
}

static const char *
part_name(nmb_run *run, const nmb__store *s, const nmb__col *c, int k)
{
  const char *name = "";
  for (int i = c->ndim; i-- > 0; k /= s->dim[c->dim[i]].n) {
    const nmb__dim *d = &s->dim[c->dim[i]];
    name = nmb_format(run, "%s%s%s", d->label[k % d->n], *name ? ", " : "", name);
  }
  return name;
}

static void
print_number(nmb_run *run, const nmb__store *s, const nmb__col *c, int cell)
{
  const int w = nmb__col_width(s, c);
  const double *v = c->num + (size_t)cell * (size_t)w;
  int n = 0;
  for (int k = 0; k < w; k++)
    n += !isnan(v[k]);
  if (!n)
    return;
  if (c->ndim == 0) {
    printf("%-24s %.9g %s\n", c->name, v[0], c->unit);
    return;
  }
  printf("%s (%s):\n", c->name, *c->unit ? c->unit : "1");
  for (int k = 0; k < w; k++)
    if (!isnan(v[k]))
      printf("  %-40s %.9g\n", part_name(run, s, c, k), v[k]);
}

static void
print_log(nmb_run *run, const nmb__store *s, int cell)
{
  for (int host = 0; host < 2; host++) {
    if (host)
      printf("\non the host that ran it:\n");
    for (int i = 0; i < s->ncol; i++) {
      const nmb__col *c = &s->col[i];
      if (c->host != (host == 1) || !strcmp(c->name, "log"))
        continue;
      if (c->type != NMB__TEXT)
        print_number(run, s, c, cell);
      else if (*c->text[cell])
        printf("%-24s %s\n", c->name, c->text[cell]);
    }
  }
  const char *log = nmb__store_text(s, "log", cell);
  if (*log)
    printf("\nmessages:\n%s", log);
}

static json_t *
number_json(const nmb__store *s, const nmb__col *c, int cell)
{
  const int w = nmb__col_width(s, c);
  const double *v = c->num + (size_t)cell * (size_t)w;
  if (c->ndim == 0)
    return nmb__json_real(v[0]);
  json_t *all = json_object();
  const nmb__dim *a = &s->dim[c->dim[0]], *b = c->ndim == 2 ? &s->dim[c->dim[1]] : NULL;
  for (int i = 0; i < a->n; i++) {
    if (!b) {
      if (!isnan(v[i]))
        json_object_set_new(all, a->label[i], json_real(v[i]));
      continue;
    }
    json_t *row = json_object();
    for (int k = 0; k < b->n; k++)
      if (!isnan(v[i * b->n + k]))
        json_object_set_new(row, b->label[k], json_real(v[i * b->n + k]));
    if (json_object_size(row))
      json_object_set_new(all, a->label[i], row);
    else
      json_decref(row);
  }
  return all;
}

json_t *
nmb__cell_json(const nmb__store *s, int cell, bool host)
{
  json_t *j = json_pack("{s:i}", "cell", cell);
  for (int i = 0; i < s->ncol; i++) {
    const nmb__col *c = &s->col[i];
    if (c->host && !host)
      continue;
    json_object_set_new(j, c->name,
                        c->type == NMB__TEXT    ? json_string(c->text[cell])
                        : c->type == NMB__WHOLE ? json_integer((json_int_t)c->num[cell])
                                                : number_json(s, c, cell));
  }
  return j;
}

static int
cmd_log(nmb__cli *cli)
{
  nmb__store *s = NULL;
  int cell = 0;
  nmb_status st = nmb__store_read(cli->run, cli->arg[0], &s);
  if (st == NMB_OK)
    st = find_cell(cli->run, s, cli->arg[1], &cell);
  if (st != NMB_OK)
    return nmb__exit_code(st);
  if (nmb__cli_flag(cli, "json"))
    return nmb__cli_json(nmb__cell_json(s, cell, true));
  print_log(cli->run, s, cell);
  return NMB__EXIT_OK;
}

static const nmb__flag flags[] = {NMB__FLAG_JSON, {NULL, 0, NULL, NULL, NULL, NULL}};

const nmb__command nmb__cmd_status = {
    .name = "status",
    .args = "FILE",
    .arg_type = "file",
    .min = 1,
    .max = 1,
    .summary = "how far a run is, and what failed",
    .help =
        "FILE is a file of results, or an experiment. Counts the cells of the file by "
        "how "
        "they ended, with the reasons of those that are not ok, and the jobs that its "
        "journal holds, which may be ahead of the file while a run goes on.",
    .example = "nmbench status results/moe.h5",
    .flags = flags,
    .main = cmd_status,
};

const nmb__command nmb__cmd_log = {
    .name = "log",
    .args = "FILE.h5 CELL",
    .arg_type = "file",
    .min = 2,
    .max = 2,
    .summary = "all about one cell",
    .help = "Prints the labels, status, reason, metrics, time of each pass and messages "
            "of one "
            "cell. CELL is its number or the start of its key, as 'plan --cells' prints "
            "them.",
    .example = "nmbench log results/moe.h5 17",
    .flags = flags,
    .main = cmd_log,
};
