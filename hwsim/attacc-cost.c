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

/* A run of requests, by its numbers: heads, positions and elements of an attention, or
 * rows, bursts and vectors of a product. */
typedef struct work {
  nmb__att_timing t;
  bool product;
  int64_t n[3];
} work;

/* What has been executed: instructions of one group ask for the same run again. */
typedef struct known {
  struct known *next;
  work w;
  nmb__att_result r;
} known;

static bool
same_work(const work *a, const work *b)
{
  /* ints and an enum of their size: no padding */
  return !memcmp(&a->t, &b->t, sizeof a->t) && a->product == b->product &&
         !memcmp(a->n, b->n, sizeof a->n);
}

static void
execute(nmb_run *run, const work *w, nmb__att_hook *hook, void *arg, nmb__att_result *r)
{
  const size_t mark = nmb__run_mark(run);
  nmb__att_list list = {0};
  if (w->product)
    nmb__att_gemv(run, w->t.level, w->n[0], w->n[1], w->n[2], &list);
  else
    nmb__att_attention(run, w->t.level, w->n[0], w->n[1], w->n[2], &list);
  nmb__att_execute(&w->t, &list, hook, arg, r);
  if (!hook) /* who watches may have allocated */
    nmb__run_release(run, mark);
}

static const nmb__att_result *
result_of(nmb_run *run, const work *w, nmb__att_hook *hook, void *arg)
{
  nmb_run *own;
  known **head = (known **)nmb__run_keep(run, NMB__KEEP_ATTACC, &own);
  known *k = *head;
  while (k && !same_work(&k->w, w))
    k = k->next;
  if (k && !hook)
    return &k->r;
  if (!k) {
    k = NMB_NEW(own, known, 1);
    *k = (known){.next = *head, .w = *w};
    *head = k;
  }
  execute(run, w, hook, arg, &k->r);
  return &k->r;
}

static nmb_status
work_of(nmb_run *run, const nmb_prog *p, const nmb_insn *in, group *g, bool *any, work *w)
{
  const nmb_engine *e = &p->hw->engine[in->engine];
  const nmb_place *l = &in->place;
  *w = (work){.t = timing(e)};
  *any = true;
  if (find_group(p, in, g)) {
    const nmb_space s = nmb_op_space(p, g->op[0]);
    const int64_t stack = (int64_t)nmb_param_get(e, "stack-channels");
    const int64_t n = p->hw->mem[e->resident].channels / stack;
    const int64_t stacks = n > 0 ? n : 1;
    const int64_t v[3] = {(s.b * s.m + stacks - 1) / stacks, s.n, s.k};
    memcpy(w->n, v, sizeof v);
    return share_of(run, p, in, g);
  }
  const int64_t v[3] = {l->rows_per_bank, l->bursts, l->vectors};
  memcpy(w->n, v, sizeof v);
  w->product = true;
  *any = nmb_op_get(p->op[in->op].code)->class_ == NMB_CLASS_MAC && v[0] > 0 && v[1] > 0;
  return NMB_OK;
}

nmb_status
nmb__att_cost(nmb_run *run, const nmb_prog *p, const nmb_insn *in, const nmb_watch *watch,
              bool *done, double *cycles)
{
  group g = {.share = 1, .first = true};
  work w;
  memset(cycles, 0, NMB_NCAUSE * sizeof *cycles);
  NMB_TRY(work_of(run, p, in, &g, done, &w));
  *done = *done && w.n[0] > 0 && w.n[2] > 0;
  if (!*done)
    return NMB_OK;
  observer o = {.watch = watch, .level = w.t.level};
  const bool seen = watch && g.first;
  const nmb__att_result *r = result_of(run, &w, seen ? on_command : NULL, &o);
  if (seen)
    flush(&o);
  for (int i = 0; i < NMB__ATT_NCMD; i++)
    cycles[cause_of[i]] += g.share * (double)r->time[i];
  return NMB_OK;
}
