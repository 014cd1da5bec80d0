/* SPDX-License-Identifier: GPL-3.0-or-later */
/* One op through pipeline and simulators, and what its engine was told to do. */
#include "harness/op_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/run.h"
#include "ir/pipeline.h"

/* By a threshold that no op, or every op, is below.  Each row of a matrix starts a page
 * of its own, as in the published mappings, however much that wastes. */
const char *
nmb__op_pipeline(nmb_run *run, const nmb__opspec *s, bool on_host, const char *mapping)
{
  return nmb_format(run,
                    "legalize,fuse-none,dispatch-rule{threshold=%s},map-interleave{waste="
                    "%s%s},sched-inorder,mem-bump,emit-queues",
                    on_host ? "0" : "1e30", s->matrix ? "65536" : "0.25", mapping);
}

/* ----------------------------------------------------------------- commands */
typedef struct watcher {
  nmb_run *run;
  nmb__opresult *r;
  int64_t start; /* cycles before the instruction at hand */
  int cap;
  bool stamps;
} watcher;

static void
count(nmb_run *run, nmb__opcounts *c, const nmb_command *cmd)
{
  for (int i = 0; i < c->n; i++)
    if (!strcmp(c->v[i].name, cmd->name)) {
      c->v[i].n += cmd->n;
      return;
    }
  if (c->n == c->cap) {
    nmb__opcount *old = c->v;
    c->cap = c->cap ? 2 * c->cap : 16;
    c->v = NMB_NEW(run, nmb__opcount, c->cap);
    if (c->n)
      memcpy(c->v, old, (size_t)c->n * sizeof *old);
  }
  c->v[c->n++] = (nmb__opcount){nmb_strdup(run, cmd->name), cmd->n, cmd->isr};
}

static void
on_command(void *arg, const nmb_command *cmd)
{
  watcher *w = arg;
  nmb__opresult *r = w->r;
  count(w->run, &r->counts, cmd);
  if (!w->stamps)
    return;
  if (r->nstamp == w->cap) {
    nmb_command *old = r->stamp;
    w->cap = w->cap ? 2 * w->cap : 64;
    r->stamp = NMB_NEW(w->run, nmb_command, w->cap);
    if (r->nstamp)
      memcpy(r->stamp, old, (size_t)r->nstamp * sizeof *old);
  }
  r->stamp[r->nstamp] = *cmd;
  r->stamp[r->nstamp].name = nmb_strdup(w->run, cmd->name);
  r->stamp[r->nstamp++].cycle += w->start;
}

nmb_watch
nmb__op_watch(nmb_run *run, nmb__opresult *r, bool stamps, int64_t **start)
{
  watcher *w = NMB_NEW(run, watcher, 1);
  *w = (watcher){.run = run, .r = r, .stamps = stamps};
  *start = &w->start;
  return (nmb_watch){on_command, w};
}

/* ---------------------------------------------------------------- the engine */
static double
param_or(const nmb_engine *e, const char *name, double dflt)
{
  for (int i = 0; i < e->nparam; i++)
    if (!strcmp(e->param[i].name, name))
      return e->param[i].value;
  return dflt;
}

static double
cycle_seconds(const nmb_engine *e)
{
  const double clock = param_or(e, "clock", 0), tck = param_or(e, "t-ck", 0);
  return tck > 0 ? tck : clock > 0 ? 1 / clock : 1e-9;
}

/* The engine that does most of the work: MACs if there are any. */
static nmb_id
main_engine(const nmb_prog *p, int *channels)
{
  double most = -1;
  nmb_id best = p->hw->host;
  *channels = 1;
  for (int i = 0; i < p->ninsn; i++) {
    const nmb_insn *in = &p->insn[i];
    if (in->kind != NMB_INSN_EXEC)
      continue;
    const double macs = (double)nmb_op_macs(p, in->op, &in->tile);
    if (macs > most) {
      most = macs;
      best = in->engine;
      *channels = in->place.nchannel > 0 ? in->place.nchannel : 1;
    }
  }
  return best;
}

/* Seconds that the op's MACs take if nothing else does: in memory all banks at a
 * burst each `ccd`; elsewhere arithmetic or resident bytes, whichever takes longer. */
static double
peak_seconds(const nmb_prog *p, nmb_id engine)
{
  const nmb_engine *e = &p->hw->engine[engine];
  const nmb_mem *m = &p->hw->mem[e->resident];
  double macs = 0, bytes = 0, rate;
  for (int i = 0; i < p->ninsn; i++)
    if (p->insn[i].kind == NMB_INSN_EXEC)
      macs += (double)nmb_op_macs(p, p->insn[i].op, &p->insn[i].tile);
  for (int i = 0; i < p->ntensor; i++)
    if (nmb_tensor_resident(&p->tensor[i]))
      bytes += (double)nmb_tensor_bytes(&p->tensor[i]);
  if (e->in_memory) {
    const double units = param_or(e, "units", 0);
    rate = m->channels * (units > 0 ? units : m->banks) * (double)m->burst_bytes / 2 /
           param_or(e, "ccd", 1) / cycle_seconds(e);
    return macs / rate;
  }
  const double cells = param_or(e, "cores", 0) * param_or(e, "macs16", 0) +
                       param_or(e, "rows", 0) * param_or(e, "cols", 0) *
                           param_or(e, "arrays", 0);
  rate = cells / cycle_seconds(e) * e->devices;
  return fmax(rate > 0 ? macs / rate : 0, bytes / m->bytes_per_s);
}

/* -------------------------------------------------------------------- metrics */
static double
metric(const nmb_run *run, const char *name)
{
  const nmb__values *v = nmb__run_metrics(run);
  for (int i = v->n - 1; i >= 0; i--) /* of the simulator that ran last */
    if (!v->v[i].a && !strcmp(v->v[i].name, name))
      return v->v[i].value;
  return NAN;
}

/* Latency by cause over all engines, and energy by part, of the last simulator. */
static void
take_parts(nmb_run *run, double tokens, int from, nmb__opresult *r)
{
  const nmb__values *v = nmb__run_metrics(run);
  r->time = NMB_NEW(run, nmb__oppart, v->n + 1);
  r->energy = NMB_NEW(run, nmb__oppart, v->n + 1);
  double most = 0;
  r->limit = "nothing";
  for (int i = from; i < v->n; i++) {
    const nmb__value *x = &v->v[i];
    if (x->a && !x->b && !strcmp(x->name, "energy"))
      r->energy[r->nenergy++] =
          (nmb__oppart){nmb_strdup(run, x->a), x->value * tokens};
    if (!x->a || !x->b || strcmp(x->name, "latency"))
      continue;
    int k = 0;
    while (k < r->ntime && strcmp(r->time[k].name, x->b))
      k++;
    if (k == r->ntime)
      r->time[r->ntime++] = (nmb__oppart){nmb_strdup(run, x->b), 0};
    r->time[k].value += x->value;
  }
  for (int k = 0; k < r->ntime; k++)
    if (r->time[k].value > most) {
      most = r->time[k].value;
      r->limit = r->time[k].name;
    }
}

static nmb_status
compile(nmb_run *run, const nmb_hw *hw, const nmb__opspec *s, int row,
        const char *pipeline, nmb_prog **out)
{
  nmb__pipeline p;
  NMB_TRY(nmb__pipeline_parse(run, NMB_NOLOC, pipeline, &p));
  *out = nmb__opspec_build(run, s, row);
  nmb_prog_set_hw(*out, hw);
  nmb_status st = nmb_prog_verify(run, *out, NMB_BIT(NMB_GRAPH));
  return st == NMB_OK ? nmb__pipeline_run(run, *out, &p, NULL) : st;
}

/* Engines that do several things at a time tell of one after the other. */
static int
by_cycle(const void *a, const void *b)
{
  const nmb_command *x = a, *y = b;
  if (x->cycle != y->cycle)
    return x->cycle < y->cycle ? -1 : 1;
  return strcmp(x->name, y->name);
}

static bool
in_order(const nmb__opresult *r)
{
  for (int i = 1; i < r->nstamp; i++)
    if (r->stamp[i].cycle < r->stamp[i - 1].cycle)
      return false;
  return true;
}

/* Asks the engine for its commands, instruction after instruction. */
static nmb_status
watch(nmb_run *run, const nmb_prog *p, nmb_id engine, bool stamps, nmb__opresult *r)
{
  int64_t *start;
  const nmb_watch to = nmb__op_watch(run, r, stamps, &start);
  for (int i = 0; i < p->ninsn; i++) {
    nmb_cost c;
    if (p->insn[i].engine != engine)
      continue;
    NMB_TRY(nmb_insn_cost_at(run, p, &p->insn[i], NMB_CYCLE, &to, &c));
    *start +=
        (int64_t)llround(nmb_cost_seconds(&c) / cycle_seconds(&p->hw->engine[engine]));
  }
  if (!in_order(r))
    qsort(r->stamp, (size_t)r->nstamp, sizeof *r->stamp, by_cycle);
  return NMB_OK;
}

/* The latency under a simulator's settings; kernel: moving values takes no time. */
static nmb_status
latency(nmb_run *run, const nmb_prog *p, const char *fidelity, bool kernel, double *s)
{
  NMB_TRY(nmb__simulate(run, p,
                        nmb_format(run, "event{fidelity=%s,transfers=%s}", fidelity,
                                   kernel ? "false" : "true")));
  *s = metric(run, "latency");
  return NMB_OK;
}

/* What links carry, each transfer once. */
static double
link_bytes(const nmb_prog *p)
{
  double sum = 0;
  for (int i = 0; i < p->ninsn; i++) {
    double most = 0;
    if (!nmb_engine_is_link(&p->hw->engine[p->insn[i].engine]))
      continue;
    for (int k = 0; k < p->insn[i].nopnd; k++)
      most = fmax(most, nmb_operand_bytes(&p->insn[i].opnd[k]));
    sum += most;
  }
  return sum;
}

/* Of the kernel alone, and what the transfers around it add. */
static nmb_status
time_all(nmb_run *run, const nmb_prog *p, const nmb__opsetup *setup, nmb__opresult *r)
{
  const nmb_id engine = main_engine(p, &r->channels);
  const nmb_engine *e = &p->hw->engine[engine];
  const double tokens = (double)p->spec.batch * (double)p->spec.fresh;
  const double tck = cycle_seconds(e);
  double closed, all;
  r->engine = e->name;
  r->fidelity = e->impl->steps ? setup->fidelity : "analytic";
  NMB_TRY(latency(run, p, "analytic", true, &closed));
  NMB_TRY(latency(run, p, setup->fidelity, false, &all));
  r->transfer_j = metric(run, "energy") * tokens;
  const int from = nmb__run_metrics(run)->n;
  NMB_TRY(latency(run, p, setup->fidelity, true, &r->seconds));
  r->joule = metric(run, "energy") * tokens;
  r->transfer_j -= r->joule;
  r->transfer_s = all - r->seconds;
  r->transfer_bytes = link_bytes(p);
  take_parts(run, tokens, from, r);
  NMB_TRY(nmb__simulate(
      run, p,
      nmb_format(run, "bound{fidelity=%s,transfers=false}", setup->fidelity)));
  r->bound = metric(run, "bound");
  r->cycles = r->seconds / tck;
  r->cycles_analytic = closed / tck;
  r->error = r->cycles_analytic / r->cycles - 1;
  r->share = peak_seconds(p, engine) / r->seconds;
  return watch(run, p, engine, setup->stamps, r);
}

static nmb_status
host_time(nmb_run *run, const nmb_hw *hw, const nmb__opspec *s, int row,
          const char *pipeline, double *seconds)
{
  nmb_prog *p = NULL;
  nmb_status st = compile(run, hw, s, row, pipeline, &p);
  if (st == NMB_OK)
    st = nmb__simulate(run, p, "event");
  if (st == NMB_OK)
    *seconds = metric(run, "latency");
  nmb_prog_free(p);
  return st;
}

nmb_status
nmb__op_run(nmb_run *run, const nmb_hw *hw, const nmb__opspec *s, int row,
            const nmb__opsetup *setup, nmb__opresult *out)
{
  nmb_prog *p = NULL;
  *out = (nmb__opresult){0};
  nmb__run_clear(run);
  nmb_status st = compile(run, hw, s, row, setup->pipeline, &p);
  if (st == NMB_OK)
    st = time_all(run, p, setup, out);
  nmb_prog_free(p);
  if (st == NMB_OK && setup->compare)
    st = host_time(run, hw, s, row, setup->host, &out->host_seconds);
  return st;
}
