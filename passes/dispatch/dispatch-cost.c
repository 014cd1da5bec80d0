/* SPDX-License-Identifier: GPL-3.0-or-later */
/* dispatch-cost: the engines that make a block cheapest, kernels and transfers
 * together.  Reads graph, groups; writes dispatch.
 *
 * As Anderson and Gregg, CGO 2018, choose primitives and layouts: a partitioned
 * boolean quadratic problem (PBQP).  A kernel is a node with one cost for each
 * engine, a value between two kernels an edge with the seconds to move it for each
 * pair of engines; kernels that share a cache have infinite edges between engines
 * whose caches lie in different memories.  Nodes with up to two neighbours are
 * removed exactly (reductions R0, R1, R2), which solves chains and diamonds
 * exactly; the others by their locally best choice (RN).
 *
 * The quadratic form pays for a value once for each user, in truth it is moved once
 * to each memory: so the answer is improved by moving single kernels, and kernels
 * tied by a cache together, while the true sum falls.
 *
 * Then capacity: kernels leave memories that cannot hold their weights, those first
 * that lose least time for each byte. */
#include <math.h>
#include <string.h>

#include "nmbench/nmb_plan.h"
#include "nmbench/nmb_plugin.h"

/* A value that kernels of the block pass on. */
typedef struct value {
  nmb_id tensor;
  int maker;        /* kernel of the block that makes it; -1: it comes from the host */
  bool out;         /* goes back to the host: the block's result */
  int first, nuser; /* users: user[first] on */
  double *seconds;  /* [nmem][nmem] from, to; NaN: not asked yet */
} value;

typedef struct problem {
  nmb_run *run;
  const nmb_prog *p;
  nmb_id block, first;   /* kernels first .. first + n - 1 */
  int n, ne;             /* kernels; engines that compute */
  const double *cost;    /* [n][nengine] seconds; infinity: cannot run there */
  const nmb_id *cluster; /* [n] cache clusters, as kernel ids */
  value *value;
  int nvalue, *user;
} problem;

/* ------------------------------------------------------------- what it costs */
static double
cost_of(const problem *b, int kernel, int engine)
{
  return b->cost[kernel * b->p->hw->nengine + engine];
}

static nmb_id
home(const problem *b, int engine)
{
  return b->p->hw->engine[engine].home;
}

static nmb_status
move_seconds(const problem *b, value *v, nmb_id from, nmb_id to, double *out)
{
  double *s = &v->seconds[from * b->p->hw->nmem + to];
  if (isnan(*s))
    NMB_TRY(nmb_transfer_seconds(b->run, b->p, v->tensor, from, to, s));
  *out = *s;
  return NMB_OK;
}

/* Seconds to bring a value to all memories that want it. */
static nmb_status
value_seconds(const problem *b, value *v, const nmb_id *engine, double *sum)
{
  const nmb_id host = home(b, b->p->hw->host);
  const nmb_id from = v->maker < 0 ? host : home(b, engine[v->maker]);
  nmb_bits at = NMB_BIT(from);
  for (int i = 0; i < v->nuser + (v->out ? 1 : 0); i++) {
    const nmb_id to = i < v->nuser ? home(b, engine[b->user[v->first + i]]) : host;
    double s = 0;
    if (at & NMB_BIT(to))
      continue;
    at |= NMB_BIT(to);
    NMB_TRY(move_seconds(b, v, from, to, &s));
    *sum += s;
  }
  return NMB_OK;
}

/* Do kernels tied by a cache lie with it in one memory? */
static bool
caches_agree(const problem *b, const nmb_id *engine)
{
  for (int i = 0; i < b->n; i++) {
    const int lead = b->cluster[i] - b->first;
    if (b->p->hw->engine[engine[i]].resident != b->p->hw->engine[engine[lead]].resident)
      return false;
  }
  return true;
}

static nmb_status
total_seconds(const problem *b, const nmb_id *engine, double *out)
{
  *out = caches_agree(b, engine) ? 0 : INFINITY;
  for (int i = 0; i < b->n; i++)
    *out += cost_of(b, i, engine[i]);
  for (int i = 0; i < b->nvalue && isfinite(*out); i++)
    NMB_TRY(value_seconds(b, &b->value[i], engine, out));
  return NMB_OK;
}

/* -------------------------------------------------------------- what is moved */
static void
value_add(problem *b, nmb_id tensor, const int *kernel_of, int *at)
{
  const nmb_prog *p = b->p;
  const nmb_tensor *t = &p->tensor[tensor];
  if (nmb_tensor_resident(t) || at[tensor])
    return;
  value *v = &b->value[b->nvalue++];
  at[tensor] = b->nvalue;
  *v = (value){.tensor = tensor, .maker = t->def == NMB_NONE ? -1 : kernel_of[t->def]};
  v->seconds = NMB_NEW(b->run, double, p->hw->nmem * p->hw->nmem);
  for (int i = 0; i < p->hw->nmem * p->hw->nmem; i++)
    v->seconds[i] = NAN;
}

/* Lists values (roots) with their users, each user once. */
static void
values_find(problem *b)
{
  const nmb_prog *p = b->p;
  const nmb_block *blk = &p->block[b->block];
  int *kernel_of = NMB_NEW(b->run, int, p->nop + 1);
  int *at = NMB_NEW(b->run, int, p->ntensor + 1), nuse = 0;
  for (int k = 0; k < b->n; k++)
    for (int i = 0; i < p->kernel[b->first + k].nop; i++) {
      kernel_of[p->kernel[b->first + k].op[i]] = k;
      nuse += p->op[p->kernel[b->first + k].op[i]].nin;
    }
  b->value = NMB_NEW(b->run, value, nuse + 2);
  b->user = NMB_NEW(b->run, int, nuse + 1);
  for (int i = 0; i < blk->nop; i++)
    for (int j = 0; j < p->op[blk->op[i]].nin; j++)
      value_add(b, nmb_tensor_root(p, p->op[blk->op[i]].in[j]), kernel_of, at);
  if (blk->out != NMB_NONE) {
    value_add(b, nmb_tensor_root(p, blk->out), kernel_of, at);
    b->value[at[nmb_tensor_root(p, blk->out)] - 1].out = true;
  }
  int n = 0;
  for (int v = 0; v < b->nvalue; v++) {
    b->value[v].first = n;
    for (int i = 0; i < blk->nop; i++)
      for (int j = 0; j < p->op[blk->op[i]].nin; j++) {
        const int k = kernel_of[blk->op[i]];
        if (nmb_tensor_root(p, p->op[blk->op[i]].in[j]) != b->value[v].tensor ||
            k == b->value[v].maker)
          continue;
        bool known = false;
        for (int u = b->value[v].first; u < n; u++)
          known |= b->user[u] == k;
        if (!known)
          b->user[n++] = k;
      }
    b->value[v].nuser = n - b->value[v].first;
  }
}

/* ----------------------------------------------------------------------- PBQP */
typedef struct pbqp {
  int n, ne;
  double *node; /* [n][ne] */
  double *edge; /* [n][n][ne][ne]; edge[a][b] and edge[b][a] are kept alike */
  bool *joined; /* [n][n] */
  bool *gone;   /* [n] */
  int *degree;  /* [n] */
} pbqp;

static double *
edge(const pbqp *q, int a, int b)
{
  return q->edge + ((size_t)a * (size_t)q->n + (size_t)b) * (size_t)(q->ne * q->ne);
}

static void
edge_add(pbqp *q, int a, int b, int i, int j, double cost)
{
  if (!q->joined[a * q->n + b]) {
    q->joined[a * q->n + b] = q->joined[b * q->n + a] = true;
    q->degree[a]++;
    q->degree[b]++;
  }
  edge(q, a, b)[i * q->ne + j] += cost;
  edge(q, b, a)[j * q->ne + i] += cost;
}

static void
node_remove(pbqp *q, int x)
{
  q->gone[x] = true;
  for (int y = 0; y < q->n; y++)
    if (q->joined[x * q->n + y] && !q->gone[y])
      q->degree[y]--;
}

/* R1 and R2: what x would best do for each choice of its one or two neighbours. */
static void
reduce(pbqp *q, int x)
{
  int near[2] = {-1, -1}, n = 0;
  for (int y = 0; y < q->n; y++)
    if (q->joined[x * q->n + y] && !q->gone[y])
      near[n++] = y;
  if (n == 0)
    return;
  const int y = near[0], z = near[1];
  for (int j = 0; j < q->ne; j++)
    for (int k = 0; k < (n == 2 ? q->ne : 1); k++) {
      double least = INFINITY;
      for (int i = 0; i < q->ne; i++) {
        const double c = q->node[x * q->ne + i] + edge(q, x, y)[i * q->ne + j] +
                         (n == 2 ? edge(q, x, z)[i * q->ne + k] : 0);
        least = c < least ? c : least;
      }
      if (n == 2)
        edge_add(q, y, z, j, k, least);
      else
        q->node[y * q->ne + j] += least;
    }
}

/* RN: the choice of x that is best when each neighbour answers it best. */
static int
commit(pbqp *q, int x)
{
  int best = 0;
  double least = INFINITY;
  for (int i = 0; i < q->ne; i++) {
    double c = q->node[x * q->ne + i];
    for (int y = 0; y < q->n; y++) {
      if (!q->joined[x * q->n + y] || q->gone[y])
        continue;
      double answer = INFINITY;
      for (int j = 0; j < q->ne; j++)
        answer = fmin(answer, edge(q, x, y)[i * q->ne + j] + q->node[y * q->ne + j]);
      c += answer;
    }
    if (c < least) {
      least = c;
      best = i;
    }
  }
  for (int y = 0; y < q->n; y++)
    if (q->joined[x * q->n + y] && !q->gone[y])
      for (int j = 0; j < q->ne; j++)
        q->node[y * q->ne + j] += edge(q, x, y)[best * q->ne + j];
  return best;
}

/* The next node: of least degree; if that is above two, of highest. */
static int
pick(const pbqp *q)
{
  int least = -1, most = -1;
  for (int x = 0; x < q->n; x++) {
    if (q->gone[x])
      continue;
    if (least < 0 || q->degree[x] < q->degree[least])
      least = x;
    if (most < 0 || q->degree[x] > q->degree[most])
      most = x;
  }
  return least >= 0 && q->degree[least] > 2 ? most : least;
}

static void
solve(nmb_run *run, pbqp *q, nmb_id *engine)
{
  int *order = NMB_NEW(run, int, q->n + 1);
  int *turn = NMB_NEW(run, int, q->n + 1); /* when a node was removed */
  bool *fixed = NMB_NEW(run, bool, q->n + 1);
  for (int i = 0; i < q->n; i++) {
    const int x = order[i] = pick(q);
    turn[x] = i;
    if (q->degree[x] > 2) {
      engine[x] = commit(q, x);
      fixed[x] = true;
    } else
      reduce(q, x);
    node_remove(q, x);
  }
  for (int i = q->n - 1; i >= 0; i--) { /* neighbours removed later have chosen */
    const int x = order[i];
    double least = INFINITY;
    for (int e = 0; e < q->ne && !fixed[x]; e++) {
      double c = q->node[x * q->ne + e];
      for (int y = 0; y < q->n; y++)
        if (q->joined[x * q->n + y] && turn[y] > i && !fixed[y])
          c += edge(q, x, y)[e * q->ne + engine[y]];
      if (c < least) {
        least = c;
        engine[x] = e;
      }
    }
  }
}

/* -------------------------------------------------------------------- a block */
static nmb_status
pbqp_values(const problem *b, pbqp *q)
{
  const nmb_id host = home(b, b->p->hw->host);
  for (int i = 0; i < b->nvalue; i++) {
    value *v = &b->value[i];
    double s = 0;
    for (int e = 0; e < b->ne; e++) {
      if (v->out && v->maker >= 0 && isfinite(q->node[v->maker * b->ne + e])) {
        NMB_TRY(move_seconds(b, v, home(b, e), host, &s));
        q->node[v->maker * b->ne + e] += s;
      }
      for (int u = v->first; u < v->first + v->nuser; u++) {
        if (!isfinite(q->node[b->user[u] * b->ne + e]))
          continue;
        for (int f = 0; f < (v->maker < 0 ? 1 : b->ne); f++) {
          if (v->maker >= 0 && !isfinite(q->node[v->maker * b->ne + f]))
            continue;
          NMB_TRY(move_seconds(b, v, v->maker < 0 ? host : home(b, f), home(b, e), &s));
          if (v->maker < 0)
            q->node[b->user[u] * b->ne + e] += s;
          else
            edge_add(q, v->maker, b->user[u], f, e, s);
        }
      }
    }
  }
  return NMB_OK;
}

static nmb_status
start(const problem *b, nmb_id *engine)
{
  const size_t n = (size_t)b->n, ne = (size_t)b->ne;
  pbqp q = {.n = b->n, .ne = b->ne};
  q.node = NMB_NEW(b->run, double, n *ne + 1);
  q.edge = NMB_NEW(b->run, double, n *n *ne *ne + 1);
  q.joined = NMB_NEW(b->run, bool, n *n + 1);
  q.gone = NMB_NEW(b->run, bool, n + 1);
  q.degree = NMB_NEW(b->run, int, n + 1);
  for (int k = 0; k < b->n; k++) {
    for (int e = 0; e < b->ne; e++)
      q.node[k * b->ne + e] = cost_of(b, k, e);
    const int lead = b->cluster[k] - b->first;
    for (int i = 0; i < b->ne && lead != k; i++)
      for (int j = 0; j < b->ne; j++)
        edge_add(&q, lead, k, i, j,
                 b->p->hw->engine[i].resident == b->p->hw->engine[j].resident ? 0
                                                                              : INFINITY);
  }
  NMB_TRY(pbqp_values(b, &q));
  solve(b->run, &q, engine);
  double sum = 0;
  NMB_TRY(total_seconds(b, engine, &sum));
  for (int k = 0; k < b->n && isinf(sum); k++) /* RN ran into a cache's infinite edge */
    engine[k] = b->p->hw->host;
  return NMB_OK;
}

/* Tries kernel k on engine e, those tied to it on the cheapest of that memory, and
 * keeps it if the sum falls. */
static nmb_status
try_move(const problem *b, int k, int e, nmb_id *engine, nmb_id *trial, double *best,
         bool *better)
{
  const nmb_engine *hw = b->p->hw->engine;
  memcpy(trial, engine, (size_t)b->n * sizeof *trial);
  for (int i = 0; i < b->n; i++) {
    if (i == k)
      trial[i] = e;
    else if (b->cluster[i] == b->cluster[k] && hw[trial[i]].resident != hw[e].resident) {
      int pick_e = -1;
      for (int f = 0; f < b->ne; f++)
        if (hw[f].resident == hw[e].resident &&
            (pick_e < 0 || cost_of(b, i, f) < cost_of(b, i, pick_e)))
          pick_e = f;
      trial[i] = pick_e;
    }
  }
  double s = 0;
  NMB_TRY(total_seconds(b, trial, &s));
  if (s < *best * (1 - 1e-12)) {
    *best = s;
    *better = true;
    memcpy(engine, trial, (size_t)b->n * sizeof *engine);
  }
  return NMB_OK;
}

static nmb_status
improve(const problem *b, bool keep_memories, nmb_id *engine)
{
  const nmb_engine *hw = b->p->hw->engine;
  nmb_id *trial = NMB_NEW(b->run, nmb_id, b->n + 1);
  double best = 0;
  NMB_TRY(total_seconds(b, engine, &best));
  for (bool better = true; better;) {
    better = false;
    for (int k = 0; k < b->n; k++)
      for (int e = 0; e < b->ne; e++) {
        if (e == engine[k] || !isfinite(cost_of(b, k, e)) ||
            (keep_memories && hw[e].resident != hw[engine[k]].resident))
          continue;
        NMB_TRY(try_move(b, k, e, engine, trial, &best, &better));
      }
  }
  return NMB_OK;
}

/* ---------------------------------------------------------------- the program */
static nmb_status
costs_find(nmb_run *run, const nmb_prog *p, double *cost)
{
  for (nmb_id k = 0; k < p->nkernel; k++) {
    const nmb_kernel *g = &p->kernel[k];
    const uint64_t legal = nmb_engines_legal(p, g->op, g->nop);
    for (nmb_id e = 0; e < p->hw->nengine; e++) {
      double *c = &cost[k * p->hw->nengine + e];
      *c = INFINITY;
      if (legal >> e & 1)
        NMB_TRY(nmb_planned_seconds(run, p, g->op, g->nop, e, c));
    }
    if (!legal)
      return nmb_fail(run, NMB_UNSUPPORTED, p->op[g->op[0]].loc,
                      "no engine of %s runs %s", p->hw->name,
                      nmb_op_get(p->op[g->op[0]].code)->name);
  }
  return NMB_OK;
}

/* Clusters by their first kernel in each block: blocks are decided one by one, so that a
 * cache which others read, too, may come to lie in two memories. */
static void
block_clusters(nmb_run *run, const nmb_prog *p, nmb_id *cluster)
{
  nmb_id *all = NMB_NEW(run, nmb_id, p->nkernel + 1);
  nmb_cache_clusters(run, p, all);
  for (nmb_id k = 0, first = 0; k < p->nkernel; k++) {
    if (p->kernel[k].block != p->kernel[first].block)
      first = k;
    nmb_id lead = first;
    while (all[lead] != all[k])
      lead++;
    cluster[k] = lead;
  }
}

static nmb_status
transform(nmb_run *run, nmb_prog *p)
{
  const int ne = p->hw->nengine;
  int ncompute = 0; /* links stand behind */
  while (ncompute < ne && !nmb_engine_is_link(&p->hw->engine[ncompute]))
    ncompute++;
  double *cost = NMB_NEW(run, double, p->nkernel *ne + 1);
  nmb_id *engine = NMB_NEW(run, nmb_id, p->nkernel + 1);
  nmb_id *cluster = NMB_NEW(run, nmb_id, p->nkernel + 1);
  problem *block = NMB_NEW(run, problem, p->nblock + 1);
  NMB_TRY(costs_find(run, p, cost));
  block_clusters(run, p, cluster);
  int nb = 0;
  for (nmb_id k = 0; k < p->nkernel; nb++) {
    problem *b = &block[nb];
    *b = (problem){.run = run,
                   .p = p,
                   .block = p->kernel[k].block,
                   .first = k,
                   .ne = ncompute,
                   .cost = cost + (size_t)k * (size_t)ne,
                   .cluster = cluster + k};
    while (k < p->nkernel && p->kernel[k].block == b->block)
      k++;
    b->n = k - b->first;
    values_find(b);
    NMB_TRY(start(b, engine + b->first));
    NMB_TRY(improve(b, false, engine + b->first));
  }
  NMB_TRY(nmb_dispatch_fit(run, p, cost, nmb_opt_real(run, "reserve"), engine));
  double seconds = 0;
  for (int i = 0; i < nb; i++) {
    double s = 0;
    NMB_TRY(improve(&block[i], true, engine + block[i].first));
    NMB_TRY(total_seconds(&block[i], engine + block[i].first, &s));
    seconds += s * (double)p->block[block[i].block].repeat;
  }
  nmb_stat(run, "estimated seconds", seconds);
  nmb_section_begin(p, NMB_DISPATCH);
  for (nmb_id k = 0; k < p->nkernel; k++)
    nmb_dispatch_set(p, k, engine[k]);
  return NMB_OK;
}

static const nmb_opt opts[] = {
    {"reserve", "ratio", "1", "0.05", "0..0.9",
     "part of each memory kept free for padding and activations"},
    {0},
};

NMB_PLUGIN
{
    NMB_PLUGIN_HEAD,
    .kind = "dispatch",
    .name = "dispatch-cost",
    .version = "1",
    .summary = "least sum of kernel and transfer seconds",
    .source = "anderson2018pbqp",
    .limits =
        "kernels count as if run one after the other, so overlap of engines is not seen; "
        "exact for chains and diamonds only",
    .opts = opts,
    .reads = NMB_BIT(NMB_GRAPH) | NMB_BIT(NMB_GROUPS),
    .writes = NMB_BIT(NMB_DISPATCH),
    .transform = transform,
};
