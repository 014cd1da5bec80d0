/* SPDX-License-Identifier: GPL-3.0-or-later */
/* State of one graph under construction, and the pieces it is made of; for the files
 * that share the work (build.c, build-mixer.c). */
#ifndef NMB__BUILD_H
#define NMB__BUILD_H

#include "frontend/model.h"

typedef struct maker {
  nmb_run *run;
  nmb_prog *p;
  const nmb__arch *a;
  const nmb__layer *l;
  nmb_id block, pos, factors;
  nmb_id carried; /* what goes from block to block beside the hidden state: RWKV-7's
                     values of the first layer, or a choice of keys; NMB_NONE: nothing */
  int64_t batch, fresh, T;
} maker;

/* The short names by which all of these files call them. */
#define tensor(...) nmb__mk_tensor(__VA_ARGS__)
#define act2(...) nmb__mk_act2(__VA_ARGS__)
#define act3(...) nmb__mk_act3(__VA_ARGS__)
#define weight(...) nmb__mk_weight(__VA_ARGS__)
#define vector(...) nmb__mk_vector(__VA_ARGS__)
#define op_add(...) nmb__mk_op(__VA_ARGS__)
#define op1(...) nmb__mk_op1(__VA_ARGS__)
#define op2(...) nmb__mk_op2(__VA_ARGS__)
#define linear(...) nmb__mk_linear(__VA_ARGS__)
#define scaled(...) nmb__mk_scaled(__VA_ARGS__)
#define pointwise(...) nmb__mk_pointwise(__VA_ARGS__)
#define norm(...) nmb__mk_norm(__VA_ARGS__)
#define unit_norm(...) nmb__mk_unit_norm(__VA_ARGS__)
#define split(...) nmb__mk_split(__VA_ARGS__)
#define rope(...) nmb__mk_rope(__VA_ARGS__)
#define append(...) nmb__mk_append(__VA_ARGS__)
#define visible(...) nmb__mk_visible(__VA_ARGS__)
#define scores(...) nmb__mk_scores(__VA_ARGS__)
#define latent_query(...) nmb__mk_latent_query(__VA_ARGS__)
#define cache_length(...) nmb__mk_cache_length(__VA_ARGS__)
#define hidden_norm(...) nmb__mk_hidden_norm(__VA_ARGS__)
#define stateful(...) nmb__mk_stateful(__VA_ARGS__)

nmb_id tensor(maker *, const char *name, nmb_role, nmb_dtype, int group, int rank,
              const int64_t *dim);
nmb_id act2(maker *, const char *name, int64_t rows, int64_t cols);
nmb_id act3(maker *, const char *name, int64_t a, int64_t b, int64_t c);
/* Of the layer's format for its class. */
nmb_id weight(maker *, const char *name, nmb__class, int rank, int64_t d0, int64_t d1,
              int64_t d2);
nmb_id vector(maker *, const char *name, int64_t n);
/* Inputs that are NMB_NONE are left out.  Gives the op. */
nmb_id op_add(maker *, nmb_opcode, int nin, const nmb_id *in, nmb_id out);
/* These give `out`. */
nmb_id op1(maker *, nmb_opcode, nmb_id x, nmb_id out);
nmb_id op2(maker *, nmb_opcode, nmb_id x, nmb_id y, nmb_id out);
nmb_id linear(maker *, const char *name, nmb__class, nmb_id x, int64_t n, int64_t k,
              bool bias, nmb_id out);
/* fn(x), or fn(x) * y if there is a y. */
nmb_id pointwise(maker *, const char *fn, nmb_id x, nmb_id y, nmb_id out);
/* The layer's kind of norm over the last n elements; without weights, of a kind. */
nmb_id norm(maker *, const char *name, nmb_id x, int64_t n, nmb_id out);
nmb_id unit_norm(maker *, const char *kind, nmb_id x, nmb_id out);
/* Columns [first, first + count) of the last dimension. */
nmb_id split(maker *, nmb_id x, int64_t first, int64_t count, nmb_id out);
nmb_id hidden_norm(maker *, const char *name, nmb_id x);
nmb_id rope(maker *, const nmb__rope *, nmb_id x, nmb_id out);
/* What queries are made from; NMB_NONE: the hidden state. */
nmb_id latent_query(maker *, nmb_id x);
int64_t cache_length(const maker *);
/* New rows at the end of the layer's cache of that name, heads of d each. */
nmb_id append(maker *, const char *name, nmb_id x, int64_t heads, int64_t d);
/* Attributes of an op over scores: what is masked; and how they are made. */
void visible(maker *, nmb_id op);
void scores(maker *, nmb_id op);
/* Multiplies what the op that made `t` gives. */
void scaled(maker *, nmb_id t, double scale);

/* What the state mixer of the layer adds to the hidden state, from its normed input. */
nmb_id nmb__build_mixer(maker *, nmb_id x);
/* The same of RWKV, and what its network adds. */
nmb_id nmb__build_rwkv(maker *, nmb_id x);
nmb_id nmb__build_channels(maker *, nmb_id x);
/* Kimi K3: `blocks` values of a token and one more in x, weighed by what each of them has
 * to do with a learned query; prefix: of the weights' names. */
nmb_id nmb__build_attend(maker *, const char *prefix, nmb_id x, int64_t blocks,
                         int64_t rows);
/* A weight or cache of an earlier block that runs once, for the block at hand. */
nmb_id nmb__mk_lent(maker *, nmb_id block, const char *name);

/* Streams of AltUp and embeddings of a layer's own. */
int64_t nmb__altup_width(const maker *); /* of the hidden state */
nmb_id nmb__altup_spread(maker *, nmb_id embedding);
nmb_id nmb__altup_join(maker *, nmb_id streams); /* one value of each sequence */
/* A layer with an embedding of its own but one stream. */
nmb_id nmb__altup_plain(maker *, nmb_id in, nmb_id (*body)(maker *, nmb_id));
nmb_id nmb__altup_layer(maker *, nmb_id in, nmb_id (*attend)(maker *, nmb_id),
                        nmb_id (*network)(maker *, nmb_id));
/* Hyper-connections (arXiv:2512.24880 and DeepSeek-V4's code): streams as wide as the
 * hidden state, side by side.  A layer's part reads a sum of them, x; each of them then is
 * a sum of all and a share of what the part gave. */
typedef struct nmb__streams {
  nmb_id x, post, comb; /* [T,H]; shares [T,n]; [T,n*n], from row to column */
} nmb__streams;
nmb_id nmb__build_copies(maker *, nmb_id h);
nmb__streams nmb__build_gather(maker *, const char *prefix, nmb_id in);
nmb_id nmb__build_spread(maker *, const nmb__streams *, nmb_id in, nmb_id y);
nmb_id nmb__build_join(maker *, nmb_id last);
/* The difference of two attentions, before the output projection; xIELU of n columns. */
nmb_id nmb__build_difference(maker *, nmb_id x);
nmb_id nmb__build_xielu(maker *, const char *prefix, nmb_id x, int64_t n);
/* DeepSeek-V4's attention, to the end of its output projection. */
nmb_id nmb__build_pooled(maker *, nmb_id x);
/* An op with a state that it updates in place: its input `at`. */
nmb_id nmb__mk_stateful(maker *, nmb_opcode, int nin, const nmb_id *in, int at,
                        nmb_id out);
#endif
