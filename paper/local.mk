# make paper: the article, with every number from results made in this build folder.
EXTRA_DIST += paper/nmbench.tex paper/refs.bib paper/numbers.sh
.PHONY: paper paper-numbers
paper/results/moe.h5: nmbench$(EXEEXT) $(plugin_LTLIBRARIES) experiments/moe.cfg
	@$(MKDIR_P) paper/results
	./nmbench run $(srcdir)/experiments/moe.cfg -o $@
	@touch $@
paper-numbers: paper/results/moe.h5
	./nmbench plot paper/results/moe.h5 -o paper/figures
	./nmbench validate --latex >paper/validation-table.tex || test $$? = 1
	./nmbench validate --plot paper/figures/validation.pdf >/dev/null || test $$? = 1
	sh $(srcdir)/paper/numbers.sh ./nmbench paper/results/moe.h5 paper/figures paper
paper: paper-numbers
	@if test -n "$(LATEXMK)"; then \
	  cp $(srcdir)/paper/nmbench.tex $(srcdir)/paper/refs.bib paper/ && \
	  cd paper && $(LATEXMK) -pdf -interaction=nonstopmode -halt-on-error nmbench.tex; \
	else \
	  echo "latexmk is not installed: paper/ holds the figures, numbers and tables, but no PDF"; \
	fi
paper-clean:
	rm -rf paper/results paper/figures paper/cells.csv paper/numbers.tex paper/*-table.tex
clean-local: paper-clean
.PHONY: paper-clean
