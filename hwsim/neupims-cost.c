/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Products on HBM2 with NeuPIMs' composite commands, issued one after another.
 *
 *   PIM_HEADER       tells the banks what follows
 *   GWRITE           a burst of the input into the channel's buffer
 *   G_ACT            opens a row in four banks; the next four follow an activation window
 *                    later, the ranks side by side
 *   COMPS_READRES    all products of the row and, after the last of a column, its sums
 *   PIM_PRECHARGE    closes the rows
 * Rows of products lie in a row buffer of their own, so refresh is the only thing that
 * breaks in; it waits for a row to be done. */
#include <string.h>

#include "hwsim/pim.h"
#include "nmbench/nmb_hw.h"

enum { BANKS_AT_A_TIME = 4, RANKS = 2 };

typedef struct stream {
  const nmb_watch *watch;
  double *t; /* cycles by cause */
  int64_t now, precharged, due;
  int64_t rcd, rp, rtp, ccd, window, groups, fill, read, turn, drain, rfc, refi;
} stream;

/* n commands from tick `at`; the time since the one before is of `cause`. */
static void
issue(stream *s, const char *name, int64_t at, int64_t n, int64_t step, int64_t row,
      nmb_cause cause)
{
  if (at <= s->now)
    at = s->now + 1;
  if (s->watch)
    s->watch->command(s->watch->arg, &(nmb_command){name, at, n, step, row, false});
  s->t[cause] += (double)(at + (n - 1) * step - s->now);
  s->now = at + (n - 1) * step;
}

static void
refresh(stream *s)
{
  while (s->refi > 0 && s->now >= s->due) {
    issue(s, "REFab", s->precharged + s->rp, 1, 0, -1, NMB_CAUSE_REFRESH);
    s->t[NMB_CAUSE_REFRESH] += (double)(s->rfc - 1);
    s->now += s->rfc - 1;
    s->due += s->refi;
  }
}

/* `n` bursts of one page. */
static void
page(stream *s, int64_t row, int64_t n, bool last)
{
  refresh(s);
  const int64_t ranks = s->groups > 1 ? RANKS : 1, slots = (s->groups + ranks - 1) / ranks;
  const int64_t first =
      s->precharged + s->rp > s->now + 1 ? s->precharged + s->rp : s->now + 1;
  for (int64_t i = 0; i < slots; i++) {
    issue(s, "G_ACT", first + i * s->window, 1, 0, row, NMB_CAUSE_ROW);
    if (s->groups > 1)
      issue(s, "G_ACT", 0, 1, 0, row, NMB_CAUSE_ROW);
  }
  const int64_t opened = first + (slots - 1) * s->window;
  issue(s, "COMPS_READRES", opened + s->rcd, 1, 0, row, NMB_CAUSE_ROW);
  s->t[NMB_CAUSE_COMPUTE] += (double)((n - 1) * s->ccd);
  s->now += (n - 1) * s->ccd;
  const int64_t end = s->now;
  if (last) {
    s->t[NMB_CAUSE_BUS] += (double)s->read;
    s->now += s->read;
  }
  issue(s, "PIM_PRECHARGE", end + s->rtp, 1, 0, row, NMB_CAUSE_ROW);
  s->precharged = s->now;
}

static void
product(stream *s, const nmb_place *l, int64_t slab, int64_t per_page)
{
  const bool packed = l->opens > 0 && l->opens < l->rows_per_bank * l->pages;
  for (int64_t b = 0; b < l->bursts; b += slab) {
    const int64_t size = b + slab < l->bursts ? slab : l->bursts - b;
    issue(s, "PIM_HEADER", s->now + 1, 1, 0, -1, NMB_CAUSE_LAUNCH);
    issue(s, "GWRITE", s->now + 1, size, s->fill, -1, NMB_CAUSE_BUS);
    s->t[NMB_CAUSE_BUS] += (double)s->turn;
    s->now += s->turn;
    for (int64_t c = 0; c < l->rows_per_bank; c++) {
      int64_t at = (packed ? c * l->bursts : c * l->pages * per_page) + b, n;
      for (int64_t left = size; left > 0; left -= n, at += n) {
        const int64_t room = per_page - at % per_page;
        n = left < room ? left : room;
        page(s, at / per_page, n, left == n);
      }
    }
  }
}

void
nmb__neupims_cost(const nmb_prog *p, const nmb_insn *in, const nmb_watch *watch,
                  double *cycles)
{
  const nmb_engine *e = &p->hw->engine[in->engine];
  const nmb_mem *m = &p->hw->mem[e->resident];
#define CYCLES(name) ((int64_t)nmb_param_get(e, name))
  stream s = {.watch = watch,
              .t = cycles,
              .rcd = CYCLES("rcd"),
              .rp = CYCLES("rp"),
              .rtp = CYCLES("rtp"),
              .ccd = CYCLES("ccd"),
              .fill = CYCLES("fill"),
              .read = CYCLES("read"),
              .turn = CYCLES("turn"),
              .drain = CYCLES("drain"),
              .rfc = CYCLES("rfc"),
              .precharged = -CYCLES("rp"),
              .groups = (m->banks + BANKS_AT_A_TIME - 1) / BANKS_AT_A_TIME};
  const int64_t slots = s.groups > RANKS ? s.groups / RANKS : 1;
  s.window = slots > 1 ? CYCLES("act-spread") / (slots - 1) : 0;
  s.refi = nmb_param_get(e, "refresh") != 0 ? CYCLES("refi") : 0;
  s.due = s.refi;
  const int64_t slab = CYCLES("global-buffer") / m->burst_bytes;
#undef CYCLES
  memset(cycles, 0, NMB_NCAUSE * sizeof *cycles);
  for (int64_t v = 0; v < in->place.vectors; v++)
    product(&s, &in->place, slab > 0 ? slab : 1, m->page_bytes / m->burst_bytes);
  s.t[NMB_CAUSE_BUS] += (double)s.drain;
}
