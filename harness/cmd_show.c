/* SPDX-License-Identifier: GPL-3.0-or-later */
/* nmbench show: one thing with all its values. */
#include <stdio.h>
#include <string.h>

#include "base/near.h"
#include "base/path.h"
#include "base/plugin.h"
#include "frontend/model.h"
#include "harness/cmd.h"
#include "harness/page.h"
#include "ir/machine.h"
#include "ir/pipeline.h"

/* ------------------------------------------------------------------- plugins */
static json_t *
plugin_json(nmb_run *run, const nmb_plugin *p)
{
  json_t *opts = json_array(), *metrics = json_array();
  for (const nmb_opt *o = p->opts; o && o->name; o++)
    json_array_append_new(
        opts, json_pack("{s:s, s:s, s:s, s:s?, s:s, s:s}", "name", o->name, "type",
                        o->type, "unit", o->unit ? o->unit : "", "default", o->dflt,
                        "range", o->range ? o->range : "", "help", o->help));
  for (const nmb_metric *m = p->metrics; m && m->name; m++)
    json_array_append_new(metrics,
                          json_pack("{s:s, s:s, s:s, s:s}", "name", m->name, "unit",
                                    m->unit, "better", m->better, "help", m->help));
  return json_pack(
      "{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:o, s:o}", "name", p->name,
      "kind", p->kind, "version", p->version, "summary", p->summary, "source", p->source,
      "limits", p->limits, "reads", nmb__sections_text(run, p->reads), "writes",
      nmb__sections_text(run, p->writes), "path", nmb__plugin_path(p), "digest",
      nmb_format(run, "%016llx", (unsigned long long)nmb__plugin_digest(p)), "options",
      opts, "metrics", metrics);
}

static void
plugin_print(nmb_run *run, const nmb_plugin *p)
{
  printf("%s: %s\n", p->name, p->summary);
  printf("  kind     %s, version %s\n", p->kind, p->version);
  printf("  source   %s\n", p->source);
  printf("  limits   %s\n", p->limits);
  printf("  reads    %s\n", nmb__sections_text(run, p->reads));
  if (p->writes)
    printf("  writes   %s\n", nmb__sections_text(run, p->writes));
  printf("  file     %s\n", nmb__plugin_path(p));
  if (p->opts && p->opts->name)
    printf("  options:\n");
  for (const nmb_opt *o = p->opts; o && o->name; o++)
    printf("    %-16s %s (%s%s%s; default %s)\n", o->name, o->help, o->type,
           o->range && *o->range ? " " : "", o->range ? o->range : "",
           o->dflt && *o->dflt ? o->dflt : "none");
  if (p->metrics && p->metrics->name)
    printf("  metrics:\n");
  for (const nmb_metric *m = p->metrics; m && m->name; m++)
    printf("    %-16s %s (%s%s%s)\n", m->name, m->help, m->unit,
           *m->better ? ", better is " : "", m->better);
}

static int
show_plugin(nmb__cli *cli, const nmb_plugin *p)
{
  if (nmb__cli_flag(cli, "json"))
    return nmb__cli_json(plugin_json(cli->run, p));
  plugin_print(cli->run, p);
  return NMB__EXIT_OK;
}

/* ----------------------------------------------------------------- pipelines */
static int
show_pipeline(nmb__cli *cli, const char *text)
{
  nmb__pipeline pl;
  const nmb_status status = nmb__pipeline_parse(cli->run, NMB_NOLOC, text, &pl);
  if (status != NMB_OK)
    return nmb__exit_code(status);
  const char *canonical = nmb__pipeline_text(cli->run, &pl);
  if (nmb__cli_flag(cli, "json"))
    return nmb__cli_json(json_pack("{s:s}", "pipeline", canonical));
  printf("%s\n", canonical);
  return NMB__EXIT_OK;
}

/* ------------------------------------------------------------------ machines */
static json_t *
mem_json(const nmb_mem *m)
{
  return json_pack(
      "{s:s, s:i, s:I, s:o, s:o, s:o, s:o, s:i, s:i, s:I, s:I, s:I, s:b, s:s}", "name",
      m->name, "devices", m->devices, "bytes", (json_int_t)m->bytes, "bytes_per_s",
      nmb__json_real(m->bytes_per_s), "latency_s", nmb__json_real(m->latency_s),
      "j_per_byte", nmb__json_real(m->j_per_byte), "static_w",
      nmb__json_real(m->static_w), "channels", m->channels, "banks", m->banks,
      "page_bytes", (json_int_t)m->page_bytes, "burst_bytes", (json_int_t)m->burst_bytes,
      "align", (json_int_t)m->align, "local", m->local, "source", m->source);
}

static const char *
mem_name(const nmb_hw *hw, nmb_id id)
{
  return id == NMB_NONE ? NULL : hw->mem[id].name;
}

static json_t *
engine_json(const nmb_hw *hw, const nmb_engine *e)
{
  json_t *params = json_object(), *ops = json_array(), *weights = json_array(),
         *values = json_array();
  for (int i = 0; i < e->nparam; i++)
    json_object_set_new(params, e->param[i].name,
                        e->param[i].text ? json_string(e->param[i].text)
                                         : nmb__json_real(e->param[i].value));
  for (int i = 0; i < NMB_NOP; i++)
    if (e->ops >> i & 1)
      json_array_append_new(ops, json_string(nmb_op_get((nmb_opcode)i)->name));
  for (int i = 0; i < NMB_NDTYPE; i++) {
    if (e->weights & NMB_BIT(i))
      json_array_append_new(weights, json_string(nmb_dtype_get((nmb_dtype)i)->name));
    if (e->values & NMB_BIT(i))
      json_array_append_new(values, json_string(nmb_dtype_get((nmb_dtype)i)->name));
  }
  return json_pack("{s:s, s:s, s:i, s:s?, s:s?, s:s?, s:s?, s:s?, s:b, s:o, s:o, s:o, "
                   "s:o, s:o, s:o, s:s}",
                   "name", e->name, "model", e->model, "devices", e->devices, "resident",
                   mem_name(hw, e->resident), "home", mem_name(hw, e->home), "local",
                   mem_name(hw, e->local), "from", mem_name(hw, e->from), "to",
                   mem_name(hw, e->to), "in_memory", e->in_memory, "launch_s",
                   nmb__json_real(e->launch_s), "static_w", nmb__json_real(e->static_w),
                   "ops", ops, "weights", weights, "values", values, "parameters", params,
                   "source", e->source);
}

static json_t *
machine_json(const nmb_hw *hw)
{
  json_t *mems = json_array(), *engines = json_array();
  for (int i = 0; i < hw->nmem; i++)
    json_array_append_new(mems, mem_json(&hw->mem[i]));
  for (int i = 0; i < hw->nengine; i++)
    json_array_append_new(engines, engine_json(hw, &hw->engine[i]));
  return json_pack("{s:s, s:s, s:s, s:i, s:s, s:o, s:o}", "name", hw->name, "title",
                   hw->title, "source", hw->source, "devices", hw->devices, "host",
                   hw->engine[hw->host].name, "memories", mems, "engines", engines);
}

static int
show_machine(nmb__cli *cli, const char *name)
{
  nmb_hw *hw = NULL;
  const nmb_status status = nmb__machine_load(cli->run, name, &hw);
  if (status != NMB_OK)
    return nmb__exit_code(status);
  if (nmb__cli_flag(cli, "json"))
    nmb__cli_json(machine_json(hw));
  else if (nmb__cli_flag(cli, "page"))
    nmb__page_print(cli->run, name, hw, stdout);
  else
    fputs(nmb__machine_text(cli->run, hw), stdout);
  nmb__machine_free(hw);
  return NMB__EXIT_OK;
}

/* ------------------------------------------------------ models and experiments */
/* As `nmbench model NAME` or `nmbench plan NAME`. */
static int
show_as(const nmb__cli *cli, const nmb__command *cmd)
{
  const nmb__flag *f = cmd->flags;
  while (f->name && strcmp(f->name, "json"))
    f++;
  const struct nmb__set json = {f, NULL};
  nmb__cli as = {.run = cli->run,
                 .cmd = cmd,
                 .narg = 1,
                 .arg = cli->arg,
                 .nset = nmb__cli_flag(cli, "json"),
                 .set = &json};
  return cmd->main(&as);
}

/* ------------------------------------------------------------------- the name */
static bool
listed(nmb_run *run, const char *folder, const char *ext, const char *name)
{
  const char **names;
  const int n = nmb__list_files(run, folder, ext, &names);
  for (int i = 0; i < n; i++)
    if (!strcmp(names[i], name))
      return true;
  return false;
}

static bool
ends_in(const char *name, const char *tail)
{
  const size_t n = strlen(name), t = strlen(tail);
  return n > t && !strcmp(name + n - t, tail);
}

/* What is none of all: the nearest of everything that can be shown. */
static nmb_status
unknown(nmb_run *run, const char *name)
{
  const char **models, **machines;
  const nmb_plugin *p;
  const int nmodel = nmb__list_files(run, "models", ".json", &models);
  const int nmachine = nmb__list_files(run, "machines", ".hw", &machines);
  const int nplugin = nmb__plugin_count();
  const char **names = NMB_NEW(run, const char *, nmodel + nmachine + nplugin + 1);
  int n = 0;
  for (int i = 0; i < nplugin; i++)
    names[n++] = nmb__plugin_at(i)->name;
  for (int i = 0; i < nmachine; i++)
    names[n++] = machines[i];
  for (int i = 0; i < nmodel; i++)
    names[n++] = models[i];
  if (nmb__plugin_refused(name))
    return nmb__plugin_need(run, NMB_NOLOC, name, "pass", &p);
  return nmb_fail(run, NMB_BADINPUT, NMB_NOLOC,
                  "unknown plugin, machine, model or experiment '%s'%s", name,
                  nmb__hint(run, name, names, n));
}

static int
cmd_show(nmb__cli *cli)
{
  nmb_run *run = cli->run;
  const char *name = cli->arg[0];
  const nmb_status status = nmb__plugins_load(run, NULL);
  if (status != NMB_OK)
    return nmb__exit_code(status);
  const nmb_plugin *p = nmb__plugin_find(name);
  if (p)
    return show_plugin(cli, p);
  if (ends_in(name, ".hw") || listed(run, "machines", ".hw", name))
    return show_machine(cli, name);
  if (ends_in(name, ".json") || nmb__arch_known(run, name))
    return show_as(cli, &nmb__cmd_model);
  if (ends_in(name, ".cfg") || listed(run, "experiments", ".cfg", name))
    return show_as(cli, &nmb__cmd_plan);
  if (strpbrk(name, ",{"))
    return show_pipeline(cli, name);
  return nmb__exit_code(unknown(run, name));
}

static const nmb__flag flags[] = {
    {"page", 0, NULL, NULL, NULL,
     "of a machine: a page in Markdown, with a block diagram, the source of each value, "
     "and what is not modelled"},
    NMB__FLAG_JSON,
    {NULL, 0, NULL, NULL, NULL, NULL}};

const nmb__command nmb__cmd_show = {
    .name = "show",
    .args = "NAME",
    .arg_type = "text",
    .min = 1,
    .max = 1,
    .summary = "show a plugin, machine, model, experiment or pipeline",
    .help = "Shows all there is to know about NAME: a plugin with its options, source "
            "and limits; a "
            "machine with every value in effect; a model in numbers; an experiment as "
            "'nmbench plan' does; a pipeline (NAME{..},..) with every default filled "
            "in.",
    .example = "nmbench show fuse-dp\nnmbench show aim-gddr6-x8 --json\nnmbench show "
               "aim-gddr6 --page\nnmbench show "
               "'fuse-dp,sched-list'",
    .flags = flags,
    .main = cmd_show,
};
