/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The program's tables: adding, erasing, compacting, copying. */
#include <stdlib.h>
#include <string.h>

#include "base/run.h"
#include "ir/prog.h"

/* ------------------------------------------------------------------ strings */
/* Strings are interned in one list per program: few are distinct. */
const char *
nmb__prog_string(nmb_prog *p, const char *s)
{
  nmb__prog *q = (nmb__prog *)p;
  if (!s)
    return NULL;
  if (q->nstring) {
    const char **hit = NULL;
    size_t lo = 0, hi = (size_t)q->nstring;
    while (lo < hi) {
      const size_t mid = (lo + hi) / 2;
      const int c = strcmp(s, q->string[mid]);
      if (c == 0) {
        hit = &q->string[mid];
        break;
      }
      if (c < 0)
        hi = mid;
      else
        lo = mid + 1;
    }
    if (hit)
      return *hit;
  }
  int at = q->nstring;
  while (at > 0 && strcmp(q->string[at - 1], s) > 0)
    at--;
  if (q->nstring == q->cstring) {
    q->cstring = q->cstring ? 2 * q->cstring : 64;
    q->string = nmb__xrealloc(q->string, (size_t)q->cstring, sizeof *q->string);
  }
  memmove(q->string + at + 1, q->string + at,
          (size_t)(q->nstring - at) * sizeof *q->string);
  const size_t n = strlen(s) + 1;
  q->string[at] = memcpy(nmb__xrealloc(NULL, n, 1), s, n);
  q->nstring++;
  return q->string[at];
}

/* ------------------------------------------------------------------- tables */
/* Makes room for one more row; rows double. */
static void *
grow(const void *table, int n, int *cap, size_t size)
{
  if (n < *cap)
    return (void *)(uintptr_t)table;
  *cap = *cap ? 2 * *cap : 16;
  return nmb__xrealloc((void *)(uintptr_t)table, (size_t)*cap, size);
}
/* Appends `row` to table `name` of program p and gives its id. */
#define APPEND(p, name, row)                                                   \
  ((p)->name = grow((p)->name, (p)->n##name, &((nmb__prog *)(p))->c##name,     \
                    sizeof *(p)->name),                                        \
   ((void *)memcpy((void *)(uintptr_t)&(p)->name[(p)->n##name], (row),         \
                   sizeof *(p)->name)),                                        \
   (nmb_id)(p)->n##name++)
/* The row, for writing. */
#define ROW(type, p, name, id) ((type *)(uintptr_t)&(p)->name[id])

nmb_prog *
nmb_prog_new(const char *model, nmb_step_spec spec)
{
  nmb__prog *q = nmb__xrealloc(NULL, 1, sizeof *q);
  memset(q, 0, sizeof *q);
  q->p.model = nmb__prog_string(&q->p, model);
  q->p.spec = spec;
  q->p.present = NMB_BIT(NMB_GRAPH);
  return &q->p;
}

static void
insns_clear(nmb_prog *p)
{
  for (int i = 0; i < p->ninsn; i++)
    free((void *)(uintptr_t)p->insn[i].wait);
  p->ninsn = 0;
}

static void
kernels_clear(nmb_prog *p)
{
  for (int i = 0; i < p->nkernel; i++)
    free((void *)(uintptr_t)p->kernel[i].op);
  p->nkernel = 0;
}

void
nmb_prog_free(nmb_prog *p)
{
  if (!p)
    return;
  nmb__prog *q = (nmb__prog *)p;
  insns_clear(p);
  kernels_clear(p);
  for (int i = 0; i < p->nblock; i++)
    free((void *)(uintptr_t)p->block[i].op);
  for (int i = 0; i < p->nrouting; i++) {
    free((void *)(uintptr_t)p->routing[i].expert);
    free((void *)(uintptr_t)p->routing[i].load);
  }
#define FREE(name) free((void *)(uintptr_t)p->name)
  FREE(tensor), FREE(op), FREE(block), FREE(order), FREE(routing), FREE(kernel);
  FREE(map), FREE(layout), FREE(step), FREE(slot), FREE(insn);
#undef FREE
  for (int i = 0; i < q->nstring; i++)
    free((void *)(uintptr_t)q->string[i]);
  free(q->string);
  free(q->erased);
  free(q);
}

void
nmb_prog_set_hw(nmb_prog *p, const struct nmb_hw *hw)
{
  p->hw = hw;
}

/* -------------------------------------------------------------------- graph */
nmb_id
nmb_block_add(nmb_prog *p, const char *name)
{
  nmb_block b = {nmb__prog_string(p, name), 0, 0, NULL, NMB_NONE, NMB_NONE};
  return APPEND(p, block, &b);
}

void
nmb_block_ends(nmb_prog *p, nmb_id block, nmb_id in, nmb_id out)
{
  ROW(nmb_block, p, block, block)->in = in;
  ROW(nmb_block, p, block, block)->out = out;
}

void
nmb_order_add(nmb_prog *p, nmb_id block, int64_t count)
{
  nmb_segment s = {block, count};
  ROW(nmb_block, p, block, block)->repeat += count;
  if (p->nsegment && p->order[p->nsegment - 1].block == block) {
    ROW(nmb_segment, p, order, p->nsegment - 1)->count += count;
    return;
  }
  nmb__prog *q = (nmb__prog *)p;
  p->order = grow(p->order, p->nsegment, &q->csegment, sizeof *p->order);
  *ROW(nmb_segment, p, order, p->nsegment) = s;
  p->nsegment++;
}

nmb_id
nmb_routing_add(nmb_prog *p, const char *name, int experts, int topk, int64_t ntoken,
                const int32_t *expert)
{
  const size_t n = (size_t)ntoken * (size_t)topk;
  int32_t *e = nmb__xrealloc(NULL, n, sizeof *e);
  int64_t *load = nmb__xrealloc(NULL, (size_t)experts, sizeof *load);
  memset(load, 0, (size_t)experts * sizeof *load);
  for (size_t i = 0; i < n; i++) {
    e[i] = expert[i];
    if (e[i] < 0 || e[i] >= experts)
      nmb__panic("routing %s: expert %d of %d", name, (int)e[i], experts);
    load[e[i]]++;
  }
  int reached = 0;
  for (int i = 0; i < experts; i++)
    reached += load[i] > 0;
  nmb_routing r = {nmb__prog_string(p, name), experts, topk, ntoken, e, load, reached};
  return APPEND(p, routing, &r);
}

void
nmb__routing_set(nmb_prog *p, nmb_id id, const int32_t *expert)
{
  nmb_routing *r = ROW(nmb_routing, p, routing, id);
  int32_t *e = (int32_t *)(uintptr_t)r->expert;
  int64_t *load = (int64_t *)(uintptr_t)r->load;
  memset(load, 0, (size_t)r->experts * sizeof *load);
  for (int64_t i = 0; i < r->ntoken * r->topk; i++) {
    if (expert[i] < 0 || expert[i] >= r->experts)
      nmb__panic("routing %s: expert %d of %d", r->name, (int)expert[i], r->experts);
    load[e[i] = expert[i]]++;
  }
  r->reached = 0;
  for (int i = 0; i < r->experts; i++)
    r->reached += load[i] > 0;
}

static bool
name_taken(const nmb_prog *p, nmb_id block, const char *name)
{
  for (int i = 0; i < p->ntensor; i++)
    if (p->tensor[i].block == block && !strcmp(p->tensor[i].name, name))
      return true;
  return false;
}

nmb_id
nmb_tensor_add(nmb_prog *p, const nmb_tensor *t)
{
  nmb_tensor row = *t;
  char name[160];
  snprintf(name, sizeof name, "%s", t->name);
  for (int i = 1; name_taken(p, t->block, name); i++)
    snprintf(name, sizeof name, "%.140s.%d", t->name, i);
  row.name = nmb__prog_string(p, name);
  row.def = NMB_NONE;
  row.lent = false;
  if (row.of)
    ROW(nmb_tensor, p, tensor, row.of - 1)->lent = true;
  row.loc.file = nmb__prog_string(p, t->loc.file);
  for (int i = row.rank; i < NMB_MAXRANK; i++)
    row.dim[i] = 0;
  return APPEND(p, tensor, &row);
}

void
nmb_tensor_format(nmb_prog *p, nmb_id t, nmb_dtype dtype, int group)
{
  ROW(nmb_tensor, p, tensor, t)->dtype = dtype;
  ROW(nmb_tensor, p, tensor, t)->group = group;
}

void
nmb_tensor_reshape(nmb_prog *p, nmb_id t, int rank, const int64_t *dim)
{
  nmb_tensor *row = ROW(nmb_tensor, p, tensor, t);
  row->rank = rank;
  for (int i = 0; i < NMB_MAXRANK; i++)
    row->dim[i] = i < rank ? dim[i] : 0;
}

static void
own_attr(nmb_prog *p, nmb_attr *a)
{
  a->key = nmb__prog_string(p, a->key);
  a->s = nmb__prog_string(p, a->s);
}

static nmb_id
op_new(nmb_prog *p, const nmb_op *op)
{
  nmb_op row = *op;
  for (int i = 0; i < row.nattr; i++)
    own_attr(p, &row.attr[i]);
  row.loc.file = nmb__prog_string(p, op->loc.file);
  const nmb_id id = APPEND(p, op, &row);
  for (int i = 0; i < row.nout; i++)
    ROW(nmb_tensor, p, tensor, row.out[i])->def = id;
  return id;
}

static void
order_insert(nmb_prog *p, nmb_id block, int at, nmb_id op)
{
  nmb_block *b = ROW(nmb_block, p, block, block);
  nmb_id *list = nmb__xrealloc((void *)(uintptr_t)b->op, (size_t)b->nop + 1, sizeof *list);
  memmove(list + at + 1, list + at, (size_t)(b->nop - at) * sizeof *list);
  list[at] = op;
  b->op = list;
  b->nop++;
}

nmb_id
nmb_op_add(nmb_prog *p, const nmb_op *op)
{
  const nmb_id id = op_new(p, op);
  order_insert(p, op->block, p->block[op->block].nop, id);
  return id;
}

static int
order_find(const nmb_prog *p, nmb_id op)
{
  const nmb_block *b = &p->block[p->op[op].block];
  for (int i = 0; i < b->nop; i++)
    if (b->op[i] == op)
      return i;
  nmb__panic("op %d is not in its block", (int)op);
  return 0;
}

nmb_id
nmb_op_insert(nmb_prog *p, nmb_id before, const nmb_op *op)
{
  const int at = order_find(p, before);
  const nmb_id block = p->op[before].block;
  const nmb_id id = op_new(p, op);
  order_insert(p, block, at, id);
  return id;
}

bool
nmb_op_erased(const nmb_prog *p, nmb_id op)
{
  const nmb__prog *q = (const nmb__prog *)p;
  return op < q->nerased && q->erased[op];
}

void
nmb_op_erase(nmb_prog *p, nmb_id op)
{
  nmb__prog *q = (nmb__prog *)p;
  const int at = order_find(p, op);
  nmb_block *b = ROW(nmb_block, p, block, p->op[op].block);
  nmb_id *list = (nmb_id *)(uintptr_t)b->op;
  memmove(list + at, list + at + 1, (size_t)(b->nop - at - 1) * sizeof *list);
  b->nop--;
  if (q->nerased < p->nop) {
    q->erased = nmb__xrealloc(q->erased, (size_t)p->nop, sizeof *q->erased);
    memset(q->erased + q->nerased, 0, (size_t)(p->nop - q->nerased));
    q->nerased = p->nop;
  }
  q->erased[op] = true;
  for (int i = 0; i < p->op[op].nout; i++)
    if (p->tensor[p->op[op].out[i]].def == op)
      ROW(nmb_tensor, p, tensor, p->op[op].out[i])->def = NMB_NONE;
}

void
nmb_op_attr_set(nmb_prog *p, nmb_id op, nmb_attr attr)
{
  nmb_op *o = ROW(nmb_op, p, op, op);
  own_attr(p, &attr);
  for (int i = 0; i < o->nattr; i++)
    if (!strcmp(o->attr[i].key, attr.key)) {
      o->attr[i] = attr;
      return;
    }
  if (o->nattr == NMB_MAXATTR)
    nmb__panic("op %s has more than %d attributes", nmb_op_get(o->code)->name, NMB_MAXATTR);
  o->attr[o->nattr++] = attr;
}

void
nmb_tensor_replace(nmb_prog *p, nmb_id from, nmb_id to)
{
  nmb_block *b = ROW(nmb_block, p, block, p->tensor[from].block);
  for (int i = 0; i < b->nop; i++) {
    nmb_op *o = ROW(nmb_op, p, op, b->op[i]);
    for (int j = 0; j < o->nin; j++)
      if (o->in[j] == from)
        o->in[j] = to;
  }
  if (b->in == from)
    b->in = to;
  if (b->out == from)
    b->out = to;
}

/* Renumbers ops to block order and drops what is erased or no longer used. */
void
nmb_prog_compact(nmb_prog *p)
{
  nmb__prog *q = (nmb__prog *)p;
  nmb_id *opmap = nmb__xrealloc(NULL, (size_t)p->nop + 1, sizeof *opmap);
  nmb_id *tmap = nmb__xrealloc(NULL, (size_t)p->ntensor + 1, sizeof *tmap);
  for (int i = 0; i < p->nop; i++)
    opmap[i] = NMB_NONE;
  for (int i = 0; i < p->ntensor; i++)
    tmap[i] = NMB_NONE;

  nmb_op *ops = nmb__xrealloc(NULL, (size_t)p->nop + 1, sizeof *ops);
  int nop = 0;
  for (int b = 0; b < p->nblock; b++) {
    if (p->block[b].in != NMB_NONE)
      tmap[p->block[b].in] = 0;
    if (p->block[b].out != NMB_NONE)
      tmap[p->block[b].out] = 0;
    for (int i = 0; i < p->block[b].nop; i++) {
      const nmb_op *o = &p->op[p->block[b].op[i]];
      opmap[p->block[b].op[i]] = nop;
      ops[nop++] = *o;
      for (int j = 0; j < o->nin; j++)
        tmap[o->in[j]] = 0;
      for (int j = 0; j < o->nout; j++)
        tmap[o->out[j]] = 0;
    }
  }
  for (int i = 0; i < p->ntensor; i++)
    if (tmap[i] == 0 && p->tensor[i].of)
      tmap[p->tensor[i].of - 1] = 0;
  int nt = 0;
  for (int i = 0; i < p->ntensor; i++)
    if (tmap[i] == 0) {
      tmap[i] = nt;
      *ROW(nmb_tensor, p, tensor, nt) = p->tensor[i];
      nt++;
    }
  p->ntensor = nt;
  for (int i = 0; i < nt; i++) {
    nmb_tensor *t = ROW(nmb_tensor, p, tensor, i);
    t->def = t->def == NMB_NONE ? NMB_NONE : opmap[t->def];
    t->of = t->of ? tmap[t->of - 1] + 1 : 0;
  }
  for (int i = 0; i < nop; i++) {
    for (int j = 0; j < ops[i].nin; j++)
      ops[i].in[j] = tmap[ops[i].in[j]];
    for (int j = 0; j < ops[i].nout; j++)
      ops[i].out[j] = tmap[ops[i].out[j]];
  }
  int next = 0;
  for (int b = 0; b < p->nblock; b++) {
    nmb_block *blk = ROW(nmb_block, p, block, b);
    blk->in = blk->in == NMB_NONE ? NMB_NONE : tmap[blk->in];
    blk->out = blk->out == NMB_NONE ? NMB_NONE : tmap[blk->out];
    for (int i = 0; i < blk->nop; i++)
      ((nmb_id *)(uintptr_t)blk->op)[i] = next++;
  }
  free((void *)(uintptr_t)p->op);
  p->op = ops;
  q->cop = p->nop + 1;
  p->nop = nop;
  q->nerased = 0;
  free(opmap);
  free(tmap);
}

/* ----------------------------------------------------------------- sections */
void
nmb_section_begin(nmb_prog *p, nmb_section s)
{
  /* What each section rests on; dropping is transitive. */
  static const nmb_bits rests[NMB_NSECTION] = {
      [NMB_GROUPS] = NMB_BIT(NMB_GRAPH),
      [NMB_DISPATCH] = NMB_BIT(NMB_GRAPH) | NMB_BIT(NMB_GROUPS),
      [NMB_MAPPING] = NMB_BIT(NMB_GRAPH) | NMB_BIT(NMB_GROUPS) | NMB_BIT(NMB_DISPATCH),
      [NMB_SCHEDULE] = NMB_BIT(NMB_GRAPH) | NMB_BIT(NMB_GROUPS) | NMB_BIT(NMB_DISPATCH),
      [NMB_MEMORY] = NMB_BIT(NMB_GRAPH) | NMB_BIT(NMB_GROUPS) | NMB_BIT(NMB_DISPATCH) |
                     NMB_BIT(NMB_MAPPING) | NMB_BIT(NMB_SCHEDULE),
      [NMB_CODE] = NMB_ALL & ~NMB_BIT(NMB_CODE),
  };
  nmb_bits drop = NMB_BIT(s);
  for (int i = (int)s + 1; i < NMB_NSECTION; i++)
    if (rests[i] & drop)
      drop |= NMB_BIT(i);
  if (drop & NMB_BIT(NMB_CODE))
    insns_clear(p);
  if (drop & NMB_BIT(NMB_MEMORY))
    p->nslot = 0;
  if (drop & NMB_BIT(NMB_SCHEDULE))
    p->nstep = 0;
  if (drop & NMB_BIT(NMB_MAPPING))
    p->nmap = p->nlayout = 0;
  if (drop & NMB_BIT(NMB_DISPATCH))
    for (int i = 0; i < p->nkernel; i++)
      ROW(nmb_kernel, p, kernel, i)->engine = NMB_NONE;
  if (drop & NMB_BIT(NMB_GROUPS))
    kernels_clear(p);
  p->present &= ~drop;
  p->present |= NMB_BIT(s);
}

nmb_id
nmb_kernel_add(nmb_prog *p, nmb_id block, const nmb_id *op, int nop)
{
  nmb_id *list = nmb__xrealloc(NULL, (size_t)nop, sizeof *list);
  memcpy(list, op, (size_t)nop * sizeof *list);
  nmb_kernel k = {block, nop, list, NMB_NONE};
  return APPEND(p, kernel, &k);
}

void
nmb_dispatch_set(nmb_prog *p, nmb_id kernel, nmb_id engine)
{
  ROW(nmb_kernel, p, kernel, kernel)->engine = engine;
}

void
nmb_map_add(nmb_prog *p, const nmb_map *m)
{
  (void)APPEND(p, map, m);
}

void
nmb_layout_add(nmb_prog *p, const nmb_layout *l)
{
  (void)APPEND(p, layout, l);
}

nmb_id
nmb_step_add(nmb_prog *p, const nmb_step *s)
{
  return APPEND(p, step, s);
}

nmb_id
nmb_slot_add(nmb_prog *p, const nmb_slot *s)
{
  return APPEND(p, slot, s);
}

nmb_id
nmb_insn_add(nmb_prog *p, const nmb_insn *insn)
{
  nmb_insn row = *insn;
  if (insn->nwait) {
    nmb_id *w = nmb__xrealloc(NULL, (size_t)insn->nwait, sizeof *w);
    memcpy(w, insn->wait, (size_t)insn->nwait * sizeof *w);
    row.wait = w;
  } else
    row.wait = NULL;
  return APPEND(p, insn, &row);
}

/* --------------------------------------------------------------------- copy */
nmb_prog *
nmb_prog_copy(const nmb_prog *p)
{
  nmb_prog *c = nmb_prog_new(p->model, p->spec);
  c->hw = p->hw;
  for (int i = 0; i < p->nblock; i++)
    nmb_block_add(c, p->block[i].name);
  for (int i = 0; i < p->nsegment; i++)
    nmb_order_add(c, p->order[i].block, p->order[i].count);
  for (int i = 0; i < p->nrouting; i++)
    nmb_routing_add(c, p->routing[i].name, p->routing[i].experts, p->routing[i].topk,
                    p->routing[i].ntoken, p->routing[i].expert);
  for (int i = 0; i < p->ntensor; i++) {
    nmb_tensor t = p->tensor[i];
    t.name = nmb__prog_string(c, t.name);
    t.loc.file = nmb__prog_string(c, t.loc.file);
    (void)APPEND(c, tensor, &t);
  }
  for (int i = 0; i < p->nop; i++)
    (void)op_new(c, &p->op[i]);
  for (int i = 0; i < p->ntensor; i++) /* erased definitions stay erased */
    ROW(nmb_tensor, c, tensor, i)->def = p->tensor[i].def;
  const nmb__prog *q = (const nmb__prog *)p;
  nmb__prog *d = (nmb__prog *)c;
  if (q->nerased) {
    d->erased = nmb__xrealloc(NULL, (size_t)q->nerased, sizeof *d->erased);
    memcpy(d->erased, q->erased, (size_t)q->nerased * sizeof *d->erased);
    d->nerased = q->nerased;
  }
  for (int b = 0; b < p->nblock; b++) {
    for (int i = 0; i < p->block[b].nop; i++)
      order_insert(c, b, i, p->block[b].op[i]);
    nmb_block_ends(c, b, p->block[b].in, p->block[b].out);
  }
  for (int i = 0; i < p->nkernel; i++) {
    const nmb_kernel *k = &p->kernel[i];
    nmb_dispatch_set(c, nmb_kernel_add(c, k->block, k->op, k->nop), k->engine);
  }
  for (int i = 0; i < p->nmap; i++)
    nmb_map_add(c, &p->map[i]);
  for (int i = 0; i < p->nlayout; i++)
    nmb_layout_add(c, &p->layout[i]);
  for (int i = 0; i < p->nstep; i++)
    nmb_step_add(c, &p->step[i]);
  for (int i = 0; i < p->nslot; i++)
    nmb_slot_add(c, &p->slot[i]);
  for (int i = 0; i < p->ninsn; i++)
    nmb_insn_add(c, &p->insn[i]);
  c->present = p->present;
  return c;
}
