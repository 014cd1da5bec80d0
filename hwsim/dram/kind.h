/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A file of DRAM kinds while one kind of it is read: what the readers of its parts share.
 */
#ifndef NMB__DRAM_KIND_H
#define NMB__DRAM_KIND_H

#include <libconfig.h>

#include "hwsim/dram/dram.h"

enum { NMB__KIND_PARAMS = 128, NMB__KIND_WORD = 64 };

typedef struct nmb__kind {
  nmb_run *run, *own;
  const char *path;
  config_t cfg;
  nmb_dram *d;
  nmb__dram_param param[NMB__KIND_PARAMS];
  int nparam;
  const char *modes[8];
  int nmode;
} nmb__kind;

extern const char *const nmb__kind_level_key[NMB_DRAM_NLEVEL];
nmb_loc nmb__kind_place(const nmb__kind *, const config_setting_t *s);
/* A text at place i of a row, under a key; dflt: (optional) for a key that is not there.
 */
nmb_status nmb__kind_text_at(nmb__kind *, const config_setting_t *row, int i,
                             const char *what, const char **out);
nmb_status nmb__kind_text_key(nmb__kind *, const char *key, const char *dflt,
                              const char **out);
/* A list, and its row i with at least `least` items. */
nmb_status nmb__kind_list_key(nmb__kind *, const char *key, const config_setting_t **out,
                              int *n);
nmb_status nmb__kind_row(nmb__kind *, const config_setting_t *list, int i, int least,
                         const config_setting_t **out);
/* The next word of *p in `word`; false at the end. */
bool nmb__kind_word(const char **p, char word[NMB__KIND_WORD]);
nmb_status nmb__kind_integer(nmb__kind *, nmb_loc loc, const char *word, int64_t *out);
/* Commands, then the constraints between them. */
nmb_status nmb__kind_commands(nmb__kind *);
nmb_status nmb__kind_constraints(nmb__kind *);
#endif
