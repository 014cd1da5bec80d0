/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Where files are: given paths, NMB_DATA_PATH, the source of an uninstalled
 * build, or the installed data folder. */
#ifndef NMB__PATH_H
#define NMB__PATH_H

#include "nmbench/nmb_base.h"

/* folder: "models", "machines", "dram", "experiments" or "validation"; ext without or with
 * its dot.
 * A name that holds a slash, or that exists as it stands and ends in `ext`, is a
 * path.  Otherwise fails with the nearest name there is. */
NMB_API nmb_status nmb__find_file(nmb_run *, const char *folder, const char *name,
                                  const char *ext, const char **path);
/* Names without extension, sorted, each once. */
NMB_API int nmb__list_files(nmb_run *, const char *folder, const char *ext,
                            const char ***names);
/* The whole file with a NUL after it (not counted); NULL after nmb_fail(IO).
 * "-" is standard input. */
NMB_API char *nmb__read_file(nmb_run *, const char *path, size_t *len);
/* Folders that plugins are loaded from (before NMB_PLUGIN_PATH). */
NMB_API const char *nmb__plugin_folder(nmb_run *);
/* The folder the source of this uninstalled build is in; NULL when installed. */
NMB_API const char *nmb__source_folder(nmb_run *);
/* Sorted file names of a folder that end in `ext`; -1 if it cannot be read. */
NMB_API int nmb__folder_files(nmb_run *, const char *folder, const char *ext,
                              const char ***names);
#endif
