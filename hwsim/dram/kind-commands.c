/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Commands of a DRAM kind and the constraints between them, from its file. */
#include "hwsim/dram/kind.h"

#include <string.h>

#include "base/near.h"

/* ------------------------------------------------------------------ commands */
static const struct {
  const char *name;
  unsigned bit;
} doings[] = {{"opens", NMB_DRAM_OPENS},
              {"begins", NMB_DRAM_BEGINS},
              {"closes", NMB_DRAM_CLOSES},
              {"reads", NMB_DRAM_READS},
              {"writes", NMB_DRAM_WRITES},
              {"works", NMB_DRAM_WORKS},
              {"refreshes", NMB_DRAM_REFRESHES},
              {"switches", NMB_DRAM_SWITCHES},
              {"nothing", 0}};

static nmb_status
does_of(nmb__kind *r, nmb_loc loc, const char *text, unsigned *out)
{
  char word[NMB__KIND_WORD];
  *out = 0;
  while (nmb__kind_word(&text, word)) {
    size_t i = 0;
    while (i < sizeof doings / sizeof *doings && strcmp(doings[i].name, word))
      i++;
    if (i == sizeof doings / sizeof *doings)
      return nmb_fail(r->run, NMB_BADINPUT, loc,
                      "found '%s', expected opens, begins, closes, reads, writes, works, "
                      "refreshes, switches or nothing",
                      word);
    *out |= doings[i].bit;
  }
  return NMB_OK;
}

static nmb_status
level_of(nmb__kind *r, nmb_loc loc, const char *word, nmb_dram_level *out)
{
  for (int l = 0; l < NMB_DRAM_NLEVEL; l++)
    if (!strcmp(nmb__kind_level_key[l], word)) {
      *out = (nmb_dram_level)l;
      return NMB_OK;
    }
  return nmb_fail(r->run, NMB_BADINPUT, loc,
                  "found '%s', expected channel, rank, sid, group or bank", word);
}

/* "rank", "channel..group" */
static nmb_status
scope_of(nmb__kind *r, nmb_loc loc, const char *text, nmb_dram_cmd *c)
{
  char word[NMB__KIND_WORD] = "";
  const char *dots = strstr(text, "..");
  c->inner = NMB_DRAM_BANK;
  if (!dots)
    return level_of(r, loc, text, &c->scope);
  if (dots - text < NMB__KIND_WORD)
    memcpy(word, text, (size_t)(dots - text));
  NMB_TRY(level_of(r, loc, word, &c->scope));
  NMB_TRY(level_of(r, loc, dots + 2, &c->inner));
  if (c->inner <= c->scope)
    return nmb_fail(r->run, NMB_BADINPUT, loc, "found '%s', expected outer..inner", text);
  return NMB_OK;
}

static nmb_status
mode_of(nmb__kind *r, nmb_loc loc, const char *name, int *out)
{
  int i = 0;
  while (i < r->nmode && strcmp(r->modes[i], name))
    i++;
  if (i == (int)(sizeof r->modes / sizeof *r->modes))
    return nmb_fail(r->run, NMB_BADINPUT, loc, "more than %d modes", i);
  if (i == r->nmode)
    r->modes[r->nmode++] = nmb_strdup(r->run, name);
  *out = i;
  return NMB_OK;
}

static nmb_status
command_options(nmb__kind *r, nmb_loc loc, const char *text, nmb_dram_cmd *c)
{
  char word[NMB__KIND_WORD];
  while (nmb__kind_word(&text, word)) {
    if (!strcmp(word, "rise"))
      c->rise = true;
    else if (!strcmp(word, "second-buffer"))
      c->buffer = 1;
    else if (!strncmp(word, "mode=", 5))
      NMB_TRY(mode_of(r, loc, word + 5, &c->mode));
    else
      return nmb_fail(r->run, NMB_BADINPUT, loc,
                      "found '%s', expected rise, second-buffer or mode=NAME", word);
  }
  return NMB_OK;
}

static nmb_status
command(nmb__kind *r, const config_setting_t *row, nmb_dram_cmd *c)
{
  const char *name, *does, *scope, *bus, *ticks, *options = "";
  const nmb_loc loc = nmb__kind_place(r, row);
  int64_t n;
  NMB_TRY(nmb__kind_text_at(r, row, 0, "a name", &name));
  NMB_TRY(nmb__kind_text_at(r, row, 1, "what it does", &does));
  NMB_TRY(nmb__kind_text_at(r, row, 2, "its scope", &scope));
  NMB_TRY(nmb__kind_text_at(r, row, 3, "its bus", &bus));
  NMB_TRY(nmb__kind_text_at(r, row, 4, "ticks on the bus", &ticks));
  if (config_setting_length(row) > 5)
    NMB_TRY(nmb__kind_text_at(r, row, 5, "options", &options));
  *c = (nmb_dram_cmd){.name = nmb_strdup(r->own, name), .mode = NMB_NONE};
  NMB_TRY(does_of(r, loc, does, &c->does));
  NMB_TRY(scope_of(r, loc, scope, c));
  if (strcmp(bus, "row") && strcmp(bus, "column") && strcmp(bus, "one"))
    return nmb_fail(r->run, NMB_BADINPUT, loc,
                    "found bus '%s', expected one, row or column", bus);
  c->bus = !strcmp(bus, "column");
  NMB_TRY(nmb__kind_integer(r, loc, ticks, &n));
  if (n < 1 || n > 16)
    return nmb_fail(r->run, NMB_BADINPUT, loc, "found %s ticks, expected 1..16", ticks);
  c->ticks = (int)n;
  NMB_TRY(command_options(r, loc, options, c));
  if (c->buffer >= r->d->info.buffers)
    r->d->info.buffers = c->buffer + 1;
  return NMB_OK;
}

nmb_status
nmb__kind_commands(nmb__kind *r)
{
  const config_setting_t *list, *row;
  int n;
  NMB_TRY(nmb__kind_list_key(r, "commands", &list, &n));
  if (n < 1 || n > NMB__DRAM_MAXCMD)
    return nmb_fail(r->run, NMB_BADINPUT, nmb__kind_place(r, list),
                    "found %d commands, expected 1..%d", n, NMB__DRAM_MAXCMD);
  nmb_dram_cmd *cmd = NMB_NEW(r->own, nmb_dram_cmd, n);
  r->d->info.buffers = 1;
  r->d->info.ncmd = n;
  r->d->info.cmd = cmd;
  for (int i = 0; i < n; i++) {
    NMB_TRY(nmb__kind_row(r, list, i, 5, &row));
    NMB_TRY(command(r, row, &cmd[i]));
    for (int k = 0; k < i; k++)
      if (!strcmp(cmd[k].name, cmd[i].name))
        return nmb_fail(r->run, NMB_BADINPUT, nmb__kind_place(r, row),
                        "command '%s' is there twice", cmd[i].name);
  }
  r->d->info.modes = r->nmode ? r->nmode : 1;
  return NMB_OK;
}

/* --------------------------------------------------------------- constraints */
static nmb_status
command_of(nmb__kind *r, nmb_loc loc, const char *word, int16_t *out)
{
  const nmb_dram_info *o = &r->d->info;
  const char *names[NMB__DRAM_MAXCMD];
  for (int i = 0; i < o->ncmd; i++) {
    names[i] = o->cmd[i].name;
    if (!strcmp(names[i], word)) {
      *out = (int16_t)i;
      return NMB_OK;
    }
  }
  return nmb_fail(r->run, NMB_BADINPUT, loc, "unknown command '%s'%s", word,
                  nmb__hint(r->run, word, names, o->ncmd));
}

static int
words(const char *p)
{
  char word[NMB__KIND_WORD];
  int n = 0;
  while (nmb__kind_word(&p, word))
    n++;
  return n;
}

/* "same rank", "other sid" */
static nmb_status
place_of(nmb__kind *r, nmb_loc loc, const char *text, nmb__dram_row *out)
{
  char word[NMB__KIND_WORD];
  nmb__kind_word(&text, word);
  out->other = !strcmp(word, "other");
  if (!out->other && strcmp(word, "same"))
    return nmb_fail(r->run, NMB_BADINPUT, loc, "found '%s', expected same or other",
                    word);
  nmb__kind_word(&text, word);
  NMB_TRY(level_of(r, loc, word, &out->level));
  if (out->other && out->level == NMB_DRAM_CHANNEL)
    return nmb_fail(r->run, NMB_BADINPUT, loc, "there is one channel only");
  return NMB_OK;
}

/* One row of the file becomes one row for each pair of commands. */
static nmb_status
constraint(nmb__kind *r, const config_setting_t *row, nmb__dram_row *out, int *n)
{
  const nmb_dram_info *o = &r->d->info;
  const char *from, *to, *where, *expr, *f, *t;
  const nmb_loc loc = nmb__kind_place(r, row);
  nmb__dram_row base = {.window = 1, .line = loc.line};
  char word[NMB__KIND_WORD];
  int64_t clocks;
  NMB_TRY(nmb__kind_text_at(r, row, 0, "commands", &from));
  NMB_TRY(nmb__kind_text_at(r, row, 1, "commands", &to));
  NMB_TRY(nmb__kind_text_at(r, row, 2, "a place", &where));
  NMB_TRY(nmb__kind_text_at(r, row, 3, "a latency", &expr));
  NMB_TRY(place_of(r, loc, where, &base));
  if (config_setting_length(row) > 4)
    base.window = config_setting_get_int_elem(row, 4);
  if (base.window < 1 || base.window > NMB__DRAM_MAXWINDOW ||
      (base.other && base.window != 1))
    return nmb_fail(r->run, NMB_BADINPUT, loc, "found window %d, expected 1..%d%s",
                    base.window, NMB__DRAM_MAXWINDOW, base.other ? ", 1 for other" : "");
  NMB_TRY(nmb__dram_expr(r->run, loc, expr, r->param, r->nparam, &clocks));
  if (clocks > INT32_MAX / 8)
    return nmb_fail(r->run, NMB_BADINPUT, loc, "found %lld clocks, expected fewer",
                    (long long)clocks);
  for (f = from; nmb__kind_word(&f, word);) {
    NMB_TRY(command_of(r, loc, word, &base.from));
    for (t = to; nmb__kind_word(&t, word);) {
      NMB_TRY(command_of(r, loc, word, &base.to));
      base.ticks =
          clocks * o->ticks_per_ck + o->cmd[base.from].ticks - o->cmd[base.to].ticks;
      out[(*n)++] = base;
    }
  }
  return NMB_OK;
}

nmb_status
nmb__kind_constraints(nmb__kind *r)
{
  const config_setting_t *list, *row;
  int n, total = 0;
  NMB_TRY(nmb__kind_list_key(r, "constraints", &list, &n));
  for (int i = 0; i < n; i++) {
    const char *from, *to;
    NMB_TRY(nmb__kind_row(r, list, i, 4, &row));
    NMB_TRY(nmb__kind_text_at(r, row, 0, "commands", &from));
    NMB_TRY(nmb__kind_text_at(r, row, 1, "commands", &to));
    total += words(from) * words(to);
    if (total > 8192)
      return nmb_fail(r->run, NMB_BADINPUT, nmb__kind_place(r, row),
                      "too many constraints");
  }
  nmb__dram_row *out = NMB_NEW(r->own, nmb__dram_row, total + 1);
  r->d->row = out;
  for (int i = 0; i < n; i++)
    NMB_TRY(constraint(r, config_setting_get_elem(list, (unsigned)i), out, &r->d->nrow));
  return NMB_OK;
}
