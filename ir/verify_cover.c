/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Written bytes of a buffer as boxes that merge. */
#include "ir/verify_cover.h"

#include <string.h>

#include "base/run.h"

static void
push(nmb_run *run, nmb__boxes *l, nmb__box b)
{
  if (l->n == l->cap) {
    nmb__box *old = l->v;
    l->cap = l->cap ? 2 * l->cap : 8;
    l->v = NMB_NEW(run, nmb__box, l->cap);
    if (l->n)
      memcpy(l->v, old, (size_t)l->n * sizeof *old);
  }
  l->v[l->n++] = b;
}

static int64_t
least(int64_t a, int64_t b)
{
  return a < b ? a : b;
}

static int64_t
most(int64_t a, int64_t b)
{
  return a > b ? a : b;
}

/* ------------------------------------------------------------- runs to boxes */
typedef struct target {
  nmb_run *run;
  nmb__boxes *list;
  int64_t pitch;
  int ch0, ch1;
} target;

static void
put(const target *t, int64_t r0, int64_t r1, int64_t c0, int64_t c1)
{
  if (r0 < r1 && c0 < c1)
    push(t->run, t->list, (nmb__box){r0, r1, c0, c1, t->ch0, t->ch1});
}

/* Row and column of a byte, which may lie before the first. */
static int64_t
row_of(int64_t at, int64_t pitch, int64_t *column)
{
  const int64_t r = at / pitch - (at % pitch < 0);
  *column = at - r * pitch;
  return r;
}

/* Bytes that follow each other: the end of a row, whole rows, the start of one. */
static void
put_line(const target *t, int64_t at, int64_t bytes)
{
  int64_t c;
  const int64_t r = row_of(at, t->pitch, &c);
  const int64_t head = c ? least(bytes, t->pitch - c) : 0;
  const int64_t whole = (bytes - head) / t->pitch, tail = (bytes - head) % t->pitch;
  const int64_t next = r + (c > 0);
  put(t, r, r + 1, c, c + head);
  put(t, next, next + whole, 0, t->pitch);
  put(t, next + whole, next + whole + 1, 0, tail);
}

/* Rows a pitch apart, which may go over the edge of the table. */
static void
put_rows(const target *t, int64_t at, int64_t rows, int64_t width)
{
  int64_t c;
  const int64_t r = row_of(at, t->pitch, &c);
  const int64_t in = least(width, t->pitch - c);
  put(t, r, r + rows, c, c + in);
  put(t, r + 1, r + 1 + rows, 0, width - in);
}

/* Rows of a stride that divides the pitch take turns in a few columns of the table; those
 * of any other stride go one by one. */
static void
boxes_of(const nmb__cover *c, const nmb__runs *r, const target *t)
{
  const int64_t at = r->at - c->base;
  if (r->rows == 1) {
    put_line(t, at, r->width);
    return;
  }
  const int64_t turns = c->pitch % r->stride == 0 ? c->pitch / r->stride : r->rows;
  for (int64_t i = 0; i < least(turns, r->rows); i++) {
    const int64_t n = (r->rows - i + turns - 1) / turns;
    if (n == 1)
      put_line(t, at + i * r->stride, r->width);
    else
      put_rows(t, at + i * r->stride, n, r->width);
  }
}

/* --------------------------------------------------------------------- boxes */
static bool
meet(const nmb__box *a, const nmb__box *b)
{
  return a->r0 < b->r1 && b->r0 < a->r1 && a->c0 < b->c1 && b->c0 < a->c1 &&
         a->ch0 < b->ch1 && b->ch0 < a->ch1;
}

/* Makes `a` both, if both are one box. */
static bool
merge(nmb__box *a, const nmb__box *b)
{
  if (a->ch0 != b->ch0 || a->ch1 != b->ch1)
    return false;
  const bool rows = a->r0 == b->r0 && a->r1 == b->r1 && a->c0 <= b->c1 && b->c0 <= a->c1;
  const bool columns =
      a->c0 == b->c0 && a->c1 == b->c1 && a->r0 <= b->r1 && b->r0 <= a->r1;
  const bool holds = a->r0 <= b->r0 && b->r1 <= a->r1 && a->c0 <= b->c0 && b->c1 <= a->c1;
  if (!rows && !columns && !holds)
    return false;
  *a = (nmb__box){least(a->r0, b->r0),
                  most(a->r1, b->r1),
                  least(a->c0, b->c0),
                  most(a->c1, b->c1),
                  a->ch0,
                  a->ch1};
  return true;
}

static void
add(nmb_run *run, nmb__boxes *l, nmb__box b)
{
  for (int i = l->n - 1; i >= 0; i--) {
    nmb__box both = l->v[i];
    if (!merge(&both, &b)) {
      both = b;
      if (!merge(&both, &l->v[i]))
        continue;
    }
    b = both;
    l->v[i] = l->v[--l->n];
    i = l->n; /* what it is now may merge with others */
  }
  push(run, l, b);
}

/* Takes `b` out of those boxes of the list that share a channel with it; all: that have
 * no channel besides.  Up to four pieces of each box are left. */
static void
cut(nmb_run *run, nmb__boxes *l, const nmb__box *b, bool all)
{
  for (int i = l->n - 1; i >= 0; i--) {
    const nmb__box x = l->v[i];
    if (!meet(&x, b) || (all && (x.ch0 < b->ch0 || x.ch1 > b->ch1)))
      continue;
    const int64_t r0 = most(x.r0, b->r0), r1 = least(x.r1, b->r1);
    const target t = {run, l, 0, x.ch0, x.ch1};
    l->v[i] = l->v[--l->n];
    put(&t, x.r0, r0, x.c0, x.c1);
    put(&t, r1, x.r1, x.c0, x.c1);
    put(&t, r0, r1, x.c0, most(x.c0, b->c0));
    put(&t, r0, r1, least(x.c1, b->c1), x.c1);
  }
}

/* -------------------------------------------------------------------- covers */
void
nmb__cover_add(nmb_run *run, nmb__cover *c, const nmb__runs *r, int ch0, int ch1,
               nmb__boxes *fresh)
{
  fresh->n = 0;
  boxes_of(c, r, &(target){run, fresh, c->pitch, ch0, ch1});
  for (int i = 0; i < fresh->n; i++)
    add(run, &c->boxes, fresh->v[i]);
}

void
nmb__cover_drop(nmb_run *run, nmb__cover *c, const nmb__runs *r, int ch0, int ch1,
                nmb__boxes *gone)
{
  if (!c->boxes.n)
    return;
  gone->n = 0;
  boxes_of(c, r, &(target){run, gone, c->pitch, ch0, ch1});
  for (int i = 0; i < gone->n; i++)
    cut(run, &c->boxes, &gone->v[i], true);
}

int64_t
nmb__cover_gap(nmb_run *run, const nmb__cover *c, const nmb__runs *r, int ch0, int ch1,
               nmb__boxes *left)
{
  left->n = 0;
  boxes_of(c, r, &(target){run, left, c->pitch, ch0, ch1});
  for (int i = c->boxes.n - 1; i >= 0 && left->n; i--)
    cut(run, left, &c->boxes.v[i], false);
  int64_t at = INT64_MAX;
  for (int i = 0; i < left->n; i++)
    at = least(at, c->base + left->v[i].r0 * c->pitch + left->v[i].c0);
  return left->n ? at : NMB_NONE;
}
