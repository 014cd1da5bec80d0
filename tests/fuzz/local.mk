# Parsers under random damage; a fixed number of tries in make check.
check_PROGRAMS += tests/fuzz/fuzz_machine
TESTS += tests/fuzz/fuzz_machine
tests_fuzz_fuzz_machine_SOURCES = tests/fuzz/fuzz_machine.c tests/fuzz/libconfig-leak.h
tests_fuzz_fuzz_machine_LDADD = libnmbench.la
check_PROGRAMS += tests/fuzz/fuzz_text
TESTS += tests/fuzz/fuzz_text
tests_fuzz_fuzz_text_SOURCES = tests/fuzz/fuzz_text.c tests/unit/fixture.h
tests_fuzz_fuzz_text_LDADD = libnmbench.la
# Each target runs for about two seconds by itself; a fuzzer may call its
# LLVMFuzzerTestOneInput instead.
check_PROGRAMS += tests/fuzz/fuzz_config
TESTS += tests/fuzz/fuzz_config
tests_fuzz_fuzz_config_SOURCES = tests/fuzz/fuzz_config.c
tests_fuzz_fuzz_config_LDADD = libnmbench.la $(JANSSON_LIBS)
check_PROGRAMS += tests/fuzz/fuzz_aim
TESTS += tests/fuzz/fuzz_aim
tests_fuzz_fuzz_aim_SOURCES = tests/fuzz/fuzz_aim.c
tests_fuzz_fuzz_aim_LDADD = libnmbench.la
check_PROGRAMS += tests/fuzz/fuzz_dram
TESTS += tests/fuzz/fuzz_dram
tests_fuzz_fuzz_dram_SOURCES = tests/fuzz/fuzz_dram.c tests/fuzz/libconfig-leak.h
tests_fuzz_fuzz_dram_LDADD = libnmbench.la
