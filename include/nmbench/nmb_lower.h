/* SPDX-License-Identifier: GPL-3.0-or-later */
/* From the plan to instructions: the rules that emitters and cost-driven passes
 * share, so that what a pass estimates is what the emitter emits.
 *
 * Row kinds.  Ops run over rows of one of three kinds: tokens (linear, norm, rope,
 * elementwise on [T,...]), units of attention (qk, softmax, pv: u = batch * KV
 * heads), routed rows (glinear and elementwise on [R,...]).  A kernel holds ops
 * of one kind only, in one block.  kvappend, permute and select stand alone.
 *
 * Tiling.  A kernel is cut along (b, m) and, if all of its ops have the same columns
 * and none needs a whole row of a value made inside the kernel (norm, softmax, topk,
 * or a MAC op reducing over it), along n; units of attention never along n.  Tile
 * sizes that a kernel cannot be cut by are taken as 0.  For each tile, in the order b,
 * m, n, one instruction per op, or more where the bytes of a view or of caches are not
 * one rectangle.  glinear goes expert by expert, over those that rows reach; its
 * kernel's elementwise ops take that expert's rows.  Values that are made and used up
 * inside the kernel live in the engine's local memory: a tile of all of them must fit
 * there.  split emits nothing.
 *
 * Bytes.  Weights are touched in one run of the rows that a tile needs, scales
 * included; values in rows.  Rows at places that only the data knows (embed, combine)
 * count in number, as if each token had another.
 *
 * Caches.  kvappend writes each memory where an engine that reads the cache keeps it:
 * its own memories by an EXEC, others by a COPY over the link, which writes the new
 * rows into the cache.
 *
 * In-memory engines.  Weights are rows of the matrix dealt to lanes by the layout.
 * For qk the rows are cache positions, for pv they are the dv components (the
 * value cache is stored transposed: row = component, so that MACs run along S), but
 * for a cache that is both, as in latent attention: it keeps the rows of qk.
 * Units (experts, heads, KV heads of a sequence) are dealt to channels in turn, so
 * many side by side as `channels` of the layout allows.  One instruction covers one
 * expert, or a wave of alike units; instructions on disjoint channels of one engine
 * run at the same time.  Steps along heads have their units dealt part by part.
 *
 * Several devices.  Resident tensors are cut by rows over all devices.  A value is
 * either whole (a copy on every device, one after the other in its buffer) or sharded
 * (each device holds the part it made).  MAC ops leave sharded values; elementwise ops
 * keep sharding; ops that reduce over a row need whole values, as do block outputs.
 * Sharded -> whole is a gather and a bcast over the link between devices.  Attention
 * is dealt by head if devices divide the KV heads: then queries, keys and values that
 * linears have made head by head stay where they are; else by unit if devices divide
 * batch * KV heads; else each unit is spread and its scores are gathered.  Ops on
 * whole values are done by every device and counted once.
 */
#ifndef NMB_LOWER_H
#define NMB_LOWER_H

#include "nmbench/nmb_hw.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum nmb_rowkind { NMB_ROWS_TOKEN, NMB_ROWS_UNIT, NMB_ROWS_ROUTED } nmb_rowkind;
NMB_API nmb_rowkind nmb_op_rowkind(const nmb_prog *, nmb_id op);

/* Can this engine run the op, in the formats of its operands? */
NMB_API bool nmb_engine_can(const nmb_prog *, nmb_id engine, nmb_id op);
/* Engines that can run all of the ops: a bit per engine. */
NMB_API uint64_t nmb_engines_for(const nmb_prog *, const nmb_id *op, int nop);
/* May these ops (in execution order, one block) be one kernel on that engine: one
 * row kind, no path that leaves the kernel and comes back, a value between each
 * op and an earlier one, every op can run there, and the smallest tile of the
 * inner values fits its local memory.  why: (optional) gets the reason if not. */
NMB_API bool nmb_fuse_legal(const nmb_prog *, nmb_id engine, const nmb_id *op, int nop,
                            const char **why);

/* The mapping that nmbench uses where no pass has decided: the largest tile that
 * fits, reuse 1.  The kernel's engine must be set. */
NMB_API void nmb_map_default(const nmb_prog *, nmb_id kernel, nmb_map *out);
/* The layout of `tensor` for kernel's engine: as the kinds say; fills bytes. */
NMB_API void nmb_layout_make(const nmb_prog *, nmb_id tensor, nmb_id mem, nmb_lay_kind,
                             int channels, bool padded, nmb_layout *out);
/* The layout that the program has for it, or what nmb_layout_make gives for
 * BLOCKED (banked memories) and LINEAR (others). */
NMB_API void nmb_layout_of(const nmb_prog *, nmb_id tensor, nmb_id mem, nmb_layout *out);

/* A list of instructions in the run's arena. */
typedef struct nmb_insns {
  int n, cap;
  nmb_insn *v;
} nmb_insns;

/* The instructions of a step: EXEC ones on the kernel's engine, with tensors and
 * regions but no slots and no waits; SYNC at the end if the engine is in-memory.
 * map NULL: the program's, or the default.  layout: (optional, nlayout rows) take
 * precedence over the program's. */
NMB_API nmb_status nmb_lower_step(nmb_run *, const nmb_prog *, const nmb_step *,
                                  const nmb_map *map, const nmb_layout *layout, int nlayout,
                                  nmb_insns *out);
/* Ops before which a value must be copied, gathered or broadcast follow from
 * dispatch.  The instructions that bring operand `tensor` to `step` (the part that
 * it needs): copies between memories and gather + bcast between devices; none if
 * it is there.  `step` is a row of p->step, as for nmb_lower_step. */
NMB_API nmb_status nmb_lower_transfer(nmb_run *, const nmb_prog *, nmb_id tensor,
                                      const nmb_step *step, nmb_insns *out);

/* Do two transfers move the same bytes?  Then the second is not needed in a block. */
/* Does only the data say which rows operand j of an instruction reads (those that an
 * indexer has chosen, those of a token's experts)?  It then names as many as are read, but what
 * has written any of bytes [*at, *end) of the slot has to be over. */
NMB_API bool nmb_rows_by_data(const nmb_prog *, const nmb_insn *, int j, int64_t *at,
                              int64_t *end);
NMB_API bool nmb_moves_equal(const nmb_insn *, const nmb_insn *);
/* Likewise what takes the block's `out` to where all blocks hand over the hidden
 * state: whole, in the home of the engine that makes `out` in the block with most
 * repeats.  step: the block's last. */
NMB_API nmb_status nmb_lower_handover(nmb_run *, const nmb_prog *, nmb_id block,
                                      const nmb_step *step, nmb_insns *out);

/* Estimated seconds of a kernel on `engine` (its own need not be set): what
 * nmb_lower_step would emit, run one after the other, channels in parallel.
 * Transfers are not included. */
NMB_API nmb_status nmb_kernel_seconds(nmb_run *, const nmb_prog *, const nmb_id *op, int nop,
                                      nmb_id engine, const nmb_map *map,
                                      const nmb_layout *layout, int nlayout, double *seconds);
/* The same for a step of a dispatched kernel, with the program's mapping. */
NMB_API nmb_status nmb_step_seconds(nmb_run *, const nmb_prog *, const nmb_step *,
                                    double *seconds);
/* Seconds to move `tensor` from memory to memory (0 if equal). */
NMB_API nmb_status nmb_transfer_seconds(nmb_run *, const nmb_prog *, nmb_id tensor,
                                        nmb_id from, nmb_id to, double *seconds);

/* Dependences between steps: does step b need step a's values (and then which
 * parts)?  Parts along the same axis match one to one where both kernels are cut
 * alike and the axis is separable for both; otherwise all parts depend on all. */
NMB_API bool nmb_step_depends(const nmb_prog *, nmb_id kernel_a, nmb_id kernel_b);
/* Equal parts the kernel can be cut into: `nparts` must divide it; 1: not at all. */
NMB_API int64_t nmb_kernel_extent(const nmb_prog *, nmb_id kernel, nmb_axis);
NMB_API bool nmb_kernel_separable(const nmb_prog *, nmb_id kernel, nmb_axis);
NMB_API bool nmb_parts_depend(const nmb_prog *, const nmb_step *a, const nmb_step *b);

/* The buffers a plan needs: one per (tensor, memory), with bytes (rounded up to
 * the memory's alignment), residency and live range; offset is left 0.  Inner
 * values of kernels get slots in local memories.  A mem plugin chooses offsets. */
NMB_API nmb_status nmb_buffers(nmb_run *, const nmb_prog *, nmb_slot **out, int *n);

#ifdef __cplusplus
}
#endif
#endif
