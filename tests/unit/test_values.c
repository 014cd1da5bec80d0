/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Programs of every tiny model: a step at a time as all at once, and rewritten as before.
 * The models are small versions of each family; their weights are drawn. */
#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/plugin.h"
#include "base/run.h"
#include "frontend/model.h"
#include "ir/eval.h"
#include "ir/pipeline.h"
#include "tests/unit/unit.h"

enum { BATCH = 2, TOKENS = 15 };

typedef struct subject {
  nmb_run *run;
  const nmb__arch *a;
  nmb__eval *e;
  int32_t ids[BATCH][TOKENS];
  int64_t vocab;
  float *all; /* [BATCH][TOKENS][vocab]: of one prefill */
  double most;
} subject;

static const uint64_t seed = 20;

/* The model's step after `context` tokens, all positions, after the passes. */
static nmb_prog *
program(subject *s, int64_t context, int64_t fresh, const char *passes)
{
  static const nmb__routing_spec routing = {"uniform", 1, 5};
  const nmb_step_spec spec = {fresh > 1 ? NMB_PREFILL : NMB_DECODE, BATCH, fresh,
                              context};
  nmb__pipeline pl;
  nmb_prog *p;
  CU_ASSERT_EQUAL_FATAL(nmb__graph_build(s->run, s->a, spec, &routing, &p), NMB_OK);
  nmb__prog_all_positions(p);
  nmb_status st = nmb_prog_verify(s->run, p, NMB_BIT(NMB_GRAPH));
  if (st == NMB_OK && *passes) {
    st = nmb__pipeline_parse(s->run, NMB_NOLOC, passes, &pl);
    if (st == NMB_OK)
      st = nmb__pipeline_run(s->run, p, &pl, NULL);
  }
  if (st != NMB_OK)
    printf("\n  %s, %s: %s\n", s->a->name, passes, nmb_error_text(s->run));
  CU_ASSERT_EQUAL_FATAL(st, NMB_OK);
  return p;
}

/* Logits of the step's tokens, [BATCH * fresh][vocab]. */
static const float *
step(subject *s, int64_t context, int64_t fresh, const char *passes)
{
  int32_t ids[BATCH * TOKENS];
  const float *y = NULL;
  int64_t rows = 0;
  for (int64_t i = 0; i < BATCH * fresh; i++)
    ids[i] = s->ids[i / fresh][context + i % fresh];
  nmb_prog *p = program(s, context, fresh, passes);
  const nmb_status st = nmb__eval_step(s->run, s->e, p, ids, &y, &rows, &s->vocab);
  if (st != NMB_OK)
    printf("\n  %s, %s: %s\n", s->a->name, passes, nmb_error_text(s->run));
  CU_ASSERT_EQUAL_FATAL(st, NMB_OK);
  CU_ASSERT_EQUAL(rows, BATCH * fresh);
  nmb_prog_free(p);
  return y;
}

/* The largest difference from the one prefill, as a share of the largest logit. */
static double
apart(const subject *s, const float *y, int64_t context, int64_t fresh)
{
  double worst = 0;
  for (int64_t i = 0; i < BATCH * fresh * s->vocab; i++) {
    const int64_t row = i / s->vocab, seq = row / fresh, t = context + row % fresh;
    const double d =
        fabs((double)y[i] - (double)s->all[(seq * TOKENS + t) * s->vocab + i % s->vocab]);
    worst = d <= worst ? worst : d; /* also if it is no number */
  }
  return worst / s->most;
}

static void
open_subject(subject *s, const char *path, nmb__rounding rounding, bool by_table)
{
  const nmb__weights w = nmb__weights_random(&seed);
  const nmb__eval_options o = {.rounding = rounding, .by_table = by_table};
  *s = (subject){.run = nmb__run_open(NULL)};
  CU_ASSERT_EQUAL(nmb__plugins_load(s->run, NULL), NMB_OK);
  const nmb_status st = nmb__arch_load(s->run, path, &s->a);
  if (st != NMB_OK)
    printf("\n  %s\n", nmb_error_text(s->run));
  CU_ASSERT_EQUAL_FATAL(st, NMB_OK);
  s->e = nmb__eval_open(&w, &o);
  for (int i = 0; i < BATCH * TOKENS; i++)
    s->ids[i / TOKENS][i % TOKENS] = (int32_t)((i * 131 + 17) % (s->a->vocab - 1));
  const float *y = step(s, 0, TOKENS, "");
  const size_t n = (size_t)(BATCH * TOKENS * s->vocab);
  s->all = malloc(n * sizeof *y);
  memcpy(s->all, y, n * sizeof *y);
  for (size_t i = 0; i < n; i++)
    s->most = fmax(s->most, fabs((double)y[i]));
  CU_ASSERT_TRUE(s->most > 1e-3 && s->most < 1e3);
}

static void
close_subject(subject *s)
{
  free(s->all);
  nmb__eval_close(s->e);
  nmb__run_close(s->run);
}

static void
near(const subject *s, const char *what, double found)
{
  if (!(found < 1e-4))
    printf("\n  %s, %s: %.3g apart\n", s->a->name, what, found);
  CU_ASSERT_TRUE(found < 1e-4);
}

/* A prompt, some tokens at once, then one by one: windows wrap and states go on. */
static void
check_steps(subject *s, const char *passes)
{
  static const int fresh[] = {6, 4, 1, 1, 1, 1, 1};
  nmb__eval_reset(s->e);
  for (int i = 0, at = 0; at < TOKENS; at += fresh[i++])
    near(s, nmb_format(s->run, "steps, %s, token %d", passes, at),
         apart(s, step(s, at, fresh[i], passes), at, fresh[i]));
}

static void
check_passes(subject *s)
{
  static const char *const passes[] = {
      "legalize", "moe-lower", "mla-absorb{when=always}",
      "mla-absorb{when=always},legalize,moe-lower",
      "quantize{weights=int4,activations=fp8,kv=int8},legalize"};
  for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
    nmb__eval_reset(s->e);
    near(s, passes[i], apart(s, step(s, 0, TOKENS, passes[i]), 0, TOKENS));
  }
}

/* The families, in order of their names. */
static int
by_name(const void *a, const void *b)
{
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int
families(nmb_run *run, const char **path)
{
  const char *top = getenv("srcdir") ? getenv("srcdir") : ".";
  static const char *const folder[] = {"tests/data", "tests/data/tiny"};
  int n = 0;
  for (int i = 0; i < 2; i++) {
    const char *where = nmb_format(run, "%s/%s", top, folder[i]);
    DIR *d = opendir(where);
    if (!d)
      continue;
    for (const struct dirent *f; (f = readdir(d)) && n < 128;) {
      const char *end = strrchr(f->d_name, '.');
      if (end && !strcmp(end, ".json") && (i || !strncmp(f->d_name, "tiny-", 5)))
        path[n++] = nmb_format(run, "%s/%s", where, f->d_name);
    }
    closedir(d);
  }
  qsort(path, (size_t)n, sizeof *path, by_name);
  return n;
}

/* Does the whole rotate otherwise than its first tokens did when they came?  So do these
 * scalings, of what is cached too, in the models' own code. */
static bool
turns_with_length(const nmb__arch *a)
{
  for (int i = 0; i < a->nlayer; i++) {
    const nmb__rope *r = &a->layer[i].attn.rope;
    if ((r->kind == NMB__ROPE_DYNAMIC || r->kind == NMB__ROPE_LONG) && r->orig < TOKENS)
      return true;
  }
  return false;
}

/* By table the experts are others, but the same whole and lowered. */
static void
check_table(const char *path)
{
  const char *lower = "moe-lower,legalize";
  subject s;
  open_subject(&s, path, NMB__ROUND_NONE, true);
  nmb__eval_reset(s.e);
  near(&s, lower, apart(&s, step(&s, 0, TOKENS, lower), 0, TOKENS));
  close_subject(&s);
}

/* Rounding to the stored formats changes values, the more the coarser. */
static void
check_rounded(subject *s)
{
  const nmb__weights w = nmb__weights_random(&seed);
  nmb__eval_close(s->e);
  s->e = nmb__eval_open(&w, &(nmb__eval_options){.rounding = NMB__ROUND_STORED});
  const double fine = apart(s, step(s, 0, TOKENS, ""), 0, TOKENS);
  nmb__eval_reset(s->e);
  const double coarse =
      apart(s, step(s, 0, TOKENS, "quantize{weights=mxfp4,kv=fp8}"), 0, TOKENS);
  if (!(fine > 0 && fine < 1.5 && coarse < 3 && coarse > 0))
    printf("\n  %s: %.3g apart as stored, %.3g in mxfp4\n", s->a->name, fine, coarse);
  CU_ASSERT_TRUE(fine > 0 && fine < 1.5 && coarse < 3 && coarse > 0);
}

static void
test_families(void)
{
  nmb_run *run = nmb__run_open(NULL);
  const char *path[128];
  const int n = families(run, path);
  bool routed = false;
  CU_ASSERT_TRUE(n >= 40);
  for (int i = 0; i < n; i++) {
    subject s;
    open_subject(&s, path[i], NMB__ROUND_NONE, false);
    if (!turns_with_length(s.a)) {
      check_steps(&s, "");
      check_steps(&s, "mla-absorb{when=always},legalize,moe-lower");
    }
    check_passes(&s);
    routed = false;
    for (int j = 0; j < s.a->nlayer; j++)
      routed |= s.a->layer[j].moe.experts > 0;
    check_rounded(&s);
    close_subject(&s);
    if (routed)
      check_table(path[i]);
  }
  nmb__run_close(run);
}

/* A step that does not follow on what the caches hold is an error, not a value. */
static void
test_wrong_step(void)
{
  nmb_run *run = nmb__run_open(NULL);
  const char *path[128];
  subject s;
  const int32_t ids[BATCH] = {1, 2};
  const float *y;
  int64_t n, m;
  CU_ASSERT_TRUE_FATAL(families(run, path) > 0);
  open_subject(&s, path[0], NMB__ROUND_NONE, false); /* has taken TOKENS */
  nmb_prog *p = program(&s, TOKENS - 1, 1, "");
  CU_ASSERT_EQUAL(nmb__eval_step(s.run, s.e, p, ids, &y, &n, &m), NMB_BADINPUT);
  CU_ASSERT_PTR_NOT_NULL(strstr(nmb_error_text(s.run), "has taken 15 tokens"));
  nmb_prog_free(p);
  p = program(&s, TOKENS, 1, "");
  CU_ASSERT_EQUAL(nmb__eval_step(s.run, s.e, p, ids, &y, &n, &m), NMB_OK);
  nmb_prog_free(p);
  close_subject(&s);
  nmb__run_close(run);
}

UNIT_MAIN("values",
          {"in every family steps give what one prefill gives, and rewrites keep it",
           test_families},
          {"a step that does not follow the last is an error", test_wrong_step})
