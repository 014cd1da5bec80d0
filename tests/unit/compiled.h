/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A step of a model compiled for a machine. */
#ifndef COMPILED_H
#define COMPILED_H

#include <stdio.h>

#include "base/run.h"
#include "frontend/model.h"
#include "ir/pipeline.h"
#include "tests/unit/unit.h"

/* Experts as a skewed choice has them.  What the pipeline says: outcomes (it does not fit, an
 * op does not run there) are for the caller to judge, and then *out is NULL. */
static inline nmb_status
compiled(nmb_run *run, const nmb__arch *a, nmb_hw *hw, nmb_step_spec spec,
         const char *pipeline, nmb_prog **out)
{
  static const nmb__routing_spec routing = {"zipf", 1.2, 5};
  nmb__pipeline pl;
  *out = NULL;
  CU_ASSERT_EQUAL_FATAL(nmb__graph_build(run, a, spec, &routing, out), NMB_OK);
  nmb_prog_set_hw(*out, hw);
  CU_ASSERT_EQUAL_FATAL(nmb__pipeline_parse(run, NMB_NOLOC, pipeline, &pl), NMB_OK);
  const nmb_status s = nmb__pipeline_run(run, *out, &pl, NULL);
  if (s == NMB_OK)
    return s;
  if (s != NMB_INFEASIBLE && s != NMB_UNSUPPORTED)
    printf("\n  %s on %s: %s\n", a->name, hw->name, nmb_error_text(run));
  nmb_prog_free(*out);
  *out = NULL;
  return s;
}

#endif
