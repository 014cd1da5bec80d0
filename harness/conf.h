/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Reading libconfig settings with every key and type checked.
 *
 * libconfig itself accepts unknown keys and quietly gives 0 for a value of another
 * type; here each is an error with file and line.  Texts are copied into the run. */
#ifndef NMB__CONF_H
#define NMB__CONF_H

#include <libconfig.h>

#include "nmbench/nmb_base.h"

nmb_loc nmb__conf_loc(nmb_run *, const config_setting_t *);
/* "a string", "a list", ... */
const char *nmb__conf_kind(const config_setting_t *);
/* Fails on a key of `group` that is not in `key` (ends with NULL).  what: "a sweep". */
nmb_status nmb__conf_known(nmb_run *, const config_setting_t *group, const char *what,
                           const char *const *key);
/* The member, of a type that `ok` accepts; NULL in *out if absent. */
nmb_status nmb__conf_group(nmb_run *, const config_setting_t *group, const char *key,
                           config_setting_t **out);
/* dflt NULL: the key is required. */
nmb_status nmb__conf_text(nmb_run *, const config_setting_t *group, const char *key,
                          const char *dflt, const char **out);
/* One text, or an array or list of texts; n = 0 if the key is absent.  Numbers and
 * booleans are taken as text if `numbers`.  setting: (optional) where each stands. */
nmb_status nmb__conf_texts(nmb_run *, const config_setting_t *group, const char *key,
                           bool numbers, const char ***out, int *n);
/* One whole number or several, each in lo..hi; n = 0 if the key is absent. */
nmb_status nmb__conf_wholes(nmb_run *, const config_setting_t *group, const char *key,
                            int64_t lo, int64_t hi, int64_t **out, int *n);
nmb_status nmb__conf_reals(nmb_run *, const config_setting_t *group, const char *key,
                           double lo, double hi, double **out, int *n);
/* Entries of a list or array; a single value counts as a list of one. */
int nmb__conf_count(const config_setting_t *);
const config_setting_t *nmb__conf_at(const config_setting_t *, int);

/* Reads the file at path, includes taken from its folder.  The caller destroys it,
 * also on failure. */
nmb_status nmb__conf_read(nmb_run *, const char *path, config_t *);
/* The text of the file with its includes written out, for the record. */
nmb_status nmb__conf_flatten(nmb_run *, const char *path, const char **out);
#endif
