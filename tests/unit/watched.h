/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A prefill of a tiny model by the reference evaluation, with each op shown to a test. */
#ifndef WATCHED_H
#define WATCHED_H

#include "frontend/model.h"
#include "ir/eval.h"
#include "tests/unit/unit.h"

typedef void watch_fn(void *self, const nmb_prog *, const nmb__place *, nmb_id op,
                      const nmb__vals *);

/* `n` tokens of tests/data/tiny/FAMILY.json with random weights of `seed`.  What `see`
 * is shown is gone when this returns: it copies what it keeps. */
static inline void
watched_prefill(const char *family, uint64_t seed, const int32_t *ids, int n,
                watch_fn *see, void *self)
{
  static const nmb__routing_spec routing = {"uniform", 1, 1};
  const char *top = getenv("srcdir") ? getenv("srcdir") : ".";
  const nmb__weights weights = nmb__weights_random(&seed);
  const nmb_step_spec step = {NMB_PREFILL, 1, n, 0};
  nmb_run *run = nmb__run_open(stderr);
  const nmb__arch *a;
  nmb_prog *p;
  const float *y;
  int64_t rows, columns;
  const char *path = nmb_format(run, "%s/tests/data/tiny/%s.json", top, family);
  CU_ASSERT_EQUAL_FATAL(nmb__arch_load(run, path, &a), NMB_OK);
  CU_ASSERT_EQUAL_FATAL(nmb__graph_build(run, a, step, &routing, &p), NMB_OK);
  nmb__eval *e =
      nmb__eval_open(&weights, &(nmb__eval_options){.watch = see, .watch_self = self});
  CU_ASSERT_EQUAL_FATAL(nmb__eval_step(run, e, p, ids, &y, &rows, &columns), NMB_OK);
  nmb__eval_close(e);
  nmb_prog_free(p);
  nmb__run_close(run);
}

#endif
