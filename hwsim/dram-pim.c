/* SPDX-License-Identifier: GPL-3.0-or-later */
/* dram-pim: multiply-accumulate units in the banks of a DRAM, in closed form.
 *
 * A weight row lies in one bank; one command makes all banks of a channel multiply
 * their next burst with the same burst of the input vector.  One input vector at a
 * time:
 *   fill     the vector, or the slab of it that fits, goes into the channel's buffer
 *   MAC      for each page: precharge, activate in all banks, one command a burst
 *   read     each bank hands over its sums
 * Two styles:
 *   turns    fill, MACs and reads exclude each other and switching costs a mode
 *            change (SK hynix AiM).  Up to `reuse` output columns share one turn, as
 *            many as there are result registers.  The public AiM simulator's
 *            command streams obey, in cycles, with G turns of C columns in all that
 *            open V pages and issue N MACs over B bursts of input:
 *              (1 + mode) + fill B + bias (C - G) + (1 + mode) G
 *              + rp G - rp + rcd V + ccd (N - V) + (rtp + rp)(V - G)
 *              + (ccd + mode) G + read (C - G) + turn (G - 1) + drain
 *            which is exact on its GEMVs (tests/unit/test_models.c).
 *   overlap  buffers are filled and sums read beside the MACs, so that only the first
 *            fill of a slab and the last read show (AttAcc, HBM3).
 * Refresh stretches time by rfc in every refi. */
#include "nmbench/nmb_aim.h"
#include "nmbench/nmb_plugin.h"

#include "hwsim/pim.h"

#include <math.h>
#include <string.h>

#define PARAMS(X)                                                                        \
  X(STYLE, "style", "enum", NULL, NULL, "turns|overlap", "see above")                    \
  X(TCK, "t-ck", "time", "s", NULL, "1ps..", "clock")                                    \
  X(RCD, "rcd", "int", "cycle", NULL, "0..", "activate to MAC")                          \
  X(RP, "rp", "int", "cycle", NULL, "0..", "precharge to activate")                      \
  X(RTP, "rtp", "int", "cycle", NULL, "0..", "last MAC of a page to precharge")          \
  X(CCD, "ccd", "int", "cycle", NULL, "1..", "MAC to MAC")                               \
  X(SPREAD, "act-spread", "int", "cycle", "0", "0..",                                    \
    "first to last activate of a page")                                                  \
  X(FILL, "fill", "real", "cycle", NULL, "0..", "a burst of input into the buffer")      \
  X(MOVE, "move", "real", "cycle", NULL, "0..",                                          \
    "the same if it comes from local memory")                                            \
  X(BIAS, "bias", "int", "cycle", "0", "0..", "clearing the sums of a column")           \
  X(READ, "read", "int", "cycle", "0", "0..", "reading the sums of a column")            \
  X(MODE, "mode", "int", "cycle", "0", "0..", "switching between buffers and banks")     \
  X(TURN, "turn", "int", "cycle", "0", "0..", "last read to next fill or clear")         \
  X(DRAIN, "drain", "int", "cycle", NULL, "0..", "last command to the end")              \
  X(BUFFER, "global-buffer", "size", "B", NULL, "1B..", "input buffer of a channel")     \
  X(REGS, "result-registers", "int", "1", NULL, "1..", "sums that a bank holds")         \
  X(COMMANDS, "commands", "enum", NULL, "none", "none|aim|attacc|neupims",                \
    "whose commands cycle fidelity issues; none: it is the closed form")                            \
  X(LEVEL, "level", "enum", NULL, "bank", "bank|group|buffer",                           \
    "where the multipliers are")                                                         \
  X(UNITS, "units", "int", "1", "0", "0..",                                              \
    "multipliers of a channel that work at a time; 0: one a bank")                       \
  X(LIMITED, "power-limited", "bool", NULL, "true", "", "MACs as far apart as ccd says") \
  X(FREE, "ccd-free", "int", "cycle", "0", "0..",                                        \
    "MAC to MAC without the power limit; 0: ccd")                                        \
  X(RAS, "ras", "int", "cycle", "0", "0..", "activate to precharge")                     \
  X(RC, "rc", "int", "cycle", "0", "0..", "activate to activate of a bank")              \
  X(CCDS, "ccd-short", "int", "cycle", "1", "1..",                                       \
    "data command to data command of another bank group")                                \
  X(CCDL, "ccd-long", "int", "cycle", "1", "1..", "the same of one bank group")          \
  X(STACK, "stack-channels", "int", "channel", "1", "1..",                               \
    "channels that the heads of a stack are dealt to")                                   \
  X(DUAL, "dual-row-buffers", "bool", NULL, "false", "",                                 \
    "ordinary accesses go on meanwhile")                                                 \
  X(VECSTART, "vec-start", "int", "cycle", "0", "0..", "before a pointwise operation")   \
  X(VEC, "vec-cycles", "real", "cycle", "0", "0..", "a pointwise result in every bank")  \
  X(REFRESH, "refresh", "bool", NULL, "true", "", "all-bank refresh")                    \
  X(RFC, "rfc", "int", "cycle", NULL, "0..", "length of a refresh")                      \
  X(REFI, "refi", "int", "cycle", NULL, "1..", "between refreshes")                      \
  X(E_ACT, "energy-act", "energy", "J", NULL, "0..",                                     \
    "opening and closing a page of a bank")                                              \
  X(E_COL, "energy-column", "energy", "J", NULL, "0..",                                  \
    "a burst from the cells to the MACs")                                                \
  X(E_MAC, "energy-mac", "energy", "J", NULL, "0..", "a multiply-accumulate")            \
  X(E_OP, "energy-op", "energy", "J", NULL, "0..", "a pointwise result")                 \
  X(E_READ, "energy-read", "energy", "J", NULL, "0..",                                   \
    "clearing and reading a column's sums")
NMB_PARAMS(PARAMS);

#define PAR(id) (e->param[P_##id].value)

double
nmb__pim_ccd(const nmb_engine *e)
{
  return PAR(LIMITED) == 0 && PAR(FREE) > 0 ? PAR(FREE) : PAR(CCD);
}

/* What a MAC instruction does on its busiest channel, for one input vector. */
typedef struct work {
  double slabs, turns, columns; /* columns: sums read */
  double opens, macs, bursts;
  double fill_bursts; /* bursts of input that are not in local memory; else move */
  bool moved;
  double turns_of_banks; /* banks that share a multiplier and take turns */
} work;

/* Cycles by what they are for. */
typedef struct cycles {
  double mac, row, bus, mode;
} cycles;

static work
work_of(const nmb_prog *p, const nmb_engine *e, const nmb_insn *in)
{
  const nmb_place *l = &in->place;
  const double burst = (double)p->hw->mem[e->resident].burst_bytes;
  const double slab = floor(PAR(BUFFER) / burst) > 1 ? floor(PAR(BUFFER) / burst) : 1;
  const double reuse = fmin((double)(l->reuse > 0 ? l->reuse : 1), PAR(REGS));
  work w = {.bursts = (double)l->bursts};
  w.turns_of_banks = PAR(UNITS) > 0 ? ceil(p->hw->mem[e->resident].banks / PAR(UNITS)) : 1;
  w.slabs = ceil(w.bursts / slab);
  w.turns = w.slabs * ceil((double)l->rows_per_bank / reuse);
  w.columns = w.slabs * (double)l->rows_per_bank;
  w.opens = (double)(l->opens > 0 ? l->opens : l->rows_per_bank * l->pages);
  /* a turn ends with its page; buffers that work beside the MACs leave it open */
  w.opens = fmax(w.opens, strcmp(e->param[P_STYLE].text, "turns") ? w.slabs : w.turns);
  w.macs = (double)l->rows_per_bank * w.bursts;
  /* a state is read and written back, and with delta read once before */
  if (p->op[in->op].code == NMB_OP_SCAN)
    w.macs *= (double)(2 + nmb_op_int(&p->op[in->op], "delta", 0));
  for (int i = 0; i < in->nopnd; i++)
    if (!in->opnd[i].write && p->hw->mem[in->opnd[i].mem].local)
      w.moved = true;
  return w;
}

/* Pages opened for v vectors: the one page of a small AiM product stays open for all. */
static double
opens_of(const nmb_engine *e, const work *w, double v)
{
  const bool stays = w->opens <= 1 && !strcmp(e->param[P_COMMANDS].text, "aim");
  return stays ? 1 : v * w->opens;
}

/* The formula at the head of this file, for v vectors; a fill follows a read as a
 * clear does, and the page of the last turn stays open. */
static cycles
turns(const nmb_engine *e, const work *w, double v)
{
  const double g = v * w->turns, c = v * w->columns, opens = opens_of(e, w, v);
  cycles t;
  t.mac = PAR(CCD) * v * w->macs;
  if (opens < g) /* nothing is closed */
    t.row = PAR(RCD) + PAR(SPREAD) - PAR(CCD) + PAR(CCD) * g;
  else
    t.row = PAR(RP) * (g - 1) + (PAR(RCD) + PAR(SPREAD) - PAR(CCD)) * opens +
          (PAR(RTP) + PAR(RP)) * (opens - g) + PAR(CCD) * g;
  t.bus = (w->moved ? PAR(MOVE) : PAR(FILL)) * v * w->bursts + PAR(BIAS) * (c - g) +
          PAR(READ) * (c - g) + PAR(TURN) * (g - 1) + PAR(DRAIN);
  t.mode = (1 + PAR(MODE)) * (g + 1) + PAR(MODE) * g;
  return t;
}

/* Each slab waits for its fill or for its first page, whichever is later. */
static cycles
overlap(const nmb_engine *e, const work *w, double v)
{
  const double open = PAR(RCD) + PAR(SPREAD), again = PAR(RTP) + PAR(RP) + open;
  const double fill = (w->moved ? PAR(MOVE) : PAR(FILL)) * w->bursts / w->slabs + 1;
  const double ccd = nmb__pim_ccd(e);
  cycles t = {0};
  t.mac = ccd * v * (w->macs - w->opens) + v * w->opens;
  t.row = open + again * (v * w->opens - 1) - (v * w->opens - 1);
  if (w->turns_of_banks > 1) { /* while some banks open a page, others multiply */
    t.mac = ccd * v * w->macs * w->turns_of_banks;
    t.row = open;
  }
  t.bus =
      fmax(fill - open - 1, 0) + fmax(fill - again, 0) * (v * w->slabs - 1) + PAR(DRAIN);
  return t;
}

static void
mac_cost(const nmb_prog *p, const nmb_engine *e, const nmb_insn *in, nmb_cost *out,
         double *t)
{
  const nmb_place *l = &in->place;
  const work w = work_of(p, e, in);
  const double v = (double)l->vectors, banks = (double)l->banks * l->nchannel;
  if (v < 1 || l->rows_per_bank < 1 || l->bursts < 1)
    return;
  const cycles c =
      strcmp(e->param[P_STYLE].text, "turns") ? overlap(e, &w, v) : turns(e, &w, v);
  t[NMB_CAUSE_COMPUTE] = c.mac;
  t[NMB_CAUSE_ROW] = c.row;
  t[NMB_CAUSE_BUS] = c.bus;
  t[NMB_CAUSE_LAUNCH] = c.mode;
  out->energy[NMB_EPART_ROW] += opens_of(e, &w, v) * banks * PAR(E_ACT);
  out->energy[NMB_EPART_ARRAY] +=
      v * w.macs * banks * PAR(E_COL) + v * w.columns * l->nchannel * PAR(E_READ);
  out->energy[NMB_EPART_COMPUTE] +=
      (double)nmb_op_macs(p, in->op, &in->tile) * PAR(E_MAC);
}

/* A pointwise result in every bank at a time. */
static void
vec_cost(const nmb_prog *p, const nmb_engine *e, const nmb_insn *in, nmb_cost *out,
         double *t)
{
  const nmb_mem *m = &p->hw->mem[e->resident];
  const nmb_tile *s = &in->tile;
  const double lanes =
      (double)(in->place.nchannel > 0 ? in->place.nchannel : m->channels) * m->banks;
  const double n =
      (double)(s->b1 - s->b0) * (double)(s->m1 - s->m0) * (double)(s->n1 - s->n0);
  t[NMB_CAUSE_COMPUTE] = ceil(n / lanes) * PAR(VEC);
  t[NMB_CAUSE_ROW] = PAR(VECSTART);
  out->energy[NMB_EPART_COMPUTE] += n * PAR(E_OP);
}

/* New keys and values are written through the interface into pages to be opened. */
static void
append_cost(const nmb_prog *p, const nmb_engine *e, const nmb_insn *in, double *t)
{
  const nmb_mem *m = &p->hw->mem[e->resident];
  double bytes = 0;
  for (int i = 0; i < in->nopnd; i++)
    if (in->opnd[i].write)
      bytes += nmb_operand_bytes(&in->opnd[i]);
  t[NMB_CAUSE_BUS] = bytes / m->bytes_per_s / PAR(TCK);
  t[NMB_CAUSE_ROW] = PAR(RP) + PAR(RCD);
}

/* Bytes: resident operands pass the MACs once a vector, others the interface; every
 * channel takes its own copy of an input vector. */
static void
traffic(const nmb_prog *p, const nmb_engine *e, const nmb_insn *in, nmb_cost *out)
{
  const nmb_place *l = &in->place;
  const nmb_mem *home = &p->hw->mem[e->home];
  const double v = (double)(l->vectors > 0 ? l->vectors : 1);
  bool filled = false;
  for (int i = 0; i < in->nopnd; i++) {
    const nmb_operand *o = &in->opnd[i];
    const nmb_mem *m = &p->hw->mem[o->mem];
    const bool resident = nmb_tensor_resident(&p->tensor[nmb_tensor_root(p, o->tensor)]);
    const double bytes = nmb_operand_bytes(o);
    if (m->local)
      continue;
    out->mem_bytes[o->mem] += bytes * (resident ? v : 1);
    if (!resident && !o->write && l->bursts > 0)
      filled = true;
    else if (!resident || o->write)
      out->energy[NMB_EPART_IO] += bytes * m->j_per_byte;
  }
  if (filled)
    out->energy[NMB_EPART_IO] += v * (double)l->bursts * l->nchannel *
                                 (double)p->hw->mem[e->resident].burst_bytes *
                                 home->j_per_byte;
}

/* How long the resident memory's interface is busy. */
static void
occupy(const nmb_prog *p, const nmb_engine *e, const nmb_insn *in, nmb_cost *out)
{
  const nmb_mem *m = &p->hw->mem[e->resident];
  const int n = in->place.nchannel > 0 ? in->place.nchannel : m->channels;
  const double busy = PAR(DUAL) != 0 ? out->time[NMB_CAUSE_BUS] : nmb_cost_seconds(out);
  out->mem_s[e->resident] = busy * n / m->channels;
}

static nmb_status
closed_form(nmb_run *run, const nmb_prog *p, const nmb_insn *in, nmb_cost *out)
{
  const nmb_engine *e = &p->hw->engine[in->engine];
  const nmb_opclass class_ = nmb_op_get(p->op[in->op].code)->class_;
  double t[NMB_NCAUSE] = {0}, sum = 0;
  if ((class_ == NMB_CLASS_MOVE && p->op[in->op].code != NMB_OP_KVAPPEND) ||
      p->op[in->op].code == NMB_OP_CONV)
    return nmb_fail(run, NMB_UNSUPPORTED, NMB_NOLOC, "dram-pim cannot run op '%s'",
                    nmb_op_get(p->op[in->op].code)->name);
  if (class_ == NMB_CLASS_MAC)
    mac_cost(p, e, in, out, t);
  else if (class_ == NMB_CLASS_VEC)
    vec_cost(p, e, in, out, t);
  else
    append_cost(p, e, in, t);
  for (int i = 0; i < NMB_NCAUSE; i++) {
    out->time[i] = t[i] * PAR(TCK);
    sum += out->time[i];
  }
  if (PAR(REFRESH) != 0)
    out->time[NMB_CAUSE_REFRESH] = sum * PAR(RFC) / (PAR(REFI) - PAR(RFC));
  out->time[NMB_CAUSE_LAUNCH] += in->first ? e->launch_s : 0;
  traffic(p, e, in, out);
  occupy(p, e, in, out);
  return NMB_OK;
}

/* ------------------------------------------------------- command by command */
/* Cycles by cause in place of those of the closed form. */
static nmb_status
replace(const nmb_prog *p, const nmb_insn *in, const double *t, nmb_cost *out)
{
  const nmb_engine *e = &p->hw->engine[in->engine];
  for (int i = 0; i < NMB_NCAUSE; i++)
    out->time[i] = t[i] * PAR(TCK);
  out->time[NMB_CAUSE_LAUNCH] += in->first ? e->launch_s : 0;
  occupy(p, e, in, out);
  return NMB_OK;
}

/* Attention and products on HBM3-PIM; a run of requests starts after a refresh. */
static nmb_status
attacc(nmb_run *run, const nmb_prog *p, const nmb_insn *in, const nmb_watch *watch,
       nmb_cost *out)
{
  double t[NMB_NCAUSE];
  bool done;
  NMB_TRY(nmb__att_cost(run, p, in, watch, &done, t));
  return done ? replace(p, in, t, out) : NMB_OK;
}

/* A product as an AiM program for one channel, all others being like it. */
static nmb_status
aim(nmb_run *run, const nmb_prog *p, const nmb_insn *in, const nmb_watch *watch,
    nmb_cost *out)
{
  const nmb_engine *e = &p->hw->engine[in->engine];
  nmb_insn one = *in;
  nmb_aim_list program = {0};
  nmb_aim_result r;
  double t[NMB_NCAUSE];
  one.place.channel0 = 0;
  one.place.nchannel = 1;
  nmb_aim_lower(run, p, &one, &program);
  if (program.n == 0)
    return NMB_OK;
  NMB_TRY(nmb_aim_execute(run, nmb_aim_timing(run, e), PAR(REFRESH) != 0, 1, &program,
                          watch, &r));
  for (int i = 0; i < NMB_NCAUSE; i++)
    t[i] = (double)r.time[i];
  t[NMB_CAUSE_REFRESH] += PAR(RFC) * (double)r.after / PAR(REFI);
  return replace(p, in, t, out);
}

/* What is no product is in closed form here as well.  An instruction may start at any
 * time between two refreshes: those that fall due within it are stepped, and AiM's,
 * which are short, get the expected part of one for the time left over. */
static nmb_status
cost(nmb_run *run, const nmb_prog *p, const nmb_insn *in, nmb_fidelity fidelity,
     const nmb_watch *watch, nmb_cost *out)
{
  const nmb_engine *e = &p->hw->engine[in->engine];
  const char *commands = e->param[P_COMMANDS].text;
  double t[NMB_NCAUSE];
  NMB_TRY(closed_form(run, p, in, out));
  if (fidelity == NMB_ANALYTIC)
    return NMB_OK;
  if (!strcmp(commands, "attacc"))
    return attacc(run, p, in, watch, out);
  if (nmb_op_get(p->op[in->op].code)->class_ != NMB_CLASS_MAC ||
      in->place.rows_per_bank < 1 || in->place.bursts < 1 || in->place.vectors < 1)
    return NMB_OK;
  if (!strcmp(commands, "aim"))
    return aim(run, p, in, watch, out);
  if (strcmp(commands, "neupims"))
    return NMB_OK;
  nmb__neupims_cost(p, in, watch, t);
  return replace(p, in, t, out);
}

NMB_PLUGIN
{
    NMB_PLUGIN_HEAD,
    .kind = "model",
    .name = "dram-pim",
    .version = "1",
    .summary = "multiply-accumulate units in DRAM banks, in closed form",
    .source = "he2020newton; kwon2022aim; gu2025cent; park2024attacc; heo2024neupims",
    .limits = "all channels do as much as the busiest; pages are open only within an "
              "instruction; adding "
              "up partial sums outside of the banks is free; no tFAW beyond act-spread; "
              "refresh as an "
              "average stretch",
    .opts = params,
    .cost = cost,
    .steps = true,
};
