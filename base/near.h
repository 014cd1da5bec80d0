/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The nearest known name, for "did you mean". */
#ifndef NMB__NEAR_H
#define NMB__NEAR_H

#include "nmbench/nmb_base.h"

/* NULL if none is close.  Ties go to the first. */
NMB_API const char *nmb__nearest(const char *word, const char *const *names, int n);
/* "; did you mean 'x'?" or "": the tail of a message about an unknown word. */
NMB_API const char *nmb__hint(nmb_run *, const char *word, const char *const *names,
                              int n);
#endif
