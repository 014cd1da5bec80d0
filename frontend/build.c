/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Architecture -> graph: one block per distinct layer, between an embedding block
 * and a head block.
 *
 * Attention over plain caches is the composite op, experts are the composite moe
 * op; latent attention is written out in its expanded form, as its scores have two
 * parts.  A cache with a window holds what its new tokens can still see: window - 1
 * positions before the first of them and the new ones. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "frontend/build.h"

/* ---------------------------------------------------------------- tensors */
nmb_id
tensor(maker *m, const char *name, nmb_role role, nmb_dtype dtype, int group, int rank,
       const int64_t *dim)
{
  nmb_tensor t = {
      .name = name, .block = m->block, .dtype = dtype, .role = role, .rank = rank};
  t.group = nmb_dtype_get(dtype)->group < 0 ? group : 0;
  memcpy(t.dim, dim, (size_t)rank * sizeof *dim);
  return nmb_tensor_add(m->p, &t);
}

nmb_id
act2(maker *m, const char *name, int64_t rows, int64_t cols)
{
  return tensor(m, name, NMB_ROLE_ACT, NMB_DT_BF16, 0, 2, (int64_t[]){rows, cols});
}

nmb_id
act3(maker *m, const char *name, int64_t a, int64_t b, int64_t c)
{
  return tensor(m, name, NMB_ROLE_ACT, NMB_DT_BF16, 0, 3, (int64_t[]){a, b, c});
}

nmb_id
weight(maker *m, const char *name, nmb__class c, int rank, int64_t d0, int64_t d1,
       int64_t d2)
{
  const nmb__format f = nmb__stored_format(m->a, m->l, c, name);
  return tensor(m, name, NMB_ROLE_WEIGHT, f.dtype, f.group, rank,
                (int64_t[]){d0, d1, d2});
}

nmb_id
vector(maker *m, const char *name, int64_t n)
{
  return weight(m, name, NMB__W_NORM, 1, n, 0, 0);
}

/* -------------------------------------------------------------------- ops */
nmb_id
op_add(maker *m, nmb_opcode code, int nin, const nmb_id *in, nmb_id out)
{
  nmb_op o = {.code = code, .block = m->block, .nout = 1, .out = {out}};
  for (int i = 0; i < nin; i++)
    if (in[i] != NMB_NONE)
      o.in[o.nin++] = in[i];
  return nmb_op_add(m->p, &o);
}

nmb_id
op1(maker *m, nmb_opcode code, nmb_id x, nmb_id out)
{
  op_add(m, code, 1, &x, out);
  return out;
}

nmb_id
op2(maker *m, nmb_opcode code, nmb_id x, nmb_id y, nmb_id out)
{
  op_add(m, code, 2, (nmb_id[]){x, y}, out);
  return out;
}

nmb_id
linear(maker *m, const char *name, nmb__class c, nmb_id x, int64_t n, int64_t k,
       bool bias, nmb_id out)
{
  const nmb_id w = weight(m, name, c, 2, n, k, 0);
  const nmb_id b = bias ? vector(m, nmb_format(m->run, "%s.bias", name), n) : NMB_NONE;
  op_add(m, NMB_OP_LINEAR, 3, (nmb_id[]){x, w, b}, out);
  return out;
}

void
scaled(maker *m, nmb_id t, double scale)
{
  if (scale < 1 || scale > 1)
    nmb_op_attr_set(m->p, m->p->tensor[t].def, NMB_REAL("scale", scale));
}

nmb_id
pointwise(maker *m, const char *fn, nmb_id x, nmb_id y, nmb_id out)
{
  const nmb_opcode code = y == NMB_NONE ? NMB_OP_ACT : NMB_OP_GLU;
  const nmb_id op = op_add(m, code, 2, (nmb_id[]){x, y}, out);
  nmb_op_attr_set(m->p, op, NMB_SYM("fn", fn));
  return out;
}

/* Without weights, over the last dimension. */
nmb_id
unit_norm(maker *m, const char *kind, nmb_id x, nmb_id out)
{
  const nmb_id op = op_add(m, NMB_OP_NORM, 1, &x, out);
  nmb_op_attr_set(m->p, op, NMB_SYM("kind", kind));
  nmb_op_attr_set(m->p, op, NMB_REAL("eps", m->l->eps));
  return out;
}

nmb_id
norm(maker *m, const char *name, nmb_id x, int64_t n, nmb_id out)
{
  const bool layer =
      m->l->norm == NMB__NORM_LAYER || m->l->norm == NMB__NORM_LAYER_NOBIAS;
  if (m->l->norm == NMB__NORM_LAYER_UNIT || m->l->norm == NMB__NORM_RMS_UNIT)
    return unit_norm(m, m->l->norm == NMB__NORM_RMS_UNIT ? "rms" : "layer", x, out);
  const nmb_id w = vector(m, name, n);
  const nmb_id b = m->l->norm == NMB__NORM_LAYER
                       ? vector(m, nmb_format(m->run, "%s.bias", name), n)
                       : NMB_NONE;
  const nmb_id op = op_add(m, NMB_OP_NORM, 3, (nmb_id[]){x, w, b}, out);
  nmb_op_attr_set(m->p, op, NMB_SYM("kind", layer ? "layer" : "rms"));
  nmb_op_attr_set(m->p, op, NMB_REAL("eps", m->l->eps));
  if (m->l->norm_offset > 0)
    nmb_op_attr_set(m->p, op, NMB_REAL("offset", m->l->norm_offset));
  return out;
}

/* longrope: which list applies depends on how long the sequences have become. */
static nmb_id
rope_factors(maker *m, const nmb__rope *r)
{
  const bool far = (double)(m->p->spec.context + m->fresh) > r->orig;
  const char *name = far ? NMB__ROPE_LONG_FACTORS : NMB__ROPE_SHORT_FACTORS;
  if (m->factors == NMB_NONE)
    m->factors = tensor(m, name, NMB_ROLE_INPUT, NMB_DT_F32, 0, 1,
                        (int64_t[]){m->a->rope_factors});
  return m->factors;
}

static void
rope_scaling(maker *m, const nmb__rope *r, nmb_id op)
{
  const bool far = (double)(m->p->spec.context + m->fresh) > r->orig;
  const double attention =
      r->kind == NMB__ROPE_LONG && !far ? r->attention_short : r->attention;
  const nmb_attr attr[] = {
      NMB_REAL("factor", r->factor),
      NMB_REAL("orig", r->orig),
      NMB_REAL("low", r->low),
      NMB_REAL("high", r->high),
      NMB_REAL("beta_fast", r->beta_fast),
      NMB_REAL("beta_slow", r->beta_slow),
  };
  nmb_op_attr_set(m->p, op, NMB_SYM("scaling", nmb__rope_name(r->kind)));
  for (size_t i = 0; i < sizeof attr / sizeof *attr; i++)
    if (attr[i].r > 0)
      nmb_op_attr_set(m->p, op, attr[i]);
  if (r->kind == NMB__ROPE_YARN)
    nmb_op_attr_set(m->p, op, NMB_INT("truncate", r->truncate));
  if (attention < 1 || attention > 1)
    nmb_op_attr_set(m->p, op, NMB_REAL("attention", attention));
}

nmb_id
rope(maker *m, const nmb__rope *r, nmb_id x, nmb_id out)
{
  if (m->pos == NMB_NONE)
    m->pos = tensor(m, "pos", NMB_ROLE_INPUT, NMB_DT_I32, 0, 1, &m->T);
  const nmb_id f = r->kind == NMB__ROPE_LONG && r->dims ? rope_factors(m, r) : NMB_NONE;
  const nmb_id op = op_add(m, NMB_OP_ROPE, 3, (nmb_id[]){x, m->pos, f}, out);
  nmb_op_attr_set(m->p, op, NMB_INT("dims", r->dims));
  nmb_op_attr_set(m->p, op, NMB_REAL("theta", r->dims ? r->theta : 1));
  if (r->adjacent)
    nmb_op_attr_set(m->p, op, NMB_SYM("pairs", "adjacent"));
  if (r->live != r->dims)
    nmb_op_attr_set(m->p, op, NMB_INT("live", r->live));
  if (r->kind != NMB__ROPE_PLAIN)
    rope_scaling(m, r, op);
  return out;
}

/* Rotates queries, and stretches them with the position. */
static nmb_id
rope_query(maker *m, nmb_id x, int64_t heads, int64_t d)
{
  const nmb__attn *t = &m->l->attn;
  if (!t->rope.dims && !(t->stretch > 0))
    return x;
  const nmb_id out = rope(m, &t->rope, x, act3(m, "q", m->T, heads, d));
  if (t->stretch > 0) {
    const nmb_id op = m->p->tensor[out].def;
    nmb_op_attr_set(m->p, op, NMB_REAL("stretch", t->stretch));
    nmb_op_attr_set(m->p, op, NMB_INT("stretch_every", t->stretch_every));
    nmb_op_attr_set(m->p, op, NMB_INT("stretch_from", t->stretch_from));
  }
  return out;
}

nmb_id
split(maker *m, nmb_id x, int64_t first, int64_t count, nmb_id out)
{
  const nmb_id op = op_add(m, NMB_OP_SPLIT, 1, &x, out);
  nmb_op_attr_set(m->p, op, NMB_INT("first", first));
  nmb_op_attr_set(m->p, op, NMB_INT("count", count));
  return out;
}

nmb_id
nmb__mk_lent(maker *m, nmb_id block, const char *name)
{
  nmb_id i = 0;
  while (m->p->tensor[i].block != block || m->p->tensor[i].def != NMB_NONE ||
         strcmp(m->p->tensor[i].name, name))
    i++;
  nmb_tensor t = m->p->tensor[i];
  t.block = m->block;
  t.of = i + 1;
  return nmb_tensor_add(m->p, &t);
}

/* -------------------------------------------------------------- attention */
int64_t
cache_length(const maker *m)
{
  const nmb__attn *t = &m->l->attn;
  const int64_t all = m->p->spec.context + m->fresh, w = t->chunk ? t->chunk : t->window;
  return w && w - 1 + m->fresh < all ? w - 1 + m->fresh : all;
}

nmb_id
append(maker *m, const char *name, nmb_id x, int64_t heads, int64_t d)
{
  const int64_t S = cache_length(m), dim[] = {m->batch, S, heads, d};
  const nmb_id cache = tensor(m, name, NMB_ROLE_KV, NMB_DT_BF16, 0, 4, dim);
  const nmb_id out = tensor(m, name, NMB_ROLE_KV, NMB_DT_BF16, 0, 4, dim);
  const nmb_id op = op_add(m, NMB_OP_KVAPPEND, 2, (nmb_id[]){cache, x}, out);
  nmb_op_attr_set(m->p, op, NMB_INT("at", S - m->fresh));
  return out;
}

void
visible(maker *m, nmb_id op)
{
  nmb_op_attr_set(m->p, op, NMB_INT("new", m->fresh));
  nmb_op_attr_set(m->p, op, NMB_INT("window", m->l->attn.window));
  if (m->l->attn.chunk)
    nmb_op_attr_set(m->p, op, NMB_INT("chunk", m->l->attn.chunk));
}

void
scores(maker *m, nmb_id op)
{
  visible(m, op);
  nmb_op_attr_set(m->p, op, NMB_REAL("scale", m->l->attn.scale));
  nmb_op_attr_set(m->p, op, NMB_INT("causal", 1));
  if (m->l->attn.cap > 0)
    nmb_op_attr_set(m->p, op, NMB_REAL("cap", m->l->attn.cap));
  if (m->l->attn.alibi)
    nmb_op_attr_set(m->p, op, NMB_INT("alibi", m->l->attn.alibi));
}

/* Queries or keys normed as the layer has it. */
static nmb_id
qk_norm(maker *m, const char *which, nmb_id y, int64_t n, int64_t d)
{
  const int64_t kind = m->l->attn.qk_norm;
  const char *name = nmb_format(m->run, "attn.%s_norm", which);
  const nmb_id out = act3(m, which, m->T, n, d);
  if (kind == NMB__QKNORM_UNIT)
    return unit_norm(m, "rms", y, out);
  if (kind != NMB__QKNORM_EACH)
    return norm(m, name, y, kind == NMB__QKNORM_FULL ? n * d : d, out);
  const nmb_id w = weight(m, name, NMB__W_NORM, 2, n, d, 0);
  return op2(m, NMB_OP_MUL, unit_norm(m, "layer", y, act3(m, which, m->T, n, d)), w, out);
}

/* A projection of x to n heads of d. */
static nmb_id
project(maker *m, const char *which, nmb_id x, int64_t n, int64_t d)
{
  const nmb__attn *t = &m->l->attn;
  const bool flat = *which != 'v' && t->qk_norm == NMB__QKNORM_FULL;
  const char *name = nmb_format(m->run, "attn.%s", which);
  nmb_id y = flat ? act2(m, which, m->T, n * d) : act3(m, which, m->T, n, d);
  y = linear(m, name, NMB__W_ATTN, x, n * d, m->a->hidden, t->bias, y);
  if (t->clip > 0 && !flat) /* else after the norm */
    nmb_op_attr_set(m->p, m->p->tensor[y].def, NMB_REAL("clip", t->clip));
  scaled(m, y, *which == 'v' ? t->v_scale : *which == 'k' ? t->k_scale : t->q_scale);
  return y;
}

static nmb_id
bounded(maker *m, nmb_id x, double limit, nmb_id out)
{
  pointwise(m, "none", x, NMB_NONE, out);
  nmb_op_attr_set(m->p, m->p->tensor[out].def, NMB_REAL("low", -limit));
  nmb_op_attr_set(m->p, m->p->tensor[out].def, NMB_REAL("high", limit));
  return out;
}

/* Queries or keys with the norm and rotation they have. */
static nmb_id
positioned(maker *m, const char *which, nmb_id y, int64_t n)
{
  const nmb__attn *t = &m->l->attn;
  const bool normed = t->qk_norm != NMB__QKNORM_NONE;
  if (normed && !t->qk_norm_after)
    y = qk_norm(m, which, y, n, t->dk);
  if (t->clip > 0 && t->qk_norm == NMB__QKNORM_FULL)
    y = bounded(m, y, t->clip, act3(m, which, m->T, n, t->dk));
  if (*which == 'q')
    y = rope_query(m, y, n, t->dk);
  else if (t->rope.dims)
    y = rope(m, &t->rope, y, act3(m, which, m->T, n, t->dk));
  return normed && t->qk_norm_after ? qk_norm(m, which, y, n, t->dk) : y;
}

/* Queries or the one key of an indexer, as the model's own are. */
static nmb_id
index_part(maker *m, const char *which, nmb_id x, int64_t n)
{
  const int64_t d = m->l->attn.index.width;
  const char *name = nmb_format(m->run, "index.%s", which);
  nmb_id y = linear(m, name, NMB__W_INDEX, x, n * d, m->a->hidden, false,
                    act3(m, "index", m->T, n, d));
  y = norm(m, nmb_format(m->run, "%s_norm", name), y, d, act3(m, "index", m->T, n, d));
  return m->l->attn.rope.dims
             ? rope(m, &m->l->attn.rope, y, act3(m, "index", m->T, n, d))
             : y;
}

/* MiniMax-M3 (model card and vLLM's code): each head of the indexer chooses blocks of
 * keys for its share of the KV heads. */
static nmb_id
index_blocks(maker *m, nmb_id x)
{
  const nmb__index *e = &m->l->attn.index;
  const int64_t S = cache_length(m), dim[] = {m->batch, m->fresh, e->heads, S};
  const nmb_id q = index_part(m, "q", x, e->heads);
  const nmb_id k = append(m, "cache.index", index_part(m, "k", x, 1), 1, e->width);
  const nmb_id s = act3(m, "index_scores", m->batch, m->fresh * e->heads, S);
  const nmb_id qk = op_add(m, NMB_OP_QK, 2, (nmb_id[]){q, k}, s);
  visible(m, qk);
  nmb_op_attr_set(m->p, qk, NMB_REAL("scale", 1 / sqrt((double)e->width)));
  const nmb_id y = tensor(m, "chosen", NMB_ROLE_ACT, NMB_DT_BF16, 0, 4, dim);
  const nmb_id op = op_add(m, NMB_OP_PICK, 1, &s, y);
  visible(m, op);
  nmb_op_attr_set(m->p, op, NMB_INT("topk", e->topk));
  nmb_op_attr_set(m->p, op, NMB_INT("block", e->block));
  nmb_op_attr_set(m->p, op, NMB_INT("local", e->local));
  nmb_op_attr_set(m->p, op, NMB_INT("init", e->init));
  return y;
}

/* How many keys the indexer lets through, if one new token of each sequence asks. */
static int64_t
chosen_keys(const maker *m)
{
  const nmb__index *e = &m->l->attn.index;
  const int64_t S = cache_length(m), block = e->block ? e->block : 1;
  const int64_t blocks = (S + block - 1) / block;
  const nmb__attn *t = &m->l->attn;
  if (m->fresh > 1 || e->topk >= blocks || (e->block && !e->local) || t->window ||
      t->chunk || t->alibi) /* these go by positions */
    return S;
  return (e->topk - 1) * block + S - (blocks - 1) * block; /* the newest, which may be
                                                              short, is among them */
}

/* The keys that one new token of each sequence has chosen. */
static nmb_id
take(maker *m, const char *name, nmb_id chosen, nmb_id cache, int64_t keys)
{
  const nmb_tensor c = m->p->tensor[cache];
  const int64_t dim[] = {c.dim[0], keys, c.dim[2], c.dim[3]};
  return op2(m, NMB_OP_TAKE, chosen, cache,
             tensor(m, name, NMB_ROLE_ACT, NMB_DT_BF16, 0, 4, dim));
}

/* Over the keys that `chosen` lets through; sink: NMB_NONE, or one */
static nmb_id
attend_chosen(maker *m, nmb_id q, nmb_id k, nmb_id v, nmb_id sink, nmb_id chosen)
{
  const nmb__attn *t = &m->l->attn;
  const int64_t S = chosen_keys(m), u = m->batch * t->kv_heads;
  const int64_t g = m->fresh * (t->heads / t->kv_heads);
  if (S < cache_length(m)) {
    k = take(m, "k_chosen", chosen, k, S);
    v = take(m, "v_chosen", chosen, v, S);
    chosen = NMB_NONE;
  }
  const nmb_id s = act3(m, "scores", u, g, S), p = act3(m, "probs", u, g, S);
  scores(m, op_add(m, NMB_OP_QK, 3, (nmb_id[]){q, k, chosen}, s));
  visible(m, op_add(m, NMB_OP_SOFTMAX, 2, (nmb_id[]){s, sink}, p));
  return op2(m, NMB_OP_PV, p, v, act3(m, "attn", m->T, t->heads, t->dv));
}

/* Keys and values of the layer's own, in their caches. */
static void
keys_values(maker *m, nmb_id x, nmb_id *k, nmb_id *v)
{
  const nmb__attn *t = &m->l->attn;
  const nmb_id raw = project(m, "k", x, t->kv_heads, t->dk);
  *k = append(m, "cache.k", positioned(m, "k", raw, t->kv_heads), t->kv_heads, t->dk);
  nmb_id y = t->k_eq_v ? raw : project(m, "v", x, t->kv_heads, t->dv);
  if (t->v_norm)
    y = unit_norm(m, "rms", y, act3(m, "v", m->T, t->kv_heads, t->dv));
  *v = append(m, "cache.v", y, t->kv_heads, t->dv);
}

/* Weights for keys and values that the file has although nothing uses them. */
static void
keys_values_idle(maker *m)
{
  const nmb__attn *t = &m->l->attn;
  const int64_t H = m->a->hidden;
  weight(m, "attn.k", NMB__W_ATTN, 2, t->kv_heads * t->dk, H, 0);
  if (!t->k_eq_v)
    weight(m, "attn.v", NMB__W_ATTN, 2, t->kv_heads * t->dv, H, 0);
  if (t->bias)
    vector(m, "attn.k.bias", t->kv_heads * t->dk);
  if (t->bias && !t->k_eq_v)
    vector(m, "attn.v.bias", t->kv_heads * t->dv);
  if (t->qk_norm == NMB__QKNORM_HEAD)
    vector(m, "attn.k_norm", t->dk);
}

/* These keep the default epsilon of their class in some families' code. */
static nmb_id
latent_norm(maker *m, const char *name, nmb_id x, int64_t n, nmb_id out)
{
  norm(m, name, x, n, out);
  if (m->l->attn.latent_eps > 0)
    nmb_op_attr_set(m->p, m->p->tensor[out].def, NMB_REAL("eps", m->l->attn.latent_eps));
  return out;
}

/* Multi-head latent attention, expanded (DeepSeek-V2, arXiv:2405.04434, 2.1). */
nmb_id
latent_query(maker *m, nmb_id x)
{
  const nmb__attn *t = &m->l->attn;
  if (!t->q_rank)
    return NMB_NONE;
  const nmb_id c = linear(m, "attn.q_down", NMB__W_MLA_DOWN, x, t->q_rank, m->a->hidden,
                          t->bias, act2(m, "q_down", m->T, t->q_rank));
  return latent_norm(m, "attn.q_down_norm", c, t->q_rank,
                     act2(m, "q_latent", m->T, t->q_rank));
}

/* latent: NMB_NONE, or what queries are made from */
static nmb_id
mla_query(maker *m, nmb_id x, nmb_id latent)
{
  const nmb__attn *t = &m->l->attn;
  const int64_t n = t->heads * t->dk;
  const nmb_id q = act3(m, "q", m->T, t->heads, t->dk);
  if (latent == NMB_NONE)
    return linear(m, "attn.q", NMB__W_ATTN, x, n, m->a->hidden, false, q);
  return linear(m, "attn.q_up", NMB__W_ATTN, latent, n, t->q_rank, false, q);
}

static nmb_id
attn_plain(maker *m, nmb_id x)
{
  const nmb__attn *t = &m->l->attn;
  const nmb_id raw = t->q_rank ? mla_query(m, x, latent_query(m, x))
                               : project(m, "q", x, t->heads, t->dk);
  const nmb_id q = positioned(m, "q", raw, t->heads);
  nmb_id k, v;
  if (t->kv_from) {
    if (m->a->kv_shared_weights)
      keys_values_idle(m);
    const nmb_id from = 1 + m->a->distinct[t->kv_from - 1]; /* after the embedding */
    k = nmb__mk_lent(m, from, "cache.k");
    v = nmb__mk_lent(m, from, "cache.v");
  } else
    keys_values(m, x, &k, &v);
  const nmb_id sink = t->sink ? vector(m, "attn.sink", t->heads) : NMB_NONE;
  if (t->index.block)
    return attend_chosen(m, q, k, v, sink, index_blocks(m, x));
  const nmb_id y = act3(m, "attn", m->T, t->heads, t->dv);
  scores(m, op_add(m, NMB_OP_ATTENTION, 4, (nmb_id[]){q, k, v, sink}, y));
  return y;
}

/* The one key of the indexer: LayerNorm with torch's default of DeepSeek-V3.2's code. */
static nmb_id
index_key(maker *m, nmb_id x, const nmb__rope *r)
{
  const int64_t d = m->l->attn.index.width;
  nmb_id k = linear(m, "index.k", NMB__W_INDEX, x, d, m->a->hidden, false,
                    act3(m, "index_k", m->T, 1, d));
  const nmb_id in[3] = {k, vector(m, "index.k_norm", d), vector(m, "index.k_norm.bias", d)};
  k = act3(m, "index_k", m->T, 1, d);
  const nmb_id op = op_add(m, NMB_OP_NORM, 3, in, k);
  nmb_op_attr_set(m->p, op, NMB_SYM("kind", "layer"));
  nmb_op_attr_set(m->p, op, NMB_REAL("eps", 1e-6));
  if (r->dims)
    k = rope(m, r, k, act3(m, "index_k", m->T, 1, d));
  return append(m, "cache.index", k, 1, d);
}

/* DeepSeek-V3.2 (arXiv:2512.02556, section 2.1): which keys each token attends to, by
 * scores of small heads.  Its code turns queries and keys by a Hadamard matrix, too,
 * which leaves their products as they are. */
static nmb_id
index_mask(maker *m, nmb_id x, nmb_id latent)
{
  const nmb__attn *t = &m->l->attn;
  const nmb__index *e = &t->index;
  const int64_t n = e->heads, d = e->width, S = cache_length(m);
  nmb__rope r = t->rope;
  r.adjacent = e->adjacent;
  nmb_id q = linear(m, "index.q", NMB__W_INDEX, latent, n * d, t->q_rank, false,
                    act3(m, "index_q", m->T, n, d));
  if (r.dims)
    q = rope(m, &r, q, act3(m, "index_q", m->T, n, d));
  const nmb_id k = index_key(m, x, &r);
  const nmb_id w = linear(m, "index.w", NMB__W_ROUTER, x, n, m->a->hidden, false,
                          act2(m, "index_w", m->T, n));
  scaled(m, w, 1 / sqrt((double)n));
  const nmb_id s = act3(m, "index_scores", m->batch, m->fresh * n, S);
  const nmb_id qk = op_add(m, NMB_OP_QK, 2, (nmb_id[]){q, k}, s);
  visible(m, qk);
  nmb_op_attr_set(m->p, qk, NMB_REAL("scale", 1 / sqrt((double)d)));
  const nmb_id y = act2(m, "chosen", m->T, S);
  const nmb_id op = op_add(m, NMB_OP_PICK, 2, (nmb_id[]){s, w}, y);
  visible(m, op);
  nmb_op_attr_set(m->p, op, NMB_INT("topk", e->topk));
  return y;
}

static nmb_id
expand(maker *m, const char *name, nmb_id c, int64_t d)
{
  const nmb__attn *t = &m->l->attn;
  const int64_t dim[] = {m->batch, m->p->tensor[c].dim[1], t->heads, d};
  const nmb_id y =
      tensor(m, name + strlen("attn."), NMB_ROLE_ACT, NMB_DT_BF16, 0, 4, dim);
  return linear(m, name, NMB__W_ATTN, c, t->heads * d, t->kv_rank, false, y);
}

/* chosen: NMB_NONE, or what an indexer lets through */
static nmb_id
mla_attend(maker *m, nmb_id q, nmb_id c, nmb_id kr, nmb_id chosen)
{
  const nmb__attn *t = &m->l->attn;
  const int64_t S = m->p->tensor[c].dim[1], u = m->batch * t->heads;
  const nmb_id qn =
      split(m, q, 0, t->d_nope, act3(m, "q_nope", m->T, t->heads, t->d_nope));
  nmb_id qr =
      split(m, q, t->d_nope, t->d_rope, act3(m, "q_rope", m->T, t->heads, t->d_rope));
  qr = rope_query(m, qr, t->heads, t->d_rope);
  const nmb_id kn = expand(m, "attn.k_up", c, t->d_nope);
  const nmb_id v = expand(m, "attn.v_up", c, t->dv);
  const nmb_id sr = act3(m, "scores_rope", m->batch, m->fresh * t->heads, S);
  scores(m, op_add(m, NMB_OP_QK, 3, (nmb_id[]){qr, kr, chosen}, sr));
  const nmb_id s = act3(m, "scores", u, m->fresh, S);
  scores(m, op_add(m, NMB_OP_QK, 3, (nmb_id[]){qn, kn, sr}, s));
  const nmb_id p = act3(m, "probs", u, m->fresh, S);
  visible(m, op_add(m, NMB_OP_SOFTMAX, 1, &s, p));
  return op2(m, NMB_OP_PV, p, v, act3(m, "attn", m->T, t->heads, t->dv));
}

static nmb_id
attn_latent(maker *m, nmb_id x)
{
  const nmb__attn *t = &m->l->attn;
  const nmb_id latent = latent_query(m, x), q = mla_query(m, x, latent);
  const nmb_id kv =
      linear(m, "attn.kv_down", NMB__W_MLA_DOWN, x, t->kv_rank + t->d_rope, m->a->hidden,
             t->bias, act2(m, "kv", m->T, t->kv_rank + t->d_rope));
  nmb_id c = split(m, kv, 0, t->kv_rank, act2(m, "c", m->T, t->kv_rank));
  c = latent_norm(m, "attn.kv_norm", c, t->kv_rank, act3(m, "c", m->T, 1, t->kv_rank));
  nmb_id kr = split(m, kv, t->kv_rank, t->d_rope, act3(m, "kr", m->T, 1, t->d_rope));
  if (t->rope.dims)
    kr = rope(m, &t->rope, kr, act3(m, "kr", m->T, 1, t->d_rope));
  c = append(m, "cache.c", c, 1, t->kv_rank);
  kr = append(m, "cache.kr", kr, 1, t->d_rope);
  nmb_id chosen = NMB_NONE;
  if (t->index.heads)
    chosen = t->index.own ? index_mask(m, x, latent) : m->carried;
  m->carried = t->index.gives ? chosen : NMB_NONE;
  if (chosen != NMB_NONE && chosen_keys(m) < cache_length(m)) {
    c = take(m, "c_chosen", chosen, c, chosen_keys(m));
    kr = take(m, "kr_chosen", chosen, kr, chosen_keys(m));
    chosen = NMB_NONE;
  }
  return mla_attend(m, q, c, kr, chosen);
}

/* One factor for each head, from the input (Laguna). */
static nmb_id
head_gate(maker *m, nmb_id x, nmb_id y)
{
  const nmb__attn *t = &m->l->attn;
  const nmb_id g = linear(m, "attn.gate", NMB__W_ATTN, x, t->heads, m->a->hidden, false,
                          act3(m, "gate", m->T, t->heads, 1));
  return op2(m, NMB_OP_MUL, y,
             pointwise(m, "softplus", g, NMB_NONE, act3(m, "gate", m->T, t->heads, 1)),
             act3(m, "attn", m->T, t->heads, t->dv));
}

/* What attention adds to the hidden state, from its normed input. */
static nmb_id
attention(maker *m, nmb_id x)
{
  const nmb__attn *t = &m->l->attn;
  const int64_t n = t->heads * t->dv;
  if (t->latent)
    return nmb__build_pooled(m, x);
  nmb_id y = t->mla    ? attn_latent(m, x)
             : t->diff ? nmb__build_difference(m, x)
                       : attn_plain(m, x);
  if (t->gate_heads)
    y = head_gate(m, x, y);
  else if (t->gate)
    y = pointwise(m, "sigmoid",
                  linear(m, "attn.gate", NMB__W_ATTN, x, n, m->a->hidden, t->bias,
                         act3(m, "gate", m->T, t->heads, t->dv)),
                  y, act3(m, "attn", m->T, t->heads, t->dv));
  if (m->l->sub_norm)
    y = norm(m, "attn.sub_norm", y, n, act3(m, "attn", m->T, t->heads, t->dv));
  const nmb_id o = linear(m, "attn.o", NMB__W_ATTN, y, m->a->hidden, t->heads * t->dv,
                          t->o_bias, act2(m, "o", m->T, m->a->hidden));
  scaled(m, o, t->out_scale * m->l->residual);
  return o;
}

/* --------------------------------------------------------------- networks */
static void
fn_attrs(maker *m, nmb_id op, const nmb__ffn *f)
{
  nmb_op_attr_set(m->p, op, NMB_SYM("fn", nmb__act_name(f->act)));
  if (f->limit > 0)
    nmb_op_attr_set(m->p, op, NMB_REAL("limit", f->limit));
  if (f->up_limit > 0)
    nmb_op_attr_set(m->p, op, NMB_REAL("up_limit", f->up_limit));
}

/* What is so many deviations above the mean of its row stays, less that. */
static nmb_id
cut(maker *m, nmb_id x, nmb_id out)
{
  const nmb_id op = op_add(m, NMB_OP_NORM, 1, &x, out);
  nmb_op_attr_set(m->p, op, NMB_SYM("kind", "cut"));
  nmb_op_attr_set(m->p, op, NMB_REAL("eps", 0));
  nmb_op_attr_set(m->p, op, NMB_REAL("deviations", m->l->sparsity));
  return out;
}

static nmb_id
network(maker *m, const char *prefix, nmb__class c, const nmb__ffn *f, nmb_id x)
{
  const int64_t H = m->a->hidden, I = f->width;
  const char *name[3] = {nmb_format(m->run, "%s.gate", prefix),
                         nmb_format(m->run, "%s.up", prefix),
                         nmb_format(m->run, "%s.down", prefix)};
  nmb_id g = f->gated
                       ? linear(m, name[0], c, x, I, H, f->bias, act2(m, "gate", m->T, I))
                       : NMB_NONE;
  if (f->gated)
    scaled(m, g, f->gate_scale);
  if (m->l->sparsity > 0)
    g = cut(m, g, act2(m, "gate", m->T, I));
  const nmb_id u = linear(m, name[1], c, x, I, H, f->bias, act2(m, "up", m->T, I));
  nmb_id y;
  if (f->act == NMB__ACT_XIELU)
    y = nmb__build_xielu(m, prefix, u, I);
  else {
    y = act2(m, "inner", m->T, I);
    fn_attrs(m, op_add(m, f->gated ? NMB_OP_GLU : NMB_OP_ACT, 2, (nmb_id[]){g, u}, y), f);
  }
  if (m->l->sub_norm)
    y = norm(m, nmb_format(m->run, "%s.sub_norm", prefix), y, I,
             act2(m, "inner", m->T, I));
  const nmb_id d = linear(m, name[2], c, y, H, I, f->bias, act2(m, "down", m->T, H));
  scaled(m, d, f->down_scale * m->l->residual);
  return d;
}

/* Gemma 4: a norm of its own, whose sum of squares is 1 but for the weight. */
static nmb_id
router_norm(maker *m, nmb_id x)
{
  const int64_t H = m->a->hidden;
  const nmb_id w = vector(m, "moe.router.scale", H), y = act2(m, "x", m->T, H);
  const nmb_id op = op_add(m, NMB_OP_NORM, 2, (nmb_id[]){x, w}, y);
  nmb_op_attr_set(m->p, op, NMB_SYM("kind", "rms"));
  nmb_op_attr_set(m->p, op, NMB_REAL("eps", m->l->eps));
  return y;
}

static nmb_id
choice(maker *m, nmb_id x, nmb_id routing, nmb_id out[2])
{
  const nmb__moe *e = &m->l->moe;
  if (e->normed)
    x = router_norm(m, x);
  nmb_id in[3] = {linear(m, "moe.router", NMB__W_ROUTER, x, e->experts, m->a->hidden,
                         e->router_bias, act2(m, "logits", m->T, e->experts))};
  int nin = 1;
  scaled(m, in[0], e->normed ? 1 / sqrt((double)m->a->hidden) : 1);
  if (e->cap > 0) {
    const nmb_id z = act2(m, "logits", m->T, e->experts);
    pointwise(m, "softcap", in[0], NMB_NONE, z);
    nmb_op_attr_set(m->p, m->p->tensor[z].def, NMB_REAL("limit", e->cap));
    in[0] = z;
  }
  if (e->hash) {
    in[nin++] = tensor(m, "ids", NMB_ROLE_INPUT, NMB_DT_I32, 0, 1, &m->T);
    in[nin++] = weight(m, "moe.table", NMB__W_HASH, 2, e->hash, e->topk, 0);
  }
  if (e->select_bias)
    in[nin++] = weight(m, "moe.select.bias", NMB__W_SELECT, 1, e->experts, 0, 0);
  if (e->normed)
    in[nin++] = vector(m, "moe.expert.scale", e->experts);
  out[0] = act2(m, "weights", m->T, e->topk);
  out[1] =
      tensor(m, "choice", NMB_ROLE_ACT, NMB_DT_I32, 0, 2, (int64_t[]){m->T, e->topk});
  nmb_op o = {.code = NMB_OP_TOPK,
              .block = m->block,
              .nin = nin,
              .nout = 2,
              .in = {in[0], in[1], in[2]},
              .out = {out[0], out[1]}};
  const nmb_id op = nmb_op_add(m->p, &o);
  nmb_op_attr_set(m->p, op, NMB_INT("routing", routing));
  nmb_op_attr_set(m->p, op, NMB_SYM("score", nmb__score_name(e->score)));
  nmb_op_attr_set(m->p, op, NMB_INT("renorm", e->renorm));
  nmb_op_attr_set(m->p, op, NMB_REAL("scale", e->scale));
  if (e->jitter > 0)
    nmb_op_attr_set(m->p, op, NMB_REAL("band", 2 * e->jitter));
  if (e->normed)
    nmb_op_attr_set(m->p, op, NMB_INT("factors", 1));
  if (e->hash)
    nmb_op_attr_set(m->p, op, NMB_INT("table", 1));
  if (e->groups > 1) {
    nmb_op_attr_set(m->p, op, NMB_INT("groups", e->groups));
    nmb_op_attr_set(m->p, op, NMB_INT("keep", e->topk_groups));
    nmb_op_attr_set(m->p, op, NMB_INT("group_top", e->group_top));
  }
  return op;
}

/* by: what the router reads */
static nmb_id
experts(maker *m, nmb_id x, nmb_id by, nmb_id routing)
{
  const nmb__moe *e = &m->l->moe;
  const int64_t H = m->a->hidden, N = e->latent ? e->latent : H, I = e->expert.width,
                E = e->experts;
  nmb_id in[9] = {x};
  choice(m, by, routing, in + 1);
  if (e->latent)
    in[0] = linear(m, "moe.latent_down", NMB__W_ROUTER, x, N, H, false,
                   act2(m, "latent", m->T, N));
  for (int i = 3; i < 9; i++)
    in[i] = NMB_NONE;
  if (e->expert.gated)
    in[3] = weight(m, "moe.gate", NMB__W_EXPERT, 3, E, I, N);
  in[4] = weight(m, "moe.up", NMB__W_EXPERT, 3, E, I, N);
  in[5] = weight(m, "moe.down", NMB__W_EXPERT, 3, E, N, I);
  if (e->expert.bias) {
    if (e->expert.gated)
      in[6] = weight(m, "moe.gate.bias", NMB__W_NORM, 2, E, I, 0);
    in[7] = weight(m, "moe.up.bias", NMB__W_NORM, 2, E, I, 0);
    in[8] = weight(m, "moe.down.bias", NMB__W_NORM, 2, E, N, 0);
  }
  nmb_id y = act2(m, "routed", m->T, N);
  const nmb_id op = op_add(m, NMB_OP_MOE, 9, in, y);
  nmb_op_attr_set(m->p, op, NMB_INT("routing", routing));
  fn_attrs(m, op, &e->expert);
  if (e->input)
    nmb_op_attr_set(m->p, op, NMB_SYM("weigh", "input"));
  if (e->latent && e->latent_norm)
    y = norm(m, "moe.latent_norm", y, N, act2(m, "routed", m->T, N));
  if (e->latent)
    y = linear(m, "moe.latent_up", NMB__W_ROUTER, y, H, N, false,
               act2(m, "routed", m->T, H));
  scaled(m, y, m->l->residual);
  return y;
}

static nmb_id
shared(maker *m, nmb_id x)
{
  const nmb__moe *e = &m->l->moe;
  const int64_t H = m->a->hidden;
  const nmb_id y = network(m, "shared", NMB__W_SHARED, &e->shared, x);
  if (!e->shared_gate)
    return y;
  const nmb_id g = pointwise(
      m, "sigmoid",
      linear(m, "shared.score", NMB__W_ROUTER, x, 1, H, false, act2(m, "share", m->T, 1)),
      NMB_NONE, act2(m, "share", m->T, 1));
  return op2(m, NMB_OP_MUL, y, g, act2(m, "shared", m->T, H));
}

static nmb_id
add(maker *m, nmb_id h, nmb_id y)
{
  return op2(m, NMB_OP_ADD, h, y, act2(m, "h", m->T, m->a->hidden));
}

nmb_id
hidden_norm(maker *m, const char *name, nmb_id x)
{
  return norm(m, name, x, m->a->hidden, act2(m, "x", m->T, m->a->hidden));
}

/* A dense network and experts side by side, each with norms of its own; the experts and
 * their router read the hidden state as it is before the layer's norm. */
static nmb_id
beside(maker *m, nmb_id x, nmb_id h, nmb_id routing)
{
  const nmb_id dense =
      hidden_norm(m, "ffn.own_norm", network(m, "ffn", NMB__W_FFN, &m->l->ffn, x));
  const nmb_id y = experts(m, hidden_norm(m, "moe.norm", h), h, routing);
  return op2(m, NMB_OP_ADD, dense, hidden_norm(m, "moe.own_norm", y),
             act2(m, "routed", m->T, m->a->hidden));
}

/* What the network adds to the hidden state h, from its normed input. */
static nmb_id
feed_forward(maker *m, nmb_id x, nmb_id h, nmb_id routing)
{
  const nmb__layer *l = m->l;
  if (nmb__is_rwkv(&l->mixer))
    return nmb__build_channels(m, x);
  if (!l->moe.experts)
    return network(m, "ffn", NMB__W_FFN, &l->ffn, x);
  if (l->beside == 1)
    return beside(m, x, h, routing);
  nmb_id y = experts(m, x, x, routing);
  if (l->beside == 3)
    y = op2(m, NMB_OP_ADD, y, network(m, "ffn", NMB__W_FFN, &l->ffn, x),
            act2(m, "routed", m->T, m->a->hidden));
  if (!l->moe.shared.width)
    return y;
  return op2(m, NMB_OP_ADD, y, shared(m, x), act2(m, "routed", m->T, m->a->hidden));
}

/* Attention, a state mixer, or both on the same input. */
static nmb_id
mixing(maker *m, nmb_id x)
{
  if (!m->l->mixer.kind)
    return attention(m, x);
  const nmb_id y =
      nmb__is_rwkv(&m->l->mixer) ? nmb__build_rwkv(m, x) : nmb__build_mixer(m, x);
  if (!m->l->attn.heads)
    return y;
  return op2(m, NMB_OP_ADD, y, attention(m, x), act2(m, "o", m->T, m->a->hidden));
}

/* skip * h + y */
static nmb_id
add_to(maker *m, nmb_id h, nmb_id y, double skip)
{
  const nmb_id out = add(m, h, y);
  scaled(m, out, skip);
  return out;
}

/* Kimi K3 (arXiv:2607.24653, section 2.2, and its published code): a sum of all that
 * the layers of a block have added, and those of all blocks before, which attention and
 * network read by weights of their own.  `in` has them side by side, the open sum last. */
static nmb_id
layer_sums(maker *m, nmb_id in, nmb_id routing)
{
  const nmb__layer *l = m->l;
  const int64_t H = m->a->hidden, n = l->res_before;
  const int64_t before = l->res_starts ? n + 1 : n; /* closed sums for the network */
  nmb_id blocks = l->res_starts ? in : split(m, in, 0, n * H, act2(m, "blocks", m->T, n * H));
  nmb_id x = nmb__build_attend(m, "attn", in, n, m->T);
  nmb_id sum = mixing(m, hidden_norm(m, "attn.norm", x));
  if (!l->res_starts)
    sum = add(m, split(m, in, n * H, H, act2(m, "h", m->T, H)), sum);
  const int64_t wide = (before + 1) * H;
  x = op2(m, NMB_OP_CONCAT, blocks, sum, act2(m, "sums", m->T, wide));
  x = nmb__build_attend(m, "ffn", x, before, m->T);
  sum = add(m, sum, feed_forward(m, hidden_norm(m, "ffn.norm", x), x, routing));
  return op2(m, NMB_OP_CONCAT, blocks, sum, act2(m, "h", m->T, wide));
}

/* DeepSeek-V4: attention and network between streams that are mixed anew for each. */
static nmb_id
layer_streams(maker *m, nmb_id in, nmb_id routing)
{
  nmb__streams s = nmb__build_gather(m, "attn", in);
  nmb_id y = mixing(m, hidden_norm(m, "attn.norm", s.x));
  in = nmb__build_spread(m, &s, in, y);
  s = nmb__build_gather(m, "ffn", in);
  y = feed_forward(m, hidden_norm(m, "ffn.norm", s.x), s.x, routing);
  return nmb__build_spread(m, &s, in, y);
}

/* Arctic: the network reads what attention has added to, experts what it read itself.  h:
 * the layer's input, sum: after attention. */
static nmb_id
beside_layer(maker *m, nmb_id h, nmb_id sum, nmb_id routing)
{
  const nmb_id x = hidden_norm(m, "ffn.norm", sum);
  sum = add(m, sum, network(m, "ffn", NMB__W_FFN, &m->l->ffn, x));
  const nmb_id y = hidden_norm(m, "moe.norm", h);
  return add(m, sum, experts(m, y, y, routing));
}

/* Norms and residual paths of a layer. */
static nmb_id
layer(maker *m, nmb_id h, nmb_id routing)
{
  const nmb__layer *l = m->l;
  const int64_t place = l->place;
  const bool sums = place == NMB__PLACE_AFTER; /* what is normed */
  const bool before = place != NMB__PLACE_POST && !sums, input = place == NMB__PLACE_INPUT;
  const bool after = place == NMB__PLACE_POST || place == NMB__PLACE_SANDWICH;
  const bool mixes = l->attn.heads > 0 || l->mixer.kind;
  if (!mixes)
    return add(m, h, feed_forward(m, hidden_norm(m, "ffn.norm", h), h, routing));
  nmb_id x = before ? hidden_norm(m, "attn.norm", h) : h;
  nmb_id y = mixing(m, x);
  if (place == NMB__PLACE_PARALLEL || place == NMB__PLACE_PARALLEL2) {
    const nmb_id x2 = place == NMB__PLACE_PARALLEL ? x : hidden_norm(m, "ffn.norm", h);
    return add(m, add(m, h, y), feed_forward(m, x2, h, routing));
  }
  if (after)
    y = hidden_norm(m, "attn.post_norm", y);
  if (l->beside == 2)
    return beside_layer(m, h, add_to(m, h, y, l->skip), routing);
  h = add_to(m, input ? x : h, y, l->skip);
  if (sums)
    h = hidden_norm(m, "attn.post_norm", h);
  if (!l->ffn.width && !l->moe.experts)
    return h;
  x = before ? hidden_norm(m, "ffn.norm", h) : h;
  y = feed_forward(m, x, h, routing);
  if (after)
    y = hidden_norm(m, "ffn.post_norm", y);
  h = add_to(m, input ? x : h, y, l->ffn_skip);
  return sums ? hidden_norm(m, "ffn.post_norm", h) : h;
}

static nmb_id
dense(maker *m, nmb_id x)
{
  return feed_forward(m, x, NMB_NONE, NMB_NONE);
}

static nmb_id
plain(maker *m, nmb_id h)
{
  return layer(m, h, NMB_NONE);
}

/* ----------------------------------------------------------------- blocks */
static nmb_status
routing_add(maker *m, const nmb__routing_spec *spec, int number, nmb_id *out)
{
  const nmb__moe *e = &m->l->moe;
  nmb__routing_spec s = *spec;
  s.seed += (uint64_t)number; /* blocks do not share their draw */
  int32_t *expert = NMB_NEW(m->run, int32_t, m->T * e->topk);
  NMB_TRY(nmb__routing_draw(m->run, &s, (int)e->experts, (int)e->topk, m->T, expert));
  const char *name = !strcmp(s.kind, "zipf")
                         ? nmb_format(m->run, "zipf%g-%" PRIu64, s.skew, s.seed)
                         : nmb_format(m->run, "%s-%" PRIu64, s.kind, s.seed);
  *out = nmb_routing_add(m->p, name, (int)e->experts, (int)e->topk, m->T, expert);
  return NMB_OK;
}

static const char *
block_name(const nmb__layer *l)
{
  if (l->mixer.kind) {
    static const char *const names[][3] = {{"mixer", "mixer-dense", "mixer-moe"},
                                           {"hybrid", "hybrid-dense", "hybrid-moe"}};
    return names[l->attn.heads > 0][l->moe.experts ? 2 : l->ffn.width > 0];
  }
  if (!l->attn.heads)
    return l->moe.experts ? "experts" : "ffn";
  if (!l->ffn.width && !l->moe.experts)
    return "attention";
  if (l->attn.window || l->attn.chunk)
    return l->moe.experts ? "moe-window" : "dense-window";
  return l->moe.experts ? "moe" : "dense";
}

/* Two distinct blocks of one name get a number. */
static const char *
block_unique(maker *m, const char *name)
{
  const char *s = name;
  int n = 1;
  for (int i = 0; i < m->p->nblock; i++)
    if (!strcmp(m->p->block[i].name, s)) {
      s = nmb_format(m->run, "%s%d", name, ++n);
      i = -1;
    }
  return s;
}

static void
block_begin(maker *m, const char *name)
{
  m->block = nmb_block_add(m->p, block_unique(m, name));
  m->pos = m->factors = NMB_NONE;
}

/* RWKV-7: the first layer's values go to all others. */
static bool
carries(const nmb__arch *a)
{
  return a->nlayer > 1 && a->layer[0].mixer.first;
}

/* Columns beside the hidden state of what the layer takes from the one before. */
static int64_t
taken(const maker *m)
{
  const nmb__index *x = &m->l->attn.index;
  return carries(m->a)           ? m->a->hidden
         : x->heads && !x->own ? cache_length(m)
                               : 0;
}

/* The hidden state, and beside it what goes on with it. */
static nmb_id
joined(maker *m, nmb_id h, nmb_id beside)
{
  if (beside == NMB_NONE)
    return h;
  const int64_t n = nmb_tensor_count(&m->p->tensor[beside]) / m->T;
  return op2(m, NMB_OP_CONCAT, h, beside, act2(m, "h", m->T, m->a->hidden + n));
}

static void
block_embed(maker *m)
{
  const nmb__arch *a = m->a;
  m->l = &a->layer[0];
  block_begin(m, "embed");
  const nmb_id ids = tensor(m, "ids", NMB_ROLE_INPUT, NMB_DT_I32, 0, 1, &m->T);
  const nmb_id table = tensor(m, "embed.table", NMB_ROLE_WEIGHT, a->embed.dtype,
                              a->embed.group, 2, (int64_t[]){a->vocab, a->embed_width});
  nmb_id h = op2(m, NMB_OP_EMBED, ids, table, act2(m, "h", m->T, a->embed_width));
  scaled(m, h, a->embed_scale);
  if (a->embed_width != a->hidden)
    h = linear(m, "embed.in", NMB__W_STREAM, h, a->hidden, a->embed_width, false,
               act2(m, "h", m->T, a->hidden));
  if (a->positions) {
    m->pos = tensor(m, "pos", NMB_ROLE_INPUT, NMB_DT_I32, 0, 1, &m->T);
    const nmb_id rows = tensor(m, a->waves ? "embed.waves" : "embed.positions",
                               NMB_ROLE_WEIGHT, a->position.dtype, a->position.group, 2,
                               (int64_t[]){a->positions, a->hidden});
    const nmb_id p = op2(m, NMB_OP_EMBED, m->pos, rows, act2(m, "p", m->T, a->hidden));
    if (a->position_first)
      nmb_op_attr_set(m->p, m->p->tensor[p].def, NMB_INT("offset", a->position_first));
    h = add(m, h, p);
  }
  if (a->embed_norm)
    h = hidden_norm(m, "embed.norm", h);
  if (m->l->altup || m->l->ple)
    h = nmb__altup_spread(m, h);
  if (carries(a)) /* the first layer's values come to stand there */
    h = joined(m, h, h);
  if (m->l->hyper)
    h = nmb__build_copies(m, h);
  nmb_block_ends(m->p, m->block, NMB_NONE, h);
}

static nmb_status
block_layer(maker *m, int number, const nmb__routing_spec *spec)
{
  nmb_id routing = NMB_NONE;
  m->l = &m->a->layer[m->a->first[number]];
  block_begin(m, block_name(m->l));
  if (m->l->moe.experts)
    NMB_TRY(routing_add(m, spec, number, &routing));
  const int64_t H = m->a->hidden, beside = taken(m);
  const nmb__mixer *t = &m->l->mixer;
  if (m->l->hyper) {
    const nmb_id all = act2(m, "h", m->T, m->l->hyper * H);
    nmb_block_ends(m->p, m->block, all, layer_streams(m, all, routing));
    return NMB_OK;
  }
  if (m->l->res_block) {
    const nmb_id sums = act2(m, "h", m->T, (m->l->res_before + 1) * H);
    nmb_block_ends(m->p, m->block, sums, layer_sums(m, sums, routing));
    return NMB_OK;
  }
  if (m->l->altup || m->l->ple) {
    const nmb_id wide = act2(m, "h", m->T, nmb__altup_width(m));
    nmb_block_ends(m->p, m->block, wide,
                   m->l->altup ? nmb__altup_layer(m, wide, mixing, dense)
                               : nmb__altup_plain(m, wide, plain));
    return NMB_OK;
  }
  const nmb_id in = act2(m, "h", m->T, H + beside);
  nmb_id h = beside ? split(m, in, 0, H, act2(m, "h", m->T, H)) : in;
  m->carried = NMB_NONE;
  if (beside && !t->first)
    m->carried = split(m, in, H, beside,
                       nmb__is_rwkv(t) ? act3(m, "carried", m->T, t->heads, t->dv)
                                       : act2(m, "carried", m->T, beside));
  h = layer(m, h, routing);
  if (m->l->scalar)
    h = op2(m, NMB_OP_MUL, h, vector(m, "layer.scalar", 1), act2(m, "h", m->T, H));
  if (t->first && !carries(m->a))
    m->carried = NMB_NONE;
  nmb_block_ends(m->p, m->block, in, joined(m, h, m->carried));
  return NMB_OK;
}

/* The head of a tied model reads the embedding table; in the graph it has a copy,
 * named so that those who count parameters can leave it out. */
static void
block_head(maker *m)
{
  const nmb__arch *a = m->a;
  m->l = &a->layer[a->nlayer - 1];
  block_begin(m, "head");
  const int64_t sums = m->l->res_block ? m->l->res_before + m->l->res_starts : 0;
  const bool streams = m->l->altup || m->l->ple;
  const int64_t beside = m->l->hyper ? m->l->hyper : carries(a) ? 2 : sums + 1;
  const int64_t width = streams ? nmb__altup_width(m) : a->hidden * beside;
  const nmb_id in = act2(m, "h", m->T, width);
  nmb_id last = op1(m, NMB_OP_SELECT, in, act2(m, "last", m->batch, width));
  if (carries(a))
    last = split(m, last, 0, a->hidden, act2(m, "last", m->batch, a->hidden));
  if (streams)
    last = nmb__altup_join(m, last);
  if (m->l->hyper)
    last = nmb__build_join(m, last);
  if (sums)
    last = nmb__build_attend(m, "head", last, sums, m->batch);
  nmb_id x = last;
  if (!a->final_norm_off)
    x = norm(m, "head.norm", last, a->hidden, act2(m, "x", m->batch, a->hidden));
  if (a->embed_width != a->hidden)
    x = linear(m, "head.in", NMB__W_STREAM, x, a->embed_width, a->hidden, false,
               act2(m, "x", m->batch, a->embed_width));
  const nmb_id w =
      tensor(m, a->tied ? "head.tied" : "head.out", NMB_ROLE_WEIGHT, a->head.dtype,
             a->head.group, 2, (int64_t[]){a->vocab, a->embed_width});
  const nmb_id bias = a->head_bias ? vector(m, "head.bias", a->vocab) : NMB_NONE;
  const nmb_id y = act2(m, "logits", m->batch, a->vocab);
  op_add(m, NMB_OP_LINEAR, 3, (nmb_id[]){x, w, bias}, y);
  scaled(m, y, a->logit_scale);
  if (a->logit_cap > 0) {
    const nmb_id op = op_add(m, NMB_OP_ACT, 1, &y, act2(m, "logits", m->batch, a->vocab));
    nmb_op_attr_set(m->p, op, NMB_SYM("fn", "softcap"));
    nmb_op_attr_set(m->p, op, NMB_REAL("limit", a->logit_cap));
  }
  nmb_block_ends(m->p, m->block, in, NMB_NONE);
}

nmb_status
nmb__step_check(nmb_run *run, const nmb__arch *a, nmb_step_spec s)
{
  const int64_t most = INT64_C(1) << 24;
  if (s.batch < 1 || s.batch > most || s.fresh < 1 || s.fresh > most || s.context < 0 ||
      s.context > most || s.batch * s.fresh > most)
    return nmb_fail(run, NMB_BADINPUT, NMB_NOLOC,
                    "a step of %" PRId64 " sequences with %" PRId64
                    " new tokens after %" PRId64 ", expected 1 to %" PRId64
                    " new tokens in all and as many before",
                    s.batch, s.fresh, s.context, most);
  for (int i = 0; i < a->ndistinct; i++) {
    const nmb__attn *t = &a->layer[a->first[i]].attn;
    const double pairs = (double)(s.batch * s.fresh) * (double)(s.context + s.fresh) *
                         (double)t->heads * (double)(t->dk + t->dv);
    if (pairs > 0x1p59)
      return nmb_fail(
          run, NMB_BADINPUT, NMB_NOLOC,
          "a step with %.3g multiplications in attention, expected at most %.3g", pairs,
          0x1p59);
  }
  return NMB_OK;
}

/* What the graph has no ops for. */
static nmb_status
refuse(nmb_run *run, const nmb__arch *a)
{
  if (a->no_graph && *a->no_graph)
    return nmb_fail(run, NMB_UNSUPPORTED, NMB_NOLOC,
                    "model '%s' needs %s, which the graph does not have; its parameters "
                    "and caches are counted", a->name, a->no_graph);
  for (int i = 0; i < a->ndistinct; i++) {
    const nmb__layer *l = &a->layer[a->first[i]];
    const char *what = l->attn.index.value ? "an indexer with values"
                       : l->attn.index.block && l->attn.kv_heads % l->attn.index.heads
                           ? "an indexer with more heads than there are KV heads"
                       : l->attn.index.heads && !l->attn.index.block && !l->attn.mla &&
                               !l->attn.latent
                           ? "an indexer without latent attention"
                       : l->ffn.act == NMB__ACT_XIELU && l->ffn.gated ? "a gated xIELU"
                       : l->moe.experts && l->moe.expert.act == NMB__ACT_XIELU ? "experts with xIELU"
                       : l->moe.zero ? "experts that stand for no work"
                       : l->attn.diff && l->attn.heads / l->attn.kv_heads * (l->attn.kv_heads / 2) * 2 != l->attn.heads
                           ? "the difference of two attentions over an odd number of KV heads"
                       : (l->altup || l->ple) && l->moe.experts
                           ? "experts beside embeddings of a layer"
                       : l->laurel && !l->altup ? "a learned residual without streams"
                                             : NULL;
    if (what)
      return nmb_fail(run, NMB_UNSUPPORTED, NMB_NOLOC,
                      "model '%s' needs %s, which the graph does not have", a->name,
                      what);
  }
  return NMB_OK;
}

const nmb__arch *
nmb__arch_apart(nmb_run *run, const nmb__arch *a)
{
  nmb__arch *out = NMB_NEW(run, nmb__arch, 1);
  int *distinct = NMB_NEW(run, int, a->nlayer), *first = NMB_NEW(run, int, a->nlayer);
  int *known = NMB_NEW(run, int, a->ndistinct);
  *out = *a;
  out->ndistinct = 0;
  out->distinct = distinct;
  out->first = first;
  for (int i = 0; i < a->nlayer; i++) {
    int *k = &known[a->distinct[i]];
    if (a->layer[i].moe.experts || *k == 0) {
      first[out->ndistinct] = i;
      *k = ++out->ndistinct;
    }
    distinct[i] = *k - 1;
  }
  return out;
}

nmb_status
nmb__graph_build(nmb_run *run, const nmb__arch *a, nmb_step_spec spec,
                 const nmb__routing_spec *routing, nmb_prog **out)
{
  NMB_TRY(nmb__step_check(run, a, spec));
  NMB_TRY(refuse(run, a));
  maker m = {.run = run, .a = a, .batch = spec.batch, .fresh = spec.fresh};
  m.T = spec.batch * spec.fresh;
  m.p = nmb_prog_new(a->name, spec);
  block_embed(&m);
  const nmb_id layer0 = m.block + 1;
  nmb_status s = NMB_OK;
  for (int i = 0; s == NMB_OK && i < a->ndistinct; i++)
    s = block_layer(&m, i, routing);
  if (s != NMB_OK) {
    nmb_prog_free(m.p);
    return s;
  }
  block_head(&m);
  nmb_order_add(m.p, 0, 1);
  for (int i = 0; i < a->nlayer; i++)
    nmb_order_add(m.p, layer0 + a->distinct[i], 1);
  nmb_order_add(m.p, m.block, 1);
  *out = m.p;
  return NMB_OK;
}
