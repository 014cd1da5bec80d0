/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The page of a figure: files, panels, legend, colours, hatching. */
#ifndef NMB__FIGURE_DRAW_H
#define NMB__FIGURE_DRAW_H

#include "harness/figure_data.h"

#define NMB__FONT 7.0 /* pt, of all text */

/* How a series looks. */
typedef struct nmb__style {
  const char *rgb; /* "#0072B2" */
  nmb_bits hatch;  /* directions of its lines: bit 0 /, 1 \, 2 -, 3 | */
  int point;       /* gnuplot's type of point */
} nmb__style;

typedef enum nmb__sample {
  NMB__SAMPLE_BOX,
  NMB__SAMPLE_POINT,
  NMB__SAMPLE_LINE
} nmb__sample;

typedef struct nmb__entry { /* of the legend */
  const char *label;
  nmb__style style;
} nmb__entry;

typedef struct nmb__layout {
  int panels;   /* one above the other */
  double panel; /* height of each, pt */
  double below; /* room under each panel for its x axis, pt */
  const char *ylabel;
  nmb__sample sample;
  int nlegend; /* the legend stands on top */
  const nmb__entry *legend;
  const char *note; /* small print at the foot, "" for none */
} nmb__layout;

typedef struct nmb__page {
  nmb_run *run;
  const nmb__figure *fig;
  const char *dat_path, *gp_path;
  FILE *dat;
  FILE *gp;     /* the panels: a stream in memory until the page is closed */
  FILE *blocks; /* data blocks of the script, likewise */
  char *gp_text, *blocks_text;
  size_t gp_size, blocks_size;
  double width, height;                 /* pt */
  double left, right, top, bottom, gap; /* margins and the space between panels, pt */
  nmb__layout layout;
  bool hatched;          /* something in this panel is */
  int panel;             /* the one being drawn */
  double x0, x1, y0, y1; /* its axes */
  int nblock;            /* data sets written so far */
} nmb__page;

/* Opens dir/NAME.dat and dir/NAME.gp. */
nmb_status nmb__page_open(const nmb__figdata *, const char *dir, nmb__page *);
/* Sets sizes and margins; call it before anything is drawn. */
void nmb__page_layout(nmb__page *, const nmb__layout *);
/* Begins panel i and names it (label may be ""); linear axes over these ranges. */
void nmb__page_panel(nmb__page *, int i, const char *label, double x0, double x1,
                     double y0, double y1);
double nmb__page_inner(const nmb__page *); /* width of a panel, pt */
/* Where panel i ends below, in pt from the foot of the page. */
double nmb__page_floor(const nmb__page *, int i);
/* Hatches a rectangle of the panel, given in its axes; shown by nmb__page_hatched,
 * which adds an element to the `plot` command being written. */
void nmb__page_hatch(nmb__page *, nmb__style, double x0, double x1, double y0, double y1);
void nmb__page_hatched(nmb__page *);
/* Begins a data set named by a comment; returns its number for `index`. */
int nmb__page_block(nmb__page *, const char *comment);
/* Writes the script and closes both; NMB_IO if something was not written. */
nmb_status nmb__page_close(nmb__page *);

/* The figure's height if it gives one, else dflt; pt. */
double nmb__panel_height(const nmb__figure *, double dflt);
/* Legend entries of the series. */
const nmb__entry *nmb__series_entries(const nmb__figdata *);
/* The same value of a column looks the same in all figures of a file.  "+X" and "-X"
 * share the colour of X, and "-X" is lighter. */
nmb__style nmb__style_of(nmb_run *, const nmb__store *, const char *column,
                         const char *value);
nmb__style nmb__style_nth(nmb_run *, int i); /* of the parts of a stack */

/* Text as a gnuplot string in quotes; '\n' breaks the line. */
const char *nmb__gp_quote(nmb_run *, const char *text);
/* Breaks at ' ', or '-' if there is none, so that no line is wider than `pt` if it can
 * be helped. */
const char *nmb__wrap(nmb_run *, const char *text, double pt);
double nmb__text_width(const char *text); /* pt, of the widest line */
int nmb__text_lines(const char *text);
/* "n = 5", "n = 5-6". */
const char *nmb__count_text(nmb_run *, int lo, int hi);
/* Is it wide enough to draw?  gnuplot complains about data sets that show nothing. */
bool nmb__interval_seen(nmb__interval);
/* "ms" and 1e3 for values around 0.01 s: *factor multiplies the stored value. */
const char *nmb__axis_unit(nmb_run *, const char *unit, double max, double *factor);
double nmb__round_up(double x); /* a round number not below x * 1.08 */
/* "1, 2, 5, 10": round numbers in a range, as gnuplot's list of ticks. */
const char *nmb__log_ticks(nmb_run *, double lo, double hi);
#endif
