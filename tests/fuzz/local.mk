# Parsers under random damage; a fixed number of tries in make check.
check_PROGRAMS += tests/fuzz/fuzz_machine
TESTS += tests/fuzz/fuzz_machine
tests_fuzz_fuzz_machine_SOURCES = tests/fuzz/fuzz_machine.c
tests_fuzz_fuzz_machine_LDADD = libnmbench.la
