libnmbench_la_SOURCES += base/run.c base/run.h base/hash.c base/hash.h base/near.c base/near.h \
  base/units.c base/units.h base/units.def base/labels.def base/options.c base/options.h \
  base/path.c base/path.h base/memo.c base/memo.h base/plugin.c base/plugin.h
libnmbench_la_SOURCES += base/map.c base/map.h
