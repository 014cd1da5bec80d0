/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What ops and number formats are: their tables, spaces and counts. */
#include <string.h>

#include "base/run.h"

static const nmb_dtype_info dtypes[] = {
#define X(id, name, bits, sbits, group, source) {name, bits, sbits, group, source},
#include "nmbench/dtypes.def"
#undef X
};

static const nmb_op_info ops[] = {
#define X(id, name, nmin, nmax, nout, class, help)                             \
  {name, nmin, nmax, nout, NMB_CLASS_##class, help},
#include "nmbench/ops.def"
#undef X
};

const nmb_dtype_info *
nmb_dtype_get(nmb_dtype d)
{
  return &dtypes[d];
}

int
nmb_dtype_find(const char *name)
{
  for (int i = 0; i < NMB_NDTYPE; i++)
    if (!strcmp(dtypes[i].name, name))
      return i;
  return NMB_NONE;
}

bool
nmb_dtype_codes(nmb_dtype d)
{
  return d != NMB_DT_I32 && (d < NMB_DT_Q4_1 || d > NMB_DT_Q2_0);
}

const nmb_op_info *
nmb_op_get(nmb_opcode c)
{
  return &ops[c];
}

int
nmb_op_find(const char *name)
{
  for (int i = 0; i < NMB_NOP; i++)
    if (!strcmp(ops[i].name, name))
      return i;
  return NMB_NONE;
}

const nmb_attr *
nmb_op_attr(const nmb_op *op, const char *key)
{
  for (int i = 0; i < op->nattr; i++)
    if (!strcmp(op->attr[i].key, key))
      return &op->attr[i];
  return NULL;
}

int64_t
nmb_op_int(const nmb_op *op, const char *key, int64_t dflt)
{
  const nmb_attr *a = nmb_op_attr(op, key);
  return a ? a->i : dflt;
}

double
nmb_op_real(const nmb_op *op, const char *key, double dflt)
{
  const nmb_attr *a = nmb_op_attr(op, key);
  return a ? (a->kind == NMB_ATTR_INT ? (double)a->i : a->r) : dflt;
}

const char *
nmb_op_sym(const nmb_op *op, const char *key, const char *dflt)
{
  const nmb_attr *a = nmb_op_attr(op, key);
  return a && a->s ? a->s : dflt;
}

int64_t
nmb_tensor_count(const nmb_tensor *t)
{
  int64_t n = 1;
  for (int i = 0; i < t->rank; i++)
    n *= t->dim[i];
  return n;
}

int64_t
nmb_bytes(nmb_dtype d, int group, int64_t count)
{
  const nmb_dtype_info *f = &dtypes[d];
  int64_t bits = count * f->bits;
  const int64_t per = f->group > 0 ? f->group : f->group < 0 ? group : 0;
  if (per > 0)
    bits += (count + per - 1) / per * f->scale_bits;
  return (bits + 7) / 8;
}

int64_t
nmb_tensor_bytes(const nmb_tensor *t)
{
  return nmb_bytes(t->dtype, t->group, nmb_tensor_count(t));
}

int
nmb_op_in_place(const nmb_op *o, int output)
{
  switch (o->code) {
  case NMB_OP_KVAPPEND:
  case NMB_OP_SPLIT: return 0;
  case NMB_OP_CONV: return output == 1 ? 1 : NMB_NONE;
  case NMB_OP_SCAN: return output == 1 ? 3 : NMB_NONE;
  case NMB_OP_WKV: return output == 1 ? 2 : NMB_NONE;
  default: return NMB_NONE;
  }
}

nmb_id
nmb_tensor_root(const nmb_prog *p, nmb_id t)
{
  for (;;) {
    const nmb_id def = p->tensor[t].def;
    if (p->tensor[t].of) {
      t = p->tensor[t].of - 1;
      continue;
    }
    if (def == NMB_NONE)
      return t;
    const nmb_op *o = &p->op[def];
    const int in = nmb_op_in_place(o, o->nout > 1 && o->out[1] == t);
    if (in == NMB_NONE)
      return t;
    t = o->in[in];
  }
}

bool
nmb_tensor_resident(const nmb_tensor *t)
{
  return t->role == NMB_ROLE_WEIGHT || t->role == NMB_ROLE_KV || t->role == NMB_ROLE_STATE;
}

nmb_space
nmb_op_space(const nmb_prog *p, nmb_id id)
{
  const nmb_op *o = &p->op[id];
  const nmb_tensor *y = &p->tensor[o->out[0]];
  const nmb_tensor *x = &p->tensor[o->in[0]];
  const nmb_tensor *w = o->nin > 1 ? &p->tensor[o->in[1]] : NULL;
  const int64_t last = y->dim[y->rank - 1];
  switch (o->code) {
  case NMB_OP_LINEAR:
    return (nmb_space){1, nmb_tensor_count(y) / w->dim[0], w->dim[0], w->dim[1]};
  case NMB_OP_HLINEAR:
    return (nmb_space){w->dim[0], x->dim[0], w->dim[1], w->dim[2]};
  case NMB_OP_GLINEAR: {
    const nmb_routing *r = &p->routing[nmb_op_int(o, "routing", 0)];
    int64_t most = 0;
    for (int e = 0; e < r->experts; e++)
      if (r->load[e] > most)
        most = r->load[e];
    return (nmb_space){r->experts, most, w->dim[1], w->dim[2]};
  }
  case NMB_OP_QK: /* y [u,g,S] q [T,nh,d] */
    return (nmb_space){y->dim[0], y->dim[1], y->dim[2], x->dim[x->rank - 1]};
  case NMB_OP_SOFTMAX:
    return (nmb_space){y->dim[0], y->dim[1], y->dim[2], 1};
  case NMB_OP_PV: /* p [u,g,S] v [B,S,nk,dv] */
    return (nmb_space){x->dim[0], x->dim[1], last, x->dim[2]};
  case NMB_OP_CONV: /* w [C,W] */
    w = &p->tensor[o->in[2]];
    return (nmb_space){1, nmb_tensor_count(y) / w->dim[0], w->dim[0], w->dim[1]};
  case NMB_OP_WKV: /* state [B,C,3] */
    w = &p->tensor[o->in[2]];
    return (nmb_space){1, nmb_tensor_count(y) / w->dim[1], w->dim[1], w->dim[2]};
  case NMB_OP_SCAN: { /* state [B,h,dv,dk] */
    const nmb_tensor *s = &p->tensor[o->in[3]];
    return (nmb_space){s->dim[0] * s->dim[1], y->dim[0] / s->dim[0], s->dim[2],
                       s->dim[3]};
  }
  case NMB_OP_TAKE: /* a row is a sequence */
    return (nmb_space){1, y->dim[0], nmb_tensor_count(y) / y->dim[0], 1};
  case NMB_OP_KVAPPEND: /* the rows that are new */
    return (nmb_space){1, w->dim[0], nmb_tensor_count(w) / w->dim[0], 1};
  default:
    if (y->rank == 3) /* [T,h,d]: a row is a token */
      return (nmb_space){1, y->dim[0], y->dim[1] * y->dim[2], 1};
    return (nmb_space){1, nmb_tensor_count(y) / last, last, 1};
  }
}

static nmb_tile
whole(nmb_space s)
{
  return (nmb_tile){0, s.b, 0, s.m, 0, s.n, 0, s.k};
}

/* Of one head over `m` tokens.  One by one: the update, its result and, with delta,
 * what the state holds for the key.  In chunks of c tokens also q k^T and its product
 * with the values, over the whole square as in attention; with delta k k^T and the
 * triangular system that it makes of keys and values. */
static int64_t
scan_macs(const nmb_op *o, int64_t m, int64_t n, int64_t k)
{
  const int64_t delta = nmb_op_int(o, "delta", 0), chunk = nmb_op_int(o, "chunk", 0);
  const int64_t one = (2 + delta) * n * k;
  if (chunk <= 1)
    return m * one;
  const int64_t pair = n + k + delta * (n + 2 * k), tail = m % chunk;
  return m * one + (m / chunk * chunk * chunk + tail * tail) * pair;
}

int64_t
nmb_op_macs(const nmb_prog *p, nmb_id id, const nmb_tile *tile)
{
  const nmb_op *o = &p->op[id];
  if (ops[o->code].class_ != NMB_CLASS_MAC)
    return 0;
  const nmb_tile t = tile ? *tile : whole(nmb_op_space(p, id));
  const int64_t nk = (t.n1 - t.n0) * (t.k1 - t.k0);
  if (o->code == NMB_OP_SCAN)
    return (t.b1 - t.b0) * scan_macs(o, t.m1 - t.m0, t.n1 - t.n0, t.k1 - t.k0);
  if (o->code != NMB_OP_GLINEAR)
    return (t.b1 - t.b0) * (t.m1 - t.m0) * nk;
  const nmb_routing *r = &p->routing[nmb_op_int(o, "routing", 0)];
  int64_t rows = 0;
  for (int64_t e = t.b0; e < t.b1; e++) {
    const int64_t end = r->load[e] < t.m1 ? r->load[e] : t.m1;
    if (end > t.m0)
      rows += end - t.m0;
  }
  return rows * nk;
}

/* Simple operations an element of the output costs, e.g. a softmax: max,
 * subtract, exp, sum, divide.  Counts, not cycles: models turn them into time. */
static int
vec_cost(nmb_opcode c)
{
  switch (c) {
  case NMB_OP_NORM: return 4;
  case NMB_OP_ROPE: return 3;
  case NMB_OP_SOFTMAX: return 5;
  case NMB_OP_ACT: return 4;
  case NMB_OP_GLU: return 5;
  case NMB_OP_COMBINE: return 2;
  case NMB_OP_WKV: return 17; /* 4 exponentials, 2 maxima, 5 sums, 5 products, a division */
  default: return 1;
  }
}

int64_t
nmb_op_vecs(const nmb_prog *p, nmb_id id, const nmb_tile *tile)
{
  const nmb_op *o = &p->op[id];
  if (ops[o->code].class_ != NMB_CLASS_VEC)
    return 0;
  const nmb_tile t = tile ? *tile : whole(nmb_op_space(p, id));
  int64_t each = vec_cost(o->code);
  if (o->code == NMB_OP_PICK) /* each head: at least 0, weight, sum; and its rank */
    each = o->nin > 1 ? 3 * p->tensor[o->in[1]].dim[1] + 1 : 2;
  if (o->code == NMB_OP_TOPK) /* reads all experts for each choice */
    each = p->tensor[o->in[0]].dim[p->tensor[o->in[0]].rank - 1];
  if (o->code == NMB_OP_POOL) { /* a softmax over the places, a product and a sum */
    const nmb_tensor *bias = &p->tensor[o->in[2]], *y = &p->tensor[o->out[0]];
    each = 7 * nmb_tensor_count(bias) / y->dim[y->rank - 1];
  }
  if (o->code == NMB_OP_MIX) /* a product and a sum for each stream */
    each = 2 * nmb_op_int(o, "streams", 1);
  if (o->code == NMB_OP_DOT)
    each = 2 * nmb_tensor_count(&p->tensor[o->in[1]]);
  if (o->code == NMB_OP_NORM) /* sinkhorn: a sum and a quotient, of rows and of columns */
    each *= nmb_op_int(o, "rounds", 1);
  if (o->code == NMB_OP_COMBINE)
    each *= p->tensor[o->in[1]].dim[1];
  return (t.b1 - t.b0) * (t.m1 - t.m0) * (t.n1 - t.n0) * each;
}
