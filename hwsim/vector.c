/* SPDX-License-Identifier: GPL-3.0-or-later */
/* vector: SIMD units beside a memory, with small cores for the scalar rest, as
 * the near-memory units of CENT: adders, exponent units and RISC-V cores.
 *
 * A pass takes `lanes` elements through the adders (pass-cycles) or the exponent
 * units (exp-cycles), pipelined over all units; ops are so many passes, plus scalar
 * work per row (norm: root and quotient; softmax: quotient) or per element (rope,
 * top-k: on the cores).  CENT's artifact counts these cycles.
 *
 * In closed form all elements are packed into passes, and memory streams behind them.
 * Cycle fidelity goes row by row: as many rows as a pass takes, or one row in several
 * passes; rows are brought and taken away by DMA while others are worked on, if the local
 * memory holds two of them.  A row that is longer than that is cut into pieces, and
 * brought again for the second time it is passed. */
#include "nmbench/nmb_plugin.h"
#include "nmbench/nmb_stream.h"

#include <math.h>

#define PARAMS(X)                                                                        \
  X(CLOCK, "clock", "freq", "Hz", NULL, "1Hz..", "clock")                                \
  X(LANES, "lanes", "int", "element", NULL, "1..",                                       \
    "elements that a pass takes, of a device")                                           \
  X(PASS, "pass-cycles", "int", "cycle", NULL, "1..", "a pass through the adders")       \
  X(EXP, "exp-cycles", "int", "cycle", NULL, "1..", "a pass through the exponent units") \
  X(NORM, "norm-row", "real", "cycle", NULL, "0..", "scalar work of a row of norm")      \
  X(SOFTMAX, "softmax-row", "real", "cycle", NULL, "0..",                                \
    "scalar work of a row of softmax")                                                   \
  X(ROPE, "rope-element", "real", "cycle", NULL, "0..",                                  \
    "rope of an element, on all cores")                                                  \
  X(SCALAR, "scalar-element", "real", "cycle", NULL, "0..",                              \
    "a comparison, on all cores")                                                        \
  X(E_LANE, "energy-element", "energy", "J", NULL, "0..", "an element through a pass")   \
  X(E_BUF, "energy-buffer", "energy/byte", "J/B", NULL, "0..",                           \
    "shared buffer, read or written")
NMB_PARAMS(PARAMS);
#define PAR(id) (e->param[P_##id].value)

typedef struct passes {
  double add, exp, row, element; /* passes of all elements; cycles a row, an element */
} passes;

static passes
passes_of(const nmb_prog *p, const nmb_engine *e, nmb_id id)
{
  const nmb_op *op = &p->op[id];
  const nmb_tensor *x = &p->tensor[op->in[0]];
  if (nmb_op_get(op->code)->class_ == NMB_CLASS_MOVE) /* a matter of bytes */
    return (passes){0, 0, 0, 0};
  switch (op->code) {
  case NMB_OP_NORM: return (passes){2, 0, PAR(NORM), 0}; /* squares, scale */
  case NMB_OP_SOFTMAX: return (passes){1, 1, PAR(SOFTMAX), 0};
  case NMB_OP_ACT: return (passes){1, 1, 0, 0};
  case NMB_OP_GLU: return (passes){2, 1, 0, 0};
  case NMB_OP_ROPE: return (passes){0, 0, 0, PAR(ROPE)};
  case NMB_OP_TOPK: /* each choice looks at every expert; an exponent each */
    return (passes){0, 0, 0, PAR(SCALAR) * (double)x->dim[x->rank - 1]};
  case NMB_OP_PICK: /* each head: at least 0, weight, sum; then its rank */
    return (passes){op->nin > 1 ? 3 * (double)p->tensor[op->in[1]].dim[1] : 1, 0, 0,
                    PAR(SCALAR)};
  case NMB_OP_CONV: return (passes){(double)nmb_op_space(p, id).k, 0, 0, 0};
  case NMB_OP_WKV: return (passes){13, 4, 0, 0}; /* as nmb_op_vecs has them */
  case NMB_OP_SCAN: { /* on each row of the state: decay, update, result, and delta */
    const double k = (double)nmb_op_space(p, id).k;
    return (passes){k * (double)(3 + nmb_op_int(op, "delta", 0)), 0, 0, 0};
  }
  case NMB_OP_POOL: { /* a softmax over the places of a row, then as mix */
    const nmb_tensor *bias = &p->tensor[op->in[2]], *y = &p->tensor[op->out[0]];
    const double places =
        (double)nmb_tensor_count(bias) / (double)y->dim[y->rank - 1];
    return (passes){2 * places, places, 0, 0};
  }
  case NMB_OP_MIX: return (passes){(double)nmb_op_int(op, "streams", 1), 0, 0, 0};
  case NMB_OP_DOT: return (passes){(double)nmb_tensor_count(&p->tensor[op->in[1]]), 0, 0, 0};
  case NMB_OP_COMBINE: return (passes){(double)p->tensor[op->in[1]].dim[1], 0, 0, 0};
  default: return (passes){1, 0, 0, 0};
  }
}

/* Rows of a device, cycles of their elements, seconds of their bytes. */
typedef struct work {
  double rows, length;
  passes w;
  double read_s, written_s, bytes; /* bytes: read and written, of all rows */
} work;

/* A piece of `part` rows (at most 1: part of a row) in passes of its own. */
static double
piece_cycles(const nmb_engine *e, const work *w, double part)
{
  const double n = part * w->length;
  return ceil(n / PAR(LANES)) * (w->w.add * PAR(PASS) + w->w.exp * PAR(EXP)) +
         part * w->w.row + n * w->w.element;
}

static double
row_by_row(const nmb_prog *p, const nmb_engine *e, const work *w)
{
  const double hz = PAR(CLOCK), latency = p->hw->mem[e->home].latency_s * hz;
  const double row_bytes = w->bytes / w->rows;
  const double room = e->local == NMB_NONE ? INFINITY
                                           : (double)p->hw->mem[e->local].bytes /
                                                 p->hw->mem[e->local].devices;
  double part = fmax(floor(PAR(LANES) / w->length), 1), again = 1;
  int buffers = 2;
  while (part > 1 && part * row_bytes * buffers > room)
    part--;
  if (part * row_bytes * buffers > room)
    buffers = 1;
  if (row_bytes > room) { /* in pieces; what is needed twice comes twice */
    part = 1 / ceil(row_bytes / room);
    again = w->w.add + w->w.exp > 1 ? 2 : 1;
  }
  part = fmin(part, w->rows);
  const nmb_tiling t = {latency, buffers, buffers};
  const double n = floor(w->rows / part + 1e-9), rest = w->rows - n * part;
  const double load = w->read_s * hz * again / w->rows,
               store = w->written_s * hz / w->rows;
  nmb_stream s;
  nmb_stream_open(&s, &t);
  nmb_stream_tiles(&s, n, load * part, piece_cycles(e, w, part), store * part);
  if (rest > 1e-9)
    nmb_stream_tiles(&s, 1, load * rest, piece_cycles(e, w, rest), store * rest);
  return nmb_stream_close(&s);
}

static nmb_status
cost(nmb_run *run, const nmb_prog *p, const nmb_insn *in, nmb_fidelity fidelity,
     const nmb_watch *watch, nmb_cost *out)
{
  (void)watch;
  const bool step = fidelity == NMB_CYCLE;
  const nmb_engine *e = &p->hw->engine[in->engine];
  const nmb_op *op = &p->op[in->op];
  const nmb_tile *t = &in->tile;
  double memory = 0;
  if (nmb_op_get(op->code)->class_ == NMB_CLASS_MAC && nmb_op_in_place(op, 1) == NMB_NONE)
    return nmb_fail(run, NMB_UNSUPPORTED, NMB_NOLOC, "vector cannot run op '%s'",
                    nmb_op_get(op->code)->name);
  work k = {.rows = ceil((double)(t->b1 - t->b0) * (double)(t->m1 - t->m0) / e->devices),
            .length = (double)(t->n1 - t->n0),
            .w = passes_of(p, e, in->op)};
  const double n = k.rows * k.length, times = ceil(n / PAR(LANES));
  double cycles = times * (k.w.add * PAR(PASS) + k.w.exp * PAR(EXP)) + k.rows * k.w.row +
                  n * k.w.element;
  for (int i = 0; i < in->nopnd; i++) {
    const nmb_operand *o = &in->opnd[i];
    const nmb_mem *m = &p->hw->mem[o->mem];
    const double bytes = nmb_operand_bytes(o);
    out->energy[NMB_EPART_ARRAY] += bytes * PAR(E_BUF);
    k.bytes += bytes / e->devices;
    if (m->local)
      continue;
    out->mem_bytes[o->mem] += bytes;
    out->mem_s[o->mem] += bytes / m->bytes_per_s;
    out->energy[NMB_EPART_IO] += bytes * m->j_per_byte;
    *(o->write ? &k.written_s : &k.read_s) += bytes / m->bytes_per_s;
  }
  for (int i = 0; i < p->hw->nmem; i++)
    memory = fmax(memory, out->mem_s[i]);
  double total = fmax(cycles, memory * PAR(CLOCK));
  if (step && n > 0) {
    total = fmax(row_by_row(p, e, &k), memory * PAR(CLOCK));
    cycles = fmin(cycles, total);
  }
  out->time[NMB_CAUSE_COMPUTE] = cycles / PAR(CLOCK);
  out->time[NMB_CAUSE_BUS] = (total - cycles) / PAR(CLOCK);
  out->time[NMB_CAUSE_LAUNCH] = in->first ? e->launch_s : 0;
  out->energy[NMB_EPART_COMPUTE] =
      n * e->devices * (k.w.add + k.w.exp + (k.w.element > 0)) * PAR(E_LANE);
  return NMB_OK;
}

NMB_PLUGIN
{
    NMB_PLUGIN_HEAD,
    .kind = "model",
    .name = "vector",
    .version = "2",
    .summary = "SIMD units and small cores beside a memory",
    .source = "gu2025cent and its artifact",
    .limits =
        "ops of one kernel do not overlap; rows are dealt evenly to devices; in closed "
        "form the local memory always has room",
    .opts = params,
    .cost = cost,
    .steps = true,
};
