/* SPDX-License-Identifier: GPL-3.0-or-later */
/* map-search: climbs from the interleaved mapping.  Reads graph, groups, dispatch;
 * writes mapping.
 *
 * A search over a map space scored by the cost model, as Timeloop's mapper
 * (Parashar et al., ISPASS 2019), by hill climbing.  It starts from what
 * map-interleave gives, so it is never worse by its own estimate.  A move doubles
 * or halves a tile extent, the buffer reuse or the channels of a unit, or changes
 * the kind or the padding of a layout; it stays if the kernels that it touches
 * together get faster and memories still hold all.  Kernels that take longest, all
 * layers counted, go first; a kernel that looks like one before first tries what
 * that one found.  One estimate of a kernel costs one of the budget. */
#include <math.h>
#include <string.h>

#include "nmbench/nmb_plan.h"
#include "nmbench/nmb_plugin.h"

typedef struct search {
  nmb_run *run;
  const nmb_prog *p;
  nmb_map *map;    /* [nkernel] */
  nmb_map *most;   /* [nkernel] the largest tiles that fit */
  double *seconds; /* [nkernel] of the mapping so far; NaN: not estimated */
  int nr;
  nmb_resident *r;         /* [nr] */
  nmb_layout *lay;         /* [nr] */
  int *use_first, *use;    /* kernel -> residents */
  int *user_first, *user;  /* resident -> kernels */
  double load[NMB_MAXMEM]; /* bytes of all layouts */
  bool spent;
} search;

/* ---------------------------------------------------------------- who uses what */
static int
find_resident(const search *s, nmb_id tensor, nmb_id mem)
{
  for (int i = 0; i < s->nr; i++)
    if (s->r[i].tensor == tensor && s->r[i].mem == mem)
      return i;
  return NMB_NONE;
}

static void
uses_find(search *s)
{
  const nmb_prog *p = s->p;
  int n = 0, most = 1;
  for (int i = 0; i < p->nop; i++)
    most += p->op[i].nin;
  s->use = NMB_NEW(s->run, int, most);
  s->use_first = NMB_NEW(s->run, int, p->nkernel + 1);
  s->user = NMB_NEW(s->run, int, most);
  s->user_first = NMB_NEW(s->run, int, s->nr + 1);
  for (nmb_id k = 0; k < p->nkernel; k++) {
    s->use_first[k] = n;
    for (int i = 0; i < p->kernel[k].nop; i++) {
      const nmb_op *o = &p->op[p->kernel[k].op[i]];
      for (int j = 0; j < o->nin; j++) {
        const nmb_id root = nmb_tensor_root(p, o->in[j]);
        const nmb_id mem = p->hw->engine[p->kernel[k].engine].resident;
        bool known = !nmb_tensor_resident(&p->tensor[root]);
        const int at = known ? NMB_NONE : find_resident(s, root, mem);
        for (int u = s->use_first[k]; u < n && !known; u++)
          known = s->use[u] == at;
        if (!known)
          s->use[n++] = at;
      }
    }
  }
  s->use_first[p->nkernel] = n;
  n = 0;
  for (int i = 0; i < s->nr; i++) {
    s->user_first[i] = n;
    for (nmb_id k = 0; k < p->nkernel; k++)
      for (int u = s->use_first[k]; u < s->use_first[k + 1]; u++)
        if (s->use[u] == i)
          s->user[n++] = k;
  }
  s->user_first[s->nr] = n;
}

/* ------------------------------------------------------------------- estimates */
static nmb_status
estimate(search *s, nmb_id k, double *out)
{
  const nmb_kernel *g = &s->p->kernel[k];
  nmb_layout lay[NMB_MAXIN * 8];
  int n = 0;
  *out = INFINITY;
  if (!nmb_spend(s->run, 1)) {
    s->spent = true;
    return NMB_OK;
  }
  for (int u = s->use_first[k]; u < s->use_first[k + 1] && n < NMB_MAXIN * 8; u++)
    lay[n++] = s->lay[s->use[u]];
  return nmb_kernel_seconds(s->run, s->p, g->op, g->nop, g->engine, &s->map[k], lay, n,
                            out);
}

/* Puts `map` (if given) for kernel k and layout `lay` (if given) for resident i in
 * place, and takes them back unless the kernels that they touch get faster. */
static nmb_status
try_move(search *s, nmb_id k, const nmb_map *map, int i, const nmb_layout *lay,
         bool *better)
{
  const int first = i == NMB_NONE ? 0 : s->user_first[i];
  const int nuser = i == NMB_NONE ? 1 : s->user_first[i + 1] - first;
  const nmb_map old_map = s->map[k];
  const nmb_layout old_lay = i == NMB_NONE ? (nmb_layout){0} : s->lay[i];
  const nmb_mem *m = &s->p->hw->mem[old_lay.mem];
  const double repeat = (double)s->p->block[s->p->kernel[k].block].repeat;
  const double grown = lay ? repeat * (double)(lay->bytes - old_lay.bytes) : 0;
  double before = 0, after = 0, *each = NMB_NEW(s->run, double, nuser);
  if (grown > 0 && s->load[old_lay.mem] + grown > (double)nmb_layout_room(m))
    return NMB_OK;
  if (map)
    s->map[k] = *map;
  if (lay)
    s->lay[i] = *lay;
  for (int u = 0; u < nuser; u++) {
    const nmb_id user = i == NMB_NONE ? k : s->user[first + u];
    NMB_TRY(estimate(s, user, &each[u]));
    before += s->seconds[user]; /* NaN: a user not yet seen; then nothing moves */
    after += each[u];
  }
  if (after < before * (1 - 1e-9)) {
    *better = true;
    s->load[old_lay.mem] += grown;
    for (int u = 0; u < nuser; u++)
      s->seconds[i == NMB_NONE ? k : s->user[first + u]] = each[u];
    return NMB_OK;
  }
  s->map[k] = old_map;
  if (lay)
    s->lay[i] = old_lay;
  return NMB_OK;
}

/* ----------------------------------------------------------------------- moves */
static nmb_status
move_tiles(search *s, nmb_id k, bool *better)
{
  static const size_t field[] = {offsetof(nmb_map, tile_n), offsetof(nmb_map, tile_m),
                                 offsetof(nmb_map, tile_b)};
  for (size_t f = 0; f < sizeof field / sizeof *field; f++)
    for (int up = 0; up < 2; up++) {
      nmb_map m = s->map[k];
      int64_t *tile = (int64_t *)(void *)((char *)&m + field[f]);
      const int64_t most =
          *(const int64_t *)(const void *)((const char *)&s->most[k] + field[f]);
      const int64_t next = up ? *tile * 2 : (*tile + 1) / 2;
      if (next == *tile || next > most)
        continue;
      *tile = next;
      NMB_TRY(try_move(s, k, &m, NMB_NONE, NULL, better));
    }
  return NMB_OK;
}

static nmb_status
move_reuse(search *s, nmb_id k, bool *better)
{
  const int64_t most = nmb_opt_int(s->run, "max-reuse");
  for (int up = 0; up < 2; up++) {
    nmb_map m = s->map[k];
    m.reuse = up ? m.reuse * 2 : m.reuse / 2;
    if (m.reuse >= 1 && m.reuse <= most)
      NMB_TRY(try_move(s, k, &m, NMB_NONE, NULL, better));
  }
  return NMB_OK;
}

/* Twice, half, or all channels; the other kind; the other padding. */
static nmb_status
move_layout(search *s, nmb_id k, int i, bool *better)
{
  const int all = s->p->hw->mem[s->r[i].mem].channels;
  for (int what = 0; what < 5; what++) {
    const nmb_layout *now = &s->lay[i];
    const int channels = what == 0   ? now->channels * 2
                         : what == 1 ? now->channels / 2
                         : what == 2 ? all
                                     : now->channels;
    const nmb_lay_kind other =
        now->kind == NMB_LAY_BLOCKED ? NMB_LAY_INTERLEAVED : NMB_LAY_BLOCKED;
    if (channels < 1 || channels > all || (what < 3 && channels == now->channels))
      continue;
    nmb_layout l;
    nmb_layout_make(s->p, s->r[i].tensor, s->r[i].mem, what == 3 ? other : now->kind,
                    channels, what == 4 ? !now->padded : now->padded, &l);
    NMB_TRY(try_move(s, k, NULL, i, &l, better));
  }
  return NMB_OK;
}

static nmb_status
climb(search *s, nmb_id k)
{
  for (bool better = true; better && !s->spent;) {
    better = false;
    for (int u = s->use_first[k]; u < s->use_first[k + 1]; u++)
      if (s->r[s->use[u]].in_memory)
        NMB_TRY(move_layout(s, k, s->use[u], &better));
    if (s->p->hw->engine[s->p->kernel[k].engine].in_memory)
      NMB_TRY(move_reuse(s, k, &better));
    NMB_TRY(move_tiles(s, k, &better));
  }
  return NMB_OK;
}

/* ------------------------------------------------------------- kernels that look alike
 */
static bool
alike_tensors(const nmb_tensor *a, const nmb_tensor *b)
{
  return a->dtype == b->dtype && a->group == b->group && a->role == b->role &&
         a->rank == b->rank && !memcmp(a->dim, b->dim, sizeof a->dim);
}

static bool
alike(const search *s, nmb_id a, nmb_id b)
{
  const nmb_prog *p = s->p;
  const nmb_kernel *x = &p->kernel[a], *y = &p->kernel[b];
  if (x->nop != y->nop || x->engine != y->engine ||
      s->use_first[a + 1] - s->use_first[a] != s->use_first[b + 1] - s->use_first[b])
    return false;
  for (int i = 0; i < x->nop; i++) {
    const nmb_op *o = &p->op[x->op[i]], *q = &p->op[y->op[i]];
    if (o->code != q->code || o->nin != q->nin ||
        nmb_op_int(o, "routing", -1) != nmb_op_int(q, "routing", -1))
      return false;
    for (int j = 0; j < o->nin; j++)
      if (!alike_tensors(&p->tensor[o->in[j]], &p->tensor[q->in[j]]))
        return false;
  }
  return true;
}

/* What kernel `from` found, for kernel k. */
static nmb_status
take_over(search *s, nmb_id k, nmb_id from)
{
  bool better = false;
  for (int u = 0; u < s->use_first[k + 1] - s->use_first[k]; u++) {
    const int i = s->use[s->use_first[k] + u];
    const nmb_layout *found = &s->lay[s->use[s->use_first[from] + u]];
    nmb_layout l;
    if (!s->r[i].in_memory ||
        (found->kind == s->lay[i].kind && found->channels == s->lay[i].channels &&
         found->padded == s->lay[i].padded))
      continue;
    nmb_layout_make(s->p, s->r[i].tensor, s->r[i].mem, found->kind, found->channels,
                    found->padded, &l);
    NMB_TRY(try_move(s, k, NULL, i, &l, &better));
  }
  nmb_map m = s->map[from];
  m.kernel = k;
  if (memcmp(&m, &s->map[k], sizeof m) != 0)
    NMB_TRY(try_move(s, k, &m, NMB_NONE, NULL, &better));
  return NMB_OK;
}

/* ------------------------------------------------------------------- the program */
static void
start(search *s)
{
  const nmb_prog *p = s->p;
  s->nr = nmb_residents(s->run, p, NULL, &s->r);
  s->lay = NMB_NEW(s->run, nmb_layout, s->nr + 1);
  s->map = NMB_NEW(s->run, nmb_map, p->nkernel + 1);
  s->most = NMB_NEW(s->run, nmb_map, p->nkernel + 1);
  s->seconds = NMB_NEW(s->run, double, p->nkernel + 1);
  nmb_layouts_interleaved(p, s->r, s->nr, nmb_opt_real(s->run, "waste"), s->lay);
  for (int i = 0; i < s->nr; i++)
    s->load[s->r[i].mem] += (double)s->lay[i].bytes *
                            (double)p->block[p->tensor[s->r[i].tensor].block].repeat;
  for (nmb_id k = 0; k < p->nkernel; k++) {
    nmb_map_default(p, k, &s->most[k]);
    s->map[k] = s->most[k];
    s->map[k].reuse = nmb_opt_int(s->run, "reuse");
    s->seconds[k] = NAN;
  }
  uses_find(s);
}

/* The kernel not yet done that takes longest, all layers counted. */
static nmb_id
longest(const search *s, const bool *done)
{
  nmb_id best = NMB_NONE;
  double most = -1;
  for (nmb_id k = 0; k < s->p->nkernel; k++) {
    const double all = s->seconds[k] * (double)s->p->block[s->p->kernel[k].block].repeat;
    if (!done[k] && all > most) {
      most = all;
      best = k;
    }
  }
  return best;
}

static nmb_status
find(search *s)
{
  bool *done = NMB_NEW(s->run, bool, s->p->nkernel + 1);
  nmb_id *order = NMB_NEW(s->run, nmb_id, s->p->nkernel + 1);
  for (nmb_id k = 0; k < s->p->nkernel && !s->spent; k++) {
    double seconds = NAN;
    NMB_TRY(estimate(s, k, &seconds));
    s->seconds[k] = s->spent ? NAN : seconds;
  }
  for (int n = 0; !s->spent; n++) {
    const nmb_id k = order[n] = longest(s, done);
    if (k == NMB_NONE)
      break;
    nmb_id like = NMB_NONE;
    for (int i = 0; i < n && like == NMB_NONE; i++)
      if (alike(s, order[i], k))
        like = order[i];
    NMB_TRY(like == NMB_NONE ? climb(s, k) : take_over(s, k, like));
    done[k] = true;
  }
  return NMB_OK;
}

static nmb_status
transform(nmb_run *run, nmb_prog *p)
{
  search s = {.run = run, .p = p};
  start(&s);
  NMB_TRY(find(&s));
  nmb_section_begin(p, NMB_MAPPING);
  for (nmb_id k = 0; k < p->nkernel; k++)
    nmb_map_add(p, &s.map[k]);
  for (int i = 0; i < s.nr; i++)
    nmb_layout_add(p, &s.lay[i]);
  return NMB_OK;
}

static const nmb_opt opts[] = {
    {"budget", "int", "evaluation", "256", "1..1000000", "estimates of a kernel"},
    {"reuse", "int", "row", "32", "1..1024",
     "where the search starts, as map-interleave"},
    {"max-reuse", "int", "row", "1024", "1..1024", "largest buffer reuse tried"},
    {"waste", "ratio", "1", "0.25", "0..8", "where the search starts, as map-interleave"},
    {0},
};

NMB_PLUGIN
{
    NMB_PLUGIN_HEAD,
    .kind = "map",
    .name = "map-search",
    .version = "1",
    .summary = "hill climbing from the interleaved mapping by the cost model",
    .source = "parashar2019timeloop",
    .limits = "local optima; one move at a time; overlap of kernels is not seen",
    .opts = opts,
    .reads = NMB_BIT(NMB_GRAPH) | NMB_BIT(NMB_GROUPS) | NMB_BIT(NMB_DISPATCH),
    .writes = NMB_BIT(NMB_MAPPING),
    .transform = transform,
};
