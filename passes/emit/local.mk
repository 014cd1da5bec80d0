# one plugin a file
plugin_LTLIBRARIES += plugins/emit-queues.la
plugins_emit_queues_la_SOURCES = passes/emit/emit-queues.c
plugins_emit_queues_la_LDFLAGS = $(PLUGIN_LDFLAGS)
plugins_emit_queues_la_LIBADD =
