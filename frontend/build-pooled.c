/* SPDX-License-Identifier: GPL-3.0-or-later */
/* DeepSeek-V4's attention (its report, sections 2.3.1 and 2.3.2, and
 * the code in Hugging Face transformers): one key of all heads that is the value, too;
 * the newest in a window, older ones pooled, `compress` positions into one.  Pools of few
 * positions overlap, and an indexer chooses among them.
 *
 * A pool is made when its last position comes.  Till then the projections of its
 * positions are kept, in the format of all caches; from step to step of a program that is what has come since the last
 * pool, and with overlapping pools the positions of that one. */
#include <math.h>

#include "frontend/build.h"

/* The last d_rope dimensions rotate. */
static nmb_id
turned(maker *m, nmb_id x, int64_t d, nmb_id out)
{
  nmb__rope r = m->l->attn.rope;
  rope(m, &r, x, out);
  if (d > r.dims)
    nmb_op_attr_set(m->p, m->p->tensor[out].def, NMB_INT("first", d - r.dims));
  return out;
}

/* ------------------------------------------------------------------- pools */
typedef struct pool {
  int64_t every, before, after; /* pools before the step and after it */
  int64_t first;                /* position from which on projections are kept */
  nmb_id pos;                   /* of the pools that the step makes */
} pool;

static pool
pool_of(const maker *m)
{
  const nmb__attn *t = &m->l->attn;
  const int64_t context = m->p->spec.context;
  pool p = {.every = t->compress, .pos = NMB_NONE};
  if (!p.every)
    return p;
  p.before = context / p.every;
  p.after = (context + m->fresh) / p.every;
  p.first = (p.before - (t->index.heads && p.before > 0)) * p.every;
  return p;
}

/* A projection of the new positions, after those that are kept of it. */
static nmb_id
kept(maker *m, const pool *p, const char *name, nmb_id x, int64_t n)
{
  const int64_t S = m->p->spec.context + m->fresh - p->first;
  const int64_t dim[] = {m->batch, S, 1, n};
  const char *cache = nmb_format(m->run, "cache.%s", name);
  const nmb_id y = linear(m, name, NMB__W_POOL, x, n, m->a->hidden, false,
                          act3(m, "pool", m->T, 1, n));
  const nmb_id was = tensor(m, cache, NMB_ROLE_KV, NMB_DT_BF16, 0, 4, dim),
               out = tensor(m, cache, NMB_ROLE_KV, NMB_DT_BF16, 0, 4, dim);
  const nmb_id op = op_add(m, NMB_OP_KVAPPEND, 2, (nmb_id[]){was, y}, out);
  nmb_op_attr_set(m->p, op, NMB_INT("at", S - m->fresh));
  return out;
}

/* The rows that the step makes, normed and turned to the first of their positions. */
static nmb_id
rows(maker *m, pool *p, const char *prefix, nmb_id kv, nmb_id gate, int64_t n, int64_t d)
{
  const int64_t R = m->batch * (p->after - p->before);
  const nmb_id bias = weight(m, nmb_format(m->run, "%s.position", prefix), NMB__W_STREAM,
                             2, p->every, n, 0);
  if (p->pos == NMB_NONE)
    p->pos = tensor(m, nmb_format(m->run, "pos.%d", (int)p->every), NMB_ROLE_INPUT,
                    NMB_DT_I32, 0, 1, &R);
  nmb_id y = act3(m, "pool", R, 1, d);
  op_add(m, NMB_OP_POOL, 3, (nmb_id[]){kv, gate, bias}, y);
  y = norm(m, nmb_format(m->run, "%s.norm", prefix), y, d, act3(m, "pool", R, 1, d));
  const nmb_id pos = m->pos;
  m->pos = p->pos;
  y = turned(m, y, d, act3(m, "pool", R, 1, d));
  m->pos = pos;
  return y;
}

/* The weights are there, even where a step makes no row. */
static void
rows_none(maker *m, const pool *p, const char *prefix, int64_t n, int64_t d)
{
  weight(m, nmb_format(m->run, "%s.position", prefix), NMB__W_STREAM, 2, p->every, n, 0);
  vector(m, nmb_format(m->run, "%s.norm", prefix), d);
}

/* The cache of rows of width d after the step; NMB_NONE: there is none yet. */
static nmb_id
pooled(maker *m, pool *p, const char *prefix, const char *cache, nmb_id x, int64_t d)
{
  const int64_t n = m->l->attn.index.heads ? 2 * d : d;
  const nmb_id kv = kept(m, p, nmb_format(m->run, "%s.kv", prefix), x, n),
               gate = kept(m, p, nmb_format(m->run, "%s.gate", prefix), x, n);
  const int64_t dim[] = {m->batch, p->after, 1, d};
  if (p->after == p->before)
    rows_none(m, p, prefix, n, d);
  if (!p->after)
    return NMB_NONE;
  const nmb_id was = tensor(m, cache, NMB_ROLE_KV, NMB_DT_BF16, 0, 4, dim);
  if (p->after == p->before)
    return was;
  const nmb_id y = rows(m, p, prefix, kv, gate, n, d),
               out = tensor(m, cache, NMB_ROLE_KV, NMB_DT_BF16, 0, 4, dim);
  const nmb_id op = op_add(m, NMB_OP_KVAPPEND, 2, (nmb_id[]){was, y}, out);
  nmb_op_attr_set(m->p, op, NMB_INT("at", p->before));
  nmb_op_attr_set(m->p, op, NMB_INT("every", p->every));
  return out;
}

/* ----------------------------------------------------------------- attention */
/* Which pools each token attends to, by scores of small heads; NMB_NONE: there is none. */
static nmb_id
chosen(maker *m, pool *p, nmb_id x, nmb_id latent)
{
  const nmb__index *e = &m->l->attn.index;
  const int64_t n = e->heads, d = e->width;
  nmb_id q = linear(m, "index.q", NMB__W_INDEX, latent, n * d, m->l->attn.q_rank, false,
                    act3(m, "index_q", m->T, n, d));
  const nmb_id w = linear(m, "index.w", NMB__W_ROUTER, x, n, m->a->hidden, false,
                          act2(m, "index_w", m->T, n));
  const nmb_id k = pooled(m, p, "index.pool", "cache.index", x, d);
  scaled(m, w, 1 / sqrt((double)n));
  q = turned(m, q, d, act3(m, "index_q", m->T, n, d));
  if (k == NMB_NONE)
    return NMB_NONE;
  const nmb_id s = act3(m, "index_scores", m->batch, m->fresh * n, p->after);
  const nmb_id qk = op_add(m, NMB_OP_QK, 2, (nmb_id[]){q, k}, s);
  nmb_op_attr_set(m->p, qk, NMB_INT("new", m->fresh));
  nmb_op_attr_set(m->p, qk, NMB_REAL("scale", 1 / sqrt((double)d)));
  nmb_op_attr_set(m->p, qk, NMB_INT("every", p->every));
  const nmb_id y = act2(m, "chosen", m->T, p->after);
  const nmb_id op = op_add(m, NMB_OP_PICK, 2, (nmb_id[]){s, w}, y);
  nmb_op_attr_set(m->p, op, NMB_INT("topk", e->topk));
  nmb_op_attr_set(m->p, op, NMB_INT("new", m->fresh));
  nmb_op_attr_set(m->p, op, NMB_INT("every", p->every));
  return y;
}

/* Over the window and, side by side with it, the pools. */
static nmb_id
attend(maker *m, const pool *p, nmb_id q, nmb_id near, nmb_id far, nmb_id picked)
{
  const nmb__attn *t = &m->l->attn;
  const int64_t S = cache_length(m), P = far == NMB_NONE ? 0 : p->after;
  const int64_t g = m->fresh * t->heads;
  const nmb_id sink = t->sink ? weight(m, "attn.sink", NMB__W_STREAM, 1, t->heads, 0, 0)
                              : NMB_NONE;
  nmb_id s = act3(m, "scores", m->batch, g, S);
  scores(m, op_add(m, NMB_OP_QK, 2, (nmb_id[]){q, near}, s));
  if (P) {
    const nmb_id more = act3(m, "scores", m->batch, g, P);
    const nmb_id qk = op_add(m, NMB_OP_QK, 3, (nmb_id[]){q, far, picked}, more);
    nmb_op_attr_set(m->p, qk, NMB_INT("new", m->fresh));
    nmb_op_attr_set(m->p, qk, NMB_REAL("scale", t->scale));
    nmb_op_attr_set(m->p, qk, NMB_INT("every", p->every));
    s = op2(m, NMB_OP_CONCAT, s, more, act3(m, "scores", m->batch, g, S + P));
  }
  const nmb_id w = act3(m, "probs", m->batch, g, S + P);
  const nmb_id op = op_add(m, NMB_OP_SOFTMAX, 2, (nmb_id[]){s, sink}, w);
  visible(m, op);
  const nmb_id out = act3(m, "attn", m->T, t->heads, t->dk);
  if (!P)
    return op2(m, NMB_OP_PV, w, near, out);
  nmb_op_attr_set(m->p, op, NMB_INT("every", p->every));
  nmb_op_attr_set(m->p, op, NMB_INT("pooled", P));
  const nmb_id a = op2(m, NMB_OP_PV, split(m, w, 0, S, act3(m, "probs", m->batch, g, S)),
                       near, out),
               b = op2(m, NMB_OP_PV, split(m, w, S, P, act3(m, "probs", m->batch, g, P)),
                       far, act3(m, "attn", m->T, t->heads, t->dk));
  return op2(m, NMB_OP_ADD, a, b, act3(m, "attn", m->T, t->heads, t->dk));
}

/* Turned back, as the values were turned; then groups of heads by matrices of their own. */
static nmb_id
output(maker *m, nmb_id y)
{
  const nmb__attn *t = &m->l->attn;
  const int64_t G = t->o_groups, n = t->heads * t->dk / G, r = t->o_rank;
  y = turned(m, y, t->dk, act3(m, "attn", m->T, G, n));
  nmb_op_attr_set(m->p, m->p->tensor[y].def, NMB_INT("inverse", 1));
  const nmb_id w = weight(m, "attn.o_down", NMB__W_ATTN, 3, G, r, n);
  const nmb_id low = op2(m, NMB_OP_HLINEAR, y, w, act3(m, "o_down", m->T, G, r));
  const nmb_id o = linear(m, "attn.o", NMB__W_ATTN, low, m->a->hidden, G * r, false,
                          act2(m, "o", m->T, m->a->hidden));
  scaled(m, o, m->l->residual);
  return o;
}

nmb_id
nmb__build_pooled(maker *m, nmb_id x)
{
  const nmb__attn *t = &m->l->attn;
  const int64_t n = t->heads, d = t->dk;
  pool p = pool_of(m);
  const nmb_id latent = latent_query(m, x);
  nmb_id q = linear(m, "attn.q_up", NMB__W_ATTN, latent, n * d, t->q_rank, false,
                    act3(m, "q", m->T, n, d));
  q = turned(m, unit_norm(m, "rms", q, act3(m, "q", m->T, n, d)), d,
             act3(m, "q", m->T, n, d));
  nmb_id kv = linear(m, "attn.kv", NMB__W_MLA_DOWN, x, d, m->a->hidden, false,
                     act3(m, "kv", m->T, 1, d));
  kv = norm(m, "attn.kv_norm", kv, d, act3(m, "kv", m->T, 1, d));
  kv = append(m, "cache.kv", turned(m, kv, d, act3(m, "kv", m->T, 1, d)), 1, d);
  nmb_id far = NMB_NONE, picked = NMB_NONE;
  if (p.every)
    far = pooled(m, &p, "pool", "cache.pool", x, d);
  if (t->index.heads)
    picked = chosen(m, &p, x, latent);
  return output(m, attend(m, &p, q, kv, far, picked));
}
