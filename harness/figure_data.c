/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Choosing cells, pairing them and averaging ratios. */
#include "harness/figure_data.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/near.h"

/* Text columns that do not say which cell it is, and the numbers that do. */
static const char *const outcome[] = {"key",    "sweep",  "status",
                                      "reason", "passes", "simulators"};
static const char *const axis[] = {"batch", "context", "seed", "skew"};

static bool
is_among(const char *word, const char *const *list, size_t n)
{
  for (size_t i = 0; i < n; i++)
    if (strcmp(word, list[i]) == 0)
      return true;
  return false;
}

/* Does the column say which cell it is? */
static bool
is_design(const nmb__col *c)
{
  if (c->host || c->ndim > 0)
    return false;
  return c->type == NMB__TEXT
             ? !is_among(c->name, outcome, sizeof outcome / sizeof *outcome)
             : is_among(c->name, axis, sizeof axis / sizeof *axis);
}

static nmb_status
find_column(nmb_run *run, const nmb__store *s, nmb_loc loc, const char *name,
            const nmb__col **out)
{
  *out = nmb__store_col(s, name);
  if (*out != NULL && (*out)->ndim == 0)
    return NMB_OK;
  const char **known = NMB_NEW(run, const char *, s->ncol + 1);
  int n = 0;
  for (int i = 0; i < s->ncol; i++)
    if (s->col[i].ndim == 0)
      known[n++] = s->col[i].name;
  return nmb_fail(run, NMB_BADINPUT, loc, "the results have no column '%s'%s", name,
                  nmb__hint(run, name, known, n));
}

nmb_status
nmb__column_text(nmb_run *run, const nmb__store *s, nmb_loc loc, const char *column,
                 const char ***out)
{
  const nmb__col *col;
  NMB_TRY(find_column(run, s, loc, column, &col));
  const char **text = NMB_NEW(run, const char *, s->ncell + 1);
  for (int i = 0; i < s->ncell; i++)
    text[i] = col->type == NMB__TEXT ? col->text[i]
              : isnan(col->num[i])   ? ""
                                     : nmb_format(run, "%.10g", col->num[i]);
  *out = text;
  return NMB_OK;
}

nmb_status
nmb__column_real(nmb_run *run, const nmb__store *s, nmb_loc loc, const char *column,
                 const nmb__col **out)
{
  NMB_TRY(find_column(run, s, loc, column, out));
  if ((*out)->type == NMB__TEXT)
    return nmb_fail(run, NMB_BADINPUT, loc, "column '%s' holds text, expected numbers",
                    column);
  return NMB_OK;
}

const char *
nmb__label(const nmb__figures *all, const char *value)
{
  for (int i = 0; i < all->nlabel; i++)
    if (strcmp(all->label_from[i], value) == 0)
      return all->label_to[i];
  return value;
}

bool
nmb__cell_ok(const nmb__store *s, int cell)
{
  return strcmp(nmb__store_text(s, "status", cell), "ok") == 0;
}

static const nmb__pick *
filter_of(const nmb__figure *fig, const char *column)
{
  for (int i = 0; i < fig->npick; i++)
    if (strcmp(fig->pick[i].column, column) == 0)
      return &fig->pick[i];
  return NULL;
}

static bool
has_value(const nmb__pick *f, const char *text)
{
  for (int i = 0; i < f->n; i++)
    if (strcmp(f->value[i], text) == 0)
      return true;
  return false;
}

static bool
in_sweeps(const nmb__store *s, const nmb__pick *f, int cell)
{
  for (int i = 0; i < f->n; i++)
    if (nmb__store_in_sweep(s, cell, f->value[i]))
      return true;
  return false;
}

/* Cells that pass all filters but those on column `but` (optional). */
static nmb_status
filter_cells(nmb_run *run, const nmb__store *s, const nmb__figure *fig, const char *but,
             bool **out)
{
  bool *use = NMB_NEW(run, bool, s->ncell + 1);
  for (int c = 0; c < s->ncell; c++)
    use[c] = true;
  for (int i = 0; i < fig->npick; i++) {
    const nmb__pick *f = &fig->pick[i];
    if (but != NULL && strcmp(f->column, but) == 0)
      continue;
    const char **text;
    NMB_TRY(nmb__column_text(run, s, fig->loc, f->column, &text));
    const bool sweep = strcmp(f->column, "sweep") == 0;
    for (int c = 0; c < s->ncell; c++)
      use[c] = use[c] && (sweep ? in_sweeps(s, f, c) : has_value(f, text[c]));
  }
  *out = use;
  return NMB_OK;
}

static int
axis_add(nmb__axis *a, const char *value)
{
  for (int i = 0; i < a->n; i++)
    if (strcmp(a->value[i], value) == 0)
      return i;
  a->value[a->n] = value;
  return a->n++;
}

/* column NULL: one value, "". */
static nmb_status
make_axis(nmb__figdata *d, const char *column, nmb__axis *a)
{
  const int n = d->store->ncell;
  a->of = NMB_NEW(d->run, int, n + 1);
  const char **text = NULL;
  if (column != NULL)
    NMB_TRY(nmb__column_text(d->run, d->store, d->fig->loc, column, &text));
  const nmb__pick *f = column == NULL ? NULL : filter_of(d->fig, column);
  a->value = NMB_NEW(d->run, const char *, n + 1 + (f == NULL ? 0 : f->n));
  for (int i = 0; f != NULL && i < f->n; i++)
    axis_add(a, f->value[i]);
  for (int c = 0; c < n; c++)
    a->of[c] = d->use[c] ? axis_add(a, text == NULL ? "" : text[c]) : NMB_NONE;
  return NMB_OK;
}

/* Values that a filter names but no cell has: a slip of the pen, most likely. */
static nmb_status
check_filter(nmb_run *run, const nmb__store *s, const nmb__figure *fig,
             const nmb__pick *f)
{
  const char **text;
  NMB_TRY(nmb__column_text(run, s, fig->loc, f->column, &text));
  for (int i = 0; i < f->n; i++) {
    int c = 0;
    while (c < s->ncell && strcmp(text[c], f->value[i]) != 0 &&
           !nmb__store_in_sweep(s, c, f->value[i]))
      c++;
    if (c == s->ncell)
      return nmb_fail(run, NMB_BADINPUT, fig->loc, "figure '%s': no cell has %s '%s'%s",
                      fig->name, f->column, f->value[i],
                      nmb__hint(run, f->value[i], text, s->ncell));
  }
  return NMB_OK;
}

nmb_status
nmb__figdata_open(nmb_run *run, const nmb__store *s, const nmb__figures *all,
                  const nmb__figure *fig, nmb__figdata *d)
{
  *d = (nmb__figdata){.run = run, .store = s, .all = all, .fig = fig};
  for (int i = 0; i < fig->npick; i++)
    NMB_TRY(check_filter(run, s, fig, &fig->pick[i]));
  NMB_TRY(filter_cells(run, s, fig, NULL, &d->use));
  int left = 0, ok = 0;
  for (int c = 0; c < s->ncell; c++) {
    left += d->use[c];
    ok += d->use[c] && nmb__cell_ok(s, c);
  }
  if (ok == 0)
    return nmb_fail(run, NMB_BADINPUT, fig->loc,
                    "figure '%s': %d cells pass its filters, none of them with a result",
                    fig->name, left);
  NMB_TRY(make_axis(d, fig->group, &d->group));
  NMB_TRY(make_axis(d, fig->series, &d->series));
  NMB_TRY(make_axis(d, fig->facet, &d->facet));
  nmb__axis unit = {0};
  NMB_TRY(make_axis(d, fig->unit == NULL ? fig->group : fig->unit, &unit));
  d->unit = unit.of;
  d->ratio = NMB_NEW(run, double, s->ncell + 1);
  for (int c = 0; c < s->ncell; c++)
    d->ratio[c] = NAN;
  return NMB_OK;
}

static bool
compared_along(const nmb__figure *fig, const char *column)
{
  if (strcmp(column, fig->relative_by) == 0)
    return true;
  return strcmp(fig->relative_by, "pipeline") == 0 &&
         (strcmp(column, "ablation") == 0 || strcmp(column, "slot") == 0);
}

/* A text for each cell that is equal where two cells differ in relative_by alone. */
static nmb_status
pair_keys(nmb__figdata *d, const char ***out)
{
  const int n = d->store->ncell;
  const char **key = NMB_NEW(d->run, const char *, n + 1);
  for (int c = 0; c < n; c++)
    key[c] = "";
  for (int i = 0; i < d->store->ncol; i++) {
    const nmb__col *col = &d->store->col[i];
    if (!is_design(col) || compared_along(d->fig, col->name))
      continue;
    const char **text;
    NMB_TRY(nmb__column_text(d->run, d->store, d->fig->loc, col->name, &text));
    for (int c = 0; c < n; c++)
      key[c] = nmb_format(d->run, "%s\t%s", key[c], text[c]);
  }
  *out = key;
  return NMB_OK;
}

/* The cells that the others are divided by: ids and keys. */
static nmb_status
partners(nmb__figdata *d, const char *const *key, int *id, const char **base_key,
         int *nbase)
{
  const nmb__figure *fig = d->fig;
  const char **text;
  bool *use;
  NMB_TRY(filter_cells(d->run, d->store, fig, fig->relative_by, &use));
  NMB_TRY(nmb__column_text(d->run, d->store, fig->loc, fig->relative_by, &text));
  *nbase = 0;
  for (int c = 0; c < d->store->ncell; c++)
    if (use[c] && strcmp(text[c], fig->relative_to) == 0) {
      base_key[*nbase] = key[c];
      id[(*nbase)++] = c;
    }
  if (*nbase == 0)
    return nmb_fail(d->run, NMB_BADINPUT, fig->loc, "figure '%s': no cell has %s '%s'%s",
                    fig->name, fig->relative_by, fig->relative_to,
                    nmb__hint(d->run, fig->relative_to, text, d->store->ncell));
  return NMB_OK;
}

nmb_status
nmb__figdata_speedup(nmb__figdata *d)
{
  const int n = d->store->ncell;
  const nmb__col *y;
  NMB_TRY(nmb__column_real(d->run, d->store, d->fig->loc, d->fig->y, &y));
  const char **key, **base_key = NMB_NEW(d->run, const char *, n + 1);
  int *id = NMB_NEW(d->run, int, n + 1), *partner = NMB_NEW(d->run, int, n + 1), nbase;
  NMB_TRY(pair_keys(d, &key));
  NMB_TRY(partners(d, key, id, base_key, &nbase));
  nmb__match(d->run, key, n, base_key, nbase, partner);
  const bool more = y->better != NULL && strcmp(y->better, "more") == 0;
  for (int c = 0; c < n; c++) {
    if (!d->use[c] || partner[c] == NMB_NONE || !nmb__cell_ok(d->store, c))
      continue;
    const int b = id[partner[c]];
    if (nmb__cell_ok(d->store, b))
      d->ratio[c] = more ? y->num[c] / y->num[b] : y->num[b] / y->num[c];
  }
  return NMB_OK;
}

nmb_status
nmb__figdata_quotient(nmb__figdata *d)
{
  const nmb__col *x, *y;
  NMB_TRY(nmb__column_real(d->run, d->store, d->fig->loc, d->fig->x, &x));
  NMB_TRY(nmb__column_real(d->run, d->store, d->fig->loc, d->fig->y, &y));
  for (int c = 0; c < d->store->ncell; c++)
    if (d->use[c] && nmb__cell_ok(d->store, c))
      d->ratio[c] = y->num[c] / x->num[c];
  return NMB_OK;
}

nmb__bar
nmb__figdata_bar(const nmb__figdata *d, int facet, int group, int series, bool units)
{
  const int ncell = d->store->ncell;
  double *ratio = NMB_NEW(d->run, double, ncell + 1);
  int *unit = NMB_NEW(d->run, int, ncell + 1);
  int n = 0;
  bool oom = false;
  for (int c = 0; c < ncell; c++) {
    if (!d->use[c] || d->facet.of[c] != facet || d->series.of[c] != series ||
        (group != NMB_NONE && d->group.of[c] != group))
      continue;
    const char *status = nmb__store_text(d->store, "status", c);
    oom = oom || strcmp(status, "infeasible") == 0;
    if (isnan(d->ratio[c]))
      continue;
    ratio[n] = d->ratio[c];
    unit[n++] = d->unit[c];
  }
  const nmb__boot_spec spec = {
      strcmp(d->fig->interval, "bca") == 0 ? NMB__BOOT_BCA : NMB__BOOT_PERCENTILE,
      d->fig->confidence, d->fig->resamples, 1};
  nmb__bar out = {.missing = n > 0 ? NULL : oom ? "OOM" : "n/a"};
  out.mean = nmb__geomean_interval(d->run, ratio, units ? unit : NULL, n, &spec);
  return out;
}

const char *
nmb__figdata_ratio_name(const nmb__figdata *d)
{
  static const char *const speed[] = {"latency", "throughput", "time_per_output_token",
                                      "time_to_first_token"};
  const nmb__figure *fig = d->fig;
  if (fig->kind == NMB__FIG_GAP)
    return nmb_format(d->run, "%s / %s", fig->y, fig->x);
  const char *base = nmb__label(d->all, fig->relative_to);
  if (is_among(fig->y, speed, sizeof speed / sizeof *speed))
    return nmb_format(d->run, "speed-up over %s", base);
  return nmb_format(d->run, "gain in %s over %s", fig->y, base);
}
