"""The bank's CUDA kernel: compiled, and run on a CPU by an emulation of a block of threads."""

import ctypes

import numpy as np
import pytest
import torch
from bank_definition import draw, pool_by_definition, sequences, with_clear_levels
from emulation import built
from test_block_emulated import INSTRUCTIONS
from test_tensor_emulated import guarded, pytestmark, untouched  # noqa: F401

from cornn.engine import bank as banks
from cornn.engine import bank_cuda
from cornn.engine.backends.cuda import nvrtc
from cornn.engine.bank import GROUP, Memory, Sequences

ROUNDING = 2e-5  # of float32 over a few hundred steps
KINDS = ("const float*", "const long long*", "const float*", "const int*", "const float*", "const long long*")
KINDS += (*("const float*",) * 5, "float*", "float*", "const float*", *("long long",) * 3)
ENTRY = """
extern "C" void run(int blocks, int threads, const long long* given) {{
    run_blocks(blocks, threads, [&] {{ bank_pool({arguments}); }});
}}
"""


@pytest.mark.parametrize(
    "arch", ["sm_90", *(pytest.param(arch, marks=pytest.mark.slow) for arch in ("sm_75", "sm_120"))]
)
@pytest.mark.parametrize(("levels", "plain", "spans"), [(2, False, False), (2, True, True), (4, True, False)])
def test_it_compiles_without_spills(arch, levels, plain, spans, tmp_path, monkeypatch):
    pytest.importorskip("cuda.bindings.nvrtc", reason="cuda-core is not installed")
    from test_cuda_compile import FRAME, REGISTERS, resources

    monkeypatch.setenv("CORNN_CACHE", str(tmp_path))
    used = resources(nvrtc.compile_kernel("bank_pool.cu", bank_cuda.macros(levels, plain, spans, GROUP), arch))
    assert 0 < used[REGISTERS] <= 128
    assert used[FRAME] == 0, f"it spills {used[FRAME]} bytes a thread"


@pytest.fixture
def emulated(tmp_path, monkeypatch):
    """The kernel on the CPU, each float tensor amid NaN that nobody may touch."""

    def launch(what, arguments):
        macros, blocks = what
        folder = tmp_path / "-".join(map(str, macros.values()))
        if not folder.exists():
            folder.mkdir()
            entry = ENTRY.format(arguments=", ".join(f"({kind})given[{i}]" for i, kind in enumerate(KINDS)))
            built(folder, "bank_pool", macros, entry, INSTRUCTIONS, emulation="emulated_block.h", optimisation="-O1")
        library = ctypes.CDLL(str(folder / "pool.so"))
        copies = [guarded(x) if isinstance(x, torch.Tensor) and x.is_floating_point() else x for x in arguments]
        values = [x.data_ptr() if isinstance(x, torch.Tensor) else int(x or 0) for x in copies]
        library.run(blocks, bank_cuda.THREADS, (ctypes.c_longlong * len(values))(*values))
        for given, copy in zip(arguments, copies, strict=True):
            if isinstance(given, torch.Tensor) and given.is_floating_point():
                assert untouched(copy)
                given.copy_(copy)

    class Prepared(tuple):
        def _replace(self, blocks):
            return (*self, blocks)

    monkeypatch.setattr(
        bank_cuda,
        "_prepare",
        lambda levels, plain, spans, group, _: Prepared([bank_cuda.macros(levels, plain, spans, group)]),
    )
    monkeypatch.setattr(bank_cuda, "launch", launch)
    return lambda bank, data, memory=None: banks._pool_cuda(bank, data, memory, torch.device("cpu"))


@pytest.mark.parametrize(
    ("groups", "levels", "plain", "spans"), [(9, 2, False, False), (3, 4, True, True), (1, 1, True, False)]
)
def test_pools_as_defined(emulated, groups, levels, plain, spans):
    data = sequences((1, 70, 32, 33, 5), spans=spans)
    bank = with_clear_levels(draw(groups, levels, plain), data)
    np.testing.assert_allclose(emulated(bank, data), pool_by_definition(bank, data), atol=ROUNDING)


@pytest.mark.parametrize("spans", [False, True])
def test_in_pieces_and_parts_is_as_in_one(emulated, monkeypatch, spans):
    data = sequences((40, 40), spans=spans)
    bank = with_clear_levels(draw(), data)
    whole, memory = emulated(bank, data), Memory.empty(bank, 2)
    monkeypatch.setattr(banks, "DEVICE_BYTES", 1)
    monkeypatch.setattr(banks, "TABLE_BYTES", 1)
    for start, stop in ((0, 1), (1, 12), (12, 40)):
        rows = np.r_[start:stop, 40 + start : 40 + stop]
        starts = np.array([0, stop - start, 2 * (stop - start)])
        found = emulated(
            bank, Sequences(data.input[rows], starts, None if data.spans is None else data.spans[rows]), memory
        )
    np.testing.assert_allclose(found, whole, atol=ROUNDING)
    expected = Memory.empty(bank, 2)
    banks.pool(bank, data, expected)
    np.testing.assert_allclose(memory.elapsed, expected.elapsed)
    np.testing.assert_allclose(memory.sums, expected.sums, rtol=ROUNDING, atol=100 * ROUNDING)


def test_it_says_why_it_cannot_run(monkeypatch):
    monkeypatch.setattr(nvrtc, "explain_missing", lambda: None)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 0))
    reason = "it needs compute capability 7.5 or newer, this device has 7.0"
    assert bank_cuda.unusable.__wrapped__(None) == reason
    monkeypatch.setattr(bank_cuda, "unusable", lambda device: reason)
    assert banks.backend("cuda:1") == ("portable", reason)
