/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The kinds of figures: each writes NAME.dat and NAME.gp into a folder. */
#ifndef NMB__FIGURE_KINDS_H
#define NMB__FIGURE_KINDS_H

#include "harness/figure_draw.h"

nmb_status nmb__draw_bars(const nmb__figdata *, const char *dir);  /* ratio[] is filled */
nmb_status nmb__draw_lines(const nmb__figdata *, const char *dir); /* ratio[] is filled */
nmb_status nmb__draw_waterfall(const nmb__figdata *, const char *dir); /* likewise */
nmb_status nmb__draw_stacked(const nmb__figdata *, const char *dir);
nmb_status nmb__draw_pareto(const nmb__figdata *, const char *dir);
/* The tables beside a Pareto figure; `drawn` tells which cells a panel has. */
nmb_status nmb__front_write(const nmb__figdata *, const char *dir, const char **label,
                            const bool *front, bool (*drawn)(const void *, int cell, int facet),
                            const void *self);
#endif
