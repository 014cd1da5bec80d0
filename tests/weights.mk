# Weight files: readers, values, text and logits of models.
if HAVE_CUNIT
check_PROGRAMS += tests/unit/test_wfile
TESTS += tests/unit/test_wfile
endif
tests_unit_test_wfile_SOURCES = tests/unit/test_wfile.c tests/unit/unit.h
tests_unit_test_wfile_LDADD = $(UNIT_LDADD) $(JANSSON_LIBS)
if HAVE_CUNIT
check_PROGRAMS += tests/unit/test_stories tests/unit/test_arith
TESTS += tests/unit/test_stories tests/unit/test_arith
endif
tests_unit_test_stories_SOURCES = tests/unit/test_stories.c tests/unit/unit.h
tests_unit_test_arith_SOURCES = tests/unit/test_arith.c tests/unit/unit.h tests/unit/opbench.h
tests_unit_test_arith_LDADD = $(UNIT_LDADD) -lm
tests_unit_test_stories_LDADD = $(UNIT_LDADD) -lm
EXTRA_DIST += tests/data/stories260k.txt
EXTRA_DIST += tests/data/blocks.json tests/data/blocks.py
dist_check_SCRIPTS += tests/cli/weights.sh tests/cli/stories.sh tests/cli/commands.sh
TESTS += tests/cli/commands.sh tests/cli/weights.sh tests/cli/stories.sh
EXTRA_DIST += tests/cli/weights.py
dist_check_SCRIPTS += tests/cli/archs.sh
TESTS += tests/cli/archs.sh
EXTRA_DIST += tests/cli/archs.py tests/cli/stored.py tests/cli/stored_layouts.py tests/cli/tokens.py tests/cli/tiny_gguf.py
EXTRA_DIST += tests/cli/tiny_hf.py
dist_check_SCRIPTS += tests/cli/hf_mixed.sh
TESTS += tests/cli/hf_mixed.sh
dist_check_SCRIPTS += tests/cli/hf_dense.sh
TESTS += tests/cli/hf_dense.sh
EXTRA_DIST += tests/cli/hf_dense.py tests/cli/hf_gpt.py tests/cli/hf_wrapped.py tests/cli/hf_gemma.py
EXTRA_DIST += tests/cli/hf_parts.py tests/cli/hf_moe.py tests/cli/hf_latent.py tests/cli/hf_state.py
