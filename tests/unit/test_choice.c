/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The choice of experts by sorting, and experts as a sum over all of them, whole and
 * lowered to rows in expert order. */
#include "tests/unit/opbench.h"

enum { T = 7, E = 12, K = 4 };

typedef struct router {
  const char *score;
  bool bias, renorm;
  double scale;
  int groups, keep, group_top;
  bool factors;
} router;

typedef struct ranked {
  double key;
  int e;
} ranked;

/* Larger keys first, of equals the lower number. */
static int
by_rank(const void *a, const void *b)
{
  const ranked *x = a, *y = b;
  return x->key > y->key ? -1 : x->key < y->key ? 1 : x->e - y->e;
}

static bench
topk_bench(const router *r)
{
  bench b = bench_open(NMB_OP_TOPK, 1, T, 0);
  int32_t expert[T * K];
  for (int i = 0; i < T * K; i++)
    expert[i] = (i + i / K) % E;
  nmb_routing_add(b.p, "r", E, K, T, expert);
  float *z = bench_in(&b, NMB_ROLE_ACT, DIMS(T, E));
  for (int i = 0; i < T * E; i++)
    z[i] *= 3;
  if (r->bias)
    bench_in(&b, NMB_ROLE_WEIGHT, DIMS(E));
  if (r->factors) {
    bench_in(&b, NMB_ROLE_WEIGHT, DIMS(E));
    bench_attr(&b, NMB_INT("factors", 1));
  }
  bench_out(&b, NMB_DT_F32, DIMS(T, K));
  bench_out(&b, NMB_DT_I32, DIMS(T, K));
  bench_attr(&b, NMB_INT("routing", 0));
  bench_attr(&b, NMB_SYM("score", r->score));
  bench_attr(&b, NMB_INT("renorm", r->renorm));
  bench_attr(&b, NMB_REAL("scale", r->scale));
  if (r->groups > 1) {
    bench_attr(&b, NMB_INT("groups", r->groups));
    bench_attr(&b, NMB_INT("keep", r->keep));
    bench_attr(&b, NMB_INT("group_top", r->group_top));
  }
  return b;
}

static double
score(const char *kind, const float *z, int e)
{
  double sum = 0;
  if (!strcmp(kind, "sigmoid"))
    return 0.5 + 0.5 * tanh((double)z[e] / 2);
  if (!strcmp(kind, "sqrtsoftplus"))
    return pow(log(1 + exp((double)z[e])), 0.5);
  if (!strcmp(kind, "topk-softmax"))
    return (double)z[e];
  for (int i = 0; i < E; i++)
    sum += exp((double)z[i] - (double)z[e]);
  return 1 / sum;
}

/* Experts of groups that are kept get their place among all, the rest the last ones. */
static void
expected(const router *r, const float *z, const float *bias, int *idx, double *w)
{
  ranked all[E], groups[E];
  const int n = r->groups > 1 ? r->groups : 1, each = E / n;
  bool kept[E] = {false};
  for (int g = 0; g < n; g++) {
    ranked in[E];
    for (int i = 0; i < each; i++) {
      const int e = g * each + i;
      in[i] = (ranked){score(r->score, z, e) + (bias ? (double)bias[e] : 0), e};
      all[e] = in[i];
    }
    qsort(in, (size_t)each, sizeof *in, by_rank);
    groups[g] = (ranked){0, g};
    for (int i = 0; i < r->group_top; i++)
      groups[g].key += in[i].key;
  }
  qsort(groups, (size_t)n, sizeof *groups, by_rank);
  for (int g = 0; g < (n > 1 ? r->keep : 1); g++)
    kept[groups[g].e] = true;
  for (int e = 0; e < E; e++)
    all[e].key = kept[e / each] ? all[e].key : -INFINITY;
  qsort(all, E, sizeof *all, by_rank);
  double sum = 0;
  const bool soft = !strcmp(r->score, "topk-softmax");
  for (int j = 0; j < K; j++) {
    idx[j] = all[j].e;
    w[j] = soft ? exp((double)z[idx[j]]) : score(r->score, z, idx[j]);
    sum += w[j];
  }
  for (int j = 0; j < K; j++)
    w[j] *= r->scale / (r->renorm || soft ? sum : 1);
}

static void
check_topk(router r)
{
  bench b = topk_bench(&r);
  bench_run(&b);
  const int32_t *got = (const int32_t *)b.v.out[1];
  for (int t = 0; t < T; t++) {
    int idx[K];
    double w[K];
    expected(&r, b.in[0] + t * E, r.bias ? b.in[1] : NULL, idx, w);
    for (int j = 0; j < K; j++) {
      CU_ASSERT_EQUAL(got[t * K + j], idx[j]);
      NEAR(b.out[0][t * K + j], w[j] * (r.factors ? (double)b.in[1 + r.bias][idx[j]] : 1),
           1e-6);
    }
  }
  bench_tiles(&b, 1, 3, K);
  bench_close(&b);
}

static void
test_topk(void)
{
  check_topk((router){"softmax", false, true, 1, 0, 0, 1, false});
  check_topk((router){"softmax", false, true, 1, 0, 0, 1, true}); /* as Gemma 4 */
  check_topk((router){"sigmoid", true, true, 2.5, 4, 2, 2, true});
  check_topk((router){"softmax", false, false, 16, 3, 2, 1, false}); /* as DeepSeek-V2 */
  check_topk((router){"sigmoid", true, true, 2.5, 4, 2, 2, false});  /* as DeepSeek-V3 */
  check_topk((router){"sigmoid", true, false, 1, 6, 3, 2, false});
  check_topk((router){"sqrtsoftplus", true, true, 1.5, 0, 0, 1, false});
  check_topk((router){"topk-softmax", false, false, 1, 0, 0, 1, false});
}

/* Equal scores: the lower number, in the choice of experts and of groups. */
static void
test_ties(void)
{
  const router r = {"sigmoid", false, true, 1, 3, 2, 2, false};
  bench b = topk_bench(&r);
  for (int i = 0; i < T * E; i++)
    b.in[0][i] = 0.25f;
  b.in[0][E + 9] = 1; /* the second token: the last group has one better expert */
  bench_run(&b);
  const int32_t *idx = (const int32_t *)b.v.out[1];
  const int32_t want[2][K] = {{0, 1, 2, 3}, {9, 0, 1, 2}};
  for (int t = 0; t < 2; t++)
    CU_ASSERT_EQUAL(memcmp(idx + t * K, want[t], sizeof want[t]), 0);
  NEAR(b.out[0][0], 0.25, 1e-6);
  bench_close(&b);
}

/* By table: the program's experts, with the weights that the router gives them. */
static void
test_table(void)
{
  const router r = {"softmax", false, true, 1, 0, 0, 1, false};
  bench b = topk_bench(&r);
  b.v.by_table = true;
  bench_run(&b);
  const int32_t *idx = (const int32_t *)b.v.out[1];
  for (int t = 0; t < T; t++) {
    double sum = 0;
    for (int j = 0; j < K; j++)
      sum += exp((double)b.in[0][t * E + b.p->routing[0].expert[t * K + j]]);
    for (int j = 0; j < K; j++) {
      const int e = b.p->routing[0].expert[t * K + j];
      CU_ASSERT_EQUAL(idx[t * K + j], e);
      NEAR(b.out[0][t * K + j], exp((double)b.in[0][t * E + e]) / sum, 1e-6);
    }
  }
  bench_close(&b);
}

/* SparseMixer: the largest, then the largest of the rest; each weighs among those of what
 * is left that are within 2% of it. */
static void
test_sparsemixer(void)
{
  const router r = {"sparsemixer", false, false, 1, 0, 0, 1, false};
  bench b = topk_bench(&r);
  bench_attr(&b, NMB_REAL("band", 0.02));
  float *z = b.in[0];
  for (int e = 0; e < E; e++)
    z[e] = 0.5f;
  z[3] = 2; /* 1.98 is within the band of 2, and of itself; 1.9 is not within either */
  z[5] = 1.98f;
  z[8] = 1.9f;
  z[9] = 1.88f;
  bench_run(&b);
  const int32_t *idx = (const int32_t *)b.v.out[1];
  const int32_t want[K] = {3, 5, 8, 9};
  CU_ASSERT_EQUAL(memcmp(idx, want, sizeof want), 0);
  NEAR(b.out[0][0], 1 / (1 + exp(-0.02)), 1e-6);
  NEAR(b.out[0][1], 1, 1e-6);
  NEAR(b.out[0][2], 1 / (1 + exp(-0.02)), 1e-6);
  NEAR(b.out[0][3], 1, 1e-6);
  bench_close(&b);
}

/* ------------------------------------------------------------------- experts */
enum { H = 10, I = 8 };

static void
network(const float *const *w, int e, bool bias, const float *x, double *y)
{
  double inner[I];
  for (int i = 0; i < I; i++) {
    double g = bias ? (double)w[3][e * I + i] : 0, u = bias ? (double)w[4][e * I + i] : 0;
    for (int h = 0; h < H; h++) {
      g += (double)w[0][(e * I + i) * H + h] * (double)x[h];
      u += (double)w[1][(e * I + i) * H + h] * (double)x[h];
    }
    inner[i] = g * (0.5 + 0.5 * tanh(g / 2)) * u;
  }
  for (int h = 0; h < H; h++) {
    y[h] = bias ? (double)w[5][e * H + h] : 0;
    for (int i = 0; i < I; i++)
      y[h] += (double)w[2][(e * H + h) * I + i] * inner[i];
  }
}

/* Op by op as moe-lower writes it; w as in check_moe. */
static void
lowered(const bench *moe, bool bias, bool before, float *y)
{
  const int64_t R = T * K;
  float rows[4][T * K * H]; /* x, gate, up, down */
  bench p = bench_open(NMB_OP_PERMUTE, 1, T, 0);
  nmb_routing_add(p.p, "r", E, K, T, moe->p->routing[0].expert);
  memcpy(bench_in(&p, NMB_ROLE_ACT, DIMS(T, H)), moe->in[0], T * H * sizeof(float));
  memcpy(bench_ids(&p, DIMS(T, K)), moe->in[2], T * K * sizeof(int32_t));
  if (before)
    memcpy(bench_in(&p, NMB_ROLE_ACT, DIMS(T, K)), moe->in[1], T * K * sizeof(float));
  bench_out(&p, NMB_DT_F32, DIMS(R, H));
  bench_attr(&p, NMB_INT("routing", 0));
  bench_run(&p);
  bench_tiles(&p, 1, 5, 4);
  memcpy(rows[0], p.out[0], sizeof rows[0]);
  bench_close(&p);
  for (int j = 0; j < 3; j++) {
    const int64_t n = j == 2 ? H : I, k = j == 2 ? I : H;
    bench g = bench_open(NMB_OP_GLINEAR, 1, T, 0);
    nmb_routing_add(g.p, "r", E, K, T, moe->p->routing[0].expert);
    memcpy(bench_in(&g, NMB_ROLE_ACT, DIMS(R, k)), rows[j == 2 ? 1 : 0],
           (size_t)(R * k) * sizeof(float));
    memcpy(bench_in(&g, NMB_ROLE_WEIGHT, DIMS(E, n, k)), moe->in[3 + j],
           (size_t)(E * n * k) * sizeof(float));
    if (bias)
      memcpy(bench_in(&g, NMB_ROLE_WEIGHT, DIMS(E, n)), moe->in[6 + j],
             (size_t)(E * n) * sizeof(float));
    bench_out(&g, NMB_DT_F32, DIMS(R, n));
    bench_attr(&g, NMB_INT("routing", 0));
    bench_run(&g);
    bench_tiles(&g, 1, 2, 3);
    memcpy(rows[1 + j], g.out[0], (size_t)(R * n) * sizeof(float));
    bench_close(&g);
    for (int i = 0; j == 1 && i < R * I; i++)
      rows[1][i] *= rows[2][i] / (1 + expf(-rows[1][i]));
  }
  bench c = bench_open(NMB_OP_COMBINE, 1, T, 0);
  nmb_routing_add(c.p, "r", E, K, T, moe->p->routing[0].expert);
  memcpy(bench_in(&c, NMB_ROLE_ACT, DIMS(R, H)), rows[3],
         (size_t)(R * H) * sizeof(float));
  if (!before)
    memcpy(bench_in(&c, NMB_ROLE_ACT, DIMS(T, K)), moe->in[1], T * K * sizeof(float));
  memcpy(bench_ids(&c, DIMS(T, K)), moe->in[2], T * K * sizeof(int32_t));
  bench_out(&c, NMB_DT_F32, DIMS(T, H));
  bench_attr(&c, NMB_INT("routing", 0));
  bench_attr(&c, NMB_REAL("scale", 0.25));
  bench_run(&c);
  bench_tiles(&c, 1, 2, 3);
  memcpy(y, c.out[0], T * H * sizeof *y);
  bench_close(&c);
}

/* before: weights multiply what goes into the experts. */
static void
check_moe(bool bias, bool before)
{
  bench b = bench_open(NMB_OP_MOE, 1, T, 0);
  int32_t expert[T * K];
  for (int i = 0; i < T * K; i++) /* some experts get no row */
    expert[i] = (i * 3 + i / K) % (E - 2);
  nmb_routing_add(b.p, "r", E, K, T, expert);
  const float *x = bench_in(&b, NMB_ROLE_ACT, DIMS(T, H));
  const float *w = bench_in(&b, NMB_ROLE_ACT, DIMS(T, K));
  memcpy(bench_ids(&b, DIMS(T, K)), expert, sizeof expert);
  bench_in(&b, NMB_ROLE_WEIGHT, DIMS(E, I, H));
  bench_in(&b, NMB_ROLE_WEIGHT, DIMS(E, I, H));
  bench_in(&b, NMB_ROLE_WEIGHT, DIMS(E, H, I));
  for (int i = 0; bias && i < 3; i++) {
    const int64_t n = i == 2 ? H : I;
    bench_in(&b, NMB_ROLE_WEIGHT, DIMS(E, n));
  }
  const float *y = bench_out(&b, NMB_DT_F32, DIMS(T, H));
  bench_attr(&b, NMB_INT("routing", 0));
  bench_attr(&b, NMB_SYM("fn", "silu"));
  bench_attr(&b, NMB_REAL("scale", 0.25));
  if (before)
    bench_attr(&b, NMB_SYM("weigh", "input"));
  bench_run(&b);
  for (int t = 0; t < T; t++) {
    double sum[H] = {0};
    for (int e = 0; e < E; e++) { /* all of them, most with weight zero */
      double share = 0, out[H];
      for (int j = 0; j < K; j++)
        share += expert[t * K + j] == e ? (double)w[t * K + j] : 0;
      float scaled[H];
      for (int h = 0; h < H; h++)
        scaled[h] = (float)(before ? share : 1) * x[t * H + h];
      network((const float *const *)(b.in + 3), e, bias, scaled, out);
      for (int h = 0; h < H; h++)
        sum[h] += 0.25 * (!before ? share : share > 0 || share < 0 ? 1 : 0) * out[h];
    }
    for (int h = 0; h < H; h++)
      NEAR(y[t * H + h], sum[h], 2e-6);
  }
  float z[T * H];
  lowered(&b, bias, before, z);
  for (int i = 0; i < T * H; i++)
    NEAR(z[i], y[i], 2e-6);
  bench_close(&b);
}

/* Without gates: fn of one product. */
static void
test_plain_experts(void)
{
  bench b = bench_open(NMB_OP_MOE, 1, T, 0);
  int32_t expert[T * K];
  for (int i = 0; i < T * K; i++)
    expert[i] = (i * 5 + i / K) % E;
  nmb_routing_add(b.p, "r", E, K, T, expert);
  const float *x = bench_in(&b, NMB_ROLE_ACT, DIMS(T, H));
  const float *w = bench_in(&b, NMB_ROLE_ACT, DIMS(T, K));
  memcpy(bench_ids(&b, DIMS(T, K)), expert, sizeof expert);
  const float *up = bench_in(&b, NMB_ROLE_WEIGHT, DIMS(E, I, H));
  const float *down = bench_in(&b, NMB_ROLE_WEIGHT, DIMS(E, H, I));
  const float *ub = bench_in(&b, NMB_ROLE_WEIGHT, DIMS(E, I));
  const float *db = bench_in(&b, NMB_ROLE_WEIGHT, DIMS(E, H));
  const float *y = bench_out(&b, NMB_DT_F32, DIMS(T, H));
  bench_attr(&b, NMB_INT("routing", 0));
  bench_attr(&b, NMB_SYM("fn", "relu2"));
  bench_run(&b);
  for (int i = 0; i < T * H; i++) {
    const int t = i / H, h = i % H;
    double sum = 0;
    for (int j = 0; j < K; j++) {
      const int e = expert[t * K + j];
      double out = (double)db[e * H + h];
      for (int n = 0; n < I; n++) {
        double u = (double)ub[e * I + n];
        for (int k = 0; k < H; k++)
          u += (double)up[(e * I + n) * H + k] * (double)x[t * H + k];
        out += u > 0 ? (double)down[(e * H + h) * I + n] * u * u : 0;
      }
      sum += (double)w[t * K + j] * out;
    }
    NEAR(y[i], sum, 2e-6);
  }
  bench_close(&b);
}

static void
test_moe(void)
{
  check_moe(false, false);
  check_moe(true, false);
  check_moe(false, true);
  check_moe(true, true);
}

/* Rows were laid out by one choice; another one in memory is an error. */
static void
test_other_choice(void)
{
  bench b = bench_open(NMB_OP_PERMUTE, 1, T, 0);
  int32_t expert[T * K];
  for (int i = 0; i < T * K; i++)
    expert[i] = i % E;
  nmb_routing_add(b.p, "r", E, K, T, expert);
  bench_in(&b, NMB_ROLE_ACT, DIMS(T, H));
  int32_t *idx = bench_ids(&b, DIMS(T, K));
  bench_out(&b, NMB_DT_F32, DIMS(T * K, H));
  bench_attr(&b, NMB_INT("routing", 0));
  memcpy(idx, expert, sizeof expert);
  bench_run(&b);
  idx[5] = E + 3;
  CU_ASSERT_EQUAL(nmb__op_eval(b.run, b.p, b.id, NULL, &b.v), NMB_BADINPUT);
  bench_close(&b);
}

UNIT_MAIN("choice", {"the choice is the head of a sorted list", test_topk},
          {"equal scores go to the lower number", test_ties},
          {"a table decides the experts, the router their weights", test_table},
          {"SparseMixer weighs within its band", test_sparsemixer},
          {"experts are a weighted sum over all, whole and lowered", test_moe},
          {"experts without gates", test_plain_experts},
          {"a choice that is not that of the rows is an error", test_other_choice})
