# make demo: environment, install, the suite `quick` on embedded data, its table and figure. make test: all tests.
VENV := .venv
PYTHON ?= python3
BENCH := $(VENV)/bin/bench
STAMP := $(VENV)/.installed

.PHONY: install demo test lint clean

install: $(STAMP)

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

# Runs again only when the dependencies change.
$(STAMP): $(VENV)/bin/python pyproject.toml
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
	touch $@

demo: $(STAMP)
	$(BENCH) run quick --out runs/quick
	@echo "Look at runs/quick/curves.png and runs/quick/table.md"

test: $(STAMP)
	$(VENV)/bin/python -m pytest

lint: $(STAMP)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

clean:
	rm -rf $(VENV) build *.egg-info
