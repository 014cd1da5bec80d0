/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What must hold on every machine, for every engine, in both fidelities. */
#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/path.h"
#include "base/plugin.h"
#include "base/run.h"
#include "frontend/counts.h"
#include "ir/machine.h"
#include "ir/pipeline.h"
#include "tests/unit/compiled.h"
#include "tests/unit/unit.h"

static const char *const pipelines[] = {
    "legalize,moe-lower,fuse-none,dispatch-rule,map-interleave,sched-inorder,mem-bump,"
    "emit-queues",
    "legalize,moe-lower,fuse-greedy,dispatch-rule,map-interleave,sched-overlap,mem-bump,"
    "emit-queues",
    "legalize,moe-lower,quantize{weights=int8},fuse-none,dispatch-rule{threshold=1000},"
    "map-interleave,sched-inorder,mem-bump,emit-queues",
    "legalize,moe-lower,quantize{weights=int8,activations=bf16,kv=bf16,group=64},fuse-"
    "none,"
    "dispatch-rule{prefer=cim},map-interleave,sched-list,mem-bestfit,emit-queues"};

/* Sum of a metric's parts; a: of this first label only, NULL: of all. */
static double
sum(nmb_run *run, const char *name, const char *a, int *n)
{
  const nmb__values *vs = nmb__run_metrics(run);
  double s = 0;
  *n = 0;
  for (int i = 0; i < vs->n; i++) {
    const nmb__value *v = &vs->v[i];
    if (strcmp(v->name, name) || !v->a || (a && strcmp(v->a, a)))
      continue;
    s += v->value;
    ++*n;
  }
  return s;
}

static double
whole(nmb_run *run, const char *name)
{
  const nmb__values *vs = nmb__run_metrics(run);
  for (int i = 0; i < vs->n; i++)
    if (!strcmp(vs->v[i].name, name) && !vs->v[i].a)
      return vs->v[i].value;
  CU_FAIL("no such metric");
  return NAN;
}

static bool
same(double a, double b)
{
  return (isnan(a) && isnan(b)) || fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b));
}

/* Busy by cause, slowed by others and idle: together the time, for every engine. */
static void
time_adds_up(nmb_run *run, const nmb_hw *hw)
{
  int n;
  const double latency = whole(run, "latency");
  for (int e = 0; e < hw->nengine; e++) {
    const double all = sum(run, "time", hw->engine[e].name, &n);
    CU_ASSERT_EQUAL(n, NMB_NCAUSE + 2);
    CU_ASSERT_TRUE(same(all, latency));
  }
  CU_ASSERT_TRUE(same(sum(run, "latency", NULL, &n), latency));
  const nmb__values *vs = nmb__run_metrics(run);
  for (int i = 0; i < vs->n; i++)
    CU_ASSERT_TRUE(isnan(vs->v[i].value) || vs->v[i].value >= 0);
}

/* Every instruction: no negative part, no interface in use for longer than it takes. */
static void
costs_hold(nmb_run *run, const nmb_prog *p, nmb_fidelity f)
{
  for (int i = 0; i < p->ninsn; i++) {
    nmb_cost c = {0};
    if (p->insn[i].kind == NMB_INSN_SYNC)
      continue;
    CU_ASSERT_EQUAL_FATAL(nmb_insn_cost_at(run, p, &p->insn[i], f, NULL, &c), NMB_OK);
    const double seconds = nmb_cost_seconds(&c);
    CU_ASSERT_TRUE(isfinite(seconds) && seconds >= 0);
    for (int k = 0; k < NMB_NCAUSE; k++)
      CU_ASSERT_TRUE(c.time[k] >= 0);
    for (int k = 0; k < NMB_NEPART; k++)
      CU_ASSERT_TRUE(isnan(c.energy[k]) || c.energy[k] >= 0);
    for (int m = 0; m < p->hw->nmem; m++)
      CU_ASSERT_TRUE(c.mem_s[m] >= 0 && c.mem_s[m] <= seconds * (1 + 1e-9));
  }
}

static void
check(nmb_run *run, const nmb_prog *p)
{
  static const char *const how[] = {"event", "event{fidelity=cycle}"};
  int n;
  for (int f = 0; f < NMB_NFIDELITY; f++) {
    nmb__run_clear(run);
    const nmb_status s = nmb__simulate(run, p, how[f]);
    if (s != NMB_OK)
      printf("\n  %s: %s\n", p->hw->name, nmb_error_text(run));
    CU_ASSERT_EQUAL_FATAL(s, NMB_OK);
    time_adds_up(run, p->hw);
    const double parts = sum(run, "energy", NULL, &n);
    CU_ASSERT_EQUAL(n, NMB_NEPART);
    CU_ASSERT_TRUE(same(parts, whole(run, "energy")));
    costs_hold(run, p, (nmb_fidelity)f);
  }
}

/* Models of engines that have run something. */
static const char *const engine_models[] = {"roofline", "systolic",     "vector",
                                            "dram-pim", "hbm-pim",      "upmem-dpu",
                                            "link",     "state-update", "cim"};
enum { NMODEL = sizeof engine_models / sizeof *engine_models };

static void
mark_models(const nmb_prog *p, bool *seen)
{
  for (int k = 0; k < p->ninsn; k++)
    for (int i = 0; i < NMODEL; i++)
      if (!strcmp(p->hw->engine[p->insn[k].engine].model, engine_models[i]))
        seen[i] = true;
}

/* Gives how many programs were checked. */
static int
one_machine(const char *path, bool *seen)
{
  static const char *const models[] = {"tinyllama-1.1b", "olmoe-1b-7b", "mamba2-2.7b",
                                       "stories260k"}; /* fits in macros */
  nmb_run *run = nmb__run_open(NULL);
  nmb_hw *hw;
  int done = 0;
  nmb__plugins_load(run, NULL);
  CU_ASSERT_EQUAL_FATAL(nmb__machine_load(run, path, &hw), NMB_OK);
  for (size_t i = 0; i < sizeof models / sizeof *models; i++)
    for (size_t j = 0; j < sizeof pipelines / sizeof *pipelines; j++) {
      const nmb__arch *a;
      CU_ASSERT_EQUAL_FATAL(nmb__arch_load(run, models[i], &a), NMB_OK);
      if (strstr(pipelines[j], "prefer=cim") && !strstr(path, "cim-"))
        continue;
      nmb_prog *p;
      const nmb_status said = compiled(
          run, a, hw, (nmb_step_spec){NMB_DECODE, 2, 1, 300}, pipelines[j], &p);
      CU_ASSERT_TRUE(said == NMB_OK || said == NMB_INFEASIBLE || said == NMB_UNSUPPORTED);
      if (!p) /* does not fit, or an op of it does not run there */
        continue;
      mark_models(p, seen);
      check(run, p);
      nmb_prog_free(p);
      done++;
    }
  nmb__machine_free(hw);
  nmb__run_close(run);
  return done;
}

static void
test_machines(void)
{
  const char *dir = getenv("srcdir");
  nmb_run *run = nmb__run_open(NULL);
  bool seen[NMODEL] = {false};
  glob_t g;
  const char *pattern = nmb_format(run, "%s/hwsim/machines/*.hw", dir ? dir : ".");
  CU_ASSERT_EQUAL_FATAL(glob(pattern, 0, NULL, &g), 0);
  CU_ASSERT_TRUE(g.gl_pathc > 25);
  for (size_t i = 0; i < g.gl_pathc; i++) {
    /* several of a machine that is there as one; one macro alone holds no layer */
    if (strstr(g.gl_pathv[i], "-x") && !strstr(g.gl_pathv[i], "cim-jia-x16.hw"))
      continue;
    const int n = one_machine(g.gl_pathv[i], seen);
    if (n == 0)
      printf("\n  nothing runs on %s\n", g.gl_pathv[i]);
    CU_ASSERT_TRUE(n > 0);
  }
  for (int i = 0; i < NMODEL; i++) {
    if (!seen[i])
      printf("\n  no instruction for an engine of model %s\n", engine_models[i]);
    CU_ASSERT_TRUE(seen[i]);
  }
  globfree(&g);
  nmb__run_close(run);
}

UNIT_MAIN("machines",
          {"time, energy and interfaces add up on every machine", test_machines})
