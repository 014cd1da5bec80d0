/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Offsets of buffers: what the memory planners share. */
#include <string.h>

#include "base/run.h"
#include "ir/lower.h"
#include "nmbench/nmb_plan.h"

static bool
live_together(const nmb_slot *a, const nmb_slot *b)
{
  return a->first <= b->last && b->first <= a->last;
}

/* Slots placed in one memory, by offset. */
typedef struct placed {
  int n;
  int *slot;
} placed;

static int64_t
find_gap(const nmb_slot *slot, const placed *pl, const nmb_slot *want, bool tightest,
         int64_t base)
{
  int64_t at = base, best = -1, best_size = INT64_MAX;
  for (int i = 0; i < pl->n; i++) {
    const nmb_slot *s = &slot[pl->slot[i]];
    if (!live_together(s, want))
      continue;
    const int64_t gap = s->offset - at;
    if (gap >= want->bytes && gap < best_size) {
      best = at;
      best_size = gap;
      if (!tightest)
        return best;
    }
    if (s->offset + s->bytes > at)
      at = s->offset + s->bytes;
  }
  return best >= 0 ? best : at;
}

static void
insert(const nmb_slot *slot, placed *pl, int id)
{
  int at = pl->n++;
  for (; at > 0 && slot[pl->slot[at - 1]].offset > slot[id].offset; at--)
    pl->slot[at] = pl->slot[at - 1];
  pl->slot[at] = id;
}

/* Insertion by merging halves: stable, so that ties keep the order of rows. */
static void
sort(const nmb_slot *slot, int *v, int *tmp, int n,
     bool (*before)(const nmb_slot *, const nmb_slot *))
{
  if (n < 2)
    return;
  const int half = n / 2;
  sort(slot, v, tmp, half, before);
  sort(slot, v + half, tmp, n - half, before);
  memcpy(tmp, v, (size_t)n * sizeof *v);
  for (int i = 0, a = 0, b = half; i < n; i++)
    if (b == n || (a < half && !before(&slot[tmp[b]], &slot[tmp[a]])))
      v[i] = tmp[a++];
    else
      v[i] = tmp[b++];
}

void
nmb_place_fixed(const nmb_prog *p, nmb_slot *slot, int n, int64_t *end, bool *fixed)
{
  int64_t bytes[2] = {0, 0};
  nmb_id mem = NMB_NONE;
  for (int i = 0; i < n; i++) {
    fixed[i] = slot[i].resident;
    if (!slot[i].resident)
      continue;
    slot[i].offset = end[slot[i].mem];
    end[slot[i].mem] += slot[i].bytes;
  }
  for (int i = 0; i < n; i++) {
    const int which = slot[i].resident || slot[i].tensor >= p->ntensor
                          ? NMB_NONE
                          : nmb__hidden_buffer(p, slot[i].tensor, slot[i].mem);
    if (which == NMB_NONE)
      continue;
    fixed[i] = true;
    mem = slot[i].mem;
    slot[i].offset = which;
    if (slot[i].bytes > bytes[which])
      bytes[which] = slot[i].bytes;
  }
  for (int i = 0; i < n; i++)
    if (fixed[i] && !slot[i].resident)
      slot[i].offset = end[mem] + (slot[i].offset ? bytes[0] : 0);
  if (mem != NMB_NONE)
    end[mem] += bytes[0] + bytes[1];
}

void
nmb_place_slots(nmb_run *run, const nmb_prog *p, nmb_slot *slot, int n,
                bool (*before)(const nmb_slot *, const nmb_slot *), bool tightest)
{
  placed *pl = NMB_NEW(run, placed, p->hw->nmem);
  int64_t *base = NMB_NEW(run, int64_t, p->hw->nmem);
  int *order = NMB_NEW(run, int, 2 * n + 1), m = 0;
  bool *done = NMB_NEW(run, bool, n + 1);
  for (int i = 0; i < p->hw->nmem; i++)
    pl[i].slot = NMB_NEW(run, int, n + 1);
  nmb_place_fixed(p, slot, n, base, done);
  for (int i = 0; i < n; i++)
    if (!done[i])
      order[m++] = i;
  sort(slot, order, order + m, m, before);
  for (int i = 0; i < m; i++) {
    nmb_slot *s = &slot[order[i]];
    s->offset = find_gap(slot, &pl[s->mem], s, tightest, base[s->mem]);
    insert(slot, &pl[s->mem], order[i]);
  }
}

/* The largest sum of bytes live at once in memory m. */
static int64_t
most_live(nmb_run *run, const nmb_prog *p, const nmb_slot *slot, int n, nmb_id m)
{
  int64_t *delta = NMB_NEW(run, int64_t, p->nstep + 2), resident = 0, sum = 0, most = 0;
  for (int i = 0; i < n; i++) {
    if (slot[i].mem != m)
      continue;
    if (slot[i].resident)
      resident += slot[i].bytes;
    else {
      delta[slot[i].first] += slot[i].bytes;
      delta[slot[i].last + 1] -= slot[i].bytes;
    }
  }
  for (int s = 0; s < p->nstep; s++) {
    sum += delta[s];
    most = sum > most ? sum : most;
  }
  return resident + most;
}

nmb_status
nmb_slots_write(nmb_run *run, nmb_prog *p, const nmb_slot *slot, int n)
{
  for (nmb_id m = 0; m < p->hw->nmem; m++) {
    const nmb_mem *mem = &p->hw->mem[m];
    int64_t peak = 0;
    for (int i = 0; i < n; i++)
      if (slot[i].mem == m && slot[i].offset + slot[i].bytes > peak)
        peak = slot[i].offset + slot[i].bytes;
    if (peak > mem->bytes)
      return nmb_fail(run, NMB_INFEASIBLE, NMB_NOLOC,
                      "memory %s: %lld bytes needed, %lld available", mem->name,
                      (long long)peak, (long long)mem->bytes);
    nmb_stat(run, nmb_format(run, "peak bytes in %s", mem->name), (double)peak);
    nmb_stat(run, nmb_format(run, "most live bytes in %s", mem->name),
             (double)most_live(run, p, slot, n, m));
  }
  nmb_section_begin(p, NMB_MEMORY);
  for (int i = 0; i < n; i++)
    nmb_slot_add(p, &slot[i]);
  return NMB_OK;
}

nmb_status
nmb_slots_place(nmb_run *run, nmb_prog *p,
                bool (*before)(const nmb_slot *, const nmb_slot *), bool tightest)
{
  nmb_slot *slot;
  int n;
  NMB_TRY(nmb_buffers(run, p, &slot, &n));
  nmb_place_slots(run, p, slot, n, before, tightest);
  return nmb_slots_write(run, p, slot, n);
}
