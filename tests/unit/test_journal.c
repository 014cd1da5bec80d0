/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/journal.h"
#include "tests/unit/unit.h"

#define KEY1 "0123456789abcdef0123456789abcdef"
#define KEY2 "fedcba9876543210fedcba9876543210"

static char path[64];

static void
name_file(void)
{
  snprintf(path, sizeof path, "test_journal.%ld", (long)getpid());
  unlink(path);
}

static const nmb__entry entries[] = {
    {'m', "latency", NULL, NULL, 0.1},
    {'m', "time", "pim\t=\\x", "row\nbus", 1e-300},
    {'m', "energy", "static", NULL, NAN},
    {'h', "wall_time", NULL, NULL, 3},
    {'s', "fuse-dp", "groups fused", NULL, 12},
};
static const nmb__result sample = {
    KEY1, NMB_INFEASIBLE, "needs 5\tof = 4 \\ bytes", "a\nb\n", 5, entries};

static void
test_line(void)
{
  nmb_run *run = nmb__run_open(NULL);
  const char *text = nmb__result_text(run, &sample);
  nmb__result r;
  CU_ASSERT_PTR_NULL(strchr(text, '\n'));
  CU_ASSERT_TRUE_FATAL(nmb__result_parse(run, text, strlen(text), &r));
  CU_ASSERT_STRING_EQUAL(r.key, KEY1);
  CU_ASSERT_EQUAL(r.status, NMB_INFEASIBLE);
  CU_ASSERT_STRING_EQUAL(r.reason, sample.reason);
  CU_ASSERT_STRING_EQUAL(r.log, sample.log);
  CU_ASSERT_EQUAL_FATAL(r.n, 5);
  for (int i = 0; i < 5; i++) {
    CU_ASSERT_EQUAL(r.entry[i].kind, entries[i].kind);
    CU_ASSERT_STRING_EQUAL(r.entry[i].name, entries[i].name);
    CU_ASSERT_EQUAL(!r.entry[i].a, !entries[i].a);
    CU_ASSERT_EQUAL(!r.entry[i].b, !entries[i].b);
  }
  CU_ASSERT_STRING_EQUAL(r.entry[1].a, "pim\t=\\x");
  CU_ASSERT_STRING_EQUAL(r.entry[1].b, "row\nbus");
  CU_ASSERT_EQUAL(r.entry[0].value, 0.1);
  CU_ASSERT_EQUAL(r.entry[1].value, 1e-300);
  CU_ASSERT_TRUE(isnan(r.entry[2].value));
  nmb__run_close(run);
}

static void
test_bad_lines(void)
{
  nmb_run *run = nmb__run_open(NULL);
  nmb__result r;
  static const char *const bad[] = {
      "",
      KEY1,
      KEY1 "\tok\t",
      KEY1 "\tfine\t\t",
      "12\tok\t\t",
      KEY1 "\tok\t\t\tmlatency",
      KEY1 "\tok\t\t\tmlatency=",
      KEY1 "\tok\t\t\tmlatency=12x",
      KEY1 "\tok\t\t\tqlatency=12",
      KEY1 "\tok\t\t\tmtime=a=b=c=12",
      KEY1 "\tok\t\t\t",
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    CU_ASSERT_FALSE(nmb__result_parse(run, bad[i], strlen(bad[i]), &r));
  nmb__run_close(run);
}

/* A journal of two results and a note. */
static void
write_two(nmb_run *run)
{
  nmb__journal_data d = {0};
  nmb__journal *j = NULL;
  nmb__result r = sample;
  CU_ASSERT_EQUAL_FATAL(nmb__journal_open(run, path, false, &d, &j), NMB_OK);
  CU_ASSERT_EQUAL(d.n, 0);
  CU_ASSERT_EQUAL(nmb__journal_note(j, "2 jobs of x"), NMB_OK);
  CU_ASSERT_EQUAL(nmb__journal_append(j, nmb__result_text(run, &r)), NMB_OK);
  r.key = KEY2;
  CU_ASSERT_EQUAL(nmb__journal_append(j, nmb__result_text(run, &r)), NMB_OK);
  CU_ASSERT_EQUAL(nmb__journal_sync(j), NMB_OK);
  nmb__journal_close(j);
  nmb__journal_forget(&d);
}

static void
test_reopen(void)
{
  nmb_run *run = nmb__run_open(NULL);
  nmb__journal_data d = {0};
  nmb__journal *j = NULL;
  name_file();
  write_two(run);
  CU_ASSERT_EQUAL_FATAL(nmb__journal_open(run, path, false, &d, &j), NMB_OK);
  CU_ASSERT_EQUAL(d.n, 2);
  CU_ASSERT_EQUAL(d.damaged, 0);
  CU_ASSERT_STRING_EQUAL(d.note, "2 jobs of x");
  CU_ASSERT_STRING_EQUAL(d.result[1].key, KEY2);
  nmb__journal_forget(&d);
  /* held by one at a time */
  nmb__journal *other = NULL;
  CU_ASSERT_EQUAL(nmb__journal_open(run, path, false, &d, &other), NMB_IO);
  CU_ASSERT_PTR_NOT_NULL(strstr(nmb_error_text(run), "another nmbench"));
  nmb__journal_forget(&d);
  nmb__journal_close(j);
  CU_ASSERT_EQUAL_FATAL(nmb__journal_open(run, path, true, &d, &j), NMB_OK);
  CU_ASSERT_EQUAL(d.n, 0);
  nmb__journal_close(j);
  nmb__journal_forget(&d);
  CU_ASSERT_EQUAL(nmb__journal_read(run, path, &d), NMB_OK);
  CU_ASSERT_EQUAL(d.n, 0);
  CU_ASSERT_EQUAL(d.damaged, 0);
  nmb__journal_forget(&d);
  unlink(path);
  nmb__run_close(run);
}

static char *
slurp(size_t *n)
{
  FILE *f = fopen(path, "rb");
  char *p = malloc(1 << 16);
  *n = fread(p, 1, 1 << 16, f);
  fclose(f);
  return p;
}

static void
spit(const char *p, size_t n)
{
  FILE *f = fopen(path, "wb");
  CU_ASSERT_EQUAL(fwrite(p, 1, n, f), n);
  fclose(f);
}

/* Cut anywhere, or with any byte changed, a journal never gives a wrong result. */
static void
test_damage(void)
{
  nmb_run *run = nmb__run_open(NULL);
  nmb__journal_data d = {0};
  size_t n = 0;
  name_file();
  write_two(run);
  char *whole = slurp(&n), *copy = malloc(n);
  for (size_t cut = 0; cut < n; cut++) {
    spit(whole, cut);
    CU_ASSERT_EQUAL(nmb__journal_read(run, path, &d), NMB_OK);
    CU_ASSERT(d.n < 2);
    for (int i = 0; i < d.n; i++)
      CU_ASSERT_STRING_EQUAL(d.result[i].reason, sample.reason);
    nmb__journal_forget(&d);
  }
  for (size_t at = 0; at < n; at++) {
    memcpy(copy, whole, n);
    copy[at] ^= 4;
    spit(copy, n);
    CU_ASSERT_EQUAL(nmb__journal_read(run, path, &d), NMB_OK);
    CU_ASSERT(d.damaged > 0);
    for (int i = 0; i < d.n; i++)
      CU_ASSERT_STRING_EQUAL(d.result[i].reason, sample.reason);
    nmb__journal_forget(&d);
  }
  /* opening a damaged one writes it anew, with what is whole */
  spit(whole, n - 5);
  nmb__journal *j = NULL;
  CU_ASSERT_EQUAL_FATAL(nmb__journal_open(run, path, false, &d, &j), NMB_OK);
  CU_ASSERT_EQUAL(d.n, 1);
  CU_ASSERT_EQUAL(d.damaged, 1);
  nmb__journal_close(j);
  nmb__journal_forget(&d);
  CU_ASSERT_EQUAL(nmb__journal_read(run, path, &d), NMB_OK);
  CU_ASSERT_EQUAL(d.n, 1);
  CU_ASSERT_EQUAL(d.damaged, 0);
  nmb__journal_forget(&d);
  free(whole);
  free(copy);
  unlink(path);
  nmb__run_close(run);
}

UNIT_MAIN("journal", {"a line comes back as it was", test_line},
          {"other lines are refused", test_bad_lines},
          {"a journal is continued, locked and started over", test_reopen},
          {"damage is found wherever it is", test_damage})
