/* SPDX-License-Identifier: GPL-3.0-or-later */
/* fuse-greedy: grows kernels while the estimate improves.  Reads graph; writes
 * groups.
 *
 * The grouping of Mullapudi et al., TOG 2016: of all producer-consumer pairs of
 * groups take the one whose merging gains most by the cost model, until none
 * gains.  A group costs what its best engine needs, launch included; engines are
 * not chosen yet, so transfers between them are not seen.  Gains are kept and only
 * those of the merged group are computed again: about 3 estimates a merge. */
#include <math.h>

#include "nmbench/nmb_plan.h"
#include "nmbench/nmb_plugin.h"

typedef struct greedy {
  nmb_run *run;
  const nmb_prog *p;
  nmb_grouping g;
  int max_ops;
  double *cost; /* [nop] seconds of a group on its best engine */
  double *gain; /* [nop][nop] seconds saved by merging; NaN: to be computed */
  nmb_id *op;   /* [nop] scratch */
  int estimates;
} greedy;

static nmb_status
group_seconds(greedy *s, int a, int b, double *out)
{
  const int n = nmb_grouping_ops(s->p, &s->g, a, b, s->op);
  *out = INFINITY;
  if (n > s->max_ops)
    return NMB_OK;
  s->estimates++;
  return nmb_best_seconds(s->run, s->p, s->op, n, NULL, out);
}

static nmb_status
pair_gain(greedy *s, int a, int b, double *out)
{
  double *gain = &s->gain[a * s->g.nop + b];
  if (isnan(*gain)) {
    double merged = INFINITY;
    if (nmb_grouping_acyclic(s->run, &s->g, a, b))
      NMB_TRY(group_seconds(s, a, b, &merged));
    *gain = s->cost[a] + s->cost[b] - merged;
  }
  *out = *gain;
  return NMB_OK;
}

/* The pair that gains most; ties: first in execution order. */
static nmb_status
best_pair(greedy *s, int *a, int *b, double *gain)
{
  *gain = 0;
  for (int i = 0; i < s->g.nop; i++)
    for (int j = s->g.in_first[i]; j < s->g.in_first[i + 1]; j++) {
      const int from = s->g.group[s->g.in[j]], to = s->g.group[i];
      double one = 0;
      if (from == to)
        continue;
      NMB_TRY(pair_gain(s, from, to, &one));
      if (one > *gain) {
        *gain = one;
        *a = from;
        *b = to;
      }
    }
  return NMB_OK;
}

/* Gains of pairs with the merged group change.  For other pairs a merge can only
 * close a path around them: grow looks at that again before it takes one. */
static void
forget(greedy *s, int a, int b)
{
  const int lower = a < b ? a : b, n = s->g.nop;
  for (int i = 0; i < n; i++)
    s->gain[lower * n + i] = s->gain[i * n + lower] = NAN;
}

static nmb_status
grow(greedy *s)
{
  for (;;) {
    int a = 0, b = 0;
    double gain = 0;
    NMB_TRY(best_pair(s, &a, &b, &gain));
    if (gain <= 0)
      return NMB_OK;
    if (!nmb_grouping_acyclic(s->run, &s->g, a, b)) { /* an earlier merge closed a path */
      s->gain[a * s->g.nop + b] = -INFINITY;
      continue;
    }
    const double merged = s->cost[a] + s->cost[b] - gain;
    nmb_grouping_merge(&s->g, a, b);
    s->cost[a < b ? a : b] = merged;
    forget(s, a, b);
  }
}

static nmb_status
block(nmb_run *run, nmb_prog *p, nmb_id b, int *estimates)
{
  greedy s = {.run = run, .p = p, .max_ops = (int)nmb_opt_int(run, "max-ops")};
  nmb_grouping_init(run, p, b, &s.g);
  const int n = s.g.nop;
  s.cost = NMB_NEW(run, double, n + 1);
  s.gain = NMB_NEW(run, double, n *n + 1);
  s.op = NMB_NEW(run, nmb_id, n + 1);
  for (int i = 0; i < n * n; i++)
    s.gain[i] = NAN;
  for (int i = 0; i < n; i++)
    NMB_TRY(group_seconds(&s, i, i, &s.cost[i]));
  NMB_TRY(grow(&s));
  nmb_grouping_write(run, p, &s.g);
  *estimates += s.estimates;
  return NMB_OK;
}

static nmb_status
transform(nmb_run *run, nmb_prog *p)
{
  return nmb_grouping_blocks(run, p, block);
}

static const nmb_opt opts[] = {
    {"max-ops", "int", "op", "16", "1..256", "most ops in a kernel"},
    {0},
};

NMB_PLUGIN
{
    NMB_PLUGIN_HEAD,
    .kind = "fuse",
    .name = "fuse-greedy",
    .version = "1",
    .summary = "merges the pair that gains most, until none gains",
    .source = "mullapudi2016halide",
    .limits = "greedy: a merge that pays only with a second one is not found; transfers "
              "between engines are not seen",
    .opts = opts,
    .reads = NMB_BIT(NMB_GRAPH),
    .writes = NMB_BIT(NMB_GROUPS),
    .transform = transform,
};
