/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Golden texts.  A file holds, in this order: a sentence, `# RUN: ACTION`, a program
 * for the machine of tests/unit/fixture.h, the line `# EXPECT:`, and what comes out.
 * ACTION:  print            the program, as it prints
 *          verify           "ok", or what the verifier says
 *          pass PIPELINE    the program after these passes
 * Whatever goes wrong comes out as the error's text.
 * golden FILE...: exit 1 if one differs.  golden --bless FILE...: writes what comes
 * out into the files, to be looked at. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/path.h"
#include "tests/unit/fixture.h"

#define MARK "\n# EXPECT:\n"
#define RUN "# RUN: "

static nmb_status
act(nmb_run *run, const char *action, nmb_prog *p)
{
  if (!strcmp(action, "print"))
    return NMB_OK;
  if (!strcmp(action, "verify"))
    return nmb_prog_verify(run, p, NMB_ALL);
  if (!strncmp(action, "pass ", 5))
    return fixture_compile(run, p, action + 5);
  return nmb_fail(run, NMB_BADINPUT, NMB_NOLOC, "unknown action '%s'", action);
}

/* What comes out, to be freed. */
static char *
result(nmb_run *run, const char *name, const char *action, const char *text, size_t len)
{
  char *out = NULL;
  size_t n = 0;
  nmb_prog *p = NULL;
  FILE *f = open_memstream(&out, &n);
  nmb_status s = nmb_prog_parse(run, name, text, len, &fixture_hw, &p);
  if (s == NMB_OK)
    s = act(run, action, p);
  if (s != NMB_OK)
    fprintf(f, "%s: %s\n", nmb_status_name(s), nmb_error_text(run));
  else if (!strcmp(action, "verify"))
    fputs("ok\n", f);
  else
    nmb_prog_print(p, NMB_ALL, f);
  fclose(f);
  nmb_prog_free(p);
  return out;
}

static int
bless(const char *path, const char *text, size_t len, const char *out)
{
  FILE *f = fopen(path, "w");
  if (!f)
    return 1;
  fwrite(text, 1, len, f);
  fprintf(f, "%s%s", MARK, out);
  return fclose(f) != 0;
}

static int
check(const char *path, bool write)
{
  nmb_run *run = nmb__run_open(NULL);
  const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
  size_t len;
  const char *text = nmb__read_file(run, path, &len);
  const char *line = text ? strstr(text, RUN) : NULL;
  if (!line) {
    fprintf(stderr, "%s: no line '%s' found\n", path, RUN);
    nmb__run_close(run);
    return 1;
  }
  const char *mark = strstr(text, MARK);
  if (mark)
    len = (size_t)(mark - text);
  const char *action = nmb_format(run, "%.*s", (int)strcspn(line, "\n") - (int)strlen(RUN),
                                  line + strlen(RUN));
  char *out = result(run, name, action, text, len);
  int bad = 0;
  if (write)
    bad = bless(path, text, len, out);
  else if (!mark || strcmp(mark + strlen(MARK), out)) {
    fprintf(stderr, "%s: differs; what came out:\n%s", path, out);
    bad = 1;
  }
  free(out);
  nmb__run_close(run);
  return bad;
}

int
main(int argc, char **argv)
{
  const bool write = argc > 1 && !strcmp(argv[1], "--bless");
  int bad = argc < 2 + write;
  for (int i = 1 + write; i < argc; i++)
    bad |= check(argv[i], write);
  return bad;
}
