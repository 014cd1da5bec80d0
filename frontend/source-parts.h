/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the files that open and read stored quantisations share. */
#ifndef NMB__SOURCE_PARTS_H
#define NMB__SOURCE_PARTS_H

#include "frontend/source.h"

typedef struct opener {
  nmb_run *run;
  const nmb__wfile *w;
  const nmb__layout_info *info;
  const char *base; /* name without ".weight" */
  bool stacked;     /* "experts.up_proj" without ".weight": its parts are "up_proj_scale" */
  nmb__source *s;
} opener;

/* The tensor base + suffix, if it is there and not empty. */
const nmb__wtensor *nmb__src_part(const opener *, const char *suffix);
/* The part `t` (or the absence of `suffix`) does not fit. */
nmb_status nmb__src_misfit(const opener *, const nmb__wtensor *t, const char *suffix,
                           const char *expected);
bool nmb__src_plain(const nmb__wtensor *); /* one number by itself? */
bool nmb__src_words(const nmb__wtensor *); /* a matrix of 32 bit words? */
float nmb__src_element(const nmb__wtensor *, int64_t i);
void nmb__src_shape(nmb__source *, int rank, const int64_t *dim);
int64_t nmb__src_columns(const nmb__source *);
int64_t nmb__src_rows(const nmb__source *); /* of one slab */
int64_t nmb__src_ceil_div(int64_t a, int64_t b);
/* How far each scale of s->scale reaches.  Rows and columns are of one slab. */
nmb_status nmb__src_scale_fit(const opener *);
float nmb__src_scale_at(const nmb__source *, int64_t row, int64_t col);

/* Codes packed as integers: source-int.c. */
nmb_status nmb__src_qweight_open(const opener *); /* x.qweight: GPTQ, AWQ */
nmb_status nmb__src_packed_open(const opener *);  /* x.weight_packed in words */
nmb_status nmb__src_hqq_open(const opener *);     /* x.W_q */
void nmb__src_gptq_row(const nmb__source *, int64_t row, float *out);
void nmb__src_awq_row(const nmb__source *, int64_t row, float *out);
void nmb__src_gemv_row(const nmb__source *, int64_t row, float *out);
void nmb__src_packed_row(const nmb__source *, int64_t row, float *out);
void nmb__src_hqq_row(const nmb__source *, int64_t row, float *out);

/* Codes of tables: source-code.c. */
/* scale: E4M3 per 16 or E8M0 (as bytes) per 32; both are read as what they are. */
nmb_status nmb__src_fp4_open(const opener *, const nmb__wtensor *scale,
                             const char *missing);
nmb_status nmb__src_levels_open(const opener *); /* bitsandbytes */
nmb_status nmb__src_bitnet_open(const opener *);
nmb_status nmb__src_books_open(const opener *); /* x.codes: AQLM */
void nmb__src_fp4_row(const nmb__source *, int64_t row, float *out);
void nmb__src_levels_row(const nmb__source *, int64_t row, float *out);
void nmb__src_bitnet_row(const nmb__source *, int64_t row, float *out);
void nmb__src_books_row(const nmb__source *, int64_t row, float *out);
#endif
