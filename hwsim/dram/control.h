/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The inside of the memory controller. */
#ifndef NMB__DRAM_CONTROL_H
#define NMB__DRAM_CONTROL_H

#include "hwsim/dram/dram.h"

typedef struct nmb__req {
  int64_t k;      /* number of the request; -1: maintenance */
  int64_t arrive; /* tick before the first at which it can be scheduled */
  int64_t row, column;
  int bank;
  nmb_id cmd;   /* its last command: RD, WR, or what maintenance is for */
  bool counted; /* its row hit or miss */
  /* what it needs next and when rows and bus allow that, as of `version` commands */
  int64_t version, raw;
  nmb_id needs;
} nmb__req;

typedef struct nmb__queue {
  int n, cap;
  nmb__req *v; /* in order of arrival, but for the active ones */
} nmb__queue;

typedef struct nmb__ctl {
  nmb_run *run;
  const nmb_dram *d;
  const nmb_dramctl *conf;
  nmb_dramch *ch;
  int64_t clk;
  int64_t version; /* commands issued so far, and 1 */
  int64_t served;  /* tick of the last command for a request */
  int64_t wake;    /* the least tick at which something skipped may become possible */
  nmb__queue read, write, active, urgent; /* urgent: refreshes and precharges */
  bool writing;                           /* the write queue is being drained */
  int *held;                              /* active requests of each bank */
  int *accesses;                          /* since the row of a bank was opened */
  bool *precharging;                      /* a precharge of the bank waits in urgent */
  int hot;                                /* banks that are due for one */
  int64_t refresh_at;
  int refresh_bank;
  nmb_id rd, wr, pre;
  /* opening in two steps */
  nmb_id first, second, cas_rd, cas_wr;
  nmb__queue half;    /* between the two */
  int64_t *deadline;  /* of the second, of each bank; 0: none */
  int64_t in_step;    /* the data clock runs until then */
  nmb__queue *cas_of; /* a CAS was issued for cas_at of that queue; NULL: none */
  int cas_at;
  int64_t split, post, column_latency[2]; /* ticks */
  /* requests */
  nmb_dram_source *next;
  void *next_arg;
  nmb_dram_sink *sink;
  void *sink_arg;
  bool more; /* `head` waits to enter a queue */
  nmb_dramreq head;
  int64_t k;
  nmb_dramstats *stats;
} nmb__ctl;

/* A choice: entry i of q and the command to issue. */
typedef struct nmb__pick {
  nmb__queue *q; /* NULL: none */
  int i;
  nmb_id cmd;
  bool plain; /* the row policy must not change it */
} nmb__pick;

/* May this entry's next command be issued as far as rules go that are not timing? */
typedef bool nmb__filter(const nmb__ctl *, const nmb__req *, nmb_id cmd);

nmb__pick nmb__pick_from(nmb__ctl *, nmb__queue *, nmb__filter *);
nmb__pick nmb__pick_urgent(nmb__ctl *, nmb__filter *);
nmb__pick nmb__pick_queue(nmb__ctl *, nmb__filter *);
/* Issues the command of a choice; moves or removes its request.  Gives the command,
 * which the row policy may have changed. */
nmb_id nmb__issue(nmb__ctl *, nmb__pick);
void nmb__wake(nmb__ctl *, int64_t tick);
void nmb__queue_take(nmb__queue *, int i, nmb__req *out);
void nmb__queue_add(nmb__queue *, const nmb__req *);
/* One tick of a kind whose rows are opened in two steps. */
void nmb__split_setup(nmb__ctl *);
void nmb__split_tick(nmb__ctl *);
#endif
