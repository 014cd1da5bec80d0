# Shell tests: one script a subject; tests/lib.sh has the helpers.
EXTRA_DIST += tests/lib.sh
if ASAN
ASAN_ENVIRONMENT = NMB_ASAN=yes; export NMB_ASAN; \
  LSAN_OPTIONS=suppressions=$(abs_srcdir)/tests/lsan.supp:print_suppressions=0; export LSAN_OPTIONS;
endif
EXTRA_DIST += tests/lsan.supp
AM_TESTS_ENVIRONMENT = $(ASAN_ENVIRONMENT) MAKE='$(MAKE)'; CC='$(CC)'; CXX='$(CXX)'; export MAKE CC CXX;
CLI_TESTS = tests/cli/usage.sh tests/cli/hostile.sh tests/cli/plugins.sh tests/cli/help.sh tests/cli/headers.sh \
  tests/cli/layers.sh tests/cli/install.sh tests/cli/compile.sh tests/cli/op.sh tests/cli/verify.sh \
  tests/cli/reads.sh tests/cli/orderings.sh
dist_check_SCRIPTS += $(CLI_TESTS)
TESTS += $(CLI_TESTS)
HARNESS_TESTS = tests/cli/run.sh tests/cli/memo.sh tests/cli/resume.sh tests/cli/failures.sh \
  tests/cli/experiment.sh tests/cli/output.sh tests/cli/hdf5.sh
dist_check_SCRIPTS += $(HARNESS_TESTS)
TESTS += $(HARNESS_TESTS)
EXTRA_DIST += tests/cli/sweep.sh tests/cli/hdf5.py
FIGURE_TESTS = tests/cli/reference.sh
dist_check_SCRIPTS += $(FIGURE_TESTS)
TESTS += $(FIGURE_TESTS)
MACHINE_TESTS = tests/cli/systolic.sh tests/cli/dram.sh tests/cli/validate.sh tests/cli/system.sh
MACHINE_TESTS += tests/cli/pages.sh
dist_check_SCRIPTS += $(MACHINE_TESTS)
TESTS += $(MACHINE_TESTS)
EXTRA_DIST += tests/cli/hostile.py
