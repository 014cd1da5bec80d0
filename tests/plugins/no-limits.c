/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A plugin that does not say what it leaves out. */
#include "nmbench/nmb_plugin.h"

static nmb_status
transform(nmb_run *run, nmb_prog *p)
{
  (void)run;
  nmb_section_begin(p, NMB_GROUPS);
  return NMB_OK;
}

NMB_PLUGIN
{
    NMB_PLUGIN_HEAD,
    .kind = "fuse",
    .name = "no-limits",
    .version = "1",
    .summary = "has no limits",
    .source = "test",
    .limits = "",
    .reads = NMB_BIT(NMB_GRAPH),
    .writes = NMB_BIT(NMB_GROUPS),
    .transform = transform,
};
