/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Memory planners, schedulers and the emitter. */
#include "ir/census.h"
#include "nmbench/nmb_plan.h"
#include "tests/unit/fixture.h"
#include "tests/unit/unit.h"

static bool
earlier(const nmb_slot *a, const nmb_slot *b)
{
  return a->first < b->first;
}

static bool
larger(const nmb_slot *a, const nmb_slot *b)
{
  return a->bytes > b->bytes;
}

static int
uniform(nmb_run *run, int lo, int hi)
{
  return lo + (int)(nmb_rand(run) % (uint64_t)(hi - lo + 1));
}

/* Random live ranges in two memories, a few of them resident. */
static nmb_slot *
random_slots(nmb_run *run, int n, int steps)
{
  nmb_slot *s = NMB_NEW(run, nmb_slot, n);
  for (int i = 0; i < n; i++) {
    s[i].tensor = i;
    s[i].mem = uniform(run, 0, 1);
    s[i].bytes = 32 * uniform(run, 1, 50);
    s[i].resident = uniform(run, 0, 9) == 0;
    s[i].first = s[i].resident ? NMB_NONE : uniform(run, 0, steps - 1);
    s[i].last = s[i].resident ? NMB_NONE : uniform(run, s[i].first, steps - 1);
  }
  return s;
}

static bool
clash(const nmb_slot *a, const nmb_slot *b)
{
  const bool together =
      a->resident || b->resident || (a->first <= b->last && b->first <= a->last);
  return together && a->mem == b->mem && a->offset < b->offset + b->bytes &&
         b->offset < a->offset + a->bytes;
}

static void
check_plan(const nmb_slot *s, int n, int steps)
{
  for (nmb_id m = 0; m < 2; m++) {
    int64_t peak = 0, sum = 0, most = 0;
    for (int i = 0; i < n; i++)
      if (s[i].mem == m) {
        sum += s[i].bytes;
        peak = s[i].offset + s[i].bytes > peak ? s[i].offset + s[i].bytes : peak;
      }
    for (int t = 0; t < steps; t++) {
      int64_t live = 0;
      for (int i = 0; i < n; i++)
        if (s[i].mem == m && (s[i].resident || (s[i].first <= t && t <= s[i].last)))
          live += s[i].bytes;
      most = live > most ? live : most;
    }
    CU_ASSERT(most <= peak && peak <= sum);
  }
}

static void
test_no_overlap(void)
{
  nmb_run *run = nmb__run_open(NULL);
  nmb_prog *p = nmb_prog_new("none", (nmb_step_spec){NMB_DECODE, 1, 1, 0});
  nmb_prog_set_hw(p, &fixture_hw);
  nmb__run_seed(run, 17);
  for (int round = 0; round < 200; round++) {
    const int n = uniform(run, 1, 60), steps = uniform(run, 1, 30);
    nmb_slot *s = random_slots(run, n, steps);
    for (int how = 0; how < 4; how++) {
      nmb_place_slots(run, p, s, n, how & 1 ? larger : earlier, how > 1);
      int bad = 0;
      for (int i = 0; i < n; i++)
        for (int j = 0; j < i; j++)
          bad += clash(&s[i], &s[j]);
      CU_ASSERT_EQUAL(bad, 0);
      check_plan(s, n, steps);
    }
  }
  nmb_prog_free(p);
  nmb__run_close(run);
}

/* Holes of 96 and of 64 bytes when 64 are wanted. */
static void
test_gaps(void)
{
  nmb_run *run = nmb__run_open(NULL);
  nmb_prog *p = nmb_prog_new("none", (nmb_step_spec){NMB_DECODE, 1, 1, 0});
  nmb_prog_set_hw(p, &fixture_hw);
  nmb_slot s[6] = {
      {.bytes = 96, .first = 0, .last = 0}, {.bytes = 32, .first = 0, .last = 9},
      {.bytes = 64, .first = 0, .last = 0}, {.bytes = 32, .first = 0, .last = 9},
      {.bytes = 64, .first = 1, .last = 2}, {.bytes = 96, .first = 2, .last = 2}};
  nmb_place_slots(run, p, s, 6, earlier, false);
  CU_ASSERT(s[4].offset == 0 && s[5].offset == 224);
  nmb_place_slots(run, p, s, 6, earlier, true);
  CU_ASSERT(s[4].offset == 128 && s[5].offset == 0);
  nmb_prog_free(p);
  nmb__run_close(run);
}

static int64_t
peak(const nmb_prog *p, nmb_id mem)
{
  int64_t top = 0;
  for (int i = 0; i < p->nslot; i++)
    if (p->slot[i].mem == mem && p->slot[i].offset + p->slot[i].bytes > top)
      top = p->slot[i].offset + p->slot[i].bytes;
  return top;
}

/* Attention's products and experts in memory, the rest on the host. */
static nmb_prog *
compiled(nmb_run *run, const char *sched, const char *mem, const char *emit)
{
  nmb_prog *p = fixture_prog();
  CU_ASSERT_EQUAL_FATAL(fixture_compile(run, p, "fuse-none"), NMB_OK);
  nmb_section_begin(p, NMB_DISPATCH);
  for (int k = 0; k < p->nkernel; k++) {
    const nmb_opcode c = p->op[p->kernel[k].op[0]].code;
    const bool pim = c == NMB_OP_QK || c == NMB_OP_PV || c == NMB_OP_GLINEAR;
    nmb_dispatch_set(p, k, pim ? FIXTURE_PIM : FIXTURE_HOST);
  }
  const char *passes = nmb_format(run, "map-rowmajor,%s,%s%s", sched, mem, emit);
  const nmb_status st = fixture_compile(run, p, passes); /* the verifier looks on */
  if (st != NMB_OK)
    printf("\n  %s\n", nmb_error_text(run));
  CU_ASSERT_EQUAL_FATAL(st, NMB_OK);
  return p;
}

static void
test_planners(void)
{
  static const char *const name[] = {"mem-firstfit", "mem-bestfit", "mem-greedy-size"};
  nmb_run *run = nmb__run_open(NULL);
  nmb_prog *bump = compiled(run, "sched-list", "mem-bump", "");
  for (int i = 0; i < 3; i++) {
    nmb_prog *p = compiled(run, "sched-list", name[i], "");
    CU_ASSERT(peak(p, FIXTURE_HBM) < peak(bump, FIXTURE_HBM));
    CU_ASSERT_EQUAL(p->nslot, bump->nslot);
    nmb_prog_free(p);
  }
  nmb_prog_free(bump);
  nmb__run_close(run);
}

static void
test_too_small(void)
{
  nmb_mem mem[FIXTURE_NMEM];
  memcpy(mem, fixture_mem, sizeof mem);
  mem[FIXTURE_HBM].bytes = 1000;
  nmb_hw hw = fixture_hw;
  hw.mem = mem;
  nmb_run *run = nmb__run_open(NULL);
  nmb_prog *p = compiled(run, "sched-list", "mem-bump", "");
  nmb_prog_set_hw(p, &hw);
  const int64_t needed = peak(p, FIXTURE_HBM);
  CU_ASSERT_EQUAL(nmb_slots_write(run, p, p->slot, p->nslot), NMB_INFEASIBLE);
  CU_ASSERT_STRING_EQUAL(nmb_error_text(run),
                         nmb_format(run, "memory hbm: %lld bytes needed, 1000 available",
                                    (long long)needed));
  nmb_prog_free(p);
  nmb__run_close(run);
}

/* ---------------------------------------------------------------- schedules */
static void
test_list(void)
{
  nmb_run *run = nmb__run_open(NULL);
  nmb_prog *p = compiled(run, "sched-inorder", "mem-bump", "");
  nmb_step *step;
  double serial, list;
  const int n = nmb_block_steps(run, p, 1, &step);
  CU_ASSERT_EQUAL(nmb_schedule_serial(run, p, step, n, &serial), NMB_OK);
  for (int i = 1; i < n; i++)
    CU_ASSERT(step[i].start_ps >= step[i - 1].start_ps + step[i - 1].duration_ps);
  CU_ASSERT_EQUAL(nmb_schedule_list(run, p, step, n, &list), NMB_OK);
  CU_ASSERT(list < serial);
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++)
      if (nmb_parts_depend(p, &step[i], &step[j]))
        CU_ASSERT(i < j && step[j].start_ps >= step[i].start_ps + step[i].duration_ps);
  nmb_prog_free(p);
  nmb__run_close(run);
}

static void
test_overlap(void)
{
  static const char *const how[] = {"sched-overlap{mode=batch}",
                                    "sched-overlap{mode=head,head-groups=3}"};
  nmb_run *run = nmb__run_open(NULL);
  nmb_prog *plain = compiled(run, "sched-list", "mem-bestfit", ",emit-queues");
  nmb__census a, b;
  nmb__code_census(run, plain, &a);
  for (int i = 0; i < 2; i++) {
    nmb_prog *p = compiled(run, how[i], "mem-bestfit", ",emit-queues");
    CU_ASSERT(p->nstep > plain->nstep);
    nmb__code_census(run, p, &b);
    CU_ASSERT_EQUAL(a.macs, b.macs);
    CU_ASSERT_EQUAL(a.weight_bytes_once, b.weight_bytes_once);
    CU_ASSERT_EQUAL(a.kv_bytes_read_once, b.kv_bytes_read_once);
    CU_ASSERT_EQUAL(a.kv_bytes_written_once, b.kv_bytes_written_once);
    if (i == 0) { /* each group of sequences reads the weights again */
      CU_ASSERT(b.weight_bytes_moved > a.weight_bytes_moved);
    } else { /* heads have weights of their own */
      CU_ASSERT_EQUAL(b.weight_bytes_moved, a.weight_bytes_moved);
    }
    nmb_prog_free(p);
  }
  nmb_prog_free(plain);
  nmb__run_close(run);
}

/* ------------------------------------------------------------------ emission */
static void
test_waits(void)
{
  nmb_run *run = nmb__run_open(NULL);
  nmb_prog *p = compiled(run, "sched-list", "mem-firstfit", ",emit-queues");
  int waits = 0, copies = 0;
  for (int i = 0; i < p->ninsn; i++) {
    const nmb_insn *in = &p->insn[i];
    bool seen[FIXTURE_NENGINE] = {0};
    copies += in->kind == NMB_INSN_COPY;
    for (int w = 0; w < in->nwait; w++, waits++) {
      const nmb_id q = p->insn[in->wait[w]].engine;
      CU_ASSERT(in->wait[w] < i && q != in->engine &&
                !seen[q]); /* one of each other queue */
      seen[q] = true;
      if (q == FIXTURE_PIM)
        CU_ASSERT_EQUAL(p->insn[in->wait[w]].kind, NMB_INSN_SYNC);
    }
  }
  CU_ASSERT(copies > 0 && waits >= copies);
  for (int i = 0; i < p->ninsn; i++) /* nothing moves twice */
    for (int j = 0; j < i; j++)
      if (p->insn[i].kind == NMB_INSN_COPY && p->insn[i].block == p->insn[j].block)
        CU_ASSERT_FALSE(nmb_moves_equal(&p->insn[i], &p->insn[j]));
  nmb_prog_free(p);
  nmb__run_close(run);
}

UNIT_MAIN("emit", {"no planner lets live buffers overlap", test_no_overlap},
          {"first fit takes the lowest gap, best fit the smallest", test_gaps},
          {"reuse lowers the peak", test_planners},
          {"a memory that is too small is named", test_too_small},
          {"list scheduling keeps dependences and gains", test_list},
          {"parts conserve work and show what is read again", test_overlap},
          {"waits are few and say what is needed", test_waits})
