/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the fuzz targets of weight files share: files to start from, damage, and a main
 * that needs no fuzzer.  It cuts and flips each seed at every byte of its beginning, then
 * damages them at random, the same way each time.  A number as argument is how many
 * random ones, after all that is systematic; a file is one input to run.  $NMB_FUZZ_SEEDS is a folder that the seeds
 * are written to, also when a fuzzer has its own main; $NMB_FUZZ_LAST a file with the
 * input being run. */
#ifndef NMB__FUZZ_H
#define NMB__FUZZ_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/path.h"
#include "base/run.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

typedef struct bytes {
  uint8_t b[1 << 16];
  size_t n;
} bytes;

typedef struct seed {
  const char *name;
  void (*make)(bytes *);
} seed;

/* The input as a file of the target's format: NMB_OK if it is taken whole. */
typedef nmb_status use_input(nmb_run *, const uint8_t *, size_t);

typedef struct target {
  const seed *seeds;
  size_t nseed;
  use_input *use;
  const char *const *words; /* (optional) texts put in place of others; NULL at the end */
} target;

/* ------------------------------------------------------------------- checks */
static inline void
die(nmb_run *run, const char *what)
{
  fprintf(stderr, "%s: %s\n", what, nmb_error_text(run));
  abort();
}

/* A refusal says why, in one line that a terminal can show. */
static inline nmb_status
refused(nmb_run *run, nmb_status s)
{
  const char *text = nmb_error_text(run);
  if (!*text)
    die(run, "refused without a text");
  if (strlen(text) > 4096)
    die(run, "the text is long");
  for (; *text; text++)
    if ((unsigned char)*text < ' ' || *text == 127)
      die(run, "the text has control characters");
  return s;
}

static inline nmb_status
one_input(const target *t, const uint8_t *data, size_t size, bool must)
{
  nmb_run *run = nmb__run_open(NULL);
  uint8_t *own = nmb__xrealloc(NULL, size, 1); /* a read behind it is seen */
  if (size)
    memcpy(own, data, size);
  const nmb_status s = t->use(run, own, size);
  if (s != NMB_OK)
    refused(run, s);
  if (s != NMB_OK && must)
    die(run, "a seed is refused");
  nmb__run_close(run);
  free(own);
  return s;
}

/* -------------------------------------------------------------------- seeds */
static inline void
put(bytes *f, uint64_t v, size_t n)
{
  for (size_t i = 0; i < n; i++)
    f->b[f->n++] = (uint8_t)(v >> 8 * i);
}

static inline void
put_bytes(bytes *f, const char *s)
{
  memcpy(f->b + f->n, s, strlen(s));
  f->n += strlen(s);
}

/* Small values as floats, none of them special. */
static inline void
put_floats(bytes *f, size_t n)
{
  for (size_t i = 0; i < n; i++)
    put(f, 0x3d000000u + (uint64_t)(i * 2654435761u % 0x7fffffu), 4);
}

static inline void
seeds_write(const target *t, const char *folder)
{
  nmb_run *run = nmb__run_open(NULL);
  for (size_t i = 0; i < t->nseed; i++) {
    bytes *f = NMB_NEW(run, bytes, 1);
    t->seeds[i].make(f);
    FILE *out = fopen(nmb_format(run, "%s/%s", folder, t->seeds[i].name), "wb");
    if (!out || fwrite(f->b, 1, f->n, out) != f->n || fclose(out))
      die(run, "a seed cannot be written");
  }
  nmb__run_close(run);
}

/* ------------------------------------------------------------------- damage */
static inline void
word_put(const target *t, nmb_run *rng, bytes *f)
{
  size_t n = 0;
  while (t->words[n])
    n++;
  const char *w = t->words[nmb_rand(rng) % n];
  const size_t len = strlen(w), at = (size_t)(nmb_rand(rng) % f->n);
  size_t end = at + (size_t)(nmb_rand(rng) % 12);
  end = end < f->n ? end : f->n;
  if (at + len + f->n - end > sizeof f->b)
    return;
  memmove(f->b + at + len, f->b + end, f->n - end);
  memcpy(f->b + at, w, len);
  f->n = at + len + f->n - end;
}

static inline void
number_put(nmb_run *rng, bytes *f, size_t at)
{
  static const uint64_t odd[] = {0,         1,          3,
                                 33,        0xff,       0x7fffffff,
                                 0xffffffff, INT64_MAX, UINT64_MAX,
                                 UINT64_C(1) << 61,     UINT64_C(1) << 63,
                                 0x7fc00000, /* NaN */  0x7f800000};
  const uint64_t v = odd[nmb_rand(rng) % (sizeof odd / sizeof *odd)];
  const size_t size = (size_t)1 << nmb_rand(rng) % 4;
  for (size_t i = 0; i < size && at + i < f->n; i++)
    f->b[at + i] = (uint8_t)(v >> 8 * i);
}

static inline void
damage(const target *t, nmb_run *rng, bytes *f)
{
  for (uint64_t k = 1 + nmb_rand(rng) % 4; k && f->n > 8; k--) {
    const size_t at = (size_t)(nmb_rand(rng) % (f->n < 4096 ? f->n : 4096));
    switch (nmb_rand(rng) % 6) {
    case 0: f->b[at] = (uint8_t)nmb_rand(rng); break;
    case 1: f->b[at] ^= (uint8_t)(1u << nmb_rand(rng) % 8); break;
    case 2: f->n = 1 + (size_t)(nmb_rand(rng) % f->n); break;
    case 3: f->b[at] = (uint8_t)('0' + nmb_rand(rng) % 10); break;
    default:
      if (t->words && nmb_rand(rng) % 2)
        word_put(t, rng, f);
      else
        number_put(rng, f, at);
    }
  }
}

static inline void
try_one(const target *t, const uint8_t *data, size_t size)
{
  const char *last = getenv("NMB_FUZZ_LAST");
  FILE *out = last ? fopen(last, "wb") : NULL;
  if (out) {
    fwrite(data, 1, size, out);
    fclose(out);
  }
  alarm(60); /* an input that hangs ends the program */
  one_input(t, data, size, false);
}

/* Every cut, and every byte changed: in four ways those of the first 64 (all), the others
 * in one. */
static inline long
systematic(const target *t, const seed *s, bytes *f, bool all)
{
  const size_t most = all ? sizeof f->b : 1024;
  static const uint8_t flips[] = {0x01, 0x10, 0x80, 0xff};
  long tries = 0;
  memset(f, 0, sizeof *f);
  s->make(f);
  one_input(t, f->b, f->n, true);
  for (size_t i = 0; i < f->n && i < most; i++, tries++)
    try_one(t, f->b, i);
  for (size_t i = 0; i < f->n && i < most; i++)
    for (size_t k = 0; k < (all || i < 64 ? sizeof flips : 1); k++, tries++) {
      const uint8_t was = f->b[i];
      f->b[i] ^= flips[(i + k) % sizeof flips];
      try_one(t, f->b, f->n);
      f->b[i] = was;
    }
  return tries;
}

static inline int
alone(const target *t, int argc, char **argv)
{
  nmb_run *run = nmb__run_open(stderr);
  char *end = NULL;
  const unsigned long count = argc > 1 ? strtoul(argv[1], &end, 10) : 1000;
  size_t n;
  if (argc > 1 && *end) {
    const char *s = nmb__read_file(run, argv[1], &n);
    if (s && one_input(t, (const uint8_t *)s, n, false) == NMB_OK)
      printf("taken\n");
    nmb__run_close(run);
    return !s;
  }
#ifndef __SANITIZE_ADDRESS__ /* which reserves more than any limit */
  setrlimit(RLIMIT_AS, &(struct rlimit){(rlim_t)2 << 30, (rlim_t)2 << 30});
#endif
  bytes *f = NMB_NEW(run, bytes, 1);
  long tries = (long)count;
  for (size_t i = 0; i < t->nseed; i++)
    tries += systematic(t, &t->seeds[i], f, argc > 1);
  nmb__run_seed(run, 1);
  for (unsigned long i = 0; i < count; i++) {
    memset(f, 0, sizeof *f);
    t->seeds[i % t->nseed].make(f);
    damage(t, run, f);
    try_one(t, f->b, f->n);
  }
  printf("%ld inputs\n", tries);
  nmb__run_close(run);
  return 0;
}

#define FUZZ_TARGET(t)                                                                   \
  int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)                           \
  {                                                                                      \
    one_input(&(t), data, size, false);                                                      \
    return 0;                                                                            \
  }                                                                                      \
  int LLVMFuzzerInitialize(int *argc, char ***argv)                                      \
  {                                                                                      \
    (void)argc;                                                                          \
    (void)argv;                                                                          \
    if (getenv("NMB_FUZZ_SEEDS"))                                                        \
      seeds_write(&(t), getenv("NMB_FUZZ_SEEDS"));                                       \
    return 0;                                                                            \
  }                                                                                      \
  int main(int argc, char **argv)                                                        \
  {                                                                                      \
    LLVMFuzzerInitialize(&argc, &argv);                                                  \
    return alone(&(t), argc, argv);                                                      \
  }
#endif
