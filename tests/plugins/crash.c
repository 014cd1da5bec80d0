/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A fuse pass that dies of a bad address. */
#include <signal.h>

#include "nmbench/nmb_plugin.h"

static nmb_status
transform(nmb_run *run, nmb_prog *p)
{
  (void)run;
  (void)p;
  raise(SIGSEGV);
  return NMB_OK;
}

NMB_PLUGIN
{
    NMB_PLUGIN_HEAD,
    .kind = "fuse",
    .name = "crash",
    .version = "1",
    .summary = "dies of a bad address",
    .source = "test",
    .limits = "for tests only",
    .reads = NMB_BIT(NMB_GRAPH),
    .writes = NMB_BIT(NMB_GROUPS),
    .transform = transform,
};
