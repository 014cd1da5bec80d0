/* SPDX-License-Identifier: GPL-3.0-or-later */
/* One block of each kind against the formulas of its paper, written out here in double
 * over whole sequences: what the graph of a family says is what the family computes.
 * Weights are those that the evaluation drew, by name. */
#include <complex.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/run.h"
#include "frontend/model.h"
#include "ir/eval.h"
#include "tests/unit/unit.h"

enum { T = 9, H = 32, MOST = 64 };
typedef double rows[T][MOST];

typedef struct named {
  char name[64];
  float *v;
} named;

typedef struct captured {
  int64_t position; /* of the block that is looked at */
  int n;
  named v[96];
  rows in, out;
} captured;

/* ------------------------------------------------------------------- capture */
static void
keep(captured *c, const nmb_tensor *t, const void *v)
{
  if (t->role != NMB_ROLE_WEIGHT || c->n == 96)
    return;
  const size_t bytes = (size_t)nmb_tensor_count(t) * sizeof(float);
  named *x = &c->v[c->n++];
  strncpy(x->name, t->name, sizeof x->name - 1);
  x->v = malloc(bytes);
  memcpy(x->v, v, bytes);
}

static void
take(rows to, const float *from)
{
  for (int i = 0; i < T * H; i++)
    to[i / H][i % H] = (double)from[i];
}

static void
watch(void *self, const nmb_prog *p, const nmb__place *at, nmb_id op, const nmb__vals *v)
{
  captured *c = self;
  const nmb_block *b = &p->block[at->block];
  const nmb_op *o = &p->op[op];
  if (at->position != c->position)
    return;
  for (int i = 0; i < o->nin; i++) {
    keep(c, &p->tensor[o->in[i]], v->in[i]);
    if (o->in[i] == b->in)
      take(c->in, v->in[i]);
  }
  if (o->out[0] == b->out)
    take(c->out, v->out[0]);
}

static captured
capture(const char *family, int64_t position)
{
  static const uint64_t seed = 4;
  static const nmb__routing_spec routing = {"uniform", 1, 1};
  captured c = {.position = position};
  const char *top = getenv("srcdir") ? getenv("srcdir") : ".";
  const nmb__weights w = nmb__weights_random(&seed);
  nmb_run *run = nmb__run_open(stderr);
  const nmb__arch *a;
  nmb_prog *p;
  const float *y;
  int64_t n, m;
  int32_t ids[T];
  for (int i = 0; i < T; i++)
    ids[i] = 7 * i % 61;
  CU_ASSERT_EQUAL_FATAL(
      nmb__arch_load(run, nmb_format(run, "%s/tests/data/tiny/%s.json", top, family), &a),
      NMB_OK);
  CU_ASSERT_EQUAL_FATAL(
      nmb__graph_build(run, a, (nmb_step_spec){NMB_PREFILL, 1, T, 0}, &routing, &p),
      NMB_OK);
  nmb__eval *e =
      nmb__eval_open(&w, &(nmb__eval_options){.watch = watch, .watch_self = &c});
  CU_ASSERT_EQUAL(nmb__eval_step(run, e, p, ids, &y, &n, &m), NMB_OK);
  nmb__eval_close(e);
  nmb_prog_free(p);
  nmb__run_close(run);
  return c;
}

static void
release(captured *c)
{
  for (int i = 0; i < c->n; i++)
    free(c->v[i].v);
}

static const float *
find(const captured *c, const char *name, const char *more)
{
  char full[80];
  snprintf(full, sizeof full, "%s%s", name, more);
  for (int i = 0; i < c->n; i++)
    if (!strcmp(c->v[i].name, full))
      return c->v[i].v;
  return NULL;
}

static const float *
need(const captured *c, const char *name)
{
  const float *v = find(c, name, "");
  if (!v)
    printf("\n  there is no %s\n", name);
  CU_ASSERT_FATAL(v != NULL);
  return v;
}

static void
equal(const captured *c, rows y)
{
  double worst = 0;
  for (int i = 0; i < T * H; i++) {
    const double d = fabs(c->out[i / H][i % H] - y[i / H][i % H]);
    worst = d <= worst ? worst : d;
  }
  if (!(worst < 3e-5))
    printf("\n  %.3g apart\n", worst);
  CU_ASSERT_TRUE(worst < 3e-5);
}

/* --------------------------------------------------------------------- parts */
static void
product_of(const float *w, const float *bias, rows x, int n, int k, rows y)
{
  for (int t = 0; t < T; t++)
    for (int i = 0; i < n; i++) {
      y[t][i] = bias ? (double)bias[i] : 0;
      for (int j = 0; j < k; j++)
        y[t][i] += (double)w[i * k + j] * x[t][j];
    }
}

static void
product(const captured *c, const char *name, rows x, int n, int k, rows y)
{
  product_of(need(c, name), find(c, name, ".bias"), x, n, k, y);
}

/* (x - mean) / deviation * (w + offset): the mean only if `centred`; runs of n. */
static void
normed(const captured *c, const char *name, rows x, int n, int runs, double eps,
       double offset, bool centred, rows y)
{
  const float *w = name ? need(c, name) : NULL;
  const float *bias = name ? find(c, name, ".bias") : NULL;
  for (int t = 0; t < T; t++)
    for (int r = 0; r < runs; r++) {
      double mean = 0, var = 0;
      for (int i = 0; i < n; i++)
        mean += centred ? x[t][r * n + i] / n : 0;
      for (int i = 0; i < n; i++)
        var += pow(x[t][r * n + i] - mean, 2) / n;
      for (int i = 0; i < n; i++)
        y[t][r * n + i] =
            (x[t][r * n + i] - mean) / sqrt(var + eps) * (w ? (double)w[i] + offset : 1) +
            (bias ? (double)bias[i] : 0);
    }
}

static void
plus(rows a, rows b, rows y)
{
  for (int i = 0; i < T * H; i++)
    y[i / H][i % H] = a[i / H][i % H] + b[i / H][i % H];
}

/* All of each head of d turns; pairs but the first `slower` times less, and grow by
 * `times`. */
static void
scaled_turn(rows x, int heads, int d, double theta, bool adjacent, double slower,
            double times)
{
  for (int t = 0; t < T; t++)
    for (int h = 0; h < heads; h++)
      for (int j = 0; j < d / 2; j++) {
        double *a = &x[t][h * d + (adjacent ? 2 * j : j)];
        double *b = adjacent ? a + 1 : a + d / 2;
        const double f = exp(-2.0 * j / d * log(theta)) / (j ? slower : 1);
        const double complex z = times * (*a + *b * I) * cexp(I * (double)t * f);
        *a = creal(z);
        *b = cimag(z);
      }
}

static void
turned(rows x, int heads, int d, double theta, bool adjacent)
{
  scaled_turn(x, heads, d, theta, adjacent, 1, 1);
}

typedef struct heads {
  int nh, nk, d, window;
  double scale, cap;
  const float *sink;
} heads;

static void
attended(const heads *a, rows q, rows k, rows v, rows y)
{
  for (int t = 0; t < T; t++)
    for (int h = 0; h < a->nh; h++) {
      const int g = h / (a->nh / a->nk) * a->d;
      double below = a->sink ? exp((double)a->sink[h]) : 0;
      for (int i = 0; i < a->d; i++)
        y[t][h * a->d + i] = 0;
      for (int s = t; s >= 0 && (!a->window || s > t - a->window); s--) {
        double x = 0;
        for (int i = 0; i < a->d; i++)
          x += a->scale * q[t][h * a->d + i] * k[s][g + i];
        x = exp(a->cap > 0 ? a->cap * tanh(x / a->cap) : x);
        below += x;
        for (int i = 0; i < a->d; i++)
          y[t][h * a->d + i] += x * v[s][g + i];
      }
      for (int i = 0; i < a->d; i++)
        y[t][h * a->d + i] /= below;
    }
}

static double
silu(double x)
{
  return x / (1 + exp(-x));
}

static double
gelu_tanh(double x)
{
  return x / (1 + exp(-1.5957691216057308 * (x + 0.044715 * x * x * x)));
}

static double
softplus(double x)
{
  return log(1 + exp(x));
}

/* down(fn(gate x) * up x); without a gate down(fn(up x)) */
static void
network(const captured *c, const char *of, rows x, int width, double (*fn)(double),
        rows y)
{
  rows g, u;
  char name[3][32];
  snprintf(name[0], sizeof name[0], "%s.gate", of);
  snprintf(name[1], sizeof name[1], "%s.up", of);
  snprintf(name[2], sizeof name[2], "%s.down", of);
  const bool gated = find(c, name[0], "") != NULL;
  product(c, name[1], x, width, H, u);
  if (gated)
    product(c, name[0], x, width, H, g);
  for (int i = 0; i < T * width; i++) {
    double *z = &u[i / width][i % width];
    *z = gated ? fn(g[i / width][i % width]) * *z : fn(*z);
  }
  product(c, name[2], u, H, width, y);
}

enum { EXPERTS = 8, REACHED = 2 };

/* The gpt-oss gate, or SiLU. */
static double
inner(bool oai, double g, double u)
{
  if (!oai)
    return silu(g) * u;
  g = fmin(g, 7);
  return g / (1 + exp(-1.702 * g)) * (fmax(fmin(u, 7), -7) + 1);
}

/* weight[t][e] is 0 for the experts that a token does not reach. */
static void
experts(const captured *c, rows x, double weight[T][EXPERTS], int width, bool oai, rows y)
{
  static const char *const name[] = {"moe.gate", "moe.up", "moe.down"};
  for (int i = 0; i < T * H; i++)
    y[i / H][i % H] = 0;
  for (int e = 0; e < EXPERTS; e++) {
    rows z[3];
    for (int j = 0; j < 3; j++) {
      const int n = j == 2 ? H : width, k = j == 2 ? width : H;
      const float *bias = find(c, name[j], ".bias");
      product_of(need(c, name[j]) + e * n * k, bias ? bias + e * n : NULL,
                 j == 2 ? z[0] : x, n, k, z[j]);
      for (int i = 0; j == 1 && i < T * n; i++)
        z[0][i / n][i % n] = inner(oai, z[0][i / n][i % n], z[1][i / n][i % n]);
    }
    for (int i = 0; i < T * H; i++)
      y[i / H][i % H] += weight[i / H][e] * z[2][i / H][i % H];
  }
}

/* An expert is reached if fewer than REACHED have a larger key. */
static bool
reached(const double *key, int e)
{
  int above = 0;
  for (int i = 0; i < EXPERTS; i++)
    above += key[i] > key[e];
  return above < REACHED;
}

/* --------------------------------------------------------------------- blocks */
/* Llama (arXiv:2302.13971): h += A(N h); h += F(N h). */
static void
test_llama(void)
{
  captured c = capture("llama", 2);
  rows x, q, k, v, y, h;
  const heads a = {4, 2, 8, 0, 1 / sqrt(8), 0, NULL};
  normed(&c, "attn.norm", c.in, H, 1, 1e-5, 0, false, x);
  product(&c, "attn.q", x, 32, H, q);
  product(&c, "attn.k", x, 16, H, k);
  product(&c, "attn.v", x, 16, H, v);
  /* pairs but the first have wavelengths above 64: factor 8 (Llama 3.1) */
  scaled_turn(q, 4, 8, 500000, false, 8, 1);
  scaled_turn(k, 2, 8, 500000, false, 8, 1);
  attended(&a, q, k, v, y);
  product(&c, "attn.o", y, H, 32, x);
  plus(c.in, x, h);
  normed(&c, "ffn.norm", h, H, 1, 1e-5, 0, false, x);
  network(&c, "ffn", x, 48, silu, y);
  plus(h, y, x);
  equal(&c, x);
  release(&c);
}

/* Gemma 2 (arXiv:2408.00118): norms before and after, weights from 1, capped scores; even
 * layers see a window. */
static void
test_gemma2(void)
{
  for (int layer = 0; layer < 2; layer++) {
    captured c = capture("gemma2", 1 + layer);
    rows x, q, k, v, y, h;
    const heads a = {4, 2, 8, layer ? 0 : 6, 1 / sqrt(8), 50, NULL};
    normed(&c, "attn.norm", c.in, H, 1, 1e-6, 1, false, x);
    product(&c, "attn.q", x, 32, H, q);
    product(&c, "attn.k", x, 16, H, k);
    product(&c, "attn.v", x, 16, H, v);
    turned(q, 4, 8, 10000, false);
    turned(k, 2, 8, 10000, false);
    attended(&a, q, k, v, y);
    product(&c, "attn.o", y, H, 32, x);
    normed(&c, "attn.post_norm", x, H, 1, 1e-6, 1, false, y);
    plus(c.in, y, h);
    normed(&c, "ffn.norm", h, H, 1, 1e-6, 1, false, x);
    network(&c, "ffn", x, 48, gelu_tanh, y);
    normed(&c, "ffn.post_norm", y, H, 1, 1e-6, 1, false, x);
    plus(h, x, y);
    equal(&c, y);
    release(&c);
  }
}

/* Command-R: one LayerNorm, attention and network side by side, adjacent pairs. */
static void
test_cohere(void)
{
  captured c = capture("cohere", 1);
  rows x, q, k, v, y, h;
  const heads a = {4, 4, 8, 0, 1 / sqrt(8), 0, NULL};
  normed(&c, "attn.norm", c.in, H, 1, 1e-5, 0, true, x);
  product(&c, "attn.q", x, 32, H, q);
  product(&c, "attn.k", x, 32, H, k);
  product(&c, "attn.v", x, 32, H, v);
  turned(q, 4, 8, 8e6, true);
  turned(k, 4, 8, 8e6, true);
  attended(&a, q, k, v, y);
  product(&c, "attn.o", y, H, 32, q);
  network(&c, "ffn", x, 48, silu, y);
  plus(c.in, q, h);
  plus(h, y, x);
  equal(&c, x);
  release(&c);
}

/* gpt-oss (arXiv:2508.10925): sinks, windows, biases; weights by softmax of the chosen.
 */
static void
test_gpt_oss(void)
{
  captured c = capture("gpt_oss", 1);
  rows x, q, k, v, y, h, z;
  double w[T][EXPERTS];
  const heads a = {4, 2, 8, 6, 1 / sqrt(8), 0, need(&c, "attn.sink")};
  normed(&c, "attn.norm", c.in, H, 1, 1e-5, 0, false, x);
  product(&c, "attn.q", x, 32, H, q);
  product(&c, "attn.k", x, 16, H, k);
  product(&c, "attn.v", x, 16, H, v);
  /* YaRN with factor 32: pairs but the first turn less than once in 64 positions */
  scaled_turn(q, 4, 8, 150000, false, 32, 0.1 * log(32) + 1);
  scaled_turn(k, 2, 8, 150000, false, 32, 0.1 * log(32) + 1);
  attended(&a, q, k, v, y);
  product(&c, "attn.o", y, H, 32, x);
  plus(c.in, x, h);
  normed(&c, "ffn.norm", h, H, 1, 1e-5, 0, false, x);
  product(&c, "moe.router", x, EXPERTS, H, z);
  for (int t = 0; t < T; t++) {
    double sum = 0;
    for (int e = 0; e < EXPERTS; e++)
      sum += w[t][e] = reached(z[t], e) ? exp(z[t][e]) : 0;
    for (int e = 0; e < EXPERTS; e++)
      w[t][e] /= sum;
  }
  experts(&c, x, w, 48, true, y);
  plus(h, y, x);
  equal(&c, x);
  release(&c);
}

/* DeepSeek-V3 (arXiv:2412.19437): latent attention in its absorbed form, experts by
 * biased sigmoid scores within the best groups. */
static void
latent(const captured *c, rows x, rows y)
{
  enum { NH = 4, DN = 8, DR = 4, DV = 8, RK = 16 };
  const float *uk = need(c, "attn.k_up"), *uv = need(c, "attn.v_up");
  const double m = 0.1 * log(40) + 1; /* on the scores twice; YaRN: factor 40 */
  rows z, q, kv, lat, out, wide, qr, kr;
  product(c, "attn.q_down", x, 24, H, z);
  normed(c, "attn.q_down_norm", z, 24, 1, 1e-6, 0, false, q);
  product(c, "attn.q_up", q, NH * (DN + DR), 24, z);
  product(c, "attn.kv_down", x, RK + DR, H, kv);
  normed(c, "attn.kv_norm", kv, RK, 1, 1e-6, 0, false, lat);
  for (int t = 0; t < T; t++) /* adjacent pairs; both frequencies turn less than once in
                                 64 positions, the second so little that it is scaled */
    for (int i = 0; i < (NH + 1) * 2; i++) {
      const int head = i / 2, j = i % 2;
      const double *u =
          head < NH ? &z[t][head * (DN + DR) + DN + 2 * j] : &kv[t][RK + 2 * j];
      const double f[] = {1, 0.01 / 40};
      const double complex turn = (u[0] + u[1] * I) * cexp(I * (double)t * f[j]);
      double *to = head < NH ? &qr[t][head * DR + 2 * j] : &kr[t][2 * j];
      to[0] = creal(turn);
      to[1] = cimag(turn);
    }
  for (int h = 0; h < NH; h++)
    for (int t = 0; t < T; t++) {
      double below = 0, sum[RK] = {0}, ql[RK] = {0};
      for (int i = 0; i < DN * RK; i++) /* Wuk^T q */
        ql[i % RK] += z[t][h * (DN + DR) + i / RK] * (double)uk[h * DN * RK + i];
      for (int s = 0; s <= t; s++) {
        double e = 0;
        for (int r = 0; r < RK; r++)
          e += ql[r] * lat[s][r];
        for (int r = 0; r < DR; r++)
          e += qr[t][h * DR + r] * kr[s][r];
        e = exp(e * m * m / sqrt(DN + DR));
        below += e;
        for (int r = 0; r < RK; r++)
          sum[r] += e * lat[s][r];
      }
      for (int i = 0; i < DV; i++) {
        wide[t][h * DV + i] = 0;
        for (int r = 0; r < RK; r++)
          wide[t][h * DV + i] += (double)uv[(h * DV + i) * RK + r] * sum[r] / below;
      }
    }
  product(c, "attn.o", wide, H, NH * DV, out);
  memcpy(y, out, sizeof out);
}

static void
test_deepseek(void)
{
  captured c = capture("deepseek_v3", 2);
  const float *bias = need(&c, "moe.select.bias");
  rows x, y, h, z;
  double w[T][EXPERTS];
  normed(&c, "attn.norm", c.in, H, 1, 1e-6, 0, false, x);
  latent(&c, x, y);
  plus(c.in, y, h);
  normed(&c, "ffn.norm", h, H, 1, 1e-6, 0, false, x);
  product(&c, "moe.router", x, EXPERTS, H, z);
  for (int t = 0; t < T; t++) {
    double s[EXPERTS], key[EXPERTS], sum = 0;
    for (int e = 0; e < EXPERTS; e++) {
      s[e] = 1 / (1 + exp(-z[t][e]));
      key[e] = s[e] + (double)bias[e];
    }
    for (int g = 0; g < 4; g++) { /* pairs; the two with the larger sums stay */
      int better = 0;
      for (int o = 0; o < 4; o++)
        better += key[2 * o] + key[2 * o + 1] > key[2 * g] + key[2 * g + 1];
      w[t][2 * g] = w[t][2 * g + 1] = better < 2;
    }
    for (int e = 0; e < EXPERTS; e++)
      key[e] = w[t][e] > 0 ? key[e] : -INFINITY;
    for (int e = 0; e < EXPERTS; e++)
      sum += w[t][e] = reached(key, e) ? s[e] : 0;
    for (int e = 0; e < EXPERTS; e++)
      w[t][e] *= 2.5 / sum;
  }
  experts(&c, x, w, 24, false, y);
  plus(h, y, z);
  network(&c, "shared", x, 24, silu, y);
  plus(z, y, x);
  equal(&c, x);
  release(&c);
}

/* SiLU of the causal convolution of what `name` makes of x. */
static void
convolved(const captured *c, const char *name, rows x, int n, rows y)
{
  char full[2][40];
  snprintf(full[0], sizeof full[0], "mixer.%s", name);
  snprintf(full[1], sizeof full[1], "mixer.conv.%s", name);
  const float *w = need(c, full[1]), *bias = find(c, full[1], ".bias");
  rows z;
  product(c, full[0], x, n, H, z);
  for (int t = 0; t < T; t++)
    for (int i = 0; i < n; i++) {
      double s = bias ? (double)bias[i] : 0;
      for (int ago = 0; ago < 4 && ago <= t; ago++)
        s += (double)w[4 * i + 3 - ago] * z[t - ago][i];
      y[t][i] = silu(s);
    }
}

/* Mamba (arXiv:2312.00752), all of the past summed for each token. */
static void
test_mamba(void)
{
  enum { DI = 64, N = 8, R = 4 };
  captured c = capture("mamba", 1);
  const float *a = need(&c, "mixer.a_log"), *d = need(&c, "mixer.d");
  const float *db = need(&c, "mixer.dt_bias");
  rows x, u, z, r, B, C, dt, y;
  normed(&c, "attn.norm", c.in, H, 1, 1e-5, 0, false, x);
  product(&c, "mixer.z", x, DI, H, z);
  convolved(&c, "x", x, DI, u);
  product(&c, "mixer.dt_down", u, R, DI, r);
  product(&c, "mixer.b", u, N, DI, B);
  product(&c, "mixer.c", u, N, DI, C);
  product(&c, "mixer.dt_up", r, DI, R, dt);
  for (int t = 0; t < T; t++)
    for (int i = 0; i < DI; i++) {
      dt[t][i] = softplus(dt[t][i] + (double)db[i]);
      double sum = (double)d[i] * u[t][i], since = 0; /* steps since s */
      for (int s = t; s >= 0; since += dt[s--][i])
        for (int n = 0; n < N; n++)
          sum += exp(-exp((double)a[i * N + n]) * since) * dt[s][i] * B[s][n] * u[s][i] *
                 C[t][n];
      y[t][i] = sum * silu(z[t][i]);
    }
  product(&c, "mixer.o", y, H, DI, x);
  plus(c.in, x, z);
  equal(&c, z);
  release(&c);
}

/* Mamba-2 (arXiv:2405.21060) as attention with decay; two groups of keys and queries. */
static void
test_mamba2(void)
{
  enum { M = 8, D = 8, N = 8 };
  captured c = capture("mamba2", 1);
  const float *a = need(&c, "mixer.a_log"), *d = need(&c, "mixer.d");
  const float *db = need(&c, "mixer.dt_bias");
  rows x, v, z, B, C, dt, y;
  normed(&c, "attn.norm", c.in, H, 1, 1e-5, 0, false, x);
  product(&c, "mixer.z", x, M * D, H, z);
  convolved(&c, "x", x, M * D, v);
  convolved(&c, "b", x, 2 * N, B);
  convolved(&c, "c", x, 2 * N, C);
  product(&c, "mixer.dt", x, M, H, dt);
  for (int t = 0; t < T; t++)
    for (int h = 0; h < M; h++) {
      dt[t][h] = softplus(dt[t][h] + (double)db[h]);
      for (int i = 0; i < D; i++) {
        double sum = (double)d[h] * v[t][h * D + i], since = 0;
        for (int s = t; s >= 0; since += dt[s--][h]) {
          double cb = 0;
          for (int n = 0; n < N; n++)
            cb += C[t][h / 4 * N + n] * B[s][h / 4 * N + n];
          sum += exp(-exp((double)a[h]) * since) * dt[s][h] * cb * v[s][h * D + i];
        }
        y[t][h * D + i] = sum;
      }
    }
  for (int i = 0; i < T * M * D; i++)
    y[i / (M * D)][i % (M * D)] *= silu(z[i / (M * D)][i % (M * D)]);
  normed(&c, NULL, y, M * D / 2, 2, 1e-5, 0, false, v); /* after the gate, by groups */
  for (int i = 0; i < T * M * D; i++)
    v[i / (M * D)][i % (M * D)] *= (double)need(&c, "mixer.norm")[i % (M * D)];
  product(&c, "mixer.o", v, H, M * D, x);
  plus(c.in, x, y);
  equal(&c, y);
  release(&c);
}

/* Gated DeltaNet (arXiv:2412.06464): S <- a S (1 - b k k^T) + b v k^T. */
static void
delta(const captured *c, rows x, rows y)
{
  enum { NV = 4, D = 8 };
  const float *a_log = need(c, "mixer.a_log"), *db = need(c, "mixer.dt_bias");
  rows q, k, v, z, dt, b, o;
  convolved(c, "q", x, 16, q);
  convolved(c, "k", x, 16, k);
  convolved(c, "v", x, 32, v);
  product(c, "mixer.z", x, 32, H, z);
  product(c, "mixer.dt", x, NV, H, dt);
  product(c, "mixer.beta", x, NV, H, b);
  for (int h = 0; h < NV; h++) {
    double S[D][D] = {{0}};
    for (int t = 0; t < T; t++) {
      const double *kt = &k[t][h / 2 * D], *qt = &q[t][h / 2 * D];
      const double a = exp(-exp((double)a_log[h]) * softplus(dt[t][h] + (double)db[h]));
      const double beta = 1 / (1 + exp(-b[t][h]));
      double kk = 1e-6, qq = 1e-6;
      for (int i = 0; i < D; i++) {
        kk += kt[i] * kt[i];
        qq += qt[i] * qt[i];
      }
      for (int n = 0; n < D; n++) {
        double Sk = 0, sum = 0;
        for (int i = 0; i < D; i++)
          Sk += S[n][i] * kt[i] / sqrt(kk);
        for (int i = 0; i < D; i++) {
          S[n][i] = a * (S[n][i] - beta * Sk * kt[i] / sqrt(kk)) +
                    beta * v[t][h * D + n] * kt[i] / sqrt(kk);
          sum += S[n][i] * qt[i] / sqrt(qq) / sqrt(D);
        }
        o[t][h * D + n] = sum;
      }
    }
  }
  normed(c, "mixer.norm", o, D, NV, 1e-6, 0, false, q);
  for (int i = 0; i < T * 32; i++)
    q[i / 32][i % 32] *= silu(z[i / 32][i % 32]);
  product(c, "mixer.o", q, H, 32, y);
}

static void
test_delta(void)
{
  captured c = capture("qwen3_next", 1);
  rows x, y, h, z, gate;
  double w[T][EXPERTS];
  normed(&c, "attn.norm", c.in, H, 1, 1e-6, 1, false, x);
  delta(&c, x, y);
  plus(c.in, y, h);
  normed(&c, "ffn.norm", h, H, 1, 1e-6, 1, false, x);
  product(&c, "moe.router", x, EXPERTS, H, z);
  for (int t = 0; t < T; t++) {
    double sum = 0;
    for (int e = 0; e < EXPERTS; e++)
      sum += w[t][e] = reached(z[t], e) ? exp(z[t][e]) : 0;
    for (int e = 0; e < EXPERTS; e++)
      w[t][e] /= sum;
  }
  experts(&c, x, w, 24, false, y);
  plus(h, y, z);
  network(&c, "shared", x, 24, silu, y);
  product(&c, "shared.score", x, 1, H, gate);
  for (int i = 0; i < T * H; i++)
    z[i / H][i % H] += y[i / H][i % H] / (1 + exp(-gate[i / H][0]));
  equal(&c, z);
  release(&c);
}

UNIT_MAIN("blocks", {"Llama", test_llama},
          {"Gemma 2, with a window and without", test_gemma2}, {"Command-R", test_cohere},
          {"gpt-oss", test_gpt_oss}, {"DeepSeek-V3, absorbed", test_deepseek},
          {"Mamba", test_mamba}, {"Mamba-2", test_mamba2},
          {"Qwen3-Next's DeltaNet", test_delta})
