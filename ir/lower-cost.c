/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Estimates: what the instructions of a kernel or a transfer cost on their own. */

#include "base/run.h"
#include "ir/lower.h"

#define NSEEN 16
typedef struct meter {
  nmb_run *run;
  const nmb_prog *p;
  bool in_memory;
  int channels;
  double *busy;  /* [channels] until when */
  double issued; /* when the last instruction started: a queue issues in order */
  double serial; /* sum, for engines that do one at a time */
  int nseen;     /* costs of instructions that recur, e.g. experts of equal load */
  nmb_insn seen[NSEEN];
  double seconds[NSEEN];
} meter;

/* Do two instructions differ only in which bytes and which channels? */
static bool
costs_alike(const nmb_insn *a, const nmb_insn *b)
{
  const nmb_tile *s = &a->tile, *t = &b->tile;
  if (a->op != b->op || a->kind != b->kind || a->first != b->first ||
      a->nopnd != b->nopnd || s->b1 - s->b0 != t->b1 - t->b0 ||
      s->m1 - s->m0 != t->m1 - t->m0 || s->n1 - s->n0 != t->n1 - t->n0)
    return false;
  const nmb_place *x = &a->place, *y = &b->place; /* field by field: it has padding */
  if (x->nchannel != y->nchannel || x->banks != y->banks || x->vectors != y->vectors ||
      x->rows_per_bank != y->rows_per_bank || x->pages != y->pages ||
      x->bursts != y->bursts || x->opens != y->opens || x->reuse != y->reuse)
    return false;
  for (int i = 0; i < a->nopnd; i++)
    if (a->opnd[i].rows != b->opnd[i].rows ||
        a->opnd[i].row_bytes != b->opnd[i].row_bytes || a->opnd[i].mem != b->opnd[i].mem)
      return false;
  return true;
}

static nmb_status
insn_seconds(meter *m, const nmb_insn *in, double *out)
{
  for (int i = 0; i < m->nseen && i < NSEEN; i++)
    if (costs_alike(&m->seen[i], in)) {
      *out = m->seconds[i];
      return NMB_OK;
    }
  nmb_cost c = {0};
  NMB_TRY(nmb_insn_cost(m->run, m->p, in, &c));
  *out = nmb_cost_seconds(&c);
  m->seen[m->nseen % NSEEN] = *in;
  m->seconds[m->nseen++ % NSEEN] = *out;
  return NMB_OK;
}

static nmb_status
measure(void *to, const nmb_insn *in)
{
  meter *m = to;
  double s = 0;
  NMB_TRY(insn_seconds(m, in, &s));
  if (!m->in_memory || in->kind != NMB_INSN_EXEC || in->place.nchannel == 0) {
    m->serial += s;
    return NMB_OK;
  }
  double start = m->issued;
  const int c0 = in->place.channel0, c1 = c0 + in->place.nchannel;
  for (int c = c0; c < c1; c++)
    start = m->busy[c] > start ? m->busy[c] : start;
  for (int c = c0; c < c1; c++)
    m->busy[c] = start + s;
  m->issued = start;
  return NMB_OK;
}

static nmb_status
work_seconds(nmb_run *run, const nmb__work *w, const nmb_step *step, const nmb_map *map,
             const nmb_layout *layout, int nlayout, double *seconds)
{
  const nmb_engine *e = &w->p->hw->engine[w->engine];
  const size_t mark = nmb__run_mark(run);
  meter *m = NMB_NEW(run, meter, 1);
  m->run = run;
  m->p = w->p;
  m->in_memory = e->in_memory;
  m->channels = e->in_memory ? w->p->hw->mem[e->resident].channels : 0;
  m->busy = NMB_NEW(run, double, m->channels + 1);
  const nmb_status st = nmb__walk(run, w, step, map, layout, nlayout, measure, m);
  double most = 0;
  for (int c = 0; c < m->channels; c++)
    most = m->busy[c] > most ? m->busy[c] : most;
  *seconds = m->serial + most;
  nmb__run_release(run, mark);
  return st;
}

nmb_status
nmb_kernel_seconds(nmb_run *run, const nmb_prog *p, const nmb_id *op, int nop,
                   nmb_id engine, const nmb_map *map, const nmb_layout *layout,
                   int nlayout, double *seconds)
{
  const nmb__work w = {p, op, nop, p->op[op[0]].block, engine};
  nmb_map dflt;
  if (!map) {
    nmb__map_default(&w, &dflt);
    map = &dflt;
  }
  return work_seconds(run, &w, &(nmb_step){.nparts = 1}, map, layout, nlayout, seconds);
}

nmb_status
nmb_step_seconds(nmb_run *run, const nmb_prog *p, const nmb_step *step, double *seconds)
{
  const nmb__work w = nmb__work_of(p, step->kernel);
  nmb_map map;
  if (p->nmap > 0)
    map = p->map[step->kernel];
  else
    nmb__map_default(&w, &map);
  return work_seconds(run, &w, step, &map, NULL, 0, seconds);
}

nmb_status
nmb_transfer_seconds(nmb_run *run, const nmb_prog *p, nmb_id tensor, nmb_id from,
                     nmb_id to, double *seconds)
{
  *seconds = 0;
  if (from == to)
    return NMB_OK;
  const nmb_hw *hw = p->hw;
  nmb_id mid = NMB_NONE;
  if (nmb_hw_link(hw, from, to) == NMB_NONE)
    for (nmb_id m = 0; m < hw->nmem && mid == NMB_NONE; m++)
      if (m != from && m != to && nmb_hw_link(hw, from, m) != NMB_NONE &&
          nmb_hw_link(hw, m, to) != NMB_NONE)
        mid = m;
  if (mid != NMB_NONE) {
    double a, b;
    NMB_TRY(nmb_transfer_seconds(run, p, tensor, from, mid, &a));
    NMB_TRY(nmb_transfer_seconds(run, p, tensor, mid, to, &b));
    *seconds = a + b;
    return NMB_OK;
  }
  nmb_insn in = {.kind = NMB_INSN_COPY,
                 .engine = nmb_hw_link(hw, from, to),
                 .block = p->tensor[tensor].block,
                 .step = NMB_NONE,
                 .op = NMB_NONE,
                 .nopnd = 2};
  if (in.engine == NMB_NONE)
    return nmb_fail(run, NMB_UNSUPPORTED, NMB_NOLOC, "no link from memory %s to %s",
                    hw->mem[from].name, hw->mem[to].name);
  const nmb__view v = nmb__view_of(p, tensor);
  for (int i = 0; i < 2; i++) {
    in.opnd[i].slot = NMB_NONE;
    (void)nmb__rect(p, tensor, v.cols, 0, v.rows, 0, v.cols, &in.opnd[i]);
  }
  in.opnd[0].mem = from;
  in.opnd[1].mem = to;
  in.opnd[1].write = true;
  nmb_cost c = {0};
  NMB_TRY(nmb_insn_cost(run, p, &in, &c));
  *seconds = nmb_cost_seconds(&c);
  return NMB_OK;
}
