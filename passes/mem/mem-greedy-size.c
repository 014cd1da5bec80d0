/* SPDX-License-Identifier: GPL-3.0-or-later */
/* mem-greedy-size: the largest buffer first, each into the smallest gap between
 * those already placed that live with it: "Greedy by Size for Offset Calculation"
 * of Pisarchyk and Lee (MLSys 2020, arXiv:2001.03288), as in TensorFlow Lite.  Ties
 * go to the buffer that is first in the table.  Reads all sections before it; writes
 * memory. */
#include "nmbench/nmb_plan.h"
#include "nmbench/nmb_plugin.h"

static bool
larger(const nmb_slot *a, const nmb_slot *b)
{
  return a->bytes > b->bytes;
}

static nmb_status
transform(nmb_run *run, nmb_prog *p)
{
  return nmb_slots_place(run, p, larger, true);
}

NMB_PLUGIN {
  NMB_PLUGIN_HEAD,
  .kind = "mem",
  .name = "mem-greedy-size",
  .version = "1",
  .summary = "largest buffer first, into the smallest gap",
  .source = "pisarchyk2020memory",
  .limits = "no buffer moves or is split; the order is not searched",
  .reads = NMB_ALL & ~(NMB_BIT(NMB_MEMORY) | NMB_BIT(NMB_CODE)),
  .writes = NMB_BIT(NMB_MEMORY),
  .transform = transform,
};
