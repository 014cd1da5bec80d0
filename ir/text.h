/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The text form (.nmb): what the printer and the parser share.
 *
 *   nmbench 1                                  version of the format
 *   model mixtral-8x7b
 *   step decode batch 8 fresh 1 context 2048
 *   machine aim-gddr6                          absent: none chosen
 *   graph {
 *     routing 0 "zipf 1.2" experts 8 topk 2 tokens 3 {
 *       5 0                                    a token a line; `x 2` repeats a line
 *       1 7 x 2
 *     }
 *     block layer(%x) -> %y {                  `-` where the block has no input or output
 *       act %x : bf16[3,40]                    what no op makes: act input weight kv
 * state weight %w : int4/128[24,40]            /128: elements a scale %h = linear(%x, %w)
 * : bf16[3,24] %y = act(%h) {fn=silu} : bf16[3,24]
 *     }
 *     block last(%x) -> - {
 *       kv %k = layer %k : bf16[1,9,2,4]       a tensor of an earlier block
 *     }
 *     order layer x 7
 *   }
 *   groups {
 *     kernel 0 layer { %h %y }                 ops go by the name of their first output
 *   }
 *   dispatch {
 *     kernel 0 pim
 *   }
 *   mapping {
 *     kernel 0 tile 1 3 24 reuse 1             along b, m, n
 *     layout layer %w dram interleaved unit 24 channels 4 bytes 1024 padded
 *   }
 *   schedule {
 *     step 0 kernel 0 at 0 for 1000            ps; `part 0 of 2 batch` before `at`
 *   }
 *   memory {
 *     slot 0 layer %w dram resident at 0 bytes 1024
 *     slot 1 layer %y dram live 0 to 0 at 1024 bytes 160
 *   }
 *   code {
 *     0 pim exec layer %h step 0 first tile 0:1 0:3 0:24 0:40 place 0 + 4 banks 4
 *       vectors 3 rows 2 pages 1 bursts 3 opens 2 reuse 1 read %x dram[2 + 0, 3 x 80 / 80]
 *       write %h dram[3 + 0, 3 x 48 / 48] wait 5, 7     all on one line
 *   }
 *
 * Ids count from 0 and are checked.  Words hold letters, digits and `_.+-`; other
 * names stand in double quotes with \" \\ \n and \xHH.  A machine's engines and
 * memories go by name, or by `@number` where the program has no machine.  `#`
 * starts a comment.  Spaces and line ends only separate.  Numbers are exact: a
 * real has a point, an exponent or is +inf, -inf, +nan, and reads back the same.
 */
#ifndef NMB__TEXT_H
#define NMB__TEXT_H

#include "base/run.h"

#define NMB__TEXT_VERSION 1
#define NMB__TEXT_NAME 139 /* longest name of a tensor, so that it is kept as it is */

static inline bool
nmb__text_letter(int c)
{
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static inline bool
nmb__text_digit(int c)
{
  return c >= '0' && c <= '9';
}

/* May stand inside a word, `-` only if no `>` follows. */
static inline bool
nmb__text_inside(int c)
{
  return nmb__text_letter(c) || nmb__text_digit(c) || c == '.' || c == '+' || c == '-';
}
#endif
