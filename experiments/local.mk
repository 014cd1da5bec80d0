experimentsdir = $(pkgdatadir)/experiments
dist_experiments_DATA = experiments/moe.cfg experiments/moe-small.cfg experiments/formats.cfg experiments/dense.cfg \
  experiments/buffer.cfg
