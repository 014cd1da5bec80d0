/* SPDX-License-Identifier: GPL-3.0-or-later */
/* nmbench op: one op on one machine, compiled and timed. */
#include "config.h" /* first: names outside of C11 */

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/plugin.h"
#include "harness/cmd.h"
#include "harness/op.h"
#include "harness/op_run.h"
#include "ir/machine.h"

typedef struct job {
  nmb__cli *cli;
  nmb_hw *hw;
  nmb__opspec spec;
  nmb__opresult *row; /* [spec.nrow] */
} job;

/* ---------------------------------------------------------------------- JSON */
static json_t *
parts_json(const nmb__oppart *v, int n)
{
  json_t *o = json_object();
  for (int i = 0; i < n; i++)
    json_object_set_new(o, v[i].name, nmb__json_real(v[i].value));
  return o;
}

json_t *
nmb__opcounts_json(const nmb__opcounts *c, bool isr)
{
  json_t *o = json_object();
  for (int i = 0; i < c->n; i++)
    if (c->v[i].isr == isr)
      json_object_set_new(o, c->v[i].name, json_integer(c->v[i].n));
  return o;
}

json_t *
nmb__cycles_json(double cycles)
{
  const double whole = nearbyint(cycles);
  return fabs(cycles - whole) < 1e-6 * fmax(1, cycles) && fabs(whole) < 0x1p52
             ? json_integer((json_int_t)whole)
             : nmb__json_real(cycles);
}

json_t *
nmb__opstamps_json(const nmb__opresult *r)
{
  json_t *all = json_array();
  for (int i = 0; i < r->nstamp; i++) {
    const nmb_command *c = &r->stamp[i];
    for (int64_t j = 0; j < c->n && !c->isr; j++)
      json_array_append_new(
          all, json_pack("{s:I, s:s, s:I}", "cycle", (json_int_t)(c->cycle + j * c->step),
                         "command", c->name, "row", (json_int_t)c->row));
  }
  return all;
}

static json_t *
row_json(const job *j, int i)
{
  const nmb__opresult *r = &j->row[i];
  nmb_run *run = j->cli->run;
  int64_t dim[NMB__MAXDIM];
  json_t *sizes = json_object();
  nmb__opspec_row(&j->spec, i, dim);
  for (int k = 0; k < j->spec.ndim; k++)
    json_object_set_new(sizes, j->spec.key[k], json_integer(dim[k]));
  json_t *o = json_pack(
      "{s:s, s:o, s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:s, s:o, "
      "s:o}",
      "op", nmb__opspec_text(run, &j->spec, i), "sizes", sizes, "machine", j->hw->name,
      "engine", r->engine, "fidelity", r->fidelity, "cycles", nmb__cycles_json(r->cycles),
      "time", nmb__json_real(r->seconds), "time_parts", parts_json(r->time, r->ntime),
      "energy", parts_json(r->energy, r->nenergy), "energy_total",
      nmb__json_real(r->joule), "commands", nmb__opcounts_json(&r->counts, false), "isr",
      nmb__opcounts_json(&r->counts, true), "share_of_peak", nmb__json_real(r->share), "bound",
      nmb__json_real(r->bound), "limit", r->limit, "cycles_analytic",
      nmb__cycles_json(r->cycles_analytic), "error_analytic", nmb__json_real(r->error));
  json_object_set_new(o, "channels", json_integer(r->channels));
  json_object_set_new(o, "transfers",
                      json_pack("{s:o, s:o, s:o}", "time", nmb__json_real(r->transfer_s),
                                "energy", nmb__json_real(r->transfer_j), "bytes",
                                nmb__json_real(r->transfer_bytes)));
  json_object_set_new(o, "time_total", nmb__json_real(r->seconds + r->transfer_s));
  if (r->host_seconds > 0) {
    json_object_set_new(o, "host_time", nmb__json_real(r->host_seconds));
    json_object_set_new(o, "speedup_over_host",
                        nmb__json_real(r->host_seconds / (r->seconds + r->transfer_s)));
  }
  if (nmb__cli_flag(j->cli, "stamps"))
    json_object_set_new(o, "stamps", nmb__opstamps_json(r));
  return o;
}

static json_t *
all_json(const job *j)
{
  if (j->spec.nrow == 1)
    return row_json(j, 0);
  json_t *rows = json_array();
  for (int i = 0; i < j->spec.nrow; i++)
    json_array_append_new(rows, row_json(j, i));
  return json_pack("{s:s, s:o}", "machine", j->hw->name, "rows", rows);
}

/* ---------------------------------------------------------------------- text */
static const char *
amount(nmb_run *run, double v, const char *unit)
{
  static const char prefix[] = "pnum kMGT";
  if (isnan(v))
    return "unknown";
  int e = 4;
  while (v != 0 && fabs(v) < 1 && e > 0)
    v *= 1000, e--;
  while (fabs(v) >= 1000 && e < 8)
    v /= 1000, e++;
  return nmb_format(run, "%.4g %.*s%s", v, e == 4 ? 0 : 1, prefix + e, unit);
}

static const char *
parts_text(nmb_run *run, const nmb__oppart *v, int n, const char *unit)
{
  const char *text = "";
  for (int i = 0; i < n; i++)
    if (v[i].value < 0 || v[i].value > 0 || isnan(v[i].value))
      text = nmb_format(run, "%s%s%s %s", text, *text ? ", " : "", v[i].name,
                        amount(run, v[i].value, unit));
  return text;
}

void
nmb__opcounts_print(const nmb__opcounts *c, bool isr, const char *what)
{
  bool any = false;
  for (int i = 0; i < c->n; i++)
    if (c->v[i].isr == isr) {
      printf("%s%s %lld", any ? ", " : what, c->v[i].name, (long long)c->v[i].n);
      any = true;
    }
  if (any)
    putchar('\n');
}

static void
print_one(const job *j, int i)
{
  nmb_run *run = j->cli->run;
  const nmb__opresult *r = &j->row[i];
  printf("%s on %s, engine %s, %s\n", nmb__opspec_text(run, &j->spec, i), j->hw->name,
         r->engine, r->fidelity);
  printf("cycles    %.10g", r->cycles);
  if (!strcmp(r->fidelity, "cycle"))
    printf("  (in closed form %.10g, %+.2f%%)", r->cycles_analytic, 100 * r->error);
  printf("\ntime      %s  (%s)\n", amount(run, r->seconds, "s"),
         parts_text(run, r->time, r->ntime, "s"));
  printf("energy    %s  (%s)\n", amount(run, r->joule, "J"),
         parts_text(run, r->energy, r->nenergy, "J"));
  if (r->transfer_s > 0)
    printf("transfers %s, %s more, to bring operands and take the result\n",
           amount(run, r->transfer_s, "s"), amount(run, r->transfer_j, "J"));
  nmb__opcounts_print(&r->counts, false, "commands  ");
  nmb__opcounts_print(&r->counts, true, "isr       ");
  printf("peak      %.2f%% of it reached\n", 100 * r->share);
  printf("bound     %s; most time goes to: %s\n", amount(run, r->bound, "s"), r->limit);
  if (r->host_seconds > 0)
    printf("host      %s, %.3gx of it\n", amount(run, r->host_seconds, "s"),
           r->host_seconds / (r->seconds + r->transfer_s));
}

static void
print_table(const job *j)
{
  nmb_run *run = j->cli->run;
  for (int k = 0; k < j->spec.ndim; k++)
    printf("%9s ", j->spec.key[k]);
  printf("%12s %9s %11s %11s %7s %11s %11s  %s\n", "cycles", "error", "time", "energy",
         "peak", "bound", "host", "most time");
  for (int i = 0; i < j->spec.nrow; i++) {
    const nmb__opresult *r = &j->row[i];
    int64_t dim[NMB__MAXDIM];
    nmb__opspec_row(&j->spec, i, dim);
    for (int k = 0; k < j->spec.ndim; k++)
      printf("%9lld ", (long long)dim[k]);
    printf("%12.10g %+8.2f%% %11s %11s %6.2f%% %11s %11s  %s\n", r->cycles,
           100 * r->error, amount(run, r->seconds, "s"), amount(run, r->joule, "J"),
           100 * r->share, amount(run, r->bound, "s"),
           r->host_seconds > 0 ? amount(run, r->host_seconds, "s") : "-", r->limit);
  }
}

void
nmb__opstamps_print(const nmb__opresult *r)
{
  printf("%12s  %-10s %s\n", "cycle", "command", "row");
  for (int i = 0; i < r->nstamp; i++) {
    const nmb_command *c = &r->stamp[i];
    for (int64_t k = 0; k < c->n && !c->isr; k++) {
      printf("%12lld  %-10s", (long long)(c->cycle + k * c->step), c->name);
      if (c->row >= 0)
        printf(" %lld", (long long)c->row);
      putchar('\n');
    }
  }
}

/* ----------------------------------------------------------------------- run */
/* What --set gives: `reuse` and the like are options of the mapping, the rest
 * parameters of the machine. */
static nmb_status
split_set(const nmb__cli *cli, const char ***machine, int *nmachine, const char **mapping)
{
  const int n = nmb__cli_count(cli, "set");
  *machine = NMB_NEW(cli->run, const char *, n + 1);
  *nmachine = 0;
  *mapping = "";
  for (int i = 0; i < n; i++) {
    const char *s = nmb__cli_nth(cli, "set", i);
    if (!strncmp(s, "reuse=", 6) || !strncmp(s, "map.", 4))
      *mapping =
          nmb_format(cli->run, "%s,%s", *mapping, strncmp(s, "map.", 4) ? s : s + 4);
    else
      (*machine)[(*nmachine)++] = s;
  }
  if (**mapping && nmb__cli_given(cli, "pipeline"))
    return nmb_fail(cli->run, NMB_BADOPTION, NMB_NOLOC,
                    "found --pipeline and --set %s; give it as an option of the map pass",
                    *mapping + 1);
  return NMB_OK;
}

static nmb_status
run_rows(job *j)
{
  nmb__cli *cli = j->cli;
  const char **set, *mapping;
  int nset;
  NMB_TRY(nmb__opspec_parse(cli->run, cli->arg[0], &j->spec));
  NMB_TRY(split_set(cli, &set, &nset, &mapping));
  NMB_TRY(nmb__plugins_load(cli->run, NULL));
  NMB_TRY(
      nmb__machine_load_set(cli->run, nmb__cli_text(cli, "machine"), nset, set, &j->hw));
  const bool on_host = !strcmp(nmb__cli_text(cli, "on"), "host");
  const nmb__opsetup setup = {
      .pipeline = nmb__cli_given(cli, "pipeline") ? nmb__cli_text(cli, "pipeline")
                                                  : nmb__op_pipeline(cli->run, &j->spec,
                                                                     on_host, mapping),
      .host = nmb__op_pipeline(cli->run, &j->spec, true, ""),
      .compare = nmb__cli_flag(cli, "host") || nmb__cli_given(cli, "plot"),
      .fidelity = nmb__cli_text(cli, "fidelity"),
      .stamps = nmb__cli_flag(cli, "stamps")};
  j->row = NMB_NEW(cli->run, nmb__opresult, j->spec.nrow);
  for (int i = 0; i < j->spec.nrow; i++)
    NMB_TRY(nmb__op_run(cli->run, j->hw, &j->spec, i, &setup, &j->row[i]));
  return NMB_OK;
}

static void
print(const job *j)
{
  if (nmb__cli_flag(j->cli, "json"))
    nmb__cli_json(all_json(j));
  else if (j->spec.nrow > 1)
    print_table(j);
  else {
    print_one(j, 0);
    if (nmb__cli_flag(j->cli, "stamps"))
      nmb__opstamps_print(&j->row[0]);
  }
}

static nmb_status
facts(nmb__cli *cli, json_t **out)
{
  job j = {.cli = cli};
  if (!nmb__cli_given(cli, "machine"))
    return nmb_fail(cli->run, NMB_BADOPTION, NMB_NOLOC, "op: expected --machine");
  const nmb_status status = run_rows(&j);
  if (status == NMB_OK)
    *out = all_json(&j);
  nmb__machine_free(j.hw);
  return status;
}

static int
cmd_op(nmb__cli *cli)
{
  job j = {.cli = cli};
  if (!nmb__cli_given(cli, "machine"))
    return nmb__cli_usage(cli, "expected --machine");
  nmb_status status = run_rows(&j);
  if (status == NMB_OK)
    print(&j);
  if (status == NMB_OK && nmb__cli_given(cli, "plot"))
    status = nmb__op_plot(cli->run, j.hw, &j.spec, j.row, nmb__cli_text(cli, "plot"));
  nmb__machine_free(j.hw);
  return nmb__exit_code(status);
}

static const nmb__flag flags[] = {
    {"machine", 'M', "MACHINE", "machine", NULL,
     "name of a machine, or path of a .hw file"},
    {"set", 0, "KEY=VALUE", "text", NULL,
     "change a parameter of the machine (engines.pim.refresh=off, or refresh=off where "
     "the "
     "name is clear), or of the mapping (reuse=1); may be repeated"},
    {"pipeline", 'p', "TEXT", "pass", NULL,
     "passes to run instead of the usual: NAME{option=value,..},.."},
    {"fidelity", 0, "F", "analytic|cycle", "cycle",
     "engine models in closed form, or command by command where they can"},
    {"on", 0, "WHERE", "memory|host", "memory",
     "where to run it if both can: in memory, or on the host"},
    {"host", 0, NULL, NULL, NULL, "time it on the host as well"},
    {"stamps", 0, NULL, NULL, NULL, "print each command of a channel with its cycle"},
    {"plot", 0, "FILE", "file", NULL,
     "draw time in memory and on the host against the last size that varies (PDF)"},
    NMB__FLAG_JSON,
    {NULL, 0, NULL, NULL, NULL, NULL}};

const nmb__command nmb__cmd_op = {
    .name = "op",
    .args = "'KIND KEY=SIZE[,SIZE..] ..'",
    .arg_type = "text",
    .min = 1,
    .max = 1,
    .summary = "time one op on one machine",
    .help =
        "Compiles a program of one op, times it, and prints cycles, time, energy, the "
        "commands that one channel of an engine in memory gets, the share of the "
        "machine's peak, and the least time that the emitted instructions can take. "
        "Several sizes make a table of all combinations.\n\nKinds: 'gemv out= in= "
        "batch=1', "
        "'gemm m= n= k=', 'attention heads= kv_heads=heads kv_len= head_dim=128 batch=1' "
        "(one new token of each sequence against its cache), 'state heads= values= keys=values batch=1' (one token "
        "updates recurrent states), 'bmm batch= m= n= k=', "
        "'softmax rows= cols=', 'norm rows= cols=', 'gelu rows=1 cols='; each takes "
        "dtype=bf16.\n\n"
        "Cycles, time and energy are those of the kernel on the engine that works, in memory "
        "or not; moving its operands there from another memory, and the result back, is "
        "shown as transfers beside them.",
    .example =
        "nmbench op 'gemv out=4096 in=4096' --machine aim-gddr6 --set refresh=off\n"
        "nmbench op 'gemv out=1024,4096 in=4096' -M aim-gddr6 --set reuse=1 --json",
    .flags = flags,
    .facts = facts,
    .main = cmd_op,
};
