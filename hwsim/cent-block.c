/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A decoder block on CENT as a program of AiM instructions.
 *
 * Weights  outputs dealt to all banks; sums of 32 columns share a filled buffer (16
 *          where the activation function's results need registers, too)
 * Keys     a token's keys lie in one bank, tokens go round over the banks of all
 *          devices that share the weights; each head is a short product of its own
 * Values   a head lies in all banks of one channel, 16 of its columns at a time
 * Vectors  no bank holds two vectors of a product of vectors: they are written to banks
 *          0 and 1 of each bank group, multiplied into bank 2 (EWMUL), and read or
 *          copied over the buffer to bank 1 for the next product.  Each burst of these
 *          is an instruction of its own, and the front end decodes one a tick: with all
 *          blocks of a device it is what a long context costs most.
 * What runs on the near-memory units (sums of squares, exponents, rotation) is not here.
 * Source: the mapping that CENT's artifact documents (github.com/Yufeng98/CENT 8c79786). */
#include "hwsim/cent.h"

/* DRAM rows: only those that are used one after another must differ. */
enum {
  ROW_X,
  ROW_X_NORM,
  ROW_GAIN,
  ROW_Q,
  ROW_K,
  ROW_ACT,
  ROW_ACT_REST, /* follows ROW_ACT */
  ROW_SCORES = 16,
  ROW_KEYS = 256,
  ROW_VALUES = 4096,
  ROW_WEIGHTS = 8192,
  MAXROW = 16384
};

typedef struct writer {
  nmb_run *run;
  const cent *c;
  nmb_aim_list *out;
} writer;

static int64_t
parts(int64_t n, int64_t of)
{
  return (n + of - 1) / of;
}

static void
put(const writer *w, nmb_aim_op op, int64_t size, int bank, int64_t row)
{
  const int64_t used = CENT_CHANNELS / w->c->channels * w->c->channels;
  const nmb_aim_insn in = {.op = op,
                           .size = size,
                           .mask = (UINT64_C(1) << used) - 1,
                           .bank = bank,
                           .row = row % MAXROW};
  nmb_aim_add(w->run, w->out, in);
}

/* A burst of each copy of the block: bank is counted over the block's channels. */
static void
touch(const writer *w, nmb_aim_op op, int64_t bank, int64_t row)
{
  for (int64_t i = 0; i < w->c->copies; i++) {
    const int64_t ch = (bank / CENT_BANKS + i * w->c->channels) % CENT_CHANNELS;
    const nmb_aim_insn in = {.op = op,
                             .size = 1,
                             .mask = UINT64_C(1) << ch,
                             .bank = (int)(bank % CENT_BANKS),
                             .row = row % MAXROW};
    nmb_aim_add(w->run, w->out, in);
  }
}

static int64_t
banks(const cent *c)
{
  return c->channels * CENT_BANKS;
}

/* A vector of n, cut evenly over every step-th bank from `first` on. */
static void
vector(const writer *w, nmb_aim_op op, int64_t n, int64_t step, int64_t first, int64_t row,
       int64_t repeat)
{
  const int64_t each = parts(n, banks(w->c) / step), used = parts(n, each);
  for (int64_t b = 0; b < parts(each * repeat, CENT_BURST); b++)
    for (int64_t i = 0; i < used; i++)
      touch(w, op, i * step + first, row);
}

/* Bursts of the part of a vector of n that lies in a bank group. */
static int64_t
group_bursts(const cent *c, int64_t n)
{
  return parts(parts(n, banks(c) / 4), CENT_BURST);
}

/* ------------------------------------------------------------------- products */
static void
group_of_columns(const writer *w, int64_t columns, int64_t bursts, int64_t row,
                 int64_t step, bool function)
{
  for (int64_t i = 0; i < columns; i++)
    put(w, NMB_AIM_WR_BIAS, 1, -1, 0);
  for (int64_t i = 0; i < columns; i++)
    put(w, NMB_AIM_MAC_ABK, bursts, -1, row + i * step);
  for (int64_t i = 0; function && i < columns; i++) {
    put(w, NMB_AIM_AF, 1, -1, 0);
    put(w, NMB_AIM_RD_AF, 1, -1, 0);
  }
  for (int64_t i = 0; i < columns; i++)
    put(w, NMB_AIM_RD_MAC, 1, -1, 0);
}

static void
weights(const writer *w, int64_t in, int64_t out, bool function)
{
  const int64_t columns = parts(out, banks(w->c) * w->c->weight_shares);
  const int64_t slabs = parts(in, CENT_ROW), groups = parts(columns, function ? 16 : 32);
  const int64_t each = parts(columns, groups);
  for (int64_t s = 0; s < slabs; s++) {
    const int64_t left = in - s * CENT_ROW;
    const int64_t bursts = parts(left < CENT_ROW ? left : CENT_ROW, CENT_BURST);
    put(w, NMB_AIM_WR_GB, bursts, -1, 0);
    for (int64_t g = 0; g * each < columns; g++)
      group_of_columns(w, columns - g * each < each ? columns - g * each : each, bursts,
                       ROW_WEIGHTS + g * each * slabs + s, slabs,
                       function && s == slabs - 1);
  }
}

static void
one_sum(const writer *w, int64_t bursts, int64_t row)
{
  put(w, NMB_AIM_WR_BIAS, 1, -1, 0);
  put(w, NMB_AIM_MAC_ABK, bursts, -1, row);
  put(w, NMB_AIM_RD_MAC, 1, -1, 0);
}

static void
scores(const writer *w)
{
  const cent *c = w->c;
  const int64_t rows = parts(c->kv_heads * c->head_width, CENT_ROW);
  const int64_t rounds = parts(c->context, banks(c) * c->weight_shares);
  for (int64_t r = 0; r < rows; r++)
    for (int64_t i = 0; i < rounds * (c->heads / c->kv_heads); i++) {
      put(w, NMB_AIM_WR_GB, CENT_ROW / CENT_BURST, -1, 0);
      for (int64_t h = 0; h < CENT_ROW / c->head_width; h++)
        one_sum(w, parts(c->head_width, CENT_BURST),
                ROW_KEYS + i / (c->heads / c->kv_heads) * rows + r);
    }
}

static void
context(const writer *w)
{
  const cent *c = w->c;
  const int64_t rows = parts(c->context, CENT_ROW), each = c->head_width / CENT_BANKS;
  const int64_t heads = parts(c->kv_heads, c->channels);
  for (int64_t h = 0; h < heads * (c->heads / c->kv_heads); h++)
    for (int64_t r = 0; r < rows; r++) {
      const int64_t left = c->context - r * CENT_ROW;
      const int64_t bursts = parts(left < CENT_ROW ? left : CENT_ROW, CENT_BURST);
      put(w, NMB_AIM_WR_GB, bursts, -1, 0);
      for (int64_t i = 0; i < each; i++)
        one_sum(w, bursts,
                ROW_VALUES + (h / (c->heads / c->kv_heads) * each + i) * rows + r);
    }
}

/* ------------------------------------------------------------- vectors in banks */
/* Results in bank 2 of each bank group become the second operand at `to`. */
static void
pass_on(const writer *w, int64_t bursts, int64_t from, int64_t to)
{
  for (int b = 2; b < CENT_BANKS; b += 4) {
    put(w, NMB_AIM_COPY_BKGB, bursts, b, from);
    put(w, NMB_AIM_COPY_GBBK, bursts, b - 1, to);
  }
}

/* there: the vector is in the banks already, only the factors are written. */
static void
norm(const writer *w, bool there)
{
  const int64_t n = w->c->width, bursts = group_bursts(w->c, n);
  if (!there) {
    vector(w, NMB_AIM_W_MEM, n, 2, 0, ROW_X, 1);
    vector(w, NMB_AIM_W_MEM, n, 2, 1, ROW_X, 1);
  }
  one_sum(w, parts(parts(n, banks(w->c) / 2), CENT_BURST), ROW_X);
  if (!there)
    vector(w, NMB_AIM_W_MEM, n, 4, 0, ROW_X_NORM, 1);
  vector(w, NMB_AIM_W_MEM, n, 4, 1, ROW_X_NORM, 1);
  put(w, NMB_AIM_EWMUL, bursts, -1, ROW_X_NORM);
  pass_on(w, bursts, ROW_X_NORM, ROW_GAIN);
  put(w, NMB_AIM_EWMUL, bursts, -1, ROW_GAIN);
  vector(w, NMB_AIM_R_MEM, n, 4, 2, ROW_GAIN, 1);
  put(w, NMB_AIM_SYNC, 1, -1, 0);
}

/* Queries and keys come as pairs of real and imaginary part, twice as long. */
static void
rotate(const writer *w)
{
  const int64_t n = w->c->width, kv = n / (w->c->heads / w->c->kv_heads);
  vector(w, NMB_AIM_W_MEM, n, 4, 1, ROW_Q, 2);
  vector(w, NMB_AIM_W_MEM, kv, 4, 1, ROW_K, 2);
  put(w, NMB_AIM_EWMUL, parts(n, CENT_BURST), -1, ROW_Q);
  put(w, NMB_AIM_EWMUL, parts(kv, CENT_BURST), -1, ROW_K);
  vector(w, NMB_AIM_W_MEM, n, 4, 2, ROW_Q, 2);
  vector(w, NMB_AIM_W_MEM, kv, 4, 2, ROW_K, 2);
}

static void
append(const writer *w)
{
  const cent *c = w->c;
  const int64_t rows = parts(c->kv_heads * c->head_width, CENT_ROW);
  for (int64_t r = 0; r < rows; r++)
    for (int64_t b = 0; b < CENT_ROW / CENT_BURST; b++)
      touch(w, NMB_AIM_W_MEM, (c->context - 1) % (banks(c) * c->weight_shares) % banks(c),
            ROW_KEYS + r);
  for (int64_t h = 0; h < c->kv_heads; h++)
    for (int64_t i = 0; i < c->head_width / CENT_BANKS; i++) {
      const nmb_aim_insn in = {.op = NMB_AIM_WR_ABK,
                               .size = 1,
                               .mask = UINT64_C(1) << h % c->channels,
                               .bank = -1,
                               .row = ROW_VALUES + i};
      nmb_aim_add(w->run, w->out, in);
    }
}

/* All heads' scores, in bank `first` of the bank groups: a head in one of them. */
static void
score_vectors(const writer *w, nmb_aim_op op, int64_t first)
{
  const cent *c = w->c;
  const int64_t groups = banks(c) / 4, heads = parts(c->heads, groups);
  const int64_t rows = parts(c->context, CENT_ROW);
  for (int64_t r = 0; r < rows; r++) {
    const int64_t left = c->context - r * CENT_ROW;
    for (int64_t h = 0; h < heads; h++)
      for (int64_t b = 0; b < parts(left < CENT_ROW ? left : CENT_ROW, CENT_BURST); b++)
        for (int64_t g = 0; g < groups && g * heads + h < c->heads; g++)
          touch(w, op, g * 4 + first, ROW_SCORES + h * rows + r);
  }
}

/* Scores times a vector of equal factors. */
static void
scale_scores(const writer *w)
{
  const cent *c = w->c;
  const int64_t rows = parts(c->context, CENT_ROW), heads = parts(c->heads, banks(c) / 4);
  score_vectors(w, NMB_AIM_W_MEM, 0);
  score_vectors(w, NMB_AIM_W_MEM, 1);
  for (int64_t h = 0; h < heads; h++)
    for (int64_t r = 0; r < rows; r++) {
      const int64_t left = c->context - r * CENT_ROW;
      put(w, NMB_AIM_EWMUL, parts(left < CENT_ROW ? left : CENT_ROW, CENT_BURST), -1,
          ROW_SCORES + h * rows + r);
    }
  score_vectors(w, NMB_AIM_R_MEM, 2);
  put(w, NMB_AIM_SYNC, 1, -1, 0);
}

/* x1 * sigmoid(x1) * x3, in one or two rows of each bank group. */
static void
activation(const writer *w)
{
  const int64_t most = banks(w->c) / 4 * CENT_ROW, n = w->c->ff;
  const int64_t part[2] = {n < most ? n : most, n < most ? 0 : n - most};
  for (int pass = 0; pass < 2; pass++) {
    for (int i = 0; i < 2 && part[i] > 0; i++)
      vector(w, NMB_AIM_W_MEM, part[i], 4, 1, ROW_ACT + i, 1);
    for (int i = 0; i < 2 && part[i] > 0 && pass == 0; i++)
      vector(w, NMB_AIM_W_MEM, part[i], 4, 0, ROW_ACT + i, 1);
    for (int i = 0; i < 2 && part[i] > 0; i++)
      put(w, NMB_AIM_EWMUL, group_bursts(w->c, part[i]), -1, ROW_ACT + i);
    for (int i = 0; i < 2 && part[i] > 0 && pass == 0; i++)
      pass_on(w, group_bursts(w->c, part[i]), ROW_ACT + i, ROW_ACT + i);
  }
  for (int i = 0; i < 2 && part[i] > 0; i++)
    vector(w, NMB_AIM_R_MEM, part[i], 4, 2, ROW_ACT + i, 1);
  put(w, NMB_AIM_SYNC, 1, -1, 0);
}

void
nmb__cent_weights(nmb_run *run, const cent *c, nmb_aim_list *out)
{
  const writer w = {run, c, out};
  const int64_t n = c->width, kv = c->kv_heads * c->head_width;
  weights(&w, n, c->heads * c->head_width, false);
  weights(&w, n, kv, false);
  weights(&w, n, kv, false);
  weights(&w, n, n, false);
  weights(&w, n, c->ff, true);
  weights(&w, n, c->ff, false);
  weights(&w, c->ff, n, false);
}

void
nmb__cent_block(nmb_run *run, const cent *c, nmb_aim_list *out)
{
  const writer w = {run, c, out};
  const int64_t n = c->width, kv = c->kv_heads * c->head_width;
  norm(&w, false);
  weights(&w, n, c->heads * c->head_width, false);
  weights(&w, n, kv, false);
  weights(&w, n, kv, false);
  rotate(&w);
  append(&w);
  scores(&w);
  scale_scores(&w);
  scale_scores(&w);
  context(&w);
  weights(&w, n, n, false);
  norm(&w, false);
  weights(&w, n, c->ff, true);
  weights(&w, n, c->ff, false);
  activation(&w);
  weights(&w, c->ff, n, false);
}

void
nmb__cent_vocabulary(nmb_run *run, const cent *c, nmb_aim_list *out)
{
  const writer w = {run, c, out};
  weights(&w, c->vocabulary, c->width, false);
  norm(&w, true);
  weights(&w, c->width, c->vocabulary, false);
}
