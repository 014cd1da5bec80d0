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
  nmb_run *quiet; /* (optional) of a vocabulary that may be missing */
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

/* How many of n candidates, the best first, are drawn from: the best k (0: all), and of
 * these the fewest that have the share p of the probability. */
static int64_t
nucleus(const double *weight, int64_t n, int64_t k, double p)
{
  double sum = 0, at = 0;
  n = k > 0 && k < n ? k : n;
  for (int64_t i = 0; i < n; i++)
    sum += weight[i];
  for (int64_t i = 0; i < n; i++)
    if ((at += weight[i]) >= p * sum)
      return i + 1;
  return n;
}

/* One of them by softmax(logits / temperature). */
static int32_t
sample(nmb_run *run, const float *v, int64_t n, double temperature, int64_t k, double top)
{
  const size_t mark = nmb__run_mark(run);
  candidate *c = NMB_NEW(run, candidate, n);
  double *p = NMB_NEW(run, double, n), sum = 0, at;
  for (int64_t i = 0; i < n; i++)
    c[i] = (candidate){v[i], (int32_t)i};
  qsort(c, (size_t)n, sizeof *c, by_logit);
  for (int64_t i = 0; i < n; i++)
    p[i] = exp(((double)c[i].logit - (double)c[0].logit) / temperature);
  n = nucleus(p, n, k, top);
  for (int64_t i = 0; i < n; i++)
    sum += p[i];
  at = nmb_uniform(run) * sum;
  int64_t i = 0;
  while (i + 1 < n && at >= p[i])
    at -= p[i++];
  const int32_t id = c[i].id;
  nmb__run_release(run, mark);
  return id;
}

static int32_t
choose(const job *j, const float *v)
{
  nmb__cli *cli = j->cli;
  const double t = nmb__cli_real(cli, "temperature");
  return t > 0 ? sample(cli->run, v, j->m->arch->vocab, t, nmb__cli_int(cli, "top-k"),
                        nmb__cli_real(cli, "top-p"))
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
prompt_read(job *j)
{
  nmb_run *run = j->cli->run;
  const char *text = nmb__cli_text(j->cli, "prompt"), *file = nmb__cli_text(j->cli, "tokenizer");
  int32_t *ids;
  if (nmb__cli_given(j->cli, "tokens")) { /* works without a vocabulary */
    j->quiet = nmb__run_open(NULL);
    if (nmb__vocab_open(file ? run : j->quiet, j->m->file, file, j->m->arch->vocab, &j->v) !=
        NMB_OK) {
      j->v = NULL;
      if (file)
        return NMB_BADINPUT;
    }
    return nmb__cli_ids(j->cli, "tokens", j->n, &j->ids, &j->prompt);
  }
  NMB_TRY(nmb__vocab_open(run, j->m->file, file, j->m->arch->vocab, &j->v));
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
  if (j->hw)
    json_object_set_new(o, "machine", json_string(j->hw->name));
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
  if (!j->n)
    return NMB_OK;
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
options_check(const job *j)
{
  const nmb__cli *cli = j->cli;
  const double t = nmb__cli_real(cli, "temperature"), p = nmb__cli_real(cli, "top-p");
  const char *bad = j->n < 0 || j->n > 1 << 20        ? "n"
                    : t < 0                           ? "temperature"
                    : nmb__cli_int(cli, "top-k") < 0  ? "top-k"
                    : !(p > 0 && p <= 1)              ? "top-p"
                                                      : NULL;
  if (!bad)
    return NMB_OK;
  return nmb_fail(cli->run, NMB_BADOPTION, NMB_NOLOC, "%s%s: found %s, expected %s",
                  bad[1] ? "--" : "-", bad, nmb__cli_text(cli, bad),
                  *bad == 'n'             ? "0 to 2^20"
                  : !strcmp(bad, "top-p") ? "more than 0, at most 1"
                                          : "0 or more");
}

static nmb_status
whole(job *j, int64_t *made)
{
  j->n = nmb__cli_int(j->cli, "n");
  NMB_TRY(options_check(j));
  nmb__run_seed(j->cli->run, (uint64_t)nmb__cli_int(j->cli, "seed"));
  NMB_TRY(nmb__wmodel_open(j->cli->run, j->cli->arg[0], &j->m));
  NMB_TRY(prompt_read(j));
  nmb__cli_beyond(j->cli, j->m, j->prompt + j->n);
  j->f = nmb__infer_open(j->cli->run, j->m);
  NMB_TRY(nmb__infer_check(j->cli->run, j->f, j->ids, j->prompt));
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
  if (nmb__cli_given(cli, "prompt") && nmb__cli_given(cli, "tokens"))
    return nmb__cli_usage(cli, "--prompt and --tokens both give the prompt");
  const nmb_status s = whole(&j, &made);
  int code = NMB__EXIT_OK;
  if ((made || s == NMB_OK) && !nmb__cli_flag(cli, "json"))
    printf("\n");
  if (s != NMB_OK)
    code = nmb__cli_failed(cli, s);
  else if (nmb__cli_flag(cli, "json"))
    code = print_json(&j, made);
  else if (j.token_s > 0)
    printf("\n%s: %.6g tokens/s as simulated\n", nmb__cli_text(cli, "machine"),
           1 / j.token_s);
  nmb__infer_close(j.f);
  if (j.hw)
    nmb__machine_free(j.hw);
  nmb__wmodel_close(j.m);
  if (j.quiet)
    nmb__run_close(j.quiet);
  return code;
}

static const nmb__flag flags[] = {
    NMB__FLAG_JSON,
    {"prompt", 'p', "TEXT", "text", NULL, "what the text begins with"},
    {"tokens", 0, "LIST", "text", NULL, "the prompt as token ids, separated by commas, in place of a text"},
    {"n", 'n', "N", "int", "32", "tokens to generate"},
    {"temperature", 0, "T", "real", "0", "of sampling; 0: the best token each time"},
    {"top-k", 0, "K", "int", "0", "sample among the K best; 0: among all"},
    {"top-p", 0, "P", "real", "1",
     "sample among the fewest that have this share of the probability"},
    {"seed", 0, "N", "int", "1", "of sampling, routing, passes and noise"},
    {"ignore-eos", 0, NULL, NULL, NULL, "go on after the end of a text"},
    {"tokenizer", 0, "FILE", "file", NULL,
     "a tokenizer.json, a tokenizer.bin of llama2.c, or a GGUF file with the vocabulary"},
    {"machine", 'M', "NAME", "machine", NULL,
     "compile for it, and execute the code out of its memories"},
    {"pipeline", 0, "TEXT", "pass", NULL, "passes that compile for the machine (no -p here: that is the prompt)"},
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
        "vocabulary knows, or after -n tokens.\n\n"
        "With a temperature above 0 a token is drawn with probability softmax(logits / "
        "temperature) among those that --top-k leaves, and of these the ones that --top-p "
        "leaves. The same seed, options and model give the same text on any machine of the "
        "reader; on a simulated one the logits, and so the text, are those of its code.\n\n"
        "The vocabulary is that of the GGUF file, else tokenizer.json, tokenizer.bin or "
        "tok512.bin beside it. With a machine, every step is compiled (without --pipeline "
        "by a plain one) and executed as logits does; the decode step in the middle of the "
        "text is simulated, and its tokens per second stand below.\n\n"
        "With --json: \"prompt_tokens\", \"tokens\", \"text\" (null where bytes are half of "
        "a character, or without a vocabulary), and with a machine \"machine\" and "
        "\"simulated_tokens_per_second\"; after a failure \"status\" and \"error\".",
    .example = "nmbench generate stories260k -p 'Once upon a time' -n 64\n"
               "nmbench generate stories260k -n 50 --temperature 0.8 --top-p 0.9 --seed 7\n"
               "nmbench generate stories260k -p Once -n 20 --machine aim-gddr6",
    .flags = flags,
    .main = cmd_generate,
};
