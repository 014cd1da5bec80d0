/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Microbenchmarks of a channel: which transaction is request k. */
#include "hwsim/dram/dram.h"

#include <string.h>

#include "base/near.h"

enum { SEQ_BGI, SEQ_ROW, RANDOM, SAME_BANK, BANK_RR, RW_MIX, NWORKLOAD };

static const char *const names[NWORKLOAD] = {"seq_bgi",   "seq_row", "random",
                                             "same_bank", "bank_rr", "rw_mix"};

nmb_status
nmb_dram_bench_start(nmb_run *run, const nmb_dram *d, const char *workload,
                     nmb_dram_bench *out)
{
  int i = 0;
  while (i < NWORKLOAD && strcmp(names[i], workload))
    i++;
  if (i == NWORKLOAD)
    return nmb_fail(run, NMB_BADOPTION, NMB_NOLOC, "unknown workload '%s'%s", workload,
                    nmb__hint(run, workload, names, NWORKLOAD));
  *out = (nmb_dram_bench){nmb_dram_get(d), i, 1};
  return NMB_OK;
}

/* The lowest digit of *k in base n. */
static int64_t
digit(int64_t *k, int64_t n)
{
  const int64_t r = *k % n;
  *k /= n;
  return r;
}

enum { RANK, SID, GROUP, BANK, COLUMN, ROW };

/* Splits k into levels, the one that is named first changes fastest. */
static void
split(const nmb_dram_info *o, int64_t k, const int order[6], nmb_dramreq *out)
{
  const int64_t size[6] = {o->count[NMB_DRAM_RANK],
                           o->count[NMB_DRAM_SID],
                           o->count[NMB_DRAM_GROUP],
                           o->count[NMB_DRAM_BANK],
                           o->columns,
                           o->rows};
  int64_t at[6];
  for (int i = 0; i < 6; i++)
    at[order[i]] = digit(&k, size[order[i]]);
  out->bank =
      (int)(((at[RANK] * size[SID] + at[SID]) * size[GROUP] + at[GROUP]) * size[BANK] +
            at[BANK]);
  out->row = at[ROW];
  out->column = at[COLUMN];
}

void
nmb__dram_flat(const nmb_dram_info *o, int64_t k, nmb_dramreq *out)
{
  static const int flat[6] = {COLUMN, RANK, SID, GROUP, BANK, ROW};
  split(o, k, flat, out);
}

bool
nmb_dram_bench_next(void *bench, int64_t k, nmb_dramreq *out)
{
  /* pseudo-channels first; ranks are other levels */
  static const int pseudo[6] = {RANK, GROUP, COLUMN, SID, BANK, ROW};
  static const int groups[6] = {GROUP, COLUMN, RANK, SID, BANK, ROW};
  static const int robin[6] = {RANK, GROUP, BANK, SID, ROW, COLUMN};
  nmb_dram_bench *b = bench;
  const nmb_dram_info *o = b->info;
  const char *rank = o->level_name[NMB_DRAM_RANK];
  *out = (nmb_dramreq){0};
  switch (b->workload) {
  case SEQ_ROW: nmb__dram_flat(o, k, out); break;
  case RANDOM: {
    const uint64_t lines = (uint64_t)o->banks * (uint64_t)o->rows * (uint64_t)o->columns;
    b->x = b->x * 6364136223846793005u + 1442695040888963407u;
    nmb__dram_flat(o, (int64_t)((b->x >> 33) % lines), out);
    break;
  }
  case SAME_BANK: out->row = k % o->rows; break;
  case BANK_RR: split(o, k, robin, out); break;
  default:
    split(o, k, rank && !strcmp(rank, "PseudoChannel") ? pseudo : groups, out);
    out->write = b->workload == RW_MIX && k / 16 % 2 == 1;
  }
  return true;
}
