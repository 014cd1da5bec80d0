/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Reference evaluation: the values that a program means, in float.
 *
 * Two layers.  nmb__op_eval computes one op, or one tile of it, on dense arrays:
 * the simulator that executes code calls it too.  nmb__eval runs whole programs,
 * one after another as the steps of a sequence, and keeps caches and states.
 *
 * What an op means is said at the head of ops.def; where that leaves a choice:
 * - A position of a cache [B,S,..] is the token context + fresh - S + s of its sequence.
 * - qk: cap(scale * q k + bias), then the ALiBi term; pairs that are not visible have
 *   a value too.  softmax: key s is seen by the new token t (0 .. new-1) iff
 *   s <= S - new + t, s > S - new + t - window (window 0: all), and both lie in one
 *   `chunk` of the sequence if there is one.  What is not seen has probability 0.
 * - linear: scale * (x w^T + bias), then clip.
 * - topk: equal scores go to the lower expert.  The weights are those of the score
 *   without the selection bias.
 * - combine: y = scale * sum over the choice, in its order.
 * - Sums of norms and softmax are in double, products in float. */
#ifndef NMB__EVAL_H
#define NMB__EVAL_H

#include "nmbench/nmb_ir.h"

/* ----------------------------------------------------------------------- ops */
/* The values of an op's tensors: arrays as dense as the tensors' dimensions say, of
 * int32_t where the format is int32, else of float.  A split has values of its own.  The
 * output of kvappend, conv and scan that shares the storage of a cache or state must
 * be the array of that input. */
/* How the engine at hand adds up products, and what noise is drawn from: the same wherever
 * in an order an instruction stands. */
typedef struct nmb__arith {
  const struct nmb_engine *engine;
  uint64_t seed;
  int side; /* -1, 1: instead, the least and the most that sums in float can give */
} nmb__arith;
/* Does it differ from sums in float? */
NMB_API bool nmb__arith_differs(const struct nmb_engine *);

typedef struct nmb__vals {
  const void *in[NMB_MAXIN];
  void *out[NMB_MAXOUT];
  /* (optional) the choice in effect for the table that the op names; NULL: the program's
   */
  const nmb_routing *routing;
  const struct nmb__arith *arith; /* (optional) how products add up; NULL: in float */
  bool by_table; /* topk takes its experts from `routing`, and only weighs them */
} nmb__vals;

/* Computes the tile of the op's iteration space (NULL: all); k must be whole.  Reads only
 * what the tile needs, writes only what it makes.  moe and attention take no tile.
 * NMB_BADINPUT: an id beyond its table.  NMB_UNSUPPORTED: an unknown symbol. */
NMB_API nmb_status nmb__op_eval(nmb_run *, const nmb_prog *, nmb_id op, const nmb_tile *,
                                const nmb__vals *);

/* ------------------------------------------------------------------ programs */
/* One run of a block. */
typedef struct nmb__place {
  nmb_id block;
  int64_t layer;    /* of its block: 0 .. repeat-1 */
  int64_t position; /* among all that the order runs: 0 is the first block */
} nmb__place;

/* Where the values of weights come from. */
typedef struct nmb__weights {
  void *self;
  /* The weight `tensor` of the program, or an input of it that is a constant of the
   * model (factors of rotary positions), in the shape and order that the model has it
   * (row-major).  Writes all elements to `out`, or sets *ready to values that stay
   * valid until the evaluation is closed.  *exact: set it if the values are in the
   * tensor's format already, so that they are not rounded to it again. */
  nmb_status (*load)(nmb_run *, void *self, const nmb_prog *, nmb_id tensor,
                     const nmb__place *, float *out, const float **ready, bool *exact);
  /* (optional) The bytes of a weight whose format is the block of a file, as many as
   * nmb_tensor_bytes says.  NMB_UNSUPPORTED where they are no whole blocks of its. */
  nmb_status (*bytes)(nmb_run *, void *self, const nmb_prog *, nmb_id tensor,
                      const nmb__place *, uint8_t *out);
} nmb__weights;

/* X(id, name): how values are rounded */
typedef enum nmb__rounding {
  NMB__ROUND_NONE,  /* all in float; weights as they are loaded */
  NMB__ROUND_STORED /* weights, values and caches as their tensors' formats hold them */
} nmb__rounding;

typedef struct nmb__eval_options {
  nmb__rounding rounding;
  bool by_table; /* the program's routing tables decide the experts, not the router */
  bool invent;   /* a first step after a context finds made-up caches and states */
  uint64_t keep_bytes; /* of weights kept in float from step to step; 0: all */
  /* (optional) called after each op with the values of its outputs */
  void (*watch)(void *self, const nmb_prog *, const nmb__place *, nmb_id op,
                const nmb__vals *);
  /* (optional) called after each op but kvappend, instead of rounding: later ops read what
   * it leaves in the outputs */
  nmb_status (*settle)(nmb_run *, void *self, const nmb_prog *, const nmb__place *,
                       nmb_id op, const nmb__vals *);
  void *watch_self;
} nmb__eval_options;

typedef struct nmb__eval nmb__eval;
/* Both structs are copied. */
NMB_API nmb__eval *nmb__eval_open(const nmb__weights *, const nmb__eval_options *);
NMB_API void nmb__eval_close(nmb__eval *); /* NULL: nothing */
/* Forgets caches and states, so that a step may begin a new sequence. */
NMB_API void nmb__eval_reset(nmb__eval *);

/* Evaluates the program on ids[T] (sequence by sequence).  Steps of one sequence are
 * programs of the same model (before or after passes) with the same batch, whose context
 * is what the steps before had.  *logits: the output of the last op, [rows][columns];
 * valid until the next call. */
NMB_API nmb_status nmb__eval_step(nmb_run *, nmb__eval *, const nmb_prog *,
                                  const int32_t *ids, const float **logits, int64_t *rows,
                                  int64_t *columns);

/* Rows of each sequence that a cache has before the step and after it: one for each
 * position, or for every so many of them, as the ops over the cache say. */
typedef struct nmb__cache_rows {
  int64_t before, after;
} nmb__cache_rows;
nmb__cache_rows nmb__cache_rows_of(const nmb_prog *, nmb_id root);
/* Values of an input of positions: "pos", those of the tokens; "pos.N", the first ones
 * of the rows of N positions that the step completes.  False: it is none. */
bool nmb__positions(const nmb_prog *, const nmb_tensor *, int32_t *out);

/* Made-up numbers from -1 to 1 for elements [first, first + n) of a cache or state. */
NMB_API void nmb__invent(const nmb__place *, const char *name, int64_t first, int64_t n,
                         float *out);

/* The weight as the program holds it: turned where a pass has turned it, rounded to the
 * tensor's format if so asked.  out has room for all elements. */
NMB_API nmb_status nmb__weight_values(nmb_run *, const nmb__weights *, const nmb_prog *,
                                      nmb_id tensor, const nmb__place *, nmb__rounding,
                                      float *out);

/* The bytes of a weight in a format of files.  NMB_UNSUPPORTED where they are not at hand. */
NMB_API nmb_status nmb__weight_bytes(nmb_run *, const nmb__weights *, const nmb_prog *,
                                     nmb_id tensor, const nmb__place *, uint8_t *out);

/* The head reads all positions instead of the last of each sequence: `select` goes, and
 * what follows it has a row for each token. */
NMB_API void nmb__prog_all_positions(nmb_prog *);

/* Random weights for any program, from a seed: the same for a tensor of the same name,
 * layer and count whatever else is loaded.  Small normals for matrices, norms about 1,
 * decays and steps of state mixers as their initialisations have them.
 * *seed is borrowed. */
NMB_API nmb__weights nmb__weights_random(const uint64_t *seed);
/* Of head 0, 1, .. (arXiv:2108.12409). */
NMB_API double nmb__alibi_slope(int64_t head, int64_t heads);
#endif
