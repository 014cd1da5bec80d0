/* SPDX-License-Identifier: GPL-3.0-or-later */
/* legalize: writes composite attention as scores, softmax and weighted sum.
 * Reads and writes graph.
 *
 * Same meaning: attention is defined as these three ops, so every value of the
 * block but the two new ones (scores, probabilities) is the same number.  The
 * composite moe is left to moe-lower. */
#include "nmbench/nmb_plugin.h"

static nmb_id
unit_tensor(nmb_prog *p, const nmb_op *o, const char *name)
{
  const nmb_tensor *q = &p->tensor[o->in[0]], *k = &p->tensor[o->in[1]];
  const int64_t B = k->dim[0], nk = k->dim[2], fresh = q->dim[0] / B;
  nmb_tensor t = {.name = name,
                  .block = o->block,
                  .dtype = q->dtype,
                  .role = NMB_ROLE_ACT,
                  .rank = 3,
                  .dim = {B * nk, fresh * (q->dim[1] / nk), k->dim[1]}};
  return nmb_tensor_add(p, &t);
}

/* Gives the op those attributes of the composite that it takes. */
static void
copy_attrs(nmb_prog *p, nmb_id to, const nmb_op *from, const char *const *keys)
{
  for (; *keys; keys++)
    if (nmb_op_attr(from, *keys))
      nmb_op_attr_set(p, to, *nmb_op_attr(from, *keys));
}

static void
attention(nmb_prog *p, nmb_id id)
{
  static const char *const score_keys[] = {"new",    "scale", "window", "chunk",
                                           "causal", "cap",   "alibi",  NULL};
  static const char *const mask_keys[] = {"new", "window", "chunk", NULL};
  const nmb_op o = p->op[id]; /* the table moves as it grows */
  nmb_op qk = {.code = NMB_OP_QK,
               .block = o.block,
               .nin = 2,
               .nout = 1,
               .in = {o.in[0], o.in[1]},
               .out = {unit_tensor(p, &o, "scores")},
               .loc = o.loc};
  nmb_op sm = {.code = NMB_OP_SOFTMAX,
               .block = o.block,
               .nin = o.nin - 2,
               .nout = 1,
               .in = {qk.out[0], o.nin > 3 ? o.in[3] : NMB_NONE},
               .out = {unit_tensor(p, &o, "probs")},
               .loc = o.loc};
  nmb_op pv = {.code = NMB_OP_PV,
               .block = o.block,
               .nin = 2,
               .nout = 1,
               .in = {sm.out[0], o.in[2]},
               .out = {o.out[0]},
               .loc = o.loc};
  copy_attrs(p, nmb_op_insert(p, id, &qk), &o, score_keys);
  copy_attrs(p, nmb_op_insert(p, id, &sm), &o, mask_keys);
  nmb_op_insert(p, id, &pv);
  nmb_op_erase(p, id);
}

static nmb_status
transform(nmb_run *run, nmb_prog *p)
{
  int n = 0;
  nmb_section_begin(p, NMB_GRAPH);
  for (nmb_id id = 0, end = p->nop; id < end; id++)
    if (!nmb_op_erased(p, id) && p->op[id].code == NMB_OP_ATTENTION) {
      attention(p, id);
      n++;
    }
  nmb_stat(run, "attention ops rewritten", n);
  return NMB_OK;
}

NMB_PLUGIN
{
    NMB_PLUGIN_HEAD,
    .kind = "rewrite",
    .name = "legalize",
    .version = "1",
    .summary = "attention as scores, softmax and weighted sum",
    .source = "vaswani2017",
    .limits =
        "does not fuse: scores are written out in full unless a fuse pass joins them",
    .reads = NMB_BIT(NMB_GRAPH),
    .writes = NMB_BIT(NMB_GRAPH),
    .transform = transform,
};
