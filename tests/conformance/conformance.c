/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Every plugin that is found, on small programs and all machines.
 *
 * A pass runs in the middle of a pipeline of baselines: it must change only the
 * section it declares and leave it verified (the pipeline manager sees to both),
 * write the same bytes twice, and what comes after it must still work, down to
 * the simulators, whose metrics must be finite, declared and the same twice.  It
 * may refuse, with an outcome and a reason.  Missing sections, a missing machine
 * and wrong options must be refused politely. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "base/path.h"
#include "base/plugin.h"
#include "base/run.h"
#include "frontend/model.h"
#include "ir/machine.h"
#include "ir/pipeline.h"
#include "nmbench/nmb_plan.h"
#include "tests/unit/unit.h"

/* What stands before and after the plugin under test. */
static const char *const baseline[] = {"legalize",      "mla-absorb",    "moe-lower",
                                       "fuse-none",     "dispatch-host", "map-rowmajor",
                                       "sched-inorder", "mem-bump",      "emit-queues"};
enum { NBASE = sizeof baseline / sizeof *baseline, NREWRITE = 3 };

static const struct {
  const char *model;
  nmb_step_spec step;
} program[] = {
    {"tiny-llama", {NMB_DECODE, 3, 1, 70}},
    {"tiny-moe", {NMB_DECODE, 5, 1, 33}},
    {"tiny-mla", {NMB_DECODE, 2, 1, 90}},
    {"tiny-moe", {NMB_PREFILL, 1, 24, 0}},
};
enum { NPROGRAM = sizeof program / sizeof *program };

static const nmb__routing_spec uniform = {"uniform", 0, 11};

/* --------------------------------------------------------------------- helpers */
static nmb_prog *
build(nmb_run *run, const char *model, nmb_step_spec step)
{
  const nmb__arch *a;
  nmb_prog *p = NULL;
  const char *path = nmb_format(run, "%s/%s.json", TEST_DATA, model);
  if (nmb__arch_load(run, path, &a) != NMB_OK ||
      nmb__graph_build(run, a, step, &uniform, &p) != NMB_OK) {
    printf("\n  %s: %s\n", model, nmb_error_text(run));
    exit(99);
  }
  return p;
}

static nmb_status
pass(nmb_run *run, nmb_prog *p, const char *text)
{
  nmb__pipeline pl;
  NMB_TRY(nmb__pipeline_parse(run, NMB_NOLOC, text, &pl));
  return nmb__pipeline_run(run, p, &pl, NULL);
}

static char *
text_of(const nmb_prog *p)
{
  char *text = NULL;
  size_t n = 0;
  FILE *f = open_memstream(&text, &n);
  nmb_prog_print(p, NMB_ALL, f);
  fclose(f);
  return text;
}

static bool
outcome(nmb_status s)
{
  return s == NMB_UNSUPPORTED || s == NMB_INFEASIBLE || s == NMB_NOSOLUTION ||
         s == NMB_TIMEOUT;
}

/* One line for what is wrong, and a failed assertion. */
static void
check(bool good, const char *plugin, const char *where, const char *what, const char *why)
{
  if (!good)
    printf("\n  %s on %s: %s %s\n", plugin, where, what, why);
  CU_ASSERT_TRUE(good);
}

/* The place in the baseline where a pass of that kind stands. */
static int
place_of(const nmb_plugin *plugin)
{
  for (int i = 0; i < NBASE; i++)
    if (nmb__plugin_find(baseline[i]) &&
        nmb__plugin_find(baseline[i])->writes == plugin->writes)
      return plugin->writes == NMB_BIT(NMB_GRAPH) ? NREWRITE : i;
  return NMB_NONE;
}

/* ------------------------------------------------------------------- simulators */
static void
metrics_twice(nmb_run *run, const nmb_prog *p, const char *where)
{
  for (int i = 0; i < nmb__plugin_count(); i++) {
    const nmb_plugin *s = nmb__plugin_at(i);
    if (strcmp(s->kind, "simulator") != 0)
      continue;
    /* executing takes longest; tests/values does it for every pass */
    if (!strcmp(s->name, "functional") && !strstr(where, "after emit-queues"))
      continue;
    nmb__run_clear(run);
    const nmb_status first = nmb__simulate(run, p, s->name);
    const int n = nmb__run_metrics(run)->n;
    check(first == NMB_OK && n > 0, s->name, where, "fails:", nmb_error_text(run));
    if (first != NMB_OK)
      continue;
    check(nmb__simulate(run, p, s->name) == NMB_OK, s->name, where,
          "fails the second time", "");
    const nmb__values *v = nmb__run_metrics(run);
    bool same = v->n == 2 * n;
    double bound = NAN, latency = NAN;
    for (int j = 0; j < n && same; j++) {
      const nmb__value *a = &v->v[j], *b = &v->v[n + j];
      same = !strcmp(a->name, b->name) && !memcmp(&a->value, &b->value, sizeof a->value);
      bound = !a->a && !strcmp(a->name, "bound") ? a->value : bound;
      latency = !a->a && !strcmp(a->name, "latency") ? a->value : latency;
    }
    check(same, s->name, where, "gives other metrics the second time", "");
    check(!(bound > latency * (1 + 1e-9)), s->name, where,
          "has a bound above its latency", "");
  }
}

/* ----------------------------------------------------------------------- passes */
/* The rest of the baseline after place `at`, then all simulators. */
static void
finish(nmb_run *run, nmb_prog *p, int at, const char *plugin, const char *where)
{
  for (int i = at; i < NBASE; i++) {
    const nmb_status s = pass(run, p, baseline[i]);
    check(s == NMB_OK || (outcome(s) && *nmb_error_text(run)), plugin, where,
          nmb_format(run, "then %s fails:", baseline[i]), nmb_error_text(run));
    if (s != NMB_OK)
      return;
  }
  metrics_twice(run, p, nmb_format(run, "%s after %s", where, plugin));
}

static void
one_pass(nmb_run *run, const nmb_prog *before, const nmb_plugin *plugin, int at,
         const char *where)
{
  nmb_prog *a = nmb_prog_copy(before), *b = nmb_prog_copy(before);
  nmb__run_clear(run);
  const nmb_status first = pass(run, a, plugin->name);
  check(first == NMB_OK || (outcome(first) && *nmb_error_text(run)), plugin->name, where,
        nmb_format(run, "is %s:", nmb_status_name(first)), nmb_error_text(run));
  const nmb_status second = pass(run, b, plugin->name);
  check(first == second, plugin->name, where, "ends otherwise the second time", "");
  if (first == NMB_OK && second == NMB_OK) {
    char *x = text_of(a), *y = text_of(b);
    check(!strcmp(x, y), plugin->name, where, "writes other bytes the second time", "");
    free(x);
    free(y);
    finish(run, a, plugin->writes == NMB_BIT(NMB_GRAPH) ? NREWRITE : at + 1, plugin->name,
           where);
  }
  nmb_prog_free(a);
  nmb_prog_free(b);
}

static void
on_machine(nmb_run *run, int which, const char *machine)
{
  nmb_hw *hw;
  if (nmb__machine_load(run, machine, &hw) != NMB_OK) {
    check(false, "machine", machine, "does not load:", nmb_error_text(run));
    return;
  }
  nmb_prog *p = build(run, program[which].model, program[which].step);
  nmb_prog_set_hw(p, hw);
  const char *where = nmb_format(run, "%s, %s", program[which].model, machine);
  for (int at = 0; at < NBASE; at++) {
    const size_t mark = nmb__run_mark(run);
    for (int i = 0; i < nmb__plugin_count(); i++) {
      const nmb_plugin *x = nmb__plugin_at(i);
      if (nmb__plugin_is_pass(x) && place_of(x) == at)
        one_pass(run, p, x, at, where);
      nmb__run_clear(run);
    }
    const nmb_status s = pass(run, p, baseline[at]);
    check(s == NMB_OK || outcome(s), baseline[at], where, "fails:", nmb_error_text(run));
    nmb__run_release(run, mark);
    if (s != NMB_OK)
      break;
  }
  nmb_prog_free(p);
  nmb__machine_free(hw);
}

static void
test_passes(void)
{
  nmb_run *run = nmb__run_open(NULL);
  const char **machine;
  const int n = nmb__list_files(run, "machines", ".hw", &machine);
  CU_ASSERT_TRUE(n > 0);
  for (int i = 0; i < NPROGRAM; i++)
    for (int m = 0; m < n; m++)
      if ((i + m) % 2 == 0 || !strchr(machine[m], '-')) /* half of them each */
        on_machine(run, i, machine[m]);
  nmb__run_close(run);
}

/* -------------------------------------------------------------------- refusals */
static void
test_missing_sections(void)
{
  nmb_run *run = nmb__run_open(NULL);
  nmb_hw *hw;
  CU_ASSERT_EQUAL_FATAL(nmb__machine_load(run, "gpu-a100", &hw), NMB_OK);
  nmb_prog *p = build(run, "tiny-llama", program[0].step);
  for (int i = 0; i < nmb__plugin_count(); i++) {
    const nmb_plugin *x = nmb__plugin_at(i);
    nmb__run_clear(run);
    nmb_prog_set_hw(p, hw);
    if (x->reads & ~NMB_BIT(NMB_GRAPH)) {
      const nmb_status s =
          nmb__plugin_is_pass(x) ? pass(run, p, x->name) : nmb__simulate(run, p, x->name);
      check(s == NMB_BADINPUT, x->name, "a bare graph", "should be refused, is",
            nmb_status_name(s));
      for (int sec = NMB_GROUPS; sec < NMB_NSECTION; sec++)
        if (x->reads & NMB_BIT(sec))
          check(strstr(nmb_error_text(run), nmb__section_name((nmb_section)sec)) != NULL,
                x->name, "a bare graph", "is refused without naming section",
                nmb__section_name((nmb_section)sec));
    }
    nmb_prog_set_hw(p, NULL);
    if (nmb__plugin_is_pass(x) && x->writes != NMB_BIT(NMB_GRAPH)) {
      const nmb_status s = pass(run, p, x->name);
      check(s == NMB_BADINPUT && *nmb_error_text(run), x->name, "no machine",
            "should be refused, is", nmb_status_name(s));
    }
  }
  nmb_prog_free(p);
  nmb__machine_free(hw);
  nmb__run_close(run);
}

static void
test_options(void)
{
  nmb_run *run = nmb__run_open(NULL);
  for (int i = 0; i < nmb__plugin_count(); i++) {
    const nmb_plugin *x = nmb__plugin_at(i);
    nmb__optval *v;
    int n;
    const bool model = !strcmp(x->kind, "model");
    check(nmb__options_parse(run, NMB_NOLOC, x->name, x->opts, "no-such-option=1", &v,
                             &n) == NMB_BADOPTION,
          x->name, "an unknown option", "accepts it", "");
    if (!model) /* parameters of models are given by machines */
      check(nmb__options_parse(run, NMB_NOLOC, x->name, x->opts, "", &v, &n) == NMB_OK,
            x->name, "no options", "has no default:", nmb_error_text(run));
    for (const nmb_opt *o = x->opts; o && o->name && !model; o++) {
      check(o->help && *o->help, x->name, o->name, "has no help", "");
      if (strcmp(o->type, "text") != 0)
        check(nmb__options_parse(run, NMB_NOLOC, x->name, x->opts,
                                 nmb_format(run, "%s=nonsense", o->name), &v,
                                 &n) != NMB_OK,
              x->name, o->name, "accepts nonsense", "");
      if (!strcmp(o->type, "int"))
        check(nmb__options_parse(run, NMB_NOLOC, x->name, x->opts,
                                 nmb_format(run, "%s=-7", o->name), &v, &n) != NMB_OK,
              x->name, o->name, "accepts -7", "");
    }
  }
  nmb__run_close(run);
}

/* What a plugin cites must stand in the bibliography. */
static void
test_sources(void)
{
  nmb_run *run = nmb__run_open(NULL);
  size_t n;
  char *bib = nmb__read_file(run, TEST_DATA "/../../paper/refs.bib", &n);
  CU_ASSERT_PTR_NOT_NULL_FATAL(bib);
  for (int i = 0; i < nmb__plugin_count(); i++) {
    const nmb_plugin *x = nmb__plugin_at(i);
    char *text = nmb_strdup(run, x->source), *rest = NULL;
    CU_ASSERT_TRUE(*x->source && *x->limits && *x->summary);
    for (char *w = strtok_r(text, " ,;", &rest); w; w = strtok_r(NULL, " ,;", &rest)) {
      char *year = strpbrk(w, "0123456789");
      if (year && year > w && strspn(year, "0123456789") == 4 && strchr(w, '.') == NULL &&
          w[0] >= 'a' && w[0] <= 'z')
        check(strstr(bib, nmb_format(run, "{%s,", w)) != NULL, x->name, "paper/refs.bib",
              "cites what is not there:", w);
    }
  }
  nmb__run_close(run);
}

/* --------------------------------------------------------------------- scaling */
/* Estimates that a pass makes for a model with all kinds of passes before it. */
static double
estimates(nmb_run *run, nmb_hw *hw, const char *model, const char *name)
{
  nmb_prog *p = build(run, model, (nmb_step_spec){NMB_DECODE, 4, 1, 40});
  nmb_prog_set_hw(p, hw);
  CU_ASSERT_EQUAL(pass(run, p, "legalize,mla-absorb,moe-lower"), NMB_OK);
  nmb__run_clear(run);
  CU_ASSERT_EQUAL(pass(run, p, name), NMB_OK);
  double n = NAN;
  const nmb__values *v = nmb__run_stats(run);
  for (int i = 0; i < v->n; i++)
    if (!strcmp(v->v[i].name, "estimates"))
      n = v->v[i].value;
  nmb_prog_free(p);
  return n;
}

/* A model of dense and routed layers costs what its two kinds of layers cost, once
 * each: estimates add up over distinct blocks, however often they repeat. */
static void
test_scaling(void)
{
  static const char *const name[] = {"fuse-greedy", "fuse-dp"};
  nmb_run *run = nmb__run_open(NULL);
  nmb_hw *hw;
  CU_ASSERT_EQUAL_FATAL(nmb__machine_load(run, "aim-gddr6", &hw), NMB_OK);
  for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
    const double dense = estimates(run, hw, "tiny-mla-dense", name[i]);
    const double routed = estimates(run, hw, "tiny-mla-routed", name[i]);
    const double both = estimates(run, hw, "tiny-mla", name[i]);
    CU_ASSERT_TRUE(dense > 0 && routed > 0);
    /* embedding and head are shared; a greedy count depends on the costs a little */
    CU_ASSERT_TRUE(both < 1.05 * (dense + routed));
    CU_ASSERT_TRUE(both > 0.75 * (dense + routed));
  }
  nmb__machine_free(hw);
  nmb__run_close(run);
}

/* Seconds of all kernels one after the other, after a pipeline. */
static double
serial_seconds(nmb_run *run, nmb_hw *hw, const char *model, const char *passes)
{
  nmb_prog *p = build(run, model, (nmb_step_spec){NMB_DECODE, 4, 1, 300});
  nmb_prog_set_hw(p, hw);
  double sum = 0;
  CU_ASSERT_EQUAL(pass(run, p, "legalize,mla-absorb,moe-lower"), NMB_OK);
  CU_ASSERT_EQUAL(pass(run, p, passes), NMB_OK);
  for (nmb_id k = 0; k < p->nkernel; k++) {
    const nmb_kernel *g = &p->kernel[k];
    double s = 0;
    if (p->nmap > 0)
      CU_ASSERT_EQUAL(nmb_kernel_seconds(run, p, g->op, g->nop, g->engine, &p->map[k],
                                         p->layout, p->nlayout, &s),
                      NMB_OK)
    else
      CU_ASSERT_EQUAL(nmb_best_seconds(run, p, g->op, g->nop, NULL, &s), NMB_OK)
    sum += s * (double)p->block[g->block].repeat;
  }
  nmb_prog_free(p);
  return sum;
}

/* What a search finds is no worse, by the estimate that it uses, than where it
 * starts, and a larger budget is no worse than a smaller one. */
static void
test_searches(void)
{
  static const char *const machine[] = {"aim-gddr6", "hbm3-attacc-x1", "npu-hbm-pim"};
  static const char *const model[] = {"tiny-llama", "tiny-moe", "tiny-mla"};
  nmb_run *run = nmb__run_open(NULL);
  for (size_t m = 0; m < 3; m++)
    for (size_t i = 0; i < 3; i++) {
      nmb_hw *hw;
      CU_ASSERT_EQUAL_FATAL(nmb__machine_load(run, machine[m], &hw), NMB_OK);
      const double none = serial_seconds(run, hw, model[i], "fuse-none");
      const double greedy = serial_seconds(run, hw, model[i], "fuse-greedy");
      const double dp = serial_seconds(run, hw, model[i], "fuse-dp");
      CU_ASSERT_TRUE(greedy <= none * (1 + 1e-9) && dp <= none * (1 + 1e-9));
      const char *to = "fuse-none,dispatch-rule{threshold=1000},map-";
      const double start =
          serial_seconds(run, hw, model[i], nmb_format(run, "%sinterleave", to));
      double last = start;
      for (int budget = 16; budget <= 1024; budget *= 8) {
        const double found = serial_seconds(
            run, hw, model[i], nmb_format(run, "%ssearch{budget=%d}", to, budget));
        check(found <= last * (1 + 1e-9), "map-search", machine[m],
              "gets worse with budget", "");
        last = found;
      }
      nmb__machine_free(hw);
    }
  nmb__run_close(run);
}

static void
test_load(void)
{
  nmb_run *run = nmb__run_open(stderr);
  CU_ASSERT_EQUAL_FATAL(nmb__plugins_load(run, NULL), NMB_OK);
  CU_ASSERT_TRUE_FATAL(nmb__plugin_count() > 0);
  for (int i = 0; i < NBASE; i++)
    CU_ASSERT_PTR_NOT_NULL_FATAL(nmb__plugin_find(baseline[i]));
  nmb__run_close(run);
}

UNIT_MAIN("conformance", {"plugins load", test_load},
          {"sources are in the bibliography", test_sources},
          {"wrong options are refused", test_options},
          {"missing sections and machines are refused", test_missing_sections},
          {"estimates add up over distinct blocks", test_scaling},
          {"searches are no worse than where they start", test_searches},
          {"every pass and simulator, every machine", test_passes})
