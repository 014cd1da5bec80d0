/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Building the table of results: labels first, then the values that the results
 * hold, in the order in which they first appear, which the plan alone decides. */
#include "config.h"

#include "harness/collect.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

#include <gsl/gsl_version.h>

#include "base/path.h"
#include "base/plugin.h"
#include "harness/metrics.h"

/* A column that entries of one kind, name and number of labels fill. */
typedef struct spec {
  char kind;
  const char *name;
  int nlabel;
  int dim[2];
  int col; /* row of store->col */
} spec;

typedef struct collector {
  nmb_run *run;
  const nmb__plan *plan;
  nmb__store *s;
  int *row_cell; /* [ncell] cell of each row */
  const nmb__result *const *result;
  int nspec, cspec, last;
  spec *spec;
} collector;

/* ------------------------------------------------------------------- labels */
static nmb__col *
text_col(collector *c, const char *name, const char *help)
{
  nmb__col *col = nmb__store_col_add(c->s, NMB__TEXT, name, 0, NULL);
  col->help = help;
  return col;
}

static const nmb__cell *
cell_of(const collector *c, int row)
{
  return &c->plan->cell[c->row_cell[row]];
}

static const nmb__result *
result_of(const collector *c, int row)
{
  return c->result[cell_of(c, row)->job];
}

static void
add_labels(collector *c)
{
  static const struct {
    const char *key, *help;
  } label[] = {
      {"model", "model"},
      {"machine", "machine"},
      {"pipeline", "name of the pipeline in the experiment"},
      {"ablation", "design that the pipeline comes from"},
      {"slot", "stage that the design adds, leaves out or swaps"},
      {"phase", "decode or prefill"},
      {"routing", "how tokens choose experts"},
      {"sweep", "sweeps that hold the cell"},
  };
  for (size_t i = 0; i < sizeof label / sizeof *label; i++) {
    nmb__col *col = text_col(c, label[i].key, label[i].help);
    for (int r = 0; r < c->s->ncell; r++)
      col->text[r] = nmb__cell_label(c->run, c->plan, cell_of(c, r), label[i].key);
  }
  const nmb__experiment *e = c->plan->e;
  nmb__col *warned = text_col(c, "model_warnings",
                              "keys of the model's file that were not understood");
  for (int r = 0; r < c->s->ncell; r++) {
    const nmb__arch *a = e->model[cell_of(c, r)->model].arch;
    const char *s = "";
    for (int i = 0; i < a->nwarning; i++)
      s = nmb_format(c->run, "%s%s%s", s, i ? "; " : "", a->warning[i]);
    warned->text[r] = s;
  }
  for (int i = 0; i < e->nparam; i++) {
    nmb__col *col = text_col(c, e->param[i], "parameter of the experiment");
    for (int r = 0; r < c->s->ncell; r++)
      col->text[r] = cell_of(c, r)->param[i];
  }
}

static void
add_numbers(collector *c)
{
  static const struct {
    const char *name, *help;
  } number[] = {{"batch", "sequences that run together"},
                {"context", "tokens in the cache (decode) or in the prompt (prefill)"},
                {"seed", "of the routing and of random choices of passes"}};
  for (int i = 0; i < 3; i++) {
    nmb__col *col = nmb__store_col_add(c->s, NMB__WHOLE, number[i].name, 0, NULL);
    col->help = number[i].help;
    for (int r = 0; r < c->s->ncell; r++) {
      const nmb__workload *w = cell_of(c, r)->workload;
      col->num[r] = (double)(i == 0 ? w->batch : i == 1 ? w->context : w->seed);
    }
  }
  nmb__col *col = nmb__store_col_add(c->s, NMB__REAL, "skew", 0, NULL);
  col->help = "exponent of a Zipf routing";
  for (int r = 0; r < c->s->ncell; r++)
    if (!strcmp(cell_of(c, r)->workload->kind, "zipf"))
      col->num[r] = cell_of(c, r)->workload->skew;
}

static void
add_outcomes(collector *c)
{
  static const struct {
    const char *name, *help;
  } text[] = {{"status", "how the cell ended"},
              {"reason", "why it is not ok"},
              {"passes", "the pipeline, every option written out"},
              {"simulators", "what timed it"},
              {"key", "hash of all that decides the result"}};
  for (int i = 0; i < 5; i++) {
    nmb__col *col = text_col(c, text[i].name, text[i].help);
    for (int r = 0; r < c->s->ncell; r++) {
      const nmb__result *res = result_of(c, r);
      const char *t[] = {nmb_status_name(res->status), res->reason, cell_of(c, r)->passes,
                         cell_of(c, r)->sims, c->plan->job[cell_of(c, r)->job].key};
      col->text[r] = t[i];
    }
  }
}

/* ------------------------------------------------------------------- values */
static int
labels_of(const nmb__entry *e)
{
  if (e->kind == 't' || e->kind == 's')
    return 1;
  return e->b ? 2 : e->a ? 1 : 0;
}

/* Times and statistics of passes are one column each: the name is a label. */
static const char *
name_of(const nmb__entry *e)
{
  return e->kind == 't' ? "compile_time" : e->kind == 's' ? "pass_stat" : e->name;
}

static const char *
label_of(collector *c, const nmb__entry *e, int i)
{
  if (e->kind == 't')
    return e->name;
  if (e->kind == 's')
    return nmb_format(c->run, "%s: %s", e->name, e->a);
  return i ? e->b : e->a;
}

/* Entries of most results come in one order: look behind the last one found. */
static spec *
spec_find(collector *c, const nmb__entry *e)
{
  const char *name = name_of(e);
  const int n = labels_of(e);
  for (int k = 0; k < c->nspec; k++) {
    const int i = (c->last + k) % c->nspec;
    spec *s = &c->spec[i];
    if (s->kind == e->kind && s->nlabel == n && !strcmp(s->name, name)) {
      c->last = i;
      return s;
    }
  }
  return NULL;
}

static const char *
dim_name(collector *c, const spec *s, int i)
{
  if (s->kind == 't')
    return "pass";
  return s->kind == 's' ? "stat" : nmb__metric_label(c->run, s->name, i);
}

static spec *
spec_add(collector *c, const nmb__entry *e)
{
  if (c->nspec == c->cspec) {
    c->cspec = c->cspec ? 2 * c->cspec : 64;
    spec *fresh = NMB_NEW(c->run, spec, c->cspec);
    if (c->nspec)
      memcpy(fresh, c->spec, (size_t)c->nspec * sizeof *fresh);
    c->spec = fresh;
  }
  spec *s = &c->spec[c->nspec++];
  *s = (spec){.kind = e->kind, .name = name_of(e), .nlabel = labels_of(e)};
  for (int i = 0; i < s->nlabel; i++)
    s->dim[i] = nmb__store_dim_add(c->s, dim_name(c, s, i));
  return s;
}

static void
find_columns(collector *c)
{
  for (int r = 0; r < c->s->ncell; r++) {
    const nmb__result *res = result_of(c, r);
    for (int k = 0; k < res->n; k++) {
      const nmb__entry *e = &res->entry[k];
      spec *s = spec_find(c, e);
      if (!s)
        s = spec_add(c, e);
      for (int i = 0; i < s->nlabel; i++)
        nmb__dim_add(c->s, s->dim[i], label_of(c, e, i));
    }
  }
}

static const nmb_metric *
metric_of(collector *c, const char *column)
{
  static const nmb_metric known[] = {
      {NMB__GAP, "1", "less", "latency over bound, minus 1"},
      {"compile_time", "s", "less", "time in passes"},
      {"simulate_time", "s", "less", "time in simulators"},
      {"wall_time", "s", "less", "time of the worker process"},
      {"host_peak_bytes", "byte", "less", "most memory of the worker process"},
      {"pass_stat", "1", "", "statistics that passes report"},
  };
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (!strcmp(known[i].name, column))
      return &known[i];
  const nmb__experiment *e = c->plan->e;
  for (int i = 0; i < e->nsim; i++)
    for (const nmb_metric *m = nmb__simulator(c->run, e, i)->metrics; m && m->name; m++)
      if (!strcmp(nmb__metric_column(c->run, e, i, m->name), column))
        return m;
  return NULL;
}

static void
add_column(collector *c, spec *s)
{
  const char *name = s->name;
  for (int i = 0; i < s->nlabel; i++)
    name =
        nmb_format(c->run, "%s%s%s", name, i ? "_" : "_by_", c->s->dim[s->dim[i]].name);
  nmb__col *col = nmb__store_col_add(c->s, NMB__REAL, name, s->nlabel, s->dim);
  s->col = (int)(col - c->s->col);
  col->host = s->kind == 'h' || s->kind == 't';
  const nmb_metric *m = metric_of(c, s->name);
  if (m) {
    col->unit = m->unit;
    col->better = m->better ? m->better : "";
    col->help = m->help;
  }
}

static void
fill(collector *c)
{
  for (int r = 0; r < c->s->ncell; r++) {
    const nmb__result *res = result_of(c, r);
    for (int k = 0; k < res->n; k++) {
      const nmb__entry *e = &res->entry[k];
      const spec *s = spec_find(c, e);
      const nmb__col *col = &c->s->col[s->col];
      int at = 0;
      for (int i = 0; i < s->nlabel; i++) {
        const nmb__dim *d = &c->s->dim[s->dim[i]];
        at = at * d->n + nmb__dim_find(d, label_of(c, e, i));
      }
      double *v = &col->num[(size_t)r * (size_t)nmb__col_width(c->s, col) + (size_t)at];
      const bool adds = e->kind == 't' || e->kind == 's'; /* a pass may run twice */
      *v = adds && !isnan(*v) ? *v + e->value : e->value;
    }
  }
}

nmb__store *
nmb__collect(nmb_run *run, const nmb__plan *plan, const nmb__result *const *result)
{
  collector c = {.run = run, .plan = plan, .result = result};
  int n = 0;
  c.row_cell = NMB_NEW(run, int, plan->ncell + 1);
  for (int i = 0; i < plan->ncell; i++)
    if (result[plan->cell[i].job])
      c.row_cell[n++] = i;
  c.s = nmb__store_new(run, n);
  c.s->name = plan->e->name;
  c.s->title = plan->e->title;
  c.s->config = plan->e->text;
  add_labels(&c);
  add_numbers(&c);
  add_outcomes(&c);
  find_columns(&c);
  for (int i = 0; i < c.nspec; i++)
    add_column(&c, &c.spec[i]);
  nmb__col *log = text_col(&c, "log", "messages of the worker process");
  log->host = true;
  for (int r = 0; r < n; r++)
    log->text[r] = result_of(&c, r)->log;
  fill(&c);
  return c.s;
}

/* --------------------------------------------------------------- provenance */
static const char *
command_output(nmb_run *run, const char *command)
{
  char buf[256] = "";
  FILE *f = popen(command, "r");
  if (f && !fgets(buf, sizeof buf, f))
    buf[0] = 0;
  if (f)
    pclose(f);
  buf[strcspn(buf, "\n")] = 0;
  return nmb_strdup(run, buf);
}

static void
add_commit(nmb__store *s)
{
  const char *src = nmb__source_folder(s->run);
  if (!src || strchr(src, '\''))
    return;
  const char *id = command_output(
      s->run, nmb_format(s->run, "git -C '%s' rev-parse HEAD 2>/dev/null", src));
  const char *dirty = command_output(
      s->run, nmb_format(s->run, "git -C '%s' status --porcelain -uno 2>/dev/null", src));
  if (*id)
    nmb__store_fact_add(s, "commit",
                        *dirty ? nmb_format(s->run, "%s with local changes", id) : id);
}

void
nmb__collect_provenance(nmb__store *s, const nmb__plan *plan, const char *argv)
{
  nmb_run *run = s->run;
  struct utsname u;
  char when[32] = "";
  const time_t now = time(NULL);
  strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
  nmb__store_fact_add(s, "nmbench", PACKAGE_VERSION);
  add_commit(s);
  nmb__store_fact_add(s, "compiler", __VERSION__);
  nmb__store_fact_add(s, "gsl", GSL_VERSION);
  if (uname(&u) == 0)
    nmb__store_fact_add(
        s, "host",
        nmb_format(run, "%s %s %s %s", u.nodename, u.sysname, u.release, u.machine));
  nmb__store_fact_add(s, "created", when);
  nmb__store_fact_add(s, "argv", argv);
  nmb__store_fact_add(s, "experiment", plan->e->path);
  const char *digests = "";
  for (int i = 0; i < nmb__plugin_count(); i++) {
    const nmb_plugin *p = nmb__plugin_at(i);
    digests = nmb_format(run, "%s%s %s %016llx\n", digests, p->name, p->version,
                         (unsigned long long)nmb__plugin_digest(p));
  }
  nmb__store_fact_add(s, "plugins", digests);
}
