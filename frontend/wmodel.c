/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Weight files as models. */
#include "frontend/wmodel.h"

#include <jansson.h>
#include <string.h>
#include <strings.h>

#include "base/hash.h"
#include "base/map.h"
#include "base/path.h"
#include "base/run.h"
#include "frontend/token.h"

/* "dir/name.gguf" -> "name"; "dir/name/", "dir/name/model.safetensors" -> "name" */
static const char *
stem(nmb_run *run, const char *path)
{
  size_t n = strlen(path);
  while (n > 1 && path[n - 1] == '/')
    n--;
  static const char *const files[] = {"/model.safetensors", "/model.safetensors.index.json",
                                      "/config.json"};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++)
    if (n > strlen(files[i]) && !strcmp(path + n - strlen(files[i]), files[i]))
      n -= strlen(files[i]);
  size_t at = n;
  while (at && path[at - 1] != '/')
    at--;
  const char *s = nmb_format(run, "%.*s", (int)(n - at), path + at);
  const char *dot = strrchr(s, '.');
  return dot && dot > s ? nmb_format(run, "%.*s", (int)(dot - s), s) : s;
}

/* ------------------------------------------------------- quantization_config */
static int64_t
number(const json_t *j, const char *key)
{
  return json_integer_value(json_object_get(j, key));
}

static const char *
text(nmb_run *run, const json_t *j, const char *key)
{
  const char *s = json_string_value(json_object_get(j, key));
  return s ? nmb_strdup(run, s) : "";
}

/* compressed-tensors: the settings of the first group. */
static const json_t *
group_weights(const json_t *q)
{
  const char *k;
  json_t *v;
  json_object_foreach(json_object_get(q, "config_groups"), k, v)
    return json_object_get(v, "weights");
  return NULL;
}

static nmb_status
layout_read(nmb_run *run, const char *config, nmb__layout_info *out)
{
  size_t len;
  const char *s = nmb__read_file(run, config, &len);
  if (!s)
    return NMB_IO;
  json_error_t err;
  json_t *top = json_loadb(s, len, 0, &err);
  const json_t *q = json_object_get(top, "quantization_config");
  if (!q)
    q = json_object_get(json_object_get(top, "text_config"), "quantization_config");
  const json_t *group = group_weights(q), *block = json_object_get(q, "weight_block_size");
  if (!block)
    block = json_object_get(group, "block_structure");
  out->method = text(run, q, "quant_method");
  out->bits = (int)(number(q, "bits") & 31);
  if (!out->bits)
    out->bits = (int)(number(group, "num_bits") & 31);
  const int64_t size =
      number(q, json_object_get(q, "group_size") ? "group_size" : "q_group_size");
  out->group = size > 0 && size <= 1 << 20 ? (int)size : 0;
  out->gemv = !strcasecmp(text(run, q, "version"), "gemv");
  out->multiply = !strcmp(text(run, q, "linear_class"), "autobitlinear");
  out->online = out->multiply && !strcmp(text(run, q, "quantization_mode"), "online");
  out->v2 = !strcmp(text(run, q, "checkpoint_format"), "gptq_v2");
  for (size_t i = 0; i < 2 && json_array_size(block) == 2; i++) {
    const int64_t n = json_integer_value(json_array_get(block, i));
    *(i ? &out->block_cols : &out->block_rows) = n > 0 && n <= 1 << 20 ? n : 128;
  }
  json_decref(top);
  return NMB_OK;
}

/* -------------------------------------------------------------------- open */
static nmb_status
arch_find(nmb_run *run, nmb__wmodel *m)
{
  const nmb__meta *name = nmb__wfile_meta(m->file, "general.name");
  const char *s = name ? nmb__meta_text(run, name) : "";
  if (!*s || strlen(s) > 200)
    s = stem(run, m->file->path);
  if (m->file->naming == NMB__NAMES_GGUF)
    return nmb__gguf_arch(run, m->file, s, &m->arch);
  if (m->file->naming == NMB__NAMES_RWKV)
    return nmb__rwkv_arch(run, m->file, s, &m->arch);
  if (!m->file->config)
    return nmb_fail(run, NMB_BADINPUT, (nmb_loc){m->file->path, 0, 0},
                    "no config.json beside the file: the architecture is unknown");
  size_t len;
  const char *config = nmb__read_file(run, m->file->config, &len);
  if (!config)
    return NMB_IO;
  NMB_TRY(nmb__arch_parse(run, m->file->config, s, config, len, &m->arch));
  return layout_read(run, m->file->config, &m->layout);
}

/* A word that is no file may have been meant as a name. */
static nmb_status
no_such(nmb_run *run, const char *name)
{
  return nmb_fail(run, NMB_BADINPUT, NMB_NOLOC,
                  nmb__arch_known(run, name)
                      ? "model '%s' has no weights here: give a weight file, or one of "
                        "those that 'nmbench list models' shows with weights"
                      : "found no file '%s', and no model of that name with weights; "
                        "'nmbench list models' shows which have some",
                  name);
}

nmb_status
nmb__wmodel_open(nmb_run *run, const char *path, nmb__wmodel **out)
{
  nmb__wmodel *m = NMB_NEW(run, nmb__wmodel, 1);
  m->layout = (nmb__layout_info){.method = "", .block_rows = 128, .block_cols = 128};
  const char *named = nmb__wfile_named(run, path);
  *out = NULL;
  if (!named && !strchr(path, '/') && !nmb__is_file(path) && !nmb__is_folder(path))
    return no_such(run, path);
  nmb_status s = nmb__wfile_open(run, named ? named : path, &m->file);
  if (s == NMB_OK) {
    m->stems = nmb__wmodel_stems(m->file);
    if ((s = arch_find(run, m)) != NMB_OK)
      nmb__wfile_close(m->file);
  }
  *out = s == NMB_OK ? m : NULL;
  return s;
}

void
nmb__wmodel_close(nmb__wmodel *m)
{
  if (m)
    nmb__wfile_close(m->file);
}

/* The first position is the embedding, the last the head. */
static int64_t
layer_of(const nmb__wmodel *m, int64_t position)
{
  return position >= 1 && position <= m->arch->nlayer ? position - 1 : -1;
}

static nmb_status
load(nmb_run *run, void *self, const nmb_prog *p, nmb_id tensor, const nmb__place *at,
     float *out, const float **ready, bool *exact)
{
  const nmb__wmodel *m = self;
  const nmb_tensor *t = &p->tensor[tensor];
  *ready = NULL;
  if (t->role == NMB_ROLE_INPUT) { /* a list of the configuration */
    const double *list = !strcmp(t->name, NMB__ROPE_LONG_FACTORS) ? m->arch->rope_long
                                                                  : m->arch->rope_short;
    for (int64_t i = 0; i < nmb_tensor_count(t); i++)
      out[i] = (float)list[i];
    return NMB_OK;
  }
  return nmb__wmodel_load(run, m, t, layer_of(m, at->position), out, exact);
}

static nmb_status
load_bytes(nmb_run *run, void *self, const nmb_prog *p, nmb_id tensor, const nmb__place *at,
           uint8_t *out)
{
  const nmb__wmodel *m = self;
  return nmb__wmodel_bytes(run, m, &p->tensor[tensor], layer_of(m, at->position), out);
}

nmb__weights
nmb__wmodel_weights(nmb__wmodel *m)
{
  return (nmb__weights){m, load, load_bytes};
}

static nmb_status
block_check(nmb_run *run, const nmb__wmodel *m, const nmb_prog *p, nmb_id block,
            int64_t layer)
{
  bool exact;
  for (nmb_id t = 0; t < p->ntensor; t++)
    if (p->tensor[t].block == block && p->tensor[t].role == NMB_ROLE_WEIGHT)
      NMB_TRY(nmb__wmodel_load(run, m, &p->tensor[t], layer, NULL, &exact));
  return NMB_OK;
}

nmb_status
nmb__wmodel_check(nmb_run *run, nmb__wmodel *m)
{
  static const nmb__routing_spec routing = {"uniform", 0, 1};
  const nmb_step_spec spec = {NMB_DECODE, 1, 1, 0};
  nmb_prog *p;
  NMB_TRY(nmb__graph_build(run, m->arch, spec, &routing, &p));
  nmb_status s = NMB_OK;
  int64_t position = 0;
  for (int i = 0; s == NMB_OK && i < p->nsegment; i++)
    for (int64_t k = 0; s == NMB_OK && k < p->order[i].count; k++)
      s = block_check(run, m, p, p->order[i].block, layer_of(m, position++));
  nmb_prog_free(p);
  return s;
}

/* ------------------------------------------------------------------- texts */
const char *
nmb__wmodel_own_text(nmb_run *run, const nmb__wmodel *m)
{
  const char *path = m->file->path, *dot = strrchr(path, '.');
  if (!dot || strchr(dot, '/'))
    return NULL;
  const char *text = nmb_format(run, "%.*s.txt", (int)(dot - path), path);
  return nmb__is_file(text) ? text : NULL;
}

nmb_status
nmb__wmodel_text(nmb_run *run, const nmb__wmodel *m, const char *file,
                 const char *tokenizer, int32_t **ids, int64_t *n, int32_t *bos)
{
  nmb__vocab *v;
  size_t len;
  if (!file && !(file = nmb__wmodel_own_text(run, m)))
    return nmb_fail(run, NMB_BADOPTION, NMB_NOLOC,
                    "no text beside %s, and none is given", m->file->path);
  NMB_TRY(nmb__vocab_open(run, m->file, tokenizer, m->arch->vocab, &v));
  const char *text = nmb__read_file(run, file, &len);
  if (!text)
    return NMB_IO;
  v->add_bos = v->add_eos = false;
  if (v->bos >= 0)
    *bos = v->bos;
  return nmb__vocab_encode(run, v, text, len, ids, n);
}

uint64_t
nmb__wmodel_hash(const nmb__wmodel *m)
{
  enum { WHOLE = 64 << 20, STEP = 1 << 20, PAGE = 4096 };
  nmb__hasher *h = nmb__hash_begin();
  nmb__hash_add(h, &m->arch->hash, sizeof m->arch->hash);
  for (int i = 0; i < m->file->nmap; i++) {
    const uint8_t *at = m->file->map[i].at;
    const size_t n = m->file->map[i].bytes, step = n > WHOLE ? STEP : n + 1;
    nmb__hash_add(h, &n, sizeof n);
    for (size_t k = 0; k < n; k += step)
      nmb__hash_add(h, at + k, n > WHOLE ? (n - k < PAGE ? n - k : PAGE) : n);
  }
  return nmb__hash_end(h);
}
