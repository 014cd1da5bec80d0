/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "frontend/infer.h"

#include <inttypes.h>

#include "base/run.h"

struct nmb__infer {
  nmb__wmodel *m;
  nmb__eval *eval;
  int64_t done; /* tokens of the sequence so far */
};

nmb__infer *
nmb__infer_open(nmb_run *run, nmb__wmodel *m)
{
  nmb__infer *f = NMB_NEW(run, nmb__infer, 1);
  const nmb__weights w = nmb__wmodel_weights(m);
  const nmb__eval_options o = {.rounding = NMB__ROUND_NONE};
  f->m = m;
  f->eval = nmb__eval_open(&w, &o);
  return f;
}

void
nmb__infer_close(nmb__infer *f)
{
  if (f)
    nmb__eval_close(f->eval);
}

void
nmb__infer_reset(nmb__infer *f)
{
  f->done = 0;
  nmb__eval_reset(f->eval);
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
  nmb_status s = nmb__graph_build(run, f->m->arch, spec, &routing, &p);
  if (s == NMB_OK) {
    if (all && n > 1)
      nmb__prog_all_positions(p);
    s = nmb__eval_step(run, f->eval, p, ids, logits, &rows, &columns);
  }
  nmb_prog_free(p);
  nmb__run_release(run, mark);
  f->done += n;
  return s;
}
