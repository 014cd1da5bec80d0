/* SPDX-License-Identifier: GPL-3.0-or-later */
/* event: discrete-event simulation of the emitted instructions.
 *
 * Each engine issues its queue in order.  An engine in memory starts an
 * instruction while others run on other channels; a sync waits for all before it
 * in its queue.  Memory interfaces are shared like a fluid: alone, an instruction
 * uses the fraction u = mem_s / duration of a memory; where the running sum U of a
 * memory exceeds 1, all its users run at 1/U of their speed, and an instruction
 * has the speed of its slowest memory.  Hence bound <= event <= sum of all
 * durations, which is checked, as is that each engine's time adds up.
 *
 * Instructions that use the same set of memories have the same speed, so they
 * share a clock of their own in which finishing times never change: one heap per
 * set, O(log n) an event.
 *
 * A block is simulated once and counts `repeat` times; `exact` runs every one.
 * Reads all; writes nothing. */
#include <math.h>
#include <string.h>

#include "nmbench/nmb_sim.h"

enum { MAXENGINE = 64, MAXCLASS = 64 };

/* Running instructions that use the same memories. */
typedef struct heapitem {
  double finish; /* in the clock of the class */
  int id;
} heapitem;
typedef struct memclass {
  unsigned mems; /* bit per memory */
  double clock, speed;
  int n;
  heapitem *heap;
} memclass;

typedef struct queue {
  int head; /* first that is not issued; -1: none */
  int tail, running;
  int nword;
  uint64_t *busy; /* channels in use; engines in memory only */
} queue;

/* Simulation of one block. */
typedef struct sim {
  nmb_run *run;
  const nmb_prog *p;
  const nmb_cost *cost;
  int first, n, done;
  int *next, *left;   /* in the queue; waits that have not completed */
  int *start, *after; /* who waits for i: after[start[i]..start[i+1]) */
  int *class_of;
  double *begin, *length;
  queue q[MAXENGINE];
  int nclass;
  memclass klass[MAXCLASS];
  double use[NMB_MAXMEM]; /* U */
  int users[NMB_MAXMEM];
  double now;
} sim;

/* Results of a block or, weighted by its repeats, of the step. */
typedef struct tally {
  double seconds, serial;
  double time[MAXENGINE][NMB_NCAUSE], contention[MAXENGINE], wait[MAXENGINE];
  double blame[MAXENGINE]; /* s of the latency: each moment is shared by who works then */
  double energy[NMB_NEPART];
  double bytes[NMB_MAXMEM][NMB_NROLE];
  double macs;
} tally;

/* ------------------------------------------------------------------- heaps */
static bool
before(heapitem a, heapitem b)
{
  return a.finish < b.finish || (a.finish <= b.finish && a.id < b.id);
}

static void
heap_push(memclass *c, heapitem x)
{
  int i = c->n++;
  for (; i > 0 && before(x, c->heap[(i - 1) / 2]); i = (i - 1) / 2)
    c->heap[i] = c->heap[(i - 1) / 2];
  c->heap[i] = x;
}

static heapitem
heap_pop(memclass *c)
{
  const heapitem top = c->heap[0], x = c->heap[--c->n];
  int i = 0;
  for (;;) {
    int kid = 2 * i + 1;
    if (kid >= c->n)
      break;
    if (kid + 1 < c->n && before(c->heap[kid + 1], c->heap[kid]))
      kid++;
    if (!before(c->heap[kid], x))
      break;
    c->heap[i] = c->heap[kid];
    i = kid;
  }
  c->heap[i] = x;
  return top;
}

/* ------------------------------------------------------------------- set-up */
static void
link_waits(sim *s)
{
  for (int i = 0; i < s->n; i++) {
    const nmb_insn *in = &s->p->insn[s->first + i];
    s->left[i] = in->nwait;
    for (int w = 0; w < in->nwait; w++)
      s->start[in->wait[w] - s->first + 1]++;
  }
  for (int i = 0; i < s->n; i++)
    s->start[i + 1] += s->start[i];
  s->after = NMB_NEW(s->run, int, s->start[s->n] + 1);
  int *fill = NMB_NEW(s->run, int, s->n + 1);
  for (int i = 0; i < s->n; i++) {
    const nmb_insn *in = &s->p->insn[s->first + i];
    for (int w = 0; w < in->nwait; w++) {
      const int on = in->wait[w] - s->first;
      s->after[s->start[on] + fill[on]++] = i;
    }
  }
}

static void
link_queues(sim *s)
{
  for (int e = 0; e < s->p->hw->nengine; e++) {
    const nmb_engine *g = &s->p->hw->engine[e];
    queue *q = &s->q[e];
    *q = (queue){.head = -1, .tail = -1};
    if (g->in_memory) {
      q->nword = (s->p->hw->mem[g->resident].channels + 63) / 64;
      q->busy = NMB_NEW(s->run, uint64_t, q->nword);
    }
  }
  for (int i = 0; i < s->n; i++) {
    queue *q = &s->q[s->p->insn[s->first + i].engine];
    s->next[i] = -1;
    if (q->tail >= 0)
      s->next[q->tail] = i;
    else
      q->head = i;
    q->tail = i;
  }
}

static nmb_status
sim_open(nmb_run *run, const nmb_prog *p, nmb_id block, const nmb_cost *cost, sim *s)
{
  int end;
  memset(s, 0, sizeof *s);
  s->run = run;
  s->p = p;
  nmb_sim_range(p, block, &s->first, &end);
  s->cost = cost + s->first;
  s->n = end - s->first;
  s->next = NMB_NEW(run, int, s->n + 1);
  s->left = NMB_NEW(run, int, s->n + 1);
  s->start = NMB_NEW(run, int, s->n + 2);
  s->class_of = NMB_NEW(run, int, s->n + 1);
  s->begin = NMB_NEW(run, double, s->n + 1);
  s->length = NMB_NEW(run, double, s->n + 1);
  for (int i = 0; i < s->n; i++)
    s->length[i] = nmb_cost_seconds(&s->cost[i]);
  link_waits(s);
  link_queues(s);
  return NMB_OK;
}

/* ------------------------------------------------------------------ channels */
/* Marks [first, first + n) as busy or free; or, `set` negative, only looks:
 * false if one is busy. */
static bool
channels(queue *q, int first, int n, int set)
{
  for (int w = first / 64; w <= (first + n - 1) / 64; w++) {
    uint64_t bits = UINT64_MAX;
    if (w == first / 64)
      bits &= UINT64_MAX << (first % 64);
    if (w == (first + n - 1) / 64)
      bits &= UINT64_MAX >> (63 - (first + n - 1) % 64);
    if (set < 0 && (q->busy[w] & bits))
      return false;
    if (set == 1)
      q->busy[w] |= bits;
    if (set == 0)
      q->busy[w] &= ~bits;
  }
  return true;
}

/* --------------------------------------------------------------- the engine */
static bool
may_start(sim *s, int i)
{
  const nmb_insn *in = &s->p->insn[s->first + i];
  queue *q = &s->q[in->engine];
  int c, n;
  if (s->left[i] > 0)
    return false;
  if (!q->busy || in->kind == NMB_INSN_SYNC)
    return q->running == 0;
  nmb_sim_channels(s->p, in, &c, &n);
  return channels(q, c, n, -1);
}

static nmb_status
find_class(sim *s, unsigned mems, int *out)
{
  for (int c = 0; c < s->nclass; c++)
    if (s->klass[c].mems == mems) {
      *out = c;
      return NMB_OK;
    }
  if (s->nclass == MAXCLASS)
    return nmb_fail(s->run, NMB_UNSUPPORTED, NMB_NOLOC,
                    "more than %d combinations of memories are in use", MAXCLASS);
  s->klass[s->nclass] =
      (memclass){.mems = mems, .speed = 1, .heap = NMB_NEW(s->run, heapitem, s->n + 1)};
  *out = s->nclass++;
  return NMB_OK;
}

static nmb_status
start_insn(sim *s, int i)
{
  const nmb_insn *in = &s->p->insn[s->first + i];
  queue *q = &s->q[in->engine];
  unsigned mems = 0;
  int c, n;
  for (int m = 0; m < s->p->hw->nmem; m++)
    if (s->cost[i].mem_s[m] > 0) {
      mems |= 1u << m;
      s->users[m]++;
      s->use[m] += s->cost[i].mem_s[m] / s->length[i];
    }
  NMB_TRY(find_class(s, mems, &s->class_of[i]));
  memclass *k = &s->klass[s->class_of[i]];
  heap_push(k, (heapitem){k->clock + s->length[i], i});
  s->begin[i] = s->now;
  q->head = s->next[i];
  q->running++;
  if (q->busy && in->kind != NMB_INSN_SYNC) {
    nmb_sim_channels(s->p, in, &c, &n);
    channels(q, c, n, 1);
  }
  return NMB_OK;
}

static void
finish_insn(sim *s, int i, tally *t)
{
  const nmb_insn *in = &s->p->insn[s->first + i];
  queue *q = &s->q[in->engine];
  const double share = nmb_sim_share(s->p, in);
  int c, n;
  for (int m = 0; m < s->p->hw->nmem; m++)
    if (s->cost[i].mem_s[m] > 0) {
      s->use[m] -= s->cost[i].mem_s[m] / s->length[i];
      if (--s->users[m] == 0)
        s->use[m] = 0; /* no rounding is carried on */
    }
  q->running--;
  if (q->busy && in->kind != NMB_INSN_SYNC) {
    nmb_sim_channels(s->p, in, &c, &n);
    channels(q, c, n, 0);
  }
  for (int j = s->start[i]; j < s->start[i + 1]; j++)
    s->left[s->after[j]]--;
  for (int k = 0; k < NMB_NCAUSE; k++)
    t->time[in->engine][k] += share * s->cost[i].time[k];
  const double late = s->now - s->begin[i] - s->length[i];
  if (late > 1e-12 * s->now)
    t->contention[in->engine] += share * late;
  s->done++;
}

static nmb_status
issue(sim *s)
{
  for (int e = 0; e < s->p->hw->nengine; e++)
    while (s->q[e].head >= 0 && may_start(s, s->q[e].head))
      NMB_TRY(start_insn(s, s->q[e].head));
  for (int c = 0; c < s->nclass; c++) {
    double most = 1;
    for (int m = 0; m < s->p->hw->nmem; m++)
      if ((s->klass[c].mems >> m & 1) && s->use[m] > most)
        most = s->use[m];
    s->klass[c].speed = 1 / most;
  }
  return NMB_OK;
}

static nmb_status
deadlock(const sim *s)
{
  const char *text = "";
  for (int e = 0; e < s->p->hw->nengine; e++) {
    const int i = s->q[e].head;
    if (i < 0)
      continue;
    const nmb_insn *in = &s->p->insn[s->first + i];
    text = nmb_format(s->run, "%s%s%d on engine '%s'", text, *text ? ", " : "",
                      s->first + i, s->p->hw->engine[e].name);
    for (int w = 0; w < in->nwait; w++)
      text =
          nmb_format(s->run, "%s%s%d", text, w ? " " : " waits for ", (int)in->wait[w]);
  }
  return nmb_fail(s->run, NMB_UNVERIFIED, NMB_NOLOC,
                  "deadlock in block '%s': instruction %s",
                  s->p->block[s->p->insn[s->first].block].name, text);
}

/* The latency by engine: a stretch of time goes in equal shares to the engines that
 * are at work in it. */
static void
put_blame(const sim *s, double seconds, tally *t)
{
  int busy = 0;
  for (int e = 0; e < s->p->hw->nengine; e++)
    busy += s->q[e].running > 0;
  for (int e = 0; e < s->p->hw->nengine; e++)
    if (s->q[e].running > 0)
      t->blame[e] += seconds / busy;
}

/* Advances to the next completion and retires it. */
static nmb_status
advance(sim *s, tally *t)
{
  int best = -1;
  double least = INFINITY;
  for (int c = 0; c < s->nclass; c++) {
    memclass *k = &s->klass[c];
    if (k->n == 0)
      continue;
    const double dt = (k->heap[0].finish - k->clock) / k->speed;
    if (dt < least || (dt <= least && k->heap[0].id < s->klass[best].heap[0].id)) {
      least = dt;
      best = c;
    }
  }
  if (best < 0)
    return deadlock(s);
  least = least > 0 ? least : 0;
  put_blame(s, least, t);
  s->now += least;
  for (int c = 0; c < s->nclass; c++)
    if (c != best)
      s->klass[c].clock += least * s->klass[c].speed;
  memclass *k = &s->klass[best];
  k->clock = k->heap[0].finish > k->clock ? k->heap[0].finish : k->clock;
  finish_insn(s, heap_pop(k).id, t);
  while (k->n && k->heap[0].finish <= k->clock)
    finish_insn(s, heap_pop(k).id, t);
  return NMB_OK;
}

/* ------------------------------------------------------------------ counting */
static nmb_role
operand_role(const nmb_prog *p, nmb_id tensor)
{
  const nmb_role r = p->tensor[nmb_tensor_root(p, tensor)].role;
  return r == NMB_ROLE_INPUT ? NMB_ROLE_ACT : r;
}

/* The bytes that the model says pass each memory, by what they are: operands count
 * once, but for the largest resident one, which has the rest: a model may read it
 * more than once. */
static void
count_bytes(const nmb_prog *p, const nmb_insn *in, const nmb_cost *c, tally *t)
{
  for (int m = 0; m < p->hw->nmem; m++) {
    double rest = c->mem_bytes[m], most = -1;
    nmb_role role = NMB_ROLE_ACT;
    int largest = -1;
    if (rest <= 0)
      continue;
    for (int j = 0; j < in->nopnd; j++) {
      const nmb_operand *o = &in->opnd[j];
      const nmb_role r = operand_role(p, o->tensor);
      if (o->mem == m && r != NMB_ROLE_ACT && nmb_operand_bytes(o) > most) {
        most = nmb_operand_bytes(o);
        largest = j;
        role = r;
      }
    }
    for (int j = 0; j < in->nopnd; j++) {
      const nmb_operand *o = &in->opnd[j];
      const double bytes = nmb_operand_bytes(o);
      if (o->mem != m || j == largest || bytes > rest)
        continue;
      t->bytes[m][operand_role(p, o->tensor)] += bytes;
      rest -= bytes;
    }
    t->bytes[m][role] += rest;
  }
}

static void
count_block(const sim *s, tally *t)
{
  for (int i = 0; i < s->n; i++) {
    const nmb_insn *in = &s->p->insn[s->first + i];
    t->serial += s->length[i];
    for (int k = 0; k < NMB_NEPART; k++)
      t->energy[k] += s->cost[i].energy[k];
    if (in->kind == NMB_INSN_EXEC)
      t->macs += (double)nmb_op_macs(s->p, in->op, &in->tile);
    count_bytes(s->p, in, &s->cost[i], t);
  }
}

static nmb_status
check_block(const sim *s, nmb_id block, tally *t)
{
  const double slack = 1e-9 * (t->seconds + 1e-12);
  nmb_bound b;
  NMB_TRY(nmb_sim_bound(s->run, s->p, block, s->cost - s->first, &b));
  const double low = fmax(b.engine, fmax(b.memory, b.chain));
  if (t->seconds < low - slack || t->seconds > t->serial + slack)
    return nmb_fail(
        s->run, NMB_BADPLUGIN, NMB_NOLOC,
        "block '%s' took %.17g s, outside of its bound %.17g and its serial sum %.17g",
        s->p->block[block].name, t->seconds, low, t->serial);
  for (int e = 0; e < s->p->hw->nengine; e++) {
    double busy = t->contention[e];
    for (int k = 0; k < NMB_NCAUSE; k++)
      busy += t->time[e][k];
    t->wait[e] = t->seconds - busy;
    if (t->wait[e] < -slack)
      return nmb_fail(s->run, NMB_BADPLUGIN, NMB_NOLOC,
                      "engine '%s' was busy for %.17g s of %.17g s",
                      s->p->hw->engine[e].name, busy, t->seconds);
    t->wait[e] = fmax(t->wait[e], 0);
  }
  return NMB_OK;
}

static nmb_status
run_block(nmb_run *run, const nmb_prog *p, nmb_id block, const nmb_cost *cost, tally *t)
{
  sim *s = NMB_NEW(run, sim, 1);
  memset(t, 0, sizeof *t);
  NMB_TRY(sim_open(run, p, block, cost, s));
  NMB_TRY(issue(s));
  while (s->done < s->n) {
    NMB_TRY(advance(s, t));
    NMB_TRY(issue(s));
  }
  t->seconds = s->now;
  count_block(s, t);
  return check_block(s, block, t);
}

/* ------------------------------------------------------------------ the step */
static void
add(tally *to, const tally *t, double times)
{
  to->seconds += times * t->seconds;
  to->serial += times * t->serial;
  to->macs += times * t->macs;
  for (int e = 0; e < MAXENGINE; e++) {
    to->contention[e] += times * t->contention[e];
    to->wait[e] += times * t->wait[e];
    to->blame[e] += times * t->blame[e];
    for (int k = 0; k < NMB_NCAUSE; k++)
      to->time[e][k] += times * t->time[e][k];
  }
  for (int k = 0; k < NMB_NEPART; k++)
    to->energy[k] += times * t->energy[k];
  for (int m = 0; m < NMB_MAXMEM; m++)
    for (int r = 0; r < NMB_NROLE; r++)
      to->bytes[m][r] += times * t->bytes[m][r];
}

static void
static_energy(const nmb_hw *hw, tally *t)
{
  double watt = 0;
  for (int m = 0; m < hw->nmem; m++)
    watt += hw->mem[m].static_w;
  for (int e = 0; e < hw->nengine; e++)
    watt += hw->engine[e].static_w;
  t->energy[NMB_EPART_STATIC] = watt * t->seconds;
}

static const char *const cause_name[] = {
#define X(id, name, help) name,
    NMB_CAUSE_MAP(X)
#undef X
};
static const char *const epart_name[] = {
#define X(id, name) name,
    NMB_EPART_MAP(X)
#undef X
};
static const char *const class_name[] = {[NMB_ROLE_ACT] = "activation",
                                         [NMB_ROLE_INPUT] = "activation",
                                         [NMB_ROLE_WEIGHT] = "weight",
                                         [NMB_ROLE_KV] = "kv",
                                         [NMB_ROLE_STATE] = "state"};

/* Parts of the latency that add up to it.  An engine's share is split like its own
 * time at work. */
static void
emit_latency(nmb_run *run, const nmb_hw *hw, const tally *t)
{
  nmb_emit(run, "latency", t->seconds);
  for (int e = 0; e < hw->nengine; e++) {
    double busy = t->contention[e];
    for (int k = 0; k < NMB_NCAUSE; k++)
      busy += t->time[e][k];
    const double each = busy > 0 ? t->blame[e] / busy : 0;
    for (int k = 0; k < NMB_NCAUSE; k++)
      nmb_emit_part(run, "latency", hw->engine[e].name, cause_name[k],
                    each * t->time[e][k]);
    nmb_emit_part(run, "latency", hw->engine[e].name, "contention",
                  each * t->contention[e]);
  }
}

static void
emit_engines(nmb_run *run, const nmb_hw *hw, const tally *t)
{
  double time = 0;
  for (int e = 0; e < hw->nengine; e++) {
    const char *name = hw->engine[e].name;
    for (int k = 0; k < NMB_NCAUSE; k++)
      nmb_emit_part(run, "time", name, cause_name[k], t->time[e][k]);
    nmb_emit_part(run, "time", name, "contention", t->contention[e]);
    nmb_emit_part(run, "time", name, "wait", t->wait[e]);
    time += t->seconds;
    nmb_emit_part(run, "utilisation", name, NULL,
                  t->seconds > 0 ? 1 - t->wait[e] / t->seconds : 0);
  }
  nmb_emit(run, "time", time);
}

static void
emit_memories(nmb_run *run, const nmb_prog *p, const tally *t)
{
  double all = 0;
  for (int m = 0; m < p->hw->nmem; m++) {
    double peak = 0;
    for (int r = 0; r < NMB_NROLE; r++) {
      all += t->bytes[m][r];
      if (r != NMB_ROLE_INPUT)
        nmb_emit_part(run, "bytes", p->hw->mem[m].name, class_name[r], t->bytes[m][r]);
    }
    for (int i = 0; i < p->nslot; i++)
      if (p->slot[i].mem == m)
        peak = fmax(peak, (double)(p->slot[i].offset + p->slot[i].bytes));
    nmb_emit_part(run, "peak_bytes", p->hw->mem[m].name, NULL, peak);
  }
  nmb_emit(run, "bytes", all);
}

/* Bytes of the code: 16 an instruction, 16 an operand, 4 a wait, 24 for a tile
 * and 16 for a place where there is one. */
static double
code_bytes(const nmb_prog *p)
{
  double n = 0;
  for (int i = 0; i < p->ninsn; i++) {
    const nmb_insn *in = &p->insn[i];
    n += 16 + 16.0 * in->nopnd + 4.0 * in->nwait + (in->kind == NMB_INSN_EXEC ? 24 : 0) +
         (in->place.nchannel > 0 ? 16 : 0);
  }
  return n;
}

static void
emit_energy(nmb_run *run, const tally *t, double tokens)
{
  double joule = 0;
  for (int k = 0; k < NMB_NEPART; k++) {
    joule += t->energy[k];
    nmb_emit_part(run, "energy", epart_name[k], NULL, t->energy[k] / tokens);
  }
  nmb_emit(run, "energy", joule / tokens);
  nmb_emit(run, "power", joule / t->seconds);
}

static nmb_status
evaluate(nmb_run *run, const nmb_prog *p)
{
  const bool exact = nmb_opt_bool(run, "exact");
  nmb_cost *cost;
  tally *block = NMB_NEW(run, tally, p->nblock + 1), *step = NMB_NEW(run, tally, 1);
  if (p->hw->nengine > MAXENGINE)
    return nmb_fail(run, NMB_UNSUPPORTED, NMB_NOLOC,
                    "found %d engines, at most %d are simulated", p->hw->nengine,
                    MAXENGINE);
  NMB_TRY(nmb_sim_costs_at(run, p, nmb_sim_fidelity(run), &cost));
  if (!nmb_opt_bool(run, "transfers"))
    nmb_sim_skip_transfers(p, cost);
  for (int b = 0; b < p->nblock && !exact; b++) {
    NMB_TRY(run_block(run, p, b, cost, &block[b]));
    add(step, &block[b], (double)p->block[b].repeat);
  }
  for (int i = 0; i < p->nsegment && exact; i++)
    for (int64_t j = 0; j < p->order[i].count; j++) {
      NMB_TRY(run_block(run, p, p->order[i].block, cost, block));
      add(step, block, 1);
    }
  if (!(step->seconds > 0))
    return nmb_fail(run, NMB_UNVERIFIED, NMB_NOLOC,
                    "the program has no instruction that takes time");
  static_energy(p->hw, step);
  const double tokens = (double)p->spec.batch * (double)p->spec.fresh;
  emit_latency(run, p->hw, step);
  nmb_emit(run,
           p->spec.phase == NMB_PREFILL ? "time_to_first_token" : "time_per_output_token",
           step->seconds);
  nmb_emit(run, "throughput", tokens / step->seconds);
  emit_energy(run, step, tokens);
  emit_engines(run, p->hw, step);
  emit_memories(run, p, step);
  nmb_emit(run, "serial", step->serial);
  nmb_emit(run, "macs", step->macs);
  nmb_emit(run, "instructions", p->ninsn);
  nmb_emit(run, "code_bytes", code_bytes(p));
  return NMB_OK;
}

static const nmb_opt opts[] = {
    {"exact", "bool", NULL, "false", "",
     "run every block of the order instead of each distinct one once"},
    NMB_OPT_FIDELITY, NMB_OPT_TRANSFERS,
    {0}};
static const nmb_metric metrics[] = {
    {"latency", "s", "less",
     "time of a step; by engine and cause: each moment goes in equal "
     "shares to the engines at work"},
    {"time_to_first_token", "s", "less", "time of a prefill step"},
    {"time_per_output_token", "s", "less", "time of a decode step"},
    {"throughput", "token/s", "more", "tokens of all sequences over the latency"},
    {"energy", "J/token", "less", "energy of a token, by what uses it"},
    {"power", "W", "less", "energy over time"},
    {"utilisation", "1", "more", "share of the time that an engine works"},
    {"time", "s", "",
     "time of each engine by cause; wait: idle, contention: slowed by other engines"},
    {"bytes", "byte", "less",
     "bytes through each memory's interface or to its banks, by what they are"},
    {"peak_bytes", "byte", "less", "highest address in use of each memory"},
    {"serial", "s", "less", "sum of all instructions' durations"},
    {"macs", "mac", "", "multiply-accumulates"},
    {"instructions", "instruction", "less", "instructions of the program"},
    {"code_bytes", "byte", "less", "size of the program"},
    {0}};

NMB_PLUGIN
{
    NMB_PLUGIN_HEAD,
    .kind = "simulator",
    .name = "event",
    .version = "1",
    .summary = "in-order queues, waits and shared memory interfaces, event by event",
    .source = "fluid sharing as in the max-min model of casanova2014simgrid, without its "
              "redistribution of unused shares",
    .limits = "no overlap between blocks; memory interfaces are shared by rate, not by "
              "request; engines "
              "start instructions without a delay of their own",
    .opts = opts,
    .metrics = metrics,
    .reads = NMB_ALL,
    .evaluate = evaluate,
};
