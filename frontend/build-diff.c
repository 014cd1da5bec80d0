/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Small mechanisms of single families -> graph: the difference of two attentions, and
 * the activation xIELU. */
#include "frontend/build.h"

/* Heads of d, half of them: from column `first` of x on, turned. */
static nmb_id
half(maker *m, const char *name, nmb_id x, int64_t first, int64_t heads)
{
  const nmb__attn *t = &m->l->attn;
  const int64_t d = t->dk;
  const nmb_id y = split(m, x, first, heads * d, act3(m, name, m->T, heads, d));
  return t->rope.dims ? rope(m, &t->rope, y, act3(m, name, m->T, heads, d)) : y;
}

static nmb_id
flat(maker *m, const char *name, nmb_id x, int64_t n)
{
  return linear(m, nmb_format(m->run, "attn.%s", name), NMB__W_ATTN, x, n, m->a->hidden,
                m->l->attn.bias, act2(m, name, m->T, n));
}

/* DIFF Transformer (arXiv:2410.05258) as DiffLlama's published code has it: the first half
 * of the heads less a share of the second, over values of twice the width that both
 * halves read, each of two heads.  The loader lays the value projection's heads out in
 * such pairs, and makes the share of the four vectors that are in the file. */
nmb_id
nmb__build_difference(maker *m, nmb_id x)
{
  static const char *const parts[] = {"attn.lambda_q1", "attn.lambda_k1",
                                      "attn.lambda_q2", "attn.lambda_k2"};
  const nmb__attn *t = &m->l->attn;
  const int64_t n = t->heads / 2, kv = t->kv_heads / 2, d = t->dk;
  const nmb_id q = flat(m, "q", x, 2 * n * d), k = flat(m, "k", x, 2 * kv * d);
  nmb_id v = flat(m, "v", x, 2 * kv * d), y[2];
  v = append(m, "cache.v", v, kv, 2 * d);
  for (int i = 0; i < 2; i++) {
    const char *cache = i ? "cache.k2" : "cache.k";
    const nmb_id qi = half(m, "q", q, i * n * d, n);
    const nmb_id ki = append(m, cache, half(m, "k", k, i * kv * d, kv), kv, d);
    y[i] = act3(m, "attn", m->T, n, 2 * d);
    scores(m, op_add(m, NMB_OP_ATTENTION, 3, (nmb_id[]){qi, ki, v}, y[i]));
  }
  for (int i = 0; i < 4; i++)
    vector(m, parts[i], d);
  const nmb_id share = weight(m, "attn.lambda", NMB__W_SELECT, 1, 1, 0, 0);
  nmb_id out = op2(m, NMB_OP_MUL, y[1], share, act3(m, "attn", m->T, n, 2 * d));
  out = op2(m, NMB_OP_ADD, out, y[0], act3(m, "attn", m->T, n, 2 * d));
  nmb_op_attr_set(m->p, m->p->tensor[out].def, NMB_REAL("scale", -1));
  out = unit_norm(m, "rms", out, act3(m, "attn", m->T, n, 2 * d));
  out = pointwise(m, "none", out, NMB_NONE, act3(m, "attn", m->T, n, 2 * d));
  scaled(m, out, 1 - t->diff_start);
  return out;
}

/* xIELU (arXiv:2411.13010, and its code in transformers): p x^2 + x/2 above 0, and
 * n (e^x - 1 - x) + x/2 below; the loader makes p and n of what is in the file. */
nmb_id
nmb__build_xielu(maker *m, const char *prefix, nmb_id x, int64_t n)
{
  static const char *const fn[] = {"relu2", "xielu-low"}, *const alpha[] = {"p", "n"};
  nmb_id part[2];
  for (int i = 0; i < 2; i++) {
    const nmb_id w = vector(m, nmb_format(m->run, "%s.alpha_%s", prefix, alpha[i]), 1);
    part[i] = pointwise(m, fn[i], x, NMB_NONE, act2(m, "inner", m->T, n));
    part[i] = op2(m, NMB_OP_MUL, part[i], w, act2(m, "inner", m->T, n));
  }
  const nmb_id both = op2(m, NMB_OP_ADD, part[0], part[1], act2(m, "inner", m->T, n));
  const nmb_id out = op2(m, NMB_OP_ADD, x, both, act2(m, "inner", m->T, n));
  nmb_op_attr_set(m->p, m->p->tensor[out].def, NMB_REAL("scale", 0.5));
  return out;
}
