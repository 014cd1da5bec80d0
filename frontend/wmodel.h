/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A model in weight files: its architecture, and the values of the weights that a graph
 * of it names. */
#ifndef NMB__WMODEL_H
#define NMB__WMODEL_H

#include "frontend/model.h"
#include "frontend/source.h"
#include "ir/eval.h"

typedef struct nmb__wmodel {
  nmb__wfile *file;
  const nmb__arch *arch;
  nmb__layout_info layout;
  uint32_t stems; /* by bit: which beginnings of names the file has (wnames.c) */
} nmb__wmodel;

/* path: as nmb__wfile_open takes it, or a name that nmb__wfile_named knows. */
NMB_API nmb_status nmb__wmodel_open(nmb_run *, const char *path, nmb__wmodel **out);
NMB_API void nmb__wmodel_close(nmb__wmodel *);
/* The values, for evaluation; the model is borrowed. */
NMB_API nmb__weights nmb__wmodel_weights(nmb__wmodel *);
/* Are all weights of a graph of this model in the file, in the right shape? */
NMB_API nmb_status nmb__wmodel_check(nmb_run *, nmb__wmodel *);
/* A text as tokens of the model's vocabulary, without the BOS that is to stand before it.
 * file NULL: NAME.txt beside the weights; NMB_BADOPTION if there is none.
 * tokenizer: as for nmb__vocab_open.  *bos: as the vocabulary says, else left alone. */
NMB_API nmb_status nmb__wmodel_text(nmb_run *, const nmb__wmodel *, const char *file,
                                    const char *tokenizer, int32_t **ids, int64_t *n,
                                    int32_t *bos);
/* "NAME.txt" beside the weights "NAME.bin", or NULL. */
NMB_API const char *nmb__wmodel_own_text(nmb_run *, const nmb__wmodel *);
/* Of all that the model's values depend on: the bytes of its files, of files beyond 64 MiB
 * a page of each MiB. */
NMB_API uint64_t nmb__wmodel_hash(const nmb__wmodel *);
/* Architecture of a weight file that has no config.json. */
NMB_API nmb_status nmb__gguf_arch(nmb_run *, const nmb__wfile *, const char *name,
                                  const nmb__arch **out);
NMB_API nmb_status nmb__rwkv_arch(nmb_run *, const nmb__wfile *, const char *name,
                                  const nmb__arch **out);
/* The graph's format for a stored one, which holds all its values. */
NMB_API nmb__format nmb__storage_format(nmb__storage);
/* How the file stores a weight of the graph, by its name; NMB__NSTORAGE: the file has it not
 * as it stands, or its values are changed on the way. */
NMB_API nmb__storage nmb__wmodel_storage(nmb_run *, const nmb__wmodel *, const char *name,
                                         int64_t layer);

/* The beginnings of names of published files that the file has, by bit. */
NMB_API uint32_t nmb__wmodel_stems(const nmb__wfile *);
/* Finds `weight` of model layer `layer` (-1: none): fills out, or only checks (NULL).
 * *exact: are the values those of a format that the graph has too? */
NMB_API nmb_status nmb__wmodel_load(nmb_run *, const nmb__wmodel *, const nmb_tensor *,
                                    int64_t layer, float *out, bool *exact);
/* The blocks of a weight that is held as the file has it: nmb_tensor_bytes of them. */
NMB_API nmb_status nmb__wmodel_bytes(nmb_run *, const nmb__wmodel *, const nmb_tensor *,
                                     int64_t layer, uint8_t *out);
#endif
