/* SPDX-License-Identifier: GPL-3.0-or-later */
/* nmb_run: arena, diagnostics, random numbers, budget, options, metrics. */
#include "base/run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <gsl/gsl_rng.h>

/* A chunk of the arena.  Marks are byte counts over the whole chain, so a
 * release frees later chunks and rewinds the one that holds the mark. */
typedef struct chunk {
  struct chunk *prev;
  size_t before; /* bytes in the chunks before this one */
  size_t used, cap;
  max_align_t data[];
} chunk;

struct nmb_run {
  chunk *arena;
  chunk *kept; /* names and labels of metrics and stats, until nmb__run_clear */
  FILE *log;
  char *error;
  uint64_t seed;
  gsl_rng *rng;
  uint64_t budget, spent;
  const nmb_plugin *plugin;
  const nmb__optval *opt;
  int nopt;
  nmb__values metrics, stats;
  nmb_run *keep; /* see nmb__run_keep */
  void *kept_list[NMB__NKEEP];
  bool lenient;
  const void *subject;
  nmb__memo *memo;
  uint64_t memo_machine;
};

#define CHUNK_BYTES ((size_t)256 * 1024)

void
nmb__panic(const char *fmt, ...)
{
  va_list ap;
  va_start(ap, fmt);
  fputs("nmbench: internal error: ", stderr);
  vfprintf(stderr, fmt, ap);
  fputc('\n', stderr);
  va_end(ap);
  abort();
}

void *
nmb__xrealloc(void *old, size_t count, size_t size)
{
  void *p = NULL;
  if (size == 0 || count <= SIZE_MAX / size)
    p = realloc(old, count && size ? count * size : 1);
  if (!p)
    nmb__panic("out of memory: %zu items of %zu bytes", count, size);
  return p;
}

nmb_run *
nmb__run_open(FILE *log)
{
  nmb_run *run = nmb__xrealloc(NULL, 1, sizeof *run);
  memset(run, 0, sizeof *run);
  run->log = log;
  run->budget = UINT64_MAX;
  return run;
}

static void
arena_free(chunk **arena)
{
  while (*arena) {
    chunk *c = *arena;
    *arena = c->prev;
    free(c);
  }
}

void
nmb__run_close(nmb_run *run)
{
  if (!run)
    return;
  arena_free(&run->arena);
  arena_free(&run->kept);
  nmb__run_close(run->keep);
  if (run->rng)
    gsl_rng_free(run->rng);
  free(run->error);
  free(run->metrics.v);
  free(run->stats.v);
  free(run);
}

static void *
take(chunk **arena, size_t count, size_t size)
{
  const size_t align = sizeof(max_align_t);
  if (size && count > (SIZE_MAX - align) / size)
    nmb__panic("allocation of %zu items of %zu bytes overflows", count, size);
  const size_t need = (count * size + align - 1) / align * align;
  chunk *c = *arena;
  if (!c || c->cap - c->used < need) {
    const size_t cap = need > CHUNK_BYTES ? need : CHUNK_BYTES;
    chunk *fresh = nmb__xrealloc(NULL, 1, sizeof *fresh + cap);
    fresh->prev = c;
    fresh->before = c ? c->before + c->used : 0;
    fresh->used = 0;
    fresh->cap = cap;
    *arena = c = fresh;
  }
  void *p = (char *)c->data + c->used;
  c->used += need;
  return memset(p, 0, need);
}

void *
nmb_alloc(nmb_run *run, size_t count, size_t size)
{
  return take(&run->arena, count, size);
}

void **
nmb__run_keep(nmb_run *run, nmb__keep what, nmb_run **own)
{
  if (!run->keep)
    run->keep = nmb__run_open(NULL);
  *own = run->keep;
  return &run->kept_list[what];
}

size_t
nmb__run_bytes(const nmb_run *run)
{
  return run->arena ? run->arena->before + run->arena->used : 0;
}

size_t
nmb__run_mark(nmb_run *run)
{
  return nmb__run_bytes(run);
}

void
nmb__run_release(nmb_run *run, size_t mark)
{
  while (run->arena && run->arena->before >= mark && run->arena->prev) {
    chunk *c = run->arena;
    run->arena = c->prev;
    free(c);
  }
  if (run->arena && run->arena->before + run->arena->used > mark)
    run->arena->used = mark - run->arena->before;
}

char *
nmb_strdup(nmb_run *run, const char *s)
{
  const size_t n = strlen(s) + 1;
  return memcpy(nmb_alloc(run, n, 1), s, n);
}

char *
nmb_format(nmb_run *run, const char *fmt, ...)
{
  va_list ap;
  va_start(ap, fmt);
  va_list again;
  va_copy(again, ap);
  const int n = vsnprintf(NULL, 0, fmt, ap);
  va_end(ap);
  if (n < 0)
    nmb__panic("bad format");
  char *s = nmb_alloc(run, (size_t)n + 1, 1);
  vsnprintf(s, (size_t)n + 1, fmt, again);
  va_end(again);
  return s;
}

/* ------------------------------------------------------------- diagnostics */
static const char *const status_name[] = {
#define X(id, name, text) name,
    NMB_STATUS_MAP(X)
#undef X
};

const char *
nmb_status_name(nmb_status s)
{
  return (int)s >= 0 && s < NMB_NSTATUS ? status_name[s] : "unknown";
}

/* A message without a place is the plugin's, if one is being called. */
static const char *
speaker(const nmb_run *run, nmb_loc loc)
{
  if (loc.file)
    return loc.file;
  return run && run->plugin ? run->plugin->name : "nmbench";
}

/* Bytes of the UTF-8 character at s that a terminal shows as one; 0: it is none, or a
 * control character. */
static size_t
shown(const unsigned char *s)
{
  if (*s < 0x80)
    return *s >= ' ' && *s != 0x7f;
  const size_t n = *s >= 0xc2 && *s < 0xe0 ? 2 : *s >> 4 == 14 ? 3 : *s >> 3 == 30 ? 4 : 0;
  for (size_t i = 1; i < n; i++)
    if (s[i] >> 6 != 2)
      return 0;
  return *s == 0xc2 && s[1] < 0xa0 ? 0 : n;
}

/* A name out of a file may hold anything: it must not write to a terminal but as itself,
 * nor fill it.  Other bytes are shown as \xHH; of a long text the middle is left out, as
 * what was found and expected stands at its end. */
static char *
printable(const char *s)
{
  enum { PART = 1000 };
  const size_t n = strlen(s);
  const bool cut = n > 2 * PART;
  char *out = nmb__xrealloc(NULL, (cut ? 2 * PART : n) + 8, 4), *to = out;
  for (size_t i = 0, k; i < n; i += k ? k : 1) {
    if (cut && i >= PART && i < n - PART) {
      to += sprintf(to, "..");
      i = n - PART;
    }
    if ((k = shown((const unsigned char *)s + i))) {
      memcpy(to, s + i, k);
      to += k;
    } else
      to += sprintf(to, "\\x%02x", (unsigned)(unsigned char)s[i]);
  }
  *to = '\0';
  return out;
}

static char *
place_text(const nmb_run *run, nmb_loc loc)
{
  char buf[64] = "";
  char *file = printable(speaker(run, loc));
  if (loc.file && loc.line > 0 && loc.col > 0)
    snprintf(buf, sizeof buf, ":%d:%d", loc.line, loc.col);
  else if (loc.file && loc.line > 0)
    snprintf(buf, sizeof buf, ":%d", loc.line);
  char *s = nmb__xrealloc(NULL, strlen(file) + strlen(buf) + 1, 1);
  strcpy(s, file);
  strcat(s, buf);
  free(file);
  return s;
}

static void
report(nmb_run *run, const char *level, nmb_loc loc, const char *fmt, va_list ap,
       bool keep)
{
  va_list again;
  va_copy(again, ap);
  const int n = vsnprintf(NULL, 0, fmt, ap);
  char *raw = nmb__xrealloc(NULL, (size_t)(n < 0 ? 0 : n) + 1, 1);
  vsnprintf(raw, (size_t)(n < 0 ? 0 : n) + 1, fmt, again);
  va_end(again);
  char *text = printable(n < 0 ? fmt : raw);
  free(raw);
  char *place = place_text(run, loc);
  if (run && run->log)
    fprintf(run->log, "%s: %s: %s\n", place, level, text);
  if (run && keep) {
    free(run->error);
    if (loc.file || run->plugin) {
      const size_t len = strlen(place) + strlen(text) + 3;
      run->error = nmb__xrealloc(NULL, len, 1);
      snprintf(run->error, len, "%s: %s", place, text);
    } else {
      run->error = text;
      text = NULL;
    }
  }
  free(place);
  free(text);
}

nmb_status
nmb_fail(nmb_run *run, nmb_status status, nmb_loc loc, const char *fmt, ...)
{
  va_list ap;
  va_start(ap, fmt);
  report(run, "error", loc, fmt, ap, true);
  va_end(ap);
  return status;
}

void
nmb_warn(nmb_run *run, nmb_loc loc, const char *fmt, ...)
{
  va_list ap;
  va_start(ap, fmt);
  report(run, "warning", loc, fmt, ap, false);
  va_end(ap);
}

const char *
nmb_error_text(const nmb_run *run)
{
  return run->error ? run->error : "";
}

void
nmb__run_lenient(nmb_run *run, bool lenient)
{
  run->lenient = lenient;
}

bool
nmb__run_is_lenient(const nmb_run *run)
{
  return run->lenient;
}

/* -------------------------------------------------------- random, budget */
void
nmb__run_seed(nmb_run *run, uint64_t seed)
{
  run->seed = seed;
  if (!run->rng)
    run->rng = gsl_rng_alloc(gsl_rng_mt19937);
  /* the generator takes 32 bits: mix all 64 of ours into them (splitmix64) */
  uint64_t z = seed + UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  gsl_rng_set(run->rng, (unsigned long)((z ^ (z >> 31)) & 0xffffffffu));
}

uint64_t
nmb_rand(nmb_run *run)
{
  if (!run->rng)
    nmb__run_seed(run, run->seed);
  const uint64_t hi = gsl_rng_get(run->rng);
  return hi << 32 | gsl_rng_get(run->rng);
}

void
nmb__run_subject_set(nmb_run *run, const void *subject)
{
  run->subject = subject;
}

const void *
nmb__run_subject(const nmb_run *run)
{
  return run->subject;
}

void
nmb__run_memo_set(nmb_run *run, nmb__memo *memo, uint64_t machine)
{
  run->memo = memo;
  run->memo_machine = machine;
}

nmb__memo *
nmb__run_memo(const nmb_run *run, uint64_t *machine)
{
  *machine = run->memo_machine;
  return run->memo;
}

double
nmb_uniform(nmb_run *run)
{
  return (double)(nmb_rand(run) >> 11) * 0x1p-53;
}

uint64_t
nmb__run_seed_get(const nmb_run *run)
{
  return run->seed;
}

void
nmb__run_budget(nmb_run *run, uint64_t evaluations)
{
  run->budget = evaluations;
  run->spent = 0;
}

uint64_t
nmb__run_spent(const nmb_run *run)
{
  return run->spent;
}

bool
nmb_spend(nmb_run *run, uint64_t evaluations)
{
  if (evaluations > run->budget - run->spent)
    return false;
  run->spent += evaluations;
  return true;
}

/* ----------------------------------------------------------------- options */
void
nmb__run_plugin(nmb_run *run, const nmb_plugin *plugin, const nmb__optval *opt, int n)
{
  run->plugin = plugin;
  run->opt = opt;
  run->nopt = n;
}

static const nmb__optval *
option(const nmb_run *run, const char *name)
{
  for (int i = 0; i < run->nopt; i++)
    if (!strcmp(run->opt[i].name, name))
      return &run->opt[i];
  nmb__panic("plugin %s asks for option '%s', which it does not declare",
             run->plugin ? run->plugin->name : "(none)", name);
  return NULL;
}

int64_t
nmb_opt_int(const nmb_run *run, const char *name)
{
  return option(run, name)->integer;
}

double
nmb_opt_real(const nmb_run *run, const char *name)
{
  return option(run, name)->number;
}

bool
nmb_opt_bool(const nmb_run *run, const char *name)
{
  return option(run, name)->integer != 0;
}

const char *
nmb_opt_text(const nmb_run *run, const char *name)
{
  return option(run, name)->text;
}

/* ----------------------------------------------------------------- metrics */
static const char *
kept_text(nmb_run *run, const char *s)
{
  return s ? memcpy(take(&run->kept, strlen(s) + 1, 1), s, strlen(s) + 1) : NULL;
}

static void
value_add(nmb_run *run, nmb__values *vs, const char *name, const char *a,
          const char *b, double value)
{
  if (vs->n == vs->cap) {
    vs->cap = vs->cap ? 2 * vs->cap : 32;
    vs->v = nmb__xrealloc(vs->v, (size_t)vs->cap, sizeof *vs->v);
  }
  vs->v[vs->n++] =
      (nmb__value){kept_text(run, name), kept_text(run, a), kept_text(run, b), value};
}

void
nmb_emit(nmb_run *run, const char *name, double value)
{
  nmb_emit_part(run, name, NULL, NULL, value);
}

void
nmb_emit_part(nmb_run *run, const char *name, const char *a, const char *b,
              double value)
{
  if (run->plugin) {
    const nmb_metric *m = run->plugin->metrics;
    while (m && m->name && strcmp(m->name, name))
      m++;
    if (!m || !m->name)
      nmb__panic("plugin %s emits metric '%s', which it does not declare",
                 run->plugin->name, name);
  }
  value_add(run, &run->metrics, name, a, b, value);
}

void
nmb_stat(nmb_run *run, const char *name, double value)
{
  value_add(run, &run->stats, name, NULL, NULL, value);
}

const nmb__values *
nmb__run_metrics(const nmb_run *run)
{
  return &run->metrics;
}

const nmb__values *
nmb__run_stats(const nmb_run *run)
{
  return &run->stats;
}

void
nmb__run_clear(nmb_run *run)
{
  run->metrics.n = run->stats.n = 0;
  arena_free(&run->kept);
  free(run->error);
  run->error = NULL;
}
