libnmbench_la_SOURCES += ir/prog.c ir/prog.h ir/ops.c ir/hash.c ir/verify.c ir/verify.h \
  ir/verify_graph.c ir/attrs.c ir/attrs.h ir/attrs.def ir/verify_plan.c \
  ir/verify_mapping.c ir/verify_schedule.c ir/verify_memory.c ir/verify_code.c \
  ir/verify_code.h ir/verify_cover.h ir/verify_cover.c ir/verify_hazard.c ir/text.h ir/text_lex.h ir/text_lex.c \
  ir/text_print.c ir/text_parse.c
libnmbench_la_SOURCES += ir/plan.c
libnmbench_la_SOURCES += ir/pipeline.c ir/pipeline.h
libnmbench_la_SOURCES += ir/lower.h ir/lower.c ir/lower-layout.c ir/lower-step.c ir/lower-deps.c \
  ir/lower-buffers.c
libnmbench_la_SOURCES += ir/machine.c ir/machine.h ir/machine-set.c
libnmbench_la_SOURCES += ir/plan-mem.c ir/plan-sched.c
libnmbench_la_SOURCES += ir/lower-view.c ir/lower-move.c ir/lower-cost.c ir/census.c ir/census.h
libnmbench_la_SOURCES += ir/eval.h ir/eval.c ir/eval-op.h ir/eval-op.c ir/eval-product.c ir/eval-arith.c \
  ir/eval-attn.c ir/eval-moe.c ir/eval-rope.c ir/eval-state.c ir/eval-random.c ir/formats.h ir/floats.c ir/formats.c \
  ir/storage.def ir/storage.h ir/storage.c
libnmbench_la_SOURCES += ir/func.h ir/func.c ir/func-exec.h ir/func-exec.c ir/func-mem.h \
  ir/func-mem.c ir/func-order.h ir/func-order.c ir/values.h ir/values.c \
  ir/values-each.h ir/values-each.c ir/values-sim.c
