# Each target works alone on a machine with Python 3.11+ and a package registry.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SUITS := $(PYTHON) -c 'import sys; sys.exit(0 if (3, 11) <= sys.version_info[:2] < (3, 14) else \
	"Maquette needs Python 3.11, 3.12 or 3.13; name one, as in: make demo PYTHON=python3.12")'

# Of tests, for two cores: some wait for servers, browsers and deadlines.
WORKERS := 3

# What `make check` and the tests install; CI adds what some tests compare with.
EXTRAS := dev
# Compiled modules are kept, even where the environment forbids it: tests start hundreds of processes. Two workers need
# no further threads of linear algebra.
PYTEST = env -u PYTHONDONTWRITEBYTECODE PYTHONPYCACHEPREFIX=$(CURDIR)/build/bytecode OPENBLAS_NUM_THREADS=1 \
	OMP_NUM_THREADS=1 $(BIN)/python \
	-m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

.PHONY: demo serve test test-all check ruff types types-of-tests contracts lock mutants mutation bench docs clean

$(VENV)/.runtime: pyproject.toml
	@$(SUITS)
	@echo "Installing into $(VENV), once; with an empty package cache it takes a minute or so."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check -e '.[charts]'
	touch $@

# uv installs as many packages in a fifth of the time.
$(VENV)/.dev: pyproject.toml
	@$(SUITS)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv pip install --quiet --python $(BIN)/python -e '.[$(EXTRAS)]'
	touch $@ $(VENV)/.runtime

$(VENV)/.docs: pyproject.toml
	@$(SUITS)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	touch $@ $(VENV)/.runtime

demo: $(VENV)/.runtime
	$(BIN)/maquette demo

serve: $(VENV)/.runtime
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[server]'
	$(BIN)/maquette serve --demo

test: $(VENV)/.dev
	$(PYTEST)

test-all: $(VENV)/.dev
	$(PYTEST) --thorough --durations 30

# `make -j 2 -O check` uses two cores.
check: types-of-tests types ruff contracts

ruff: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

types-of-tests: $(VENV)/.dev
	$(BIN)/mypy --config-file tests/mypy.ini --cache-dir .mypy_cache/tests

contracts: $(VENV)/.dev
	$(BIN)/lint-imports

# The exact versions that development was last tested with; install them with
# pip install --require-hashes -r requirements-dev.lock
lock: $(VENV)/.dev
	$(BIN)/uv pip compile --quiet --universal --upgrade --python-version 3.11 --extra dev --extra oracles --generate-hashes \
		--no-emit-index-url --no-emit-find-links --custom-compile-command 'make lock' pyproject.toml -o requirements-dev.lock

mutants: $(VENV)/.dev
	$(BIN)/python tests/mutants.py

mutation: $(VENV)/.dev
	$(BIN)/python benchmarks/mutation.py --log mutation.log --sample 10

bench: $(VENV)/.dev
	$(BIN)/python benchmarks/run.py

docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

clean:
	rm -rf $(VENV) site .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
