/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Vocabularies of weight files.  SentencePiece's greedy merging by score is that of
 * llama2.c (run.c): a space before the text, characters, bytes for unknown ones, then the
 * adjacent pair whose text has the highest score, again and again. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/map.h"
#include "base/path.h"
#include "base/run.h"
#include "frontend/token.h"

/* ------------------------------------------------------------------ lookup */
static int
text_order(const char *a, size_t n, const char *b, size_t m)
{
  const int c = memcmp(a, b, n < m ? n : m);
  return c ? c : n < m ? -1 : n > m;
}

int32_t
nmb__vocab_find(const nmb__vocab *v, const char *s, size_t n)
{
  int lo = 0, hi = v->n;
  while (lo < hi) {
    const int mid = lo + (hi - lo) / 2;
    const nmb__piece_text *p = &v->piece[v->sorted[mid]];
    if (text_order(p->s, p->n, s, n) < 0)
      lo = mid + 1;
    else
      hi = mid;
  }
  if (lo == v->n)
    return -1;
  const nmb__piece_text *p = &v->piece[v->sorted[lo]];
  return text_order(p->s, p->n, s, n) ? -1 : v->sorted[lo];
}

/* A text with its id, so that a plain qsort has all it needs. */
typedef struct entry {
  const nmb__piece_text *p;
  int32_t id;
} entry;

static int
entry_order(const void *a, const void *b)
{
  const entry *x = a, *y = b;
  const int c = text_order(x->p->s, x->p->n, y->p->s, y->p->n);
  return c ? c : x->id < y->id ? -1 : x->id > y->id;
}

/* The byte that "<0x0A>" stands for; -1: not of that form. */
static int
byte_of(const nmb__piece_text *p)
{
  char s[7] = {0}, *end;
  if (p->n != 6 || memcmp(p->s, "<0x", 3) || p->s[5] != '>')
    return -1;
  memcpy(s, p->s + 3, 2);
  const long b = strtol(s, &end, 16);
  return *end ? -1 : (int)b;
}

static int
length_order(const void *a, const void *b)
{
  const entry *x = a, *y = b;
  if (x->p->n != y->p->n)
    return x->p->n > y->p->n ? -1 : 1;
  return x->id < y->id ? -1 : x->id > y->id;
}

/* Control tokens and a user's own; e: room for all. */
static void
specials_find(nmb_run *run, nmb__vocab *v, entry *e)
{
  v->special = NMB_NEW(run, int32_t, v->n + 1);
  for (int32_t i = 0; i < v->n; i++) {
    const nmb__piece_text *p = &v->piece[i];
    if ((p->type == NMB__TOKEN_CONTROL || p->type == NMB__TOKEN_USER) && p->n > 1)
      e[v->nspecial++] = (entry){p, i};
  }
  if (v->nspecial)
    qsort(e, (size_t)v->nspecial, sizeof *e, length_order);
  for (int i = 0; i < v->nspecial; i++)
    v->special[i] = e[i].id;
}

void
nmb__vocab_index(nmb_run *run, nmb__vocab *v)
{
  entry *e = NMB_NEW(run, entry, v->n + 1);
  v->sorted = NMB_NEW(run, int32_t, v->n + 1);
  for (int i = 0; i < 256; i++)
    v->bytes[i] = -1;
  for (int32_t i = 0; i < v->n; i++) {
    const int b = byte_of(&v->piece[i]);
    e[i] = (entry){&v->piece[i], i};
    if (b >= 0 && v->bytes[b] < 0) {
      v->bytes[b] = i;
      v->piece[i].type = NMB__TOKEN_BYTE;
    }
  }
  if (v->n)
    qsort(e, (size_t)v->n, sizeof *e, entry_order);
  for (int i = 0; i < v->n; i++)
    v->sorted[i] = e[i].id;
  specials_find(run, v, e);
}

/* ------------------------------------------------------------ tokenizer.bin */
static nmb_status
bin_read(nmb_run *run, const char *path, int64_t size, nmb__vocab *v)
{
  size_t len, at = 4;
  const char *s = nmb__read_file(run, path, &len);
  const uint8_t *b = (const uint8_t *)s;
  if (!s)
    return NMB_IO;
  v->kind = NMB__VOCAB_SPM;
  v->piece = NMB_NEW(run, nmb__piece_text, size + 1);
  while (v->n < size && len >= 8 && at <= len - 8) {
    const uint32_t n = nmb__le32(b + at + 4);
    if (n > len - at - 8)
      return nmb_fail(run, NMB_BADINPUT, (nmb_loc){path, 0, 0},
                      "token %d: its %" PRIu32 " bytes go past the end of the file", v->n,
                      n);
    v->piece[v->n++] =
        (nmb__piece_text){s + at + 8, n, nmb__lefloat(b + at), NMB__TOKEN_NORMAL};
    at += 8 + n;
  }
  if (v->n < 3)
    return nmb_fail(run, NMB_BADINPUT, (nmb_loc){path, 0, 0},
                    "found %d tokens, expected the vocabulary of a llama2.c model", v->n);
  for (int i = 0; i < 3; i++)
    v->piece[i].type = i ? NMB__TOKEN_CONTROL : NMB__TOKEN_UNKNOWN;
  v->unknown = 0;
  v->bos = 1;
  v->eos = 2;
  v->add_bos = v->add_space = true;
  return NMB_OK;
}

/* --------------------------------------------------------------------- open */
static const char *
beside(nmb_run *run, const char *path)
{
  static const char *const names[] = {"tokenizer.json", "tokenizer.bin", "tok512.bin"};
  const char *slash = strrchr(path, '/');
  const bool folder = nmb__is_folder(path);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const char *s = folder ? nmb_format(run, "%s/%s", path, names[i])
                    : slash
                        ? nmb_format(run, "%.*s/%s", (int)(slash - path), path, names[i])
                        : names[i];
    if (nmb__is_file(s))
      return s;
  }
  return NULL;
}

static bool
ends(const char *path, const char *with)
{
  const size_t n = strlen(path), m = strlen(with);
  return n > m && !strcmp(path + n - m, with);
}

nmb_status
nmb__vocab_open(nmb_run *run, const nmb__wfile *w, const char *path, int64_t size,
                nmb__vocab **out)
{
  nmb__vocab *v = NMB_NEW(run, nmb__vocab, 1);
  v->bos = v->eos = v->unknown = -1;
  v->pre = "";
  *out = v;
  if (w->naming == NMB__NAMES_RWKV && !path) {
    v->kind = NMB__VOCAB_BYTES;
    return NMB_OK;
  }
  if (path && ends(path, ".gguf")) { /* its texts are used after it is closed: kept open */
    nmb__wfile *other;
    NMB_TRY(nmb__wfile_open(run, path, &other));
    return nmb__vocab_gguf(run, other, size, v);
  }
  if (!path && nmb__wfile_meta(w, "tokenizer.ggml.tokens"))
    return nmb__vocab_gguf(run, w, size, v);
  const char *file = path ? path : beside(run, w->path);
  if (!file)
    return nmb_fail(run, NMB_BADINPUT, (nmb_loc){w->path, 0, 0},
                    "the file has no vocabulary, and no tokenizer.json or tokenizer.bin is "
                    "beside it: use "
                    "--tokenizer");
  if (ends(file, ".json"))
    return nmb__tokenizer_json(run, file, size, v);
  NMB_TRY(bin_read(run, file, size, v));
  nmb__vocab_index(run, v);
  return NMB_OK;
}

/* -------------------------------------------------------------------- encode */
/* Bytes of the UTF-8 character at s; 1 for what is none. */
static size_t
character(const char *s, size_t n)
{
  const unsigned char c = (unsigned char)*s;
  const size_t want = c < 0x80       ? 1
                      : c >> 5 == 6  ? 2
                      : c >> 4 == 14 ? 3
                      : c >> 3 == 30 ? 4
                                     : 1;
  if (want > n)
    return 1;
  for (size_t i = 1; i < want; i++)
    if (((unsigned char)s[i] & 0xc0) != 0x80)
      return 1;
  return want;
}

static void
character_add(const nmb__vocab *v, const char *s, size_t n, int32_t *ids, int64_t *count)
{
  const int32_t id = nmb__vocab_find(v, s, n);
  if (id >= 0) {
    ids[(*count)++] = id;
    return;
  }
  for (size_t i = 0; i < n; i++) {
    const int32_t b = v->bytes[(unsigned char)s[i]];
    if (b >= 0 || v->unknown >= 0)
      ids[(*count)++] = b >= 0 ? b : v->unknown;
  }
}

/* What the pair makes; -1: nothing. */
static int32_t
pair(const nmb__vocab *v, int32_t a, int32_t b, char *tmp)
{
  const nmb__piece_text *x = &v->piece[a], *y = &v->piece[b];
  if (x->type == NMB__TOKEN_BYTE || y->type == NMB__TOKEN_BYTE)
    return -1;
  memcpy(tmp, x->s, x->n);
  memcpy(tmp + x->n, y->s, y->n);
  return nmb__vocab_find(v, tmp, x->n + y->n);
}

/* The text before the first merge is ids[first, *n).  made[i]: what i and i + 1 make. */
static void
merge_all(nmb_run *run, const nmb__vocab *v, int32_t *ids, int64_t first, int64_t *n)
{
  size_t longest = 0;
  for (int i = 0; i < v->n; i++)
    longest = v->piece[i].n > longest ? v->piece[i].n : longest;
  char *tmp = NMB_NEW(run, char, 2 * longest + 1);
  int32_t *made = NMB_NEW(run, int32_t, *n + 1);
  for (int64_t i = first; i + 1 < *n; i++)
    made[i] = pair(v, ids[i], ids[i + 1], tmp);
  for (;;) {
    int64_t best = -1;
    for (int64_t i = first; i + 1 < *n; i++)
      if (made[i] >= 0 &&
          (best < 0 || v->piece[made[i]].score > v->piece[made[best]].score))
        best = i;
    if (best < 0)
      return;
    ids[best] = made[best];
    memmove(ids + best + 1, ids + best + 2, (size_t)(*n - best - 2) * sizeof *ids);
    memmove(made + best, made + best + 1, (size_t)(*n - best - 1) * sizeof *made);
    --*n;
    if (best + 1 < *n)
      made[best] = pair(v, ids[best], ids[best + 1], tmp);
    if (best > first)
      made[best - 1] = pair(v, ids[best - 1], ids[best], tmp);
  }
}

/* The pieces whose scores add up to most (arXiv:1804.10959); a character that is no piece
 * costs more than any. */
static void
unigram(nmb_run *run, const nmb__vocab *v, const char *s, size_t len, int32_t *ids,
        int64_t *n)
{
  double *best = NMB_NEW(run, double, len + 1);
  size_t *from = NMB_NEW(run, size_t, len + 1), longest = 1;
  double least = 0;
  for (int i = 0; i < v->n; i++) {
    longest = v->piece[i].n > longest ? v->piece[i].n : longest;
    least = (double)v->piece[i].score < least ? (double)v->piece[i].score : least;
  }
  for (size_t i = 1; i <= len; i++)
    best[i] = -1e300;
  for (size_t i = 0; i < len; i++) {
    const size_t c = character(s + i, len - i);
    for (size_t m = 1; m <= longest && m <= len - i && best[i] > -1e300; m++) {
      const int32_t id = nmb__vocab_find(v, s + i, m);
      const bool is = id >= 0 && v->piece[id].type == NMB__TOKEN_NORMAL;
      const double sum =
          best[i] + (is ? (double)v->piece[id].score : least - 10 * (double)(m == c));
      if ((is || m == c) && sum > best[i + m]) {
        best[i + m] = sum;
        from[i + m] = i;
      }
    }
  }
  size_t *cut = NMB_NEW(run, size_t, len + 1), k = 0;
  for (size_t i = len; i > 0; i = from[i])
    cut[k++] = i;
  for (size_t at = 0; k-- > 0; at = cut[k])
    character_add(v, s + at, cut[k] - at, ids, n);
}

static void
greedy(const nmb__vocab *v, const char *s, size_t len, int32_t *ids, int64_t *n)
{
  size_t longest = 1;
  for (int i = 0; i < v->n; i++)
    longest = v->piece[i].n > longest ? v->piece[i].n : longest;
  for (size_t i = 0, m; i < len; i += m) {
    int32_t id = -1;
    for (m = len - i < longest ? len - i : longest; m > 0 && id < 0; m -= id < 0)
      id = nmb__vocab_find(v, s + i, m);
    m += !m;
    if (id >= 0 || v->unknown >= 0)
      ids[(*n)++] = id >= 0 ? id : v->unknown;
  }
}

/* The text in a normal form, and its length. */
static nmb_status
formed(nmb_run *run, nmb__form form, const char **text, size_t *len)
{
  static const int options[] = {
      0, UTF8PROC_STABLE | UTF8PROC_COMPOSE, UTF8PROC_STABLE | UTF8PROC_DECOMPOSE,
      UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT,
      UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT};
  utf8proc_uint8_t *out = NULL;
  const utf8proc_ssize_t n =
      utf8proc_map((const utf8proc_uint8_t *)*text, (utf8proc_ssize_t)*len, &out,
                   (utf8proc_option_t)options[form]);
  if (n < 0)
    return nmb_fail(run, NMB_BADINPUT, NMB_NOLOC, "the text is not UTF-8: %s",
                    utf8proc_errmsg(n));
  *text = nmb_format(run, "%.*s", (int)n, (const char *)out);
  *len = (size_t)n;
  free(out);
  return NMB_OK;
}

/* Text without special tokens; begin: it is the first. */
static nmb_status
stretch_encode(nmb_run *run, const nmb__vocab *v, const char *text, size_t len, bool begin,
               int32_t *out, int64_t *n)
{
  const int64_t first = *n;
  if (v->form && len)
    NMB_TRY(formed(run, v->form, &text, &len));
  if (v->kind == NMB__VOCAB_GREEDY) {
    greedy(v, text, len, out, n);
    return NMB_OK;
  }
  const bool space = v->add_space && len && begin;
  if (v->kind == NMB__VOCAB_BPE || v->kind == NMB__VOCAB_UNIGRAM) {
    const bool twice = v->kind == NMB__VOCAB_BPE && *text == ' ';
    if (space && !twice)
      text = nmb_format(run, " %.*s", (int)len++, text);
    if (v->kind == NMB__VOCAB_BPE)
      return nmb__bpe_encode(run, v, text, len, out, n);
    unigram(run, v, text, len, out, n);
    return NMB_OK;
  }
  if (space)
    character_add(v, " ", 1, out, n);
  for (size_t i = 0; i < len;) {
    const size_t m = character(text + i, len - i);
    character_add(v, text + i, m, out, n);
    i += m;
  }
  if (v->kind == NMB__VOCAB_CHARS)
    *n = first + nmb__bpe_merge(v, out + first, *n - first);
  else
    merge_all(run, v, out, first, n);
  return NMB_OK;
}

/* The special token that the text begins with; -1: none. */
static int32_t
special_at(const nmb__vocab *v, const char *s, size_t n)
{
  for (int i = 0; i < v->nspecial; i++) {
    const nmb__piece_text *p = &v->piece[v->special[i]];
    if (p->n <= n && *p->s == *s && !memcmp(p->s, s, p->n))
      return v->special[i];
  }
  return -1;
}

nmb_status
nmb__vocab_encode(nmb_run *run, const nmb__vocab *v, const char *text, size_t len,
                  int32_t **ids, int64_t *n)
{
  /* a character of 3 bytes may have a form of 33 (U+FDFA) */
  int32_t *out = NMB_NEW(run, int32_t, (v->form ? 11 : 1) * len + 4);
  *ids = out;
  *n = 0;
  if (v->add_bos)
    out[(*n)++] = v->bos;
  if (v->kind == NMB__VOCAB_BYTES) {
    for (size_t i = 0; i < len; i++)
      out[(*n)++] = (unsigned char)text[i];
    return NMB_OK;
  }
  size_t from = 0;
  for (size_t i = 0; i < len; i++) {
    const int32_t id = special_at(v, text + i, len - i);
    if (id < 0)
      continue;
    NMB_TRY(stretch_encode(run, v, text + from, i - from, !from, out, n));
    out[(*n)++] = id;
    from = i + v->piece[id].n;
    i = from - 1;
  }
  NMB_TRY(stretch_encode(run, v, text + from, len - from, !from, out, n));
  if (v->add_eos)
    out[(*n)++] = v->eos;
  return NMB_OK;
}

/* -------------------------------------------------------------------- decode */
static const char bytes[256] = {
#define ROW(b)                                                                           \
  (char)(b), (char)(b + 1), (char)(b + 2), (char)(b + 3), (char)(b + 4), (char)(b + 5),  \
      (char)(b + 6), (char)(b + 7)
#define ROWS(b)                                                                          \
  ROW(b), ROW(b + 8), ROW(b + 16), ROW(b + 24), ROW(b + 32), ROW(b + 40), ROW(b + 48),   \
      ROW(b + 56)
    ROWS(0), ROWS(64), ROWS(128), ROWS(192)};

const char *
nmb__vocab_text(nmb_run *run, const nmb__vocab *v, int32_t before, int32_t id, size_t *n)
{
  *n = 0;
  if (v->kind == NMB__VOCAB_BYTES) {
    *n = id >= 0 && id < 256;
    return *n ? &bytes[id] : "";
  }
  if (id < 0 || id >= v->n || v->piece[id].type == NMB__TOKEN_CONTROL)
    return "";
  const nmb__piece_text *p = &v->piece[id];
  if (p->type == NMB__TOKEN_BYTE && v->kind != NMB__VOCAB_BPE) {
    *n = 1;
    return &bytes[byte_of(p)];
  }
  if (v->kind == NMB__VOCAB_BPE) {
    char *out = NMB_NEW(run, char, p->n + 1);
    *n = nmb__bpe_bytes(p->s, p->n, out);
    return out;
  }
  /* the space that encoding put before the text */
  const bool strip = v->add_space && p->n && *p->s == ' ' &&
                     (before < 0 || (before == v->bos && v->add_bos));
  *n = p->n - strip;
  return p->s + strip;
}
