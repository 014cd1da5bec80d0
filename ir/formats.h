/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Number formats: values to codes and back, bit by bit.
 *
 * Rounding is to nearest, ties to even.  fp16 and bf16 overflow to infinity as IEEE 754
 * says; fp8 and fp4 saturate.  A NaN stays one where the format has it (fp16, bf16, fp8),
 * else it becomes the largest value.
 *
 * Blocks.  A run of elements is cut into groups from its start; each group is its scale,
 * then its elements, in one stream of bits that starts at bit 0 of byte 0.  So the first n
 * elements are the first nmb_bytes(n) bytes.  Groups do not cross rows of values; they run
 * through a weight as it lies.
 *   int8    fp16 scale amax/127; -127 .. 127
 *   int4    fp16 scale amax/7; code - 8 in -7 .. 7
 *   int4z   fp16 scale (max - min)/15 with 0 between them, 4 bit zero point: s (q - z)
 *   mxfp4   E8M0 scale 2^(floor(log2 amax) - 2); E2M1        (OCP MX v1.0, section 6.3)
 *   nvfp4   E4M3 scale amax/6 over the tensor's; E2M1        (tensor: amax/(6*448))
 *   mxfp8   E8M0 scale 2^(floor(log2 amax) - 8); E4M3
 *   nf4     fp32 scale amax, table
 *   nf4d    E4M3 scale amax over the tensor's, table         (tensor: amax/448)
 *   fp8blk  E4M3.  Blocks of a weight are 128 x 128, which no run of the stream is: the
 *           stream has room for their scales, which are beside it (nmb__blocks_find)
 *   mx8     E8M0 exponent of amax, and for each two elements a bit that halves their scale;
 *           6 bits of magnitude and a sign
 * The tensor's own scale is beside the stream: nmb__tensor_scale.  fp8e4m3, fp8e5m2 of
 * weights are scaled by amax over the largest value; ternary by the mean of |x|
 * (BitNet b1.58, arXiv:2402.17764, equation 3); int8 and int4 without a group by amax. */
#ifndef NMB__FORMATS_H
#define NMB__FORMATS_H

#include "nmbench/nmb_ir.h"

/* ------------------------------------------------------------------ elements */
NMB_API uint32_t nmb__f32_code(float);
NMB_API float nmb__f32_value(uint32_t);
NMB_API uint16_t nmb__f16_code(float);
NMB_API float nmb__f16_value(uint16_t);
NMB_API uint16_t nmb__bf16_code(float);
NMB_API float nmb__bf16_value(uint16_t);

/* X(id, exponent bits, mantissa bits, bias, largest value, largest code) of small floats;
 * E5M2 has infinities and NaN as IEEE 754 lays them out, E4M3 one NaN, the others none.
 * Sources: arXiv:2209.05433; OCP MX v1.0, section 5.3. */
#define NMB__MINI_MAP(X)                                                                 \
  X(E4M3, 4, 3, 7, 448.0, 0x7e)                                                          \
  X(E5M2, 5, 2, 15, 57344.0, 0x7b)                                                       \
  X(E3M2, 3, 2, 3, 28.0, 0x1f)                                                           \
  X(E2M3, 2, 3, 1, 7.5, 0x1f)                                                            \
  X(E2M1, 2, 1, 1, 6.0, 0x7)
typedef enum nmb__mini {
#define X(id, e, m, bias, max, code) NMB__MINI_##id,
  NMB__MINI_MAP(X)
#undef X
      NMB__NMINI
} nmb__mini;
NMB_API unsigned nmb__mini_code(nmb__mini, float);
NMB_API float nmb__mini_value(nmb__mini, unsigned code);

/* E8M0: 2^(code - 127); 255 is NaN.  The code is that of floor(log2 x), saturated. */
NMB_API unsigned nmb__e8m0_code(float);
NMB_API float nmb__e8m0_value(unsigned code);

/* The 16 values of NF4 in order (arXiv:2305.14314, appendix E). */
NMB_API const float *nmb__nf4_values(void);

/* ---------------------------------------------------------------------- runs */
/* The scale beside the stream of n values; 1 for formats that have none.  weight: are
 * they a weight?  Values and caches are cast to fp8 as they are. */
NMB_API float nmb__tensor_scale(nmb_dtype, int group, bool weight, int64_t n, const float *x);
/* One run, of a format that values can be rounded to: nmb_bytes(dtype, group, n) bytes. */
NMB_API void nmb__pack(nmb_dtype, int group, float scale, int64_t n, const float *x,
                       uint8_t *out);
/* Elements [a, b) of a run that starts at `in`, of any format but int32; out[0] is element
 * a.  Reads whole blocks of the formats of files. */
NMB_API void nmb__unpack(nmb_dtype, int group, float scale, const uint8_t *in, int64_t a,
                         int64_t b, float *out);
/* What unpack makes of what pack makes of rows[rows][len], in place.  Groups start anew
 * with each row. */
NMB_API void nmb__round(nmb_dtype, int group, float scale, int64_t rows, int64_t len,
                        float *x);
/* fp8blk: scales amax/448 of the blocks of 128 x 128 of a weight's last two dimensions,
 * matrix by matrix; smaller at the edges.  x: all elements. */
NMB_API int64_t nmb__blocks_count(const nmb_tensor *);
NMB_API void nmb__blocks_find(const nmb_tensor *, const float *x, float *scale);
/* Elements [first, first + n) times the scale of their block, or over it. */
NMB_API void nmb__blocks_apply(const nmb_tensor *, const float *scale, bool over,
                               int64_t first, int64_t n, float *x);
/* The values of a tensor (all of its elements) as its format holds them. */
NMB_API void nmb__round_tensor(const nmb_tensor *, float *x);
#endif
