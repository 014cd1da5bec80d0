/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Verifier of the sections groups and dispatch. */
#include <inttypes.h>

#include "ir/verify.h"
#include "nmbench/nmb_plan.h"

/* ------------------------------------------------------------------- groups */
/* Where each op stands: its place in its block and its kernel. */
typedef struct places {
  int *at;
  nmb_id *kernel;
} places;

static nmb_status
check_kernel(nmb_run *run, const nmb_prog *p, nmb_id id, places *w)
{
  const nmb_kernel *k = &p->kernel[id];
  if (k->block < 0 || k->block >= p->nblock || k->nop < 1)
    return nmb_fail(run, NMB_UNVERIFIED, NMB_NOLOC,
                    "kernel %d has %d ops in block %d of %d, expected at least 1",
                    (int)id, k->nop, (int)k->block, p->nblock);
  for (int i = 0; i < k->nop; i++) {
    const nmb_id op = k->op[i];
    if (op < 0 || op >= p->nop || nmb_op_erased(p, op))
      return nmb_fail(run, NMB_UNVERIFIED, NMB_NOLOC,
                      "kernel %d holds op %d, but the graph has %d ops", (int)id, (int)op,
                      p->nop);
    if (p->op[op].block != k->block)
      return nmb_fail(run, NMB_UNVERIFIED, p->op[op].loc,
                      "kernel %d of block %s holds an op of another: %s", (int)id,
                      p->block[k->block].name, nmb__op_text(run, p, op));
    if (w->kernel[op] != NMB_NONE)
      return nmb_fail(run, NMB_UNVERIFIED, p->op[op].loc,
                      "%s is in kernel %d and in kernel %d", nmb__op_text(run, p, op),
                      (int)w->kernel[op], (int)id);
    w->kernel[op] = id;
    if (i > 0 && w->at[op] <= w->at[k->op[i - 1]])
      return nmb_fail(run, NMB_UNVERIFIED, p->op[op].loc,
                      "kernel %d: %s stands after an op that the block runs later",
                      (int)id, nmb__op_text(run, p, op));
  }
  return NMB_OK;
}

/* Numbers that follow a topological order leave no room for a cycle. */
static nmb_status
check_edges(nmb_run *run, const nmb_prog *p, const places *w)
{
  for (nmb_id id = 0; id < p->nop; id++)
    for (int j = 0; j < p->op[id].nin && w->kernel[id] != NMB_NONE; j++) {
      const nmb_id def = p->tensor[p->op[id].in[j]].def;
      if (def != NMB_NONE && w->kernel[def] > w->kernel[id])
        return nmb_fail(
            run, NMB_UNVERIFIED, p->op[id].loc,
            "kernel %d takes %%%s of block %s from kernel %d, which comes after it",
            (int)w->kernel[id], p->tensor[p->op[id].in[j]].name,
            p->block[p->op[id].block].name, (int)w->kernel[def]);
    }
  return NMB_OK;
}

static nmb_status
check_legal(nmb_run *run, const nmb_prog *p, nmb_id id)
{
  const nmb_kernel *k = &p->kernel[id];
  if (nmb_engines_legal(p, k->op, k->nop) != 0)
    return NMB_OK;
  const char *why = "";
  (void)nmb_fuse_legal(p, p->hw->host, k->op, k->nop, &why);
  return nmb_fail(run, NMB_UNVERIFIED, p->op[k->op[0]].loc,
                  "no engine of %s can run the %d ops of %s as one kernel; %s: %s",
                  p->hw->name, k->nop, nmb__kernel_text(run, p, id),
                  p->hw->engine[p->hw->host].name, why);
}

nmb_status
nmb__verify_groups(nmb_run *run, const nmb_prog *p)
{
  places w = {NMB_NEW(run, int, p->nop), NMB_NEW(run, nmb_id, p->nop)};
  for (int i = 0; i < p->nop; i++)
    w.kernel[i] = NMB_NONE;
  for (int b = 0; b < p->nblock; b++)
    for (int i = 0; i < p->block[b].nop; i++)
      w.at[p->block[b].op[i]] = i;
  for (int i = 0; i < p->nkernel; i++)
    NMB_TRY(check_kernel(run, p, i, &w));
  for (int i = 0; i < p->nop; i++)
    if (w.kernel[i] == NMB_NONE && !nmb_op_erased(p, i))
      return nmb_fail(run, NMB_UNVERIFIED, p->op[i].loc, "%s is in no kernel",
                      nmb__op_text(run, p, i));
  NMB_TRY(check_edges(run, p, &w));
  for (int i = 0; i < p->nkernel && p->hw; i++)
    NMB_TRY(check_legal(run, p, i));
  return NMB_OK;
}

/* ----------------------------------------------------------------- dispatch */
static nmb_status
check_engine(nmb_run *run, const nmb_prog *p, nmb_id id)
{
  const nmb_kernel *k = &p->kernel[id];
  if (k->engine < 0 || k->engine >= p->hw->nengine)
    return nmb_fail(run, NMB_UNVERIFIED, NMB_NOLOC, "%s has engine %d, but %s has %d",
                    nmb__kernel_text(run, p, id), (int)k->engine, p->hw->name,
                    p->hw->nengine);
  const nmb_engine *e = &p->hw->engine[k->engine];
  if (nmb_engine_is_link(e))
    return nmb_fail(run, NMB_UNVERIFIED, NMB_NOLOC, "%s is on link %s, which runs no ops",
                    nmb__kernel_text(run, p, id), e->name);
  for (int i = 0; i < k->nop; i++)
    if (!nmb_engine_can(p, k->engine, k->op[i]))
      return nmb_fail(run, NMB_UNVERIFIED, p->op[k->op[i]].loc,
                      "%s is on engine %s, which cannot run it in these formats",
                      nmb__op_text(run, p, k->op[i]), e->name);
  const char *why = "";
  if (!nmb_fuse_legal(p, k->engine, k->op, k->nop, &why))
    return nmb_fail(run, NMB_UNVERIFIED, NMB_NOLOC,
                    "%s cannot be one kernel on engine %s: %s",
                    nmb__kernel_text(run, p, id), e->name, why);
  return NMB_OK;
}

nmb_status
nmb__verify_dispatch(nmb_run *run, const nmb_prog *p)
{
  if (!p->hw)
    return nmb_fail(run, NMB_UNVERIFIED, NMB_NOLOC,
                    "section dispatch is there, but no machine is set");
  for (int i = 0; i < p->nkernel; i++)
    NMB_TRY(check_engine(run, p, i));
  return NMB_OK;
}
