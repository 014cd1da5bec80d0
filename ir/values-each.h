/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Is each op right on its own?
 *
 * The code's values of a step are taken down; then the reference goes through the ops, each
 * on the inputs that the code had, since what the code made of an op takes the place of what
 * the reference did before later ops read it.  So no rounding of earlier values is in the
 * difference, and what may differ is known:
 * - Products: sums of the same terms in another order.  In float a sum of K terms
 *   in any order, with or without fused multiplication, is off by at most
 *   g(K) sum |a b|, g(K) = K u / (1 - K u), u = 2^-24 (Higham, Accuracy and Stability of
 *   Numerical Algorithms, 2nd edition, equation 3.4).  Two such sums are within twice that.  The
 *   op is evaluated with its sums at either end; what follows a sum in the op (scale, bias,
 *   cap, rounding to the tensor's format) does not decrease, so that the code's value is
 *   between the two results.
 * - Formats with a scale for a group are not monotone, as the scale moves with the largest
 *   value: a value is within half a step of one between the ends.
 * - All else is the same function of the same numbers: equal. */
#ifndef NMB__VALUES_EACH_H
#define NMB__VALUES_EACH_H

#include "ir/func.h"

/* What code made of the outputs of ops in a step. */
typedef struct nmb__made {
  int nop;
  int64_t nposition;
  float **value; /* [(position * nop + op) * NMB_MAXOUT + out] */
} nmb__made;
void nmb__made_begin(nmb__made *, const nmb_prog *);
void nmb__made_clear(nmb__made *);
void nmb__made_add(nmb__made *, const nmb__func_event *);

/* The first element of an op's outputs that is off. */
typedef struct nmb__off {
  int out; /* NMB_NONE: none */
  int64_t at;
  double value, least, most; /* what it should lie between */
} nmb__off;
/* v: the op's outputs before rounding; after it, what the code made of them, or (where it
 * made nothing) their values in the tensors' formats. */
nmb_status nmb__made_settle(nmb_run *, const nmb__made *, const nmb_prog *,
                            const nmb__place *, nmb_id op, const nmb__vals *v, nmb__off *);
#endif
