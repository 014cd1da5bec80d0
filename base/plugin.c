/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Loader: finds shared objects, checks the contract, keeps the registry (the
 * only mutable file-scope state of the library, as dlopen's is the process's). */
#include "config.h" /* first: names outside of C11 */

#include "base/plugin.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/hash.h"
#include "base/near.h"
#include "base/options.h"
#include "base/path.h"
#include "base/run.h"
#include "base/units.h"

typedef struct loaded {
  const nmb_plugin *plugin;
  char *path;
  void *handle;
  uint64_t digest; /* 0: not yet computed */
} loaded;

typedef struct refused {
  char *path, *why;
} refused;

static struct {
  int n, nrefused;
  loaded *v; /* sorted by name */
  refused *r;
} registry;

typedef nmb_status checker(nmb_run *, const char *path, const nmb_plugin *);

static char *
keep(const char *s)
{
  const size_t n = strlen(s) + 1;
  return memcpy(nmb__xrealloc(NULL, n, 1), s, n);
}

/* ------------------------------------------------------------------ contract */
static nmb_status
check_layout(nmb_run *run, const char *path, const nmb_plugin *p)
{
  const nmb_loc loc = {path, 0, 0};
  if (!p)
    return nmb_fail(run, NMB_BADPLUGIN, loc, "nmb_plugin_entry returns NULL");
  if (p->abi != NMB_ABI)
    return nmb_fail(run, NMB_BADPLUGIN, loc,
                    "plugin has ABI %u, this nmbench has ABI %u; %s", p->abi, NMB_ABI,
                    p->abi < NMB_ABI ? "build it again, after what CHANGELOG.md says of "
                                       "the plugin interface"
                                     : "it needs a newer nmbench");
  if (p->size != sizeof *p)
    return nmb_fail(run, NMB_BADPLUGIN, loc,
                    "descriptor has %u bytes, this nmbench expects %zu; build it again",
                    p->size, sizeof *p);
  return NMB_OK;
}

static bool
plain_name(const char *s)
{
  if (!s || !*s)
    return false;
  return s[strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-+.")] == '\0';
}

static nmb_status
check_texts(nmb_run *run, const char *path, const nmb_plugin *p)
{
  const nmb_loc loc = {path, 0, 0};
  if (!plain_name(p->name))
    return nmb_fail(run, NMB_BADPLUGIN, loc,
                    "found name '%s', expected small letters, digits and '-'",
                    p->name ? p->name : "");
  const struct {
    const char *what, *text;
  } texts[] = {{"kind", p->kind},
               {"version", p->version},
               {"summary", p->summary},
               {"source", p->source},
               {"limits", p->limits}};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    if (!texts[i].text || !*texts[i].text)
      return nmb_fail(run, NMB_BADPLUGIN, loc, "plugin '%s' has no %s", p->name,
                      texts[i].what);
  return NMB_OK;
}

/* The section that passes of this kind write; -1 for other kinds. */
static int
section_of_kind(const char *kind)
{
  static const char *const kinds[] = {
#define X(id, name, kind) kind,
      NMB_SECTION_MAP(X)
#undef X
  };
  for (int s = 0; s < NMB_NSECTION; s++)
    if (!strcmp(kinds[s], kind))
      return s;
  return -1;
}

static nmb_status
check_kind(nmb_run *run, const char *path, const nmb_plugin *p)
{
  const nmb_loc loc = {path, 0, 0};
  const int set = (p->transform != NULL) + (p->evaluate != NULL) + (p->cost != NULL);
  if (set != 1)
    return nmb_fail(run, NMB_BADPLUGIN, loc,
                    "plugin '%s' sets %d callbacks, expected exactly one", p->name, set);
  const int section = section_of_kind(p->kind);
  const bool model = !strcmp(p->kind, "model");
  const bool simulator = !strcmp(p->kind, "simulator") || !strcmp(p->kind, "system");
  if (section < 0 && !simulator && !model)
    return nmb_fail(run, NMB_BADPLUGIN, loc,
                    "plugin '%s': found kind '%s', expected one of rewrite fuse dispatch "
                    "map sched mem "
                    "emit simulator system model",
                    p->name, p->kind);
  if ((section >= 0 && !p->transform) || (simulator && !p->evaluate) ||
      (model && !p->cost))
    return nmb_fail(run, NMB_BADPLUGIN, loc, "plugin '%s' of kind %s must set %s",
                    p->name, p->kind,
                    section >= 0 ? "transform"
                    : simulator  ? "evaluate"
                                 : "cost");
  const nmb_bits writes = section >= 0 ? NMB_BIT(section) : 0;
  if (p->writes != writes)
    return nmb_fail(run, NMB_BADPLUGIN, loc,
                    "plugin '%s' of kind %s declares writes 0x%x, expected 0x%x", p->name,
                    p->kind, p->writes, writes);
  if (p->reads & ~NMB_ALL)
    return nmb_fail(run, NMB_BADPLUGIN, loc,
                    "plugin '%s' reads sections that do not exist: 0x%x", p->name,
                    p->reads & ~NMB_ALL);
  return NMB_OK;
}

static nmb_status
check_tables(nmb_run *run, const char *path, const nmb_plugin *p)
{
  const nmb_loc loc = {path, 0, 0};
  const char *owner = nmb_format(run, "plugin '%s'", p->name);
  NMB_TRY(nmb__options_check(run, loc, owner, p->opts));
  for (const nmb_metric *m = p->metrics; m && m->name; m++) {
    if (!m->unit || !*m->unit || !nmb__units_known(m->unit))
      return nmb_fail(run, NMB_BADPLUGIN, loc, "%s: metric '%s': unknown unit '%s'",
                      owner, m->name, m->unit ? m->unit : "");
    if (!m->better ||
        (strcmp(m->better, "less") && strcmp(m->better, "more") && *m->better))
      return nmb_fail(run, NMB_BADPLUGIN, loc,
                      "%s: metric '%s': found better '%s', expected less, more or ''",
                      owner, m->name, m->better ? m->better : "");
  }
  return NMB_OK;
}

static nmb_status
check_new(nmb_run *run, const char *path, const nmb_plugin *p)
{
  for (int i = 0; i < registry.n; i++)
    if (!strcmp(registry.v[i].plugin->name, p->name))
      return nmb_fail(run, NMB_BADPLUGIN, (nmb_loc){path, 0, 0},
                      "plugin '%s' is already loaded from %s", p->name,
                      registry.v[i].path);
  return NMB_OK;
}

/* ------------------------------------------------------------------- loading */
static void
insert(const nmb_plugin *p, const char *path, void *handle)
{
  registry.v = nmb__xrealloc(registry.v, (size_t)registry.n + 1, sizeof *registry.v);
  int at = registry.n;
  while (at > 0 && strcmp(registry.v[at - 1].plugin->name, p->name) > 0)
    at--;
  memmove(registry.v + at + 1, registry.v + at,
          (size_t)(registry.n - at) * sizeof *registry.v);
  registry.v[at] = (loaded){p, keep(path), handle, 0};
  registry.n++;
}

static nmb_status
open_plugin(nmb_run *run, const char *path)
{
  static checker *const checks[] = {check_layout, check_texts, check_kind, check_tables,
                                    check_new};
  const nmb_loc loc = {path, 0, 0};
  void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char *why = dlerror();
    const size_t n = strlen(path);
    if (!strncmp(why, path, n) && !strncmp(why + n, ": ", 2))
      why += n + 2;
    return nmb_fail(run, NMB_BADPLUGIN, loc, "%s", why);
  }
  const nmb_plugin *(*entry)(void);
  *(void **)&entry = dlsym(handle, "nmb_plugin_entry");
  nmb_status status = NMB_OK;
  if (!entry)
    status = nmb_fail(run, NMB_BADPLUGIN, loc, "exports no nmb_plugin_entry");
  const nmb_plugin *p = entry ? entry() : NULL;
  for (size_t i = 0; status == NMB_OK && i < sizeof checks / sizeof *checks; i++)
    status = checks[i](run, path, p);
  if (status == NMB_OK)
    insert(p, path, handle);
  else
    dlclose(handle);
  return status;
}

static bool
seen(const char *path)
{
  for (int i = 0; i < registry.n; i++)
    if (!strcmp(registry.v[i].path, path))
      return true;
  for (int i = 0; i < registry.nrefused; i++)
    if (!strcmp(registry.r[i].path, path))
      return true;
  return false;
}

/* Loads one file; when it is refused, remembers why and says so once. */
static nmb_status
load_file(nmb_run *run, const char *given, bool named)
{
  char *path = realpath(given, NULL);
  nmb_status status = NMB_OK;
  if (!path)
    return nmb_fail(run, NMB_BADINPUT, (nmb_loc){given, 0, 0},
                    "no such plugin file or folder");
  if (!seen(path)) {
    nmb_run *quiet = nmb__run_open(NULL);
    status = open_plugin(quiet, path);
    if (status != NMB_OK) {
      const char *why = nmb_error_text(quiet);
      if (named)
        nmb_fail(run, status, NMB_NOLOC, "%s", why);
      else
        nmb_warn(run, NMB_NOLOC, "plugin refused: %s", why);
      registry.r =
          nmb__xrealloc(registry.r, (size_t)registry.nrefused + 1, sizeof *registry.r);
      registry.r[registry.nrefused++] = (refused){keep(path), keep(why)};
    }
    nmb__run_close(quiet);
  }
  free(path);
  return named ? status : NMB_OK;
}

static nmb_status
load_entry(nmb_run *run, const char *entry, bool named)
{
  struct stat st;
  const char **names;
  if (stat(entry, &st) == 0 && !S_ISDIR(st.st_mode))
    return load_file(run, entry, named);
  const int n = nmb__folder_files(run, entry, ".so", &names);
  if (n < 0 && named)
    return nmb_fail(run, NMB_BADINPUT, (nmb_loc){entry, 0, 0},
                    "no such plugin file or folder");
  for (int i = 0; i < n; i++)
    NMB_TRY(load_file(run, nmb_format(run, "%s/%s", entry, names[i]), false));
  return NMB_OK;
}

static nmb_status
load_list(nmb_run *run, const char *list, bool named)
{
  for (const char *p = list; p && *p;) {
    const size_t len = strcspn(p, ":");
    if (len)
      NMB_TRY(load_entry(run, nmb_format(run, "%.*s", (int)len, p), named));
    p += len + (p[len] == ':');
  }
  return NMB_OK;
}

nmb_status
nmb__plugins_load(nmb_run *run, const char *extra_path)
{
  NMB_TRY(load_entry(run, nmb__plugin_folder(run), false));
  NMB_TRY(load_list(run, getenv("NMB_PLUGIN_PATH"), false));
  return load_list(run, extra_path, true);
}

void
nmb__plugins_unload(void)
{
  for (int i = 0; i < registry.n; i++) {
    free(registry.v[i].path);
    dlclose(registry.v[i].handle);
  }
  for (int i = 0; i < registry.nrefused; i++) {
    free(registry.r[i].path);
    free(registry.r[i].why);
  }
  free(registry.v);
  free(registry.r);
  memset(&registry, 0, sizeof registry);
}

/* ------------------------------------------------------------------- asking */
int
nmb__plugin_count(void)
{
  return registry.n;
}

const nmb_plugin *
nmb__plugin_at(int i)
{
  return registry.v[i].plugin;
}

static loaded *
entry_of(const char *name)
{
  int lo = 0, hi = registry.n;
  while (lo < hi) {
    const int mid = (lo + hi) / 2;
    const int c = strcmp(name, registry.v[mid].plugin->name);
    if (c == 0)
      return &registry.v[mid];
    if (c < 0)
      hi = mid;
    else
      lo = mid + 1;
  }
  return NULL;
}

const nmb_plugin *
nmb__plugin_find(const char *name)
{
  const loaded *l = entry_of(name);
  return l ? l->plugin : NULL;
}

bool
nmb__plugin_is_pass(const nmb_plugin *p)
{
  return p->transform != NULL;
}

static bool
of_kind(const nmb_plugin *p, const char *kind)
{
  return !strcmp(kind, "pass") ? nmb__plugin_is_pass(p) : !strcmp(kind, p->kind);
}

/* Was a file of that name refused?  lib*.so and name.so both count. */
static const refused *
refused_as(const char *name)
{
  for (int i = 0; i < registry.nrefused; i++) {
    const char *base = strrchr(registry.r[i].path, '/');
    base = base ? base + 1 : registry.r[i].path;
    const size_t n = strlen(name);
    if (!strncmp(base, name, n) && !strcmp(base + n, ".so"))
      return &registry.r[i];
  }
  return NULL;
}

bool
nmb__plugin_refused(const char *name)
{
  return refused_as(name) != NULL;
}

nmb_status
nmb__plugin_need(nmb_run *run, nmb_loc loc, const char *name, const char *kind,
                 const nmb_plugin **out)
{
  *out = nmb__plugin_find(name);
  if (*out && of_kind(*out, kind))
    return NMB_OK;
  if (*out)
    return nmb_fail(run, NMB_BADINPUT, loc, "'%s' is a plugin of kind %s, expected a %s",
                    name, (*out)->kind, kind);
  const refused *r = refused_as(name);
  if (r)
    return nmb_fail(run, NMB_BADPLUGIN, loc, "%s '%s' was refused: %s", kind, name,
                    r->why);
  const char **names = NMB_NEW(run, const char *, registry.n + 1);
  int n = 0;
  for (int i = 0; i < registry.n; i++)
    if (of_kind(registry.v[i].plugin, kind))
      names[n++] = registry.v[i].plugin->name;
  return nmb_fail(run, NMB_BADINPUT, loc, "unknown %s '%s'%s", kind, name,
                  nmb__hint(run, name, names, n));
}

const char *
nmb__plugin_path(const nmb_plugin *p)
{
  const loaded *l = entry_of(p->name);
  return l ? l->path : "";
}

uint64_t
nmb__plugin_digest(const nmb_plugin *p)
{
  loaded *l = entry_of(p->name);
  if (!l)
    nmb__panic("plugin %s is not loaded", p->name);
  if (l->digest == 0) {
    nmb_run *run = nmb__run_open(stderr);
    size_t len;
    const char *bytes = nmb__read_file(run, l->path, &len);
    l->digest = bytes ? nmb__hash(bytes, len) : 0;
    nmb__run_close(run);
  }
  return l->digest;
}
