/* SPDX-License-Identifier: GPL-3.0-or-later */
/* mem-firstfit: buffers in order of first use, each at the lowest address that is
 * free while it lives, as a free list would give it.  Reads all sections before it;
 * writes memory. */
#include "nmbench/nmb_plan.h"
#include "nmbench/nmb_plugin.h"

static bool
earlier(const nmb_slot *a, const nmb_slot *b)
{
  return a->first < b->first;
}

static nmb_status
transform(nmb_run *run, nmb_prog *p)
{
  return nmb_slots_place(run, p, earlier, false);
}

NMB_PLUGIN {
  NMB_PLUGIN_HEAD,
  .kind = "mem",
  .name = "mem-firstfit",
  .version = "1",
  .summary = "in order of first use, the lowest free address",
  .source = "knuth1997art1",
  .limits = "no buffer moves or is split; the order is not searched",
  .reads = NMB_ALL & ~(NMB_BIT(NMB_MEMORY) | NMB_BIT(NMB_CODE)),
  .writes = NMB_BIT(NMB_MEMORY),
  .transform = transform,
};
