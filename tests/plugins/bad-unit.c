/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A simulator with a metric in a unit that does not exist. */
#include "nmbench/nmb_plugin.h"

static nmb_status
evaluate(nmb_run *run, const nmb_prog *p)
{
  (void)p;
  nmb_emit(run, "length", 1);
  return NMB_OK;
}

static const nmb_metric metrics[] = {{"length", "furlong", "less", "a length"},
                                     {NULL, NULL, NULL, NULL}};

NMB_PLUGIN
{
    NMB_PLUGIN_HEAD,
    .kind = "simulator",
    .name = "bad-unit",
    .version = "1",
    .summary = "measures in furlongs",
    .source = "test",
    .limits = "for tests only",
    .reads = NMB_BIT(NMB_GRAPH),
    .metrics = metrics,
    .evaluate = evaluate,
};
