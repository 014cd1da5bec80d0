/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Tiles through a scratchpad: the recurrence against a DMA engine and an engine that are
 * clocked, long runs against single tiles, and the closed form against both. */
#include <math.h>
#include <stdio.h>

#include "base/run.h"
#include "nmbench/nmb_stream.h"
#include "tests/unit/unit.h"

enum { MOST = 60 };
typedef struct tile {
  int load, work, store;
} tile;

static int
below(nmb_run *run, int n)
{
  return (int)(nmb_rand(run) % (uint64_t)n);
}

/* Clock by clock.  The DMA has a list of what to do, in order; the engine takes the
 * tiles in order; counters tell what has happened. */
static int
clocked(const tile *v, int n, int latency, int buffers, int results)
{
  int there[MOST], stored[MOST]; /* clock from which it holds; -1: not yet */
  int worked = 0, left = 0;      /* tiles done; clocks of the one at work */
  int step = 0, busy = 0, of = -1;
  bool storing = false, working = false;
  for (int i = 0; i < n; i++)
    there[i] = stored[i] = -1;
  for (int now = 0;; now++) {
    /* a clock begins: what ends here ends before anything starts */
    if (working && left == 0) {
      working = false;
      worked++;
    }
    if (of >= 0 && busy == 0) {
      if (storing)
        stored[of] = now;
      else
        there[of] = now + latency;
      of = -1;
    }
    {
      /* step 2 i: load i; step 2 i + 1: store i - results */
      while (of < 0 && step < 2 * (n + results)) {
        const int i = step % 2 ? step / 2 - results : step / 2;
        const bool put = step % 2;
        if (i < 0 || i >= n) {
          step++;
          continue;
        }
        if (put && v[i].store == 0) { /* nothing to wait for */
          step++;
          continue;
        }
        if (put ? worked <= i : worked < i - buffers + 1)
          break;
        step++;
        of = i;
        storing = put;
        busy = put ? v[i].store : v[i].load;
      }
      const int w = worked;
      const bool room = w - results < 0 ||
                        (v[w - results].store == 0 ? true : stored[w - results] >= 0);
      const bool free_ = w - buffers < 0 || worked > w - buffers;
      if (!working && w < n && there[w] >= 0 && there[w] <= now && room && free_) {
        working = true;
        left = v[w].work;
      }
    }
    if (worked == n && of < 0 && step >= 2 * (n + results))
      return now;
    if (working)
      left--;
    if (of >= 0)
      busy--;
  }
}

static void
test_clocked(void)
{
  nmb_run *run = nmb__run_open(stderr);
  for (int round = 0; round < 4000; round++) {
    const nmb_tiling t = {below(run, 30), 1 + below(run, 4), 1 + below(run, 3)};
    const int n = 1 + below(run, MOST);
    tile v[MOST];
    nmb_stream s;
    nmb_stream_open(&s, &t);
    double work = 0, dma = 0;
    for (int i = 0; i < n; i++) {
      v[i] = (tile){1 + below(run, 20), 1 + below(run, 20),
                    below(run, 2) ? 0 : below(run, 12)};
      nmb_stream_tiles(&s, 1, v[i].load, v[i].work, v[i].store);
      work += v[i].work;
      dma += v[i].load + v[i].store;
    }
    const double end = nmb_stream_close(&s);
    CU_ASSERT_EQUAL_FATAL(end, clocked(v, n, (int)t.latency, t.buffers, t.results));
    CU_ASSERT_EQUAL(s.busy_work, work);
    CU_ASSERT_EQUAL(s.busy_dma, dma);
    CU_ASSERT_EQUAL(s.tiles, n);
    CU_ASSERT_TRUE(end >= fmax(work, dma));
  }
  nmb__run_close(run);
}

static double
runs(const nmb_tiling *t, const tile *v, const int *n, int kinds, bool single)
{
  nmb_stream s;
  nmb_stream_open(&s, t);
  for (int k = 0; k < kinds; k++)
    for (int i = 0; i < (single ? n[k] : 1); i++)
      nmb_stream_tiles(&s, single ? 1 : n[k], v[k].load, v[k].work, v[k].store);
  return nmb_stream_close(&s);
}

static void
test_long_runs(void)
{
  nmb_run *run = nmb__run_open(stderr);
  for (int round = 0; round < 2000; round++) {
    const nmb_tiling t = {below(run, 50), 1 + below(run, 8), 1 + below(run, 8)};
    tile v[3];
    int n[3];
    for (int k = 0; k < 3; k++) {
      v[k] = (tile){below(run, 20), below(run, 20), below(run, 9)};
      n[k] = 1 + below(run, 400);
    }
    CU_ASSERT_EQUAL_FATAL(runs(&t, v, n, 3, false), runs(&t, v, n, 3, true));
  }
  nmb__run_close(run);
}

/* Without stores, or with one buffer of each kind, the closed form is exact; else it is
 * off by no more than the ends of the run. */
static void
test_closed(void)
{
  nmb_run *run = nmb__run_open(stderr);
  for (int round = 0; round < 4000; round++) {
    const bool single = below(run, 2);
    const int deep = single ? 1 : 2;
    const nmb_tiling t = {below(run, 30), deep, deep};
    const double load = 1 + below(run, 20), work = 1 + below(run, 20);
    const double store = below(run, 2) ? 0 : below(run, 15);
    const int n = 1 + below(run, 500);
    nmb_stream s;
    nmb_stream_open(&s, &t);
    nmb_stream_tiles(&s, n, load, work, store);
    const double step = nmb_stream_close(&s);
    const double closed = nmb_stream_closed(&t, n, load, work, store);
    CU_ASSERT_TRUE(fabs(step - closed) <= 2 * (load + t.latency + work + store));
    if (store <= 0 && (single || work >= load + t.latency || load >= work + t.latency))
      CU_ASSERT_EQUAL(step, closed);
    CU_ASSERT_TRUE(closed >= fmax(n * work, n * (load + store)));
  }
  CU_ASSERT_EQUAL(nmb_stream_closed(&(nmb_tiling){9, 2, 2}, 0, 1, 1, 1), 0);
  nmb__run_close(run);
}

/* By hand: loads of 10 behind work of 30, and single buffers that add up. */
static void
test_overlap(void)
{
  nmb_stream s;
  nmb_stream_open(&s, &(nmb_tiling){5, 2, 2});
  nmb_stream_tiles(&s, 4, 10, 30, 0);
  CU_ASSERT_EQUAL(nmb_stream_close(&s), 10 + 5 + 4 * 30);
  nmb_stream_open(&s, &(nmb_tiling){5, 1, 1});
  nmb_stream_tiles(&s, 4, 10, 30, 0);
  CU_ASSERT_EQUAL(nmb_stream_close(&s), 4 * (10 + 5 + 30));
  nmb_stream_open(&s, &(nmb_tiling){0, 2, 2}); /* more to move than to do */
  nmb_stream_tiles(&s, 100, 10, 3, 4);
  CU_ASSERT_EQUAL(nmb_stream_close(&s), 100 * 14);
}

UNIT_MAIN("stream", {"a stream is what clocked engines do", test_clocked},
          {"long runs take what their tiles take one by one", test_long_runs},
          {"the closed form holds", test_closed},
          {"double buffering hides loads, single buffering adds them", test_overlap})
