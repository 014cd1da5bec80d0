/* SPDX-License-Identifier: GPL-3.0-or-later */
/* AiM instructions on channels of GDDR6-AiM.
 *
 * Channels that get the same instructions do the same, so one of each kind is
 * stepped.  The front end decodes an instruction a tick.  It stops for instructions that
 * hold it, and where a channel changes between ordinary accesses and instructions, which
 * it does not mix: until the channel has issued what came before.  Its buffers are taken
 * as large enough. */
#include "nmbench/nmb_aim.h"

#include <math.h>
#include <string.h>

#include "base/run.h"
#include "nmbench/nmb_dram.h"

enum {
  MAXCHANNEL = 64,
  HOLD = 3, /* a read holds the front end: nCLREG + nBL, and a cycle to go on */
  DRAIN = 4 /* last read to the end: the answer, and EOC */
};

/* Which part of the time a command belongs to. */
typedef enum part { PART_ROW, PART_WORK, PART_MODE, PART_REFRESH, PART_BUS } part;

typedef struct channel {
  nmb_dramch *dram;
  int alike; /* channels of this kind */
  bool ordinary; /* its last instruction was an ordinary access */
  uint64_t mask;
} channel;

typedef struct machine {
  nmb_run *run;
  const nmb_dram *kind;
  const nmb_dram_info *info;
  const nmb_watch *watch;
  nmb_id command[NMB_NAIM];
  int nchannel;
  channel ch[MAXCHANNEL];
  signed char of[MAXCHANNEL]; /* the entry of ch for each channel */
  int64_t front; /* the front end goes on at this tick */
  /* the observed channel: ticks by part, and the commands that form a run */
  int64_t last, time[NMB_NCAUSE];
  part last_part;
  nmb_command now;
} machine;

static part
part_of(const nmb_dram_cmd *c)
{
  if (c->does & NMB_DRAM_REFRESHES)
    return PART_REFRESH;
  if (c->does & NMB_DRAM_SWITCHES)
    return PART_MODE;
  if (c->does & NMB_DRAM_WORKS)
    return PART_WORK;
  return c->does & NMB_DRAM_COLUMN || !c->does ? PART_BUS : PART_ROW;
}

static void
flush(machine *m)
{
  if (m->now.n > 0 && m->watch)
    m->watch->command(m->watch->arg, &m->now);
  m->now.n = 0;
}

/* The ticks since the command before: what it made wait, or else what this is. */
static void
account(machine *m, int64_t tick, part p)
{
  static const nmb_cause cause[] = {NMB_CAUSE_ROW, NMB_CAUSE_COMPUTE, NMB_CAUSE_LAUNCH,
                                    NMB_CAUSE_REFRESH, NMB_CAUSE_BUS};
  part q = p;
  if (m->last_part == PART_REFRESH || m->last_part == PART_MODE ||
      (m->last_part == PART_ROW && p != PART_REFRESH && p != PART_MODE))
    q = m->last_part;
  m->time[cause[q]] += tick - m->last;
  m->last = tick;
  m->last_part = p;
}

static void
on_command(void *arg, int64_t tick, nmb_id cmd, int bank, int64_t row)
{
  machine *m = arg;
  (void)bank;
  account(m, tick, part_of(&m->info->cmd[cmd]));
  if (!m->watch)
    return;
  nmb_command *c = &m->now;
  const int64_t step = tick - (c->cycle + (c->n - 1) * c->step);
  if (c->n > 0 && c->name == m->info->cmd[cmd].name && c->row == row &&
      (c->n == 1 || step == c->step)) {
    c->step = step;
    c->n++;
    return;
  }
  flush(m);
  *c = (nmb_command){m->info->cmd[cmd].name, tick, 1, 0, row, false};
}

static bool
holds(nmb_aim_op op)
{
  return op == NMB_AIM_RD_MAC || op == NMB_AIM_RD_AF;
}

static bool
is_ordinary(nmb_aim_op op)
{
  return op == NMB_AIM_W_MEM || op == NMB_AIM_R_MEM || op == NMB_AIM_WR_SBK ||
         op == NMB_AIM_RD_SBK;
}

static bool
addresses_row(nmb_aim_op op)
{
  return op != NMB_AIM_WR_GB && op != NMB_AIM_WR_BIAS && op != NMB_AIM_RD_MAC &&
         op != NMB_AIM_RD_AF;
}

/* One instruction on one channel; gives the tick of its last command. */
static int64_t
on_channel(machine *m, nmb_dramch *ch, const nmb_aim_insn *in)
{
  const int bank = in->bank < 0 ? 0 : in->bank;
  const int64_t row = addresses_row(in->op) ? in->row : -1;
  const nmb_id c = m->command[in->op];
  int64_t t = 0;
  if (!holds(in->op))
    return nmb_dramch_burst(ch, c, bank, row, in->size, m->front);
  for (int64_t i = 0; i < in->size; i++) {
    t = nmb_dramch_step(ch, c, bank, row, m->front);
    m->front = t + HOLD;
  }
  return t;
}

/* Takes the next kind of channel out of a mask. */
static channel *
next_kind(machine *m, uint64_t *mask)
{
  channel *ch = &m->ch[m->of[__builtin_ctzll(*mask)]];
  *mask &= ~ch->mask;
  return ch;
}

/* When the front end can hand over the instruction: it comes after the other sort's. */
static int64_t
admit(machine *m, const nmb_aim_insn *in)
{
  int64_t front = m->front;
  for (uint64_t left = in->mask; left;) {
    channel *ch = next_kind(m, &left);
    if (ch->ordinary == is_ordinary(in->op))
      continue;
    ch->ordinary = !ch->ordinary;
    if (nmb_dramch_now(ch->dram) + 1 > front)
      front = nmb_dramch_now(ch->dram) + 1;
  }
  return front;
}

static void
execute(machine *m, const nmb_aim_insn *in)
{
  if (m->watch)
    m->watch->command(m->watch->arg,
                      &(nmb_command){nmb_aim_name(in->op), m->front, 1, 0, -1, true});
  const int64_t front = admit(m, in);
  int64_t next = front + 1;
  if (in->op == NMB_AIM_SYNC)
    for (int i = 0; i < m->nchannel; i++)
      next = nmb_dramch_now(m->ch[i].dram) + 1 > next ? nmb_dramch_now(m->ch[i].dram) + 1
                                                      : next;
  if (m->command[in->op] == NMB_NONE) {
    m->front = next;
    return;
  }
  for (uint64_t left = in->mask; left;) {
    m->front = front;
    on_channel(m, next_kind(m, &left)->dram, in);
    next = m->front > next ? m->front : next;
  }
  m->front = next;
}

/* Channels by the instructions that they get. */
static nmb_status
make_channels(machine *m, bool refresh, int channels, const nmb_aim_list *l)
{
  uint64_t sign[MAXCHANNEL] = {0}, used = 0;
  for (int64_t i = 0; i < l->n; i++) {
    const uint64_t mask = l->v[i].mask;
    used |= mask;
    for (uint64_t left = mask; left; left &= left - 1) {
      const int c = __builtin_ctzll(left);
      sign[c] = (sign[c] ^ ((uint64_t)i + 1)) * UINT64_C(0x9e3779b97f4a7c15) + 1;
    }
  }
  if (channels < MAXCHANNEL && used >> channels)
    return nmb_fail(m->run, NMB_BADINPUT, NMB_NOLOC,
                    "an instruction is for a channel beyond the machine's %d", channels);
  for (int c = 0; c < channels; c++) {
    int k = 0;
    while (k < m->nchannel && sign[channels > 0 ? c : 0] != sign[__builtin_ctzll(
                                                                m->ch[k].mask)])
      k++;
    m->of[c] = (signed char)k;
    m->ch[k].mask |= UINT64_C(1) << c;
    m->ch[k].alike++;
    if (k < m->nchannel)
      continue;
    NMB_TRY(nmb_dramch_new(m->run, m->kind,
                           refresh ? NMB_DRAM_ALLBANK : NMB_DRAM_NOREFRESH,
                           &m->ch[k].dram));
    m->nchannel++;
  }
  return NMB_OK;
}

static nmb_status
open_machine(machine *m, const char *set)
{
  static const char *const command[NMB_NAIM] = {
#define X(id, name, fields, cmd, help) cmd,
      NMB_AIM_MAP(X)
#undef X
  };
  NMB_TRY(nmb_dram_open(m->run, "GDDR6_AiM", set, &m->kind));
  m->info = nmb_dram_get(m->kind);
  for (int i = 0; i < NMB_NAIM; i++)
    m->command[i] = *command[i] ? nmb_dram_command(m->kind, command[i]) : NMB_NONE;
  return NMB_OK;
}

static void
finish(machine *m, bool refresh, nmb_aim_result *out)
{
  int64_t end = 0, refi = 0;
  memset(out, 0, sizeof *out);
  for (int i = 0; i < m->nchannel; i++) {
    const int64_t t = nmb_dramch_now(m->ch[i].dram);
    end = t > end ? t : end;
    for (nmb_id c = 0; c < m->info->ncmd; c++)
      out->commands += m->ch[i].alike * nmb_dramch_count(m->ch[i].dram, c);
  }
  flush(m);
  out->cycles = end + DRAIN;
  m->time[NMB_CAUSE_BUS] += out->cycles - m->last;
  memcpy(out->time, m->time, sizeof out->time);
  out->stall = nmb_dramch_refresh_stall(m->ch[0].dram);
  if (refresh && nmb_dram_value(m->kind, "nREFI", &refi) && refi > 0)
    out->after = out->cycles % refi;
}

nmb_status
nmb_aim_execute(nmb_run *run, const char *set, bool refresh, int channels,
                const nmb_aim_list *l, const nmb_watch *watch, nmb_aim_result *out)
{
  machine *m = NMB_NEW(run, machine, 1);
  *m = (machine){.run = run, .watch = watch, .last_part = PART_BUS};
  if (channels < 1 || channels > MAXCHANNEL)
    return nmb_fail(run, NMB_UNSUPPORTED, NMB_NOLOC,
                    "found %d channels, AiM programs address 1..%d", channels, MAXCHANNEL);
  NMB_TRY(open_machine(m, set));
  NMB_TRY(make_channels(m, refresh, channels, l));
  nmb_dramch_watch(m->ch[0].dram, on_command, m);
  for (int64_t i = 0; i < l->n && l->v[i].op != NMB_AIM_EOC; i++)
    execute(m, &l->v[i]);
  finish(m, refresh, out);
  return NMB_OK;
}

const char *
nmb_aim_timing(nmb_run *run, const nmb_engine *e)
{
  static const char *const name[][2] = {
      {"nRCDRDMAC", "rcd"}, {"nRP", "rp"},      {"nRTP", "rtp"}, {"nCCDS", "ccd"},
      {"nCCDL", "ccd"},     {"nMODCH", "mode"}, {"nRFC", "rfc"}, {"nREFI", "refi"}};
  const char *text = "";
  for (size_t i = 0; i < sizeof name / sizeof *name; i++)
    text = nmb_format(run, "%s%s%s=%lld", text, i ? "," : "", name[i][0],
                      (long long)nmb_param_get(e, name[i][1]));
  return text;
}

/* ------------------------------------------------------------------- lowering */
/* One slab of the input, its bursts from `first` on: the columns of each bank, `reuse`
 * at a time. */
static void
lower_slab(nmb_run *run, nmb_aim_list *out, const nmb_place *l, nmb_aim_insn in,
           int64_t first, int64_t per_page)
{
  const int64_t n = l->rows_per_bank, reuse = l->reuse > 0 ? l->reuse : 1;
  const int64_t groups = (n + reuse - 1) / reuse, each = (n + groups - 1) / groups;
  const bool packed = l->opens > 0 && l->opens < n * l->pages;
  const int64_t size = in.size;
  for (int64_t g0 = 0; g0 < n; g0 += each) {
    const int64_t g1 = g0 + each < n ? g0 + each : n;
    nmb_aim_insn bias = in, read = in;
    bias.op = NMB_AIM_WR_BIAS, read.op = NMB_AIM_RD_MAC;
    bias.size = read.size = 1;
    for (int64_t c = g0; c < g1; c++)
      nmb_aim_add(run, out, bias);
    for (int64_t c = g0; c < g1; c++) {
      in.op = NMB_AIM_MAC_ABK;
      int64_t at = (packed ? c * l->bursts : c * l->pages * per_page) + first;
      for (int64_t left = size; left > 0; left -= in.size, at += in.size) {
        const int64_t room = per_page - at % per_page;
        in.row = at / per_page;
        in.size = left < room ? left : room;
        nmb_aim_add(run, out, in);
      }
    }
    for (int64_t c = g0; c < g1; c++)
      nmb_aim_add(run, out, read);
  }
}

void
nmb_aim_lower(nmb_run *run, const nmb_prog *p, const nmb_insn *insn, nmb_aim_list *out)
{
  const nmb_engine *e = &p->hw->engine[insn->engine];
  const nmb_mem *m = &p->hw->mem[e->resident];
  const nmb_place *l = &insn->place;
  if (l->vectors < 1 || l->rows_per_bank < 1 || l->bursts < 1 ||
      nmb_op_get(p->op[insn->op].code)->class_ != NMB_CLASS_MAC)
    return;
  const int64_t per_page = m->page_bytes / m->burst_bytes;
  int64_t slab = (int64_t)(nmb_param_get(e, "global-buffer") / (double)m->burst_bytes);
  slab = slab < 1 ? 1 : slab;
  nmb_place place = *l;
  const int64_t regs = (int64_t)nmb_param_get(e, "result-registers");
  place.reuse = l->reuse < regs ? l->reuse : regs;
  nmb_aim_insn in = {.bank = -1};
  for (int c = 0; c < l->nchannel && c < MAXCHANNEL; c++)
    in.mask |= UINT64_C(1) << ((l->channel0 + c) % MAXCHANNEL);
  for (int64_t v = 0; v < l->vectors; v++)
    for (int64_t b = 0; b < l->bursts; b += slab) {
      in.size = b + slab < l->bursts ? slab : l->bursts - b;
      in.op = NMB_AIM_WR_GB;
      nmb_aim_add(run, out, in);
      lower_slab(run, out, &place, in, b, per_page);
    }
}
