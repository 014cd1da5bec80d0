/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <stdio.h>
#include <string.h>

#include "base/plugin.h"
#include "base/run.h"
#include "frontend/model.h"
#include "ir/pipeline.h"
#include "tests/unit/unit.h"

static const nmb__routing_spec uniform = {"uniform", 0, 7};

static const char *const served[] = {
    "llama-2-7b",       "llama-2-70b",      "llama-3-8b",        "llama-3.1-405b",
    "mistral-7b",       "qwen2.5-7b",       "qwen2.5-72b",       "qwen3-8b",
    "mixtral-8x7b",     "Mixtral-8x22B",    "qwen3-30b-a3b",     "qwen3-235b-a22b",
    "olmoe-1b-7b",      "gpt-oss-20b",      "gpt-oss-120b",      "deepseek-v2-lite",
    "deepseek-v2",      "deepseek-v3",      "deepseek-r1",       "qwen3-30b-a3b-fp8",
};
#define NSERVED (sizeof served / sizeof *served)

static const nmb__arch *
load(nmb_run *run, const char *name)
{
  const nmb__arch *a = NULL;
  if (nmb__arch_load(run, name, &a) != NMB_OK)
    printf("\n  %s: %s\n", name, nmb_error_text(run));
  return a;
}

static bool
verified(nmb_run *run, const nmb_prog *p)
{
  if (nmb_prog_verify(run, p, NMB_ALL) == NMB_OK)
    return true;
  printf("\n  %s: %s\n", p->model, nmb_error_text(run));
  return false;
}

static nmb_status
rewrite(nmb_run *run, nmb_prog *p, const char *text)
{
  nmb__pipeline pl;
  NMB_TRY(nmb__pipeline_parse(run, NMB_NOLOC, text, &pl));
  return nmb__pipeline_run(run, p, &pl, NULL);
}

static void
build_one(nmb_run *run, const nmb__arch *a, nmb_step_spec spec)
{
  static const char *const pipelines[] = {
      "legalize,moe-lower", "legalize,mla-absorb{when=always},moe-lower,quantize{weights=int4}",
      "quantize{weights=mxfp4,activations=fp8e4m3,kv=fp8e4m3},moe-lower,mla-absorb,legalize"};
  nmb_prog *p = NULL;
  CU_ASSERT_EQUAL_FATAL(nmb__graph_build(run, a, spec, &uniform, &p), NMB_OK);
  CU_ASSERT_TRUE(verified(run, p));
  for (size_t i = 0; i < sizeof pipelines / sizeof *pipelines; i++) {
    nmb_prog *q = nmb_prog_copy(p);
    CU_ASSERT_EQUAL(rewrite(run, q, pipelines[i]), NMB_OK);
    if (*nmb_error_text(run))
      printf("\n  %s, %s: %s\n", a->name, pipelines[i], nmb_error_text(run));
    CU_ASSERT_TRUE(verified(run, q));
    nmb_prog_free(q);
  }
  nmb_prog_free(p);
}

static void
test_served(void)
{
  for (size_t i = 0; i < NSERVED; i++) {
    nmb_run *run = nmb__run_open(NULL);
    CU_ASSERT_EQUAL(nmb__plugins_load(run, NULL), NMB_OK);
    const nmb__arch *a = load(run, served[i]);
    CU_ASSERT_PTR_NOT_NULL_FATAL(a);
    build_one(run, a, (nmb_step_spec){NMB_DECODE, 8, 1, 2047});
    build_one(run, a, (nmb_step_spec){NMB_DECODE, 1, 1, 0});
    build_one(run, a, (nmb_step_spec){NMB_PREFILL, 3, 300, 0});
    build_one(run, a, (nmb_step_spec){NMB_PREFILL, 2, 5, 1000});
    nmb__run_close(run);
  }
}

UNIT_MAIN("frontend", {"every served model gives a graph that verifies, before and after rewriting",
                       test_served})
