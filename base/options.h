/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Option texts against the option table of a plugin. */
#ifndef NMB__OPTIONS_H
#define NMB__OPTIONS_H

#include "base/run.h"

/* "a=1,b=2KiB" (NULL or "": none given) against `table`; every option of the
 * table is in *out, in table order, with its default where it was not given.
 * Values hold commas or braces only in double quotes.  A default of NULL (or
 * "" for other types than text) means that the option must be given.
 * owner: "pass 'fuse-dp'", for messages. */
NMB_API nmb_status nmb__options_parse(nmb_run *, nmb_loc, const char *owner,
                                      const nmb_opt *table, const char *text,
                                      nmb__optval **out, int *n);
/* One value of one option, range checked. */
NMB_API nmb_status nmb__option_value(nmb_run *, nmb_loc, const char *owner,
                                     const nmb_opt *, const char *text, nmb__optval *out);
/* "{a=1,b=2KiB}" with every option, "" if there is none. */
NMB_API const char *nmb__options_text(nmb_run *, const nmb_opt *table,
                                      const nmb__optval *, int n);
/* Is the table itself right: types, units, ranges, defaults?  Used by the loader. */
NMB_API nmb_status nmb__options_check(nmb_run *, nmb_loc, const char *owner,
                                      const nmb_opt *table);
#endif
