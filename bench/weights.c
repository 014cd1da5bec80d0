/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Writes random weights as a llama2.c file, version 0, to standard output: a model of the
 * size of stories15M (karpathy/tinyllamas: dim 288, hidden 768, 6 layers, 6 heads, 32000
 * tokens, 256 positions). */
#include <stdint.h>
#include <stdio.h>

int
main(void)
{
  enum { DIM = 288, HIDDEN = 768, LAYERS = 6, HEADS = 6, VOCAB = 32000, SEQ = 256 };
  const int32_t head[7] = {DIM, HIDDEN, LAYERS, HEADS, HEADS, VOCAB, SEQ};
  const int64_t n = (int64_t)VOCAB * DIM +
                    (int64_t)LAYERS * (2 * DIM + 4 * DIM * DIM + 3 * DIM * HIDDEN) + DIM +
                    (int64_t)SEQ * (DIM / HEADS);
  uint64_t s = 1;
  fwrite(head, sizeof head, 1, stdout);
  for (int64_t i = 0; i < n; i++) {
    s = s * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    const float x = ((float)(s >> 40) / 0x1p23f - 1) * 0.1f;
    fwrite(&x, sizeof x, 1, stdout);
  }
  return ferror(stdout) != 0;
}
