/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Weights of a graph -> tensors of a file, by the table wnames.def: which tensor, which
 * of its rows, and whether it is stored turned. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/run.h"
#include "frontend/config.h"
#include "frontend/wmodel.h"
#include "ir/eval.h"

typedef enum pick_kind {
  PICK_ALL,
  PICK_SLAB, /* all, whatever the dimensions before the last are */
  PICK_Q,    /* of rows of queries, then keys, then values */
  PICK_K,
  PICK_V,
  PICK_GROUP_Q, /* the same for each key head, with its queries */
  PICK_GROUP_K,
  PICK_GROUP_V,
  PICK_FIRST, /* half of the rows */
  PICK_SECOND,
  PICK_EVEN,
  PICK_ODD,
  PICK_LATENT_K, /* keys without position, then values, of each head */
  PICK_LATENT_V,
  PICK_HEAD_FIRST, /* half of the rows of each head */
  PICK_HEAD_SECOND,
  PICK_MAMBA_STEP,  /* of step, keys, queries */
  PICK_SSD_ALL,     /* of gate, values, keys, queries, step */
  PICK_SSD_CONV,    /* of values, keys, queries */
  PICK_DELTA_CONV,  /* of queries, keys, values */
  PICK_DELTA_GROUP, /* the same, then the gate, for each key head */
  PICK_DELTA_BETA,  /* of beta and step for each key head */
  PICK_HEAD_QKV,    /* of queries, keys, values for each head */
  PICK_TILED,       /* all; heads of values lie by their place among those of a key head */
  PICK_TILED_V,     /* the same, behind queries and keys */
  PICK_TILED_COLS,  /* the same for columns */
  PICK_TILED_DECAY, /* as TILED, of what DECAY is of */
  PICK_STREAM,      /* of the streams behind the first, by the number in the weight's name */
  PICK_LAYER_ROWS,  /* of as many for each layer */
  PICK_LAYER_COLS,  /* all; columns of as many for each layer */
  PICK_DECAY,       /* all; the file has -exp of it */
  PICK_HYPER_PRE, /* of what mixes streams: into a part, out of it, and among themselves */
  PICK_HYPER_POST,
  PICK_HYPER_COMB,
  PICK_EXPONENT,    /* all; it is -exp of what the file has */
  PICK_REST,        /* all; the file has 1 minus it */
  PICK_THIRD0,      /* a third of the rows */
  PICK_THIRD1,
  PICK_THIRD2,
  PICK_FIFTH0,      /* a fifth of the rows */
  PICK_FIFTH1,
  PICK_FIFTH2,
  PICK_FIFTH3,
  PICK_FIFTH4,
  PICK_SIXTH0,      /* a sixth of the rows */
  PICK_SIXTH1,
  PICK_SIXTH2,
  PICK_SIXTH3,
  PICK_SIXTH4,
  PICK_SIXTH5,
  PICK_QUARTERS_Q, /* of queries, values, keys in each of four parts (CodeGen) */
  PICK_QUARTERS_V,
  PICK_QUARTERS_K,
  PICK_PAIRS,         /* heads in pairs, one of each half */
  PICK_SOFTPLUS,      /* all; the graph has ln(1 + e^x) of it */
  PICK_SOFTPLUS_HALF, /* the same and 1/2 */
  PICK_HEAD_SWAPPED /* the halves of each head the other way round: it turns backwards */
} pick_kind;

typedef struct name_row {
  nmb__naming naming;
  const char *family, *weight, *name;
  pick_kind part;
  bool turned;
} name_row;

static const name_row table[] = {
#define X(naming, family, weight, name, part, turned)                                    \
  {NMB__NAMES_##naming, family, weight, name, PICK_##part, turned},
#include "frontend/wnames-mixed.def"
#include "frontend/wnames-own.def"
#include "frontend/wnames.def"
#undef X
};
#define NROW (sizeof table / sizeof *table)

/* Row r of a slab of the graph's weight is row first + r / len * stride + r % len of the
 * `total` rows that the file's slab has.
 * unit: of the heads of so many rows, `each` read one key head; the file has the first of
 * every key head, then the second of every one, ..  0: no such heads. */
typedef struct pick {
  int64_t first, len, stride, total, unit, each;
} pick;

/* What is looked for. */
typedef struct wanted {
  nmb_run *run;
  const nmb__wmodel *m;
  const nmb_tensor *t;
  const char
      *weight; /* with its ending .bias cut off, if the row is that of the weight */
  const char *ending;
  int64_t layer;
  int64_t slabs, rows, cols; /* cols 0: a vector per slab; -1: as the file has it */
  uint8_t *bytes;            /* (optional) its blocks go here, instead of values to floats */
} wanted;

/* ------------------------------------------------------------------ shapes */
static bool
ends(const char *s, const char *end)
{
  const size_t n = strlen(s), m = strlen(end);
  return n > m && !strcmp(s + n - m, end);
}

static void
shape_of(wanted *q)
{
  const nmb_tensor *t = q->t;
  const bool experts = !strncmp(t->name, "moe.", 4);
  q->slabs = 1;
  q->rows = nmb_tensor_count(t);
  q->cols = t->rank == 2 ? t->dim[1] : t->rank == 3 ? -1 : 0;
  if (experts && t->rank == 3) {
    q->slabs = t->dim[0];
    q->rows = t->dim[1];
    q->cols = t->dim[2];
  } else if (experts && t->rank == 2 && ends(t->name, ".bias")) {
    q->slabs = t->dim[0];
    q->rows = t->dim[1];
    q->cols = 0;
  } else if (!strcmp(t->name, "mixer.d") || !strcmp(t->name, "mixer.dt_bias") ||
             !strcmp(t->name, "mixer.norm") || !strcmp(t->name, "mixer.norm.bias") ||
             !strcmp(t->name, "mixer.k_k") || !strcmp(t->name, "mixer.k_a"))
    q->cols = 0; /* vectors that the graph has by heads or groups */
  else if (t->rank == 2)
    q->rows = t->dim[0];
}

/* The widths of what stands together in a tensor of a mixer; 0: not there. */
enum { MIX_Z, MIX_X, MIX_B, MIX_C, MIX_DT, MIX_DTDOWN, MIX_Q, MIX_K, MIX_V, MIX_BETA };
static const char *const mix_names[] = {"z", "x", "b", "c", "dt", "dt_down",
                                        "q", "k", "v", "beta"};

/* Where the weight is in rows of `kinds` (ended by -1) that follow one another, `groups`
 * times. */
static pick
among(const wanted *q, const nmb__mixer *t, const int *kinds, int64_t groups)
{
  const int64_t v = t->heads * t->dv / groups, k = t->groups * t->dk / groups;
  const int64_t h = t->heads / groups;
  const int64_t width[] = {v, v, k, k, h, t->rank, k, k, v, h};
  const bool mamba = t->kind == NMB__MIX_MAMBA;
  const char *name = q->t->name;
  size_t end = strlen(name) - (ends(name, ".bias") ? strlen(".bias") : 0), from = end;
  while (from > 0 && name[from - 1] != '.')
    from--;
  pick p = {0};
  for (; *kinds >= 0; kinds++) {
    const int64_t w = mamba && *kinds != MIX_DTDOWN ? t->dk : width[*kinds];
    if (strlen(mix_names[*kinds]) == end - from &&
        !strncmp(mix_names[*kinds], name + from, end - from)) {
      p.first = p.stride;
      p.len = w;
    }
    p.stride += w;
  }
  p.total = groups * p.stride;
  return p;
}

/* Qwen3.5's converter turns the order of the value heads (see pick). */
static pick
tiled_pick(const nmb__mixer *t, pick_kind kind, int64_t n)
{
  const int64_t keys = kind == PICK_TILED_V ? 2 * t->groups * t->dk : 0;
  return (pick){keys,    n, n, keys + n, kind == PICK_TILED_COLS ? 0 : n / t->heads,
                t->heads / t->groups};
}

static pick
mixer_pick(const wanted *q, const nmb__mixer *t, pick_kind kind, int64_t n)
{
  static const int step[] = {MIX_DTDOWN, MIX_B, MIX_C, -1},
                   all[] = {MIX_Z, MIX_X, MIX_B, MIX_C, MIX_DT, -1},
                   conv[] = {MIX_X, MIX_B, MIX_C, -1}, qkv[] = {MIX_Q, MIX_K, MIX_V, -1},
                   qkvz[] = {MIX_Q, MIX_K, MIX_V, MIX_Z, -1},
                   beta[] = {MIX_BETA, MIX_DT, -1};
  if (!t->kind)
    return (pick){0};
  switch (kind) {
  case PICK_TILED:
  case PICK_TILED_DECAY:
  case PICK_TILED_V:
  case PICK_TILED_COLS: return tiled_pick(t, kind, n);
  case PICK_MAMBA_STEP: return among(q, t, step, 1);
  case PICK_SSD_ALL: return among(q, t, all, 1);
  case PICK_SSD_CONV: return among(q, t, conv, 1);
  case PICK_DELTA_CONV: return among(q, t, qkv, 1);
  case PICK_DELTA_GROUP: return among(q, t, qkvz, t->groups);
  case PICK_HEAD_QKV: return among(q, t, qkv, t->heads);
  default: return among(q, t, beta, t->groups);
  }
}

/* embed.stream2 -> 2 */
static int64_t
stream_of(const wanted *q)
{
  const char *s = q->weight + strcspn(q->weight, "0123456789");
  return *s ? *s - '0' : 1;
}

static pick
pick_of(const wanted *q, pick_kind kind, int64_t n)
{
  const nmb__layer *l = q->layer >= 0 ? &q->m->arch->layer[q->layer] : NULL;
  const nmb__layer *l0 = &q->m->arch->layer[0];
  const nmb__attn none = {.heads = 1, .kv_heads = 1}, *t = l && l->attn.heads ? &l->attn : &none;
  const int64_t hq = t->heads * t->dk, hk = t->kv_heads * t->dk, hv = t->kv_heads * t->dv;
  const int64_t g = t->heads / t->kv_heads, group = (g + 1) * t->dk + t->dv;
  const int64_t latent = t->d_nope + t->dv;
  switch (kind) {
  case PICK_Q: return (pick){0, n, n, hq + hk + hv, 0, 0};
  case PICK_K: return (pick){hq, n, n, hq + hk + hv, 0, 0};
  case PICK_V: return (pick){hq + hk, n, n, hq + hk + hv, 0, 0};
  case PICK_GROUP_Q: return (pick){0, g * t->dk, group, t->kv_heads * group, 0, 0};
  case PICK_GROUP_K: return (pick){g * t->dk, t->dk, group, t->kv_heads * group, 0, 0};
  case PICK_GROUP_V: return (pick){(g + 1) * t->dk, t->dv, group, t->kv_heads * group, 0, 0};
  case PICK_FIRST: return (pick){0, n, n, 2 * n, 0, 0};
  case PICK_SECOND: return (pick){n, n, n, 2 * n, 0, 0};
  case PICK_EVEN: return (pick){0, 1, 2, 2 * n, 0, 0};
  case PICK_ODD: return (pick){1, 1, 2, 2 * n, 0, 0};
  case PICK_LATENT_K: return (pick){0, t->d_nope, latent, t->heads * latent, 0, 0};
  case PICK_LATENT_V: return (pick){t->d_nope, t->dv, latent, t->heads * latent, 0, 0};
  case PICK_HEAD_FIRST: return (pick){0, t->dk, 2 * t->dk, 2 * n, 0, 0};
  case PICK_HEAD_SECOND: return (pick){t->dk, t->dk, 2 * t->dk, 2 * n, 0, 0};
  case PICK_HYPER_PRE: return (pick){0, n, n, (2 + n) * n, 0, 0};
  case PICK_HYPER_POST: return (pick){n, n, n, (2 + n) * n, 0, 0};
  case PICK_HYPER_COMB: /* n is the square of the number of streams */
    return (pick){l ? 2 * l->hyper : 0, n, n, n + (l ? 2 * l->hyper : 0), 0, 0};
  case PICK_STREAM: return (pick){(stream_of(q) - 1) * n, n, n, (l0->altup - 1) * n, 0, 0};
  case PICK_LAYER_ROWS: return (pick){q->layer * n, n, n, q->m->arch->nlayer * n, 0, 0};
  case PICK_LAYER_COLS:
  case PICK_ALL:
  case PICK_SLAB:
  case PICK_HEAD_SWAPPED:
  case PICK_SOFTPLUS:
  case PICK_SOFTPLUS_HALF:
  case PICK_REST:
  case PICK_EXPONENT:
  case PICK_DECAY: return (pick){0, n, n, n, 0, 0};
  case PICK_THIRD0:
  case PICK_THIRD1:
  case PICK_THIRD2: return (pick){(kind - PICK_THIRD0) * n, n, n, 3 * n, 0, 0};
  case PICK_FIFTH0:
  case PICK_FIFTH1:
  case PICK_FIFTH2:
  case PICK_FIFTH3:
  case PICK_FIFTH4: return (pick){(kind - PICK_FIFTH0) * n, n, n, 5 * n, 0, 0};
  case PICK_SIXTH0:
  case PICK_SIXTH1:
  case PICK_SIXTH2:
  case PICK_SIXTH3:
  case PICK_SIXTH4:
  case PICK_SIXTH5: return (pick){(kind - PICK_SIXTH0) * n, n, n, 6 * n, 0, 0};
  case PICK_QUARTERS_Q:
  case PICK_QUARTERS_V:
  case PICK_QUARTERS_K:
    return (pick){(kind - PICK_QUARTERS_Q) * (n / 4), n / 4, 3 * (n / 4), 3 * n, 0, 0};
  case PICK_PAIRS: return (pick){0, n, n, n, t->dv, 2};
  default: return l ? mixer_pick(q, &l->mixer, kind, n) : (pick){0};
  }
}

static int64_t
row_at(const pick *p, int64_t r)
{
  if (p->unit) {
    const int64_t head = r / p->unit, keys = p->len / p->unit / p->each;
    r = (head % p->each * keys + head / p->each) * p->unit + r % p->unit;
  }
  return p->first + r / p->len * p->stride + r % p->len;
}

/* The columns of every row as the graph has them. */
static void
columns_turn(const wanted *q, int64_t rows, int64_t cols, float *w)
{
  const nmb__mixer *t = &q->m->arch->layer[q->layer].mixer;
  const int64_t unit = cols / t->heads;
  const pick p = {0, cols, cols, cols, unit, t->heads / t->groups};
  float *row = nmb__xrealloc(NULL, (size_t)cols, sizeof *row);
  for (int64_t r = 0; r < rows; r++) {
    memcpy(row, w + r * cols, (size_t)cols * sizeof *row);
    for (int64_t i = 0; i < cols; i++)
      w[r * cols + i] = row[row_at(&p, i)];
  }
  free(row);
}

/* Is it stored [in, out]?  Modules that do (GPT-2's) become Linear when quantised. */
static bool
is_turned(const name_row *row, const nmb__source *s)
{
  return row->turned && !s->linear;
}

/* Fits the source the slabs (1 for a tensor of one expert) of what is wanted?  *p, *rows,
 * *cols: how it is read. */
static bool
fits(const wanted *q, const name_row *row, const nmb__source *s, int64_t *slabs, pick *p,
     int64_t *rows, int64_t *cols)
{
  const int64_t c = s->rank ? s->dim[s->rank - 1] : 1;
  const bool turned = is_turned(row, s);
  *cols = q->cols;
  *rows = q->rows;
  if (row->part == PICK_SLAB && turned && *slabs == 1 && s->rank == 3)
    *slabs = s->dim[0];
  if (*cols < 0) { /* a pass may hold it turned: the file says */
    *cols = turned ? (s->rank > 1 ? s->dim[s->rank - 2] : 1) : c;
    *rows = *cols && q->rows % *cols == 0 ? q->rows / *cols : 0;
  }
  if (row->part == PICK_SLAB && turned && q->slabs == 1 && *slabs > 1)
    *rows = *rows % *slabs ? 0 : *rows / *slabs;
  *p = pick_of(q, row->part, *rows);
  if (*rows < 1 || p->len < 1 || p->total < 1 || row_at(p, *rows - 1) >= p->total)
    return false;
  if (!*cols)
    return s->count == *slabs * p->total;
  const int64_t wide = row->part == PICK_LAYER_COLS ? q->m->arch->nlayer : 1;
  return c == (turned ? p->total : *cols * wide) &&
         s->count == *slabs * p->total * *cols * wide;
}

/* ----------------------------------------------------------------- reading */
static float *
whole(const nmb__source *s, int64_t first, int64_t lines)
{
  const int64_t c = s->rank ? s->dim[s->rank - 1] : 1;
  float *v = nmb__xrealloc(NULL, (size_t)(lines * c), sizeof *v);
  for (int64_t i = 0; i < lines; i++)
    nmb__source_row(s, first + i, v + i * c);
  return v;
}

static void
vector_read(const nmb__source *s, int64_t slabs, const pick *p, int64_t rows, float *out)
{
  const int64_t c = s->rank ? s->dim[s->rank - 1] : 1;
  float *v = whole(s, 0, s->count / c);
  for (int64_t k = 0; k < slabs; k++)
    for (int64_t r = 0; r < rows; r++)
      out[k * rows + r] = v[k * p->total + row_at(p, r)];
  free(v);
}

static void
matrix_read(const nmb__source *s, int64_t slabs, const pick *p, int64_t rows,
            int64_t cols, float *out)
{
  for (int64_t k = 0; k < slabs; k++)
    for (int64_t r = 0; r < rows; r++)
      nmb__source_row(s, k * p->total + row_at(p, r), out + (k * rows + r) * cols);
}

/* Columns of the layer at hand. */
static void
columns_read(const nmb__source *s, int64_t layer, int64_t rows, int64_t cols, float *out)
{
  const int64_t c = s->dim[s->rank - 1];
  float *row = nmb__xrealloc(NULL, (size_t)c, sizeof *row);
  for (int64_t r = 0; r < rows; r++) {
    nmb__source_row(s, r, row);
    memcpy(out + r * cols, row + layer * cols, (size_t)cols * sizeof *row);
  }
  free(row);
}

static void
turned_read(const nmb__source *s, int64_t slabs, const pick *p, int64_t rows,
            int64_t cols, float *out)
{
  for (int64_t k = 0; k < slabs; k++) {
    float *v = whole(s, k * cols, cols);
    for (int64_t r = 0; r < rows; r++)
      for (int64_t i = 0; i < cols; i++)
        out[(k * rows + r) * cols + i] = v[i * p->total + row_at(p, r)];
    free(v);
  }
}

/* Are the values of the graph's weight those of the file's tensor, row by row? */
static bool
as_stored(const name_row *row, const nmb__source *s)
{
  return s->kind == NMB__SRC_PLAIN && !is_turned(row, s) && row->part != PICK_TILED_COLS &&
         row->part != PICK_DECAY && row->part != PICK_TILED_DECAY && row->part != PICK_REST &&
         row->part != PICK_HEAD_SWAPPED;
}

static nmb_status
bytes_read(const wanted *q, const name_row *row, const nmb__source *s, int64_t slabs,
           const pick *p, int64_t rows, int64_t cols, int64_t first)
{
  const int native = nmb__storage_native(q->t->dtype);
  const nmb__storage_info *i = nmb__storage_get(s->t->type);
  if ((int)s->t->type != native || !as_stored(row, s) || cols < 1 || cols % i->elems)
    return nmb_fail(q->run, NMB_UNSUPPORTED, (nmb_loc){s->t->file, 0, 0},
                    "tensor '%s' of %s does not give the blocks of %s in %s", s->name, i->name,
                    q->t->name, nmb_dtype_get(q->t->dtype)->name);
  const int64_t bytes = cols / i->elems * i->bytes;
  for (int64_t k = 0; k < slabs; k++)
    for (int64_t r = 0; r < rows; r++)
      memcpy(q->bytes + (first + k * rows + r) * bytes,
             s->t->data + (k * p->total + row_at(p, r)) * bytes, (size_t)bytes);
  return NMB_OK;
}

/* ----------------------------------------------------------------- finding */
/* The pattern with its layer, expert and stem filled in: rows of the table are short. */
static const char *
filled(const wanted *q, const char *pattern, const char *stem, int64_t expert)
{
  char s[512];
  size_t n = 0;
  for (; *pattern && *pattern != '!' && n < sizeof s / 2; pattern++)
    if (*pattern == '@')
      n = (size_t)snprintf(s, sizeof s / 2, "%s", stem);
    else if (*pattern == '#' || *pattern == '*')
      n += (size_t)snprintf(s + n, sizeof s - n, "%" PRId64,
                            *pattern == '#' ? q->layer : expert);
    else
      s[n++] = *pattern;
  s[n] = 0;
  return *pattern ? nmb_strdup(q->run, s) : nmb_format(q->run, "%s%s", s, q->ending);
}

/* What stands before the layers in published files. */
static const char *const stems[] = {"model.",
                                    "transformer.",
                                    "backbone.",
                                    "language_model.model.",
                                    "model.language_model.",
                                    "model.decoder.",
                                    "decoder.",
                                    "model.transformer.",
                                    "gpt_neox.",
                                    "gpt_neox_japanese.",
                                    "biogpt.",
                                    "transformer.encoder.",
                                    "encoder.",
                                    "language_model.transformer.",
                                    "model.text_model.",
                                    "llm.model.",
                                    "thinker.model.",
                                    "language_model.",
                                    "rwkv.",
                                    ""};
#define NSTEM (sizeof stems / sizeof *stems)
_Static_assert(NSTEM <= 32, "a bit for each");

uint32_t
nmb__wmodel_stems(const nmb__wfile *w)
{
  uint32_t there = 1U << (NSTEM - 1); /* none is always possible */
  for (size_t k = 0; k + 1 < NSTEM; k++)
    for (int i = 0; i < w->ntensor && !(there >> k & 1); i++)
      if (!strncmp(w->tensor[i].name, stems[k], strlen(stems[k])))
        there |= 1U << k;
  return there;
}

static nmb_status
open_one(const wanted *q, const char *pattern, int64_t expert, nmb__source *s,
         const char **name)
{
  const size_t n = strchr(pattern, '@') ? NSTEM : 1;
  *name = NULL;
  *s = (nmb__source){0};
  for (size_t i = 0; i < n; i++) {
    if (n > 1 && !(q->m->stems >> i & 1))
      continue;
    const char *full = filled(q, pattern, stems[i], expert);
    if (!*name)
      *name = full;
    NMB_TRY(nmb__source_open(q->run, q->m->file, &q->m->layout, full, s));
    if (s->t) {
      *name = full;
      return NMB_OK;
    }
  }
  return NMB_OK;
}

/* What is there of its module may be of a layout that nobody here reads. */
static nmb_status
missing(nmb_run *run, const nmb__wmodel *m, const char *name, const char *what)
{
  const char *rest = nmb__source_unread(run, m->file, name);
  return nmb_fail(run, rest ? NMB_UNSUPPORTED : NMB_BADINPUT,
                  (nmb_loc){m->file->path, 0, 0}, "tensor '%s' is missing%s%s", name, what,
                  rest ? nmb_format(run,
                                    "; the file has %s of it, a layout that is not read "
                                    "(quant_method %s)",
                                    rest, *m->layout.method ? m->layout.method : "not given")
                       : "");
}

static nmb_status
misfit(const wanted *q, const nmb__source *s)
{
  const char *have = "", *want = "";
  for (int i = 0; i < s->rank; i++)
    have = nmb_format(q->run, "%s%s%" PRId64, have, i ? "," : "", s->dim[i]);
  for (int i = 0; i < q->t->rank; i++)
    want = nmb_format(q->run, "%s%s%" PRId64, want, i ? "," : "", q->t->dim[i]);
  return nmb_fail(q->run, NMB_BADINPUT, (nmb_loc){s->t->file, 0, 0},
                  "tensor '%s': found [%s], expected what gives %s of [%s]", s->name,
                  have, q->t->name, want);
}

/* GGUF: the products of matrix x.weight are multiplied by x.scale, one number or one for
 * each expert.  NULL: there is none; where a graph scales its experts itself, it is a weight
 * of the graph. */
static const nmb__wtensor *
factors_of(const wanted *q, const nmb__source *s, int64_t slabs, const char *name)
{
  const nmb__wmodel *m = q->m;
  if (m->file->naming != NMB__NAMES_GGUF || !ends(name, ".weight") || s->rank < 2 ||
      (q->layer >= 0 && m->arch->layer[q->layer].moe.normed))
    return NULL;
  const nmb__wtensor *t = nmb__wfile_find(
      m->file, nmb_format(q->run, "%.*s.scale", (int)(strlen(name) - 7), name));
  return t && (t->count == 1 || t->count == slabs) && t->type == NMB__ST_F32 ? t : NULL;
}

static void
multiply(const nmb__wtensor *t, int64_t slabs, int64_t n, float *w)
{
  for (int64_t k = 0; t && k < slabs; k++) {
    const float f = nmb__lefloat(t->data + (t->count > 1 ? 4 * k : 0));
    for (int64_t i = 0; i < n; i++)
      w[k * n + i] *= f;
  }
}

static int64_t
head_width(const wanted *q)
{
  return q->layer >= 0 ? q->m->arch->layer[q->layer].attn.dk : 0;
}

/* Of each two runs of len the second comes first. */
static void
halves_swap(float *v, int64_t n, int64_t len)
{
  for (int64_t i = 0; len > 0 && i + 2 * len <= n; i += 2 * len)
    for (int64_t j = i; j < i + len; j++) {
      const float x = v[j];
      v[j] = v[j + len];
      v[j + len] = x;
    }
}

/* A number that is none would make every value after it none, without a word. */
static nmb_status
finite_check(const wanted *q, const nmb__source *s, const float *v, int64_t n, bool decay)
{
  for (int64_t i = 0; i < n; i++)
    if (!isfinite(v[i]) || (decay && v[i] > 0))
      return nmb_fail(q->run, NMB_BADINPUT, (nmb_loc){s->t->file, 0, 0},
                      "tensor '%s': value %" PRId64 " of %s is %g, expected a %snumber",
                      s->t->name, i, q->t->name, (double)v[i], decay ? "negative " : "finite ");
  return NMB_OK;
}

/* Reads one tensor, or one for each expert. */
static nmb_status
row_read(const wanted *q, const name_row *row, nmb__source *s, const char *name,
         float *out)
{
  const bool each = strchr(row->name, '*') != NULL;
  for (int64_t e = 0; e < (each ? q->slabs : 1); e++) {
    int64_t slabs = each ? 1 : q->slabs, rows, cols;
    pick p;
    if (e)
      NMB_TRY(open_one(q, row->name, e, s, &name));
    if (!s->t)
      return missing(q->run, q->m, name, "");
    if (!fits(q, row, s, &slabs, &p, &rows, &cols))
      return misfit(q, s);
    if (q->bytes) {
      NMB_TRY(bytes_read(q, row, s, slabs, &p, rows, cols, e * rows));
      continue;
    }
    float *to = out ? out + e * rows * (cols ? cols : 1) : NULL;
    if (!to)
      continue;
    nmb__source_ready(s);
    if (row->part == PICK_LAYER_COLS)
      columns_read(s, q->layer, rows, cols, to);
    else if (!cols)
      vector_read(s, slabs, &p, rows, to);
    else if (is_turned(row, s))
      turned_read(s, slabs, &p, rows, cols, to);
    else
      matrix_read(s, slabs, &p, rows, cols, to);
    multiply(factors_of(q, s, slabs, name), slabs, rows * (cols ? cols : 1), to);
    if (row->part == PICK_TILED_COLS)
      columns_turn(q, rows, cols, to);
    const bool decay = row->part == PICK_DECAY || row->part == PICK_TILED_DECAY;
    NMB_TRY(finite_check(q, s, to, slabs * rows * (cols ? cols : 1), decay));
    for (int64_t i = 0; decay && i < rows * (cols ? cols : 1); i++)
      to[i] = logf(-to[i]);
    for (int64_t i = 0; row->part == PICK_EXPONENT && i < rows * (cols ? cols : 1); i++)
      to[i] = -expf(to[i]);
    for (int64_t i = 0; row->part == PICK_REST && i < rows * (cols ? cols : 1); i++)
      to[i] = 1 - to[i];
    for (int64_t i = 0; i < rows && (row->part == PICK_SOFTPLUS || row->part == PICK_SOFTPLUS_HALF); i++)
      to[i] = (float)(log1p(exp(-fabs((double)to[i]))) + (to[i] > 0 ? (double)to[i] : 0) +
                      (row->part == PICK_SOFTPLUS_HALF ? 0.5 : 0));
    if (row->part == PICK_HEAD_SWAPPED)
      halves_swap(to, rows * (cols ? cols : 1), head_width(q) / 2 * (cols ? cols : 1));
  }
  return NMB_OK;
}

/* GGUF files have one name for a norm after attention and for the only one between
 * attention and network: where a layer has both, it is not the network's. */
static bool
other_norm(const wanted *q, const name_row *row)
{
  return row->naming == NMB__NAMES_GGUF && !strcmp(row->weight, "ffn.norm") &&
         q->m->arch->layer[q->layer].place == NMB__PLACE_SANDWICH &&
         strcmp(row->name, "blk.#.ffn_norm") != 0;
}

/* Does a row for this file and family name the weight? */
static bool
row_names(const wanted *q, const name_row *row)
{
  return row->naming == q->m->file->naming && !strcmp(row->weight, q->weight) &&
         (!*row->family || nmb__family_is(q->m->arch->family, row->family)) &&
         !other_norm(q, row);
}

/* As the row has it: one tensor for each head, or all in one. */
static wanted
row_shape(const wanted *q, const name_row *row)
{
  wanted w = *q;
  if (strchr(row->name, '*') && q->slabs == 1 && q->cols > 0) {
    w.slabs = q->rows;
    w.rows = q->cols;
    w.cols = 0;
  }
  return w;
}

/* *found: a tensor was there.  *first: the name that was looked for first. */
static nmb_status
search(const wanted *q, float *out, nmb__storage *type, bool *found, const char **first)
{
  nmb__source misfitting = {0};
  for (size_t i = 0; i < NROW; i++) {
    nmb__source s;
    const char *name;
    int64_t slabs, rows, cols;
    pick p;
    if (!row_names(q, &table[i]))
      continue;
    NMB_TRY(open_one(q, table[i].name, 0, &s, &name));
    if (!*first)
      *first = name;
    const wanted w = row_shape(q, &table[i]);
    slabs = strchr(table[i].name, '*') ? 1 : w.slabs;
    if (!s.t)
      continue;
    if (!fits(&w, &table[i], &s, &slabs, &p, &rows, &cols)) {
      misfitting = misfitting.t ? misfitting : s;
      continue;
    }
    *found = true;
    *type = s.kind == NMB__SRC_PLAIN && !factors_of(&w, &s, slabs, name) ? s.t->type
                                                                        : NMB__NSTORAGE;
    return row_read(&w, &table[i], &s, name, out);
  }
  return misfitting.t ? misfit(q, &misfitting) : NMB_OK;
}

/* Are the values those of the tensor's own format? */
static bool
same_format(const nmb_tensor *t, nmb__storage type)
{
  return (type == NMB__ST_F32 && t->dtype == NMB_DT_F32) ||
         (type == NMB__ST_F16 && t->dtype == NMB_DT_F16) ||
         (type == NMB__ST_BF16 && t->dtype == NMB_DT_BF16) ||
         (type != NMB__NSTORAGE && (int)type == nmb__storage_native(t->dtype));
}

/* Lightning attention's decay: the first layers forget faster (arXiv:2501.08313, and
 * MiniMax-Text-01's code). */
static void
slopes(const nmb__wmodel *m, int64_t heads, int64_t layer, float *out)
{
  const int64_t last = m->arch->nlayer > 1 ? m->arch->nlayer - 1 : 1;
  const double share = 1 - (double)layer / (double)last + 1e-5;
  for (int64_t h = 0; out && h < heads; h++)
    out[h] = (float)(-nmb__alibi_slope(h, heads) * share);
}

/* Baichuan 2 and Ling: rows of the head have unit length. */
static void
unit_rows(const nmb_tensor *t, float *out)
{
  const int64_t n = t->dim[1];
  for (int64_t i = 0; i < t->dim[0]; i++) {
    double sum = 0;
    for (int64_t j = 0; j < n; j++)
      sum += (double)out[i * n + j] * (double)out[i * n + j];
    const double length = sqrt(sum) > 1e-12 ? sqrt(sum) : 1e-12;
    for (int64_t j = 0; j < n; j++)
      out[i * n + j] = (float)((double)out[i * n + j] / length);
  }
}

/* Fairseq's sinusoids: sines, then cosines, of rows counted with those before the first
 * position (transformers, XGLMSinusoidalPositionalEmbedding). */
static void
waves(const nmb_tensor *t, float *out)
{
  const int64_t n = t->dim[1], half = n / 2;
  for (int64_t i = 0; out && i < t->dim[0]; i++)
    for (int64_t j = 0; j < n; j++) {
      const double step = half > 1 ? log(1e4) / (double)(half - 1) : 0;
      const double a = (double)i * exp(-step * (double)(j % half));
      out[i * n + j] = j == 2 * half ? 0 : (float)(j < half ? sin(a) : cos(a));
    }
}

/* Weights that no file has; false for others.  Taps of a shift: what came before less
 * what is. */
static bool
constant(const nmb__wmodel *m, const nmb_tensor *t, int64_t layer, float *out)
{
  const int64_t n = nmb_tensor_count(t);
  if (!strcmp(t->name, "mixer.slopes"))
    slopes(m, n, layer, out);
  else if (!strcmp(t->name, "embed.waves"))
    waves(t, out);
  else if (!strcmp(t->name, "mixer.shift") || !strcmp(t->name, "ffn.shift"))
    for (int64_t i = 0; out && i < n; i++)
      out[i] = i % 2 ? -1 : 1;
  else if (!strcmp(t->name, "mixer.zero"))
    for (int64_t i = 0; out && i < n; i++)
      out[i] = 0;
  else
    return false;
  return true;
}

/* RWKV-6 files halve the hidden state every so many layers, and what is added to it, so
 * that it stays within binary16: undone, as norms take the factor out.  By how often. */
static int
rescaling(const nmb__wmodel *m, const char *weight, int64_t layer)
{
  const nmb__meta *n = nmb__wfile_meta(m->file, "rwkv6.rescale_every_n_layers");
  if (!n || n->i < 1 || layer < n->i ||
      (strcmp(weight, "mixer.o") && strcmp(weight, "ffn.down")))
    return 0;
  return (int)(layer / n->i);
}

static void
rescaled(const wanted *q, float *out)
{
  const int by = rescaling(q->m, q->weight, q->layer);
  for (int64_t i = 0; by && i < nmb_tensor_count(q->t); i++)
    out[i] = ldexpf(out[i], by);
}

nmb__storage
nmb__wmodel_storage(nmb_run *run, const nmb__wmodel *m, const char *name, int64_t layer)
{
  const wanted q = {run, m, NULL, name, ".weight", layer, 0, 0, 0, NULL};
  for (size_t i = 0; i < NROW; i++) {
    nmb__source s;
    const char *full;
    if (!row_names(&q, &table[i]) ||
        open_one(&q, table[i].name, 0, &s, &full) != NMB_OK || !s.t)
      continue;
    const bool unit = m->arch->head_unit && !strncmp(name, "head.", 5);
    return as_stored(&table[i], &s) && !rescaling(m, name, layer) && !unit
               ? s.t->type
               : NMB__NSTORAGE;
  }
  return NMB__NSTORAGE;
}

nmb_status
nmb__wmodel_bytes(nmb_run *run, const nmb__wmodel *m, const nmb_tensor *t, int64_t layer,
                  uint8_t *out)
{
  const bool tied = !strcmp(t->name, "head.tied");
  wanted q = {run, m, t, tied ? "embed.table" : t->name, ".weight", layer, 0, 0, 0, out};
  const char *first = NULL;
  nmb__storage type = NMB__NSTORAGE;
  bool found = false;
  shape_of(&q);
  NMB_TRY(search(&q, NULL, &type, &found, &first));
  return found ? NMB_OK : missing(run, m, first ? first : t->name, "");
}

/* DIFF Transformer: the share of the second attention, of four vectors. */
static nmb_status
share_load(const wanted *q, float *out)
{
  static const char *const parts[] = {"q1", "k1", "q2", "k2"};
  const int64_t d = q->m->arch->layer[q->layer].attn.dk;
  float *v = nmb__xrealloc(NULL, (size_t)(4 * d), sizeof *v);
  nmb_status s = NMB_OK;
  for (int i = 0; s == NMB_OK && i < 4; i++) {
    const nmb_tensor t = {.name = nmb_format(q->run, "attn.lambda_%s", parts[i]),
                          .rank = 1,
                          .dim = {d}};
    bool exact;
    s = nmb__wmodel_load(q->run, q->m, &t, q->layer, v + i * d, &exact);
  }
  double sum[2] = {0};
  for (int64_t i = 0; s == NMB_OK && i < 2 * d; i++)
    sum[i / d] += (double)v[i / d * 2 * d + i % d] * (double)v[(i / d * 2 + 1) * d + i % d];
  free(v);
  if (out)
    *out = (float)(q->m->arch->layer[q->layer].attn.diff_start + exp(sum[0]) - exp(sum[1]));
  return s;
}

nmb_status
nmb__wmodel_load(nmb_run *run, const nmb__wmodel *m, const nmb_tensor *t, int64_t layer,
                 float *out, bool *exact)
{
  wanted q = {run, m, t, t->name, ".weight", layer, 0, 0, 0, NULL};
  const char *first = NULL;
  nmb__storage type = NMB__NSTORAGE;
  bool found = false;
  if (constant(m, t, layer, out)) {
    *exact = true;
    return NMB_OK;
  }
  if (!strcmp(q.weight, "attn.lambda")) {
    *exact = false;
    return share_load(&q, out);
  }
  if (!strcmp(q.weight, "head.tied"))
    q.weight = "embed.table";
  shape_of(&q);
  NMB_TRY(search(&q, out, &type, &found, &first));
  if (!found && m->arch->tied && !strcmp(q.weight, "embed.table")) {
    q.weight = "head.out"; /* files of some converters keep the head's name of the two */
    NMB_TRY(search(&q, out, &type, &found, &first));
  }
  if (!found && ends(t->name, ".bias")) {
    q.weight = nmb_format(run, "%.*s", (int)(strlen(t->name) - 5), t->name);
    q.ending = ".bias";
    NMB_TRY(search(&q, out, &type, &found, &first));
  }
  *exact = found && same_format(t, type);
  if (found && out)
    rescaled(&q, out);
  if (found && m->arch->head_unit && !strncmp(t->name, "head.", 5) && t->rank == 2) {
    *exact = false;
    if (out)
      unit_rows(t, out);
  }
  if (found)
    return NMB_OK;
  if (first)
    return missing(run, m, first, nmb_format(run, " (%s)", t->name));
  return nmb_fail(run, NMB_UNSUPPORTED, (nmb_loc){m->file->path, 0, 0},
                  "no rule says which tensor of the file is %s of %s", t->name,
                  m->arch->family);
}
