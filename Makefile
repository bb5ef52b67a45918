PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
export OMP_NUM_THREADS ?= 1

.PHONY: setup demo test clean

setup: $(VENV)/installed ## create .venv and install the package in it

demo: setup ## solve FrozenLake in context, compare, draw the learning curve
	$(BIN)/python -m mdpfn solve mdpfn/FrozenLake-v0 --episodes 100 --compare ucbvi q-learning --out demo

test: $(VENV)/installed-dev ## lint, types, import contracts, the whole test suite, documentation
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

clean: ## remove everything that was made here
	rm -rf $(VENV) demo site

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: $(BIN)/python pyproject.toml constraints.txt
	$(PIP) --editable .
	touch $@

$(VENV)/installed-dev: $(VENV)/installed
	$(PIP) --editable '.[dev]'
	touch $@
