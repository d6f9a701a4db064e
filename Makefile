# Every target works on a fresh machine with Python >= 3.11, make and a package index: it creates
# .venv first. PYTHON=python3.12 chooses another interpreter, PYTEST_ARGS="-k tree" a part of tests,
# SECONDS and SEED of random programs (FUZZ_ARGS: `python -m tests.fuzz --help`),
# MUTATE_ARGS="--folder lifting --save build/lifting" a part of the planted bugs, to be continued,
# BUDGET=270 their seconds on a GPU, GPU_ARGS="--quick --only softmax" a part of them.

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
PYTEST_ARGS ?=
GPU_ARGS ?=
BUDGET ?= 450
SECONDS ?= 600
# One BLAS thread per worker: the workers are the parallelism, and results do not depend on cores.
# Bytecode is kept: a test that starts Python would compile every module anew.
PYTEST := PYTHONDONTWRITEBYTECODE= OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(PY) -m pytest
PARALLEL := -n auto --maxprocesses=8

.DEFAULT_GOAL := help
.PHONY: help demo test check test-fast doctest fuzz stress matrix renamed shared deferred mutate bench bench-random docs golden size gpu gpu-check gpu-bench gpu-emulation format clean

help:
	@echo "make demo       train, aim and picture: what ftrace is for, on real data (build/demo/)"
	@echo "make test       every test; of large grids and of samples the part that a seed chooses"
	@echo "make check      format, lint, types, layers, sizes, doctests (two minutes)"
	@echo "make test-fast  two samples per row, no slow programs (six minutes)"
	@echo "make fuzz       random programs against plain Python: SECONDS=3600 SEED=1"
	@echo "make stress     threads, forks, signals, interrupts and memory: twenty runs of each program"
	@echo "make matrix     every transformation of every transformation, on seventeen functions"
	@echo "make renamed    lowering and its backends with every primitive under a name that says nothing"
	@echo "make shared     laws and programs where threads share every loop that they can"
	@echo "make deferred   laws and programs where every derivative under jit is taken as of a long program"
	@echo "make mutate     planted bugs: every one must be caught"
	@echo "make bench      a quick comparison with the systems that are installed"
	@echo "make bench-random   random array programs against JAX: SEED=1 COUNT=200"
	@echo "make docs       execute notebooks, check links"
	@echo "make golden     rewrite golden files and the tables and pages of docs/, show the difference"
	@echo "make size       lines per folder"
	@echo "make gpu-check  on a GPU: device, first figures, programs, every law of every row"
	@echo "make gpu-bench  on a GPU: BUDGET=450 seconds of measurements; make gpu does both"
	@echo "make gpu-emulation   the same laws on this machine's processor"

# --- environment: one stamp for each set of extras, renewed when pyproject.toml changes -----------

$(PY):
	@$(PYTHON) -c 'import sys; sys.exit("ftrace needs Python >= 3.11; set PYTHON=python3.x" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed-%: pyproject.toml | $(PY)
	$(PY) -m pip install --quiet --disable-pip-version-check --editable '.[$*]'
	@touch $@

# --- what users run ---------------------------------------------------------------------------

demo: $(VENV)/.installed-examples
	$(PY) examples/demo.py

test: $(VENV)/.installed-test
	$(PYTEST) $(PARALLEL) tests $(PYTEST_ARGS)

# --- what contributors run --------------------------------------------------------------------

check: $(VENV)/.installed-dev
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(PY) -m basedpyright
	$(VENV)/bin/lint-imports --no-logo
	$(PY) tools/size.py
	$(MAKE) --no-print-directory doctest

test-fast: $(VENV)/.installed-test
	FTRACE_LAWS=fast $(PYTEST) $(PARALLEL) -m "not slow and not fuzz" tests $(PYTEST_ARGS)

doctest: $(VENV)/.installed-test
	$(PYTEST) $(PARALLEL) --doctest-modules --doctest-glob=README.md ftrace README.md

fuzz: $(VENV)/.installed-test
	OPENBLAS_NUM_THREADS=1 $(PY) -m tests.fuzz --seconds $(SECONDS) $(if $(SEED),--seed $(SEED)) $(FUZZ_ARGS)

stress: $(VENV)/.installed-test
	$(PYTEST) $(PARALLEL) -v --runs 20 tests/stress $(PYTEST_ARGS)

matrix: $(VENV)/.installed-test
	$(PY) -m tests.programs.matrix

renamed: $(VENV)/.installed-test
	$(PYTEST) $(PARALLEL) --renamed tests/lowering tests/cpu tests/gpu $(PYTEST_ARGS)

shared: $(VENV)/.installed-test
	FTRACE_CPU=sse2 $(PYTEST) $(PARALLEL) --shared tests/laws tests/lowering tests/cpu tests/programs $(PYTEST_ARGS)

deferred: $(VENV)/.installed-test
	$(PYTEST) $(PARALLEL) --deferred tests/laws tests/api tests/programs tests/lifting tests/numpy tests/sparse $(PYTEST_ARGS)

mutate: $(VENV)/.installed-test
	$(PY) -m tools.mutate $(MUTATE_ARGS)

bench: $(VENV)/.installed-test
	$(PY) -m benchmarks.run --quick

bench-random: $(VENV)/.installed-test
	$(PY) -m benchmarks.random_run --seed $(or $(SEED),1) --count $(or $(COUNT),200)

docs: $(VENV)/.installed-test
	$(PY) tests/notebooks/executing.py
	$(PY) tools/links.py

golden: $(VENV)/.installed-test
	$(PYTEST) tests/golden tests/gpu/test_sheet.py --update-golden $(PYTEST_ARGS)
	$(PY) -m tools.support
	$(PY) -m tools.numpy_support
	$(PY) -m tools.error_pages
	git diff --stat -- tests/golden docs

size: $(PY)
	$(PY) tools/size.py

# Where PYTHON has CuPy and sees a GPU, it runs the source tree and nothing is installed; versions
# there are not ours, so warnings are shown. Emulated devices hold addresses of the host in CuPy's
# arrays and have no place in a process that uses a GPU: only what asks for any device runs there.
gpu: gpu-check gpu-bench

gpu-check:
	@if reason=$$($(PYTHON) tools/device.py); then \
	    PYTHONPATH=. $(PYTHON) -m tools.gpu_check; \
	else \
	    echo "Not on a GPU: $$reason. The tests run where they can."; \
	    $(MAKE) --no-print-directory gpu-emulation; \
	fi

gpu-bench:
	@reason=$$($(PYTHON) tools/device.py) || { echo "Not on a GPU: $$reason."; exit 0; }; \
	PYTHONPATH=. $(PYTHON) -m benchmarks.gpu --budget $(BUDGET) $(GPU_ARGS)

gpu-emulation: $(VENV)/.installed-test $(VENV)/.installed-gpu-static
	FTRACE_GPU_LAWS=all $(PYTEST) $(PARALLEL) tests/gpu $(PYTEST_ARGS)

format: $(VENV)/.installed-dev
	$(PY) -m ruff format .
	$(PY) -m ruff check --fix .

clean:
	rm -rf build .pytest_cache .ruff_cache .hypothesis .import_linter_cache
