/* SPDX-License-Identifier: GPL-3.0-or-later */
/* nmbench compile: a model, or a program as text, through a pipeline. */
#include "config.h" /* first: names outside of C11 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/path.h"
#include "base/plugin.h"
#include "frontend/model.h"
#include "harness/cmd.h"
#include "harness/sim_trace.h"
#include "ir/machine.h"
#include "ir/pipeline.h"

typedef struct job {
  nmb__cli *cli;
  nmb_hw *hw;
  nmb_prog *prog;
  nmb__pipeline pipeline;
  FILE *facts;    /* stdout, unless the program goes there */
  bool unwritten; /* the program could not be written to its file */
  json_t *passes; /* one object per pass that ran */
} job;

/* ---------------------------------------------------------------------- input */
/* "uniform", "balanced" or "zipf:1.2" */
static nmb_status
routing_parse(nmb_run *run, const char *text, nmb__routing_spec *out)
{
  const char *colon = strchr(text, ':');
  char *end = NULL;
  const bool zipf = !strncmp(text, "zipf:", 5);
  if (colon) {
    out->kind = nmb_format(run, "%.*s", (int)(colon - text), text);
    out->skew = strtod(colon + 1, &end);
  } else
    out->kind = text;
  if (colon && zipf && end != colon + 1 && !*end && out->skew > 0)
    return NMB_OK;
  if (!colon && (!strcmp(text, "uniform") || !strcmp(text, "balanced")))
    return NMB_OK;
  return nmb_fail(run, NMB_BADOPTION, NMB_NOLOC,
                  "option --routing: found '%s', expected uniform, balanced or zipf:SKEW",
                  text);
}

static nmb_status
step_spec(const nmb__cli *cli, nmb_step_spec *out)
{
  const int64_t batch = nmb__cli_int(cli, "batch"),
                context = nmb__cli_int(cli, "context");
  if (batch < 1 || context < 1)
    return nmb_fail(cli->run, NMB_BADOPTION, NMB_NOLOC,
                    "found batch %lld and context %lld, expected 1 or more",
                    (long long)batch, (long long)context);
  *out = (nmb_step_spec){NMB_DECODE, batch, 1, context};
  if (!strcmp(nmb__cli_text(cli, "phase"), "prefill"))
    *out = (nmb_step_spec){NMB_PREFILL, batch, context, 0};
  return NMB_OK;
}

static nmb_status
from_model(job *j)
{
  const nmb__cli *cli = j->cli;
  const nmb__arch *arch;
  nmb_step_spec spec;
  nmb__routing_spec routing = {.seed = (uint64_t)nmb__cli_int(cli, "seed")};
  NMB_TRY(step_spec(cli, &spec));
  NMB_TRY(routing_parse(cli->run, nmb__cli_text(cli, "routing"), &routing));
  nmb__run_lenient(cli->run, nmb__cli_flag(cli, "lenient"));
  NMB_TRY(nmb__arch_load(cli->run, nmb__cli_text(cli, "model"), &arch));
  if (nmb__cli_text(cli, "machine"))
    NMB_TRY(nmb__sim_machine(j->cli, nmb__cli_text(cli, "machine"), &j->hw));
  NMB_TRY(nmb__graph_build(cli->run, arch, spec, &routing, &j->prog));
  nmb_prog_set_hw(j->prog, j->hw);
  return NMB_OK;
}

static nmb_status
from_text(job *j)
{
  nmb_run *run = j->cli->run;
  const char *file = j->cli->arg[0], *machine = nmb__cli_text(j->cli, "machine");
  size_t len;
  const char *text = nmb__read_file(run, file, &len);
  if (!text)
    return NMB_IO;
  if (!machine)
    NMB_TRY(nmb_prog_parse_machine(run, file, text, len, &machine));
  if (*machine)
    NMB_TRY(nmb__sim_machine(j->cli, machine, &j->hw));
  NMB_TRY(nmb_prog_parse(run, file, text, len, j->hw, &j->prog));
  return nmb_prog_verify(run, j->prog, j->prog->present);
}

/* --------------------------------------------------------------------- output */
/* Called after each pass: keeps what --time, --stats and --json show. */
static void
pass_done(void *arg, const nmb__pass_report *r)
{
  json_t *stats = json_object();
  for (int i = 0; i < r->nstat; i++)
    json_object_set_new(stats, r->stat[i].name, nmb__json_real(r->stat[i].value));
  json_array_append_new(((job *)arg)->passes,
                        json_pack("{s:s, s:o, s:b, s:I, s:o}", "pass",
                                  r->stage->plugin->name, "seconds",
                                  nmb__json_real(r->seconds), "changed", r->changed,
                                  "evaluations", (json_int_t)r->spent, "stats", stats));
}

static void
print_passes(const job *j)
{
  size_t i;
  json_t *row, *value;
  const char *key;
  json_array_foreach(j->passes, i, row)
  {
    fprintf(j->facts, "%-20s", json_string_value(json_object_get(row, "pass")));
    if (nmb__cli_flag(j->cli, "time"))
      fprintf(j->facts, " %9.3f ms",
              1e3 * json_number_value(json_object_get(row, "seconds")));
    if (nmb__cli_flag(j->cli, "stats"))
      json_object_foreach(json_object_get(row, "stats"), key, value)
          fprintf(j->facts, " %s %.6g;", key, json_number_value(value));
    fputc('\n', j->facts);
  }
}

static json_t *
facts(const job *j)
{
  nmb_run *run = j->cli->run;
  const nmb_prog *p = j->prog;
  const bool prefill = p->spec.phase == NMB_PREFILL;
  return json_pack(
      "{s:s, s:s?, s:s, s:I, s:I, s:I, s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:O}",
      "model", p->model, "machine", p->hw ? p->hw->name : NULL, "phase",
      prefill ? "prefill" : "decode", "batch", (json_int_t)p->spec.batch, "fresh",
      (json_int_t)p->spec.fresh, "context", (json_int_t)p->spec.context, "pipeline",
      nmb__pipeline_text(run, &j->pipeline), "sections",
      nmb__sections_text(run, p->present), "blocks", p->nblock, "ops", p->nop, "kernels",
      p->nkernel, "steps", p->nstep, "slots", p->nslot, "instructions", p->ninsn,
      "passes", j->passes);
}

static void
print_facts(const job *j)
{
  const nmb_prog *p = j->prog;
  FILE *f = j->facts;
  fprintf(f, "%s on %s: %s, batch %lld, %lld new tokens, context %lld\n", p->model,
          p->hw ? p->hw->name : "no machine",
          p->spec.phase == NMB_PREFILL ? "prefill" : "decode", (long long)p->spec.batch,
          (long long)p->spec.fresh, (long long)p->spec.context);
  fprintf(f, "sections: %s\n", nmb__sections_text(j->cli->run, p->present));
  fprintf(f, "%d blocks, %d ops, %d kernels, %d steps, %d slots, %d instructions\n",
          p->nblock, p->nop, p->nkernel, p->nstep, p->nslot, p->ninsn);
}

static nmb_status
write_program(job *j, const char *path)
{
  const bool standard = !strcmp(path, "-");
  FILE *f = standard ? stdout : fopen(path, "w");
  const char *emit = nmb__cli_text(j->cli, "emit");
  if (f && emit && !strcmp(emit, "aim-trace")) {
    const nmb_status st = nmb__emit_aim_trace(j->cli->run, j->prog, f);
    if (st != NMB_OK) {
      if (!standard)
        fclose(f);
      return st;
    }
  } else if (f)
    nmb_prog_print(j->prog, NMB_ALL, f);
  bool bad = !f || ferror(f);
  if (f && !standard)
    bad |= fclose(f) != 0;
  j->unwritten = bad && !standard; /* main reports a standard output that fails */
  return j->unwritten
             ? nmb_fail(j->cli->run, NMB_IO, (nmb_loc){path, 0, 0}, "%s", strerror(errno))
             : NMB_OK;
}

/* ------------------------------------------------------------------------ run */
/* Host time and memory of all of it: not results, as they do not repeat. */
static double
host_seconds(void)
{
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int64_t
host_peak_bytes(void)
{
  struct rusage u;
  return getrusage(RUSAGE_SELF, &u) == 0 ? (int64_t)u.ru_maxrss * 1024 : 0;
}

static nmb_status
report(job *j, bool printed)
{
  nmb__cli *cli = j->cli;
  const char *simulators = nmb__cli_text(cli, "simulators");
  const bool time = nmb__cli_flag(cli, "time"), json = nmb__cli_flag(cli, "json");
  json_t *all = facts(j), *metrics = json_array();
  json_object_set_new(all, "status", json_string("ok"));
  json_object_set_new(all, "metrics", metrics);
  if (!json && !printed) {
    if (time || nmb__cli_flag(cli, "stats"))
      print_passes(j);
    print_facts(j);
  }
  const nmb_status status =
      simulators ? nmb__sim_list(cli, j->prog, simulators, j->facts, metrics) : NMB_OK;
  json_object_set_new(all, "host_seconds", nmb__json_real(host_seconds()));
  json_object_set_new(all, "host_peak_bytes", json_integer(host_peak_bytes()));
  if (status == NMB_OK && json) {
    json_dumpf(all, j->facts, JSON_INDENT(2) | JSON_REAL_PRECISION(17));
    fputc('\n', j->facts);
  } else if (status == NMB_OK && time)
    fprintf(j->facts, "host: %.3f s of processor time, %.1f MiB at most\n",
            host_seconds(), (double)host_peak_bytes() / 0x1p20);
  json_decref(all);
  return status;
}

/* Ends that are results: a script that reads --json gets them as an object, too. */
static bool
outcome(nmb_status s)
{
  return s == NMB_UNSUPPORTED || s == NMB_INFEASIBLE || s == NMB_NOSOLUTION ||
         s == NMB_TIMEOUT;
}

static void
print_outcome(const job *j, nmb_status status)
{
  json_t *all = j->prog ? facts(j) : json_object();
  json_object_set_new(all, "status", json_string(nmb_status_name(status)));
  json_object_set_new(all, "reason", json_string(nmb_error_text(j->cli->run)));
  json_dumpf(all, j->facts, JSON_INDENT(2) | JSON_REAL_PRECISION(17));
  fputc('\n', j->facts);
  json_decref(all);
}

static nmb_status
compile(job *j)
{
  const nmb__cli *cli = j->cli;
  const char *output = nmb__cli_text(cli, "output");
  NMB_TRY(nmb__plugins_load(cli->run, NULL));
  NMB_TRY(nmb__pipeline_parse(cli->run, NMB_NOLOC, nmb__cli_text(cli, "pipeline"),
                              &j->pipeline));
  NMB_TRY(cli->narg ? from_text(j) : from_model(j));
  nmb__run_seed(cli->run, (uint64_t)nmb__cli_int(cli, "seed"));
  j->facts = output && !strcmp(output, "-") ? stderr : stdout;
  const nmb__pipeline_hooks hooks = {.print = j->facts,
                                     .print_after = nmb__cli_text(cli, "print-after"),
                                     .print_changed = nmb__cli_flag(cli, "print-changed"),
                                     .repro = nmb__cli_text(cli, "repro"),
                                     .done = pass_done,
                                     .arg = j};
  NMB_TRY(nmb__pipeline_run(cli->run, j->prog, &j->pipeline, &hooks));
  if (output)
    NMB_TRY(write_program(j, output));
  return report(j, hooks.print_after || hooks.print_changed);
}

/* A pass that --print-after names must be in the pipeline: a typing slip would
 * else print nothing, in silence. */
static bool
names_a_stage(const char *pipeline, const char *name)
{
  const size_t n = strlen(name);
  for (const char *p = pipeline; (p = strstr(p, name)); p += n)
    if ((p == pipeline || p[-1] == ',' || p[-1] == ' ') && strchr(",{ ", p[n]))
      return true;
  return false;
}

static int
cmd_compile(nmb__cli *cli)
{
  const char *after = nmb__cli_text(cli, "print-after");
  if (!cli->narg == !nmb__cli_text(cli, "model"))
    return nmb__cli_usage(cli, "expected either --model or a FILE.nmb");
  if (after && strcmp(after, "all") &&
      !names_a_stage(nmb__cli_text(cli, "pipeline"), after))
    return nmb__cli_usage(cli, "option --print-after: pass '%s' is not in the pipeline",
                          after);
  job j = {.cli = cli, .passes = json_array(), .facts = stdout};
  const nmb_status status = compile(&j);
  if (outcome(status) && nmb__cli_flag(cli, "json"))
    print_outcome(&j, status);
  json_decref(j.passes);
  nmb_prog_free(j.prog);
  nmb__machine_free(j.hw);
  return j.unwritten ? NMB__EXIT_OUTPUT : nmb__exit_code(status);
}

static const nmb__flag flags[] = {
    {"model", 'm', "MODEL", "model", NULL, "name of a model, or path of a config.json"},
    {"machine", 'M', "MACHINE", "machine", NULL,
     "name of a machine, or path of a .hw file"},
    {"phase", 0, "PHASE", "decode|prefill", "decode", "decode or prefill"},
    {"batch", 'b', "N", "int", "1", "sequences"},
    {"context", 'c', "N", "int", "2048",
     "tokens in the cache (decode) or in the prompt (prefill)"},
    {"routing", 0, "R", "text", "uniform",
     "how tokens reach experts: uniform, balanced or zipf:SKEW"},
    {"lenient", 0, NULL, NULL, NULL,
     "warn of keys of the model that are not understood, instead of refusing it"},
    {"seed", 0, "N", "int", "1", "of the routing and of passes that draw random numbers"},
    {"pipeline", 'p', "TEXT", "pass", "", "passes to run: NAME{option=value,..},.."},
    {"print-after", 0, "PASS", "pass", NULL,
     "print the program after this pass, or after all"},
    {"print-changed", 0, NULL, NULL, NULL, "print the sections that each pass changed"},
    {"simulators", 's', "LIST", "simulator", NULL,
     "then run these: NAME{option=value,..},.."},
    {"stats", 0, NULL, NULL, NULL, "print what each pass counted"},
    {"time", 0, NULL, NULL, NULL,
     "print how long each pass took, and host time and memory of all"},
    {"repro", 0, "FILE", "file", NULL,
     "where a pass fails, write program and rest of the pipeline here"},
    {"output", 'o', "FILE", "file", NULL, "write the program here; - is standard output"},
    {"set", 0, "KEY=VALUE", "text", NULL,
     "change a parameter of the machine, as with op; may be repeated"},
    {"emit", 0, "FORM", "program|aim-trace", "program",
     "what --output writes: the program as text, or its instructions for SK hynix AiM as "
     "the public AiM simulator reads them"},
    NMB__FLAG_JSON,
    {NULL, 0, NULL, NULL, NULL, NULL}};

const nmb__command nmb__cmd_compile = {
    .name = "compile",
    .args = "[FILE.nmb]",
    .arg_type = "file",
    .min = 0,
    .max = 1,
    .summary = "run a pipeline on a model or a program",
    .help =
        "Builds the graph of one step of a model (or reads a program as text, - is "
        "standard "
        "input), runs a pipeline of passes over it, and prints what came out in short. "
        "With "
        "-o - the program is all that goes to standard output, the rest goes to standard "
        "error.\n\nWithout -p the graph is as the model's configuration gives it.",
    .example = "nmbench compile -m olmoe-1b-7b -M aim-gddr6 -p legalize,moe-lower -o -\n"
               "nmbench compile prog.nmb -p sched-inorder --print-changed",
    .flags = flags,
    .main = cmd_compile,
};
