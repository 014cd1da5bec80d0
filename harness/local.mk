nmbench_SOURCES = harness/main.c
nmbench_LDADD = libnmbench.la
