/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The journal: one line of text for each job that ended, in the order they ended.
 *
 * A line holds the job's key, status, reason, messages and values, with a checksum
 * at its end.  Lines that are cut or damaged are dropped when the journal is
 * opened, so that their jobs run again; the file is then written anew.  One process
 * at a time holds a journal open for writing. */
#ifndef NMB__JOURNAL_H
#define NMB__JOURNAL_H

#include "base/run.h"

/* kind: 'm' a metric; 'h' a fact about the host; 't' host seconds of pass `name`;
 * 's' statistic `a` of pass `name`. */
typedef struct nmb__entry {
  char kind;
  const char *name, *a, *b; /* a, b: labels, NULL where there is none */
  double value;
} nmb__entry;

typedef struct nmb__result {
  const char *key; /* 32 hexadecimal digits */
  nmb_status status;
  const char *reason, *log; /* "" if there is none */
  int n;
  const nmb__entry *entry;
} nmb__result;

/* One line, without checksum and newline; owned by the run. */
const char *nmb__result_text(nmb_run *, const nmb__result *);
/* false if it is no such line. */
bool nmb__result_parse(nmb_run *, const char *text, size_t len, nmb__result *out);

typedef struct nmb__journal nmb__journal;
/* What the journal at `path` holds (nothing if there is no such file).  The last
 * line of a key counts.  damaged: lines that were dropped. */
typedef struct nmb__journal_data {
  nmb_run *run; /* owns all of this */
  int n, damaged;
  nmb__result *result; /* in the order of the file */
  const char *note;    /* the last one, "" if none */
} nmb__journal_data;
void nmb__journal_forget(nmb__journal_data *); /* frees it */
nmb_status nmb__journal_read(nmb_run *, const char *path, nmb__journal_data *out);

/* Opens for appending and takes the lock; fails if another process has it.  fresh:
 * drops what is there; else *out gets it. */
nmb_status nmb__journal_open(nmb_run *, const char *path, bool fresh,
                             nmb__journal_data *out, nmb__journal **j);
/* Appends a line as nmb__result_text gave it.  Reaches the disk at the next sync. */
nmb_status nmb__journal_append(nmb__journal *, const char *text);
/* A line for people and `status`, e.g. what is being run; no tabs or newlines. */
nmb_status nmb__journal_note(nmb__journal *, const char *text);
nmb_status nmb__journal_sync(nmb__journal *);
int nmb__journal_fd(const nmb__journal *); /* for children to close */
void nmb__journal_close(nmb__journal *);
#endif
