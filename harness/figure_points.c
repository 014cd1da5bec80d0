/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Points: two metrics against each other with their Pareto front, and lines of
 * speed-up against a number. */
#include "harness/figure_kinds.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------- pareto */
typedef struct cloud {
  const nmb__figdata *d;
  nmb__page page;
  const nmb__col *x, *y;
  double fx, fy; /* from stored to drawn values */
  const char *ux, *uy;
  bool *front; /* [ncell] */
  int nfront, npoint;
} cloud;

static bool
drawn(const cloud *k, int cell, int facet)
{
  const nmb__figdata *d = k->d;
  return d->use[cell] && d->facet.of[cell] == facet && nmb__cell_ok(d->store, cell) &&
         isfinite(k->x->num[cell]) && isfinite(k->y->num[cell]);
}

/* Smaller is better inside; metrics that should be large change sign. */
static double
cost(const nmb__col *c, int cell)
{
  return c->better != NULL && strcmp(c->better, "more") == 0 ? -c->num[cell]
                                                             : c->num[cell];
}

static void
find_front(cloud *k, int facet)
{
  const int n = k->d->store->ncell;
  double *x = NMB_NEW(k->d->run, double, n + 1), *y = NMB_NEW(k->d->run, double, n + 1);
  bool *on = NMB_NEW(k->d->run, bool, n + 1);
  for (int c = 0; c < n; c++) {
    const bool in = drawn(k, c, facet);
    x[c] = in ? cost(k->x, c) : NAN;
    y[c] = in ? cost(k->y, c) : NAN;
    k->npoint += in;
  }
  k->nfront += nmb__pareto(k->d->run, x, y, n, on);
  for (int c = 0; c < n; c++)
    k->front[c] = k->front[c] || on[c];
}

typedef struct xy {
  double x, y;
} xy;

static int
by_x(const void *va, const void *vb)
{
  const xy *a = va, *b = vb;
  if (a->x != b->x)
    return a->x < b->x ? -1 : 1;
  return (a->y < b->y) - (a->y > b->y);
}

static void
write_front(cloud *k, int facet)
{
  const int n = k->d->store->ncell;
  xy *p = NMB_NEW(k->d->run, xy, n + 1);
  int m = 0;
  for (int c = 0; c < n; c++)
    if (drawn(k, c, facet) && k->front[c])
      p[m++] = (xy){k->x->num[c] * k->fx, k->y->num[c] * k->fy};
  qsort(p, (size_t)m, sizeof *p, by_x);
  nmb__page_block(&k->page, nmb_format(k->d->run, "front %s", k->d->facet.value[facet]));
  for (int i = 0; i < m; i++)
    fprintf(k->page.dat, "%.6g\t%.6g\n", p[i].x, p[i].y);
}

static void
write_cloud(cloud *k)
{
  const nmb__figdata *d = k->d;
  FILE *f = k->page.dat;
  fprintf(f, "# x: %s (%s), y: %s (%s), n = %d cells, %d on the front (front = 1)\n",
          d->fig->x, k->ux, d->fig->y, k->uy, k->npoint, k->nfront);
  fprintf(f, "# x\ty\tfront\tseries\tfacet\tkey\n");
  for (int i = 0; i < d->facet.n; i++) {
    for (int s = 0; s < d->series.n; s++) {
      nmb__page_block(&k->page,
                      nmb_format(d->run, "%s %s", d->facet.value[i], d->series.value[s]));
      int written = 0;
      for (int c = 0; c < d->store->ncell; c++)
        if (drawn(k, c, i) && d->series.of[c] == s) {
          fprintf(f, "%.6g\t%.6g\t%d\t%s\t%s\t%s\n", k->x->num[c] * k->fx,
                  k->y->num[c] * k->fy, k->front[c], d->series.value[s],
                  d->facet.value[i], nmb__store_text(d->store, "key", c));
          written++;
        }
      if (written == 0) /* gnuplot would count an empty block out */
        fprintf(f, "NaN\tNaN\t0\t%s\t%s\t-\n", d->series.value[s], d->facet.value[i]);
    }
    write_front(k, i);
  }
}

static void
write_better(const cloud *k)
{
  const bool right = k->x->better != NULL && strcmp(k->x->better, "more") == 0;
  const bool up = k->y->better != NULL && strcmp(k->y->better, "more") == 0;
  const double x0 = right ? 0.88 : 0.12, x1 = right ? 0.97 : 0.03;
  const double y0 = up ? 0.84 : 0.16, y1 = up ? 0.96 : 0.04;
  fprintf(k->page.gp,
          "set arrow from graph %g,%g to graph %g,%g lw 1.2 size graph 0.02,25 filled\n"
          "set label 'better' at graph %g,%g %s\n",
          x0, y0, x1, y1, x0 + (right ? -0.01 : 0.01), y0, right ? "right" : "left");
}

/* The points of a series that are on the front, or those that are not.  gnuplot
 * complains about a plot without any point. */
static void
write_points(const cloud *k, int facet, int series, bool front)
{
  const nmb__figdata *d = k->d;
  const nmb__style st =
      nmb__style_of(d->run, d->store, d->fig->series, d->series.value[series]);
  int n = 0;
  for (int c = 0; c < d->store->ncell; c++)
    n += drawn(k, c, facet) && d->series.of[c] == series && k->front[c] == front;
  if (n > 0)
    fprintf(
        k->page.gp,
        ", \\\n  '%s.dat' index %d using 1:($3 == %d ? $2 : NaN) with points pt %d ps %s "
        "lc rgb '%s' notitle",
        d->fig->name, facet * (d->series.n + 1) + series, front, st.point,
        front ? "0.7" : "0.5", front ? st.rgb : "#A8A8A8");
}

static double
largest(const cloud *k, const nmb__col *c)
{
  double max = 0;
  for (int i = 0; i < k->d->store->ncell; i++)
    for (int f = 0; f < k->d->facet.n; f++)
      if (drawn(k, i, f))
        max = fmax(max, c->num[i]);
  return max;
}

/* From 0, or on a logarithmic axis a little around the points. */
static void
cloud_range(const cloud *k, const nmb__col *c, double factor, char axis, double *lo,
            double *hi)
{
  double min = INFINITY;
  for (int i = 0; i < k->d->store->ncell; i++)
    for (int f = 0; f < k->d->facet.n; f++)
      if (drawn(k, i, f))
        min = fmin(min, c->num[i] * factor);
  const double max = largest(k, c) * factor;
  const bool log = strchr(k->d->fig->log, axis) != NULL && min > 0;
  const double margin = log ? pow(max / min, 0.12) : 1;
  *lo = log ? min / margin / 1.1 : 0;
  *hi = log ? max * 1.1 : nmb__round_up(max);
}

static void
write_cloud_panel(cloud *k, int facet)
{
  const nmb__figdata *d = k->d;
  FILE *gp = k->page.gp;
  const char *name = d->fig->name;
  const int base = facet * (d->series.n + 1);
  double x0, x1, y0, y1;
  cloud_range(k, k->x, k->fx, 'x', &x0, &x1);
  cloud_range(k, k->y, k->fy, 'y', &y0, &y1);
  nmb__page_panel(&k->page, facet, nmb__label(d->all, d->facet.value[facet]), x0, x1, y0,
                  y1);
  fprintf(gp, "set grid xtics ytics\nset xlabel %s offset 0,0.5\n",
          nmb__gp_quote(d->run, nmb_format(d->run, "%s (%s)", d->fig->x, k->ux)));
  if (strchr(d->fig->log, 'x') != NULL)
    fprintf(gp, "set logscale x\nset xtics (%s)\n", nmb__log_ticks(d->run, x0, x1));
  if (strchr(d->fig->log, 'y') != NULL)
    fprintf(gp, "set logscale y\nset ytics (%s)\n", nmb__log_ticks(d->run, y0, y1));
  write_better(k);
  fprintf(gp, "plot '%s.dat' index %d using 1:2 with %s lw 1.2 lc rgb '#000000' notitle",
          name, base + d->series.n,
          k->y->better != NULL && strcmp(k->y->better, "more") == 0 ? "fsteps" : "steps");
  for (int s = 0; s < d->series.n; s++)
    write_points(k, facet, s, false);
  for (int s = 0; s < d->series.n; s++)
    write_points(k, facet, s, true);
  fprintf(gp, "\n");
}

nmb_status
nmb__draw_pareto(const nmb__figdata *d, const char *dir)
{
  cloud k = {.d = d};
  NMB_TRY(nmb__column_real(d->run, d->store, d->fig->loc, d->fig->x, &k.x));
  NMB_TRY(nmb__column_real(d->run, d->store, d->fig->loc, d->fig->y, &k.y));
  k.front = NMB_NEW(d->run, bool, d->store->ncell + 1);
  for (int f = 0; f < d->facet.n; f++)
    find_front(&k, f);
  if (k.npoint == 0)
    return nmb_fail(d->run, NMB_BADINPUT, d->fig->loc,
                    "figure '%s': no cell has both %s and %s", d->fig->name, d->fig->x,
                    d->fig->y);
  k.ux = nmb__axis_unit(d->run, k.x->unit, largest(&k, k.x), &k.fx);
  k.uy = nmb__axis_unit(d->run, k.y->unit, largest(&k, k.y), &k.fy);
  NMB_TRY(nmb__page_open(d, dir, &k.page));
  const nmb__layout l = {
      .panels = d->facet.n,
      .panel = nmb__panel_height(d->fig, d->facet.n > 1 ? 100 : 120),
      .below = 24,
      .ylabel = nmb_format(d->run, "%s (%s)", d->fig->y, k.uy),
      .sample = NMB__SAMPLE_POINT,
      .nlegend = d->series.n,
      .legend = nmb__series_entries(d),
      .note =
          nmb_format(d->run, "n = %d cells; grey: another is better in both", k.npoint)};
  nmb__page_layout(&k.page, &l);
  write_cloud(&k);
  for (int f = 0; f < d->facet.n; f++)
    write_cloud_panel(&k, f);
  return nmb__page_close(&k.page);
}

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
