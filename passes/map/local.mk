# one plugin a file
plugin_LTLIBRARIES += plugins/map-rowmajor.la
plugins_map_rowmajor_la_SOURCES = passes/map/map-rowmajor.c
plugins_map_rowmajor_la_LDFLAGS = $(PLUGIN_LDFLAGS)
plugins_map_rowmajor_la_LIBADD =
plugin_LTLIBRARIES += plugins/map-interleave.la
plugins_map_interleave_la_SOURCES = passes/map/map-interleave.c
plugins_map_interleave_la_LDFLAGS = $(PLUGIN_LDFLAGS)
plugins_map_interleave_la_LIBADD =
plugin_LTLIBRARIES += plugins/map-search.la
plugins_map_search_la_SOURCES = passes/map/map-search.c
plugins_map_search_la_LDFLAGS = $(PLUGIN_LDFLAGS)
plugins_map_search_la_LIBADD =
