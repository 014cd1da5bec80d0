/* SPDX-License-Identifier: GPL-3.0-or-later */
/* AiM traces, read and written. */
#include "harness/sim_trace.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/run.h"
#include "harness/op_run.h"
#include "nmbench/nmb_aim.h"

static const char *const cause_name[] = {
#define X(id, name, help) name,
    NMB_CAUSE_MAP(X)
#undef X
};

/* Does the engine work as AiM does? */
static bool
is_aim(const nmb_engine *e)
{
  if (!e->in_memory || nmb_engine_is_link(e))
    return false;
  for (int i = 0; i < e->nparam; i++)
    if (!strcmp(e->param[i].name, "commands"))
      return e->param[i].text && !strcmp(e->param[i].text, "aim");
  return false;
}

static nmb_status
aim_engine(nmb_run *run, const nmb_hw *hw, const nmb_engine **out)
{
  for (int i = 0; i < hw->nengine; i++)
    if (is_aim(&hw->engine[i])) {
      *out = &hw->engine[i];
      return NMB_OK;
    }
  return nmb_fail(run, NMB_UNSUPPORTED, NMB_NOLOC,
                  "machine %s has no engine that executes AiM instructions", hw->name);
}

static void
print_json(const nmb__cli *cli, const nmb_hw *hw, const nmb_engine *e,
           const nmb_aim_result *a, const nmb__opresult *r)
{
  const double tck = nmb_param_get(e, "t-ck");
  json_t *parts = json_object();
  for (int i = 0; i < NMB_NCAUSE; i++)
    json_object_set_new(parts, cause_name[i], nmb__json_real((double)a->time[i] * tck));
  json_t *o = json_pack("{s:s, s:s, s:s, s:I, s:o, s:o, s:o, s:o, s:I}", "trace",
                        cli->arg[0], "machine", hw->name, "engine", e->name, "cycles",
                        (json_int_t)a->cycles, "time",
                        nmb__json_real((double)a->cycles * tck), "time_parts", parts,
                        "commands", nmb__opcounts_json(&r->counts, false), "isr",
                        nmb__opcounts_json(&r->counts, true), "total_commands",
                        (json_int_t)a->commands);
  if (nmb__cli_flag(cli, "stamps"))
    json_object_set_new(o, "stamps", nmb__opstamps_json(r));
  nmb__cli_json(o);
}

static void
print_text(const nmb__cli *cli, const nmb_hw *hw, const nmb_engine *e,
           const nmb_aim_result *a, const nmb__opresult *r)
{
  const double tck = nmb_param_get(e, "t-ck");
  printf("%s on %s, engine %s\ncycles    %lld\ntime      %.6g s\n", cli->arg[0], hw->name,
         e->name, (long long)a->cycles, (double)a->cycles * tck);
  for (int i = 0; i < NMB_NCAUSE; i++)
    if (a->time[i])
      printf("          %-9s %lld cycles\n", cause_name[i], (long long)a->time[i]);
  nmb__opcounts_print(&r->counts, false, "commands  ");
  nmb__opcounts_print(&r->counts, true, "isr       ");
  printf("channels  %lld commands on all of them\n", (long long)a->commands);
  if (nmb__cli_flag(cli, "stamps"))
    nmb__opstamps_print(r);
}

nmb_status
nmb__sim_trace(nmb__cli *cli, const char *text, size_t len, nmb_hw **hw)
{
  nmb_run *run = cli->run;
  nmb_aim_list program;
  nmb_aim_result a;
  nmb__opresult r = {0};
  const nmb_engine *e = NULL;
  const char *machine = nmb__cli_text(cli, "machine");
  if (!machine)
    return nmb_fail(run, NMB_BADINPUT, (nmb_loc){cli->arg[0], 0, 0},
                    "is a trace, which names no machine; give one with --machine");
  NMB_TRY(nmb_aim_parse(run, cli->arg[0], text, len, &program));
  NMB_TRY(nmb__sim_machine(cli, machine, hw));
  NMB_TRY(aim_engine(run, *hw, &e));
  int64_t *start;
  const nmb_watch watch = nmb__op_watch(run, &r, nmb__cli_flag(cli, "stamps"), &start);
  const int channels = (*hw)->mem[e->resident].channels;
  NMB_TRY(nmb_aim_execute(run, nmb_aim_timing(run, e), nmb_param_get(e, "refresh") != 0,
                          channels < 64 ? channels : 64, &program, &watch, &a));
  if (nmb__cli_flag(cli, "json"))
    print_json(cli, *hw, e, &a, &r);
  else
    print_text(cli, *hw, e, &a, &r);
  return NMB_OK;
}

nmb_status
nmb__emit_aim_trace(nmb_run *run, const nmb_prog *p, FILE *out)
{
  const nmb_engine *e = NULL;
  if (!(p->present & NMB_BIT(NMB_CODE)))
    return nmb_fail(run, NMB_BADINPUT, NMB_NOLOC,
                    "the program has no code; the pipeline must end with an emit pass");
  NMB_TRY(aim_engine(run, p->hw, &e));
  if (p->hw->mem[e->resident].channels > 64)
    return nmb_fail(run, NMB_UNSUPPORTED, NMB_NOLOC,
                    "the machine has %d channels, an AiM trace addresses up to 64",
                    p->hw->mem[e->resident].channels);
  fprintf(out, "# %s on %s: products of engine %s, block after block\n", p->model,
          p->hw->name, e->name);
  for (int s = 0; s < p->nsegment; s++) {
    nmb_aim_list l = {0};
    const size_t mark = nmb__run_mark(run);
    for (int i = 0; i < p->ninsn; i++)
      if (p->insn[i].block == p->order[s].block && p->insn[i].kind == NMB_INSN_EXEC &&
          &p->hw->engine[p->insn[i].engine] == e)
        nmb_aim_lower(run, p, &p->insn[i], &l);
    for (int64_t k = 0; k < p->order[s].count; k++) {
      fprintf(out, "# block %s, %lld of %lld\n", p->block[p->order[s].block].name,
              (long long)k + 1, (long long)p->order[s].count);
      nmb_aim_print(&l, out);
    }
    nmb__run_release(run, mark);
  }
  fputs("AiM EOC\n", out);
  return NMB_OK;
}
