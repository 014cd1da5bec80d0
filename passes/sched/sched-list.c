/* SPDX-License-Identifier: GPL-3.0-or-later */
/* sched-list: kernels by the length of the way that is left after them, as HEFT ranks
 * tasks (Topcuoglu et al., TPDS 2002).  Reads graph, groups, dispatch, mapping; writes schedule. */
#include "nmbench/nmb_plan.h"
#include "nmbench/nmb_plugin.h"

static nmb_status
transform(nmb_run *run, nmb_prog *p)
{
  double sum = 0;
  nmb_section_begin(p, NMB_SCHEDULE);
  for (int b = 0; b < p->nblock; b++) {
    nmb_step *step;
    double seconds;
    const int n = nmb_block_steps(run, p, b, &step);
    NMB_TRY(nmb_schedule_list(run, p, step, n, &seconds));
    for (int i = 0; i < n; i++)
      nmb_step_add(p, &step[i]);
    sum += seconds * (double)p->block[b].repeat;
  }
  nmb_stat(run, "estimated seconds", sum);
  return NMB_OK;
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
