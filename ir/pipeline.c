/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The pipeline manager: runs plugins and holds them to their declarations. */
#include "config.h" /* first: names outside of C11 */

#include "ir/pipeline.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/options.h"
#include "base/plugin.h"

static const char *const section_names[] = {
#define X(id, name, kind) name,
    NMB_SECTION_MAP(X)
#undef X
};

const char *
nmb__section_name(nmb_section s)
{
  return section_names[s];
}

const char *
nmb__sections_text(nmb_run *run, nmb_bits set)
{
  const char *list = "";
  for (int s = 0; s < NMB_NSECTION; s++)
    if (set & NMB_BIT(s))
      list = nmb_format(run, "%s%s%s", list, *list ? " " : "", section_names[s]);
  return list;
}

/* ---------------------------------------------------------------------- text */
/* The length of one stage: up to a comma outside of braces and quotes; -1 if
 * braces or quotes do not match. */
static long
stage_length(const char *s)
{
  int depth = 0;
  bool quoted = false;
  long n = 0;
  for (; s[n] && (s[n] != ',' || depth || quoted); n++) {
    if (s[n] == '"')
      quoted = !quoted;
    else if (!quoted && s[n] == '{')
      depth++;
    else if (!quoted && s[n] == '}' && depth-- == 0)
      return -1;
  }
  return depth || quoted ? -1 : n;
}

static char *
trimmed(nmb_run *run, const char *s, size_t n)
{
  while (n && strchr(" \t\n", *s))
    s++, n--;
  while (n && strchr(" \t\n", s[n - 1]))
    n--;
  char *t = nmb_alloc(run, n + 1, 1);
  return memcpy(t, s, n);
}

/* "name" or "name{options}" of a plugin of that kind ("pass": any pass). */
static nmb_status
stage_parse(nmb_run *run, nmb_loc loc, char *text, const char *kind, nmb__stage *out)
{
  char *options = strchr(text, '{');
  const size_t n = strlen(text);
  if (options) {
    if (text[n - 1] != '}')
      return nmb_fail(run, NMB_BADINPUT, loc,
                      "found '%s', expected NAME{option=value,...}", text);
    text[n - 1] = '\0';
    *options++ = '\0';
  }
  if (!*text)
    return nmb_fail(run, NMB_BADINPUT, loc, "found nothing, expected the name of a %s",
                    kind);
  NMB_TRY(nmb__plugin_need(run, loc, text, kind, &out->plugin));
  return nmb__options_parse(run, loc, nmb_format(run, "%s '%s'", kind, text),
                            out->plugin->opts, options, &out->opt, &out->nopt);
}

nmb_status
nmb__pipeline_split(nmb_run *run, nmb_loc loc, const char *text, const char ***out,
                    int *n)
{
  size_t most = 1;
  for (const char *p = text; *p; p++)
    most += *p == ',';
  *out = NMB_NEW(run, const char *, most);
  *n = 0;
  if (!text[strspn(text, " \t\n")])
    return NMB_OK;
  for (const char *p = text;; p++) {
    const long len = stage_length(p);
    if (len < 0)
      return nmb_fail(run, NMB_BADINPUT, loc, "braces or quotes do not match in '%s'",
                      text);
    (*out)[(*n)++] = trimmed(run, p, (size_t)len);
    p += len;
    if (!*p)
      return NMB_OK;
  }
}

nmb_status
nmb__pipeline_parse(nmb_run *run, nmb_loc loc, const char *text, nmb__pipeline *out)
{
  const char **stage;
  int n;
  NMB_TRY(nmb__pipeline_split(run, loc, text, &stage, &n));
  *out = (nmb__pipeline){n, NMB_NEW(run, nmb__stage, n)};
  for (int i = 0; i < n; i++)
    NMB_TRY(stage_parse(run, loc, nmb_strdup(run, stage[i]), "pass", &out->stage[i]));
  return NMB_OK;
}

static const char *
stage_text(nmb_run *run, const nmb__stage *s)
{
  return nmb_format(run, "%s%s", s->plugin->name,
                    nmb__options_text(run, s->plugin->opts, s->opt, s->nopt));
}

/* The stages from `from` on. */
static const char *
tail_text(nmb_run *run, const nmb__pipeline *p, int from)
{
  const char *text = "";
  for (int i = from; i < p->n; i++)
    text = nmb_format(run, "%s%s%s", text, i > from ? "," : "",
                      stage_text(run, &p->stage[i]));
  return text;
}

const char *
nmb__pipeline_text(nmb_run *run, const nmb__pipeline *p)
{
  return tail_text(run, p, 0);
}

/* ---------------------------------------------------------------- the contract */
typedef struct hashes {
  nmb_bits present;
  uint64_t v[NMB_NSECTION];
} hashes;

static hashes
hash_all(const nmb_prog *p)
{
  hashes h = {.present = p->present};
  for (int s = 0; s < NMB_NSECTION; s++)
    if (p->present & NMB_BIT(s))
      h.v[s] = nmb_prog_hash(p, (nmb_section)s);
  return h;
}

static nmb_status
check_reads(nmb_run *run, const nmb_prog *p, const nmb_plugin *plugin)
{
  const nmb_bits missing = plugin->reads & ~p->present;
  if (!missing)
    return NMB_OK;
  const char *text = "";
  for (int s = 0; s < NMB_NSECTION; s++) {
    if (!(missing & NMB_BIT(s)))
      continue;
    const char *by = "";
    for (int i = 0; i < nmb__plugin_count(); i++)
      if (nmb__plugin_at(i)->writes & NMB_BIT(s))
        by = nmb_format(run, "%s%s%s", by, *by ? ", " : "", nmb__plugin_at(i)->name);
    text = nmb_format(run, "%s%s%s (written by %s)", text, *text ? ", " : "",
                      section_names[s], *by ? by : "no loaded pass");
  }
  return nmb_fail(run, NMB_BADINPUT, NMB_NOLOC,
                  "'%s' needs what the program does not have: %s", plugin->name, text);
}

/* After a call: `writes` may differ and what comes after it may be gone; all else
 * is as before. */
static nmb_status
check_writes(nmb_run *run, const nmb_plugin *plugin, const hashes *before,
             const hashes *after)
{
  int written = NMB_NSECTION; /* a simulator: nothing may be dropped */
  for (int s = 0; s < NMB_NSECTION; s++)
    if (plugin->writes & NMB_BIT(s))
      written = s;
  if (written < NMB_NSECTION && !(after->present & NMB_BIT(written)))
    return nmb_fail(run, NMB_BADPLUGIN, NMB_NOLOC, "'%s' did not write section %s",
                    plugin->name, section_names[written]);
  for (int s = 0; s < NMB_NSECTION; s++) {
    const bool was = before->present & NMB_BIT(s), is = after->present & NMB_BIT(s);
    if (s == written || (!was && !is) || (was && !is && s > written))
      continue;
    if (!was || !is || before->v[s] != after->v[s])
      return nmb_fail(run, NMB_BADPLUGIN, NMB_NOLOC,
                      "'%s' %s section %s, which it does not declare", plugin->name,
                      !was  ? "added"
                      : !is ? "dropped"
                            : "changed",
                      section_names[s]);
  }
  return NMB_OK;
}

/* ------------------------------------------------------------------ one call */
static double
now(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static const nmb__optval *
option(const nmb__stage *s, const char *name)
{
  for (int i = 0; i < s->nopt; i++)
    if (!strcmp(s->opt[i].name, name))
      return &s->opt[i];
  return NULL;
}

/* Options, budget and random numbers of the next call. */
static void
enter(nmb_run *run, const nmb__stage *s, uint64_t seed)
{
  const nmb__optval *budget = option(s, "budget"), *own = option(s, "seed");
  nmb__run_budget(run, budget ? (uint64_t)budget->integer : UINT64_MAX);
  nmb__run_seed(run, own ? seed ^ (uint64_t)own->integer << 1 : seed);
  nmb__run_plugin(run, s->plugin, s->opt, s->nopt);
}

static void
leave(nmb_run *run, uint64_t seed)
{
  nmb__run_plugin(run, NULL, NULL, 0);
  nmb__run_seed(run, seed);
}

static nmb_status
call_pass(nmb_run *run, nmb_prog *p, const nmb__stage *s, hashes *h)
{
  const nmb_plugin *plugin = s->plugin;
  const uint64_t seed = nmb__run_seed_get(run);
  NMB_TRY(check_reads(run, p, plugin));
  if (!p->hw && plugin->writes != NMB_BIT(NMB_GRAPH))
    return nmb_fail(run, NMB_BADINPUT, NMB_NOLOC, "'%s' needs a machine, none is chosen",
                    plugin->name);
  enter(run, s, seed);
  const nmb_status status = plugin->transform(run, p);
  leave(run, seed);
  if (status != NMB_OK) {
    if (!*nmb_error_text(run))
      nmb_fail(run, status, NMB_NOLOC, "'%s' gave up without a reason", plugin->name);
    return status;
  }
  if (plugin->writes & NMB_BIT(NMB_GRAPH))
    nmb_prog_compact(p);
  const hashes after = hash_all(p);
  NMB_TRY(check_writes(run, plugin, h, &after));
  *h = after;
  return nmb_prog_verify(run, p, plugin->writes);
}

/* --------------------------------------------------------------- the pipeline */
/* Program, rest of the pipeline and (if known yet) the error, in one file that
 * parses; written before each pass so that it is there if the pass dies. */
static nmb_status
write_repro(nmb_run *run, const nmb_prog *p, const nmb__pipeline *pl, int at,
            const char *path, FILE **open)
{
  FILE *f = fopen(path, "w");
  if (!f)
    return nmb_fail(run, NMB_IO, (nmb_loc){path, 0, 0}, "%s", strerror(errno));
  fprintf(f, "# the program before pass '%s'; to see it fail again:\n",
          pl->stage[at].plugin->name);
  fprintf(f, "# nmbench compile THIS-FILE -p '%s'\n", tail_text(run, pl, at));
  fprintf(f, "# seed: %llu\n", (unsigned long long)nmb__run_seed_get(run));
  nmb_prog_print(p, NMB_ALL, f);
  fflush(f);
  *open = f;
  return NMB_OK;
}

static nmb_status
close_repro(nmb_run *run, FILE *f, const char *path, nmb_status status)
{
  if (!f)
    return status;
  if (status != NMB_OK)
    fprintf(f, "# %s: %s\n", nmb_status_name(status), nmb_error_text(run));
  const bool bad = ferror(f);
  if (fclose(f) != 0 || bad)
    return nmb_fail(run, NMB_IO, (nmb_loc){path, 0, 0}, "cannot write the repro file");
  if (status == NMB_OK)
    remove(path);
  return status;
}

static void
print_after(const nmb__pipeline_hooks *k, const nmb_prog *p, const nmb__stage *s,
            const hashes *before, const hashes *after)
{
  const bool named = k->print_after && (!strcmp(k->print_after, "all") ||
                                        !strcmp(k->print_after, s->plugin->name));
  nmb_bits changed = 0;
  for (int i = 0; i < NMB_NSECTION; i++)
    if ((after->present & NMB_BIT(i)) &&
        (!(before->present & NMB_BIT(i)) || before->v[i] != after->v[i]))
      changed |= NMB_BIT(i);
  if (!k->print || (!named && !k->print_changed))
    return;
  if (k->print_changed && !changed) {
    fprintf(k->print, "# after %s: no change\n", s->plugin->name);
    return;
  }
  fprintf(k->print, "# after %s\n", s->plugin->name);
  nmb_prog_print(p, k->print_changed ? changed : NMB_ALL, k->print);
}

static bool
same(const hashes *a, const hashes *b)
{
  return a->present == b->present && !memcmp(a->v, b->v, sizeof a->v);
}

static nmb_status
run_stage(nmb_run *run, nmb_prog *p, const nmb__stage *s, hashes *h,
          const nmb__pipeline_hooks *k)
{
  const size_t mark = nmb__run_mark(run);
  const hashes before = *h;
  const int nstat = nmb__run_stats(run)->n;
  const double start = now();
  const nmb_status status = call_pass(run, p, s, h);
  const double seconds = now() - start;
  nmb__run_release(run, mark);
  if (status != NMB_OK || !k)
    return status;
  const nmb__values *stats = nmb__run_stats(run);
  const nmb__pass_report report = {.stage = s,
                                   .seconds = seconds,
                                   .spent = nmb__run_spent(run),
                                   .changed = !same(&before, h),
                                   .nstat = stats->n - nstat,
                                   .stat = stats->v + nstat};
  if (k->done)
    k->done(k->arg, &report);
  print_after(k, p, s, &before, h);
  return NMB_OK;
}

nmb_status
nmb__pipeline_run(nmb_run *run, nmb_prog *p, const nmb__pipeline *pl,
                  const nmb__pipeline_hooks *k)
{
  hashes h = hash_all(p);
  for (int i = 0; i < pl->n; i++) {
    FILE *repro = NULL;
    if (k && k->repro)
      NMB_TRY(write_repro(run, p, pl, i, k->repro, &repro));
    nmb_status status = run_stage(run, p, &pl->stage[i], &h, k);
    status = close_repro(run, repro, k ? k->repro : NULL, status);
    NMB_TRY(status);
  }
  return NMB_OK;
}

/* ----------------------------------------------------------------- simulators */
static const nmb_metric *
metric_of(const nmb_plugin *p, const char *name)
{
  for (const nmb_metric *m = p->metrics; m && m->name; m++)
    if (!strcmp(m->name, name))
      return m;
  return NULL;
}

static nmb_status
check_values(nmb_run *run, const nmb_plugin *p, int from)
{
  const nmb__values *vs = nmb__run_metrics(run);
  for (int i = from; i < vs->n; i++) {
    const nmb__value *v = &vs->v[i];
    const nmb_metric *m = metric_of(p, v->name); /* declared: nmb_emit checked it */
    const bool may = m && (*m->unit == 'J' || !strcmp(m->unit, "W"));
    if (isfinite(v->value) || (isnan(v->value) && may))
      continue;
    return nmb_fail(run, NMB_BADPLUGIN, NMB_NOLOC,
                    "%s '%s' gives %s%s%s%s%s = %g, expected a finite number",
                    p->kind, p->name, v->name, v->a ? "," : "", v->a ? v->a : "",
                    v->b ? "," : "", v->b ? v->b : "", v->value);
  }
  return NMB_OK;
}

nmb_status
nmb__simulate(nmb_run *run, const nmb_prog *p, const char *text)
{
  nmb__stage s;
  const size_t mark = nmb__run_mark(run);
  const uint64_t seed = nmb__run_seed_get(run);
  const int from = nmb__run_metrics(run)->n;
  NMB_TRY(stage_parse(run, NMB_NOLOC, trimmed(run, text, strlen(text)), "simulator", &s));
  NMB_TRY(check_reads(run, p, s.plugin));
  if (!p->hw)
    return nmb_fail(run, NMB_BADINPUT, NMB_NOLOC,
                    "simulator '%s' needs a machine, none is chosen", s.plugin->name);
  const hashes before = hash_all(p);
  enter(run, &s, seed);
  const nmb_status status = s.plugin->evaluate(run, p);
  leave(run, seed);
  if (status == NMB_OK) {
    const hashes after = hash_all(p);
    NMB_TRY(check_writes(run, s.plugin, &before, &after));
    NMB_TRY(check_values(run, s.plugin, from));
  } else if (!*nmb_error_text(run))
    nmb_fail(run, status, NMB_NOLOC, "simulator '%s' gave up without a reason",
             s.plugin->name);
  nmb__run_release(run, mark);
  return status;
}

nmb_status
nmb__system_run(nmb_run *run, const char *text)
{
  nmb__stage s;
  const uint64_t seed = nmb__run_seed_get(run);
  const int from = nmb__run_metrics(run)->n;
  NMB_TRY(stage_parse(run, NMB_NOLOC, trimmed(run, text, strlen(text)), "system", &s));
  enter(run, &s, seed);
  const nmb_status status = s.plugin->evaluate(run, NULL);
  leave(run, seed);
  if (status == NMB_OK)
    return check_values(run, s.plugin, from);
  if (!*nmb_error_text(run))
    nmb_fail(run, status, NMB_NOLOC, "system '%s' gave up without a reason",
             s.plugin->name);
  return status;
}
