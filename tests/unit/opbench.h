/* SPDX-License-Identifier: GPL-3.0-or-later */
/* One op on random values, whole and in tiles. */
#ifndef OPBENCH_H
#define OPBENCH_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/run.h"
#include "ir/eval.h"
#include "tests/unit/unit.h"

typedef struct bench {
  nmb_run *run;
  nmb_prog *p;
  nmb_op op; /* being described */
  nmb_id id; /* once added */
  nmb_id block;
  uint64_t seed;
  float *in[NMB_MAXIN], *out[NMB_MAXOUT];
  nmb__vals v;
} bench;

/* In [-1, 1), the same sequence for a seed. */
static inline double
bench_random(bench *b)
{
  b->seed = b->seed * 6364136223846793005u + 1442695040888963407u;
  return (double)(b->seed >> 33) / 0x1p30 - 1;
}

static inline bench
bench_open(nmb_opcode code, int64_t batch, int64_t fresh, int64_t context)
{
  bench b = {.run = nmb__run_open(NULL), .seed = 77};
  b.p = nmb_prog_new("op", (nmb_step_spec){NMB_PREFILL, batch, fresh, context});
  b.block = nmb_block_add(b.p, "b");
  b.op = (nmb_op){.code = code, .block = b.block};
  return b;
}

static inline nmb_id
bench_tensor(bench *b, nmb_role role, nmb_dtype dtype, int rank, const int64_t *dim)
{
  nmb_tensor t = {
      .name = "t", .block = b->block, .role = role, .dtype = dtype, .rank = rank};
  memcpy(t.dim, dim, (size_t)rank * sizeof *dim);
  return nmb_tensor_add(b->p, &t);
}

#define DIMS(...)                                                                        \
  (int)(sizeof(int64_t[]){__VA_ARGS__} / sizeof(int64_t)), (const int64_t[])             \
  {                                                                                      \
    __VA_ARGS__                                                                          \
  }

/* A further input, random in [-1, 1). */
static inline float *
bench_in(bench *b, nmb_role role, int rank, const int64_t *dim)
{
  const nmb_id t = bench_tensor(b, role, NMB_DT_F32, rank, dim);
  const int64_t n = nmb_tensor_count(&b->p->tensor[t]);
  float *x = malloc((size_t)n * sizeof *x);
  for (int64_t i = 0; i < n; i++)
    x[i] = (float)bench_random(b);
  b->op.in[b->op.nin] = t;
  b->v.in[b->op.nin] = x;
  b->in[b->op.nin++] = x;
  return x;
}

/* int32: the caller fills it in */
static inline int32_t *
bench_ids(bench *b, int rank, const int64_t *dim)
{
  const nmb_id t = bench_tensor(b, NMB_ROLE_INPUT, NMB_DT_I32, rank, dim);
  int32_t *x = calloc((size_t)nmb_tensor_count(&b->p->tensor[t]), sizeof *x);
  b->op.in[b->op.nin] = t;
  b->v.in[b->op.nin] = x;
  b->in[b->op.nin++] = (float *)(void *)x;
  return x;
}

static inline float *
bench_out(bench *b, nmb_dtype dtype, int rank, const int64_t *dim)
{
  const nmb_id t = bench_tensor(b, NMB_ROLE_ACT, dtype, rank, dim);
  const int64_t n = nmb_tensor_count(&b->p->tensor[t]);
  float *x = malloc((size_t)n * sizeof *x);
  for (int64_t i = 0; i < n; i++)
    x[i] = NAN; /* what is not written shows */
  b->op.out[b->op.nout] = t;
  b->v.out[b->op.nout] = x;
  b->out[b->op.nout++] = x;
  return x;
}

/* The next output is the storage of input `i`. */
static inline void
bench_in_place(bench *b, int i)
{
  const nmb_tensor t = b->p->tensor[b->op.in[i]];
  b->op.out[b->op.nout] = bench_tensor(b, t.role, t.dtype, t.rank, t.dim);
  b->v.out[b->op.nout++] = b->in[i];
}

static inline void
bench_attr(bench *b, nmb_attr a)
{
  if (b->op.nattr < NMB_MAXATTR)
    b->op.attr[b->op.nattr++] = a;
}

static inline int64_t
bench_count(const bench *b, nmb_id t)
{
  return nmb_tensor_count(&b->p->tensor[t]);
}

static inline void
bench_run(bench *b)
{
  b->id = nmb_op_add(b->p, &b->op);
  CU_ASSERT_EQUAL_FATAL(nmb__op_eval(b->run, b->p, b->id, NULL, &b->v), NMB_OK);
}

/* Tile by tile, last first, into outputs that hold no number: the same values. */
static inline void
bench_tiles(bench *b, int64_t tb, int64_t tm, int64_t tn)
{
  const nmb_space s = nmb_op_space(b->p, b->id);
  float *was = b->out[0];
  const int64_t n = bench_count(b, b->op.out[0]);
  float *now = malloc((size_t)n * sizeof *now);
  for (int64_t i = 0; i < n; i++)
    now[i] = NAN;
  b->v.out[0] = now;
  for (int64_t b1 = s.b; b1 > 0; b1 -= tb)
    for (int64_t m1 = s.m; m1 > 0; m1 -= tm)
      for (int64_t n1 = s.n; n1 > 0; n1 -= tn) {
        const nmb_tile t = {b1 > tb ? b1 - tb : 0,
                            b1,
                            m1 > tm ? m1 - tm : 0,
                            m1,
                            n1 > tn ? n1 - tn : 0,
                            n1,
                            0,
                            s.k};
        CU_ASSERT_EQUAL(nmb__op_eval(b->run, b->p, b->id, &t, &b->v), NMB_OK);
      }
  for (int64_t i = 0; i < n; i++)
    CU_ASSERT_DOUBLE_EQUAL(now[i], was[i], 2e-6 * (1 + fabs((double)was[i])));
  free(now);
  b->v.out[0] = was;
}

static inline void
bench_close(bench *b)
{
  for (int i = 0; i < NMB_MAXIN; i++)
    free(b->in[i]);
  for (int i = 0; i < NMB_MAXOUT; i++)
    free(b->out[i]);
  nmb_prog_free(b->p);
  nmb__run_close(b->run);
}

#define NEAR(a, b, eps) CU_ASSERT_DOUBLE_EQUAL(a, b, (eps) * (1 + fabs((double)(b))))
#endif
