/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A hash per section, to see which ones a pass changed and to key results.
 *
 * What is hashed is what the text form says and no more: places in source files,
 * padding, capacities and the numbering of tensors and ops do not count.  Tensors
 * and ops are numbered as the text would list them, so that a program read back
 * from its text hashes like the one that was printed.
 */
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/run.h"

#define BUFFER 512

typedef struct sink {
  XXH3_state_t *state;
  nmb_id *tensor, *op; /* number in the order of the text, by id */
  int n;
  int64_t word[BUFFER];
} sink;

static void
flush(sink *s)
{
  if (XXH3_64bits_update(s->state, s->word, (size_t)s->n * sizeof *s->word) == XXH_ERROR)
    nmb__panic("hashing failed");
  s->n = 0;
}

static void
put(sink *s, int64_t v)
{
  if (s->n == BUFFER)
    flush(s);
  s->word[s->n++] = v;
}

static void
put_real(sink *s, double v)
{
  int64_t bits;
  memcpy(&bits, &v, sizeof bits);
  put(s, bits);
}

static void
put_text(sink *s, const char *text)
{
  const size_t n = text ? strlen(text) : 0;
  put(s, (int64_t)n);
  flush(s);
  if (n && XXH3_64bits_update(s->state, text, n) == XXH_ERROR)
    nmb__panic("hashing failed");
}

static void
put_tensor(sink *s, nmb_id t)
{
  put(s, t == NMB_NONE ? NMB_NONE : s->tensor[t]);
}

static void
put_op(sink *s, nmb_id o)
{
  put(s, o == NMB_NONE ? NMB_NONE : s->op[o]);
}

/* Numbers tensors and ops as the text lists them: block by block, first what is
 * declared, then what each op defines. */
static void
number(sink *s, const nmb_prog *p)
{
  const size_t nt = (size_t)p->ntensor, nb = (size_t)p->nblock;
  s->tensor = nmb__xrealloc(NULL, nt, sizeof *s->tensor);
  s->op = nmb__xrealloc(NULL, (size_t)p->nop, sizeof *s->op);
  nmb_id *next = nmb__xrealloc(NULL, nt, sizeof *next); /* declared in the same block */
  nmb_id *head = nmb__xrealloc(NULL, nb, sizeof *head);
  for (int b = 0; b < p->nblock; b++)
    head[b] = NMB_NONE;
  for (int i = p->ntensor - 1; i >= 0; i--) {
    s->tensor[i] = NMB_NONE;
    if (p->tensor[i].def == NMB_NONE) {
      next[i] = head[p->tensor[i].block];
      head[p->tensor[i].block] = i;
    }
  }
  for (int i = 0; i < p->nop; i++)
    s->op[i] = NMB_NONE;
  nmb_id nt_seen = 0, nop_seen = 0;
  for (int b = 0; b < p->nblock; b++) {
    for (nmb_id t = head[b]; t != NMB_NONE; t = next[t])
      s->tensor[t] = nt_seen++;
    for (int i = 0; i < p->block[b].nop; i++) {
      const nmb_op *o = &p->op[p->block[b].op[i]];
      s->op[p->block[b].op[i]] = nop_seen++;
      for (int j = 0; j < o->nout; j++)
        s->tensor[o->out[j]] = nt_seen++;
    }
  }
  free(next);
  free(head);
}

/* ----------------------------------------------------------------- sections */
static void
put_tensor_row(sink *s, const nmb_tensor *t)
{
  put_text(s, t->name);
  put(s, t->dtype);
  put(s, t->group);
  put(s, t->role);
  put(s, t->rank);
  for (int i = 0; i < t->rank; i++)
    put(s, t->dim[i]);
  if (t->of)
    put_tensor(s, t->of - 1);
}

static void
put_op_row(sink *s, const nmb_prog *p, const nmb_op *o)
{
  put(s, o->code);
  put(s, o->nin);
  for (int i = 0; i < o->nin; i++)
    put_tensor(s, o->in[i]);
  put(s, o->nattr);
  for (int i = 0; i < o->nattr; i++) {
    const nmb_attr *a = &o->attr[i];
    put_text(s, a->key);
    put(s, a->kind);
    switch (a->kind) {
    case NMB_ATTR_INT: put(s, a->i); break;
    case NMB_ATTR_REAL: put_real(s, a->r); break;
    case NMB_ATTR_SYM: put_text(s, a->s); break;
    }
  }
  put(s, o->nout);
  for (int i = 0; i < o->nout; i++)
    put_tensor_row(s, &p->tensor[o->out[i]]);
}

static void
put_graph(sink *s, const nmb_prog *p)
{
  put_text(s, p->model);
  put(s, p->spec.phase);
  put(s, p->spec.batch);
  put(s, p->spec.fresh);
  put(s, p->spec.context);
  for (int i = 0; i < p->nrouting; i++) {
    const nmb_routing *r = &p->routing[i];
    put_text(s, r->name);
    put(s, r->experts);
    put(s, r->topk);
    put(s, r->ntoken);
    for (int64_t j = 0; j < r->ntoken * r->topk; j++)
      put(s, r->expert[j]);
  }
  for (int b = 0; b < p->nblock; b++) {
    const nmb_block *k = &p->block[b];
    put_text(s, k->name);
    put_tensor(s, k->in);
    put_tensor(s, k->out);
    put(s, k->nop);
    for (int i = 0; i < k->nop; i++)
      put_op_row(s, p, &p->op[k->op[i]]);
  }
  for (int i = 0; i < p->ntensor; i++)
    if (p->tensor[i].def == NMB_NONE) { /* in the order of the text within a block */
      put(s, p->tensor[i].block);
      put_tensor(s, i);
      put_tensor_row(s, &p->tensor[i]);
    }
  for (int i = 0; i < p->nsegment; i++) {
    put(s, p->order[i].block);
    put(s, p->order[i].count);
  }
}

static void
put_groups(sink *s, const nmb_prog *p)
{
  for (int i = 0; i < p->nkernel; i++) {
    put(s, p->kernel[i].block);
    put(s, p->kernel[i].nop);
    for (int j = 0; j < p->kernel[i].nop; j++)
      put_op(s, p->kernel[i].op[j]);
  }
}

static void
put_mapping(sink *s, const nmb_prog *p)
{
  for (int i = 0; i < p->nmap; i++) {
    const nmb_map *m = &p->map[i];
    put(s, m->kernel);
    put(s, m->tile_b);
    put(s, m->tile_m);
    put(s, m->tile_n);
    put(s, m->reuse);
  }
  put(s, NMB_NONE);
  for (int i = 0; i < p->nlayout; i++) {
    const nmb_layout *l = &p->layout[i];
    put_tensor(s, l->tensor);
    put(s, l->mem);
    put(s, l->kind);
    put(s, l->unit_rows);
    put(s, l->channels);
    put(s, l->padded);
    put(s, l->bytes);
  }
}

static void
put_schedule(sink *s, const nmb_prog *p)
{
  for (int i = 0; i < p->nstep; i++) {
    const nmb_step *t = &p->step[i];
    put(s, t->kernel);
    put(s, t->axis);
    put(s, t->part);
    put(s, t->nparts);
    put(s, t->start_ps);
    put(s, t->duration_ps);
  }
}

static void
put_memory(sink *s, const nmb_prog *p)
{
  for (int i = 0; i < p->nslot; i++) {
    const nmb_slot *t = &p->slot[i];
    put_tensor(s, t->tensor);
    put(s, t->mem);
    put(s, t->resident);
    put(s, t->offset);
    put(s, t->bytes);
    put(s, t->first);
    put(s, t->last);
  }
}

static void
put_tile(sink *s, const nmb_tile *t)
{
  const int64_t v[] = {t->b0, t->b1, t->m0, t->m1, t->n0, t->n1, t->k0, t->k1};
  for (size_t i = 0; i < sizeof v / sizeof *v; i++)
    put(s, v[i]);
}

static void
put_insn(sink *s, const nmb_insn *n)
{
  const nmb_place *l = &n->place;
  const int64_t v[] = {n->kind,    n->engine,        n->block,    n->step,
                       n->first,   l->channel0,      l->nchannel, l->banks,
                       l->vectors, l->rows_per_bank, l->pages,    l->bursts,
                       l->opens,   l->reuse,         n->nopnd,    n->nwait};
  for (size_t i = 0; i < sizeof v / sizeof *v; i++)
    put(s, v[i]);
  put_op(s, n->op);
  put_tile(s, &n->tile);
  for (int i = 0; i < n->nopnd; i++) {
    const nmb_operand *o = &n->opnd[i];
    put_tensor(s, o->tensor);
    const int64_t w[] = {o->mem,  o->slot,      o->write, o->offset,
                         o->rows, o->row_bytes, o->stride};
    for (size_t j = 0; j < sizeof w / sizeof *w; j++)
      put(s, w[j]);
  }
  for (int i = 0; i < n->nwait; i++)
    put(s, n->wait[i]);
}

static void
put_section(sink *s, const nmb_prog *p, nmb_section section)
{
  switch (section) {
  case NMB_GRAPH: put_graph(s, p); break;
  case NMB_GROUPS: put_groups(s, p); break;
  case NMB_DISPATCH:
    for (int i = 0; i < p->nkernel; i++)
      put(s, p->kernel[i].engine);
    break;
  case NMB_MAPPING: put_mapping(s, p); break;
  case NMB_SCHEDULE: put_schedule(s, p); break;
  case NMB_MEMORY: put_memory(s, p); break;
  case NMB_CODE:
    for (int i = 0; i < p->ninsn; i++)
      put_insn(s, &p->insn[i]);
    break;
  case NMB_NSECTION: break;
  }
}

/* An absent section hashes to 0, whatever its tables hold. */
uint64_t
nmb_prog_hash(const nmb_prog *p, nmb_section section)
{
  if (!(p->present & NMB_BIT(section)))
    return 0;
  sink s = {.state = XXH3_createState()};
  if (!s.state ||
      XXH3_64bits_reset_withSeed(s.state, (XXH64_hash_t)section + 1) == XXH_ERROR)
    nmb__panic("hashing failed");
  number(&s, p);
  put_section(&s, p, section);
  flush(&s);
  const uint64_t hash = XXH3_64bits_digest(s.state);
  XXH3_freeState(s.state);
  free(s.tensor);
  free(s.op);
  return hash;
}
