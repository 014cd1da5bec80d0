/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The pipeline manager, with plugins that keep and break the contract. */
#include <string.h>

#include "ir/pipeline.h"
#include "tests/unit/unit.h"

/* ------------------------------------------------------------------- plugins */
static nmb_status
one_kernel_each(nmb_run *run, nmb_prog *p)
{
  nmb_section_begin(p, NMB_GROUPS);
  for (int b = 0; b < p->nblock; b++)
    for (int i = 0; i < p->block[b].nop; i++)
      nmb_kernel_add(p, b, &p->block[b].op[i], 1);
  nmb_stat(run, "draw", (double)(nmb_rand(run) % 1000003));
  nmb_stat(run, "may spend", nmb_spend(run, 5) ? 1 : 0);
  return NMB_OK;
}

static nmb_status
half_done(nmb_run *run, nmb_prog *p)
{
  (void)run;
  nmb_section_begin(p, NMB_GROUPS); /* an op without a kernel */
  nmb_kernel_add(p, 0, &p->block[0].op[0], 1);
  return NMB_OK;
}

static nmb_status
changes_graph(nmb_run *run, nmb_prog *p)
{
  one_kernel_each(run, p);
  nmb_op_attr_set(p, 1, NMB_SYM("fn", "gelu"));
  return NMB_OK;
}

static nmb_status
writes_nothing(nmb_run *run, nmb_prog *p)
{
  (void)run;
  (void)p;
  return NMB_OK;
}

static nmb_status
finds_nothing(nmb_run *run, nmb_prog *p)
{
  nmb_section_begin(p, NMB_GROUPS);
  return nmb_fail(run, NMB_NOSOLUTION, NMB_NOLOC, "tried %d ways", 41);
}

static const nmb_opt budgeted[] = {
    {"budget", "int", "evaluation", "4", "1..", "evaluations"},
    {NULL, NULL, NULL, NULL, NULL, NULL}};

static nmb_plugin
fuse(const char *name, nmb_status (*fn)(nmb_run *, nmb_prog *))
{
  return (nmb_plugin){NMB_PLUGIN_HEAD,
                      .kind = "fuse",
                      .name = name,
                      .reads = NMB_BIT(NMB_GRAPH),
                      .writes = NMB_BIT(NMB_GROUPS),
                      .transform = fn};
}

/* ------------------------------------------------------------------- programs */
static nmb_prog *
small(const nmb_hw *hw)
{
  nmb_prog *p = nmb_prog_new("small", (nmb_step_spec){NMB_DECODE, 3, 1, 17});
  const nmb_id b = nmb_block_add(p, "layer");
  nmb_tensor t = {.name = "x",
                  .block = b,
                  .dtype = NMB_DT_BF16,
                  .role = NMB_ROLE_INPUT,
                  .rank = 2,
                  .dim = {3, 40}};
  const nmb_id x = nmb_tensor_add(p, &t);
  t.role = NMB_ROLE_ACT;
  t.name = "y";
  const nmb_id y = nmb_tensor_add(p, &t);
  t.name = "z";
  const nmb_id z = nmb_tensor_add(p, &t);
  nmb_op op = {.code = NMB_OP_ACT,
               .block = b,
               .nin = 1,
               .nout = 1,
               .nattr = 1,
               .in = {x},
               .out = {y},
               .attr = {NMB_SYM("fn", "silu")}};
  nmb_op_add(p, &op);
  op.in[0] = y;
  op.out[0] = z;
  nmb_op_add(p, &op);
  nmb_block_ends(p, b, NMB_NONE, z);
  nmb_order_add(p, b, 1);
  nmb_prog_set_hw(p, hw);
  return p;
}

/* A machine that can do nothing but be there. */
static const nmb_mem mem = {.name = "ddr",
                            .devices = 1,
                            .bytes = 1 << 30,
                            .bytes_per_s = 1e9,
                            .channels = 1,
                            .banks = 1,
                            .align = 64,
                            .source = "test"};
static const nmb_engine engine = {.name = "cpu",
                                  .model = "none",
                                  .devices = 1,
                                  .local = NMB_NONE,
                                  .from = NMB_NONE,
                                  .to = NMB_NONE,
                                  .ops = UINT64_MAX,
                                  .weights = UINT32_MAX,
                                  .values = UINT32_MAX,
                                  .source = "test"};
static const nmb_hw hw = {.name = "toy",
                          .title = "toy",
                          .source = "test",
                          .devices = 1,
                          .nmem = 1,
                          .nengine = 1,
                          .mem = &mem,
                          .engine = &engine};

static nmb_status
run_one(nmb_run *run, nmb_prog *p, const nmb_plugin *plugin,
        const nmb__pipeline_hooks *hooks)
{
  nmb__optval budget = {.name = "budget", .number = 4, .integer = 4, .text = "4"};
  nmb__stage stage = {plugin, &budget, plugin->opts ? 1 : 0};
  nmb__pipeline pl = {1, &stage};
  nmb__run_clear(run);
  return nmb__pipeline_run(run, p, &pl, hooks);
}

/* ----------------------------------------------------------------------- tests */
static void
test_contract(void)
{
  const nmb_plugin good = fuse("good", one_kernel_each), half = fuse("half", half_done),
                   wrong = fuse("wrong", changes_graph),
                   lazy = fuse("lazy", writes_nothing),
                   none = fuse("none", finds_nothing);
  nmb_run *run = nmb__run_open(NULL);
  nmb_prog *p = small(&hw);
  CU_ASSERT_EQUAL(run_one(run, p, &lazy, NULL), NMB_BADPLUGIN);
  CU_ASSERT_STRING_EQUAL(nmb_error_text(run), "'lazy' did not write section groups");
  CU_ASSERT_EQUAL(run_one(run, p, &good, NULL), NMB_OK);
  CU_ASSERT_EQUAL(p->nkernel, 2);
  CU_ASSERT_EQUAL(run_one(run, p, &wrong, NULL), NMB_BADPLUGIN);
  CU_ASSERT_STRING_EQUAL(nmb_error_text(run),
                         "'wrong' changed section graph, which it does not declare");
  CU_ASSERT_EQUAL(run_one(run, p, &half, NULL), NMB_UNVERIFIED);
  CU_ASSERT_EQUAL(run_one(run, p, &none, NULL), NMB_NOSOLUTION);
  CU_ASSERT_STRING_EQUAL(nmb_error_text(run), "none: tried 41 ways");
  nmb_prog_free(p);
  nmb__run_close(run);
}

static void
test_missing(void)
{
  nmb_plugin later = fuse("later", one_kernel_each);
  later.reads = NMB_BIT(NMB_GRAPH) | NMB_BIT(NMB_SCHEDULE);
  nmb_run *run = nmb__run_open(NULL);
  nmb_prog *p = small(&hw);
  CU_ASSERT_EQUAL(run_one(run, p, &later, NULL), NMB_BADINPUT);
  CU_ASSERT_STRING_EQUAL(nmb_error_text(run),
                         "'later' needs what the program does not have: schedule "
                         "(written by no loaded pass)");
  nmb_prog_set_hw(p, NULL);
  later.reads = NMB_BIT(NMB_GRAPH);
  CU_ASSERT_EQUAL(run_one(run, p, &later, NULL), NMB_BADINPUT);
  CU_ASSERT_STRING_EQUAL(nmb_error_text(run), "'later' needs a machine, none is chosen");
  nmb_prog_free(p);
  nmb__run_close(run);
}

static double
stat_of(nmb_run *run, const char *name)
{
  const nmb__values *vs = nmb__run_stats(run);
  for (int i = vs->n - 1; i >= 0; i--)
    if (!strcmp(vs->v[i].name, name))
      return vs->v[i].value;
  return -1;
}

static void
test_seed_and_budget(void)
{
  nmb_plugin good = fuse("good", one_kernel_each);
  nmb_run *run = nmb__run_open(NULL);
  nmb_prog *p = small(&hw);
  nmb__run_seed(run, 31);
  CU_ASSERT_EQUAL(run_one(run, p, &good, NULL), NMB_OK);
  const double first = stat_of(run, "draw");
  CU_ASSERT_EQUAL(stat_of(run, "may spend"), 1);
  nmb_rand(run); /* draws of others do not shift those of a pass */
  good.opts = budgeted;
  CU_ASSERT_EQUAL(run_one(run, p, &good, NULL), NMB_OK);
  CU_ASSERT_EQUAL(stat_of(run, "draw"), first);
  CU_ASSERT_EQUAL(stat_of(run, "may spend"), 0);
  nmb__run_seed(run, 32);
  CU_ASSERT_EQUAL(run_one(run, p, &good, NULL), NMB_OK);
  CU_ASSERT_NOT_EQUAL(stat_of(run, "draw"), first);
  const size_t bytes = nmb__run_bytes(run);
  for (int i = 0; i < 50; i++)
    CU_ASSERT_EQUAL(run_one(run, p, &good, NULL), NMB_OK);
  CU_ASSERT_EQUAL(nmb__run_bytes(run), bytes); /* scratch is given back */
  nmb_prog_free(p);
  nmb__run_close(run);
}

static void
test_repro(void)
{
  const nmb_plugin good = fuse("good", one_kernel_each),
                   none = fuse("none", finds_nothing);
  nmb_run *run = nmb__run_open(NULL);
  nmb_prog *p = small(&hw), *again = NULL;
  const char *path = "test_pipeline.repro.nmb";
  const nmb__pipeline_hooks hooks = {.repro = path};
  remove(path);
  CU_ASSERT_EQUAL(run_one(run, p, &good, &hooks), NMB_OK);
  CU_ASSERT_PTR_NULL(fopen(path, "r")); /* nothing to reproduce */
  CU_ASSERT_EQUAL(run_one(run, p, &none, &hooks), NMB_NOSOLUTION);
  FILE *f = fopen(path, "r");
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  char text[8192];
  const size_t n = fread(text, 1, sizeof text - 1, f);
  text[n] = '\0';
  fclose(f);
  CU_ASSERT_PTR_NOT_NULL(strstr(text, "-p 'none'"));
  CU_ASSERT_PTR_NOT_NULL(strstr(text, "# nosolution: none: tried 41 ways\n"));
  CU_ASSERT_EQUAL(nmb_prog_parse(run, path, text, n, &hw, &again), NMB_OK);
  CU_ASSERT_EQUAL(again->nkernel, 2); /* as it was before the pass */
  remove(path);
  nmb_prog_free(again);
  nmb_prog_free(p);
  nmb__run_close(run);
}

static void
test_text(void)
{
  nmb_run *run = nmb__run_open(NULL);
  nmb__pipeline pl;
  const char **part;
  int n;
  CU_ASSERT_EQUAL(
      nmb__pipeline_split(run, NMB_NOLOC, " a{x=1,y=\"},{\"} , b\n", &part, &n), NMB_OK);
  CU_ASSERT_EQUAL_FATAL(n, 2);
  CU_ASSERT_STRING_EQUAL(part[0], "a{x=1,y=\"},{\"}");
  CU_ASSERT_STRING_EQUAL(part[1], "b");
  static const char *const bad[] = {"a{",   "a}", "a{x=\"1}", ",",
                                    "a,,b", "a,", "a{}x",     "nobody"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    CU_ASSERT_NOT_EQUAL(nmb__pipeline_parse(run, NMB_NOLOC, bad[i], &pl), NMB_OK);
  CU_ASSERT_EQUAL(nmb__pipeline_parse(run, NMB_NOLOC, " ", &pl), NMB_OK);
  CU_ASSERT_EQUAL(pl.n, 0);
  nmb__run_close(run);
}

UNIT_MAIN("pipeline",
          {"a pass writes its section, all of it, and no other", test_contract},
          {"missing sections and a missing machine are named", test_missing},
          {"each pass has its own random numbers, budget and scratch",
           test_seed_and_budget},
          {"a failure leaves a program that fails again", test_repro},
          {"pipelines as text", test_text})
