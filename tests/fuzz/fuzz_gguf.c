/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Any bytes as a GGUF file. */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/model.h"

static nmb_status
use(nmb_run *run, const uint8_t *data, size_t size)
{
  nmb__wfile *w;
  nmb__vocab *v;
  NMB_TRY(nmb__wfile_bytes(run, "fuzz.gguf", data, size, &w));
  nmb__wmodel m = {.file = w, .layout = {.method = ""}};
  rows_read(run, w, &m.layout);
  if (nmb__vocab_open(run, w, NULL, 1 << 16, &v) == NMB_OK)
    (void)text_use(run, v); /* not every text has tokens */
  NMB_TRY(nmb__gguf_arch(run, w, "fuzz", &m.arch));
  return model_use(run, &m);
}

/* -------------------------------------------------------------------- seeds */
typedef struct key {
  const char *name;
  uint32_t v;
} key;

typedef struct row {
  const char *name;
  uint32_t ne[3]; /* the fastest first; 0: not there */
  uint32_t type;
} row;

/* A model as a file has it. */
typedef struct model {
  const char *arch, *vocab, *const *token;
  const key *keys;  /* ended by a NULL, as rows are */
  const row *rows;
  const char *negative; /* (optional) a tensor of 64 values below 0 */
} model;

enum { F32 = 0, F16 = 1, Q4_0 = 2, Q8_0 = 8 };

static void
put_text(bytes *f, const char *s)
{
  put(f, strlen(s), 8);
  put_bytes(f, s);
}

static void
put_string(bytes *f, const char *name, const char *s)
{
  put_text(f, name);
  put(f, 8, 4);
  put_text(f, s);
}

static void
put_list(bytes *f, const char *name, const char *const *v)
{
  size_t n = 0;
  while (v[n])
    n++;
  put_text(f, name);
  put(f, 9, 4);
  put(f, 8, 4);
  put(f, n, 8);
  for (size_t i = 0; i < n; i++)
    put_text(f, v[i]);
}

static uint64_t
row_bytes(const row *r)
{
  uint64_t n = 1;
  for (int i = 0; i < 3 && r->ne[i]; i++)
    n *= r->ne[i];
  return r->type == Q8_0 ? n / 32 * 34 : r->type == Q4_0 ? n / 32 * 18 : r->type == F16 ? 2 * n : 4 * n;
}

static void
put_tensor(bytes *f, const row *r, uint64_t at)
{
  const int rank = 1 + (r->ne[1] > 0) + (r->ne[2] > 0);
  put_text(f, r->name);
  put(f, (uint64_t)rank, 4);
  for (int i = 0; i < rank; i++)
    put(f, r->ne[i], 8);
  put(f, r->type, 4);
  put(f, at, 8);
}

/* Where its bytes are among the data. */
static uint64_t
place(const model *m, const char *name)
{
  uint64_t at = 0;
  for (const row *r = m->rows; strcmp(r->name, name); r++)
    at += (row_bytes(r) + 31) / 32 * 32;
  return at;
}

static void
model_make(bytes *f, const model *m)
{
  static const char *const merges[] = {"a b", NULL};
  const bool bpe = !strcmp(m->vocab, "gpt2");
  char name[128];
  size_t nkey = 0, nrow = 0;
  uint64_t at = 0;
  while (m->keys[nkey].name)
    nkey++;
  while (m->rows[nrow].name)
    nrow++;
  put_bytes(f, "GGUF");
  put(f, 3, 4);
  put(f, nrow, 8);
  put(f, nkey + 3 + bpe, 8);
  put_string(f, "general.architecture", m->arch);
  for (size_t i = 0; i < nkey; i++) {
    snprintf(name, sizeof name, "%s.%s", m->arch, m->keys[i].name);
    put_text(f, name);
    put(f, 4, 4);
    put(f, m->keys[i].v, 4);
  }
  put_string(f, "tokenizer.ggml.model", m->vocab);
  put_list(f, "tokenizer.ggml.tokens", m->token);
  if (bpe)
    put_list(f, "tokenizer.ggml.merges", merges);
  for (size_t i = 0; i < nrow; i++) {
    put_tensor(f, &m->rows[i], at);
    at += (row_bytes(&m->rows[i]) + 31) / 32 * 32;
  }
  f->n = (f->n + 31) / 32 * 32;
  for (const size_t end = f->n + at; f->n < end;)
    put(f, m->rows[0].type == F32 ? 0x3d000000u + f->n * 40503 % 0x7fffff : 0x01010101, 4);
  if (m->negative) /* the sign of its floats */
    for (size_t i = 0, k = f->n - at + place(m, m->negative); i < 64; i++)
      f->b[k + 4 * i + 3] |= 0x80;
}

static const char *const spm[] = {"<unk>", "<s>", "a", "<0x61>", NULL},
                         *const bpe[] = {"a", "b", "ab", "<s>", NULL};

static void
dense_make(bytes *f)
{
  static const key keys[] = {{"embedding_length", 32},    {"block_count", 1},
                             {"feed_forward_length", 32}, {"attention.head_count", 2},
                             {"context_length", 64},      {NULL, 0}};
  static const row rows[] = {{"token_embd.weight", {32, 4}, Q8_0},
                             {"output_norm.weight", {32}, F32},
                             {"blk.0.attn_norm.weight", {32}, F32},
                             {"blk.0.ffn_norm.weight", {32}, F32},
                             {"blk.0.attn_q.weight", {32, 32}, Q8_0},
                             {"blk.0.attn_k.weight", {32, 32}, Q4_0},
                             {"blk.0.attn_v.weight", {32, 32}, F16},
                             {"blk.0.attn_output.weight", {32, 32}, Q8_0},
                             {"blk.0.ffn_gate.weight", {32, 32}, Q8_0},
                             {"blk.0.ffn_down.weight", {32, 32}, Q4_0},
                             {"blk.0.ffn_up.weight", {32, 32}, Q8_0},
                             {NULL, {0}, 0}};
  model_make(f, &(model){"llama", "llama", spm, keys, rows, NULL});
}

static void
experts_make(bytes *f)
{
  static const key keys[] = {{"embedding_length", 8},
                             {"block_count", 1},
                             {"feed_forward_length", 8},
                             {"attention.head_count", 2},
                             {"attention.head_count_kv", 1},
                             {"expert_count", 2},
                             {"expert_used_count", 1},
                             {"context_length", 64},
                             {NULL, 0}};
  static const row rows[] = {{"token_embd.weight", {8, 4}, F32},
                             {"output_norm.weight", {8}, F32},
                             {"output.weight", {8, 4}, F32},
                             {"blk.0.attn_norm.weight", {8}, F32},
                             {"blk.0.ffn_norm.weight", {8}, F32},
                             {"blk.0.attn_q.weight", {8, 8}, F32},
                             {"blk.0.attn_k.weight", {8, 4}, F32},
                             {"blk.0.attn_v.weight", {8, 4}, F32},
                             {"blk.0.attn_output.weight", {8, 8}, F32},
                             {"blk.0.ffn_gate_inp.weight", {8, 2}, F32},
                             {"blk.0.ffn_gate_exps.weight", {8, 8, 2}, F32},
                             {"blk.0.ffn_down_exps.weight", {8, 8, 2}, F32},
                             {"blk.0.ffn_up_exps.weight", {8, 8, 2}, F32},
                             {NULL, {0}, 0}};
  model_make(f, &(model){"llama", "gpt2", bpe, keys, rows, NULL});
}

static void
state_make(bytes *f)
{
  static const key keys[] = {{"embedding_length", 8},   {"block_count", 1},
                             {"ssm.conv_kernel", 4},    {"ssm.inner_size", 16},
                             {"ssm.state_size", 4},     {"ssm.time_step_rank", 2},
                             {"feed_forward_length", 0}, {"context_length", 64},
                             {NULL, 0}};
  static const row rows[] = {{"token_embd.weight", {8, 4}, F32},
                             {"output_norm.weight", {8}, F32},
                             {"blk.0.attn_norm.weight", {8}, F32},
                             {"blk.0.ssm_in.weight", {8, 32}, F32},
                             {"blk.0.ssm_conv1d.weight", {4, 16}, F32},
                             {"blk.0.ssm_conv1d.bias", {16}, F32},
                             {"blk.0.ssm_x.weight", {16, 10}, F32},
                             {"blk.0.ssm_dt.weight", {2, 16}, F32},
                             {"blk.0.ssm_dt.bias", {16}, F32},
                             {"blk.0.ssm_a", {4, 16}, F32},
                             {"blk.0.ssm_d", {16}, F32},
                             {"blk.0.ssm_out.weight", {16, 8}, F32},
                             {NULL, {0}, 0}};
  model_make(f, &(model){"mamba", "gpt2", bpe, keys, rows, "blk.0.ssm_a"});
}

static const seed seeds[] = {
    {"dense", dense_make}, {"experts", experts_make}, {"state", state_make}};
static const target gguf = {seeds, sizeof seeds / sizeof *seeds, use, NULL};
FUZZ_TARGET(gguf)
