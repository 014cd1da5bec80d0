/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Codes that are packed as integers: GPTQ, AWQ, compressed-tensors, HQQ. */
#include <inttypes.h>
#include <string.h>

#include "frontend/source-parts.h"

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

/* Group numbers within [0, n); those below 0: none (compressed-tensors). */
static nmb_status
order_check(const opener *o, const nmb__wtensor *t, int64_t k, int64_t n, bool none)
{
  if (t->count != k || (t->type != NMB__ST_I32 && t->type != NMB__ST_I64))
    return nmb__src_misfit(o, t, "", nmb_format(o->run, "%" PRId64 " group numbers", k));
  for (int64_t i = 0; i < k; i++) {
    const float g = nmb__src_element(t, i);
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
  s->order = nmb__src_part(o, ".g_idx");
  s->bits = o->info->bits                 ? o->info->bits
            : s->order && s->order->count ? (int)(32 * s->t->dim[0] / s->order->count)
                                          : (int)(32 * s->zero->dim[1] / (n ? n : 1));
  if (s->bits != 2 && s->bits != 3 && s->bits != 4 && s->bits != 8)
    return nmb__src_misfit(o, s->t, "", "codes of 2, 3, 4 or 8 bits");
  const int64_t k = s->t->dim[0] * 32 / s->bits;
  nmb__src_shape(s, 2, (int64_t[]){n, k});
  if (s->t->dim[0] * 32 % s->bits || !groups || k < groups)
    return nmb__src_misfit(o, s->t, "", "whole words of codes");
  if (s->zero->dim[0] != groups || s->zero->dim[1] != nmb__src_ceil_div(n * s->bits, 32))
    return nmb__src_misfit(o, s->zero, "", "a zero point for each scale");
  s->block_cols = o->info->group > 0 && nmb__src_ceil_div(k, o->info->group) == groups
                      ? o->info->group
                      : nmb__src_ceil_div(k, groups);
  s->v2 = o->info->v2;
  return s->order ? order_check(o, s->order, k, groups, false) : NMB_OK;
}

static nmb_status
awq_open(const opener *o)
{
  nmb__source *s = o->s;
  const int64_t k = s->t->dim[0], n = s->scale->dim[1], groups = s->scale->dim[0];
  s->kind = NMB__SRC_AWQ;
  nmb__src_shape(s, 2, (int64_t[]){n, k});
  if (!groups || k % groups || n % 8 || s->t->dim[1] != n / 8)
    return nmb__src_misfit(o, s->t, "", "eight codes to a word, and whole groups");
  if (s->zero->dim[0] != groups || s->zero->dim[1] != n / 8)
    return nmb__src_misfit(o, s->zero, "", "a zero point for each scale");
  s->block_cols = k / groups;
  return NMB_OK;
}

/* AutoAWQ's layout for vectors: codes along the inputs, in order; zero points fill whole
 * words, and there are as many scales. */
static nmb_status
gemv_open(const opener *o)
{
  nmb__source *s = o->s;
  const int64_t n = s->t->dim[0], k = 8 * s->t->dim[1], zw = s->zero->dim[1];
  const int64_t group = o->info->group;
  s->kind = NMB__SRC_GEMV;
  nmb__src_shape(s, 2, (int64_t[]){n, k});
  if (s->scale->dim[0] != n || s->scale->dim[1] != 8 * zw)
    return nmb__src_misfit(o, s->scale, "", "eight scales for each word of zero points");
  if (s->zero->dim[0] != n || group < 1 || k % group || k / group > 8 * zw)
    return nmb__src_misfit(o, s->zero, "", "a zero point for each group of a row");
  s->block_cols = group;
  return NMB_OK;
}

nmb_status
nmb__src_qweight_open(const opener *o)
{
  nmb__source *s = o->s;
  s->scale = nmb__src_part(o, ".scales");
  s->zero = nmb__src_part(o, ".qzeros");
  if (!nmb__src_words(s->t))
    return nmb__src_misfit(o, s->t, "", "a matrix of I32");
  if (!s->scale || s->scale->rank != 2 || !nmb__src_plain(s->scale))
    return nmb__src_misfit(o, s->scale, ".scales", "a matrix of scales");
  if (!nmb__src_words(s->zero))
    return nmb__src_misfit(o, s->zero, ".qzeros", "a matrix of I32");
  s->linear = true;
  if (o->info->gemv)
    return gemv_open(o);
  return s->t->dim[1] == s->scale->dim[1] ? gptq_open(o) : awq_open(o);
}

void
nmb__src_gptq_row(const nmb__source *s, int64_t row, float *out)
{
  const int64_t k = s->dim[1], n = s->dim[0], zw = s->zero->dim[1];
  for (int64_t i = 0; i < k; i++) {
    const int64_t g = s->order ? (int64_t)nmb__src_element(s->order, i) : i / s->block_cols;
    const uint32_t q = stream_bits(s->t, row, n, i * s->bits, s->bits);
    const uint32_t z = stream_bits(s->zero, g * zw, 1, row * s->bits, s->bits);
    out[i] = nmb__src_element(s->scale, g * n + row) * (float)((int)q - (int)z - (s->v2 ? 0 : 1));
  }
}

void
nmb__src_awq_row(const nmb__source *s, int64_t row, float *out)
{
  static const int nibble[8] = {0, 4, 1, 5,
                                2, 6, 3, 7}; /* of column c: order[nibble] = c */
  const int64_t k = s->dim[1], n = s->dim[0], w = n / 8;
  const int at = 4 * nibble[row % 8];
  for (int64_t i = 0; i < k; i++) {
    const int64_t g = i / s->block_cols;
    const uint32_t q = nmb__le32(s->t->data + 4 * (i * w + row / 8)) >> at & 15;
    const uint32_t z = nmb__le32(s->zero->data + 4 * (g * w + row / 8)) >> at & 15;
    out[i] = nmb__src_element(s->scale, g * n + row) * (float)((int)q - (int)z);
  }
}

void
nmb__src_gemv_row(const nmb__source *s, int64_t row, float *out)
{
  const int64_t k = s->dim[1], zw = s->zero->dim[1];
  for (int64_t i = 0; i < k; i++) {
    const int64_t g = i / s->block_cols;
    const uint32_t q = stream_bits(s->t, row * (k / 8), 1, 4 * i, 4);
    const uint32_t z = stream_bits(s->zero, row * zw, 1, 4 * g, 4);
    out[i] = nmb__src_element(s->scale, row * 8 * zw + g) * (float)((int)q - (int)z);
  }
}

/* ------------------------------------------------------ compressed-tensors */
/* Code i of words that hold 32 / bits each. */
static int
packed_code(const nmb__wtensor *t, int64_t first, int64_t stride, int64_t i, int bits)
{
  const int per = 32 / bits;
  return (int)stream_bits(t, first + i / per * stride, 1, i % per * bits, bits);
}

static nmb_status
packed_zero(const opener *o, int64_t n)
{
  nmb__source *s = o->s;
  s->zero = nmb__src_part(o, ".weight_zero_point");
  if (!s->zero)
    return NMB_OK;
  const bool bytes = s->zero->type == NMB__ST_I8;
  if (s->zero->rank != 2 || (!bytes && !nmb__src_words(s->zero)) ||
      s->zero->dim[0] != (bytes ? n : nmb__src_ceil_div(n, 32 / s->bits)) ||
      s->zero->dim[1] != s->scale_cols || s->block_rows != 1)
    return nmb__src_misfit(o, s->zero, "", "a zero point for each scale");
  return NMB_OK;
}

nmb_status
nmb__src_packed_open(const opener *o)
{
  nmb__source *s = o->s;
  const nmb__wtensor *shape = nmb__src_part(o, ".weight_shape");
  s->kind = NMB__SRC_PACKED;
  s->bits = o->info->bits ? o->info->bits : 4;
  s->linear = true;
  if (!nmb__src_words(s->t) || s->bits < 2 || s->bits > 8)
    return nmb__src_misfit(o, s->t, "", "a matrix of I32 with codes of 2 to 8 bits");
  int64_t k = s->t->dim[1] * (32 / s->bits);
  if (shape && (shape->count != 2 || !nmb__src_plain(shape) ||
                !(nmb__src_element(shape, 0) == (float)s->t->dim[0]) || !(nmb__src_element(shape, 1) > 0) ||
                nmb__src_element(shape, 1) > (float)k))
    return nmb__src_misfit(o, shape, "", "the rows and columns of the codes");
  if (shape)
    k = (int64_t)nmb__src_element(shape, 1);
  nmb__src_shape(s, 2, (int64_t[]){s->t->dim[0], k});
  s->scale = nmb__src_part(o, ".weight_scale");
  if (!s->scale)
    return nmb__src_misfit(o, NULL, ".weight_scale", "the scales");
  NMB_TRY(nmb__src_scale_fit(o));
  s->order = nmb__src_part(o, ".weight_g_idx");
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
  const int z = packed_code(s->zero, g, s->zero->dim[1], row, s->bits);
  return z - (1 << (s->bits - 1));
}

void
nmb__src_packed_row(const nmb__source *s, int64_t row, float *out)
{
  const int half = 1 << (s->bits - 1);
  for (int64_t i = 0; i < s->dim[1]; i++) {
    const int64_t own = s->order ? (int64_t)nmb__src_element(s->order, i) : -1;
    const int64_t g = own >= 0 ? own : i / s->block_cols;
    const int q = packed_code(s->t, row * s->t->dim[1], 1, i, s->bits) - half;
    out[i] = nmb__src_scale_at(s, row, g * s->block_cols) * (float)(q - packed_offset(s, row, g));
  }
}


/* --------------------------------------------------------------------- HQQ */
static int64_t
number(const opener *o, const char *suffix, int64_t otherwise)
{
  const nmb__wtensor *t = nmb__src_part(o, suffix);
  const float v = t && t->count == 1 && nmb__src_plain(t) ? nmb__src_element(t, 0) : -1;
  return v >= 0 && v < (float)(1 << 24) ? (int64_t)v : otherwise;
}

/* hqq's own state: groups are the rows (axis 1) or columns (axis 0) of a matrix, the
 * first half, quarter.. of whose rows has the high bits of the bytes. */
nmb_status
nmb__src_hqq_open(const opener *o)
{
  nmb__source *s = o->s;
  const nmb__wtensor *shape = nmb__src_part(o, ".shape");
  s->kind = NMB__SRC_HQQ;
  s->linear = true;
  s->scale = nmb__src_part(o, ".scale");
  s->zero = nmb__src_part(o, ".zero");
  s->bits = (int)number(o, ".nbits", o->info->bits);
  s->across = number(o, ".axis", 1) == 0;
  if (s->t->type != NMB__ST_U8 || s->t->rank != 2 || s->bits < 1 || s->bits > 8 ||
      8 % s->bits)
    return nmb__src_misfit(o, s->t, "", "bytes with codes of 1, 2, 4 or 8 bits");
  if (!shape || shape->count != 2 || !nmb__src_plain(shape) ||
      !(nmb__src_element(shape, 0) >= 1) || !(nmb__src_element(shape, 1) >= 1) ||
      nmb__src_element(shape, 0) > (float)(1 << 24) ||
      nmb__src_element(shape, 1) > (float)(1 << 24))
    return nmb__src_misfit(o, shape, ".shape", "rows and columns");
  nmb__src_shape(s, 2, (int64_t[]){(int64_t)nmb__src_element(shape, 0),
                                   (int64_t)nmb__src_element(shape, 1)});
  if (s->t->count > (INT64_C(1) << 56) || s->t->count * (8 / s->bits) != s->count)
    return nmb__src_misfit(o, s->t, "", "as many codes as the shape says");
  s->block_cols = s->across ? s->t->dim[0] * (8 / s->bits) : s->t->dim[1];
  if (!s->scale || s->scale->count != s->count / s->block_cols ||
      !nmb__src_plain(s->scale))
    return nmb__src_misfit(o, s->scale, ".scale", "a scale for each group");
  if (!s->zero || s->zero->count != s->scale->count || !nmb__src_plain(s->zero))
    return nmb__src_misfit(o, s->zero, ".zero", "a zero point for each scale");
  return NMB_OK;
}

void
nmb__src_hqq_row(const nmb__source *s, int64_t row, float *out)
{
  const int64_t k = s->dim[1], width = s->t->dim[1], lines = s->t->dim[0];
  const int per = 8 / s->bits;
  for (int64_t j = 0; j < k; j++) {
    const int64_t i = row * k + j, r = i / width, c = i % width;
    const int64_t g = s->across ? c : r;
    const int low = s->bits * (per - 1 - (int)(r / lines));
    const int q = s->t->data[r % lines * width + c] >> low & ((1 << s->bits) - 1);
    out[j] = ((float)q - nmb__src_element(s->zero, g)) * nmb__src_element(s->scale, g);
  }
}
