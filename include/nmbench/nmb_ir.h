/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The program: a graph, and one section for each decision taken about it.
 *
 * Tables are visible and const; they change only through the functions below.
 * Rows are named by 32-bit ids (indexes), never by pointers, as tables move
 * when they grow.  Everything is owned by the program and freed with it.
 *
 * The graph is specialised to one step: `phase`, `batch` sequences, `fresh` new
 * tokens in each, `context` tokens already in the caches.  T = batch * fresh.
 *
 * A model is a sequence of blocks with repeat counts (`order`).  A block is a
 * straight line of ops.  Its `in` tensor takes the `out` tensor of the block
 * before; the first block reads the step's inputs.  Weights and caches of a
 * block that runs `repeat` times exist `repeat` times ("layers"); activations
 * are reused by every repeat.  No schedule may overlap two blocks (yet).
 * A weight or cache of a block that runs once may be that of later blocks, too.
 */
#ifndef NMB_IR_H
#define NMB_IR_H

#include <stdio.h>

#include "nmbench/nmb_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------- sections */
/* X(id, name, kind of pass that writes it) in the order of the text */
#define NMB_SECTION_MAP(X)                                                     \
  X(GRAPH, "graph", "rewrite")                                                 \
  X(GROUPS, "groups", "fuse")                                                  \
  X(DISPATCH, "dispatch", "dispatch")                                          \
  X(MAPPING, "mapping", "map")                                                 \
  X(SCHEDULE, "schedule", "sched")                                             \
  X(MEMORY, "memory", "mem")                                                   \
  X(CODE, "code", "emit")

typedef enum nmb_section {
#define X(id, name, kind) NMB_##id,
  NMB_SECTION_MAP(X)
#undef X
      NMB_NSECTION
} nmb_section;
typedef uint32_t nmb_bits; /* a set: bit 1 << element */
#define NMB_BIT(i) (1u << (unsigned)(i))

/* ------------------------------------------------------------ number formats */
typedef enum nmb_dtype {
#define X(id, name, bits, sbits, group, source) NMB_DT_##id,
#include "nmbench/dtypes.def"
#undef X
  NMB_NDTYPE
} nmb_dtype;

typedef struct nmb_dtype_info {
  const char *name;
  int bits, scale_bits, group;
  const char *source;
} nmb_dtype_info;
NMB_API const nmb_dtype_info *nmb_dtype_get(nmb_dtype);
NMB_API int nmb_dtype_find(const char *name); /* NMB_NONE if unknown */
/* Can values be rounded to it?  Not to int32, nor to the blocks of files, which hold the
 * weights of those files only. */
NMB_API bool nmb_dtype_codes(nmb_dtype);

/* -------------------------------------------------------------------- graph */
#define NMB_MAXRANK 5
#define NMB_MAXIN 9
#define NMB_MAXOUT 2
#define NMB_MAXATTR 20

/* X(id, name): what a tensor is; weights, caches and states are resident */
#define NMB_ROLE_MAP(X)                                                        \
  X(ACT, "act") X(INPUT, "input") X(WEIGHT, "weight") X(KV, "kv") X(STATE, "state")
typedef enum nmb_role {
#define X(id, name) NMB_ROLE_##id,
  NMB_ROLE_MAP(X)
#undef X
      NMB_NROLE
} nmb_role;

typedef enum nmb_opcode {
#define X(id, name, nmin, nmax, nout, class, help) NMB_OP_##id,
#include "nmbench/ops.def"
#undef X
  NMB_NOP
} nmb_opcode;
typedef enum nmb_opclass { NMB_CLASS_MAC, NMB_CLASS_VEC, NMB_CLASS_MOVE } nmb_opclass;

typedef struct nmb_op_info {
  const char *name;
  int nin_min, nin_max, nout;
  nmb_opclass class_;
  const char *help;
} nmb_op_info;
NMB_API const nmb_op_info *nmb_op_get(nmb_opcode);
NMB_API int nmb_op_find(const char *name); /* NMB_NONE if unknown */

/* An attribute is an integer, a real or a symbol. */
typedef enum nmb_attr_kind { NMB_ATTR_INT, NMB_ATTR_REAL, NMB_ATTR_SYM } nmb_attr_kind;
typedef struct nmb_attr {
  const char *key;
  nmb_attr_kind kind;
  int64_t i;
  double r;
  const char *s;
} nmb_attr;
#define NMB_INT(k, v) ((nmb_attr){(k), NMB_ATTR_INT, (v), 0, 0})
#define NMB_REAL(k, v) ((nmb_attr){(k), NMB_ATTR_REAL, 0, (v), 0})
#define NMB_SYM(k, v) ((nmb_attr){(k), NMB_ATTR_SYM, 0, 0, (v)})

typedef struct nmb_tensor {
  const char *name; /* unique in its block */
  nmb_id block;
  nmb_dtype dtype;
  int group; /* elements a scale; 0 unless the dtype leaves it to the tensor */
  nmb_role role;
  int rank;
  int64_t dim[NMB_MAXRANK];
  nmb_id def; /* op that makes it; NMB_NONE: input, weight, cache */
  nmb_id of;  /* 1 + the tensor of an earlier block whose storage this is; 0: its own */
  bool lent;  /* a tensor of another block is this one */
  nmb_loc loc;
} nmb_tensor;

typedef struct nmb_op {
  nmb_opcode code;
  nmb_id block;
  int nin, nout, nattr;
  nmb_id in[NMB_MAXIN], out[NMB_MAXOUT];
  nmb_attr attr[NMB_MAXATTR];
  nmb_loc loc;
} nmb_op;

typedef struct nmb_block {
  const char *name;
  int64_t repeat; /* total over the order: layers of this block */
  int nop;
  const nmb_id *op; /* in execution order */
  nmb_id in, out;   /* hidden state in and out; NMB_NONE at the two ends */
} nmb_block;

typedef struct nmb_segment { /* the model: run `block` `count` times, then on */
  nmb_id block;
  int64_t count;
} nmb_segment;

/* Which experts each token reaches; drawn by the harness, part of the program. */
typedef struct nmb_routing {
  const char *name; /* e.g. "zipf1.2" and the seed, for people */
  int experts, topk;
  int64_t ntoken;
  const int32_t *expert; /* [ntoken][topk], distinct within a token */
  const int64_t *load;   /* [experts] rows that reach each expert; sums to ntoken*topk */
  int reached;           /* experts with load > 0 */
} nmb_routing;

typedef enum nmb_phase { NMB_PREFILL, NMB_DECODE } nmb_phase;
typedef struct nmb_step_spec { /* the workload that the graph is specialised to */
  nmb_phase phase;
  int64_t batch, fresh, context;
} nmb_step_spec;

/* ---------------------------------------------------------- groups, dispatch */
/* A kernel: ops of one block that run as one, listed in execution order.
 * Kernels are numbered so that they are in a topological order. */
typedef struct nmb_kernel {
  nmb_id block;
  int nop;
  const nmb_id *op;
  nmb_id engine; /* section dispatch; NMB_NONE before */
} nmb_kernel;

/* ------------------------------------------------------------------- mapping */
/* Tiling of a kernel: tile sizes along (b, m, n) of its ops' iteration spaces.
 * Every op of a kernel is cut alike; see nmb_lower.h for the rules.  k is cut
 * only where a weight row is cut into memory pages (layout).  0: not cut. */
typedef struct nmb_map {
  nmb_id kernel;
  int64_t tile_b, tile_m, tile_n;
  int64_t reuse; /* PIM: output columns that share one filling of the input buffer; 1: none */
} nmb_map;

/* Where the bytes of a resident tensor lie in a banked memory.
 * The tensor is seen as `rows` rows (all dimensions but the last, flattened;
 * for a value cache its transpose: see nmb_lower.h) of `row_bytes`.  Row r
 * belongs to unit r / unit_rows (an expert, a KV head of a sequence, or the
 * whole tensor).  Rows are dealt to lanes, a lane being one bank of one channel,
 * lane = channel * banks + bank:
 *   NMB_LAY_LINEAR      no banks: addresses as they come (host memories)
 *   NMB_LAY_BLOCKED     consecutive rows fill one lane's share before the next
 *   NMB_LAY_INTERLEAVED row r goes to lane r mod lanes
 * `split` cuts each unit over that many channels (blocked: contiguous ranges).
 * padded: each row starts a new DRAM page. */
typedef enum nmb_lay_kind { NMB_LAY_LINEAR, NMB_LAY_BLOCKED, NMB_LAY_INTERLEAVED } nmb_lay_kind;
typedef struct nmb_layout {
  nmb_id tensor, mem;
  nmb_lay_kind kind;
  int64_t unit_rows; /* rows that belong together */
  int channels;      /* channels that one unit is spread over, at least 1 */
  bool padded;
  int64_t bytes; /* one layer, padding included, over the whole memory */
} nmb_layout;

/* ------------------------------------------------------------------ schedule */
/* One step of the schedule: kernel `kernel`, or the part `part` of `nparts` of
 * it along `axis`.  Steps stand in order of start (ties: by id of kernel, part). */
typedef enum nmb_axis { NMB_AXIS_NONE, NMB_AXIS_BATCH, NMB_AXIS_HEAD } nmb_axis;
typedef struct nmb_step {
  nmb_id kernel;
  nmb_axis axis;
  int part, nparts;
  int64_t start_ps, duration_ps; /* estimates of the pass; only the order is used */
} nmb_step;

/* -------------------------------------------------------------------- memory */
/* A buffer: `tensor` of `block` in `mem`.  Resident slots hold all layers of a
 * tensor: [layer][bytes_per_layer]; transient ones are reused by every repeat,
 * and live from step `first` to step `last` (both included) of their block. */
typedef struct nmb_slot {
  nmb_id tensor, mem;
  bool resident;
  int64_t offset, bytes; /* bytes from the start of the memory */
  nmb_id first, last;    /* rows of the schedule; NMB_NONE for resident slots */
} nmb_slot;

/* ---------------------------------------------------------------------- code */
/* Queues issue in order: an instruction starts no earlier than the one before it in
 * its queue has started.  Engines do one instruction at a time, but for in-memory
 * ones: those run instructions on disjoint channels side by side, up to a SYNC.
 *
 * A rectangle of bytes in a slot: `rows` rows of `row_bytes`, `stride` apart.
 * For a resident slot the offsets are those of layer 0. */
typedef struct nmb_operand {
  nmb_id tensor, mem, slot; /* tensor: a root; slot: NMB_NONE until the emitter fills it */
  bool write;
  int64_t offset, rows, row_bytes, stride;
} nmb_operand;

typedef struct nmb_tile { /* half-open ranges of the op's iteration space */
  int64_t b0, b1, m0, m1, n0, n1, k0, k1;
} nmb_tile;

/* How a PIM instruction spreads over the banks, per input vector. */
typedef struct nmb_place {
  int channel0, nchannel; /* channels it occupies: [channel0, channel0 + nchannel) */
  int banks;              /* banks active in the busiest channel */
  int64_t vectors;        /* input vectors (rows of m), one at a time */
  int64_t rows_per_bank;  /* output columns in the busiest bank */
  int64_t pages;          /* DRAM pages that one weight row touches */
  int64_t bursts;         /* bursts of one full weight row, over all its pages */
  int64_t reuse;          /* as in nmb_map */
  int64_t opens;          /* DRAM pages the busiest bank opens to read its rows once; rows
                             that are not padded share pages.  0: rows_per_bank * pages */
} nmb_place;

#define NMB_MAXOPND 10
#define NMB_INSN_MAP(X)                                                        \
  X(EXEC, "exec", "one op over one tile")                                      \
  X(COPY, "copy", "a value from one memory to another")                        \
  X(BCAST, "bcast", "a value from one device to all")                          \
  X(GATHER, "gather", "the shards of a value from all devices to one")         \
  X(SYNC, "sync", "waits for all that stands before it in its queue")
typedef enum nmb_insn_kind {
#define X(id, name, help) NMB_INSN_##id,
  NMB_INSN_MAP(X)
#undef X
      NMB_NINSN
} nmb_insn_kind;

typedef struct nmb_insn {
  nmb_insn_kind kind;
  nmb_id engine; /* its queue */
  nmb_id block, step, op; /* op: NMB_NONE unless EXEC */
  bool first;             /* first of its kernel on the engine: pays the launch */
  nmb_tile tile;
  nmb_place place; /* all zero unless the engine computes in memory */
  int nopnd;
  nmb_operand opnd[NMB_MAXOPND];
  int nwait;
  const nmb_id *wait; /* instructions that must have completed */
} nmb_insn;

/* ------------------------------------------------------------------- program */
struct nmb_hw;
typedef struct nmb_prog {
  const char *model;   /* name of the model, for people and results */
  nmb_step_spec spec;
  nmb_bits present;    /* sections that stand */
  const struct nmb_hw *hw; /* (optional) NULL: no machine chosen yet */
  int ntensor, nop, nblock, nsegment, nrouting, nkernel, nmap, nlayout, nstep, nslot, ninsn;
  const nmb_tensor *tensor;
  const nmb_op *op;
  const nmb_block *block;
  const nmb_segment *order;
  const nmb_routing *routing;
  const nmb_kernel *kernel;
  const nmb_map *map; /* one per kernel, in kernel order */
  const nmb_layout *layout;
  const nmb_step *step; /* block by block, in order of start */
  const nmb_slot *slot;
  const nmb_insn *insn; /* block by block; within an engine in queue order */
} nmb_prog;

NMB_API nmb_prog *nmb_prog_new(const char *model, nmb_step_spec);
NMB_API nmb_prog *nmb_prog_copy(const nmb_prog *);
NMB_API void nmb_prog_free(nmb_prog *);
NMB_API void nmb_prog_set_hw(nmb_prog *, const struct nmb_hw *); /* borrowed */

/* Graph.  Strings are copied.  Names must be unique in their block (a number is
 * added when not).  nmb_op_add appends; nmb_op_insert puts before `before`.
 * Erased ops vanish at nmb_prog_compact, which the host calls when a pass
 * returns: until then all ids stay valid. */
NMB_API nmb_id nmb_block_add(nmb_prog *, const char *name);
NMB_API void nmb_block_ends(nmb_prog *, nmb_id block, nmb_id in, nmb_id out);
NMB_API void nmb_order_add(nmb_prog *, nmb_id block, int64_t count);
NMB_API nmb_id nmb_routing_add(nmb_prog *, const char *name, int experts, int topk,
                               int64_t ntoken, const int32_t *expert);
NMB_API nmb_id nmb_tensor_add(nmb_prog *, const nmb_tensor *);
NMB_API void nmb_tensor_format(nmb_prog *, nmb_id, nmb_dtype, int group);
NMB_API void nmb_tensor_reshape(nmb_prog *, nmb_id, int rank, const int64_t *dim);
NMB_API nmb_id nmb_op_add(nmb_prog *, const nmb_op *);
NMB_API nmb_id nmb_op_insert(nmb_prog *, nmb_id before, const nmb_op *);
NMB_API void nmb_op_erase(nmb_prog *, nmb_id op);
NMB_API void nmb_op_attr_set(nmb_prog *, nmb_id op, nmb_attr);
/* Every use of `from` in its block (block ends included) becomes `to`. */
NMB_API void nmb_tensor_replace(nmb_prog *, nmb_id from, nmb_id to);
NMB_API void nmb_prog_compact(nmb_prog *);
NMB_API bool nmb_op_erased(const nmb_prog *, nmb_id op);

/* Sections.  A pass that writes one starts by nmb_section_begin, which empties
 * it and drops those that come after it in the text and rest on it. */
NMB_API void nmb_section_begin(nmb_prog *, nmb_section);
NMB_API nmb_id nmb_kernel_add(nmb_prog *, nmb_id block, const nmb_id *op, int nop);
NMB_API void nmb_dispatch_set(nmb_prog *, nmb_id kernel, nmb_id engine);
NMB_API void nmb_map_add(nmb_prog *, const nmb_map *); /* in kernel order */
NMB_API void nmb_layout_add(nmb_prog *, const nmb_layout *);
NMB_API nmb_id nmb_step_add(nmb_prog *, const nmb_step *);
NMB_API nmb_id nmb_slot_add(nmb_prog *, const nmb_slot *);
NMB_API nmb_id nmb_insn_add(nmb_prog *, const nmb_insn *); /* copies wait[] */

/* Reading. */
NMB_API const nmb_attr *nmb_op_attr(const nmb_op *, const char *key); /* NULL if absent */
NMB_API int64_t nmb_op_int(const nmb_op *, const char *key, int64_t dflt);
NMB_API double nmb_op_real(const nmb_op *, const char *key, double dflt);
NMB_API const char *nmb_op_sym(const nmb_op *, const char *key, const char *dflt);
NMB_API int64_t nmb_tensor_count(const nmb_tensor *);      /* elements */
NMB_API int64_t nmb_bytes(nmb_dtype, int group, int64_t count); /* scales included, rounded up */
NMB_API int64_t nmb_tensor_bytes(const nmb_tensor *);      /* one layer */
/* The input whose storage output i of the op is in: a cache that is appended to, a
 * state that is updated, what a split views.  NMB_NONE: the output has its own. */
NMB_API int nmb_op_in_place(const nmb_op *, int output);
/* The tensor whose storage `t` is in: itself, or that of the op's input. */
NMB_API nmb_id nmb_tensor_root(const nmb_prog *, nmb_id t);
NMB_API bool nmb_tensor_resident(const nmb_tensor *); /* weight, kv or state */

typedef struct nmb_space {
  int64_t b, m, n, k;
} nmb_space;
/* linear (1,T,N,K); hlinear (h,T,N,K); glinear (E, largest load, N, K);
 * qk (u,g,S,d); softmax (u,g,S,1); pv (u,g,dv,S); conv (1,T,C,W); scan (B*h, new, dv,
 * dk); wkv (1,T,C,3); others (1, rows, last dim, 1)
 * with rows = product of all dimensions of the output but the last, for rank 3
 * activations [T,h,d]: (1, T, h*d, 1). */
NMB_API nmb_space nmb_op_space(const nmb_prog *, nmb_id op);
/* Multiply-accumulates of the tile; for glinear rows of [m0,m1) beyond an
 * expert's load do not count; for scan those of its form (ops.def).  0 for ops of
 * other classes. */
NMB_API int64_t nmb_op_macs(const nmb_prog *, nmb_id op, const nmb_tile *); /* tile NULL: all */
/* Simple operations (VEC): elements of the output times the op's cost each. */
NMB_API int64_t nmb_op_vecs(const nmb_prog *, nmb_id op, const nmb_tile *);

/* Text.  Print then parse gives the same bytes when printed again.  `sections`
 * selects; the graph is always printed by nmb_prog_print with NMB_ALL. */
#define NMB_ALL ((1u << NMB_NSECTION) - 1)
NMB_API void nmb_prog_print(const nmb_prog *, nmb_bits sections, FILE *);
/* *out is owned by the caller.  hw: (optional) the machine that engine and
 * memory names are looked up in; the text names the machine it was made for. */
NMB_API nmb_status nmb_prog_parse(nmb_run *, const char *file, const char *text,
                                  size_t len, const struct nmb_hw *hw, nmb_prog **out);
/* The machine that a text asks for, "" if none; a string of the run. */
NMB_API nmb_status nmb_prog_parse_machine(nmb_run *, const char *file, const char *text,
                                          size_t len, const char **name);
/* Each section that is present, against those it rests on. */
NMB_API nmb_status nmb_prog_verify(nmb_run *, const nmb_prog *, nmb_bits sections);
NMB_API uint64_t nmb_prog_hash(const nmb_prog *, nmb_section);

#ifdef __cplusplus
}
#endif
#endif
