/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <math.h>

#include "nmbench/nmb_plan.h"
#include "tests/unit/fixture.h"
#include "tests/unit/unit.h"

enum { LAYER = 1 }; /* the block of the fixture with attention and experts */

/* Position in the layer of its n-th op of that kind. */
static int
position(const nmb_prog *p, nmb_opcode code, int n)
{
  for (int i = 0; i < p->block[LAYER].nop; i++)
    if (p->op[p->block[LAYER].op[i]].code == code && n-- == 0)
      return i;
  return NMB_NONE;
}

static void
test_cycles(void)
{
  nmb_run *run = nmb__run_open(NULL);
  nmb_prog *p = fixture_prog();
  nmb_grouping g;
  nmb_grouping_init(run, p, LAYER, &g);
  const int qk = position(p, NMB_OP_QK, 0), soft = position(p, NMB_OP_SOFTMAX, 0),
            pv = position(p, NMB_OP_PV, 0), gate = position(p, NMB_OP_GLINEAR, 0),
            up = position(p, NMB_OP_GLINEAR, 1), glu = position(p, NMB_OP_GLU, 0);
  CU_ASSERT_TRUE(nmb_grouping_acyclic(run, &g, qk, soft));
  CU_ASSERT_FALSE(nmb_grouping_acyclic(run, &g, qk, pv));
  CU_ASSERT_FALSE(nmb_grouping_acyclic(run, &g, pv, qk));
  CU_ASSERT_TRUE(nmb_grouping_acyclic(run, &g, gate, up));
  CU_ASSERT_TRUE(nmb_grouping_acyclic(run, &g, gate, glu)); /* up comes first */
  nmb_grouping_merge(&g, qk, soft);
  CU_ASSERT_TRUE(nmb_grouping_acyclic(run, &g, g.group[soft], pv));
  /* two groups that would wait for each other */
  nmb_grouping_merge(&g, gate, position(p, NMB_OP_GLINEAR, 2));
  CU_ASSERT_FALSE(nmb_grouping_acyclic(run, &g, glu, position(p, NMB_OP_COMBINE, 0)));
  nmb_prog_free(p);
  nmb__run_close(run);
}

static void
test_order(void)
{
  nmb_run *run = nmb__run_open(NULL);
  nmb_prog *p = fixture_prog();
  nmb_grouping g;
  nmb_grouping_init(run, p, LAYER, &g);
  nmb_grouping_merge(&g, position(p, NMB_OP_GLINEAR, 0), position(p, NMB_OP_GLU, 0));
  nmb_section_begin(p, NMB_GROUPS);
  nmb_grouping_write(run, p, &g);
  CU_ASSERT_EQUAL(p->nkernel, p->block[LAYER].nop - 1);
  bool *made = NMB_NEW(run, bool, p->nop);
  int ops = 0;
  for (int k = 0; k < p->nkernel; k++) {
    for (int i = 0; i < p->kernel[k].nop; i++, ops++)
      made[p->kernel[k].op[i]] = true;
    for (int i = 0; i < p->kernel[k].nop; i++)
      for (int j = 0; j < p->op[p->kernel[k].op[i]].nin; j++) {
        const nmb_id def = p->tensor[p->op[p->kernel[k].op[i]].in[j]].def;
        CU_ASSERT_TRUE(def == NMB_NONE || made[def]);
      }
  }
  CU_ASSERT_EQUAL(ops, p->block[LAYER].nop);
  nmb_prog_free(p);
  nmb__run_close(run);
}

/* Every op a kernel; those that can on the engine in memory. */
static nmb_id *
dispatched(nmb_run *run, nmb_prog *p, double *penalty)
{
  nmb_section_begin(p, NMB_GROUPS);
  for (int b = 0; b < p->nblock; b++)
    for (int i = 0; i < p->block[b].nop; i++)
      nmb_kernel_add(p, b, &p->block[b].op[i], 1);
  nmb_id *engine = NMB_NEW(run, nmb_id, p->nkernel);
  for (nmb_id k = 0; k < p->nkernel; k++) {
    const bool pim = nmb_engine_can(p, FIXTURE_PIM, p->kernel[k].op[0]) &&
                     p->op[p->kernel[k].op[0]].code != NMB_OP_SPLIT;
    engine[k] = pim ? FIXTURE_PIM : FIXTURE_HOST;
    penalty[k * FIXTURE_NENGINE + FIXTURE_HOST] = 2;
    penalty[k * FIXTURE_NENGINE + FIXTURE_PIM] = pim ? 1 : INFINITY;
    penalty[k * FIXTURE_NENGINE + FIXTURE_LINK] = INFINITY;
  }
  return engine;
}

static int64_t
load(nmb_run *run, const nmb_prog *p, const nmb_id *engine, nmb_id mem)
{
  nmb_resident *r;
  int64_t bytes = 0;
  const int n = nmb_residents(run, p, engine, &r);
  for (int i = 0; i < n; i++)
    bytes += r[i].mem == mem ? r[i].bytes : 0;
  return bytes;
}

static void
test_fit(void)
{
  nmb_run *run = nmb__run_open(NULL);
  nmb_prog *p = fixture_prog();
  nmb_mem mem[FIXTURE_NMEM];
  nmb_hw hw = fixture_hw;
  double *penalty = NMB_NEW(run, double, 64 * FIXTURE_NENGINE);
  nmb_id *engine = dispatched(run, p, penalty);
  memcpy(mem, fixture_mem, sizeof mem);
  hw.mem = mem;
  nmb_prog_set_hw(p, &hw);
  const int64_t all = load(run, p, engine, FIXTURE_DRAM);
  CU_ASSERT_TRUE(all > 0);
  mem[FIXTURE_DRAM].bytes = all; /* just enough: nothing moves */
  CU_ASSERT_EQUAL(nmb_dispatch_fit(run, p, penalty, 0, engine), NMB_OK);
  CU_ASSERT_EQUAL(load(run, p, engine, FIXTURE_DRAM), all);
  mem[FIXTURE_DRAM].bytes = all / 2;
  CU_ASSERT_EQUAL(nmb_dispatch_fit(run, p, penalty, 0, engine), NMB_OK);
  CU_ASSERT_TRUE(load(run, p, engine, FIXTURE_DRAM) <= all / 2);
  mem[FIXTURE_HBM].bytes = 64;
  CU_ASSERT_EQUAL(nmb_dispatch_fit(run, p, penalty, 0, engine), NMB_INFEASIBLE);
  CU_ASSERT_PTR_NOT_NULL(strstr(nmb_error_text(run), "hbm needs"));
  CU_ASSERT_PTR_NOT_NULL(strstr(nmb_error_text(run), "has 64"));
  nmb_prog_free(p);
  nmb__run_close(run);
}

static void
test_clusters(void)
{
  nmb_run *run = nmb__run_open(NULL);
  nmb_prog *p = fixture_prog();
  double *penalty = NMB_NEW(run, double, 64 * FIXTURE_NENGINE);
  (void)dispatched(run, p, penalty);
  nmb_id *cluster = NMB_NEW(run, nmb_id, p->nkernel);
  nmb_cache_clusters(run, p, cluster);
  const nmb_id first = p->block[LAYER].op[0]; /* kernels are ops here */
  const nmb_id k = first + position(p, NMB_OP_KVAPPEND, 0),
               v = first + position(p, NMB_OP_KVAPPEND, 1);
  CU_ASSERT_EQUAL(cluster[first + position(p, NMB_OP_QK, 0)], k);
  CU_ASSERT_EQUAL(cluster[first + position(p, NMB_OP_PV, 0)], v);
  CU_ASSERT_EQUAL(cluster[k], k);
  CU_ASSERT_EQUAL(cluster[v], v);
  nmb_prog_free(p);
  nmb__run_close(run);
}

/* Padding is taken back from what wastes most until all fits. */
static void
test_padding(void)
{
  nmb_run *run = nmb__run_open(NULL);
  nmb_prog *p = fixture_prog();
  nmb_mem mem[FIXTURE_NMEM];
  nmb_hw hw = fixture_hw;
  double *penalty = NMB_NEW(run, double, 64 * FIXTURE_NENGINE);
  nmb_id *engine = dispatched(run, p, penalty);
  memcpy(mem, fixture_mem, sizeof mem);
  hw.mem = mem;
  nmb_prog_set_hw(p, &hw);
  nmb_resident *r;
  const int n = nmb_residents(run, p, engine, &r);
  nmb_layout *lay = NMB_NEW(run, nmb_layout, n);
  int padded[2] = {0, 0};
  for (int tight = 0; tight < 2; tight++) {
    mem[FIXTURE_DRAM].bytes = tight ? 2 * load(run, p, engine, FIXTURE_DRAM) : 1 << 30;
    nmb_layouts_interleaved(p, r, n, 1000, lay);
    int64_t sum = 0;
    for (int i = 0; i < n; i++) {
      padded[tight] += lay[i].padded;
      CU_ASSERT_EQUAL(lay[i].kind, r[i].in_memory ? NMB_LAY_INTERLEAVED : NMB_LAY_LINEAR);
      if (lay[i].mem == FIXTURE_DRAM)
        sum += lay[i].bytes * p->block[p->tensor[lay[i].tensor].block].repeat;
    }
    CU_ASSERT_TRUE(sum <= nmb_layout_room(&mem[FIXTURE_DRAM]));
  }
  CU_ASSERT_TRUE(padded[0] > padded[1]);
  nmb_prog_free(p);
  nmb__run_close(run);
}

UNIT_MAIN("plan", {"a merge that closes a cycle is seen", test_cycles},
          {"kernels come in topological order, each op once", test_order},
          {"kernels tied by a cache form a cluster", test_clusters},
          {"what does not fit moves, or is infeasible with numbers", test_fit},
          {"padding gives way to capacity", test_padding})
