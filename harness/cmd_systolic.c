/* SPDX-License-Identifier: GPL-3.0-or-later */
/* nmbench systolic: one matrix product on one systolic array. */
#include <stdio.h>
#include <string.h>

#include "harness/cmd.h"
#include "harness/op_run.h"
#include "nmbench/nmb_array.h"

/* Clocks times cells that are stepped unless asked for: about a second. */
#define STEP_LIMIT 5e8
#define STEP_ALL 1e18

static json_t *
work_json(const nmb_array_work *w)
{
  return json_pack(
      "{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "cycles",
      nmb__cycles_json(w->cycles), "folds", nmb__cycles_json(w->folds),
      "macs", nmb__cycles_json(w->macs), "input_reads",
      nmb__cycles_json(w->reads_input), "weight_reads",
      nmb__cycles_json(w->reads_weight), "output_writes",
      nmb__cycles_json(w->writes_output), "utilisation", nmb__json_real(w->busy),
      "mapping_efficiency", nmb__json_real(w->mapped), "compute_utilisation",
      nmb__json_real(w->streamed));
}

static bool
same(const nmb_array_work *a, const nmb_array_work *b)
{
  return a->cycles == b->cycles && a->folds == b->folds && a->macs == b->macs &&
         a->reads_input == b->reads_input && a->reads_weight == b->reads_weight &&
         a->writes_output == b->writes_output;
}

static nmb_status
size_of(nmb__cli *cli, const char *flag, int64_t most, int64_t *out)
{
  const char *text = nmb__cli_text(cli, flag);
  if (!text)
    return nmb_fail(cli->run, NMB_BADOPTION, NMB_NOLOC,
                    "found no -%s, expected the size of the product", flag);
  *out = nmb__cli_int(cli, flag);
  if (*out < 1 || *out > most)
    return nmb_fail(cli->run, NMB_BADOPTION, NMB_NOLOC,
                    "option --%s: found %s, expected 1..%lld", flag, text,
                    (long long)most);
  return NMB_OK;
}

static nmb_status
facts(nmb__cli *cli, json_t **out)
{
  nmb_array a = {.flow = nmb_flow_find(nmb__cli_text(cli, "dataflow"))};
  const char *step = nmb__cli_text(cli, "step");
  int64_t m, n, k;
  NMB_TRY(size_of(cli, "rows", 65536, &a.rows));
  NMB_TRY(size_of(cli, "cols", 65536, &a.cols));
  NMB_TRY(size_of(cli, "m", 1 << 24, &m));
  NMB_TRY(size_of(cli, "n", 1 << 24, &n));
  NMB_TRY(size_of(cli, "k", 1 << 24, &k));
  const nmb_array_work closed = nmb_array_gemm(&a, m, n, k);
  nmb_array_work stepped;
  const double limit = !strcmp(step, "always") ? STEP_ALL : STEP_LIMIT;
  const bool did =
      strcmp(step, "never") && nmb_array_stepped(cli->run, &a, m, n, k, limit, &stepped);
  if (did && !same(&closed, &stepped))
    return nmb_fail(cli->run, NMB_UNVERIFIED, NMB_NOLOC,
                    "the array took %.0f cycles clock by clock, %.0f in closed form",
                    stepped.cycles, closed.cycles);
  *out = work_json(&closed);
  json_object_set_new(*out, "rows", json_integer(a.rows));
  json_object_set_new(*out, "cols", json_integer(a.cols));
  json_object_set_new(*out, "dataflow", json_string(nmb__cli_text(cli, "dataflow")));
  json_object_set_new(*out, "m", json_integer(m));
  json_object_set_new(*out, "n", json_integer(n));
  json_object_set_new(*out, "k", json_integer(k));
  json_object_set_new(*out, "stepped_cycles",
                      did ? nmb__cycles_json(stepped.cycles) : json_null());
  return NMB_OK;
}

static void
print(const json_t *j)
{
  static const char *const rows[][2] = {
      {"cycles", "cycles"},
      {"stepped_cycles", "the same, clock by clock"},
      {"folds", "folds of the array"},
      {"macs", "multiply-accumulates"},
      {"input_reads", "words of input read"},
      {"weight_reads", "words of weights read"},
      {"output_writes", "words of sums written"},
      {"utilisation", "cells that multiply, over all cycles"},
      {"mapping_efficiency", "cells that a fold uses"},
      {"compute_utilisation", "as SCALE-Sim's compute utilisation"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const json_t *v = json_object_get(j, rows[i][0]);
    if (json_is_integer(v))
      printf("%-20s %14lld  %s\n", rows[i][0], (long long)json_integer_value(v),
             rows[i][1]);
    else if (json_is_real(v))
      printf("%-20s %14.6f  %s\n", rows[i][0], json_real_value(v), rows[i][1]);
    else
      printf("%-20s %14s  %s\n", rows[i][0], "not stepped", rows[i][1]);
  }
}

static int
cmd_systolic(nmb__cli *cli)
{
  json_t *j = NULL;
  const nmb_status s = facts(cli, &j);
  if (s == NMB_OK && nmb__cli_flag(cli, "json"))
    return nmb__cli_json(j);
  if (s == NMB_OK)
    print(j);
  json_decref(j);
  return nmb__exit_code(s);
}

static const nmb__flag flags[] = {
    {"rows", 0, "R", "int", "128", "rows of cells"},
    {"cols", 0, "C", "int", "128", "columns of cells"},
    {"dataflow", 0, "FLOW", "ws|os|is", "ws", "what stays: weights, sums, inputs"},
    {"m", 'm', "M", "int", NULL, "rows of the input and of the result"},
    {"n", 'n', "N", "int", NULL, "columns of the weights and of the result"},
    {"k", 'k', "K", "int", NULL, "length of the sums"},
    {"step", 0, "WHEN", "auto|always|never", "auto",
     "also clock the array; auto: if that takes no more than about a second"},
    NMB__FLAG_JSON,
    {NULL, 0, NULL, NULL, NULL, NULL}};

const nmb__command nmb__cmd_systolic = {
    .name = "systolic",
    .args = "",
    .min = 0,
    .max = 0,
    .summary = "cycles of a matrix product on a systolic array",
    .help =
        "The product [M,K] x [K,N] on an array of R x C cells: cycles in closed form, "
        "and the same from an array that is clocked cell by cell; they must agree. "
        "Cycles are those of SCALE-Sim's CALC mode: compute only, operands are there "
        "in time.\n\n"
        "Words read and written are those of the scratchpads at the array's edges; "
        "partial sums count each time they leave.",
    .example = "nmbench systolic --rows 32 --cols 32 --dataflow ws -m 100 -n 200 -k 300",
    .flags = flags,
    .facts = facts,
    .main = cmd_systolic,
};
