/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Codes that stand for levels or vectors: E2M1, bitsandbytes, BitNet, AQLM. */
#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "frontend/source-parts.h"
#include "ir/formats.h"

/* ------------------------------------------------------------------- fp4 */
/* The factor of a whole tensor, of each slab, or of each half of one (fused experts). */
static nmb_status
global_check(const opener *o)
{
  const nmb__source *s = o->s;
  const int64_t each = s->count / nmb__src_rows(s) / nmb__src_columns(s);
  if (s->global && (!nmb__src_plain(s->global) ||
                    (s->global->count != 1 && s->global->count != each &&
                     (s->global->count != 2 * each || nmb__src_rows(s) % 2))))
    return nmb__src_misfit(o, s->global, "", "one number, or one for each expert");
  return NMB_OK;
}

static float
global_at(const nmb__source *s, int64_t row)
{
  const int64_t n = nmb__src_rows(s), each = s->count / n / nmb__src_columns(s);
  if (!s->global)
    return 1;
  const int64_t i = s->global->count == 1      ? 0
                    : s->global->count == each ? row / n
                                               : row / n * 2 + (row % n >= n / 2);
  const float f = nmb__src_element(s->global, i);
  return s->divides ? 1 / f : f;
}

nmb_status
nmb__src_fp4_open(const opener *o, const nmb__wtensor *scale, const char *missing)
{
  nmb__source *s = o->s;
  s->kind = NMB__SRC_FP4;
  s->scale = scale;
  if (s->t->type != NMB__ST_U8 || s->t->rank < 2)
    return nmb__src_misfit(o, s->t, "", "bytes with two codes each");
  if (!scale)
    return nmb__src_misfit(o, NULL, missing, "the scales");
  int64_t dim[NMB__WRANK];
  int rank = s->t->rank;
  memcpy(dim, s->t->dim, sizeof dim);
  if (rank == scale->rank + 1) { /* gpt-oss: [experts, rows, groups, 16] */
    dim[rank - 2] *= dim[rank - 1];
    rank--;
  }
  dim[rank - 1] *= 2;
  nmb__src_shape(s, rank, dim);
  NMB_TRY(nmb__src_scale_fit(o));
  if (s->block_rows != 1 || (s->block_cols != 16 && s->block_cols != 32))
    return nmb__src_misfit(o, scale, "", "a scale for 16 or 32 codes");
  return global_check(o);
}

void
nmb__src_fp4_row(const nmb__source *s, int64_t row, float *out)
{
  const int64_t k = nmb__src_columns(s), n = nmb__src_rows(s), groups = s->scale_cols;
  const uint8_t *b = s->t->data + row * (k / 2);
  const float f = global_at(s, row);
  for (int64_t g = 0; g < groups; g++) {
    const int64_t at = (row / n * s->scale_rows + row % n) * groups + g;
    const float d = s->scale->type == NMB__ST_U8 ? nmb__e8m0_value(s->scale->data[at])
                                                 : nmb__src_element(s->scale, at) * f;
    for (int64_t i = g * s->block_cols; i < (g + 1) * s->block_cols; i++)
      out[i] = nmb__mini_value(NMB__MINI_E2M1, (unsigned)b[i / 2] >> 4 * (i % 2) & 15u) * d;
  }
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
  if (!n || s->t->bytes != (uint64_t)nmb__src_ceil_div(n, 2) || s->block_cols < 1 ||
      s->block_cols > 1 << 20 || nested < 0 || nested > 1 << 20)
    return nmb__src_misfit(o, t, "",
                           "a JSON text with the shape, as many codes, and block sizes");
  s->nested_block = (int)nested;
  nmb__src_shape(s, 2, dim);
  return NMB_OK;
}

nmb_status
nmb__src_levels_open(const opener *o)
{
  nmb__source *s = o->s;
  const nmb__wtensor *state = nmb__src_part(o, ".weight.quant_state.bitsandbytes__nf4");
  if (!state)
    state = nmb__src_part(o, ".weight.quant_state.bitsandbytes__fp4");
  s->kind = NMB__SRC_LEVELS;
  s->linear = true;
  if (!state)
    return nmb__src_misfit(o, NULL, ".weight.quant_state.bitsandbytes__nf4",
                  "the state of the codes");
  s->scale = nmb__src_part(o, ".weight.absmax");
  s->levels = nmb__src_part(o, ".weight.quant_map");
  NMB_TRY(levels_state(o, state));
  const int64_t blocks = nmb__src_ceil_div(s->count, s->block_cols);
  if (!s->scale || s->scale->count != blocks || !nmb__src_plain(s->scale))
    return nmb__src_misfit(o, s->scale, ".weight.absmax", "a scale for each block");
  if (s->levels && (s->levels->count != 16 || !nmb__src_plain(s->levels)))
    return nmb__src_misfit(o, s->levels, "", "16 levels");
  if (s->scale->type != NMB__ST_U8)
    return NMB_OK;
  s->nested = nmb__src_part(o, ".weight.nested_absmax");
  s->nested_levels = nmb__src_part(o, ".weight.nested_quant_map");
  if (!s->nested || !s->nested_block || !nmb__src_plain(s->nested) ||
      s->nested->count != nmb__src_ceil_div(blocks, s->nested_block))
    return nmb__src_misfit(o, s->nested, ".weight.nested_absmax",
                  "a scale for each block of scales");
  if (!s->nested_levels || s->nested_levels->count != 256 ||
      !nmb__src_plain(s->nested_levels))
    return nmb__src_misfit(o, s->nested_levels, ".weight.nested_quant_map", "256 levels");
  return NMB_OK;
}

static float
absmax(const nmb__source *s, int64_t block)
{
  if (!s->nested)
    return nmb__src_element(s->scale, block);
  return nmb__src_element(s->nested_levels, s->scale->data[block]) *
             nmb__src_element(s->nested, block / s->nested_block) +
         s->offset;
}

void
nmb__src_levels_row(const nmb__source *s, int64_t row, float *out)
{
  const int64_t k = s->dim[1];
  int64_t last = -1;
  float d = 0;
  for (int64_t j = 0; j < k; j++) {
    const int64_t i = row * k + j;
    const unsigned q = i % 2 ? s->t->data[i / 2] & 15u : s->t->data[i / 2] >> 4;
    if (i / s->block_cols != last)
      d = absmax(s, last = i / s->block_cols);
    out[j] = (s->levels ? nmb__src_element(s->levels, q) : nmb__nf4_values()[q & 15]) * d;
  }
}

/* ------------------------------------------------------------------ bitnet */
nmb_status
nmb__src_bitnet_open(const opener *o)
{
  nmb__source *s = o->s;
  s->kind = NMB__SRC_BITNET;
  if (s->t->rank != 2 || s->t->dim[0] > INT64_MAX / 8)
    return nmb__src_misfit(o, s->t, "", "bytes with four rows each");
  s->scale = nmb__src_part(o, ".weight_scale");
  if (!s->scale || s->scale->count != 1 || !nmb__src_plain(s->scale))
    return nmb__src_misfit(o, s->scale, ".weight_scale", "one number");
  nmb__src_shape(s, 2, (int64_t[]){4 * s->t->dim[0], s->t->dim[1]});
  const float f = nmb__src_element(s->scale, 0);
  s->factor = o->info->multiply ? f : 1 / f;
  return NMB_OK;
}

void
nmb__src_bitnet_row(const nmb__source *s, int64_t row, float *out)
{
  const int64_t quarter = s->t->dim[0], k = s->dim[1];
  const uint8_t *b = s->t->data + row % quarter * k;
  for (int64_t i = 0; i < k; i++)
    out[i] = (float)((b[i] >> 2 * (row / quarter) & 3) - 1) * s->factor;
}


/* -------------------------------------------------------------------- AQLM */
/* codes [out / og, in / ig, books], code books [books, 2^b, og, ig], scales by rows of
 * groups: w = scale * sum of the books' vectors (arXiv:2401.06118). */
nmb_status
nmb__src_books_open(const opener *o)
{
  nmb__source *s = o->s;
  const nmb__wtensor *t = s->t, *b = s->levels = nmb__src_part(o, ".codebooks");
  s->kind = NMB__SRC_BOOKS;
  s->linear = true;
  s->scale = nmb__src_part(o, ".scales");
  if (t->rank != 3 || (t->type != NMB__ST_I8 && t->type != NMB__ST_I16))
    return nmb__src_misfit(o, t, "", "codes of I8 or I16, for each book of each group");
  if (!b || b->rank != 4 || b->dim[0] != t->dim[2] || !nmb__src_plain(b) ||
      b->dim[1] > (t->type == NMB__ST_I8 ? 256 : 65536) || (b->dim[1] & (b->dim[1] - 1)) ||
      b->dim[2] > 64 || b->dim[3] > 64)
    return nmb__src_misfit(o, b, ".codebooks", "books of vectors, a power of two in each");
  if (t->dim[0] > INT32_MAX / 64 || t->dim[1] > INT32_MAX / 64)
    return nmb__src_misfit(o, t, "", "fewer groups");
  if (!s->scale || !nmb__src_plain(s->scale) ||
      (s->scale->count != t->dim[0] && s->scale->count != t->dim[0] * t->dim[1]))
    return nmb__src_misfit(o, s->scale, ".scales", "a scale for each row of groups");
  s->block_rows = b->dim[2];
  s->block_cols = b->dim[3];
  nmb__src_shape(s, 2, (int64_t[]){t->dim[0] * b->dim[2], t->dim[1] * b->dim[3]});
  return NMB_OK;
}

void
nmb__src_books_row(const nmb__source *s, int64_t row, float *out)
{
  const nmb__wtensor *b = s->levels;
  const int64_t across = s->t->dim[1], books = s->t->dim[2], most = b->dim[1];
  const int64_t og = s->block_rows, ig = s->block_cols, at = row / og;
  for (int64_t g = 0; g < across; g++) {
    const int64_t code = (at * across + g) * books;
    const float f =
        nmb__src_element(s->scale, s->scale->count == s->t->dim[0] ? at : at * across + g);
    for (int64_t i = 0; i < ig; i++)
      out[g * ig + i] = 0;
    for (int64_t m = 0; m < books; m++) {
      const int64_t q = (int64_t)nmb__src_element(s->t, code + m) & (most - 1);
      const int64_t v = ((m * most + q) * og + row % og) * ig;
      for (int64_t i = 0; i < ig; i++)
        out[g * ig + i] += nmb__src_element(b, v + i);
    }
    for (int64_t i = 0; i < ig; i++)
      out[g * ig + i] *= f;
  }
}
