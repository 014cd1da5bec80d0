/* SPDX-License-Identifier: GPL-3.0-or-later */
/* map-interleave: rows are dealt over channels and banks.  Reads graph, groups,
 * dispatch; writes mapping.
 *
 * The GEMV mapping of AiM and CENT (Gu et al., ASPLOS 2025): row r of a matrix
 * goes to bank r mod banks of all channels, starts a DRAM page, and one filling of
 * the global buffer serves `reuse` rows of each bank. Caches are dealt the same
 * way, each head on as many channels as keep all of them busy. */
#include "nmbench/nmb_plan.h"
#include "nmbench/nmb_plugin.h"

static nmb_status
transform(nmb_run *run, nmb_prog *p)
{
  nmb_section_begin(p, NMB_MAPPING);
  for (nmb_id k = 0; k < p->nkernel; k++) {
    nmb_map m;
    nmb_map_default(p, k, &m);
    m.reuse = nmb_opt_int(run, "reuse");
    nmb_map_add(p, &m);
  }
  nmb_resident *r;
  const int n = nmb_residents(run, p, NULL, &r);
  nmb_layout *lay = NMB_NEW(run, nmb_layout, n + 1);
  nmb_layouts_interleaved(p, r, n, nmb_opt_real(run, "waste"), lay);
  for (int i = 0; i < n; i++)
    nmb_layout_add(p, &lay[i]);
  return NMB_OK;
}

static const nmb_opt opts[] = {
    {"reuse", "int", "row", "32", "1..1024",
     "rows of a bank that share one filling of the input buffer"},
    {"waste", "ratio", "1", "0.25", "0..65536",
     "rows start a new page if that costs at most this part of their bytes"},
    {0},
};

NMB_PLUGIN
{
    NMB_PLUGIN_HEAD,
    .kind = "map",
    .name = "map-interleave",
    .version = "1",
    .summary = "rows dealt over all channels and banks, buffer reused",
    .source = "gu2025cent he2020newton",
    .limits = "one rule for all shapes; looks at no costs",
    .opts = opts,
    .reads = NMB_BIT(NMB_GRAPH) | NMB_BIT(NMB_GROUPS) | NMB_BIT(NMB_DISPATCH),
    .writes = NMB_BIT(NMB_MAPPING),
    .transform = transform,
};
