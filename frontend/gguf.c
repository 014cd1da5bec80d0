/* SPDX-License-Identifier: GPL-3.0-or-later */
/* GGUF, versions 2 and 3, little-endian, in one file or in parts (ggml-org/llama.cpp,
 * gguf.h, gguf-split). */
#include <inttypes.h>
#include <string.h>

#include "base/hash.h"
#include "frontend/wfile.h"

typedef struct cursor {
  nmb_run *run;
  const char *file;
  const uint8_t *start, *p, *end;
} cursor;

/* GGUF's numbers of value types. */
enum {
  V_U8,
  V_I8,
  V_U16,
  V_I16,
  V_U32,
  V_I32,
  V_F32,
  V_BOOL,
  V_TEXT,
  V_LIST,
  V_U64,
  V_I64,
  V_F64,
  NVALUE
};
static const uint8_t value_bytes[NVALUE] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

static nmb_status
fail(const cursor *c, const char *what)
{
  return nmb_fail(c->run, NMB_BADINPUT, (nmb_loc){c->file, 0, 0},
                  "the file ends at byte %zu, inside %s", (size_t)(c->end - c->start),
                  what);
}

static nmb_status
take(cursor *c, uint64_t n, const char *what, const uint8_t **out)
{
  if (n > (uint64_t)(c->end - c->p))
    return fail(c, what);
  *out = c->p;
  c->p += n;
  return NMB_OK;
}

static nmb_status
take32(cursor *c, const char *what, uint32_t *v)
{
  const uint8_t *b = NULL;
  NMB_TRY(take(c, 4, what, &b));
  *v = nmb__le32(b);
  return NMB_OK;
}

static nmb_status
take64(cursor *c, const char *what, uint64_t *v)
{
  const uint8_t *b = NULL;
  NMB_TRY(take(c, 8, what, &b));
  *v = nmb__le64(b);
  return NMB_OK;
}

/* A name: text without NUL, short. */
static nmb_status
take_name(cursor *c, const char *what, const char **out)
{
  uint64_t n;
  const uint8_t *b = NULL;
  NMB_TRY(take64(c, what, &n));
  if (n > 65535)
    return nmb_fail(c->run, NMB_BADINPUT, (nmb_loc){c->file, 0, 0},
                    "%s at byte %zu has %" PRIu64 " bytes, expected at most 65535", what,
                    (size_t)(c->p - c->start), n);
  NMB_TRY(take(c, n, what, &b));
  if (!n || memchr(b, 0, (size_t)n))
    return nmb_fail(c->run, NMB_BADINPUT, (nmb_loc){c->file, 0, 0},
                    "%s at byte %zu is empty or holds a NUL", what,
                    (size_t)(b - c->start));
  *out = nmb_format(c->run, "%.*s", (int)n, (const char *)b);
  return NMB_OK;
}

/* ------------------------------------------------------------------ values */
static void
number(const uint8_t *b, uint32_t type, nmb__meta *m)
{
  uint64_t u = 0;
  switch (type) {
  case V_U8: m->i = *b; break;
  case V_I8: m->i = (int8_t)*b; break;
  case V_U16: m->i = nmb__le16(b); break;
  case V_I16: m->i = (int16_t)nmb__le16(b); break;
  case V_U32: m->i = nmb__le32(b); break;
  case V_I32: m->i = (int32_t)nmb__le32(b); break;
  case V_U64:
    u = nmb__le64(b);
    m->i = u > INT64_MAX ? INT64_MAX : (int64_t)u;
    break;
  case V_I64: m->i = (int64_t)nmb__le64(b); break;
  case V_BOOL: m->i = *b != 0; break;
  default: break;
  }
  m->kind = type == V_BOOL ? NMB__META_BOOL : NMB__META_INT;
  m->r = (double)m->i;
  if (type == V_F32 || type == V_F64) {
    m->kind = NMB__META_REAL;
    m->r = nmb__lefloat(b);
    if (type == V_F64) {
      u = nmb__le64(b);
      memcpy(&m->r, &u, sizeof m->r);
    }
  }
}

/* Steps over n values of the type. */
static nmb_status
skip(cursor *c, uint32_t type, uint64_t n, const char *key, int depth)
{
  const uint8_t *b = NULL;
  const uint64_t least = type < NVALUE && value_bytes[type] ? value_bytes[type]
                         : type == V_TEXT                   ? 8
                                                            : 12;
  if (type >= NVALUE || depth > 4)
    return nmb_fail(c->run, NMB_BADINPUT, (nmb_loc){c->file, 0, 0},
                    "key '%s': found value type %" PRIu32
                    ", expected 0 to %d, lists nested four deep at most",
                    key, type, NVALUE - 1);
  if (n > (uint64_t)(c->end - c->p) / least)
    return nmb_fail(c->run, NMB_BADINPUT, (nmb_loc){c->file, 0, 0},
                    "key '%s': %" PRIu64 " values do not fit in the file", key, n);
  if (value_bytes[type])
    return take(c, n * value_bytes[type], key, &b);
  for (uint64_t i = 0; i < n; i++) {
    uint64_t m;
    uint32_t inner;
    if (type == V_TEXT) {
      NMB_TRY(take64(c, key, &m));
      NMB_TRY(take(c, m, key, &b));
      continue;
    }
    NMB_TRY(take32(c, key, &inner));
    NMB_TRY(take64(c, key, &m));
    NMB_TRY(skip(c, inner, m, key, depth + 1));
  }
  return NMB_OK;
}

static nmb_status
value(cursor *c, uint32_t type, nmb__meta *m)
{
  if (type == V_TEXT) {
    m->kind = NMB__META_TEXT;
    NMB_TRY(take64(c, m->key, &m->n));
    return take(c, m->n, m->key, &m->at);
  }
  if (type == V_LIST) {
    m->kind = NMB__META_LIST;
    NMB_TRY(take32(c, m->key, &m->element));
    NMB_TRY(take64(c, m->key, &m->n));
    m->at = c->p;
    return skip(c, m->element, m->n, m->key, 0);
  }
  m->at = c->p;
  NMB_TRY(skip(c, type, 1, m->key, 0));
  number(m->at, type, m);
  return NMB_OK;
}

double
nmb__meta_number(const nmb__meta *m, uint64_t i)
{
  nmb__meta v = {0};
  if (i < m->n && m->element < NVALUE && value_bytes[m->element])
    number(m->at + i * value_bytes[m->element], m->element, &v);
  return v.r;
}

static nmb_status
metas_read(cursor *c, nmb__wfile *w, uint64_t n)
{
  for (uint64_t i = 0; i < n; i++) {
    nmb__meta m = {0};
    uint32_t type;
    NMB_TRY(take_name(c, "the name of a key", &m.key));
    NMB_TRY(take32(c, m.key, &type));
    NMB_TRY(value(c, type, &m));
    nmb__meta_add(c->run, w, &m);
  }
  return NMB_OK;
}

/* ----------------------------------------------------------------- tensors */
static nmb_status
type_of(const cursor *c, const char *name, uint32_t type, nmb__storage *out)
{
  static const struct {
    uint32_t type;
    const char *name;
  } grids[] = {{16, "IQ2_XXS"}, {17, "IQ2_XS"}, {18, "IQ3_XXS"}, {19, "IQ1_S"},
               {21, "IQ3_S"},   {22, "IQ2_S"},  {29, "IQ1_M"}};
  const int s = nmb__storage_gguf(type);
  if (s != NMB_NONE) {
    *out = (nmb__storage)s;
    return NMB_OK;
  }
  for (size_t i = 0; i < sizeof grids / sizeof *grids; i++)
    if (grids[i].type == type)
      return nmb_fail(c->run, NMB_UNSUPPORTED, (nmb_loc){c->file, 0, 0},
                      "tensor '%s' is stored as %s, whose code book is not supported",
                      name, grids[i].name);
  return nmb_fail(c->run, NMB_BADINPUT, (nmb_loc){c->file, 0, 0},
                  "tensor '%s': found type %" PRIu32
                  ", which no file should have; expected one of F32, F16, Q8_0, ..",
                  name, type);
}

static nmb_status
tensor_read(cursor *c, nmb__wtensor *t)
{
  uint32_t rank, type;
  NMB_TRY(take_name(c, "the name of a tensor", &t->name));
  NMB_TRY(take32(c, t->name, &rank));
  if (rank < 1 || rank > 4)
    return nmb_fail(c->run, NMB_BADINPUT, (nmb_loc){c->file, 0, 0},
                    "tensor '%s': found %" PRIu32 " dimensions, expected 1 to 4", t->name,
                    rank);
  t->rank = (int)rank;
  for (int i = t->rank - 1; i >= 0; i--) { /* the file has the fastest one first */
    uint64_t d;
    NMB_TRY(take64(c, t->name, &d));
    if (d < 1 || d > INT64_MAX)
      return nmb_fail(c->run, NMB_BADINPUT, (nmb_loc){c->file, 0, 0},
                      "tensor '%s': a dimension is %" PRIu64 ", expected 1 to 2^60",
                      t->name, d);
    t->dim[i] = (int64_t)d;
  }
  NMB_TRY(take32(c, t->name, &type));
  NMB_TRY(take64(c, t->name, &t->offset));
  NMB_TRY(type_of(c, t->name, type, &t->type));
  return nmb__wtensor_size(c->run, t);
}

static nmb_status
tensors_read(cursor *c, nmb__wfile *w, uint64_t n, uint64_t align)
{
  for (uint64_t i = 0; i < n; i++) {
    nmb__wtensor t = {.file = c->file};
    NMB_TRY(tensor_read(c, &t));
    if (t.offset % align)
      return nmb_fail(c->run, NMB_BADINPUT, (nmb_loc){c->file, 0, 0},
                      "tensor '%s' starts at byte %" PRIu64
                      " of the data, expected a multiple of %" PRIu64,
                      t.name, t.offset, align);
    nmb__wtensor_add(c->run, w, &t);
  }
  const uint64_t head = (uint64_t)(c->p - c->start), pad = (align - head % align) % align;
  const uint64_t all = (uint64_t)(c->end - c->start);
  for (uint64_t i = 0; i < n; i++) {
    nmb__wtensor *t = &w->tensor[i];
    const uint64_t room = all < head + pad ? 0 : all - head - pad;
    if (t->offset > room || t->bytes > room - t->offset)
      return nmb_fail(c->run, NMB_BADINPUT, (nmb_loc){c->file, 0, 0},
                      "tensor '%s': its %" PRIu64 " bytes from byte %" PRIu64
                      " of the data on go past the end of the file (%" PRIu64
                      " bytes of data)",
                      t->name, t->bytes, t->offset, room);
    t->data = c->start + head + pad + t->offset;
  }
  return NMB_OK;
}

/* ------------------------------------------------------------------- whole */
static nmb_status
version_check(const cursor *c, uint32_t v)
{
  if (v == 2 || v == 3)
    return NMB_OK;
  const nmb_loc loc = {c->file, 0, 0};
  if (v && !(v & 0xffff))
    return nmb_fail(c->run, NMB_UNSUPPORTED, loc,
                    "a big-endian GGUF file, which is not supported");
  return nmb_fail(c->run, NMB_UNSUPPORTED, loc,
                  "GGUF version %" PRIu32 ", expected 2 or 3", v);
}

/* One file: its keys and tensors. */
static nmb_status
part_read(nmb_run *run, nmb__wfile *w, const char *file, const uint8_t *p, size_t n)
{
  cursor c = {run, file, p, p + 4, p + n};
  const nmb_loc loc = {file, 0, 0};
  uint32_t version;
  uint64_t ntensor, nmeta, align = 32;
  NMB_TRY(take32(&c, "the version", &version));
  NMB_TRY(version_check(&c, version));
  NMB_TRY(take64(&c, "the number of tensors", &ntensor));
  NMB_TRY(take64(&c, "the number of keys", &nmeta));
  const uint64_t rest = (uint64_t)(c.end - c.p);
  if (ntensor > rest / 25 || nmeta > rest / 13 || ntensor > INT32_MAX ||
      nmeta > INT32_MAX)
    return nmb_fail(run, NMB_BADINPUT, loc,
                    "found %" PRIu64 " tensors and %" PRIu64
                    " keys, more than fit in the file",
                    ntensor, nmeta);
  NMB_TRY(metas_read(&c, w, nmeta));
  for (int i = 0; i < w->nmeta; i++)
    if (!strcmp(w->meta[i].key, "general.alignment"))
      align = w->meta[i].kind == NMB__META_INT ? (uint64_t)w->meta[i].i : 0;
  if (!align || align & (align - 1) || align > (1 << 20))
    return nmb_fail(run, NMB_BADINPUT, loc,
                    "general.alignment is no power of two up to 2^20");
  NMB_TRY(tensors_read(&c, w, ntensor, align));
  w->hash = nmb__hash(p, (size_t)(c.p - p));
  return NMB_OK;
}

/* --------------------------------------------------------------- split files */
/* The value of a key that is a whole number, before the keys are sorted. */
static int64_t
whole(const nmb__wfile *w, const char *key, int64_t absent)
{
  for (int i = 0; i < w->nmeta; i++)
    if (!strcmp(w->meta[i].key, key))
      return w->meta[i].kind == NMB__META_INT ? w->meta[i].i : -1;
  return absent;
}

/* "dir/name-00002-of-00003.gguf" with another number. */
static nmb_status
part_path(nmb_run *run, const char *file, int64_t no, int64_t count, int64_t want,
          const char **out)
{
  const char *end =
      nmb_format(run, "-%05" PRId64 "-of-%05" PRId64 ".gguf", no + 1, count);
  const size_t n = strlen(file), m = strlen(end);
  if (n <= m || strcmp(file + n - m, end))
    return nmb_fail(run, NMB_BADINPUT, (nmb_loc){file, 0, 0},
                    "part %" PRId64 " of %" PRId64
                    " of a model: found this name, expected one that ends with %s, as "
                    "the other parts are found by it",
                    no + 1, count, end);
  *out = nmb_format(run, "%.*s-%05" PRId64 "-of-%05" PRId64 ".gguf", (int)(n - m), file,
                    want + 1, count);
  return NMB_OK;
}

/* Adds the part's tensors to w, and the keys of the first, which alone has them all. */
static nmb_status
part_add(nmb_run *run, nmb__wfile *w, const nmb__wfile *part, int64_t no, int64_t count)
{
  const int64_t is = whole(part, "split.no", -1), of = whole(part, "split.count", -1);
  if (is != no || of != count)
    return nmb_fail(run, NMB_BADINPUT, (nmb_loc){part->path, 0, 0},
                    "found split.no %" PRId64 " and split.count %" PRId64
                    ", expected %" PRId64 " and %" PRId64,
                    is, of, no, count);
  for (int i = 0; i < part->ntensor; i++)
    nmb__wtensor_add(run, w, &part->tensor[i]);
  for (int i = 0; !no && i < part->nmeta; i++)
    nmb__meta_add(run, w, &part->meta[i]);
  const uint64_t both[2] = {w->hash, part->hash};
  w->hash = nmb__hash(both, sizeof both);
  return NMB_OK;
}

/* All parts of a model in many files, of which `one` was read (gguf-split of llama.cpp). */
static nmb_status
parts_read(nmb_run *run, nmb__wfile *w, const nmb__wfile *one, int64_t count)
{
  const int64_t own = whole(one, "split.no", -1);
  if (own < 0 || own >= count || count > 99999)
    return nmb_fail(run, NMB_BADINPUT, (nmb_loc){one->path, 0, 0},
                    "found split.no %" PRId64 " and split.count %" PRId64
                    ", expected a number below the count, and at most 99999 parts",
                    own, count);
  for (int64_t i = 0; i < count; i++) {
    nmb__wfile part = *one;
    if (i != own) {
      const uint8_t *p;
      size_t n;
      part = (nmb__wfile){0};
      NMB_TRY(part_path(run, one->path, own, count, i, &part.path));
      NMB_TRY(nmb__map_file(run, w, part.path, &p, &n));
      if (n < 4 || memcmp(p, "GGUF", 4))
        return nmb_fail(run, NMB_BADINPUT, (nmb_loc){part.path, 0, 0},
                        "a part of a GGUF model that does not start with GGUF");
      NMB_TRY(part_read(run, &part, part.path, p, n));
    }
    NMB_TRY(part_add(run, w, &part, i, count));
  }
  const int64_t all = whole(w, "split.tensors.count", w->ntensor);
  if (all != w->ntensor)
    return nmb_fail(run, NMB_BADINPUT, (nmb_loc){one->path, 0, 0},
                    "the parts have %d tensors, but split.tensors.count is %" PRId64,
                    w->ntensor, all);
  return NMB_OK;
}

nmb_status
nmb__gguf_read(nmb_run *run, nmb__wfile *w, const char *file, const uint8_t *p, size_t n)
{
  nmb__wfile one = {.path = file};
  w->naming = NMB__NAMES_GGUF;
  NMB_TRY(part_read(run, &one, file, p, n));
  const int64_t count = whole(&one, "split.count", 1);
  if (count > 1)
    return parts_read(run, w, &one, count);
  w->tensor = one.tensor;
  w->ntensor = one.ntensor;
  w->meta = one.meta;
  w->nmeta = one.nmeta;
  w->hash = one.hash;
  return NMB_OK;
}
