# `make demo` and `make test` need Python 3.11 or newer and a network (or package index) for the first set-up, nothing else.

PYTHON ?= python3
VENV := .venv
# Windows (in a shell of Git, with GNU make) puts programs elsewhere.
BIN := $(VENV)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
EXE := $(if $(filter Windows_NT,$(OS)),.exe)

# Tests compile the same small programs again and again; what takes longer than half a second is kept.
export JAX_COMPILATION_CACHE_DIR ?= $(CURDIR)/.cache/jax
export JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS ?= 0.5
# Images of containers often set this; then each of the many processes would compile the sources of this library anew.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test checks lint types fast one format lowest newest browser verify docs clean

demo: $(VENV)/.installed
	@mkdir -p demo
	@$(BIN)/polhode run heavy-top --out demo/heavy-top.zarr
	@$(BIN)/polhode export --quiet demo/heavy-top.zarr demo/heavy-top.png
	@$(BIN)/polhode export --quiet demo/heavy-top.zarr demo/heavy-top.html
	@echo
	@echo "The run    $(CURDIR)/demo/heavy-top.zarr   (polhode.load or xarray.open_zarr)"
	@echo "A figure   $(CURDIR)/demo/heavy-top.png"
	@echo "The motion $(CURDIR)/demo/heavy-top.html   (open it in a browser; works offline)"

# The short checks run beside the tests, one after the other.
test: $(VENV)/.installed-tests
	@$(MAKE) --no-print-directory --jobs=2 fast checks

checks: $(VENV)/.installed-tests
	@$(MAKE) --no-print-directory lint
	@$(MAKE) --no-print-directory types
	@$(MAKE) --no-print-directory lowest
	@$(MAKE) --no-print-directory docs
	@$(MAKE) --no-print-directory browser
	@$(if $(CI),$(MAKE) --no-print-directory newest)

lint: $(VENV)/.installed-tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(VENV)/.installed-tests
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(VENV)/.installed-tests
	$(BIN)/pyrefly check

# Compiled by XLA with little effort, which most of the time of these goes into; `verify` compiles as users' runs do.
# One process runs all tests of a file, which share fixtures and programs.
QUICK := --xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true
# XLA since JAX 0.11 ends processes that name this. Asked for where it is used, when there is an environment.
OLD = $(if $(shell $(BIN)/python -c 'import jaxlib; print("yes" if jaxlib.__version__ < "0.11" else "")' 2>/dev/null),--xla_cpu_use_fusion_emitters=false)

ELSEWHERE := --ignore tests/test_versions.py --ignore tests/test_stack.py --ignore tests/browser

fast: $(VENV)/.installed-tests
	XLA_FLAGS="$(QUICK) $(OLD)" $(BIN)/pytest -n auto --maxprocesses 4 --dist loadfile $(ELSEWHERE)

# Some of them, by path, and by ARGS for pytest: make one T=tests/joints   make one T=tests/forces ARGS="-k spring -x"
one: $(VENV)/.installed-tests
	@test -n "$(T)" || { echo 'Name tests: make one T=tests/joints, or T=tests/joints/test_screw.py::NAME, and ARGS="-k WORD -x"' >&2; exit 1; }
	XLA_FLAGS="$(QUICK) $(OLD)" $(BIN)/pytest $(T) $(ARGS)

# An installation takes the newest versions that pyproject.toml allows; these are the oldest, beside it.
LOWEST := jax==0.10.0 jaxlib==0.10.0 llvmlite==0.45.0

lowest: $(VENV)/lowest
	PYTHONPATH=$(VENV)/lowest $(BIN)/pytest tests/test_versions.py

# The newest Python with the newest versions of all, beside it; in CI that is fetched meanwhile.
newest:
	.ci/newest env XLA_FLAGS="$(QUICK)" python -m pytest tests/test_versions.py tests/test_stack.py tests/compiler/test_jaxprs.py

# Pages in a headless Chromium, last of all: in CI it is installed meanwhile.
browser: $(VENV)/.installed-tests
	@$(if $(CI),.ci/chromium)
	$(BIN)/pytest -rs tests/browser

# What takes too long for every change: other coordinates, steps and rods, and whole experiments.
verify: $(VENV)/.installed-tests
	$(BIN)/pytest -n auto --maxprocesses 4 --dist loadfile -m exhaustive

docs: $(VENV)/.installed-tests
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

clean:
	rm -rf $(VENV) demo site .cache .pytest_cache .ruff_cache .hypothesis

# The stamps are as old as the last installation and are renewed when pyproject.toml changes.
$(VENV)/.installed: pyproject.toml | $(BIN)/python$(EXE)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

# Modules are compiled when they are first imported: of all that is installed, that is less than a third.
$(VENV)/.installed-tests: pyproject.toml | $(BIN)/python$(EXE)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -e ".[tests]"
	@touch $@ $(VENV)/.installed

$(VENV)/lowest: pyproject.toml | $(VENV)/.installed-tests
	rm -rf $@
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --no-deps --target $@ $(LOWEST)
	@touch $@

$(BIN)/python$(EXE):
	@command -v $(PYTHON) >/dev/null || { \
	  echo "There is no \`$(PYTHON)\`. Install Python 3.11 or newer, or name one: make PYTHON=/path/to/python3.12 demo" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "$$($(PYTHON) --version) is too old: Python 3.11 or newer is needed. Name one: make PYTHON=python3.12 demo" >&2; exit 1; }
	@echo "Setting up $(VENV) …"
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	  echo "$(PYTHON) -m venv failed; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
