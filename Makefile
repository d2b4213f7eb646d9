# Everything from a fresh clone: `make run` and `make test` need only Python 3.11 or newer and make.

CONFIG ?= configs/torus.toml
ARGS   ?=
VENV   := .venv
BIN    := $(VENV)/bin
UV     ?= uv
LOCK   := $(UV) pip compile --quiet --universal --upgrade --generate-hashes --python-version 3.11 \
	--no-emit-index-url --no-header
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check

# Processes of the tests and the site find compiled modules.
unexport PYTHONDONTWRITEBYTECODE

# The first of these interpreters that runs and is new enough; set PYTHON to choose another.
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for p in python3.11 python3; do $$p -c '$(NEW_ENOUGH)' 2>/dev/null && echo $$p && break; done)

INSTALLED := $(VENV)/.installed
DEVELOPED := $(VENV)/.developed
COMPILED  := $(VENV)/.compiled
SITE      := $(VENV)/.site

# Additional packages of `make docs`.
SITE_NEEDS := furo myst-nb numpydoc sphinx sphinx-copybutton sphinx-design

# Additional packages of the study of modelling layers: one HiGHS for all layers.
LAYERS_NEED := highsbox==1.15.1 highspy==1.15.1 linopy pyoptinterface

.DEFAULT_GOAL := help
.PHONY: help setup kernels mpi run test lint bench layers docs lock vega clean

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "make %-7s %s\n", $$1, $$2}'

setup: $(DEVELOPED) ## create .venv from the locked requirements, including those of the tests
	@:

kernels: $(COMPILED) ## compile all kernels now, instead of when a command first needs them
	@:

mpi: $(INSTALLED) ## install mpi4py for tutti exec --transport mpi; an MPI must be installed
	@$(PIP) --require-hashes --only-binary :all: -r requirements-mpi.txt

run: $(INSTALLED) ## run the experiment CONFIG=configs/torus.toml (more options in ARGS)
	@$(BIN)/python experiments/run.py $(CONFIG) $(ARGS)

test: $(DEVELOPED) $(COMPILED) ## run the tests and the examples in docstrings
	@$(BIN)/python -m pytest -q -n 2 --dist worksteal $(ARGS)

lint: $(DEVELOPED) ## check style, format, types, the direction of imports and the size of the code
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check . || { $(BIN)/ruff format --check .; exit 1; }
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/python lint/house.py

bench: $(COMPILED) ## run the benchmarks
	@$(BIN)/python -m benchmarks $(ARGS)

layers: $(INSTALLED) ## run the study of modelling layers into results/layers
	@$(PIP) --require-hashes --target $(VENV)/layers -r requirements-layers.txt
	@PYTHONPATH=$(VENV)/layers $(BIN)/python -m tutti.experiments.layers.study results/layers

docs: $(COMPILED) $(SITE) ## build the site in build/docs, and run its examples
	@mkdir -p build
	@$(BIN)/python -m sphinx -q -W --keep-going --jobs 2 docs build/docs 2> build/docs.log || { cat build/docs.log; exit 1; }

# requirements-dev.txt has only packages that requirements.txt does not have, in versions that fit it.
lock: ## resolve the locked requirements again from pyproject.toml (needs uv)
	$(LOCK) --extra clone --extra cluster --output-file requirements.txt pyproject.toml
	$(LOCK) --extra clone --extra cluster --extra dev --extra figures --constraint requirements.txt \
	    $$(sed -n 's/^\([a-z][^=]*\)==.*/--no-emit-package \1/p' requirements.txt | sort -u) \
	    --output-file requirements-dev.txt pyproject.toml
	printf '%s\n' $(LAYERS_NEED) | $(LOCK) --output-file requirements-layers.txt -
	echo 'mpi4py>=4' | $(LOCK) --output-file requirements-mpi.txt -
	printf '%s\n' $(SITE_NEEDS) | $(LOCK) --constraint requirements.txt --constraint requirements-dev.txt \
	    --output-file requirements-docs.txt -

vega: ## build the library of charts again from its packages (needs npm)
	@rm -rf build/vega && mkdir -p build && cp -r experiments/report/vega build/vega
	@cd build/vega && npm install --silent --no-package-lock && node build.mjs
	@mv build/vega/vega.min.js experiments/report/templates/vega.min.js

clean: ## remove caches and build products; keeps .venv and results
	@rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache $(COMPILED)
	@find . -name __pycache__ -type d -not -path './$(VENV)/*' -prune -exec rm -rf {} +

$(INSTALLED): requirements.txt pyproject.toml
	@python='$(PYTHON)'; \
	if ! $(BIN)/python -c '$(NEW_ENOUGH)' 2>/dev/null; then \
	    if ! "$${python:-false}" -c '$(NEW_ENOUGH)' 2>/dev/null; then \
	        echo "tutti needs Python 3.11 or newer, found $$("$${python:-python3}" -V 2>&1 || true): set PYTHON=/path/to/python3.11" >&2; \
	        exit 1; \
	    fi; \
	    "$$python" -m venv --clear $(VENV); \
	fi
	@echo "installing the locked requirements into $(VENV)"
	@$(PIP) --require-hashes --only-binary :all: --no-compile -r requirements.txt
	@$(PIP) --no-build-isolation --no-deps --editable .
	@touch $@

# Modules are compiled before the tests, because warnings are errors there, also those of the compiler in libraries.
$(DEVELOPED): requirements-dev.txt $(INSTALLED)
	@echo "installing the packages of the tests into $(VENV)"
	@$(PIP) --require-hashes --only-binary :all: --no-compile -r requirements-dev.txt
	@$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true
	@touch $@

$(COMPILED): $(INSTALLED)
	@echo "compiling all kernels, once"
	@$(BIN)/python -m tutti.experiments.compile_kernels
	@touch $@

$(SITE): requirements-docs.txt $(DEVELOPED)
	@echo "installing the packages of the site into $(VENV)"
	@$(PIP) --require-hashes --only-binary :all: -r requirements-docs.txt
	@touch $@
