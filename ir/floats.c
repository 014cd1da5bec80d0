/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Number formats: codecs of single numbers. */
#include <math.h>
#include <string.h>

#include "ir/formats.h"

uint32_t
nmb__f32_code(float x)
{
  uint32_t u;
  memcpy(&u, &x, sizeof u);
  return u;
}

float
nmb__f32_value(uint32_t u)
{
  float x;
  memcpy(&x, &u, sizeof x);
  return x;
}

/* ------------------------------------------------------------------ elements */
uint16_t
nmb__bf16_code(float x)
{
  const uint32_t u = nmb__f32_code(x);
  if ((u & 0x7fffffffu) > 0x7f800000u) /* NaN: stays quiet and keeps its sign */
    return (uint16_t)(u >> 16 | 0x40);
  return (uint16_t)((u + 0x7fffu + (u >> 16 & 1)) >> 16);
}

float
nmb__bf16_value(uint16_t code)
{
  return nmb__f32_value((uint32_t)code << 16);
}

uint16_t
nmb__f16_code(float x)
{
  const uint32_t u = nmb__f32_code(x), sign = u >> 16 & 0x8000, mag = u & 0x7fffffff;
  if (mag > 0x7f800000)
    return (uint16_t)(sign | 0x7e00);
  if (mag >= 0x477ff000) /* 65520 and more: half way to what comes after the largest */
    return (uint16_t)(sign | 0x7c00);
  if (mag < 0x38800000) { /* below 2^-14: a multiple of 2^-24, found by adding 2^-1 */
    const float shifted = nmb__f32_value(mag) + 0.5f;
    return (uint16_t)(sign | (nmb__f32_code(shifted) - nmb__f32_code(0.5f)));
  }
  const uint32_t r = mag + 0xfff + (mag >> 13 & 1); /* to 10 bits of mantissa */
  return (uint16_t)(sign | ((r - 0x38000000) >> 13));
}

float
nmb__f16_value(uint16_t code)
{
  const uint32_t sign = (uint32_t)(code & 0x8000) << 16, mag = code & 0x7fff;
  if (mag >= 0x7c00)
    return nmb__f32_value(sign | 0x7f800000 | (mag & 0x3ff) << 13);
  if (mag < 0x400) {
    const float x = (float)mag * 0x1p-24f;
    return sign ? -x : x;
  }
  return nmb__f32_value(sign | ((mag << 13) + 0x38000000));
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
