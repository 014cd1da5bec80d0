# Documents for people.
dist_doc_DATA = README.md CHANGELOG.md docs/design.md docs/validation.md docs/pim.md docs/experiment.md docs/figures.md
dist_doc_DATA += docs/dram.md
dist_doc_DATA += docs/functional.md docs/models.md docs/machines.md
dist_doc_DATA += docs/weights.md
