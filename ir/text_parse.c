/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Text -> program.  The form is described in text.h.
 *
 * The parser checks what the tables need to be safe to read: known names, ids in
 * range, arities, sizes that can be counted.  Whether the program makes sense is
 * for the verifier to say.  Time is linear in the text.
 */
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/near.h"
#include "ir/attrs.h"
#include "ir/text_lex.h"
#include "nmbench/nmb_hw.h"

#define MOST_ELEMENTS (INT64_C(1) << 52) /* of a tensor: its bits fit 63 bits */
#define MOST_EXPERTS 65536
#define MOST_ROUTED (INT64_C(1) << 24) /* entries of a routing table: 64 MB */
#define MOST_LIST 4096                 /* ops of a kernel, waits, outputs */

/* Names of blocks (block NMB_NONE) and of tensors, to their ids. */
typedef struct symbol {
  uint64_t hash;
  const char *name;
  size_t len;
  nmb_id block, id;
} symbol;

typedef struct parser {
  nmb_run *run;
  nmb__lexer lex;
  nmb__token t; /* the next one, not yet taken */
  nmb_prog *p;
  const nmb_hw *hw;
  size_t nsymbol, csymbol;
  symbol *symbol;
  nmb_id block; /* being read; NMB_NONE outside */
} parser;

/* ------------------------------------------------------------------- tokens */
static void
next(parser *ps)
{
  nmb__lex_next(&ps->lex, &ps->t);
}

static nmb_status
unexpected(parser *ps, const char *expected)
{
  return nmb_fail(ps->run, NMB_BADINPUT, ps->t.loc, "found %s, expected %s",
                  nmb__lex_text(ps->run, &ps->t), expected);
}

static bool
is_word(const parser *ps, const char *word)
{
  return ps->t.kind == NMB__TOK_WORD && ps->t.len == strlen(word) &&
         !memcmp(ps->t.text, word, ps->t.len);
}

static bool
is_mark(const parser *ps, char mark)
{
  return ps->t.kind == NMB__TOK_MARK && ps->t.mark == mark;
}

static bool
is_name(const parser *ps)
{
  return ps->t.kind == NMB__TOK_WORD || ps->t.kind == NMB__TOK_STRING;
}

static bool
accept_word(parser *ps, const char *word)
{
  const bool is = is_word(ps, word);
  if (is)
    next(ps);
  return is;
}

static bool
accept_mark(parser *ps, char mark)
{
  const bool is = is_mark(ps, mark);
  if (is)
    next(ps);
  return is;
}

static nmb_status
want_word(parser *ps, const char *word)
{
  if (accept_word(ps, word))
    return NMB_OK;
  return unexpected(ps, nmb_format(ps->run, "'%s'", word));
}

static nmb_status
want_mark(parser *ps, char mark)
{
  if (accept_mark(ps, mark))
    return NMB_OK;
  return unexpected(ps, mark == '>' ? "'->'" : nmb_format(ps->run, "'%c'", mark));
}

static nmb_status
want_name(parser *ps, const char *what, const char **name)
{
  if (!is_name(ps))
    return unexpected(ps, what);
  char *s = nmb_alloc(ps->run, ps->t.len + 1, 1);
  memcpy(s, ps->t.text, ps->t.len);
  *name = s;
  next(ps);
  return NMB_OK;
}

static nmb_status
want_int(parser *ps, const char *what, int64_t lo, int64_t hi, int64_t *out)
{
  if (ps->t.kind != NMB__TOK_INT)
    return unexpected(ps, what);
  if (hi < lo)
    return nmb_fail(ps->run, NMB_BADINPUT, ps->t.loc,
                    "found %" PRId64 " for %s, but there are none", ps->t.i, what);
  if (lo == hi && ps->t.i != lo)
    return nmb_fail(ps->run, NMB_BADINPUT, ps->t.loc,
                    "found %" PRId64 " for %s, expected %" PRId64, ps->t.i, what, lo);
  if (ps->t.i < lo || ps->t.i > hi)
    return nmb_fail(ps->run, NMB_BADINPUT, ps->t.loc,
                    "found %" PRId64 " for %s, expected %" PRId64 " to %" PRId64, ps->t.i,
                    what, lo, hi);
  *out = ps->t.i;
  next(ps);
  return NMB_OK;
}

static nmb_status
want_int32(parser *ps, const char *what, int64_t lo, int64_t hi, int *out)
{
  int64_t v = 0;
  NMB_TRY(
      want_int(ps, what, lo < INT_MIN ? INT_MIN : lo, hi > INT_MAX ? INT_MAX : hi, &v));
  *out = (int)v;
  return NMB_OK;
}

/* `word` and then a number. */
static nmb_status
want_field(parser *ps, const char *word, int64_t lo, int64_t hi, int64_t *out)
{
  NMB_TRY(want_word(ps, word));
  return want_int(ps, word, lo, hi, out);
}

static nmb_status
want_field32(parser *ps, const char *word, int64_t lo, int64_t hi, int *out)
{
  NMB_TRY(want_word(ps, word));
  return want_int32(ps, word, lo, hi, out);
}

/* The id of a row: they count from 0. */
static nmb_status
want_id(parser *ps, const char *what, int expected)
{
  int id;
  NMB_TRY(want_int32(ps, what, expected, expected, &id));
  return NMB_OK;
}

/* A word out of a table; NMB_BADINPUT names the nearest. */
static nmb_status
want_choice(parser *ps, const char *what, const char *const *names, int n, int *out)
{
  for (int i = 0; i < n && is_name(ps); i++)
    if (strlen(names[i]) == ps->t.len && !memcmp(names[i], ps->t.text, ps->t.len)) {
      *out = i;
      next(ps);
      return NMB_OK;
    }
  if (!is_name(ps))
    return unexpected(ps, what);
  const nmb_loc loc = ps->t.loc;
  const char *word;
  NMB_TRY(want_name(ps, what, &word));
  return nmb_fail(ps->run, NMB_BADINPUT, loc, "found '%s', expected %s%s", word, what,
                  nmb__hint(ps->run, word, names, n));
}

/* ------------------------------------------------------------------ symbols */
static uint64_t
symbol_hash(nmb_id block, const char *name, size_t len)
{
  return XXH3_64bits_withSeed(name, len, (XXH64_hash_t)(block + 2));
}

/* The place of the name in the table: its row or the empty one it would take. */
static symbol *
symbol_row(const parser *ps, nmb_id block, const char *name, size_t len, uint64_t hash)
{
  size_t at = (size_t)hash & (ps->csymbol - 1);
  for (;; at = (at + 1) & (ps->csymbol - 1)) {
    symbol *s = &ps->symbol[at];
    if (!s->name || (s->hash == hash && s->block == block && s->len == len &&
                     !memcmp(s->name, name, len)))
      return s;
  }
}

static nmb_id
symbol_find(const parser *ps, nmb_id block, const char *name, size_t len)
{
  const symbol *s = symbol_row(ps, block, name, len, symbol_hash(block, name, len));
  return s->name ? s->id : NMB_NONE;
}

static void
symbol_add(parser *ps, nmb_id block, const char *name, nmb_id id)
{
  if (2 * (ps->nsymbol + 1) > ps->csymbol) {
    const size_t old = ps->csymbol;
    const symbol *from = ps->symbol;
    ps->csymbol = 2 * old;
    ps->symbol = NMB_NEW(ps->run, symbol, ps->csymbol);
    for (size_t i = 0; i < old; i++)
      if (from[i].name)
        *symbol_row(ps, from[i].block, from[i].name, from[i].len, from[i].hash) = from[i];
  }
  const size_t len = strlen(name);
  const uint64_t hash = symbol_hash(block, name, len);
  *symbol_row(ps, block, name, len, hash) = (symbol){hash, name, len, block, id};
  ps->nsymbol++;
}

static nmb_status
unknown_block(parser *ps)
{
  const char **names = NMB_NEW(ps->run, const char *, ps->p->nblock);
  for (int i = 0; i < ps->p->nblock; i++)
    names[i] = ps->p->block[i].name;
  const nmb_loc loc = ps->t.loc;
  const char *word;
  NMB_TRY(want_name(ps, "a block", &word));
  return nmb_fail(ps->run, NMB_BADINPUT, loc, "found '%s', expected a block%s", word,
                  nmb__hint(ps->run, word, names, ps->p->nblock));
}

static nmb_status
want_block(parser *ps, nmb_id *out)
{
  if (!is_name(ps))
    return unexpected(ps, "a block");
  *out = symbol_find(ps, NMB_NONE, ps->t.text, ps->t.len);
  if (*out == NMB_NONE)
    return unknown_block(ps);
  next(ps);
  return NMB_OK;
}

static nmb_status
unknown_tensor(parser *ps, nmb_id block)
{
  const char **names = NMB_NEW(ps->run, const char *, ps->p->ntensor);
  int n = 0;
  for (int i = 0; i < ps->p->ntensor; i++)
    if (ps->p->tensor[i].block == block)
      names[n++] = ps->p->tensor[i].name;
  const char *word =
      nmb_format(ps->run, "%.*s", ps->t.len < 200 ? (int)ps->t.len : 200, ps->t.text);
  return nmb_fail(ps->run, NMB_BADINPUT, ps->t.loc,
                  "found '%%%s', expected a tensor of block %s%s", word,
                  ps->p->block[block].name, nmb__hint(ps->run, word, names, n));
}

/* `%name` in `block`, or `other %name`. */
static nmb_status
want_tensor(parser *ps, nmb_id block, nmb_id *out)
{
  if (block == NMB_NONE || is_name(ps))
    NMB_TRY(want_block(ps, &block));
  if (ps->t.kind != NMB__TOK_TENSOR)
    return unexpected(ps, "a tensor");
  *out = symbol_find(ps, block, ps->t.text, ps->t.len);
  if (*out == NMB_NONE)
    return unknown_tensor(ps, block);
  next(ps);
  return NMB_OK;
}

/* The op that makes the tensor named. */
static nmb_status
want_op(parser *ps, nmb_id block, nmb_id *out)
{
  const nmb__token at = ps->t;
  nmb_id t = NMB_NONE;
  NMB_TRY(want_tensor(ps, block, &t));
  *out = ps->p->tensor[t].def;
  if (*out != NMB_NONE && ps->p->op[*out].out[0] == t)
    return NMB_OK;
  return nmb_fail(ps->run, NMB_BADINPUT, at.loc,
                  "found %s, expected the first output of an op",
                  nmb__lex_text(ps->run, &at));
}

/* `-`, `@number`, or one of the names of the machine. */
static nmb_status
want_hardware(parser *ps, const char *what, const char *const *names, int n, nmb_id *out)
{
  *out = NMB_NONE;
  if (accept_mark(ps, '-'))
    return NMB_OK;
  if (accept_mark(ps, '@'))
    return want_int32(ps, what, 0, ps->hw ? n - 1 : 63, out);
  if (ps->hw || !is_name(ps))
    return want_choice(ps, what, names, n, out);
  return nmb_fail(ps->run, NMB_BADINPUT, ps->t.loc,
                  "found %s, but no machine is given to look up %s in",
                  nmb__lex_text(ps->run, &ps->t), what);
}

static nmb_status
want_engine(parser *ps, nmb_id *out)
{
  const char *names[64];
  const int n = !ps->hw ? 0 : ps->hw->nengine < 64 ? ps->hw->nengine : 64;
  for (int i = 0; i < n; i++)
    names[i] = ps->hw->engine[i].name;
  return want_hardware(ps, "an engine", names, n, out);
}

static nmb_status
want_mem(parser *ps, nmb_id *out)
{
  const char *names[NMB_MAXMEM];
  const int n = !ps->hw ? 0 : ps->hw->nmem < NMB_MAXMEM ? ps->hw->nmem : NMB_MAXMEM;
  for (int i = 0; i < n; i++)
    names[i] = ps->hw->mem[i].name;
  return want_hardware(ps, "a memory", names, n, out);
}

/* -------------------------------------------------------------------- graph */
static nmb_status
routing_row(parser *ps, int experts, int topk, int32_t *row)
{
  for (int j = 0; j < topk; j++)
    NMB_TRY(want_int32(ps, "an expert", 0, experts - 1, &row[j]));
  return NMB_OK;
}

static nmb_status
routing_rows(parser *ps, int experts, int topk, int64_t ntoken, int32_t *expert)
{
  NMB_TRY(want_mark(ps, '{'));
  for (int64_t t = 0, count; t < ntoken; t += count) {
    int32_t *row = expert + t * topk;
    count = 1;
    NMB_TRY(routing_row(ps, experts, topk, row));
    if (is_word(ps, "x"))
      NMB_TRY(want_field(ps, "x", 1, ntoken - t, &count));
    for (int64_t i = 1; i < count; i++)
      memcpy(row + i * topk, row, (size_t)topk * sizeof *row);
  }
  return want_mark(ps, '}');
}

static nmb_status
parse_routing(parser *ps)
{
  const char *name;
  int experts = 0, topk = 0;
  int64_t ntoken = 0;
  NMB_TRY(want_id(ps, "the number of a routing table", ps->p->nrouting));
  NMB_TRY(want_name(ps, "the name of a routing table", &name));
  NMB_TRY(want_field32(ps, "experts", 1, MOST_EXPERTS, &experts));
  NMB_TRY(want_field32(ps, "topk", 1, experts, &topk));
  NMB_TRY(want_field(ps, "tokens", 1, MOST_ROUTED / topk, &ntoken));
  int32_t *expert = nmb__xrealloc(NULL, (size_t)(ntoken * topk), sizeof *expert);
  const nmb_status status = routing_rows(ps, experts, topk, ntoken, expert);
  if (status == NMB_OK)
    nmb_routing_add(ps->p, name, experts, topk, ntoken, expert);
  free(expert);
  return status;
}

/* A new tensor's name, which is not taken yet. */
static nmb_status
want_new_name(parser *ps, const char **name, nmb_loc *loc)
{
  *loc = ps->t.loc;
  if (ps->t.kind != NMB__TOK_TENSOR)
    return unexpected(ps, "a tensor");
  if (ps->t.len < 1 || ps->t.len > NMB__TEXT_NAME)
    return nmb_fail(ps->run, NMB_BADINPUT, *loc,
                    "found a name of %zu bytes, expected 1 to %d", ps->t.len,
                    NMB__TEXT_NAME);
  if (symbol_find(ps, ps->block, ps->t.text, ps->t.len) != NMB_NONE)
    return nmb_fail(ps->run, NMB_BADINPUT, *loc, "%s is defined a second time",
                    nmb__lex_text(ps->run, &ps->t));
  char *s = nmb_alloc(ps->run, ps->t.len + 1, 1);
  memcpy(s, ps->t.text, ps->t.len);
  *name = s;
  next(ps);
  return NMB_OK;
}

static nmb_status
parse_type(parser *ps, nmb_tensor *t)
{
  const char *names[NMB_NDTYPE];
  for (int i = 0; i < NMB_NDTYPE; i++)
    names[i] = nmb_dtype_get((nmb_dtype)i)->name;
  int dtype = 0;
  NMB_TRY(want_choice(ps, "a number format", names, NMB_NDTYPE, &dtype));
  t->dtype = (nmb_dtype)dtype;
  if (accept_mark(ps, '/'))
    NMB_TRY(want_int32(ps, "elements of a scale", 1, INT_MAX, &t->group));
  NMB_TRY(want_mark(ps, '['));
  int64_t count = 1;
  for (t->rank = 0; t->rank == 0 || accept_mark(ps, ','); t->rank++) {
    if (t->rank == NMB_MAXRANK)
      return unexpected(ps, "']', as a tensor has at most 5 dimensions");
    int64_t *d = &t->dim[t->rank];
    NMB_TRY(want_int(ps, "a dimension", 1, MOST_ELEMENTS / count, d));
    count *= *d;
  }
  return want_mark(ps, ']');
}

static nmb_id
add_tensor(parser *ps, const nmb_tensor *t)
{
  const nmb_id id = nmb_tensor_add(ps->p, t);
  symbol_add(ps, ps->block, t->name, id);
  return id;
}

static const char *const role_names[] = {
#define X(id, name) name,
    NMB_ROLE_MAP(X)
#undef X
};

static nmb_status
parse_declaration(parser *ps)
{
  int role = 0;
  nmb_tensor t = {.block = ps->block};
  NMB_TRY(want_choice(ps, "act, input, weight, kv, state or a tensor", role_names,
                      NMB_NROLE, &role));
  t.role = (nmb_role)role;
  NMB_TRY(want_new_name(ps, &t.name, &t.loc));
  if (accept_mark(ps, '=')) {
    NMB_TRY(want_tensor(ps, NMB_NONE, &t.of));
    t.of++;
  }
  NMB_TRY(want_mark(ps, ':'));
  NMB_TRY(parse_type(ps, &t));
  add_tensor(ps, &t);
  return NMB_OK;
}

static nmb_status
parse_attr(parser *ps, nmb_opcode code, nmb_attr *a)
{
  int n, which = 0;
  const nmb__attr_info *info = nmb__attrs_of(code, &n);
  const char **names = NMB_NEW(ps->run, const char *, n);
  for (int i = 0; i < n; i++)
    names[i] = info[i].key;
  NMB_TRY(want_choice(ps,
                      nmb_format(ps->run, "an attribute of %s", nmb_op_get(code)->name),
                      names, n, &which));
  a->key = names[which];
  NMB_TRY(want_mark(ps, '='));
  if (ps->t.kind == NMB__TOK_INT) {
    *a = NMB_INT(a->key, ps->t.i);
    next(ps);
  } else if (ps->t.kind == NMB__TOK_REAL) {
    *a = NMB_REAL(a->key, ps->t.r);
    next(ps);
  } else {
    const char *key = a->key, *sym = NULL;
    NMB_TRY(want_name(ps, "the value of an attribute", &sym));
    *a = NMB_SYM(key, sym);
  }
  return NMB_OK;
}

static nmb_status
parse_attrs(parser *ps, nmb_op *o)
{
  do {
    if (o->nattr == NMB_MAXATTR)
      return unexpected(ps, "no more than 10 attributes");
    const nmb_loc loc = ps->t.loc;
    nmb_attr a = {0};
    NMB_TRY(parse_attr(ps, o->code, &a));
    if (nmb_op_attr(o, a.key))
      return nmb_fail(ps->run, NMB_BADINPUT, loc, "attribute '%s' is given a second time",
                      a.key);
    o->attr[o->nattr++] = a;
  } while (accept_mark(ps, ','));
  return want_mark(ps, '}');
}

static nmb_status
parse_opcode(parser *ps, nmb_op *o)
{
  const char *names[NMB_NOP];
  for (int i = 0; i < NMB_NOP; i++)
    names[i] = nmb_op_get((nmb_opcode)i)->name;
  int code = 0;
  o->loc = ps->t.loc;
  NMB_TRY(want_choice(ps, "an op", names, NMB_NOP, &code));
  o->code = (nmb_opcode)code;
  return NMB_OK;
}

static nmb_status
parse_inputs(parser *ps, nmb_op *o)
{
  const nmb_op_info *info = nmb_op_get(o->code);
  NMB_TRY(want_mark(ps, '('));
  do {
    if (o->nin == info->nin_max)
      return unexpected(
          ps, nmb_format(ps->run, "at most %d inputs of %s", info->nin_max, info->name));
    NMB_TRY(want_tensor(ps, ps->block, &o->in[o->nin]));
    o->nin++;
  } while (accept_mark(ps, ','));
  if (o->nin < info->nin_min)
    return unexpected(
        ps, nmb_format(ps->run, "at least %d inputs of %s", info->nin_min, info->name));
  return want_mark(ps, ')');
}

/* The type of each output, after an optional role. */
static nmb_status
parse_results(parser *ps, nmb_tensor *y, int n)
{
  NMB_TRY(want_mark(ps, ':'));
  for (int i = 0; i < n; i++) {
    if (i > 0)
      NMB_TRY(want_mark(ps, ','));
    y[i].block = ps->block;
    for (int r = 0; r < NMB_NROLE; r++)
      if (accept_word(ps, role_names[r])) {
        y[i].role = (nmb_role)r;
        break;
      }
    NMB_TRY(parse_type(ps, &y[i]));
  }
  return NMB_OK;
}

static nmb_status
parse_definition(parser *ps)
{
  nmb_op o = {.block = ps->block};
  nmb_tensor y[NMB_MAXOUT] = {0};
  do {
    if (o.nout == NMB_MAXOUT)
      return unexpected(ps, "'=', as an op has at most 2 outputs");
    NMB_TRY(want_new_name(ps, &y[o.nout].name, &y[o.nout].loc));
    o.nout++;
  } while (accept_mark(ps, ','));
  NMB_TRY(want_mark(ps, '='));
  NMB_TRY(parse_opcode(ps, &o));
  if (o.nout != nmb_op_get(o.code)->nout)
    return nmb_fail(ps->run, NMB_BADINPUT, o.loc, "found %d outputs of %s, expected %d",
                    o.nout, nmb_op_get(o.code)->name, nmb_op_get(o.code)->nout);
  NMB_TRY(parse_inputs(ps, &o));
  if (accept_mark(ps, '{'))
    NMB_TRY(parse_attrs(ps, &o));
  NMB_TRY(parse_results(ps, y, o.nout));
  if (o.nout == 2 && !strcmp(y[0].name, y[1].name))
    return nmb_fail(ps->run, NMB_BADINPUT, y[1].loc, "'%%%s' is defined a second time",
                    y[1].name);
  for (int i = 0; i < o.nout; i++)
    o.out[i] = add_tensor(ps, &y[i]);
  nmb_op_add(ps->p, &o);
  return NMB_OK;
}

/* The name of an end of a block, kept until its tensors are read. */
static nmb_status
parse_end(parser *ps, nmb__token *end)
{
  *end = ps->t;
  if (!is_mark(ps, '-') && ps->t.kind != NMB__TOK_TENSOR)
    return unexpected(ps, "a tensor or '-'");
  next(ps);
  return NMB_OK;
}

static nmb_status
find_end(parser *ps, const nmb__token *end, nmb_id *out)
{
  *out = NMB_NONE;
  if (end->kind != NMB__TOK_TENSOR)
    return NMB_OK;
  *out = symbol_find(ps, ps->block, end->text, end->len);
  if (*out != NMB_NONE)
    return NMB_OK;
  ps->t = *end;
  return unknown_tensor(ps, ps->block);
}

static nmb_status
parse_block(parser *ps)
{
  const char *name;
  const nmb_loc loc = ps->t.loc;
  nmb__token in, out;
  nmb_id x = NMB_NONE, y = NMB_NONE;
  NMB_TRY(want_name(ps, "the name of a block", &name));
  if (symbol_find(ps, NMB_NONE, name, strlen(name)) != NMB_NONE)
    return nmb_fail(ps->run, NMB_BADINPUT, loc, "block '%s' is defined a second time",
                    name);
  ps->block = nmb_block_add(ps->p, name);
  symbol_add(ps, NMB_NONE, name, ps->block);
  NMB_TRY(want_mark(ps, '('));
  NMB_TRY(parse_end(ps, &in));
  NMB_TRY(want_mark(ps, ')'));
  NMB_TRY(want_mark(ps, '>'));
  NMB_TRY(parse_end(ps, &out));
  NMB_TRY(want_mark(ps, '{'));
  while (!accept_mark(ps, '}'))
    NMB_TRY(ps->t.kind == NMB__TOK_TENSOR ? parse_definition(ps) : parse_declaration(ps));
  NMB_TRY(find_end(ps, &in, &x));
  NMB_TRY(find_end(ps, &out, &y));
  nmb_block_ends(ps->p, ps->block, x, y);
  ps->block = NMB_NONE;
  return NMB_OK;
}

static nmb_status
parse_order(parser *ps)
{
  do {
    nmb_id block = 0;
    int64_t count = 0;
    NMB_TRY(want_block(ps, &block));
    NMB_TRY(want_field(ps, "x", 1, INT32_MAX, &count));
    nmb_order_add(ps->p, block, count);
  } while (accept_mark(ps, ','));
  return NMB_OK;
}

static nmb_status
parse_graph(parser *ps)
{
  if (accept_word(ps, "routing"))
    return parse_routing(ps);
  if (accept_word(ps, "block"))
    return parse_block(ps);
  if (accept_word(ps, "order"))
    return parse_order(ps);
  return unexpected(ps, "'routing', 'block', 'order' or '}'");
}

/* --------------------------------------------------------------------- plan */
static nmb_status
parse_groups(parser *ps)
{
  nmb_id block = 0, op[MOST_LIST];
  int n = 0;
  NMB_TRY(want_word(ps, "kernel"));
  NMB_TRY(want_id(ps, "the number of a kernel", ps->p->nkernel));
  NMB_TRY(want_block(ps, &block));
  NMB_TRY(want_mark(ps, '{'));
  for (; !accept_mark(ps, '}'); n++) {
    if (n == MOST_LIST)
      return unexpected(ps, "'}', as a kernel has at most 4096 ops");
    NMB_TRY(want_op(ps, block, &op[n]));
  }
  nmb_kernel_add(ps->p, block, op, n);
  return NMB_OK;
}

/* `kernel` and the id of one. */
static nmb_status
want_kernel(parser *ps, nmb_id *out)
{
  return want_field32(ps, "kernel", 0, ps->p->nkernel - 1, out);
}

static nmb_status
parse_dispatch(parser *ps)
{
  nmb_id kernel = 0, engine = 0;
  NMB_TRY(want_kernel(ps, &kernel));
  NMB_TRY(want_engine(ps, &engine));
  nmb_dispatch_set(ps->p, kernel, engine);
  return NMB_OK;
}

static nmb_status
parse_map(parser *ps)
{
  nmb_map m = {0};
  NMB_TRY(want_kernel(ps, &m.kernel));
  NMB_TRY(want_field(ps, "tile", INT64_MIN, INT64_MAX, &m.tile_b));
  NMB_TRY(want_int(ps, "tile", INT64_MIN, INT64_MAX, &m.tile_m));
  NMB_TRY(want_int(ps, "tile", INT64_MIN, INT64_MAX, &m.tile_n));
  NMB_TRY(want_field(ps, "reuse", INT64_MIN, INT64_MAX, &m.reuse));
  nmb_map_add(ps->p, &m);
  return NMB_OK;
}

static nmb_status
parse_layout(parser *ps)
{
  static const char *const kinds[] = {"linear", "blocked", "interleaved"};
  nmb_layout l = {0};
  int kind = 0;
  NMB_TRY(want_tensor(ps, NMB_NONE, &l.tensor));
  NMB_TRY(want_mem(ps, &l.mem));
  NMB_TRY(want_choice(ps, "linear, blocked or interleaved", kinds, 3, &kind));
  l.kind = (nmb_lay_kind)kind;
  NMB_TRY(want_field(ps, "unit", INT64_MIN, INT64_MAX, &l.unit_rows));
  NMB_TRY(want_field32(ps, "channels", INT_MIN, INT_MAX, &l.channels));
  NMB_TRY(want_field(ps, "bytes", INT64_MIN, INT64_MAX, &l.bytes));
  l.padded = accept_word(ps, "padded");
  nmb_layout_add(ps->p, &l);
  return NMB_OK;
}

static nmb_status
parse_mapping(parser *ps)
{
  if (accept_word(ps, "layout"))
    return parse_layout(ps);
  if (is_word(ps, "kernel"))
    return parse_map(ps);
  return unexpected(ps, "'kernel', 'layout' or '}'");
}

static nmb_status
parse_schedule(parser *ps)
{
  static const char *const axes[] = {"none", "batch", "head"};
  nmb_step s = {.nparts = 1};
  int axis = 0;
  NMB_TRY(want_word(ps, "step"));
  NMB_TRY(want_id(ps, "the number of a step", ps->p->nstep));
  NMB_TRY(want_kernel(ps, &s.kernel));
  if (is_word(ps, "part")) {
    NMB_TRY(want_field32(ps, "part", INT_MIN, INT_MAX, &s.part));
    NMB_TRY(want_field32(ps, "of", INT_MIN, INT_MAX, &s.nparts));
    NMB_TRY(want_choice(ps, "none, batch or head", axes, 3, &axis));
    s.axis = (nmb_axis)axis;
  }
  NMB_TRY(want_field(ps, "at", INT64_MIN, INT64_MAX, &s.start_ps));
  NMB_TRY(want_field(ps, "for", INT64_MIN, INT64_MAX, &s.duration_ps));
  nmb_step_add(ps->p, &s);
  return NMB_OK;
}

static nmb_status
parse_memory(parser *ps)
{
  nmb_slot s = {.first = NMB_NONE, .last = NMB_NONE};
  const int64_t steps = ps->p->nstep - 1;
  NMB_TRY(want_word(ps, "slot"));
  NMB_TRY(want_id(ps, "the number of a slot", ps->p->nslot));
  NMB_TRY(want_tensor(ps, NMB_NONE, &s.tensor));
  NMB_TRY(want_mem(ps, &s.mem));
  s.resident = accept_word(ps, "resident");
  if (is_word(ps, "live")) {
    NMB_TRY(want_field32(ps, "live", NMB_NONE, steps, &s.first));
    NMB_TRY(want_field32(ps, "to", NMB_NONE, steps, &s.last));
  }
  NMB_TRY(want_field(ps, "at", INT64_MIN, INT64_MAX, &s.offset));
  NMB_TRY(want_field(ps, "bytes", INT64_MIN, INT64_MAX, &s.bytes));
  nmb_slot_add(ps->p, &s);
  return NMB_OK;
}

/* --------------------------------------------------------------------- code */
static nmb_status
parse_tile(parser *ps, nmb_tile *t)
{
  int64_t *const end[] = {&t->b0, &t->b1, &t->m0, &t->m1, &t->n0, &t->n1, &t->k0, &t->k1};
  for (int i = 0; i < 8; i += 2) {
    NMB_TRY(want_int(ps, "the start of a range", INT64_MIN, INT64_MAX, end[i]));
    NMB_TRY(want_mark(ps, ':'));
    NMB_TRY(want_int(ps, "the end of a range", INT64_MIN, INT64_MAX, end[i + 1]));
  }
  return NMB_OK;
}

static nmb_status
parse_place(parser *ps, nmb_place *l)
{
  NMB_TRY(want_int32(ps, "the first channel", INT_MIN, INT_MAX, &l->channel0));
  NMB_TRY(want_mark(ps, '+'));
  NMB_TRY(want_int32(ps, "channels", INT_MIN, INT_MAX, &l->nchannel));
  NMB_TRY(want_field32(ps, "banks", INT_MIN, INT_MAX, &l->banks));
  NMB_TRY(want_field(ps, "vectors", INT64_MIN, INT64_MAX, &l->vectors));
  NMB_TRY(want_field(ps, "rows", INT64_MIN, INT64_MAX, &l->rows_per_bank));
  NMB_TRY(want_field(ps, "pages", INT64_MIN, INT64_MAX, &l->pages));
  NMB_TRY(want_field(ps, "bursts", INT64_MIN, INT64_MAX, &l->bursts));
  NMB_TRY(want_field(ps, "opens", INT64_MIN, INT64_MAX, &l->opens));
  return want_field(ps, "reuse", INT64_MIN, INT64_MAX, &l->reuse);
}

static nmb_status
parse_operand(parser *ps, nmb_insn *n, bool write)
{
  if (n->nopnd == NMB_MAXOPND)
    return unexpected(ps, "no more than 9 operands");
  nmb_operand *o = &n->opnd[n->nopnd++];
  *o = (nmb_operand){.write = write, .slot = NMB_NONE};
  NMB_TRY(want_tensor(ps, n->block, &o->tensor));
  NMB_TRY(want_mem(ps, &o->mem));
  NMB_TRY(want_mark(ps, '['));
  if (!accept_mark(ps, '-'))
    NMB_TRY(want_int32(ps, "a slot", 0, ps->p->nslot - 1, &o->slot));
  NMB_TRY(want_mark(ps, '+'));
  NMB_TRY(want_int(ps, "an offset", INT64_MIN, INT64_MAX, &o->offset));
  NMB_TRY(want_mark(ps, ','));
  NMB_TRY(want_int(ps, "rows", INT64_MIN, INT64_MAX, &o->rows));
  NMB_TRY(want_field(ps, "x", INT64_MIN, INT64_MAX, &o->row_bytes));
  NMB_TRY(want_mark(ps, '/'));
  NMB_TRY(want_int(ps, "a stride", INT64_MIN, INT64_MAX, &o->stride));
  return want_mark(ps, ']');
}

/* Instructions may wait for later ones in the text: ids up to 2^31 are taken
 * here, and checked against their number when the section ends. */
static nmb_status
parse_waits(parser *ps, nmb_insn *n, nmb_id *wait)
{
  do {
    if (n->nwait == MOST_LIST)
      return unexpected(ps, "no more than 4096 waits");
    NMB_TRY(want_int32(ps, "an instruction", 0, INT_MAX, &wait[n->nwait]));
    n->nwait++;
  } while (accept_mark(ps, ','));
  return NMB_OK;
}

static nmb_status
parse_work(parser *ps, nmb_insn *n)
{
  if (is_word(ps, "step"))
    NMB_TRY(want_field32(ps, "step", 0, ps->p->nstep - 1, &n->step));
  n->first = accept_word(ps, "first");
  if (accept_word(ps, "tile"))
    NMB_TRY(parse_tile(ps, &n->tile));
  if (accept_word(ps, "place"))
    NMB_TRY(parse_place(ps, &n->place));
  for (;;) {
    const bool write = is_word(ps, "write");
    if (!write && !is_word(ps, "read"))
      return NMB_OK;
    next(ps);
    NMB_TRY(parse_operand(ps, n, write));
  }
}

static nmb_status
parse_code(parser *ps)
{
  static const char *const kinds[] = {
#define X(id, name, help) name,
      NMB_INSN_MAP(X)
#undef X
  };
  nmb_id wait[MOST_LIST];
  nmb_insn n = {.op = NMB_NONE, .step = NMB_NONE, .wait = wait};
  int kind = 0;
  NMB_TRY(want_id(ps, "the number of an instruction", ps->p->ninsn));
  NMB_TRY(want_engine(ps, &n.engine));
  NMB_TRY(want_choice(ps, "exec, copy, bcast, gather or sync", kinds, NMB_NINSN, &kind));
  n.kind = (nmb_insn_kind)kind;
  NMB_TRY(want_block(ps, &n.block));
  if (ps->t.kind == NMB__TOK_TENSOR)
    NMB_TRY(want_op(ps, n.block, &n.op));
  NMB_TRY(parse_work(ps, &n));
  if (accept_word(ps, "wait"))
    NMB_TRY(parse_waits(ps, &n, wait));
  nmb_insn_add(ps->p, &n);
  return NMB_OK;
}

static nmb_status
check_waits(parser *ps)
{
  for (int i = 0; i < ps->p->ninsn; i++)
    for (int j = 0; j < ps->p->insn[i].nwait; j++)
      if (ps->p->insn[i].wait[j] >= ps->p->ninsn)
        return nmb_fail(ps->run, NMB_BADINPUT, ps->t.loc,
                        "instruction %d waits for %d, but there are %d", i,
                        (int)ps->p->insn[i].wait[j], ps->p->ninsn);
  return NMB_OK;
}

/* ------------------------------------------------------------------ program */
static nmb_status
parse_header(parser *ps, const char **model, nmb_step_spec *spec, const char **machine,
             nmb_loc *machine_loc)
{
  static const char *const phases[] = {"prefill", "decode"};
  int64_t version = 0;
  int phase = 0;
  const nmb_loc loc = ps->t.loc;
  NMB_TRY(want_field(ps, "nmbench", 1, INT_MAX, &version));
  if (version != NMB__TEXT_VERSION)
    return nmb_fail(ps->run, NMB_BADINPUT, loc,
                    "found version %" PRId64 " of the format, expected %d", version,
                    NMB__TEXT_VERSION);
  NMB_TRY(want_word(ps, "model"));
  NMB_TRY(want_name(ps, "the name of a model", model));
  NMB_TRY(want_word(ps, "step"));
  NMB_TRY(want_choice(ps, "prefill or decode", phases, 2, &phase));
  spec->phase = (nmb_phase)phase;
  NMB_TRY(want_field(ps, "batch", 1, INT32_MAX, &spec->batch));
  NMB_TRY(want_field(ps, "fresh", 1, INT32_MAX, &spec->fresh));
  NMB_TRY(want_field(ps, "context", 0, INT32_MAX, &spec->context));
  *machine = "";
  if (accept_word(ps, "machine")) {
    *machine_loc = ps->t.loc;
    NMB_TRY(want_name(ps, "the name of a machine", machine));
  }
  return NMB_OK;
}

static nmb_status
parse_section(parser *ps, int s)
{
  static nmb_status (*const line[NMB_NSECTION])(parser *) = {
      parse_graph,    parse_groups, parse_dispatch, parse_mapping,
      parse_schedule, parse_memory, parse_code};
  NMB_TRY(want_mark(ps, '{'));
  nmb_section_begin(ps->p, (nmb_section)s);
  while (!is_mark(ps, '}'))
    NMB_TRY(line[s](ps));
  if (s == NMB_CODE)
    NMB_TRY(check_waits(ps));
  next(ps);
  return NMB_OK;
}

static nmb_status
parse_sections(parser *ps)
{
  static const char *const names[] = {
#define X(id, name, kind) name,
      NMB_SECTION_MAP(X)
#undef X
  };
  for (int last = -1; ps->t.kind != NMB__TOK_END || last < 0;) {
    int s = 0;
    const nmb_loc loc = ps->t.loc;
    NMB_TRY(want_choice(ps, "a section", names, NMB_NSECTION, &s));
    if (last < 0 && s != NMB_GRAPH)
      return nmb_fail(ps->run, NMB_BADINPUT, loc,
                      "found section %s, expected graph first", names[s]);
    if (s <= last)
      return nmb_fail(ps->run, NMB_BADINPUT, loc,
                      "section %s cannot stand after section %s", names[s], names[last]);
    if (s > NMB_GROUPS && !(ps->p->present & NMB_BIT(NMB_GROUPS)))
      return nmb_fail(ps->run, NMB_BADINPUT, loc,
                      "section %s rests on section groups, which is missing", names[s]);
    NMB_TRY(parse_section(ps, s));
    last = s;
  }
  return NMB_OK;
}

nmb_status
nmb_prog_parse(nmb_run *run, const char *file, const char *text, size_t len,
               const struct nmb_hw *hw, nmb_prog **out)
{
  parser ps = {.run = run, .hw = hw, .csymbol = 256, .block = NMB_NONE};
  const char *model, *machine;
  nmb_step_spec spec = {0};
  *out = NULL;
  ps.symbol = NMB_NEW(run, symbol, ps.csymbol);
  nmb__lex_open(&ps.lex, run, file ? file : "(text)", text, len);
  next(&ps);
  nmb_loc loc = NMB_NOLOC;
  NMB_TRY(parse_header(&ps, &model, &spec, &machine, &loc));
  if (hw && *machine && strcmp(machine, hw->name))
    return nmb_fail(run, NMB_BADINPUT, loc,
                    "found a program for machine '%s', expected '%s'", machine, hw->name);
  ps.p = nmb_prog_new(model, spec);
  nmb_prog_set_hw(ps.p, hw);
  const nmb_status status = parse_sections(&ps);
  if (status == NMB_OK)
    *out = ps.p;
  else
    nmb_prog_free(ps.p);
  return status;
}

nmb_status
nmb_prog_parse_machine(nmb_run *run, const char *file, const char *text, size_t len,
                       const char **name)
{
  parser ps = {.run = run, .block = NMB_NONE};
  const char *model;
  nmb_step_spec spec = {0};
  nmb__lex_open(&ps.lex, run, file ? file : "(text)", text, len);
  next(&ps);
  nmb_loc loc;
  return parse_header(&ps, &model, &spec, name, &loc);
}
