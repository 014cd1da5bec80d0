/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Any bytes as config.json: an error with a text, or a model that builds, verifies
 * and counts.  Alone, mutates the files of models/ from a fixed seed; a number as
 * argument is another seed, a second one seconds of CPU time, a file is one input to run. */
#include <glob.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/path.h"
#include "base/run.h"
#include "frontend/counts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
die(const char *what, nmb_run *run)
{
  fprintf(stderr, "fuzz_config: %s: %s\n", what, nmb_error_text(run));
  abort();
}

static void
use(nmb_run *run, const nmb__arch *a)
{
  static const nmb__routing_spec routing = {"zipf", 1.2, 3};
  nmb_prog *p = NULL;
  nmb__params par;
  nmb__counts c;
  nmb__arch_params(run, a, &par);
  if (par.total < 1 || par.weight_bytes < 0 || par.active > par.total)
    die("counts are not positive", run);
  const nmb_step_spec spec = {NMB_PREFILL, 2, 3, 5};
  if (nmb__graph_build(run, a, spec, &routing, &p) != NMB_OK) {
    if (!*nmb_error_text(run))
      die("no graph and no text", run);
    return;
  }
  if (nmb_prog_verify(run, p, NMB_ALL) != NMB_OK)
    die("the graph does not verify", run);
  nmb__arch_counts(run, a, p, &c);
  if (!(c.macs > 0) || c.weight_bytes < 0 || c.kv_bytes < 0)
    die("the step's counts are not positive", run);
  nmb_prog_free(p);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  nmb_run *run = nmb__run_open(NULL);
  const nmb__arch *a = NULL;
  char *text = nmb_alloc(run, size + 1, 1);
  memcpy(text, data, size);
  const nmb_status s = nmb__arch_parse(run, "fuzz.json", "fuzz", text, size, &a);
  if (s == NMB_OK)
    use(run, a);
  else if (!*nmb_error_text(run))
    die("refused without a text", run);
  nmb__run_close(run);
  return 0;
}

/* ------------------------------------------------------------- mutations */
static const char *const words[] = {"-1",
                                    "0",
                                    "1",
                                    "2",
                                    "null",
                                    "true",
                                    "false",
                                    "1e308",
                                    "-1e308",
                                    "Infinity",
                                    "NaN",
                                    "9223372036854775807",
                                    "99999999999999999999",
                                    "65536",
                                    "4194304",
                                    "2048",
                                    "\"\"",
                                    "[]",
                                    "{}",
                                    "[[[[[[",
                                    "\"sliding_attention\"",
                                    "\"yarn\"",
                                    "\"model_type\":",
                                    "\"mla\"",
                                    ",",
                                    "}",
                                    "\\u0000",
                                    "4611686018427387904",
                                    "-4096",
                                    "0.5",
                                    "[1,2,3]",
                                    "[0,0,0,0]",
                                    "{\"quant_method\":\"gptq\",\"bits\":3,\"group_size\":-1}",
                                    "{\"quant_method\":\"awq\",\"bits\":4,\"group_size\":64,"
                                    "\"version\":\"gemv\"}",
                                    "{\"quant_method\":\"aqlm\",\"in_group_size\":8}",
                                    "{\"quant_method\":\"quark\",\"exclude\":[1]}",
                                    "{\"rope_type\":\"llama3\",\"factor\":0}",
                                    "\"nemotron-nas\"",
                                    "\"lfm2\"",
                                    "\"openelm\"",
                                    "\"longcat_flash\"",
                                    "\"recurrent_gemma\"",
                                    "\"laguna\""};
#define NWORD (sizeof words / sizeof *words)

/* Puts `word` in place of a value (what stands between a colon and a comma). */
static size_t
replace_value(nmb_run *rng, char *s, size_t n, const char *word)
{
  size_t at = (size_t)(nmb_rand(rng) % n), tries = n;
  while (tries-- && s[at] != ':')
    at = (at + 1) % n;
  size_t end = ++at;
  while (end < n && s[end] != ',' && s[end] != '\n' && s[end] != '}')
    end++;
  if (at >= n)
    return n;
  const size_t w = strlen(word);
  memmove(s + at + w, s + end, n - end);
  memcpy(s + at, word, w);
  return n - (end - at) + w;
}

static size_t
mutate(nmb_run *rng, char *s, size_t n)
{
  for (uint64_t k = 1 + nmb_rand(rng) % 3; k && n > 8; k--)
    switch (nmb_rand(rng) % 5) {
    case 0: s[nmb_rand(rng) % n] = (char)nmb_rand(rng); break;
    case 1: n = 1 + (size_t)(nmb_rand(rng) % n); break;
    default: n = replace_value(rng, s, n, words[nmb_rand(rng) % NWORD]); break;
    }
  return n;
}

/* Texts of configurations to mutate. */
typedef struct corpus {
  nmb_run *run;
  const char **text;
  int n, room;
} corpus;

static void
keep(corpus *c, const char *text)
{
  if (c->n < c->room && text)
    c->text[c->n++] = nmb_strdup(c->run, text);
}

static void
collect(corpus *c)
{
  const char **names, *path, *dir = getenv("srcdir");
  const int n = nmb__list_files(c->run, "models", "json", &names);
  size_t len;
  glob_t g;
  for (int i = 0; i < n; i++)
    if (nmb__find_file(c->run, "models", names[i], "json", &path) == NMB_OK)
      keep(c, nmb__read_file(c->run, path, &len));
  if (!glob(nmb_format(c->run, "%s/tests/data/tiny/*.json", dir ? dir : "."), 0, NULL, &g)) {
    for (size_t i = 0; i < g.gl_pathc; i++)
      keep(c, nmb__read_file(c->run, g.gl_pathv[i], &len));
    globfree(&g);
  }
  json_t *rows = json_load_file(
      nmb_format(c->run, "%s/tests/data/families.json", dir ? dir : "."), 0, NULL);
  for (size_t i = 0; i < json_array_size(rows); i++) {
    char *s = json_dumps(json_object_get(json_array_get(rows, i), "config"), 0);
    keep(c, s);
    free(s);
  }
  json_decref(rows);
}

static void
campaign(nmb_run *run, uint64_t seed, int seconds)
{
  corpus c = {run, NMB_NEW(run, const char *, 1024), 0, 1024};
  nmb_run *rng = nmb__run_open(NULL);
  nmb__run_seed(rng, seed);
  collect(&c);
  const clock_t end = clock() + seconds * CLOCKS_PER_SEC;
  long count = 0;
  for (; c.n && clock() < end; count++) {
    const size_t mark = nmb__run_mark(run);
    const char *text = c.text[nmb_rand(rng) % (uint64_t)c.n];
    size_t len = strlen(text);
    char *copy = nmb_alloc(run, len + 1024, 1);
    memcpy(copy, text, len);
    len = mutate(rng, copy, len);
    FILE *last = fopen("fuzz_config.last", "wb"); /* what to look at after a crash */
    if (last) {
      fwrite(copy, 1, len, last);
      fclose(last);
    }
    LLVMFuzzerTestOneInput((const uint8_t *)copy, len);
    nmb__run_release(run, mark);
  }
  remove("fuzz_config.last");
  printf("%ld inputs\n", count);
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
    campaign(run, argc > 1 ? strtoull(argv[1], NULL, 10) : 1, argc > 2 ? atoi(argv[2]) : 2);
  nmb__run_close(run);
  return 0;
}
