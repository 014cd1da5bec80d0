/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "frontend/infer.h"

#include <inttypes.h>
#include <math.h>

#include "base/run.h"
#include "ir/func.h"
#include "ir/values.h"

struct nmb__infer {
  nmb__wmodel *m;
  nmb__eval *eval;
  int64_t done; /* tokens of the sequence so far */
  /* compiled: the machine, what computes the experts' choice, what executes code */
  const struct nmb_hw *hw;
  const nmb__pipeline *pipeline;
  const nmb__arch *arch;
  nmb__values_check *choice;
  nmb__func *func;
  uint64_t noise;
};

nmb__infer *
nmb__infer_open(nmb_run *run, nmb__wmodel *m)
{
  nmb__infer *f = NMB_NEW(run, nmb__infer, 1);
  const nmb__weights w = nmb__wmodel_weights(m);
  const nmb__eval_options o = {.rounding = NMB__ROUND_NONE};
  f->m = m;
  f->arch = m->arch;
  f->eval = nmb__eval_open(&w, &o);
  return f;
}

static void
code_open(nmb__infer *f)
{
  const nmb__weights w = nmb__wmodel_weights(f->m);
  f->choice = nmb__values_open(&w, &(nmb__values_options){0});
  f->func = nmb__func_open(&w, &(nmb__func_options){.arith = true, .noise = f->noise});
}

static void
code_close(nmb__infer *f)
{
  nmb__values_close(f->choice);
  nmb__func_close(f->func);
}

void
nmb__infer_compiled(nmb_run *run, nmb__infer *f, const struct nmb_hw *hw,
                    const nmb__pipeline *pipeline)
{
  f->hw = hw;
  f->pipeline = pipeline;
  f->arch = nmb__arch_apart(run, f->m->arch);
  f->noise = nmb__run_seed_get(run);
  code_open(f);
}

void
nmb__infer_close(nmb__infer *f)
{
  if (!f)
    return;
  nmb__eval_close(f->eval);
  code_close(f);
}

void
nmb__infer_reset(nmb__infer *f)
{
  f->done = 0;
  nmb__eval_reset(f->eval);
  if (f->hw) {
    code_close(f);
    code_open(f);
  }
}

const float *
nmb__infer_exact(const nmb__infer *f)
{
  return nmb__values_logits(f->choice);
}

nmb_status
nmb__infer_check(nmb_run *run, const nmb__infer *f, const int32_t *ids, int64_t n)
{
  const nmb__arch *a = f->m->arch;
  for (int64_t i = 0; i < n; i++)
    if (ids[i] < 0 || ids[i] >= a->vocab)
      return nmb_fail(run, NMB_BADINPUT, NMB_NOLOC,
                      "token %" PRId32 " at position %" PRId64 ", expected 0 to %" PRId64,
                      ids[i], f->done + i, a->vocab - 1);
  if (a->positions && f->done + n > a->positions - a->position_first)
    return nmb_fail(run, NMB_BADINPUT, NMB_NOLOC,
                    "a sequence of %" PRId64 " tokens, but the model has %" PRId64
                    " positions",
                    f->done + n, a->positions - a->position_first);
  return NMB_OK;
}

/* Code is made for the experts that the model chooses. */
static nmb_status
code_step(nmb_run *run, nmb__infer *f, nmb_prog *p, const int32_t *ids,
          const float **logits)
{
  int64_t rows, columns;
  nmb_prog_set_hw(p, f->hw);
  NMB_TRY(nmb__values_exact(run, f->choice, p, ids));
  NMB_TRY(nmb__pipeline_run(run, p, f->pipeline, NULL));
  return nmb__func_step(run, f->func, p, ids, logits, &rows, &columns);
}

/* Sums that outgrow single precision; a machine's formats may be meant to show that. */
static nmb_status
finite_check(nmb_run *run, const nmb__infer *f, const float *v, int64_t rows, int64_t n)
{
  for (int64_t i = 0; i < rows * n; i++)
    if (!isfinite(v[i]))
      return nmb_fail(run, NMB_BADINPUT, (nmb_loc){f->m->file->path, 0, 0},
                      "the logit of token %" PRId64 " is %g: the weights give values "
                      "beyond single precision",
                      i % n, (double)v[i]);
  return NMB_OK;
}

nmb_status
nmb__infer_step(nmb_run *run, nmb__infer *f, const int32_t *ids, int64_t n, bool all,
                const float **logits)
{
  static const nmb__routing_spec routing = {"uniform", 0, 1}; /* the router decides */
  const nmb_step_spec spec = {n > 1 ? NMB_PREFILL : NMB_DECODE, 1, n, f->done};
  const size_t mark = nmb__run_mark(run);
  int64_t rows, columns;
  nmb_prog *p = NULL;
  NMB_TRY(nmb__infer_check(run, f, ids, n));
  nmb_status s = nmb__graph_build(run, f->arch, spec, &routing, &p);
  if (s == NMB_OK) {
    if (all && n > 1)
      nmb__prog_all_positions(p);
    s = f->hw ? code_step(run, f, p, ids, logits)
              : nmb__eval_step(run, f->eval, p, ids, logits, &rows, &columns);
  }
  nmb_prog_free(p);
  if (s == NMB_OK && !f->hw)
    s = finite_check(run, f, *logits, rows, columns);
  if (!f->hw)
    nmb__run_release(run, mark);
  f->done += n;
  return s;
}
