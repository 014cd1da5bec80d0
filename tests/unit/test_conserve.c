/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/plugin.h"
#include "base/run.h"
#include "frontend/counts.h"
#include "ir/machine.h"
#include "ir/pipeline.h"
#include "tests/unit/compiled.h"
#include "tests/unit/unit.h"

static void
one(const char *model, const char *machine, nmb_step_spec spec, const char *pipeline)
{
  nmb_run *run = nmb__run_open(NULL);
  const nmb__arch *a;
  nmb_hw *hw;
  CU_ASSERT_EQUAL(nmb__plugins_load(run, NULL), NMB_OK);
  CU_ASSERT_EQUAL_FATAL(nmb__arch_load(run, model, &a), NMB_OK);
  CU_ASSERT_EQUAL_FATAL(nmb__machine_load(run, machine, &hw), NMB_OK);
  nmb_prog *p;
  const nmb_status said = compiled(run, a, hw, spec, pipeline, &p);
  CU_ASSERT_TRUE(said == NMB_OK || said == NMB_INFEASIBLE);
  if (p) {
    const nmb_status s = nmb__conserve(run, a, p);
    if (s != NMB_OK)
      printf("\n  %s on %s, batch %d context %d: %s\n", model, machine, (int)spec.batch,
             (int)spec.context, nmb_error_text(run));
    CU_ASSERT_EQUAL(s, NMB_OK);
    nmb_prog_free(p);
  }
  nmb__machine_free(hw);
  nmb__run_close(run);
}

static const char *const models[] = {"olmoe-1b-7b",      "gpt-oss-20b",    "deepseek-v2-lite",
                                     "qwen3-30b-a3b",    "mixtral-8x7b",   "llama-3.1-8b",
                                     "gemma-2-9b",       "opt-6.7b",       "qwen2.5-0.5b",
                                     "qwen3-next",       "falcon-h1",        "ai21-jamba",
                                     "mamba2-2.7b",      "nvidia-nemotron",  "minimax-text-01",
                                     "granite-4.0",      "qwen3.5-35b",
                                     "llama-4-scout-17b-16e-instruct", "gemma-4-26b-a4b"};
enum { NMODEL = sizeof models / sizeof *models };
#define AFTER                                                                            \
  ",fuse-none,dispatch-rule,map-rowmajor,sched-inorder,mem-bump,emit-queues"

static void
test_host(void)
{
  for (int i = 0; i < NMODEL; i++) {
    one(models[i], "gpu-h100-x4", (nmb_step_spec){NMB_DECODE, 3, 1, 500},
        "legalize,mla-absorb,moe-lower" AFTER);
    one(models[i], "gpu-h100-x4", (nmb_step_spec){NMB_PREFILL, 2, 40, 0},
        "legalize,moe-lower,quantize{weights=int8}" AFTER);
  }
}

static void
test_in_memory(void)
{
  for (int i = 0; i < NMODEL; i++)
    one(models[i], "aim-gddr6-x32", (nmb_step_spec){NMB_DECODE, 8, 1, 1000},
        "legalize,mla-absorb,moe-lower,quantize{weights=bf16}" AFTER);
}

/* Models that only many devices hold. */
static void
test_large(void)
{
  static const char *const large[] = {"deepseek-v3.2", "glm-5.1-nvfp4", "minimax-m3",
                                      "llama-4-maverick-17b-128e-instruct-fp8"};
  for (size_t i = 0; i < sizeof large / sizeof *large; i++) {
    one(large[i], "gpu-h100-x16", (nmb_step_spec){NMB_DECODE, 2, 1, 9000},
        "legalize,mla-absorb,moe-lower" AFTER);
    one(large[i], "gpu-h100-x16", (nmb_step_spec){NMB_PREFILL, 1, 60, 8180},
        "legalize,moe-lower" AFTER);
  }
}

/* A small model of each family, over a grid of batches and contexts. */
static void
test_families(void)
{
  static const nmb_step_spec grid[] = {
      {NMB_DECODE, 1, 1, 0},  {NMB_DECODE, 3, 1, 5},   {NMB_DECODE, 2, 4, 17},
      {NMB_PREFILL, 1, 3, 0}, {NMB_PREFILL, 3, 11, 0}, {NMB_PREFILL, 2, 5, 9}};
  char pattern[4096];
  glob_t g;
  const char *dir = getenv("srcdir");
  snprintf(pattern, sizeof pattern, "%s/tests/data/tiny/*.json", dir ? dir : ".");
  CU_ASSERT_EQUAL_FATAL(glob(pattern, 0, NULL, &g), 0);
  CU_ASSERT_TRUE(g.gl_pathc >= 40);
  for (size_t i = 0; i < g.gl_pathc; i++)
    for (size_t j = 0; j < sizeof grid / sizeof *grid; j++) {
      one(g.gl_pathv[i], "gpu-a100-x2", grid[j],
          "legalize,mla-absorb,moe-lower,fuse-epilogue,dispatch-rule,map-rowmajor,"
          "sched-overlap,mem-bestfit,emit-queues");
      one(g.gl_pathv[i], "hbm3-attacc-x1", grid[j],
          "legalize,moe-lower,quantize{weights=bf16}" AFTER);
    }
  globfree(&g);
}

/* The check must be able to fail. */
static void
test_fails(void)
{
  nmb_run *run = nmb__run_open(NULL);
  const nmb__arch *a, *other;
  nmb_hw *hw;
  CU_ASSERT_EQUAL(nmb__plugins_load(run, NULL), NMB_OK);
  CU_ASSERT_EQUAL_FATAL(nmb__arch_load(run, "llama-3.1-8b", &a), NMB_OK);
  CU_ASSERT_EQUAL_FATAL(nmb__arch_load(run, "mistral-7b", &other), NMB_OK);
  CU_ASSERT_EQUAL_FATAL(nmb__machine_load(run, "gpu-h100", &hw), NMB_OK);
  nmb_prog *p;
  CU_ASSERT_EQUAL_FATAL(compiled(run, a, hw, (nmb_step_spec){NMB_DECODE, 1, 1, 64},
                                 "legalize" AFTER, &p),
                        NMB_OK);
  CU_ASSERT_EQUAL(nmb__conserve(run, a, p), NMB_OK);
  CU_ASSERT_EQUAL(nmb__conserve(run, other, p), NMB_UNVERIFIED);
  CU_ASSERT_PTR_NOT_NULL(strstr(nmb_error_text(run), "but the model asks for"));
  nmb_prog_free(p);
  nmb__machine_free(hw);
  nmb__run_close(run);
}

UNIT_MAIN("conserve", {"code for a host does what the file asks for", test_host},
          {"code for banks does what the file asks for", test_in_memory},
          {"code of large models does what the file asks for", test_large},
          {"code of every family, over batches and contexts", test_families},
          {"code for another model is found out", test_fails})
