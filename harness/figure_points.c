/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Points: lines of speed-up against a number. */
#include "harness/figure_kinds.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* -------------------------------------------------------------------- lines */
typedef struct curves {
  const nmb__figdata *d;
  nmb__page page;
  nmb__bar *bar; /* [nfacet][nseries][nx] */
  double *x;     /* [nx] sorted */
  int *group;    /* [nx] row of the group axis */
  int nx, lo, hi;
  double ymin, ymax;
} curves;

static nmb_status
sort_x(curves *k)
{
  const nmb__figdata *d = k->d;
  k->nx = d->group.n;
  k->x = NMB_NEW(d->run, double, k->nx);
  k->group = NMB_NEW(d->run, int, k->nx);
  for (int i = 0; i < k->nx; i++) {
    char *end;
    const double v = strtod(d->group.value[i], &end);
    if (*end != '\0' || end == d->group.value[i])
      return nmb_fail(d->run, NMB_BADINPUT, d->fig->loc,
                      "figure '%s': x is '%s', which holds '%s', expected numbers",
                      d->fig->name, d->fig->x, d->group.value[i]);
    int j = i;
    for (; j > 0 && k->x[j - 1] > v; j--) {
      k->x[j] = k->x[j - 1];
      k->group[j] = k->group[j - 1];
    }
    k->x[j] = v;
    k->group[j] = i;
  }
  return NMB_OK;
}

static nmb__bar *
curve_at(const curves *k, int facet, int series, int i)
{
  return &k->bar[(facet * k->d->series.n + series) * k->nx + i];
}

static void
compute_curves(curves *k)
{
  const nmb__figdata *d = k->d;
  k->bar = NMB_NEW(d->run, nmb__bar, d->facet.n * d->series.n * k->nx);
  k->ymax = 1;
  k->ymin = 1;
  for (int f = 0; f < d->facet.n; f++)
    for (int s = 0; s < d->series.n; s++)
      for (int i = 0; i < k->nx; i++) {
        nmb__bar *b = curve_at(k, f, s, i);
        *b = nmb__figdata_bar(d, f, k->group[i], s, true);
        if (b->missing != NULL)
          continue;
        k->lo = k->lo == 0 || b->mean.n < k->lo ? b->mean.n : k->lo;
        k->hi = b->mean.n > k->hi ? b->mean.n : k->hi;
        k->ymax = fmax(k->ymax, isnan(b->mean.high) ? b->mean.value : b->mean.high);
        k->ymin = fmin(k->ymin, isnan(b->mean.low) ? b->mean.value : b->mean.low);
      }
  k->ymax = d->fig->ymax > 0 ? d->fig->ymax : nmb__round_up(k->ymax);
}

/* Series stand a little apart so that their whiskers can be told apart. */
static double
shifted(const curves *k, int series, int i)
{
  const double by = 0.05 * (series - (k->d->series.n - 1) / 2.0);
  if (strchr(k->d->fig->log, 'x') != NULL)
    return k->x[i] * pow(2, by * 1.5);
  return k->x[i] + by * (k->nx > 1 ? (k->x[k->nx - 1] - k->x[0]) / 12 : 1);
}

static void
write_curves(curves *k)
{
  const nmb__figdata *d = k->d;
  FILE *f = k->page.dat;
  fprintf(f,
          "# value: speed-up in %s over %s (1), geometric mean of n %ss, %g %% bootstrap "
          "interval\n# place: x, moved aside a little for drawing\n",
          d->fig->y, d->fig->relative_to, d->fig->unit, 100 * d->fig->confidence);
  fprintf(f, "# place\tvalue\tlow\thigh\tn\t%s\tseries\tfacet\n", d->fig->x);
  for (int i = 0; i < d->facet.n; i++)
    for (int s = 0; s < d->series.n; s++) {
      nmb__page_block(&k->page,
                      nmb_format(d->run, "%s %s", d->facet.value[i], d->series.value[s]));
      for (int j = 0; j < k->nx; j++) {
        const nmb__bar *b = curve_at(k, i, s, j);
        fprintf(f, "%.6g\t%.6g\t%.6g\t%.6g\t%d\t%.10g\t%s\t%s\n", shifted(k, s, j),
                b->mean.value, b->mean.low, b->mean.high, b->mean.n, k->x[j],
                d->series.value[s], d->facet.value[i]);
      }
    }
}

static void
write_curve_panel(curves *k, int facet)
{
  const nmb__figdata *d = k->d;
  FILE *gp = k->page.gp;
  const bool log = strchr(d->fig->log, 'x') != NULL;
  const double lo = k->x[0], hi = k->x[k->nx - 1], room = 0.06 * (hi - lo) + 1e-9;
  nmb__page_panel(&k->page, facet, nmb__label(d->all, d->facet.value[facet]),
                  log ? lo / 1.5 : lo - room, log ? hi * 1.5 : hi + room, 0, k->ymax);
  fprintf(gp, "%s\nset xtics (", log ? "set logscale x 2" : "unset logscale");
  for (int i = 0; i < k->nx; i++)
    fprintf(gp, "%s'%.10g' %.10g", i > 0 ? ", " : "", k->x[i], k->x[i]);
  const nmb__col *x = nmb__store_col(d->store, d->fig->x);
  const bool unit = x->unit != NULL && *x->unit != '\0' && strcmp(x->unit, "1") != 0;
  fprintf(gp, ")\nset xlabel %s offset 0,0.5\n",
          nmb__gp_quote(d->run, unit ? nmb_format(d->run, "%s (%s)", d->fig->x, x->unit)
                                     : d->fig->x));
  fprintf(gp, "plot 1 with lines lw 0.8 dt 2 lc rgb '#000000'");
  for (int s = 0; s < d->series.n; s++) {
    const nmb__style st =
        nmb__style_of(d->run, d->store, d->fig->series, d->series.value[s]);
    const int index = facet * d->series.n + s;
    bool interval = false, any = false;
    for (int i = 0; i < k->nx; i++) {
      interval = interval || nmb__interval_seen(curve_at(k, facet, s, i)->mean);
      any = any || curve_at(k, facet, s, i)->missing == NULL;
    }
    if (any)
      fprintf(
          gp,
          ", \\\n  '%s.dat' index %d using 1:2 with linespoints pt %d ps 0.5 lw 1.4 lc "
          "rgb '%s'",
          d->fig->name, index, st.point, st.rgb);
    if (interval)
      fprintf(gp,
              ", \\\n  '%s.dat' index %d using 1:3:(0):($4-$3) with vectors heads size "
              "screen 0.004,90 lw 0.8 lc rgb '%s'",
              d->fig->name, index, st.rgb);
  }
  fprintf(gp, "\n");
}

nmb_status
nmb__draw_lines(const nmb__figdata *d, const char *dir)
{
  curves k = {.d = d};
  NMB_TRY(sort_x(&k));
  compute_curves(&k);
  NMB_TRY(nmb__page_open(d, dir, &k.page));
  const nmb__layout l = {
      .panels = d->facet.n,
      .panel = nmb__panel_height(d->fig, d->facet.n > 1 ? 68 : 100),
      .below = 24,
      .ylabel = nmb__figdata_ratio_name(d),
      .sample = NMB__SAMPLE_LINE,
      .nlegend = d->series.n,
      .legend = nmb__series_entries(d),
      .note = nmb_format(
          d->run, "points: geometric mean, %s %ss; whiskers: %g%% bootstrap CI",
          nmb__count_text(d->run, k.lo, k.hi), d->fig->unit, 100 * d->fig->confidence)};
  nmb__page_layout(&k.page, &l);
  write_curves(&k);
  for (int f = 0; f < d->facet.n; f++)
    write_curve_panel(&k, f);
  return nmb__page_close(&k.page);
}
