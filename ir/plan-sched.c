/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Order and start of steps: what the schedulers share. */
#include <stdlib.h>
#include <string.h>

#include "base/run.h"
#include "nmbench/nmb_plan.h"

int
nmb_block_steps(nmb_run *run, const nmb_prog *p, nmb_id block, nmb_step **out)
{
  int n = 0;
  *out = NMB_NEW(run, nmb_step, p->nkernel + 1);
  for (int k = 0; k < p->nkernel; k++)
    if (p->kernel[k].block == block)
      (*out)[n++] = (nmb_step){.kernel = k, .axis = NMB_AXIS_NONE, .nparts = 1};
  return n;
}

static int64_t
picoseconds(double s)
{
  return (int64_t)(s * 1e12 + 0.5);
}

static int
by_start(const void *a, const void *b)
{
  const nmb_step *x = a, *y = b;
  if (x->start_ps != y->start_ps)
    return x->start_ps < y->start_ps ? -1 : 1;
  if (x->kernel != y->kernel)
    return x->kernel < y->kernel ? -1 : 1;
  return x->part < y->part ? -1 : x->part > y->part;
}

/* A transfer that some steps need; it runs once, on its link. */
typedef struct transfer {
  nmb_insn insn;
  int64_t duration, end; /* ps; end 0: has not run */
} transfer;

/* Steps as a graph: who waits for whom, and what each costs. */
typedef struct tasks {
  const nmb_prog *p;
  nmb_step *step;
  int n;
  int64_t *exec;  /* ps */
  int64_t *rank;  /* ps from its start to the end of the block */
  int *left;      /* predecessors not yet done */
  int64_t *ready; /* ps: all predecessors done */
  bool *need;     /* [i * n + j]: j needs i */
  int nmove;      /* distinct transfers */
  transfer *move;
  int **brings;     /* [n] transfers of a step, in order; ends with -1 */
  int64_t *free_at; /* [nengine] ps */
  int64_t *try_at;  /* [nengine] scratch */
} tasks;

static nmb_status
add_moves(nmb_run *run, tasks *t, const nmb_insns *list, int *id)
{
  int n = 0;
  for (int i = 0; i < list->n; i++) {
    int at = 0;
    while (at < t->nmove && !nmb_moves_equal(&t->move[at].insn, &list->v[i]))
      at++;
    if (at == t->nmove) {
      nmb_cost c = {0};
      NMB_TRY(nmb_insn_cost(run, t->p, &list->v[i], &c));
      if (t->nmove % 64 == 0) {
        const transfer *old = t->move;
        t->move = NMB_NEW(run, transfer, t->nmove + 64);
        if (t->nmove)
          memcpy(t->move, old, (size_t)t->nmove * sizeof *old);
      }
      t->move[t->nmove++] = (transfer){list->v[i], picoseconds(nmb_cost_seconds(&c)), 0};
    }
    id[n++] = at;
  }
  id[n] = -1;
  return NMB_OK;
}

static nmb_status
step_costs(nmb_run *run, tasks *t, int i)
{
  const nmb_prog *p = t->p;
  const nmb_kernel *k = &p->kernel[t->step[i].kernel];
  nmb_insns list = {0};
  double seconds;
  NMB_TRY(nmb_step_seconds(run, p, &t->step[i], &seconds));
  /* at least 1 ps: steps of no length that start together would be put in order by
   * their ids, which need not be the order in which they were scheduled */
  t->exec[i] = picoseconds(seconds) > 1 ? picoseconds(seconds) : 1;
  for (int a = 0; a < k->nop; a++)
    for (int b = 0; b < p->op[k->op[a]].nin; b++)
      NMB_TRY(nmb_lower_transfer(run, p, p->op[k->op[a]].in[b], &t->step[i], &list));
  t->brings[i] = NMB_NEW(run, int, list.n + 1);
  return add_moves(run, t, &list, t->brings[i]);
}

static nmb_status
tasks_make(nmb_run *run, const nmb_prog *p, nmb_step *step, int n, tasks *t)
{
  *t = (tasks){.p = p, .step = step, .n = n};
  t->exec = NMB_NEW(run, int64_t, n + 1);
  t->rank = NMB_NEW(run, int64_t, n + 1);
  t->ready = NMB_NEW(run, int64_t, n + 1);
  t->left = NMB_NEW(run, int, n + 1);
  t->brings = NMB_NEW(run, int *, n + 1);
  t->need = NMB_NEW(run, bool, (size_t)n *(size_t)n + 1);
  t->free_at = NMB_NEW(run, int64_t, p->hw->nengine);
  t->try_at = NMB_NEW(run, int64_t, p->hw->nengine);
  for (int i = 0; i < n; i++)
    NMB_TRY(step_costs(run, t, i));
  return NMB_OK;
}

/* When step i could start; commit: let its transfers run. */
static int64_t
start_of(tasks *t, int i, bool commit)
{
  const nmb_id engine = t->p->kernel[t->step[i].kernel].engine;
  int64_t at = t->ready[i], chain = t->ready[i];
  memcpy(t->try_at, t->free_at, (size_t)t->p->hw->nengine * sizeof *t->free_at);
  for (const int *m = t->brings[i]; *m >= 0; m++) {
    transfer *x = &t->move[*m];
    int64_t end = x->end;
    if (!end) {
      const int64_t link = t->try_at[x->insn.engine];
      end = (link > chain ? link : chain) + x->duration;
      t->try_at[x->insn.engine] = end;
      if (commit)
        x->end = end;
    }
    chain = end > chain ? end : chain; /* a gather before its bcast */
    at = end > at ? end : at;
  }
  if (commit)
    memcpy(t->free_at, t->try_at, (size_t)t->p->hw->nengine * sizeof *t->free_at);
  return at > t->free_at[engine] ? at : t->free_at[engine];
}

/* Moves the hidden state on; when the block ends. */
static nmb_status
handover(nmb_run *run, tasks *t, int64_t end, double *seconds)
{
  nmb_insns list = {0};
  NMB_TRY(nmb_lower_handover(run, t->p, t->p->kernel[t->step[0].kernel].block,
                             &t->step[t->n - 1], &list));
  for (int i = 0; i < list.n; i++) {
    bool ran = false;
    for (int m = 0; m < t->nmove && !ran; m++)
      ran = nmb_moves_equal(&t->move[m].insn, &list.v[i]);
    nmb_cost c = {0};
    NMB_TRY(nmb_insn_cost(run, t->p, &list.v[i], &c));
    end += ran ? 0 : picoseconds(nmb_cost_seconds(&c));
  }
  *seconds = (double)end * 1e-12;
  return NMB_OK;
}

nmb_status
nmb_schedule_serial(nmb_run *run, const nmb_prog *p, nmb_step *step, int n,
                    double *seconds)
{
  tasks t;
  int64_t now = 0;
  *seconds = 0;
  if (n == 0)
    return NMB_OK;
  NMB_TRY(tasks_make(run, p, step, n, &t));
  for (int i = 0; i < n; i++) {
    t.ready[i] = now;
    step[i].start_ps = start_of(&t, i, true);
    step[i].duration_ps = t.exec[i];
    now = step[i].start_ps + t.exec[i];
  }
  return handover(run, &t, now, seconds);
}

/* Who needs whom, and the longest way to the end from each. */
static void
find_needs(tasks *t)
{
  const nmb_prog *p = t->p;
  const size_t n = (size_t)t->n;
  int64_t *own = t->ready; /* scratch: duration of a step with its transfers */
  for (int i = 0; i < t->n; i++) {
    own[i] = t->exec[i];
    for (const int *m = t->brings[i]; *m >= 0; m++)
      own[i] += t->move[*m].duration;
    for (int j = 0; j < t->n; j++)
      if (nmb_parts_depend(p, &t->step[i], &t->step[j])) {
        t->need[(size_t)i * n + (size_t)j] = true;
        t->left[j]++;
      }
  }
  /* kernels are numbered in topological order */
  for (int k = p->nkernel - 1; k >= 0; k--)
    for (int i = 0; i < t->n; i++) {
      if (t->step[i].kernel != k)
        continue;
      int64_t most = 0;
      for (int j = 0; j < t->n; j++)
        if (t->need[(size_t)i * n + (size_t)j] && t->rank[j] > most)
          most = t->rank[j];
      t->rank[i] = own[i] + most;
    }
  for (int i = 0; i < t->n; i++)
    t->ready[i] = 0;
}

/* Is a before b in the list?  Longest way to the end first. */
static bool
goes_first(const tasks *t, int a, int b)
{
  if (t->rank[a] != t->rank[b])
    return t->rank[a] > t->rank[b];
  return t->step[a].kernel != t->step[b].kernel ? t->step[a].kernel < t->step[b].kernel
                                                : t->step[a].part < t->step[b].part;
}

/* The step that can start first; of those that can, the highest rank. */
static int
pick(tasks *t, const bool *done)
{
  int best = -1;
  int64_t best_at = 0;
  for (int i = 0; i < t->n; i++) {
    if (done[i] || t->left[i])
      continue;
    const int64_t at = start_of(t, i, false);
    if (best < 0 || at < best_at || (at == best_at && goes_first(t, i, best))) {
      best = i;
      best_at = at;
    }
  }
  if (best < 0)
    nmb__panic("steps of block %d wait for each other",
               (int)t->p->kernel[t->step[0].kernel].block);
  return best;
}

nmb_status
nmb_schedule_list(nmb_run *run, const nmb_prog *p, nmb_step *step, int n, double *seconds)
{
  tasks t;
  int64_t end = 0;
  *seconds = 0;
  if (n == 0)
    return NMB_OK;
  NMB_TRY(tasks_make(run, p, step, n, &t));
  find_needs(&t);
  bool *done = NMB_NEW(run, bool, n + 1);
  for (int k = 0; k < n; k++) {
    const int i = pick(&t, done);
    done[i] = true;
    step[i].start_ps = start_of(&t, i, true);
    step[i].duration_ps = t.exec[i];
    const int64_t finish = step[i].start_ps + t.exec[i];
    t.free_at[p->kernel[step[i].kernel].engine] = finish;
    end = finish > end ? finish : end;
    for (int j = 0; j < n; j++)
      if (t.need[(size_t)i * (size_t)n + (size_t)j]) {
        t.left[j]--;
        t.ready[j] = finish > t.ready[j] ? finish : t.ready[j];
      }
  }
  NMB_TRY(handover(run, &t, end, seconds));
  qsort(step, (size_t)n, sizeof *step, by_start);
  return NMB_OK;
}

nmb_status
nmb_schedule_blocks(nmb_run *run, nmb_prog *p,
                    nmb_status (*order)(nmb_run *, const nmb_prog *, nmb_step *, int,
                                        double *))
{
  double sum = 0;
  nmb_section_begin(p, NMB_SCHEDULE);
  for (int b = 0; b < p->nblock; b++) {
    nmb_step *step;
    double seconds;
    const int n = nmb_block_steps(run, p, b, &step);
    NMB_TRY(order(run, p, step, n, &seconds));
    for (int i = 0; i < n; i++)
      nmb_step_add(p, &step[i]);
    sum += seconds * (double)p->block[b].repeat;
  }
  nmb_stat(run, "estimated seconds", sum);
  return NMB_OK;
}
