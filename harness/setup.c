/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Opening an experiment for a command. */
#include "config.h"

#include "harness/setup.h"

#include <string.h>

static nmb_status
read_filters(nmb__cli *cli, const nmb__experiment *e, const char *flag, nmb__filter **out,
             int *n)
{
  *n = nmb__cli_count(cli, flag);
  *out = NMB_NEW(cli->run, nmb__filter, *n);
  const nmb_loc loc = {nmb_format(cli->run, "--%s", flag), 0, 0};
  for (int i = 0; i < *n; i++)
    NMB_TRY(nmb__filter_parse(cli->run, loc, e, nmb__cli_nth(cli, flag, i), &(*out)[i]));
  return NMB_OK;
}

const char *
nmb__journal_path(nmb_run *run, const char *output)
{
  return nmb_format(run, "%s.journal", output);
}

const char *
nmb__figure_folder(nmb_run *run, const char *output)
{
  const size_t n = strlen(output);
  if (n > 3 && !strcmp(output + n - 3, ".h5"))
    return nmb_format(run, "%.*s", (int)(n - 3), output);
  return nmb_format(run, "%s.figures", output);
}

nmb_status
nmb__setup_open(nmb__cli *cli, bool filters, nmb__setup *out)
{
  nmb__filters f = {0};
  nmb__filter *only = NULL, *except = NULL;
  *out = (nmb__setup){0};
  nmb__run_lenient(cli->run, !filters || nmb__cli_flag(cli, "lenient"));
  NMB_TRY(nmb__experiment_read(cli->run, cli->arg[0], &out->e));
  out->output = out->e->output;
  if (filters) {
    NMB_TRY(read_filters(cli, out->e, "only", &only, &f.nonly));
    NMB_TRY(read_filters(cli, out->e, "except", &except, &f.nexcept));
    f.only = only;
    f.except = except;
    if (nmb__cli_given(cli, "output"))
      out->output = nmb__cli_text(cli, "output");
  }
  out->journal = nmb__journal_path(cli->run, out->output);
  return nmb__plan_make(cli->run, out->e, &f, &out->plan);
}

void
nmb__setup_close(nmb__setup *s)
{
  nmb__experiment_free(s->e);
}

const char *
nmb__cell_text(nmb_run *run, const nmb__plan *plan, const nmb__cell *c)
{
  static const char *const key[] = {"model", "machine", "pipeline", "phase",
                                    "batch", "context", "routing",  "seed"};
  const char *text = "";
  for (int i = 0; i < 8; i++)
    text = nmb_format(run, "%s%s%s=%s", text, i ? "," : "", key[i],
                      nmb__cell_label(run, plan, c, key[i]));
  for (int i = 0; i < plan->e->nparam; i++)
    if (*c->param[i])
      text = nmb_format(run, "%s,%s=%s", text, plan->e->param[i], c->param[i]);
  return text;
}
