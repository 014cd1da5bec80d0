/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The ledger: reading rows, picking numbers, judging, sums of a source. */
#include "config.h" /* first: names outside of C11 */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/run.h"
#include "harness/ledger.h"
#include "tests/unit/unit.h"

#define HEAD "target,source,command,result,published,unit,tolerance,flags,note\n"

/* Reads a ledger with these lines; how many rows, -1 after a failure. */
static int
read_text(nmb_run *run, const char *text, nmb__target **t)
{
  char path[] = "test_ledger.XXXXXX";
  const int fd = mkstemp(path);
  FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
  int n = 0;
  if (!f)
    abort();
  fputs(text, f);
  fclose(f);
  *t = NULL;
  const nmb_status s = nmb__ledger_read(run, path, t, &n);
  unlink(path);
  return s == NMB_OK ? n : -1;
}

static void
test_read(void)
{
  nmb_run *run = nmb__run_open(NULL);
  nmb__target *t;
  CU_ASSERT_EQUAL_FATAL(
      read_text(run,
                "# a comment\n" HEAD "\n"
                "a,\"S, the \"\"first\"\"\",op x,time,2.5,ms,5%,quick fit,\r\n"
                "b,T,,,7,x,order,,cannot be said\n",
                &t),
      2);
  CU_ASSERT_STRING_EQUAL(t[0].source, "S, the \"first\"");
  CU_ASSERT_DOUBLE_EQUAL(t[0].scale, 1e-3, 1e-18);
  CU_ASSERT_DOUBLE_EQUAL(t[0].limit, 0.05, 1e-15);
  CU_ASSERT_TRUE(t[0].quick && t[0].fit && t[0].calibrated && !t[0].doubtful);
  CU_ASSERT_STRING_EQUAL(t[1].note, "cannot be said");
  CU_ASSERT_EQUAL(t[1].kind, NMB__TOL_ORDER);
  CU_ASSERT_EQUAL(t[1].loc.line, 5);
  nmb__run_close(run);
}

static void
test_refusals(void)
{
  static const char *const bad[][2] = {
      {"target,sauce\n", "expected 'source'"},
      {HEAD "a,S,c,r,1,ms,5%,\n", "found 8 columns"},
      {HEAD "a,S,c,r,one,ms,5%,,\n", "column published: found 'one'"},
      {HEAD "a,S,c,r,1,ms,5,,\n", "column tolerance: found '5'"},
      {HEAD "a,S,c,r,1,ms,exact,quik,\n", "did you mean 'quick'?"},
      {HEAD "a,S,,,1,ms,exact,,\n", "needs a note"},
      {HEAD "a,S,c,r,1,ms,exact,doubtful,\n", "needs a note"},
      {HEAD "a,S,c,,1,ms,exact,,\n", "column result is empty"},
      {HEAD ",S,c,r,1,ms,exact,,\n", "column target is empty"},
      {HEAD "a,\"S,c,r,1,ms,exact,,\n", "a quote is not closed"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    nmb_run *run = nmb__run_open(NULL);
    nmb__target *t;
    CU_ASSERT_EQUAL(read_text(run, bad[i][0], &t), -1);
    CU_ASSERT_PTR_NOT_NULL(strstr(nmb_error_text(run), bad[i][1]));
    nmb__run_close(run);
  }
}

static void
test_pick(void)
{
  json_t *j = json_pack("{s:i, s:{s:f}, s:[{s:s, s:f}, {s:s, s:f}], s:n}", "cycles", 12,
                        "energy", "total", 2.5, "metrics", "name", "bound", "value", 1.0,
                        "name", "latency", "value", 4.0, "nothing");
  double v = 0;
  CU_ASSERT_TRUE(nmb__ledger_pick(j, "cycles", &v) && v == 12);
  CU_ASSERT_TRUE(nmb__ledger_pick(j, "energy.total", &v) && v == 2.5);
  CU_ASSERT_TRUE(nmb__ledger_pick(j, "metrics.latency", &v) && v == 4);
  CU_ASSERT_TRUE(nmb__ledger_pick(j, "10/metrics.latency", &v) && v == 2.5);
  CU_ASSERT_TRUE(nmb__ledger_pick(j, "1e-3*cycles", &v) && v == 0.012);
  CU_ASSERT_FALSE(nmb__ledger_pick(j, "energy", &v));
  CU_ASSERT_FALSE(nmb__ledger_pick(j, "cycle", &v));
  CU_ASSERT_FALSE(nmb__ledger_pick(j, "nothing", &v));
  json_decref(j);
}

static nmb__target
row(const char *unit, double published, nmb__tolerance kind, double limit)
{
  return (nmb__target){.source = "S",
                       .result = "r",
                       .unit = unit,
                       .published = published,
                       .scale = 1,
                       .kind = kind,
                       .limit = limit};
}

static void
test_judge(void)
{
  nmb__target t = row("cycle", 100, NMB__TOL_WITHIN, 0.05);
  CU_ASSERT_EQUAL(nmb__ledger_judge(&t, 105).verdict, NMB__VERDICT_PASS);
  CU_ASSERT_EQUAL(nmb__ledger_judge(&t, 94.9).verdict, NMB__VERDICT_FAIL);
  t.doubtful = true;
  CU_ASSERT_EQUAL(nmb__ledger_judge(&t, 94.9).verdict, NMB__VERDICT_DOUBT);
  t.fit = true;
  CU_ASSERT_EQUAL(nmb__ledger_judge(&t, 100).verdict, NMB__VERDICT_FIT);
  t = row("cycle", 100, NMB__TOL_EXACT, 0);
  CU_ASSERT_EQUAL(nmb__ledger_judge(&t, 101).verdict, NMB__VERDICT_FAIL);
  t = row("x", 2, NMB__TOL_WITHIN, 0.1);
  CU_ASSERT_DOUBLE_EQUAL(nmb__ledger_judge(&t, 1).error, -log(2), 1e-12);
  t = row("x", 2, NMB__TOL_AT_LEAST, 0);
  CU_ASSERT_EQUAL(nmb__ledger_judge(&t, 2.1).verdict, NMB__VERDICT_PASS);
  CU_ASSERT_EQUAL(nmb__ledger_judge(&t, 1.9).verdict, NMB__VERDICT_FAIL);
}

/* Fitted rows and bounds have no share; columns stay apart; the order counts. */
static void
test_sums(void)
{
  nmb_run *run = nmb__run_open(NULL);
  nmb__target t[6];
  nmb__outcome o[6];
  const double published[] = {10, 20, 40, 30, 10, 1}, ours[] = {11, 20, 30, 60, 10, 2};
  nmb__ledger_sum *s;
  for (int i = 0; i < 6; i++)
    t[i] = row("cycle", published[i], NMB__TOL_WITHIN, 0.1001);
  t[3].calibrated = t[4].calibrated = t[4].fit = true;
  t[5].kind = NMB__TOL_AT_LEAST;
  for (int i = 0; i < 6; i++)
    o[i] = nmb__ledger_judge(&t[i], ours[i]);
  CU_ASSERT_EQUAL_FATAL(nmb__ledger_sums(run, t, o, 6, &s), 2);
  CU_ASSERT_EQUAL(s[0].rows, 4);
  CU_ASSERT_EQUAL(s[0].counted, 3);
  CU_ASSERT_EQUAL(s[0].within, 2);
  CU_ASSERT_DOUBLE_EQUAL(s[0].mean, (0.1 + 0 + 0.25) / 3, 1e-12);
  CU_ASSERT_DOUBLE_EQUAL(s[0].median, 0.1, 1e-12);
  CU_ASSERT_DOUBLE_EQUAL(s[0].worst, 0.25, 1e-12);
  CU_ASSERT_DOUBLE_EQUAL(s[0].tau, 1, 1e-12);
  CU_ASSERT_EQUAL(s[1].counted, 1);
  CU_ASSERT_DOUBLE_EQUAL(s[1].worst, 1, 1e-12);
  CU_ASSERT_TRUE(isnan(s[1].tau));
  o[2].ours = 15; /* below the second: two pairs agree, one does not */
  nmb__ledger_sums(run, t, o, 6, &s);
  CU_ASSERT_DOUBLE_EQUAL(s[0].tau, 1.0 / 3, 1e-12);
  nmb__run_close(run);
}

UNIT_MAIN("ledger", {"rows are read, quotes and all", test_read},
          {"a wrong row is refused with its place", test_refusals},
          {"a number is picked out of what a command prints", test_pick},
          {"errors and verdicts", test_judge}, {"sums of a source", test_sums})
