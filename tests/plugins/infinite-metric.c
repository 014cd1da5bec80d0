/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A simulator that divides by zero. */
#include <math.h>

#include "nmbench/nmb_plugin.h"

static nmb_status
evaluate(nmb_run *run, const nmb_prog *p)
{
  (void)p;
  nmb_emit(run, "latency", INFINITY);
  return NMB_OK;
}

static const nmb_metric metrics[] = {{"latency", "s", "less", "time of the step"},
                                     {NULL, NULL, NULL, NULL}};

NMB_PLUGIN
{
    NMB_PLUGIN_HEAD,
    .kind = "simulator",
    .name = "infinite-metric",
    .version = "1",
    .summary = "gives an infinite time",
    .source = "test",
    .limits = "for tests only",
    .reads = NMB_BIT(NMB_GRAPH),
    .metrics = metrics,
    .evaluate = evaluate,
};
