/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Values with units: "256KiB", "10ns", "1.6GHz", "80%".
 *
 * Types: size time freq bandwidth power energy energy/byte ratio real int.
 * Physical types need a unit (0 does not); GB is 10^9 bytes, GiB is 2^30.
 * "unknown" is NaN for power, energy and energy/byte. */
#ifndef NMB__UNITS_H
#define NMB__UNITS_H

#include "nmbench/nmb_base.h"

/* *out in base units: B, s, Hz, B/s, W, J, J/B, 1. */
NMB_API nmb_status nmb__units_parse(nmb_run *, nmb_loc, const char *text,
                                    const char *type, double *out);
/* The shortest text that parses back to the same value. */
NMB_API const char *nmb__units_format(nmb_run *, double value, const char *type);
/* Base units in one of `unit`; 1 for what is no physical unit ("cycle", "x"). */
NMB_API double nmb__units_scale(const char *unit);
NMB_API bool nmb__units_type(const char *type);  /* is there such a type? */
NMB_API bool nmb__units_known(const char *unit); /* may an option or metric carry it? */
NMB_API const char *
nmb__units_base(const char *type); /* "B", "s", ..; "" for plain numbers */
#endif
