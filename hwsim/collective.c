/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Collectives in closed form and message by message; see nmb_collective.h. */
#include "nmbench/nmb_collective.h"

#include <assert.h>
#include <math.h>
#include <string.h>

nmb_collective_kind
nmb_collective_find(const char *name)
{
  static const char *const names[] = {
#define X(id, text, help) text,
      NMB_COLLECTIVE_MAP(X)
#undef X
  };
  int i = 0;
  while (i < NMB_NCOLL && strcmp(names[i], name))
    i++;
  return (nmb_collective_kind)i;
}

/* ---------------------------------------------------------------- closed form */
static double
half(const nmb_collective *c, double *moved) /* reduce-scatter or all-gather */
{
  const double n = c->devices, part = c->bytes / n;
  *moved = n * (n - 1) * part;
  if (c->topology == NMB_TREE)
    return NAN;
  return c->topology == NMB_RING ? (n - 1) * (c->latency_s + part / c->bytes_per_s)
                                 : c->latency_s + (n - 1) * part / c->bytes_per_s;
}

static double
all_reduce(const nmb_collective *c, double *moved)
{
  const double n = c->devices, rounds = ceil(log2(n));
  if (c->topology != NMB_TREE) {
    const double t = 2 * half(c, moved);
    *moved *= 2;
    return t;
  }
  *moved = 2 * (n - 1) * c->bytes;
  return 2 * rounds * (c->latency_s + c->bytes / c->bytes_per_s);
}

static double
broadcast(const nmb_collective *c, double *moved)
{
  const double n = c->devices, once = c->bytes / c->bytes_per_s;
  *moved = (n - 1) * c->bytes;
  if (c->topology == NMB_RING)
    return (n - 1) * c->latency_s + once;
  if (c->topology == NMB_SWITCH && c->multicast)
    return c->latency_s + once;
  return ceil(log2(n)) * (c->latency_s + once);
}

static double
all_to_all(const nmb_collective *c, double *moved)
{
  const double n = c->devices, part = c->bytes / n;
  if (c->topology == NMB_TREE)
    return NAN;
  *moved = c->topology == NMB_RING ? n * n * (n - 1) / 2 * part : n * (n - 1) * part;
  return c->topology == NMB_RING
             ? (n - 1) * c->latency_s + n * (n - 1) / 2 * part / c->bytes_per_s
             : c->latency_s + (n - 1) * part / c->bytes_per_s;
}

double
nmb_collective_seconds(const nmb_collective *c, double *moved)
{
  double unused;
  assert(c->devices >= 1 && c->bytes >= 0 && c->bytes_per_s > 0);
  moved = moved ? moved : &unused;
  *moved = 0;
  if (c->devices == 1)
    return 0;
  switch (c->kind) {
  case NMB_COLL_ALLREDUCE: return all_reduce(c, moved);
  case NMB_COLL_ALLGATHER:
  case NMB_COLL_REDUCESCATTER: return half(c, moved);
  case NMB_COLL_ALLTOALL: return all_to_all(c, moved);
  default: return broadcast(c, moved);
  }
}

/* ---------------------------------------------------------- message by message */
enum { MAXDEV = 64 };

/* What device d holds of slot s: a bit for each device whose contribution is in it. */
typedef struct state {
  const nmb_collective *c;
  int n, slots;
  double slot_bytes;
  uint64_t *now, *next; /* [n * slots] */
  double send[MAXDEV], recv[MAXDEV];
  double seconds, moved;
} state;

static uint64_t *
cell(const state *s, uint64_t *of, int device, int slot)
{
  return &of[device * s->slots + slot];
}

static void
round_begin(state *s)
{
  memset(s->send, 0, sizeof s->send);
  memset(s->recv, 0, sizeof s->recv);
  memcpy(s->next, s->now, (size_t)(s->n * s->slots) * sizeof *s->now);
}

/* free_: a switch copies the message, the sender's port is not used again. */
static void
message(state *s, int from, int to, int slot, bool free_)
{
  *cell(s, s->next, to, slot) |= *cell(s, s->now, from, slot);
  s->send[from] += free_ ? 0 : s->slot_bytes;
  s->recv[to] += s->slot_bytes;
  s->moved += s->slot_bytes;
}

static void
round_end(state *s)
{
  double most = 0;
  for (int d = 0; d < s->n; d++)
    most = fmax(most, fmax(s->send[d], s->recv[d]));
  s->seconds += s->c->latency_s + most / s->c->bytes_per_s;
  uint64_t *t = s->now;
  s->now = s->next;
  s->next = t;
}

static int
mod(int a, int n)
{
  return (a % n + n) % n;
}

/* Each device passes one slot to the next one: a part of the sum as it grows, and in
 * the second half the finished part that has come last. */
static void
ring_half(state *s, int shift)
{
  for (int r = 0; r < s->n - 1; r++) {
    round_begin(s);
    for (int d = 0; d < s->n; d++)
      message(s, d, mod(d + 1, s->n), mod(d - r + shift, s->n), false);
    round_end(s);
  }
}

static void
switch_scatter(state *s)
{
  round_begin(s);
  for (int d = 0; d < s->n; d++)
    for (int to = 0; to < s->n; to++)
      if (to != d)
        message(s, d, to, to, false);
  round_end(s);
}

static void
switch_gather(state *s)
{
  round_begin(s);
  for (int d = 0; d < s->n; d++)
    for (int to = 0; to < s->n; to++)
      if (to != d)
        message(s, d, to, d, s->c->multicast && to != mod(d + 1, s->n));
  round_end(s);
}

/* Binomial: in round r devices below 2^r have it and send to those 2^r further. */
static void
tree_down(state *s)
{
  for (int reach = 1; reach < s->n; reach *= 2) {
    round_begin(s);
    for (int d = 0; d < reach && d + reach < s->n; d++)
      for (int i = 0; i < s->slots; i++)
        message(s, d, d + reach, i, false);
    round_end(s);
  }
}

static void
tree_up(state *s)
{
  int reach = 1;
  while (reach < s->n)
    reach *= 2;
  for (reach /= 2; reach >= 1; reach /= 2) {
    round_begin(s);
    for (int d = 0; d < reach && d + reach < s->n; d++)
      for (int i = 0; i < s->slots; i++)
        message(s, d + reach, d, i, false);
    round_end(s);
  }
}

/* Piece p leaves device 0 in round p and moves a device a round. */
static void
ring_down(state *s)
{
  for (int r = 0; r < s->slots + s->n - 2; r++) {
    round_begin(s);
    for (int d = 0; d < s->n - 1; d++)
      if (r - d >= 0 && r - d < s->slots)
        message(s, d, d + 1, r - d, false);
    round_end(s);
  }
}

static void
multicast_down(state *s)
{
  round_begin(s);
  for (int to = 1; to < s->n; to++)
    message(s, 0, to, 0, to > 1);
  round_end(s);
}

/* Slot i * n + j goes from i to j; on a ring all that is not there yet moves on. */
static void
exchange(state *s)
{
  const int n = s->n;
  if (s->c->topology == NMB_SWITCH) {
    round_begin(s);
    for (int i = 0; i < n; i++)
      for (int j = 0; j < n; j++)
        if (i != j)
          message(s, i, j, i * n + j, false);
    round_end(s);
    return;
  }
  for (int r = 0; r < n - 1; r++) {
    round_begin(s);
    for (int i = 0; i < n; i++)
      for (int j = 0; j < n; j++)
        if (mod(j - i, n) > r)
          message(s, mod(i + r, n), mod(i + r + 1, n), i * n + j, false);
    round_end(s);
  }
}

static bool
run_rounds(state *s)
{
  const nmb_topology t = s->c->topology;
  switch (s->c->kind) {
  case NMB_COLL_ALLREDUCE:
    if (t == NMB_TREE) {
      tree_up(s);
      tree_down(s);
    } else if (t == NMB_RING) {
      ring_half(s, 0);
      ring_half(s, 1);
    } else {
      switch_scatter(s);
      switch_gather(s);
    }
    return true;
  case NMB_COLL_ALLGATHER:
    if (t == NMB_RING)
      ring_half(s, 0);
    else
      switch_gather(s);
    return t != NMB_TREE;
  case NMB_COLL_REDUCESCATTER:
    if (t == NMB_RING)
      ring_half(s, 0);
    else
      switch_scatter(s);
    return t != NMB_TREE;
  case NMB_COLL_ALLTOALL: exchange(s); return t != NMB_TREE;
  default:
    if (t == NMB_RING)
      ring_down(s);
    else if (t == NMB_SWITCH && s->c->multicast)
      multicast_down(s);
    else
      tree_down(s);
    return true;
  }
}

/* Slots at the start, and what must be where at the end: `want` in at least one slot
 * per device that is asked for. */
static uint64_t
at_start(const state *s, int device, int slot)
{
  switch (s->c->kind) {
  case NMB_COLL_ALLGATHER: return device == slot ? UINT64_C(1) << device : 0;
  case NMB_COLL_BROADCAST: return device == 0 ? 1 : 0;
  case NMB_COLL_ALLTOALL: return slot / s->n == device ? UINT64_C(1) << device : 0;
  default: return UINT64_C(1) << device;
  }
}

static bool
at_end(const state *s, int device, int slot)
{
  const uint64_t have = *cell(s, s->now, device, slot);
  const uint64_t all = s->n == 64 ? UINT64_MAX : (UINT64_C(1) << s->n) - 1;
  switch (s->c->kind) {
  case NMB_COLL_ALLREDUCE: return have == all;
  case NMB_COLL_ALLGATHER: return have == UINT64_C(1) << slot;
  case NMB_COLL_BROADCAST: return have == 1;
  case NMB_COLL_ALLTOALL:
    return slot % s->n != device || have == UINT64_C(1) << (slot / s->n);
  default: /* a ring leaves the part of device d + 1 with device d */
    return slot != (s->c->topology == NMB_RING ? mod(device + 1, s->n) : device) ||
           have == all;
  }
}

double
nmb_collective_step(nmb_run *run, const nmb_collective *c, int pieces, double *moved,
                    bool *right)
{
  const int n = c->devices;
  assert(n >= 1 && n <= MAXDEV && pieces >= 1);
  state s = {.c = c, .n = n, .slots = n};
  if (c->kind == NMB_COLL_ALLTOALL)
    s.slots = n * n;
  if (c->kind == NMB_COLL_BROADCAST)
    s.slots = c->topology == NMB_RING ? pieces : 1;
  s.slot_bytes = c->bytes / (c->kind == NMB_COLL_BROADCAST ? s.slots : n);
  s.now = NMB_NEW(run, uint64_t, n * s.slots);
  s.next = NMB_NEW(run, uint64_t, n * s.slots);
  for (int d = 0; d < n; d++)
    for (int i = 0; i < s.slots; i++)
      *cell(&s, s.now, d, i) = at_start(&s, d, i);
  *moved = 0;
  *right = true;
  if (n == 1)
    return 0;
  if (!run_rounds(&s))
    return NAN;
  for (int d = 0; d < n; d++)
    for (int i = 0; i < s.slots; i++)
      *right &= at_end(&s, d, i);
  *moved = s.moved;
  return s.seconds;
}
