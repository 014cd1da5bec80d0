/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Verifier of the schedule: each part of each kernel once, in an order that keeps
 * the dependences, one thing at a time on an engine. */
#include <inttypes.h>

#include "ir/verify.h"
#include "nmbench/nmb_lower.h"

typedef struct ctx {
  nmb_run *run;
  const nmb_prog *p;
  nmb_id *first;  /* [nkernel + 1] steps of kernel k: list[first[k]] up to list[first[k +
                     1]] */
  nmb_id *list;   /* [nstep] in order of start */
  nmb_id *kernel; /* [nop] kernel of each op */
} ctx;

static const char *
step_text(const ctx *c, nmb_id s)
{
  const nmb_step *t = &c->p->step[s];
  if (t->nparts == 1)
    return nmb_format(c->run, "step %d, %s", (int)s,
                      nmb__kernel_text(c->run, c->p, t->kernel));
  return nmb_format(c->run, "step %d, part %d of %s", (int)s, t->part,
                    nmb__kernel_text(c->run, c->p, t->kernel));
}

/* -------------------------------------------------------------------- steps */
static nmb_status
check_step(const ctx *c, nmb_id id)
{
  const nmb_prog *p = c->p;
  const nmb_step *s = &p->step[id];
  if (s->kernel < 0 || s->kernel >= p->nkernel)
    return nmb_fail(c->run, NMB_UNVERIFIED, NMB_NOLOC,
                    "step %d runs kernel %d, but there are %d", (int)id, (int)s->kernel,
                    p->nkernel);
  if (s->nparts < 1 || s->part < 0 || s->part >= s->nparts)
    return nmb_fail(c->run, NMB_UNVERIFIED, NMB_NOLOC, "step %d is part %d of %d",
                    (int)id, s->part, s->nparts);
  if (s->start_ps < 0 || s->duration_ps < 0 || s->duration_ps > INT64_MAX - s->start_ps)
    return nmb_fail(c->run, NMB_UNVERIFIED, NMB_NOLOC,
                    "%s starts at %" PRId64 " ps and takes %" PRId64 " ps",
                    step_text(c, id), s->start_ps, s->duration_ps);
  const int64_t extent = nmb_kernel_extent(p, s->kernel, s->axis);
  if (s->nparts > 1 && (s->axis == NMB_AXIS_NONE || extent % s->nparts != 0))
    return nmb_fail(c->run, NMB_UNVERIFIED, NMB_NOLOC,
                    "%s is cut into %d parts, but along that axis %" PRId64
                    " can be told apart",
                    step_text(c, id), s->nparts, extent);
  if (id == 0)
    return NMB_OK;
  const nmb_step *b = &p->step[id - 1];
  const nmb_id block = p->kernel[s->kernel].block, before = p->kernel[b->kernel].block;
  if (block < before)
    return nmb_fail(c->run, NMB_UNVERIFIED, NMB_NOLOC,
                    "%s of block %s stands after block %s", step_text(c, id),
                    p->block[block].name, p->block[before].name);
  if (block == before && s->start_ps < b->start_ps)
    return nmb_fail(c->run, NMB_UNVERIFIED, NMB_NOLOC,
                    "%s starts at %" PRId64 " ps, but the step before it at %" PRId64,
                    step_text(c, id), s->start_ps, b->start_ps);
  return NMB_OK;
}

/* All parts of each kernel, each once, along one axis. */
static nmb_status
check_parts(const ctx *c, nmb_id k)
{
  const int n = c->first[k + 1] - c->first[k];
  const nmb_id *list = c->list + c->first[k];
  const nmb_step *s = n ? &c->p->step[list[0]] : NULL;
  const int expected = s ? s->nparts : 1;
  if (n != expected)
    return nmb_fail(c->run, NMB_UNVERIFIED, NMB_NOLOC,
                    "%s stands in %d steps, expected %d",
                    nmb__kernel_text(c->run, c->p, k), n, expected);
  bool *seen = NMB_NEW(c->run, bool, n);
  for (int i = 0; i < n; i++) {
    const nmb_step *t = &c->p->step[list[i]];
    if (t->nparts != s->nparts || t->axis != s->axis)
      return nmb_fail(
          c->run, NMB_UNVERIFIED, NMB_NOLOC,
          "%s is one of %d parts, but another step of the kernel of %d along %s axis",
          step_text(c, list[i]), t->nparts, s->nparts,
          t->axis == s->axis ? "the same" : "another");
    if (seen[t->part])
      return nmb_fail(c->run, NMB_UNVERIFIED, NMB_NOLOC, "%s stands in two steps",
                      step_text(c, list[i]));
    seen[t->part] = true;
  }
  return NMB_OK;
}

/* -------------------------------------------------------------- dependences */
/* Every part of kernel b that needs a part of kernel a comes after it.  always:
 * where nmb_parts_depend does not know of the dependence. */
static nmb_status
check_edge(const ctx *c, nmb_id a, nmb_id b, bool always, const char *value)
{
  const nmb_prog *p = c->p;
  for (int i = c->first[a]; i < c->first[a + 1]; i++)
    for (int j = c->first[b]; j < c->first[b + 1]; j++) {
      const nmb_step *x = &p->step[c->list[i]], *y = &p->step[c->list[j]];
      const bool late =
          c->list[i] > c->list[j] || y->start_ps < x->start_ps + x->duration_ps;
      if (late && (always || nmb_parts_depend(p, x, y)))
        return nmb_fail(c->run, NMB_UNVERIFIED, NMB_NOLOC,
                        "%s starts at %" PRId64
                        " ps, but %%%s, which it needs, is ready at %" PRId64
                        " ps, after step %d",
                        step_text(c, c->list[j]), y->start_ps, value,
                        x->start_ps + x->duration_ps, (int)c->list[i]);
    }
  return NMB_OK;
}

/* What op `id` reads was made before; what it overwrites was read before. */
static nmb_status
check_op(const ctx *c, nmb_id id, const nmb_id *append)
{
  const nmb_prog *p = c->p;
  const nmb_op *o = &p->op[id];
  const nmb_id b = c->kernel[id];
  for (int j = 0; j < o->nin; j++) {
    const nmb_tensor *x = &p->tensor[o->in[j]];
    if (x->def != NMB_NONE && c->kernel[x->def] != b)
      NMB_TRY(check_edge(c, c->kernel[x->def], b, false, x->name));
    const nmb_id writer = append[o->in[j]];
    if (writer != NMB_NONE && writer != id && c->kernel[writer] != b)
      NMB_TRY(check_edge(c, b, c->kernel[writer], true, x->name));
  }
  return NMB_OK;
}

static nmb_status
check_dependences(const ctx *c)
{
  const nmb_prog *p = c->p;
  nmb_id *append = NMB_NEW(c->run, nmb_id, p->ntensor); /* the op that overwrites it */
  for (int i = 0; i < p->ntensor; i++)
    append[i] = NMB_NONE;
  for (int i = 0; i < p->nop; i++)
    for (int y = 0; y < p->op[i].nout && c->kernel[i] != NMB_NONE; y++) {
      const int in = nmb_op_in_place(&p->op[i], y);
      if (in != NMB_NONE && p->op[i].code != NMB_OP_SPLIT)
        append[p->op[i].in[in]] = i;
    }
  for (int i = 0; i < p->nop; i++)
    if (c->kernel[i] != NMB_NONE)
      NMB_TRY(check_op(c, i, append));
  return NMB_OK;
}

/* ------------------------------------------------------------------ engines */
/* Steps stand in order of start, so each has only to wait for the one before. */
static nmb_status
check_engines(const ctx *c)
{
  const nmb_prog *p = c->p;
  if (!p->hw)
    return NMB_OK;
  nmb_id *last = NMB_NEW(c->run, nmb_id, p->hw->nengine);
  for (int i = 0; i < p->hw->nengine; i++)
    last[i] = NMB_NONE;
  for (nmb_id s = 0; s < p->nstep; s++) {
    const nmb_kernel *k = &p->kernel[p->step[s].kernel];
    const nmb_id b = last[k->engine];
    if (b != NMB_NONE && p->kernel[p->step[b].kernel].block == k->block &&
        p->step[b].start_ps + p->step[b].duration_ps > p->step[s].start_ps)
      return nmb_fail(c->run, NMB_UNVERIFIED, NMB_NOLOC,
                      "%s starts at %" PRId64
                      " ps on engine %s, which is busy with step %d until %" PRId64 " ps",
                      step_text(c, s), p->step[s].start_ps, p->hw->engine[k->engine].name,
                      (int)b, p->step[b].start_ps + p->step[b].duration_ps);
    last[k->engine] = s;
  }
  return NMB_OK;
}

nmb_status
nmb__verify_schedule(nmb_run *run, const nmb_prog *p)
{
  ctx c = {run, p, NMB_NEW(run, nmb_id, p->nkernel + 2),
           NMB_NEW(run, nmb_id, p->nstep + 1), NMB_NEW(run, nmb_id, p->nop + 1)};
  for (int i = 0; i < p->nop; i++)
    c.kernel[i] = NMB_NONE;
  for (int k = 0; k < p->nkernel; k++)
    for (int i = 0; i < p->kernel[k].nop; i++)
      c.kernel[p->kernel[k].op[i]] = k;
  for (int s = 0; s < p->nstep; s++) {
    NMB_TRY(check_step(&c, s));
    c.first[p->step[s].kernel + 2]++;
  }
  for (int k = 0; k < p->nkernel; k++)
    c.first[k + 2] += c.first[k + 1];
  for (int s = 0; s < p->nstep; s++) /* first[k + 1]: where the next step of k goes */
    c.list[c.first[p->step[s].kernel + 1]++] = s;
  for (int k = 0; k < p->nkernel; k++)
    NMB_TRY(check_parts(&c, k));
  NMB_TRY(check_dependences(&c));
  return check_engines(&c);
}
