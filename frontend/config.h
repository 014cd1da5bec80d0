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
  const char *no_graph; /* (optional) what a key says that graphs do not have */
  int nwarning;
  const char **warning; /* what --lenient let pass */
  int nnote;
  const nmb__key_note *note;
  json_t *root; /* the caller drops it */
  /* (optional) sets formats that no field says, when all else is known */
  void (*formats)(const void *self, nmb__arch *, nmb__layer *layer);
  const void *formats_self;
} nmb__config;

/* Reads the text; on failure nothing is left to drop. */
NMB_API nmb_status nmb__config_read(nmb_run *, const char *file, const char *text,
                                    size_t len, nmb__config *out);
/* The same from another kind of file, setting by setting: the family's defaults, then
 * values that are checked as those of a config.json, and notes.  text: "a=1 b=text". */
NMB_API nmb_status nmb__config_begin(nmb_run *, const char *file, const char *family,
                                     nmb__config *out);
NMB_API nmb_status nmb__config_apply(nmb_run *, nmb__config *, const char *text);
NMB_API nmb_status nmb__config_set(nmb_run *, nmb__config *, const char *file, nmb__field,
                                   const char *key, const json_t *);
NMB_API void nmb__config_note(nmb_run *, nmb__config *, const char *key, const char *how,
                              const char *what);
/* A key for messages: one line, cut where it is long. */
NMB_API const char *nmb__config_shown(nmb_run *, const char *key);
/* --lenient lets a key pass that is not understood. */
NMB_API nmb_status nmb__config_pass(nmb_run *, nmb__config *, nmb_loc, const char *path,
                                    const char *why);
/* Notes the defaults that stand. */
NMB_API void nmb__config_end(nmb_run *, nmb__config *);
NMB_API nmb_status nmb__arch_of(nmb_run *, const nmb__config *, const char *file,
                                const char *name, uint64_t hash, const nmb__arch **out);
NMB_API const char *nmb__field_name(nmb__field);
NMB_API int nmb__family_count(void);
NMB_API const char *nmb__family_name(int);
/* Is the family `ancestor`, or does it take its values? */
NMB_API bool nmb__family_is(const char *name, const char *ancestor);
/* "an integer", "an object", ... and the value, cut short, for messages. */
NMB_API const char *nmb__json_show(nmb_run *, const json_t *);
#endif
