/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A fuse pass that never comes back. */
#include "nmbench/nmb_plugin.h"

static nmb_status
transform(nmb_run *run, nmb_prog *p)
{
  volatile uint64_t turns = 0;
  while (p)
    turns++;
  nmb_stat(run, "turns", (double)turns);
  return NMB_OK;
}

NMB_PLUGIN
{
    NMB_PLUGIN_HEAD,
    .kind = "fuse",
    .name = "endless-loop",
    .version = "1",
    .summary = "never comes back",
    .source = "test",
    .limits = "for tests only",
    .reads = NMB_BIT(NMB_GRAPH),
    .writes = NMB_BIT(NMB_GROUPS),
    .transform = transform,
};
