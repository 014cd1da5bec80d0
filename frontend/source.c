/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Stored quantisations -> rows of floats.  Every part is checked against the others when
 * a source is opened; reading trusts them. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "frontend/source-parts.h"
#include "ir/formats.h"

/* Parts of stacked experts: "x" has "x_scale_inv", "x_weight_scale" or "x_scale". */
static const nmb__wtensor *
stacked_part(const opener *o, const char *suffix)
{
  const bool weight = !strncmp(suffix, ".weight_", 8);
  const nmb__wtensor *t =
      nmb__wfile_find(o->w, nmb_format(o->run, "%s_%s", o->base, suffix + 1));
  return t || !weight
             ? t
             : nmb__wfile_find(o->w, nmb_format(o->run, "%s_%s", o->base, suffix + 8));
}

const nmb__wtensor *
nmb__src_part(const opener *o, const char *suffix)
{
  const nmb__wtensor *t =
      o->stacked && *suffix == '.'
          ? stacked_part(o, suffix)
          : nmb__wfile_find(o->w, nmb_format(o->run, "%s%s", o->base, suffix));
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

nmb_status
nmb__src_misfit(const opener *o, const nmb__wtensor *t, const char *suffix,
                const char *expected)
{
  const char *file = t ? t->file : o->s->t ? o->s->t->file : o->w->path;
  const char *name = t ? t->name : nmb_format(o->run, "%s%s", o->base, suffix);
  return nmb_fail(o->run, NMB_BADINPUT, (nmb_loc){file, 0, 0},
                  "tensor '%s': found %s, expected %s%s", name,
                  t ? shape_text(o->run, t) : "nothing", expected,
                  *o->info->method
                      ? nmb_format(o->run, " (quant_method %s)", o->info->method)
                      : "");
}

bool
nmb__src_plain(const nmb__wtensor *t)
{
  return nmb__storage_get(t->type)->elems == 1;
}

bool
nmb__src_words(const nmb__wtensor *t)
{
  return t && t->rank == 2 && t->count && /* an empty one may have any dimension */
         (t->type == NMB__ST_I32 || t->type == NMB__ST_U32);
}

float
nmb__src_element(const nmb__wtensor *t, int64_t i)
{
  float v;
  const nmb__storage_info *s = nmb__storage_get(t->type);
  s->decode(t->data + i * s->bytes, 1, &v);
  return v;
}

void
nmb__src_shape(nmb__source *s, int rank, const int64_t *dim)
{
  s->rank = rank;
  s->count = 1;
  for (int i = 0; i < rank; i++) {
    s->dim[i] = dim[i];
    s->count *= dim[i];
  }
}

int64_t
nmb__src_columns(const nmb__source *s)
{
  return s->rank ? s->dim[s->rank - 1] : 1;
}

int64_t
nmb__src_rows(const nmb__source *s)
{
  return s->rank > 1 ? s->dim[s->rank - 2] : 1;
}

static int64_t
slabs(const nmb__source *s)
{
  const int64_t n = nmb__src_rows(s) * nmb__src_columns(s);
  return n ? s->count / n : 0;
}

int64_t
nmb__src_ceil_div(int64_t a, int64_t b)
{
  return a / b + (a % b != 0);
}

/* ------------------------------------------------------------------ scales */
/* The matrix of scales in a slab; ModelOpt's blocks are [rows, 1, columns, 1]. */
static void
scale_shape(const nmb__wtensor *t, int64_t *rows, int64_t *cols)
{
  const bool spread = t->rank == 4 && t->dim[1] == 1 && t->dim[3] == 1;
  *cols = spread ? t->dim[2] : t->rank > 1 ? t->dim[t->rank - 1] : 1;
  *rows = spread ? t->dim[0] : t->rank > 1 ? t->dim[t->rank - 2] : t->count;
}

nmb_status
nmb__src_scale_fit(const opener *o)
{
  nmb__source *s = o->s;
  const nmb__wtensor *t = s->scale;
  const int64_t n = nmb__src_rows(s), k = nmb__src_columns(s), each = slabs(s);
  if (!nmb__src_plain(t))
    return nmb__src_misfit(o, t, "", "plain numbers as scales");
  if (t->count == 1 || (t->count == each && each > 1)) { /* for all, or per expert */
    s->block_rows = n;
    s->block_cols = k;
    s->scale_rows = s->scale_cols = t->count == 1 ? 0 : 1;
    return NMB_OK;
  }
  const int64_t br = o->info->block_rows, bc = o->info->block_cols;
  int64_t tr, tc;
  scale_shape(t, &tr, &tc);
  s->scale_rows = tr;
  s->scale_cols = tc;
  if (tr * tc * each != t->count)
    return nmb__src_misfit(o, t, "", "as many matrices of scales as of codes");
  if (tr == n && tc > 0 && k % tc == 0) {
    s->block_rows = 1;
    s->block_cols = k / tc;
    return NMB_OK;
  }
  if (br > 0 && bc > 0 && tr == nmb__src_ceil_div(n, br) &&
      tc == nmb__src_ceil_div(k, bc)) {
    s->block_rows = br;
    s->block_cols = bc;
    return NMB_OK;
  }
  return nmb__src_misfit(
      o, t, "",
      nmb_format(o->run,
                 "a scale per tensor, row, group of a row, or block of %" PRId64
                 "x%" PRId64 " of the [%" PRId64 ",%" PRId64 "] codes",
                 br, bc, n, k));
}

static int64_t
scale_index(const nmb__source *s, int64_t row, int64_t col)
{
  const int64_t n = nmb__src_rows(s);
  if (!s->scale_rows)
    return 0;
  return (row / n * s->scale_rows + row % n / s->block_rows) * s->scale_cols +
         col / s->block_cols;
}

/* Bytes as scales are powers of two (MX formats). */
float
nmb__src_scale_at(const nmb__source *s, int64_t row, int64_t col)
{
  const int64_t i = scale_index(s, row, col);
  return s->scale->type == NMB__ST_U8 ? nmb__e8m0_value(s->scale->data[i])
                                      : nmb__src_element(s->scale, i);
}

/* Less the zero points and times the scales of the row, each fetched once. */
static void
scale_row(const nmb__source *s, int64_t row, float *out)
{
  const int64_t k = nmb__src_columns(s);
  for (int64_t a = 0; a < k;) {
    const float f = nmb__src_scale_at(s, row, a) * s->factor;
    const float z = s->zero ? nmb__src_element(s->zero, scale_index(s, row, a)) : 0;
    int64_t b = s->block_cols ? (a / s->block_cols + 1) * s->block_cols : k;
    for (b = b < k ? b : k; a < b; a++)
      out[a] = (out[a] - z) * f;
  }
}

/* ------------------------------------------------------- plain and scaled */
/* llama2.c: groups run through the rows. */
static nmb_status
flat_open(const opener *o, const nmb__wtensor *flat)
{
  nmb__source *s = o->s;
  s->kind = NMB__SRC_FLAT;
  s->scale = flat;
  s->block_cols = flat->count ? s->count / flat->count : 0;
  return flat->count && s->block_cols * flat->count == s->count && nmb__src_plain(flat)
             ? NMB_OK
             : nmb__src_misfit(o, flat, "", "a divisor of the codes");
}

/* What LLM.int8 or EETQ write; the first has the largest value of a row as its scale. */
static nmb_status
int8_open(const opener *o)
{
  nmb__source *s = o->s;
  const nmb__wtensor *how = nmb__src_part(o, ".weight_format");
  if (nmb__src_part(o, ".weight_scales"))
    return nmb__src_misfit(o, s->t, "",
                           "codes in their own order; EETQ's are in that of its kernels");
  s->scale = nmb__src_part(o, ".SCB");
  if (!s->scale)
    return nmb__src_misfit(o, NULL, ".weight_scale", "the scales of int8");
  if (how && (how->count != 1 || !nmb__src_plain(how) || nmb__src_element(how, 0) > 0))
    return nmb__src_misfit(o, how, "", "0, codes by rows");
  s->factor = 1 / 127.0f;
  s->linear = true;
  return NMB_OK;
}

/* Integers may have zero points, as many as scales and of their shape. */
static nmb_status
zero_open(const opener *o)
{
  nmb__source *s = o->s;
  s->zero = s->t->type == NMB__ST_I8 ? nmb__src_part(o, ".weight_zero_point") : NULL;
  if (s->zero && (s->zero->count != s->scale->count || !nmb__src_plain(s->zero)))
    return nmb__src_misfit(o, s->zero, "", "a zero point for each scale");
  return NMB_OK;
}

static nmb_status
plain_open(const opener *o)
{
  nmb__source *s = o->s;
  nmb__src_shape(s, s->t->rank, s->t->dim);
  const bool gguf = o->w->naming == NMB__NAMES_GGUF;
  const bool coded = s->t->type == NMB__ST_I8 || s->t->type == NMB__ST_F8_E4M3 ||
                     s->t->type == NMB__ST_F8_E5M2 || gguf;
  const nmb__wtensor *flat = gguf ? nmb__src_part(o, ".weight_scale") : NULL;
  static const char *const suffixes[] = {".weight_scale_inv", ".weight_scale", ".scale"};
  if (!coded && !o->stacked && o->info->online && s->t->rank == 2 &&
      strstr(o->base, "_proj"))
    s->kind = NMB__SRC_ONLINE;
  if (!coded && s->t->type != NMB__ST_I32)
    return NMB_OK;
  const size_t n = gguf ? 2 : 3; /* GGUF's .scale: wnames.c */
  for (size_t i = 0; !s->scale && i < n; i++)
    s->scale = nmb__src_part(o, suffixes[i]);
  if (!coded)
    return s->scale ? nmb__src_misfit(o, s->t, "",
                                      "codes that are not packed in words, whose order "
                                      "no reader here knows")
                    : NMB_OK;
  if (flat)
    return flat_open(o, flat);
  if (!s->scale && s->t->type == NMB__ST_I8 && !o->stacked && !gguf)
    NMB_TRY(int8_open(o));
  if (!s->scale)
    return NMB_OK;
  s->kind = NMB__SRC_SCALED;
  NMB_TRY(zero_open(o));
  return nmb__src_scale_fit(o);
}

static void
plain_row(const nmb__source *s, int64_t row, float *out)
{
  const nmb__storage_info *i = nmb__storage_get(s->t->type);
  const int64_t blocks = nmb__src_columns(s) / i->elems;
  i->decode(s->t->data + row * blocks * i->bytes, blocks, out);
}

static void
flat_row(const nmb__source *s, int64_t row, float *out)
{
  const int64_t k = nmb__src_columns(s);
  plain_row(s, row, out);
  for (int64_t i = 0; i < k; i++)
    out[i] *= nmb__src_element(s->scale, (row * k + i) / s->block_cols);
}

/* ------------------------------------------------------------------- whole */
/* x.weight_packed: integers or nvfp4/mxfp4, by its type. */
static nmb_status
weight_packed_open(const opener *o)
{
  if (o->s->t->type != NMB__ST_U8)
    return nmb__src_packed_open(o);
  o->s->global = nmb__src_part(o, ".weight_global_scale");
  o->s->divides = true;
  return nmb__src_fp4_open(o, nmb__src_part(o, ".weight_scale"), ".weight_scale");
}

/* x.weight as bytes is no number by itself. */
static nmb_status
bytes_open(const opener *o)
{
  if (!strcmp(o->info->method, "bitnet"))
    return nmb__src_bitnet_open(o);
  if (!nmb__src_part(o, ".weight_scale"))
    return plain_open(o);
  o->s->global = nmb__src_part(o, ".weight_scale_2");
  return nmb__src_fp4_open(o, nmb__src_part(o, ".weight_scale"), ".weight_scale");
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

/* The kinds that have no x.weight, by the tensor of their codes. */
static nmb_status
other_open(opener *o)
{
  static const struct {
    const char *suffix;
    nmb_status (*open)(const opener *);
  } kinds[] = {{".qweight", nmb__src_qweight_open},
               {".weight_packed", weight_packed_open},
               {".W_q", nmb__src_hqq_open},
               {".codes", nmb__src_books_open},
               {"._weight_qdata", plain_open}};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if ((o->s->t = nmb__src_part(o, kinds[i].suffix))) {
      if (kinds[i].open == plain_open) /* torchao: x._weight_scale */
        o->base = nmb_format(o->run, "%s._weight", o->base);
      o->stacked = kinds[i].open == plain_open;
      return kinds[i].open(o);
    }
  return NMB_OK;
}

/* AWQ's factors of inputs, where no norm took them in (ModelOpt). */
static nmb_status
columns_open(const opener *o)
{
  nmb__source *s = o->s;
  s->columns = s->t && !o->stacked ? nmb__src_part(o, ".pre_quant_scale") : NULL;
  if (s->columns &&
      (s->columns->count != nmb__src_columns(s) || !nmb__src_plain(s->columns)))
    return nmb__src_misfit(o, s->columns, "", "a factor for each column");
  return NMB_OK;
}

static nmb_status
open_parts(opener *o)
{
  nmb__source *s = o->s;
  if (s->t && !s->t->count)
    return nmb__src_misfit(o, s->t, "", "elements");
  if (s->t && cut(o->run, s->name, "_blocks", &o->base))
    return nmb__src_fp4_open(o, nmb__src_part(o, "_scales"), "_scales");
  o->stacked = !cut(o->run, s->name, ".weight", &o->base);
  if (!s->t)
    return o->stacked ? NMB_OK : other_open(o);
  if (nmb__src_part(o, ".weight.absmax"))
    return nmb__src_levels_open(o);
  return s->t->type == NMB__ST_U8 ? bytes_open(o) : plain_open(o);
}

nmb_status
nmb__source_open(nmb_run *run, const nmb__wfile *w, const nmb__layout_info *info,
                 const char *name, nmb__source *s)
{
  opener o = {run, w, info, name, false, s};
  *s = (nmb__source){.name = name, .factor = 1};
  s->t = nmb__wfile_find(w, name);
  NMB_TRY(open_parts(&o));
  return columns_open(&o);
}

/* transformers' WeightQuant: -1, 0 or 1 times the mean of all sizes, in the type of the
 * master weights. */
void
nmb__source_ready(nmb__source *s)
{
  double sum = 0;
  if (s->kind != NMB__SRC_ONLINE)
    return;
  for (int64_t i = 0; i < s->count; i++)
    sum += fabs((double)nmb__src_element(s->t, i));
  const double mean = sum / (double)s->count;
  s->factor = 1 / (float)(mean > 1e-5 ? mean : 1e-5);
}

static void
online_row(const nmb__source *s, int64_t row, float *out)
{
  float v = 1 / s->factor;
  plain_row(s, row, out);
  if (s->t->type == NMB__ST_BF16)
    v = nmb__bf16_value(nmb__bf16_code(v));
  else if (s->t->type == NMB__ST_F16)
    v = nmb__f16_value(nmb__f16_code(v));
  for (int64_t i = 0; i < nmb__src_columns(s); i++) {
    const float q = nearbyintf(out[i] * s->factor);
    out[i] = v * (q < -1 ? -1 : q > 1 ? 1 : q);
  }
}

void
nmb__source_row(const nmb__source *s, int64_t row, float *out)
{
  switch (s->kind) {
  case NMB__SRC_PLAIN: plain_row(s, row, out); break;
  case NMB__SRC_SCALED:
    plain_row(s, row, out);
    scale_row(s, row, out);
    break;
  case NMB__SRC_FLAT: flat_row(s, row, out); break;
  case NMB__SRC_GPTQ: nmb__src_gptq_row(s, row, out); break;
  case NMB__SRC_AWQ: nmb__src_awq_row(s, row, out); break;
  case NMB__SRC_GEMV: nmb__src_gemv_row(s, row, out); break;
  case NMB__SRC_PACKED: nmb__src_packed_row(s, row, out); break;
  case NMB__SRC_HQQ: nmb__src_hqq_row(s, row, out); break;
  case NMB__SRC_FP4: nmb__src_fp4_row(s, row, out); break;
  case NMB__SRC_LEVELS: nmb__src_levels_row(s, row, out); break;
  case NMB__SRC_BITNET: nmb__src_bitnet_row(s, row, out); break;
  case NMB__SRC_ONLINE: online_row(s, row, out); break;
  case NMB__SRC_BOOKS: nmb__src_books_row(s, row, out); break;
  }
  for (int64_t i = 0; s->columns && i < nmb__src_columns(s); i++)
    out[i] *= nmb__src_element(s->columns, i);
}

const char *
nmb__source_unread(nmb_run *run, const nmb__wfile *w, const char *name)
{
  const char *base, *list = NULL;
  if (!cut(run, name, ".weight", &base))
    return NULL;
  const size_t n = strlen(base);
  for (int i = 0, shown = 0; i < w->ntensor && shown < 6; i++) {
    const char *s = w->tensor[i].name;
    if (strncmp(s, base, n) || s[n] != '.' || !strcmp(s + n, ".bias"))
      continue;
    list = nmb_format(run, "%s%s%s", list ? list : "", list ? ", " : "", s + n);
    shown++;
  }
  return list;
}
