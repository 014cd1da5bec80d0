/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The bar, the plain line and the JSON line. */
#include "config.h"

#include "harness/progress.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "harness/worker.h"

nmb__progress_kind
nmb__progress_find(const char *name)
{
  if (!strcmp(name, "auto"))
    return isatty(STDERR_FILENO) ? NMB__PROGRESS_BAR : NMB__PROGRESS_PLAIN;
  return !strcmp(name, "bar")     ? NMB__PROGRESS_BAR
         : !strcmp(name, "plain") ? NMB__PROGRESS_PLAIN
         : !strcmp(name, "json")  ? NMB__PROGRESS_JSON
                                  : NMB__PROGRESS_NONE;
}

void
nmb__progress_begin(nmb__progress *p, nmb__progress_kind kind, int total, int done)
{
  *p = (nmb__progress){.kind = kind, .total = total, .done = done, .before = done};
  struct winsize w = {0};
  p->started = p->shown = nmb__now();
  p->width = ioctl(STDERR_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col ? w.ws_col : 80;
}

/* Seconds left by the mean of this run; negative: not known yet. */
static double
left(const nmb__progress *p)
{
  const int n = p->done - p->before;
  if (n == 0)
    return -1;
  return (nmb__now() - p->started) / n * (p->total - p->done);
}

static void
duration(char *out, size_t n, double s)
{
  if (s < 0)
    snprintf(out, n, "?");
  else if (s < 60)
    snprintf(out, n, "%.0fs", s);
  else if (s < 3600)
    snprintf(out, n, "%dm%02ds", (int)s / 60, (int)s % 60);
  else
    snprintf(out, n, "%dh%02dm", (int)s / 3600, (int)s / 60 % 60);
}

static void
show_bar(const nmb__progress *p)
{
  char eta[32], text[96], bar[128] = "";
  duration(eta, sizeof eta, left(p));
  const int n = snprintf(text, sizeof text, " %d/%d", p->done, p->total);
  snprintf(text + n, sizeof text - (size_t)n,
           p->failed ? "  %d failed  ETA %s" : "%.0d  ETA %s", p->failed, eta);
  int wide = p->width - (int)strlen(text) - 4;
  wide = wide > 60 ? 60 : wide < 0 ? 0 : wide;
  const int full = p->total ? (int)((long long)wide * p->done / p->total) : wide;
  memset(bar, '#', (size_t)full);
  memset(bar + full, '.', (size_t)(wide - full));
  fprintf(stderr, "\r[%s]%s\033[K", bar, text);
  fflush(stderr);
}

static void
show_plain(const nmb__progress *p)
{
  char eta[32];
  duration(eta, sizeof eta, left(p));
  fprintf(stderr, "nmbench: %d of %d done, %d failed, %s left\n", p->done, p->total,
          p->failed, eta);
}

static void
show_json(const nmb__progress *p)
{
  const double s = left(p);
  fprintf(stderr,
          "{\"done\": %d, \"total\": %d, \"failed\": %d, \"elapsed\": %.3f, \"left\": ",
          p->done, p->total, p->failed, nmb__now() - p->started);
  fprintf(stderr, s < 0 ? "null}\n" : "%.3f}\n", s);
}

static void
show(nmb__progress *p)
{
  p->shown = nmb__now();
  if (p->kind == NMB__PROGRESS_BAR)
    show_bar(p);
  else if (p->kind == NMB__PROGRESS_PLAIN)
    show_plain(p);
  else if (p->kind == NMB__PROGRESS_JSON)
    show_json(p);
}

void
nmb__progress_update(nmb__progress *p, int done, int failed)
{
  const double every = p->kind == NMB__PROGRESS_BAR    ? 0.1
                       : p->kind == NMB__PROGRESS_JSON ? 1.0
                                                       : 5.0;
  p->done = done;
  p->failed = failed;
  if (p->kind != NMB__PROGRESS_NONE && nmb__now() - p->shown >= every)
    show(p);
}

void
nmb__progress_end(nmb__progress *p)
{
  if (p->kind == NMB__PROGRESS_BAR)
    fputs("\r\033[K", stderr);
  else if (p->kind == NMB__PROGRESS_JSON)
    show(p);
}
