"""LEM's kernels, run on a CPU by an emulation of a block of threads, against autograd in float64.

What it can find is what test_tensor_emulated.py can: wrong neurons or sequences, wrong steps, reads of what is not
there yet, reads and writes past an end.
"""

import ctypes
import re
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from emulation import assert_near, built
from test_block_emulated import INSTRUCTIONS
from test_tensor_emulated import guarded, pytestmark, untouched  # noqa: F401

from cornn.baselines.lem import LEMCell, _steps
from cornn.engine import lem
from cornn.engine.backends.cuda import nvrtc

ROOM = {r"extern __shared__ float4 dynamic\[\];": "float4* const dynamic = (float4*)::dynamic;"}
ENTRY = """
extern "C" void run(int blocks, int threads, const long long* given) {{
    run_blocks(blocks, threads, [&] {{ {kernel}({arguments}); }});
}}
"""
TENSORS = {"lem_forward": ["const float*"] * 5 + ["float*"] * 4, "lem_backward": ["const float*"] * 9 + ["float*"] * 2}


def test_the_largest_fits_on_the_smallest_of_gpus():
    """Compute capabilities 8.6, 8.9 and 12.0 give a block 99 KB of shared memory."""
    size = max(lem.SIZES)
    assert lem.shared_bytes(size) + lem.STATIC * size * 4 <= 99 * 1024
    for kernel in TENSORS:
        source = (nvrtc.KERNELS / f"{kernel}.cu").read_text(encoding="utf8")
        declared = re.findall(r"__shared__ (?:__align__\(16\) )?float ([^;]*);", source)
        counts = [int(rows or 1) for line in declared for rows in re.findall(r"\w+(?:\[(\d)\])?\[SIZE\]", line)]
        assert 0 < sum(counts) <= lem.STATIC


@pytest.mark.parametrize(
    "arch", ["sm_90", *(pytest.param(arch, marks=pytest.mark.slow) for arch in ("sm_75", "sm_120"))]
)
@pytest.mark.parametrize("kernel", TENSORS)
@pytest.mark.parametrize("size", lem.SIZES)
def test_the_kernels_keep_to_their_registers(kernel, size, arch, tmp_path, monkeypatch):
    pytest.importorskip("cuda.bindings.nvrtc", reason="cuda-core is not installed")
    from test_cuda_compile import FRAME, resources

    monkeypatch.setenv("CORNN_CACHE", str(tmp_path))
    # Four registers at the most have no room in the tightest case, and wait on the stack.
    assert resources(nvrtc.compile_kernel(f"{kernel}.cu", lem.macros(size), arch))[FRAME] <= 16


def library_of(folder: Path, kernel: str, size: int) -> ctypes.CDLL:
    folder.mkdir(exist_ok=True)
    kinds = TENSORS[kernel] + ["long long"] * 3
    arguments = ", ".join(f"({kind})given[{i}]" for i, kind in enumerate(kinds))
    entry = ENTRY.format(kernel=kernel, arguments=arguments)
    own = {"headers": ("lem.cuh",), "emulation": "emulated_block.h", "optimisation": "-O1"}
    return built(folder, kernel, lem.macros(size), entry, INSTRUCTIONS | ROOM, **own)


@pytest.fixture
def emulated(tmp_path, monkeypatch):
    """The module's launches, each tensor amid NaN that nobody may touch."""

    def launch(what, arguments):
        kernel, _, batch, hidden = what
        size = lem.pad_size(hidden)
        assert lem.shared_bytes(size) <= 1 << 17  # what the emulation has
        library = library_of(tmp_path / f"{kernel}{size}", kernel, size)
        own = {id(x): guarded(x.detach()) for x in arguments if isinstance(x, torch.Tensor)}  # one may be there twice
        copies = [own.get(id(x), x) for x in arguments]
        values = [x.data_ptr() if isinstance(x, torch.Tensor) else int(x or 0) for x in copies]
        library.run(batch, lem.GATES * size, (ctypes.c_longlong * len(values))(*values))
        for given, copy in zip(arguments, copies, strict=True):
            if isinstance(given, torch.Tensor):
                assert untouched(copy)
                given.detach().copy_(copy)

    monkeypatch.setattr(lem, "_prepare", lambda *what: what)
    monkeypatch.setattr(lem, "launch", launch)


def drawn(steps, batch, hidden):
    random = torch.Generator().manual_seed(steps + hidden)
    cell = LEMCell(3, hidden, dt=0.7, dtype=torch.float64)
    cell.reset_parameters(random)
    draw = [
        torch.randn(*shape, generator=random, dtype=torch.float64) for shape in ((steps, batch, 3), (2, batch, hidden))
    ]
    return cell, *draw, random


def by_kernel(cell, input, state, every):
    given = lem.Operands(input, state, cell.weight_ih, cell.bias, cell.weight_hh, cell.weight_zy)
    return lem.run(given, cell.dt, every, partial(_steps, cell.dt))


def by_steps(cell, input, state):
    output, parts = cell.sequence(input, state, timespans=None, lengths=None, every=True, backend="portable")
    return output, torch.cat(parts)


@pytest.mark.parametrize("asked", ["output and last", "output", "last"])
@pytest.mark.parametrize(("steps", "batch", "hidden"), [(6, 3, 20), (1, 2, 33), (4, 2, 128), (3, 0, 20)])
def test_values_and_gradients(emulated, steps, batch, hidden, asked):
    cell, input, state, random = drawn(steps, batch, hidden)
    shapes = {"output": (steps, batch, hidden), "last": state.shape}
    weights = [torch.randn(shape, generator=random, dtype=torch.float64) for shape in shapes.values()]

    def gradients(results, given):
        terms = [
            (x * w.to(x.dtype)).sum() for x, w, name in zip(results, weights, shapes, strict=True) if name in asked
        ]
        return torch.autograd.grad(sum(terms), given)

    wanted = by_steps(cell, input.requires_grad_(), state.requires_grad_())
    wanted_gradients = gradients(wanted, [input, state, *cell.parameters()])
    single = LEMCell(3, hidden, dt=0.7)
    single.load_state_dict(cell.state_dict())
    given = [x.detach().float().requires_grad_() for x in (input, state)]
    found = by_kernel(single, *given, every=True)
    for name, got, want in zip(shapes, found, wanted, strict=True):
        assert_near(got, want, name)
    names = ["input", "state", *(name for name, _ in cell.named_parameters())]
    for name, got, want in zip(names, gradients(found, [*given, *single.parameters()]), wanted_gradients, strict=True):
        assert_near(got, want, name)


def test_what_needs_no_gradient_gets_none(emulated):
    cell, input, state, _ = drawn(3, 2, 20)
    cell = cell.float().requires_grad_(False)
    cell.weight_zy.requires_grad_()
    output, _ = by_kernel(cell, input.float(), state.float(), every=True)
    output.sum().backward()
    assert [name for name, value in cell.named_parameters() if value.grad is not None] == ["weight_zy"]


def test_second_derivatives_go_by_steps(emulated):
    cell, input, state, _ = drawn(3, 2, 20)

    def second(results, given):
        (first,) = torch.autograd.grad(results[0].square().sum(), given, create_graph=True)
        return torch.autograd.grad(first.square().sum(), given)[0]

    want = second(by_steps(cell, input.requires_grad_(), state), input)
    single = input.detach().float().requires_grad_()
    assert_near(second(by_kernel(cell.float(), single, state.float(), every=True), single), want, "second derivative")


@pytest.mark.parametrize("every", [True, False])
def test_without_gradients_nothing_is_kept(emulated, every):
    cell, input, state, _ = drawn(5, 2, 20)
    wanted = by_steps(cell, input, state)
    with torch.no_grad():
        output, last = by_kernel(cell.float(), input.float(), state.float(), every)
    assert_near(last, wanted[1].detach(), "last")
    if every:
        assert_near(output, wanted[0].detach(), "output")
    else:
        assert output.numel() == 0


def test_no_steps_leave_the_state(emulated):
    cell, input, state, _ = drawn(2, 2, 20)
    output, last = by_kernel(cell.float(), input[:0].float(), state.float(), every=True)
    assert output.shape == (0, 2, 20)
    assert torch.equal(last, state.float())
    assert not any(x.any() for x in torch.autograd.grad(output.sum(), list(cell.parameters())))


def test_a_gpu_that_is_too_old_or_too_small_is_said(monkeypatch):
    def reason(capability, room):
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
        there = SimpleNamespace(shared_memory_per_block_optin=room)
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: there)
        return lem.unusable_there.__wrapped__(0, 128)

    monkeypatch.setattr(nvrtc, "explain_missing", lambda: None)
    assert reason((8, 6), 101_376) is None
    assert reason((7, 0), 65_536) == "it needs compute capability 7.5 or newer, this device has 7.0"
    assert reason((8, 6), 65_536) == "its kernel needs 100,864 bytes of shared memory, this device has 65,536"
    monkeypatch.setattr(nvrtc, "explain_missing", lambda: "cuda-core is not installed")
    assert reason((9, 0), 232_448) == "cuda-core is not installed"


def test_what_it_cannot_serve_is_said():
    cell = LEMCell(3, 4)
    given = {"timespans": None, "lengths": None, "every": True, "backend": "cuda"}
    with pytest.raises(RuntimeError, match="cannot run LEM here: its kernel is for NVIDIA GPUs; use auto or portable"):
        cell.sequence(torch.zeros(2, 1, 3), torch.zeros(2, 1, 4), **given)
    with pytest.raises(RuntimeError, match="neither timespans nor lengths"):
        cell.sequence(torch.zeros(2, 1, 3), torch.zeros(2, 1, 4), **given | {"timespans": torch.ones(2, 1)})


@pytest.mark.parametrize(
    ("name", "tensor", "words"),
    [
        ("state", torch.zeros(2, 4, 8), r"state has shape \(2, 4, 8\), expected \(2, 3, 8\)"),
        ("weight_ih", torch.zeros(32, 1), r"weight_ih has shape \(32, 1\), expected \(32, 2\)"),
        ("bias", torch.zeros(8), r"bias has shape \(8,\), expected \(32,\)"),
        ("weight_hh", torch.zeros(32, 8), r"weight_hh has shape \(32, 8\), expected \(24, 8\)"),
        ("weight_zy", torch.zeros(8, 8).half(), "weight_zy is torch.float16, the input torch.float32: convert one"),
    ],
)
def test_tensors_are_checked_before_a_kernel_sees_them(name, tensor, words):
    shapes = (5, 3, 2), (2, 3, 8), (32, 2), (32,), (24, 8), (8, 8)
    given = lem.Operands(*map(torch.zeros, shapes))._replace(**{name: tensor})
    with pytest.raises(ValueError, match=words):
        lem.run(given, 0.1, True, lambda given: (given.input, given.state))
