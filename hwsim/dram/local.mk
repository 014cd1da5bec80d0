# DRAM kinds (data) and channels.
libnmbench_la_SOURCES += hwsim/dram/dram.h hwsim/dram/expr.c hwsim/dram/kind.c hwsim/dram/kind.h hwsim/dram/kind-commands.c \
  hwsim/dram/kinds.c hwsim/dram/compile.c hwsim/dram/channel.c \
  hwsim/dram/control.h hwsim/dram/control.c hwsim/dram/split.c hwsim/dram/workload.c \
  hwsim/dram/trace.c
dramdir = $(pkgdatadir)/dram
dist_dram_DATA = hwsim/dram/ddr4.dram hwsim/dram/ddr5.dram hwsim/dram/lpddr5.dram \
  hwsim/dram/gddr6.dram hwsim/dram/hbm2.dram hwsim/dram/hbm3.dram \
  hwsim/dram/gddr6-aim.dram hwsim/dram/hbm3-attacc.dram \
  hwsim/dram/hbm2-pim.dram hwsim/dram/hbm2-neupims.dram hwsim/dram/hbm2e-pimba.dram
