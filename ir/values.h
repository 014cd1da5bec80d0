/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Do the values that code makes agree with what the program means?
 *
 * Three computations of the same steps from the same weights:
 *   exact   the graph before the passes in float, its router free: what the model says
 *   stored  the graph after them, every value rounded to its tensor's format
 *   code    the instructions, out of simulated memories, in several orders
 * An op of `code` has to equal that of the reference on the inputs that the code had, but for
 * the order of sums, within bounds that values-each.h derives.  `stored` never sees the
 * code's values: how far they are from it at the end is told, not judged.  Where engines of the machine add
 * products up in ways of their own (nmb_arith; converters of analog arrays), the code runs
 * once more so; its logits are compared with those of `exact`, which is what number
 * formats and arithmetic cost.
 *
 * Code is made for a routing table.  The choice that `exact` makes is put into the tables
 * of the program before passes run (nmb__values_routing), and holds for `stored` and
 * `code`; layers that share a block share its table, so that models with routers must
 * have a block for each such layer (nmb__arch_apart). */
#ifndef NMB__VALUES_H
#define NMB__VALUES_H

#include "ir/eval.h"
#include "ir/func.h"

/* One tensor of a block, over all layers and steps so far. */
typedef struct nmb__deviation {
  const char *block_name, *name; /* live as long as the comparison */
  double most;      /* largest difference over the root mean square of the reference */
  double square, reference; /* sums of squares: of differences, of the reference */
  int64_t n;
} nmb__deviation;
NMB_API double nmb__deviation_rms(const nmb__deviation *); /* relative */

/* Where the first value off was made. */
typedef struct nmb__first_diff {
  nmb_id insn; /* NMB_NONE: nothing is off */
  int64_t layer, row, column, context;
  double value, expected;
  const char *text; /* the instruction and its tensor */
} nmb__first_diff;

/* Logits of the code against those of `exact`, over all rows so far. */
typedef struct nmb__agreement {
  int64_t rows, same_top;  /* rows with the same largest logit */
  double divergence;       /* sum over rows of KL(exact || code), in nats */
  double divergence_square; /* of squares of these */
  double most;             /* largest difference */
  double square, reference; /* sums of squares, as above */
  int64_t predicted;        /* rows whose next token is known */
  double nll, exact_nll;    /* sums of -ln p(next token), by code and by exact */
  double nll_square, rise_square; /* of squares of the first, and of the differences */
} nmb__agreement;
/* next: (optional) [rows] the token that follows each row. */
NMB_API void nmb__agreement_add(nmb__agreement *, const float *exact, const float *code,
                                int64_t rows, int64_t columns, const int32_t *next);
/* Standard errors take tokens as independent; that of the rise is of the differences token
 * by token, which is far less than that of either perplexity. */
typedef struct nmb__accuracy {
  double top1, kl, kl_se;
  double perplexity, perplexity_se, perplexity_exact; /* NaN: no text */
  double rise, rise_se; /* of the perplexity over that in float, as a share of it */
} nmb__accuracy;
NMB_API nmb__accuracy nmb__agreement_accuracy(const nmb__agreement *);
NMB_API void nmb__agreement_join(nmb__agreement *to, const nmb__agreement *);
NMB_API double nmb__agreement_rms(const nmb__agreement *); /* relative */

/* The model that a program is a step of, with its weights, and a text to take: what the
 * host gives to simulators that execute code (nmb__run_subject_set). */
typedef struct nmb__subject {
  void *self;
  nmb__weights weights;
  const int32_t *ids; /* of the text; NULL: none */
  int64_t n;
  int32_t bos;
  /* The graph of another step, if so asked with logits of all positions, its routers
   * free; and the passes that made the program at hand.  Free the program. */
  nmb_status (*graph)(nmb_run *, void *self, nmb_step_spec, bool all, nmb_prog **);
  nmb_status (*compile)(nmb_run *, void *self, nmb_prog *);
} nmb__subject;

typedef struct nmb__values_options {
  uint64_t seed; /* of orders */
  int orders;    /* drawn at random for each step, besides the one emitted */
  bool tables;   /* experts are those of the tables in float, too */
  bool invent;   /* caches of a step that is the first, but after a context */
  bool stop;     /* at the first value that is off */
} nmb__values_options;

typedef struct nmb__values_check nmb__values_check;
NMB_API nmb__values_check *nmb__values_open(const nmb__weights *,
                                            const nmb__values_options *);
NMB_API void nmb__values_close(nmb__values_check *); /* NULL: nothing */
/* Evaluates the step of `graph` exactly, and puts the choice of its routers into the
 * tables of that program: before passes run on it or on a copy. */
NMB_API nmb_status nmb__values_exact(nmb_run *, nmb__values_check *, nmb_prog *graph,
                                     const int32_t *ids);
/* Then the same step of the compiled program.  NMB_UNVERIFIED: orders disagree, code reads
 * what is not there, or (with `stop`) a value is off. */
NMB_API nmb_status nmb__values_code(nmb_run *, nmb__values_check *, const nmb_prog *,
                                    const int32_t *ids);
/* The tokens that follow each row of the next steps, for the agreement; borrowed; NULL:
 * not known. */
NMB_API void nmb__values_next(nmb__values_check *, const int32_t *next);
/* Logits of the step that was last evaluated exactly. */
NMB_API const float *nmb__values_logits(const nmb__values_check *);
NMB_API const nmb__agreement *nmb__values_agreement(const nmb__values_check *);
/* The same with all products added in float: where it is better, that is what the
 * arithmetic of the machine's engines costs. */
NMB_API const nmb__agreement *nmb__values_ideal(const nmb__values_check *);
/* How the memories hold the weights of the model. */
NMB_API nmb__held nmb__values_held(const nmb__values_check *);
/* Has the machine an engine with an arithmetic of its own? */
NMB_API bool nmb__machine_differs(const struct nmb_hw *);
NMB_API const nmb__first_diff *nmb__values_first(const nmb__values_check *);
NMB_API const nmb__deviation *nmb__values_tensors(const nmb__values_check *, int *n);
#endif
