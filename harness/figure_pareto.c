/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Two metrics against each other, if asked with a third as the area of points, with their
 * Pareto front and labels that keep clear of each other. */
#include "harness/figure_kinds.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct cloud {
  const nmb__figdata *d;
  nmb__page page;
  const nmb__col *x, *y, *z; /* z: NULL, or what the area of a point shows */
  const nmb__col *e;         /* NULL, or what y may be off by */
  double fx, fy;             /* from stored to drawn values */
  const char *ux, *uy;
  const char **label; /* NULL, or [ncell] what is written beside points */
  bool *front;        /* [ncell] nothing is better in all of x, y and z */
  bool *line;         /* [ncell] in both of x and y */
  int nfront, npoint;
  int ntag; /* labels and arrows of the panel at hand: those before it go */
} cloud;

enum { TAG = 5000 }; /* of the first; the page has labels of its own */

static bool
drawn(const cloud *k, int cell, int facet)
{
  const nmb__figdata *d = k->d;
  return d->use[cell] && d->facet.of[cell] == facet && nmb__cell_ok(d->store, cell) &&
         isfinite(k->x->num[cell]) && isfinite(k->y->num[cell]) &&
         (!k->z || isfinite(k->z->num[cell]));
}

static bool
drawn_at(const void *cloud_of, int cell, int facet)
{
  return drawn(cloud_of, cell, facet);
}

/* As drawn: what is below the axis stands on its edge. */
static double
height(const cloud *k, int cell)
{
  return fmax(k->y->num[cell] * k->fy, k->d->fig->ymin);
}

/* Smaller is better inside; metrics that should be large change sign. */
static double
cost(const nmb__col *c, int cell)
{
  return c->better != NULL && strcmp(c->better, "more") == 0 ? -c->num[cell]
                                                             : c->num[cell];
}

/* Is cell a at least as good as b, and better in something? */
static bool
beats(const cloud *k, int a, int b, bool area)
{
  const nmb__col *col[3] = {k->x, k->y, area ? k->z : NULL};
  bool better = false;
  for (int i = 0; i < 3 && col[i]; i++) {
    if (cost(col[i], a) > cost(col[i], b))
      return false;
    better |= cost(col[i], a) < cost(col[i], b);
  }
  return better;
}

static void
find_front(cloud *k, int facet)
{
  const int n = k->d->store->ncell;
  for (int c = 0; c < n; c++) {
    if (!drawn(k, c, facet))
      continue;
    k->front[c] = k->line[c] = true;
    for (int o = 0; o < n && k->line[c]; o++)
      k->line[c] = !drawn(k, o, facet) || !beats(k, o, c, false);
    for (int o = 0; o < n && k->front[c]; o++)
      k->front[c] = !drawn(k, o, facet) || !beats(k, o, c, true);
    k->npoint++;
    k->nfront += k->front[c];
  }
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
    if (drawn(k, c, facet) && k->line[c])
      p[m++] = (xy){k->x->num[c] * k->fx, height(k, c)};
  qsort(p, (size_t)m, sizeof *p, by_x);
  nmb__page_block(&k->page, nmb_format(k->d->run, "front %s", k->d->facet.value[facet]));
  for (int i = 0; i < m; i++)
    fprintf(k->page.dat, "%.6g\t%.6g\n", p[i].x, p[i].y);
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

/* Its area is as large as z. */
static double
point_size(const cloud *k, int cell)
{
  const double own = k->front[cell] ? 0.7 : 0.5;
  return k->z ? 1.1 * sqrt(fmax(k->z->num[cell], 0) / largest(k, k->z)) : own;
}

/* The ends of y's whisker; nothing is below the axis. */
static void
write_whisker(const cloud *k, int cell)
{
  const double y = height(k, cell), e = k->e->num[cell] * k->fy;
  const double least = k->d->fig->ymin > 0 ? k->d->fig->ymin : y / 100;
  fprintf(k->page.dat, "\t%.6g\t%.6g", fmax(y - e, least), y + e);
}

static void
write_cloud(cloud *k)
{
  const nmb__figdata *d = k->d;
  FILE *f = k->page.dat;
  fprintf(f, "# x: %s (%s), y: %s (%s), n = %d cells, %d on the front (front = 1)\n",
          d->fig->x, k->ux, d->fig->y, k->uy, k->npoint, k->nfront);
  fprintf(f, "# x\ty\tfront\tsize\tlabel\tseries\tfacet\tkey%s\n",
          k->e ? "\tlow\thigh" : "");
  for (int i = 0; i < d->facet.n; i++) {
    for (int s = 0; s < d->series.n; s++) {
      nmb__page_block(&k->page,
                      nmb_format(d->run, "%s %s", d->facet.value[i], d->series.value[s]));
      int written = 0;
      for (int c = 0; c < d->store->ncell; c++)
        if (drawn(k, c, i) && d->series.of[c] == s) {
          fprintf(f, "%.6g\t%.6g\t%d\t%.3f\t%s\t%s\t%s\t%s", k->x->num[c] * k->fx,
                  height(k, c), k->front[c], point_size(k, c),
                  k->label ? k->label[c] : "-", d->series.value[s], d->facet.value[i],
                  nmb__store_text(d->store, "key", c));
          if (k->e)
            write_whisker(k, c);
          fprintf(f, "\n");
          written++;
        }
      if (written == 0) /* gnuplot would count an empty block out */
        fprintf(f, "NaN\tNaN\t0\t0\t-\t%s\t%s\t-%s\n", d->series.value[s],
                d->facet.value[i], k->e ? "\tNaN\tNaN" : "");
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
        ", \\\n  '%s.dat' index %d using 1:($3 == %d ? $2 : NaN):4 with points pt %d ps "
        "variable lc rgb '%s' notitle",
        d->fig->name, facet * (d->series.n + 1) + series, front, st.point,
        front ? st.rgb : "#A8A8A8");
}

static void
write_whiskers(const cloud *k, int facet)
{
  const nmb__figdata *d = k->d;
  for (int s = 0; k->e && s < d->series.n; s++) {
    int n = 0;
    for (int c = 0; c < d->store->ncell; c++)
      n += drawn(k, c, facet) && d->series.of[c] == s;
    if (n > 0)
      fprintf(k->page.gp,
              ", \\\n  '%s.dat' index %d using 1:9:(0):($10 - $9) with vectors nohead lw "
              "0.9 lc rgb '#606060' notitle",
              d->fig->name, facet * (d->series.n + 1) + s);
  }
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
  if (c == k->y && k->d->fig->ymin > 0)
    min = fmax(min, k->d->fig->ymin);
  const double max = largest(k, c) * factor;
  const bool log = strchr(k->d->fig->log, axis) != NULL && min > 0;
  const double margin = log ? pow(max / min, 0.12) : 1;
  *lo = log ? min / margin / 1.1 : 0;
  *hi = log ? max * (k->label ? margin : 1) * 1.1 : nmb__round_up(max);
}

/* ------------------------------------------------------------------- labels */
typedef struct rect {
  double x0, y0, x1, y1; /* pt, from the lower left of the panel */
} rect;

typedef struct field {
  const cloud *k;
  double width, height;   /* of the panel, pt */
  double x0, x1, y0, y1;  /* axes */
  rect *taken;            /* points, then labels */
  int ntaken;
} field;

static double
place(double v, double lo, double hi, bool log, double length)
{
  return length * (log ? log10(v / lo) / log10(hi / lo) : (v - lo) / (hi - lo));
}

static void
spot(const field *f, int cell, double *x, double *y)
{
  const char *log = f->k->d->fig->log;
  *x = place(f->k->x->num[cell] * f->k->fx, f->x0, f->x1, strchr(log, 'x'), f->width);
  *y = place(height(f->k, cell), f->y0, f->y1, strchr(log, 'y'), f->height);
}

/* Of what stands there already; outside of the panel counts much. */
static double
overlap(const field *f, rect r)
{
  double sum = r.x0 < 1 || r.y0 < 1 || r.x1 > f->width - 1 || r.y1 > f->height - 1
                   ? 1e6
                   : 0;
  for (int i = 0; i < f->ntaken; i++) {
    const rect t = f->taken[i];
    const double w = fmin(r.x1, t.x1) - fmax(r.x0, t.x0),
                 h = fmin(r.y1, t.y1) - fmax(r.y0, t.y0);
    sum += w > 0 && h > 0 ? w * h : 0;
  }
  return sum;
}

/* The nearest free place around the point: eight directions, then further out, with a line
 * from the point to it. */
static void
write_label(cloud *k, field *f, int cell)
{
  static const int dir[8][2] = {{1, 0}, {-1, 0}, {0, 1}, {0, -1},
                                {1, 1}, {-1, 1}, {1, -1}, {-1, -1}};
  const char *text = f->k->label[cell];
  const double w = 0.82 * nmb__text_width(text), h = 0.82 * NMB__FONT;
  double x, y, best = INFINITY, bx = 0, by = 0;
  int ring = 0;
  rect at = {0};
  spot(f, cell, &x, &y);
  for (int i = 0; i < 8 * 7 && best > 0; i++) {
    const double away = 3.5 + 6 * (i / 8);
    const double cx = x + dir[i % 8][0] * (away + w / 2),
                 cy = y + dir[i % 8][1] * (away + h / 2 - (dir[i % 8][0] ? 1.5 : 0));
    const rect r = {cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2};
    const double o = overlap(f, r);
    if (o < best) {
      best = o;
      at = r;
      bx = cx;
      by = cy;
      ring = i / 8;
    }
  }
  f->taken[f->ntaken++] = at;
  FILE *gp = f->k->page.gp;
  const int tag = TAG + k->ntag++;
  fprintf(gp, "set label %d %s at graph %.4f,%.4f center font ',%.1f' textcolor rgb '%s'\n",
          tag, nmb__gp_quote(f->k->d->run, text), bx / f->width, by / f->height,
          0.8 * NMB__FONT, f->k->front[cell] ? "#000000" : "#707070");
  const bool far = ring > 0; /* an arrow to itself is not drawn, but can be taken back */
  fprintf(gp,
          "set arrow %d from graph %.4f,%.4f to graph %.4f,%.4f nohead lw 0.4 lc rgb "
          "'#909090'\n",
          tag, x / f->width, y / f->height,
          (far ? fmin(fmax(x, at.x0), at.x1) : x) / f->width,
          (far ? fmin(fmax(y, at.y0), at.y1) : y) / f->height);
}

/* The steps of the front from point to point: across, then down. */
static void
take_line(field *f, int facet)
{
  const cloud *k = f->k;
  const int n = k->d->store->ncell;
  for (int c = 0; c < n; c++) {
    double x0, y0, x1 = INFINITY, y1 = 0;
    if (!drawn(k, c, facet) || !k->line[c])
      continue;
    spot(f, c, &x0, &y0);
    for (int o = 0; o < n; o++) { /* the next to the right */
      double x, y;
      if (o == c || !drawn(k, o, facet) || !k->line[o])
        continue;
      spot(f, o, &x, &y);
      if (x > x0 && x < x1) {
        x1 = x;
        y1 = y;
      }
    }
    if (!isfinite(x1))
      continue;
    f->taken[f->ntaken++] = (rect){x0, y0 - 0.5, x1, y0 + 0.5};
    f->taken[f->ntaken++] = (rect){x1 - 0.5, fmin(y0, y1), x1 + 0.5, fmax(y0, y1)};
  }
}

/* Those of the front have the first choice. */
static void
write_labels(cloud *k, int facet, const field *axes)
{
  const int n = k->d->store->ncell;
  field f = *axes;
  f.k = k;
  f.taken = NMB_NEW(k->d->run, rect, 4 * n + 2);
  for (int c = 0; c < n; c++)
    if (drawn(k, c, facet)) {
      const double r = 1 + 2.2 * point_size(k, c);
      double x, y;
      spot(&f, c, &x, &y);
      f.taken[f.ntaken++] = (rect){x - r, y - r, x + r, y + r};
    }
  take_line(&f, facet);
  f.taken[f.ntaken++] = (rect){0, 0, 0.12 * f.width + 30, 0.19 * f.height}; /* "better" */
  for (int front = 1; front >= 0; front--)
    for (int c = 0; c < n; c++)
      if (drawn(k, c, facet) && k->front[c] == (front == 1))
        write_label(k, &f, c);
}

static const char *
axis_text(const cloud *k, const char *column, const char *unit)
{
  const char *name = nmb__label(k->d->all, column);
  return unit && *unit && strcmp(unit, "1") ? nmb_format(k->d->run, "%s (%s)", name, unit)
                                            : name;
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
          nmb__gp_quote(d->run, axis_text(k, d->fig->x, k->ux)));
  if (strchr(d->fig->log, 'x') != NULL)
    fprintf(gp, "set logscale x\nset xtics (%s)\n", nmb__log_ticks(d->run, x0, x1));
  if (strchr(d->fig->log, 'y') != NULL)
    fprintf(gp, "set logscale y\nset ytics (%s)\n", nmb__log_ticks(d->run, y0, y1));
  if (k->ntag > 0)
    fprintf(gp, "do for [i=%d:%d] { unset label i; unset arrow i }\n", TAG,
            TAG + k->ntag - 1);
  k->ntag = 0;
  write_better(k);
  if (k->label)
    write_labels(k, facet, &(field){.width = nmb__page_inner(&k->page),
                                    .height = k->page.layout.panel,
                                    .x0 = x0,
                                    .x1 = x1,
                                    .y0 = y0,
                                    .y1 = y1});
  fprintf(gp, "plot '%s.dat' index %d using 1:2 with %s lw 1.2 lc rgb '#000000' notitle",
          name, base + d->series.n,
          k->y->better != NULL && strcmp(k->y->better, "more") == 0 ? "fsteps" : "steps");
  write_whiskers(k, facet);
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
  if (d->fig->z)
    NMB_TRY(nmb__column_real(d->run, d->store, d->fig->loc, d->fig->z, &k.z));
  if (d->fig->error)
    NMB_TRY(nmb__column_real(d->run, d->store, d->fig->loc, d->fig->error, &k.e));
  if (d->fig->label) {
    NMB_TRY(nmb__column_text(d->run, d->store, d->fig->loc, d->fig->label, &k.label));
    for (int c = 0; c < d->store->ncell; c++)
      k.label[c] = nmb__label(d->all, k.label[c]);
  }
  k.front = NMB_NEW(d->run, bool, d->store->ncell + 1);
  k.line = NMB_NEW(d->run, bool, d->store->ncell + 1);
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
      .ylabel = axis_text(&k, d->fig->y, k.uy),
      .sample = NMB__SAMPLE_POINT,
      .nlegend = d->series.n,
      .legend = nmb__series_entries(d),
      .note = k.z ? nmb_format(d->run,
                               "area: %s; grey: another is better in all three%s",
                               nmb__label(d->all, d->fig->z),
                               k.e ? "; whiskers: standard error" : "")
                  : nmb_format(d->run, "n = %d cells; grey: another is better in both",
                               k.npoint)};
  nmb__page_layout(&k.page, &l);
  write_cloud(&k);
  for (int f = 0; f < d->facet.n; f++)
    write_cloud_panel(&k, f);
  const nmb_status s = nmb__front_write(d, dir, k.label, k.front, drawn_at, &k);
  const nmb_status closed = nmb__page_close(&k.page);
  return s != NMB_OK ? s : closed;
}
