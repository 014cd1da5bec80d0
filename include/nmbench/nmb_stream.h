/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Tiles that go through a scratchpad: one DMA engine brings a tile's operands and takes
 * its results away, while the engine works on the tile before.
 *
 * A tile is loaded, worked on, stored.  The scratchpad has room for the operands of
 * `buffers` tiles and for the results of `results` tiles, 1 of each being single
 * buffering.  Hence tile i
 *   is loaded once the DMA is free and tile i - buffers is done; its data is there
 *             `latency` after the last byte was asked for, which does not hold up the
 *             DMA;
 *   is worked on once it is there, tile i - 1 is done and tile i - results is stored;
 *   is stored once it is done.
 * The DMA serves in a fixed order: load i, then store i - results.
 * Times are in any one unit, cycles or seconds. */
#ifndef NMB_STREAM_H
#define NMB_STREAM_H

#include "nmbench/nmb_base.h"

#ifdef __cplusplus
extern "C" {
#endif

#define NMB_STREAM_DEEP 8 /* most buffers */

typedef struct nmb_tiling {
  double latency;       /* 0..; of tiles whose load is not 0 */
  int buffers, results; /* 1..NMB_STREAM_DEEP */
} nmb_tiling;

/* Closed form of n alike tiles; also a good estimate with the means of tiles that are
 * not: load + latency + work + (n - 1) period + store, period = max(work, load + store,
 * (load + latency + work) / buffers, (load + store + work) / results). Exact where one of
 * work and load + store holds up all others; never off by more than the stores of a few
 * tiles and the latency.  n: 0 or more. */
NMB_API double nmb_stream_closed(const nmb_tiling *, double n, double load, double work,
                                 double store);

/* Tile by tile. */
typedef struct nmb_stream {
  nmb_tiling t;
  double dma, work; /* when each is free */
  double done[NMB_STREAM_DEEP], stored[NMB_STREAM_DEEP], store[NMB_STREAM_DEEP];
  double tiles, busy_dma, busy_work;
  int at; /* place of the next tile in the rings */
} nmb_stream;
NMB_API void nmb_stream_open(nmb_stream *, const nmb_tiling *);
/* n tiles alike, after those before.  Once their pattern repeats, the rest is advanced
 * in one step with the same result. */
NMB_API void nmb_stream_tiles(nmb_stream *, double n, double load, double work,
                              double store);
/* Stores what is left, and gives the end of all. */
NMB_API double nmb_stream_close(nmb_stream *);

#ifdef __cplusplus
}
#endif
#endif
