/* SPDX-License-Identifier: GPL-3.0-or-later */
/* AiM instructions: their text, and the stamps of the public AiM simulator. */
#include "config.h" /* first: names outside of C11 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/run.h"
#include "nmbench/nmb_aim.h"
#include "tests/unit/unit.h"

typedef struct seen {
  int n;
  nmb_command v[256];
} seen;

static void
on_command(void *arg, const nmb_command *c)
{
  seen *s = arg;
  if (!c->isr && s->n < 256)
    s->v[s->n++] = *c;
}

static nmb_aim_list
parse(nmb_run *run, const char *text)
{
  nmb_aim_list l;
  CU_ASSERT_EQUAL_FATAL(nmb_aim_parse(run, "t", text, strlen(text), &l), NMB_OK);
  return l;
}

static nmb_aim_result
execute(nmb_run *run, const char *text, bool refresh, seen *s)
{
  const nmb_aim_list l = parse(run, text);
  nmb_aim_result r;
  const nmb_watch w = {on_command, s};
  CU_ASSERT_EQUAL_FATAL(nmb_aim_execute(run, NULL, refresh, 32, &l, s ? &w : NULL, &r),
                        NMB_OK);
  int64_t sum = 0;
  for (int i = 0; i < NMB_NCAUSE; i++)
    sum += r.time[i];
  CU_ASSERT_EQUAL(sum, r.cycles);
  return r;
}

/* ------------------------------------------------------------------ schedules */
static void
check_schedule(int reuse, const char *program)
{
  nmb_run *run = nmb__run_open(stderr);
  const char *dir = getenv("srcdir");
  char line[256], name[32];
  seen s = {0};
  execute(run, program, false, &s);
  FILE *f = fopen(nmb_format(run, "%s/tests/data/aim_schedule.csv", dir ? dir : "."), "r");
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  int at = 0, row_reuse;
  long long n, first, last, row;
  while (fgets(line, sizeof line, f)) {
    if (*line == '#' || sscanf(line, "%d,%31[^,],%lld,%lld,%lld,%lld", &row_reuse, name,
                               &n, &first, &last, &row) != 6 ||
        row_reuse != reuse)
      continue;
    CU_ASSERT_FATAL(at < s.n);
    const nmb_command *c = &s.v[at++];
    CU_ASSERT_STRING_EQUAL(c->name, name);
    CU_ASSERT_EQUAL(c->n, n);
    CU_ASSERT_EQUAL(c->cycle, first);
    CU_ASSERT_EQUAL(c->cycle + (c->n - 1) * c->step, last);
    if (strcmp(name, "TMOD")) /* it has no row */
      CU_ASSERT_EQUAL(c->row, row);
  }
  CU_ASSERT_EQUAL(at, s.n);
  CU_ASSERT_TRUE(at > 0);
  fclose(f);
  nmb__run_close(run);
}

#define ALL " 4294967295"
static void
test_schedule_reuse(void)
{
  check_schedule(32, "AiM WR_GB 64 0" ALL "\nAiM WR_BIAS 0" ALL "\nAiM WR_BIAS 0" ALL
                     "\nAiM MAC_ABK 64" ALL " 0\nAiM MAC_ABK 64" ALL
                     " 1\nAiM RD_MAC 0" ALL "\nAiM RD_MAC 0" ALL "\nAiM EOC\n");
}

static void
test_schedule_turns(void)
{
  check_schedule(1, "AiM WR_GB 64 0" ALL "\nAiM WR_BIAS 0" ALL "\nAiM MAC_ABK 64" ALL
                    " 0\nAiM RD_MAC 0" ALL "\nAiM WR_BIAS 0" ALL "\nAiM MAC_ABK 64" ALL
                    " 1\nAiM RD_MAC 0" ALL "\nAiM EOC\n");
}

/* MAC_ABK of k bursts over n rows: n (100 + 2 (k - 1)) - 41 (CENT's traces, to which the
 * simulator adds what ends them). */
static void
test_mac_law(void)
{
  nmb_run *run = nmb__run_open(stderr);
  for (int n = 1; n <= 7; n += 3)
    for (int k = 1; k <= 64; k += 21) {
      const char *text = "";
      for (int i = 0; i < n; i++)
        text = nmb_format(run, "%sAiM MAC_ABK %d 1 %d\n", text, k, i);
      const nmb_aim_result r = execute(run, text, false, NULL);
      /* activate at tick 1 and four cycles at the end */
      CU_ASSERT_EQUAL(r.cycles - 4, n * (100 + 2 * (k - 1)) - 43);
    }
  nmb__run_close(run);
}

static void
test_channels(void)
{
  nmb_run *run = nmb__run_open(stderr);
  const int64_t one = execute(run, "AiM MAC_ABK 64 1 0\n", false, NULL).cycles;
  /* channels work side by side, instructions on one of them one after the other */
  CU_ASSERT_EQUAL(execute(run, "AiM MAC_ABK 64 1 0\nAiM MAC_ABK 64 6 0\n", false, NULL)
                      .cycles,
                  one);
  CU_ASSERT_EQUAL(
      execute(run, "AiM MAC_ABK 64 1 0\nAiM MAC_ABK 64 1 0\n", false, NULL).cycles,
      one + 128);
  CU_ASSERT_EQUAL(
      execute(run, "AiM MAC_ABK 64 1 0\nAiM MAC_ABK 64 3 0\n", false, NULL).commands,
      3 * 64 + 2);
  /* SYNC: the second channel starts when the first is done */
  CU_ASSERT_TRUE(
      execute(run, "AiM MAC_ABK 64 1 0\nAiM SYNC\nAiM MAC_ABK 64 2 0\n", false, NULL)
          .cycles >= 2 * one - 8);
  nmb__run_close(run);
}

static void
test_refresh(void)
{
  nmb_run *run = nmb__run_open(stderr);
  const char *text = "";
  for (int i = 0; i < 100; i++)
    text = nmb_format(run, "%sAiM MAC_ABK 64 1 %d\n", text, i);
  const nmb_aim_result off = execute(run, text, false, NULL),
                       on = execute(run, text, true, NULL);
  const int64_t due = on.cycles / 3333;
  CU_ASSERT_EQUAL(off.time[NMB_CAUSE_REFRESH], 0);
  /* each one costs at least its own length, at most that and opening a row again */
  CU_ASSERT_TRUE(on.cycles - off.cycles >= due * 210);
  CU_ASSERT_TRUE(on.cycles - off.cycles <= due * (210 + 12 + 32 + 32 + 56));
  nmb__run_close(run);
}

/* ----------------------------------------------------------------------- text */
static void
test_round_trip(void)
{
  nmb_run *run = nmb__run_open(stderr);
  static const char program[] =
      "W MEM 0 2 8\nR MEM 3 15 9\nW GPR 1\nR GPR 5\nW CFR 0 1\nAiM WR_SBK 2 0 1 3 7\n"
      "AiM WR_ABK 0 15 4\nAiM WR_GB 2 2 15\nAiM WR_BIAS 4 15\nAiM MAC_SBK 2 15 1 6\n"
      "AiM MAC_ABK 2 15 6\nAiM EWMUL 2 15 6\nAiM AF 15\nAiM RD_MAC 8 15\nAiM RD_AF 12 15\n"
      "AiM EWADD 4 8 12\nAiM COPY_BKGB 2 15 3 1\nAiM COPY_GBBK 2 15 3 1\n"
      "AiM RD_SBK 20 8 2 5\nAiM SYNC\nAiM EOC\n";
  const nmb_aim_list l = parse(run, program);
  char *text = NULL;
  size_t len = 0;
  FILE *f = open_memstream(&text, &len);
  nmb_aim_print(&l, f);
  fclose(f);
  CU_ASSERT_STRING_EQUAL(text, program);
  free(text);
  /* commas, comments and hexadecimal as in the simulator's own files */
  CU_ASSERT_EQUAL(parse(run, "#,AiM,[opcode],,\n,AiM,MAC_ABK,2,0xf,0,,,\n,,,\n").n, 1);
  CU_ASSERT_TRUE(execute(run, program, true, NULL).cycles > 0);
  nmb__run_close(run);
}

static void
test_errors(void)
{
  static const char *const bad[][2] = {
      {"AiM EOC\nAiM MAC_ABQ 1 1 1\n", "did you mean 'MAC_ABK'"},
      {"AiM EOC\nAiM MAC_ABK 1 1\n", "found 2 fields, expected 3"},
      {"AiM EOC\nAiM MAC_ABK 0 1 1\n", "size: found 0"},
      {"AiM EOC\nAiM MAC_ABK 1 0 1\n", "channel mask: found 0"},
      {"AiM EOC\nAiM MAC_SBK 1 1 16 1\n", "bank: found '16'"},
      {"AiM EOC\nAiM MAC_ABK 1 1 -1\n", "row: found '-1'"},
      {"AiM EOC\nR MEM 64 1 1\n", "channel: found '64'"},
      {"AiM EOC\nMAC_ABK 1 1 1\n", "expected an instruction"},
      {"AiM EOC\nAiM\n", "expected an instruction"},
      {"\n# nothing\n", "found no instruction"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    nmb_run *run = nmb__run_open(NULL);
    nmb_aim_list l;
    CU_ASSERT_EQUAL(nmb_aim_parse(run, "t", bad[i][0], strlen(bad[i][0]), &l),
                    NMB_BADINPUT);
    CU_ASSERT_PTR_NOT_NULL(strstr(nmb_error_text(run), bad[i][1]));
    if (i < 9)
      CU_ASSERT_PTR_NOT_NULL(strstr(nmb_error_text(run), "t:2: "));
    nmb__run_close(run);
  }
  nmb_run *run = nmb__run_open(NULL);
  const nmb_aim_list l = parse(run, "AiM MAC_ABK 1 256 1\n");
  nmb_aim_result r;
  CU_ASSERT_EQUAL(nmb_aim_execute(run, NULL, false, 8, &l, NULL, &r), NMB_BADINPUT);
  nmb__run_close(run);
}

UNIT_MAIN("aim", {"columns that share a filled buffer, stamp by stamp", test_schedule_reuse},
          {"each column in a turn of its own, stamp by stamp", test_schedule_turns},
          {"rows of MACs take as long as the law says", test_mac_law},
          {"channels are independent but for SYNC", test_channels},
          {"refresh costs its length and a row", test_refresh},
          {"every instruction reads back as it was written", test_round_trip},
          {"what is wrong is named with its line", test_errors})
