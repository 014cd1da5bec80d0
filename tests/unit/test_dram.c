/* SPDX-License-Identifier: GPL-3.0-or-later */
/* DRAM kinds, channels and the controller.
 *
 * What a channel allows is compared with a second reading of the constraint rows that
 * knows nothing of compiled tables: it goes through all commands issued so far. */
#include <stdlib.h>
#include <string.h>

#include "nmbench/nmb_dram.h"

#include "base/run.h"
#include "hwsim/dram/dram.h"
#include "unit.h"

static const nmb_dram *
open_kind(nmb_run *run, const char *kind)
{
  const nmb_dram *d = NULL;
  CU_ASSERT_EQUAL_FATAL(nmb_dram_open(run, kind, NULL, &d), NMB_OK);
  return d;
}

static nmb_dramch *
channel(nmb_run *run, const nmb_dram *d, nmb_dram_refresh refresh)
{
  nmb_dramch *ch = NULL;
  CU_ASSERT_EQUAL_FATAL(nmb_dramch_new(run, d, refresh, &ch), NMB_OK);
  return ch;
}

static int64_t
value(const nmb_dram *d, const char *name)
{
  int64_t v = -1;
  CU_ASSERT_TRUE_FATAL(nmb_dram_value(d, name, &v));
  return v;
}

/* ------------------------------------------------------- the second reading of rows */
typedef struct event {
  int64_t tick;
  nmb_id cmd;
  int bank;
} event;

typedef struct history {
  const nmb_dram *d;
  int n;
  event e[4096];
  bool legal;
  int64_t last;
} history;

/* The number of the part of `level` that a bank is in. */
static int
part(const nmb_dram *d, int level, int bank)
{
  int below = 1;
  for (int l = level + 1; l < NMB_DRAM_NLEVEL; l++)
    below *= d->info.count[l];
  return bank / below;
}

static bool
addresses(const nmb_dram *d, nmb_id cmd, int bank, int other)
{
  const nmb_dram_cmd *k = &d->info.cmd[cmd];
  int below = 1;
  for (int l = (int)k->inner + 1; l < NMB_DRAM_NLEVEL; l++)
    below *= d->info.count[l];
  return part(d, (int)k->scope, bank) == part(d, (int)k->scope, other) &&
         bank % below == other % below;
}

/* Does the command touch one of the parts of `level` that are in the set? */
static bool
touches(const nmb_dram *d, nmb_id cmd, int bank, int level, const bool *set)
{
  for (int b = 0; b < d->info.banks; b++)
    if (set[part(d, level, b)] && addresses(d, cmd, bank, b))
      return true;
  return false;
}

/* The row for one set of parts: after the window-th last `from` in them. */
static int64_t
parts_allow(const history *h, const nmb__dram_row *r, int bank, const bool *set)
{
  const nmb_dram *d = h->d;
  const int above = (int)r->level - 1;
  int seen = 0;
  for (int i = h->n - 1; i >= 0; i--) {
    if (h->e[i].cmd != r->from)
      continue;
    bool hit = touches(d, r->from, h->e[i].bank, (int)r->level, set);
    if (r->other) /* in the same part above, but another one here */
      hit = !hit && part(d, above, h->e[i].bank) == part(d, above, bank);
    if (hit && ++seen == r->window)
      return h->e[i].tick + r->ticks;
  }
  return 0;
}

static int64_t
row_allows(const history *h, const nmb__dram_row *r, int bank)
{
  const nmb_dram *d = h->d;
  const int level = (int)r->level;
  bool set[NMB__DRAM_MAXBANKS] = {false}, one[NMB__DRAM_MAXBANKS] = {false};
  int64_t t = 0;
  for (int b = 0; b < d->info.banks; b++)
    set[part(d, level, b)] |= addresses(d, r->to, bank, b);
  if (r->window == 1)
    return parts_allow(h, r, bank, set);
  for (int p = 0; p <= part(d, level, d->info.banks - 1); p++) {
    if (!set[p])
      continue;
    one[p] = true;
    const int64_t v = parts_allow(h, r, bank, one);
    one[p] = false;
    if (v > t)
      t = v;
  }
  return t;
}

static int64_t
rows_allow(const history *h, nmb_id cmd, int bank)
{
  const nmb_dram_cmd *k = &h->d->info.cmd[cmd];
  int64_t t = 1;
  for (int i = 0; i < h->n; i++) {
    const nmb_dram_cmd *o = &h->d->info.cmd[h->e[i].cmd];
    if (o->bus == k->bus && h->e[i].tick + o->ticks > t)
      t = h->e[i].tick + o->ticks;
  }
  for (int i = 0; i < h->d->nrow; i++)
    if (h->d->row[i].to == cmd) {
      const int64_t r = row_allows(h, &h->d->row[i], bank);
      if (r > t)
        t = r;
    }
  return t;
}

static void
note(void *arg, int64_t tick, nmb_id cmd, int bank, int64_t row)
{
  history *h = arg;
  (void)row;
  if (tick < h->last)
    h->legal = false;
  h->last = tick;
  if (h->n < (int)(sizeof h->e / sizeof *h->e))
    h->e[h->n++] = (event){tick, cmd, bank};
}

/* ------------------------------------------------------------------------- kinds */
static void
every_kind(void (*check)(nmb_run *, const nmb_dram *))
{
  nmb_run *run = nmb__run_open(stderr);
  const char **name;
  int n = 0;
  CU_ASSERT_EQUAL_FATAL(nmb_dram_list(run, &name, &n), NMB_OK);
  CU_ASSERT_TRUE(n > 40);
  for (int i = 0; i < n; i++)
    check(run, open_kind(run, name[i]));
  nmb__run_close(run);
}

static void
kind_is_sane(nmb_run *run, const nmb_dram *d)
{
  const nmb_dram_info *o = nmb_dram_get(d);
  (void)channel(run, d, NMB_DRAM_ALLBANK);
  CU_ASSERT_TRUE(*o->source != '\0');
  CU_ASSERT_TRUE(o->banks >= 8 && o->tx_bytes >= 16 && o->columns >= 32);
  for (int i = 0; i < o->ncmd; i++) {
    if (o->cmd[i].does & (NMB_DRAM_READS | NMB_DRAM_WRITES)) {
      CU_ASSERT_NOT_EQUAL(d->opener[i], NMB_NONE);
      CU_ASSERT_NOT_EQUAL(d->closer[i], NMB_NONE);
    }
  }
}

static void
test_kinds(void)
{
  every_kind(kind_is_sane);
}

/* A bank that stands to bank 0 as the row says, as far away as that allows. */
static int
bank_for(const nmb_dram *d, const nmb__dram_row *r)
{
  for (int b = d->info.banks - 1; b >= 0; b--) {
    const bool same = part(d, (int)r->level, b) == 0;
    const bool above = r->level == NMB_DRAM_CHANNEL || part(d, (int)r->level - 1, b) == 0;
    if (r->other ? !same && above : same)
      return b;
  }
  return -1;
}

/* After as many `from` as the row's window has: not ready at t - 1, ready at t. */
static void
row_holds(nmb_run *run, const nmb_dram *d, const nmb__dram_row *r)
{
  static history h;
  const size_t mark = nmb__run_mark(run);
  nmb_dramch *ch = channel(run, d, NMB_DRAM_NOREFRESH);
  const int bank = bank_for(d, r);
  if (bank < 0)
    return; /* a kind with one rank has no other */
  h = (history){.d = d, .legal = true};
  nmb_dramch_watch(ch, note, &h);
  int64_t t = 1;
  for (int i = 0; i < r->window; i++) {
    t = nmb_dramch_ready(ch, r->from, 0, t);
    nmb_dramch_issue(ch, r->from, 0, 0, t);
  }
  const int64_t own = row_allows(&h, r, bank), all = rows_allow(&h, r->to, bank);
  CU_ASSERT_TRUE(own >= h.e[0].tick + r->ticks && own <= all);
  CU_ASSERT_EQUAL(nmb__dramch_raw(ch, r->to, bank), all);
  const int64_t at = nmb_dramch_ready(ch, r->to, bank, 0);
  CU_ASSERT_TRUE(at >= all && at <= all + 1);
  CU_ASSERT_TRUE(nmb_dramch_ready(ch, r->to, bank, at - 1) > at - 1);
  CU_ASSERT_EQUAL(nmb_dramch_ready(ch, r->to, bank, at), at);
  nmb__run_release(run, mark);
}

static void
all_rows_hold(nmb_run *run, const nmb_dram *d)
{
  for (int i = 0; i < d->nrow; i++)
    row_holds(run, d, &d->row[i]);
}

/* One kind of every table. */
static void
test_rows(void)
{
  nmb_run *run = nmb__run_open(stderr);
  const nmb_dram *d;
  const char **kind;
  int n;
  CU_ASSERT_EQUAL_FATAL(nmb_dram_list(run, &kind, &n), NMB_OK);
  CU_ASSERT_TRUE(n > 30); /* all speeds of eight sorts of DRAM, and PIM kinds */
  for (int i = 0; i < n; i++)
    all_rows_hold(run, open_kind(run, kind[i]));
  /* two ranks */
  CU_ASSERT_EQUAL_FATAL(nmb_dram_open(run, "DDR4_2400R", "rank=2", &d), NMB_OK);
  CU_ASSERT_EQUAL(nmb_dram_get(d)->banks, 32);
  all_rows_hold(run, d);
  nmb__run_close(run);
}

/* Some by hand: clocks between first ticks of commands, from the standards' values. */
static void
test_by_hand(void)
{
  static const struct {
    const char *kind, *from, *to;
    int bank, expect; /* of the second; ticks after the first */
  } rows[] = {
      {"DDR4_3200AA", "ACT", "RD", 0, 22},     {"DDR4_3200AA", "RD", "RD", 1, 8},
      {"DDR4_3200AA", "RD", "RD", 4, 4},       {"DDR4_3200AA", "RD", "WR", 4, 12},
      {"DDR4_3200AA", "WR", "RD", 4, 24},      {"DDR4_3200AA", "WR", "RD", 1, 32},
      {"DDR4_3200AA", "REFab", "ACT", 9, 576}, {"DDR5_4800AN", "ACT", "RD", 0, 34},
      {"DDR5_4800AN", "PREpb", "ACT", 0, 33},  {"DDR5_4800AN", "ACT", "PREpb", 0, 78},
      {"DDR5_4800AN", "WR", "WR", 1, 48},      {"GDDR6_14000", "RD", "WR", 5, 25},
      {"HBM2_2000", "ACT", "RD", 0, 15},       {"HBM2_2000", "ACT", "ACT", 16, 2},
      {"HBM3_6400", "ACT", "RD", 0, 63},       {"HBM3_6400", "RD", "RD", 16, 6},
      {"HBM3_6400", "WR", "WR", 16, 4},        {"HBM3_6400", "RD", "RD", 32, 2},
      {"HBM3_6400", "PREpb", "ACT", 0, 50},    {"GDDR6_AiM", "ACT16", "MAC16", 0, 56},
      {"GDDR6_AiM", "MAC16", "PREA", 0, 12},   {"HBM3_5.2", "MACAB", "MACAB", 0, 6},
      {"HBM3_5.2_NPC", "MACAB", "MACAB", 0, 4}};
  nmb_run *run = nmb__run_open(stderr);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const nmb_dram *d = open_kind(run, rows[i].kind);
    nmb_dramch *ch = channel(run, d, NMB_DRAM_NOREFRESH);
    nmb_dramch_issue(ch, nmb_dram_command(d, rows[i].from), 0, 0, 1);
    CU_ASSERT_EQUAL(nmb__dramch_raw(ch, nmb_dram_command(d, rows[i].to), rows[i].bank),
                    1 + rows[i].expect);
  }
  nmb__run_close(run);
}

/* ------------------------------------------------------------------- random commands */
static uint32_t
random_of(uint32_t *x, uint32_t n)
{
  *x = *x * 1664525u + 1013904223u;
  return (*x >> 8) % n;
}

/* Can nmb_dramch_step reach it by itself? */
static bool
reachable(const nmb_dram *d, nmb_id c)
{
  const unsigned does = d->info.cmd[c].does;
  if (does & NMB_DRAM_COLUMN)
    return d->opener[c] != NMB_NONE && d->closer[c] != NMB_NONE;
  return does == 0;
}

/* Bursts give the ticks of single steps, and leave the channel as they do; no command of
 * either comes before all rows allow it. */
static void
bursts_are_steps(nmb_run *run, const nmb_dram *d)
{
  static history h;
  uint32_t x = 12345;
  for (int mode = 0; mode < 3; mode++) {
    nmb_dramch *a, *b;
    const nmb_dram_refresh refresh = (nmb_dram_refresh)mode;
    if ((mode == 1 && d->refi == 0) || (mode == 2 && d->refipb == 0))
      continue;
    a = channel(run, d, refresh);
    b = channel(run, d, refresh);
    h = (history){.d = d, .legal = true};
    nmb_dramch_watch(b, note, &h);
    for (int i = 0; i < 150; i++) {
      const nmb_id c = (nmb_id)random_of(&x, (uint32_t)d->info.ncmd);
      const int bank = (int)random_of(&x, (uint32_t)d->info.banks);
      const int64_t row = random_of(&x, 3), n = 1 + random_of(&x, i % 5 == 0 ? 400 : 9);
      const int64_t at = random_of(&x, 4) ? 0 : nmb_dramch_now(a) + random_of(&x, 50);
      int64_t last = 0;
      if (!reachable(d, c))
        continue;
      for (int64_t k = 0; k < n; k++)
        last = nmb_dramch_step(b, c, bank, row, at);
      CU_ASSERT_EQUAL(nmb_dramch_burst(a, c, bank, row, n, at), last);
    }
    for (nmb_id c = 0; c < d->info.ncmd; c++) {
      CU_ASSERT_EQUAL(nmb_dramch_count(a, c), nmb_dramch_count(b, c));
      for (int bank = 0; bank < d->info.banks; bank++)
        if (nmb__dramch_raw(a, c, bank) != nmb__dramch_raw(b, c, bank))
          CU_FAIL("a burst leaves another state");
    }
    CU_ASSERT_EQUAL(nmb_dramch_refresh_stall(a), nmb_dramch_refresh_stall(b));
    CU_ASSERT_TRUE(h.legal);
    CU_ASSERT_TRUE(mode == 0 || nmb_dramch_refresh_stall(a) > 0);
    const int n = h.n < 150 ? h.n : 150;
    for (h.n = 0; h.n < n; h.n++)
      if (h.e[h.n].tick < rows_allow(&h, h.e[h.n].cmd, h.e[h.n].bank))
        CU_FAIL("a command comes before a row allows it");
  }
}

static const char *const tables[] = { /* one of each file */
    "DDR4_2400R", "DDR5_4800AN", "LPDDR5_6400", "GDDR6_14000",  "HBM2_2000",  "HBM3_6400",
    "GDDR6_AiM",  "HBM3_5.2",    "HBM2_PIM",    "HBM2_NeuPIMs", "HBM2E_Pimba"};

static void
test_bursts(void)
{
  nmb_run *run = nmb__run_open(stderr);
  for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
    bursts_are_steps(run, open_kind(run, tables[i]));
  nmb__run_close(run);
}

/* --------------------------------------------------------------------------- PIM */
/* The stamps of the public AiM simulator (0f28a07) for a GEMV of 1024 x 1024 on 32
 * channels. */
static void
test_aim(void)
{
  nmb_run *run = nmb__run_open(stderr);
  const nmb_dram *d = open_kind(run, "GDDR6_AiM");
  nmb_dramch *ch = channel(run, d, NMB_DRAM_NOREFRESH);
  const nmb_id gb = nmb_dram_command(d, "WRGB"), bias = nmb_dram_command(d, "WRMAC16"),
               mac = nmb_dram_command(d, "MAC16"), rd = nmb_dram_command(d, "RDMAC16");
  CU_ASSERT_EQUAL(nmb_dramch_step(ch, gb, 0, -1, 0), 33);
  CU_ASSERT_EQUAL(nmb_dramch_burst(ch, gb, 0, -1, 63, 0), 159);
  CU_ASSERT_EQUAL(nmb_dramch_burst(ch, bias, 0, -1, 2, 0), 163);
  CU_ASSERT_EQUAL(nmb_dramch_burst(ch, mac, 0, 0, 64, 0), 378);
  CU_ASSERT_EQUAL(nmb_dramch_burst(ch, mac, 0, 1, 64, 0), 604);
  CU_ASSERT_EQUAL(nmb_dramch_step(ch, rd, 0, -1, 0), 638);
  nmb__run_close(run);
}

/* While a row is multiplied from the second buffer, the first one serves reads. */
static void
test_dual_rows(void)
{
  nmb_run *run = nmb__run_open(stderr);
  const nmb_dram *d = open_kind(run, "HBM2_NeuPIMs");
  nmb_dramch *ch = channel(run, d, NMB_DRAM_ALLBANK);
  const nmb_id g = nmb_dram_command(d, "G_ACT"), rd = nmb_dram_command(d, "RD"),
               comp = nmb_dram_command(d, "COMP");
  for (int b = 0; b < d->info.banks; b += d->info.count[NMB_DRAM_BANK])
    nmb_dramch_step(ch, g, b, 7, 0);
  CU_ASSERT_EQUAL(nmb_dramch_next(ch, comp, 0, 7), comp);
  nmb_dramch_step(ch, rd, 0, 3, 0);
  CU_ASSERT_EQUAL(nmb_dramch_row(ch, 0, 0), 3);
  CU_ASSERT_EQUAL(nmb_dramch_row(ch, 1, 0), 7);
  CU_ASSERT_EQUAL(nmb_dramch_next(ch, comp, 0, 7), comp);
  /* a refresh closes both */
  nmb_dramch_step(ch, rd, 0, 3, value(d, "nREFI"));
  CU_ASSERT_EQUAL(nmb_dramch_count(ch, nmb_dram_command(d, "REFab")), 1);
  CU_ASSERT_EQUAL(nmb_dramch_row(ch, 1, 0), -1);
  nmb__run_close(run);
}

/* A command to the same bank of all groups leaves the others alone. */
static void
test_scopes(void)
{
  nmb_run *run = nmb__run_open(stderr);
  const nmb_dram *d = open_kind(run, "HBM3_5.2");
  nmb_dramch *ch = channel(run, d, NMB_DRAM_NOREFRESH);
  nmb_dramch_step(ch, nmb_dram_command(d, "MACSB"), 2, 5, 0);
  int open = 0;
  for (int b = 0; b < d->info.banks; b++) {
    open += nmb_dramch_row(ch, 0, b) == 5;
    CU_ASSERT_EQUAL(nmb_dramch_row(ch, 0, b), b % 4 == 2 ? 5 : -1);
  }
  CU_ASSERT_EQUAL(open, 16);
  nmb_dramch_step(ch, nmb_dram_command(d, "MACPB"), 9, 6, 0);
  CU_ASSERT_EQUAL(nmb_dramch_row(ch, 0, 9), 6);
  CU_ASSERT_EQUAL(nmb_dramch_row(ch, 0, 9 + 32), 6);
  CU_ASSERT_EQUAL(nmb_dramch_row(ch, 0, 9 + 16), -1);
  nmb__run_close(run);
}

/* ---------------------------------------------------------------------- controller */
static nmb_dramstats
bench(nmb_run *run, const nmb_dram *d, const char *workload, int64_t n, int cap,
      nmb_dram_refresh refresh)
{
  nmb_dramctl conf = NMB_DRAMCTL_DEFAULT;
  nmb_dram_bench b;
  nmb_dramstats r = {0};
  conf.columns = n;
  conf.cap = cap;
  conf.refresh = refresh;
  CU_ASSERT_EQUAL_FATAL(nmb_dram_bench_start(run, d, workload, &b), NMB_OK);
  CU_ASSERT_EQUAL(
      nmb_dramctl_run(run, d, &conf, nmb_dram_bench_next, &b, NULL, NULL, NULL, NULL, &r),
      NMB_OK);
  return r;
}

static bool
family(const nmb_dram *d, const char *name)
{
  return !strcmp(nmb_dram_get(d)->family, name);
}

/* Unloaded: an activate at tick 1, then the column command; streaming of row hits at one
 * column every nCCDS; one bank, new rows: max(nRC, nRAS + nRP) apart. */
static void
formulas(nmb_run *run, const nmb_dram *d)
{
  const bool ddr = family(d, "DDR4") || family(d, "DDR5");
  int64_t first, rcd;
  if (!ddr && !family(d, "GDDR6") && !family(d, "HBM2") && !family(d, "HBM3") &&
      !family(d, "LPDDR5"))
    return;
  if (!nmb_dram_value(d, "nRCDRD", &rcd))
    rcd = value(d, "nRCD");
  const nmb_dram_info *o = nmb_dram_get(d);
  first = 1 + rcd * o->ticks_per_ck;
  if (family(d, "HBM2"))
    first += 1; /* an activate takes two clocks, a read one */
  else if (family(d, "HBM3"))
    first = (first + 1) | 1; /* three ticks and two; then the next rising edge */
  else if (family(d, "LPDDR5"))
    first += 1; /* CAS */
  CU_ASSERT_EQUAL(bench(run, d, "same_bank", 1, 0, NMB_DRAM_NOREFRESH).last_column,
                  first);
  /* activates at the start must keep up with the columns */
  if (ddr && value(d, "nRRDS") <= value(d, "nCCDS"))
    CU_ASSERT_EQUAL(bench(run, d, "seq_bgi", 500, 0, NMB_DRAM_NOREFRESH).last_column,
                    first + 499 * value(d, "nCCDS"));
  if (ddr) {
    const int64_t rc = value(d, "nRC"), rasrp = value(d, "nRAS") + value(d, "nRP");
    CU_ASSERT_EQUAL(bench(run, d, "same_bank", 200, 0, NMB_DRAM_NOREFRESH).last_column,
                    first + 199 * (rc > rasrp ? rc : rasrp));
  }
}

static void
test_formulas(void)
{
  every_kind(formulas);
}

typedef struct tally {
  int n, limit;
  nmb_dram_bench bench;
  int done[2000];
  int64_t issued, last;
  bool wrong;
} tally;

static bool
some(void *arg, int64_t k, nmb_dramreq *out)
{
  tally *t = arg;
  if (k >= t->limit)
    return false;
  nmb_dram_bench_next(&t->bench, k % 300, out); /* again and again: forwarding, merging */
  out->at = k / 100 * 3000;                     /* with pauses */
  out->write = k % 7 > 3;
  return true;
}

static void
finished(void *arg, int64_t k, int64_t issued, int64_t done)
{
  tally *t = arg;
  t->done[k]++;
  t->issued += issued >= 0;
  t->wrong |= done < issued;
}

/* Every request is done once, whatever the policy; what is neither forwarded nor merged
 * has a column command. */
static void
test_conservation(void)
{
  static const char *const kinds[] = {"DDR4_3200AA", "DDR5_6400AN", "LPDDR5_6400",
                                      "GDDR6_14000", "HBM2_2400",   "HBM3_6400"};
  nmb_run *run = nmb__run_open(stderr);
  static tally t;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    for (int v = 0; v < 24; v++) {
      const nmb_dram *d = open_kind(run, kinds[i]);
      nmb_dramctl conf = NMB_DRAMCTL_DEFAULT;
      nmb_dramstats r;
      conf.refresh = (nmb_dram_refresh)(v % 3);
      conf.cap = v / 3 % 2 ? 1 + 3 * (v / 6 % 2) : 0;
      conf.in_order = v / 12 == 1;
      conf.count_once = v % 2 == 1;
      if (conf.refresh == NMB_DRAM_PERBANK && d->refipb == 0)
        continue;
      t = (tally){.limit = 1500};
      CU_ASSERT_EQUAL(
          nmb_dram_bench_start(run, d, v % 2 ? "random" : "seq_row", &t.bench), NMB_OK);
      CU_ASSERT_EQUAL(
          nmb_dramctl_run(run, d, &conf, some, &t, finished, &t, NULL, NULL, &r), NMB_OK);
      for (int k = 0; k < t.limit; k++)
        t.wrong |= t.done[k] != 1;
      CU_ASSERT_FALSE(t.wrong);
      CU_ASSERT_EQUAL(r.columns, t.issued);
      CU_ASSERT_EQUAL(r.reads + r.writes, r.columns);
      CU_ASSERT_EQUAL(r.columns + r.forwarded + r.merged, t.limit);
      CU_ASSERT_EQUAL(r.hits + r.misses + r.conflicts, r.columns);
    }
  nmb__run_close(run);
}

/* Streaming with refresh takes longer by the share of time that refreshes take, and there
 * is one a rank every nREFI. */
static void
test_refresh_share(void)
{
  static const char *const kinds[] = {"DDR4_3200AA", "DDR5_4800AN", "LPDDR5_6400",
                                      "GDDR6_14000"};
  nmb_run *run = nmb__run_open(stderr);
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    const nmb_dram *d = open_kind(run, kinds[i]);
    int64_t rfc;
    if (!nmb_dram_value(d, "nRFC", &rfc))
      rfc = value(d, "nRFCab");
    const double without =
        (double)bench(run, d, "seq_bgi", 30000, 0, NMB_DRAM_NOREFRESH).last_column;
    const double with =
        (double)bench(run, d, "seq_bgi", 30000, 0, NMB_DRAM_ALLBANK).last_column;
    const double share = (double)rfc / (double)value(d, "nREFI");
    CU_ASSERT_DOUBLE_EQUAL(1 - without / with, share, 0.03);
    CU_ASSERT_TRUE(with > without);
  }
  const nmb_dram *d = open_kind(run, "GDDR6_AiM");
  nmb_dramch *ch = channel(run, d, NMB_DRAM_ALLBANK);
  const int64_t t = nmb_dramch_burst(ch, nmb_dram_command(d, "MAC16"), 0, 0, 50000, 0);
  CU_ASSERT_EQUAL(nmb_dramch_count(ch, nmb_dram_command(d, "REFab")),
                  t / value(d, "nREFI"));
  CU_ASSERT_EQUAL(nmb_dramch_refresh_stall(ch), t - (1 + 56 + 2 * 49999));
  nmb__run_close(run);
}

static void
test_requests_outside(void)
{
  nmb_run *run = nmb__run_open(NULL);
  const nmb_dram *d = open_kind(run, "DDR4_3200AA");
  const nmb_dram *x;
  nmb_dramctl conf = NMB_DRAMCTL_DEFAULT;
  nmb_dramstats r;
  tally t = {.limit = 3};
  nmb_dram_info wrong = *nmb_dram_get(d);
  wrong.rows = 1 << 20;
  wrong.columns = 1 << 20;
  t.bench = (nmb_dram_bench){&wrong, 2, 1};
  CU_ASSERT_EQUAL(nmb_dramctl_run(run, d, &conf, some, &t, NULL, NULL, NULL, NULL, &r),
                  NMB_BADINPUT);
  CU_ASSERT_PTR_NOT_NULL(strstr(nmb_error_text(run), "request 0"));
  CU_ASSERT_EQUAL(nmb_dram_open(run, "DDR4_3200XX", NULL, &x), NMB_BADINPUT);
  CU_ASSERT_EQUAL(nmb_dram_open(run, "DDR4_3200AA", "nRDC=3", &x), NMB_BADOPTION);
  CU_ASSERT_PTR_NOT_NULL(strstr(nmb_error_text(run), "nRCD"));
  CU_ASSERT_EQUAL(nmb_dram_open(run, "DDR4_3200AA", "nREFI=100", &x), NMB_BADINPUT);
  CU_ASSERT_EQUAL(nmb_dram_open(run, "DDR4_3200AA", "org=DDR4_16Gb_x16,nRCD=30", &x),
                  NMB_OK);
  CU_ASSERT_EQUAL(value(x, "nRCD"), 30);
  CU_ASSERT_EQUAL(value(x, "nFAW"), 48);
  CU_ASSERT_EQUAL(value(x, "nRFC"), 880);
  CU_ASSERT_EQUAL(nmb_dram_get(x)->banks, 8);
  nmb__run_close(run);
}

static void
test_expressions(void)
{
  static const nmb__dram_param param[] = {{"a", 7}, {"bc", 20}};
  static const struct {
    const char *text;
    int64_t v;
  } good[] = {{"a", 7},
              {"a + 2 * bc - 3", 44},
              {"(a + 2) * 3", 27},
              {"bc / a", 2},
              {"up(bc, a)", 3},
              {"up(21, a)", 3},
              {"max(1, a, 3)", 7},
              {"min(9, a, bc)", 7},
              {"step(a, 6, 1, 7, 2, 3)", 2},
              {"step(bc, 6, 1, 7, 2, 3)", 3},
              {"a - bc", -13},
              {"(a - bc) / 4", -4}};
  static const char *const bad[] = {"",        "a +",   "(a",    "a)",
                                    "x",       "up(1)", "a / 0", "99999999999999999999",
                                    "step(a)", "f(a)",  "a b",   "1099511627776 * 2",
                                    "max()"};
  nmb_run *run = nmb__run_open(NULL);
  int64_t v;
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    CU_ASSERT_EQUAL(nmb__dram_expr(run, NMB_NOLOC, good[i].text, param, 2, &v), NMB_OK);
    CU_ASSERT_EQUAL(v, good[i].v);
  }
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    CU_ASSERT_EQUAL(nmb__dram_expr(run, NMB_NOLOC, bad[i], param, 2, &v), NMB_BADINPUT);
  nmb__run_close(run);
}

UNIT_MAIN("dram", {"every kind opens and can read and write", test_kinds},
          {"not ready at t - 1, ready at t: every row of every table", test_rows},
          {"clocks between commands, by hand", test_by_hand},
          {"a burst is its steps; no command comes too early", test_bursts},
          {"AiM: the stamps of a GEMV", test_aim}, {"dual row buffers", test_dual_rows},
          {"one bank of each group, of each pseudo-channel", test_scopes},
          {"unloaded latency, streaming, row cycle by formula", test_formulas},
          {"every request is served once", test_conservation},
          {"refresh takes its share", test_refresh_share},
          {"what is outside is refused", test_requests_outside},
          {"expressions", test_expressions})
