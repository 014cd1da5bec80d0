/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Files as memory, and what a path is. */
#ifndef NMB__MAP_H
#define NMB__MAP_H

#include "nmbench/nmb_base.h"

/* The bytes of an ordinary file that is not empty, read only, until nmb__unmap. */
NMB_API nmb_status nmb__map(nmb_run *, const char *path, const uint8_t **at, size_t *n);
NMB_API void nmb__unmap(const uint8_t *at, size_t n);
NMB_API bool nmb__is_file(const char *path);
NMB_API bool nmb__is_folder(const char *path);
#endif
