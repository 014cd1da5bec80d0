/* SPDX-License-Identifier: GPL-3.0-or-later */
/* --help, the man page and bash completion, from the table of commands. */
#include <stdio.h>
#include <string.h>

#include "config.h"
#include "harness/cmd.h"

static const char about[] =
    "nmbench measures what compiler passes buy when large language models run on "
    "in-memory "
    "accelerators.  Passes, simulators and engine models are plugins; an experiment file "
    "sweeps "
    "them over models, machines and workloads; results are HDF5 files and figures.";

static const struct {
  const char *code, *text;
} exits[] = {
    {"0", "all that was asked for is done, and every check passed"},
    {"1", "a check failed, or there is no plan (infeasible, unsupported, no solution, "
          "out of budget)"},
    {"2", "wrong usage or configuration, or unreadable input; nothing was run"},
    {"3", "the run finished and some cells failed (infeasible ones do not count)"},
    {"4", "cannot compare: cells are missing or files do not match"},
    {"5", "internal error"},
    {"6", "an output cannot be written (a full disk, say); what was done is kept"},
    {"130, 143", "interrupted; run the same command again to go on"},
};
static const struct {
  const char *name, *text;
} variables[] = {
    {"NMB_PLUGIN_PATH",
     "more folders or files to load plugins from, separated by colons"},
    {"NMB_DATA_PATH",
     "folders that hold models/, machines/ and experiments/, searched first"},
    {"NO_COLOR", "if set, no colours"},
};
#define COUNT(a) (sizeof(a) / sizeof *(a))

/* ---------------------------------------------------------------------- help */
/* Prints text wrapped at 80 columns, every line after the first indented. */
static void
wrap(FILE *f, const char *text, int column, int indent)
{
  for (int words = 0; *(text += strspn(text, " ")); words++) {
    const int n = (int)strcspn(text, " ");
    if (words && column + 1 + n > 79) {
      fprintf(f, "\n%*s", indent, "");
      column = indent;
    } else if (words) {
      putc(' ', f);
      column++;
    }
    fprintf(f, "%.*s", n, text);
    column += n;
    text += n;
  }
  putc('\n', f);
}

/* Text in paragraphs: "\n\n" parts them, single newlines are kept. */
static void
paragraphs(FILE *f, const char *text)
{
  char line[2048];
  while (*text) {
    const size_t n = strcspn(text, "\n");
    snprintf(line, sizeof line, "%.*s", (int)n, text);
    wrap(f, line, 0, 0);
    text += n + (text[n] == '\n');
  }
}

static void
flag_row(FILE *f, const char *key, const char *name, const char *arg, const char *help,
         const char *dflt)
{
  char left[80], right[1024];
  snprintf(left, sizeof left, "  %s--%s%s%s", key, name, arg ? "=" : "", arg ? arg : "");
  snprintf(right, sizeof right, "%s%s%s%s", help, dflt && *dflt ? " (default: " : "",
           dflt && *dflt ? dflt : "", dflt && *dflt ? ")" : "");
  if (strlen(left) > 26)
    fprintf(f, "%s\n%28s", left, "");
  else
    fprintf(f, "%-28s", left);
  wrap(f, right, 28, 28);
}

static const char *
key_text(const nmb__flag *flag, char buf[8])
{
  if (!flag->key)
    return "    ";
  snprintf(buf, 8, "-%c, ", flag->key);
  return buf;
}

static void
program_help(FILE *f)
{
  const nmb__commands all = nmb__commands_all();
  fprintf(f, "Usage: nmbench COMMAND [OPTION]... [ARGUMENT]...\n\n");
  wrap(f, about, 0, 0);
  fprintf(f, "\nCommands:\n");
  for (int i = 0; i < all.n; i++) {
    fprintf(f, "  %-11s", all.v[i]->name);
    wrap(f, all.v[i]->summary, 13, 13);
  }
  fprintf(f, "\n'nmbench COMMAND --help' tells about one of them.\n");
  flag_row(f, "    ", "help", NULL, "print this help", NULL);
  flag_row(f, "    ", "version", NULL, "print the version", NULL);
}

void
nmb__help_print(FILE *f, const nmb__command *c)
{
  char buf[8];
  if (!c) {
    program_help(f);
    return;
  }
  fprintf(f, "Usage: nmbench %s [OPTION]...%s%s\n\n", c->name, *c->args ? " " : "",
          c->args);
  paragraphs(f, c->help);
  if (c->flags->name)
    fprintf(f, "\nOptions:\n");
  for (const nmb__flag *o = c->flags; o->name; o++)
    flag_row(f, key_text(o, buf), o->name, o->arg, o->help, o->dflt);
  if (*c->example)
    fprintf(f, "\nExamples:\n");
  for (const char *p = c->example; *p;) {
    const int n = (int)strcspn(p, "\n");
    fprintf(f, "  %.*s\n", n, p);
    p += n + (p[n] == '\n');
  }
}

/* ------------------------------------------------------------------- man page */
/* Text as troff: dashes are minus signs, a line never begins with a control. */
static void
troff(FILE *f, const char *text, size_t n)
{
  for (size_t i = 0; i < n; i++)
    if (text[i] == '-')
      fputs("\\-", f);
    else if (text[i] == '\\')
      fputs("\\e", f);
    else if ((text[i] == '.' || text[i] == '\'') && (i == 0 || text[i - 1] == '\n'))
      fprintf(f, "\\&%c", text[i]);
    else
      putc(text[i], f);
}

static void
troff_text(FILE *f, const char *text)
{
  for (const char *p = text; *p;) {
    const size_t n = strcspn(p, "\n");
    if (n == 0)
      fputs(".PP", f);
    else
      troff(f, p, n);
    putc('\n', f);
    p += n + (p[n] == '\n');
  }
}

static void
man_flag(FILE *f, const nmb__flag *o)
{
  fputs(".TP\n", f);
  if (o->key)
    fprintf(f, "\\fB\\-%c\\fR, ", o->key);
  fputs("\\fB\\-\\-", f);
  troff(f, o->name, strlen(o->name));
  fputs("\\fR", f);
  if (o->arg)
    fprintf(f, "=\\fI%s\\fR", o->arg);
  putc('\n', f);
  troff(f, o->help, strlen(o->help));
  if (o->dflt && *o->dflt) {
    fputs(" (default: ", f);
    troff(f, o->dflt, strlen(o->dflt));
    putc(')', f);
  }
  putc('\n', f);
}

static void
man_command(FILE *f, const nmb__command *c)
{
  fprintf(f, ".SS nmbench %s", c->name);
  if (*c->args)
    fprintf(f, " %s", c->args);
  putc('\n', f);
  troff_text(f, c->help);
  for (const nmb__flag *o = c->flags; o->name; o++)
    man_flag(f, o);
  if (*c->example) {
    fputs(".PP\nExamples:\n.PP\n.nf\n.RS\n", f);
    troff(f, c->example, strlen(c->example));
    fputs("\n.RE\n.fi\n", f);
  }
}

void
nmb__man_print(FILE *f)
{
  const nmb__commands all = nmb__commands_all();
  fprintf(f, ".\\\" Generated by 'nmbench --man' from the tables of the program.\n");
  fprintf(f, ".TH NMBENCH 1 \"\" \"nmbench %s\" \"User Commands\"\n", PACKAGE_VERSION);
  fputs(".SH NAME\nnmbench \\- benchmarking of compilers for in\\-memory accelerators\n",
        f);
  fputs(
      ".SH SYNOPSIS\n.B nmbench\n.I COMMAND\n[\\fIOPTION\\fR]... [\\fIARGUMENT\\fR]...\n",
      f);
  fputs(".SH DESCRIPTION\n", f);
  troff_text(f, about);
  fputs("\n.PP\nFacts go to standard output, messages to standard error.  Names of "
        "models and\n"
        "machines may also be paths.  Long options take their value after '=' or as the "
        "next word.\n",
        f);
  fputs(".SH COMMANDS\n", f);
  for (int i = 0; i < all.n; i++)
    man_command(f, all.v[i]);
  fputs(".SH EXIT STATUS\n", f);
  for (size_t i = 0; i < COUNT(exits); i++) {
    fprintf(f, ".TP\n.B %s\n", exits[i].code);
    troff_text(f, exits[i].text);
    putc('\n', f);
  }
  fputs(".SH ENVIRONMENT\n", f);
  for (size_t i = 0; i < COUNT(variables); i++) {
    fprintf(f, ".TP\n.B %s\n", variables[i].name);
    troff_text(f, variables[i].text);
    putc('\n', f);
  }
}

/* ----------------------------------------------------------------- completion */
/* How to complete a value of this type: words for compgen. */
static void
complete_type(FILE *f, const char *type)
{
  if (type && strchr(type, '|')) {
    fputs("COMPREPLY=($(compgen -W \"", f);
    for (const char *p = type; *p; p++)
      putc(*p == '|' ? ' ' : *p, f);
    fputs("\" -- \"$cur\"))", f);
  } else if (type && (!strcmp(type, "model") || !strcmp(type, "machine") ||
                      !strcmp(type, "simulator")))
    fprintf(f,
            "COMPREPLY=($(compgen -W \"$(nmbench list %ss 2>/dev/null | cut -d' ' -f1)\" "
            "-- \"$cur\"))",
            type);
  else if (type && (!strcmp(type, "file") || !strcmp(type, "folder")))
    fprintf(f, "COMPREPLY=($(compgen -%c -- \"$cur\"))",
            !strcmp(type, "file") ? 'f' : 'd');
  else
    fputs("COMPREPLY=()", f);
}

static void
complete_command(FILE *f, const nmb__command *c)
{
  fprintf(f, "    %s)\n      case $prev in\n", c->name);
  for (const nmb__flag *o = c->flags; o->name; o++) {
    if (!o->arg)
      continue;
    fprintf(f, "        --%s", o->name);
    if (o->key)
      fprintf(f, "|-%c", o->key);
    fputs(") ", f);
    complete_type(f, o->type);
    fputs("; return ;;\n", f);
  }
  fputs("      esac\n      if [[ $cur == -* ]]; then COMPREPLY=($(compgen -W \"--help",
        f);
  for (const nmb__flag *o = c->flags; o->name; o++)
    fprintf(f, " --%s", o->name);
  fputs("\" -- \"$cur\")); return; fi\n      ", f);
  complete_type(f, c->arg_type);
  fputs(" ;;\n", f);
}

void
nmb__completion_print(FILE *f)
{
  const nmb__commands all = nmb__commands_all();
  fputs(
      "# bash completion of nmbench; generated by 'nmbench --completion'\n_nmbench()\n{\n"
      "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
      "  if [[ $COMP_CWORD -eq 1 ]]; then\n    COMPREPLY=($(compgen -W \"",
      f);
  for (int i = 0; i < all.n; i++)
    fprintf(f, "%s ", all.v[i]->name);
  fputs(
      "--help --version\" -- \"$cur\"))\n    return\n  fi\n  case ${COMP_WORDS[1]} in\n",
      f);
  for (int i = 0; i < all.n; i++)
    complete_command(f, all.v[i]);
  fputs("  esac\n}\ncomplete -F _nmbench nmbench\n", f);
}
