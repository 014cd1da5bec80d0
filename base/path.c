/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Finding files.  An uninstalled build has a file nmbench.paths in its folder,
 * made by configure, which says where source and build are; a program in that
 * folder (or up to two below, as unit tests are) uses these. */
#include "config.h" /* first: names outside of C11 */

#include "base/path.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/near.h"
#include "base/run.h"

typedef struct places {
  const char *source, *build; /* NULL: installed */
} places;

static const char *
line_value(nmb_run *run, const char *text, const char *key)
{
  const char *p = strstr(text, key);
  if (!p)
    return NULL;
  p += strlen(key);
  char *value = nmb_strdup(run, p);
  value[strcspn(value, "\n")] = '\0';
  return value;
}

static char *
slurp(nmb_run *run, FILE *f, size_t *len)
{
  size_t cap = 4096, n = 0, got;
  char *buf = nmb__xrealloc(NULL, cap, 1);
  while ((got = fread(buf + n, 1, cap - n, f)) > 0)
    if ((n += got) == cap)
      buf = nmb__xrealloc(buf, cap *= 2, 1);
  char *text = nmb_alloc(run, n + 1, 1);
  memcpy(text, buf, n);
  free(buf);
  *len = n;
  return text;
}

/* The folder of the running program, "" if unknown. */
static char *
program_folder(nmb_run *run)
{
  char exe[4096];
  const ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
  exe[n > 0 ? n : 0] = '\0';
  char *slash = strrchr(exe, '/');
  if (slash)
    *slash = '\0';
  return nmb_strdup(run, slash ? exe : "");
}

static places
find_places(nmb_run *run)
{
  places at = {NULL, NULL};
  char *dir = program_folder(run);
  for (int up = 0; up < 4; up++) {
    const size_t n = strlen(dir);
    if (n > 6 && !strcmp(dir + n - 6, "/.libs"))
      dir[n - 6] = '\0';
    FILE *f = fopen(nmb_format(run, "%s/nmbench.paths", dir), "r");
    if (f) {
      size_t len;
      const char *text = slurp(run, f, &len);
      fclose(f);
      at.source = line_value(run, text, "source = ");
      at.build = at.source ? dir : NULL;
      return at;
    }
    char *slash = strrchr(dir, '/');
    if (!slash)
      break;
    *slash = '\0';
  }
  return at;
}

/* An installed folder, seen from the program, so that an installation may be
 * moved (or staged with DESTDIR); as configured if it is not there. */
static const char *
installed(nmb_run *run, const char *folder)
{
  static const char bin[] = NMB_BINDIR;
  size_t common = 0, last = 0; /* last: just after the last slash that both share */
  for (; bin[common] && bin[common] == folder[common]; common++)
    if (bin[common] == '/')
      last = common + 1;
  const char *dir = program_folder(run);
  const size_t n = strlen(dir), tail = strlen(bin + last);
  if (last > 0 && n > tail && !strcmp(dir + n - tail, bin + last)) {
    const char *moved = nmb_format(run, "%.*s%s", (int)(n - tail), dir, folder + last);
    if (access(moved, F_OK) == 0)
      return moved;
  }
  return folder;
}

const char *
nmb__plugin_folder(nmb_run *run)
{
  const places at = find_places(run);
  return at.build ? nmb_format(run, "%s/plugins/.libs", at.build)
                  : installed(run, NMB_PLUGINDIR);
}

const char *
nmb__source_folder(nmb_run *run)
{
  return find_places(run).source;
}

static bool
ends_in(const char *name, const char *tail)
{
  const size_t n = strlen(name), t = strlen(tail);
  return n > t && !strcmp(name + n - t, tail);
}

static int
by_name(const void *a, const void *b)
{
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

int
nmb__folder_files(nmb_run *run, const char *folder, const char *ext, const char ***names)
{
  DIR *dir = opendir(folder);
  if (!dir)
    return -1;
  int n = 0, cap = 0;
  const char **list = NULL;
  for (struct dirent *e; (e = readdir(dir));) {
    if (e->d_name[0] == '.' || !ends_in(e->d_name, ext))
      continue;
    if (n == cap)
      list = nmb__xrealloc(list, (size_t)(cap = cap ? 2 * cap : 16), sizeof *list);
    list[n++] = nmb_strdup(run, e->d_name);
  }
  closedir(dir);
  *names = NMB_NEW(run, const char *, n + 1);
  if (n) {
    qsort(list, (size_t)n, sizeof *list, by_name);
    memcpy(*names, list, (size_t)n * sizeof *list);
  }
  free(list);
  return n;
}

/* Folders that the source keeps in hwsim/. */
static bool
in_hwsim(const char *folder)
{
  return !strcmp(folder, "machines") || !strcmp(folder, "validation") ||
         !strcmp(folder, "dram");
}

/* The folders to search, NULL terminated. */
static const char **
search_list(nmb_run *run, const char *folder)
{
  const places at = find_places(run);
  const char *env = getenv("NMB_DATA_PATH");
  size_t n = 3;
  for (const char *p = env; p && *p; p++)
    n += *p == ':';
  const char **list = NMB_NEW(run, const char *, n);
  n = 0;
  for (const char *p = env; p && *p;) {
    const size_t len = strcspn(p, ":");
    if (len) {
      list[n++] = nmb_format(run, "%.*s/%s", (int)len, p, folder);
    }
    p += len + (p[len] == ':');
  }
  if (at.source)
    list[n++] = nmb_format(run, "%s/%s%s", at.source, in_hwsim(folder) ? "hwsim/" : "",
                           folder);
  else
    list[n++] = nmb_format(run, "%s/%s", installed(run, NMB_DATADIR), folder);
  return list;
}

static const char *
dotted(nmb_run *run, const char *ext)
{
  return *ext == '.' || !*ext ? ext : nmb_format(run, ".%s", ext);
}

int
nmb__list_files(nmb_run *run, const char *folder, const char *ext, const char ***names)
{
  const char *dot = dotted(run, ext);
  const char **all = NULL;
  int n = 0;
  for (const char **d = search_list(run, folder); *d; d++) {
    const char **some;
    const int more = nmb__folder_files(run, *d, dot, &some);
    for (int i = 0; i < more; i++) {
      all = nmb__xrealloc(all, (size_t)n + 1, sizeof *all);
      char *name = nmb_strdup(run, some[i]);
      name[strlen(name) - strlen(dot)] = '\0';
      all[n++] = name;
    }
  }
  *names = NMB_NEW(run, const char *, n + 1);
  int kept = 0;
  if (n)
    qsort(all, (size_t)n, sizeof *all, by_name);
  for (int i = 0; i < n; i++)
    if (kept == 0 || strcmp((*names)[kept - 1], all[i]))
      (*names)[kept++] = all[i];
  free(all);
  return kept;
}

static bool
is_file(const char *path)
{
  struct stat st;
  return stat(path, &st) == 0 && !S_ISDIR(st.st_mode);
}

nmb_status
nmb__find_file(nmb_run *run, const char *folder, const char *name, const char *ext,
               const char **path)
{
  const char *dot = dotted(run, ext);
  *path = name;
  if (strchr(name, '/') || (ends_in(name, dot) && is_file(name)))
    return is_file(name)
               ? NMB_OK
               : nmb_fail(run, NMB_IO, (nmb_loc){name, 0, 0}, "%s", strerror(ENOENT));
  const char *tail = ends_in(name, dot) ? "" : dot;
  for (const char **d = search_list(run, folder); *d; d++) {
    *path = nmb_format(run, "%s/%s%s", *d, name, tail);
    if (is_file(*path))
      return NMB_OK;
  }
  const char **names;
  const int n = nmb__list_files(run, folder, ext, &names);
  const int kind = (int)strlen(folder) - 1; /* "models" -> "model" */
  return nmb_fail(run, NMB_BADINPUT, NMB_NOLOC,
                  "unknown %.*s '%s'%s; 'nmbench list' shows what there is", kind, folder,
                  name, nmb__hint(run, name, names, n));
}

char *
nmb__read_file(nmb_run *run, const char *path, size_t *len)
{
  const bool standard = !strcmp(path, "-");
  errno = 0;
  FILE *f = standard ? stdin : fopen(path, "rb");
  char *text = NULL;
  if (f)
    text = slurp(run, f, len);
  if (!f || ferror(f)) { /* fopen opens folders, but reading them fails */
    nmb_fail(run, NMB_IO, (nmb_loc){path, 0, 0}, "%s", strerror(errno ? errno : EIO));
    text = NULL;
  }
  if (f && !standard)
    fclose(f);
  return text;
}
