/* SPDX-License-Identifier: GPL-3.0-or-later */
/* nmbench export: results as CSV or JSON. */
#include "config.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cmd.h"
#include "harness/store.h"

/* RFC 4180: quotes around what holds a comma, a quote or a line end. */
static void
csv_text(FILE *f, const char *s)
{
  if (!strpbrk(s, ",\"\r\n")) {
    fputs(s, f);
    return;
  }
  fputc('"', f);
  for (; *s; s++) {
    if (*s == '"')
      fputc('"', f);
    fputc(*s, f);
  }
  fputc('"', f);
}

/* As short as it reads back. */
static void
csv_number(FILE *f, double v)
{
  char text[40];
  if (isnan(v))
    return;
  for (int digits = 15; digits <= 17; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, v);
    if (strtod(text, NULL) == v)
      break;
  }
  fputs(text, f);
}

/* One column for each part: time_by_engine_cause.pim.row */
static void
csv_heads(nmb_run *run, const nmb__store *s, bool host, FILE *f)
{
  fputs("cell", f);
  for (int i = 0; i < s->ncol; i++) {
    const nmb__col *c = &s->col[i];
    if (c->host && !host)
      continue;
    const int w = nmb__col_width(s, c);
    for (int k = 0; k < w; k++) {
      const char *name = c->name;
      for (int d = 0, left = w, at = k; d < c->ndim; d++) {
        left /= s->dim[c->dim[d]].n;
        name = nmb_format(run, "%s.%s", name, s->dim[c->dim[d]].label[at / left]);
        at %= left;
      }
      fputc(',', f);
      csv_text(f, name);
    }
  }
  fputc('\n', f);
}

static void
export_csv(nmb_run *run, const nmb__store *s, bool host, FILE *f)
{
  csv_heads(run, s, host, f);
  for (int r = 0; r < s->ncell; r++) {
    fprintf(f, "%d", r);
    for (int i = 0; i < s->ncol; i++) {
      const nmb__col *c = &s->col[i];
      const int w = c->host && !host ? 0 : nmb__col_width(s, c);
      for (int k = 0; k < w; k++) {
        fputc(',', f);
        if (c->type == NMB__TEXT)
          csv_text(f, c->text[r]);
        else
          csv_number(f, c->num[(size_t)r * (size_t)w + (size_t)k]);
      }
    }
    fputc('\n', f);
  }
}

static void
export_json(const nmb__store *s, bool host, FILE *f)
{
  json_t *cells = json_array(), *cols = json_object(), *facts = json_object();
  for (int i = 0; i < s->ncol; i++)
    if (host || !s->col[i].host)
      json_object_set_new(cols, s->col[i].name,
                          json_pack("{s:s, s:s, s:s, s:b}", "unit", s->col[i].unit,
                                    "better", s->col[i].better, "help", s->col[i].help,
                                    "host", s->col[i].host));
  for (int i = 0; host && i < s->nfact; i++)
    json_object_set_new(facts, s->fact[i].name, json_string(s->fact[i].value));
  for (int i = 0; i < s->ncell; i++)
    json_array_append_new(cells, nmb__cell_json(s, i, host));
  json_t *j = json_pack("{s:s, s:s, s:o, s:o, s:o}", "name", s->name, "title", s->title,
                        "provenance", facts, "columns", cols, "cells", cells);
  json_dumpf(j, f, JSON_INDENT(1) | JSON_REAL_PRECISION(17));
  fputc('\n', f);
  json_decref(j);
}

static int
cmd_export(nmb__cli *cli)
{
  const bool csv = nmb__cli_flag(cli, "csv"), json = nmb__cli_flag(cli, "json");
  const char *out = nmb__cli_text(cli, "output");
  if (csv == json)
    return nmb__cli_usage(cli, "found %s, expected one of --csv and --json",
                          csv ? "both" : "neither");
  nmb__store *s = NULL;
  nmb_status st = nmb__store_read(cli->run, cli->arg[0], &s);
  if (st != NMB_OK)
    return nmb__exit_code(st);
  FILE *f = out ? fopen(out, "w") : stdout;
  if (!f)
    return nmb__exit_code(nmb_fail(cli->run, NMB_IO, NMB_NOLOC, "cannot write %s: %s",
                                   out, strerror(errno)));
  const bool host = !nmb__cli_flag(cli, "simulated");
  if (csv)
    export_csv(cli->run, s, host, f);
  else
    export_json(s, host, f);
  const bool bad = fflush(f) != 0 || ferror(f);
  if (out && (fclose(f) != 0 || bad))
    st = nmb_fail(cli->run, NMB_IO, NMB_NOLOC, "cannot write %s: %s", out,
                  strerror(errno));
  return nmb__exit_code(st);
}

static const nmb__flag flags[] = {
    {"csv", 0, NULL, NULL, NULL, "one line a cell; each part of a breakdown is a column"},
    {"json", 0, NULL, NULL, NULL, "one object, with units and provenance"},
    {"simulated", 0, NULL, NULL, NULL, "leave out what depends on the host that ran it"},
    {"output", 'o', "FILE", "file", NULL, "instead of standard output"},
    {NULL, 0, NULL, NULL, NULL, NULL}};

const nmb__command nmb__cmd_export = {
    .name = "export",
    .args = "FILE.h5",
    .arg_type = "file",
    .min = 1,
    .max = 1,
    .summary = "results as CSV or JSON",
    .help = "Prints all columns of a file of results. Values that a cell does not have "
            "are empty "
            "in CSV and null in JSON. Numbers read back exactly.",
    .example = "nmbench export results/moe.h5 --csv -o moe.csv",
    .flags = flags,
    .main = cmd_export,
};
