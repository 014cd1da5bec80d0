/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The state of a channel: when each command may next be issued in each part, open rows,
 * mode, refreshes due.  A command touches a dozen ticks; a burst touches them once. */
#include "hwsim/dram/dram.h"

#include <assert.h>
#include <string.h>

#define CLOSED ((int64_t)-1)
#define HALF(row) ((int64_t)-2 - (row)) /* between ACT1 and ACT2 */

/* ------------------------------------------------------------------ creation */
static void
history_place(nmb_dramch *ch)
{
  const nmb_dram *d = ch->d;
  size_t at = 0;
  for (int c = 0; c < d->info.ncmd; c++)
    for (int l = 0; l < NMB_DRAM_NLEVEL; l++) {
      const size_t parts = (size_t)(d->info.banks / d->below[l]);
      if (d->marks[c][l].deepest > 0) {
        ch->history[c][l] = ch->history_all ? ch->history_all + at : NULL;
        at += parts * (size_t)(d->marks[c][l].deepest + 2);
      }
    }
  ch->nhistory = at;
}

nmb_status
nmb_dramch_new(nmb_run *run, const nmb_dram *d, nmb_dram_refresh refresh,
               nmb_dramch **out)
{
  if ((refresh == NMB_DRAM_ALLBANK && d->refi <= 0) ||
      (refresh == NMB_DRAM_PERBANK && d->refipb <= 0))
    return nmb_fail(run, NMB_UNSUPPORTED, NMB_NOLOC, "%s has no %s refresh", d->info.name,
                    refresh == NMB_DRAM_ALLBANK ? "all-bank" : "per-bank");
  nmb_dramch *ch = NMB_NEW(run, nmb_dramch, 1);
  ch->d = d;
  ch->refresh = refresh;
  ch->nready = (size_t)d->nnode * (size_t)d->stride;
  ch->ready = NMB_NEW(run, int64_t, ch->nready);
  history_place(ch);
  ch->history_all = NMB_NEW(run, int64_t, ch->nhistory + 1);
  history_place(ch);
  for (int i = 0; i < 2; i++)
    ch->row[i] = NMB_NEW(run, int64_t, d->info.banks);
  nmb_dramch_reset(ch);
  *out = ch;
  return NMB_OK;
}

void
nmb_dramch_reset(nmb_dramch *ch)
{
  const nmb_dram *d = ch->d;
  memset(ch->ready, 0, ch->nready * sizeof *ch->ready);
  memset(ch->history_all, 0, ch->nhistory * sizeof *ch->history_all);
  for (int i = 0; i < 2; i++)
    for (int b = 0; b < d->info.banks; b++)
      ch->row[i][b] = CLOSED;
  memset(ch->count, 0, sizeof ch->count);
  ch->now = 0;
  ch->bus[0] = ch->bus[1] = 1;
  ch->mode = 0;
  ch->next_ref = 0;
  ch->stall = 0;
  ch->pair_tick = -1;
  ch->pair_part = ch->pair_bank = -1;
  ch->due = INT64_MAX;
  if (ch->refresh == NMB_DRAM_ALLBANK)
    ch->due = d->refi;
  else if (ch->refresh == NMB_DRAM_PERBANK)
    ch->due = d->refipb;
}

void
nmb_dramch_watch(nmb_dramch *ch, nmb_dram_hook *hook, void *arg)
{
  ch->hook = hook;
  ch->hook_arg = arg;
}

/* --------------------------------------------------------------------- timing */
/* A precharge at a falling edge beside the row command that holds the bus there. */
static bool
pairs_badly(const nmb_dramch *ch, const nmb_dram_cmd *k, int bank, int64_t t)
{
  const nmb_dram *d = ch->d;
  if (t != ch->pair_tick || d->node[bank][NMB_DRAM_RANK] != ch->pair_part)
    return false;
  return ch->pair_bank < 0 || k->scope != NMB_DRAM_BANK || bank == ch->pair_bank;
}

int64_t
nmb__dramch_raw(const nmb_dramch *ch, nmb_id c, int bank)
{
  const nmb_dram *d = ch->d;
  const nmb_dram_cmd *k = &d->info.cmd[c];
  const nmb__dram_levels *v = &d->check[c];
  const uint32_t *place = d->place[bank];
  const int64_t *ready = ch->ready + c;
  int64_t t = ch->bus[k->bus];
  int i = 0;
  for (; i < v->own; i++) {
    const int64_t r = ready[place[v->level[i]]];
    t = r > t ? r : t;
  }
  for (; i < v->n; i++) {
    const nmb__dram_banks all = nmb__dram_banks_of(d, k, bank);
    const int l = v->level[i], step = d->below[l] > all.step ? d->below[l] : all.step;
    for (int b = all.first; b < all.end; b += step) {
      const int64_t r = ready[d->place[b][l]];
      t = r > t ? r : t;
    }
  }
  return t;
}

int64_t
nmb__dramch_edge(const nmb_dramch *ch, nmb_id c, int bank, int64_t t)
{
  const nmb_dram_cmd *k = &ch->d->info.cmd[c];
  if (k->rise)
    return t + (t % 2 == 0);
  return ch->d->info.ticks_per_ck == 2 && pairs_badly(ch, k, bank, t) ? t + 1 : t;
}

int64_t
nmb_dramch_ready(const nmb_dramch *ch, nmb_id c, int bank, int64_t at)
{
  const int64_t raw = nmb__dramch_raw(ch, c, bank);
  return nmb__dramch_edge(ch, c, bank, raw > at ? raw : at);
}

static inline void
raise(int64_t *ready, const nmb__dram_mark *m, int n, int64_t t)
{
  for (int i = 0; i < n; i++)
    if (ready[m[i].to] < t + m[i].ticks)
      ready[m[i].to] = t + m[i].ticks;
}

/* The windows of command c at one part: h is its count, place and ring. */
static void
windows(int64_t *ready, const nmb__dram_marks *m, int64_t *h, int64_t t)
{
  const int64_t n = ++h[0], deep = m->deepest, at = h[1] + 1 < deep ? h[1] + 1 : 0;
  int64_t *ring = h + 2;
  h[1] = at;
  ring[at] = t;
  for (int i = 0; i < m->nwindow; i++) {
    const nmb__dram_mark *w = &m->window[i];
    if (n < w->window)
      continue;
    const int64_t i_then = at + 1 - w->window; /* none is deeper than the ring */
    const int64_t then = ring[i_then < 0 ? i_then + deep : i_then];
    if (ready[w->to] < then + w->ticks)
      ready[w->to] = then + w->ticks;
  }
}

static void
mark_part(nmb_dramch *ch, nmb_id c, int level, int bank, int64_t t)
{
  const nmb_dram *d = ch->d;
  const nmb__dram_marks *m = &d->marks[c][level];
  const int node = d->node[bank][level];
  int64_t *ready = ch->ready + d->place[bank][level];
  raise(ready, m->same, m->nsame, t);
  if (m->deepest > 0)
    windows(ready, m,
            ch->history[c][level] +
                (size_t)(node - d->first[level]) * (size_t)(m->deepest + 2),
            t);
}

/* The other parts in the same part of the level above. */
static void
mark_others(nmb_dramch *ch, nmb_id c, int level, int bank, int64_t t)
{
  const nmb_dram *d = ch->d;
  const nmb__dram_marks *m = &d->marks[c][level];
  const int first = nmb__dram_first(d, (nmb_dram_level)(level - 1), bank);
  const int mine = d->node[bank][level];
  for (int b = first; b < first + d->below[level - 1]; b += d->below[level])
    if (d->node[b][level] != mine)
      raise(ch->ready + d->place[b][level], m->other, m->nother, t);
}

static void
mark(nmb_dramch *ch, nmb_id c, int bank, int64_t t)
{
  const nmb_dram *d = ch->d;
  const nmb_dram_cmd *k = &d->info.cmd[c];
  const nmb__dram_levels *v = &d->touch[c];
  int i = 0;
  for (; i < v->own; i++) {
    mark_part(ch, c, v->level[i], bank, t);
    if (d->marks[c][v->level[i]].nother > 0)
      mark_others(ch, c, v->level[i], bank, t);
  }
  for (; i < v->n; i++) {
    const nmb__dram_banks all = nmb__dram_banks_of(d, k, bank);
    const int l = v->level[i], step = d->below[l] > all.step ? d->below[l] : all.step;
    for (int b = all.first; b < all.end; b += step)
      mark_part(ch, c, l, b, t);
  }
}

/* --------------------------------------------------------------------- states */
static void
act(nmb_dramch *ch, const nmb_dram_cmd *k, int bank, int64_t row)
{
  const nmb_dram *d = ch->d;
  if (k->does & NMB_DRAM_SWITCHES)
    ch->mode = k->mode != NMB_NONE ? k->mode : (ch->mode + 1) % d->info.modes;
  if (!(k->does & (NMB_DRAM_OPENS | NMB_DRAM_BEGINS | NMB_DRAM_CLOSES)))
    return;
  int64_t state = CLOSED;
  if (k->does & NMB_DRAM_OPENS)
    state = row;
  else if (k->does & NMB_DRAM_BEGINS)
    state = HALF(row);
  const nmb__dram_banks all = nmb__dram_banks_of(d, k, bank);
  for (int b = all.first; b < all.end; b += all.step)
    ch->row[k->buffer][b] = state;
}

/* Issues at a tick that is known to be ready. */
static void
commit(nmb_dramch *ch, nmb_id c, int bank, int64_t row, int64_t t)
{
  const nmb_dram *d = ch->d;
  const nmb_dram_cmd *k = &d->info.cmd[c];
  mark(ch, c, bank, t);
  act(ch, k, bank, row);
  ch->bus[k->bus] = t + k->ticks;
  ch->count[c]++;
  if (t > ch->now)
    ch->now = t;
  if (d->info.ticks_per_ck == 2 && k->bus == 0 && t % 2 == 1) {
    ch->pair_tick = t + k->ticks;
    ch->pair_part = d->node[bank][NMB_DRAM_RANK];
    ch->pair_bank = k->scope == NMB_DRAM_BANK ? bank : -1;
  }
  if (ch->hook)
    ch->hook(ch->hook_arg, t, c, bank, row);
}

void
nmb_dramch_issue(nmb_dramch *ch, nmb_id c, int bank, int64_t row, int64_t t)
{
  assert(t == nmb_dramch_ready(ch, c, bank, t));
  commit(ch, c, bank, row, t);
}

/* What one bank needs before a command: c itself for nothing. */
static nmb_id
bank_needs(const nmb_dramch *ch, const nmb_dram_cmd *k, nmb_id c, int64_t state,
           int64_t row)
{
  const nmb_dram *d = ch->d;
  if (k->does & NMB_DRAM_COLUMN) {
    if (state == row)
      return c;
    if (state == CLOSED)
      return d->opener[c];
    return state < CLOSED ? d->finisher[c] : d->closer[c];
  }
  if (k->does & NMB_DRAM_OPENS && d->finisher[c] == c && state < CLOSED)
    return c;
  if (k->does & (NMB_DRAM_OPENS | NMB_DRAM_BEGINS)) {
    if (state == CLOSED)
      return d->finisher[c] == c ? d->opener[c] : c;
    return state < CLOSED ? d->finisher[c] : d->closer[c];
  }
  if (k->does & NMB_DRAM_REFRESHES && state != CLOSED)
    return d->closer[c];
  return c;
}

static nmb_id
next_in_mode(const nmb_dramch *ch, nmb_id c, int bank, int64_t row)
{
  const nmb_dram *d = ch->d;
  const nmb_dram_cmd *k = &d->info.cmd[c];
  const int64_t *state = ch->row[k->buffer];
  if (k->scope == NMB_DRAM_BANK)
    return bank_needs(ch, k, c, state[bank], row);
  const nmb__dram_banks all = nmb__dram_banks_of(d, k, bank);
  nmb_id need = c;
  bool mixed = false;
  for (int b = all.first; b < all.end; b += all.step) {
    const nmb_id x = bank_needs(ch, k, c, state[b], row);
    if (x == d->closer[c] && x != c)
      return x;
    mixed |= b > all.first && x != need;
    need = x;
  }
  /* some banks are open: an all-bank activate needs all of them closed */
  return mixed ? d->closer[c] : need;
}

/* A refresh needs the second row buffers closed, too. */
static bool
second_open(const nmb_dramch *ch, const nmb_dram_cmd *k, int bank)
{
  const nmb__dram_banks all = nmb__dram_banks_of(ch->d, k, bank);
  for (int b = all.first; b < all.end; b += all.step)
    if (ch->row[1][b] != CLOSED)
      return true;
  return false;
}

nmb_id
nmb_dramch_next(const nmb_dramch *ch, nmb_id c, int bank, int64_t row)
{
  const nmb_dram_cmd *k = &ch->d->info.cmd[c];
  if (k->mode != NMB_NONE && k->mode != ch->mode && !(k->does & NMB_DRAM_SWITCHES))
    return ch->d->switcher[c];
  if (k->does & NMB_DRAM_REFRESHES && ch->d->closer2[c] != NMB_NONE &&
      second_open(ch, k, bank))
    return ch->d->closer2[c];
  return next_in_mode(ch, c, bank, row);
}

/* A mode switch is held back until what it is for could be issued. */
static int64_t
switch_ready(const nmb_dramch *ch, nmb_id sw, nmb_id c, int bank, int64_t row, int64_t at)
{
  const int64_t t = nmb_dramch_ready(ch, sw, bank, at);
  const nmb_id after = next_in_mode(ch, c, bank, row);
  return nmb_dramch_ready(ch, after, bank, t);
}

/* -------------------------------------------------------------------- refresh */
static void
refresh_part(nmb_dramch *ch, nmb_id ref, int bank)
{
  const int64_t due = ch->due > ch->now ? ch->due : ch->now;
  for (nmb_id n; (n = nmb_dramch_next(ch, ref, bank, CLOSED)) != ref;)
    commit(ch, n, bank, CLOSED, nmb_dramch_ready(ch, n, bank, due));
  commit(ch, ref, bank, CLOSED, nmb_dramch_ready(ch, ref, bank, due));
}

static void
refresh(nmb_dramch *ch)
{
  const nmb_dram *d = ch->d;
  if (ch->refresh == NMB_DRAM_PERBANK) {
    for (int b = ch->next_ref; b < d->info.banks; b += d->refpb_step)
      refresh_part(ch, d->refpb, b);
    ch->next_ref = (ch->next_ref + 1) % d->refpb_step;
    ch->due += d->refipb;
    return;
  }
  for (int b = 0; b < d->info.banks; b += d->below[d->refresh_level])
    refresh_part(ch, d->refab, b);
  ch->due += d->refi;
}

/* ------------------------------------------------------------------- stepping */
int64_t
nmb_dramch_step(nmb_dramch *ch, nmb_id c, int bank, int64_t row, int64_t at)
{
  int64_t planned = -1; /* tick of the command that a refresh held up */
  nmb_id held = NMB_NONE;
  for (;;) {
    const nmb_id n = nmb_dramch_next(ch, c, bank, row);
    if (n == NMB_NONE)
      return -1;
    const int64_t from = at > ch->now ? at : ch->now;
    const bool sw = n != c && ch->d->info.cmd[n].does & NMB_DRAM_SWITCHES;
    const int64_t t = sw ? switch_ready(ch, n, c, bank, row, from)
                         : nmb_dramch_ready(ch, n, bank, from);
    /* one that falls due while what waited for another is under way comes after it, or
     * an all-bank command might wait for ever */
    if (t >= ch->due && (planned < 0 || ch->due <= planned)) {
      if (planned < 0) {
        planned = t;
        held = n;
      }
      refresh(ch);
      continue;
    }
    commit(ch, n, bank, row, t);
    if (planned >= 0 && held != NMB_NONE && (n == c || held != c)) {
      ch->stall += t - planned;
      held = NMB_NONE;
    }
    if (n == c)
      return t;
  }
}

int64_t
nmb_dramch_burst(nmb_dramch *ch, nmb_id c, int bank, int64_t row, int64_t n, int64_t at)
{
  const int64_t gap = ch->d->gap[c];
  int64_t t = ch->now;
  while (n > 0) {
    t = nmb_dramch_step(ch, c, bank, row, at);
    n--;
    if (t < 0)
      return t;
    if (gap < 0 || n == 0)
      continue;
    int64_t run = (ch->due - 1 - t) / gap;
    if (run > n)
      run = n;
    if (run <= 0)
      continue;
    n -= run;
    if (ch->hook)
      for (int64_t i = 1; i < run; i++)
        ch->hook(ch->hook_arg, t + i * gap, c, bank, row);
    t += run * gap;
    commit(ch, c, bank, row, t);
    ch->count[c] += run - 1;
  }
  return t;
}

/* ------------------------------------------------------------------- questions */
int64_t
nmb_dramch_gap(const nmb_dramch *ch, nmb_id c)
{
  return ch->d->gap[c];
}

int64_t
nmb_dramch_now(const nmb_dramch *ch)
{
  return ch->now;
}

int64_t
nmb_dramch_count(const nmb_dramch *ch, nmb_id c)
{
  return ch->count[c];
}

int64_t
nmb_dramch_row(const nmb_dramch *ch, int buffer, int bank)
{
  return ch->row[buffer][bank] < CLOSED ? CLOSED : ch->row[buffer][bank];
}

int
nmb_dramch_mode(const nmb_dramch *ch)
{
  return ch->mode;
}

int64_t
nmb_dramch_refresh_stall(const nmb_dramch *ch)
{
  return ch->stall;
}
