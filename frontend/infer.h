/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A model in weight files, run through the reference evaluation, or compiled for a
 * machine and executed out of its simulated memories. */
#ifndef NMB__INFER_H
#define NMB__INFER_H

#include "frontend/wmodel.h"
#include "ir/pipeline.h"

typedef struct nmb__infer nmb__infer;
/* The model is borrowed. */
NMB_API nmb__infer *nmb__infer_open(nmb_run *, nmb__wmodel *);
/* From now on each step is compiled for the machine by the pipeline, and its code
 * executed, products as the engines add them up, with noise from the run's seed;
 * before the first step.  Both are borrowed; plugins are loaded. */
NMB_API void nmb__infer_compiled(nmb_run *, nmb__infer *, const struct nmb_hw *,
                                 const nmb__pipeline *);
NMB_API void nmb__infer_close(nmb__infer *); /* NULL: nothing */
/* Begins a new sequence. */
NMB_API void nmb__infer_reset(nmb__infer *);
/* The next n tokens of the sequence.  all: logits of each, else of the last alone.
 * *logits: [rows][vocabulary], valid until the next call.  Scratch of the call is
 * released. */
NMB_API nmb_status nmb__infer_step(nmb_run *, nmb__infer *, const int32_t *ids, int64_t n,
                                   bool all, const float **logits);
/* Compiled: the logits of the last step as the model has them in float. */
NMB_API const float *nmb__infer_exact(const nmb__infer *);
/* Fails for an id outside of the vocabulary, or a sequence that a learned table of
 * positions does not cover. */
NMB_API nmb_status nmb__infer_check(nmb_run *, const nmb__infer *, const int32_t *ids,
                                    int64_t n);
#endif
