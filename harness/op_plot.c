/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The break-even curve of an op: time in memory and on the host over a size. */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/run.h"
#include "harness/figure.h"
#include "harness/figure_draw.h"
#include "harness/op_run.h"

/* The last key that has several sizes. */
static int
plotted(const nmb__opspec *s)
{
  for (int i = s->ndim - 1; i >= 0; i--)
    if (s->n[i] > 1)
      return i;
  return -1;
}

/* A data block of all rows: size, time in memory, time on the host, in us. */
static void
write_script(FILE *f, nmb_run *run, const nmb_hw *hw, const nmb__opspec *s,
             const nmb__opresult *r, int axis, const char *pdf)
{
  int64_t dim[NMB__MAXDIM];
  fprintf(f, "set terminal pdfcairo size 8.4cm,6cm font 'Helvetica,7'\n");
  fprintf(f, "set output '%s'\n$t << EOD\n", pdf);
  for (int i = 0; i < s->nrow; i++) {
    nmb__opspec_row(s, i, dim);
    fprintf(f, "%lld %.9g %.9g\n", (long long)dim[axis], 1e6 * (r[i].seconds + r[i].transfer_s),
            1e6 * r[i].host_seconds);
  }
  fprintf(f, "EOD\nset logscale xy\nset grid\nset key top left\n");
  fprintf(f, "set xlabel '%s' noenhanced\nset ylabel 'time (us)'\n", s->key[axis]);
  fprintf(f, "set title '%s on %s' noenhanced\n",
          nmb_format(run, "%s", s->kind_name), hw->name);
  fprintf(f,
          "plot $t using 1:2 with linespoints lc rgb '#0072B2' pt 7 ps 0.4 title '%s', \\\n"
          "     $t using 1:3 with linespoints lc rgb '#D55E00' pt 5 ps 0.4 title 'host'\n",
          r[0].engine);
}

nmb_status
nmb__op_plot(nmb_run *run, const nmb_hw *hw, const nmb__opspec *s,
             const nmb__opresult *r, const char *file)
{
  const int axis = plotted(s);
  const char *slash = strrchr(file, '/');
  if (axis < 0)
    return nmb_fail(run, NMB_BADOPTION, NMB_NOLOC,
                    "--plot: no key of the op has several sizes");
  if (strpbrk(file, "'\\\n"))
    return nmb_fail(run, NMB_BADOPTION, NMB_NOLOC,
                    "--plot: quotes and backslashes cannot be in '%s'", file);
  const char *base = slash ? slash + 1 : file, *dot = strrchr(base, '.');
  const char *name = dot && dot != base
                         ? nmb_format(run, "%.*s", (int)(dot - base), base)
                         : base;
  const char *dir = slash ? nmb_format(run, "%.*s", (int)(slash - file), file) : ".";
  const char *script = nmb_format(run, "%s/%s.gp", *dir ? dir : "/", name);
  FILE *f = fopen(script, "w");
  if (!f)
    return nmb_fail(run, NMB_IO, (nmb_loc){script, 0, 0}, "%s", strerror(errno));
  write_script(f, run, hw, s, r, axis, base);
  if (fclose(f) != 0)
    return nmb_fail(run, NMB_IO, (nmb_loc){script, 0, 0}, "%s", strerror(errno));
  return nmb__figure_render(run, &(nmb__figure){.name = name}, *dir ? dir : "/");
}
