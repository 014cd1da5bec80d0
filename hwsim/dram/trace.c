/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Traces of reads and writes, in the text forms of Ramulator's frontends:
 *   LD 0x1f80, ST 8064        its load/store traces
 *   R 0,0,1,2,17,3            its read/write traces: a number for each level
 *   0x1f80 R                  those of its first version
 * docs/dram.md says what an address means. */
#include "hwsim/dram/dram.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = 2, LEVELS = NMB_DRAM_NLEVEL + 2 };

typedef struct reader {
  nmb_run *run;
  const nmb_dram_info *info;
  nmb_loc at;
  nmb_dram_trace *out;
  int64_t cap;
} reader;

static nmb_status
number(reader *r, const char *s, const char **end, uint64_t *out)
{
  char *e;
  const bool hex = s[0] == '0' && (s[1] == 'x' || s[1] == 'X');
  const char *digits = hex ? s + 2 : s;
  errno = 0;
  /* strtoull would take signs and spaces */
  if (!(hex ? strspn(digits, "0123456789abcdefABCDEF") : strspn(s, "0123456789")))
    return nmb_fail(r->run, NMB_BADINPUT, r->at, "found '%.40s', expected an address", s);
  *out = strtoull(digits, &e, hex ? 16 : 10);
  *end = e;
  if (errno)
    return nmb_fail(r->run, NMB_BADINPUT, r->at, "address '%.40s' has over 64 bits", s);
  return NMB_OK;
}

/* A comma-separated number for each level that the kind has, then row and column. */
static nmb_status
by_level(reader *r, const char *s, nmb_dramreq *q)
{
  const nmb_dram_info *o = r->info;
  int64_t bank = 0, last[2] = {0, 0};
  for (int l = 0; l < LEVELS; l++) {
    const bool place = l < NMB_DRAM_NLEVEL;
    const int64_t size = place                  ? o->count[l]
                         : l == NMB_DRAM_NLEVEL ? o->rows
                                                : o->columns;
    const char *name = l == 0                 ? "Channel"
                       : place                ? o->level_name[l]
                       : l == NMB_DRAM_NLEVEL ? "Row"
                                              : "Column";
    uint64_t v;
    if (!name)
      continue;
    NMB_TRY(number(r, s, &s, &v));
    if (v >= (uint64_t)size)
      return nmb_fail(r->run, NMB_BADINPUT, r->at,
                      "%s: found %llu, expected less than %lld", name,
                      (unsigned long long)v, (long long)size);
    if (*s != (l + 1 < LEVELS ? ',' : '\0'))
      return nmb_fail(r->run, NMB_BADINPUT, r->at, "after %s: found '%.40s', expected %s",
                      name, s, l + 1 < LEVELS ? "a comma" : "the end of the line");
    s++;
    if (place)
      bank = bank * size + (int64_t)v;
    else
      last[l - NMB_DRAM_NLEVEL] = (int64_t)v;
  }
  q->bank = (int)bank;
  q->row = last[0];
  q->column = last[1];
  return NMB_OK;
}

static nmb_status
address(reader *r, const char *s, nmb_dramreq *q)
{
  const nmb_dram_info *o = r->info;
  const char *end;
  uint64_t v;
  if (strchr(s, ','))
    return by_level(r, s, q);
  NMB_TRY(number(r, s, &end, &v));
  if (*end)
    return nmb_fail(r->run, NMB_BADINPUT, r->at, "found '%.40s' after an address", end);
  const uint64_t all = (uint64_t)o->banks * (uint64_t)o->rows * (uint64_t)o->columns;
  v /= (uint64_t)o->tx_bytes;
  r->out->wrapped += v >= all;
  nmb__dram_flat(o, (int64_t)(v % all), q);
  return NMB_OK;
}

/* 0 read, 1 write, -1 neither */
static int
direction(const char *word)
{
  return !strcmp(word, "LD") || !strcmp(word, "R")   ? 0
         : !strcmp(word, "ST") || !strcmp(word, "W") ? 1
                                                     : -1;
}

static nmb_status
line_of(reader *r, char *line)
{
  static const char space[] = " \t\r";
  char *word[WORDS + 1] = {NULL};
  int n = 0;
  nmb_dram_trace *t = r->out;
  for (char *s = line + strspn(line, space); *s && *s != '#' && n <= WORDS;
       s += strspn(s, space)) {
    word[n++] = s;
    s += strcspn(s, space);
    if (*s)
      *s++ = '\0';
  }
  if (n == 0)
    return NMB_OK;
  const int at = n == WORDS && direction(word[0]) < 0 ? 1 : 0;
  if (n != WORDS || direction(word[at]) < 0)
    return nmb_fail(
        r->run, NMB_BADINPUT, r->at,
        "found '%.40s' and %d more words, expected 'LD ADDRESS', 'ST ADDRESS', "
        "'R ADDRESS', 'W ADDRESS' or 'ADDRESS R|W'",
        word[0], n - 1);
  if (t->n == r->cap) {
    nmb_dramreq *old = t->v;
    r->cap = r->cap ? 2 * r->cap : 1024;
    t->v = NMB_NEW(r->run, nmb_dramreq, r->cap);
    if (t->n)
      memcpy(t->v, old, (size_t)t->n * sizeof *old);
  }
  nmb_dramreq q = {.write = direction(word[at]) == 1};
  NMB_TRY(address(r, word[1 - at], &q));
  t->v[t->n++] = q;
  return NMB_OK;
}

nmb_status
nmb_dram_trace_parse(nmb_run *run, const nmb_dram *d, const char *file, const char *text,
                     size_t len, nmb_dram_trace *out)
{
  *out = (nmb_dram_trace){0};
  reader r = {run, nmb_dram_get(d), {file, 0, 0}, out, 0};
  for (size_t i = 0; i < len;) {
    const char *end = memchr(text + i, '\n', len - i);
    const size_t n = end ? (size_t)(end - text) - i : len - i;
    r.at.line++;
    if (memchr(text + i, '\0', n))
      return nmb_fail(run, NMB_BADINPUT, r.at, "found a null byte, expected text");
    char *line = NMB_NEW(run, char, n + 1);
    memcpy(line, text + i, n);
    NMB_TRY(line_of(&r, line));
    i += n + 1;
  }
  if (out->n == 0)
    return nmb_fail(run, NMB_BADINPUT, (nmb_loc){file, 0, 0}, "has no requests");
  return NMB_OK;
}

/* The first line that is not empty has two words, one of them a direction. */
bool
nmb_dram_trace_looks(const char *text, size_t len)
{
  static const char gap[] = " \t\r\n";
  const char *p = text, *end = text + len;
  char word[WORDS][24];
  for (int n = 0; n < WORDS; n++) {
    while (p && p < end && *p && (strchr(gap, *p) || *p == '#'))
      p = *p == '#' ? memchr(p, '\n', (size_t)(end - p)) : p + 1;
    size_t k = 0;
    for (; p && p < end && *p && !strchr(gap, *p); p++)
      if (k + 1 < sizeof word[n])
        word[n][k++] = *p;
    if (!p || k == 0)
      return false;
    word[n][k] = '\0';
  }
  const bool digit0 = strchr("0123456789", word[0][0]),
             digit1 = strchr("0123456789", word[1][0]);
  return (direction(word[0]) >= 0 && digit1) || (digit0 && direction(word[1]) >= 0);
}

bool
nmb_dram_trace_next(void *trace, int64_t k, nmb_dramreq *out)
{
  const nmb_dram_trace *t = trace;
  if (k >= t->n)
    return false;
  *out = t->v[k];
  return true;
}
