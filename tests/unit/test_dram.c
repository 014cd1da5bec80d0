/* SPDX-License-Identifier: GPL-3.0-or-later */
/* DRAM kinds and channels. */
#include <stdlib.h>
#include <string.h>

#include "nmbench/nmb_dram.h"

#include "base/run.h"
#include "unit.h"

static const nmb_dram *
open_kind(nmb_run *run, const char *kind)
{
  const nmb_dram *d = NULL;
  CU_ASSERT_EQUAL_FATAL(nmb_dram_open(run, kind, NULL, &d), NMB_OK);
  return d;
}

static void
every_kind_opens(void)
{
  nmb_run *run = nmb__run_open(stderr);
  const char **name;
  int n = 0;
  CU_ASSERT_EQUAL_FATAL(nmb_dram_list(run, &name, &n), NMB_OK);
  CU_ASSERT_TRUE(n > 40);
  for (int i = 0; i < n; i++) {
    nmb_dramch *ch;
    CU_ASSERT_EQUAL_FATAL(
        nmb_dramch_new(run, open_kind(run, name[i]), NMB_DRAM_ALLBANK, &ch), NMB_OK);
  }
  nmb__run_close(run);
}

/* The stamps of the public AiM simulator for a GEMV of 1024 x 1024 on 32 channels. */
static void
aim_gemv_stamps(void)
{
  nmb_run *run = nmb__run_open(stderr);
  const nmb_dram *d = open_kind(run, "GDDR6_AiM");
  nmb_dramch *ch;
  CU_ASSERT_EQUAL_FATAL(nmb_dramch_new(run, d, NMB_DRAM_NOREFRESH, &ch), NMB_OK);
  const nmb_id gb = nmb_dram_command(d, "WRGB"), bias = nmb_dram_command(d, "WRMAC16"),
               mac = nmb_dram_command(d, "MAC16"), rd = nmb_dram_command(d, "RDMAC16");
  CU_ASSERT_EQUAL(nmb_dramch_step(ch, gb, 0, -1, 0), 33);
  CU_ASSERT_EQUAL(nmb_dramch_burst(ch, gb, 0, -1, 63, 0), 159);
  CU_ASSERT_EQUAL(nmb_dramch_burst(ch, bias, 0, -1, 2, 0), 163);
  CU_ASSERT_EQUAL(nmb_dramch_burst(ch, mac, 0, 0, 64, 0), 378);
  CU_ASSERT_EQUAL(nmb_dramch_burst(ch, mac, 0, 1, 64, 0), 604);
  CU_ASSERT_EQUAL(nmb_dramch_step(ch, rd, 0, -1, 0), 638);
  nmb__run_close(run);
}

UNIT_MAIN("dram", {"every kind opens", every_kind_opens},
          {"AiM: the stamps of a GEMV", aim_gemv_stamps})
