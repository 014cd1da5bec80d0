/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Byte-level BPE (Sennrich et al., arXiv:1508.07909; GPT-2's form): the text is cut into
 * words by a regular expression, the bytes of a word are written as printable characters,
 * and the pair of lowest rank merges, again and again. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "base/near.h"
#include "frontend/token.h"

static const struct {
  const char *name, *expr;
} words[] = {
#define CUT(name, expr) {name, expr},
#define PRE(pre, name, whole, begin)
#include "frontend/pre.def"
#undef CUT
#undef PRE
};

static const nmb__bpe_pre pres[] = {
#define CUT(name, expr)
#define PRE(pre, name, whole, begin) {pre, name, whole, begin},
#include "frontend/pre.def"
#undef CUT
#undef PRE
};

nmb__bpe_pre
nmb__bpe_pre_of(const char *pre)
{
  for (size_t i = 0; i < sizeof pres / sizeof *pres; i++)
    if (!strcmp(pres[i].pre, pre))
      return pres[i];
  return (nmb__bpe_pre){pre, pre, false, false};
}

const char *
nmb__bpe_gpt2(void)
{
  return words[0].expr;
}

/* The expressions of a vocabulary, one after another. */
static nmb_status
expressions(nmb_run *run, const nmb__vocab *v, const char **out, int *n)
{
  const size_t rows = sizeof words / sizeof *words;
  const char *names[sizeof words / sizeof *words], *pre = v->pre;
  *n = v->nexpr;
  memcpy(out, v->expr, sizeof v->expr);
  if (v->nexpr || !pre)
    return NMB_OK;
  pre = nmb__bpe_pre_of(pre).name;
  for (size_t i = 0; i < rows; i++) {
    names[i] = words[i].name;
    if (!strcmp(words[i].name, pre))
      out[(*n)++] = words[i].expr;
  }
  if (*n)
    return NMB_OK;
  return nmb_fail(run, NMB_UNSUPPORTED, NMB_NOLOC,
                  "tokenizer.ggml.pre '%s' is not supported%s", pre,
                  nmb__hint(run, pre, names, (int)rows));
}

/* ------------------------------------------------------------ bytes as text */
/* Code points 33-126, 161-172, 174-255 stand for themselves, the other bytes in order for
 * 256 and up. */
static unsigned
point_of(unsigned byte)
{
  unsigned next = 256;
  for (unsigned b = 0; b < 256; b++) {
    const bool self = (b >= 33 && b <= 126) || (b >= 161 && b != 173);
    if (b == byte)
      return self ? b : next;
    next += !self;
  }
  return 0;
}

/* All code points are below 0x800. */
static size_t
utf8(unsigned point, char *out)
{
  if (point < 0x80) {
    out[0] = (char)point;
    return 1;
  }
  out[0] = (char)(0xc0 | point >> 6);
  out[1] = (char)(0x80 | (point & 63));
  return 2;
}

size_t
nmb__bpe_bytes(const char *s, size_t n, char *out)
{
  size_t m = 0;
  unsigned char byte[512];
  bool is[512] = {false};
  for (unsigned b = 0; b < 256; b++) {
    byte[point_of(b)] = (unsigned char)b;
    is[point_of(b)] = true;
  }
  for (size_t i = 0; i < n; i++) {
    const unsigned char c = (unsigned char)s[i];
    unsigned p = c;
    if (c >> 5 == 6 && i + 1 < n)
      p = (c & 31u) << 6 | ((unsigned char)s[++i] & 63u);
    out[m++] = p < 512 && is[p] ? (char)byte[p] : s[i];
  }
  return m;
}

/* -------------------------------------------------------------------- merges */
static const nmb__merge *
merge_find(const nmb__vocab *v, int32_t left, int32_t right)
{
  int lo = 0, hi = v->nmerge;
  while (lo < hi) {
    const int mid = lo + (hi - lo) / 2;
    const nmb__merge *m = &v->merge[mid];
    if (m->left < left || (m->left == left && m->right < right))
      lo = mid + 1;
    else
      hi = mid;
  }
  const nmb__merge *m = &v->merge[lo];
  return lo < v->nmerge && m->left == left && m->right == right ? m : NULL;
}

int64_t
nmb__bpe_merge(const nmb__vocab *v, int32_t *ids, int64_t n)
{
  for (;;) {
    const nmb__merge *best = NULL;
    int64_t at = 0;
    for (int64_t i = 0; i + 1 < n; i++) {
      const nmb__merge *m = merge_find(v, ids[i], ids[i + 1]);
      if (m && (!best || m->rank < best->rank)) {
        best = m;
        at = i;
      }
    }
    if (!best)
      return n;
    ids[at] = best->made;
    memmove(ids + at + 1, ids + at + 2, (size_t)(n - at - 2) * sizeof *ids);
    n--;
  }
}

/* The token that is all of the word; -1: there is none. */
static int32_t
whole_word(nmb_run *run, const nmb__vocab *v, const char *s, size_t n)
{
  char *t = NMB_NEW(run, char, 2 * n + 1);
  size_t m = 0;
  for (size_t i = 0; i < n; i++)
    m += utf8(point_of((unsigned char)s[i]), t + m);
  return nmb__vocab_find(v, t, m);
}

static nmb_status
word_add(nmb_run *run, const nmb__vocab *v, const char *s, size_t n, int32_t *ids,
         int64_t *count)
{
  int32_t *out = ids + *count;
  int64_t m = 0;
  if (v->whole) {
    const int32_t id = whole_word(run, v, s, n);
    if (id >= 0) {
      out[0] = id;
      ++*count;
      return NMB_OK;
    }
  }
  for (size_t i = 0; i < n; i++) {
    char c[2];
    const size_t k = utf8(point_of((unsigned char)s[i]), c);
    const int32_t id = nmb__vocab_find(v, c, k);
    if (id < 0 && v->unknown < 0)
      return nmb_fail(run, NMB_BADINPUT, NMB_NOLOC,
                      "the vocabulary has no token for byte 0x%02x of the text",
                      (unsigned)(unsigned char)s[i]);
    out[m++] = id < 0 ? v->unknown : id;
  }
  *count += nmb__bpe_merge(v, out, m);
  return NMB_OK;
}

/* ---------------------------------------------------------------------- cuts */
/* Marks in end[] where words end: at both ends of what the expression finds in each of
 * the words so far. */
static nmb_status
cut(nmb_run *run, const char *expr, const char *text, size_t len, bool *end)
{
  int err;
  size_t where;
  pcre2_code *re =
      pcre2_compile((PCRE2_SPTR)expr, PCRE2_ZERO_TERMINATED,
                    PCRE2_UTF | PCRE2_UCP | PCRE2_MATCH_INVALID_UTF, &err, &where, NULL);
  if (!re)
    return nmb_fail(run, NMB_UNSUPPORTED, NMB_NOLOC,
                    "the vocabulary's expression '%.60s' is not understood at %zu", expr,
                    where);
  pcre2_match_data *md = pcre2_match_data_create(2, NULL);
  for (size_t from = 0, to; from < len; from = to) {
    for (to = from + 1; to < len && !end[to]; to++)
      ;
    for (size_t at = from; at < to;) {
      const int r = pcre2_match(re, (PCRE2_SPTR)text + from, to - from, at - from, 0, md, NULL);
      const size_t *o = pcre2_get_ovector_pointer(md);
      if (r <= 0)
        break;
      end[from + o[0]] = end[from + o[1]] = true;
      at = from + o[1] + (o[1] == o[0]);
    }
  }
  pcre2_match_data_free(md);
  pcre2_code_free(re);
  return NMB_OK;
}

nmb_status
nmb__bpe_encode(nmb_run *run, const nmb__vocab *v, const char *text, size_t len,
                int32_t *ids, int64_t *n)
{
  const char *expr[NMB__MOST_CUTS];
  int nexpr;
  bool *end = NMB_NEW(run, bool, len + 1);
  NMB_TRY(expressions(run, v, expr, &nexpr));
  for (int i = 0; i < nexpr; i++)
    NMB_TRY(cut(run, expr[i], text, len, end));
  for (size_t at = 0, to; at < len; at = to) {
    for (to = at + 1; to < len && !end[to]; to++)
      ;
    NMB_TRY(word_add(run, v, text + at, to - at, ids, n));
  }
  return NMB_OK;
}
