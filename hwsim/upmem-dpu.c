/* SPDX-License-Identifier: GPL-3.0-or-later */
/* upmem-dpu: UPMEM's DPUs, small multithreaded processors beside DRAM banks.
 *
 * A DPU has its rows of a matrix in MRAM.  Each tasklet takes a block of a row, moves it
 * into WRAM and multiplies it by the input, which the host has broadcast.
 *   pipeline  an instruction a cycle in all, one of a tasklet every 11 cycles
 *   DMA       alpha + beta bytes cycles a block, one block at a time
 * In closed form every tasklet has a block in each round, the last round fewer; a product
 * takes the longer of the two, and the first block's DMA before it.  Cycle fidelity follows every tasklet: a block waits for the DMA engine, then for
 * its share of the pipeline.  Instructions of a multiply-accumulate are those measured,
 * loads, stores and loop included; floating point is software.
 * PrIM: Gomez-Luna et al., IEEE Access 2022, doi 10.1109/ACCESS.2022.3174101; pipeline as
 * in uPIMulator, Hyun et al., HPCA 2024. */
#include "nmbench/nmb_plugin.h"

#include <math.h>
#include <string.h>

#define PARAMS(X)                                                                        \
  X(CLOCK, "clock", "freq", "Hz", NULL, "1Hz..", "clock of a DPU")                       \
  X(TASKLETS, "tasklets", "int", "1", NULL, "1..24", "threads of a DPU")                 \
  X(DEPTH, "depth", "int", "cycle", NULL, "1..", "between instructions of a tasklet")    \
  X(BLOCK, "block", "size", "B", NULL, "8B..2KiB", "of a row, moved at a time")          \
  X(ALPHA, "dma-start", "real", "cycle", NULL, "0..", "of a DMA transfer")               \
  X(BETA, "dma-byte", "real", "cycle", NULL, "0..", "a byte of it")                      \
  X(INT, "mac-int8", "real", "1", NULL, "1..", "instructions a multiply-accumulate")     \
  X(FLOAT, "mac-float", "real", "1", NULL, "1..", "the same in floating point")          \
  X(BCAST, "broadcast", "bandwidth", "B/s", NULL, "1B/s..",                              \
    "of the host into all MRAMs, each copy counted")                                     \
  X(GATHER, "gather", "bandwidth", "B/s", NULL, "1B/s..", "of results out of MRAMs")     \
  X(E_INSN, "energy-instruction", "energy", "J", NULL, "0..", "an instruction")          \
  X(E_BYTE, "energy-byte", "energy", "J", NULL, "0..", "a byte from MRAM")
NMB_PARAMS(PARAMS);
#define PAR(id) (e->param[P_##id].value)
enum { MAXTASKLET = 24 };

/* A product on the busiest DPU. */
typedef struct work {
  double blocks, bytes; /* of rows; of a block */
  double insns, dma;    /* of a block: instructions; cycles of its transfer */
  double dpus, vectors, in_bytes, out_bytes;
} work;

static work
work_of(const nmb_prog *p, const nmb_engine *e, const nmb_insn *in)
{
  const nmb_op *o = &p->op[in->op];
  const nmb_tensor *w = &p->tensor[o->in[1]];
  const nmb_place *l = &in->place;
  const bool whole = nmb_dtype_get(w->dtype)->name[0] == 'i';
  const int64_t length = in->tile.k1 - in->tile.k0;
  const double k = (double)length, row = (double)nmb_bytes(w->dtype, w->group, length);
  const double per_row = ceil(row / PAR(BLOCK));
  work x = {.vectors = (double)l->vectors, .dpus = (double)l->nchannel * l->banks};
  x.blocks = (double)l->rows_per_bank * per_row;
  x.bytes = row / per_row;
  x.insns = k / per_row * (whole ? PAR(INT) : PAR(FLOAT));
  x.dma = PAR(ALPHA) + PAR(BETA) * x.bytes;
  x.in_bytes = k * 2 * x.dpus;
  x.out_bytes = (double)((in->tile.b1 - in->tile.b0) * (in->tile.n1 - in->tile.n0)) * 2;
  return x;
}

static double
closed(const nmb_engine *e, const work *w)
{
  const double rounds = floor(w->blocks / PAR(TASKLETS));
  const double rest = w->blocks - rounds * PAR(TASKLETS); /* in the last round */
  const double slots = rounds * fmax(PAR(TASKLETS), PAR(DEPTH)) +
                       (rest > 0 ? fmax(rest, PAR(DEPTH)) : 0);
  return w->dma + fmax(w->insns * slots, (w->blocks - 1) * w->dma);
}

/* Tells the watch of blocks: MRAM_READ when its DMA starts, MULTIPLY when the tasklet
 * has it. */
typedef struct teller {
  const nmb_watch *watch; /* NULL: nobody asks */
  double before;          /* cycles of the vectors before */
} teller;

static void
tell(const teller *to, const char *name, double cycle)
{
  if (to->watch)
    to->watch->command(to->watch->arg,
                       &(nmb_command){name, (int64_t)floor(to->before + cycle) + 1, 1, 0,
                                      -1, false});
}

/* Tasklet by tasklet: those that compute share the pipeline evenly, none faster than an
 * instruction in `depth` cycles. */
static double
stepped(const nmb_engine *e, const work *w, const teller *to)
{
  const int n = (int)PAR(TASKLETS);
  double left[MAXTASKLET] = {0}, now = 0, dma_free = 0, arrives[MAXTASKLET];
  bool computes[MAXTASKLET] = {false}, waits[MAXTASKLET] = {false};
  double todo = w->blocks;
  int running = 0;
  for (int i = 0; i < n && todo > 0; i++, todo--) {
    tell(to, "MRAM_READ", dma_free);
    dma_free += w->dma;
    arrives[i] = dma_free;
    waits[i] = true;
  }
  for (;;) {
    const double rate = running ? fmin(1.0 / PAR(DEPTH), 1.0 / running) : 0;
    double next = INFINITY;
    for (int i = 0; i < n; i++) {
      if (computes[i])
        next = fmin(next, now + left[i] / rate);
      else if (waits[i])
        next = fmin(next, arrives[i]);
    }
    if (isinf(next))
      return now;
    for (int i = 0; i < n; i++) {
      if (computes[i]) {
        left[i] -= (next - now) * rate;
        if (left[i] > 1e-6 * w->insns)
          continue;
        computes[i] = false;
        running--;
        if (todo > 0) { /* the next block */
          todo--;
          dma_free = fmax(dma_free, next);
          tell(to, "MRAM_READ", dma_free);
          dma_free += w->dma;
          arrives[i] = dma_free;
          waits[i] = true;
        }
      } else if (waits[i] && arrives[i] <= next) {
        waits[i] = false;
        computes[i] = true;
        left[i] = w->insns;
        running++;
        tell(to, "MULTIPLY", next);
      }
    }
    now = next;
  }
}

/* What the DPUs do for all vectors, one after the other. */
static void
tell_all(const nmb_engine *e, const work *w, const nmb_watch *watch)
{
  teller to = {.watch = watch};
  for (double v = 0; v < w->vectors; v++)
    to.before += stepped(e, w, &to);
  watch->command(watch->arg, &(nmb_command){"INSTRUCTION", 1,
                                            (int64_t)(w->vectors * w->blocks * w->insns),
                                            0, -1, true});
}

static nmb_status
cost(nmb_run *run, const nmb_prog *p, const nmb_insn *in, nmb_fidelity fidelity,
     const nmb_watch *watch, nmb_cost *out)
{
  const bool step = fidelity == NMB_CYCLE;
  const nmb_engine *e = &p->hw->engine[in->engine];
  const nmb_mem *m = &p->hw->mem[e->resident];
  if (nmb_op_get(p->op[in->op].code)->class_ != NMB_CLASS_MAC ||
      in->place.rows_per_bank < 1)
    return nmb_fail(run, NMB_UNSUPPORTED, NMB_NOLOC, "upmem-dpu cannot run op '%s'",
                    nmb_op_get(p->op[in->op].code)->name);
  const work w = work_of(p, e, in);
  const teller nobody = {0};
  const double cycles = step ? stepped(e, &w, &nobody) : closed(e, &w);
  const double pipe = fmin(w.blocks * w.insns, cycles);
  out->time[NMB_CAUSE_COMPUTE] = w.vectors * pipe / PAR(CLOCK);
  out->time[NMB_CAUSE_BUS] = w.vectors * (cycles - pipe) / PAR(CLOCK);
  out->time[NMB_CAUSE_TRANSFER] =
      w.vectors * (w.in_bytes / PAR(BCAST) + w.out_bytes / PAR(GATHER));
  out->time[NMB_CAUSE_LAUNCH] = in->first ? e->launch_s : 0;
  out->energy[NMB_EPART_COMPUTE] =
      w.vectors * w.dpus * w.blocks * w.insns * PAR(E_INSN);
  out->energy[NMB_EPART_ARRAY] = w.vectors * w.dpus * w.blocks * w.bytes * PAR(E_BYTE);
  out->energy[NMB_EPART_IO] = w.vectors * (w.in_bytes + w.out_bytes) * m->j_per_byte;
  for (int i = 0; i < in->nopnd; i++)
    out->mem_bytes[in->opnd[i].mem] += nmb_operand_bytes(&in->opnd[i]);
  out->mem_s[e->resident] = nmb_cost_seconds(out) * in->place.nchannel / m->channels;
  if (step && watch)
    tell_all(e, &w, watch);
  return NMB_OK;
}

NMB_PLUGIN
{
    NMB_PLUGIN_HEAD,
    .kind = "model",
    .name = "upmem-dpu",
    .version = "1",
    .summary = "DPUs: a multithreaded pipeline and a DMA engine beside each DRAM bank",
    .source = "Gomez-Luna et al., IEEE Access 2022, doi 10.1109/ACCESS.2022.3174101; Hyun et "
              "al., uPIMulator, HPCA 2024",
    .limits = "products only; tasklets share the pipeline evenly; no bank conflicts of the "
              "register file; the input is broadcast for every product; starting the DPUs "
              "costs what the machine file says",
    .opts = params,
    .cost = cost,
    .steps = true,
};
