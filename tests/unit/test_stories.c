/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The real model of models/weights: logits, greedy tokens and perplexity as a program of
 * its own computed them in fp64, through the reference evaluation and through code. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/path.h"
#include "base/plugin.h"
#include "base/run.h"
#include "frontend/infer.h"
#include "frontend/token.h"
#include "ir/machine.h"
#include "tests/unit/unit.h"

enum { VOCAB = 512, MOST = 64 };

static const char *
source(nmb_run *run, const char *path)
{
  const char *top = getenv("srcdir");
  return nmb_format(run, "%s/%s", top ? top : ".", path);
}

/* The numbers of a line; their count. */
static int
numbers(const char *s, int most, double *out)
{
  int n = 0;
  for (char *end; n < most; s = end) {
    const double x = strtod(s, &end);
    if (end == s)
      break;
    out[n++] = x;
  }
  return n;
}

typedef struct lines {
  nmb_run *run;
  nmb__infer *f;
  int32_t ids[MOST];
  int64_t n;
  const float *logits; /* of all positions of ids */
  double room;         /* times the tolerance of fp32: 1e-4 + 1e-4 |x| */
  int rows, tokens;    /* compared */
} lines;

static void
check_logits(lines *l, const double *x, int n)
{
  const int64_t at = (int64_t)x[0];
  double most = 0;
  CU_ASSERT_EQUAL_FATAL(n, VOCAB + 1);
  CU_ASSERT_TRUE_FATAL(at >= 0 && at < l->n);
  for (int i = 0; i < VOCAB; i++)
    most = fmax(most, fabs((double)l->logits[at * VOCAB + i] - x[i + 1]) /
                          (1e-4 + 1e-4 * fabs(x[i + 1])));
  if (!(most <= l->room))
    printf("\n  position %d: %.3g of the tolerance\n", (int)at, most);
  CU_ASSERT_TRUE(most <= l->room);
  l->rows++;
}

static int32_t
largest(const float *x)
{
  int32_t at = 0;
  for (int32_t i = 1; i < VOCAB; i++)
    at = x[i] > x[at] ? i : at;
  return at;
}

static void
check_greedy(lines *l, const double *x, int n)
{
  const float *row = l->logits + (l->n - 1) * VOCAB;
  for (int i = 0; i < n; i++) {
    const int32_t id = largest(row);
    CU_ASSERT_EQUAL(id, (int32_t)x[i]);
    CU_ASSERT_EQUAL_FATAL(nmb__infer_step(l->run, l->f, &id, 1, true, &row), NMB_OK);
    l->tokens++;
  }
}

static void
check_line(lines *l, const char *s, bool greedy)
{
  double x[VOCAB + 2];
  if (!strncmp(s, "tokens ", 7)) {
    l->n = numbers(s + 7, MOST, x);
    for (int64_t i = 0; i < l->n; i++)
      l->ids[i] = (int32_t)x[i];
    nmb__infer_reset(l->f);
    CU_ASSERT_EQUAL_FATAL(nmb__infer_step(l->run, l->f, l->ids, l->n, true, &l->logits),
                          NMB_OK);
  } else if (!strncmp(s, "logits ", 7))
    check_logits(l, x, numbers(s + 7, VOCAB + 2, x));
  else if (!strncmp(s, "greedy ", 7) && greedy)
    check_greedy(l, x, numbers(s + 7, VOCAB, x));
}

static void
compare(nmb_run *run, nmb__infer *f, double room, bool greedy, lines *out)
{
  size_t len;
  char *text = nmb__read_file(run, source(run, "tests/data/stories260k.txt"), &len);
  *out = (lines){.run = run, .f = f, .room = room};
  CU_ASSERT_PTR_NOT_NULL_FATAL(text);
  for (char *s = text, *end; *s; s = end) {
    end = s + strcspn(s, "\n");
    if (*end)
      *end++ = '\0';
    check_line(out, s, greedy);
  }
}

static void
test_reference(void)
{
  nmb_run *run = nmb__run_open(NULL);
  nmb__wmodel *m;
  lines l;
  CU_ASSERT_EQUAL_FATAL(nmb__wmodel_open(run, "karpathy--stories260K", &m), NMB_OK);
  CU_ASSERT_EQUAL(nmb__wmodel_check(run, m), NMB_OK);
  nmb__infer *f = nmb__infer_open(run, m);
  compare(run, f, 1, true, &l);
  CU_ASSERT_EQUAL(l.rows, 6);
  CU_ASSERT_EQUAL(l.tokens, 96);
  nmb__infer_close(f);
  nmb__wmodel_close(m);
  nmb__run_close(run);
}

/* Compiled with nothing rounded, out of the memories of a machine. */
static void
on_machine(const char *machine, const char *passes, bool greedy)
{
  nmb_run *run = nmb__run_open(NULL);
  nmb__wmodel *m;
  nmb_hw *hw = NULL;
  nmb__pipeline pl;
  lines l;
  CU_ASSERT_EQUAL_FATAL(nmb__wmodel_open(run, "stories260k", &m), NMB_OK);
  CU_ASSERT_EQUAL_FATAL(nmb__plugins_load(run, NULL), NMB_OK);
  CU_ASSERT_EQUAL_FATAL(nmb__machine_load(run, machine, &hw), NMB_OK);
  CU_ASSERT_EQUAL_FATAL(nmb__pipeline_parse(run, NMB_NOLOC, passes, &pl), NMB_OK);
  nmb__infer *f = nmb__infer_open(run, m);
  nmb__infer_compiled(run, f, hw, &pl);
  compare(run, f, 1, greedy, &l);
  CU_ASSERT_EQUAL(l.rows, 6);
  nmb__infer_close(f);
  nmb__machine_free(hw);
  nmb__wmodel_close(m);
  nmb__run_close(run);
}

static void
test_code(void)
{
  on_machine("gpu-a100",
             "legalize,quantize{weights=fp32,activations=fp32,kv=fp32},fuse-dp,"
             "dispatch-cost,map-search{budget=16},sched-list,mem-bestfit,emit-queues",
             true);
  on_machine("aim-gddr6",
             "legalize,quantize{weights=fp32,activations=fp32,kv=fp32},fuse-greedy,"
             "dispatch-rule,map-interleave,sched-overlap,mem-firstfit,emit-queues",
             false);
}

static void
test_names(void)
{
  nmb_run *run = nmb__run_open(NULL);
  nmb__wmodel *m;
  CU_ASSERT_PTR_NOT_NULL(nmb__wfile_named(run, "stories260K"));
  CU_ASSERT_PTR_NULL(nmb__wfile_named(run, "stories260"));
  CU_ASSERT_PTR_NULL(nmb__wfile_named(run, "tok512x"));
  CU_ASSERT_PTR_NULL(nmb__wfile_named(run, "no/such--stories260k"));
  CU_ASSERT_NOT_EQUAL(nmb__wmodel_open(run, "stories260", &m), NMB_OK);
  nmb__run_close(run);
}

UNIT_MAIN("stories", {"logits and greedy tokens equal those of fp64", test_reference},
          {"code gives them, too, where nothing is rounded", test_code},
          {"weights are found by name", test_names})
