/* SPDX-License-Identifier: GPL-3.0-or-later */
/* nmbench logits: the logits of every position of a sequence of tokens. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/plugin.h"
#include "frontend/infer.h"
#include "harness/cmd.h"
#include "ir/machine.h"

static json_t *
row_json(const float *v, int64_t n)
{
  json_t *list = json_array();
  for (int64_t i = 0; i < n; i++)
    json_array_append_new(list, nmb__json_real((double)v[i]));
  return list;
}

static int
print_json(const int32_t *ids, const float *v, int64_t n, int64_t vocab)
{
  json_t *tokens = json_array(), *rows = json_array();
  for (int64_t i = 0; i < n; i++) {
    json_array_append_new(tokens, json_integer(ids[i]));
    json_array_append_new(rows, row_json(v + i * vocab, vocab));
  }
  return nmb__cli_json(json_pack("{s:o, s:o}", "tokens", tokens, "logits", rows));
}

/* The five best tokens of each position. */
static int
print_text(const int32_t *ids, const float *v, int64_t n, int64_t vocab)
{
  printf("position  token  best tokens and their logits\n");
  for (int64_t i = 0; i < n; i++, v += vocab) {
    float below = 0;
    printf("%8" PRId64 "  %5" PRId32 " ", i, ids[i]);
    for (int k = 0, last = -1; k < 5 && k < vocab; k++) {
      int best = -1;
      for (int j = 0; j < vocab; j++)
        if ((last < 0 || v[j] < below || (!(v[j] > below) && j > last)) &&
            (best < 0 || v[j] > v[best]))
          best = j;
      if (best < 0)
        break;
      printf("  %d %.6g", best, (double)v[best]);
      below = v[best];
      last = best;
    }
    printf("\n");
  }
  return NMB__EXIT_OK;
}

/* What compiles any model for any machine, without search. */
const char nmb__plain_pipeline[] =
    "legalize,mla-absorb,moe-lower,quantize{weights=bf16},fuse-none,dispatch-rule,"
    "map-interleave,sched-inorder,mem-bump,emit-queues";

nmb_status
nmb__cli_compiled(nmb__cli *cli, nmb__infer *f, nmb_hw **hw, nmb__pipeline *out)
{
  const char *text = nmb__cli_text(cli, "pipeline"),
             *name = nmb__cli_text(cli, "machine");
  if (!name && text)
    return nmb_fail(cli->run, NMB_BADOPTION, NMB_NOLOC,
                    "--pipeline compiles for a machine: name one with --machine");
  if (!name)
    return NMB_OK;
  NMB_TRY(nmb__plugins_load(cli->run, NULL));
  NMB_TRY(nmb__machine_load(cli->run, name, hw));
  NMB_TRY(
      nmb__pipeline_parse(cli->run, NMB_NOLOC, text ? text : nmb__plain_pipeline, out));
  nmb__infer_compiled(cli->run, f, *hw, out);
  return NMB_OK;
}

void
nmb__cli_beyond(nmb__cli *cli, const nmb__wmodel *m, int64_t n)
{
  if (m->arch->context && n > m->arch->context)
    nmb_warn(cli->run, NMB_NOLOC,
             "%" PRId64 " tokens are beyond the context of %" PRId64
             " that the model is made for",
             n, m->arch->context);
}

typedef struct job {
  nmb__cli *cli;
  nmb__wmodel *m;
  nmb__infer *f;
  nmb_hw *hw;
  nmb__pipeline pipeline;
  int32_t *ids;
  int64_t n;
} job;

static nmb_status
whole(job *j, const float **v)
{
  NMB_TRY(nmb__cli_ids(j->cli, "tokens", 0, &j->ids, &j->n));
  NMB_TRY(nmb__wmodel_open(j->cli->run, j->cli->arg[0], &j->m));
  nmb__cli_beyond(j->cli, j->m, j->n);
  j->f = nmb__infer_open(j->cli->run, j->m);
  NMB_TRY(nmb__cli_compiled(j->cli, j->f, &j->hw, &j->pipeline));
  return nmb__infer_step(j->cli->run, j->f, j->ids, j->n, true, v);
}

static int
cmd_logits(nmb__cli *cli)
{
  job j = {.cli = cli};
  const float *v = NULL;
  if (!nmb__cli_given(cli, "tokens"))
    return nmb__cli_usage(cli, "--tokens is needed");
  const nmb_status s = whole(&j, &v);
  int code;
  if (s != NMB_OK)
    code = nmb__cli_failed(cli, s);
  else
    code = nmb__cli_flag(cli, "json") ? print_json(j.ids, v, j.n, j.m->arch->vocab)
                                      : print_text(j.ids, v, j.n, j.m->arch->vocab);
  nmb__infer_close(j.f);
  if (j.hw)
    nmb__machine_free(j.hw);
  nmb__wmodel_close(j.m);
  return code;
}

static const nmb__flag flags[] = {
    NMB__FLAG_JSON,
    {"tokens", 0, "LIST", "text", NULL, "token ids, separated by commas; -: from standard input"},
    {"machine", 'M', "NAME", "machine", NULL,
     "compile for it, and execute the code out of its simulated memories"},
    {"pipeline", 'p', "TEXT", "pass", NULL, "passes that compile for the machine"},
    {0}};

const nmb__command nmb__cmd_logits = {
    .name = "logits",
    .args = "FILE",
    .arg_type = "file",
    .min = 1,
    .max = 1,
    .summary = "the logits of a model at every position of a sequence",
    .help =
        "Evaluates the model in a weight file (GGUF, llama2.c or rwkv.cpp .bin, "
        "safetensors, an index of shards, or a folder with one of the last two and its "
        "config.json; or the name of one in models/weights) on the tokens, in single precision and with every weight at the "
        "exact value that the file stores. With a machine, the step is compiled (without "
        "--pipeline by a plain one, weights in bf16) and its instructions are executed "
        "on values in the formats of their tensors.\n\n"
        "With --json: \"logits\" has a list for each position, with a number for each "
        "token of the vocabulary; after a failure the object has \"status\" and \"error\" "
        "instead.",
    .example = "nmbench logits stories260k --tokens 1,403,407",
    .flags = flags,
    .main = cmd_logits,
};
