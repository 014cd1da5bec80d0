/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the files of the model dram-pim share. */
#ifndef NMB__PIM_H
#define NMB__PIM_H

#include "nmbench/nmb_hw.h"

/* Cycles from MAC to MAC, with or without the power limit. */
double nmb__pim_ccd(const nmb_engine *);
/* An instruction on HBM3-PIM: cycles by cause.  *done false: none of its commands. */
nmb_status nmb__att_cost(nmb_run *, const nmb_prog *, const nmb_insn *, const nmb_watch *,
                         bool *done, double *cycles /*[NMB_NCAUSE]*/);
/* A product with NeuPIMs' commands. */
void nmb__neupims_cost(const nmb_prog *, const nmb_insn *, const nmb_watch *,
                       double *cycles /*[NMB_NCAUSE]*/);
#endif
