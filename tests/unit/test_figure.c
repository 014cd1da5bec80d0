/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Figures of a table made by hand: what stands in the data files, and what is
 * refused. */
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/figure.h"
#include "tests/unit/unit.h"

#define NCELL 18
static char dir[64];

/* Three models x two machines x three pipelines.  `all` is 2, 4, 0.5 times as fast as
 * `base` on m1, `+fuse` always 1.25 times; nothing of model c fits m2. */
static nmb__store *
table(nmb_run *run, const char *config)
{
  static const char *const model[] = {"a", "b", "c"}, *const machine[] = {"m1", "m2"};
  static const char *const pipe[] = {"base", "+fuse", "all"};
  static const double all[] = {2, 4, 0.5};
  static const char *const text[] = {"key",      "model", "machine", "pipeline",
                                     "ablation", "slot",  "status",  "sweep"};
  nmb__store *s = nmb__store_new(run, NCELL);
  s->config = config;
  const int dim[2] = {nmb__store_dim_add(s, "engine"), nmb__store_dim_add(s, "cause")};
  nmb__dim_add(s, dim[0], "pim");
  nmb__dim_add(s, dim[0], "host");
  nmb__dim_add(s, dim[1], "compute");
  nmb__dim_add(s, dim[1], "bus");
  nmb__col *c[16];
  for (int i = 0; i < 8; i++)
    nmb__store_col_add(s, NMB__TEXT, text[i], 0, NULL);
  nmb__store_col_add(s, NMB__WHOLE, "batch", 0, NULL);
  nmb__store_col_add(s, NMB__REAL, "latency", 0, NULL)->unit = "s";
  nmb__store_col_add(s, NMB__REAL, "energy", 0, NULL)->unit = "J/token";
  nmb__store_col_add(s, NMB__REAL, "bound", 0, NULL)->unit = "s";
  nmb__store_col_add(s, NMB__REAL, "latency_by_engine_cause", 2, dim);
  for (int i = 0; i < s->ncol; i++)
    c[i] = &s->col[i];
  for (int m = 0, i = 0; m < 3; m++)
    for (int h = 0; h < 2; h++)
      for (int p = 0; p < 3; p++, i++) {
        const bool bad = m == 2 && h == 1;
        c[0]->text[i] = nmb_format(run, "k%d", i);
        c[1]->text[i] = model[m];
        c[2]->text[i] = machine[h];
        c[3]->text[i] = pipe[p];
        c[6]->text[i] = bad ? "infeasible" : "ok";
        c[7]->text[i] = "main";
        c[8]->num[i] = 8;
        if (bad)
          continue;
        const double t = 0.01 * (m + 1) * (h + 1) / (p == 0 ? 1 : p == 1 ? 1.25 : all[m]);
        c[9]->num[i] = t;
        c[10]->num[i] = 3 - 0.1 * i;
        c[11]->num[i] = t / 1.6;
        for (int j = 0; j < 3; j++)
          c[12]->num[4 * i + j] = t * (j + 1) / 6; /* host bus: no value */
      }
  return s;
}

static const char *
slurp(nmb_run *run, const char *name)
{
  FILE *f = fopen(nmb_format(run, "%s/%s", dir, name), "r");
  char *text = nmb_alloc(run, 65536, 1);
  if (f != NULL) {
    const size_t n = fread(text, 1, 65535, f);
    text[n] = '\0';
    fclose(f);
  }
  return text;
}

/* Field `col` (from 0) of the first row whose last fields are these. */
static const char *
field(nmb_run *run, const char *dat, const char *end, int col)
{
  const char *at = strstr(dat, nmb_format(run, "\t%s\n", end));
  if (at == NULL)
    return "no such row";
  while (at > dat && at[-1] != '\n')
    at--;
  for (; col > 0; col--)
    at += strcspn(at, "\t") + 1;
  return nmb_format(run, "%.*s", (int)strcspn(at, "\t\n"), at);
}

static nmb_status
write_only(nmb_run *run, nmb__store *s)
{
  nmb__figures all;
  NMB_TRY(nmb__figures_parse(run, "x.cfg", s->config, &all));
  for (int i = 0; i < all.n; i++)
    NMB_TRY(nmb__figure_write(run, s, &all, &all.v[i], dir));
  return NMB_OK;
}

static nmb_run *
open_run(void)
{
  if (dir[0] == '\0') {
    snprintf(dir, sizeof dir, "test_figure.%ld", (long)getpid());
    nmb_run *run = nmb__run_open(NULL);
    if (system(nmb_format(run, "mkdir -p %s", dir)) != 0)
      exit(99);
    nmb__run_close(run);
  }
  return nmb__run_open(NULL);
}

static void
test_bars(void)
{
  nmb_run *run = open_run();
  nmb__store *s = table(run, "figures = ( { name = \"f\"; kind = \"bars\"; facet = "
                             "\"machine\"; relative_to = \"base\"; where = { pipeline = "
                             "[\"all\", \"+fuse\"]; }; } );");
  CU_ASSERT_EQUAL_FATAL(write_only(run, s), NMB_OK);
  const char *dat = slurp(run, "f.dat");
  CU_ASSERT_STRING_EQUAL(field(run, dat, "a\tall\tm1", 1), "2");
  CU_ASSERT_STRING_EQUAL(field(run, dat, "c\tall\tm1", 1), "0.5");
  CU_ASSERT_STRING_EQUAL(field(run, dat, "b\t+fuse\tm2", 1), "1.25");
  CU_ASSERT_STRING_EQUAL(field(run, dat, "c\tall\tm2", 5), "OOM");
  CU_ASSERT_STRING_EQUAL(field(run, dat, "a\tall\tm1", 2), "nan"); /* one value */
  /* (2 * 4 * 0.5)^(1/3); three units: an interval; two: none */
  CU_ASSERT_STRING_EQUAL(field(run, dat, "geomean\tall\tm1", 1), "1.5874");
  CU_ASSERT_STRING_EQUAL(field(run, dat, "geomean\tall\tm1", 4), "3");
  CU_ASSERT_STRING_EQUAL(field(run, dat, "geomean\tall\tm1", 2), "0.5");
  CU_ASSERT_STRING_EQUAL(field(run, dat, "geomean\tall\tm2", 1), "2.82843");
  CU_ASSERT_STRING_EQUAL(field(run, dat, "geomean\tall\tm2", 4), "2");
  CU_ASSERT_STRING_EQUAL(field(run, dat, "geomean\tall\tm2", 2), "nan");
  const char *gp = slurp(run, "f.gp");
  CU_ASSERT_PTR_NOT_NULL(strstr(gp, "'f.dat' index"));
  CU_ASSERT_PTR_NULL(strstr(gp, dir)); /* may be moved */
  CU_ASSERT_PTR_NOT_NULL(strstr(gp, "OOM"));
  nmb__run_close(run);
}

static void
test_gap(void)
{
  nmb_run *run = open_run();
  nmb__store *s =
      table(run, "figures = ( { name = \"g\"; kind = \"gap\"; where = { machine "
                 "= \"m1\"; }; } );");
  CU_ASSERT_EQUAL_FATAL(write_only(run, s), NMB_OK);
  CU_ASSERT_STRING_EQUAL(field(run, slurp(run, "g.dat"), "b\tall\t", 1), "1.6");
  nmb__run_close(run);
}

static void
test_stacked(void)
{
  nmb_run *run = open_run();
  nmb__store *s =
      table(run, "figures = ( { name = \"s\"; kind = \"stacked\"; where = { machine = "
                 "\"m2\"; }; } );");
  CU_ASSERT_EQUAL_FATAL(write_only(run, s), NMB_OK);
  const char *dat = slurp(run, "s.dat");
  CU_ASSERT_PTR_NOT_NULL(strstr(dat, "(ms)"));
  /* a, base on m2: 20 ms, a sixth of it is pim compute; the largest part comes first */
  CU_ASSERT_PTR_NOT_NULL(strstr(dat, "\ta\tbase\t\t1\t20\t3.33333333\t6.66666667\t10"));
  nmb__col *c = &s->col[12];
  c->num[4 * 3] *= 1.01;
  CU_ASSERT_EQUAL(write_only(run, s), NMB_BADINPUT);
  CU_ASSERT_PTR_NOT_NULL(strstr(nmb_error_text(run), "parts of cell k3 add up to"));
  nmb__run_close(run);
}

static void
test_pareto(void)
{
  nmb_run *run = open_run();
  nmb__store *s =
      table(run, "figures = ( { name = \"p\"; kind = \"pareto\"; where = { model "
                 "= \"a\"; }; } );");
  CU_ASSERT_EQUAL_FATAL(write_only(run, s), NMB_OK);
  const char *dat = slurp(run, "p.dat");
  /* cells of a: (10, 3) (8, 2.9) (5, 2.8) | (20, 2.7) (16, 2.6) (10, 2.5) */
  CU_ASSERT_STRING_EQUAL(field(run, dat, "base\t\tk0", 2), "0");
  CU_ASSERT_STRING_EQUAL(field(run, dat, "all\t\tk2", 2), "1");
  CU_ASSERT_STRING_EQUAL(field(run, dat, "base\t\tk3", 2), "0");
  CU_ASSERT_STRING_EQUAL(field(run, dat, "all\t\tk5", 2), "1");
  CU_ASSERT_PTR_NOT_NULL(strstr(dat, "n = 6 cells, 2 on the front"));
  /* the tables: all six points after a head, the two of the front between two rules */
  const char *csv = slurp(run, "p.csv"), *tex = slurp(run, "p.tex");
  int lines = 0, rows = 0;
  for (const char *at = csv; (at = strchr(at, 10)); at++)
    lines++;
  for (const char *at = tex; (at = strstr(at, " \\\\\n")); at++)
    rows++;
  CU_ASSERT_EQUAL(lines, 7);
  CU_ASSERT_EQUAL(rows, 1 + 2 + (strstr(tex, "\\multicolumn") != NULL));
  CU_ASSERT_PTR_NOT_NULL(strstr(csv, ",1,0.005"));
  CU_ASSERT_PTR_NOT_NULL(strstr(csv, ",0,0.008"));
  nmb__run_close(run);
}

static void
refused(const char *config, const char *text)
{
  nmb_run *run = open_run();
  CU_ASSERT_EQUAL(write_only(run, table(run, config)), NMB_BADINPUT);
  if (strstr(nmb_error_text(run), text) == NULL)
    printf("\n  found: %s\n  expected: %s\n", nmb_error_text(run), text);
  CU_ASSERT_PTR_NOT_NULL(strstr(nmb_error_text(run), text));
  nmb__run_close(run);
}

static void
test_refused(void)
{
  refused("figures = ( { name = \"f\"; kind = \"bar\"; } );",
          "unknown kind of figure 'bar'; did you mean 'bars'?");
  refused("figures = (\n { name = \"f\"; kind = \"gap\"; goup = \"model\"; } );",
          "unknown key 'goup' of a figure; did you mean 'group'?");
  refused("figures = ( { name = \"f\"; kind = \"bars\"; } );", "needs relative_to");
  refused("figures = ( { name = \"../f\"; kind = \"gap\"; } );", "letters, digits");
  refused("figures = ( { name = \"f\"; kind = \"gap\"; }, { name = \"f\"; kind = "
          "\"gap\"; } );",
          "two figures are called 'f'");
  refused("figures = ( { name = \"f\"; kind = \"gap\"; y = \"latencyy\"; } );",
          "no column 'latencyy'; did you mean 'latency'?");
  refused("figures = ( { name = \"f\"; kind = \"gap\"; y = \"model\"; } );",
          "holds text, expected numbers");
  refused(
      "figures = ( { name = \"f\"; kind = \"gap\"; where = { machine = \"m3\"; }; } );",
      "no cell has machine 'm3'");
  refused("figures = ( { name = \"f\"; kind = \"bars\"; relative_to = \"bsae\"; } );",
          "no cell has pipeline 'bsae'; did you mean 'base'?");
  refused(
      "figures = ( { name = \"f\"; kind = \"gap\"; where = { model = \"c\"; machine = "
      "\"m2\"; }; } );",
      "none of them with a result");
  refused("figures = ( { name = \"f\"; kind = \"lines\"; x = \"model\"; relative_to = "
          "\"base\"; } );",
          "expected numbers");
  refused("figures = ( { name = \"f\"; kind = \"stacked\"; y = \"energy\"; } );",
          "no breakdown of 'energy' by engine cause");
}

/* A name with a backquote must not become a command of gnuplot's shell. */
static void
test_quoting(void)
{
  nmb_run *run = open_run();
  nmb__store *s =
      table(run, "labels = ( [\"a\", \"`touch bad` \\\"x\\\"\"] ); figures = ( { "
                 "name = \"q\"; kind = \"gap\"; } );");
  CU_ASSERT_EQUAL_FATAL(write_only(run, s), NMB_OK);
  const char *gp = slurp(run, "q.gp");
  CU_ASSERT_PTR_NOT_NULL(strstr(gp, "touch"));
  CU_ASSERT_PTR_NULL(strchr(gp, '`'));
  nmb__run_close(run);
  run = nmb__run_open(NULL);
  CU_ASSERT_EQUAL(system(nmb_format(run, "rm -r %s", dir)), 0);
  nmb__run_close(run);
}

UNIT_MAIN("figure", {"bars hold the ratios, their means and what is missing", test_bars},
          {"the gap is a multiple of the bound", test_gap},
          {"a stack adds up or is refused", test_stacked},
          {"a front is marked", test_pareto},
          {"a wrong figure is refused with the reason", test_refused},
          {"labels are quoted", test_quoting})
