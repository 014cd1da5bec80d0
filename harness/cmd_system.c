/* SPDX-License-Identifier: GPL-3.0-or-later */
/* nmbench system: a published system by its own rules. */
#include <stdio.h>
#include <string.h>

#include "base/plugin.h"
#include "harness/cmd.h"
#include "ir/pipeline.h"

static const nmb_plugin *
plugin_of(const char *text)
{
  char name[128];
  snprintf(name, sizeof name, "%.*s", (int)strcspn(text, "{ "), text);
  return nmb__plugin_find(name);
}

/* A metric by itself, or its parts: {"time": 1, "part": {"fc": 0.5, ..}}. */
static void
add_value(json_t *all, const nmb__value *v)
{
  if (!v->a) {
    json_object_set_new(all, v->name, nmb__json_real(v->value));
    return;
  }
  json_t *parts = json_object_get(all, v->name);
  if (!json_is_object(parts)) {
    parts = json_object();
    json_object_set_new(all, v->name, parts);
  }
  json_object_set_new(parts, v->a, nmb__json_real(v->value));
}

static nmb_status
facts(nmb__cli *cli, json_t **out)
{
  nmb_run *run = cli->run;
  NMB_TRY(nmb__plugins_load(run, NULL));
  const int from = nmb__run_metrics(run)->n;
  NMB_TRY(nmb__system_run(run, cli->arg[0]));
  const nmb__values *vs = nmb__run_metrics(run);
  *out = json_pack("{s:s}", "system", plugin_of(cli->arg[0])->name);
  for (int i = from; i < vs->n; i++)
    add_value(*out, &vs->v[i]);
  return NMB_OK;
}

static const nmb_metric *
metric_of(const nmb_plugin *p, const char *name)
{
  const nmb_metric *m = p->metrics;
  while (m && m->name && strcmp(m->name, name))
    m++;
  return m && m->name ? m : NULL;
}

static void
print(const nmb_plugin *p, const json_t *all)
{
  const char *key, *part;
  json_t *v, *w;
  json_object_foreach((json_t *)(uintptr_t)all, key, v)
  {
    const nmb_metric *m = metric_of(p, key);
    if (!m)
      continue;
    if (json_is_number(v))
      printf("%-18s %14.7g %-8s %s\n", key, json_number_value(v), m->unit, m->help);
    else if (json_is_null(v))
      printf("%-18s %14s %-8s %s\n", key, "unknown", m->unit, m->help);
    else
      json_object_foreach(v, part, w)
          printf("  %-16s %14.7g %s\n", part, json_number_value(w), m->unit);
  }
}

static int
cmd_system(nmb__cli *cli)
{
  json_t *all = NULL;
  const nmb_status s = facts(cli, &all);
  if (s == NMB_OK && nmb__cli_flag(cli, "json"))
    return nmb__cli_json(all);
  if (s == NMB_OK)
    print(plugin_of(cli->arg[0]), all);
  json_decref(all);
  return nmb__exit_code(s);
}

static const nmb__flag flags[] = {NMB__FLAG_JSON, {NULL, 0, NULL, NULL, NULL, NULL}};

const nmb__command nmb__cmd_system = {
    .name = "system",
    .args = "NAME{option=value,..}",
    .arg_type = "text",
    .min = 1,
    .max = 1,
    .summary = "a published system by its own rules",
    .help =
        "Some published systems are rules for a whole model on a whole machine rather "
        "than instructions on an engine. Such a set of rules is a plugin of kind system; "
        "this command gives its numbers, so that they can be held against those that "
        "were published ('nmbench validate'). 'nmbench list systems' lists them, "
        "'nmbench show NAME' their options, sources and limits.",
    .example = "nmbench system 'attacc-dgx{model=gpt-175b,batch=32,pim=bank}'",
    .flags = flags,
    .facts = facts,
    .main = cmd_system,
};
