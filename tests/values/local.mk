# Values: every family through every kind of pass, executed.
check_PROGRAMS += tests/values/values
TESTS += tests/values/values
tests_values_values_SOURCES = tests/values/values.c
tests_values_values_CPPFLAGS = $(AM_CPPFLAGS) -DTEST_DATA='"$(abs_top_srcdir)/tests/data"'
tests_values_values_LDADD = libnmbench.la -lm
# Each tiny model on each machine with all pipelines: some hours.
check-values: all tests/values/values$(EXEEXT)
	./tests/values/values$(EXEEXT) --full
.PHONY: check-values
check_PROGRAMS += tests/values/mutants
TESTS += tests/values/mutants
tests_values_mutants_SOURCES = tests/values/mutants.c
tests_values_mutants_CPPFLAGS = $(AM_CPPFLAGS) -DTEST_DATA='"$(abs_top_srcdir)/tests/data"'
tests_values_mutants_LDADD = libnmbench.la -lm
