/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Reference evaluation of one op over one tile: dispatch, and ops on rows and columns. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/run.h"
#include "ir/eval-op.h"

/* ---------------------------------------------------------------- functions */
static float
fn_silu(float x, float limit)
{
  (void)limit;
  return (float)((double)x / (1 + exp(-(double)x)));
}

static float
fn_gelu(float x, float limit)
{
  (void)limit;
  return (float)(0.5 * (double)x * (1 + erf((double)x * 0.70710678118654752440)));
}

/* Hendrycks and Gimpel, arXiv:1606.08415: the form with tanh. */
static float
fn_gelu_tanh(float x, float limit)
{
  (void)limit;
  const double v = (double)x, root = 0.79788456080286535588; /* sqrt(2 / pi) */
  return (float)(0.5 * v * (1 + tanh(root * (v + 0.044715 * v * v * v))));
}

static float
fn_relu(float x, float limit)
{
  (void)limit;
  return x > 0 || isnan(x) ? x : 0;
}

static float
fn_relu2(float x, float limit)
{
  const float y = fn_relu(x, limit);
  return y * y;
}

/* The part of xIELU below 0, without its factor (transformers, activations.py). */
static float
fn_xielu_low(float x, float limit)
{
  (void)limit;
  return x > 0 ? 0 : (float)(expm1(x < -1e-6F ? (double)x : -1e-6) - (double)x);
}

static float
fn_sigmoid(float x, float limit)
{
  (void)limit;
  return (float)(1 / (1 + exp(-(double)x)));
}

static float
fn_softplus(float x, float limit)
{
  (void)limit;
  return x > 30 ? x : (float)log1p(exp((double)x));
}

static float
fn_exp(float x, float limit)
{
  (void)limit;
  return (float)exp((double)x);
}

static float
fn_tanh(float x, float limit)
{
  (void)limit;
  return (float)tanh((double)x);
}

static float
fn_softcap(float x, float limit)
{
  return (float)((double)limit * tanh((double)x / (double)limit));
}

/* The gate of gpt-oss (arXiv:2508.10925 and its code): clamped from above only. */
static float
fn_swiglu_oai(float x, float limit)
{
  const double g = limit > 0 && x > limit ? (double)limit : (double)x;
  return (float)(g / (1 + exp(-1.702 * g)));
}

/* The gate of Kimi K3's SiTU-GLU, which tends to `limit` (arXiv:2607.24653). */
static float
fn_situ(float x, float limit)
{
  const double v = (double)x, b = (double)limit;
  return (float)(b * tanh(v / b) / (1 + exp(-v)));
}

static float
fn_none(float x, float limit)
{
  (void)limit;
  return x;
}

nmb__fn
nmb__fn_find(const char *name)
{
  static const struct {
    const char *name;
    nmb__fn fn;
  } table[] = {
      {"none", fn_none},
      {"silu", fn_silu},
      {"gelu", fn_gelu},
      {"gelu-tanh", fn_gelu_tanh},
      {"relu", fn_relu},
      {"relu2", fn_relu2},
      {"xielu-low", fn_xielu_low},
      {"sigmoid", fn_sigmoid},
      {"softplus", fn_softplus},
      {"exp", fn_exp},
      {"tanh", fn_tanh},
      {"softcap", fn_softcap},
      {"swiglu-oai", fn_swiglu_oai},
      {"situ", fn_situ},
  };
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    if (!strcmp(table[i].name, name))
      return table[i].fn;
  return NULL;
}

static nmb_status
fn_of(const nmb__opctx *c, nmb__fn *out)
{
  const char *name = nmb_op_sym(c->op, "fn", "silu");
  *out = nmb__fn_find(name);
  if (*out)
    return NMB_OK;
  return nmb_fail(c->run, NMB_UNSUPPORTED, c->op->loc,
                  "%s: found function %s, which has no "
                  "evaluation",
                  nmb_op_get(c->op->code)->name, name);
}

static float
clamp(float x, float limit)
{
  return limit > 0 && x > limit ? limit : limit > 0 && x < -limit ? -limit : x;
}

/* Both factors bend: y = situ(gate) * up_limit tanh(up / up_limit). */
static void
situ_row(const nmb__opctx *c, const float *gate, const float *up, float *y, int64_t n)
{
  const float limit = (float)nmb_op_real(c->op, "limit", 1),
              most = (float)nmb_op_real(c->op, "up_limit", 0);
  for (int64_t i = 0; i < n; i++)
    y[i] = fn_situ(gate[i], limit) * (most > 0 ? fn_softcap(up[i], most) : up[i]);
}

/* With a limit the gate is clamped from above and `up` on both sides; swiglu-oai
 * also adds 1 to `up`.  Without a gate it is fn(up). */
nmb_status
nmb__glu_row(const nmb__opctx *c, const float *gate, const float *up, float *y, int64_t n)
{
  nmb__fn fn;
  NMB_TRY(fn_of(c, &fn));
  if (fn == fn_situ && gate) {
    situ_row(c, gate, up, y, n);
    return NMB_OK;
  }
  const float limit = (float)nmb_op_real(c->op, "limit", 0);
  const float one = !strcmp(nmb_op_sym(c->op, "fn", "silu"), "swiglu-oai") ? 1 : 0;
  for (int64_t i = 0; i < n; i++) {
    if (!gate) {
      y[i] = fn(up[i], limit);
      continue;
    }
    const float g = limit > 0 && gate[i] > limit ? limit : gate[i];
    y[i] = fn(g, limit) * (clamp(up[i], limit) + one);
  }
  return NMB_OK;
}

/* --------------------------------------------------------- rows and columns */
/* What is no number stays so. */
static float
bounded(const nmb__opctx *c, float y)
{
  const float low = (float)nmb_op_real(c->op, "low", -HUGE_VAL),
              high = (float)nmb_op_real(c->op, "high", HUGE_VAL);
  return y < low ? low : y > high ? high : y;
}

static nmb_status
eval_act(const nmb__opctx *c)
{
  nmb__fn fn;
  NMB_TRY(fn_of(c, &fn));
  const float limit = (float)nmb_op_real(c->op, "limit", 0),
              scale = (float)nmb_op_real(c->op, "scale", 1),
              shift = (float)nmb_op_real(c->op, "shift", 0);
  for (int64_t i = c->t.m0; i < c->t.m1; i++)
    for (int64_t j = i * c->s.n + c->t.n0; j < i * c->s.n + c->t.n1; j++)
      nmb__out(c)[j] = bounded(c, scale * fn(nmb__in(c, 0)[j], limit) + shift);
  return NMB_OK;
}

static nmb_status
eval_glu(const nmb__opctx *c)
{
  for (int64_t i = c->t.m0; i < c->t.m1; i++) {
    const int64_t at = i * c->s.n + c->t.n0;
    NMB_TRY(nmb__glu_row(c, nmb__in(c, 0) + at, nmb__in(c, 1) + at, nmb__out(c) + at,
                         c->t.n1 - c->t.n0));
  }
  return NMB_OK;
}

/* Element of b that goes with element i of a: equal trailing dimensions, or 1. */
static int64_t
broadcast(const nmb_tensor *a, const nmb_tensor *b, int64_t i)
{
  int64_t at = 0, step = 1;
  for (int d = 1; d <= b->rank; d++) {
    const int64_t along = d <= a->rank ? a->dim[a->rank - d] : 1, n = b->dim[b->rank - d];
    at += (n == 1 ? 0 : i % along) * step;
    i /= along;
    step *= n;
  }
  return at;
}

static nmb_status
eval_binary(const nmb__opctx *c)
{
  const bool mul = c->op->code == NMB_OP_MUL;
  const bool same = nmb_tensor_count(c->in[0]) == nmb_tensor_count(c->in[1]);
  const float scale = mul ? 1 : (float)nmb_op_real(c->op, "scale", 1);
  for (int64_t i = c->t.m0; i < c->t.m1; i++)
    for (int64_t j = i * c->s.n + c->t.n0; j < i * c->s.n + c->t.n1; j++) {
      const float a = nmb__in(c, 0)[j];
      const float b = nmb__in(c, 1)[same ? j : broadcast(c->in[0], c->in[1], j)];
      nmb__out(c)[j] = mul ? a * b : scale * a + b;
    }
  return NMB_OK;
}

static nmb_status
eval_embed(const nmb__opctx *c)
{
  const int64_t rows = c->in[1]->dim[0], H = c->s.n;
  const float scale = (float)nmb_op_real(c->op, "scale", 1);
  for (int64_t i = c->t.m0; i < c->t.m1; i++) {
    int64_t id = nmb__ids(c, 0)[i] + nmb_op_int(c->op, "offset", 0);
    if (id >= rows)
      id = nmb_op_int(c->op, "beyond", id);
    if (id < 0 || id >= rows)
      return nmb_fail(c->run, NMB_BADINPUT, c->op->loc,
                      "embed: found id %d, expected 0 to %d", (int)id, (int)rows - 1);
    for (int64_t n = c->t.n0; n < c->t.n1; n++)
      nmb__out(c)[i * H + n] = scale * nmb__in(c, 1)[id * H + n];
  }
  return NMB_OK;
}

static nmb_status
eval_split(const nmb__opctx *c)
{
  const int64_t last = c->in[0]->dim[c->in[0]->rank - 1];
  const int64_t first = nmb_op_int(c->op, "first", 0),
                n = nmb_op_int(c->op, "count", last);
  const int64_t rows = nmb_tensor_count(c->in[0]) / last;
  for (int64_t i = 0; i < rows; i++)
    memcpy(nmb__out(c) + i * n, nmb__in(c, 0) + i * last + first,
           (size_t)n * sizeof(float));
  return NMB_OK;
}

/* Scores: the rows of a unit one by one. */
static nmb_status
concat_scores(const nmb__opctx *c)
{
  const int64_t n = c->out[0]->dim[2], first = c->in[0]->dim[2], rest = n - first;
  for (int64_t i = c->t.m0; i < c->t.m1; i++)
    for (int64_t j = c->t.n0; j < c->t.n1; j++) {
      const int64_t row = i * (c->s.n / n) + j / n, column = j % n;
      nmb__out(c)[i * c->s.n + j] = column < first
                                        ? nmb__in(c, 0)[row * first + column]
                                        : nmb__in(c, 1)[row * rest + column - first];
    }
  return NMB_OK;
}

static nmb_status
eval_concat(const nmb__opctx *c)
{
  if (c->out[0]->rank == 3)
    return concat_scores(c);
  const int64_t first = nmb_tensor_count(c->in[0]) / c->s.m, n = c->s.n, rest = n - first;
  for (int64_t i = c->t.m0; i < c->t.m1; i++)
    for (int64_t j = c->t.n0; j < c->t.n1; j++)
      nmb__out(c)[i * n + j] = j < first ? nmb__in(c, 0)[i * first + j]
                                         : nmb__in(c, 1)[i * rest + j - first];
  return NMB_OK;
}

static nmb_status
eval_mix(const nmb__opctx *c)
{
  const int64_t T = c->s.m, n = nmb_op_int(c->op, "streams", 1);
  const int64_t m = nmb_tensor_count(c->in[0]) / T / n, H = c->s.n / m;
  const bool turned = nmb_op_int(c->op, "transposed", 0) != 0;
  for (int64_t t = c->t.m0; t < c->t.m1; t++)
    for (int64_t e = c->t.n0; e < c->t.n1; e++) {
      const float *w = nmb__in(c, 0) + t * m * n, *x = nmb__in(c, 1) + t * n * H + e % H;
      double sum = 0;
      for (int64_t j = 0, i = e / H; j < n; j++)
        sum += (double)w[turned ? j * m + i : i * n + j] * (double)x[j * H];
      nmb__out(c)[t * m * H + e] = (float)sum;
    }
  return NMB_OK;
}

static nmb_status
eval_dot(const nmb__opctx *c)
{
  const int64_t n = c->s.n, H = nmb_tensor_count(c->in[1]);
  for (int64_t t = c->t.m0; t < c->t.m1; t++)
    for (int64_t j = c->t.n0; j < c->t.n1; j++) {
      double sum = 0;
      for (int64_t i = 0; i < H; i++)
        sum += (double)nmb__in(c, 0)[(t * n + j) * H + i] * (double)nmb__in(c, 1)[i];
      nmb__out(c)[t * n + j] = (float)sum;
    }
  return NMB_OK;
}

static nmb_status
eval_kvappend(const nmb__opctx *c)
{
  const nmb_tensor *cache = c->in[0];
  const int64_t S = cache->dim[1], N = c->s.n, fresh = c->s.m / cache->dim[0];
  const int64_t at = nmb_op_int(c->op, "at", S - fresh);
  for (int64_t i = c->t.m0; i < c->t.m1; i++)
    memcpy(nmb__out(c) + (i / fresh * S + at + i % fresh) * N + c->t.n0,
           nmb__in(c, 1) + i * N + c->t.n0, (size_t)(c->t.n1 - c->t.n0) * sizeof(float));
  return NMB_OK;
}

static nmb_status
eval_select(const nmb__opctx *c)
{
  const int64_t per = nmb_tensor_count(c->in[0]) / nmb_tensor_count(c->out[0]),
                N = c->s.n;
  for (int64_t i = c->t.m0; i < c->t.m1; i++)
    memcpy(nmb__out(c) + i * N + c->t.n0,
           nmb__in(c, 0) + ((i + 1) * per - 1) * N + c->t.n0,
           (size_t)(c->t.n1 - c->t.n0) * sizeof(float));
  return NMB_OK;
}

/* -------------------------------------------------------------------- norms */
typedef struct norming {
  double mean, factor; /* y = (x - mean) * factor */
} norming;

static norming
norming_of(const float *x, int64_t n, const char *kind, double eps)
{
  double sum = 0, squares = 0;
  for (int64_t i = 0; i < n; i++)
    sum += (double)x[i];
  const double mean = strcmp(kind, "layer") ? 0 : sum / (double)n;
  for (int64_t i = 0; i < n; i++)
    squares += ((double)x[i] - mean) * ((double)x[i] - mean);
  return (norming){mean,
                   1 / sqrt((strcmp(kind, "l2") ? squares / (double)n : squares) + eps)};
}

static void
softmax_of(const float *x, int64_t n, double *y)
{
  double top = (double)x[0], sum = 0;
  for (int64_t i = 1; i < n; i++)
    top = (double)x[i] > top || isnan(x[i]) ? (double)x[i] : top;
  for (int64_t i = 0; i < n; i++)
    sum += y[i] = exp((double)x[i] - top);
  for (int64_t i = 0; i < n; i++)
    y[i] /= sum;
}

/* Lines of n elements `along` apart, each over its sum + eps; they start `apart`. */
static void
lines_even(double *y, int64_t n, int64_t along, int64_t apart, double eps)
{
  for (int64_t i = 0; i < n; i++) {
    double sum = eps;
    for (int64_t j = 0; j < n; j++)
      sum += y[i * apart + j * along];
    for (int64_t j = 0; j < n; j++)
      y[i * apart + j * along] /= sum;
  }
}

/* y has room for n */
static void
sinkhorn_of(const nmb__opctx *c, const float *x, int64_t n, double *y)
{
  const double eps = nmb_op_real(c->op, "eps", 0);
  int64_t side = 1;
  while (side * side < n)
    side++;
  for (int64_t i = 0; i < side; i++)
    softmax_of(x + i * side, side, y + i * side);
  for (int64_t i = 0; i < n; i++)
    y[i] += eps;
  lines_even(y, side, side, 1, eps);
  for (int64_t i = 1; i < nmb_op_int(c->op, "rounds", 1); i++) {
    lines_even(y, side, 1, side, eps);
    lines_even(y, side, side, 1, eps);
  }
}

/* Rows whose elements come to make a sum of 1. */
static nmb_status
eval_shares(const nmb__opctx *c, bool square)
{
  const int64_t n = c->in[0]->dim[c->in[0]->rank - 1], N = c->s.n;
  double *y = NMB_NEW(c->run, double, n);
  for (int64_t i = c->t.m0; i < c->t.m1; i++)
    for (int64_t at = c->t.n0 - c->t.n0 % n; at < c->t.n1; at += n) {
      if (square)
        sinkhorn_of(c, nmb__in(c, 0) + i * N + at, n, y);
      else
        softmax_of(nmb__in(c, 0) + i * N + at, n, y);
      for (int64_t j = at < c->t.n0 ? c->t.n0 - at : 0; j < n && at + j < c->t.n1; j++)
        nmb__out(c)[i * N + at + j] = (float)y[j];
    }
  return NMB_OK;
}

/* What is above the mean by more than so many deviations, less that; else 0. */
static void
eval_cut(const nmb__opctx *c)
{
  const double z = nmb_op_real(c->op, "deviations", 0);
  const int64_t n = c->s.n;
  for (int64_t i = c->t.m0; i < c->t.m1; i++) {
    const float *x = nmb__in(c, 0) + i * n;
    const norming g = norming_of(x, n, "layer", 0);
    for (int64_t j = c->t.n0; j < c->t.n1; j++) {
      const double y = (double)x[j] - g.mean - z / g.factor;
      nmb__out(c)[i * n + j] = y > 0 ? (float)y : 0;
    }
  }
}

/* Each row times what makes its mean square, or eps if that is more, that of the other
 * input's. */
static void
eval_like(const nmb__opctx *c)
{
  const double eps = nmb_op_real(c->op, "eps", 0), scale = nmb_op_real(c->op, "scale", 1);
  const int64_t n = c->s.n;
  for (int64_t i = c->t.m0; i < c->t.m1; i++) {
    const float *x = nmb__in(c, 0) + i * n, *like = nmb__in(c, 1) + i * n;
    double sum = 0, other = 0;
    for (int64_t j = 0; j < n; j++) {
      sum += (double)x[j] * (double)x[j];
      other += (double)like[j] * (double)like[j];
    }
    const double least = eps * (double)n;
    const double f = scale * sqrt(other / (sum > least ? sum : least));
    for (int64_t j = c->t.n0; j < c->t.n1; j++)
      nmb__out(c)[i * n + j] = (float)(f * (double)x[j]);
  }
}

/* Over runs of as many elements as the weight has; without one, of the last dimension. */
nmb_status
nmb__eval_norm(const nmb__opctx *c)
{
  const float *w = nmb__in(c, 1), *b = nmb__in(c, 2);
  const int64_t N = c->s.n;
  const int64_t n = w ? nmb_tensor_count(c->in[1]) : c->in[0]->dim[c->in[0]->rank - 1];
  const char *kind = nmb_op_sym(c->op, "kind", "rms");
  const double eps = nmb_op_real(c->op, "eps", 0),
               offset = nmb_op_real(c->op, "offset", 0);
  if (!strcmp(kind, "softmax") || !strcmp(kind, "sinkhorn"))
    return eval_shares(c, *(kind + 1) == 'i');
  if (!strcmp(kind, "cut") || !strcmp(kind, "like")) {
    (*kind == 'c' ? eval_cut : eval_like)(c);
    return NMB_OK;
  }
  if (strcmp(kind, "rms") && strcmp(kind, "layer") && strcmp(kind, "l2"))
    return nmb_fail(c->run, NMB_UNSUPPORTED, c->op->loc,
                    "norm: found kind %s, expected rms, layer, l2, softmax, "
                    "sinkhorn, cut or like",
                    kind);
  for (int64_t i = c->t.m0; i < c->t.m1; i++)
    for (int64_t from = c->t.n0 - c->t.n0 % n; from < c->t.n1; from += n) {
      const float *x = nmb__in(c, 0) + i * N + from;
      const norming g = norming_of(x, n, kind, eps);
      for (int64_t j = 0; j < n; j++) {
        if (from + j < c->t.n0 || from + j >= c->t.n1)
          continue;
        const double y = ((double)x[j] - g.mean) * g.factor;
        nmb__out(c)[i * N + from + j] =
            (float)(y * (w ? (double)w[j] + offset : 1) + (b ? (double)b[j] : 0));
      }
    }
  return NMB_OK;
}

/* ----------------------------------------------------------------- dispatch */
static nmb_status (*const eval_op[NMB_NOP])(const nmb__opctx *) = {
    [NMB_OP_EMBED] = eval_embed,
    [NMB_OP_NORM] = nmb__eval_norm,
    [NMB_OP_LINEAR] = nmb__eval_linear,
    [NMB_OP_HLINEAR] = nmb__eval_hlinear,
    [NMB_OP_GLINEAR] = nmb__eval_glinear,
    [NMB_OP_ROPE] = nmb__eval_rope,
    [NMB_OP_ADD] = eval_binary,
    [NMB_OP_MUL] = eval_binary,
    [NMB_OP_ACT] = eval_act,
    [NMB_OP_GLU] = eval_glu,
    [NMB_OP_SPLIT] = eval_split,
    [NMB_OP_KVAPPEND] = eval_kvappend,
    [NMB_OP_QK] = nmb__eval_qk,
    [NMB_OP_SOFTMAX] = nmb__eval_softmax,
    [NMB_OP_PICK] = nmb__eval_pick,
    [NMB_OP_TAKE] = nmb__eval_take,
    [NMB_OP_PV] = nmb__eval_pv,
    [NMB_OP_ATTENTION] = nmb__eval_attention,
    [NMB_OP_TOPK] = nmb__eval_topk,
    [NMB_OP_MOE] = nmb__eval_moe,
    [NMB_OP_PERMUTE] = nmb__eval_permute,
    [NMB_OP_COMBINE] = nmb__eval_combine,
    [NMB_OP_SELECT] = eval_select,
    [NMB_OP_CONV] = nmb__eval_conv,
    [NMB_OP_SCAN] = nmb__eval_scan,
    [NMB_OP_WKV] = nmb__eval_wkv,
    [NMB_OP_CONCAT] = eval_concat,
    [NMB_OP_MIX] = eval_mix,
    [NMB_OP_DOT] = eval_dot,
    [NMB_OP_POOL] = nmb__eval_pool,
};

nmb_status
nmb__op_eval(nmb_run *run, const nmb_prog *p, nmb_id id, const nmb_tile *tile,
             const nmb__vals *v)
{
  const nmb_op *o = &p->op[id];
  nmb__opctx c = {.run = run, .p = p, .op = o, .s = nmb_op_space(p, id), .v = v};
  c.t = tile ? *tile : (nmb_tile){0, c.s.b, 0, c.s.m, 0, c.s.n, 0, c.s.k};
  for (int i = 0; i < o->nin; i++)
    c.in[i] = &p->tensor[o->in[i]];
  for (int i = 0; i < o->nout; i++)
    c.out[i] = &p->tensor[o->out[i]];
  if (nmb_op_attr(o, "routing"))
    c.r = v->routing ? v->routing : &p->routing[nmb_op_int(o, "routing", 0)];
  if (o->code == NMB_OP_GLINEAR && !tile) /* the space is that of the program's loads */
    c.t.m1 = c.r->ntoken * c.r->topk;
  if (!eval_op[o->code])
    return nmb_fail(run, NMB_UNSUPPORTED, o->loc, "%s has no evaluation",
                    nmb_op_get(o->code)->name);
  return eval_op[o->code](&c);
}
