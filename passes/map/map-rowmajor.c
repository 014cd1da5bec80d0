/* SPDX-License-Identifier: GPL-3.0-or-later */
/* map-rowmajor: matrices lie in banks as they come.  Reads graph, groups,
 * dispatch; writes mapping.
 *
 * The baseline: rows of a matrix fill one bank, then the next, packed, as a plain
 * copy of the row-major array does; an expert or a head lies on the channels that
 * its rows happen to fall on; the input buffer is filled anew for every row. */
#include "nmbench/nmb_plan.h"
#include "nmbench/nmb_plugin.h"

static nmb_status
transform(nmb_run *run, nmb_prog *p)
{
  nmb_section_begin(p, NMB_MAPPING);
  for (nmb_id k = 0; k < p->nkernel; k++) {
    nmb_map m;
    nmb_map_default(p, k, &m);
    m.reuse = 1;
    nmb_map_add(p, &m);
  }
  nmb_resident *r;
  const int n = nmb_residents(run, p, NULL, &r);
  for (int i = 0; i < n; i++) {
    const int64_t units = nmb_layout_units(&p->tensor[r[i].tensor]);
    const int all = p->hw->mem[r[i].mem].channels;
    const int channels = units >= all ? 1 : (int)(all / units);
    nmb_layout l;
    nmb_layout_make(p, r[i].tensor, r[i].mem,
                    r[i].in_memory ? NMB_LAY_BLOCKED : NMB_LAY_LINEAR, channels, false,
                    &l);
    nmb_layout_add(p, &l);
  }
  return NMB_OK;
}

NMB_PLUGIN
{
    NMB_PLUGIN_HEAD,
    .kind = "map",
    .name = "map-rowmajor",
    .version = "1",
    .summary = "rows fill one bank after the other; no buffer reuse",
    .source = "baseline",
    .limits = "knows neither channels nor pages",
    .reads = NMB_BIT(NMB_GRAPH) | NMB_BIT(NMB_GROUPS) | NMB_BIT(NMB_DISPATCH),
    .writes = NMB_BIT(NMB_MAPPING),
    .transform = transform,
};
