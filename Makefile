PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# One line of our own instead of pip's hundred; with a log, only this keeps its progress bars away.
QUIET := -qq --progress-bar off --log $(VENV)/pip.log
COLLECT := $(PIP) wheel --constraint constraints.txt --find-links wheelhouse --wheel-dir wheelhouse
COMPILER = $(firstword $(foreach name,$(CXX) c++ g++ clang++,$(shell command -v $(name) 2> /dev/null)))
INSTALL_LLM = echo "Installing llama.cpp, which is compiled: 6 to 8 minutes on two cores." && \
	$(PIP) install $(QUIET) --constraint constraints.txt --editable '.[llm]' && touch $(VENV)/.installed-llm
WITHOUT_LLM := Only GGUF models need it; everything else works. To add it later: make llm
# Quantised models crash on CPUs with AMX when llama.cpp is built with these paths by GCC 12.
export CMAKE_ARGS ?= -DGGML_AMX_TILE=OFF -DGGML_AMX_INT8=OFF
MINGW = $(shell command -v x86_64-w64-mingw32-g++-posix 2> /dev/null)
INSTALL_MINGW := Debian: apt install g++-mingw-w64-x86-64-posix
WINDOWS_LLM := build/windows-llm

.PHONY: demo llm wheel wheelhouse windows-zip windows-llm-wheel test pytest test-slow test-windows window lint benchmarks screenshots clean

# Its result needs no llama.cpp, so that is compiled afterwards. Whoever interrupts that, or has no compiler, has all the rest.
# The shell outlives the interrupt by a second: make complains if its child is gone before it has handled the signal itself.
demo: $(VENV)/.installed
	@PYTHONDONTWRITEBYTECODE= $(BIN)/engine demo
	@if [ -e $(VENV)/.installed-llm ]; then exit 0; fi; echo; \
	if [ -z "$(COMPILER)" ]; then echo "No C++ compiler was found: llama.cpp is left out. $(WITHOUT_LLM)"; exit 0; fi; \
	echo "The demo is done. llama.cpp is an optional extra and installed last; Ctrl-C skips it."; \
	trap 'sleep 1; echo; echo "llama.cpp is not installed. $(WITHOUT_LLM)"; exit 0' INT; \
	{ $(INSTALL_LLM); } || echo "llama.cpp could not be installed. $(WITHOUT_LLM)"

llm: $(VENV)/.installed-llm

wheel: | $(BIN)/python
	rm -f dist/*.whl
	$(PIP) wheel --quiet --no-deps --wheel-dir dist .
	@ls dist/*.whl

# For machines with this system and this version of Python. llama.cpp is compiled anew: for their processors, not for this one alone.
wheelhouse: wheel
	rm -rf wheelhouse && mkdir wheelhouse
	$(if $(COMPILER),CMAKE_ARGS="$(CMAKE_ARGS) -DGGML_NATIVE=OFF" $(COLLECT) --no-deps --no-cache-dir llama-cpp-python)
	$(if $(COMPILER),,@echo "No C++ compiler was found: the extra llm is left out.")
	$(COLLECT) "$$(ls dist/*.whl)$(if $(COMPILER),[llm])"
	@echo "Copy the folder wheelhouse to a machine with this system and $$($(BIN)/python -V). To install there without a network:"
	@echo "    python3 -m venv bmembed"
	@echo "    bmembed/bin/pip install --no-index --find-links wheelhouse 'bmembed-tui$(if $(COMPILER),[llm])'"
	@echo "    bmembed/bin/engine doctor --offline"

# A folder for Windows that needs neither installation nor network, built on any system. PYTHON_ZIP: the embeddable Python (x64) of
# python.org. The folder lies in build/windows-zip, and packed beside it.
windows-zip: wheel $(if $(MINGW),windows-llm-wheel)
	@test -n "$(PYTHON_ZIP)" || { echo "Name the embeddable Python: make windows-zip PYTHON_ZIP=python-3.13.1-embed-amd64.zip"; exit 1; }
	$(if $(MINGW),,@echo "GGUF models are left out: there is no compiler for Windows ($(INSTALL_MINGW)).")
	$(BIN)/python tests/windows/windows_zip.py "$(PYTHON_ZIP)" dist/*.whl build/windows-zip/bmembed $(if $(MINGW),$(WINDOWS_LLM))

# llama-cpp-python has no wheel for Windows on the package index. This one is for every version of Python, and processors with AVX2.
windows-llm-wheel: $(WINDOWS_LLM)/.built
	@ls $(WINDOWS_LLM)/*.whl

$(WINDOWS_LLM)/.built: constraints.txt tests/windows/mingw.cmake | $(BIN)/python
	@test -n "$(MINGW)" || { echo "There is no compiler for Windows ($(INSTALL_MINGW))."; exit 1; }
	rm -rf $(WINDOWS_LLM) && mkdir -p $(WINDOWS_LLM)
	CMAKE_ARGS="$(CMAKE_ARGS) -DCMAKE_TOOLCHAIN_FILE=$(CURDIR)/tests/windows/mingw.cmake" $(PIP) wheel --quiet --constraint constraints.txt \
		--no-deps --no-cache-dir --no-binary llama-cpp-python --config-settings "wheel.exclude=/bin;/include;/lib;*.a" --wheel-dir $(WINDOWS_LLM) llama-cpp-python
	$(PIP) install --quiet --target $(WINDOWS_LLM)/tools wheel
	PYTHONPATH=$(WINDOWS_LLM)/tools $(BIN)/python -m wheel tags --remove --platform-tag win_amd64 $(WINDOWS_LLM)/*.whl
	touch $@

# Linting keeps one core busy for a minute: the tests begin beside it.
test: $(VENV)/.installed-dev
	$(MAKE) --no-print-directory --jobs 2 lint pytest

# Tests wait for processes half of their time: on two cores five workers keep both busy. Modules are compiled once, not at each of
# the hundreds of starts of a process, whatever the shell has set. Large pages of memory, which glibc asks for if it is told to, save
# 5 % of the processor.
pytest: $(VENV)/.installed-dev
	GLIBC_TUNABLES=glibc.malloc.hugetlb=1 PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n 5 --dist loadfile --no-loadscope-reorder

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
	$(BIN)/mypy --platform darwin --config-file tests/lint/other_systems.toml --cache-dir .mypy_cache/darwin
	$(BIN)/mypy --platform win32 --config-file tests/lint/other_systems.toml --cache-dir .mypy_cache/win32
	$(BIN)/lint-imports
	$(BIN)/python tests/lint/markup.py bmembed_tui

# Windows' own Python and packages under Wine, on Debian: apt install wine wine64 gcc-mingw-w64-x86-64-win32
test-windows: | $(BIN)/python
	$(BIN)/python tests/windows/prepare.py
	$(BIN)/python tests/windows/smoke.py
	$(BIN)/python tests/windows/story.py
	$(BIN)/python tests/windows/app.py
	$(BIN)/python tests/windows/suite.py

benchmarks: $(VENV)/.installed-dev
	for script in tests/benchmarks/*.py; do $(BIN)/python $$script || exit 1; done

screenshots: $(VENV)/.installed-dev
	$(BIN)/python tests/fixtures/pictures.py

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed: make PYTHON=python3.11")'
	@$(PYTHON) -m venv $(VENV)

# Python compiles what it imports. Compiling all 14,000 modules would take most of the installation's time.
$(VENV)/.installed: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing into $(VENV): a few minutes the first time. To watch pip: tail -f $(VENV)/pip.log"
	@$(PIP) install $(QUIET) --no-compile --constraint constraints.txt --editable .
	@touch $@

$(VENV)/.installed-llm: $(VENV)/.installed
	@test -n "$(COMPILER)" || { echo "llama.cpp needs a C++ compiler: install GCC or Clang (Debian: apt install g++)."; exit 1; }
	@$(INSTALL_LLM)

$(VENV)/.installed-dev: $(VENV)/.installed-llm
	$(PIP) install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

$(VENV)/.installed-window: $(VENV)/.installed-dev
	$(PIP) install --quiet --constraint constraints.txt --editable '.[desktop]'
	touch $@

clean:
	rm -rf $(VENV) build dist wheelhouse *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
