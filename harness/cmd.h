/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The command line: every command is one table row, from which checking,
 * --help, the man page and bash completion all come.
 *
 * To add a command: define a `const nmb__command nmb__cmd_NAME` in
 * harness/cmd_NAME.c, declare it below, list it in harness/main.c.
 * Facts go to stdout, messages to stderr, never both to one. */
#ifndef NMB__CMD_H
#define NMB__CMD_H

#include <jansson.h>

#include "base/run.h"

typedef struct nmb__cli nmb__cli;

/* An option.  type: a unit type of base/units.h ("int", "real", "time", "size",
 * ..), "a|b|c" for a choice, else what the value names, for completion: "text",
 * "file", "folder", "model", "machine", "pass", "simulator".  Values of unit
 * types and choices are checked before the command is called. */
typedef struct nmb__flag {
  const char *name;
  char key;         /* short option; 0: none */
  const char *arg;  /* what --help calls the value; NULL: a switch */
  const char *type; /* NULL for a switch */
  const char *dflt; /* (optional) NULL: no value unless given */
  const char *help;
} nmb__flag;

typedef struct nmb__command {
  const char *name;
  const char *args;        /* as --help shows them: "FILE.cfg", "[KIND]", "" */
  const char *arg_type;    /* as nmb__flag.type */
  int min, max;            /* number of arguments; max < 0: any */
  const char *summary;     /* one line */
  const char *help;        /* paragraphs, separated by empty lines */
  const char *example;     /* one per line */
  const nmb__flag *flags;  /* ends with a row whose name is NULL */
  /* (optional) What --json prints, as one new object, so that other commands (validate)
   * can ask this one; main calls it too.  *out stays NULL unless NMB_OK. */
  nmb_status (*facts)(nmb__cli *, json_t **out);
  int (*main)(nmb__cli *); /* gives the exit code */
} nmb__command;

struct nmb__cli {
  nmb_run *run; /* diagnostics go to stderr */
  const nmb__command *cmd;
  int narg;
  const char *const *arg;
  int nset; /* options as given, in order */
  const struct nmb__set {
    const nmb__flag *flag;
    const char *value;
  } * set;
};

/* For a command that failed: the exit code, and with --json what went wrong as an object
 * with "status" and "error", so that standard output is JSON in any case. */
int nmb__cli_failed(nmb__cli *, nmb_status);
/* Token ids "1,403,407" (also with spaces or in brackets; "-": standard input) of an
 * option, at least one; *ids has room for `room` more. */
nmb_status nmb__cli_ids(nmb__cli *, const char *flag, int64_t room, int32_t **ids,
                        int64_t *n);

/* The last value given, else the default, else NULL. */
const char *nmb__cli_text(const nmb__cli *, const char *flag);
bool nmb__cli_flag(const nmb__cli *, const char *flag); /* switches: given? */
bool nmb__cli_given(const nmb__cli *, const char *flag);
int64_t nmb__cli_int(const nmb__cli *, const char *flag); /* 0 if it has no value */
double nmb__cli_real(const nmb__cli *, const char *flag); /* base units */
int nmb__cli_count(const nmb__cli *, const char *flag);   /* times it was given */
const char *nmb__cli_nth(const nmb__cli *, const char *flag, int i);

/* Exit codes. */
enum {
  NMB__EXIT_OK = 0,
  NMB__EXIT_CHECK = 1,    /* a check failed, or there is no plan (an outcome) */
  NMB__EXIT_USAGE = 2,    /* usage, configuration, unreadable input: nothing run */
  NMB__EXIT_CELLS = 3,    /* the run finished, some cells failed */
  NMB__EXIT_COMPARE = 4,  /* cannot compare */
  NMB__EXIT_INTERNAL = 5, /* our own bug: main maps SIGABRT to it; workers reset that */
  NMB__EXIT_OUTPUT = 6,   /* the output cannot be written; what was done is kept */
  NMB__EXIT_INT = 130
};
int nmb__exit_code(nmb_status);
/* "nmbench COMMAND: error: text" and where to find help; gives NMB__EXIT_USAGE. */
int nmb__cli_usage(const nmb__cli *, const char *fmt, ...) NMB_PRINTF(2, 3);
/* Prints and frees; gives NMB__EXIT_OK. */
int nmb__cli_json(json_t *);
/* A real as JSON: null for NaN. */
json_t *nmb__json_real(double);

#define NMB__FLAG_JSON                                                                   \
  {                                                                                      \
    "json", 0, NULL, NULL, NULL, "print the facts as JSON"                               \
  }

/* Commands. */
extern const nmb__command nmb__cmd_list, nmb__cmd_model, nmb__cmd_show, nmb__cmd_compile, nmb__cmd_sim, nmb__cmd_verify;
extern const nmb__command nmb__cmd_plan, nmb__cmd_run, nmb__cmd_status, nmb__cmd_log;
extern const nmb__command nmb__cmd_compare, nmb__cmd_export;
extern const nmb__command nmb__cmd_systolic, nmb__cmd_dram, nmb__cmd_validate;
extern const nmb__command nmb__cmd_system;
extern const nmb__command nmb__cmd_collective;
extern const nmb__command nmb__cmd_logits, nmb__cmd_generate, nmb__cmd_perplexity;
extern const nmb__command nmb__cmd_macro;
extern const nmb__command nmb__cmd_plot, nmb__cmd_op;

/* All of one cell's columns, with those that depend on the host or without. */
struct nmb__store;
json_t *nmb__cell_json(const struct nmb__store *, int cell, bool host);

/* Runs "NAME{..},.." and prints each metric, or with --json appends it to rows. */
nmb_status nmb__sim_list(nmb__cli *, const nmb_prog *, const char *list, FILE *, json_t *rows);

/* Reads --machine and --pipeline of a command that has them; with a machine the model
 * runs compiled.  *hw stays NULL without one; the caller frees it. */
struct nmb__infer;
struct nmb__pipeline;
struct nmb__wmodel;
/* Warns if n tokens are more than the model is made for. */
void nmb__cli_beyond(nmb__cli *, const struct nmb__wmodel *, int64_t n);
nmb_status nmb__cli_compiled(nmb__cli *, struct nmb__infer *, struct nmb_hw **hw,
                             struct nmb__pipeline *);
extern const char nmb__plain_pipeline[];

/* The table, for the man page and completion. */
typedef struct nmb__commands {
  int n;
  const nmb__command *const *v;
} nmb__commands;
nmb__commands nmb__commands_all(void);
void nmb__help_print(FILE *, const nmb__command *); /* NULL: of the program */
void nmb__man_print(FILE *);
void nmb__completion_print(FILE *);
/* Parses argv (after the command's name); <0: go on and call main, else exit code. */
int nmb__cli_parse(nmb__cli *, int argc, char **argv);
#endif
