/* SPDX-License-Identifier: GPL-3.0-or-later */
/* rwkv.cpp file -> normalised architecture.  Its header says little: the generation and
 * the widths are those of its tensors. */
#include "frontend/config.h"
#include "frontend/wmodel.h"

typedef struct reader {
  nmb_run *run;
  const nmb__wfile *w;
  nmb__config c;
} reader;

/* A dimension of a tensor, counted from the last. */
static nmb_status
width(const reader *r, const char *name, int from_last, int64_t *out)
{
  const nmb__wtensor *t = nmb__wfile_find(r->w, name);
  if (!t)
    return nmb_fail(r->run, NMB_BADINPUT, (nmb_loc){r->w->path, 0, 0},
                    "tensor '%s' is missing", name);
  *out = from_last < t->rank ? t->dim[t->rank - 1 - from_last] : 1;
  return NMB_OK;
}

static nmb_status
set(reader *r, nmb__field f, const char *key, int64_t v)
{
  json_t *j = json_integer(v);
  const nmb_status s = nmb__config_set(r->run, &r->c, r->w->path, f, key, j);
  json_decref(j);
  return s;
}

static nmb_status
set_width(reader *r, nmb__field f, const char *tensor, int from_last)
{
  int64_t n = 0;
  NMB_TRY(width(r, tensor, from_last, &n));
  return set(r, f, tensor, n);
}

static bool
has(const reader *r, const char *name)
{
  return nmb__wfile_find(r->w, name) != NULL;
}

/* RWKV-5 and -6 norm what the state gives, RWKV-7 alone has r_k. */
static const char *
family_of(const reader *r)
{
  if (has(r, "blocks.0.att.r_k"))
    return "rwkv7";
  if (has(r, "blocks.0.att.time_maa_x"))
    return "rwkv6";
  return has(r, "blocks.0.att.time_first") && !has(r, "blocks.0.att.ln_x.weight")
             ? "rwkv4"
             : NULL;
}

static nmb_status
header_read(reader *r)
{
  static const struct {
    const char *key;
    nmb__field field;
  } keys[] = {{"rwkv.vocab", NMB__F_VOCAB},
              {"rwkv.embed", NMB__F_HIDDEN},
              {"rwkv.layers", NMB__F_LAYERS}};
  const char *family = family_of(r);
  if (!family)
    return nmb_fail(r->run, NMB_UNSUPPORTED, (nmb_loc){r->w->path, 0, 0},
                    "the tensors are not those of RWKV-4, RWKV-6 or RWKV-7, which alone "
                    "have a graph");
  NMB_TRY(nmb__config_begin(r->run, r->w->path, family, &r->c));
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    const nmb__meta *m = nmb__wfile_meta(r->w, keys[i].key);
    NMB_TRY(set(r, keys[i].field, keys[i].key, m ? m->i : 0));
  }
  NMB_TRY(set_width(r, NMB__F_FFN, "blocks.0.ffn.key.weight", 1));
  if (has(r, "blocks.0.att.r_k")) {
    NMB_TRY(set_width(r, NMB__F_MIX_HEAD_DIM, "blocks.0.att.r_k", 0));
    NMB_TRY(set_width(r, NMB__F_MIX_RANK, "blocks.0.att.w1", 1));
    NMB_TRY(set_width(r, NMB__F_MIX_A_RANK, "blocks.0.att.a1", 1));
    NMB_TRY(set_width(r, NMB__F_MIX_GATE_RANK, "blocks.0.att.g1", 1));
    if (r->c.set[NMB__F_LAYERS].i > 1)
      NMB_TRY(set_width(r, NMB__F_MIX_V_RANK, "blocks.1.att.v1", 1));
  }
  if (has(r, "blocks.0.att.time_maa_x")) {
    NMB_TRY(set_width(r, NMB__F_MIX_HEAD_DIM, "blocks.0.att.time_faaaa", 1));
    NMB_TRY(set_width(r, NMB__F_MIX_RANK, "blocks.0.att.time_decay_w1", 1));
    NMB_TRY(set_width(r, NMB__F_MIX_A_RANK, "blocks.0.att.time_maa_w2", 0));
  }
  nmb__config_end(r->run, &r->c);
  return NMB_OK;
}

static void
format_set(const reader *r, nmb__layer *l, nmb__class c, const char *tensor)
{
  const nmb__wtensor *t = nmb__wfile_find(r->w, tensor);
  if (!t)
    return;
  l->dtype[c] = (int64_t)nmb__storage_format(t->type).dtype;
  l->group[c] = nmb__storage_format(t->type).group;
}

static void
formats_set(const void *self, nmb__arch *a, nmb__layer *layer)
{
  const reader *r = self;
  const nmb__wtensor *embed = nmb__wfile_find(r->w, "emb.weight"),
                     *head = nmb__wfile_find(r->w, "head.weight"),
                     *norm = nmb__wfile_find(r->w, "ln_out.weight");
  if (embed)
    a->embed = nmb__storage_format(embed->type);
  if (head)
    a->head = nmb__storage_format(head->type);
  if (norm)
    a->final_norm = nmb__storage_format(norm->type);
  for (int64_t i = 0; i < a->nlayer; i++) {
    format_set(r, &layer[i], NMB__W_NORM, "blocks.0.ln1.weight");
    format_set(r, &layer[i], NMB__W_MIXER, "blocks.0.att.key.weight");
    format_set(r, &layer[i], NMB__W_FFN, "blocks.0.ffn.key.weight");
    layer[i].dtype[NMB__W_SELECT] = NMB_DT_F32; /* constants */
    layer[i].group[NMB__W_SELECT] = 0;
  }
}

nmb_status
nmb__rwkv_arch(nmb_run *run, const nmb__wfile *w, const char *name, const nmb__arch **out)
{
  reader r = {.run = run, .w = w};
  NMB_TRY(header_read(&r));
  r.c.formats = formats_set;
  r.c.formats_self = &r;
  return nmb__arch_of(run, &r.c, w->path, name, w->hash, out);
}
