/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Every pipeline on every machine computes what the model says.
 *
 *   values [MODEL.json..]         a covering subset: each model on one machine or two, where
 *                                 stages and formats turn at different speeds, so that
 *                                 most pairs of choices meet
 *   values --full[=MACHINE,..] [MODEL.json..]
 *                                 each model on each machine, or each of these, with all
 *                                 pipelines
 *
 * Without models: those of tests/data/tiny.  A model may be a weight file, whose weights are
 * used; else they are drawn.
 * A run is a prefill step and a decode step in the order emitted and in two drawn at
 * random.  A pipeline that is refused for want of room or of an engine is no fault. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/path.h"
#include "base/plugin.h"
#include "base/run.h"
#include "frontend/wmodel.h"
#include "ir/machine.h"
#include "ir/pipeline.h"
#include "ir/values.h"

/* Choices of each stage; the first is the baseline of experiments/moe.cfg, the second
 * its full choice. */
static const char *const stage[][8] = {
    {"fuse-none", "fuse-dp", "fuse-greedy", "fuse-epilogue", NULL},
    {"dispatch-rule", "dispatch-cost", "dispatch-host", NULL},
    {"map-rowmajor", "map-search{budget=8}", "map-interleave", NULL},
    {"sched-inorder", "sched-overlap", "sched-list", "sched-overlap{mode=batch}",
     "sched-overlap{mode=head}", NULL},
    {"mem-bump", "mem-bestfit", "mem-firstfit", "mem-greedy-size", NULL},
};
enum { NSTAGE = sizeof stage / sizeof *stage };
/* The first two are what moe.cfg has. */
static const char *const formats[] = {
    "", "quantize{weights=bf16},", "quantize{weights=int4,group=32},",
    "quantize{weights=fp8,activations=fp8},", "quantize{kv=int8,activations=int8,group=32},",
    "quantize{weights=mxfp4,kv=fp8},", "quantize{activations=fp16,weights=int8,group=64},",
    "quantize{weights=nvfp4,activations=bf16,kv=int4},",
    "quantize{weights=fp32,activations=fp32,kv=fp32},",
    "quantize{weights=fp8blk,activations=fp16,kv=fp8},", "quantize{weights=nf4},",
    "quantize{weights=mxfp8,kv=fp16},", "quantize{weights=nf4d,activations=int8},",
    "quantize{weights=int4z,group=64,kv=int8},", "quantize{weights=ternary,state=bf16},",
    "quantize{weights=fp8e5m2,activations=bf16,kv=bf16,state=fp16},",
    "quantize{weights=fp16,activations=fp16,kv=fp16},"};
enum { NFORMAT = sizeof formats / sizeof *formats };

typedef struct tally {
  int run, refused, failed;
} tally;

static const uint64_t seed = 7; /* of what is drawn */

/* A model and its weights. */
typedef struct subject {
  const nmb__arch *a;
  nmb__weights w;
} subject;

static int
choices(int s)
{
  int n = 0;
  while (stage[s][n])
    n++;
  return n;
}

static const char *
pipeline_text(nmb_run *run, const int *pick, int format)
{
  const char *t = nmb_format(run, "legalize,%smoe-lower,%s",
                             format % 3 == 2 ? "" : "mla-absorb,", formats[format]);
  for (int s = 0; s < NSTAGE; s++)
    t = nmb_format(run, "%s%s,", t, stage[s][pick[s]]);
  return nmb_format(run, "%semit-queues", t);
}

static nmb_status
step(nmb_run *run, nmb__values_check *c, const nmb__arch *a, const nmb_hw *hw,
     const nmb__pipeline *pl, nmb_step_spec spec)
{
  const nmb__routing_spec routing = {.kind = "uniform", .seed = 3};
  const int64_t n = spec.batch * spec.fresh;
  int32_t *ids = NMB_NEW(run, int32_t, n);
  nmb_prog *p = NULL;
  nmb__run_seed(run, (uint64_t)spec.context + 7); /* passes draw, too */
  for (int64_t i = 0; i < n; i++)
    ids[i] = (int32_t)(nmb_rand(run) % (uint64_t)a->vocab);
  NMB_TRY(nmb__graph_build(run, a, spec, &routing, &p));
  nmb_prog_set_hw(p, hw);
  nmb_status st = nmb__values_exact(run, c, p, ids);
  if (st == NMB_OK)
    st = nmb__pipeline_run(run, p, pl, NULL);
  if (st == NMB_OK)
    st = nmb__values_code(run, c, p, ids);
  nmb_prog_free(p);
  return st;
}

static bool
outcome(nmb_status st)
{
  return st == NMB_UNSUPPORTED || st == NMB_INFEASIBLE || st == NMB_NOSOLUTION;
}

/* prompt: tokens before the decode step. */
static void
try(const subject *m, const nmb_hw *hw, const char *text, int batch, int prompt, tally *t)
{
  const nmb__arch *a = m->a;
  nmb_run *run = nmb__run_open(NULL);
  nmb__run_seed(run, seed);
  nmb__values_check *c =
      nmb__values_open(&m->w, &(nmb__values_options){.seed = seed, .orders = 2, .stop = true});
  nmb__pipeline pl;
  nmb_status st = nmb__pipeline_parse(run, NMB_NOLOC, text, &pl);
  if (st == NMB_OK)
    st = step(run, c, a, hw, &pl, (nmb_step_spec){NMB_PREFILL, batch, prompt, 0});
  if (st == NMB_OK)
    st = step(run, c, a, hw, &pl, (nmb_step_spec){NMB_DECODE, batch, 1, prompt});
  t->run++;
  if (outcome(st)) {
    t->refused++;
    if (getenv("VERBOSE"))
      printf("refused: %s on %s, %s: %s\n", a->name, hw->name, text, nmb_error_text(run));
  } else if (st != NMB_OK) {
    t->failed++;
    printf("FAIL %s on %s, batch %d after %d, %s: %s\n", a->name, hw->name, batch, prompt,
           text, nmb_error_text(run));
    fflush(stdout);
  }
  nmb__values_close(c);
  nmb__run_close(run);
}

/* The pipelines of experiments/moe.cfg (baseline, all, each alone, each left out), then
 * each other choice in place of the full one; then formats, which turn with the machines,
 * and so do batches and prompts (past the windows of the tiny models, which are 4 to 6). */
static void
all_pipelines(nmb_run *run, const subject *m, const nmb_hw *hw, int machine, tally *t)
{
  int pick[NSTAGE];
  for (int way = 0; way < 2; way++)
    for (int s = -1; s < NSTAGE; s++) {
      for (int i = 0; i < NSTAGE; i++)
        pick[i] = (i == s) == (way == 0);
      try(m, hw, pipeline_text(run, pick, 1), 2, 5, t);
    }
  for (int s = 0; s < NSTAGE; s++)
    for (int k = 2; k < choices(s); k++) {
      for (int i = 0; i < NSTAGE; i++)
        pick[i] = i == s ? k : 1;
      try(m, hw, pipeline_text(run, pick, 0), 3, 5, t);
    }
  for (int n = 5 * machine; n < 5 * machine + 5; n++) {
    for (int i = 0; i < NSTAGE; i++)
      pick[i] = (n / (i + 1) + n * i) % choices(i);
    try(m, hw, pipeline_text(run, pick, 2 + n % (NFORMAT - 2)), 1 + n % 4, 3 + n % 7, t);
  }
}

/* Pipeline number n of a walk in which the stages turn at different speeds. */
static void
one_pipeline(nmb_run *run, const subject *m, const nmb_hw *hw, int n, tally *t)
{
  int pick[NSTAGE];
  for (int s = 0, at = n; s < NSTAGE; s++) {
    pick[s] = at % choices(s);
    at = n / (s + 2) + n * (s + 1);
  }
  try(m, hw, pipeline_text(run, pick, n % NFORMAT), 1 + n % 4, 5, t);
}

/* *file: what is to be closed. */
static nmb_status
subject_open(nmb_run *run, const char *path, subject *m, nmb__wmodel **file)
{
  *file = NULL;
  m->w = nmb__weights_random(&seed);
  if (nmb__wfile_is(path)) {
    NMB_TRY(nmb__wmodel_open(run, path, file));
    m->a = (*file)->arch;
    m->w = nmb__wmodel_weights(*file);
  } else
    NMB_TRY(nmb__arch_load(run, path, &m->a));
  m->a = nmb__arch_apart(run, m->a);
  return NMB_OK;
}

/* full: NULL, "" for all machines, or names between commas. */
static bool
named(const char *full, const char *machine)
{
  const size_t n = strlen(machine);
  bool any = !*full;
  for (const char *at = full; (at = strstr(at, machine)) && !any; at += n)
    any = (at == full || at[-1] == ',') && (at[n] == ',' || !at[n]);
  return any;
}

static nmb_status
run_model(nmb_run *run, const char *path, int number, const char *full, tally *t)
{
  const char **machine;
  const int n = nmb__list_files(run, "machines", ".hw", &machine);
  subject s;
  nmb__wmodel *file;
  NMB_TRY(subject_open(run, path, &s, &file));
  for (int m = 0; m < n; m++) {
    nmb_hw *hw;
    if (!full && m != number * 7 % n && m != (number * 5 + 3) % n)
      continue;
    if (full && !named(full, machine[m]))
      continue;
    NMB_TRY(nmb__machine_load(run, machine[m], &hw));
    if (full)
      all_pipelines(run, &s, hw, m, t);
    else
      one_pipeline(run, &s, hw, t->run, t);
    nmb__machine_free(hw);
  }
  nmb__wmodel_close(file);
  return NMB_OK;
}

/* Once wrong. */
static const struct {
  const char *model, *machine;
  int batch, prompt, format, pick[NSTAGE];
} mended[] = {
    /* rows of scores for some heads only, in prefill */
    {"deepseek_v2_lite", "hbm3-attacc-stack+buffer", 2, 5, 6, {2, 1, 2, 4, 2}},
    /* a norm over all heads of a value that has them apart */
    {"bitnet", "npu-hbm-pim", 3, 5, 0, {1, 1, 1, 4, 1}},
    /* blocks of 128 x 128 of a weight with heads together in prefill, apart in decode */
    {"kimi_linear", "gpu-h100", 2, 5, 9, {0, 1, 0, 0, 0}},
    /* keys that an indexer may choose, among them one that another engine appends */
    {"glm5", "gpu-a100-pimba", 2, 5, 1, {1, 1, 0, 1, 1}},
    /* a cache of two blocks, of which one was cut by heads */
    {"gemma3n", "hbm3-attacc-x1", 3, 5, 0, {1, 1, 1, 4, 1}},
    /* as many units of scores as tokens */
    {"openai_gpt", "hbm3-attacc-stack+group", 4, 4, 5, {3, 1, 1, 4, 0}}};

static nmb_status
run_mended(nmb_run *run, tally *t)
{
  for (size_t i = 0; i < sizeof mended / sizeof *mended; i++) {
    subject s;
    nmb__wmodel *file;
    nmb_hw *hw;
    NMB_TRY(subject_open(
        run, nmb_format(run, TEST_DATA "/tiny/%s.json", mended[i].model), &s, &file));
    NMB_TRY(nmb__machine_load(run, mended[i].machine, &hw));
    try(&s, hw, pipeline_text(run, mended[i].pick, mended[i].format), mended[i].batch,
        mended[i].prompt, t);
    nmb__machine_free(hw);
  }
  return NMB_OK;
}

static nmb_status
run_all(nmb_run *run, int n, char **model, const char *full, tally *t)
{
  const char **file, *folder = TEST_DATA "/tiny";
  NMB_TRY(nmb__plugins_load(run, NULL));
  for (int i = 0; i < n; i++)
    NMB_TRY(run_model(run, model[i], i, full, t));
  const int all = n ? 0 : nmb__folder_files(run, folder, ".json", &file);
  for (int i = 0; i < all; i++)
    NMB_TRY(run_model(run, nmb_format(run, "%s/%s", folder, file[i]), i, full, t));
  return n ? NMB_OK : run_mended(run, t);
}

int
main(int argc, char **argv)
{
  const char *full = argc > 1 && !strncmp(argv[1], "--full", 6) ? argv[1] + 6 : NULL;
  const int first = full ? 2 : 1;
  nmb_run *run = nmb__run_open(stderr);
  tally t = {0};
  const nmb_status st = run_all(run, argc - first, argv + first, full && *full == '=' ? full + 1 : full, &t);
  printf("%d runs, %d refused, %d failed\n", t.run, t.refused, t.failed);
  nmb__run_close(run);
  return st != NMB_OK || t.failed > 0 || t.run == t.refused;
}
