/* SPDX-License-Identifier: GPL-3.0-or-later */
/* State of one resolution of settings into an architecture; for the files that share
 * the work (arch.c, rope.c). */
#ifndef NMB__ARCH_H
#define NMB__ARCH_H

#include "frontend/config.h"

typedef struct builder {
  nmb_run *run;
  nmb_loc top; /* the file */
  nmb__config c;
  nmb__arch *a;
} builder;

#define I(b, id) ((b)->c.set[NMB__F_##id].i)
#define R(b, id) ((b)->c.set[NMB__F_##id].r)
#define S(b, id) ((b)->c.set[NMB__F_##id].s)
#define J(b, id) ((b)->c.set[NMB__F_##id].j)

/* "hidden_size" if the file gave it, else our own word. */
const char *nmb__spelled(const builder *, nmb__field);
nmb_loc nmb__place(const builder *, nmb__field);
nmb_status nmb__need(const builder *, nmb__field);

/* Rotation of the `width` dimensions of a head.  local: the layer has a window or
 * chunks.  *score: factor on the score scale, from DeepSeek's form of YaRN. */
nmb_status nmb__rope_resolve(const builder *, int64_t width, bool local, nmb__rope *out,
                             double *score);
/* Element i of a list with one per layer. */
nmb_status nmb__list_at(const builder *, nmb__field, int64_t i, const json_t **out);
/* What few families have.  attn: heads and window are set; layers before are done. */
nmb_status nmb__attn_extras(const builder *, int64_t layer, nmb__attn *);
nmb_status nmb__layer_extras(const builder *, int64_t layer, nmb__layer *);

/* Which of `names` the text of the field is. */
nmb_status nmb__choose(const builder *, nmb__field, const char *const *names, int n,
                       int64_t *out);

/* What a layer holds.  FFN: a network, routed or not as the settings say. */
enum {
  NMB__HOLDS_ATTN = 1,
  NMB__HOLDS_MIXER = 2,
  NMB__HOLDS_FFN = 4,
  NMB__HOLDS_DENSE = 8,
  NMB__HOLDS_MOE = 16
};
nmb_status nmb__holds_resolve(const builder *, int64_t layer, unsigned *out);
nmb_status nmb__mixer_resolve(const builder *, nmb__mixer *);
/* Factors of the layer's parts; ffn: on what its gate and down projections give. */
nmb_status nmb__scales_resolve(const builder *, nmb__layer *, double ffn[2]);
#endif
