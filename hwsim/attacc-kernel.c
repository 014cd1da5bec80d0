/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Requests of attention on HBM3-PIM: the order of AttAcc's artifact.
 *
 * A channel works on one head at a time; heads of two rounds form a pair whose scores,
 * softmax and context overlap.  Keys: positions over pseudo-channels, ranks and bank
 * groups, the elements of a head over what is left; values the other way.  Sixteen
 * positions make a block, and blocks are kept apart by barriers. */
#include "hwsim/attacc.h"

#include <string.h>

enum { PSEUDO = 2, RANKS = 2, GROUPS = 4, BANKS = 4, CHANNELS = 16, COLUMNS = 32,
       LANES = 16, BLOCK = 16, ROWS_OF_HEAD = 8, ROW_OF_VALUES = 8192 };

/* One round: what a channel does for a head, and how many channels have one. */
typedef struct round {
  int64_t valid;
  int64_t nwrgb, nscore, per_score, nmvgb, ncontext, per_context;
  int32_t keys, values; /* first rows */
} round_;

typedef struct maker {
  nmb_run *run;
  nmb__att_level level;
  int64_t len, dim;
  nmb__att_list *out;
} maker;

static int64_t
ceil_div(int64_t a, int64_t b)
{
  return (a + b - 1) / b;
}

static void
put(maker *m, nmb__att_req q)
{
  nmb__att_list *l = m->out;
  if (l->n == l->cap) {
    nmb__att_req *old = l->v;
    l->cap = l->cap ? 2 * l->cap : 1024;
    l->v = NMB_NEW(m->run, nmb__att_req, l->cap);
    if (l->n)
      memcpy(l->v, old, (size_t)l->n * sizeof *old);
  }
  l->v[l->n++] = q;
}

static void
barrier(maker *m)
{
  put(m, (nmb__att_req){.cmd = NMB__ATT_BARRIER});
}

/* The idx-th burst of a matrix that begins in row `first`. */
static void
mac(maker *m, int64_t idx, int32_t first)
{
  nmb__att_req q = {.cmd = NMB__ATT_MAC};
  if (m->level == NMB__ATT_BANK)
    q.row = first + (int32_t)(idx / COLUMNS);
  else if (m->level == NMB__ATT_GROUP) {
    q.bank = (uint8_t)(idx / COLUMNS % BANKS);
    q.row = first + (int32_t)(idx / COLUMNS / BANKS);
  } else {
    const int64_t bank = idx / (GROUPS * RANKS);
    q.rank = (uint8_t)(idx / GROUPS % RANKS);
    q.group = (uint8_t)(idx % GROUPS);
    q.bank = (uint8_t)(bank % BANKS);
    q.row = first + (int32_t)(bank / BANKS / COLUMNS);
  }
  put(m, q);
}

static round_
make_round(const maker *m, int64_t i, int64_t heads)
{
  const int64_t split = m->level == NMB__ATT_BUFFER ? PSEUDO : PSEUDO * RANKS * GROUPS;
  const int64_t lanes = m->level == NMB__ATT_BANK ? BANKS * LANES : LANES;
  round_ r = {.valid = heads < (i + 1) * CHANNELS ? heads % CHANNELS : CHANNELS};
  r.per_score = r.ncontext = ceil_div(m->dim, lanes);
  r.nscore = r.per_context = ceil_div(m->len, split);
  r.nwrgb = m->level == NMB__ATT_BANK ? BANKS * r.per_score : r.per_score;
  r.nmvgb = ceil_div(m->len, split * LANES) *
            (m->level == NMB__ATT_BUFFER ? 1 : RANKS * GROUPS);
  r.keys = (int32_t)i * ROWS_OF_HEAD;
  r.values = r.keys + ROW_OF_VALUES;
  return r;
}

static void
wrgb(maker *m, const round_ *r, int64_t k)
{
  nmb__att_req q = {.cmd = NMB__ATT_WRGB, .row = r->keys};
  if (m->level == NMB__ATT_BANK)
    q.bank = (uint8_t)(k / r->per_score);
  put(m, q);
}

static void
mvgb(maker *m, const round_ *r, int64_t k)
{
  nmb__att_req q = {.cmd = NMB__ATT_MVGB, .row = r->values};
  if (m->level != NMB__ATT_BUFFER) {
    const int64_t group = k / (r->nmvgb / (RANKS * GROUPS));
    q.rank = (uint8_t)(group / GROUPS);
    q.group = (uint8_t)(group % GROUPS);
  }
  put(m, q);
}

/* A list that is dealt over channels in turn is cut into pieces of `stride` rows; the
 * part of piece j that channel 0 gets. */
static void
piece(maker *m, const round_ *r, int64_t j, int64_t stride, int64_t n,
      void (*one)(maker *, const round_ *, int64_t))
{
  const int64_t all = n * r->valid;
  for (int64_t e = j * stride; e < (j + 1) * stride && e < all; e++)
    if (e % r->valid == 0)
      one(m, r, e / r->valid);
}

static void
score_macs(maker *m, const round_ *r, int64_t block)
{
  for (int64_t n = block * BLOCK; n < (block + 1) * BLOCK && n < r->nscore; n++)
    for (int64_t k = 0; k < r->per_score; k++)
      mac(m, n * r->per_score + k, r->keys);
}

static void
context_macs(maker *m, const round_ *r, int64_t n)
{
  for (int64_t k = 0; k < r->per_context; k++)
    mac(m, n * r->per_context + k, r->values);
}

/* Results to the softmax unit: scores lie over ranks and bank groups, sums of the
 * context over ranks and banks. */
static void
mvsb(maker *m, int32_t row, bool context)
{
  const int wide = m->level == NMB__ATT_BUFFER                ? 1
                   : context && m->level == NMB__ATT_GROUP ? 1
                                                           : 4;
  const int ranks = m->level == NMB__ATT_BUFFER ? 1 : RANKS;
  for (int i = 0; i < wide; i++)
    for (int r = 0; r < ranks; r++) {
      nmb__att_req q = {.cmd = NMB__ATT_MVSB, .rank = (uint8_t)r, .row = row};
      if (context)
        q.bank = (uint8_t)i;
      else
        q.group = (uint8_t)i;
      put(m, q);
    }
}

static void
sfm(maker *m)
{
  put(m, (nmb__att_req){.cmd = NMB__ATT_SFM});
}

/* What goes on beside the MACs of a stage. */
typedef struct beside {
  const round_ *wrgb; /* the next head's query */
  const round_ *soft; /* softmax and probabilities of the other head */
} beside;

static void
beside_mvgb(maker *m, const round_ *r, int64_t j, int64_t length)
{
  if (j < length / 2)
    return;
  const int64_t stride = r->nmvgb * r->valid / ceil_div(length, 2);
  piece(m, r, j - length / 2, stride, r->nmvgb, mvgb);
}

static void
stage(maker *m, const round_ *r, bool context, beside b)
{
  const int64_t length = context ? r->ncontext : ceil_div(r->nscore, BLOCK);
  for (int64_t j = 0; j <= length; j++) {
    const bool more = j < length;
    if (more && context)
      context_macs(m, r, j);
    else if (more)
      score_macs(m, r, j);
    if (j > 0)
      mvsb(m, context ? r->values : r->keys, context);
    if (b.wrgb && more)
      piece(m, b.wrgb, j, b.wrgb->nwrgb * b.wrgb->valid / length, b.wrgb->nwrgb, wrgb);
    if (b.soft && j == 0)
      sfm(m);
    if (b.soft && more)
      beside_mvgb(m, b.soft, j, length);
    if (more)
      barrier(m);
  }
}

static void
query(maker *m, const round_ *r, bool open)
{
  for (int64_t k = 0; k < r->nwrgb; k++)
    wrgb(m, r, k);
  if (open) /* one MAC opens the first row */
    mac(m, 0, r->keys);
  barrier(m);
}

static void
pair(maker *m, const round_ *a, const round_ *b, bool first)
{
  query(m, a, first);
  stage(m, a, false, (beside){.wrgb = b});
  stage(m, b, false, (beside){.soft = a});
  stage(m, a, true, (beside){.soft = b});
  stage(m, b, true, (beside){0});
}

static void
alone(maker *m, const round_ *r)
{
  query(m, r, false);
  stage(m, r, false, (beside){0});
  sfm(m);
  for (int64_t k = 0; k < r->nmvgb; k++)
    mvgb(m, r, k);
  barrier(m);
  stage(m, r, true, (beside){0});
}

void
nmb__att_attention(nmb_run *run, nmb__att_level level, int64_t heads, int64_t len,
                   int64_t dim, nmb__att_list *out)
{
  maker m = {run, level, len, dim, out};
  const int64_t rounds = ceil_div(heads, CHANNELS);
  for (int64_t i = 0; i + 1 < rounds; i += 2) {
    const round_ a = make_round(&m, i, heads), b = make_round(&m, i + 1, heads);
    pair(&m, &a, &b, i == 0);
  }
  if (rounds % 2) {
    const round_ r = make_round(&m, rounds - 1, heads);
    alone(&m, &r);
  }
}

void
nmb__att_gemv(nmb_run *run, nmb__att_level level, int64_t rows, int64_t bursts,
              int64_t vectors, nmb__att_list *out)
{
  maker m = {run, level, 0, 0, out};
  /* banks that share a multiplier take turns */
  rows *= level == NMB__ATT_BANK    ? 1
          : level == NMB__ATT_GROUP ? BANKS
                                    : RANKS * GROUPS * BANKS;
  for (int64_t v = 0; v < vectors; v++) {
    for (int64_t b = 0; b < bursts; b++)
      put(&m, (nmb__att_req){.cmd = NMB__ATT_WRGB});
    barrier(&m);
    for (int64_t r = 0; r < rows; r += BLOCK) {
      for (int64_t i = r; i < r + BLOCK && i < rows; i++)
        for (int64_t k = 0; k < bursts; k++)
          mac(&m, i * bursts + k, 0);
      if (r > 0)
        mvsb(&m, 0, false);
      barrier(&m);
    }
    mvsb(&m, 0, false);
  }
}
