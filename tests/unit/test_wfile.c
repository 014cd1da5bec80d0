/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Readers of weight files: values bit for bit, and refusals that name the tensor. */
#include <ctype.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/path.h"
#include "base/run.h"
#include "frontend/source.h"
#include "tests/unit/unit.h"
#include "ir/formats.h"

static const char *
source(nmb_run *run, const char *path)
{
  const char *top = getenv("srcdir");
  return nmb_format(run, "%s/%s", top ? top : ".", path);
}

/* ---------------------------------------------------------------- decoding */
static int
hex(char c)
{
  return c <= '9' ? c - '0' : c - 'a' + 10;
}

static bool
same_name(const char *a, const char *b)
{
  while (*a && tolower((unsigned char)*a) == tolower((unsigned char)*b)) {
    a++;
    b++;
  }
  return !*a && !*b;
}

/* The format that a program has for the stored one holds its values, in as many bytes. */
static void
held_check(nmb_run *run, const nmb__storage_info *info, const uint8_t *bytes, int64_t n,
           const float *x)
{
  const nmb_dtype d = info->dtype;
  uint8_t *b = NMB_NEW(run, uint8_t, nmb_bytes(d, info->group, n) + 1);
  float *y = NMB_NEW(run, float, n);
  if (nmb__storage_native(d) != NMB_NONE) {
    CU_ASSERT_EQUAL(nmb__storage_get((nmb__storage)nmb__storage_native(d)), info);
    CU_ASSERT_EQUAL(nmb_bytes(d, 0, info->elems), info->bytes);
    for (int64_t a = 0; a < n; a += 37) {
      nmb__unpack(d, 0, 1, bytes, a, n, y);
      CU_ASSERT_EQUAL(memcmp(y, x + a, (size_t)(n - a) * sizeof *y), 0);
    }
    return;
  }
  if (info->elems > 1) /* the same bytes but for the place of the scales */
    CU_ASSERT_EQUAL(nmb_bytes(d, info->group, n), n / info->elems * info->bytes);
  const float scale = nmb__tensor_scale(d, info->group, true, n, x);
  nmb__pack(d, info->group, scale, n, x, b);
  nmb__unpack(d, info->group, scale, b, 0, n, y);
  for (int64_t i = 0; i < n; i++) {
    if (y[i] < x[i] || y[i] > x[i])
      printf("\n  %s[%d]: held as %.9g, not %.9g", info->name, (int)i, (double)y[i],
             (double)x[i]);
    CU_ASSERT_FALSE(y[i] < x[i] || y[i] > x[i]);
  }
}

/* One row of a vector file: {"type", "rows": [{"hex", "f32"}]}. */
static void
vector_check(nmb_run *run, const char *type, const json_t *row, int *checked)
{
  const char *h = json_string_value(json_object_get(row, "hex"));
  const json_t *want = json_object_get(row, "f32");
  const size_t n = strlen(h) / 2, count = json_array_size(want);
  uint8_t *b = NMB_NEW(run, uint8_t, n);
  float *got = NMB_NEW(run, float, count);
  for (size_t i = 0; i < n; i++)
    b[i] = (uint8_t)(hex(h[2 * i]) << 4 | hex(h[2 * i + 1]));
  for (int s = 0; s < NMB__NSTORAGE; s++) {
    const nmb__storage_info *info = nmb__storage_get((nmb__storage)s);
    if (info->gguf < 0 || !same_name(info->name, type))
      continue;
    CU_ASSERT_EQUAL(n % (size_t)info->bytes, 0);
    info->decode(b, (int64_t)n / info->bytes, got);
    held_check(run, info, b, (int64_t)count, got);
    for (size_t i = 0; i < count; i++) {
      const float w = (float)json_number_value(json_array_get(want, i));
      const bool zero =
          !(w > 0 || w < 0 || got[i] > 0 || got[i] < 0); /* no sign in JSON */
      if (!zero && memcmp(&w, &got[i], sizeof w))
        printf("\n  %s[%zu]: %.9g, expected %.9g", type, i, (double)got[i], (double)w);
      CU_ASSERT_TRUE(zero || !memcmp(&w, &got[i], sizeof w));
    }
    ++*checked;
  }
}

static int
vectors(nmb_run *run, const char *path)
{
  int checked = 0;
  json_error_t err;
  json_t *top = json_load_file(path, 0, &err);
  for (size_t i = 0; i < json_array_size(top); i++) {
    const json_t *t = json_array_get(top, i), *rows = json_object_get(t, "rows");
    for (size_t j = 0; j < json_array_size(rows); j++)
      vector_check(run, json_string_value(json_object_get(t, "type")),
                   json_array_get(rows, j), &checked);
  }
  json_decref(top);
  return checked;
}

static void
test_blocks(void)
{
  nmb_run *run = nmb__run_open(NULL);
  CU_ASSERT_EQUAL(vectors(run, source(run, "tests/data/blocks.json")), 26);
  const char *shared = source(run, "../shared/reference/ggml-block-vectors.json");
  if (access(shared, R_OK))
    printf("(no shared vectors) ");
  else
    CU_ASSERT_EQUAL(vectors(run, shared), 21);
  nmb__run_close(run);
}

static void
test_small_floats(void)
{
  CU_ASSERT_EQUAL(nmb__mini_value(NMB__MINI_E4M3, 0x7e), 448);
  CU_ASSERT_EQUAL(nmb__mini_value(NMB__MINI_E4M3, 0x81), -0x1p-9f);
  CU_ASSERT_TRUE(nmb__mini_value(NMB__MINI_E4M3, 0xff) != nmb__mini_value(NMB__MINI_E4M3, 0xff));
  CU_ASSERT_EQUAL(nmb__f16_value(0x7bff), 65504);
  CU_ASSERT_EQUAL(nmb__f16_value(0x8001), -0x1p-24f);
  CU_ASSERT_EQUAL(nmb__e8m0_value(0), 0x1p-127f);
  CU_ASSERT_EQUAL(nmb__mini_value(NMB__MINI_E2M1, 13), -3);
  CU_ASSERT_EQUAL(nmb__nf4_values()[9], 0.16093020141124725f);
  float y[4];
  const uint8_t six[3] = {0x1f | 0x40, 0x0e,
                          0x04}; /* codes 31, 57-32, .. low bits first */
  nmb__storage_get(NMB__ST_F6_E2M3)->decode(six, 1, y);
  CU_ASSERT_EQUAL(y[0], 7.5f);
  nmb__storage_get(NMB__ST_F6_E3M2)->decode(six, 1, y);
  CU_ASSERT_EQUAL(y[0], 28);
}

/* ----------------------------------------------------------------- headers */
/* A file that a test writes piece by piece. */
typedef struct bytes {
  uint8_t b[4096];
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
  for (; *s; s++)
    f->b[f->n++] = (uint8_t)*s;
}

static void
put_tensor(bytes *f, const char *name, uint64_t ne0, uint64_t ne1, uint32_t type,
           uint64_t offset)
{
  put_text(f, name);
  put(f, 2, 4);
  put(f, ne0, 8);
  put(f, ne1, 8);
  put(f, type, 4);
  put(f, offset, 8);
}

static const char *
written(nmb_run *run, const bytes *f)
{
  const char *path = nmb_format(run, "test_wfile.%d.tmp", (int)getpid());
  FILE *out = fopen(path, "wb");
  CU_ASSERT_PTR_NOT_NULL_FATAL(out);
  CU_ASSERT_EQUAL(fwrite(f->b, 1, f->n, out), f->n);
  fclose(out);
  return path;
}

/* Opens the bytes: must fail with the words; NULL: must be read. */
static void
opens(const bytes *f, const char *words)
{
  nmb_run *run = nmb__run_open(NULL);
  nmb__wfile *w;
  const char *path = written(run, f);
  const nmb_status s = nmb__wfile_open(run, path, &w);
  unlink(path);
  if (!words) {
    if (s != NMB_OK)
      printf("\n  %s", nmb_error_text(run));
    CU_ASSERT_EQUAL(s, NMB_OK);
  } else {
    CU_ASSERT_NOT_EQUAL(s, NMB_OK);
    if (!strstr(nmb_error_text(run), words))
      printf("\n  '%s' does not say '%s'", nmb_error_text(run), words);
    CU_ASSERT_PTR_NOT_NULL(strstr(nmb_error_text(run), words));
  }
  nmb__wfile_close(w);
  nmb__run_close(run);
}

static bytes
gguf_begin(uint64_t tensors, uint64_t keys)
{
  bytes f = {{'G', 'G', 'U', 'F', 3}, 8};
  put(&f, tensors, 8);
  put(&f, keys, 8);
  return f;
}

static void
gguf_end(bytes *f, size_t data)
{
  while (f->n % 32)
    f->n++;
  f->n += data;
}

static void
gguf_two(const char *a, const char *b, uint64_t ne, uint32_t type, uint64_t offset,
         const char *words)
{
  bytes f = gguf_begin(2, 0);
  put_tensor(&f, a, 32, 2, 0, 0);
  put_tensor(&f, b, ne, 1, type, offset);
  gguf_end(&f, 512);
  opens(&f, words);
}

/* One part of a model in several files, which are not there. */
static void
gguf_part(uint64_t no, uint64_t count, const char *words)
{
  bytes f = gguf_begin(0, 2);
  put_text(&f, "split.no");
  put(&f, 4, 4);
  put(&f, no, 4);
  put_text(&f, "split.count");
  put(&f, 4, 4);
  put(&f, count, 4);
  opens(&f, words);
}

static void
test_gguf_parts(void)
{
  gguf_part(0, 2, "expected one that ends with -00001-of-00002.gguf");
  gguf_part(2, 2, "found split.no 2 and split.count 2");
  gguf_part(0, 1 << 30, "at most 99999 parts");
}

static void
test_gguf(void)
{
  gguf_two("a", "b", 32, 2, 256, NULL);
  gguf_two("a", "a", 32, 2, 256, "tensor 'a': the name stands twice");
  gguf_two("a", "b", 32, 2, 224, "tensor 'b': its bytes overlap those of 'a'");
  gguf_two("a", "b", 32, 2, 260, "tensor 'b' starts at byte 260");
  gguf_two("a", "b", 33, 2, 256, "tensor 'b': a row has 33 elements");
  gguf_two("a", "b", 65, 0, 256, "tensor 'b': its 260 bytes");
  gguf_two("a", "b", 32, 2, UINT64_MAX - 31, "tensor 'b': its 18 bytes");
  gguf_two("a", "b", UINT64_C(1) << 63, 2, 256, "tensor 'b': a dimension is 9223372036");
  gguf_two("a", "b", UINT64_C(1) << 61, 0, 256, "tensor 'b': dimension 1 is");
  gguf_two("a", "b", 32, 16, 256, "tensor 'b' is stored as IQ2_XXS");
  gguf_two("a", "b", 32, 99, 256, "tensor 'b': found type 99");
  bytes f = gguf_begin(UINT64_MAX, 0);
  opens(&f, "more than fit in the file");
  f = gguf_begin(0, 1);
  put_text(&f, "list");
  put(&f, 9, 4);
  put(&f, 8, 4);
  put(&f, UINT64_MAX / 8, 8);
  opens(&f, "key 'list': ");
  f = gguf_begin(0, 2);
  for (int i = 0; i < 2; i++) {
    put_text(&f, "k");
    put(&f, 4, 4);
    put(&f, 7, 4);
  }
  opens(&f, "key 'k': it stands twice");
  f = gguf_begin(0, 0);
  f.b[4] = 0;
  f.b[7] = 3;
  opens(&f, "big-endian");
}

static void
safetensors(const char *header, size_t data, const char *words)
{
  bytes f = {.n = 0};
  put_text(&f, header);
  f.n += data;
  opens(&f, words);
}

static void
test_safetensors(void)
{
#define T(name, shape, span)                                                             \
  "\"" name "\":{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":" span "}"
  safetensors("{" T("a", "[2,3]", "[0,24]") "," T("b", "[]", "[24,28]") "}  ", 28, NULL);
  safetensors("{" T("a", "[2]", "[0,8]") "," T("b", "[2]", "[4,12]") "}", 12,
              "tensor 'b': it starts at byte 4 of the data, expected 8 (it overlaps");
  safetensors(
      "{" T("a", "[2]", "[0,8]") "," T("b", "[1]", "[12,16]") "}", 16,
      "tensor 'b': it starts at byte 12 of the data, expected 8 (there is a hole");
  safetensors("{" T("a", "[2]", "[0,8]") "}", 4, "tensor 'a': data_offsets is [0,8]");
  safetensors("{" T("a", "[2]", "[0,8]") "}", 12, "the tensors take 8 bytes");
  safetensors("{" T("a", "[4611686018427387904,4]", "[0,8]") "}", 8,
              "tensor 'a': dimension 0 is");
  safetensors("{" T("a", "[3]", "[0,8]") "}", 8, "tensor 'a': data_offsets is [0,8]");
  safetensors("{" T("a", "[2]", "[0,8]") "," T("a", "[2]", "[0,8]") "}", 8, "duplicate");
  safetensors("{\"a\":{\"dtype\":\"Q9\",\"shape\":[],\"data_offsets\":[0,0]}}", 0,
              "tensor 'a': dtype is \"Q9\"");
  safetensors("{\"a\":7}", 0, "tensor 'a': its entry is 7");
  bytes f = {.n = 0};
  put(&f, UINT64_C(1) << 40, 8);
  put(&f, '{', 1);
  opens(&f, "expected GGUF, safetensors");
#undef T
}

static bytes
rwkv(uint32_t rank, uint32_t name, uint32_t type, uint32_t d)
{
  bytes f = {.n = 0};
  const uint32_t v[] = {0x67676d66, 100, 256, 4, 1, 0, rank, name, type, d};
  for (size_t i = 0; i < 10; i++)
    put(&f, v[i], 4);
  put(&f, 'a', 1);
  f.n += 16;
  return f;
}

static void
test_rwkv(void)
{
  bytes f = rwkv(1, 1, 0, 4);
  opens(&f, NULL);
  f.n--;
  opens(&f, "the file ends at byte 56, inside tensor 'a'");
  f = rwkv(1, 1, 5, 4);
  opens(&f, "tensor 'a': found type 5");
  f = rwkv(9, 1, 0, 4);
  opens(&f, "has 9 dimensions");
  f = rwkv(1, 2000, 0, 4);
  opens(&f, "a name of 2000 bytes");
}

/* ----------------------------------------------------------------- layouts */
static nmb__wtensor
part(const char *name, nmb__storage type, int64_t d0, int64_t d1, const void *data)
{
  nmb__wtensor t = {.name = name, .type = type, .rank = 2, .dim = {d0, d1}, .data = data};
  t.count = d0 * d1;
  t.bytes = (uint64_t)t.count * (uint64_t)nmb__storage_get(type)->bytes;
  return t;
}

/* Element [row][col] of x.weight in these parts. */
static float
value(nmb__wtensor *parts, int n, const nmb__layout_info *info, int64_t row, int64_t col)
{
  nmb_run *run = nmb__run_open(stderr);
  nmb__wfile w = {.path = "x", .naming = NMB__NAMES_HF, .ntensor = n, .tensor = parts};
  nmb__source s;
  float v[64] = {0};
  CU_ASSERT_EQUAL(nmb__wfile_sort(run, &w), NMB_OK);
  CU_ASSERT_EQUAL_FATAL(nmb__source_open(run, &w, info, "x.weight", &s), NMB_OK);
  CU_ASSERT_PTR_NOT_NULL_FATAL(s.t);
  nmb__source_row(&s, row, v);
  nmb__run_close(run);
  return v[col];
}

static void
test_layouts(void)
{
  static const nmb__layout_info plain = {.method = "", .block_rows = 2, .block_cols = 2},
                                v2 = {.method = "gptq", .bits = 4, .v2 = true},
                                three = {.method = "gptq", .bits = 3},
                                four = {.method = "gptq", .bits = 4},
                                bit = {.method = "bitnet"};
  /* GPTQ, 4 bits: 8 codes down the column of output 1 of 8; zero point 5 stored */
  uint32_t q[16] = {0}, z[2] = {0x50, 0};
  float s[16] = {0};
  q[1] = 0x76543210;
  s[1] = 0.5f;
  nmb__wtensor gptq[] = {part("x.qweight", NMB__ST_I32, 1, 8, q),
                         part("x.qzeros", NMB__ST_I32, 1, 1, z),
                         part("x.scales", NMB__ST_F32, 1, 8, s)};
  CU_ASSERT_EQUAL(value(gptq, 3, &four, 1, 7), 0.5f * (7 - 6));
  CU_ASSERT_EQUAL(value(gptq, 3, &v2, 1, 7), 0.5f * (7 - 5));
  /* 3 bits: code 10 has its low bits at the top of word 0, its high bit in word 1 */
  uint32_t q3[24] = {0}, z3[1] = {2u << 3};
  q3[1] = 1u << 30;
  q3[8 + 1] = 1;
  nmb__wtensor gptq3[] = {part("x.qweight", NMB__ST_I32, 3, 8, q3),
                          part("x.qzeros", NMB__ST_I32, 1, 1, z3),
                          part("x.scales", NMB__ST_F32, 1, 8, s)};
  CU_ASSERT_EQUAL(value(gptq3, 3, &three, 1, 10), 0.5f * (5 - 3));
  /* AWQ: column 1 of 8 is nibble 4 */
  uint32_t qa[2] = {0x90000, 0xa0000}, za[1] = {0x30000};
  nmb__wtensor awq[] = {part("x.qweight", NMB__ST_I32, 2, 1, qa),
                        part("x.qzeros", NMB__ST_I32, 1, 1, za),
                        part("x.scales", NMB__ST_F32, 1, 8, s)};
  CU_ASSERT_EQUAL(value(awq, 3, &plain, 1, 1), 0.5f * (10 - 3));
  /* compressed-tensors: codes along the input, 8 is zero; two groups of 4 */
  const uint32_t ct[1] = {0xf8888880};
  const float cs[2] = {0.25f, 3};
  nmb__wtensor packed[] = {part("x.weight_packed", NMB__ST_I32, 1, 1, ct),
                           part("x.weight_scale", NMB__ST_F32, 1, 2, cs)};
  CU_ASSERT_EQUAL(value(packed, 2, &plain, 0, 0), 0.25f * -8);
  CU_ASSERT_EQUAL(value(packed, 2, &plain, 0, 7), 3.0f * 7);
  /* FP8 in blocks of 2x2: code 0x40 is 2 */
  const uint8_t f8[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0x40, 0, 0, 0x40};
  const float fs[4] = {1, 5, 7, 11};
  nmb__wtensor fp8[] = {part("x.weight", NMB__ST_F8_E4M3, 3, 4, f8),
                        part("x.weight_scale_inv", NMB__ST_F32, 2, 2, fs)};
  CU_ASSERT_EQUAL(value(fp8, 2, &plain, 2, 0), 2 * 7);
  CU_ASSERT_EQUAL(value(fp8, 2, &plain, 2, 3), 2 * 11);
  /* BitNet: row 2 of 4 has bits 4 and 5 of the only row of bytes */
  const uint8_t bn[2] = {0x20, 0x00};
  const float bs[1] = {4};
  nmb__wtensor bitnet[] = {part("x.weight", NMB__ST_U8, 1, 2, bn),
                           part("x.weight_scale", NMB__ST_F32, 1, 1, bs)};
  CU_ASSERT_EQUAL(value(bitnet, 2, &bit, 2, 0), 0.25f);
  CU_ASSERT_EQUAL(value(bitnet, 2, &bit, 2, 1), -0.25f);
}

static void
test_four_bits(void)
{
  static const nmb__layout_info plain = {.method = "", .block_rows = 2, .block_cols = 2};
  /* NVFP4: the low nibble first, a scale per 16, the global scale divides or multiplies
   */
  uint8_t codes[16] = {[9] = 0x7a};       /* elements 18: -1, 19: 6 */
  const uint8_t scales[2] = {0x38, 0x40}; /* E4M3: 1, 2 */
  const float global[1] = {4};
  nmb__wtensor ct[] = {part("x.weight_packed", NMB__ST_U8, 1, 16, codes),
                       part("x.weight_scale", NMB__ST_F8_E4M3, 1, 2, scales),
                       part("x.weight_global_scale", NMB__ST_F32, 1, 1, global)};
  CU_ASSERT_EQUAL(value(ct, 3, &plain, 0, 19), 6 * 2 / 4.0f);
  nmb__wtensor opt[] = {part("x.weight", NMB__ST_U8, 1, 16, codes),
                        part("x.weight_scale", NMB__ST_F8_E4M3, 1, 2, scales),
                        part("x.weight_scale_2", NMB__ST_F32, 1, 1, global)};
  CU_ASSERT_EQUAL(value(opt, 3, &plain, 0, 18), -1 * 2 * 4);
  /* NF4: the high nibble first; absmax is a code of 256 levels, scaled, with an offset */
  static const char state[] = "{\"blocksize\":64,\"nested_blocksize\":256,"
                              "\"nested_offset\":0.5,\"shape\":[2,64]}";
  uint8_t nf[64] = {[33] = 0xf8}; /* row 1: element 2 is level 15, element 3 level 8 */
  const uint8_t absmax[2] = {0, 3};
  const float nested[1] = {8};
  float levels[256] = {[3] = 0.25f};
  nmb__wtensor bnb[] = {part("x.weight", NMB__ST_U8, 64, 1, nf),
                        part("x.weight.absmax", NMB__ST_U8, 1, 2, absmax),
                        part("x.weight.nested_absmax", NMB__ST_F32, 1, 1, nested),
                        part("x.weight.nested_quant_map", NMB__ST_F32, 1, 256, levels),
                        part("x.weight.quant_state.bitsandbytes__nf4", NMB__ST_U8, 1,
                             (int64_t)sizeof state - 1, state)};
  CU_ASSERT_EQUAL(value(bnb, 5, &plain, 1, 2), 0.25f * 8 + 0.5f);
  CU_ASSERT_EQUAL(value(bnb, 5, &plain, 1, 3), 0.07958029955625534f * 2.5f);
}

UNIT_MAIN("wfile", {"blocks of every type decode bit for bit", test_blocks},
          {"small floats have their extreme values", test_small_floats},
          {"a GGUF header that lies is refused by name", test_gguf},
          {"a part of a GGUF model without the others is refused", test_gguf_parts},
          {"safetensors tile their file", test_safetensors},
          {"codes of the published layouts have their values", test_layouts},
          {"4 bit floats take their two scales", test_four_bits},
          {"rwkv.cpp tensors end within their file", test_rwkv})
