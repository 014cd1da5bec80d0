/* SPDX-License-Identifier: GPL-3.0-or-later */
/* One channel of HBM3-PIM as AttAcc's artifact models it, and the requests of its
 * attention kernels. */
#ifndef NMB__ATTACC_H
#define NMB__ATTACC_H

#include "nmbench/nmb_base.h"

/* Where the multipliers are: at every bank, every bank group, or on the buffer die. */
typedef enum nmb__att_level { NMB__ATT_BANK, NMB__ATT_GROUP, NMB__ATT_BUFFER } nmb__att_level;

typedef enum nmb__att_cmd {
  NMB__ATT_MAC,     /* MACAB, MACSB or MACPB */
  NMB__ATT_WRGB,    /* a burst of the query into the buffers */
  NMB__ATT_MVSB,    /* results to the softmax unit */
  NMB__ATT_MVGB,    /* probabilities into the buffers */
  NMB__ATT_SFM,     /* softmax of one head */
  NMB__ATT_BARRIER, /* nothing behind it starts before all that is before it */
  NMB__ATT_PRE,
  NMB__ATT_ACT,
  NMB__ATT_PREA,
  NMB__ATT_REF,
  NMB__ATT_NCMD
} nmb__att_cmd;

/* Cycles. */
typedef struct nmb__att_timing {
  nmb__att_level level;
  int bl, ccds, ccdl, ccd; /* ccd: MAC to MAC (nCCDAB, nCCDSB) */
  int rcd, rp, ras, rc, rtp;
  int rfc, refi; /* refi 0: none */
} nmb__att_timing;

typedef struct nmb__att_req {
  nmb__att_cmd cmd;
  uint8_t rank, group, bank;
  int32_t row;
} nmb__att_req;

typedef struct nmb__att_list {
  int64_t n, cap;
  nmb__att_req *v;
} nmb__att_list;

/* The requests that channel 0 gets for `heads` heads of a stack of 16 channels, a
 * cache of `len` positions, heads of `dim` elements of two bytes. */
void nmb__att_attention(nmb_run *, nmb__att_level, int64_t heads, int64_t len,
                        int64_t dim, nmb__att_list *out);
/* A product of `rows` rows a bank, each of `bursts` bursts: filled, multiplied, read. */
void nmb__att_gemv(nmb_run *, nmb__att_level, int64_t rows, int64_t bursts,
                   int64_t vectors, nmb__att_list *out);

typedef struct nmb__att_result {
  int64_t cycles;
  int64_t count[NMB__ATT_NCMD];
  int64_t time[NMB__ATT_NCMD]; /* cycles up to each command, by what was waited for */
} nmb__att_result;
typedef void nmb__att_hook(void *arg, int64_t cycle, nmb__att_cmd, const nmb__att_req *);
/* Requests in the order of the list, at most 33 of them in sight; a row and a column
 * command a cycle. */
void nmb__att_execute(const nmb__att_timing *, const nmb__att_list *, nmb__att_hook *,
                      void *arg, nmb__att_result *out);
const char *nmb__att_name(nmb__att_level, nmb__att_cmd);
#endif
