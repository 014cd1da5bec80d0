# make bench: how fast nmbench itself is.
EXTRA_DIST += bench/bench.sh
bench: all
	@$(SHELL) $(srcdir)/bench/bench.sh ./nmbench$(EXEEXT) $(srcdir)
.PHONY: bench
