/* SPDX-License-Identifier: GPL-3.0-or-later */
/* mla-absorb: latent attention without expanding the cache (DeepSeek-V2,
 * arXiv:2405.04434, section 2.1.2).  Reads and writes graph.
 *
 *   k = Wuk c, scores = q k      becomes   q' = Wuk^T q, scores = q' c
 *   v = Wuv c, y = p v           becomes   y' = p c,     y = Wuv y'
 * per head, so that all heads read the one latent cache.
 *
 * Same meaning: products of the same matrices in another order, equal in exact
 * arithmetic.  Wuk is stored transposed within each head, [heads, rank, nope].
 *
 * when=auto counts multiplications both ways and takes the fewer. */
#include <string.h>

#include "nmbench/nmb_plugin.h"

/* The ops of one latent attention; k_up and v_up expand the same cache. */
typedef struct latent {
  nmb_id k_up, v_up, qk, softmax, pv;
} latent;

static nmb_id
maker_of(const nmb_prog *p, nmb_id tensor, nmb_opcode code)
{
  const nmb_id def = p->tensor[tensor].def;
  return def != NMB_NONE && p->op[def].code == code ? def : NMB_NONE;
}

/* Is `id` the linear of a latent cache that has one head? */
static bool
expands(const nmb_prog *p, nmb_id id)
{
  if (id == NMB_NONE)
    return false;
  const nmb_op *o = &p->op[id];
  const nmb_tensor *c = &p->tensor[o->in[0]];
  const bool cached = c->role == NMB_ROLE_KV || maker_of(p, o->in[0], NMB_OP_TAKE) != NMB_NONE;
  return o->nin == 2 && cached && c->rank == 4 && c->dim[2] == 1 &&
         p->tensor[o->out[0]].rank == 4;
}

static bool
find(const nmb_prog *p, nmb_id pv, latent *l)
{
  if (p->op[pv].code != NMB_OP_PV)
    return false;
  l->pv = pv;
  l->v_up = maker_of(p, p->op[pv].in[1], NMB_OP_LINEAR);
  l->softmax = maker_of(p, p->op[pv].in[0], NMB_OP_SOFTMAX);
  if (!expands(p, l->v_up) || l->softmax == NMB_NONE)
    return false;
  l->qk = maker_of(p, p->op[l->softmax].in[0], NMB_OP_QK);
  if (l->qk == NMB_NONE)
    return false;
  l->k_up = maker_of(p, p->op[l->qk].in[1], NMB_OP_LINEAR);
  return expands(p, l->k_up) && p->op[l->k_up].in[0] == p->op[l->v_up].in[0];
}

static double
macs_expanded(const nmb_prog *p, const latent *l)
{
  return (double)nmb_op_macs(p, l->k_up, NULL) + (double)nmb_op_macs(p, l->v_up, NULL) +
         (double)nmb_op_macs(p, l->qk, NULL) + (double)nmb_op_macs(p, l->pv, NULL);
}

static double
macs_absorbed(const nmb_prog *p, const latent *l)
{
  const nmb_tensor *q = &p->tensor[p->op[l->qk].in[0]],
                   *y = &p->tensor[p->op[l->pv].out[0]];
  const nmb_tensor *c = &p->tensor[p->op[l->k_up].in[0]];
  const double rows = (double)(q->dim[0] * q->dim[1]), rank = (double)c->dim[3];
  return rows * rank * (double)(q->dim[2] + y->dim[2]) +
         2 * rows * rank * (double)c->dim[1];
}

static nmb_id
act_new(nmb_prog *p, const nmb_op *o, const char *name, nmb_dtype dtype, int64_t a,
        int64_t b, int64_t c)
{
  nmb_tensor t = {.name = name,
                  .block = o->block,
                  .dtype = dtype,
                  .role = NMB_ROLE_ACT,
                  .rank = 3,
                  .dim = {a, b, c}};
  return nmb_tensor_add(p, &t);
}

static nmb_id
insert(nmb_prog *p, nmb_id before, nmb_opcode code, int nin, const nmb_id *in, nmb_id out)
{
  nmb_op o = {.code = code,
              .block = p->op[before].block,
              .nin = nin,
              .nout = 1,
              .out = {out},
              .loc = p->op[before].loc};
  memcpy(o.in, in, (size_t)nin * sizeof *in);
  return nmb_op_insert(p, before, &o);
}

static void
attrs_move(nmb_prog *p, nmb_id from, nmb_id to)
{
  for (int i = 0; i < p->op[from].nattr; i++)
    nmb_op_attr_set(p, to, p->op[from].attr[i]);
}

/* Holds a weight turned.  Blocks of a file lie along what were its rows: turned, only wide
 * numbers hold its values. */
static void
turn(nmb_prog *p, nmb_id weight, const int64_t dim[3])
{
  if (!nmb_dtype_codes(p->tensor[weight].dtype))
    nmb_tensor_format(p, weight, NMB_DT_F32, 0);
  nmb_tensor_reshape(p, weight, 3, dim);
}

/* Scores over the latent cache: one unit per sequence, all heads in it. */
static nmb_id
absorb_key(nmb_prog *p, const latent *l)
{
  const nmb_op qk = p->op[l->qk], up = p->op[l->k_up];
  const nmb_tensor q = p->tensor[qk.in[0]], c = p->tensor[up.in[0]];
  const int64_t T = q.dim[0], nh = q.dim[1], rank = c.dim[3], B = c.dim[0];
  turn(p, up.in[1], (int64_t[]){nh, rank, q.dim[2]});
  const nmb_id ql = act_new(p, &qk, "q_absorbed", q.dtype, T, nh, rank);
  nmb_op_attr_set(p,
                  insert(p, l->qk, NMB_OP_HLINEAR, 2, (nmb_id[]){qk.in[0], up.in[1]}, ql),
                  NMB_INT("transposed", 1));
  const nmb_id s =
      act_new(p, &qk, "scores", p->tensor[qk.out[0]].dtype, B, T / B * nh, c.dim[1]);
  const nmb_id in[3] = {ql, up.in[0], qk.nin > 2 ? qk.in[2] : NMB_NONE};
  attrs_move(p, l->qk, insert(p, l->qk, NMB_OP_QK, qk.nin, in, s));
  return s;
}

static void
absorb(nmb_prog *p, const latent *l)
{
  const nmb_op sm = p->op[l->softmax], pv = p->op[l->pv], up = p->op[l->v_up];
  const nmb_id s = absorb_key(p, l);
  const nmb_tensor st = p->tensor[s], y = p->tensor[pv.out[0]], c = p->tensor[up.in[0]];
  const nmb_id pr = act_new(p, &pv, "probs", st.dtype, st.dim[0], st.dim[1], st.dim[2]);
  nmb_id in[2] = {s, sm.nin > 1 ? sm.in[1] : NMB_NONE};
  attrs_move(p, l->softmax, insert(p, l->softmax, NMB_OP_SOFTMAX, sm.nin, in, pr));
  const nmb_id yl = act_new(p, &pv, "attn_latent", y.dtype, y.dim[0], y.dim[1], c.dim[3]);
  insert(p, l->pv, NMB_OP_PV, 2, (nmb_id[]){pr, up.in[0]}, yl);
  nmb_tensor_reshape(p, up.in[1], 3, (int64_t[]){y.dim[1], y.dim[2], c.dim[3]});
  insert(p, l->pv, NMB_OP_HLINEAR, 2, (nmb_id[]){yl, up.in[1]}, pv.out[0]);
  const nmb_id gone[] = {l->k_up, l->v_up, l->qk, l->softmax, l->pv};
  for (int i = 0; i < 5; i++)
    nmb_op_erase(p, gone[i]);
}

static bool
wanted(nmb_run *run, const nmb_prog *p, const latent *l)
{
  const char *when = nmb_opt_text(run, "when");
  if (!strcmp(when, "decode"))
    return p->spec.phase == NMB_DECODE;
  return !strcmp(when, "always") || macs_absorbed(p, l) < macs_expanded(p, l);
}

static nmb_status
transform(nmb_run *run, nmb_prog *p)
{
  int n = 0;
  latent l;
  nmb_section_begin(p, NMB_GRAPH);
  for (nmb_id id = 0, end = p->nop; id < end; id++)
    if (!nmb_op_erased(p, id) && find(p, id, &l) && wanted(run, p, &l)) {
      absorb(p, &l);
      n++;
    }
  nmb_stat(run, "attention ops absorbed", n);
  return NMB_OK;
}

static const nmb_opt opts[] = {
    {"when", "enum", "", "decode", "decode|always|auto",
     "in decode steps, in all, or where it takes fewer multiplications"},
    {0}};

NMB_PLUGIN
{
    NMB_PLUGIN_HEAD,
    .kind = "rewrite",
    .name = "mla-absorb",
    .version = "1",
    .summary = "latent attention reads the latent cache instead of expanding it",
    .source = "deepseek2024v2",
    .limits =
        "per head products only; the weights are not multiplied together beforehand",
    .opts = opts,
    .reads = NMB_BIT(NMB_GRAPH),
    .writes = NMB_BIT(NMB_GRAPH),
    .transform = transform,
};
