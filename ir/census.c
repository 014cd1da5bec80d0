/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Counts of emitted code. */
#include <stdlib.h>

#include "base/run.h"
#include "ir/census.h"

int64_t
nmb__insn_bytes(const nmb_insn *in)
{
  return 8 + (in->kind == NMB_INSN_EXEC ? 32 : 0) + (in->place.nchannel ? 24 : 0) +
         24 * in->nopnd + 4 * in->nwait;
}

/* A rectangle that some instruction touched.  Those of one class (tensor, direction,
 * stride, rows) differ in columns only, so that their union is one of intervals. */
typedef struct piece {
  nmb_id tensor, block; /* block: whose code it is, which need not be the tensor's */
  int write;
  int64_t stride, row, rows; /* a dense piece: 0, 0, 1 */
  int64_t lo, hi;            /* bytes within a row */
} piece;

static int
compare(int64_t a, int64_t b)
{
  return a < b ? -1 : a > b;
}

static int
by_class(const void *a, const void *b)
{
  const piece *x = a, *y = b;
  int c = compare(x->tensor, y->tensor);
  c = c ? c : compare(x->block, y->block);
  c = c ? c : compare(x->write, y->write);
  c = c ? c : compare(x->stride, y->stride);
  c = c ? c : compare(x->row, y->row);
  c = c ? c : compare(x->rows, y->rows);
  c = c ? c : compare(x->lo, y->lo);
  return c ? c : compare(x->hi, y->hi);
}

static bool
same_class(const piece *x, const piece *y)
{
  return x->tensor == y->tensor && x->block == y->block && x->write == y->write && x->stride == y->stride &&
         x->row == y->row && x->rows == y->rows;
}

static piece
piece_of(const nmb_operand *o, nmb_id block)
{
  piece x = {.tensor = o->tensor, .block = block, .write = o->write, .rows = 1};
  if (o->rows == 1 || o->stride == o->row_bytes || o->stride == 0) {
    x.lo = o->offset;
    x.hi = o->offset + (o->stride == 0 ? 1 : o->rows) * o->row_bytes;
    return x;
  }
  x.stride = o->stride;
  x.row = o->offset / o->stride;
  x.rows = o->rows;
  x.lo = o->offset % o->stride;
  x.hi = x.lo + o->row_bytes;
  return x;
}

/* Bytes of each tensor that a block touches, repeated as the block is, by role. */
static void
add_once(const nmb_prog *p, piece *v, int n, nmb__census *c)
{
  qsort(v, (size_t)n, sizeof *v, by_class);
  for (int i = 0; i < n;) {
    int64_t bytes = 0, end = INT64_MIN;
    const piece *head = &v[i];
    for (; i < n && same_class(head, &v[i]); i++) {
      const int64_t lo = v[i].lo > end ? v[i].lo : end;
      if (v[i].hi > lo) {
        bytes += v[i].hi - lo;
        end = v[i].hi;
      }
    }
    const nmb_tensor *t = &p->tensor[head->tensor];
    const double sum = (double)(bytes * head->rows) * (double)p->block[head->block].repeat;
    if (t->role == NMB_ROLE_WEIGHT)
      c->weight_bytes_once += sum;
    else if (t->role == NMB_ROLE_KV && head->write)
      c->kv_bytes_written_once += sum;
    else if (t->role == NMB_ROLE_KV)
      c->kv_bytes_read_once += sum;
    else if (head->write)
      c->state_bytes_written_once += sum;
    else
      c->state_bytes_read_once += sum;
  }
}

void
nmb__code_census(nmb_run *run, const nmb_prog *p, nmb__census *c)
{
  int nopnd = 0, n = 0;
  *c = (nmb__census){0};
  for (int i = 0; i < p->ninsn; i++)
    nopnd += p->insn[i].nopnd;
  piece *v = NMB_NEW(run, piece, nopnd + 1);
  for (int i = 0; i < p->ninsn; i++) {
    const nmb_insn *in = &p->insn[i];
    const double repeat = (double)p->block[in->block].repeat;
    c->instructions += repeat;
    c->code_bytes += nmb__insn_bytes(in);
    if (in->kind == NMB_INSN_EXEC)
      c->macs += repeat * (double)nmb_op_macs(p, in->op, &in->tile);
    for (int j = 0; j < in->nopnd; j++) {
      const nmb_operand *o = &in->opnd[j];
      const nmb_role role = p->tensor[o->tensor].role;
      const double bytes = repeat * (double)(o->rows * o->row_bytes);
      c->bytes[o->mem][role] += bytes;
      if (role == NMB_ROLE_WEIGHT)
        c->weight_bytes_moved += bytes;
      else if (role == NMB_ROLE_KV && o->write)
        c->kv_bytes_written_moved += bytes;
      else if (role == NMB_ROLE_KV)
        c->kv_bytes_read_moved += bytes;
      if (nmb_tensor_resident(&p->tensor[o->tensor]))
        v[n++] = piece_of(o, in->block);
    }
  }
  add_once(p, v, n, c);
}
