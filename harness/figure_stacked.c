/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A metric's parts on top of each other.  A breakdown that does not add up to its
 * metric is an error, not a figure. */
#include "harness/figure_kinds.h"

#include <math.h>
#include <string.h>

#include "base/near.h"

#define MAXPART 8 /* colours that can be told apart */
#define TOLERANCE 1e-6

typedef struct stack {
  const nmb__figdata *d;
  nmb__page page;
  const nmb__col *col, *total;
  int npart;         /* of the breakdown */
  const char **name; /* [npart] */
  int nshown;        /* parts drawn; the last may be "other" */
  int *shown;        /* [npart] place in the stack */
  const char **shown_name;
  int nfacet, ngroup, nseries;
  double *sum; /* [nfacet][ngroup][nseries][npart] means over the cells, s or J */
  int *count;  /* [nfacet][ngroup][nseries] */
  double factor, ymax;
  const char *unit;
} stack;

static int
slot_of(const stack *k, int facet, int group, int series)
{
  return (facet * k->ngroup + group) * k->nseries + series;
}

static nmb_status
find_parts(stack *k)
{
  const nmb__figdata *d = k->d;
  char *first = nmb_strdup(d->run, d->fig->parts), *second = strchr(first, ' ');
  if (second != NULL)
    *second++ = '\0';
  k->col = nmb__store_parts(d->store, d->fig->y, first, second);
  if (k->col == NULL)
    return nmb_fail(d->run, NMB_BADINPUT, d->fig->loc,
                    "figure '%s': the results have no breakdown of '%s' by %s",
                    d->fig->name, d->fig->y, d->fig->parts);
  NMB_TRY(nmb__column_real(d->run, d->store, d->fig->loc, d->fig->y, &k->total));
  const nmb__dim *a = &d->store->dim[k->col->dim[0]];
  const nmb__dim *b = k->col->ndim > 1 ? &d->store->dim[k->col->dim[1]] : NULL;
  const int nb = b == NULL ? 1 : b->n;
  k->npart = a->n * nb;
  k->name = NMB_NEW(d->run, const char *, k->npart + 1);
  for (int i = 0; i < k->npart; i++)
    k->name[i] = b == NULL
                     ? a->label[i]
                     : nmb_format(d->run, "%s %s", a->label[i / nb], b->label[i % nb]);
  return NMB_OK;
}

static double
part_value(const stack *k, int cell, int part)
{
  const int nb = k->col->ndim > 1 ? k->d->store->dim[k->col->dim[1]].n : 1;
  const double v = nmb__col_part(k->d->store, k->col, cell, part / nb, part % nb);
  return isnan(v) ? 0 : v; /* a label of another machine */
}

static nmb_status
add_cells(stack *k)
{
  const nmb__figdata *d = k->d;
  const int nslot = k->nfacet * k->ngroup * k->nseries;
  k->sum = NMB_NEW(d->run, double, nslot * k->npart + 1);
  k->count = NMB_NEW(d->run, int, nslot + 1);
  for (int c = 0; c < d->store->ncell; c++) {
    if (!d->use[c] || !nmb__cell_ok(d->store, c))
      continue;
    const int slot = slot_of(k, d->facet.of[c], d->group.of[c], d->series.of[c]);
    double all = 0;
    for (int p = 0; p < k->npart; p++) {
      const double v = part_value(k, c, p);
      k->sum[slot * k->npart + p] += v;
      all += v;
    }
    k->count[slot]++;
    const double total = k->total->num[c];
    if (!(fabs(all - total) <= TOLERANCE * fabs(total)))
      return nmb_fail(d->run, NMB_BADINPUT, d->fig->loc,
                      "figure '%s': the parts of cell %s add up to %g, but %s is %g",
                      d->fig->name, nmb__store_text(d->store, "key", c), all, d->fig->y,
                      total);
  }
  for (int s = 0; s < nslot; s++)
    for (int p = 0; p < k->npart && k->count[s] > 0; p++)
      k->sum[s * k->npart + p] /= k->count[s];
  return NMB_OK;
}

static double
slot_total(const stack *k, int slot)
{
  double all = 0;
  for (int p = 0; p < k->npart; p++)
    all += k->sum[slot * k->npart + p];
  return all;
}

/* With `share`, heights are relative to the first series of the group. */
static void
scale(stack *k)
{
  double max = 0;
  const int ngroups = k->nfacet * k->ngroup;
  for (int g = 0; g < ngroups; g++) {
    const double first = slot_total(k, g * k->nseries);
    for (int s = g * k->nseries; s < (g + 1) * k->nseries; s++) {
      for (int p = 0; p < k->npart && k->d->fig->share; p++)
        k->sum[s * k->npart + p] /= first > 0 ? first : NAN;
      max = fmax(max, slot_total(k, s));
    }
  }
  k->unit =
      nmb__axis_unit(k->d->run, k->d->fig->share ? "1" : k->total->unit, max, &k->factor);
  const double top =
      k->d->fig->ymax > 0 ? k->d->fig->ymax : nmb__round_up(max * k->factor);
  k->ymax = top;
}

/* Keeps the parts that matter most and sums up the rest as "other". */
static void
choose_parts(stack *k)
{
  const int nslot = k->nfacet * k->ngroup * k->nseries;
  double *weight = NMB_NEW(k->d->run, double, k->npart + 1), all = 0;
  for (int p = 0; p < k->npart; p++)
    for (int s = 0; s < nslot; s++) {
      const double v = k->sum[s * k->npart + p];
      weight[p] += isnan(v) ? 0 : v;
      all += isnan(v) ? 0 : v;
    }
  k->shown = NMB_NEW(k->d->run, int, k->npart + 1);
  k->shown_name = NMB_NEW(k->d->run, const char *, MAXPART + 1);
  bool other = false;
  for (int p = 0; p < k->npart; p++) {
    int before = 0; /* how many parts weigh more */
    for (int q = 0; q < k->npart; q++)
      before += weight[q] > weight[p] || (weight[q] == weight[p] && q < p);
    if (before < MAXPART - 1 && weight[p] > 0.003 * all) {
      k->shown_name[k->nshown] = k->name[p];
      k->shown[p] = k->nshown++;
    } else {
      k->shown[p] = NMB_NONE;
      other = other || weight[p] > 0;
    }
  }
  if (other)
    k->shown_name[k->nshown++] = "other";
  for (int p = 0; p < k->npart; p++)
    k->shown[p] = k->shown[p] == NMB_NONE ? k->nshown - 1 : k->shown[p];
}

static double
bar_x(const stack *k, int group, int series)
{
  return group + (series - (k->nseries - 1) / 2.0) * 0.84 / k->nseries;
}

/* The parts as they are drawn: scaled, small ones together. */
static void
shown_parts(const stack *k, int slot, double part[MAXPART + 1])
{
  for (int p = 0; p < k->npart; p++)
    part[k->shown[p]] += k->sum[slot * k->npart + p] * k->factor;
}

static void
write_data(stack *k)
{
  const nmb__figdata *d = k->d;
  FILE *f = k->page.dat;
  fprintf(f, "# parts of %s (%s), mean of n cells; they add up to the total\n", d->fig->y,
          k->unit);
  fprintf(f, "# x\tgroup\tseries\tfacet\tn\ttotal");
  for (int p = 0; p < k->nshown; p++)
    fprintf(f, "\t%s", k->shown_name[p]);
  fprintf(f, "\n");
  for (int i = 0; i < k->nfacet; i++) {
    nmb__page_block(&k->page, d->facet.value[i]);
    for (int g = 0; g < k->ngroup; g++)
      for (int s = 0; s < k->nseries; s++) {
        const int slot = slot_of(k, i, g, s);
        double part[MAXPART + 1] = {0};
        shown_parts(k, slot, part);
        fprintf(f, "%.6g\t%s\t%s\t%s\t%d\t%.9g", bar_x(k, g, s), d->group.value[g],
                d->series.value[s], d->facet.value[i], k->count[slot],
                slot_total(k, slot) * k->factor);
        for (int p = 0; p < k->nshown; p++)
          fprintf(f, "\t%.9g", part[p]);
        fprintf(f, "\n");
      }
  }
}

static const char *
missing_text(const stack *k, int facet, int group, int series)
{
  const nmb__figdata *d = k->d;
  for (int c = 0; c < d->store->ncell; c++)
    if (d->use[c] && d->facet.of[c] == facet && d->group.of[c] == group &&
        d->series.of[c] == series &&
        strcmp(nmb__store_text(d->store, "status", c), "infeasible") == 0)
      return "OOM";
  return "n/a";
}

static void
write_ticks(stack *k, int facet, double tick_room, double each)
{
  const nmb__figdata *d = k->d;
  FILE *gp = k->page.gp;
  const double y = nmb__page_floor(&k->page, facet) - tick_room - 10;
  fprintf(gp, "set xtics scale 0 rotate by 90 right (");
  for (int g = 0; g < k->ngroup; g++)
    for (int s = 0; s < k->nseries; s++)
      fprintf(gp, "%s%s %.6g", g + s > 0 ? ", " : "",
              nmb__gp_quote(d->run, nmb__label(d->all, d->series.value[s])),
              bar_x(k, g, s));
  fprintf(gp, ")\n");
  for (int g = 0; g < k->ngroup; g++)
    fprintf(gp, "set label %s at %d,screen %.4f center\n",
            nmb__gp_quote(d->run, nmb__wrap(d->run, nmb__label(d->all, d->group.value[g]),
                                            each - 3)),
            g, y / k->page.height);
  for (int g = 0; g < k->ngroup; g++)
    for (int s = 0; s < k->nseries; s++)
      if (k->count[slot_of(k, facet, g, s)] == 0)
        fprintf(gp,
                "set label '%s' at %.6g,graph 0.03 left rotate by 90 tc rgb '#555555'\n",
                missing_text(k, facet, g, s), bar_x(k, g, s));
      else if (slot_total(k, slot_of(k, facet, g, s)) * k->factor > k->ymax)
        fprintf(gp, "set label '%.3g' at %.6g,graph 0.97 right rotate by 90 front\n",
                slot_total(k, slot_of(k, facet, g, s)) * k->factor, bar_x(k, g, s));
}

static void
write_boxes(stack *k, int facet)
{
  const double half = 0.84 / k->nseries * 0.46;
  for (int p = k->nshown - 1; p >= 0; p--) { /* the tallest first */
    const nmb__style st = nmb__style_nth(k->d->run, p);
    fprintf(
        k->page.gp,
        "%s'%s.dat' index %d using 1:(sum [i=7:%d] column(i)):(%.4g) with boxes lw 0.6 "
        "fc rgb '%s'",
        p == k->nshown - 1 ? "plot " : ", \\\n  ", k->d->fig->name, facet, 7 + p,
        2 * half, st.rgb);
  }
  for (int g = 0; g < k->ngroup; g++)
    for (int s = 0; s < k->nseries; s++) {
      double part[MAXPART + 1] = {0}, at = 0;
      shown_parts(k, slot_of(k, facet, g, s), part);
      for (int p = 0; p < k->nshown; at += part[p++])
        nmb__page_hatch(&k->page, nmb__style_nth(k->d->run, p), bar_x(k, g, s) - half,
                        bar_x(k, g, s) + half, at, at + part[p]);
    }
  nmb__page_hatched(&k->page);
  fprintf(k->page.gp, "\n");
}

static void
write_panel(stack *k, int facet, double tick_room, double each)
{
  const nmb__figdata *d = k->d;
  nmb__page_panel(&k->page, facet, nmb__label(d->all, d->facet.value[facet]), -0.5,
                  k->ngroup - 0.5, 0, k->ymax);
  write_ticks(k, facet, tick_room, each);
  write_boxes(k, facet);
}

static const char *
count_text(const stack *k)
{
  int lo = 0, hi = 0;
  for (int s = 0; s < k->nfacet * k->ngroup * k->nseries; s++) {
    const int n = k->count[s];
    lo = n > 0 && (lo == 0 || n < lo) ? n : lo;
    hi = n > hi ? n : hi;
  }
  if (hi == 1)
    return "";
  return lo == hi
             ? nmb_format(k->d->run, "mean of n = %d cells a bar", lo)
             : nmb_format(k->d->run, "mean of n = %d\xE2\x80\x93%d cells a bar", lo, hi);
}

static const char *
value_label(const stack *k)
{
  const nmb__figdata *d = k->d;
  return d->fig->share ? nmb_format(d->run, "%s / that of %s", d->fig->y,
                                    nmb__label(d->all, d->series.value[0]))
                       : nmb_format(d->run, "%s (%s)", d->fig->y, k->unit);
}

nmb_status
nmb__draw_stacked(const nmb__figdata *d, const char *dir)
{
  stack k = {.d = d, .nfacet = d->facet.n, .ngroup = d->group.n, .nseries = d->series.n};
  NMB_TRY(find_parts(&k));
  NMB_TRY(add_cells(&k));
  scale(&k);
  choose_parts(&k);
  NMB_TRY(nmb__page_open(d, dir, &k.page));
  nmb__entry *legend = NMB_NEW(d->run, nmb__entry, MAXPART + 1);
  for (int p = 0; p < k.nshown; p++)
    legend[p] =
        (nmb__entry){nmb__label(d->all, k.shown_name[p]), nmb__style_nth(d->run, p)};
  double ticks = 0;
  for (int s = 0; s < k.nseries; s++)
    ticks = fmax(ticks, nmb__text_width(nmb__label(d->all, d->series.value[s])));
  nmb__layout l = {.panels = k.nfacet,
                   .panel = nmb__panel_height(d->fig, 100),
                   .nlegend = k.nshown,
                   .legend = legend,
                   .ylabel = value_label(&k),
                   .note = count_text(&k)};
  nmb__page_layout(&k.page, &l);
  const double each = nmb__page_inner(&k.page) / k.ngroup;
  int lines = 1;
  for (int g = 0; g < k.ngroup; g++) {
    const char *t = nmb__wrap(d->run, nmb__label(d->all, d->group.value[g]), each - 3);
    lines = nmb__text_lines(t) > lines ? nmb__text_lines(t) : lines;
  }
  l.below = ticks + 7 + 8.5 * lines;
  nmb__page_layout(&k.page, &l);
  write_data(&k);
  for (int f = 0; f < d->facet.n; f++)
    write_panel(&k, f, ticks, each);
  return nmb__page_close(&k.page);
}
