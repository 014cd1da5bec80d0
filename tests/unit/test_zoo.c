/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Every model of models/: on a machine that holds it, prefill and decode compile and
 * simulate, and the code does what the file asks for.  For the plain families the work
 * is worked out here once more, in closed form from the keys of the file. */
#include <glob.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/plugin.h"
#include "base/run.h"
#include "frontend/counts.h"
#include "ir/machine.h"
#include "ir/pipeline.h"
#include "tests/unit/compiled.h"
#include "tests/unit/unit.h"

/* Machines of a kind from small to large, and how models are compiled for them.  A model
 * runs on the first that holds it. */
enum { NMACHINE = 4 };
typedef struct kind {
  const char *machine[NMACHINE], *pipeline;
  bool all; /* the largest holds every model; else every third step of the grid will do */
} kind;

static const kind host = {
    {"gpu-h100", "gpu-h100-x4", "gpu-h100-x16", "gpu-h100-x32"},
    "legalize,mla-absorb,moe-lower,fuse-none,dispatch-rule,map-rowmajor,sched-inorder,"
    "mem-bump,emit-queues",
    true};
/* Their multipliers take 16-bit formats only. */
static const kind banks = {
    {"aim-gddr6-x8", "aim-gddr6-x32", "aim-gddr6-x96", NULL},
    "legalize,mla-absorb,moe-lower,quantize{weights=bf16},fuse-epilogue,dispatch-rule,"
    "map-interleave,sched-overlap,mem-bestfit,emit-queues",
    false};

static const nmb_step_spec grid[] = {{NMB_DECODE, 1, 1, 0},
                                     {NMB_DECODE, 3, 1, 700},
                                     {NMB_DECODE, 2, 4, 17},
                                     {NMB_DECODE, 8, 1, 5000},
                                     {NMB_PREFILL, 3, 11, 2100},
                                     {NMB_PREFILL, 1, 33, 0},
                                     {NMB_PREFILL, 2, 130, 600}};
enum { NGRID = sizeof grid / sizeof *grid };

/* ------------------------------------------------------------ from the keys */
typedef struct file {
  json_t *root, *text;
} file;

#define HIDDEN "hidden_size|n_embd|n_embed"
#define LAYERS "num_hidden_layers|n_layer"
#define QUERIES "num_attention_heads|n_head"
#define WIDE "intermediate_size|ffn_dim|n_inner"

/* The first of the names that the file has. */
static int64_t
key(const file *f, const char *names, int64_t dflt)
{
  char name[64];
  for (const char *at = names; *at; at += *at == '|') {
    const size_t n = strcspn(at, "|");
    snprintf(name, sizeof name, "%.*s", (int)n, at);
    at += n;
    const json_t *v = json_object_get(f->text, name);
    if (json_is_integer(v))
      return json_integer_value(v);
  }
  return dflt;
}

/* Number i of a list, or the one number for all layers. */
static int64_t
key_of(const file *f, const char *name, int64_t i)
{
  const json_t *v = json_object_get(f->text, name);
  return json_is_array(v) ? json_integer_value(json_array_get(v, (size_t)i))
                          : key(f, name, 0);
}

static bool
is(const file *f, const char *const *types)
{
  const char *type = json_string_value(json_object_get(f->text, "model_type"));
  for (; type && *types; types++)
    if (!strcmp(type, *types))
      return true;
  return false;
}

static bool
is_gemma(const file *f)
{
  return is(f, (const char *const[]){"gemma3n_text", "gemma4_text", NULL});
}

/* Does layer i see a window only? */
static bool
local(const file *f, int64_t i)
{
  static const char *const every[] = {"mistral", "phi3", "starcoder2", NULL};
  const json_t *types = json_object_get(f->text, "layer_types");
  const char *type = json_string_value(json_array_get(types, (size_t)i));
  if (type)
    return !strcmp(type, "sliding_attention");
  if (is(f, (const char *const[]){"gemma3_text", NULL}))
    return (i + 1) % key(f, "sliding_window_pattern", 6) != 0;
  return is(f, every) || (is(f, (const char *const[]){"gemma2", NULL}) && i % 2 == 0);
}

/* Positions that layer i keeps for a step. */
static int64_t
kept(const file *f, const nmb_step_spec *s, int64_t i)
{
  const int64_t w = local(f, i) ? key(f, "sliding_window", 0) : 0;
  const int64_t all = s->context + s->fresh;
  return w && w - 1 + s->fresh < all ? w - 1 + s->fresh : all;
}

typedef struct work {
  double macs, kv_read, kv_written; /* bytes of 16-bit caches */
} work;

/* A layer with heads of their own keys and values, or few keys for many.  The last
 * layers of some read caches of others. */
static void
heads_work(const file *f, const nmb_step_spec *s, int64_t i, work *w)
{
  const double H = (double)key(f, HIDDEN, 0), T = (double)(s->batch * s->fresh);
  const double nh = (double)key(f, QUERIES, 0);
  const double nk = (double)key(f, "num_key_value_heads|num_kv_heads", (int64_t)nh);
  const int64_t wide = local(f, i) ? 0 : key(f, "global_head_dim", 0);
  const double d = (double)(wide ? wide : key(f, "head_dim", (int64_t)(H / nh)));
  const double S = (double)kept(f, s, i);
  const bool own = i < key(f, LAYERS, 0) - key(f, "num_kv_shared_layers", 0);
  w->macs += T * (2 * H * nh * d + (own ? 2 * H * nk * d : 0) + 2 * nh * d * S);
  w->kv_read += 2 * (double)s->batch * S * 2 * nk * d;
  w->kv_written += own ? 2 * T * 2 * nk * d : 0;
}

/* Of a layer of Gemma 3n or 4, beside attention and network: an embedding of its own
 * and its gate; the streams' router, twice, and what it makes of them; a low rank. */
static double
streams_work(const file *f)
{
  const double H = (double)key(f, HIDDEN, 0), n = (double)key(f, "altup_num_inputs", 0);
  return 3 * H * (double)key(f, "hidden_size_per_layer_input", 0) + 2 * n * H + n * n * n +
         n * n + 2 * H * (double)key(f, "laurel_rank", 0);
}

/* Latent attention, absorbed in decode (arXiv:2405.04434, section 2.1). */
static void
latent_work(const file *f, const nmb_step_spec *s, work *w)
{
  const double H = (double)key(f, HIDDEN, 0), T = (double)(s->batch * s->fresh);
  const double nh = (double)key(f, QUERIES, 0), r = (double)key(f, "kv_lora_rank", 0);
  const double dn = (double)key(f, "qk_nope_head_dim", 0), dr = (double)key(f, "qk_rope_head_dim", 0);
  const double dv = (double)key(f, "v_head_dim", 0), qr = (double)key(f, "q_lora_rank", 0);
  const double B = (double)s->batch;
  double S = (double)(s->context + s->fresh);
  const double query = qr > 0 ? H * qr + qr * nh * (dn + dr) : H * nh * (dn + dr);
  const double ranks = nh * r * (dn + dv), chosen = (double)key(f, "index_topk", 0);
  if (chosen > 0 && s->fresh == 1 && chosen < S) /* what the indexer lets through */
    S = chosen;
  w->macs += T * (query + H * (r + dr) + nh * dv * H);
  w->macs += s->phase == NMB_DECODE ? T * (ranks + nh * S * (2 * r + dr))
                                    : B * S * ranks + T * nh * S * (dn + dr + dv);
  w->kv_read += 2 * B * S * (r + dr);
  w->kv_written += 2 * T * (r + dr);
}

/* DeepSeek-V3.2's indexer (arXiv:2512.02556, section 2.1) sees all keys. */
static void
index_work(const file *f, const nmb_step_spec *s, int64_t i, work *w)
{
  const char *type =
      json_string_value(json_array_get(json_object_get(f->text, "indexer_types"), (size_t)i));
  const double n = (double)key(f, "index_n_heads", 0), d = (double)key(f, "index_head_dim", 0);
  const double T = (double)(s->batch * s->fresh), H = (double)key(f, HIDDEN, 0);
  const double S = (double)(s->context + s->fresh);
  if (type && !strcmp(type, "shared"))
    return;
  w->macs += T * ((double)key(f, "q_lora_rank", 0) * n * d + H * (d + n) + S * n * d);
  w->kv_read += 2 * (double)s->batch * S * d;
  w->kv_written += 2 * T * d;
}

static double
network_work(const file *f, int64_t i)
{
  static const char *const two[] = {"starcoder2", "opt", "gpt2", "gptj", "bloom", "falcon", NULL};
  const double H = (double)key(f, HIDDEN, 0);
  const int64_t E = key(f, "num_local_experts|n_routed_experts|num_experts", 0);
  const int64_t given = is_gemma(f) ? key_of(f, "intermediate_size", i) : key(f, WIDE, 0);
  const double wide = given ? (double)given : 4 * H;
  const double one = (double)key(f, "moe_intermediate_size", (int64_t)wide);
  const double k = (double)key(f, "num_experts_per_tok|experts_per_token", 0);
  const bool shared = i >= key(f, LAYERS, 0) - key(f, "num_kv_shared_layers", 0);
  const bool twice = shared && json_is_true(json_object_get(f->text, "use_double_wide_mlp"));
  if (!E || i < key(f, "first_k_dense_replace", 0))
    return (is(f, two) ? 2 : 3) * H * wide * (twice ? 2 : 1);
  return H * (double)E + 3 * H * one * (k + (double)key(f, "n_shared_experts", 0));
}

/* Are the keys there that the formulas need?  Other values are a family's defaults. */
static bool
complete(const file *f)
{
  const bool gemma = is(f, (const char *const[]){"gemma3_text", NULL});
  return key(f, HIDDEN, 0) && key(f, "vocab_size", 0) && key(f, LAYERS, 0) &&
         key(f, QUERIES, 0) && (!gemma || key(f, "head_dim", 0)) &&
         !key(f, "top_k_experts", 0); /* Gemma 4 with experts */
}

/* False: not one of the families that these formulas are for. */
static bool
expected_work(const char *path, const nmb_step_spec *s, work *w)
{
  static const char *const plain[] = {
      "llama",  "mistral",      "qwen2",       "qwen3",   "qwen3_moe", "mixtral", "olmoe",
      "olmo2",  "granite",      "phi3",        "gpt_oss", "gemma2",    "cohere",  "bitnet",
      "phimoe", "glm4_moe",     "minimax_m2",  "opt",     "gpt2",      "gptj",    "bloom",
      "falcon", "starcoder2",   "gemma3_text", "gemma3n_text", "gemma4_text", NULL};
  static const char *const latent[] = {"deepseek_v2", "deepseek_v3", "kimi_k2",
                                       "deepseek_v32", "glm_moe_dsa", NULL};
  file f = {.root = json_load_file(path, 0, NULL)};
  json_t *text = json_object_get(f.root, "text_config");
  f.text = text ? text : f.root;
  const bool known = (is(&f, plain) || is(&f, latent)) && complete(&f);
  const int64_t n = known ? key(&f, LAYERS, 0) : 0;
  const double T = (double)(s->batch * s->fresh), H = (double)key(&f, HIDDEN, 0);
  const double streams = (double)key(&f, "altup_num_inputs", 1);
  *w = (work){0};
  for (int64_t i = 0; i < n; i++) {
    if (is(&f, latent))
      latent_work(&f, s, w), index_work(&f, s, i, w);
    else
      heads_work(&f, s, i, w);
    w->macs += T * (network_work(&f, i) + (is_gemma(&f) ? streams_work(&f) : 0));
  }
  w->macs += (double)s->batch * H * (double)key(&f, "vocab_size", 0);
  w->macs += (streams - 1) * H * H * (T + (double)s->batch);
  json_decref(f.root);
  return known;
}

/* --------------------------------------------------------------------- models */
typedef struct zoo {
  nmb_run *run;
  const kind *k;
  nmb_hw *hw[NMACHINE];
  int files, compiled, closed; /* compiled: steps; closed: those checked by closed forms */
} zoo;

/* From the graph: every weight once, but for rows of tables that no token looks up, experts
 * that no token reaches, and what nothing reads. */
static double
weights_expected(const nmb_prog *p)
{
  double sum = 0;
  for (int i = 0; i < p->ntensor; i++) {
    const nmb_tensor *t = &p->tensor[i];
    double bytes = (double)nmb_tensor_bytes(t);
    int reads = 0;
    for (int o = 0; t->role == NMB_ROLE_WEIGHT && o < p->nop; o++)
      for (int j = 0; j < p->op[o].nin; j++) {
        const nmb_op *op = &p->op[o];
        if (op->in[j] != i || reads++)
          continue;
        const double rows = (double)t->dim[0], T = (double)(p->spec.batch * p->spec.fresh);
        const bool table = op->code == NMB_OP_TOPK && j == 2 && nmb_op_int(op, "table", 0);
        if ((op->code == NMB_OP_EMBED || table) && T < rows)
          bytes *= T / rows;
        if (op->code == NMB_OP_GLINEAR)
          bytes *= p->routing[nmb_op_int(op, "routing", 0)].reached / rows;
      }
    sum += reads ? bytes * (double)p->block[t->block].repeat : 0;
  }
  return sum;
}

static void
closed_forms(zoo *z, const char *path, const nmb__arch *a, const nmb_prog *p)
{
  work w;
  nmb__counts c;
  nmb__arch_counts(z->run, a, p, &c);
  const double bytes = weights_expected(p);
  CU_ASSERT_DOUBLE_EQUAL(c.weight_bytes_touched, bytes, 1e-9 * bytes);
  if (!expected_work(path, &p->spec, &w))
    return;
  z->closed++;
  if (c.macs < w.macs || c.macs > w.macs)
    printf("\n  %s, batch %d context %d: %.0f macs, expected %.0f\n", a->name,
           (int)p->spec.batch, (int)p->spec.context, c.macs, w.macs);
  CU_ASSERT_DOUBLE_EQUAL(c.macs, w.macs, 0);
  CU_ASSERT_DOUBLE_EQUAL(c.kv_bytes_read, w.kv_read, 0);
  CU_ASSERT_DOUBLE_EQUAL(c.kv_bytes_written, w.kv_written, 0);
}

/* NMB_INFEASIBLE: the machine does not hold it. */
static nmb_status
step(zoo *z, const char *path, const nmb__arch *a, int machine, int g)
{
  nmb_prog *p;
  nmb_status s = compiled(z->run, a, z->hw[machine], grid[g], z->k->pipeline, &p);
  if (s == NMB_OK) {
    z->compiled++;
    closed_forms(z, path, a, p);
    s = nmb__conserve(z->run, a, p);
    if (s == NMB_OK)
      s = nmb__simulate(z->run, p, "bound");
    if (s == NMB_OK)
      s = nmb__simulate(z->run, p, "event");
    nmb_prog_free(p);
  }
  return s;
}

static void
one(zoo *z, const char *path)
{
  const char *name = strrchr(path, '/') + 1;
  const nmb__arch *a;
  name = nmb_format(z->run, "%.*s", (int)(strlen(name) - strlen(".json")), name);
  CU_ASSERT_EQUAL_FATAL(nmb__arch_load(z->run, path, &a), NMB_OK);
  int machine = 0;
  for (int g = NGRID - 1; g >= 0; g -= z->k->all ? 1 : 3) { /* the largest decides */
    nmb_status s;
    while ((s = step(z, path, a, machine, g)) == NMB_INFEASIBLE &&
           machine < NMACHINE - 1 && z->k->machine[machine + 1])
      machine++;
    if (s != NMB_OK && (z->k->all || s != NMB_INFEASIBLE))
      printf("\n  %s on %s, batch %d context %d: %s\n", name, z->k->machine[machine],
             (int)grid[g].batch, (int)grid[g].context, nmb_error_text(z->run));
    CU_ASSERT_TRUE(s == NMB_OK || (s == NMB_INFEASIBLE && !z->k->all));
  }
}

static void
every_model(const kind *k, zoo *z)
{
  const char *dir = getenv("srcdir");
  char pattern[4096];
  glob_t g;
  *z = (zoo){.run = nmb__run_open(NULL), .k = k};
  CU_ASSERT_EQUAL(nmb__plugins_load(z->run, NULL), NMB_OK);
  for (int i = 0; i < NMACHINE && k->machine[i]; i++)
    CU_ASSERT_EQUAL_FATAL(nmb__machine_load(z->run, k->machine[i], &z->hw[i]), NMB_OK);
  snprintf(pattern, sizeof pattern, "%s/models/*.json", dir ? dir : ".");
  CU_ASSERT_EQUAL_FATAL(glob(pattern, 0, NULL, &g), 0);
  CU_ASSERT_TRUE(g.gl_pathc >= 100);
  for (size_t i = 0; i < g.gl_pathc; i++) {
    const size_t mark = nmb__run_mark(z->run);
    one(z, g.gl_pathv[i]);
    nmb__run_release(z->run, mark);
  }
  z->files = (int)g.gl_pathc;
  printf("%d steps, %d by closed forms ", z->compiled, z->closed);
  globfree(&g);
  for (int i = 0; i < NMACHINE && k->machine[i]; i++)
    nmb__machine_free(z->hw[i]);
  nmb__run_close(z->run);
}

static void
test_host(void)
{
  zoo z;
  every_model(&host, &z);
  CU_ASSERT_EQUAL(z.compiled, NGRID * z.files);
  CU_ASSERT_TRUE(z.closed >= 70 * NGRID);
}

/* Few are too large for banks. */
static void
test_banks(void)
{
  zoo z;
  every_model(&banks, &z);
  CU_ASSERT_TRUE(z.compiled >= 2 * (z.files - 20));
}

UNIT_MAIN("zoo", {"every model compiles, simulates and does what its file asks", test_host},
          {"so does every model that in-memory machines hold", test_banks})
