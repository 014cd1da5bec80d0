/* SPDX-License-Identifier: GPL-3.0-or-later */
/* vector: SIMD units beside a memory, with small cores for the scalar rest, as
 * the near-memory units of CENT: adders, exponent units and RISC-V cores.
 *
 * A pass takes `lanes` elements through the adders (pass-cycles) or the exponent
 * units (exp-cycles), pipelined over all units; ops are so many passes, plus scalar
 * work per row (norm: root and quotient; softmax: quotient) or per element (rope,
 * top-k: on the cores).  CENT's artifact counts these cycles. */
#include "nmbench/nmb_plugin.h"

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
enum {
#define X(id, name, type, unit, dflt, range, help) P_##id,
  PARAMS(X)
#undef X
};
static const nmb_opt params[] = {
#define X(id, name, type, unit, dflt, range, help) {name, type, unit, dflt, range, help},
    PARAMS(X)
#undef X
        {0}};
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
  case NMB_OP_MIX: return (passes){(double)nmb_op_int(op, "streams", 1), 0, 0, 0};
  case NMB_OP_DOT: return (passes){(double)nmb_tensor_count(&p->tensor[op->in[1]]), 0, 0, 0};
  case NMB_OP_COMBINE: return (passes){(double)p->tensor[op->in[1]].dim[1], 0, 0, 0};
  default: return (passes){1, 0, 0, 0};
  }
}

static nmb_status
cost(nmb_run *run, const nmb_prog *p, const nmb_insn *in, nmb_cost *out)
{
  const nmb_engine *e = &p->hw->engine[in->engine];
  const nmb_op *op = &p->op[in->op];
  const nmb_tile *t = &in->tile;
  double memory = 0;
  if (nmb_op_get(op->code)->class_ == NMB_CLASS_MAC &&
      nmb_op_in_place(op, 1) == NMB_NONE)
    return nmb_fail(run, NMB_UNSUPPORTED, NMB_NOLOC, "vector cannot run op '%s'",
                    nmb_op_get(op->code)->name);
  const double rows =
      ceil((double)(t->b1 - t->b0) * (double)(t->m1 - t->m0) / e->devices);
  const double n = rows * (double)(t->n1 - t->n0), times = ceil(n / PAR(LANES));
  const passes w = passes_of(p, e, in->op);
  const double cycles =
      times * (w.add * PAR(PASS) + w.exp * PAR(EXP)) + rows * w.row + n * w.element;
  for (int i = 0; i < in->nopnd; i++) {
    const nmb_operand *o = &in->opnd[i];
    const nmb_mem *m = &p->hw->mem[o->mem];
    const double bytes = nmb_operand_bytes(o);
    out->energy[NMB_EPART_ARRAY] += bytes * PAR(E_BUF);
    if (m->local)
      continue;
    out->mem_bytes[o->mem] += bytes;
    out->mem_s[o->mem] += bytes / m->bytes_per_s;
    out->energy[NMB_EPART_IO] += bytes * m->j_per_byte;
  }
  for (int i = 0; i < p->hw->nmem; i++)
    memory = fmax(memory, out->mem_s[i]);
  out->time[NMB_CAUSE_COMPUTE] = cycles / PAR(CLOCK);
  out->time[NMB_CAUSE_BUS] = fmax(memory - out->time[NMB_CAUSE_COMPUTE], 0);
  out->time[NMB_CAUSE_LAUNCH] = in->first ? e->launch_s : 0;
  out->energy[NMB_EPART_COMPUTE] =
      n * e->devices * (w.add + w.exp + (w.element > 0)) * PAR(E_LANE);
  return NMB_OK;
}

NMB_PLUGIN
{
    NMB_PLUGIN_HEAD,
    .kind = "model",
    .name = "vector",
    .version = "1",
    .summary = "SIMD units and small cores beside a memory",
    .source = "gu2025cent and its artifact",
    .limits = "ops of one kernel do not overlap; rows are dealt evenly to devices; the "
              "shared buffer "
              "always has room",
    .opts = params,
    .cost = cost,
};
