/* SPDX-License-Identifier: GPL-3.0-or-later */
/* State of one reading of quantization_config, for the files that share the work. */
#ifndef NMB__QUANT_METHOD_H
#define NMB__QUANT_METHOD_H

#include <regex.h>

#include "frontend/quant.h"

enum { MAXGROUP = 8 };

/* A module name, a glob or a regular expression. */
typedef struct pattern {
  const char *text;
  bool compiled;
  regex_t re;
} pattern;

typedef struct quant {
  nmb_run *run;
  const nmb__config *c;
  nmb_loc loc;
  const json_t *j;
  int plain_bytes; /* of an element that is not quantised: scales are often stored so */
  pattern *keep;
  int nkeep;
  nmb__scheme *scheme; /* one for each group of settings */
  pattern *target[MAXGROUP];
  int nscheme, ntarget[MAXGROUP]; /* no targets: all */
  bool experts_only, head;
  json_t *own_list; /* (optional) of keep_list, made here */
  const json_t *keep_list; /* (optional) modules that stay, where a method names them */
} quant;

/* The method that the file names: reads its settings into schemes. */
nmb_status nmb__quant_method(quant *);
/* Its name: one of ours for what the file says in several ways. */
const char *nmb__quant_name(const quant *);
/* Is every key of the object known to the method? */
nmb_status nmb__quant_keys(quant *, nmb__config *);
nmb_status nmb__quant_patterns(quant *, const json_t *, const char *path, pattern **,
                               int *n);
nmb_status nmb__quant_bad(const quant *, const char *path, const json_t *,
                          const char *expected);
/* gpt-oss and DeepSeek-V4: E2M1 with a scale per 16 or 32. */
nmb_status nmb__quant_float4(quant *, int group, const char *path, const json_t *found);
#endif
