/* SPDX-License-Identifier: GPL-3.0-or-later */
/* From an experiment to cells, and from cells to jobs with keys. */
#include "config.h"

#include "harness/sweep.h"

#include <dlfcn.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/hash.h"
#include "base/path.h"
#include "base/plugin.h"
#include "base/run.h"
#include "harness/grow.h"
#include "harness/store.h"

/* Open addressing from text to a row number. */
typedef struct entry {
  const char *text;
  int row;
} entry;
typedef struct index_ {
  nmb_run *run;
  int n, cap;
  entry *v;
} index_;

static entry *
index_at(const index_ *ix, const char *text)
{
  size_t i = nmb__hash(text, strlen(text)) & (size_t)(ix->cap - 1);
  while (ix->v[i].text && strcmp(ix->v[i].text, text))
    i = (i + 1) & (size_t)(ix->cap - 1);
  return &ix->v[i];
}

/* The row of the text; `row` if it is new. */
static int
index_add(index_ *ix, const char *text, int row)
{
  if (2 * ix->n >= ix->cap) {
    const index_ old = *ix;
    ix->cap = old.cap ? 2 * old.cap : 256;
    ix->v = NMB_NEW(ix->run, entry, ix->cap);
    for (int i = 0; i < old.cap; i++)
      if (old.v[i].text)
        *index_at(ix, old.v[i].text) = old.v[i];
  }
  entry *e = index_at(ix, text);
  if (!e->text) {
    *e = (entry){nmb_strdup(ix->run, text), row};
    ix->n++;
  }
  return e->row;
}

/* Distinct pipeline texts, parsed once each. */
typedef struct parsed {
  nmb__pipeline p;
  const char *text;    /* canonical */
  const char *digests; /* of the plugins */
} parsed;

typedef struct maker {
  nmb_run *run;
  const nmb__experiment *e;
  const nmb__filters *filters;
  nmb__plan *plan;
  int ccell, cjob, cpipe, npipe;
  parsed *pipe;
  index_ cells, jobs, pipes;
  uint64_t library; /* digest of our own code */
} maker;

/* ------------------------------------------------------------------- labels */
const char *
nmb__cell_label(nmb_run *run, const nmb__plan *plan, const nmb__cell *c, const char *key)
{
  const nmb__experiment *e = plan->e;
  const nmb__variant *v = &e->variant[c->variant];
  const nmb__workload *w = c->workload;
  const struct {
    const char *key, *text;
  } text[] = {{"model", e->model[c->model].name},
              {"machine", e->machine[c->machine].name},
              {"pipeline", v->name},
              {"ablation", v->ablation},
              {"slot", v->slot},
              {"phase", w->phase == NMB_DECODE ? "decode" : "prefill"},
              {"routing", w->routing},
              {"sweep", c->sweeps}};
  for (size_t i = 0; i < sizeof text / sizeof *text; i++)
    if (!strcmp(key, text[i].key))
      return text[i].text;
  for (int i = 0; i < e->nparam; i++)
    if (!strcmp(key, e->param[i]))
      return c->param[i];
  if (!strcmp(key, "skew"))
    return nmb_format(run, "%g", w->skew);
  const int64_t whole = !strcmp(key, "batch")     ? w->batch
                        : !strcmp(key, "context") ? w->context
                                                  : w->seed;
  return nmb_format(run, "%lld", (long long)whole);
}

/* "mixtral*|qwen*" */
static bool
glob_matches(nmb_run *run, const char *globs, const char *text)
{
  for (const char *p = globs;;) {
    const size_t n = strcspn(p, "|");
    if (fnmatch(nmb_format(run, "%.*s", (int)n, p), text, 0) == 0)
      return true;
    if (!p[n])
      return false;
    p += n + 1;
  }
}

bool
nmb__filter_holds(nmb_run *run, const nmb__plan *plan, const nmb__cell *c,
                  const nmb__filter *f)
{
  for (int i = 0; i < f->n; i++)
    if (!glob_matches(run, f->glob[i], nmb__cell_label(run, plan, c, f->key[i])))
      return false;
  return true;
}

static bool
cell_skipped(const maker *m, const nmb__cell *c)
{
  for (int i = 0; i < m->e->nskip; i++)
    if (nmb__filter_holds(m->run, m->plan, c, &m->e->skip[i])) {
      m->plan->nskipped[i]++;
      return true;
    }
  return false;
}

static bool
cell_wanted(const maker *m, const nmb__cell *c)
{
  const nmb__filters *f = m->filters;
  bool take = !f || f->nonly == 0;
  for (int i = 0; f && !take && i < f->nonly; i++)
    take = nmb__filter_holds(m->run, m->plan, c, &f->only[i]);
  for (int i = 0; f && take && i < f->nexcept; i++)
    take = !nmb__filter_holds(m->run, m->plan, c, &f->except[i]);
  return take;
}

/* ---------------------------------------------------------------- pipelines */
/* Puts the cell's parameters in place of ${name} in a text of `owner`. */
static nmb_status
expand(maker *m, nmb_loc loc, const char *owner, const char *passes,
       const char *const *param, const char **out)
{
  const char *text = "", *p = passes;
  for (const char *at; (at = strstr(p, "${")); p = strchr(at, '}') + 1) {
    const char *end = strchr(at, '}');
    if (!end)
      return nmb_fail(m->run, NMB_BADINPUT, loc, "no '}' after '${' in %s", owner);
    const char *name = nmb_format(m->run, "%.*s", (int)(end - at - 2), at + 2);
    int i = 0;
    while (i < m->e->nparam && strcmp(m->e->param[i], name))
      i++;
    if (i == m->e->nparam || !*param[i])
      return nmb_fail(m->run, NMB_BADINPUT, loc, "%s uses the parameter '%s', which %s",
                      owner, name,
                      i == m->e->nparam ? "no 'params' declare"
                                        : "a sweep gives no values");
    text = nmb_format(m->run, "%s%.*s%s", text, (int)(at - p), p, param[i]);
  }
  *out = nmb_format(m->run, "%s%s", text, p);
  return NMB_OK;
}

/* The simulators of a cell: those of the experiment, with its parameters. */
static nmb_status
cell_simulators(maker *m, nmb__cell *c)
{
  const nmb__experiment *e = m->e;
  const nmb_loc loc = {e->path, 0, 0};
  const char **sim = NMB_NEW(m->run, const char *, e->nsim);
  c->sims = "";
  for (int i = 0; i < e->nsim; i++) {
    const char *ignored;
    sim[i] = e->sim[i];
    if (strstr(sim[i], "${")) {
      NMB_TRY(expand(m, loc, nmb_format(m->run, "simulator '%s'", e->sim[i]), e->sim[i],
                     c->param, &sim[i]));
      NMB_TRY(nmb__simulator_text(m->run, loc, sim[i], &ignored));
    }
    c->sims = nmb_format(m->run, "%s%s%s", c->sims, i ? "," : "", sim[i]);
  }
  c->sim = sim;
  return NMB_OK;
}

static nmb_status
parse_pipeline(maker *m, const nmb__variant *v, const char *const *param, int *id)
{
  const char *text = v->passes;
  if (strstr(text, "${"))
    NMB_TRY(expand(m, v->loc, nmb_format(m->run, "pipeline '%s'", v->name), text, param,
                   &text));
  *id = index_add(&m->pipes, text, m->npipe);
  if (*id < m->npipe)
    return NMB_OK;
  m->pipe = nmb__grow(m->run, m->pipe, m->npipe, &m->cpipe, sizeof *m->pipe);
  parsed *q = &m->pipe[m->npipe++];
  NMB_TRY(nmb__pipeline_parse(m->run, v->loc, text, &q->p));
  q->text = nmb__pipeline_text(m->run, &q->p);
  q->digests = "";
  for (int i = 0; i < q->p.n; i++)
    q->digests = nmb_format(m->run, "%s%016llx ", q->digests,
                            (unsigned long long)nmb__plugin_digest(q->p.stage[i].plugin));
  return NMB_OK;
}

/* --------------------------------------------------------------------- keys */
/* The bytes of the library that builds graphs, lowers and checks. */
static uint64_t
library_digest(nmb_run *run)
{
  Dl_info info;
  size_t n = 0;
  const void *self = (const void *)(uintptr_t)&nmb_status_name;
  if (!dladdr(self, &info) || !info.dli_fname)
    return 0;
  const char *bytes = nmb__read_file(run, info.dli_fname, &n);
  return bytes ? nmb__hash(bytes, n) : 0;
}

static const char *
key_text(const maker *m, const nmb__cell *c, const parsed *p)
{
  const nmb__experiment *e = m->e;
  const nmb__workload *w = c->workload;
  const bool routed = e->model[c->model].routed;
  return nmb_format(
      m->run,
      "nmbench %d %016llx\nmodel %016llx\nmachine %016llx\npipeline %s\npasses %s\n"
      "simulators %s %s\nphase %d\nbatch %lld\ncontext %lld\nrouting %s %.17g\nseed %lld\n",
      NMB__STORE_SCHEMA, (unsigned long long)m->library,
      (unsigned long long)e->model[c->model].hash,
      (unsigned long long)e->machine[c->machine].hash, p->text, p->digests, e->sim_text,
      c->sims, (int)w->phase, (long long)w->batch, (long long)w->context,
      routed ? w->kind : "none", routed ? w->skew : 0.0, (long long)w->seed);
}

static void
add_job(maker *m, nmb__cell *c, int cell, int pipe)
{
  const char *text = key_text(m, c, &m->pipe[pipe]);
  const XXH128_hash_t h = XXH3_128bits(text, strlen(text));
  nmb__job j = {.cell = cell, .pipeline = &m->pipe[pipe].p};
  snprintf(j.key, sizeof j.key, "%016llx%016llx", (unsigned long long)h.high64,
           (unsigned long long)h.low64);
  c->job = index_add(&m->jobs, j.key, m->plan->njob);
  if (c->job < m->plan->njob)
    return;
  m->plan->job =
      nmb__grow(m->run, m->plan->job, m->plan->njob, &m->cjob, sizeof *m->plan->job);
  m->plan->job[m->plan->njob++] = j;
}

/* -------------------------------------------------------------------- cells */
bool
nmb__has_word(const char *words, const char *word)
{
  const size_t n = strlen(word);
  for (const char *p = words; (p = strstr(p, word)); p += n)
    if ((p == words || p[-1] == ' ') && (p[n] == ' ' || !p[n]))
      return true;
  return false;
}

static nmb_status
add_cell(maker *m, const nmb__cell *proto)
{
  nmb__plan *plan = m->plan;
  nmb__cell c = *proto;
  if (cell_skipped(m, &c))
    return NMB_OK;
  const nmb__workload *w = c.workload;
  const char *labels =
      nmb_format(m->run, "%d %d %d %d %lld %lld %s %lld", c.model, c.machine, c.variant,
                 (int)w->phase, (long long)w->batch, (long long)w->context, w->routing,
                 (long long)w->seed);
  for (int i = 0; i < m->e->nparam; i++)
    labels = nmb_format(m->run, "%s\n%s", labels, c.param[i]);
  const int row = index_add(&m->cells, labels, plan->ncell);
  if (row < plan->ncell) {
    nmb__cell *old = &plan->cell[row];
    plan->nrepeated++;
    if (!nmb__has_word(old->sweeps, c.sweeps))
      old->sweeps = nmb_format(m->run, "%s %s", old->sweeps, c.sweeps);
    return NMB_OK;
  }
  int pipe = 0;
  NMB_TRY(parse_pipeline(m, &m->e->variant[c.variant], c.param, &pipe));
  c.passes = m->pipe[pipe].text;
  NMB_TRY(cell_simulators(m, &c));
  plan->cell = nmb__grow(m->run, plan->cell, plan->ncell, &m->ccell, sizeof *plan->cell);
  add_job(m, &c, plan->ncell, pipe);
  plan->cell[plan->ncell++] = c;
  return NMB_OK;
}

/* The k-th combination of the sweep's parameters. */
static const char **
param_values(maker *m, const nmb__sweep *s, int k)
{
  const char **v = NMB_NEW(m->run, const char *, m->e->nparam);
  for (int i = 0; i < m->e->nparam; i++)
    v[i] = "";
  for (int i = s->nparam; i-- > 0; k /= s->param[i].n)
    for (int j = 0; j < m->e->nparam; j++)
      if (!strcmp(m->e->param[j], s->param[i].name))
        v[j] = s->param[i].value[k % s->param[i].n];
  return v;
}

/* Model and workload change slowest, so that cells of one graph stand together. */
static nmb_status
add_sweep(maker *m, const nmb__sweep *s)
{
  int ncombo = 1;
  for (int i = 0; i < s->nparam; i++)
    ncombo *= s->param[i].n;
  const char ***combo = NMB_NEW(m->run, const char **, ncombo);
  for (int k = 0; k < ncombo; k++)
    combo[k] = param_values(m, s, k);
  nmb__cell c = {.sweeps = s->name};
  for (int i = 0; i < s->models.n; i++)
    for (int w = 0; w < s->nworkload; w++)
      for (int h = 0; h < s->machines.n; h++)
        for (int k = 0; k < ncombo; k++)
          for (int v = 0; v < s->variants.n; v++) {
            c.model = s->models.id[i];
            c.workload = &s->workload[w];
            c.machine = s->machines.id[h];
            c.param = combo[k];
            c.variant = s->variants.id[v];
            NMB_TRY(add_cell(m, &c));
          }
  return NMB_OK;
}

bool
nmb__same_graph(const nmb__plan *plan, const nmb__cell *a, const nmb__cell *b)
{
  const nmb__workload *v = a->workload, *w = b->workload;
  if (a->model != b->model || v->phase != w->phase || v->batch != w->batch ||
      v->context != w->context)
    return false;
  return !plan->e->model[a->model].routed ||
         (!strcmp(v->routing, w->routing) && v->seed == w->seed);
}

/* After all sweeps, as a cell's sweeps are a label too. */
static void
mark_wanted(maker *m)
{
  nmb__plan *p = m->plan;
  for (int i = 0; i < p->ncell; i++) {
    p->cell[i].wanted = cell_wanted(m, &p->cell[i]);
    p->job[p->cell[i].job].wanted |= p->cell[i].wanted;
    p->nwanted += p->cell[i].wanted;
  }
}

nmb_status
nmb__plan_make(nmb_run *run, const nmb__experiment *e, const nmb__filters *filters,
               nmb__plan *out)
{
  *out = (nmb__plan){.e = e, .nskipped = NMB_NEW(run, int, e->nskip)};
  maker m = {.run = run, .e = e, .filters = filters, .plan = out};
  m.cells.run = m.jobs.run = m.pipes.run = run;
  m.library = library_digest(run);
  for (int i = 0; i < e->nsweep; i++)
    NMB_TRY(add_sweep(&m, &e->sweep[i]));
  mark_wanted(&m);
  return NMB_OK;
}
