/* SPDX-License-Identifier: GPL-3.0-or-later */
/* state-update: Pimba's units in the banks of HBM2E, one for every two banks.
 *
 * A unit takes a burst of a recurrent state a column command, S <- a S + v k^T, and adds
 * its part of S q; or, for attention, a burst of keys or values of a product.  With
 * access interleaving (COMP) it reads from one of its banks while the last result goes
 * back into the other, so that an update costs no more commands than a product.  Without,
 * reads and writes take turns, `registers` bursts at a time, and a unit that is not made
 * for updates needs `steps` further commands a burst (HBM-PIM: MUL reads the state, two
 * MACs add the update and take the result, MOV writes it).
 *   page     PREab, ACT4 for each bank group tFAW apart, the columns, write recovery
 *   operands q, k, decay and v of the page's heads into registers (REGWR) while its rows
 *            open, sums out (RESRD) while the last results are written
 * Heads whose states lie in one page share its opening: each has an equal part.
 * In closed form those intervals are added up; the command-by-command form issues them
 * in order on a channel of the DRAM kind.  Refresh stretches both.
 * After Pimba, MICRO 2025, arXiv:2507.10178; HBM-PIM's instructions: Kwon et al., ISCA
 * 2021. */
#include "nmbench/nmb_plugin.h"

#include <math.h>
#include <string.h>

#include "nmbench/nmb_dram.h"

#define PARAMS(X)                                                                        \
  X(KIND, "kind", "text", "", "HBM2E_SPU", "", "DRAM kind")                              \
  X(INTERLEAVE, "interleave", "bool", NULL, "true", "", "read and write at once")        \
  X(STEPS, "steps", "int", "1", "0", "0..16", "more commands for a burst of an update")  \
  X(REGISTERS, "registers", "int", "1", "8", "1..64", "bursts between read and write")   \
  X(OPERAND, "operand-bits", "int", "bit", "16", "4..32", "of an element in the registers") \
  X(REFRESH, "refresh", "bool", NULL, "true", "", "all-bank refresh")                    \
  X(E_ACT, "energy-act", "energy", "J", NULL, "0..", "opening a page of a bank")         \
  X(E_COL, "energy-column", "energy", "J", NULL, "0..", "a burst read or written")       \
  X(E_COMP, "energy-comp", "energy", "J", NULL, "0..", "a burst in a unit")
NMB_PARAMS(PARAMS);
#define PAR(id) (e->param[P_##id].value)

/* What the instruction makes a pseudo-channel do, for one token. */
typedef struct work {
  bool update;
  int64_t heads;    /* that share a page; all the rest is of one of them */
  int64_t columns;  /* bursts of each bank */
  int64_t operands, results; /* bursts */
  int64_t page;     /* bursts of one */
  double tokens;
} work;

/* Timing of the kind, in its clocks. */
typedef struct timing {
  const nmb_dram *kind;
  int64_t groups, ccds, ccdl, rcd, rp, faw, rtp, recovery, fill, rtw, wtr, rfc, refi;
} timing;

static int64_t
ceil_div(int64_t a, int64_t b)
{
  return (a + b - 1) / b;
}

static nmb_status
timing_of(nmb_run *run, const nmb_engine *e, timing *t)
{
  static const char *const name[] = {"nCCDS", "nCCDL", "nRCDRD", "nRP",   "nFAW",  "nRTPL",
                                     "nCWL",  "nBL",   "nWR",    "nRTW",  "nWTRL", "nRFC",
                                     "nREFI"};
  enum { CCDS, CCDL, RCD, RP, FAW, RTP, CWL, BL, WR, RTW, WTR, RFC, REFI, N };
  int64_t v[N];
  NMB_TRY(nmb_dram_open(run, nmb_param_text(e, "kind"), "", &t->kind));
  for (int i = 0; i < N; i++)
    if (!nmb_dram_value(t->kind, name[i], &v[i]))
      return nmb_fail(run, NMB_BADINPUT, NMB_NOLOC, "DRAM kind '%s' has no %s",
                      nmb_param_text(e, "kind"), name[i]);
  t->groups = nmb_dram_get(t->kind)->count[NMB_DRAM_GROUP];
  t->ccds = v[CCDS], t->ccdl = v[CCDL], t->rcd = v[RCD], t->rp = v[RP];
  t->faw = v[FAW], t->rtp = v[RTP], t->rtw = v[RTW], t->rfc = v[RFC], t->refi = v[REFI];
  t->fill = v[CWL] + v[BL];
  t->recovery = t->fill + v[WR];
  t->wtr = t->fill + v[WTR];
  return NMB_OK;
}

static work
work_of(const nmb_prog *p, const nmb_engine *e, const nmb_insn *in)
{
  const nmb_mem *m = &p->hw->mem[e->resident];
  const nmb_place *l = &in->place;
  const nmb_tile *t = &in->tile;
  work w = {.update = p->op[in->op].code == NMB_OP_SCAN,
            .heads = 1,
            .columns = l->rows_per_bank * l->bursts,
            .page = m->page_bytes / m->burst_bytes,
            .tokens = (double)(l->vectors > 0 ? l->vectors : t->m1 - t->m0)};
  const int64_t rows = l->rows_per_bank * l->banks, k = t->k1 - t->k0;
  if (w.columns < w.page)
    w.heads = w.page / w.columns;
  const int64_t operands = (w.update ? 3 * k + rows : k) * (int64_t)PAR(OPERAND);
  w.operands = ceil_div(operands, 8 * m->burst_bytes);
  w.results = ceil_div(rows * (int64_t)PAR(OPERAND), 8 * m->burst_bytes);
  return w;
}

/* Column commands of `columns` bursts in each of a unit's two banks. */
static int64_t
commands(const nmb_engine *e, const work *w, int64_t columns)
{
  if (!w->update || PAR(INTERLEAVE) != 0)
    return 2 * columns;
  return 2 * columns * (2 + (int64_t)PAR(STEPS));
}

/* ------------------------------------------------------------------ closed form */
static void
closed(const nmb_engine *e, const timing *t, const work *w, double *c)
{
  const int64_t columns = w->columns * w->heads, pages = ceil_div(columns, w->page);
  const bool turns = w->update && PAR(INTERLEAVE) == 0;
  const double groups =
      turns ? (double)(2 * ceil_div(columns, (int64_t)PAR(REGISTERS))) : 0;
  const int64_t opening = (t->groups - 1) * t->faw + t->rcd,
                closing = w->update ? t->recovery : t->rtp;
  const double in = (double)(w->heads * w->operands * t->ccds + t->fill - opening),
               all = (double)(w->heads * w->results * t->ccds),
               hidden = (double)(pages - 1) * fmin((double)(opening + closing),
                                                   all / (double)pages),
               out = all - hidden + (double)(t->ccdl - closing);
  c[NMB_CAUSE_COMPUTE] = (double)(commands(e, w, columns) * t->ccdl);
  c[NMB_CAUSE_ROW] = (double)(pages * (t->rp + opening + closing));
  c[NMB_CAUSE_BUS] =
      fmax(in, 0) + fmax(out, 0) + groups * (double)(t->rtw + t->wtr - 2 * t->ccdl);
}

/* ------------------------------------------------------------ command by command */
typedef struct stream {
  const nmb_engine *e;
  const work *w;
  const nmb_watch *watch;
  nmb_dramch *ch;
  const nmb_dram *kind;
  double *c;
  int64_t now;
  int64_t left;     /* columns of the page that is open */
  int64_t operands; /* bursts still to be written */
  int64_t done, results; /* columns worked on; bursts of sums taken out */
  int64_t row;
  bool seen; /* what is issued now belongs to the head that the watch asks for */
} stream;

static void
tell(const stream *s, const char *name, int64_t first, int64_t n)
{
  if (s->watch && s->seen && n > 0)
    s->watch->command(s->watch->arg,
                      &(nmb_command){name, first, n, n > 1 ? (s->now - first) / (n - 1) : 0,
                                     s->row, false});
}

/* n commands; the time since the one before is of `cause`. */
static void
issue(stream *s, const char *name, int bank, int64_t n, nmb_cause cause)
{
  const nmb_id cmd = nmb_dram_command(s->kind, name);
  const int64_t at = s->now;
  int64_t first = 0;
  for (int64_t i = 0; i < n; i++) {
    s->now = nmb_dramch_step(s->ch, cmd, bank, s->row, s->now);
    first = i == 0 ? s->now : first;
  }
  s->c[cause] += (double)(s->now - at);
  tell(s, name, first, n);
}

/* Operands, as long as there is time before tick `end`; -1: all that are left. */
static void
operands(stream *s, int64_t end, nmb_cause cause)
{
  const nmb_id cmd = nmb_dram_command(s->kind, "REGWR");
  while (s->operands > 0 &&
         (end < 0 || nmb_dramch_ready(s->ch, cmd, 0, s->now) < end)) {
    issue(s, "REGWR", 0, 1, cause);
    s->operands--;
  }
}

/* Sums that are there, likewise. */
static void
results(stream *s, int64_t end)
{
  const nmb_id cmd = nmb_dram_command(s->kind, "RESRD");
  const int64_t ready = s->w->results * s->done / s->w->columns;
  while (s->results < ready &&
         (end < 0 || nmb_dramch_ready(s->ch, cmd, 0, s->now) < end)) {
    issue(s, "RESRD", 0, 1, end < 0 ? NMB_CAUSE_BUS : NMB_CAUSE_ROW);
    s->results++;
  }
}

static void
next_page(stream *s)
{
  const nmb_dram_info *d = nmb_dram_get(s->kind);
  const nmb_id act = nmb_dram_command(s->kind, "ACT4");
  if (s->row >= 0) {
    results(s, nmb_dramch_ready(s->ch, nmb_dram_command(s->kind, "PREab"), 0, s->now));
    issue(s, "PREab", 0, 1, NMB_CAUSE_ROW);
  }
  s->row++;
  for (int g = 0; g < d->count[NMB_DRAM_GROUP]; g++) {
    const int bank = nmb_dram_bank(s->kind, 0, 0, g, 0);
    const int64_t opens = nmb_dramch_ready(s->ch, act, bank, s->now);
    results(s, opens);
    operands(s, opens, NMB_CAUSE_ROW);
    issue(s, "ACT4", bank, 1, NMB_CAUSE_ROW);
  }
  s->left = s->w->page;
}

/* Reads and writes in turn, bank by bank. */
static void
in_turns(stream *s, int64_t columns)
{
  const nmb_engine *e = s->e;
  const int64_t at_once = (int64_t)PAR(REGISTERS);
  for (int bank = 0; bank < 2; bank++)
    for (int64_t done = 0; done < columns; done += at_once) {
      const int64_t n = columns - done < at_once ? columns - done : at_once;
      issue(s, "RDAB", 0, n * (1 + (int64_t)PAR(STEPS)), NMB_CAUSE_COMPUTE);
      issue(s, "WRAB", 0, n, NMB_CAUSE_COMPUTE);
    }
}

static void
head(stream *s)
{
  const nmb_engine *e = s->e;
  const work *w = s->w;
  for (int64_t done = 0, n; done < w->columns; done += n, s->left -= n, s->done += n) {
    if (s->left == 0)
      next_page(s);
    operands(s, -1, NMB_CAUSE_BUS);
    n = w->columns - done < s->left ? w->columns - done : s->left;
    if (w->update && PAR(INTERLEAVE) == 0)
      in_turns(s, n);
    else
      issue(s, w->update ? "COMP" : "RDAB", 0, 2 * n, NMB_CAUSE_COMPUTE);
  }
}

/* number: which of the page's heads the watch is told of. */
static nmb_status
stepped(nmb_run *run, const nmb_engine *e, const timing *t, const work *w, int64_t number,
        const nmb_watch *watch, double *c)
{
  stream s = {.e = e, .w = w, .watch = watch, .kind = t->kind, .c = c, .row = -1};
  NMB_TRY(nmb_dramch_new(run, t->kind, NMB_DRAM_NOREFRESH, &s.ch));
  s.operands = w->heads * w->operands;
  for (int64_t i = 0; i < w->heads; i++) {
    s.seen = i == number;
    head(&s);
  }
  s.seen = number == w->heads - 1;
  results(&s, -1);
  issue(&s, "PREab", 0, 1, NMB_CAUSE_ROW);
  c[NMB_CAUSE_ROW] += (double)t->rp; /* the next may follow */
  return NMB_OK;
}

/* ---------------------------------------------------------------------- costs */
static void
energy(const nmb_prog *p, const nmb_engine *e, const nmb_insn *in, const work *w,
       nmb_cost *out)
{
  const nmb_mem *m = &p->hw->mem[e->resident];
  const double lanes = w->tokens * in->place.nchannel;
  const double bursts = lanes * (double)(w->columns * m->banks);
  const double moved = lanes * (double)((w->operands + w->results) * m->burst_bytes);
  out->energy[NMB_EPART_ROW] =
      lanes * m->banks * ceil((double)(w->columns * w->heads) / (double)w->page) /
      (double)w->heads * PAR(E_ACT);
  out->energy[NMB_EPART_ARRAY] = bursts * (w->update ? 2 : 1) * PAR(E_COL);
  out->energy[NMB_EPART_COMPUTE] = bursts * PAR(E_COMP);
  out->energy[NMB_EPART_IO] = moved * m->j_per_byte;
}

static void
append(const nmb_prog *p, const nmb_engine *e, const nmb_insn *in, nmb_cost *out)
{
  const nmb_mem *m = &p->hw->mem[e->resident];
  for (int i = 0; i < in->nopnd; i++) {
    const nmb_operand *o = &in->opnd[i];
    const double bytes = nmb_operand_bytes(o);
    out->mem_bytes[o->mem] += bytes;
    out->energy[NMB_EPART_IO] += bytes * m->j_per_byte;
    out->time[NMB_CAUSE_BUS] += bytes / m->bytes_per_s;
  }
  out->mem_s[e->resident] = out->time[NMB_CAUSE_BUS];
}

/* Heads are dealt to the channels in turn: how many this channel had before. */
static int64_t
number_of(const nmb_prog *p, const nmb_engine *e, const nmb_insn *in)
{
  const int n = in->place.nchannel > 0 ? in->place.nchannel : 1;
  const int wave = p->hw->mem[e->resident].channels / n;
  return in->tile.b0 / (wave > 0 ? wave : 1);
}

static nmb_status
cost(nmb_run *run, const nmb_prog *p, const nmb_insn *in, nmb_fidelity fidelity,
     const nmb_watch *watch, nmb_cost *out)
{
  const bool step = fidelity == NMB_CYCLE;
  const nmb_engine *e = &p->hw->engine[in->engine];
  const nmb_op *op = &p->op[in->op];
  const nmb_mem *m = &p->hw->mem[e->resident];
  double c[NMB_NCAUSE] = {0}, sum = 0;
  timing t;
  if (op->code == NMB_OP_KVAPPEND || op->code == NMB_OP_SPLIT) {
    append(p, e, in, out);
    return NMB_OK;
  }
  if (op->code != NMB_OP_SCAN && op->code != NMB_OP_QK && op->code != NMB_OP_PV)
    return nmb_fail(run, NMB_UNSUPPORTED, NMB_NOLOC, "state-update cannot run op '%s'",
                    nmb_op_get(op->code)->name);
  if (in->place.rows_per_bank < 1 || in->place.bursts < 1)
    return NMB_OK;
  NMB_TRY(timing_of(run, e, &t));
  const work w = work_of(p, e, in);
  if (step)
    NMB_TRY(stepped(run, e, &t, &w, number_of(p, e, in) % w.heads, watch, c));
  else
    closed(e, &t, &w, c);
  const double tick = nmb_dram_get(t.kind)->tick_ps * 1e-12;
  for (int i = 0; i < NMB_NCAUSE; i++) {
    out->time[i] = c[i] * tick * w.tokens / (double)w.heads;
    sum += out->time[i];
  }
  if (PAR(REFRESH) != 0)
    out->time[NMB_CAUSE_REFRESH] = sum * (double)t.rfc / (double)(t.refi - t.rfc);
  for (int i = 0; i < in->nopnd; i++)
    out->mem_bytes[in->opnd[i].mem] += nmb_operand_bytes(&in->opnd[i]) * w.tokens;
  out->mem_s[e->resident] = nmb_cost_seconds(out) * in->place.nchannel / m->channels;
  out->time[NMB_CAUSE_LAUNCH] = in->first ? e->launch_s : 0;
  energy(p, e, in, &w, out);
  return NMB_OK;
}

NMB_PLUGIN
{
    NMB_PLUGIN_HEAD,
    .kind = "model",
    .name = "state-update",
    .version = "1",
    .summary = "units in DRAM banks that update recurrent states and multiply caches",
    .source = "kim2025pimba; Lee et al., ISCA 2021, doi 10.1109/ISCA52012.2021.00013",
    .limits = "heads in one page are timed together and have equal parts; refresh as an "
              "average stretch; rounding (stochastic in Pimba) is to nearest; softmax "
              "and all products with weights are the host's",
    .opts = params,
    .cost = cost,
    .steps = true,
};
