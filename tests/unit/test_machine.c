/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Reading machine files. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/path.h"
#include "base/plugin.h"
#include "base/run.h"
#include "ir/machine.h"
#include "tests/unit/unit.h"

static nmb_run *
open_run(void)
{
  nmb_run *run = nmb__run_open(NULL);
  nmb__plugins_load(run, NULL);
  return run;
}

/* The machine must be refused with a message that holds `want`. */
static void
refused(const char *text, const char *want)
{
  nmb_run *run = open_run();
  nmb_hw *hw = NULL;
  const nmb_status status = nmb__machine_parse(run, "bad.hw", text, strlen(text), &hw);
  CU_ASSERT_NOT_EQUAL(status, NMB_OK);
  if (!strstr(nmb_error_text(run), want))
    printf("\n  found '%s'\n  expected '%s'\n", nmb_error_text(run), want);
  CU_ASSERT_PTR_NOT_NULL(strstr(nmb_error_text(run), want));
  if (status == NMB_OK)
    nmb__machine_free(hw);
  nmb__run_close(run);
}

#define HEAD "title = \"t\"; source = \"s\"; host = \"gpu\";\n"
#define MEM                                                                              \
  "memories = { m = { size = \"1GB\"; bandwidth = \"1GB/s\"; energy = \"unknown\"; "     \
  "static = \"0W\"; source = \"s\"; }; };\n"
#define GPU                                                                              \
  "engines = { gpu = { model = \"roofline\"; resident = \"m\"; home = \"m\"; ops = "     \
  "\"all\"; weights = \"all\";\n"                                                        \
  "values = \"all\"; launch = \"1us\"; static = \"0W\"; source = \"s\"; cores = 2; "     \
  "clock = \"1GHz\"; macs16 = 8;\n"                                                      \
  "macs32 = 4; macs-int8 = 0; macs-fp8 = 0; ops-per-cycle = 2; compute-fraction = 1.0; " \
  "memory-fraction = \"50%\";\n"                                                         \
  "energy-mac = \"unknown\"; energy-op = \"1pJ\"; }; };\n"

static nmb_hw *
accepted(nmb_run *run, const char *text)
{
  nmb_hw *hw = NULL;
  if (nmb__machine_parse(run, "good.hw", text, strlen(text), &hw) != NMB_OK) {
    printf("\n  %s\n", nmb_error_text(run));
    CU_FAIL_FATAL("refused");
  }
  return hw;
}

static void
test_values(void)
{
  nmb_run *run = open_run();
  nmb_hw *hw = accepted(run, HEAD "devices = 3;" MEM GPU);
  CU_ASSERT_STRING_EQUAL(hw->name, "good");
  CU_ASSERT_EQUAL(hw->mem[0].bytes, 3000000000);
  CU_ASSERT_EQUAL(hw->mem[0].bytes_per_s, 3e9);
  CU_ASSERT_TRUE(isnan(hw->mem[0].j_per_byte));
  CU_ASSERT_EQUAL(hw->mem[0].burst_bytes, 64);
  CU_ASSERT_EQUAL(hw->engine[0].devices, 3);
  CU_ASSERT_EQUAL(hw->engine[0].launch_s, 1e-6);
  CU_ASSERT_EQUAL(nmb_param_get(&hw->engine[0], "memory-fraction"), 0.5);
  CU_ASSERT_EQUAL(nmb_param_get(&hw->engine[0], "tile-m"), 16);
  CU_ASSERT_EQUAL(hw->host, 0);
  nmb__machine_free(hw);
  nmb__run_close(run);
}

static void
test_refused(void)
{
  refused(HEAD MEM "engines = { };", "bad.hw:1: host: there is no engine 'gpu'");
  refused("title = \"t\"; host = \"gpu\";" MEM GPU, "the machine has no 'source'");
  refused(HEAD "memoires = { };",
          "bad.hw:2: machine: unknown key 'memoires'; did you mean 'memories'?");
  refused(HEAD "memories = { m = { size = \"1GB\"; };};",
          "memories.m: 'bandwidth' is missing");
  refused(HEAD "memories = { m = { size = \"1GB\"; bandwith = \"1GB/s\"; };};",
          "memories.m: unknown key 'bandwith'; did you mean 'bandwidth'?");
  refused(HEAD "memories = { m = { size = \"1GBs\"; };};", "bad.hw:2: found unit 'GBs'");
  refused(HEAD "memories = { m = { size = 12; };};", "bad.hw:2:");
  refused(HEAD MEM GPU "links = { l = { from = \"m\"; to = \"n\"; launch = \"0s\"; "
                       "static = \"0W\"; source = \"s\"; }; };",
          "links.l: to: there is no memory 'n'");
  refused(HEAD MEM GPU "x = 3;", "unknown key 'x'");
  refused(HEAD "memories = { m = { size = \"1GB\"; bandwidth = \"1GB/s\"; energy = "
               "\"unknown\"; static = \"0W\"; source = \" \"; }; };",
          "its source is empty");
  refused(HEAD "devices = 0;" MEM GPU, "devices: found '0'");
  refused("title = ;", "bad.hw:1: syntax error");
  refused("include = \"no-such-machine\";", "no-such-machine");
  refused("include = 3;", "include: expected a text");
}

/* The text of a key that is spelt wrong names the right one, with its line. */
static void
test_misspelt_parameter(void)
{
  char text[2000];
  snprintf(text, sizeof text, "%s%s%s", HEAD, MEM, GPU);
  memcpy(strstr(text, "macs32"), "macs23", 6);
  refused(text, "bad.hw:5: engines.gpu: unknown key 'macs23'; did you mean 'macs32'?");
  snprintf(text, sizeof text, "%s%s%s", HEAD, MEM, GPU);
  memcpy(strstr(text, "1GHz"), "1GHx", 4);
  refused(text, "bad.hw:4:");
  snprintf(text, sizeof text, "%s%s%s", HEAD, MEM, GPU);
  memcpy(strstr(text, "roofline"), "rooflane", 8);
  refused(text, "roofline");
}

static void
test_variant(void)
{
  nmb_run *run = open_run();
  nmb_hw *hw = accepted(
      run, "include = \"aim-gddr6-x8+gb8k\"; title = \"mine\"; devices = 2; set = (\n"
           "{ path = \"engines.pim.rp\"; value = 30; }, { path = \"engines.pim.rp\"; "
           "value = 31; } );");
  const nmb_engine *pim = &hw->engine[nmb_hw_engine(hw, "pim")];
  const nmb_mem *dram = &hw->mem[nmb_hw_mem(hw, "dram")],
                *ddr = &hw->mem[nmb_hw_mem(hw, "ddr")];
  CU_ASSERT_STRING_EQUAL(hw->title, "mine");
  CU_ASSERT_EQUAL(nmb_param_get(pim, "rp"), 31);
  CU_ASSERT_EQUAL(nmb_param_get(pim, "global-buffer"), 8192);
  CU_ASSERT_EQUAL(dram->channels, 64);
  CU_ASSERT_EQUAL(dram->bytes, INT64_C(2) * 16 << 30);
  CU_ASSERT_EQUAL(ddr->bytes, INT64_C(512) << 30); /* one in the system */
  CU_ASSERT_EQUAL(ddr->devices, 1);
  CU_ASSERT_NOT_EQUAL(nmb_hw_link(hw, nmb_hw_mem(hw, "dram"), nmb_hw_mem(hw, "ddr")),
                      NMB_NONE);
  nmb__machine_free(hw);
  nmb__run_close(run);
}

static void
test_bad_variant(void)
{
  refused("include = \"gpu-a100\"; memories = { };", "variant: unknown key 'memories'");
  refused("include = \"gpu-a100\";\nset = ( { path = \"engines.gpu.clok\"; value = "
          "\"1GHz\"; } );",
          "bad.hw:2: engines.gpu: unknown key 'clok'; did you mean 'clock'?");
  refused("include = \"gpu-a100\"; set = ( { path = \"engines.gpx.clock\"; value = "
          "\"1GHz\"; } );",
          "set: there is no 'engines.gpx.clock'; did you mean 'gpu'?");
  refused("include = \"gpu-a100\"; set = ( { path = \"engine.gpu.clock\"; value = "
          "\"1GHz\"; } );",
          "did you mean 'engines'?");
  refused("include = \"gpu-a100\"; set = ( { path = \"engines.gpu.clock\"; value = "
          "\"-1GHz\"; } );",
          "engines.gpu");
  refused(
      "include = \"gpu-a100\"; set = ( { path = \"engines.gpu\"; value = \"1GHz\"; } );",
      "expected group.entry.key");
  refused("include = \"gpu-a100\"; set = ( { path = \"engines.gpu.clock\"; } );",
          "a row lacks its value");
  refused("include = \"gpu-a100\"; set = ( 3 );", "set: expected groups");
}

/* Files that include each other end with a message. */
static void
test_recursion(void)
{
  const char *path = "loop-of-includes.hw";
  FILE *f = fopen(path, "w");
  fprintf(f, "include = \"./%s\";\n", path);
  fclose(f);
  nmb_run *run = open_run();
  nmb_hw *hw;
  CU_ASSERT_EQUAL(nmb__machine_load(run, "./loop-of-includes.hw", &hw), NMB_BADINPUT);
  CU_ASSERT_PTR_NOT_NULL(strstr(nmb_error_text(run), "include each other"));
  nmb__run_close(run);
  remove(path);
}

/* Every machine that ships can be read, its text reads back to itself, and all its
 * entries have sources. */
static void
test_shipped(void)
{
  nmb_run *run = open_run();
  const char **names;
  const int n = nmb__list_files(run, "machines", "hw", &names);
  CU_ASSERT_TRUE(n >= 15);
  for (int i = 0; i < n; i++) {
    nmb_hw *hw, *again;
    if (nmb__machine_load(run, names[i], &hw) != NMB_OK) {
      printf("\n  %s\n", nmb_error_text(run));
      CU_FAIL("a shipped machine is refused");
      continue;
    }
    CU_ASSERT_STRING_EQUAL(hw->name, names[i]);
    const char *text = nmb__machine_text(run, hw);
    if (nmb__machine_parse(run, "again.hw", text, strlen(text), &again) == NMB_OK) {
      CU_ASSERT_STRING_EQUAL(nmb__machine_text(run, again), text);
      CU_ASSERT_EQUAL(again->mem[0].bytes, hw->mem[0].bytes);
      nmb__machine_free(again);
    } else {
      printf("\n  %s: %s\n", names[i], nmb_error_text(run));
      CU_FAIL("a machine's text does not read back");
    }
    for (int e = 0; e < hw->nengine; e++)
      CU_ASSERT_PTR_NOT_NULL(hw->engine[e].impl);
    nmb__machine_free(hw);
  }
  nmb__run_close(run);
}

UNIT_MAIN("machine", {"values, units, defaults, devices", test_values},
          {"what is wrong is refused with its place", test_refused},
          {"a misspelt parameter is refused", test_misspelt_parameter},
          {"a variant changes single values", test_variant},
          {"a wrong variant is refused", test_bad_variant},
          {"includes do not run in circles", test_recursion},
          {"every shipped machine reads and prints", test_shipped})
