/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Tokens of the text form, with their places. */
#ifndef NMB__TEXT_LEX_H
#define NMB__TEXT_LEX_H

#include "ir/text.h"

typedef enum nmb__token_kind {
  NMB__TOK_END,
  NMB__TOK_WORD,   /* text */
  NMB__TOK_STRING, /* text, decoded */
  NMB__TOK_TENSOR, /* text: the name without the mark */
  NMB__TOK_INT,    /* i */
  NMB__TOK_REAL,   /* r */
  NMB__TOK_MARK,   /* one of (){}[]:,=/@- in `mark`, '>' for -> */
  NMB__TOK_BAD     /* text: what is wrong */
} nmb__token_kind;

typedef struct nmb__token {
  nmb__token_kind kind;
  nmb_loc loc;
  const char *text; /* not ended by a zero byte */
  size_t len;
  int64_t i;
  double r;
  char mark;
} nmb__token;

typedef struct nmb__lexer {
  nmb_run *run;
  const char *file, *at, *end;
  const char *line_start;
  int line;
} nmb__lexer;

void nmb__lex_open(nmb__lexer *, nmb_run *, const char *file, const char *text,
                   size_t len);
void nmb__lex_next(nmb__lexer *, nmb__token *);
/* "'name'", "the end of the file", ...: for messages. */
const char *nmb__lex_text(nmb_run *, const nmb__token *);
#endif
