/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The .bin files of llama2.c (karpathy/llama2.c, export.py): version 0 without a magic
 * number, 1 in fp32, 2 in int8 groups.  Tensors get the names of a GGUF llama, and
 * what the header says becomes the same keys, as the model is the same. */
#include <inttypes.h>
#include <string.h>

#include "base/hash.h"
#include "frontend/wfile.h"

#define MAGIC 0x616b3432u

typedef struct reader {
  nmb_run *run;
  nmb__wfile *w;
  const char *file;
  const uint8_t *p;
  uint64_t size, at;
  int64_t dim, hidden, layers, heads, kv_heads, vocab, context, group; /* group 0: fp32 */
  bool tied;
} reader;

static nmb_status
add(reader *r, const char *name, nmb__storage type, int rank, int64_t d0, int64_t d1)
{
  nmb__wtensor t = {
      .name = name, .type = type, .rank = rank, .dim = {d0, d1}, .file = r->file};
  NMB_TRY(nmb__wtensor_size(r->run, &t));
  if (r->at > r->size || t.bytes > r->size - r->at)
    return nmb_fail(r->run, NMB_BADINPUT, (nmb_loc){r->file, 0, 0},
                    "tensor '%s': its %" PRIu64 " bytes from byte %" PRIu64
                    " on go past the end of the file (%" PRIu64 " bytes)",
                    name, t.bytes, r->at, r->size);
  t.data = r->p + r->at;
  t.offset = r->at;
  r->at += t.bytes;
  nmb__wtensor_add(r->run, r->w, &t);
  return NMB_OK;
}

/* A matrix: fp32, or codes with their scales after them. */
static nmb_status
matrix(reader *r, const char *name, int64_t rows, int64_t cols)
{
  if (!r->group)
    return add(r, name, NMB__ST_F32, 2, rows, cols);
  if (rows * cols % r->group)
    return nmb_fail(r->run, NMB_BADINPUT, (nmb_loc){r->file, 0, 0},
                    "tensor '%s': %" PRId64 " elements, expected a multiple of the group "
                    "of %" PRId64,
                    name, rows * cols, r->group);
  NMB_TRY(add(r, name, NMB__ST_I8, 2, rows, cols));
  return add(r, nmb_format(r->run, "%s_scale", name), NMB__ST_F32, 1,
             rows * cols / r->group, 0);
}

static nmb_status
each_layer(reader *r, const char *name, int64_t rows, int64_t cols)
{
  for (int64_t i = 0; i < r->layers; i++) {
    const char *s = nmb_format(r->run, "blk.%" PRId64 ".%s.weight", i, name);
    NMB_TRY(cols ? matrix(r, s, rows, cols) : add(r, s, NMB__ST_F32, 1, rows, 0));
  }
  return NMB_OK;
}

static nmb_status
matrices(reader *r)
{
  const int64_t d = r->dim, kv = d / r->heads * r->kv_heads;
  NMB_TRY(each_layer(r, "attn_q", d, d));
  NMB_TRY(each_layer(r, "attn_k", kv, d));
  NMB_TRY(each_layer(r, "attn_v", kv, d));
  return each_layer(r, "attn_output", d, d);
}

static nmb_status
networks(reader *r)
{
  NMB_TRY(each_layer(r, "ffn_gate", r->hidden, r->dim));
  NMB_TRY(each_layer(r, "ffn_down", r->dim, r->hidden));
  return each_layer(r, "ffn_up", r->hidden, r->dim);
}

static nmb_status
legacy(reader *r)
{
  NMB_TRY(matrix(r, "token_embd.weight", r->vocab, r->dim));
  NMB_TRY(each_layer(r, "attn_norm", r->dim, 0));
  NMB_TRY(matrices(r));
  NMB_TRY(each_layer(r, "ffn_norm", r->dim, 0));
  NMB_TRY(networks(r));
  NMB_TRY(add(r, "output_norm.weight", NMB__ST_F32, 1, r->dim, 0));
  r->at += (uint64_t)(r->context * (r->dim / r->heads / 2)) * 8; /* cos, sin tables */
  return r->tied ? NMB_OK : matrix(r, "output.weight", r->vocab, r->dim);
}

static nmb_status
newer(reader *r)
{
  NMB_TRY(each_layer(r, "attn_norm", r->dim, 0));
  NMB_TRY(each_layer(r, "ffn_norm", r->dim, 0));
  NMB_TRY(add(r, "output_norm.weight", NMB__ST_F32, 1, r->dim, 0));
  NMB_TRY(matrix(r, "token_embd.weight", r->vocab, r->dim));
  NMB_TRY(matrices(r));
  NMB_TRY(networks(r));
  return r->tied ? NMB_OK : matrix(r, "output.weight", r->vocab, r->dim);
}

static void
metas(reader *r)
{
  const struct {
    const char *key;
    int64_t v;
  } rows[] = {{"embedding_length", r->dim},
              {"feed_forward_length", r->hidden},
              {"block_count", r->layers},
              {"attention.head_count", r->heads},
              {"attention.head_count_kv", r->kv_heads},
              {"vocab_size", r->vocab},
              {"context_length", r->context}};
  nmb__meta_string(r->run, r->w, "general.architecture", "llama");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    nmb__meta_int(r->run, r->w, nmb_format(r->run, "llama.%s", rows[i].key), rows[i].v);
  nmb__meta_add(r->run, r->w,
                &(nmb__meta){.key = "llama.attention.layer_norm_rms_epsilon",
                             .kind = NMB__META_REAL,
                             .r = 1e-5});
}

static nmb_status
header_check(const reader *r)
{
  const int64_t v[] = {r->dim,      r->hidden, r->layers, r->heads,
                       r->kv_heads, r->vocab,  r->context};
  bool ok = true;
  for (size_t i = 0; i < sizeof v / sizeof *v; i++)
    ok &= v[i] >= 1 && v[i] <= 1 << 24;
  ok = ok && r->layers <= 2048 && r->dim % r->heads == 0 && r->heads % r->kv_heads == 0;
  if (ok)
    return NMB_OK;
  return nmb_fail(r->run, NMB_BADINPUT, (nmb_loc){r->file, 0, 0},
                  "found width %" PRId64 ", network %" PRId64 ", layers %" PRId64
                  ", heads %" PRId64 " and %" PRId64 ", vocabulary %" PRId64
                  ", context %" PRId64 ", expected the header of a llama2.c file",
                  r->dim, r->hidden, r->layers, r->heads, r->kv_heads, r->vocab,
                  r->context);
}

static int64_t
field(const reader *r, uint64_t at)
{
  return (int32_t)nmb__le32(r->p + at);
}

nmb_status
nmb__llama2_read(nmb_run *run, nmb__wfile *w, const char *file, const uint8_t *p,
                 size_t n)
{
  reader r = {.run = run, .w = w, .file = file, .p = p, .size = n};
  const nmb_loc loc = {file, 0, 0};
  const bool magic = n >= 4 && nmb__le32(p) == MAGIC;
  if (n < (magic ? 256 : 28))
    return nmb_fail(run, NMB_BADINPUT, loc,
                    "the file has %zu bytes, expected a header of %d", n,
                    magic ? 256 : 28);
  const int64_t version = magic ? field(&r, 4) : 0;
  if (version < 0 || version > 2 || (magic && !version))
    return nmb_fail(run, NMB_UNSUPPORTED, loc,
                    "llama2.c version %" PRId64 ", expected 1 or 2", version);
  int64_t *const v[] = {&r.dim,      &r.hidden, &r.layers, &r.heads,
                        &r.kv_heads, &r.vocab,  &r.context};
  for (size_t i = 0; i < 7; i++)
    *v[i] = field(&r, (magic ? 8 : 0) + 4 * i);
  r.tied = magic ? p[36] != 0 : r.vocab > 0;
  if (!magic && r.vocab < 0)
    r.vocab = -r.vocab;
  r.at = magic ? 256 : 28;
  NMB_TRY(header_check(&r));
  if (version == 2) {
    r.group = field(&r, 37);
    if (r.group < 1 || r.group > 1 << 24)
      return nmb_fail(run, NMB_BADINPUT, loc,
                      "the group is %" PRId64 ", expected 1 to 2^24", r.group);
  }
  w->naming = NMB__NAMES_GGUF;
  w->hash = nmb__hash(p, (size_t)r.at);
  metas(&r);
  return magic ? newer(&r) : legacy(&r);
}
