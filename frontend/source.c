/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Stored quantisations -> rows of floats.  Every part is checked against the others when
 * a source is opened; reading trusts them. */
#include "frontend/source.h"
#include "ir/formats.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>

typedef struct opener {
  nmb_run *run;
  const nmb__wfile *w;
  const nmb__layout_info *info;
  const char *base; /* name without ".weight" */
  nmb__source *s;
} opener;

static const nmb__wtensor *
part(const opener *o, const char *suffix)
{
  const nmb__wtensor *t =
      nmb__wfile_find(o->w, nmb_format(o->run, "%s%s", o->base, suffix));
  return t && t->count ? t : NULL;
}

static const char *
shape_text(nmb_run *run, const nmb__wtensor *t)
{
  const char *s = "";
  for (int i = 0; i < t->rank; i++)
    s = nmb_format(run, "%s%s%" PRId64, s, i ? "," : "", t->dim[i]);
  return nmb_format(run, "[%s] of %s", s, nmb__storage_get(t->type)->name);
}

/* The part `t` (or the absence of `suffix`) does not fit. */
static nmb_status
misfit(const opener *o, const nmb__wtensor *t, const char *suffix, const char *expected)
{
  return nmb_fail(o->run, NMB_BADINPUT,
                  (nmb_loc){t         ? t->file
                            : o->s->t ? o->s->t->file
                                      : o->w->path,
                            0, 0},
                  "tensor '%s': found %s, expected %s",
                  t ? t->name : nmb_format(o->run, "%s%s", o->base, suffix),
                  t ? shape_text(o->run, t) : "nothing", expected);
}

static bool
plain_type(const nmb__wtensor *t)
{
  return nmb__storage_get(t->type)->elems == 1;
}

static float
element(const nmb__wtensor *t, int64_t i)
{
  float v;
  const nmb__storage_info *s = nmb__storage_get(t->type);
  s->decode(t->data + i * s->bytes, 1, &v);
  return v;
}

static void
shape_set(nmb__source *s, int rank, const int64_t *dim)
{
  s->rank = rank;
  s->count = 1;
  for (int i = 0; i < rank; i++) {
    s->dim[i] = dim[i];
    s->count *= dim[i];
  }
}

static int64_t
columns(const nmb__source *s)
{
  return s->rank ? s->dim[s->rank - 1] : 1;
}

static int64_t
rows(const nmb__source *s)
{
  return s->rank > 1 ? s->dim[s->rank - 2] : 1;
}

static int64_t
slabs(const nmb__source *s)
{
  const int64_t n = rows(s) * columns(s);
  return n ? s->count / n : 0;
}

static int64_t
ceil_div(int64_t a, int64_t b)
{
  return a / b + (a % b != 0);
}

/* ------------------------------------------------------------------ scales */
/* How far each scale of s->scale reaches.  Rows and columns are of one slab. */
static nmb_status
scale_fit(const opener *o)
{
  nmb__source *s = o->s;
  const nmb__wtensor *t = s->scale;
  const int64_t n = rows(s), k = columns(s), each = slabs(s);
  if (!plain_type(t))
    return misfit(o, t, "", "plain numbers as scales");
  if (t->count == 1 || t->count == each) { /* one for all, or one per expert */
    s->block_rows = n;
    s->block_cols = k;
    s->scale_rows = s->scale_cols = t->count == 1 ? 0 : 1;
    return NMB_OK;
  }
  const int64_t br = o->info->block_rows, bc = o->info->block_cols;
  const int64_t tc = t->rank > 1 ? t->dim[t->rank - 1] : 1;
  const int64_t tr = t->rank > 1 ? t->dim[t->rank - 2] : t->count;
  s->scale_rows = tr;
  s->scale_cols = tc;
  if (tr * tc * each != t->count)
    return misfit(o, t, "", "as many matrices of scales as of codes");
  if (tr == n && tc > 0 && k % tc == 0) {
    s->block_rows = 1;
    s->block_cols = k / tc;
    return NMB_OK;
  }
  if (br > 0 && bc > 0 && tr == ceil_div(n, br) && tc == ceil_div(k, bc)) {
    s->block_rows = br;
    s->block_cols = bc;
    return NMB_OK;
  }
  return misfit(o, t, "",
                nmb_format(o->run,
                           "a scale per tensor, row, group of a row, or block of %" PRId64
                           "x%" PRId64 " of the [%" PRId64 ",%" PRId64 "] codes",
                           br, bc, n, k));
}

static float
scale_at(const nmb__source *s, int64_t row, int64_t col)
{
  const int64_t n = rows(s);
  if (!s->scale_rows)
    return element(s->scale, 0);
  return element(s->scale,
                 (row / n * s->scale_rows + row % n / s->block_rows) * s->scale_cols +
                     col / s->block_cols);
}

/* Times the scales of the row, each fetched once. */
static void
scale_row(const nmb__source *s, int64_t row, float *out)
{
  const int64_t k = columns(s);
  for (int64_t a = 0; a < k;) {
    const float f = scale_at(s, row, a);
    int64_t b = s->block_cols ? (a / s->block_cols + 1) * s->block_cols : k;
    for (b = b < k ? b : k; a < b; a++)
      out[a] *= f;
  }
}

/* ------------------------------------------------------- plain and scaled */
static nmb_status
plain_open(const opener *o)
{
  nmb__source *s = o->s;
  shape_set(s, s->t->rank, s->t->dim);
  const bool coded = s->t->type == NMB__ST_I8 || s->t->type == NMB__ST_F8_E4M3 ||
                     s->t->type == NMB__ST_F8_E5M2 || o->w->naming == NMB__NAMES_GGUF;
  static const char *const suffixes[] = {".weight_scale_inv", ".weight_scale", ".scale"};
  if (!coded)
    return NMB_OK;
  for (size_t i = 0; !s->scale && i < sizeof suffixes / sizeof *suffixes; i++)
    s->scale = part(o, suffixes[i]);
  if (!s->scale && (s->scale = part(o, ".SCB")))
    s->factor = 1 / 127.0f; /* LLM.int8: the scale is the row's largest value */
  const nmb__wtensor *flat = part(o, ".weight_scale");
  if (o->w->naming == NMB__NAMES_GGUF && flat) { /* llama2.c */
    s->kind = NMB__SRC_FLAT;
    s->scale = flat;
    s->block_cols = flat->count ? s->count / flat->count : 0;
    return flat->count && s->block_cols * flat->count == s->count && plain_type(flat)
               ? NMB_OK
               : misfit(o, flat, "", "a divisor of the codes");
  }
  if (!s->scale)
    return s->t->type == NMB__ST_I8
               ? misfit(o, NULL, ".weight_scale", "the scales of int8")
               : NMB_OK;
  s->kind = NMB__SRC_SCALED;
  return scale_fit(o);
}

static void
plain_row(const nmb__source *s, int64_t row, float *out)
{
  const nmb__storage_info *i = nmb__storage_get(s->t->type);
  const int64_t blocks = columns(s) / i->elems;
  i->decode(s->t->data + row * blocks * i->bytes, blocks, out);
}

static void
flat_row(const nmb__source *s, int64_t row, float *out)
{
  const int64_t k = columns(s);
  plain_row(s, row, out);
  for (int64_t i = 0; i < k; i++)
    out[i] *= element(s->scale, (row * k + i) / s->block_cols);
}

/* ------------------------------------------------------------- packed ints */
/* Bits [at, at + n) of a stream of 32 bit words, `stride` words apart. */
static uint32_t
stream_bits(const nmb__wtensor *t, int64_t first, int64_t stride, int64_t at, int n)
{
  const int64_t word = at / 32;
  const int low = (int)(at % 32);
  uint64_t v = nmb__le32(t->data + 4 * (first + word * stride));
  if (low + n > 32)
    v |= (uint64_t)nmb__le32(t->data + 4 * (first + (word + 1) * stride)) << 32;
  return (uint32_t)(v >> low & ((UINT64_C(1) << n) - 1));
}

static bool
words(const nmb__wtensor *t)
{
  return t && t->rank == 2 && (t->type == NMB__ST_I32 || t->type == NMB__ST_U32);
}

/* Group numbers within [0, n); those below 0: none (compressed-tensors). */
static nmb_status
order_check(const opener *o, const nmb__wtensor *t, int64_t k, int64_t n, bool none)
{
  if (t->count != k || (t->type != NMB__ST_I32 && t->type != NMB__ST_I64))
    return misfit(o, t, "", nmb_format(o->run, "%" PRId64 " group numbers", k));
  for (int64_t i = 0; i < k; i++) {
    const float g = element(t, i);
    if (!(g < (float)n) || !(g >= (none ? -1.0f : 0.0f)))
      return nmb_fail(o->run, NMB_BADINPUT, (nmb_loc){t->file, 0, 0},
                      "tensor '%s': element %" PRId64
                      " is group %g, expected 0 to %" PRId64,
                      t->name, i, (double)g, n - 1);
  }
  return NMB_OK;
}

static nmb_status
gptq_open(const opener *o)
{
  nmb__source *s = o->s;
  const int64_t n = s->t->dim[1], groups = s->scale->dim[0];
  s->kind = NMB__SRC_GPTQ;
  s->order = part(o, ".g_idx");
  s->bits = o->info->bits                 ? o->info->bits
            : s->order && s->order->count ? (int)(32 * s->t->dim[0] / s->order->count)
                                          : (int)(32 * s->zero->dim[1] / (n ? n : 1));
  if (s->bits != 2 && s->bits != 3 && s->bits != 4 && s->bits != 8)
    return misfit(o, s->t, "", "codes of 2, 3, 4 or 8 bits");
  const int64_t k = s->t->dim[0] * 32 / s->bits;
  shape_set(s, 2, (int64_t[]){n, k});
  if (s->t->dim[0] * 32 % s->bits || !groups || k < groups)
    return misfit(o, s->t, "", "whole words of codes");
  if (s->zero->dim[0] != groups || s->zero->dim[1] != ceil_div(n * s->bits, 32))
    return misfit(o, s->zero, "", "a zero point for each scale");
  s->block_cols = ceil_div(k, groups);
  s->v2 = o->info->v2;
  return s->order ? order_check(o, s->order, k, groups, false) : NMB_OK;
}

static nmb_status
awq_open(const opener *o)
{
  nmb__source *s = o->s;
  const int64_t k = s->t->dim[0], n = s->scale->dim[1], groups = s->scale->dim[0];
  s->kind = NMB__SRC_AWQ;
  shape_set(s, 2, (int64_t[]){n, k});
  if (!groups || k % groups || n % 8 || s->t->dim[1] != n / 8)
    return misfit(o, s->t, "", "eight codes to a word, and whole groups");
  if (s->zero->dim[0] != groups || s->zero->dim[1] != n / 8)
    return misfit(o, s->zero, "", "a zero point for each scale");
  s->block_cols = k / groups;
  return NMB_OK;
}

/* x.qweight: GPTQ or AWQ; their shapes differ. */
static nmb_status
qweight_open(const opener *o)
{
  nmb__source *s = o->s;
  s->scale = part(o, ".scales");
  s->zero = part(o, ".qzeros");
  if (!words(s->t))
    return misfit(o, s->t, "", "a matrix of I32");
  if (!s->scale || s->scale->rank != 2 || !plain_type(s->scale))
    return misfit(o, s->scale, ".scales", "a matrix of scales");
  if (!words(s->zero))
    return misfit(o, s->zero, ".qzeros", "a matrix of I32");
  if (s->t->dim[1] == s->scale->dim[1])
    return gptq_open(o);
  return awq_open(o);
}

static void
gptq_row(const nmb__source *s, int64_t row, float *out)
{
  const int64_t k = s->dim[1], n = s->dim[0], zw = s->zero->dim[1];
  for (int64_t i = 0; i < k; i++) {
    const int64_t g = s->order ? (int64_t)element(s->order, i) : i / s->block_cols;
    const uint32_t q = stream_bits(s->t, row, n, i * s->bits, s->bits);
    const uint32_t z = stream_bits(s->zero, g * zw, 1, row * s->bits, s->bits);
    out[i] = element(s->scale, g * n + row) * (float)((int)q - (int)z - (s->v2 ? 0 : 1));
  }
}

static void
awq_row(const nmb__source *s, int64_t row, float *out)
{
  static const int nibble[8] = {0, 4, 1, 5,
                                2, 6, 3, 7}; /* of column c: order[nibble] = c */
  const int64_t k = s->dim[1], n = s->dim[0], w = n / 8;
  const int at = 4 * nibble[row % 8];
  for (int64_t i = 0; i < k; i++) {
    const int64_t g = i / s->block_cols;
    const uint32_t q = nmb__le32(s->t->data + 4 * (i * w + row / 8)) >> at & 15;
    const uint32_t z = nmb__le32(s->zero->data + 4 * (g * w + row / 8)) >> at & 15;
    out[i] = element(s->scale, g * n + row) * (float)((int)q - (int)z);
  }
}

/* ------------------------------------------------------ compressed-tensors */
static nmb_status
packed_zero(const opener *o, int64_t n)
{
  nmb__source *s = o->s;
  s->zero = part(o, ".weight_zero_point");
  if (!s->zero)
    return NMB_OK;
  const bool bytes = s->zero->type == NMB__ST_I8;
  if (s->zero->rank != 2 || (!bytes && !words(s->zero)) ||
      s->zero->dim[0] != (bytes ? n : ceil_div(n * s->bits, 32)) ||
      s->zero->dim[1] != s->scale_cols || s->block_rows != 1)
    return misfit(o, s->zero, "", "a zero point for each scale");
  return NMB_OK;
}

static nmb_status
packed_open(const opener *o)
{
  nmb__source *s = o->s;
  const nmb__wtensor *shape = part(o, ".weight_shape");
  s->kind = NMB__SRC_PACKED;
  s->bits = o->info->bits ? o->info->bits : 4;
  if (!words(s->t) || (s->bits != 4 && s->bits != 8))
    return misfit(o, s->t, "", "a matrix of I32 with codes of 4 or 8 bits");
  int64_t k = s->t->dim[1] * (32 / s->bits);
  if (shape && (shape->count != 2 || !plain_type(shape) ||
                !(element(shape, 0) == (float)s->t->dim[0]) || !(element(shape, 1) > 0) ||
                element(shape, 1) > (float)k))
    return misfit(o, shape, "", "the rows and columns of the codes");
  if (shape)
    k = (int64_t)element(shape, 1);
  shape_set(s, 2, (int64_t[]){s->t->dim[0], k});
  s->scale = part(o, ".weight_scale");
  if (!s->scale)
    return misfit(o, NULL, ".weight_scale", "the scales");
  NMB_TRY(scale_fit(o));
  s->order = part(o, ".weight_g_idx");
  if (s->order)
    NMB_TRY(order_check(o, s->order, k, s->scale_cols, true));
  return packed_zero(o, s->t->dim[0]);
}

static int
packed_offset(const nmb__source *s, int64_t row, int64_t g)
{
  if (!s->zero)
    return 0;
  if (s->zero->type == NMB__ST_I8)
    return (int8_t)s->zero->data[row * s->zero->dim[1] + g];
  const int z = (int)stream_bits(s->zero, g, s->zero->dim[1], row * s->bits, s->bits);
  return z - (1 << (s->bits - 1));
}

static void
packed_row(const nmb__source *s, int64_t row, float *out)
{
  const int half = 1 << (s->bits - 1);
  for (int64_t i = 0; i < s->dim[1]; i++) {
    const int64_t own = s->order ? (int64_t)element(s->order, i) : -1;
    const int64_t g = own >= 0 ? own : i / s->block_cols;
    const int q =
        (int)stream_bits(s->t, row * s->t->dim[1], 1, i * s->bits, s->bits) - half;
    out[i] = scale_at(s, row, g * s->block_cols) * (float)(q - packed_offset(s, row, g));
  }
}

/* ------------------------------------------------------------------- fp4 */
/* scale: E4M3 per 16 or E8M0 (as bytes) per 32; both are read as what they are. */
static nmb_status
fp4_open(const opener *o, const nmb__wtensor *scale, const char *missing)
{
  nmb__source *s = o->s;
  s->kind = NMB__SRC_FP4;
  s->scale = scale;
  if (s->t->type != NMB__ST_U8 || s->t->rank < 2)
    return misfit(o, s->t, "", "bytes with two codes each");
  if (!scale)
    return misfit(o, NULL, missing, "the scales");
  int64_t dim[NMB__WRANK];
  int rank = s->t->rank;
  memcpy(dim, s->t->dim, sizeof dim);
  if (rank == scale->rank + 1) { /* gpt-oss: [experts, rows, groups, 16] */
    dim[rank - 2] *= dim[rank - 1];
    rank--;
  }
  dim[rank - 1] *= 2;
  shape_set(s, rank, dim);
  NMB_TRY(scale_fit(o));
  return s->block_rows == 1 && (s->block_cols == 16 || s->block_cols == 32)
             ? NMB_OK
             : misfit(o, scale, "", "a scale for 16 or 32 codes");
}

static void
fp4_row(const nmb__source *s, int64_t row, float *out)
{
  const int64_t k = columns(s), n = rows(s), groups = s->scale_cols;
  const uint8_t *b = s->t->data + row * (k / 2);
  for (int64_t g = 0; g < groups; g++) {
    const int64_t at = (row / n * s->scale_rows + row % n) * groups + g;
    const float d = s->scale->type == NMB__ST_U8 ? nmb__e8m0_value(s->scale->data[at])
                                                 : element(s->scale, at) * s->factor;
    for (int64_t i = g * s->block_cols; i < (g + 1) * s->block_cols; i++)
      out[i] = nmb__mini_value(NMB__MINI_E2M1, b[i / 2] >> 4 * (i % 2) & 15u) * d;
  }
}

/* x.weight_packed: integers or nvfp4/mxfp4, by its type. */
static nmb_status
weight_packed_open(const opener *o)
{
  if (o->s->t->type != NMB__ST_U8)
    return packed_open(o);
  const nmb__wtensor *g = part(o, ".weight_global_scale");
  NMB_TRY(fp4_open(o, part(o, ".weight_scale"), ".weight_scale"));
  if (g && (g->count != 1 || !plain_type(g)))
    return misfit(o, g, "", "one number");
  if (g)
    o->s->factor = 1 / element(g, 0); /* stored as the divisor */
  return NMB_OK;
}

/* ----------------------------------------------------------- bitsandbytes */
/* The state is a JSON text: shape, block sizes, the offset of nested scales. */
static nmb_status
levels_state(const opener *o, const nmb__wtensor *t)
{
  nmb__source *s = o->s;
  json_error_t err;
  json_t *j = t->bytes < 65536
                  ? json_loadb((const char *)t->data, (size_t)t->bytes, 0, &err)
                  : NULL;
  const json_t *shape = json_object_get(j, "shape");
  int64_t dim[2] = {0, 0}, n = 0;
  for (size_t i = 0; i < 2; i++)
    dim[i] = json_integer_value(json_array_get(shape, i));
  s->block_cols = json_integer_value(json_object_get(j, "blocksize"));
  const int64_t nested = json_integer_value(json_object_get(j, "nested_blocksize"));
  s->offset = (float)json_number_value(json_object_get(j, "nested_offset"));
  const bool two = json_array_size(shape) == 2;
  json_decref(j);
  if (two && dim[0] > 0 && dim[1] > 0 && dim[0] <= (INT64_C(1) << 60) / dim[1])
    n = dim[0] * dim[1];
  if (!n || s->t->count != ceil_div(n, 2) || s->block_cols < 1 ||
      s->block_cols > 1 << 20 || nested < 0 || nested > 1 << 20)
    return misfit(o, t, "", "a JSON text with the shape, as many codes, and block sizes");
  s->nested_block = (int)nested;
  shape_set(s, 2, dim);
  return NMB_OK;
}

static nmb_status
levels_open(const opener *o)
{
  nmb__source *s = o->s;
  const nmb__wtensor *state = part(o, ".weight.quant_state.bitsandbytes__nf4");
  if (!state)
    state = part(o, ".weight.quant_state.bitsandbytes__fp4");
  s->kind = NMB__SRC_LEVELS;
  if (!state)
    return misfit(o, NULL, ".weight.quant_state.bitsandbytes__nf4",
                  "the state of the codes");
  s->scale = part(o, ".weight.absmax");
  s->levels = part(o, ".weight.quant_map");
  NMB_TRY(levels_state(o, state));
  const int64_t blocks = ceil_div(s->count, s->block_cols);
  if (!s->scale || s->scale->count != blocks || !plain_type(s->scale))
    return misfit(o, s->scale, ".weight.absmax", "a scale for each block");
  if (s->levels && (s->levels->count != 16 || !plain_type(s->levels)))
    return misfit(o, s->levels, "", "16 levels");
  if (s->scale->type != NMB__ST_U8)
    return NMB_OK;
  s->nested = part(o, ".weight.nested_absmax");
  s->nested_levels = part(o, ".weight.nested_quant_map");
  if (!s->nested || !s->nested_block || !plain_type(s->nested) ||
      s->nested->count != ceil_div(blocks, s->nested_block))
    return misfit(o, s->nested, ".weight.nested_absmax",
                  "a scale for each block of scales");
  if (!s->nested_levels || s->nested_levels->count != 256 ||
      !plain_type(s->nested_levels))
    return misfit(o, s->nested_levels, ".weight.nested_quant_map", "256 levels");
  return NMB_OK;
}

static float
absmax(const nmb__source *s, int64_t block)
{
  if (!s->nested)
    return element(s->scale, block);
  return element(s->nested_levels, s->scale->data[block]) *
             element(s->nested, block / s->nested_block) +
         s->offset;
}

static void
levels_row(const nmb__source *s, int64_t row, float *out)
{
  const int64_t k = s->dim[1];
  int64_t last = -1;
  float d = 0;
  for (int64_t j = 0; j < k; j++) {
    const int64_t i = row * k + j;
    const unsigned q = i % 2 ? s->t->data[i / 2] & 15u : s->t->data[i / 2] >> 4;
    if (i / s->block_cols != last)
      d = absmax(s, last = i / s->block_cols);
    out[j] = (s->levels ? element(s->levels, q) : nmb__nf4_values()[q & 15]) * d;
  }
}

/* ------------------------------------------------------------------ bitnet */
static nmb_status
bitnet_open(const opener *o)
{
  nmb__source *s = o->s;
  s->kind = NMB__SRC_BITNET;
  if (s->t->rank != 2 || s->t->dim[0] > INT64_MAX / 8)
    return misfit(o, s->t, "", "bytes with four rows each");
  s->scale = part(o, ".weight_scale");
  if (!s->scale || s->scale->count != 1 || !plain_type(s->scale))
    return misfit(o, s->scale, ".weight_scale", "one number");
  shape_set(s, 2, (int64_t[]){4 * s->t->dim[0], s->t->dim[1]});
  const float f = element(s->scale, 0);
  s->factor = o->info->multiply ? f : 1 / f;
  return NMB_OK;
}

static void
bitnet_row(const nmb__source *s, int64_t row, float *out)
{
  const int64_t quarter = s->t->dim[0], k = s->dim[1];
  const uint8_t *b = s->t->data + row % quarter * k;
  for (int64_t i = 0; i < k; i++)
    out[i] = (float)((b[i] >> 2 * (row / quarter) & 3) - 1) * s->factor;
}

/* ------------------------------------------------------------------- whole */
/* x.weight as bytes is no number by itself. */
static nmb_status
bytes_open(const opener *o)
{
  nmb__source *s = o->s;
  if (part(o, ".weight.absmax"))
    return levels_open(o);
  if (!strcmp(o->info->method, "bitnet"))
    return bitnet_open(o);
  if (!part(o, ".weight_scale"))
    return plain_open(o);
  NMB_TRY(fp4_open(o, part(o, ".weight_scale"), ".weight_scale"));
  const nmb__wtensor *g = part(o, ".weight_scale_2");
  if (g && (g->count != 1 || !plain_type(g)))
    return misfit(o, g, "", "one number");
  if (g)
    s->factor = element(g, 0);
  return NMB_OK;
}

static bool
cut(nmb_run *run, const char *name, const char *end, const char **base)
{
  const size_t n = strlen(name), m = strlen(end);
  if (n <= m || strcmp(name + n - m, end))
    return false;
  *base = nmb_format(run, "%.*s", (int)(n - m), name);
  return true;
}

nmb_status
nmb__source_open(nmb_run *run, const nmb__wfile *w, const nmb__layout_info *info,
                 const char *name, nmb__source *s)
{
  opener o = {run, w, info, name, s};
  *s = (nmb__source){.name = name, .factor = 1};
  s->t = nmb__wfile_find(w, name);
  if (s->t && !s->t->count)
    return misfit(&o, s->t, "", "elements");
  if (s->t && cut(run, name, "_blocks", &o.base))
    return fp4_open(&o, part(&o, "_scales"), "_scales");
  if (!cut(run, name, ".weight", &o.base)) {
    if (s->t)
      shape_set(s, s->t->rank, s->t->dim);
    return NMB_OK;
  }
  if (s->t)
    return s->t->type == NMB__ST_U8 ? bytes_open(&o) : plain_open(&o);
  if ((s->t = part(&o, ".qweight")))
    return qweight_open(&o);
  if ((s->t = part(&o, ".weight_packed")))
    return weight_packed_open(&o);
  return NMB_OK;
}

void
nmb__source_row(const nmb__source *s, int64_t row, float *out)
{
  switch (s->kind) {
  case NMB__SRC_PLAIN: plain_row(s, row, out); break;
  case NMB__SRC_SCALED:
    plain_row(s, row, out);
    for (int64_t i = 0; i < columns(s) && s->factor != 1; i++)
      out[i] *= s->factor;
    scale_row(s, row, out);
    break;
  case NMB__SRC_FLAT: flat_row(s, row, out); break;
  case NMB__SRC_GPTQ: gptq_row(s, row, out); break;
  case NMB__SRC_AWQ: awq_row(s, row, out); break;
  case NMB__SRC_PACKED: packed_row(s, row, out); break;
  case NMB__SRC_FP4: fp4_row(s, row, out); break;
  case NMB__SRC_LEVELS: levels_row(s, row, out); break;
  case NMB__SRC_BITNET: bitnet_row(s, row, out); break;
  }
}
