/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A systolic array in closed form and clock by clock.
 *
 * [M,K] x [K,N] on R x C cells is cut into folds, each of which fills the array once:
 *   ws  weights stay: K over the rows, N over the columns, M vectors stream
 *   is  inputs stay:  K over the rows, M over the columns, N vectors stream
 *   os  sums stay:    M over the rows, N over the columns, K steps
 * A stationary operand shifts in from the top, a row a clock, all R rows of them. What
 * streams enters at the left, row r one clock after row r - 1, and moves a column a
 * clock; sums move down a row a clock and leave at the bottom.  Folds follow each other
 * without overlap; cycles are the number of the last clock, counted from 0. */
#ifndef NMB_ARRAY_H
#define NMB_ARRAY_H

#include "nmbench/nmb_base.h"

#ifdef __cplusplus
extern "C" {
#endif

#define NMB_FLOW_MAP(X)                                                                  \
  X(WS, "ws", "weights stay")                                                            \
  X(OS, "os", "sums stay")                                                               \
  X(IS, "is", "inputs stay")
typedef enum nmb_flow {
#define X(id, name, help) NMB_FLOW_##id,
  NMB_FLOW_MAP(X)
#undef X
      NMB_NFLOW
} nmb_flow;
NMB_API nmb_flow nmb_flow_find(const char *name); /* NMB_NFLOW if unknown */

typedef struct nmb_array {
  int64_t rows, cols;
  nmb_flow flow;
} nmb_array;

/* What one product costs; counts are exact below 2^53. */
typedef struct nmb_array_work {
  double folds;
  double fold_cycles; /* of one fold; all take as long */
  double cycles;      /* folds * fold_cycles - 1 */
  double macs;
  double reads_input,
      reads_weight;     /* words out of the scratchpads at the array's edges */
  double writes_output; /* words of sums that leave; partial ones count */
  double mapped;        /* share of the cells that a fold uses, mean over the folds */
  double busy;          /* share of the cells that multiply, mean over all cycles */
  double streamed; /* the same over a fold with its load counted by SCALE-Sim's rule */
} nmb_array_work;

/* Closed form.  m, n, k: 1 or more. */
NMB_API nmb_array_work nmb_array_gemm(const nmb_array *, int64_t m, int64_t n, int64_t k);

/* Clock by clock, with the values: c[M,N] = a[M,K] b[K,N] (all row major; exact while
 * sums stay within int64).  All counts are of what happened in the cells.
 * O(cycles * R * C). */
NMB_API nmb_array_work nmb_array_step(nmb_run *, const nmb_array *, int64_t m, int64_t n,
                                      int64_t k, const int32_t *a, const int32_t *b,
                                      int64_t *c);
/* The same counts with the folds that are alike (at most four shapes) stepped once.
 * limit: most clocks times cells that may be stepped; false if it takes more. */
NMB_API bool nmb_array_stepped(nmb_run *, const nmb_array *, int64_t m, int64_t n,
                               int64_t k, double limit, nmb_array_work *out);

#ifdef __cplusplus
}
#endif
#endif
