/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Verifier of the mapping: tiles and layouts. */
#include <inttypes.h>

#include "ir/lower.h"
#include "ir/verify.h"

/* -------------------------------------------------------------------- tiles */
static int64_t
most(int64_t a, int64_t b)
{
  return a > b ? a : b;
}

/* Tiles follow one another from 0 to the extent, the last one cut: they cover it
 * exactly once whatever their size, so only the size has to be sound. */
static nmb_status
check_tile(nmb_run *run, const nmb_prog *p, nmb_id kernel, const char *axis, int64_t tile,
           int64_t extent)
{
  if (tile >= 0 && tile <= extent)
    return NMB_OK;
  return nmb_fail(run, NMB_UNVERIFIED, NMB_NOLOC,
                  "%s has a tile of %" PRId64 " along %s, expected 0 to %" PRId64,
                  nmb__kernel_text(run, p, kernel), tile, axis, extent);
}

static nmb_status
check_map(nmb_run *run, const nmb_prog *p, nmb_id id)
{
  const nmb_map *m = &p->map[id];
  const nmb_kernel *k = &p->kernel[id];
  if (m->kernel != id)
    return nmb_fail(run, NMB_UNVERIFIED, NMB_NOLOC,
                    "row %d of the mapping is of kernel %d, expected kernel %d", (int)id,
                    (int)m->kernel, (int)id);
  nmb_space s = {0};
  for (int i = 0; i < k->nop; i++) {
    const nmb_space o = nmb_op_space(p, k->op[i]);
    s = (nmb_space){most(s.b, o.b), most(s.m, o.m), most(s.n, o.n), most(s.k, o.k)};
  }
  NMB_TRY(check_tile(run, p, id, "b", m->tile_b, s.b));
  NMB_TRY(check_tile(run, p, id, "m", m->tile_m, s.m));
  NMB_TRY(check_tile(run, p, id, "n", m->tile_n, s.n));
  if (m->reuse < 1)
    return nmb_fail(run, NMB_UNVERIFIED, NMB_NOLOC,
                    "%s has a reuse of %" PRId64 ", expected at least 1",
                    nmb__kernel_text(run, p, id), m->reuse);
  const nmb__work w = nmb__work_of(p, id);
  const nmb_id local = p->hw->engine[k->engine].local;
  const int64_t bytes = nmb__inner_bytes(&w, m),
                room = local == NMB_NONE ? 0 : p->hw->mem[local].bytes;
  if (bytes > room)
    return nmb_fail(run, NMB_UNVERIFIED, NMB_NOLOC,
                    "a tile of the inner values of %s takes %" PRId64
                    " bytes, but %s has %" PRId64,
                    nmb__kernel_text(run, p, id), bytes,
                    local == NMB_NONE ? "its engine" : p->hw->mem[local].name, room);
  return NMB_OK;
}

/* ------------------------------------------------------------------ layouts */
/* Who reads resident tensors where: a bit per memory, for engines that compute in
 * it and for all, by root. */
typedef struct readers {
  uint32_t *all, *in_memory;
} readers;

static readers
find_readers(nmb_run *run, const nmb_prog *p)
{
  readers r = {NMB_NEW(run, uint32_t, p->ntensor), NMB_NEW(run, uint32_t, p->ntensor)};
  for (int k = 0; k < p->nkernel; k++) {
    const nmb_engine *e = &p->hw->engine[p->kernel[k].engine];
    for (int i = 0; i < p->kernel[k].nop; i++) {
      const nmb_op *o = &p->op[p->kernel[k].op[i]];
      for (int j = 0; j < o->nin; j++) {
        const nmb_id root = nmb_tensor_root(p, o->in[j]);
        r.all[root] |= NMB_BIT(e->resident);
        if (e->in_memory && nmb_op_get(o->code)->class_ == NMB_CLASS_MAC)
          r.in_memory[root] |= NMB_BIT(e->resident);
      }
    }
  }
  return r;
}

static nmb_status
layout_fail(nmb_run *run, const nmb_prog *p, const nmb_layout *l, const char *what,
            int64_t found, const char *than, int64_t expected)
{
  return nmb_fail(run, NMB_UNVERIFIED, p->tensor[l->tensor].loc,
                  "layout of %%%s of block %s in %s: %s: found %" PRId64
                  ", expected %s%" PRId64,
                  p->tensor[l->tensor].name, p->block[p->tensor[l->tensor].block].name,
                  p->hw->mem[l->mem].name, what, found, than, expected);
}

/* Row r lies in unit r / unit_rows, on a lane of that unit: with whole units, some
 * lanes and room for all rows, every byte has one place. */
static nmb_status
check_rows(nmb_run *run, const nmb_prog *p, const nmb_layout *l)
{
  const nmb_tensor *t = &p->tensor[l->tensor];
  const nmb_mem *m = &p->hw->mem[l->mem];
  const nmb__shape s = nmb__shape_of(p, l->tensor);
  if (l->unit_rows < 1 || s.units * s.rows % l->unit_rows != 0)
    return layout_fail(run, p, l, "rows of a unit", l->unit_rows, "a divisor of ",
                       s.units * s.rows);
  if (l->channels < 1 || l->channels > m->channels)
    return layout_fail(run, p, l, "channels of a unit", l->channels, "1 to ",
                       m->channels);
  int64_t bytes = nmb_tensor_bytes(t);
  if (l->padded) {
    if (m->page_bytes < 1)
      return layout_fail(run, p, l, "padded rows in a memory with pages of",
                         m->page_bytes, "at least ", 1);
    const int64_t row = nmb_bytes(t->dtype, t->group, s.row);
    bytes =
        s.units * s.rows * ((row + m->page_bytes - 1) / m->page_bytes) * m->page_bytes;
  }
  if (l->bytes < bytes)
    return layout_fail(run, p, l, "bytes", l->bytes, "at least ", bytes);
  return NMB_OK;
}

static nmb_status
check_layout(nmb_run *run, const nmb_prog *p, const nmb_layout *l, const readers *r)
{
  if (l->tensor < 0 || l->tensor >= p->ntensor || l->mem < 0 || l->mem >= p->hw->nmem)
    return nmb_fail(run, NMB_UNVERIFIED, NMB_NOLOC,
                    "a layout names tensor %d of %d in memory %d of %d", (int)l->tensor,
                    p->ntensor, (int)l->mem, p->hw->nmem);
  const nmb_tensor *t = &p->tensor[l->tensor];
  if (nmb_tensor_root(p, l->tensor) != l->tensor || !nmb_tensor_resident(t))
    return nmb_fail(run, NMB_UNVERIFIED, t->loc,
                    "layout of %%%s of block %s, which is no weight, cache or state",
                    t->name, p->block[t->block].name);
  if (!(r->all[l->tensor] & NMB_BIT(l->mem)))
    return nmb_fail(
        run, NMB_UNVERIFIED, t->loc,
        "layout of %%%s of block %s in %s, where no engine that uses it has its "
        "residents",
        t->name, p->block[t->block].name, p->hw->mem[l->mem].name);
  if (l->kind == NMB_LAY_LINEAR && (r->in_memory[l->tensor] & NMB_BIT(l->mem)))
    return nmb_fail(
        run, NMB_UNVERIFIED, t->loc,
        "layout of %%%s of block %s in %s is linear, but an engine computes there",
        t->name, p->block[t->block].name, p->hw->mem[l->mem].name);
  return check_rows(run, p, l);
}

static nmb_status
check_layouts(nmb_run *run, const nmb_prog *p)
{
  const readers r = find_readers(run, p);
  uint32_t *seen = NMB_NEW(run, uint32_t, p->ntensor);
  int64_t *used = NMB_NEW(run, int64_t, p->hw->nmem);
  for (int i = 0; i < p->nlayout; i++) {
    const nmb_layout *l = &p->layout[i];
    NMB_TRY(check_layout(run, p, l, &r));
    const nmb_tensor *t = &p->tensor[l->tensor];
    const int64_t repeat = p->block[t->block].repeat, room = p->hw->mem[l->mem].bytes;
    if (seen[l->tensor] & NMB_BIT(l->mem))
      return nmb_fail(run, NMB_UNVERIFIED, t->loc,
                      "%%%s of block %s has two layouts in %s", t->name,
                      p->block[t->block].name, p->hw->mem[l->mem].name);
    seen[l->tensor] |= NMB_BIT(l->mem);
    if (l->bytes > (room - used[l->mem]) / repeat)
      return nmb_fail(run, NMB_UNVERIFIED, t->loc,
                      "layouts up to %%%s of block %s take more than the %" PRId64
                      " bytes of %s: %" PRId64 " and %" PRId64 " layers of %" PRId64,
                      t->name, p->block[t->block].name, room, p->hw->mem[l->mem].name,
                      used[l->mem], repeat, l->bytes);
    used[l->mem] += l->bytes * repeat;
  }
  return NMB_OK;
}

nmb_status
nmb__verify_mapping(nmb_run *run, const nmb_prog *p)
{
  if (p->nmap != p->nkernel)
    return nmb_fail(run, NMB_UNVERIFIED, NMB_NOLOC,
                    "%d kernels have a mapping, expected all %d", p->nmap, p->nkernel);
  for (int i = 0; i < p->nmap; i++)
    NMB_TRY(check_map(run, p, i));
  return check_layouts(run, p);
}
