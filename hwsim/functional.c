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
  const nmb_sim_how how = {.orders = (int)nmb_opt_int(run, "orders"),
                           .rounds = nmb_opt_int(run, "rounds"),
                           .weights = nmb_opt_int(run, "weights")};
  NMB_TRY(nmb_sim_values(run, p, &how, &e));
  nmb_emit(run, "max_error", e.max_error);
  nmb_emit(run, "rms_error", e.rms_error);
  nmb_emit(run, "logits_max", e.logits_max);
  nmb_emit(run, "logits_rms", e.logits_rms);
  nmb_emit(run, "top1", e.top1);
  nmb_emit(run, "kl", e.kl);
  nmb_emit(run, "kl_se", e.kl_se);
  if (isnan(e.perplexity)) /* no text, or weights that mean nothing */
    return NMB_OK;
  nmb_emit(run, "perplexity", e.perplexity);
  nmb_emit(run, "perplexity_se", e.perplexity_se);
  nmb_emit(run, "perplexity_exact", e.perplexity_exact);
  nmb_emit(run, "perplexity_rise", e.perplexity_rise);
  nmb_emit(run, "perplexity_rise_se", e.perplexity_rise_se);
  nmb_emit(run, "predicted", (double)e.predicted);
  return NMB_OK;
}

static const nmb_opt opts[] = {
    {"orders", "int", "", "2", "0..1000", "orders to run besides the one emitted"},
    {"rounds", "int", "", "1", "1..100000", "times that the step runs, each on other parts of the text"},
    {"weights", "size", "byte", "1GiB", "0B..", "most bytes of weights, in float"},
    {0}};

static const nmb_metric metrics[] = {
    {"max_error", "1", "less", "largest error of a tensor over its root mean square"},
    {"rms_error", "1", "less", "largest relative error of a tensor, root mean square"},
    {"logits_max", "1", "less", "largest difference of logits from those in float"},
    {"logits_rms", "1", "less", "relative error of logits, root mean square"},
    {"top1", "1", "more", "share of tokens with the same largest logit as in float"},
    {"kl", "1", "less", "divergence of the next token's distribution from that in float"},
    {"kl_se", "1", "less", "standard error of kl, over tokens"},
    {"perplexity", "1", "less", "of the model's text; absent without its weights or a text"},
    {"perplexity_se", "1", "less", "its standard error, over tokens"},
    {"perplexity_exact", "1", "less", "the same by the model in float"},
    {"perplexity_rise", "1", "less", "of the perplexity over that in float, as a share of it"},
    {"perplexity_rise_se", "1", "less", "its standard error, of differences token by token"},
    {"predicted", "1", "more", "tokens of the text that the perplexity is of"},
    {0}};

NMB_PLUGIN
{
    NMB_PLUGIN_HEAD,
    .kind = "simulator",
    .name = "functional",
    .version = "2",
    .summary = "executes the code on values and compares with the reference",
    .source = "docs/functional.md",
    .limits = "without the model's weights random ones, made-up caches, and experts as the "
              "routing table says; small models only; no times",
    .opts = opts,
    .metrics = metrics,
    .reads = NMB_ALL,
    .evaluate = evaluate,
};
