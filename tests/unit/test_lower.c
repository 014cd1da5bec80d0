/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Lowering: exact instructions on a machine small enough to count by hand, and
 * conservation over random shapes, tilings, layouts and parts. */
#include <stdio.h>

#include "ir/census.h"
#include "ir/lower.h"
#include "nmbench/nmb_plan.h"
#include "tests/unit/fixture.h"
#include "tests/unit/unit.h"

/* Two channels of two banks, pages of 64 bytes, bursts of 16; `devices` of all. */
enum { RAM, BANKS, CACHE, ACC, NMEM };
enum { HOST, PIM, COPIER, RING, PIMRING, NENGINE };
static nmb_mem mems[NMEM];
static nmb_engine engines[NENGINE];

static nmb_hw
machine(int devices)
{
  const nmb_mem m = {.devices = devices,
                     .bytes = 1 << 24,
                     .bytes_per_s = 1e9,
                     .channels = 1,
                     .banks = 1,
                     .align = 16};
  for (int i = 0; i < NMEM; i++)
    mems[i] = m;
  mems[RAM].name = "ram";
  mems[BANKS].name = "banks";
  mems[BANKS].channels = 2 * devices;
  mems[BANKS].banks = 2;
  mems[BANKS].page_bytes = 64;
  mems[BANKS].burst_bytes = 16;
  mems[CACHE].name = "cache";
  mems[ACC].name = "acc";
  mems[CACHE].local = mems[ACC].local = true;
  mems[CACHE].bytes = 4096;
  const nmb_engine e = {.devices = devices,
                        .resident = RAM,
                        .home = RAM,
                        .local = CACHE,
                        .from = NMB_NONE,
                        .to = NMB_NONE,
                        .ops = ~UINT64_C(0),
                        .weights = ~0u,
                        .values = ~0u,
                        .impl = &fixture_model};
  for (int i = 0; i < NENGINE; i++)
    engines[i] = e;
  engines[HOST].name = "host";
  engines[PIM].name = "pim";
  engines[PIM].resident = engines[PIM].home = BANKS;
  engines[PIM].local = ACC;
  engines[PIM].in_memory = engines[PIM].rows_one_by_one = true;
  const nmb_id ends[3][2] = {{RAM, BANKS}, {RAM, RAM}, {BANKS, BANKS}};
  for (int i = COPIER; i < NENGINE; i++) {
    engines[i].name = i == COPIER ? "copier" : i == RING ? "ring" : "pimring";
    engines[i].model = "link";
    engines[i].resident = engines[i].home = engines[i].local = NMB_NONE;
    engines[i].ops = 0;
    engines[i].from = ends[i - COPIER][0];
    engines[i].to = ends[i - COPIER][1];
  }
  return (nmb_hw){.name = "tiny",
                  .devices = devices,
                  .nmem = NMEM,
                  .nengine = NENGINE,
                  .mem = mems,
                  .engine = engines,
                  .host = HOST};
}

static nmb_prog *
program(const nmb_hw *hw, int64_t batch, int64_t fresh)
{
  nmb_prog *p = nmb_prog_new("tiny", (nmb_step_spec){NMB_DECODE, batch, fresh, 8});
  nmb_prog_set_hw(p, hw);
  nmb_block_add(p, "b");
  nmb_order_add(p, 0, 3);
  return p;
}

static nmb_id
act(nmb_prog *p, const char *name, const int64_t *dim)
{
  return fixture_tensor(p, 0, name, NMB_ROLE_ACT, NMB_DT_BF16, dim);
}

/* Every op a kernel of its own on `engine`, steps in order. */
static void
plan(nmb_prog *p, nmb_id engine)
{
  nmb_section_begin(p, NMB_GROUPS);
  for (int i = 0; i < p->block[0].nop; i++)
    nmb_kernel_add(p, 0, &p->block[0].op[i], 1);
  nmb_section_begin(p, NMB_DISPATCH);
  for (int i = 0; i < p->nkernel; i++)
    nmb_dispatch_set(p, i, engine);
  nmb_section_begin(p, NMB_SCHEDULE);
  for (int i = 0; i < p->nkernel; i++)
    nmb_step_add(p, &(nmb_step){.kernel = i, .nparts = 1});
}

static void
check_tile(const nmb_insn *in, int64_t b0, int64_t b1, int64_t m0, int64_t m1, int64_t n0,
           int64_t n1)
{
  const nmb_tile *t = &in->tile;
  CU_ASSERT(t->b0 == b0 && t->b1 == b1 && t->m0 == m0 && t->m1 == m1 && t->n0 == n0 &&
            t->n1 == n1);
}

static void
check_operand(const nmb_operand *o, nmb_id tensor, nmb_id mem, bool write, int64_t offset,
              int64_t rows, int64_t row_bytes)
{
  CU_ASSERT(o->tensor == tensor && o->mem == mem && o->write == write);
  CU_ASSERT_EQUAL(o->offset, offset);
  CU_ASSERT_EQUAL(o->rows, rows);
  CU_ASSERT_EQUAL(o->row_bytes, row_bytes);
}

static nmb_prog *
one_linear(const nmb_hw *hw, int64_t m, int64_t n, int64_t k, nmb_id engine)
{
  nmb_prog *p = program(hw, m, 1);
  const nmb_id x = act(p, "x", FIXTURE_DIMS(m, k)); /* 0 */
  const nmb_id w = fixture_weight(p, 0, "w", FIXTURE_DIMS(n, k));
  const nmb_id y =
      fixture_op(p, 0, NMB_OP_LINEAR, "y", FIXTURE_IN(x, w), NULL, FIXTURE_DIMS(m, n));
  nmb_block_ends(p, 0, x, y);
  plan(p, engine);
  return p;
}

static void
test_linear_on_host(void)
{
  const nmb_hw hw = machine(1);
  nmb_run *run = nmb__run_open(NULL);
  nmb_prog *p = one_linear(&hw, 3, 24, 40, HOST);
  nmb_insns l = {0};
  CU_ASSERT_EQUAL(nmb_lower_step(run, p, &p->step[0], NULL, NULL, 0, &l), NMB_OK);
  CU_ASSERT_EQUAL_FATAL(l.n, 1);
  check_tile(&l.v[0], 0, 1, 0, 3, 0, 24);
  CU_ASSERT(l.v[0].first && l.v[0].tile.k1 == 40 && l.v[0].place.nchannel == 0);
  check_operand(&l.v[0].opnd[0], 0, RAM, false, 0, 3, 80);
  check_operand(&l.v[0].opnd[1], 1, RAM, false, 0, 1, 24 * 80);
  check_operand(&l.v[0].opnd[2], 2, RAM, true, 0, 3, 48);
  l.n = 0;
  const nmb_map map = {.tile_m = 2, .tile_n = 10, .reuse = 1};
  CU_ASSERT_EQUAL(nmb_lower_step(run, p, &p->step[0], &map, NULL, 0, &l), NMB_OK);
  CU_ASSERT_EQUAL_FATAL(l.n, 6); /* m before n */
  check_tile(&l.v[2], 0, 1, 0, 2, 20, 24);
  check_tile(&l.v[4], 0, 1, 2, 3, 10, 20);
  CU_ASSERT(l.v[0].first && !l.v[1].first && !l.v[5].first);
  check_operand(&l.v[4].opnd[0], 0, RAM, false, 160, 1, 80);
  check_operand(&l.v[4].opnd[1], 1, RAM, false, 800, 1, 800);
  check_operand(&l.v[4].opnd[2], 2, RAM, true, 2 * 48 + 20, 1, 20);
  CU_ASSERT_EQUAL(l.v[2].opnd[2].stride, 48);
  nmb_prog_free(p);
  nmb__run_close(run);
}

static nmb_place
place_of(nmb_run *run, const nmb_prog *p, nmb_lay_kind kind, bool padded,
         const nmb_map *map, int at, int64_t *bytes)
{
  nmb_layout lay;
  nmb_insns l = {0};
  nmb_layout_make(p, 1, BANKS, kind, 2, padded, &lay);
  *bytes = lay.bytes;
  CU_ASSERT_EQUAL(nmb_lower_step(run, p, &p->step[0], map, &lay, 1, &l), NMB_OK);
  CU_ASSERT_FATAL(l.n > at + 1);
  CU_ASSERT_EQUAL(l.v[l.n - 1].kind, NMB_INSN_SYNC);
  return l.v[at].place;
}

/* 10 rows of 80 bytes on 4 lanes: 3, 3, 3 and 1 in blocks, or dealt in turn. */
static void
test_linear_in_banks(void)
{
  const nmb_hw hw = machine(1);
  nmb_run *run = nmb__run_open(NULL);
  nmb_prog *p = one_linear(&hw, 3, 10, 40, PIM);
  const nmb_map thirds = {.tile_n = 3, .reuse = 2};
  int64_t bytes;
  nmb_place x = place_of(run, p, NMB_LAY_BLOCKED, false, NULL, 0, &bytes);
  CU_ASSERT(x.channel0 == 0 && x.nchannel == 2 && x.banks == 2 && x.vectors == 3);
  CU_ASSERT(x.rows_per_bank == 3 && x.bursts == 5 && x.reuse == 1);
  CU_ASSERT_EQUAL(x.pages, 2); /* starts at 0, 16, 32 or 48 of a page: 2 each time */
  CU_ASSERT_EQUAL(x.opens, 4); /* 240 bytes in a row */
  CU_ASSERT_EQUAL(bytes, 800);
  x = place_of(run, p, NMB_LAY_BLOCKED, true, NULL, 0, &bytes);
  CU_ASSERT(x.pages == 2 && x.opens == 6 && bytes == 10 * 128);
  x = place_of(run, p, NMB_LAY_BLOCKED, false, &thirds, 1, &bytes); /* rows 3, 4, 5 */
  CU_ASSERT(x.channel0 == 0 && x.nchannel == 1 && x.banks == 1 && x.rows_per_bank == 3);
  CU_ASSERT_EQUAL(x.reuse, 2);
  x = place_of(run, p, NMB_LAY_BLOCKED, false, &thirds, 3, &bytes); /* row 9 */
  CU_ASSERT(x.channel0 == 1 && x.nchannel == 1 && x.rows_per_bank == 1);
  x = place_of(run, p, NMB_LAY_INTERLEAVED, false, NULL, 0, &bytes);
  CU_ASSERT(x.nchannel == 2 && x.banks == 2 && x.rows_per_bank == 3);
  x = place_of(run, p, NMB_LAY_INTERLEAVED, false, &thirds, 0,
               &bytes); /* lanes 0, 1, 2 */
  CU_ASSERT(x.nchannel == 2 && x.banks == 2 && x.rows_per_bank == 1);
  nmb_prog_free(p);
  nmb__run_close(run);
}

/* 2 sequences, 3 KV heads of 2 queries: q [2,6,4], caches [2,9,3,4]. */
static nmb_prog *
attention(const nmb_hw *hw, nmb_id engine)
{
  nmb_prog *p = program(hw, 2, 1);
  const nmb_id q = act(p, "q", FIXTURE_DIMS(2, 6, 4));
  const nmb_id k =
      fixture_tensor(p, 0, "k", NMB_ROLE_KV, NMB_DT_BF16, FIXTURE_DIMS(2, 9, 3, 4));
  const nmb_id v =
      fixture_tensor(p, 0, "v", NMB_ROLE_KV, NMB_DT_BF16, FIXTURE_DIMS(2, 9, 3, 4));
  const nmb_id kn = act(p, "kn", FIXTURE_DIMS(2, 3, 4));
  const nmb_id k1 = fixture_op(p, 0, NMB_OP_KVAPPEND, "k1", FIXTURE_IN(k, kn),
                               FIXTURE_ATTR(NMB_INT("at", 8)), FIXTURE_DIMS(2, 9, 3, 4));
  const nmb_id s =
      fixture_op(p, 0, NMB_OP_QK, "s", FIXTURE_IN(q, k1), NULL, FIXTURE_DIMS(6, 2, 9));
  const nmb_id r =
      fixture_op(p, 0, NMB_OP_SOFTMAX, "r", FIXTURE_IN(s), NULL, FIXTURE_DIMS(6, 2, 9));
  const nmb_id y =
      fixture_op(p, 0, NMB_OP_PV, "y", FIXTURE_IN(r, v), NULL, FIXTURE_DIMS(2, 6, 4));
  nmb_block_ends(p, 0, q, y);
  plan(p, engine);
  return p;
}

static void
test_waves(void)
{
  const nmb_hw hw = machine(1);
  nmb_run *run = nmb__run_open(NULL);
  nmb_prog *p = attention(&hw, PIM);
  nmb_layout lay;
  nmb_insns l = {0};
  nmb_layout_make(p, 1, BANKS, NMB_LAY_BLOCKED, 1, false, &lay);
  CU_ASSERT_EQUAL(nmb_lower_step(run, p, &p->step[1], NULL, &lay, 1, &l), NMB_OK);
  /* two side by side, and pieces within a sequence */
  CU_ASSERT_EQUAL_FATAL(l.n, 4 + 1);
  static const int want[4][4] = {{0, 2, 0, 2}, {2, 3, 0, 1}, {3, 4, 1, 1}, {4, 6, 0, 2}};
  for (int i = 0; i < 4; i++) {
    check_tile(&l.v[i], want[i][0], want[i][1], 0, 2, 0, 9);
    CU_ASSERT_EQUAL(l.v[i].place.channel0, want[i][2]);
    CU_ASSERT_EQUAL(l.v[i].place.nchannel, want[i][3]);
    CU_ASSERT_EQUAL(l.v[i].place.rows_per_bank, 5); /* 9 positions on 2 banks */
  }
  /* unit 2: head 2 of sequence 0: positions 8 bytes wide, 24 apart */
  check_operand(&l.v[1].opnd[0], 0, BANKS, false, 4 * 8, 1, 16);
  check_operand(&l.v[1].opnd[1], 1, BANKS, false, 16, 9, 8);
  CU_ASSERT_EQUAL(l.v[1].opnd[1].stride, 24);
  check_operand(&l.v[1].opnd[2], p->op[1].out[0], BANKS, true, 2 * 36, 2, 18);
  nmb_layout_make(p, 1, BANKS, NMB_LAY_BLOCKED, 2, false, &lay);
  l.n = 0;
  CU_ASSERT_EQUAL(nmb_lower_step(run, p, &p->step[1], NULL, &lay, 1, &l), NMB_OK);
  CU_ASSERT_EQUAL_FATAL(l.n, 6 + 1); /* one at a time, on both */
  CU_ASSERT(l.v[5].place.nchannel == 2 && l.v[5].place.rows_per_bank == 3);
  nmb_layout_make(p, 2, BANKS, NMB_LAY_BLOCKED, 1, false, &lay);
  CU_ASSERT_EQUAL(lay.unit_rows, 4); /* values lie transposed */
  nmb_prog_free(p);
  nmb__run_close(run);
}

static void
test_append(void)
{
  const nmb_hw hw = machine(1);
  nmb_run *run = nmb__run_open(NULL);
  nmb_prog *p = attention(&hw, HOST);
  nmb_insns l = {0};
  CU_ASSERT_EQUAL(nmb_lower_step(run, p, &p->step[0], NULL, NULL, 0, &l), NMB_OK);
  CU_ASSERT_EQUAL_FATAL(l.n, 1);
  check_operand(&l.v[0].opnd[1], 1, RAM, true, 8 * 24, 2, 24);
  CU_ASSERT_EQUAL(l.v[0].opnd[1].stride, 9 * 24);
  nmb_dispatch_set(p, 1, PIM); /* now qk keeps it in the banks */
  l.n = 0;
  CU_ASSERT_EQUAL(nmb_lower_step(run, p, &p->step[0], NULL, NULL, 0, &l), NMB_OK);
  CU_ASSERT_EQUAL_FATAL(l.n, 1);
  CU_ASSERT(l.v[0].kind == NMB_INSN_COPY && l.v[0].engine == COPIER);
  check_operand(&l.v[0].opnd[1], 1, BANKS, true, 8 * 24, 2, 24);
  l.n = 0; /* and q has to come */
  CU_ASSERT_EQUAL(nmb_lower_transfer(run, p, 0, &p->step[1], &l), NMB_OK);
  CU_ASSERT_EQUAL_FATAL(l.n, 1);
  CU_ASSERT(l.v[0].kind == NMB_INSN_COPY && l.v[0].opnd[0].mem == RAM);
  nmb_prog_free(p);
  nmb__run_close(run);
}

static void
test_fused(void)
{
  const nmb_hw hw = machine(1);
  nmb_run *run = nmb__run_open(NULL);
  nmb_prog *p = program(&hw, 5, 1);
  const nmb_id x = act(p, "x", FIXTURE_DIMS(5, 8));
  const nmb_id w = fixture_weight(p, 0, "w", FIXTURE_DIMS(300, 8));
  const nmb_id h =
      fixture_op(p, 0, NMB_OP_LINEAR, "h", FIXTURE_IN(x, w), NULL, FIXTURE_DIMS(5, 300));
  const nmb_id a =
      fixture_op(p, 0, NMB_OP_ACT, "a", FIXTURE_IN(h), NULL, FIXTURE_DIMS(5, 300));
  const nmb_id z =
      fixture_op(p, 0, NMB_OP_ADD, "z", FIXTURE_IN(a, h), NULL, FIXTURE_DIMS(5, 300));
  nmb_block_ends(p, 0, x, z);
  const nmb_id ops[] = {0, 1, 2}, ends[] = {0, 2}, last[] = {1, 2};
  const char *why;
  CU_ASSERT_TRUE(nmb_fuse_legal(p, HOST, ops, 3, &why));
  CU_ASSERT_FALSE(nmb_fuse_legal(p, HOST, ends, 2, &why));
  CU_ASSERT_STRING_EQUAL(why, "a path leaves the kernel and comes back");
  CU_ASSERT_TRUE(nmb_fuse_legal(p, HOST, last, 2, &why));
  nmb_section_begin(p, NMB_GROUPS);
  nmb_kernel_add(p, 0, ops, 3);
  nmb_section_begin(p, NMB_DISPATCH);
  nmb_dispatch_set(p, 0, HOST);
  nmb_section_begin(p, NMB_SCHEDULE);
  nmb_step_add(p, &(nmb_step){.kernel = 0, .nparts = 1});
  nmb_map map;
  nmb_map_default(p, 0, &map);
  CU_ASSERT(map.tile_m == 3 && map.tile_n == 0); /* 2 values of 600 bytes a row in 4096 */
  nmb_insns l = {0};
  CU_ASSERT_EQUAL(nmb_lower_step(run, p, &p->step[0], NULL, NULL, 0, &l), NMB_OK);
  CU_ASSERT_EQUAL_FATAL(l.n, 6);
  CU_ASSERT(l.v[0].op == 0 && l.v[1].op == 1 && l.v[2].op == 2 && l.v[3].op == 0);
  check_operand(&l.v[4].opnd[0], h, CACHE, false, 0, 2, 600); /* rows 3, 4 at 0 */
  check_operand(&l.v[5].opnd[2], z, RAM, true, 1800, 2, 600);
  nmb_slot *slot;
  int n, local = 0;
  CU_ASSERT_EQUAL(nmb_buffers(run, p, &slot, &n), NMB_OK);
  for (int i = 0; i < n; i++)
    if (slot[i].mem == CACHE) {
      local++;
      CU_ASSERT_EQUAL(slot[i].bytes, 1808); /* 3 rows, aligned */
    }
  CU_ASSERT_EQUAL(local, 2);
  nmb_prog_free(p);
  nmb__run_close(run);
}

/* ------------------------------------------------------------------ devices */
static void
test_devices(void)
{
  const nmb_hw hw = machine(4);
  nmb_run *run = nmb__run_open(NULL);
  nmb_prog *p = program(&hw, 3, 1);
  const nmb_id x = act(p, "x", FIXTURE_DIMS(3, 16)),
               wn = fixture_weight(p, 0, "wn", FIXTURE_DIMS(24));
  const nmb_id w = fixture_weight(p, 0, "w", FIXTURE_DIMS(24, 16));
  const nmb_id y =
      fixture_op(p, 0, NMB_OP_LINEAR, "y", FIXTURE_IN(x, w), NULL, FIXTURE_DIMS(3, 24));
  const nmb_id a =
      fixture_op(p, 0, NMB_OP_ACT, "a", FIXTURE_IN(y), NULL, FIXTURE_DIMS(3, 24));
  const nmb_id z =
      fixture_op(p, 0, NMB_OP_NORM, "z", FIXTURE_IN(a, wn), NULL, FIXTURE_DIMS(3, 24));
  nmb_block_ends(p, 0, x, z);
  plan(p, HOST);
  nmb_insns l = {0};
  CU_ASSERT_EQUAL(nmb_lower_transfer(run, p, x, &p->step[0], &l), NMB_OK);
  CU_ASSERT_EQUAL(nmb_lower_transfer(run, p, y, &p->step[1], &l), NMB_OK);
  CU_ASSERT_EQUAL(l.n, 0); /* each device goes on with what it made */
  CU_ASSERT_EQUAL(nmb_lower_transfer(run, p, a, &p->step[2], &l), NMB_OK);
  CU_ASSERT_EQUAL_FATAL(l.n, 2);
  CU_ASSERT(l.v[0].kind == NMB_INSN_GATHER && l.v[0].engine == RING);
  CU_ASSERT(l.v[1].kind == NMB_INSN_BCAST && l.v[1].engine == RING);
  nmb_slot *slot;
  int n;
  CU_ASSERT_EQUAL(nmb_buffers(run, p, &slot, &n), NMB_OK);
  for (int i = 0; i < n; i++) {
    if (slot[i].tensor == y) /* stays in parts */
      CU_ASSERT_EQUAL(slot[i].bytes, 144);
    if (slot[i].tensor == a || slot[i].tensor == z) /* a copy on each */
      CU_ASSERT_EQUAL(slot[i].bytes, 4 * 144);
  }
  const nmb_id both[] = {0, 1, 2};
  CU_ASSERT_TRUE(nmb_fuse_legal(p, HOST, both, 2, NULL));
  CU_ASSERT_FALSE(nmb_fuse_legal(p, HOST, both, 3, NULL));
  nmb_prog_free(p);
  nmb__run_close(run);
}

/* ------------------------------------------------------------- conservation */
static int64_t
pick(nmb_run *run, int64_t lo, int64_t hi)
{
  return lo + (int64_t)(nmb_rand(run) % (uint64_t)(hi - lo + 1));
}

/* A program of one op of random shape; the op's output is the last tensor. */
static nmb_prog *
random_op(nmb_run *run, const nmb_hw *hw, nmb_opcode code)
{
  const int64_t B = pick(run, 1, 4), fresh = pick(run, 1, 3), T = B * fresh;
  const int64_t nk = pick(run, 1, 4), nh = nk * pick(run, 1, 3), S = pick(run, 3, 20);
  const int64_t N = pick(run, 1, 40), K = pick(run, 1, 40);
  nmb_prog *p = program(hw, B, fresh);
  nmb_id x, w, y;
  if (code == NMB_OP_LINEAR) {
    x = act(p, "x", FIXTURE_DIMS(T, K));
    w = fixture_weight(p, 0, "w", FIXTURE_DIMS(N, K));
    y = fixture_op(p, 0, code, "y", FIXTURE_IN(x, w), NULL, FIXTURE_DIMS(T, N));
  } else if (code == NMB_OP_HLINEAR) {
    x = act(p, "x", FIXTURE_DIMS(T, nh, K));
    w = fixture_weight(p, 0, "w", FIXTURE_DIMS(nh, N, K));
    y = fixture_op(p, 0, code, "y", FIXTURE_IN(x, w), NULL, FIXTURE_DIMS(T, nh, N));
  } else if (code == NMB_OP_GLINEAR) {
    const int E = (int)pick(run, 3, 7);
    int32_t *e = NMB_NEW(run, int32_t, 2 * T);
    for (int64_t t = 0; t < T; t++) {
      e[2 * t] = (int32_t)pick(run, 0, E - 1);
      e[2 * t + 1] = (e[2 * t] + 1) % E;
    }
    nmb_routing_add(p, "random", E, 2, T, e);
    x = act(p, "x", FIXTURE_DIMS(2 * T, K));
    w = fixture_weight(p, 0, "w", FIXTURE_DIMS(E, N, K));
    y = fixture_op(p, 0, code, "y", FIXTURE_IN(x, w), FIXTURE_ATTR(NMB_INT("routing", 0)),
                   FIXTURE_DIMS(2 * T, N));
  } else {
    const int64_t u = B * nk, g = fresh * nh / nk;
    w = fixture_tensor(p, 0, "w", NMB_ROLE_KV, NMB_DT_BF16, FIXTURE_DIMS(B, S, nk, K));
    x = code == NMB_OP_QK ? act(p, "x", FIXTURE_DIMS(T, nh, K))
                          : act(p, "x", FIXTURE_DIMS(u, g, S));
    y = fixture_op(p, 0, code, "y", FIXTURE_IN(x, w), NULL,
                   code == NMB_OP_QK ? FIXTURE_DIMS(u, g, S) : FIXTURE_DIMS(T, nh, K));
  }
  nmb_block_ends(p, 0, x, y);
  return p;
}

/* Marks the bytes of an operand; false if one lies outside or is written twice. */
static bool
mark(const nmb_operand *o, int64_t bytes, unsigned char *seen)
{
  for (int64_t r = 0; r < o->rows; r++)
    for (int64_t c = 0; c < o->row_bytes; c++) {
      const int64_t at = o->offset + r * o->stride + c;
      if (at < 0 || at >= bytes || (o->write && seen[at]))
        return false;
      seen[at] = 1;
    }
  return true;
}

/* All steps of the program write each byte of y once, and touch each of the weight
 * that counts; the tiles do all MACs. */
static void
check_work(nmb_run *run, const nmb_prog *p, const nmb_map *map, const nmb_layout *lay)
{
  const nmb_op *o = &p->op[0];
  const nmb_id y = o->out[0], w = o->in[1];
  const int64_t ybytes = nmb_tensor_bytes(&p->tensor[y]),
                wbytes = nmb_tensor_bytes(&p->tensor[w]);
  unsigned char *made = NMB_NEW(run, unsigned char, ybytes),
                *used = NMB_NEW(run, unsigned char, wbytes);
  int64_t macs = 0, nmade = 0, nused = 0;
  bool inside = true;
  nmb_insns l = {0};
  for (int s = 0; s < p->nstep; s++)
    CU_ASSERT_EQUAL(nmb_lower_step(run, p, &p->step[s], map, lay, lay ? 1 : 0, &l),
                    NMB_OK);
  for (int i = 0; i < l.n; i++) {
    if (l.v[i].kind != NMB_INSN_EXEC)
      continue;
    macs += nmb_op_macs(p, 0, &l.v[i].tile);
    for (int j = 0; j < l.v[i].nopnd; j++) {
      const nmb_operand *x = &l.v[i].opnd[j];
      if (x->tensor == y)
        inside &= mark(x, ybytes, made);
      if (x->tensor == w)
        inside &= mark(x, wbytes, used);
    }
    const nmb_place *pl = &l.v[i].place;
    if (p->hw->engine[p->kernel[0].engine].in_memory)
      CU_ASSERT(pl->channel0 >= 0 && pl->nchannel > 0 &&
                pl->channel0 + pl->nchannel <= 2 && pl->banks >= 1 && pl->banks <= 2 &&
                pl->rows_per_bank > 0);
  }
  CU_ASSERT_TRUE(inside);
  CU_ASSERT_EQUAL(macs, nmb_op_macs(p, 0, NULL));
  for (int64_t i = 0; i < ybytes; i++)
    nmade += made[i];
  CU_ASSERT_EQUAL(nmade, ybytes);
  for (int64_t i = 0; i < wbytes; i++)
    nused += used[i];
  const int64_t reached = o->code == NMB_OP_GLINEAR ? p->routing[0].reached : 1;
  const int64_t all = o->code == NMB_OP_GLINEAR ? p->routing[0].experts : 1;
  CU_ASSERT_EQUAL(nused, wbytes / all * reached);
}

static void
test_random(void)
{
  static const nmb_opcode code[] = {NMB_OP_LINEAR, NMB_OP_HLINEAR, NMB_OP_GLINEAR,
                                    NMB_OP_QK, NMB_OP_PV};
  const nmb_hw hw = machine(1);
  nmb_run *run = nmb__run_open(NULL);
  nmb__run_seed(run, 11);
  for (int i = 0; i < 1500; i++) {
    const size_t mark_ = nmb__run_mark(run);
    nmb_prog *p = random_op(run, &hw, code[i % 5]);
    const nmb_id engine = pick(run, 0, 1) ? PIM : HOST;
    plan(p, engine);
    const nmb_axis axis = pick(run, 0, 1) ? NMB_AXIS_BATCH : NMB_AXIS_HEAD;
    const int64_t parts = nmb_kernel_extent(p, 0, axis);
    if (parts > 1 && pick(run, 0, 1)) {
      nmb_section_begin(p, NMB_SCHEDULE);
      for (int j = 0; j < parts; j++)
        nmb_step_add(p, &(nmb_step){.axis = axis, .part = j, .nparts = (int)parts});
    }
    const nmb_map map = {.tile_b = pick(run, 0, 5),
                         .tile_m = pick(run, 0, 5),
                         .tile_n = pick(run, 0, 9),
                         .reuse = pick(run, 1, 3)};
    nmb_layout lay;
    nmb_layout_make(p, 0, engine == PIM ? BANKS : RAM, NMB_LAY_BLOCKED, 1, false, &lay);
    nmb_layout_make(p, p->op[0].in[1], engine == PIM ? BANKS : RAM,
                    pick(run, 0, 1) ? NMB_LAY_BLOCKED : NMB_LAY_INTERLEAVED,
                    (int)pick(run, 1, 2), pick(run, 0, 1) != 0, &lay);
    check_work(run, p, &map, &lay);
    nmb_prog_free(p);
    nmb__run_release(run, mark_);
  }
  nmb__run_close(run);
}

/* Lanes times rows of the busiest lane are never fewer than the rows there are. */
static void
test_capacity(void)
{
  const nmb_hw hw = machine(4); /* 8 channels */
  nmb_run *run = nmb__run_open(NULL);
  nmb__run_seed(run, 3);
  for (int i = 0; i < 300; i++) {
    const int64_t n = pick(run, 1, 200);
    nmb_prog *p = one_linear(&hw, 1, n, 8, PIM);
    nmb_layout lay;
    nmb_insns l = {0};
    nmb_layout_make(p, 1, BANKS, pick(run, 0, 1) ? NMB_LAY_BLOCKED : NMB_LAY_INTERLEAVED,
                    (int)pick(run, 1, 8), false, &lay);
    const nmb_map map = {.tile_n = pick(run, 0, 30), .reuse = 1};
    CU_ASSERT_EQUAL(nmb_lower_step(run, p, &p->step[0], &map, &lay, 1, &l), NMB_OK);
    for (int j = 0; j < l.n; j++) {
      const nmb_place *x = &l.v[j].place;
      const int64_t rows = l.v[j].tile.n1 - l.v[j].tile.n0;
      if (l.v[j].kind != NMB_INSN_EXEC)
        continue;
      CU_ASSERT(x->rows_per_bank * x->banks * x->nchannel >= rows);
      CU_ASSERT(x->rows_per_bank <= rows && x->nchannel <= lay.channels);
    }
    nmb_prog_free(p);
  }
  nmb__run_close(run);
}

/* -------------------------------------------------------------------- parts */
static void
test_parts(void)
{
  const nmb_hw hw = machine(1);
  nmb_prog *p = attention(&hw, PIM);
  CU_ASSERT_EQUAL(nmb_kernel_extent(p, 1, NMB_AXIS_BATCH), 2);
  CU_ASSERT_EQUAL(nmb_kernel_extent(p, 1, NMB_AXIS_HEAD), 3);
  CU_ASSERT_EQUAL(nmb_kernel_extent(p, 0, NMB_AXIS_HEAD), 3);
  CU_ASSERT_TRUE(nmb_kernel_separable(p, 3, NMB_AXIS_BATCH));
  CU_ASSERT_FALSE(nmb_kernel_separable(p, 3, NMB_AXIS_NONE));
  const nmb_step a = {.kernel = 1, .axis = NMB_AXIS_HEAD, .part = 1, .nparts = 3};
  nmb_step b = {.kernel = 2, .axis = NMB_AXIS_HEAD, .part = 1, .nparts = 3};
  CU_ASSERT_TRUE(nmb_parts_depend(p, &a, &b));
  CU_ASSERT_FALSE(nmb_parts_depend(p, &b, &a));
  b.part = 2;
  CU_ASSERT_FALSE(nmb_parts_depend(p, &a, &b));
  b.axis = NMB_AXIS_BATCH;
  CU_ASSERT_TRUE(nmb_parts_depend(p, &a, &b));
  CU_ASSERT_FALSE(nmb_step_depends(p, 1, 1));
  CU_ASSERT_FALSE(nmb_step_depends(p, 1, 3)); /* through softmax only */
  nmb_prog_free(p);
  /* experts' rows are scattered over the sequences */
  nmb_run *run = nmb__run_open(NULL);
  p = random_op(run, &hw, NMB_OP_GLINEAR);
  plan(p, HOST);
  CU_ASSERT_FALSE(nmb_kernel_separable(p, 0, NMB_AXIS_BATCH));
  nmb_prog_free(p);
  nmb__run_close(run);
}

/* ------------------------------------------------------------------- buffers */
static void
test_live_ranges(void)
{
  const nmb_hw hw = machine(1);
  nmb_run *run = nmb__run_open(NULL);
  nmb_prog *p = program(&hw, 3, 1);
  const nmb_id x = act(p, "x", FIXTURE_DIMS(3, 10));
  const nmb_id w = fixture_weight(p, 0, "w", FIXTURE_DIMS(14, 10));
  const nmb_id a =
      fixture_op(p, 0, NMB_OP_LINEAR, "a", FIXTURE_IN(x, w), NULL, FIXTURE_DIMS(3, 14));
  const nmb_id v = fixture_op(p, 0, NMB_OP_SPLIT, "v", FIXTURE_IN(a),
                              FIXTURE_ATTR(NMB_INT("first", 4), NMB_INT("count", 10)),
                              FIXTURE_DIMS(3, 10));
  const nmb_id c =
      fixture_op(p, 0, NMB_OP_ACT, "c", FIXTURE_IN(x), NULL, FIXTURE_DIMS(3, 10));
  const nmb_id y =
      fixture_op(p, 0, NMB_OP_ADD, "y", FIXTURE_IN(v, c), NULL, FIXTURE_DIMS(3, 10));
  nmb_block_ends(p, 0, x, y);
  plan(p, HOST);
  nmb_slot *slot;
  nmb_insns l = {0};
  int n;
  CU_ASSERT_EQUAL(nmb_buffers(run, p, &slot, &n), NMB_OK);
  CU_ASSERT_EQUAL(n, 5); /* the view has none of its own */
  for (int i = 0; i < n; i++) {
    const nmb_slot *s = &slot[i];
    if (s->tensor == w) {
      CU_ASSERT(s->resident && s->first == NMB_NONE);
      CU_ASSERT_EQUAL(s->bytes, 3 * 288); /* 280 bytes, aligned, in 3 layers */
    } else if (s->tensor == a) {
      CU_ASSERT(s->first == 0 && s->last == 3 && s->bytes == 96);
    } else if (s->tensor == c) {
      CU_ASSERT(s->first == 2 && s->last == 3);
    } else {
      CU_ASSERT((s->tensor == x || s->tensor == y) && s->first == 0 && s->last == 3);
    }
  }
  CU_ASSERT_EQUAL(nmb_lower_step(run, p, &p->step[1], NULL, NULL, 0, &l), NMB_OK);
  CU_ASSERT_EQUAL(l.n, 0); /* no data moves */
  CU_ASSERT_EQUAL(nmb_lower_step(run, p, &p->step[3], NULL, NULL, 0, &l), NMB_OK);
  check_operand(&l.v[0].opnd[0], a, RAM, false, 8, 3, 20);
  CU_ASSERT_EQUAL(l.v[0].opnd[0].stride, 28);
  nmb_prog_free(p);
  nmb__run_close(run);
}

static void
test_census(void)
{
  const nmb_hw hw = machine(1);
  nmb_run *run = nmb__run_open(NULL);
  nmb_prog *p = one_linear(&hw, 3, 24, 40, HOST);
  const nmb_map map = {.tile_m = 2, .reuse = 1};
  nmb_insns l = {0};
  nmb__census c;
  CU_ASSERT_EQUAL(nmb_lower_step(run, p, &p->step[0], &map, NULL, 0, &l), NMB_OK);
  nmb_section_begin(p, NMB_CODE);
  for (int i = 0; i < l.n; i++)
    nmb_insn_add(p, &l.v[i]);
  nmb__code_census(run, p, &c);
  CU_ASSERT_EQUAL(c.macs, 3.0 * 3 * 24 * 40); /* three layers */
  CU_ASSERT_EQUAL(c.weight_bytes_once, 3.0 * 1920);
  CU_ASSERT_EQUAL(c.weight_bytes_moved, 3.0 * 2 * 1920); /* once a tile */
  CU_ASSERT_EQUAL(c.bytes[RAM][NMB_ROLE_ACT], 3.0 * (240 + 144));
  CU_ASSERT_EQUAL(c.instructions, 6);
  CU_ASSERT_EQUAL(c.code_bytes, 2 * (8 + 32 + 3 * 24));
  nmb_prog_free(p);
  nmb__run_close(run);
}

UNIT_MAIN("lower", {"a linear on a host, whole and in tiles", test_linear_on_host},
          {"rows of a weight on banks, in blocks and in turn", test_linear_in_banks},
          {"units of attention side by side", test_waves},
          {"new keys go where the scores are computed", test_append},
          {"values inside a kernel live in tiles", test_fused},
          {"several devices gather what a norm needs whole", test_devices},
          {"random shapes, tiles, layouts and parts conserve work", test_random},
          {"no layout has more capacity than its banks", test_capacity},
          {"parts along sequences and heads", test_parts},
          {"buffers live from first to last use", test_live_ranges},
          {"counts of emitted code", test_census})
