/* SPDX-License-Identifier: GPL-3.0-or-later */
/* quantize: changes number formats.  Reads and writes graph.
 *
 * weights      matrices of linear, hlinear and glinear
 * activations  values that feed them.  A format of 16 or 32 bit takes all values of the
 *              graph; an 8 bit one only those that nothing but matrix products
 *              read, as the residual stream, norms and scores stay wide
 * kv           the caches
 * state        the recurrent states of scan
 * What stays: norms, biases, sinks, the embedding table, the router and the head,
 * as the published quantised checkpoints keep them.
 *
 * Same meaning up to rounding: the ops are the same on rounded operands. */
#include <string.h>

#include "nmbench/nmb_plugin.h"

static bool
is_product(nmb_opcode c)
{
  return c == NMB_OP_LINEAR || c == NMB_OP_HLINEAR || c == NMB_OP_GLINEAR;
}

/* Per tensor: what reads it. */
typedef struct uses {
  bool product; /* some product reads it as its rows */
  bool other;   /* something else reads it, or it passes between blocks */
  bool choice;  /* the expert choice reads it: logits */
  bool weight;  /* the matrix of a product that may be quantised */
} uses;

static uses *
uses_find(nmb_run *run, const nmb_prog *p)
{
  uses *u = NMB_NEW(run, uses, p->ntensor);
  for (int b = 0; b < p->nblock; b++) {
    if (p->block[b].out != NMB_NONE)
      u[p->block[b].out].other = true;
    if (p->block[b].in != NMB_NONE) /* as the block before it leaves it */
      u[p->block[b].in].other = true;
    for (int i = p->block[b].nop - 1; i >= 0; i--) { /* readers before makers */
      const nmb_op *o = &p->op[p->block[b].op[i]];
      for (int j = 0; j < o->nin; j++) {
        uses *x = &u[o->in[j]];
        if (is_product(o->code) && j == 0)
          x->product = true;
        else if (o->code == NMB_OP_PERMUTE && j == 0) { /* its rows go on as they are */
          x->product |= u[o->out[0]].product;
          x->other |= u[o->out[0]].other;
        } else
          x->other = true;
        x->choice |= o->code == NMB_OP_TOPK && j == 0;
      }
    }
  }
  return u;
}

static void
weights_find(const nmb_prog *p, uses *u)
{
  for (int b = 0; b < p->nblock; b++)
    for (int i = 0; i < p->block[b].nop; i++) {
      const nmb_op *o = &p->op[p->block[b].op[i]];
      const bool head = p->block[b].out == NMB_NONE;
      if (is_product(o->code) && !head && !u[o->out[0]].choice &&
          p->tensor[o->in[1]].role == NMB_ROLE_WEIGHT)
        u[o->in[1]].weight = true;
      if (o->code == NMB_OP_MOE)
        for (int j = 3; j < 6; j++)
          u[o->in[j]].weight = true;
    }
}

/* The format that an option names; NMB_NONE for "keep". Plain fp8 is E4M3, which is what
 * the OCP 8-bit format specification recommends for weights and activations. */
static int
format(nmb_run *run, const char *option)
{
  const char *name = nmb_opt_text(run, option);
  return nmb_dtype_find(strcmp(name, "fp8") ? name : "fp8e4m3");
}

static int64_t
gcd(int64_t a, int64_t b)
{
  return b ? gcd(b, a % b) : a;
}

/* Groups of a weight run through it as it lies; those of a value or a cache must not cross
 * its rows, which are written one by one. */
static void
set(nmb_prog *p, nmb_id id, int dtype, int group)
{
  const nmb_tensor *t = &p->tensor[id];
  if (t->role != NMB_ROLE_WEIGHT)
    group = (int)gcd(group, t->dim[t->rank - 1]);
  nmb_tensor_format(p, id, (nmb_dtype)dtype,
                    nmb_dtype_get((nmb_dtype)dtype)->group < 0 ? group : 0);
}

static nmb_status
transform(nmb_run *run, nmb_prog *p)
{
  const int w = format(run, "weights"), a = format(run, "activations"),
            kv = format(run, "kv"), state = format(run, "state");
  const int group = (int)nmb_opt_int(run, "group");
  nmb_section_begin(p, NMB_GRAPH);
  uses *u = uses_find(run, p);
  weights_find(p, u);
  int n = 0;
  for (nmb_id i = 0; i < p->ntensor; i++) {
    const nmb_tensor *t = &p->tensor[i];
    const uses *x = &u[nmb_tensor_root(p, i)]; /* a view has the format of what it views */
    int to = NMB_NONE;
    if (t->role == NMB_ROLE_WEIGHT && u[i].weight)
      to = w;
    else if (t->role == NMB_ROLE_KV)
      to = kv;
    else if (t->role == NMB_ROLE_STATE && t->rank == 4)
      to = state;
    else if (t->role == NMB_ROLE_ACT && t->dtype != NMB_DT_I32 && a != NMB_NONE &&
             (nmb_dtype_get((nmb_dtype)a)->bits >= 16 || (x->product && !x->other)))
      to = a;
    if (to == NMB_NONE || (int)t->dtype == to)
      continue;
    const int shared = nmb_dtype_get((nmb_dtype)to)->group;
    if (t->role != NMB_ROLE_WEIGHT && shared > 0 && t->dim[t->rank - 1] % shared)
      return nmb_fail(run, NMB_UNSUPPORTED, t->loc,
                      "rows of %%%s have %lld elements, which are no whole groups of the "
                      "%d that share a scale in %s",
                      t->name, (long long)t->dim[t->rank - 1], shared,
                      nmb_dtype_get((nmb_dtype)to)->name);
    set(p, i, to, group);
    n++;
  }
  nmb_stat(run, "tensors converted", n);
  return NMB_OK;
}

static const nmb_opt opts[] = {
    {"weights", "enum", "", "keep",
     "keep|fp32|fp16|bf16|fp8|fp8e4m3|fp8e5m2|fp8blk|int8|int4|int4z|nf4|nf4d|mxfp8|mxfp4|nvfp4|ternary",
     "format of the matrices"},
    {"group", "int", "", "128", "8..65536",
     "weights that share a scale in int8, int4 and int4z"},
    {"activations", "enum", "", "keep", "keep|fp32|fp16|bf16|fp8|fp8e4m3|fp8e5m2|int8",
     "format of the values that feed them"},
    {"kv", "enum", "", "keep", "keep|fp32|fp16|bf16|fp8|fp8e4m3|fp8e5m2|int8|int4|mx8",
     "format of the caches"},
    {"state", "enum", "", "keep", "keep|fp32|fp16|bf16|fp8|fp8e4m3|fp8e5m2|int8|mx8",
     "format of recurrent states"},
    {0}};

NMB_PLUGIN
{
    NMB_PLUGIN_HEAD,
    .kind = "rewrite",
    .name = "quantize",
    .version = "1",
    .summary = "changes the number formats of weights, activations and caches",
    .source = "frantar2023gptq, xiao2023smoothquant, ocp2023mx",
    .limits =
        "formats only: no calibration, no outliers kept apart, no cost of converting",
    .opts = opts,
    .reads = NMB_BIT(NMB_GRAPH),
    .writes = NMB_BIT(NMB_GRAPH),
    .transform = transform,
};
