/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/store.h"
#include "tests/unit/unit.h"

/* Three cells: a label, a whole number, a metric and a breakdown over two labels. */
static nmb__store *
table(nmb_run *run)
{
  nmb__store *s = nmb__store_new(run, 3);
  s->name = "tiny";
  s->title = "a tiny table";
  s->config = "name = \"tiny\";\n";
  const int dim[2] = {nmb__store_dim_add(s, "engine"), nmb__store_dim_add(s, "cause")};
  nmb__dim_add(s, dim[0], "pim");
  nmb__dim_add(s, dim[0], "host");
  nmb__dim_add(s, dim[1], "compute");
  nmb__dim_add(s, dim[1], "row");
  nmb__dim_add(s, dim[1], "bus");
  nmb__col *c = nmb__store_col_add(s, NMB__TEXT, "sweep", 0, NULL);
  c->text[0] = "main";
  c->text[1] = "main large";
  c = nmb__store_col_add(s, NMB__WHOLE, "batch", 0, NULL);
  for (int i = 0; i < 3; i++)
    c->num[i] = 1 + 10 * i;
  c = nmb__store_col_add(s, NMB__REAL, "latency", 0, NULL);
  c->unit = "s";
  c->better = "less";
  c->help = "time of a step";
  c->num[0] = 0.1;
  c->num[2] = 1e-9;
  c = nmb__store_col_add(s, NMB__REAL, "time_by_engine_cause", 2, dim);
  for (int i = 0; i < 18; i++)
    c->num[i] = i == 7 ? (double)NAN : i * 0.3;
  c = nmb__store_col_add(s, NMB__REAL, "compile_time", 0, NULL);
  c->host = true;
  c->num[1] = 3.5;
  nmb__store_fact_add(s, "commit", "abc");
  return s;
}

static char path[64];

static void
name_file(void)
{
  snprintf(path, sizeof path, "test_store.%ld.h5", (long)getpid());
}

static void
test_round_trip(void)
{
  nmb_run *run = nmb__run_open(NULL);
  name_file();
  CU_ASSERT_EQUAL_FATAL(nmb__store_write(table(run), path), NMB_OK);
  nmb__store *s = NULL;
  CU_ASSERT_EQUAL_FATAL(nmb__store_read(run, path, &s), NMB_OK);
  CU_ASSERT_EQUAL(s->ncell, 3);
  CU_ASSERT_EQUAL(s->ncol, 5);
  CU_ASSERT_STRING_EQUAL(s->title, "a tiny table");
  CU_ASSERT_STRING_EQUAL(s->config, "name = \"tiny\";\n");
  CU_ASSERT_STRING_EQUAL(nmb__store_fact(s, "commit"), "abc");
  CU_ASSERT_STRING_EQUAL(nmb__store_text(s, "sweep", 1), "main large");
  CU_ASSERT_STRING_EQUAL(nmb__store_text(s, "sweep", 2), "");
  CU_ASSERT_EQUAL(nmb__store_num(s, "batch", 2), 21);
  CU_ASSERT_EQUAL(nmb__store_num(s, "latency", 2), 1e-9);
  CU_ASSERT_TRUE(isnan(nmb__store_num(s, "latency", 1)));
  CU_ASSERT_TRUE(isnan(nmb__store_num(s, "nothing", 1)));
  const nmb__col *c = nmb__store_parts(s, "time", "engine", "cause");
  CU_ASSERT_PTR_NOT_NULL_FATAL(c);
  CU_ASSERT_EQUAL(nmb__col_part(s, c, 2, 1, 2), 17 * 0.3);
  CU_ASSERT_TRUE(isnan(nmb__col_part(s, c, 1, 0, 1)));
  CU_ASSERT_STRING_EQUAL(s->dim[c->dim[1]].label[2], "bus");
  c = nmb__store_col(s, "latency");
  CU_ASSERT_STRING_EQUAL(c->unit, "s");
  CU_ASSERT_STRING_EQUAL(c->better, "less");
  CU_ASSERT_STRING_EQUAL(c->help, "time of a step");
  CU_ASSERT_TRUE(nmb__store_col(s, "compile_time")->host);
  CU_ASSERT_TRUE(nmb__store_in_sweep(s, 1, "large"));
  CU_ASSERT_FALSE(nmb__store_in_sweep(s, 0, "large"));
  CU_ASSERT_FALSE(nmb__store_in_sweep(s, 1, "larg"));
  unlink(path);
  nmb__run_close(run);
}

static char *
slurp(const char *name, size_t *n)
{
  FILE *f = fopen(name, "rb");
  fseek(f, 0, SEEK_END);
  *n = (size_t)ftell(f);
  rewind(f);
  char *p = malloc(*n);
  CU_ASSERT_EQUAL(fread(p, 1, *n, f), *n);
  fclose(f);
  return p;
}

static void
test_same_bytes(void)
{
  nmb_run *run = nmb__run_open(NULL);
  name_file();
  size_t n[2];
  char *bytes[2];
  for (int i = 0; i < 2; i++) {
    CU_ASSERT_EQUAL_FATAL(nmb__store_write(table(run), path), NMB_OK);
    bytes[i] = slurp(path, &n[i]);
    if (!i)
      sleep(1);
  }
  CU_ASSERT_EQUAL_FATAL(n[0], n[1]);
  CU_ASSERT_EQUAL(memcmp(bytes[0], bytes[1], n[0]), 0);
  free(bytes[0]);
  free(bytes[1]);
  unlink(path);
  nmb__run_close(run);
}

static void
test_large(void)
{
  nmb_run *run = nmb__run_open(NULL);
  name_file();
  nmb__store *s = nmb__store_new(run, 6007);
  const int dim = nmb__store_dim_add(s, "memory");
  for (int i = 0; i < 7; i++)
    nmb__dim_add(s, dim, nmb_format(run, "m%d", i));
  nmb__col *c = nmb__store_col_add(s, NMB__REAL, "bytes_by_memory", 1, &dim);
  for (int i = 0; i < 6007 * 7; i++)
    c->num[i] = i;
  CU_ASSERT_EQUAL_FATAL(nmb__store_write(s, path), NMB_OK);
  nmb__store *t = NULL;
  CU_ASSERT_EQUAL_FATAL(nmb__store_read(run, path, &t), NMB_OK);
  CU_ASSERT_EQUAL(nmb__col_part(t, &t->col[0], 6006, 6, 0), 6007 * 7 - 1);
  CU_ASSERT_EQUAL(nmb__col_part(t, &t->col[0], 4711, 3, 0), 4711 * 7 + 3);
  unlink(path);
  nmb__run_close(run);
}

static void
test_errors(void)
{
  nmb_run *run = nmb__run_open(NULL);
  nmb__store *s = NULL;
  CU_ASSERT_EQUAL(nmb__store_write(table(run), "/nowhere/at/all.h5"), NMB_IO);
  CU_ASSERT_PTR_NOT_NULL(strstr(nmb_error_text(run), "/nowhere/at/all.h5"));
  CU_ASSERT_EQUAL(nmb__store_read(run, "/nowhere/at/all.h5", &s), NMB_IO);
  name_file();
  FILE *f = fopen(path, "w");
  fputs("this is text\n", f);
  fclose(f);
  CU_ASSERT_EQUAL(nmb__store_read(run, path, &s), NMB_BADINPUT);
  CU_ASSERT_PTR_NOT_NULL(strstr(nmb_error_text(run), "not an HDF5 file"));
  /* a file cut short */
  CU_ASSERT_EQUAL(nmb__store_write(table(run), path), NMB_OK);
  CU_ASSERT_EQUAL(truncate(path, 3000), 0);
  CU_ASSERT_EQUAL(nmb__store_read(run, path, &s), NMB_BADINPUT);
  unlink(path);
  /* a full disk leaves the old file alone */
  if (access("/dev/full", W_OK) == 0) {
    CU_ASSERT_EQUAL(nmb__store_write(table(run), path), NMB_OK);
    char tmp[80];
    snprintf(tmp, sizeof tmp, "%s.tmp", path);
    CU_ASSERT_EQUAL(symlink("/dev/full", tmp), 0);
    CU_ASSERT_EQUAL(nmb__store_write(table(run), path), NMB_IO);
    CU_ASSERT_EQUAL(nmb__store_read(run, path, &s), NMB_OK);
    unlink(tmp);
    unlink(path);
  }
  nmb__run_close(run);
}

UNIT_MAIN("store", {"what is written is read back", test_round_trip},
          {"equal tables are equal bytes on another second", test_same_bytes},
          {"compressed chunks come back", test_large},
          {"unwritable, foreign and cut files are told apart", test_errors})
