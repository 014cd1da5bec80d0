/* SPDX-License-Identifier: GPL-3.0-or-later */
/* fuse-epilogue: TVM's fusion rules.  Reads graph; writes groups; keeps the order
 * of ops.
 *
 * After Chen et al., OSDI 2018, section 3: ops are injective (one element in, one
 * out), reductions, complex-out-fusable (a MAC op, which can take elementwise ops
 * at its output) or opaque.  Injective ops join injective producers; a reduction
 * joins injective producers; elementwise ops join the MAC op that makes their
 * input.  As there, a value that is used outside the kernel as well stops it.
 *
 * Beyond TVM, which allows one complex op a kernel: a glu joins both linears that
 * feed it, as the hand-written fused gate/up kernels of serving engines do.
 *
 * A kernel keeps every in-memory engine that its MAC op could run on: fusing must
 * not push matrices out of the memory they should be computed in. */
#include "nmbench/nmb_plan.h"
#include "nmbench/nmb_plugin.h"

typedef enum pattern { OPAQUE, INJECTIVE, ELEMENTWISE, REDUCTION, COMPLEX } pattern;

/* rope reads two elements for one, so it is injective but no epilogue. */
static pattern
pattern_of(nmb_opcode c)
{
  switch (c) {
  case NMB_OP_LINEAR:
  case NMB_OP_HLINEAR:
  case NMB_OP_GLINEAR:
  case NMB_OP_QK:
  case NMB_OP_PV: return COMPLEX;
  case NMB_OP_ADD:
  case NMB_OP_MUL:
  case NMB_OP_ACT:
  case NMB_OP_GLU: return ELEMENTWISE;
  case NMB_OP_ROPE: return INJECTIVE;
  case NMB_OP_NORM:
  case NMB_OP_SOFTMAX:
  case NMB_OP_TOPK: return REDUCTION;
  default: return OPAQUE;
  }
}

/* The most demanding pattern of a group decides what it may still take. */
static pattern
pattern_of_group(const nmb_prog *p, const nmb_grouping *g, int group)
{
  pattern most = OPAQUE;
  for (int i = 0; i < g->nop; i++)
    if (g->group[i] == group) {
      const pattern one = pattern_of(p->op[p->block[g->block].op[i]].code);
      most = one > most ? one : most;
    }
  return most;
}

/* Is every value of group a used by a or b only? */
static bool private(const nmb_prog *p, const nmb_grouping *g, int a, int b)
{
  for (int i = 0; i < g->nop; i++) {
    if (g->group[i] != a)
      continue;
    const nmb_op *o = &p->op[p->block[g->block].op[i]];
    for (int j = 0; j < o->nout; j++)
      if (o->out[j] == p->block[g->block].out)
        return false;
    for (int j = g->user_first[i]; j < g->user_first[i + 1]; j++)
      if (g->group[g->user[j]] != a && g->group[g->user[j]] != b)
        return false;
  }
  return true;
}

static bool
rule(pattern producer, pattern consumer)
{
  switch (consumer) {
  case ELEMENTWISE: return producer != OPAQUE && producer != REDUCTION;
  case INJECTIVE:
  case REDUCTION: return producer == ELEMENTWISE || producer == INJECTIVE;
  default: return false;
  }
}

static uint64_t
in_memory_engines(const nmb_prog *p, uint64_t set)
{
  for (int e = 0; e < p->hw->nengine; e++)
    if (!p->hw->engine[e].in_memory)
      set &= ~(UINT64_C(1) << e);
  return set;
}

/* Does consumer op i join the group of its producer? */
static bool
joins(nmb_run *run, const nmb_prog *p, const nmb_grouping *g, int a, int i, nmb_id *op)
{
  const int b = g->group[i];
  if (a == b ||
      !rule(pattern_of_group(p, g, a), pattern_of(p->op[p->block[g->block].op[i]].code)))
    return false;
  if (!private(p, g, a, b) || !nmb_grouping_acyclic(run, g, a, b))
    return false;
  int n = nmb_grouping_ops(p, g, a, a, op);
  const uint64_t before = nmb_engines_legal(p, op, n);
  n = nmb_grouping_ops(p, g, a, b, op);
  const uint64_t after = nmb_engines_legal(p, op, n);
  return after && !(in_memory_engines(p, before) & ~after);
}

static nmb_status
transform(nmb_run *run, nmb_prog *p)
{
  nmb_section_begin(p, NMB_GROUPS);
  for (nmb_id b = 0; b < p->nblock; b++) {
    nmb_grouping g;
    nmb_grouping_init(run, p, b, &g);
    nmb_id *op = NMB_NEW(run, nmb_id, g.nop + 1);
    for (int i = 0; i < g.nop; i++)
      for (int j = g.in_first[i]; j < g.in_first[i + 1]; j++) {
        const int a = g.group[g.in[j]];
        if (joins(run, p, &g, a, i, op))
          nmb_grouping_merge(&g, a, g.group[i]);
      }
    nmb_grouping_write(run, p, &g);
  }
  nmb_stat(run, "ops", p->nop);
  nmb_stat(run, "kernels", p->nkernel);
  return NMB_OK;
}

NMB_PLUGIN
{
    NMB_PLUGIN_HEAD,
    .kind = "fuse",
    .name = "fuse-epilogue",
    .version = "1",
    .summary = "elementwise ops join the op that makes their input, as in TVM",
    .source = "chen2018tvm",
    .limits = "by rule, with no look at costs; attention, rope after a linear and values "
              "with a second user stay unfused",
    .reads = NMB_BIT(NMB_GRAPH),
    .writes = NMB_BIT(NMB_GROUPS),
    .transform = transform,
};
