/* SPDX-License-Identifier: GPL-3.0-or-later */
/* sched-inorder: kernels one after another in program order.  The baseline of all
 * schedules.  Reads graph, groups, dispatch, mapping; writes schedule. */
#include "nmbench/nmb_plan.h"
#include "nmbench/nmb_plugin.h"

static nmb_status
transform(nmb_run *run, nmb_prog *p)
{
  return nmb_schedule_blocks(run, p, nmb_schedule_serial);
}

NMB_PLUGIN {
  NMB_PLUGIN_HEAD,
  .kind = "sched",
  .name = "sched-inorder",
  .version = "1",
  .summary = "kernels in program order",
  .source = "baseline",
  .limits = "reorders nothing; engines overlap only where program order lets them",
  .reads = NMB_BIT(NMB_GRAPH) | NMB_BIT(NMB_GROUPS) | NMB_BIT(NMB_DISPATCH) | NMB_BIT(NMB_MAPPING),
  .writes = NMB_BIT(NMB_SCHEDULE),
  .transform = transform,
};
