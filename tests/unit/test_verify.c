/* SPDX-License-Identifier: GPL-3.0-or-later */
/* One small program, compiled, and then broken in one place at a time. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/run.h"
#include "ir/verify_cover.h"
#include "tests/unit/fixture.h"
#include "tests/unit/unit.h"

#define EDIT(type, row) ((type *)(uintptr_t) & (row))

/* ------------------------------------------------------------------- finding */
static nmb_id
block(const nmb_prog *p, const char *name)
{
  for (int i = 0; i < p->nblock; i++)
    if (!strcmp(p->block[i].name, name))
      return i;
  abort();
}

/* A tensor of the layer. */
static nmb_id
tensor(const nmb_prog *p, const char *name)
{
  const nmb_id b = block(p, "layer");
  for (int i = 0; i < p->ntensor; i++)
    if (p->tensor[i].block == b && !strcmp(p->tensor[i].name, name))
      return i;
  abort();
}

static nmb_op *
op(const nmb_prog *p, const char *name)
{
  return EDIT(nmb_op, p->op[p->tensor[tensor(p, name)].def]);
}

static nmb_id
kernel(const nmb_prog *p, const char *name)
{
  for (int k = 0; k < p->nkernel; k++)
    for (int i = 0; i < p->kernel[k].nop; i++)
      if (&p->op[p->kernel[k].op[i]] == op(p, name))
        return k;
  abort();
}

static nmb_id
step(const nmb_prog *p, const char *name)
{
  for (int i = 0; i < p->nstep; i++)
    if (p->step[i].kernel == kernel(p, name))
      return i;
  abort();
}

static nmb_slot *
slot(const nmb_prog *p, const char *name, const char *mem)
{
  for (int i = 0; i < p->nslot; i++)
    if (p->slot[i].tensor == tensor(p, name) &&
        !strcmp(p->hw->mem[p->slot[i].mem].name, mem))
      return EDIT(nmb_slot, p->slot[i]);
  abort();
}

static nmb_layout *
layout(const nmb_prog *p, const char *name)
{
  for (int i = 0; i < p->nlayout; i++)
    if (p->layout[i].tensor == tensor(p, name))
      return EDIT(nmb_layout, p->layout[i]);
  abort();
}

/* The n-th EXEC of an op. */
static nmb_insn *
exec(const nmb_prog *p, const char *name, int n)
{
  for (int i = 0; i < p->ninsn; i++)
    if (p->insn[i].op != NMB_NONE && &p->op[p->insn[i].op] == op(p, name) && n-- == 0)
      return EDIT(nmb_insn, p->insn[i]);
  abort();
}

/* The copy that writes a tensor. */
static nmb_insn *
copy(const nmb_prog *p, const char *name)
{
  for (int i = 0; i < p->ninsn; i++)
    if (p->insn[i].kind == NMB_INSN_COPY && p->insn[i].opnd[1].tensor == tensor(p, name))
      return EDIT(nmb_insn, p->insn[i]);
  abort();
}

static nmb_insn *
sync_after(const nmb_prog *p, const nmb_insn *n)
{
  while (n < p->insn + p->ninsn && n->kind != NMB_INSN_SYNC)
    n++;
  return EDIT(nmb_insn, *n);
}

static nmb_operand *
operand(nmb_insn *n, bool write)
{
  int i = 0;
  while (n->opnd[i].write != write)
    i++;
  return &n->opnd[i];
}

static void
set_wait(nmb_insn *n, nmb_id on)
{
  free((void *)(uintptr_t)n->wait);
  nmb_id *w = nmb__xrealloc(NULL, 1, sizeof *w);
  *w = on;
  n->wait = w;
  n->nwait = on == NMB_NONE ? 0 : 1;
}

static void
swap_ops(nmb_prog *p, int a, int b)
{
  nmb_id *list = EDIT(nmb_id, p->block[block(p, "layer")].op[0]);
  const nmb_id x = list[a];
  list[a] = list[b];
  list[b] = x;
}

/* --------------------------------------------------------------------- graph */
static void
g_shape(nmb_prog *p)
{
  nmb_tensor_reshape(p, tensor(p, "wo"), 2, (int64_t[]){24, 23});
}

static void
g_rows(nmb_prog *p)
{
  nmb_tensor_reshape(p, tensor(p, "v0"), 3, (int64_t[]){3, 3, 4});
}

static void
g_cache(nmb_prog *p)
{
  nmb_op_attr_set(p, p->tensor[tensor(p, "k")].def, NMB_INT("at", 6));
}

static void
g_huge(nmb_prog *p)
{
  nmb_tensor_reshape(p, tensor(p, "wo"), 2,
                     (int64_t[]){INT64_C(1) << 40, INT64_C(1) << 40});
}

static void
g_zero(nmb_prog *p)
{
  nmb_tensor_reshape(p, tensor(p, "wo"), 2, (int64_t[]){24, 0});
}

static void
g_order(nmb_prog *p)
{
  swap_ops(p, 0, 1);
}

static void
g_twice(nmb_prog *p)
{
  op(p, "k0")->out[0] = tensor(p, "q0");
}

static void
g_arity(nmb_prog *p)
{
  op(p, "x1")->nin = 1;
}

static void
g_missing(nmb_prog *p)
{
  op(p, "h")->nattr = 0;
}

static void
g_kind(nmb_prog *p)
{
  op(p, "k1")->attr[0].kind = NMB_ATTR_SYM;
}

static void
g_unknown(nmb_prog *p)
{
  op(p, "k1")->attr[1].key = "tehta";
}

static void
g_format(nmb_prog *p)
{
  nmb_tensor_format(p, tensor(p, "pos"), NMB_DT_BF16, 0);
}

static void
g_group(nmb_prog *p)
{
  nmb_tensor_format(p, tensor(p, "wo"), NMB_DT_BF16, 32);
}

static void
g_experts(nmb_prog *p)
{
  *EDIT(int32_t, p->routing[0].expert[1]) = 3;
}

static void
g_load(nmb_prog *p)
{
  *EDIT(int64_t, p->routing[0].load[1]) = 3;
}

static void
g_chain(nmb_prog *p)
{
  const nmb_id b = block(p, "head");
  nmb_tensor_format(p, p->block[b].in, NMB_DT_F16, 0);
}

static void
g_repeat(nmb_prog *p)
{
  EDIT(nmb_block, p->block[1])->repeat = 4;
}

static void
g_source(nmb_prog *p)
{
  EDIT(nmb_block, p->block[1])->in = NMB_NONE;
}

/* -------------------------------------------------------------------- groups */
static void
k_missing(nmb_prog *p)
{
  EDIT(nmb_kernel, p->kernel[kernel(p, "h")])->nop = 2;
}

static void
k_twice(nmb_prog *p)
{
  *EDIT(nmb_id, p->kernel[kernel(p, "k0")].op[0]) = p->tensor[tensor(p, "q0")].def;
}

static void
k_block(nmb_prog *p)
{
  EDIT(nmb_kernel, p->kernel[kernel(p, "k0")])->block = 0;
}

static void
k_order(nmb_prog *p)
{
  nmb_id *op = EDIT(nmb_id, p->kernel[kernel(p, "h")].op[0]);
  const nmb_id x = op[0];
  op[0] = op[2];
  op[2] = x;
}

static void
k_cycle(nmb_prog *p)
{
  nmb_kernel *a = EDIT(nmb_kernel, p->kernel[kernel(p, "q0")]);
  nmb_kernel *b = EDIT(nmb_kernel, p->kernel[kernel(p, "n")]);
  const nmb_kernel x = *a;
  *a = *b;
  *b = x;
}

/* No engine can run softmax and a projection as one kernel. */
static void
k_illegal(nmb_prog *p)
{
  nmb_section_begin(p, NMB_GROUPS);
  nmb_id pair[2] = {p->tensor[tensor(p, "a")].def, p->tensor[tensor(p, "o")].def};
  for (nmb_id i = 0; i < p->nop; i++)
    if (i == pair[0])
      nmb_kernel_add(p, p->op[i].block, pair, 2);
    else if (i != pair[1])
      nmb_kernel_add(p, p->op[i].block, &i, 1);
}

/* ------------------------------------------------------------------ dispatch */
static void
d_op(nmb_prog *p)
{
  nmb_dispatch_set(p, kernel(p, "n"), FIXTURE_PIM);
}

static void
d_format(nmb_prog *p)
{
  nmb_tensor_format(p, tensor(p, "wd"), NMB_DT_MXFP4, 0);
}

static void
d_link(nmb_prog *p)
{
  nmb_dispatch_set(p, kernel(p, "n"), FIXTURE_LINK);
}

static void
d_none(nmb_prog *p)
{
  nmb_dispatch_set(p, kernel(p, "n"), NMB_NONE);
}

/* ------------------------------------------------------------------- mapping */
static void
m_tile(nmb_prog *p)
{
  EDIT(nmb_map, p->map[kernel(p, "o")])->tile_m = 3;
}

static void
m_row(nmb_prog *p)
{
  EDIT(nmb_map, p->map[2])->kernel = 3;
}

static void
m_count(nmb_prog *p)
{
  p->nmap--;
}

/* The machine with a buffer of 63 bytes: a tile of g and u has 64. */
static void
m_local(nmb_prog *p)
{
  static nmb_mem mem[FIXTURE_NMEM];
  static nmb_hw hw;
  memcpy(mem, fixture_mem, sizeof mem);
  hw = fixture_hw;
  hw.mem = mem;
  mem[FIXTURE_BUFFER].bytes = 63;
  nmb_prog_set_hw(p, &hw);
}

static void
m_memory(nmb_prog *p)
{
  layout(p, "wd")->mem = FIXTURE_HBM;
}

static void
m_small(nmb_prog *p)
{
  layout(p, "wd")->bytes--;
}

static void
m_units(nmb_prog *p)
{
  layout(p, "wd")->unit_rows = 7;
}

static void
m_channels(nmb_prog *p)
{
  layout(p, "wd")->channels = 5;
}

static void
m_linear(nmb_prog *p)
{
  layout(p, "wd")->kind = NMB_LAY_LINEAR;
}

static void
m_two(nmb_prog *p)
{
  nmb_layout l = *layout(p, "wd");
  nmb_layout_add(p, &l);
}

static void
m_capacity(nmb_prog *p)
{
  layout(p, "wd")->bytes = 200000; /* three layers */
}

static void
m_view(nmb_prog *p)
{
  layout(p, "wd")->tensor = tensor(p, "d");
}

/* ------------------------------------------------------------------ schedule */
static void
s_missing(nmb_prog *p)
{
  p->nstep--;
}

static void
s_twice(nmb_prog *p)
{
  EDIT(nmb_step, p->step[step(p, "k1")])->kernel = kernel(p, "k0");
}

static void
s_order(nmb_prog *p)
{
  EDIT(nmb_step, p->step[step(p, "d")])->start_ps = 1;
}

/* Starts with its operand, not after it. */
static void
s_dependence(nmb_prog *p)
{
  nmb_step *a = EDIT(nmb_step, p->step[step(p, "g")]);
  nmb_step *b = EDIT(nmb_step, p->step[step(p, "e")]);
  a->start_ps = b->start_ps + b->duration_ps - 1;
}

static void
s_busy(nmb_prog *p)
{
  EDIT(nmb_step, p->step[step(p, "q0")])->duration_ps += 1;
}

static void
s_block(nmb_prog *p)
{
  nmb_step *s = EDIT(nmb_step, p->step[0]);
  const nmb_step x = s[0];
  s[0] = s[p->nstep - 1];
  s[p->nstep - 1] = x;
}

static void
s_axis(nmb_prog *p)
{
  nmb_step *s = EDIT(nmb_step, p->step[step(p, "d")]);
  s->nparts = 2;
  s->axis = NMB_AXIS_BATCH;
}

static void
s_parts(nmb_prog *p)
{
  nmb_step *s = EDIT(nmb_step, p->step[step(p, "s")]);
  s->nparts = 3;
  s->axis = NMB_AXIS_HEAD;
}

/* -------------------------------------------------------------------- memory */
static void
b_overlap(nmb_prog *p)
{
  slot(p, "q", "hbm")->offset = slot(p, "q0", "hbm")->offset + 64;
}

static void
b_resident(nmb_prog *p)
{
  slot(p, "wu", "dram")->offset -= 32;
}

static void
b_under(nmb_prog *p)
{
  slot(p, "q0", "hbm")->offset = slot(p, "wq", "hbm")->offset;
}

static void
b_align(nmb_prog *p)
{
  slot(p, "y", "hbm")->offset += 16;
}

static void
b_capacity(nmb_prog *p)
{
  slot(p, "y", "hbm")->offset = (1 << 20) - 64;
}

static void
b_small(nmb_prog *p)
{
  slot(p, "s", "hbm")->bytes = 128;
}

static void
b_short(nmb_prog *p)
{
  slot(p, "n", "hbm")->last--;
}

static void
b_missing(nmb_prog *p)
{
  p->nslot--;
}

static void
b_two(nmb_prog *p)
{
  nmb_slot s = *slot(p, "y", "hbm");
  s.offset = 1 << 19;
  nmb_slot_add(p, &s);
}

static void
b_block(nmb_prog *p)
{
  slot(p, "y", "hbm")->last = p->nstep - 1;
}

static void
b_kind(nmb_prog *p)
{
  slot(p, "wo", "hbm")->resident = false;
}

/* ---------------------------------------------------------------------- code */
static void
c_past(nmb_prog *p)
{
  operand(exec(p, "m", 0), true)->offset = 33;
}

static void
c_layer(nmb_prog *p) /* fits the slot of three layers, but not one of them */
{
  operand(exec(p, "o", 0), false)[1].row_bytes = 1153;
}

static void
c_dead(nmb_prog *p)
{
  slot(p, "n", "hbm")->last--;
}

static void
c_slot(nmb_prog *p)
{
  operand(exec(p, "m", 0), true)->slot++;
}

static void
c_again(nmb_prog *p) /* as many points as before: one tile twice, one not at all */
{
  nmb_insn *a = exec(p, "d", 1), *b = exec(p, "d", 2);
  a->tile = b->tile;
}

static void
c_less(nmb_prog *p)
{
  exec(p, "d", 2)->tile.n1--;
}

static void
c_outside(nmb_prog *p)
{
  exec(p, "d", 0)->tile.n1++;
}

static void
c_expert(nmb_prog *p) /* an expert that no token reaches */
{
  nmb_insn *n = exec(p, "d", 1);
  n->tile.b0 = 2;
  n->tile.b1 = 3;
}

static void
c_append(nmb_prog *p)
{
  operand(exec(p, "k", 0), true)->rows = 1;
}

static void
c_engine(nmb_prog *p)
{
  exec(p, "m", 0)->engine = FIXTURE_LINK;
}

static void
c_channels(nmb_prog *p)
{
  exec(p, "d", 0)->place.nchannel = 4;
}

static void
c_unread(nmb_prog *p)
{
  nmb_insn *n = exec(p, "m", 0);
  operand(n, false)->write = true;
}

static void
c_extra(nmb_prog *p)
{
  nmb_insn *n = exec(p, "m", 0);
  nmb_operand x = exec(p, "y", 0)->opnd[0];
  x.write = true;
  n->opnd[n->nopnd++] = x;
}

static void
c_link(nmb_prog *p)
{
  nmb_insn *n = copy(p, "e");
  n->opnd[1] = n->opnd[0];
  n->opnd[1].write = true;
}

static void
c_copied(nmb_prog *p)
{
  copy(p, "e")->opnd[0].rows--;
}

static void
c_wait(nmb_prog *p)
{
  set_wait(exec(p, "m", 0), p->ninsn);
}

static void
c_wait_block(nmb_prog *p)
{
  set_wait(exec(p, "m", 0), 0);
}

/* e is made, then copied, then read by g */
static void
c_deadlock(nmb_prog *p)
{
  set_wait(exec(p, "e", 0), (nmb_id)(copy(p, "e") - p->insn));
}

/* It waits for one that stands behind it in its own queue. */
static void
c_deadlock_queue(nmb_prog *p)
{
  set_wait(exec(p, "n", 0), (nmb_id)(exec(p, "m", 0) - p->insn));
}

static void
c_read_after_write(nmb_prog *p)
{
  set_wait(copy(p, "e"), NMB_NONE);
}

/* Waiting for one instruction says nothing of those on other channels. */
static void
c_no_sync(nmb_prog *p)
{
  set_wait(copy(p, "d"), (nmb_id)(exec(p, "d", 2) - p->insn));
}

static void
c_sync_gone(nmb_prog *p) /* h is made on other channels than d reads it on */
{
  nmb_insn *d = exec(p, "d", 0);
  d->place.channel0 = 2;
  *sync_after(p, exec(p, "h", 2)) = (nmb_insn){.kind = NMB_INSN_SYNC,
                                               .engine = FIXTURE_LINK,
                                               .block = d->block,
                                               .step = d->step - 1,
                                               .op = NMB_NONE};
}

/* A tile of h, on one channel, is put where g reads e on another. */
static void
c_write_after_read(nmb_prog *p)
{
  slot(p, "h", "dram")->offset = slot(p, "e", "dram")->offset;
}

static void
c_write_after_write(nmb_prog *p)
{
  nmb_insn *a = exec(p, "d", 0), *b = exec(p, "d", 1);
  *operand(b, true) = *operand(a, true);
}

static void
c_never_written(nmb_prog *p)
{
  nmb_insn *n = copy(p, "e");
  n->kind = NMB_INSN_SYNC;
  n->nopnd = 0;
}

/* All but the last two bytes of what is read later. */
static void
c_partly_written(nmb_prog *p)
{
  nmb_insn *n = copy(p, "e");
  for (int i = 0; i < 2; i++) {
    n->opnd[i].row_bytes = n->opnd[i].rows * n->opnd[i].row_bytes - 2;
    n->opnd[i].rows = 1;
  }
}

/* -------------------------------------------------------------------- tables */
typedef struct fault {
  void (*plant)(nmb_prog *);
  const char *expected; /* part of the message */
} fault;

static void
check_faults(nmb_section section, const fault *f, size_t n)
{
  nmb_run *run = nmb__run_open(NULL);
  nmb_prog *good = fixture_prog();
  CU_ASSERT_EQUAL_FATAL(fixture_compile(run, good, FIXTURE_PASSES), NMB_OK);
  CU_ASSERT_EQUAL_FATAL(nmb_prog_verify(run, good, NMB_ALL), NMB_OK);
  for (size_t i = 0; i < n; i++) {
    nmb_prog *p = nmb_prog_copy(good);
    nmb__run_clear(run);
    f[i].plant(p);
    CU_ASSERT_EQUAL(nmb_prog_verify(run, p, NMB_BIT(section)), NMB_UNVERIFIED);
    const bool as_expected = strstr(nmb_error_text(run), f[i].expected) != NULL;
    if (!as_expected)
      fprintf(stderr, "fault %zu: found:    %s\n         expected: %s\n", i,
              nmb_error_text(run), f[i].expected);
    CU_ASSERT_TRUE(as_expected);
    nmb_prog_free(p);
  }
  nmb_prog_free(good);
  nmb__run_close(run);
}
#define CHECK(section, ...)                                                              \
  do {                                                                                   \
    static const fault list[] = {__VA_ARGS__};                                           \
    check_faults(section, list, sizeof list / sizeof *list);                             \
  } while (0)

static void
test_graph(void)
{
  CHECK(
      NMB_GRAPH,
      {g_shape,
       "block layer, linear %o: the last dimension of the input (%a) is 4, expected 23"},
      {g_rows, "block layer, linear %v0: the output (%v0) has 3 rows, expected 2"},
      {g_cache, "block layer, kvappend %k: at: found 6, expected 0 to 5"},
      {g_huge, "dimension 1 of %wo is 1099511627776, expected 1 to 4096"},
      {g_zero, "dimension 1 of %wo is 0, expected 1 to"},
      {g_order, "linear %q0: %n is used before it is defined"},
      {g_twice, "linear %q0: %q0 is defined a second time"},
      {g_arity, "add %x1: inputs: found 1, expected 2 to 2"},
      {g_missing, "glu %h: attribute fn is missing"},
      {g_kind, "rope %k1: attribute dims: found a symbol, expected an integer"},
      {g_unknown, "rope %k1: attribute theta is missing"},
      {g_format, "rope %q: the positions: found bf16, expected int32"},
      {g_group, "%wo of format bf16 has a group of 32, expected 0"},
      {g_experts, "routing by hand: token 0 goes to expert 3 twice"},
      {g_load, "the load of expert 1 is 3, but the table sends it 2 rows"},
      {g_chain,
       "block head takes %x (fp16, 48 elements), but block layer leaves %y (bf16"},
      {g_repeat, "block layer has a repeat count of 4, but the order runs it 3 times"},
      {g_source, "no op defines %x, and it is no input, weight or cache"});
}

static void
test_groups(void)
{
  CHECK(NMB_GROUPS, {k_missing, "block layer, glu %h is in no kernel"},
        {k_twice, "linear %q0 is in kernel 2 and in kernel 3"},
        {k_block,
         "kernel 3 of block embed holds an op of another: block layer, linear %k0"},
        {k_order, "glinear %u stands after an op that the block runs later"},
        {k_cycle, "kernel 1 takes %n of block layer from kernel 2, which comes after it"},
        {k_illegal,
         "no engine of fixture can run the 2 ops of kernel 11 (block layer, %a)"});
}

static void
test_dispatch(void)
{
  CHECK(NMB_DISPATCH, {d_op, "norm %n is on engine pim, which cannot run it"},
        {d_format, "glinear %d is on engine pim, which cannot run it in these formats"},
        {d_link, "kernel 1 (block layer, %n) is on link link, which runs no ops"},
        {d_none, "kernel 1 (block layer, %n) has engine -1, but fixture has 3"});
}

static void
test_mapping(void)
{
  CHECK(
      NMB_MAPPING,
      {m_tile, "kernel 12 (block layer, %o) has a tile of 3 along m, expected 0 to 2"},
      {m_row, "row 2 of the mapping is of kernel 3, expected kernel 2"},
      {m_count, "22 kernels have a mapping, expected all 23"},
      {m_local,
       "a tile of the inner values of kernel 17 (block layer, %g) takes 64 bytes, but "
       "buffer has 63"},
      {m_memory, "layout of %wd of block layer in hbm, where no engine that uses it"},
      {m_small,
       "layout of %wd of block layer in dram: bytes: found 1919, expected at least 1920"},
      {m_units, "rows of a unit: found 7, expected a divisor of 120"},
      {m_channels, "channels of a unit: found 5, expected 1 to 4"},
      {m_linear,
       "layout of %wd of block layer in dram is linear, but an engine computes there"},
      {m_two, "%wd of block layer has two layouts in dram"},
      {m_capacity, "take more than the 524288 bytes of dram"},
      {m_view, "layout of %d of block layer, which is no weight, cache or state"});
}

static void
test_schedule(void)
{
  CHECK(NMB_SCHEDULE,
        {s_missing, "kernel 22 (block head, %logits) stands in 0 steps, expected 1"},
        {s_twice, "kernel 3 (block layer, %k0) stands in 2 steps, expected 1"},
        {s_order, "starts at 1 ps, but the step before it at"},
        {s_dependence, "ps, but %e, which it needs, is ready at"},
        {s_busy, "ps on engine host, which is busy with step 2 until"},
        {s_block, "of block layer stands after block head"},
        {s_axis, "is cut into 2 parts, but along that axis 1 can be told apart"},
        {s_parts, "kernel 9 (block layer, %s) stands in 1 steps, expected 3"});
}

static void
test_memory(void)
{
  CHECK(NMB_MEMORY, {b_overlap, "of hbm overlap, and live at once"},
        {b_resident, "of dram overlap, and live at once as residents"},
        {b_under, "of hbm overlap, and live at once as residents"},
        {b_align, "of hbm, expected a multiple of 64"},
        {b_capacity, "ends past the end of hbm, which has 1048576 bytes"},
        {b_small, "%s) has 128 bytes, but needs 192"},
        {b_short, "lives from step 1 to step 6, but is used from 1 to 7"},
        {b_missing, "%logits of block head has no slot in hbm"},
        {b_two, "are the same buffer in hbm"},
        {b_block, "is live from step 1 to step 22, expected steps in 1 to 20"},
        {b_kind, "%wo) is transient, but its tensor is not"});
}

static void
test_code(void)
{
  CHECK(NMB_CODE, {c_past, "at 33 ends at byte 129 of slot 39, which has 128"},
        {c_layer, "ends at byte 1153 of slot 20, which has 1152"},
        {c_dead, "uses slot 5 (%n), which lives from step 1 to step 6"},
        {c_slot, "slot 40 holds %y in hbm, not tensor"},
        {c_again,
         "glinear %d: its 3 tiles of 768 points in all do not cover its 1920 points"},
        {c_less, "glinear %d: its 3 tiles of"},
        {c_outside, "tile [0, 25) along n, expected a part of [0, 24)"},
        {c_expert, "glinear %d: its 3 tiles of"},
        {c_append, "kvappend %k: 24 bytes are appended in hbm, expected 48"},
        {c_engine, "engine: found 2, expected that of its kernel, 0"},
        {c_channels, "channels [1, 5), expected a part of [0, 4)"},
        {c_unread, "no operand reads %d"}, {c_extra, "the op does not write %x1"},
        {c_link, "from hbm to hbm, which the link does not join"},
        {c_copied, "bytes read and copied: found 144, expected those written, 192"},
        {c_wait, "waits for 38, expected another instruction of its block, 1 to 35"},
        {c_wait_block, "waits for 0, expected another instruction of its block, 1 to 35"},
        {c_deadlock, "waits in its turn or stands behind one that does"},
        {c_deadlock_queue, "waits in its turn or stands behind one that does"},
        {c_read_after_write, "reads %e in slot 29 of hbm"},
        {c_no_sync, "reads %d in slot 37 of dram"},
        {c_sync_gone, "reads %h in slot 35 of dram"},
        {c_write_after_read, "reads as slot 30 (%e), but nothing orders the two"},
        {c_write_after_write, "writes, but nothing orders the two"},
        {c_never_written, "at byte 0, which nothing has written; expected all of [0, "},
        {c_partly_written, "at byte 190, which nothing has written"});
}

/* --------------------------------------------------------------------- cover */
enum { BYTES = 240, BASE = 1000 };

static nmb__runs
random_runs(nmb_run *run)
{
  static const int64_t strides[] = {12, 24, 24, 48, 20};
  nmb__runs r = {.rows = 1 + (int64_t)(nmb_rand(run) % 6), .stride = strides[nmb_rand(run) % 5]};
  r.width = 1 + (int64_t)(nmb_rand(run) % (uint64_t)(r.rows > 1 ? r.stride - 1 : 60));
  const int64_t room = BYTES - (r.rows - 1) * r.stride - r.width;
  r.at = BASE + (int64_t)(nmb_rand(run) % (uint64_t)(room > 0 ? room + 1 : 1));
  if (room < 0)
    r.rows = 1;
  return r;
}

static int64_t
table_gap(const bool *at, const nmb__runs *r)
{
  for (int64_t k = 0; k < r->rows; k++)
    for (int64_t i = 0; i < r->width; i++)
      if (!at[r->at - BASE + k * r->stride + i])
        return r->at + k * r->stride + i;
  return NMB_NONE;
}

static void
test_cover(void)
{
  nmb_run *run = nmb__run_open(NULL);
  nmb__boxes scratch = {0};
  int whole = 0, part = 0, wrong = 0;
  nmb__run_seed(run, 5);
  for (int round = 0; round < 200; round++) {
    bool at[BYTES] = {false};
    nmb__cover c = {.base = BASE, .pitch = round % 3 ? 24 : 48};
    for (int i = 0; i < 40; i++) {
      const nmb__runs r = random_runs(run), q = random_runs(run);
      const bool gone = nmb_rand(run) % 6 == 0;
      for (int64_t k = 0; k < r.rows; k++)
        memset(at + r.at - BASE + k * r.stride, !gone, (size_t)r.width);
      if (gone)
        nmb__cover_drop(run, &c, &r, 0, 1, &scratch);
      else
        nmb__cover_add(run, &c, &r, 0, 1, &scratch);
      const int64_t gap = nmb__cover_gap(run, &c, &q, 0, 1, &scratch);
      wrong += gap != table_gap(at, &q);
      (*(gap == NMB_NONE ? &whole : &part))++;
    }
  }
  CU_ASSERT_EQUAL(wrong, 0);
  CU_ASSERT(whole > 500 && part > 500);
  nmb__run_close(run);
}

static void
test_hash(void)
{
  nmb_prog *a = fixture_prog(), *b = nmb_prog_copy(a);
  CU_ASSERT_EQUAL(nmb_prog_hash(a, NMB_GRAPH), nmb_prog_hash(b, NMB_GRAPH));
  g_shape(b);
  CU_ASSERT_NOT_EQUAL(nmb_prog_hash(a, NMB_GRAPH), nmb_prog_hash(b, NMB_GRAPH));
  CU_ASSERT_EQUAL(nmb_prog_hash(a, NMB_GROUPS), 0);
  const uint64_t graph = nmb_prog_hash(a, NMB_GRAPH);
  nmb_section_begin(a, NMB_GROUPS);
  const uint64_t none = nmb_prog_hash(a, NMB_GROUPS);
  nmb_kernel_add(a, 0, (nmb_id[]){0}, 1);
  CU_ASSERT_NOT_EQUAL(nmb_prog_hash(a, NMB_GROUPS), none);
  CU_ASSERT_EQUAL(nmb_prog_hash(a, NMB_GRAPH), graph);
  nmb_prog_free(a);
  nmb_prog_free(b);
}

UNIT_MAIN("verify", {"faults in the graph are found", test_graph},
          {"faults in the groups are found", test_groups},
          {"faults in the dispatch are found", test_dispatch},
          {"faults in the mapping are found", test_mapping},
          {"faults in the schedule are found", test_schedule},
          {"faults in the memory plan are found", test_memory},
          {"faults in the code are found", test_code},
          {"written bytes as boxes are those of a table of bytes", test_cover},
          {"a section's hash tells what it holds", test_hash})
