/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <string.h>

#include "base/run.h"
#include "tests/unit/unit.h"

static nmb_id
tensor(nmb_prog *p, nmb_id block, const char *name, nmb_role role, int64_t rows,
       int64_t cols)
{
  nmb_tensor t = {.name = name,
                  .block = block,
                  .dtype = NMB_DT_BF16,
                  .role = role,
                  .rank = 2,
                  .dim = {rows, cols}};
  return nmb_tensor_add(p, &t);
}

/* x -> linear -> act -> y, with `cols` columns of the weight */
static nmb_prog *
small(int64_t cols)
{
  nmb_prog *p = nmb_prog_new("small", (nmb_step_spec){NMB_DECODE, 3, 1, 17});
  nmb_id b = nmb_block_add(p, "layer");
  nmb_id x = tensor(p, b, "x", NMB_ROLE_ACT, 3, 24);
  nmb_id w = tensor(p, b, "w", NMB_ROLE_WEIGHT, 24, cols);
  nmb_id h = tensor(p, b, "h", NMB_ROLE_ACT, 3, 24);
  nmb_id y = tensor(p, b, "y", NMB_ROLE_ACT, 3, 24);
  nmb_op_add(p, &(nmb_op){.code = NMB_OP_LINEAR,
                          .block = b,
                          .nin = 2,
                          .nout = 1,
                          .in = {x, w},
                          .out = {h}});
  nmb_op_add(p, &(nmb_op){.code = NMB_OP_ACT,
                          .block = b,
                          .nin = 1,
                          .nout = 1,
                          .nattr = 1,
                          .in = {h},
                          .out = {y},
                          .attr = {NMB_SYM("fn", "silu")}});
  nmb_block_ends(p, b, x, y);
  nmb_order_add(p, b, 2);
  return p;
}

static void
test_shape(void)
{
  nmb_run *run = nmb__run_open(NULL);
  nmb_prog *p = small(24), *bad = small(25);
  CU_ASSERT_EQUAL(nmb_prog_verify(run, p, NMB_ALL), NMB_OK);
  CU_ASSERT_EQUAL(nmb_prog_verify(run, bad, NMB_ALL), NMB_UNVERIFIED);
  CU_ASSERT_STRING_EQUAL(nmb_error_text(run),
                         "block layer, linear %h: the last dimension of "
                         "the input (%x) is 24, expected 25");
  nmb_prog_free(p);
  nmb_prog_free(bad);
  nmb__run_close(run);
}

static void
test_hash(void)
{
  nmb_prog *a = small(24), *b = nmb_prog_copy(a), *c = small(25);
  CU_ASSERT_EQUAL(nmb_prog_hash(a, NMB_GRAPH), nmb_prog_hash(b, NMB_GRAPH));
  CU_ASSERT_NOT_EQUAL(nmb_prog_hash(a, NMB_GRAPH), nmb_prog_hash(c, NMB_GRAPH));
  CU_ASSERT_EQUAL(nmb_prog_hash(a, NMB_GROUPS), 0);
  nmb_section_begin(a, NMB_GROUPS);
  const uint64_t none = nmb_prog_hash(a, NMB_GROUPS);
  nmb_kernel_add(a, 0, (nmb_id[]){0, 1}, 2);
  CU_ASSERT_NOT_EQUAL(nmb_prog_hash(a, NMB_GROUPS), none);
  CU_ASSERT_EQUAL(nmb_prog_hash(a, NMB_GRAPH), nmb_prog_hash(b, NMB_GRAPH));
  nmb_prog_free(a);
  nmb_prog_free(b);
  nmb_prog_free(c);
}

UNIT_MAIN("verify", {"a weight that does not fit its input is rejected", test_shape},
          {"a section's hash tells what it holds", test_hash})
