# `make demo` and `make test` each set up what they need in $(VENV), then run.
# Another interpreter: `make test PYTHON=python3.12`. Some tests: `make test PYTEST_ARGS="-k spectral"`.
PYTHON ?= python3
VENV ?= .venv
PYTEST_ARGS ?= -n auto --maxprocesses 4 --dist loadgroup
DEMO_ARGS ?=
ROBUST_ARGS ?= --jobs 2

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help demo test robust docs lint format clean

help:
	@echo "make demo    invert features of a real ImageNet network and write an HTML report"
	@echo "make test    lint, type check and test"
	@echo "make robust  kills, damaged and hostile files, malformed calls, derivatives: a table in docs/results/robustness"
	@echo "make docs    build the documentation site into docs/_build/html, offline"
	@echo "make lint    lint and type check only"
	@echo "make format  rewrite the sources in the house format"
	@echo "make clean   remove $(VENV) and caches"

demo: $(VENV)/.installed-demo
	$(BIN)/sgfi demo $(DEMO_ARGS)

test: lint
	$(BIN)/python -m pytest $(PYTEST_ARGS)

robust: $(VENV)/.installed-test
	OMP_NUM_THREADS=1 $(BIN)/python -m robustness.run $(ROBUST_ARGS)

docs: $(VENV)/.installed-docs
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html

lint: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.installed-test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf "$(VENV)" .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamps are written last, so an interrupted installation is taken up again.
$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 10) or sys.exit("sgfi needs Python 3.10 or newer, got %d.%d. Name another: make PYTHON=python3.12" % sys.version_info[:2])'
	$(PYTHON) -m venv "$(VENV)"
	@touch $@

$(VENV)/.installed-demo: pyproject.toml | $(VENV)/.made
	$(PIP) install -e ".[demo]"
	@touch $@

$(VENV)/.installed-test: pyproject.toml | $(VENV)/.made
	$(PIP) install -e ".[test,dev]"
	@touch $@

$(VENV)/.installed-docs: pyproject.toml | $(VENV)/.made
	$(PIP) install -e ".[demo,language,docs]"
	@touch $@
