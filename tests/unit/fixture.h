/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A small machine and a small program for tests.
 *
 * Machine "fixture": a host with its own memory and a cache, an in-memory engine
 * with four channels of four banks and a small buffer, a link between them.
 *
 * Program: an embedding, a layer of grouped-query attention and a mixture of
 * experts (legalised: simple ops only), and a head.  Sizes are all different
 * where they can be. */
#ifndef FIXTURE_H
#define FIXTURE_H

#include <string.h>

#include "base/plugin.h"
#include "base/run.h"
#include "ir/pipeline.h"

/* ------------------------------------------------------------------ machine */
/* One byte a nanosecond through the operands: enough for a cost that repeats. */
static nmb_status
fixture_cost(nmb_run *run, const nmb_prog *p, const nmb_insn *n, nmb_fidelity fidelity,
             const nmb_watch *watch, nmb_cost *c)
{
  (void)run, (void)p, (void)fidelity, (void)watch;
  memset(c, 0, sizeof *c);
  for (int i = 0; i < n->nopnd; i++)
    c->time[NMB_CAUSE_BUS] += 1e-9 * (double)(n->opnd[i].rows * n->opnd[i].row_bytes);
  c->time[NMB_CAUSE_LAUNCH] = n->first ? 1e-7 : 0;
  return NMB_OK;
}

static const nmb_plugin fixture_model = {NMB_PLUGIN_HEAD,           .kind = "model",
                                         .name = "fixture-model",   .version = "1",
                                         .summary = "bytes",        .source = "none",
                                         .limits = "all but bytes", .cost = fixture_cost};

enum { FIXTURE_HBM, FIXTURE_DRAM, FIXTURE_CACHE, FIXTURE_BUFFER, FIXTURE_NMEM };
enum { FIXTURE_HOST, FIXTURE_PIM, FIXTURE_LINK, FIXTURE_NENGINE };

static const nmb_mem fixture_mem[FIXTURE_NMEM] = {
    {.name = "hbm",
     .devices = 1,
     .bytes = 1 << 20,
     .bytes_per_s = 1e9,
     .channels = 1,
     .banks = 1,
     .align = 64,
     .source = "made up"},
    {.name = "dram",
     .devices = 1,
     .bytes = 1 << 19,
     .bytes_per_s = 1e9,
     .channels = 4,
     .banks = 4,
     .page_bytes = 1024,
     .burst_bytes = 32,
     .align = 32,
     .source = "made up"},
    {.name = "cache",
     .devices = 1,
     .bytes = 1 << 16,
     .bytes_per_s = 1e10,
     .channels = 1,
     .banks = 1,
     .align = 16,
     .local = true,
     .source = "made up"},
    {.name = "buffer",
     .devices = 1,
     .bytes = 1 << 12,
     .bytes_per_s = 1e10,
     .channels = 1,
     .banks = 1,
     .align = 16,
     .local = true,
     .source = "made up"},
};

#define FIXTURE_FORMATS (NMB_BIT(NMB_DT_BF16) | NMB_BIT(NMB_DT_F16))
static const nmb_engine fixture_engine[FIXTURE_NENGINE] = {
    {.name = "host",
     .model = "fixture-model",
     .devices = 1,
     .resident = FIXTURE_HBM,
     .home = FIXTURE_HBM,
     .local = FIXTURE_CACHE,
     .from = NMB_NONE,
     .to = NMB_NONE,
     .ops = ~UINT64_C(0),
     .weights = ~0u,
     .values = ~0u,
     .launch_s = 1e-7,
     .impl = &fixture_model,
     .source = "made up"},
    {.name = "pim",
     .model = "fixture-model",
     .devices = 1,
     .resident = FIXTURE_DRAM,
     .home = FIXTURE_DRAM,
     .local = FIXTURE_BUFFER,
     .in_memory = true,
     .from = NMB_NONE,
     .to = NMB_NONE,
     .ops = UINT64_C(1) << NMB_OP_LINEAR | UINT64_C(1) << NMB_OP_GLINEAR |
            UINT64_C(1) << NMB_OP_QK | UINT64_C(1) << NMB_OP_PV |
            UINT64_C(1) << NMB_OP_ADD | UINT64_C(1) << NMB_OP_GLU |
            UINT64_C(1) << NMB_OP_ACT,
     .weights = FIXTURE_FORMATS,
     .values = FIXTURE_FORMATS,
     .launch_s = 1e-7,
     .impl = &fixture_model,
     .source = "made up"},
    {.name = "link",
     .model = "link",
     .devices = 1,
     .resident = NMB_NONE,
     .home = NMB_NONE,
     .local = NMB_NONE,
     .from = FIXTURE_HBM,
     .to = FIXTURE_DRAM,
     .impl = &fixture_model,
     .source = "made up"},
};

static const nmb_hw fixture_hw = {.name = "fixture",
                                  .title = "a machine for tests",
                                  .source = "made up",
                                  .devices = 1,
                                  .nmem = FIXTURE_NMEM,
                                  .nengine = FIXTURE_NENGINE,
                                  .mem = fixture_mem,
                                  .engine = fixture_engine,
                                  .host = FIXTURE_HOST};

/* ------------------------------------------------------------------ program */
/* dims end with 0 */
#define FIXTURE_DIMS(...) ((const int64_t[NMB_MAXRANK + 1]){__VA_ARGS__})

static nmb_id
fixture_tensor(nmb_prog *p, nmb_id block, const char *name, nmb_role role,
               nmb_dtype dtype, const int64_t *dim)
{
  nmb_tensor t = {.name = name, .block = block, .dtype = dtype, .role = role};
  for (; dim[t.rank]; t.rank++)
    t.dim[t.rank] = dim[t.rank];
  return nmb_tensor_add(p, &t);
}

static nmb_id
fixture_weight(nmb_prog *p, nmb_id block, const char *name, const int64_t *dim)
{
  return fixture_tensor(p, block, name, NMB_ROLE_WEIGHT, NMB_DT_BF16, dim);
}

/* An op with one output.  in ends with NMB_NONE, attr with a row without key. */
#define FIXTURE_IN(...) ((const nmb_id[NMB_MAXIN + 1]){__VA_ARGS__, NMB_NONE})
#define FIXTURE_ATTR(...) ((const nmb_attr[NMB_MAXATTR + 1]){__VA_ARGS__})
static nmb_id
fixture_op(nmb_prog *p, nmb_id block, nmb_opcode code, const char *name, const nmb_id *in,
           const nmb_attr *attr, const int64_t *dim)
{
  nmb_op o = {.code = code, .block = block, .nout = 1};
  for (; in[o.nin] != NMB_NONE; o.nin++)
    o.in[o.nin] = in[o.nin];
  for (; attr && attr[o.nattr].key; o.nattr++)
    o.attr[o.nattr] = attr[o.nattr];
  const nmb_tensor *x = &p->tensor[o.in[0]];
  const nmb_role role = code == NMB_OP_KVAPPEND ? x->role : NMB_ROLE_ACT;
  o.out[0] = fixture_tensor(p, block, name, role, NMB_DT_BF16, dim);
  nmb_op_add(p, &o);
  return o.out[0];
}

static void
fixture_embed(nmb_prog *p)
{
  const nmb_id b = nmb_block_add(p, "embed");
  const nmb_id ids =
      fixture_tensor(p, b, "ids", NMB_ROLE_INPUT, NMB_DT_I32, FIXTURE_DIMS(2));
  const nmb_id table = fixture_weight(p, b, "table", FIXTURE_DIMS(48, 24));
  const nmb_id x = fixture_op(p, b, NMB_OP_EMBED, "x", FIXTURE_IN(ids, table), NULL,
                              FIXTURE_DIMS(2, 24));
  nmb_block_ends(p, b, NMB_NONE, x);
}

/* 2 sequences of 5 cached tokens and a new one; 6 query heads on 3 KV heads of 4 */
static nmb_id
fixture_attention(nmb_prog *p, nmb_id b, nmb_id x)
{
  const nmb_attr rms[] = {NMB_SYM("kind", "rms"), NMB_REAL("eps", 1e-6), {0}};
  const nmb_attr rot[] = {NMB_INT("dims", 4), NMB_REAL("theta", 10000.0), {0}};
  const nmb_id pos =
      fixture_tensor(p, b, "pos", NMB_ROLE_INPUT, NMB_DT_I32, FIXTURE_DIMS(2));
  const nmb_id wn = fixture_weight(p, b, "wn", FIXTURE_DIMS(24));
  const nmb_id wq = fixture_weight(p, b, "wq", FIXTURE_DIMS(24, 24));
  const nmb_id wk = fixture_weight(p, b, "wk", FIXTURE_DIMS(12, 24));
  const nmb_id wv = fixture_weight(p, b, "wv", FIXTURE_DIMS(12, 24));
  const nmb_id wo = fixture_weight(p, b, "wo", FIXTURE_DIMS(24, 24));
  const nmb_id kc =
      fixture_tensor(p, b, "kc", NMB_ROLE_KV, NMB_DT_BF16, FIXTURE_DIMS(2, 6, 3, 4));
  const nmb_id vc =
      fixture_tensor(p, b, "vc", NMB_ROLE_KV, NMB_DT_BF16, FIXTURE_DIMS(2, 6, 3, 4));
  const nmb_id n =
      fixture_op(p, b, NMB_OP_NORM, "n", FIXTURE_IN(x, wn), rms, FIXTURE_DIMS(2, 24));
  const nmb_id q0 = fixture_op(p, b, NMB_OP_LINEAR, "q0", FIXTURE_IN(n, wq), NULL,
                               FIXTURE_DIMS(2, 6, 4));
  const nmb_id k0 = fixture_op(p, b, NMB_OP_LINEAR, "k0", FIXTURE_IN(n, wk), NULL,
                               FIXTURE_DIMS(2, 3, 4));
  const nmb_id v0 = fixture_op(p, b, NMB_OP_LINEAR, "v0", FIXTURE_IN(n, wv), NULL,
                               FIXTURE_DIMS(2, 3, 4));
  const nmb_id q =
      fixture_op(p, b, NMB_OP_ROPE, "q", FIXTURE_IN(q0, pos), rot, FIXTURE_DIMS(2, 6, 4));
  const nmb_id k1 = fixture_op(p, b, NMB_OP_ROPE, "k1", FIXTURE_IN(k0, pos), rot,
                               FIXTURE_DIMS(2, 3, 4));
  const nmb_attr *at = FIXTURE_ATTR(NMB_INT("at", 5));
  const nmb_id k = fixture_op(p, b, NMB_OP_KVAPPEND, "k", FIXTURE_IN(kc, k1), at,
                              FIXTURE_DIMS(2, 6, 3, 4));
  const nmb_id v = fixture_op(p, b, NMB_OP_KVAPPEND, "v", FIXTURE_IN(vc, v0), at,
                              FIXTURE_DIMS(2, 6, 3, 4));
  const nmb_id s = fixture_op(p, b, NMB_OP_QK, "s", FIXTURE_IN(q, k),
                              FIXTURE_ATTR(NMB_INT("new", 1), NMB_REAL("scale", 0.5)),
                              FIXTURE_DIMS(6, 2, 6));
  const nmb_id pr = fixture_op(p, b, NMB_OP_SOFTMAX, "p", FIXTURE_IN(s),
                               FIXTURE_ATTR(NMB_INT("new", 1)), FIXTURE_DIMS(6, 2, 6));
  const nmb_id a =
      fixture_op(p, b, NMB_OP_PV, "a", FIXTURE_IN(pr, v), NULL, FIXTURE_DIMS(2, 6, 4));
  const nmb_id o =
      fixture_op(p, b, NMB_OP_LINEAR, "o", FIXTURE_IN(a, wo), NULL, FIXTURE_DIMS(2, 24));
  return fixture_op(p, b, NMB_OP_ADD, "x1", FIXTURE_IN(x, o), NULL, FIXTURE_DIMS(2, 24));
}

/* 5 experts, 2 a token; expert 1 gets two rows, experts 0 and 2 none */
static nmb_id
fixture_moe(nmb_prog *p, nmb_id b, nmb_id x)
{
  const int32_t expert[] = {3, 1, 1, 4};
  const nmb_id r = nmb_routing_add(p, "by hand", 5, 2, 2, expert);
  const nmb_attr rms[] = {NMB_SYM("kind", "rms"), NMB_REAL("eps", 1e-6), {0}};
  const nmb_attr route[] = {NMB_INT("routing", r), {0}};
  const nmb_id wn = fixture_weight(p, b, "wn2", FIXTURE_DIMS(24));
  const nmb_id wr = fixture_weight(p, b, "wr", FIXTURE_DIMS(5, 24));
  const nmb_id wg = fixture_weight(p, b, "wg", FIXTURE_DIMS(5, 8, 24));
  const nmb_id wu = fixture_weight(p, b, "wu", FIXTURE_DIMS(5, 8, 24));
  const nmb_id wd = fixture_weight(p, b, "wd", FIXTURE_DIMS(5, 24, 8));
  const nmb_id n =
      fixture_op(p, b, NMB_OP_NORM, "n2", FIXTURE_IN(x, wn), rms, FIXTURE_DIMS(2, 24));
  const nmb_id l =
      fixture_op(p, b, NMB_OP_LINEAR, "l", FIXTURE_IN(n, wr), NULL, FIXTURE_DIMS(2, 5));
  nmb_op top = {.code = NMB_OP_TOPK,
                .block = b,
                .nin = 1,
                .nout = 2,
                .nattr = 2,
                .in = {l},
                .attr = {NMB_INT("routing", r), NMB_SYM("score", "softmax")}};
  const nmb_id w = top.out[0] =
      fixture_tensor(p, b, "w", NMB_ROLE_ACT, NMB_DT_BF16, FIXTURE_DIMS(2, 2));
  const nmb_id i = top.out[1] =
      fixture_tensor(p, b, "i", NMB_ROLE_ACT, NMB_DT_I32, FIXTURE_DIMS(2, 2));
  nmb_op_add(p, &top);
  const nmb_id e =
      fixture_op(p, b, NMB_OP_PERMUTE, "e", FIXTURE_IN(n, i), route, FIXTURE_DIMS(4, 24));
  const nmb_id g =
      fixture_op(p, b, NMB_OP_GLINEAR, "g", FIXTURE_IN(e, wg), route, FIXTURE_DIMS(4, 8));
  const nmb_id u =
      fixture_op(p, b, NMB_OP_GLINEAR, "u", FIXTURE_IN(e, wu), route, FIXTURE_DIMS(4, 8));
  const nmb_id h = fixture_op(p, b, NMB_OP_GLU, "h", FIXTURE_IN(g, u),
                              FIXTURE_ATTR(NMB_SYM("fn", "silu")), FIXTURE_DIMS(4, 8));
  const nmb_id d = fixture_op(p, b, NMB_OP_GLINEAR, "d", FIXTURE_IN(h, wd), route,
                              FIXTURE_DIMS(4, 24));
  const nmb_id m = fixture_op(p, b, NMB_OP_COMBINE, "m", FIXTURE_IN(d, w, i), route,
                              FIXTURE_DIMS(2, 24));
  return fixture_op(p, b, NMB_OP_ADD, "y", FIXTURE_IN(x, m), NULL, FIXTURE_DIMS(2, 24));
}

static void
fixture_head(nmb_prog *p)
{
  const nmb_id b = nmb_block_add(p, "head");
  const nmb_id x =
      fixture_tensor(p, b, "x", NMB_ROLE_ACT, NMB_DT_BF16, FIXTURE_DIMS(2, 24));
  const nmb_id w = fixture_weight(p, b, "w", FIXTURE_DIMS(48, 24));
  const nmb_id s =
      fixture_op(p, b, NMB_OP_SELECT, "s", FIXTURE_IN(x), NULL, FIXTURE_DIMS(2, 24));
  fixture_op(p, b, NMB_OP_LINEAR, "logits", FIXTURE_IN(s, w), NULL, FIXTURE_DIMS(2, 48));
  nmb_block_ends(p, b, x, NMB_NONE);
}

/* The graph; machine set. */
static inline nmb_prog *
fixture_prog(void)
{
  nmb_prog *p = nmb_prog_new("fixture-model", (nmb_step_spec){NMB_DECODE, 2, 1, 5});
  nmb_prog_set_hw(p, &fixture_hw);
  fixture_embed(p);
  const nmb_id b = nmb_block_add(p, "layer");
  const nmb_id x =
      fixture_tensor(p, b, "x", NMB_ROLE_ACT, NMB_DT_BF16, FIXTURE_DIMS(2, 24));
  const nmb_id y = fixture_moe(p, b, fixture_attention(p, b, x));
  nmb_block_ends(p, b, x, y);
  fixture_head(p);
  nmb_order_add(p, 0, 1);
  nmb_order_add(p, b, 3);
  nmb_order_add(p, 2, 1);
  return p;
}

/* Makes the sections that the passes named write, by the plugins of the build. */
static inline nmb_status
fixture_compile(nmb_run *run, nmb_prog *p, const char *passes)
{
  nmb__pipeline pl;
  NMB_TRY(nmb__plugins_load(run, NULL));
  NMB_TRY(nmb__pipeline_parse(run, NMB_NOLOC, passes, &pl));
  return nmb__pipeline_run(run, p, &pl, NULL);
}

/* All sections.  Kernels on both engines; one of them fused, g, u and h on pim. */
#define FIXTURE_PASSES                                                                   \
  "fuse-epilogue,dispatch-rule,map-rowmajor,sched-list,mem-firstfit,emit-queues"
#endif
