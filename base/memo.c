/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The shared table; see memo.h. */
#include "config.h" /* first: names outside of C11 */

#include "base/memo.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/run.h"

enum { FREE, CLAIMED, THERE, REACH = 32 /* slots that a key may lie in */ };

/* In shared memory: a header, then the slots. */
typedef struct slot {
  _Atomic uint32_t state;
  uint64_t key[2];
} slot; /* the value follows */

typedef struct shared {
  _Atomic uint64_t found, put;
} shared;

struct nmb__memo {
  size_t mask, value, stride, bytes;
  unsigned char *map;
};

static size_t
rounded(size_t n)
{
  return (n + 15) / 16 * 16;
}

nmb__memo *
nmb__memo_new(size_t slots, size_t value_bytes)
{
  const size_t stride = rounded(sizeof(slot)) + rounded(value_bytes);
  const size_t bytes = rounded(sizeof(shared)) + slots * stride;
  void *map =
      mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED)
    return NULL;
  nmb__memo *m = nmb__xrealloc(NULL, 1, sizeof *m);
  *m = (nmb__memo){slots - 1, value_bytes, stride, bytes, map};
  return m;
}

void
nmb__memo_free(nmb__memo *m)
{
  if (!m)
    return;
  munmap(m->map, m->bytes);
  free(m);
}

static slot *
slot_at(const nmb__memo *m, uint64_t at)
{
  void *p = m->map + rounded(sizeof(shared)) + ((size_t)at & m->mask) * m->stride;
  return p;
}

static unsigned char *
value_of(slot *s)
{
  return (unsigned char *)s + rounded(sizeof *s);
}

bool
nmb__memo_get(const nmb__memo *m, const uint64_t key[2], void *value)
{
  shared *all = (void *)m->map;
  for (uint64_t i = 0; i < REACH; i++) {
    slot *s = slot_at(m, key[0] + i);
    const uint32_t state = atomic_load_explicit(&s->state, memory_order_acquire);
    if (state == FREE)
      return false;
    if (state != THERE || s->key[0] != key[0] || s->key[1] != key[1])
      continue;
    memcpy(value, value_of(s), m->value);
    atomic_fetch_add_explicit(&all->found, 1, memory_order_relaxed);
    return true;
  }
  return false;
}

void
nmb__memo_put(nmb__memo *m, const uint64_t key[2], const void *value)
{
  shared *all = (void *)m->map;
  for (uint64_t i = 0; i < REACH; i++) {
    slot *s = slot_at(m, key[0] + i);
    uint32_t state = FREE;
    if (atomic_compare_exchange_strong(&s->state, &state, CLAIMED)) {
      memcpy(s->key, key, sizeof s->key);
      memcpy(value_of(s), value, m->value);
      atomic_store_explicit(&s->state, THERE, memory_order_release);
      atomic_fetch_add_explicit(&all->put, 1, memory_order_relaxed);
      return;
    }
    if (state == THERE && s->key[0] == key[0] && s->key[1] == key[1])
      return; /* another process was first */
  }
}

void
nmb__memo_counts(const nmb__memo *m, uint64_t *found, uint64_t *put)
{
  shared *all = (void *)m->map;
  *found = atomic_load(&all->found);
  *put = atomic_load(&all->put);
}
