/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A decoder block on CENT: what its devices are told to do. */
#ifndef HWSIM_CENT_H
#define HWSIM_CENT_H

#include "nmbench/nmb_plugin.h"

#include "nmbench/nmb_aim.h"

typedef struct cent {
  int64_t width, heads, kv_heads, head_width, ff, vocabulary;
  int64_t context;
  int64_t channels;      /* of a block in its device */
  int64_t copies;        /* blocks side by side in the device, all at the same time */
  int64_t weight_shares; /* devices over which weights and keys are cut */
} cent;

enum { CENT_CHANNELS = 32, CENT_BANKS = 16, CENT_ROW = 1024, CENT_BURST = 16 };

/* Appends one token's work of a block on the device that has its caches, on one that
 * only shares its weights, and of the embeddings. */
void nmb__cent_block(nmb_run *, const cent *, nmb_aim_list *out);
void nmb__cent_weights(nmb_run *, const cent *, nmb_aim_list *out);
void nmb__cent_vocabulary(nmb_run *, const cent *, nmb_aim_list *out);

#endif
