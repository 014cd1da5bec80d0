# make bench: how fast nmbench itself is.
EXTRA_DIST += bench/bench.sh
bench: all bench/dram-steps$(EXEEXT) bench/weights$(EXEEXT)
	@$(SHELL) $(srcdir)/bench/bench.sh ./nmbench$(EXEEXT) $(srcdir)
.PHONY: bench
# DRAM commands a second; not built by default
EXTRA_PROGRAMS = bench/dram-steps bench/weights
bench_weights_SOURCES = bench/weights.c
bench_dram_steps_SOURCES = bench/dram-steps.c
bench_dram_steps_LDADD = libnmbench.la
CLEANFILES += bench/dram-steps$(EXEEXT) bench/weights$(EXEEXT)
