/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Number formats against other formulations: values by counting up from zero, codes by
 * looking for the nearest value among all, blocks by their definitions. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/formats.h"
#include "tests/unit/unit.h"

static uint64_t
next(uint64_t *state)
{
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return *state >> 33;
}

/* Uniform in -1 .. 1 times 2^(-span .. span). */
static float
any(uint64_t *state, int span)
{
  const double u = (double)next(state) / 0x1p30 - 1;
  return (float)ldexp(u, (int)(next(state) % (uint64_t)(2 * span + 1)) - span);
}

static float
step(float x, int direction)
{
  return nextafterf(x, direction < 0 ? -INFINITY : INFINITY);
}

/* All finite values that are not negative, by counting: steps double every 2^m codes but
 * for the first time. */
static int
count_up(int e, int m, int bias, int top, double *v)
{
  double x = 0, d = ldexp(1, 1 - bias - m);
  (void)e;
  for (int code = 0; code <= top; code++) {
    v[code] = x;
    x += d;
    if (code >= (2 << m) - 1 && (code + 1) % (1 << m) == 0)
      d *= 2;
  }
  return top + 1;
}

/* The code nearest to x >= 0 in v[n]; of two equally near the even one. */
static int
nearest(const double *v, int n, double x)
{
  int at = 0;
  for (int i = 1; i < n; i++) {
    const double now = fabs(x - v[i]), best = fabs(x - v[at]);
    if (now < best || (!(now > best) && i % 2 == 0))
      at = i;
  }
  return at;
}

static void
check_mini(nmb__mini kind, int e, int m, int bias, double max, int top)
{
  double v[256] = {0};
  uint64_t s = 5;
  const int n = count_up(e, m, bias, top, v);
  const unsigned sign = 1u << (e + m);
  CU_ASSERT_DOUBLE_EQUAL(v[n - 1], max, 0);
  for (int c = 0; c < n; c++) {
    CU_ASSERT_DOUBLE_EQUAL(nmb__mini_value(kind, (unsigned)c), v[c], 0);
    CU_ASSERT_DOUBLE_EQUAL(nmb__mini_value(kind, (unsigned)c | sign), -v[c], 0);
    CU_ASSERT_EQUAL(nmb__mini_code(kind, (float)v[c]), (unsigned)c);
    if (c + 1 == n)
      continue;
    const float mid = (float)((v[c] + v[c + 1]) / 2);
    CU_ASSERT_EQUAL(nmb__mini_code(kind, mid), (unsigned)(c % 2 ? c + 1 : c));
    CU_ASSERT_EQUAL(nmb__mini_code(kind, step(mid, -1)), (unsigned)c);
    CU_ASSERT_EQUAL(nmb__mini_code(kind, -step(mid, 1)), (unsigned)(c + 1) | sign);
  }
  for (int i = 0; i < 2000; i++) {
    const float x = any(&s, 20);
    const int c = nearest(v, n, fabs((double)x));
    CU_ASSERT_EQUAL(nmb__mini_code(kind, x), (unsigned)c | (x < 0 ? sign : 0));
  }
  CU_ASSERT_EQUAL(nmb__mini_code(kind, INFINITY), (unsigned)top);
  CU_ASSERT_EQUAL(nmb__mini_code(kind, -1e9f), (unsigned)top | sign);
}

static void
test_mini(void)
{
  check_mini(NMB__MINI_E4M3, 4, 3, 7, 448, 0x7e);
  check_mini(NMB__MINI_E5M2, 5, 2, 15, 57344, 0x7b);
  check_mini(NMB__MINI_E3M2, 3, 2, 3, 28, 0x1f);
  check_mini(NMB__MINI_E2M3, 2, 3, 1, 7.5, 0x1f);
  check_mini(NMB__MINI_E2M1, 2, 1, 1, 6, 7);
  const float fp4[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6}; /* OCP MX v1.0, table 5 */
  for (unsigned c = 0; c < 8; c++)
    CU_ASSERT_DOUBLE_EQUAL(nmb__mini_value(NMB__MINI_E2M1, c), fp4[c], 0);
  CU_ASSERT_TRUE(isnan(nmb__mini_value(NMB__MINI_E4M3, 0x7f)));
  CU_ASSERT_TRUE(
      isnan(nmb__mini_value(NMB__MINI_E4M3, nmb__mini_code(NMB__MINI_E4M3, NAN))));
  CU_ASSERT_TRUE(
      isnan(nmb__mini_value(NMB__MINI_E5M2, nmb__mini_code(NMB__MINI_E5M2, NAN))));
  CU_ASSERT_TRUE(isinf(nmb__mini_value(NMB__MINI_E5M2, 0x7c)));
  CU_ASSERT_EQUAL(nmb__mini_code(NMB__MINI_E2M1, NAN), 7);
}

static void
test_half(void)
{
  double was = 0;
  for (unsigned c = 0; c <= 0x7c00; c++) {
    const int e = (int)(c >> 10), f = (int)(c & 0x3ff);
    const double v = e == 31 ? 65536 /* where the value after the largest would be */
                     : e     ? (1 + f / 1024.0) * pow(2, e - 15)
                             : f * pow(2, -24);
    if (c < 0x7c00)
      CU_ASSERT_DOUBLE_EQUAL(nmb__f16_value((uint16_t)c), v, 0);
    if (c > 0) {
      const float mid = (float)((was + v) / 2);
      CU_ASSERT_EQUAL(nmb__f16_code(mid), c % 2 ? c - 1 : c);
      CU_ASSERT_EQUAL(nmb__f16_code(step(mid, -1)), c - 1);
      CU_ASSERT_EQUAL(nmb__f16_code(-step(mid, 1)), c | 0x8000);
    }
    was = v;
  }
  CU_ASSERT_TRUE(isinf(nmb__f16_value(0xfc00)));
  CU_ASSERT_TRUE(isnan(nmb__f16_value(nmb__f16_code(NAN))));
  CU_ASSERT_EQUAL(nmb__f16_code(-0.0f), 0x8000);
}

static void
test_bfloat(void)
{
  uint64_t s = 3;
  for (unsigned c = 1; c < 0x7f80; c++) {
    const double a = nmb__bf16_value((uint16_t)(c - 1)), b = nmb__bf16_value((uint16_t)c);
    const int e = (int)(c >> 7), f = (int)(c & 127);
    CU_ASSERT_DOUBLE_EQUAL(b, e ? ldexp(1 + f / 128.0, e - 127) : ldexp(f / 128.0, -126),
                           0);
    const float mid = (float)((a + b) / 2);
    CU_ASSERT_EQUAL(nmb__bf16_code(mid), c % 2 ? c - 1 : c);
    CU_ASSERT_EQUAL(nmb__bf16_code(step(mid, -1)), c - 1);
    CU_ASSERT_EQUAL(nmb__bf16_code(step(mid, 1)), c);
  }
  for (int i = 0; i < 1000; i++) {
    const float x = any(&s, 60), y = nmb__bf16_value(nmb__bf16_code(x));
    CU_ASSERT_TRUE(fabsf(x - y) <= fabsf(x) / 256);
  }
  CU_ASSERT_TRUE(isinf(nmb__bf16_value(nmb__bf16_code(3.4e38f))));
  CU_ASSERT_TRUE(isnan(nmb__bf16_value(nmb__bf16_code(-NAN))));
}

static void
test_e8m0(void)
{
  for (int c = 0; c < 255; c++) {
    CU_ASSERT_DOUBLE_EQUAL(nmb__e8m0_value((unsigned)c), pow(2, c - 127), 0);
    CU_ASSERT_EQUAL(nmb__e8m0_code((float)(1.75 * pow(2, c - 127))), (unsigned)c);
  }
  CU_ASSERT_TRUE(isnan(nmb__e8m0_value(255)));
  CU_ASSERT_EQUAL(nmb__e8m0_code(0), 0);
}

/* ------------------------------------------------------------------- blocks */
enum { N = 200 };

static void
fill(float *x, int n, uint64_t seed)
{
  for (int i = 0; i < n; i++)
    x[i] = any(&seed, 3);
}

static double
most(const float *x, int a, int b)
{
  double m = 0;
  for (int i = a; i < b; i++)
    m = fmax(m, fabs((double)x[i]));
  return m;
}

/* Nearest of the values scale * grid[n]; ties may go either way. */
static void
check_group(const float *x, const float *y, int a, int b, double scale,
            const double *grid, int n)
{
  for (int i = a; i < b; i++) {
    double best = INFINITY;
    bool on = false;
    for (int j = 0; j < n; j++) {
      best = fmin(best, fabs((double)x[i] - scale * grid[j]));
      on |= fabs((double)y[i] - scale * grid[j]) <= 1e-6 * scale;
    }
    CU_ASSERT_TRUE(on);
    CU_ASSERT_DOUBLE_EQUAL(fabs((double)x[i] - (double)y[i]), best, 1e-6 * scale);
  }
}

static int
integers(int lo, int hi, double *grid)
{
  for (int i = lo; i <= hi; i++)
    grid[i - lo] = i;
  return hi - lo + 1;
}

static int
floats4(double *grid)
{
  const double v[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  for (int i = 0; i < 8; i++) {
    grid[i] = v[i];
    grid[8 + i] = -v[i];
  }
  return 16;
}

static void
test_blocks(void)
{
  float x[N], y[N];
  double grid[256];
  for (int g = 0; g < 2; g++) { /* int8 in groups of 32, int4 of 48 */
    const int per = g ? 48 : 32, top = g ? 7 : 127;
    fill(x, N, 11);
    memcpy(y, x, sizeof y);
    nmb__round(g ? NMB_DT_I4 : NMB_DT_I8, per, 1, 1, N, y);
    const int n = integers(-top, top, grid);
    for (int a = 0; a < N; a += per) {
      const int b = a + per < N ? a + per : N;
      const float s = nmb__f16_value(nmb__f16_code((float)(most(x, a, b) / top)));
      check_group(x, y, a, b, (double)s, grid, n);
    }
  }
  fill(x, N, 12); /* mxfp4 */
  memcpy(y, x, sizeof y);
  nmb__round(NMB_DT_MXFP4, 0, 1, 1, N, y);
  for (int a = 0, n = floats4(grid); a < N; a += 32) {
    const int b = a + 32 < N ? a + 32 : N;
    double s = 0x1p-40; /* the largest power of two that is at most amax, over 4 */
    while (2 * s <= most(x, a, b))
      s *= 2;
    check_group(x, y, a, b, s / 4, grid, n);
  }
  memcpy(y, x, sizeof y); /* mxfp8: the largest of a group is in the binade of 256 */
  nmb__round(NMB_DT_MXFP8, 0, 1, 1, N, y);
  for (int i = 0; i < N; i++) {
    const int a = i / 32 * 32, b = a + 32 < N ? a + 32 : N;
    const float s = (float)exp2(floor(log2(most(x, a, b))) - 8);
    const unsigned code = nmb__mini_code(NMB__MINI_E4M3, x[i] / s);
    CU_ASSERT_DOUBLE_EQUAL(y[i], nmb__mini_value(NMB__MINI_E4M3, code) * s, 0);
  }
  const float tensor = nmb__tensor_scale(NMB_DT_NVFP4, 0, true, N, x);
  CU_ASSERT_DOUBLE_EQUAL(tensor, most(x, 0, N) / 2688, 1e-9);
  memcpy(y, x, sizeof y);
  nmb__round(NMB_DT_NVFP4, 0, tensor, 1, N, y);
  for (int a = 0, n = floats4(grid); a < N; a += 16) {
    const int b = a + 16 < N ? a + 16 : N;
    const float want = (float)(most(x, a, b) / 6) / tensor;
    const float s = nmb__mini_value(NMB__MINI_E4M3, nmb__mini_code(NMB__MINI_E4M3, want));
    check_group(x, y, a, b, (double)s * (double)tensor, grid, n);
  }
}

/* An exponent for 16 elements and a bit of one for each two. */
static void
test_shared_exponents(void)
{
  static float x[N], y[N], z[N];
  static uint8_t packed[N];
  double grid[256];
  fill(x, N, 21);
  for (int i = 0; i < 16; i++)
    x[i] = i < 2 ? 1.75f : 0.5f / (float)(i + 1); /* pairs that halve their scale */
  x[40] = x[41] = 0;
  memcpy(y, x, sizeof y);
  nmb__round(NMB_DT_MX8, 0, 1, 1, N, y);
  const int n = integers(-63, 63, grid);
  for (int a = 0; a < N; a += 16) {
    const int b = a + 16 < N ? a + 16 : N;
    double top = 0x1p-60;
    while (2 * top <= most(x, a, b))
      top *= 2;
    for (int i = a; i < b; i += 2) {
      const int end = i + 2 < b ? i + 2 : b;
      check_group(x, y, i, end, top / 32 / (most(x, i, end) < top ? 2 : 1), grid, n);
    }
  }
  CU_ASSERT_EQUAL(nmb_bytes(NMB_DT_MX8, 0, 16), 16); /* 8 bits an element in all */
  nmb__pack(NMB_DT_MX8, 0, 1, N, x, packed);
  nmb__unpack(NMB_DT_MX8, 0, 1, packed, 3, N, z);
  CU_ASSERT_EQUAL(memcmp(z, y + 3, (N - 3) * sizeof *z), 0);
}

static void
test_more_blocks(void)
{
  float x[N], y[N];
  double grid[256];
  fill(x, N, 13); /* int4 with a zero point: all positive values use all codes */
  for (int i = 0; i < N; i++)
    x[i] = fabsf(x[i]) - 0.1f;
  memcpy(y, x, sizeof y);
  nmb__round(NMB_DT_I4Z, 40, 1, 1, N, y);
  for (int a = 0; a < N; a += 40) {
    double lo = 0, hi = 0;
    for (int i = a; i < a + 40; i++) {
      lo = fmin(lo, (double)x[i]);
      hi = fmax(hi, (double)x[i]);
    }
    const double s = (double)nmb__f16_value(nmb__f16_code((float)((hi - lo) / 15)));
    const int z = (int)lrint(-lo / s), n = integers(-z, 15 - z, grid);
    check_group(x, y, a, a + 40, s, grid, n);
  }
  const float mean = nmb__tensor_scale(NMB_DT_TERNARY, 0, true, N, x);
  memcpy(y, x, sizeof y);
  nmb__round(NMB_DT_TERNARY, 0, mean, 1, N, y);
  check_group(x, y, 0, N, (double)mean, (const double[]){-1, 0, 1}, 3);
  fill(x, N, 14);
  const float tensor = nmb__tensor_scale(NMB_DT_NF4D, 0, true, N, x);
  for (int i = 0; i < 16; i++)
    grid[i] = (double)nmb__nf4_values()[i];
  memcpy(y, x, sizeof y);
  nmb__round(NMB_DT_NF4, 0, 1, 1, 64, y); /* its scale is in single precision */
  check_group(x, y, 0, 64, most(x, 0, 64), grid, 16);
  memcpy(y, x, sizeof y);
  nmb__round(NMB_DT_NF4D, 0, tensor, 1, 64, y);
  const float amax = (float)most(x, 0, 64) / tensor;
  const float s = nmb__mini_value(NMB__MINI_E4M3, nmb__mini_code(NMB__MINI_E4M3, amax));
  check_group(x, y, 0, 64, (double)s * (double)tensor, grid, 16);
  for (int i = 0; i < 15; i++) /* in order, and nearly odd */
    CU_ASSERT_TRUE(grid[i] < grid[i + 1]);
}

/* Blocks of 128 x 128, which a run of the stream is not, smaller at the edges. */
static void
test_squares(void)
{
  enum { E = 2, R = 130, C = 200 };
  static float x[E * R * C], y[E * R * C], scale[E * 4];
  const nmb_tensor t = {.dtype = NMB_DT_F8BLK, .role = NMB_ROLE_WEIGHT, .rank = 3,
                        .dim = {E, R, C}};
  fill(x, E * R * C, 15);
  x[129 * C + 199] = 5000; /* in a corner of 2 x 72: no other block gets coarser */
  memcpy(y, x, sizeof y);
  CU_ASSERT_EQUAL_FATAL(nmb__blocks_count(&t), E * 4);
  nmb__blocks_find(&t, x, scale);
  CU_ASSERT_DOUBLE_EQUAL(scale[3], 5000 / 448.0, 1e-5);
  nmb__round_tensor(&t, y);
  for (int e = 0; e < E; e++)
    for (int r = 0; r < R; r++)
      for (int c = 0; c < C; c++) {
        double amax = 0;
        for (int i = r / 128 * 128; i < R && i < r / 128 * 128 + 128 && c % 128 == 0; i++)
          amax = fmax(amax, most(x, (e * R + i) * C + c,
                                 (e * R + i) * C + (c + 128 < C ? c + 128 : C)));
        const float s = scale[e * 4 + r / 128 * 2 + c / 128];
        if (c % 128 == 0)
          CU_ASSERT_DOUBLE_EQUAL(s, amax / 448, 1e-6 * amax);
        const float v = x[(e * R + r) * C + c] / s;
        const float want =
            nmb__mini_value(NMB__MINI_E4M3, nmb__mini_code(NMB__MINI_E4M3, v)) * s;
        CU_ASSERT_DOUBLE_EQUAL(y[(e * R + r) * C + c], want, 0);
      }
}

/* Any part of a packed run unpacks to what rounding gives; the bytes are as many as
 * counted, and no more are touched. */
static void
test_pack(void)
{
  float x[N], y[N], z[N];
  uint8_t bytes[N * 4 + 64];
  for (int d = 0; d < NMB_NDTYPE; d++)
    for (int group = 8; group <= 40; group += 32) {
      if (!nmb_dtype_codes((nmb_dtype)d))
        continue;
      const int g = nmb_dtype_get((nmb_dtype)d)->group < 0 ? group : 0;
      const int64_t size = nmb_bytes((nmb_dtype)d, g, N);
      fill(x, N, (uint64_t)d + 1);
      memcpy(y, x, sizeof y);
      const float s = nmb__tensor_scale((nmb_dtype)d, g, true, N, x);
      nmb__round((nmb_dtype)d, g, s, 1, N, y);
      memset(bytes, 0xa5, sizeof bytes);
      nmb__pack((nmb_dtype)d, g, s, N, x, bytes);
      CU_ASSERT_EQUAL(bytes[size], 0xa5);
      for (int a = 0; a < N; a += 7)
        for (int b = a + 1; b <= N; b += 23) {
          nmb__unpack((nmb_dtype)d, g, s, bytes, a, b, z);
          CU_ASSERT_EQUAL(memcmp(z, y + a, (size_t)(b - a) * sizeof *z), 0);
        }
      memcpy(z, y, sizeof z); /* what a format holds stays in it (scales may differ by an
                                 ulp where they are rounded themselves) */
      nmb__round((nmb_dtype)d, g, s, 1, N, z);
      for (int i = 0; i < N && !nmb_dtype_get((nmb_dtype)d)->scale_bits; i++)
        CU_ASSERT_DOUBLE_EQUAL(z[i], y[i], 0);
    }
}

static void
test_nothing(void)
{
  float x[40] = {0}; /* all zero: no scale, no trouble */
  for (int d = 0; d < NMB_NDTYPE; d++) {
    if (!nmb_dtype_codes((nmb_dtype)d))
      continue;
    nmb__round((nmb_dtype)d, 16, nmb__tensor_scale((nmb_dtype)d, 16, true, 40, x), 1, 40,
               x);
    for (int i = 0; i < 40; i++)
      CU_ASSERT_DOUBLE_EQUAL(x[i], 0, 0);
  }
  CU_ASSERT_FALSE(nmb_dtype_codes(NMB_DT_I32));
}

UNIT_MAIN("formats", {"fp8, fp6 and fp4 are the nearest of their values", test_mini},
          {"fp16 rounds every midpoint to even", test_half},
          {"bf16 rounds every midpoint to even", test_bfloat},
          {"E8M0 is a power of two", test_e8m0},
          {"int8, int4, mxfp4 and nvfp4 are the nearest on their grids", test_blocks},
          {"fp8blk has a scale for each 128 x 128", test_squares},
          {"int4z, ternary and nf4 are the nearest on their grids", test_more_blocks},
          {"shared exponents, and bits of them", test_shared_exponents},
          {"any part of a packed run unpacks to the rounded values", test_pack},
          {"zeros stay zeros", test_nothing})
