# make demo: environment, install, the suite `quick` on embedded data, its table and figure. make test: all tests.
VENV := .venv
PYTHON ?= python3
PIP := $(VENV)/bin/python -m pip install --quiet --disable-pip-version-check
BENCH := $(VENV)/bin/bench
# A stamp for each set of dependencies: installed again only when they change.
PLAIN := $(VENV)/.installed
TESTS := $(VENV)/.installed-test

.PHONY: install demo test lint clean

install: $(TESTS)

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(PLAIN): $(VENV)/bin/python pyproject.toml
	$(PIP) -e .
	touch $@

$(TESTS): $(PLAIN)
	$(PIP) -e '.[test]'
	touch $@

demo: $(PLAIN)
	$(BENCH) run quick --out runs/quick
	@echo "Look at runs/quick/curves.png and runs/quick/table.md"

test: $(TESTS)
	$(VENV)/bin/python -m pytest

lint: $(TESTS)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/pyright --pythonpath $(VENV)/bin/python

clean:
	rm -rf $(VENV) build *.egg-info
