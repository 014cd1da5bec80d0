/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Verifier: runs the check of each section asked for, in the order of the text. */
#include "ir/verify.h"

const char *
nmb__op_text(nmb_run *run, const nmb_prog *p, nmb_id op)
{
  const nmb_op *o = &p->op[op];
  return nmb_format(run, "block %s, %s %%%s", p->block[o->block].name,
                    nmb_op_get(o->code)->name, p->tensor[o->out[0]].name);
}

const char *
nmb__kernel_text(nmb_run *run, const nmb_prog *p, nmb_id kernel)
{
  const nmb_kernel *k = &p->kernel[kernel];
  if (k->nop < 1)
    return nmb_format(run, "kernel %d", (int)kernel);
  return nmb_format(run, "kernel %d (block %s, %%%s)", (int)kernel,
                    p->block[k->block].name, p->tensor[p->op[k->op[0]].out[0]].name);
}

nmb_status
nmb_prog_verify(nmb_run *run, const nmb_prog *p, nmb_bits sections)
{
  static nmb_status (*const check[NMB_NSECTION])(nmb_run *, const nmb_prog *) = {
      [NMB_GRAPH] = nmb__verify_graph,       [NMB_GROUPS] = nmb__verify_groups,
      [NMB_DISPATCH] = nmb__verify_dispatch, [NMB_MAPPING] = nmb__verify_mapping,
      [NMB_SCHEDULE] = nmb__verify_schedule, [NMB_MEMORY] = nmb__verify_memory,
      [NMB_CODE] = nmb__verify_code,
  };
  for (int s = 0; s < NMB_NSECTION; s++)
    if ((p->present & sections & NMB_BIT(s)) && check[s])
      NMB_TRY(check[s](run, p));
  return NMB_OK;
}
