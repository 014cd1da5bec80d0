/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A page about a machine, made from what the machine file says. */
#include "harness/page.h"

#include <math.h>
#include <string.h>

#include "base/path.h"
#include "base/units.h"
#include "ir/eval.h"
#include "nmbench/nmb_plugin.h"

enum { WIDTH = 76 };

/* 1.024e12 -> "1.02 TB/s"; for the diagram, where exactness would only clutter. */
static const char *
about(nmb_run *run, double v, const char *unit)
{
  static const char *const prefix[] = {"p", "n", "u", "m", "", "k", "M", "G", "T", "P"};
  int i = 4;
  if (isnan(v))
    return "unknown";
  for (; v >= 1000 && i < 9; i++)
    v /= 1000;
  for (; v > 0 && v < 1 && i > 0; i--)
    v *= 1000;
  return nmb_format(run, "%.3g %s%s", v, prefix[i], unit);
}

/* -------------------------------------------------------------------- diagram */
static void
rule(FILE *f)
{
  fputc('+', f);
  for (int i = 0; i < WIDTH; i++)
    fputc('-', f);
  fputs("+\n", f);
}

static void
boxed(FILE *f, const char *text)
{
  fprintf(f, "| %-*.*s |\n", WIDTH - 2, WIDTH - 2, text);
}

static const char *
memory_text(nmb_run *run, const nmb_mem *m)
{
  const char *text =
      nmb_format(run, "%s: %s, %s", m->name, about(run, (double)m->bytes, "B"),
                 about(run, m->bytes_per_s, "B/s"));
  if (m->channels * m->banks > 1)
    text = nmb_format(run, "%s, %d channels x %d banks", text, m->channels, m->banks);
  if (m->devices > 1)
    text = nmb_format(run, "%s, on %d devices", text, m->devices);
  return text;
}

static const char *
engine_text(nmb_run *run, const nmb_hw *hw, const nmb_engine *e)
{
  const char *text = nmb_format(run, "[%s] %s", e->name, e->model);
  if (e->local != NMB_NONE)
    text = nmb_format(run, "%s, beside it %s of %s", text, hw->mem[e->local].name,
                      about(run, (double)hw->mem[e->local].bytes, "B"));
  return text;
}

static void
memory_box(nmb_run *run, const nmb_hw *hw, nmb_id mem, FILE *f)
{
  rule(f);
  boxed(f, memory_text(run, &hw->mem[mem]));
  for (int i = 0; i < hw->nengine; i++)
    if (hw->engine[i].in_memory && hw->engine[i].resident == mem)
      boxed(f,
            nmb_format(run, "  in its banks: %s", engine_text(run, hw, &hw->engine[i])));
  rule(f);
  for (int i = 0; i < hw->nengine; i++) {
    const nmb_engine *e = &hw->engine[i];
    if (!nmb_engine_is_link(e) && !e->in_memory && (e->home == mem || e->resident == mem))
      fprintf(f, "  |--- %s%s\n", engine_text(run, hw, e),
              i == hw->host ? ", runs what nothing else can" : "");
  }
  for (int i = 0; i < hw->nengine; i++) {
    const nmb_engine *e = &hw->engine[i];
    if (!nmb_engine_is_link(e) || (e->from != mem && e->to != mem))
      continue;
    const nmb_id other = e->from == mem ? e->to : e->from;
    fprintf(f, "  |=== %s, %s === %s\n", e->name,
            about(run, nmb_param_get(e, "bandwidth"), "B/s"),
            other == mem ? "the other devices" : hw->mem[other].name);
  }
  fputc('\n', f);
}

/* ---------------------------------------------------------------------- tables */
static void
row(FILE *f, const char *key, const char *value, const char *help)
{
  fprintf(f, "| %s | %s | %s |\n", key, value, help);
}

static void
head(FILE *f, const char *what, const char *name, const char *source)
{
  fprintf(f, "\n### %s `%s`\nSource of these values: %s.\n\n", what, name, source);
  fputs("| parameter | value | meaning |\n|---|---|---|\n", f);
}

static void
memory_table(nmb_run *run, const nmb_mem *m, FILE *f)
{
  head(f, m->local ? "Local memory" : "Memory", m->name, m->source);
  row(f, "size", nmb__units_format(run, (double)m->bytes, "size"), "of all devices");
  row(f, "bandwidth", nmb__units_format(run, m->bytes_per_s, "bandwidth"),
      "of the interface, all devices");
  row(f, "latency", nmb__units_format(run, m->latency_s, "time"), "of an access");
  row(f, "energy", nmb__units_format(run, m->j_per_byte, "energy/byte"),
      "through the interface");
  row(f, "static", nmb__units_format(run, m->static_w, "power"), "all devices");
  if (m->page_bytes == 0)
    return;
  row(f, "channels", nmb_format(run, "%d", m->channels), "of all devices");
  row(f, "banks", nmb_format(run, "%d", m->banks), "of a channel");
  row(f, "page", nmb_format(run, "%lld B", (long long)m->page_bytes), "a row of a bank");
  row(f, "burst", nmb_format(run, "%lld B", (long long)m->burst_bytes), "of an access");
}

/* How an engine adds products up, where it is not in float; docs/functional.md. */
static void
arith_rows(nmb_run *run, const nmb_engine *e, FILE *f)
{
#define X(id, name) name,
  static const char *const sum[] = {NMB_SUM_MAP(X)};
  static const char *const order[] = {NMB_ORDER_MAP(X)};
#undef X
  const nmb_arith *a = &e->arith;
  if (nmb_engine_is_link(e) || !nmb__arith_differs(e) || !strcmp(e->model, "cim"))
    return;
  row(f, "multiply", sum[a->multiply], "format of products");
  row(f, "tree", nmb_format(run, "%d", a->tree), "products added in pairs before a register");
  row(f, "tree-sums", sum[a->tree_sums], "format of sums in the tree");
  row(f, "sum-lanes", nmb_format(run, "%d", a->lanes), "registers whose sums are added at the end");
  row(f, "accumulate", sum[a->accumulate], "format of registers");
  row(f, "piece", nmb_format(run, "%lld", (long long)a->piece),
      "terms after which a sum leaves; 0: all");
  row(f, "result", sum[a->result], "format in which a sum leaves");
  row(f, "piece-order", order[a->order], "how sums of pieces are added, in fp32");
}

static void
engine_table(nmb_run *run, const nmb_engine *e, FILE *f)
{
  head(f, nmb_engine_is_link(e) ? "Link" : "Engine", e->name, e->source);
  row(f, "model", e->model, e->impl->summary);
  row(f, "launch", nmb__units_format(run, e->launch_s, "time"), "of a kernel");
  row(f, "static", nmb__units_format(run, e->static_w, "power"), "all devices");
  for (int i = 0; i < e->nparam; i++) {
    const nmb_opt *o = &e->impl->opts[i]; /* parameters stand in the table's order */
    const bool physical = nmb__units_type(o->type);
    row(f, e->param[i].name,
        e->param[i].text ? e->param[i].text
        : physical       ? nmb__units_format(run, e->param[i].value, o->type)
                   : nmb_format(run, "%s", e->param[i].value > 0 ? "true" : "false"),
        o->help);
  }  arith_rows(run, e, f);
}

/* ---------------------------------------------------------------------- limits */
/* The remark "Not modelled: .." at the head of a machine file, or of the one that it
 * includes; "" if there is none. */
static const char *
remark(nmb_run *run, const char *name, int depth)
{
  static const char key[] = "# Not modelled:";
  const char *path, *out = "";
  size_t len;
  if (depth > 8 || nmb__find_file(run, "machines", name, ".hw", &path) != NMB_OK)
    return "";
  const char *text = nmb__read_file(run, path, &len);
  const char *at = text ? strstr(text, key) : NULL;
  if (!at) {
    const char *include = text ? strstr(text, "\ninclude = \"") : NULL;
    if (!include)
      return "";
    include += strlen("\ninclude = \"");
    return remark(run, nmb_format(run, "%.*s", (int)strcspn(include, "\""), include),
                  depth + 1);
  }
  for (at += 2; at[-2] == '#' && at[-1] == ' ';) {
    const size_t n = strcspn(at, "\n");
    out = nmb_format(run, "%s%s%.*s", out, *out ? " " : "", (int)n, at);
    at += n + (at[n] == '\n');
    if (strlen(at) < 2)
      break;
    at += 2;
  }
  return out;
}

static bool
first_of_model(const nmb_hw *hw, int engine)
{
  for (int i = 0; i < engine; i++)
    if (!strcmp(hw->engine[i].model, hw->engine[engine].model))
      return false;
  return true;
}

nmb_status
nmb__page_print(nmb_run *run, const char *name, const nmb_hw *hw, FILE *f)
{
  fprintf(f, "# %s\n%s.\n\nMachine file `%s`; %d device%s.\n\n## Block diagram\n```\n",
          hw->title, hw->source, hw->name, hw->devices, hw->devices == 1 ? "" : "s");
  for (int i = 0; i < hw->nmem; i++)
    if (!hw->mem[i].local)
      memory_box(run, hw, i, f);
  fprintf(f, "```\n\n## Parameters\n");
  for (int i = 0; i < hw->nmem; i++)
    memory_table(run, &hw->mem[i], f);
  for (int i = 0; i < hw->nengine; i++)
    engine_table(run, &hw->engine[i], f);
  const char *said = remark(run, name, 0);
  fprintf(f, "\n## What is not modelled\n%s%s", said, *said ? "\n\n" : "");
  for (int i = 0; i < hw->nengine; i++)
    if (first_of_model(hw, i))
      fprintf(f, "- %s: %s\n", hw->engine[i].model, hw->engine[i].impl->limits);
  return NMB_OK;
}
