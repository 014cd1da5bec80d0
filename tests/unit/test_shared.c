/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Values that cross blocks: choices of keys, caches that layers share, and Gemma 3n's layer
 * with its streams against its formulas, written out here in double.  What layers share is
 * taken from what an evaluation shows of each op. */
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/run.h"
#include "tests/unit/watched.h"

enum { T = 9, H = 32, N = 4, PLE = 8, FFN = 48, HEADS = 4, KV = 2, D = 8, WINDOW = 6 };

/* What one position read and made, by name; the last of a name stays. */
typedef struct seen {
  int64_t position;
  int n;
  struct {
    char name[48];
    int64_t count;
    float *v;
  } of[320];
} seen;

typedef struct watched {
  int n;
  seen at[4];
} watched;

static void
note(seen *s, const char *name, const nmb_tensor *t, const void *v)
{
  int i = 0;
  while (i < s->n && strcmp(s->of[i].name, name))
    i++;
  CU_ASSERT_FATAL(i < 320);
  const size_t bytes = (size_t)nmb_tensor_count(t) * sizeof(float);
  if (i == s->n) {
    snprintf(s->of[s->n++].name, sizeof s->of[i].name, "%s", name);
    s->of[i].v = malloc(bytes);
    s->of[i].count = nmb_tensor_count(t);
  }
  memcpy(s->of[i].v, v, bytes);
}

static void
watch(void *self, const nmb_prog *p, const nmb__place *at, nmb_id op, const nmb__vals *v)
{
  watched *w = self;
  const nmb_op *o = &p->op[op];
  const nmb_block *b = &p->block[at->block];
  for (int k = 0; k < w->n; k++) {
    seen *s = &w->at[k];
    if (s->position != at->position)
      continue;
    for (int i = 0; i < o->nin; i++) {
      const nmb_tensor *t = &p->tensor[o->in[i]];
      if (t->role == NMB_ROLE_WEIGHT)
        note(s, t->name, t, v->in[i]);
      if (o->in[i] == b->in)
        note(s, "<in", t, v->in[i]);
    }
    if (o->code == NMB_OP_ATTENTION) {
      note(s, "<k", &p->tensor[o->in[1]], v->in[1]);
      note(s, "<v", &p->tensor[o->in[2]], v->in[2]);
    }
    if (o->code == NMB_OP_QK && o->nin > 2 && p->tensor[o->in[2]].rank == 2)
      note(s, "<chosen", &p->tensor[o->in[2]], v->in[2]);
    if (o->code == NMB_OP_PICK)
      note(s, "<picked", &p->tensor[o->out[0]], v->out[0]);
    if (o->out[0] == b->out)
      note(s, "<out", &p->tensor[b->out], v->out[0]);
  }
}

static const float *
find(const seen *s, const char *name)
{
  for (int i = 0; i < s->n; i++)
    if (!strcmp(s->of[i].name, name))
      return s->of[i].v;
  return NULL;
}

static const float *
need(const seen *s, const char *name)
{
  const float *v = find(s, name);
  if (!v)
    printf("\n  position %d has no %s\n", (int)s->position, name);
  CU_ASSERT_FATAL(v != NULL);
  return v;
}

static bool
same(const seen *a, const char *x, const seen *b, const char *y, int64_t n)
{
  return !memcmp(need(a, x), need(b, y), (size_t)n * sizeof(float));
}

/* A prefill of T tokens of a tiny model. */
static const int32_t ids[T] = {3, 11, 5, 62, 40, 7, 0, 59, 23};

static void
release(watched *w)
{
  for (int k = 0; k < w->n; k++)
    for (int i = 0; i < w->at[k].n; i++)
      free(w->at[k].of[i].v);
  free(w);
}

static watched *
positions(const char *family, int n, const int *at)
{
  watched *w = calloc(1, sizeof *w);
  CU_ASSERT_FATAL(w != NULL);
  w->n = n;
  for (int i = 0; i < n; i++)
    w->at[i].position = at[i];
  watched_prefill(family, 9, ids, T, watch, w);
  return w;
}

/* ------------------------------------------------------------------- choices */
/* Layers 1 and 4 choose, 2 and 3 take what 1, 5 what 4 has chosen. */
static void
test_choice(void)
{
  watched *w = positions("glm5_shared", 4, (const int[]){2, 4, 5, 6});
  const seen *one = &w->at[0], *three = &w->at[1], *four = &w->at[2], *five = &w->at[3];
  CU_ASSERT_TRUE(same(one, "<picked", one, "<chosen", T * T));
  CU_ASSERT_TRUE(same(one, "<picked", three, "<chosen", T * T));
  CU_ASSERT_TRUE(same(four, "<picked", five, "<chosen", T * T));
  CU_ASSERT_FALSE(same(one, "<picked", four, "<picked", T * T));
  CU_ASSERT_PTR_NULL(find(three, "<picked"));
  CU_ASSERT_PTR_NULL(find(three, "index.k"));
  for (int t = 0; t < T; t++) { /* the topk of 5 among those that t sees */
    int open = 0;
    for (int s = 0; s < T; s++)
      open += need(three, "<chosen")[t * T + s] == 0;
    CU_ASSERT_EQUAL(open, t + 1 < 5 ? t + 1 : 5);
  }
  release(w);
}

/* -------------------------------------------------------------------- caches */
/* Of layers 0 to 3 the last of each kind lends: 4, 6 and 7 have a window, 5 has none. */
static void
test_caches(void)
{
  watched *w = positions("gemma3n", 4, (const int[]){1, 3, 5, 8});
  const int64_t n = T * KV * D;
  for (int i = 2; i < 4; i++) {
    CU_ASSERT_TRUE(same(&w->at[1], "<k", &w->at[i], "<k", n));
    CU_ASSERT_TRUE(same(&w->at[1], "<v", &w->at[i], "<v", n));
    CU_ASSERT_PTR_NULL(find(&w->at[i], "attn.k"));
  }
  CU_ASSERT_FALSE(same(&w->at[0], "<k", &w->at[2], "<k", n));
  release(w);
  w = positions("gemma3n", 3, (const int[]){2, 4, 6});
  CU_ASSERT_TRUE(same(&w->at[1], "<k", &w->at[2], "<k", n));
  CU_ASSERT_FALSE(same(&w->at[0], "<k", &w->at[2], "<k", n));
  release(w);
}

/* ---------------------------------------------------------------- Gemma 3n */
static void
product(const seen *s, const char *name, const double *x, int rows, int columns, double *y)
{
  const float *w = need(s, name);
  for (int i = 0; i < rows; i++) {
    y[i] = 0;
    for (int j = 0; j < columns; j++)
      y[i] += (double)w[i * columns + j] * x[j];
  }
}

/* x may be y */
static void
normed(const float *w, const double *x, int n, double *y)
{
  double sum = 0;
  for (int i = 0; i < n; i++)
    sum += x[i] * x[i] / n;
  for (int i = 0; i < n; i++)
    y[i] = x[i] / sqrt(sum + 1e-6) * (w ? (double)w[i] : 1);
}

static double
gelu(double x)
{
  return x / (1 + exp(-2 * sqrt(1 / acos(0)) * (x + 0.044715 * x * x * x)));
}

static void
modes(const seen *s, const double *x, double *m)
{
  double y[H];
  normed(need(s, "altup.norm"), x, H, y);
  product(s, "altup.router", y, N, H, m);
  for (int i = 0; i < N; i++)
    m[i] = tanh(m[i] / H);
}

/* One token's heads over the keys within the window. */
static void
attended(const seen *s, int t, const double *x, double *y)
{
  const float *k = need(s, "<k"), *v = need(s, "<v");
  double q[HEADS * D], out[HEADS * D] = {0};
  product(s, "attn.q", x, HEADS * D, H, q);
  for (int h = 0; h < HEADS; h++) {
    double *u = q + h * D, below = 0;
    normed(need(s, "attn.q_norm"), u, D, u);
    for (int j = 0; j < D / 2; j++) {
      const double a = t * pow(1e4, -2.0 * j / D), re = u[j], im = u[j + D / 2];
      u[j] = re * cos(a) - im * sin(a);
      u[j + D / 2] = re * sin(a) + im * cos(a);
    }
    for (int pass = 0; pass < 2; pass++)
      for (int r = t - WINDOW + 1 > 0 ? t - WINDOW + 1 : 0; r <= t; r++) {
        const int at = (r * KV + h / (HEADS / KV)) * D;
        double e = 0;
        for (int j = 0; j < D; j++)
          e += u[j] * (double)k[at + j];
        below += pass ? 0 : exp(e);
        for (int j = 0; j < D; j++)
          out[h * D + j] += pass ? exp(e) / below * (double)v[at + j] : 0;
      }
  }
  product(s, "attn.o", out, H, HEADS * D, y);
}

static void
network(const seen *s, const double *x, double deviations, double *y)
{
  double g[FFN], u[FFN], mean = 0, square = 0;
  product(s, "ffn.gate", x, FFN, H, g);
  product(s, "ffn.up", x, FFN, H, u);
  for (int i = 0; i < FFN; i++) {
    mean += g[i] / FFN;
    square += g[i] * g[i] / FFN;
  }
  for (int i = 0; i < FFN && deviations > 0; i++)
    g[i] = fmax(0, g[i] - mean - deviations * sqrt(square - mean * mean));
  for (int i = 0; i < FFN; i++)
    u[i] *= gelu(g[i]);
  product(s, "ffn.down", u, H, FFN, y);
}

/* The embedding of the layer, from the token and its embedding. */
static void
own(const seen *s, int id, const double *e, double *y)
{
  const float *row = need(s, "ple.table") + (id < 60 ? id : 0) * PLE;
  product(s, "ple.model", e, PLE, H, y);
  for (int i = 0; i < PLE; i++)
    y[i] /= sqrt(H);
  normed(need(s, "ple.norm"), y, PLE, y);
  for (int i = 0; i < PLE; i++)
    y[i] = (y[i] + sqrt(PLE) * (double)row[i]) / sqrt(2);
}

/* Attention and network on the first stream, with the learned residual. */
static void
computed(const seen *s, int t, const double *h, double deviations, double *y)
{
  double x[H], low[4], side[H], z[H];
  normed(need(s, "attn.norm"), h, H, x);
  product(s, "laurel.left", x, 4, H, low);
  product(s, "laurel.right", low, H, 4, side);
  normed(need(s, "laurel.norm"), side, H, side);
  attended(s, t, x, z);
  normed(need(s, "attn.post_norm"), z, H, z);
  for (int i = 0; i < H; i++)
    y[i] = (h[i] + z[i] + x[i] + side[i]) / sqrt(2);
  normed(need(s, "ffn.norm"), y, H, x);
  network(s, x, deviations, z);
  normed(need(s, "ffn.post_norm"), z, H, z);
  for (int i = 0; i < H; i++)
    y[i] += z[i];
}

static void
layer(const seen *s, int t, double deviations, double out[N + 1][H])
{
  double in[N + 1][H], p[N][H], m[N], c[N * N], made[H], g[PLE], mine[PLE], add[H];
  for (int i = 0; i < (N + 1) * H; i++)
    in[i / H][i % H] = (double)need(s, "<in")[t * (N + 1) * H + i];
  modes(s, in[0], m);
  product(s, "altup.predict", m, N * N, N, c);
  for (int i = 0; i < H; i++)
    for (int j = 0; j < N; j++) {
      p[j][i] = in[j][i];
      for (int r = 0; r < N; r++)
        p[j][i] += c[j * N + r] * in[r][i];
    }
  computed(s, t, p[0], deviations, made);
  modes(s, made, m);
  product(s, "altup.correct", m, N, N, c);
  for (int i = 0; i < H; i++)
    for (int j = 0; j < N; j++)
      out[j][i] = p[j][i] + (1 + c[j]) * (made[i] - p[0][i]);
  for (int i = 0; i < H; i++)
    add[i] = out[0][i] * (double)need(s, "altup.scale")[i];
  product(s, "ple.gate", add, PLE, H, g);
  own(s, ids[t], in[N], mine);
  for (int i = 0; i < PLE; i++)
    g[i] = gelu(g[i]) * mine[i];
  product(s, "ple.up", g, H, PLE, add);
  normed(need(s, "ple.post_norm"), add, H, add);
  for (int j = 1; j < N; j++)
    for (int i = 0; i < H; i++)
      out[j][i] += add[i];
  memcpy(out[N], in[N], sizeof in[N]);
}

/* Layer 0 cuts its gates at the normal quantile of 0.8; layer 4 does not, and reads
 * another one's caches. */
static void
test_layer(void)
{
  static const double deviations[] = {0.84162123357291442, 0};
  watched *w = positions("gemma3n", 2, (const int[]){1, 5});
  for (int k = 0; k < 2; k++) {
    const float *out = need(&w->at[k], "<out");
    double y[N + 1][H], worst = 0;
    for (int t = 0; t < T; t++) {
      layer(&w->at[k], t, deviations[k], y);
      for (int i = 0; i < (N + 1) * H; i++)
        worst = fmax(worst, fabs(y[i / H][i % H] - (double)out[t * (N + 1) * H + i]));
    }
    if (!(worst < 3e-5))
      printf("\n  position %d: %.3g apart\n", (int)w->at[k].position, worst);
    CU_ASSERT_TRUE(worst < 3e-5);
  }
  release(w);
}

/* Streams after the embedding are as large as it, and joined before the head. */
static void
test_ends(void)
{
  watched *w = positions("gemma3n", 2, (const int[]){0, 1});
  const float *in = need(&w->at[1], "<in");
  for (int t = 0; t < T; t++) {
    double e[H], x[H], large = 0;
    for (int i = 0; i < H; i++)
      e[i] = (double)in[t * (N + 1) * H + N * H + i];
    for (int i = 0; i < H; i++)
      large += e[i] * e[i];
    for (int j = 0; j < N; j++) {
      char name[32];
      double sum = 0;
      snprintf(name, sizeof name, "embed.stream%d", j);
      if (j)
        product(&w->at[0], name, e, H, H, x);
      for (int i = 0; i < H; i++)
        sum += j ? x[i] * x[i] : 0;
      sum = sum > 1e-5 * H ? sum : 1e-5 * H;
      for (int i = 0; i < H; i++)
        CU_ASSERT_DOUBLE_EQUAL(in[t * (N + 1) * H + j * H + i],
                               j ? x[i] * sqrt(large / sum) : e[i], 1e-5);
    }
  }
  release(w);
}

/* -------------------------------------------------------------- as a program */
static char *
print(const nmb_prog *p)
{
  char *text = NULL;
  size_t len = 0;
  FILE *f = open_memstream(&text, &len);
  nmb_prog_print(p, NMB_ALL, f);
  fclose(f);
  return text;
}

/* Reads the text with `from` put as `to`; what verification says. */
static nmb_status
with(nmb_run *run, const char *text, const char *from, const char *to)
{
  const char *at = strstr(text, from);
  nmb_prog *p = NULL;
  CU_ASSERT_FATAL(at != NULL);
  const char *new = nmb_format(run, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
  nmb_status s = nmb_prog_parse(run, "t.nmb", new, strlen(new), NULL, &p);
  if (s != NMB_OK)
    return s;
  s = nmb_prog_verify(run, p, NMB_ALL);
  nmb_prog_free(p);
  return s;
}

/* What is lent reads back, survives where nothing else needs it, and is refused where it
 * cannot be. */
static void
test_text(void)
{
  static const nmb__routing_spec routing = {"uniform", 1, 1};
  static const char lent[] = "%cache.k = dense2 %cache.k";
  const char *top = getenv("srcdir") ? getenv("srcdir") : ".";
  nmb_run *run = nmb__run_open(NULL);
  const nmb__arch *a;
  nmb_prog *p, *q = NULL;
  CU_ASSERT_EQUAL_FATAL(
      nmb__arch_load(run, nmb_format(run, "%s/tests/data/tiny/gemma3n.json", top), &a),
      NMB_OK);
  CU_ASSERT_EQUAL_FATAL(
      nmb__graph_build(run, a, (nmb_step_spec){NMB_DECODE, 2, 1, 20}, &routing, &p), NMB_OK);
  nmb_prog_compact(p); /* the norm in the embedding's block is used by others only */
  CU_ASSERT_EQUAL(nmb_prog_verify(run, p, NMB_ALL), NMB_OK);
  char *text = print(p), *again;
  CU_ASSERT_EQUAL_FATAL(nmb_prog_parse(run, "t.nmb", text, strlen(text), NULL, &q), NMB_OK);
  again = print(q);
  CU_ASSERT_STRING_EQUAL(text, again);
  CU_ASSERT_EQUAL(nmb_prog_hash(p, NMB_GRAPH), nmb_prog_hash(q, NMB_GRAPH));
  CU_ASSERT_EQUAL(with(run, text, lent, lent), NMB_OK);
  CU_ASSERT_EQUAL(with(run, text, lent, "%cache.k = dense-window2 %cache.k"),
                  NMB_UNVERIFIED); /* other dimensions */
  CU_ASSERT_EQUAL(with(run, text, lent, "%cache.k = dense2 %attn.o"), NMB_UNVERIFIED);
  CU_ASSERT_EQUAL(with(run, text, lent, "%cache.k = dense2 %cache.k.1"),
                  NMB_UNVERIFIED); /* which an op makes */
  CU_ASSERT_EQUAL(with(run, text, lent, "%cache.k = head %head.norm"), NMB_BADINPUT);
  CU_ASSERT_EQUAL(with(run, text, "dense2 x 1", "dense2 x 2"), NMB_UNVERIFIED);
  free(text);
  free(again);
  nmb_prog_free(p);
  nmb_prog_free(q);
  nmb__run_close(run);
}

UNIT_MAIN("shared",
          {"a program with lent tensors reads back, a wrong one is refused", test_text},
          {"layers take choices of keys", test_choice},
          {"layers read caches of others", test_caches},
          {"a layer of Gemma 3n", test_layer},
          {"streams are spread as large as the embedding", test_ends})
