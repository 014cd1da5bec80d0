/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The kinds of ops that `nmbench op` knows, their keys, and their graphs. */
#include "config.h" /* first: names outside of C11 */

#include "harness/op.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/near.h"
#include "base/run.h"

enum { MAXSIZES = 256, MAXROWS = 4096, NONE = 0 };
#define MAXSIZE (INT64_C(1) << 31)

/* A key and its default; SAME: that of the key before it, 0: must be given. */
enum { SAME = -1 };
typedef struct opkey {
  const char *name;
  int64_t dflt;
} opkey;

typedef struct maker {
  nmb_prog *p;
  nmb_id block;
  nmb_dtype weights, values;
} maker;

typedef struct nmb__opkind {
  const char *name;
  opkey key[NMB__MAXDIM];
  void (*build)(maker *, const int64_t *dim);
  int64_t (*sequences)(const int64_t *dim);
  bool cache; /* works on a cache, not on a matrix */
} opkind;

/* -------------------------------------------------------------------- graphs */
static nmb_id
tensor(maker *m, const char *name, nmb_role role, int rank, int64_t a, int64_t b,
       int64_t c, int64_t d)
{
  nmb_tensor t = {.name = name, .block = m->block, .role = role, .rank = rank};
  const bool resident = role == NMB_ROLE_WEIGHT || role == NMB_ROLE_KV || role == NMB_ROLE_STATE;
  t.dtype = resident ? m->weights : m->values;
  t.group = nmb_dtype_get(t.dtype)->group < 0 ? 128 : 0;
  t.dim[0] = a, t.dim[1] = b, t.dim[2] = c, t.dim[3] = d;
  return nmb_tensor_add(m->p, &t);
}

/* Operand 0 is where blocks hand over the hidden state: no transfer is needed to
 * bring it there, as in the middle of a model.
 *
 * y[m,n] = x[m,k] w[n,k]^T */
static void
matrix(maker *m, int64_t rows, int64_t n, int64_t k)
{
  nmb_op o = {.code = NMB_OP_LINEAR, .block = m->block, .nin = 2, .nout = 1};
  o.in[0] = tensor(m, "x", NMB_ROLE_ACT, 2, rows, k, 0, 0);
  o.in[1] = tensor(m, "w", NMB_ROLE_WEIGHT, 2, n, k, 0, 0);
  o.out[0] = tensor(m, "y", NMB_ROLE_ACT, 2, rows, n, 0, 0);
  nmb_op_add(m->p, &o);
  nmb_block_ends(m->p, m->block, o.in[0], o.out[0]);
}

static void
gemv(maker *m, const int64_t *d)
{
  matrix(m, d[2], d[0], d[1]);
}

static int64_t
gemv_sequences(const int64_t *d)
{
  return d[2];
}

static void
gemm(maker *m, const int64_t *d)
{
  matrix(m, d[0], d[1], d[2]);
}

static int64_t
gemm_sequences(const int64_t *d)
{
  return d[0];
}

/* heads, kv_heads, kv_len, head_dim, batch: one new token of each sequence against
 * the cache that holds it already. */
static void
attention(maker *m, const int64_t *d)
{
  nmb_op o = {.code = NMB_OP_ATTENTION, .block = m->block, .nin = 3, .nout = 1};
  o.in[0] = tensor(m, "q", NMB_ROLE_ACT, 3, d[4], d[0], d[3], 0);
  o.in[1] = tensor(m, "k", NMB_ROLE_KV, 4, d[4], d[2], d[1], d[3]);
  o.in[2] = tensor(m, "v", NMB_ROLE_KV, 4, d[4], d[2], d[1], d[3]);
  o.out[0] = tensor(m, "o", NMB_ROLE_ACT, 3, d[4], d[0], d[3], 0);
  o.attr[o.nattr++] = NMB_INT("new", 1);
  o.attr[o.nattr++] = NMB_REAL("scale", 1 / sqrt((double)d[3]));
  nmb_op_add(m->p, &o);
  nmb_block_ends(m->p, m->block, o.in[0], o.out[0]);
}

static int64_t
attention_sequences(const int64_t *d)
{
  return d[4];
}

/* heads, values and keys of a head, batch: one token of each sequence updates the
 * states of its heads, S <- e^a S + v k^T, and takes S q. */
static void
update(maker *m, const int64_t *d)
{
  nmb_op o = {.code = NMB_OP_SCAN, .block = m->block, .nin = 5, .nout = 2};
  o.in[0] = tensor(m, "q", NMB_ROLE_ACT, 3, d[3], d[0], d[2], 0);
  o.in[1] = tensor(m, "k", NMB_ROLE_INPUT, 3, d[3], d[0], d[2], 0);
  o.in[2] = tensor(m, "v", NMB_ROLE_INPUT, 3, d[3], d[0], d[1], 0);
  o.in[3] = tensor(m, "s", NMB_ROLE_STATE, 4, d[3], d[0], d[1], d[2]);
  o.in[4] = nmb_tensor_add(m->p, &(nmb_tensor){.name = "a",
                                               .block = m->block,
                                               .role = NMB_ROLE_WEIGHT,
                                               .rank = 1,
                                               .dim = {d[0]}});
  o.out[0] = tensor(m, "o", NMB_ROLE_ACT, 3, d[3], d[0], d[1], 0);
  o.out[1] = tensor(m, "s2", NMB_ROLE_STATE, 4, d[3], d[0], d[1], d[2]);
  o.attr[o.nattr++] = NMB_SYM("decay", "log");
  nmb_op_add(m->p, &o);
  nmb_block_ends(m->p, m->block, o.in[0], o.out[0]);
}

static int64_t
update_sequences(const int64_t *d)
{
  return d[3];
}

/* batch products y[m,n] = x[m,k] w[n,k]^T, each with a w of its own: heads, experts. */
static void
batched(maker *m, const int64_t *d)
{
  nmb_op o = {.code = NMB_OP_HLINEAR, .block = m->block, .nin = 2, .nout = 1};
  o.in[0] = tensor(m, "x", NMB_ROLE_ACT, 3, d[1], d[0], d[3], 0);
  o.in[1] = tensor(m, "w", NMB_ROLE_WEIGHT, 3, d[0], d[2], d[3], 0);
  o.out[0] = tensor(m, "y", NMB_ROLE_ACT, 3, d[1], d[0], d[2], 0);
  nmb_op_add(m->p, &o);
  nmb_block_ends(m->p, m->block, o.in[0], o.out[0]);
}

static int64_t
batched_sequences(const int64_t *d)
{
  return d[1];
}

static void
softmax(maker *m, const int64_t *d)
{
  nmb_op o = {.code = NMB_OP_SOFTMAX, .block = m->block, .nin = 1, .nout = 1};
  o.in[0] = tensor(m, "s", NMB_ROLE_ACT, 3, d[0], 1, d[1], 0);
  o.out[0] = tensor(m, "p", NMB_ROLE_ACT, 3, d[0], 1, d[1], 0);
  o.attr[o.nattr++] = NMB_INT("new", 1);
  nmb_op_add(m->p, &o);
  nmb_block_ends(m->p, m->block, o.in[0], o.out[0]);
}

static void
norm(maker *m, const int64_t *d)
{
  nmb_op o = {.code = NMB_OP_NORM, .block = m->block, .nin = 3, .nout = 1};
  o.in[0] = tensor(m, "x", NMB_ROLE_ACT, 2, d[0], d[1], 0, 0);
  o.in[1] = tensor(m, "w", NMB_ROLE_WEIGHT, 1, d[1], 0, 0, 0);
  o.in[2] = tensor(m, "b", NMB_ROLE_WEIGHT, 1, d[1], 0, 0, 0);
  o.out[0] = tensor(m, "y", NMB_ROLE_ACT, 2, d[0], d[1], 0, 0);
  o.attr[o.nattr++] = NMB_SYM("kind", "layer");
  o.attr[o.nattr++] = NMB_REAL("eps", 1e-5);
  nmb_op_add(m->p, &o);
  nmb_block_ends(m->p, m->block, o.in[0], o.out[0]);
}

static void
gelu(maker *m, const int64_t *d)
{
  nmb_op o = {.code = NMB_OP_ACT, .block = m->block, .nin = 1, .nout = 1};
  o.in[0] = tensor(m, "x", NMB_ROLE_ACT, 2, d[0], d[1], 0, 0);
  o.out[0] = tensor(m, "y", NMB_ROLE_ACT, 2, d[0], d[1], 0, 0);
  o.attr[o.nattr++] = NMB_SYM("fn", "gelu");
  nmb_op_add(m->p, &o);
  nmb_block_ends(m->p, m->block, o.in[0], o.out[0]);
}

static const opkind kinds[] = {
    {"gemv", {{"out", NONE}, {"in", NONE}, {"batch", 1}}, gemv, gemv_sequences, false},
    {"gemm", {{"m", NONE}, {"n", NONE}, {"k", NONE}}, gemm, gemm_sequences, false},
    {"attention",
     {{"heads", NONE},
      {"kv_heads", SAME},
      {"kv_len", NONE},
      {"head_dim", 128},
      {"batch", 1}},
     attention,
     attention_sequences,
     true},
    {"state",
     {{"heads", NONE}, {"values", NONE}, {"keys", SAME}, {"batch", 1}},
     update,
     update_sequences,
     true},
    {"bmm",
     {{"batch", NONE}, {"m", NONE}, {"n", NONE}, {"k", NONE}},
     batched,
     batched_sequences,
     false},
    {"softmax", {{"rows", NONE}, {"cols", NONE}}, softmax, gemm_sequences, false},
    {"norm", {{"rows", NONE}, {"cols", NONE}}, norm, gemm_sequences, false},
    {"gelu", {{"rows", 1}, {"cols", NONE}}, gelu, gemm_sequences, false},
};
enum { NKIND = sizeof kinds / sizeof *kinds };

nmb_prog *
nmb__opspec_build(nmb_run *run, const nmb__opspec *s, int row)
{
  int64_t dim[NMB__MAXDIM];
  nmb__opspec_row(s, row, dim);
  const nmb_step_spec step = {NMB_DECODE, s->kind->sequences(dim), 1, 0};
  maker m = {.p = nmb_prog_new(nmb__opspec_text(run, s, row), step)};
  m.block = nmb_block_add(m.p, "op");
  m.weights = s->dtype;
  m.values = s->dtype == NMB_DT_F16 || s->dtype == NMB_DT_F32 ? s->dtype : NMB_DT_BF16;
  s->kind->build(&m, dim);
  nmb_order_add(m.p, m.block, 1);
  return m.p;
}

/* --------------------------------------------------------------------- specs */
static nmb_status
bad(nmb_run *run, const char *text)
{
  return nmb_fail(run, NMB_BADOPTION, NMB_NOLOC, "op: %s", text);
}

static nmb_status
read_sizes(nmb_run *run, nmb__opspec *s, int i, const char *text)
{
  const char *p = text;
  s->size[i] = NMB_NEW(run, int64_t, MAXSIZES);
  for (;; p++) {
    char *end;
    errno = 0;
    const long long v = strtoll(p, &end, 10);
    if (end == p || errno || v < 1 || v > MAXSIZE || (*end && *end != ','))
      return bad(run, nmb_format(run,
                                 "%s: found '%s', expected whole numbers 1..%lld "
                                 "with commas between",
                                 s->key[i], text, (long long)MAXSIZE));
    if (s->n[i] == MAXSIZES)
      return bad(run, nmb_format(run, "%s: more than %d sizes", s->key[i], MAXSIZES));
    s->size[i][s->n[i]++] = v;
    if (!*end)
      return NMB_OK;
    p = end;
  }
}

static nmb_status
read_pair(nmb_run *run, nmb__opspec *s, const char *word)
{
  const char *eq = strchr(word, '=');
  const char *names[NMB__MAXDIM + 1];
  if (!eq || eq == word || !eq[1])
    return bad(run, nmb_format(run, "found '%s', expected KEY=VALUE", word));
  const char *key = nmb_format(run, "%.*s", (int)(eq - word), word);
  if (!strcmp(key, "dtype")) {
    const int d = nmb_dtype_find(eq + 1);
    const char *dtypes[NMB_NDTYPE];
    for (int i = 0; i < NMB_NDTYPE; i++)
      dtypes[i] = nmb_dtype_get((nmb_dtype)i)->name;
    if (d == NMB_NONE)
      return bad(run, nmb_format(run, "dtype: found '%s', which is unknown%s", eq + 1,
                                 nmb__hint(run, eq + 1, dtypes, NMB_NDTYPE)));
    s->dtype = (nmb_dtype)d;
    return NMB_OK;
  }
  for (int i = 0; i < s->ndim; i++) {
    names[i] = s->key[i];
    if (strcmp(key, s->key[i]))
      continue;
    if (s->n[i])
      return bad(run, nmb_format(run, "%s is given twice", key));
    return read_sizes(run, s, i, eq + 1);
  }
  names[s->ndim] = "dtype";
  return bad(run, nmb_format(run, "%s has no key '%s'%s", s->kind->name, key,
                             nmb__hint(run, key, names, s->ndim + 1)));
}

/* What was not given, and how many combinations there are. */
static nmb_status
complete(nmb_run *run, nmb__opspec *s)
{
  int64_t rows = 1;
  for (int i = 0; i < s->ndim; i++) {
    const int64_t dflt = s->kind->key[i].dflt;
    if (s->n[i] == 0 && dflt == NONE)
      return bad(run, nmb_format(run, "%s needs %s=", s->kind->name, s->key[i]));
    if (s->n[i] == 0 && dflt != SAME) {
      s->size[i] = NMB_NEW(run, int64_t, 1);
      s->size[i][0] = dflt;
      s->n[i] = 1;
    }
    rows *= s->n[i] ? s->n[i] : 1;
    if (rows > MAXROWS)
      return bad(run, nmb_format(run, "more than %d combinations of sizes", MAXROWS));
  }
  s->nrow = (int)rows;
  return NMB_OK;
}

static nmb_status
check_rows(nmb_run *run, const nmb__opspec *s)
{
  for (int r = 0; r < s->nrow; r++) {
    int64_t d[NMB__MAXDIM];
    double most = 1;
    nmb__opspec_row(s, r, d);
    for (int i = 0; i < s->ndim; i++)
      most *= (double)d[i];
    if (most > 0x1p50)
      return bad(run, nmb_format(run, "%s is too large", nmb__opspec_text(run, s, r)));
    if (!strcmp(s->kind->name, "attention") && d[0] % d[1])
      return bad(run, nmb_format(run, "kv_heads must divide heads; found %lld and %lld",
                                 (long long)d[1], (long long)d[0]));
  }
  return NMB_OK;
}

nmb_status
nmb__opspec_parse(nmb_run *run, const char *text, nmb__opspec *out)
{
  char *copy = nmb_strdup(run, text), *save = NULL;
  const char *word = strtok_r(copy, " \t\n", &save), *names[NKIND];
  *out = (nmb__opspec){.dtype = NMB_DT_BF16};
  if (!word)
    return bad(run,
               nmb_format(run, "found nothing, expected %s", nmb__opspec_kinds(run)));
  for (int i = 0; i < NKIND; i++) {
    names[i] = kinds[i].name;
    if (!strcmp(word, names[i]))
      out->kind = &kinds[i];
  }
  if (!out->kind)
    return bad(run,
               nmb_format(run, "there is no op '%s'%s; known: %s", word,
                          nmb__hint(run, word, names, NKIND), nmb__opspec_kinds(run)));
  out->kind_name = out->kind->name;
  out->matrix = !out->kind->cache;
  for (; out->ndim < NMB__MAXDIM && out->kind->key[out->ndim].name; out->ndim++)
    out->key[out->ndim] = out->kind->key[out->ndim].name;
  while ((word = strtok_r(NULL, " \t\n", &save)))
    NMB_TRY(read_pair(run, out, word));
  NMB_TRY(complete(run, out));
  return check_rows(run, out);
}

void
nmb__opspec_row(const nmb__opspec *s, int row, int64_t *dim)
{
  for (int i = s->ndim - 1; i >= 0; i--) {
    if (s->n[i] == 0)
      continue; /* SAME */
    dim[i] = s->size[i][row % s->n[i]];
    row /= s->n[i];
  }
  for (int i = 1; i < s->ndim; i++)
    if (s->n[i] == 0)
      dim[i] = dim[i - 1];
}

const char *
nmb__opspec_text(nmb_run *run, const nmb__opspec *s, int row)
{
  int64_t dim[NMB__MAXDIM];
  const char *text = s->kind->name;
  nmb__opspec_row(s, row, dim);
  for (int i = 0; i < s->ndim; i++)
    text = nmb_format(run, "%s %s=%lld", text, s->key[i], (long long)dim[i]);
  return nmb_format(run, "%s dtype=%s", text, nmb_dtype_get(s->dtype)->name);
}

const char *
nmb__opspec_kinds(nmb_run *run)
{
  const char *text = "";
  for (int i = 0; i < NKIND; i++) {
    text = nmb_format(run, "%s%s'%s", text, i ? ", " : "", kinds[i].name);
    for (int j = 0; j < NMB__MAXDIM && kinds[i].key[j].name; j++)
      text = nmb_format(run, "%s %s=", text, kinds[i].key[j].name);
    text = nmb_format(run, "%s'", text);
  }
  return text;
}
