/* SPDX-License-Identifier: GPL-3.0-or-later */
/* nmbench: finds the command in the table and calls it. */
#include "config.h" /* first: names outside of C11 */

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/near.h"
#include "harness/cmd.h"

/* In the order of --help and the man page. */
static const nmb__command *const commands[] = {
    &nmb__cmd_plan,
    &nmb__cmd_run,
    &nmb__cmd_status,
    &nmb__cmd_log,
    &nmb__cmd_compare,
    &nmb__cmd_export,
    &nmb__cmd_list,
    &nmb__cmd_model,
    &nmb__cmd_show,
    &nmb__cmd_compile,
    &nmb__cmd_sim,
    &nmb__cmd_verify,
    &nmb__cmd_systolic,
    &nmb__cmd_dram,
    &nmb__cmd_collective,
    &nmb__cmd_macro,
    &nmb__cmd_system,
    &nmb__cmd_validate,
    &nmb__cmd_op,
    &nmb__cmd_logits,
    &nmb__cmd_generate,
    &nmb__cmd_perplexity,
    &nmb__cmd_plot,
};
enum { NCOMMAND = sizeof commands / sizeof *commands };

nmb__commands
nmb__commands_all(void)
{
  return (nmb__commands){NCOMMAND, commands};
}

/* nmb__panic has said what is wrong; the exit code tells it from other ends. */
static void
on_abort(int sig)
{
  (void)sig;
  _exit(NMB__EXIT_INTERNAL);
}

/* Weights are mapped: reading where a file has become shorter ends here. */
static void
on_bus(int sig)
{
  static const char text[] = "nmbench: error: a file became shorter while it was read\n";
  (void)sig;
  _exit(write(STDERR_FILENO, text, sizeof text - 1) < 0 ? NMB__EXIT_INTERNAL : NMB__EXIT_USAGE);
}

static const nmb__command *
command_find(const char *name)
{
  for (int i = 0; i < NCOMMAND; i++)
    if (!strcmp(commands[i]->name, name))
      return commands[i];
  return NULL;
}

static int
command_unknown(nmb_run *run, const char *name)
{
  const char *names[NCOMMAND + 2] = {"--help", "--version"};
  for (int i = 0; i < NCOMMAND; i++)
    names[i + 2] = commands[i]->name;
  fprintf(stderr, "nmbench: error: unknown %s '%s'%s (see 'nmbench --help')\n",
          *name == '-' ? "option" : "command", name,
          nmb__hint(run, name, names, NCOMMAND + 2));
  return NMB__EXIT_USAGE;
}

static int
dispatch(nmb_run *run, int argc, char **argv)
{
  const char *word = argc > 1 ? argv[1] : "";
  if (!*word) {
    fprintf(stderr, "nmbench: error: found no command (see 'nmbench --help')\n");
    return NMB__EXIT_USAGE;
  }
  if (!strcmp(word, "--version"))
    return printf("nmbench %s\n", PACKAGE_VERSION) < 0;
  if (!strcmp(word, "--help") || !strcmp(word, "-h"))
    return nmb__help_print(stdout, NULL), NMB__EXIT_OK;
  if (!strcmp(word, "--man"))
    return nmb__man_print(stdout), NMB__EXIT_OK;
  if (!strcmp(word, "--completion"))
    return nmb__completion_print(stdout), NMB__EXIT_OK;
  nmb__cli cli = {.run = run, .cmd = command_find(word)};
  if (!cli.cmd)
    return command_unknown(run, word);
  const int code = nmb__cli_parse(&cli, argc - 2, argv + 2);
  return code >= 0 ? code : cli.cmd->main(&cli);
}

int
main(int argc, char **argv)
{
  signal(SIGABRT, on_abort);
  signal(SIGBUS, on_bus);
  nmb_run *run = nmb__run_open(stderr);
  int code = dispatch(run, argc, argv);
  nmb__run_close(run);
  errno = 0;
  if (fflush(stdout) != 0 || ferror(stdout)) {
    fprintf(stderr, "nmbench: error: cannot write to standard output: %s\n",
            strerror(errno));
    code = code ? code : NMB__EXIT_OUTPUT;
  }
  return code;
}
