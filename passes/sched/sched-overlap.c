/* SPDX-License-Identifier: GPL-3.0-or-later */
/* sched-overlap: parts of kernels, so that engines work side by side.
 *
 *   batch  sub-batch interleaving as in NeuPIMs (Heo et al., ASPLOS 2024): kernels are
 *          cut into `parts` groups of sequences, so that the products of one run on
 *          the processor while the attention of another runs in memory.  Weights are
 *          read again for each part.  Not below `min-batch` sequences.
 *   head   head-level pipelining as in AttAcc (Park et al., ASPLOS 2024): queries, keys
 *          and values of one group of heads are made while attention of the group
 *          before it runs.
 * Only runs of consecutive kernels that hold attention and another engine's work are
 * cut: a kernel alone on one engine gains nothing and would read its weights twice.
 * auto takes for each block what is estimated to be least, cut or not.  Parts are
 * ordered by list scheduling.
 *
 * Reads graph, groups, dispatch, mapping; writes schedule. */
#include <string.h>

#include "nmbench/nmb_plan.h"
#include "nmbench/nmb_plugin.h"

static bool
has_op(const nmb_prog *p, const nmb_kernel *k, nmb_opcode code)
{
  for (int i = 0; i < k->nop; i++)
    if (p->op[k->op[i]].code == code)
      return true;
  return false;
}

static bool
attends(const nmb_prog *p, const nmb_kernel *k)
{
  return has_op(p, k, NMB_OP_QK) || has_op(p, k, NMB_OP_SOFTMAX) || has_op(p, k, NMB_OP_PV);
}

static bool
can_cut(const nmb_prog *p, nmb_id kernel, nmb_axis axis, int parts)
{
  const int64_t extent = nmb_kernel_extent(p, kernel, axis);
  return extent >= parts && extent % parts == 0;
}

/* Marks the kernels to cut: those that can be, joined through others that can be to
 * a kernel of attention.  False if all of them are on one engine. */
static bool
choose(nmb_run *run, const nmb_prog *p, nmb_id block, nmb_axis axis, int parts, bool *cut)
{
  bool *able = NMB_NEW(run, bool, p->nkernel);
  memset(cut, 0, (size_t)p->nkernel * sizeof *cut);
  for (int k = 0; k < p->nkernel; k++) {
    able[k] = p->kernel[k].block == block && can_cut(p, k, axis, parts);
    cut[k] = able[k] && attends(p, &p->kernel[k]);
  }
  for (bool more = true; more;) {
    more = false;
    for (int a = 0; a < p->nkernel; a++)
      for (int b = a + 1; b < p->nkernel; b++)
        if (able[a] && able[b] && cut[a] != cut[b] && nmb_step_depends(p, a, b))
          cut[a] = cut[b] = more = true;
  }
  uint64_t engines = 0;
  for (int k = 0; k < p->nkernel; k++)
    if (cut[k])
      engines |= UINT64_C(1) << (unsigned)p->kernel[k].engine;
  return (engines & (engines - 1)) != 0;
}

static int
make_parts(nmb_run *run, const nmb_prog *p, nmb_id block, nmb_axis axis, int parts,
           const bool *cut, nmb_step **out)
{
  int n = 0;
  *out = NMB_NEW(run, nmb_step, (size_t)p->nkernel * (size_t)parts);
  for (int k = 0; k < p->nkernel; k++)
    if (p->kernel[k].block == block)
      for (int i = 0; i < (cut[k] ? parts : 1); i++)
        (*out)[n++] = (nmb_step){.kernel = k, .axis = cut[k] ? axis : NMB_AXIS_NONE, .part = i,
                                 .nparts = cut[k] ? parts : 1};
  return n;
}

typedef struct plan {
  nmb_step *step;
  int n;
  double seconds;
  nmb_axis axis;
} plan;

/* Keeps the plan cut along `axis` if there is one and it is faster, or forced. */
static nmb_status
try_axis(nmb_run *run, const nmb_prog *p, nmb_id block, nmb_axis axis, int parts, bool force,
         plan *best)
{
  bool *cut = NMB_NEW(run, bool, p->nkernel + 1);
  if (parts < 2 || !choose(run, p, block, axis, parts, cut))
    return NMB_OK;
  plan t = {.axis = axis};
  t.n = make_parts(run, p, block, axis, parts, cut, &t.step);
  NMB_TRY(nmb_schedule_list(run, p, t.step, t.n, &t.seconds));
  if (force || t.seconds < best->seconds)
    *best = t;
  return NMB_OK;
}

static nmb_status
plan_block(nmb_run *run, const nmb_prog *p, nmb_id block, plan *best)
{
  const char *mode = nmb_opt_text(run, "mode");
  const int parts = (int)nmb_opt_int(run, "parts"), groups = (int)nmb_opt_int(run, "head-groups");
  const bool either = !strcmp(mode, "auto");
  *best = (plan){.axis = NMB_AXIS_NONE};
  best->n = nmb_block_steps(run, p, block, &best->step);
  NMB_TRY(nmb_schedule_list(run, p, best->step, best->n, &best->seconds));
  if ((either || !strcmp(mode, "batch")) && p->spec.batch >= nmb_opt_int(run, "min-batch"))
    NMB_TRY(try_axis(run, p, block, NMB_AXIS_BATCH, parts, !either, best));
  if (either || !strcmp(mode, "head"))
    NMB_TRY(try_axis(run, p, block, NMB_AXIS_HEAD, groups, !either, best));
  return NMB_OK;
}

static nmb_status
transform(nmb_run *run, nmb_prog *p)
{
  double sum = 0;
  int cut[3] = {0};
  nmb_section_begin(p, NMB_SCHEDULE);
  for (int b = 0; b < p->nblock; b++) {
    plan best;
    NMB_TRY(plan_block(run, p, b, &best));
    for (int i = 0; i < best.n; i++)
      nmb_step_add(p, &best.step[i]);
    cut[best.axis]++;
    sum += best.seconds * (double)p->block[b].repeat;
  }
  nmb_stat(run, "estimated seconds", sum);
  nmb_stat(run, "blocks cut by batch", cut[NMB_AXIS_BATCH]);
  nmb_stat(run, "blocks cut by head", cut[NMB_AXIS_HEAD]);
  return NMB_OK;
}

static const nmb_opt opts[] = {
    {"mode", "enum", "", "auto", "auto|batch|head|off", "how kernels are cut"},
    {"parts", "int", "", "2", "2..16", "groups of sequences"},
    {"head-groups", "int", "", "2", "2..64", "groups of KV heads"},
    {"min-batch", "int", "", "2", "2..", "fewest sequences that are cut into groups"},
    {0}};

NMB_PLUGIN {
  NMB_PLUGIN_HEAD,
  .kind = "sched",
  .name = "sched-overlap",
  .version = "1",
  .summary = "sub-batches or groups of heads, so that engines overlap",
  .source = "heo2024neupims; park2024attacc",
  .limits = "all parts are equal; experts are not cut; blocks do not overlap, so that the last part's "
            "tail is exposed in each",
  .opts = opts,
  .reads = NMB_BIT(NMB_GRAPH) | NMB_BIT(NMB_GROUPS) | NMB_BIT(NMB_DISPATCH) | NMB_BIT(NMB_MAPPING),
  .writes = NMB_BIT(NMB_SCHEDULE),
  .transform = transform,
};
