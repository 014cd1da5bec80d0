nmbench_SOURCES = harness/main.c harness/stats.c harness/stats.h
nmbench_LDADD = libnmbench.la $(GSL_LIBS)
