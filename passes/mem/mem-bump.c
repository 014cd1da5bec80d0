/* SPDX-License-Identifier: GPL-3.0-or-later */
/* mem-bump: every buffer has an address of its own.  The baseline of all memory
 * planning.  Reads all sections before it; writes memory. */
#include "nmbench/nmb_plan.h"
#include "nmbench/nmb_plugin.h"

static nmb_status
transform(nmb_run *run, nmb_prog *p)
{
  nmb_slot *slot;
  int n;
  NMB_TRY(nmb_buffers(run, p, &slot, &n));
  int64_t *end = NMB_NEW(run, int64_t, p->hw->nmem);
  bool *placed = NMB_NEW(run, bool, n + 1);
  nmb_place_fixed(p, slot, n, end, placed);
  for (int i = 0; i < n; i++)
    if (!placed[i]) {
      slot[i].offset = end[slot[i].mem];
      end[slot[i].mem] += slot[i].bytes;
    }
  return nmb_slots_write(run, p, slot, n);
}

NMB_PLUGIN {
  NMB_PLUGIN_HEAD,
  .kind = "mem",
  .name = "mem-bump",
  .version = "1",
  .summary = "every buffer has an address of its own",
  .source = "baseline",
  .limits = "reuses no memory",
  .reads = NMB_ALL & ~(NMB_BIT(NMB_MEMORY) | NMB_BIT(NMB_CODE)),
  .writes = NMB_BIT(NMB_MEMORY),
  .transform = transform,
};
