/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Hashes by xxHash: fast enough to hash every section around every pass. */
#include "base/hash.h"

#include <stdlib.h>

#include <xxhash.h>

#include "base/run.h"

uint64_t
nmb__hash(const void *data, size_t bytes)
{
  return XXH3_64bits(data, bytes);
}

void
nmb__hash128(const void *data, size_t bytes, uint64_t out[2])
{
  const XXH128_hash_t h = XXH3_128bits(data, bytes);
  out[0] = h.low64;
  out[1] = h.high64;
}

struct nmb__hasher {
  XXH3_state_t *state;
};

nmb__hasher *
nmb__hash_begin(void)
{
  nmb__hasher *h = nmb__xrealloc(NULL, 1, sizeof *h);
  h->state = XXH3_createState();
  if (!h->state)
    nmb__panic("out of memory: hash state");
  XXH3_64bits_reset(h->state);
  return h;
}

void
nmb__hash_add(nmb__hasher *h, const void *data, size_t bytes)
{
  XXH3_64bits_update(h->state, data, bytes);
}

uint64_t
nmb__hash_end(nmb__hasher *h)
{
  const uint64_t value = XXH3_64bits_digest(h->state);
  XXH3_freeState(h->state);
  free(h);
  return value;
}
