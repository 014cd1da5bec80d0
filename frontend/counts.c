/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Counts by arithmetic. */
#include "frontend/counts.h"

#include <string.h>

static const char *const part_names[] = {
#define X(id, name) name,
    NMB__PART_MAP(X)
#undef X
};

const char *
nmb__part_name(nmb__part p)
{
  return part_names[p];
}

/* ----------------------------------------------------------------- pieces */
enum { MAXPIECE = 96 };

typedef struct list {
  nmb_run *run;
  const nmb__arch *a;
  const nmb__layer *l;
  nmb__piece *v;
  int n;
} list;

static void
add(list *s, const char *name, nmb__part part, nmb__use use, nmb__class c, int64_t rows,
    int64_t cols, int64_t copies)
{
  s->v[s->n++] = (nmb__piece){name,
                              part,
                              use,
                              rows,
                              cols,
                              copies,
                              nmb__stored_format(s->a, s->l, c, name),
                              nmb__scheme_of(s->a, s->l, name)};
}

static void
matrix(list *s, const char *name, nmb__part part, nmb__class c, int64_t rows,
       int64_t cols, int64_t bias)
{
  add(s, name, part, NMB__USE_TOKEN, c, rows, cols, 1);
  if (bias)
    add(s, nmb_format(s->run, "%s.bias", name), part, NMB__USE_VECTOR, NMB__W_NORM, rows,
        1, 1);
}

static void
vector(list *s, const char *name, nmb__part part, int64_t n)
{
  add(s, name, part, NMB__USE_VECTOR, NMB__W_NORM, n, 1, 1);
}

static void
norm(list *s, const char *name, nmb__part part, int64_t n)
{
  if (s->l->norm == NMB__NORM_NONE || s->l->norm == NMB__NORM_LAYER_UNIT ||
      s->l->norm == NMB__NORM_RMS_UNIT)
    return;
  add(s, name, part, NMB__USE_VECTOR, NMB__W_NORM, n, 1, 1);
  if (s->l->norm == NMB__NORM_LAYER)
    add(s, nmb_format(s->run, "%s.bias", name), part, NMB__USE_VECTOR, NMB__W_NORM, n, 1,
        1);
}

/* The indexer of DeepSeek-V3.2: queries from the latent query, one key per position
 * with a layer norm, a weight per head.  MiniMax-M3: all from the hidden state. */
static void
pieces_index(list *s, int64_t H)
{
  const nmb__index *x = &s->l->attn.index;
  const nmb__part P = NMB__P_ATTN;
  const int64_t d = x->width, n = x->heads * d;
  if (!x->heads || !x->own || s->l->attn.latent)
    return;
  matrix(s, "index.q", P, NMB__W_INDEX, n, x->block ? H : s->l->attn.q_rank, 0);
  matrix(s, "index.k", P, NMB__W_INDEX, d, H, 0);
  if (x->block) {
    norm(s, "index.q_norm", P, d);
    norm(s, "index.k_norm", P, d);
    if (x->value) {
      matrix(s, "index.v", P, NMB__W_INDEX, d, H, 0);
      matrix(s, "index.o", P, NMB__W_INDEX, H, n, 0);
    }
    return;
  }
  vector(s, "index.k_norm", P, d);
  vector(s, "index.k_norm.bias", P, d);
  matrix(s, "index.w", P, NMB__W_ROUTER, x->heads, H, 0);
}

/* Pools `compress` positions into one of width d; fine pools overlap, so that their
 * projections have two halves. */
static void
pieces_pool(list *s, const char *prefix, int64_t d, int64_t H)
{
  const nmb__attn *t = &s->l->attn;
  const nmb__part P = NMB__P_ATTN;
  const int64_t n = t->index.heads ? 2 * d : d;
  matrix(s, nmb_format(s->run, "%s.kv", prefix), P, NMB__W_POOL, n, H, 0);
  matrix(s, nmb_format(s->run, "%s.gate", prefix), P, NMB__W_POOL, n, H, 0);
  add(s, nmb_format(s->run, "%s.position", prefix), P, NMB__USE_POOL, NMB__W_STREAM,
      t->compress, n, 1);
  add(s, nmb_format(s->run, "%s.norm", prefix), P, NMB__USE_POOL, NMB__W_NORM, d, 1, 1);
}

/* DeepSeek-V4 (published code): one key of all heads that is the value, too. */
static void
pieces_latent(list *s, int64_t H)
{
  const nmb__attn *t = &s->l->attn;
  const nmb__part P = NMB__P_ATTN;
  const int64_t n = t->heads * t->dk;
  matrix(s, "attn.q_down", P, NMB__W_MLA_DOWN, t->q_rank, H, 0);
  norm(s, "attn.q_down_norm", P, t->q_rank);
  matrix(s, "attn.q_up", P, NMB__W_ATTN, n, t->q_rank, 0);
  matrix(s, "attn.kv", P, NMB__W_MLA_DOWN, t->dk, H, 0);
  norm(s, "attn.kv_norm", P, t->dk);
  if (t->sink)
    add(s, "attn.sink", P, NMB__USE_VECTOR, NMB__W_STREAM, t->heads, 1, 1);
  if (t->compress)
    pieces_pool(s, "pool", t->dk, H);
  if (t->index.heads) {
    pieces_pool(s, "index.pool", t->index.width, H);
    matrix(s, "index.q", P, NMB__W_INDEX, t->index.heads * t->index.width, t->q_rank, 0);
    matrix(s, "index.w", P, NMB__W_ROUTER, t->index.heads, H, 0);
  }
  add(s, "attn.o_down", P, NMB__USE_GROUP, NMB__W_ATTN, t->o_rank, n / t->o_groups,
      t->o_groups);
  matrix(s, "attn.o", P, NMB__W_ATTN, H, t->o_groups * t->o_rank, 0);
}

/* Weights that mix n streams of hyper-connections. */
static void
pieces_hyper(list *s, const char *prefix, int64_t n, int64_t H)
{
  const int64_t rows = (2 + n) * n;
  matrix(s, nmb_format(s->run, "%s.hyper", prefix), NMB__P_NORM, NMB__W_STREAM, rows,
         n * H, 0);
  static const char *const part[] = {"pre", "post", "comb"};
  for (int i = 0; i < 3; i++) {
    add(s, nmb_format(s->run, "%s.hyper.base.%s", prefix, part[i]), NMB__P_NORM,
        NMB__USE_VECTOR, NMB__W_STREAM, i < 2 ? n : n * n, 1, 1);
    add(s, nmb_format(s->run, "%s.hyper.scale.%s", prefix, part[i]), NMB__P_NORM,
        NMB__USE_VECTOR, NMB__W_STREAM, 1, 1, 1);
  }
}

/* Gemma 3n's streams and learned residual; embeddings of the layer's own. */
static void
pieces_streams(list *s, int64_t H)
{
  const nmb__layer *l = s->l;
  const nmb__part P = NMB__P_NORM;
  if (l->altup) {
    const int64_t n = l->altup;
    norm(s, "altup.norm", P, H);
    add(s, "altup.router", P, NMB__USE_TWICE, NMB__W_STREAM, n, H, 1);
    matrix(s, "altup.predict", P, NMB__W_STREAM, n * n, n, 0);
    matrix(s, "altup.correct", P, NMB__W_STREAM, n, n, 0);
    add(s, "altup.scale", P, l->altup_scale && l->ple ? NMB__USE_VECTOR : NMB__USE_IDLE,
        NMB__W_NORM, H, 1, 1);
  }
  if (l->laurel) {
    matrix(s, "laurel.left", P, NMB__W_STREAM, l->laurel, H, 0);
    matrix(s, "laurel.right", P, NMB__W_STREAM, H, l->laurel, 0);
    norm(s, "laurel.norm", P, H);
  }
  if (l->ple) {
    add(s, "ple.table", NMB__P_EMBED, NMB__USE_LOOKUP, NMB__W_NORM, l->ple_rows, l->ple,
        1);
    matrix(s, "ple.model", NMB__P_EMBED, NMB__W_STREAM, l->ple, H, 0);
    matrix(s, "ple.gate", P, NMB__W_STREAM, l->ple, H, 0);
    matrix(s, "ple.up", P, NMB__W_STREAM, H, l->ple, 0);
    norm(s, "ple.post_norm", P, H);
    add(s, "ple.norm", P, NMB__USE_BORROWED, NMB__W_NORM, l->ple, 1, 1);
  }
  if (l->scalar)
    vector(s, "layer.scalar", P, 1);
}

static void
pieces_mla(list *s, int64_t H)
{
  const nmb__attn *t = &s->l->attn;
  const nmb__part P = NMB__P_ATTN;
  if (t->q_rank) {
    matrix(s, "attn.q_down", P, NMB__W_MLA_DOWN, t->q_rank, H, t->bias);
    norm(s, "attn.q_down_norm", P, t->q_rank);
    matrix(s, "attn.q_up", P, NMB__W_ATTN, t->heads * (t->d_nope + t->d_rope), t->q_rank,
           0);
  } else
    matrix(s, "attn.q", P, NMB__W_ATTN, t->heads * (t->d_nope + t->d_rope), H, 0);
  matrix(s, "attn.kv_down", P, NMB__W_MLA_DOWN, t->kv_rank + t->d_rope, H, t->bias);
  norm(s, "attn.kv_norm", P, t->kv_rank);
  add(s, "attn.k_up", P, NMB__USE_CACHE, NMB__W_ATTN, t->heads * t->d_nope, t->kv_rank,
      1);
  add(s, "attn.v_up", P, NMB__USE_CACHE, NMB__W_ATTN, t->heads * t->dv, t->kv_rank, 1);
}

static void
pieces_heads(list *s, int64_t H)
{
  const nmb__attn *t = &s->l->attn;
  const nmb__part P = NMB__P_ATTN;
  const bool own = !t->kv_from || s->a->kv_shared_weights;
  const bool head = t->qk_norm == NMB__QKNORM_HEAD;
  if (t->q_rank) { /* Step-3, arXiv:2507.19427 */
    matrix(s, "attn.q_down", P, NMB__W_MLA_DOWN, t->q_rank, H, t->bias);
    norm(s, "attn.q_down_norm", P, t->q_rank);
    matrix(s, "attn.q_up", P, NMB__W_ATTN, t->heads * t->dk, t->q_rank, 0);
  } else
    matrix(s, "attn.q", P, NMB__W_ATTN, t->heads * t->dk, H, t->bias);
  int i = s->n;
  if (own)
    matrix(s, "attn.k", P, NMB__W_ATTN, t->kv_heads * t->dk, H, t->bias);
  if (own && !t->k_eq_v)
    matrix(s, "attn.v", P, NMB__W_ATTN, t->kv_heads * t->dv, H, t->bias);
  if (own && head)
    norm(s, "attn.k_norm", P, t->dk);
  for (; t->kv_from && i < s->n; i++) /* of another layer's caches: not used */
    s->v[i].use = NMB__USE_IDLE;
  if (head) {
    norm(s, "attn.q_norm", P, t->dk);
  } else if (t->qk_norm == NMB__QKNORM_EACH) {
    vector(s, "attn.q_norm", P, t->heads * t->dk);
    vector(s, "attn.k_norm", P, t->kv_heads * t->dk);
  } else if (t->qk_norm == NMB__QKNORM_FULL) {
    norm(s, "attn.q_norm", P, t->heads * t->dk);
    norm(s, "attn.k_norm", P, t->kv_heads * t->dk);
  }
  if (t->sink)
    add(s, "attn.sink", P, NMB__USE_VECTOR, NMB__W_NORM, t->heads, 1, 1);
}

static void
pieces_ffn(list *s, const char *prefix, nmb__part part, nmb__class c, const nmb__ffn *f,
           int64_t H)
{
  if (f->gated)
    matrix(s, nmb_format(s->run, "%s.gate", prefix), part, c, f->width, H, f->bias);
  matrix(s, nmb_format(s->run, "%s.up", prefix), part, c, f->width, H, f->bias);
  if (s->l->sub_norm)
    norm(s, nmb_format(s->run, "%s.sub_norm", prefix), NMB__P_NORM, f->width);
  if (f->act == NMB__ACT_XIELU) {
    vector(s, nmb_format(s->run, "%s.alpha_p", prefix), part, 1);
    vector(s, nmb_format(s->run, "%s.alpha_n", prefix), part, 1);
  }
  matrix(s, nmb_format(s->run, "%s.down", prefix), part, c, H, f->width, f->bias);
}

static void
pieces_moe(list *s, int64_t H)
{
  const nmb__moe *m = &s->l->moe;
  const int64_t I = m->expert.width, E = m->experts, N = m->latent ? m->latent : H;
  const nmb__part P = NMB__P_EXPERTS;
  matrix(s, "moe.router", NMB__P_ROUTER, NMB__W_ROUTER, E + m->zero, H, m->router_bias);
  if (m->normed) {
    vector(s, "moe.router.scale", NMB__P_ROUTER, H);
    vector(s, "moe.expert.scale", NMB__P_ROUTER, E);
  }
  if (m->hash) { /* the file has 64 bits for each, as torch's whole numbers are */
    static const nmb__scheme wide = {.dtype = NMB_DT_I32, .bits = 64};
    add(s, "moe.table", NMB__P_ROUTER, NMB__USE_LOOKUP, NMB__W_HASH, m->hash, m->topk, 1);
    s->v[s->n - 1].scheme = &wide;
  }
  if (m->select_bias)
    add(s, "moe.select.bias", NMB__P_ROUTER, NMB__USE_VECTOR, NMB__W_SELECT, E + m->zero, 1,
        1);
  if (m->latent) {
    matrix(s, "moe.latent_down", P, NMB__W_ROUTER, N, H, 0);
    if (m->latent_norm)
      norm(s, "moe.latent_norm", P, N);
    matrix(s, "moe.latent_up", P, NMB__W_ROUTER, H, N, 0);
  }
  if (m->expert.gated)
    add(s, "moe.gate", P, NMB__USE_ROUTED, NMB__W_EXPERT, I, N, E);
  add(s, "moe.up", P, NMB__USE_ROUTED, NMB__W_EXPERT, I, N, E);
  add(s, "moe.down", P, NMB__USE_ROUTED, NMB__W_EXPERT, N, I, E);
  if (m->expert.bias) {
    if (m->expert.gated)
      add(s, "moe.gate.bias", P, NMB__USE_ROUTED_VECTOR, NMB__W_NORM, I, 1, E);
    add(s, "moe.up.bias", P, NMB__USE_ROUTED_VECTOR, NMB__W_NORM, I, 1, E);
    add(s, "moe.down.bias", P, NMB__USE_ROUTED_VECTOR, NMB__W_NORM, N, 1, E);
  }
  if (m->shared.width && m->shared_gate)
    matrix(s, "shared.score", NMB__P_SHARED, NMB__W_ROUTER, 1, H, 0);
  if (m->shared.width)
    pieces_ffn(s, "shared", NMB__P_SHARED, NMB__W_SHARED, &m->shared, H);
}

static void
mixer_piece(void *to, const char *name, nmb__use use, nmb__class c, int64_t rows,
            int64_t cols)
{
  add(to, name, NMB__P_MIXER, use, c, rows, cols, 1);
}

static void
channel_piece(void *to, const char *name, nmb__use use, nmb__class c, int64_t rows,
              int64_t cols)
{
  add(to, name, NMB__P_FFN, use, c, rows, cols, 1);
}

/* Four vectors of which the loader makes one number. */
static void
pieces_lambda(list *s, int64_t d)
{
  static const char *const parts[] = {"q1", "k1", "q2", "k2"};
  add(s, "attn.lambda", NMB__P_ATTN, NMB__USE_CONSTANT, NMB__W_SELECT, 1, 1, 1);
  for (int i = 0; i < 4; i++)
    add(s, nmb_format(s->run, "attn.lambda_%s", parts[i]), NMB__P_ATTN, NMB__USE_IDLE,
        NMB__W_NORM, d, 1, 1);
}

static void
pieces_attention(list *s, int64_t H)
{
  const nmb__attn *t = &s->l->attn;
  const int64_t n = t->heads * t->dv;
  if (!t->heads)
    return;
  if (t->latent)
    pieces_latent(s, H);
  else if (t->mla)
    pieces_mla(s, H);
  else
    pieces_heads(s, H);
  pieces_index(s, H);
  if (t->gate)
    matrix(s, "attn.gate", NMB__P_ATTN, NMB__W_ATTN, t->gate_heads ? t->heads : n, H,
           t->bias && !t->gate_heads);
  if (t->diff)
    pieces_lambda(s, t->dk);
  if (s->l->sub_norm)
    norm(s, "attn.sub_norm", NMB__P_NORM, n);
  if (!t->latent)
    matrix(s, "attn.o", NMB__P_ATTN, NMB__W_ATTN, H, n, t->o_bias);
}

/* A query for the sums of blocks of layers, and the norm of these. */
static void
pieces_residuals(list *s, const char *prefix, nmb__part part, int64_t H, nmb__use use)
{
  add(s, nmb_format(s->run, "%s.residuals.norm", prefix), part, use, NMB__W_NORM, H, 1, 1);
  add(s, nmb_format(s->run, "%s.residuals.query", prefix), part, use, NMB__W_STREAM, H, 1,
      1);
}

static void
pieces_layer(list *s, int64_t H)
{
  const nmb__layer *l = s->l;
  const int64_t place = l->place;
  const bool after = place == NMB__PLACE_POST || place == NMB__PLACE_SANDWICH ||
                     place == NMB__PLACE_AFTER;
  const bool before = place != NMB__PLACE_POST && place != NMB__PLACE_AFTER;
  const bool mixes = l->attn.heads || l->mixer.kind;
  if (mixes && before)
    norm(s, "attn.norm", NMB__P_NORM, H);
  if (mixes && after)
    norm(s, "attn.post_norm", NMB__P_NORM, H);
  if (l->res_block) {
    /* the first layer has them, but no sums to weigh */
    pieces_residuals(s, "attn", NMB__P_NORM, H,
                     l->res_before ? NMB__USE_VECTOR : NMB__USE_IDLE);
    pieces_residuals(s, "ffn", NMB__P_NORM, H, NMB__USE_VECTOR);
  }
  if (l->hyper) {
    pieces_hyper(s, "attn", l->hyper, H);
    pieces_hyper(s, "ffn", l->hyper, H);
  }
  if (l->mixer.kind)
    nmb__mixer_pieces(s->run, &l->mixer, H, mixer_piece, s);
  if (nmb__is_rwkv(&l->mixer))
    nmb__channel_pieces(s->run, &l->mixer, H, channel_piece, s);
  pieces_attention(s, H);
  if (!l->ffn.width && !l->moe.experts)
    return;
  if (before && place != NMB__PLACE_PARALLEL)
    norm(s, "ffn.norm", NMB__P_NORM, H);
  if (after)
    norm(s, "ffn.post_norm", NMB__P_NORM, H);
  if (l->moe.experts)
    pieces_moe(s, H);
  if (s->l->beside == 2)
    norm(s, "moe.norm", NMB__P_NORM, H);
  if (s->l->beside == 1) { /* each part has norms of its own around it */
    norm(s, "ffn.own_norm", NMB__P_NORM, H);
    norm(s, "moe.norm", NMB__P_NORM, H);
    norm(s, "moe.own_norm", NMB__P_NORM, H);
  }
  if (!s->l->moe.experts || s->l->beside)
    pieces_ffn(s, "ffn", NMB__P_FFN, NMB__W_FFN, &s->l->ffn, H);
  pieces_streams(s, H);
}

/* Streams that are spread after the embedding and joined before the head. */
static void
pieces_ends(list *s, const nmb__arch *a)
{
  const int64_t H = a->hidden, n = s->l->hyper;
  for (int64_t i = 1; i < s->l->altup; i++) {
    add(s, nmb_format(s->run, "embed.stream%d", (int)i), NMB__P_EMBED, NMB__USE_TOKEN,
        NMB__W_STREAM, H, H, 1);
    add(s, nmb_format(s->run, "head.stream%d", (int)i), NMB__P_HEAD, NMB__USE_LAST,
        NMB__W_STREAM, H, H, 1);
  }
  if (s->l->ple)
    add(s, "ple.norm", NMB__P_EMBED, NMB__USE_LENT, NMB__W_NORM, s->l->ple, 1, 1);
  if (s->l->res_block)
    pieces_residuals(s, "head", NMB__P_HEAD, H, NMB__USE_VECTOR);
  if (!n)
    return;
  add(s, "head.hyper", NMB__P_HEAD, NMB__USE_LAST, NMB__W_STREAM, n, n * H, 1);
  add(s, "head.hyper.base", NMB__P_HEAD, NMB__USE_VECTOR, NMB__W_STREAM, n, 1, 1);
  add(s, "head.hyper.scale", NMB__P_HEAD, NMB__USE_VECTOR, NMB__W_STREAM, 1, 1, 1);
}

int
nmb__pieces(nmb_run *run, const nmb__arch *a, int distinct, const nmb__piece **out)
{
  const int layer = distinct == NMB_NONE ? (int)a->nlayer - 1 : a->first[distinct];
  list s = {run, a, &a->layer[layer], NMB_NEW(run, nmb__piece, MAXPIECE), 0};
  *out = s.v;
  if (distinct != NMB_NONE) {
    pieces_layer(&s, a->hidden);
    return s.n;
  }
  s.v[s.n++] = (nmb__piece){
      "embed.table",  NMB__P_EMBED, NMB__USE_LOOKUP, a->vocab,
      a->embed_width, 1,            a->embed,        NULL};
  if (a->embed_width != a->hidden) {
    matrix(&s, "embed.in", NMB__P_EMBED, NMB__W_STREAM, a->hidden, a->embed_width, 0);
    add(&s, "head.in", NMB__P_HEAD, NMB__USE_LAST, NMB__W_STREAM, a->embed_width,
        a->hidden, 1);
  }
  if (a->positions)
    s.v[s.n++] = (nmb__piece){a->waves ? "embed.waves" : "embed.positions",
                              NMB__P_EMBED,
                              a->waves ? NMB__USE_WAVES : NMB__USE_LOOKUP,
                              a->positions,
                              a->hidden,
                              1,
                              a->position,
                              NULL};
  pieces_ends(&s, a);
  if (a->embed_norm)
    norm(&s, "embed.norm", NMB__P_EMBED, a->hidden);
  if (!a->final_norm_off)
    norm(&s, "head.norm", NMB__P_NORM, a->hidden);
  if (!a->tied)
    s.v[s.n++] = (nmb__piece){"head.out", NMB__P_HEAD, NMB__USE_LAST, a->vocab,
                              a->embed_width, 1,       a->head,          a->head_scheme};
  if (a->head_bias)
    add(&s, "head.bias", NMB__P_HEAD, NMB__USE_VECTOR, NMB__W_NORM, a->vocab, 1, 1);
  return s.n;
}

int64_t
nmb__piece_bytes(const nmb__piece *v)
{
  if (v->scheme)
    return v->copies * nmb__scheme_bytes(v->scheme, v->rows, v->cols);
  return nmb_bytes(v->format.dtype, v->format.group, v->rows * v->cols * v->copies);
}

/* ------------------------------------------------------------- parameters */
static bool
no_parameter(const nmb__piece *v)
{
  return v->use == NMB__USE_CONSTANT || v->use == NMB__USE_TAPS ||
         v->use == NMB__USE_BORROWED || v->use == NMB__USE_WAVES;
}

static void
params_add(nmb__params *p, const nmb__piece *v, int n, int64_t times, int64_t topk)
{
  for (int i = 0; i < n; i++) {
    const int64_t one = v[i].rows * v[i].cols;
    if (no_parameter(&v[i]))
      continue;
    p->part[v[i].part] += times * one * v[i].copies;
    const bool chosen = v[i].use == NMB__USE_ROUTED || v[i].use == NMB__USE_ROUTED_VECTOR;
    p->active_part[v[i].part] += times * one * (chosen ? topk : v[i].copies);
    p->weight_bytes += times * nmb__piece_bytes(&v[i]);
  }
}

/* Elements that a position adds to the caches of a layer; those of pooled positions
 * to the nearest below.  *unwindowed: of caches that keep growing. */
static int64_t
kv_elements(const nmb__layer *l, int64_t *unwindowed)
{
  const nmb__attn *t = &l->attn;
  const nmb__index *x = &t->index;
  const bool grows = !t->window && !t->chunk;
  if (t->latent) {
    *unwindowed =
        t->compress ? (t->dk + (x->heads ? x->width : 0)) / t->compress : 0;
    return t->dk + *unwindowed;
  }
  int64_t n = t->mla ? t->kv_rank + t->d_rope : t->kv_heads * (t->dk + t->dv);
  if (x->heads && x->own)
    n += x->width * (x->value ? 2 : 1);
  if (t->kv_from)
    n = 0;
  *unwindowed = grows ? n : 0;
  return n;
}

/* Projections that wait for their pool, values and gates: those of as many positions as
 * a pool is made of. */
static int64_t
pool_elements(const nmb__attn *t)
{
  const int64_t halves = t->index.heads ? 2 : 1;
  if (!t->latent || !t->compress)
    return 0;
  return 2 * halves * t->compress * halves *
         (t->dk + (t->index.heads ? t->index.width : 0));
}

/* A module of multi-token prediction as DeepSeek-V3 has it (arXiv:2412.19437,
 * section 2.2): a decoder layer, the projection that joins the hidden state with the
 * next token's embedding, two norms before it and one after; embedding and head
 * are the model's own. */
static int64_t
layer_params(nmb_run *run, const nmb__arch *a, int layer)
{
  const nmb__piece *v;
  int64_t n = 0;
  const int np = nmb__pieces(run, a, a->distinct[layer], &v);
  for (int i = 0; i < np; i++)
    if (!no_parameter(&v[i]))
      n += v[i].rows * v[i].cols * v[i].copies;
  return n;
}

/* DeepSeek-V4 (inference/model.py of its repository): a module's layer has the window
 * alone, and its streams are joined by weights of their own. */
static int64_t
window_layer(nmb_run *run, const nmb__arch *a)
{
  nmb__layer l = a->layer[a->nlayer - 1];
  const int64_t n = l.hyper;
  l.attn.compress = 0;
  l.attn.index = (nmb__index){0};
  list s = {run, a, &l, NMB_NEW(run, nmb__piece, MAXPIECE), 0};
  pieces_layer(&s, a->hidden);
  int64_t sum = n * n * a->hidden + n + 1;
  for (int i = 0; i < s.n; i++)
    sum += s.v[i].rows * s.v[i].cols * s.v[i].copies;
  return sum;
}

/* The first layer that holds what the letter says; the last one if none does. */
static int
layer_of(const nmb__arch *a, char letter)
{
  for (int i = 0; i < a->nlayer; i++) {
    const nmb__layer *l = &a->layer[i];
    const char is = l->mixer.kind     ? 'M'
                    : l->attn.heads   ? '*'
                    : l->moe.experts  ? 'E'
                                      : '-';
    if (is == letter)
      return i;
  }
  return (int)a->nlayer - 1;
}

static int64_t
mtp_params(nmb_run *run, const nmb__arch *a)
{
  int64_t n = 2 * a->hidden * a->hidden + 3 * a->hidden;
  if (a->layer[a->nlayer - 1].hyper)
    return a->mtp * (n + window_layer(run, a));
  if (!*a->mtp_pattern)
    n += layer_params(run, a, (int)a->nlayer - 1);
  for (const char *s = a->mtp_pattern; *s; s++)
    n += layer_params(run, a, layer_of(a, *s));
  return a->mtp * n;
}

void
nmb__arch_params(nmb_run *run, const nmb__arch *a, nmb__params *p)
{
  *p = (nmb__params){0};
  const nmb__piece *v;
  int64_t *times = NMB_NEW(run, int64_t, a->ndistinct);
  const int nend = nmb__pieces(run, a, NMB_NONE, &v);
  params_add(p, v, nend, 1, 0);
  for (int i = 0; i < a->nlayer; i++) {
    int64_t grows;
    times[a->distinct[i]]++;
    p->state_elements +=
        nmb__state_elements(&a->layer[i].mixer) + pool_elements(&a->layer[i].attn);
    p->kv_elements += kv_elements(&a->layer[i], &grows);
    p->kv_elements_unwindowed += grows;
  }
  for (int d = 0; d < a->ndistinct; d++) {
    const int n = nmb__pieces(run, a, d, &v);
    params_add(p, v, n, times[d], a->layer[a->first[d]].moe.topk);
  }
  for (int i = 0; i < NMB__NPART; i++) {
    p->total += p->part[i];
    p->active += p->active_part[i];
  }
  const int64_t table = a->vocab * a->embed_width;
  p->active_minus_input_embedding = p->active - (a->tied ? 0 : table);
  p->active_minus_embeddings = p->active - (a->tied ? 1 : 2) * table;
  p->mtp = mtp_params(run, a);
}

/* ------------------------------------------------------------------- step */
/* What the program decides for one layer. */
typedef struct setting {
  nmb_run *run;
  const nmb_prog *p; /* NULL: stored formats */
  nmb_id block;
  const nmb_routing *routing;
  bool absorbed;
  nmb_step_spec spec;
  double reached; /* experts, without a routing */
  int64_t pools;  /* of positions of a sequence, that the step completes */
} setting;

static nmb__format
format_of(const setting *s, const char *name, nmb__format stored)
{
  if (s->p)
    for (int i = 0; i < s->p->ntensor; i++)
      if (s->p->tensor[i].block == s->block && !strcmp(s->p->tensor[i].name, name))
        return (nmb__format){s->p->tensor[i].dtype, s->p->tensor[i].group};
  return stored;
}

/* Rows that pass through a matrix in the step. */
static double
uses(const setting *s, const nmb__piece *v, int64_t cached, int64_t topk)
{
  const double T = (double)(s->spec.batch * s->spec.fresh);
  switch (v->use) {
  case NMB__USE_TAPS:
  case NMB__USE_TOKEN: return T;
  case NMB__USE_TWICE: return 2 * T;
  case NMB__USE_GROUP: return T * (double)v->copies;
  case NMB__USE_ROUTED: return T * (double)topk;
  case NMB__USE_LAST: return (double)s->spec.batch;
  case NMB__USE_CACHE: return s->absorbed ? T : (double)(s->spec.batch * cached);
  default: return 0;
  }
}

static int64_t
touched(const setting *s, const nmb__piece *v, nmb__format f)
{
  const int64_t one = nmb_bytes(f.dtype, f.group, v->rows * v->cols);
  const int64_t T = s->spec.batch * s->spec.fresh;
  if (v->use == NMB__USE_LENT)
    return 0;
  if (v->use == NMB__USE_LOOKUP || v->use == NMB__USE_WAVES) /* each token another row, as far as there are rows */
    return (T < v->rows ? T : v->rows) * nmb_bytes(f.dtype, f.group, v->cols);
  if (v->use == NMB__USE_ROUTED || v->use == NMB__USE_ROUTED_VECTOR)
    return (int64_t)(s->reached * (double)one + 0.5);
  return nmb_bytes(f.dtype, f.group, v->rows * v->cols * v->copies);
}

static void
step_pieces(const setting *s, const nmb__piece *v, int n, int64_t times, int64_t cached,
            int64_t topk, nmb__counts *c)
{
  for (int i = 0; i < n; i++) {
    const nmb__format f = format_of(s, v[i].name, v[i].format);
    const double one = (double)v[i].rows * (double)v[i].cols;
    if (v[i].use == NMB__USE_IDLE || (v[i].use == NMB__USE_POOL && !s->pools))
      continue;
    c->macs += (double)times * one * uses(s, &v[i], cached, topk);
    if (v[i].use != NMB__USE_BORROWED)
      c->weight_bytes +=
          times * nmb_bytes(f.dtype, f.group, v[i].rows * v[i].cols * v[i].copies);
    c->weight_bytes_touched += times * touched(s, &v[i], f);
  }
}

/* Keys that attention reads: in single steps only those that an indexer has chosen. */
static int64_t
read_keys(const setting *s, const nmb__attn *t, int64_t cached)
{
  const nmb__index *x = &t->index;
  if (!x->heads || t->latent || s->spec.fresh > 1 || (x->block && !x->local) ||
      t->window || t->chunk || t->alibi)
    return cached;
  const int64_t block = x->block ? x->block : 1, tail = cached % block;
  const int64_t most = tail ? (x->topk - 1) * block + tail : x->topk * block;
  return most < cached ? most : cached;
}

/* One cache with `width` elements a token, of which `read` tokens are read. */
static void
step_cache(const setting *s, const char *name, int64_t width, int64_t times,
           int64_t cached, int64_t read, nmb__counts *c)
{
  const nmb__format f = format_of(s, name, (nmb__format){NMB_DT_BF16, 0});
  const int64_t B = s->spec.batch;
  const int64_t all = nmb_bytes(f.dtype, f.group, B * cached * width);
  c->kv_bytes += times * all;
  c->kv_bytes_read += times * nmb_bytes(f.dtype, f.group, B * read * width);
  c->kv_bytes_written += times * nmb_bytes(f.dtype, f.group, B * s->spec.fresh * width);
}

/* Rows of several positions: all are read, the new ones are written; and of their
 * projections what is kept, read where a row is made of them. */
static void
step_pool(const setting *s, const nmb__attn *t, const char *cache, const char *from,
          int64_t d, int64_t times, nmb__counts *c)
{
  const int64_t context = s->spec.context, all = context + s->spec.fresh;
  const int64_t before = context / t->compress, after = all / t->compress;
  const int64_t n = t->index.heads ? 2 * d : d, B = s->spec.batch;
  const int64_t first = (before - (t->index.heads && before > 0)) * t->compress;
  const nmb__format f = format_of(s, cache, (nmb__format){NMB_DT_BF16, 0});
  const int64_t bytes = nmb_bytes(f.dtype, f.group, B * after * d);
  c->kv_bytes += times * bytes;
  c->kv_bytes_read += times * bytes;
  c->kv_bytes_written += times * nmb_bytes(f.dtype, f.group, B * (after - before) * d);
  for (int i = 0; i < 2; i++) {
    const char *name = nmb_format(s->run, "cache.%s.%s", from, i ? "gate" : "kv");
    const nmb__format k = format_of(s, name, (nmb__format){NMB_DT_BF16, 0});
    const int64_t kept = nmb_bytes(k.dtype, k.group, B * (all - first) * n);
    c->kv_bytes += times * kept;
    c->kv_bytes_read += after > before ? times * kept : 0;
    c->kv_bytes_written += times * nmb_bytes(k.dtype, k.group, B * s->spec.fresh * n);
  }
}

/* DeepSeek-V4: a window, and pools of older positions. */
static void
step_pooled(const setting *s, const nmb__attn *t, int64_t times, int64_t cached,
            nmb__counts *c)
{
  const int64_t pools =
      t->compress ? (s->spec.context + s->spec.fresh) / t->compress : 0;
  const double T = (double)(s->spec.batch * s->spec.fresh), all = (double)times * T;
  c->macs += all * (double)t->heads * (double)(cached + pools) * (double)(2 * t->dk);
  step_cache(s, "cache.kv", t->dk, times, cached, cached, c);
  if (t->compress)
    step_pool(s, t, "cache.pool", "pool", t->dk, times, c);
  if (!t->index.heads)
    return;
  c->macs += all * (double)pools * (double)(t->index.heads * t->index.width);
  step_pool(s, t, "cache.index", "index.pool", t->index.width, times, c);
}

static void
step_attention(const setting *s, const nmb__attn *t, int64_t times, int64_t cached,
               nmb__counts *c)
{
  int64_t score = t->dk, value = t->diff ? 2 * t->dv : t->dv;
  if (t->latent) {
    step_pooled(s, t, times, cached, c);
    return;
  }
  if (t->mla && s->absorbed) {
    score = t->kv_rank + t->d_rope;
    value = t->kv_rank;
  }
  const int64_t read = read_keys(s, t, cached);
  const double pairs =
      (double)(s->spec.batch * s->spec.fresh) * (double)t->heads * (double)read;
  c->macs += (double)times * pairs * (double)(score + value);
  if (t->index.heads && t->index.own) { /* each of its heads with each key */
    c->macs += (double)times * (double)(s->spec.batch * s->spec.fresh) *
               (double)cached * (double)(t->index.heads * t->index.width);
    step_cache(s, "cache.index", t->index.width, times, cached, cached, c);
  }
  if (t->mla) {
    step_cache(s, "cache.c", t->kv_rank, times, cached, read, c);
    step_cache(s, "cache.kr", t->d_rope, times, cached, read, c);
    return;
  }
  const nmb__counts before = *c;
  step_cache(s, "cache.k", t->kv_heads * t->dk, times, cached, read, c);
  step_cache(s, "cache.v", t->kv_heads * t->dv, times, cached, read, c);
  if (t->kv_from) { /* another layer's: only read */
    c->kv_bytes = before.kv_bytes;
    c->kv_bytes_written = before.kv_bytes_written;
  }
}

/* States are as their tensors say: fp32, unless the program has them otherwise. */
static void
step_mixer(const setting *s, const nmb__mixer *t, int64_t times, nmb__counts *c)
{
  const nmb__format f = format_of(s, "state.mixer", (nmb__format){NMB_DT_F32, 0});
  const int64_t n = s->spec.batch * nmb__state_elements(t);
  c->macs += (double)times * (double)s->spec.batch * nmb__mixer_macs(t, s->spec.fresh);
  c->state_bytes += times * nmb_bytes(f.dtype, f.group, n);
}

static void
step_ends(nmb_run *run, const nmb__arch *a, setting *s, nmb__counts *c)
{
  const nmb__piece *v;
  const int n = nmb__pieces(run, a, NMB_NONE, &v);
  for (int i = 0; i < n; i++) {
    s->block = v[i].part == NMB__P_EMBED || !s->p ? 0 : s->p->nblock - 1;
    step_pieces(s, &v[i], 1, 1, 0, 0, c);
  }
  if (a->tied) {
    const nmb__piece head = {"head.tied", NMB__P_HEAD, NMB__USE_LAST, a->vocab,
                             a->embed_width, 1,        a->head,          NULL};
    step_pieces(s, &head, 1, 1, 0, 0, c);
  }
}

/* Finds the routing and whether latent attention is absorbed.  These are decisions
 * of the program, not its work. */
static void
decisions(setting *s)
{
  s->routing = NULL;
  s->absorbed = false;
  for (int i = 0; i < s->p->block[s->block].nop; i++) {
    const nmb_op *o = &s->p->op[s->p->block[s->block].op[i]];
    if (o->code == NMB_OP_HLINEAR)
      s->absorbed = true;
    if (o->code == NMB_OP_TOPK)
      s->routing = &s->p->routing[nmb_op_int(o, "routing", 0)];
  }
  s->reached = s->routing ? s->routing->reached : 0;
}

/* Experts that T tokens reach, on average, when each draws k of E. */
static double
expected(const nmb__moe *m, double T)
{
  double miss = 1;
  for (double t = 0; t < T && miss > 1e-12; t++)
    miss *= 1 - (double)m->topk / (double)m->experts;
  return (double)m->experts * (1 - miss);
}

static void
step_layers(nmb_run *run, const nmb__arch *a, setting *s, nmb__counts *c)
{
  int64_t *times = NMB_NEW(run, int64_t, a->ndistinct);
  for (int i = 0; i < a->nlayer; i++)
    times[a->distinct[i]]++;
  for (int d = 0; d < a->ndistinct; d++) {
    const nmb__layer *l = &a->layer[a->first[d]];
    const int64_t all = s->spec.context + s->spec.fresh;
    const int64_t w = l->attn.chunk ? l->attn.chunk : l->attn.window;
    const int64_t seen = w && w + s->spec.fresh - 1 < all ? w + s->spec.fresh - 1 : all;
    const nmb__piece *v;
    s->block = d + 1;
    if (s->p)
      decisions(s);
    else if (l->moe.experts)
      s->reached = expected(&l->moe, (double)(s->spec.batch * s->spec.fresh));
    const int64_t every = l->attn.compress ? l->attn.compress : 1;
    s->pools = all / every - s->spec.context / every;
    const int n = nmb__pieces(run, a, d, &v);
    step_pieces(s, v, n, times[d], read_keys(s, &l->attn, seen), l->moe.topk, c);
    if (l->attn.heads)
      step_attention(s, &l->attn, times[d], seen, c);
    step_mixer(s, &l->mixer, times[d], c);
  }
}

void
nmb__arch_counts(nmb_run *run, const nmb__arch *a, const nmb_prog *p, nmb__counts *c)
{
  setting s = {.run = run, .p = p, .spec = p->spec};
  *c = (nmb__counts){0};
  step_ends(run, a, &s, c);
  step_layers(run, a, &s, c);
}

nmb_status
nmb__arch_step(nmb_run *run, const nmb__arch *a, nmb_step_spec spec, nmb__counts *c)
{
  setting s = {.run = run, .spec = spec, .absorbed = spec.phase == NMB_DECODE};
  *c = (nmb__counts){0};
  NMB_TRY(nmb__step_check(run, a, spec));
  step_ends(run, a, &s, c);
  step_layers(run, a, &s, c);
  return NMB_OK;
}
