/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Constraint rows into what a channel does on each command.
 *
 * A level with one part only (a single rank) is the same as the level above, and a row
 * that a longer one of an outer level implies is dropped: a command then touches a dozen
 * ticks instead of forty. */
#include "hwsim/dram/dram.h"

#include <assert.h>
#include <string.h>

typedef struct work {
  nmb_dram *d;
  nmb__dram_row *row;
  int n;
} work;

static void
nodes(nmb_run *own, nmb_dram *d)
{
  int parts = 1;
  d->nnode = 0;
  for (int l = 0; l < NMB_DRAM_NLEVEL; l++) {
    parts *= d->info.count[l];
    d->first[l] = d->nnode;
    d->below[l] = d->info.banks / parts;
    d->nnode += parts;
  }
  uint16_t(*node)[NMB_DRAM_NLEVEL] = nmb_alloc(own, (size_t)d->info.banks, sizeof *node);
  for (int b = 0; b < d->info.banks; b++)
    for (int l = 0; l < NMB_DRAM_NLEVEL; l++)
      node[b][l] = (uint16_t)(d->first[l] + b / d->below[l]);
  d->node = (const uint16_t(*)[NMB_DRAM_NLEVEL])node;
  uint32_t(*place)[NMB_DRAM_NLEVEL] = nmb_alloc(own, (size_t)d->info.banks, sizeof *place);
  d->stride = d->info.ncmd;
  for (int b = 0; b < d->info.banks; b++)
    for (int l = 0; l < NMB_DRAM_NLEVEL; l++)
      place[b][l] = (uint32_t)(node[b][l] * d->stride);
  d->place = (const uint32_t(*)[NMB_DRAM_NLEVEL])place;
}

/* Moves rows of levels with a single part outwards; drops what can never bind. */
static void
hoist(work *w)
{
  int n = 0;
  for (int i = 0; i < w->n; i++) {
    nmb__dram_row r = w->row[i];
    if (r.ticks <= 0 || (r.other && w->d->info.count[r.level] == 1))
      continue;
    while (!r.other && r.level > NMB_DRAM_CHANNEL && w->d->info.count[r.level] == 1)
      r.level = (nmb_dram_level)(r.level - 1);
    w->row[n++] = r;
  }
  w->n = n;
}

static bool
implied(const work *w, int i)
{
  const nmb__dram_row *r = &w->row[i];
  for (int k = 0; k < w->n; k++) {
    const nmb__dram_row *o = &w->row[k];
    if (k == i || o->other || o->window != 1 || r->window != 1 || o->from != r->from ||
        o->to != r->to)
      continue;
    const bool outer = r->other ? o->level < r->level : o->level <= r->level;
    const bool equal = o->level == r->level && o->ticks == r->ticks && !r->other;
    if (outer && o->ticks >= r->ticks && (!equal || k < i))
      return true;
  }
  return false;
}

/* A refresh or an all-bank command is checked in all parts below, so a row of an inner
 * level may bind there although an outer one looks longer only for other commands: rows
 * are compared pair by pair, which is safe. */
static void
reduce(work *w)
{
  bool drop[8192 + 1] = {false};
  int n = 0;
  for (int i = 0; i < w->n; i++)
    drop[i] = implied(w, i);
  for (int i = 0; i < w->n; i++)
    if (!drop[i])
      w->row[n++] = w->row[i];
  w->n = n;
}

/* The marks of `from` at `level` of one sort. */
static const nmb__dram_mark *
gather(nmb_run *own, const work *w, int from, int level, bool other, bool window, int *n)
{
  nmb__dram_mark *out = NULL;
  for (int pass = 0; pass < 2; pass++) {
    *n = 0;
    for (int i = 0; i < w->n; i++) {
      const nmb__dram_row *r = &w->row[i];
      if (r->from != from || (int)r->level != level || r->other != other ||
          (r->window > 1) != window)
        continue;
      if (out)
        out[*n] =
            (nmb__dram_mark){(uint16_t)r->to, (uint16_t)r->window, (int32_t)r->ticks};
      (*n)++;
    }
    if (*n == 0)
      return NULL;
    if (!out)
      out = NMB_NEW(own, nmb__dram_mark, *n);
  }
  return out;
}

static void
add_level(nmb__dram_levels *v, const nmb_dram_cmd *k, int level)
{
  v->level[v->n++] = (uint8_t)level;
  if (level <= (int)k->scope)
    v->own++;
}

static bool
checked_at(const work *w, int c, int level)
{
  for (int i = 0; i < w->n; i++)
    if (w->row[i].to == c && (int)w->row[i].level == level)
      return true;
  return false;
}

static void
marks(nmb_run *own, work *w)
{
  nmb_dram *d = w->d;
  for (int c = 0; c < d->info.ncmd; c++)
    for (int l = 0; l < NMB_DRAM_NLEVEL; l++) {
      nmb__dram_marks *m = &d->marks[c][l];
      m->same = gather(own, w, c, l, false, false, &m->nsame);
      m->other = gather(own, w, c, l, true, false, &m->nother);
      m->window = gather(own, w, c, l, false, true, &m->nwindow);
      for (int i = 0; i < m->nwindow; i++)
        if (m->window[i].window > m->deepest)
          m->deepest = m->window[i].window;
      if (m->nsame + m->nother + m->nwindow > 0)
        add_level(&d->touch[c], &d->info.cmd[c], l);
    }
  for (int l = 0; l < NMB_DRAM_NLEVEL; l++)
    for (int c = 0; c < d->info.ncmd; c++)
      if (checked_at(w, c, l))
        add_level(&d->check[c], &d->info.cmd[c], l);
}

/* The command that does `does` (and of `mask` nothing else) in the same scope, or in the
 * nearest narrower one, and the same row buffer. */
static int16_t
helper(const nmb_dram *d, int c, int buffer, unsigned does, unsigned mask)
{
  int best = NMB_NONE;
  for (int i = 0; i < d->info.ncmd; i++) {
    const nmb_dram_cmd *h = &d->info.cmd[i], *k = &d->info.cmd[c];
    if ((h->does & mask) != does || h->buffer != buffer || h->scope != k->scope ||
        h->inner != k->inner)
      continue;
    if (best == NMB_NONE)
      best = i;
  }
  return (int16_t)best;
}

static void
helpers(nmb_dram *d)
{
  const unsigned mask = NMB_DRAM_COLUMN | NMB_DRAM_OPENS | NMB_DRAM_CLOSES |
                        NMB_DRAM_BEGINS | NMB_DRAM_REFRESHES | NMB_DRAM_SWITCHES;
  for (int c = 0; c < d->info.ncmd; c++) {
    const nmb_dram_cmd *k = &d->info.cmd[c];
    const int16_t begin = helper(d, c, k->buffer, NMB_DRAM_BEGINS, mask);
    const int16_t open = helper(d, c, k->buffer, NMB_DRAM_OPENS, mask);
    const bool two = begin != NMB_NONE && open != NMB_NONE;
    d->opener[c] = two ? begin : open;
    d->finisher[c] = two ? open : NMB_NONE;
    d->closer[c] = helper(d, c, k->buffer, NMB_DRAM_CLOSES, mask);
    d->closer2[c] =
        k->does & NMB_DRAM_REFRESHES ? helper(d, c, 1, NMB_DRAM_CLOSES, mask) : NMB_NONE;
    d->auto_close[c] = k->does & (NMB_DRAM_READS | NMB_DRAM_WRITES)
                           ? helper(d, c, k->buffer, k->does | NMB_DRAM_CLOSES, mask)
                           : NMB_NONE;
    d->switcher[c] = NMB_NONE;
    for (int i = 0; i < d->info.ncmd && k->mode != NMB_NONE; i++)
      if (d->info.cmd[i].does & NMB_DRAM_SWITCHES &&
          (d->info.cmd[i].mode == NMB_NONE || d->info.cmd[i].mode == k->mode)) {
        d->switcher[c] = (int16_t)i;
        break;
      }
  }
}

/* Equal commands to one bank: the longest row from a command to itself. */
static void
gaps(nmb_dram *d)
{
  for (int c = 0; c < d->info.ncmd; c++) {
    const nmb_dram_cmd *k = &d->info.cmd[c];
    int64_t g = k->ticks;
    const bool state = k->does & (NMB_DRAM_OPENS | NMB_DRAM_BEGINS | NMB_DRAM_CLOSES |
                                  NMB_DRAM_REFRESHES | NMB_DRAM_SWITCHES);
    for (int l = 0; l < NMB_DRAM_NLEVEL; l++) {
      const nmb__dram_marks *m = &d->marks[c][l];
      for (int i = 0; i < m->nsame; i++)
        if (m->same[i].to == c && m->same[i].ticks > g)
          g = m->same[i].ticks;
      if (m->deepest > 0)
        g = -1;
      if (g < 0)
        break;
    }
    if (g > 0 && k->rise)
      g += g % 2;
    d->gap[c] = state ? -1 : g;
  }
}

/* What a channel would miss only when it is too late. */
static nmb_status
complete(nmb_run *run, const nmb_dram *d)
{
  for (int c = 0; c < d->info.ncmd; c++) {
    const nmb_dram_cmd *k = &d->info.cmd[c];
    const char *lacks = NULL;
    if (k->does & (NMB_DRAM_COLUMN | NMB_DRAM_REFRESHES) && d->closer[c] == NMB_NONE)
      lacks = "closes its rows";
    else if (k->does & (NMB_DRAM_READS | NMB_DRAM_WRITES) && d->opener[c] == NMB_NONE)
      lacks = "opens its row";
    else if (k->mode != NMB_NONE && d->info.modes > 1 && d->switcher[c] == NMB_NONE)
      lacks = "switches to its mode";
    if (lacks)
      return nmb_fail(run, NMB_BADINPUT, NMB_NOLOC,
                      "%s: no command of the scope of %s %s", d->info.name, k->name,
                      lacks);
  }
  return NMB_OK;
}

nmb_status
nmb__dram_compile(nmb_run *run, nmb_run *own, nmb_dram *d)
{
  work w = {d, NMB_NEW(run, nmb__dram_row, d->nrow + 1), d->nrow};
  if (d->nrow > 0)
    memcpy(w.row, d->row, (size_t)d->nrow * sizeof *w.row);
  nodes(own, d);
  hoist(&w);
  assert(w.n <= 8192);
  reduce(&w);
  marks(own, &w);
  helpers(d);
  NMB_TRY(complete(run, d));
  gaps(d);
  if (d->refab != NMB_NONE)
    d->refresh_level = d->info.cmd[d->refab].scope;
  return NMB_OK;
}
