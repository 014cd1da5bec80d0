/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Stored numbers of weight files, and their exact values as floats. */
#ifndef NMB__STORAGE_H
#define NMB__STORAGE_H

#include "nmbench/nmb_ir.h"

typedef enum nmb__storage {
#define X(id, name, elems, bytes, decoder, gguf, st, dtype, group) NMB__ST_##id,
#include "ir/storage.def"
#undef X
  NMB__NSTORAGE
} nmb__storage;

typedef struct nmb__storage_info {
  const char *name;
  int elems, bytes;                                       /* of a block */
  void (*decode)(const uint8_t *, int64_t n, float *out); /* n blocks */
  int gguf;                                               /* -1: not in GGUF files */
  const char *safetensors;                                /* "": not in such files */
  nmb_dtype dtype; /* of a program that holds it */
  int group;
} nmb__storage_info;

NMB_API const nmb__storage_info *nmb__storage_get(nmb__storage);
/* NMB_NONE if there is none. */
NMB_API int nmb__storage_gguf(uint32_t type);
NMB_API int nmb__storage_safetensors(const char *dtype);

/* The stored block that the format is, byte for byte; NMB_NONE: a format of our own. */
NMB_API int nmb__storage_native(nmb_dtype);

/* Little-endian integers, wherever they lie. */
NMB_API uint16_t nmb__le16(const uint8_t *);
NMB_API uint32_t nmb__le32(const uint8_t *);
NMB_API uint64_t nmb__le64(const uint8_t *);
NMB_API float nmb__lefloat(const uint8_t *);
#endif
