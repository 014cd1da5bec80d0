/* SPDX-License-Identifier: GPL-3.0-or-later */
/* nmbench collective: one collective among the devices of a machine. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/near.h"
#include "base/plugin.h"
#include "harness/cmd.h"
#include "ir/machine.h"
#include "nmbench/nmb_collective.h"

static const char *const kind_names[] = {
#define X(id, name, help) name,
    NMB_COLLECTIVE_MAP(X)
#undef X
};

static nmb_status
bad(nmb_run *run, const char *text)
{
  return nmb_fail(run, NMB_BADOPTION, NMB_NOLOC, "collective: %s", text);
}

/* "all-reduce bytes=4096 devices=4"; devices 0 if not given. */
static nmb_status
parse(nmb_run *run, const char *text, nmb_collective *c)
{
  const size_t name = strcspn(text, " ");
  const char *word = nmb_format(run, "%.*s", (int)name, text);
  c->kind = nmb_collective_find(word);
  c->bytes = -1;
  if (c->kind == NMB_NCOLL)
    return bad(run, nmb_format(run, "there is none '%s'%s", word,
                               nmb__hint(run, word, kind_names, NMB_NCOLL)));
  for (const char *p = text + name; *(p += strspn(p, " "));) {
    const size_t n = strcspn(p, " ");
    const char *pair = nmb_format(run, "%.*s", (int)n, p);
    char *end = NULL;
    const char *eq = strchr(pair, '=');
    const double v = eq ? strtod(eq + 1, &end) : NAN;
    const bool whole =
        eq && end != eq + 1 && !*end && v >= 1 && v <= 1e15 && floor(v) >= v;
    p += n;
    if (whole && !strncmp(pair, "bytes=", 6))
      c->bytes = v;
    else if (whole && !strncmp(pair, "devices=", 8) && v <= 65536)
      c->devices = (int)v;
    else
      return bad(run, nmb_format(run, "found '%s', expected bytes=N or devices=N", pair));
  }
  return c->bytes < 0 ? bad(run, "needs bytes=") : NMB_OK;
}

/* The link between the devices of the memory that the host's weights lie in. */
static nmb_status
read_link(nmb_run *run, const nmb_hw *hw, nmb_collective *c, double *j_per_byte)
{
  const nmb_id mem = hw->engine[hw->host].resident;
  nmb_id id = nmb_hw_link(hw, mem, mem);
  for (int i = 0; id == NMB_NONE && i < hw->nmem; i++)
    id = nmb_hw_link(hw, i, i);
  if (id == NMB_NONE)
    return nmb_fail(run, NMB_UNSUPPORTED, NMB_NOLOC,
                    "machine '%s' has no link between devices", hw->name);
  const nmb_engine *e = &hw->engine[id];
  const char *topology = nmb_param_text(e, "topology");
  c->topology = !strcmp(topology, "ring") ? NMB_RING : NMB_SWITCH;
  c->multicast = nmb_param_get(e, "multicast") > 0;
  c->bytes_per_s = nmb_param_get(e, "bandwidth") * nmb_param_get(e, "fraction");
  c->latency_s = nmb_param_get(e, "latency");
  *j_per_byte = nmb_param_get(e, "energy");
  if (c->devices == 0)
    c->devices = hw->devices;
  return NMB_OK;
}

static nmb_status
run_on(nmb__cli *cli, const nmb_hw *hw, json_t **out)
{
  nmb_collective c = {0};
  const char *algorithm = nmb__cli_text(cli, "algorithm");
  double j_per_byte = NAN, moved, stepped_moved;
  bool right = true;
  NMB_TRY(parse(cli->run, cli->arg[0], &c));
  NMB_TRY(read_link(cli->run, hw, &c, &j_per_byte));
  if (!strcmp(algorithm, "ring"))
    c.topology = NMB_RING;
  if (!strcmp(algorithm, "tree"))
    c.topology = NMB_TREE;
  if (!strcmp(algorithm, "direct") || !strcmp(algorithm, "switch") ||
      !strcmp(algorithm, "multicast"))
    c.topology = NMB_SWITCH;
  if (strcmp(algorithm, "link")) /* else as the link is built */
    c.multicast = !strcmp(algorithm, "multicast");
  const double seconds = nmb_collective_seconds(&c, &moved);
  const bool steps =
      c.devices <= 64 && !(c.kind == NMB_COLL_BROADCAST && c.topology == NMB_RING);
  const double stepped =
      steps ? nmb_collective_step(cli->run, &c, 1, &stepped_moved, &right) : NAN;
  if (isnan(seconds))
    return nmb_fail(cli->run, NMB_UNSUPPORTED, NMB_NOLOC, "there is no %s on a tree",
                    kind_names[c.kind]);
  if (!right || (steps && fabs(stepped - seconds) > 1e-9 * seconds))
    return nmb_fail(cli->run, NMB_UNVERIFIED, NMB_NOLOC,
                    "message by message it takes %g s, in closed form %g s", stepped,
                    seconds);
  static const char *const names[] = {"ring", "direct", "tree"};
  *out = json_pack("{s:s, s:s, s:i, s:o, s:s, s:o, s:o, s:o, s:o}", "collective",
                   kind_names[c.kind], "machine", hw->name, "devices", c.devices, "bytes",
                   json_real(c.bytes), "algorithm", names[c.topology], "time",
                   nmb__json_real(seconds), "time_stepped", nmb__json_real(stepped),
                   "moved_bytes", nmb__json_real(moved), "energy",
                   nmb__json_real(moved * j_per_byte));
  return NMB_OK;
}

static nmb_status
facts(nmb__cli *cli, json_t **out)
{
  nmb_hw *hw = NULL;
  if (!nmb__cli_given(cli, "machine"))
    return bad(cli->run, "expected --machine");
  NMB_TRY(nmb__plugins_load(cli->run, NULL));
  NMB_TRY(nmb__machine_load(cli->run, nmb__cli_text(cli, "machine"), &hw));
  const nmb_status s = run_on(cli, hw, out);
  nmb__machine_free(hw);
  return s;
}

static int
cmd_collective(nmb__cli *cli)
{
  json_t *j = NULL;
  const nmb_status s = facts(cli, &j);
  if (s == NMB_OK && nmb__cli_flag(cli, "json"))
    return nmb__cli_json(j);
  if (s == NMB_OK)
    printf("%s of %.0f bytes among %d devices, %s: %.6g s, %.6g bytes moved, %.6g J\n",
           json_string_value(json_object_get(j, "collective")),
           json_number_value(json_object_get(j, "bytes")),
           (int)json_integer_value(json_object_get(j, "devices")),
           json_string_value(json_object_get(j, "algorithm")),
           json_number_value(json_object_get(j, "time")),
           json_number_value(json_object_get(j, "moved_bytes")),
           json_number_value(json_object_get(j, "energy")));
  json_decref(j);
  return nmb__exit_code(s);
}

static const nmb__flag flags[] = {
    {"machine", 'M', "MACHINE", "machine", NULL,
     "name of a machine, or path of a .hw file: its link between devices is used"},
    {"algorithm", 0, "A", "ring|tree|direct|switch|multicast|link", "ring",
     "how the messages go; direct or switch: through a switch, which with multicast copies a "
     "message; link: as the machine's link is built"},
    NMB__FLAG_JSON,
    {NULL, 0, NULL, NULL, NULL, NULL}};

const nmb__command nmb__cmd_collective = {
    .name = "collective",
    .args = "'KIND bytes=N [devices=N]'",
    .arg_type = "text",
    .min = 1,
    .max = 1,
    .summary = "time a collective among devices",
    .help =
        "KIND is all-reduce, all-gather, reduce-scatter, all-to-all or broadcast. Time "
        "is "
        "in closed form, and again from sending the messages round by round; both must "
        "agree, and every device must end with what it should have.",
    .example = "nmbench collective 'all-reduce bytes=402653184 devices=4' -M gpu-a100-x4",
    .flags = flags,
    .facts = facts,
    .main = cmd_collective,
};
