/* SPDX-License-Identifier: GPL-3.0-or-later */
/* nmbench compare: did a simulated metric move between two files of results? */
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cmd.h"
#include "harness/store.h"

/* Text columns that are no labels: all others tell cells apart. */
static const char *const not_label[] = {"ablation", "slot",   "sweep",      "status",
                                        "reason",   "passes", "simulators", "key"};

typedef struct row {
  const char *labels;
  int cell;
} row;

typedef struct move {
  const nmb__col *col; /* NULL: the status */
  const char *labels, *part;
  double a, b;
  const char *sa, *sb; /* of a status */
} move;

typedef struct comparison {
  nmb_run *run;
  const nmb__store *a, *b;
  double tolerance;
  row *ra, *rb; /* sorted by labels */
  int nmissing, nextra, ncompared, ncols_missing;
  int nmove, cmove;
  move *move;
} comparison;

/* -------------------------------------------------------------------- cells */
static bool
is_label(const nmb__col *c)
{
  if (c->host || c->ndim || c->type == NMB__REAL)
    return false;
  for (size_t i = 0; i < sizeof not_label / sizeof *not_label; i++)
    if (!strcmp(c->name, not_label[i]))
      return false;
  return true;
}

/* A label that is empty says nothing, so that a new parameter of the experiment
 * leaves the cells that do not use it comparable. */
static const char *
labels_of(nmb_run *run, const nmb__store *s, int cell)
{
  const char *text = "";
  for (int i = 0; i < s->ncol; i++) {
    const nmb__col *c = &s->col[i];
    if (!is_label(c) || (c->type == NMB__TEXT && !*c->text[cell]))
      continue;
    const char *sep = *text ? "," : "";
    text = c->type == NMB__TEXT
               ? nmb_format(run, "%s%s%s=%s", text, sep, c->name, c->text[cell])
               : nmb_format(run, "%s%s%s=%.0f", text, sep, c->name, c->num[cell]);
  }
  return text;
}

static int
by_labels(const void *x, const void *y)
{
  const row *a = x, *b = y;
  const int order = strcmp(a->labels, b->labels);
  return order ? order : (a->cell > b->cell) - (a->cell < b->cell);
}

static row *
sorted_rows(nmb_run *run, const nmb__store *s)
{
  row *r = NMB_NEW(run, row, s->ncell + 1);
  for (int i = 0; i < s->ncell; i++)
    r[i] = (row){labels_of(run, s, i), i};
  qsort(r, (size_t)s->ncell, sizeof *r, by_labels);
  return r;
}

/* -------------------------------------------------------------------- moves */
static void
add_move(comparison *c, const move *m)
{
  if (c->nmove == c->cmove) {
    c->cmove = c->cmove ? 2 * c->cmove : 64;
    move *fresh = NMB_NEW(c->run, move, c->cmove);
    if (c->nmove)
      memcpy(fresh, c->move, (size_t)c->nmove * sizeof *fresh);
    c->move = fresh;
  }
  c->move[c->nmove++] = *m;
}

static bool
moved(double a, double b, double tolerance)
{
  if (isnan(a) || isnan(b))
    return isnan(a) != isnan(b);
  return fabs(a - b) > tolerance * fmax(fabs(a), fabs(b));
}

/* Values are matched by their labels, as the files may list labels in another order;
 * one that a file lacks is NaN. */
static double
part_value(const nmb__store *s, const nmb__col *c, int cell, const char *const *label)
{
  int at = 0;
  for (int i = 0; i < c->ndim; i++) {
    const nmb__dim *d = &s->dim[c->dim[i]];
    const int k = nmb__dim_find(d, label[i]);
    if (k < 0)
      return NAN;
    at = at * d->n + k;
  }
  return c->num[(size_t)cell * (size_t)nmb__col_width(s, c) + (size_t)at];
}

/* Compares the values of `ca` that b has too; and, if `only_new`, those that only b's
 * labels name. */
static void
compare_parts(comparison *c, const nmb__store *from, const nmb__col *cf,
              const nmb__col *ca, const nmb__col *cb, const row *ra, const row *rb)
{
  const int w = nmb__col_width(from, cf);
  for (int k = 0; k < w; k++) {
    const char *label[2] = {"", ""};
    for (int i = cf->ndim, at = k; i-- > 0;) {
      const nmb__dim *d = &from->dim[cf->dim[i]];
      label[i] = d->label[at % d->n];
      at /= d->n;
    }
    const double va = part_value(c->a, ca, ra->cell, label);
    const double vb = part_value(c->b, cb, rb->cell, label);
    if (from == c->b && !isnan(va))
      continue; /* seen from the other side */
    if (!moved(va, vb, c->tolerance))
      continue;
    const char *part = cf->ndim == 0 ? ""
                       : cf->ndim == 1
                           ? nmb_format(c->run, "[%s]", label[0])
                           : nmb_format(c->run, "[%s,%s]", label[0], label[1]);
    if (from == c->b && isnan(vb))
      continue;
    add_move(c, &(move){.col = ca, .labels = ra->labels, .part = part, .a = va, .b = vb});
  }
}

static bool
is_metric(const nmb__col *c)
{
  return !c->host && c->type == NMB__REAL && strcmp(c->name, "skew") &&
         strcmp(c->name, "pass_stat_by_stat");
}

static void
compare_cells(comparison *c, const row *ra, const row *rb)
{
  const char *sa = nmb__store_text(c->a, "status", ra->cell);
  const char *sb = nmb__store_text(c->b, "status", rb->cell);
  c->ncompared++;
  if (strcmp(sa, sb)) {
    add_move(c, &(move){.labels = ra->labels, .part = "", .sa = sa, .sb = sb});
    return;
  }
  for (int i = 0; i < c->a->ncol; i++) {
    const nmb__col *ca = &c->a->col[i];
    const nmb__col *cb = is_metric(ca) ? nmb__store_col(c->b, ca->name) : NULL;
    if (!cb || cb->ndim != ca->ndim)
      continue;
    compare_parts(c, c->a, ca, ca, cb, ra, rb);
    if (ca->ndim)
      compare_parts(c, c->b, cb, ca, cb, ra, rb);
  }
}

static void
compare_columns(comparison *c)
{
  for (int i = 0; i < c->a->ncol; i++) {
    const nmb__col *ca = &c->a->col[i], *cb = nmb__store_col(c->b, ca->name);
    if (!is_metric(ca))
      continue;
    if (!cb || cb->ndim != ca->ndim || strcmp(cb->unit, ca->unit)) {
      fprintf(stderr, "nmbench: '%s' of the first file %s in the second\n", ca->name,
              !cb ? "is missing" : "has another shape or unit");
      c->ncols_missing++;
    }
  }
}

static void
compare_all(comparison *c)
{
  c->ra = sorted_rows(c->run, c->a);
  c->rb = sorted_rows(c->run, c->b);
  compare_columns(c);
  int i = 0, k = 0;
  while (i < c->a->ncell || k < c->b->ncell) {
    const int order = i == c->a->ncell   ? 1
                      : k == c->b->ncell ? -1
                                         : strcmp(c->ra[i].labels, c->rb[k].labels);
    if (order == 0)
      compare_cells(c, &c->ra[i++], &c->rb[k++]);
    else if (order < 0)
      c->nmissing++, i++;
    else
      c->nextra++, k++;
  }
}

/* ------------------------------------------------------------------- report */
/* "less" and "more": a verdict where the metric has one. */
static const char *
verdict(const move *m)
{
  if (!m->col || !*m->col->better || isnan(m->a) || isnan(m->b))
    return "";
  return (m->b < m->a) == !strcmp(m->col->better, "less") ? "better" : "worse";
}

static void
print_move(const move *m)
{
  if (!m->col)
    printf("status: %s -> %s  %s\n", m->sa, m->sb, m->labels);
  else
    printf("%s%s: %.9g -> %.9g %s (%+.4g%%%s%s)  %s\n", m->col->name, m->part, m->a, m->b,
           m->col->unit, 100 * (m->b - m->a) / fabs(m->a), *verdict(m) ? ", " : "",
           verdict(m), m->labels);
}

static json_t *
compare_json(const comparison *c)
{
  json_t *list = json_array();
  for (int i = 0; i < c->nmove; i++) {
    const move *m = &c->move[i];
    json_array_append_new(
        list, m->col ? json_pack("{s:s, s:s, s:o, s:o, s:s, s:s, s:s}", "metric",
                                 m->col->name, "part", m->part, "a", nmb__json_real(m->a),
                                 "b", nmb__json_real(m->b), "unit", m->col->unit,
                                 "verdict", verdict(m), "cell", m->labels)
                     : json_pack("{s:s, s:s, s:s, s:s}", "metric", "status", "a", m->sa,
                                 "b", m->sb, "cell", m->labels));
  }
  return json_pack("{s:i, s:i, s:i, s:i, s:i, s:o}", "compared", c->ncompared, "missing",
                   c->nmissing, "extra", c->nextra, "columns_missing", c->ncols_missing,
                   "moved", c->nmove, "moves", list);
}

static void
print_comparison(const comparison *c, bool all)
{
  const int most = all ? c->nmove : 20;
  for (int i = 0; i < c->nmove && i < most; i++)
    print_move(&c->move[i]);
  if (c->nmove > most)
    printf("... and %d more (--all prints them)\n", c->nmove - most);
  printf("%d cells compared, %d values moved", c->ncompared, c->nmove);
  if (c->nmissing)
    printf(", %d cells missing in the second file", c->nmissing);
  if (c->nextra)
    printf(", %d cells only in the second file", c->nextra);
  printf("\n");
}

static int
cmd_compare(nmb__cli *cli)
{
  nmb__store *a = NULL, *b = NULL;
  nmb_status st = nmb__store_read(cli->run, cli->arg[0], &a);
  if (st == NMB_OK)
    st = nmb__store_read(cli->run, cli->arg[1], &b);
  if (st != NMB_OK)
    return nmb__exit_code(st);
  comparison c = {.run = cli->run, .a = a, .b = b};
  c.tolerance = nmb__cli_real(cli, "tolerance");
  compare_all(&c);
  if (nmb__cli_flag(cli, "json"))
    nmb__cli_json(compare_json(&c));
  else
    print_comparison(&c, nmb__cli_flag(cli, "all"));
  if (c.nmissing || c.ncols_missing || c.ncompared == 0)
    return NMB__EXIT_COMPARE;
  return c.nmove ? NMB__EXIT_CHECK : NMB__EXIT_OK;
}

static const nmb__flag flags[] = {
    {"tolerance", 0, "RATIO", "real", "0", "relative difference that does not count"},
    {"all", 0, NULL, NULL, NULL, "print every value that moved, not the first 20"},
    NMB__FLAG_JSON,
    {NULL, 0, NULL, NULL, NULL, NULL}};

const nmb__command nmb__cmd_compare = {
    .name = "compare",
    .args = "A.h5 B.h5",
    .arg_type = "file",
    .min = 2,
    .max = 2,
    .summary = "did a simulated metric move between two files?",
    .help =
        "Matches cells by their labels and compares status and every simulated metric "
        "exactly; times of the host and statistics of passes do not count.\n\n"
        "Exit codes: 0 nothing moved; 1 something did; 4 cells or metrics of A are "
        "missing "
        "in B, or no cell is in both.",
    .example = "nmbench compare results/old.h5 results/new.h5",
    .flags = flags,
    .main = cmd_compare,
};
