/* SPDX-License-Identifier: GPL-3.0-or-later */
/* cim: arrays of memory cells that multiply where the weights lie, analog or digital.
 *
 * A weight takes weight-bits / cell-bits columns, digital arrays `carry-columns` more for
 * their sums; an array holds `rows` inputs by as many weights as fit its columns.  One
 * pass puts dac-bits of each of up to `active-rows` inputs on the rows and reads
 * 1 / column-mux of the columns.  A vector on an array takes
 *     ceil(input-bits / dac-bits) ceil(rows / active-rows) column-mux   passes.
 * Tiles of the matrix go round over the arrays; if there are more tiles than arrays,
 * each is written first, row after row.
 * A pass lasts a clock; in a digital array whose sums ripple through it, the longest
 * chain of adders: (columns of a weight + rows of a pipeline stage + 2) adder-time.
 * Energy is counted by events and the statistics of the values: an input driven (if its
 * bits differ from those of the pass before: input-toggles), a cell that conducts
 * (input-ones x weight-ones), an adder of a digital array that switches (input-toggles x
 * weight-ones), a column converted, a pass; it goes with the square of the voltage.
 *
 * Cycle fidelity runs round after round and vector after vector: inputs are brought for
 * the next vector while this one is on the rows, a round takes as many passes as its
 * fullest tile has groups of rows, and the writing of cells waits for the vectors before
 * it. */
#include "nmbench/nmb_plugin.h"
#include "nmbench/nmb_stream.h"

#include <math.h>

#define PARAMS(X)                                                                        \
  X(ROWS, "rows", "int", "1", NULL, "1..1048576", "inputs of an array")                  \
  X(COLS, "cols", "int", "1", NULL, "1..1048576", "columns of cells")                    \
  X(ARRAYS, "arrays", "int", "1", "1", "1..", "arrays of a device")                      \
  X(ACTIVE, "active-rows", "int", "row", "0", "0..", "rows of a pass; 0: all")           \
  X(MUX, "column-mux", "int", "1", "1", "1..", "columns that share a converter")         \
  X(DAC, "dac-bits", "int", "bit", "1", "1..16", "bits of an input in a pass")           \
  X(ADC, "adc-bits", "int", "bit", "0", "0..32", "of a converter; 0: digital sums")      \
  X(NOISE, "adc-noise", "real", "1", "0", "0..1000", "of a conversion, in steps")        \
  X(RANGE, "adc-range", "ratio", "1", "100%", "0.001..1", "of the largest sum of the rows in use") \
  X(CELL, "cell-bits", "int", "bit", "1", "1..8", "bits of a weight in a cell")          \
  X(CARRY, "carry-columns", "int", "1", "0", "0..64", "columns for sums, of a weight")   \
  X(INPUT, "input-bits", "int", "bit", "0", "0..32", "0: of the input's format")         \
  X(WEIGHT, "weight-bits", "int", "bit", "0", "0..32", "0: of the weight's format")      \
  X(CLOCK, "pass-time", "time", "s", NULL, "1ps..", "a pass")                            \
  X(ADDER, "adder-time", "time", "s", "0", "0..", "a full adder; 0: pass-time holds")    \
  X(STAGE, "stage-rows", "int", "row", "0", "0..", "rows between pipeline registers")    \
  X(WRITE, "write-time", "time", "s", NULL, "0..", "a row of cells written")             \
  X(INONES, "input-ones", "ratio", "1", "50%", "0..1", "share of ones among input bits") \
  X(WONES, "weight-ones", "ratio", "1", "50%", "0..1", "likewise, of weights")           \
  X(TOGGLES, "input-toggles", "ratio", "1", "100%", "0..1",                              \
    "share of input bits that differ from those before on the same row")                 \
  X(VOLT, "voltage", "real", NULL, "1", "0.01..", "over the voltage of the energies")    \
  X(AREA, "area", "real", "mm2", "0", "0..", "of an array; 0: unknown")                  \
  X(E_DAC, "energy-dac", "energy", "J", NULL, "0..", "an input driven in a pass")        \
  X(E_CELL, "energy-cell", "energy", "J", NULL, "0..", "a cell that conducts in a pass") \
  X(E_ADDER, "energy-adder", "energy", "J", "0J", "0..",                                 \
    "a cell's adder that switches in a pass")                                            \
  X(E_ADC, "energy-adc", "energy", "J", NULL, "0..", "a column read in a pass")          \
  X(E_PASS, "energy-pass", "energy", "J", NULL, "0..", "all else of a pass of an array") \
  X(E_WRITE, "energy-write", "energy", "J", NULL, "0..", "a cell written")
NMB_PARAMS(PARAMS);
#define PAR(id) (e->param[P_##id].value)

typedef struct shape {
  double columns;             /* of a weight */
  double outputs;             /* weights side by side in an array */
  double tiles, rounds, rows; /* rows: used in the fullest tile */
  double slices, passes;      /* of an input vector on an array */
  double pass_s;
} shape;

static double
bits_of(const nmb_prog *p, nmb_id tensor, double given)
{
  return given > 0 ? given : nmb_dtype_get(p->tensor[tensor].dtype)->bits;
}

static shape
shape_of(const nmb_prog *p, const nmb_engine *e, const nmb_insn *in)
{
  const nmb_op *op = &p->op[in->op];
  const nmb_tile *t = &in->tile;
  const double n = (double)(t->n1 - t->n0), k = (double)(t->k1 - t->k0);
  shape s;
  s.columns = ceil(bits_of(p, op->in[1], PAR(WEIGHT)) / PAR(CELL)) + PAR(CARRY);
  s.outputs = floor(PAR(COLS) / s.columns);
  s.rows = fmin(k, PAR(ROWS));
  s.tiles = (double)(t->b1 - t->b0) * ceil(k / PAR(ROWS)) * ceil(n / fmax(s.outputs, 1));
  s.rounds = ceil(s.tiles / (PAR(ARRAYS) * e->devices));
  s.slices = ceil(bits_of(p, op->in[0], PAR(INPUT)) / PAR(DAC));
  s.passes = s.slices * PAR(MUX) * (PAR(ACTIVE) > 0 ? ceil(s.rows / PAR(ACTIVE)) : 1);
  s.pass_s = PAR(ADDER) > 0 ? (s.columns + PAR(STAGE) + 2) * PAR(ADDER) : PAR(CLOCK);
  return s;
}

/* Energy of one input vector and all of the tile's weights. */
static void
energy(const nmb_engine *e, const shape *s, double vectors, double n, double k, double b,
       nmb_cost *out)
{
  const double volt = PAR(VOLT) * PAR(VOLT), cells = n * s->columns;
  const double down = ceil(k / PAR(ROWS)), across = ceil(n / s->outputs);
  const double groups = PAR(ACTIVE) > 0 ? ceil(s->rows / PAR(ACTIVE)) : 1;
  const double drive = k * across * s->slices * PAR(TOGGLES) * PAR(E_DAC);
  const double adders = k * cells * s->slices * PAR(TOGGLES) * PAR(WONES) * PAR(E_ADDER);
  const double conduct = k * cells * s->slices * PAR(INONES) * PAR(WONES) * PAR(E_CELL);
  const double convert = cells * down * s->slices * groups * PAR(E_ADC);
  const double rest = down * across * s->passes * PAR(E_PASS);
  out->energy[NMB_EPART_COMPUTE] += volt * vectors * b * (convert + adders + rest);
  out->energy[NMB_EPART_ARRAY] += volt * vectors * b * (drive + conduct);
  if (s->rounds > 1)
    out->energy[NMB_EPART_ARRAY] += volt * b * k * cells * PAR(E_WRITE);
}

/* Groups of rows of the fullest among tiles [first, end): tiles run over the outputs,
 * then over the strips of k, of which the last is what is left. */
static double
groups_of(const nmb_engine *e, double k, double strips, double per_strip, double units,
          double first)
{
  const double strip = fmod(floor(first / (per_strip * units)), strips);
  const double rows = strip < strips - 1 ? PAR(ROWS) : k - (strips - 1) * PAR(ROWS);
  return PAR(ACTIVE) > 0 ? ceil(fmin(rows, PAR(ROWS)) / PAR(ACTIVE)) : 1;
}

/* Seconds of all rounds; `read` and `written` seconds of bytes outside of the cells. */
static double
stepped(const nmb_engine *e, const shape *s, const nmb_tile *t, double read,
        double written)
{
  const double n = (double)(t->n1 - t->n0), k = (double)(t->k1 - t->k0),
               m = (double)(t->m1 - t->m0), units = (double)(t->b1 - t->b0);
  const double strips = ceil(k / PAR(ROWS)), across = ceil(n / s->outputs);
  const double at_once = PAR(ARRAYS) * e->devices;
  nmb_stream q;
  nmb_stream_open(&q, &(nmb_tiling){0, 2, 2});
  for (double r = 0; r < s->rounds; r++) {
    /* the first tile of a round has most rows: only the last strip has fewer */
    const double groups = groups_of(e, k, strips, across, units, r * at_once);
    const double last = r < s->rounds - 1 ? 0 : written / m;
    if (s->rounds > 1)
      nmb_stream_tiles(&q, 1, 0, fmin(k, PAR(ROWS)) * PAR(WRITE), 0);
    nmb_stream_tiles(&q, m, read / s->rounds / m,
                     s->slices * PAR(MUX) * groups * s->pass_s, last);
  }
  return nmb_stream_close(&q);
}

static nmb_status
cost(nmb_run *run, const nmb_prog *p, const nmb_insn *in, nmb_fidelity fidelity,
     const nmb_watch *watch, nmb_cost *out)
{
  (void)watch;
  const bool step = fidelity == NMB_CYCLE;
  const nmb_engine *e = &p->hw->engine[in->engine];
  const nmb_opclass class_ = nmb_op_get(p->op[in->op].code)->class_;
  const nmb_tile *t = &in->tile;
  const double m = (double)(t->m1 - t->m0);
  double memory = 0, read = 0, written = 0;
  if (class_ != NMB_CLASS_MAC || p->op[in->op].nin < 2)
    return nmb_fail(run, NMB_UNSUPPORTED, NMB_NOLOC, "cim cannot run op '%s'",
                    nmb_op_get(p->op[in->op].code)->name);
  const shape s = shape_of(p, e, in);
  if (s.outputs < 1)
    return nmb_fail(run, NMB_UNSUPPORTED, NMB_NOLOC,
                    "a weight takes %.0f columns, the array has %.0f", s.columns,
                    PAR(COLS));
  energy(e, &s, m, (double)(t->n1 - t->n0), (double)(t->k1 - t->k0),
         (double)(t->b1 - t->b0), out);
  for (int i = 0; i < in->nopnd; i++) {
    const nmb_operand *o = &in->opnd[i];
    const nmb_mem *mem = &p->hw->mem[o->mem];
    const double bytes = nmb_operand_bytes(o);
    out->mem_bytes[o->mem] += bytes;
    if (mem->local || o->mem == e->resident) /* weights are where they are used */
      continue;
    out->mem_s[o->mem] += bytes / mem->bytes_per_s;
    out->energy[NMB_EPART_IO] += bytes * mem->j_per_byte;
    *(o->write ? &written : &read) += bytes / mem->bytes_per_s;
  }
  for (int i = 0; i < p->hw->nmem; i++)
    memory = fmax(memory, out->mem_s[i]);
  double compute = m * s.rounds * s.passes * s.pass_s;
  /* weights that do not stay */
  const double write = s.rounds > 1 ? s.rounds * s.rows * PAR(WRITE) : 0;
  double total = fmax(compute + write, memory);
  if (step) {
    total = fmax(stepped(e, &s, t, read, written), memory);
    compute = fmin(compute, total - write);
  }
  out->time[NMB_CAUSE_COMPUTE] = compute;
  out->time[NMB_CAUSE_ROW] = write;
  out->time[NMB_CAUSE_BUS] = fmax(total - compute - write, 0);
  out->time[NMB_CAUSE_LAUNCH] = in->first ? e->launch_s : 0;
  return NMB_OK;
}

NMB_PLUGIN
{
    NMB_PLUGIN_HEAD,
    .kind = "model",
    .name = "cim",
    .version = "2",
    .summary = "arrays of cells that multiply, analog or digital",
    .source = "andrulis2024cimloop; sinangil2021cim; jia2020cim; wang2022c2c; "
              "kim2021colonnade",
    .limits = "partial sums of several arrays are added beside the next pass; energy by the "
              "statistics of the values, not by the values themselves",
    .opts = params,
    .cost = cost,
    .steps = true,
};
