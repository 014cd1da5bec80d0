/* SPDX-License-Identifier: GPL-3.0-or-later */
/* safetensors files and their index of shards (huggingface/safetensors, the format
 * description): a JSON header, then the tensors, which tile the rest of the file. */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/path.h"
#include "frontend/config.h"
#include "frontend/wfile.h"

#define HEADER_MOST (100u << 20)

typedef struct reader {
  nmb_run *run;
  nmb__wfile *w;
  nmb_loc loc;
  const uint8_t *data;
  uint64_t room; /* bytes of data */
} reader;

static nmb_status
bad(const reader *r, const char *name, const char *key, const json_t *v,
    const char *expected)
{
  return nmb_fail(r->run, NMB_BADINPUT, r->loc, "tensor '%s': %s is %s, expected %s",
                  name, key, v ? nmb__json_show(r->run, v) : "not given", expected);
}

static nmb_status
shape_read(const reader *r, const json_t *j, nmb__wtensor *t)
{
  const json_t *shape = json_object_get(j, "shape");
  const size_t n = json_array_size(shape);
  if (!json_is_array(shape) || n > NMB__WRANK)
    return bad(r, t->name, "shape", shape, "a list of at most 8 dimensions");
  t->rank = (int)n;
  for (size_t i = 0; i < n; i++) {
    const json_t *d = json_array_get(shape, i);
    t->dim[i] = json_integer_value(d);
    if (!json_is_integer(d) || t->dim[i] < 0)
      return bad(r, t->name, "shape", shape, "a list of dimensions");
  }
  return NMB_OK;
}

static nmb_status
tensor_read(const reader *r, const char *name, const json_t *j)
{
  nmb__wtensor t = {.name = nmb_strdup(r->run, name), .file = r->loc.file};
  const json_t *dtype = json_object_get(j, "dtype"),
               *span = json_object_get(j, "data_offsets");
  if (!json_is_object(j))
    return bad(r, name, "its entry", j, "an object");
  const char *s = json_string_value(dtype);
  const int type = s ? nmb__storage_safetensors(s) : NMB_NONE;
  if (type == NMB_NONE)
    return bad(r, name, "dtype", dtype, "one of F32, F16, BF16, F8_E4M3, U8, I32, ..");
  t.type = (nmb__storage)type;
  NMB_TRY(shape_read(r, j, &t));
  NMB_TRY(nmb__wtensor_size(r->run, &t));
  const json_t *b = json_array_get(span, 0), *e = json_array_get(span, 1);
  const json_int_t from = json_integer_value(b), to = json_integer_value(e);
  if (json_array_size(span) != 2 || !json_is_integer(b) || !json_is_integer(e) ||
      from < 0 || to < from || (uint64_t)to > r->room)
    return bad(
        r, name, "data_offsets", span,
        nmb_format(r->run, "[begin, end] within the %" PRIu64 " bytes of data", r->room));
  if ((uint64_t)(to - from) != t.bytes)
    return bad(r, name, "data_offsets", span,
               nmb_format(r->run, "the %" PRIu64 " bytes that its shape and %s need",
                          t.bytes, s));
  t.offset = (uint64_t)from;
  t.data = r->data + from;
  nmb__wtensor_add(r->run, r->w, &t);
  return NMB_OK;
}

static int
by_offset(const void *a, const void *b)
{
  const nmb__wtensor *x = a, *y = b;
  if (x->offset != y->offset)
    return x->offset < y->offset ? -1 : 1;
  return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

/* The tensors [first, ntensor) must tile the data. */
static nmb_status
tile_check(const reader *r, int first)
{
  uint64_t at = 0;
  const int n = r->w->ntensor - first;
  if (n)
    qsort(r->w->tensor + first, (size_t)n, sizeof *r->w->tensor, by_offset);
  for (int i = first; i < r->w->ntensor; i++) {
    const nmb__wtensor *t = &r->w->tensor[i];
    if (t->offset != at)
      return nmb_fail(r->run, NMB_BADINPUT, r->loc,
                      "tensor '%s': it starts at byte %" PRIu64
                      " of the data, expected %" PRIu64 " (%s)",
                      t->name, t->offset, at,
                      t->offset < at ? "it overlaps another" : "there is a hole");
    at += t->bytes;
  }
  if (at != r->room)
    return nmb_fail(r->run, NMB_BADINPUT, r->loc,
                    "the tensors take %" PRIu64 " bytes, but the file has %" PRIu64, at,
                    r->room);
  return NMB_OK;
}

static nmb_status
header_read(const reader *r, const json_t *top)
{
  const int first = r->w->ntensor;
  const char *name;
  json_t *j;
  if (!json_is_object(top))
    return nmb_fail(r->run, NMB_BADINPUT, r->loc, "the header is no object");
  json_object_foreach((json_t *)(uintptr_t)top, name, j)
  {
    if (!strcmp(name, "__metadata__"))
      continue;
    NMB_TRY(tensor_read(r, name, j));
  }
  return tile_check(r, first);
}

nmb_status
nmb__safetensors_read(nmb_run *run, nmb__wfile *w, const char *file, const uint8_t *p,
                      size_t size)
{
  json_error_t err;
  reader r = {run, w, {file, 0, 0}, NULL, 0};
  w->naming = NMB__NAMES_HF;
  const uint64_t n = size < 8 ? UINT64_MAX : nmb__le64(p);
  if (n > HEADER_MOST || n > size - 8 || n < 2 || p[8] != '{')
    return nmb_fail(run, NMB_BADINPUT, r.loc,
                    size < 8 ? "the file has less than 8 bytes, expected a header"
                             : "the file starts with no safetensors header: a length "
                               "within the file, at most 100 MiB, and '{'");
  json_t *top = json_loadb((const char *)p + 8, (size_t)n, JSON_REJECT_DUPLICATES, &err);
  if (!top)
    return nmb_fail(run, NMB_BADINPUT, (nmb_loc){file, err.line, err.column},
                    "header: %s", err.text);
  r.data = p + 8 + n;
  r.room = size - 8 - n;
  const nmb_status s = header_read(&r, top);
  json_decref(top);
  return s;
}

/* ------------------------------------------------------------------- index */
static nmb_status
shard_path(nmb_run *run, const char *index, const char *tensor, const char *file,
           const char **out)
{
  if (!file || !*file || strchr(file, '/') || !strcmp(file, ".."))
    return nmb_fail(run, NMB_BADINPUT, (nmb_loc){index, 0, 0},
                    "tensor '%s': found file %s, expected the name of a file in the same "
                    "folder",
                    tensor, file ? nmb_format(run, "'%s'", file) : "of another type");
  const char *slash = strrchr(index, '/');
  *out = slash ? nmb_format(run, "%.*s/%s", (int)(slash - index), index, file)
               : nmb_strdup(run, file);
  return NMB_OK;
}

static bool
mapped(const nmb__wfile *w, const char *path)
{
  for (int i = 0; i < w->nmap; i++)
    if (!strcmp(w->map[i].path, path))
      return true;
  return false;
}

static nmb_status
shards_read(nmb_run *run, nmb__wfile *w, const char *index, const json_t *map)
{
  const char *name, *path;
  json_t *v;
  json_object_foreach((json_t *)(uintptr_t)map, name, v)
  {
    const uint8_t *p;
    size_t n;
    NMB_TRY(shard_path(run, index, name, json_string_value(v), &path));
    if (mapped(w, path))
      continue;
    NMB_TRY(nmb__map_file(run, w, path, &p, &n));
    NMB_TRY(nmb__safetensors_read(run, w, path, p, n));
  }
  NMB_TRY(nmb__wfile_sort(run, w));
  json_object_foreach((json_t *)(uintptr_t)map, name, v)
  {
    const nmb__wtensor *t = nmb__wfile_find(w, name);
    NMB_TRY(shard_path(run, index, name, json_string_value(v), &path));
    if (!t || strcmp(t->file, path))
      return nmb_fail(run, NMB_BADINPUT, (nmb_loc){index, 0, 0},
                      "tensor '%s': '%s', where the index has it, does not hold it", name,
                      path);
  }
  return NMB_OK;
}

nmb_status
nmb__safetensors_index(nmb_run *run, nmb__wfile *w, const char *path)
{
  size_t len;
  json_error_t err;
  const char *text = nmb__read_file(run, path, &len);
  if (!text)
    return NMB_IO;
  json_t *top = json_loadb(text, len, JSON_REJECT_DUPLICATES, &err);
  if (!top)
    return nmb_fail(run, NMB_BADINPUT, (nmb_loc){path, err.line, err.column}, "%s",
                    err.text);
  const json_t *map = json_object_get(top, "weight_map");
  w->naming = NMB__NAMES_HF;
  const nmb_status s =
      json_object_size(map)
          ? shards_read(run, w, path, map)
          : nmb_fail(run, NMB_BADINPUT, (nmb_loc){path, 0, 0},
                     "weight_map: found %s, expected an object with a file for each "
                     "tensor",
                     map ? nmb__json_show(run, map) : "nothing");
  json_decref(top);
  return s;
}
