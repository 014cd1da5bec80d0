libnmbench_la_SOURCES += base/run.c base/run.h
