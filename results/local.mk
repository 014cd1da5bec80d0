EXTRA_DIST += results/README.md results/moe-small.h5
