/* SPDX-License-Identifier: GPL-3.0-or-later */
/* nmbench verify: does the compiled code compute what the model says? */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/plugin.h"
#include "frontend/counts.h"
#include "frontend/wmodel.h"
#include "harness/cmd.h"
#include "ir/machine.h"
#include "ir/pipeline.h"
#include "ir/values.h"

/* Decoding on the engines in memory where there are any. */
static const char default_pipeline[] =
    "legalize,mla-absorb,moe-lower,fuse-greedy,dispatch-rule,map-interleave,"
    "sched-inorder,mem-firstfit,emit-queues";

typedef struct job {
  nmb__cli *cli;
  const nmb__arch *arch;
  nmb_hw *hw;
  nmb__pipeline pipeline;
  uint64_t seed;
  nmb__wmodel *file; /* NULL: weights are drawn */
  nmb__weights weights;
  nmb__values_check *check;
  int64_t batch, prompt, decode;
  int64_t instructions;
  int steps;
} job;

/* Weights that are drawn are as many as the model's; says so where that takes long. */
static void
size_note(const job *j)
{
  nmb__params n;
  if (j->file)
    return;
  nmb__arch_params(j->cli->run, j->arch, &n);
  if (n.total > 1000000000)
    nmb_warn(j->cli->run, NMB_NOLOC,
             "%s has %.3g weights, which are drawn and multiplied one and all: this can "
             "take hours",
             j->arch->name, (double)n.total);
}

static nmb_status
open_model(job *j)
{
  nmb__cli *cli = j->cli;
  nmb_run *run = cli->run;
  const nmb__arch *arch;
  NMB_TRY(nmb__plugins_load(run, NULL));
  if (nmb__wfile_named(run, cli->arg[0])) {
    NMB_TRY(nmb__wmodel_open(run, cli->arg[0], &j->file));
    arch = j->file->arch;
  } else
    NMB_TRY(nmb__arch_load(run, cli->arg[0], &arch));
  j->arch = nmb__arch_apart(run, arch);
  NMB_TRY(nmb__machine_load(run, nmb__cli_text(cli, "machine"), &j->hw));
  const char *text = nmb__cli_text(cli, "pipeline");
  NMB_TRY(nmb__pipeline_parse(run, NMB_NOLOC, text ? text : default_pipeline,
                              &j->pipeline));
  j->seed = (uint64_t)nmb__cli_int(cli, "seed");
  j->weights = j->file ? nmb__wmodel_weights(j->file) : nmb__weights_random(&j->seed);
  j->batch = nmb__cli_int(cli, "batch");
  j->prompt = nmb__cli_int(cli, "prompt");
  j->decode = nmb__cli_int(cli, "decode");
  if (j->batch < 1 || j->prompt < 1 || j->decode < 0 || nmb__cli_int(cli, "orders") < 0)
    return nmb_fail(run, NMB_BADOPTION, NMB_NOLOC,
                    "found batch %lld, prompt %lld, decode %lld and orders %lld, expected "
                    "1, 1, 0 and 0 or more",
                    (long long)j->batch, (long long)j->prompt, (long long)j->decode,
                    (long long)nmb__cli_int(cli, "orders"));
  const nmb__values_options o = {.seed = j->seed,
                                 .orders = (int)nmb__cli_int(cli, "orders"),
                                 .stop = nmb__cli_flag(cli, "first-diff")};
  size_note(j);
  j->check = nmb__values_open(&j->weights, &o);
  return NMB_OK;
}

static nmb_status
step(job *j, nmb_step_spec spec)
{
  nmb_run *run = j->cli->run;
  const nmb__routing_spec routing = {.kind = "uniform", .seed = j->seed};
  const int64_t n = spec.batch * spec.fresh;
  int32_t *ids = NMB_NEW(run, int32_t, n);
  nmb_prog *p;
  nmb__run_seed(run, j->seed + 7919 * (uint64_t)(j->steps + 1)); /* other tokens */
  for (int64_t i = 0; i < n; i++)
    ids[i] = (int32_t)(nmb_rand(run) % (uint64_t)j->arch->vocab);
  nmb__run_seed(run, j->seed); /* as passes draw from it, too */
  NMB_TRY(nmb__graph_build(run, j->arch, spec, &routing, &p));
  nmb_prog_set_hw(p, j->hw);
  nmb_status st = nmb__values_exact(run, j->check, p, ids);
  if (st == NMB_OK)
    st = nmb__pipeline_run(run, p, &j->pipeline, NULL);
  if (st == NMB_OK)
    st = nmb__values_code(run, j->check, p, ids);
  j->instructions += p->ninsn;
  j->steps++;
  nmb_prog_free(p);
  return st;
}

static nmb_status
run_steps(job *j)
{
  NMB_TRY(open_model(j));
  NMB_TRY(step(j, (nmb_step_spec){NMB_PREFILL, j->batch, j->prompt, 0}));
  for (int64_t i = 0; i < j->decode; i++)
    NMB_TRY(step(j, (nmb_step_spec){NMB_DECODE, j->batch, 1, j->prompt + i}));
  return NMB_OK;
}

/* --------------------------------------------------------------------- output */
static json_t *
tensors_json(const job *j)
{
  int n;
  const nmb__deviation *d = nmb__values_tensors(j->check, &n);
  json_t *rows = json_array();
  for (int i = 0; i < n; i++)
    json_array_append_new(
        rows, json_pack("{s:s, s:s, s:o, s:o, s:I}", "block", d[i].block_name, "tensor",
                        d[i].name, "max_error", nmb__json_real(d[i].most), "rms_error",
                        nmb__json_real(nmb__deviation_rms(&d[i])), "values",
                        (json_int_t)d[i].n));
  return rows;
}

static json_t *
first_json(const job *j)
{
  const nmb__first_diff *f = nmb__values_first(j->check);
  if (f->insn == NMB_NONE)
    return json_null();
  return json_pack("{s:s, s:i, s:I, s:I, s:I, s:I, s:o, s:o}", "instruction", f->text,
                   "number", (int)f->insn, "layer", (json_int_t)f->layer, "row",
                   (json_int_t)f->row, "column", (json_int_t)f->column, "context",
                   (json_int_t)f->context, "value", nmb__json_real(f->value), "expected",
                   nmb__json_real(f->expected));
}

static json_t *
agreement_json(const nmb__agreement *a)
{
  const double rows = (double)(a->rows ? a->rows : 1);
  return json_pack("{s:o, s:o, s:o, s:o, s:I}", "max_error", nmb__json_real(a->most),
                   "rms_error", nmb__json_real(nmb__agreement_rms(a)), "top1",
                   nmb__json_real((double)a->same_top / rows), "kl",
                   nmb__json_real(a->divergence / rows), "rows", (json_int_t)a->rows);
}

static json_t *
held_json(const job *j)
{
  const nmb__held h = nmb__values_held(j->check);
  return json_pack("{s:i, s:i, s:o, s:s}", "held", h.weights, "rounded", h.rounded,
                   "max_error", nmb__json_real(h.most), "worst", h.name);
}

static void
print_json(const job *j, nmb_status status)
{
  nmb__cli_json(json_pack(
      "{s:s, s:s, s:s, s:s, s:s, s:i, s:I, s:I, s:o, s:o, s:o, s:o, s:o}",
      "model", j->arch->name, "machine", j->hw->name, "pipeline",
      nmb__pipeline_text(j->cli->run, &j->pipeline), "status", nmb_status_name(status),
      "error", nmb_error_text(j->cli->run), "steps", j->steps, "instructions",
      (json_int_t)j->instructions, "orders",
      (json_int_t)nmb__cli_int(j->cli, "orders") + 1, "logits",
      agreement_json(nmb__values_agreement(j->check)), "logits_float_sums",
      agreement_json(nmb__values_ideal(j->check)), "first_diff",
      first_json(j), "tensors", tensors_json(j), "weights", held_json(j)));
}

static void
print_agreement(const char *what, const nmb__agreement *a)
{
  const double rows = (double)(a->rows ? a->rows : 1);
  printf("%s against the model in float: max error %.4g, rms error %.4g, "
         "top-1 agreement %.4g, KL %.4g\n",
         what, a->most, nmb__agreement_rms(a), (double)a->same_top / rows,
         a->divergence / rows);
}

static void
print_text(const job *j)
{
  int n;
  const nmb__deviation *d = nmb__values_tensors(j->check, &n);
  const nmb__agreement *a = nmb__values_agreement(j->check);
  const nmb__first_diff *f = nmb__values_first(j->check);
  printf("%-16s %-20s %12s %12s\n", "block", "tensor", "max error", "rms error");
  for (int i = 0; i < n; i++)
    printf("%-16s %-20s %12.3g %12.3g\n", d[i].block_name, d[i].name, d[i].most,
           nmb__deviation_rms(&d[i]));
  printf("%s on %s: %d steps, %lld instructions in %lld orders\n", j->arch->name,
         j->hw->name, j->steps, (long long)j->instructions,
         (long long)nmb__cli_int(j->cli, "orders") + 1);
  const nmb__held h = nmb__values_held(j->check);
  printf("weights in memory: %d, %d of them rounded", h.weights, h.rounded);
  if (h.rounded)
    printf(" (%%%s by up to %.2g of its rms)", h.name, h.most);
  printf("\n");
  print_agreement("logits", a);
  if (nmb__machine_differs(j->hw))
    print_agreement("with sums in float", nmb__values_ideal(j->check));
  if (f->insn != NMB_NONE)
    printf("first value off: %s, layer %lld, context %lld: row %lld, column %lld is "
           "%.9g, expected %.9g\n",
           f->text, (long long)f->layer, (long long)f->context, (long long)f->row,
           (long long)f->column, f->value, f->expected);
}

static int
cmd_verify(nmb__cli *cli)
{
  job j = {.cli = cli};
  nmb_status status = run_steps(&j);
  int code = 0;
  if (j.check && (status == NMB_OK || status == NMB_UNVERIFIED)) {
    const nmb__first_diff *f = nmb__values_first(j.check);
    if (status == NMB_OK && f->insn != NMB_NONE)
      status = nmb_fail(cli->run, NMB_UNVERIFIED, NMB_NOLOC, "values are off from %s on",
                        f->text);
    if (nmb__cli_flag(cli, "json"))
      print_json(&j, status);
    else
      print_text(&j);
    code = nmb__exit_code(status);
  } else
    code = nmb__cli_failed(cli, status);
  nmb__values_close(j.check);
  nmb__wmodel_close(j.file);
  nmb__machine_free(j.hw);
  return code;
}

static const nmb__flag flags[] = {
    {"machine", 'M', "MACHINE", "machine", "aim-gddr6",
     "name of a machine, or path of a .hw file"},
    {"pipeline", 'p', "TEXT", "pass", NULL,
     "passes to run: NAME{option=value,..},..; a plain one if absent"},
    {"first-diff", 0, NULL, NULL, NULL, "stop at the first instruction whose result is off"},
    {"orders", 0, "N", "int", "2",
     "orders of the instructions to run besides the one emitted"},
    {"seed", 0, "N", "int", "1", "of weights, tokens and orders"},
    {"batch", 'b', "N", "int", "2", "sequences"},
    {"prompt", 0, "N", "int", "5", "tokens of the prefill step"},
    {"decode", 0, "N", "int", "2", "decode steps after it"},
    NMB__FLAG_JSON,
    {NULL, 0, NULL, NULL, NULL, NULL}};

const nmb__command nmb__cmd_verify = {
    .name = "verify",
    .args = "MODEL",
    .arg_type = "model",
    .min = 1,
    .max = 1,
    .summary = "execute compiled code on values and compare with the model",
    .help =
        "Compiles a prefill step and some decode steps of a model, executes the code out of "
        "simulated memories, and compares each value with the reference evaluation of the "
        "graph in the same number formats, and the logits with those of the model in float. "
        "MODEL is a weight file, the name of one in models/weights, or any other model's "
        "name or config.json, for which weights are drawn from the seed.\n\nThe exit code is 0 if all "
        "values agree, and that of an unverified program if a value is off, if orders that "
        "the code allows differ, or if an instruction reads what nothing wrote.",
    .example = "nmbench verify tiny.json --machine aim-gddr6 --first-diff",
    .flags = flags,
    .main = cmd_verify,
};
