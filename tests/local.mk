include tests/unit/local.mk
