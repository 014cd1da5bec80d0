/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Tables of the arena that grow row by row. */
#ifndef NMB__GROW_H
#define NMB__GROW_H

#include <string.h>

#include "nmbench/nmb_base.h"

/* A table with room for row `n`, its first n rows being those of `old`, which may be
 * `old` itself; *cap is how many rows it has room for. */
static inline void *
nmb__grow(nmb_run *run, void *old, int n, int *cap, size_t size)
{
  if (n < *cap)
    return old;
  *cap = *cap ? 2 * *cap : 16;
  void *fresh = nmb_alloc(run, (size_t)*cap, size);
  if (n)
    memcpy(fresh, old, (size_t)n * size);
  return fresh;
}

#endif
