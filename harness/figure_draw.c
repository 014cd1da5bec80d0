/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What all figures share when they are written for gnuplot.
 *
 * Sizes are those of the printed page: 8.5 cm for one column of a paper, 17.8 cm for
 * two, text of 7 pt.  Positions of the panels are computed here rather than left to
 * gnuplot, so that the legend has its own room above the data. */
#include "config.h" /* first: names outside of C11 */

#include "harness/figure_draw.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

double
nmb__text_width(const char *text)
{
  double widest = 0, w = 0;
  for (const char *c = text; *c != '\0'; c++) {
    if (*c == '\n') {
      w = 0;
      continue;
    }
    if ((*c & 0xC0) == 0x80) /* inside a UTF-8 letter */
      continue;
    /* Helvetica: 0.22-0.28 em for narrow letters, 0.56 for most, 0.67 for capitals */
    w += strchr("iljtf.,:;'| -()", *c) != NULL ? 0.3
         : *c >= 'A' && *c <= 'Z'              ? 0.68
                                               : 0.56;
    widest = w > widest ? w : widest;
  }
  return widest * NMB__FONT;
}

int
nmb__text_lines(const char *text)
{
  int n = 1;
  for (; *text != '\0'; text++)
    n += *text == '\n';
  return n;
}

const char *
nmb__wrap(nmb_run *run, const char *text, double pt)
{
  char *out = nmb_strdup(run, text);
  char *line = out, *brk = NULL;
  const char at = strchr(text, ' ') != NULL ? ' ' : '-';
  for (char *c = out; *c != '\0'; c++) {
    const char next = c[1];
    c[1] = '\0';
    const bool wide = nmb__text_width(line) > pt;
    c[1] = next;
    if (wide && brk != NULL) {
      *brk = '\n';
      line = brk + 1;
      brk = NULL;
    }
    if (*c == at && c > line)
      brk = c;
  }
  return out;
}

const char *
nmb__count_text(nmb_run *run, int lo, int hi)
{
  return lo == hi ? nmb_format(run, "n\u00a0=\u00a0%d", lo)
                  : nmb_format(run, "n\u00a0=\u00a0%d\u2013%d", lo, hi);
}

bool
nmb__interval_seen(nmb__interval i)
{
  return i.high - i.low > 1e-5 * fabs(i.value);
}

const char *
nmb__log_ticks(nmb_run *run, double lo, double hi)
{
  static const double step[] = {1, 2, 5};
  const char *out = "";
  const int every = hi / lo > 1e7 ? 3 : 1; /* decades, of those divisible by it */
  for (int e = (int)floor(log10(lo)); e <= (int)ceil(log10(hi)); e++)
    for (int i = 0; i < (hi / lo > 3e3 ? 1 : 3); i++) { /* else they crowd */
      const double v = step[i] * pow(10, e);
      if (e % every == 0 && v >= lo * 0.999 && v <= hi * 1.001)
        out = nmb_format(run, "%s%s'%s' %.6g", out, *out == '\0' ? "" : ", ",
                         e < -3 ? nmb_format(run, "%ge%d", step[i], e)
                                : nmb_format(run, "%.6g", v),
                         v);
    }
  return out;
}

const char *
nmb__gp_quote(nmb_run *run, const char *text)
{
  char *out = nmb_alloc(run, 2 * strlen(text) + 3, 1);
  char *o = out;
  *o++ = '"';
  for (; *text != '\0'; text++) {
    if (*text == '\n') {
      *o++ = '\\';
      *o++ = 'n';
    } else { /* a backquote would run a command */
      *o++ = strchr("\"\\`", *text) != NULL ? '\'' : *text;
    }
  }
  *o = '"';
  return out;
}

const char *
nmb__axis_unit(nmb_run *run, const char *unit, double max, double *factor)
{
  static const struct {
    double scale;
    const char *prefix;
  } si[] = {{1, ""}, {1e3, "m"}, {1e6, "\xC2\xB5"}, {1e9, "n"}, {1e12, "p"}};
  *factor = 1;
  if (unit == NULL || strchr("sJW", unit[0]) == NULL || unit[0] == '\0' ||
      (unit[1] != '\0' && unit[1] != '/') || !(max > 0))
    return unit;
  size_t i = 0;
  while (i + 1 < sizeof si / sizeof *si && max * si[i].scale < 1)
    i++;
  *factor = si[i].scale;
  return nmb_format(run, "%s%s", si[i].prefix, unit);
}

double
nmb__round_up(double x)
{
  const double want = x * 1.08, ten = pow(10, floor(log10(want)));
  static const double step[] = {1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10};
  for (size_t i = 0; i < sizeof step / sizeof *step; i++)
    if (step[i] * ten >= want)
      return step[i] * ten;
  return want;
}

/* ------------------------------------------------------------------ colours */
/* Wong, Points of view: Color blindness, Nature Methods 8, 441 (2011), and a grey for
 * the first value, the baseline. */
static const unsigned palette[] = {0x8C8C8C, 0x0072B2, 0xE69F00, 0x009E73,
                                   0xCC79A7, 0x56B4E9, 0xD55E00, 0xF0E442};
static const nmb_bits hatches[] = {0, 1, 2, 4, 3, 8, 0, 12};
static const int filled_point[] = {7, 5, 9, 13, 11, 15, 7, 5};
static const int open_point[] = {6, 4, 8, 12, 10, 14, 6, 4};
#define NCOLOUR ((int)(sizeof palette / sizeof *palette))

static nmb__style
style(nmb_run *run, int i, bool light)
{
  const unsigned rgb = palette[i % NCOLOUR];
  unsigned c[3] = {rgb >> 16 & 255, rgb >> 8 & 255, rgb & 255};
  for (int k = 0; k < 3 && light; k++)
    c[k] = (c[k] + 255) / 2;
  const bool open = light != (i / NCOLOUR % 2 == 1);
  return (nmb__style){nmb_format(run, "#%02X%02X%02X", c[0], c[1], c[2]),
                      hatches[(i + i / NCOLOUR) % NCOLOUR],
                      open ? open_point[i % NCOLOUR] : filled_point[i % NCOLOUR]};
}

nmb__style
nmb__style_nth(nmb_run *run, int i)
{
  return style(run, i, false);
}

static const char *
stem(const char *value)
{
  return *value == '+' || *value == '-' ? value + 1 : value;
}

nmb__style
nmb__style_of(nmb_run *run, const nmb__store *s, const char *column, const char *value)
{
  const nmb__col *col = nmb__store_col(s, column);
  const char *seen[64];
  int n = 0;
  /* grey is for the first pipeline, which is the baseline, and for beaten points */
  const int first = strcmp(column, "pipeline") == 0 ? 0 : 1;
  if (col == NULL || col->type != NMB__TEXT)
    return style(run, first, false);
  for (int c = 0; c < s->ncell; c++) {
    const char *v = stem(col->text[c]);
    int i = 0;
    while (i < n && strcmp(seen[i], v) != 0)
      i++;
    if (strcmp(v, stem(value)) == 0)
      return style(run, first + i, *value == '-');
    if (i == n && n < 64)
      seen[n++] = v;
  }
  return style(run, first + n, *value == '-');
}

/* --------------------------------------------------------------------- page */
static FILE *
open_file(nmb_run *run, const char *path)
{
  FILE *f = fopen(path, "w");
  if (f == NULL)
    nmb_fail(run, NMB_IO, (nmb_loc){path, 0, 0}, "cannot be written: %s",
             strerror(errno));
  return f;
}

nmb_status
nmb__page_open(const nmb__figdata *d, const char *dir, nmb__page *p)
{
  *p = (nmb__page){.run = d->run, .fig = d->fig};
  p->dat_path = nmb_format(d->run, "%s/%s.dat", dir, d->fig->name);
  p->gp_path = nmb_format(d->run, "%s/%s.gp", dir, d->fig->name);
  p->dat = open_file(d->run, p->dat_path);
  if (p->dat == NULL)
    return NMB_IO;
  p->gp = open_memstream(&p->gp_text, &p->gp_size);
  p->blocks = open_memstream(&p->blocks_text, &p->blocks_size);
  if (p->gp == NULL || p->blocks == NULL)
    nmb__panic("out of memory");
  fprintf(p->dat, "# %s: %s\n", d->fig->name, d->fig->title);
  p->width = (strcmp(d->fig->width, "page") == 0 ? 17.8 : 8.5) * 72 / 2.54;
  return NMB_OK;
}

/* ------------------------------------------------------------------- legend */
#define LINE 9.0    /* from one line of text to the next, pt */
#define SAMPLE 13.0 /* width of a sample in the legend */

typedef struct grid { /* of the legend */
  int rows, columns;
  double entry; /* width of one, pt */
} grid;

static grid
legend_grid(const nmb__page *p)
{
  const nmb__layout *l = &p->layout;
  double widest = 0;
  for (int i = 0; i < l->nlegend; i++)
    widest = fmax(widest, nmb__text_width(l->legend[i].label));
  grid g = {0, 1, widest + SAMPLE + 12};
  if (l->nlegend == 0)
    return g;
  const int fit = (int)((p->width - 4) / g.entry);
  g.rows = (l->nlegend + (fit < 1 ? 1 : fit) - 1) / (fit < 1 ? 1 : fit);
  g.columns = (l->nlegend + g.rows - 1) / g.rows; /* rows alike */
  return g;
}

/* ------------------------------------------------------------------ hatching
 * gnuplot's fill patterns have another density in each output format, and none that
 * suits bars 4 pt wide, so the lines are computed here. */
#define HATCH_SPACE 2.4 /* pt */

typedef struct segments {
  FILE *f;
  const char *format;    /* of x0 y0 x1 y1 */
  double ox, oy, sx, sy; /* from pt to what is written: ox + sx * pt */
} segments;

static void
segment(const segments *s, double x0, double y0, double x1, double y1)
{
  fprintf(s->f, s->format, s->ox + s->sx * x0, s->oy + s->sy * y0, s->ox + s->sx * x1,
          s->oy + s->sy * y1);
}

static void
hatch(const segments *s, nmb_bits kind, double x0, double x1, double y0, double y1)
{
  const double slant = HATCH_SPACE * 1.41421356;
  if (kind & 1) /* y = x + c */
    for (double c = (floor((y0 - x1) / slant) + 1) * slant; c < y1 - x0; c += slant) {
      const double a = fmax(x0, y0 - c), b = fmin(x1, y1 - c);
      segment(s, a, a + c, b, b + c);
    }
  if (kind & 2) /* y = c - x */
    for (double c = (floor((y0 + x0) / slant) + 1) * slant; c < y1 + x1; c += slant) {
      const double a = fmax(x0, c - y1), b = fmin(x1, c - y0);
      segment(s, a, c - a, b, c - b);
    }
  if (kind & 4)
    for (double y = (floor(y0 / HATCH_SPACE) + 1) * HATCH_SPACE; y < y1; y += HATCH_SPACE)
      segment(s, x0, y, x1, y);
  if (kind & 8)
    for (double x = x0 + HATCH_SPACE / 2; x < x1; x += HATCH_SPACE)
      segment(s, x, y0, x, y1);
}

static double
panel_height(const nmb__page *p)
{
  return (p->height - p->top - p->bottom - (p->layout.panels - 1) * p->gap) /
         p->layout.panels;
}

void
nmb__page_hatch(nmb__page *p, nmb__style st, double x0, double x1, double y0, double y1)
{
  const double kx = nmb__page_inner(p) / (p->x1 - p->x0);
  const double ky = panel_height(p) / (p->y1 - p->y0);
  const segments s = {p->blocks, "%.5g\t%.5g\t%.5g\t%.5g\n", p->x0, p->y0, 1 / kx,
                      1 / ky};
  if (!(y1 > y0) || st.hatch == 0)
    return;
  p->hatched = true;
  hatch(&s, st.hatch, (x0 - p->x0) * kx, (x1 - p->x0) * kx, (y0 - p->y0) * ky,
        (fmin(y1, p->y1) - p->y0) * ky);
}

void
nmb__page_hatched(nmb__page *p)
{
  if (!p->hatched)
    return;
  fprintf(p->gp,
          ", \\\n  $hatch%d using 1:2:($3-$1):($4-$2) with vectors nohead lw 0.5 lc rgb "
          "'#000000' notitle",
          p->panel);
}

/* ------------------------------------------------------------------- layout */
void
nmb__page_layout(nmb__page *p, const nmb__layout *l)
{
  p->layout = *l;
  const double name = l->panels > 1 ? 11 : 0; /* a panel's name stands above it */
  const int rows = legend_grid(p).rows;
  p->left = 30;
  p->right = 8;
  p->layout.note = nmb__wrap(p->run, l->note, p->width - 12);
  p->top = 5 + rows * LINE + (rows > 0 ? 4 : 0) + name;
  p->gap = l->below + name;
  p->bottom =
      l->below + (*l->note == '\0' ? 2 : 3 + LINE * nmb__text_lines(p->layout.note));
  p->height = p->top + l->panels * l->panel + (l->panels - 1) * p->gap + p->bottom;
}

double
nmb__page_inner(const nmb__page *p)
{
  return p->width - p->left - p->right;
}

double
nmb__page_floor(const nmb__page *p, int i)
{
  return p->height - p->top - i * (panel_height(p) + p->gap) - panel_height(p);
}

double
nmb__panel_height(const nmb__figure *fig, double dflt)
{
  return fig->height > 0 ? fig->height * 72 / 2.54 : dflt;
}

static void
write_sample(nmb__page *p, int i, double x, double y)
{
  const nmb__style *st = &p->layout.legend[i].style;
  const double w = p->width, h = p->height;
  if (p->layout.sample == NMB__SAMPLE_BOX) {
    fprintf(p->gp,
            "set object rectangle from screen %.5f,%.5f to screen %.5f,%.5f front "
            "fs solid border lc rgb '#000000' fc rgb '%s' lw 0.6\n",
            x / w, (y - 2.8) / h, (x + SAMPLE - 3) / w, (y + 2.8) / h, st->rgb);
    const segments s = {
        p->gp,
        "set arrow from screen %.5f,%.5f to screen %.5f,%.5f nohead front lw 0.5\n",
        0,
        0,
        1 / w,
        1 / h};
    hatch(&s, st->hatch, x, x + SAMPLE - 3, y - 2.8, y + 2.8);
    return;
  }
  if (p->layout.sample == NMB__SAMPLE_LINE)
    fprintf(p->gp,
            "set arrow from screen %.5f,%.5f to screen %.5f,%.5f nohead front lw 1.4 "
            "lc rgb '%s'\n",
            x / w, y / h, (x + SAMPLE - 2) / w, y / h, st->rgb);
  fprintf(p->gp,
          "set label '' at screen %.5f,%.5f front point pt %d ps 0.5 lc rgb '%s'\n",
          (x + SAMPLE / 2 - 1) / w, y / h, st->point, st->rgb);
}

static void
write_legend(nmb__page *p)
{
  const grid g = legend_grid(p);
  const double x0 = (p->width - g.columns * g.entry) / 2 + 6;
  for (int i = 0; i < p->layout.nlegend; i++) {
    const double x = x0 + i % g.columns * g.entry;
    const double y = p->height - 7 - i / g.columns * LINE;
    write_sample(p, i, x, y);
    fprintf(p->gp, "set label %s at screen %.5f,%.5f left\n",
            nmb__gp_quote(p->run, p->layout.legend[i].label), (x + SAMPLE) / p->width,
            y / p->height);
  }
}

static void
write_once(nmb__page *p)
{
  write_legend(p);
  const double top = p->height - p->top, foot = nmb__page_floor(p, p->layout.panels - 1);
  fprintf(p->gp, "set label %s at screen %.5f,%.5f center rotate by 90\n",
          nmb__gp_quote(p->run, p->layout.ylabel), 6 / p->width,
          (top + foot) / 2 / p->height);
  if (*p->layout.note != '\0')
    fprintf(p->gp, "set label %s at screen 0.5,%.5f center\n",
            nmb__gp_quote(p->run, p->layout.note),
            (LINE * nmb__text_lines(p->layout.note) - 4) / p->height);
}

void
nmb__page_panel(nmb__page *p, int i, const char *label, double x0, double x1, double y0,
                double y1)
{
  const double bottom = nmb__page_floor(p, i), top = bottom + panel_height(p);
  if (p->layout.sample == NMB__SAMPLE_BOX)
    fprintf(p->blocks, "%s$hatch%d << EOD\n", i > 0 ? "EOD\n" : "", i);
  p->panel = i;
  p->hatched = false;
  p->x0 = x0;
  p->x1 = x1;
  p->y0 = y0;
  p->y1 = y1;
  fprintf(p->gp, "\nunset label\nunset arrow\nunset object\nset lmargin at screen %.5f\n",
          p->left / p->width);
  fprintf(p->gp, "set rmargin at screen %.5f\nset tmargin at screen %.5f\n",
          1 - p->right / p->width, top / p->height);
  fprintf(p->gp, "set bmargin at screen %.5f\n", bottom / p->height);
  fprintf(p->gp, "set xrange [%.6g:%.6g]\nset yrange [%.6g:%.6g]\n", x0, x1, y0, y1);
  if (i == 0)
    write_once(p);
  if (*label != '\0')
    fprintf(p->gp,
            "set label %s at graph 0.5,1 center offset 0,0.6 font 'Helvetica-Bold'\n",
            nmb__gp_quote(p->run, label));
}

/* -------------------------------------------------------------------- files */
int
nmb__page_block(nmb__page *p, const char *comment)
{
  fprintf(p->dat, "%s# %s\n", p->nblock > 0 ? "\n\n" : "", comment);
  return p->nblock++;
}

/* gnuplot makes letters of 4/3 pt per pt of the font in pdf, of 4/3 pixels in png. */
static void
write_head(const nmb__page *p, FILE *f)
{
  const double w = p->width / 72 * 2.54, h = p->height / 72 * 2.54;
  fprintf(f, "# %s: %s\n# Written by nmbench plot; run: gnuplot %s.gp\n", p->fig->name,
          p->fig->title, p->fig->name);
  fprintf(f,
          "pdf = 'pdfcairo size %.3fcm,%.3fcm font \"Helvetica,7\" fontscale 0.75 "
          "linewidth 0.6 pointscale 1.2 noenhanced'\n",
          w, h);
  fprintf(f, /* 96 pixels an inch */
          "svg = 'svg size %.0f,%.0f font \"Helvetica,7\" fontscale 1.3333 linewidth 0.6 "
          "noenhanced'\n",
          p->width * 96 / 72, p->height * 96 / 72);
  fprintf(
      f, /* 300 pixels an inch */
      "png = 'pngcairo size %.0f,%.0f font \"Helvetica,7\" fontscale 3.125 linewidth 2.5 "
      "pointscale 4 noenhanced'\n",
      p->width * 300 / 72, p->height * 300 / 72);
  fprintf(f, "set encoding utf8\nset datafile separator tab\nset datafile missing 'NaN'\n"
             "set border 3 lw 0.8\nset tics nomirror scale 0.5\nunset key\n"
             "set style arrow 1 heads size screen 0.004,90 lw 0.8 lc rgb '#000000'\n"
             "set style fill solid border lc rgb '#000000'\n"
             "set grid ytics lw 0.4 lc rgb '#DDDDDD'\nset grid noxtics\n");
}

nmb_status
nmb__page_close(nmb__page *p)
{
  const bool hatched = ftell(p->blocks) > 0;
  fclose(p->gp);
  fclose(p->blocks);
  bool bad = ferror(p->dat) != 0;
  bad = fclose(p->dat) != 0 || bad;
  FILE *f = open_file(p->run, p->gp_path);
  if (f != NULL) {
    write_head(p, f);
    fprintf(f, "%s%s", p->blocks_text, hatched ? "EOD\n" : "");
    fprintf(f,
            "do for [t in 'pdf svg png'] {\neval 'set terminal '.value(t)\n"
            "set output '%s.'.t\nset multiplot\n%sunset multiplot\n}\nset output\n",
            p->fig->name, p->gp_text);
    bad = ferror(f) != 0 || bad;
    bad = fclose(f) != 0 || bad;
  }
  free(p->gp_text);
  free(p->blocks_text);
  if (f == NULL)
    return NMB_IO;
  if (bad)
    return nmb_fail(p->run, NMB_IO, (nmb_loc){p->gp_path, 0, 0}, "cannot be written: %s",
                    strerror(errno));
  return NMB_OK;
}

const nmb__entry *
nmb__series_entries(const nmb__figdata *d)
{
  nmb__entry *out = NMB_NEW(d->run, nmb__entry, d->series.n + 1);
  for (int s = 0; s < d->series.n; s++)
    out[s] =
        (nmb__entry){nmb__label(d->all, d->series.value[s]),
                     nmb__style_of(d->run, d->store, d->fig->series, d->series.value[s])};
  return out;
}
