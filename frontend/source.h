/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A logical tensor of a weight file: what a model calls "x.weight", however many tensors
 * of the file hold its codes, scales and zero points, and in whichever of the published
 * quantised layouts.  Layouts and their sources: docs/weights.md. */
#ifndef NMB__SOURCE_H
#define NMB__SOURCE_H

#include "frontend/wfile.h"

/* What quantization_config says of the layout; all may be absent. */
typedef struct nmb__layout_info {
  const char *method;             /* "" if there is none */
  int bits;                       /* 0: not said */
  int group;                      /* 0: not said, or rows */
  bool v2;                        /* GPTQ: zero points are stored as they are */
  bool gemv;                      /* AWQ: codes of a row lie together */
  bool multiply;                  /* BitNet: the scale multiplies */
  bool online;                    /* BitNet: weights are rounded when they are used */
  int64_t block_rows, block_cols; /* FP8 with a scale per block */
} nmb__layout_info;

typedef enum nmb__source_kind {
  NMB__SRC_PLAIN,
  NMB__SRC_SCALED, /* numbers times a scale per tensor, row, block or group */
  NMB__SRC_FLAT,   /* numbers times a scale per group that runs through the rows */
  NMB__SRC_GPTQ,
  NMB__SRC_AWQ,
  NMB__SRC_GEMV,   /* AWQ's layout for vectors */
  NMB__SRC_PACKED, /* compressed-tensors integers */
  NMB__SRC_HQQ,
  NMB__SRC_FP4,    /* E2M1 nibbles, the first element low, with scales per group */
  NMB__SRC_LEVELS, /* bitsandbytes: nibbles of a table, absmax per block */
  NMB__SRC_BITNET,
  NMB__SRC_ONLINE, /* BitNet's master weights, to be rounded to three values */
  NMB__SRC_BOOKS   /* AQLM: sums of vectors of code books */
} nmb__source_kind;

typedef struct nmb__source {
  nmb__source_kind kind;
  const char *name;
  const nmb__wtensor *t; /* codes; NULL: the file has no such tensor */
  const nmb__wtensor *scale, *zero, *order, *levels, *nested, *nested_levels;
  const nmb__wtensor *global;  /* (optional) one for all, or per slab or half of a slab */
  const nmb__wtensor *columns; /* (optional) factors of the inputs */
  int rank;
  int64_t dim[NMB__WRANK], count; /* of the logical tensor */
  int64_t block_rows, block_cols, scale_rows, scale_cols;
  int bits, nested_block;
  bool v2, divides, across; /* global divides; HQQ: groups go down the columns */
  bool linear; /* [out, in] whatever the module was: what quantises makes it a Linear */
  float factor, offset; /* of the whole tensor; of nested scales */
} nmb__source;

/* name: "x.weight", or one that is taken as it stands.  *out has t NULL if the file has
 * nothing of that name.  Fails if the parts do not fit each other: then all rows can be
 * read, after nmb__source_ready. */
NMB_API nmb_status nmb__source_open(nmb_run *, const nmb__wfile *,
                                    const nmb__layout_info *, const char *name,
                                    nmb__source *out);
/* Computes what takes a pass over all values; most kinds need none. */
NMB_API void nmb__source_ready(nmb__source *);
/* Row `row` of count / dim[rank - 1] rows. */
NMB_API void nmb__source_row(const nmb__source *, int64_t row, float *out);
/* What the file has of the module "x" if nothing of it is read: ".B, .s", or NULL. */
NMB_API const char *nmb__source_unread(nmb_run *, const nmb__wfile *, const char *name);
#endif
