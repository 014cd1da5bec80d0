/* SPDX-License-Identifier: GPL-3.0-or-later */
/* attacc-dgx: GPUs with and without AttAcc devices, by the rules of AttAcc's public
 * simulator, so that our machines can be held against its published figures.
 *
 * One decoder block is cut over the GPUs (tensor parallel), the rest is a product.
 * GPU     the longer of arithmetic and traffic, both slowed by idle cores in the last
 *         wave of tiles.  Tiles are chosen by least cache traffic x (cores / busy)^2.
 * links   all-reduce of n GPUs: (n - 1) steps of max(6.06 us + 0.009 ns a byte of a
 *         600 GB/s link, bytes over one direction)
 * AttAcc  attention heads go round over 5 stacks and 16 channels.  One head of length L
 *         on a channel: 2 ceil(L/16) MACs of all banks for the scores and as many for
 *         the context, 32 of them to a row, a row 31 ccd + RTP + RP + RCD; 2 cycles
 *         for each of 8 ceil(L/256) moves of scores.  These are exact for one round of
 *         heads; two rounds overlap, and a refresh of 438 cycles comes every 5070.
 * A decode step is the mean over all output positions. */
#include "nmbench/nmb_plugin.h"

#include <math.h>
#include <string.h>

/* ----------------------------------------------------------------- the tables */
/* From AttAcc's artifact, src/config.py. */
typedef struct shape {
  const char *name;
  double blocks, width, heads, head_width, ff;
  bool glu, relu;
} shape;
static const shape shapes[] = {
    {"gpt-175b", 96, 12288, 96, 128, 4, false, false},
    {"gpt-89b", 48, 12288, 96, 128, 4, false, false},
    {"gpt-13b", 40, 5120, 40, 128, 4, false, false},
    {"llama-7b", 32, 4096, 32, 128, 8.0 / 3, true, false},
    {"llama-65b", 80, 8192, 64, 128, 8.0 / 3, true, false},
    {"mt-76b", 60, 10240, 40, 128, 4, false, false},
    {"mt-146b", 80, 12288, 80, 128, 4, false, false},
    {"mt-310b", 96, 16384, 128, 128, 4, false, false},
    {"mt-530b", 105, 20480, 128, 160, 4, false, false},
    {"mt-1008b", 128, 25600, 160, 160, 4, false, false},
    {"opt-66b", 64, 9216, 72, 128, 4, false, true},
};
#define MODELS                                                                           \
  "gpt-175b|gpt-89b|gpt-13b|llama-7b|llama-65b|mt-76b|mt-146b|mt-310b|mt-530b|mt-1008b|" \
  "opt-66b"

typedef struct gpu {
  double cores, flops, bytes_per_s, l1, l2, link;
} gpu;
static const gpu a100 = {108, 312e12, 3352e9, 192 << 10, 40 << 20, 600e9};
static const gpu h100 = {132, 989.4e12, 3352e9, 256 << 10, 50 << 20, 900e9};
#define COMPUTE_USE 0.8
#define MEMORY_USE 0.85
#define STACKS 5
#define STACK_BW 670.4e9
#define PIM_LINK 600e9
#define TCK 0.769e-9

/* J a byte; its table has the four steps of a read's way in pJ a bit but multiplies
 * them with bytes for AttAcc's moves of vectors, which we repeat. */
#define E_MEM ((0.11 + 0.44 + 1.01 + 1.23 + 0.5 + 0.3) * 8e-12)
#define E_L2 (0.3 * 8e-12)
#define E_L1 (0.16 * 8e-12)
#define E_REG 0.0675e-12
#define E_MAC 0.32e-12
#define E_LINK (1.3 * 8e-12)
#define E_SRAM 0.0034e-12

/* ------------------------------------------------------------------ operations */
typedef enum kind { FC, MATMUL, SOFTMAX, ACT, NORM, ALLREDUCE, TOPIM, NKIND } kind;
typedef struct op {
  const char *name; /* as a part of the time */
  kind kind;
  double m, n, k, count;
  double inputs; /* ACT: two for gated units; NORM: 2 */
  double work;   /* operations an element, for ACT */
  bool ff;
  double time;
  bool memory_bound;
} op;

enum { EM, EL2, EL1, EREG, EMAC, ELINK, NENERGY };
typedef struct joules {
  double v[NENERGY];
} joules;

typedef struct plan {
  const gpu *g;
  double gpus;
  double word; /* bytes */
  bool pim, limited;
  char level; /* b(ank), g(roup), s(tack) */
} plan;

typedef struct traffic {
  double mem, l2, l1, reg;
} traffic;

static double
flops_of(const op *o)
{
  switch (o->kind) {
  case SOFTMAX:
  case NORM: return 5 * o->m * o->n * o->count;
  case ACT: return o->work * o->m * o->n * o->count;
  case FC:
  case MATMUL: return 2 * o->m * o->n * o->k * o->count;
  default: return 0;
  }
}

/* ------------------------------------------------------------------------ GPU */
static double
tile_bytes(const plan *p, const op *o, double tm, double tn)
{
  return (ceil(o->n / tn) * o->m * o->k + ceil(o->m / tm) * o->n * o->k + o->m * o->n) *
         p->word * o->count;
}

/* Busy share of the cores in all waves. */
static double
busy(const plan *p, const op *o, double tm, double tn)
{
  double blocks = o->count;
  if (o->kind == FC)
    blocks *= ceil(o->m / tm) * ceil(o->n / tn);
  return blocks / (ceil(blocks / p->g->cores) * p->g->cores);
}

static void
best_l1(const plan *p, const op *o, double *tm, double *tn)
{
  static const double sizes[] = {8, 16, 32, 64, 128, 192, 256, 320, 384, 448, 512};
  double least = INFINITY;
  *tm = *tn = 0;
  for (int i = 0; i < 11; i++)
    for (int j = 0; j < 11; j++) {
      const double a = fmin(sizes[i], o->m), b = fmin(sizes[j], o->n);
      if ((a + b) * 32 * p->word + a * b * p->word > p->g->l1)
        continue;
      const double use = busy(p, o, a, b);
      const double cost = tile_bytes(p, o, a, b) / (use * use);
      if (cost < least) {
        least = cost;
        *tm = a;
        *tn = b;
      }
    }
}

/* Blocks of L1 tiles that fit the L2 cache with a 64th of K. */
static void
best_l2(const plan *p, const op *o, double l1m, double l1n, double *tm, double *tn)
{
  const int64_t nm = (int64_t)(o->m / l1m) + 1, nn = (int64_t)(o->n / l1n) + 1;
  double least = INFINITY;
  *tm = *tn = 0;
  for (int64_t i = 1; i <= nm; i++)
    for (int64_t j = 1; j <= nn; j++) {
      const double a = i == nm ? o->m : l1m * (double)i;
      const double b = j == nn ? o->n : l1n * (double)j;
      if (((a + b) * (o->k / 64) + a * b) * p->word > p->g->l2 && (a != l1m || b != l1n))
        continue;
      const double bytes =
          (ceil(o->m / a) * o->n * o->k + ceil(o->n / b) * o->m * o->k + o->m * o->n) *
          p->word;
      if (bytes < least) {
        least = bytes;
        *tm = a;
        *tn = b;
      }
    }
}

static double
plain_bytes(const plan *p, const op *o)
{
  return (1 + o->inputs) * o->m * o->n * o->count * p->word;
}

static traffic
traffic_of(const plan *p, const op *o, double *l1m, double *l1n)
{
  double l2m, l2n;
  best_l1(p, o, l1m, l1n);
  if (o->kind != FC && o->kind != MATMUL) {
    const double b = plain_bytes(p, o);
    return (traffic){b, b, b, b};
  }
  best_l2(p, o, *l1m, *l1n, &l2m, &l2n);
  return (traffic){tile_bytes(p, o, l2m, l2n), tile_bytes(p, o, *l1m, *l1n),
                   tile_bytes(p, o, 16, 16), 3 * o->m * o->n * o->k};
}

static void
gpu_cost(const plan *p, op *o, joules *e)
{
  double l1m, l1n;
  const traffic t = traffic_of(p, o, &l1m, &l1n);
  const double use = busy(p, o, l1m, l1n);
  const double compute =
      flops_of(o) / (p->g->flops * COMPUTE_USE * use * floor(2 / p->word));
  const double scale = 1555e9 / p->g->bytes_per_s;
  double memory = t.mem / (p->g->bytes_per_s * MEMORY_USE * use);
  if (o->kind == ACT)
    memory = 1e-6 * (8.29 + 0.000000447 * scale * t.mem);
  if (o->kind == NORM)
    memory = 1e-6 * (6.87 + 0.0000016 * scale * t.mem);
  o->time = fmax(compute, memory);
  o->memory_bound = memory >= compute;
  const double each[NENERGY] = {
      t.mem * E_MEM, t.l2 * E_L2, t.l1 * E_L1, t.reg * E_REG, flops_of(o) / 2 * E_MAC, 0};
  for (int i = 0; i < NENERGY; i++)
    e->v[i] = each[i] * p->gpus;
}

static void
link_cost(const plan *p, op *o, joules *e)
{
  const double bytes = o->m * o->n * o->count * p->word;
  if (o->kind == TOPIM)
    o->time = bytes / (PIM_LINK / 2);
  else {
    const double part = bytes / p->gpus;
    const double step = 1e-9 * (6060 + 0.009 * part * (600e9 / p->g->link));
    o->time = fmax(step, part / (p->g->link / 2)) * (p->gpus - 1);
  }
  /* as many AttAcc devices as its default, eight, share the way to them */
  e->v[ELINK] = bytes * E_LINK * (o->kind == TOPIM ? 8 : p->gpus);
}

/* ---------------------------------------------------------------------- AttAcc */
/* Cycles of one round of heads, a head a channel. */
static double
round_cycles(const plan *p, double length)
{
  const double moves = 8 * ceil(length / 256), macs = 2 * ceil(length / 16);
  if (p->level == 'g') /* four banks of a group in turn: rows open behind the MACs */
    return (p->limited ? 6 : 4) * 8 * macs + 2 * moves + 73;
  if (p->level == 's')
    return 2 * 64 * macs + 2 * moves + 219;
  const double ccd = p->limited ? 6 : 4, turn = 8 + 19 + 19;
  const double rows = floor(macs / 32), rest = macs - 32 * rows;
  const double phase =
      rows * (31 * ccd + turn) + (rest > 0 ? (rest - 1) * ccd + turn : 0);
  return 2 * phase + 2 * moves - 30;
}

static double
attention_cycles(const plan *p, double heads, double length)
{
  const double rounds = ceil(heads / 16);
  double cycles = rounds * round_cycles(p, length);
  if (p->level == 'b') /* the scores of one round run beside the context before */
    cycles -= floor(rounds / 2) * (2 * 8 * ceil(length / 256) + 69);
  double all = cycles;
  for (double last = -1; all != last;) {
    last = all;
    all = cycles + 438 * floor(last / 5070);
  }
  return all;
}

/* Scores and context together count as the scores. */
static void
pim_attention(const plan *p, op *o, joules *e)
{
  const double heads = ceil(o->count / STACKS), moves = 8 * ceil(o->n / 256);
  const double base = 4 * ceil(o->n / 16) * heads + (heads > 16 ? 16 : 0);
  const double macs = base * (p->level == 'b' ? 1 : p->level == 'g' ? 4 : 32);
  const double banks = p->level == 'b' ? 64 : p->level == 'g' ? 16 : 2;
  const double in = 8 * heads * 32, out = (8 + (16 + moves) + moves) * heads * 32;
  const double cell = 0.11 + 0.44 +
                      (p->level == 'b'   ? 0
                       : p->level == 'g' ? 1.01
                                         : 1.01 + 1.23 + 0.5);
  o->time = TCK * attention_cycles(p, heads, o->n);
  e->v[EM] = 8 * STACKS * 1e-12 *
             (macs * 32 * banks * cell * 8 + in * 0.3 + out * (0.5 + 1.23 + 1.01));
  e->v[EMAC] = 8 * flops_of(o) / 2 * E_MAC;
}

static void
pim_softmax(const plan *p, op *o, joules *e)
{
  const double bytes = plain_bytes(p, o), rate = STACK_BW * STACKS;
  o->time = fmax(flops_of(o) / (rate * floor(2 / p->word)), bytes / rate);
  e->v[EM] = bytes * E_SRAM * 8;
  e->v[EMAC] = flops_of(o) / 2 * E_MAC * 8;
}

/* ----------------------------------------------------------------------- block */
enum {
  QKV,
  TO,
  SCORE,
  SOFT,
  CONTEXT,
  BACK,
  PROJ,
  REDUCE1,
  NORM1,
  FF1,
  FF2,
  ACTF,
  FF3,
  REDUCE2,
  NORM2,
  MAXOPS
};

/* The operations of a block for `tokens` rows; query rows of each head x length. */
static void
block_ops(const plan *p, const shape *s, double batch, double rows, double length,
          bool decode, op *o)
{
  const double t = batch * rows, w = s->width, part = floor(w / p->gpus);
  const double ff = s->ff * part, heads = floor(s->heads / p->gpus) * batch;
  memset(o, 0, MAXOPS * sizeof *o);
  for (int i = 0; i < MAXOPS; i++)
    o[i].kind = NKIND;
  o[QKV] = (op){.name = "qkv", .kind = FC, .m = t, .n = 3 * part, .k = w, .count = 1};
  o[SCORE] = (op){.name = "attention",
                  .kind = MATMUL,
                  .m = rows,
                  .n = length,
                  .k = floor(w / s->heads),
                  .count = heads};
  o[SOFT] = (op){.name = "softmax",
                 .kind = SOFTMAX,
                 .m = rows,
                 .n = length,
                 .k = 1,
                 .count = heads,
                 .inputs = 1};
  o[CONTEXT] = (op){.name = "attention",
                    .kind = MATMUL,
                    .m = rows,
                    .n = floor(w / s->heads),
                    .k = length,
                    .count = heads};
  o[PROJ] = (op){.name = "projection", .kind = FC, .m = t, .n = w, .k = part, .count = 1};
  o[FF1] = (op){.name = "feed-forward",
                .kind = FC,
                .m = t,
                .n = ff,
                .k = w,
                .count = 1,
                .ff = true};
  if (s->glu)
    o[FF2] = o[FF1];
  o[ACTF] = (op){.name = "activation",
                 .kind = ACT,
                 .m = t,
                 .n = ff,
                 .k = 1,
                 .count = 1,
                 .inputs = s->glu ? 2 : 1,
                 .work = s->glu    ? 9
                         : s->relu ? 1
                                   : 8};
  o[FF3] = (op){.name = "feed-forward",
                .kind = FC,
                .m = t,
                .n = w,
                .k = ff,
                .count = 1,
                .ff = true};
  o[REDUCE1] = o[REDUCE2] =
      (op){.name = "all-reduce", .kind = ALLREDUCE, .m = t, .n = w, .k = 1, .count = 1};
  o[NORM1] = o[NORM2] =
      (op){.name = "norm", .kind = NORM, .m = t, .n = w, .k = 1, .count = 1, .inputs = 2};
  if (!p->pim || !decode)
    return;
  o[TO] =
      (op){.name = "to-pim", .kind = TOPIM, .m = t, .n = 3 * part, .k = 1, .count = 1};
  o[BACK] = (op){.name = "to-pim",
                 .kind = TOPIM,
                 .m = 1,
                 .n = floor(w / s->heads),
                 .k = 1,
                 .count = heads};
}

static void
cost_op(const plan *p, int i, op *o, bool decode, joules *e)
{
  const bool pim = p->pim && decode;
  memset(e, 0, sizeof *e);
  if (o->kind == ALLREDUCE || o->kind == TOPIM)
    link_cost(p, o, e);
  else if (pim && i == SCORE)
    pim_attention(p, o, e);
  else if (pim && i == SOFT)
    pim_softmax(p, o, e);
  else if (!pim || i != CONTEXT)
    gpu_cost(p, o, e);
}

/* What does not show: transfers behind attention and, pipelined over heads, the
 * projections behind attention or the other way round, up to one head of the GPU. */
static void
overlap(const plan *p, const shape *s, bool pipelined, op *o)
{
  const double shown = 1 / (s->heads / p->gpus), hidden = 1 - shown;
  const double attention = o[SCORE].time + o[CONTEXT].time + o[SOFT].time;
  const double fc = o[QKV].time + o[PROJ].time;
  double move = o[TO].time + o[BACK].time;
  if (!pipelined || attention > fc) {
    move = attention > move ? move * shown : move - attention * hidden;
    if (pipelined) {
      o[QKV].time *= shown;
      o[PROJ].time *= shown;
    }
  } else if (fc > move) {
    move *= shown;
    o[QKV].time -= attention * hidden * 0.75;
    o[PROJ].time -= attention * hidden * 0.25;
  } else {
    move -= attention * hidden;
    o[QKV].time *= shown;
    o[PROJ].time *= shown;
  }
  o[TO].time = o[BACK].time = move / 2;
  o[SOFT].time = 0;
}

/* Feed-forward layers on GPUs and AttAcc together. */
static void
share_ff(const plan *p, double batch, op *o)
{
  static const double free_[] = {16, 8, 1}, limited[] = {9, 3, 1};
  const int level = p->level == 'b' ? 0 : p->level == 'g' ? 1 : 2;
  const double scale =
      STACK_BW * STACKS * (p->limited ? limited : free_)[level] / p->g->bytes_per_s;
  for (int i = 0; i < MAXOPS; i++) {
    if (!o[i].ff || o[i].kind == NKIND)
      continue;
    const double bw = p->g->bytes_per_s;
    o[i].time *= o[i].memory_bound
                     ? bw / (bw + bw * scale / batch)
                     : p->g->flops / (p->g->flops + bw / p->word * 2 * scale);
  }
}

/* ---------------------------------------------------------------------- output */
static const char *const part_names[] = {"qkv",       "projection", "feed-forward",
                                         "attention", "softmax",    "activation",
                                         "norm",      "all-reduce", "to-pim"};
enum { NPART = sizeof part_names / sizeof *part_names };

typedef struct totals {
  double time[NPART];
  joules energy;
} totals;

static void
add(totals *t, const op *o, const joules *e)
{
  for (int i = 0; i < NPART; i++)
    if (!strcmp(o->name, part_names[i]))
      t->time[i] += o->time;
  for (int i = 0; i < NENERGY; i++)
    t->energy.v[i] += e->v[i];
}

static void
run_block(const plan *p, const shape *s, double batch, double rows, double length,
          bool decode, bool pipelined, bool ffopt, totals *t)
{
  op o[MAXOPS];
  joules e[MAXOPS];
  block_ops(p, s, batch, rows, length, decode, o);
  for (int i = 0; i < MAXOPS; i++)
    if (o[i].kind != NKIND)
      cost_op(p, i, &o[i], decode, &e[i]);
  if (p->pim && decode)
    overlap(p, s, pipelined, o);
  if (p->pim && decode && ffopt)
    share_ff(p, batch, o);
  for (int i = 0; i < MAXOPS; i++)
    if (o[i].kind != NKIND)
      add(t, &o[i], &e[i]);
}

static double
time_of(const totals *t, const char *name)
{
  double sum = 0;
  for (int i = 0; i < NPART; i++)
    if (!name || !strcmp(part_names[i], name))
      sum += t->time[i];
  return sum;
}

static void
emit(nmb_run *run, const shape *s, const totals *gen, double steps, const totals *sum)
{
  static const char *const energy[] = {"memory",    "l2",      "l1",
                                       "registers", "compute", "link"};
  const double f = s->blocks / steps;
  double joule = 0;
  nmb_emit(run, "time", f * time_of(gen, NULL));
  nmb_emit(run, "fc",
           f * (time_of(gen, "qkv") + time_of(gen, "projection") +
                time_of(gen, "feed-forward")));
  nmb_emit(run, "attention", f * time_of(gen, "attention"));
  nmb_emit(run, "communication",
           f * (time_of(gen, "all-reduce") + time_of(gen, "to-pim")));
  nmb_emit(run, "etc", f * (time_of(gen, "activation") + time_of(gen, "norm")));
  for (int i = 0; i < NPART; i++)
    nmb_emit_part(run, "part", part_names[i], NULL, f * gen->time[i]);
  for (int i = 0; i < NENERGY; i++) {
    nmb_emit_part(run, "energy_part", energy[i], NULL, f * gen->energy.v[i]);
    joule += f * gen->energy.v[i];
  }
  nmb_emit(run, "energy", joule);
  nmb_emit(run, "prefill", s->blocks * time_of(sum, NULL));
  for (int i = 0; i < NPART; i++)
    nmb_emit_part(run, "prefill_part", part_names[i], NULL, s->blocks * sum->time[i]);
}

static nmb_status
evaluate(nmb_run *run, const nmb_prog *none)
{
  (void)none;
  const char *level = nmb_opt_text(run, "pim"), *model = nmb_opt_text(run, "model");
  const double batch = (double)nmb_opt_int(run, "batch"),
               lin = (double)nmb_opt_int(run, "lin");
  const int64_t lout = nmb_opt_int(run, "lout");
  const shape *s = shapes;
  while (strcmp(s->name, model))
    s++;
  plan p = {.g = strcmp(nmb_opt_text(run, "gpu"), "h100") ? &a100 : &h100,
            .gpus = (double)nmb_opt_int(run, "gpus"),
            .word = (double)nmb_opt_int(run, "word"),
            .pim = strcmp(level, "none") != 0,
            .limited = nmb_opt_bool(run, "power-limit"),
            .level = !strcmp(level, "bg")       ? 'g'
                     : !strcmp(level, "buffer") ? 's'
                                                : 'b'};
  totals gen = {0}, sum = {0};
  run_block(&p, s, batch, lin, lin, false, false, false, &sum);
  for (int64_t i = 1; i < lout; i++)
    run_block(&p, s, batch, 1, lin + (double)i, true, nmb_opt_bool(run, "pipeline"),
              nmb_opt_bool(run, "ff-sharing"), &gen);
  emit(run, s, &gen, (double)(lout - 1), &sum);
  return NMB_OK;
}

static const nmb_opt opts[] = {
    {"model", "enum", NULL, "gpt-175b", MODELS, "shape of the decoder"},
    {"gpu", "enum", NULL, "a100a", "a100a|h100", "a100a: an A100 with HBM3"},
    {"gpus", "int", "1", "8", "1..64", "GPUs, which cut every layer"},
    {"pim", "enum", NULL, "none", "none|bank|bg|buffer", "where AttAcc computes"},
    {"power-limit", "bool", NULL, "false", "", "MACs no faster than the power budget"},
    {"pipeline", "bool", NULL, "false", "", "projections and attention overlap by heads"},
    {"ff-sharing", "bool", NULL, "false", "", "feed-forward layers on both"},
    {"batch", "int", "1", "1", "1..65536", "sequences"},
    {"lin", "int", "token", "2048", "1..1048576", "prompt"},
    {"lout", "int", "token", "128", "2..65536", "tokens generated"},
    {"word", "int", "B", "2", "1..2", "bytes of a value"},
    {0}};
static const nmb_metric metrics[] = {
    {"time", "s", "less", "a decode step, mean over all output positions"},
    {"fc", "s", "less", "its projections and feed-forward layers"},
    {"attention", "s", "less", "its scores and context"},
    {"communication", "s", "less", "its all-reduces and transfers to AttAcc"},
    {"etc", "s", "less", "its activations and norms"},
    {"part", "s", "less", "parts of time"},
    {"energy", "J", "less", "of a decode step"},
    {"energy_part", "J", "less", "parts of energy"},
    {"prefill", "s", "less", "the prompt"},
    {"prefill_part", "s", "less", "parts of prefill"},
    {0}};

NMB_PLUGIN
{
    NMB_PLUGIN_HEAD,
    .kind = "system",
    .name = "attacc-dgx",
    .version = "1",
    .summary = "DGX with and without AttAcc, by the rules of AttAcc's simulator",
    .source = "park2024attacc; github.com/scale-snu/attacc_simulator c600051",
    .limits = "its rules as they are: no static power, energy does not depend on the "
              "schedule, energy of vector moves in pJ/bit times bytes; attention cycles "
              "are exact for one round of heads at bank level, within 1% for more, and "
              "at the other levels rest on one measured kernel each (calibrated)",
    .opts = opts,
    .metrics = metrics,
    .evaluate = evaluate,
};
