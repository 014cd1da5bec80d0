/* SPDX-License-Identifier: GPL-3.0-or-later */
/* cent: Llama-2 on CXL devices of SK hynix AiM, by the rules of CENT's artifact.
 *
 * A token's time is blocks x (memory + CXL + near-memory units) + embeddings + sampling.
 * memory       AiM instructions of hwsim/cent-block.c, command by command
 * CXL          a hop, and flits of 256 B that carry 3 messages of 64 B, over the lanes of
 *              a device at half their rate (multicast).  Weights over several devices:
 *              five broadcasts and gathers of the width, one of the hidden width
 * near memory  32 units of 16 lanes and 8 RISC-V cores at 2 GHz for norms, softmax, rope
 * Two mappings: tp=0 gives each block channels of one device (pipeline of blocks), tp=n
 * cuts weights and keys over n devices while one of them has all other work.
 * Energy is counted commands, the interfaces, and controllers; its standby power is that
 * of one channel for the time, as in the artifact. */
#include "hwsim/cent.h"

#include <math.h>
#include <string.h>

static const struct {
  const char *name;
  int64_t width, heads, kv_heads, ff, blocks;
} shapes[] = {{"llama2-7b", 4096, 32, 32, 11008, 32},
              {"llama2-13b", 5120, 40, 40, 13824, 40},
              {"llama2-70b", 8192, 64, 8, 28672, 80}};
enum { VOCABULARY = 32000 };
#define TICK 0.5e-9    /* s */
#define CLOCK 2e9      /* Hz, near-memory units */
#define HOP 180e-9     /* s: 4 x 25 ports, 2 x 30 wires, 20 switch */
#define LANE 4.0       /* GiB/s of a lane, multicast */
#define SAMPLING 150e-6 /* s, on the host */
/* Near-memory units, cycles: a pass of all 32 over the shared buffer. */
#define PASS_ADD 66.0
#define PASS_EXP 44.0
#define NORM_END (3.0 + 26.0)
#define SOFTMAX_END (1.0 + 17.25)
#define ROTATE (3.0 / 8)
/* Energies, J.  mW x ns of cent_power_calculator.py. */
#define E_ACT (66.3e-3 * 44.5e-9)
#define E_READ (438.15e-3 * 1.25e-9)
#define E_WRITE (553.15e-3 * 1.25e-9)
#define E_MAC (3 * 438.15e-3 * 1e-9)
#define E_DQ (5.5e-12 * 256)
#define E_PCIE 4.4e-12
#define E_ISSUE (267.7082056e-3 / 2 / CLOCK)
#define E_COMMAND (381.0445262e-3 / 2 / CLOCK)
#define P_STANDBY 263.75e-3 /* W, of a channel with rows open */

typedef struct setup {
  nmb_run *run;
  cent c;
  int64_t blocks, devices, shares; /* shares: devices of a block; 0: part of one */
  int64_t per_device; /* blocks in a device at the same time */
  double lanes;
  bool refresh;
  nmb_aim_list list; /* kept: its memory serves every program */
} setup;

typedef struct token {
  double pim, cxl, near, energy;
} token;

/* ---------------------------------------------------------------------- memory */
typedef struct tally {
  double energy; /* J, of one channel */
} tally;

static bool
one_of(const char *name, const char *set)
{
  const size_t n = strlen(name);
  for (const char *p = strstr(set, name); p; p = strstr(p + n, name))
    if ((p == set || p[-1] == ' ') && (p[n] == ' ' || p[n] == 0))
      return true;
  return false;
}

static void
count(void *arg, const nmb_command *c)
{
  tally *t = arg;
  double e = E_COMMAND;
  if (c->isr || !strcmp(c->name, "RD") || !strcmp(c->name, "WR"))
    return; /* those differ from channel to channel: see ordinary */
  if (!strcmp(c->name, "ACT16") || !strcmp(c->name, "ACT"))
    e += (strcmp(c->name, "ACT") ? 16 : 1) * E_ACT;
  if (one_of(c->name, "RDCP RDMAC16 RDAF16 AF16"))
    e += (strcmp(c->name, "AF16") ? 1 : 16) * E_READ;
  if (one_of(c->name, "WRCP WRMAC16 WRA16"))
    e += (strcmp(c->name, "WRA16") ? 1 : 16) * E_WRITE;
  if (one_of(c->name, "MAC16 EWMUL16"))
    e += (strcmp(c->name, "EWMUL16") ? 1 : 0.25) * E_MAC;
  if (one_of(c->name, "WRGB RDMAC16 RDAF16 WRMAC16 WRA16"))
    e += E_DQ;
  if (one_of(c->name, "MAC16 AF16 EWMUL16 RDCP WRCP WRGB RDMAC16 RDAF16 WRMAC16 WRA16"))
    e += E_ISSUE;
  t->energy += (double)c->n * e;
}

/* Ordinary accesses of all channels. */
static double
ordinary(const nmb_aim_list *l)
{
  double e = 0;
  for (int64_t i = 0; i < l->n; i++)
    if (l->v[i].op == NMB_AIM_W_MEM || l->v[i].op == NMB_AIM_R_MEM)
      e += E_COMMAND + E_ISSUE + E_DQ + (l->v[i].op == NMB_AIM_W_MEM ? E_WRITE : E_READ);
  return e;
}

static nmb_status
execute(setup *s, double *seconds, double *energy)
{
  tally t = {0};
  const nmb_watch watch = {count, &t};
  nmb_aim_result r;
  nmb_aim_add(s->run, &s->list, (nmb_aim_insn){.op = NMB_AIM_EOC});
  NMB_TRY(nmb_aim_execute(s->run, NULL, s->refresh, CENT_CHANNELS, &s->list, &watch, &r));
  *seconds = (double)r.cycles * TICK;
  *energy = t.energy * (double)(s->c.channels * s->c.copies) + ordinary(&s->list) +
            P_STANDBY * *seconds;
  s->list.n = 0;
  return NMB_OK;
}

/* ------------------------------------------------------------------ CXL, units */
static double
transfer(const setup *s, double bytes, double senders)
{
  const double flits = ceil(bytes / 64 / 3) * senders;
  return HOP + flits * 256 / (s->lanes * LANE * 1073741824.0);
}

static double
links(const setup *s)
{
  const double width = 2 * (double)s->c.width, ff = 2 * (double)s->c.ff;
  const double n = (double)s->shares;
  if (s->shares == 0)
    return transfer(s, width, 1);
  return 5 * transfer(s, width, 1) + 5 * transfer(s, width / n, n - 1) +
         transfer(s, ff, 1) + transfer(s, ff / n, n - 1);
}

static double
units(const setup *s)
{
  const double width = (double)s->c.width, heads = (double)s->c.heads;
  const double kv = (double)s->c.kv_heads, lanes = 16.0 * CENT_CHANNELS;
  const double norms = 2 * (width / 16 / lanes * PASS_ADD + NORM_END);
  const double softmax = (double)s->c.context * heads / lanes * (PASS_ADD + PASS_EXP) +
                         heads * SOFTMAX_END;
  return (norms + softmax + (1 + kv / heads) * width * ROTATE) / CLOCK *
         (double)s->per_device;
}

static double
pcie(const setup *s)
{
  const double width = (double)s->c.width, ff = (double)s->c.ff;
  return (s->shares ? 10 * width + 2 * ff : width) * E_PCIE;
}

/* --------------------------------------------------------------------- a token */
static nmb_status
at_context(setup *s, int64_t context, token *out)
{
  double main_j, share_j = 0, unused;
  s->c.context = context;
  nmb__cent_block(s->run, &s->c, &s->list);
  NMB_TRY(execute(s, &out->pim, &main_j));
  if (s->shares > 1) {
    nmb__cent_weights(s->run, &s->c, &s->list);
    NMB_TRY(execute(s, &unused, &share_j));
  }
  out->cxl = links(s);
  out->near = units(s);
  const int64_t used = (s->blocks + s->per_device - 1) / s->per_device;
  const double others = (share_j + pcie(s)) * (double)(s->shares - 1);
  out->energy = s->shares ? (main_j + pcie(s) + others) * (double)s->blocks
                          : (main_j + pcie(s)) * (double)used;
  return NMB_OK;
}

static double
seconds(const setup *s, const token *t, double vocabulary)
{
  return (double)s->blocks * (t->pim + t->cxl + t->near) + vocabulary + SAMPLING;
}

static nmb_status
read_options(nmb_run *run, setup *s)
{
  const char *model = nmb_opt_text(run, "model");
  int i = 0;
  while (strcmp(shapes[i].name, model))
    i++;
  *s = (setup){.run = run,
               .c = {.width = shapes[i].width,
                     .heads = shapes[i].heads,
                     .kv_heads = shapes[i].kv_heads,
                     .head_width = shapes[i].width / shapes[i].heads,
                     .ff = shapes[i].ff,
                     .vocabulary = VOCABULARY},
               .blocks = shapes[i].blocks,
               .devices = nmb_opt_int(run, "devices"),
               .shares = nmb_opt_int(run, "tp"),
               .refresh = nmb_opt_bool(run, "refresh")};
  s->lanes = floor((double)nmb_opt_int(run, "lanes") / (double)s->devices);
  s->per_device = s->shares ? 1 : (s->blocks + s->devices - 1) / s->devices;
  if (s->per_device > CENT_CHANNELS || s->lanes < 1 || s->shares > s->devices)
    return nmb_fail(run, NMB_BADOPTION, NMB_NOLOC,
                    "%lld devices are too few for %lld blocks, or too many for the lanes, "
                    "or fewer than tp",
                    (long long)s->devices, (long long)s->blocks);
  s->c.channels = CENT_CHANNELS / s->per_device;
  s->c.copies = CENT_CHANNELS / s->c.channels;
  s->c.weight_shares = s->shares ? s->shares : 1;
  return NMB_OK;
}

/* Means over the contexts of a phase, `gap` apart, as the artifact takes them. */
static nmb_status
evaluate(nmb_run *run, const nmb_prog *none)
{
  setup s;
  double vocabulary, unused, rate = 0, time = 0, energy = 0;
  token t = {0};
  (void)none;
  NMB_TRY(read_options(run, &s));
  const char *phase = nmb_opt_text(run, "phase");
  const int64_t in = nmb_opt_int(run, "in"), out = nmb_opt_int(run, "out"),
                gap = nmb_opt_int(run, "gap");
  const bool one = !strcmp(phase, "token");
  const int64_t from = one ? nmb_opt_int(run, "context")
                           : !strcmp(phase, "decode") ? (in / gap + 1) * gap : gap;
  const int64_t to = one ? from : !strcmp(phase, "prefill") ? in : in + out;
  int64_t n = 0;
  nmb__cent_vocabulary(run, &s.c, &s.list);
  NMB_TRY(execute(&s, &vocabulary, &unused));
  for (int64_t context = from; context <= to; context += gap, n++) {
    NMB_TRY(at_context(&s, context, &t));
    const double each = seconds(&s, &t, vocabulary);
    rate += (double)(s.shares ? s.devices / s.shares : s.blocks) / each;
    time += each;
    energy += t.energy;
  }
  if (n == 0)
    return nmb_fail(run, NMB_BADOPTION, NMB_NOLOC, "no context of the phase is a multiple "
                    "of gap=%lld", (long long)gap);
  const double tokens = one ? 1 : (double)(!strcmp(phase, "prefill") ? in
                                           : !strcmp(phase, "decode") ? out : in + out);
  nmb_emit(run, "pim", t.pim);
  nmb_emit(run, "cxl", t.cxl);
  nmb_emit(run, "near-memory", t.near);
  nmb_emit(run, "block", t.pim + t.cxl + t.near);
  nmb_emit(run, "vocabulary", vocabulary);
  nmb_emit(run, "token", time / (double)n);
  nmb_emit(run, "time", time / (double)n * tokens);
  nmb_emit(run, "throughput", rate / (double)n);
  nmb_emit(run, "energy", energy / (double)n);
  return NMB_OK;
}

static const nmb_opt opts[] = {
    {"model", "enum", NULL, "llama2-7b", "llama2-7b|llama2-13b|llama2-70b", "shape"},
    {"devices", "int", NULL, "8", "1..1024", "of 32 channels"},
    {"tp", "int", NULL, "0", "0..1024",
     "devices over which a block is cut; 0: blocks get channels of a device"},
    {"context", "int", "token", "512", "1..32768", "for phase=token"},
    {"phase", "enum", NULL, "token", "token|prefill|decode|whole",
     "one token at a context, or all of a request"},
    {"in", "int", "token", "512", "1..32768", "prompt, for the other phases"},
    {"out", "int", "token", "3584", "1..32768", "tokens generated"},
    {"gap", "int", "token", "128", "1..32768", "contexts simulated are multiples of it"},
    {"lanes", "int", NULL, "144", "1..4096", "CXL lanes, dealt to the devices"},
    {"refresh", "bool", NULL, "false", "", "of DRAM; the artifact has none"},
    {0}};
static const nmb_metric metrics[] = {
    {"pim", "s", "less", "a block in memory (of the last context)"},
    {"cxl", "s", "less", "a block's transfers"},
    {"near-memory", "s", "less", "a block's norms, softmax and rope"},
    {"block", "s", "less", "the three together"},
    {"vocabulary", "s", "less", "embeddings of a token"},
    {"token", "s", "less", "a token, mean"},
    {"time", "s", "less", "all tokens of the phase, one after another"},
    {"throughput", "token/s", "more", "tokens of a full pipeline, mean"},
    {"energy", "J", "less", "a token, mean, without its embeddings"},
    {0}};

NMB_PLUGIN
{
    NMB_PLUGIN_HEAD,
    .kind = "system",
    .name = "cent",
    .version = "1",
    .summary = "Llama-2 on CXL devices of SK hynix AiM",
    .source = "gu2025cent",
    .limits = "one token after another: a prompt is read token by token, as there; all "
              "channels of a device get the commands of the first; energy without the "
              "near-memory units and buffers (below 1% there)",
    .opts = opts,
    .metrics = metrics,
    .evaluate = evaluate,
};
