/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A weight file that opens, used as commands use it: all rows read, the architecture
 * found, the weights checked against it, two tokens evaluated. */
#ifndef NMB__FUZZ_MODEL_H
#define NMB__FUZZ_MODEL_H

#include "frontend/counts.h"
#include "frontend/infer.h"
#include "frontend/token.h"

/* Every tensor by its name as stored, and as the layouts have it: first and last rows. */
static inline void
rows_read(nmb_run *run, const nmb__wfile *w, const nmb__layout_info *info)
{
  for (int i = 0; i < w->ntensor; i++) {
    const char *name = w->tensor[i].name, *dot = strrchr(name, '.');
    const char *base =
        dot ? nmb_format(run, "%.*s.weight", (int)(dot - name), name) : name;
    for (int k = 0; k < 2; k++) {
      nmb__source s;
      if (nmb__source_open(run, w, info, k ? base : name, &s) != NMB_OK || !s.t)
        continue;
      const int64_t cols = s.rank ? s.dim[s.rank - 1] : 1;
      if (cols > 1 << 20 || s.count < 1)
        continue;
      float *v = NMB_NEW(run, float, cols);
      for (int64_t r = 0; r < s.count / cols && r < 16; r++)
        nmb__source_row(&s, r, v);
      nmb__source_row(&s, s.count / cols - 1, v);
    }
  }
}

static inline bool
small(nmb_run *run, const nmb__arch *a)
{
  nmb__params par;
  nmb__arch_params(run, a, &par);
  return a->nlayer <= 8 && par.total < 1 << 17;
}

/* The architecture in m->arch; what a command that runs the model does. */
static inline nmb_status
model_use(nmb_run *run, nmb__wmodel *m)
{
  static const int32_t ids[] = {1, 0};
  const float *logits;
  NMB_TRY(nmb__wmodel_check(run, m));
  if (!small(run, m->arch))
    return NMB_OK;
  nmb__infer *f = nmb__infer_open(run, m);
  const nmb_status s = nmb__infer_step(run, f, ids, 2, true, &logits);
  nmb__infer_close(f);
  return s;
}

static inline nmb_status
text_use(nmb_run *run, const nmb__vocab *v)
{
  static const char text[] = "ab<s> \xe2\x96\x81 a\xc3\xa9 12";
  int32_t *ids;
  int64_t n;
  size_t len;
  NMB_TRY(nmb__vocab_encode(run, v, text, sizeof text - 1, &ids, &n));
  for (int64_t i = 0; i < n; i++) {
    if (ids[i] < 0 || (v->kind != NMB__VOCAB_BYTES && ids[i] >= v->n))
      die(run, "a token is outside of the vocabulary");
    (void)nmb__vocab_text(run, v, i ? ids[i - 1] : -1, ids[i], &len);
  }
  (void)nmb__vocab_text(run, v, -1, -1, &len);
  (void)nmb__vocab_text(run, v, v->bos, INT32_MAX, &len);
  return NMB_OK;
}
#endif
