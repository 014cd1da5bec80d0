/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Any bytes as a .bin file of rwkv.cpp. */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/model.h"

static nmb_status
use(nmb_run *run, const uint8_t *data, size_t size)
{
  nmb__wfile *w;
  nmb__vocab *v;
  NMB_TRY(nmb__wfile_bytes(run, "fuzz.bin", data, size, &w));
  nmb__wmodel m = {.file = w, .layout = {.method = ""}};
  rows_read(run, w, &m.layout);
  if (w->naming != NMB__NAMES_RWKV) /* the first bytes made it another format */
    return NMB_OK;
  NMB_TRY(nmb__vocab_open(run, w, NULL, 256, &v));
  NMB_TRY(text_use(run, v));
  NMB_TRY(nmb__rwkv_arch(run, w, "fuzz", &m.arch));
  return model_use(run, &m);
}

typedef struct row {
  const char *name;
  uint32_t ne[3]; /* the fastest first; 0: not there */
} row;

static void
model_make(bytes *f, const row *rows, size_t n, uint32_t version)
{
  const uint32_t head[] = {0x67676d66, version, 256, 8, 1, 0};
  for (int i = 0; i < 6; i++)
    put(f, head[i], 4);
  for (size_t i = 0; i < n; i++) {
    const uint32_t *ne = rows[i].ne;
    const int rank = 1 + (ne[1] > 0) + (ne[2] > 0);
    put(f, (uint64_t)rank, 4);
    put(f, strlen(rows[i].name), 4);
    put(f, 0, 4);
    size_t count = 1;
    for (int k = 0; k < rank; k++) {
      put(f, ne[k], 4);
      count *= ne[k];
    }
    put_bytes(f, rows[i].name);
    put_floats(f, count);
  }
}

static void
four_make(bytes *f)
{
  static const row rows[] = {{"blocks.0.ln1.weight", {8}},
                             {"blocks.0.ln1.bias", {8}},
                             {"blocks.0.ln2.weight", {8}},
                             {"blocks.0.ln2.bias", {8}},
                             {"blocks.0.att.time_decay", {8}},
                             {"blocks.0.att.time_first", {8}},
                             {"blocks.0.att.time_mix_k", {8, 1, 1}},
                             {"blocks.0.att.time_mix_v", {8, 1, 1}},
                             {"blocks.0.att.time_mix_r", {8, 1, 1}},
                             {"blocks.0.att.key.weight", {8, 8}},
                             {"blocks.0.att.value.weight", {8, 8}},
                             {"blocks.0.att.receptance.weight", {8, 8}},
                             {"blocks.0.att.output.weight", {8, 8}},
                             {"blocks.0.ffn.time_mix_k", {8, 1, 1}},
                             {"blocks.0.ffn.time_mix_r", {8, 1, 1}},
                             {"blocks.0.ffn.key.weight", {8, 16}},
                             {"blocks.0.ffn.receptance.weight", {8, 8}},
                             {"blocks.0.ffn.value.weight", {16, 8}},
                             {"blocks.0.ln0.weight", {8}},
                             {"blocks.0.ln0.bias", {8}},
                             {"ln_out.weight", {8}},
                             {"ln_out.bias", {8}},
                             {"emb.weight", {8, 256}},
                             {"head.weight", {8, 256}}};
  model_make(f, rows, sizeof rows / sizeof *rows, 101);
}

static const seed seeds[] = {{"rwkv4", four_make}};
static const target rwkv = {seeds, sizeof seeds / sizeof *seeds, use, NULL};
FUZZ_TARGET(rwkv)
