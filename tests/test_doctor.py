"""`cornn doctor` says what makes an installation slow."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from cornn import engine
from cornn.cli import doctor
from cornn.engine import bank_cuda, lem
from cornn.engine.backends import c
from cornn.engine.backends.cuda import backend, nvrtc

CACHED = (c.load_library, c.instruction_set, c._find)


@pytest.fixture
def no_library(monkeypatch):
    """The package as it is installed from source without a compiler."""
    monkeypatch.setattr(c, "LIBRARY", Path("nowhere") / c.LIBRARY.name)
    for function in CACHED:
        function.cache_clear()
    yield
    for function in CACHED:
        function.cache_clear()


def test_without_the_library_the_portable_backend_is_chosen(cornn, no_library):
    code, out, _ = cornn("doctor")
    assert code == 0
    rows = {tuple(row.split()[:3]) for row in out.splitlines() if "cpu" in row}
    assert {("cpu", "c", "no"), ("cpu", "portable", "chosen")} <= rows
    assert "The C library is missing" in out
    assert "was not built: install gcc or clang" in out


def test_an_untested_version_of_pytorch_is_named(cornn, monkeypatch):
    assert "outside the tested range" not in cornn("doctor")[1]
    monkeypatch.setattr(doctor, "is_tested", lambda: False)
    assert "is outside the tested range, 2.11 to 2.13: the recurrence runs through" in cornn("doctor")[1]


GPUS = {
    "Tesla T4": ((7, 5), 40, 65_536),
    "A100": ((8, 0), 108, 166_912),
    "RTX 3090": ((8, 6), 82, 101_376),
    "RTX 4090": ((8, 9), 128, 101_376),
    "H100": ((9, 0), 132, 232_448),
    "B200": ((10, 0), 148, 232_448),
    "RTX 5090": ((12, 0), 170, 101_376),
}
"""GPU -> compute capability, multiprocessors, and the bytes of shared memory that a block may have."""


@pytest.fixture
def gpu(monkeypatch):
    """Pretend that there is a GPU; nothing is launched on it."""
    cached = (backend._needs_grid, backend._grid, bank_cuda.unusable, lem.unusable_there, engine._choose_once)

    def pretend(name):
        capability, multiprocessors, shared = GPUS[name]
        found = SimpleNamespace(
            name=name,
            major=capability[0],
            minor=capability[1],
            multi_processor_count=multiprocessors,
            shared_memory_per_block_optin=shared,
        )
        monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index=None: capability)
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index=None: found)
        monkeypatch.setattr(nvrtc, "explain_missing", lambda: None)
        for function in cached:
            function.cache_clear()

    yield pretend
    for function in cached:
        function.cache_clear()


def documented(name):
    """Return the row of a GPU in docs/speed.md: its kernels for exact, tf32 and bf16, and for LEM."""
    page = (Path(__file__).parents[1] / "docs" / "speed.md").read_text(encoding="utf8")
    (row,) = re.findall(rf"^\| {name} .*$", page, re.MULTILINE)
    return [cell.strip() for cell in row.split("|")[3:-1]]


@pytest.mark.parametrize("name", GPUS)
def test_it_says_which_sizes_a_gpu_serves(cornn, gpu, name):
    gpu(name)
    code, out, err = cornn("doctor")
    assert code == 0, err
    (major, minor), multiprocessors, _ = GPUS[name]
    assert f"cuda:0: {name}, compute capability {major}.{minor}, {multiprocessors} multi" in out
    rows = re.findall(r"^ *(coRNN|LEM) +(\w+) +[\d,]+ to ([\d,]+) +a (block|cluster|grid)", out, re.MULTILINE)
    found = {key: [] for key in (("coRNN", "exact"), ("coRNN", "tf32"), ("coRNN", "bf16"), ("LEM", "exact"))}
    for model, precision, largest, kernel in rows:
        found[model, precision].append(f"{kernel} {largest}")
    assert [", ".join(own) or "-" for own in found.values()] == documented(name)
    assert found["coRNN", "exact"][0] == "block 128"
    assert re.search(r"oscillator bank +exact +any", out)


def test_a_t4_runs_what_its_kernels_serve_and_the_rest_by_graphs(gpu):
    gpu("Tesla T4")
    problem = engine.Problem(
        engine.OSCILLATORS["explicit", "tanh"], torch.device("cuda:0"), torch.float32, 1, 784, 120, 128, False
    )
    assert engine.choose(problem)[0] == "cuda"
    name, reason = engine.choose(problem._replace(hidden=129))
    assert name == "graph"
    assert "not cuda: it needs compute capability 8.0 or newer, this device has 7.5" in reason
    with pytest.raises(RuntimeError, match=r"'bf16' needs the cuda backend: it needs compute capability 8\.0"):
        engine.choose(problem._replace(precision="bf16"))
