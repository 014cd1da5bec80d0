/* SPDX-License-Identifier: GPL-3.0-or-later */
/* fuse-dp: the best cut of a block into kernels of consecutive ops.  Reads graph;
 * writes groups.
 *
 * Dynamic programming over kernels as Jangda and Bondhugula, PPoPP 2018, do it for
 * image pipelines, restricted to one linear order, which makes it the partition of
 * an interval (Jackson et al., 2005):
 *     best[i] = min over j of best[j] + seconds(ops j..i-1 as one kernel)
 * with at most max-ops ops a kernel: n * max-ops estimates.  The order is a
 * topological one that follows chains: after an op comes, if it can, a user of its
 * result.  Groups of consecutive ops of a topological order always form a DAG. */
#include <math.h>

#include "nmbench/nmb_plan.h"
#include "nmbench/nmb_plugin.h"

/* Is everything that op i needs placed already? */
static bool
ready(const nmb_grouping *g, const bool *placed, int i)
{
  for (int j = g->in_first[i]; j < g->in_first[i + 1]; j++)
    if (!placed[g->in[j]])
      return false;
  return !placed[i];
}

/* The latest placed op with a user that is ready gives the next one. */
static int
next_op(const nmb_grouping *g, const bool *placed, const int *order, int n)
{
  for (int back = n - 1; back >= 0; back--)
    for (int j = g->user_first[order[back]]; j < g->user_first[order[back] + 1]; j++)
      if (ready(g, placed, g->user[j]))
        return g->user[j];
  for (int i = 0; i < g->nop; i++)
    if (ready(g, placed, i))
      return i;
  return NMB_NONE;
}

static void
chain_order(nmb_run *run, const nmb_grouping *g, int *order)
{
  bool *placed = NMB_NEW(run, bool, g->nop + 1);
  for (int n = 0; n < g->nop; n++) {
    order[n] = next_op(g, placed, order, n);
    placed[order[n]] = true;
  }
}

/* Ops order[from..to) in execution order. */
static int
segment(const nmb_prog *p, nmb_id block, const int *order, int from, int to, nmb_id *op)
{
  int n = 0;
  for (int i = from; i < to; i++) {
    const nmb_id one = p->block[block].op[order[i]];
    int at = n++;
    for (; at > 0 && op[at - 1] > one; at--)
      op[at] = op[at - 1];
    op[at] = one;
  }
  return n;
}

static nmb_status
block(nmb_run *run, nmb_prog *p, nmb_id b, int *estimates)
{
  const int max_ops = (int)nmb_opt_int(run, "max-ops");
  nmb_grouping g;
  nmb_grouping_init(run, p, b, &g);
  int *order = NMB_NEW(run, int, g.nop + 1);
  int *from = NMB_NEW(run, int, g.nop + 1);
  double *best = NMB_NEW(run, double, g.nop + 1);
  nmb_id *op = NMB_NEW(run, nmb_id, g.nop + 1);
  chain_order(run, &g, order);
  for (int i = 1; i <= g.nop; i++) {
    best[i] = INFINITY;
    for (int j = i - 1; j >= 0 && i - j <= max_ops; j--) {
      double s = 0;
      NMB_TRY(nmb_best_seconds(run, p, op, segment(p, b, order, j, i, op), NULL, &s));
      ++*estimates;
      if (best[j] + s < best[i]) {
        best[i] = best[j] + s;
        from[i] = j;
      }
    }
    if (isinf(best[i]))
      return nmb_fail(run, NMB_UNSUPPORTED, p->op[p->block[b].op[order[i - 1]]].loc,
                      "no engine of %s runs %s", p->hw->name,
                      nmb_op_get(p->op[p->block[b].op[order[i - 1]]].code)->name);
  }
  for (int i = g.nop; i > 0; i = from[i])
    for (int j = from[i]; j < i; j++)
      nmb_grouping_merge(&g, g.group[order[from[i]]], g.group[order[j]]);
  nmb_grouping_write(run, p, &g);
  return NMB_OK;
}

static nmb_status
transform(nmb_run *run, nmb_prog *p)
{
  return nmb_grouping_blocks(run, p, block);
}

static const nmb_opt opts[] = {
    {"max-ops", "int", "op", "8", "1..64", "most ops in a kernel"},
    {0},
};

NMB_PLUGIN
{
    NMB_PLUGIN_HEAD,
    .kind = "fuse",
    .name = "fuse-dp",
    .version = "1",
    .summary = "optimal cut of a linear order of ops into kernels",
    .source = "jangda2018fusion jackson2005partition",
    .limits = "optimal for one order of ops only; transfers between engines are not seen",
    .opts = opts,
    .reads = NMB_BIT(NMB_GRAPH),
    .writes = NMB_BIT(NMB_GROUPS),
    .transform = transform,
};
