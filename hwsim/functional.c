/* SPDX-License-Identifier: GPL-3.0-or-later */
/* functional: the code executed on values, against the reference evaluation.  Says whether
 * the code is right and what its number formats cost; it times nothing.  Reads all;
 * writes nothing. */
#include "nmbench/nmb_sim.h"

#include <math.h>

static nmb_status
evaluate(nmb_run *run, const nmb_prog *p)
{
  nmb_sim_errors e;
  NMB_TRY(nmb_sim_values(run, p, (int)nmb_opt_int(run, "orders"),
                         nmb_opt_int(run, "weights"), &e));
  nmb_emit(run, "max_error", e.max_error);
  nmb_emit(run, "rms_error", e.rms_error);
  nmb_emit(run, "logits_max", e.logits_max);
  nmb_emit(run, "logits_rms", e.logits_rms);
  nmb_emit(run, "top1", e.top1);
  nmb_emit(run, "kl", e.kl);
  if (isnan(e.perplexity)) /* no text, or weights that mean nothing */
    return NMB_OK;
  nmb_emit(run, "perplexity", e.perplexity);
  nmb_emit(run, "perplexity_exact", e.perplexity_exact);
  return NMB_OK;
}

static const nmb_opt opts[] = {
    {"orders", "int", "", "2", "0..1000", "orders to run besides the one emitted"},
    {"weights", "size", "byte", "1GiB", "0B..", "most bytes of weights, in float"},
    {0}};

static const nmb_metric metrics[] = {
    {"max_error", "1", "less", "largest error of a tensor over its root mean square"},
    {"rms_error", "1", "less", "largest relative error of a tensor, root mean square"},
    {"logits_max", "1", "less", "largest difference of logits from those in float"},
    {"logits_rms", "1", "less", "relative error of logits, root mean square"},
    {"top1", "1", "more", "share of tokens with the same largest logit as in float"},
    {"kl", "1", "less", "divergence of the next token's distribution from that in float"},
    {"perplexity", "1", "less", "of the model's text; absent without its weights or a text"},
    {"perplexity_exact", "1", "less", "the same by the model in float"},
    {0}};

NMB_PLUGIN
{
    NMB_PLUGIN_HEAD,
    .kind = "simulator",
    .name = "functional",
    .version = "1",
    .summary = "executes the code on values and compares with the reference",
    .source = "docs/functional.md",
    .limits = "without the model's weights random ones, made-up caches, and experts as the "
              "routing table says; small models only; no times",
    .opts = opts,
    .metrics = metrics,
    .reads = NMB_ALL,
    .evaluate = evaluate,
};
