# Simulators and engine models: a file each.  Machines: data.
libnmbench_la_SOURCES += hwsim/sim.c hwsim/array.c hwsim/stream.c
libnmbench_la_SOURCES += hwsim/aim.c hwsim/aim-trace.c
include hwsim/dram/local.mk
libnmbench_la_SOURCES += hwsim/collective.c
plugin_LTLIBRARIES += plugins/roofline.la
plugins_roofline_la_SOURCES = hwsim/roofline.c
plugins_roofline_la_LDFLAGS = $(PLUGIN_LDFLAGS)
plugins_roofline_la_LIBADD = -lm
plugin_LTLIBRARIES += plugins/dram-pim.la
plugins_dram_pim_la_SOURCES = hwsim/dram-pim.c hwsim/pim.h hwsim/attacc.h hwsim/attacc-cost.c \
  hwsim/attacc-channel.c hwsim/attacc-kernel.c hwsim/neupims-cost.c
plugins_dram_pim_la_LDFLAGS = $(PLUGIN_LDFLAGS)
plugins_dram_pim_la_LIBADD = -lm
plugin_LTLIBRARIES += plugins/hbm-pim.la
plugins_hbm_pim_la_SOURCES = hwsim/hbm-pim.c
plugins_hbm_pim_la_LDFLAGS = $(PLUGIN_LDFLAGS)
plugins_hbm_pim_la_LIBADD = -lm
plugin_LTLIBRARIES += plugins/upmem-dpu.la
plugins_upmem_dpu_la_SOURCES = hwsim/upmem-dpu.c
plugins_upmem_dpu_la_LDFLAGS = $(PLUGIN_LDFLAGS)
plugins_upmem_dpu_la_LIBADD = -lm
plugin_LTLIBRARIES += plugins/systolic.la
plugins_systolic_la_SOURCES = hwsim/systolic.c
plugins_systolic_la_LDFLAGS = $(PLUGIN_LDFLAGS)
plugins_systolic_la_LIBADD = -lm
plugin_LTLIBRARIES += plugins/vector.la
plugins_vector_la_SOURCES = hwsim/vector.c
plugins_vector_la_LDFLAGS = $(PLUGIN_LDFLAGS)
plugins_vector_la_LIBADD = -lm
plugin_LTLIBRARIES += plugins/link.la
plugins_link_la_SOURCES = hwsim/link.c
plugins_link_la_LDFLAGS = $(PLUGIN_LDFLAGS)
plugins_link_la_LIBADD = -lm
plugin_LTLIBRARIES += plugins/bound.la
plugins_bound_la_SOURCES = hwsim/bound.c
plugins_bound_la_LDFLAGS = $(PLUGIN_LDFLAGS)
plugins_bound_la_LIBADD =
plugin_LTLIBRARIES += plugins/event.la
plugins_event_la_SOURCES = hwsim/event.c
plugins_event_la_LDFLAGS = $(PLUGIN_LDFLAGS)
plugins_event_la_LIBADD = -lm
machinesdir = $(pkgdatadir)/machines
dist_machines_DATA = \
  hwsim/machines/aim-gddr6.hw \
  hwsim/machines/aim-gddr6-x8.hw \
  hwsim/machines/aim-gddr6-x8+gb8k.hw \
  hwsim/machines/aim-gddr6-x32.hw \
  hwsim/machines/aim-gddr6-x96.hw \
  hwsim/machines/hbm3-attacc-x1.hw \
  hwsim/machines/hbm3-attacc.hw \
  hwsim/machines/hbm3-attacc-stack.hw \
  hwsim/machines/hbm3-attacc-stack+group.hw \
  hwsim/machines/hbm3-attacc-stack+buffer.hw \
  hwsim/machines/hbm2-pim.hw \
  hwsim/machines/upmem.hw \
  hwsim/machines/npu-hbm-pim.hw \
  hwsim/machines/npu-hbm-pim-x8.hw \
  hwsim/machines/npu-hbm-pim-x8+blocking.hw \
  hwsim/machines/gpu-a100.hw \
  hwsim/machines/gpu-a100+torch.hw \
  hwsim/machines/gpu-mi210.hw \
  hwsim/machines/gpu-a100-x2.hw \
  hwsim/machines/gpu-a100-x4.hw \
  hwsim/machines/gpu-a100-x8.hw \
  hwsim/machines/gpu-a100-x16.hw \
  hwsim/machines/gpu-h100.hw \
  hwsim/machines/gpu-h100-x2.hw \
  hwsim/machines/gpu-h100-x4.hw \
  hwsim/machines/gpu-h100-x8.hw \
  hwsim/machines/gpu-h100-x16.hw hwsim/machines/gpu-h100-x32.hw
validationdir = $(pkgdatadir)/validation
dist_validation_DATA = \
  hwsim/validation/systolic.csv hwsim/validation/dram.csv
dist_validation_DATA += hwsim/validation/attacc_system.csv
dist_validation_DATA += hwsim/validation/aim.csv hwsim/validation/attacc_kernels.csv \
  hwsim/validation/cent.csv
dist_validation_DATA += hwsim/validation/ianus.csv hwsim/validation/ibm3d.csv
dist_validation_DATA += hwsim/validation/llmcompass.csv
# Published systems by their own rules.
plugin_LTLIBRARIES += plugins/attacc-dgx.la
plugins_attacc_dgx_la_SOURCES = hwsim/system-attacc.c
plugins_attacc_dgx_la_LDFLAGS = $(PLUGIN_LDFLAGS)
plugins_attacc_dgx_la_LIBADD = -lm
plugin_LTLIBRARIES += plugins/ibm-3d-cim.la
plugins_ibm_3d_cim_la_SOURCES = hwsim/system-ibm3d.c
plugins_ibm_3d_cim_la_LDFLAGS = $(PLUGIN_LDFLAGS)
plugins_ibm_3d_cim_la_LIBADD = -lm
plugin_LTLIBRARIES += plugins/ianus.la
plugins_ianus_la_SOURCES = hwsim/system-ianus.c
plugins_ianus_la_LDFLAGS = $(PLUGIN_LDFLAGS)
plugins_ianus_la_LIBADD = -lm
plugin_LTLIBRARIES += plugins/cim.la
plugins_cim_la_SOURCES = hwsim/cim.c
plugins_cim_la_LDFLAGS = $(PLUGIN_LDFLAGS)
plugins_cim_la_LIBADD = -lm
dist_machines_DATA += hwsim/machines/cim-sinangil.hw hwsim/machines/cim-jia.hw \
  hwsim/machines/cim-wang.hw hwsim/machines/cim-colonnade.hw \
  hwsim/machines/cim-jia-x16.hw hwsim/machines/cim-jia-x16+adc3.hw \
  hwsim/machines/cim-jia-x16+adc4.hw hwsim/machines/cim-jia-x16+adc5.hw \
  hwsim/machines/cim-jia-x16+adc6.hw hwsim/machines/cim-jia-x16+adc7.hw \
  hwsim/machines/cim-jia-x16+ideal.hw hwsim/machines/cim-jia-x16+noise.hw \
  hwsim/machines/cim-jia-x16+noise2.hw hwsim/machines/cim-jia-x16+noise4.hw
dist_validation_DATA += hwsim/validation/cim.csv hwsim/validation/others.csv
plugin_LTLIBRARIES += plugins/functional.la
plugins_functional_la_SOURCES = hwsim/functional.c
plugins_functional_la_LDFLAGS = $(PLUGIN_LDFLAGS)
plugins_functional_la_LIBADD =
plugin_LTLIBRARIES += plugins/cent.la
plugins_cent_la_SOURCES = hwsim/system-cent.c hwsim/cent-block.c hwsim/cent.h
plugins_cent_la_LDFLAGS = $(PLUGIN_LDFLAGS)
plugins_cent_la_LIBADD = -lm
plugin_LTLIBRARIES += plugins/state-update.la
plugins_state_update_la_SOURCES = hwsim/pimba.c
plugins_state_update_la_LDFLAGS = $(PLUGIN_LDFLAGS)
plugins_state_update_la_LIBADD = -lm
dist_machines_DATA += hwsim/machines/gpu-a100-pimba.hw hwsim/machines/gpu-a100-pimba+hbm-pim.hw
dist_validation_DATA += hwsim/validation/pimba.csv
