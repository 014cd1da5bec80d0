/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Number formats: codecs of scales and runs. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/run.h"
#include "ir/formats.h"
#include "ir/storage.h"

/* The nearest value; half way between two it is the lower. */
static unsigned
nf4_code(float x)
{
  const float *v = nmb__nf4_values();
  unsigned at = 0;
  while (at < 15 && x > (v[at] + v[at + 1]) / 2)
    at++;
  return at;
}

/* -------------------------------------------------------------------- groups */
typedef struct grid {
  float scale;
  int zero;
} grid;

static float
most(int64_t n, const float *x)
{
  float a = 0;
  for (int64_t i = 0; i < n; i++)
    a = fabsf(x[i]) > a || isnan(x[i]) ? fabsf(x[i]) : a;
  return a;
}

static uint32_t
int4z_scale(int64_t n, const float *x)
{
  float lo = 0, hi = 0;
  for (int64_t i = 0; i < n; i++) {
    lo = x[i] < lo ? x[i] : lo;
    hi = x[i] > hi ? x[i] : hi;
  }
  const uint32_t code = nmb__f16_code((hi - lo) / 15);
  const float s = nmb__f16_value((uint16_t)code);
  const float z = s > 0 ? rintf(-lo / s) : 0;
  return code | (uint32_t)(z > 15 ? 15 : z) << 16;
}

/* The exponent of 16 elements, and for each two of them whether they do with one less. */
static uint32_t
mx8_scale(int64_t n, const float *x)
{
  const uint32_t code = nmb__e8m0_code(most(n, x));
  const float half = nmb__e8m0_value(code);
  uint32_t bits = 0;
  for (int64_t i = 0; i < n; i += 2)
    if (most(n - i < 2 ? 1 : 2, x + i) < half)
      bits |= 1u << i / 2;
  return code | bits << 8;
}

/* The code of the scale of a group by its largest value; 0 if the format has none. */
static uint32_t
usual_code(nmb_dtype d, float tensor, int64_t n, const float *x)
{
  switch (d) {
  case NMB_DT_I8: return nmb__f16_code(most(n, x) / 127);
  case NMB_DT_I4: return nmb__f16_code(most(n, x) / 7);
  case NMB_DT_I4Z: return int4z_scale(n, x);
  case NMB_DT_F8BLK: return nmb__f32_code(1);
  case NMB_DT_NF4: return nmb__f32_code(most(n, x));
  case NMB_DT_NF4D: return nmb__mini_code(NMB__MINI_E4M3, most(n, x) / tensor);
  case NMB_DT_NVFP4: return nmb__mini_code(NMB__MINI_E4M3, most(n, x) / 6 / tensor);
  case NMB_DT_MXFP4: return nmb__e8m0_code(most(n, x) / 4);
  case NMB_DT_MXFP8: return nmb__e8m0_code(most(n, x) / 256);
  case NMB_DT_MX8: return mx8_scale(n, x);
  default: return 0;
  }
}

static grid
grid_of(nmb_dtype d, int group, float tensor, uint32_t code)
{
  switch (d) {
  case NMB_DT_I8:
  case NMB_DT_I4: return (grid){group > 0 ? nmb__f16_value((uint16_t)code) : tensor, 0};
  case NMB_DT_I4Z: return (grid){nmb__f16_value((uint16_t)code), (int)(code >> 16 & 15)};
  case NMB_DT_F8BLK:
  case NMB_DT_NF4: return (grid){nmb__f32_value(code), 0};
  case NMB_DT_NF4D:
  case NMB_DT_NVFP4: return (grid){nmb__mini_value(NMB__MINI_E4M3, code) * tensor, 0};
  case NMB_DT_MXFP8:
  case NMB_DT_MXFP4: return (grid){nmb__e8m0_value(code), 0};
  case NMB_DT_MX8: return (grid){nmb__e8m0_value(code & 255) / 32, (int)(code >> 8)};
  default: return (grid){tensor, 0};
  }
}

/* That of the i-th element of the group. */
static grid
grid_at(nmb_dtype d, grid g, int64_t i)
{
  if (d == NMB_DT_MX8 && (g.zero >> i / 2 & 1))
    g.scale /= 2;
  return g;
}

static int
whole(float x, int lo, int hi)
{
  const float r = rintf(x);
  return r < (float)lo ? lo : r > (float)hi ? hi : isnan(r) ? 0 : (int)r;
}

static uint32_t
element_code(nmb_dtype d, grid g, float x)
{
  const float y = g.scale > 0 || g.scale < 0 ? x / g.scale : 0;
  switch (d) {
  case NMB_DT_F32: return nmb__f32_code(x);
  case NMB_DT_F16: return nmb__f16_code(x);
  case NMB_DT_BF16: return nmb__bf16_code(x);
  case NMB_DT_F8E4M3:
  case NMB_DT_MXFP8:
  case NMB_DT_F8BLK: return nmb__mini_code(NMB__MINI_E4M3, y);
  case NMB_DT_F8E5M2: return nmb__mini_code(NMB__MINI_E5M2, y);
  case NMB_DT_I8: return (uint32_t)whole(y, -128, 127) & 0xff;
  case NMB_DT_I4: return (uint32_t)(whole(y, -8, 7) + 8);
  case NMB_DT_I4Z: return (uint32_t)whole(y + (float)g.zero, 0, 15);
  case NMB_DT_NF4D:
  case NMB_DT_NF4: return nf4_code(y);
  case NMB_DT_NVFP4:
  case NMB_DT_MXFP4: return nmb__mini_code(NMB__MINI_E2M1, y);
  case NMB_DT_TERNARY: return (uint32_t)(whole(y, -1, 1) + 1);
  case NMB_DT_MX8: return (uint32_t)(whole(y, -63, 63) + 64);
  default: return 0;
  }
}

static float
element_value(nmb_dtype d, grid g, uint32_t code)
{
  switch (d) {
  case NMB_DT_F32: return nmb__f32_value(code);
  case NMB_DT_F16: return nmb__f16_value((uint16_t)code);
  case NMB_DT_BF16: return nmb__bf16_value((uint16_t)code);
  case NMB_DT_F8E4M3:
  case NMB_DT_MXFP8:
  case NMB_DT_F8BLK: return nmb__mini_value(NMB__MINI_E4M3, code) * g.scale;
  case NMB_DT_F8E5M2: return nmb__mini_value(NMB__MINI_E5M2, code) * g.scale;
  case NMB_DT_I8: return (float)(int8_t)code * g.scale;
  case NMB_DT_I4: return (float)((int)code - 8) * g.scale;
  case NMB_DT_I4Z: return (float)((int)code - g.zero) * g.scale;
  case NMB_DT_NF4D:
  case NMB_DT_NF4: return nmb__nf4_values()[code & 15] * g.scale;
  case NMB_DT_NVFP4:
  case NMB_DT_MXFP4: return nmb__mini_value(NMB__MINI_E2M1, code) * g.scale;
  case NMB_DT_TERNARY: return (float)((int)(code & 3) - 1) * g.scale;
  case NMB_DT_MX8: return (float)((int)code - 64) * g.scale;
  default: return 0;
  }
}

/* ----------------------------------------------------------------------- fit */
/* Values that a file stores in a format like ours came from scales of its own, which the
 * largest value need not tell: where one of the scales that put it on the grid holds all
 * values exactly, that is taken. */
static bool
holds(nmb_dtype d, grid g, int64_t n, const float *x)
{
  for (int64_t i = 0; i < n; i++) {
    const grid e = grid_at(d, g, i);
    const float y = element_value(d, e, element_code(d, e, x[i]));
    if (y < x[i] || y > x[i])
      return false;
  }
  return true;
}

/* The number of steps of the grid that the span of a group may be; 0: not looked for. */
static int
most_steps(nmb_dtype d)
{
  return d == NMB_DT_I8 ? 128 : d == NMB_DT_I4 ? 8 : d == NMB_DT_I4Z ? 15 : 0;
}

static uint32_t
scale_code(nmb_dtype d, int group, float tensor, int64_t n, const float *x)
{
  const uint32_t usual = usual_code(d, tensor, n, x);
  const int steps = most_steps(d);
  if (!steps || (d != NMB_DT_I4Z && group <= 0) ||
      holds(d, grid_of(d, group, tensor, usual), n, x))
    return usual;
  float lo = 0, hi = 0;
  for (int64_t i = 0; i < n; i++) {
    lo = x[i] < lo ? x[i] : lo;
    hi = x[i] > hi ? x[i] : hi;
  }
  const float span = d == NMB_DT_I4Z ? hi - lo : hi > -lo ? hi : -lo;
  for (int k = 1; k <= steps; k++) {
    uint32_t code = nmb__f16_code(span / (float)k);
    const float s = nmb__f16_value((uint16_t)code);
    if (!(s > 0) || s * (float)k < span || s * (float)k > span)
      continue;
    if (d == NMB_DT_I4Z)
      code |= (uint32_t)rintf(-lo / s) << 16;
    if (holds(d, grid_of(d, group, tensor, code), n, x))
      return code;
    code |= 0x8000; /* codes reach further below 0: a scale below 0 turns them */
    if (d == NMB_DT_I4 && holds(d, grid_of(d, group, tensor, code), n, x))
      return code;
  }
  return usual;
}

/* ---------------------------------------------------------------------- runs */
/* By the largest value, or by the mean. */
static float
usual_scale(nmb_dtype d, int group, bool weight, int64_t n, const float *x)
{
  double s = 1, sum = 0;
  switch (d) {
  case NMB_DT_F8E4M3: s = weight ? (double)most(n, x) / 448 : 1; break;
  case NMB_DT_F8E5M2: s = weight ? (double)most(n, x) / 57344 : 1; break;
  case NMB_DT_NF4D: s = (double)most(n, x) / 448; break;
  case NMB_DT_NVFP4: s = (double)most(n, x) / (448 * 6); break;
  case NMB_DT_I8: s = group > 0 ? 1 : (double)most(n, x) / 127; break;
  case NMB_DT_I4: s = group > 0 ? 1 : (double)most(n, x) / 7; break;
  case NMB_DT_TERNARY:
    for (int64_t i = 0; i < n; i++)
      sum += fabs((double)x[i]);
    s = sum / (double)(n > 0 ? n : 1);
    break;
  default: break;
  }
  return s > 0 ? (float)s : 1;
}

/* Elements that share a scale in a run; n if all do or none has one. */
static int64_t
group_of(nmb_dtype d, int group, int64_t n)
{
  const int g = nmb_dtype_get(d)->group;
  return g > 0 ? g : g < 0 && group > 0 ? group : n > 0 ? n : 1;
}

static int
scale_bits(nmb_dtype d, int group)
{
  const nmb_dtype_info *f = nmb_dtype_get(d);
  return f->group > 0 || (f->group < 0 && group > 0) ? f->scale_bits : 0;
}

static bool
run_holds(nmb_dtype d, int group, float tensor, int64_t n, const float *x)
{
  const int64_t per = group_of(d, group, n);
  for (int64_t from = 0; from < n; from += per) {
    const int64_t len = per < n - from ? per : n - from;
    const uint32_t code = scale_code(d, group, tensor, len, x + from);
    if (!holds(d, grid_of(d, group, tensor, code), len, x + from))
      return false;
  }
  return true;
}

/* The i-th value that the largest one of a tensor may have on its grid, in scales of the
 * tensor; 0: there are no more. */
static float
level(nmb_dtype d, int i)
{
  switch (d) {
  case NMB_DT_F8E4M3:
    return i < 126 ? nmb__mini_value(NMB__MINI_E4M3, 126u - (unsigned)i) : 0;
  case NMB_DT_F8E5M2:
    return i < 123 ? nmb__mini_value(NMB__MINI_E5M2, 123u - (unsigned)i) : 0;
  case NMB_DT_I8: return i < 128 ? (float)(128 - i) : 0;
  case NMB_DT_I4: return i < 8 ? (float)(8 - i) : 0;
  case NMB_DT_TERNARY: return i < 1 ? 1 : 0;
  case NMB_DT_NVFP4:
    return i < 7 * 126 ? nmb__mini_value(NMB__MINI_E2M1, 7u - (unsigned)(i % 7)) *
                             nmb__mini_value(NMB__MINI_E4M3, 126u - (unsigned)(i / 7))
                       : 0;
  default: return 0;
  }
}

/* Of products that were rounded to fp32 the quotient may be a step off. */
static bool
fitting_scale(nmb_dtype d, int group, int64_t n, const float *x, float *scale)
{
  const float a = most(n, x);
  if (!(a > 0) || !isfinite(a))
    return false;
  for (int i = 0; level(d, i) > 0; i++) {
    const float s = a / level(d, i);
    const float near[] = {s, nextafterf(s, 0), nextafterf(s, INFINITY)};
    for (int k = 0; k < 3; k++)
      if (near[k] > 0 && run_holds(d, group, near[k], n, x)) {
        *scale = near[k];
        return true;
      }
  }
  return false;
}

float
nmb__tensor_scale(nmb_dtype d, int group, bool weight, int64_t n, const float *x)
{
  const float usual = usual_scale(d, group, weight, n, x);
  float s = 1;
  if (!weight || !(level(d, 0) > 0) ||
      (d != NMB_DT_NVFP4 && d != NMB_DT_TERNARY && group > 0) ||
      run_holds(d, group, usual, n, x))
    return usual;
  if (run_holds(d, group, 1, n, x) || fitting_scale(d, group, n, x, &s))
    return s;
  return usual;
}

static void
put(uint8_t *out, int64_t bit, int n, uint32_t v)
{
  for (int i = 0; i < n;) {
    const int at = (int)((bit + i) % 8), take = 8 - at < n - i ? 8 - at : n - i;
    const uint32_t mask = (1u << take) - 1;
    uint8_t *b = &out[(bit + i) / 8];
    *b = (uint8_t)((*b & ~(mask << at)) | (v >> i & mask) << at);
    i += take;
  }
}

static uint32_t
get(const uint8_t *in, int64_t bit, int n)
{
  uint32_t v = 0;
  for (int i = 0; i < n;) {
    const int at = (int)((bit + i) % 8), take = 8 - at < n - i ? 8 - at : n - i;
    v |= ((uint32_t)in[(bit + i) / 8] >> at & ((1u << take) - 1)) << i;
    i += take;
  }
  return v;
}

void
nmb__pack(nmb_dtype d, int group, float scale, int64_t n, const float *x, uint8_t *out)
{
  const int64_t per = group_of(d, group, n);
  const int bits = nmb_dtype_get(d)->bits, sbits = scale_bits(d, group);
  assert(nmb_dtype_codes(d));
  memset(out, 0, (size_t)nmb_bytes(d, group, n));
  int64_t bit = 0;
  for (int64_t from = 0; from < n; from += per) {
    const int64_t len = per < n - from ? per : n - from;
    const uint32_t code = scale_code(d, group, scale, len, x + from);
    const grid g = grid_of(d, group, scale, code);
    put(out, bit, sbits, code);
    bit += sbits;
    for (int64_t i = from; i < from + len; i++, bit += bits)
      put(out, bit, bits, element_code(d, grid_at(d, g, i - from), x[i]));
  }
}

/* Formats without scales whose elements are whole bytes, as most values are. */
static bool
unpack_plain(nmb_dtype d, const uint8_t *in, int64_t n, float *out)
{
  uint16_t h;
  if (d == NMB_DT_F32)
    memcpy(out, in, (size_t)n * sizeof *out);
  else if (d == NMB_DT_BF16)
    for (int64_t i = 0; i < n; i++) {
      memcpy(&h, in + 2 * i, sizeof h);
      out[i] = nmb__bf16_value(h);
    }
  else if (d == NMB_DT_F16)
    for (int64_t i = 0; i < n; i++) {
      memcpy(&h, in + 2 * i, sizeof h);
      out[i] = nmb__f16_value(h);
    }
  else
    return false;
  return true;
}

/* Blocks of files, decoded one by one. */
static void
unpack_native(const nmb__storage_info *s, const uint8_t *in, int64_t a, int64_t b,
              float *out)
{
  float block[256];
  assert(s->elems <= (int)(sizeof block / sizeof *block));
  for (int64_t k = a / s->elems; k * s->elems < b; k++) {
    const int64_t first = k * s->elems, lo = first > a ? first : a,
                  hi = first + s->elems < b ? first + s->elems : b;
    s->decode(in + k * s->bytes, 1, block);
    memcpy(out + (lo - a), block + (lo - first), (size_t)(hi - lo) * sizeof *out);
  }
}

void
nmb__unpack(nmb_dtype d, int group, float scale, const uint8_t *in, int64_t a, int64_t b,
            float *out)
{
  const int bits = nmb_dtype_get(d)->bits, sbits = scale_bits(d, group);
  const int native = nmb__storage_native(d);
  if (native != NMB_NONE) {
    unpack_native(nmb__storage_get((nmb__storage)native), in, a, b, out);
    return;
  }
  if (unpack_plain(d, in + a * (bits / 8), b - a, out))
    return;
  const int64_t per = sbits ? group_of(d, group, b) : b > 0 ? b : 1;
  for (int64_t k = a / per; k * per < b; k++) {
    const int64_t start = k * (per * bits + sbits);
    const grid g = grid_of(d, group, scale, get(in, start, sbits));
    const int64_t lo = k * per > a ? k * per : a,
                  hi = (k + 1) * per < b ? (k + 1) * per : b;
    for (int64_t i = lo; i < hi; i++)
      out[i - a] = element_value(d, grid_at(d, g, i - k * per),
                                 get(in, start + sbits + (i - k * per) * bits, bits));
  }
}

void
nmb__round(nmb_dtype d, int group, float scale, int64_t rows, int64_t len, float *x)
{
  if (d == NMB_DT_F32)
    return;
  if (d == NMB_DT_BF16) {
    for (int64_t i = 0; i < rows * len; i++)
      x[i] = nmb__bf16_value(nmb__bf16_code(x[i]));
    return;
  }
  const int64_t per = group_of(d, group, len);
  for (int64_t r = 0; r < rows; r++)
    for (int64_t from = 0; from < len; from += per) {
      const int64_t n = per < len - from ? per : len - from;
      float *y = x + r * len + from;
      const grid g = grid_of(d, group, scale, scale_code(d, group, scale, n, y));
      for (int64_t i = 0; i < n; i++) {
        const grid e = grid_at(d, g, i);
        y[i] = element_value(d, e, element_code(d, e, y[i]));
      }
    }
}

/* ------------------------------------------------------------ blocks of rows */
enum { SIDE = 128 };

typedef struct sides {
  int64_t rows, cols, across, each; /* across: blocks side by side; each: of a matrix */
} sides;

static sides
sides_of(const nmb_tensor *t)
{
  sides s = {.rows = t->rank > 1 ? t->dim[t->rank - 2] : 1, .cols = t->dim[t->rank - 1]};
  s.across = (s.cols + SIDE - 1) / SIDE;
  s.each = (s.rows + SIDE - 1) / SIDE * s.across;
  return s;
}

static int64_t
block_of(const sides *s, int64_t row, int64_t col)
{
  return row / s->rows * s->each + row % s->rows / SIDE * s->across + col / SIDE;
}

/* A scale by which E4M3 holds the values of block i exactly, if there is one; else that
 * of its largest value. */
static float
block_scale(const sides *s, int64_t i, float largest, const float *x)
{
  float v[SIDE * SIDE], scale = largest / 448;
  const int64_t r0 = i / s->each * s->rows + i % s->each / s->across * SIDE;
  const int64_t end = (i / s->each + 1) * s->rows, c0 = i % s->across * SIDE;
  const int64_t rows = end - r0 < SIDE ? end - r0 : SIDE;
  const int64_t cols = s->cols - c0 < SIDE ? s->cols - c0 : SIDE;
  if (!(largest > 0))
    return 1;
  for (int64_t r = 0; r < rows; r++)
    memcpy(v + r * cols, x + (r0 + r) * s->cols + c0, (size_t)cols * sizeof *v);
  if (!run_holds(NMB_DT_F8E4M3, 0, scale, rows * cols, v))
    (void)fitting_scale(NMB_DT_F8E4M3, 0, rows * cols, v, &scale);
  return scale;
}

int64_t
nmb__blocks_count(const nmb_tensor *t)
{
  const sides s = sides_of(t);
  return nmb_tensor_count(t) / (s.rows * s.cols) * s.each;
}

void
nmb__blocks_find(const nmb_tensor *t, const float *x, float *scale)
{
  const sides s = sides_of(t);
  const int64_t n = nmb__blocks_count(t), rows = nmb_tensor_count(t) / s.cols;
  for (int64_t i = 0; i < n; i++)
    scale[i] = 0;
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < s.cols; c += SIDE) {
      float *at = &scale[block_of(&s, r, c)];
      const float m = most(s.cols - c < SIDE ? s.cols - c : SIDE, x + r * s.cols + c);
      *at = m > *at || isnan(m) ? m : *at;
    }
  for (int64_t i = 0; i < n; i++)
    scale[i] = block_scale(&s, i, scale[i], x);
}

void
nmb__blocks_apply(const nmb_tensor *t, const float *scale, bool over, int64_t first,
                  int64_t n, float *x)
{
  const sides s = sides_of(t);
  for (int64_t i = first; i < first + n; i++) {
    const float f = scale[block_of(&s, i / s.cols, i % s.cols)];
    x[i - first] = over ? x[i - first] / f : x[i - first] * f;
  }
}

static void
round_blocks(const nmb_tensor *t, int64_t n, float *x)
{
  float *scale = nmb__xrealloc(NULL, (size_t)nmb__blocks_count(t), sizeof *scale);
  nmb__blocks_find(t, x, scale);
  nmb__blocks_apply(t, scale, true, 0, n, x);
  nmb__round(t->dtype, 0, 1, 1, n, x);
  nmb__blocks_apply(t, scale, false, 0, n, x);
  free(scale);
}

void
nmb__round_tensor(const nmb_tensor *t, float *x)
{
  if (!nmb_dtype_codes(t->dtype))
    return;
  const int64_t n = nmb_tensor_count(t), last = t->dim[t->rank - 1];
  const bool weight = t->role == NMB_ROLE_WEIGHT;
  const float scale = nmb__tensor_scale(t->dtype, t->group, weight, n, x);
  if (weight && t->dtype == NMB_DT_F8BLK)
    round_blocks(t, n, x);
  else if (weight)
    nmb__round(t->dtype, t->group, scale, 1, n, x);
  else
    nmb__round(t->dtype, t->group, scale, n / last, last, x);
}
