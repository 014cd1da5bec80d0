/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What passes of one kind share: growing kernels, costs of the best engine, and
 * where resident tensors lie and whether they fit.
 *
 * Arrays and lists are in the run's arena.  All functions are deterministic.
 */
#ifndef NMB_PLAN_H
#define NMB_PLAN_H

#include "nmbench/nmb_lower.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------------- fuse */
/* A partition of a block's ops into groups.  Ops are named by their position in
 * the block, groups by the position of their first op. */
typedef struct nmb_grouping {
  nmb_id block;
  int nop;
  int *group;      /* [nop] */
  int *in;         /* producers of op i: in[in_first[i]] up to in[in_first[i + 1]] */
  int *in_first;   /* [nop + 1] */
  int *user;       /* consumers, likewise */
  int *user_first; /* [nop + 1] */
} nmb_grouping;

/* Every op a group of its own.  O(ops * inputs). */
NMB_API void nmb_grouping_init(nmb_run *, const nmb_prog *, nmb_id block,
                               nmb_grouping *out);
/* The ops of group a and of group b (may be equal) in execution order; how many. */
NMB_API int nmb_grouping_ops(const nmb_prog *, const nmb_grouping *, int a, int b,
                             nmb_id *op /*[nop]*/);
/* Would the groups still form a DAG if a and b became one? */
NMB_API bool nmb_grouping_acyclic(nmb_run *, const nmb_grouping *, int a, int b);
NMB_API void nmb_grouping_merge(nmb_grouping *, int a, int b);
/* Adds a kernel for each group, in topological order (ties: first op). */
NMB_API void nmb_grouping_write(nmb_run *, nmb_prog *, const nmb_grouping *);
/* Begins section groups and lets `one` write those of each block; it adds to *estimates
 * how many kernels it asked the cost of.  Both counts are statistics. */
NMB_API nmb_status nmb_grouping_blocks(nmb_run *, nmb_prog *,
                                       nmb_status (*one)(nmb_run *, nmb_prog *,
                                                         nmb_id block, int *estimates));

/* The engines on which the ops may be one kernel: those that can run all of
 * them and where nmb_fuse_legal agrees.  A bit per engine. */
NMB_API uint64_t nmb_engines_legal(const nmb_prog *, const nmb_id *op, int nop);
/* nmb_kernel_seconds before there is a mapping: with the one that map-interleave
 * would give, as a plan should not be judged by its worst mapping. */
NMB_API nmb_status nmb_planned_seconds(nmb_run *, const nmb_prog *, const nmb_id *op,
                                       int nop, nmb_id engine, double *seconds);
/* Least nmb_planned_seconds over nmb_engines_legal. engine:
 * (optional).  No engine: NMB_NONE and infinity. */
NMB_API nmb_status nmb_best_seconds(nmb_run *, const nmb_prog *, const nmb_id *op,
                                    int nop, nmb_id *engine, double *seconds);

/* ------------------------------------------------------------------ dispatch */
/* Kernels that read or write one cache or state must lie with it in one memory:
 * each kernel gets the lowest id of those it is tied to, itself included. */
NMB_API void nmb_cache_clusters(nmb_run *, const nmb_prog *,
                                nmb_id *cluster /*[nkernel]*/);

/* A resident tensor (a root) in a memory that some kernel reads it from. */
typedef struct nmb_resident {
  nmb_id tensor, mem;
  nmb_id kernel;  /* the first that uses it there */
  int64_t bytes;  /* all layers, without padding */
  bool in_memory; /* an engine that computes in the memory reads it */
} nmb_resident;
/* engine: [nkernel]; NULL: as dispatched.  In order of kernel, op and operand. */
NMB_API int nmb_residents(nmb_run *, const nmb_prog *, const nmb_id *engine,
                          nmb_resident **out);

/* Moves kernels, with all that is tied to them by caches, out of memories that
 * cannot hold their residents (a reserve of `reserve` of each memory is kept for
 * padding and activations) to engines with room.  Those go first that lose least
 * for each byte moved: penalty[kernel * nengine + engine] in any one unit, lower
 * is better, infinite where the engine cannot run it.
 * NMB_INFEASIBLE, with bytes needed and available, if nothing more can move. */
NMB_API nmb_status nmb_dispatch_fit(nmb_run *, const nmb_prog *, const double *penalty,
                                    double reserve, nmb_id *engine /*[nkernel]*/);

/* ----------------------------------------------------------------------- map */
/* Units that the layout of a resident tensor deals out: the experts or heads of a
 * weight of rank 3, the KV heads of each sequence of a cache, else 1. */
NMB_API int64_t nmb_layout_units(const nmb_tensor *);
/* Bytes that layouts may take of a memory: all but a fortieth, which activations
 * need; what dispatch passes keep free (a twentieth, say) is shared with padding. */
NMB_API int64_t nmb_layout_room(const nmb_mem *);
/* Rows dealt over banks so that all channels are busy: a matrix over all of them,
 * each expert or head on as many as make the fullest bank's share least (experts on
 * somewhat more, as they get uneven work).  Padded if that costs at most `waste` of
 * a tensor's bytes and all of them fit; else those that waste most go unpadded.
 * LINEAR where nothing computes in that memory. */
NMB_API void nmb_layouts_interleaved(const nmb_prog *, const nmb_resident *, int n,
                                     double waste, nmb_layout *out /*[n]*/);

/* --------------------------------------------------------------------- sched */
/* Sets start and duration of `n` steps of one block, and puts them in order of
 * start.  A step starts when its operands have been moved to it, each once and one at
 * a time on each link, and its engine has done the steps before it.
 *   nmb_schedule_serial  one after another, in the order given
 *   nmb_schedule_list    whenever an engine is free, it takes the ready step with
 *                        the longest way to the end of the block ("upward rank" of
 *                        Topcuoglu et al., HEFT, TPDS 2002); ties by id
 * seconds: estimated time of the block, hand-over included.  O(n^2). */
NMB_API nmb_status nmb_schedule_serial(nmb_run *, const nmb_prog *, nmb_step *, int n,
                                       double *seconds);
NMB_API nmb_status nmb_schedule_list(nmb_run *, const nmb_prog *, nmb_step *, int n,
                                     double *seconds);
/* Begins section schedule and adds the steps of each block, whole kernels, as `order` has
 * them; with the estimated time of all as a statistic. */
NMB_API nmb_status nmb_schedule_blocks(nmb_run *, nmb_prog *,
                                       nmb_status (*order)(nmb_run *, const nmb_prog *,
                                                           nmb_step *, int n,
                                                           double *seconds));
/* The whole kernels of a block as steps, in program order; how many. */
NMB_API int nmb_block_steps(nmb_run *, const nmb_prog *, nmb_id block, nmb_step **out);

/* ----------------------------------------------------------------------- mem */
/* Offsets of the slots that are not the planner's to move: the resident ones of each
 * memory one after another from end[mem], then the two buffers of the hidden state, which
 * are the same in all blocks and change roles from block to block.  end: [nmem], moved
 * behind them; placed: [n], which they are. */
NMB_API void nmb_place_fixed(const nmb_prog *, nmb_slot *, int n, int64_t *end,
                             bool *placed);
/* Offsets of slots: those of nmb_place_fixed from 0, then
 * the other ones, taken in order of `before` (ties by row), each so that it
 * overlaps none placed earlier that is live in a common step.  tightest: into the
 * smallest gap that holds it, else the lowest.  O(n^2). */
NMB_API void nmb_place_slots(nmb_run *, const nmb_prog *, nmb_slot *, int n,
                             bool (*before)(const nmb_slot *, const nmb_slot *),
                             bool tightest);
/* Begins section memory and adds the slots, with statistics of each memory's peak
 * and of the largest sum of bytes live at once, which no plan can beat.
 * NMB_INFEASIBLE, with bytes needed and available, if a memory is too small. */
NMB_API nmb_status nmb_slots_write(nmb_run *, nmb_prog *, const nmb_slot *, int n);
/* All of it: the buffers of the program by nmb_place_slots, written. */
NMB_API nmb_status nmb_slots_place(nmb_run *, nmb_prog *,
                                   bool (*before)(const nmb_slot *, const nmb_slot *),
                                   bool tightest);

#ifdef __cplusplus
}
#endif
#endif
