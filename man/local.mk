# Man page and bash completion come from the program's own table of commands.
man1_MANS = man/nmbench.1
# The description of experiment files is the page of docs/ in another form.
man5_MANS = man/nmbench-experiment.5
EXTRA_DIST += man/page.awk
bashcompletiondir = $(datadir)/bash-completion/completions
bashcompletion_DATA = man/completion/nmbench
CLEANFILES += $(man1_MANS) $(man5_MANS) $(bashcompletion_DATA)

man/nmbench.1: nmbench$(EXEEXT)
	$(AM_V_GEN)$(MKDIR_P) man && ./nmbench$(EXEEXT) --man >$@.tmp && mv $@.tmp $@
man/completion/nmbench: nmbench$(EXEEXT)
	$(AM_V_GEN)$(MKDIR_P) man/completion && ./nmbench$(EXEEXT) --completion >$@.tmp && mv $@.tmp $@
man/nmbench-experiment.5: $(srcdir)/docs/experiment.md $(srcdir)/man/page.awk
	$(AM_V_GEN)$(MKDIR_P) man && $(AWK) -v name=nmbench-experiment -v section=5 \
	  -v version=$(VERSION) -f $(srcdir)/man/page.awk $(srcdir)/docs/experiment.md >$@.tmp && mv $@.tmp $@
