# Everything of the harness but main, so that unit tests can link it.
noinst_LTLIBRARIES += libharness.la
libharness_la_SOURCES = harness/stats.c harness/stats.h harness/store.c harness/store.h
libharness_la_SOURCES += harness/figure.c harness/figure.h harness/figure_spec.c \
  harness/figure_data.c harness/figure_data.h harness/figure_draw.c harness/figure_draw.h \
  harness/figure_bars.c harness/figure_stacked.c harness/figure_points.c harness/figure_pareto.c harness/figure_front.c \
  harness/figure_waterfall.c harness/figure_kinds.h
libharness_la_SOURCES += harness/ledger.c harness/ledger.h
libharness_la_CPPFLAGS = $(AM_CPPFLAGS) $(HDF5_CFLAGS)
libharness_la_LIBADD = libnmbench.la $(HDF5_LIBS) $(GSL_LIBS) $(LIBCONFIG_LIBS) $(JANSSON_LIBS) $(XXHASH_LIBS) -lm
nmbench_SOURCES = harness/main.c
nmbench_LDADD = libharness.la libnmbench.la
# Symbols are bound before workers are forked, not in each of them.
nmbench_LDFLAGS = -Wl,-z,now
# The command line: a command is harness/cmd_NAME.c.
nmbench_SOURCES += harness/cmd.h harness/cli.c harness/help.c
nmbench_SOURCES += harness/cmd_list.c
nmbench_SOURCES += harness/cmd_show.c harness/page.c harness/page.h
nmbench_SOURCES += harness/cmd_plot.c
nmbench_LDADD += $(JANSSON_LIBS)
nmbench_SOURCES += harness/cmd_model.c
nmbench_SOURCES += harness/cmd_compile.c
nmbench_SOURCES += harness/cmd_sim.c
nmbench_SOURCES += harness/cmd_systolic.c harness/cmd_dram.c harness/cmd_validate.c
nmbench_SOURCES += harness/cmd_system.c
nmbench_SOURCES += harness/cmd_collective.c harness/cmd_macro.c
nmbench_SOURCES += harness/cmd_op.c harness/op.c harness/op.h harness/op_run.c harness/op_run.h \
  harness/op_plot.c harness/sim_trace.c harness/sim_trace.h
libharness_la_SOURCES += harness/grow.h harness/write.c harness/write.h
libharness_la_SOURCES += harness/conf.c harness/conf.h harness/experiment.c harness/experiment.h \
  harness/ablation.c harness/ablation.h harness/sweep.c harness/sweep.h \
  harness/journal.c harness/journal.h harness/worker.c harness/worker.h \
  harness/executor.c harness/executor.h harness/progress.c harness/progress.h \
  harness/metrics.c harness/metrics.h harness/collect.c harness/collect.h
nmbench_SOURCES += harness/setup.c harness/setup.h harness/cmd_plan.c harness/cmd_run.c \
  harness/cmd_status.c harness/cmd_compare.c harness/cmd_export.c
nmbench_SOURCES += harness/cmd_verify.c
nmbench_SOURCES += harness/cmd_logits.c harness/cmd_generate.c harness/cmd_perplexity.c
