/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Conservation: what the emitted code does is what the model asks for.
 *
 * The work is counted twice by parts that share nothing but the formats: from the
 * file by arithmetic (counts.c), and from the instructions (ir/census.c). */
#include "frontend/counts.h"

#include "base/run.h"
#include "ir/census.h"

typedef struct quantity {
  const char *name;
  double asked, done;
  double slack; /* share by which more may be done */
} quantity;

static nmb_status
check(nmb_run *run, const nmb__arch *a, const quantity *q)
{
  if (q->done >= q->asked && q->done <= q->asked * (1 + q->slack))
    return NMB_OK;
  return nmb_fail(run, NMB_UNVERIFIED, NMB_NOLOC,
                  "the code for %s does %.17g %s, but the model asks for %.17g", a->name,
                  q->done, q->name, q->asked);
}

/* A scale that a row shares with the next is read with both: where formats have
 * scales, the code may touch a little more than all of them once. */
static bool
has_scales(const nmb_prog *p, nmb_role role)
{
  for (int i = 0; i < p->ntensor; i++)
    if (p->tensor[i].role == role && nmb_dtype_get(p->tensor[i].dtype)->scale_bits)
      return true;
  return false;
}

nmb_status
nmb__conserve(nmb_run *run, const nmb__arch *a, const nmb_prog *p)
{
  const size_t mark = nmb__run_mark(run);
  nmb__counts want;
  nmb__census have;
  nmb__arch_counts(run, a, p, &want);
  nmb__code_census(run, p, &have);
  const double ws = has_scales(p, NMB_ROLE_WEIGHT) ? 0.01 : 0;
  const double ks = has_scales(p, NMB_ROLE_KV) ? 0.05 : 0;
  const quantity all[] = {
      {"multiply-accumulates", want.macs, have.macs, 0},
      {"bytes of weights touched", (double)want.weight_bytes_touched,
       have.weight_bytes_once, ws},
      {"bytes of caches read", (double)want.kv_bytes_read, have.kv_bytes_read_once, ks},
      {"bytes of caches written", (double)want.kv_bytes_written,
       have.kv_bytes_written_once, ks},
      {"bytes of states read", (double)want.state_bytes, have.state_bytes_read_once, 0},
      {"bytes of states written", (double)want.state_bytes,
       have.state_bytes_written_once, 0},
  };
  nmb_status s = NMB_OK;
  for (size_t i = 0; s == NMB_OK && i < sizeof all / sizeof *all; i++)
    s = check(run, a, &all[i]);
  nmb__run_release(run, mark);
  return s;
}
