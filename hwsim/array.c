/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A systolic array in closed form and clock by clock; see nmb_array.h.
 *
 * The clocked array keeps in every cell what a cell has: a stationary word, the word
 * that streams through it, and a sum.  Input-stationary is weight-stationary of the
 * transposed product.  Source of the dataflows and of the cycles: SCALE-Sim,
 * samajdar2020scalesim; its CALC mode gives the same cycles. */
#include "nmbench/nmb_array.h"

#include <assert.h>
#include <string.h>

nmb_flow
nmb_flow_find(const char *name)
{
  static const char *const names[] = {
#define X(id, text, help) text,
      NMB_FLOW_MAP(X)
#undef X
  };
  int i = 0;
  while (i < NMB_NFLOW && strcmp(name, names[i]))
    i++;
  return (nmb_flow)i;
}

static int64_t
ceil_div(int64_t a, int64_t b)
{
  return a / b + (a % b != 0);
}

/* A product as the array sees it: `down` over its rows, `across` over its columns,
 * `time` steps in each fold. */
typedef struct shape {
  int64_t down, across, time;
} shape;

static shape
shape_of(nmb_flow flow, int64_t m, int64_t n, int64_t k)
{
  switch (flow) {
  case NMB_FLOW_WS: return (shape){k, n, m};
  case NMB_FLOW_OS: return (shape){m, n, k};
  default: return (shape){k, m, n};
  }
}

/* ---------------------------------------------------------------- closed form */
nmb_array_work
nmb_array_gemm(const nmb_array *a, int64_t m, int64_t n, int64_t k)
{
  assert(a->rows > 0 && a->cols > 0 && m > 0 && n > 0 && k > 0);
  const shape s = shape_of(a->flow, m, n, k);
  const double dm = (double)m, dn = (double)n, dk = (double)k;
  const double vertical = (double)ceil_div(s.down, a->rows);
  const double horizontal = (double)ceil_div(s.across, a->cols);
  const double cells = (double)a->rows * (double)a->cols;
  nmb_array_work w = {.folds = vertical * horizontal, .macs = dm * dn * dk};
  w.fold_cycles = (double)s.time + (double)a->rows + (double)a->cols - 2;
  double load = 0; /* what SCALE-Sim adds to a fold when it averages utilisation */
  switch (a->flow) {
  case NMB_FLOW_WS:
    w.reads_input = dm * dk * horizontal;
    w.reads_weight = dk * dn;
    w.writes_output = dm * dn * vertical;
    break;
  case NMB_FLOW_OS:
    w.reads_input = dm * dk * horizontal;
    w.reads_weight = dk * dn * vertical;
    w.writes_output = dm * dn;
    break;
  default:
    w.reads_input = dm * dk;
    w.reads_weight = dk * dn * horizontal;
    w.writes_output = dm * dn * vertical;
  }
  if (a->flow != NMB_FLOW_OS) {
    w.fold_cycles += (double)a->rows;
    load = (double)a->rows - 1;
  }
  w.cycles = w.folds * w.fold_cycles - 1;
  w.mapped = (double)s.down * (double)s.across / (w.folds * cells);
  w.busy = w.cycles > 0 ? w.macs / (w.cycles * cells) : 1;
  w.streamed = w.mapped * (double)s.time / (w.fold_cycles + load);
  return w;
}

/* -------------------------------------------------------------- clock by clock */
/* An operand as the array reads it; a NULL one is all zero and never looked at. */
typedef struct matrix {
  const int32_t *v;
  int64_t step_row, step_col;
} matrix;

static int64_t
word(const matrix *x, int64_t row, int64_t col)
{
  return x->v ? x->v[row * x->step_row + col * x->step_col] : 0;
}

typedef struct cell {
  int64_t stays, passes, across, sum;
  bool live, live_across; /* does `passes` (`across`, os only) hold a word? */
  bool used;              /* its row and column lie within the product */
} cell;

typedef struct fold {
  const nmb_array *a;
  cell *cell;                 /* [rows * cols] */
  int64_t down, across, time; /* of this fold: rows and columns used, steps */
  int64_t at_down, at_across; /* where it begins in the product */
  double clocks, macs, reads_stay, reads_left, reads_top, writes;
} fold;

/* The stationary operand shifts in from the top: the last row first. */
static void
load(fold *f, const matrix *stay)
{
  const int64_t rows = f->a->rows, cols = f->a->cols;
  for (int64_t t = 0; t < rows; t++, f->clocks++) {
    for (int64_t i = rows * cols - 1; i >= cols; i--)
      f->cell[i].stays = f->cell[i - cols].stays;
    const int64_t r = rows - 1 - t;
    for (int64_t c = 0; c < cols; c++) {
      const bool used = r < f->down && c < f->across;
      f->cell[c].stays = used ? word(stay, f->at_down + r, f->at_across + c) : 0;
      f->reads_stay += used;
    }
  }
}

/* One clock of cells whose word stays.  From the last cell to the first, so that a
 * cell still finds what its neighbours held before this clock. */
static void
clock_stay(fold *f, const matrix *left, int64_t t)
{
  const int64_t rows = f->a->rows, cols = f->a->cols;
  for (int64_t r = rows - 1; r >= 0; r--)
    for (int64_t c = cols - 1; c >= 0; c--) {
      cell *x = &f->cell[r * cols + c];
      if (c > 0) {
        x->live = x[-1].live;
        x->passes = x[-1].passes;
      } else {
        const int64_t v = t - r; /* rows start one clock after each other */
        x->live = v >= 0 && v < f->time;
        x->passes = x->live && r < f->down ? word(left, v, f->at_down + r) : 0;
        f->reads_left += x->live && r < f->down;
      }
      x->sum = (r > 0 ? x[-cols].sum : 0) + x->passes * x->stays;
      f->macs += x->live && x->used;
    }
}

/* One clock of cells whose sum stays: one operand comes from the left, the other from
 * the top. */
static void
clock_sum(fold *f, const matrix *left, const matrix *top, int64_t t)
{
  const int64_t rows = f->a->rows, cols = f->a->cols;
  for (int64_t r = rows - 1; r >= 0; r--)
    for (int64_t c = cols - 1; c >= 0; c--) {
      cell *x = &f->cell[r * cols + c];
      const int64_t v = t - r, u = t - c;
      x->live = c > 0 ? x[-1].live : v >= 0 && v < f->time;
      x->live_across = r > 0 ? x[-cols].live_across : u >= 0 && u < f->time;
      if (c > 0)
        x->passes = x[-1].passes;
      else {
        const bool read = x->live && r < f->down;
        x->passes = read ? word(left, f->at_down + r, v) : 0;
        f->reads_left += read;
      }
      if (r > 0)
        x->across = x[-cols].across;
      else {
        const bool read = x->live_across && c < f->across;
        x->across = read ? word(top, u, f->at_across + c) : 0;
        f->reads_top += read;
      }
      x->sum += x->passes * x->across;
      f->macs += x->live && x->used;
    }
}

/* The fold is over when all its words have passed the last cell. */
static bool
last_live(const fold *f)
{
  return f->cell[f->a->rows * f->a->cols - 1].live;
}

static void
fold_begin(fold *f)
{
  const int64_t rows = f->a->rows, cols = f->a->cols;
  memset(f->cell, 0, (size_t)(rows * cols) * sizeof *f->cell);
  for (int64_t r = 0; r < f->down; r++)
    for (int64_t c = 0; c < f->across; c++)
      f->cell[r * cols + c].used = true;
}

/* Sums leave at the bottom, column c one clock after column c - 1. */
static void
leave(fold *f, int64_t t, int64_t *out, int64_t step_time, int64_t step_across)
{
  const int64_t rows = f->a->rows, cols = f->a->cols;
  const cell *bottom = &f->cell[(rows - 1) * cols];
  for (int64_t c = 0; c < f->across; c++) {
    if (!bottom[c].live)
      continue;
    f->writes++;
    if (out)
      out[(t - (rows - 1) - c) * step_time + (f->at_across + c) * step_across] +=
          bottom[c].sum;
  }
}

static void
run_stay(fold *f, const matrix *stay, const matrix *left, int64_t *out, int64_t step_time,
         int64_t step_across)
{
  fold_begin(f);
  load(f, stay);
  for (int64_t t = 0, passed = 0; passed < f->time; t++, f->clocks++) {
    clock_stay(f, left, t);
    leave(f, t, out, step_time, step_across);
    passed += last_live(f);
  }
}

static void
run_sum(fold *f, const matrix *left, const matrix *top, int64_t *out, int64_t step_down)
{
  const int64_t cols = f->a->cols;
  fold_begin(f);
  for (int64_t t = 0, passed = 0; passed < f->time; t++, f->clocks++) {
    clock_sum(f, left, top, t);
    passed += last_live(f);
  }
  for (int64_t r = 0; r < f->down; r++)
    for (int64_t c = 0; c < f->across; c++, f->writes++)
      if (out)
        out[(f->at_down + r) * step_down + f->at_across + c] = f->cell[r * cols + c].sum;
}

/* The operands of a product, and where its result goes; all NULL: counts only. */
typedef struct product {
  matrix a, b, at, bt; /* [M,K], [K,N] and transposed */
  int64_t *c;
  int64_t n;
} product;

static product
product_of(const int32_t *a, const int32_t *b, int64_t *c, int64_t n, int64_t k)
{
  return (product){
      .a = {a, k, 1}, .b = {b, n, 1}, .at = {a, 1, k}, .bt = {b, 1, n}, .c = c, .n = n};
}

static void
run_fold(fold *f, const product *p)
{
  f->clocks = f->macs = f->reads_stay = f->reads_left = f->reads_top = f->writes = 0;
  switch (f->a->flow) {
  case NMB_FLOW_WS: run_stay(f, &p->b, &p->a, p->c, p->n, 1); break;
  case NMB_FLOW_IS: run_stay(f, &p->at, &p->bt, p->c, 1, p->n); break;
  default: run_sum(f, &p->a, &p->b, p->c, p->n); break;
  }
}

static void
add_folds(nmb_array_work *w, const fold *f, double times)
{
  const bool inputs_stay = f->a->flow == NMB_FLOW_IS;
  w->folds += times;
  w->fold_cycles = f->clocks;
  w->cycles += times * f->clocks;
  w->macs += times * f->macs;
  w->reads_input += times * (inputs_stay ? f->reads_stay : f->reads_left);
  w->reads_weight += times * (inputs_stay ? f->reads_left : f->reads_stay + f->reads_top);
  w->writes_output += times * f->writes;
  w->mapped += times * (double)f->down * (double)f->across;
}

static void
finish(nmb_array_work *w, const nmb_array *a, int64_t time)
{
  const double cells = (double)a->rows * (double)a->cols;
  const double load = a->flow == NMB_FLOW_OS ? 0 : (double)a->rows - 1;
  w->cycles -= 1;
  w->mapped /= w->folds * cells;
  w->busy = w->cycles > 0 ? w->macs / (w->cycles * cells) : 1;
  w->streamed = w->mapped * (double)time / (w->fold_cycles + load);
}

static int64_t
least(int64_t a, int64_t b)
{
  return a < b ? a : b;
}

nmb_array_work
nmb_array_step(nmb_run *run, const nmb_array *a, int64_t m, int64_t n, int64_t k,
               const int32_t *va, const int32_t *vb, int64_t *vc)
{
  const shape s = shape_of(a->flow, m, n, k);
  const product p = product_of(va, vb, vc, n, k);
  fold f = {.a = a, .time = s.time, .cell = NMB_NEW(run, cell, a->rows * a->cols)};
  nmb_array_work w = {0};
  if (vc)
    memset(vc, 0, (size_t)(m * n) * sizeof *vc);
  for (f.at_across = 0; f.at_across < s.across; f.at_across += a->cols)
    for (f.at_down = 0; f.at_down < s.down; f.at_down += a->rows) {
      f.down = least(a->rows, s.down - f.at_down);
      f.across = least(a->cols, s.across - f.at_across);
      run_fold(&f, &p);
      add_folds(&w, &f, 1);
    }
  finish(&w, a, s.time);
  return w;
}

bool
nmb_array_stepped(nmb_run *run, const nmb_array *a, int64_t m, int64_t n, int64_t k,
                  double limit, nmb_array_work *out)
{
  const shape s = shape_of(a->flow, m, n, k);
  const int64_t down[2] = {a->rows, s.down % a->rows},
                across[2] = {a->cols, s.across % a->cols};
  const int64_t nd[2] = {s.down / a->rows, down[1] > 0},
                na[2] = {s.across / a->cols, across[1] > 0};
  const double shapes = (double)((nd[0] > 0) + nd[1]) * (double)((na[0] > 0) + na[1]);
  const double each = nmb_array_gemm(a, m, n, k).fold_cycles;
  const product none = {0};
  if (shapes * each * (double)a->rows * (double)a->cols > limit)
    return false;
  *out = (nmb_array_work){0};
  fold f = {.a = a, .time = s.time, .cell = NMB_NEW(run, cell, a->rows * a->cols)};
  for (int i = 0; i < 2; i++)
    for (int j = 0; j < 2; j++) {
      if (nd[i] == 0 || na[j] == 0)
        continue;
      f.down = down[i];
      f.across = across[j];
      run_fold(&f, &none);
      add_folds(out, &f, (double)nd[i] * (double)na[j]);
    }
  finish(out, a, s.time);
  return true;
}
