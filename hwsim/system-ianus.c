/* SPDX-License-Identifier: GPL-3.0-or-later */
/* ianus: GPT-2 at batch 1 on an NPU whose memory is SK hynix AiM, by the paper's
 * parameters, and on the two systems it is held against.
 *
 * A generated token on IANUS is
 *   weights    on PIM: for each matrix ceil(N/128) ceil(K/1024) passes of all 8 x 16
 *              banks over one row: 64 bursts at tCCD 1 ns, tRCDRD 36 ns, tRP 30 ns
 *   cache      keys and values over the external interface
 *   remainder  of each block (norms, vector work, moves): proportional to d
 * NPU-MEM reads the weights over the external interface.  The prompt is matrix work on
 * the NPU with the weights read once.  The A100 runs as many kernels a block whatever
 * its width, so launches are most of its time.
 * Constants that the paper does not give are options; their defaults were fitted on the
 * rows that hwsim/validation/ianus.csv marks `fit`. */
#include "nmbench/nmb_plugin.h"

#include <math.h>
#include <string.h>

static const struct {
  const char *name;
  double d, blocks;
} shapes[] = {{"gpt2-m", 1024, 24},
              {"gpt2-l", 1280, 36},
              {"gpt2-xl", 1536, 48},
              {"gpt2-2.5b", 1920, 54}};
#define VOCAB 50257.0
#define BUS 256e9    /* B/s */
#define BUS_USE 0.85 /* as for the other machines */
#define NPU 184e12   /* FLOP/s */
#define A100 (312e12 * 0.8)

typedef struct work {
  double d, blocks;
} work;

static double
passes(double n, double k)
{
  return ceil(n / 128) * ceil(k / 1024) * (64 + 36 + 30) * 1e-9;
}

static double
pim_seconds(const work *w)
{
  const double d = w->d;
  return w->blocks *
             (passes(3 * d, d) + passes(d, d) + passes(4 * d, d) + passes(d, 4 * d)) +
         passes(VOCAB, d);
}

static double
weight_bytes(const work *w)
{
  return 2 * (12 * w->d * w->d * w->blocks + VOCAB * w->d);
}

/* Keys and values of all blocks, bf16. */
static double
cache_seconds(const work *w, double length)
{
  return 2 * 2 * length * w->d * w->blocks / (BUS * BUS_USE);
}

/* Seconds of all tokens but the first, which the prompt gives. */
static double
generation(const work *w, const char *system, double in, double out, double rest,
           double launch)
{
  const double length = in + out / 2, read = weight_bytes(w) / (BUS * BUS_USE);
  if (!strcmp(system, "a100"))
    return (out - 1) * w->blocks * launch;
  const double weights = strcmp(system, "ianus") ? read : pim_seconds(w);
  return (out - 1) *
         (weights + cache_seconds(w, length) + w->blocks * rest * w->d / 1024);
}

static double
prompt(const work *w, const char *system, double in, double rest, double use,
       double launch)
{
  const double flops = in * 2 * 12 * w->d * w->d * w->blocks + 2 * VOCAB * w->d;
  if (!strcmp(system, "a100"))
    return w->blocks * launch + flops / A100;
  return weight_bytes(w) / (BUS * BUS_USE) + flops / (NPU * use) +
         w->blocks * rest * w->d / 1024;
}

static nmb_status
evaluate(nmb_run *run, const nmb_prog *none)
{
  (void)none;
  const char *model = nmb_opt_text(run, "model"), *system = nmb_opt_text(run, "system");
  const double in = (double)nmb_opt_int(run, "in"), out = (double)nmb_opt_int(run, "out");
  const double rest = nmb_opt_real(run, "block-rest"),
               launch = nmb_opt_real(run, "a100-block");
  int i = 0;
  while (strcmp(shapes[i].name, model))
    i++;
  const work w = {shapes[i].d, shapes[i].blocks};
  const double first =
      prompt(&w, system, in, rest, nmb_opt_real(run, "npu-fraction"), launch);
  const double others = generation(&w, system, in, out, rest, launch);
  nmb_emit(run, "time", first + others);
  nmb_emit(run, "prompt", first);
  nmb_emit(run, "token", out > 1 ? others / (out - 1) : first);
  nmb_emit(run, "pim_weights", pim_seconds(&w));
  return NMB_OK;
}

static const nmb_opt opts[] = {
    {"model", "enum", NULL, "gpt2-m", "gpt2-m|gpt2-l|gpt2-xl|gpt2-2.5b", "shape"},
    {"system", "enum", NULL, "ianus", "ianus|npu-mem|a100", "what runs it"},
    {"in", "int", "token", "128", "1..65536", "prompt"},
    {"out", "int", "token", "64", "1..65536", "tokens generated"},
    {"block-rest", "time", "s", "25.1us", "0..",
     "remainder of a block of width 1024 (calibrated)"},
    {"npu-fraction", "ratio", "1", "0.31", "0.01..1",
     "usable of the NPU's peak on a prompt (calibrated)"},
    {"a100-block", "time", "s", "564us", "0..",
     "kernels of a block on the A100 (calibrated)"},
    {0}};
static const nmb_metric metrics[] = {
    {"time", "s", "less", "prompt and all tokens"},
    {"prompt", "s", "less", "prompt and the first token"},
    {"token", "s", "less", "each further token, mean"},
    {"pim_weights", "s", "less", "the weights of a token on PIM, parameters only"},
    {0}};

NMB_PLUGIN
{
    NMB_PLUGIN_HEAD,
    .kind = "system",
    .name = "ianus",
    .version = "1",
    .summary = "an NPU on GDDR6-AiM running GPT-2, and what it was compared with",
    .source = "seo2024ianus",
    .limits = "batch 1; no conflicts of ordinary accesses with PIM, hence nothing of the "
              "paper's schedules; attention always on the NPU; no energy",
    .opts = opts,
    .metrics = metrics,
    .evaluate = evaluate,
};
