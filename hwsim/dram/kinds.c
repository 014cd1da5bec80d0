/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Finding kinds in the files of the dram folder. */
#include "hwsim/dram/dram.h"

#include <libconfig.h>
#include <stdlib.h>
#include <string.h>

#include "base/near.h"
#include "base/path.h"
#include "base/run.h"

/* One kind that is open in a run. */
typedef struct opened {
  struct opened *next;
  const char *kind, *set;
  const nmb_dram *d;
} opened;

typedef struct names {
  int n, cap;
  const char **v;
} names;

static void
add(nmb_run *run, names *out, const char *name)
{
  if (out->n == out->cap) {
    const char **v = NMB_NEW(run, const char *, out->cap = 2 * out->cap + 64);
    if (out->n)
      memcpy(v, out->v, (size_t)out->n * sizeof *v);
    out->v = v;
  }
  out->v[out->n++] = nmb_strdup(run, name);
}

/* Names of the kinds of one file. */
static nmb_status
of_file(nmb_run *run, const char *path, const char *text, names *out)
{
  config_t cfg;
  config_init(&cfg);
  nmb_status status = NMB_OK;
  if (!config_read_string(&cfg, text))
    status = nmb_fail(run, NMB_BADINPUT, (nmb_loc){path, config_error_line(&cfg), 0},
                      "%s", config_error_text(&cfg));
  const config_setting_t *list = status == NMB_OK ? config_lookup(&cfg, "kinds") : NULL;
  for (int i = 0; list && i < config_setting_length(list); i++) {
    const config_setting_t *row = config_setting_get_elem(list, (unsigned)i);
    const char *name =
        config_setting_is_list(row) ? config_setting_get_string_elem(row, 0) : NULL;
    for (const char *p = name; p && *p;) {
      const size_t n = strcspn(p, " ");
      if (n)
        add(run, out, nmb_format(run, "%.*s", (int)n, p));
      p += n + (p[n] == ' ');
    }
  }
  config_destroy(&cfg);
  return status;
}

static nmb_status
load_text(nmb_run *run, const char *file, const char **path, char **text, size_t *len)
{
  NMB_TRY(nmb__find_file(run, "dram", file, "dram", path));
  *text = nmb__read_file(run, *path, len);
  return *text ? NMB_OK : NMB_IO;
}

static int
by_name(const void *a, const void *b)
{
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

nmb_status
nmb_dram_list(nmb_run *run, const char ***list, int *n)
{
  const char **file;
  const int nfile = nmb__list_files(run, "dram", "dram", &file);
  names all = {0};
  for (int i = 0; i < nfile; i++) {
    const char *path;
    char *text;
    size_t len;
    NMB_TRY(load_text(run, file[i], &path, &text, &len));
    NMB_TRY(of_file(run, path, text, &all));
  }
  if (all.n)
    qsort(all.v, (size_t)all.n, sizeof *all.v, by_name);
  *list = all.v;
  *n = all.n;
  return NMB_OK;
}

static nmb_status
find(nmb_run *run, nmb_run *own, const char *kind, const char *set, const nmb_dram **out)
{
  const char **file;
  const int nfile = nmb__list_files(run, "dram", "dram", &file);
  names all = {0};
  for (int i = 0; i < nfile; i++) {
    const char *path;
    char *text;
    size_t len;
    const int from = all.n;
    NMB_TRY(load_text(run, file[i], &path, &text, &len));
    NMB_TRY(of_file(run, path, text, &all));
    for (int k = from; k < all.n; k++)
      if (!strcmp(all.v[k], kind))
        return nmb__dram_load(run, own, path, text, len, kind, set, out);
  }
  return nmb_fail(run, NMB_BADINPUT, NMB_NOLOC, "no DRAM kind '%s'%s", kind,
                  nmb__hint(run, kind, all.v, all.n));
}

nmb_status
nmb_dram_open(nmb_run *run, const char *kind, const char *set, const nmb_dram **out)
{
  nmb_run *own;
  opened **head = (opened **)nmb__run_keep(run, NMB__KEEP_DRAM, &own);
  set = set ? set : "";
  for (opened *o = *head; o; o = o->next)
    if (!strcmp(o->kind, kind) && !strcmp(o->set, set)) {
      *out = o->d;
      return NMB_OK;
    }
  NMB_TRY(find(run, own, kind, set, out));
  opened *o = NMB_NEW(own, opened, 1);
  *o = (opened){*head, nmb_strdup(own, kind), nmb_strdup(own, set), *out};
  *head = o;
  return NMB_OK;
}

const nmb_dram_info *
nmb_dram_get(const nmb_dram *d)
{
  return &d->info;
}

nmb_id
nmb_dram_command(const nmb_dram *d, const char *name)
{
  for (int i = 0; i < d->info.ncmd; i++)
    if (!strcmp(d->info.cmd[i].name, name))
      return i;
  return NMB_NONE;
}

bool
nmb_dram_value(const nmb_dram *d, const char *name, int64_t *clocks)
{
  for (int i = 0; i < d->nparam; i++)
    if (!strcmp(d->param[i].name, name)) {
      *clocks = d->param[i].value;
      return true;
    }
  return false;
}

int
nmb_dram_bank(const nmb_dram *d, int rank, int sid, int group, int bank)
{
  const int *n = d->info.count;
  return ((rank * n[NMB_DRAM_SID] + sid) * n[NMB_DRAM_GROUP] + group) * n[NMB_DRAM_BANK] +
         bank;
}
