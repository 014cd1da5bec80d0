/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The .bin files of rwkv.cpp (RWKV/rwkv.cpp, rwkv_file_format.inc): a header of six
 * numbers, then tensors up to the end of the file, each with its own header. */
#include <inttypes.h>
#include <string.h>

#include "base/hash.h"
#include "frontend/wfile.h"

/* rwkv.cpp's numbers of types; 4 to 6 are formats that no program reads any more. */
static const int types[] = {NMB__ST_F32,  NMB__ST_F16, NMB__ST_Q4_0, NMB__ST_Q4_1,
                            NMB_NONE,     NMB_NONE,    NMB_NONE,     NMB__ST_Q5_0,
                            NMB__ST_Q5_1, NMB__ST_Q8_0};
#define NTYPE (sizeof types / sizeof *types)

static nmb_status
ended(nmb_run *run, const char *file, size_t n, const char *what)
{
  return nmb_fail(run, NMB_BADINPUT, (nmb_loc){file, 0, 0},
                  "the file ends at byte %zu, inside %s", n, what);
}

/* The tensor at *at; moves *at behind it. */
static nmb_status
tensor_read(nmb_run *run, nmb__wfile *w, const char *file, const uint8_t *p, size_t n,
            size_t *at)
{
  nmb__wtensor t = {.file = file};
  const nmb_loc loc = {file, 0, 0};
  if (n - *at < 12)
    return ended(run, file, n, "the header of a tensor");
  const uint32_t rank = nmb__le32(p + *at), len = nmb__le32(p + *at + 4),
                 type = nmb__le32(p + *at + 8);
  *at += 12;
  if (rank < 1 || rank > 3 || len < 1 || len > 1024)
    return nmb_fail(run, NMB_BADINPUT, loc,
                    "the tensor at byte %zu has %" PRIu32
                    " dimensions and a name of %" PRIu32
                    " bytes, expected 1 to 3 and 1 to 1024",
                    *at - 12, rank, len);
  if (n - *at < 4 * (size_t)rank + len)
    return ended(run, file, n, "the header of a tensor");
  t.rank = (int)rank;
  for (int i = t.rank - 1; i >= 0; i--, *at += 4) /* the fastest one first */
    t.dim[i] = nmb__le32(p + *at);
  if (memchr(p + *at, 0, len))
    return nmb_fail(run, NMB_BADINPUT, loc, "the name at byte %zu holds a NUL", *at);
  t.name = nmb_format(run, "%.*s", (int)len, (const char *)p + *at);
  *at += len;
  if (type >= NTYPE || types[type] == NMB_NONE)
    return nmb_fail(run, NMB_UNSUPPORTED, loc,
                    "tensor '%s': found type %" PRIu32
                    ", expected F32, F16, Q4_0, Q4_1, Q5_0, Q5_1 or Q8_0",
                    t.name, type);
  t.type = (nmb__storage)types[type];
  NMB_TRY(nmb__wtensor_size(run, &t));
  if (t.bytes > n - *at)
    return ended(run, file, n, nmb_format(run, "tensor '%s'", t.name));
  t.data = p + *at;
  t.offset = *at;
  *at += t.bytes;
  nmb__wtensor_add(run, w, &t);
  return NMB_OK;
}

nmb_status
nmb__rwkv_read(nmb_run *run, nmb__wfile *w, const char *file, const uint8_t *p, size_t n)
{
  static const char *const keys[] = {"rwkv.version", "rwkv.vocab", "rwkv.embed",
                                     "rwkv.layers"};
  size_t at = 24;
  w->naming = NMB__NAMES_RWKV;
  if (n < at)
    return ended(run, file, n, "the header");
  for (size_t i = 0; i < 4; i++)
    nmb__meta_int(run, w, keys[i], nmb__le32(p + 4 + 4 * i));
  if (nmb__le32(p + 4) != 100 && nmb__le32(p + 4) != 101)
    return nmb_fail(run, NMB_UNSUPPORTED, (nmb_loc){file, 0, 0},
                    "rwkv.cpp version %" PRIu32 ", expected 100 or 101",
                    nmb__le32(p + 4));
  w->hash = nmb__hash(p, at);
  while (at < n)
    NMB_TRY(tensor_read(run, w, file, p, n, &at));
  return NMB_OK;
}
