/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Stored numbers -> floats, bit for bit as the formats' own programs compute them:
 * all arithmetic in binary32, in the order d * scale first, then times the code, and
 * never contracted into a fused multiply-add (C11 without GNU extensions). */
#include "ir/storage.h"

#include <math.h>
#include <string.h>

#include "ir/formats.h"

uint16_t
nmb__le16(const uint8_t *b)
{
  return (uint16_t)(b[0] | b[1] << 8);
}

uint32_t
nmb__le32(const uint8_t *b)
{
  return (uint32_t)nmb__le16(b) | (uint32_t)nmb__le16(b + 2) << 16;
}

uint64_t
nmb__le64(const uint8_t *b)
{
  return (uint64_t)nmb__le32(b) | (uint64_t)nmb__le32(b + 4) << 32;
}

float
nmb__lefloat(const uint8_t *b)
{
  return nmb__f32_value(nmb__le32(b));
}

static float
e5m2(uint8_t v)
{
  return nmb__f16_value((uint16_t)(v << 8)); /* the upper half of a binary16 */
}

/* ----------------------------------------------------------- plain numbers */
#define PLAIN(name, size, expr)                                                          \
  static void decode_##name(const uint8_t *b, int64_t n, float *y)                       \
  {                                                                                      \
    for (int64_t i = 0; i < n; i++, b += (size))                                         \
      y[i] = (float)(expr);                                                              \
  }

static double
double_of(uint64_t u)
{
  double d;
  memcpy(&d, &u, sizeof d);
  return d;
}

PLAIN(f32, 4, nmb__lefloat(b))
PLAIN(f16, 2, nmb__f16_value(nmb__le16(b)))
PLAIN(bf16, 2, nmb__f32_value((uint32_t)nmb__le16(b) << 16))
PLAIN(f64, 8, double_of(nmb__le64(b)))
PLAIN(u8, 1, *b)
PLAIN(i8, 1, (int8_t)*b)
PLAIN(u16, 2, nmb__le16(b))
PLAIN(i16, 2, (int16_t)nmb__le16(b))
PLAIN(u32, 4, nmb__le32(b))
PLAIN(i32, 4, (int32_t)nmb__le32(b))
PLAIN(u64, 8, nmb__le64(b))
PLAIN(i64, 8, (int64_t)nmb__le64(b))
PLAIN(e4m3, 1, nmb__mini_value(NMB__MINI_E4M3, *b))
PLAIN(e5m2, 1, e5m2(*b))
PLAIN(e8m0, 1, nmb__e8m0_value(*b))

/* Two to a byte, low nibble first. */
static void
decode_f4(const uint8_t *b, int64_t n, float *y)
{
  for (int64_t i = 0; i < n; i++) {
    y[2 * i] = nmb__mini_value(NMB__MINI_E2M1, b[i] & 15u);
    y[2 * i + 1] = nmb__mini_value(NMB__MINI_E2M1, b[i] >> 4);
  }
}

/* Four to three bytes, the first in the lowest bits. */
static void
six_bits(const uint8_t *b, int64_t n, float *y, nmb__mini kind)
{
  for (int64_t i = 0; i < n; i++, b += 3)
    for (int k = 0; k < 4; k++)
      y[4 * i + k] = nmb__mini_value(
          kind,
          ((unsigned)b[0] | (unsigned)b[1] << 8 | (unsigned)b[2] << 16) >> 6 * k & 63u);
}

static void
decode_e2m3(const uint8_t *b, int64_t n, float *y)
{
  six_bits(b, n, y, NMB__MINI_E2M3);
}

static void
decode_e3m2(const uint8_t *b, int64_t n, float *y)
{
  six_bits(b, n, y, NMB__MINI_E3M2);
}

/* --------------------------------------------------------- blocks of 32 */
static void
decode_q4_0(const uint8_t *b, int64_t n, float *y)
{
  for (int64_t i = 0; i < n; i++, b += 18, y += 32) {
    const float d = nmb__f16_value(nmb__le16(b));
    for (int j = 0; j < 16; j++) {
      y[j] = (float)((b[2 + j] & 15) - 8) * d;
      y[j + 16] = (float)((b[2 + j] >> 4) - 8) * d;
    }
  }
}

static void
decode_q4_1(const uint8_t *b, int64_t n, float *y)
{
  for (int64_t i = 0; i < n; i++, b += 20, y += 32) {
    const float d = nmb__f16_value(nmb__le16(b)), m = nmb__f16_value(nmb__le16(b + 2));
    for (int j = 0; j < 16; j++) {
      y[j] = (float)(b[4 + j] & 15) * d + m;
      y[j + 16] = (float)(b[4 + j] >> 4) * d + m;
    }
  }
}

/* Nibble j and its fifth bit. */
static int
five(const uint8_t *qs, uint32_t qh, int j)
{
  const int q = j < 16 ? qs[j] & 15 : qs[j - 16] >> 4;
  return q | (int)(qh >> j & 1) << 4;
}

static void
decode_q5_0(const uint8_t *b, int64_t n, float *y)
{
  for (int64_t i = 0; i < n; i++, b += 22, y += 32) {
    const float d = nmb__f16_value(nmb__le16(b));
    for (int j = 0; j < 32; j++)
      y[j] = (float)(five(b + 6, nmb__le32(b + 2), j) - 16) * d;
  }
}

static void
decode_q5_1(const uint8_t *b, int64_t n, float *y)
{
  for (int64_t i = 0; i < n; i++, b += 24, y += 32) {
    const float d = nmb__f16_value(nmb__le16(b)), m = nmb__f16_value(nmb__le16(b + 2));
    for (int j = 0; j < 32; j++)
      y[j] = (float)five(b + 8, nmb__le32(b + 4), j) * d + m;
  }
}

static void
decode_q8_0(const uint8_t *b, int64_t n, float *y)
{
  for (int64_t i = 0; i < n; i++, b += 34, y += 32) {
    const float d = nmb__f16_value(nmb__le16(b));
    for (int j = 0; j < 32; j++)
      y[j] = (float)(int8_t)b[2 + j] * d;
  }
}

/* Sixteen levels, denser around 0 (ggml's kvalues_iq4nl). */
static const float nl_level[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                   1,    13,   25,  38,  53,  69,  89,  113};

static void
nl_row(const uint8_t *qs, float d, float *y)
{
  for (int j = 0; j < 16; j++) {
    y[j] = d * nl_level[qs[j] & 15];
    y[j + 16] = d * nl_level[qs[j] >> 4];
  }
}

static void
decode_iq4_nl(const uint8_t *b, int64_t n, float *y)
{
  for (int64_t i = 0; i < n; i++, b += 18, y += 32)
    nl_row(b + 2, nmb__f16_value(nmb__le16(b)), y);
}

/* Codes doubled, the scale halved: 2^(e-128) has a float for every e.  Code 8 is 0. */
static const float fp4_twice[16] = {0, 1,  2,  3,  4,  6,  8,  12,
                                    0, -1, -2, -3, -4, -6, -8, -12};

static void
decode_mxfp4(const uint8_t *b, int64_t n, float *y)
{
  for (int64_t i = 0; i < n; i++, b += 17, y += 32) {
    const float d = ldexpf(1, (int)b[0] - 128);
    for (int j = 0; j < 16; j++) {
      y[j] = fp4_twice[b[1 + j] & 15] * d;
      y[j + 16] = fp4_twice[b[1 + j] >> 4] * d;
    }
  }
}

static void
decode_nvfp4(const uint8_t *b, int64_t n, float *y)
{
  for (int64_t i = 0; i < n; i++, b += 36)
    for (int s = 0; s < 4; s++, y += 16) {
      const uint8_t e = b[s] & 0x7f;
      const float d = e == 0x7f ? 0 : 0.5f * nmb__mini_value(NMB__MINI_E4M3, e);
      for (int j = 0; j < 8; j++) {
        y[j] = fp4_twice[b[4 + 8 * s + j] & 15] * d;
        y[j + 8] = fp4_twice[b[4 + 8 * s + j] >> 4] * d;
      }
    }
}

/* ---------------------------------------------------- super-blocks of 256 */
static void
decode_q2_k(const uint8_t *b, int64_t n, float *y)
{
  for (int64_t i = 0; i < n; i++, b += 84) {
    const float d = nmb__f16_value(nmb__le16(b + 80)), m = nmb__f16_value(nmb__le16(b + 82));
    for (int j = 0; j < 256; j++) {
      const int half = j / 128, k = j % 128 / 32, l = j % 32;
      const uint8_t s = b[8 * half + 2 * k + l / 16];
      const int q = b[16 + 32 * half + l] >> 2 * k & 3;
      *y++ = d * (float)(s & 15) * (float)q - m * (float)(s >> 4);
    }
  }
}

/* The i-th of 16 scales of 6 bits, packed in 12 bytes. */
static int
q3_scale(const uint8_t *s, int i)
{
  const int lo = i < 8 ? s[i] & 15 : s[i - 8] >> 4, hi = s[8 + i % 4] >> 2 * (i / 4) & 3;
  return (lo | hi << 4) - 32;
}

static void
decode_q3_k(const uint8_t *b, int64_t n, float *y)
{
  for (int64_t i = 0; i < n; i++, b += 110) {
    const float d = nmb__f16_value(nmb__le16(b + 108));
    for (int j = 0; j < 256; j++) {
      const int half = j / 128, k = j % 128 / 32, l = j % 32;
      const int q =
          (b[32 + 32 * half + l] >> 2 * k & 3) - (b[l] >> (4 * half + k) & 1 ? 0 : 4);
      *y++ = d * (float)q3_scale(b + 96, 8 * half + 2 * k + l / 16) * (float)q;
    }
  }
}

/* Scale and minimum of sub-block j, 6 bits each, packed in 12 bytes. */
static void
k_scale(const uint8_t *s, int j, int *scale, int *min)
{
  if (j < 4) {
    *scale = s[j] & 63;
    *min = s[j + 4] & 63;
  } else {
    *scale = (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
    *min = (s[j + 4] >> 4) | (s[j] >> 6) << 4;
  }
}

/* qh: (optional) the fifth bits. */
static void
k_block(const uint8_t *b, const uint8_t *qh, const uint8_t *qs, float *y)
{
  const float d = nmb__f16_value(nmb__le16(b)), m = nmb__f16_value(nmb__le16(b + 2));
  for (int j = 0; j < 8; j++) {
    int scale, min;
    k_scale(b + 4, j, &scale, &min);
    const float ds = d * (float)scale, ms = m * (float)min;
    for (int l = 0; l < 32; l++) {
      int q = j % 2 ? qs[32 * (j / 2) + l] >> 4 : qs[32 * (j / 2) + l] & 15;
      if (qh)
        q += (qh[l] >> j & 1) << 4;
      *y++ = ds * (float)q - ms;
    }
  }
}

static void
decode_q4_k(const uint8_t *b, int64_t n, float *y)
{
  for (int64_t i = 0; i < n; i++, b += 144, y += 256)
    k_block(b, NULL, b + 16, y);
}

static void
decode_q5_k(const uint8_t *b, int64_t n, float *y)
{
  for (int64_t i = 0; i < n; i++, b += 176, y += 256)
    k_block(b, b + 16, b + 48, y);
}

static void
decode_q6_k(const uint8_t *b, int64_t n, float *y)
{
  for (int64_t i = 0; i < n; i++, b += 210) {
    const float d = nmb__f16_value(nmb__le16(b + 208));
    for (int j = 0; j < 256; j++) {
      const int half = j / 128, k = j % 128 / 32, l = j % 32;
      const uint8_t ql = b[64 * half + 32 * (k & 1) + l], qh = b[128 + 32 * half + l];
      const int q = ((k < 2 ? ql & 15 : ql >> 4) | (qh >> 2 * k & 3) << 4) - 32;
      *y++ = d * (float)(int8_t)b[192 + 8 * half + 2 * k + l / 16] * (float)q;
    }
  }
}

static void
decode_iq4_xs(const uint8_t *b, int64_t n, float *y)
{
  for (int64_t i = 0; i < n; i++, b += 136)
    for (int s = 0; s < 8; s++, y += 32) {
      const int lo = b[4 + s / 2] >> 4 * (s % 2) & 15, hi = nmb__le16(b + 2) >> 2 * s & 3;
      nl_row(b + 8 + 16 * s, nmb__f16_value(nmb__le16(b)) * (float)((lo | hi << 4) - 32), y);
    }
}

/* ---------------------------------------------------------- few levels */
static int
trit(uint8_t byte, int n)
{
  static const uint8_t pow3[5] = {1, 3, 9, 27, 81};
  return ((uint8_t)(byte * pow3[n]) * 3 >> 8) - 1;
}

static void
decode_tq1_0(const uint8_t *b, int64_t n, float *y)
{
  for (int64_t i = 0; i < n; i++, b += 54) {
    const float d = nmb__f16_value(nmb__le16(b + 52));
    for (int k = 0; k < 5; k++)
      for (int j = 0; j < 32; j++)
        *y++ = (float)trit(b[j], k) * d;
    for (int k = 0; k < 5; k++)
      for (int j = 0; j < 16; j++)
        *y++ = (float)trit(b[32 + j], k) * d;
    for (int k = 0; k < 4; k++)
      for (int j = 0; j < 4; j++)
        *y++ = (float)trit(b[48 + j], k) * d;
  }
}

static void
decode_tq2_0(const uint8_t *b, int64_t n, float *y)
{
  for (int64_t i = 0; i < n; i++, b += 66) {
    const float d = nmb__f16_value(nmb__le16(b + 64));
    for (int j = 0; j < 64; j += 32)
      for (int k = 0; k < 4; k++)
        for (int m = 0; m < 32; m++)
          *y++ = (float)((b[j + m] >> 2 * k & 3) - 1) * d;
  }
}

static void
decode_q1_0(const uint8_t *b, int64_t n, float *y)
{
  for (int64_t i = 0; i < n; i++, b += 18) {
    const float d = nmb__f16_value(nmb__le16(b));
    for (int j = 0; j < 128; j++)
      *y++ = b[2 + j / 8] >> j % 8 & 1 ? d : -d;
  }
}

static void
decode_q2_0(const uint8_t *b, int64_t n, float *y)
{
  for (int64_t i = 0; i < n; i++, b += 18) {
    const float d = nmb__f16_value(nmb__le16(b));
    for (int j = 0; j < 64; j++)
      *y++ = (float)((b[2 + j / 4] >> 2 * (j % 4) & 3) - 1) * d;
  }
}

/* ------------------------------------------------------------------- table */
static const nmb__storage_info infos[] = {
#define X(id, name, elems, bytes, decoder, gguf, st, dtype, group)                       \
  {name, elems, bytes, decode_##decoder, gguf, st, NMB_DT_##dtype, group},
#include "ir/storage.def"
#undef X
};

const nmb__storage_info *
nmb__storage_get(nmb__storage s)
{
  return &infos[s];
}

int
nmb__storage_gguf(uint32_t type)
{
  for (int i = 0; i < NMB__NSTORAGE; i++)
    if (infos[i].gguf >= 0 && (uint32_t)infos[i].gguf == type)
      return i;
  return NMB_NONE;
}

int
nmb__storage_safetensors(const char *dtype)
{
  for (int i = 0; i < NMB__NSTORAGE; i++)
    if (*infos[i].safetensors && !strcmp(infos[i].safetensors, dtype))
      return i;
  return NMB_NONE;
}

int
nmb__storage_native(nmb_dtype d)
{
  if (nmb_dtype_codes(d))
    return NMB_NONE;
  for (int i = 0; i < NMB__NSTORAGE; i++)
    if (infos[i].dtype == d)
      return i;
  return NMB_NONE;
}
