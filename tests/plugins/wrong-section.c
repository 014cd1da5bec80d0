/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A fuse pass that also adds an op to the graph, which it does not declare. */
#include "nmbench/nmb_plugin.h"

static nmb_status
transform(nmb_run *run, nmb_prog *p)
{
  (void)run;
  nmb_section_begin(p, NMB_GROUPS);
  for (int b = 0; b < p->nblock; b++)
    for (int i = 0; i < p->block[b].nop; i++)
      nmb_kernel_add(p, b, &p->block[b].op[i], 1);
  nmb_op_attr_set(p, 0, NMB_INT("planted", 1));
  return NMB_OK;
}

NMB_PLUGIN
{
    NMB_PLUGIN_HEAD,
    .kind = "fuse",
    .name = "wrong-section",
    .version = "1",
    .summary = "changes the graph behind the back of the host",
    .source = "test",
    .limits = "for tests only",
    .reads = NMB_BIT(NMB_GRAPH),
    .writes = NMB_BIT(NMB_GROUPS),
    .transform = transform,
};
