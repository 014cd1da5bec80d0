/* SPDX-License-Identifier: GPL-3.0-or-later */
/* DRAM channels, command by command.
 *
 * A kind of DRAM (organisation, commands, timing values, constraint rows) is data: a
 * file of the dram folder, docs/dram.md.  A channel is the state of one channel of a
 * kind.  Engine models drive it with nmb_dramch_step and nmb_dramch_burst, which issue
 * commands in order, each at its earliest legal tick, and put in what is needed before
 * it: mode switches, precharges, activates, refreshes.  nmb_dramctl_run is a memory
 * controller with queues for reads and writes of a host.
 *
 * Time is in ticks: one clock of the command bus (nCK), or half of one where a kind
 * says so (HBM3).  The first tick is 1.  A bank is a number in [0, banks): its levels
 * are, outermost first, rank or pseudo-channel, stack (sid), bank group, bank.
 *
 * Everything is allocated in the nmb_run and lives as long as that; kinds are read once
 * a run.  Nothing here keeps state anywhere else. */
#ifndef NMB_DRAM_H
#define NMB_DRAM_H

#include "nmbench/nmb_base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nmb_dram nmb_dram;     /* a kind, compiled; constant */
typedef struct nmb_dramch nmb_dramch; /* the state of one channel */

/* Parts of a channel, outermost first.  A scope of a command, a place of a row. */
typedef enum nmb_dram_level {
  NMB_DRAM_CHANNEL,
  NMB_DRAM_RANK, /* or pseudo-channel */
  NMB_DRAM_SID,
  NMB_DRAM_GROUP,
  NMB_DRAM_BANK,
  NMB_DRAM_NLEVEL
} nmb_dram_level;

/* What a command does with the banks it addresses; a set. */
enum {
  NMB_DRAM_OPENS = 1,    /* opens a row */
  NMB_DRAM_BEGINS = 2,   /* first half of opening a row (LPDDR5's ACT1) */
  NMB_DRAM_CLOSES = 4,   /* closes the row */
  NMB_DRAM_READS = 8,    /* column access: data go to the interface */
  NMB_DRAM_WRITES = 16,  /* column access: data come from the interface */
  NMB_DRAM_WORKS = 32,   /* column access that stays inside (a MAC of a bank) */
  NMB_DRAM_REFRESHES = 64,
  NMB_DRAM_SWITCHES = 128, /* the mode of the channel */
  NMB_DRAM_COLUMN = NMB_DRAM_READS | NMB_DRAM_WRITES | NMB_DRAM_WORKS
};

typedef struct nmb_dram_cmd {
  const char *name;
  unsigned does;
  nmb_dram_level scope; /* the part that it addresses */
  nmb_dram_level inner; /* of that part, all parts down to this level; below it, one */
  int bus;              /* command bus: 0, or 0 row and 1 column where there are two */
  int ticks;            /* that it occupies the bus */
  int buffer;           /* row buffer: 0, or 1 of dual row buffers */
  int mode;             /* it needs (or switches to); NMB_NONE: any */
  bool rise;            /* only at odd ticks, the rising edges of half ticks */
} nmb_dram_cmd;

typedef struct nmb_dram_info {
  const char *name, *family, *org, *source;
  double tick_ps;
  int ticks_per_ck;
  int count[NMB_DRAM_NLEVEL];              /* parts in the part above; channel: 1 */
  const char *level_name[NMB_DRAM_NLEVEL]; /* NULL: this kind has no such level */
  int banks;                               /* in the channel */
  int64_t rows, columns; /* of a bank; of a row, in transactions */
  int tx_bytes;          /* a transaction: one column command */
  int modes, buffers;
  int read_latency; /* ticks: column command to the last of its data */
  int burst;        /* ticks of data on the interface */
  int ncmd;
  const nmb_dram_cmd *cmd;
} nmb_dram_info;

/* The kind of that name.  set (optional): "org=DDR4_16Gb_x8,nRCD=20", timing values
 * in clocks.  NMB_BADINPUT or NMB_BADOPTION with the nearest name. */
NMB_API nmb_status nmb_dram_open(nmb_run *, const char *kind, const char *set,
                                 const nmb_dram **out);
NMB_API const nmb_dram_info *nmb_dram_get(const nmb_dram *);
/* NMB_NONE if the kind has no such command. */
NMB_API nmb_id nmb_dram_command(const nmb_dram *, const char *name);
/* A timing value ("nRCD") in clocks; false if the kind has none of that name. */
NMB_API bool nmb_dram_value(const nmb_dram *, const char *name, int64_t *clocks);
/* The bank number of (rank, sid, group, bank), each within its count. */
NMB_API int nmb_dram_bank(const nmb_dram *, int rank, int sid, int group, int bank);
/* Names of all kinds in the files found, sorted. */
NMB_API nmb_status nmb_dram_list(nmb_run *, const char ***names, int *n);

/* ------------------------------------------------------------------ a channel */
typedef enum nmb_dram_refresh {
  NMB_DRAM_NOREFRESH,
  NMB_DRAM_ALLBANK, /* one REFab per rank (pseudo-channel, channel) every nREFI */
  NMB_DRAM_PERBANK  /* one REFpb, bank after bank, every nREFIpb */
} nmb_dram_refresh;

/* Refreshes fall due at nREFI, 2 nREFI, ..  NMB_UNSUPPORTED if the kind has no
 * command or interval for it. */
NMB_API nmb_status nmb_dramch_new(nmb_run *, const nmb_dram *, nmb_dram_refresh,
                                  nmb_dramch **out);
/* Back to tick 0, all rows closed, mode 0, nothing counted. */
NMB_API void nmb_dramch_reset(nmb_dramch *);

/* Called for every command, in order of ticks.  row is -1 where none is addressed. */
typedef void nmb_dram_hook(void *arg, int64_t tick, nmb_id cmd, int bank, int64_t row);
NMB_API void nmb_dramch_watch(nmb_dramch *, nmb_dram_hook *, void *arg);

/* The command that must be issued before `cmd` may be: a mode switch, a precharge, an
 * activate; `cmd` itself if none.  bank: any bank of the part that cmd addresses. */
NMB_API nmb_id nmb_dramch_next(const nmb_dramch *, nmb_id cmd, int bank, int64_t row);
/* The first tick (>= at) at which the table and the bus allow `cmd`; states and
 * refreshes are not considered. */
NMB_API int64_t nmb_dramch_ready(const nmb_dramch *, nmb_id cmd, int bank, int64_t at);
/* Issues at exactly that tick, at which it must be ready. */
NMB_API void nmb_dramch_issue(nmb_dramch *, nmb_id cmd, int bank, int64_t row,
                              int64_t tick);

/* Issues `cmd` as early as it may be, not before `at`, after all that it needs and
 * after all refreshes that are due by then.  Gives the tick of `cmd`; -1 if it needs a
 * row that no command of its scope opens (the caller opens it piece by piece). */
NMB_API int64_t nmb_dramch_step(nmb_dramch *, nmb_id cmd, int bank, int64_t row,
                                int64_t at);
/* n times nmb_dramch_step, in closed form where the gap is constant.  Gives the tick
 * of the last one. */
NMB_API int64_t nmb_dramch_burst(nmb_dramch *, nmb_id cmd, int bank, int64_t row,
                                 int64_t n, int64_t at);
/* The gap at which equal commands to one bank follow each other, in ticks; -1 if it is
 * not constant. */
NMB_API int64_t nmb_dramch_gap(const nmb_dramch *, nmb_id cmd);

NMB_API int64_t nmb_dramch_now(const nmb_dramch *);              /* last issue */
NMB_API int64_t nmb_dramch_count(const nmb_dramch *, nmb_id cmd); /* issued so far */
NMB_API int64_t nmb_dramch_row(const nmb_dramch *, int buffer, int bank); /* -1: closed */
NMB_API int nmb_dramch_mode(const nmb_dramch *);
/* Ticks by which nmb_dramch_step and _burst came later because of refreshes. */
NMB_API int64_t nmb_dramch_refresh_stall(const nmb_dramch *);

/* --------------------------------------------------------- reads and writes of a host */
typedef struct nmb_dramreq {
  int64_t at; /* first tick at which it may be scheduled; requests come in order */
  bool write;
  int bank;
  int64_t row, column; /* column: in transactions */
} nmb_dramreq;

/* A memory controller.  docs/dram.md tells its rules.  Zeros are the defaults but for
 * the queues: use NMB_DRAMCTL_DEFAULT. */
typedef struct nmb_dramctl {
  nmb_dram_refresh refresh;
  int cap;           /* rows are closed after that many column accesses; 0: left open */
  int reads, writes; /* entries of the queues */
  int low, high;     /* writes are drained from more than high to fewer than low, in
                      * percent of the entries */
  bool in_order;     /* first come, first served; else first ready first */
  bool count_once;   /* see "A request whose row is closed under it" in docs/dram.md */
  int64_t columns;   /* stop after that many column commands; 0: when all is done */
} nmb_dramctl;
#define NMB_DRAMCTL_DEFAULT                                                              \
  {                                                                                      \
    NMB_DRAM_NOREFRESH, 0, 32, 32, 20, 80, false, false, 0                               \
  }

/* Request number k = 0, 1, ..; false: there are no more. */
typedef bool nmb_dram_source(void *arg, int64_t k, nmb_dramreq *out);
/* Request k is done: its column command was issued at `issued` (-1: a write that a later
 * one replaced, or a read that a queued write answered), its data were there at `done`. */
typedef void nmb_dram_sink(void *arg, int64_t k, int64_t issued, int64_t done);

typedef struct nmb_dramstats {
  int64_t columns, last_column; /* column commands, and the tick of the last */
  int64_t end;                  /* tick at which the last data were there */
  int64_t reads, writes;        /* requests served */
  int64_t forwarded, merged;    /* reads answered, writes replaced in the write queue */
  int64_t latency;              /* sum over reads: done - arrival, in ticks */
  int64_t hits, misses, conflicts; /* rows open, closed, other: at the first command */
} nmb_dramstats;

/* Runs all requests of `next` through a fresh controller of one channel.  hook, sink:
 * (optional).  NMB_UNSUPPORTED as nmb_dramch_new; NMB_BADINPUT if a request is outside
 * of the channel. */
NMB_API nmb_status nmb_dramctl_run(nmb_run *, const nmb_dram *, const nmb_dramctl *,
                                   nmb_dram_source *next, void *next_arg,
                                   nmb_dram_sink *sink, void *sink_arg,
                                   nmb_dram_hook *hook, void *hook_arg,
                                   nmb_dramstats *out);

/* The microbenchmarks that docs/dram.md defines, without end: seq_bgi, seq_row, random,
 * same_bank, bank_rr, rw_mix.  nmb_dram_bench_next is the source, with the struct as its
 * argument. */
typedef struct nmb_dram_bench {
  const nmb_dram_info *info;
  int workload;
  uint64_t x;
} nmb_dram_bench;
NMB_API nmb_status nmb_dram_bench_start(nmb_run *, const nmb_dram *, const char *workload,
                                        nmb_dram_bench *out);
NMB_API bool nmb_dram_bench_next(void *bench, int64_t k, nmb_dramreq *out);

/* Requests of a text in the forms of Ramulator's traces (docs/dram.md), NMB_BADINPUT with
 * the line.  nmb_dram_trace_next is the source, with the struct as its argument. */
typedef struct nmb_dram_trace {
  int64_t n, wrapped; /* wrapped: addresses beyond the channel, taken modulo its size */
  nmb_dramreq *v;
} nmb_dram_trace;
NMB_API nmb_status nmb_dram_trace_parse(nmb_run *, const nmb_dram *, const char *file,
                                        const char *text, size_t len, nmb_dram_trace *out);
/* Does the text begin like such a trace? */
NMB_API bool nmb_dram_trace_looks(const char *text, size_t len);
NMB_API bool nmb_dram_trace_next(void *trace, int64_t k, nmb_dramreq *out);

#ifdef __cplusplus
}
#endif
#endif
