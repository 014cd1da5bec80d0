/* SPDX-License-Identifier: GPL-3.0-or-later */
/* One instruction: bytes of operands to values, the op, values to bytes. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/run.h"
#include "ir/eval-op.h"
#include "ir/formats.h"
#include "ir/storage.h"
#include "ir/func-exec.h"
#include "ir/verify_code.h"

/* -------------------------------------------------------------------- errors */
static nmb_status
fault(nmb__frame *f, nmb_id insn, int j, int64_t address, const char *what)
{
  const nmb_prog *p = f->p;
  if (insn == NMB_NONE)
    return nmb_fail(f->run, NMB_UNVERIFIED, NMB_NOLOC, "byte %" PRId64 ": %s", address,
                    what);
  const nmb_operand *o = &p->insn[insn].opnd[j];
  return nmb_fail(f->run, NMB_UNVERIFIED, NMB_NOLOC,
                  "%s, layer %" PRId64 ": operand %d (%%%s) at byte %" PRId64
                  " of %s: %s",
                  nmb__insn_text(f->run, p, insn), f->at.layer, j,
                  p->tensor[o->tensor].name, address, p->hw->mem[o->mem].name, what);
}

static nmb_status
misfit(nmb__frame *f, nmb_id insn, const char *what)
{
  return nmb_fail(f->run, NMB_UNVERIFIED, NMB_NOLOC, "%s, layer %" PRId64 ": %s",
                  nmb__insn_text(f->run, f->p, insn), f->at.layer, what);
}

/* --------------------------------------------------------------------- bytes */
int64_t
nmb__slot_base(const nmb__frame *f, nmb_id slot)
{
  const nmb_slot *s = &f->p->slot[slot];
  const int64_t at = slot == f->hidden_in    ? f->hidden_at[f->swap]
                     : slot == f->hidden_out ? f->hidden_at[1 - f->swap]
                                             : s->offset;
  const bool layers = s->resident && !f->p->tensor[s->tensor].lent; /* its block runs once */
  return layers ? at + f->at.layer * f->spot[slot].layer_bytes : at;
}

/* What an access is for: whose operand, of which copy. */
typedef struct access {
  nmb_id insn; /* NMB_NONE: given or taken from outside */
  int j;
  nmb_id slot;
  int64_t copy;
  bool write;
  bool tile; /* in the local memory of a kernel tile */
} access;

static bool
foreign(const uint16_t *tag, int64_t n, uint16_t own, bool given)
{
  unsigned bad = 0;
  for (int64_t i = 0; i < n; i++)
    bad |= (unsigned)(tag[i] != own && !(given && tag[i] == 0));
  return bad != 0;
}

static const char *
owner_text(nmb__frame *f, const uint16_t *tag, int64_t n, uint16_t own)
{
  for (int64_t i = 0; i < n; i++)
    if (tag[i] != own && tag[i] != 0)
      return nmb_format(f->run, "holds what was written as %%%s",
                        f->p->tensor[f->p->slot[tag[i] - 1].tensor].name);
  return "nothing has written there";
}

/* [at, at + n) of a copy as the tensor counts its bytes. */
static nmb_status
move_bytes(nmb__frame *f, const access *a, int64_t at, int64_t n, uint8_t *buf)
{
  const nmb__spot *s = &f->spot[a->slot];
  const nmb_slot *slot = s->slot;
  const nmb__bytes *m = a->tile ? &f->tile[slot->mem] : &f->mem[slot->mem];
  const int64_t base = a->tile ? slot->offset : nmb__slot_base(f, a->slot);
  const uint16_t own = (uint16_t)(a->slot + 1);
  const bool weight = f->p->tensor[slot->tensor].role == NMB_ROLE_WEIGHT;
  const int64_t room = s->placed         ? (s->copies - a->copy) * s->copy_bytes
                       : slot->resident ? s->layer_bytes
                                        : slot->bytes - a->copy * s->copy_bytes;
  if (at < 0 || at + n > room)
    return fault(f, a->insn, a->j, base + at, "lies beyond its slot");
  while (n > 0) {
    int64_t run;
    const int64_t past = s->placed ? at / s->copy_bytes : 0; /* copies of other devices */
    const int64_t to = base + (a->copy + past) * s->copy_bytes +
                       nmb__spot_find(s, at - past * s->copy_bytes, &run);
    run = run < n ? run : n;
    if (to < 0 || to + run > m->n)
      return fault(f, a->insn, a->j, to, "lies beyond the memory");
    if (a->write) {
      memcpy(m->at + to, buf, (size_t)run);
      for (int64_t i = 0; i < run; i++)
        m->tag[to + i] = own;
    } else {
      if (foreign(m->tag + to, run, own, weight))
        return fault(f, a->insn, a->j, to, owner_text(f, m->tag + to, run, own));
      memcpy(buf, m->at + to, (size_t)run);
    }
    at += run;
    buf += run;
    n -= run;
  }
  if (a->write && f->neighbour[a->slot])
    for (const nmb_id *w = f->neighbour[a->slot]; *w != NMB_NONE; w++)
      f->spoiled[*w] = true;
  return NMB_OK;
}

static uint8_t *
buffer(nmb__frame *f, int64_t n)
{
  if (n > f->room) {
    f->room = n + 4096;
    f->buffer = nmb__xrealloc(f->buffer, (size_t)f->room, 1);
  }
  return f->buffer;
}

/* -------------------------------------------------------------------- values */
/* Elements [a, b) of one run of the format; `at`: where the run starts in the slot. */
typedef struct run {
  const nmb_tensor *t;
  float scale;
  int64_t at, a, b;
} run;

static bool
plain(const nmb_tensor *t)
{
  return nmb_dtype_get(t->dtype)->bits % 8 == 0 &&
         (nmb_dtype_get(t->dtype)->scale_bits == 0 ||
          (nmb_dtype_get(t->dtype)->group < 0 && t->group == 0));
}

static void
decode_plain(const nmb_tensor *t, float scale, const uint8_t *in, int64_t n, void *out)
{
  float *x = out;
  if (t->dtype == NMB_DT_BF16)
    for (int64_t i = 0; i < n; i++)
      x[i] = nmb__bf16_value((uint16_t)(in[2 * i] | in[2 * i + 1] << 8));
  else if (t->dtype == NMB_DT_F32 || t->dtype == NMB_DT_I32)
    memcpy(out, in, (size_t)n * 4);
  else
    nmb__unpack(t->dtype, t->group, scale, in, 0, n, x);
}

static void
encode_plain(const nmb_tensor *t, float scale, const void *in, int64_t n, uint8_t *out)
{
  const float *x = in;
  if (t->dtype == NMB_DT_BF16)
    for (int64_t i = 0; i < n; i++) {
      const uint16_t c = nmb__bf16_code(x[i]);
      out[2 * i] = (uint8_t)c;
      out[2 * i + 1] = (uint8_t)(c >> 8);
    }
  else if (t->dtype == NMB_DT_F32 || t->dtype == NMB_DT_I32)
    memcpy(out, in, (size_t)n * 4);
  else
    nmb__pack(t->dtype, t->group, scale, n, x, out);
}

/* A group of a run starts at a byte at the latest after eight: the last such start up to
 * element a, and its byte. */
static int64_t
aligned_start(const nmb_tensor *t, int64_t a, int64_t *byte)
{
  const nmb_dtype_info *d = nmb_dtype_get(t->dtype);
  const int64_t per = d->group > 0 ? d->group : d->group < 0 && t->group ? t->group : 0;
  const int64_t step = per ? per : 1, bits = step * d->bits + (per ? d->scale_bits : 0);
  int64_t g = a / step;
  while (g * bits % 8)
    g--;
  *byte = g * bits / 8;
  return g * step;
}

/* Blocks of files are read whole. */
static int64_t
blocks_end(nmb_dtype d, int64_t n)
{
  const int64_t per = nmb_dtype_get(d)->group;
  return nmb__storage_native(d) == NMB_NONE ? n : (n + per - 1) / per * per;
}

static nmb_status
get_run(nmb__frame *f, const access *a, const run *r, void *out)
{
  if (plain(r->t)) {
    const int64_t item = nmb_dtype_get(r->t->dtype)->bits / 8, n = r->b - r->a;
    uint8_t *buf = buffer(f, n * item);
    NMB_TRY(move_bytes(f, a, r->at + r->a * item, n * item, buf));
    decode_plain(r->t, r->scale, buf, n, out);
    return NMB_OK;
  }
  int64_t lo;
  const int64_t first = aligned_start(r->t, r->a, &lo);
  const int64_t hi = nmb_bytes(r->t->dtype, r->t->group, blocks_end(r->t->dtype, r->b));
  uint8_t *buf = buffer(f, hi - lo);
  NMB_TRY(move_bytes(f, a, r->at + lo, hi - lo, buf));
  nmb__unpack(r->t->dtype, r->t->group, r->scale, buf, r->a - first, r->b - first, out);
  return NMB_OK;
}

static nmb_status
put_run(nmb__frame *f, const access *a, const run *r, const void *in)
{
  const int64_t n = r->b - r->a;
  int64_t byte;
  if (nmb__storage_native(r->t->dtype) != NMB_NONE)
    return fault(f, a->insn, a->j, r->at, "is of a format that values cannot be rounded to");
  if (aligned_start(r->t, r->a, &byte) != r->a)
    return fault(f, a->insn, a->j, r->at, "is written in the middle of a group");
  const int64_t bytes = nmb_bytes(r->t->dtype, r->t->group, n);
  uint8_t *buf = buffer(f, bytes);
  if (plain(r->t))
    encode_plain(r->t, r->scale, in, n, buf);
  else
    nmb__pack(r->t->dtype, r->t->group, r->scale, n, in, buf);
  return move_bytes(f, a, r->at + byte, bytes, buf);
}

/* Elements of the root's storage: weights are one run, others one for each row. */
static int64_t
run_length(const nmb_tensor *root)
{
  return root->role == NMB_ROLE_WEIGHT ? nmb_tensor_count(root)
                                       : root->dim[root->rank - 1];
}

static size_t
item_size(void)
{
  return 4; /* float and int32_t */
}

/* n elements from `flat` on, whose first byte is byte `at` of the slot. */
static nmb_status
transfer_runs(nmb__frame *f, const access *a, int64_t flat, int64_t n, int64_t at, void *value)
{
  const nmb_tensor *t = &f->p->tensor[f->p->slot[a->slot].tensor];
  const int64_t L = run_length(t);
  const float scale = t->role == NMB_ROLE_WEIGHT ? f->weight[a->slot].scale : 1;
  char *v = value;
  if (plain(t)) {
    const run r = {t, scale, at, 0, n};
    return a->write ? put_run(f, a, &r, v) : get_run(f, a, &r, v);
  }
  at -= nmb_bytes(t->dtype, t->group, flat % L);
  for (int64_t in = flat % L; n > 0; in = 0, at += nmb_bytes(t->dtype, t->group, L)) {
    const int64_t take = n < L - in ? n : L - in;
    const run r = {t, scale, at, in, in + take};
    NMB_TRY(a->write ? put_run(f, a, &r, v) : get_run(f, a, &r, v));
    n -= take;
    v += (size_t)take * item_size();
  }
  return NMB_OK;
}

static nmb_status
transfer(nmb__frame *f, const access *a, int64_t flat, int64_t n, int64_t at, void *value)
{
  const nmb_tensor *t = &f->p->tensor[f->p->slot[a->slot].tensor];
  const float *block = t->role == NMB_ROLE_WEIGHT ? f->weight[a->slot].block : NULL;
  NMB_TRY(transfer_runs(f, a, flat, n, at, value));
  if (block && !a->write)
    nmb__blocks_apply(t, block, false, flat, n, value);
  return NMB_OK;
}

nmb_status
nmb__slot_put(nmb__frame *f, nmb_id slot, int64_t first, int64_t n, const void *value)
{
  const nmb_tensor *t = &f->p->tensor[f->p->slot[slot].tensor];
  const int64_t L = run_length(t);
  const int64_t at = first / L * nmb_bytes(t->dtype, t->group, L) +
                     nmb_bytes(t->dtype, t->group, first % L);
  for (int64_t c = 0; c < f->spot[slot].copies; c++) {
    const access a = {.insn = NMB_NONE, .slot = slot, .copy = c, .write = true};
    NMB_TRY(transfer(f, &a, first, n, at, (void *)(uintptr_t)value));
  }
  return NMB_OK;
}

nmb_status
nmb__slot_get(nmb__frame *f, nmb_id slot, int64_t first, int64_t n, void *value)
{
  const nmb_tensor *t = &f->p->tensor[f->p->slot[slot].tensor];
  const int64_t L = run_length(t);
  const int64_t at = first / L * nmb_bytes(t->dtype, t->group, L) +
                     nmb_bytes(t->dtype, t->group, first % L);
  const access a = {.insn = NMB_NONE, .slot = slot};
  return transfer(f, &a, first, n, at, value);
}

nmb_status
nmb__weight_place(nmb__frame *f, nmb_id slot)
{
  nmb__kept *k = &f->weight[slot];
  const nmb_tensor *t = &f->p->tensor[f->p->slot[slot].tensor];
  if (k->there || !k->value)
    return NMB_OK;
  const int64_t n = nmb_tensor_count(t);
  k->there = true;
  for (int64_t c = 0; k->bytes && c < f->spot[slot].copies; c++) {
    const access a = {.insn = NMB_NONE, .slot = slot, .copy = c, .write = true};
    NMB_TRY(move_bytes(f, &a, 0, nmb_tensor_bytes(t), (uint8_t *)(uintptr_t)k->bytes));
  }
  if (k->bytes)
    return NMB_OK;
  if (!k->block)
    return nmb__slot_put(f, slot, 0, n, k->value);
  float *v = nmb__xrealloc(NULL, (size_t)n, sizeof *v);
  memcpy(v, k->value, (size_t)n * sizeof *v);
  nmb__blocks_apply(t, k->block, true, 0, n, v);
  const nmb_status st = nmb__slot_put(f, slot, 0, n, v);
  free(v);
  return st;
}

/* ------------------------------------------------------------------ operands */
/* An operand: what it should be, and where the code says it is. */
typedef struct item {
  nmb_id insn;
  int j;
  const nmb_operand *o;
  nmb__region full, part; /* of the instruction, of this turn */
  const nmb__turn *turn;  /* not NULL: in a buffer that goes row by row */
} item;

/* Number of an element of a tensor in its root. */
static int64_t
in_root(const nmb_prog *p, nmb_id tensor, int64_t i)
{
  const nmb__view v = nmb__view_of(p, tensor);
  return v.first + i / v.cols * v.stride + i % v.cols;
}

/* Elements [i, i + n) of a row of the region (as the tensor counts them), whose place in
 * the operand is `dense` of `total`. */
static nmb_status
piece(nmb__frame *f, const item *x, access *a, int64_t i, int64_t n, int64_t dense,
      int64_t total, char *value)
{
  const nmb_operand *o = x->o;
  if (total % o->rows)
    return fault(f, x->insn, x->j, o->offset, "does not hold the tile");
  const nmb_tensor *root = &f->p->tensor[o->tensor];
  const int64_t per = total / o->rows;
  if (plain(root) && per * (nmb_dtype_get(root->dtype)->bits / 8) != o->row_bytes)
    return fault(f, x->insn, x->j, o->offset, "has rows of another length than the tile");
  while (n > 0) {
    const int64_t k = dense / per, col = dense % per, take = n < per - col ? n : per - col;
    const int64_t flat = in_root(f->p, x->full.tensor, i);
    int64_t at = o->offset + k * o->stride;
    if (plain(root))
      at += col * (nmb_dtype_get(root->dtype)->bits / 8);
    else {
      const int64_t row0 = in_root(f->p, x->full.tensor, i - col), L = run_length(root);
      at += (flat / L - row0 / L) * nmb_bytes(root->dtype, root->group, L) +
            nmb_bytes(root->dtype, root->group, flat % L) -
            nmb_bytes(root->dtype, root->group, row0 % L);
    }
    NMB_TRY(transfer(f, a, flat, take, at, value));
    i += take;
    n -= take;
    dense += take;
    value += (size_t)take * item_size();
  }
  return NMB_OK;
}

/* The region's elements between memory and v, which is as dense as the tensor. */
static nmb_status
region_move(nmb__frame *f, const item *x, access *a, char *v)
{
  const nmb__region *r = &x->part, *w = &x->full;
  const int64_t width = r->c1 - r->c0;
  for (int64_t m = r->m0; m < r->m1; m++) {
    const int64_t i = m * r->len + r->c0;
    int64_t dense = (m - w->m0) * (w->c1 - w->c0) + r->c0 - w->c0;
    int64_t total = (w->m1 - w->m0) * (w->c1 - w->c0);
    if (x->turn) {
      const int64_t each = (r->m1 - r->m0) * width;
      dense = x->turn->side * each + (m - r->m0) * width;
      total = x->turn->nside * each;
    }
    NMB_TRY(piece(f, x, a, i, width, dense, total, v + (size_t)i * item_size()));
  }
  return NMB_OK;
}

static void *
scratch(nmb__frame *f, nmb_id tensor)
{
  if (!f->scratch[tensor]) {
    const int64_t n = nmb_tensor_count(&f->p->tensor[tensor]);
    float *v = nmb__xrealloc(NULL, (size_t)n, item_size());
    for (int64_t i = 0; i < n; i++)
      v[i] = NAN;
    f->scratch[tensor] = v;
  }
  return f->scratch[tensor];
}

static void
forget(nmb__frame *f, const nmb__region *r)
{
  float *v = f->scratch[r->tensor];
  for (int64_t m = r->m0; v && m < r->m1; m++)
    for (int64_t c = r->c0; c < r->c1; c++)
      v[m * r->len + c] = NAN;
}

/* Do all devices need what they hold of it, whole and alike? */
static bool
on_all(const nmb__frame *f, const item *x)
{
  const nmb_insn *in = &f->p->insn[x->insn];
  const nmb__spot *s = &f->spot[x->o->slot];
  if (s->copies < 2)
    return false;
  const nmb__work w = nmb__work_of(f->p, f->p->step[in->step].kernel);
  return s->everywhere || nmb__needs_whole(f->p, &w, in->op, x->full.arg);
}

static nmb_status
read_item(nmb__frame *f, const item *x, char *v)
{
  access a = {.insn = x->insn, .j = x->j, .slot = x->o->slot, .tile = x->turn != NULL};
  NMB_TRY(region_move(f, x, &a, v));
  if (x->turn || !on_all(f, x))
    return NMB_OK;
  const nmb__region *r = &x->part;
  const size_t n = (size_t)(r->m1 - r->m0) * (size_t)r->len * item_size();
  char *other = nmb__xrealloc(NULL, n, 1), *from = v + (size_t)(r->m0 * r->len) * item_size();
  nmb_status st = NMB_OK;
  for (a.copy = 1; a.copy < f->spot[x->o->slot].copies && st == NMB_OK; a.copy++) {
    memcpy(other, from, n);
    st = region_move(f, x, &a, other - (size_t)(r->m0 * r->len) * item_size());
    if (st == NMB_OK && memcmp(other, from, n) != 0)
      st = fault(f, x->insn, x->j, x->o->offset, "devices hold different copies");
  }
  free(other);
  return st;
}

static void
mix(nmb__frame *f, nmb_id insn, const void *v, size_t bytes, int64_t where)
{
  uint64_t h = (uint64_t)(insn + 1) * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)where +
               (uint64_t)f->at.position * 1000003;
  const uint8_t *b = v;
  for (size_t i = 0; i < bytes; i += 4) {
    uint32_t w;
    memcpy(&w, b + i, 4);
    h = (h ^ w) * UINT64_C(0xbf58476d1ce4e5b9);
    h ^= h >> 29;
  }
  f->digest += h; /* a sum: in any order */
}

static nmb_status
tell(nmb__frame *f, const item *x, const char *v)
{
  const nmb__region *r = &x->part;
  const size_t width = (size_t)(r->c1 - r->c0) * item_size();
  const nmb_insn *in = &f->p->insn[x->insn];
  char *dense = nmb__xrealloc(NULL, width * (size_t)(r->m1 - r->m0) + 1, 1);
  for (int64_t m = r->m0; m < r->m1; m++) {
    char *to = dense + (size_t)(m - r->m0) * width;
    memcpy(to, v + (size_t)(m * r->len + r->c0) * item_size(), width);
    mix(f, x->insn, to, width, m * r->len + r->c0);
  }
  nmb_status st = NMB_OK;
  const int out = in->op == NMB_NONE ? 0 : r->arg - f->p->op[in->op].nin;
  if (f->o->watch)
    st = f->o->watch(f->run, f->o->watch_self,
                     &(nmb__func_event){f->p, &f->at, x->insn, in->op, out, r,
                                        (const float *)dense});
  free(dense);
  return st;
}

/* Rounds to the format on the way: what stands in v after it is what was stored. */
static nmb_status
write_item(nmb__frame *f, const item *x, char *v)
{
  const nmb__spot *s = &f->spot[x->o->slot];
  access a = {.insn = x->insn, .j = x->j, .slot = x->o->slot, .tile = x->turn != NULL};
  const int64_t copies = s->everywhere && !a.tile ? s->copies : 1;
  for (a.copy = 0; a.copy < copies; a.copy++) {
    a.write = true;
    NMB_TRY(region_move(f, x, &a, v));
  }
  a = (access){.insn = x->insn, .j = x->j, .slot = x->o->slot, .tile = x->turn != NULL};
  NMB_TRY(region_move(f, x, &a, v));
  return tell(f, x, v);
}

/* ---------------------------------------------------------------------- lanes */
static nmb_status
check_lane_rows(nmb__frame *f, nmb_id insn, const nmb__spot *s, int64_t u, int64_t r0,
                int64_t r1, int32_t *count)
{
  const nmb_insn *in = &f->p->insn[insn];
  const int banks = f->p->hw->mem[s->slot->mem].banks;
  for (int64_t r = r0; r < r1; r++) {
    const int32_t lane = s->lane[u * s->rows + r];
    const int channel = lane / banks;
    if (channel < in->place.channel0 ||
        channel >= in->place.channel0 + in->place.nchannel)
      return misfit(f, insn,
                    nmb_format(f->run,
                               "row %" PRId64 " of unit %" PRId64
                               " lies in channel %d, but it works on [%d, %d)",
                               r, u, channel, in->place.channel0,
                               in->place.channel0 + in->place.nchannel));
    if (++count[lane] > in->place.rows_per_bank)
      return misfit(f, insn,
                    nmb_format(f->run,
                               "more than %" PRId64 " rows lie in bank %d of channel %d",
                               in->place.rows_per_bank, lane % banks, channel));
  }
  return NMB_OK;
}

/* The place of an instruction covers the rows that its tile multiplies. */
static nmb_status
check_lanes(nmb__frame *f, nmb_id insn)
{
  const nmb_insn *in = &f->p->insn[insn];
  const nmb_op *o = &f->p->op[in->op];
  const int w = nmb__lane_input(o);
  const nmb__spot *s = NULL;
  for (int j = 0; j < in->nopnd && w != NMB_NONE; j++)
    if (!in->opnd[j].write && in->opnd[j].tensor == nmb_tensor_root(f->p, o->in[w]))
      s = &f->spot[in->opnd[j].slot];
  if (!s || !s->placed)
    return NMB_OK;
  const nmb_tile *t = &in->tile;
  const bool all = o->code == NMB_OP_PV && !s->transposed;
  const int64_t lanes = (int64_t)f->p->hw->mem[s->slot->mem].channels *
                        f->p->hw->mem[s->slot->mem].banks;
  if (in->place.vectors != t->m1 - t->m0)
    return misfit(f, insn,
                  nmb_format(f->run, "takes %" PRId64 " vectors, expected %" PRId64,
                             in->place.vectors, t->m1 - t->m0));
  const size_t mark = nmb__run_mark(f->run);
  int32_t *count = NMB_NEW(f->run, int32_t, lanes + 1);
  nmb_status st = NMB_OK;
  for (int64_t u = t->b0; u < t->b1 && st == NMB_OK; u++)
    st = check_lane_rows(f, insn, s, u, all ? 0 : t->n0, all ? s->rows : t->n1, count);
  nmb__run_release(f->run, mark);
  return st;
}

/* ------------------------------------------------------------------------ ops */
static bool
same_rect(const nmb_operand *a, const nmb_operand *b)
{
  return a->offset == b->offset && a->rows == b->rows && a->row_bytes == b->row_bytes &&
         (a->rows == 1 || a->stride == b->stride);
}

/* A weight whose bytes are as they were put, at the place where it should be. */
static bool
kept(const nmb__frame *f, const nmb_operand *o, const nmb_operand *expected)
{
  return f->weight[o->slot].value && !f->spoiled[o->slot] && same_rect(o, expected);
}

/* Rows that only the data names: of the table for the ids, of the experts' rows. */
static nmb_status
read_rows(nmb__frame *f, item *x, const nmb_operand *expected, int64_t n,
          const int64_t *row, char *v)
{
  const nmb_operand *given = x->o;
  nmb_operand o = *given;
  const nmb_tensor *t = &f->p->tensor[o.tensor];
  o.rows = 1;
  o.offset -= expected->offset; /* the first row, but for what is wrong with it */
  for (int64_t i = 0; i < n; i++) {
    x->full.m0 = x->part.m0 = row[i];
    x->full.m1 = x->part.m1 = row[i] + 1;
    nmb_operand at = o;
    at.offset += row[i] * given->stride + nmb_bytes(t->dtype, t->group, x->full.c0);
    x->o = &at;
    NMB_TRY(read_item(f, x, v));
  }
  x->o = given;
  return NMB_OK;
}

static nmb_status
table_rows(nmb__frame *f, item *x, const nmb_operand *expected, const nmb_tile *t, char *v)
{
  const nmb_op *o = &f->p->op[f->p->insn[x->insn].op];
  const int32_t *ids = f->scratch[o->in[x->full.arg - 1]];
  const int64_t n = t->m1 - t->m0, rows = f->p->tensor[o->in[x->full.arg]].dim[0];
  int64_t *row = NMB_NEW(f->run, int64_t, n);
  for (int64_t i = 0; i < n; i++) {
    row[i] = ids[t->m0 + i] + nmb_op_int(o, "offset", 0);
    if (row[i] >= rows)
      row[i] = nmb_op_int(o, "beyond", row[i]);
    if (row[i] < 0 || row[i] >= rows)
      return nmb_fail(f->run, NMB_BADINPUT, o->loc,
                      "%s: found id %" PRId64 ", expected 0 to %" PRId64,
                      nmb_op_get(o->code)->name, row[i], rows - 1);
  }
  return read_rows(f, x, expected, n, row, v);
}

static nmb_status
expert_rows(nmb__frame *f, item *x, const nmb_operand *expected, const nmb_tile *t, char *v)
{
  const nmb_op *o = &f->p->op[f->p->insn[x->insn].op];
  const nmb_routing *r = &f->p->routing[nmb_op_int(o, "routing", 0)];
  int64_t *row = NMB_NEW(f->run, int64_t, r->ntoken * r->topk);
  nmb__expert_rows(r, row);
  return read_rows(f, x, expected, (t->m1 - t->m0) * r->topk, row + t->m0 * r->topk, v);
}

/* Of a cache [B,S,h,d], the keys that the choice names. */
static nmb_status
chosen_rows(nmb__frame *f, item *x, const nmb_operand *expected, const nmb_tile *t, char *v)
{
  const nmb_op *o = &f->p->op[f->p->insn[x->insn].op];
  const nmb_tensor *c = &f->p->tensor[o->in[1]];
  const int64_t S = c->dim[1], h = c->dim[2], d = c->dim[3];
  const int64_t K = f->p->tensor[o->out[0]].dim[1], bytes = nmb_bytes(c->dtype, c->group, d);
  const int64_t n = nmb_tensor_count(&f->p->tensor[o->in[0]]) / (c->dim[0] * S);
  const nmb_operand *given = x->o;
  const nmb__region whole = x->full;
  int64_t *key = NMB_NEW(f->run, int64_t, K);
  nmb_operand at = *given;
  if (given->rows != expected->rows || given->row_bytes != expected->row_bytes ||
      (given->rows > 1 && given->stride != expected->stride))
    return fault(f, x->insn, x->j, given->offset, "has no rows of a cache");
  at.rows = 1;
  at.row_bytes = at.stride = bytes;
  x->o = &at;
  for (int64_t b = t->m0; b < t->m1; b++)
    for (int64_t j = 0; j < h; j++) {
      const float *mask = (const float *)f->scratch[o->in[0]] + (b * n + j * n / h) * S;
      if (nmb__chosen(mask, S, K, key) != K)
        continue; /* the op says so */
      for (int64_t k = 0; k < K; k++) {
        const int64_t r = (b * S + key[k]) * h + j;
        x->full = x->part = (nmb__region){whole.tensor, whole.arg, d, r, r + 1, 0, d};
        /* the first sequence, but for what is wrong with it */
        at.offset = given->offset - expected->offset + r * bytes;
        NMB_TRY(read_item(f, x, v));
      }
    }
  x->o = given;
  return NMB_OK;
}

typedef struct plan {
  int n;
  item item[NMB_MAXOPND];
  nmb_operand expected[NMB_MAXOPND];
} plan;

static nmb_status
plan_items(nmb__frame *f, nmb_id insn, const nmb__turn *turn, plan *pl)
{
  const nmb_insn *in = &f->p->insn[insn];
  nmb__region full[NMB_MAXOPND], part[NMB_MAXOPND];
  nmb_operand unused[NMB_MAXOPND];
  pl->n = nmb__regions(f->p, in->engine, in->op, &in->tile, full, pl->expected);
  if (pl->n != in->nopnd)
    return misfit(f, insn, nmb_format(f->run, "has %d operands, expected %d", in->nopnd,
                                      pl->n));
  memcpy(part, full, sizeof part);
  if (turn && nmb__regions(f->p, in->engine, in->op, turn->tile, part, unused) != pl->n)
    return misfit(f, insn, "a row of the tile is no rectangle");
  for (int j = 0; j < pl->n; j++) {
    const bool local = f->p->hw->mem[in->opnd[j].mem].local;
    pl->item[j] = (item){insn, j, &in->opnd[j], full[j], part[j], local ? turn : NULL};
    if (in->opnd[j].tensor != pl->expected[j].tensor ||
        in->opnd[j].write != pl->expected[j].write)
      return fault(f, insn, j, in->opnd[j].offset, "is not the operand of the op");
  }
  return NMB_OK;
}

static nmb_status
read_all(nmb__frame *f, plan *pl, const nmb_tile *t, const void **of)
{
  for (int j = 0; j < pl->n; j++) {
    item *x = &pl->item[j];
    const nmb_op *o = &f->p->op[f->p->insn[x->insn].op];
    const nmb_id id = x->full.tensor;
    if (x->o->write)
      continue;
    if (kept(f, x->o, &pl->expected[j])) {
      of[j] = f->weight[x->o->slot].value;
      continue;
    }
    if (f->p->tensor[id].role == NMB_ROLE_WEIGHT)
      NMB_TRY(nmb__weight_place(f, x->o->slot));
    char *v = scratch(f, id);
    of[j] = v;
    const bool table = o->code == NMB_OP_TOPK && nmb_op_int(o, "table", 0);
    if ((o->code == NMB_OP_EMBED && x->full.arg == 1) || (table && x->full.arg == 2))
      NMB_TRY(table_rows(f, x, &pl->expected[j], t, v));
    else if (o->code == NMB_OP_TAKE && x->full.arg == 1)
      NMB_TRY(chosen_rows(f, x, &pl->expected[j], t, v));
    else if (o->code == NMB_OP_COMBINE && x->full.arg == 0)
      NMB_TRY(expert_rows(f, x, &pl->expected[j], t, v));
    else
      NMB_TRY(read_item(f, x, v));
  }
  return NMB_OK;
}

/* Values of inputs that no operand names (a tensor that is two inputs) and of outputs
 * that are in the storage of an input. */
static void
bind(nmb__frame *f, const plan *pl, const nmb_op *o, const void **of, nmb__vals *v)
{
  for (int i = 0; i < o->nin; i++)
    for (int j = 0; j < pl->n; j++)
      if (!pl->item[j].o->write && o->in[pl->item[j].full.arg] == o->in[i])
        v->in[i] = of[j];
  for (int i = 0; i < o->nout; i++) {
    const nmb_id root = nmb_tensor_root(f->p, o->out[i]);
    v->out[i] = scratch(f, o->out[i]);
    for (int k = 0; k < o->nin; k++)
      if (root != o->out[i] && nmb_tensor_root(f->p, o->in[k]) == root)
        v->out[i] = (void *)(uintptr_t)v->in[k];
  }
}

static nmb_status
compute(nmb__frame *f, nmb_id insn, const nmb__turn *turn, plan *pl)
{
  const nmb_insn *in = &f->p->insn[insn];
  const nmb_op *o = &f->p->op[in->op];
  const nmb_tile *t = turn ? turn->tile : &in->tile;
  const void *of[NMB_MAXOPND] = {NULL};
  nmb__vals v = {.by_table = true};
  nmb__arith arith = {.engine = &f->p->hw->engine[in->engine]};
  if (f->o->arith && nmb__arith_differs(arith.engine)) {
    arith.seed = nmb__hash(&(uint64_t[]){f->o->noise, (uint64_t)f->at.position,
                                         (uint64_t)in->op, (uint64_t)f->p->spec.context},
                           4 * sizeof(uint64_t));
    v.arith = &arith;
  }
  NMB_TRY(read_all(f, pl, t, of));
  bind(f, pl, o, of, &v);
  NMB_TRY(nmb__op_eval(f->run, f->p, in->op, t, &v));
  for (int j = 0; j < pl->n; j++)
    if (pl->item[j].o->write)
      NMB_TRY(write_item(f, &pl->item[j], v.out[pl->item[j].full.arg - o->nin]));
  for (int j = 0; j < pl->n; j++)
    forget(f, &pl->item[j].part);
  return NMB_OK;
}

/* New rows go into the cache as they come, in the cache's format. */
static nmb_status
append(nmb__frame *f, nmb_id insn, nmb_id cache)
{
  const nmb_prog *p = f->p;
  const nmb_insn *in = &p->insn[insn];
  const nmb_operand *from = &in->opnd[0], *to = &in->opnd[1];
  const nmb_tensor *c = &p->tensor[cache];
  if (in->nopnd != 2 || from->write || !to->write)
    return misfit(f, insn, "expected an operand to read and one to write");
  const int64_t d = c->dim[c->rank - 1];
  const int64_t bytes = nmb_dtype_get(p->tensor[from->tensor].dtype)->bits / 8;
  const int64_t total = from->rows * from->row_bytes / (bytes ? bytes : 1);
  const int64_t row = nmb_bytes(c->dtype, c->group, d);
  if (!plain(&p->tensor[from->tensor]) || to->offset % row || total % to->rows)
    return fault(f, insn, 1, to->offset, "is no part of a cache");
  float *v = NMB_NEW(f->run, float, total);
  access a = {.insn = insn, .j = 0, .slot = from->slot};
  const int64_t per = total / from->rows, each = total / to->rows;
  for (int64_t k = 0; k < from->rows; k++)
    NMB_TRY(transfer(f, &a, 0, per, from->offset + k * from->stride,
                     v + k * per));
  a = (access){.insn = insn, .j = 1, .slot = to->slot, .write = true};
  for (int64_t k = 0; k < to->rows; k++)
    NMB_TRY(transfer(f, &a, 0, each, to->offset + k * to->stride, v + k * each));
  mix(f, insn, v, (size_t)total * item_size(), to->offset);
  return NMB_OK;
}

nmb_status
nmb__func_exec(nmb__frame *f, nmb_id insn, const nmb__turn *turn)
{
  const nmb_insn *in = &f->p->insn[insn];
  const nmb_op *o = &f->p->op[in->op];
  const size_t mark = nmb__run_mark(f->run);
  plan pl;
  nmb_status st;
  if (o->code == NMB_OP_KVAPPEND)
    st = append(f, insn, o->out[0]);
  else {
    st = plan_items(f, insn, turn, &pl);
    if (st == NMB_OK && f->p->hw->engine[in->engine].in_memory)
      st = check_lanes(f, insn);
    if (st == NMB_OK)
      st = compute(f, insn, turn, &pl);
  }
  if (st == NMB_OK)
    nmb__run_release(f->run, mark);
  return st;
}

/* ---------------------------------------------------------------------- moves */
static nmb_status
move_rows(nmb__frame *f, nmb_id insn, int64_t copy)
{
  const nmb_insn *in = &f->p->insn[insn];
  const nmb_operand *from = &in->opnd[0], *to = &in->opnd[1];
  const int64_t n = from->rows * from->row_bytes;
  uint8_t *v = nmb_alloc(f->run, (size_t)n + 1, 1);
  access a = {.insn = insn, .j = 0, .slot = from->slot};
  for (int64_t k = 0; k < from->rows; k++)
    NMB_TRY(move_bytes(f, &a, from->offset + k * from->stride, from->row_bytes,
                       v + k * from->row_bytes));
  if (to->rows * to->row_bytes != n)
    return misfit(f, insn, "reads and writes different numbers of bytes");
  a = (access){.insn = insn, .j = 1, .slot = to->slot, .copy = copy, .write = true};
  for (int64_t k = 0; k < to->rows; k++)
    NMB_TRY(move_bytes(f, &a, to->offset + k * to->stride, to->row_bytes,
                       v + k * to->row_bytes));
  return NMB_OK;
}

nmb_status
nmb__func_move(nmb__frame *f, nmb_id insn)
{
  const nmb_prog *p = f->p;
  const nmb_insn *in = &p->insn[insn];
  const nmb_id from = in->opnd[0].tensor, to = in->opnd[1].tensor; /* roots */
  const size_t mark = nmb__run_mark(f->run);
  nmb_status st = NMB_OK;
  if (in->nopnd != 2)
    return misfit(f, insn, "expected an operand to read and one to write");
  if (p->tensor[from].dtype != p->tensor[to].dtype)
    st = append(f, insn, to);
  else {
    const int64_t copies = in->kind == NMB_INSN_BCAST ? f->spot[in->opnd[1].slot].copies : 1;
    for (int64_t c = in->kind == NMB_INSN_BCAST; c < copies && st == NMB_OK; c++)
      st = move_rows(f, insn, c);
  }
  nmb__run_release(f->run, mark);
  return st;
}
