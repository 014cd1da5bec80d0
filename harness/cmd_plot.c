/* SPDX-License-Identifier: GPL-3.0-or-later */
/* nmbench plot: the figures of a result file. */
#include <stdio.h>
#include <string.h>

#include "harness/cmd.h"
#include "harness/figure.h"
#include "harness/setup.h"

static int
cmd_plot(nmb__cli *cli)
{
  nmb__store *s;
  const nmb_status st = nmb__store_read(cli->run, cli->arg[0], &s);
  if (st != NMB_OK)
    return nmb__exit_code(st);
  const char *dir = nmb__cli_text(cli, "output");
  if (dir == NULL)
    dir = nmb__figure_folder(cli->run, cli->arg[0]);
  return nmb__exit_code(
      nmb__figures_draw(cli->run, s, dir, nmb__cli_text(cli, "only"), stdout));
}

static const nmb__flag flags[] = {
    {"output", 'o', "DIR", "folder", NULL, "where to write; by default FILE without .h5"},
    {"only", 0, "NAME", "text", NULL, "draw this figure only"},
    {NULL, 0, NULL, NULL, NULL, NULL}};

const nmb__command nmb__cmd_plot = {
    .name = "plot",
    .args = "FILE.h5",
    .arg_type = "file",
    .min = 1,
    .max = 1,
    .summary = "draw the figures of a result file",
    .help =
        "Draws the figures that the experiment file asked for, from the result file "
        "alone. Each figure becomes NAME.dat (its numbers, tab separated), NAME.gp (a "
        "gnuplot script that reads NAME.dat) and NAME.pdf, NAME.svg, NAME.png, which are "
        "made by gnuplot. The names of the PDF files are printed.\n\n"
        "Without gnuplot the data and the scripts are still written; the exit code is 1.",
    .example = "nmbench plot moe.h5\nnmbench plot moe.h5 -o figures --only speedup",
    .flags = flags,
    .main = cmd_plot,
};
