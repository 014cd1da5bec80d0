plugin_LTLIBRARIES += plugins/fuse-none.la
plugins_fuse_none_la_SOURCES = passes/fuse/fuse-none.c
plugins_fuse_none_la_LDFLAGS = $(PLUGIN_LDFLAGS)
plugins_fuse_none_la_LIBADD = libnmbench.la
plugin_LTLIBRARIES += plugins/fuse-epilogue.la
plugins_fuse_epilogue_la_SOURCES = passes/fuse/fuse-epilogue.c
plugins_fuse_epilogue_la_LDFLAGS = $(PLUGIN_LDFLAGS)
plugins_fuse_epilogue_la_LIBADD = libnmbench.la
