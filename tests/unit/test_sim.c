/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Simulators on instructions written by hand, and on random ones. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/plugin.h"
#include "base/run.h"
#include "ir/pipeline.h"
#include "nmbench/nmb_sim.h"
#include "tests/unit/unit.h"

/* A model that is told the cost in the tile: m1 ns, of which n1 (k1) percent of
 * memory 0 (1). */
static nmb_status
told(nmb_run *run, const nmb_prog *p, const nmb_insn *in, nmb_fidelity fidelity,
     const nmb_watch *watch, nmb_cost *c)
{
  (void)run, (void)p, (void)fidelity, (void)watch;
  const double d = 1e-9 * (double)in->tile.m1;
  c->time[NMB_CAUSE_COMPUTE] = d;
  c->mem_s[0] = d * (double)in->tile.n1 / 100;
  c->mem_s[1] = d * (double)in->tile.k1 / 100;
  c->energy[NMB_EPART_COMPUTE] = 3e-9;
  c->energy[NMB_EPART_ROW] = in->tile.b1 ? NAN : 1e-9;
  return NMB_OK;
}
static const nmb_plugin model = {NMB_PLUGIN_HEAD, .kind = "model",      .name = "told",
                                 .version = "1",  .summary = "as told", .source = "none",
                                 .limits = "all", .cost = told};
static const nmb_mem mems[] = {{.name = "m",
                                .devices = 1,
                                .bytes = 1 << 20,
                                .bytes_per_s = 1e9,
                                .channels = 8,
                                .banks = 4,
                                .static_w = 2},
                               {.name = "n",
                                .devices = 1,
                                .bytes = 1 << 20,
                                .bytes_per_s = 1e9,
                                .channels = 1,
                                .banks = 1}};
enum { A, B, PIM };
static const nmb_engine engines[] = {{.name = "a",
                                      .model = "told",
                                      .devices = 1,
                                      .local = NMB_NONE,
                                      .from = NMB_NONE,
                                      .to = NMB_NONE,
                                      .impl = &model,
                                      .static_w = 1},
                                     {.name = "b",
                                      .model = "told",
                                      .devices = 1,
                                      .local = NMB_NONE,
                                      .from = NMB_NONE,
                                      .to = NMB_NONE,
                                      .impl = &model},
                                     {.name = "pim",
                                      .model = "told",
                                      .devices = 1,
                                      .local = NMB_NONE,
                                      .from = NMB_NONE,
                                      .to = NMB_NONE,
                                      .in_memory = true,
                                      .impl = &model}};
static const nmb_hw hw = {.name = "h",
                          .title = "h",
                          .source = "none",
                          .devices = 1,
                          .nmem = 2,
                          .nengine = 3,
                          .mem = mems,
                          .engine = engines};

typedef struct bench {
  nmb_run *run;
  nmb_prog *p;
} bench;

static bench
bench_open(int64_t repeat)
{
  bench b = {nmb__run_open(NULL),
             nmb_prog_new("hand", (nmb_step_spec){NMB_DECODE, 2, 1, 9})};
  nmb__plugins_load(b.run, NULL);
  nmb_prog_set_hw(b.p, &hw);
  nmb_block_add(b.p, "blk");
  nmb_block_ends(b.p, 0, NMB_NONE, NMB_NONE);
  nmb_order_add(b.p, 0, repeat);
  const nmb_tensor t = {.name = "t", .dtype = NMB_DT_BF16, .rank = 2, .dim = {64, 64}};
  nmb_tensor_add(b.p, &t);
  const nmb_op op = {.code = NMB_OP_ACT, .nin = 1, .nout = 1, .in = {0}, .out = {0}};
  nmb_op_add(b.p, &op);
  for (int s = NMB_GROUPS; s < NMB_NSECTION; s++)
    nmb_section_begin(b.p, (nmb_section)s);
  return b;
}

static void
bench_close(bench *b)
{
  nmb_prog_free(b->p);
  nmb__run_close(b->run);
}

/* ns of engine time; percent of memories 0 and 1; waits for w (NMB_NONE: none) */
static nmb_id
put(bench *b, nmb_id engine, int64_t ns, int64_t mem0, int64_t mem1, nmb_id w)
{
  const nmb_insn in = {.kind = NMB_INSN_EXEC,
                       .engine = engine,
                       .op = 0,
                       .tile = {0, 0, 0, ns, 0, mem0, 0, mem1},
                       .nwait = w != NMB_NONE,
                       .wait = &w};
  return nmb_insn_add(b->p, &in);
}

static nmb_id
put_pim(bench *b, int64_t ns, int channel, int n)
{
  const nmb_insn in = {.kind = NMB_INSN_EXEC,
                       .engine = PIM,
                       .op = 0,
                       .tile = {0, 0, 0, ns, 0, 0, 0, 0},
                       .place = {.channel0 = channel, .nchannel = n}};
  return nmb_insn_add(b->p, &in);
}

static nmb_id
put_sync(bench *b)
{
  const nmb_insn in = {.kind = NMB_INSN_SYNC, .engine = PIM, .op = NMB_NONE};
  return nmb_insn_add(b->p, &in);
}

static double
metric(const bench *b, const char *name, const char *a, const char *c)
{
  const nmb__values *v = nmb__run_metrics(b->run);
  for (int i = 0; i < v->n; i++)
    if (!strcmp(v->v[i].name, name) && !strcmp(v->v[i].a ? v->v[i].a : "", a) &&
        !strcmp(v->v[i].b ? v->v[i].b : "", c))
      return v->v[i].value;
  CU_FAIL("no such metric");
  return NAN;
}

static nmb_status
simulate(bench *b, const char *how)
{
  nmb__run_clear(b->run);
  return nmb__simulate(b->run, b->p, how);
}

static double
latency_ns(bench *b)
{
  CU_ASSERT_EQUAL(simulate(b, "event"), NMB_OK);
  return metric(b, "latency", "", "") * 1e9;
}

static double
bound_ns(bench *b)
{
  CU_ASSERT_EQUAL(simulate(b, "bound"), NMB_OK);
  return metric(b, "bound", "", "") * 1e9;
}

#define NEAR(a, b) CU_ASSERT_DOUBLE_EQUAL(a, b, 1e-6)

/* -------------------------------------------------------------------- tests */
static void
test_overlap(void)
{
  bench b = bench_open(1);
  put(&b, A, 30, 0, 0, NMB_NONE);
  put(&b, B, 50, 0, 0, NMB_NONE);
  put(&b, A, 40, 0, 0, NMB_NONE);
  NEAR(latency_ns(&b), 70);
  NEAR(metric(&b, "time", "b", "wait") * 1e9, 20);
  NEAR(metric(&b, "utilisation", "b", ""), 50 / 70.0);
  NEAR(bound_ns(&b), 70);
  bench_close(&b);
}

static void
test_waits(void)
{
  bench b = bench_open(1);
  const nmb_id first = put(&b, A, 30, 0, 0, NMB_NONE);
  const nmb_id second = put(&b, B, 50, 0, 0, first);
  put(&b, A, 40, 0, 0, second);
  NEAR(latency_ns(&b), 120);
  NEAR(bound_ns(&b), 120);
  bench_close(&b);
}

/* Both want all of memory 0: each at half speed until the shorter one is done. */
static void
test_contention(void)
{
  bench b = bench_open(1);
  put(&b, A, 30, 100, 0, NMB_NONE);
  put(&b, B, 50, 100, 0, NMB_NONE);
  NEAR(latency_ns(&b), 80);
  NEAR(metric(&b, "time", "a", "contention") * 1e9, 30);
  NEAR(metric(&b, "time", "b", "contention") * 1e9, 30);
  NEAR(bound_ns(&b), 80);
  bench_close(&b);
}

/* 60 % and 80 %: U is 1.4, so the first takes 30 * 1.4 = 42 ns; the rest of the
 * second, 50 - 30 = 20, goes at full speed. */
static void
test_partial_contention(void)
{
  bench b = bench_open(1);
  put(&b, A, 30, 60, 0, NMB_NONE);
  put(&b, B, 50, 80, 0, NMB_NONE);
  NEAR(latency_ns(&b), 42 + 20);
  bench_close(&b);
  b = bench_open(1); /* other memories do not disturb */
  put(&b, A, 30, 60, 0, NMB_NONE);
  put(&b, B, 50, 0, 80, NMB_NONE);
  NEAR(latency_ns(&b), 50);
  bench_close(&b);
}

static void
test_channels(void)
{
  bench b = bench_open(1);
  put_pim(&b, 30, 0, 4);
  put_pim(&b, 50, 4, 4); /* beside the first */
  put_pim(&b, 20, 2, 1); /* after the first */
  put_pim(&b, 10, 0, 2); /* beside it */
  NEAR(latency_ns(&b), 50);
  NEAR(metric(&b, "time", "pim", "compute") * 1e9, (30 * 4 + 50 * 4 + 20 + 10 * 2) / 8.0);
  NEAR(bound_ns(&b), 50);
  bench_close(&b);
}

/* Issue is in order: the second waits for channel 0, and the third behind it. */
static void
test_in_order(void)
{
  bench b = bench_open(1);
  put_pim(&b, 30, 0, 1);
  put_pim(&b, 10, 0, 1);
  put_pim(&b, 50, 7, 1);
  NEAR(latency_ns(&b), 30 + 50);
  bench_close(&b);
}

static void
test_sync(void)
{
  bench b = bench_open(1);
  put_pim(&b, 30, 0, 1);
  put_pim(&b, 50, 1, 1);
  const nmb_id s = put_sync(&b);
  put_pim(&b, 10, 0, 1);
  put(&b, A, 5, 0, 0, s);
  NEAR(latency_ns(&b), 60);
  NEAR(metric(&b, "time", "a", "wait") * 1e9, 55);
  NEAR(bound_ns(&b), 60);
  bench_close(&b);
}

static void
test_deadlock(void)
{
  bench b = bench_open(1);
  put(&b, A, 30, 0, 0, 1);
  put(&b, A, 30, 0, 0, NMB_NONE);
  CU_ASSERT_EQUAL(simulate(&b, "event"), NMB_UNVERIFIED);
  CU_ASSERT_PTR_NOT_NULL(
      strstr(nmb_error_text(b.run), "instruction 0 on engine 'a' waits for 1"));
  CU_ASSERT_EQUAL(simulate(&b, "bound"), NMB_UNVERIFIED);
  bench_close(&b);
}

static void
test_energy(void)
{
  bench b = bench_open(7);
  put(&b, A, 30, 0, 0, NMB_NONE);
  put(&b, B, 50, 0, 0, NMB_NONE);
  latency_ns(&b);
  const double parts = metric(&b, "energy", "compute", "") +
                       metric(&b, "energy", "row", "") +
                       metric(&b, "energy", "static", "");
  NEAR(metric(&b, "energy", "compute", "") * 1e9, 7 * 2 * 3 / 2.0); /* two tokens */
  NEAR(metric(&b, "energy", "static", "") * 1e9, 7 * 50 * 3 / 2.0);
  CU_ASSERT_DOUBLE_EQUAL(metric(&b, "energy", "", ""), parts, 1e-18);
  NEAR(metric(&b, "power", "", ""), parts * 2 / (7 * 50e-9));
  const nmb_insn unknown = {
      .kind = NMB_INSN_EXEC, .engine = A, .op = 0, .tile = {0, 1, 0, 5, 0, 0, 0, 0}};
  nmb_insn_add(b.p, &unknown);
  latency_ns(&b);
  CU_ASSERT_TRUE(isnan(metric(&b, "energy", "", "")));
  CU_ASSERT_TRUE(isnan(metric(&b, "energy", "row", "")));
  CU_ASSERT_FALSE(isnan(metric(&b, "energy", "compute", "")));
  bench_close(&b);
}

/* A value written and read binds the two even without a wait. */
static void
test_chain(void)
{
  bench b = bench_open(1);
  nmb_insn in = {.kind = NMB_INSN_EXEC,
                 .engine = PIM,
                 .op = 0,
                 .tile = {0, 0, 0, 30, 0, 0, 0, 0},
                 .place = {.channel0 = 0, .nchannel = 1},
                 .nopnd = 1,
                 .opnd = {{0, 0, NMB_NONE, true, 0, 1, 8192, 8192}}};
  nmb_insn_add(b.p, &in);
  in.place.channel0 = 0;
  in.opnd[0].write = false;
  nmb_insn_add(b.p, &in);
  NEAR(bound_ns(&b), 60);
  NEAR(metric(&b, "bound_chain", "", "") * 1e9, 60);
  bench_close(&b);
  b = bench_open(1); /* on other channels nothing enforces it: the code is wrong */
  in.place.channel0 = 0;
  in.opnd[0].write = true;
  nmb_insn_add(b.p, &in);
  in.place.channel0 = 1;
  in.opnd[0].write = false;
  nmb_insn_add(b.p, &in);
  CU_ASSERT_EQUAL(simulate(&b, "event"), NMB_BADPLUGIN);
  bench_close(&b);
}

/* Random code: bound <= event <= serial sum and time that adds up are checked by the
 * simulator itself; here that it says so, and that running every block agrees. */
static void
random_code(bench *b, uint64_t seed)
{
  nmb__run_seed(b->run, seed);
  const int n = 2 + (int)(nmb_rand(b->run) % 60);
  for (int i = 0; i < n; i++) {
    const uint64_t r = nmb_rand(b->run);
    nmb_id wait[3];
    nmb_insn in = {
        .kind = NMB_INSN_EXEC, .engine = (nmb_id)(r % 3), .op = 0, .wait = wait};
    in.tile.m1 = (int64_t)(nmb_rand(b->run) % 100);
    in.tile.n1 = r & 0x100 ? (int64_t)(nmb_rand(b->run) % 101) : 0;
    in.tile.k1 = r & 0x200 ? (int64_t)(nmb_rand(b->run) % 101) : 0;
    for (int w = 0; w < (int)(r >> 16 & 3) && i > 0; w++)
      wait[in.nwait++] = (nmb_id)(nmb_rand(b->run) % (uint64_t)i);
    if (in.engine == PIM) {
      in.place.channel0 = (int)(r >> 20 & 7);
      in.place.nchannel = 1 + (int)(nmb_rand(b->run) % (uint64_t)(8 - in.place.channel0));
      if ((r >> 40 & 7) == 0)
        in = (nmb_insn){.kind = NMB_INSN_SYNC,
                        .engine = PIM,
                        .op = NMB_NONE,
                        .nwait = in.nwait,
                        .wait = wait};
    }
    nmb_insn_add(b->p, &in);
  }
  put(b, A, 1, 0, 0, NMB_NONE);
}

static void
test_random(void)
{
  for (uint64_t seed = 1; seed <= 300; seed++) {
    bench b = bench_open(3);
    random_code(&b, seed);
    const double ns = latency_ns(&b), serial = metric(&b, "serial", "", "") * 1e9;
    const double energy = metric(&b, "energy", "", "");
    CU_ASSERT_TRUE(ns <= serial * (1 + 1e-9));
    CU_ASSERT_TRUE(bound_ns(&b) <= ns * (1 + 1e-9));
    CU_ASSERT_EQUAL(simulate(&b, "event{exact=true}"), NMB_OK);
    CU_ASSERT_DOUBLE_EQUAL(metric(&b, "latency", "", "") * 1e9, ns, 1e-9 * ns);
    CU_ASSERT_DOUBLE_EQUAL(metric(&b, "energy", "", ""), energy, 1e-9 * energy);
    bench_close(&b);
  }
}

UNIT_MAIN("sim", {"engines overlap", test_overlap}, {"waits order them", test_waits},
          {"two users halve each other", test_contention},
          {"partial users slow down by the sum", test_partial_contention},
          {"disjoint channels run at the same time", test_channels},
          {"channels are given in queue order", test_in_order},
          {"a sync waits for its queue", test_sync},
          {"a deadlock names the instructions", test_deadlock},
          {"energy: parts add up, unknown stays unknown", test_energy},
          {"values bind writer and reader", test_chain},
          {"random code keeps bound <= event <= serial", test_random})
