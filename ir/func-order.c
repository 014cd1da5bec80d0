/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Legal orders of a block's instructions.
 *
 * Each node has two events, its start and its end.  Edges: the end of what it waits for
 * before its start; starts of a queue in queue order; and, in a queue, the end of an
 * earlier node before the start of a later one unless the engine computes in memory and
 * the two share no channel.  A sync is on all channels.  A random topological order of
 * events is drawn, and for each node whether it takes effect at its start or its end. */
#include <string.h>

#include "base/run.h"
#include "ir/func-order.h"
#include "nmbench/nmb_hw.h"

typedef struct edge {
  int to, next;
} edge;

typedef struct graph {
  nmb_run *run;
  const nmb_prog *p;
  int first, nnode;
  nmb__node *node;
  int *node_of; /* [insn - first] */
  int *head;    /* [2 * nnode] first edge of an event; -1: none */
  int *left;    /* [2 * nnode] events before it that are to come */
  edge *edge;
  int nedge, cap;
} graph;

static int
op_at(const nmb_prog *p, const nmb_insn *in)
{
  const nmb_kernel *k = &p->kernel[p->step[in->step].kernel];
  int i = 0;
  while (i < k->nop && k->op[i] != in->op)
    i++;
  return i;
}

static bool
in_tile(const nmb_prog *p, const nmb_insn *in)
{
  if (in->kind != NMB_INSN_EXEC || !p->hw->engine[in->engine].rows_one_by_one)
    return false;
  const nmb_kernel *k = &p->kernel[p->step[in->step].kernel];
  return k->nop > 1;
}

static bool
local(const nmb_prog *p, const nmb_insn *in)
{
  for (int i = 0; i < in->nopnd; i++)
    if (p->hw->mem[in->opnd[i].mem].local)
      return true;
  return false;
}

/* Cuts the queue into nodes: a kernel tile begins where the ops of the kernel do. */
static void
find_nodes(graph *g, int end)
{
  const nmb_prog *p = g->p;
  const int n = end - g->first;
  int *tail = NMB_NEW(g->run, int, p->hw->nengine); /* node of a queue's last one */
  int *size = NMB_NEW(g->run, int, n + 1);
  for (int q = 0; q < p->hw->nengine; q++)
    tail[q] = -1;
  g->node = NMB_NEW(g->run, nmb__node, n + 1);
  g->node_of = NMB_NEW(g->run, int, n + 1);
  nmb_id *last = NMB_NEW(g->run, nmb_id, n + 1);
  for (int i = 0; i < n; i++) {
    const nmb_insn *in = &p->insn[g->first + i];
    int at = tail[in->engine];
    const nmb_insn *before = at < 0 ? NULL : &p->insn[last[at]];
    if (!before || !in_tile(p, in) || !in_tile(p, before) || before->step != in->step ||
        op_at(p, in) < op_at(p, before)) {
      at = g->nnode++;
      tail[in->engine] = at;
    }
    g->node_of[i] = at;
    last[at] = g->first + i;
    size[at]++;
    g->node[at].rows |= local(p, in) && p->hw->engine[in->engine].rows_one_by_one;
  }
  nmb_id *all = NMB_NEW(g->run, nmb_id, n + 1);
  for (int k = 0, sum = 0; k < g->nnode; sum += size[k++]) {
    g->node[k].insn = all + sum;
    g->node[k].n = 0;
  }
  for (int i = 0; i < n; i++) {
    nmb__node *k = &g->node[g->node_of[i]];
    ((nmb_id *)(uintptr_t)k->insn)[k->n++] = g->first + i;
  }
}

enum { START, END };

static void
link_events(graph *g, int a, int what_a, int b, int what_b)
{
  if (a == b)
    return;
  if (g->nedge == g->cap) {
    edge *old = g->edge;
    g->cap = g->cap ? 2 * g->cap : 256;
    g->edge = NMB_NEW(g->run, edge, g->cap);
    if (g->nedge)
      memcpy(g->edge, old, (size_t)g->nedge * sizeof *old);
  }
  g->edge[g->nedge] = (edge){2 * b + what_b, g->head[2 * a + what_a]};
  g->head[2 * a + what_a] = g->nedge++;
  g->left[2 * b + what_b]++;
}

static bool
share_channel(const nmb_prog *p, const nmb__node *a, const nmb__node *b)
{
  for (int i = 0; i < a->n; i++)
    for (int j = 0; j < b->n; j++) {
      const nmb_place *x = &p->insn[a->insn[i]].place, *y = &p->insn[b->insn[j]].place;
      if (!x->nchannel || !y->nchannel ||
          (x->channel0 < y->channel0 + y->nchannel &&
           y->channel0 < x->channel0 + x->nchannel))
        return true;
    }
  return false;
}

static void
link_queues(graph *g)
{
  const nmb_prog *p = g->p;
  int *queue = NMB_NEW(g->run, int, g->nnode + 1); /* nodes since the last sync */
  for (nmb_id q = 0; q < p->hw->nengine; q++) {
    const bool apart = p->hw->engine[q].in_memory;
    int n = 0;
    for (int k = 0; k < g->nnode; k++) {
      const nmb_insn *in = &p->insn[g->node[k].insn[0]];
      if (in->engine != q)
        continue;
      const bool sync = in->kind == NMB_INSN_SYNC;
      if (n)
        link_events(g, queue[n - 1], START, k, START);
      for (int i = n - 1; i >= 0; i--)
        if (!apart || sync || share_channel(p, &g->node[queue[i]], &g->node[k])) {
          link_events(g, queue[i], END, k, START);
          if (!apart)
            break;
        }
      if (sync)
        n = 0;
      queue[n++] = k;
    }
  }
}

static nmb_status
link_waits(graph *g, int end)
{
  const nmb_prog *p = g->p;
  for (int i = g->first; i < end; i++)
    for (int w = 0; w < p->insn[i].nwait; w++) {
      const nmb_id on = p->insn[i].wait[w];
      if (on < g->first || on >= end)
        return nmb_fail(g->run, NMB_UNVERIFIED, NMB_NOLOC,
                        "instruction %d waits for %d, which is not in its block", i,
                        (int)on);
      link_events(g, g->node_of[on - g->first], END, g->node_of[i - g->first], START);
    }
  return NMB_OK;
}

static uint64_t
draw(uint64_t *seed)
{
  uint64_t z = *seed += UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 */
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

/* The next of the ready events: a random one, or the earliest in the text. */
static int
pick(int *ready, int *n, uint64_t *seed)
{
  int at = 0;
  if (*seed)
    at = (int)(draw(seed) % (uint64_t)*n);
  else
    for (int i = 1; i < *n; i++)
      at = ready[i] < ready[at] ? i : at;
  const int e = ready[at];
  ready[at] = ready[--*n];
  return e;
}

nmb_status
nmb__order_make(nmb_run *run, const nmb_prog *p, int first, int end, uint64_t seed,
                nmb__order *out)
{
  graph g = {.run = run, .p = p, .first = first};
  find_nodes(&g, end);
  g.head = NMB_NEW(run, int, 2 * g.nnode + 1);
  g.left = NMB_NEW(run, int, 2 * g.nnode + 1);
  for (int i = 0; i < 2 * g.nnode; i++)
    g.head[i] = -1;
  for (int k = 0; k < g.nnode; k++)
    g.left[2 * k + END]++; /* its own start */
  link_queues(&g);
  NMB_TRY(link_waits(&g, end));
  int *ready = NMB_NEW(run, int, 2 * g.nnode + 1), n = 0, done = 0;
  for (int i = 0; i < 2 * g.nnode; i++)
    if (g.left[i] == 0)
      ready[n++] = i;
  out->node = NMB_NEW(run, nmb__node, g.nnode + 1);
  out->n = 0;
  bool *late = NMB_NEW(run, bool, g.nnode + 1);
  while (n > 0) {
    const int e = pick(ready, &n, &seed), k = e / 2;
    done++;
    if (e % 2 == START) {
      late[k] = seed && draw(&seed) % 2;
      if (--g.left[2 * k + END] == 0)
        ready[n++] = 2 * k + END;
    }
    if ((e % 2 == END) == late[k])
      out->node[out->n++] = g.node[k];
    for (int i = g.head[e]; i >= 0; i = g.edge[i].next)
      if (--g.left[g.edge[i].to] == 0)
        ready[n++] = g.edge[i].to;
  }
  if (done == 2 * g.nnode)
    return NMB_OK;
  return nmb_fail(run, NMB_UNVERIFIED, NMB_NOLOC,
                  "the instructions of block '%s' wait for each other in a circle",
                  p->block[p->insn[first].block].name);
}
