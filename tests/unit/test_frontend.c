/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <stdio.h>
#include <string.h>

#include "base/path.h"
#include "base/plugin.h"
#include "base/run.h"
#include "frontend/counts.h"
#include "ir/pipeline.h"
#include "tests/unit/unit.h"

static const nmb__routing_spec uniform = {"uniform", 0, 7};

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
      "legalize,moe-lower",
      "legalize,mla-absorb{when=always},moe-lower,quantize{weights=int4}",
      "quantize{weights=mxfp4,activations=fp8e4m3,kv=fp8e4m3},moe-lower,mla-absorb,"
      "legalize"};
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

/* Every file of models/ loads, or needs a named feature that is not there yet. */
static int
served(nmb_run *run, const nmb__arch ***out)
{
  const char **names;
  int n = 0;
  const int all = nmb__list_files(run, "models", "json", &names);
  *out = NMB_NEW(run, const nmb__arch *, all + 1);
  for (int i = 0; i < all; i++) {
    nmb_prog *p = NULL;
    nmb_status s = nmb__arch_load(run, names[i], &(*out)[n]);
    if (s == NMB_OK) /* some can be counted only */
      s = nmb__graph_build(run, (*out)[n], (nmb_step_spec){NMB_DECODE, 1, 1, 64}, &uniform,
                           &p);
    n += s == NMB_OK;
    nmb_prog_free(p);
    if (s != NMB_OK && s != NMB_UNSUPPORTED)
      printf("\n  %s: %s\n", names[i], nmb_error_text(run));
    CU_ASSERT_TRUE(s == NMB_OK || s == NMB_UNSUPPORTED);
  }
  nmb__run_clear(run);
  CU_ASSERT_EQUAL(all, 100);
  CU_ASSERT_TRUE(n >= 94); /* not yet: Kimi-K3, V4, GLM-5.2, Gemma 3n and E2B */
  return n;
}

static void
test_served(void)
{
  nmb_run *top = nmb__run_open(NULL);
  const nmb__arch **models;
  const int n = served(top, &models);
  CU_ASSERT_EQUAL(nmb__plugins_load(top, NULL), NMB_OK);
  for (int i = 0; i < n; i++) {
    nmb_run *run = nmb__run_open(NULL);
    const nmb__arch *a = models[i];
    build_one(run, a, (nmb_step_spec){NMB_DECODE, 8, 1, 2047});
    build_one(run, a, (nmb_step_spec){NMB_DECODE, 1, 1, 0});
    build_one(run, a, (nmb_step_spec){NMB_PREFILL, 3, 300, 0});
    build_one(run, a, (nmb_step_spec){NMB_PREFILL, 2, 5, 1000});
    nmb__run_close(run);
  }
  nmb__run_close(top);
}

/* ---------------------------------------------------------------- counts */
/* Weights of the graph, layers counted; without a tied head and what is no parameter:
 * decays that follow from the layer's number. */
static int64_t
graph_weights(const nmb_prog *p)
{
  int64_t n = 0;
  for (int i = 0; i < p->ntensor; i++) {
    const nmb_tensor *t = &p->tensor[i];
    if (t->role == NMB_ROLE_WEIGHT && !t->of && strcmp(t->name, "head.tied") &&
        strcmp(t->name, "mixer.slopes") && strcmp(t->name, "embed.waves") &&
        strcmp(t->name, "attn.lambda"))
      n += nmb_tensor_count(t) * p->block[t->block].repeat;
  }
  return n;
}

static int64_t
graph_weight_bytes(const nmb_prog *p)
{
  int64_t n = 0;
  for (int i = 0; i < p->ntensor; i++)
    if (p->tensor[i].role == NMB_ROLE_WEIGHT && !p->tensor[i].of)
      n += nmb_tensor_bytes(&p->tensor[i]) * p->block[p->tensor[i].block].repeat;
  return n;
}

static double
graph_macs(const nmb_prog *p)
{
  double n = 0;
  for (int i = 0; i < p->nop; i++)
    n += (double)nmb_op_macs(p, i, NULL) * (double)p->block[p->op[i].block].repeat;
  return n;
}

static void
counts_equal(nmb_run *run, const nmb__arch *a, nmb_step_spec spec, const char *pipeline)
{
  nmb_prog *p = NULL;
  nmb__counts c;
  CU_ASSERT_EQUAL_FATAL(nmb__graph_build(run, a, spec, &uniform, &p), NMB_OK);
  CU_ASSERT_EQUAL(rewrite(run, p, pipeline), NMB_OK);
  nmb__arch_counts(run, a, p, &c);
  CU_ASSERT_DOUBLE_EQUAL(graph_macs(p), c.macs, 0);
  CU_ASSERT_EQUAL(graph_weight_bytes(p), c.weight_bytes);
  if (graph_macs(p) < c.macs || graph_macs(p) > c.macs)
    printf("\n  %s, %s: %.0f macs in the graph, %.0f counted\n", a->name, pipeline,
           graph_macs(p), c.macs);
  nmb_prog_free(p);
}

/* DeepSeek-V4-Pro as published: 864,704,792,696 bytes in all tensors, of which the
 * prediction module has 13,956,587,692 (its shapes are those of inference/model.py).  Kimi-K3
 * chooses 16 of 896 experts by a key that stands in a nested object. */
static void
test_newest(void)
{
  nmb_run *run = nmb__run_open(NULL);
  const nmb__arch *a;
  nmb__params par;
  CU_ASSERT_EQUAL_FATAL(nmb__arch_load(run, "deepseek-v4-pro", &a), NMB_OK);
  nmb__arch_params(run, a, &par);
  CU_ASSERT_EQUAL(par.weight_bytes, INT64_C(864704792696) - INT64_C(13956587692));
  CU_ASSERT_EQUAL_FATAL(nmb__arch_load(run, "kimi-k3", &a), NMB_OK);
  nmb__arch_params(run, a, &par);
  CU_ASSERT_EQUAL(par.total, INT64_C(2779484476000));
  const int64_t expert = INT64_C(3) * 3072 * 3584, all = 896 * expert;
  CU_ASSERT_EQUAL(par.total - par.active, 92 * (all - 16 * expert));
  nmb__run_close(run);
}

static void
test_counts(void)
{
  nmb_run *run = nmb__run_open(NULL);
  CU_ASSERT_EQUAL(nmb__plugins_load(run, NULL), NMB_OK);
  const nmb__arch **models;
  const int n = served(run, &models);
  for (int i = 0; i < n; i++) {
    const nmb__arch *a = models[i];
    nmb__params par;
    nmb_prog *p = NULL;
    const nmb_step_spec decode = {NMB_DECODE, 3, 1, 999},
                        prefill = {NMB_PREFILL, 2, 77, 0};
    nmb__arch_params(run, a, &par);
    CU_ASSERT_EQUAL_FATAL(nmb__graph_build(run, a, decode, &uniform, &p), NMB_OK);
    CU_ASSERT_EQUAL(graph_weights(p), par.total);
    nmb_prog_free(p);
    counts_equal(run, a, decode, "legalize,moe-lower");
    counts_equal(run, a, decode,
                 "mla-absorb,legalize,moe-lower,quantize{weights=int4,kv=int8}");
    counts_equal(run, a, prefill, "legalize,moe-lower,quantize{weights=bf16}");
    counts_equal(run, a, prefill, "mla-absorb{when=always},legalize,moe-lower");
  }
  nmb__run_close(run);
}

/* Totals over the published checkpoints' tensors. */
static void
test_totals(void)
{
  static const struct {
    const char *name;
    int64_t total, active, kv, kv_long; /* 0: not compared */
  } known[] = {
      {"deepseek-v3", 671026419200, 0, 70272, 70272},
      {"gpt-oss-120b", 116829156672, 0, 73728, 36864},
      {"olmoe-1b-7b", 6919161856, 1282017280, 131072, 131072},
      {"mixtral-8x7b", 46702792704, 12879925248, 131072, 131072},
      {"llama-2-7b", 6738415616, 6738415616, 524288, 524288},
      {"llama-3.1-8b", 8030261248, 8030261248, 131072, 131072},
      {"llama-3.1-405b", 405853388800, 405853388800, 516096, 516096},
      {"qwen2.5-0.5b", 494032768, 494032768, 12288, 12288},
      {"qwen2.5-72b", 72706203648, 72706203648, 327680, 327680},
      {"qwen3-30b-a3b", 30532122624, 0, 98304, 98304},
      {"deepseek-v2-lite", 15706484224, 0, 31104, 31104},
      {"gpt2", 124439808, 124439808, 36864, 36864},
      {"opt-6.7b", 6658473984, 6658473984, 524288, 524288},
      {"bloom", 176247271424, 176247271424, 4014080, 4014080},
      {"dbrx", 131596523520, 36469708800, 163840, 163840},
      {"starcoder2-7b", 7173923840, 7173923840, 65536, 0},
      {"gemma-2-9b", 9241705984, 9241705984, 344064, 172032},
      {"phi-4", 14659507200, 14659507200, 204800, 204800},
      {"phi-3.5-moe", 41873153344, 0, 131072, 0},
      {"hunyuan-a13b", 80393183232, 0, 131072, 131072},
      {"gpt-j-6b", 6050882784, 6050882784, 458752, 458752},
  };
  nmb_run *run = nmb__run_open(NULL);
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    const nmb__arch *a = load(run, known[i].name);
    nmb__params p;
    CU_ASSERT_PTR_NOT_NULL_FATAL(a);
    nmb__arch_params(run, a, &p);
    CU_ASSERT_EQUAL(p.total, known[i].total);
    if (known[i].active)
      CU_ASSERT_EQUAL(p.active, known[i].active);
    CU_ASSERT_EQUAL(2 * p.kv_elements, known[i].kv);
    CU_ASSERT_EQUAL(2 * p.kv_elements_unwindowed, known[i].kv_long);
  }
  nmb__run_close(run);
}

/* --------------------------------------------------------------- routing */
static void
draw(nmb_run *run, const char *kind, double skew, int E, int k, int64_t T,
     int64_t *load_out, int32_t *e)
{
  const nmb__routing_spec s = {kind, skew, 11};
  CU_ASSERT_EQUAL_FATAL(nmb__routing_draw(run, &s, E, k, T, e), NMB_OK);
  memset(load_out, 0, (size_t)E * sizeof *load_out);
  for (int64_t t = 0; t < T; t++)
    for (int i = 0; i < k; i++) {
      load_out[e[t * k + i]]++;
      for (int j = 0; j < i; j++)
        CU_ASSERT_NOT_EQUAL(e[t * k + i], e[t * k + j]);
    }
}

static int64_t
largest(const int64_t *v, int n)
{
  int64_t m = 0;
  for (int i = 0; i < n; i++)
    m = v[i] > m ? v[i] : m;
  return m;
}

static void
test_routing(void)
{
  enum { E = 24, K = 5, T = 1000 };
  nmb_run *run = nmb__run_open(NULL);
  int64_t n[E];
  int32_t *a = NMB_NEW(run, int32_t, T * K), *b = NMB_NEW(run, int32_t, T * K);
  draw(run, "uniform", 0, E, K, T, n, a);
  CU_ASSERT_TRUE(largest(n, E) < T * K / E * 5 / 4);
  draw(run, "zipf", 1.2, E, K, T, n, b);
  CU_ASSERT_TRUE(largest(n, E) > T * 3 / 4);
  draw(run, "zipf", 1.2, E, K, T, n, a);
  CU_ASSERT_EQUAL(memcmp(a, b, T * K * sizeof *a), 0);
  draw(run, "zipf", 15, E, E, T / 10, n, a); /* all experts, however unlikely */
  CU_ASSERT_EQUAL(largest(n, E), T / 10);
  draw(run, "balanced", 0, E, K, 7, n, a);
  CU_ASSERT_EQUAL(largest(n, E), (7 * K + E - 1) / E);
  const nmb__routing_spec bad = {"unifrom", 0, 0};
  CU_ASSERT_EQUAL(nmb__routing_draw(run, &bad, E, K, T, a), NMB_BADINPUT);
  CU_ASSERT_PTR_NOT_NULL(strstr(nmb_error_text(run), "'uniform'"));
  nmb__run_close(run);
}

/* -------------------------------------------------------------- bad input */
#define LLAMA                                                                            \
  "\"model_type\": \"llama\", \"hidden_size\": 64, \"num_hidden_layers\": 2, "           \
  "\"num_attention_heads\": 4, \"vocab_size\": 96, \"intermediate_size\": 160"
static const struct {
  const char *text, *message;
} wrong[] = {
    {"", "end of file"},
    {"{" LLAMA, "expected near end of file"},
    {"[1]", "expected an object"},
    {"{}", "model_type"},
    {"{\"model_type\": 3}", "model_type: found 3"},
    {"{\"model_type\": \"lama\"}", "'llama'"},
    {"{\"model_type\": \"llama\"}", "hidden: not given"},
    {"{" LLAMA ", \"hiden_size\": 3}", "'hidden_size'"},
    {"{" LLAMA ", \"vocab_size\": 96}", "duplicate"},
    {"{" LLAMA ", \"rope_theta\": Infinity}", "rope_theta: found \"Infinity\""},
    {"{" LLAMA ", \"head_dim\": 99999999999999999999}", "head_dim"},
    {"{" LLAMA ", \"rope_scaling\": [2]}", "rope_scaling: found [2]"},
    {"{" LLAMA ", \"head_dim\": -8}", "head_dim: found -8"},
    {"{" LLAMA ", \"head_dim\": 1e300}", "head_dim: found 1e300"},
    {"{" LLAMA ", \"head_dim\": 99999999999999999999}", "too big"},
    {"{" LLAMA ", \"head_dim\": 3}", "even number"},
    {"{" LLAMA ", \"num_key_value_heads\": 3}", "num_key_value_heads is 3"},
    {"{" LLAMA ", \"hidden_act\": \"silo\"}", "'silu'"},
    {"{" LLAMA ", \"tie_word_embeddings\": 1}", "tie_word_embeddings: found 1"},
    {"{" LLAMA ", \"rope_scaling\": {\"type\": \"warp\"}}", "rope_scaling.type"},
    {"{" LLAMA ", \"rope_scaling\": {\"type\": \"yarn\", \"factor\": -1}}",
     "rope_scaling.factor"},
    {"{" LLAMA ", \"quantization_config\": {\"quant_method\": \"x\"}}", "quant_method"},
    {"{" LLAMA ", \"is_encoder_decoder\": true}", "an encoder"},
    {"{\"model_type\": \"x\", \"text_config\": {" LLAMA ", \"head_dim\": -8}}",
     "text_config.head_dim: found -8"},
    {"{\"model_type\": \"gpt_oss\", \"hidden_size\": 64, \"num_hidden_layers\": 2, "
     "\"num_attention_heads\": 8, \"vocab_size\": 96, \"intermediate_size\": 160, "
     "\"layer_types\": [\"full_attention\"]}",
     "found 1 entries, expected 2"},
    {"{\"model_type\": \"mixtral\", \"hidden_size\": 1048576, \"num_hidden_layers\": "
     "2048, "
     "\"num_attention_heads\": 8, \"vocab_size\": 96, \"intermediate_size\": 4194304}",
     "parameters"},
};

static void
test_wrong(void)
{
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    nmb_run *run = nmb__run_open(NULL);
    const nmb__arch *a;
    CU_ASSERT_NOT_EQUAL(
        nmb__arch_parse(run, "c.json", "c", wrong[i].text, strlen(wrong[i].text), &a),
        NMB_OK);
    CU_ASSERT_PTR_NOT_NULL(strstr(nmb_error_text(run), wrong[i].message));
    if (!strstr(nmb_error_text(run), wrong[i].message))
      printf("\n  %s: %s\n", wrong[i].text, nmb_error_text(run));
    nmb__run_close(run);
  }
}

static void
test_names(void)
{
  nmb_run *run = nmb__run_open(NULL);
  const nmb__arch *a;
  CU_ASSERT_STRING_EQUAL(load(run, "Mixtral-8x7B-v0.1")->name, "mixtral-8x7b-v0.1");
  CU_ASSERT_STRING_EQUAL(load(run, "mistralai--Mixtral-8x7B-v0.1")->name,
                         "mixtral-8x7b-v0.1");
  CU_ASSERT_STRING_EQUAL(load(run, "llama-3.1-8b")->name, "meta-llama-3.1-8b");
  CU_ASSERT_EQUAL(nmb__arch_load(run, "mixtral", &a), NMB_BADINPUT);
  CU_ASSERT_PTR_NOT_NULL(strstr(nmb_error_text(run), "start of 2 names"));
  CU_ASSERT_NOT_EQUAL(nmb__arch_load(run, "mixtrel-8x7b-v0.1", &a), NMB_OK);
  CU_ASSERT_PTR_NOT_NULL(strstr(nmb_error_text(run), "mixtral-8x7b-v0.1"));
  CU_ASSERT_NOT_EQUAL(nmb__arch_load(run, "/nowhere/config.json", &a), NMB_OK);
  nmb__run_close(run);
}

/* -------------------------------------------------------------- structure */
static void
test_structure(void)
{
  nmb_run *run = nmb__run_open(NULL);
  nmb_prog *p = NULL;
  const nmb_step_spec spec = {NMB_DECODE, 4, 1, 1000};
  CU_ASSERT_EQUAL_FATAL(
      nmb__graph_build(run, load(run, "deepseek-v3"), spec, &uniform, &p), NMB_OK);
  CU_ASSERT_EQUAL(p->nblock, 4);
  CU_ASSERT_EQUAL(p->nsegment, 4);
  CU_ASSERT_EQUAL(p->order[1].count, 3);
  CU_ASSERT_EQUAL(p->order[2].count, 58);
  CU_ASSERT_EQUAL(p->nrouting, 1);
  nmb_prog_free(p);
  CU_ASSERT_EQUAL_FATAL(
      nmb__graph_build(run, load(run, "gpt-oss-20b"), spec, &uniform, &p), NMB_OK);
  CU_ASSERT_EQUAL(p->nblock, 4);
  CU_ASSERT_EQUAL(p->nsegment, 26);
  CU_ASSERT_EQUAL(p->nrouting, 2);
  CU_ASSERT_NOT_EQUAL(
      memcmp(p->routing[0].expert, p->routing[1].expert, 16 * sizeof(int32_t)), 0);
  for (int i = 0; i < p->ntensor; i++)
    if (!strcmp(p->tensor[i].name, "cache.k"))
      CU_ASSERT_EQUAL(p->tensor[i].dim[1], p->tensor[i].block == 1 ? 128 : 1001);
  nmb_prog_free(p);
  nmb__run_close(run);
}

UNIT_MAIN("frontend",
          {"the newest models count as published", test_newest},
          {"every served model gives a graph that verifies, before and after rewriting",
           test_served},
          {"totals are those of the published checkpoints", test_totals},
          {"counts from the file equal those of the graph", test_counts},
          {"routing is distinct, skewed as asked, and repeats", test_routing},
          {"wrong files are refused with the path of the key", test_wrong},
          {"names, aliases and starts of names find their file", test_names},
          {"layers that are alike share a block", test_structure})
