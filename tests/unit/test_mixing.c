/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Ops that mix tokens or choose experts, against formulas in another formulation:
 * attention pair by pair over absolute positions, scans as products of matrices, the
 * choice by sorting, experts as a sum over all of them. */
#include <float.h>

#include "tests/unit/opbench.h"

/* ---------------------------------------------------------------- attention */
typedef struct attn {
  int B, fresh, context, S, nh, nk, d, dv, window, chunk;
  double scale, cap;
  bool alibi, sink;
} attn;

/* Slopes as the recursion of the paper's code gives them. */
static void
slopes(int n, double *m)
{
  int power = 1;
  while (power * 2 <= n)
    power *= 2;
  for (int i = 0; i < power; i++)
    m[i] = pow(pow(2, -pow(2, -(log2(power) - 3))), i + 1);
  if (power < n) {
    double twice[256];
    slopes(2 * power, twice);
    for (int i = power; i < n; i++)
      m[i] = twice[2 * (i - power)];
  }
}

static double
score(const attn *a, const float *q, const float *k, const double *slope, int seq,
      int head, int token, int key)
{
  double s = 0;
  const int kv = head / (a->nh / a->nk);
  for (int i = 0; i < a->d; i++)
    s += (double)q[((seq * a->fresh + token) * a->nh + head) * a->d + i] *
         (double)k[((seq * a->S + key) * a->nk + kv) * a->d + i];
  s *= a->scale;
  s = a->cap > 0 ? a->cap * (1 - 2 / (exp(2 * s / a->cap) + 1)) : s;
  const int first = a->context + a->fresh - a->S;
  return s + (a->alibi ? slope[head] * (first + key - a->context - token) : 0);
}

static bool
sees(const attn *a, int token, int key)
{
  const int s = a->context + a->fresh - a->S + key, t = a->context + token;
  return s <= t && (!a->window || t - s < a->window) &&
         (!a->chunk || s / a->chunk == t / a->chunk);
}

static void
check_heads(const attn *a, const float *q, const float *k, const float *v,
            const float *sink, const float *y)
{
  double slope[256];
  slopes(a->nh, slope);
  for (int r = 0; r < a->B * a->fresh * a->nh; r++) {
    const int head = r % a->nh, token = r / a->nh % a->fresh, seq = r / a->nh / a->fresh;
    double below = sink ? exp((double)sink[head]) : 0, sum[64] = {0};
    for (int s = 0; s < a->S; s++)
      if (sees(a, token, s)) {
        const double e = exp(score(a, q, k, slope, seq, head, token, s));
        below += e;
        for (int i = 0; i < a->dv; i++)
          sum[i] +=
              e *
              (double)v[((seq * a->S + s) * a->nk + head / (a->nh / a->nk)) * a->dv + i];
      }
    for (int i = 0; i < a->dv; i++)
      NEAR(y[r * a->dv + i], sum[i] / below, 3e-6);
  }
}

static void
mask_attrs(bench *b, const attn *a)
{
  bench_attr(b, NMB_INT("new", a->fresh));
  bench_attr(b, NMB_INT("window", a->window));
  if (a->chunk)
    bench_attr(b, NMB_INT("chunk", a->chunk));
}

static void
score_attrs(bench *b, const attn *a)
{
  bench_attr(b, NMB_REAL("scale", a->scale));
  bench_attr(b, NMB_REAL("cap", a->cap));
  bench_attr(b, NMB_INT("alibi", a->alibi));
}

/* The composite, and its three parts one after the other and in tiles. */
static void
check_attention(attn a)
{
  const int64_t T = a.B * a.fresh, u = a.B * a.nk, g = a.fresh * (a.nh / a.nk);
  a.S = a.S ? a.S : a.context + a.fresh;
  bench b = bench_open(NMB_OP_ATTENTION, a.B, a.fresh, a.context);
  const float *q = bench_in(&b, NMB_ROLE_ACT, DIMS(T, a.nh, a.d));
  const float *k = bench_in(&b, NMB_ROLE_KV, DIMS(a.B, a.S, a.nk, a.d));
  const float *v = bench_in(&b, NMB_ROLE_KV, DIMS(a.B, a.S, a.nk, a.dv));
  float *sink = a.sink ? bench_in(&b, NMB_ROLE_WEIGHT, DIMS(a.nh)) : NULL;
  const float *y = bench_out(&b, NMB_DT_F32, DIMS(T, a.nh, a.dv));
  mask_attrs(&b, &a);
  score_attrs(&b, &a);
  bench_run(&b);
  check_heads(&a, q, k, v, sink, y);

  bench qk = bench_open(NMB_OP_QK, a.B, a.fresh, a.context);
  memcpy(bench_in(&qk, NMB_ROLE_ACT, DIMS(T, a.nh, a.d)), q,
         (size_t)(T * a.nh * a.d) * sizeof *q);
  memcpy(bench_in(&qk, NMB_ROLE_KV, DIMS(a.B, a.S, a.nk, a.d)), k,
         (size_t)(a.B * a.S * a.nk * a.d) * sizeof *k);
  const float *s = bench_out(&qk, NMB_DT_F32, DIMS(u, g, a.S));
  bench_attr(&qk, NMB_INT("new", a.fresh));
  score_attrs(&qk, &a);
  bench_run(&qk);
  bench_tiles(&qk, 1, 3, 4);

  bench sm = bench_open(NMB_OP_SOFTMAX, a.B, a.fresh, a.context);
  memcpy(bench_in(&sm, NMB_ROLE_ACT, DIMS(u, g, a.S)), s,
         (size_t)(u * g * a.S) * sizeof *s);
  if (sink)
    memcpy(bench_in(&sm, NMB_ROLE_WEIGHT, DIMS(a.nh)), sink, (size_t)a.nh * sizeof *sink);
  const float *p = bench_out(&sm, NMB_DT_F32, DIMS(u, g, a.S));
  mask_attrs(&sm, &a);
  bench_run(&sm);
  bench_tiles(&sm, 2, 3, a.S);
  for (int64_t r = 0; r < u * g; r++) { /* what is not seen is zero, the rest adds up */
    double sum = 0;
    for (int i = 0; i < a.S; i++) {
      sum += (double)p[r * a.S + i];
      CU_ASSERT_EQUAL(p[r * a.S + i] > 0, sees(&a, (int)(r % g) / (a.nh / a.nk), i));
    }
    CU_ASSERT_TRUE(a.sink ? sum < 1 : fabs(sum - 1) < 1e-5);
  }

  bench pv = bench_open(NMB_OP_PV, a.B, a.fresh, a.context);
  memcpy(bench_in(&pv, NMB_ROLE_ACT, DIMS(u, g, a.S)), p,
         (size_t)(u * g * a.S) * sizeof *p);
  memcpy(bench_in(&pv, NMB_ROLE_KV, DIMS(a.B, a.S, a.nk, a.dv)), v,
         (size_t)(a.B * a.S * a.nk * a.dv) * sizeof *v);
  const float *z = bench_out(&pv, NMB_DT_F32, DIMS(T, a.nh, a.dv));
  bench_run(&pv);
  bench_tiles(&pv, 1, 2, 3);
  for (int64_t i = 0; i < T * a.nh * a.dv; i++)
    NEAR(z[i], y[i], 3e-6);
  bench_close(&pv);
  bench_close(&sm);
  bench_close(&qk);
  bench_close(&b);
}

static void
test_attention(void)
{
  const attn plain = {
      .B = 2, .fresh = 5, .context = 3, .nh = 6, .nk = 2, .d = 7, .dv = 5, .scale = 0.9};
  attn a = plain;
  check_attention(a);
  a.nk = 6; /* one each */
  check_attention(a);
  a.nk = 1; /* one for all */
  check_attention(a);
  a = plain;
  a.cap = 0.7;
  a.sink = true;
  check_attention(a);
  a = plain;
  a.alibi = true; /* 6 is no power of two */
  check_attention(a);
  a = plain;
  a.chunk = 3; /* 3 .. 7 are new */
  check_attention(a);
  a = plain;
  a.fresh = 1; /* decode */
  check_attention(a);
  a.fresh = 40; /* prefill, through BLAS */
  a.context = 0;
  a.d = a.dv = 32;
  check_attention(a);
}

/* S = min(window + new - 1, cached + new): every new token finds all that it sees, and
 * what a shorter cache leaves out nobody would see. */
static void
test_window(void)
{
  for (int context = 0; context < 9; context += 4)
    for (int fresh = 1; fresh < 8; fresh += 3)
      for (int window = 1; window < 7; window += 2) {
        const int all = context + fresh, kept = window + fresh - 1;
        attn a = {.B = 2,
                  .fresh = fresh,
                  .context = context,
                  .nh = 4,
                  .nk = 2,
                  .d = 3,
                  .dv = 4,
                  .window = window,
                  .scale = 1.1,
                  .sink = true};
        a.S = kept < all ? kept : all;
        check_attention(a);
        for (int t = 0; t < fresh; t++) {
          int seen = 0;
          for (int s = 0; s < a.S; s++)
            seen += sees(&a, t, s);
          const int want = context + t + 1 < window ? context + t + 1 : window;
          CU_ASSERT_EQUAL(seen, want);
        }
      }
}

/* A key is picked if fewer than topk of those that are seen are better: more, or as good
 * and before it.  The scores as rows of all heads of a token. */
static void
check_pick(int fresh, int context, int topk, int window, bool ties)
{
  enum { B = 2, H = 3 };
  const int S = context + fresh;
  bench b = bench_open(NMB_OP_PICK, B, fresh, context);
  float *s = bench_in(&b, NMB_ROLE_ACT, DIMS(B, fresh * H, S));
  const float *w = bench_in(&b, NMB_ROLE_ACT, DIMS(B * fresh, H));
  for (int i = 0; ties && i < B * fresh * H * S; i++) /* many are cut to nothing */
    s[i] = s[i] < 0.5f ? -1 : 1;
  const float *y = bench_out(&b, NMB_DT_F32, DIMS(B * fresh, S));
  bench_attr(&b, NMB_INT("topk", topk));
  bench_attr(&b, NMB_INT("new", fresh));
  bench_attr(&b, NMB_INT("window", window));
  bench_run(&b);
  for (int t = 0; t < B * fresh; t++) {
    const int last = context + t % fresh, first = window ? last - window + 1 : 0;
    double sum[64] = {0};
    for (int i = 0; i < S; i++)
      for (int h = 0; h < H; h++)
        sum[i] += (double)w[t * H + h] * fmax((double)s[(t * H + h) * S + i], 0);
    for (int i = 0; i < S; i++) {
      int better = 0;
      for (int j = first < 0 ? 0 : first; j <= last; j++)
        better += sum[j] > sum[i] || (j < i && !(sum[j] < sum[i]));
      const bool in = i >= first && i <= last && better < topk;
      CU_ASSERT_TRUE(in ? fabsf(y[t * S + i]) <= 0 : y[t * S + i] < -FLT_MAX);
    }
  }
  bench_close(&b);
}

/* Each head for itself, blocks of 3 keys: a block is in if its own is among the newest, or
 * fewer than topk are better by their best key, the newest one first of all. */
static void
check_blocks(int fresh, int context, int topk)
{
  enum { B = 2, H = 2, N = 3 };
  const int S = context + fresh;
  bench b = bench_open(NMB_OP_PICK, B, fresh, context);
  const float *s = bench_in(&b, NMB_ROLE_ACT, DIMS(B, fresh * H, S));
  const float *y = bench_out(&b, NMB_DT_F32, DIMS(B, fresh, H, S));
  bench_attr(&b, NMB_INT("topk", topk));
  bench_attr(&b, NMB_INT("block", N));
  bench_attr(&b, NMB_INT("local", 1));
  bench_attr(&b, NMB_INT("new", fresh));
  bench_run(&b);
  for (int r = 0; r < B * fresh * H; r++) {
    const int last = context + r / H % fresh;
    double best[64];
    for (int i = 0; i <= last; i++) {
      const double x = (double)s[r * S + i];
      best[i / N] = i % N ? fmax(best[i / N], x) : x;
    }
    best[last / N] = 1e9;
    for (int i = 0; i < S; i++) {
      int better = 0;
      for (int j = 0; j <= last / N && i <= last; j++)
        better += best[j] > best[i / N];
      CU_ASSERT_TRUE(i <= last && better < topk ? fabsf(y[r * S + i]) <= 0
                                                : y[r * S + i] < -FLT_MAX);
    }
  }
  bench_close(&b);
}

static void
test_pick(void)
{
  for (int topk = 1; topk < 5; topk++) {
    check_blocks(1, 10, topk);
    check_blocks(8, 0, topk);
    check_blocks(5, 7, topk);
  }
  for (int topk = 1; topk < 12; topk += 3)
    for (int ties = 0; ties < 2; ties++) {
      check_pick(1, 9, topk, 0, ties);
      check_pick(7, 0, topk, 0, ties);
      check_pick(4, 5, topk, 3, ties);
    }
}

/* A bias without heads is that of all of them; one of n heads, of as many KV heads each. */
static void
check_bias_of(int64_t n)
{
  enum { B = 2, F = 3, H = 4, K = 2, D = 5, S = 6 };
  bench b = bench_open(NMB_OP_QK, B, F, 3);
  const float *q = bench_in(&b, NMB_ROLE_ACT, DIMS(B * F, H, D));
  const float *k = bench_in(&b, NMB_ROLE_ACT, DIMS(B, S, K, D));
  float *bias = n ? bench_in(&b, NMB_ROLE_ACT, DIMS(B, F, n, S))
                  : bench_in(&b, NMB_ROLE_ACT, DIMS(B * F, S));
  bias[7] = -INFINITY;
  const float *y = bench_out(&b, NMB_DT_F32, DIMS(B * K, F * H / K, S));
  bench_attr(&b, NMB_INT("new", F));
  bench_attr(&b, NMB_REAL("scale", 0.5));
  bench_run(&b);
  for (int i = 0; i < B * H * F * S; i++) {
    const int s = i % S, in = i / S % (H / K), t = i / S / (H / K) % F;
    const int kv = i / S / (H / K) / F % K, seq = i / S / H / F;
    const int64_t row = n ? (seq * F + t) * n + kv * n / K : seq * F + t;
    double x = (double)bias[row * S + s];
    for (int j = 0; j < D; j++)
      x += 0.5 * (double)q[((seq * F + t) * H + kv * (H / K) + in) * D + j] *
           (double)k[((seq * S + s) * K + kv) * D + j];
    if (isinf(x)) {
      CU_ASSERT_TRUE(isinf(y[i]) && y[i] < 0);
      continue;
    }
    NEAR(y[i], x, 1e-6);
  }
  bench_close(&b);
}

static void
test_bias_of_all(void)
{
  check_bias_of(0);
  check_bias_of(1);
  check_bias_of(2);
}

/* A token that sees only itself shares with its sink alone. */
static void
test_sink(void)
{
  bench b = bench_open(NMB_OP_ATTENTION, 1, 1, 4);
  const float *q = bench_in(&b, NMB_ROLE_ACT, DIMS(1, 2, 1));
  const float *k = bench_in(&b, NMB_ROLE_KV, DIMS(1, 5, 2, 1));
  const float *v = bench_in(&b, NMB_ROLE_KV, DIMS(1, 5, 2, 1));
  float *sink = bench_in(&b, NMB_ROLE_WEIGHT, DIMS(2));
  const float *y = bench_out(&b, NMB_DT_F32, DIMS(1, 2, 1));
  bench_attr(&b, NMB_INT("new", 1));
  bench_attr(&b, NMB_INT("window", 1));
  bench_attr(&b, NMB_REAL("scale", 2));
  sink[1] = 200; /* takes all there is */
  bench_run(&b);
  const double odds = exp(2 * (double)q[0] * (double)k[8] - (double)sink[0]);
  NEAR(y[0], (double)v[8] * odds / (1 + odds), 1e-6);
  CU_ASSERT_DOUBLE_EQUAL(y[1], 0, 1e-6);
  bench_close(&b);
}

/* A bias whose units are sequences goes to scores whose units are heads by head and
 * token, as the two parts of latent attention need. */
static void
test_bias(void)
{
  enum { B = 2, F = 3, H = 4, D = 5, S = 6 };
  bench b = bench_open(NMB_OP_QK, B, F, 3);
  const float *q = bench_in(&b, NMB_ROLE_ACT, DIMS(B * F, H, D));
  const float *k = bench_in(&b, NMB_ROLE_ACT, DIMS(B, S, H, D));
  const float *bias = bench_in(&b, NMB_ROLE_ACT, DIMS(B, F * H, S));
  const float *y = bench_out(&b, NMB_DT_F32, DIMS(B * H, F, S));
  bench_attr(&b, NMB_INT("new", F));
  bench_attr(&b, NMB_REAL("scale", 0.5));
  bench_run(&b);
  for (int i = 0; i < B * H * F * S; i++) {
    const int s = i % S, t = i / S % F, h = i / S / F % H, seq = i / S / F / H;
    double x = (double)bias[((seq * F + t) * H + h) * S + s];
    for (int j = 0; j < D; j++)
      x += 0.5 * (double)q[((seq * F + t) * H + h) * D + j] *
           (double)k[((seq * S + s) * H + h) * D + j];
    NEAR(y[i], x, 1e-6);
  }
  bench_tiles(&b, 3, 2, 5);
  bench_close(&b);
}

/* -------------------------------------------------------------------- states */
/* The same as a sum over the whole past, and in two steps as in one. */
static void
test_conv(void)
{
  enum { B = 2, F = 5, C = 3, W = 4 };
  for (int silu = 0; silu < 2; silu++) {
    float first[B * F * C], past[B * C * (W - 1)], x[B * F * C], w[C * W], bias[C];
    bench b = bench_open(NMB_OP_CONV, B, F, 7);
    memcpy(x, bench_in(&b, NMB_ROLE_ACT, DIMS(B * F, C)), sizeof x);
    memcpy(past, bench_in(&b, NMB_ROLE_STATE, DIMS(B, C, W - 1)), sizeof past);
    memcpy(w, bench_in(&b, NMB_ROLE_WEIGHT, DIMS(C, W)), sizeof w);
    memcpy(bias, bench_in(&b, NMB_ROLE_WEIGHT, DIMS(C)), sizeof bias);
    const float *y = bench_out(&b, NMB_DT_F32, DIMS(B * F, C));
    bench_in_place(&b, 1);
    bench_attr(&b, NMB_SYM("fn", silu ? "silu" : "none"));
    bench_run(&b);
    memcpy(first, y, sizeof first);
    for (int i = 0; i < B * F * C; i++) {
      const int c = i % C, t = i / C % F, seq = i / C / F;
      double s = (double)bias[c];
      for (int ago = 0; ago < W; ago++)
        s += (double)w[c * W + W - 1 - ago] *
             (double)(t >= ago ? x[i - ago * C]
                               : past[(seq * C + c) * (W - 1) + W - 1 + t - ago]);
      NEAR(y[i], silu ? s / (1 + exp(-s)) : s, 1e-6);
    }
    for (int i = 0; i < B * C * (W - 1); i++) { /* the last inputs, oldest first */
      const int j = i % (W - 1), c = i / (W - 1) % C, seq = i / (W - 1) / C;
      CU_ASSERT_EQUAL(b.in[1][i], x[(seq * F + F - (W - 1) + j) * C + c]);
    }
    bench_close(&b);
    bench one = bench_open(NMB_OP_CONV, B, 1, 7); /* token by token */
    float *in = bench_in(&one, NMB_ROLE_ACT, DIMS(B, C));
    memcpy(bench_in(&one, NMB_ROLE_STATE, DIMS(B, C, W - 1)), past, sizeof past);
    memcpy(bench_in(&one, NMB_ROLE_WEIGHT, DIMS(C, W)), w, sizeof w);
    memcpy(bench_in(&one, NMB_ROLE_WEIGHT, DIMS(C)), bias, sizeof bias);
    const float *out = bench_out(&one, NMB_DT_F32, DIMS(B, C));
    bench_in_place(&one, 1);
    bench_attr(&one, NMB_SYM("fn", silu ? "silu" : "none"));
    one.id = nmb_op_add(one.p, &one.op);
    for (int t = 0; t < F; t++) {
      for (int i = 0; i < B * C; i++)
        in[i] = x[(i / C * F + t) * C + i % C];
      CU_ASSERT_EQUAL(nmb__op_eval(one.run, one.p, one.id, NULL, &one.v), NMB_OK);
      for (int i = 0; i < B * C; i++)
        CU_ASSERT_EQUAL(out[i], first[(i / C * F + t) * C + i % C]);
    }
    bench_close(&one);
  }
}

/* A sequence of one head in the form of matrix products: with G the running sum of
 * log-decays, A[t][s] = q_t . exp(G_t - G_s) k_s and, with delta, the triangular system
 *   u_t + beta_t sum_{s<t} (k_t . exp(G_t - G_s) k_s) u_s = beta_t (v_t - S0 exp(G_t)
 * k_t) (the chunked form of Mamba-2, arXiv:2405.21060, and of gated DeltaNet,
 * arXiv:2412.06464). */
typedef struct mixer {
  int F, h, hq, hk, dv, dk;
  bool a_wide, dt_wide, delta, beta;
  const char *decay;
  double bound;
} mixer;

enum { MOST_F = 24, MOST_D = 8 };

typedef struct chunk {
  double G[MOST_F][MOST_D], q[MOST_F][MOST_D], k[MOST_F][MOST_D], u[MOST_F][MOST_D];
} chunk;

static double
between(const mixer *m, const chunk *c, const double *x, int t, int s)
{
  double sum = 0;
  for (int j = 0; j < m->dk; j++)
    sum += x[j] * exp(c->G[t][j] - c->G[s][j]) * c->k[s][j];
  return sum;
}

static void
gather(const mixer *m, const bench *b, int seq, int head, chunk *c)
{
  const float *a = b->in[4], *dt = b->in[5];
  double G[MOST_D] = {0};
  for (int t = 0; t < m->F; t++)
    for (int j = 0; j < m->dk; j++) {
      const int row = seq * m->F + t, at = row * m->h + head;
      c->q[t][j] = (double)b->in[0][(row * m->hq + head * m->hq / m->h) * m->dk + j];
      c->k[t][j] = (double)b->in[1][(row * m->hk + head * m->hk / m->h) * m->dk + j];
      const double x = (double)a[m->a_wide ? head * m->dk + j : head];
      double g = x;
      if (strcmp(m->decay, "log")) {
        const double step = (double)dt[m->dt_wide ? at * m->dk + j : at];
        g = !strcmp(m->decay, "a") ? x * step : -exp(x) * step;
        if (m->bound < 0)
          g = m->bound * (0.5 + 0.5 * tanh(exp(x) * step / 2));
      }
      c->G[t][j] = G[j] += g;
    }
}

static void
check_head(const mixer *m, const bench *b, const float *state, int seq, int head,
           const float *o)
{
  static chunk c; /* large */
  const int unit = seq * m->h + head, fixed = !strcmp(m->decay, "log");
  const float *beta = m->beta ? b->in[fixed ? 5 : 6] : NULL;
  gather(m, b, seq, head, &c);
  for (int t = 0; t < m->F; t++) {
    const int at = (seq * m->F + t) * m->h + head;
    for (int n = 0; n < m->dv; n++) {
      double u = (double)b->in[2][at * m->dv + n];
      for (int j = 0; m->delta && j < m->dk; j++)
        u -= (double)state[(unit * m->dv + n) * m->dk + j] * exp(c.G[t][j]) * c.k[t][j];
      for (int s = 0; m->delta && s < t; s++)
        u -= between(m, &c, c.k[t], t, s) * c.u[s][n];
      c.u[t][n] = (beta ? (double)beta[at] : 1) * u;
      double y = 0;
      for (int j = 0; j < m->dk; j++)
        y += (double)state[(unit * m->dv + n) * m->dk + j] * exp(c.G[t][j]) * c.q[t][j];
      for (int s = 0; s <= t; s++)
        y += between(m, &c, c.q[t], t, s) * c.u[s][n];
      NEAR(o[at * m->dv + n], 0.5 * y, 1e-5);
    }
  }
  for (int n = 0; n < m->dv; n++) /* the state that is left */
    for (int j = 0; j < m->dk; j++) {
      const int i = (unit * m->dv + n) * m->dk + j, last = m->F - 1;
      double x = (double)state[i] * exp(c.G[last][j]);
      for (int s = 0; s < m->F; s++)
        x += exp(c.G[last][j] - c.G[s][j]) * c.k[s][j] * c.u[s][n];
      NEAR(b->in[3][i], x, 1e-5);
    }
}

static void
check_scan(mixer m)
{
  enum { B = 2 };
  const int64_t T = B * m.F, states = B * m.h * m.dv * m.dk;
  const bool fixed = !strcmp(m.decay, "log");
  bench b = bench_open(NMB_OP_SCAN, B, m.F, 1);
  bench_in(&b, NMB_ROLE_ACT, DIMS(T, m.hq, m.dk));
  bench_in(&b, NMB_ROLE_ACT, DIMS(T, m.hk, m.dk));
  bench_in(&b, NMB_ROLE_ACT, DIMS(T, m.h, m.dv));
  float *state = bench_in(&b, NMB_ROLE_STATE, DIMS(B, m.h, m.dv, m.dk));
  float *a = m.a_wide ? bench_in(&b, NMB_ROLE_WEIGHT, DIMS(m.h, m.dk))
                      : bench_in(&b, NMB_ROLE_WEIGHT, DIMS(m.h));
  for (int i = 0; i < m.h * (m.a_wide ? m.dk : 1); i++)
    a[i] = strcmp(m.decay, "alog") ? -0.1f - fabsf(a[i]) / 2 : a[i];
  if (!fixed) {
    float *dt = m.dt_wide ? bench_in(&b, NMB_ROLE_ACT, DIMS(T, m.h, m.dk))
                          : bench_in(&b, NMB_ROLE_ACT, DIMS(T, m.h));
    for (int i = 0; i < T * m.h * (m.dt_wide ? m.dk : 1); i++)
      dt[i] = fabsf(dt[i]) / 2;
  }
  if (m.beta) {
    float *beta = bench_in(&b, NMB_ROLE_ACT, DIMS(T, m.h));
    for (int i = 0; i < T * m.h; i++)
      beta[i] = fabsf(beta[i]);
  }
  const float *o = bench_out(&b, NMB_DT_F32, DIMS(T, m.h, m.dv));
  bench_in_place(&b, 3);
  bench_attr(&b, NMB_SYM("decay", m.decay));
  bench_attr(&b, NMB_INT("delta", m.delta));
  bench_attr(&b, NMB_REAL("scale", 0.5));
  bench_attr(&b, NMB_REAL("bound", m.bound));
  float *was = malloc((size_t)states * sizeof *was);
  memcpy(was, state, (size_t)states * sizeof *was);
  bench_run(&b);
  for (int unit = 0; unit < B * m.h; unit++)
    check_head(&m, &b, was, unit / m.h, unit % m.h, o);
  memcpy(state, was, (size_t)states * sizeof *was);
  bench_tiles(&b, 1, m.F, 2); /* heads and rows of the state one by one */
  free(was);
  bench_close(&b);
}

static void
test_scan(void)
{
  /* Mamba-1: each channel a head of one value, one q and k for all */
  check_scan((mixer){9, 6, 1, 1, 1, 4, true, false, false, true, "a", 0});
  /* Mamba-2: q and k in groups */
  check_scan((mixer){MOST_F, 4, 2, 2, 5, 8, false, false, false, true, "a", 0});
  /* gated DeltaNet: two value heads a key head */
  check_scan((mixer){MOST_F, 4, 2, 2, 5, 6, false, false, true, true, "alog", 0});
  /* KDA: a decay for each component of the key */
  check_scan((mixer){11, 3, 3, 3, 4, 5, false, true, true, true, "alog", 0});
  /* and bounded from below */
  check_scan((mixer){11, 3, 3, 3, 4, 5, false, true, true, true, "alog", -5});
  /* lightning attention: fixed decays */
  check_scan((mixer){13, 2, 2, 2, 3, 4, false, false, false, false, "log", 0});
}

/* RWKV-7's step as one matrix for each token: with M_t = diag(w_t) - read_t drop_t^T the
 * state is S0 M_1 .. M_T and a sum of v_s k_s^T M_(s+1) .. M_T. */
static void
times_step(const bench *b, int row, int head, int h, int d, double *x)
{
  const int at = (row * h + head) * d;
  double seen = 0;
  for (int j = 0; j < d; j++)
    seen += x[j] * (double)b->in[6][at + j];
  for (int j = 0; j < d; j++)
    x[j] = x[j] * exp((double)b->in[4][head] * (double)b->in[5][at + j]) -
           seen * (double)b->in[7][at + j];
}

static void
test_read_drop(void)
{
  enum { B = 2, F = 7, H = 2, D = 4, V = 3, T = B * F };
  float was[B * H * V * D];
  bench b = bench_open(NMB_OP_SCAN, B, F, 1);
  bench_in(&b, NMB_ROLE_ACT, DIMS(T, H, D));
  bench_in(&b, NMB_ROLE_ACT, DIMS(T, H, D));
  bench_in(&b, NMB_ROLE_ACT, DIMS(T, H, V));
  float *state = bench_in(&b, NMB_ROLE_STATE, DIMS(B, H, V, D));
  float *a = bench_in(&b, NMB_ROLE_WEIGHT, DIMS(H));
  for (int i = 0; i < H; i++)
    a[i] = -0.5f - fabsf(a[i]);
  for (int i = 0; i < 3; i++) {
    float *x = bench_in(&b, NMB_ROLE_ACT, DIMS(T, H, D));
    for (int j = 0; i == 0 && j < T * H * D; j++)
      x[j] = fabsf(x[j]);
  }
  const float *o = bench_out(&b, NMB_DT_F32, DIMS(T, H, V));
  bench_in_place(&b, 3);
  bench_attr(&b, NMB_SYM("decay", "a"));
  bench_attr(&b, NMB_INT("delta", 2));
  memcpy(was, state, sizeof was);
  bench_run(&b);
  CU_ASSERT_EQUAL(nmb_op_macs(b.p, b.id, NULL), 4 * T * H * V * D);
  for (int i = 0; i < T * H * V; i++) {
    const int n = i % V, head = i / V % H, row = i / V / H, seq = row / F;
    double all[D] = {0};
    for (int s = -1; s <= row - seq * F; s++) { /* -1: what was before */
      double x[D];
      for (int j = 0; j < D; j++) {
        const int at = (seq * F + s) * H + head;
        x[j] = s < 0 ? (double)was[((seq * H + head) * V + n) * D + j]
                     : (double)b.in[2][at * V + n] * (double)b.in[1][at * D + j];
      }
      for (int t = s + 1; t <= row - seq * F; t++)
        times_step(&b, seq * F + t, head, H, D, x);
      for (int j = 0; j < D; j++)
        all[j] += x[j];
    }
    double y = 0;
    for (int j = 0; j < D; j++)
      y += all[j] * (double)b.in[0][(row * H + head) * D + j];
    NEAR(o[i], y, 1e-5);
  }
  memcpy(state, was, sizeof was);
  bench_tiles(&b, 1, F, 2);
  bench_close(&b);
}

/* Against the sum over all tokens before: their weights are e^(k_s + (t-1-s) w), the
 * token's own e^(u+k). */
static void
check_wkv(double top)
{
  enum { B = 2, F = 9, C = 4 };
  bench b = bench_open(NMB_OP_WKV, B, F, 0);
  float *k = bench_in(&b, NMB_ROLE_ACT, DIMS(B * F, C));
  const float *v = bench_in(&b, NMB_ROLE_ACT, DIMS(B * F, C));
  float *state = bench_in(&b, NMB_ROLE_STATE, DIMS(B, C, 3));
  float *w = bench_in(&b, NMB_ROLE_WEIGHT, DIMS(C));
  const float *u = bench_in(&b, NMB_ROLE_WEIGHT, DIMS(C));
  const float *y = bench_out(&b, NMB_DT_F32, DIMS(B * F, C));
  bench_in_place(&b, 2);
  memset(state, 0, B * C * 3 * sizeof *state);
  for (int i = 0; i < B * F * C; i++)
    k[i] = (float)(top + 3 * (double)k[i]);
  for (int i = 0; i < C; i++)
    w[i] = -fabsf(w[i]);
  bench_run(&b);
  for (int i = 0; i < B * F * C; i++) {
    const int c = i % C, t = i / C % F;
    double sum = 0, weight = 0;
    for (int ago = 0; ago <= t; ago++) {
      const int j = i - ago * C;
      const double e = exp((double)k[j] - top +
                           (ago ? (ago - 1) * (double)w[c] : (double)u[c]));
      sum += e * (double)v[j];
      weight += e;
    }
    NEAR(y[i], sum / weight, 1e-5);
  }
  memset(state, 0, B * C * 3 * sizeof *state);
  bench_tiles(&b, 1, F, 3);
  bench_close(&b);
}

static void
test_wkv(void)
{
  check_wkv(0);
  check_wkv(300); /* beyond what a float's exponential can be */
  check_wkv(-900);
}

static void
test_concat(void)
{
  enum { T = 4, N = 3, M = 5 };
  bench b = bench_open(NMB_OP_CONCAT, 1, T, 0);
  const float *x = bench_in(&b, NMB_ROLE_ACT, DIMS(T, N));
  const float *z = bench_in(&b, NMB_ROLE_ACT, DIMS(T, 1, M));
  const float *y = bench_out(&b, NMB_DT_F32, DIMS(T, N + M));
  bench_run(&b);
  for (int t = 0; t < T; t++) {
    CU_ASSERT_EQUAL(memcmp(y + t * (N + M), x + t * N, N * sizeof *x), 0);
    CU_ASSERT_EQUAL(memcmp(y + t * (N + M) + N, z + t * M, M * sizeof *z), 0);
  }
  bench_tiles(&b, 1, 3, N + M);
  bench_close(&b);
}

/* Each chosen key goes to the place that as many chosen ones before it say; `each`: a
 * choice for every two heads, or one for all. */
static void
check_take(bool each)
{
  enum { B = 3, S = 9, K = 4, N = 4, D = 5 };
  const int n = each ? N / 2 : 1;
  bench b = bench_open(NMB_OP_TAKE, B, 1, S - 1);
  float *mask = each ? bench_in(&b, NMB_ROLE_ACT, DIMS(B, 1, N / 2, S))
                     : bench_in(&b, NMB_ROLE_ACT, DIMS(B, S));
  const float *x = bench_in(&b, NMB_ROLE_KV, DIMS(B, S, N, D));
  const float *y = bench_out(&b, NMB_DT_F32, DIMS(B, K, N, D));
  for (int r = 0; r < B * n; r++) /* K of each row, not the same ones */
    for (int s = 0, left = K; s < S; s++) {
      const int at = (s * 4 + 2 * r) % S; /* 4 and 9 have no common divisor */
      mask[r * S + at] = left-- > 0 ? 0 : -INFINITY;
    }
  bench_run(&b);
  for (int r = 0; r < B * N; r++) {
    const float *row = mask + (r / N * n + r % N * n / N) * S;
    for (int s = 0, before = 0; s < S; s++)
      if (row[s] >= 0) {
        CU_ASSERT_EQUAL(memcmp(y + ((r / N * K + before) * N + r % N) * D,
                               x + ((r / N * S + s) * N + r % N) * D, D * sizeof *x),
                        0);
        before++;
      }
  }
  bench_tiles(&b, 1, 2, K * N * D);
  mask[0] = mask[1] = mask[2] = mask[3] = mask[4] = 0; /* too many */
  CU_ASSERT_EQUAL(nmb__op_eval(b.run, b.p, b.id, NULL, &b.v), NMB_BADINPUT);
  bench_close(&b);
}

static void
test_take(void)
{
  check_take(false);
  check_take(true);
}

UNIT_MAIN("mixing", {"chosen keys are taken in their order", test_take},
          {"an indexer picks keys", test_pick},
          {"a bias that is that of all heads", test_bias_of_all},
          {"attention pair by pair over positions, in all its variants", test_attention},
          {"a windowed cache holds what its new tokens see", test_window},
          {"a sink takes part of the sum and gives no value", test_sink},
          {"a bias goes by head and token", test_bias},
          {"convolution over the past, in one step or many", test_conv},
          {"a scan is its chunked form of matrix products", test_scan},
          {"a scan that reads and drops is a product of matrices", test_read_drop},
          {"wkv is a mean over all that came before", test_wkv},
          {"concat puts rows side by side", test_concat})
