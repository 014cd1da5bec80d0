/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The host's side of nmb_run: who opens it, and what it has gathered. */
#ifndef NMB__RUN_H
#define NMB__RUN_H

#include <stdio.h>

#include "base/memo.h"
#include "nmbench/nmb_plugin.h"

/* A value given to nmb_emit or nmb_stat; a, b NULL where there is no label. */
typedef struct nmb__value {
  const char *name, *a, *b;
  double value;
} nmb__value;

typedef struct nmb__values {
  int n, cap;
  nmb__value *v;
} nmb__values;

/* An option's value in base units: number for all but text and enum. */
typedef struct nmb__optval {
  const char *name;
  double number;
  int64_t integer;
  const char *text; /* as written, for printing; the value of text and enum */
} nmb__optval;

/* log: where diagnostics go; NULL: kept as error text only. */
NMB_API nmb_run *nmb__run_open(FILE *log);
NMB_API void nmb__run_close(nmb_run *);
NMB_API void nmb__run_seed(nmb_run *, uint64_t seed);
NMB_API uint64_t nmb__run_seed_get(const nmb_run *);
/* Are keys of model files that are not understood a warning instead of an error? */
NMB_API void nmb__run_lenient(nmb_run *, bool);
NMB_API bool nmb__run_is_lenient(const nmb_run *);
NMB_API void nmb__run_budget(nmb_run *, uint64_t evaluations);
NMB_API uint64_t nmb__run_spent(const nmb_run *);
/* The plugin being called and its options (borrowed); NULL, NULL, 0 after. */
NMB_API void nmb__run_plugin(nmb_run *, const nmb_plugin *, const nmb__optval *, int n);
/* Values outlive scratch; they stay until nmb__run_clear. */
NMB_API const nmb__values *nmb__run_metrics(const nmb_run *);
NMB_API const nmb__values *nmb__run_stats(const nmb_run *);
NMB_API void nmb__run_clear(nmb_run *); /* metrics, stats and error text */
NMB_API size_t nmb__run_bytes(const nmb_run *); /* arena in use */
/* Scratch: everything allocated after the mark is released. */
NMB_API size_t nmb__run_mark(nmb_run *);
NMB_API void nmb__run_release(nmb_run *, size_t mark);

/* The model whose steps the programs are, if its weights are at hand (ir/values.h);
 * borrowed; NULL: none. */
NMB_API void nmb__run_subject_set(nmb_run *, const void *);
NMB_API const void *nmb__run_subject(const nmb_run *);

/* A table of costs of instructions that other processes share (base/memo.h), and the hash
 * of all that costs depend on besides the instruction: machine and models.  Borrowed;
 * NULL: none. */
NMB_API void nmb__run_memo_set(nmb_run *, nmb__memo *, uint64_t machine);
NMB_API nmb__memo *nmb__run_memo(const nmb_run *, uint64_t *machine);

/* A place for things that are found once a run and then only looked up, such as tables
 * of files: gives the address of the head of a list of that kind, and in *own the arena
 * that its items live in.  They stay until the run is closed. */
typedef enum nmb__keep { NMB__KEEP_DRAM, NMB__KEEP_ATTACC, NMB__NKEEP } nmb__keep;
NMB_API void **nmb__run_keep(nmb_run *, nmb__keep, nmb_run **own);

/* Aborts with a message: for our own bugs and for memory that ran out. */
NMB_API void nmb__panic(const char *fmt, ...) NMB_PRINTF(1, 2);
NMB_API void *nmb__xrealloc(void *, size_t count, size_t size);
#endif
