/* SPDX-License-Identifier: GPL-3.0-or-later */
/* nmbench dram: microbenchmarks of one DRAM channel behind a controller. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/path.h"
#include "harness/cmd.h"
#include "harness/sim_trace.h"
#include "nmbench/nmb_dram.h"

typedef struct stamps {
  nmb__cli *cli;
  const char *trace; /* file of requests; NULL: a workload */
  const nmb_dram *d;
  int64_t count[64], first_column;
  bool show;
  json_t *list; /* NULL: as text */
} stamps;

static int64_t
part(const nmb_dram_info *o, int level, int bank)
{
  int below = 1;
  for (int l = level + 1; l < NMB_DRAM_NLEVEL; l++)
    below *= o->count[l];
  return bank / below % o->count[level];
}

/* "0:0:3:1:17": the named levels and the row; - for parts inside of the scope. */
static const char *
place_text(nmb_run *run, const nmb_dram_info *o, nmb_id cmd, int bank, int64_t row)
{
  const char *s = "0";
  for (int l = NMB_DRAM_RANK; l < NMB_DRAM_NLEVEL; l++)
    if (o->level_name[l])
      s = l > (int)o->cmd[cmd].scope
              ? nmb_format(run, "%s:-", s)
              : nmb_format(run, "%s:%lld", s, (long long)part(o, l, bank));
  return row < 0 ? nmb_format(run, "%s:-", s)
                 : nmb_format(run, "%s:%lld", s, (long long)row);
}

static void
stamp(void *arg, int64_t tick, nmb_id cmd, int bank, int64_t row)
{
  stamps *s = arg;
  const nmb_dram_info *o = nmb_dram_get(s->d);
  s->count[cmd]++;
  if (s->first_column == 0 && o->cmd[cmd].does & NMB_DRAM_COLUMN)
    s->first_column = tick;
  if (!s->show)
    return;
  const char *at = place_text(s->cli->run, o, cmd, bank, row);
  if (s->list)
    json_array_append_new(s->list, json_pack("{s:I, s:s, s:s}", "tick", (json_int_t)tick,
                                             "command", o->cmd[cmd].name, "place", at));
  else
    printf("%10lld  %-7s %s\n", (long long)tick, o->cmd[cmd].name, at);
}

static int
cap_of(const char *policy)
{
  if (!strcmp(policy, "open"))
    return 0;
  return policy[strlen(policy) - 1] - '0'; /* closed_cap1, closed_cap4: the flag's type */
}

static nmb_status
list_kinds(nmb_run *run, json_t **out)
{
  const char **name;
  int n;
  NMB_TRY(nmb_dram_list(run, &name, &n));
  json_t *all = json_array();
  for (int i = 0; i < n; i++)
    json_array_append_new(all, json_string(name[i]));
  *out = json_pack("{s:o}", "kinds", all);
  return NMB_OK;
}

static json_t *
counts_json(const stamps *s)
{
  const nmb_dram_info *o = nmb_dram_get(s->d);
  json_t *j = json_object();
  for (int i = 0; i < o->ncmd; i++)
    if (s->count[i] > 0)
      json_object_set_new(j, o->cmd[i].name, json_integer(s->count[i]));
  return j;
}

/* Bytes a second that the data wires can carry; pseudo-channels have wires of their own.
 */
static double
peak(const nmb_dram_info *o)
{
  const char *rank = o->level_name[NMB_DRAM_RANK];
  const int parts = rank && !strcmp(rank, "PseudoChannel") ? o->count[NMB_DRAM_RANK] : 1;
  return parts * o->tx_bytes / (o->burst * o->tick_ps * 1e-12);
}

static json_t *
result_json(const stamps *s, const nmb_dramstats *r)
{
  nmb__cli *cli = s->cli;
  const nmb_dram_info *o = nmb_dram_get(s->d);
  const double seconds = (double)r->last_column * o->tick_ps * 1e-12;
  const double rate = (double)r->columns * o->tx_bytes / seconds;
  const double latency = r->reads > 0 ? (double)r->latency / (double)r->reads : NAN;
  json_t *j = json_pack(
      "{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:f, s:f, s:i, s:f, s:f, s:f, "
      "s:o, s:I, s:I, s:I, s:I, s:I}",
      "kind", o->name, "organisation", o->org, "source", o->source, "workload",
      s->trace ? "trace" : nmb__cli_text(cli, "workload"), "policy", nmb__cli_text(cli, "policy"), "refresh",
      nmb__cli_text(cli, "refresh"), "queue", nmb__cli_text(cli, "queue"), "n",
      (json_int_t)r->columns, "cycles", (json_int_t)r->last_column, "first_column",
      (json_int_t)s->first_column, "tick_ps", o->tick_ps, "time_s", seconds, "tx_bytes",
      o->tx_bytes, "bandwidth_bytes_per_s", rate, "bandwidth_GBps", rate * 1e-9,
      "share_of_peak", rate / peak(o), "commands", counts_json(s), "row_hits",
      (json_int_t)r->hits, "row_misses", (json_int_t)r->misses, "row_conflicts",
      (json_int_t)r->conflicts, "forwarded_reads", (json_int_t)r->forwarded,
      "merged_writes", (json_int_t)r->merged);
  json_object_set_new(j, "read_latency_ticks", nmb__json_real(latency));
  return j;
}

static const char *
set_text(const nmb__cli *cli)
{
  const char *set = "";
  for (int i = 0; i < cli->nset; i++)
    if (!strcmp(cli->set[i].flag->name, "set"))
      set = nmb_format(cli->run, "%s%s%s", set, *set ? "," : "", cli->set[i].value);
  return set;
}

static nmb_status
conf_of(nmb__cli *cli, nmb_dramctl *conf)
{
  const char *refresh = nmb__cli_text(cli, "refresh");
  conf->columns = nmb__cli_int(cli, "n");
  if (conf->columns < 1)
    return nmb_fail(cli->run, NMB_BADOPTION, NMB_NOLOC,
                    "--n: found %lld, expected 1 or more", (long long)conf->columns);
  conf->cap = cap_of(nmb__cli_text(cli, "policy"));
  conf->in_order = !strcmp(nmb__cli_text(cli, "queue"), "inorder");
  if (!strcmp(refresh, "allbank"))
    conf->refresh = NMB_DRAM_ALLBANK;
  else if (!strcmp(refresh, "perbank"))
    conf->refresh = NMB_DRAM_PERBANK;
  return NMB_OK;
}

static nmb_status
run_trace(nmb__cli *cli, stamps *s, nmb_dramctl *conf, nmb_dramstats *r, json_t **out)
{
  nmb_run *run = cli->run;
  const char *file = s->trace;
  size_t len;
  nmb_dram_trace t;
  const char *text = nmb__read_file(run, file, &len);
  if (!text)
    return NMB_IO;
  NMB_TRY(nmb_dram_trace_parse(run, s->d, file, text, len, &t));
  conf->columns = nmb__cli_count(cli, "n") > 0 ? conf->columns : 0;
  NMB_TRY(nmb_dramctl_run(run, s->d, conf, nmb_dram_trace_next, &t, NULL, NULL, stamp, s,
                          r));
  *out = result_json(s, r);
  json_object_set_new(*out, "trace", json_string(file));
  json_object_set_new(*out, "requests", json_integer(t.n));
  json_object_set_new(*out, "wrapped_addresses", json_integer(t.wrapped));
  return NMB_OK;
}

static nmb_status
measure(nmb__cli *cli, stamps *s, json_t **out)
{
  nmb_run *run = cli->run;
  const char *kind = nmb__cli_text(cli, "kind");
  nmb_dramctl conf = NMB_DRAMCTL_DEFAULT;
  nmb_dram_bench bench;
  nmb_dramstats r;
  s->cli = cli;
  if (!kind)
    return list_kinds(run, out);
  NMB_TRY(conf_of(cli, &conf));
  NMB_TRY(nmb_dram_open(run, kind, set_text(cli), &s->d));
  if (s->trace)
    return run_trace(cli, s, &conf, &r, out);
  NMB_TRY(nmb_dram_bench_start(run, s->d, nmb__cli_text(cli, "workload"), &bench));
  NMB_TRY(nmb_dramctl_run(run, s->d, &conf, nmb_dram_bench_next, &bench, NULL, NULL,
                          stamp, s, &r));
  *out = result_json(s, &r);
  return NMB_OK;
}

static nmb_status
facts(nmb__cli *cli, json_t **out)
{
  stamps s = {.show = false, .trace = nmb__cli_text(cli, "trace")};
  return measure(cli, &s, out);
}

static void
print(const stamps *s, const json_t *j)
{
  const json_t *list = json_object_get(j, "kinds"), *v;
  size_t i;
  const char *name;
  json_array_foreach(list, i, v) puts(json_string_value(v));
  if (list)
    return;
  const nmb_dram_info *o = nmb_dram_get(s->d);
  printf("%s, %s: %lld column commands in %lld ticks of %g ps\n", o->name, o->org,
         json_integer_value(json_object_get(j, "n")),
         json_integer_value(json_object_get(j, "cycles")), o->tick_ps);
  printf("bandwidth %.4f GB/s, %.1f %% of the interface; a read takes %.1f ticks\n",
         json_real_value(json_object_get(j, "bandwidth_GBps")),
         100 * json_real_value(json_object_get(j, "share_of_peak")),
         json_number_value(json_object_get(j, "read_latency_ticks")));
  json_object_foreach(json_object_get(j, "commands"), name, v)
      printf("  %-8s %lld\n", name, json_integer_value(v));
}

static nmb_status
report(nmb__cli *cli, const char *trace)
{
  const bool json = nmb__cli_flag(cli, "json");
  stamps s = {.show = nmb__cli_flag(cli, "stamps"), .trace = trace};
  json_t *j = NULL;
  if (s.show && json)
    s.list = json_array();
  const nmb_status status = measure(cli, &s, &j);
  if (status == NMB_OK && s.list)
    json_object_set(j, "stamps", s.list);
  json_decref(s.list);
  if (status == NMB_OK && json) {
    nmb__cli_json(j);
    return status;
  }
  if (status == NMB_OK)
    print(&s, j);
  json_decref(j);
  return status;
}

nmb_status
nmb__dram_trace(nmb__cli *cli, const char *file)
{
  return report(cli, file);
}

static int
cmd_dram(nmb__cli *cli)
{
  return nmb__exit_code(report(cli, nmb__cli_text(cli, "trace")));
}

static const nmb__flag flags[] = {
    {"kind", 'k', "KIND", "text", NULL, "kind of DRAM; absent: lists them"},
    {"workload", 'w', "NAME", "seq_bgi|seq_row|random|same_bank|bank_rr|rw_mix",
     "seq_bgi", "which requests"},
    {"trace", 0, "FILE", "text", NULL,
     "requests of a load/store trace as Ramulator reads it, in place of a workload"},
    NMB__FLAGS_DRAM,
    {"set", 0, "NAME=VALUE", "text", NULL,
     "another timing value in clocks (nRCD=20) or organisation (org=DDR4_16Gb_x8)"},
    {"stamps", 0, NULL, NULL, NULL, "show every command with its tick"},
    NMB__FLAG_JSON,
    {NULL, 0, NULL, NULL, NULL, NULL}};

const nmb__command nmb__cmd_dram = {
    .name = "dram",
    .args = "",
    .arg_type = "text",
    .min = 0,
    .max = 0,
    .summary = "microbenchmarks of one DRAM channel",
    .help =
        "Offers requests without pause to one channel behind a memory controller, "
        "command "
        "by command, and prints the tick of the N-th column command (cycles), bandwidth "
        "and "
        "command counts. A tick is a clock of the command bus, half of one for HBM3.\n\n"
        "seq_row goes through the memory in order; seq_bgi too, but takes turns between "
        "bank "
        "groups (all row hits); random draws transactions; same_bank opens a new row of "
        "one "
        "bank each time, bank_rr of bank after bank; rw_mix is seq_bgi in turns of 16 "
        "reads "
        "and 16 writes.\n\n"
        "A trace has a request a line: 'LD 0x1f80', 'ST 8064', 'R 0,0,1,2,17,3' (a number "
        "for each level, row and column) or '0x1f80 R'.",
    .example = "nmbench dram --kind DDR4_3200AA --workload random --policy closed_cap1",
    .flags = flags,
    .facts = facts,
    .main = cmd_dram,
};
