/* SPDX-License-Identifier: GPL-3.0-or-later */
/* fuse-none: every op is a kernel of its own.  The baseline of all fusion, and
 * the null pass to copy from.  Reads graph; writes groups. */
#include "nmbench/nmb_plugin.h"

static nmb_status
transform(nmb_run *run, nmb_prog *p)
{
  nmb_section_begin(p, NMB_GROUPS);
  for (int b = 0; b < p->nblock; b++)
    for (int i = 0; i < p->block[b].nop; i++)
      nmb_kernel_add(p, b, &p->block[b].op[i], 1);
  nmb_stat(run, "kernels", p->nkernel);
  return NMB_OK;
}

NMB_PLUGIN
{
    NMB_PLUGIN_HEAD,
    .kind = "fuse",
    .name = "fuse-none",
    .version = "1",
    .summary = "every op is a kernel of its own",
    .source = "baseline",
    .limits = "fuses nothing",
    .reads = NMB_BIT(NMB_GRAPH),
    .writes = NMB_BIT(NMB_GROUPS),
    .transform = transform,
};
