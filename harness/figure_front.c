/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The points of a Pareto figure as tables: all of them in NAME.csv, those of the front in
 * NAME.tex (a tabular with its head, to be \input). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/figure_kinds.h"

enum { MOST = 16 }; /* columns of a table */

typedef struct row {
  int cell, facet;
  double x;
} row;

static int
by_facet(const void *va, const void *vb)
{
  const row *a = va, *b = vb;
  if (a->facet != b->facet)
    return a->facet - b->facet;
  if (a->x != b->x)
    return a->x < b->x ? -1 : 1;
  return a->cell - b->cell;
}

/* A metric, and beside it its standard error: y's as the figure says, else NAME_se. */
typedef struct column {
  const char *name, *error_name;
  const nmb__col *col, *error;
  const char *unit;
  double factor; /* from stored to printed, in LaTeX */
} column;

static nmb_status
columns_find(const nmb__figdata *d, const char **names, int n, column *out)
{
  for (int i = 0; i < n; i++) {
    column *c = &out[i];
    double most = 0;
    c->name = names[i];
    NMB_TRY(nmb__column_real(d->run, d->store, d->fig->loc, c->name, &c->col));
    c->error_name = d->fig->error && !strcmp(c->name, d->fig->y)
                        ? d->fig->error
                        : nmb_format(d->run, "%s_se", c->name);
    c->error = nmb__store_col(d->store, c->error_name);
    for (int k = 0; k < d->store->ncell; k++)
      most = fmax(most, isfinite(c->col->num[k]) ? c->col->num[k] : 0);
    c->unit = nmb__axis_unit(d->run, c->col->unit, most, &c->factor);
  }
  return NMB_OK;
}

/* x, y, z, then the words of `columns`. */
static int
columns_named(const nmb__figdata *d, const char **names)
{
  int n = 0;
  names[n++] = d->fig->x;
  names[n++] = d->fig->y;
  if (d->fig->z)
    names[n++] = d->fig->z;
  for (const char *s = d->fig->columns ? d->fig->columns : ""; n < MOST;) {
    s += strspn(s, " ");
    const size_t len = strcspn(s, " ");
    if (!len)
      break;
    names[n++] = nmb_format(d->run, "%.*s", (int)len, s);
    s += len;
  }
  return n;
}

static const char *
tex(nmb_run *run, const char *s)
{
  const char *out = "";
  for (; *s; s++)
    if (!strncmp(s, "\xC2\xB5", 2)) {
      out = nmb_format(run, "%s$\\mu$", out);
      s++;
    } else
      out = nmb_format(run, strchr("%&_#$", *s) ? "%s\\%c" : "%s%c", out, *s);
  return out;
}

static const char *
head(const nmb__figdata *d, const column *c)
{
  const char *name = nmb__label(d->all, c->name), *unit = c->unit;
  return !unit || !*unit || !strcmp(unit, "1") || strchr(name, '(')
             ? name
             : nmb_format(d->run, "%s (%s)", name, unit);
}

static void
write_csv(const nmb__figdata *d, FILE *f, const row *r, int n, const char **label,
          const bool *front, const column *c, int nc)
{
  fprintf(f, "%s,label,front", d->fig->facet ? d->fig->facet : "facet");
  for (int k = 0; k < nc; k++)
    fprintf(f, ",%s%s%s", c[k].name, c[k].error ? "," : "",
            c[k].error ? c[k].error_name : "");
  fprintf(f, "\n");
  for (int i = 0; i < n; i++) {
    fprintf(f, "%s,\"%s\",%d", d->facet.value[r[i].facet], label ? label[r[i].cell] : "",
            front[r[i].cell]);
    for (int k = 0; k < nc; k++) {
      fprintf(f, ",%.17g", c[k].col->num[r[i].cell]);
      if (c[k].error)
        fprintf(f, ",%.17g", c[k].error->num[r[i].cell]);
    }
    fprintf(f, "\n");
  }
}

/* "1.23", "1.2 \pm 0.1" or "(1.2 \pm 0.1) \cdot 10^{-5}" */
static void
write_number(FILE *f, const column *c, int cell)
{
  double v = c->col->num[cell] * c->factor;
  double e = c->error ? c->error->num[cell] * c->factor : NAN;
  if (!isfinite(v)) {
    fprintf(f, " & --");
    return;
  }
  const bool both = isfinite(e) && e > 0;
  const double most = fmax(fabs(v), both ? e : 0);
  const int ten = most > 0 ? (int)floor(log10(most)) : 0;
  const bool far = ten < -3 || ten > 5;
  if (far) {
    v /= pow(10, ten);
    e /= pow(10, ten);
  }
  fprintf(f, " & $%s%.3g", far && both ? "(" : "", v);
  if (both)
    fprintf(f, " \\pm %.2g%s", e, far ? ")" : "");
  if (far)
    fprintf(f, " \\cdot 10^{%d}", ten);
  fprintf(f, "$");
}

static void
write_tex(const nmb__figdata *d, FILE *f, const row *r, int n, const char **label,
          const bool *front, const column *c, int nc)
{
  fprintf(f, "%% %s: what nothing else is better than in all of its measures\n",
          d->fig->title);
  fprintf(f, "\\begin{tabular}{l");
  for (int k = 0; k < nc; k++)
    fprintf(f, "r");
  fprintf(f, "}\n\\hline\n");
  for (int k = 0; k < nc; k++)
    fprintf(f, " & %s", tex(d->run, head(d, &c[k])));
  fprintf(f, " \\\\\n");
  for (int i = 0, last = -1; i < n; i++) {
    if (!front[r[i].cell])
      continue;
    if (r[i].facet != last) {
      const char *name = nmb__label(d->all, d->facet.value[r[i].facet]);
      fprintf(f, "\\hline\n");
      if (*name)
        fprintf(f, "\\multicolumn{%d}{l}{\\textit{%s}} \\\\\n", nc + 1, tex(d->run, name));
      last = r[i].facet;
    }
    fprintf(f, "%s", tex(d->run, label ? label[r[i].cell] : ""));
    for (int k = 0; k < nc; k++)
      write_number(f, &c[k], r[i].cell);
    fprintf(f, " \\\\\n");
  }
  fprintf(f, "\\hline\n\\end{tabular}\n");
}

nmb_status
nmb__front_write(const nmb__figdata *d, const char *dir, const char **label,
                 const bool *front, bool (*drawn)(const void *, int, int),
                 const void *self)
{
  const char *names[MOST];
  column c[MOST] = {{0}};
  const int nc = columns_named(d, names);
  row *r = NMB_NEW(d->run, row, (int64_t)d->store->ncell * d->facet.n + 1);
  int n = 0;
  NMB_TRY(columns_find(d, names, nc, c));
  for (int f = 0; f < d->facet.n; f++)
    for (int i = 0; i < d->store->ncell; i++)
      if (drawn(self, i, f))
        r[n++] = (row){i, f, c[0].col->num[i]};
  qsort(r, (size_t)n, sizeof *r, by_facet);
  for (int k = 0; k < 2; k++) {
    const char *path = nmb_format(d->run, "%s/%s.%s", dir, d->fig->name, k ? "tex" : "csv");
    FILE *f = fopen(path, "w");
    if (!f)
      return nmb_fail(d->run, NMB_IO, (nmb_loc){path, 0, 0}, "cannot be written");
    (k ? write_tex : write_csv)(d, f, r, n, label, front, c, nc);
    if (fclose(f) != 0)
      return nmb_fail(d->run, NMB_IO, (nmb_loc){path, 0, 0}, "cannot be written");
  }
  return NMB_OK;
}
