/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Number formats: codecs of elements, scales and runs. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/run.h"
#include "ir/formats.h"

static uint32_t
bits_of(float x)
{
  uint32_t u;
  memcpy(&u, &x, sizeof u);
  return u;
}

static float
float_of(uint32_t u)
{
  float x;
  memcpy(&x, &u, sizeof x);
  return x;
}

/* ------------------------------------------------------------------ elements */
uint16_t
nmb__bf16_code(float x)
{
  const uint32_t u = bits_of(x);
  if ((u & 0x7fffffffu) > 0x7f800000u) /* NaN: stays quiet and keeps its sign */
    return (uint16_t)(u >> 16 | 0x40);
  return (uint16_t)((u + 0x7fffu + (u >> 16 & 1)) >> 16);
}

float
nmb__bf16_value(uint16_t code)
{
  return float_of((uint32_t)code << 16);
}

uint16_t
nmb__f16_code(float x)
{
  const uint32_t u = bits_of(x), sign = u >> 16 & 0x8000, mag = u & 0x7fffffff;
  if (mag > 0x7f800000)
    return (uint16_t)(sign | 0x7e00);
  if (mag >= 0x477ff000) /* 65520 and more: half way to what comes after the largest */
    return (uint16_t)(sign | 0x7c00);
  if (mag < 0x38800000) { /* below 2^-14: a multiple of 2^-24, found by adding 2^-1 */
    const float shifted = float_of(mag) + 0.5f;
    return (uint16_t)(sign | (bits_of(shifted) - bits_of(0.5f)));
  }
  const uint32_t r = mag + 0xfff + (mag >> 13 & 1); /* to 10 bits of mantissa */
  return (uint16_t)(sign | ((r - 0x38000000) >> 13));
}

float
nmb__f16_value(uint16_t code)
{
  const uint32_t sign = (uint32_t)(code & 0x8000) << 16, mag = code & 0x7fff;
  if (mag >= 0x7c00)
    return float_of(sign | 0x7f800000 | (mag & 0x3ff) << 13);
  if (mag < 0x400) {
    const float x = (float)mag * 0x1p-24f;
    return sign ? -x : x;
  }
  return float_of(sign | ((mag << 13) + 0x38000000));
}

typedef struct mini {
  int e, m, bias;
  double max;
  unsigned top; /* code of the largest value */
} mini;

static const mini minis[NMB__NMINI] = {
#define X(id, e, m, bias, max, code) {e, m, bias, max, code},
    NMB__MINI_MAP(X)
#undef X
};

unsigned
nmb__mini_code(nmb__mini kind, float x)
{
  const mini *f = &minis[kind];
  const unsigned sign = signbit(x) ? 1u << (f->e + f->m) : 0;
  const double v = fabs((double)x);
  if (isnan(x))
    return kind == NMB__MINI_E4M3 || kind == NMB__MINI_E5M2 ? sign | 0x7f : f->top;
  if (v >= f->max)
    return sign | f->top;
  int e;
  (void)frexp(v, &e); /* v = [0.5, 1) 2^e */
  e = v > 0 && e - 1 > 1 - f->bias ? e - 1 : 1 - f->bias;
  /* rint rounds ties to even; 2^m stands for the hidden bit of numbers that have it */
  const unsigned q = (unsigned)rint(ldexp(v, f->m - e));
  const unsigned code = ((unsigned)(e + f->bias - 1) << f->m) + q;
  return sign | (code > f->top ? f->top : code);
}

float
nmb__mini_value(nmb__mini kind, unsigned code)
{
  const mini *f = &minis[kind];
  const unsigned mag = code & ((1u << (f->e + f->m)) - 1), e = mag >> f->m;
  const unsigned q = mag & ((1u << f->m) - 1);
  double v;
  if (mag > f->top)
    v = kind == NMB__MINI_E5M2 && q == 0 ? INFINITY : NAN;
  else if (e == 0)
    v = ldexp(q, 1 - f->bias - f->m);
  else
    v = ldexp(q + (1u << f->m), (int)e - f->bias - f->m);
  return (float)(code >> (f->e + f->m) & 1 ? -v : v);
}

unsigned
nmb__e8m0_code(float x)
{
  if (isnan(x))
    return 255;
  if (!(x > 0))
    return 0;
  if (isinf(x))
    return 254;
  int e;
  (void)frexpf(x, &e);
  e += 126; /* floor(log2 x) + 127 */
  return e < 0 ? 0 : e > 254 ? 254 : (unsigned)e;
}

float
nmb__e8m0_value(unsigned code)
{
  return code == 255 ? NAN : ldexpf(1, (int)code - 127);
}

const float *
nmb__nf4_values(void)
{
  static const float v[16] = {
      -1.0f,
      -0.6961928009986877f,
      -0.5250730514526367f,
      -0.39491748809814453f,
      -0.28444138169288635f,
      -0.18477343022823334f,
      -0.09105003625154495f,
      0.0f,
      0.07958029955625534f,
      0.16093020141124725f,
      0.24611230194568634f,
      0.33791524171829224f,
      0.44070982933044434f,
      0.5626170039176941f,
      0.7229568362236023f,
      1.0f,
  };
  return v;
}

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

/* The code of the scale of a group; 0 if the format has none. */
static uint32_t
scale_code(nmb_dtype d, float tensor, int64_t n, const float *x)
{
  switch (d) {
  case NMB_DT_I8: return nmb__f16_code(most(n, x) / 127);
  case NMB_DT_I4: return nmb__f16_code(most(n, x) / 7);
  case NMB_DT_I4Z: return int4z_scale(n, x);
  case NMB_DT_F8BLK: return bits_of(1);
  case NMB_DT_NF4: return bits_of(most(n, x));
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
  case NMB_DT_NF4: return (grid){float_of(code), 0};
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
  const float y = g.scale > 0 ? x / g.scale : 0;
  switch (d) {
  case NMB_DT_F32: return bits_of(x);
  case NMB_DT_F16: return nmb__f16_code(x);
  case NMB_DT_BF16: return nmb__bf16_code(x);
  case NMB_DT_F8E4M3:
  case NMB_DT_MXFP8:
  case NMB_DT_F8BLK: return nmb__mini_code(NMB__MINI_E4M3, y);
  case NMB_DT_F8E5M2: return nmb__mini_code(NMB__MINI_E5M2, y);
  case NMB_DT_I8: return (uint32_t)whole(y, -127, 127) & 0xff;
  case NMB_DT_I4: return (uint32_t)(whole(y, -7, 7) + 8);
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
  case NMB_DT_F32: return float_of(code);
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

/* ---------------------------------------------------------------------- runs */
bool
nmb__format_has(nmb_dtype d)
{
  switch (d) {
  case NMB_DT_F32:
  case NMB_DT_F16:
  case NMB_DT_BF16:
  case NMB_DT_F8E4M3:
  case NMB_DT_F8E5M2:
  case NMB_DT_F8BLK:
  case NMB_DT_I8:
  case NMB_DT_I4:
  case NMB_DT_I4Z:
  case NMB_DT_NF4:
  case NMB_DT_NF4D:
  case NMB_DT_NVFP4:
  case NMB_DT_MXFP4:
  case NMB_DT_MXFP8:
  case NMB_DT_MX8:
  case NMB_DT_TERNARY: return true;
  default: return false;
  }
}

float
nmb__tensor_scale(nmb_dtype d, int group, bool weight, int64_t n, const float *x)
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
  memset(out, 0, (size_t)nmb_bytes(d, group, n));
  int64_t bit = 0;
  for (int64_t from = 0; from < n; from += per) {
    const int64_t len = per < n - from ? per : n - from;
    const uint32_t code = scale_code(d, scale, len, x + from);
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

void
nmb__unpack(nmb_dtype d, int group, float scale, const uint8_t *in, int64_t a, int64_t b,
            float *out)
{
  const int bits = nmb_dtype_get(d)->bits, sbits = scale_bits(d, group);
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
      const grid g = grid_of(d, group, scale, scale_code(d, scale, n, y));
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
    scale[i] = scale[i] > 0 ? scale[i] / 448 : 1;
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
  if (!nmb__format_has(t->dtype))
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
