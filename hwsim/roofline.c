/* SPDX-License-Identifier: GPL-3.0-or-later */
/* roofline: a processor as its two limits, arithmetic and memory.
 *
 * An instruction takes the longer of its arithmetic, with what it writes after it, and
 * its memory traffic.  Matrix products are cut into tiles that are dealt to cores (a
 * GPU's streaming multiprocessors), and the last wave of tiles may leave cores idle.
 * Libraries choose among a few tile shapes; so does this model: the one with least
 * time.  A tile of tm x tn feeds its tm tn products by tm + tn operands each step, so
 * that small tiles are less efficient: tm tn / (tm tn + h (tm + tn)), h = tile-feed.
 * A tile's result leaves after its last product: writes do not hide behind arithmetic.
 * Rows of norm that are longer than norm-row values are read again from memory.
 * Fractions and launches may be given for each class of ops, as measured ones differ.
 * State mixers are not cut into tiles: in chunks they run on the matrix units, token
 * by token on the units of fp32.
 * Weights in a format the matrix units do not know are widened on the way in:
 * they save traffic, not arithmetic.  Values in local memory (registers, shared
 * memory) cost no traffic.
 *
 * Cycle fidelity runs wave after wave of tiles: in steps of STEP_K products operands come
 * from memory while those before are multiplied, and a wave's results leave before the
 * next wave multiplies.  The bytes of an instruction are spread evenly over its waves;
 * the latency of memory hides behind the many loads in flight. */
#include "nmbench/nmb_plugin.h"
#include "nmbench/nmb_stream.h"

#include <math.h>

#define PARAMS(X)                                                                        \
  X(CORES, "cores", "int", NULL, NULL, "1..", "cores of a device")                       \
  X(CLOCK, "clock", "freq", "Hz", NULL, "1Hz..", "clock of the cores")                   \
  X(MACS16, "macs16", "int", "mac/cycle", NULL, "1..", "a core, 16-bit formats")         \
  X(MACS32, "macs32", "int", "mac/cycle", NULL, "1..", "a core, fp32")                   \
  X(MACSI8, "macs-int8", "int", "mac/cycle", NULL, "0..", "a core, int8; 0: widens")     \
  X(MACSF8, "macs-fp8", "int", "mac/cycle", NULL, "0..", "a core, fp8; 0: widens")       \
  X(OPS, "ops-per-cycle", "int", "op/cycle", NULL, "1..", "a core, simple operations")   \
  X(TILE_M, "tile-m", "int", "row", "16", "1..", "rows of the smallest matrix tile")     \
  X(TILE_N, "tile-n", "int", "row", "64", "1..", "columns of the smallest matrix tile")  \
  X(COMPUTE, "compute-fraction", "ratio", "1", NULL, "0.01..1", "usable of the peak")    \
  X(MEMORY, "memory-fraction", "ratio", "1", NULL, "0.01..1", "usable of the bandwidth") \
  X(FEED, "tile-feed", "int", "row", "0", "0..", "operands' share of a tile's time")     \
  X(NORMROW, "norm-row", "int", "element", "0", "0..",                                   \
    "longest row of norm that is read once; 0: any")                                     \
  X(SOFTMAX, "softmax-fraction", "ratio", "1", "1", "0.01..1",                           \
    "of the usable bandwidth, for softmax")                                              \
  X(ACT, "act-fraction", "ratio", "1", "1", "0.01..1",                                   \
    "of the usable bandwidth, for pointwise functions")                                  \
  X(BATCHED, "batched-fraction", "ratio", "1", "1", "0.01..1",                           \
    "likewise, for products with a matrix for each of a batch")                          \
  X(L_MAC, "launch-matrix", "time", "s", "0", "0..", "more than launch, for products")   \
  X(L_NORM, "launch-norm", "time", "s", "0", "0..", "likewise, for norm")                \
  X(L_ACT, "launch-act", "time", "s", "0", "0..", "likewise, for pointwise functions")   \
  X(E_MAC, "energy-mac", "energy", "J", NULL, "0..", "a multiply-accumulate, 16 bit")    \
  X(E_OP, "energy-op", "energy", "J", NULL, "0..", "a simple operation")
NMB_PARAMS(PARAMS);

/* Steps of k: those of a matrix instruction of 16-bit formats. */
enum { STEP_K = 16, MAXWAVES = 1024, PIECE = 1024 /* elements of a core at a time */ };

static int64_t
ceil_div(int64_t a, int64_t b)
{
  return (a + b - 1) / b;
}

/* Tiles of `tm` rows that the op's units need: experts have their own rows. */
static int64_t
row_tiles(const nmb_prog *p, const nmb_insn *in, int64_t tm)
{
  const nmb_op *op = &p->op[in->op];
  const nmb_tile *t = &in->tile;
  if (op->code != NMB_OP_GLINEAR)
    return (t->b1 - t->b0) * ceil_div(t->m1 - t->m0, tm);
  const nmb_routing *r = &p->routing[nmb_op_int(op, "routing", 0)];
  int64_t n = 0;
  for (int64_t e = t->b0; e < t->b1; e++) {
    const int64_t end = r->load[e] < t->m1 ? r->load[e] : t->m1;
    if (end > t->m0)
      n += ceil_div(end - t->m0, tm);
  }
  return n;
}

static bool
is_fp8(nmb_dtype d)
{
  return d == NMB_DT_F8E4M3 || d == NMB_DT_F8E5M2 || d == NMB_DT_F8BLK || d == NMB_DT_MXFP8;
}

/* Multiply-accumulates a cycle and core, by the formats of both factors. */
static double
mac_rate(const nmb_prog *p, const nmb_engine *e, const nmb_op *op)
{
  const nmb_dtype a = p->tensor[op->in[0]].dtype, b = p->tensor[op->in[1]].dtype;
  const bool int8 = a == NMB_DT_I8 && b == NMB_DT_I8;
  const bool fp8 = is_fp8(a) && is_fp8(b);
  if (a == NMB_DT_F32 || b == NMB_DT_F32)
    return e->param[P_MACS32].value;
  if (int8 && e->param[P_MACSI8].value > 0)
    return e->param[P_MACSI8].value;
  if (fp8 && e->param[P_MACSF8].value > 0)
    return e->param[P_MACSF8].value;
  return e->param[P_MACS16].value;
}

/* Of a convolution or a state update: all cores have work, channels and heads being
 * many. */
static double
state_cycles(const nmb_prog *p, const nmb_engine *e, const nmb_insn *in)
{
  const nmb_op *op = &p->op[in->op];
  const bool chunks = nmb_op_int(op, "chunk", 0) > 1 && in->tile.m1 - in->tile.m0 > 1;
  return (double)nmb_op_macs(p, in->op, &in->tile) / e->param[P_CORES].value /
         e->devices / e->param[chunks ? P_MACS16 : P_MACS32].value;
}

typedef struct waves {
  double n, each; /* waves; cycles of one */
  double steps;   /* of k in each */
} waves;

/* Cycles of a matrix product: waves of tiles over all cores, best tile shape. */
static double
mac_cycles(const nmb_prog *p, const nmb_engine *e, const nmb_insn *in, waves *shape)
{
  const nmb_tile *t = &in->tile;
  if (nmb_op_in_place(&p->op[in->op], 1) != NMB_NONE) {
    const double cycles = state_cycles(p, e, in);
    *shape = (waves){1, cycles, STEP_K};
    return cycles;
  }
  const int64_t cores = (int64_t)e->param[P_CORES].value * e->devices;
  const double rate = mac_rate(p, e, &p->op[in->op]);
  double best = -1;
  for (int64_t tm = (int64_t)e->param[P_TILE_M].value, i = 0; i < 4; i++, tm *= 2)
    for (int64_t tn = (int64_t)e->param[P_TILE_N].value, j = 0; j < 3; j++, tn *= 2) {
      const int64_t tiles = row_tiles(p, in, tm) * ceil_div(t->n1 - t->n0, tn);
      const int64_t k = t->k1 - t->k0;
      /* k of few tiles is split over idle cores */
      const int64_t split = tiles * 2 <= cores && tiles > 0 ? cores / tiles : 1;
      const double feed = e->param[P_FEED].value * (double)(tm + tn);
      const double each = ((double)(tm * tn) + feed) * (double)ceil_div(k, split) / rate;
      const double n = (double)ceil_div(tiles * split, cores);
      if (best >= 0 && n * each >= best)
        continue;
      best = n * each;
      *shape = (waves){n, each, (double)ceil_div(ceil_div(k, split), STEP_K)};
    }
  return best;
}

/* Times that an operand passes the interface. */
static double
passes(const nmb_prog *p, const nmb_engine *e, const nmb_insn *in, const nmb_operand *o)
{
  const nmb_op *op = &p->op[in->op];
  const double kept = e->param[P_NORMROW].value;
  if (op->code != NMB_OP_NORM || kept <= 0 || o->write || o->tensor != op->in[0])
    return 1;
  const nmb_tensor *x = &p->tensor[o->tensor];
  const double row = (double)x->dim[x->rank - 1];
  return 1 + 2 * fmin(1, fmax(0, row / kept - 1)); /* mean and variance, then the rest */
}

static double
fraction(const nmb_prog *p, const nmb_engine *e, const nmb_insn *in)
{
  const double all = e->param[P_MEMORY].value;
  switch (p->op[in->op].code) {
  case NMB_OP_SOFTMAX: return all * e->param[P_SOFTMAX].value;
  case NMB_OP_HLINEAR:
  case NMB_OP_QK:
  case NMB_OP_PV: /* one vector for each matrix is another kernel */
    return in->tile.m1 - in->tile.m0 > 1 ? all * e->param[P_BATCHED].value : all;
  case NMB_OP_ACT:
  case NMB_OP_GLU: return all * e->param[P_ACT].value;
  default: return all;
  }
}

static double
launch(const nmb_prog *p, const nmb_engine *e, const nmb_insn *in)
{
  const nmb_op *op = &p->op[in->op];
  if (!in->first)
    return 0;
  if (nmb_op_get(op->code)->class_ == NMB_CLASS_MAC)
    return e->launch_s + e->param[P_L_MAC].value;
  if (op->code == NMB_OP_NORM)
    return e->launch_s + e->param[P_L_NORM].value;
  if (op->code == NMB_OP_ACT || op->code == NMB_OP_GLU)
    return e->launch_s + e->param[P_L_ACT].value;
  return e->launch_s;
}

/* Seconds of waves that bring `read` and leave `written` seconds of bytes in all. */
static double
stepped(const waves *w, double compute, double read, double written)
{
  const double n = w->n, steps = w->steps;
  const double load = read / n / steps, work = compute / n / steps, store = written / n;
  nmb_stream s;
  nmb_stream_open(&s, &(nmb_tiling){0, 2, 1});
  if (n > MAXWAVES || steps < 2) {
    nmb_stream_tiles(&s, n, load * steps, work * steps, store);
    return nmb_stream_close(&s);
  }
  for (double i = 0; i < n; i++) {
    nmb_stream_tiles(&s, steps - 1, load, work, 0);
    nmb_stream_tiles(&s, 1, load, work, store);
  }
  return nmb_stream_close(&s);
}

static double
elements_of(const nmb_tile *t)
{
  return (double)(t->b1 - t->b0) * (double)(t->m1 - t->m0) * (double)(t->n1 - t->n0);
}

/* Without products: each core takes a piece at a time. */
static double
pieces(const nmb_engine *e, double elements, double compute, double read, double written)
{
  const double n =
      fmax(ceil(elements / (PIECE * e->param[P_CORES].value * e->devices)), 1);
  nmb_stream s;
  nmb_stream_open(&s, &(nmb_tiling){0, 2, 2});
  nmb_stream_tiles(&s, n, read / n, compute / n, written / n);
  return nmb_stream_close(&s);
}

static nmb_status
cost(nmb_run *run, const nmb_prog *p, const nmb_insn *in, nmb_fidelity fidelity,
     const nmb_watch *watch, nmb_cost *out)
{
  (void)run, (void)watch;
  const bool step = fidelity == NMB_CYCLE;
  const nmb_engine *e = &p->hw->engine[in->engine];
  const double hz = e->param[P_CLOCK].value, use = fraction(p, e, in);
  const double macs = (double)nmb_op_macs(p, in->op, &in->tile);
  const double vecs = (double)nmb_op_vecs(p, in->op, &in->tile);
  const double lanes = e->param[P_OPS].value * e->param[P_CORES].value * e->devices;
  double compute = vecs / lanes / hz, memory = 0, writes = 0;
  waves shape = {1, 0, 1};
  if (macs > 0)
    compute += mac_cycles(p, e, in, &shape) / hz / e->param[P_COMPUTE].value;
  for (int i = 0; i < in->nopnd; i++) {
    const nmb_operand *o = &in->opnd[i];
    const nmb_mem *m = &p->hw->mem[o->mem];
    const double bytes = nmb_operand_bytes(o) * passes(p, e, in, o);
    if (m->local)
      continue;
    out->mem_bytes[o->mem] += bytes;
    out->mem_s[o->mem] += bytes / (m->bytes_per_s * use);
    out->energy[NMB_EPART_IO] += bytes * m->j_per_byte;
    if (o->write)
      writes += bytes / (m->bytes_per_s * use);
  }
  for (int i = 0; i < p->hw->nmem; i++)
    memory = fmax(memory, out->mem_s[i]);
  const double read = fmax(memory - writes, 0);
  double bus = fmax(memory - compute, macs > 0 ? writes : 0);
  if (step && macs > 0)
    bus = stepped(&shape, compute, read, writes) - compute;
  else if (step)
    bus = pieces(e, elements_of(&in->tile), compute, read, writes) - compute;
  out->time[NMB_CAUSE_COMPUTE] = compute;
  out->time[NMB_CAUSE_BUS] = fmax(bus, fmax(memory - compute, 0));
  out->time[NMB_CAUSE_LAUNCH] = launch(p, e, in);
  out->energy[NMB_EPART_COMPUTE] =
      macs * e->param[P_E_MAC].value + vecs * e->param[P_E_OP].value;
  return NMB_OK;
}

NMB_PLUGIN
{
    NMB_PLUGIN_HEAD,
    .kind = "model",
    .name = "roofline",
    .version = "2",
    .summary = "a processor as its two limits, arithmetic in whole waves of tiles and "
               "memory bandwidth",
    .source = "williams2009roofline; wave quantisation as in park2024attacc",
    .limits = "caches keep an operand for the length of one instruction and no longer; "
              "no latency of "
              "memory, no power or clock limits; bandwidth does not depend on the "
              "pattern of access beyond the fractions given",
    .opts = params,
    .cost = cost,
    .steps = true,
};
