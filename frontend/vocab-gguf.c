/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The vocabulary of a GGUF file: keys tokenizer.ggml.* (gguf-py's constants.py,
 * llama-vocab.cpp of llama.cpp). */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/token.h"

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

/* RWKV's: bytes are written \xNN, and \t, \n, \r and others after a backslash. */
static nmb__piece_text
unescaped(nmb_run *run, const char *s, size_t n)
{
  char *out = NMB_NEW(run, char, n + 1), hex[3] = {0}, *end;
  size_t m = 0;
  for (size_t i = 0; i < n; i++) {
    const char c = s[i], next = i + 1 < n ? s[i + 1] : 0;
    if (c != '\\' || i + 1 == n) {
      out[m++] = c;
      continue;
    }
    i++;
    out[m] = next == 't' ? '\t' : next == 'n' ? '\n' : next == 'r' ? '\r' : next;
    if (next == 'x' && i + 2 < n) {
      memcpy(hex, s + i + 1, 2);
      const long b = strtol(hex, &end, 16);
      if (!*end) {
        out[m] = (char)b;
        i += 2;
      }
    }
    m++;
  }
  return (nmb__piece_text){out, m, 0, NMB__TOKEN_NORMAL};
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
    if (v->kind == NMB__VOCAB_SPM || v->kind == NMB__VOCAB_CHARS)
      v->piece[i] = nmb__vocab_spaced(run, v->piece[i].s, v->piece[i].n);
    else if (v->kind == NMB__VOCAB_GREEDY)
      v->piece[i] = unescaped(run, v->piece[i].s, v->piece[i].n);
    if (score && score->kind == NMB__META_LIST)
      v->piece[i].score = (float)nmb__meta_number(score, (uint64_t)i);
    if (type && type->kind == NMB__META_LIST)
      v->piece[i].type = (int)nmb__meta_number(type, (uint64_t)i);
  }
  return NMB_OK;
}

nmb_status
nmb__vocab_gguf(nmb_run *run, const nmb__wfile *w, int64_t size, nmb__vocab *v)
{
  const char *model = nmb__meta_text(run, nmb__wfile_meta(w, "tokenizer.ggml.model"));
  const bool spm = !strcmp(model, "llama"), bpe = !strcmp(model, "gpt2"),
             greedy = !strcmp(model, "rwkv"), chars = !strcmp(model, "gemma4");
  if (!spm && !bpe && !greedy && !chars)
    return nmb_fail(run, NMB_UNSUPPORTED, (nmb_loc){w->path, 0, 0},
                    "tokenizer.ggml.model '%s' is not supported, expected llama, gpt2, "
                    "gemma4 or rwkv",
                    model);
  v->kind = spm      ? NMB__VOCAB_SPM
            : bpe    ? NMB__VOCAB_BPE
            : greedy ? NMB__VOCAB_GREEDY
                     : NMB__VOCAB_CHARS;
  NMB_TRY(pieces_read(run, w, size, v));
  nmb__vocab_index(run, v);
  if (bpe || chars)
    NMB_TRY(merges_read(run, w, v));
  v->pre = nmb__meta_text(run, nmb__wfile_meta(w, "tokenizer.ggml.pre"));
  v->bos = special(w, v, "tokenizer.ggml.bos_token_id");
  v->eos = special(w, v, "tokenizer.ggml.eos_token_id");
  v->unknown = special(w, v, "tokenizer.ggml.unknown_token_id");
  /* what llama.cpp (llama-vocab.cpp) takes for granted of these vocabularies */
  const nmb__bpe_pre pre = nmb__bpe_pre_of(v->pre);
  v->whole = v->kind == NMB__VOCAB_BPE && pre.whole;
  const bool begin = spm || (v->kind == NMB__VOCAB_BPE && pre.begin);
  v->add_bos = meta_int(w, "tokenizer.ggml.add_bos_token", begin) && v->bos >= 0;
  v->add_eos = meta_int(w, "tokenizer.ggml.add_eos_token", 0) && v->eos >= 0;
  v->add_space = meta_int(w, "tokenizer.ggml.add_space_prefix", spm) != 0;
  return NMB_OK;
}
