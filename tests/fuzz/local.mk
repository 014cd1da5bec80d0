# Parsers under random damage.  In make check each target runs for some seconds by itself,
# the same way each time.  Configured with --enable-fuzzer CC=clang, libFuzzer has the main
# program, and `make fuzz FUZZ_SECONDS=600` runs the readers of files one after another;
# what it keeps and what it finds is in tests/fuzz/corpus of the build folder.  Not among
# them: fuzz_machine and fuzz_dram, which damage machine files by loops of their own.
if FUZZER
FUZZ_CPPFLAGS = -Dmain=nmb_fuzz_alone
FUZZ_CFLAGS = -Wno-missing-prototypes -fsanitize=fuzzer
endif
check_PROGRAMS += tests/fuzz/fuzz_machine
TESTS += tests/fuzz/fuzz_machine
tests_fuzz_fuzz_machine_SOURCES = tests/fuzz/fuzz_machine.c tests/fuzz/libconfig-leak.h
tests_fuzz_fuzz_machine_LDADD = libnmbench.la
check_PROGRAMS += tests/fuzz/fuzz_text
TESTS += tests/fuzz/fuzz_text
tests_fuzz_fuzz_text_SOURCES = tests/fuzz/fuzz_text.c tests/unit/fixture.h
tests_fuzz_fuzz_text_CPPFLAGS = $(AM_CPPFLAGS) $(FUZZ_CPPFLAGS)
tests_fuzz_fuzz_text_CFLAGS = $(AM_CFLAGS) $(FUZZ_CFLAGS)
tests_fuzz_fuzz_text_LDADD = libnmbench.la
check_PROGRAMS += tests/fuzz/fuzz_config
TESTS += tests/fuzz/fuzz_config
tests_fuzz_fuzz_config_SOURCES = tests/fuzz/fuzz_config.c
tests_fuzz_fuzz_config_CPPFLAGS = $(AM_CPPFLAGS) $(FUZZ_CPPFLAGS)
tests_fuzz_fuzz_config_CFLAGS = $(AM_CFLAGS) $(FUZZ_CFLAGS)
tests_fuzz_fuzz_config_LDADD = libnmbench.la $(JANSSON_LIBS)
check_PROGRAMS += tests/fuzz/fuzz_aim
TESTS += tests/fuzz/fuzz_aim
tests_fuzz_fuzz_aim_SOURCES = tests/fuzz/fuzz_aim.c
tests_fuzz_fuzz_aim_CPPFLAGS = $(AM_CPPFLAGS) $(FUZZ_CPPFLAGS)
tests_fuzz_fuzz_aim_CFLAGS = $(AM_CFLAGS) $(FUZZ_CFLAGS)
tests_fuzz_fuzz_aim_LDADD = libnmbench.la
check_PROGRAMS += tests/fuzz/fuzz_dram
TESTS += tests/fuzz/fuzz_dram
tests_fuzz_fuzz_dram_SOURCES = tests/fuzz/fuzz_dram.c tests/fuzz/libconfig-leak.h
tests_fuzz_fuzz_dram_LDADD = libnmbench.la
# Readers of weight files and vocabularies, a target for each format.
EXTRA_DIST += tests/fuzz/fuzz.h tests/fuzz/model.h
WEIGHT_FUZZ = tests/fuzz/fuzz_gguf tests/fuzz/fuzz_safetensors tests/fuzz/fuzz_index \
  tests/fuzz/fuzz_llama2 tests/fuzz/fuzz_rwkv tests/fuzz/fuzz_tokens
FUZZ_TARGETS = $(WEIGHT_FUZZ) tests/fuzz/fuzz_config tests/fuzz/fuzz_text \
  tests/fuzz/fuzz_aim
check_PROGRAMS += $(WEIGHT_FUZZ)
TESTS += $(WEIGHT_FUZZ)
tests_fuzz_fuzz_gguf_SOURCES = tests/fuzz/fuzz_gguf.c
tests_fuzz_fuzz_gguf_CPPFLAGS = $(AM_CPPFLAGS) $(FUZZ_CPPFLAGS)
tests_fuzz_fuzz_gguf_CFLAGS = $(AM_CFLAGS) $(FUZZ_CFLAGS)
tests_fuzz_fuzz_gguf_LDADD = libnmbench.la
tests_fuzz_fuzz_safetensors_SOURCES = tests/fuzz/fuzz_safetensors.c
tests_fuzz_fuzz_safetensors_CPPFLAGS = $(AM_CPPFLAGS) $(FUZZ_CPPFLAGS)
tests_fuzz_fuzz_safetensors_CFLAGS = $(AM_CFLAGS) $(FUZZ_CFLAGS)
tests_fuzz_fuzz_safetensors_LDADD = libnmbench.la
tests_fuzz_fuzz_index_SOURCES = tests/fuzz/fuzz_index.c
tests_fuzz_fuzz_index_CPPFLAGS = $(AM_CPPFLAGS) $(FUZZ_CPPFLAGS)
tests_fuzz_fuzz_index_CFLAGS = $(AM_CFLAGS) $(FUZZ_CFLAGS)
tests_fuzz_fuzz_index_LDADD = libnmbench.la
tests_fuzz_fuzz_llama2_SOURCES = tests/fuzz/fuzz_llama2.c
tests_fuzz_fuzz_llama2_CPPFLAGS = $(AM_CPPFLAGS) $(FUZZ_CPPFLAGS)
tests_fuzz_fuzz_llama2_CFLAGS = $(AM_CFLAGS) $(FUZZ_CFLAGS)
tests_fuzz_fuzz_llama2_LDADD = libnmbench.la
tests_fuzz_fuzz_rwkv_SOURCES = tests/fuzz/fuzz_rwkv.c
tests_fuzz_fuzz_rwkv_CPPFLAGS = $(AM_CPPFLAGS) $(FUZZ_CPPFLAGS)
tests_fuzz_fuzz_rwkv_CFLAGS = $(AM_CFLAGS) $(FUZZ_CFLAGS)
tests_fuzz_fuzz_rwkv_LDADD = libnmbench.la
tests_fuzz_fuzz_tokens_SOURCES = tests/fuzz/fuzz_tokens.c
tests_fuzz_fuzz_tokens_CPPFLAGS = $(AM_CPPFLAGS) $(FUZZ_CPPFLAGS)
tests_fuzz_fuzz_tokens_CFLAGS = $(AM_CFLAGS) $(FUZZ_CFLAGS)
tests_fuzz_fuzz_tokens_LDADD = libnmbench.la
FUZZ_SECONDS = 60
fuzz: $(FUZZ_TARGETS)
	@for t in $(FUZZ_TARGETS); do \
	  c=tests/fuzz/corpus/$${t##*/}; mkdir -p $$c; echo "$$t, $(FUZZ_SECONDS) s"; \
	  NMB_FUZZ_SEEDS=$$c LSAN_OPTIONS=suppressions=$(abs_srcdir)/tests/lsan.supp:print_suppressions=0 \
	    ./$$t -max_total_time=$(FUZZ_SECONDS) -timeout=10 -rss_limit_mb=2048 -max_len=65536 \
	    -artifact_prefix=$$c- -print_final_stats=1 -verbosity=1 $$c >$$c.log 2>&1 || { tail -n 40 $$c.log; exit 1; }; \
	  grep -E 'number_of_executed_units|peak_rss' $$c.log; \
	done
clean-local: fuzz-clean
fuzz-clean:
	rm -rf tests/fuzz/corpus
.PHONY: fuzz fuzz-clean
