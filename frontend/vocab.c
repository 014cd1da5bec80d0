/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Vocabularies of weight files.  SentencePiece's greedy merging by score is that of
 * llama2.c (run.c): a space before the text, characters, bytes for unknown ones, then the
 * adjacent pair whose text has the highest score, again and again. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

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

/* ------------------------------------------------------------------- GGUF */
/* U+2581 stands for a space. */
nmb__piece_text
nmb__vocab_spaced(nmb_run *run, const char *s, size_t n)
{
  char *out = NMB_NEW(run, char, n + 1);
  size_t m = 0;
  for (size_t i = 0; i < n; i++)
    if (n - i >= 3 && !memcmp(s + i, "\xe2\x96\x81", 3)) {
      out[m++] = ' ';
      i += 2;
    } else
      out[m++] = s[i];
  return (nmb__piece_text){out, m, 0, NMB__TOKEN_NORMAL};
}

/* The texts of a list; wfile.h has checked that they are in the file. */
static nmb_status
texts_read(nmb_run *run, const char *path, const nmb__meta *m, nmb__piece_text **out)
{
  const uint8_t *p = m->at;
  if (m->kind != NMB__META_LIST || m->element != 8 || m->n > INT32_MAX)
    return nmb_fail(run, NMB_BADINPUT, (nmb_loc){path, 0, 0}, "%s is no list of texts",
                    m->key);
  *out = NMB_NEW(run, nmb__piece_text, m->n + 1);
  for (uint64_t i = 0; i < m->n; i++) {
    const uint64_t n = nmb__le64(p);
    (*out)[i] = (nmb__piece_text){(const char *)p + 8, (size_t)n, 0, NMB__TOKEN_NORMAL};
    p += 8 + n;
  }
  return NMB_OK;
}

static int64_t
meta_int(const nmb__wfile *w, const char *key, int64_t dflt)
{
  const nmb__meta *m = nmb__wfile_meta(w, key);
  return m && (m->kind == NMB__META_INT || m->kind == NMB__META_BOOL) ? m->i : dflt;
}

static int32_t
special(const nmb__wfile *w, const nmb__vocab *v, const char *key)
{
  const int64_t i = meta_int(w, key, -1);
  return i >= 0 && i < v->n ? (int32_t)i : -1;
}

static int
merge_order(const void *a, const void *b)
{
  const nmb__merge *x = a, *y = b;
  if (x->left != y->left)
    return x->left < y->left ? -1 : 1;
  if (x->right != y->right)
    return x->right < y->right ? -1 : 1;
  return x->rank < y->rank ? -1 : x->rank > y->rank;
}

void
nmb__vocab_merges_sort(nmb__vocab *v)
{
  if (v->nmerge)
    qsort(v->merge, (size_t)v->nmerge, sizeof *v->merge, merge_order);
}

/* Those of unknown texts can never happen. */
void
nmb__vocab_merge_add(nmb_run *run, nmb__vocab *v, const char *left, size_t l,
                     const char *right, size_t r, int32_t rank)
{
  char *both = NMB_NEW(run, char, l + r + 1);
  memcpy(both, left, l);
  memcpy(both + l, right, r);
  nmb__piece_text t[3] = {{left, l, 0, 0}, {right, r, 0, 0}, {both, l + r, 0, 0}};
  int32_t id[3];
  for (int i = 0; i < 3; i++) {
    if (v->kind != NMB__VOCAB_BPE)
      t[i] = nmb__vocab_spaced(run, t[i].s, t[i].n);
    id[i] = nmb__vocab_find(v, t[i].s, t[i].n);
  }
  if (id[0] >= 0 && id[1] >= 0 && id[2] >= 0)
    v->merge[v->nmerge++] = (nmb__merge){id[0], id[1], rank, id[2]};
}

/* "left right" per merge. */
static nmb_status
merges_read(nmb_run *run, const nmb__wfile *w, nmb__vocab *v)
{
  const nmb__meta *m = nmb__wfile_meta(w, "tokenizer.ggml.merges");
  nmb__piece_text *t;
  if (!m)
    return nmb_fail(run, NMB_BADINPUT, (nmb_loc){w->path, 0, 0},
                    "no tokenizer.ggml.merges, which this vocabulary needs");
  NMB_TRY(texts_read(run, w->path, m, &t));
  v->merge = NMB_NEW(run, nmb__merge, m->n + 1);
  for (uint64_t i = 0; i < m->n; i++) {
    const char *space =
        t[i].n ? memchr(t[i].s + 1, ' ', t[i].n - 1) : NULL; /* a part is not empty */
    if (!space)
      continue;
    const size_t l = (size_t)(space - t[i].s);
    nmb__vocab_merge_add(run, v, t[i].s, l, space + 1, t[i].n - l - 1, (int32_t)i);
  }
  nmb__vocab_merges_sort(v);
  return NMB_OK;
}

static nmb_status
pieces_read(nmb_run *run, const nmb__wfile *w, int64_t size, nmb__vocab *v)
{
  const nmb__meta *m = nmb__wfile_meta(w, "tokenizer.ggml.tokens"),
                  *score = nmb__wfile_meta(w, "tokenizer.ggml.scores"),
                  *type = nmb__wfile_meta(w, "tokenizer.ggml.token_type");
  NMB_TRY(texts_read(run, w->path, m, &v->piece));
  if (m->n > (uint64_t)size)
    return nmb_fail(run, NMB_BADINPUT, (nmb_loc){w->path, 0, 0},
                    "%" PRIu64 " tokens, but the embedding table has %" PRId64 " rows",
                    m->n, size);
  v->n = (int)m->n;
  for (int i = 0; i < v->n; i++) {
    if (v->kind == NMB__VOCAB_SPM)
      v->piece[i] = nmb__vocab_spaced(run, v->piece[i].s, v->piece[i].n);
    if (score && score->kind == NMB__META_LIST)
      v->piece[i].score = (float)nmb__meta_number(score, (uint64_t)i);
    if (type && type->kind == NMB__META_LIST)
      v->piece[i].type = (int)nmb__meta_number(type, (uint64_t)i);
  }
  return NMB_OK;
}

static nmb_status
gguf_read(nmb_run *run, const nmb__wfile *w, int64_t size, nmb__vocab *v)
{
  const char *model = nmb__meta_text(run, nmb__wfile_meta(w, "tokenizer.ggml.model"));
  const bool spm = !strcmp(model, "llama");
  if (!spm && strcmp(model, "gpt2"))
    return nmb_fail(run, NMB_UNSUPPORTED, (nmb_loc){w->path, 0, 0},
                    "tokenizer.ggml.model '%s' is not supported, expected llama or gpt2",
                    model);
  v->kind = spm ? NMB__VOCAB_SPM : NMB__VOCAB_BPE;
  NMB_TRY(pieces_read(run, w, size, v));
  nmb__vocab_index(run, v);
  if (!spm)
    NMB_TRY(merges_read(run, w, v));
  v->pre = nmb__meta_text(run, nmb__wfile_meta(w, "tokenizer.ggml.pre"));
  v->bos = special(w, v, "tokenizer.ggml.bos_token_id");
  v->eos = special(w, v, "tokenizer.ggml.eos_token_id");
  v->unknown = special(w, v, "tokenizer.ggml.unknown_token_id");
  /* what llama.cpp (llama-vocab.cpp) takes for granted of these vocabularies */
  v->whole = !spm && (nmb__bpe_alike(v->pre, "llama-bpe") || !strcmp(v->pre, "tekken"));
  v->add_bos = meta_int(w, "tokenizer.ggml.add_bos_token", spm || v->whole) && v->bos >= 0;
  v->add_space = meta_int(w, "tokenizer.ggml.add_space_prefix", spm) != 0;
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
    return gguf_read(run, other, size, v);
  }
  if (!path && nmb__wfile_meta(w, "tokenizer.ggml.tokens"))
    return gguf_read(run, w, size, v);
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

/* Text without special tokens; begin: it is the first. */
static nmb_status
stretch_encode(nmb_run *run, const nmb__vocab *v, const char *text, size_t len, bool begin,
               int32_t *out, int64_t *n)
{
  const int64_t first = *n;
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
  int32_t *out = NMB_NEW(run, int32_t, len + 3);
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
  return stretch_encode(run, v, text + from, len - from, !from, out, n);
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
