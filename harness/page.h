/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A page about a machine, in Markdown: diagram, parameters with sources, limits. */
#ifndef NMB__PAGE_H
#define NMB__PAGE_H

#include <stdio.h>

#include "nmbench/nmb_hw.h"

/* name: as the machine was asked for; its file tells what is not modelled. */
nmb_status nmb__page_print(nmb_run *, const char *name, const nmb_hw *, FILE *);
#endif
