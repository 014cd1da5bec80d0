/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <string.h>

#include "base/run.h"
#include "tests/unit/unit.h"

static nmb_id
tensor(nmb_prog *p, nmb_id block, const char *name, nmb_role role, int64_t rows, int64_t cols)
{
  nmb_tensor t = {.name = name, .block = block, .dtype = NMB_DT_BF16, .role = role,
                  .rank = 2, .dim = {rows, cols}};
  return nmb_tensor_add(p, &t);
}

/* x -> linear -> act -> y */
static nmb_prog *
small(void)
{
  nmb_prog *p = nmb_prog_new("small", (nmb_step_spec){NMB_DECODE, 3, 1, 17});
  nmb_id b = nmb_block_add(p, "layer");
  nmb_id x = tensor(p, b, "x", NMB_ROLE_ACT, 3, 40);
  nmb_id w = tensor(p, b, "w", NMB_ROLE_WEIGHT, 24, 40);
  nmb_id h = tensor(p, b, "h", NMB_ROLE_ACT, 3, 24);
  nmb_id y = tensor(p, b, "h", NMB_ROLE_ACT, 3, 24);
  nmb_op lin = {.code = NMB_OP_LINEAR, .block = b, .nin = 2, .nout = 1, .in = {x, w}, .out = {h}};
  nmb_op act = {.code = NMB_OP_ACT, .block = b, .nin = 1, .nout = 1, .nattr = 1, .in = {h},
                .out = {y}, .attr = {NMB_SYM("fn", "silu")}};
  nmb_op_add(p, &lin);
  nmb_op_add(p, &act);
  nmb_block_ends(p, b, x, y);
  nmb_order_add(p, b, 2);
  nmb_order_add(p, b, 5);
  return p;
}

static void
test_names(void)
{
  nmb_prog *p = small();
  CU_ASSERT_STRING_EQUAL(p->tensor[2].name, "h");
  CU_ASSERT_STRING_EQUAL(p->tensor[3].name, "h.1");
  CU_ASSERT_EQUAL(p->block[0].repeat, 7);
  CU_ASSERT_EQUAL(p->nsegment, 1);
  nmb_prog_free(p);
}

static void
test_space(void)
{
  nmb_prog *p = small();
  nmb_space s = nmb_op_space(p, 0);
  CU_ASSERT_EQUAL(s.b, 1);
  CU_ASSERT_EQUAL(s.m, 3);
  CU_ASSERT_EQUAL(s.n, 24);
  CU_ASSERT_EQUAL(s.k, 40);
  CU_ASSERT_EQUAL(nmb_op_macs(p, 0, NULL), 3 * 24 * 40);
  CU_ASSERT_EQUAL(nmb_op_macs(p, 1, NULL), 0);
  CU_ASSERT_EQUAL(nmb_bytes(NMB_DT_MXFP4, 0, 96), 48 + 3);
  CU_ASSERT_EQUAL(nmb_bytes(NMB_DT_I4, 128, 300), 150 + 2 * 3);
  nmb_prog_free(p);
}

static void
test_erase(void)
{
  nmb_prog *p = small();
  nmb_prog *before = nmb_prog_copy(p);
  nmb_tensor_replace(p, 3, 2);
  nmb_op_erase(p, 1);
  CU_ASSERT_TRUE(nmb_op_erased(p, 1));
  nmb_prog_compact(p);
  CU_ASSERT_EQUAL(p->nop, 1);
  CU_ASSERT_EQUAL(p->ntensor, 3);
  CU_ASSERT_EQUAL(p->block[0].out, 2);
  CU_ASSERT_EQUAL(p->tensor[2].def, 0);
  CU_ASSERT_EQUAL(before->nop, 2);
  CU_ASSERT_EQUAL(before->tensor[3].def, 1);
  nmb_prog_free(p);
  nmb_prog_free(before);
}

static void
test_insert(void)
{
  nmb_prog *p = small();
  nmb_id y = tensor(p, 0, "mid", NMB_ROLE_ACT, 3, 24);
  nmb_op act = {.code = NMB_OP_ACT, .block = 0, .nin = 1, .nout = 1, .in = {2}, .out = {y}};
  nmb_id op = nmb_op_insert(p, 1, &act);
  CU_ASSERT_EQUAL(p->block[0].op[1], op);
  nmb_prog_compact(p);
  CU_ASSERT_EQUAL(p->op[1].out[0], 4);
  CU_ASSERT_EQUAL(p->tensor[4].def, 1);
  CU_ASSERT_EQUAL(p->tensor[3].def, 2);
  nmb_prog_free(p);
}

static void
test_section_drop(void)
{
  nmb_prog *p = small();
  nmb_section_begin(p, NMB_GROUPS);
  for (nmb_id i = 0; i < 2; i++)
    nmb_kernel_add(p, 0, &i, 1);
  nmb_section_begin(p, NMB_DISPATCH);
  nmb_dispatch_set(p, 0, 1);
  nmb_section_begin(p, NMB_SCHEDULE);
  nmb_step_add(p, &(nmb_step){.kernel = 0, .nparts = 1});
  nmb_section_begin(p, NMB_DISPATCH);
  CU_ASSERT_EQUAL(p->present, NMB_BIT(NMB_GRAPH) | NMB_BIT(NMB_GROUPS) | NMB_BIT(NMB_DISPATCH));
  CU_ASSERT_EQUAL(p->nstep, 0);
  CU_ASSERT_EQUAL(p->kernel[0].engine, NMB_NONE);
  nmb_section_begin(p, NMB_GRAPH);
  CU_ASSERT_EQUAL(p->present, NMB_BIT(NMB_GRAPH));
  CU_ASSERT_EQUAL(p->nkernel, 0);
  nmb_prog_free(p);
}

static void
test_arena(void)
{
  nmb_run *run = nmb__run_open(NULL);
  char *keep = nmb_strdup(run, "kept");
  size_t mark = nmb__run_mark(run);
  char *big = nmb_alloc(run, 3, 300000);
  CU_ASSERT_EQUAL(big[899999], 0);
  nmb__run_release(run, mark);
  CU_ASSERT_EQUAL(nmb__run_bytes(run), mark);
  CU_ASSERT_STRING_EQUAL(keep, "kept");
  CU_ASSERT_EQUAL(nmb_fail(run, NMB_BADINPUT, (nmb_loc){"f.cfg", 3, 9}, "found %d", 7), NMB_BADINPUT);
  CU_ASSERT_STRING_EQUAL(nmb_error_text(run), "f.cfg:3:9: found 7");
  nmb__run_seed(run, 5);
  uint64_t a = nmb_rand(run), b = nmb_rand(run);
  nmb__run_seed(run, 5);
  CU_ASSERT_EQUAL(nmb_rand(run), a);
  CU_ASSERT_NOT_EQUAL(a, b);
  nmb__run_budget(run, 3);
  CU_ASSERT_TRUE(nmb_spend(run, 2));
  CU_ASSERT_FALSE(nmb_spend(run, 2));
  CU_ASSERT_TRUE(nmb_spend(run, 1));
  nmb__run_close(run);
}

UNIT_MAIN("prog", {"a second tensor of one name gets a number", test_names},
          {"spaces, counts and bytes", test_space},
          {"erasing an op drops what only it used", test_erase},
          {"inserting keeps ids until compaction", test_insert},
          {"rewriting a section drops those that rest on it", test_section_drop},
          {"arena, errors, random numbers, budget", test_arena})
