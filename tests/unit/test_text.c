/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/fixture.h"
#include "tests/unit/unit.h"

/* Printed text, to be freed. */
static char *
print(const nmb_prog *p, nmb_bits sections)
{
  char *text = NULL;
  size_t len = 0;
  FILE *f = open_memstream(&text, &len);
  nmb_prog_print(p, sections, f);
  fclose(f);
  return text;
}

static nmb_status
parse(nmb_run *run, const char *text, nmb_prog **out)
{
  return nmb_prog_parse(run, "t.nmb", text, strlen(text), &fixture_hw, out);
}

/* print(parse(print(p))) is print(p), and the hashes agree. */
static void
check_round_trip(const nmb_prog *p)
{
  nmb_run *run = nmb__run_open(stderr);
  nmb_prog *q = NULL;
  char *a = print(p, NMB_ALL), *b = NULL;
  CU_ASSERT_EQUAL(nmb_prog_parse(run, "t.nmb", a, strlen(a), p->hw, &q), NMB_OK);
  if (q) {
    b = print(q, NMB_ALL);
    CU_ASSERT_STRING_EQUAL(a, b);
    for (int s = 0; s < NMB_NSECTION; s++)
      CU_ASSERT_EQUAL(nmb_prog_hash(p, (nmb_section)s), nmb_prog_hash(q, (nmb_section)s));
  }
  nmb_prog_free(q);
  free(a);
  free(b);
  nmb__run_close(run);
}

static void
test_graph(void)
{
  nmb_run *run = nmb__run_open(stderr);
  nmb_prog *p = fixture_prog();
  CU_ASSERT_EQUAL(nmb_prog_verify(run, p, NMB_ALL), NMB_OK);
  check_round_trip(p);
  nmb_prog_free(p);
  nmb__run_close(run);
}

static void
test_sections(void)
{
  nmb_run *run = nmb__run_open(stderr);
  nmb_prog *p = fixture_prog();
  CU_ASSERT_EQUAL(fixture_compile(run, p, FIXTURE_PASSES), NMB_OK);
  CU_ASSERT_EQUAL(p->present, NMB_ALL);
  check_round_trip(p);
  p->hw = NULL; /* engines and memories by number */
  check_round_trip(p);
  nmb_prog_free(p);
  nmb__run_close(run);
}

/* A header and one block of one op, with `line` in place of the op. */
static void
check_error(const char *line, const char *expected)
{
  nmb_run *run = nmb__run_open(NULL);
  nmb_prog *p = NULL;
  const char *text =
      nmb_format(run,
                 "nmbench 1\nmodel m\nstep decode batch 3 fresh 1 context 7\n"
                 "graph {\n  block a(%%x) -> %%y {\n    act %%x : bf16[3,8]\n"
                 "    weight %%w : bf16[5,8]\n%s\n  }\n  order a x 1\n}\n",
                 line);
  CU_ASSERT_EQUAL(parse(run, text, &p), expected ? NMB_BADINPUT : NMB_OK);
  if (strcmp(nmb_error_text(run), expected ? expected : ""))
    fprintf(stderr, "found:    %s\nexpected: %s\n", nmb_error_text(run), expected);
  CU_ASSERT_STRING_EQUAL(nmb_error_text(run), expected ? expected : "");
  nmb_prog_free(p);
  nmb__run_close(run);
}

static void
test_errors(void)
{
  check_error("%y = linear(%x, %w) : bf16[3,5]", NULL);
  check_error("%y = linaer(%x, %w) : bf16[3,5]",
              "t.nmb:8:6: found 'linaer', expected an op; did you mean 'linear'?");
  check_error("%y = linear(%x, %v) : bf16[3,5]",
              "t.nmb:8:17: found '%v', expected a tensor of block a");
  check_error("%y = linear(%x) : bf16[3,5]", "t.nmb:8:15: found ')', expected at least 2 "
                                             "inputs of linear");
  check_error("%y, %z = linear(%x, %w) : bf16[3,5]",
              "t.nmb:8:10: found 2 outputs of linear, expected 1");
  check_error("%x = linear(%x, %w) : bf16[3,5]",
              "t.nmb:8:1: '%x' is defined a second time");
  check_error("%y = linear(%x, %w) : bf61[3,5]",
              "t.nmb:8:23: found 'bf61', expected a number format; did you mean 'bf16'?");
  check_error("%y = linear(%x, %w) : bf16[3,0]",
              "t.nmb:8:30: found 0 for a dimension, expected 1 to 1501199875790165");
  check_error("%y = linear(%x, %w) : bf16[9223372036854775808,1]",
              "t.nmb:8:28: found a number that is too big, expected a dimension");
  check_error("%y = linear(%x, %w) : bf16[9223372036854775807,2]",
              "t.nmb:8:28: found 9223372036854775807 for a dimension, expected 1 to "
              "4503599627370496");
  check_error("%y = act(%x) {fn=relu, fn=relu} : bf16[3,8]",
              "t.nmb:8:24: attribute 'fn' is given a second time");
  check_error(
      "%y = act(%x) {limt=1} : bf16[3,8]",
      "t.nmb:8:15: found 'limt', expected an attribute of act; did you mean 'limit'?");
  check_error("%y = linear(%x, %w) : bf16[3,5] }",
              "t.nmb:10:3: found 'order', expected a section");
  check_error("%y = \"linear", "t.nmb:8:6: found a string without its closing quote, "
                               "expected an op");
}

static void
test_truncated(void)
{
  nmb_prog *p = fixture_prog();
  char *text = print(p, NMB_ALL);
  const size_t len = strlen(text);
  for (size_t n = 0; n + 2 < len; n++) {
    nmb_run *run = nmb__run_open(NULL);
    nmb_prog *q = NULL;
    char *cut = malloc(n + 1); /* ends where the text ends, for the sanitizers */
    memcpy(cut, text, n);
    CU_ASSERT_EQUAL(nmb_prog_parse(run, "t.nmb", cut, n, &fixture_hw, &q), NMB_BADINPUT);
    CU_ASSERT_PTR_NULL(q);
    free(cut);
    nmb__run_close(run);
  }
  free(text);
  nmb_prog_free(p);
}

static void
test_names(void)
{
  nmb_prog *p = nmb_prog_new("a \"b\"\\\n\x01", (nmb_step_spec){NMB_PREFILL, 1, 3, 0});
  const nmb_id b = nmb_block_add(p, "7 up->");
  const nmb_id x =
      fixture_tensor(p, b, "0", NMB_ROLE_INPUT, NMB_DT_BF16, FIXTURE_DIMS(3, 7));
  const nmb_attr limit[] = {NMB_REAL("limit", 0.1),
                            NMB_REAL("limit", 1e300 * 1e300),
                            NMB_REAL("limit", 1.0),
                            NMB_REAL("limit", -0.0),
                            NMB_REAL("limit", 4.9e-324),
                            NMB_REAL("limit", -1e300 * 1e300),
                            NMB_INT("limit", INT64_MIN),
                            NMB_REAL("limit", 1.0 / 3),
                            NMB_REAL("limit", 1.7976931348623157e308)};
  for (size_t i = 0; i < sizeof limit / sizeof *limit; i++)
    fixture_op(p, b, NMB_OP_ACT, "a%b", FIXTURE_IN(x),
               FIXTURE_ATTR(NMB_SYM("fn", i ? "x y" : ""), limit[i]), FIXTURE_DIMS(3, 7));
  nmb_order_add(p, b, 1);
  check_round_trip(p);
  nmb_prog_free(p);
}

UNIT_MAIN("text", {"a graph reads back as it was printed", test_graph},
          {"all sections read back as they were printed", test_sections},
          {"odd names and numbers read back", test_names},
          {"a mistake is named with its place", test_errors},
          {"a text cut anywhere is refused", test_truncated})
