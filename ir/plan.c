/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Growing kernels, best engines, residents and capacity: nmb_plan.h. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/run.h"
#include "ir/lower.h"
#include "nmbench/nmb_plan.h"

/* ---------------------------------------------------------------------- fuse */
/* Position of an op in its block.  Ids of a block are consecutive once the graph
 * is compact, as it is whenever a pass starts. */
static int
position(const nmb_prog *p, nmb_id block, nmb_id op)
{
  const nmb_block *b = &p->block[block];
  const int at = op - b->op[0];
  assert(at >= 0 && at < b->nop && b->op[at] == op);
  return at;
}

void
nmb_grouping_init(nmb_run *run, const nmb_prog *p, nmb_id block, nmb_grouping *out)
{
  const nmb_block *b = &p->block[block];
  nmb_grouping g = {.block = block, .nop = b->nop};
  g.group = NMB_NEW(run, int, b->nop + 1);
  g.in = NMB_NEW(run, int, b->nop *NMB_MAXIN + 1);
  g.user = NMB_NEW(run, int, b->nop *NMB_MAXIN + 1);
  g.in_first = NMB_NEW(run, int, b->nop + 1);
  g.user_first = NMB_NEW(run, int, b->nop + 2);
  int n = 0;
  for (int i = 0; i < b->nop; i++) {
    const nmb_op *o = &p->op[b->op[i]];
    g.group[i] = i;
    g.in_first[i] = n;
    for (int j = 0; j < o->nin; j++)
      if (p->tensor[o->in[j]].def != NMB_NONE) {
        g.in[n] = position(p, block, p->tensor[o->in[j]].def);
        g.user_first[g.in[n++] + 1]++;
      }
  }
  g.in_first[b->nop] = n;
  for (int i = 0; i < b->nop; i++)
    g.user_first[i + 1] += g.user_first[i];
  int *fill = NMB_NEW(run, int, b->nop + 1);
  for (int i = 0; i < b->nop; i++)
    for (int j = g.in_first[i]; j < g.in_first[i + 1]; j++)
      g.user[g.user_first[g.in[j]] + fill[g.in[j]]++] = i;
  *out = g;
}

int
nmb_grouping_ops(const nmb_prog *p, const nmb_grouping *g, int a, int b, nmb_id *op)
{
  int n = 0;
  for (int i = 0; i < g->nop; i++)
    if (g->group[i] == a || g->group[i] == b)
      op[n++] = p->block[g->block].op[i];
  return n;
}

/* Is there a path from group `from` to group `to` through at least one other? */
static bool
detour(const nmb_grouping *g, int from, int to, bool *reached)
{
  memset(reached, 0, (size_t)g->nop * sizeof *reached);
  for (bool more = true; more;) {
    more = false;
    for (int i = 0; i < g->nop; i++) {
      const int to_group = g->group[i];
      for (int j = g->in_first[i]; j < g->in_first[i + 1]; j++) {
        const int by = g->group[g->in[j]];
        if (by == to_group || (by != from && !reached[by]))
          continue;
        if (to_group == to && by != from)
          return true;
        if (to_group != to && to_group != from && !reached[to_group])
          reached[to_group] = more = true;
      }
    }
  }
  return false;
}

bool
nmb_grouping_acyclic(nmb_run *run, const nmb_grouping *g, int a, int b)
{
  bool *reached = NMB_NEW(run, bool, g->nop + 1);
  return a == b || (!detour(g, a, b, reached) && !detour(g, b, a, reached));
}

void
nmb_grouping_merge(nmb_grouping *g, int a, int b)
{
  const int lower = a < b ? a : b;
  for (int i = 0; i < g->nop; i++)
    if (g->group[i] == a || g->group[i] == b)
      g->group[i] = lower;
}

static bool
ready(const nmb_grouping *g, int group, const bool *done)
{
  for (int i = 0; i < g->nop; i++)
    if (g->group[i] == group)
      for (int j = g->in_first[i]; j < g->in_first[i + 1]; j++)
        if (g->group[g->in[j]] != group && !done[g->group[g->in[j]]])
          return false;
  return true;
}

void
nmb_grouping_write(nmb_run *run, nmb_prog *p, const nmb_grouping *g)
{
  bool *done = NMB_NEW(run, bool, g->nop + 1);
  nmb_id *op = NMB_NEW(run, nmb_id, g->nop + 1);
  for (int first = 0; first < g->nop;) {
    int next = first; /* the first group in order that waits for none */
    while (next < g->nop &&
           (g->group[next] != next || done[next] || !ready(g, next, done)))
      next++;
    assert(next < g->nop); /* else the groups are no DAG */
    done[next] = true;
    nmb_kernel_add(p, g->block, op, nmb_grouping_ops(p, g, next, next, op));
    while (first < g->nop && done[g->group[first]])
      first++;
  }
}

nmb_status
nmb_grouping_blocks(nmb_run *run, nmb_prog *p,
                    nmb_status (*one)(nmb_run *, nmb_prog *, nmb_id, int *))
{
  int estimates = 0;
  nmb_section_begin(p, NMB_GROUPS);
  for (nmb_id b = 0; b < p->nblock; b++)
    NMB_TRY(one(run, p, b, &estimates));
  nmb_stat(run, "kernels", p->nkernel);
  nmb_stat(run, "estimates", estimates);
  return NMB_OK;
}

uint64_t
nmb_engines_legal(const nmb_prog *p, const nmb_id *op, int nop)
{
  uint64_t can = nmb_engines_for(p, op, nop), legal = 0;
  for (int e = 0; can >> e; e++)
    if ((can >> e & 1) && nmb_fuse_legal(p, e, op, nop, NULL))
      legal |= UINT64_C(1) << e;
  return legal;
}

nmb_status
nmb_best_seconds(nmb_run *run, const nmb_prog *p, const nmb_id *op, int nop,
                 nmb_id *engine, double *seconds)
{
  const uint64_t legal = nmb_engines_legal(p, op, nop);
  nmb_id best = NMB_NONE;
  *seconds = INFINITY;
  for (int e = 0; legal >> e; e++) {
    if (!(legal >> e & 1))
      continue;
    double s = 0;
    NMB_TRY(nmb_planned_seconds(run, p, op, nop, e, &s));
    if (s < *seconds) {
      *seconds = s;
      best = e;
    }
  }
  if (engine)
    *engine = best;
  return NMB_OK;
}

/* ------------------------------------------------------------------ dispatch */
static bool
is_cache(const nmb_tensor *t)
{
  return t->role == NMB_ROLE_KV || t->role == NMB_ROLE_STATE;
}

static nmb_id
leader(nmb_id *cluster, nmb_id k)
{
  while (cluster[k] != k)
    k = cluster[k] = cluster[cluster[k]];
  return k;
}

void
nmb_cache_clusters(nmb_run *run, const nmb_prog *p, nmb_id *cluster)
{
  nmb_id *owner = NMB_NEW(run, nmb_id, p->ntensor + 1); /* of a cache; kernel id + 1 */
  for (nmb_id k = 0; k < p->nkernel; k++) {
    cluster[k] = k;
    for (int i = 0; i < p->kernel[k].nop; i++) {
      const nmb_op *o = &p->op[p->kernel[k].op[i]];
      for (int j = 0; j < o->nin; j++) {
        const nmb_id root = nmb_tensor_root(p, o->in[j]);
        if (!is_cache(&p->tensor[root]))
          continue;
        if (!owner[root])
          owner[root] = k + 1;
        const nmb_id a = leader(cluster, owner[root] - 1), b = leader(cluster, k);
        cluster[a > b ? a : b] = a > b ? b : a;
      }
    }
  }
  for (nmb_id k = 0; k < p->nkernel; k++)
    cluster[k] = leader(cluster, k);
}

/* Notes that kernel k reads `tensor` on an engine; row: [ntensor][nmem] place in
 * the list, counted from 1. */
static int
resident_add(const nmb_prog *p, nmb_id tensor, nmb_id k, const nmb_engine *e, int *row,
             nmb_resident *list, int n)
{
  const nmb_id root = nmb_tensor_root(p, tensor);
  const nmb_tensor *t = &p->tensor[root];
  if (!nmb_tensor_resident(t))
    return n;
  int *at = &row[root * p->hw->nmem + e->resident];
  if (!*at) {
    list[n] = (nmb_resident){.tensor = root, .mem = e->resident, .kernel = k};
    list[n].bytes = nmb_tensor_bytes(t) * p->block[t->block].repeat;
    *at = ++n;
  }
  list[*at - 1].in_memory |= e->in_memory;
  return n;
}

int
nmb_residents(nmb_run *run, const nmb_prog *p, const nmb_id *engine, nmb_resident **out)
{
  int most = 1, n = 0;
  for (int i = 0; i < p->nop; i++)
    most += p->op[i].nin;
  int *row = NMB_NEW(run, int, p->ntensor * p->hw->nmem + 1);
  *out = NMB_NEW(run, nmb_resident, most);
  for (nmb_id k = 0; k < p->nkernel; k++) {
    const nmb_engine *e = &p->hw->engine[engine ? engine[k] : p->kernel[k].engine];
    for (int i = 0; i < p->kernel[k].nop; i++) {
      const nmb_op *o = &p->op[p->kernel[k].op[i]];
      for (int j = 0; j < o->nin; j++)
        n = resident_add(p, o->in[j], k, e, row, *out, n);
    }
  }
  return n;
}

/* Fitting residents into memories: what a move is judged by. */
typedef struct fit {
  const nmb_prog *p;
  const double *penalty; /* [nkernel][nengine] */
  double reserve;
  nmb_id *cluster;          /* [nkernel] */
  int64_t *bytes;           /* [nkernel] residents of the cluster that k leads */
  int64_t load[NMB_MAXMEM]; /* residents in each memory */
} fit;

static void
fit_load(nmb_run *run, fit *f, const nmb_id *engine)
{
  nmb_resident *r;
  const int n = nmb_residents(run, f->p, engine, &r);
  memset(f->load, 0, sizeof f->load);
  for (int i = 0; i < n; i++)
    f->load[r[i].mem] += r[i].bytes;
}

/* A tensor that two clusters share counts for the first alone: moves are judged
 * by this, memories by fit_load. */
static void
fit_init(nmb_run *run, fit *f, const nmb_id *engine)
{
  f->cluster = NMB_NEW(run, nmb_id, f->p->nkernel + 1);
  f->bytes = NMB_NEW(run, int64_t, f->p->nkernel + 1);
  nmb_cache_clusters(run, f->p, f->cluster);
  nmb_resident *r;
  const int n = nmb_residents(run, f->p, engine, &r);
  for (int i = 0; i < n; i++)
    f->bytes[f->cluster[r[i].kernel]] += r[i].bytes;
}

static double
room(const fit *f, nmb_id mem)
{
  return (1 - f->reserve) * (double)f->p->hw->mem[mem].bytes - (double)f->load[mem];
}

/* The engine with the least penalty of those whose residents lie in `mem`. */
static nmb_id
engine_in(const fit *f, nmb_id kernel, nmb_id mem)
{
  const nmb_hw *hw = f->p->hw;
  const double *penalty = f->penalty + (size_t)kernel * (size_t)hw->nengine;
  nmb_id best = NMB_NONE;
  for (nmb_id e = 0; e < hw->nengine; e++)
    if (!nmb_engine_is_link(&hw->engine[e]) && hw->engine[e].resident == mem &&
        isfinite(penalty[e]) && (best == NMB_NONE || penalty[e] < penalty[best]))
      best = e;
  return best;
}

/* Penalty that putting cluster c into memory `to` adds, over all layers; infinity
 * if one of its kernels cannot run there.  apply: do it. */
static double
move(const fit *f, nmb_id c, nmb_id to, nmb_id *engine, bool apply)
{
  const nmb_prog *p = f->p;
  double added = 0;
  for (nmb_id k = c; k < p->nkernel; k++) {
    if (f->cluster[k] != c)
      continue;
    const nmb_id e = engine_in(f, k, to);
    if (e == NMB_NONE)
      return INFINITY;
    const double *penalty = f->penalty + (size_t)k * (size_t)p->hw->nengine;
    added +=
        (double)p->block[p->kernel[k].block].repeat * (penalty[e] - penalty[engine[k]]);
    if (apply)
      engine[k] = e;
  }
  return added;
}

/* The move out of memory `from` that adds least penalty for each byte. */
static bool
best_move(const fit *f, nmb_id from, nmb_id *engine, nmb_id *cluster, nmb_id *to)
{
  double best = INFINITY;
  for (nmb_id c = 0; c < f->p->nkernel; c++) {
    if (f->cluster[c] != c || !f->bytes[c] ||
        f->p->hw->engine[engine[c]].resident != from)
      continue;
    for (nmb_id m = 0; m < f->p->hw->nmem; m++) {
      if (m == from || (double)f->bytes[c] > room(f, m))
        continue;
      const double each = move(f, c, m, engine, false) / (double)f->bytes[c];
      if (each < best) {
        best = each;
        *cluster = c;
        *to = m;
      }
    }
  }
  return best < INFINITY;
}

nmb_status
nmb_dispatch_fit(nmb_run *run, const nmb_prog *p, const double *penalty, double reserve,
                 nmb_id *engine)
{
  fit f = {.p = p, .penalty = penalty, .reserve = reserve};
  fit_init(run, &f, engine);
  for (;;) {
    fit_load(run, &f, engine);
    nmb_id from = 0, cluster = 0, to = 0;
    while (from < p->hw->nmem && room(&f, from) >= 0)
      from++;
    if (from == p->hw->nmem)
      return NMB_OK;
    if (!best_move(&f, from, engine, &cluster, &to))
      return nmb_fail(run, NMB_INFEASIBLE, NMB_NOLOC,
                      "weights and caches do not fit: %s needs %lld bytes, has %lld, of "
                      "which %.0f%% are kept for padding and activations",
                      p->hw->mem[from].name, (long long)f.load[from],
                      (long long)p->hw->mem[from].bytes, 100 * reserve);
    (void)move(&f, cluster, to, engine, true);
  }
}

/* ----------------------------------------------------------------------- map */
int64_t
nmb_layout_units(const nmb_tensor *t)
{
  if (t->role == NMB_ROLE_KV && t->rank == 4)
    return t->dim[0] * t->dim[2];
  if (t->role == NMB_ROLE_STATE && t->rank == 4)
    return t->dim[0] * t->dim[1];
  return t->role == NMB_ROLE_WEIGHT && t->rank == 3 ? t->dim[0] : 1;
}

/* Rows in the fullest bank when units of `rows` rows are dealt c channels each. */
static int64_t
fullest(const nmb_mem *m, int64_t units, int64_t rows, int c)
{
  const int64_t at_once = m->channels / c, lanes = (int64_t)c * m->banks;
  return (units + at_once - 1) / at_once * ((rows + lanes - 1) / lanes);
}

/* Channels of each unit such that the fullest bank holds least.  They divide all
 * channels, so that no unit lies across two devices needlessly.  uneven: as many
 * as cost at most a seventh more, as units that get more work than others
 * (experts) should then have many channels; else as few as are as good. */
static int
spread(const nmb_mem *m, int64_t units, int64_t rows, bool uneven)
{
  int best = m->channels;
  int64_t least = INT64_MAX;
  for (int c = 1; c <= m->channels; c++)
    if (m->channels % c == 0 && fullest(m, units, rows, c) < least) {
      least = fullest(m, units, rows, c);
      best = c;
    }
  for (int c = m->channels; c > best && uneven; c--)
    if (m->channels % c == 0 && fullest(m, units, rows, c) <= least + least / 7)
      return c;
  return best;
}

/* Is it the weight of experts? */
static bool
is_expert(const nmb_prog *p, nmb_id tensor)
{
  const nmb_block *b = &p->block[p->tensor[tensor].block];
  for (int i = 0; i < b->nop; i++)
    if (p->op[b->op[i]].code == NMB_OP_GLINEAR && p->op[b->op[i]].in[1] == tensor)
      return true;
  return false;
}

int64_t
nmb_layout_room(const nmb_mem *m)
{
  return m->bytes - m->bytes / 40;
}

static void
interleave(const nmb_prog *p, const nmb_resident *r, double waste, nmb_layout *out)
{
  const nmb_tensor *t = &p->tensor[r->tensor];
  const nmb_mem *m = &p->hw->mem[r->mem];
  nmb_layout_make(p, r->tensor, r->mem,
                  r->in_memory ? NMB_LAY_INTERLEAVED : NMB_LAY_LINEAR, m->channels, false,
                  out);
  if (!r->in_memory)
    return;
  const int64_t bare = out->bytes;
  const int64_t units = nmb_layout_units(t);
  const int channels = units == 1
                           ? m->channels
                           : spread(m, units, out->unit_rows, is_expert(p, r->tensor));
  nmb_layout_make(p, r->tensor, r->mem, NMB_LAY_INTERLEAVED, channels, true, out);
  if ((double)out->bytes > (1 + waste) * (double)bare)
    nmb_layout_make(p, r->tensor, r->mem, NMB_LAY_INTERLEAVED, channels, false, out);
}

static int64_t
layers(const nmb_prog *p, const nmb_resident *r)
{
  return p->block[p->tensor[r->tensor].block].repeat;
}

/* Takes padding away from the tensor of `mem` that it costs most; false if none. */
static bool
unpad(const nmb_prog *p, const nmb_resident *r, int n, nmb_id mem, nmb_layout *lay)
{
  int worst = NMB_NONE;
  int64_t most = -1;
  for (int i = 0; i < n; i++) {
    const int64_t cost = lay[i].bytes * layers(p, &r[i]) - r[i].bytes;
    if (lay[i].mem == mem && lay[i].padded && cost > most) {
      most = cost;
      worst = i;
    }
  }
  if (worst != NMB_NONE)
    nmb_layout_make(p, r[worst].tensor, mem, lay[worst].kind, lay[worst].channels, false,
                    &lay[worst]);
  return worst != NMB_NONE;
}

void
nmb_layouts_interleaved(const nmb_prog *p, const nmb_resident *r, int n, double waste,
                        nmb_layout *out)
{
  for (int i = 0; i < n; i++)
    interleave(p, &r[i], waste, &out[i]);
  for (nmb_id m = 0; m < p->hw->nmem; m++)
    for (bool more = true; more;) {
      int64_t load = 0;
      for (int i = 0; i < n; i++)
        load += out[i].mem == m ? out[i].bytes * layers(p, &r[i]) : 0;
      more = load > nmb_layout_room(&p->hw->mem[m]) && unpad(p, r, n, m, out);
    }
}

#define PLANNED_REUSE 32 /* of AiM and CENT; models cut it to their registers */
#define PLANNED_WASTE 0.25
nmb_status
nmb_planned_seconds(nmb_run *run, const nmb_prog *p, const nmb_id *op, int nop,
                    nmb_id engine, double *seconds)
{
  const nmb_engine *e = &p->hw->engine[engine];
  if (!e->in_memory)
    return nmb_kernel_seconds(run, p, op, nop, engine, NULL, NULL, 0, seconds);
  const nmb__work w = {p, op, nop, p->op[op[0]].block, engine};
  const size_t mark = nmb__run_mark(run);
  nmb_layout *lay = NMB_NEW(run, nmb_layout, nop * NMB_MAXIN);
  nmb_map map;
  int n = 0;
  nmb__map_default(&w, &map);
  map.reuse = PLANNED_REUSE;
  for (int i = 0; i < nop; i++)
    for (int j = 0; j < p->op[op[i]].nin; j++) {
      const nmb_id root = nmb_tensor_root(p, p->op[op[i]].in[j]);
      if (nmb_tensor_resident(&p->tensor[root]))
        interleave(p,
                   &(nmb_resident){.tensor = root, .mem = e->resident, .in_memory = true},
                   PLANNED_WASTE, &lay[n++]);
    }
  const nmb_status st =
      nmb_kernel_seconds(run, p, op, nop, engine, &map, lay, n, seconds);
  nmb__run_release(run, mark);
  return st;
}
