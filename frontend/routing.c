/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Which experts each token reaches, drawn from a seed.
 *
 * uniform   each token draws its experts without replacement, all alike
 * zipf      the same with popularity rank^-skew; who has which rank is drawn too
 * balanced  loads differ by at most one row: the experts in turn, in a drawn order
 */
#include <math.h>
#include <string.h>

#include "base/near.h"
#include "base/run.h"
#include "frontend/model.h"

/* A random order of 0..n-1 (Fisher and Yates). */
static void
shuffle(nmb_run *rng, int n, int32_t *order)
{
  for (int i = 0; i < n; i++)
    order[i] = i;
  for (int i = n - 1; i > 0; i--) {
    const int j = (int)(nmb_rand(rng) % (uint64_t)(i + 1));
    const int32_t t = order[i];
    order[i] = order[j];
    order[j] = t;
  }
}

/* Draws topk distinct experts by their weights; cum[n] are sums of the weights in
 * the order of ranks.  A draw that repeats is made again, which is the same as
 * drawing without replacement from what is left; when few are left it would take
 * long, so after 32 misses the rest is summed. */
static int
draw_one(nmb_run *rng, int n, const double *weight, const double *cum, const bool *used)
{
  for (int tries = 0; tries < 32; tries++) {
    const double u = nmb_uniform(rng) * cum[n - 1];
    int lo = 0, hi = n - 1;
    while (lo < hi) {
      const int mid = (lo + hi) / 2;
      if (cum[mid] > u)
        hi = mid;
      else
        lo = mid + 1;
    }
    if (!used[lo])
      return lo;
  }
  double left = 0;
  int last = NMB_NONE;
  for (int i = 0; i < n; i++)
    left += used[i] ? 0 : weight[i];
  double u = nmb_uniform(rng) * left;
  for (int i = 0; i < n; i++) {
    if (used[i])
      continue;
    last = i;
    if ((u -= weight[i]) < 0)
      break;
  }
  return last;
}

static void
draw_weighted(nmb_run *run, nmb_run *rng, double skew, int experts, int topk,
              int64_t ntoken, int32_t *expert)
{
  int32_t *order = NMB_NEW(run, int32_t, experts);
  double *weight = NMB_NEW(run, double, experts), *cum = NMB_NEW(run, double, experts);
  bool *used = NMB_NEW(run, bool, experts);
  shuffle(rng, experts, order);
  for (int i = 0; i < experts; i++) {
    weight[i] = pow(i + 1, -skew);
    cum[i] = weight[i] + (i ? cum[i - 1] : 0);
  }
  for (int64_t t = 0; t < ntoken; t++) {
    int32_t *e = expert + t * topk;
    for (int j = 0; j < topk; j++) {
      e[j] = (int32_t)draw_one(rng, experts, weight, cum, used);
      used[e[j]] = true;
    }
    for (int j = 0; j < topk; j++) {
      used[e[j]] = false;
      e[j] = order[e[j]];
    }
  }
}

static void
draw_balanced(nmb_run *run, nmb_run *rng, int experts, int topk, int64_t ntoken,
              int32_t *expert)
{
  int32_t *order = NMB_NEW(run, int32_t, experts);
  shuffle(rng, experts, order);
  for (int64_t i = 0; i < ntoken * topk; i++)
    expert[i] = order[i % experts]; /* topk <= experts: distinct within a token */
}

nmb_status
nmb__routing_draw(nmb_run *run, const nmb__routing_spec *s, int experts, int topk,
                  int64_t ntoken, int32_t *expert)
{
  static const char *const kinds[] = {"uniform", "zipf", "balanced"};
  int kind = 0;
  while (kind < 3 && strcmp(kinds[kind], s->kind))
    kind++;
  if (kind == 3)
    return nmb_fail(run, NMB_BADINPUT, NMB_NOLOC,
                    "routing '%s' is not known, expected uniform, zipf or balanced%s",
                    s->kind, nmb__hint(run, s->kind, kinds, 3));
  if (kind == 1 && !(s->skew >= 0 && s->skew <= 20))
    return nmb_fail(run, NMB_BADINPUT, NMB_NOLOC, "skew of zipf is %g, expected 0 to 20",
                    s->skew);
  nmb_run *rng = nmb__run_open(NULL);
  nmb__run_seed(rng, s->seed);
  if (kind == 2)
    draw_balanced(run, rng, experts, topk, ntoken, expert);
  else
    draw_weighted(run, rng, kind == 1 ? s->skew : 0, experts, topk, ntoken, expert);
  nmb__run_close(rng);
  return NMB_OK;
}
