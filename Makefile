# make run         set up .venv, tune a matmul on this CPU, show the report
# make test        set up .venv, run the tests, as many at once as there are cores
# make test-quick  the tests that take little time, some from every folder: for use between two edits
# make test-thorough  every case of every test, and more random examples: takes twice as long, for a night or before a release
# make lint        ruff and mypy
# make bench       measure again what README and docs quote, into results/ (hours; on a quiet machine)
# make bench-check say which of these figures the code has changed since, and where they were measured
# make ship        tune the schedules that come with the package for this machine's kind of processor, into schedules/ (half an hour; on a quiet machine)
# make man         write docs/tune.1, the manual page, from the grammar
# make docs        build the documentation into build/site; warnings are errors
#
# Only Python 3.11 or newer is needed. PYTHON=... chooses one; BUDGET=... is the tuning time of `make run`; JOBS=... is how many tests run at once (0: in
# one process, as a debugger wants it), and TESTS=... is what else pytest is told, such as a folder.

SHELL := /bin/bash
PYTHON ?=
BUDGET ?= 20s
JOBS ?= auto
TESTS ?=
BIN := .venv/bin

# Containers often forbid Python to keep what it compiled: then every process, of which the tests start hundreds, compiles Tilewright and its tests again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test test-quick test-thorough lint docs man bench bench-check ship clean help
.DEFAULT_GOAL := help

help:
	@sed -n 's/^# \(make .*\)/\1/p' Makefile

run: .venv/.installed
	@echo "== tune run: search for a fast matmul on this CPU ($(BUDGET)); a second run finds it in the cache"
	$(BIN)/tune run --kernel matmul --device cpu --budget $(BUDGET)
	@echo "== tune report: everything this machine has tuned so far"
	$(BIN)/tune report

test: .venv/.installed-dev
	$(BIN)/python scripts/run_tests.py $(JOBS) $(TESTS)

test-quick: .venv/.installed-dev
	$(BIN)/python scripts/run_tests.py $(JOBS) -m "not slow" $(TESTS)

test-thorough: .venv/.installed-dev
	$(BIN)/python scripts/run_tests.py $(JOBS) --thorough $(TESTS)

lint: .venv/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@mkdir -p build/typed && ln -sfn ../.. build/typed/tilewright
	$(BIN)/mypy

man: .venv/.installed-dev
	SOURCE_DATE_EPOCH=1735689600 COLUMNS=80 $(BIN)/argparse-manpage --module tilewright.cli.commands --function build_parser --prog tune \
	  --project-name tilewright --manual-title Tilewright --description "find the fastest way to run a kernel" --output docs/tune.1

bench: .venv/.installed-dev
	$(BIN)/python benchmarks/rerecord.py

bench-check: .venv/.installed-dev
	$(BIN)/python benchmarks/rerecord.py --check

docs: .venv/.installed-docs
	@mkdir -p build/api  # mkdocstrings looks only into folders that are there when it begins
	$(BIN)/mkdocs build --quiet --strict
	@echo "== build/site/index.html"

ship: .venv/.installed
	$(BIN)/python scripts/ship.py

clean:
	rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

.venv/bin/python:
	@bash scripts/venv.sh "$(PYTHON)"

.venv/.installed: pyproject.toml | .venv/bin/python
	@echo "== installing Tilewright into .venv"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

.venv/.installed-dev: pyproject.toml | .venv/bin/python
	@echo "== installing Tilewright and its test tools into .venv"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@ .venv/.installed

.venv/.installed-docs: pyproject.toml | .venv/bin/python
	@echo "== installing Tilewright and MkDocs into .venv"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	@touch $@ .venv/.installed
