/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The buffers that a plan needs. */
#include <string.h>

#include "base/run.h"
#include "ir/lower.h"

static int64_t
round_up(int64_t bytes, int64_t align)
{
  return align > 1 ? (bytes + align - 1) / align * align : bytes;
}

typedef struct table {
  nmb_run *run;
  const nmb_prog *p;
  nmb_slot *slot;
  int n, cap;
  int *at; /* [tensor * nmem + mem], 0: none, else slot + 1 */
} table;

static void
touch(table *t, const nmb_operand *o, nmb_id step)
{
  const nmb_prog *p = t->p;
  int *at = &t->at[(size_t)o->tensor * (size_t)p->hw->nmem + (size_t)o->mem];
  const nmb_tensor *x = &p->tensor[o->tensor];
  if (!*at) {
    const int64_t align = p->hw->mem[o->mem].align;
    nmb_slot s = {.tensor = o->tensor, .mem = o->mem, .resident = nmb_tensor_resident(x),
                  .bytes = round_up(nmb_tensor_bytes(x), align), .first = step, .last = step};
    if (s.resident) {
      nmb_layout l;
      nmb_layout_of(p, o->tensor, o->mem, &l);
      s.bytes = round_up(l.bytes, align) * p->block[x->block].repeat;
      s.first = s.last = NMB_NONE;
    }
    if (t->n == t->cap) {
      nmb_slot *old = t->slot;
      t->cap = t->cap ? 2 * t->cap : 64;
      t->slot = NMB_NEW(t->run, nmb_slot, t->cap);
      if (t->n)
        memcpy(t->slot, old, (size_t)t->n * sizeof *old);
    }
    t->slot[t->n++] = s;
    *at = t->n;
  }
  nmb_slot *s = &t->slot[*at - 1];
  if (!s->resident && step > s->last)
    s->last = step;
}

nmb_status
nmb_buffers(nmb_run *run, const nmb_prog *p, nmb_slot **out, int *n)
{
  table t = {.run = run, .p = p};
  t.at = NMB_NEW(run, int, (size_t)p->ntensor * (size_t)p->hw->nmem + 1);
  for (int s = 0; s < p->nstep; s++) {
    nmb_insns list = {0};
    const nmb_kernel *k = &p->kernel[p->step[s].kernel];
    for (int i = 0; i < k->nop; i++)
      for (int j = 0; j < p->op[k->op[i]].nin; j++)
        NMB_TRY(nmb_lower_transfer(run, p, p->op[k->op[i]].in[j], &p->step[s], &list));
    NMB_TRY(nmb_lower_step(run, p, &p->step[s], NULL, NULL, 0, &list));
    for (int i = 0; i < list.n; i++)
      for (int j = 0; j < list.v[i].nopnd; j++)
        touch(&t, &list.v[i].opnd[j], s);
  }
  *out = t.slot;
  *n = t.n;
  return NMB_OK;
}
