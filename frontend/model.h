/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Models: config.json -> normalised architecture -> graph, and counts that come
 * from the architecture by arithmetic alone.  Everything lives in the run's arena. */
#ifndef NMB__MODEL_H
#define NMB__MODEL_H

#include <stdio.h>

#include "nmbench/nmb_ir.h"

typedef enum nmb__field {
#define X(id, name, type, dflt, lo, hi, what) NMB__F_##id,
#include "frontend/fields.def"
#undef X
  NMB__F_NFIELD
} nmb__field;

/* Members are 64-bit numbers only, so that two specs are equal iff their bytes are. */
enum { NMB__NORM_NONE, NMB__NORM_RMS, NMB__NORM_LAYER, NMB__NORM_LAYER_NOBIAS,
       NMB__NORM_LAYER_UNIT /* without weights */, NMB__NORM_RMS_UNIT };
enum {
  NMB__PLACE_PRE,
  NMB__PLACE_POST,
  NMB__PLACE_SANDWICH,
  NMB__PLACE_PARALLEL,
  NMB__PLACE_PARALLEL2,
  NMB__PLACE_AFTER, /* after each sum */
  NMB__PLACE_INPUT /* the norm's output is what the layer adds to */
};
/* UNIT: over each head without weights, on layers that rotate only */
enum { NMB__QKNORM_NONE, NMB__QKNORM_HEAD, NMB__QKNORM_FULL, NMB__QKNORM_UNIT,
       NMB__QKNORM_EACH /* a layer norm of its own for each head */ };
enum {
  NMB__ACT_SILU,
  NMB__ACT_GELU,
  NMB__ACT_GELU_TANH,
  NMB__ACT_RELU,
  NMB__ACT_RELU2,
  NMB__ACT_SWIGLU_OAI,
  NMB__ACT_XIELU, /* with two learned numbers, arXiv:2411.13010 */
  NMB__ACT_SITU, /* SiTU-GLU of Kimi K3, arXiv:2607.24653 */
  NMB__NACT
};
enum {
  NMB__SCORE_SOFTMAX,
  NMB__SCORE_SIGMOID,
  NMB__SCORE_TOPK_SOFTMAX,
  NMB__SCORE_SPARSEMIXER,
  NMB__SCORE_SQRT_SOFTPLUS,
  NMB__NSCORE
};
enum {
  NMB__ROPE_PLAIN,
  NMB__ROPE_LINEAR,
  NMB__ROPE_LLAMA3,
  NMB__ROPE_YARN,
  NMB__ROPE_DYNAMIC,
  NMB__ROPE_LONG,
  NMB__NROPE
};

/* The numbers of op rope; those that a kind does not use are 0. */
typedef struct nmb__rope {
  int64_t dims, live; /* of the head, or of the rotating part of an MLA head */
  int64_t kind;       /* of scaling */
  int64_t adjacent;   /* pairs are (2j, 2j+1) */
  int64_t truncate;
  double theta, factor, orig, low, high, beta_fast, beta_slow;
  double attention, attention_short; /* on cos and sin; short: up to `orig` (longrope) */
} nmb__rope;

/* Which positions a query attends to, chosen by small heads of their own. */
typedef struct nmb__index {
  int64_t heads, width, topk; /* heads 0: there is none */
  int64_t own;                /* 0: the choice of the layer before is taken */
  int64_t gives;              /* boolean: the next layer takes this one's choice */
  int64_t adjacent;           /* pairs of the rotation, as in rope */
  int64_t block, local, init; /* topk blocks of so many keys, and the nearest and first
                                 blocks; 0: single keys */
  int64_t value;              /* boolean: its heads attend themselves, too */
} nmb__index;

typedef struct nmb__attn {
  int64_t heads, kv_heads, dk, dv;
  int64_t bias, o_bias; /* booleans */
  int64_t qk_norm, qk_norm_after; /* after: boolean, of the rotation */
  int64_t window, sink; /* window 0: none */
  int64_t chunk;        /* keys of the query's own chunk of so many only; 0: all */
  int64_t v_norm, k_eq_v; /* booleans: values normed without weights; made from keys */
  int64_t kv_from;        /* 1 + the layer whose caches are read; 0: own caches */
  int64_t kv_lent;        /* boolean: later layers read this one's */
  nmb__index index;
  /* DeepSeek-V4: one key that is the value too; every so many positions are pooled
   * into one (0: not, as without `latent`), the output is made in groups */
  int64_t latent, compress, o_groups, o_rank;
  int64_t alibi;        /* 1; 2: as Falcon adds it, see ops.def; 0: none */
  int64_t mla, q_rank, kv_rank, d_nope, d_rope;
  double latent_eps; /* of the norms of latents; 0: the layer's */
  int64_t gate_heads; /* boolean: one gate a head */
  int64_t diff; /* boolean: DIFF Transformer, arXiv:2410.05258 */
  double diff_start; /* what the share of the second attention starts from */
  int64_t gate;                     /* boolean: the output times sigmoid(gate of x) */
  double scale, cap, clip, v_scale; /* cap, clip 0: none */
  double q_scale, k_scale, out_scale;
  nmb__rope rope;
  /* queries times 1 + stretch * ln(1 + floor((position + from) / every)); 0: not */
  double stretch;
  int64_t stretch_every, stretch_from;
} nmb__attn;

/* State mixers: all but Mamba's first form read queries, keys and values from
 * projections of the input. */
enum {
  NMB__MIX_NONE,
  NMB__MIX_MAMBA,    /* Mamba, arXiv:2312.00752 */
  NMB__MIX_SSD,      /* Mamba-2, arXiv:2405.21060 */
  NMB__MIX_DELTA,    /* gated DeltaNet, arXiv:2412.06464 */
  NMB__MIX_KDA,      /* Kimi delta attention, arXiv:2510.26692 */
  NMB__MIX_LIGHTNING, /* arXiv:2501.08313 */
  NMB__MIX_RWKV4,     /* arXiv:2305.13048; these two shift tokens, in the network too */
  NMB__MIX_RWKV6,     /* arXiv:2404.05892 */
  NMB__MIX_RWKV7,     /* arXiv:2503.14456 */
  NMB__MIX_SHORT,     /* gated short convolution of LFM2, arXiv:2511.23404 */
  NMB__MIX_RGLRU      /* arXiv:2402.19427 */
};
/* Norm of what the state gives: after its product with the gate, or before. */
enum { NMB__MIXNORM_NONE, NMB__MIXNORM_AFTER, NMB__MIXNORM_BEFORE };
/* Norms of Mamba's step, keys and queries: without weights, or with. */
enum { NMB__INNER_NONE, NMB__INNER_UNIT, NMB__INNER_LEARNED };

typedef struct nmb__mixer {
  int64_t kind;
  int64_t heads, groups;        /* of the state; of queries and keys */
  int64_t dk, dv;               /* width of a key and a value of a head */
  int64_t taps, conv_bias;      /* convolution of queries, keys, values; 0 taps: none */
  int64_t bias, o_bias;         /* booleans */
  int64_t rank, gate_rank;      /* of the step (or decay) and the gate; 0: full */
  int64_t a_rank, v_rank;       /* RWKV-7: of the rate and of the values' mixing;
                                   RWKV-6: a_rank of the shares of the token before */
  int64_t first;                /* boolean: its values go to later layers (RWKV-7) */
  int64_t norm, norm_width;     /* columns that are normed together */
  int64_t norm_shared;          /* boolean: one weight for all of these */
  int64_t inner_norm, gate_act; /* gate_act 1: sigmoid, else silu */
  int64_t chunk;                /* tokens of a block in prefill */
  double inner_eps, norm_eps;   /* 0: those of the layer */
  double step_low, step_high;   /* of the step; high 0: not bounded */
  double bound;                 /* least logarithm of the decay; 0: none */
  double z_scale, x_scale, b_scale, c_scale, dt_scale, out_scale;
} nmb__mixer;

static inline bool
nmb__is_rwkv(const nmb__mixer *t)
{
  return t->kind == NMB__MIX_RWKV4 || t->kind == NMB__MIX_RWKV6 ||
         t->kind == NMB__MIX_RWKV7;
}

typedef struct nmb__ffn {
  int64_t width, act, bias;
  int64_t gated; /* fn(gate) * up; else fn(up) */
  double limit, up_limit; /* situ: where the gate and the other factor saturate */
  double gate_scale, down_scale; /* factors on what these give */
} nmb__ffn;

typedef struct nmb__moe {
  int64_t experts, topk; /* experts 0: the layer is dense */
  int64_t zero; /* further choices that cost nothing */
  int64_t score, router_bias, select_bias, renorm, groups, topk_groups;
  int64_t group_top; /* how many experts' scores make a group's */
  int64_t input;     /* boolean: weights multiply what goes into the experts */
  int64_t hash;      /* rows of a table token -> experts that makes the choice */
  int64_t normed;    /* Gemma 4: the router's input is normed, experts have scales */
  double scale;
  double cap, jitter; /* of the router's logits, 0: none; half the band of sparsemixer */
  nmb__ffn expert;
  nmb__ffn shared; /* width 0: none */
  int64_t shared_gate;         /* boolean: shared experts times sigmoid(one gate of x) */
  int64_t latent, latent_norm; /* width that experts work in; 0: hidden */
} nmb__moe;

/* Tensors are stored in a format by class. */
#define NMB__CLASS_MAP(X)                                                                \
  X(NORM, "norm")                                                                        \
  X(ATTN, "attention") X(MIXER, "mixer") X(MLA_DOWN, "latent") X(FFN, "ffn") X(ROUTER, "router")           \
      X(EXPERT, "experts") X(SHARED, "shared") X(SELECT, "selection bias")               \
      X(INDEX, "indexer") X(POOL, "pooling") X(STREAM, "streams") X(HASH, "token table")
typedef enum nmb__class {
#define X(id, name) NMB__W_##id,
  NMB__CLASS_MAP(X)
#undef X
      NMB__NCLASS
} nmb__class;

typedef struct nmb__format {
  nmb_dtype dtype;
  int group;
} nmb__format;

/* How a quantised matrix is stored, to the byte: elements of `bits`, then scales and
 * zero points by blocks.  Formats of a program are coarser: dtype and group. */
typedef struct nmb__scheme {
  nmb_dtype dtype;
  int group;
  int bits, scale_bits, zero_bits;
  int64_t block_rows, block_cols; /* that share a scale; 0: all */
  int64_t flat, second; /* blocks over the elements as they lie; scales that share one */
  int64_t pad_blocks; /* scales of a row are rounded up to as many; 0: not */
  int64_t column_bytes, matrix_bytes; /* for each column, once */
} nmb__scheme;
enum { NMB__NMODULE = 48 }; /* rows of modules.def, at most */

typedef struct nmb__layer {
  nmb__attn attn;   /* heads 0: none */
  nmb__mixer mixer; /* beside attention if there are both */
  nmb__ffn ffn;     /* width 0: none */
  nmb__moe moe;
  int64_t norm, place, sub_norm;
  int64_t beside;       /* the dense network stands beside the experts: 1 with norms around
                           each (Gemma 4), 2 with one norm before it (Arctic), 3 without */
  int64_t hyper;        /* residual streams of hyper-connections; 0: one path */
  int64_t hyper_rounds; /* that make their mixing doubly stochastic */
  double hyper_eps;
  int64_t altup, altup_active, altup_scale, laurel; /* Gemma 3n; 0: not */
  double sparsity; /* deviations above the mean at which the gate is cut; 0: it is not */
  int64_t ple, ple_rows; /* width and rows of the layer's own embedding */
  int64_t res_block;     /* layers whose sums are attended to (Kimi K3); 0: not */
  int64_t res_before;    /* sums that are closed before the layer */
  int64_t res_starts;    /* boolean: it closes one more and opens the next */
  int64_t scalar;        /* boolean: a learned factor on the layer's output */
  double eps, norm_offset, residual;              /* residual: factor on what is added */
  double skip, ffn_skip; /* factors on what is added to, before attention and network */
  int64_t dtype[NMB__NCLASS], group[NMB__NCLASS]; /* of weights that are not quantised */
  int64_t scheme[NMB__NMODULE]; /* by row of modules.def: 1 + number; 0: not quantised */
} nmb__layer;

/* Where a key of the file went, for people. */
typedef struct nmb__key_note {
  const char *key, *how; /* "used as", "fixed", "ignored", "default" */
  const char *what;
} nmb__key_note;

typedef struct nmb__arch {
  const char *name, *family, *path;
  uint64_t hash; /* of the bytes of the file */
  int64_t hidden, vocab, nlayer, tied, mtp, context;
  const char *mtp_pattern; /* letters of a module's layers; "": one as the last */
  int64_t positions; /* rows of a learned table; 0: none */
  int64_t position_first; /* row of the first position in it */
  int64_t waves; /* boolean: the table follows from the positions, no file has it */
  int64_t embed_width; /* of the table; hidden, or projected to and from it */
  int64_t embed_norm, head_bias, final_norm_off;
  int64_t head_unit; /* boolean: rows of the head are brought to unit length */
  const char *no_graph; /* what the graph lacks; NULL or "": nothing */
  int64_t kv_shared_weights; /* boolean: layers that read other caches have projections */
  double embed_scale, logit_scale, logit_cap; /* cap 0: none */
  const nmb__layer *layer;                    /* [nlayer] */
  int ndistinct;
  const int *distinct; /* [nlayer] number of the layer's spec, in order of appearance */
  const int *first;    /* [ndistinct] a layer that has the spec */
  nmb__format embed, head, final_norm, position;
  const nmb__scheme *scheme, *head_scheme; /* (optional) head: NULL, not quantised */
  int64_t rope_factors; /* longrope: divisors of the frequencies; 0: none */
  const double *rope_short, *rope_long;
  int64_t stored_bytes; /* of all tensors, where weight files were read; else 0 */
  int nwarning; /* keys that were not understood, let pass by --lenient */
  const char *const *warning;
  int nnote;
  const nmb__key_note *note;
} nmb__arch;

/* The scheme of a weight of the layer, by its name in the graph; NULL: none. */
NMB_API const nmb__scheme *nmb__scheme_of(const nmb__arch *, const nmb__layer *,
                                          const char *name);
/* The format that a program has for it. */
NMB_API nmb__format nmb__stored_format(const nmb__arch *, const nmb__layer *, nmb__class,
                                       const char *name);
NMB_API int64_t nmb__scheme_bytes(const nmb__scheme *, int64_t rows, int64_t cols);

/* Is it an alias, a file of models/ or the start of one? */
NMB_API bool nmb__arch_known(nmb_run *, const char *name);
/* name: an alias, a file of models/ with or without its owner, the path of a config.json,
 * or of weight files (wfile.h). */
NMB_API nmb_status nmb__arch_load(nmb_run *, const char *name_or_path,
                                  const nmb__arch **out);
/* The same from text; file: for messages. */
NMB_API nmb_status nmb__arch_parse(nmb_run *, const char *file, const char *name,
                                   const char *text, size_t len, const nmb__arch **out);
NMB_API const char *nmb__arch_name(const nmb__arch *);
NMB_API uint64_t nmb__arch_hash(const nmb__arch *);
/* Names of act, score: as the ops' attributes spell them. */
NMB_API const char *nmb__act_name(int64_t);
NMB_API const char *nmb__score_name(int64_t);
NMB_API const char *nmb__rope_name(int64_t);
NMB_API const char *nmb__mixer_name(int64_t);
/* Inputs of a graph that hold the rope_short and rope_long of its architecture. */
#define NMB__ROPE_SHORT_FACTORS "rope.short"
#define NMB__ROPE_LONG_FACTORS "rope.long"

typedef struct nmb__routing_spec {
  const char *kind; /* "uniform", "zipf" or "balanced" */
  double skew;      /* exponent of zipf */
  uint64_t seed;
} nmb__routing_spec;
/* Draws ntoken times topk distinct experts into expert[ntoken][topk]. */
NMB_API nmb_status nmb__routing_draw(nmb_run *, const nmb__routing_spec *, int experts,
                                     int topk, int64_t ntoken, int32_t *expert);

/* Is the step one that can be counted: positive, and within bounds? */
NMB_API nmb_status nmb__step_check(nmb_run *, const nmb__arch *, nmb_step_spec);
/* The architecture with a block of its own for each layer that routes tokens to experts,
 * so that each has a table of its own. */
NMB_API const nmb__arch *nmb__arch_apart(nmb_run *, const nmb__arch *);
/* *out is owned by the caller (nmb_prog_free). */
NMB_API nmb_status nmb__graph_build(nmb_run *, const nmb__arch *, nmb_step_spec,
                                    const nmb__routing_spec *, nmb_prog **out);
#endif
