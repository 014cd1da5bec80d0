/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Any bytes as a weight file: an error with a text, or a model whose weights can all be
 * read.  Alone, mutates small files of every format that it makes itself, from a fixed
 * seed; a number as argument is another seed, a file is one input to run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/path.h"
#include "base/run.h"
#include "frontend/token.h"
#include "frontend/wmodel.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
die(const char *what, nmb_run *run)
{
  fprintf(stderr, "fuzz_weights: %s: %s\n", what, nmb_error_text(run));
  abort();
}

/* Reads every tensor by its name as stored, and as the layouts have it. */
static void
read_all(nmb_run *run, const nmb__wfile *w)
{
  const nmb__layout_info info = {
      .method = "bitnet", .block_rows = 128, .block_cols = 128};
  for (int i = 0; i < w->ntensor; i++) {
    nmb__source s;
    const char *name = w->tensor[i].name, *dot = strrchr(name, '.');
    const char *base =
        dot ? nmb_format(run, "%.*s.weight", (int)(dot - name), name) : name;
    for (int k = 0; k < 2; k++) {
      if (nmb__source_open(run, w, &info, k ? base : name, &s) != NMB_OK || !s.t)
        continue;
      const int64_t cols = s.rank ? s.dim[s.rank - 1] : 1;
      if (cols > 1 << 20 || s.count < 1)
        continue;
      float *v = NMB_NEW(run, float, cols);
      for (int64_t r = 0; r < s.count / cols && r < 64; r++)
        nmb__source_row(&s, r, v);
      nmb__source_row(&s, s.count / cols - 1, v);
    }
  }
}

/* A tokenizer.json, and a text through it. */
static void
tokenizer(nmb_run *run, const char *path)
{
  nmb__vocab v = {.bos = -1, .eos = -1, .unknown = -1};
  int32_t *ids;
  int64_t n;
  size_t len;
  if (nmb__tokenizer_json(run, path, 64, &v) != NMB_OK) {
    if (!*nmb_error_text(run))
      die("a vocabulary is refused without a text", run);
    return;
  }
  if (nmb__vocab_encode(run, &v, "ab<s> ba 12", 11, &ids, &n) == NMB_OK)
    for (int64_t i = 0; i < n; i++)
      (void)nmb__vocab_text(run, &v, i ? ids[i - 1] : -1, ids[i], &len);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  nmb_run *run = nmb__run_open(NULL);
  const char *path = nmb_format(run, "fuzz_weights.%d.bin", (int)getpid());
  FILE *f = fopen(path, "wb");
  nmb__wfile *w = NULL;
  nmb__vocab *v;
  if (!f || fwrite(data, 1, size, f) != size)
    die("cannot write", run);
  fclose(f);
  if (size && *data == '{')
    tokenizer(run, path);
  if (nmb__wfile_open(run, path, &w) == NMB_OK) {
    nmb__wmodel m = {.file = w, .layout = {.method = ""}};
    int32_t *ids;
    int64_t n;
    read_all(run, w);
    if (nmb__vocab_open(run, w, NULL, 1 << 16, &v) == NMB_OK)
      (void)nmb__vocab_encode(run, v, "a b", 3, &ids, &n);
    if (w->naming == NMB__NAMES_GGUF &&
        nmb__gguf_arch(run, w, "fuzz", &m.arch) == NMB_OK && m.arch->nlayer < 64)
      (void)nmb__wmodel_check(run, &m);
  } else if (!*nmb_error_text(run))
    die("refused without a text", run);
  nmb__wfile_close(w);
  unlink(path);
  nmb__run_close(run);
  return 0;
}

/* ------------------------------------------------------------------- corpus */
typedef struct bytes {
  uint8_t b[16384];
  size_t n;
} bytes;

static void
put(bytes *f, uint64_t v, size_t n)
{
  for (size_t i = 0; i < n; i++)
    f->b[f->n++] = (uint8_t)(v >> 8 * i);
}

static void
put_text(bytes *f, const char *s)
{
  put(f, strlen(s), 8);
  memcpy(f->b + f->n, s, strlen(s));
  f->n += strlen(s);
}

static void
put_int(bytes *f, const char *key, uint32_t v)
{
  put_text(f, key);
  put(f, 4, 4);
  put(f, v, 4);
}

static void
put_tensor(bytes *f, const char *name, uint64_t ne0, uint64_t ne1, uint32_t type,
           uint64_t *at, uint64_t size)
{
  put_text(f, name);
  put(f, ne1 ? 2 : 1, 4);
  put(f, ne0, 8);
  if (ne1)
    put(f, ne1, 8);
  put(f, type, 4);
  put(f, *at, 8);
  *at += (size + 31) / 32 * 32;
}

/* A whole llama of one layer: width 32, Q8_0 and F32, vocabulary of 4. */
static void
gguf_make(bytes *f)
{
  static const char *const names[] = {"attn_q",   "attn_k",   "attn_v", "attn_output",
                                      "ffn_gate", "ffn_down", "ffn_up"};
  static const char *const vocab[] = {"<unk>", "<s>", "a", "<0x61>"};
  uint64_t at = 0;
  memcpy(f->b, "GGUF", 4);
  f->n = 4;
  put(f, 3, 4);
  put(f, 11, 8);
  put(f, 8, 8);
  put_text(f, "general.architecture");
  put(f, 8, 4);
  put_text(f, "llama");
  put_int(f, "llama.embedding_length", 32);
  put_int(f, "llama.block_count", 1);
  put_int(f, "llama.feed_forward_length", 32);
  put_int(f, "llama.attention.head_count", 2);
  put_text(f, "tokenizer.ggml.model");
  put(f, 8, 4);
  put_text(f, "llama");
  put_text(f, "tokenizer.ggml.tokens");
  put(f, 9, 4);
  put(f, 8, 4);
  put(f, 4, 8);
  for (int i = 0; i < 4; i++)
    put_text(f, vocab[i]);
  put_int(f, "tokenizer.ggml.bos_token_id", 1);
  put_tensor(f, "token_embd.weight", 32, 4, 8, &at, 136);
  put_tensor(f, "output_norm.weight", 32, 0, 0, &at, 128);
  put_tensor(f, "blk.0.attn_norm.weight", 32, 0, 0, &at, 128);
  put_tensor(f, "blk.0.ffn_norm.weight", 32, 0, 0, &at, 128);
  for (int i = 0; i < 7; i++) {
    char name[64];
    snprintf(name, sizeof name, "blk.0.%s.weight", names[i]);
    put_tensor(f, name, 32, 32, 8, &at, 1088);
  }
  f->n = (f->n + 31) / 32 * 32 + at;
}

/* Every stored quantisation once, all over the same few bytes' worth of data. */
static void
safetensors_make(bytes *f)
{
  static const struct {
    const char *name, *dtype, *shape;
    int bytes;
  } t[] = {{"a.qweight", "I32", "[4,8]", 128},
           {"a.qzeros", "I32", "[2,1]", 8},
           {"a.scales", "F16", "[2,8]", 32},
           {"a.g_idx", "I32", "[32]", 128},
           {"b.qweight", "I32", "[16,2]", 128},
           {"b.qzeros", "I32", "[2,2]", 16},
           {"b.scales", "F16", "[2,16]", 64},
           {"c.weight_packed", "I32", "[4,4]", 64},
           {"c.weight_scale", "BF16", "[4,2]", 16},
           {"c.weight_shape", "I64", "[2]", 16},
           {"d.weight_packed", "U8", "[2,16]", 32},
           {"d.weight_scale", "F8_E4M3", "[2,2]", 4},
           {"d.weight_global_scale", "F32", "[1]", 4},
           {"e.weight", "F8_E4M3", "[2,8]", 16},
           {"e.weight_scale_inv", "F32", "[1,1]", 4},
           {"f.weight", "U8", "[64,1]", 64},
           {"f.weight.absmax", "U8", "[2]", 2},
           {"f.weight.nested_absmax", "F32", "[1]", 4},
           {"f.weight.nested_quant_map", "F32", "[256]", 1024},
           {"f.weight.quant_state.bitsandbytes__nf4", "U8", "[70]", 70},
           {"g_blocks", "U8", "[2,2,1,16]", 64},
           {"g_scales", "U8", "[2,2,1]", 4},
           {"h.weight", "U8", "[2,4]", 8},
           {"h.weight_scale", "F32", "[1]", 4}};
  static const char state[] =
      "{\"blocksize\":64,\"nested_blocksize\":256,\"nested_offset\":0,"
      "\"shape\":[4,32]}";
  char head[8192] = "{";
  int at = 0, json = 0;
  for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
    json = strstr(t[i].name, "quant_state") ? at : json;
    snprintf(head + strlen(head), sizeof head - strlen(head),
             "%s\"%s\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[%d,%d]}",
             i ? "," : "", t[i].name, t[i].dtype, t[i].shape, at, at + t[i].bytes);
    at += t[i].bytes;
  }
  strcat(head, "}");
  put_text(f, head);
  memset(f->b + f->n, 0, (size_t)at);
  memset(f->b + f->n + json, ' ', 70);
  memcpy(f->b + f->n + json, state, strlen(state) < 70 ? strlen(state) : 70);
  f->n += (size_t)at;
}

static void
llama2_make(bytes *f)
{
  const uint32_t v[] = {8, 8, 1, 2, 1, 4, 4};
  for (int i = 0; i < 7; i++)
    put(f, v[i], 4);
  f->n += 4 * (32 + 8 + 64 + 32 + 32 + 64 + 8 + 3 * 64 + 8 + 16);
}

static void
rwkv_make(bytes *f)
{
  const uint32_t v[] = {0x67676d66, 100, 256, 4, 1, 0};
  for (int i = 0; i < 6; i++)
    put(f, v[i], 4);
  for (int i = 0; i < 3; i++) {
    put(f, 2, 4);
    put(f, 1, 4);
    put(f, (uint64_t)i % 2, 4);
    put(f, 4, 4);
    put(f, 2, 4);
    put(f, (uint64_t)('a' + i), 1);
    f->n += i % 2 ? 16 : 32;
  }
}

static void
tokenizer_make(bytes *f)
{
  static const char text[] =
      "{\"added_tokens\":[{\"id\":5,\"content\":\"<s>\",\"special\":true}],"
      "\"normalizer\":{\"type\":\"Prepend\",\"prepend\":\"_\"},"
      "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\","
      "\"pattern\":{\"Regex\":\"(?i:a)|\\\\p{N}{1,3}\"},\"behavior\":\"Isolated\"},"
      "{\"type\":\"ByteLevel\",\"use_regex\":true}]},"
      "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":"
      "{\"id\":\"<s>\"}}]},\"model\":{\"type\":\"BPE\",\"unk_token\":\"a\",\"vocab\":"
      "{\"a\":0,\"b\":1,\"ab\":2,\"1\":3},\"merges\":[\"a b\",[\"b\",\"a\"]]}}";
  memcpy(f->b, text, sizeof text - 1);
  f->n = sizeof text - 1;
}

/* --------------------------------------------------------------- mutations */
static void
mutate(nmb_run *rng, bytes *f)
{
  static const uint64_t odd[] = {
      0, 1, 0xff, 0x7fffffff, 0xffffffff, UINT64_MAX, INT64_MAX, UINT64_C(1) << 61, 33};
  for (uint64_t k = 1 + nmb_rand(rng) % 4; k && f->n > 16; k--) {
    const size_t at = (size_t)(nmb_rand(rng) % (f->n < 2048 ? f->n : 2048));
    const size_t size = (size_t)1 << nmb_rand(rng) % 4;
    switch (nmb_rand(rng) % 5) {
    case 0: f->b[at] = (uint8_t)nmb_rand(rng); break;
    case 1: f->n = 1 + (size_t)(nmb_rand(rng) % f->n); break;
    case 2: f->b[at] = (uint8_t)('0' + nmb_rand(rng) % 10); break;
    default: {
      bytes v = {.n = 0};
      put(&v, odd[nmb_rand(rng) % (sizeof odd / sizeof *odd)], 8);
      memcpy(f->b + at, v.b, at + size <= f->n ? size : 1);
    }
    }
  }
}

static void
fuzz(uint64_t seed)
{
  void (*const make[])(bytes *) = {gguf_make, safetensors_make, llama2_make, rwkv_make,
                                  tokenizer_make};
  nmb_run *rng = nmb__run_open(NULL);
  nmb__run_seed(rng, seed);
  const clock_t end = clock() + 2 * CLOCKS_PER_SEC;
  bytes *f = NMB_NEW(rng, bytes, 1);
  long tries = 0;
  for (; tries < 10 || clock() < end; tries++) {
    memset(f, 0, sizeof *f);
    make[tries % 5](f);
    if (tries >= 5)
      mutate(rng, f);
    LLVMFuzzerTestOneInput(f->b, f->n);
  }
  printf("%ld inputs\n", tries);
  nmb__run_close(rng);
}

int
main(int argc, char **argv)
{
  char *end = NULL;
  const uint64_t seed = argc > 1 ? strtoull(argv[1], &end, 10) : 1;
  if (argc > 1 && *end) {
    size_t n;
    nmb_run *run = nmb__run_open(stderr);
    const char *s = nmb__read_file(run, argv[1], &n);
    if (s)
      LLVMFuzzerTestOneInput((const uint8_t *)s, n);
    nmb__run_close(run);
    return !s;
  }
  fuzz(seed);
  return 0;
}
