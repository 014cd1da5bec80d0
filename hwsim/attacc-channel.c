/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The controller of an HBM3-PIM channel.
 *
 * The queue shows 33 requests.  Of those before the first barrier, and of the row
 * commands that those behind it need, the oldest that is ready goes first, unless it
 * would close a bank with a request that hits; a second command of the other kind (row
 * or column) may go in the same cycle.  Refresh comes before all of it.  The rules are
 * those of AttAcc's artifact, with whose command stamps this agrees. */
#include "hwsim/attacc.h"

#include <string.h>

enum { SIGHT = 33, BANKS = 32, GROUPS = 8, CLOSED = -1, NOTHING = -1 };

typedef struct channel {
  const nmb__att_timing *t;
  nmb__att_hook *hook;
  void *arg;
  nmb__att_result *r;
  int64_t now;
  /* the queue: rows of the list */
  const nmb__att_req *v;
  int64_t next, end;
  int n;
  int64_t queue[SIGHT];
  /* open rows, and the first tick at which each command may come; at BANK level bank 0
   * stands for all */
  int32_t row[BANKS];
  int64_t act[BANKS], pre[BANKS], mac[BANKS], mac_group[GROUPS], mac_any;
  int64_t row_bus, data_any, data_group[GROUPS];
  int refreshes; /* due: one for each pseudo-channel */
  int64_t due;
  int64_t last;       /* tick of the command before */
  nmb__att_cmd waited; /* for which the next MAC waits, if longer than it must */
} channel;

const char *
nmb__att_name(nmb__att_level level, nmb__att_cmd cmd)
{
  static const char *const mac[] = {"MACAB", "MACSB", "MACPB"};
  static const char *const act[] = {"ACTAB", "ACTSB", "ACTPB"};
  static const char *const pre[] = {"PREA", "PRESB", "PREPB"};
  static const char *const rest[] = {NULL, "WRGB", "MVSB", "MVGB", "SFM",
                                     "BARRIER", NULL, NULL, "PREA", "REFab"};
  return cmd == NMB__ATT_MAC   ? mac[level]
         : cmd == NMB__ATT_ACT ? act[level]
         : cmd == NMB__ATT_PRE ? pre[level]
                               : rest[cmd];
}

static int
bank_of(const channel *c, const nmb__att_req *q)
{
  switch (c->t->level) {
  case NMB__ATT_BANK: return 0;
  case NMB__ATT_GROUP: return q->bank;
  default: return q->rank * 16 + q->group * 4 + q->bank;
  }
}

/* What the request needs next. */
static nmb__att_cmd
needs(const channel *c, const nmb__att_req *q)
{
  if (q->cmd != NMB__ATT_MAC)
    return q->cmd;
  const int32_t row = c->row[bank_of(c, q)];
  return row == q->row ? NMB__ATT_MAC : row == CLOSED ? NMB__ATT_ACT : NMB__ATT_PRE;
}

static int64_t
later(int64_t a, int64_t b)
{
  return a > b ? a : b;
}

static int
group_of(const nmb__att_req *q)
{
  return q->rank * 4 + q->group;
}

static bool
is_ready(const channel *c, nmb__att_cmd cmd, const nmb__att_req *q)
{
  const int b = bank_of(c, q), g = group_of(q);
  switch (cmd) {
  case NMB__ATT_MAC:
    return c->now >= c->mac[b] && c->now >= c->mac_any && c->now >= c->mac_group[g];
  case NMB__ATT_ACT: return c->now >= c->act[b] && c->now >= c->row_bus;
  case NMB__ATT_PRE: return c->now >= c->pre[b] && c->now >= c->row_bus;
  case NMB__ATT_SFM:
  case NMB__ATT_BARRIER: return true;
  default: return c->now >= c->data_any && c->now >= c->data_group[g];
  }
}

static bool
is_row(nmb__att_cmd cmd)
{
  return cmd >= NMB__ATT_PRE;
}

/* ------------------------------------------------------------------ effects */
static void
raise(int64_t *t, int64_t to)
{
  *t = later(*t, to);
}

static void
issue_column(channel *c, nmb__att_cmd cmd, const nmb__att_req *q)
{
  const nmb__att_timing *t = c->t;
  const int b = bank_of(c, q), g = group_of(q);
  if (cmd == NMB__ATT_MAC) {
    c->mac_any = c->now + (t->level == NMB__ATT_BUFFER ? t->bl : t->ccd);
    if (t->level == NMB__ATT_BUFFER)
      c->mac_group[g] = c->now + t->ccdl;
    raise(&c->pre[b], c->now + t->rtp);
  } else if (cmd != NMB__ATT_BARRIER) {
    raise(&c->data_any, c->now + later(t->bl, t->ccds));
    raise(&c->data_group[g], c->now + t->ccdl);
  }
}

static void
issue_row(channel *c, nmb__att_cmd cmd, const nmb__att_req *q)
{
  const nmb__att_timing *t = c->t;
  const int b = q ? bank_of(c, q) : 0;
  c->row_bus = c->now + (cmd == NMB__ATT_ACT ? 2 : 1);
  if (cmd == NMB__ATT_ACT) {
    c->row[b] = q->row;
    c->mac[b] = c->now + t->rcd;
    raise(&c->act[b], c->now + t->rc);
    raise(&c->pre[b], c->now + t->ras);
  } else if (cmd == NMB__ATT_PRE) {
    c->row[b] = CLOSED;
    raise(&c->act[b], c->now + t->rp);
  } else
    for (int i = 0; i < BANKS; i++) {
      c->row[i] = CLOSED;
      if (cmd == NMB__ATT_REF)
        raise(&c->act[i], c->now + t->rfc);
      else if (t->level == NMB__ATT_BANK)
        raise(&c->act[i], c->now + t->rp);
    }
}

static void
issue(channel *c, nmb__att_cmd cmd, const nmb__att_req *q)
{
  c->r->count[cmd]++;
  const int64_t dt = c->now - c->last;
  int64_t own = cmd == NMB__ATT_MAC && dt > c->t->ccd ? c->t->ccd : dt;
  if (c->waited == NMB__ATT_REF && cmd != NMB__ATT_REF)
    own = 0; /* the refresh took it */
  c->r->time[cmd] += own;
  c->r->time[c->waited] += dt - own; /* a MAC waited for its row or its input */
  c->waited = cmd == NMB__ATT_MAC || cmd == NMB__ATT_SFM ? NMB__ATT_ACT : cmd;
  c->last = c->now;
  if (is_row(cmd))
    issue_row(c, cmd, q);
  else
    issue_column(c, cmd, q);
  if (c->hook && cmd != NMB__ATT_BARRIER)
    c->hook(c->arg, c->now, cmd, q);
}

/* ----------------------------------------------------------------- choosing */
static void
drop(channel *c, int at)
{
  c->n--;
  memmove(c->queue + at, c->queue + at + 1, (size_t)(c->n - at) * sizeof *c->queue);
}

static void
fill(channel *c)
{
  while (c->n < SIGHT && c->next < c->end)
    c->queue[c->n++] = c->next++;
}

static uint32_t
bank_bit(const nmb__att_req *q)
{
  return UINT32_C(1) << (q->rank * 16 + q->group * 4 + q->bank);
}

/* The request that goes next, ready or not; a barrier that has come to the front is
 * taken away. */
static int
choose(channel *c, nmb__att_cmd *what)
{
  uint32_t hits = 0;
  bool barrier = false;
  if (c->n > 0 && c->v[c->queue[0]].cmd == NMB__ATT_BARRIER)
    drop(c, 0);
  if (c->n == 0)
    return NOTHING;
  for (int i = 0; i < c->n; i++)
    if (c->v[c->queue[i]].cmd == NMB__ATT_MAC &&
        needs(c, &c->v[c->queue[i]]) == NMB__ATT_MAC)
      hits |= bank_bit(&c->v[c->queue[i]]);
  int best = 0;
  *what = needs(c, &c->v[c->queue[0]]);
  bool ready = is_ready(c, *what, &c->v[c->queue[0]]);
  for (int i = 1; i < c->n && !ready; i++) {
    const nmb__att_req *q = &c->v[c->queue[i]];
    const nmb__att_cmd cmd = needs(c, q);
    barrier |= cmd == NMB__ATT_BARRIER;
    if ((barrier && !is_row(cmd)) || !is_ready(c, cmd, q) ||
        (cmd != NMB__ATT_MAC && hits & bank_bit(q)))
      continue;
    best = i;
    *what = cmd;
    ready = true;
  }
  return best;
}

static bool
any_open(const channel *c)
{
  for (int i = 0; i < BANKS; i++)
    if (c->row[i] != CLOSED)
      return true;
  return false;
}

/* A refresh that is due, or the precharge before it.  *what: which of them. */
static bool
try_refresh(channel *c, nmb__att_cmd *what)
{
  *what = any_open(c) ? NMB__ATT_PREA : NMB__ATT_REF;
  if (c->now < c->row_bus ||
      (*what == NMB__ATT_PREA && c->t->level == NMB__ATT_BANK && c->now < c->pre[0]))
    return false;
  c->refreshes -= *what == NMB__ATT_REF;
  issue(c, *what, NULL);
  return true;
}

static bool
try_request(channel *c, bool second, bool row, nmb__att_cmd *what)
{
  const int i = choose(c, what);
  if (i == NOTHING)
    return false;
  const nmb__att_req *q = &c->v[c->queue[i]];
  if ((second && (is_row(*what) != row || *what == NMB__ATT_BARRIER)) ||
      !is_ready(c, *what, q))
    return false;
  issue(c, *what, q);
  if (*what == q->cmd)
    drop(c, i);
  return true;
}

static void
tick(channel *c)
{
  nmb__att_cmd first = NMB__ATT_BARRIER, other;
  if (c->now == c->due) {
    c->due += c->t->refi;
    c->refreshes += 2;
  }
  if (c->refreshes)
    (void)try_refresh(c, &first);
  else
    (void)try_request(c, false, false, &first);
  if (first != NMB__ATT_BARRIER)
    (void)try_request(c, true, !is_row(first), &other);
}

void
nmb__att_execute(const nmb__att_timing *t, const nmb__att_list *l, nmb__att_hook *hook,
                 void *arg, nmb__att_result *out)
{
  channel c = {.t = t, .hook = hook, .arg = arg, .r = out, .v = l->v, .end = l->n};
  memset(out, 0, sizeof *out);
  c.waited = NMB__ATT_ACT;
  c.due = t->refi > 0 ? t->refi : INT64_MAX;
  for (int i = 0; i < BANKS; i++)
    c.row[i] = CLOSED;
  for (fill(&c); c.n > 0 || c.refreshes; fill(&c)) {
    c.now++;
    tick(&c);
  }
  out->cycles = c.now;
}
