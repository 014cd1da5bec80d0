/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The instruction set of SK hynix AiM, and channels that execute it.
 *
 * An instruction goes to the channels of a mask.  Channels work in order, each on its
 * own; RD_MAC, RD_AF, SYNC and EOC hold the front end, which decodes an instruction a
 * tick, until their channels are done.  Timing is that of the DRAM kind GDDR6_AiM, docs/dram.md.
 *
 * Text, as the public AiM simulator (github.com/arkhadem/aim_simulator) reads it: an
 * instruction a line, fields with blanks or commas between, `#` begins a comment:
 *   AiM OPCODE fields..      R|W MEM channel bank row      R|W GPR n      W CFR n value
 * The fields of each opcode are in NMB_AIM_MAP: s size in bursts, g and h general
 * registers, m mask of channels, b bank, r DRAM row. */
#ifndef NMB_AIM_H
#define NMB_AIM_H

#include "nmbench/nmb_hw.h"

#ifdef __cplusplus
extern "C" {
#endif

/* X(id, name, fields, command of each burst, help); "[s]": may be left out */
#define NMB_AIM_MAP(X)                                                                   \
  X(WR_SBK, "WR_SBK", "[s]gmbr", "WR", "a register to one bank")                         \
  X(WR_ABK, "WR_ABK", "[s]gmr", "WRA16", "a register to all banks")                      \
  X(RD_SBK, "RD_SBK", "[s]gmbr", "RD", "one bank to a register")                         \
  X(WR_GB, "WR_GB", "sgm", "WRGB", "registers to the global buffer")                     \
  X(WR_BIAS, "WR_BIAS", "[s]gm", "WRMAC16", "a register to the sums of all banks")       \
  X(RD_MAC, "RD_MAC", "[s]gm", "RDMAC16", "sums of all banks to a register")             \
  X(RD_AF, "RD_AF", "[s]gm", "RDAF16", "function results of all banks to a register")    \
  X(COPY_BKGB, "COPY_BKGB", "smbr", "RDCP", "one bank to the global buffer")             \
  X(COPY_GBBK, "COPY_GBBK", "smbr", "WRCP", "the global buffer to one bank")             \
  X(MAC_SBK, "MAC_SBK", "smbr", "MAC", "products in one bank")                           \
  X(MAC_ABK, "MAC_ABK", "smr", "MAC16", "products in all banks")                         \
  X(AF, "AF", "m", "AF16", "activation function in all banks")                           \
  X(EWMUL, "EWMUL", "smr", "EWMUL16", "element by element in all bank groups")           \
  X(EWADD, "EWADD", "sgh", "", "sum of registers, no access")                            \
  X(SYNC, "SYNC", "", "", "waits for all channels")                                      \
  X(EOC, "EOC", "", "", "end of the program")                                            \
  X(W_MEM, "W MEM", "cbr", "WR", "ordinary write")                                       \
  X(R_MEM, "R MEM", "cbr", "RD", "ordinary read")                                        \
  X(W_GPR, "W GPR", "g", "", "the host writes a register")                               \
  X(R_GPR, "R GPR", "g", "", "the host reads a register")                                \
  X(W_CFR, "W CFR", "gh", "", "the host configures")
typedef enum nmb_aim_op {
#define X(id, name, fields, command, help) NMB_AIM_##id,
  NMB_AIM_MAP(X)
#undef X
      NMB_NAIM
} nmb_aim_op;

typedef struct nmb_aim_insn {
  nmb_aim_op op;
  int64_t size; /* bursts */
  int64_t g, h; /* registers, or the value of W CFR */
  uint64_t mask; /* channels */
  int bank;      /* -1: all */
  int64_t row;
} nmb_aim_insn;
typedef struct nmb_aim_list {
  int64_t n, cap;
  nmb_aim_insn *v;
} nmb_aim_list;

NMB_API const char *nmb_aim_name(nmb_aim_op);
NMB_API void nmb_aim_add(nmb_run *, nmb_aim_list *, nmb_aim_insn);
/* NMB_BADINPUT with the line that is wrong. */
NMB_API nmb_status nmb_aim_parse(nmb_run *, const char *file, const char *text,
                                 size_t len, nmb_aim_list *out);
NMB_API void nmb_aim_print(const nmb_aim_list *, FILE *);
/* Does the text begin like an AiM program? */
NMB_API bool nmb_aim_looks(const char *text, size_t len);

/* What one instruction of a program makes the channels of its place do: the CENT
 * mapping (Gu et al., ASPLOS 2025).  For each input vector and each slab of the input
 * that the global buffer holds, sums of up to `reuse` columns share one filling.
 * Nothing is added for ops that are no products. */
NMB_API void nmb_aim_lower(nmb_run *, const nmb_prog *, const nmb_insn *,
                           nmb_aim_list *out);

/* The timing of an engine of model dram-pim, as changed values of the DRAM kind. */
NMB_API const char *nmb_aim_timing(nmb_run *, const nmb_engine *);
/* What one channel did; the parts of `time` add up to `cycles`. */
typedef struct nmb_aim_result {
  int64_t cycles;
  int64_t time[NMB_NCAUSE]; /* cycles of channel 0 */
  int64_t commands;         /* of all channels */
  int64_t stall;            /* cycles of channel 0 that refresh cost */
  int64_t after;            /* cycles since the last refresh fell due */
} nmb_aim_result;
/* set: (optional) changed timing, as for nmb_dram_open.  watch: (optional) is told of
 * the instructions, and of the commands of channel 0. */
NMB_API nmb_status nmb_aim_execute(nmb_run *, const char *set, bool refresh, int channels,
                                   const nmb_aim_list *, const nmb_watch *,
                                   nmb_aim_result *out);

#ifdef __cplusplus
}
#endif
#endif
