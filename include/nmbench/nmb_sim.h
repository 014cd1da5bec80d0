/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What simulators share: the cost of every instruction, and the least time that
 * a block can take. */
#ifndef NMB_SIM_H
#define NMB_SIM_H

#include "nmbench/nmb_plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The instructions of a block are the rows [*first, *end). */
NMB_API void nmb_sim_range(const nmb_prog *, nmb_id block, int *first, int *end);

/* The cost of each instruction of the program when it runs alone, in the run's
 * arena. */
NMB_API nmb_status nmb_sim_costs(nmb_run *, const nmb_prog *, nmb_cost **out);
/* The same at a fidelity; equal instructions are asked for once. */
NMB_API nmb_status nmb_sim_costs_at(nmb_run *, const nmb_prog *, nmb_fidelity,
                                    nmb_cost **out);
/* The option every simulator with a choice of fidelity should have, and its value. */
#define NMB_OPT_FIDELITY                                                                 \
  {                                                                                      \
    "fidelity", "enum", NULL, "analytic", "analytic|cycle",                              \
        "engine models in closed form, or command by command where they can"             \
  }
NMB_API nmb_fidelity nmb_sim_fidelity(const nmb_run *);
/* Likewise whether values move between memories in no time, as the published number of a
 * kernel has it, and what makes it so: costs without their part `transfer`, and those of
 * instructions of links without energy. */
#define NMB_OPT_TRANSFERS                                                                \
  {                                                                                      \
    "transfers", "bool", NULL, "true", "", "count what moving values over links takes"   \
  }
NMB_API void nmb_sim_skip_transfers(const nmb_prog *, nmb_cost *);

/* The share of its engine that an instruction occupies: channels of all channels
 * for an engine in memory, else 1.  An engine runs instructions at the same time
 * only if they occupy disjoint channels. */
NMB_API double nmb_sim_share(const nmb_prog *, const nmb_insn *);
/* Channels [*first, *first + *n) that it occupies; all if it has no place, a
 * single one for an engine that does not compute in memory. */
NMB_API void nmb_sim_channels(const nmb_prog *, const nmb_insn *, int *first, int *n);

/* Lower limits of the seconds that one run of a block takes, whatever the
 * order: the busiest engine (channel of an engine in memory), the busiest memory
 * interface, and the longest chain of waits and of values written and read. */
typedef struct nmb_bound {
  double engine, memory, chain;
} nmb_bound;
NMB_API nmb_status nmb_sim_bound(nmb_run *, const nmb_prog *, nmb_id block,
                                 const nmb_cost *cost, nmb_bound *out);

/* Executes the code on values and compares.  Where the host has the model's weights and a
 * text: a prefill of the text, compiled by the same passes, then the step at hand, with the
 * experts that routers choose.  Else on seeded random weights (the run's seed), after
 * caches and states that are made up.  Compares with the reference evaluation of the same graph: in the
 * same number formats (the worst tensor's errors; docs/functional.md), and in float
 * (logits).  Experts are those of the routing tables.  NMB_UNVERIFIED: a value is off, orders disagree, or an
 * instruction reads what nothing wrote.  NMB_UNSUPPORTED: more than `most` bytes of
 * weights in float. */
typedef struct nmb_sim_errors {
  double max_error, rms_error;    /* relative: see docs */
  double logits_max, logits_rms;  /* absolute; relative */
  double top1, kl, kl_se;         /* share of rows; nats; its standard error */
  double perplexity, perplexity_se, perplexity_exact; /* of the text, in float; NaN: none */
  double perplexity_rise, perplexity_rise_se; /* over float, as a share of it */
  int64_t predicted;              /* tokens of the text */
} nmb_sim_errors;
typedef struct nmb_sim_how {
  int orders;      /* random orders besides the one emitted */
  int64_t rounds;  /* times that the step runs, on other parts of the text */
  int64_t weights; /* most bytes of weights, in float */
} nmb_sim_how;
NMB_API nmb_status nmb_sim_values(nmb_run *, const nmb_prog *, const nmb_sim_how *,
                                  nmb_sim_errors *out);

#ifdef __cplusplus
}
#endif
#endif
