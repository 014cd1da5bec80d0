/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What all weight files share: mapping, the table of tensors, its checks. */
#include "frontend/wfile.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/path.h"

static bool
ends(const char *s, const char *end)
{
  const size_t n = strlen(s), m = strlen(end);
  return n > m && !strcmp(s + n - m, end);
}

void *
nmb__grown(nmb_run *run, void *v, int n, size_t size)
{
  if (n && (n < 8 || (n & (n - 1))))
    return v;
  void *more = nmb_alloc(run, n ? 2 * (size_t)n : 8, size);
  if (n)
    memcpy(more, v, (size_t)n * size);
  return more;
}

/* ----------------------------------------------------------------- mapping */
nmb_status
nmb__map_file(nmb_run *run, nmb__wfile *w, const char *path, const uint8_t **at,
              size_t *bytes)
{
  NMB_TRY(nmb__map(run, path, at, bytes));
  w->map = nmb__grown(run, w->map, w->nmap, sizeof *w->map);
  w->map[w->nmap++] = (struct nmb__mapped){*at, *bytes, path};
  return NMB_OK;
}

void
nmb__wfile_close(nmb__wfile *w)
{
  for (int i = 0; w && i < w->nmap; i++)
    nmb__unmap(w->map[i].at, w->map[i].bytes);
  if (w)
    w->nmap = w->ntensor = 0;
}

/* ------------------------------------------------------------------- table */
nmb_status
nmb__wtensor_size(nmb_run *run, nmb__wtensor *t)
{
  const nmb__storage_info *s = nmb__storage_get(t->type);
  const nmb_loc loc = {t->file, 0, 0};
  int64_t most = 1; /* of dimensions that are not 0: readers multiply some of them */
  t->count = 1;
  for (int i = 0; i < t->rank; i++) {
    if (t->dim[i] < 0 || (t->dim[i] && most > (INT64_C(1) << 60) / t->dim[i]))
      return nmb_fail(run, NMB_BADINPUT, loc,
                      "tensor '%s': dimension %d is %" PRId64
                      ", which gives more than 2^60 elements",
                      t->name, i, t->dim[i]);
    t->count *= t->dim[i];
    most *= t->dim[i] ? t->dim[i] : 1;
  }
  const int64_t row = t->rank ? t->dim[t->rank - 1] : 1;
  if (row % s->elems)
    return nmb_fail(run, NMB_BADINPUT, loc,
                    "tensor '%s': a row has %" PRId64
                    " elements, expected a multiple of the %d in a block of %s",
                    t->name, row, s->elems, s->name);
  t->bytes = (uint64_t)(t->count / s->elems) * (uint64_t)s->bytes;
  return NMB_OK;
}

void
nmb__wtensor_add(nmb_run *run, nmb__wfile *w, const nmb__wtensor *t)
{
  w->tensor = nmb__grown(run, w->tensor, w->ntensor, sizeof *w->tensor);
  w->tensor[w->ntensor++] = *t;
}

void
nmb__meta_add(nmb_run *run, nmb__wfile *w, const nmb__meta *m)
{
  w->meta = nmb__grown(run, w->meta, w->nmeta, sizeof *w->meta);
  w->meta[w->nmeta++] = *m;
}

void
nmb__meta_int(nmb_run *run, nmb__wfile *w, const char *key, int64_t i)
{
  nmb__meta_add(run, w,
                &(nmb__meta){.key = key, .kind = NMB__META_INT, .i = i, .r = (double)i});
}

void
nmb__meta_string(nmb_run *run, nmb__wfile *w, const char *key, const char *s)
{
  nmb__meta_add(
      run, w,
      &(nmb__meta){
          .key = key, .kind = NMB__META_TEXT, .at = (const uint8_t *)s, .n = strlen(s)});
}

static int
by_name(const void *a, const void *b)
{
  const nmb__wtensor *x = a, *y = b;
  return strcmp(x->name, y->name);
}

static int
by_key(const void *a, const void *b)
{
  const nmb__meta *x = a, *y = b;
  return strcmp(x->key, y->key);
}

nmb_status
nmb__wfile_sort(nmb_run *run, nmb__wfile *w)
{
  if (w->ntensor)
    qsort(w->tensor, (size_t)w->ntensor, sizeof *w->tensor, by_name);
  if (w->nmeta)
    qsort(w->meta, (size_t)w->nmeta, sizeof *w->meta, by_key);
  for (int i = 1; i < w->ntensor; i++)
    if (!strcmp(w->tensor[i - 1].name, w->tensor[i].name))
      return nmb_fail(run, NMB_BADINPUT, (nmb_loc){w->tensor[i].file, 0, 0},
                      "tensor '%s': the name stands twice", w->tensor[i].name);
  for (int i = 1; i < w->nmeta; i++)
    if (!strcmp(w->meta[i - 1].key, w->meta[i].key))
      return nmb_fail(run, NMB_BADINPUT, (nmb_loc){w->path, 0, 0},
                      "key '%s': it stands twice", w->meta[i].key);
  return NMB_OK;
}

static int
by_place(const void *a, const void *b)
{
  const nmb__wtensor *x = *(const nmb__wtensor *const *)a,
                     *y = *(const nmb__wtensor *const *)b;
  if (x->data != y->data)
    return x->data < y->data ? -1 : 1;
  return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

nmb_status
nmb__wfile_apart(nmb_run *run, const nmb__wfile *w)
{
  const nmb__wtensor **v = NMB_NEW(run, const nmb__wtensor *, w->ntensor + 1);
  for (int i = 0; i < w->ntensor; i++)
    v[i] = &w->tensor[i];
  if (w->ntensor)
    qsort(v, (size_t)w->ntensor, sizeof *v, by_place);
  for (int i = 1; i < w->ntensor; i++)
    if (v[i - 1]->bytes && v[i]->bytes && v[i - 1]->data + v[i - 1]->bytes > v[i]->data)
      return nmb_fail(run, NMB_BADINPUT, (nmb_loc){v[i]->file, 0, 0},
                      "tensor '%s': its bytes overlap those of '%s'", v[i]->name,
                      v[i - 1]->name);
  return NMB_OK;
}

const nmb__wtensor *
nmb__wfile_find(const nmb__wfile *w, const char *name)
{
  const nmb__wtensor key = {.name = name};
  return w->ntensor ? bsearch(&key, w->tensor, (size_t)w->ntensor, sizeof key, by_name)
                    : NULL;
}

const nmb__meta *
nmb__wfile_meta(const nmb__wfile *w, const char *key)
{
  const nmb__meta m = {.key = key};
  return w->nmeta ? bsearch(&m, w->meta, (size_t)w->nmeta, sizeof m, by_key) : NULL;
}

const char *
nmb__meta_text(nmb_run *run, const nmb__meta *m)
{
  if (!m || m->kind != NMB__META_TEXT || m->n > (1 << 24))
    return "";
  char *s = NMB_NEW(run, char, m->n + 1);
  memcpy(s, m->at, (size_t)m->n);
  return s;
}

/* -------------------------------------------------------------------- open */
/* A bare word may be the name of a model: a folder must look like one. */
static bool
is_model_folder(const char *path)
{
  char config[4096];
  if (strchr(path, '/'))
    return nmb__is_folder(path);
  const int n = snprintf(config, sizeof config, "%s/config.json", path);
  return n > 0 && (size_t)n < sizeof config && nmb__is_file(config);
}

bool
nmb__wfile_is(const char *path)
{
  return ends(path, ".gguf") || ends(path, ".bin") || ends(path, ".safetensors") ||
         ends(path, ".safetensors.index.json") ||
         is_model_folder(path);
}

const char *
nmb__wfile_named(nmb_run *run, const char *name)
{
  static const char *const ext[] = {"gguf", "safetensors", "bin"};
  const char *owner = strstr(name, "--"), **files, *path;
  if (nmb__wfile_is(name) || strchr(name, '/'))
    return nmb__wfile_is(name) ? name : NULL;
  char *s = nmb_strdup(run, owner ? owner + 2 : name);
  for (char *c = s; *c; c++)
    *c = (char)tolower((unsigned char)*c);
  for (size_t i = 0; i < sizeof ext / sizeof *ext; i++) {
    const int n = nmb__list_files(run, "models/weights", ext[i], &files);
    for (int k = 0; k < n; k++)
      if (!strcmp(files[k], s) &&
          nmb__find_file(run, "models/weights", s, ext[i], &path) == NMB_OK)
        return path;
  }
  return NULL;
}

/* "FOLDER/name" beside the file at `path`. */
static const char *
beside(nmb_run *run, const char *path, const char *name)
{
  const char *slash = strrchr(path, '/');
  return slash ? nmb_format(run, "%.*s/%s", (int)(slash - path), path, name)
               : nmb_strdup(run, name);
}

static nmb_status
folder_open(nmb_run *run, nmb__wfile *w, const char **path)
{
  static const char *const names[] = {"model.safetensors.index.json",
                                      "model.safetensors"};
  const char *s, **file;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (nmb__is_file(s = nmb_format(run, "%s/%s", w->path, names[i]))) {
      *path = s;
      return NMB_OK;
    }
  const int n = nmb__folder_files(run, w->path, ".safetensors", &file);
  if (n != 1) {
    const char **pickled;
    const int m = nmb__folder_files(run, w->path, ".bin", &pickled);
    return nmb_fail(run, NMB_BADINPUT, (nmb_loc){w->path, 0, 0},
                    "the folder has no model.safetensors and no "
                    "model.safetensors.index.json%s",
                    m < 1 ? ""
                          : nmb_format(run, "; %s is not read: save it as safetensors",
                                       pickled[0]));
  }
  *path = nmb_format(run, "%s/%s", w->path, file[0]);
  return NMB_OK;
}

/* By the first bytes; a legacy llama2.c file has no magic, only a small width. */
static nmb_status
bytes_read(nmb_run *run, nmb__wfile *w, const char *path, const uint8_t *p, size_t n)
{
  if (n >= 4 && !memcmp(p, "GGUF", 4))
    return nmb__gguf_read(run, w, path, p, n);
  if (n >= 9 && p[8] == '{' && nmb__le64(p) <= n)
    return nmb__safetensors_read(run, w, path, p, n);
  if (n >= 4 && nmb__le32(p) == 0x67676d66)
    return nmb__rwkv_read(run, w, path, p, n);
  if (ends(path, ".bin"))
    return nmb__llama2_read(run, w, path, p, n);
  if (ends(path, ".safetensors"))
    return nmb__safetensors_read(run, w, path, p, n);
  return nmb_fail(run, NMB_BADINPUT, (nmb_loc){path, 0, 0},
                  "found bytes %02x %02x %02x %02x at the start, expected GGUF, "
                  "safetensors, llama2.c or rwkv.cpp",
                  n ? p[0] : 0, n > 1 ? p[1] : 0, n > 2 ? p[2] : 0, n > 3 ? p[3] : 0);
}

static nmb_status
table_check(nmb_run *run, nmb__wfile *w, const char *path)
{
  NMB_TRY(nmb__wfile_sort(run, w));
  NMB_TRY(nmb__wfile_apart(run, w));
  if (!w->ntensor)
    return nmb_fail(run, NMB_BADINPUT, (nmb_loc){path, 0, 0}, "the file has no tensors");
  return NMB_OK;
}

static nmb_status
file_read(nmb_run *run, nmb__wfile *w, const char *path)
{
  const uint8_t *p;
  size_t n;
  NMB_TRY(nmb__map_file(run, w, path, &p, &n));
  return bytes_read(run, w, path, p, n);
}

static nmb_status
any_open(nmb_run *run, nmb__wfile *w)
{
  const char *path = w->path;
  const char *slash = strrchr(path, '/');
  if (!strcmp(slash ? slash + 1 : path, "config.json")) /* its weights are beside it */
    w->path = path = slash ? nmb_format(run, "%.*s", (int)(slash - path + 1), path) : "./";
  if (nmb__is_folder(path))
    NMB_TRY(folder_open(run, w, &path));
  NMB_TRY(ends(path, ".json") ? nmb__safetensors_index(run, w, path)
                              : file_read(run, w, path));
  NMB_TRY(table_check(run, w, path));
  const char *config = beside(run, path, "config.json");
  if (w->naming == NMB__NAMES_HF && nmb__is_file(config))
    w->config = config;
  return NMB_OK;
}

nmb_status
nmb__wfile_open(nmb_run *run, const char *path, nmb__wfile **out)
{
  nmb__wfile *w = NMB_NEW(run, nmb__wfile, 1);
  w->path = nmb_strdup(run, path);
  const nmb_status s = any_open(run, w);
  if (s != NMB_OK)
    nmb__wfile_close(w);
  *out = s == NMB_OK ? w : NULL;
  return s;
}

nmb_status
nmb__wfile_bytes(nmb_run *run, const char *path, const uint8_t *p, size_t n,
                 nmb__wfile **out)
{
  nmb__wfile *w = NMB_NEW(run, nmb__wfile, 1);
  w->path = nmb_strdup(run, path);
  *out = NULL;
  NMB_TRY(bytes_read(run, w, w->path, p, n));
  NMB_TRY(table_check(run, w, w->path));
  *out = w;
  return NMB_OK;
}
