/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Random weights for any program, drawn element by element from (seed, name, position,
 * index), so that nothing depends on what else is loaded.  What a weight is follows from
 * the op that reads it. */
#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "base/run.h"
#include "ir/eval.h"

/* The finaliser of SplitMix64 (Steele, Lea and Flood, 2014): a bijection of 64 bits. */
static uint64_t
mix(uint64_t x)
{
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

/* (0, 1) */
static double
uniform(uint64_t key, int64_t i)
{
  return ((double)(mix(key ^ mix((uint64_t)i)) >> 11) + 0.5) * 0x1p-53;
}

/* The sum of four uniform numbers of 16 bits, mean 0 and deviation 1: near enough to
 * normal for a weight, and no function of libm in it. */
static double
normal(uint64_t key, int64_t i)
{
  const uint64_t u = mix(key ^ mix((uint64_t)i));
  const uint64_t sum = (u & 0xffff) + (u >> 16 & 0xffff) + (u >> 32 & 0xffff) + (u >> 48);
  return ((double)sum + 2) * (0x1p-16 * 1.7320508075688772) - 2 * 1.7320508075688772;
}

/* A normal number, or one whose logarithm is uniform: f of it. */
typedef struct drawing {
  double mean, deviation;
  double lo, hi; /* 0: a normal number */
  char f;        /* ' ' itself, '-' its negative, 'l' its logarithm */
} drawing;

static double
draw(const drawing *d, uint64_t key, int64_t i)
{
  if (!(d->hi > 0))
    return d->mean + d->deviation * normal(key, i);
  const double x = d->lo * pow(d->hi / d->lo, uniform(key, i));
  return d->f == '-' ? -x : d->f == 'l' ? log(x) : x;
}

/* Does the expert choice read the value? */
static bool
chosen_by(const nmb_prog *p, nmb_id t)
{
  const nmb_block *b = &p->block[p->tensor[t].block];
  for (int i = 0; i < b->nop; i++)
    if (p->op[b->op[i]].code == NMB_OP_TOPK && p->op[b->op[i]].in[0] == t)
      return true;
  return false;
}

/* Input j of op o: matrices keep the size of values, biases are small. */
static drawing
drawing_of(const nmb_prog *p, const nmb_op *o, int j, const nmb_tensor *t)
{
  const double bias = 0.1, K = (double)t->dim[t->rank - 1];
  switch (o->code) {
  case NMB_OP_EMBED: return (drawing){.deviation = 0.25 / nmb_op_real(o, "scale", 1)};
  case NMB_OP_NORM:
    if (j > 1)
      return (drawing){.deviation = bias};
    return (drawing){.mean = 1 - nmb_op_real(o, "offset", 0), .deviation = 0.1};
  case NMB_OP_LINEAR:
  case NMB_OP_GLINEAR:
    if (j > 1)
      return (drawing){.deviation = bias};
    return (drawing){.deviation = (chosen_by(p, o->out[0]) ? 2 : 1) / sqrt(K)};
  case NMB_OP_HLINEAR: /* the model's matrix has the latent width as its columns */
    return (drawing){
        .deviation = 1 / sqrt(nmb_op_int(o, "transposed", 0) ? (double)t->dim[1] : K)};
  case NMB_OP_MOE: return (drawing){.deviation = j < 6 ? 1 / sqrt(K) : bias};
  case NMB_OP_TOPK:
    return (drawing){.mean = j == o->nin - 1 ? (double)nmb_op_int(o, "factors", 0) : 0,
                     .deviation = bias};
  case NMB_OP_MUL: /* a factor of all */
    if (nmb_tensor_count(t) == 1)
      return (drawing){.mean = 1, .deviation = 0.1};
    return (drawing){.deviation = 1};
  case NMB_OP_DOT: return (drawing){.deviation = 1 / sqrt(K)};
  case NMB_OP_ROPE: /* divisors of frequencies */ return (drawing){.lo = 1, .hi = 4};
  case NMB_OP_CONV: return (drawing){.deviation = j == 2 ? 1 / sqrt(K) : bias};
  case NMB_OP_WKV:
    return j == 3 ? (drawing){.lo = 0.02, .hi = 1, .f = '-'} : (drawing){.deviation = 1};
  case NMB_OP_SCAN: /* decays */
    return (drawing){
        .lo = 0.02, .hi = 1, .f = strcmp(nmb_op_sym(o, "decay", ""), "alog") ? '-' : 'l'};
  default: return (drawing){.deviation = 1};
  }
}

static drawing
find_drawing(const nmb_prog *p, nmb_id tensor)
{
  const nmb_tensor *t = &p->tensor[tensor];
  const nmb_block *b = &p->block[t->block];
  for (int i = 0; i < b->nop; i++) {
    const nmb_op *o = &p->op[b->op[i]];
    for (int j = 0; j < o->nin; j++)
      if (o->in[j] == tensor)
        return drawing_of(p, o, j, t);
  }
  return (drawing){.deviation = 1};
}

/* Rows of distinct experts, if the tensor is a table of them. */
static bool
draw_table(const nmb_prog *p, nmb_id tensor, uint64_t key, float *out)
{
  const nmb_tensor *t = &p->tensor[tensor];
  const nmb_block *b = &p->block[t->block];
  for (int i = 0; i < b->nop; i++) {
    const nmb_op *o = &p->op[b->op[i]];
    if (o->code != NMB_OP_TOPK || !nmb_op_int(o, "table", 0) || o->in[2] != tensor)
      continue;
    const int64_t E = p->routing[nmb_op_int(o, "routing", 0)].experts, k = t->dim[1];
    const int64_t steps = k > 1 ? (E - 1) / (k - 1) : 1;
    for (int64_t r = 0; r < t->dim[0]; r++) {
      const uint64_t u = mix(key ^ mix((uint64_t)r));
      const int64_t first = (int64_t)(u % (uint64_t)E),
                    step = 1 + (int64_t)(u / (uint64_t)E % (uint64_t)(steps > 0 ? steps : 1));
      for (int64_t j = 0; j < k; j++)
        out[r * k + j] = (float)((first + j * step) % E);
    }
    return true;
  }
  return false;
}

static nmb_status
load(nmb_run *run, void *self, const nmb_prog *p, nmb_id tensor, const nmb__place *at,
     float *out, const float **ready, bool *exact)
{
  const nmb_tensor *t = &p->tensor[tensor];
  const char *name = t->name;
  int64_t position = at->position;
  drawing d = find_drawing(p, tensor);
  (void)run, (void)ready;
  *exact = false;
  if (!strcmp(name, "head.tied")) { /* the embedding table again */
    name = "embed.table";
    position = 0;
    for (nmb_id i = 0; i < p->ntensor; i++)
      if (!strcmp(p->tensor[i].name, name))
        d = find_drawing(p, i);
  }
  const uint64_t key = mix(nmb__hash(name, strlen(name)) ^ mix(*(const uint64_t *)self) ^
                           mix((uint64_t)position + 1));
  if (draw_table(p, tensor, key, out))
    return NMB_OK;
  for (int64_t i = 0, n = nmb_tensor_count(t); i < n; i++)
    out[i] = (float)draw(&d, key, i);
  return NMB_OK;
}

nmb__weights
nmb__weights_random(const uint64_t *seed)
{
  return (nmb__weights){(void *)(uintptr_t)seed, load, NULL};
}
