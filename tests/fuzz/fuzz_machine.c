/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Machine files with random damage: the reader must answer each with a status.
 *
 * Seeds are the machines that ship.  Damage is repeatable: arguments are the number
 * of tries (3000) and the first seed (1).  Files named after them are read as they
 * are, to look at one again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/path.h"
#include "base/plugin.h"
#include "base/run.h"
#include "ir/machine.h"
#include "tests/fuzz/libconfig-leak.h"

static const char *const words[] = {
    "unknown",  "-1GB",    "1e400B",      "0",
    "include",  "set",     "( { path = ", "};",
    "@include", "\"",      "nan",         "99999999999999999999",
    "all",      "1e-300s", "[",           "devices = 4096;"};
enum { NWORD = sizeof words / sizeof *words };

/* Bytes changed, cut, doubled, or a word put in. */
static size_t
damage(nmb_run *run, char *text, size_t len, size_t cap)
{
  const int n = 1 + (int)(nmb_rand(run) % 4);
  for (int i = 0; i < n && len > 4; i++) {
    const size_t at = (size_t)(nmb_rand(run) % len);
    const size_t some = 1 + (size_t)(nmb_rand(run) % (len - at < 200 ? len - at : 200));
    const char *w = words[nmb_rand(run) % NWORD];
    switch (nmb_rand(run) % 5) {
    case 0: text[at] = (char)(nmb_rand(run) & 0xff); break;
    case 1:
      memmove(text + at, text + at + some, len - at - some);
      len -= some;
      break;
    case 2:
      if (len + some < cap) {
        memmove(text + at + some, text + at, len - at);
        len += some;
      }
      break;
    case 3:
      if (len + strlen(w) < cap) {
        memmove(text + at + strlen(w), text + at, len - at);
        memcpy(text + at, w, strlen(w));
        len += strlen(w);
      }
      break;
    default: len = at + 1; break;
    }
  }
  text[len] = '\0';
  return len;
}

static bool
try(const char *name, const char *text, size_t len)
{
  nmb_run *run = nmb__run_open(NULL);
  nmb_hw *hw;
  const bool good = nmb__machine_parse(run, name, text, len, &hw) == NMB_OK;
  if (good) {
    const char *canonical = nmb__machine_text(run, hw);
    nmb_hw *again;
    /* what is accepted must print to what is accepted */
    if (nmb__machine_parse(run, name, canonical, strlen(canonical), &again) != NMB_OK ||
        strcmp(nmb__machine_text(run, again), canonical)) {
      fprintf(stderr, "%s\n%s: does not read back: %s\n", canonical, name,
              nmb_error_text(run));
      abort();
    }
    nmb__machine_free(again);
    nmb__machine_free(hw);
  } else if (!*nmb_error_text(run)) {
    fprintf(stderr, "%s: refused without a message\n", name);
    abort();
  }
  nmb__run_close(run);
  return good;
}

int
main(int argc, char **argv)
{
  const long tries = argc > 1 ? strtol(argv[1], NULL, 10) : 3000;
  nmb_run *run = nmb__run_open(stderr);
  const char **names, *path;
  size_t len, good = 0;
  nmb__plugins_load(run, NULL);
  nmb__run_seed(run, argc > 2 ? strtoull(argv[2], NULL, 10) : 1);
  for (int i = 3; i < argc; i++) {
    const char *text = nmb__read_file(run, argv[i], &len);
    printf("%s: %s\n", argv[i], text && try(argv[i], text, len) ? "accepted" : "refused");
  }
  const int n = nmb__list_files(run, "machines", "hw", &names);
  if (n == 0)
    return fputs("no machines found\n", stderr), 1;
  for (long i = 0; i < tries; i++) {
    const size_t mark = nmb__run_mark(run);
    if (nmb__find_file(run, "machines", names[i % n], "hw", &path) != NMB_OK)
      return 1;
    const char *seed = nmb__read_file(run, path, &len);
    char *text = nmb_alloc(run, 2 * len + 4096, 1);
    memcpy(text, seed, len);
    len = damage(run, text, len, 2 * len + 4000);
    good += try(names[i % n], text, len);
    nmb__run_release(run, mark);
  }
  printf("%ld machines with damage: %zu accepted, the rest refused\n", tries, good);
  nmb__run_close(run);
  return 0;
}
