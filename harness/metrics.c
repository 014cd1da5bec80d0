/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Names of the columns of metrics and of the labels of their parts. */
#include "config.h"

#include "harness/metrics.h"

#include <string.h>

#include "base/plugin.h"

const nmb_plugin *
nmb__simulator(nmb_run *run, const nmb__experiment *e, int sim)
{
  const char *text = e->sim[sim];
  return nmb__plugin_find(nmb_format(run, "%.*s", (int)strcspn(text, "{"), text));
}

static bool
declares(const nmb_plugin *p, const char *name)
{
  for (const nmb_metric *m = p->metrics; m && m->name; m++)
    if (!strcmp(m->name, name))
      return true;
  return false;
}

const char *
nmb__metric_column(nmb_run *run, const nmb__experiment *e, int sim, const char *name)
{
  for (int i = 0; i < sim; i++)
    if (declares(nmb__simulator(run, e, i), name))
      return nmb_format(run, "%s_%s", nmb__simulator(run, e, sim)->name, name);
  return name;
}

/* Labels have no names in a plugin's table; these are the ones that all simulators
 * share, as docs/experiment.md lists them. */
static const struct {
  const char *metric, *label[2];
} known[] = {
    {"latency", {"engine", "cause"}},
    {"time", {"engine", "cause"}},  {"utilisation", {"engine"}}, {"energy", {"part"}},
    {"bytes", {"memory", "class"}}, {"peak_bytes", {"memory"}},
};

const char *
nmb__metric_label(nmb_run *run, const char *metric, int i)
{
  const size_t n = strlen(metric);
  for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
    const size_t len = strlen(known[k].metric);
    const bool same = n >= len && !strcmp(metric + n - len, known[k].metric) &&
                      (n == len || metric[n - len - 1] == '_');
    if (same && known[k].label[i])
      return known[k].label[i];
  }
  return nmb_format(run, "%s_part%s", metric, i ? "2" : "");
}
