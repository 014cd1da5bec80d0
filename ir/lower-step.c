/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Instructions of a step. */
#include <string.h>

#include "base/run.h"
#include "ir/lower.h"

static void
push(nmb_run *run, nmb_insns *list, const nmb_insn *insn)
{
  if (list->n == list->cap) {
    nmb_insn *old = list->v;
    list->cap = list->cap ? 2 * list->cap : 16;
    list->v = NMB_NEW(run, nmb_insn, list->cap);
    if (list->n)
      memcpy(list->v, old, (size_t)list->n * sizeof *old);
  }
  list->v[list->n++] = *insn;
}

/* Passes also ask about steps that are not in the schedule. */
nmb_id
nmb__step_row(const nmb_prog *p, const nmb_step *step)
{
  const uintptr_t at = (uintptr_t)step, lo = (uintptr_t)p->step;
  if (at < lo || at >= lo + (size_t)p->nstep * sizeof *step)
    return NMB_NONE;
  return (nmb_id)((at - lo) / sizeof *step);
}

static nmb_operand
whole(const nmb_prog *p, nmb_id t, nmb_id mem, bool write)
{
  const int64_t bytes = nmb_tensor_bytes(&p->tensor[t]);
  return (nmb_operand){nmb_tensor_root(p, t), mem, NMB_NONE, write, 0, 1, bytes, bytes};
}

static void
exec(nmb_run *run, const nmb__work *w, nmb_id step, nmb_insns *out)
{
  const nmb_prog *p = w->p;
  const nmb_engine *e = &p->hw->engine[w->engine];
  for (int i = 0; i < w->nop; i++) {
    const nmb_op *o = &p->op[w->op[i]];
    if (o->code == NMB_OP_SPLIT)
      continue;
    const nmb_space s = nmb_op_space(p, w->op[i]);
    nmb_insn x = {.kind = NMB_INSN_EXEC, .engine = w->engine, .block = w->block,
                  .step = step, .op = w->op[i], .first = i == 0,
                  .tile = {0, s.b, 0, s.m, 0, s.n, 0, s.k}};
    for (int j = 0; j < o->nin + o->nout && x.nopnd < NMB_MAXOPND; j++) {
      const nmb_id t = j < o->nin ? o->in[j] : o->out[j - o->nin];
      const bool res = nmb_tensor_resident(&p->tensor[nmb_tensor_root(p, t)]);
      const nmb_id mem = res ? e->resident : nmb__inner(w, t) ? e->local : e->home;
      x.opnd[x.nopnd++] = whole(p, t, mem, j >= o->nin);
    }
    if (e->in_memory) {
      const nmb_mem *m = &p->hw->mem[e->resident];
      x.place = (nmb_place){0, m->channels, m->banks, s.m, s.n, 1, 1, 1, 0};
    }
    push(run, out, &x);
  }
}

nmb_status
nmb_lower_step(nmb_run *run, const nmb_prog *p, const nmb_step *step, const nmb_map *map,
               const nmb_layout *layout, int nlayout, nmb_insns *out)
{
  (void)map, (void)layout, (void)nlayout;
  const nmb__work w = nmb__work_of(p, step->kernel);
  exec(run, &w, nmb__step_row(p, step), out);
  if (p->hw->engine[w.engine].in_memory)
    push(run, out,
         &(nmb_insn){.kind = NMB_INSN_SYNC, .engine = w.engine, .block = w.block,
                     .step = nmb__step_row(p, step), .op = NMB_NONE});
  return NMB_OK;
}

nmb_status
nmb_lower_transfer(nmb_run *run, const nmb_prog *p, nmb_id tensor, const nmb_step *step,
                   nmb_insns *out)
{
  const nmb_id root = nmb_tensor_root(p, tensor);
  const nmb_id def = p->tensor[root].def;
  const nmb_engine *e = &p->hw->engine[p->kernel[step->kernel].engine];
  if (nmb_tensor_resident(&p->tensor[root]))
    return NMB_OK;
  const nmb_id from =
      p->hw->engine[def == NMB_NONE ? p->hw->host : p->kernel[nmb__kernel_of(p, def)].engine].home;
  if (from == e->home)
    return NMB_OK;
  nmb_insn x = {.kind = NMB_INSN_COPY, .engine = nmb_hw_link(p->hw, from, e->home),
                .block = p->kernel[step->kernel].block, .step = nmb__step_row(p, step),
                .op = NMB_NONE, .nopnd = 2};
  if (x.engine == NMB_NONE)
    return nmb_fail(run, NMB_UNSUPPORTED, NMB_NOLOC, "no link from memory %s to %s",
                    p->hw->mem[from].name, p->hw->mem[e->home].name);
  x.opnd[0] = whole(p, root, from, false);
  x.opnd[1] = whole(p, root, e->home, true);
  push(run, out, &x);
  return NMB_OK;
}

nmb_status
nmb_kernel_seconds(nmb_run *run, const nmb_prog *p, const nmb_id *op, int nop, nmb_id engine,
                   const nmb_map *map, const nmb_layout *layout, int nlayout, double *seconds)
{
  (void)map, (void)layout, (void)nlayout;
  const nmb__work w = {p, op, nop, p->op[op[0]].block, engine};
  const size_t mark = nmb__run_mark(run);
  nmb_insns list = {0};
  exec(run, &w, NMB_NONE, &list);
  *seconds = 0;
  nmb_status st = NMB_OK;
  for (int i = 0; i < list.n && st == NMB_OK; i++) {
    nmb_cost c = {0};
    st = nmb_insn_cost(run, p, &list.v[i], &c);
    *seconds += nmb_cost_seconds(&c);
  }
  nmb__run_release(run, mark);
  return st;
}

nmb_status
nmb_transfer_seconds(nmb_run *run, const nmb_prog *p, nmb_id tensor, nmb_id from, nmb_id to,
                     double *seconds)
{
  *seconds = 0;
  if (from == to)
    return NMB_OK;
  nmb_insn x = {.kind = NMB_INSN_COPY, .engine = nmb_hw_link(p->hw, from, to),
                .block = p->tensor[tensor].block, .step = NMB_NONE, .op = NMB_NONE, .nopnd = 2};
  if (x.engine == NMB_NONE)
    return nmb_fail(run, NMB_UNSUPPORTED, NMB_NOLOC, "no link from memory %s to %s",
                    p->hw->mem[from].name, p->hw->mem[to].name);
  x.opnd[0] = whole(p, tensor, from, false);
  x.opnd[1] = whole(p, tensor, to, true);
  nmb_cost c = {0};
  NMB_TRY(nmb_insn_cost(run, p, &x, &c));
  *seconds = nmb_cost_seconds(&c);
  return NMB_OK;
}

nmb_status
nmb_lower_handover(nmb_run *run, const nmb_prog *p, nmb_id block, const nmb_step *step,
                   nmb_insns *out)
{
  (void)run, (void)p, (void)block, (void)step, (void)out;
  return NMB_OK;
}

nmb_status
nmb_step_seconds(nmb_run *run, const nmb_prog *p, const nmb_step *step, double *seconds,
                 double *moves)
{
  const nmb_kernel *k = &p->kernel[step->kernel];
  *moves = 0;
  NMB_TRY(nmb_kernel_seconds(run, p, k->op, k->nop, k->engine, NULL, NULL, 0, seconds));
  *seconds /= step->nparts;
  return NMB_OK;
}
