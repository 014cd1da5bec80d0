/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The buffers that a plan needs: those that its instructions touch. */
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
  nmb_id step;
} table;

static nmb_slot *
slot_for(table *t, nmb_id tensor, nmb_id mem)
{
  int *at = &t->at[(size_t)tensor * (size_t)t->p->hw->nmem + (size_t)mem];
  if (!*at) {
    if (t->n == t->cap) {
      nmb_slot *old = t->slot;
      t->cap = t->cap ? 2 * t->cap : 64;
      t->slot = NMB_NEW(t->run, nmb_slot, t->cap);
      if (t->n)
        memcpy(t->slot, old, (size_t)t->n * sizeof *old);
    }
    t->slot[t->n] =
        (nmb_slot){.tensor = tensor, .mem = mem, .first = t->step, .last = t->step};
    *at = ++t->n;
  }
  return &t->slot[*at - 1];
}

/* A value that is whole on several devices has a copy on each. */
static int64_t
copies(const table *t, const nmb_insn *in, const nmb_operand *o)
{
  const nmb_prog *p = t->p;
  const int devices = p->hw->mem[o->mem].devices;
  if (devices < 2 || p->hw->mem[o->mem].local)
    return 1;
  if (in->kind == NMB_INSN_BCAST || p->tensor[o->tensor].def == NMB_NONE)
    return devices;
  return nmb__shard_of(p, NULL, o->tensor) == NMB__WHOLE ? devices : 1;
}

static nmb_status
touch(void *to, const nmb_insn *in)
{
  table *t = to;
  const nmb_prog *p = t->p;
  for (int i = 0; i < in->nopnd; i++) {
    const nmb_operand *o = &in->opnd[i];
    const nmb_tensor *x = &p->tensor[o->tensor];
    nmb_slot *s = slot_for(t, o->tensor, o->mem);
    if (nmb_tensor_resident(x)) {
      s->resident = true;
      continue;
    }
    if (t->step > s->last)
      s->last = t->step;
    int64_t bytes = o->offset + (o->rows - 1) * o->stride + o->row_bytes;
    if (!p->hw->mem[o->mem].local && bytes < nmb__storage_bytes(x))
      bytes = nmb__storage_bytes(x);
    if (bytes <= nmb__storage_bytes(x)) /* else it reaches over all copies */
      bytes *= copies(t, in, o);
    if (bytes > s->bytes)
      s->bytes = bytes;
  }
  return NMB_OK;
}

static nmb_status
touch_all(table *t, const nmb_insns *list)
{
  for (int i = 0; i < list->n; i++)
    NMB_TRY(touch(t, &list->v[i]));
  return NMB_OK;
}

static nmb_status
touch_step(table *t, nmb_id s)
{
  const nmb_prog *p = t->p;
  const nmb__work w = nmb__work_of(p, p->step[s].kernel);
  nmb_insns list = {0};
  nmb_map map;
  t->step = s;
  for (int i = 0; i < w.nop; i++)
    for (int j = 0; j < p->op[w.op[i]].nin; j++)
      NMB_TRY(nmb_lower_transfer(t->run, p, p->op[w.op[i]].in[j], &p->step[s], &list));
  if (s + 1 == p->nstep || p->kernel[p->step[s + 1].kernel].block != w.block)
    NMB_TRY(nmb_lower_handover(t->run, p, w.block, &p->step[s], &list));
  NMB_TRY(touch_all(t, &list));
  if (p->nmap > 0)
    map = p->map[p->step[s].kernel];
  else
    nmb__map_default(&w, &map);
  return nmb__walk(t->run, &w, &p->step[s], &map, NULL, 0, touch, t);
}

/* Inputs of the step and the hidden state that blocks hand on outlive their uses. */
static bool
lives_throughout(const nmb_prog *p, nmb_id tensor)
{
  const nmb_block *b = &p->block[p->tensor[tensor].block];
  return p->tensor[tensor].def == NMB_NONE ||
         (b->in != NMB_NONE && nmb_tensor_root(p, b->in) == tensor) ||
         (b->out != NMB_NONE && nmb_tensor_root(p, b->out) == tensor);
}

static void
finish(table *t)
{
  const nmb_prog *p = t->p;
  nmb_id *first = NMB_NEW(t->run, nmb_id, p->nblock),
         *last = NMB_NEW(t->run, nmb_id, p->nblock);
  for (int s = p->nstep - 1; s >= 0; s--)
    first[p->kernel[p->step[s].kernel].block] = s;
  for (int s = 0; s < p->nstep; s++)
    last[p->kernel[p->step[s].kernel].block] = s;
  for (int i = 0; i < t->n; i++) {
    nmb_slot *s = &t->slot[i];
    const nmb_id block = p->tensor[s->tensor].block;
    const int64_t align = p->hw->mem[s->mem].align;
    if (s->resident) {
      nmb_layout l;
      nmb_layout_of(p, s->tensor, s->mem, &l);
      s->bytes = round_up(l.bytes, align) * p->block[block].repeat;
      s->first = s->last = NMB_NONE;
      continue;
    }
    s->bytes = round_up(s->bytes, align);
    if (lives_throughout(p, s->tensor)) {
      s->first = first[block];
      s->last = last[block];
    }
  }
}

nmb_status
nmb_buffers(nmb_run *run, const nmb_prog *p, nmb_slot **out, int *n)
{
  table t = {.run = run, .p = p};
  t.at = NMB_NEW(run, int, (size_t)p->ntensor *(size_t)p->hw->nmem + 1);
  for (nmb_id s = 0; s < p->nstep; s++)
    NMB_TRY(touch_step(&t, s));
  finish(&t);
  *out = t.slot;
  *n = t.n;
  return NMB_OK;
}
