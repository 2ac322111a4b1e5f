# Everything happens in a virtual environment inside the checkout; Python and make are all it takes.
PYTHON ?= python3

VENV := .venv
BIN := $(VENV)/bin
CREATED := $(VENV)/.created
PLAIN := $(VENV)/.installed
BENCH := $(VENV)/.installed-bench
DEV := $(VENV)/.installed-dev
# Quiet twice: errors are shown, the rest is not.
INSTALL := $(BIN)/python -m pip install -qq --disable-pip-version-check
# What an editable install has recorded, and so must be made again after a change.
RECORDED := pyproject.toml src/fgrn/_version.py

# Settings of the calling shell that would bring other code into the environment.
unexport PYTHONPATH PYTHONHOME

.DEFAULT_GOAL := help
.PHONY: help venv test web demo bench docs outputs lint wheel check clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-7s  %s\n", $$1, $$2}' Makefile

venv: $(DEV) ## .venv with the package (editable) and all tools

test: $(DEV) ## the tests, on all processors; PYTEST_ARGS="-k name" is handed on to pytest ("-n 0": on one)
	@$(BIN)/python -m pytest -n auto --dist worksteal $(PYTEST_ARGS)

web: ## the script of pages, from web/ into src/fgrn/page (needs node and npm); BUILT=FOLDER to put it elsewhere
	@npm ci --prefix web --silent --no-audit --no-fund
	@npm run --prefix web --silent check
	@npm run --prefix web --silent build -- $(abspath $(or $(BUILT),src/fgrn/page))

demo: $(PLAIN) ## the demonstration
	@$(BIN)/fgrn demo $(DEMO_ARGS)

bench: $(BENCH) ## speed beside other programs (15 minutes; BENCH_ARGS=--quick to see that it runs)
	@$(BIN)/python -m benchmarks $(BENCH_ARGS)

docs: $(DEV) ## the documentation, as pages in build/docs; what has not changed is kept; warnings are errors
	@$(BIN)/python -m sphinx -W --keep-going -j auto -d build/doctrees docs build/docs
	@echo "build/docs/index.html"

outputs: $(DEV) ## run the code of the documentation, and write what it prints into the pages
	@$(BIN)/python docs/outputs.py

lint: $(DEV) ## style, format and types; changes nothing
	@$(BIN)/python -m ruff check --quiet .
	@$(BIN)/python -m ruff format --quiet --check .
	@$(BIN)/python -m mypy

wheel: $(DEV) ## dist/ with a fresh sdist and wheel
	@rm -rf dist
	@$(BIN)/python -m build -qq
	@ls dist/*

check: ## all that continuous integration does
	@.ci/run

clean: ## remove the environment, caches and built files
	@rm -rf $(VENV) build dist docs/_pictures .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(CREATED):
	@command -v "$(PYTHON)" >/dev/null || { \
	  echo "fgrn needs Python 3.11 or newer, and '$(PYTHON)' is not on this machine." >&2; \
	  echo "Install it, or name another one: make PYTHON=python3.12 ..." >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "fgrn needs Python 3.11 or newer, and '$(PYTHON)' is $$("$(PYTHON)" --version 2>&1)." >&2; \
	  echo "Install it, or name another one: make PYTHON=python3.12 ..." >&2; exit 1; }
	@"$(PYTHON)" -m venv --clear $(VENV)
	@touch $@

$(PLAIN): $(RECORDED) | $(CREATED)
	@echo "Installing fgrn into $(VENV) (once)"
	@$(INSTALL) --editable .
	@touch $@

$(BENCH): $(RECORDED) | $(CREATED)
	@echo "Installing fgrn and the programs it is compared with into $(VENV) (once; PyTorch is large)"
	@$(INSTALL) --editable '.[bench]'
	@touch $@

$(DEV): $(RECORDED) | $(CREATED)
	@echo "Installing fgrn and the development tools into $(VENV) (once)"
	@$(INSTALL) --editable '.[dev]'
	@touch $(PLAIN) $@
