/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Bars by group with a geometric mean: speed-ups, and multiples of the bound. */
#include "harness/figure_kinds.h"

#include <math.h>
#include <string.h>

#define BAR_SHARE 0.84 /* of a group's width */
#define MEAN_GAP 0.35  /* between the last group and the mean, in groups */

typedef struct bars {
  const nmb__figdata *d;
  nmb__page page;
  int ngroup, nseries, nfacet;
  bool mean;     /* a last group with the mean over the groups */
  nmb__bar *bar; /* [nfacet][ngroup + 1][nseries] */
  double ymax;
  const char **tick; /* [ngroup + 1] labels under the groups, wrapped */
} bars;

static nmb__bar *
bar_at(const bars *b, int facet, int group, int series)
{
  return &b->bar[(facet * (b->ngroup + 1) + group) * b->nseries + series];
}

static void
compute(bars *b)
{
  const nmb__figdata *d = b->d;
  b->bar = NMB_NEW(d->run, nmb__bar, b->nfacet * (b->ngroup + 1) * b->nseries);
  double max = 1;
  for (int f = 0; f < b->nfacet; f++)
    for (int g = 0; g < b->ngroup + b->mean; g++)
      for (int s = 0; s < b->nseries; s++) {
        nmb__bar *bar = bar_at(b, f, g, s);
        *bar = nmb__figdata_bar(d, f, g == b->ngroup ? NMB_NONE : g, s, g == b->ngroup);
        if (bar->missing == NULL)
          max = fmax(max,
                     fmax(bar->mean.value, isnan(bar->mean.high) ? 0 : bar->mean.high));
      }
  b->ymax = d->fig->ymax > 0 ? d->fig->ymax : nmb__round_up(max);
}

static double
group_x(const bars *b, int group)
{
  return group + (group == b->ngroup ? MEAN_GAP : 0);
}

static double
bar_x(const bars *b, int group, int series)
{
  const double w = BAR_SHARE / b->nseries;
  return group_x(b, group) + (series - (b->nseries - 1) / 2.0) * w;
}

static void
write_data(bars *b)
{
  const nmb__figdata *d = b->d;
  FILE *f = b->page.dat;
  fprintf(
      f, "# value, low, high: %s (1), %g %% bootstrap interval (%s)\n",
      d->fig->kind == NMB__FIG_GAP
          ? nmb_format(d->run, "%s / %s", d->fig->y, d->fig->x)
          : nmb_format(d->run, "speed-up in %s over %s", d->fig->y, d->fig->relative_to),
      100 * d->fig->confidence, d->fig->interval);
  fprintf(f, "# n: values in a mean; of the geomean: groups\n");
  fprintf(f, "# x\tvalue\tlow\thigh\tn\tmissing\tgroup\tseries\tfacet\n");
  for (int i = 0; i < b->nfacet; i++)
    for (int s = 0; s < b->nseries; s++) {
      nmb__page_block(&b->page,
                      nmb_format(d->run, "%s %s", d->facet.value[i], d->series.value[s]));
      for (int g = 0; g < b->ngroup + b->mean; g++) {
        const nmb__bar *bar = bar_at(b, i, g, s);
        fprintf(f, "%.6g\t%.6g\t%.6g\t%.6g\t%d\t%s\t%s\t%s\t%s\n", bar_x(b, g, s),
                bar->mean.value, bar->mean.low, bar->mean.high, bar->mean.n,
                bar->missing == NULL ? "-" : bar->missing,
                g == b->ngroup ? "geomean" : d->group.value[g], d->series.value[s],
                d->facet.value[i]);
      }
    }
}

/* The reason if no bar of the group has a value; else NULL. */
static const char *
all_missing(const bars *b, int facet, int group)
{
  const char *why = "n/a";
  for (int s = 0; s < b->nseries; s++) {
    const nmb__bar *bar = bar_at(b, facet, group, s);
    if (bar->missing == NULL)
      return NULL;
    why = strcmp(bar->missing, "OOM") == 0 ? "OOM" : why;
  }
  return why;
}

/* "OOM" where there is no bar; the value where a bar is cut off, and on the means. */
static void
write_labels(const bars *b, int facet)
{
  FILE *gp = b->page.gp;
  for (int g = 0; g < b->ngroup + b->mean; g++) {
    const char *why = all_missing(b, facet, g);
    if (why != NULL)
      fprintf(gp, "set label '%s' at %.6g,graph 0.05 center tc rgb '#555555'\n", why,
              group_x(b, g));
    for (int s = 0; s < b->nseries && why == NULL; s++) {
      const nmb__bar *bar = bar_at(b, facet, g, s);
      const double x = bar_x(b, g, s);
      if (bar->missing != NULL)
        fprintf(gp,
                "set label '%s' at %.6g,graph 0.03 left rotate by 90 tc rgb '#555555'\n",
                bar->missing, x);
      else if (bar->mean.value > b->ymax)
        fprintf(gp,
                "set label '%.2f' at %.6g,graph 0.97 right rotate by 90 front "
                "tc rgb '#000000'\n",
                bar->mean.value, x);
    }
  }
}

static void
write_ticks(const bars *b)
{
  FILE *gp = b->page.gp;
  fprintf(gp, "set xtics scale 0 (");
  for (int g = 0; g < b->ngroup + b->mean; g++)
    fprintf(gp, "%s%s %.6g", g > 0 ? ", " : "", nmb__gp_quote(b->d->run, b->tick[g]),
            group_x(b, g));
  fprintf(gp, ")\n");
  if (b->mean)
    fprintf(gp, "set arrow from %.6g,graph 0 to %.6g,graph 1 nohead lw 0.6 dt 3\n",
            b->ngroup - 0.5 + MEAN_GAP / 2, b->ngroup - 0.5 + MEAN_GAP / 2);
}

/* Is there a value to draw in this data set, or (`interval`) an interval? */
static bool
has_any(const bars *b, int facet, int series, bool interval)
{
  for (int g = 0; g < b->ngroup + b->mean; g++) {
    const nmb__bar *bar = bar_at(b, facet, g, series);
    if (interval ? nmb__interval_seen(bar->mean) : bar->missing == NULL)
      return true;
  }
  return false;
}

static void
write_boxes(bars *b, int facet)
{
  const nmb__figdata *d = b->d;
  const double half = BAR_SHARE / b->nseries * 0.47;
  for (int s = 0; s < b->nseries; s++) {
    const nmb__style st =
        nmb__style_of(d->run, d->store, d->fig->series, d->series.value[s]);
    if (has_any(b, facet, s, false))
      fprintf(b->page.gp,
              ", \\\n  '%s.dat' index %d using 1:2:(%.4g) with boxes lw 0.6 fc rgb '%s'",
              d->fig->name, facet * b->nseries + s, 2 * half, st.rgb);
    for (int g = 0; g < b->ngroup + b->mean; g++) {
      const nmb__bar *bar = bar_at(b, facet, g, s);
      if (bar->missing == NULL)
        nmb__page_hatch(&b->page, st, bar_x(b, g, s) - half, bar_x(b, g, s) + half, 0,
                        bar->mean.value);
    }
  }
  nmb__page_hatched(&b->page);
}

static void
write_panel(bars *b, int facet)
{
  const nmb__figdata *d = b->d;
  FILE *gp = b->page.gp;
  nmb__page_panel(&b->page, facet, nmb__label(d->all, d->facet.value[facet]), -0.55,
                  b->ngroup - 0.45 + (b->mean ? 1 + MEAN_GAP : 0), 0, b->ymax);
  write_ticks(b);
  write_labels(b, facet);
  fprintf(gp, "plot 1 with lines lw 0.8 dt 2 lc rgb '#000000'");
  write_boxes(b, facet);
  for (int s = 0; s < b->nseries; s++)
    if (has_any(b, facet, s, true))
      fprintf(gp,
              ", \\\n  '%s.dat' index %d using 1:3:(0):($4-$3) with vectors arrowstyle 1",
              d->fig->name, facet * b->nseries + s);
  fprintf(gp, "\n");
}

/* "n = 16", or "n = 8-16" where groups differ. */
static const char *
count_text(const bars *b, bool mean)
{
  int lo = 0, hi = 0;
  for (int f = 0; f < b->nfacet; f++)
    for (int g = mean ? b->ngroup : 0; g < b->ngroup + mean; g++)
      for (int s = 0; s < b->nseries; s++) {
        const int n = bar_at(b, f, g, s)->mean.n;
        if (n == 0)
          continue;
        lo = lo == 0 || n < lo ? n : lo;
        hi = n > hi ? n : hi;
      }
  return nmb__count_text(b->d->run, lo, hi);
}

static const char *
note_text(const bars *b)
{
  const nmb__figure *fig = b->d->fig;
  const char *mean = "";
  if (b->mean)
    mean = nmb_format(b->d->run, "; geomean: %s %ss", count_text(b, true),
                      fig->unit == NULL ? fig->group : fig->unit);
  return nmb_format(b->d->run,
                    "bars: geometric mean, %s each%s; whiskers: %g%% bootstrap CI",
                    count_text(b, false), mean, 100 * fig->confidence);
}

/* Labels under the groups, as wide as a group, and the room that they need. */
static double
make_ticks(bars *b, double width)
{
  const double each = width / (b->ngroup + (b->mean ? 1 + MEAN_GAP : 0));
  int lines = 1;
  b->tick = NMB_NEW(b->d->run, const char *, b->ngroup + 1);
  for (int g = 0; g < b->ngroup + b->mean; g++) {
    const char *label =
        g == b->ngroup ? "geomean" : nmb__label(b->d->all, b->d->group.value[g]);
    b->tick[g] = nmb__wrap(b->d->run, label, each - 3);
    const int n = nmb__text_lines(b->tick[g]);
    lines = n > lines ? n : lines;
  }
  return 5 + 8.5 * lines;
}

nmb_status
nmb__draw_bars(const nmb__figdata *d, const char *dir)
{
  bars b = {.d = d,
            .ngroup = d->group.n,
            .nseries = d->series.n,
            .nfacet = d->facet.n,
            .mean = d->fig->geomean && d->group.n > 1};
  compute(&b);
  NMB_TRY(nmb__page_open(d, dir, &b.page));
  const nmb__figure *fig = d->fig;
  nmb__layout l = {.panels = b.nfacet,
                   .panel = nmb__panel_height(fig, b.nfacet > 1 ? 68 : 92),
                   .nlegend = b.nseries,
                   .legend = nmb__series_entries(d),
                   .note = note_text(&b)};
  l.ylabel = nmb__figdata_ratio_name(d);
  nmb__page_layout(&b.page, &l);
  l.below = make_ticks(&b, nmb__page_inner(&b.page));
  nmb__page_layout(&b.page, &l);
  write_data(&b);
  for (int f = 0; f < b.nfacet; f++)
    write_panel(&b, f);
  return nmb__page_close(&b.page);
}
