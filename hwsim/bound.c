/* SPDX-License-Identifier: GPL-3.0-or-later */
/* bound: the least time that the emitted instructions can take in any order.
 * Per block the largest of: the busiest engine, the busiest memory interface,
 * the longest chain of dependences; blocks follow each other.  No other
 * simulator may report less.  Reads all; writes nothing. */
#include "nmbench/nmb_sim.h"

static nmb_status
evaluate(nmb_run *run, const nmb_prog *p)
{
  nmb_cost *cost;
  double total = 0, engine = 0, memory = 0, chain = 0;
  NMB_TRY(nmb_sim_costs_at(run, p, nmb_sim_fidelity(run), &cost));
  if (!nmb_opt_bool(run, "transfers"))
    nmb_sim_skip_transfers(p, cost);
  for (int b = 0; b < p->nblock; b++) {
    nmb_bound k;
    NMB_TRY(nmb_sim_bound(run, p, b, cost, &k));
    const double repeat = (double)p->block[b].repeat;
    double most = k.engine > k.memory ? k.engine : k.memory;
    most = k.chain > most ? k.chain : most;
    total += repeat * most;
    engine += repeat * k.engine;
    memory += repeat * k.memory;
    chain += repeat * k.chain;
  }
  nmb_emit(run, "bound", total);
  nmb_emit(run, "bound_engine", engine);
  nmb_emit(run, "bound_memory", memory);
  nmb_emit(run, "bound_chain", chain);
  return NMB_OK;
}

static const nmb_metric metrics[] = {
    {"bound", "s", "less", "least time of a step"},
    {"bound_engine", "s", "less", "busiest engine, or channel of an engine in memory"},
    {"bound_memory", "s", "less", "busiest memory interface"},
    {"bound_chain", "s", "less", "longest chain of dependences"},
    {0}};

static const nmb_opt opts[] = {NMB_OPT_FIDELITY, NMB_OPT_TRANSFERS, {0}};

NMB_PLUGIN
{
    NMB_PLUGIN_HEAD,
    .kind = "simulator",
    .name = "bound",
    .version = "1",
    .summary = "the least time the instructions can take",
    .source = "williams2009roofline; graham1969bounds",
    .limits = "takes the instructions as they are: another plan may have another bound; "
              "dependences "
              "through memory count only where regions match",
    .opts = opts,
    .metrics = metrics,
    .reads = NMB_ALL,
    .evaluate = evaluate,
};
