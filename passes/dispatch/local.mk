# one plugin a file
plugin_LTLIBRARIES += plugins/dispatch-host.la
plugins_dispatch_host_la_SOURCES = passes/dispatch/dispatch-host.c
plugins_dispatch_host_la_LDFLAGS = $(PLUGIN_LDFLAGS)
plugins_dispatch_host_la_LIBADD =
plugin_LTLIBRARIES += plugins/dispatch-rule.la
plugins_dispatch_rule_la_SOURCES = passes/dispatch/dispatch-rule.c
plugins_dispatch_rule_la_LDFLAGS = $(PLUGIN_LDFLAGS)
plugins_dispatch_rule_la_LIBADD =
plugin_LTLIBRARIES += plugins/dispatch-cost.la
plugins_dispatch_cost_la_SOURCES = passes/dispatch/dispatch-cost.c
plugins_dispatch_cost_la_LDFLAGS = $(PLUGIN_LDFLAGS)
plugins_dispatch_cost_la_LIBADD =
