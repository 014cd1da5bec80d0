/* SPDX-License-Identifier: GPL-3.0-or-later */
/* nmbench perplexity: how well a model predicts a text. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/path.h"
#include "frontend/infer.h"
#include "frontend/token.h"
#include "harness/cmd.h"

typedef struct job {
  nmb__cli *cli;
  nmb__wmodel *m;
  nmb__infer *f;
  int32_t *ids; /* of the text, without BOS */
  int64_t n;
  int32_t bos;
  double nll; /* sum of -ln p */
} job;

/* "[1,2,3]" or "1,2,3" */
static nmb_status
ids_read(job *j, const char *s)
{
  j->ids = NMB_NEW(j->cli->run, int32_t, strlen(s) + 1);
  for (;; s++) {
    char *end;
    s += strspn(s, "[], \t\n");
    if (!*s)
      return NMB_OK;
    const long x = strtol(s, &end, 10);
    if (end == s || x < 0 || x > INT32_MAX)
      return nmb_fail(j->cli->run, NMB_BADINPUT, NMB_NOLOC,
                      "--tokens: found '%.20s', expected token ids", s);
    j->ids[j->n++] = (int32_t)x;
    s = end - 1;
  }
}

/* The text that goes with the weights: NAME.txt beside NAME.bin; NULL. */
static const char *
own_text(nmb_run *run, const char *path)
{
  const char *dot = strrchr(path, '.');
  const char *text =
      dot ? nmb_format(run, "%.*s.txt", (int)(dot - path), path) : NULL;
  return text && !strchr(dot, '/') && nmb__is_file(text) ? text : NULL;
}

static nmb_status
text_read(job *j)
{
  nmb_run *run = j->cli->run;
  const char *file = nmb__cli_text(j->cli, "text"),
             *list = nmb__cli_text(j->cli, "tokens");
  nmb__vocab *v;
  size_t len;
  j->bos = (int32_t)nmb__cli_int(j->cli, "bos");
  if (list)
    return ids_read(j, list);
  if (!file && !(file = own_text(run, j->m->file->path)))
    return nmb_fail(run, NMB_BADOPTION, NMB_NOLOC, "--text or --tokens is needed");
  NMB_TRY(nmb__vocab_open(run, j->m->file, nmb__cli_text(j->cli, "tokenizer"),
                          j->m->arch->vocab, &v));
  const char *text = nmb__read_file(run, file, &len);
  if (!text)
    return NMB_IO;
  v->add_bos = false;
  if (v->bos >= 0)
    j->bos = v->bos;
  return nmb__vocab_encode(run, v, text, len, &j->ids, &j->n);
}

/* -ln softmax(v)[id] */
static double
cost(const float *v, int64_t n, int32_t id)
{
  double most = (double)v[0], sum = 0;
  for (int64_t i = 1; i < n; i++)
    most = (double)v[i] > most ? (double)v[i] : most;
  for (int64_t i = 0; i < n; i++)
    sum += exp((double)v[i] - most);
  return most + log(sum) - (double)v[id];
}

/* BOS and the tokens [at, at + n) of the text. */
static nmb_status
chunk(job *j, int64_t at, int64_t n)
{
  const int64_t vocab = j->m->arch->vocab;
  const float *logits;
  int32_t *ids = NMB_NEW(j->cli->run, int32_t, n + 1);
  ids[0] = j->bos;
  memcpy(ids + 1, j->ids + at, (size_t)n * sizeof *ids);
  nmb__infer_reset(j->f);
  NMB_TRY(nmb__infer_check(j->cli->run, j->f, ids, n + 1));
  NMB_TRY(nmb__infer_step(j->cli->run, j->f, ids, n, true, &logits));
  for (int64_t i = 0; i < n; i++)
    j->nll += cost(logits + i * vocab, vocab, ids[i + 1]);
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
  for (int64_t at = 0; at < j->n; at += size)
    NMB_TRY(chunk(j, at, j->n - at < size ? j->n - at : size));
  return NMB_OK;
}

static int
cmd_perplexity(nmb__cli *cli)
{
  job j = {.cli = cli};
  const nmb_status s = whole(&j);
  int code = nmb__exit_code(s);
  const double ppl = exp(j.nll / (double)(j.n ? j.n : 1));
  if (s == NMB_OK && nmb__cli_flag(cli, "json"))
    code = nmb__cli_json(json_pack("{s:I, s:o, s:o}", "tokens", (json_int_t)j.n, "nll",
                                   nmb__json_real(j.nll), "perplexity",
                                   nmb__json_real(ppl)));
  else if (s == NMB_OK)
    printf("perplexity %.6g over %" PRId64 " tokens\n", ppl, j.n);
  nmb__infer_close(j.f);
  nmb__wmodel_close(j.m);
  return code;
}

static const nmb__flag flags[] = {
    NMB__FLAG_JSON,
    {"text", 0, "FILE", "file", NULL,
     "the text; -: standard input; NAME.txt beside the weights if absent"},
    {"tokens", 0, "LIST", "text", NULL, "the text as token ids, without BOS"},
    {"bos", 0, "ID", "int", "1", "where the vocabulary does not say it"},
    {"chunk", 0, "N", "int", "255", "tokens that are predicted together"},
    {"tokenizer", 0, "FILE", "file", NULL,
     "a tokenizer.bin of llama2.c, or a GGUF file with the vocabulary"},
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
        "chunk) / number of tokens).",
    .example = "nmbench perplexity stories260k\n"
               "nmbench perplexity stories260K-Q4_0.gguf --text story.txt",
    .flags = flags,
    .main = cmd_perplexity,
};
