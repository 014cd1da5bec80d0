/* SPDX-License-Identifier: GPL-3.0-or-later */
/* ibm-3d-cim: a decoder on 3D analog in-memory tiles, as IBM's public simulator
 * schedules it.
 *
 * Every weight matrix lies on tiers of 512 x 512 cells; tiers are stacked on tiles, and
 * a tile multiplies with one of its tiers at a time.  The step is a graph of
 *   mvm    100 ns, on its tile        add, sample   10 ns, norm 50 ns, relu 1 ns, on
 *   move    10 ns, each in and out     one of four digital units
 *   mha      2 ns (a stub), one unit
 * and the graph is run by list scheduling: whatever is ready and finds its unit free
 * starts, earlier sequences and tokens first.  Without caches of keys and values each
 * step runs all tokens anew, and they follow each other through the tiles.
 * Without contention, d 512 and caches the time is tokens (633 layers + 260) - 10 ns;
 * the test holds the graph against that closed form. */
#include "nmbench/nmb_plugin.h"

#include <math.h>
#include <string.h>

enum { TIER = 512, NOTILE = -1 };
typedef enum kind { MVM, MOVE, MHA, ADD, NORM, RELU, SAMPLE, NKIND } kind;
static const struct {
  const char *name;
  double ns, nj;
  bool digital; /* needs one of the digital units */
} kinds[NKIND] = {{"mvm", 100, 10, false}, {"communication", 10, 1e-5 * 8 * TIER, false},
                  {"mha", 2, 2, false},    {"add", 10, 10, true},
                  {"norm", 50, 10, true},  {"relu", 1, 10, true},
                  {"sample", 10, 0, true}};

typedef struct node {
  kind kind;
  int tile, seq, token;
  int need;  /* inputs not there yet */
  int users; /* first of a list of edges; -1: none */
  double end;
} node;
typedef struct edge {
  int to, next;
} edge;

/* A matrix on tiers: [rows of tiers][columns of tiers] of tiles, one after another. */
typedef struct matrix {
  int down, across, first;
  double tiers; /* in full tiers: its area */
} matrix;

typedef struct net {
  nmb_run *run;
  node *node;
  int n, cap;
  edge *edge;
  int nedge, edge_cap;
  int tiles, digital, mha;
  bool ott;
  int next_tile;  /* mapping */
  int64_t placed; /* tiers used */
  double flops;
  double count[NKIND];
} net;

/* ----------------------------------------------------------------------- graph */
static void *
grown(nmb_run *run, void *old, int n, int *cap, size_t size)
{
  if (n < *cap)
    return old;
  *cap = *cap ? 2 * *cap : 1024;
  void *v = nmb_alloc(run, (size_t)*cap, size);
  if (n)
    memcpy(v, old, (size_t)n * size);
  return v;
}

static int
add_node(net *g, kind k, int tile, int seq, int token)
{
  g->node = grown(g->run, g->node, g->n, &g->cap, sizeof *g->node);
  g->node[g->n] =
      (node){.kind = k, .tile = tile, .seq = seq, .token = token, .users = -1};
  g->count[k]++;
  return g->n++;
}

static void
link_nodes(net *g, int from, int to)
{
  g->edge = grown(g->run, g->edge, g->nedge, &g->edge_cap, sizeof *g->edge);
  g->edge[g->nedge] = (edge){to, g->node[from].users};
  g->node[from].users = g->nedge++;
  g->node[to].need++;
}

static int
after(net *g, kind k, int seq, int token, int input)
{
  const int x = add_node(g, k, NOTILE, seq, token);
  if (input >= 0)
    link_nodes(g, input, x);
  return x;
}

/* -------------------------------------------------------------------- mapping */
static matrix
place(net *g, int64_t rows, int64_t cols)
{
  matrix m = {.down = (int)((rows + TIER - 1) / TIER),
              .across = (int)((cols + TIER - 1) / TIER),
              .first = g->next_tile,
              .tiers = (double)rows * (double)cols / (TIER * TIER)};
  g->next_tile = (g->next_tile + m.down * m.across) % g->tiles;
  g->placed += (int64_t)m.down * m.across;
  return m;
}

/* ------------------------------------------------------------------ operations */
typedef struct values {
  int n;
  int *v; /* nodes that hold the columns of a result */
} values;

/* x m: every tier gets its part of x and gives partial sums of its columns. */
static values
multiply(net *g, const matrix *m, int x, int seq, int token)
{
  values out = {m->across, NMB_NEW(g->run, int, m->across)};
  g->flops += m->tiers * (TIER * (double)TIER + TIER * (TIER - 1.0));
  for (int j = 0; j < m->across; j++)
    for (int i = 0; i < m->down; i++) {
      const int tile = (m->first + i * m->across + j) % g->tiles;
      const int in = x >= 0 ? after(g, MOVE, seq, token, x) : -1;
      const int mvm = add_node(g, MVM, tile, seq, token);
      if (in >= 0)
        link_nodes(g, in, mvm);
      const int part = after(g, MOVE, seq, token, mvm);
      if (i == 0) {
        out.v[j] = part;
        continue;
      }
      const int sum = after(g, ADD, seq, token, out.v[j]);
      link_nodes(g, part, sum);
      out.v[j] = sum;
      g->flops += TIER;
    }
  return out;
}

/* A digital operation on all columns. */
static int
join(net *g, kind k, int seq, int token, const values *x, double flops)
{
  const int y = add_node(g, k, NOTILE, seq, token);
  for (int i = 0; i < x->n; i++)
    link_nodes(g, x->v[i], y);
  g->flops += flops;
  return y;
}

/* ----------------------------------------------------------------------- model */
typedef struct layer {
  matrix qkv[3], out, up, down;
  matrix router;
  matrix *experts; /* [2 experts]: up, down; NULL: dense */
} layer;

typedef struct model {
  int64_t d, ff, vocab, layers, experts, k, every;
  bool kv, shared;
  matrix embed, head;
  layer *layer;
} model;

static void
place_experts(net *g, model *m, layer *l)
{
  l->router = place(g, m->d, m->experts);
  l->experts = NMB_NEW(g->run, matrix, 2 * m->experts);
  const int base = g->next_tile;
  for (int64_t e = 0; e < m->experts; e++) {
    if (m->shared) /* stacked on the same tiles, which can then run one of them */
      g->next_tile = base;
    l->experts[2 * e] = place(g, m->d, m->ff);
    l->experts[2 * e + 1] = place(g, m->ff, m->d);
  }
}

static void
place_model(net *g, model *m)
{
  m->embed = place(g, TIER, m->d);
  m->embed.down = 1;
  g->next_tile += (int)((m->vocab + TIER - 1) / TIER - 1) * m->embed.across;
  g->next_tile %= g->tiles;
  m->layer = NMB_NEW(g->run, layer, m->layers);
  for (int64_t i = 0; i < m->layers; i++) {
    layer *l = &m->layer[i];
    for (int j = 0; j < 3; j++)
      l->qkv[j] = place(g, m->d, m->d);
    l->out = place(g, m->d, m->d);
    if (m->experts > 0 && i % m->every == 0)
      place_experts(g, m, l);
    else {
      l->up = place(g, m->d, m->ff);
      l->down = place(g, m->ff, m->d);
    }
  }
  m->head = place(g, m->d, m->vocab);
}

static values
feed_forward(net *g, const model *m, const matrix *up, const matrix *down, int x, int seq,
             int token)
{
  const values h = multiply(g, up, x, seq, token);
  const int r = join(g, RELU, seq, token, &h, (double)m->ff);
  return multiply(g, down, r, seq, token);
}

/* The router runs beside the experts: what it decides is drawn, not waited for. */
static values
mixture(net *g, const model *m, const layer *l, int x, int seq, int token)
{
  values sum = {0};
  int *chosen = NMB_NEW(g->run, int, m->k);
  multiply(g, &l->router, x, seq, token);
  for (int64_t i = 0; i < m->k; i++) {
    bool again = true;
    while (again) { /* k different experts */
      chosen[i] = (int)(nmb_rand(g->run) % (uint64_t)m->experts);
      again = false;
      for (int64_t j = 0; j < i; j++)
        again |= chosen[j] == chosen[i];
    }
    const matrix *e = &l->experts[2 * chosen[i]];
    const values y = feed_forward(g, m, &e[0], &e[1], x, seq, token);
    if (i == 0) {
      sum = y;
      continue;
    }
    const int added = join(g, ADD, seq, token, &y, (double)m->ff);
    for (int j = 0; j < sum.n; j++)
      link_nodes(g, sum.v[j], added);
    sum = (values){1, NMB_NEW(g->run, int, 1)};
    sum.v[0] = added;
  }
  return sum;
}

static double
mha_flops(const model *m, double s)
{
  const double dots = m->kv ? s : (s * s + s) / 2, d = (double)m->d;
  return 2 * dots * d + 1 + dots + 2 * dots + (dots - s) +
         (m->kv ? 2 * s * d : 2 * s * s * d);
}

/* Attention of one layer over tokens [first, s): waits for all their q, k and v. */
static int
attention(net *g, const model *m, const layer *l, int seq, int first, int s, const int *x)
{
  const int mha = add_node(g, MHA, NOTILE, seq, s - 1);
  g->flops += mha_flops(m, s);
  for (int t = first; t < s; t++)
    for (int i = 0; i < 3; i++) {
      const values v = multiply(g, &l->qkv[i], x[t], seq, t);
      for (int j = 0; j < v.n; j++)
        link_nodes(g, v.v[j], mha);
    }
  return mha;
}

/* One layer; x: what goes into q, k, v of each token; residual: what is added. */
static void
layer_nodes(net *g, const model *m, int64_t i, int seq, int first, int s, int *x,
            int *residual)
{
  const layer *l = &m->layer[i];
  const double d = (double)m->d;
  const int mha = attention(g, m, l, seq, first, s, x);
  for (int t = first; t < s; t++) {
    const values o = multiply(g, &l->out, mha, seq, t);
    int r = join(g, ADD, seq, t, &o, d);
    link_nodes(g, residual[t], r);
    const int normed = after(g, NORM, seq, t, r);
    const values f = l->experts ? mixture(g, m, l, normed, seq, t)
                                : feed_forward(g, m, &l->up, &l->down, normed, seq, t);
    const int sum = join(g, ADD, seq, t, &f, d);
    link_nodes(g, r, sum);
    residual[t] = sum;
    x[t] = sum;
    g->flops += 10 * d;
    if (i + 1 < m->layers) {
      x[t] = after(g, NORM, seq, t, sum);
      g->flops += 10 * d;
    }
  }
}

/* A step: tokens [first, s) go through all layers, the last one is sampled from. */
static int
step_nodes(net *g, const model *m, int seq, int first, int s, int before, int *x,
           int *residual)
{
  const double d = (double)m->d;
  for (int t = first; t < s; t++) {
    const values e = multiply(g, &m->embed, before, seq, t);
    x[t] = residual[t] = join(g, ADD, seq, t, &e, d);
  }
  for (int64_t i = 0; i < m->layers; i++)
    layer_nodes(g, m, i, seq, first, s, x, residual);
  const int normed = after(g, NORM, seq, s - 1, x[s - 1]);
  g->flops += 10 * d + TIER;
  const int moved = add_node(g, MOVE, NOTILE, seq, s - 1);
  const bool sums = m->head.down > 1; /* partial sums are moved first, then added */
  if (sums) {
    const values v = multiply(g, &m->head, normed, seq, s - 1);
    for (int i = 0; i < v.n; i++)
      link_nodes(g, v.v[i], moved);
  } else
    for (int i = 0; i < m->head.across; i++) {
      const int tile = (m->head.first + i) % g->tiles;
      const int mvm = add_node(g, MVM, tile, seq, s - 1);
      link_nodes(g, after(g, MOVE, seq, s - 1, normed), mvm);
      link_nodes(g, mvm, moved);
    }
  if (!sums)
    g->flops += m->head.tiers * (TIER * (double)TIER + TIER * (TIER - 1.0));
  return after(g, SAMPLE, seq, s - 1, moved);
}

/* -------------------------------------------------------------------- schedule */
typedef struct queue { /* of nodes, as a heap */
  int n, *v;
} queue;

static bool
sooner(const net *g, int a, int b)
{
  const node *x = &g->node[a], *y = &g->node[b];
  if (x->seq != y->seq)
    return x->seq < y->seq;
  return x->token != y->token ? x->token < y->token : a < b;
}

static bool
ends_sooner(const net *g, int a, int b)
{
  const double x = g->node[a].end, y = g->node[b].end;
  return x < y || (!(y < x) && a < b);
}

typedef bool before_fn(const net *, int, int);

static void
push(const net *g, queue *q, int x, before_fn *before)
{
  int i = q->n++;
  for (; i > 0 && before(g, x, q->v[(i - 1) / 2]); i = (i - 1) / 2)
    q->v[i] = q->v[(i - 1) / 2];
  q->v[i] = x;
}

static int
pop(const net *g, queue *q, before_fn *before)
{
  const int top = q->v[0], x = q->v[--q->n];
  int i = 0;
  for (int c; (c = 2 * i + 1) < q->n; i = c) {
    c += c + 1 < q->n && before(g, q->v[c + 1], q->v[c]);
    if (!before(g, q->v[c], x))
      break;
    q->v[i] = q->v[c];
  }
  q->v[i] = x;
  return top;
}

typedef struct units {
  queue wait;
  int idle;
} units;

/* Which units a node needs: one of its tile, the digital ones, the attention ones. */
static units *
units_of(const net *g, units *all, int x)
{
  const node *y = &g->node[x];
  if (y->kind == MVM)
    return g->ott ? &all[2 + y->tile] : NULL;
  if (y->kind == MHA)
    return &all[1];
  return kinds[y->kind].digital ? &all[0] : NULL;
}

static void
start(net *g, queue *running, int x, double now)
{
  g->node[x].end = now + kinds[g->node[x].kind].ns;
  push(g, running, x, ends_sooner);
}

static void
ready(net *g, units *all, queue *running, int x, double now)
{
  units *u = units_of(g, all, x);
  if (u)
    push(g, &u->wait, x, sooner);
  else
    start(g, running, x, now);
}

/* Everything that can start now; units in order, so that runs repeat. */
static void
start_all(net *g, units *all, queue *running, double now)
{
  for (int i = 0; i < g->tiles + 2; i++)
    while (all[i].idle > 0 && all[i].wait.n > 0) {
      all[i].idle--;
      start(g, running, pop(g, &all[i].wait, sooner), now);
    }
}

static double
run_graph(net *g)
{
  units *all = NMB_NEW(g->run, units, g->tiles + 2);
  int *per = NMB_NEW(g->run, int, g->tiles + 2);
  queue running = {0, NMB_NEW(g->run, int, g->n + 1)};
  double now = 0;
  for (int i = 0; i < g->tiles + 2; i++)
    all[i].idle = i == 0 ? g->digital : i == 1 ? g->mha : 1;
  for (int i = 0; i < g->n; i++) {
    const units *u = units_of(g, all, i);
    if (u)
      per[u - all]++;
  }
  for (int i = 0; i < g->tiles + 2; i++)
    all[i].wait.v = NMB_NEW(g->run, int, per[i] + 1);
  for (int i = 0; i < g->n; i++)
    if (g->node[i].need == 0)
      ready(g, all, &running, i, 0);
  start_all(g, all, &running, 0);
  while (running.n > 0) {
    now = g->node[running.v[0]].end;
    while (running.n > 0 && g->node[running.v[0]].end <= now) {
      const int x = pop(g, &running, ends_sooner);
      units *u = units_of(g, all, x);
      if (u)
        u->idle++;
      for (int e = g->node[x].users; e >= 0; e = g->edge[e].next)
        if (--g->node[g->edge[e].to].need == 0)
          ready(g, all, &running, g->edge[e].to, now);
    }
    start_all(g, all, &running, now);
  }
  return now;
}

/* ---------------------------------------------------------------------- output */
static void
emit(nmb_run *run, const net *g, const model *m, double ns, double nodes)
{
  const double watts = g->digital + g->mha + (m->kv ? 0.1297 : 0);
  double joule = 1e-9 * watts * ns;
  nmb_emit(run, "time", 1e-9 * ns);
  nmb_emit_part(run, "energy_part", "static", NULL, joule);
  for (int k = 0; k < NKIND; k++) {
    const double e = 1e-9 * g->count[k] * kinds[k].nj;
    nmb_emit_part(run, "energy_part", kinds[k].name, NULL, e);
    joule += e;
  }
  nmb_emit(run, "energy", joule);
  nmb_emit(run, "operations", g->flops);
  nmb_emit(run, "tiers", (double)g->placed);
  nmb_emit(run, "nodes", nodes);
}

static nmb_status
evaluate(nmb_run *run, const nmb_prog *none)
{
  (void)none;
  const int64_t tokens = nmb_opt_int(run, "tokens"), batch = nmb_opt_int(run, "batch");
  model m = {.d = nmb_opt_int(run, "d"),
             .ff = nmb_opt_int(run, "ff"),
             .vocab = nmb_opt_int(run, "vocab"),
             .layers = nmb_opt_int(run, "layers"),
             .experts = nmb_opt_int(run, "experts"),
             .k = nmb_opt_int(run, "top-k"),
             .every = nmb_opt_int(run, "moe-every"),
             .kv = nmb_opt_bool(run, "kv-cache"),
             .shared = !strcmp(nmb_opt_text(run, "placement"), "shared")};
  net g = {.run = run,
           .tiles = (int)nmb_opt_int(run, "tiles"),
           .digital = (int)nmb_opt_int(run, "digital-units"),
           .mha = (int)nmb_opt_int(run, "attention-units"),
           .ott = nmb_opt_bool(run, "one-tier")};
  if (m.experts > 0 && m.k > m.experts)
    return nmb_fail(run, NMB_BADOPTION, NMB_NOLOC, "found top-k %lld of %lld experts",
                    (long long)m.k, (long long)m.experts);
  place_model(&g, &m);
  if (g.placed > (int64_t)g.tiles * nmb_opt_int(run, "tiers"))
    return nmb_fail(run, NMB_INFEASIBLE, NMB_NOLOC,
                    "the weights need %lld tiers, there are %lld", (long long)g.placed,
                    (long long)g.tiles * (long long)nmb_opt_int(run, "tiers"));
  const double steps = (double)(m.kv ? tokens : tokens * (tokens + 1) / 2);
  const double each = (double)(m.d / TIER + 1) * (double)(m.d / TIER + 1) * 12 +
                      (double)(m.ff / TIER + 1) * (double)(m.d / TIER + 1) * 6 *
                          (double)(m.experts > 0 ? m.k : 1);
  if (steps * (double)batch * (double)m.layers * each > 2e7)
    return nmb_fail(run, NMB_UNSUPPORTED, NMB_NOLOC,
                    "about %.0f operations, more than 2e7 are not scheduled",
                    steps * (double)batch * (double)m.layers * each);
  for (int seq = 0; seq < batch; seq++) {
    int *x = NMB_NEW(run, int, tokens + 1), *residual = NMB_NEW(run, int, tokens + 1);
    for (int s = 1, last = -1; s <= tokens; s++)
      last = step_nodes(&g, &m, seq, m.kv ? s - 1 : 0, s, last, x, residual);
  }
  emit(run, &g, &m, run_graph(&g), (double)g.n);
  return NMB_OK;
}

static const nmb_opt opts[] = {
    {"d", "int", "1", "512", "1..65536", "width of the model"},
    {"ff", "int", "1", "2048", "1..262144", "width of the feed-forward layers"},
    {"vocab", "int", "token", "1024", "1..1048576", "vocabulary"},
    {"layers", "int", "layer", "3", "1..512", "layers"},
    {"experts", "int", "expert", "0", "0..4096", "of a mixture layer; 0: dense"},
    {"top-k", "int", "expert", "1", "1..16", "experts that a token visits"},
    {"moe-every", "int", "layer", "1", "1..512", "every n-th layer is a mixture"},
    {"placement", "enum", NULL, "separate", "separate|shared",
     "experts on tiles of their own, or stacked on the same"},
    {"tokens", "int", "token", "11", "1..4096", "tokens generated from a prompt of one"},
    {"batch", "int", "1", "1", "1..1024", "sequences"},
    {"kv-cache", "bool", NULL, "true", "", "keep keys and values"},
    {"tiles", "int", "1", "100", "1..65536", "tiles"},
    {"tiers", "int", "1", "1024", "1..65536", "tiers of a tile"},
    {"digital-units", "int", "1", "4", "1..1024", "units for adds, norms and relu"},
    {"attention-units", "int", "1", "1", "1..1024", "units for attention"},
    {"one-tier", "bool", NULL, "true", "", "a tile multiplies with one tier at a time"},
    {0}};
static const nmb_metric metrics[] = {
    {"time", "s", "less", "all tokens"},
    {"energy", "J", "less", "all tokens"},
    {"energy_part", "J", "less", "parts of energy"},
    {"operations", "op", "", "multiplications and additions, as its authors count"},
    {"tiers", "1", "less", "tiers that hold weights"},
    {"nodes", "op", "", "operations scheduled"},
    {0}};

NMB_PLUGIN
{
    NMB_PLUGIN_HEAD,
    .kind = "system",
    .name = "ibm-3d-cim",
    .version = "1",
    .summary = "3D analog in-memory tiles for decoders and mixtures, by IBM's rules",
    .source = "buechel2025moe3d; github.com/IBM/3D-CiM-LLM-Inference-Simulator 0bef55f",
    .limits = "attention is the artifact's stub of 2 ns, so nothing can be learnt about "
              "context; experts are drawn evenly; tiles are filled in order; no memory "
              "of activations",
    .opts = opts,
    .metrics = metrics,
    .evaluate = evaluate,
};
