/* SPDX-License-Identifier: GPL-3.0-or-later */
/* nmbench macro: what an array of a machine reaches when it is full. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/plugin.h"
#include "harness/cmd.h"
#include "ir/machine.h"

static nmb_id
cim_engine(const nmb_hw *hw)
{
  for (int i = 0; i < hw->nengine; i++)
    if (!strcmp(hw->engine[i].model, "cim"))
      return i;
  return NMB_NONE;
}

/* One vector through all columns of all arrays, as one instruction of the engine. */
static nmb_prog *
full_array(const nmb_hw *hw, nmb_id engine, int64_t k, int64_t n, nmb_insn *in)
{
  const nmb_engine *e = &hw->engine[engine];
  nmb_prog *p = nmb_prog_new("macro", (nmb_step_spec){NMB_DECODE, 1, 1, 0});
  nmb_prog_set_hw(p, hw);
  const nmb_id b = nmb_block_add(p, "macro");
  const nmb_tensor x = {.name = "x",
                        .block = b,
                        .dtype = NMB_DT_I8,
                        .group = 128,
                        .rank = 2,
                        .dim = {1, k}},
                   w = {.name = "w",
                        .block = b,
                        .dtype = NMB_DT_I8,
                        .group = 128,
                        .role = NMB_ROLE_WEIGHT,
                        .rank = 2,
                        .dim = {n, k}},
                   y = {.name = "y",
                        .block = b,
                        .dtype = NMB_DT_F32,
                        .rank = 2,
                        .dim = {1, n}};
  nmb_op op = {.code = NMB_OP_LINEAR, .block = b, .nin = 2, .nout = 1};
  op.in[0] = nmb_tensor_add(p, &x);
  op.in[1] = nmb_tensor_add(p, &w);
  op.out[0] = nmb_tensor_add(p, &y);
  nmb_op_add(p, &op);
  *in = (nmb_insn){.kind = NMB_INSN_EXEC,
                   .engine = engine,
                   .nopnd = 1,
                   .tile = {0, 1, 0, 1, 0, n, 0, k}};
  in->opnd[0] = (nmb_operand){.tensor = 1,
                              .mem = e->resident,
                              .slot = NMB_NONE,
                              .rows = 1,
                              .row_bytes = n * k,
                              .stride = n * k};
  return p;
}

static nmb_status
measure(nmb_run *run, const nmb_hw *hw, json_t **out)
{
  const nmb_id id = cim_engine(hw);
  if (id == NMB_NONE)
    return nmb_fail(run, NMB_UNSUPPORTED, NMB_NOLOC,
                    "machine '%s' has no engine of model cim", hw->name);
  const nmb_engine *e = &hw->engine[id];
  const double bits = nmb_param_get(e, "weight-bits");
  const double columns = ceil((bits > 0 ? bits : 8) / nmb_param_get(e, "cell-bits")) +
                         nmb_param_get(e, "carry-columns");
  const double outputs = floor(nmb_param_get(e, "cols") / columns);
  const double arrays = nmb_param_get(e, "arrays") * e->devices,
               rows = nmb_param_get(e, "rows");
  if (outputs < 1)
    return nmb_fail(run, NMB_UNSUPPORTED, NMB_NOLOC,
                    "a weight takes more columns than there are");
  nmb_insn in;
  nmb_cost c;
  nmb_prog *p = full_array(hw, id, (int64_t)rows, (int64_t)(outputs * arrays), &in);
  const nmb_status s = nmb_insn_cost(run, p, &in, &c);
  nmb_prog_free(p);
  NMB_TRY(s);
  const double macs = rows * outputs * arrays, seconds = nmb_cost_seconds(&c);
  const double area = nmb_param_get(e, "area") * arrays;
  const double joule = c.energy[NMB_EPART_COMPUTE] + c.energy[NMB_EPART_ARRAY];
  const double rate = 2 * macs / seconds;
  *out = json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "machine", hw->name,
                   "engine", e->name, "macs", json_real(macs), "time",
                   nmb__json_real(seconds), "energy", nmb__json_real(joule), "tops",
                   nmb__json_real(1e-12 * rate), "tops_per_watt",
                   nmb__json_real(1e-12 * 2 * macs / joule), "fj_per_mac",
                   nmb__json_real(1e15 * joule / macs), "tops_per_mm2",
                   nmb__json_real(area > 0 ? 1e-12 * rate / area : NAN));
  json_object_set_new(*out, "area", nmb__json_real(area > 0 ? area : NAN));
  json_object_set_new(*out, "energy_parts",
                      json_pack("{s:o, s:o}", "compute",
                                nmb__json_real(c.energy[NMB_EPART_COMPUTE]), "array",
                                nmb__json_real(c.energy[NMB_EPART_ARRAY])));
  if (!(area > 0))
    json_object_set_new(*out, "area_reason",
                        json_sprintf("machine %s gives none: %s", hw->name, e->source));
  return NMB_OK;
}

static nmb_status
facts(nmb__cli *cli, json_t **out)
{
  const int n = nmb__cli_count(cli, "set");
  const char **set = NMB_NEW(cli->run, const char *, n + 1);
  nmb_hw *hw = NULL;
  for (int i = 0; i < n; i++)
    set[i] = nmb__cli_nth(cli, "set", i);
  NMB_TRY(nmb__plugins_load(cli->run, NULL));
  NMB_TRY(nmb__machine_load_set(cli->run, cli->arg[0], n, set, &hw));
  const nmb_status s = measure(cli->run, hw, out);
  nmb__machine_free(hw);
  return s;
}

static int
cmd_macro(nmb__cli *cli)
{
  static const char *const keys[][2] = {
      {"time", "s"},        {"energy", "J"},
      {"tops", "TOPS"},     {"tops_per_watt", "TOPS/W"},
      {"fj_per_mac", "fJ"}, {"tops_per_mm2", "TOPS/mm2"},
      {"area", "mm2"}};
  json_t *j = NULL;
  const nmb_status s = facts(cli, &j);
  if (s == NMB_OK && nmb__cli_flag(cli, "json"))
    return nmb__cli_json(j);
  for (int i = 0; s == NMB_OK && i < 7; i++) {
    const json_t *v = json_object_get(j, keys[i][0]);
    if (json_is_number(v))
      printf("%-14s %12.6g %s\n", keys[i][0], json_number_value(v), keys[i][1]);
    else
      printf("%-14s %12s\n", keys[i][0], "unknown");
  }
  json_decref(j);
  return nmb__exit_code(s);
}

static const nmb__flag flags[] = {
    {"set", 0, "KEY=VALUE", "text", NULL,
     "change a parameter of the machine (input-bits=4); may be repeated"},
    NMB__FLAG_JSON,
    {NULL, 0, NULL, NULL, NULL, NULL}};

const nmb__command nmb__cmd_macro = {
    .name = "macro",
    .args = "MACHINE",
    .arg_type = "machine",
    .min = 1,
    .max = 1,
    .summary = "speed and energy of a full compute-in-memory array",
    .help = "Gives one vector to all rows and columns of the machine's engine of model "
            "cim, and prints time, energy, TOPS, TOPS/W, fJ/MAC and TOPS/mm2 (a multiply "
            "and an add are two operations), as papers on such macros do. Inputs and "
            "outputs are there; energy of the array alone, by the statistics of the values: "
            "input-ones, weight-ones and input-toggles (share of input bits that change from "
            "pass to pass). What a machine's sources do not give is unknown.",
    .example = "nmbench macro cim-colonnade --set input-bits=4 --set weight-bits=4",
    .flags = flags,
    .facts = facts,
    .main = cmd_macro,
};
