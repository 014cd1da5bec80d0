# one plugin a file
plugin_LTLIBRARIES += plugins/sched-inorder.la
plugins_sched_inorder_la_SOURCES = passes/sched/sched-inorder.c
plugins_sched_inorder_la_LDFLAGS = $(PLUGIN_LDFLAGS)
plugins_sched_inorder_la_LIBADD =
plugin_LTLIBRARIES += plugins/sched-list.la
plugins_sched_list_la_SOURCES = passes/sched/sched-list.c
plugins_sched_list_la_LDFLAGS = $(PLUGIN_LDFLAGS)
plugins_sched_list_la_LIBADD =
plugin_LTLIBRARIES += plugins/sched-overlap.la
plugins_sched_overlap_la_SOURCES = passes/sched/sched-overlap.c
plugins_sched_overlap_la_LDFLAGS = $(PLUGIN_LDFLAGS)
plugins_sched_overlap_la_LIBADD =
