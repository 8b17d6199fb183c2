# One command each, the same here and in CI. Needs only GNU make and Python >= 3.11; everything else goes into .venv.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
RUN    := $(BIN)/python
READY  := $(VENV)/.ready

WORKLOADS ?= A B F
SEED      ?=
OLD       ?=
NEW       ?=

MAKEFLAGS += --no-print-directory
.NOTPARALLEL:
.DEFAULT_GOAL := help

.PHONY: help setup demo dev test test-long cover lint types sim sim-long soak bench bench-compare proto docs clean

help:
	@echo 'make setup          create $(VENV) and install everything into it'
	@echo 'make demo           run the example flows and kill the server in the middle'
	@echo 'make dev            server and example worker until Ctrl+C'
	@echo 'make test           lint, types, coverage and the default test suite'
	@echo 'make test-long      the tests that take minutes'
	@echo 'make cover          unit tests of the core and the codec, which must reach every branch'
	@echo 'make lint           ruff and the import contracts'
	@echo 'make types          mypy --strict'
	@echo 'make sim            simulation; SEED=n replays one seed'
	@echo 'make sim-long       simulation with 10,000 seeds'
	@echo 'make soak           ten minutes of workers that come and go beside steady work'
	@echo "make bench          benchmarks; WORKLOADS='A B F'"
	@echo 'make bench-compare  ratios of two stored results; OLD=file NEW=file'
	@echo 'make proto          generate the protocol modules'
	@echo 'make docs           generate the generated parts of docs/'
	@echo 'make clean          remove $(VENV), caches and build output'

# The stamp is newer than what decides the environment's content, so installing happens once per change of that.
$(READY): pyproject.toml setup.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo 'Python 3.11 or newer is needed; name it with PYTHON=...' >&2; exit 2; }
	@test -x $(RUN) || $(PYTHON) -m venv $(VENV)
	@$(RUN) -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

setup: $(READY)
	@:

demo: $(READY)
	@$(RUN) -m dextools.demo

dev: $(READY)
	@$(RUN) -m dextools.dev

# Drift of generated files is tested in tests/architecture. pytest comes last, so that its summary is the last line.
test: lint types cover
	@$(RUN) -m pytest --numprocesses 2 --dist loadgroup

test-long: $(READY)
	@$(RUN) -m pytest -m long --timeout 3600

# Only their own unit tests count: what a scenario happens to pass is not proven by it. Missed lines are listed.
cover: $(READY)
	@$(RUN) -m pytest tests/unit/core tests/unit/codec --quiet --numprocesses 2 \
		--cov=dexd.core --cov=dexd.codec --cov-branch --cov-fail-under=100 --cov-report=term-missing:skip-covered \
		|| { echo 'make cover: a test failed, or a line or branch listed under Missing has no unit test' >&2; exit 1; }

lint: $(READY)
	@$(RUN) -m ruff check .
	@$(RUN) -m ruff format --check .
	@$(BIN)/lint-imports

types: $(READY)
	@$(RUN) -m mypy

sim: $(READY)
	@$(RUN) -m pytest tests/simulation $(if $(SEED),--sim-seed=$(SEED))

sim-long: $(READY)
	@$(RUN) -m pytest tests/simulation -m long --timeout 7200 --numprocesses 2

soak: $(READY)
	@$(RUN) -m pytest tests/e2e/test_worker_soak.py -m long --timeout 1200 --capture no

bench: $(READY)
	@$(RUN) -m dextools.bench $(WORKLOADS)

bench-compare: $(READY)
	@test -n '$(OLD)' -a -n '$(NEW)' || { echo 'usage: make bench-compare OLD=file NEW=file' >&2; exit 2; }
	@$(RUN) -m dextools.bench.compare '$(OLD)' '$(NEW)'

proto: $(READY)
	@$(RUN) proto/generate.py

docs: $(READY)
	@$(RUN) -m dextools.docgen

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache htmlcov
	rm -f .coverage .coverage.*
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
