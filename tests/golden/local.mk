# Texts with what must come out of them; golden --bless rewrites that for review.
check_PROGRAMS += tests/golden/golden
TESTS += tests/golden/golden.sh
dist_check_SCRIPTS += tests/golden/golden.sh
tests_golden_golden_SOURCES = tests/golden/golden.c tests/unit/fixture.h
tests_golden_golden_LDADD = libnmbench.la
EXTRA_DIST += tests/golden/canonical.nmb tests/golden/chain.nmb tests/golden/engine.nmb \
  tests/golden/fuse.nmb tests/golden/machine.nmb tests/golden/misspelt.nmb \
  tests/golden/section.nmb tests/golden/sections.nmb
