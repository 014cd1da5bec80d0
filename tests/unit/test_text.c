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

/* ---------------------------------------------------------- random programs */
typedef struct maker {
  nmb_run *run;
  nmb_prog *p;
} maker;

static int64_t
below(maker *m, int64_t n)
{
  return (int64_t)(nmb_rand(m->run) % (uint64_t)n);
}

/* Any number, small and extreme ones often. */
static int64_t
any(maker *m)
{
  switch (below(m, 4)) {
  case 0: return below(m, 100) - 50;
  case 1: return INT64_MIN + below(m, 3);
  case 2: return INT64_MAX - below(m, 3);
  default: return (int64_t)nmb_rand(m->run);
  }
}

static int
any_int(maker *m)
{
  return (int)(int32_t)any(m);
}

static double
any_real(maker *m)
{
  double r;
  const uint64_t bits = nmb_rand(m->run);
  memcpy(&r, &bits, sizeof r);
  return below(m, 2) ? r : (double)any(m) / 1024;
}

static const char *
any_name(maker *m)
{
  char s[24];
  const int64_t n = 1 + below(m, 20);
  for (int64_t i = 0; i < n; i++)
    s[i] = (char)(below(m, 8) ? 'a' + below(m, 26) : 1 + below(m, 255));
  s[n] = '\0';
  return nmb_strdup(m->run, s);
}

static nmb_id
any_tensor(maker *m, nmb_id block, nmb_role role)
{
  nmb_tensor t = {.name = any_name(m),
                  .block = block,
                  .dtype = (nmb_dtype)below(m, NMB_NDTYPE),
                  .group = (int)below(m, 3),
                  .role = role,
                  .rank = 1 + (int)below(m, NMB_MAXRANK)};
  for (int i = 0; i < t.rank; i++)
    t.dim[i] = 1 + below(m, i ? 100 : 1000000);
  return nmb_tensor_add(m->p, &t);
}

/* Ops over any tensors of the block so far: shapes do not matter to the text. */
static void
any_block(maker *m)
{
  const nmb_id b =
      nmb_block_add(m->p, nmb_format(m->run, "%s %d", any_name(m), m->p->nblock));
  const int first = m->p->ntensor;
  for (int64_t i = 1 + below(m, 5); i > 0; i--)
    any_tensor(m, b, (nmb_role)below(m, NMB_NROLE));
  for (int64_t i = below(m, 9); i > 0; i--) {
    nmb_op o = {.code = (nmb_opcode)below(m, NMB_NOP), .block = b};
    const nmb_op_info *info = nmb_op_get(o.code);
    o.nin = info->nin_min + (int)below(m, info->nin_max - info->nin_min + 1);
    for (int j = 0; j < o.nin; j++)
      o.in[j] = first + (nmb_id)below(m, m->p->ntensor - first);
    for (; o.nout < info->nout; o.nout++)
      o.out[o.nout] = any_tensor(m, b, below(m, 9) ? NMB_ROLE_ACT : NMB_ROLE_KV);
    if (o.code == NMB_OP_ROPE) {
      o.attr[o.nattr++] = NMB_INT("dims", any(m));
      o.attr[o.nattr++] = NMB_REAL("theta", any_real(m));
      o.attr[o.nattr++] = NMB_SYM("scaling", any_name(m));
    }
    nmb_op_add(m->p, &o);
  }
  nmb_block_ends(m->p, b, below(m, 2) ? NMB_NONE : first, m->p->ntensor - 1);
  nmb_order_add(m->p, b, 1 + below(m, 100));
}

static void
any_plan(maker *m)
{
  nmb_prog *p = m->p;
  nmb_section_begin(p, NMB_GROUPS);
  for (nmb_id i = 0; i < p->nop; i++)
    nmb_kernel_add(p, p->op[i].block, &i, 1);
  nmb_section_begin(p, NMB_DISPATCH);
  for (nmb_id i = 0; i < p->nkernel; i++)
    nmb_dispatch_set(p, i, (nmb_id)below(m, FIXTURE_NENGINE + 1) - 1);
  nmb_section_begin(p, NMB_MAPPING);
  for (nmb_id i = 0; i < p->nkernel; i++)
    nmb_map_add(p, &(nmb_map){i, any(m), any(m), any(m), any(m)});
  for (int64_t i = below(m, 5); i > 0; i--)
    nmb_layout_add(p, &(nmb_layout){(nmb_id)below(m, p->ntensor),
                                    (nmb_id)below(m, FIXTURE_NMEM),
                                    (nmb_lay_kind)below(m, 3), any(m), any_int(m),
                                    below(m, 2), any(m)});
  nmb_section_begin(p, NMB_SCHEDULE);
  for (nmb_id i = 0; i < p->nkernel; i++)
    nmb_step_add(
        p, &(nmb_step){i, (nmb_axis)below(m, 3), any_int(m), any_int(m), any(m), any(m)});
  nmb_section_begin(p, NMB_MEMORY);
  for (nmb_id i = 0; i < p->ntensor; i++)
    nmb_slot_add(p, &(nmb_slot){i, (nmb_id)below(m, FIXTURE_NMEM), below(m, 2), any(m),
                                any(m), (nmb_id)below(m, p->nstep + 1) - 1,
                                (nmb_id)below(m, p->nstep + 1) - 1});
}

static void
any_code(maker *m)
{
  nmb_prog *p = m->p;
  const int n = p->nop ? (int)below(m, 40) : 0;
  nmb_section_begin(p, NMB_CODE);
  for (int i = 0; i < n; i++) {
    nmb_insn x = {.kind = (nmb_insn_kind)below(m, NMB_NINSN),
                  .engine = (nmb_id)below(m, FIXTURE_NENGINE),
                  .op = (nmb_id)below(m, p->nop),
                  .step = (nmb_id)below(m, p->nstep + 1) - 1,
                  .first = below(m, 2)};
    x.block = p->op[x.op].block;
    if (below(m, 3) == 0)
      x.op = NMB_NONE;
    if (below(m, 2))
      x.tile = (nmb_tile){any(m), any(m), any(m), any(m), any(m), any(m), any(m), any(m)};
    if (below(m, 2))
      x.place = (nmb_place){any_int(m), any_int(m), any_int(m), any(m), any(m),
                            any(m),     any(m),     any(m),     any(m)};
    for (x.nopnd = (int)below(m, NMB_MAXOPND + 1); x.nwait < x.nopnd; x.nwait++)
      x.opnd[x.nwait] = (nmb_operand){(nmb_id)below(m, p->ntensor),
                                      (nmb_id)below(m, FIXTURE_NMEM),
                                      (nmb_id)below(m, p->nslot + 1) - 1,
                                      below(m, 2),
                                      any(m),
                                      any(m),
                                      any(m),
                                      any(m)};
    const nmb_id wait[] = {(nmb_id)below(m, n), (nmb_id)below(m, n)};
    x.nwait = (int)below(m, 3);
    x.wait = wait;
    nmb_insn_add(p, &x);
  }
}

static void
test_random(void)
{
  for (uint64_t seed = 1; seed <= 300; seed++) {
    maker m = {.run = nmb__run_open(stderr)};
    nmb__run_seed(m.run, seed);
    m.p = nmb_prog_new(any_name(&m),
                       (nmb_step_spec){below(&m, 2) ? NMB_DECODE : NMB_PREFILL,
                                       1 + below(&m, 99), 1 + below(&m, 99),
                                       below(&m, 9999)});
    nmb_prog_set_hw(m.p, seed % 3 ? &fixture_hw : NULL);
    const int32_t expert[] = {1, 0, 1, 0, 2, 3, 1, 0};
    if (seed % 2)
      nmb_routing_add(m.p, any_name(&m), 4, 2, 4, expert);
    for (int64_t i = 1 + below(&m, 4); i > 0; i--)
      any_block(&m);
    any_plan(&m);
    any_code(&m);
    check_round_trip(m.p);
    nmb_prog_free(m.p);
    nmb__run_close(m.run);
  }
}

UNIT_MAIN("text", {"a graph reads back as it was printed", test_graph},
          {"all sections read back as they were printed", test_sections},
          {"random programs read back as they were printed", test_random},
          {"odd names and numbers read back", test_names},
          {"a mistake is named with its place", test_errors},
          {"a text cut anywhere is refused", test_truncated})
