/* SPDX-License-Identifier: GPL-3.0-or-later */
/* From a baseline to the whole pipeline: by how much each part's absence slows the
 * whole down, and what is left over because effects do not multiply. */
#include "harness/figure_kinds.h"

#include <math.h>
#include <string.h>

typedef struct fall {
  nmb_run *run;
  const nmb__figdata *d; /* ratio[]: over the baseline */
  nmb__figdata rest;     /* ratio[]: over the whole, so the inverse of a part's share */
  nmb__page page;
  int whole;     /* of d->series */
  int nstep;     /* parts left out */
  int *step;     /* [nstep] of rest.series */
  nmb__bar *bar; /* [nfacet][nstep + 2] parts, remainder, total */
  double ymax;
} fall;

static nmb_status
find_steps(fall *k)
{
  const nmb__figdata *d = k->d;
  const char **leave, **pipeline;
  NMB_TRY(nmb__column_text(k->run, d->store, d->fig->loc, "ablation", &leave));
  NMB_TRY(nmb__column_text(k->run, d->store, d->fig->loc, "pipeline", &pipeline));
  k->whole = NMB_NONE;
  for (int s = 0; s < d->series.n; s++)
    if (strcmp(d->series.value[s], d->fig->of) == 0)
      k->whole = s;
  k->step = NMB_NEW(k->run, int, k->rest.series.n + 1);
  for (int s = 0; s < k->rest.series.n; s++) {
    bool is = false;
    for (int c = 0; c < d->store->ncell && !is; c++)
      is = strcmp(pipeline[c], k->rest.series.value[s]) == 0 &&
           strcmp(leave[c], "leave") == 0;
    if (is)
      k->step[k->nstep++] = s;
  }
  if (k->whole == NMB_NONE || k->nstep == 0)
    return nmb_fail(
        k->run, NMB_BADINPUT, d->fig->loc,
        "figure '%s': no cells of pipeline '%s', or of its leave-one-out ablation",
        d->fig->name, d->fig->of);
  return NMB_OK;
}

static void
compute(fall *k)
{
  const nmb__figdata *d = k->d;
  k->bar = NMB_NEW(k->run, nmb__bar, d->facet.n * (k->nstep + 2));
  double max = 1;
  for (int f = 0; f < d->facet.n; f++) {
    nmb__bar *b = k->bar + f * (k->nstep + 2);
    double product = 1, top = 1;
    for (int i = 0; i < k->nstep; i++) {
      b[i] = nmb__figdata_bar(&k->rest, f, NMB_NONE, k->step[i], true);
      const nmb__interval r = b[i].mean;
      b[i].mean = (nmb__interval){r.n, 1 / r.value, 1 / r.high, 1 / r.low};
      if (b[i].missing == NULL)
        product *= b[i].mean.value;
      top = fmax(top, product);
    }
    nmb__bar *total = &b[k->nstep + 1];
    *total = nmb__figdata_bar(d, f, NMB_NONE, k->whole, true);
    b[k->nstep].mean =
        (nmb__interval){total->mean.n, total->mean.value / product, NAN, NAN};
    max = fmax(max,
               fmax(top, isnan(total->mean.high) ? total->mean.value : total->mean.high));
  }
  k->ymax = d->fig->ymax > 0 ? d->fig->ymax : nmb__round_up(max * 1.06);
}

static const char *
step_label(const fall *k, int i)
{
  if (i == k->nstep)
    return "rest";
  if (i > k->nstep)
    return nmb__label(k->d->all, k->d->fig->of);
  const char *v = k->rest.series.value[k->step[i]];
  return nmb__label(k->d->all, *v == '-' ? v + 1 : v);
}

static void
write_data(fall *k)
{
  const nmb__figdata *d = k->d;
  FILE *f = k->page.dat;
  fprintf(
      f,
      "# factor, low, high: slow-down in %s when the part is left out of '%s' (1), %g %% "
      "bootstrap interval over n %ss\n",
      d->fig->y, d->fig->of, 100 * d->fig->confidence,
      d->fig->unit == NULL ? d->fig->group : d->fig->unit);
  fprintf(f, "# from, to: of the bar; the last bar is the speed-up of '%s' over '%s'\n",
          d->fig->of, d->fig->relative_to);
  fprintf(f, "# x\tfrom\tto\tfactor\tlow\thigh\tn\tpart\tfacet\twhisker\twhisker\n");
  for (int i = 0; i < d->facet.n; i++) {
    nmb__page_block(&k->page, d->facet.value[i]);
    double at = 1;
    for (int s = 0; s < k->nstep + 2; s++) {
      const nmb__interval m = k->bar[i * (k->nstep + 2) + s].mean;
      const bool total = s == k->nstep + 1;
      const double from = total ? 0 : at, to = total ? m.value : at * m.value;
      const double base = total ? 1 : at;
      fprintf(f, "%d\t%.6g\t%.6g\t%.6g\t%.6g\t%.6g\t%d\t%s\t%s\t%.6g\t%.6g\n", s, from,
              to, m.value, m.low, m.high, m.n, step_label(k, s), d->facet.value[i],
              base * m.low, base * m.high);
      at = isnan(to) ? at : to;
    }
  }
}

static nmb__style
step_style(const fall *k, int s)
{
  if (s == k->nstep)
    return (nmb__style){"#FFFFFF", 0, 6};
  const char *v = s > k->nstep ? k->d->fig->of : k->rest.series.value[k->step[s]];
  return nmb__style_of(k->run, k->d->store, "pipeline", *v == '-' ? v + 1 : v);
}

static void
write_panel(fall *k, int facet, double each)
{
  const nmb__figdata *d = k->d;
  FILE *gp = k->page.gp;
  nmb__page_panel(&k->page, facet, nmb__label(d->all, d->facet.value[facet]), -0.6,
                  k->nstep + 1.6, 0, k->ymax);
  fprintf(gp, "set xtics scale 0 (");
  for (int s = 0; s < k->nstep + 2; s++)
    fprintf(gp, "%s%s %d", s > 0 ? ", " : "",
            nmb__gp_quote(k->run, nmb__wrap(k->run, step_label(k, s), each - 2)), s);
  fprintf(gp, ")\nset boxwidth 0.7\nplot 1 with lines lw 0.8 dt 2 lc rgb '#000000'");
  double at = 1;
  for (int s = 0; s < k->nstep + 2; s++) { /* open, low, high, close of a candle */
    const nmb__style st = step_style(k, s);
    const double m = k->bar[facet * (k->nstep + 2) + s].mean.value;
    const double from = s == k->nstep + 1 ? 0 : at, to = s == k->nstep + 1 ? m : at * m;
    fprintf(gp,
            ", \\\n  '%s.dat' index %d every ::%d::%d using 1:2:2:3:3 with candlesticks "
            "lw 0.6 fc rgb '%s'",
            d->fig->name, facet, s, s, st.rgb);
    nmb__page_hatch(&k->page, st, s - 0.35, s + 0.35, fmin(from, to), fmax(from, to));
    at = isnan(to) ? at : to;
  }
  nmb__page_hatched(&k->page);
  fprintf(
      gp,
      ", \\\n  '%s.dat' index %d using 1:10:(0):($11-$10) with vectors arrowstyle 1, \\\n"
      "  '%s.dat' index %d using 1:(($2 > $3 ? $2 : $3) + %.4g):(sprintf('%%.2f', $4)) "
      "with labels center\n",
      d->fig->name, facet, d->fig->name, facet, k->ymax * 0.08);
}

nmb_status
nmb__draw_waterfall(const nmb__figdata *d, const char *dir)
{
  fall k = {.run = d->run, .d = d};
  nmb__figure rest = *d->fig;
  rest.relative_to = d->fig->of;
  NMB_TRY(nmb__figdata_open(d->run, d->store, d->all, &rest, &k.rest));
  NMB_TRY(nmb__figdata_speedup(&k.rest));
  NMB_TRY(find_steps(&k));
  compute(&k);
  NMB_TRY(nmb__page_open(d, dir, &k.page));
  const char *unit = d->fig->unit == NULL ? d->fig->group : d->fig->unit;
  nmb__layout l = {
      .panels = d->facet.n,
      .panel = nmb__panel_height(d->fig, d->facet.n > 1 ? 72 : 92),
      .ylabel = nmb__figdata_ratio_name(d),
      .note = nmb_format(
          d->run,
          "each bar: what leaving the part out of '%s' costs; rest: what this leaves "
          "unexplained; geometric mean, "
          "n\u00a0=\u00a0%d %ss; whiskers: %g%% bootstrap CI",
          nmb__label(d->all, d->fig->of), k.bar[k.nstep + 1].mean.n, unit,
          100 * d->fig->confidence)};
  nmb__page_layout(&k.page, &l);
  const double each = nmb__page_inner(&k.page) / (k.nstep + 2.2);
  int lines = 1;
  for (int s = 0; s < k.nstep + 2; s++) {
    const int n = nmb__text_lines(nmb__wrap(d->run, step_label(&k, s), each - 2));
    lines = n > lines ? n : lines;
  }
  l.below = 5 + 8.5 * lines;
  nmb__page_layout(&k.page, &l);
  write_data(&k);
  for (int f = 0; f < d->facet.n; f++)
    write_panel(&k, f, each);
  return nmb__page_close(&k.page);
}
