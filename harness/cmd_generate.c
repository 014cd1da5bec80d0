/* SPDX-License-Identifier: GPL-3.0-or-later */
/* nmbench generate: text that a model writes, and how fast a machine would be. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/plugin.h"
#include "base/run.h"
#include "frontend/infer.h"
#include "frontend/token.h"
#include "harness/cmd.h"
#include "ir/machine.h"
#include "ir/pipeline.h"

typedef struct job {
  nmb__cli *cli;
  nmb__wmodel *m;
  nmb__infer *f;
  nmb__vocab *v; /* (optional) NULL: ids only */
  int32_t *ids;  /* prompt, then what is generated */
  int64_t prompt, n;
  nmb_hw *hw; /* (optional) */
  nmb__pipeline pipeline;
  double token_s; /* simulated, of one decode step; 0: no machine named */
} job;

/* ---------------------------------------------------------------- sampling */
static int32_t
greedy(const float *v, int64_t n)
{
  int64_t best = 0;
  for (int64_t i = 1; i < n; i++)
    if (v[i] > v[best])
      best = i;
  return (int32_t)best;
}

typedef struct candidate {
  float logit;
  int32_t id;
} candidate;

static int
by_logit(const void *a, const void *b)
{
  const candidate *x = a, *y = b;
  if (x->logit > y->logit || x->logit < y->logit)
    return x->logit > y->logit ? -1 : 1;
  return x->id < y->id ? -1 : x->id > y->id;
}

/* One of the top k (0: of all) by softmax(logits / temperature). */
static int32_t
sample(nmb_run *run, const float *v, int64_t n, double temperature, int64_t k)
{
  const size_t mark = nmb__run_mark(run);
  candidate *c = NMB_NEW(run, candidate, n);
  double sum = 0, at;
  for (int64_t i = 0; i < n; i++)
    c[i] = (candidate){v[i], (int32_t)i};
  qsort(c, (size_t)n, sizeof *c, by_logit);
  k = k > 0 && k < n ? k : n;
  double *p = NMB_NEW(run, double, k);
  for (int64_t i = 0; i < k; i++)
    sum += p[i] = exp(((double)c[i].logit - (double)c[0].logit) / temperature);
  at = nmb_uniform(run) * sum;
  int64_t i = 0;
  while (i + 1 < k && at >= p[i])
    at -= p[i++];
  const int32_t id = c[i].id;
  nmb__run_release(run, mark);
  return id;
}

static int32_t
choose(const job *j, const float *v)
{
  const double t = nmb__cli_real(j->cli, "temperature");
  return t > 0
             ? sample(j->cli->run, v, j->m->arch->vocab, t, nmb__cli_int(j->cli, "top-k"))
             : greedy(v, j->m->arch->vocab);
}

/* --------------------------------------------------------------- the machine */
static double
metric(const nmb_run *run, const char *name)
{
  const nmb__values *v = nmb__run_metrics(run);
  for (int i = v->n - 1; i >= 0; i--)
    if (!strcmp(v->v[i].name, name) && !v->v[i].a)
      return v->v[i].value;
  return NAN;
}

/* Compiles and simulates the decode step in the middle of what is generated. */
static nmb_status
simulate(job *j)
{
  nmb_run *run = j->cli->run;
  const nmb__routing_spec routing = {"uniform", 0,
                                     (uint64_t)nmb__cli_int(j->cli, "seed")};
  const nmb_step_spec spec = {NMB_DECODE, 1, 1, j->prompt + j->n / 2};
  nmb_prog *p = NULL;
  NMB_TRY(nmb__graph_build(run, j->m->arch, spec, &routing, &p));
  nmb_prog_set_hw(p, j->hw);
  nmb_status s = nmb__pipeline_run(run, p, &j->pipeline, NULL);
  if (s == NMB_OK)
    s = nmb__simulate(run, p, "event");
  if (s == NMB_OK)
    j->token_s = metric(run, "latency");
  nmb_prog_free(p);
  return s;
}

/* -------------------------------------------------------------------- input */
static nmb_status
ids_read(job *j, const char *list)
{
  int32_t *v = NMB_NEW(j->cli->run, int32_t, strlen(list) + 1 + (size_t)j->n);
  const char *s = list;
  for (char *end;; s = end + 1) {
    const long x = strtol(s, &end, 10);
    if (end == s || x < 0 || x > INT32_MAX || (*end && *end != ','))
      return nmb_fail(j->cli->run, NMB_BADINPUT, NMB_NOLOC,
                      "--tokens: found '%s', expected token ids separated by commas",
                      list);
    v[j->prompt++] = (int32_t)x;
    if (!*end)
      break;
  }
  j->ids = v;
  return NMB_OK;
}

static nmb_status
prompt_read(job *j)
{
  nmb_run *run = j->cli->run;
  const char *text = nmb__cli_text(j->cli, "prompt"),
             *list = nmb__cli_text(j->cli, "tokens");
  int32_t *ids;
  const nmb_status s = nmb__vocab_open(
      run, j->m->file, nmb__cli_text(j->cli, "tokenizer"), j->m->arch->vocab, &j->v);
  if (list) { /* works without a vocabulary */
    if (s != NMB_OK)
      j->v = NULL;
    return ids_read(j, list);
  }
  NMB_TRY(s);
  NMB_TRY(nmb__vocab_encode(run, j->v, text ? text : "", text ? strlen(text) : 0, &ids,
                            &j->prompt));
  if (!j->prompt)
    return nmb_fail(run, NMB_BADINPUT, NMB_NOLOC,
                    "the prompt has no tokens, and the vocabulary begins with none");
  j->ids = NMB_NEW(run, int32_t, j->prompt + j->n);
  memcpy(j->ids, ids, (size_t)j->prompt * sizeof *ids);
  return NMB_OK;
}

/* ------------------------------------------------------------------- output */
static void
piece_print(job *j, int64_t i)
{
  size_t n;
  const int32_t before = i ? j->ids[i - 1] : -1;
  if (!j->v) {
    printf("%s%" PRId32, i > j->prompt ? " " : "", j->ids[i]);
    return;
  }
  const char *s = nmb__vocab_text(j->cli->run, j->v, before, j->ids[i], &n);
  fwrite(s, 1, n, stdout);
}

static const char *
text_of(job *j, int64_t from, int64_t to)
{
  nmb_run *run = j->cli->run;
  size_t all = 0, n;
  for (int64_t i = from; i < to; i++) {
    nmb__vocab_text(run, j->v, i ? j->ids[i - 1] : -1, j->ids[i], &n);
    all += n;
  }
  char *out = NMB_NEW(run, char, all + 1);
  all = 0;
  for (int64_t i = from; i < to; i++) {
    const char *s = nmb__vocab_text(run, j->v, i ? j->ids[i - 1] : -1, j->ids[i], &n);
    memcpy(out + all, s, n);
    all += n;
  }
  return out;
}

static json_t *
ids_json(const int32_t *ids, int64_t n)
{
  json_t *list = json_array();
  for (int64_t i = 0; i < n; i++)
    json_array_append_new(list, json_integer(ids[i]));
  return list;
}

static int
print_json(job *j, int64_t made)
{
  json_t *o = json_pack("{s:o, s:o}", "prompt_tokens", ids_json(j->ids, j->prompt),
                        "tokens", ids_json(j->ids + j->prompt, made));
  /* bytes that are no UTF-8 (half of a character) have no place in JSON */
  json_t *text = j->v ? json_string(text_of(j, j->prompt, j->prompt + made)) : NULL;
  json_object_set_new(o, "text", text ? text : json_null());
  if (j->token_s > 0)
    json_object_set_new(o, "simulated_tokens_per_second", json_real(1 / j->token_s));
  return nmb__cli_json(o);
}

/* --------------------------------------------------------------------- main */
static nmb_status
generate(job *j, int64_t *made)
{
  const bool show = !nmb__cli_flag(j->cli, "json");
  const bool stop = !nmb__cli_flag(j->cli, "ignore-eos") && j->v && j->v->eos >= 0;
  const float *logits;
  if (show && j->v)
    for (int64_t i = 0; i < j->prompt; i++)
      piece_print(j, i);
  NMB_TRY(nmb__infer_step(j->cli->run, j->f, j->ids, j->prompt, false, &logits));
  for (*made = 0; *made < j->n;) {
    const int64_t at = j->prompt + *made;
    j->ids[at] = choose(j, logits);
    ++*made;
    if (show) {
      piece_print(j, at);
      fflush(stdout);
    }
    if (*made == j->n || (stop && j->ids[at] == j->v->eos))
      break;
    NMB_TRY(nmb__infer_step(j->cli->run, j->f, j->ids + at, 1, false, &logits));
  }
  return NMB_OK;
}

static nmb_status
whole(job *j, int64_t *made)
{
  j->n = nmb__cli_int(j->cli, "n");
  if (j->n < 1 || j->n > 1 << 20)
    return nmb_fail(j->cli->run, NMB_BADOPTION, NMB_NOLOC,
                    "-n: found %" PRId64 ", expected 1 to 2^20", j->n);
  nmb__run_seed(j->cli->run, (uint64_t)nmb__cli_int(j->cli, "seed"));
  NMB_TRY(nmb__wmodel_open(j->cli->run, j->cli->arg[0], &j->m));
  NMB_TRY(prompt_read(j));
  j->f = nmb__infer_open(j->cli->run, j->m);
  NMB_TRY(nmb__cli_compiled(j->cli, j->f, &j->hw, &j->pipeline));
  if (j->hw)
    NMB_TRY(simulate(j));
  return generate(j, made);
}

static int
cmd_generate(nmb__cli *cli)
{
  job j = {.cli = cli};
  int64_t made = 0;
  const nmb_status s = whole(&j, &made);
  int code = nmb__exit_code(s);
  if (made && !nmb__cli_flag(cli, "json"))
    printf("\n");
  if (s == NMB_OK && nmb__cli_flag(cli, "json"))
    code = print_json(&j, made);
  else if (s == NMB_OK && j.token_s > 0)
    printf("\n%s: %.6g tokens/s as simulated\n", nmb__cli_text(cli, "machine"),
           1 / j.token_s);
  nmb__infer_close(j.f);
  if (j.hw)
    nmb__machine_free(j.hw);
  nmb__wmodel_close(j.m);
  return code;
}

static const nmb__flag flags[] = {
    NMB__FLAG_JSON,
    {"prompt", 'p', "TEXT", "text", NULL, "what the text begins with"},
    {"tokens", 0, "LIST", "text", NULL, "the prompt as token ids, separated by commas"},
    {"n", 'n', "N", "int", "32", "tokens to generate"},
    {"temperature", 0, "T", "real", "0", "of sampling; 0: the best token each time"},
    {"top-k", 0, "K", "int", "0", "sample among the K best; 0: among all"},
    {"seed", 0, "N", "int", "1", "of sampling, routing and passes"},
    {"ignore-eos", 0, NULL, NULL, NULL, "go on after the end of a text"},
    {"tokenizer", 0, "FILE", "file", NULL,
     "a tokenizer.json, a tokenizer.bin of llama2.c, or a GGUF file with the vocabulary"},
    {"machine", 0, "NAME", "machine", NULL,
     "compile for it, and execute the code out of its memories"},
    {"pipeline", 0, "TEXT", "pass", NULL, "passes that compile for the machine"},
    {0}};

const nmb__command nmb__cmd_generate = {
    .name = "generate",
    .args = "FILE",
    .arg_type = "file",
    .min = 1,
    .max = 1,
    .summary = "text that a model writes",
    .help =
        "Runs the model in a weight file (see logits) through the reference evaluation, "
        "token by token: greedy, or seeded sampling. The text stops at the end that the "
        "vocabulary knows.\n\n"
        "The vocabulary is that of the GGUF file, else tokenizer.json, tokenizer.bin or tok512.bin "
        "beside "
        "it. With a machine, every step is compiled (without --pipeline by a plain one) "
        "and "
        "executed as logits does; the decode step in the middle of the text is "
        "simulated, "
        "and its tokens per second stand below.",
    .example = "nmbench generate stories15M.gguf -p 'Once upon a time' -n 64\n"
               "nmbench generate stories260K.bin -n 100 --temperature 0.8 --machine "
               "aim-gddr6",
    .flags = flags,
    .main = cmd_generate,
};
