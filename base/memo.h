/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A table that processes share: what one has found, others look up.
 *
 * It is made before the processes are forked and lies in memory that all of them map.
 * Values have one size and are found by a 128-bit hash of all that decides them; once
 * written they never change.  A slot is claimed, filled, then published, so that readers
 * see whole values or none; a process that dies between leaves a slot that nobody uses.
 * A full table takes no more.  What is found does not depend on who put it there, as equal
 * keys have equal values. */
#ifndef NMB__MEMO_H
#define NMB__MEMO_H

#include "nmbench/nmb_base.h"

typedef struct nmb__memo nmb__memo;
/* slots: a power of two.  NULL if the system has no memory to share. */
NMB_API nmb__memo *nmb__memo_new(size_t slots, size_t value_bytes);
NMB_API void nmb__memo_free(nmb__memo *);
NMB_API bool nmb__memo_get(const nmb__memo *, const uint64_t key[2], void *value);
NMB_API void nmb__memo_put(nmb__memo *, const uint64_t key[2], const void *value);
/* How often a value was found, and put, by all processes. */
NMB_API void nmb__memo_counts(const nmb__memo *, uint64_t *found, uint64_t *put);
#endif
