/* SPDX-License-Identifier: GPL-3.0-or-later */
/* sched-inorder: kernels one after another in program order.  The baseline of all
 * schedules.  Reads graph, groups, dispatch, mapping; writes schedule. */
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
    NMB_TRY(nmb_schedule_serial(run, p, step, n, &seconds));
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
  .name = "sched-inorder",
  .version = "1",
  .summary = "kernels in program order",
  .source = "baseline",
  .limits = "reorders nothing; engines overlap only where program order lets them",
  .reads = NMB_BIT(NMB_GRAPH) | NMB_BIT(NMB_GROUPS) | NMB_BIT(NMB_DISPATCH) | NMB_BIT(NMB_MAPPING),
  .writes = NMB_BIT(NMB_SCHEDULE),
  .transform = transform,
};
