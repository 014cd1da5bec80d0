/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What attention and products cost on HBM3-PIM, command by command.
 *
 * Scores, softmax and context of neighbouring heads overlap, so their instructions are
 * timed together: all heads of an op are one run of requests, and each instruction
 * gets the part of it that it has of the closed forms. */
#include "hwsim/attacc.h"

#include <string.h>

#include "base/run.h"
#include "hwsim/pim.h"

/* The ops of one attention, all on one engine. */
typedef struct group {
  nmb_id op[3]; /* qk, softmax, pv */
  double share; /* of the instruction at hand */
  bool first;   /* it is the first of them */
} group;

static nmb_id
engine_of(const nmb_prog *p, nmb_id op)
{
  for (int k = 0; k < p->nkernel; k++)
    for (int i = 0; i < p->kernel[k].nop; i++)
      if (p->kernel[k].op[i] == op)
        return p->kernel[k].engine;
  return NMB_NONE;
}

static nmb_id
user_of(const nmb_prog *p, nmb_id op, nmb_opcode code)
{
  const nmb_block *b = &p->block[p->op[op].block];
  for (int i = 0; i < b->nop; i++) {
    const nmb_op *o = &p->op[b->op[i]];
    if (o->code == code && o->in[0] == p->op[op].out[0])
      return b->op[i];
  }
  return NMB_NONE;
}

static bool
find_group(const nmb_prog *p, const nmb_insn *in, group *g)
{
  nmb_id qk = in->op;
  for (int i = 0; i < 2 && qk != NMB_NONE && p->op[qk].code != NMB_OP_QK; i++)
    qk = p->tensor[p->op[qk].in[0]].def;
  if (qk == NMB_NONE || p->op[qk].code != NMB_OP_QK)
    return false;
  g->op[0] = qk;
  g->op[1] = user_of(p, qk, NMB_OP_SOFTMAX);
  g->op[2] = g->op[1] == NMB_NONE ? NMB_NONE : user_of(p, g->op[1], NMB_OP_PV);
  for (int i = 0; i < 3; i++)
    if (g->op[i] == NMB_NONE || engine_of(p, g->op[i]) != in->engine)
      return false;
  return true;
}

static nmb_status
share_of(nmb_run *run, const nmb_prog *p, const nmb_insn *in, group *g)
{
  double all = 0, mine = 0;
  bool seen = false;
  nmb_cost c;
  g->first = false;
  for (int i = 0; i < p->ninsn; i++) {
    const nmb_insn *x = &p->insn[i];
    if (x->block != in->block || x->engine != in->engine || x->kind != NMB_INSN_EXEC ||
        (x->op != g->op[0] && x->op != g->op[1] && x->op != g->op[2]))
      continue;
    NMB_TRY(nmb_insn_cost(run, p, x, &c));
    all += nmb_cost_seconds(&c);
    if (!seen && x->op == in->op && !memcmp(&x->tile, &in->tile, sizeof x->tile))
      g->first = true;
    seen = true;
  }
  NMB_TRY(nmb_insn_cost(run, p, in, &c));
  mine = nmb_cost_seconds(&c);
  g->share = all > 0 ? mine / all : 0;
  return NMB_OK;
}

static nmb__att_timing
timing(const nmb_engine *e)
{
#define CYCLES(name) ((int)nmb_param_get(e, name))
  const char *level = nmb_param_text(e, "level");
  nmb__att_timing t = {.level = !strcmp(level, "bank")    ? NMB__ATT_BANK
                                : !strcmp(level, "group") ? NMB__ATT_GROUP
                                                          : NMB__ATT_BUFFER,
                       .bl = 2,
                       .ccds = CYCLES("ccd-short"),
                       .ccdl = CYCLES("ccd-long"),
                       .ccd = (int)nmb__pim_ccd(e),
                       .rcd = CYCLES("rcd"),
                       .rp = CYCLES("rp"),
                       .ras = CYCLES("ras"),
                       .rc = CYCLES("rc"),
                       .rtp = CYCLES("rtp"),
                       .rfc = CYCLES("rfc")};
  t.refi = nmb_param_get(e, "refresh") != 0 ? CYCLES("refi") : 0;
#undef CYCLES
  return t;
}

/* Commands as a watch sees them. */
typedef struct observer {
  const nmb_watch *watch;
  nmb__att_level level;
  nmb_command now;
} observer;

static void
flush(observer *o)
{
  if (o->now.n > 0)
    o->watch->command(o->watch->arg, &o->now);
  o->now.n = 0;
}

static void
on_command(void *arg, int64_t cycle, nmb__att_cmd cmd, const nmb__att_req *q)
{
  observer *o = arg;
  flush(o);
  o->now = (nmb_command){nmb__att_name(o->level, cmd), cycle, 1, 0, q ? q->row : -1,
                         false};
}

static const nmb_cause cause_of[NMB__ATT_NCMD] = {
    [NMB__ATT_MAC] = NMB_CAUSE_COMPUTE, [NMB__ATT_WRGB] = NMB_CAUSE_BUS,
    [NMB__ATT_MVSB] = NMB_CAUSE_BUS,    [NMB__ATT_MVGB] = NMB_CAUSE_BUS,
    [NMB__ATT_SFM] = NMB_CAUSE_BUS,     [NMB__ATT_BARRIER] = NMB_CAUSE_BUS,
    [NMB__ATT_PRE] = NMB_CAUSE_ROW,     [NMB__ATT_ACT] = NMB_CAUSE_ROW,
    [NMB__ATT_PREA] = NMB_CAUSE_REFRESH, [NMB__ATT_REF] = NMB_CAUSE_REFRESH};

nmb_status
nmb__att_cost(nmb_run *run, const nmb_prog *p, const nmb_insn *in, const nmb_watch *watch,
              bool *done, double *cycles)
{
  const nmb_engine *e = &p->hw->engine[in->engine];
  const nmb_place *l = &in->place;
  const nmb__att_timing t = timing(e);
  const int64_t stack = (int64_t)nmb_param_get(e, "stack-channels");
  const int64_t channels = p->hw->mem[e->resident].channels;
  nmb__att_list list = {0};
  nmb__att_result r;
  group g = {.share = 1, .first = true};
  memset(cycles, 0, NMB_NCAUSE * sizeof *cycles);
  *done = false;
  if (find_group(p, in, &g)) {
    const nmb_space s = nmb_op_space(p, g.op[0]);
    const int64_t stacks = channels / stack > 0 ? channels / stack : 1;
    NMB_TRY(share_of(run, p, in, &g));
    nmb__att_attention(run, t.level, (s.b * s.m + stacks - 1) / stacks, s.n, s.k, &list);
  } else if (nmb_op_get(p->op[in->op].code)->class_ == NMB_CLASS_MAC &&
             l->rows_per_bank > 0 && l->bursts > 0)
    nmb__att_gemv(run, t.level, l->rows_per_bank, l->bursts, l->vectors, &list);
  if (list.n == 0)
    return NMB_OK;
  observer o = {.watch = watch, .level = t.level};
  nmb__att_execute(&t, &list, watch && g.first ? on_command : NULL, &o, &r);
  if (watch && g.first)
    flush(&o);
  for (int i = 0; i < NMB__ATT_NCMD; i++)
    cycles[cause_of[i]] += g.share * (double)r.time[i];
  *done = true;
  return NMB_OK;
}
