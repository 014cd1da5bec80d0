# one plugin a file
plugin_LTLIBRARIES += plugins/mem-bump.la
plugins_mem_bump_la_SOURCES = passes/mem/mem-bump.c
plugins_mem_bump_la_LDFLAGS = $(PLUGIN_LDFLAGS)
plugins_mem_bump_la_LIBADD =
plugin_LTLIBRARIES += plugins/mem-firstfit.la
plugins_mem_firstfit_la_SOURCES = passes/mem/mem-firstfit.c
plugins_mem_firstfit_la_LDFLAGS = $(PLUGIN_LDFLAGS)
plugins_mem_firstfit_la_LIBADD =
plugin_LTLIBRARIES += plugins/mem-bestfit.la
plugins_mem_bestfit_la_SOURCES = passes/mem/mem-bestfit.c
plugins_mem_bestfit_la_LDFLAGS = $(PLUGIN_LDFLAGS)
plugins_mem_bestfit_la_LIBADD =
plugin_LTLIBRARIES += plugins/mem-greedy-size.la
plugins_mem_greedy_size_la_SOURCES = passes/mem/mem-greedy-size.c
plugins_mem_greedy_size_la_LDFLAGS = $(PLUGIN_LDFLAGS)
plugins_mem_greedy_size_la_LIBADD =
