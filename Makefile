# Two commands for a fresh clone: `make demo` and `make test`. Both make the environment first, in .venv.
PYTHON ?= python3
BIN = $(if $(filter Windows_NT,$(OS)),.venv/Scripts,.venv/bin)
PIP = $(BIN)/python -m pip --disable-pip-version-check
# To test another version of PyTorch than that of constraints.txt: make test TORCH='torch==2.11.*'
TORCH ?= torch
PINS = $(if $(filter torch,$(TORCH)),-c constraints.txt)
CPU_WHEELS = https://download.pytorch.org/whl/cpu
HAS_GPU := $(shell command -v nvidia-smi 2>/dev/null)
# Without compiled modules on disk, every worker of the tests would compile PyTorch's modules again.
unexport PYTHONDONTWRITEBYTECODE
# Installs everything but PyTorch; .ci/run passes a faster installer.
INSTALL = $(PIP) install -q

.PHONY: demo test test-slow test-gpu types docs dist clean

# Installs less than the tests need, unless everything is installed already.
demo: $(if $(wildcard .venv/ready),.venv/ready,.venv/demo)
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

# The environment with some extras. Without a GPU, PyTorch is installed first, from the index of its CPU builds: the default
# build brings gigabytes of CUDA libraries.
define install
	$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else "cornn needs Python 3.11 or newer: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv .venv
	$(if $(HAS_GPU),,$(BIN)/python -c 'import torch' 2>/dev/null || \
	$(PIP) install -q --no-deps --retries 1 --extra-index-url $(CPU_WHEELS) $(PINS) $(TORCH))
	$(INSTALL) $(PINS) -e '.[$(1)]' '$(lastword $(TORCH))'
	touch $@
endef
comma := ,
SOURCES = pyproject.toml constraints.txt setup.py $(wildcard src/cornn/engine/csrc/*)

.venv/demo: $(SOURCES)
	$(call install,lab$(comma)report)

.venv/ready: $(SOURCES)
	$(call install,test$(comma)dev)

clean:
	rm -rf .venv build dist src/*.egg-info
