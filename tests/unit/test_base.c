/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Units, options, nearest names, paths. */
#include "config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/memo.h"
#include "base/near.h"
#include "base/options.h"
#include "base/path.h"
#include "base/units.h"
#include "tests/unit/unit.h"

static double
parse(nmb_run *run, const char *text, const char *type)
{
  double v = -1234.5;
  const nmb_status s = nmb__units_parse(run, NMB_NOLOC, text, type, &v);
  return s == NMB_OK ? v : -1234.5;
}

static void
test_units(void)
{
  static const struct {
    const char *text, *type;
    double value;
  } good[] = {
      {"256KiB", "size", 262144},
      {"3GB", "size", 3e9},
      {"5 GiB", "size", 5368709120.0},
      {"0", "size", 0},
      {"10ns", "time", 1e-8},
      {"2.5us", "time", 2.5e-6},
      {"7min", "time", 420},
      {"1.6GHz", "freq", 1.6e9},
      {"935GB/s", "bandwidth", 9.35e11},
      {"16Gbit/s", "bandwidth", 2e9},
      {"3.7pJ", "energy", 3.7e-12},
      {"5pJ/bit", "energy/byte", 4e-11},
      {"80%", "ratio", 0.8},
      {"0.25", "ratio", 0.25},
      {"-3", "int", -3},
      {"2e3", "int", 2000},
      {"-1.5e-3", "real", -0.0015},
      {"350W", "power", 350},
      {"1e-3s", "time", 1e-3},
  };
  static const struct {
    const char *text, *type;
  } bad[] = {{"256", "size"},
             {"256Kib", "size"},
             {"-1B", "size"},
             {"1.5B", "size"},
             {"", "int"},
             {"1.5", "int"},
             {"12x", "int"},
             {"5", "time"},
             {"10GHz", "time"},
             {"ten", "real"},
             {"nan", "real"},
             {"inf", "real"},
             {"1e999", "real"},
             {"0x10", "int"},
             {"unknown", "time"},
             {".", "real"},
             {"1e", "real"},
             {"3 4", "int"},
             {"9007199254740994", "int"}};
  nmb_run *run = nmb__run_open(NULL);
  for (size_t i = 0; i < sizeof good / sizeof *good; i++)
    CU_ASSERT_EQUAL(parse(run, good[i].text, good[i].type), good[i].value);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    CU_ASSERT_EQUAL(parse(run, bad[i].text, bad[i].type), -1234.5);
  CU_ASSERT_TRUE(isnan(parse(run, "unknown", "power")));
  nmb__units_parse(run, (nmb_loc){"m.hw", 4, 2}, "7Gz", "freq", &(double){0});
  CU_ASSERT_STRING_EQUAL(
      nmb_error_text(run),
      "m.hw:4:2: found unit 'Gz' in '7Gz', expected a freq in one of: Hz kHz MHz GHz");
  nmb__run_close(run);
}

static void
test_units_known(void)
{
  CU_ASSERT_TRUE(nmb__units_known("J/token"));
  CU_ASSERT_TRUE(nmb__units_known("mac/cycle"));
  CU_ASSERT_TRUE(nmb__units_known("pJ/B"));
  CU_ASSERT_FALSE(nmb__units_known("furlong"));
  CU_ASSERT_FALSE(nmb__units_known("s/"));
  CU_ASSERT_FALSE(nmb__units_known("/s"));
  CU_ASSERT_FALSE(nmb__units_known("s/furlong"));
}

static void
test_units_format(void)
{
  static const struct {
    double value;
    const char *type, *text;
  } want[] = {{262144, "size", "256KiB"},
              {16e9, "size", "16GB"},
              {1e-8, "time", "10ns"},
              {1.6e9, "freq", "1.6GHz"},
              {2e12, "bandwidth", "2TB/s"},
              {0.5, "ratio", "0.5"},
              {2000, "int", "2000"},
              {0, "size", "0B"},
              {NAN, "power", "unknown"},
              {3.9e-12, "energy", "3.9pJ"},
              {1.0 / 3, "real", "0.3333333333333333"}};
  static const char *const types[] = {"time",   "freq",        "bandwidth", "power",
                                      "energy", "energy/byte", "ratio",     "real"};
  nmb_run *run = nmb__run_open(NULL);
  for (size_t i = 0; i < sizeof want / sizeof *want; i++)
    CU_ASSERT_STRING_EQUAL(nmb__units_format(run, want[i].value, want[i].type),
                           want[i].text);
  nmb__run_seed(run, 7);
  int lost = 0;
  for (int i = 0; i < 4000; i++) { /* any value comes back exactly */
    const char *type = types[i % 8];
    const double v =
        (nmb_uniform(run) + 0.01) * pow(10, (double)(nmb_rand(run) % 30) - 15);
    lost += parse(run, nmb__units_format(run, v, type), type) != v;
  }
  CU_ASSERT_EQUAL(lost, 0);
  nmb__run_close(run);
}

static const nmb_opt table[] = {
    {"depth", "int", "op", "8", "1..64", "most ops"},
    {"buffer", "size", "", "2KiB", "..1MiB", "bytes"},
    {"merge", "bool", "", "yes", "", "whether"},
    {"order", "enum", "", "first", "first|best|worst", "which"},
    {"note", "text", "", "", "", "free text"},
    {NULL, NULL, NULL, NULL, NULL, NULL},
};

static const char *
options(nmb_run *run, const char *text)
{
  nmb__optval *v;
  int n;
  nmb__run_clear(run);
  if (nmb__options_parse(run, NMB_NOLOC, "pass 'x'", table, text, &v, &n) != NMB_OK)
    return nmb_error_text(run);
  return nmb__options_text(run, table, v, n);
}

static void
test_options(void)
{
  nmb_run *run = nmb__run_open(NULL);
  static const char *const cases[][2] = {
      {"", "{depth=8,buffer=2KiB,merge=true,order=first,note=\"\"}"},
      {"depth=3e1 , buffer=4096B,merge=no",
       "{depth=30,buffer=4KiB,merge=false,order=first,note=\"\"}"},
      {"note=\"a,b={c}\",order=worst",
       "{depth=8,buffer=2KiB,merge=true,order=worst,note=\"a,b={c}\"}"},
      {"dept=3", "pass 'x' has no option 'dept'; did you mean 'depth'?"},
      {"depth=65", "pass 'x': option 'depth': found 65, expected 1..64"},
      {"depth=0", "pass 'x': option 'depth': found 0, expected 1..64"},
      {"buffer=2MiB", "pass 'x': option 'buffer': found 2MiB, expected ..1MiB"},
      {"depth=3,depth=3", "pass 'x': option 'depth' is given twice"},
      {"merge=maybe", "pass 'x': option 'merge': found 'maybe', expected true or false"},
      {"order=bes",
       "pass 'x': option 'order': found 'bes', expected one of first|best|worst"},
      {"depth", "pass 'x': found 'depth', expected option=value"},
      {"depth=3,", "pass 'x': found a comma, expected another option after it"},
      {"note=\"open", "pass 'x': option 'note': the quote is not closed"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const char *got = options(run, cases[i][0]);
    CU_ASSERT_STRING_EQUAL(got, cases[i][1]);
    if (strcmp(got, cases[i][1]))
      printf("\n  found: %s\n", got);
  }
  /* the canonical text is a fixed point */
  char *once = nmb_strdup(run, options(run, "note=\"x y\",depth=9"));
  once[strlen(once) - 1] = '\0';
  CU_ASSERT_STRING_EQUAL(options(run, once + 1), nmb_format(run, "%s}", once));
  nmb__run_close(run);
}

static void
test_option_tables(void)
{
  static const nmb_opt bad[][2] = {
      {{"a", "integer", "", "1", "", ""}}, {{"a", "int", "furlong", "1", "", ""}},
      {{"a", "int", "", "9", "1..8", ""}}, {{"a", "enum", "", "x", "", ""}},
      {{"a", "size", "", "12", "", ""}},   {{"a", "int", "", "9", "1-10", ""}},
  };
  nmb_run *run = nmb__run_open(NULL);
  CU_ASSERT_EQUAL(nmb__options_check(run, NMB_NOLOC, "x", table), NMB_OK);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    CU_ASSERT_EQUAL(nmb__options_check(run, NMB_NOLOC, "x", bad[i]), NMB_BADPLUGIN);
  const nmb_opt must[] = {{"rate", "real", "", NULL, "", ""},
                          {NULL, NULL, NULL, NULL, NULL, NULL}};
  nmb__optval *v;
  int n;
  CU_ASSERT_EQUAL(nmb__options_parse(run, NMB_NOLOC, "x", must, NULL, &v, &n),
                  NMB_BADOPTION);
  CU_ASSERT_STRING_EQUAL(nmb_error_text(run), "x: option 'rate' must be given");
  nmb__run_close(run);
}

static void
test_near(void)
{
  static const char *const names[] = {"fuse-none", "fuse-dp", "sched-list", "mem-bestfit",
                                      "event"};
  CU_ASSERT_STRING_EQUAL(nmb__nearest("fuse-non", names, 5), "fuse-none");
  CU_ASSERT_STRING_EQUAL(nmb__nearest("sched-lsit", names, 5), "sched-list");
  CU_ASSERT_STRING_EQUAL(nmb__nearest("bestfit", names, 5), "mem-bestfit");
  CU_ASSERT_STRING_EQUAL(nmb__nearest("evnt", names, 5), "event");
  CU_ASSERT_PTR_NULL(nmb__nearest("zzzzzzz", names, 5));
  CU_ASSERT_PTR_NULL(nmb__nearest("", names, 5));
  CU_ASSERT_PTR_NULL(nmb__nearest("x", names, 0));
}

static void
test_hash(void)
{
  nmb__hasher *h = nmb__hash_begin();
  nmb__hash_add(h, "in-mem", 6);
  nmb__hash_add(h, "ory", 3);
  CU_ASSERT_EQUAL(nmb__hash_end(h), nmb__hash("in-memory", 9));
  CU_ASSERT_NOT_EQUAL(nmb__hash("in-memory", 9), nmb__hash("in-memorz", 9));
}

/* A data folder of our own: found by name, hinted at, and a path is a path. */
static void
test_paths(void)
{
  nmb_run *run = nmb__run_open(NULL);
  char dir[] = "/tmp/nmb-path-XXXXXX";
  const char *path;
  size_t len;
  CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(dir));
  const char *folder = nmb_format(run, "%s/machines", dir);
  const char *file = nmb_format(run, "%s/toy-7.hw", folder);
  CU_ASSERT_EQUAL_FATAL(mkdir(folder, 0700), 0);
  FILE *f = fopen(file, "w");
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  fputs("devices = 7;\n", f);
  fclose(f);
  setenv("NMB_DATA_PATH", nmb_format(run, "/nowhere:%s", dir), 1);
  CU_ASSERT_EQUAL(nmb__find_file(run, "machines", "toy-7", "hw", &path), NMB_OK);
  CU_ASSERT_STRING_EQUAL(path, file);
  CU_ASSERT_EQUAL(nmb__find_file(run, "machines", "toy-7.hw", ".hw", &path), NMB_OK);
  CU_ASSERT_EQUAL(nmb__find_file(run, "machines", file, ".hw", &path), NMB_OK);
  CU_ASSERT_EQUAL(nmb__find_file(run, "machines", "toy-8", ".hw", &path), NMB_BADINPUT);
  CU_ASSERT_PTR_NOT_NULL(
      strstr(nmb_error_text(run), "unknown machine 'toy-8'; did you mean 'toy-7'?"));
  CU_ASSERT_EQUAL(nmb__find_file(run, "machines", "./toy-7.hw", ".hw", &path), NMB_IO);
  CU_ASSERT_STRING_EQUAL(nmb__read_file(run, file, &len), "devices = 7;\n");
  CU_ASSERT_EQUAL(len, 13);
  CU_ASSERT_PTR_NULL(nmb__read_file(run, folder, &len));
  CU_ASSERT_PTR_NULL(nmb__read_file(run, "/nowhere/x", &len));
  CU_ASSERT_STRING_EQUAL(nmb_error_text(run), "/nowhere/x: No such file or directory");
  unsetenv("NMB_DATA_PATH");
  unlink(file);
  rmdir(folder);
  rmdir(dir);
  nmb__run_close(run);
}

/* What a child has found its parent sees; the first value of a key stays; a table that is
 * full, or keys that meet in one place, lose nothing that is there. */
static void
test_memo(void)
{
  nmb__memo *m = nmb__memo_new(64, sizeof(double));
  CU_ASSERT_PTR_NOT_NULL_FATAL(m);
  const pid_t child = fork();
  if (child == 0) {
    for (uint64_t i = 0; i < 20; i++)
      nmb__memo_put(m, (uint64_t[2]){7, i}, &(double){3.5 * (double)i});
    _exit(0);
  }
  waitpid(child, NULL, 0);
  double v = -1;
  for (uint64_t i = 0; i < 20; i++) {
    CU_ASSERT_TRUE(nmb__memo_get(m, (uint64_t[2]){7, i}, &v));
    CU_ASSERT_EQUAL(v, 3.5 * (double)i);
  }
  CU_ASSERT_FALSE(nmb__memo_get(m, (uint64_t[2]){7, 20}, &v));
  CU_ASSERT_FALSE(nmb__memo_get(m, (uint64_t[2]){8, 1}, &v));
  nmb__memo_put(m, (uint64_t[2]){7, 1}, &(double){-2});
  CU_ASSERT_TRUE(nmb__memo_get(m, (uint64_t[2]){7, 1}, &v) && v == 3.5);
  for (uint64_t i = 0; i < 1000; i++)
    nmb__memo_put(m, (uint64_t[2]){i * 13, 99}, &(double){1});
  uint64_t found, put;
  nmb__memo_counts(m, &found, &put);
  CU_ASSERT_EQUAL(put, 64);
  CU_ASSERT_EQUAL(found, 21);
  CU_ASSERT_TRUE(nmb__memo_get(m, (uint64_t[2]){7, 19}, &v) && v == 66.5);
  nmb__memo_free(m);
}

UNIT_MAIN("base", {"a table that processes share", test_memo},
          {"values with units are read exactly, others refused", test_units},
          {"units and their quotients are known", test_units_known},
          {"the shortest text reads back to the same value", test_units_format},
          {"options: given, default, wrong", test_options},
          {"option tables that are wrong are refused", test_option_tables},
          {"the nearest name is offered only if it is near", test_near},
          {"a hash in pieces is that of the whole", test_hash},
          {"files are found by name and by path", test_paths})
