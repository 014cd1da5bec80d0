/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Text -> tokens.  Looks at no byte past the end; any bytes may come. */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/text_lex.h"

void
nmb__lex_open(nmb__lexer *x, nmb_run *run, const char *file, const char *text, size_t len)
{
  *x = (nmb__lexer){run, file, text, text + len, text, 1};
}

static int
peek(const nmb__lexer *x, size_t ahead)
{
  return (size_t)(x->end - x->at) > ahead ? (unsigned char)x->at[ahead] : -1;
}

static void
skip_blanks(nmb__lexer *x)
{
  for (;;) {
    const int c = peek(x, 0);
    if (c == '\n') {
      x->at++;
      x->line += x->line < INT_MAX;
      x->line_start = x->at;
    } else if (c == ' ' || c == '\t' || c == '\r')
      x->at++;
    else if (c == '#')
      while (x->at < x->end && *x->at != '\n')
        x->at++;
    else
      return;
  }
}

static void
bad(nmb__token *t, const char *what)
{
  t->kind = NMB__TOK_BAD;
  t->text = what;
  t->len = strlen(what);
}

/* Takes letters, digits, `_.+-` up to the end of a word; `->` ends it. */
static void
take_word(nmb__lexer *x, nmb__token *t)
{
  t->text = x->at;
  while (nmb__text_inside(peek(x, 0)) && !(peek(x, 0) == '-' && peek(x, 1) == '>'))
    x->at++;
  t->len = (size_t)(x->at - t->text);
}

static int
hex(int c)
{
  if (c >= '0' && c <= '9')
    return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* One character of a string; -1: not one that may stand there. */
static int
take_escaped(nmb__lexer *x)
{
  const int c = peek(x, 0);
  if (c != '\\') {
    x->at++;
    return c;
  }
  const int e = peek(x, 1), hi = hex(peek(x, 2)), lo = hex(peek(x, 3));
  if (e == 'x' && hi >= 0 && lo >= 0 && hi * 16 + lo > 0) {
    x->at += 4;
    return hi * 16 + lo;
  }
  if (e != '"' && e != '\\' && e != 'n')
    return -1;
  x->at += 2;
  return e == 'n' ? '\n' : e;
}

static void
take_string(nmb__lexer *x, nmb__token *t)
{
  const char *close = ++x->at;
  while (close < x->end && *close != '"' && *close != '\n')
    close += *close == '\\' && close + 1 < x->end ? 2 : 1;
  char *s = nmb_alloc(x->run, (size_t)(close - x->at) + 1, 1);
  size_t n = 0;
  while (peek(x, 0) != '"') {
    const int c = peek(x, 0) < 0x20 ? -1 : take_escaped(x); /* also at the end */
    if (c < 0) {
      bad(t, peek(x, 0) == '\\' ? "an unknown escape in a string"
                                : "a string without its closing quote");
      return;
    }
    s[n++] = (char)c;
  }
  x->at++;
  t->text = s;
  t->len = n;
}

/* Most numbers are short and whole: up to 18 digits fit whatever they are. */
static bool
take_short(nmb__lexer *x, nmb__token *t)
{
  size_t n = 0;
  int64_t v = 0;
  for (; n < 18 && nmb__text_digit(peek(x, n)); n++)
    v = 10 * v + (peek(x, n) - '0');
  if (n == 0 || nmb__text_inside(peek(x, n)))
    return false;
  t->kind = NMB__TOK_INT;
  t->i = v;
  t->text = x->at;
  t->len = n;
  x->at += n;
  return true;
}

/* The digits of a number stand at x->at, perhaps after a sign. */
static void
take_number(nmb__lexer *x, nmb__token *t)
{
  char buf[64];
  size_t n = 0;
  bool real = false;
  for (int c; n < sizeof buf - 1; n++) {
    c = peek(x, n);
    const bool exponent_sign =
        (c == '+' || c == '-') && n > 0 && (buf[n - 1] == 'e' || buf[n - 1] == 'E');
    if (!nmb__text_digit(c) && c != '.' && c != 'e' && c != 'E' && !exponent_sign &&
        !(n == 0 && (c == '-' || c == '+')))
      break;
    real = real || !(nmb__text_digit(c) || c == '-' || c == '+');
    buf[n] = (char)c;
  }
  buf[n] = '\0';
  if (nmb__text_inside(peek(x, n)) && !(peek(x, n) == '-' && peek(x, n + 1) == '>')) {
    bad(t, "a number with other characters in it, or too long");
    return;
  }
  char *stop;
  errno = 0;
  t->kind = real ? NMB__TOK_REAL : NMB__TOK_INT;
  if (real)
    t->r = strtod(buf, &stop);
  else
    t->i = strtoll(buf, &stop, 10);
  t->text = x->at;
  t->len = n;
  if (*stop || stop == buf)
    bad(t, "a malformed number");
  else if (real ? isinf(t->r) : errno == ERANGE)
    bad(t, "a number that is too big");
  x->at += n;
}

static void
take_signed(nmb__lexer *x, nmb__token *t)
{
  static const struct {
    const char *text;
    double value;
  } special[] = {{"+inf", HUGE_VAL}, {"-inf", -HUGE_VAL}, {"+nan", 0}};
  for (size_t i = 0; i < sizeof special / sizeof *special; i++)
    if (x->end - x->at >= 4 && !memcmp(x->at, special[i].text, 4)) {
      t->kind = NMB__TOK_REAL;
      t->r = i == 2 ? (double)NAN : special[i].value;
      t->text = x->at;
      t->len = 4;
      x->at += 4;
      return;
    }
  take_number(x, t);
}

void
nmb__lex_next(nmb__lexer *x, nmb__token *t)
{
  skip_blanks(x);
  const ptrdiff_t col = x->at - x->line_start + 1;
  *t = (nmb__token){.loc = {x->file, x->line, col < INT_MAX ? (int)col : INT_MAX}};
  const int c = peek(x, 0);
  if (c < 0)
    t->kind = NMB__TOK_END;
  else if (nmb__text_letter(c)) {
    t->kind = NMB__TOK_WORD;
    take_word(x, t);
  } else if (c == '"') {
    t->kind = NMB__TOK_STRING;
    take_string(x, t);
  } else if (c == '%') {
    t->kind = NMB__TOK_TENSOR;
    x->at++;
    if (peek(x, 0) == '"')
      take_string(x, t);
    else
      take_word(x, t);
  } else if (nmb__text_digit(c) && take_short(x, t)) {
    return;
  } else if (nmb__text_digit(c) ||
             ((c == '-' || c == '+') && nmb__text_inside(peek(x, 1))))
    take_signed(x, t);
  else if (c == '-' && peek(x, 1) == '>') {
    t->kind = NMB__TOK_MARK;
    t->mark = '>';
    x->at += 2;
  } else {
    t->kind = NMB__TOK_MARK;
    t->mark = (char)c;
    x->at++;
  }
}

const char *
nmb__lex_text(nmb_run *run, const nmb__token *t)
{
  const int n = t->len < 60 ? (int)t->len : 60;
  const char *more = t->len > 60 ? "..." : "";
  switch (t->kind) {
  case NMB__TOK_END: return "the end of the file";
  case NMB__TOK_BAD: return t->text;
  case NMB__TOK_WORD:
  case NMB__TOK_INT:
  case NMB__TOK_REAL: return nmb_format(run, "'%.*s%s'", n, t->text, more);
  case NMB__TOK_STRING: return nmb_format(run, "\"%.*s%s\"", n, t->text, more);
  case NMB__TOK_TENSOR: return nmb_format(run, "'%%%.*s%s'", n, t->text, more);
  case NMB__TOK_MARK: break;
  }
  if (t->mark == '>')
    return "'->'";
  if (t->mark > 0x20 && t->mark < 0x7f)
    return nmb_format(run, "'%c'", t->mark);
  return nmb_format(run, "byte 0x%02x", (unsigned)(unsigned char)t->mark);
}
