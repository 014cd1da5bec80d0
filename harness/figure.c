/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Drawing: writes data and script of each figure, then runs gnuplot on it. */
#include "config.h" /* first: names outside of C11 */

#include "harness/figure.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/near.h"
#include "harness/figure_kinds.h"

nmb_status
nmb__figure_write(nmb_run *run, const nmb__store *s, const nmb__figures *all,
                  const nmb__figure *fig, const char *dir)
{
  nmb__figdata d;
  NMB_TRY(nmb__figdata_open(run, s, all, fig, &d));
  switch (fig->kind) {
  case NMB__FIG_STACKED: return nmb__draw_stacked(&d, dir);
  case NMB__FIG_PARETO: return nmb__draw_pareto(&d, dir);
  case NMB__FIG_GAP: NMB_TRY(nmb__figdata_quotient(&d)); return nmb__draw_bars(&d, dir);
  case NMB__FIG_BARS: NMB_TRY(nmb__figdata_speedup(&d)); return nmb__draw_bars(&d, dir);
  case NMB__FIG_LINES: NMB_TRY(nmb__figdata_speedup(&d)); return nmb__draw_lines(&d, dir);
  case NMB__FIG_WATERFALL:
    NMB_TRY(nmb__figdata_speedup(&d));
    return nmb__draw_waterfall(&d, dir);
  case NMB__NFIGKIND: break;
  }
  nmb__panic("figure of unknown kind %d", (int)fig->kind);
  return NMB_BADINPUT;
}

#define NO_GNUPLOT 127

/* In the child: gnuplot in the figure's folder, so that the script's relative names
 * hold; its messages go to `err`. */
static void
exec_gnuplot(const char *dir, const char *script, int err)
{
  const int null = open("/dev/null", O_RDWR);
  if (chdir(dir) != 0 || null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 ||
      dup2(err, 2) < 0)
    _exit(126);
  setenv("LC_ALL", "C.UTF-8", 1); /* else it warns about `set encoding utf8` */
  execlp("gnuplot", "gnuplot", script, (char *)NULL);
  _exit(errno == ENOENT ? NO_GNUPLOT : 126);
}

/* What gnuplot wrote to its standard error, cut to one line. */
static const char *
read_messages(nmb_run *run, int fd)
{
  char *text = nmb_alloc(run, 2048, 1);
  size_t n = 0;
  char chunk[512];
  for (;;) {
    const ssize_t got = read(fd, chunk, sizeof chunk);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      break;
    for (ssize_t i = 0; i < got && n < 2000; i++)
      if (chunk[i] != '\n' || (n > 0 && text[n - 1] != ' '))
        text[n++] = chunk[i] == '\n' ? ' ' : chunk[i];
  }
  while (n > 0 && text[n - 1] == ' ')
    text[--n] = '\0';
  return text;
}

nmb_status
nmb__figure_render(nmb_run *run, const nmb__figure *fig, const char *dir)
{
  const char *script = nmb_format(run, "%s.gp", fig->name);
  const nmb_loc loc = {nmb_format(run, "%s/%s", dir, script), 0, 0};
  int fd[2];
  if (pipe(fd) != 0)
    return nmb_fail(run, NMB_IO, loc, "no pipe to gnuplot: %s", strerror(errno));
  const pid_t pid = fork();
  if (pid == 0) {
    close(fd[0]);
    exec_gnuplot(dir, script, fd[1]);
  }
  close(fd[1]);
  if (pid < 0) {
    close(fd[0]);
    return nmb_fail(run, NMB_IO, loc, "cannot start gnuplot: %s", strerror(errno));
  }
  const char *said = read_messages(run, fd[0]);
  close(fd[0]);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
    ;
  if (WIFEXITED(status) && WEXITSTATUS(status) == NO_GNUPLOT)
    return nmb_fail(run, NMB_UNSUPPORTED, loc,
                    "gnuplot is not installed; the data and the script are written");
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return nmb_fail(run, NMB_IO, loc, "gnuplot failed: %s",
                    *said != '\0' ? said : "no message");
  if (*said != '\0')
    nmb_warn(run, loc, "gnuplot says: %s", said);
  return NMB_OK;
}

/* Makes the folder and those above it. */
static nmb_status
make_dirs(nmb_run *run, const char *dir)
{
  char *path = nmb_strdup(run, dir);
  for (char *c = path + 1;; c++) {
    if (*c != '/' && *c != '\0')
      continue;
    const char was = *c;
    *c = '\0';
    if (mkdir(path, 0777) != 0 && errno != EEXIST)
      return nmb_fail(run, NMB_IO, (nmb_loc){path, 0, 0}, "cannot be made: %s",
                      strerror(errno));
    *c = was;
    if (was == '\0')
      return NMB_OK;
  }
}

static nmb_status
unknown_figure(nmb_run *run, const nmb__figures *all, const char *only)
{
  const char **name = NMB_NEW(run, const char *, all->n + 1);
  for (int i = 0; i < all->n; i++)
    name[i] = all->v[i].name;
  return nmb_fail(run, NMB_BADINPUT, NMB_NOLOC, "no figure is called '%s'%s", only,
                  nmb__hint(run, only, name, all->n));
}

nmb_status
nmb__figures_draw(nmb_run *run, const nmb__store *s, const char *dir, const char *only,
                  FILE *log)
{
  nmb__figures all;
  NMB_TRY(nmb__figures_parse(run, "experiment file in the results", s->config, &all));
  NMB_TRY(make_dirs(run, dir));
  nmb_status first = NMB_OK;
  int drawn = 0;
  for (int i = 0; i < all.n; i++) {
    const nmb__figure *fig = &all.v[i];
    if (only != NULL && strcmp(only, fig->name) != 0)
      continue;
    drawn++;
    const size_t mark = nmb__run_mark(run);
    nmb_status st = nmb__figure_write(run, s, &all, fig, dir);
    if (st == NMB_OK)
      st = nmb__figure_render(run, fig, dir);
    if (st == NMB_OK && log != NULL)
      fprintf(log, "%s/%s.pdf\n", dir, fig->name);
    first = first == NMB_OK ? st : first;
    nmb__run_release(run, mark);
    if (st == NMB_UNSUPPORTED) /* no gnuplot: once is enough, but write the rest */
      for (i++; i < all.n; i++)
        if (only == NULL || strcmp(only, all.v[i].name) == 0)
          nmb__figure_write(run, s, &all, &all.v[i], dir);
  }
  if (only != NULL && drawn == 0)
    return unknown_figure(run, &all, only);
  return first;
}
