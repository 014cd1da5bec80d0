# Every plugin on small programs and all machines.
if HAVE_CUNIT
check_PROGRAMS += tests/conformance/conformance
TESTS += tests/conformance/conformance
endif
tests_conformance_conformance_SOURCES = tests/conformance/conformance.c tests/unit/unit.h
tests_conformance_conformance_CPPFLAGS = $(AM_CPPFLAGS) -DTEST_DATA='"$(abs_top_srcdir)/tests/data"'
tests_conformance_conformance_LDADD = $(UNIT_LDADD)
EXTRA_DIST += tests/data/tiny-llama.json tests/data/tiny-moe.json tests/data/tiny-mla.json \
  tests/data/tiny-mla-dense.json tests/data/tiny-mla-routed.json
