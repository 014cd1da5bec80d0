/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Order and start of steps: what the schedulers share. */
#include <stdlib.h>

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

nmb_status
nmb_schedule_serial(nmb_run *run, const nmb_prog *p, nmb_step *step, int n,
                    double *seconds)
{
  int64_t now = 0;
  for (int i = 0; i < n; i++) {
    double exec, moves;
    NMB_TRY(nmb_step_seconds(run, p, &step[i], &exec, &moves));
    step[i].start_ps = now + picoseconds(moves);
    step[i].duration_ps = picoseconds(exec);
    now = step[i].start_ps + step[i].duration_ps;
  }
  *seconds = (double)now * 1e-12;
  return NMB_OK;
}

/* Steps as a graph: who waits for whom, and what each costs. */
typedef struct tasks {
  const nmb_prog *p;
  nmb_step *step;
  int n;
  int64_t *exec, *moves; /* ps */
  int64_t *rank;         /* ps from its start to the end of the block */
  int *left;             /* predecessors not yet done */
  int64_t *ready;        /* ps: all predecessors done */
  bool *need;            /* [i * n + j]: j needs i */
} tasks;

static nmb_status
tasks_make(nmb_run *run, const nmb_prog *p, nmb_step *step, int n, tasks *t)
{
  *t = (tasks){.p = p, .step = step, .n = n};
  t->exec = NMB_NEW(run, int64_t, n + 1);
  t->moves = NMB_NEW(run, int64_t, n + 1);
  t->rank = NMB_NEW(run, int64_t, n + 1);
  t->ready = NMB_NEW(run, int64_t, n + 1);
  t->left = NMB_NEW(run, int, n + 1);
  t->need = NMB_NEW(run, bool, (size_t)n *(size_t)n + 1);
  for (int i = 0; i < n; i++) {
    double exec, moves;
    NMB_TRY(nmb_step_seconds(run, p, &step[i], &exec, &moves));
    t->exec[i] = picoseconds(exec);
    t->moves[i] = picoseconds(moves);
    for (int j = 0; j < n; j++)
      if (nmb_parts_depend(p, &step[i], &step[j])) {
        t->need[(size_t)i * (size_t)n + (size_t)j] = true;
        t->left[j]++;
      }
  }
  /* kernels are numbered in topological order */
  for (int k = p->nkernel - 1; k >= 0; k--)
    for (int i = 0; i < n; i++) {
      if (step[i].kernel != k)
        continue;
      int64_t most = 0;
      for (int j = 0; j < n; j++)
        if (t->need[(size_t)i * (size_t)n + (size_t)j] && t->moves[j] + t->rank[j] > most)
          most = t->moves[j] + t->rank[j];
      t->rank[i] = t->exec[i] + most;
    }
  return NMB_OK;
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

nmb_status
nmb_schedule_list(nmb_run *run, const nmb_prog *p, nmb_step *step, int n, double *seconds)
{
  tasks t;
  NMB_TRY(tasks_make(run, p, step, n, &t));
  int64_t *free_at = NMB_NEW(run, int64_t, p->hw->nengine + 1), end = 0;
  bool *done = NMB_NEW(run, bool, n + 1);
  for (int k = 0; k < n; k++) {
    /* the step that can start first; of those that can, the highest rank */
    int best = -1;
    int64_t best_at = 0;
    for (int i = 0; i < n; i++) {
      if (done[i] || t.left[i])
        continue;
      const int64_t engine = free_at[p->kernel[step[i].kernel].engine];
      const int64_t at =
          t.ready[i] + t.moves[i] > engine ? t.ready[i] + t.moves[i] : engine;
      if (best < 0 || at < best_at || (at == best_at && goes_first(&t, i, best))) {
        best = i;
        best_at = at;
      }
    }
    if (best < 0)
      nmb__panic("steps of block %d wait for each other",
                 (int)p->kernel[step[0].kernel].block);
    done[best] = true;
    step[best].start_ps = best_at;
    step[best].duration_ps = t.exec[best];
    const int64_t finish = best_at + t.exec[best];
    free_at[p->kernel[step[best].kernel].engine] = finish;
    end = finish > end ? finish : end;
    for (int j = 0; j < n; j++)
      if (t.need[(size_t)best * (size_t)n + (size_t)j]) {
        t.left[j]--;
        t.ready[j] = finish > t.ready[j] ? finish : t.ready[j];
      }
  }
  qsort(step, (size_t)n, sizeof *step, by_start);
  *seconds = (double)end * 1e-12;
  return NMB_OK;
}
