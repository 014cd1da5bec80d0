# Shell tests: one script a subject; tests/lib.sh has the helpers.
EXTRA_DIST += tests/lib.sh
AM_TESTS_ENVIRONMENT = MAKE='$(MAKE)'; CC='$(CC)'; CXX='$(CXX)'; export MAKE CC CXX;
CLI_TESTS = tests/cli/usage.sh tests/cli/plugins.sh tests/cli/help.sh tests/cli/headers.sh \
  tests/cli/layers.sh tests/cli/install.sh
dist_check_SCRIPTS += $(CLI_TESTS)
TESTS += $(CLI_TESTS)
