/* SPDX-License-Identifier: GPL-3.0-or-later */
/* link: latency and bandwidth of what joins memories or devices.
 *
 *   copy    between two memories: each device over its own port where both have as
 *           many devices, else between the one and a device of the other
 *   bcast   one device to all: once over its port if the switch multicasts, else as a
 *           binomial tree of copies (ceil(log2 n) rounds), or along the ring
 *   gather  all devices' shards to one: its port takes all of them in
 * Both memories are busy for their share. */
#include "nmbench/nmb_plugin.h"

#include <math.h>
#include <string.h>

#define PARAMS(X)                                                                        \
  X(BANDWIDTH, "bandwidth", "bandwidth", "B/s", NULL, "1B/s..",                          \
    "a device's port, one direction")                                                    \
  X(FRACTION, "fraction", "ratio", "1", "1", "0.01..1", "usable of the bandwidth")       \
  X(LATENCY, "latency", "time", "s", NULL, "0..", "a transfer of no bytes")              \
  X(TOPOLOGY, "topology", "enum", NULL, "switch", "switch|ring",                         \
    "how the devices are joined")                                                        \
  X(MULTICAST, "multicast", "bool", NULL, "false", "",                                   \
    "one transfer reaches all devices")                                                  \
  X(ENERGY, "energy", "energy/byte", "J/B", NULL, "0..", "a byte over one hop")
NMB_PARAMS(PARAMS);
#define PAR(id) (e->param[P_##id].value)
#define RATE (PAR(BANDWIDTH) * PAR(FRACTION))

typedef struct trip {
  double seconds, bytes; /* bytes over all hops */
} trip;

static trip
copy(const nmb_hw *hw, const nmb_engine *e, double bytes)
{
  const int from = hw->mem[e->from].devices, to = hw->mem[e->to].devices;
  return (trip){PAR(LATENCY) + bytes / (RATE * (from == to ? from : 1)), bytes};
}

static trip
bcast(const nmb_engine *e, double bytes)
{
  const double n = e->devices, once = PAR(LATENCY) + bytes / RATE;
  const double all = (n - 1) * bytes;
  if (n < 2)
    return (trip){0, 0};
  if (PAR(MULTICAST) != 0)
    return (trip){once, all};
  if (!strcmp(e->param[P_TOPOLOGY].text,
              "ring")) /* cut into pieces that follow each other */
    return (trip){PAR(LATENCY) * (n - 1) + bytes / RATE, all};
  return (trip){once * ceil(log2(n)), all};
}

/* The device that gathers has its own shard. */
static trip
gather(const nmb_engine *e, double bytes)
{
  const double n = e->devices, others = bytes * (n - 1) / n;
  const double hops = strcmp(e->param[P_TOPOLOGY].text, "ring") ? 1 : n - 1;
  if (n < 2)
    return (trip){0, 0};
  return (trip){PAR(LATENCY) * hops + others / RATE, others * (hops + 1) / 2};
}

static nmb_status
cost(nmb_run *run, const nmb_prog *p, const nmb_insn *in, nmb_fidelity fidelity,
     const nmb_watch *watch, nmb_cost *out)
{
  (void)fidelity, (void)watch;
  const nmb_engine *e = &p->hw->engine[in->engine];
  double bytes = 0, seconds;
  trip t;
  for (int i = 0; i < in->nopnd; i++) /* reading and writing side name the same value */
    bytes = fmax(bytes, nmb_operand_bytes(&in->opnd[i]));
  switch (in->kind) {
  case NMB_INSN_COPY: t = copy(p->hw, e, bytes); break;
  case NMB_INSN_BCAST: t = bcast(e, bytes); break;
  case NMB_INSN_GATHER: t = gather(e, bytes); break;
  default:
    return nmb_fail(run, NMB_UNSUPPORTED, NMB_NOLOC,
                    "a link cannot run an exec instruction");
  }
  seconds = t.seconds;
  for (int i = 0; i < in->nopnd; i++) {
    const nmb_mem *m = &p->hw->mem[in->opnd[i].mem];
    double b = nmb_operand_bytes(&in->opnd[i]);
    /* between devices, each side is the memory of one device */
    const double rate =
        in->kind == NMB_INSN_COPY ? m->bytes_per_s : m->bytes_per_s / m->devices;
    seconds = fmax(seconds, b / rate);
    if (in->kind == NMB_INSN_BCAST && in->opnd[i].write)
      b *= e->devices - 1;
    out->mem_bytes[in->opnd[i].mem] += b;
    out->mem_s[in->opnd[i].mem] += b / m->bytes_per_s;
    out->energy[NMB_EPART_IO] += b * m->j_per_byte;
  }
  for (int i = 0; i < p->hw->nmem; i++)
    seconds = fmax(seconds, out->mem_s[i]);
  out->time[NMB_CAUSE_TRANSFER] = seconds;
  out->time[NMB_CAUSE_LAUNCH] = in->first ? e->launch_s : 0;
  out->energy[NMB_EPART_LINK] = t.bytes * PAR(ENERGY);
  return NMB_OK;
}

NMB_PLUGIN
{
    NMB_PLUGIN_HEAD,
    .kind = "model",
    .name = "link",
    .version = "1",
    .summary = "latency and bandwidth between memories and devices",
    .source = "thakur2005collectives",
    .limits = "no contention inside the switch; both directions at once are not told "
              "apart; protocol "
              "overhead is part of the bandwidth given",
    .opts = params,
    .cost = cost,
};
