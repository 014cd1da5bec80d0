/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the emitted code does in a whole step, from the instructions alone. */
#ifndef NMB__CENSUS_H
#define NMB__CENSUS_H

#include "nmbench/nmb_hw.h"

/* Sums over blocks times their repeats.  "Once": each byte of a tensor counts once,
 * however often and in however many memories it is touched; "moved": every time. */
typedef struct nmb__census {
  double macs;
  double weight_bytes_once, weight_bytes_moved;
  double kv_bytes_read_once, kv_bytes_read_moved;
  double kv_bytes_written_once, kv_bytes_written_moved;
  double state_bytes_read_once, state_bytes_written_once;
  double bytes[NMB_MAXMEM][NMB_NROLE]; /* moved, read and written */
  double instructions;                 /* executed */
  int64_t code_bytes;                  /* stored: one instance of each block */
} nmb__census;

NMB_API void nmb__code_census(nmb_run *, const nmb_prog *, nmb__census *);

/* Bytes of an instruction in a plain binary encoding: 8 for kind, engine, op and
 * flags; 32 for a tile of eight 32-bit bounds (EXEC); 24 for a place; 24 for each
 * operand (slot 32, offset 64, rows 32, row bytes 32, stride 32 bits); 4 a wait. */
NMB_API int64_t nmb__insn_bytes(const nmb_insn *);
#endif
