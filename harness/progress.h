/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Progress of a sweep on stderr: a bar on a terminal, a line every few seconds
 * elsewhere, or a JSON object a line for tools. */
#ifndef NMB__PROGRESS_H
#define NMB__PROGRESS_H

#include <stdbool.h>

typedef enum nmb__progress_kind {
  NMB__PROGRESS_NONE,
  NMB__PROGRESS_BAR,
  NMB__PROGRESS_PLAIN,
  NMB__PROGRESS_JSON
} nmb__progress_kind;

typedef struct nmb__progress {
  nmb__progress_kind kind;
  int total, done, failed; /* jobs; done includes those of earlier runs */
  int before;              /* done when this run began */
  double started, shown;   /* s, monotonic */
  int width;               /* of the terminal */
} nmb__progress;

/* name: "auto", "bar", "plain", "json" or "none". */
nmb__progress_kind nmb__progress_find(const char *name);
void nmb__progress_begin(nmb__progress *, nmb__progress_kind, int total, int done);
void nmb__progress_update(nmb__progress *, int done, int failed);
void nmb__progress_end(nmb__progress *);
#endif
