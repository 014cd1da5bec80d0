/* SPDX-License-Identifier: GPL-3.0-or-later */
/* nmbench list: what there is, by kind. */
#include <stdio.h>
#include <string.h>

#include "base/path.h"
#include "base/plugin.h"
#include "frontend/wfile.h"
#include "harness/cmd.h"
#include "ir/machine.h"

typedef struct kind {
  const char *name;           /* as the user says */
  json_t *(*rows)(nmb_run *); /* array of objects with a name, and what else there is */
} kind;

static json_t *
plugin_row(const nmb_plugin *p)
{
  return json_pack("{s:s, s:s, s:s, s:s, s:s}", "name", p->name, "kind", p->kind,
                   "version", p->version, "summary", p->summary, "path",
                   nmb__plugin_path(p));
}

/* Passes in the order of the sections they write. */
static json_t *
rows_passes(nmb_run *run)
{
  (void)run;
  json_t *list = json_array();
  for (int s = 0; s < NMB_NSECTION; s++)
    for (int i = 0; i < nmb__plugin_count(); i++)
      if (nmb__plugin_at(i)->writes == NMB_BIT(s))
        json_array_append_new(list, plugin_row(nmb__plugin_at(i)));
  return list;
}

static json_t *
of_kind(const char *what)
{
  json_t *list = json_array();
  for (int i = 0; i < nmb__plugin_count(); i++)
    if (!strcmp(nmb__plugin_at(i)->kind, what))
      json_array_append_new(list, plugin_row(nmb__plugin_at(i)));
  return list;
}

static json_t *
rows_simulators(nmb_run *run)
{
  (void)run;
  return of_kind("simulator");
}

static json_t *
rows_systems(nmb_run *run)
{
  (void)run;
  return of_kind("system");
}

static json_t *
rows_engine_models(nmb_run *run)
{
  (void)run;
  return of_kind("model");
}

static json_t *
files(nmb_run *run, const char *folder, const char *ext)
{
  json_t *list = json_array();
  const char **names;
  const int n = nmb__list_files(run, folder, ext, &names);
  for (int i = 0; i < n; i++)
    json_array_append_new(list, json_pack("{s:s}", "name", names[i]));
  return list;
}

/* Marked where the weights are there, too. */
static json_t *
rows_models(nmb_run *run)
{
  json_t *list = files(run, "models", ".json"), *row;
  size_t i;
  json_array_foreach(list, i, row) if (nmb__wfile_named(
      run, json_string_value(json_object_get(row, "name"))))
    json_object_set_new(row, "summary", json_string("with weights"));
  return list;
}

/* With their titles; what is wrong with a machine `nmbench show` tells. */
static json_t *
rows_machines(nmb_run *run)
{
  json_t *list = json_array();
  const char **names;
  const int n = nmb__list_files(run, "machines", ".hw", &names);
  for (int i = 0; i < n; i++) {
    nmb_run *quiet = nmb__run_open(NULL);
    nmb_hw *hw = NULL;
    const bool good = nmb__machine_load(quiet, names[i], &hw) == NMB_OK;
    json_array_append_new(list, json_pack("{s:s, s:i, s:s}", "name", names[i], "devices",
                                          good ? hw->devices : 0, "summary",
                                          good ? hw->title : "cannot be read"));
    nmb__machine_free(hw);
    nmb__run_close(quiet);
  }
  return list;
}

static json_t *
rows_experiments(nmb_run *run)
{
  return files(run, "experiments", ".cfg");
}

static json_t *
rows_metrics(nmb_run *run)
{
  (void)run;
  json_t *list = json_array();
  for (int i = 0; i < nmb__plugin_count(); i++) {
    const nmb_plugin *p = nmb__plugin_at(i);
    for (const nmb_metric *m = p->metrics; m && m->name; m++)
      json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s, s:s}", "name", m->name,
                                            "unit", m->unit, "better", m->better,
                                            "summary", m->help, "simulator", p->name));
  }
  return list;
}

static const kind kinds[] = {
    {"passes", rows_passes},
    {"simulators", rows_simulators},
    {"engine-models", rows_engine_models},
    {"systems", rows_systems},
    {"models", rows_models},
    {"machines", rows_machines},
    {"metrics", rows_metrics},
    {"experiments", rows_experiments},
};
enum { NKIND = sizeof kinds / sizeof *kinds };

static const char *
field(const json_t *row, const char *key)
{
  const json_t *v = json_object_get(row, key);
  return v ? json_string_value(v) : NULL;
}

static void
print_row(const json_t *row)
{
  const char *summary = field(row, "summary"), *unit = field(row, "unit");
  const char *tag = unit ? unit : field(row, "kind");
  if (!summary)
    printf("%s\n", field(row, "name"));
  else
    printf("%-22s %-11s %s\n", field(row, "name"), tag ? tag : "", summary);
}

static void
print_kind(const kind *k, const json_t *rows, bool title)
{
  size_t i;
  json_t *row;
  if (title)
    printf("%s:\n", k->name);
  json_array_foreach(rows, i, row)
  {
    if (title)
      printf("  ");
    print_row(row);
  }
}

static int
cmd_list(nmb__cli *cli)
{
  const char *what = cli->narg ? cli->arg[0] : NULL;
  json_t *all = json_object();
  const nmb_status status = nmb__plugins_load(cli->run, NULL);
  for (int i = 0; status == NMB_OK && i < NKIND; i++)
    if (!what || !strcmp(what, kinds[i].name)) {
      json_t *rows = kinds[i].rows(cli->run);
      if (!nmb__cli_flag(cli, "json"))
        print_kind(&kinds[i], rows, !what);
      json_object_set_new(all, kinds[i].name, rows);
    }
  if (status == NMB_OK && nmb__cli_flag(cli, "json"))
    return nmb__cli_json(all);
  json_decref(all);
  return nmb__exit_code(status);
}

static const nmb__flag flags[] = {NMB__FLAG_JSON, {NULL, 0, NULL, NULL, NULL, NULL}};

const nmb__command nmb__cmd_list = {
    .name = "list",
    .args = "[KIND]",
    .arg_type = "passes|simulators|engine-models|systems|models|machines|metrics|experiments",
    .min = 0,
    .max = 1,
    .summary = "list passes, simulators, models, machines, metrics",
    .help = "Lists what nmbench has: all, or one KIND of passes, simulators, "
            "engine-models, systems, models, "
            "machines, metrics, experiments. A plugin that breaks its contract is "
            "refused with a "
            "warning and is not listed.",
    .example = "nmbench list passes\nnmbench list --json",
    .flags = flags,
    .main = cmd_list,
};
