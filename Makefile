# Two commands for a fresh clone: `make demo` and `make test`. Both make the environment first, in .venv.
PYTHON ?= python3
BIN = $(if $(filter Windows_NT,$(OS)),.venv/Scripts,.venv/bin)
PIP = $(BIN)/python -m pip --disable-pip-version-check
# Another version of PyTorch than constraints.txt has: make test TORCH='torch==2.11.*'
TORCH ?= torch
PINS = $(if $(filter torch,$(TORCH)),-c constraints.txt)
CPU_WHEELS = https://download.pytorch.org/whl/cpu
HAS_GPU := $(shell command -v nvidia-smi 2>/dev/null)
# Every worker of the tests imports PyTorch and more: without compiled modules on disk each compiles them again.
unexport PYTHONDONTWRITEBYTECODE
# What installs everything but PyTorch; .ci/run has a faster one.
INSTALL = $(PIP) install -q

.PHONY: demo test test-slow test-gpu types docs dist clean

demo: .venv/ready
	$(BIN)/cornn demo

# COVERAGE=1 measures which lines of the package the tests run.
PYTEST = OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(if $(COVERAGE),--cov --cov-append --cov-report=)

test: .venv/ready
	$(BIN)/python -m ruff check . && $(BIN)/python -m ruff format --check .
	$(PYTEST) -n auto --dist worksteal

test-slow: .venv/ready
	$(PYTEST) -n auto --dist worksteal -m slow $(if $(SELECT),-k "$(SELECT)")

test-gpu: .venv/ready
	$(PYTEST) tests/gpu

types: .venv/ready
	$(BIN)/pyright

docs: .venv/ready
	$(BIN)/mkdocs build --strict

# The source distribution and a wheel for every platform, in dist/, checked.
dist: .venv/ready
	rm -rf dist
	$(PIP) install -q -e '.[release]'
	$(BIN)/python tools/build_wheels.py
	$(BIN)/twine check --strict dist/*
	$(BIN)/check-wheel-contents dist/*.whl
	for wheel in dist/*manylinux*.whl; do $(BIN)/auditwheel show $$wheel; done

# PyTorch goes first and alone: without a GPU it is the CPU build that is wanted, which has an index of its own, and not
# the gigabytes of CUDA libraries that the plain name brings along.
.venv/ready: pyproject.toml constraints.txt setup.py $(wildcard src/cornn/engine/csrc/*)
	$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else "cornn needs Python 3.11 or newer: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv .venv
ifeq ($(HAS_GPU),)
	$(BIN)/python -c 'import torch' 2>/dev/null || \
	$(PIP) install -q --no-deps --retries 1 --extra-index-url $(CPU_WHEELS) $(PINS) $(TORCH)
endif
	$(INSTALL) $(PINS) -e '.[test,dev]' '$(lastword $(TORCH))'
	touch $@

clean:
	rm -rf .venv build dist src/*.egg-info
