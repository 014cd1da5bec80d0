/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Simulated memories, and where the bytes of slots lie in them. */
#include "config.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/run.h"
#include "ir/func-mem.h"

/* ----------------------------------------------------------------- memories */
static void *
map(int64_t bytes)
{
  void *at = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return at == MAP_FAILED ? NULL : at;
}

/* Pages that are never touched take no room. */
nmb_status
nmb__bytes_open(nmb_run *run, nmb__bytes *m, int64_t n)
{
  *m = (nmb__bytes){.n = n};
  if (n == 0)
    return NMB_OK;
  m->at = n < INT64_MAX / 4 ? map(n) : NULL;
  m->tag = m->at ? map(n * (int64_t)sizeof *m->tag) : NULL;
  if (m->tag)
    return NMB_OK;
  nmb__bytes_close(m);
  return nmb_fail(run, NMB_OOM, NMB_NOLOC, "a memory of %lld bytes: %s", (long long)n,
                  strerror(errno));
}

void
nmb__bytes_close(nmb__bytes *m)
{
  if (m->at)
    munmap(m->at, (size_t)m->n);
  if (m->tag)
    munmap(m->tag, (size_t)m->n * sizeof *m->tag);
  *m = (nmb__bytes){0};
}

/* -------------------------------------------------------------------- lanes */
int
nmb__lane_input(const nmb_op *o)
{
  if (o->code == NMB_OP_SCAN)
    return 3; /* its state */
  return nmb_op_get(o->code)->class_ == NMB_CLASS_MAC && o->nin > 1 ? 1 : NMB_NONE;
}

/* Is the tensor's root multiplied by an engine in this memory? */
static bool
multiplied(const nmb_prog *p, nmb_id root, nmb_id mem, nmb_id kernel)
{
  const nmb_kernel *k = &p->kernel[kernel];
  const nmb_engine *e = &p->hw->engine[k->engine];
  if (k->engine == NMB_NONE || !e->in_memory || e->resident != mem ||
      (k->block != p->tensor[root].block && !p->tensor[root].lent))
    return false;
  for (int i = 0; i < k->nop; i++) {
    const int w = nmb__lane_input(&p->op[k->op[i]]);
    if (w != NMB_NONE && nmb_tensor_root(p, p->op[k->op[i]].in[w]) == root)
      return true;
  }
  return false;
}

/* Units of a cache are dealt to channels part by part where its readers go by heads. */
static nmb_status
parts_of(nmb_run *run, const nmb_prog *p, nmb_id root, nmb_id mem, int *parts)
{
  *parts = 0;
  for (int s = 0; s < p->nstep; s++) {
    const nmb_step *t = &p->step[s];
    if (!multiplied(p, root, mem, t->kernel) ||
        nmb_op_rowkind(p, p->kernel[t->kernel].op[0]) != NMB_ROWS_UNIT)
      continue;
    const int n = t->axis == NMB_AXIS_HEAD ? t->nparts : 1;
    if (*parts && *parts != n)
      return nmb_fail(run, NMB_UNVERIFIED, p->tensor[root].loc,
                      "%%%s of block %s is dealt to channels in %d parts by one step, in "
                      "%d by another",
                      p->tensor[root].name, p->block[p->tensor[root].block].name, *parts,
                      n);
    *parts = n;
  }
  *parts = *parts ? *parts : 1;
  return NMB_OK;
}

static int64_t
dealt(const nmb_prog *p, const nmb__spot *s, int parts, int64_t unit)
{
  const int64_t batch = p->spec.batch, per = s->units / batch;
  if (parts < 2 || s->units % batch || per % parts)
    return unit;
  const int64_t each = per / parts, seq = unit / per, head = unit % per;
  const int64_t part = head / each;
  return part * each * batch + seq * each + head % each;
}

static int32_t
lane_of(const nmb_layout *l, const nmb_mem *m, int64_t unit, int64_t row)
{
  const int64_t split = l->channels, lanes = split * m->banks,
                wave = m->channels / split;
  const int64_t share = (l->unit_rows + lanes - 1) / lanes;
  const int64_t in = l->kind == NMB_LAY_INTERLEAVED ? row % lanes : row / share;
  return (int32_t)(unit % wave * split * m->banks + in);
}

/* Bytes of row r as the tensor counts them. */
static int64_t
row_start(const nmb_tensor *t, const nmb__spot *s, int64_t row, int64_t r)
{
  return s->row_bytes ? r * s->row_bytes : nmb_bytes(t->dtype, t->group, r * row);
}

static void
deal(nmb_run *run, const nmb_prog *p, const nmb_layout *l, const nmb__shape *sh,
     int parts, nmb__spot *s)
{
  const nmb_mem *m = &p->hw->mem[l->mem];
  const nmb_tensor *t = &p->tensor[l->tensor];
  const int64_t n = sh->units * sh->rows, lanes = (int64_t)m->channels * m->banks;
  const int64_t pitch = nmb_bytes(t->dtype, t->group, sh->row);
  int64_t *fill = NMB_NEW(run, int64_t, lanes + 1);
  s->start = NMB_NEW(run, int64_t, n + 1);
  s->lane = NMB_NEW(run, int32_t, n + 1);
  if (!s->row_bytes && !s->transposed) {
    s->offset = NMB_NEW(run, int64_t, n + 1);
    for (int64_t r = 0; r <= n; r++)
      s->offset[r] = row_start(t, s, sh->row, r);
  }
  for (int pass = 0; pass < 2; pass++) {
    for (int64_t r = 0; r < n; r++) {
      const int64_t u = l->unit_rows == sh->rows ? dealt(p, s, parts, r / sh->rows)
                                                 : r / l->unit_rows;
      const int32_t lane = lane_of(l, m, u, r % l->unit_rows);
      int64_t bytes = s->offset ? s->offset[r + 1] - s->offset[r] : pitch;
      if (l->padded)
        bytes = (pitch + m->page_bytes - 1) / m->page_bytes * m->page_bytes;
      s->lane[r] = lane;
      s->start[r] = fill[lane];
      fill[lane] += bytes;
    }
    if (pass == 0) /* lanes one after another: counts become starts */
      for (int64_t i = 0, at = 0; i < lanes; i++) {
        const int64_t bytes = fill[i];
        fill[i] = at;
        at += bytes;
      }
  }
}

/* ------------------------------------------------------------------- slots */
static nmb_status
place(nmb_run *run, const nmb_prog *p, const nmb_slot *slot, nmb__spot *s)
{
  const nmb_tensor *t = &p->tensor[slot->tensor];
  const nmb__shape sh = nmb__shape_of(p, slot->tensor);
  const int64_t last = t->dim[t->rank - 1];
  nmb_layout l;
  int parts;
  NMB_TRY(parts_of(run, p, slot->tensor, slot->mem, &parts));
  nmb_layout_of(p, slot->tensor, slot->mem, &l);
  if (l.kind == NMB_LAY_LINEAR)
    return NMB_OK;
  s->units = sh.units;
  s->rows = sh.rows;
  s->row_bytes = nmb_bytes(t->dtype, t->group, last);
  if (t->rank == 4 && t->role != NMB_ROLE_STATE) {
    s->h = t->dim[2];
    s->S = t->dim[1];
    s->transposed = sh.row != last || sh.rows != s->S;
    s->item = nmb_dtype_get(t->dtype)->bits / 8;
    if (s->transposed && (nmb_dtype_get(t->dtype)->scale_bits || s->item < 1))
      return nmb_fail(run, NMB_UNSUPPORTED, t->loc,
                      "%%%s of block %s is stored by component, which %s cannot be",
                      t->name, p->block[t->block].name, nmb_dtype_get(t->dtype)->name);
  } else if (s->row_bytes * sh.units * sh.rows != nmb_tensor_bytes(t))
    s->row_bytes = 0;
  s->placed = true;
  deal(run, p, &l, &sh, parts, s);
  return NMB_OK;
}

nmb_status
nmb__spot_make(nmb_run *run, const nmb_prog *p, nmb_id id, nmb__spot *s)
{
  const nmb_slot *slot = &p->slot[id];
  const nmb_tensor *t = &p->tensor[slot->tensor];
  const nmb_mem *m = &p->hw->mem[slot->mem];
  *s = (nmb__spot){.slot = slot, .copies = 1};
  if (slot->resident) {
    s->layer_bytes = slot->bytes / p->block[t->block].repeat;
    s->copy_bytes = s->layer_bytes;
  } else {
    s->copy_bytes = nmb__storage_bytes(t);
    if (m->devices > 1 && !m->local && slot->bytes >= m->devices * s->copy_bytes)
      s->copies = m->devices;
    s->everywhere = t->def == NMB_NONE || nmb__shard_of(p, NULL, slot->tensor) == NMB__WHOLE;
  }
  bool rows = false;
  for (int k = 0; k < p->nkernel && !rows; k++)
    rows = multiplied(p, slot->tensor, slot->mem, k);
  return rows ? place(run, p, slot, s) : NMB_OK;
}

int64_t
nmb__spot_find(const nmb__spot *s, int64_t at, int64_t *run)
{
  if (!s->placed) {
    *run = INT64_MAX;
    return at;
  }
  if (s->transposed) { /* element (b, s, j, c) is number s of row c of unit b * h + j */
    const int64_t e = at / s->item, c = e % s->rows, j = e / s->rows % s->h;
    const int64_t pos = e / s->rows / s->h % s->S, b = e / s->rows / s->h / s->S;
    *run = s->item - at % s->item;
    return s->start[(b * s->h + j) * s->rows + c] + pos * s->item + at % s->item;
  }
  int64_t r, in;
  if (s->row_bytes) {
    r = at / s->row_bytes;
    in = at % s->row_bytes;
    *run = s->row_bytes - in;
    if (s->h) /* row (b, s, j) is row s of unit b * h + j */
      r = (r / s->h / s->S * s->h + r % s->h) * s->rows + r / s->h % s->S;
  } else {
    int64_t lo = 0, hi = s->units * s->rows; /* offset[lo] <= at < offset[hi] */
    while (hi - lo > 1) {
      const int64_t mid = (lo + hi) / 2;
      if (s->offset[mid] <= at)
        lo = mid;
      else
        hi = mid;
    }
    r = lo;
    in = at - s->offset[r];
    *run = s->offset[r + 1] - at;
  }
  return s->start[r] + in;
}
