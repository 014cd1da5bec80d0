/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Comparison of executed code with the reference evaluation. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/run.h"
#include "ir/func.h"
#include "ir/prog.h"
#include "ir/values-each.h"
#include "ir/values.h"
#include "ir/verify_code.h"
#include "nmbench/nmb_sim.h"

/* What the reference made of an op in the step at hand. */
typedef struct expected {
  float *value[NMB_MAXOUT];
  double rms[NMB_MAXOUT];
} expected;

struct nmb__values_check {
  nmb__values_options o;
  nmb__eval *exact, *stored;
  nmb__eval *each;    /* as stored, but every op reads what the code has made */
  nmb__func *code;    /* its products in float */
  nmb__func *real;    /* as the machine's engines add them up */
  nmb_prog *graph;    /* whose routers are watched */
  int32_t **choice;   /* [nrouting] */
  float *logits;      /* of exact */
  const int32_t *next;
  int64_t rows, columns;
  int nop;            /* of the program at hand */
  int64_t nposition;
  expected *expected; /* [position * nop + op] */
  nmb__made made;     /* by the code */
  bool looking;       /* the order at hand is the one that is compared */
  nmb__agreement agreement, ideal;
  nmb__first_diff first;
  char *first_text;
  int ndeviation, cap;
  nmb__deviation *deviation;
};

/* ------------------------------------------------------------------ reference */
static void
watch_exact(void *self, const nmb_prog *p, const nmb__place *at, nmb_id op,
            const nmb__vals *v)
{
  nmb__values_check *c = self;
  const nmb_op *o = &p->op[op];
  (void)at;
  if (o->code != NMB_OP_TOPK || p != c->graph)
    return;
  const int64_t id = nmb_op_int(o, "routing", 0);
  const nmb_routing *r = &p->routing[id];
  const size_t n = (size_t)r->ntoken * (size_t)r->topk;
  c->choice[id] = nmb__xrealloc(c->choice[id], n, sizeof **c->choice);
  memcpy(c->choice[id], v->out[1], n * sizeof **c->choice);
}

static double
mean_square(const float *x, int64_t n)
{
  double sum = 0;
  for (int64_t i = 0; i < n; i++)
    sum += isfinite(x[i]) ? (double)x[i] * (double)x[i] : 0;
  return sqrt(sum / (double)(n > 0 ? n : 1));
}

static void
watch_stored(void *self, const nmb_prog *p, const nmb__place *at, nmb_id op,
             const nmb__vals *v)
{
  nmb__values_check *c = self;
  const nmb_op *o = &p->op[op];
  if (at->position >= c->nposition)
    return;
  expected *e = &c->expected[at->position * c->nop + op];
  for (int i = 0; i < o->nout && o->code != NMB_OP_KVAPPEND; i++) {
    const int64_t n = nmb_tensor_count(&p->tensor[o->out[i]]);
    e->value[i] = nmb__xrealloc(e->value[i], (size_t)n, sizeof(float));
    memcpy(e->value[i], v->out[i], (size_t)n * sizeof(float));
    e->rms[i] = p->tensor[o->out[i]].dtype == NMB_DT_I32 ? 1 : mean_square(e->value[i], n);
  }
}

static void
expected_clear(nmb__values_check *c)
{
  for (int64_t i = 0; i < c->nposition * c->nop; i++)
    for (int k = 0; k < NMB_MAXOUT; k++)
      free(c->expected[i].value[k]);
  free(c->expected);
  c->expected = NULL;
  c->nposition = c->nop = 0;
}

/* ------------------------------------------------------------------ comparison */
static nmb__deviation *
deviation_of(nmb__values_check *c, const nmb__func_event *e)
{
  const nmb_prog *p = e->p;
  const char *text[2] = {p->block[e->at->block].name,
                         p->tensor[p->op[e->op].out[e->out]].name};
  for (int i = 0; i < c->ndeviation; i++) /* ids differ from step to step */
    if (!strcmp(c->deviation[i].name, text[1]) &&
        !strcmp(c->deviation[i].block_name, text[0]))
      return &c->deviation[i];
  if (c->ndeviation == c->cap) {
    c->cap = c->cap ? 2 * c->cap : 64;
    c->deviation = nmb__xrealloc(c->deviation, (size_t)c->cap, sizeof *c->deviation);
  }
  nmb__deviation *d = &c->deviation[c->ndeviation++];
  *d = (nmb__deviation){0};
  char *copy[2];
  for (int i = 0; i < 2; i++) {
    copy[i] = nmb__xrealloc(NULL, strlen(text[i]) + 1, 1);
    strcpy(copy[i], text[i]);
  }
  d->block_name = copy[0];
  d->name = copy[1];
  return d;
}

static nmb_status
watch_code(nmb_run *run, void *self, const nmb__func_event *e)
{
  nmb__values_check *c = self;
  (void)run;
  if (!c->looking || e->op == NMB_NONE)
    return NMB_OK;
  const nmb_op *o = &e->p->op[e->op];
  const expected *x = &c->expected[e->at->position * c->nop + e->op];
  const nmb__region *r = e->region;
  nmb__made_add(&c->made, e);
  if (!x->value[e->out] || e->p->tensor[o->out[e->out]].dtype == NMB_DT_I32)
    return NMB_OK;
  nmb__deviation *d = deviation_of(c, e);
  const double rms = x->rms[e->out];
  const float *v = e->value;
  for (int64_t m = r->m0; m < r->m1; m++)
    for (int64_t k = r->c0; k < r->c1; k++, v++) {
      const double b = (double)x->value[e->out][m * r->len + k], far = (double)*v - b;
      if (!isfinite(far))
        continue;
      d->most = fmax(d->most, fabs(far) / (rms > 0 ? rms : 1));
      d->square += far * far;
      d->reference += b * b;
      d->n++;
    }
  return NMB_OK;
}

/* The instruction that makes an element of an op's output. */
static nmb_id
maker(const nmb_prog *p, nmb_id op, const nmb__off *f, int64_t *row, int64_t *column)
{
  nmb__region r[NMB_MAXOPND];
  nmb_operand unused[NMB_MAXOPND];
  for (nmb_id i = 0; i < p->ninsn; i++) {
    const nmb_insn *in = &p->insn[i];
    if (in->kind != NMB_INSN_EXEC || in->op != op)
      continue;
    const int n = nmb__regions(p, in->engine, op, &in->tile, r, unused);
    for (int j = 0; j < n; j++) {
      if (r[j].arg != p->op[op].nin + f->out || r[j].len <= 0)
        continue;
      *row = f->at / r[j].len;
      *column = f->at % r[j].len;
      if (*row >= r[j].m0 && *row < r[j].m1 && *column >= r[j].c0 && *column < r[j].c1)
        return i;
    }
  }
  return NMB_NONE;
}

static nmb_status
settle(nmb_run *run, void *self, const nmb_prog *p, const nmb__place *at, nmb_id op,
       const nmb__vals *v)
{
  nmb__values_check *c = self;
  nmb__off f;
  NMB_TRY(nmb__made_settle(run, &c->made, p, at, op, v, &f));
  if (f.out == NMB_NONE || c->first.insn != NMB_NONE)
    return NMB_OK;
  int64_t row = 0, column = f.at;
  const nmb_id insn = maker(p, op, &f, &row, &column);
  const char *text = insn == NMB_NONE ? nmb_op_get(p->op[op].code)->name
                                      : nmb__insn_text(run, p, insn);
  const double near = f.value < f.least ? f.least : f.most;
  c->first = (nmb__first_diff){insn == NMB_NONE ? 0 : insn, at->layer, row, column,
                               p->spec.context, f.value, near, NULL};
  c->first_text = nmb__xrealloc(c->first_text, strlen(text) + 1, 1);
  strcpy(c->first_text, text);
  c->first.text = c->first_text;
  if (!c->o.stop)
    return NMB_OK;
  return nmb_fail(run, NMB_UNVERIFIED, NMB_NOLOC,
                  "%s, layer %" PRId64 ": row %" PRId64 ", column %" PRId64
                  " is %.9g, expected %.9g to %.9g",
                  text, at->layer, row, column, f.value, f.least, f.most);
}

double
nmb__deviation_rms(const nmb__deviation *d)
{
  return d->reference > 0 ? sqrt(d->square / d->reference) : d->square > 0 ? INFINITY : 0;
}

/* --------------------------------------------------------------------- logits */
static int64_t
largest(const float *x, int64_t n)
{
  int64_t at = 0;
  for (int64_t i = 1; i < n; i++)
    at = x[i] > x[at] ? i : at;
  return at;
}

static double
log_sum(const float *x, int64_t n)
{
  const double top = (double)x[largest(x, n)];
  double sum = 0;
  for (int64_t i = 0; i < n; i++)
    sum += exp((double)x[i] - top);
  return top + log(sum);
}

/* KL(p || q) of the softmax of two rows of logits. */
static double
divergence(const float *p, const float *q, int64_t n)
{
  const double zp = log_sum(p, n), zq = log_sum(q, n);
  double sum = 0;
  for (int64_t i = 0; i < n; i++) {
    const double lp = (double)p[i] - zp, lq = (double)q[i] - zq;
    sum += exp(lp) * (lp - lq);
  }
  return sum > 0 ? sum : 0;
}

void
nmb__agreement_add(nmb__agreement *a, const float *exact, const float *code, int64_t rows,
                   int64_t columns, const int32_t *next)
{
  for (int64_t r = 0; r < rows; r++) {
    const float *x = exact + r * columns, *y = code + r * columns;
    a->rows++;
    a->same_top += largest(x, columns) == largest(y, columns);
    const double kl = divergence(x, y, columns);
    a->divergence += kl;
    a->divergence_square += kl * kl;
    for (int64_t i = 0; i < columns; i++) {
      const double d = (double)y[i] - (double)x[i];
      a->most = fmax(a->most, fabs(d));
      a->square += d * d;
      a->reference += (double)x[i] * (double)x[i];
    }
    if (!next)
      continue;
    const double nll = log_sum(y, columns) - (double)y[next[r]];
    const double own = log_sum(x, columns) - (double)x[next[r]];
    a->predicted++;
    a->nll += nll;
    a->nll_square += nll * nll;
    a->exact_nll += own;
    a->rise_square += (nll - own) * (nll - own);
  }
}

/* Of the mean of n values with these sums of the values and of their squares. */
static double
standard_error(double sum, double square, int64_t n)
{
  if (n < 2)
    return 0;
  const double variance = (square - sum * sum / (double)n) / (double)(n - 1);
  return sqrt(fmax(variance, 0) / (double)n);
}

nmb__accuracy
nmb__agreement_accuracy(const nmb__agreement *a)
{
  const double rows = (double)(a->rows ? a->rows : 1), n = (double)a->predicted;
  nmb__accuracy out = {.top1 = (double)a->same_top / rows,
                       .kl = a->divergence / rows,
                       .kl_se = standard_error(a->divergence, a->divergence_square, a->rows),
                       .perplexity = NAN,
                       .perplexity_exact = NAN,
                       .rise = NAN};
  if (!a->predicted)
    return out;
  const double rise = a->nll - a->exact_nll;
  out.perplexity = exp(a->nll / n);
  out.perplexity_se =
      out.perplexity * standard_error(a->nll, a->nll_square, a->predicted);
  out.perplexity_exact = exp(a->exact_nll / n);
  out.rise = exp(rise / n) - 1;
  out.rise_se = (1 + out.rise) * standard_error(rise, a->rise_square, a->predicted);
  return out;
}

void
nmb__agreement_join(nmb__agreement *to, const nmb__agreement *a)
{
  to->rows += a->rows;
  to->same_top += a->same_top;
  to->divergence += a->divergence;
  to->divergence_square += a->divergence_square;
  to->most = fmax(to->most, a->most);
  to->square += a->square;
  to->reference += a->reference;
  to->predicted += a->predicted;
  to->nll += a->nll;
  to->nll_square += a->nll_square;
  to->exact_nll += a->exact_nll;
  to->rise_square += a->rise_square;
}

double
nmb__agreement_rms(const nmb__agreement *a)
{
  return a->reference > 0 ? sqrt(a->square / a->reference) : 0;
}

/* ------------------------------------------------------------------ open, close */
nmb__values_check *
nmb__values_open(const nmb__weights *w, const nmb__values_options *o)
{
  nmb__values_check *c = nmb__xrealloc(NULL, 1, sizeof *c);
  *c = (nmb__values_check){.o = *o, .first = {.insn = NMB_NONE}};
  c->exact =
      nmb__eval_open(w, &(nmb__eval_options){
                            .by_table = o->tables,
                            .invent = o->invent,
                            .watch = watch_exact,
                            .watch_self = c});
  c->stored = nmb__eval_open(w, &(nmb__eval_options){.rounding = NMB__ROUND_STORED,
                                                     .by_table = true,
                                                     .invent = o->invent,
                                                     .watch = watch_stored,
                                                     .watch_self = c});
  c->each = nmb__eval_open(w, &(nmb__eval_options){.rounding = NMB__ROUND_STORED,
                                                   .by_table = true,
                                                   .invent = o->invent,
                                                   .settle = settle,
                                                   .watch_self = c});
  c->code =
      nmb__func_open(w, &(nmb__func_options){
                            .invent = o->invent, .watch = watch_code, .watch_self = c});
  c->real = nmb__func_open(w, &(nmb__func_options){
                                  .invent = o->invent, .arith = true, .noise = o->seed});
  return c;
}

void
nmb__values_close(nmb__values_check *c)
{
  if (!c)
    return;
  nmb__eval_close(c->exact);
  nmb__eval_close(c->stored);
  nmb__eval_close(c->each);
  nmb__func_close(c->code);
  nmb__func_close(c->real);
  expected_clear(c);
  nmb__made_clear(&c->made);
  for (int i = 0; i < c->ndeviation; i++) {
    free((void *)(uintptr_t)c->deviation[i].block_name);
    free((void *)(uintptr_t)c->deviation[i].name);
  }
  free(c->deviation);
  free(c->logits);
  free(c->first_text);
  free(c);
}

/* ---------------------------------------------------------------------- steps */
nmb_status
nmb__values_exact(nmb_run *run, nmb__values_check *c, nmb_prog *graph, const int32_t *ids)
{
  const float *logits;
  const int nrouting = graph->nrouting;
  c->graph = graph;
  c->choice = calloc((size_t)nrouting + 1, sizeof *c->choice);
  nmb_status st =
      nmb__eval_step(run, c->exact, graph, ids, &logits, &c->rows, &c->columns);
  if (st == NMB_OK) {
    const size_t n = (size_t)c->rows * (size_t)c->columns;
    c->logits = nmb__xrealloc(c->logits, n, sizeof *c->logits);
    memcpy(c->logits, logits, n * sizeof *c->logits);
  }
  for (int i = 0; i < nrouting; i++) {
    if (st == NMB_OK && c->choice[i])
      nmb__routing_set(graph, i, c->choice[i]);
    free(c->choice[i]);
  }
  free(c->choice);
  c->choice = NULL;
  c->graph = NULL;
  return st;
}

static nmb_status
reference(nmb_run *run, nmb__values_check *c, const nmb_prog *p, const int32_t *ids)
{
  const float *logits;
  int64_t rows, columns;
  expected_clear(c);
  c->nop = p->nop;
  for (int i = 0; i < p->nsegment; i++)
    c->nposition += p->order[i].count;
  c->expected = nmb__xrealloc(NULL, (size_t)c->nposition * (size_t)p->nop, sizeof *c->expected);
  memset(c->expected, 0, (size_t)c->nposition * (size_t)p->nop * sizeof *c->expected);
  NMB_TRY(nmb__eval_step(run, c->stored, p, ids, &logits, &rows, &columns));
  if (rows != c->rows || columns != c->columns)
    return nmb_fail(run, NMB_BADINPUT, NMB_NOLOC,
                    "%" PRId64 " x %" PRId64 " logits, but the model has %" PRId64
                    " x %" PRId64,
                    rows, columns, c->rows, c->columns);
  return NMB_OK;
}

/* What the instructions made, op by op; and the memory that the logits are taken from holds
 * what the last of them made. */
static nmb_status
each_op(nmb_run *run, nmb__values_check *c, const nmb_prog *p, const int32_t *ids,
        const float *given)
{
  const float *logits;
  int64_t rows, columns;
  NMB_TRY(nmb__eval_step(run, c->each, p, ids, &logits, &rows, &columns));
  nmb__made_clear(&c->made);
  for (int64_t i = 0; i < rows * columns; i++)
    if (given[i] < logits[i] || given[i] > logits[i])
      return nmb_fail(run, NMB_UNVERIFIED, NMB_NOLOC,
                      "logit %" PRId64 " of row %" PRId64
                      " is %.9g in memory, but was written as %.9g",
                      i % columns, i / columns, (double)given[i], (double)logits[i]);
  return NMB_OK;
}

/* Values that engines add up in their own ways are no errors of the code: they are made by a
 * further run, and its logits are what counts. */
static nmb_status
real_sums(nmb_run *run, nmb__values_check *c, const nmb_prog *p, const int32_t *ids)
{
  const float *logits;
  int64_t rows, columns;
  if (!nmb__machine_differs(p->hw)) {
    c->agreement = c->ideal;
    return NMB_OK;
  }
  NMB_TRY(nmb__func_step(run, c->real, p, ids, &logits, &rows, &columns));
  nmb__agreement_add(&c->agreement, c->logits, logits, rows, columns, c->next);
  return NMB_OK;
}

bool
nmb__machine_differs(const nmb_hw *hw)
{
  bool any = false;
  for (int i = 0; hw && i < hw->nengine; i++)
    any |= nmb__arith_differs(&hw->engine[i]);
  return any;
}

nmb_status
nmb__values_code(nmb_run *run, nmb__values_check *c, const nmb_prog *p, const int32_t *ids)
{
  const float *logits;
  int64_t rows, columns;
  NMB_TRY(reference(run, c, p, ids));
  const size_t bytes = (size_t)c->rows * (size_t)c->columns * sizeof(float);
  float *first = NULL;
  uint64_t digest = 0;
  nmb_status st = NMB_OK;
  for (int i = 0; i <= c->o.orders && st == NMB_OK; i++) {
    nmb__func_order(c->code, i ? c->o.seed * 8191 + (uint64_t)i : 0);
    c->looking = i == 0;
    if (i == 0)
      nmb__made_begin(&c->made, p);
    st = nmb__func_step(run, c->code, p, ids, &logits, &rows, &columns);
    if (st != NMB_OK)
      break;
    if (i == 0) {
      nmb__agreement_add(&c->ideal, c->logits, logits, c->rows, c->columns, c->next);
      first = nmb__xrealloc(NULL, bytes, 1);
      memcpy(first, logits, bytes);
      digest = nmb__func_digest(c->code);
      st = each_op(run, c, p, ids, first);
    } else if (memcmp(first, logits, bytes) != 0 || digest != nmb__func_digest(c->code))
      st = nmb_fail(run, NMB_UNVERIFIED, NMB_NOLOC,
                    "order %d of the instructions, which waits allow, gives other values "
                    "than the order they were emitted in",
                    i);
  }
  free(first);
  return st == NMB_OK ? real_sums(run, c, p, ids) : st;
}

/* ------------------------------------------------------------------ results */
void
nmb__values_next(nmb__values_check *c, const int32_t *next)
{
  c->next = next;
}

const float *
nmb__values_logits(const nmb__values_check *c)
{
  return c->logits;
}

const nmb__agreement *
nmb__values_agreement(const nmb__values_check *c)
{
  return &c->agreement;
}

const nmb__agreement *
nmb__values_ideal(const nmb__values_check *c)
{
  return &c->ideal;
}

const nmb__first_diff *
nmb__values_first(const nmb__values_check *c)
{
  return &c->first;
}

nmb__held
nmb__values_held(const nmb__values_check *c)
{
  return nmb__func_held(c->code);
}

const nmb__deviation *
nmb__values_tensors(const nmb__values_check *c, int *n)
{
  *n = c->ndeviation;
  return c->deviation;
}
