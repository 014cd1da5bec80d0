/* SPDX-License-Identifier: GPL-3.0-or-later */
/* LPDDR5's part of the controller: a row is opened by two commands, the second of which
 * may come up to nAAD later, and a column command needs the data clock in step, which a
 * CAS in the tick before brings about. */
#include "hwsim/dram/control.h"

void
nmb__split_setup(nmb__ctl *c)
{
  const nmb_dram *d = c->d;
  const int64_t k = d->info.ticks_per_ck;
  int64_t v = 0;
  c->first = c->second = NMB_NONE;
  if (d->finisher[c->rd] == NMB_NONE)
    return;
  c->first = d->opener[c->rd];
  c->second = d->finisher[c->rd];
  c->cas_rd = nmb_dram_command(d, "CAS_RD");
  c->cas_wr = nmb_dram_command(d, "CAS_WR");
  c->deadline = NMB_NEW(c->run, int64_t, d->info.banks);
  c->split = nmb_dram_value(d, "nAAD", &v) ? v * k : k;
  c->post = nmb_dram_value(d, "nWCKPST", &v) ? v * k : 0;
}

static bool
column(const nmb__ctl *c, nmb_id cmd)
{
  return (c->d->info.cmd[cmd].does & (NMB_DRAM_READS | NMB_DRAM_WRITES)) != 0;
}

/* Is a bank that the command addresses between the two steps? */
static bool
half_open(const nmb__ctl *c, const nmb__req *r, nmb_id cmd)
{
  const nmb__dram_banks all = nmb__dram_banks_of(c->d, &c->d->info.cmd[cmd], r->bank);
  for (int b = all.first; b < all.end; b += all.step)
    if (c->deadline[b] > 0)
      return true;
  return false;
}

/* Between the two steps of any bank no other row is begun, and nothing happens to that
 * bank; the second step belongs to the request that took the first. */
static bool
allowed(const nmb__ctl *c, const nmb__req *r, nmb_id cmd)
{
  if (cmd == c->second)
    return false;
  if (c->half.n == 0 || column(c, cmd))
    return true;
  return cmd != c->first && !half_open(c, r, cmd);
}

/* The second step with the nearest deadline (not after `by`) that can go. */
static nmb__pick
second_step(nmb__ctl *c, int64_t by)
{
  nmb__pick best = {0};
  for (int i = 0; i < c->half.n; i++) {
    const nmb__req *r = &c->half.v[i];
    const int64_t due = c->deadline[r->bank];
    const int64_t t = nmb_dramch_ready(c->ch, c->second, r->bank, c->clk);
    nmb__wake(c, t);
    nmb__wake(c, due);
    if (due > by || t > c->clk)
      continue;
    const nmb__req *b = best.q ? &c->half.v[best.i] : NULL;
    if (!b || due < c->deadline[b->bank] ||
        (due == c->deadline[b->bank] && r->arrive < b->arrive))
      best = (nmb__pick){&c->half, i, c->second, false};
  }
  return best;
}

static void
finish(nmb__ctl *c, nmb__pick p)
{
  c->deadline[c->half.v[p.i].bank] = 0;
  nmb__issue(c, p);
  nmb__wake(c, c->clk + 1);
}

static void
keep_in_step(nmb__ctl *c, nmb_id cmd)
{
  const bool write = (c->d->info.cmd[cmd].does & NMB_DRAM_WRITES) != 0;
  const int64_t until =
      c->clk + (write ? c->column_latency[1] : c->column_latency[0] + c->d->info.burst) +
      c->post;
  if (until > c->in_step)
    c->in_step = until;
}

/* The column command that a CAS was issued for; it is not made a closing one. */
static void
after_cas(nmb__ctl *c)
{
  nmb__req *r = &c->cas_of->v[c->cas_at];
  const int64_t t = nmb_dramch_ready(c->ch, r->cmd, r->bank, c->clk);
  nmb__wake(c, t);
  if (t > c->clk)
    return;
  const nmb__pick p = {c->cas_of, c->cas_at, r->cmd, true};
  c->cas_of = NULL;
  keep_in_step(c, r->cmd);
  nmb__issue(c, p);
  nmb__wake(c, c->clk + 1);
}

static bool
deadline_near(const nmb__ctl *c)
{
  for (int i = 0; i < c->half.n; i++)
    if (c->deadline[c->half.v[i].bank] <= c->clk + 1)
      return true;
  return false;
}

/* The CAS for a column command while the data clock is not in step. */
static void
cas(nmb__ctl *c, nmb__pick p)
{
  const nmb__req *r = &p.q->v[p.i];
  if (deadline_near(c)) { /* the column command would come in its tick */
    const nmb__pick s = second_step(c, INT64_MAX);
    if (s.q)
      finish(c, s);
    return;
  }
  const nmb_id cmd = c->d->info.cmd[p.cmd].does & NMB_DRAM_WRITES ? c->cas_wr : c->cas_rd;
  const int64_t t = nmb_dramch_ready(c->ch, cmd, r->bank, c->clk);
  nmb__wake(c, t);
  if (t > c->clk)
    return;
  nmb_dramch_issue(c->ch, cmd, r->bank, r->row, c->clk);
  c->version++;
  nmb__wake(c, c->clk + 1);
  c->cas_of = p.q;
  c->cas_at = p.i;
}

static void
begin(nmb__ctl *c, nmb__pick p)
{
  nmb__req r;
  const int bank = p.q->v[p.i].bank;
  nmb__issue(c, p);
  nmb__queue_take(p.q, p.i, &r);
  if (p.q == &c->active && c->conf->count_once)
    c->held[bank]--;
  nmb__queue_add(&c->half, &r);
  c->deadline[bank] = c->clk + c->split;
}

void
nmb__split_tick(nmb__ctl *c)
{
  const nmb__pick must = second_step(c, c->clk);
  if (c->cas_of) {
    after_cas(c);
    return;
  }
  nmb__pick p = must;
  if (!p.q)
    p = nmb__pick_from(c, &c->active, allowed);
  if (!p.q)
    p = nmb__pick_urgent(c, allowed);
  if (!p.q)
    p = nmb__pick_queue(c, allowed);
  if (!p.q)
    p = second_step(c, INT64_MAX);
  if (!p.q)
    return;
  nmb__wake(c, c->clk + 1);
  if (p.q == &c->half)
    finish(c, p);
  else if (column(c, p.cmd) && c->clk >= c->in_step && c->cas_rd != NMB_NONE)
    cas(c, p);
  else if (p.cmd == c->first)
    begin(c, p);
  else {
    if (column(c, p.cmd))
      keep_in_step(c, p.cmd);
    nmb__issue(c, p);
  }
}
