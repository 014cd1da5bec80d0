/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Values of a token side by side: the ops that mix them, and models that carry them from
 * layer to layer, against the formulas of their papers in another formulation. */
#include "tests/unit/opbench.h"
#include "tests/unit/watched.h"

/* ----------------------------------------------------------------------- ops */
/* The sum as a product with the whole block matrix of w and the identity. */
static void
check_mix(bool transposed)
{
  enum { T = 5, M = 3, N = 4, H = 6 };
  bench b = bench_open(NMB_OP_MIX, 1, T, 0);
  const float *w = bench_in(&b, NMB_ROLE_ACT, DIMS(T, M * N));
  const float *x = bench_in(&b, NMB_ROLE_ACT, DIMS(T, N *H));
  const float *y = bench_out(&b, NMB_DT_F32, DIMS(T, M *H));
  bench_attr(&b, NMB_INT("streams", N));
  bench_attr(&b, NMB_INT("transposed", transposed));
  bench_run(&b);
  for (int t = 0; t < T; t++)
    for (int row = 0; row < M * H; row++) {
      double sum = 0;
      for (int col = 0; col < N * H; col++) {
        const int i = row / H, j = col / H;
        const double big = row % H == col % H
                               ? (double)w[t * M * N + (transposed ? j * M + i : i * N + j)]
                               : 0;
        sum += big * (double)x[t * N * H + col];
      }
      NEAR(y[t * M * H + row], sum, 1e-6);
    }
  bench_tiles(&b, 1, 2, 5);
  bench_close(&b);
}

static void
test_mix(void)
{
  check_mix(false);
  check_mix(true);
}

static void
test_dot(void)
{
  enum { T = 4, N = 3, H = 7 };
  bench b = bench_open(NMB_OP_DOT, 1, T, 0);
  const float *x = bench_in(&b, NMB_ROLE_ACT, DIMS(T, N *H));
  const float *q = bench_in(&b, NMB_ROLE_WEIGHT, DIMS(H));
  const float *y = bench_out(&b, NMB_DT_F32, DIMS(T, N));
  bench_run(&b);
  for (int i = 0; i < T * N; i++) { /* by |x + q|^2 - |x - q|^2 */
    double sum = 0;
    for (int j = 0; j < H; j++) {
      const double more = (double)x[i * H + j] + (double)q[j],
                   less = (double)x[i * H + j] - (double)q[j];
      sum += (more * more - less * less) / 4;
    }
    NEAR(y[i], sum, 1e-6);
  }
  bench_tiles(&b, 1, 3, 2);
  bench_close(&b);
}

/* Shares of a row: ratios are exponentials of differences. */
static void
test_softmax(void)
{
  enum { T = 4, N = 5 };
  bench b = bench_open(NMB_OP_NORM, 1, T, 0);
  const float *x = bench_in(&b, NMB_ROLE_ACT, DIMS(T, N));
  const float *y = bench_out(&b, NMB_DT_F32, DIMS(T, N));
  bench_attr(&b, NMB_SYM("kind", "softmax"));
  bench_attr(&b, NMB_REAL("eps", 1e-6));
  bench_run(&b);
  for (int t = 0; t < T; t++) {
    double sum = 0;
    for (int i = 0; i < N; i++) {
      sum += (double)y[t * N + i];
      NEAR((double)y[t * N + i] / (double)y[t * N],
           exp((double)x[t * N + i] - (double)x[t * N]), 1e-6);
    }
    NEAR(sum, 1, 1e-6);
  }
  bench_tiles(&b, 1, 2, N);
  bench_close(&b);
}

/* Sinkhorn and Knopp: the limit is diag(r) exp(x) diag(c) with sums of 1; r and c are
 * found here by turns on vectors, and after few rounds they are those of as many turns. */
static void
check_sinkhorn(int rounds)
{
  enum { T = 3, N = 4 };
  bench b = bench_open(NMB_OP_NORM, 1, T, 0);
  const float *x = bench_in(&b, NMB_ROLE_ACT, DIMS(T, N *N));
  const float *y = bench_out(&b, NMB_DT_F32, DIMS(T, N *N));
  bench_attr(&b, NMB_SYM("kind", "sinkhorn"));
  bench_attr(&b, NMB_REAL("eps", 1e-9));
  bench_attr(&b, NMB_INT("rounds", rounds));
  bench_run(&b);
  for (int t = 0; t < T; t++) {
    double r[N], c[N] = {1, 1, 1, 1};
    for (int k = 0; k < rounds; k++) {
      for (int i = 0; i < N; i++) {
        double sum = 0;
        for (int j = 0; j < N; j++)
          sum += exp((double)x[(t * N + i) * N + j]) * c[j];
        r[i] = 1 / sum;
      }
      for (int j = 0; j < N; j++) {
        double sum = 0;
        for (int i = 0; i < N; i++)
          sum += exp((double)x[(t * N + i) * N + j]) * r[i];
        c[j] = 1 / sum;
      }
    }
    for (int i = 0; i < N * N; i++)
      NEAR(y[t * N * N + i], r[i / N] * exp((double)x[t * N * N + i]) * c[i % N], 1e-5);
  }
  bench_tiles(&b, 1, 1, N * N);
  bench_close(&b);
}

static void
test_sinkhorn(void)
{
  check_sinkhorn(1);
  check_sinkhorn(3);
  check_sinkhorn(40);
}

/* situ by exponentials alone: tanh(z) = 1 - 2 / (e^2z + 1). */
static void
test_situ(void)
{
  enum { T = 6, N = 11 };
  for (int bent = 0; bent < 2; bent++) {
    bench b = bench_open(NMB_OP_GLU, 1, T, 0);
    float *g = bench_in(&b, NMB_ROLE_ACT, DIMS(T, N));
    float *u = bench_in(&b, NMB_ROLE_ACT, DIMS(T, N));
    const float *y = bench_out(&b, NMB_DT_F32, DIMS(T, N));
    bench_attr(&b, NMB_SYM("fn", "situ"));
    bench_attr(&b, NMB_REAL("limit", 4));
    if (bent)
      bench_attr(&b, NMB_REAL("up_limit", 25));
    for (int i = 0; i < T * N; i++) {
      g[i] *= 9;
      u[i] *= 60;
    }
    bench_run(&b);
    for (int i = 0; i < T * N; i++) {
      const double x = (double)g[i], up = (double)u[i];
      const double gate = 4 * (1 - 2 / (exp(x / 2) + 1)) / (1 + exp(-x));
      NEAR(y[i], gate * (bent ? 25 * (1 - 2 / (exp(2 * up / 25) + 1)) : up), 1e-5);
    }
    bench_tiles(&b, 1, 4, 3);
    bench_close(&b);
  }
}

/* ------------------------------------------------- attention to sums of layers */
enum { TOKENS = 6, WIDE = 32, LAYERS = 5, EACH = 3, MOSTV = 64 };
typedef double values[TOKENS][WIDE];

/* What each layer's two parts read and gave, and what weights they had. */
typedef struct parts {
  values read[2 * LAYERS + 1], gave[2 * LAYERS]; /* the last: what the head reads */
  double norm[2 * LAYERS + 1][WIDE], query[2 * LAYERS + 1][WIDE];
  values embedded;
} parts;

static void
copy(values to, const float *from, int64_t n)
{
  for (int64_t i = 0; i < n; i++)
    to[i / WIDE][i % WIDE] = (double)from[i];
}

static void
copy_weight(double *to, const float *from)
{
  for (int i = 0; i < WIDE; i++)
    to[i] = (double)from[i];
}

static void
watch(void *self, const nmb_prog *p, const nmb__place *at, nmb_id op, const nmb__vals *v)
{
  parts *s = self;
  const nmb_op *o = &p->op[op];
  const char *second = o->nin > 1 ? p->tensor[o->in[1]].name : "";
  const int layer = (int)at->position - 1;
  const int which = 2 * layer + (strstr(second, "ffn") != NULL);
  if (o->code == NMB_OP_EMBED)
    copy(s->embedded, v->out[0], TOKENS * WIDE);
  if (o->code == NMB_OP_NORM && strstr(second, "residuals.norm"))
    copy_weight(s->norm[which], v->in[1]);
  if (o->code == NMB_OP_DOT)
    copy_weight(s->query[which], v->in[1]);
  if (o->code == NMB_OP_NORM &&
      (!strcmp(second, "attn.norm") || !strcmp(second, "ffn.norm")))
    copy(s->read[which], v->in[0], TOKENS * WIDE);
  if (o->code == NMB_OP_NORM && !strcmp(second, "head.norm"))
    copy(s->read[which], v->in[0], WIDE);
  if (o->code == NMB_OP_LINEAR && (!strcmp(second, "attn.o") || !strcmp(second, "mixer.o")))
    copy(s->gave[2 * layer], v->out[0], TOKENS * WIDE);
  if (o->code == NMB_OP_LINEAR && !strcmp(second, "ffn.down"))
    copy(s->gave[2 * layer + 1], v->out[0], TOKENS * WIDE);
  if (o->code == NMB_OP_ADD && !strncmp(p->tensor[o->out[0]].name, "routed", 6))
    copy(s->gave[2 * layer + 1], v->out[0], TOKENS * WIDE);
}

/* Part k of the model may read: the embedding, the sum of each block that is whole
 * before it, and what its own block has given so far (arXiv:2607.24653, eq. 9 and 10). */
static int
sources(const parts *s, int k, int t, double source[][WIDE])
{
  const int per = 2 * EACH, block = k / per;
  int n = 0;
  for (int j = 0; j < WIDE; j++)
    source[0][j] = s->embedded[t][j];
  for (n = 1; n <= block + 1; n++)
    for (int j = 0; j < WIDE; j++) {
      source[n][j] = 0;
      for (int i = (n - 1) * per; i < n * per && i < k; i++)
        source[n][j] += s->gave[i][t][j];
    }
  return k % per ? n : n - 1; /* a block that has given nothing is no source */
}

static double
expected(const parts *s, int k, int t, int column)
{
  double source[MOSTV][WIDE], below = 0, above = 0;
  const int n = sources(s, k, t, source);
  for (int i = 0; i < n; i++) {
    double dot = 0, square = 0;
    for (int j = 0; j < WIDE; j++) {
      square += source[i][j] * source[i][j] / WIDE;
      dot += source[i][j] * s->norm[k][j] * s->query[k][j];
    }
    const double e = n == 1 ? 1 : exp(dot / sqrt(square + 1e-5));
    below += e;
    above += e * source[i][column];
  }
  return above / below;
}

static void
test_sums(void)
{
  static parts s;
  const int32_t ids[TOKENS] = {5, 9, 2, 44, 5, 31};
  watched_prefill("kimi_k3", 9, ids, TOKENS, watch, &s);
  for (int k = 0; k <= 2 * LAYERS; k++)
    for (int i = 0; i < (k < 2 * LAYERS ? TOKENS : 1) * WIDE; i++) {
      const int t = k < 2 * LAYERS ? i / WIDE : TOKENS - 1;
      NEAR(s.read[k][i / WIDE][i % WIDE], expected(&s, k, t, i % WIDE), 1e-5);
    }
}

/* ------------------------------------------------------- streams and pooled caches */
/* DeepSeek-V4, a layer at a time, over a whole sequence and pair by pair. */
enum { V4T = 15, V4N = 3, V4W = V4N * WIDE, HEADS = 4, DK = 16, RANK = 24, NEAREST = 4 };

typedef struct v4 {
  int position;
  int nweight;
  struct {
    char name[48];
    const float *v;
  } weight[64];
  float in[V4T][V4W], middle[V4T][V4W], out[V4T][V4W]; /* middle: before the network */
  float mixed[V4T][WIDE], gave[V4T][WIDE], logits[V4T][8], shares[V4T][2];
  int32_t choice[V4T][2], ids[V4T];
  int norms;
} v4;

static void
v4_watch(void *self, const nmb_prog *p, const nmb__place *at, nmb_id op,
         const nmb__vals *v)
{
  v4 *s = self;
  const nmb_op *o = &p->op[op];
  const nmb_block *b = &p->block[at->block];
  if (at->position != s->position)
    return;
  for (int i = 0; i < o->nin; i++) {
    const nmb_tensor *t = &p->tensor[o->in[i]];
    if (t->role != NMB_ROLE_WEIGHT || s->nweight == 64)
      continue;
    const size_t bytes = (size_t)nmb_tensor_count(t) * sizeof(float);
    float *copied = malloc(bytes);
    memcpy(copied, v->in[i], bytes);
    strncpy(s->weight[s->nweight].name, t->name, 47);
    s->weight[s->nweight++].v = copied;
  }
  if (o->code == NMB_OP_NORM && o->nin == 1 && p->tensor[o->out[0]].dim[1] == V4W)
    memcpy(s->norms++ ? s->middle : s->in, v->in[0], sizeof s->in);
  if (o->code == NMB_OP_NORM && o->nin > 1 &&
      !strcmp(p->tensor[o->in[1]].name, "attn.norm"))
    memcpy(s->mixed, v->in[0], sizeof s->mixed);
  if (o->code == NMB_OP_TOPK) {
    memcpy(s->logits, v->in[0], sizeof s->logits);
    memcpy(s->shares, v->out[0], sizeof s->shares);
    memcpy(s->choice, v->out[1], sizeof s->choice);
  }
  if (o->code == NMB_OP_ADD && !strncmp(p->tensor[o->out[0]].name, "routed", 6))
    memcpy(s->gave, v->out[0], sizeof s->gave);
  if (o->out[0] == b->out)
    memcpy(s->out, v->out[0], sizeof s->out);
}

static const float *
v4_weight(const v4 *s, const char *name)
{
  for (int i = 0; i < s->nweight; i++)
    if (!strcmp(s->weight[i].name, name))
      return s->weight[i].v;
  printf("\n  there is no %s\n", name);
  CU_FAIL_FATAL("a weight is missing");
  return NULL;
}

static void
v4_linear(const float *w, const double *x, int n, int k, double *y)
{
  for (int i = 0; i < n; i++) {
    y[i] = 0;
    for (int j = 0; j < k; j++)
      y[i] += (double)w[i * k + j] * x[j];
  }
}

/* w: NULL for 1 */
static void
v4_norm(const float *w, double *x, int n)
{
  double sum = 1e-6 * n;
  for (int i = 0; i < n; i++)
    sum += x[i] * x[i];
  for (int i = 0; i < n; i++)
    x[i] *= sqrt(n / sum) * (w ? (double)w[i] : 1);
}

/* The last 4 of d turn by `pos` times two frequencies. */
static void
v4_turn(double *x, int d, double pos, bool pools)
{
  const double theta = pools ? 160000 : 10000, two_pi = 6.28318530717958647692;
  for (int j = 0; j < 2; j++) {
    double f = pow(theta, -j / 2.0);
    if (pools) { /* YaRN: factor 16, 16 positions at first, bounds of 32 and 1 turns */
      const double lo = fmax(floor(4 * log(16 / (two_pi * 32)) / (2 * log(theta))), 0);
      double hi = fmin(ceil(4 * log(16 / two_pi) / (2 * log(theta))), 3);
      hi = hi > lo ? hi : lo + 0.001;
      const double g = fmin(fmax((j - lo) / (hi - lo), 0), 1);
      f = f * (1 - g) + f / 16 * g;
    }
    double *a = x + d - 4 + 2 * j, *b = a + 1;
    const double c = cos(pos * f), s = sin(pos * f), was = *a;
    *a = was * c - *b * s;
    *b = was * s + *b * c;
  }
}

typedef struct v4_shares {
  double pre[V4N], post[V4N], comb[V4N][V4N];
} v4_shares;

static v4_shares
v4_say(const v4 *s, const char *part, const float *in)
{
  char name[6][48];
  static const char *const tail[] = {"scale.pre", "scale.post", "scale.comb",
                                     "base.pre",  "base.post",  "base.comb"};
  double x[V4W], m[15];
  const float *w[6];
  v4_shares y;
  for (int i = 0; i < 6; i++) {
    snprintf(name[i], sizeof name[i], "%s.hyper.%s", part, tail[i]);
    w[i] = v4_weight(s, name[i]);
  }
  for (int i = 0; i < V4W; i++)
    x[i] = (double)in[i];
  v4_norm(NULL, x, V4W);
  snprintf(name[0], sizeof name[0], "%s.hyper", part);
  v4_linear(v4_weight(s, name[0]), x, 15, V4W, m);
  for (int i = 0; i < V4N; i++) {
    double sum = 0;
    y.pre[i] = 1 / (1 + exp(-(m[i] * (double)*w[0] + (double)w[3][i]))) + 1e-6;
    y.post[i] = 2 / (1 + exp(-(m[3 + i] * (double)*w[1] + (double)w[4][i])));
    for (int j = 0; j < V4N; j++)
      sum += y.comb[i][j] =
          exp(m[6 + 3 * i + j] * (double)*w[2] + (double)w[5][3 * i + j]);
    for (int j = 0; j < V4N; j++)
      y.comb[i][j] = y.comb[i][j] / sum + 1e-6;
  }
  for (int turn = 1; turn < 8; turn++) /* columns, rows, columns, ..: 4 and 3 times */
    for (int i = 0; i < V4N; i++) {
      double sum = 1e-6;
      for (int j = 0; j < V4N; j++)
        sum += turn % 2 ? y.comb[j][i] : y.comb[i][j];
      for (int j = 0; j < V4N; j++)
        *(turn % 2 ? &y.comb[j][i] : &y.comb[i][j]) /= sum;
    }
  return y;
}

/* Stream k is the sum over j of comb[j][k] times stream j, and post[k] of what was given. */
static double
v4_spread(const v4_shares *y, const float *in, const double *gave, int i)
{
  double sum = y->post[i / WIDE] * gave[i % WIDE];
  for (int j = 0; j < V4N; j++)
    sum += y->comb[j][i / WIDE] * (double)in[j * WIDE + i % WIDE];
  return sum;
}

/* Row j of width d: of positions [jc, jc+c), and of the c before if pools overlap. */
static void
v4_pool(const v4 *s, const char *part, double x[][WIDE], int j, int c, int d, double *y)
{
  char name[4][48];
  static const char *const tail[] = {"kv", "gate", "position", "norm"};
  const int N = c == 4 ? 2 * d : d;
  double kv[64], gate[64], below[32] = {0};
  for (int i = 0; i < 4; i++)
    snprintf(name[i], sizeof name[i], "%s.%s", part, tail[i]);
  const float *bias = v4_weight(s, name[2]);
  for (int e = 0; e < d; e++)
    y[e] = 0;
  for (int t = c == 4 && j > 0 ? (j - 1) * c : j * c; t < (j + 1) * c; t++) {
    v4_linear(v4_weight(s, name[0]), x[t], N, WIDE, kv);
    v4_linear(v4_weight(s, name[1]), x[t], N, WIDE, gate);
    const int from = c == 4 && t >= j * c ? d : 0; /* its own, or for the next row */
    for (int e = 0; e < d; e++) {
      const double w = exp(gate[from + e] + (double)bias[t % c * N + from + e]);
      below[e] += w;
      y[e] += w * kv[from + e];
    }
  }
  for (int e = 0; e < d; e++)
    y[e] /= below[e];
  v4_norm(v4_weight(s, name[3]), y, d);
  v4_turn(y, d, j * c, true);
}

/* How well row j suits token t, by the indexer. */
static double
v4_suits(const v4 *s, double x[][WIDE], const double *latent, int t, int j)
{
  double q[48], k[12], w[4], sum = 0;
  v4_linear(v4_weight(s, "index.q"), latent, 48, RANK, q);
  v4_linear(v4_weight(s, "index.w"), x[t], 4, WIDE, w);
  v4_pool(s, "index.pool", x, j, 4, 12, k);
  for (int h = 0; h < 4; h++) {
    double dot = 0;
    v4_turn(q + 12 * h, 12, t, true);
    for (int e = 0; e < 12; e++)
      dot += q[12 * h + e] * k[e];
    sum += w[h] * fmax(dot, 0);
  }
  return sum;
}

/* Is row j among the two that suit token t best? */
static bool
v4_picked(const v4 *s, double x[][WIDE], const double *latent, int t, int j, int rows)
{
  int better = 0;
  const double own = v4_suits(s, x, latent, t, j);
  for (int i = 0; i < rows; i++)
    better += i != j && v4_suits(s, x, latent, t, i) > own;
  return better < 2;
}

static void
v4_latent(const v4 *s, const double *x, double *latent)
{
  v4_linear(v4_weight(s, "attn.q_down"), x, RANK, WIDE, latent);
  v4_norm(v4_weight(s, "attn.q_down_norm"), latent, RANK);
}

static void
v4_add(const double *q, const double *k, double *below, double *y)
{
  double dot = 0;
  for (int e = 0; e < DK; e++)
    dot += q[e] * k[e];
  const double w = exp(dot / 4);
  *below += w;
  for (int e = 0; e < DK; e++)
    y[e] += w * k[e];
}

/* every: positions of a pool; 0: the layer has none */
static void
v4_attend(const v4 *s, double x[][WIDE], int t, int every, double *o)
{
  double latent[RANK], q[HEADS * DK], y[HEADS * DK] = {0}, low[16], k[DK];
  const int rows = every ? (t + 1) / every : 0;
  v4_latent(s, x[t], latent);
  v4_linear(v4_weight(s, "attn.q_up"), latent, HEADS * DK, RANK, q);
  for (int h = 0; h < HEADS; h++) {
    double below = exp((double)v4_weight(s, "attn.sink")[h]), *z = y + h * DK;
    v4_norm(NULL, q + h * DK, DK);
    v4_turn(q + h * DK, DK, t, every > 0);
    for (int r = t - NEAREST + 1 > 0 ? t - NEAREST + 1 : 0; r <= t; r++) {
      v4_linear(v4_weight(s, "attn.kv"), x[r], DK, WIDE, k);
      v4_norm(v4_weight(s, "attn.kv_norm"), k, DK);
      v4_turn(k, DK, r, every > 0);
      v4_add(q + h * DK, k, &below, z);
    }
    for (int j = 0; j < rows; j++) {
      if (every == 4 && !v4_picked(s, x, latent, t, j, rows))
        continue;
      v4_pool(s, "pool", x, j, every, DK, k);
      v4_add(q + h * DK, k, &below, z);
    }
    for (int e = 0; e < DK; e++)
      z[e] /= below;
    v4_turn(z, DK, -t, every > 0);
  }
  for (int g = 0; g < 2; g++)
    v4_linear(v4_weight(s, "attn.o_down") + g * 8 * 32, y + g * 32, 8, 32, low + g * 8);
  v4_linear(v4_weight(s, "attn.o"), low, WIDE, 16, o);
}

static void
v4_attention(const v4 *s, int every)
{
  static double x[V4T][WIDE];
  v4_shares y[V4T];
  for (int t = 0; t < V4T; t++) {
    y[t] = v4_say(s, "attn", s->in[t]);
    for (int i = 0; i < WIDE; i++) {
      x[t][i] = 0;
      for (int j = 0; j < V4N; j++)
        x[t][i] += y[t].pre[j] * (double)s->in[t][j * WIDE + i];
      NEAR(s->mixed[t][i], x[t][i], 1e-5);
    }
    v4_norm(v4_weight(s, "attn.norm"), x[t], WIDE);
  }
  for (int t = 0; t < V4T; t++) {
    double o[WIDE];
    v4_attend(s, x, t, every, o);
    for (int i = 0; i < V4W; i++)
      NEAR(s->middle[t][i], v4_spread(&y[t], s->in[t], o, i), 1e-4);
  }
}

/* Experts by the table or by score and bias; their shares of 1.5 in all. */
static void
v4_network(const v4 *s, bool table)
{
  for (int t = 0; t < V4T; t++) {
    double score[8], gave[WIDE], sum = 0;
    for (int e = 0; e < 8; e++)
      score[e] = sqrt(log(1 + exp((double)s->logits[t][e])));
    for (int j = 0; j < 2; j++)
      sum += score[s->choice[t][j]];
    for (int j = 0; j < 2; j++) {
      const int e = s->choice[t][j];
      NEAR(s->shares[t][j], 1.5 * score[e] / sum, 1e-5);
      if (table)
        CU_ASSERT_EQUAL(e, (int)v4_weight(s, "moe.table")[2 * s->ids[t] + j]);
      for (int i = 0; !table && i < 8; i++) /* none beside them is better */
        if (i != s->choice[t][0] && i != s->choice[t][1])
          CU_ASSERT_TRUE(score[i] + (double)v4_weight(s, "moe.select.bias")[i] <=
                         score[e] + (double)v4_weight(s, "moe.select.bias")[e]);
    }
    for (int i = 0; i < WIDE; i++)
      gave[i] = (double)s->gave[t][i];
    const v4_shares y = v4_say(s, "ffn", s->middle[t]);
    for (int i = 0; i < V4W; i++)
      NEAR(s->out[t][i], v4_spread(&y, s->middle[t], gave, i), 1e-5);
  }
}

static void
test_v4(void)
{
  static const int every[] = {0, 4, 6, 4};
  static v4 s;
  for (int layer = 0; layer < 4; layer++) {
    s = (v4){.position = layer + 1};
    for (int i = 0; i < V4T; i++)
      s.ids[i] = (7 * i + 3) % 61;
    watched_prefill("deepseek_v4", 31, s.ids, V4T, v4_watch, &s);
    v4_attention(&s, every[layer]);
    v4_network(&s, layer < 2);
    for (int i = 0; i < s.nweight; i++)
      free((void *)(uintptr_t)s.weight[i].v);
  }
}

UNIT_MAIN("streams", {"mix is a product with a block matrix", test_mix},
          {"dot is a product of each stream", test_dot},
          {"shares of a row are ratios of exponentials", test_softmax},
          {"sinkhorn scales rows and columns", test_sinkhorn},
          {"situ by exponentials", test_situ},
          {"layers read the sums of blocks of layers", test_sums},
          {"streams, pools and tables of DeepSeek-V4, pair by pair", test_v4})
