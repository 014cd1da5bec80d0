/* SPDX-License-Identifier: GPL-3.0-or-later */
/* nmbench sim: a program as text through simulators. */
#include <stdio.h>
#include <math.h>
#include <string.h>

#include "base/path.h"
#include "base/plugin.h"
#include "harness/cmd.h"
#include "harness/sim_trace.h"
#include "ir/machine.h"
#include "ir/pipeline.h"
#include "nmbench/nmb_aim.h"
#include "nmbench/nmb_dram.h"

static const char *
unit_of(const char *simulator, const char *metric)
{
  char name[128];
  snprintf(name, sizeof name, "%.*s", (int)strcspn(simulator, "{"), simulator);
  const nmb_plugin *p = nmb__plugin_find(name);
  for (const nmb_metric *m = p ? p->metrics : NULL; m && m->name; m++)
    if (!strcmp(m->name, metric))
      return m->unit;
  return "";
}

static void
print_value(FILE *f, const char *simulator, const nmb__value *v)
{
  char label[128];
  snprintf(label, sizeof label, "%s%s%s%s", v->a ? v->a : "", v->b ? " " : "",
           v->b ? v->b : "", "");
  fprintf(f, "%-10.*s %-22s %-26s ", (int)strcspn(simulator, "{"), simulator, v->name,
          label);
  if (isnan(v->value)) /* no source gives a part of it */
    fprintf(f, "%14s\n", "not modelled");
  else
    fprintf(f, "%14.6g %s\n", v->value, unit_of(simulator, v->name));
}

static nmb_status
simulate(nmb__cli *cli, const nmb_prog *p, const char *simulator, FILE *f, json_t *rows)
{
  const int from = nmb__run_metrics(cli->run)->n;
  NMB_TRY(nmb__simulate(cli->run, p, simulator));
  const nmb__values *vs = nmb__run_metrics(cli->run);
  for (int i = from; i < vs->n; i++) {
    const nmb__value *v = &vs->v[i];
    if (!nmb__cli_flag(cli, "json")) {
      if (!v->a || v->value != 0) /* parts that are nothing would hide the rest */
        print_value(f, simulator, v);
      continue;
    }
    json_t *row = json_pack("{s:s, s:s}", "simulator", simulator, "name", v->name);
    if (v->a)
      json_object_set_new(row, "a", json_string(v->a));
    if (v->b)
      json_object_set_new(row, "b", json_string(v->b));
    json_object_set_new(row, "value", nmb__json_real(v->value));
    json_object_set_new(row, "unit", json_string(unit_of(simulator, v->name)));
    if (isnan(v->value))
      json_object_set_new(row, "note", json_string("not modelled"));
    json_array_append_new(rows, row);
  }
  return NMB_OK;
}

static nmb_status
load(nmb__cli *cli, const char *text, size_t len, nmb_hw **hw, nmb_prog **prog)
{
  nmb_run *run = cli->run;
  const char *file = cli->arg[0], *machine = nmb__cli_text(cli, "machine");
  if (!machine)
    NMB_TRY(nmb_prog_parse_machine(run, file, text, len, &machine));
  if (!*machine)
    return nmb_fail(run, NMB_BADINPUT, (nmb_loc){file, 0, 0},
                    "names no machine; give one with --machine");
  NMB_TRY(nmb__sim_machine(cli, machine, hw));
  NMB_TRY(nmb_prog_parse(run, file, text, len, *hw, prog));
  return nmb_prog_verify(run, *prog, (*prog)->present);
}

nmb_status
nmb__sim_list(nmb__cli *cli, const nmb_prog *prog, const char *list, FILE *f,
              json_t *rows)
{
  const char **name;
  int n;
  NMB_TRY(nmb__pipeline_split(cli->run, NMB_NOLOC, list, &name, &n));
  for (int i = 0; i < n; i++)
    NMB_TRY(simulate(cli, prog, name[i], f, rows));
  return NMB_OK;
}

nmb_status
nmb__sim_machine(nmb__cli *cli, const char *name, nmb_hw **out)
{
  const int n = nmb__cli_count(cli, "set");
  const char **set = NMB_NEW(cli->run, const char *, n + 1);
  for (int i = 0; i < n; i++)
    set[i] = nmb__cli_nth(cli, "set", i);
  return nmb__machine_load_set(cli->run, name, n, set, out);
}

/* *traced: the file was a trace, and all has been printed. */
static nmb_status
sim(nmb__cli *cli, nmb_hw **hw, nmb_prog **prog, json_t *rows, bool *traced)
{
  const char *list = nmb__cli_text(cli, "simulators");
  size_t len;
  const char *text = nmb__read_file(cli->run, cli->arg[0], &len);
  if (!text)
    return NMB_IO;
  NMB_TRY(nmb__plugins_load(cli->run, NULL));
  *traced = nmb_aim_looks(text, len);
  if (*traced)
    return nmb__sim_trace(cli, text, len, hw);
  *traced = nmb__cli_given(cli, "kind");
  if (*traced)
    return nmb__dram_trace(cli, cli->arg[0]);
  if (nmb_dram_trace_looks(text, len))
    return nmb_fail(cli->run, NMB_BADINPUT, (nmb_loc){cli->arg[0], 0, 0},
                    "is a trace of loads and stores; give the kind of DRAM with --kind");
  NMB_TRY(load(cli, text, len, hw, prog));
  return nmb__sim_list(cli, *prog, list ? list : "bound,event", stdout, rows);
}

static int
cmd_sim(nmb__cli *cli)
{
  nmb_hw *hw = NULL;
  nmb_prog *prog = NULL;
  json_t *rows = json_array();
  bool traced = false;
  const nmb_status status = sim(cli, &hw, &prog, rows, &traced);
  if (status == NMB_OK && !traced && nmb__cli_flag(cli, "json"))
    nmb__cli_json(json_pack("{s:s, s:s, s:O}", "model", prog->model, "machine", hw->name,
                            "metrics", rows));
  json_decref(rows);
  nmb_prog_free(prog);
  nmb__machine_free(hw);
  return nmb__exit_code(status);
}

static const nmb__flag flags[] = {
    {"simulators", 's', "LIST", "simulator", NULL,
     "NAME{option=value,..},..; bound and event if absent"},
    {"machine", 'M', "MACHINE", "machine", NULL,
     "another machine than the program names; a trace names none"},
    {"set", 0, "KEY=VALUE", "text", NULL,
     "change a parameter of the machine, as with op, or of the kind of DRAM, as with dram; "
     "may be repeated"},
    {"kind", 'k', "KIND", "text", NULL,
     "the file has loads and stores: run them on a channel of this DRAM, as dram --trace"},
    NMB__FLAGS_DRAM,
    {"stamps", 0, NULL, NULL, NULL, "of a trace: print each command with its cycle"},
    NMB__FLAG_JSON,
    {NULL, 0, NULL, NULL, NULL, NULL}};

const nmb__command nmb__cmd_sim = {
    .name = "sim",
    .args = "FILE.nmb|FILE.trace",
    .arg_type = "file",
    .min = 1,
    .max = 1,
    .summary = "time a compiled program, or a trace of instructions",
    .help =
        "Reads a program with code as text (- is standard input), checks it, and prints "
        "the metrics "
        "that each simulator gives. A value that is not known is nan (null with "
        "--json).\n\nA "
        "file of AiM instructions, as the public AiM simulator reads them and 'compile "
        "--emit aim-trace' writes them, is executed on the channels of --machine "
        "instead; a file of loads and stores, as Ramulator reads them, on a channel of "
        "--kind.",
    .example = "nmbench sim prog.nmb -s bound,event\n"
               "nmbench sim gemv.trace --machine aim-gddr6 --set refresh=off --stamps\n"
               "nmbench sim loads.trace --kind DDR4_3200AA --refresh allbank",
    .flags = flags,
    .main = cmd_sim,
};
