/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Whole writes to a descriptor. */
#ifndef NMB__WRITE_H
#define NMB__WRITE_H

#include <stdbool.h>
#include <stddef.h>

/* Writes on after signals and short writes; false and errno if it fails. */
bool nmb__write_all(int fd, const char *p, size_t n);

#endif
