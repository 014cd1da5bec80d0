/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The journal of a sweep: checksummed lines, appended.
 *
 * line:   KEY \t STATUS \t REASON \t LOG { \t KIND NAME [= A [= B]] = VALUE } \t SUM
 * Values are C99 hexadecimal floating constants, so that they come back exactly.
 * note:   # TEXT \t SUM
 * In texts, backslash stands before t n \ e for tab, newline, backslash and '='. */
#include "config.h"

#include "harness/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "harness/write.h"

#define HEAD "nmbench journal 1\n"
#define KEY_LEN 32
#define SUM_LEN 16

/* ------------------------------------------------------------------ one line */
static void
put(FILE *f, const char *s)
{
  for (; *s; s++)
    switch (*s) {
    case '\t': fputs("\\t", f); break;
    case '\n': fputs("\\n", f); break;
    case '\\': fputs("\\\\", f); break;
    case '=': fputs("\\e", f); break;
    default: fputc(*s, f);
    }
}

const char *
nmb__result_text(nmb_run *run, const nmb__result *r)
{
  char *text = NULL;
  size_t len = 0;
  FILE *f = open_memstream(&text, &len);
  if (!f)
    nmb__panic("out of memory for a line of the journal");
  fprintf(f, "%s\t%s\t", r->key, nmb_status_name(r->status));
  put(f, r->reason);
  fputc('\t', f);
  put(f, r->log);
  for (int i = 0; i < r->n; i++) {
    const nmb__entry *e = &r->entry[i];
    fprintf(f, "\t%c", e->kind);
    put(f, e->name);
    if (e->a)
      fputc('=', f), put(f, e->a);
    if (e->b)
      fputc('=', f), put(f, e->b);
    fprintf(f, "=%a", e->value);
  }
  fclose(f);
  const char *out = nmb_strdup(run, text);
  free(text);
  return out;
}

/* The text up to `end`, unescaped. */
static const char *
take(nmb_run *run, const char *p, const char *end)
{
  char *out = nmb_alloc(run, (size_t)(end - p) + 1, 1), *o = out;
  for (; p < end; p++) {
    if (*p != '\\' || p + 1 == end) {
      *o++ = *p;
      continue;
    }
    p++;
    *o++ = *p == 't' ? '\t' : *p == 'n' ? '\n' : *p == 'e' ? '=' : *p;
  }
  return out;
}

static bool
take_entry(nmb_run *run, const char *p, const char *end, nmb__entry *out)
{
  const char *cut[4];
  int n = 0;
  if (p == end || !strchr("mhts", *p))
    return false;
  *out = (nmb__entry){.kind = *p++};
  for (const char *c = p; c < end; c++)
    if (*c == '=') {
      if (n == 3)
        return false;
      cut[n++] = c;
    }
  if (n == 0)
    return false;
  out->name = take(run, p, cut[0]);
  if (n > 1)
    out->a = take(run, cut[0] + 1, cut[1]);
  if (n > 2)
    out->b = take(run, cut[1] + 1, cut[2]);
  char number[64];
  const size_t len = (size_t)(end - cut[n - 1] - 1);
  if (len == 0 || len >= sizeof number)
    return false;
  memcpy(number, cut[n - 1] + 1, len);
  number[len] = 0;
  char *stop = NULL;
  out->value = strtod(number, &stop);
  return *stop == 0;
}

static bool
status_find(const char *name, nmb_status *out)
{
  for (int i = 0; i < NMB_NSTATUS; i++)
    if (!strcmp(nmb_status_name((nmb_status)i), name)) {
      *out = (nmb_status)i;
      return true;
    }
  return false;
}

bool
nmb__result_parse(nmb_run *run, const char *text, size_t len, nmb__result *out)
{
  const char *end = text + len;
  int nfield = 1;
  for (const char *p = text; p < end; p++)
    nfield += *p == '\t';
  if (nfield < 4)
    return false;
  nmb__entry *entry = NMB_NEW(run, nmb__entry, nfield - 4);
  *out = (nmb__result){.n = nfield - 4, .entry = entry};
  const char *p = text;
  for (int i = 0; i < nfield; i++) {
    const char *tab = memchr(p, '\t', (size_t)(end - p));
    const char *stop = tab ? tab : end;
    if (i == 0)
      out->key = take(run, p, stop);
    else if (i == 1 && !status_find(take(run, p, stop), &out->status))
      return false;
    else if (i == 2)
      out->reason = take(run, p, stop);
    else if (i == 3)
      out->log = take(run, p, stop);
    else if (i > 3 && !take_entry(run, p, stop, &entry[i - 4]))
      return false;
    p = stop + 1;
  }
  return strlen(out->key) == KEY_LEN;
}

/* ------------------------------------------------------------------- reading */
static bool
line_whole(const char *p, size_t n)
{
  if (n < SUM_LEN + 1 || p[n - SUM_LEN - 1] != '\t')
    return false;
  char sum[SUM_LEN + 1];
  snprintf(sum, sizeof sum, "%016llx", (unsigned long long)nmb__hash(p, n - SUM_LEN - 1));
  return memcmp(sum, p + n - SUM_LEN, SUM_LEN) == 0;
}

/* Reads all of an open file; *len without the NUL after it. */
static char *
slurp(int fd, size_t *len)
{
  size_t cap = 1 << 16;
  char *p = nmb__xrealloc(NULL, cap, 1);
  *len = 0;
  for (ssize_t k; (k = read(fd, p + *len, cap - *len - 1)) != 0;) {
    if (k < 0 && errno != EINTR) {
      free(p);
      return NULL;
    }
    *len += k > 0 ? (size_t)k : 0;
    if (cap - *len < 2)
      p = nmb__xrealloc(p, cap *= 2, 1);
  }
  p[*len] = 0;
  return p;
}

static void
read_lines(const char *text, size_t len, nmb__journal_data *out)
{
  nmb_run *run = out->run;
  int nline = 0;
  for (size_t i = 0; i < len; i++)
    nline += text[i] == '\n';
  out->result = NMB_NEW(run, nmb__result, nline + 1);
  const char *p = text, *end = text + len;
  const size_t head = strlen(HEAD);
  if (len >= head && !memcmp(p, HEAD, head))
    p += head;
  else if (len)
    out->damaged++; /* and the lines that follow are still looked at */
  while (p < end) {
    const char *nl = memchr(p, '\n', (size_t)(end - p));
    const size_t n = (size_t)((nl ? nl : end) - p);
    const bool whole = nl && line_whole(p, n);
    if (whole && *p == '#')
      out->note = nmb_format(run, "%.*s", (int)n - SUM_LEN - 2, p + 1);
    else if (whole && nmb__result_parse(run, p, n - SUM_LEN - 1, &out->result[out->n]))
      out->n++;
    else
      out->damaged++;
    p += n + 1;
  }
}

static nmb_status
read_fd(nmb_run *run, const char *path, int fd, nmb__journal_data *out)
{
  size_t len = 0;
  char *text = slurp(fd, &len);
  if (!text)
    return nmb_fail(run, NMB_IO, NMB_NOLOC, "cannot read %s: %s", path, strerror(errno));
  read_lines(text, len, out);
  free(text);
  return NMB_OK;
}

void
nmb__journal_forget(nmb__journal_data *d)
{
  nmb__run_close(d->run);
  *d = (nmb__journal_data){.note = ""};
}

nmb_status
nmb__journal_read(nmb_run *run, const char *path, nmb__journal_data *out)
{
  *out = (nmb__journal_data){.run = nmb__run_open(NULL), .note = ""};
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT)
    return NMB_OK;
  if (fd < 0)
    return nmb_fail(run, NMB_IO, NMB_NOLOC, "cannot read %s: %s", path, strerror(errno));
  const nmb_status st = read_fd(run, path, fd, out);
  close(fd);
  return st;
}

/* ------------------------------------------------------------------- writing */
struct nmb__journal {
  nmb_run *run;
  const char *path;
  int fd;
  int old; /* the file that a rewrite replaced, whose lock is kept; -1: none */
};

static nmb_status
write_failed(nmb__journal *j)
{
  return nmb_fail(j->run, NMB_IO, NMB_NOLOC, "cannot write %s: %s", j->path,
                  strerror(errno));
}

/* A line is one write, so that a kill cuts at most the last one.  After a failed
 * write the part that got through is taken back. */
nmb_status
nmb__journal_append(nmb__journal *j, const char *text)
{
  const size_t n = strlen(text);
  char *line = nmb__xrealloc(NULL, n + SUM_LEN + 3, 1);
  const int len = snprintf(line, n + SUM_LEN + 3, "%s\t%016llx\n", text,
                           (unsigned long long)nmb__hash(text, n));
  const off_t before = lseek(j->fd, 0, SEEK_END);
  const bool ok = nmb__write_all(j->fd, line, (size_t)len);
  free(line);
  if (ok)
    return NMB_OK;
  const int why = errno;
  if (before < 0 || ftruncate(j->fd, before) != 0)
    nmb_warn(j->run, NMB_NOLOC, "the last line of %s is cut", j->path);
  errno = why;
  return write_failed(j);
}

nmb_status
nmb__journal_note(nmb__journal *j, const char *text)
{
  return nmb__journal_append(j, nmb_format(j->run, "#%s", text));
}

nmb_status
nmb__journal_sync(nmb__journal *j)
{
  return fdatasync(j->fd) == 0 || errno == EINVAL ? NMB_OK : write_failed(j);
}

int
nmb__journal_fd(const nmb__journal *j)
{
  return j->fd;
}

void
nmb__journal_close(nmb__journal *j)
{
  if (!j)
    return;
  close(j->fd);
  if (j->old >= 0)
    close(j->old);
  free(j);
}

/* Opens and locks; tries again if the file was replaced in between. */
static nmb_status
open_locked(nmb_run *run, const char *path, int *out)
{
  for (int i = 0; i < 8; i++) {
    const int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0)
      return nmb_fail(run, NMB_IO, NMB_NOLOC, "cannot write %s: %s", path,
                      strerror(errno));
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
      close(fd);
      return nmb_fail(run, NMB_IO, NMB_NOLOC, "another nmbench is running into %s", path);
    }
    struct stat a, b;
    if (fstat(fd, &a) == 0 && stat(path, &b) == 0 && a.st_ino == b.st_ino &&
        a.st_dev == b.st_dev) {
      *out = fd;
      return NMB_OK;
    }
    close(fd);
  }
  return nmb_fail(run, NMB_IO, NMB_NOLOC, "%s is replaced again and again", path);
}

/* Writes head and the whole lines to a new file, which takes the place of the old
 * one.  Both locks are held until the end. */
static nmb_status
rewrite(nmb__journal *j, const nmb__journal_data *d)
{
  const char *tmp = nmb_format(j->run, "%s.tmp", j->path);
  j->old = j->fd;
  j->fd = open(tmp, O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
  if (j->fd < 0) {
    j->fd = j->old;
    j->old = -1;
    return write_failed(j);
  }
  flock(j->fd, LOCK_EX | LOCK_NB);
  nmb_status st = nmb__write_all(j->fd, HEAD, strlen(HEAD)) ? NMB_OK : write_failed(j);
  for (int i = 0; st == NMB_OK && i < d->n; i++)
    st = nmb__journal_append(j, nmb__result_text(j->run, &d->result[i]));
  if (st == NMB_OK && (fsync(j->fd) != 0 || rename(tmp, j->path) != 0))
    st = write_failed(j);
  if (st != NMB_OK)
    unlink(tmp);
  return st;
}

nmb_status
nmb__journal_open(nmb_run *run, const char *path, bool fresh, nmb__journal_data *out,
                  nmb__journal **j)
{
  *out = (nmb__journal_data){.run = nmb__run_open(NULL), .note = ""};
  int fd = -1;
  NMB_TRY(open_locked(run, path, &fd));
  nmb__journal *n = nmb__xrealloc(NULL, 1, sizeof *n);
  *n = (nmb__journal){run, nmb_strdup(run, path), fd, -1};
  struct stat info = {0};
  nmb_status st = fstat(fd, &info) == 0 ? NMB_OK : write_failed(n);
  if (st == NMB_OK && !fresh)
    st = read_fd(run, path, fd, out);
  if (st == NMB_OK && (fresh || out->damaged || info.st_size == 0))
    st = rewrite(n, out);
  if (st != NMB_OK) {
    nmb__journal_close(n);
    return st;
  }
  *j = n;
  return NMB_OK;
}
