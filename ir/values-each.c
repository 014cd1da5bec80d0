/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Each op of the code against the reference on the same inputs. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/run.h"
#include "ir/formats.h"
#include "ir/values-each.h"

/* Stands where no instruction has written: a NaN that no op makes. */
static const uint32_t unseen = UINT32_C(0x7fa5c3e1);

void
nmb__made_clear(nmb__made *m)
{
  for (int64_t i = 0; i < m->nposition * m->nop * NMB_MAXOUT; i++)
    free(m->value[i]);
  free(m->value);
  *m = (nmb__made){0};
}

void
nmb__made_begin(nmb__made *m, const nmb_prog *p)
{
  nmb__made_clear(m);
  m->nop = p->nop;
  for (int i = 0; i < p->nsegment; i++)
    m->nposition += p->order[i].count;
  const size_t n = (size_t)m->nposition * (size_t)m->nop * NMB_MAXOUT;
  m->value = nmb__xrealloc(NULL, n, sizeof *m->value);
  memset(m->value, 0, n * sizeof *m->value);
}

static float **
made_at(const nmb__made *m, const nmb__place *at, nmb_id op, int out)
{
  if (at->position >= m->nposition)
    return NULL;
  return &m->value[(at->position * m->nop + op) * NMB_MAXOUT + out];
}

void
nmb__made_add(nmb__made *m, const nmb__func_event *e)
{
  float **v = made_at(m, e->at, e->op, e->out);
  const nmb__region *r = e->region;
  const size_t width = (size_t)(r->c1 - r->c0);
  if (!v)
    return;
  if (!*v) {
    const int64_t n = nmb_tensor_count(&e->p->tensor[e->p->op[e->op].out[e->out]]);
    *v = nmb__xrealloc(NULL, (size_t)n, sizeof **v);
    for (int64_t i = 0; i < n; i++)
      memcpy(*v + i, &unseen, sizeof unseen);
  }
  for (int64_t k = r->m0; k < r->m1; k++)
    memcpy(*v + k * r->len + r->c0, e->value + (size_t)(k - r->m0) * width,
           width * sizeof **v);
}

/* ---------------------------------------------------------------------- bounds */
static bool
is_product(nmb_opcode c)
{
  return c == NMB_OP_LINEAR || c == NMB_OP_HLINEAR || c == NMB_OP_GLINEAR ||
         c == NMB_OP_QK || c == NMB_OP_PV;
}

/* Elements that share a scale; 0: each has its own. */
static int64_t
group_of(const nmb_tensor *t)
{
  const nmb_dtype_info *d = nmb_dtype_get(t->dtype);
  const int64_t whole = t->dim[t->rank - 1];
  if (d->scale_bits == 0 && d->group == 0)
    return 0;
  const int64_t g = d->group > 0 ? d->group : t->group;
  return g > 0 && g < whole ? g : whole;
}

/* The largest distance from a value to what it is stored as, over the largest of its group.
 * int8: half a step of amax/127, whose own rounding to fp16 adds 2^-11 of it, and of amax
 * where the largest then clips.  Else what MXFP4 has, the coarsest: amax is 4 to 8 scales, the
 * largest number 6 of them, so that 2 scales are lost of nearly 8. */
static double
half_step(nmb_dtype d)
{
  return d == NMB_DT_I8 ? 0.5 * (1 + 0x1p-11) / 127 + 0x1p-11 : 0.25;
}

/* lo and hi are further apart by half a step. */
static void
widen(const nmb_tensor *t, int64_t group, float *lo, float *hi)
{
  const int64_t len = t->dim[t->rank - 1], rows = nmb_tensor_count(t) / len;
  for (int64_t r = 0; r < rows; r++)
    for (int64_t g = 0; g < len; g += group) {
      const int64_t a = r * len + g, b = r * len + (g + group < len ? g + group : len);
      float most = 0;
      for (int64_t i = a; i < b; i++)
        most = fmaxf(most, fmaxf(fabsf(lo[i]), fabsf(hi[i])));
      const float step = (float)(half_step(t->dtype) * (double)most);
      for (int64_t i = a; i < b; i++) {
        lo[i] -= step;
        hi[i] += step;
      }
    }
}

/* The ends of what a product may give, stored. */
static nmb_status
ends(nmb_run *run, const nmb_prog *p, nmb_id op, const nmb__vals *v, float *lo, float *hi)
{
  const nmb_tensor *t = &p->tensor[p->op[op].out[0]];
  const int64_t n = nmb_tensor_count(t), group = group_of(t);
  for (int side = 0; side < 2; side++) {
    const nmb__arith arith = {.side = side ? 1 : -1};
    nmb__vals w = *v;
    w.arith = &arith;
    w.out[0] = side ? hi : lo;
    memcpy(w.out[0], v->out[0], (size_t)n * sizeof(float)); /* rows that no tile makes */
    NMB_TRY(nmb__op_eval(run, p, op, NULL, &w));
    if (!group)
      nmb__round_tensor(t, w.out[0]);
  }
  for (int64_t i = 0; i < n; i++) /* a negative factor has turned them */
    if (lo[i] > hi[i]) {
      const float x = lo[i];
      lo[i] = hi[i];
      hi[i] = x;
    }
  if (group)
    widen(t, group, lo, hi);
  return NMB_OK;
}

/* -------------------------------------------------------------------- compare */
static bool
between(float x, float lo, float hi)
{
  return (x >= lo && x <= hi) || (isnan(x) && (isnan(lo) || isnan(hi)));
}

static double
number(const nmb_tensor *t, const float *x)
{
  int32_t i;
  memcpy(&i, x, sizeof i);
  return t->dtype == NMB_DT_I32 ? (double)i : (double)*x;
}

static bool
fits(const nmb_tensor *t, const float *x, const float *lo, const float *hi)
{
  return t->dtype == NMB_DT_I32 ? !memcmp(x, lo, sizeof *x) : between(*x, *lo, *hi);
}

/* Compares, and puts the code's values in place of the reference's. */
static void
take(const nmb_tensor *t, const float *made, float *out, const float *lo, const float *hi,
     int number_of_out, nmb__off *off)
{
  const int64_t n = nmb_tensor_count(t);
  for (int64_t i = 0; i < n; i++) {
    if (!memcmp(made + i, &unseen, sizeof unseen))
      continue;
    if (off->out == NMB_NONE && !fits(t, made + i, lo + i, hi + i))
      *off = (nmb__off){number_of_out, i, number(t, made + i), number(t, lo + i),
                        number(t, hi + i)};
    out[i] = made[i];
  }
}

nmb_status
nmb__made_settle(nmb_run *run, const nmb__made *m, const nmb_prog *p, const nmb__place *at,
                 nmb_id op, const nmb__vals *v, nmb__off *off)
{
  const nmb_op *o = &p->op[op];
  off->out = NMB_NONE;
  for (int i = 0; i < o->nout; i++) {
    const nmb_tensor *t = &p->tensor[o->out[i]];
    float *const *made = made_at(m, at, op, i), *out = v->out[i], *lo = out, *hi = out;
    const size_t n = (size_t)nmb_tensor_count(t);
    const size_t mark = nmb__run_mark(run);
    if (made && *made && is_product(o->code)) {
      lo = NMB_NEW(run, float, n + 1);
      hi = NMB_NEW(run, float, n + 1);
      NMB_TRY(ends(run, p, op, v, lo, hi));
    }
    nmb__round_tensor(t, out);
    if (made && *made)
      take(t, *made, out, lo, hi, i, off);
    nmb__run_release(run, mark);
  }
  return NMB_OK;
}
