/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Faults planted in plans and code are refused by the verifier or change the values.
 *
 *   mutants [SEED [EACH]]   EACH: faults of each kind for each subject
 *
 * Subjects have layouts in banks, blocks with scales, collectives, state updates in memory,
 * picked keys, scratchpads and buffers in stacks among them.
 * Each mutant is a copy of a compiled program with one fault.  Of those that the verifier
 * lets pass, executing has to catch 99 of 100; the others are listed. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/path.h"
#include "base/plugin.h"
#include "base/run.h"
#include "frontend/model.h"
#include "ir/machine.h"
#include "ir/pipeline.h"
#include "ir/values.h"

typedef struct subject {
  const char *model, *machine, *passes;
} subject;
#define REWRITE "legalize,mla-absorb,moe-lower,"
static const subject subjects[] = {
    {"llama", "aim-gddr6", REWRITE "fuse-dp,dispatch-rule,map-interleave,sched-overlap,mem-bestfit,emit-queues"},
    {"mixtral", "hbm3-attacc-x1", REWRITE "fuse-greedy,dispatch-cost,map-rowmajor,sched-list,mem-firstfit,emit-queues"},
    {"mixtral", "aim-gddr6-x8", REWRITE "fuse-none,dispatch-rule,map-interleave,sched-inorder,mem-bestfit,emit-queues"},
    {"deepseek_v2_lite", "npu-hbm-pim", REWRITE "quantize{weights=int4,group=32},fuse-epilogue,dispatch-host,map-rowmajor,sched-overlap,mem-greedy-size,emit-queues"},
    {"mamba2", "gpu-a100-pimba", REWRITE "fuse-none,dispatch-cost,map-rowmajor,sched-inorder,mem-firstfit,emit-queues"},
    {"../tiny-llama", "gpu-a100", REWRITE "quantize{kv=mx8},fuse-dp,dispatch-rule,map-interleave,sched-list,mem-bestfit,emit-queues"},
    {"deepseek_v32", "aim-gddr6-x8", REWRITE "fuse-greedy,dispatch-cost,map-interleave,sched-overlap,mem-bestfit,emit-queues"},
    {"qwen3", "upmem", REWRITE "quantize{weights=int8,group=16},fuse-none,dispatch-cost,map-rowmajor,sched-inorder,mem-bump,emit-queues"},
    {"gpt_oss", "gpu-a100-x2", REWRITE "quantize{weights=mxfp4},fuse-dp,dispatch-cost,map-rowmajor,sched-overlap,mem-bestfit,emit-queues"},
    {"llama", "hbm3-attacc-stack+buffer", REWRITE "quantize{weights=nvfp4},fuse-dp,dispatch-rule,map-interleave,sched-overlap{mode=head},mem-firstfit,emit-queues"},
};
enum { NSUBJECT = sizeof subjects / sizeof *subjects, EACH = 8 };

typedef struct dice {
  nmb_run *run;
  nmb_prog *p;
  const char **what; /* what was changed, for people */
} dice;

static int
roll(const dice *d, int n)
{
  return n > 0 ? (int)(nmb_rand(d->run) % (uint64_t)n) : 0;
}

static nmb_insn *
any_insn(const dice *d, bool exec)
{
  for (int tries = 0; tries < 1000; tries++) {
    const nmb_id id = roll(d, d->p->ninsn);
    nmb_insn *in = (nmb_insn *)(uintptr_t)&d->p->insn[id];
    if (in->nopnd > 0 && (!exec || in->kind == NMB_INSN_EXEC)) {
      const nmb_id t = in->op == NMB_NONE ? in->opnd[0].tensor : d->p->op[in->op].out[0];
      *d->what = nmb_format(d->run, "instruction %d (%s, %%%s)", (int)id,
                            d->p->hw->engine[in->engine].name, d->p->tensor[t].name);
      return in;
    }
  }
  return NULL;
}

static nmb_operand *
any_operand(const dice *d)
{
  nmb_insn *in = any_insn(d, false);
  return in ? &in->opnd[roll(d, in->nopnd)] : NULL;
}

/* ------------------------------------------------------------------- faults */
static bool
swap_addresses(const dice *d)
{
  nmb_operand *a = any_operand(d);
  for (int tries = 0; a && tries < 200; tries++) {
    nmb_operand *b = any_operand(d);
    if (b && b->slot == a->slot && b->offset != a->offset) {
      const int64_t at = a->offset;
      a->offset = b->offset;
      b->offset = at;
      return true;
    }
  }
  return false;
}

static bool
shift_operand(const dice *d)
{
  nmb_operand *o = any_operand(d);
  if (!o)
    return false;
  const int64_t by = (roll(d, 2) ? 1 : -1) * (roll(d, 2) ? 2 : o->row_bytes);
  o->offset += by;
  *d->what = nmb_format(d->run, "%s, operand %%%s by %d: %d rows of %d", *d->what,
                        d->p->tensor[o->tensor].name, (int)by, (int)o->rows,
                        (int)o->row_bytes);
  return true;
}

/* Scales lie with the codes of their row: those of the row before or behind, or what
 * stands where they should. */
static bool
other_scales(const dice *d)
{
  for (int tries = 0; tries < 1000; tries++) {
    nmb_operand *o = any_operand(d);
    const nmb_tensor *t = o ? &d->p->tensor[o->tensor] : NULL;
    const int bits = t ? nmb_dtype_get(t->dtype)->scale_bits : 0;
    if (!bits || t->role != NMB_ROLE_WEIGHT || o->write)
      continue;
    o->offset += (roll(d, 2) ? 1 : -1) * (roll(d, 2) ? bits / 8 : o->stride);
    return true;
  }
  return false;
}

static bool
stretch_rows(const dice *d)
{
  nmb_operand *o = any_operand(d);
  if (!o || o->rows < 2)
    return false;
  o->stride += roll(d, 2) ? 2 : -2;
  return true;
}

static bool
drop_wait(const dice *d)
{
  for (int tries = 0; tries < 1000; tries++) {
    nmb_insn *in = (nmb_insn *)(uintptr_t)&d->p->insn[roll(d, d->p->ninsn)];
    if (in->nwait > 0) {
      ((nmb_id *)(uintptr_t)in->wait)[roll(d, in->nwait)] = in->wait[in->nwait - 1];
      in->nwait--;
      return true;
    }
  }
  return false;
}

static bool
shift_tile(const dice *d)
{
  nmb_insn *in = any_insn(d, true);
  if (!in)
    return false;
  int64_t *t = roll(d, 2) ? &in->tile.n0 : &in->tile.m0;
  const int64_t by = roll(d, 2) ? 1 : -1;
  t[0] += by;
  t[1] += by;
  return true;
}

/* Two instructions swap their tiles, so that all are still covered.  What is appended to a
 * cache, the operands say; the tile is for its time only. */
static bool
swap_tiles(const dice *d)
{
  nmb_insn *a = any_insn(d, true);
  for (int tries = 0; a && tries < 300; tries++) {
    nmb_insn *b = any_insn(d, true);
    if (b && b->op == a->op && d->p->op[a->op].code != NMB_OP_KVAPPEND &&
        memcmp(&a->tile, &b->tile, sizeof a->tile) != 0) {
      const nmb_tile t = a->tile;
      a->tile = b->tile;
      b->tile = t;
      return true;
    }
  }
  return false;
}

static bool
overlap_buffers(const dice *d)
{
  nmb_slot *a = (nmb_slot *)(uintptr_t)&d->p->slot[roll(d, d->p->nslot)];
  for (int tries = 0; tries < 200; tries++) {
    const nmb_slot *b = &d->p->slot[roll(d, d->p->nslot)];
    const bool together = a->resident || b->resident ||
                          (a->first <= b->last && b->first <= a->last);
    if (b != a && b->mem == a->mem && b->offset != a->offset && together) {
      *d->what = nmb_format(d->run, "%s in the place of %s in %s, steps %d-%d, %d-%d",
                            d->p->tensor[a->tensor].name, d->p->tensor[b->tensor].name,
                            d->p->hw->mem[a->mem].name, a->first, a->last, b->first,
                            b->last);
      a->offset = b->offset;
      return true;
    }
  }
  return false;
}

/* Of instructions that multiply: the place of others is for their time only. */
static bool
other_channel(const dice *d)
{
  for (int tries = 0; tries < 1000; tries++) {
    nmb_insn *in = any_insn(d, true);
    if (in && in->place.nchannel &&
        nmb_op_get(d->p->op[in->op].code)->class_ == NMB_CLASS_MAC) {
      if (in->place.nchannel == 1 || roll(d, 2))
        in->place.channel0 += in->place.channel0 ? -1 : 1;
      else
        in->place.nchannel--;
      return true;
    }
  }
  return false;
}

static bool
other_slot(const dice *d)
{
  nmb_operand *a = any_operand(d);
  for (int tries = 0; a && tries < 300; tries++) {
    const nmb_operand *b = any_operand(d);
    if (b && b->slot != a->slot && b->mem == a->mem) {
      a->slot = b->slot;
      a->tensor = b->tensor;
      return true;
    }
  }
  return false;
}

static bool
other_layout(const dice *d)
{
  if (!d->p->nlayout)
    return false;
  nmb_layout *l = (nmb_layout *)(uintptr_t)&d->p->layout[roll(d, d->p->nlayout)];
  const nmb_mem *m = &d->p->hw->mem[l->mem];
  if (l->kind == NMB_LAY_LINEAR || l->unit_rows <= m->banks) /* a bank a row, in any */
    return false;
  *d->what = d->p->tensor[l->tensor].name;
  if (roll(d, 2))
    l->kind = l->kind == NMB_LAY_BLOCKED ? NMB_LAY_INTERLEAVED : NMB_LAY_BLOCKED;
  else
    l->channels = l->channels > 1 ? l->channels / 2 : 2;
  return true;
}

static const struct {
  const char *name;
  bool (*plant)(const dice *);
} faults[] = {{"two addresses swapped", swap_addresses},
              {"an operand shifted", shift_operand},
              {"scales of another row", other_scales},
              {"rows too close or too far", stretch_rows},
              {"a wait dropped", drop_wait},
              {"a tile shifted", shift_tile},
              {"two tiles swapped", swap_tiles},
              {"buffers overlap", overlap_buffers},
              {"another channel", other_channel},
              {"another buffer", other_slot},
              {"another layout", other_layout}};
enum { NFAULT = sizeof faults / sizeof *faults };

/* --------------------------------------------------------------------- runs */
typedef struct tally {
  int planted, refused, caught, survived;
} tally;

static nmb_status
execute(nmb_run *run, const nmb_prog *graph, const nmb_prog *p, const int32_t *ids)
{
  static const uint64_t seed = 5;
  const nmb__weights w = nmb__weights_random(&seed);
  nmb__values_check *c = nmb__values_open(
      &w, &(nmb__values_options){
              .seed = seed, .orders = 6, .tables = true, .invent = true, .stop = true});
  nmb_prog *copy = nmb_prog_copy(graph);
  nmb_status st = nmb__values_exact(run, c, copy, ids);
  if (st == NMB_OK)
    st = nmb__values_code(run, c, p, ids);
  nmb_prog_free(copy);
  nmb__values_close(c);
  return st;
}

static void
mutate(nmb_run *run, const subject *s, const nmb_prog *graph, const nmb_prog *good,
       const int32_t *ids, int fault, tally *t)
{
  nmb_prog *p = nmb_prog_copy(good);
  const char *what = "";
  const dice d = {run, p, &what};
  const bool planted = faults[fault].plant(&d);
  t->planted += planted;
  nmb__run_clear(run);
  if (planted && nmb_prog_verify(run, p, p->present) != NMB_OK)
    t->refused++;
  else if (planted && execute(run, graph, p, ids) != NMB_OK)
    t->caught++;
  else if (planted) {
    t->survived++;
    printf("survivor: %s, %s on %s: %s\n", faults[fault].name, s->model, s->machine, what);
  }
  nmb_prog_free(p);
}

static nmb_status
try(nmb_run *run, const subject *s, int each, tally *t)
{
  const nmb__arch *a;
  nmb_hw *hw = NULL;
  nmb_prog *graph, *p;
  nmb__pipeline pl;
  int32_t ids[3] = {3, 14, 15};
  const nmb__routing_spec routing = {.kind = "uniform", .seed = 2};
  NMB_TRY(nmb__arch_load(run, nmb_format(run, "%s/tiny/%s.json", TEST_DATA, s->model), &a));
  NMB_TRY(nmb__machine_load(run, s->machine, &hw));
  NMB_TRY(nmb__pipeline_parse(run, NMB_NOLOC, s->passes, &pl));
  NMB_TRY(nmb__graph_build(run, a, (nmb_step_spec){NMB_DECODE, 3, 1, 9}, &routing, &graph));
  p = nmb_prog_copy(graph);
  nmb_prog_set_hw(p, hw);
  nmb_status st = nmb__pipeline_run(run, p, &pl, NULL);
  if (st == NMB_OK)
    st = execute(run, graph, p, ids); /* the program itself is sound */
  for (int f = 0; f < NFAULT && st == NMB_OK; f++)
    for (int i = 0; i < each; i++)
      mutate(run, s, graph, p, ids, f, t);
  nmb_prog_free(p);
  nmb_prog_free(graph);
  nmb__machine_free(hw);
  return st;
}

int
main(int argc, char **argv)
{
  const uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 11;
  const int each = argc > 2 ? atoi(argv[2]) : EACH;
  nmb_run *run = nmb__run_open(NULL);
  tally t = {0};
  nmb__run_seed(run, seed);
  nmb_status st = nmb__plugins_load(run, NULL);
  for (int i = 0; i < NSUBJECT && st == NMB_OK; i++)
    if ((st = try(run, &subjects[i], each, &t)) != NMB_OK)
      printf("%s on %s: ", subjects[i].model, subjects[i].machine);
  if (st != NMB_OK)
    printf("%s\n", nmb_error_text(run));
  printf("%d faults: %d refused by the verifier, %d caught by values, %d survive\n",
         t.planted, t.refused, t.caught, t.survived);
  nmb__run_close(run);
  return st != NMB_OK || t.survived * 100 > t.survived + t.caught;
}
