/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Plugins: passes, simulators and engine models.
 *
 * A plugin is a shared object with one exported function, written as
 *   NMB_PLUGIN { NMB_PLUGIN_HEAD, .kind = "fuse", .name = "fuse-mine", ... };
 * which returns a constant descriptor.  Everything in it is spelled as a user
 * would: options {"max-ops", "int", "op", "8", "1..64", "most ops in a kernel"}.
 * A plugin keeps no state between calls and changes only what it declares: the
 * host hashes every section before and after.
 */
#ifndef NMB_PLUGIN_H
#define NMB_PLUGIN_H

#include "nmbench/nmb_lower.h"

#ifdef __cplusplus
extern "C" {
#endif

#define NMB_ABI 2u

/* type: int real bool text enum size time freq bandwidth power energy ratio;
 * text values and defaults carry units ("256KiB", "10ns").  range: "lo..hi"
 * (either end may be empty), "a|b|c" for enum, "" for none. */
typedef struct nmb_opt {
  const char *name, *type, *unit, *dflt, *range, *help;
} nmb_opt;

/* unit: as in units.def ("s", "J", "1", "byte"); better: "less" "more" or "". */
typedef struct nmb_metric {
  const char *name, *unit, *better, *help;
} nmb_metric;

typedef struct nmb_plugin {
  uint32_t abi, size; /* NMB_ABI and sizeof(nmb_plugin), checked before anything else */
  const char *kind;   /* rewrite fuse dispatch map sched mem emit simulator system model */
  const char *name, *version, *summary;
  const char *source; /* keys of paper/refs.bib, or where it comes from; not empty */
  const char *limits; /* what is not modelled or not done; not empty */
  const nmb_opt *opts;       /* (optional) ends with a row whose name is NULL */
  const nmb_metric *metrics; /* (optional) likewise */
  nmb_bits reads, writes;    /* sets of NMB_BIT(section) */
  /* exactly one is set */
  nmb_status (*transform)(nmb_run *, nmb_prog *);      /* a pass */
  nmb_status (*evaluate)(nmb_run *, const nmb_prog *); /* a simulator; a system: no program */
  /* a model: in closed form at NMB_ANALYTIC; at NMB_CYCLE, which is asked only if it `steps`,
   * command by command, which the watch, if there is one, is told of */
  nmb_status (*cost)(nmb_run *, const nmb_prog *, const nmb_insn *, nmb_fidelity,
                     const nmb_watch *, nmb_cost *);
  bool steps;
} nmb_plugin;

NMB_API const nmb_plugin *nmb_plugin_entry(void);

#define NMB_PLUGIN_HEAD .abi = NMB_ABI, .size = (uint32_t)sizeof(nmb_plugin)
#define NMB_PLUGIN                                                             \
  static const nmb_plugin nmb_plugin_self;                                     \
  const nmb_plugin *nmb_plugin_entry(void) { return &nmb_plugin_self; }        \
  static const nmb_plugin nmb_plugin_self =

/* The option table `params` of a model from its list
 *   #define PARAMS(X) X(id, name, type, unit, default, range, help) ..
 * and P_id, the place of its value in nmb_engine.param. */
#define NMB_PARAM_PLACE(id, ...) P_##id,
#define NMB_PARAM_ROW(id, ...) {__VA_ARGS__},
#define NMB_PARAMS(LIST)                                                                 \
  enum { LIST(NMB_PARAM_PLACE) P_COUNT };                                                \
  static const nmb_opt params[] = {LIST(NMB_PARAM_ROW){0}}

#ifdef __cplusplus
}
#endif
#endif
