/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The values of one program of a sweep, for simulators that execute code: on windows of a
 * text where the model's weights are at hand, else on values that are drawn. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/run.h"
#include "ir/values.h"
#include "nmbench/nmb_sim.h"

/* Bytes of weights in float; the reference and the code each keep them. */
static double
weight_bytes(const nmb_prog *p)
{
  double sum = 0;
  for (int i = 0; i < p->ntensor; i++)
    if (p->tensor[i].role == NMB_ROLE_WEIGHT)
      sum += 4 * (double)nmb_tensor_count(&p->tensor[i]) *
             (double)p->block[p->tensor[i].block].repeat;
  return sum;
}

static int64_t
vocabulary(const nmb_prog *p)
{
  for (int i = 0; i < p->nop; i++)
    if (p->op[i].code == NMB_OP_EMBED && !strcmp(p->tensor[p->op[i].in[0]].name, "ids"))
      return p->tensor[p->op[i].in[1]].dim[0];
  return 1;
}

/* The values of a cell of which nothing but the program is known, or its weights too. */
static nmb_status
sim_random(nmb_run *run, const nmb_prog *p, nmb__values_check *c, uint64_t seed)
{
  const int64_t n = p->spec.batch * p->spec.fresh, vocab = vocabulary(p);
  int32_t *ids = NMB_NEW(run, int32_t, n);
  float *draw = NMB_NEW(run, float, n);
  nmb__invent(&(nmb__place){.position = (int64_t)seed}, "ids", 0, n, draw);
  for (int64_t i = 0; i < n; i++)
    ids[i] = (int32_t)((double)(vocab - 1) * (1 + (double)draw[i]) / 2);
  nmb_prog *copy = nmb_prog_copy(p); /* its tables may change */
  const nmb_status st = nmb__values_exact(run, c, copy, ids);
  nmb_prog_free(copy);
  return st == NMB_OK ? nmb__values_code(run, c, p, ids) : st;
}

/* Windows of the text, each a BOS and `length` tokens: `count` in all, spread over it, that
 * overlap if it is short; a step takes those from `first` on. */
typedef struct windows {
  int64_t length, first, count;
} windows;

/* What a step of `fresh` tokens after `context` of each window reads, and what follows:
 * of all its tokens, or of the last alone. */
static nmb_status
text_tokens(nmb_run *run, const nmb__subject *s, const nmb_step_spec *w, windows at,
            bool all, int32_t **ids, int32_t **next)
{
  const int64_t B = w->batch, room = s->n - at.length;
  if (room < 0)
    return nmb_fail(run, NMB_BADINPUT, NMB_NOLOC,
                    "the text has %" PRId64 " tokens, a step and what follows take %" PRId64,
                    s->n, at.length);
  *ids = NMB_NEW(run, int32_t, B * w->fresh);
  *next = NMB_NEW(run, int32_t, B * w->fresh);
  for (int64_t b = 0, k = 0; b < B; b++) {
    const int32_t *text = s->ids + (at.count > 1 ? room * (at.first + b) / (at.count - 1) : 0);
    for (int64_t i = w->context; i < w->context + w->fresh; i++) {
      (*ids)[b * w->fresh + i - w->context] = i ? text[i - 1] : s->bos;
      if (all || i == w->context + w->fresh - 1)
        (*next)[k++] = text[i];
    }
  }
  return NMB_OK;
}

/* One step of the text.  `p`: its code, or NULL: to be compiled. */
static nmb_status
text_step(nmb_run *run, const nmb__subject *s, nmb__values_check *c, nmb_step_spec w,
          windows at, const nmb_prog *p)
{
  const bool all = w.phase == NMB_PREFILL && !p;
  int32_t *ids = NULL, *next = NULL;
  nmb_prog *graph = NULL;
  NMB_TRY(text_tokens(run, s, &w, at, all, &ids, &next));
  NMB_TRY(s->graph(run, s->self, w, all, &graph));
  nmb__values_next(c, next);
  nmb_status st = nmb__values_exact(run, c, graph, ids);
  if (st == NMB_OK && !p)
    st = s->compile(run, s->self, graph);
  if (st == NMB_OK)
    st = nmb__values_code(run, c, p ? p : graph, ids);
  nmb_prog_free(graph);
  return st;
}

/* The step at hand on a text.  A decode step follows a prefill of what it has in its
 * caches, compiled by the same passes.  Code of a model with routers is made for the
 * choice that they make on this text, so that the program at hand is compiled anew. */
static nmb_status
sim_text(nmb_run *run, const nmb_prog *p, const nmb__subject *s, nmb__values_check *c,
         windows at)
{
  const nmb_step_spec w = p->spec;
  if (w.context > 0)
    NMB_TRY(text_step(run, s, c,
                      (nmb_step_spec){NMB_PREFILL, w.batch, w.context, 0}, at, NULL));
  return text_step(run, s, c, w, at, p->nrouting ? NULL : p);
}

/* What came of one round joins what came before. */
static nmb_status
round_end(nmb_run *run, const nmb__values_check *c, nmb_status st, nmb__agreement *sum,
          nmb_sim_errors *out)
{
  int n;
  const nmb__deviation *d = nmb__values_tensors(c, &n);
  const nmb__first_diff *f = nmb__values_first(c);
  nmb__agreement_join(sum, nmb__values_agreement(c));
  for (int i = 0; i < n; i++) {
    out->max_error = fmax(out->max_error, d[i].most);
    out->rms_error = fmax(out->rms_error, nmb__deviation_rms(&d[i]));
  }
  if (st != NMB_OK || f->insn == NMB_NONE)
    return st;
  return nmb_fail(run, NMB_UNVERIFIED, NMB_NOLOC,
                  "values are off: %s, layer %" PRId64 ": row %" PRId64 ", column %" PRId64
                  " is %.9g, expected %.9g",
                  f->text, f->layer, f->row, f->column, f->value, f->expected);
}

static void
accuracy_of(const nmb__agreement *sum, nmb_sim_errors *out)
{
  const nmb__accuracy a = nmb__agreement_accuracy(sum);
  out->logits_max = sum->most;
  out->logits_rms = nmb__agreement_rms(sum);
  out->top1 = a.top1;
  out->kl = a.kl;
  out->kl_se = a.kl_se;
  out->perplexity = a.perplexity;
  out->perplexity_se = a.perplexity_se;
  out->perplexity_exact = a.perplexity_exact;
  out->perplexity_rise = a.rise;
  out->perplexity_rise_se = a.rise_se;
  out->predicted = sum->predicted;
}

nmb_status
nmb_sim_values(nmb_run *run, const nmb_prog *p, const nmb_sim_how *how, nmb_sim_errors *out)
{
  const uint64_t seed = nmb__run_seed_get(run) + 1;
  const nmb__subject *s = nmb__run_subject(run);
  const nmb__weights w = s ? s->weights : nmb__weights_random(&seed);
  const bool text = s && s->ids;
  const int64_t rounds = text ? how->rounds : 1;
  const nmb__values_options o = {
      .seed = seed, .orders = how->orders, .tables = !text, .invent = !text};
  nmb__agreement sum = {0};
  nmb_status st = NMB_OK;
  *out = (nmb_sim_errors){0};
  if (weight_bytes(p) > (double)how->weights)
    return nmb_fail(run, NMB_UNSUPPORTED, NMB_NOLOC,
                    "executing needs %.4g bytes for weights, expected at most %.4g",
                    weight_bytes(p), (double)how->weights);
  for (int64_t i = 0; i < rounds && st == NMB_OK; i++) {
    const windows at = {p->spec.context + p->spec.fresh, i * p->spec.batch,
                        rounds * p->spec.batch};
    nmb__values_check *c = nmb__values_open(&w, &o);
    st = text ? sim_text(run, p, s, c, at) : sim_random(run, p, c, seed);
    st = round_end(run, c, st, &sum, out);
    nmb__values_close(c);
  }
  accuracy_of(&sum, out);
  return st;
}
