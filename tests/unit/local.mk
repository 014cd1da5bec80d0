# A CUnit program per module.
UNIT_LDADD = libnmbench.la $(CUNIT_LIBS)
# Values: formats, ops, programs.
if HAVE_CUNIT
check_PROGRAMS += tests/unit/test_formats tests/unit/test_eval tests/unit/test_mixing \
  tests/unit/test_choice tests/unit/test_values tests/unit/test_blocks tests/unit/test_streams \
  tests/unit/test_shared tests/unit/test_zoo
TESTS += tests/unit/test_formats tests/unit/test_eval tests/unit/test_mixing \
  tests/unit/test_choice tests/unit/test_values tests/unit/test_blocks tests/unit/test_streams \
  tests/unit/test_shared tests/unit/test_zoo
endif
tests_unit_test_formats_SOURCES = tests/unit/test_formats.c tests/unit/unit.h
tests_unit_test_formats_LDADD = $(UNIT_LDADD) -lm
tests_unit_test_eval_SOURCES = tests/unit/test_eval.c tests/unit/unit.h tests/unit/opbench.h
tests_unit_test_eval_LDADD = $(UNIT_LDADD) -lm
tests_unit_test_mixing_SOURCES = tests/unit/test_mixing.c tests/unit/unit.h tests/unit/opbench.h
tests_unit_test_mixing_LDADD = $(UNIT_LDADD) -lm
tests_unit_test_streams_SOURCES = tests/unit/test_streams.c tests/unit/unit.h tests/unit/watched.h tests/unit/opbench.h
tests_unit_test_streams_LDADD = $(UNIT_LDADD) -lm
tests_unit_test_shared_SOURCES = tests/unit/test_shared.c tests/unit/unit.h tests/unit/watched.h
tests_unit_test_shared_LDADD = $(UNIT_LDADD) -lm
tests_unit_test_zoo_SOURCES = tests/unit/test_zoo.c tests/unit/unit.h tests/unit/compiled.h
tests_unit_test_zoo_LDADD = $(UNIT_LDADD) $(JANSSON_LIBS)
tests_unit_test_choice_SOURCES = tests/unit/test_choice.c tests/unit/unit.h tests/unit/opbench.h
tests_unit_test_choice_LDADD = $(UNIT_LDADD) -lm
tests_unit_test_values_SOURCES = tests/unit/test_values.c tests/unit/unit.h
tests_unit_test_values_LDADD = $(UNIT_LDADD) -lm
tests_unit_test_blocks_SOURCES = tests/unit/test_blocks.c tests/unit/unit.h
tests_unit_test_blocks_LDADD = $(UNIT_LDADD) -lm
if HAVE_CUNIT
check_PROGRAMS += tests/unit/test_stream tests/unit/test_fidelity
TESTS += tests/unit/test_stream tests/unit/test_fidelity
endif
tests_unit_test_fidelity_SOURCES = tests/unit/test_fidelity.c tests/unit/unit.h tests/unit/enginebench.h
tests_unit_test_fidelity_LDADD = $(UNIT_LDADD) -lm
tests_unit_test_stream_SOURCES = tests/unit/test_stream.c tests/unit/unit.h
tests_unit_test_stream_LDADD = $(UNIT_LDADD) -lm
if HAVE_CUNIT
check_PROGRAMS += tests/unit/test_prog
TESTS += tests/unit/test_prog
endif
tests_unit_test_prog_SOURCES = tests/unit/test_prog.c tests/unit/unit.h
tests_unit_test_prog_LDADD = $(UNIT_LDADD)
if HAVE_CUNIT
check_PROGRAMS += tests/unit/test_verify
TESTS += tests/unit/test_verify
endif
tests_unit_test_verify_SOURCES = tests/unit/test_verify.c tests/unit/unit.h tests/unit/fixture.h
tests_unit_test_verify_LDADD = $(UNIT_LDADD)
if HAVE_CUNIT
check_PROGRAMS += tests/unit/test_text
TESTS += tests/unit/test_text
endif
tests_unit_test_text_SOURCES = tests/unit/test_text.c tests/unit/unit.h tests/unit/fixture.h
tests_unit_test_text_LDADD = $(UNIT_LDADD)
if HAVE_CUNIT
check_PROGRAMS += tests/unit/test_stats
TESTS += tests/unit/test_stats
endif
tests_unit_test_stats_SOURCES = tests/unit/test_stats.c tests/unit/unit.h
tests_unit_test_stats_LDADD = libharness.la $(UNIT_LDADD)
if HAVE_CUNIT
check_PROGRAMS += tests/unit/test_figure
TESTS += tests/unit/test_figure
endif
tests_unit_test_figure_SOURCES = tests/unit/test_figure.c tests/unit/unit.h
tests_unit_test_figure_LDADD = libharness.la $(UNIT_LDADD)
if HAVE_CUNIT
check_PROGRAMS += tests/unit/test_store
TESTS += tests/unit/test_store
endif
tests_unit_test_store_SOURCES = tests/unit/test_store.c tests/unit/unit.h
tests_unit_test_store_LDADD = libharness.la $(UNIT_LDADD)
if HAVE_CUNIT
check_PROGRAMS += tests/unit/test_frontend
TESTS += tests/unit/test_frontend
endif
tests_unit_test_frontend_SOURCES = tests/unit/test_frontend.c tests/unit/unit.h
tests_unit_test_frontend_LDADD = $(UNIT_LDADD) $(JANSSON_LIBS)
if HAVE_CUNIT
check_PROGRAMS += tests/unit/test_base
TESTS += tests/unit/test_base
endif
tests_unit_test_base_SOURCES = tests/unit/test_base.c tests/unit/unit.h
tests_unit_test_base_LDADD = $(UNIT_LDADD) -lm
if HAVE_CUNIT
check_PROGRAMS += tests/unit/test_pipeline
TESTS += tests/unit/test_pipeline
endif
tests_unit_test_pipeline_SOURCES = tests/unit/test_pipeline.c tests/unit/unit.h
tests_unit_test_pipeline_LDADD = $(UNIT_LDADD)
if HAVE_CUNIT
check_PROGRAMS += tests/unit/test_machine tests/unit/test_models tests/unit/test_sim
TESTS += tests/unit/test_machine tests/unit/test_models tests/unit/test_sim
endif
tests_unit_test_machine_SOURCES = tests/unit/test_machine.c tests/unit/unit.h
tests_unit_test_machine_LDADD = $(UNIT_LDADD)
tests_unit_test_models_SOURCES = tests/unit/test_models.c tests/unit/unit.h tests/unit/enginebench.h
tests_unit_test_models_LDADD = $(UNIT_LDADD) -lm
tests_unit_test_sim_SOURCES = tests/unit/test_sim.c tests/unit/unit.h
tests_unit_test_sim_LDADD = $(UNIT_LDADD) -lm
EXTRA_DIST += tests/data/families.json tests/data/aim_gemv.csv tests/data/aim_schedule.csv tests/data/attacc_stamps.csv tests/data/attacc_kernels.csv tests/data/systolic.csv
if HAVE_CUNIT
check_PROGRAMS += tests/unit/test_machines
TESTS += tests/unit/test_machines
endif
tests_unit_test_machines_SOURCES = tests/unit/test_machines.c tests/unit/unit.h tests/unit/compiled.h
tests_unit_test_machines_LDADD = $(UNIT_LDADD) $(JANSSON_LIBS) -lm
if HAVE_CUNIT
check_PROGRAMS += tests/unit/test_mixers
TESTS += tests/unit/test_mixers
tests_unit_test_mixers_SOURCES = tests/unit/test_mixers.c tests/unit/unit.h
tests_unit_test_mixers_LDADD = $(UNIT_LDADD)

check_PROGRAMS += tests/unit/test_conserve
TESTS += tests/unit/test_conserve
endif
tests_unit_test_conserve_SOURCES = tests/unit/test_conserve.c tests/unit/unit.h tests/unit/compiled.h
tests_unit_test_conserve_LDADD = $(UNIT_LDADD) $(JANSSON_LIBS)
if HAVE_CUNIT
check_PROGRAMS += tests/unit/test_journal tests/unit/test_ablation
TESTS += tests/unit/test_journal tests/unit/test_ablation
endif
tests_unit_test_journal_SOURCES = tests/unit/test_journal.c tests/unit/unit.h
tests_unit_test_journal_LDADD = libharness.la $(UNIT_LDADD)
tests_unit_test_ablation_SOURCES = tests/unit/test_ablation.c tests/unit/unit.h
tests_unit_test_ablation_LDADD = libharness.la $(UNIT_LDADD)
if HAVE_CUNIT
check_PROGRAMS += tests/unit/test_plan
TESTS += tests/unit/test_plan
endif
tests_unit_test_plan_SOURCES = tests/unit/test_plan.c tests/unit/unit.h tests/unit/fixture.h
tests_unit_test_plan_LDADD = $(UNIT_LDADD)
if HAVE_CUNIT
check_PROGRAMS += tests/unit/test_lower tests/unit/test_emit
TESTS += tests/unit/test_lower tests/unit/test_emit
endif
tests_unit_test_lower_SOURCES = tests/unit/test_lower.c tests/unit/fixture.h tests/unit/unit.h
tests_unit_test_lower_LDADD = $(UNIT_LDADD)
tests_unit_test_emit_SOURCES = tests/unit/test_emit.c tests/unit/fixture.h tests/unit/unit.h
tests_unit_test_emit_LDADD = $(UNIT_LDADD)
if HAVE_CUNIT
check_PROGRAMS += tests/unit/test_array
TESTS += tests/unit/test_array
endif
tests_unit_test_array_SOURCES = tests/unit/test_array.c tests/unit/unit.h
tests_unit_test_array_LDADD = $(UNIT_LDADD)
if HAVE_CUNIT
check_PROGRAMS += tests/unit/test_ledger
TESTS += tests/unit/test_ledger
endif
tests_unit_test_ledger_SOURCES = tests/unit/test_ledger.c tests/unit/unit.h
tests_unit_test_ledger_LDADD = libharness.la $(UNIT_LDADD) $(JANSSON_LIBS) -lm
if HAVE_CUNIT
check_PROGRAMS += tests/unit/test_dram
TESTS += tests/unit/test_dram
endif
tests_unit_test_dram_SOURCES = tests/unit/test_dram.c tests/unit/unit.h
tests_unit_test_dram_LDADD = $(UNIT_LDADD) -lm
if HAVE_CUNIT
check_PROGRAMS += tests/unit/test_aim
TESTS += tests/unit/test_aim
endif
tests_unit_test_aim_SOURCES = tests/unit/test_aim.c tests/unit/unit.h
tests_unit_test_aim_LDADD = $(UNIT_LDADD)
if HAVE_CUNIT
check_PROGRAMS += tests/unit/test_collective
TESTS += tests/unit/test_collective
endif
tests_unit_test_collective_SOURCES = tests/unit/test_collective.c tests/unit/unit.h
tests_unit_test_collective_LDADD = $(UNIT_LDADD) -lm
EXTRA_DIST += tests/data/tiny/bitnet.json \
  tests/data/tiny/hyperclovax.json \
  tests/data/tiny/grok2.json \
  tests/data/tiny/exaone_moe.json \
  tests/data/tiny/afmoe.json \
  tests/data/tiny/bamba.json \
  tests/data/tiny/biogpt.json \
  tests/data/tiny/openai_gpt.json \
  tests/data/tiny/nanochat.json \
  tests/data/tiny/nemotron_nas.json \
  tests/data/tiny/stablelm_qk.json \
  tests/data/tiny/openelm.json \
  tests/data/tiny/opt_post.json \
  tests/data/tiny/gpt_neo.json \
  tests/data/tiny/lfm2_moe.json \
  tests/data/tiny/lfm2.json \
  tests/data/tiny/bloom.json \
  tests/data/tiny/cohere.json \
  tests/data/tiny/cohere_plus.json \
  tests/data/tiny/dbrx.json \
  tests/data/tiny/deepseek_v2.json \
  tests/data/tiny/deepseek_v2_lite.json \
  tests/data/tiny/deepseek_v3.json \
  tests/data/tiny/deepseek_v32.json \
  tests/data/tiny/deepseek_v4.json \
  tests/data/tiny/glm5.json \
  tests/data/tiny/falcon.json \
  tests/data/tiny/falcon_h1.json \
  tests/data/tiny/falcon_mamba.json \
  tests/data/tiny/gemma2.json \
  tests/data/tiny/gemma3.json \
  tests/data/tiny/gemma4_moe.json \
  tests/data/tiny/glm4_moe.json \
  tests/data/tiny/gpt2.json \
  tests/data/tiny/gpt_oss.json \
  tests/data/tiny/gptj.json \
  tests/data/tiny/granite.json \
  tests/data/tiny/granitemoehybrid.json \
  tests/data/tiny/grok1.json \
  tests/data/tiny/hunyuan.json \
  tests/data/tiny/jamba.json \
  tests/data/tiny/kimi_k2.json \
  tests/data/tiny/kimi_linear.json \
  tests/data/tiny/kimi_k3.json \
  tests/data/tiny/llama.json \
  tests/data/tiny/llama4.json \
  tests/data/tiny/mamba.json \
  tests/data/tiny/mamba2.json \
  tests/data/tiny/mamba2_native.json \
  tests/data/tiny/mimo_v2.json \
  tests/data/tiny/minimax_m2.json \
  tests/data/tiny/minimax_m3.json \
  tests/data/tiny/minimax_text_01.json \
  tests/data/tiny/mistral.json \
  tests/data/tiny/mixtral.json \
  tests/data/tiny/nemotron3.json \
  tests/data/tiny/nemotron_h.json \
  tests/data/tiny/olmo.json \
  tests/data/tiny/olmo2.json \
  tests/data/tiny/olmoe.json \
  tests/data/tiny/opt.json \
  tests/data/tiny/phi3.json \
  tests/data/tiny/phi3_long.json \
  tests/data/tiny/phi4_mini.json \
  tests/data/tiny/phimoe.json \
  tests/data/tiny/qwen2.json \
  tests/data/tiny/qwen3.json \
  tests/data/tiny/qwen3_5.json \
  tests/data/tiny/qwen3_5_moe.json \
  tests/data/tiny/qwen3_moe.json \
  tests/data/tiny/qwen3_next.json \
  tests/data/tiny/starcoder2.json
if HAVE_CUNIT
check_PROGRAMS += tests/unit/test_families
TESTS += tests/unit/test_families
endif
tests_unit_test_families_SOURCES = tests/unit/test_families.c tests/unit/unit.h
tests_unit_test_families_LDADD = $(UNIT_LDADD) $(JANSSON_LIBS)
