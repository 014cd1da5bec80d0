/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Costs of all instructions and lower limits of a block's time. */
#include "nmbench/nmb_sim.h"

#include <string.h>

#include "base/hash.h"
#include "base/memo.h"
#include "base/run.h"

void
nmb_sim_range(const nmb_prog *p, nmb_id block, int *first, int *end)
{
  int i = 0;
  while (i < p->ninsn && p->insn[i].block != block)
    i++;
  *first = i;
  while (i < p->ninsn && p->insn[i].block == block)
    i++;
  *end = i;
}

nmb_status
nmb_sim_costs(nmb_run *run, const nmb_prog *p, nmb_cost **out)
{
  *out = NMB_NEW(run, nmb_cost, p->ninsn + 1);
  for (int i = 0; i < p->ninsn; i++)
    NMB_TRY(nmb_insn_cost(run, p, &p->insn[i], &(*out)[i]));
  return NMB_OK;
}

nmb_fidelity
nmb_sim_fidelity(const nmb_run *run)
{
  return strcmp(nmb_opt_text(run, "fidelity"), "cycle") ? NMB_ANALYTIC : NMB_CYCLE;
}

/* What the cost of an instruction depends on, for models that look at nothing but
 * the instruction, its op and the formats of its operands. */
typedef struct costkey {
  int32_t kind, engine, code, first, grouped, block;
  uint64_t op; /* hash of its attributes and of the shapes of its tensors */
  int64_t tile[8];
  nmb_place place;
  int nopnd;
  struct {
    int32_t mem, write, role, dtype, group;
    int64_t rows, row_bytes, stride;
  } opnd[NMB_MAXOPND];
} costkey;

static void
add_tensor(nmb__hasher *h, const nmb_tensor *t)
{
  const int64_t facts[] = {t->role, t->dtype, t->group, t->rank};
  nmb__hash_add(h, facts, sizeof facts);
  nmb__hash_add(h, t->dim, (size_t)t->rank * sizeof *t->dim);
}

/* The experts' rows stand for the number of the routing table. */
static uint64_t
op_hash(const nmb_prog *p, nmb_id id)
{
  const nmb_op *op = &p->op[id];
  nmb__hasher *h = nmb__hash_begin();
  for (int i = 0; i < op->nin + op->nout; i++) {
    const nmb_id t = i < op->nin ? op->in[i] : op->out[i - op->nin];
    add_tensor(h, &p->tensor[t]);
    add_tensor(h, &p->tensor[nmb_tensor_root(p, t)]);
  }
  for (int i = 0; i < op->nattr; i++) {
    const nmb_attr *a = &op->attr[i];
    nmb__hash_add(h, a->key, strlen(a->key) + 1);
    if (a->kind == NMB_ATTR_SYM)
      nmb__hash_add(h, a->s, strlen(a->s) + 1);
    else if (a->kind == NMB_ATTR_REAL)
      nmb__hash_add(h, &a->r, sizeof a->r);
    else if (strcmp(a->key, "routing"))
      nmb__hash_add(h, &a->i, sizeof a->i);
  }
  if (op->code == NMB_OP_GLINEAR) {
    const nmb_routing *r = &p->routing[nmb_op_int(op, "routing", 0)];
    nmb__hash_add(h, r->load, (size_t)r->experts * sizeof *r->load);
  }
  return nmb__hash_end(h);
}

static void
cost_key(const nmb_prog *p, const nmb_insn *in, costkey *k)
{
  const nmb_tile *t = &in->tile;
  memset(k, 0, sizeof *k); /* padding is compared, too */
  k->kind = (int32_t)in->kind;
  k->engine = in->engine;
  k->code = in->op == NMB_NONE ? -1 : (int32_t)p->op[in->op].code;
  k->first = in->first;
  /* rows of a grouped op depend on which experts they reach */
  k->grouped = k->code == NMB_OP_GLINEAR ? in->op : -1;
  /* parts of an attention may be timed together */
  if (k->code == NMB_OP_QK || k->code == NMB_OP_SOFTMAX || k->code == NMB_OP_PV)
    k->block = in->block;
  const int64_t b0 = k->grouped >= 0 ? 0 : t->b0, m0 = k->grouped >= 0 ? 0 : t->m0;
  const int64_t tile[8] = {t->b0 - b0, t->b1 - b0,    t->m0 - m0, t->m1 - m0,
                           0,          t->n1 - t->n0, 0,          t->k1 - t->k0};
  memcpy(k->tile, tile, sizeof tile);
  k->place.channel0 = 0; /* where it is does not matter */
  k->place.nchannel = in->place.nchannel;
  k->place.banks = in->place.banks;
  k->place.vectors = in->place.vectors;
  k->place.rows_per_bank = in->place.rows_per_bank;
  k->place.pages = in->place.pages;
  k->place.bursts = in->place.bursts;
  k->place.reuse = in->place.reuse;
  k->place.opens = in->place.opens;
  k->nopnd = in->nopnd;
  for (int i = 0; i < in->nopnd; i++) {
    const nmb_operand *o = &in->opnd[i];
    const nmb_tensor *x = &p->tensor[o->tensor];
    k->opnd[i].mem = o->mem;
    k->opnd[i].write = o->write;
    k->opnd[i].role = (int32_t)x->role;
    k->opnd[i].dtype = (int32_t)x->dtype;
    k->opnd[i].group = x->group;
    k->opnd[i].rows = o->rows;
    k->opnd[i].row_bytes = o->row_bytes;
    k->opnd[i].stride = o->stride;
  }
}

/* Hashes of ops, each found when it is first asked for. */
typedef struct ophashes {
  uint64_t *v;
  bool *known;
} ophashes;

static uint64_t
hash_of(const nmb_prog *p, ophashes *h, nmb_id op)
{
  if (op == NMB_NONE)
    return 0;
  if (!h->known[op]) {
    h->v[op] = op_hash(p, op);
    h->known[op] = true;
  }
  return h->v[op];
}

/* The key among all programs on all machines; false if the cost may depend on more. */
static bool
global_key(const nmb_prog *p, const nmb_insn *in, nmb_fidelity f, uint64_t machine,
           const costkey *k, uint64_t out[2])
{
  struct {
    uint64_t machine, fidelity;
    costkey k;
  } all;
  const bool attention =
      k->code == NMB_OP_QK || k->code == NMB_OP_SOFTMAX || k->code == NMB_OP_PV;
  if (attention && p->hw->engine[in->engine].in_memory)
    return false;
  memset(&all, 0, sizeof all);
  all.machine = machine;
  all.fidelity = (uint64_t)f;
  memcpy(&all.k, k, sizeof *k);
  all.k.grouped = all.k.block = 0;
  nmb__hash128(&all, sizeof all, out);
  return true;
}

static nmb_status
shared_cost(nmb_run *run, const nmb_prog *p, const nmb_insn *in, nmb_fidelity f,
            const costkey *k, nmb_cost *out)
{
  uint64_t machine, key[2];
  nmb__memo *memo = nmb__run_memo(run, &machine);
  const bool shared = memo && global_key(p, in, f, machine, k, key);
  if (shared && nmb__memo_get(memo, key, out))
    return NMB_OK;
  const size_t mark = nmb__run_mark(run); /* commands and channels: some kB each */
  const nmb_status st = nmb_insn_cost_at(run, p, in, f, NULL, out);
  nmb__run_release(run, mark);
  NMB_TRY(st);
  if (shared)
    nmb__memo_put(memo, key, out);
  return NMB_OK;
}

nmb_status
nmb_sim_costs_at(nmb_run *run, const nmb_prog *p, nmb_fidelity fidelity, nmb_cost **out)
{
  typedef struct memo {
    uint64_t key[2]; /* hash of a costkey */
    int insn;        /* + 1; 0: free */
  } memo;
  if (fidelity == NMB_ANALYTIC)
    return nmb_sim_costs(run, p, out);
  size_t mask = 63;
  while (mask < (size_t)p->ninsn * 2)
    mask = mask * 2 + 1;
  memo *table = NMB_NEW(run, memo, mask + 1);
  ophashes ops = {NMB_NEW(run, uint64_t, p->nop + 1), NMB_NEW(run, bool, p->nop + 1)};
  *out = NMB_NEW(run, nmb_cost, p->ninsn + 1);
  for (int i = 0; i < p->ninsn; i++) {
    costkey k;
    cost_key(p, &p->insn[i], &k);
    k.op = hash_of(p, &ops, p->insn[i].op);
    uint64_t key[2];
    nmb__hash128(&k, sizeof k, key);
    size_t at = (size_t)key[0] & mask;
    while (table[at].insn && (table[at].key[0] != key[0] || table[at].key[1] != key[1]))
      at = (at + 1) & mask;
    if (table[at].insn) {
      (*out)[i] = (*out)[table[at].insn - 1];
      continue;
    }
    NMB_TRY(shared_cost(run, p, &p->insn[i], fidelity, &k, &(*out)[i]));
    memcpy(table[at].key, key, sizeof key);
    table[at].insn = i + 1;
  }
  return NMB_OK;
}

void
nmb_sim_skip_transfers(const nmb_prog *p, nmb_cost *cost)
{
  for (int i = 0; i < p->ninsn; i++) {
    nmb_cost *c = &cost[i];
    if (nmb_engine_is_link(&p->hw->engine[p->insn[i].engine]))
      *c = (nmb_cost){0};
    if (!(c->time[NMB_CAUSE_TRANSFER] > 0))
      continue;
    c->time[NMB_CAUSE_TRANSFER] = 0;
    const double left = nmb_cost_seconds(c);
    for (int m = 0; m < p->hw->nmem; m++)
      c->mem_s[m] = c->mem_s[m] > left ? left : c->mem_s[m];
  }
}

void
nmb_sim_channels(const nmb_prog *p, const nmb_insn *in, int *first, int *n)
{
  const nmb_engine *e = &p->hw->engine[in->engine];
  *first = 0;
  *n = 1;
  if (!e->in_memory)
    return;
  *n = p->hw->mem[e->resident].channels;
  if (in->place.nchannel > 0) {
    *first = in->place.channel0;
    *n = in->place.nchannel;
  }
}

double
nmb_sim_share(const nmb_prog *p, const nmb_insn *in)
{
  const nmb_engine *e = &p->hw->engine[in->engine];
  int first, n;
  nmb_sim_channels(p, in, &first, &n);
  return e->in_memory ? (double)n / p->hw->mem[e->resident].channels : 1;
}

/* The busiest channel of each engine: loads start and end at channels, so that
 * a running sum over the ends gives each channel's load. */
static double
busiest_engine(nmb_run *run, const nmb_prog *p, int first, int end, const nmb_cost *cost)
{
  double most = 0;
  for (int e = 0; e < p->hw->nengine; e++) {
    const nmb_engine *g = &p->hw->engine[e];
    const int nch = g->in_memory ? p->hw->mem[g->resident].channels : 1;
    double *delta = NMB_NEW(run, double, nch + 1);
    for (int i = first; i < end; i++) {
      int c, n;
      if (p->insn[i].engine != e)
        continue;
      nmb_sim_channels(p, &p->insn[i], &c, &n);
      const double d = nmb_cost_seconds(&cost[i]);
      delta[c] += d;
      delta[c + n] -= d;
    }
    double sum = 0;
    for (int c = 0; c < nch; c++) {
      sum += delta[c];
      most = sum > most ? sum : most;
    }
  }
  return most;
}

static double
busiest_memory(const nmb_prog *p, int first, int end, const nmb_cost *cost)
{
  double most = 0;
  for (int m = 0; m < p->hw->nmem; m++) {
    double sum = 0;
    for (int i = first; i < end; i++)
      sum += cost[i].mem_s[m];
    most = sum > most ? sum : most;
  }
  return most;
}

/* ------------------------------------------------------------ longest chain */
/* Who wrote a rectangle of a tensor last: open addressing by its numbers. */
typedef struct written {
  nmb_id tensor, mem; /* tensor NMB_NONE: free */
  int64_t offset, rows, row_bytes;
  double finish;
} written;
/* All that was written of a tensor in a memory. */
typedef struct extent {
  int64_t lo, hi; /* bytes; hi 0: nothing */
  double finish;
} extent;

typedef struct chain {
  const nmb_prog *p;
  int first, n;
  int *order; /* [n] instructions so that each follows what it waits for */
  size_t mask;
  written *table; /* [mask + 1] */
  extent *whole;  /* [ntensor * nmem] */
} chain;

/* Kahn's order over waits and queues; false if they form a cycle. */
static bool
sort_insns(nmb_run *run, chain *c)
{
  const nmb_prog *p = c->p;
  int *left = NMB_NEW(run, int, c->n + 1), *start = NMB_NEW(run, int, c->n + 2);
  int *last = NMB_NEW(run, int, p->hw->nengine);
  int *prev = NMB_NEW(run, int, c->n + 1), *fill;
  for (int e = 0; e < p->hw->nengine; e++)
    last[e] = -1;
  for (int i = 0; i < c->n; i++) {
    const nmb_insn *in = &p->insn[c->first + i];
    prev[i] = last[in->engine];
    last[in->engine] = i;
    left[i] = in->nwait + (prev[i] >= 0);
    for (int w = 0; w < in->nwait; w++)
      start[in->wait[w] - c->first + 1]++;
    if (prev[i] >= 0)
      start[prev[i] + 1]++;
  }
  for (int i = 0; i < c->n; i++)
    start[i + 1] += start[i];
  int *next = NMB_NEW(run, int, start[c->n] + 1);
  fill = NMB_NEW(run, int, c->n + 1);
  for (int i = 0; i < c->n; i++) {
    const nmb_insn *in = &p->insn[c->first + i];
    for (int w = 0; w < in->nwait; w++) {
      const int on = in->wait[w] - c->first;
      next[start[on] + fill[on]++] = i;
    }
    if (prev[i] >= 0)
      next[start[prev[i]] + fill[prev[i]]++] = i;
  }
  int n = 0;
  for (int i = 0; i < c->n; i++)
    if (left[i] == 0)
      c->order[n++] = i;
  for (int k = 0; k < n; k++)
    for (int j = start[c->order[k]]; j < start[c->order[k] + 1]; j++)
      if (--left[next[j]] == 0)
        c->order[n++] = next[j];
  return n == c->n;
}

static written *
find_written(const chain *c, const nmb_operand *o)
{
  uint64_t h = (uint64_t)o->tensor * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)o->mem;
  h = (h ^ (uint64_t)o->offset) * UINT64_C(0xbf58476d1ce4e5b9);
  h = (h ^ (h >> 29) ^ (uint64_t)o->rows ^ ((uint64_t)o->row_bytes << 20)) *
      UINT64_C(0x94d049bb133111eb);
  for (size_t at = (size_t)(h ^ (h >> 31)) & c->mask;; at = (at + 1) & c->mask) {
    written *w = &c->table[at];
    if (w->tensor == NMB_NONE ||
        (w->tensor == o->tensor && w->mem == o->mem && w->offset == o->offset &&
         w->rows == o->rows && w->row_bytes == o->row_bytes))
      return w;
  }
}

static int64_t
operand_end(const nmb_operand *o)
{
  return o->offset + (o->rows - 1) * o->stride + o->row_bytes;
}

/* The time at which what the operand reads has been written.  Only what is sure
 * counts: the same rectangle, or all that was written lies inside a dense one. */
static double
value_ready(const chain *c, const nmb_operand *o)
{
  const extent *x =
      &c->whole[(size_t)o->tensor * (size_t)c->p->hw->nmem + (size_t)o->mem];
  if (x->hi == 0)
    return 0;
  const bool dense = o->rows == 1 || o->stride == o->row_bytes || o->stride == 0;
  if (dense && o->offset <= x->lo && operand_end(o) >= x->hi)
    return x->finish;
  const written *w = find_written(c, o);
  return w->tensor == NMB_NONE ? 0 : w->finish;
}

static void
value_written(const chain *c, const nmb_operand *o, double finish)
{
  extent *x = &c->whole[(size_t)o->tensor * (size_t)c->p->hw->nmem + (size_t)o->mem];
  written *w = find_written(c, o);
  if (x->hi == 0 || o->offset < x->lo)
    x->lo = o->offset;
  if (operand_end(o) > x->hi)
    x->hi = operand_end(o);
  x->finish = finish > x->finish ? finish : x->finish;
  *w = (written){o->tensor, o->mem, o->offset, o->rows, o->row_bytes, finish};
}

static nmb_status
chain_open(nmb_run *run, const nmb_prog *p, int first, int end, chain *c)
{
  int nopnd = 0;
  *c = (chain){.p = p, .first = first, .n = end - first, .mask = 15};
  for (int i = first; i < end; i++) {
    nopnd += p->insn[i].nopnd;
    for (int w = 0; w < p->insn[i].nwait; w++)
      if (p->insn[i].wait[w] < first || p->insn[i].wait[w] >= end)
        return nmb_fail(run, NMB_UNVERIFIED, NMB_NOLOC,
                        "instruction %d waits for %d, which is not in its block", i,
                        (int)p->insn[i].wait[w]);
  }
  while (c->mask < (size_t)nopnd * 2)
    c->mask = c->mask * 2 + 1;
  c->table = NMB_NEW(run, written, c->mask + 1);
  for (size_t i = 0; i <= c->mask; i++)
    c->table[i].tensor = NMB_NONE;
  c->whole = NMB_NEW(run, extent, (size_t)p->ntensor * (size_t)p->hw->nmem + 1);
  c->order = NMB_NEW(run, int, c->n + 1);
  if (!sort_insns(run, c))
    return nmb_fail(run, NMB_UNVERIFIED, NMB_NOLOC,
                    "the instructions of block '%s' wait for each other in a circle",
                    p->block[p->insn[first].block].name);
  return NMB_OK;
}

static nmb_status
longest_chain(nmb_run *run, const nmb_prog *p, int first, int end, const nmb_cost *cost,
              double *out)
{
  chain c;
  *out = 0;
  if (first == end)
    return NMB_OK;
  NMB_TRY(chain_open(run, p, first, end, &c));
  double *finish = NMB_NEW(run, double, c.n);
  double *queue = NMB_NEW(run, double, p->hw->nengine); /* what a sync would wait for */
  double *gate = NMB_NEW(run, double, p->hw->nengine);  /* the last sync */
  for (int k = 0; k < c.n; k++) {
    const int i = c.order[k];
    const nmb_insn *in = &p->insn[first + i];
    double ready = in->kind == NMB_INSN_SYNC ? queue[in->engine] : gate[in->engine];
    for (int w = 0; w < in->nwait; w++)
      if (finish[in->wait[w] - first] > ready)
        ready = finish[in->wait[w] - first];
    for (int j = 0; j < in->nopnd; j++)
      if (!in->opnd[j].write && value_ready(&c, &in->opnd[j]) > ready)
        ready = value_ready(&c, &in->opnd[j]);
    finish[i] = ready + nmb_cost_seconds(&cost[first + i]);
    for (int j = 0; j < in->nopnd; j++)
      if (in->opnd[j].write)
        value_written(&c, &in->opnd[j], finish[i]);
    if (finish[i] > queue[in->engine])
      queue[in->engine] = finish[i];
    if (in->kind == NMB_INSN_SYNC)
      gate[in->engine] = finish[i];
    *out = finish[i] > *out ? finish[i] : *out;
  }
  return NMB_OK;
}

nmb_status
nmb_sim_bound(nmb_run *run, const nmb_prog *p, nmb_id block, const nmb_cost *cost,
              nmb_bound *out)
{
  int first, end;
  nmb_sim_range(p, block, &first, &end);
  out->engine = busiest_engine(run, p, first, end, cost);
  out->memory = busiest_memory(p, first, end, cost);
  return longest_chain(run, p, first, end, cost, &out->chain);
}
