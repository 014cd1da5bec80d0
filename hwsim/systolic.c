/* SPDX-License-Identifier: GPL-3.0-or-later */
/* systolic: arrays of multiply-accumulate cells with a vector unit beside them.
 *
 * Cycles of one array are the closed form of nmb_array.h, as SCALE-Sim counts them
 * (exact in its CALC mode, and the same as the array clocked cell by cell).
 * Several arrays share the folds (the products of the ceilings), and memory is
 * streamed meanwhile: an instruction takes the longer of both. */
#include "nmbench/nmb_array.h"
#include "nmbench/nmb_plugin.h"

#include <math.h>
#include <string.h>

#define PARAMS(X)                                                                        \
  X(ROWS, "rows", "int", "1", NULL, "1..65536",                                          \
    "cells of an array, reduction dimension")                                            \
  X(COLS, "cols", "int", "1", NULL, "1..65536", "cells of an array, other dimension")    \
  X(ARRAYS, "arrays", "int", "1", NULL, "1..65536", "arrays of a device")                \
  X(CLOCK, "clock", "freq", "Hz", NULL, "1Hz..", "clock")                                \
  X(FLOW, "dataflow", "enum", NULL, NULL, "ws|os|is",                                    \
    "what stays: weights, sums, inputs")                                                 \
  X(LANES, "vector-lanes", "int", "op/cycle", NULL, "1..",                               \
    "vector units of a device, all")                                                     \
  X(MEMORY, "memory-fraction", "ratio", "1", NULL, "0.01..1", "usable of the bandwidth") \
  X(E_MAC, "energy-mac", "energy", "J", NULL, "0..", "a multiply-accumulate")            \
  X(E_OP, "energy-op", "energy", "J", NULL, "0..", "a simple operation")
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

static int64_t
ceil_div(int64_t a, int64_t b)
{
  return (a + b - 1) / b;
}

/* Adds a product's folds and gives the cycles of one. */
static double
fold_cycles(const nmb_engine *e, int64_t m, int64_t n, int64_t k, int64_t *folds)
{
  const nmb_array a = {(int64_t)PAR(ROWS), (int64_t)PAR(COLS),
                       nmb_flow_find(e->param[P_FLOW].text)};
  const nmb_array_work w = nmb_array_gemm(&a, m, n, k);
  *folds += (int64_t)w.folds;
  return w.fold_cycles;
}

/* Units (heads, experts) are dealt to the arrays with all their folds; experts
 * have their own number of rows. */
static double
mac_cycles(const nmb_prog *p, const nmb_engine *e, const nmb_insn *in)
{
  const nmb_op *op = &p->op[in->op];
  const nmb_tile *t = &in->tile;
  if (nmb_op_in_place(op, 1) != NMB_NONE) /* on the vector unit */
    return ceil((double)nmb_op_macs(p, in->op, t) / (PAR(LANES) * e->devices));
  const int64_t n = t->n1 - t->n0, k = t->k1 - t->k0,
                arrays = (int64_t)PAR(ARRAYS) * e->devices;
  const nmb_routing *r =
      op->code == NMB_OP_GLINEAR ? &p->routing[nmb_op_int(op, "routing", 0)] : NULL;
  int64_t folds = 0;
  double sum = 0;
  for (int64_t b = t->b0; b < t->b1; b++) {
    int64_t m = t->m1 - t->m0, one = 0;
    if (r)
      m = (r->load[b] < t->m1 ? r->load[b] : t->m1) - t->m0;
    if (m <= 0)
      continue;
    if (!r) { /* all alike */
      const double each = fold_cycles(e, m, n, k, &one);
      folds = one * (t->b1 - t->b0);
      sum = each * (double)folds;
      break;
    }
    const double each = fold_cycles(e, m, n, k, &one);
    sum += each * (double)one;
    folds += one;
  }
  if (folds == 0)
    return 0;
  return (double)ceil_div(folds, arrays) * (sum / (double)folds) - 1;
}

static nmb_status
cost(nmb_run *run, const nmb_prog *p, const nmb_insn *in, nmb_cost *out)
{
  (void)run;
  const nmb_engine *e = &p->hw->engine[in->engine];
  const double macs = (double)nmb_op_macs(p, in->op, &in->tile);
  const double vecs = (double)nmb_op_vecs(p, in->op, &in->tile);
  double cycles = ceil(vecs / (PAR(LANES) * e->devices)), memory = 0;
  if (macs > 0)
    cycles += mac_cycles(p, e, in);
  for (int i = 0; i < in->nopnd; i++) {
    const nmb_operand *o = &in->opnd[i];
    const nmb_mem *m = &p->hw->mem[o->mem];
    const double bytes = nmb_operand_bytes(o);
    if (m->local)
      continue;
    out->mem_bytes[o->mem] += bytes;
    out->mem_s[o->mem] += bytes / (m->bytes_per_s * PAR(MEMORY));
    out->energy[NMB_EPART_IO] += bytes * m->j_per_byte;
  }
  for (int i = 0; i < p->hw->nmem; i++)
    memory = fmax(memory, out->mem_s[i]);
  out->time[NMB_CAUSE_COMPUTE] = cycles / PAR(CLOCK);
  out->time[NMB_CAUSE_BUS] = fmax(memory - out->time[NMB_CAUSE_COMPUTE], 0);
  out->time[NMB_CAUSE_LAUNCH] = in->first ? e->launch_s : 0;
  out->energy[NMB_EPART_COMPUTE] = macs * PAR(E_MAC) + vecs * PAR(E_OP);
  return NMB_OK;
}

NMB_PLUGIN
{
    NMB_PLUGIN_HEAD,
    .kind = "model",
    .name = "systolic",
    .version = "1",
    .summary = "systolic arrays and a vector unit, in closed form",
    .source = "samajdar2020scalesim",
    .limits = "folds of one product do not overlap; scratchpads are large enough to "
              "stream behind the "
              "arithmetic; values in local memory are free",
    .opts = params,
    .cost = cost,
};
