/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A config.json in our own words: one setting per field of fields.def. */
#ifndef NMB__CONFIG_H
#define NMB__CONFIG_H

#include <jansson.h>

#include "frontend/model.h"

typedef struct nmb__setting {
  int64_t i;       /* INT, BOOL */
  double r;        /* INT and BOOL too */
  const char *s;   /* TEXT */
  const json_t *list; /* INT given as one number per layer; i is the first */
  const json_t *j; /* JSON; NULL: not given.  Borrowed from root */
  const char *key; /* (optional) NULL: the family's or the general default */
  nmb_loc loc;
} nmb__setting;

typedef struct nmb__config {
  const char *family;
  nmb__setting set[NMB__F_NFIELD];
  int nnote;
  const nmb__key_note *note;
  json_t *root; /* the caller drops it */
} nmb__config;

/* Reads the text; on failure nothing is left to drop. */
NMB_API nmb_status nmb__config_read(nmb_run *, const char *file, const char *text,
                                    size_t len, nmb__config *out);
NMB_API const char *nmb__field_name(nmb__field);
NMB_API int nmb__family_count(void);
NMB_API const char *nmb__family_name(int);
/* "an integer", "an object", ... and the value, cut short, for messages. */
NMB_API const char *nmb__json_show(nmb_run *, const json_t *);
#endif
