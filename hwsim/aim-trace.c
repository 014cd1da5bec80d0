/* SPDX-License-Identifier: GPL-3.0-or-later */
/* AiM programs as text. */
#include "nmbench/nmb_aim.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/near.h"
#include "base/run.h"

enum { MAXWORD = 12, MAXCHANNEL = 64, MAXSIZE = 1 << 20 };

typedef struct opinfo {
  const char *name, *fields;
} opinfo;
static const opinfo ops[NMB_NAIM] = {
#define X(id, name, fields, command, help) {name, fields},
    NMB_AIM_MAP(X)
#undef X
};

const char *
nmb_aim_name(nmb_aim_op op)
{
  return ops[op].name;
}

void
nmb_aim_add(nmb_run *run, nmb_aim_list *l, nmb_aim_insn in)
{
  if (l->n == l->cap) {
    nmb_aim_insn *old = l->v;
    l->cap = l->cap ? 2 * l->cap : 64;
    l->v = NMB_NEW(run, nmb_aim_insn, l->cap);
    if (l->n)
      memcpy(l->v, old, (size_t)l->n * sizeof *old);
  }
  l->v[l->n++] = in;
}

/* ------------------------------------------------------------------- reading */
typedef struct line {
  nmb_run *run;
  nmb_loc loc;
  int n;
  char word[MAXWORD][24];
} line;

static bool
is_gap(char c)
{
  return c == ',' || c == ' ' || c == '\t' || c == '\r';
}

/* The words of [p, end); a comment, in quotes or not, ends them. */
static nmb_status
cut_words(line *l, const char *p, const char *end)
{
  l->n = 0;
  while (p < end) {
    while (p < end && is_gap(*p))
      p++;
    if (p == end || *p == '#')
      return NMB_OK;
    const char *from = p;
    while (p < end && !is_gap(*p))
      p++;
    const size_t len = (size_t)(p - from);
    if (l->n == MAXWORD || len >= sizeof l->word[0] || memchr(from, '\0', len))
      return nmb_fail(l->run, NMB_BADINPUT, l->loc,
                      "found more or longer words than an instruction has");
    memcpy(l->word[l->n], from, len);
    l->word[l->n++][len] = '\0';
  }
  return NMB_OK;
}

static nmb_status
number(const line *l, int at, const char *what, int64_t most, int64_t *out)
{
  const char *w = l->word[at];
  char *end;
  errno = 0;
  const unsigned long long v = strtoull(w, &end, 0);
  if (!isdigit((unsigned char)*w) || *end || errno || v > (unsigned long long)most)
    return nmb_fail(l->run, NMB_BADINPUT, l->loc,
                    "%s: found '%s', expected a number 0..%" PRId64, what, w, most);
  *out = (int64_t)v;
  return NMB_OK;
}

static nmb_status
field(const line *l, char kind, int at, nmb_aim_insn *in)
{
  int64_t v = 0;
  switch (kind) {
  case 's':
    NMB_TRY(number(l, at, "size", MAXSIZE, &in->size));
    return in->size > 0 ? NMB_OK
                        : nmb_fail(l->run, NMB_BADINPUT, l->loc, "size: found 0");
  case 'g': return number(l, at, "register", INT32_MAX, &in->g);
  case 'h': return number(l, at, "register or value", INT32_MAX, &in->h);
  case 'b': NMB_TRY(number(l, at, "bank", 15, &v)); in->bank = (int)v; return NMB_OK;
  case 'r': return number(l, at, "row", INT32_MAX, &in->row);
  case 'c':
    NMB_TRY(number(l, at, "channel", MAXCHANNEL - 1, &v));
    in->mask = UINT64_C(1) << v;
    return NMB_OK;
  default:
    NMB_TRY(number(l, at, "channel mask", INT64_MAX, &v));
    in->mask = (uint64_t)v;
    return v ? NMB_OK
             : nmb_fail(l->run, NMB_BADINPUT, l->loc, "channel mask: found 0");
  }
}

static nmb_status
find_op(const line *l, int *first, nmb_aim_op *out)
{
  const char *names[NMB_NAIM];
  int n = 0;
  const bool aim = !strcmp(l->word[0], "AiM");
  if ((!aim && strcmp(l->word[0], "R") && strcmp(l->word[0], "W")) || l->n < 2)
    return nmb_fail(l->run, NMB_BADINPUT, l->loc,
                    "found '%s', expected an instruction: AiM, R or W and what of it",
                    l->word[0]);
  const char *word =
      aim ? l->word[1] : nmb_format(l->run, "%s %s", l->word[0], l->word[1]);
  *first = 2;
  for (int i = 0; i < NMB_NAIM; i++) {
    if (aim == (strchr(ops[i].name, ' ') != NULL))
      continue;
    names[n++] = ops[i].name;
    if (!strcmp(word, ops[i].name)) {
      *out = (nmb_aim_op)i;
      return NMB_OK;
    }
  }
  return nmb_fail(l->run, NMB_BADINPUT, l->loc, "found '%s', which is unknown%s", word,
                  nmb__hint(l->run, word, names, n));
}

static nmb_status
read_line(const line *l, nmb_aim_insn *out)
{
  int at;
  nmb_aim_insn in = {.size = 1, .bank = -1};
  NMB_TRY(find_op(l, &at, &in.op));
  const char *f = ops[in.op].fields;
  const bool optional = *f == '[';
  const int least = (int)strlen(f) - (optional ? 3 : 0), given = l->n - at;
  if (given != least && !(optional && given == least + 1))
    return nmb_fail(l->run, NMB_BADINPUT, l->loc, "%s: found %d fields, expected %d%s",
                    ops[in.op].name, given, least, optional ? " or one more" : "");
  if (optional && given == least)
    f += 3; /* "[s]" */
  for (; *f; f++)
    if (*f != '[' && *f != ']')
      NMB_TRY(field(l, *f, at++, &in));
  *out = in;
  return NMB_OK;
}

nmb_status
nmb_aim_parse(nmb_run *run, const char *file, const char *text, size_t len,
              nmb_aim_list *out)
{
  const char *p = text, *all = text + len;
  line l = {.run = run, .loc = {file, 0, 0}};
  *out = (nmb_aim_list){0};
  while (p < all) {
    const char *end = memchr(p, '\n', (size_t)(all - p));
    end = end ? end : all;
    l.loc.line++;
    NMB_TRY(cut_words(&l, p, end));
    if (l.n > 0) {
      nmb_aim_insn in;
      NMB_TRY(read_line(&l, &in));
      nmb_aim_add(run, out, in);
    }
    p = end < all ? end + 1 : all;
  }
  if (out->n == 0)
    return nmb_fail(run, NMB_BADINPUT, (nmb_loc){file, 0, 0},
                    "found no instruction in it");
  return NMB_OK;
}

bool
nmb_aim_looks(const char *text, size_t len)
{
  const char *p = text, *end = text + len;
  while (p < end) {
    while (p < end && (is_gap(*p) || *p == '\n'))
      p++;
    if (p < end && *p == '#') {
      while (p < end && *p != '\n')
        p++;
      continue;
    }
    return (end - p > 4 && !memcmp(p, "AiM", 3) && is_gap(p[3])) ||
           (end - p > 5 && (*p == 'R' || *p == 'W') && is_gap(p[1]) &&
            (!memcmp(p + 2, "MEM", 3) || !memcmp(p + 2, "GPR", 3) ||
             !memcmp(p + 2, "CFR", 3)));
  }
  return false;
}

/* ------------------------------------------------------------------- writing */
static int
channel_of(uint64_t mask)
{
  int c = 0;
  while (c < MAXCHANNEL - 1 && !(mask >> c & 1))
    c++;
  return c;
}

void
nmb_aim_print(const nmb_aim_list *l, FILE *out)
{
  for (int64_t i = 0; i < l->n; i++) {
    const nmb_aim_insn *in = &l->v[i];
    const char *f = ops[in->op].fields, *name = ops[in->op].name;
    fprintf(out, "%s%s", strchr(name, ' ') ? "" : "AiM ", name);
    if (*f == '[' && in->size == 1)
      f += 3;
    for (; *f; f++)
      switch (*f) {
      case 's': fprintf(out, " %" PRId64, in->size); break;
      case 'g': fprintf(out, " %" PRId64, in->g); break;
      case 'h': fprintf(out, " %" PRId64, in->h); break;
      case 'm': fprintf(out, " %" PRIu64, in->mask); break;
      case 'b': fprintf(out, " %d", in->bank); break;
      case 'r': fprintf(out, " %" PRId64, in->row); break;
      case 'c': fprintf(out, " %d", channel_of(in->mask)); break;
      default: break;
      }
    fputc('\n', out);
  }
}
