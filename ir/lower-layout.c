/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Where the bytes of a resident tensor lie: layouts and their sizes. */
#include "base/run.h"
#include "ir/lower.h"

/* Is it a cache that only pv reads?  Such a cache is stored transposed. */
static bool
is_values(const nmb_prog *p, nmb_id root)
{
  bool pv = false;
  const nmb_tensor *t = &p->tensor[root];
  const int end = t->lent ? p->nblock : t->block + 1;
  for (int b = t->block; b < end; b++)
    for (int i = 0; i < p->block[b].nop; i++) {
      const nmb_op *o = &p->op[p->block[b].op[i]];
      for (int j = 0; j < o->nin; j++)
        if (nmb_tensor_root(p, o->in[j]) == root) {
          if (o->code == NMB_OP_QK || o->code == NMB_OP_LINEAR)
            return false;
          pv |= o->code == NMB_OP_PV;
        }
    }
  return pv;
}

nmb__shape
nmb__shape_of(const nmb_prog *p, nmb_id tensor)
{
  const nmb_tensor *t = &p->tensor[nmb_tensor_root(p, tensor)];
  const int64_t last = t->dim[t->rank - 1];
  if (t->rank == 4 && t->role == NMB_ROLE_STATE) /* [B,h,dv,dk]: a unit is a head */
    return (nmb__shape){t->dim[0] * t->dim[1], t->dim[2], last};
  if (t->rank == 4) { /* [B,S,h,d]: a unit is a head of a sequence */
    const int64_t units = t->dim[0] * t->dim[2], s = t->dim[1];
    return is_values(p, nmb_tensor_root(p, tensor)) ? (nmb__shape){units, last, s}
                                                    : (nmb__shape){units, s, last};
  }
  if (t->rank == 3)
    return (nmb__shape){t->dim[0], t->dim[1], last};
  return (nmb__shape){1, nmb_tensor_count(t) / last, last};
}

void
nmb_layout_make(const nmb_prog *p, nmb_id tensor, nmb_id mem, nmb_lay_kind kind,
                int channels, bool padded, nmb_layout *out)
{
  const nmb_id root = nmb_tensor_root(p, tensor);
  const nmb_tensor *t = &p->tensor[root];
  const nmb_mem *m = &p->hw->mem[mem];
  const nmb__shape s = nmb__shape_of(p, root);
  if (kind == NMB_LAY_LINEAR || m->page_bytes == 0)
    padded = false;
  channels = kind == NMB_LAY_LINEAR || channels < 1 ? 1 : channels;
  channels = channels < m->channels ? channels : m->channels;
  int64_t bytes = nmb__storage_bytes(t);
  if (padded) {
    const int64_t row = nmb_bytes(t->dtype, t->group, s.row);
    bytes =
        s.units * s.rows * ((row + m->page_bytes - 1) / m->page_bytes) * m->page_bytes;
  }
  *out = (nmb_layout){root, mem, kind, s.rows, channels, padded, bytes};
}

void
nmb_layout_of(const nmb_prog *p, nmb_id tensor, nmb_id mem, nmb_layout *out)
{
  const nmb_id root = nmb_tensor_root(p, tensor);
  for (int i = 0; i < p->nlayout; i++)
    if (p->layout[i].tensor == root && p->layout[i].mem == mem) {
      *out = p->layout[i];
      return;
    }
  const nmb_mem *m = &p->hw->mem[mem];
  const bool banked = m->channels * m->banks > 1;
  int channels = m->channels;
  if (p->tensor[root].rank == 4) { /* a cache: units side by side */
    const int64_t units = nmb__shape_of(p, root).units;
    channels = units >= channels ? 1 : (int)(channels / units);
  }
  nmb_layout_make(p, root, mem, banked ? NMB_LAY_BLOCKED : NMB_LAY_LINEAR, channels,
                  false, out);
}
