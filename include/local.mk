nmbinclude_HEADERS += include/nmbench/nmb_base.h include/nmbench/nmb_ir.h \
  include/nmbench/nmb_hw.h include/nmbench/nmb_lower.h include/nmbench/nmb_plan.h include/nmbench/nmb_plugin.h \
  include/nmbench/nmb_sim.h include/nmbench/nmb_aim.h include/nmbench/nmb_array.h include/nmbench/nmb_stream.h include/nmbench/nmb_dram.h \
  include/nmbench/nmb_collective.h \
  include/nmbench/ops.def include/nmbench/dtypes.def
