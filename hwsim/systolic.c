/* SPDX-License-Identifier: GPL-3.0-or-later */
/* systolic: arrays of multiply-accumulate cells with a vector unit beside them.
 *
 * Cycles of one array are the closed form of nmb_array.h, as SCALE-Sim counts them
 * (exact in its CALC mode, and the same as the array clocked cell by cell).
 * Several arrays share the folds (the products of the ceilings).
 *
 * With a scratchpad, a product [m,k] x [k,n] is cut into tiles that fit it `buffers`
 * times over, sums included, and goes through it as nmb_stream.h says: for each strip of
 * n, for each strip of m, over k.  A strip of weights (inputs) that is still there is not
 * loaded again.  The tile is the one with least time in closed form; one buffer for
 * larger tiles may be better than several, or all that fits.  Where no tile of one array
 * fits, the instruction is refused.  Without a scratchpad (size 0) the closed form is the
 * longer of arithmetic and memory.  Cycle fidelity runs all tiles, those at the edges
 * with their own sizes; without a scratchpad tiles are as large as one may like. */
#include "nmbench/nmb_array.h"
#include "nmbench/nmb_plugin.h"
#include "nmbench/nmb_stream.h"

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
  X(SPAD, "scratchpad", "size", "B", "0B", "0B..",                                       \
    "of a device, for tiles; 0: all streams behind the arithmetic")                      \
  X(BUFFERS, "buffers", "int", "1", "2", "1..8",                                         \
    "tiles that the scratchpad holds; 1: loads and arithmetic alternate")                \
  X(SUM, "sum-size", "size", "B", "4B", "1B..", "of a partial sum in the scratchpad")    \
  X(DMA, "dma-bandwidth", "bandwidth", "B/s", "0B/s", "0B/s..",                          \
    "of a device's DMA engine; 0: the memory's")                                         \
  X(DELAY, "dma-latency", "time", "s", "0s", "0s..",                                     \
    "from the end of a load to its use")                                                 \
  X(E_MAC, "energy-mac", "energy", "J", NULL, "0..", "a multiply-accumulate")            \
  X(E_OP, "energy-op", "energy", "J", NULL, "0..", "a simple operation")                 \
  X(E_SPAD, "energy-scratchpad", "energy/byte", "J/B", "0J/B", "0..",                    \
    "a byte into the scratchpad or out of it")
NMB_PARAMS(PARAMS);
#define PAR(id) (e->param[P_##id].value)
/* Edges of tiles are tried from whole down to the array's; more halvings buy nothing. */
enum { HALVINGS = 12, CHUNKS = 64 };

static int64_t
ceil_div(int64_t a, int64_t b)
{
  return (a + b - 1) / b;
}

static int64_t
least(int64_t a, int64_t b)
{
  return a < b ? a : b;
}

/* -------------------------------------------------------------- the instruction */
/* A product: units (heads, experts) of m x n x k, and what their operands take.  Units
 * of a grouped product have rows of their own. */
typedef struct work {
  const nmb_engine *e;
  nmb_array array;
  int64_t units, m, n, k, arrays; /* m: of the largest unit */
  const nmb_routing *routing;     /* NULL: all units alike */
  int64_t b0, m0, m1;
  /* of one element: cycles of the DMA, and bytes in the scratchpad */
  double input_cycles, weight_cycles, output_cycles, input_bytes, weight_bytes;
  double inputs, weights, outputs; /* elements of all units, as the operands name them */
} work;

static int64_t
rows_of(const work *w, int64_t unit)
{
  if (!w->routing)
    return w->m;
  const int64_t end = least(w->routing->load[w->b0 + unit], w->m1);
  return end > w->m0 ? end - w->m0 : 0;
}

/* Seconds that a byte of a memory takes through the DMA engine. */
static double
byte_seconds(const nmb_engine *e, const nmb_mem *m)
{
  double rate = m->bytes_per_s * PAR(MEMORY);
  if (PAR(DMA) > 0)
    rate = fmin(rate, PAR(DMA) * e->devices);
  return 1 / rate;
}

static work
work_of(const nmb_prog *p, const nmb_engine *e, const nmb_insn *in)
{
  const nmb_op *op = &p->op[in->op];
  const nmb_tile *t = &in->tile;
  work w = {.e = e, .units = t->b1 - t->b0, .m = t->m1 - t->m0, .n = t->n1 - t->n0};
  w.array = (nmb_array){(int64_t)PAR(ROWS), (int64_t)PAR(COLS),
                        nmb_flow_find(e->param[P_FLOW].text)};
  w.k = t->k1 - t->k0;
  w.arrays = (int64_t)PAR(ARRAYS) * e->devices;
  w.b0 = t->b0, w.m0 = t->m0, w.m1 = t->m1;
  if (op->code == NMB_OP_GLINEAR)
    w.routing = &p->routing[nmb_op_int(op, "routing", 0)];
  double rows = 0;
  for (int64_t u = 0; u < w.units; u++)
    rows += (double)rows_of(&w, u);
  w.inputs = rows * (double)w.k;
  w.outputs = rows * (double)w.n;
  w.weights = (double)w.units * (double)w.n * (double)w.k;
  w.input_bytes = nmb_dtype_get(p->tensor[op->in[0]].dtype)->bits / 8.0;
  w.weight_bytes = nmb_dtype_get(p->tensor[op->in[1]].dtype)->bits / 8.0;
  for (int i = 0; i < in->nopnd; i++) {
    const nmb_operand *o = &in->opnd[i];
    const nmb_mem *m = &p->hw->mem[o->mem];
    if (m->local)
      continue;
    const double c = nmb_operand_bytes(o) * byte_seconds(e, m) * PAR(CLOCK);
    if (o->write)
      w.output_cycles += c / fmax(w.outputs, 1);
    else if (o->tensor == op->in[1])
      w.weight_cycles += c / fmax(w.weights, 1);
    else
      w.input_cycles += c / fmax(w.inputs, 1);
  }
  return w;
}

/* Cycles of the arrays for one product, its folds dealt to all of them. */
static double
array_cycles(const work *w, int64_t m, int64_t n, int64_t k, int64_t units)
{
  const nmb_array_work a = nmb_array_gemm(&w->array, m, n, k);
  return ceil(a.folds * (double)units / (double)w->arrays) * a.fold_cycles;
}

/* All folds of all units dealt to the arrays at once: no tiles. */
static double
folds_cycles(const work *w)
{
  double folds = 0, sum = 0;
  for (int64_t u = 0; u < w->units; u++) {
    const int64_t m = rows_of(w, u), alike = w->routing ? 1 : w->units;
    if (m == 0)
      continue;
    const nmb_array_work a = nmb_array_gemm(&w->array, m, w->n, w->k);
    folds += a.folds * (double)alike;
    sum += a.fold_cycles * a.folds * (double)alike;
    if (!w->routing)
      break;
  }
  return folds > 0 ? ceil(folds / (double)w->arrays) * (sum / folds) - 1 : 0;
}

/* ------------------------------------------------------------------------ tiles */
typedef struct tiling {
  int64_t m, n, k, units; /* units: of whole products in one tile */
  int buffers;
  double cycles; /* in closed form */
} tiling;

static double
tile_bytes(const work *w, const tiling *t)
{
  const double m = (double)t->m, n = (double)t->n, k = (double)t->k;
  return (double)t->units * (m * k * w->input_bytes + k * n * w->weight_bytes +
                             m * n * w->e->param[P_SUM].value);
}

/* What is loaded of a unit in all: of each operand how many times. */
static void
loads_of(const work *w, const tiling *t, int64_t m, double *input, double *weight)
{
  const int64_t nm = ceil_div(m, t->m), nn = ceil_div(w->n, t->n),
                nk = ceil_div(w->k, t->k);
  *input = nk == 1 && nm == 1 ? 1 : (double)nn;
  *weight = nk == 1 ? 1 : (double)nm;
}

static nmb_tiling
buffering(const work *w, const tiling *t)
{
  const nmb_engine *e = w->e;
  return (nmb_tiling){PAR(DELAY) * PAR(CLOCK), t->buffers, t->buffers};
}

/* In closed form, from the mean unit. */
static void
estimate(const work *w, tiling *t)
{
  double tiles, load, store, input, weight;
  const double mean = w->inputs / (double)w->k / (double)w->units;
  const int64_t m = (int64_t)ceil(mean);
  const nmb_tiling b = buffering(w, t);
  loads_of(w, t, m, &input, &weight);
  tiles = (double)ceil_div(m, t->m) * (double)ceil_div(w->n, t->n) *
          (double)ceil_div(w->k, t->k) * (double)ceil_div(w->units, t->units);
  load = input * w->inputs * w->input_cycles + weight * w->weights * w->weight_cycles;
  store = w->outputs * w->output_cycles;
  t->cycles = nmb_stream_closed(&b, tiles, load / tiles,
                                array_cycles(w, least(t->m, m), t->n, t->k, t->units),
                                store / tiles);
}

static void
consider(const work *w, double room, tiling t, tiling *best)
{
  if (tile_bytes(w, &t) * t.buffers > room)
    return;
  estimate(w, &t);
  if (best->cycles < 0 || t.cycles < best->cycles)
    *best = t;
}

/* From whole down by halves to `unit`; of very long edges the steps between are left out. */
static int
edges(int64_t whole, int64_t unit, int64_t *out)
{
  int n = 0;
  for (int64_t x = whole; x > unit && n < HALVINGS - 1;
       x = ceil_div(ceil_div(x, 2), unit) * unit)
    out[n++] = x;
  out[n++] = least(whole, unit);
  return n;
}

static void
search(const work *w, double room, int buffers, tiling *best)
{
  int64_t m[HALVINGS], n[HALVINGS], k[HALVINGS];
  const bool is = w->array.flow == NMB_FLOW_IS, ws = w->array.flow == NMB_FLOW_WS;
  const int nm = edges(w->m, ws ? 1 : is ? w->array.cols : w->array.rows, m);
  const int nn = edges(w->n, is ? 1 : w->array.cols, n);
  const int nk = edges(w->k, ws || is ? w->array.rows : 1, k);
  for (int64_t u = w->units; u > 1; u = ceil_div(u, 2))
    consider(w, room, (tiling){w->m, w->n, w->k, u, buffers, -1}, best);
  for (int a = 0; a < nm; a++)
    for (int b = 0; b < nn; b++)
      for (int c = 0; c < nk; c++)
        consider(w, room, (tiling){m[a], n[b], k[c], 1, buffers, -1}, best);
}

static nmb_status
choose(nmb_run *run, const work *w, tiling *best)
{
  const nmb_engine *e = w->e;
  const double room = PAR(SPAD) > 0 ? PAR(SPAD) * e->devices : INFINITY;
  best->cycles = -1;
  search(w, room, (int)PAR(BUFFERS), best);
  if (PAR(BUFFERS) > 1)
    search(w, room, 1, best); /* of larger tiles */
  if (best->cycles < 0)
    return nmb_fail(run, NMB_INFEASIBLE, NMB_NOLOC,
                    "engine %s: the least tile does not fit a scratchpad of %.0f bytes",
                    e->name, PAR(SPAD));
  return NMB_OK;
}

/* One unit, tile by tile. */
static void
run_unit(const work *w, const tiling *t, int64_t rows, nmb_stream *s)
{
  const int64_t nm = ceil_div(rows, t->m), nn = ceil_div(w->n, t->n),
                nk = ceil_div(w->k, t->k);
  for (int64_t b = 0; b < nn; b++)
    for (int64_t a = 0; a < nm; a++)
      for (int64_t c = 0; c < nk; c++) {
        const int64_t m = least(t->m, rows - a * t->m), n = least(t->n, w->n - b * t->n),
                      k = least(t->k, w->k - c * t->k);
        double load = 0, store = 0;
        if (nk > 1 || a == 0)
          load += (double)n * (double)k * w->weight_cycles;
        if (nk > 1 || nm > 1 || b == 0)
          load += (double)m * (double)k * w->input_cycles;
        if (c == nk - 1)
          store = (double)m * (double)n * w->output_cycles;
        nmb_stream_tiles(s, 1, load, array_cycles(w, m, n, k, 1), store);
      }
}

/* Several whole units at a time. */
static void
run_group(const work *w, const tiling *t, int64_t first, int64_t count, nmb_stream *s)
{
  double folds = 0, sum = 0, rows = 0;
  for (int64_t u = first; u < first + count; u++) {
    const int64_t m = rows_of(w, u);
    if (m == 0)
      continue;
    const nmb_array_work a = nmb_array_gemm(&w->array, m, t->n, t->k);
    folds += a.folds;
    sum += a.folds * a.fold_cycles;
    rows += (double)m;
  }
  const double n = (double)w->n, k = (double)w->k;
  const double cycles = folds > 0 ? ceil(folds / (double)w->arrays) * (sum / folds) : 0;
  nmb_stream_tiles(s, 1,
                   rows * k * w->input_cycles + (double)count * n * k * w->weight_cycles,
                   cycles, rows * n * w->output_cycles);
}

static double
stepped(const work *w, const tiling *t)
{
  nmb_stream s;
  const nmb_tiling b = buffering(w, t);
  nmb_stream_open(&s, &b);
  for (int64_t u = 0; u < w->units; u += t->units)
    if (t->units > 1)
      run_group(w, t, u, least(t->units, w->units - u), &s);
    else if (rows_of(w, u) > 0)
      run_unit(w, t, rows_of(w, u), &s);
  return nmb_stream_close(&s);
}

/* ------------------------------------------------------------------------- cost */
/* What is no product: `cycles` of the vector unit, operands in even pieces. */
static double
flat(const nmb_engine *e, double cycles, double read, double written, bool step)
{
  nmb_stream s;
  const nmb_tiling b = {PAR(DELAY) * PAR(CLOCK), (int)PAR(BUFFERS), (int)PAR(BUFFERS)};
  const double n = CHUNKS;
  if (!step)
    return nmb_stream_closed(&b, n, read / n, cycles / n, written / n);
  nmb_stream_open(&s, &b);
  nmb_stream_tiles(&s, n, read / n, cycles / n, written / n);
  return nmb_stream_close(&s);
}

static void
traffic(const nmb_prog *p, const nmb_insn *in, const work *w, const tiling *t,
        nmb_cost *out, double *read, double *written)
{
  const nmb_engine *e = &p->hw->engine[in->engine];
  double input = 1, weight = 1;
  if (t)
    loads_of(w, t, w->m, &input, &weight);
  for (int i = 0; i < in->nopnd; i++) {
    const nmb_operand *o = &in->opnd[i];
    const nmb_mem *m = &p->hw->mem[o->mem];
    const bool is_weight = t && o->tensor == p->op[in->op].in[1];
    const double times = o->write || !t ? 1 : is_weight ? weight : input;
    const double bytes = nmb_operand_bytes(o) * times;
    if (m->local)
      continue;
    out->mem_bytes[o->mem] += bytes;
    out->mem_s[o->mem] += bytes / (m->bytes_per_s * PAR(MEMORY));
    out->energy[NMB_EPART_IO] += bytes * m->j_per_byte;
    out->energy[NMB_EPART_ARRAY] += bytes * PAR(E_SPAD);
    *(o->write ? written : read) += bytes * byte_seconds(e, m) * PAR(CLOCK);
  }
}

static nmb_status
cost(nmb_run *run, const nmb_prog *p, const nmb_insn *in, nmb_fidelity fidelity,
     const nmb_watch *watch, nmb_cost *out)
{
  (void)watch;
  const bool step = fidelity == NMB_CYCLE;
  const nmb_engine *e = &p->hw->engine[in->engine];
  const double macs = (double)nmb_op_macs(p, in->op, &in->tile);
  const double vecs = (double)nmb_op_vecs(p, in->op, &in->tile);
  const double lanes = PAR(LANES) * e->devices;
  const bool product = macs > 0 && nmb_op_in_place(&p->op[in->op], 1) == NMB_NONE;
  const bool tiled = step || PAR(SPAD) > 0;
  double vector = ceil(vecs / lanes), compute = vector, total, read = 0, written = 0;
  if (macs > 0 && !product)
    compute += ceil(macs / lanes);
  if (product) {
    const work w = work_of(p, e, in);
    tiling t;
    compute += folds_cycles(&w);
    if (tiled)
      NMB_TRY(choose(run, &w, &t));
    traffic(p, in, &w, tiled ? &t : NULL, out, &read, &written);
    total = !tiled ? 0 : vector + (step ? stepped(&w, &t) : t.cycles);
  } else {
    traffic(p, in, NULL, NULL, out, &read, &written);
    total = tiled ? flat(e, compute, read, written, step) : 0;
  }
  double memory = 0;
  for (int i = 0; i < p->hw->nmem; i++)
    memory = fmax(memory, out->mem_s[i]);
  total = fmax(total, fmax(compute, memory * PAR(CLOCK)));
  out->time[NMB_CAUSE_COMPUTE] = compute / PAR(CLOCK);
  out->time[NMB_CAUSE_BUS] = (total - compute) / PAR(CLOCK);
  out->time[NMB_CAUSE_LAUNCH] = in->first ? e->launch_s : 0;
  out->energy[NMB_EPART_COMPUTE] = macs * PAR(E_MAC) + vecs * PAR(E_OP);
  return NMB_OK;
}

NMB_PLUGIN
{
    NMB_PLUGIN_HEAD,
    .kind = "model",
    .name = "systolic",
    .version = "2",
    .summary = "systolic arrays, a vector unit, and a scratchpad filled by DMA",
    .source = "samajdar2020scalesim",
    .limits = "folds of one product do not overlap; all arrays work on one tile; the "
              "scratchpad's ports and banks are never short; what follows a product on "
              "the vector unit does not overlap with it; values in local memory are free",
    .opts = params,
    .cost = cost,
    .steps = true,
};
