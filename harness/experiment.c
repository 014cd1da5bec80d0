/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Reading an experiment file.  Everything that can be wrong is found here, before
 * anything runs: keys, types, names of models, machines, plugins and options. */
#include "config.h"

#include "harness/experiment.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <fnmatch.h>

#include "base/hash.h"
#include "base/near.h"
#include "base/options.h"
#include "base/path.h"
#include "base/plugin.h"
#include "base/run.h"
#include "base/units.h"
#include "harness/ablation.h"
#include "harness/conf.h"
#include "harness/figure.h"
#include "harness/grow.h"
#include "harness/store.h"
#include "ir/machine.h"

typedef const config_setting_t setting;

typedef struct reader {
  nmb_run *run;
  nmb__experiment *e;
  int cmodel, cmachine;
  setting *root;
} reader;

static nmb_status
bad(reader *r, setting *at, const char *text, const char *word)
{
  return nmb_fail(r->run, NMB_BADINPUT, nmb__conf_loc(r->run, at), text, word);
}

/* ---------------------------------------------------------------- plugins */
/* Paths are taken from the folder of the experiment file. */
/* A path as the experiment's file gives it: from its own folder. */
static const char *
beside(const reader *r, const char *path)
{
  const char *slash = strrchr(r->e->path, '/');
  const int len = slash ? (int)(slash - r->e->path) + 1 : 0;
  return *path == '/' ? path : nmb_format(r->run, "%.*s%s", len, r->e->path, path);
}

static nmb_status
read_plugins(reader *r)
{
  const char **path = NULL;
  int n = 0;
  NMB_TRY(nmb__conf_texts(r->run, r->root, "plugins", false, &path, &n));
  const char *list = NULL;
  for (int i = 0; i < n; i++) {
    const char *one = beside(r, path[i]);
    list = list ? nmb_format(r->run, "%s:%s", list, one) : one;
  }
  return nmb__plugins_load(r->run, list);
}

/* ------------------------------------------------------- models, machines */
/* A name that is not a path must stand in the folder: said here, where file and
 * line are known. */
static nmb_status
check_name(reader *r, setting *at, const char *what, const char *folder, const char *ext,
           const char *name)
{
  if (strchr(name, '/') || strchr(name, '.'))
    return NMB_OK;
  const char **known = NULL;
  const int n = nmb__list_files(r->run, folder, ext, &known);
  for (int i = 0; i < n; i++)
    if (!strcmp(known[i], name))
      return NMB_OK;
  return nmb_fail(r->run, NMB_BADINPUT, nmb__conf_loc(r->run, at), "unknown %s '%s'%s",
                  what, name, nmb__hint(r->run, name, known, n));
}

/* A model whose weights are there is executed on them, and on a text if there is one. */
static nmb_status
use_weights(nmb_run *run, const char *sample, nmb__model_use *m)
{
  int32_t *ids = NULL;
  m->bos = 1;
  NMB_TRY(nmb__wmodel_open(run, m->name, &m->weights));
  nmb_status st = nmb__wmodel_check(run, m->weights);
  if (st == NMB_OK && (sample || nmb__wmodel_own_text(run, m->weights)))
    st = nmb__wmodel_text(run, m->weights, sample, NULL, &ids, &m->nid, &m->bos);
  for (int64_t i = 0; st == NMB_OK && i < m->nid; i++)
    if (ids[i] < 0 || ids[i] >= m->weights->arch->vocab)
      st = nmb_fail(run, NMB_BADINPUT, NMB_NOLOC, "the text has token %d", (int)ids[i]);
  if (st != NMB_OK) {
    nmb__wmodel_close(m->weights);
    return st;
  }
  m->ids = ids;
  m->arch = m->weights->arch;
  const uint64_t part[2] = {nmb__wmodel_hash(m->weights),
                            nmb__hash(ids, (size_t)m->nid * sizeof *ids)};
  m->hash = nmb__hash(part, sizeof part);
  return NMB_OK;
}

static nmb_status
use_model(reader *r, setting *at, const char *name, int *id)
{
  nmb__experiment *e = r->e;
  for (*id = 0; *id < e->nmodel; ++*id)
    if (!strcmp(e->model[*id].name, name))
      return NMB_OK;
  nmb__model_use m = {.name = name};
  const nmb_status st = nmb__wfile_named(r->run, name)
                            ? use_weights(r->run, e->sample, &m)
                            : nmb__arch_load(r->run, name, &m.arch);
  if (st != NMB_OK)
    return bad(r, at, "the model '%s' cannot be used", name);
  m.hash = m.hash ? m.hash : m.arch->hash;
  for (int64_t i = 0; i < m.arch->nlayer; i++)
    m.routed |= m.arch->layer[i].moe.experts > 0;
  e->model = nmb__grow(r->run, e->model, e->nmodel, &r->cmodel, sizeof *e->model);
  e->model[e->nmodel++] = m;
  return NMB_OK;
}

/* Kinds of DRAM are data that models of engines in memory open by name. */
static uint64_t
dram_digest(nmb_run *run)
{
  const char **file;
  nmb__hasher *h = nmb__hash_begin();
  const int n = nmb__list_files(run, "dram", "dram", &file);
  for (int i = 0; i < n; i++) {
    const char *path, *text = NULL;
    size_t len = 0;
    if (nmb__find_file(run, "dram", file[i], "dram", &path) == NMB_OK)
      text = nmb__read_file(run, path, &len);
    nmb__hash_add(h, file[i], strlen(file[i]) + 1);
    if (text)
      nmb__hash_add(h, text, len);
  }
  return nmb__hash_end(h);
}

/* All that decides what a machine does: its text and the code of its models, and the kinds
 * of DRAM if it computes there. */
static uint64_t
machine_hash(nmb_run *run, const nmb_hw *hw)
{
  const char *text = nmb__machine_text(run, hw);
  nmb__hasher *h = nmb__hash_begin();
  bool in_memory = false;
  nmb__hash_add(h, text, strlen(text));
  for (int i = 0; i < hw->nengine; i++) {
    const uint64_t digest =
        hw->engine[i].impl ? nmb__plugin_digest(hw->engine[i].impl) : 0;
    nmb__hash_add(h, &digest, sizeof digest);
    in_memory |= hw->engine[i].in_memory;
  }
  const uint64_t kinds = in_memory ? dram_digest(run) : 0;
  nmb__hash_add(h, &kinds, sizeof kinds);
  return nmb__hash_end(h);
}

static nmb_status
use_machine(reader *r, setting *at, const char *name, int *id)
{
  nmb__experiment *e = r->e;
  for (*id = 0; *id < e->nmachine; ++*id)
    if (!strcmp(e->machine[*id].name, name))
      return NMB_OK;
  NMB_TRY(check_name(r, at, "machine", "machines", ".hw", name));
  nmb__machine_use m = {.name = name};
  if (nmb__machine_load(r->run, name, &m.hw) != NMB_OK)
    return bad(r, at, "the machine '%s' cannot be used", name);
  m.hash = machine_hash(r->run, m.hw);
  e->machine = nmb__grow(r->run, e->machine, e->nmachine, &r->cmachine, sizeof *e->machine);
  e->machine[e->nmachine++] = m;
  return NMB_OK;
}

typedef nmb_status use_fn(reader *, setting *, const char *, int *);

/* The names under `key` of `group`; what = NULL where there is no such key. */
static nmb_status
read_uses(reader *r, setting *group, const char *key, use_fn *use, nmb__rows *out)
{
  const char **name = NULL;
  int n = 0;
  NMB_TRY(nmb__conf_texts(r->run, group, key, false, &name, &n));
  setting *list = config_setting_get_member(group, key);
  int *id = NMB_NEW(r->run, int, n);
  int count = 0;
  for (int i = 0; i < n; i++) {
    int k = 0, j = 0;
    NMB_TRY(use(r, nmb__conf_at(list, i), name[i], &k));
    while (j < count && id[j] != k)
      j++;
    if (j < count)
      return bad(r, nmb__conf_at(list, i), "'%s' stands here twice", name[i]);
    id[count++] = k;
  }
  *out = (nmb__rows){count, id};
  return NMB_OK;
}

/* -------------------------------------------------------------- workloads */
typedef struct routing {
  const char *label, *kind;
  double skew;
} routing;

typedef struct routings {
  int n, cap;
  routing *v;
} routings;

static void
add_routing(reader *r, routings *rs, const char *kind, double skew)
{
  rs->v = nmb__grow(r->run, rs->v, rs->n, &rs->cap, sizeof *rs->v);
  const char *label =
      strcmp(kind, "zipf") ? kind : nmb_format(r->run, "%s%g", kind, skew);
  rs->v[rs->n++] = (routing){label, kind, skew};
}

static nmb_status
check_kind(reader *r, setting *at, const char *kind)
{
  static const char *const known[] = {"uniform", "zipf", "balanced"};
  for (int i = 0; i < 3; i++)
    if (!strcmp(kind, known[i]))
      return NMB_OK;
  return nmb_fail(r->run, NMB_BADINPUT, nmb__conf_loc(r->run, at),
                  "unknown routing '%s', expected uniform, zipf or balanced%s", kind,
                  nmb__hint(r->run, kind, known, 3));
}

static nmb_status
read_routing(reader *r, setting *s, routings *rs)
{
  static const char *const keys[] = {"kind", "skew", NULL};
  const char *kind = config_setting_get_string(s);
  if (!kind) {
    NMB_TRY(nmb__conf_known(r->run, s, "a routing", keys));
    NMB_TRY(nmb__conf_text(r->run, s, "kind", NULL, &kind));
  }
  NMB_TRY(check_kind(r, s, kind));
  kind = nmb_strdup(r->run, kind);
  double *skew = NULL;
  int n = 0;
  if (config_setting_is_group(s))
    NMB_TRY(nmb__conf_reals(r->run, s, "skew", 0, 10, &skew, &n));
  const bool zipf = !strcmp(kind, "zipf");
  if (zipf && !n)
    return bad(r, s, "routing '%s' needs a skew", kind);
  if (!zipf && n)
    return bad(r, s, "routing '%s' has no skew", kind);
  if (!zipf)
    add_routing(r, rs, kind, 0);
  for (int i = 0; i < n; i++)
    add_routing(r, rs, kind, skew[i]);
  return NMB_OK;
}

static nmb_status
read_routings(reader *r, setting *group, routings *rs)
{
  setting *s = config_setting_get_member(group, "routing");
  if (!s)
    add_routing(r, rs, "uniform", 0);
  for (int i = 0; s && i < nmb__conf_count(s); i++)
    NMB_TRY(read_routing(r, nmb__conf_at(s, i), rs));
  if (!rs->n)
    return bad(r, s, "'%s' is empty", "routing");
  return NMB_OK;
}

typedef struct workloads {
  int n, cap;
  nmb__workload *v;
} workloads;

static nmb_status
read_phases(reader *r, setting *group, nmb_phase **out, int *n)
{
  const char **name = NULL;
  NMB_TRY(nmb__conf_texts(r->run, group, "phase", false, &name, n));
  if (!*n)
    return bad(r, group, "no '%s' in a workload", "phase");
  *out = NMB_NEW(r->run, nmb_phase, *n);
  for (int i = 0; i < *n; i++) {
    const bool decode = !strcmp(name[i], "decode");
    if (!decode && strcmp(name[i], "prefill"))
      return bad(r, config_setting_get_member(group, "phase"),
                 "unknown phase '%s', expected decode or prefill", name[i]);
    (*out)[i] = decode ? NMB_DECODE : NMB_PREFILL;
  }
  return NMB_OK;
}

/* Every combination of one group's lists. */
static nmb_status
read_workload(reader *r, setting *s, workloads *ws)
{
  static const char *const keys[] = {"phase",   "batch", "context",
                                     "routing", "seed",  NULL};
  NMB_TRY(nmb__conf_known(r->run, s, "a workload", keys));
  nmb_phase *phase = NULL;
  int64_t *batch = NULL, *context = NULL, *seed = NULL;
  int np = 0, nb = 0, nc = 0, ns = 0;
  routings rs = {0};
  NMB_TRY(read_phases(r, s, &phase, &np));
  NMB_TRY(nmb__conf_wholes(r->run, s, "batch", 1, 1 << 20, &batch, &nb));
  NMB_TRY(nmb__conf_wholes(r->run, s, "context", 1, INT64_C(1) << 30, &context, &nc));
  NMB_TRY(nmb__conf_wholes(r->run, s, "seed", 0, INT64_C(1) << 53, &seed, &ns));
  NMB_TRY(read_routings(r, s, &rs));
  if (!nb || !nc)
    return bad(r, s, "no '%s' in a workload", nb ? "context" : "batch");
  static int64_t one = 1;
  if (!ns)
    seed = &one, ns = 1;
  for (int p = 0; p < np; p++)
    for (int b = 0; b < nb; b++)
      for (int c = 0; c < nc; c++)
        for (int k = 0; k < rs.n * ns; k++) {
          const routing *ro = &rs.v[k / ns];
          ws->v = nmb__grow(r->run, ws->v, ws->n, &ws->cap, sizeof *ws->v);
          ws->v[ws->n++] = (nmb__workload){phase[p], batch[b], context[c],  ro->label,
                                           ro->kind, ro->skew, seed[k % ns]};
        }
  return NMB_OK;
}

static nmb_status
read_workloads(reader *r, setting *group, workloads *ws)
{
  setting *s = config_setting_get_member(group, "workloads");
  for (int i = 0; s && i < nmb__conf_count(s); i++)
    NMB_TRY(read_workload(r, nmb__conf_at(s, i), ws));
  return s && !ws->n ? bad(r, s, "'%s' is empty", "workloads") : NMB_OK;
}

/* -------------------------------------------------------------- pipelines */
static nmb_status
read_stage(reader *r, setting *s, nmb__slot_spec *out)
{
  static const char *const keys[] = {"slot", "base", "full", "also", NULL};
  *out = (nmb__slot_spec){.base = "", .full = ""};
  const char *fixed = config_setting_get_string(s);
  if (fixed) {
    out->full = nmb_strdup(r->run, fixed);
    return NMB_OK;
  }
  NMB_TRY(nmb__conf_known(r->run, s, "a stage", keys));
  NMB_TRY(nmb__conf_text(r->run, s, "slot", NULL, &out->name));
  NMB_TRY(nmb__conf_text(r->run, s, "base", "", &out->base));
  NMB_TRY(nmb__conf_text(r->run, s, "full", "", &out->full));
  NMB_TRY(nmb__conf_texts(r->run, s, "also", false, &out->also, &out->nalso));
  if (!*out->name || strpbrk(out->name, "+-=, "))
    return bad(r, s,
               "'%s' cannot name a slot: it is empty or holds one of + - = , or a space",
               out->name);
  if (!strcmp(out->base, out->full))
    return bad(r, s, "base and full of slot '%s' are the same", out->name);
  return NMB_OK;
}

static nmb_status
read_stages(reader *r, nmb__variants *vs)
{
  setting *s = config_setting_get_member(r->root, "stages");
  const char **name = NULL;
  int nname = 0;
  NMB_TRY(nmb__conf_texts(r->run, r->root, "ablations", false, &name, &nname));
  setting *designs = config_setting_get_member(r->root, "ablations");
  if (!s)
    return designs ? bad(r, designs, "'%s' needs 'stages'", "ablations") : NMB_OK;
  const int n = nmb__conf_count(s);
  nmb__slot_spec *stage = NMB_NEW(r->run, nmb__slot_spec, n);
  for (int i = 0; i < n; i++) {
    NMB_TRY(read_stage(r, nmb__conf_at(s, i), &stage[i]));
    for (int j = 0; j < i; j++)
      if (stage[i].name && stage[j].name && !strcmp(stage[i].name, stage[j].name))
        return bad(r, nmb__conf_at(s, i), "a second slot with the name '%s'",
                   stage[i].name);
  }
  static const char *dflt[] = {"baseline", "add-one-in", "leave-one-out", "full"};
  if (!nname)
    name = dflt, nname = 4;
  for (int i = 0; i < nname; i++) {
    const nmb__design d = {name[i],
                           nmb__conf_loc(r->run, designs ? nmb__conf_at(designs, i) : s)};
    NMB_TRY(nmb__ablate(r->run, stage, n, &d, vs));
  }
  return NMB_OK;
}

static nmb_status
read_pipeline(reader *r, setting *s, nmb__variants *vs)
{
  static const char *const keys[] = {"name", "passes", NULL};
  NMB_TRY(nmb__conf_known(r->run, s, "a pipeline", keys));
  nmb__variant v = {.ablation = "", .slot = "", .passes = ""};
  const char **pass = NULL;
  int n = 0;
  NMB_TRY(nmb__conf_text(r->run, s, "name", NULL, &v.name));
  NMB_TRY(nmb__conf_texts(r->run, s, "passes", false, &pass, &n));
  if (!n)
    return bad(r, s, "pipeline '%s' has no passes", v.name);
  for (int i = 0; i < n; i++)
    v.passes = i ? nmb_format(r->run, "%s,%s", v.passes, pass[i]) : pass[i];
  v.loc = nmb__conf_loc(r->run, config_setting_get_member(s, "passes"));
  return nmb__variant_add(r->run, vs, &v);
}

static nmb_status
read_variants(reader *r)
{
  nmb__variants vs = {0};
  setting *s = config_setting_get_member(r->root, "pipelines");
  for (int i = 0; s && i < nmb__conf_count(s); i++)
    NMB_TRY(read_pipeline(r, nmb__conf_at(s, i), &vs));
  NMB_TRY(read_stages(r, &vs));
  if (!vs.n)
    return bad(r, r->root, "no '%s' and no 'stages': there is nothing to compile with",
               "pipelines");
  r->e->nvariant = vs.n;
  r->e->variant = vs.v;
  return NMB_OK;
}

/* ------------------------------------------------------------- parameters */
static nmb_status
read_params(reader *r, setting *group, nmb__param **out, int *n)
{
  config_setting_t *s = NULL;
  NMB_TRY(nmb__conf_group(r->run, group, "params", &s));
  *n = s ? config_setting_length(s) : 0;
  *out = NMB_NEW(r->run, nmb__param, *n);
  for (int i = 0; i < *n; i++) {
    setting *m = config_setting_get_elem(s, (unsigned)i);
    nmb__param *p = &(*out)[i];
    p->name = nmb_strdup(r->run, config_setting_name(m));
    p->loc = nmb__conf_loc(r->run, m);
    NMB_TRY(nmb__conf_texts(r->run, s, p->name, true, &p->value, &p->n));
  }
  return NMB_OK;
}

/* Names of parameters become columns of the results, beside these. */
static const char *const label_key[] = {"model",   "machine", "pipeline", "ablation",
                                        "slot",    "phase",   "batch",    "context",
                                        "routing", "skew",    "seed",     "sweep"};
#define NLABEL ((int)(sizeof label_key / sizeof *label_key))

int
nmb__label_keys(nmb_run *run, const nmb__experiment *e, const char ***out)
{
  *out = NMB_NEW(run, const char *, NLABEL + e->nparam);
  for (int i = 0; i < NLABEL; i++)
    (*out)[i] = label_key[i];
  for (int i = 0; i < e->nparam; i++)
    (*out)[NLABEL + i] = e->param[i];
  return NLABEL + e->nparam;
}

static nmb_status
declare_param(reader *r, const nmb__param *p)
{
  nmb__experiment *e = r->e;
  static const char *const taken[] = {"cell",   "key",    "simulators", "status",
                                      "reason", "passes", "log"};
  for (int i = 0; i < e->nparam; i++)
    if (!strcmp(e->param[i], p->name))
      return NMB_OK;
  for (int i = 0; i < NLABEL + 7; i++)
    if (!strcmp(i < NLABEL ? label_key[i] : taken[i - NLABEL], p->name))
      return nmb_fail(r->run, NMB_BADINPUT, p->loc,
                      "a parameter cannot have the name '%s': results have such a column",
                      p->name);
  const char **fresh = NMB_NEW(r->run, const char *, e->nparam + 1);
  for (int i = 0; i < e->nparam; i++)
    fresh[i] = e->param[i];
  fresh[e->nparam++] = p->name;
  e->param = fresh;
  return NMB_OK;
}

/* ------------------------------------------------------- sweeps and skips */
/* What a sweep does not name is taken from the top of the file. */
typedef struct defaults {
  nmb__rows models, machines;
  workloads w;
  nmb__param *param;
  int nparam;
} defaults;

/* The pipelines that the sweep names; all without a group or a list. */
static nmb_status
read_globs(reader *r, setting *group, nmb__rows *out)
{
  const nmb__experiment *e = r->e;
  const char **glob = NULL;
  int n = 0, count = 0;
  if (group)
    NMB_TRY(nmb__conf_texts(r->run, group, "pipelines", false, &glob, &n));
  int *id = NMB_NEW(r->run, int, e->nvariant);
  const char **name = NMB_NEW(r->run, const char *, e->nvariant);
  bool *used = NMB_NEW(r->run, bool, n);
  for (int v = 0; v < e->nvariant; v++) {
    bool take = n == 0;
    name[v] = e->variant[v].name;
    for (int i = 0; i < n; i++)
      if (fnmatch(glob[i], name[v], 0) == 0)
        take = used[i] = true;
    if (take)
      id[count++] = v;
  }
  for (int i = 0; i < n; i++)
    if (!used[i])
      return nmb_fail(
          r->run, NMB_BADINPUT,
          nmb__conf_loc(r->run, config_setting_get_member(group, "pipelines")),
          "no pipeline is named '%s'%s", glob[i],
          nmb__hint(r->run, glob[i], name, e->nvariant));
  *out = (nmb__rows){count, id};
  return NMB_OK;
}

/* Lists of the sweep's own, else the defaults; in the order of e->param. */
static nmb_status
sweep_params(reader *r, setting *s, const defaults *d, nmb__sweep *sw)
{
  nmb__param *own = NULL;
  int nown = 0;
  if (s)
    NMB_TRY(read_params(r, s, &own, &nown));
  nmb__param *all = NMB_NEW(r->run, nmb__param, nown + d->nparam);
  int n = 0;
  for (int i = 0; i < nown; i++) {
    NMB_TRY(declare_param(r, &own[i]));
    all[n++] = own[i];
  }
  for (int i = 0; i < d->nparam; i++) {
    int k = 0;
    while (k < nown && strcmp(own[k].name, d->param[i].name))
      k++;
    if (k == nown)
      all[n++] = d->param[i];
  }
  sw->param = all;
  sw->nparam = n;
  return NMB_OK;
}

static nmb_status
read_sweep(reader *r, setting *s, const defaults *d, nmb__sweep *sw)
{
  static const char *const keys[] = {"name",      "models", "machines", "workloads",
                                     "pipelines", "params", NULL};
  nmb__rows set = {0};
  workloads w = {0};
  NMB_TRY(nmb__conf_known(r->run, s, "a sweep", keys));
  NMB_TRY(nmb__conf_text(r->run, s, "name", NULL, &sw->name));
  if (!*sw->name || strchr(sw->name, ' '))
    return bad(r, s, "'%s' cannot name a sweep: it is empty or holds a space", sw->name);
  NMB_TRY(read_uses(r, s, "models", use_model, &set));
  sw->models = set.n ? set : d->models;
  NMB_TRY(read_uses(r, s, "machines", use_machine, &set));
  sw->machines = set.n ? set : d->machines;
  NMB_TRY(read_workloads(r, s, &w));
  w = w.n ? w : d->w;
  sw->workload = w.v;
  sw->nworkload = w.n;
  NMB_TRY(read_globs(r, s, &sw->variants));
  NMB_TRY(sweep_params(r, s, d, sw));
  const char *missing = !sw->models.n     ? "models"
                        : !sw->machines.n ? "machines"
                        : !sw->nworkload  ? "workloads"
                                          : NULL;
  return missing ? bad(r, s, "no '%s' in this sweep nor at the top of the file", missing)
                 : NMB_OK;
}

static nmb_status
read_defaults(reader *r, defaults *d)
{
  NMB_TRY(read_uses(r, r->root, "models", use_model, &d->models));
  NMB_TRY(read_uses(r, r->root, "machines", use_machine, &d->machines));
  NMB_TRY(read_workloads(r, r->root, &d->w));
  NMB_TRY(read_params(r, r->root, &d->param, &d->nparam));
  for (int i = 0; i < d->nparam; i++)
    NMB_TRY(declare_param(r, &d->param[i]));
  return NMB_OK;
}

/* Without sweeps, one over all that stands at the top. */
static nmb_status
read_sweeps(reader *r)
{
  nmb__experiment *e = r->e;
  defaults d = {0};
  NMB_TRY(read_defaults(r, &d));
  setting *s = config_setting_get_member(r->root, "sweeps");
  e->nsweep = s ? nmb__conf_count(s) : 1;
  e->sweep = NMB_NEW(r->run, nmb__sweep, e->nsweep);
  for (int i = 0; s && i < e->nsweep; i++) {
    NMB_TRY(read_sweep(r, nmb__conf_at(s, i), &d, &e->sweep[i]));
    for (int j = 0; j < i; j++)
      if (!strcmp(e->sweep[i].name, e->sweep[j].name))
        return bad(r, nmb__conf_at(s, i), "a second sweep with the name '%s'",
                   e->sweep[i].name);
  }
  if (s)
    return NMB_OK;
  nmb__sweep *sw = &e->sweep[0];
  *sw = (nmb__sweep){.name = "main", .models = d.models, .machines = d.machines};
  sw->workload = d.w.v;
  sw->nworkload = d.w.n;
  NMB_TRY(read_globs(r, NULL, &sw->variants));
  NMB_TRY(sweep_params(r, NULL, &d, sw));
  const char *missing = !d.models.n     ? "models"
                        : !d.machines.n ? "machines"
                        : !d.w.n        ? "workloads"
                                        : NULL;
  return missing ? bad(r, NULL, "no '%s' in the experiment", missing) : NMB_OK;
}

static nmb_status
check_key(reader *r, nmb_loc loc, const nmb__experiment *e, const char *key)
{
  const char **known = NULL;
  const int n = nmb__label_keys(r->run, e, &known);
  for (int i = 0; i < n; i++)
    if (!strcmp(key, known[i]))
      return NMB_OK;
  return nmb_fail(r->run, NMB_BADINPUT, loc, "unknown label '%s' in a filter%s", key,
                  nmb__hint(r->run, key, known, n));
}

static nmb_status
read_skip(reader *r, setting *s, nmb__filter *f)
{
  if (!config_setting_is_group(s))
    return bad(r, s, "a skip is %s, expected a group { }", nmb__conf_kind(s));
  NMB_TRY(nmb__conf_text(r->run, s, "why", NULL, &f->why));
  const int n = config_setting_length(s);
  f->key = NMB_NEW(r->run, const char *, n);
  f->glob = NMB_NEW(r->run, const char *, n);
  for (int i = 0; i < n; i++) {
    setting *m = config_setting_get_elem(s, (unsigned)i);
    const char *key = config_setting_name(m), **glob = NULL, *all = NULL;
    int k = 0;
    if (!strcmp(key, "why"))
      continue;
    NMB_TRY(check_key(r, nmb__conf_loc(r->run, m), r->e, key));
    NMB_TRY(nmb__conf_texts(r->run, s, key, true, &glob, &k));
    for (int j = 0; j < k; j++)
      all = all ? nmb_format(r->run, "%s|%s", all, glob[j]) : glob[j];
    f->key[f->n] = nmb_strdup(r->run, key);
    f->glob[f->n++] = all;
  }
  return f->n ? NMB_OK
              : bad(r, s, "a skip that names no label would skip %s", "everything");
}

static nmb_status
read_skips(reader *r)
{
  nmb__experiment *e = r->e;
  setting *s = config_setting_get_member(r->root, "skip");
  e->nskip = s ? nmb__conf_count(s) : 0;
  e->skip = NMB_NEW(r->run, nmb__filter, e->nskip);
  for (int i = 0; i < e->nskip; i++)
    NMB_TRY(read_skip(r, nmb__conf_at(s, i), &e->skip[i]));
  return NMB_OK;
}

nmb_status
nmb__filter_parse(nmb_run *run, nmb_loc loc, const nmb__experiment *e, const char *text,
                  nmb__filter *out)
{
  reader r = {.run = run};
  int n = 1;
  for (const char *c = text; *c; c++)
    n += *c == ',';
  *out = (nmb__filter){0, NMB_NEW(run, const char *, n), NMB_NEW(run, const char *, n),
                       NULL};
  for (const char *p = text;;) {
    const size_t len = strcspn(p, ",");
    const char *one = nmb_format(run, "%.*s", (int)len, p);
    const char *eq = strchr(one, '=');
    if (!eq)
      return nmb_fail(run, NMB_BADINPUT, loc,
                      "found '%s' in a filter, expected label=pattern", one);
    out->key[out->n] = nmb_format(run, "%.*s", (int)(eq - one), one);
    out->glob[out->n] = eq + 1;
    NMB_TRY(check_key(&r, loc, e, out->key[out->n]));
    out->n++;
    if (!p[len])
      return NMB_OK;
    p += len + 1;
  }
}

/* ------------------------------------------------------ simulators, limits */
nmb_status
nmb__simulator_text(nmb_run *run, nmb_loc loc, const char *text, const char **out)
{
  const size_t len = strcspn(text, "{");
  const size_t all = strlen(text);
  if (text[len] && text[all - 1] != '}')
    return nmb_fail(run, NMB_BADINPUT, loc, "no '}' at the end of '%s'", text);
  const char *name = nmb_format(run, "%.*s", (int)len, text);
  const char *opts =
      text[len] ? nmb_format(run, "%.*s", (int)(all - len - 2), text + len + 1) : "";
  const nmb_plugin *pl = NULL;
  nmb__optval *opt = NULL;
  int n = 0;
  NMB_TRY(nmb__plugin_need(run, loc, name, "simulator", &pl));
  if (strstr(opts, "${")) { /* a cell's parameters make it whole */
    *out = nmb_format(run, "%s %016llx", text, (unsigned long long)nmb__plugin_digest(pl));
    return NMB_OK;
  }
  NMB_TRY(nmb__options_parse(run, loc, nmb_format(run, "simulator '%s'", name),
                             pl->opts, opts, &opt, &n));
  *out = nmb_format(run, "%s%s %016llx", name,
                    nmb__options_text(run, pl->opts, opt, n),
                    (unsigned long long)nmb__plugin_digest(pl));
  return NMB_OK;
}

static nmb_status
read_simulators(reader *r)
{
  nmb__experiment *e = r->e;
  static const char *dflt[] = {"bound", "event"};
  NMB_TRY(nmb__conf_texts(r->run, r->root, "simulators", false, &e->sim, &e->nsim));
  setting *s = config_setting_get_member(r->root, "simulators");
  if (!e->nsim)
    e->sim = dflt, e->nsim = 2;
  e->sim_text = "";
  for (int i = 0; i < e->nsim; i++) {
    const nmb_loc loc = nmb__conf_loc(r->run, s ? nmb__conf_at(s, i) : NULL);
    const char *text = NULL;
    NMB_TRY(nmb__simulator_text(r->run, loc, e->sim[i], &text));
    e->sim_text = nmb_format(r->run, "%s%s%s", e->sim_text, i ? "," : "", text);
  }
  return NMB_OK;
}

static nmb_status
read_limits(reader *r)
{
  static const char *const keys[] = {"time", "memory", NULL};
  config_setting_t *s = NULL;
  const char *time = "60s", *memory = "4GiB";
  NMB_TRY(nmb__conf_group(r->run, r->root, "limits", &s));
  if (s) {
    NMB_TRY(nmb__conf_known(r->run, s, "limits", keys));
    NMB_TRY(nmb__conf_text(r->run, s, "time", time, &time));
    NMB_TRY(nmb__conf_text(r->run, s, "memory", memory, &memory));
  }
  double bytes = 0;
  const nmb_loc loc = nmb__conf_loc(r->run, s);
  NMB_TRY(nmb__units_parse(r->run, loc, time, "time", &r->e->time_limit));
  NMB_TRY(nmb__units_parse(r->run, loc, memory, "size", &bytes));
  if (!(r->e->time_limit > 0) || !(bytes >= 1 << 20))
    return nmb_fail(r->run, NMB_BADINPUT, loc,
                    "limits of %s and %s, expected more than 0 s and 1 MiB", time,
                    memory);
  r->e->memory_limit = (int64_t)bytes;
  return NMB_OK;
}

/* --------------------------------------------------------------- the file */
static nmb_status
read_head(reader *r)
{
  static const char *const keys[] = {"schema",    "name",      "title",     "plugins",
                                     "models",    "machines",  "workloads", "stages",
                                     "ablations", "pipelines", "params",    "simulators",
                                     "sweeps",    "skip",      "figures",   "labels",
                                     "limits",    "output",    "text", NULL};
  int64_t *schema = NULL;
  int n = 0;
  nmb__experiment *e = r->e;
  NMB_TRY(nmb__conf_known(r->run, r->root, "the experiment", keys));
  NMB_TRY(nmb__conf_wholes(r->run, r->root, "schema", 1, 1, &schema, &n));
  if (n != 1)
    return bad(r, r->root, "no '%s = 1;' in the experiment", "schema");
  NMB_TRY(nmb__conf_text(r->run, r->root, "name", NULL, &e->name));
  if (!*e->name || strpbrk(e->name, "/ \t\n"))
    return bad(r, config_setting_get_member(r->root, "name"),
               "'%s' cannot name an experiment: files are named after it", e->name);
  NMB_TRY(nmb__conf_text(r->run, r->root, "title", e->name, &e->title));
  NMB_TRY(nmb__conf_text(r->run, r->root, "text", "", &e->sample));
  e->sample = *e->sample ? beside(r, e->sample) : NULL;
  return nmb__conf_text(r->run, r->root, "output",
                        nmb_format(r->run, "results/%s.h5", e->name), &e->output);
}

static nmb_status
read_all(reader *r)
{
  NMB_TRY(read_head(r));
  NMB_TRY(read_plugins(r));
  NMB_TRY(read_variants(r));
  NMB_TRY(read_simulators(r));
  NMB_TRY(read_sweeps(r));
  NMB_TRY(read_skips(r));
  NMB_TRY(read_limits(r));
  nmb__figures figures;
  return nmb__figures_parse(r->run, r->e->path, r->e->text, &figures);
}

nmb_status
nmb__experiment_read(nmb_run *run, const char *path, nmb__experiment **out)
{
  nmb__experiment *e = NMB_NEW(run, nmb__experiment, 1);
  const char *file = NULL;
  *out = NULL;
  NMB_TRY(nmb__find_file(run, "experiments", path, ".cfg", &file));
  e->path = file;
  nmb_status st = nmb__conf_read(run, file, &e->cfg);
  if (st == NMB_OK)
    st = nmb__conf_flatten(run, file, &e->text);
  reader r = {.run = run, .e = e};
  if (st == NMB_OK) {
    r.root = config_root_setting(&e->cfg);
    st = read_all(&r);
  }
  if (st == NMB_OK)
    *out = e;
  else
    nmb__experiment_free(e);
  return st;
}

void
nmb__experiment_free(nmb__experiment *e)
{
  if (!e)
    return;
  for (int i = 0; i < e->nmachine; i++)
    nmb__machine_free(e->machine[i].hw);
  for (int i = 0; i < e->nmodel; i++)
    nmb__wmodel_close(e->model[i].weights);
  config_destroy(&e->cfg);
}
