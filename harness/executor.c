/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The loop over jobs: start workers, take their results, write the journal.
 *
 * Jobs stand in the order of their cells, so that those with one graph come one
 * after the other: the graph is built once here and each child has it as its copy
 * of this process's memory.  One interrupt lets running jobs end, a second stops
 * them; both leave a journal that the next run takes up. */
#include "config.h"

#include "harness/executor.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/memo.h"
#include "base/run.h"

typedef struct exec {
  nmb_run *run;
  const nmb__plan *plan;
  nmb__journal *journal;
  const nmb__exec_options *o;
  nmb__exec *out;
  nmb__worker *worker; /* [o->workers] */
  int nbusy, next, ndone, nfailed;
  int signals; /* descriptor */
  bool drain;  /* start no more jobs */
  bool stop;   /* and give up the running ones: they run again next time */
  bool unsynced;
  double synced;
  nmb_run *graph_run; /* holds what the graph was built with */
  nmb_prog *graph;
  const nmb__cell *graph_cell; /* that `graph` belongs to */
  nmb_status graph_status;
  nmb__memo *memo; /* costs that all cells share; NULL: none */
} exec;

enum { MEMO_SLOTS = 1 << 16 }; /* 20 MB at most: pages nobody wrote cost nothing */

bool
nmb__status_failed(nmb_status s)
{
  return s != NMB_OK && s != NMB_INFEASIBLE && s != NMB_UNSUPPORTED &&
         s != NMB_NOSOLUTION;
}

static bool
died(nmb_status s)
{
  return s == NMB_CRASH || s == NMB_OOM || s == NMB_TIMEOUT || s == NMB_IO;
}

/* ------------------------------------------------------------ earlier results */
static int
by_key(const void *a, const void *b)
{
  const nmb__job *const *x = a, *const *y = b;
  return strcmp((*x)->key, (*y)->key);
}

void
nmb__exec_init(nmb_run *run, const nmb__plan *plan, const nmb__journal_data *d,
               nmb__exec *out)
{
  *out = (nmb__exec){.done = NMB_NEW(run, bool, plan->njob + 1),
                     .status = NMB_NEW(run, nmb_status, plan->njob + 1)};
  const nmb__result **r = nmb__results_match(run, plan, d);
  for (int i = 0; i < plan->njob; i++)
    if (r[i]) {
      out->done[i] = true;
      out->status[i] = r[i]->status;
    }
}

const nmb__result **
nmb__results_match(nmb_run *run, const nmb__plan *plan, const nmb__journal_data *d)
{
  const nmb__result **r = NMB_NEW(run, const nmb__result *, plan->njob + 1);
  const nmb__job **job = NMB_NEW(run, const nmb__job *, plan->njob + 1);
  for (int i = 0; i < plan->njob; i++)
    job[i] = &plan->job[i];
  qsort(job, (size_t)plan->njob, sizeof *job, by_key);
  for (int i = 0; i < d->n; i++) {
    nmb__job want;
    snprintf(want.key, sizeof want.key, "%s", d->result[i].key);
    const nmb__job *key = &want;
    const nmb__job **at = bsearch(&key, job, (size_t)plan->njob, sizeof *job, by_key);
    if (at)
      r[*at - plan->job] = &d->result[i]; /* the last line counts */
  }
  return r;
}

/* -------------------------------------------------------------------- graphs */
static void
build_graph(exec *x, const nmb__cell *c)
{
  if (x->graph_cell && nmb__same_graph(x->plan, x->graph_cell, c))
    return;
  nmb_prog_free(x->graph);
  nmb__run_close(x->graph_run);
  x->graph = NULL;
  x->graph_run = nmb__run_open(NULL);
  x->graph_cell = c;
  const nmb__workload *w = c->workload;
  const bool prefill = w->phase == NMB_PREFILL;
  const nmb_step_spec spec = {w->phase, w->batch, prefill ? w->context : 1,
                              prefill ? 0 : w->context};
  const nmb__routing_spec routing = {w->kind, w->skew, (uint64_t)w->seed};
  x->graph_status = nmb__graph_build(x->graph_run, x->plan->e->model[c->model].arch, spec,
                                     &routing, &x->graph);
  if (x->graph_status != NMB_OK)
    x->graph = NULL;
}

/* ------------------------------------------------------------------- results */
/* Only the journal keeps the line: forks are cheap while this process is small. */
static nmb_status
take_result(exec *x, int job, const nmb__result *r)
{
  NMB_TRY(nmb__journal_append(x->journal, nmb__result_text(x->run, r)));
  x->out->done[job] = true;
  x->out->status[job] = r->status;
  x->out->nrun++;
  x->ndone++;
  x->nfailed += nmb__status_failed(r->status);
  x->unsynced = true;
  return NMB_OK;
}

static nmb_status
sync_now(exec *x, bool force)
{
  const double now = nmb__now();
  if (!x->unsynced || (!force && now - x->synced < 0.5))
    return NMB_OK;
  x->unsynced = false;
  x->synced = now;
  return nmb__journal_sync(x->journal);
}

/* ------------------------------------------------------------------- workers */
static nmb_status
start_job(exec *x, nmb__worker *w, int job)
{
  build_graph(x, &x->plan->cell[x->plan->job[job].cell]);
  const nmb__task t = {x->plan, job, x->graph, x->graph_status,
                       nmb_error_text(x->graph_run), x->memo};
  if (!x->graph) {
    nmb__result r;
    nmb__task_run(x->run, &t, NULL, -1, &r);
    return take_result(x, job, &r);
  }
  int keep[2 + 2 * NMB__MAXWORKER], n = 0;
  keep[n++] = nmb__journal_fd(x->journal);
  keep[n++] = x->signals;
  for (int i = 0; i < x->o->workers; i++)
    if (x->worker[i].pid) {
      keep[n++] = x->worker[i].out;
      keep[n++] = x->worker[i].err;
    }
  NMB_TRY(nmb__worker_start(x->run, w, &t, &x->o->limits, keep, n));
  x->nbusy++;
  return NMB_OK;
}

static int
next_job(exec *x)
{
  while (x->next < x->plan->njob) {
    const int i = x->next++;
    if (x->plan->job[i].wanted && !x->out->done[i])
      return i;
  }
  return NMB_NONE;
}

static nmb_status
fill_workers(exec *x)
{
  for (int i = 0; i < x->o->workers && !x->drain; i++)
    while (!x->worker[i].pid && !x->drain) {
      const int job = next_job(x);
      if (job == NMB_NONE)
        return NMB_OK;
      NMB_TRY(start_job(x, &x->worker[i], job));
    }
  return NMB_OK;
}

static nmb_status
reap(exec *x, nmb__worker *w)
{
  const int job = w->job;
  if (!w->killed && nmb__now() - w->started > x->o->limits.seconds) {
    w->killed = true;
    nmb__worker_kill(w);
  }
  if (!nmb__worker_drain(w))
    return NMB_OK;
  nmb__result r;
  const size_t mark = nmb__run_mark(x->run);
  x->nbusy--;
  nmb__worker_finish(x->run, w, x->plan, &x->o->limits, &r);
  const nmb_status st = take_result(x, job, &r);
  nmb__run_release(x->run, mark);
  return st;
}

static void
take_signals(exec *x)
{
  struct signalfd_siginfo s;
  while (read(x->signals, &s, sizeof s) == (ssize_t)sizeof s) {
    x->stop |= x->drain || s.ssi_signo == SIGTERM;
    x->out->signal = (int)s.ssi_signo;
    x->drain = true;
    if (!x->stop)
      fprintf(stderr,
              "\nnmbench: waiting for %d running cells; interrupt again to stop them\n",
              x->nbusy);
  }
}

/* Milliseconds until the next worker's time is up, at most 500. */
static int
patience(const exec *x)
{
  double most = 0.5;
  for (int i = 0; i < x->o->workers; i++)
    if (x->worker[i].pid && !x->worker[i].killed) {
      const double left = x->worker[i].started + x->o->limits.seconds - nmb__now();
      most = left < most ? left : most;
    }
  return most < 0 ? 0 : (int)(most * 1e3) + 1;
}

static void
wait_for_workers(exec *x)
{
  struct pollfd fd[1 + 2 * NMB__MAXWORKER];
  int n = 0;
  fd[n++] = (struct pollfd){x->signals, POLLIN, 0};
  for (int i = 0; i < x->o->workers; i++)
    if (x->worker[i].pid) {
      if (x->worker[i].out >= 0)
        fd[n++] = (struct pollfd){x->worker[i].out, POLLIN, 0};
      if (x->worker[i].err >= 0)
        fd[n++] = (struct pollfd){x->worker[i].err, POLLIN, 0};
    }
  poll(fd, (nfds_t)n, patience(x));
  if (fd[0].revents)
    take_signals(x);
}

static nmb_status
loop(exec *x, nmb__progress *p)
{
  for (;;) {
    NMB_TRY(fill_workers(x));
    if (x->nbusy == 0)
      return NMB_OK;
    wait_for_workers(x);
    if (x->stop)
      return NMB_OK;
    for (int i = 0; i < x->o->workers; i++)
      if (x->worker[i].pid)
        NMB_TRY(reap(x, &x->worker[i]));
    NMB_TRY(sync_now(x, false));
    nmb__progress_update(p, x->ndone, x->nfailed);
  }
}

static void
stop_workers(exec *x)
{
  nmb__result r;
  for (int i = 0; i < x->o->workers; i++) {
    nmb__worker *w = &x->worker[i];
    nmb__worker_kill(w);
    while (w->pid && !nmb__worker_drain(w))
      poll(NULL, 0, 1);
    if (w->pid)
      nmb__worker_finish(x->run, w, x->plan, &x->o->limits, &r);
    free(w->outbuf);
    free(w->errbuf);
  }
}

static int
count_wanted(exec *x)
{
  int wanted = 0;
  for (int i = 0; i < x->plan->njob; i++) {
    if (!x->plan->job[i].wanted)
      continue;
    if (x->out->done[i] && x->o->retry && died(x->out->status[i]))
      x->out->done[i] = false;
    wanted++;
    x->ndone += x->out->done[i];
  }
  return wanted;
}

nmb_status
nmb__execute(nmb_run *run, const nmb__plan *plan, nmb__journal *journal,
             const nmb__exec_options *o, nmb__exec *out)
{
  exec x = {.run = run, .plan = plan, .journal = journal, .o = o, .out = out};
  nmb__progress p;
  const int wanted = count_wanted(&x);
  out->nbefore = x.ndone;
  sigset_t set, before;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  sigprocmask(SIG_BLOCK, &set, &before);
  x.signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
  x.worker = NMB_NEW(run, nmb__worker, o->workers);
  x.synced = nmb__now();
  nmb__progress_begin(&p, o->progress, wanted, x.ndone);
  x.memo = o->apart ? NULL : nmb__memo_new(MEMO_SLOTS, sizeof(nmb_cost));
  nmb_status st = loop(&x, &p);
  stop_workers(&x);
  if (x.memo)
    nmb__memo_counts(x.memo, &out->memo_found, &out->memo_put);
  nmb__memo_free(x.memo);
  nmb__progress_end(&p);
  if (st == NMB_OK)
    st = sync_now(&x, true);
  close(x.signals);
  sigprocmask(SIG_SETMASK, &before, NULL);
  nmb_prog_free(x.graph);
  nmb__run_close(x.graph_run);
  return st;
}
