/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A fuse pass that takes all memory there is. */
#include "nmbench/nmb_plugin.h"

static nmb_status
transform(nmb_run *run, nmb_prog *p)
{
  char *block = nmb_alloc(run, 1, 1);
  while (p)
    block = nmb_alloc(run, (size_t)1 << 20, 16);
  nmb_stat(run, "last byte", block[0]);
  return NMB_OK;
}

NMB_PLUGIN
{
    NMB_PLUGIN_HEAD,
    .kind = "fuse",
    .name = "memory-hog",
    .version = "1",
    .summary = "takes all memory",
    .source = "test",
    .limits = "for tests only",
    .reads = NMB_BIT(NMB_GRAPH),
    .writes = NMB_BIT(NMB_GROUPS),
    .transform = transform,
};
