/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A memory controller of one channel: queues, first ready first come, row policies,
 * refresh.  The rules are those of docs/dram.md; they give the command stamps of
 * Ramulator 2.1 on the microbenchmarks.  Ticks at which nothing can happen are skipped:
 * every look at a request that must wait notes until when. */
#include "hwsim/dram/control.h"

#include <string.h>

/* -------------------------------------------------------------------- queues */
void
nmb__queue_take(nmb__queue *q, int i, nmb__req *out)
{
  *out = q->v[i];
  q->n--;
  memmove(q->v + i, q->v + i + 1, (size_t)(q->n - i) * sizeof *q->v);
}

void
nmb__queue_add(nmb__queue *q, const nmb__req *r)
{
  q->v[q->n++] = *r;
}

void
nmb__wake(nmb__ctl *c, int64_t tick)
{
  if (tick > c->clk && tick < c->wake)
    c->wake = tick;
}

/* ---------------------------------------------------------------- who may go */
/* Would the command close a row that a request has been opened for? */
static bool
closes_held(const nmb__ctl *c, const nmb__req *r, nmb_id cmd)
{
  const nmb_dram_cmd *k = &c->d->info.cmd[cmd];
  if (!(k->does & NMB_DRAM_CLOSES) || c->active.n == 0)
    return false;
  const nmb__dram_banks all = nmb__dram_banks_of(c->d, k, r->bank);
  for (int b = all.first; b < all.end; b += all.step)
    if (c->held[b] > 0)
      return true;
  return false;
}

/* The next command of a request; nothing is looked up twice between two commands. */
static nmb_id
needs(nmb__ctl *c, nmb__req *r)
{
  if (r->version != c->version) {
    r->version = c->version;
    r->needs = nmb_dramch_next(c->ch, r->cmd, r->bank, r->row);
    r->raw = nmb__dramch_raw(c->ch, r->needs, r->bank);
  }
  return r->needs;
}

static bool
ready(nmb__ctl *c, const nmb__req *r, nmb_id cmd)
{
  const int64_t from = r->raw > c->clk ? r->raw : c->clk;
  const int64_t t = nmb__dramch_edge(c->ch, cmd, r->bank, from);
  nmb__wake(c, t);
  return t == c->clk;
}

/* The first to have come among those that can go. */
nmb__pick
nmb__pick_from(nmb__ctl *c, nmb__queue *q, nmb__filter *may)
{
  nmb__pick best = {0};
  for (int i = 0; i < q->n; i++) {
    nmb__req *r = &q->v[i];
    const nmb_id cmd = needs(c, r);
    if ((!may || may(c, r, cmd)) && (!best.q || r->arrive < best.q->v[best.i].arrive) &&
        ready(c, r, cmd)) {
      best = (nmb__pick){q, i, cmd, false};
      if (q != &c->active)
        return best; /* in order of arrival */
    }
  }
  return best;
}

/* Maintenance is strictly in order. */
nmb__pick
nmb__pick_urgent(nmb__ctl *c, nmb__filter *may)
{
  if (c->urgent.n == 0)
    return (nmb__pick){0};
  nmb__req *r = &c->urgent.v[0];
  const nmb_id cmd = needs(c, r);
  if (closes_held(c, r, cmd) || (may && !may(c, r, cmd)) || !ready(c, r, cmd))
    return (nmb__pick){0};
  return (nmb__pick){&c->urgent, 0, cmd, false};
}

static void
set_direction(nmb__ctl *c)
{
  const int w = 100 * c->write.n;
  if (!c->writing)
    c->writing = w > c->conf->high * c->write.cap || c->read.n == 0;
  else
    c->writing = !(w < c->conf->low * c->write.cap && c->read.n != 0);
}

nmb__pick
nmb__pick_queue(nmb__ctl *c, nmb__filter *may)
{
  if (c->urgent.n > 0)
    return (nmb__pick){0};
  set_direction(c);
  nmb__queue *q = c->writing ? &c->write : &c->read;
  const int n = c->conf->in_order && q->n > 1 ? 1 : q->n;
  for (int i = 0; i < n; i++) {
    nmb__req *r = &q->v[i];
    const nmb_id cmd = needs(c, r);
    if (!closes_held(c, r, cmd) && (!may || may(c, r, cmd)) && ready(c, r, cmd))
      return (nmb__pick){q, i, cmd, false};
  }
  return (nmb__pick){0};
}

/* ------------------------------------------------------------------ row policy */
/* The last access that a row is to have closes it by itself. */
static nmb_id
upgraded(const nmb__ctl *c, const nmb__req *r, nmb_id cmd)
{
  const nmb_id closing = c->d->auto_close[cmd];
  if (c->conf->cap > 0 && (cmd == c->rd || cmd == c->wr) && closing != NMB_NONE &&
      c->accesses[r->bank] >= c->conf->cap &&
      nmb__dramch_raw(c->ch, closing, r->bank) <= c->clk)
    return closing;
  return cmd;
}

static void
note_access(nmb__ctl *c, const nmb__req *r, nmb_id cmd)
{
  const nmb_dram_cmd *k = &c->d->info.cmd[cmd];
  if (c->conf->cap <= 0)
    return;
  if (k->does & NMB_DRAM_CLOSES) {
    const nmb__dram_banks all = nmb__dram_banks_of(c->d, k, r->bank);
    for (int b = all.first; b < all.end; b += all.step) {
      if (c->accesses[b] >= c->conf->cap && !c->precharging[b])
        c->hot--;
      c->accesses[b] = 0;
      c->precharging[b] = false;
    }
  } else if (k->does & NMB_DRAM_COLUMN) {
    if (++c->accesses[r->bank] == c->conf->cap && !c->precharging[r->bank])
      c->hot++;
  }
}

/* A precharge for every bank that has had its accesses, once it would be legal. */
static void
policy(nmb__ctl *c)
{
  for (int b = 0; c->hot > 0 && b < c->d->info.banks; b++) {
    if (c->accesses[b] < c->conf->cap || c->precharging[b])
      continue;
    const int64_t t = nmb__dramch_raw(c->ch, c->pre, b);
    if (t > c->clk) {
      nmb__wake(c, t);
      continue;
    }
    if (c->urgent.n == c->urgent.cap)
      continue;
    nmb__queue_add(&c->urgent, &(nmb__req){.k = -1, .row = -1, .bank = b, .cmd = c->pre});
    c->precharging[b] = true;
    c->hot--;
  }
}

/* --------------------------------------------------------------------- refresh */
static void
refresh(nmb__ctl *c)
{
  const nmb_dram *d = c->d;
  if (c->clk < c->refresh_at) {
    nmb__wake(c, c->refresh_at);
    return;
  }
  if (c->urgent.n + d->info.banks > c->urgent.cap)
    return; /* it waits for those before it */
  if (c->conf->refresh == NMB_DRAM_PERBANK) {
    for (int b = c->refresh_bank; b < d->info.banks; b += d->refpb_step)
      nmb__queue_add(&c->urgent,
                     &(nmb__req){.k = -1, .row = -1, .bank = b, .cmd = d->refpb});
    c->refresh_bank = (c->refresh_bank + 1) % d->refpb_step;
    c->refresh_at += d->refipb;
  } else {
    for (int b = 0; b < d->info.banks; b += d->below[d->refresh_level])
      nmb__queue_add(&c->urgent,
                     &(nmb__req){.k = -1, .row = -1, .bank = b, .cmd = d->refab});
    c->refresh_at += d->refi;
  }
  nmb__wake(c, c->refresh_at);
}

/* ------------------------------------------------------------------------ issue */
static void
count_row(nmb__ctl *c, nmb__req *r)
{
  if (r->counted || r->k < 0)
    return;
  r->counted = true;
  const int64_t row = nmb_dramch_row(c->ch, 0, r->bank);
  if (row == r->row)
    c->stats->hits++;
  else if (row >= 0)
    c->stats->conflicts++;
  else
    c->stats->misses++;
}

static void
retire(nmb__ctl *c, const nmb__req *r, bool write)
{
  if (r->k < 0)
    return;
  const int64_t done = c->clk + (write ? c->column_latency[1] : c->d->info.read_latency);
  c->stats->columns++;
  c->stats->last_column = c->clk;
  if (done > c->stats->end)
    c->stats->end = done;
  if (write)
    c->stats->writes++;
  else {
    c->stats->reads++;
    c->stats->latency += done - r->arrive;
  }
  if (c->sink)
    c->sink(c->sink_arg, r->k, c->clk, done);
}

nmb_id
nmb__issue(nmb__ctl *c, nmb__pick p)
{
  nmb__req *r = &p.q->v[p.i], old;
  const nmb_id cmd = p.plain ? p.cmd : upgraded(c, r, p.cmd);
  const unsigned does = c->d->info.cmd[cmd].does;
  if (r->k >= 0)
    c->served = c->clk;
  count_row(c, r);
  nmb_dramch_issue(c->ch, cmd, r->bank, r->row, c->clk);
  c->version++;
  note_access(c, r, cmd);
  if (p.cmd == r->cmd) {
    nmb__queue_take(p.q, p.i, &old);
    if (p.q == &c->active)
      c->held[old.bank]--;
    retire(c, &old, (does & NMB_DRAM_WRITES) != 0);
  } else if (does & NMB_DRAM_OPENS && p.q != &c->active && c->active.n < c->active.cap) {
    nmb__queue_take(p.q, p.i, &old);
    nmb__queue_add(&c->active, &old);
    c->held[old.bank]++;
  } else if (does & NMB_DRAM_OPENS && p.q == &c->active && !c->conf->count_once) {
    c->held[r->bank]++;
  }
  return cmd;
}

/* ------------------------------------------------------------------ schedulers */
static void
tick_one_bus(nmb__ctl *c)
{
  nmb__pick p = nmb__pick_from(c, &c->active, NULL);
  if (!p.q)
    p = nmb__pick_urgent(c, NULL);
  if (!p.q)
    p = nmb__pick_queue(c, NULL);
  if (p.q) {
    nmb__issue(c, p);
    nmb__wake(c, c->clk + 1);
  }
}

static bool
on_column_bus(const nmb__ctl *c, const nmb__req *r, nmb_id cmd)
{
  (void)r;
  return c->d->info.cmd[cmd].bus == 1;
}

static bool
on_row_bus(const nmb__ctl *c, const nmb__req *r, nmb_id cmd)
{
  (void)r;
  return c->d->info.cmd[cmd].bus == 0;
}

/* A column command, then a row command.  The row bus does not look at active requests:
 * their rows are open.  If one was closed under its request, that waits for another
 * request to open it; if that never comes, the row bus helps after a while. */
enum { PATIENCE = 8192 /* ticks */ };

static void
tick_two_buses(nmb__ctl *c)
{
  if (c->active.n > 0)
    nmb__wake(c, c->served + PATIENCE);
  for (int column = 1; column >= 0; column--) {
    nmb__filter *may = column ? on_column_bus : on_row_bus;
    nmb__pick p = {0};
    if (column)
      p = nmb__pick_from(c, &c->active, may);
    if (!p.q)
      p = nmb__pick_urgent(c, may);
    if (!p.q)
      p = nmb__pick_queue(c, may);
    if (!p.q && !column && c->clk >= c->served + PATIENCE)
      p = nmb__pick_from(c, &c->active, may);
    if (p.q) {
      nmb__issue(c, p);
      nmb__wake(c, c->clk + 1);
    }
  }
}

/* ---------------------------------------------------------------------- arrival */
static bool
same_place(const nmb__req *a, const nmb_dramreq *b)
{
  return a->bank == b->bank && a->row == b->row && a->column == b->column;
}

static bool
in_write_queue(const nmb__ctl *c)
{
  for (int i = 0; i < c->write.n; i++)
    if (same_place(&c->write.v[i], &c->head))
      return true;
  return false;
}

static nmb_status
fetch(nmb__ctl *c)
{
  const nmb_dram_info *o = &c->d->info;
  c->more = c->next(c->next_arg, c->k, &c->head);
  if (c->more &&
      (c->head.bank < 0 || c->head.bank >= o->banks || c->head.row < 0 ||
       c->head.row >= o->rows || c->head.column < 0 || c->head.column >= o->columns))
    return nmb_fail(c->run, NMB_BADINPUT, NMB_NOLOC,
                    "request %lld: bank %d, row %lld, column %lld is outside of %s",
                    (long long)c->k, c->head.bank, (long long)c->head.row,
                    (long long)c->head.column, o->name);
  return NMB_OK;
}

/* One request a tick, in order. */
static nmb_status
arrive(nmb__ctl *c)
{
  if (!c->more)
    return NMB_OK;
  if (c->head.at > c->clk) {
    nmb__wake(c, c->head.at);
    return NMB_OK;
  }
  nmb__queue *q = c->head.write ? &c->write : &c->read;
  const nmb__req r = {.k = c->k,
                      .arrive = c->clk - 1,
                      .row = c->head.row,
                      .column = c->head.column,
                      .bank = c->head.bank,
                      .cmd = c->head.write ? c->wr : c->rd};
  if (c->write.n > 0 && in_write_queue(c)) {
    c->stats->forwarded += !c->head.write;
    c->stats->merged += c->head.write;
    if (c->sink)
      c->sink(c->sink_arg, c->k, -1, c->clk);
  } else if (q->n < q->cap) {
    if (c->read.n + c->write.n + c->active.n + c->half.n == 0)
      c->served = c->clk;
    nmb__queue_add(q, &r);
  } else {
    return NMB_OK; /* until something was issued */
  }
  c->k++;
  nmb__wake(c, c->clk + 1);
  return fetch(c);
}

/* -------------------------------------------------------------------------- run */
static nmb__queue
queue(nmb_run *run, int cap)
{
  return (nmb__queue){0, cap, NMB_NEW(run, nmb__req, cap + 1)};
}

static nmb_status
setup(nmb__ctl *c)
{
  const nmb_dram *d = c->d;
  const nmb_dram_info *o = &d->info;
  NMB_TRY(nmb_dramch_new(c->run, d, c->conf->refresh, &c->ch));
  c->read = queue(c->run, c->conf->reads);
  c->write = queue(c->run, c->conf->writes);
  c->active = queue(c->run, o->banks);
  c->urgent = queue(c->run, 4 * o->banks + 64);
  c->half = queue(c->run, o->banks);
  c->held = NMB_NEW(c->run, int, o->banks);
  c->accesses = NMB_NEW(c->run, int, o->banks);
  c->precharging = NMB_NEW(c->run, bool, o->banks);
  c->refresh_at = INT64_MAX;
  if (c->conf->refresh == NMB_DRAM_ALLBANK)
    c->refresh_at = d->refi;
  else if (c->conf->refresh == NMB_DRAM_PERBANK)
    c->refresh_at = d->refipb;
  c->rd = nmb_dram_command(d, "RD");
  c->wr = nmb_dram_command(d, "WR");
  if (c->rd == NMB_NONE || c->wr == NMB_NONE || d->closer[c->rd] == NMB_NONE)
    return nmb_fail(c->run, NMB_UNSUPPORTED, NMB_NOLOC,
                    "%s has no RD, WR and precharge of a bank", o->name);
  c->pre = d->closer[c->rd];
  int64_t cwl = 0;
  nmb_dram_value(d, "nCWL", &cwl);
  c->column_latency[0] = o->read_latency - o->burst;
  c->column_latency[1] = cwl * o->ticks_per_ck + o->burst;
  nmb__split_setup(c);
  return NMB_OK;
}

static bool
two_buses(const nmb_dram *d)
{
  for (int i = 0; i < d->info.ncmd; i++)
    if (d->info.cmd[i].bus == 1)
      return true;
  return false;
}

static bool
busy(const nmb__ctl *c)
{
  if (c->conf->columns > 0 && c->stats->columns >= c->conf->columns)
    return false;
  return c->more || c->read.n + c->write.n + c->active.n + c->half.n > 0;
}

/* Timing values under which refreshes leave no time for requests. */
static bool
stuck(const nmb__ctl *c)
{
  return c->read.n + c->write.n + c->active.n + c->half.n > 0 &&
         c->clk - c->served > ((int64_t)1 << 22);
}

nmb_status
nmb_dramctl_run(nmb_run *run, const nmb_dram *d, const nmb_dramctl *conf,
                nmb_dram_source *next, void *next_arg, nmb_dram_sink *sink,
                void *sink_arg, nmb_dram_hook *hook, void *hook_arg, nmb_dramstats *out)
{
  nmb__ctl *c = NMB_NEW(run, nmb__ctl, 1);
  memset(out, 0, sizeof *out);
  c->run = run;
  c->d = d;
  c->conf = conf;
  c->next = next;
  c->next_arg = next_arg;
  c->sink = sink;
  c->sink_arg = sink_arg;
  c->stats = out;
  if (conf->reads < 1 || conf->writes < 1 || conf->reads > 4096 || conf->writes > 4096)
    return nmb_fail(run, NMB_BADOPTION, NMB_NOLOC, "expected queues of 1..4096 entries");
  c->version = 1;
  NMB_TRY(setup(c));
  nmb_dramch_watch(c->ch, hook, hook_arg);
  NMB_TRY(fetch(c));
  const bool two = two_buses(d), split = c->first != NMB_NONE;
  for (c->clk = 1; busy(c); c->clk = c->wake) {
    c->wake = INT64_MAX;
    NMB_TRY(arrive(c));
    refresh(c);
    policy(c);
    if (split)
      nmb__split_tick(c);
    else if (two)
      tick_two_buses(c);
    else
      tick_one_bus(c);
    if (busy(c) && (c->wake == INT64_MAX || stuck(c)))
      return nmb_fail(run, NMB_NOSOLUTION, NMB_NOLOC,
                      "the controller of %s waits for ever at tick %lld", d->info.name,
                      (long long)c->clk);
  }
  return NMB_OK;
}
