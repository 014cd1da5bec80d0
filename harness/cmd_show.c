/* SPDX-License-Identifier: GPL-3.0-or-later */
/* nmbench show: one thing with all its values. */
#include <stdio.h>
#include <string.h>

#include "base/plugin.h"
#include "harness/cmd.h"
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

static int
cmd_show(nmb__cli *cli)
{
  const char *name = cli->arg[0];
  const nmb_plugin *p;
  const nmb_status status = nmb__plugins_load(cli->run, NULL);
  if (status != NMB_OK)
    return nmb__exit_code(status);
  if (strpbrk(name, ",{"))
    return show_pipeline(cli, name);
  p = nmb__plugin_find(name);
  if (p)
    return show_plugin(cli, p);
  return nmb__exit_code(nmb__plugin_need(cli->run, NMB_NOLOC, name, "pass", &p));
}

static const nmb__flag flags[] = {NMB__FLAG_JSON, {NULL, 0, NULL, NULL, NULL, NULL}};

const nmb__command nmb__cmd_show = {
    .name = "show",
    .args = "NAME",
    .arg_type = "text",
    .min = 1,
    .max = 1,
    .summary = "show a plugin, machine, model or pipeline in full",
    .help = "Shows all there is to know about NAME: a plugin with its options, source "
            "and limits; a "
            "machine with every value in effect; a model in numbers; a pipeline "
            "(NAME{..},..) with "
            "every default filled in.",
    .example = "nmbench show fuse-none",
    .flags = flags,
    .main = cmd_show,
};
