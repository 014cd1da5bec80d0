/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What a model holds and what a step must do, by arithmetic on the architecture:
 * nothing here looks at the ops of a graph, so that the two can check each other. */
#ifndef NMB__COUNTS_H
#define NMB__COUNTS_H

#include "frontend/model.h"

#define NMB__PART_MAP(X)                                                                 \
  X(EMBED, "embedding")                                                                  \
  X(ATTN, "attention") X(MIXER, "mixer") X(NORM, "norms") X(FFN, "ffn") X(ROUTER, "router")                \
      X(EXPERTS, "experts") X(SHARED, "shared_experts") X(HEAD, "head")
typedef enum nmb__part {
#define X(id, name) NMB__P_##id,
  NMB__PART_MAP(X)
#undef X
      NMB__NPART
} nmb__part;
NMB_API const char *nmb__part_name(nmb__part);

/* How often a step uses a weight. */
typedef enum nmb__use {
  NMB__USE_TOKEN,        /* a matrix, once for each token */
  NMB__USE_TWICE,        /* a matrix, twice for each token */
  NMB__USE_ROUTED,       /* one matrix per expert, for the rows that reach it */
  NMB__USE_GROUP,        /* one matrix per group of heads, each token */
  NMB__USE_LAST,         /* a matrix, once for each sequence */
  NMB__USE_CACHE,        /* a matrix, once for each cached position unless absorbed */
  NMB__USE_LOOKUP,       /* a table of which each token reads a row */
  NMB__USE_WAVES,        /* the same, but it follows from the positions: no parameter */
  NMB__USE_CONSTANT,     /* a vector that follows from the layer's number: no parameter */
  NMB__USE_TAPS,         /* a constant matrix, once for each token: no parameter */
  NMB__USE_IDLE,         /* in the file, but nothing reads it */
  NMB__USE_LENT,         /* a vector that other blocks read: here a parameter only */
  NMB__USE_BORROWED,     /* that of another block: no parameter */
  NMB__USE_POOL,         /* a vector, in steps that complete a pool of positions */
  NMB__USE_VECTOR,       /* added or multiplied, no matrix product */
  NMB__USE_ROUTED_VECTOR /* one vector per expert */
} nmb__use;

typedef struct nmb__piece {
  const char *name; /* as the graph spells it */
  nmb__part part;
  nmb__use use;
  int64_t rows, cols, copies; /* copies: experts, else 1 */
  nmb__format format;         /* of the program */
  const nmb__scheme *scheme;  /* (optional) as stored; NULL: as `format` says */
} nmb__piece;
NMB_API int64_t nmb__piece_bytes(const nmb__piece *); /* as stored, all copies */
/* The weights of a distinct layer; of the ends (embedding, head) for NMB_NONE.
 * A tied head has no weight of its own: its piece is not listed. */
NMB_API int nmb__pieces(nmb_run *, const nmb__arch *, int distinct,
                        const nmb__piece **out);

/* The weights of a mixer, one by one; names start with "mixer.". */
typedef void (*nmb__piece_sink)(void *, const char *name, nmb__use, nmb__class,
                                int64_t rows, int64_t cols);
void nmb__mixer_pieces(nmb_run *, const nmb__mixer *, int64_t hidden, nmb__piece_sink,
                       void *to);
/* Of its network, beyond that of others; names start with "ffn.". */
void nmb__channel_pieces(nmb_run *, const nmb__mixer *, int64_t hidden, nmb__piece_sink,
                         void *to);
NMB_API int64_t nmb__state_elements(const nmb__mixer *); /* of a sequence */
/* Of the state alone, for one sequence; projections and convolutions are weights. */
double nmb__mixer_macs(const nmb__mixer *, int64_t fresh);

typedef struct nmb__params {
  int64_t part[NMB__NPART], active_part[NMB__NPART];
  int64_t total, active;                /* a tied head counts once */
  int64_t active_minus_input_embedding; /* without the table, unless it is the head */
  int64_t active_minus_embeddings;      /* without table and head */
  int64_t mtp;                          /* on top of total */
  int64_t kv_elements;                  /* per token, all layers */
  int64_t kv_elements_unwindowed;       /* of layers whose cache keeps growing */
  int64_t state_elements;               /* per sequence */
  int64_t weight_bytes;                 /* as stored, MTP left out */
} nmb__params;
NMB_API void nmb__arch_params(nmb_run *, const nmb__arch *, nmb__params *);

/* A whole step.  Bytes touched: each byte once, by whoever needs it. */
typedef struct nmb__counts {
  double macs;
  int64_t weight_bytes;         /* in the program's formats, a tied head twice */
  int64_t weight_bytes_touched; /* experts that are reached, rows that are looked up */
  int64_t kv_bytes;             /* caches as long as the step needs them */
  int64_t kv_bytes_read, kv_bytes_written;
  int64_t state_bytes; /* of recurrences and convolutions; a step reads and writes them */
} nmb__counts;
/* The program gives the step, the routing and the formats, not the work. */
NMB_API void nmb__arch_counts(nmb_run *, const nmb__arch *, const nmb_prog *,
                              nmb__counts *);
/* The same in stored formats with uniform routing, before there is a program. */
NMB_API nmb_status nmb__arch_step(nmb_run *, const nmb__arch *, nmb_step_spec,
                                  nmb__counts *);
/* Does the emitted code do what the model asks for: multiply-accumulates, weight
 * bytes and cache bytes, each byte once?  NMB_UNVERIFIED with both numbers. */
NMB_API nmb_status nmb__conserve(nmb_run *, const nmb__arch *, const nmb_prog *);
#endif
