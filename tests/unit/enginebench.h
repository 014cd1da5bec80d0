/* SPDX-License-Identifier: GPL-3.0-or-later */
/* One product as one instruction of an engine, on a machine given as text. */
#ifndef ENGINEBENCH_H
#define ENGINEBENCH_H

#include <stdlib.h>
#include <string.h>

#include "base/plugin.h"
#include "base/run.h"
#include "ir/machine.h"

typedef struct bench {
  nmb_run *run;
  nmb_hw *hw;
  nmb_prog *p;
  nmb_insn in; /* y[m,n] = x[m,k] w[n,k]^T on engine 0 */
} bench;

static bench
bench_open(const char *machine_text, const char *engine, int64_t m, int64_t n, int64_t k)
{
  bench b = {.run = nmb__run_open(stderr)};
  nmb__plugins_load(b.run, NULL);
  if (nmb__machine_parse(b.run, "test.hw", machine_text, strlen(machine_text), &b.hw) !=
      NMB_OK)
    abort();
  b.p = nmb_prog_new("one", (nmb_step_spec){NMB_DECODE, m, 1, 0});
  nmb_prog_set_hw(b.p, b.hw);
  const nmb_id blk = nmb_block_add(b.p, "b");
  const nmb_tensor x = {
      .name = "x", .block = blk, .dtype = NMB_DT_BF16, .rank = 2, .dim = {m, k}};
  const nmb_tensor y = {
      .name = "y", .block = blk, .dtype = NMB_DT_BF16, .rank = 2, .dim = {m, n}};
  const nmb_tensor w = {.name = "w",
                        .block = blk,
                        .dtype = NMB_DT_BF16,
                        .role = NMB_ROLE_WEIGHT,
                        .rank = 2,
                        .dim = {n, k}};
  const nmb_op op = {.code = NMB_OP_LINEAR,
                     .block = blk,
                     .nin = 2,
                     .nout = 1,
                     .in = {nmb_tensor_add(b.p, &x), nmb_tensor_add(b.p, &w)},
                     .out = {nmb_tensor_add(b.p, &y)}};
  nmb_op_add(b.p, &op);
  const nmb_id e = nmb_hw_engine(b.hw, engine);
  const nmb_id home = b.hw->engine[e].home, resident = b.hw->engine[e].resident;
  b.in = (nmb_insn){
      .kind = NMB_INSN_EXEC, .engine = e, .nopnd = 3, .tile = {0, 1, 0, m, 0, n, 0, k}};
  b.in.opnd[0] = (nmb_operand){0, home, NMB_NONE, false, 0, 1, m * k * 2, m * k * 2};
  b.in.opnd[1] = (nmb_operand){1, resident, NMB_NONE, false, 0, 1, n * k * 2, n * k * 2};
  b.in.opnd[2] = (nmb_operand){2, home, NMB_NONE, true, 0, 1, m * n * 2, m * n * 2};
  return b;
}

static void
bench_close(bench *b)
{
  nmb_prog_free(b->p);
  nmb__machine_free(b->hw);
  nmb__run_close(b->run);
}

#endif
