include tests/unit/local.mk
include tests/plugins/local.mk
include tests/cli/local.mk
include tests/conformance/local.mk
include tests/values/local.mk
include tests/fuzz/local.mk
include tests/golden/local.mk
include tests/weights.mk
