/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Text to token ids and back, by the vocabulary that a weight file has or that lies
 * beside it. */
#ifndef NMB__TOKEN_H
#define NMB__TOKEN_H

#include "frontend/wfile.h"

typedef enum nmb__vocab_kind {
  NMB__VOCAB_SPM,  /* merges by score; bytes for what is unknown */
  NMB__VOCAB_BPE,  /* merges by rank, over the bytes of words */
  NMB__VOCAB_CHARS,   /* merges by rank, over the characters of the whole text */
  NMB__VOCAB_UNIGRAM, /* the pieces whose scores add up to most */
  NMB__VOCAB_BYTES,   /* ids are bytes */
  NMB__VOCAB_GREEDY   /* the longest piece at each place */
} nmb__vocab_kind;

enum {
  NMB__TOKEN_NORMAL = 1,
  NMB__TOKEN_UNKNOWN,
  NMB__TOKEN_CONTROL,
  NMB__TOKEN_USER,
  NMB__TOKEN_UNUSED,
  NMB__TOKEN_BYTE
};

typedef struct nmb__piece_text {
  const char *s; /* as printed; a space is a space */
  size_t n;
  float score;
  int type;
} nmb__piece_text;

typedef struct nmb__merge {
  int32_t left, right; /* sorted by these two */
  int32_t rank, made;
} nmb__merge;

enum { NMB__MOST_CUTS = 8 };

/* Normal forms of Unicode. */
typedef enum nmb__form {
  NMB__FORM_AS_IS,
  NMB__FORM_NFC,
  NMB__FORM_NFD,
  NMB__FORM_NFKC,
  NMB__FORM_NFKD
} nmb__form;

typedef struct nmb__vocab {
  nmb__vocab_kind kind;
  int n;
  nmb__piece_text *piece;
  int32_t *sorted;    /* ids by text */
  int32_t bytes[256]; /* id of each byte; -1: none */
  int nmerge;
  nmb__merge *merge;
  const char *pre;           /* BPE: how text is cut into words, by name */
  int nexpr;                 /* or by expressions, one after another */
  const char *expr[NMB__MOST_CUTS];
  bool whole;                /* a word that is a token is not merged from its parts */
  int nspecial;              /* tokens that are found in text before it is cut */
  int32_t *special;          /* the longest first */
  int32_t bos, eos, unknown; /* -1: none */
  bool add_bos, add_eos, add_space;
  nmb__form form; /* that text is brought into first */
} nmb__vocab;

/* path: (optional) a tokenizer.bin of llama2.c, a tokenizer.json, or a GGUF file; NULL: the vocabulary of
 * the weight file itself, else tokenizer.json, tokenizer.bin or tok512.bin beside it.  size: rows
 * of the embedding table, which the vocabulary may not exceed. */
NMB_API nmb_status nmb__vocab_open(nmb_run *, const nmb__wfile *, const char *path,
                                   int64_t size, nmb__vocab **out);
/* BOS first, if the vocabulary says so.  *ids in the run's arena. */
NMB_API nmb_status nmb__vocab_encode(nmb_run *, const nmb__vocab *, const char *text,
                                     size_t len, int32_t **ids, int64_t *n);
/* What is printed for `id` after `before` (-1: it is the first); not ended by a NUL. */
NMB_API const char *nmb__vocab_text(nmb_run *, const nmb__vocab *, int32_t before,
                                    int32_t id, size_t *n);

/* For the readers: U+2581 as a space; the indices of a filled table; "left right". */
NMB_API nmb__piece_text nmb__vocab_spaced(nmb_run *, const char *s, size_t n);
NMB_API void nmb__vocab_index(nmb_run *, nmb__vocab *);
NMB_API void nmb__vocab_merge_add(nmb_run *, nmb__vocab *, const char *left, size_t l,
                                  const char *right, size_t r, int32_t rank);
NMB_API void nmb__vocab_merges_sort(nmb__vocab *);
NMB_API nmb_status nmb__vocab_gguf(nmb_run *, const nmb__wfile *, int64_t size,
                                   nmb__vocab *);
NMB_API nmb_status nmb__tokenizer_json(nmb_run *, const char *path, int64_t size,
                                       nmb__vocab *);
/* The expression that GPT-2 cuts text by. */
NMB_API const char *nmb__bpe_gpt2(void);
/* What a tokenizer.ggml.pre means: a row of pre.def, or itself. */
typedef struct nmb__bpe_pre {
  const char *pre, *name;
  bool whole, begin;
} nmb__bpe_pre;
NMB_API nmb__bpe_pre nmb__bpe_pre_of(const char *pre);
/* Merges ids[0, n) by rank; how many are left. */
NMB_API int64_t nmb__bpe_merge(const nmb__vocab *, int32_t *ids, int64_t n);

/* For vocab.c: id of a text, -1 if there is none. */
NMB_API int32_t nmb__vocab_find(const nmb__vocab *, const char *s, size_t n);
NMB_API nmb_status nmb__bpe_encode(nmb_run *, const nmb__vocab *, const char *text,
                                   size_t len, int32_t *ids, int64_t *n);
/* The bytes that a token of a byte-level BPE stands for; *out has room for all of s. */
NMB_API size_t nmb__bpe_bytes(const char *s, size_t n, char *out);
#endif
