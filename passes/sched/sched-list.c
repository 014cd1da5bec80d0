/* SPDX-License-Identifier: GPL-3.0-or-later */
/* sched-list: kernels by the length of the way that is left after them, as HEFT ranks
 * tasks (Topcuoglu et al., TPDS 2002).  Reads graph, groups, dispatch, mapping; writes schedule. */
#include "nmbench/nmb_plan.h"
#include "nmbench/nmb_plugin.h"

static nmb_status
transform(nmb_run *run, nmb_prog *p)
{
  return nmb_schedule_blocks(run, p, nmb_schedule_list);
}

NMB_PLUGIN {
  NMB_PLUGIN_HEAD,
  .kind = "sched",
  .name = "sched-list",
  .version = "1",
  .summary = "list scheduling, longest way to the end of the block first",
  .source = "topcuoglu2002heft",
  .limits = "engines are chosen by dispatch, not here; idle gaps are not filled afterwards; blocks do not overlap",
  .reads = NMB_BIT(NMB_GRAPH) | NMB_BIT(NMB_GROUPS) | NMB_BIT(NMB_DISPATCH) | NMB_BIT(NMB_MAPPING),
  .writes = NMB_BIT(NMB_SCHEDULE),
  .transform = transform,
};
