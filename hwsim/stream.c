/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Tiles through a scratchpad in closed form and one by one; see nmb_stream.h.
 *
 * The recurrence is linear in (max, +): after some tiles alike each period of `span`
 * tiles moves the whole state by the same time, which is how long runs are skipped. */
#include "nmbench/nmb_stream.h"

#include <assert.h>
#include <math.h>

double
nmb_stream_closed(const nmb_tiling *t, double n, double load, double work, double store)
{
  if (n < 1)
    return 0;
  const double latency = load > 0 ? t->latency : 0;
  double period = fmax(work, load + store);
  period = fmax(period, (load + latency + work) / t->buffers);
  period = fmax(period, (load + store + work) / t->results);
  return load + latency + work + (n - 1) * period + store;
}

void
nmb_stream_open(nmb_stream *s, const nmb_tiling *t)
{
  assert(t->buffers >= 1 && t->buffers <= NMB_STREAM_DEEP && t->results >= 1 &&
         t->results <= NMB_STREAM_DEEP && t->latency >= 0);
  *s = (nmb_stream){.t = *t};
}

/* The ring entry of the tile `back` before the next one. */
static int
ago(const nmb_stream *s, int back)
{
  return (s->at - back + 2 * NMB_STREAM_DEEP) % NMB_STREAM_DEEP;
}

static void
take_away(nmb_stream *s, int i)
{
  if (s->store[i] > 0) {
    s->dma = fmax(s->dma, s->done[i]) + s->store[i];
    s->stored[i] = s->dma;
    s->busy_dma += s->store[i];
  } else {
    s->stored[i] = s->done[i];
  }
  s->store[i] = 0;
}

static void
one(nmb_stream *s, double load, double work, double store)
{
  const int freed = ago(s, s->t.buffers), kept = ago(s, s->t.results), i = s->at;
  double there = s->done[freed];
  if (load > 0) {
    s->dma = fmax(s->dma, s->done[freed]) + load;
    there = s->dma + s->t.latency;
    s->busy_dma += load;
  }
  take_away(s, kept);
  const double start = fmax(fmax(s->work, there), s->stored[kept]);
  s->work = start + work;
  s->busy_work += work;
  s->done[i] = s->work;
  s->store[i] = store;
  s->at = (s->at + 1) % NMB_STREAM_DEEP;
  s->tiles++;
}

/* ---------------------------------------------------------- what repeats itself */
static void
move(nmb_stream *s, double by)
{
  s->dma += by;
  s->work += by;
  for (int i = 0; i < NMB_STREAM_DEEP; i++) {
    s->done[i] += by;
    s->stored[i] += by;
  }
}

static bool
same_time(double a, double b, double scale)
{
  return fabs(a - b) <= 1e-12 * scale;
}

/* Is `b` the state `a`, later?  Of the rings only the entries that are still looked at
 * count. */
static bool
repeats(const nmb_stream *a, const nmb_stream *b, double *by)
{
  const double far = fabs(b->work) + fabs(b->dma);
  const int deep = b->t.buffers > b->t.results ? b->t.buffers : b->t.results;
  *by = b->work - a->work;
  if (!same_time(b->dma - a->dma, *by, far))
    return false;
  for (int k = 1; k <= deep; k++) {
    const int i = ago(a, k), j = ago(b, k);
    if (!same_time(b->done[j] - a->done[i], *by, far) || b->store[j] < a->store[i] ||
        b->store[j] > a->store[i])
      return false;
    if (b->store[j] <= 0 && !same_time(b->stored[j] - a->stored[i], *by, far))
      return false;
  }
  return true;
}

void
nmb_stream_tiles(nmb_stream *s, double n, double load, double work, double store)
{
  const int span = s->t.buffers * s->t.results;
  while (n >= 1) {
    const nmb_stream before = *s;
    double by;
    for (int k = 0; k < span && n >= 1; k++, n--)
      one(s, load, work, store);
    const double times = floor(n / span);
    if (times < 1 || !repeats(&before, s, &by))
      continue;
    move(s, times * by);
    s->tiles += times * span;
    s->busy_dma += times * span * (load + store);
    s->busy_work += times * span * work;
    n -= times * span; /* the rings turn relative to `at`: it may stay */
  }
}

double
nmb_stream_close(nmb_stream *s)
{
  for (int k = s->t.results; k >= 1; k--)
    take_away(s, ago(s, k));
  return fmax(s->dma, s->work);
}
