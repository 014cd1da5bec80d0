/* SPDX-License-Identifier: GPL-3.0-or-later */
/* GGUF header -> normalised architecture, by the tables of gguf.def. */
#include "base/near.h"
#include "frontend/ggufarch.h"

typedef struct key_row {
  const char *key, *arch;
  int field; /* NFIELD: of no use to this architecture; NONE: a note */
  const char *why;
} key_row;

#define DEFAULT(values)
#define KEY(key, arch, field)
#define NOTE(key, why)
#define ARCH(arch, family, values) {arch, family, values},
static const nmb__gguf_row archs[] = {
#include "frontend/gguf.def"
};
#undef ARCH
#undef KEY
#undef NOTE
#define ARCH(arch, family, values)
#define KEY(key, arch, field) {key, arch, NMB__F_##field, NULL},
#define NOTE(key, why) {key, "", NMB_NONE, why},
static const key_row keys[] = {
#include "frontend/gguf.def"
};
#undef ARCH
#undef KEY
#undef NOTE
#undef DEFAULT
#define ARCH(arch, family, values)
#define KEY(key, arch, field)
#define NOTE(key, why)
#define DEFAULT(values) values
static const char defaults[] =
#include "frontend/gguf.def"
    ;
#undef ARCH
#undef KEY
#undef NOTE
#undef DEFAULT
#define NARCH ((int)(sizeof archs / sizeof *archs))
#define NKEY (sizeof keys / sizeof *keys)

/* -------------------------------------------------------------- settings */
static json_t *
meta_json(const reader *r, const nmb__meta *m)
{
  if (m->kind == NMB__META_INT)
    return json_integer(m->i);
  if (m->kind == NMB__META_BOOL)
    return json_boolean(m->i);
  if (m->kind == NMB__META_REAL)
    return json_real(m->r);
  if (m->kind == NMB__META_TEXT)
    return json_string(nmb__meta_text(r->run, m));
  json_t *list = json_array();
  for (uint64_t i = 0; i < m->n && i < 4096; i++) {
    const double v = nmb__meta_number(m, i);
    json_array_append_new(list, v > -0x1p53 && v < 0x1p53 && v == (double)(int64_t)v
                                    ? json_integer((int64_t)v)
                                    : json_real(v));
  }
  return list;
}

/* Layers without attention have 0 heads, others 0 of their network: a list whose other
 * numbers are alike is one number, as the tensors say which layers these are. */
static json_t *
one_number(json_t *list)
{
  const json_t *some = NULL, *v;
  size_t i;
  json_array_foreach(list, i, v)
  {
    if (!json_is_integer(v) || (json_integer_value(v) && some && !json_equal(v, some)))
      return list;
    some = json_integer_value(v) ? v : some;
  }
  if (!some)
    return list;
  json_t *out = json_integer(json_integer_value(some));
  json_decref(list);
  return out;
}

static bool
fits(const char *pattern, const char *s)
{
  const size_t n = strcspn(pattern, "*");
  return !strncmp(pattern, s, n) && (pattern[n] || !s[n]);
}

/* Is the row for the file's architecture? */
static bool
row_is(const reader *r, const key_row *k)
{
  const char *mixer = r->c.set[NMB__F_MIXER].s;
  if (!strcmp(k->arch, "(latent)"))
    return r->c.set[NMB__F_MLA].i;
  if (!strcmp(k->arch, "(heads)"))
    return !strcmp(mixer, "ssd") || !strcmp(mixer, "delta") || !strcmp(mixer, "kda");
  return !*k->arch || !strcmp(k->arch, r->row->arch);
}

static nmb_status
key_unknown(const reader *r, const char *key)
{
  const char *names[NKEY];
  for (size_t i = 0; i < NKEY; i++)
    names[i] = keys[i].key;
  const char *s = strchr(key, '.') + 1;
  return nmb_fail(r->run, NMB_BADINPUT, (nmb_loc){r->w->path, 0, 0},
                  "%s: unknown key, which may change the architecture%s", key,
                  nmb__hint(r->run, s, names, (int)NKEY));
}

/* Factors of which 0 means that there is none. */
static bool
off(int field, const nmb__meta *m)
{
  static const int fields[] = {NMB__F_EMBED_SCALE, NMB__F_RESIDUAL_SCALE,
                               NMB__F_LOGIT_SCALE, NMB__F_LOGIT_DIVISOR,
                               NMB__F_ROUTE_SCALE, NMB__F_V_SCALE};
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
    if (field == fields[i] && m->kind == NMB__META_REAL && !(m->r < 0 || m->r > 0))
      return true;
  return false;
}

static nmb_status
key_read(reader *r, const nmb__meta *m)
{
  const size_t n = strlen(r->row->arch);
  if (strncmp(m->key, r->row->arch, n) || m->key[n] != '.') {
    nmb__config_note(r->run, &r->c, m->key, "ignored", "about the file, not the model");
    return NMB_OK;
  }
  const char *s = m->key + n + 1;
  for (size_t i = 0; i < NKEY; i++) {
    const key_row *k = &keys[i];
    if (!fits(k->key, s) || !row_is(r, k))
      continue;
    if (k->field >= 0 && k->field != NMB__F_NFIELD && !off(k->field, m))
      return set(r, (nmb__field)k->field, m->key, one_number(meta_json(r, m)));
    nmb__config_note(r->run, &r->c, m->key, "ignored",
                     k->why                         ? k->why
                     : k->field == NMB__F_NFIELD ? "the family's code does not read it"
                                                  : "0: not in use");
    return NMB_OK;
  }
  return key_unknown(r, m->key);
}

/* ----------------------------------------------------------------- formats */
nmb__format
nmb__storage_format(nmb__storage s)
{
  const nmb__storage_info *i = nmb__storage_get(s);
  return (nmb__format){i->dtype, i->group};
}

/* A tensor of each class: the first that a layer has. */
static const struct {
  nmb__class class_;
  const char *name[3];
} class_tensors[] = {
    {NMB__W_NORM,
     {"attn_norm.weight", "attn_post_norm.weight", "post_attention_norm.weight"}},
    {NMB__W_ATTN, {"attn_q.weight", "attn_qkv.weight", "attn_q_b.weight"}},
    {NMB__W_MLA_DOWN, {"attn_kv_a_mqa.weight"}},
    {NMB__W_FFN, {"ffn_up.weight", "ffn_gate.weight"}},
    {NMB__W_ROUTER, {"ffn_gate_inp.weight"}},
    {NMB__W_EXPERT, {"ffn_up_exps.weight", "ffn_up.0.weight"}},
    {NMB__W_SHARED, {"ffn_up_shexp.weight"}},
};

static nmb__format
format_of(const nmb__wtensor *t, nmb__format dflt)
{
  return t ? nmb__storage_format(t->type) : dflt;
}

/* A scheme to the byte, but in the format that the graph has for it. */
static nmb__scheme
scheme_of(nmb__storage type)
{
  const nmb__storage_info *i = nmb__storage_get(type);
  nmb__scheme s = {.dtype = i->dtype, .group = i->group, .bits = 8 * i->bytes / i->elems};
  if (i->elems > 1) {
    s.scale_bits = 8 * i->bytes - s.bits * i->elems;
    s.block_rows = 1;
    s.block_cols = i->elems;
  }
  return s;
}

/* Each matrix of a layer has a format of its own. */
static void
matrices_set(const reader *r, nmb__arch *a, nmb__layer *layer)
{
  static const char *const matrix[] = {
#define X(name, ...) name,
#include "frontend/modules.def"
#undef X
  };
  const nmb__wmodel m = {.file = (nmb__wfile *)(uintptr_t)r->w,
                         .arch = a,
                         .layout = {.method = "", .block_rows = 128, .block_cols = 128}};
  nmb__scheme *scheme = NMB_NEW(r->run, nmb__scheme, NMB__NSTORAGE + 1);
  for (int s = 0; s < NMB__NSTORAGE; s++)
    scheme[s] = scheme_of((nmb__storage)s);
  scheme[NMB__NSTORAGE] = scheme_of(NMB__ST_F32); /* what is changed on the way */
  a->scheme = scheme;
  a->layer = layer; /* which the names of some tensors depend on */
  for (int64_t i = 0; i < a->nlayer; i++)
    for (size_t k = 0; k < sizeof matrix / sizeof *matrix; k++)
      layer[i].scheme[k] = 1 + (int64_t)nmb__wmodel_storage(r->run, &m, matrix[k], i);
}

static void
formats_set(const void *self, nmb__arch *a, nmb__layer *layer)
{
  const reader *r = self;
  a->embed = format_of(global(r, "token_embd.weight"), a->embed);
  a->head = format_of(global(r, "output.weight"), a->embed);
  a->position = format_of(global(r, "position_embd.weight"), a->position);
  a->final_norm = format_of(global(r, "output_norm.weight"), a->final_norm);
  matrices_set(r, a, layer);
  for (int64_t i = 0; i < a->nlayer; i++)
    for (size_t k = 0; k < sizeof class_tensors / sizeof *class_tensors; k++) {
      const nmb__class c = class_tensors[k].class_;
      const nmb__wtensor *t = NULL;
      for (int j = 0; !t && j < 3 && class_tensors[k].name[j]; j++)
        t = of_layer(r, i, class_tensors[k].name[j]);
      if (!t)
        continue;
      layer[i].dtype[c] = (int64_t)nmb__storage_format(t->type).dtype;
      layer[i].group[c] = nmb__storage_format(t->type).group;
    }
}

/* ------------------------------------------------------------------- whole */
static nmb_status
row_find(reader *r)
{
  const nmb__meta *m = nmb__wfile_meta(r->w, "general.architecture");
  const char *arch = nmb__meta_text(r->run, m), *names[NARCH];
  for (int i = 0; i < NARCH; i++) {
    names[i] = archs[i].arch;
    if (!strcmp(arch, names[i]))
      r->row = &archs[i];
  }
  if (r->row)
    return NMB_OK;
  if (!*arch)
    return nmb_fail(r->run, NMB_BADINPUT, (nmb_loc){r->w->path, 0, 0},
                    "no key 'general.architecture' with a text");
  return nmb_fail(r->run, NMB_UNSUPPORTED, (nmb_loc){r->w->path, 0, 0},
                  "architecture '%s' is not known%s", arch,
                  nmb__hint(r->run, arch, names, NARCH));
}

/* One architecture of GGUF may be several families. */
static const char *
family_of(const reader *r)
{
  const nmb__meta *e = meta(r, "expert_count"), *g = meta(r, "expert_gating_func");
  if (!strcmp(r->row->arch, "llama") && e && e->i > 0)
    return "mixtral";
  if (!strcmp(r->row->arch, "deepseek2") && g && g->i == 2)
    return "deepseek_v3";
  return r->row->family;
}

static nmb_status
header_read(reader *r)
{
  NMB_TRY(nmb__config_begin(r->run, r->w->path, family_of(r), &r->c));
  NMB_TRY(nmb__config_apply(r->run, &r->c, defaults));
  NMB_TRY(nmb__config_apply(r->run, &r->c, r->row->values));
  for (int i = 0; i < r->w->nmeta; i++)
    NMB_TRY(key_read(r, &r->w->meta[i]));
  NMB_TRY(nmb__gguf_tensors(r));
  NMB_TRY(nmb__gguf_rope(r));
  nmb__config_end(r->run, &r->c);
  return NMB_OK;
}

nmb_status
nmb__gguf_arch(nmb_run *run, const nmb__wfile *w, const char *name, const nmb__arch **out)
{
  reader r = {.run = run, .w = w, .root = json_array()};
  nmb_status s = row_find(&r);
  if (s == NMB_OK)
    s = header_read(&r);
  r.c.formats = formats_set;
  r.c.formats_self = &r;
  if (s == NMB_OK)
    s = nmb__arch_of(run, &r.c, w->path, name, w->hash, out);
  json_decref(r.root);
  return s;
}
