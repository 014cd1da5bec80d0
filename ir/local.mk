libnmbench_la_SOURCES += ir/prog.c ir/prog.h ir/ops.c
