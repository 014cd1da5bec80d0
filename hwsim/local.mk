# Simulators and engine models: a file each.  Machines: data.
libnmbench_la_SOURCES += hwsim/sim.c
plugin_LTLIBRARIES += plugins/roofline.la
plugins_roofline_la_SOURCES = hwsim/roofline.c
plugins_roofline_la_LDFLAGS = $(PLUGIN_LDFLAGS)
plugins_roofline_la_LIBADD = libnmbench.la
plugin_LTLIBRARIES += plugins/bound.la
plugins_bound_la_SOURCES = hwsim/bound.c
plugins_bound_la_LDFLAGS = $(PLUGIN_LDFLAGS)
plugins_bound_la_LIBADD = libnmbench.la
plugin_LTLIBRARIES += plugins/event.la
plugins_event_la_SOURCES = hwsim/event.c
plugins_event_la_LDFLAGS = $(PLUGIN_LDFLAGS)
plugins_event_la_LIBADD = libnmbench.la -lm
machinesdir = $(pkgdatadir)/machines
dist_machines_DATA = hwsim/machines/gpu-a100.hw
