/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A second plugin of a name that is taken. */
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
    .name = "fuse-none",
    .version = "1",
    .summary = "pretends to be another",
    .source = "test",
    .limits = "for tests only",
    .reads = NMB_BIT(NMB_GRAPH),
    .writes = NMB_BIT(NMB_GROUPS),
    .transform = transform,
};
