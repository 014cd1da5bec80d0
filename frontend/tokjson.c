/* SPDX-License-Identifier: GPL-3.0-or-later */
/* tokenizer.json of Hugging Face's tokenizers -> vocabulary.  Read as its documentation
 * describes it: byte-level BPE, BPE over characters with bytes for unknown ones, Unigram.
 * What stands in a file and is not understood is refused by name. */
#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "base/map.h"
#include "base/path.h"
#include "base/run.h"
#include "frontend/token.h"

#define MOST_TOKENS (INT64_C(1) << 24)

typedef struct reader {
  nmb_run *run;
  const char *path;
  json_t *top;
  nmb__vocab *v;
  bool byte_level;
} reader;

static nmb_status
bad(const reader *r, const char *where, const char *expected)
{
  return nmb_fail(r->run, NMB_UNSUPPORTED, (nmb_loc){r->path, 0, 0}, "%s: expected %s", where,
                  expected);
}

static const char *
type_of(const json_t *j)
{
  const char *s = json_string_value(json_object_get(j, "type"));
  return s ? s : "";
}

/* Calls f for the object, or for each of a Sequence's under `list`. */
static nmb_status
each(reader *r, const json_t *j, const char *list, nmb_status (*f)(reader *, const json_t *))
{
  if (!json_is_object(j))
    return NMB_OK;
  if (strcmp(type_of(j), "Sequence"))
    return f(r, j);
  const json_t *all = json_object_get(j, list);
  for (size_t i = 0; i < json_array_size(all); i++)
    NMB_TRY(each(r, json_array_get(all, i), list, f));
  return NMB_OK;
}

/* --------------------------------------------------------------- normalizers */
static nmb_status
normalizer(reader *r, const json_t *j)
{
  static const char *const forms[] = {"NFC", "NFD", "NFKC", "NFKD"};
  const char *t = type_of(j);
  if (!strcmp(t, "Prepend"))
    r->v->add_space = true;
  else if (!strcmp(t, "Precompiled")) /* SentencePiece's nmt_nfkc is nearly this */
    r->v->form = NMB__FORM_NFKC;
  else if (strcmp(t, "Replace")) {
    for (int i = 0; i < 4; i++)
      if (!strcmp(t, forms[i])) {
        r->v->form = (nmb__form)(NMB__FORM_NFC + i);
        return NMB_OK;
      }
    return bad(r, nmb_format(r->run, "normalizer '%s'", t),
               "Prepend, Replace, NFC, NFD, NFKC or NFKD");
  }
  return NMB_OK;
}

/* ------------------------------------------------------------- pre-tokenizers */
static nmb_status
cut_add(reader *r, const char *expr)
{
  if (r->v->nexpr == NMB__MOST_CUTS)
    return bad(r, "pre_tokenizer", "fewer parts");
  r->v->expr[r->v->nexpr++] = nmb_strdup(r->run, expr);
  return NMB_OK;
}

/* A text as an expression that stands for it. */
static const char *
quoted(nmb_run *run, const char *s)
{
  const char *out = "";
  for (; *s; s++)
    out = nmb_format(run, strchr("\\^$.|?*+()[]{}-", *s) ? "%s\\%c" : "%s%c", out, *s);
  return out;
}

static nmb_status
pre_split(reader *r, const json_t *j)
{
  const json_t *p = json_object_get(j, "pattern");
  const char *behavior = json_string_value(json_object_get(j, "behavior"));
  const char *regex = json_string_value(json_object_get(p, "Regex"));
  const char *text = json_string_value(json_object_get(p, "String"));
  const bool matches = behavior && !strcmp(behavior, "Removed") &&
                       json_is_true(json_object_get(j, "invert"));
  if (!matches && (!behavior || strcmp(behavior, "Isolated")))
    return bad(r, "pre_tokenizer Split", "behavior Isolated");
  if (!regex && !text)
    return bad(r, "pre_tokenizer Split", "a pattern");
  return cut_add(r, regex ? regex : quoted(r->run, text));
}

static nmb_status
pre_tokenizer(reader *r, const json_t *j)
{
  const char *t = type_of(j), *scheme = json_string_value(json_object_get(j, "prepend_scheme"));
  if (!strcmp(t, "Split"))
    return pre_split(r, j);
  if (!strcmp(t, "Digits"))
    return cut_add(r, json_is_true(json_object_get(j, "individual_digits")) ? "\\p{N}" : "\\p{N}+");
  if (!strcmp(t, "Punctuation"))
    return cut_add(r, "\\p{P}");
  if (!strcmp(t, "Metaspace")) {
    r->v->add_space =
        scheme ? !strcmp(scheme, "always") || !strcmp(scheme, "first")
               : !json_is_false(json_object_get(j, "add_prefix_space"));
    return NMB_OK;
  }
  if (strcmp(t, "ByteLevel"))
    return bad(r, nmb_format(r->run, "pre_tokenizer '%s'", t),
               "ByteLevel, Split, Digits, Punctuation or Metaspace");
  r->byte_level = true;
  r->v->add_space |= json_is_true(json_object_get(j, "add_prefix_space"));
  return json_is_false(json_object_get(j, "use_regex")) ? NMB_OK
                                                       : cut_add(r, nmb__bpe_gpt2());
}

/* -------------------------------------------------------------------- tokens */
static nmb_status
token_set(reader *r, int64_t id, const char *s, size_t n, double score, int type)
{
  nmb__vocab *v = r->v;
  if (id < 0 || id >= v->n)
    return nmb_fail(r->run, NMB_BADINPUT, (nmb_loc){r->path, 0, 0},
                    "token %" PRId64 ": expected less than the %d rows of the embedding table",
                    id, v->n);
  nmb__piece_text p = {nmb_format(r->run, "%.*s", (int)n, s), n, 0, type};
  if (v->kind != NMB__VOCAB_BPE && type == NMB__TOKEN_NORMAL)
    p = nmb__vocab_spaced(r->run, s, n);
  p.type = type;
  p.score = (float)score;
  v->piece[id] = p;
  return NMB_OK;
}

static nmb_status
tokens_read(reader *r, const json_t *model)
{
  const json_t *vocab = json_object_get(model, "vocab");
  if (json_is_object(vocab)) {
    const char *key;
    json_t *id;
    json_object_foreach((json_t *)(uintptr_t)vocab, key, id)
      NMB_TRY(token_set(r, json_is_integer(id) ? json_integer_value(id) : -1, key, strlen(key),
                        0, NMB__TOKEN_NORMAL));
    return NMB_OK;
  }
  for (size_t i = 0; i < json_array_size(vocab); i++) {
    const json_t *pair = json_array_get(vocab, i), *s = json_array_get(pair, 0);
    if (!json_is_string(s))
      return bad(r, "model.vocab", "pairs of a text and a number");
    NMB_TRY(token_set(r, (int64_t)i, json_string_value(s), json_string_length(s),
                      json_number_value(json_array_get(pair, 1)), NMB__TOKEN_NORMAL));
  }
  return NMB_OK;
}

static nmb_status
added_read(reader *r)
{
  const json_t *all = json_object_get(r->top, "added_tokens");
  for (size_t i = 0; i < json_array_size(all); i++) {
    const json_t *t = json_array_get(all, i), *s = json_object_get(t, "content");
    if (json_is_string(s))
      NMB_TRY(token_set(r, json_integer_value(json_object_get(t, "id")), json_string_value(s),
                        json_string_length(s), 0,
                        json_is_true(json_object_get(t, "special")) ? NMB__TOKEN_CONTROL
                                                                    : NMB__TOKEN_USER));
  }
  return NMB_OK;
}

static int32_t
named(const nmb__vocab *v, const json_t *j)
{
  const json_t *s = json_is_object(j) ? json_object_get(j, "content") : j;
  return json_is_string(s) ? nmb__vocab_find(v, json_string_value(s), json_string_length(s)) : -1;
}

/* -------------------------------------------------------------------- merges */
static nmb_status
merges_read(reader *r, const json_t *model)
{
  const json_t *all = json_object_get(model, "merges");
  const size_t n = json_array_size(all);
  if (n > (size_t)MOST_TOKENS)
    return bad(r, "model.merges", "fewer of them");
  r->v->merge = NMB_NEW(r->run, nmb__merge, n + 1);
  for (size_t i = 0; i < n; i++) {
    const json_t *m = json_array_get(all, i);
    const char *left = json_string_value(json_is_array(m) ? json_array_get(m, 0) : m),
               *right = json_string_value(json_array_get(m, 1));
    size_t l = left ? strlen(left) : 0;
    if (left && !right) {
      const char *space = l ? strchr(left + 1, ' ') : NULL;
      right = space ? space + 1 : NULL;
      l = space ? (size_t)(space - left) : 0;
    }
    if (!right)
      return bad(r, nmb_format(r->run, "model.merges.%zu", i), "two texts");
    nmb__vocab_merge_add(r->run, r->v, left, l, right, strlen(right), (int32_t)i);
  }
  nmb__vocab_merges_sort(r->v);
  return NMB_OK;
}

/* ------------------------------------------------------------- begin and end */
static nmb_status
post_processor(reader *r, const json_t *j)
{
  const json_t *first = json_array_get(json_object_get(j, "single"), 0);
  const json_t *id = json_object_get(json_object_get(first, "SpecialToken"), "id");
  if (!strcmp(type_of(j), "TemplateProcessing") && id) {
    r->v->bos = named(r->v, id);
    r->v->add_bos = r->v->bos >= 0;
  }
  return NMB_OK;
}

/* tokenizer_config.json beside, if there is one. */
static void
ends_read(reader *r)
{
  const char *slash = strrchr(r->path, '/');
  const char *path = slash ? nmb_format(r->run, "%.*s/tokenizer_config.json",
                                        (int)(slash - r->path), r->path)
                           : "tokenizer_config.json";
  size_t len;
  const char *s = nmb__is_file(path) ? nmb__read_file(r->run, path, &len) : NULL;
  json_t *j = s ? json_loadb(s, len, 0, NULL) : NULL;
  r->v->eos = named(r->v, json_object_get(j, "eos_token"));
  if (r->v->bos < 0)
    r->v->bos = named(r->v, json_object_get(j, "bos_token"));
  if (r->v->bos >= 0 && json_is_true(json_object_get(j, "add_bos_token")))
    r->v->add_bos = true;
  json_decref(j);
}

/* --------------------------------------------------------------------- whole */
static nmb_status
kind_read(reader *r, const json_t *model)
{
  const char *type = type_of(model);
  const bool old = !*type && json_object_get(model, "merges"); /* the field came later */
  NMB_TRY(each(r, json_object_get(r->top, "normalizer"), "normalizers", normalizer));
  NMB_TRY(each(r, json_object_get(r->top, "pre_tokenizer"), "pretokenizers", pre_tokenizer));
  if (!strcmp(type, "Unigram"))
    r->v->kind = NMB__VOCAB_UNIGRAM;
  else if (old || !strcmp(type, "BPE"))
    r->v->kind = r->byte_level ? NMB__VOCAB_BPE : NMB__VOCAB_CHARS;
  else
    return bad(r, nmb_format(r->run, "model '%s'", type), "BPE or Unigram");
  return NMB_OK;
}

static nmb_status
all_read(reader *r, int64_t size)
{
  nmb__vocab *v = r->v;
  const json_t *model = json_object_get(r->top, "model");
  if (size < 1 || size > MOST_TOKENS)
    return bad(r, "vocabulary", "a table of 1 to 2^24 rows");
  NMB_TRY(kind_read(r, model));
  v->n = (int)size;
  v->piece = NMB_NEW(r->run, nmb__piece_text, size + 1);
  for (int64_t i = 0; i < size; i++)
    v->piece[i] = (nmb__piece_text){"", 0, 0, NMB__TOKEN_UNUSED};
  NMB_TRY(tokens_read(r, model));
  NMB_TRY(added_read(r));
  nmb__vocab_index(r->run, v);
  v->whole = json_is_true(json_object_get(model, "ignore_merges"));
  v->unknown = named(v, json_object_get(model, "unk_token"));
  if (json_is_integer(json_object_get(model, "unk_id")))
    v->unknown = (int32_t)json_integer_value(json_object_get(model, "unk_id"));
  if (v->unknown >= v->n)
    v->unknown = -1;
  if (v->kind != NMB__VOCAB_UNIGRAM)
    NMB_TRY(merges_read(r, model));
  NMB_TRY(each(r, json_object_get(r->top, "post_processor"), "processors", post_processor));
  ends_read(r);
  return NMB_OK;
}

nmb_status
nmb__tokenizer_json(nmb_run *run, const char *path, int64_t size, nmb__vocab *v)
{
  size_t len;
  const char *s = nmb__read_file(run, path, &len);
  if (!s)
    return NMB_IO;
  json_error_t err;
  reader r = {.run = run, .path = path, .v = v};
  r.top = json_loadb(s, len, 0, &err);
  if (!r.top)
    return nmb_fail(run, NMB_BADINPUT, (nmb_loc){path, err.line, err.column}, "%s", err.text);
  const nmb_status st = all_read(&r, size);
  json_decref(r.top);
  return st;
}
