/* SPDX-License-Identifier: GPL-3.0-or-later */
/* 64-bit hashes (XXH3), the same on every machine of one byte order. */
#ifndef NMB__HASH_H
#define NMB__HASH_H

#include "nmbench/nmb_base.h"

NMB_API uint64_t nmb__hash(const void *data, size_t bytes);
NMB_API void nmb__hash128(const void *data, size_t bytes, uint64_t out[2]);

/* Streaming: the hash of all pieces is that of the whole. */
typedef struct nmb__hasher nmb__hasher;
NMB_API nmb__hasher *nmb__hash_begin(void);
NMB_API void nmb__hash_add(nmb__hasher *, const void *data, size_t bytes);
NMB_API uint64_t nmb__hash_end(nmb__hasher *); /* frees it */
#endif
