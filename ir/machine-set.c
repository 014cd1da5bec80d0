/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A machine with single values changed from the command line: `refresh=off` becomes
 * a variant file in memory, so that values are checked where files are.
 *
 * A key is a path (engines.pim.refresh), the end of one (pim.refresh), or a name
 * alone: then it is looked up in all entries, and of several the engine in memory
 * counts first, then the memory that it computes in. */
#include "ir/machine.h"

#include <libconfig.h>
#include <string.h>

#include "base/near.h"
#include "base/run.h"

enum { MAXNAME = 1024 };
static const char *const sections[] = {"memories", "engines", "links"};

typedef struct lookup {
  nmb_run *run;
  config_t cfg; /* the machine with all defaults filled in */
  const char *prefer[2]; /* paths of entries that count first */
  int nname;
  const char *name[MAXNAME]; /* for the message: every key there is */
} lookup;

static const char *
member_text(const config_setting_t *g, const char *key)
{
  const char *s = NULL;
  return config_setting_lookup_string(g, key, &s) == CONFIG_TRUE ? s : "";
}

/* The engine in memory and the memory of its weights. */
static void
find_preferred(lookup *l)
{
  const config_setting_t *g = config_lookup(&l->cfg, "engines");
  for (int i = 0; g && i < config_setting_length(g); i++) {
    const config_setting_t *e = config_setting_get_elem(g, (unsigned)i);
    if (strcmp(member_text(e, "in-memory"), "true"))
      continue;
    l->prefer[0] = nmb_format(l->run, "engines.%s", config_setting_name(e));
    l->prefer[1] = nmb_format(l->run, "memories.%s", member_text(e, "resident"));
    return;
  }
}

static void
remember(lookup *l, const char *name)
{
  for (int i = 0; i < l->nname; i++)
    if (!strcmp(l->name[i], name))
      return;
  if (l->nname < MAXNAME)
    l->name[l->nname++] = name;
}

/* Does the dotted path end with the key, at a dot? */
static bool
ends_with(const char *path, const char *key)
{
  const size_t n = strlen(path), k = strlen(key);
  return k <= n && !strcmp(path + n - k, key) && (k == n || path[n - k - 1] == '.');
}

/* All paths that the key may mean; in *best the one that counts. */
static int
find(lookup *l, const char *key, const char **best, const char **others)
{
  int n = 0;
  *best = *others = "";
  for (int s = 0; s < 3; s++) {
    const config_setting_t *g = config_lookup(&l->cfg, sections[s]);
    for (int i = 0; g && i < config_setting_length(g); i++) {
      const config_setting_t *e = config_setting_get_elem(g, (unsigned)i);
      const char *at = nmb_format(l->run, "%s.%s", sections[s], config_setting_name(e));
      for (int j = 0; j < config_setting_length(e); j++) {
        const char *name = config_setting_name(config_setting_get_elem(e, (unsigned)j));
        const char *path = nmb_format(l->run, "%s.%s", at, name);
        remember(l, nmb_strdup(l->run, name));
        if (!ends_with(path, key))
          continue;
        const bool first = l->prefer[0] && !strcmp(at, l->prefer[0]);
        const bool second = l->prefer[1] && !strcmp(at, l->prefer[1]);
        if (first || (second && !(*best && l->prefer[0] &&
                                  !strncmp(*best, l->prefer[0], strlen(l->prefer[0])))))
          *best = path;
        *others = nmb_format(l->run, "%s%s%s", *others, n ? ", " : "", path);
        n++;
      }
    }
  }
  if (n == 1)
    *best = *others;
  return n;
}

static nmb_status
resolve(lookup *l, const char *key, const char **path)
{
  const char *best, *all;
  const nmb_loc loc = {"--set", 0, 0};
  const int n = find(l, key, &best, &all);
  *path = best;
  if (n > 0 && *best)
    return NMB_OK;
  if (n > 0)
    return nmb_fail(l->run, NMB_BADOPTION, loc, "'%s' may mean %s; give the path", key,
                    all);
  const char *last = strrchr(key, '.');
  return nmb_fail(l->run, NMB_BADOPTION, loc,
                  "the machine has no parameter '%s'%s (see 'nmbench show MACHINE')", key,
                  nmb__hint(l->run, last ? last + 1 : key, l->name, l->nname));
}

static const char *
quoted(nmb_run *run, const char *s)
{
  char *out = nmb_alloc(run, 4 * strlen(s) + 3, 1), *p = out;
  *p++ = '"';
  for (; *s; s++) {
    if (*s == '"' || *s == '\\')
      *p++ = '\\';
    *p++ = (unsigned char)*s < 32 ? ' ' : *s;
  }
  *p = '"';
  return out;
}

/* "a=b": the key with hyphens, and the value. */
static nmb_status
cut(nmb_run *run, const char *text, char **key, const char **value)
{
  const char *eq = strchr(text, '=');
  if (!eq || eq == text || !eq[1])
    return nmb_fail(run, NMB_BADOPTION, (nmb_loc){"--set", 0, 0},
                    "found '%s', expected KEY=VALUE", text);
  *key = nmb_format(run, "%.*s", (int)(eq - text), text);
  *value = eq + 1;
  for (char *c = *key; *c; c++)
    *c = *c == '_' ? '-' : *c;
  return NMB_OK;
}

static nmb_status
variant(lookup *l, const char *name, int n, const char *const *set, const char **text)
{
  const char *devices = "", *rows = "";
  for (int i = 0; i < n; i++) {
    char *key = NULL;
    const char *value = NULL, *path = NULL;
    NMB_TRY(cut(l->run, set[i], &key, &value));
    if (!strcmp(key, "devices")) {
      devices = nmb_format(l->run, "devices = %s;\n", quoted(l->run, value));
      continue;
    }
    NMB_TRY(resolve(l, key, &path));
    rows = nmb_format(l->run, "%s%s{ path = %s; value = %s; }", rows, *rows ? ",\n" : "",
                      quoted(l->run, path), quoted(l->run, value));
  }
  *text = nmb_format(l->run, "include = %s;\n%sset = ( %s );\n", quoted(l->run, name),
                     devices, rows);
  return NMB_OK;
}

nmb_status
nmb__machine_load_set(nmb_run *run, const char *name, int n, const char *const *set,
                      nmb_hw **out)
{
  lookup *l = NMB_NEW(run, lookup, 1);
  const char *text;
  nmb_hw *base;
  NMB_TRY(nmb__machine_load(run, name, &base));
  if (n == 0) {
    *out = base;
    return NMB_OK;
  }
  l->run = run;
  config_init(&l->cfg);
  nmb_status st = NMB_OK;
  if (!config_read_string(&l->cfg, nmb__machine_text(run, base)))
    nmb__panic("the text of machine %s does not read back", name);
  find_preferred(l);
  st = variant(l, name, n, set, &text);
  const char *file = nmb_format(run, "%s.hw", base->name);
  config_destroy(&l->cfg);
  nmb__machine_free(base);
  return st == NMB_OK ? nmb__machine_parse(run, file, text, strlen(text), out) : st;
}
