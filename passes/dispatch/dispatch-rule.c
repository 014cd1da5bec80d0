/* SPDX-License-Identifier: GPL-3.0-or-later */
/* dispatch-rule: by arithmetic intensity.  Reads graph, groups; writes dispatch.
 *
 * Kernels whose multiply-accumulates for each byte of weights and caches that they
 * touch stay below a threshold go to an in-memory engine, the others to the host,
 * as Duplex (Yun et al., MICRO 2024) splits experts and attention from the rest
 * and PAPI (He et al., ASPLOS 2025) does online.  Kernels that share a cache are
 * judged together, as the cache lies in one memory.
 *
 * auto: time in memory is MACs / rate there, on a bandwidth-bound host it is bytes
 * / bandwidth; they cross at rate / bandwidth.  The rate is that of the kernel with
 * most MACs of those that can run in memory.  Where that kernel is far above the
 * crossing (8 times) and still faster in memory, the host is no processor to send
 * work to, and memory gets everything it can run.
 *
 * Vector kernels go where most bytes of their neighbours lie: to a near-memory
 * vector engine of that memory if there is one. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "nmbench/nmb_plan.h"
#include "nmbench/nmb_plugin.h"

typedef struct rule {
  nmb_run *run;
  nmb_prog *p;
  uint64_t *legal; /* [nkernel] engines */
  nmb_id *cluster; /* [nkernel] */
  double *macs;    /* [nkernel] of the cluster that k leads */
  double *bytes;   /* [nkernel] resident bytes touched, likewise */
  nmb_id *engine;  /* [nkernel] the answer; NMB_NONE: not yet */
  nmb_id *maker;   /* [ntensor] kernel that makes a value */
} rule;

/* Bytes of a resident operand that the op touches: reached experts only. */
static double
touched(const nmb_prog *p, const nmb_op *o, const nmb_tensor *t)
{
  const double all = (double)nmb_tensor_bytes(t);
  if (o->code != NMB_OP_GLINEAR)
    return all;
  const nmb_routing *r = &p->routing[nmb_op_int(o, "routing", 0)];
  return all * r->reached / r->experts;
}

static void
measure(rule *r)
{
  const nmb_prog *p = r->p;
  nmb_cache_clusters(r->run, p, r->cluster);
  for (nmb_id k = 0; k < p->nkernel; k++) {
    r->legal[k] = nmb_engines_legal(p, p->kernel[k].op, p->kernel[k].nop);
    r->engine[k] = NMB_NONE;
    for (int i = 0; i < p->kernel[k].nop; i++) {
      const nmb_op *o = &p->op[p->kernel[k].op[i]];
      for (int j = 0; j < o->nout; j++)
        r->maker[o->out[j]] = k;
      if (nmb_op_get(o->code)->class_ != NMB_CLASS_MAC)
        continue;
      r->macs[r->cluster[k]] += (double)nmb_op_macs(p, p->kernel[k].op[i], NULL);
      for (int j = 0; j < o->nin; j++)
        if (nmb_tensor_resident(&p->tensor[nmb_tensor_root(p, o->in[j])]))
          r->bytes[r->cluster[k]] +=
              touched(p, o, &p->tensor[nmb_tensor_root(p, o->in[j])]);
    }
  }
}

/* An engine for kernel k whose memory of kind `home` or resident is `mem`: near
 * memory first, then the host, then in memory. */
static nmb_id
engine_at(const rule *r, nmb_id k, nmb_id mem, bool resident)
{
  const nmb_hw *hw = r->p->hw;
  nmb_id best = NMB_NONE;
  int best_rank = 3;
  for (nmb_id e = 0; e < hw->nengine; e++) {
    const nmb_engine *g = &hw->engine[e];
    if (!(r->legal[k] >> e & 1) || (resident ? g->resident : g->home) != mem)
      continue;
    const int rank = g->in_memory ? 2 : e == hw->host ? 1 : 0;
    if (rank < best_rank) {
      best_rank = rank;
      best = e;
    }
  }
  return best;
}

static nmb_id
in_memory_engine(const rule *r, nmb_id k)
{
  for (nmb_id e = 0; e < r->p->hw->nengine; e++)
    if ((r->legal[k] >> e & 1) && r->p->hw->engine[e].in_memory)
      return e;
  return NMB_NONE;
}

static bool
has_macs(const rule *r, nmb_id k)
{
  for (int i = 0; i < r->p->kernel[k].nop; i++)
    if (nmb_op_get(r->p->op[r->p->kernel[k].op[i]].code)->class_ == NMB_CLASS_MAC)
      return true;
  return false;
}

/* Puts a whole cluster into the memory of an in-memory engine, if all of it can
 * run there: kernels with MACs in memory, appends wherever reaches the cache. */
static bool
put_in_memory(rule *r, nmb_id c)
{
  const nmb_prog *p = r->p;
  nmb_id mem = NMB_NONE;
  for (nmb_id k = c; k < p->nkernel; k++) {
    if (r->cluster[k] != c || !has_macs(r, k))
      continue;
    const nmb_id e = in_memory_engine(r, k);
    if (e == NMB_NONE || (mem != NMB_NONE && p->hw->engine[e].resident != mem))
      return false;
    mem = p->hw->engine[e].resident;
  }
  for (nmb_id k = c; k < p->nkernel; k++)
    if (r->cluster[k] == c && !has_macs(r, k) && engine_at(r, k, mem, true) == NMB_NONE)
      return false;
  for (nmb_id k = c; k < p->nkernel; k++)
    if (r->cluster[k] == c)
      r->engine[k] = has_macs(r, k) ? in_memory_engine(r, k) : engine_at(r, k, mem, true);
  return true;
}

#define FAR 8
/* MACs per byte below which memory wins: see the head of this file. */
static nmb_status
ridge(rule *r, double *out)
{
  const nmb_prog *p = r->p;
  nmb_id most = NMB_NONE;
  for (nmb_id k = 0; k < p->nkernel; k++)
    if (r->cluster[k] == k && r->bytes[k] > 0 && in_memory_engine(r, k) != NMB_NONE &&
        (most == NMB_NONE || r->macs[k] > r->macs[most]))
      most = k;
  *out = 0;
  if (most == NMB_NONE)
    return NMB_OK;
  const nmb_kernel *k = &p->kernel[most];
  const double bandwidth = p->hw->mem[p->hw->engine[p->hw->host].resident].bytes_per_s;
  double near = 0, host = INFINITY, macs = 0;
  NMB_TRY(
      nmb_planned_seconds(r->run, p, k->op, k->nop, in_memory_engine(r, most), &near));
  if (r->legal[most] >> p->hw->host & 1)
    NMB_TRY(nmb_planned_seconds(r->run, p, k->op, k->nop, p->hw->host, &host));
  for (int i = 0; i < k->nop; i++)
    macs += (double)nmb_op_macs(p, k->op[i], NULL);
  *out = macs / near / bandwidth;
  if (near < host && r->macs[most] / r->bytes[most] > FAR * *out)
    *out = INFINITY;
  return NMB_OK;
}

/* The memory that most bytes of kernel k's values come from or go to. */
static nmb_id
neighbourhood(const rule *r, nmb_id k)
{
  const nmb_prog *p = r->p;
  double votes[NMB_MAXMEM] = {0};
  const nmb_id host = p->hw->engine[p->hw->host].home;
  for (nmb_id other = 0; other < p->nkernel; other++) {
    if (p->kernel[other].block != p->kernel[k].block)
      continue;
    for (int i = 0; i < p->kernel[other].nop; i++) {
      const nmb_op *o = &p->op[p->kernel[other].op[i]];
      for (int j = 0; j < o->nin; j++) {
        const nmb_id by =
            p->tensor[o->in[j]].def == NMB_NONE ? NMB_NONE : r->maker[o->in[j]];
        const nmb_id end = by == NMB_NONE ? NMB_NONE
                           : other == k   ? by
                           : by == k      ? other
                                          : NMB_NONE;
        if (end != NMB_NONE && end != k && r->engine[end] != NMB_NONE)
          votes[p->hw->engine[r->engine[end]].home] +=
              (double)nmb_tensor_bytes(&p->tensor[o->in[j]]);
      }
    }
  }
  nmb_id best = host;
  for (nmb_id m = 0; m < p->hw->nmem; m++)
    if (votes[m] > votes[best])
      best = m;
  return best;
}

/* What dispatch_fit should move first: the most intense, as they lose least. */
static nmb_status
fit(rule *r)
{
  const nmb_prog *p = r->p;
  const int ne = p->hw->nengine;
  double *penalty = NMB_NEW(r->run, double, p->nkernel *ne + 1);
  for (nmb_id k = 0; k < p->nkernel; k++)
    for (nmb_id e = 0; e < ne; e++)
      penalty[k * ne + e] = !(r->legal[k] >> e & 1) ? INFINITY
                            : e == r->engine[k]     ? 0
                            : e == p->hw->host      ? 1 / (1 + r->macs[r->cluster[k]])
                                                    : 2;
  return nmb_dispatch_fit(r->run, p, penalty, nmb_opt_real(r->run, "reserve"), r->engine);
}

/* Kernels that no cache ties to others go to the engine that the option names. */
static nmb_status
prefer(rule *r)
{
  const nmb_prog *p = r->p;
  const char *name = nmb_opt_text(r->run, "prefer");
  const nmb_id e = *name ? nmb_hw_engine(p->hw, name) : NMB_NONE;
  if (*name && e == NMB_NONE)
    return nmb_fail(r->run, NMB_BADOPTION, NMB_NOLOC,
                    "dispatch-rule: prefer is '%s', which is no engine of %s", name,
                    p->hw->name);
  for (nmb_id k = 0; k < p->nkernel && e != NMB_NONE; k++) {
    bool alone = (r->legal[k] >> e & 1) && has_macs(r, k);
    for (nmb_id o = 0; o < p->nkernel && alone; o++)
      alone = o == k || r->cluster[o] != r->cluster[k];
    if (alone)
      r->engine[k] = e;
  }
  return NMB_OK;
}

static nmb_status
decide(rule *r)
{
  const nmb_prog *p = r->p;
  const char *text = nmb_opt_text(r->run, "threshold");
  double threshold = 0;
  if (strcmp(text, "auto") != 0) {
    char *end;
    threshold = strtod(text, &end);
    if (*end || end == text || !(threshold >= 0))
      return nmb_fail(
          r->run, NMB_BADOPTION, NMB_NOLOC,
          "dispatch-rule: threshold is \"%s\", expected auto or MACs per byte, "
          "0 or more",
          text);
  } else
    NMB_TRY(ridge(r, &threshold));
  nmb_stat(r->run, "threshold", threshold);

  NMB_TRY(prefer(r));
  for (nmb_id c = 0; c < p->nkernel; c++)
    if (r->cluster[c] == c && r->engine[c] == NMB_NONE && r->bytes[c] > 0 && r->macs[c] < threshold * r->bytes[c])
      (void)put_in_memory(r, c);
  for (nmb_id k = 0; k < p->nkernel; k++)
    if (r->engine[k] == NMB_NONE && r->bytes[r->cluster[k]] > 0 &&
        (r->legal[k] >> p->hw->host & 1))
      r->engine[k] = p->hw->host;
  for (nmb_id k = 0; k < p->nkernel; k++)
    if (r->engine[k] == NMB_NONE) {
      r->engine[k] = engine_at(r, k, neighbourhood(r, k), false);
      for (nmb_id e = 0; e < p->hw->nengine && r->engine[k] == NMB_NONE; e++)
        if (r->legal[k] >> e & 1) /* fused so that no engine there runs it */
          r->engine[k] = e;
      if (r->engine[k] == NMB_NONE)
        return nmb_fail(r->run, NMB_UNSUPPORTED, p->op[p->kernel[k].op[0]].loc,
                        "no engine of %s runs kernel %d", p->hw->name, (int)k);
    }
  return fit(r);
}

static nmb_status
transform(nmb_run *run, nmb_prog *p)
{
  const int n = p->nkernel + 1;
  rule r = {.run = run, .p = p};
  r.legal = NMB_NEW(run, uint64_t, n);
  r.cluster = NMB_NEW(run, nmb_id, n);
  r.macs = NMB_NEW(run, double, n);
  r.bytes = NMB_NEW(run, double, n);
  r.engine = NMB_NEW(run, nmb_id, n);
  r.maker = NMB_NEW(run, nmb_id, p->ntensor + 1);
  measure(&r);
  NMB_TRY(decide(&r));
  nmb_section_begin(p, NMB_DISPATCH);
  int inside = 0;
  for (nmb_id k = 0; k < p->nkernel; k++) {
    nmb_dispatch_set(p, k, r.engine[k]);
    inside += p->hw->engine[r.engine[k]].in_memory;
  }
  nmb_stat(run, "kernels in memory", inside);
  return NMB_OK;
}

static const nmb_opt opts[] = {
    {"threshold", "text", "mac/byte", "auto", "",
     "kernels below this intensity run in memory; auto: from the machine"},
    {"prefer", "text", NULL, "", "",
     "engine that gets whatever products it can run, whatever their intensity"},
    {"reserve", "ratio", "1", "0.05", "0..0.9",
     "part of each memory kept free for padding and activations"},
    {0},
};

NMB_PLUGIN
{
    NMB_PLUGIN_HEAD,
    .kind = "dispatch",
    .name = "dispatch-rule",
    .version = "1",
    .summary = "kernels of low arithmetic intensity run in memory",
    .source = "yun2024duplex he2025papi",
    .limits =
        "one threshold for all; knows no transfer costs; experts of one layer are not "
        "split over engines",
    .opts = opts,
    .reads = NMB_BIT(NMB_GRAPH) | NMB_BIT(NMB_GROUPS),
    .writes = NMB_BIT(NMB_DISPATCH),
    .transform = transform,
};
