include passes/rewrite/local.mk
include passes/fuse/local.mk
include passes/dispatch/local.mk
include passes/map/local.mk
include passes/sched/local.mk
include passes/mem/local.mk
include passes/emit/local.mk
