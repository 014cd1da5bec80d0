/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Machines: reading .hw files.
 *
 * A .hw file is libconfig text: `title`, `source`, `devices`, `host` and the
 * groups `memories`, `engines`, `links`, one entry a memory, engine or link, in
 * the order of their ids.  Values are texts with units.  The keys of an entry are
 * those of the tables in machine.c and, for engines and links, the options of its
 * model plugin.  Every entry has a `source`.
 * A variant has `include = "other"` instead, and may change `title`, `source`,
 * `devices` and, by `set = ({path = "engines.pim.t-rp"; value = "20ns";})`,
 * single values. */
#ifndef NMB__MACHINE_H
#define NMB__MACHINE_H

#include "nmbench/nmb_hw.h"

/* A name in the machine folders, or a path.  The caller frees *out. */
NMB_API nmb_status nmb__machine_load(nmb_run *, const char *name_or_path, nmb_hw **out);
/* As load, from text; `file` is for messages and gives the name. */
NMB_API nmb_status nmb__machine_parse(nmb_run *, const char *file, const char *text,
                                      size_t len, nmb_hw **out);
/* As load, with values changed: n texts "KEY=VALUE", KEY a path like
 * "engines.pim.refresh", its end, or a parameter's name alone, or "devices". */
NMB_API nmb_status nmb__machine_load_set(nmb_run *, const char *name_or_path, int n,
                                         const char *const *set, nmb_hw **out);
NMB_API void nmb__machine_free(nmb_hw *);
/* All that determines the machine, defaults and overrides filled in, in the form
 * of a .hw file that reads back to the same machine.  Owned by the machine. */
NMB_API const char *nmb__machine_text(nmb_run *, const nmb_hw *);
#endif
