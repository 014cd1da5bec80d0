/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Any bytes as a program: an error with a text, or a program that prints, reads
 * back to the same bytes and hashes, and that the verifier gives an answer to.
 * Alone, runs the texts of tests/golden and a fixed number of mutations of them; a
 * number as argument is another seed, a file is one input to run. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/path.h"
#include "tests/unit/fixture.h"

#define INPUTS 15000
#define LAST "fuzz_text.last"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
die(const char *what, nmb_run *run)
{
  fprintf(stderr, "fuzz_text: %s: %s\n", what, nmb_error_text(run));
  abort();
}

static char *
print(const nmb_prog *p, size_t *len)
{
  char *text = NULL;
  FILE *f = open_memstream(&text, len);
  if (!f)
    abort();
  nmb_prog_print(p, NMB_ALL, f);
  fclose(f);
  return text;
}

static void
use(nmb_run *run, const nmb_prog *p)
{
  size_t na, nb;
  char *a = print(p, &na), *b;
  nmb_prog *q = NULL;
  if (nmb_prog_parse(run, "again.nmb", a, na, p->hw, &q) != NMB_OK)
    die("what was printed does not read back", run);
  b = print(q, &nb);
  if (na != nb || memcmp(a, b, na))
    die("prints differently after reading back", run);
  for (int s = 0; s < NMB_NSECTION; s++)
    if (nmb_prog_hash(p, (nmb_section)s) != nmb_prog_hash(q, (nmb_section)s))
      die("hashes differently after reading back", run);
  const nmb_status status = nmb_prog_verify(run, q, NMB_ALL);
  if (status != NMB_OK && !*nmb_error_text(run))
    die("does not verify, and nothing says why", run);
  nmb_prog_free(q);
  free(a);
  free(b);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  for (int machine = 0; machine < 2; machine++) {
    nmb_run *run = nmb__run_open(NULL);
    nmb_prog *p = NULL;
    const char *name;
    char *text =
        nmb__xrealloc(NULL, size, 1); /* just as long: sanitizers see overreads */
    memcpy(text, data, size);
    (void)nmb_prog_parse_machine(run, "fuzz.nmb", text, size, &name);
    const nmb_status s =
        nmb_prog_parse(run, "fuzz.nmb", text, size, machine ? &fixture_hw : NULL, &p);
    if (s == NMB_OK)
      use(run, p);
    else if (p || !*nmb_error_text(run))
      die("refused without a text", run);
    nmb_prog_free(p);
    free(text);
    nmb__run_close(run);
  }
  return 0;
}

/* ----------------------------------------------------------------- mutations */
static const char *const words[] = {"-1",
                                    "0",
                                    "1",
                                    "2",
                                    "7",
                                    "-9223372036854775808",
                                    "9223372036854775807",
                                    "99999999999999999999",
                                    "4611686018427387904",
                                    "2147483648",
                                    "1e308",
                                    "+nan",
                                    "-inf",
                                    "4.9e-324",
                                    "%x",
                                    "%",
                                    "\"\"",
                                    "%\"\"",
                                    "\"\\x00\"",
                                    "\"\\",
                                    "->",
                                    "-",
                                    "@0",
                                    "@63",
                                    "?",
                                    "#",
                                    "{",
                                    "}",
                                    "[",
                                    "]",
                                    "(",
                                    ")",
                                    ":",
                                    ",",
                                    "=",
                                    "int4/128",
                                    "bf16",
                                    "host",
                                    "pim",
                                    "dram",
                                    "linear",
                                    "glinear",
                                    "kernel",
                                    "layer",
                                    "read",
                                    "write",
                                    "wait",
                                    "tile",
                                    "first",
                                    "resident",
                                    "x",
                                    "part 1 of 2 head"};
#define NWORD (sizeof words / sizeof *words)

typedef struct input {
  char *s;
  size_t n, cap;
} input;

/* Puts n bytes in place of [at, end). */
static void
splice(input *in, size_t at, size_t end, const char *with, size_t n)
{
  if (in->n - (end - at) + n > in->cap)
    return;
  memmove(in->s + at + n, in->s + end, in->n - end);
  memcpy(in->s + at, with, n);
  in->n += n - (end - at);
}

static bool
blank(char c)
{
  return c == ' ' || c == '\n';
}

/* The word, or the line, around a random place. */
static void
pick(nmb_run *rng, const input *in, bool line, size_t *at, size_t *end)
{
  *at = (size_t)(nmb_rand(rng) % in->n);
  while (*at > 0 && !(line ? in->s[*at - 1] == '\n' : blank(in->s[*at - 1])))
    --*at;
  *end = *at;
  while (*end < in->n && !(line ? in->s[*end] == '\n' : blank(in->s[*end])))
    ++*end;
}

static void
mutate(nmb_run *rng, input *in)
{
  for (uint64_t k = 1 + nmb_rand(rng) % 3; k && in->n > 8; k--) {
    size_t at, end, at2, end2;
    char copy[512];
    const char *w = words[nmb_rand(rng) % NWORD];
    switch (nmb_rand(rng) % 8) {
    case 0: in->s[nmb_rand(rng) % in->n] = (char)nmb_rand(rng); break;
    case 1: in->n = 1 + (size_t)(nmb_rand(rng) % in->n); break;
    case 2: /* a line gone */
      pick(rng, in, true, &at, &end);
      splice(in, at, end, "", 0);
      break;
    case 3: /* a word or a line in place of another */
    case 4:
      pick(rng, in, nmb_rand(rng) % 2, &at, &end);
      pick(rng, in, nmb_rand(rng) % 2, &at2, &end2);
      if (end2 - at2 < sizeof copy) {
        memcpy(copy, in->s + at2, end2 - at2);
        splice(in, at, end, copy, end2 - at2);
      }
      break;
    default:
      pick(rng, in, false, &at, &end);
      splice(in, at, end, w, strlen(w));
      break;
    }
  }
}

static int
seeds(nmb_run *run, const char ***text, size_t **len)
{
  const char **names, *path;
  const int n = nmb__list_files(run, "tests/golden", "nmb", &names);
  *text = NMB_NEW(run, const char *, n + 1);
  *len = NMB_NEW(run, size_t, n + 1);
  for (int i = 0; i < n; i++) {
    if (nmb__find_file(run, "tests/golden", names[i], "nmb", &path) != NMB_OK)
      abort();
    (*text)[i] = nmb__read_file(run, path, &(*len)[i]);
    const char *end = strstr((*text)[i], "\n# EXPECT:");
    if (end)
      (*len)[i] = (size_t)(end - (*text)[i]);
  }
  nmb_prog *p = fixture_prog();
  (*text)[n] = print(p, &(*len)[n]); /* one at least, wherever we run */
  nmb_prog_free(p);
  return n + 1;
}

static void
campaign(nmb_run *run, uint64_t seed)
{
  const char **text;
  size_t *len;
  const int n = seeds(run, &text, &len);
  nmb_run *rng = nmb__run_open(NULL);
  FILE *keep = fopen(LAST, "wb"); /* what to look at after a crash */
  nmb__run_seed(rng, seed);
  for (int i = 0; i < n; i++)
    LLVMFuzzerTestOneInput((const uint8_t *)text[i], len[i]);
  for (int i = 0; i < INPUTS; i++) {
    const size_t k = (size_t)(nmb_rand(rng) % (uint64_t)n);
    input in = {nmb__xrealloc(NULL, len[k] + 2048, 1), len[k], len[k] + 2048};
    memcpy(in.s, text[k], len[k]);
    mutate(rng, &in);
    if (keep) {
      rewind(keep);
      fwrite(in.s, 1, in.n, keep);
      fflush(keep);
      if (ftruncate(fileno(keep), (off_t)in.n))
        abort();
    }
    LLVMFuzzerTestOneInput((const uint8_t *)in.s, in.n);
    free(in.s);
  }
  if (keep)
    fclose(keep);
  remove(LAST);
  printf("%d texts and %d mutations of them\n", n, INPUTS);
  free((void *)(uintptr_t)text[n - 1]);
  nmb__run_close(rng);
}

int
main(int argc, char **argv)
{
  nmb_run *run = nmb__run_open(stderr);
  size_t len;
  const char *text =
      argc > 1 && argv[1][0] > '9' ? nmb__read_file(run, argv[1], &len) : NULL;
  if (text)
    LLVMFuzzerTestOneInput((const uint8_t *)text, len);
  else
    campaign(run, argc > 1 ? strtoull(argv[1], NULL, 10) : 1);
  nmb__run_close(run);
  return 0;
}
