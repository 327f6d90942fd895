# Everything here works from a clean clone on a machine with Python >= 3.11.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
export LANCE_LOG ?= error

.DEFAULT_GOAL := help
.PHONY: help demo test check integration bench soak mutants clean

help: ## Show what can be made
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "lance-catalog needs Python 3.11 or newer; set PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

demo: $(VENV)/.installed ## A tour on a local catalog: two minutes, no server (DIR=... keeps it)
	$(BIN)/python examples/demo.py $(DIR)

test: $(VENV)/.installed ## Unit, behaviour, interop, race and crash tests: PyPI only
	$(BIN)/python -m pytest -q -n 2 --dist loadgroup -m "not integration and not soak" tests

check: $(VENV)/.installed ## Lint, types, layers, the conformance map
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q tests/unit/test_conformance.py

integration: $(VENV)/.installed ## On real object stores (MinIO, Azurite), a Spark cluster and Spark Connect
	$(BIN)/python -m tests.servers fetch
	$(BIN)/python -m tests.integration

bench: $(VENV)/.installed ## Ours beside native in one run, two minutes (FULL=1: all; ONLY=latency,...)
	$(BIN)/python -m benchmarks $(if $(FULL),--full) $(if $(ONLY),--only $(ONLY))

soak: $(VENV)/.installed ## The full figures of the issues; hours
	$(BIN)/python -m pytest -q -m soak tests

mutants: $(VENV)/.installed ## One-line breaks that the tests must catch
	$(BIN)/python -m tests.mutants

clean: ## Remove what was built here
	rm -rf $(VENV) .mypy_cache .ruff_cache .import_linter_cache .hypothesis build dist
