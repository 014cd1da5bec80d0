/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Collectives among n devices: rounds of messages, and their time in closed form.
 *
 * A round takes the latency and the time of the busiest port, sending and receiving at
 * once.  Bytes: all-reduce, reduce-scatter, broadcast: the vector that each device has
 * (gets); all-gather: the whole result; all-to-all: all that one device sends, its own
 * part included.  With P = bytes / n and L = ceil(log2 n):
 *
 *                    ring                    switch                  tree (binomial)
 *   reduce-scatter   (n-1) (a + P/b)         a + (n-1) P/b           -
 *   all-gather       (n-1) (a + P/b)         a + (n-1) P/b           -
 *   all-reduce       both, one after the other                       2 L (a + bytes/b)
 *   broadcast        (n-1) a + bytes/b *     L (a + bytes/b),        L (a + bytes/b)
 *                                            multicast: a + bytes/b
 *   all-to-all       (n-1) a + n (n-1)/2 P/b a + (n-1) P/b           -
 *   * cut into pieces that follow each other; the limit of many pieces
 * (Thakur et al., IJHPCA 2005; Chan et al., CCPE 2007.) */
#ifndef NMB_COLLECTIVE_H
#define NMB_COLLECTIVE_H

#include "nmbench/nmb_base.h"

#ifdef __cplusplus
extern "C" {
#endif

#define NMB_COLLECTIVE_MAP(X)                                                            \
  X(ALLREDUCE, "all-reduce", "every device gets the sum")                                \
  X(ALLGATHER, "all-gather", "every device gets all parts")                              \
  X(REDUCESCATTER, "reduce-scatter", "every device gets its part of the sum")            \
  X(ALLTOALL, "all-to-all", "every device sends a part to every other")                  \
  X(BROADCAST, "broadcast", "one device's vector reaches all")
typedef enum nmb_collective_kind {
#define X(id, name, help) NMB_COLL_##id,
  NMB_COLLECTIVE_MAP(X)
#undef X
      NMB_NCOLL
} nmb_collective_kind;
typedef enum nmb_topology { NMB_RING, NMB_SWITCH, NMB_TREE } nmb_topology;

typedef struct nmb_collective {
  nmb_collective_kind kind;
  nmb_topology topology;
  bool multicast; /* of a switch: one message may reach all */
  int devices;    /* 1 or more */
  double bytes;
  double bytes_per_s; /* of a port, one direction */
  double latency_s;   /* of a round */
} nmb_collective;

NMB_API nmb_collective_kind nmb_collective_find(const char *name); /* NMB_NCOLL: none */
/* Seconds; NaN if the topology has no such collective.  moved: bytes over all hops. */
NMB_API double nmb_collective_seconds(const nmb_collective *, double *moved);
/* The same by doing it: messages are sent round by round, and afterwards every device
 * must hold what it should.  pieces: for broadcast on a ring.  At most 64 devices.
 * right: does every device hold what it should?  NaN as above. */
NMB_API double nmb_collective_step(nmb_run *, const nmb_collective *, int pieces,
                                   double *moved, bool *right);

#ifdef __cplusplus
}
#endif
#endif
