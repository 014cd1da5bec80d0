/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Collectives: what is done message by message takes what the closed form says, and
 * every device ends with what it should have. */
#include <math.h>
#include <stdio.h>

#include "base/run.h"
#include "nmbench/nmb_collective.h"
#include "tests/unit/unit.h"

static void
test_random(void)
{
  nmb_run *run = nmb__run_open(stderr);
  int had[NMB_NCOLL] = {0};
  for (int i = 0; i < 600; i++) {
    const nmb_collective c = {.kind = (nmb_collective_kind)(i % NMB_NCOLL),
                              .topology = (nmb_topology)(nmb_rand(run) % 3),
                              .multicast = nmb_rand(run) % 2 != 0,
                              .devices = 1 + (int)(nmb_rand(run) % 20),
                              .bytes = 1 + (double)(nmb_rand(run) % 1000000),
                              .bytes_per_s = 3e9,
                              .latency_s = 1e-6 * nmb_uniform(run)};
    double moved, stepped;
    bool right;
    const double closed = nmb_collective_seconds(&c, &moved);
    const bool pieces = c.kind == NMB_COLL_BROADCAST && c.topology == NMB_RING;
    if (pieces) /* only the limit is a closed form */
      continue;
    const double seconds = nmb_collective_step(run, &c, 1, &stepped, &right);
    CU_ASSERT_EQUAL(isnan(closed), isnan(seconds));
    if (isnan(closed))
      continue;
    had[c.kind]++;
    CU_ASSERT_TRUE(right);
    CU_ASSERT_DOUBLE_EQUAL(seconds, closed, 1e-12 + 1e-12 * closed);
    CU_ASSERT_DOUBLE_EQUAL(stepped, moved, 1e-9 * moved);
  }
  for (int k = 0; k < NMB_NCOLL; k++)
    CU_ASSERT_TRUE(had[k] > 20);
  nmb__run_close(run);
}

/* Pieces that follow each other: (pieces + n - 2) rounds of a piece. */
static void
test_ring_broadcast(void)
{
  nmb_run *run = nmb__run_open(stderr);
  const nmb_collective c = {NMB_COLL_BROADCAST, NMB_RING, false, 5, 1e6, 1e9, 0};
  double moved;
  bool right;
  CU_ASSERT_DOUBLE_EQUAL(nmb_collective_step(run, &c, 4, &moved, &right),
                         (4 + 5 - 2) * 0.25e-3, 1e-12);
  CU_ASSERT_TRUE(right);
  CU_ASSERT_DOUBLE_EQUAL(nmb_collective_step(run, &c, 1000, &moved, &right),
                         nmb_collective_seconds(&c, NULL), 0.004e-3);
  CU_ASSERT_DOUBLE_EQUAL(moved, 4e6, 1);
  nmb__run_close(run);
}

static void
test_by_hand(void)
{
  nmb_collective c = {NMB_COLL_ALLREDUCE, NMB_RING, false, 4, 8e6, 1e9, 1e-6};
  double moved;
  /* 6 rounds of a quarter */
  CU_ASSERT_DOUBLE_EQUAL(nmb_collective_seconds(&c, &moved), 6 * (1e-6 + 2e-3), 1e-12);
  CU_ASSERT_DOUBLE_EQUAL(moved, 2 * 3 * 8e6, 1e-3);
  c.topology = NMB_SWITCH;
  CU_ASSERT_DOUBLE_EQUAL(nmb_collective_seconds(&c, NULL), 2e-6 + 12e-3, 1e-12);
  c.topology = NMB_TREE;
  CU_ASSERT_DOUBLE_EQUAL(nmb_collective_seconds(&c, NULL), 4 * (1e-6 + 8e-3), 1e-12);
  c.devices = 1;
  CU_ASSERT_EQUAL(nmb_collective_seconds(&c, &moved), 0);
  CU_ASSERT_EQUAL(moved, 0);
  CU_ASSERT_EQUAL(nmb_collective_find("all-to-all"), NMB_COLL_ALLTOALL);
  CU_ASSERT_EQUAL(nmb_collective_find("all"), NMB_NCOLL);
}

UNIT_MAIN("collective", {"messages take what the closed form says", test_random},
          {"a broadcast in pieces around a ring", test_ring_broadcast},
          {"all-reduce by hand", test_by_hand})
