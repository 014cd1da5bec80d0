/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Running one job, and the process around it. */
#include "config.h"

#include "harness/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/plugin.h"
#include "base/run.h"
#include "frontend/counts.h"
#include "harness/metrics.h"
#include "harness/write.h"
#include "ir/values.h"

#define MAXTEXT ((size_t)64 << 10) /* of messages that are kept */

double
nmb__now(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ------------------------------------------------------------------ the job */
typedef struct entries {
  int ticks;    /* descriptor that gets a dot after each pass; -1: none */
  nmb_run *run; /* its own: a pass's scratch memory goes when the pass ends */
  int n, cap;
  nmb__entry *v;
} entries;

static void
add(entries *es, nmb__entry e)
{
  if (es->n == es->cap) {
    es->cap = es->cap ? 2 * es->cap : 128;
    es->v = nmb__xrealloc(es->v, (size_t)es->cap, sizeof *es->v);
  }
  e.name = nmb_strdup(es->run, e.name);
  e.a = e.a ? nmb_strdup(es->run, e.a) : NULL;
  e.b = e.b ? nmb_strdup(es->run, e.b) : NULL;
  es->v[es->n++] = e;
}

static void
add_host(entries *es, const char *name, double value)
{
  add(es, (nmb__entry){'h', name, NULL, NULL, value});
}

static void
pass_done(void *arg, const nmb__pass_report *r)
{
  entries *es = arg;
  const char *name = r->stage->plugin->name;
  if (es->ticks >= 0)
    nmb__write_all(es->ticks, ".", 1);
  add(es, (nmb__entry){'t', name, NULL, NULL, r->seconds});
  for (int i = 0; i < r->nstat; i++)
    add(es, (nmb__entry){'s', name, r->stat[i].name, NULL, r->stat[i].value});
  if (r->spent)
    add(es, (nmb__entry){'s', name, "evaluations", NULL, (double)r->spent});
}

static double
metric(const entries *es, const char *name)
{
  for (int i = 0; i < es->n; i++)
    if (es->v[i].kind == 'm' && !es->v[i].a && !strcmp(es->v[i].name, name))
      return es->v[i].value;
  return NAN;
}

static void
lower(entries *es, const char *name, double value)
{
  for (int i = 0; i < es->n; i++)
    if (es->v[i].kind == 'm' && !es->v[i].a && !strcmp(es->v[i].name, name))
      es->v[i].value = value;
}

/* No simulator may be faster than the bound. Both are sums of the same durations, but in
 * another order: where they differ by rounding alone, the bound is the latency. */
static nmb_status
check_bound(nmb_run *run, entries *es)
{
  const double bound = metric(es, "bound"), latency = metric(es, "latency");
  if (isnan(bound) || isnan(latency))
    return NMB_OK;
  if (latency < bound * (1 - 1e-9))
    return nmb_fail(run, NMB_UNVERIFIED, NMB_NOLOC,
                    "latency %.9g s is below the bound of %.9g s", latency, bound);
  if (latency < bound)
    lower(es, "bound", latency);
  add(es, (nmb__entry){'m', NMB__GAP, NULL, NULL, fmax(latency / bound - 1, 0)});
  return NMB_OK;
}

static bool
close_to(double a, double b)
{
  return fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b));
}

/* Every engine is busy or waits all the time; energy is the sum of its parts.  What
 * is unknown cannot be checked. */
static nmb_status
check_sums(nmb_run *run, const entries *es)
{
  const double latency = metric(es, "latency"), energy = metric(es, "energy");
  double joule = 0;
  for (int i = 0; i < es->n; i++) {
    const nmb__entry *e = &es->v[i];
    if (e->kind == 'm' && e->a && !strcmp(e->name, "energy"))
      joule += e->value;
    if (e->kind != 'm' || !e->a || strcmp(e->name, "time"))
      continue;
    double sum = 0;
    for (int k = 0; k < es->n; k++)
      if (es->v[k].kind == 'm' && es->v[k].a && !strcmp(es->v[k].name, "time") &&
          !strcmp(es->v[k].a, e->a))
        sum += es->v[k].value;
    if (!close_to(sum, latency))
      return nmb_fail(run, NMB_UNVERIFIED, NMB_NOLOC,
                      "engine %s accounts for %.9g s of a latency of %.9g s", e->a, sum,
                      latency);
  }
  if (!isnan(joule) && !isnan(energy) && joule > 0 && !close_to(joule, energy))
    return nmb_fail(run, NMB_UNVERIFIED, NMB_NOLOC,
                    "parts of the energy add up to %.9g, not %.9g J/token", joule,
                    energy);
  return NMB_OK;
}

static nmb_status
simulate(nmb_run *run, const nmb__experiment *e, const nmb__cell *c, const nmb_prog *p,
         entries *es)
{
  for (int i = 0; i < e->nsim; i++) {
    const int from = nmb__run_metrics(run)->n;
    NMB_TRY(nmb__simulate(run, p, c->sim[i]));
    const nmb__values *vs = nmb__run_metrics(run);
    for (int k = from; k < vs->n; k++) {
      const nmb__value *v = &vs->v[k];
      add(es, (nmb__entry){'m', nmb__metric_column(run, e, i, v->name), v->a, v->b,
                           v->value});
    }
  }
  NMB_TRY(check_sums(run, es));
  return check_bound(run, es);
}

/* Other steps of the cell, for what executes them; a run of its own each, as the one at
 * hand belongs to a simulator. */
typedef struct others {
  const nmb__task *task;
  nmb_run *run;
  const nmb__arch *arch; /* layers with routers have blocks of their own */
} others;

static nmb_status
other_graph(nmb_run *run, void *self, nmb_step_spec spec, bool all, nmb_prog **out)
{
  const others *o = self;
  const nmb__cell *c = &o->task->plan->cell[o->task->plan->job[o->task->job].cell];
  const nmb__routing_spec routing = {"uniform", 0, (uint64_t)c->workload->seed};
  NMB_TRY(nmb__graph_build(run, o->arch, spec, &routing, out));
  if (all && spec.fresh > 1)
    nmb__prog_all_positions(*out);
  nmb_prog_set_hw(*out, o->task->plan->e->machine[c->machine].hw);
  return NMB_OK;
}

static nmb_status
other_compile(nmb_run *run, void *self, nmb_prog *p)
{
  const others *o = self;
  const nmb__job *job = &o->task->plan->job[o->task->job];
  nmb_run *own = nmb__run_open(NULL);
  nmb__run_seed(own, nmb__run_seed_get(run));
  nmb_status st = nmb__pipeline_run(own, p, job->pipeline, NULL);
  if (st != NMB_OK)
    st = nmb_fail(run, st, NMB_NOLOC, "a prefill step: %s", nmb_error_text(own));
  nmb__run_close(own);
  return st;
}

static nmb_status
simulate_model(nmb_run *run, const nmb__task *t, const nmb__cell *c, const nmb_prog *p,
               entries *es)
{
  const nmb__experiment *e = t->plan->e;
  const nmb__model_use *m = &e->model[c->model];
  if (!m->weights)
    return simulate(run, e, c, p, es);
  others o = {t, run, m->routed ? nmb__arch_apart(run, m->arch) : m->arch};
  const nmb__subject s = {&o,     nmb__wmodel_weights(m->weights), m->ids, m->nid, m->bos,
                          other_graph, other_compile};
  nmb__run_subject_set(run, &s);
  const nmb_status st = simulate(run, e, c, p, es);
  nmb__run_subject_set(run, NULL);
  return st;
}

static nmb_status
compute(nmb_run *run, const nmb__task *t, nmb_prog *p, entries *es)
{
  const nmb__plan *plan = t->plan;
  const nmb__experiment *e = plan->e;
  const nmb__job *job = &plan->job[t->job];
  const nmb__cell *c = &plan->cell[job->cell];
  const nmb__pipeline_hooks hooks = {.done = pass_done, .arg = es};
  nmb__run_seed(run, (uint64_t)c->workload->seed);
  nmb__run_memo_set(run, t->memo, e->machine[c->machine].hash);
  nmb_prog_set_hw(p, e->machine[c->machine].hw);
  const double start = nmb__now();
  nmb_status st = nmb__pipeline_run(run, p, job->pipeline, &hooks);
  const double compiled = nmb__now();
  add_host(es, "compile_time", compiled - start);
  if (st == NMB_OK)
    st = nmb__conserve(run, e->model[c->model].arch, p);
  if (st != NMB_OK)
    return st;
  st = simulate_model(run, t, c, p, es);
  add_host(es, "simulate_time", nmb__now() - compiled);
  return st == NMB_OK ? nmb__conserve(run, e->model[c->model].arch, p) : st;
}

void
nmb__task_run(nmb_run *run, const nmb__task *t, nmb_prog *p, int ticks, nmb__result *out)
{
  entries es = {.ticks = ticks, .run = nmb__run_open(NULL)};
  nmb_status st = t->graph_status;
  const char *reason = t->graph_error;
  if (p) {
    st = compute(run, t, p, &es);
    reason = st == NMB_OK ? "" : nmb_error_text(run);
  }
  struct rusage use;
  getrusage(RUSAGE_SELF, &use);
  add_host(&es, "host_peak_bytes", 1024.0 * (double)use.ru_maxrss);
  /* the values of a cell that failed a check are not results */
  int n = 0;
  nmb__entry *keep = NMB_NEW(run, nmb__entry, es.n);
  for (int i = 0; i < es.n; i++)
    if (st == NMB_OK || es.v[i].kind != 'm')
      keep[n++] = es.v[i];
  for (int i = 0; i < n; i++) {
    keep[i].name = nmb_strdup(run, keep[i].name);
    keep[i].a = keep[i].a ? nmb_strdup(run, keep[i].a) : NULL;
    keep[i].b = keep[i].b ? nmb_strdup(run, keep[i].b) : NULL;
  }
  *out = (nmb__result){.key = t->plan->job[t->job].key,
                       .status = st,
                       .reason = reason,
                       .log = "",
                       .n = n,
                       .entry = keep};
  nmb__run_close(es.run);
  free(es.v);
}

/* -------------------------------------------------------------- the process */
/* Bytes of address space in use now: what the parent had, which is not the job's. */
static rlim_t
space_now(void)
{
  unsigned long pages = 0;
  FILE *f = fopen("/proc/self/statm", "r");
  if (!f || fscanf(f, "%lu", &pages) != 1)
    pages = 0;
  if (f)
    fclose(f);
  return (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

#ifdef __SANITIZE_ADDRESS__
enum { LIMIT_SPACE = 0 }; /* the sanitizer reserves terabytes of addresses */
#else
enum { LIMIT_SPACE = 1 };
#endif

static void
set_limits(const nmb__limits *l)
{
  const rlim_t s = (rlim_t)ceil(l->seconds) + 1;
  setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
  setrlimit(RLIMIT_CPU, &(struct rlimit){s, s + 1});
  const rlim_t b = space_now() + (rlim_t)l->bytes;
  if (LIMIT_SPACE)
    setrlimit(RLIMIT_AS, &(struct rlimit){b, b});
}

static void
reset_signals(void)
{
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  signal(SIGABRT, SIG_DFL);
  signal(SIGBUS, SIG_DFL);
  signal(SIGPIPE, SIG_DFL);
  signal(SIGINT, SIG_IGN); /* the parent decides */
}

static _Noreturn void
child(const nmb__task *t, const nmb__limits *l, int out, int err, pid_t parent)
{
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent)
    _exit(1);
  reset_signals();
  dup2(err, STDERR_FILENO);
  const int null = open("/dev/null", O_RDWR);
  dup2(null, STDIN_FILENO);
  dup2(err, STDOUT_FILENO); /* a plugin that prints does not spoil our output */
  setvbuf(stdout, NULL, _IONBF, 0);
  set_limits(l);
  const double start = nmb__now();
  nmb_run *run = nmb__run_open(stderr);
  nmb__result r;
  /* our copy of the parent's memory: the graph may be changed in place */
  nmb__task_run(run, t, (nmb_prog *)(uintptr_t)t->graph, out, &r);
  nmb__entry *all = NMB_NEW(run, nmb__entry, r.n + 1);
  if (r.n)
    memcpy(all, r.entry, (size_t)r.n * sizeof *all);
  all[r.n++] = (nmb__entry){'h', "wall_time", NULL, NULL, nmb__now() - start};
  r.entry = all;
  const char *text = nmb__result_text(run, &r);
  nmb__write_all(out, text, strlen(text));
  nmb__write_all(out, "\n", 1);
  _exit(0);
}

nmb_status
nmb__worker_start(nmb_run *run, nmb__worker *w, const nmb__task *t, const nmb__limits *l,
                  const int *keep, int nkeep)
{
  int out[2], err[2];
  if (pipe2(out, O_CLOEXEC) != 0)
    return nmb_fail(run, NMB_IO, NMB_NOLOC, "cannot make a pipe: %s", strerror(errno));
  if (pipe2(err, O_CLOEXEC) != 0) {
    close(out[0]);
    close(out[1]);
    return nmb_fail(run, NMB_IO, NMB_NOLOC, "cannot make a pipe: %s", strerror(errno));
  }
  const pid_t parent = getpid();
  fflush(NULL);
  const pid_t pid = fork();
  if (pid == 0) {
    for (int i = 0; i < nkeep; i++)
      close(keep[i]);
    close(out[0]);
    close(err[0]);
    child(t, l, out[1], err[1], parent);
  }
  const int why = errno;
  close(out[1]);
  close(err[1]);
  if (pid < 0) {
    close(out[0]);
    close(err[0]);
    return nmb_fail(run, NMB_IO, NMB_NOLOC, "cannot start a worker: %s", strerror(why));
  }
  fcntl(out[0], F_SETFL, O_NONBLOCK);
  fcntl(err[0], F_SETFL, O_NONBLOCK);
  w->pid = pid;
  w->job = t->job;
  w->out = out[0];
  w->err = err[0];
  w->started = nmb__now();
  w->killed = false;
  w->nout = w->nerr = 0;
  return NMB_OK;
}

/* Reads until the pipe is empty or at its end, which closes it.  Beyond `most`
 * bytes the rest is read and dropped. */
static void
drain(int *fd, char **buf, size_t *n, size_t *cap, size_t most)
{
  while (*fd >= 0) {
    if (*cap - *n < 4096)
      *buf = nmb__xrealloc(*buf, *cap = *cap ? 2 * *cap : 65536, 1);
    const ssize_t k = read(*fd, *buf + *n, *cap - *n - 1);
    if (k < 0 && errno == EINTR)
      continue;
    if (k < 0 && errno == EAGAIN)
      return;
    if (k <= 0) {
      close(*fd);
      *fd = -1;
      return;
    }
    *n += (size_t)k;
    if (*n > most)
      *n = most;
  }
}

bool
nmb__worker_drain(nmb__worker *w)
{
  drain(&w->out, &w->outbuf, &w->nout, &w->cout, (size_t)64 << 20);
  drain(&w->err, &w->errbuf, &w->nerr, &w->cerr, MAXTEXT);
  return w->out < 0 && w->err < 0;
}

void
nmb__worker_kill(nmb__worker *w)
{
  if (w->pid > 0)
    kill(w->pid, SIGKILL);
}

/* " in pass 'x'": the job has written a dot after each pass that ended. */
static const char *
where(nmb_run *run, const nmb__pipeline *p, size_t dots)
{
  if (dots >= (size_t)p->n)
    return " in a simulator";
  return nmb_format(run, " in pass '%s'", p->stage[dots].plugin->name);
}

/* ": " and the last line of the messages, if they have one. */
static const char *
last_line(nmb_run *run, const char *log)
{
  size_t n = strlen(log);
  while (n && log[n - 1] == '\n')
    n--;
  size_t from = n;
  while (from && log[from - 1] != '\n')
    from--;
  return n ? nmb_format(run, ": %.*s", (int)(n - from), log + from) : "";
}

/* How a process that gave no result ended. */
static nmb_status
cause_of_death(nmb_run *run, const nmb__worker *w, int ws, const nmb__limits *l,
               const char *log, const char **reason)
{
  const int sig = WIFSIGNALED(ws) ? WTERMSIG(ws) : 0;
  if (w->killed || sig == SIGXCPU) {
    *reason = nmb_format(run, "stopped after %g s", l->seconds);
    return NMB_TIMEOUT;
  }
  if (strstr(log, "out of memory") || sig == SIGKILL) {
    *reason = sig == SIGKILL ? "killed, most likely for want of memory on this host"
                             : nmb_format(run, "needs more than %.4g MiB",
                                          (double)l->bytes / (1 << 20));
    return NMB_OOM;
  }
  *reason = sig ? nmb_format(run, "died of signal %d (%s)", sig, strsignal(sig))
                : nmb_format(run, "ended with exit code %d", WEXITSTATUS(ws));
  return NMB_CRASH;
}

void
nmb__worker_finish(nmb_run *run, nmb__worker *w, const nmb__plan *plan,
                   const nmb__limits *l, nmb__result *out)
{
  int ws = 0;
  while (waitpid(w->pid, &ws, 0) < 0 && errno == EINTR)
    ;
  const char *log = w->nerr ? nmb_format(run, "%.*s", (int)w->nerr, w->errbuf) : "";
  size_t dots = 0;
  while (dots < w->nout && w->outbuf[dots] == '.')
    dots++;
  const bool whole = WIFEXITED(ws) && WEXITSTATUS(ws) == 0 && w->nout > dots + 1 &&
                     w->outbuf[w->nout - 1] == '\n' &&
                     nmb__result_parse(run, w->outbuf + dots, w->nout - dots - 1, out);
  if (!whole) {
    const nmb__job *job = &plan->job[w->job];
    const char *how = "";
    const nmb_status st = cause_of_death(run, w, ws, l, log, &how);
    *out = (nmb__result){.key = job->key, .status = st};
    out->reason = nmb_format(run, "%s%s%s", how, where(run, job->pipeline, dots),
                             st == NMB_CRASH ? last_line(run, log) : "");
  }
  out->log = log;
  w->pid = 0;
}
