EXTRA_DIST += docs/experiment.md
