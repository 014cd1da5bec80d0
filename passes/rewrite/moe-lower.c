/* SPDX-License-Identifier: GPL-3.0-or-later */
/* moe-lower: routed experts as grouped linears over rows in expert order.
 * Reads and writes graph.
 *
 * Same meaning: permute copies each token's row once for each expert it reaches,
 * the grouped linears give each row the weights of its expert, and combine adds
 * the rows of a token with the router's weights (which weigh=input has before).  Only the order in which the
 * topk rows of a token are added may differ, and it is that of the choice.
 * Experts that no token reaches take no part: glinear skips them. */
#include <string.h>

#include "nmbench/nmb_plugin.h"

static nmb_id
rows_tensor(nmb_prog *p, nmb_id like, const char *name, int64_t rows, int64_t cols)
{
  const nmb_tensor *x = &p->tensor[like];
  nmb_tensor t = {.name = name,
                  .block = x->block,
                  .dtype = x->dtype,
                  .group = x->group,
                  .role = NMB_ROLE_ACT,
                  .rank = 2,
                  .dim = {rows, cols}};
  return nmb_tensor_add(p, &t);
}

static nmb_id
insert(nmb_prog *p, nmb_id moe, nmb_opcode code, int nin, const nmb_id *in, nmb_id out)
{
  const nmb_op *o = &p->op[moe];
  nmb_op op = {.code = code, .block = o->block, .nout = 1, .out = {out}, .loc = o->loc};
  for (int i = 0; i < nin; i++)
    if (in[i] != NMB_NONE)
      op.in[op.nin++] = in[i];
  return nmb_op_insert(p, moe, &op);
}

static nmb_id
grouped(nmb_prog *p, nmb_id moe, const char *name, nmb_id x, nmb_id w, nmb_id bias)
{
  const nmb_id y =
      rows_tensor(p, p->op[moe].out[0], name, p->tensor[x].dim[0], p->tensor[w].dim[1]);
  const nmb_id op = insert(p, moe, NMB_OP_GLINEAR, 3, (nmb_id[]){x, w, bias}, y);
  nmb_op_attr_set(p, op, *nmb_op_attr(&p->op[moe], "routing"));
  return y;
}

static void
lower(nmb_prog *p, nmb_id id)
{
  /* x w idx [gate] up down [biases]: without gates there are 5 or, with biases, 7 */
  const nmb_op o = p->op[id];
  const bool gated = o.nin == 6 || o.nin == 9;
  const nmb_id *w = o.in + 3 + gated, *b = o.in + 5 + 2 * gated; /* of up, down */
  const nmb_attr routing = *nmb_op_attr(&o, "routing");
  const nmb_routing *r = &p->routing[routing.i];
  const bool bias = o.nin > 6;
  const int64_t R = r->ntoken * r->topk, H = p->tensor[o.in[0]].dim[1];
  const nmb_id x = rows_tensor(p, o.in[0], "routed_x", R, H);
  const nmb_id before = !strcmp(nmb_op_sym(&o, "weigh", "output"), "input") ? o.in[1] : NMB_NONE;
  const nmb_id after = before == NMB_NONE ? o.in[1] : NMB_NONE;
  nmb_op_attr_set(
      p, insert(p, id, NMB_OP_PERMUTE, 3, (nmb_id[]){o.in[0], o.in[2], before}, x),
      routing);
  const nmb_id g =
      gated ? grouped(p, id, "routed_gate", x, o.in[3], bias ? o.in[6] : NMB_NONE)
            : NMB_NONE;
  const nmb_id u = grouped(p, id, "routed_up", x, w[0], bias ? b[0] : NMB_NONE);
  const nmb_id a = rows_tensor(p, u, "routed_inner", R, p->tensor[u].dim[1]);
  const nmb_id glu =
      insert(p, id, gated ? NMB_OP_GLU : NMB_OP_ACT, 2, (nmb_id[]){g, u}, a);
  nmb_op_attr_set(p, glu, *nmb_op_attr(&o, "fn"));
  for (int i = 0; i < 2; i++) {
    const nmb_attr *limit = nmb_op_attr(&o, i ? "up_limit" : "limit");
    if (limit)
      nmb_op_attr_set(p, glu, *limit);
  }
  const nmb_id d = grouped(p, id, "routed_down", a, w[1], bias ? b[1] : NMB_NONE);
  const nmb_id c =
      insert(p, id, NMB_OP_COMBINE, 3, (nmb_id[]){d, after, o.in[2]}, o.out[0]);
  nmb_op_attr_set(p, c, routing);
  if (nmb_op_attr(&o, "scale"))
    nmb_op_attr_set(p, c, *nmb_op_attr(&o, "scale"));
  nmb_op_erase(p, id);
}

static nmb_status
transform(nmb_run *run, nmb_prog *p)
{
  int n = 0;
  nmb_section_begin(p, NMB_GRAPH);
  for (nmb_id id = 0, end = p->nop; id < end; id++)
    if (!nmb_op_erased(p, id) && p->op[id].code == NMB_OP_MOE) {
      lower(p, id);
      n++;
    }
  nmb_stat(run, "moe ops rewritten", n);
  return NMB_OK;
}

NMB_PLUGIN
{
    NMB_PLUGIN_HEAD,
    .kind = "rewrite",
    .name = "moe-lower",
    .version = "1",
    .summary = "routed experts as grouped linears over the rows that reach them",
    .source = "gale2023megablocks",
    .limits = "no capacity limit and no token dropping: every row is computed",
    .reads = NMB_BIT(NMB_GRAPH),
    .writes = NMB_BIT(NMB_GRAPH),
    .transform = transform,
};
