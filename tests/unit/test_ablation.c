/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "config.h"

#include <string.h>

#include "base/run.h"
#include "harness/ablation.h"
#include "tests/unit/unit.h"

static const char *also[] = {"f2", "f3"};
static const nmb__slot_spec stage[] = {
    {NULL, "", "first", 0, NULL}, {"fuse", "f0", "f1", 2, also},
    {"map", "", "m1", 0, NULL},   {NULL, "", "middle", 0, NULL},
    {"mem", "k0", "", 0, NULL},   {"emit", "e0", "e1", 0, NULL},
};
#define NSTAGE ((int)(sizeof stage / sizeof *stage))

static nmb_status
make(nmb_run *run, const char *design, int nstage, nmb__variants *out)
{
  const nmb__design d = {design, NMB_NOLOC};
  return nmb__ablate(run, stage, nstage, &d, out);
}

static const nmb__variant *
find(const nmb__variants *vs, const char *name)
{
  for (int i = 0; i < vs->n; i++)
    if (!strcmp(vs->v[i].name, name))
      return &vs->v[i];
  return NULL;
}

static void
expect(const nmb__variants *vs, const char *name, const char *ablation, const char *slot,
       const char *passes)
{
  const nmb__variant *v = find(vs, name);
  CU_ASSERT_PTR_NOT_NULL_FATAL(v);
  CU_ASSERT_STRING_EQUAL(v->ablation, ablation);
  CU_ASSERT_STRING_EQUAL(v->slot, slot);
  CU_ASSERT_STRING_EQUAL(v->passes, passes);
}

static void
test_one_at_a_time(void)
{
  nmb_run *run = nmb__run_open(NULL);
  nmb__variants vs = {0};
  CU_ASSERT_EQUAL(make(run, "baseline", NSTAGE, &vs), NMB_OK);
  CU_ASSERT_EQUAL(make(run, "add-one-in", NSTAGE, &vs), NMB_OK);
  CU_ASSERT_EQUAL(make(run, "leave-one-out", NSTAGE, &vs), NMB_OK);
  CU_ASSERT_EQUAL(make(run, "full", NSTAGE, &vs), NMB_OK);
  CU_ASSERT_EQUAL(vs.n, 10);
  expect(&vs, "base", "baseline", "", "first,f0,middle,k0,e0");
  expect(&vs, "+fuse", "add", "fuse", "first,f1,middle,k0,e0");
  expect(&vs, "+map", "add", "map", "first,f0,m1,middle,k0,e0");
  expect(&vs, "+mem", "add", "mem", "first,f0,middle,e0");
  expect(&vs, "-map", "leave", "map", "first,f1,middle,e1");
  expect(&vs, "-emit", "leave", "emit", "first,f1,m1,middle,e0");
  expect(&vs, "all", "all", "", "first,f1,m1,middle,e1");
  nmb__run_close(run);
}

static void
test_factorial(void)
{
  nmb_run *run = nmb__run_open(NULL);
  nmb__variants vs = {0};
  CU_ASSERT_EQUAL(make(run, "factorial", NSTAGE, &vs), NMB_OK);
  CU_ASSERT_EQUAL(vs.n, 16);
  expect(&vs, "+fuse+mem", "factorial", "", "first,f1,middle,e0");
  expect(&vs, "-fuse", "leave", "fuse", "first,f0,m1,middle,e1");
  /* the other designs are parts of it, under the same names */
  CU_ASSERT_EQUAL(make(run, "leave-one-out", NSTAGE, &vs), NMB_OK);
  CU_ASSERT_EQUAL(make(run, "add-one-in", NSTAGE, &vs), NMB_OK);
  CU_ASSERT_EQUAL(make(run, "cumulative", NSTAGE, &vs), NMB_OK);
  CU_ASSERT_EQUAL(vs.n, 16);
  nmb__run_close(run);
}

static void
test_others(void)
{
  nmb_run *run = nmb__run_open(NULL);
  nmb__variants vs = {0}, two = {0};
  CU_ASSERT_EQUAL(make(run, "cumulative", NSTAGE, &vs), NMB_OK);
  CU_ASSERT_EQUAL(vs.n, 5);
  expect(&vs, "+fuse+map", "cumulative", "", "first,f1,m1,middle,k0,e0");
  CU_ASSERT_EQUAL(make(run, "swaps", NSTAGE, &vs), NMB_OK);
  CU_ASSERT_EQUAL(vs.n, 7);
  expect(&vs, "fuse=f3", "swap", "fuse", "first,f3,m1,middle,e1");
  /* two slots: each pipeline has the name of the design that asks for it */
  CU_ASSERT_EQUAL(make(run, "add-one-in", 3, &two), NMB_OK);
  CU_ASSERT_EQUAL(make(run, "leave-one-out", 3, &two), NMB_OK);
  CU_ASSERT_EQUAL(two.n, 4);
  expect(&two, "+fuse", "add", "fuse", "first,f1");
  expect(&two, "-map", "leave", "map", "first,f1");
  CU_ASSERT_EQUAL(make(run, "add-one", NSTAGE, &vs), NMB_BADINPUT);
  CU_ASSERT_PTR_NOT_NULL(strstr(nmb_error_text(run), "did you mean 'add-one-in'"));
  nmb__run_close(run);
}

UNIT_MAIN("ablation", {"one slot improved, or all but one", test_one_at_a_time},
          {"every subset", test_factorial}, {"cumulative, swaps, two slots", test_others})
