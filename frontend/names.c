/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Names of models: a path, a file of models/ with or without its owner in any
 * case, an alias, or the start of a name that only one file has. */
#include <ctype.h>
#include <string.h>

#include "base/near.h"
#include "base/path.h"
#include "frontend/wmodel.h"

/* What people say: X(alias, file in models/) */
static const struct {
  const char *alias, *file;
} aliases[] = {
    {"llama-2-7b", "llama-2-7b-hf"},
    {"llama-2-70b", "llama-2-70b-hf"},
    {"llama-3-8b", "meta-llama-3-8b"},
    {"llama-3-70b", "meta-llama-3-70b"},
    {"llama-3.1-8b", "meta-llama-3.1-8b"},
    {"llama-3.1-70b", "meta-llama-3.1-70b"},
    {"llama-3.1-405b", "meta-llama-3.1-405b"},
    {"mistral-7b", "mistral-7b-v0.1"},
    {"olmoe", "olmoe-1b-7b-0924"},
    {"gpt3-175b", "gpt3-175b"},
};

static const char *
lower(nmb_run *run, const char *s)
{
  char *out = nmb_strdup(run, s);
  for (char *c = out; *c; c++)
    *c = (char)tolower((unsigned char)*c);
  return out;
}

static int
starts(const char **files, int n, const char *s, int *hit)
{
  int count = 0;
  for (int i = 0; i < n; i++)
    if (!strncmp(files[i], s, strlen(s))) {
      *hit = i;
      count++;
    }
  return count;
}

static bool
exists(const char **files, int n, const char *s)
{
  for (int i = 0; i < n; i++)
    if (!strcmp(files[i], s))
      return true;
  return false;
}

/* *out: the file's name without extension, or the name itself if none fits. */
static nmb_status
resolve(nmb_run *run, const char *name, const char **out)
{
  const char **files, *s = lower(run, name), *owner = strstr(s, "--");
  const int n = nmb__list_files(run, "models", "json", &files);
  if (owner)
    s = owner + 2;
  for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
    if (!strcmp(aliases[i].alias, s))
      s = aliases[i].file;
  int hit = 0;
  const int count = exists(files, n, s) ? 0 : starts(files, n, s, &hit);
  *out = count == 1 ? files[hit] : s;
  if (count > 1)
    return nmb_fail(run, NMB_BADINPUT, NMB_NOLOC,
                    "model '%s' is the start of %d names, of which %s is one", name,
                    count, files[hit]);
  return NMB_OK;
}

static bool
is_path(const char *name)
{
  const size_t n = strlen(name);
  return !strcmp(name, "-") || strchr(name, '/') ||
         (n > 5 && !strcmp(name + n - 5, ".json"));
}

static const char *
stem(nmb_run *run, const char *path)
{
  const char *base = strrchr(path, '/');
  base = base ? base + 1 : path;
  const size_t n = strlen(base);
  return nmb_format(run, "%.*s",
                    (int)(n > 5 && !strcmp(base + n - 5, ".json") ? n - 5 : n), base);
}

bool
nmb__arch_known(nmb_run *run, const char *name)
{
  const char **files, *s = lower(run, name), *owner = strstr(s, "--");
  const int n = nmb__list_files(run, "models", "json", &files);
  s = owner ? owner + 2 : s;
  for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
    if (!strcmp(aliases[i].alias, s))
      return true;
  int hit;
  return starts(files, n, s, &hit) > 0;
}

/* The architecture alone; all weights must be there. */
static nmb_status
weights_arch(nmb_run *run, const char *path, const nmb__arch **out)
{
  nmb__wmodel *m;
  nmb__arch *a = NMB_NEW(run, nmb__arch, 1);
  NMB_TRY(nmb__wmodel_open(run, path, &m));
  const nmb_status s = nmb__wmodel_check(run, m);
  *a = *m->arch;
  for (int i = 0; i < m->file->ntensor; i++)
    a->stored_bytes += (int64_t)m->file->tensor[i].bytes;
  nmb__wmodel_close(m);
  *out = a;
  return s;
}

nmb_status
nmb__arch_load(nmb_run *run, const char *name, const nmb__arch **out)
{
  const char *path = name;
  if (nmb__wfile_is(name))
    return weights_arch(run, name, out);
  if (!is_path(name)) {
    const char *file;
    NMB_TRY(resolve(run, name, &file));
    NMB_TRY(nmb__find_file(run, "models", file, "json", &path));
  }
  size_t len;
  const char *text = nmb__read_file(run, path, &len);
  if (!text)
    return NMB_IO;
  return nmb__arch_parse(run, path, stem(run, path), text, len, out);
}
