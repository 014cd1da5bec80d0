/* SPDX-License-Identifier: GPL-3.0-or-later */
/* nmbench model: what a model is, holds and needs. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "frontend/counts.h"
#include "harness/cmd.h"

/* What is printed, for one model. */
typedef struct card {
  nmb_run *run;
  const nmb__arch *a;
  nmb__params par;
  nmb_step_spec spec[2]; /* prefill, decode */
  nmb__counts step[2];
} card;

static const char *const phase_names[] = {"prefill", "decode"};

/* ------------------------------------------------------------------- json */
static json_t *
json_parameters(const card *c)
{
  json_t *o = json_pack(
      "{s:I, s:I, s:I, s:I, s:I}", "total", (json_int_t)c->par.total, "active",
      (json_int_t)c->par.active, "active_minus_input_embedding",
      (json_int_t)c->par.active_minus_input_embedding, "active_minus_embeddings",
      (json_int_t)c->par.active_minus_embeddings, "mtp", (json_int_t)c->par.mtp);
  json_t *parts = json_object();
  for (int i = 0; i < NMB__NPART; i++)
    json_object_set_new(parts, nmb__part_name((nmb__part)i),
                        json_integer((json_int_t)c->par.part[i]));
  json_object_set_new(o, "parts", parts);
  return o;
}

static json_t *
json_tensors(const card *c, int distinct)
{
  const nmb__piece *v;
  const int n = nmb__pieces(c->run, c->a, distinct, &v);
  json_t *list = json_array();
  for (int i = 0; i < n; i++)
    json_array_append_new(
        list, json_pack("{s:s, s:s, s:[I,I,I], s:s, s:I}", "name", v[i].name, "part",
                        nmb__part_name(v[i].part), "shape", (json_int_t)v[i].copies,
                        (json_int_t)v[i].rows, (json_int_t)v[i].cols, "format",
                        nmb_dtype_get(v[i].format.dtype)->name, "bytes",
                        (json_int_t)nmb__piece_bytes(&v[i])));
  return list;
}

static json_t *
json_layer(const nmb__layer *l)
{
  const nmb__attn *t = &l->attn;
  json_t *o =
      json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I}", "attention",
                !t->heads                 ? "none"
                : t->mla                  ? "mla"
                : t->kv_heads == t->heads ? "mha"
                : t->kv_heads == 1        ? "mqa"
                                          : "gqa",
                "heads", (json_int_t)t->heads, "kv_heads", (json_int_t)t->kv_heads,
                "key_width", (json_int_t)t->dk, "value_width", (json_int_t)t->dv,
                "window", (json_int_t)t->window, "ffn_width", (json_int_t)l->ffn.width);
  if (l->mixer.kind)
    json_object_set_new(
        o, "mixer",
        json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I}", "kind",
                  nmb__mixer_name(l->mixer.kind), "heads", (json_int_t)l->mixer.heads,
                  "key_heads", (json_int_t)l->mixer.groups, "key_width",
                  (json_int_t)l->mixer.dk, "value_width", (json_int_t)l->mixer.dv,
                  "convolution", (json_int_t)l->mixer.taps, "state_elements",
                  (json_int_t)nmb__state_elements(&l->mixer)));
  if (l->moe.experts)
    json_object_set_new(o, "moe",
                        json_pack("{s:I, s:I, s:I, s:I, s:s}", "experts",
                                  (json_int_t)l->moe.experts, "topk",
                                  (json_int_t)l->moe.topk, "expert_width",
                                  (json_int_t)l->moe.expert.width, "shared_width",
                                  (json_int_t)l->moe.shared.width, "score",
                                  nmb__score_name(l->moe.score)));
  return o;
}

static json_t *
json_blocks(const card *c)
{
  json_t *list = json_array();
  for (int d = 0; d < c->a->ndistinct; d++) {
    json_t *layers = json_array();
    for (int i = 0; i < c->a->nlayer; i++)
      if (c->a->distinct[i] == d)
        json_array_append_new(layers, json_integer(i));
    json_t *o = json_layer(&c->a->layer[c->a->first[d]]);
    json_object_set_new(o, "layers", layers);
    json_object_set_new(o, "tensors", json_tensors(c, d));
    json_array_append_new(list, o);
  }
  return list;
}

static json_t *
json_steps(const card *c)
{
  json_t *o = json_object();
  for (int i = 0; i < 2; i++)
    json_object_set_new(
        o, phase_names[i],
        json_pack("{s:I, s:I, s:I, s:f, s:I, s:I, s:I, s:I, s:I}", "batch",
                  (json_int_t)c->spec[i].batch, "new_tokens",
                  (json_int_t)c->spec[i].fresh, "context", (json_int_t)c->spec[i].context,
                  "macs", c->step[i].macs, "weight_bytes_read",
                  (json_int_t)c->step[i].weight_bytes_touched, "kv_bytes_read",
                  (json_int_t)c->step[i].kv_bytes_read, "kv_bytes_written",
                  (json_int_t)c->step[i].kv_bytes_written, "state_bytes_read",
                  (json_int_t)c->step[i].state_bytes, "state_bytes_written",
                  (json_int_t)c->step[i].state_bytes));
  return o;
}

static json_t *
json_keys(const card *c)
{
  json_t *list = json_array();
  for (int i = 0; i < c->a->nnote; i++)
    json_array_append_new(list,
                          json_pack("{s:s, s:s, s:s}", "key", c->a->note[i].key, "how",
                                    c->a->note[i].how, "what", c->a->note[i].what));
  return list;
}

static json_t *
json_warnings(const nmb__arch *a)
{
  json_t *list = json_array();
  for (int i = 0; i < a->nwarning; i++)
    json_array_append_new(list, json_string(a->warning[i]));
  return list;
}

static json_t *
json_model(const card *c, bool explain)
{
  const nmb__arch *a = c->a;
  json_t *o = json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:b}", "name", a->name, "family",
                        a->family, "file", a->path, "hidden", (json_int_t)a->hidden,
                        "layers", (json_int_t)a->nlayer, "vocab", (json_int_t)a->vocab,
                        "tied", (int)a->tied);
  json_object_set_new(o, "parameters", json_parameters(c));
  json_object_set_new(o, "kv",
                      json_pack("{s:I, s:I}", "bytes_per_token",
                                (json_int_t)(2 * c->par.kv_elements),
                                "bytes_per_token_unwindowed",
                                (json_int_t)(2 * c->par.kv_elements_unwindowed)));
  json_object_set_new(
      o, "state",
      json_pack("{s:I}", "elements_per_sequence", (json_int_t)c->par.state_elements));
  json_object_set_new(o, "weights",
                      json_pack("{s:I}", "bytes", (json_int_t)c->par.weight_bytes));
  json_object_set_new(o, "steps", json_steps(c));
  json_object_set_new(o, "ends", json_tensors(c, NMB_NONE));
  json_object_set_new(o, "blocks", json_blocks(c));
  json_object_set_new(o, "warnings", json_warnings(a));
  if (explain)
    json_object_set_new(o, "keys", json_keys(c));
  return o;
}

/* ------------------------------------------------------------------- text */
/* 1234567 as "1.235 M" */
static const char *
short_number(nmb_run *run, double v, bool bytes)
{
  static const char *const dec[] = {"", " K", " M", " G", " T", " P"};
  static const char *const bin[] = {" B", " KiB", " MiB", " GiB", " TiB", " PiB"};
  const double step = bytes ? 1024 : 1000;
  int i = 0;
  while (v >= step && i < 5) {
    v /= step;
    i++;
  }
  return nmb_format(run, i ? "%.4g%s" : "%.0f%s", v, bytes ? bin[i] : dec[i]);
}

static const char *
grouped(nmb_run *run, int64_t v)
{
  const char *s = nmb_format(run, "%" PRId64, v);
  const size_t n = strlen(s);
  char *out = NMB_NEW(run, char, n + n / 3 + 1);
  size_t at = 0;
  for (size_t i = 0; i < n; i++) {
    if (i && (n - i) % 3 == 0)
      out[at++] = ',';
    out[at++] = s[i];
  }
  return out;
}

static const char *
attention_text(nmb_run *run, const nmb__attn *t)
{
  const char *attn =
      t->mla ? nmb_format(run, "MLA %" PRId64 " heads, latent %" PRId64 "+%" PRId64,
                          t->heads, t->kv_rank, t->d_rope)
             : nmb_format(run, "%s %" PRId64 "/%" PRId64 " heads of %" PRId64,
                          t->heads == t->kv_heads ? "MHA"
                          : t->kv_heads == 1      ? "MQA"
                                                  : "GQA",
                          t->heads, t->kv_heads, t->dk);
  if (t->gate)
    attn = nmb_format(run, "%s, gated", attn);
  if (t->window)
    attn = nmb_format(run, "%s, window %" PRId64, attn, t->window);
  if (t->chunk)
    attn = nmb_format(run, "%s, chunks of %" PRId64, attn, t->chunk);
  if (t->index.heads)
    attn = nmb_format(run, "%s, %" PRId64 "%s chosen%s", attn, t->index.topk,
                      t->index.block ? " blocks" : "", t->index.own ? "" : " before");
  if (t->compress)
    attn = nmb_format(run, "%s, pools of %" PRId64, attn, t->compress);
  if (t->kv_from)
    attn = nmb_format(run, "%s, cache of layer %" PRId64, attn, t->kv_from - 1);
  return attn;
}

static const char *
network_text(nmb_run *run, const nmb__layer *l)
{
  if (!l->moe.experts)
    return nmb_format(run, "FFN %" PRId64 " %s", l->ffn.width,
                      nmb__act_name(l->ffn.act));
  return nmb_format(
      run, "%" PRId64 " of %" PRId64 " experts of %" PRId64 " %s%s", l->moe.topk,
      l->moe.experts, l->moe.expert.width, nmb__act_name(l->moe.expert.act),
      l->moe.shared.width ? nmb_format(run, ", shared %" PRId64, l->moe.shared.width)
                          : "");
}

/* What the layer holds, in its order. */
static const char *
layer_text(nmb_run *run, const nmb__layer *l)
{
  const nmb__mixer *x = &l->mixer;
  const char *s = "";
  if (x->kind)
    s = nmb_format(run, "%s %" PRId64 "/%" PRId64 " heads of %" PRId64 " x %" PRId64,
                   nmb__mixer_name(x->kind), x->heads, x->groups, x->dv, x->dk);
  if (l->attn.heads)
    s = nmb_format(run, "%s%s%s", s, *s ? " beside " : "", attention_text(run, &l->attn));
  if (l->ffn.width || l->moe.experts)
    s = nmb_format(run, "%s%s%s", s, *s ? "; " : "", network_text(run, l));
  return s;
}

/* D: a dense network, M: experts, S: a state mixer; small where attention is local;
 * numbered where a letter stands for several kinds of layer. */
static char
letter(const nmb__layer *l)
{
  const bool local = l->attn.window || l->attn.chunk;
  if (l->mixer.kind)
    return 'S';
  return l->moe.experts ? local ? 'm' : 'M' : local ? 'd' : 'D';
}

static const char *
tag(const card *c, int d)
{
  const nmb__arch *a = c->a;
  const char is = letter(&a->layer[a->first[d]]);
  int same = 0;
  for (int i = 0; i < d; i++)
    same += letter(&a->layer[a->first[i]]) == is;
  return same ? nmb_format(c->run, "%c%d", is, same + 1)
              : nmb_format(c->run, "%c", is);
}

static const char *
run_length(const card *c, const int *v, int n)
{
  const char *s = "";
  for (int i = 0; i < n;) {
    int j = i;
    while (j < n && v[j] == v[i])
      j++;
    s = nmb_format(c->run, "%s%s%s", s, *s ? " " : "", tag(c, v[i]));
    if (j - i > 1)
      s = nmb_format(c->run, "%s\u00d7%d", s, j - i);
    i = j;
  }
  return s;
}

static const char *
pattern(const card *c)
{
  const nmb__arch *a = c->a;
  const int n = (int)a->nlayer;
  for (int period = 2; a->ndistinct > 1 && period <= n / 2; period++) {
    bool same = n % period == 0;
    for (int i = period; same && i < n; i++)
      same = a->distinct[i] == a->distinct[i - period];
    if (same)
      return nmb_format(c->run, "[%s]\u00d7%d", run_length(c, a->distinct, period),
                        n / period);
  }
  return run_length(c, a->distinct, n);
}

/* A line for each kind of layer: what it is, how often, and what it holds. */
static void
print_blocks(const card *c)
{
  const nmb__arch *a = c->a;
  for (int d = 0; d < a->ndistinct; d++) {
    const nmb__piece *v;
    const int n = nmb__pieces(c->run, a, d, &v);
    int64_t count = 0, bytes = 0, times = 0;
    for (int i = 0; i < n; i++) {
      count += v[i].rows * v[i].cols * v[i].copies;
      bytes += nmb__piece_bytes(&v[i]);
    }
    for (int i = 0; i < a->nlayer; i++)
      times += a->distinct[i] == d;
    printf("  %-4s %3" PRId64 "  %s\n            %s parameters, %s each\n", tag(c, d),
           times, layer_text(c->run, &a->layer[a->first[d]]), grouped(c->run, count),
           short_number(c->run, (double)bytes, true));
  }
}

static void
print_weights(const card *c, const char *title, int distinct)
{
  const nmb__piece *v;
  const int n = nmb__pieces(c->run, c->a, distinct, &v);
  printf("%s\n", title);
  for (int i = 0; i < n; i++)
    printf("  %-22s %5" PRId64 " x %7" PRId64 " x %7" PRId64 "  %-8s %s\n", v[i].name,
           v[i].copies, v[i].rows, v[i].cols, nmb_dtype_get(v[i].format.dtype)->name,
           short_number(c->run, (double)nmb__piece_bytes(&v[i]), true));
}

static void
print_detail(const card *c)
{
  print_weights(c, "weights of E and H", NMB_NONE);
  for (int d = 0; d < c->a->ndistinct; d++)
    print_weights(c, nmb_format(c->run, "weights of %s", tag(c, d)), d);
}

static void
print_steps(const card *c)
{
  for (int i = 0; i < 2; i++) {
    const nmb__counts *s = &c->step[i];
    printf("%-9s%" PRId64 " x %" PRId64 " new after %" PRId64
           " cached: %s MACs, weights read %s, KV read %s, written %s",
           phase_names[i], c->spec[i].batch, c->spec[i].fresh, c->spec[i].context,
           short_number(c->run, s->macs, false),
           short_number(c->run, (double)s->weight_bytes_touched, true),
           short_number(c->run, (double)s->kv_bytes_read, true),
           short_number(c->run, (double)s->kv_bytes_written, true));
    if (s->state_bytes)
      printf(", state %s each way",
             short_number(c->run, (double)s->state_bytes, true));
    printf("\n");
  }
}

static void
print_parameters(const card *c)
{
  const nmb__params *p = &c->par;
  printf("parameters\n");
  for (int i = 0; i < NMB__NPART; i++)
    if (p->part[i])
      printf("  %-24s%20s  active %18s\n", nmb__part_name((nmb__part)i),
             grouped(c->run, p->part[i]), grouped(c->run, p->active_part[i]));
  printf("  %-24s%20s  active %18s\n", "total", grouped(c->run, p->total),
         grouped(c->run, p->active));
  printf("  %-24s%20s  active %18s\n", "without input embedding", "",
         grouped(c->run, p->active_minus_input_embedding));
  printf("  %-24s%20s  active %18s\n", "without embeddings", "",
         grouped(c->run, p->active_minus_embeddings));
  if (p->mtp)
    printf("  %-24s%20s  (%" PRId64 " modules, on top)\n", "multi-token prediction",
           grouped(c->run, p->mtp), c->a->mtp);
}

static void
print_text(const card *c, bool explain, bool detail)
{
  nmb_run *run = c->run;
  const nmb__arch *a = c->a;
  printf("%s (%s)\n", a->name, a->family);
  printf("layers   %" PRId64 ": E %s H\n", a->nlayer, pattern(c));
  print_blocks(c);
  printf("width    hidden %" PRId64 ", vocabulary %" PRId64 "%s\n", a->hidden, a->vocab,
         a->tied ? ", head tied to the embedding" : "");
  print_parameters(c);
  printf("weights  %s as stored (%s bytes)\n",
         short_number(run, (double)c->par.weight_bytes, true),
         grouped(run, c->par.weight_bytes));
  printf("KV       %s bytes a token in 16 bit", grouped(run, 2 * c->par.kv_elements));
  if (c->par.kv_elements != c->par.kv_elements_unwindowed)
    printf(", %s beyond the windows", grouped(run, 2 * c->par.kv_elements_unwindowed));
  printf("\n");
  if (c->par.state_elements)
    printf("state    %s elements a sequence\n", grouped(run, c->par.state_elements));
  print_steps(c);
  if (detail)
    print_detail(c);
  if (explain) {
    printf("keys of %s\n", a->path);
    for (int i = 0; i < a->nnote; i++)
      printf("  %-40s %-9s %s\n", a->note[i].key, a->note[i].how, a->note[i].what);
  }
}

/* One of several models. */
static void
print_line(const card *c)
{
  printf("%-44s %20s  active %20s  KV %8s B  weights %s\n", c->a->name,
         grouped(c->run, c->par.total), grouped(c->run, c->par.active),
         grouped(c->run, 2 * c->par.kv_elements),
         short_number(c->run, (double)c->par.weight_bytes, true));
}

static nmb_status
card_make(nmb__cli *cli, const char *name, card *out)
{
  card c = {.run = cli->run};
  NMB_TRY(nmb__arch_load(cli->run, name, &c.a));
  const int64_t batch = nmb__cli_int(cli, "batch"),
                context = nmb__cli_int(cli, "context");
  nmb__arch_params(cli->run, c.a, &c.par);
  if (c.a->stored_bytes)
    c.par.weight_bytes = c.a->stored_bytes;
  c.spec[0] = (nmb_step_spec){NMB_PREFILL, batch, context, 0};
  c.spec[1] = (nmb_step_spec){NMB_DECODE, batch, 1, context};
  for (int i = 0; i < 2; i++)
    NMB_TRY(nmb__arch_step(cli->run, c.a, c.spec[i], &c.step[i]));
  *out = c;
  return NMB_OK;
}

/* What stands in the list for a model that could not be read. */
static json_t *
failure(nmb__cli *cli, const char *name, nmb_status s)
{
  json_t *shown = json_string(name), *text = json_string(nmb_error_text(cli->run));
  return json_pack("{s:o, s:s, s:o}", "model", shown ? shown : json_null(), "status",
                   nmb_status_name(s), "error", text ? text : json_null());
}

/* Several models: a list, or a line each; the first failure decides the exit code. */
static int
cmd_model(nmb__cli *cli)
{
  const bool explain = nmb__cli_flag(cli, "explain"), json = nmb__cli_flag(cli, "json");
  int code = NMB__EXIT_OK;
  nmb__run_lenient(cli->run, nmb__cli_flag(cli, "lenient"));
  json_t *list = json_array();
  for (int i = 0; i < cli->narg; i++) {
    card c;
    const nmb_status s = card_make(cli, cli->arg[i], &c);
    if (s != NMB_OK) {
      code = code ? code : nmb__exit_code(s);
      json_array_append_new(list, failure(cli, cli->arg[i], s));
      continue;
    }
    if (json)
      json_array_append_new(list, json_model(&c, explain));
    else if (cli->narg > 1)
      print_line(&c);
    else
      print_text(&c, explain, nmb__cli_flag(cli, "detail"));
  }
  if (json && json_array_size(list)) {
    json_t *one = json_array_get(list, 0);
    const int wrote = nmb__cli_json(json_incref(cli->narg > 1 ? list : one));
    code = code ? code : wrote;
  }
  json_decref(list);
  return code;
}

static const nmb__flag flags[] = {
    NMB__FLAG_JSON,
    {"batch", 0, "N", "int", "1", "sequences in the steps that are counted"},
    {"context", 0, "N", "int", "2048",
     "prompt length of prefill, cached tokens of decode"},
    {"detail", 0, NULL, NULL, NULL, "list every weight of every block"},
    {"lenient", 0, NULL, NULL, NULL,
     "warn of keys that are not understood, instead of refusing the file"},
    {"explain", 0, NULL, NULL, NULL, "say of each key of the file what it is used for"},
    {0}};

const nmb__command nmb__cmd_model = {
    .name = "model",
    .args = "NAME|FILE...",
    .arg_type = "model",
    .min = 1,
    .max = -1,
    .summary = "what a model is, holds and needs",
    .help =
        "Prints the layers of a model, its parameters by part, the bytes of its weights "
        "as stored, its cache per token, and the work of a prefill and a decode step.\n\n"
        "A name is that of a file in the models folder in any case, with or without its "
        "owner, or the start of one. A file is a config.json or one of weights (GGUF, "
        "llama2.c .bin, safetensors, an index of shards, or their folder), which must hold "
        "every weight of the model. Multi-token prediction modules are counted apart; "
        "a head tied to the embedding counts once. The steps assume uniform routing "
        "and, in decode, absorbed latent attention.",
    .example = "nmbench model mixtral-8x7b\nnmbench model deepseek-v3 --json --batch 32",
    .flags = flags,
    .main = cmd_model,
};
