/* SPDX-License-Identifier: GPL-3.0-or-later */
/* hbm-pim: Samsung's HBM-PIM, a 16-lane unit for every two banks of HBM2.
 *
 * A product is a microkernel of eight instructions in the units' CRF, run by ordinary
 * column commands that reach all banks of a pseudo-channel at a time (mode HAB-PIM):
 *   enter    single bank -> HAB (activate and precharge of a reserved row, a write),
 *            the CRF is written, HAB -> HAB-PIM
 *   input    8 bursts of the vector, broadcast into GRF_A of all units
 *   MAC      for each of 8 outputs 8 column commands: GRF_B[o] += bank x GRF_A[i]; pages
 *            are closed and opened where a row of the banks ends
 *   leave    sums go back into the banks, and HAB-PIM -> single bank; the host reads the
 *            16 lanes of each sum
 * Eight sums in each of the units: a pass covers channels x units x 8 outputs, and costs
 * the same for fewer.  After IEEE Micro 2022, doi 10.1109/MM.2022.3164651, and ISCA
 * 2021; the instruction mix of the mode changes is an estimate from their figures.
 *
 * In closed form a pass is
 *   enter + I (input + 64 ccd + turnarounds) + P (rtp + rp + rcd) + leave
 * with I groups of 8 bursts and P pages; the cycle form issues the commands one after
 * another, so that activates wait for rc and refreshes fall where they are due. */
#include "nmbench/nmb_plugin.h"

#include <math.h>
#include <string.h>

#define PARAMS(X)                                                                        \
  X(TCK, "t-ck", "time", "s", NULL, "1ps..", "clock")                                    \
  X(UNITS, "units", "int", "1", NULL, "1..", "units of a pseudo-channel")                \
  X(GRF, "grf", "int", "1", NULL, "1..", "sums (and bursts of input) that a unit holds") \
  X(CRF, "crf", "int", "1", NULL, "1..", "instructions of the microkernel memory")       \
  X(RCD, "rcd", "int", "cycle", NULL, "1..", "activate to column")                       \
  X(RP, "rp", "int", "cycle", NULL, "1..", "precharge to activate")                      \
  X(RAS, "ras", "int", "cycle", NULL, "1..", "activate to precharge")                    \
  X(RC, "rc", "int", "cycle", NULL, "1..", "activate to activate")                       \
  X(RTP, "rtp", "int", "cycle", NULL, "0..", "column to precharge")                      \
  X(CCD, "ccd", "int", "cycle", NULL, "1..", "column to column, all banks (tCCDL)")      \
  X(RTW, "rtw", "int", "cycle", NULL, "0..", "read to write")                            \
  X(WTR, "wtr", "int", "cycle", NULL, "0..", "write to read")                            \
  X(WR, "wr", "int", "cycle", NULL, "0..", "write to precharge")                         \
  X(RL, "rl", "int", "cycle", NULL, "0..", "column to data")                             \
  X(REFRESH, "refresh", "bool", NULL, "true", "", "all-bank refresh")                    \
  X(RFC, "rfc", "int", "cycle", NULL, "0..", "length of a refresh")                      \
  X(REFI, "refi", "int", "cycle", NULL, "1..", "between refreshes")                      \
  X(E_ACT, "energy-act", "energy", "J", NULL, "0..", "opening a page of a bank")         \
  X(E_COL, "energy-column", "energy", "J", NULL, "0..", "a burst from the cells")        \
  X(E_MAC, "energy-mac", "energy", "J", NULL, "0..", "a multiply-accumulate")
NMB_PARAMS(PARAMS);
#define PAR(id) ((int64_t)e->param[P_##id].value)

static int64_t
ceil_div(int64_t a, int64_t b)
{
  return (a + b - 1) / b;
}

/* A product on one pseudo-channel. */
typedef struct work {
  int64_t vectors, passes, groups, per_page; /* column commands of a page */
  int64_t outputs;
} work;

static work
work_of(const nmb_prog *p, const nmb_engine *e, const nmb_insn *in)
{
  const nmb_mem *m = &p->hw->mem[e->resident];
  const nmb_tile *t = &in->tile;
  const int64_t channels = in->place.nchannel > 0 ? in->place.nchannel : m->channels;
  work w = {.vectors = in->place.vectors > 0 ? in->place.vectors : t->m1 - t->m0};
  w.outputs = (t->b1 - t->b0) * (t->n1 - t->n0);
  w.passes = ceil_div(w.outputs, channels * PAR(UNITS) * PAR(GRF));
  w.groups = ceil_div(ceil_div((t->k1 - t->k0) * 2, m->burst_bytes), PAR(GRF));
  w.per_page = m->page_bytes / m->burst_bytes;
  return w;
}

/* ------------------------------------------------------------- closed form */
static void
closed(const nmb_engine *e, const work *w, double *t)
{
  const double runs = (double)(w->vectors * w->passes), groups = (double)w->groups;
  const double macs = groups * (double)(PAR(GRF) * PAR(GRF));
  const double pages = ceil(macs / (double)w->per_page);
  const int64_t crf = ceil_div(PAR(CRF) * 4, 32), n = PAR(GRF);
  t[NMB_CAUSE_LAUNCH] =
      runs * (double)(3 * (PAR(RCD) + PAR(WR) + PAR(RP)) + crf * PAR(CCD));
  t[NMB_CAUSE_COMPUTE] = runs * macs * (double)PAR(CCD);
  t[NMB_CAUSE_ROW] = runs * pages * (double)(PAR(RTP) + PAR(RP) + PAR(RCD));
  t[NMB_CAUSE_BUS] =
      runs * (groups * (double)(n * PAR(CCD) + PAR(RTW) + PAR(WTR)) +
              (double)(2 * n * PAR(CCD) + PAR(RTW) + PAR(WR) + PAR(RP) + PAR(RCD))) +
      (double)PAR(RL);
}

/* ------------------------------------------------------ command by command */
typedef enum kind { ACT, PRE, WRITE, MAC, STORE, READ, MODE, REFAB } kind;
static const char *const kind_name[] = {"ACTAB", "PREAB", "WRGRF", "MACAB",
                                        "WRBANK", "RD",    "MRS",   "REFab"};
static const nmb_cause kind_cause[] = {
    NMB_CAUSE_ROW, NMB_CAUSE_ROW,  NMB_CAUSE_BUS,    NMB_CAUSE_COMPUTE,
    NMB_CAUSE_BUS, NMB_CAUSE_BUS,  NMB_CAUSE_LAUNCH, NMB_CAUSE_REFRESH};

typedef struct stream {
  const nmb_engine *e;
  const nmb_watch *watch;
  int64_t now, due, last[REFAB + 1]; /* ticks; last of each kind, far back at first */
  bool open;
  double *t;
  nmb_command run;
} stream;

static void
flush(stream *s)
{
  if (s->run.n > 0 && s->watch)
    s->watch->command(s->watch->arg, &s->run);
  s->run.n = 0;
}

static void
note(stream *s, kind k, int64_t at, int64_t row)
{
  const int64_t step = at - (s->run.cycle + (s->run.n - 1) * s->run.step);
  if (s->run.n > 0 && s->run.name == kind_name[k] && s->run.row == row &&
      (s->run.n == 1 || step == s->run.step)) {
    s->run.step = step;
    s->run.n++;
    return;
  }
  flush(s);
  s->run = (nmb_command){kind_name[k], at, 1, 0, row, false};
}

/* Issues a command as early as what came before allows. */
static void
issue(stream *s, kind k, int64_t row)
{
  const nmb_engine *e = s->e;
  const int64_t gap[][4] = {
      /* to, from, cycles, whose time it is */
      {ACT, PRE, PAR(RP), ACT},      {ACT, ACT, PAR(RC), ACT},
      {ACT, REFAB, PAR(RFC), REFAB}, {PRE, ACT, PAR(RAS), PRE},
      {PRE, MAC, PAR(RTP), PRE},     {PRE, STORE, PAR(WR), PRE},
      {PRE, MODE, PAR(WR), MODE},    {PRE, WRITE, PAR(RTP), PRE},
      {MAC, ACT, PAR(RCD), ACT},     {MAC, MAC, PAR(CCD), MAC},
      {MAC, WRITE, PAR(WTR), WRITE}, {MAC, MODE, PAR(CCD), MODE},
      {WRITE, MAC, PAR(RTW), WRITE}, {WRITE, WRITE, PAR(CCD), WRITE},
      {WRITE, MODE, PAR(CCD), MODE}, {STORE, MAC, PAR(RTW), STORE},
      {STORE, STORE, PAR(CCD), STORE}, {MODE, ACT, PAR(RCD), MODE},
      {MODE, MODE, PAR(CCD), MODE},  {READ, READ, PAR(CCD), READ},
      {READ, MODE, PAR(WTR), MODE},  {READ, ACT, PAR(RCD), ACT},
      {REFAB, PRE, PAR(RP), REFAB}};
  int64_t at = s->now + 1;
  kind whose = k;
  for (size_t i = 0; i < sizeof gap / sizeof *gap; i++)
    if (gap[i][0] == (int64_t)k && s->last[gap[i][1]] + gap[i][2] > at) {
      at = s->last[gap[i][1]] + gap[i][2];
      whose = (kind)gap[i][3];
    }
  s->t[kind_cause[whose]] += (double)(at - s->now);
  s->now = s->last[k] = at;
  s->open = k == ACT || (s->open && k != PRE);
  note(s, k, at, row);
}

/* A refresh between two pages: the row is closed and opened again by who needs it. */
static void
refresh(stream *s)
{
  const nmb_engine *e = s->e;
  while (PAR(REFRESH) && s->now >= s->due) {
    if (s->open)
      issue(s, PRE, -1);
    issue(s, REFAB, -1);
    s->due += PAR(REFI);
  }
}

static void
change_mode(stream *s)
{
  issue(s, ACT, 1 << 13); /* the reserved row */
  issue(s, MODE, -1);
  issue(s, PRE, -1);
}

/* One pass over one vector. */
static void
pass(stream *s, const work *w, int64_t first_row)
{
  const nmb_engine *e = s->e;
  int64_t column = 0;
  change_mode(s); /* HAB */
  for (int64_t i = 0; i < ceil_div(PAR(CRF) * 4, 32); i++)
    issue(s, WRITE, -1);
  change_mode(s); /* HAB-PIM */
  for (int64_t g = 0; g < w->groups; g++) {
    for (int64_t i = 0; i < PAR(GRF); i++)
      issue(s, WRITE, -1);
    for (int64_t i = 0; i < PAR(GRF) * PAR(GRF); i++, column++) {
      if (column % w->per_page == 0) {
        if (s->open)
          issue(s, PRE, -1);
        refresh(s);
        issue(s, ACT, first_row + column / w->per_page);
      } else if (PAR(REFRESH) && s->now >= s->due) {
        refresh(s);
        issue(s, ACT, first_row + column / w->per_page);
      }
      issue(s, MAC, first_row + column / w->per_page);
    }
  }
  for (int64_t i = 0; i < PAR(GRF); i++)
    issue(s, STORE, -1);
  issue(s, PRE, -1);
  change_mode(s); /* single bank */
  issue(s, ACT, 0);
  for (int64_t i = 0; i < PAR(GRF); i++)
    issue(s, READ, 0);
  issue(s, PRE, -1);
}

static void
stepped(const nmb_engine *e, const work *w, const nmb_watch *watch, double *t)
{
  stream s = {.e = e, .watch = watch, .t = t, .due = PAR(REFI)};
  for (int i = 0; i <= REFAB; i++)
    s.last[i] = INT32_MIN;
  for (int64_t v = 0; v < w->vectors; v++)
    for (int64_t p = 0; p < w->passes; p++)
      pass(&s, w, p * ceil_div(w->groups * PAR(GRF) * PAR(GRF), w->per_page));
  t[NMB_CAUSE_BUS] += (double)PAR(RL); /* the last data */
  flush(&s);
}

/* ------------------------------------------------------------------- the rest */
static void
energy(const nmb_prog *p, const nmb_engine *e, const nmb_insn *in, const work *w,
       nmb_cost *out)
{
  const nmb_mem *m = &p->hw->mem[e->resident];
  const double macs = (double)(w->groups * PAR(GRF) * PAR(GRF));
  const double channels = in->place.nchannel > 0 ? in->place.nchannel : m->channels;
  const double runs = (double)(w->vectors * w->passes) * channels;
  out->energy[NMB_EPART_ROW] =
      runs * ceil(macs / (double)w->per_page) * m->banks * e->param[P_E_ACT].value;
  out->energy[NMB_EPART_ARRAY] =
      runs * macs * (double)PAR(UNITS) * e->param[P_E_COL].value;
  out->energy[NMB_EPART_COMPUTE] =
      (double)nmb_op_macs(p, in->op, &in->tile) * e->param[P_E_MAC].value;
  /* input into every channel, 16 lanes of each sum out of it */
  const double moved = runs * (double)(w->groups * PAR(GRF) + PAR(UNITS) * PAR(GRF)) *
                       (double)m->burst_bytes;
  out->energy[NMB_EPART_IO] = moved * m->j_per_byte;
}

static nmb_status
cost(nmb_run *run, const nmb_prog *p, const nmb_insn *in, nmb_fidelity fidelity,
     const nmb_watch *watch, nmb_cost *out)
{
  const bool step = fidelity == NMB_CYCLE;
  const nmb_engine *e = &p->hw->engine[in->engine];
  const nmb_mem *m = &p->hw->mem[e->resident];
  double t[NMB_NCAUSE] = {0}, sum = 0;
  if (nmb_op_get(p->op[in->op].code)->class_ != NMB_CLASS_MAC)
    return nmb_fail(run, NMB_UNSUPPORTED, NMB_NOLOC, "hbm-pim cannot run op '%s'",
                    nmb_op_get(p->op[in->op].code)->name);
  const work w = work_of(p, e, in);
  if (step)
    stepped(e, &w, watch, t);
  else
    closed(e, &w, t);
  for (int i = 0; i < NMB_NCAUSE; i++) {
    out->time[i] = t[i] * e->param[P_TCK].value;
    sum += out->time[i];
  }
  if (PAR(REFRESH) && !step)
    out->time[NMB_CAUSE_REFRESH] = sum * (double)PAR(RFC) / (double)(PAR(REFI) - PAR(RFC));
  out->time[NMB_CAUSE_LAUNCH] += in->first ? e->launch_s : 0;
  energy(p, e, in, &w, out);
  for (int i = 0; i < in->nopnd; i++)
    out->mem_bytes[in->opnd[i].mem] += nmb_operand_bytes(&in->opnd[i]);
  const double channels = in->place.nchannel > 0 ? in->place.nchannel : m->channels;
  out->mem_s[e->resident] = nmb_cost_seconds(out) * channels / m->channels;
  return NMB_OK;
}

NMB_PLUGIN
{
    NMB_PLUGIN_HEAD,
    .kind = "model",
    .name = "hbm-pim",
    .version = "1",
    .summary = "SIMD units of two banks driven by column commands, microkernels in CRF",
    .source = "Lee et al., ISCA 2021, doi 10.1109/ISCA52012.2021.00013; Kim et al., IEEE "
              "Micro 2022, doi 10.1109/MM.2022.3164651",
    .limits = "products only; one vector at a time; the even bank of each pair is "
              "followed by the odd one without overlap; adding up the lanes on the host "
              "is free",
    .opts = params,
    .cost = cost,
    .steps = true,
};
