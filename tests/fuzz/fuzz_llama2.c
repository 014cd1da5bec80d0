/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Any bytes as a .bin file of llama2.c. */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/model.h"

static nmb_status
use(nmb_run *run, const uint8_t *data, size_t size)
{
  nmb__wfile *w;
  NMB_TRY(nmb__wfile_bytes(run, "fuzz.bin", data, size, &w));
  nmb__wmodel m = {.file = w, .layout = {.method = ""}};
  rows_read(run, w, &m.layout);
  if (w->naming != NMB__NAMES_GGUF) /* the first bytes made it another format */
    return NMB_OK;
  NMB_TRY(nmb__gguf_arch(run, w, "fuzz", &m.arch));
  return model_use(run, &m);
}

/* Width 8, network 8, one layer, heads 2 and 1, a vocabulary of 4 and 4 positions. */
static const uint32_t widths[] = {8, 8, 1, 2, 1, 4, 4};
enum { MATRICES = 4 * 8 + 64 + 32 + 32 + 64 + 3 * 64, NORMS = 3 * 8 };

static void
legacy_make(bytes *f)
{
  for (int i = 0; i < 7; i++)
    put(f, widths[i], 4);
  put_floats(f, MATRICES + NORMS + 4 * 4);
}

static void
header_make(bytes *f, uint32_t version)
{
  put(f, 0x616b3432, 4);
  put(f, version, 4);
  for (int i = 0; i < 7; i++)
    put(f, widths[i], 4);
  put(f, 1, 1); /* the head is the embedding */
  put(f, 4, 4); /* version 2: codes in a group */
  f->n = 256;
}

static void
float_make(bytes *f)
{
  header_make(f, 1);
  put_floats(f, MATRICES + NORMS);
}

static void
int8_make(bytes *f)
{
  static const int sizes[] = {4 * 8, 64, 32, 32, 64, 64, 64, 64};
  header_make(f, 2);
  put_floats(f, NORMS);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    for (int k = 0; k < sizes[i]; k++)
      put(f, (uint64_t)(k * 37 % 251), 1);
    put_floats(f, (size_t)sizes[i] / 4);
  }
}

static const seed seeds[] = {
    {"v0", legacy_make}, {"v1", float_make}, {"v2", int8_make}};
static const target llama2 = {seeds, sizeof seeds / sizeof *seeds, use, NULL};
FUZZ_TARGET(llama2)
