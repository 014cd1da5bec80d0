/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The plugins that are loaded: the one registry of the process. */
#ifndef NMB__PLUGIN_H
#define NMB__PLUGIN_H

#include "nmbench/nmb_plugin.h"

/* Loads what is in the installed folder (or the build's), in NMB_PLUGIN_PATH and
 * in extra_path (both colon lists of folders or files; extra_path (optional)).
 * A plugin that breaks the contract is refused with one warning line; NMB_OK
 * all the same, unless extra_path named it.  Files already loaded are skipped,
 * so calls may be repeated with another extra_path. */
NMB_API nmb_status nmb__plugins_load(nmb_run *, const char *extra_path);
NMB_API void nmb__plugins_unload(void); /* forgets all; for tests */

NMB_API int nmb__plugin_count(void);
NMB_API const nmb_plugin *nmb__plugin_at(int);                /* sorted by name */
NMB_API const nmb_plugin *nmb__plugin_find(const char *name); /* NULL if unknown */
/* As find, of one kind ("pass": any kind that transforms), else one message:
 * of another kind, refused and why, or unknown with the nearest name. */
NMB_API nmb_status nmb__plugin_need(nmb_run *, nmb_loc, const char *name,
                                    const char *kind, const nmb_plugin **out);
NMB_API bool nmb__plugin_refused(const char *name); /* a file NAME.so was refused */
NMB_API const char *nmb__plugin_path(const nmb_plugin *);
NMB_API uint64_t nmb__plugin_digest(const nmb_plugin *); /* hash of the file's bytes */
NMB_API bool nmb__plugin_is_pass(const nmb_plugin *);
#endif
