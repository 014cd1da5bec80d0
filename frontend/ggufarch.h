/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Between the parts of the reader of GGUF headers: what they all need of a file. */
#ifndef FRONTEND_GGUFARCH_H
#define FRONTEND_GGUFARCH_H
#include <jansson.h>
#include <string.h>

#include "frontend/config.h"
#include "frontend/wmodel.h"

typedef struct nmb__gguf_row {
  const char *arch, *family, *values;
} nmb__gguf_row;

typedef struct nmb__gguf_reader {
  nmb_run *run;
  const nmb__wfile *w;
  const nmb__gguf_row *row;
  nmb__config c;
  json_t *root; /* list of all JSON that settings borrow */
} reader;

/* Gives a field; takes v over.  key: for messages. */
static inline nmb_status
set(reader *r, nmb__field f, const char *key, json_t *v)
{
  json_array_append_new(r->root, v);
  return nmb__config_set(r->run, &r->c, r->w->path, f, key, v);
}

/* A key of the architecture; NULL if absent. */
static inline const nmb__meta *
meta(const reader *r, const char *key)
{
  return nmb__wfile_meta(r->w, nmb_format(r->run, "%s.%s", r->row->arch, key));
}

static inline bool
is_arch(const reader *r, const char *arch)
{
  return !strcmp(r->row->arch, arch);
}

/* Tensors by name, outside layers, of one layer, and of the first layer that has it; NULL
 * if there is none. */
static inline const nmb__wtensor *
global(const reader *r, const char *name)
{
  return nmb__wfile_find(r->w, name);
}

static inline const nmb__wtensor *
of_layer(const reader *r, int64_t layer, const char *name)
{
  return global(r, nmb_format(r->run, "blk.%ld.%s", (long)layer, name));
}

static inline const nmb__wtensor *
of_any(const reader *r, const char *name)
{
  const nmb__wtensor *t = NULL;
  for (int64_t i = 0; !t && i < r->c.set[NMB__F_LAYERS].i; i++)
    t = of_layer(r, i, name);
  return t;
}

/* gguftensors.c: what the tensors show, and what one architecture does unlike others */
nmb_status nmb__gguf_tensors(reader *);
/* ggufrope.c: scaling of the rotary frequencies */
nmb_status nmb__gguf_rope(reader *);
#endif
