/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Instructions of a step: the loops over tiles, and what each op touches in one. */
#include <string.h>

#include "base/run.h"
#include "ir/lower.h"

void
nmb__insns_push(nmb_run *run, nmb_insns *list, const nmb_insn *insn)
{
  if (list->n == list->cap) {
    nmb_insn *old = list->v;
    list->cap = list->cap ? 2 * list->cap : 16;
    list->v = NMB_NEW(run, nmb_insn, list->cap);
    if (list->n)
      memcpy(list->v, old, (size_t)list->n * sizeof *old);
  }
  list->v[list->n++] = *insn;
}

/* Passes also ask about steps that are not in the schedule. */
nmb_id
nmb__step_row(const nmb_prog *p, const nmb_step *step)
{
  const uintptr_t at = (uintptr_t)step, lo = (uintptr_t)p->step;
  if (at < lo || at >= lo + (size_t)p->nstep * sizeof *step)
    return NMB_NONE;
  return (nmb_id)((at - lo) / sizeof *step);
}

/* What is known of an op before its kernel is walked. */
typedef struct opinfo {
  nmb_id id;
  const nmb_op *op;
  nmb_space s;
  bool units; /* computes in memory, unit by unit: layout and shape are set */
  nmb_layout layout;
  nmb__shape shape;
  int64_t wave; /* units side by side */
  int64_t row_bytes;
  bool inner_in[NMB_MAXIN], inner_out;
} opinfo;

typedef struct walker {
  nmb_run *run;
  const nmb__work *w;
  const nmb_prog *p;
  const nmb_engine *e;
  const nmb_step *step;
  nmb_map map;
  opinfo *o;
  nmb__sink sink;
  void *to;
  bool started;       /* the first instruction has gone out */
  int64_t expert_row; /* first row of the expert at hand, in expert order */
  int64_t unit_shift; /* dealt to channels: unit b is number b + unit_shift, never < 0 */
  bool in_units;      /* tiles are of units of attention */
  nmb_tile kernel;    /* kernel tile at hand */
  struct origin *origin; /* [nop] of the tiles of inner values */
  nmb__region *region;   /* (optional) gets what the operands are */
  nmb_place last_mac;
  nmb_tile last_tile; /* kernel tile of last_mac */
} walker;

/* ------------------------------------------------------------------ operands */
static nmb_operand *
operand(walker *k, nmb_insn *in, nmb_id tensor, bool inner, bool write)
{
  nmb_operand *o = &in->opnd[in->nopnd++];
  const nmb_id root = nmb_tensor_root(k->p, tensor);
  const bool resident = nmb_tensor_resident(&k->p->tensor[root]);
  o->tensor = root;
  o->mem = resident ? k->e->resident : inner ? k->e->local : k->e->home;
  o->slot = NMB_NONE;
  o->write = write;
  return o;
}

/* The tile of an inner value that an op of the kernel makes: rows of `width` bytes of
 * its tensor, `stride` apart, from `offset`; they lie packed in the buffer from 0. */
typedef struct origin {
  int64_t offset, width, stride;
} origin;

static const origin *
origin_of(const walker *k, nmb_id root)
{
  int i = 0;
  while (k->w->op[i] != k->p->tensor[root].def)
    i++;
  return &k->origin[i];
}

/* An engine that goes row by row has in its buffer what is at work at once: of tokens
 * a row, of units one row each of those side by side. */
static void
localise_row(const walker *k, const nmb_insn *in, const opinfo *o, nmb_operand *x,
             int64_t column)
{
  const nmb_tile *t = &in->tile, *kt = &k->kernel;
  if (!k->in_units) {
    x->rows /= t->m1 - t->m0;
    x->offset = column;
  } else {
    const bool whole = o->op->code == NMB_OP_SOFTMAX ||
                       nmb_op_get(o->op->code)->class_ == NMB_CLASS_MAC;
    const int64_t u0 = whole ? t->b0 : t->m0, u1 = whole ? t->b1 : t->m1;
    if (!whole) /* the rows of a unit lie in one row */
      x->row_bytes /= kt->m1 - kt->m0;
    x->rows = k->e->in_memory ? u1 - u0 : 1;
    x->offset = k->e->in_memory ? (u0 - kt->b0) * x->row_bytes : 0;
    x->stride = x->row_bytes;
  }
  if (x->rows == 1)
    x->stride = x->row_bytes;
}

/* From the tensor to the buffer of its tile.  False if it is no rectangle there. */
static bool
localise(const walker *k, const nmb_insn *in, const opinfo *o, nmb_operand *x)
{
  const origin *g = origin_of(k, x->tensor);
  const int64_t at = x->offset - g->offset, row = at / g->stride, col = at % g->stride;
  if (k->e->rows_one_by_one) {
    localise_row(k, in, o, x, g->width == g->stride ? at % g->stride : col);
    return true;
  }
  x->offset = at;
  if (g->width == g->stride)
    return true;
  const int64_t span = (x->rows - 1) * x->stride + x->row_bytes;
  x->offset = row * g->width + col;
  if (col + span <= g->width) /* inside one row */
    return true;
  if (x->stride % g->stride)
    return false;
  x->stride = x->stride / g->stride * g->width;
  return true;
}

/* Rows [m0, m1) and columns [c0, c1) of input or output i of an op. */
static bool
value(walker *k, nmb_insn *in, const opinfo *o, int i, int64_t len, int64_t m0,
      int64_t m1, int64_t c0, int64_t c1)
{
  const bool write = i >= o->op->nin;
  const nmb_id t = write ? o->op->out[i - o->op->nin] : o->op->in[i];
  const bool inner = write ? o->inner_out : o->inner_in[i];
  nmb_operand *x = operand(k, in, t, inner, write);
  if (k->region)
    k->region[in->nopnd - 1] = (nmb__region){t, i, len, m0, m1, c0, c1};
  return nmb__rect(k->p, t, len, m0, m1, c0, c1, x) &&
         (!inner || localise(k, in, o, x));
}

/* Elements [a, b) of a tensor as they lie, in one run. */
static bool
run_of(walker *k, nmb_insn *in, const opinfo *o, int i, int64_t a, int64_t b)
{
  const nmb_id t = o->op->in[i];
  nmb_operand *x = operand(k, in, t, o->inner_in[i], false);
  const nmb_tensor *y = &k->p->tensor[t];
  if (k->region)
    k->region[in->nopnd - 1] = (nmb__region){t, i, nmb_tensor_count(y), 0, 1, a, b};
  x->offset = nmb_bytes(y->dtype, y->group, a);
  x->rows = 1;
  x->row_bytes = nmb_bytes(y->dtype, y->group, b) - x->offset;
  x->stride = x->row_bytes;
  return true;
}

static bool
all_of(walker *k, nmb_insn *in, const opinfo *o, int i)
{
  return run_of(k, in, o, i, 0, nmb_tensor_count(&k->p->tensor[o->op->in[i]]));
}

static bool
linear_operands(walker *k, nmb_insn *in, const opinfo *o)
{
  const nmb_tile *t = &in->tile;
  const int64_t K = o->s.k, N = o->s.n;
  return value(k, in, o, 0, K, t->m0, t->m1, 0, K) &&
         run_of(k, in, o, 1, t->n0 * K, t->n1 * K) &&
         (o->op->nin < 3 || run_of(k, in, o, 2, t->n0, t->n1)) &&
         value(k, in, o, o->op->nin, N, t->m0, t->m1, t->n0, t->n1);
}

static bool
hlinear_operands(walker *k, nmb_insn *in, const opinfo *o)
{
  const nmb_tile *t = &in->tile;
  const int64_t K = o->s.k, N = o->s.n, h = o->s.b;
  const bool all = t->n0 == 0 && t->n1 == N;
  if (!all && t->b1 - t->b0 > 1)
    return false;
  return value(k, in, o, 0, h * K, t->m0, t->m1, t->b0 * K, t->b1 * K) &&
         run_of(k, in, o, 1, (t->b0 * N + t->n0) * K, ((t->b1 - 1) * N + t->n1) * K) &&
         value(k, in, o, 2, h * N, t->m0, t->m1, t->b0 * N + t->n0,
               (t->b1 - 1) * N + t->n1);
}

static bool
glinear_operands(walker *k, nmb_insn *in, const opinfo *o)
{
  const nmb_tile *t = &in->tile;
  const nmb_routing *r = &k->p->routing[nmb_op_int(o->op, "routing", 0)];
  const int64_t K = o->s.k, N = o->s.n, e = t->b0, at = k->expert_row;
  const int64_t m1 = t->m1 < r->load[e] ? t->m1 : r->load[e];
  return value(k, in, o, 0, K, at + t->m0, at + m1, 0, K) &&
         run_of(k, in, o, 1, (e * N + t->n0) * K, (e * N + t->n1) * K) &&
         (o->op->nin < 3 || run_of(k, in, o, 2, e * N + t->n0, e * N + t->n1)) &&
         value(k, in, o, o->op->nin, N, at + t->m0, at + m1, t->n0, t->n1);
}

/* A query or the result of attention, [T, nh, d]: the part that units [b0, b1) and
 * rows [m0, m1) of each have of it.  Rows of a unit: token, then head in its group. */
static bool
token_heads(walker *k, nmb_insn *in, const opinfo *o, int i, int64_t nk)
{
  const nmb_tile *t = &in->tile;
  const nmb_id id = i >= o->op->nin ? o->op->out[0] : o->op->in[i];
  const nmb_tensor *x = &k->p->tensor[id];
  const int64_t nh = x->dim[1], d = x->dim[2], rep = nh / nk, fresh = o->s.m / rep;
  const int64_t s0 = t->b0 / nk, s1 = (t->b1 - 1) / nk + 1, j0 = t->b0 % nk;
  if (t->m0 == 0 && t->m1 == o->s.m) {
    const int64_t j1 = j0 + (t->b1 - t->b0);
    return s1 - s0 > 1 ? value(k, in, o, i, nh * d, s0 * fresh, s1 * fresh, 0, nh * d)
                       : value(k, in, o, i, nh * d, s0 * fresh, s1 * fresh, j0 * rep * d,
                               j1 * rep * d);
  }
  const int64_t f0 = s0 * fresh + t->m0 / rep, f1 = s0 * fresh + (t->m1 - 1) / rep + 1;
  if (t->m0 % rep == 0 && t->m1 % rep == 0)
    return value(k, in, o, i, nh * d, f0, f1, j0 * rep * d, (j0 + 1) * rep * d);
  const int64_t r0 = j0 * rep + t->m0 % rep; /* within one token */
  return value(k, in, o, i, nh * d, f0, f0 + 1, r0 * d, (r0 + t->m1 - t->m0) * d);
}

/* Keys or values [B, S, nk, d] of units [b0, b1): positions [r0, r1), components
 * [c0, c1) of each. */
static bool
cache_part(walker *k, nmb_insn *in, const opinfo *o, int64_t r0, int64_t r1, int64_t c0,
           int64_t c1)
{
  const nmb_tile *t = &in->tile;
  const nmb_tensor *x = &k->p->tensor[o->op->in[1]];
  const int64_t S = x->dim[1], nk = x->dim[2], d = x->dim[3];
  const int64_t s0 = t->b0 / nk, s1 = (t->b1 - 1) / nk + 1, j0 = t->b0 % nk;
  if (s1 - s0 > 1)
    return value(k, in, o, 1, nk * d, s0 * S, s1 * S, 0, nk * d);
  const int64_t j1 = j0 + (t->b1 - t->b0) - 1;
  return value(k, in, o, 1, nk * d, s0 * S + r0, s0 * S + r1, j0 * d + c0, j1 * d + c1);
}

static bool
scores(walker *k, nmb_insn *in, const opinfo *o, int i, int64_t len, int64_t c0,
       int64_t c1)
{
  const nmb_tile *t = &in->tile;
  const int64_t g = o->s.m;
  return value(k, in, o, i, len, t->b0 * g + t->m0, (t->b1 - 1) * g + t->m1, c0, c1);
}

/* A bias [T,n,S], each of whose heads is that of nk/n units of a sequence. */
static bool
token_bias(walker *k, nmb_insn *in, const opinfo *o, int64_t nk, int64_t n)
{
  const nmb_tile *t = &in->tile;
  const int64_t S = o->s.n, rep = k->p->tensor[o->op->in[0]].dim[1] / nk;
  const int64_t per = o->s.m / rep, s0 = t->b0 / nk, s1 = (t->b1 - 1) / nk;
  const int64_t h0 = s0 < s1 ? 0 : t->b0 % nk * n / nk;
  const int64_t h1 = s0 < s1 ? n : (t->b1 - 1) % nk * n / nk + 1;
  if (h1 - h0 > 1 && (t->n0 > 0 || t->n1 < S))
    return false;
  return value(k, in, o, 2, n * S, s0 * per + t->m0 / rep,
               s1 * per + (t->m1 - 1) / rep + 1, h0 * S + t->n0, (h1 - 1) * S + t->n1);
}

/* A bias that has all heads of a sequence in one unit, [B, new * heads, S], where the
 * scores have them apart: the rows of the same heads and tokens.  Else it is laid out
 * as the scores are. */
static bool
score_bias(walker *k, nmb_insn *in, const opinfo *o, int64_t nk)
{
  const nmb_tile *t = &in->tile;
  const nmb_tensor *x = &k->p->tensor[o->op->in[2]];
  const int64_t S = o->s.n, B = o->s.b / nk;
  if (x->rank != 3)
    return token_bias(k, in, o, nk, x->rank == 2 ? 1 : x->dim[2]);
  if (x->dim[0] == o->s.b || x->dim[0] != B)
    return scores(k, in, o, 2, S, t->n0, t->n1);
  const int64_t nh = k->p->tensor[o->op->in[0]].dim[1], rep = nh / nk, fresh = o->s.m / rep;
  const int64_t s0 = t->b0 / nk, s1 = (t->b1 - 1) / nk + 1, j0 = t->b0 % nk;
  const bool keys = t->n0 == 0 && t->n1 == S, whole = t->m0 == 0 && t->m1 == o->s.m;
  const int64_t h0 = j0 * rep, h1 = h0 + (t->b1 - t->b0) * rep;
  if (s1 - s0 > 1) /* whole sequences */
    return keys && whole &&
           value(k, in, o, 2, nh * S, s0 * fresh, s1 * fresh, 0, nh * S);
  if (t->m0 % rep == 0 && t->m1 % rep == 0 && (keys || h1 - h0 == 1))
    return value(k, in, o, 2, nh * S, s0 * fresh + t->m0 / rep, s0 * fresh + t->m1 / rep,
                 h0 * S + t->n0, (h1 - 1) * S + t->n1);
  if (t->m1 - t->m0 != 1 || t->b1 - t->b0 != 1)
    return false;
  const int64_t h = h0 + t->m0 % rep, token = s0 * fresh + t->m0 / rep;
  return value(k, in, o, 2, nh * S, token, token + 1, h * S + t->n0, h * S + t->n1);
}

static bool
attention_operands(walker *k, nmb_insn *in, const opinfo *o)
{
  const nmb_tile *t = &in->tile;
  if (o->op->code == NMB_OP_SOFTMAX)
    return scores(k, in, o, 0, o->s.n, 0, o->s.n) &&
           (o->op->nin < 2 || all_of(k, in, o, 1)) &&
           scores(k, in, o, o->op->nin, o->s.n, 0, o->s.n);
  const int64_t nk = k->p->tensor[o->op->in[1]].dim[2];
  if (o->op->code == NMB_OP_QK)
    return token_heads(k, in, o, 0, nk) &&
           cache_part(k, in, o, t->n0, t->n1, 0, o->s.k) &&
           (o->op->nin < 3 || score_bias(k, in, o, nk)) &&
           scores(k, in, o, o->op->nin, o->s.n, t->n0, t->n1);
  return scores(k, in, o, 0, o->s.k, 0, o->s.k) &&
         cache_part(k, in, o, 0, o->s.k, 0, o->s.n) && token_heads(k, in, o, 2, nk);
}

/* The row of `table` for each of the rows of the tile, wherever they are: counted as if
 * each token of the step had another, as far as there are rows. */
static bool
table_rows(walker *k, nmb_insn *in, const opinfo *o, int i)
{
  const nmb_tile *t = &in->tile;
  const nmb_tensor *x = &k->p->tensor[o->op->in[i]];
  const int64_t rows = x->dim[0], n = x->dim[1], m = t->m1 - t->m0;
  const int64_t r1 = t->m1 < rows ? t->m1 : rows, r0 = r1 > m ? r1 - m : 0;
  nmb_operand *w = operand(k, in, o->op->in[i], false, false);
  if (k->region)
    k->region[in->nopnd - 1] =
        (nmb__region){o->op->in[i], i, n, r0, r1, 0, n};
  return nmb__rect(k->p, o->op->in[i], n, r0, r1, 0, n, w);
}

/* Ops over rows and columns of alike values. */
static bool
plain_operands(walker *k, nmb_insn *in, const opinfo *o)
{
  const nmb_tile *t = &in->tile;
  const nmb_op *op = o->op;
  const int64_t all = o->s.m * o->s.n;
  for (int i = 0; i < op->nin + op->nout; i++) {
    const nmb_tensor *x = &k->p->tensor[i < op->nin ? op->in[i] : op->out[i - op->nin]];
    const int64_t n = nmb_tensor_count(x), len = n / o->s.m;
    bool ok;
    if (op->code == NMB_OP_TOPK && i == 2 && nmb_op_int(op, "table", 0))
      ok = table_rows(k, in, o, i);
    else if (op->code == NMB_OP_TOPK && i > 0 && i < op->nin &&
             !nmb_op_int(op, "table", 0))
      ok = all_of(k, in, o, i); /* by expert */
    else if (n == all)
      ok = value(k, in, o, i, o->s.n, t->m0, t->m1, t->n0, t->n1);
    else if (i < op->nin && (n % o->s.m || nmb_tensor_resident(x) ||
                             (op->code == NMB_OP_ROPE && i == 2)))
      ok = all_of(k, in, o, i); /* weights of a norm, scalars, factors of rope */
    else
      ok = value(k, in, o, i, len, t->m0, t->m1, 0, len);
    if (!ok)
      return false;
  }
  return true;
}

bool
nmb_rows_by_data(const nmb_prog *p, const nmb_insn *in, int j, int64_t *at, int64_t *end)
{
  if (in->kind != NMB_INSN_EXEC || in->opnd[j].write)
    return false;
  const nmb_op *o = &p->op[in->op];
  const int arg = o->code == NMB_OP_TAKE ? 1 : o->code == NMB_OP_COMBINE ? 0 : NMB_NONE;
  if (arg == NMB_NONE || nmb_tensor_root(p, o->in[arg]) != in->opnd[j].tensor)
    return false;
  *at = 0;
  *end = p->slot[in->opnd[j].slot].bytes;
  const nmb_tensor *c = &p->tensor[o->in[arg]];
  if (o->code == NMB_OP_TAKE && /* of its sequences */
      nmb_tensor_count(c) == nmb_tensor_count(&p->tensor[in->opnd[j].tensor])) {
    const int64_t d = c->dim[c->rank - 1], rows = nmb_tensor_count(c) / (c->dim[0] * d);
    *at = in->tile.m0 * rows * nmb_bytes(c->dtype, c->group, d);
    *end = in->tile.m1 * rows * nmb_bytes(c->dtype, c->group, d);
  }
  return true;
}

static bool
move_operands(walker *k, nmb_insn *in, const opinfo *o)
{
  const nmb_tile *t = &in->tile;
  const nmb_op *op = o->op;
  const nmb_tensor *x = &k->p->tensor[op->in[0]];
  const int64_t n = o->s.n;
  if (op->code == NMB_OP_EMBED) {
    return value(k, in, o, 0, 1, t->m0, t->m1, 0, 1) && table_rows(k, in, o, 1) &&
           value(k, in, o, 2, n, t->m0, t->m1, 0, n);
  }
  if (op->code == NMB_OP_TAKE) { /* rows of each sequence, wherever they are in it */
    const nmb_tensor *c = &k->p->tensor[op->in[1]];
    const int64_t choice = nmb_tensor_count(x) / o->s.m, all = nmb_tensor_count(c) / o->s.m;
    return value(k, in, o, 0, choice, t->m0, t->m1, 0, choice) &&
           value(k, in, o, 1, all, t->m0, t->m1, t->n0, t->n1) &&
           value(k, in, o, 2, n, t->m0, t->m1, t->n0, t->n1);
  }
  if (op->code == NMB_OP_PERMUTE)
    return value(k, in, o, 0, n, 0, nmb_tensor_count(x) / n, 0, n) &&
           all_of(k, in, o, 1) && (op->nin < 3 || all_of(k, in, o, 2)) &&
           value(k, in, o, op->nin, n, t->m0, t->m1, 0, n);
  if (op->code == NMB_OP_SELECT) { /* the last of the rows of each sequence */
    const int64_t per = nmb_tensor_count(x) / n / o->s.m;
    if (!value(k, in, o, 0, n * per, t->m0, t->m1, (per - 1) * n, per * n))
      return false;
    return value(k, in, o, 1, n, t->m0, t->m1, 0, n);
  }
  /* combine: the rows of a token lie with its experts; as many as it has */
  const int64_t per = nmb_tensor_count(x) / n / o->s.m,
                topk = k->p->tensor[op->in[1]].dim[1];
  return value(k, in, o, 0, n, t->m0 * per, t->m1 * per, t->n0, t->n1) &&
         value(k, in, o, 1, topk, t->m0, t->m1, 0, topk) &&
         (op->nin < 3 || value(k, in, o, 2, topk, t->m0, t->m1, 0, topk)) &&
         value(k, in, o, op->nin, n, t->m0, t->m1, t->n0, t->n1);
}

/* Whole sequences: the state is theirs. */
static bool
conv_operands(walker *k, nmb_insn *in, const opinfo *o)
{
  const nmb_tile *t = &in->tile;
  const nmb_op *op = o->op;
  const nmb_tensor *state = &k->p->tensor[op->in[1]];
  const int64_t C = o->s.n, W = o->s.k, fresh = o->s.m / state->dim[0];
  const int64_t s0 = t->m0 / fresh, s1 = t->m1 / fresh;
  return value(k, in, o, 0, C, t->m0, t->m1, t->n0, t->n1) &&
         value(k, in, o, 1, C * (W - 1), s0, s1, t->n0 * (W - 1), t->n1 * (W - 1)) &&
         run_of(k, in, o, 2, t->n0 * W, t->n1 * W) &&
         (op->nin < 4 || run_of(k, in, o, 3, t->n0, t->n1)) &&
         value(k, in, o, op->nin, C, t->m0, t->m1, t->n0, t->n1) &&
         value(k, in, o, op->nin + 1, C * (W - 1), s0, s1, t->n0 * (W - 1),
               t->n1 * (W - 1));
}

/* Units [b0, b1) are whole sequences or heads of one.  Input i has `n` heads. */
static bool
scan_part(walker *k, nmb_insn *in, const opinfo *o, int i, int64_t n, bool state)
{
  const nmb_tile *t = &in->tile;
  const nmb_id id = i >= o->op->nin ? o->op->out[i - o->op->nin] : o->op->in[i];
  const nmb_tensor *x = &k->p->tensor[id];
  const int64_t h = k->p->tensor[o->op->in[3]].dim[1], each = state ? 1 : o->s.m;
  const int64_t len = nmb_tensor_count(x) / (o->s.b / h * each);
  const int64_t s0 = t->b0 / h, s1 = (t->b1 - 1) / h + 1;
  int64_t c0 = 0, c1 = n;
  if (s1 - s0 == 1) {
    c0 = t->b0 % h * n / h;
    c1 = (t->b1 - 1) % h * n / h + 1;
  }
  const int64_t m0 = state ? s0 : s0 * each + t->m0;
  const int64_t m1 = state ? s1 : (s1 - 1) * each + t->m1;
  return value(k, in, o, i, len, m0, m1, c0 * (len / n), c1 * (len / n));
}

static bool
scan_operands(walker *k, nmb_insn *in, const opinfo *o)
{
  const nmb_op *op = o->op;
  const nmb_tensor *a = &k->p->tensor[op->in[4]];
  const int64_t h = k->p->tensor[op->in[3]].dim[1], each = nmb_tensor_count(a) / h;
  const int64_t s0 = in->tile.b0 / h, s1 = (in->tile.b1 - 1) / h + 1;
  const int64_t h0 = s1 - s0 > 1 ? 0 : in->tile.b0 % h;
  const int64_t h1 = s1 - s0 > 1 ? h : (in->tile.b1 - 1) % h + 1;
  for (int i = 0; i < op->nin; i++) {
    bool ok = true;
    if (i == 4)
      ok = run_of(k, in, o, i, h0 * each, h1 * each);
    else if (i < 6 || op->in[i] != op->in[i - 1]) /* dt is beta too: read once */
      ok = scan_part(k, in, o, i, i < 2 ? k->p->tensor[op->in[i]].dim[1] : h, i == 3);
    if (!ok)
      return false;
  }
  return scan_part(k, in, o, op->nin, h, false) &&
         scan_part(k, in, o, op->nin + 1, h, true);
}

static bool
wkv_operands(walker *k, nmb_insn *in, const opinfo *o)
{
  const nmb_tile *t = &in->tile;
  const int64_t C = o->s.n, W = o->s.k;
  const int64_t fresh = o->s.m / k->p->tensor[o->op->in[2]].dim[0];
  const int64_t s0 = t->m0 / fresh, s1 = t->m1 / fresh;
  return value(k, in, o, 0, C, t->m0, t->m1, t->n0, t->n1) &&
         value(k, in, o, 1, C, t->m0, t->m1, t->n0, t->n1) &&
         value(k, in, o, 2, C * W, s0, s1, t->n0 * W, t->n1 * W) &&
         run_of(k, in, o, 3, t->n0, t->n1) && run_of(k, in, o, 4, t->n0, t->n1) &&
         value(k, in, o, 5, C, t->m0, t->m1, t->n0, t->n1) &&
         value(k, in, o, 6, C * W, s0, s1, t->n0 * W, t->n1 * W);
}

/* Rows of many positions: of all that the caches hold. */
static bool
pool_operands(walker *k, nmb_insn *in, const opinfo *o)
{
  const nmb_tile *t = &in->tile;
  return all_of(k, in, o, 0) && all_of(k, in, o, 1) && all_of(k, in, o, 2) &&
         value(k, in, o, 3, o->s.n, t->m0, t->m1, t->n0, t->n1);
}

static bool
operands(walker *k, nmb_insn *in, const opinfo *o)
{
  switch (o->op->code) {
  case NMB_OP_LINEAR: return linear_operands(k, in, o);
  case NMB_OP_HLINEAR: return hlinear_operands(k, in, o);
  case NMB_OP_GLINEAR: return glinear_operands(k, in, o);
  case NMB_OP_QK:
  case NMB_OP_SOFTMAX:
  case NMB_OP_PV: return attention_operands(k, in, o);
  case NMB_OP_CONV: return conv_operands(k, in, o);
  case NMB_OP_SCAN: return scan_operands(k, in, o);
  case NMB_OP_WKV: return wkv_operands(k, in, o);
  case NMB_OP_POOL: return pool_operands(k, in, o);
  case NMB_OP_EMBED:
  case NMB_OP_TAKE:
  case NMB_OP_PERMUTE:
  case NMB_OP_SELECT:
  case NMB_OP_COMBINE: return move_operands(k, in, o);
  default: return plain_operands(k, in, o);
  }
}

/* --------------------------------------------------------------------- banks */
static int64_t
ceil_div(int64_t a, int64_t b)
{
  return (a + b - 1) / b;
}

static int64_t
gcd(int64_t a, int64_t b)
{
  return b ? gcd(b, a % b) : a;
}

/* Blocks of `size` that `bytes` at one of all starts in turn touch on average,
 * rounded up; padded: every start is the start of a block. */
static int64_t
blocks_touched(int64_t bytes, int64_t size, bool padded)
{
  if (size <= 0)
    return 0;
  if (padded)
    return ceil_div(bytes, size);
  return ceil_div(bytes + size - gcd(bytes, size), size);
}

/* Rows [n0, n1) of a unit on `lanes` lanes: first lane, lanes used, most rows. */
static void
rows_on_lanes(const nmb_layout *l, int64_t lanes, int64_t n0, int64_t n1, int64_t *first,
              int64_t *used, int64_t *most)
{
  const int64_t n = n1 - n0;
  if (l->kind == NMB_LAY_INTERLEAVED) {
    const int64_t at = n0 % lanes;
    *first = n < lanes && at + n <= lanes ? at : 0;
    *used = n < lanes && at + n <= lanes ? n : lanes;
    *most = ceil_div(n, lanes);
    return;
  }
  const int64_t share = ceil_div(l->unit_rows, lanes);
  const int64_t last = (n1 - 1) / share;
  *first = n0 / share;
  *used = last - *first + 1;
  const int64_t head = (*first + 1) * share - n0, tail = n1 - last * share;
  *most = *used == 1 ? n : *used > 2 ? share : head > tail ? head : tail;
}

/* Units [u0, u1) side by side, each with its rows [n0, n1). */
static nmb_place
place_units(const walker *k, const opinfo *o, int64_t u0, int64_t u1, int64_t n0,
            int64_t n1, int64_t vectors)
{
  const nmb_mem *m = &k->p->hw->mem[k->e->resident];
  const nmb_layout *l = &o->layout;
  const int64_t banks = m->banks, split = l->channels;
  int64_t first, used, most;
  rows_on_lanes(l, split * banks, n0, n1, &first, &used, &most);
  const int64_t c0 = first / banks, c1 = (first + used - 1) / banks;
  nmb_place pl = {.vectors = vectors, .rows_per_bank = most};
  pl.channel0 = (int)((u0 + k->unit_shift) % o->wave * split + c0);
  pl.nchannel = (int)((u1 - u0 - 1) * split + c1 - c0 + 1);
  if (c0 == c1)
    pl.banks = (int)used;
  else {
    const int64_t head = (c0 + 1) * banks - first, tail = first + used - c1 * banks;
    pl.banks = (int)(c1 - c0 > 1 ? banks : head > tail ? head : tail);
  }
  pl.pages = blocks_touched(o->row_bytes, m->page_bytes, l->padded);
  pl.bursts =
      m->burst_bytes > 0 ? blocks_touched(o->row_bytes, m->burst_bytes, l->padded) : 1;
  if (m->page_bytes > 0)
    pl.opens = l->padded ? most * pl.pages : ceil_div(most * o->row_bytes, m->page_bytes);
  pl.reuse = k->map.reuse > most ? most : k->map.reuse < 1 ? 1 : k->map.reuse;
  return pl;
}

/* An op without weights works where the products before it in the tile were made;
 * alone, on all lanes. */
static nmb_place
place_epilogue(const walker *k, const nmb_tile *kernel, const nmb_tile *t)
{
  nmb_place pl = k->last_mac;
  const nmb_mem *m = &k->p->hw->mem[k->e->resident];
  const nmb_tile *l = &k->last_tile;
  if (pl.nchannel && l->b0 == kernel->b0 && l->b1 == kernel->b1 && l->m0 == kernel->m0 &&
      l->n0 == kernel->n0) {
    pl.pages = pl.bursts = pl.opens = 0;
    pl.reuse = 1;
    return pl;
  }
  const int64_t lanes = (int64_t)m->channels * m->banks;
  return (nmb_place){.nchannel = m->channels,
                     .banks = m->banks,
                     .vectors = (t->b1 - t->b0) * (t->m1 - t->m0),
                     .rows_per_bank = ceil_div(t->n1 - t->n0, lanes),
                     .reuse = 1};
}

static void
merge_place(nmb_place *a, const nmb_place *b)
{
  const int end = a->channel0 + a->nchannel, end_b = b->channel0 + b->nchannel;
  a->channel0 = a->channel0 < b->channel0 ? a->channel0 : b->channel0;
  a->nchannel = (end > end_b ? end : end_b) - a->channel0;
}

static void
set_place(walker *k, nmb_insn *in, const opinfo *o, const nmb_tile *kernel)
{
  const nmb_tile *t = &in->tile;
  if (!o->units) {
    in->place = place_epilogue(k, kernel, t);
    return;
  }
  int64_t n0 = t->n0, n1 = t->n1, u0 = t->b0, u1 = t->b1;
  if (o->op->code == NMB_OP_PV && o->shape.row != o->s.k) { /* kept as keys are */
    n0 = 0;
    n1 = o->shape.rows;
  }
  in->place = place_units(k, o, u0, u1, n0, n1, t->m1 - t->m0);
  const nmb_tile *l = &k->last_tile;
  const bool same = k->last_mac.nchannel && l->b0 == kernel->b0 && l->m0 == kernel->m0 &&
                    l->n0 == kernel->n0;
  nmb_place now = in->place;
  if (same) {
    merge_place(&now, &k->last_mac);
    if (o->inner_in[0]) /* what it reads has to come there first */
      merge_place(&in->place, &k->last_mac);
  }
  k->last_mac = now;
  k->last_tile = *kernel;
}

/* ---------------------------------------------------------------------- tiles */
static nmb_status exec_part(walker *, const opinfo *, const nmb_tile *kernel,
                            const nmb_tile *);

/* Views of some heads of each row are no rectangle: one head at a time, or failing
 * that one row. */
static nmb_status
exec_pieces(walker *k, const opinfo *o, const nmb_tile *kernel, const nmb_tile *t)
{
  const nmb_tensor *y = &k->p->tensor[o->op->out[0]];
  const int64_t d = y->rank == 3 ? y->dim[2] : 0;
  nmb_tile one = *t;
  if (t->b1 - t->b0 > 1)
    for (one.b0 = t->b0; one.b0 < t->b1; one.b0++) {
      one.b1 = one.b0 + 1;
      NMB_TRY(exec_part(k, o, kernel, &one));
    }
  else if (d > 0 && t->n0 % d == 0 && t->n1 - t->n0 > d)
    for (one.n0 = t->n0; one.n0 < t->n1; one.n0 = one.n1) {
      one.n1 = one.n0 + d;
      NMB_TRY(exec_part(k, o, kernel, &one));
    }
  else if (t->m1 - t->m0 > 1)
    for (one.m0 = t->m0; one.m0 < t->m1; one.m0++) {
      one.m1 = one.m0 + 1;
      NMB_TRY(exec_part(k, o, kernel, &one));
    }
  else
    nmb__panic("op %d: a tile is not a rectangle", (int)o->id);
  return NMB_OK;
}

static nmb_status
exec_part(walker *k, const opinfo *o, const nmb_tile *kernel, const nmb_tile *tile)
{
  nmb_insn in = {.kind = NMB_INSN_EXEC,
                 .engine = k->w->engine,
                 .block = k->w->block,
                 .step = nmb__step_row(k->p, k->step),
                 .op = o->id,
                 .first = !k->started,
                 .tile = *tile};
  if (!operands(k, &in, o))
    return exec_pieces(k, o, kernel, tile);
  if (k->e->in_memory)
    set_place(k, &in, o, kernel);
  k->started = true;
  return k->sink(k->to, &in);
}

/* Where the op's tile of an inner value lies in its tensor; all columns if it is no
 * rectangle. */
static void
set_origin(walker *k, const opinfo *o, const nmb_tile *tile)
{
  const nmb_tensor *y = &k->p->tensor[o->op->out[0]];
  opinfo plain = {.id = o->id, .op = o->op, .s = o->s};
  nmb_insn in = {.tile = *tile};
  const nmb_operand *x = &in.opnd[0];
  if (operands(k, &in, &plain))
    while (!x->write)
      x++;
  else {
    const int64_t len = nmb_tensor_count(y) / o->s.m;
    in.nopnd = 0;
    (void)value(k, &in, &plain, o->op->nin, len, tile->m0, tile->m1, 0, len);
  }
  k->origin[o - k->o] = (origin){x->offset, x->row_bytes, x->stride};
}

/* An op's part of a kernel tile. */
static nmb_status
exec(walker *k, const opinfo *o, const nmb_tile *kernel, const nmb_tile *tile)
{
  k->kernel = *kernel;
  if (o->inner_out)
    set_origin(k, o, tile);
  return exec_part(k, o, kernel, tile);
}

/* Appending `new` to a cache writes every memory that keeps it: the engine's own by
 * an instruction of the engine, another one over the link. */
static nmb_status
append_rows(walker *k, const opinfo *o, const nmb_tile *t)
{
  const nmb_prog *p = k->p;
  const nmb_tensor *c = &p->tensor[o->op->in[0]];
  const nmb_id root = nmb_tensor_root(p, o->op->in[0]);
  const int64_t S = c->dim[1], n = c->dim[2] * c->dim[3], fresh = o->s.m / c->dim[0];
  const int64_t at = nmb_op_int(o->op, "at", S - fresh);
  const uint32_t mems = nmb__cache_mems(p, root, k->w->engine);
  for (int64_t m0 = t->m0; m0 < t->m1;) {
    /* whole sequences in one go if their rows are whole */
    const bool all = m0 % fresh == 0 && t->m1 % fresh == 0 &&
                     (fresh == 1 || (t->n0 == 0 && t->n1 == n));
    const int64_t stop = (m0 / fresh + 1) * fresh, m1 = all            ? t->m1
                                                        : stop < t->m1 ? stop
                                                                       : t->m1;
    for (nmb_id mem = 0; mem < p->hw->nmem; mem++) {
      if (!(mems >> (unsigned)mem & 1))
        continue;
      const bool own = mem == k->e->home || mem == k->e->resident;
      nmb_insn in = {.kind = own ? NMB_INSN_EXEC : NMB_INSN_COPY,
                     .engine = k->w->engine,
                     .block = k->w->block,
                     .step = nmb__step_row(p, k->step),
                     .op = own ? o->id : NMB_NONE,
                     .first = own && !k->started};
      if (!own && (in.engine = nmb_hw_link(p->hw, k->e->home, mem)) == NMB_NONE)
        return nmb_fail(k->run, NMB_UNSUPPORTED, NMB_NOLOC,
                        "no link from memory %s to %s", p->hw->mem[k->e->home].name,
                        p->hw->mem[mem].name);
      if (own) {
        in.tile = *t;
        in.tile.m0 = m0;
        in.tile.m1 = m1;
      }
      (void)value(k, &in, o, 1, n, m0, m1, t->n0, t->n1);
      nmb_operand *x = operand(k, &in, root, false, true);
      const int64_t s0 = m0 / fresh;
      if (all && fresh > 1)
        (void)nmb__rect(p, root, S * n, s0, m1 / fresh, at * n, (at + fresh) * n, x);
      else if (all)
        (void)nmb__rect(p, root, S * n, m0, m1, at * n + t->n0, at * n + t->n1, x);
      else
        (void)nmb__rect(p, root, n, s0 * S + at + m0 % fresh,
                        s0 * S + at + m0 % fresh + m1 - m0, t->n0, t->n1, x);
      x->mem = mem;
      if (own && k->e->in_memory)
        in.place = place_epilogue(k, &(nmb_tile){-1, 0, 0, 0, 0, 0, 0, 0}, &in.tile);
      k->started |= own;
      NMB_TRY(k->sink(k->to, &in));
    }
    m0 = m1;
  }
  return NMB_OK;
}

/* The op's own tile for a tile of the kernel.  Token rows: all ops alike, with the
 * columns of a part of heads in proportion.  hb: does the kernel loop over heads? */
static nmb_tile
token_tile(const walker *k, const opinfo *o, const nmb_tile *t, bool hb)
{
  nmb_tile x = {0, o->s.b, t->m0, t->m1, 0, o->s.n, 0, o->s.k};
  if (hb)
    x.b0 = t->b0, x.b1 = t->b1;
  if (t->n1 > 0)
    x.n0 = t->n0, x.n1 = t->n1;
  if (k->step->axis == NMB_AXIS_HEAD && k->step->nparts > 1) {
    const int64_t part = k->step->part, parts = k->step->nparts;
    if (o->s.b > 1 && !hb)
      x.b0 = o->s.b * part / parts, x.b1 = o->s.b * (part + 1) / parts;
    else if (o->s.b == 1 && t->n1 == 0)
      x.n0 = o->s.n * part / parts, x.n1 = o->s.n * (part + 1) / parts;
  }
  return x;
}

static nmb_status
token_ops(walker *k, const nmb_tile *t, bool hb)
{
  for (int i = 0; i < k->w->nop; i++) {
    const opinfo *o = &k->o[i];
    if (o->op->code == NMB_OP_SPLIT)
      continue;
    const nmb_tile x = token_tile(k, o, t, hb);
    if (o->op->code == NMB_OP_KVAPPEND)
      NMB_TRY(append_rows(k, o, &x));
    else if (o->units && o->s.b > 1 && !hb) /* heads side by side, wave by wave */
      for (int64_t b = x.b0; b < x.b1;) {
        nmb_tile y = x;
        y.b0 = b;
        y.b1 = (b / o->wave + 1) * o->wave < x.b1 ? (b / o->wave + 1) * o->wave : x.b1;
        NMB_TRY(exec(k, o, t, &y));
        b = y.b1;
      }
    else
      NMB_TRY(exec(k, o, t, &x));
  }
  return NMB_OK;
}

static int64_t
tile_end(int64_t at, int64_t tile, int64_t end)
{
  return tile > 0 && at + tile < end ? at + tile : end;
}

/* The ops' common extent along b; 1 if they differ. */
static int64_t
common_heads(const walker *k)
{
  int64_t b = 0;
  for (int i = 0; i < k->w->nop; i++) {
    if (k->o[i].op->code == NMB_OP_SPLIT)
      continue;
    if (b && k->o[i].s.b != b)
      return 1;
    b = k->o[i].s.b;
  }
  return b ? b : 1;
}

static void
part_of(const nmb_step *s, nmb_axis axis, int64_t n, int64_t *lo, int64_t *hi)
{
  *lo = 0;
  *hi = n;
  if (s->axis == axis && s->nparts > 1) {
    *lo = n * s->part / s->nparts;
    *hi = n * (s->part + 1) / s->nparts;
  }
}

static nmb_status
walk_tokens(walker *k)
{
  const opinfo *any = &k->o[0];
  for (int i = 0; i < k->w->nop && any->op->code == NMB_OP_SPLIT; i++)
    any = &k->o[i];
  int64_t m0, m1, b0 = 0, b1 = 1;
  const int64_t tm = any->op->code == NMB_OP_CONV || any->op->code == NMB_OP_WKV ? 0 : k->map.tile_m;
  const int64_t heads = common_heads(k);
  const int64_t N = nmb__cuts_n(k->w) && k->map.tile_n > 0 ? any->s.n : 0;
  part_of(k->step, NMB_AXIS_BATCH, any->s.m, &m0, &m1);
  if (heads > 1)
    part_of(k->step, NMB_AXIS_HEAD, heads, &b0, &b1);
  int64_t wave = k->map.tile_b;
  for (int i = 0; i < k->w->nop; i++)
    if (k->o[i].units && (wave == 0 || k->o[i].wave < wave))
      wave = k->o[i].wave;
  int64_t n_lo = 0, n_hi = N;
  if (N && heads == 1)
    part_of(k->step, NMB_AXIS_HEAD, N, &n_lo, &n_hi);
  for (int64_t b = b0, be; b < b1; b = be) {
    be = tile_end(b, wave > 0 ? wave - b % wave : 0, b1);
    for (int64_t m = m0, me; m < m1; m = me) {
      me = tile_end(m, tm, m1);
      for (int64_t n = n_lo, ne; n < n_hi || (N == 0 && n == 0); n = ne) {
        ne = N ? tile_end(n, k->map.tile_n, n_hi) : 1;
        NMB_TRY(token_ops(k, &(nmb_tile){b, be, m, me, n, N ? ne : 0, 0, 0}, heads > 1));
      }
    }
  }
  return NMB_OK;
}

/* Rows of expert order: an expert at a time; elementwise ops take its rows. */
static nmb_status
expert_ops(walker *k, const nmb_tile *t)
{
  const int64_t start = k->expert_row;
  for (int i = 0; i < k->w->nop; i++) {
    const opinfo *o = &k->o[i];
    if (o->op->code == NMB_OP_SPLIT)
      continue;
    nmb_tile x = {t->b0, t->b1, t->m0, t->m1, 0, o->s.n, 0, o->s.k};
    if (t->n1 > 0)
      x.n0 = t->n0, x.n1 = t->n1;
    if (o->op->code != NMB_OP_GLINEAR)
      x.b0 = 0, x.b1 = 1, x.m0 += start, x.m1 += start;
    NMB_TRY(exec(k, o, t, &x));
  }
  return NMB_OK;
}

static nmb_status
walk_experts(walker *k, const opinfo *g)
{
  const nmb_routing *r = &k->p->routing[nmb_op_int(g->op, "routing", 0)];
  const int64_t N = nmb__cuts_n(k->w) && k->map.tile_n > 0 ? g->s.n : 0;
  for (int64_t e = 0; e < r->experts; k->expert_row += r->load[e++])
    for (int64_t m = 0, me; m < r->load[e]; m = me) {
      me = tile_end(m, k->map.tile_m, r->load[e]);
      for (int64_t n = 0, ne; n < N || n == 0; n = ne) {
        ne = N ? tile_end(n, k->map.tile_n, N) : 1;
        NMB_TRY(expert_ops(k, &(nmb_tile){e, e + 1, m, me, n, N ? ne : 0, 0, 0}));
      }
    }
  return NMB_OK;
}

/* Units of attention: pieces that are rectangles of the caches (whole sequences, or
 * heads of one), and that fit side by side. */
static int64_t
piece_end(const walker *k, int64_t u, int64_t end, int64_t per_sequence, int64_t rows_cut)
{
  end = tile_end(u, rows_cut ? 1 : k->map.tile_b, end);
  for (int i = 0; i < k->w->nop; i++)
    if (k->o[i].units)
      end = tile_end(u, k->o[i].wave - (u + k->unit_shift) % k->o[i].wave, end);
  if (u % per_sequence || end - u < per_sequence)
    return tile_end(u, per_sequence - u % per_sequence, end);
  return end - end % per_sequence;
}

static nmb_status
unit_ops(walker *k, const nmb_tile *t, int64_t rows)
{
  for (int i = 0; i < k->w->nop; i++) {
    const opinfo *o = &k->o[i];
    if (o->op->code == NMB_OP_SPLIT)
      continue;
    nmb_tile x = {t->b0, t->b1, t->m0, t->m1, 0, o->s.n, 0, o->s.k};
    if (nmb_op_get(o->op->code)->class_ != NMB_CLASS_MAC &&
        o->op->code != NMB_OP_SOFTMAX) {
      /* elementwise: a row of it is a unit */
      const int64_t each = o->s.n / rows;
      x = (nmb_tile){0, 1, t->b0, t->b1, t->m0 * each, t->m1 * each, 0, 1};
    }
    NMB_TRY(exec(k, o, t, &x));
  }
  return NMB_OK;
}

static nmb_status
walk_units(walker *k)
{
  const opinfo *any = NULL;
  for (int i = 0; i < k->w->nop && !any; i++)
    if (nmb_op_get(k->o[i].op->code)->class_ == NMB_CLASS_MAC ||
        k->o[i].op->code == NMB_OP_SOFTMAX)
      any = &k->o[i];
  if (!any)
    return walk_tokens(k);
  k->in_units = true;
  const nmb_step *s = k->step;
  const int64_t U = any->s.b, g = any->s.m, batch = k->p->spec.batch;
  const int64_t per = U % batch == 0 ? U / batch : 1, fresh = k->p->spec.fresh;
  const int64_t rep = g % fresh == 0 ? g / fresh : 1;
  int64_t tm = k->map.tile_m >= g ? 0 : k->map.tile_m;
  if (any->op->code == NMB_OP_SCAN)
    tm = 0;
  if (tm > rep)
    tm -= tm % rep;
  else if (tm > 0 && rep % tm)
    tm = rep;
  const bool cut = tm > 0 && tm < g, heads = s->axis == NMB_AXIS_HEAD && s->nparts > 1;
  int64_t lo, hi;
  part_of(s, NMB_AXIS_BATCH, U, &lo, &hi);
  while (lo < hi) {
    /* heads of one part are dealt to channels one after another, sequence by sequence,
     * so that each part has all channels */
    const int64_t j0 = heads ? per * s->part / s->nparts : 0;
    const int64_t j1 = heads ? per * (s->part + 1) / s->nparts : hi - lo;
    const int64_t end = heads ? lo + j1 : hi;
    k->unit_shift = heads ? batch * j0 + lo / per * (j1 - j0) - (lo + j0) : 0;
    for (int64_t u = lo + j0, ue; u < end; u = ue) {
      ue = piece_end(k, u, end, per, cut);
      for (int64_t m = 0, me; m < g; m = me) {
        me = tile_end(m, tm, g);
        NMB_TRY(unit_ops(k, &(nmb_tile){u, ue, m, me, 0, 0, 0, 0}, g));
      }
    }
    lo = heads ? lo + per : hi;
  }
  return NMB_OK;
}

/* ---------------------------------------------------------------------- walk */
static void
find_layout(const nmb_prog *p, nmb_id tensor, nmb_id mem, const nmb_layout *layout,
            int nlayout, nmb_layout *out)
{
  const nmb_id root = nmb_tensor_root(p, tensor);
  for (int i = 0; i < nlayout; i++)
    if (layout[i].tensor == root && layout[i].mem == mem) {
      *out = layout[i];
      return;
    }
  nmb_layout_of(p, root, mem, out);
}

static void
describe(walker *k, opinfo *o, nmb_id id, const nmb_layout *layout, int nlayout)
{
  const nmb_prog *p = k->p;
  o->id = id;
  o->op = &p->op[id];
  o->s = nmb_op_space(p, id);
  o->inner_out = nmb__inner(k->w, o->op->out[0]);
  for (int i = 0; i < o->op->nin; i++)
    o->inner_in[i] = nmb__inner(k->w, o->op->in[i]);
  o->units = k->e->in_memory && nmb_op_get(o->op->code)->class_ == NMB_CLASS_MAC;
  if (!o->units)
    return;
  const nmb_mem *m = &p->hw->mem[k->e->resident];
  const nmb_id rows = o->op->in[o->op->code == NMB_OP_SCAN ? 3 : 1];
  const nmb_tensor *w = &p->tensor[nmb_tensor_root(p, rows)];
  find_layout(p, rows, k->e->resident, layout, nlayout, &o->layout);
  if (o->layout.channels < 1)
    o->layout.channels = 1;
  if (o->layout.channels > m->channels)
    o->layout.channels = m->channels;
  o->shape = nmb__shape_of(p, rows);
  o->wave = m->channels / o->layout.channels;
  o->row_bytes = nmb_bytes(w->dtype, w->group, o->shape.row);
}

nmb_status
nmb__walk(nmb_run *run, const nmb__work *w, const nmb_step *step, const nmb_map *map,
          const nmb_layout *layout, int nlayout, nmb__sink sink, void *to)
{
  walker k = {.run = run,
              .w = w,
              .p = w->p,
              .e = &w->p->hw->engine[w->engine],
              .step = step,
              .map = *map,
              .sink = sink,
              .to = to};
  k.o = NMB_NEW(run, opinfo, w->nop);
  k.origin = NMB_NEW(run, origin, w->nop);
  const opinfo *g = NULL;
  for (int i = 0; i < w->nop; i++) {
    /* It has more operands than an instruction holds. */
    const nmb_op *op = &w->p->op[w->op[i]];
    if (op->code == NMB_OP_MOE)
      return nmb_fail(run, NMB_BADINPUT, op->loc,
                      "found the composite moe, expected what 'moe-lower' makes of it");
    describe(&k, &k.o[i], w->op[i], layout, nlayout);
    if (k.o[i].op->code == NMB_OP_GLINEAR)
      g = &k.o[i];
  }
  if (g)
    return walk_experts(&k, g);
  return nmb_op_rowkind(w->p, w->op[0]) == NMB_ROWS_UNIT ? walk_units(&k)
                                                         : walk_tokens(&k);
}

typedef struct list {
  nmb_run *run;
  nmb_insns *out;
} list;

static nmb_status
collect(void *to, const nmb_insn *in)
{
  list *l = to;
  nmb__insns_push(l->run, l->out, in);
  return NMB_OK;
}

int
nmb__regions(const nmb_prog *p, nmb_id engine, nmb_id op, const nmb_tile *tile,
             nmb__region *region, nmb_operand *opnd)
{
  const nmb__work w = {p, &op, 1, p->op[op].block, engine};
  walker k = {.w = &w, .p = p, .e = &p->hw->engine[engine], .region = region};
  const opinfo o = {.id = op, .op = &p->op[op], .s = nmb_op_space(p, op)};
  nmb_insn in = {.tile = *tile};
  if (o.op->code == NMB_OP_GLINEAR) {
    const nmb_routing *r = &p->routing[nmb_op_int(o.op, "routing", 0)];
    for (int64_t e = 0; e < tile->b0; e++)
      k.expert_row += r->load[e];
  }
  if (!operands(&k, &in, &o))
    return 0;
  memcpy(opnd, in.opnd, (size_t)in.nopnd * sizeof *opnd);
  return in.nopnd;
}

nmb_status
nmb_lower_step(nmb_run *run, const nmb_prog *p, const nmb_step *step, const nmb_map *map,
               const nmb_layout *layout, int nlayout, nmb_insns *out)
{
  const nmb__work w = nmb__work_of(p, step->kernel);
  nmb_map dflt;
  if (!map && p->nmap > 0)
    map = &p->map[step->kernel];
  if (!map) {
    nmb__map_default(&w, &dflt);
    map = &dflt;
  }
  list l = {run, out};
  const int before = out->n;
  NMB_TRY(nmb__walk(run, &w, step, map, layout, nlayout, collect, &l));
  if (p->hw->engine[w.engine].in_memory && out->n > before)
    nmb__insns_push(run, out,
                    &(nmb_insn){.kind = NMB_INSN_SYNC,
                                .engine = w.engine,
                                .block = w.block,
                                .step = nmb__step_row(p, step),
                                .op = NMB_NONE});
  return NMB_OK;
}
