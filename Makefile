PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Quantised models crash on CPUs with AMX when llama.cpp is built with these paths by GCC 12.
export CMAKE_ARGS ?= -DGGML_AMX_TILE=OFF -DGGML_AMX_INT8=OFF

.PHONY: demo test pytest test-slow window lint benchmarks screenshots clean

demo: $(VENV)/.installed
	$(BIN)/engine demo

# Linting keeps one core busy for a minute: the tests begin beside it.
test: $(VENV)/.installed-dev
	$(MAKE) --no-print-directory --jobs 2 lint pytest

# Tests wait for processes half of their time: on two cores four workers keep both busy. Modules are compiled once, not at each of
# the hundreds of starts of a process, whatever the shell has set.
pytest: $(VENV)/.installed-dev
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n 4 --dist loadfile --no-loadscope-reorder

test-slow: window
	$(BIN)/python -m pytest -m slow --timeout 3600 -r s

# The window's packages are large, and not to be had everywhere.
window: $(VENV)/.installed-dev
	@$(MAKE) --no-print-directory $(VENV)/.installed-window || echo "THE WINDOW IS NOT TESTED: its packages could not be installed."
	@for tool in Xvfb xdotool xclip; do command -v $$tool > /dev/null || echo "THE WINDOW IS NOT TESTED: $$tool is not installed."; done
	@$(BIN)/python -m bmembed_tui.window.libraries

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tests/lint/markup.py bmembed_tui

benchmarks: $(VENV)/.installed-dev
	for script in tests/benchmarks/*.py; do $(BIN)/python $$script || exit 1; done

screenshots: $(VENV)/.installed-dev
	$(BIN)/python tests/fixtures/pictures.py

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed: make PYTHON=python3.11")'
	@echo "Installing into $(VENV): about ten minutes the first time, as llama.cpp is compiled. pip tells what it does:"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check --constraint constraints.txt --editable .
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $@

$(VENV)/.installed-window: $(VENV)/.installed-dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[desktop]'
	touch $@

clean:
	rm -rf $(VENV) build *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
