/* SPDX-License-Identifier: GPL-3.0-or-later */
/* libconfig 1.5 loses the text it has read so far of a string that never ends.  The
 * sanitizer calls this function by name: it must not be hidden. */
#ifndef NMB__LIBCONFIG_LEAK_H
#define NMB__LIBCONFIG_LEAK_H

#include "nmbench/nmb_base.h"

NMB_API const char *__lsan_default_suppressions(void);
NMB_API const char *
__lsan_default_suppressions(void)
{
  return "leak:strbuf_append";
}
#endif
