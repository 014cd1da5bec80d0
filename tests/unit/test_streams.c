/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Values of a token side by side: the ops that mix them, and models that carry them from
 * layer to layer, against the formulas of their papers in another formulation. */
#include "tests/unit/opbench.h"

#include "frontend/model.h"

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
  static const uint64_t seed = 9;
  static const nmb__routing_spec routing = {"uniform", 1, 1};
  static parts s;
  const char *top = getenv("srcdir") ? getenv("srcdir") : ".";
  const nmb__weights w = nmb__weights_random(&seed);
  const int32_t ids[TOKENS] = {5, 9, 2, 44, 5, 31};
  nmb_run *run = nmb__run_open(stderr);
  const nmb__arch *a;
  const float *y;
  nmb_prog *p;
  int64_t n, m;
  CU_ASSERT_EQUAL_FATAL(
      nmb__arch_load(run, nmb_format(run, "%s/tests/data/tiny/kimi_k3.json", top), &a),
      NMB_OK);
  CU_ASSERT_EQUAL_FATAL(nmb__graph_build(run, a,
                                         (nmb_step_spec){NMB_PREFILL, 1, TOKENS, 0},
                                         &routing, &p),
                        NMB_OK);
  nmb__eval *e =
      nmb__eval_open(&w, &(nmb__eval_options){.watch = watch, .watch_self = &s});
  CU_ASSERT_EQUAL_FATAL(nmb__eval_step(run, e, p, ids, &y, &n, &m), NMB_OK);
  for (int k = 0; k <= 2 * LAYERS; k++)
    for (int i = 0; i < (k < 2 * LAYERS ? TOKENS : 1) * WIDE; i++) {
      const int t = k < 2 * LAYERS ? i / WIDE : TOKENS - 1;
      NEAR(s.read[k][i / WIDE][i % WIDE], expected(&s, k, t, i % WIDE), 1e-5);
    }
  nmb__eval_close(e);
  nmb_prog_free(p);
  nmb__run_close(run);
}

UNIT_MAIN("streams", {"mix is a product with a block matrix", test_mix},
          {"dot is a product of each stream", test_dot},
          {"shares of a row are ratios of exponentials", test_softmax},
          {"sinkhorn scales rows and columns", test_sinkhorn},
          {"situ by exponentials", test_situ},
          {"layers read the sums of blocks of layers", test_sums})
