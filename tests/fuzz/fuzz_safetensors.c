/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Any bytes as a safetensors file: every stored quantisation, and a model of a config.json
 * that is right. */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/model.h"

static const char config[] =
    "{\"model_type\":\"llama\",\"hidden_size\":8,\"num_hidden_layers\":1,"
    "\"intermediate_size\":8,\"num_attention_heads\":2,\"num_key_value_heads\":1,"
    "\"vocab_size\":4,\"tie_word_embeddings\":true,\"max_position_embeddings\":64,"
    "\"rms_norm_eps\":1e-5,\"torch_dtype\":\"float32\"}";

static nmb_status
use(nmb_run *run, const uint8_t *data, size_t size)
{
  static const nmb__layout_info infos[] = {
      {.method = "", .block_rows = 128, .block_cols = 128},
      {.method = "bitnet", .block_rows = 2, .block_cols = 4},
      {.method = "gptq", .bits = 3, .block_rows = 1, .block_cols = 1, .v2 = true},
      {.method = "", .bits = 8, .block_rows = 128, .block_cols = 128, .multiply = true}};
  nmb__wfile *w;
  NMB_TRY(nmb__wfile_bytes(run, "fuzz.safetensors", data, size, &w));
  for (size_t i = 0; i < sizeof infos / sizeof *infos; i++)
    rows_read(run, w, &infos[i]);
  nmb__wmodel m = {.file = w, .layout = infos[0], .stems = nmb__wmodel_stems(w)};
  if (!nmb__wfile_find(w, "model.norm.weight"))
    return NMB_OK;
  NMB_TRY(nmb__arch_parse(run, "config.json", "fuzz", config, sizeof config - 1, &m.arch));
  return model_use(run, &m);
}

/* -------------------------------------------------------------------- seeds */
typedef struct row {
  const char *name, *dtype, *shape;
  int bytes;
} row;

static int
header_make(bytes *f, const row *t, size_t n)
{
  char head[8192] = "{\"__metadata__\":{\"format\":\"pt\"}";
  int at = 0;
  for (size_t i = 0; i < n; at += t[i++].bytes)
    snprintf(head + strlen(head), sizeof head - strlen(head),
             ",\"%s\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[%d,%d]}", t[i].name,
             t[i].dtype, t[i].shape, at, at + t[i].bytes);
  strcat(head, "}");
  put(f, strlen(head), 8);
  put_bytes(f, head);
  return at;
}

/* Every stored quantisation once. */
static void
stored_make(bytes *f)
{
  static const row t[] = {{"a.qweight", "I32", "[4,8]", 128},
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
                          {"h.weight_scale", "F32", "[1]", 4},
                          {"i.weight", "I8", "[2,4]", 8},
                          {"i.SCB", "F32", "[2]", 8}};
  static const char state[] = "{\"blocksize\":64,\"nested_blocksize\":256,"
                              "\"nested_offset\":0,\"shape\":[4,32]}";
  size_t at = 0;
  const int all = header_make(f, t, sizeof t / sizeof *t);
  for (const row *r = t; !strstr(r->name, "quant_state"); r++)
    at += (size_t)r->bytes;
  memset(f->b + f->n + at, ' ', 70);
  memcpy(f->b + f->n + at, state, sizeof state - 1);
  f->n += (size_t)all;
}

static void
model_make(bytes *f)
{
  static const row t[] = {
      {"model.embed_tokens.weight", "F32", "[4,8]", 128},
      {"model.norm.weight", "F32", "[8]", 32},
      {"model.layers.0.input_layernorm.weight", "F32", "[8]", 32},
      {"model.layers.0.post_attention_layernorm.weight", "F32", "[8]", 32},
      {"model.layers.0.self_attn.q_proj.weight", "F32", "[8,8]", 256},
      {"model.layers.0.self_attn.k_proj.weight", "F32", "[4,8]", 128},
      {"model.layers.0.self_attn.v_proj.weight", "F32", "[4,8]", 128},
      {"model.layers.0.self_attn.o_proj.weight", "F32", "[8,8]", 256},
      {"model.layers.0.mlp.gate_proj.weight", "F32", "[8,8]", 256},
      {"model.layers.0.mlp.up_proj.weight", "F32", "[8,8]", 256},
      {"model.layers.0.mlp.down_proj.weight", "F32", "[8,8]", 256}};
  put_floats(f, (size_t)header_make(f, t, sizeof t / sizeof *t) / 4);
}

static const char *const words[] = {"-1",
                                    "0",
                                    "4",
                                    "8",
                                    "16",
                                    "9223372036854775807",
                                    "18446744073709551616",
                                    "1e9",
                                    "null",
                                    "[]",
                                    "[1,2,3,4,5,6,7,8,9]",
                                    "{}",
                                    "[[[[[[[[[[",
                                    "\"F64\"",
                                    "\"U8\"",
                                    "\"I32\"",
                                    "\"BOOL\"",
                                    "\"a.weight\":",
                                    ",",
                                    "}",
                                    "\\u0000",
                                    NULL};
static const seed seeds[] = {{"stored", stored_make}, {"model", model_make}};
static const target safetensors = {seeds, sizeof seeds / sizeof *seeds, use, words};
FUZZ_TARGET(safetensors)
