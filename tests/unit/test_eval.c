/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Each op against a formula in another formulation, and tile by tile against itself. */
#include <complex.h>

#include "tests/unit/opbench.h"

/* ------------------------------------------------------------------ products */
static void
test_linear(void)
{
  enum { T = 5, K = 33, N = 21 };
  bench b = bench_open(NMB_OP_LINEAR, 1, T, 0);
  const float *x = bench_in(&b, NMB_ROLE_ACT, DIMS(T, K));
  const float *w = bench_in(&b, NMB_ROLE_WEIGHT, DIMS(N, K));
  const float *bias = bench_in(&b, NMB_ROLE_WEIGHT, DIMS(N));
  const float *y = bench_out(&b, NMB_DT_F32, DIMS(T, N));
  bench_attr(&b, NMB_REAL("scale", 0.75));
  bench_attr(&b, NMB_REAL("clip", 2.5));
  bench_run(&b);
  bool clipped = false;
  for (int t = 0; t < T; t++)
    for (int n = 0; n < N; n++) {
      double s = 0; /* backwards */
      for (int k = K - 1; k >= 0; k--)
        s += 0.75 * (double)w[n * K + k] * (double)x[t * K + k];
      s += 0.75 * (double)bias[n];
      clipped |= fabs(s) > 2.5;
      NEAR(y[t * N + n], fmax(-2.5, fmin(2.5, s)), 1e-6);
    }
  CU_ASSERT_TRUE(clipped);
  bench_tiles(&b, 1, 2, 8);
  bench_close(&b);
}

/* A tile reads and writes nothing beyond it. */
static void
test_tile_alone(void)
{
  enum { T = 4, K = 20, N = 30 };
  bench b = bench_open(NMB_OP_LINEAR, 1, T, 0);
  float *x = bench_in(&b, NMB_ROLE_ACT, DIMS(T, K));
  float *w = bench_in(&b, NMB_ROLE_WEIGHT, DIMS(N, K));
  float *y = bench_out(&b, NMB_DT_F32, DIMS(T, N));
  b.id = nmb_op_add(b.p, &b.op);
  for (int i = 0; i < T * K; i++)
    x[i] = i / K == 2 ? x[i] : NAN;
  for (int i = 0; i < N * K; i++)
    w[i] = i / K >= 7 && i / K < 19 ? w[i] : NAN;
  const nmb_tile t = {0, 1, 2, 3, 7, 19, 0, K};
  CU_ASSERT_EQUAL(nmb__op_eval(b.run, b.p, b.id, &t, &b.v), NMB_OK);
  for (int i = 0; i < T * N; i++)
    CU_ASSERT_EQUAL(isnan(y[i]), !(i / N == 2 && i % N >= 7 && i % N < 19));
  bench_close(&b);
}

static void
test_hlinear(void)
{
  enum { T = 3, H = 4, K = 9, N = 6 };
  bench b = bench_open(NMB_OP_HLINEAR, 1, T, 0);
  const float *x = bench_in(&b, NMB_ROLE_ACT, DIMS(T, H, K));
  const float *w = bench_in(&b, NMB_ROLE_WEIGHT, DIMS(H, N, K));
  const float *y = bench_out(&b, NMB_DT_F32, DIMS(T, H, N));
  bench_run(&b);
  for (int i = 0; i < T * H * N; i++) {
    const int n = i % N, h = i / N % H, t = i / N / H;
    double s = 0;
    for (int k = 0; k < K; k++)
      s += (double)x[t * H * K + h * K + k] * (double)w[h * N * K + n * K + k];
    NEAR(y[i], s, 1e-6);
  }
  bench_tiles(&b, 3, 2, 4);
  bench_close(&b);
}

/* ------------------------------------------------------------ rows, columns */
static void
check_norm(const char *kind, bool weight, bool bias, double offset, int width)
{
  enum { T = 3, H = 2, D = 10 };
  const int n = width;
  bench b = bench_open(NMB_OP_NORM, 1, T, 0);
  const float *x = bench_in(&b, NMB_ROLE_ACT, DIMS(T, H, D));
  const float *w = weight ? bench_in(&b, NMB_ROLE_WEIGHT, DIMS(n)) : NULL;
  const float *c = bias ? bench_in(&b, NMB_ROLE_WEIGHT, DIMS(n)) : NULL;
  const float *y = bench_out(&b, NMB_DT_F32, DIMS(T, H, D));
  bench_attr(&b, NMB_SYM("kind", kind));
  bench_attr(&b, NMB_REAL("eps", 0.01));
  bench_attr(&b, NMB_REAL("offset", offset));
  bench_run(&b);
  for (int r = 0; r < T * H * D / n; r++) {
    double s1 = 0, s2 = 0; /* moments */
    for (int i = 0; i < n; i++) {
      s1 += (double)x[r * n + i] / n;
      s2 += (double)x[r * n + i] * (double)x[r * n + i] / n;
    }
    const bool layer = !strcmp(kind, "layer");
    const double var = layer ? s2 - s1 * s1 : !strcmp(kind, "l2") ? n * s2 : s2;
    for (int i = 0; i < n; i++)
      NEAR(y[r * n + i],
           ((double)x[r * n + i] - (layer ? s1 : 0)) * pow(var + 0.01, -0.5) *
                   (w ? (double)w[i] + offset : 1) +
               (c ? (double)c[i] : 0),
           1e-6);
  }
  bench_tiles(&b, 1, 2, 7);
  bench_close(&b);
}

static void
test_norm(void)
{
  check_norm("rms", true, false, 0, 20);
  check_norm("rms", true, false, 1, 10);
  check_norm("rms", false, false, 0, 10);
  check_norm("layer", true, true, 0, 20);
  check_norm("layer", true, false, 0, 10);
  check_norm("l2", false, false, 0, 10);
}

/* Each function in another form. */
static double
other_form(const char *fn, double x, double limit)
{
  const double half = 0.5 + 0.5 * tanh(x / 2); /* sigmoid */
  if (!strcmp(fn, "silu"))
    return x * half;
  if (!strcmp(fn, "gelu"))
    return x - 0.5 * x * erfc(x / sqrt(2));
  if (!strcmp(fn, "gelu-tanh"))
    return x / (1 + exp(-2 * sqrt(2 / 3.14159265358979) * (x + 0.044715 * pow(x, 3))));
  if (!strcmp(fn, "relu"))
    return (x + fabs(x)) / 2;
  if (!strcmp(fn, "relu2"))
    return x * (x + fabs(x)) / 2;
  if (!strcmp(fn, "sigmoid"))
    return half;
  if (!strcmp(fn, "softplus"))
    return fmax(x, 0) + log(1 + exp(-fabs(x)));
  if (!strcmp(fn, "exp"))
    return 1 / exp(-x);
  if (!strcmp(fn, "tanh"))
    return 1 - 2 / (exp(2 * x) + 1);
  return limit * (1 - 2 / (exp(2 * x / limit) + 1)); /* softcap */
}

static void
test_act(void)
{
  enum { T = 2, N = 9 };
  static const char *const fn[] = {"silu",    "gelu",     "gelu-tanh", "relu", "relu2",
                                   "sigmoid", "softplus", "exp",       "tanh", "softcap"};
  for (size_t f = 0; f < sizeof fn / sizeof *fn; f++) {
    bench b = bench_open(NMB_OP_ACT, 1, T, 0);
    float *x = bench_in(&b, NMB_ROLE_ACT, DIMS(T, N));
    const float *y = bench_out(&b, NMB_DT_F32, DIMS(T, N));
    for (int i = 0; i < T * N; i++)
      x[i] *= 6;
    bench_attr(&b, NMB_SYM("fn", fn[f]));
    bench_attr(&b, NMB_REAL("limit", 3));
    bench_run(&b);
    for (int i = 0; i < T * N; i++)
      NEAR(y[i], other_form(fn[f], (double)x[i], 3), 2e-6);
    bench_tiles(&b, 1, 1, 4);
    bench_close(&b);
  }
  bench t = bench_open(NMB_OP_ACT, 1, T, 0);
  const float *x = bench_in(&t, NMB_ROLE_ACT, DIMS(T, N));
  const float *y = bench_out(&t, NMB_DT_F32, DIMS(T, N));
  bench_attr(&t, NMB_SYM("fn", "tanh"));
  bench_attr(&t, NMB_REAL("scale", 2));
  bench_attr(&t, NMB_REAL("shift", 0.5));
  bench_attr(&t, NMB_REAL("low", -0.25));
  bench_attr(&t, NMB_REAL("high", 1));
  bench_run(&t);
  for (int i = 0; i < T * N; i++)
    NEAR(y[i], fmin(fmax(2.5 - 4 / (exp(2 * (double)x[i]) + 1), -0.25), 1), 2e-6);
  bench_close(&t);
  bench b = bench_open(NMB_OP_ACT, 1, T, 0);
  bench_in(&b, NMB_ROLE_ACT, DIMS(T, N));
  bench_out(&b, NMB_DT_F32, DIMS(T, N));
  bench_attr(&b, NMB_SYM("fn", "sine"));
  b.id = nmb_op_add(b.p, &b.op);
  CU_ASSERT_EQUAL(nmb__op_eval(b.run, b.p, b.id, NULL, &b.v), NMB_UNSUPPORTED);
  bench_close(&b);
}

static void
test_glu(void)
{
  enum { T = 2, N = 30 };
  for (int oai = 0; oai < 2; oai++)
    for (int limit = 0; limit < 3; limit += 2) {
      bench b = bench_open(NMB_OP_GLU, 1, T, 0);
      float *g = bench_in(&b, NMB_ROLE_ACT, DIMS(T, N));
      float *u = bench_in(&b, NMB_ROLE_ACT, DIMS(T, N));
      const float *y = bench_out(&b, NMB_DT_F32, DIMS(T, N));
      for (int i = 0; i < T * N; i++) {
        g[i] *= 5;
        u[i] *= 5;
      }
      bench_attr(&b, NMB_SYM("fn", oai ? "swiglu-oai" : "silu"));
      bench_attr(&b, NMB_REAL("limit", limit));
      bench_run(&b);
      for (int i = 0; i < T * N; i++) {
        const double top = limit ? limit : (double)INFINITY;
        const double gate = fmin((double)g[i], top), a = oai ? 1.702 : 1;
        const double up = fmax(fmin((double)u[i], top), -top) + oai;
        NEAR(y[i], gate * (0.5 + 0.5 * tanh(a * gate / 2)) * up, 2e-6);
      }
      bench_tiles(&b, 1, 1, 11);
      bench_close(&b);
    }
}

static void
check_binary(nmb_opcode code, int rank, const int64_t *dim)
{
  enum { T = 3, H = 4, D = 5 };
  bench b = bench_open(code, 1, T, 0);
  const float *x = bench_in(&b, NMB_ROLE_ACT, DIMS(T, H, D));
  const float *z = bench_in(&b, NMB_ROLE_ACT, rank, dim);
  const float *y = bench_out(&b, NMB_DT_F32, DIMS(T, H, D));
  if (code == NMB_OP_ADD)
    bench_attr(&b, NMB_REAL("scale", 0.5));
  bench_run(&b);
  int64_t one[3] = {1, 1, 1};
  memcpy(one + 3 - rank, dim, (size_t)rank * sizeof *dim);
  for (int t = 0; t < T; t++)
    for (int h = 0; h < H; h++)
      for (int d = 0; d < D; d++) {
        const int64_t i = (t * H + h) * D + d;
        const int64_t j = (t % one[0] * one[1] + h % one[1]) * one[2] + d % one[2];
        CU_ASSERT_EQUAL(y[i], code == NMB_OP_ADD ? 0.5f * x[i] + z[j] : x[i] * z[j]);
      }
  bench_tiles(&b, 1, 2, 7);
  bench_close(&b);
}

static void
test_binary(void)
{
  for (int i = 0; i < 2; i++) {
    const nmb_opcode code = i ? NMB_OP_MUL : NMB_OP_ADD;
    check_binary(code, DIMS(3, 4, 5));
    check_binary(code, DIMS(4, 5));
    check_binary(code, DIMS(5));
    check_binary(code, DIMS(1));
    check_binary(code, DIMS(3, 4, 1));
    check_binary(code, DIMS(3, 1, 5));
    check_binary(code, DIMS(4, 1));
  }
}

static void
test_moves(void)
{
  enum { B = 2, F = 3, T = B * F, V = 7, H = 6 };
  bench b = bench_open(NMB_OP_EMBED, B, F, 0);
  int32_t *ids = bench_ids(&b, DIMS(T));
  for (int i = 0; i < T; i++)
    ids[i] = (i * 5 + 6) % V - 1;
  const float *table = bench_in(&b, NMB_ROLE_WEIGHT, DIMS(V, H));
  const float *y = bench_out(&b, NMB_DT_F32, DIMS(T, H));
  bench_attr(&b, NMB_REAL("scale", 3));
  bench_attr(&b, NMB_INT("offset", 1));
  bench_run(&b);
  for (int i = 0; i < T * H; i++)
    CU_ASSERT_EQUAL(y[i], 3 * table[(ids[i / H] + 1) * H + i % H]);
  bench_tiles(&b, 1, 4, 5);
  ids[2] = V;
  CU_ASSERT_EQUAL(nmb__op_eval(b.run, b.p, b.id, NULL, &b.v), NMB_BADINPUT);
  bench_close(&b);

  b = bench_open(NMB_OP_SELECT, B, F, 0);
  const float *x = bench_in(&b, NMB_ROLE_ACT, DIMS(T, H));
  y = bench_out(&b, NMB_DT_F32, DIMS(B, H));
  bench_run(&b);
  CU_ASSERT_EQUAL(memcmp(y, x + 2 * H, H * sizeof *y), 0);
  CU_ASSERT_EQUAL(memcmp(y + H, x + 5 * H, H * sizeof *y), 0);
  bench_close(&b);

  b = bench_open(NMB_OP_SPLIT, B, F, 0);
  x = bench_in(&b, NMB_ROLE_ACT, DIMS(T, 2, H));
  y = bench_out(&b, NMB_DT_F32, DIMS(T, 2, 3));
  bench_attr(&b, NMB_INT("first", 2));
  bench_attr(&b, NMB_INT("count", 3));
  bench_run(&b);
  for (int i = 0; i < T * 2 * 3; i++)
    CU_ASSERT_EQUAL(y[i], x[i / 3 * H + 2 + i % 3]);
  bench_close(&b);

  enum { S = 8, AT = 4 };
  b = bench_open(NMB_OP_KVAPPEND, B, F, 9);
  const float *cache = bench_in(&b, NMB_ROLE_KV, DIMS(B, S, 2, 5));
  float was[B * S * 10];
  memcpy(was, cache, sizeof was);
  const float *fresh = bench_in(&b, NMB_ROLE_ACT, DIMS(T, 2, 5));
  bench_in_place(&b, 0);
  bench_attr(&b, NMB_INT("at", AT));
  bench_run(&b);
  for (int i = 0; i < B * S * 10; i++) {
    const int row = i / 10 % S, seq = i / 10 / S;
    const bool new = row >= AT &&row < AT + F;
    CU_ASSERT_EQUAL(cache[i], new ? fresh[(seq * F + row - AT) * 10 + i % 10] : was[i]);
  }
  bench_close(&b);
}

/* -------------------------------------------------------------------- rotary */
enum { RT = 4, RH = 2, RD = 12 };

static bench
rope_bench(bool adjacent, int64_t dims, int64_t first, const int32_t *at)
{
  bench b = bench_open(NMB_OP_ROPE, 1, RT, 0);
  bench_in(&b, NMB_ROLE_ACT, DIMS(RT, RH, RD));
  int32_t *pos = bench_ids(&b, DIMS(RT));
  memcpy(pos, at, RT * sizeof *pos);
  bench_out(&b, NMB_DT_F32, DIMS(RT, RH, RD));
  bench_attr(&b, NMB_INT("dims", dims));
  bench_attr(&b, NMB_INT("first", first));
  bench_attr(&b, NMB_REAL("theta", 100));
  bench_attr(&b, NMB_SYM("pairs", adjacent ? "adjacent" : "half"));
  return b;
}

/* A pair is a complex number that is multiplied by a unit one `pos` times. */
static void
test_rope(void)
{
  const int32_t pos[RT] = {0, 1, 5, 11};
  for (int adjacent = 0; adjacent < 2; adjacent++) {
    bench b = rope_bench(adjacent, 8, 3, pos);
    bench_attr(&b, NMB_REAL("attention", 1.5));
    bench_run(&b);
    const float *x = b.in[0], *y = b.out[0];
    for (int r = 0; r < RT * RH; r++) {
      for (int j = 0; j < 4; j++) {
        const int u = r * RD + 3 + (adjacent ? 2 * j : j), v = adjacent ? u + 1 : u + 4;
        double complex z = (double)x[u] + (double)x[v] * I;
        const double complex turn = cexp(I * exp(-2.0 * j / 8 * log(100)));
        for (int i = 0; i < pos[r / RH]; i++)
          z *= turn;
        NEAR(y[u], 1.5 * creal(z), 1e-6);
        NEAR(y[v], 1.5 * cimag(z), 1e-6);
      }
      for (int j = 0; j < RD; j++)
        if (j < 3 || j >= 11)
          CU_ASSERT_EQUAL(y[r * RD + j], x[r * RD + j]);
    }
    bench_tiles(&b, 1, 3, RD);
    bench_close(&b);
  }
}

/* Turning there and back is nothing; the stretch is what is left. */
static void
test_rope_back(void)
{
  const int32_t pos[RT] = {3, 8, 20, 41};
  bench b = rope_bench(false, RD, 0, pos);
  bench_run(&b);
  bench c = rope_bench(false, RD, 0, pos);
  memcpy(c.in[0], b.out[0], RT * RH * RD * sizeof(float));
  bench_attr(&c, NMB_INT("inverse", 1));
  bench_attr(&c, NMB_REAL("stretch", 0.1));
  bench_attr(&c, NMB_REAL("stretch_every", 8));
  bench_attr(&c, NMB_REAL("stretch_from", 1));
  bench_run(&c);
  const double times[RT] = {0, 1, 2, 5}; /* whole eights in pos + 1 */
  for (int i = 0; i < RT * RH * RD; i++)
    NEAR(c.out[0][i], (double)b.in[0][i] * (1 + 0.1 * log1p(times[i / (RH * RD)])), 1e-6);
  bench_close(&b);
  bench_close(&c);
}

/* Radians that pair j turns in one position, read off a unit vector. */
static void
turns(bench *b, double *f)
{
  for (int i = 0; i < RT * RH * RD; i++)
    b->in[0][i] = i % RD < RD / 2 ? 1 : 0;
  bench_run(b);
  for (int j = 0; j < RD / 2; j++)
    f[j] = atan2((double)b->out[0][j + RD / 2], (double)b->out[0][j]);
}

static void
test_rope_scaling(void)
{
  const int32_t pos[RT] = {1, 1, 1, 1};
  double plain[RD / 2], f[RD / 2];
  bench b = rope_bench(false, RD, 0, pos);
  turns(&b, plain);
  bench_close(&b);

  b = rope_bench(false, RD, 0, pos);
  bench_attr(&b, NMB_SYM("scaling", "linear"));
  bench_attr(&b, NMB_REAL("factor", 4));
  turns(&b, f);
  for (int j = 0; j < RD / 2; j++)
    NEAR(f[j], plain[j] / 4, 1e-6);
  bench_close(&b);

  /* wavelengths 2 pi 100^(j/6): 6.3 13.5 29 63 135 291; whole ones below 25, scaled
   * ones above 100, between them by the share of 100/w in 1 .. 4 */
  b = rope_bench(false, RD, 0, pos);
  bench_attr(&b, NMB_SYM("scaling", "llama3"));
  bench_attr(&b, NMB_REAL("factor", 8));
  bench_attr(&b, NMB_REAL("orig", 100));
  bench_attr(&b, NMB_REAL("low", 1));
  bench_attr(&b, NMB_REAL("high", 4));
  turns(&b, f);
  for (int j = 0; j < RD / 2; j++) {
    const double w = 6.283185307179586 * pow(100, j / 6.0);
    const double share = fmin(1, fmax(0, (100 / w - 1) / 3));
    NEAR(f[j], plain[j] * (share + (1 - share) / 8), 1e-6);
  }
  bench_close(&b);

  /* a pair is whole if it turns 3 times or more within 60 positions, scaled below once;
   * the pairs of 3 turns and of one, unrounded: 12 ln(60/(2 pi r)) / (2 ln 100) */
  for (int truncate = 0; truncate < 2; truncate++) {
    b = rope_bench(false, RD, 0, pos);
    bench_attr(&b, NMB_SYM("scaling", "yarn"));
    bench_attr(&b, NMB_REAL("factor", 5));
    bench_attr(&b, NMB_REAL("orig", 60));
    bench_attr(&b, NMB_REAL("beta_fast", 3));
    bench_attr(&b, NMB_REAL("beta_slow", 1));
    bench_attr(&b, NMB_INT("truncate", truncate));
    turns(&b, f);
    const double lo = truncate ? 1 : 1.5085504, hi = truncate ? 3 : 2.9399141;
    for (int j = 0; j < RD / 2; j++) {
      const double g = fmin(1, fmax(0, (j - lo) / (hi - lo)));
      NEAR(f[j], plain[j] * (1 - g + g / 5), 2e-5);
    }
    bench_close(&b);
  }

  b = rope_bench(false, RD, 0, pos); /* the base grows beyond the first 2 positions */
  bench_attr(&b, NMB_SYM("scaling", "dynamic"));
  bench_attr(&b, NMB_REAL("factor", 3));
  bench_attr(&b, NMB_REAL("orig", 2));
  turns(&b, f);
  for (int j = 0; j < RD / 2; j++) /* T is 4: 3*4/2 - 2 */
    NEAR(f[j], pow(100 * pow(4, 1.2), -j / 6.0), 1e-6);
  bench_close(&b);

  b = rope_bench(false, RD, 0, pos);
  const float *factors = bench_in(&b, NMB_ROLE_WEIGHT, DIMS(RD / 2));
  for (int j = 0; j < RD / 2; j++)
    b.in[2][j] = (float)(1.5 + 0.25 * j);
  bench_attr(&b, NMB_SYM("scaling", "longrope"));
  bench_attr(&b, NMB_INT("live", 8));
  turns(&b, f);
  for (int j = 0; j < RD / 2; j++)
    NEAR(f[j], j < 4 ? plain[j] / (double)factors[j] : 0, 1e-6);
  bench_close(&b);
}

UNIT_MAIN("eval", {"linear is the sum of products, scaled and clipped", test_linear},
          {"a tile touches nothing beyond it", test_tile_alone},
          {"hlinear has a matrix for each head", test_hlinear},
          {"norms by moments", test_norm}, {"functions in other forms", test_act},
          {"gated functions with and without a limit", test_glu},
          {"sums and products broadcast over leading dimensions", test_binary},
          {"rows are looked up, selected, viewed and appended", test_moves},
          {"rotation is repeated multiplication", test_rope},
          {"rotation there and back leaves the stretch", test_rope_back},
          {"scalings of rotary frequencies", test_rope_scaling})
