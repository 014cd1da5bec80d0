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

/* tokenizer.ggml.pre -> the expression of the model's own tokenizer.json. */
static const struct {
  const char *name, *expr;
} words[] = {
    {"gpt-2", "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|"
              "\\s+(?!\\S)|\\s+"},
    {"llama-bpe",
     "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|"
     " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
    {"qwen2", "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|"
              " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
    {"gpt-4o", "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*"
               "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
               "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+"
               "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\\p{N}{1,3}|"
               " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
    {"starcoder", "\\p{N}|'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+|"
                  " ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"}};
static const char *const alike[][2] = {{"", "gpt-2"},
                                       {"default", "gpt-2"},
                                       {"gpt2", "gpt-2"},
                                       {"olmo", "gpt-2"},
                                       {"mpt", "gpt-2"},
                                       {"phi-2", "gpt-2"},
                                       {"llama3", "llama-bpe"},
                                       {"llama-v3", "llama-bpe"},
                                       {"falcon3", "llama-bpe"},
                                       {"smaug-bpe", "llama-bpe"},
                                       {"dbrx", "llama-bpe"},
                                       {"glm4", "llama-bpe"},
                                       {"qwen35", "qwen2"},
                                       {"deepseek-r1-qwen", "qwen2"},
                                       {"stablelm2", "qwen2"},
                                       {"llama4", "gpt-4o"},
                                       {"refact", "starcoder"},
                                       {"command-r", "starcoder"},
                                       {"smollm", "starcoder"},
                                       {"codeshell", "starcoder"}};

static nmb_status
expression(nmb_run *run, const char *pre, const char **out)
{
  const size_t n = sizeof words / sizeof *words;
  const char *names[sizeof words / sizeof *words];
  for (size_t i = 0; i < sizeof alike / sizeof *alike; i++)
    if (!strcmp(alike[i][0], pre))
      pre = alike[i][1];
  for (size_t i = 0; i < n; i++) {
    names[i] = words[i].name;
    if (!strcmp(words[i].name, pre)) {
      *out = words[i].expr;
      return NMB_OK;
    }
  }
  return nmb_fail(run, NMB_UNSUPPORTED, NMB_NOLOC,
                  "tokenizer.ggml.pre '%s' is not supported%s", pre,
                  nmb__hint(run, pre, names, (int)n));
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

/* ids[0, n) are the bytes of a word. */
static int64_t
word_merge(const nmb__vocab *v, int32_t *ids, int64_t n)
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

static nmb_status
word_add(nmb_run *run, const nmb__vocab *v, const char *s, size_t n, int32_t *ids,
         int64_t *count)
{
  int32_t *out = ids + *count;
  int64_t m = 0;
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
  *count += word_merge(v, out, m);
  return NMB_OK;
}

/* The end of the word at `at`: where the expression ends it. */
static size_t
word_end(const pcre2_code *re, pcre2_match_data *md, const char *text, size_t len,
         size_t at)
{
  const int r = pcre2_match(re, (PCRE2_SPTR)text, len, at, PCRE2_ANCHORED, md, NULL);
  const size_t end = r > 0 ? pcre2_get_ovector_pointer(md)[1] : at;
  return end > at ? end : at + 1;
}

nmb_status
nmb__bpe_encode(nmb_run *run, const nmb__vocab *v, const char *text, size_t len,
                int32_t *ids, int64_t *n)
{
  const char *expr;
  int err;
  size_t where;
  NMB_TRY(expression(run, v->pre, &expr));
  pcre2_code *re =
      pcre2_compile((PCRE2_SPTR)expr, PCRE2_ZERO_TERMINATED,
                    PCRE2_UTF | PCRE2_UCP | PCRE2_MATCH_INVALID_UTF, &err, &where, NULL);
  pcre2_match_data *md = pcre2_match_data_create(2, NULL);
  nmb_status s = NMB_OK;
  for (size_t at = 0; s == NMB_OK && at < len;) {
    const size_t end = word_end(re, md, text, len, at);
    s = word_add(run, v, text + at, end - at, ids, n);
    at = end;
  }
  pcre2_match_data_free(md);
  pcre2_code_free(re);
  return s;
}
