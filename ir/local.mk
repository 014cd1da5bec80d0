libnmbench_la_SOURCES += ir/prog.c ir/prog.h ir/ops.c ir/hash.c ir/verify.c ir/verify.h \
  ir/verify_graph.c
libnmbench_la_SOURCES += ir/plan.c
libnmbench_la_SOURCES += ir/pipeline.c ir/pipeline.h
