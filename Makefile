# Two commands for a fresh clone: `make demo` and `make test`. Both make the environment first, in .venv.
PYTHON ?= python3
PIP = .venv/bin/python -m pip --disable-pip-version-check
CPU_WHEELS = https://download.pytorch.org/whl/cpu
HAS_GPU := $(shell command -v nvidia-smi 2>/dev/null)

.PHONY: demo test test-slow types clean

demo: .venv/ready
	.venv/bin/cornn train adding

test: .venv/ready
	.venv/bin/python -m ruff check . && .venv/bin/python -m ruff format --check .
	OMP_NUM_THREADS=1 .venv/bin/python -m pytest -n auto --dist worksteal

test-slow: .venv/ready
	OMP_NUM_THREADS=1 .venv/bin/python -m pytest -n auto --dist worksteal -m slow

types: .venv/ready
	.venv/bin/pyright

# PyTorch goes first and alone: without a GPU it is the CPU build that is wanted, which has an index of its own, and not
# the gigabytes of CUDA libraries that the plain name brings along.
.venv/ready: pyproject.toml constraints.txt setup.py $(wildcard src/cornn/engine/csrc/*)
	$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else "cornn needs Python 3.11 or newer: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv .venv
ifeq ($(HAS_GPU),)
	.venv/bin/python -c 'import torch' 2>/dev/null || \
	$(PIP) install -q --no-deps --retries 1 --extra-index-url $(CPU_WHEELS) -c constraints.txt torch
endif
	$(PIP) install -q -c constraints.txt -e '.[lab,test,dev]'
	touch $@

clean:
	rm -rf .venv build dist src/*.egg-info
