/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Generated pipelines: see the header for the designs and names. */
#include "config.h"

#include "harness/ablation.h"

#include <string.h>

#include "base/near.h"
#include "base/run.h"

#define MAXSLOT 16 /* of a factorial design: 65536 pipelines */

typedef uint32_t slots; /* a set of slots, a bit each in the order of the stages */

typedef struct plan {
  nmb_run *run;
  const nmb__slot_spec *stage;
  int nstage, nslot;
  int at[32]; /* stage of each slot */
  nmb__variants *out;
  nmb_loc loc;
} plan;

nmb_status
nmb__variant_add(nmb_run *run, nmb__variants *vs, const nmb__variant *v)
{
  for (int i = 0; i < vs->n; i++) {
    if (strcmp(vs->v[i].name, v->name))
      continue;
    if (!strcmp(vs->v[i].passes, v->passes))
      return NMB_OK;
    return nmb_fail(run, NMB_BADINPUT, v->loc, "a second pipeline with the name '%s'",
                    v->name);
  }
  if (vs->n == vs->cap) {
    vs->cap = vs->cap ? 2 * vs->cap : 16;
    nmb__variant *fresh = NMB_NEW(run, nmb__variant, vs->cap);
    if (vs->n)
      memcpy(fresh, vs->v, (size_t)vs->n * sizeof *fresh);
    vs->v = fresh;
  }
  vs->v[vs->n++] = *v;
  return NMB_OK;
}

static const char *
join(nmb_run *run, const char *a, const char *b)
{
  if (!*b)
    return a;
  return *a ? nmb_format(run, "%s,%s", a, b) : b;
}

/* The passes of set s; slot `swapped` (NMB_NONE: none) is taken by `other`. */
static const char *
passes_of(const plan *p, slots s, int swapped, const char *other)
{
  const char *text = "";
  for (int i = 0, k = 0; i < p->nstage; i++) {
    const nmb__slot_spec *st = &p->stage[i];
    const char *one = st->full;
    if (st->name) {
      one = k == swapped ? other : s >> k & 1 ? st->full : st->base;
      k++;
    }
    text = join(p->run, text, one);
  }
  return text;
}

static slots
all_slots(const plan *p)
{
  return (slots)((UINT64_C(1) << p->nslot) - 1);
}

static const char *
set_name(const plan *p, slots s)
{
  const char *name = "";
  for (int k = 0; k < p->nslot; k++)
    if (s >> k & 1)
      name = nmb_format(p->run, "%s+%s", name, p->stage[p->at[k]].name);
  return name;
}

static bool
single(slots s)
{
  return s && !(s & (s - 1));
}

/* What the set is an instance of.  With two slots, one is both an addition and a
 * removal: then the design that asks for it decides. */
static const char *
kind_of(const plan *p, slots s, const char *asked)
{
  const slots all = all_slots(p);
  if (!s)
    return "baseline";
  if (s == all)
    return "all";
  if (!strcmp(asked, "leave"))
    return asked;
  return single(s) ? "add" : single(all & ~s) ? "leave" : asked;
}

static nmb_status
add_set(plan *p, slots s, const char *asked)
{
  const slots left = all_slots(p) & ~s;
  nmb__variant v = {.ablation = kind_of(p, s, asked), .slot = "", .loc = p->loc};
  v.passes = passes_of(p, s, NMB_NONE, "");
  if (!s) {
    v.name = "base";
  } else if (!left) {
    v.name = "all";
  } else if (!strcmp(v.ablation, "leave")) {
    v.slot = set_name(p, left) + 1;
    v.name = nmb_format(p->run, "-%s", v.slot);
  } else {
    v.name = set_name(p, s);
    v.slot = single(s) ? v.name + 1 : "";
  }
  return nmb__variant_add(p->run, p->out, &v);
}

static nmb_status
baseline(plan *p)
{
  return add_set(p, 0, "baseline");
}

static nmb_status
full(plan *p)
{
  return add_set(p, all_slots(p), "all");
}

static nmb_status
add_one_in(plan *p)
{
  for (int k = 0; k < p->nslot; k++)
    NMB_TRY(add_set(p, (slots)1 << k, "add"));
  return NMB_OK;
}

static nmb_status
leave_one_out(plan *p)
{
  for (int k = 0; k < p->nslot; k++)
    NMB_TRY(add_set(p, all_slots(p) & ~((slots)1 << k), "leave"));
  return NMB_OK;
}

static nmb_status
cumulative(plan *p)
{
  for (int k = 0; k <= p->nslot; k++)
    NMB_TRY(add_set(p, (slots)((UINT64_C(1) << k) - 1), "cumulative"));
  return NMB_OK;
}

static nmb_status
factorial(plan *p)
{
  if (p->nslot > MAXSLOT)
    return nmb_fail(p->run, NMB_BADINPUT, p->loc,
                    "a factorial design of %d slots, at most %d", p->nslot, MAXSLOT);
  for (slots s = 0; s <= all_slots(p); s++)
    NMB_TRY(add_set(p, s, "factorial"));
  return NMB_OK;
}

static nmb_status
swaps(plan *p)
{
  for (int k = 0; k < p->nslot; k++) {
    const nmb__slot_spec *st = &p->stage[p->at[k]];
    for (int i = 0; i < st->nalso; i++) {
      const nmb__variant v = {
          .name = nmb_format(p->run, "%s=%s", st->name, st->also[i]),
          .ablation = "swap",
          .slot = st->name,
          .passes = passes_of(p, all_slots(p), k, st->also[i]),
          .loc = p->loc,
      };
      NMB_TRY(nmb__variant_add(p->run, p->out, &v));
    }
  }
  return NMB_OK;
}

static const struct {
  const char *name;
  nmb_status (*make)(plan *);
} design[] = {
    {"baseline", baseline}, {"add-one-in", add_one_in}, {"leave-one-out", leave_one_out},
    {"full", full},         {"cumulative", cumulative}, {"factorial", factorial},
    {"swaps", swaps},
};
#define NDESIGN ((int)(sizeof design / sizeof *design))

nmb_status
nmb__ablate(nmb_run *run, const nmb__slot_spec *stage, int nstage, const nmb__design *d,
            nmb__variants *out)
{
  plan p = {.run = run, .stage = stage, .nstage = nstage, .out = out, .loc = d->loc};
  for (int i = 0; i < nstage; i++) {
    if (!stage[i].name)
      continue;
    if (p.nslot == 32)
      return nmb_fail(run, NMB_BADINPUT, d->loc, "more than 32 slots");
    p.at[p.nslot++] = i;
  }
  const char *name[NDESIGN];
  for (int i = 0; i < NDESIGN; i++) {
    name[i] = design[i].name;
    if (!strcmp(d->name, name[i]))
      return design[i].make(&p);
  }
  return nmb_fail(run, NMB_BADINPUT, d->loc, "unknown ablation '%s'%s", d->name,
                  nmb__hint(run, d->name, name, NDESIGN));
}
