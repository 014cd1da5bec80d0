/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Statuses, diagnostics, memory, randomness: what every part of nmbench uses.
 *
 * Ownership: everything allocated through an nmb_run lives until that run is
 * closed (host) or until the plugin call returns (plugins see a scratch arena).
 * There is no free.  Allocation never returns NULL: it aborts with a message,
 * so that callers need no error path (a sweep runs each cell in its own
 * process, which turns the abort into one row).
 */
#ifndef NMB_BASE_H
#define NMB_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define NMB_API __attribute__((visibility("default")))
#define NMB_PRINTF(f, a) __attribute__((format(printf, f, a)))
#else
#define NMB_API
#define NMB_PRINTF(f, a)
#endif

/* X(enumerator, name as stored in results, meaning) */
#define NMB_STATUS_MAP(X)                                                      \
  X(OK, "ok", "done")                                                          \
  X(UNSUPPORTED, "unsupported", "no engine or plugin implements this")         \
  X(INFEASIBLE, "infeasible", "it cannot fit")                                 \
  X(NOSOLUTION, "nosolution", "this method found no answer; another may")      \
  X(TIMEOUT, "timeout", "time or search budget used up")                       \
  X(BADINPUT, "badinput", "a file or value given by the user is wrong")        \
  X(BADOPTION, "badoption", "unknown option, or value out of range")           \
  X(UNVERIFIED, "unverified", "a section breaks the rules of the verifier")    \
  X(BADPLUGIN, "badplugin", "a plugin breaks its contract")                    \
  X(IO, "io", "a file cannot be read or written")                              \
  X(CRASH, "crash", "the worker process died")                                 \
  X(OOM, "oom", "the worker process hit its memory limit")

typedef enum nmb_status {
#define X(id, name, text) NMB_##id,
  NMB_STATUS_MAP(X)
#undef X
      NMB_NSTATUS
} nmb_status;

NMB_API const char *nmb_status_name(nmb_status);

#define NMB_TRY(expr)                                                          \
  do {                                                                         \
    nmb_status nmb_try_ = (expr);                                              \
    if (nmb_try_ != NMB_OK)                                                    \
      return nmb_try_;                                                         \
  } while (0)

typedef int32_t nmb_id; /* row of a table */
#define NMB_NONE (-1)

typedef struct nmb_loc {
  const char *file; /* (optional) NULL: no file */
  int line, col;    /* 0: unknown */
} nmb_loc;
#define NMB_NOLOC ((nmb_loc){0, 0, 0})

/* Context of one call: arena, options, seed, budget, diagnostics. */
typedef struct nmb_run nmb_run;

/* Reports `place: error: text` once and returns `status`, so that callers
 * write `return nmb_fail(...)`.  Text is lower case, holds found and expected
 * values, and has no final stop. */
NMB_API nmb_status nmb_fail(nmb_run *, nmb_status, nmb_loc, const char *fmt, ...)
    NMB_PRINTF(4, 5);
NMB_API void nmb_warn(nmb_run *, nmb_loc, const char *fmt, ...) NMB_PRINTF(3, 4);

/* The text of the last nmb_fail of this run, "" if none.  Owned by the run. */
NMB_API const char *nmb_error_text(const nmb_run *);

/* Zeroed memory for `count` items of `size` bytes, aligned for any type. */
NMB_API void *nmb_alloc(nmb_run *, size_t count, size_t size);
#define NMB_NEW(run, type, count) ((type *)nmb_alloc(run, (size_t)(count), sizeof(type)))
NMB_API char *nmb_strdup(nmb_run *, const char *);
NMB_API char *nmb_format(nmb_run *, const char *fmt, ...) NMB_PRINTF(2, 3);

/* Random numbers: the same seed gives the same sequence on every machine.
 * GSL's mt19937 underneath.  nmb_uniform: [0, 1). */
NMB_API uint64_t nmb_rand(nmb_run *);
NMB_API double nmb_uniform(nmb_run *);

/* Takes `evaluations` from the search budget; false when it is used up. A
 * budget counts evaluations, not seconds, so that results repeat. */
NMB_API bool nmb_spend(nmb_run *, uint64_t evaluations);

/* Options of the plugin being called, checked and with defaults filled in.
 * Numbers come in base units (bytes, seconds, hertz).  Asking for a name that
 * the descriptor does not list aborts: it is a bug of the plugin. */
NMB_API int64_t nmb_opt_int(const nmb_run *, const char *name);
NMB_API double nmb_opt_real(const nmb_run *, const char *name);
NMB_API bool nmb_opt_bool(const nmb_run *, const char *name);
NMB_API const char *nmb_opt_text(const nmb_run *, const char *name);

/* Metrics.  `name` must stand in the plugin's metric table.  Parts give a
 * breakdown along one or two labels, e.g. ("time", "pim", "compute").
 * b is (optional): NULL when the metric has one label only. */
NMB_API void nmb_emit(nmb_run *, const char *name, double value);
NMB_API void nmb_emit_part(nmb_run *, const char *name, const char *a,
                           const char *b, double value);

/* Statistics of a pass for --stats, e.g. nmb_stat(run, "groups fused", 12). */
NMB_API void nmb_stat(nmb_run *, const char *name, double value);

#ifdef __cplusplus
}
#endif
#endif
