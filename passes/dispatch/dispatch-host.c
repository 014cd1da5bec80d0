/* SPDX-License-Identifier: GPL-3.0-or-later */
/* dispatch-host: every kernel on the host engine, the one that can run every op.
 * The baseline of all dispatch.  Reads graph, groups; writes dispatch. */
#include <math.h>

#include "nmbench/nmb_plan.h"
#include "nmbench/nmb_plugin.h"

static nmb_status
transform(nmb_run *run, nmb_prog *p)
{
  const int ne = p->hw->nengine;
  nmb_id *engine = NMB_NEW(run, nmb_id, p->nkernel + 1);
  double *penalty = NMB_NEW(run, double, p->nkernel *ne + 1);
  for (nmb_id k = 0; k < p->nkernel; k++) {
    const char *why = "";
    if (!nmb_fuse_legal(p, p->hw->host, p->kernel[k].op, p->kernel[k].nop, &why))
      return nmb_fail(run, NMB_UNSUPPORTED, p->op[p->kernel[k].op[0]].loc,
                      "kernel %d cannot run on engine %s: %s", (int)k,
                      p->hw->engine[p->hw->host].name, why);
    engine[k] = p->hw->host;
    for (nmb_id e = 0; e < ne; e++)
      penalty[k * ne + e] = e == p->hw->host ? 0 : INFINITY;
  }
  NMB_TRY(nmb_dispatch_fit(run, p, penalty, 0, engine)); /* no place to go: fits or not */
  nmb_section_begin(p, NMB_DISPATCH);
  for (nmb_id k = 0; k < p->nkernel; k++)
    nmb_dispatch_set(p, k, engine[k]);
  return NMB_OK;
}

NMB_PLUGIN
{
    NMB_PLUGIN_HEAD,
    .kind = "dispatch",
    .name = "dispatch-host",
    .version = "1",
    .summary = "every kernel on the host engine",
    .source = "baseline",
    .limits = "uses no in-memory engine",
    .reads = NMB_BIT(NMB_GRAPH) | NMB_BIT(NMB_GROUPS),
    .writes = NMB_BIT(NMB_DISPATCH),
    .transform = transform,
};
