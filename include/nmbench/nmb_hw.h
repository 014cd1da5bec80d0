/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The machine: memories, engines and links, as read from a .hw file.
 *
 * A machine of `devices` alike devices is one nmb_hw: capacities, bandwidths and
 * channels of a memory are those of all devices together; `devices` of an engine
 * says over how many devices its work spreads.  Links are engines whose model is
 * "link": they run copy, bcast and gather instructions.
 * Read only, owned by whoever loaded it.
 */
#ifndef NMB_HW_H
#define NMB_HW_H

#include "nmbench/nmb_ir.h"

#ifdef __cplusplus
extern "C" {
#endif

struct nmb_plugin;

/* A parameter of an engine model, in base units; the model's option table says
 * what there is.  Every value in a .hw file belongs to an entry with a source. */
typedef struct nmb_param {
  const char *name;
  double value;     /* numbers and booleans */
  const char *text; /* text parameters, else NULL */
} nmb_param;

typedef struct nmb_mem {
  const char *name;
  int devices;
  int64_t bytes;           /* all devices */
  double bytes_per_s;      /* external interface, all devices */
  double latency_s;
  double j_per_byte;       /* through the external interface; NaN: unknown */
  double static_w;         /* all devices; NaN: unknown */
  int channels;            /* all devices; 1 where it has no banks */
  int banks;               /* per channel */
  int64_t page_bytes;      /* DRAM row; 0: not DRAM */
  int64_t burst_bytes;
  int64_t align;           /* of every buffer */
  bool local;              /* belongs to one engine; holds only values inside a kernel */
  const char *source;
} nmb_mem;

/* How an engine adds up a product of two vectors; docs/functional.md.  X(id, name) */
#define NMB_SUM_MAP(X) X(FP32, "fp32") X(FP16, "fp16") X(BF16, "bf16") X(INT32, "int32")
typedef enum nmb_sum {
#define X(id, name) NMB_SUM_##id,
  NMB_SUM_MAP(X)
#undef X
      NMB_NSUM
} nmb_sum;
#define NMB_ORDER_MAP(X) X(FORWARD, "forward") X(REVERSE, "reverse") X(PAIRS, "pairs")
typedef enum nmb_order {
#define X(id, name) NMB_ORDER_##id,
  NMB_ORDER_MAP(X)
#undef X
      NMB_NORDER
} nmb_order;
typedef struct nmb_arith {
  nmb_sum multiply;   /* products are rounded to it */
  int tree;           /* products that are added in pairs before they reach a register */
  nmb_sum tree_sums;
  int lanes;          /* registers side by side, added in pairs at the end */
  nmb_sum accumulate; /* the registers */
  int64_t piece;      /* terms after which a sum leaves and a new one begins; 0: all */
  nmb_sum result;     /* as which it leaves */
  nmb_order order;    /* in which the sums of pieces are added, in fp32 */
} nmb_arith;

typedef struct nmb_engine {
  const char *name, *model;
  int devices;
  nmb_id resident;   /* memory where its weights and caches must lie */
  nmb_id home;       /* memory where its other operands lie */
  nmb_id local;      /* memory for values inside a kernel; NMB_NONE: cannot fuse */
  bool rows_one_by_one; /* runs a kernel row by row: `local` holds one row's tile */
  bool in_memory;    /* computes in the banks of `resident`: EXEC has a place */
  nmb_id from, to;   /* links: the memories joined; NMB_NONE otherwise */
  bool between_devices; /* links: joins the devices of memory `from` (= `to`) */
  uint64_t ops;      /* bit per nmb_opcode */
  nmb_bits weights;  /* bit per nmb_dtype: formats of resident operands */
  nmb_bits values;   /* bit per nmb_dtype: formats of the other operands */
  double launch_s;   /* overhead of starting a kernel */
  double static_w;   /* all devices; NaN: unknown */
  int nparam;
  const nmb_param *param;
  const struct nmb_plugin *impl; /* the model, bound by the host */
  const char *source;
  nmb_arith arith;
} nmb_engine;

typedef struct nmb_hw {
  const char *name, *title, *source;
  int devices;
  int nmem, nengine; /* links stand after the compute engines */
  const nmb_mem *mem;
  const nmb_engine *engine;
  nmb_id host; /* the engine that can run every op */
} nmb_hw;

NMB_API nmb_id nmb_hw_mem(const nmb_hw *, const char *name);    /* NMB_NONE if unknown */
NMB_API nmb_id nmb_hw_engine(const nmb_hw *, const char *name); /* NMB_NONE if unknown */
NMB_API bool nmb_engine_is_link(const nmb_engine *);
/* The link that moves data from one memory to the other, or between the devices
 * of one (from == to); NMB_NONE if there is none. */
NMB_API nmb_id nmb_hw_link(const nmb_hw *, nmb_id from, nmb_id to);
/* Aborts when the model's table does not list the name: a bug of the model. */
NMB_API double nmb_param_get(const nmb_engine *, const char *name);
NMB_API const char *nmb_param_text(const nmb_engine *, const char *name);

/* ------------------------------------------------------------- engine models */
#define NMB_CAUSE_MAP(X)                                                       \
  X(COMPUTE, "compute", "arithmetic")                                          \
  X(ROW, "row", "opening and closing DRAM rows")                               \
  X(BUS, "bus", "waiting for memory bandwidth, buffers filled and read")       \
  X(REFRESH, "refresh", "DRAM refresh")                                        \
  X(TRANSFER, "transfer", "moving values over a link")                         \
  X(LAUNCH, "launch", "starting kernels, mode switches")
typedef enum nmb_cause {
#define X(id, name, help) NMB_CAUSE_##id,
  NMB_CAUSE_MAP(X)
#undef X
      NMB_NCAUSE
} nmb_cause;

#define NMB_EPART_MAP(X)                                                       \
  X(COMPUTE, "compute") X(ARRAY, "array") X(ROW, "row") X(IO, "io") X(LINK, "link") X(STATIC, "static")
typedef enum nmb_epart {
#define X(id, name) NMB_EPART_##id,
  NMB_EPART_MAP(X)
#undef X
      NMB_NEPART
} nmb_epart;

#define NMB_MAXMEM 12
/* What one instruction costs when it runs alone. */
typedef struct nmb_cost {
  double time[NMB_NCAUSE];   /* s; they add up to the duration */
  double energy[NMB_NEPART]; /* J; NaN: unknown.  STATIC is left to the simulator */
  double mem_s[NMB_MAXMEM];  /* s of each memory's whole external interface; <= duration */
  double mem_bytes[NMB_MAXMEM]; /* bytes through each memory's interface or to its banks' MACs */
} nmb_cost;
NMB_API double nmb_cost_seconds(const nmb_cost *); /* the sum of time[] */

/* How closely a model looks: a closed form, or the commands one by one. */
#define NMB_FIDELITY_MAP(X) X(ANALYTIC, "analytic") X(CYCLE, "cycle")
typedef enum nmb_fidelity {
#define X(id, name) NMB_##id,
  NMB_FIDELITY_MAP(X)
#undef X
      NMB_NFIDELITY
} nmb_fidelity;

/* What an instruction makes its busiest channel do, as a model at NMB_CYCLE issues
 * it: n commands `step` cycles apart, the first at `cycle` (1: the instruction's
 * first), all to DRAM row `row` (-1: none).  isr: an instruction of the memory's own
 * set rather than a command on its bus. */
typedef struct nmb_command {
  const char *name;
  int64_t cycle, n, step, row;
  bool isr;
} nmb_command;
typedef struct nmb_watch { /* who wants to know */
  void (*command)(void *arg, const nmb_command *);
  void *arg;
} nmb_watch;

/* Bytes that an operand names; rows that lie on each other (stride 0) count once. */
NMB_API double nmb_operand_bytes(const nmb_operand *);
/* Asks the model of the instruction's engine. */
NMB_API nmb_status nmb_insn_cost(nmb_run *, const nmb_prog *, const nmb_insn *, nmb_cost *);
/* The same at a fidelity; models that have no cycle-level form answer in closed
 * form.  watch: (optional) is told of commands at NMB_CYCLE. */
NMB_API nmb_status nmb_insn_cost_at(nmb_run *, const nmb_prog *, const nmb_insn *,
                                    nmb_fidelity, const nmb_watch *, nmb_cost *);

#ifdef __cplusplus
}
#endif
#endif
