# Man page and bash completion come from the program's own table of commands.
man1_MANS = man/nmbench.1
bashcompletiondir = $(datadir)/bash-completion/completions
bashcompletion_DATA = man/completion/nmbench
CLEANFILES += $(man1_MANS) $(bashcompletion_DATA)

man/nmbench.1: nmbench$(EXEEXT)
	$(AM_V_GEN)$(MKDIR_P) man && ./nmbench$(EXEEXT) --man >$@.tmp && mv $@.tmp $@
man/completion/nmbench: nmbench$(EXEEXT)
	$(AM_V_GEN)$(MKDIR_P) man/completion && ./nmbench$(EXEEXT) --completion >$@.tmp && mv $@.tmp $@
