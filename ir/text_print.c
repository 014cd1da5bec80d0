/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Program -> text.  The form is described in text.h.  Ids out of range, which a
 * broken plugin may leave behind, print as `?`, so that they can be seen. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/text.h"

static const char *const phase_name[] = {"prefill", "decode"};
static const char *const axis_name[] = {"none", "batch", "head"};
static const char *const lay_name[] = {"linear", "blocked", "interleaved"};
static const char *const role_name[] = {
#define X(id, name) name,
    NMB_ROLE_MAP(X)
#undef X
};
static const char *const insn_name[] = {
#define X(id, name, help) name,
    NMB_INSN_MAP(X)
#undef X
};

/* ------------------------------------------------------------------- tokens */
static bool
is_word(const char *s)
{
  if (!nmb__text_letter(*s))
    return false;
  for (; *s; s++)
    if (!nmb__text_inside(*s) || (*s == '-' && s[1] == '>'))
      return false;
  return true;
}

static void
put_quoted(FILE *f, const char *s)
{
  fputc('"', f);
  for (; *s; s++) {
    const unsigned char c = (unsigned char)*s;
    if (c == '"' || c == '\\')
      fprintf(f, "\\%c", c);
    else if (c == '\n')
      fputs("\\n", f);
    else if (c < 0x20 || c == 0x7f)
      fprintf(f, "\\x%02x", c);
    else
      fputc(c, f);
  }
  fputc('"', f);
}

static void
put_name(FILE *f, const char *s)
{
  if (s && is_word(s))
    fputs(s, f);
  else
    put_quoted(f, s ? s : "");
}

/* The shortest decimal that reads back to the same value. */
static void
put_real(FILE *f, double v)
{
  if (isnan(v) || isinf(v)) {
    fputs(isnan(v) ? "+nan" : v > 0 ? "+inf" : "-inf", f);
    return;
  }
  char buf[40];
  for (int digits = 15; digits <= 17; digits++) {
    snprintf(buf, sizeof buf, "%.*g", digits, v);
    if (strtod(buf, NULL) == v)
      break;
  }
  fputs(buf, f);
  if (!strpbrk(buf, ".e"))
    fputs(".0", f);
}

/* A tensor's name, after its block's if it is in another than `block`. */
static void
put_tensor(FILE *f, const nmb_prog *p, nmb_id t, nmb_id block)
{
  if (t < 0 || t >= p->ntensor) {
    fputs("?", f);
    return;
  }
  const nmb_tensor *x = &p->tensor[t];
  if (x->block != block) {
    put_name(f, p->block[x->block].name);
    fputc(' ', f);
  }
  fputc('%', f);
  /* after the mark a digit may come first */
  bool plain = *x->name != '\0';
  for (const char *s = x->name; *s; s++)
    plain = plain && nmb__text_inside(*s) && !(*s == '-' && s[1] == '>');
  if (plain)
    fputs(x->name, f);
  else
    put_quoted(f, x->name);
}

static void
put_op(FILE *f, const nmb_prog *p, nmb_id op, nmb_id block)
{
  put_tensor(f, p, op >= 0 && op < p->nop ? p->op[op].out[0] : NMB_NONE, block);
}

static void
put_engine(FILE *f, const nmb_prog *p, nmb_id e)
{
  if (e == NMB_NONE)
    fputc('-', f);
  else if (p->hw && e >= 0 && e < p->hw->nengine)
    put_name(f, p->hw->engine[e].name);
  else
    fprintf(f, "@%d", (int)e);
}

static void
put_mem(FILE *f, const nmb_prog *p, nmb_id m)
{
  if (m == NMB_NONE)
    fputc('-', f);
  else if (p->hw && m >= 0 && m < p->hw->nmem)
    put_name(f, p->hw->mem[m].name);
  else
    fprintf(f, "@%d", (int)m);
}

/* -------------------------------------------------------------------- graph */
static void
put_routing(FILE *f, const nmb_routing *r, int id)
{
  fprintf(f, "  routing %d ", id);
  put_name(f, r->name);
  fprintf(f, " experts %d topk %d tokens %" PRId64 " {\n", r->experts, r->topk,
          r->ntoken);
  const size_t row = (size_t)r->topk * sizeof *r->expert;
  for (int64_t t = 0, next; t < r->ntoken; t = next) {
    const int32_t *e = r->expert + t * r->topk;
    for (next = t + 1; next < r->ntoken && !memcmp(e, r->expert + next * r->topk, row);)
      next++;
    for (int j = 0; j < r->topk; j++)
      fprintf(f, "%s%d", j ? " " : "    ", (int)e[j]);
    if (next - t > 1)
      fprintf(f, " x %" PRId64, next - t);
    fputc('\n', f);
  }
  fputs("  }\n", f);
}

static void
put_type(FILE *f, const nmb_tensor *t)
{
  fputs(nmb_dtype_get(t->dtype)->name, f);
  if (t->group)
    fprintf(f, "/%d", t->group);
  for (int i = 0; i < t->rank; i++)
    fprintf(f, "%c%" PRId64, i ? ',' : '[', t->dim[i]);
  fputc(']', f);
}

static void
put_attrs(FILE *f, const nmb_op *o)
{
  for (int i = 0; i < o->nattr; i++) {
    const nmb_attr *a = &o->attr[i];
    fputs(i ? ", " : " {", f);
    put_name(f, a->key);
    fputc('=', f);
    switch (a->kind) {
    case NMB_ATTR_INT: fprintf(f, "%" PRId64, a->i); break;
    case NMB_ATTR_REAL: put_real(f, a->r); break;
    case NMB_ATTR_SYM: put_name(f, a->s); break;
    }
  }
  if (o->nattr)
    fputc('}', f);
}

static void
put_definition(FILE *f, const nmb_prog *p, const nmb_op *o)
{
  fputs("    ", f);
  for (int i = 0; i < o->nout; i++) {
    fputs(i ? ", " : "", f);
    put_tensor(f, p, o->out[i], o->block);
  }
  fprintf(f, " = %s(", nmb_op_get(o->code)->name);
  for (int i = 0; i < o->nin; i++) {
    fputs(i ? ", " : "", f);
    put_tensor(f, p, o->in[i], o->block);
  }
  fputc(')', f);
  put_attrs(f, o);
  for (int i = 0; i < o->nout; i++) {
    const nmb_tensor *t = &p->tensor[o->out[i]];
    fputs(i ? ", " : " : ", f);
    if (t->role != NMB_ROLE_ACT)
      fprintf(f, "%s ", role_name[t->role]);
    put_type(f, t);
  }
  fputc('\n', f);
}

static void
put_end(FILE *f, const nmb_prog *p, nmb_id t, nmb_id block)
{
  if (t == NMB_NONE)
    fputc('-', f);
  else
    put_tensor(f, p, t, block);
}

/* next[t]: the declared tensor of the same block that comes after t. */
static void
put_block(FILE *f, const nmb_prog *p, nmb_id b, nmb_id first, const nmb_id *next)
{
  const nmb_block *k = &p->block[b];
  fputs("  block ", f);
  put_name(f, k->name);
  fputc('(', f);
  put_end(f, p, k->in, b);
  fputs(") -> ", f);
  put_end(f, p, k->out, b);
  fputs(" {\n", f);
  for (nmb_id t = first; t != NMB_NONE; t = next[t]) {
    fprintf(f, "    %s ", role_name[p->tensor[t].role]);
    put_tensor(f, p, t, b);
    if (p->tensor[t].of) {
      fputs(" = ", f);
      put_tensor(f, p, p->tensor[t].of - 1, b);
    }
    fputs(" : ", f);
    put_type(f, &p->tensor[t]);
    fputc('\n', f);
  }
  for (int i = 0; i < k->nop; i++)
    put_definition(f, p, &p->op[k->op[i]]);
  fputs("  }\n", f);
}

static void
put_graph(FILE *f, const nmb_prog *p)
{
  for (int i = 0; i < p->nrouting; i++)
    put_routing(f, &p->routing[i], i);
  nmb_id *next = nmb__xrealloc(NULL, (size_t)p->ntensor, sizeof *next);
  nmb_id *first = nmb__xrealloc(NULL, (size_t)p->nblock, sizeof *first);
  for (int b = 0; b < p->nblock; b++)
    first[b] = NMB_NONE;
  for (int i = p->ntensor - 1; i >= 0; i--)
    if (p->tensor[i].def == NMB_NONE) {
      next[i] = first[p->tensor[i].block];
      first[p->tensor[i].block] = i;
    }
  for (int b = 0; b < p->nblock; b++)
    put_block(f, p, b, first[b], next);
  free(next);
  free(first);
  for (int i = 0; i < p->nsegment; i++) {
    fputs(i ? ", " : "  order ", f);
    put_name(f, p->block[p->order[i].block].name);
    fprintf(f, " x %" PRId64, p->order[i].count);
  }
  if (p->nsegment)
    fputc('\n', f);
}

/* --------------------------------------------------------------------- plan */
static void
put_groups(FILE *f, const nmb_prog *p)
{
  for (int i = 0; i < p->nkernel; i++) {
    const nmb_kernel *k = &p->kernel[i];
    fprintf(f, "  kernel %d ", i);
    put_name(f, p->block[k->block].name);
    fputs(" {", f);
    for (int j = 0; j < k->nop; j++) {
      fputc(' ', f);
      put_op(f, p, k->op[j], k->block);
    }
    fputs(" }\n", f);
  }
}

static void
put_dispatch(FILE *f, const nmb_prog *p)
{
  for (int i = 0; i < p->nkernel; i++) {
    fprintf(f, "  kernel %d ", i);
    put_engine(f, p, p->kernel[i].engine);
    fputc('\n', f);
  }
}

static void
put_mapping(FILE *f, const nmb_prog *p)
{
  for (int i = 0; i < p->nmap; i++) {
    const nmb_map *m = &p->map[i];
    fprintf(f, "  kernel %d tile %" PRId64 " %" PRId64 " %" PRId64 " reuse %" PRId64 "\n",
            (int)m->kernel, m->tile_b, m->tile_m, m->tile_n, m->reuse);
  }
  for (int i = 0; i < p->nlayout; i++) {
    const nmb_layout *l = &p->layout[i];
    fputs("  layout ", f);
    put_tensor(f, p, l->tensor, NMB_NONE);
    fputc(' ', f);
    put_mem(f, p, l->mem);
    fprintf(f, " %s unit %" PRId64 " channels %d bytes %" PRId64 "%s\n",
            lay_name[l->kind], l->unit_rows, l->channels, l->bytes,
            l->padded ? " padded" : "");
  }
}

static void
put_schedule(FILE *f, const nmb_prog *p)
{
  for (int i = 0; i < p->nstep; i++) {
    const nmb_step *s = &p->step[i];
    fprintf(f, "  step %d kernel %d", i, (int)s->kernel);
    if (s->axis != NMB_AXIS_NONE || s->part != 0 || s->nparts != 1)
      fprintf(f, " part %d of %d %s", s->part, s->nparts, axis_name[s->axis]);
    fprintf(f, " at %" PRId64 " for %" PRId64 "\n", s->start_ps, s->duration_ps);
  }
}

static void
put_memory(FILE *f, const nmb_prog *p)
{
  for (int i = 0; i < p->nslot; i++) {
    const nmb_slot *s = &p->slot[i];
    fprintf(f, "  slot %d ", i);
    put_tensor(f, p, s->tensor, NMB_NONE);
    fputc(' ', f);
    put_mem(f, p, s->mem);
    if (s->resident)
      fputs(" resident", f);
    if (s->first != NMB_NONE || s->last != NMB_NONE)
      fprintf(f, " live %d to %d", (int)s->first, (int)s->last);
    fprintf(f, " at %" PRId64 " bytes %" PRId64 "\n", s->offset, s->bytes);
  }
}

/* --------------------------------------------------------------------- code */
static void
put_tile(FILE *f, const nmb_tile *t)
{
  static const nmb_tile none = {0};
  if (!memcmp(t, &none, sizeof none))
    return;
  fprintf(f, " tile %" PRId64 ":%" PRId64 " %" PRId64 ":%" PRId64, t->b0, t->b1, t->m0,
          t->m1);
  fprintf(f, " %" PRId64 ":%" PRId64 " %" PRId64 ":%" PRId64, t->n0, t->n1, t->k0, t->k1);
}

static void
put_place(FILE *f, const nmb_place *l)
{
  if (!l->channel0 && !l->nchannel && !l->banks && !l->vectors && !l->rows_per_bank &&
      !l->pages && !l->bursts && !l->opens && !l->reuse)
    return;
  fprintf(f, " place %d + %d banks %d vectors %" PRId64 " rows %" PRId64, l->channel0,
          l->nchannel, l->banks, l->vectors, l->rows_per_bank);
  fprintf(f, " pages %" PRId64 " bursts %" PRId64 " opens %" PRId64 " reuse %" PRId64,
          l->pages, l->bursts, l->opens, l->reuse);
}

static void
put_operand(FILE *f, const nmb_prog *p, const nmb_operand *o, nmb_id block)
{
  fputs(o->write ? " write " : " read ", f);
  put_tensor(f, p, o->tensor, block);
  fputc(' ', f);
  put_mem(f, p, o->mem);
  if (o->slot == NMB_NONE)
    fputs("[-", f);
  else
    fprintf(f, "[%d", (int)o->slot);
  fprintf(f, " + %" PRId64 ", %" PRId64 " x %" PRId64 " / %" PRId64 "]", o->offset,
          o->rows, o->row_bytes, o->stride);
}

static void
put_insn(FILE *f, const nmb_prog *p, int id)
{
  const nmb_insn *n = &p->insn[id];
  fprintf(f, "  %d ", id);
  put_engine(f, p, n->engine);
  fprintf(f, " %s ", insn_name[n->kind]);
  put_name(f, n->block >= 0 && n->block < p->nblock ? p->block[n->block].name : "?");
  if (n->op != NMB_NONE) {
    fputc(' ', f);
    put_op(f, p, n->op, n->block);
  }
  if (n->step != NMB_NONE)
    fprintf(f, " step %d", (int)n->step);
  if (n->first)
    fputs(" first", f);
  put_tile(f, &n->tile);
  put_place(f, &n->place);
  for (int i = 0; i < n->nopnd; i++)
    put_operand(f, p, &n->opnd[i], n->block);
  for (int i = 0; i < n->nwait; i++)
    fprintf(f, "%s %d", i ? "," : " wait", (int)n->wait[i]);
  fputc('\n', f);
}

static void
put_code(FILE *f, const nmb_prog *p)
{
  for (int i = 0; i < p->ninsn; i++)
    put_insn(f, p, i);
}

/* ------------------------------------------------------------------ program */
static void
put_header(FILE *f, const nmb_prog *p)
{
  fprintf(f, "nmbench %d\nmodel ", NMB__TEXT_VERSION);
  put_name(f, p->model);
  fprintf(f, "\nstep %s batch %" PRId64 " fresh %" PRId64 " context %" PRId64 "\n",
          phase_name[p->spec.phase], p->spec.batch, p->spec.fresh, p->spec.context);
  if (p->hw) {
    fputs("machine ", f);
    put_name(f, p->hw->name);
    fputc('\n', f);
  }
}

void
nmb_prog_print(const nmb_prog *p, nmb_bits sections, FILE *f)
{
  static const struct {
    const char *name;
    void (*put)(FILE *, const nmb_prog *);
  } section[NMB_NSECTION] = {
      {"graph", put_graph},     {"groups", put_groups},     {"dispatch", put_dispatch},
      {"mapping", put_mapping}, {"schedule", put_schedule}, {"memory", put_memory},
      {"code", put_code},
  };
  put_header(f, p);
  for (int s = 0; s < NMB_NSECTION; s++)
    if (p->present & sections & NMB_BIT(s)) {
      fprintf(f, "\n%s {\n", section[s].name);
      section[s].put(f, p);
      fputs("}\n", f);
    }
}
