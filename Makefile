PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
export OMP_NUM_THREADS ?= 1

.PHONY: setup demo test browser clean

setup: $(VENV)/installed ## create .venv and install the package in it

demo: setup ## learn FrozenLake, CliffWalking and Taxi beside baselines, draw what is earned and learned
	$(BIN)/python -m mdpfn demo --out demo/learning.png

test: $(VENV)/installed-dev browser ## lint, types, import contracts, the whole test suite, documentation
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

browser: ## Debian's Chromium, in which the page is tested: installed where that is possible
	@command -v chromium chromium-browser google-chrome >/dev/null || apt-get install -qq -y chromium >/dev/null 2>&1 \
		|| echo "No Chromium, and it cannot be installed here: the tests of the page will be skipped."

clean: ## remove everything that was made here
	rm -rf $(VENV) demo site

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: $(BIN)/python pyproject.toml constraints.txt
	$(PIP) --editable '.[plot,play]'
	touch $@

$(VENV)/installed-dev: $(VENV)/installed
	$(PIP) --editable '.[dev]'
	touch $@
