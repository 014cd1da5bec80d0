/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The reader of AiM traces under random damage: what it accepts must execute. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/run.h"
#include "nmbench/nmb_aim.h"

int LLVMFuzzerTestOneInput(const uint8_t *, size_t);

static size_t accepted;

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  nmb_run *run = nmb__run_open(NULL);
  nmb_aim_list l;
  nmb_aim_result r;
  (void)nmb_aim_looks((const char *)data, size);
  if (nmb_aim_parse(run, "fuzz", (const char *)data, size, &l) == NMB_OK) {
    accepted++;
    int64_t bursts = 0;
    for (int64_t i = 0; i < l.n; i++)
      bursts += l.v[i].size;
    if (bursts < 100000 &&
        nmb_aim_execute(run, NULL, size % 2, 32, &l, NULL, &r) == NMB_OK &&
        r.cycles < bursts)
      abort();
  }
  nmb__run_close(run);
  return 0;
}

#ifndef NMB_FUZZER
static const char seed[] =
    "W MEM 0 2 8\nW GPR 1\nW CFR 0 1\nAiM WR_SBK 2 0 1 3 7\nAiM WR_ABK 0 15 4\n"
    "AiM WR_GB 2 2 15\nAiM WR_BIAS 4 15\nAiM MAC_SBK 2 15 1 6\nAiM MAC_ABK 2 15 6\n"
    "AiM EWMUL 2 15 6\nAiM AF 15\nAiM RD_MAC 8 15\nAiM RD_AF 12 0xf\nAiM EWADD 4 8 12\n"
    "AiM COPY_BKGB 2 15 3 1\nAiM COPY_GBBK 2 15 3 1\nAiM RD_SBK 20 8 2 5\n"
    "AiM SYNC\nAiM EOC # end\n";

int
main(int argc, char **argv)
{
  const long tries = argc > 1 ? strtol(argv[1], NULL, 10) : 2000;
  uint64_t x = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
  char text[sizeof seed + 8];
  for (long i = 0; i < tries; i++) {
    size_t len = sizeof seed - 1;
    memcpy(text, seed, sizeof seed);
    for (int k = (int)(i % 4); k >= 0; k--) {
      x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
      const size_t at = (size_t)(x >> 33) % len;
      switch (x >> 62) {
      case 0: text[at] = (char)(x >> 40); break;
      case 1: text[at] = (char)('0' + (x >> 40) % 10); break;
      case 2: len = at + 1; break;
      default: memmove(text + at, text + at + 1, --len - at); break;
      }
      len = len ? len : 1;
    }
    LLVMFuzzerTestOneInput((const uint8_t *)text, len);
  }
  printf("%ld traces with damage: %zu accepted, the rest refused\n", tries, accepted);
  return accepted == 0;
}
#endif
