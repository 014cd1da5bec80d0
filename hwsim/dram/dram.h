/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The inside of DRAM kinds and channels. */
#ifndef NMB__DRAM_H
#define NMB__DRAM_H

#include "nmbench/nmb_dram.h"

enum { NMB__DRAM_MAXCMD = 40, NMB__DRAM_MAXBANKS = 1024, NMB__DRAM_MAXWINDOW = 16 };

/* A constraint as the file states it, for one pair of commands: `to` comes at least
 * `ticks` after the window-th last `from`, if both address the same part (other: two
 * parts in the same part above) of that level. */
typedef struct nmb__dram_row {
  int16_t from, to;
  nmb_dram_level level;
  bool other;
  int window;
  int64_t ticks; /* after the bus cycles of both were taken into account */
  int line;      /* of the file */
} nmb__dram_row;

/* What issuing a command does to one level: ready[node][to] >= tick + ticks. */
typedef struct nmb__dram_mark {
  uint16_t to;
  uint16_t window; /* 1: after this command */
  int32_t ticks;
} nmb__dram_mark;

typedef struct nmb__dram_marks {
  int nsame, nother, nwindow; /* same with window 1; other parts; same with window > 1 */
  const nmb__dram_mark *same, *other, *window;
  int deepest; /* history slots of this command at this level; 0: none */
} nmb__dram_marks;

typedef struct nmb__dram_param {
  const char *name;
  int64_t value; /* clocks */
} nmb__dram_param;

/* The first `own` are those of the command's scope and outside of it. */
typedef struct nmb__dram_levels {
  uint8_t n, own, level[NMB_DRAM_NLEVEL];
} nmb__dram_levels;

struct nmb_dram {
  nmb_dram_info info;
  int nparam;
  const nmb__dram_param *param;
  int nrow; /* constraints as written, one a pair of commands */
  const nmb__dram_row *row;
  /* compiled */
  int nnode;                  /* parts of all levels */
  int first[NMB_DRAM_NLEVEL]; /* first node of a level */
  int below[NMB_DRAM_NLEVEL]; /* banks of a part of that level */
  nmb__dram_marks marks[NMB__DRAM_MAXCMD][NMB_DRAM_NLEVEL];
  /* levels at which a command must be checked, at which it leaves marks */
  nmb__dram_levels check[NMB__DRAM_MAXCMD], touch[NMB__DRAM_MAXCMD];
  const uint16_t (*node)[NMB_DRAM_NLEVEL];  /* of each bank */
  const uint32_t (*place)[NMB_DRAM_NLEVEL]; /* node * stride */
  int16_t opener[NMB__DRAM_MAXCMD], closer[NMB__DRAM_MAXCMD];
  int16_t finisher[NMB__DRAM_MAXCMD];   /* second half of opening */
  int16_t auto_close[NMB__DRAM_MAXCMD]; /* RD -> RDA; NMB_NONE */
  int16_t closer2[NMB__DRAM_MAXCMD];    /* of the second row buffer, before a refresh */
  int16_t switcher[NMB__DRAM_MAXCMD];
  int64_t gap[NMB__DRAM_MAXCMD]; /* equal commands; -1: not constant */
  nmb_id refab, refpb;
  nmb_dram_level refresh_level;
  int64_t refi, refipb; /* ticks; 0: none */
  int refpb_step;       /* banks between those that are refreshed together */
  int stride;           /* of ready */
};

struct nmb_dramch {
  const nmb_dram *d;
  nmb_dram_refresh refresh;
  int64_t now, bus[2]; /* last issue; first free tick of each command bus */
  int64_t *ready;      /* [node][command] */
  /* last ticks of commands that windows look at: per node a count, the place of the last
   * one, then a ring */
  int64_t *history[NMB__DRAM_MAXCMD][NMB_DRAM_NLEVEL];
  int64_t *row[2]; /* open row of each bank; -1 closed, -2 - row: half open */
  int mode;
  int64_t due;  /* next refresh */
  int next_ref; /* bank of the next per-bank refresh */
  int64_t stall;
  /* half ticks: a precharge at the falling edge that pairs with a row command must
   * go to another bank */
  int64_t pair_tick;
  int pair_part, pair_bank; /* -1: all banks */
  int64_t count[NMB__DRAM_MAXCMD];
  nmb_dram_hook *hook;
  void *hook_arg;
  size_t nready, nhistory;
  int64_t *history_all;
};

/* The first bank of the part of `level` that `bank` is in. */
static inline int
nmb__dram_first(const nmb_dram *d, nmb_dram_level level, int bank)
{
  return (d->node[bank][level] - d->first[level]) * d->below[level];
}

/* The banks that a command addresses: from the first on, a step apart, before the end. */
typedef struct nmb__dram_banks {
  int first, step, end;
} nmb__dram_banks;

static inline nmb__dram_banks
nmb__dram_banks_of(const nmb_dram *d, const nmb_dram_cmd *k, int bank)
{
  if (k->scope == NMB_DRAM_BANK)
    return (nmb__dram_banks){bank, 1, bank + 1};
  const int first = nmb__dram_first(d, k->scope, bank), step = d->below[k->inner];
  return (nmb__dram_banks){first + bank % step, step, first + d->below[k->scope]};
}

/* As nmb_dramch_ready, but for edges: what the rows and the bus alone say. */
NMB_API int64_t nmb__dramch_raw(const nmb_dramch *, nmb_id cmd, int bank);

/* The first tick from `t` on that has the right edge. */
int64_t nmb__dramch_edge(const nmb_dramch *, nmb_id cmd, int bank, int64_t t);

/* Transaction k of the channel in the order column, rank, sid, group, bank, row. */
void nmb__dram_flat(const nmb_dram_info *, int64_t k, nmb_dramreq *out);

/* Reads, evaluates, compiles. */
NMB_API nmb_status nmb__dram_load(nmb_run *, nmb_run *own, const char *path,
                                  const char *text, size_t len, const char *kind,
                                  const char *set, const nmb_dram **out);
nmb_status nmb__dram_compile(nmb_run *, nmb_run *own, nmb_dram *);
/* Integer expressions over clocks: + - * / (rounded down), parentheses, max(a, b, ..),
 * min, up(a, b): a / b rounded up, step(x, limit, value, .., value): the value after
 * the first limit that x does not exceed, else the last.  param: known names. */
NMB_API nmb_status nmb__dram_expr(nmb_run *, nmb_loc, const char *text,
                                  const nmb__dram_param *param, int n, int64_t *out);
#endif
