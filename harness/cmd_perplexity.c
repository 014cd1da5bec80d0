/* SPDX-License-Identifier: GPL-3.0-or-later */
/* nmbench perplexity: how well a model predicts a text. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/infer.h"
#include "harness/cmd.h"
#include "ir/machine.h"
#include "ir/values.h"

typedef struct job {
  nmb__cli *cli;
  nmb__wmodel *m;
  nmb__infer *f;
  int32_t *ids; /* of the text, without BOS */
  int64_t n;
  int32_t bos;
  nmb_hw *hw; /* NULL: by the reference evaluation */
  nmb__pipeline pipeline;
  nmb__agreement a; /* of code, or of the model with itself */
} job;

static nmb_status
text_read(job *j)
{
  j->bos = (int32_t)nmb__cli_int(j->cli, "bos");
  if (nmb__cli_given(j->cli, "tokens"))
    return nmb__cli_ids(j->cli, "tokens", 0, &j->ids, &j->n);
  return nmb__wmodel_text(j->cli->run, j->m, nmb__cli_text(j->cli, "text"),
                          nmb__cli_text(j->cli, "tokenizer"), &j->ids, &j->n, &j->bos);
}

/* BOS and the tokens [at, at + n) of the text. */
static nmb_status
chunk(job *j, int64_t at, int64_t n)
{
  const float *logits;
  int32_t *ids = NMB_NEW(j->cli->run, int32_t, n + 1);
  ids[0] = j->bos;
  memcpy(ids + 1, j->ids + at, (size_t)n * sizeof *ids);
  nmb__infer_reset(j->f);
  NMB_TRY(nmb__infer_check(j->cli->run, j->f, ids, n + 1));
  NMB_TRY(nmb__infer_step(j->cli->run, j->f, ids, n, true, &logits));
  nmb__agreement_add(&j->a, j->hw ? nmb__infer_exact(j->f) : logits, logits, n,
                     j->m->arch->vocab, ids + 1);
  return NMB_OK;
}

static nmb_status
whole(job *j)
{
  const int64_t size = nmb__cli_int(j->cli, "chunk");
  if (size < 1 || size > 1 << 20)
    return nmb_fail(j->cli->run, NMB_BADOPTION, NMB_NOLOC,
                    "--chunk: found %" PRId64 ", expected 1 to 2^20", size);
  NMB_TRY(nmb__wmodel_open(j->cli->run, j->cli->arg[0], &j->m));
  NMB_TRY(text_read(j));
  if (!j->n)
    return nmb_fail(j->cli->run, NMB_BADINPUT, NMB_NOLOC, "the text has no tokens");
  j->f = nmb__infer_open(j->cli->run, j->m);
  NMB_TRY(nmb__cli_compiled(j->cli, j->f, &j->hw, &j->pipeline));
  for (int64_t at = 0; at < j->n; at += size)
    NMB_TRY(chunk(j, at, j->n - at < size ? j->n - at : size));
  return NMB_OK;
}

static int
print_json(const job *j)
{
  const nmb__accuracy a = nmb__agreement_accuracy(&j->a);
  json_t *o = json_pack("{s:I, s:o, s:o, s:o}", "tokens", (json_int_t)j->n, "nll",
                        nmb__json_real(j->a.nll), "perplexity",
                        nmb__json_real(a.perplexity), "perplexity_se",
                        nmb__json_real(a.perplexity_se));
  if (j->hw) {
    json_t *more = json_pack(
        "{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "machine", j->hw->name,
        "perplexity_exact", nmb__json_real(a.perplexity_exact), "perplexity_rise",
        nmb__json_real(a.rise), "perplexity_rise_se", nmb__json_real(a.rise_se), "kl",
        nmb__json_real(a.kl), "kl_se", nmb__json_real(a.kl_se), "top1",
        nmb__json_real(a.top1), "logits_max", nmb__json_real(j->a.most), "logits_rms",
        nmb__json_real(nmb__agreement_rms(&j->a)));
    json_object_update(o, more);
    json_decref(more);
  }
  return nmb__cli_json(o);
}

static void
print_text(const job *j)
{
  const nmb__accuracy a = nmb__agreement_accuracy(&j->a);
  printf("perplexity %.6g +- %.2g over %" PRId64 " tokens\n", a.perplexity, a.perplexity_se,
         j->n);
  if (j->hw)
    printf("on %s; in float %.6g, a rise of %.4g +- %.2g %%; KL %.4g +- %.2g, top-1 "
           "agreement %.4g, logits off by %.4g at most, %.4g rms\n",
           j->hw->name, a.perplexity_exact, 100 * a.rise, 100 * a.rise_se, a.kl, a.kl_se,
           a.top1, j->a.most, nmb__agreement_rms(&j->a));
}

static int
cmd_perplexity(nmb__cli *cli)
{
  job j = {.cli = cli};
  if (nmb__cli_given(cli, "text") && nmb__cli_given(cli, "tokens"))
    return nmb__cli_usage(cli, "--text and --tokens both give the text");
  const nmb_status s = whole(&j);
  int code = NMB__EXIT_OK;
  if (s != NMB_OK)
    code = nmb__cli_failed(cli, s);
  else if (nmb__cli_flag(cli, "json"))
    code = print_json(&j);
  else
    print_text(&j);
  nmb__infer_close(j.f);
  nmb__machine_free(j.hw);
  nmb__wmodel_close(j.m);
  return code;
}

static const nmb__flag flags[] = {
    NMB__FLAG_JSON,
    {"text", 0, "FILE", "file", NULL,
     "the text; -: standard input; NAME.txt beside the weights if absent"},
    {"tokens", 0, "LIST", "text", NULL, "the text as token ids, without BOS; -: from standard input"},
    {"bos", 0, "ID", "int", "1", "where the vocabulary does not say it"},
    {"chunk", 0, "N", "int", "255", "tokens that are predicted together"},
    {"tokenizer", 0, "FILE", "file", NULL,
     "a tokenizer.json, a tokenizer.bin of llama2.c, or a GGUF file with the vocabulary"},
    {"machine", 'M', "NAME", "machine", NULL,
     "compile for it, and execute the code out of its simulated memories"},
    {"pipeline", 'p', "TEXT", "pass", NULL, "passes that compile for the machine"},
    {0}};

const nmb__command nmb__cmd_perplexity = {
    .name = "perplexity",
    .args = "FILE",
    .arg_type = "file",
    .min = 1,
    .max = 1,
    .summary = "how well a model predicts a text",
    .help =
        "Cuts the text into chunks and evaluates each after a BOS, as logits does. The "
        "perplexity is exp(sum of -ln p(token | BOS and the earlier tokens of its "
        "chunk) / number of tokens). With a machine, code is compiled and executed as logits "
        "does, and compared with the model in float.\n\n"
        "What stands after +- is a standard error that takes tokens as independent; that of "
        "the rise over float is of differences token by token.",
    .example = "nmbench perplexity stories260k\n"
               "nmbench perplexity stories260K-Q4_0.gguf --text story.txt",
    .flags = flags,
    .main = cmd_perplexity,
};
