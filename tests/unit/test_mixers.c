/* SPDX-License-Identifier: GPL-3.0-or-later */
/* State mixers: a program with a convolution and a scan, compiled for several
 * machines and counted by hand, and then broken in one place at a time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/plugin.h"
#include "base/run.h"
#include "frontend/counts.h"
#include "ir/census.h"
#include "ir/machine.h"
#include "ir/pipeline.h"
#include "tests/unit/unit.h"

/* 4 sequences of 6 tokens; 4 heads of 8 x 8, 2 of queries and keys; 2 layers. */
static const char text[] =
    "nmbench 1\n"
    "model mixers\n"
    "step prefill batch 4 fresh 6 context 0\n"
    "graph {\n"
    "  block embed(-) -> %h {\n"
    "    input %ids : int32[24]\n"
    "    weight %table : bf16[64,32]\n"
    "    %h = embed(%ids, %table) : bf16[24,32]\n"
    "  }\n"
    "  block mix(%h) -> %r {\n"
    "    act %h : bf16[24,32]\n"
    "    weight %wx : bf16[32,32]\n"
    "    weight %wq : bf16[16,32]\n"
    "    weight %wk : bf16[16,32]\n"
    "    weight %wd : bf16[4,32]\n"
    "    weight %cw : bf16[32,4]\n"
    "    weight %cb : bf16[32]\n"
    "    weight %a : bf16[4]\n"
    "    weight %d : bf16[4,1]\n"
    "    weight %wo : bf16[32,32]\n"
    "    state %cs : fp32[4,32,3]\n"
    "    state %ss : fp32[4,4,8,8]\n"
    "    %n = norm(%h) {kind=rms, eps=1e-05} : bf16[24,32]\n"
    "    %x = linear(%n, %wx) : bf16[24,4,8]\n"
    "    %q = linear(%n, %wq) : bf16[24,2,8]\n"
    "    %k = linear(%n, %wk) : bf16[24,2,8]\n"
    "    %kn = norm(%k) {kind=l2, eps=1e-06} : bf16[24,2,8]\n"
    "    %dt = linear(%n, %wd) : bf16[24,4]\n"
    "    %v, %c1 = conv(%x, %cs, %cw, %cb) {fn=silu} : bf16[24,4,8], state fp32[4,32,3]\n"
    "    %o, %s1 = scan(%q, %kn, %v, %ss, %a, %dt, %dt) {decay=alog, delta=1, chunk=4}"
    " : bf16[24,4,8], state fp32[4,4,8,8]\n"
    "    %vd = mul(%v, %d) : bf16[24,4,8]\n"
    "    %od = add(%o, %vd) : bf16[24,4,8]\n"
    "    %y = linear(%od, %wo) : bf16[24,32]\n"
    "    %r = add(%h, %y) : bf16[24,32]\n"
    "  }\n"
    "  block head(%h) -> - {\n"
    "    act %h : bf16[24,32]\n"
    "    weight %w : bf16[64,32]\n"
    "    %l = select(%h) : bf16[4,32]\n"
    "    %y = linear(%l, %w) : bf16[4,64]\n"
    "  }\n"
    "  order embed x 1, mix x 2, head x 1\n"
    "}\n";

static nmb_prog *
parse(nmb_run *run, const char *s)
{
  nmb_prog *p = NULL;
  const nmb_status st = nmb_prog_parse(run, "mixers.nmb", s, strlen(s), NULL, &p);
  if (st != NMB_OK)
    printf("\n  %s\n", nmb_error_text(run));
  CU_ASSERT_EQUAL_FATAL(st, NMB_OK);
  return p;
}

/* Of one layer: linears; 4 taps a channel; 3 products of 8 x 8 a token and head,
 * and 5 vectors of 8 for each pair of a chunk: 4 x 4 + 2 x 2 of a sequence. */
static const double macs = 2 * (24 * 32 * (32 + 16 + 16 + 4 + 32) + 24 * 32 * 4 +
                                16 * (6 * 3 * 64 + (16 + 4) * 5 * 8)) +
                           4 * 64 * 32;
static const double state = 2 * 4 * (4 * 32 * 3 + 4 * 4 * 8 * 8);

static void
on(const char *machine, const char *pipeline)
{
  nmb_run *run = nmb__run_open(NULL);
  nmb_hw *hw;
  nmb__pipeline pl;
  nmb__census c;
  CU_ASSERT_EQUAL(nmb__plugins_load(run, NULL), NMB_OK);
  CU_ASSERT_EQUAL_FATAL(nmb__machine_load(run, machine, &hw), NMB_OK);
  CU_ASSERT_EQUAL_FATAL(nmb__pipeline_parse(run, NMB_NOLOC, pipeline, &pl), NMB_OK);
  nmb_prog *p = parse(run, text);
  nmb_prog_set_hw(p, hw);
  const nmb_status s = nmb__pipeline_run(run, p, &pl, NULL);
  if (s != NMB_OK)
    printf("\n  %s: %s\n", machine, nmb_error_text(run));
  CU_ASSERT_EQUAL(s, NMB_OK);
  CU_ASSERT_EQUAL(nmb_prog_verify(run, p, NMB_ALL), NMB_OK);
  nmb__code_census(run, p, &c);
  CU_ASSERT_DOUBLE_EQUAL(c.macs, macs, 0);
  CU_ASSERT_DOUBLE_EQUAL(c.state_bytes_read_once, state, 0);
  CU_ASSERT_DOUBLE_EQUAL(c.state_bytes_written_once, state, 0);
  nmb_prog_free(p);
  nmb__machine_free(hw);
  nmb__run_close(run);
}

static void
test_machines(void)
{
  static const char *const machines[] = {"gpu-a100", "gpu-a100-x2", "aim-gddr6-x8",
                                         "hbm3-attacc", "npu-hbm-pim"};
  for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
    on(machines[i],
       "fuse-dp,dispatch-cost,map-search,sched-overlap{mode=batch},mem-bestfit,emit-queues");
    on(machines[i],
       "fuse-none,dispatch-rule,map-rowmajor,sched-overlap{mode=head},mem-bump,emit-queues");
  }
}

/* `from` becomes `to`; the verifier must say `message`. */
static void
broken(const char *from, const char *to, const char *message)
{
  nmb_run *run = nmb__run_open(NULL);
  char s[sizeof text + 200];
  const char *at = strstr(text, from);
  CU_ASSERT_PTR_NOT_NULL_FATAL(at);
  snprintf(s, sizeof s, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
  nmb_prog *p = parse(run, s);
  CU_ASSERT_EQUAL(nmb_prog_verify(run, p, NMB_BIT(NMB_GRAPH)), NMB_UNVERIFIED);
  const char *found = strstr(nmb_error_text(run), message);
  if (!found)
    printf("\n  %s\n", nmb_error_text(run));
  CU_ASSERT_PTR_NOT_NULL(found);
  nmb_prog_free(p);
  nmb__run_close(run);
}

static void
test_verifier(void)
{
  broken("fp32[4,32,3]\n    state", "fp32[4,32,4]\n    state", "inputs that the state keeps");
  broken("%c1 = conv(%x, %cs", "%c1 = conv(%x, %ss", "has 4 dimensions, expected 3");
  broken("fn=silu", "fn=slu", "unknown fn slu");
  broken(", state fp32[4,32,3]\n", ", fp32[4,32,3]\n", "role of the new state");
  broken("decay=alog", "decay=b", "unknown decay b");
  broken("%a, %dt, %dt", "%a", "inputs: found 5, expected 6 to 7");
  broken("decay=alog", "decay=log", "inputs: found 7, expected 5 to 6");
  broken("%a, %dt, %dt", "%d, %k", "elements of dt");
  broken("state %ss", "weight %ss", "role of the state");
  broken("kind=l2", "kind=l1", "unknown kind l1");
  broken("norm(%k)", "norm(%k, %a)", "inputs of a norm without a weight");
  broken("weight %d : bf16[4,1]", "weight %d : bf16[2,1]", "the second input");
}

/* Totals that were published, or that the tensors of the checkpoint add up to. */
static void
test_totals(void)
{
  static const struct {
    const char *model;
    int64_t total, active, state;
  } rows[] = {
      /* model card, and the shapes of transformers' modelling code: 36 layers with
       * 32 x 128 x 128 and three inputs of 8192 channels */
      {"qwen3-next", 79674391296, 3874929408, 36 * (32 * 128 * 128 + 3 * 8192)},
      {"ai21-jamba", 51570323328, 12110311296, 28 * (8192 * 16 + 3 * 8192)},
      {"mamba2-2.7b", 2702599680, 2702599680, 64 * (80 * 64 * 128 + 3 * (5120 + 256))},
      {"mamba-codestral", 7285403648, 7285403648, 64 * (128 * 64 * 128 + 3 * 10240)},
      {"falcon-h1", 521411104, 521411104, 36 * (24 * 64 * 128 + 3 * (1536 + 256))},
      {"minimax-text-01", 456089655296, 0, 70 * (64 * 128 * 128)},
      {"nvidia-nemotron-3", 31577940288, 0, 23 * (64 * 64 * 128 + 3 * (4096 + 2048))},
  };
  nmb_run *run = nmb__run_open(NULL);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const nmb__arch *a;
    nmb__params p;
    CU_ASSERT_EQUAL_FATAL(nmb__arch_load(run, rows[i].model, &a), NMB_OK);
    nmb__arch_params(run, a, &p);
    CU_ASSERT_EQUAL(p.total, rows[i].total);
    CU_ASSERT_TRUE(!rows[i].active || p.active == rows[i].active);
    CU_ASSERT_EQUAL(p.state_elements, rows[i].state);
  }
  nmb__run_close(run);
}

/* The first op of the graph whose kind of attribute and function are those. */
static const nmb_op *
first_op(const nmb_prog *p, nmb_opcode code, const char *weight)
{
  for (int i = 0; i < p->nop; i++) {
    const nmb_op *o = &p->op[i];
    const char *name = o->nin > 1 ? p->tensor[o->in[1]].name : "";
    if (o->code == code && (!*weight ? o->nin == 1 : !strcmp(name, weight)))
      return o;
  }
  return NULL;
}

/* What classes of the families' own code have beside the layers' epsilon; bounds of a step
 * are those of the file. */
static void
test_numbers(void)
{
  static const nmb__routing_spec routing = {"uniform", 1, 1};
  static const char bounded[] =
      "{\"model_type\":\"mamba2\",\"hidden_size\":32,\"num_heads\":8,\"head_dim\":8,"
      "\"n_groups\":2,\"state_size\":8,\"num_hidden_layers\":1,\"vocab_size\":64,"
      "\"time_step_limit\":[0.001,0.25]}";
  const char *top = getenv("srcdir") ? getenv("srcdir") : ".";
  static const struct {
    const char *model, *weight;
    nmb_opcode code;
    const char *key;
    double value;
  } rows[] = {
      {"falcon_mamba", "", NMB_OP_NORM, "eps", 1e-6}, /* FalconMambaConfig.mixer_rms_eps */
      {"falcon_mamba", "attn.norm", NMB_OP_NORM, "eps", 1e-5},
      {"minimax_text_01", "mixer.norm", NMB_OP_NORM, "eps", 1e-6}, /* of MiniMaxRMSNorm */
      {"kimi_k3", "attn.q_down_norm", NMB_OP_NORM, "eps", 1e-6}, /* of KimiRMSNorm */
      {"kimi_k3", "attn.norm", NMB_OP_NORM, "eps", 1e-5},
      {NULL, "", NMB_OP_ACT, "low", 0.001},
      {NULL, "", NMB_OP_ACT, "high", 0.25},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    nmb_run *run = nmb__run_open(stderr);
    const nmb__arch *a;
    nmb_prog *p;
    const nmb_status s =
        rows[i].model
            ? nmb__arch_load(
                  run, nmb_format(run, "%s/tests/data/tiny/%s.json", top, rows[i].model), &a)
            : nmb__arch_parse(run, "bounded", "bounded", bounded, sizeof bounded - 1, &a);
    CU_ASSERT_EQUAL_FATAL(s, NMB_OK);
    CU_ASSERT_EQUAL_FATAL(nmb__graph_build(run, a, (nmb_step_spec){NMB_DECODE, 1, 1, 4},
                                           &routing, &p),
                          NMB_OK);
    const nmb_op *o = first_op(p, rows[i].code, rows[i].weight);
    CU_ASSERT_PTR_NOT_NULL_FATAL(o);
    CU_ASSERT_DOUBLE_EQUAL(nmb_op_real(o, rows[i].key, 0), rows[i].value, 0);
    nmb_prog_free(p);
    nmb__run_close(run);
  }
}

UNIT_MAIN("mixers", {"epsilons and bounds of the families' own code", test_numbers},
          {"parameters and states of published models", test_totals},
          {"convolution and scan on all kinds of machines", test_machines},
          {"broken programs are found out", test_verifier})
