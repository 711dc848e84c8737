"""How a precision is asked for, refused where it cannot be had, and taken along to the backward pass."""

import copy
from types import SimpleNamespace

import pytest
import torch
from engine_calls import operator_options, run
from engine_calls import problem as problem_of
from torch.library import opcheck

import cornn
from cornn import engine
from cornn.engine.backends import portable
from cornn.engine.backends.cuda import backend as cuda
from cornn.engine.backends.cuda import nvrtc
from cornn.engine.backends.cuda.layout import TENSOR_SIZES, tensor_plan, tensor_plans
from cornn.engine.op import recurrence, recurrence_backward

UPDATE = "cornn/explicit/tanh"


def arguments(batch=3, hidden=4):
    random = torch.Generator().manual_seed(0)

    def draw(*shape):
        return torch.randn(*shape, generator=random).requires_grad_()

    shapes = {"input": (5, batch, 2), "state": (2, batch, hidden), "input_weight": (hidden, 2), "bias": (hidden,)}
    shapes |= {"weight": (hidden, 2 * hidden), "parameters": (3, hidden)}
    return {name: draw(*shape) for name, shape in shapes.items()}


def problem(hidden=64, precision="tf32", device="cpu"):
    return problem_of(UPDATE, torch.device(device), torch.float32, 1, 10, 600, hidden, False, precision)


@pytest.fixture
def served(monkeypatch):
    """A backend cuda that serves here, in any precision, and notes which pass ran in which."""
    seen = []

    def forward(given, request, scales=None):
        seen.append(("forward", request.precision))
        return portable.forward(given, request, scales)

    def backward(given, after, request, needs, scales=None):
        seen.append(("backward", request.precision))
        return portable.backward(given, after, request, needs, scales)

    def usable(problem):
        return True, "for the test"

    monkeypatch.setitem(engine.BACKENDS, "cuda", SimpleNamespace(usable=usable, forward=forward, backward=backward))
    engine._choose_once.cache_clear()
    yield seen
    engine._choose_once.cache_clear()


@pytest.mark.parametrize("precision", ["tf32", "bf16"])
def test_a_cpu_says_that_it_has_none(precision):
    with pytest.raises(RuntimeError, match=rf"precision='{precision}' needs the cuda backend: it needs an NVIDIA GPU"):
        run(**arguments(), update=UPDATE, precision=precision)
    layer = cornn.CoRNN(2, 4, precision=precision)
    with pytest.raises(RuntimeError, match="needs the cuda backend"):
        layer(torch.randn(5, 3, 2))


@pytest.mark.parametrize("backend", ["portable", "c", "graph", "reference"])
def test_another_backend_ignores_nothing(backend, served):
    with pytest.raises(
        RuntimeError, match=rf"precision='tf32' needs the cuda backend: backend '{backend}' was requested"
    ):
        run(**arguments(), update=UPDATE, precision="tf32", backend=backend)


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match="unknown precision 'half': choose one of exact, tf32, bf16"):
        cornn.CoRNN(2, 4, precision="half")
    with pytest.raises(ValueError, match="unknown precision 'half'"):
        run(**arguments(), update=UPDATE, precision="half")


def test_a_layer_shows_and_keeps_it():
    layer = cornn.CoRNN(2, 4, precision="bf16")
    assert "precision='bf16'" in repr(layer)
    assert copy.deepcopy(layer).precision == "bf16"
    assert "precision" not in repr(cornn.CoRNN(2, 4))


@pytest.mark.parametrize("checkpoint_every", [None, 2])
def test_it_reaches_both_passes(served, checkpoint_every):
    layer = cornn.CoRNN(2, 4, precision="tf32", num_layers=2, checkpoint_every=checkpoint_every)
    layer(torch.randn(5, 3, 2))[0].sum().backward()
    assert {name for name, _ in served} == {"forward", "backward"}
    assert {precision for _, precision in served} == {"tf32"}


def test_it_reaches_the_operator_and_many_models(served):
    given = arguments()
    stacked = {name: x.detach().expand(3, *x.shape).requires_grad_() for name, x in given.items()}

    def one(values):
        return run(**values, update=UPDATE, precision="bf16")

    torch.vmap(one)(stacked)[0].sum().backward()
    assert served == [("forward", "bf16"), ("backward", "bf16")]
    tensors = (*given.values(), None, None)
    options = operator_options(UPDATE, "cuda", True, True, "bf16")
    opcheck(recurrence, (*tensors, *options))
    with torch.no_grad():
        output, last, trail = recurrence(*tensors, *options)
        needs = [True] * len(given) + [False]
        opcheck(recurrence_backward, (output, last, output, trail, *tensors, *options, needs))


@pytest.mark.parametrize(
    ("batch", "autocast", "asked", "found"),
    [
        (512, True, "exact", "bf16"),
        (511, True, "exact", "exact"),
        (512, False, "exact", "exact"),
        (512, True, "tf32", "tf32"),
        (3, False, "tf32", "tf32"),
    ],
)
def test_autocast_means_large_batches(served, monkeypatch, batch, autocast, asked, found):
    monkeypatch.setattr(engine, "autocast_to_bfloat16", lambda: autocast)
    output, _ = run(**arguments(batch), update=UPDATE, precision=asked)
    output.sum().backward()
    assert served == [("forward", found), ("backward", found)]


def test_autocast_leaves_what_has_no_kernel_in_bf16_exact(served, monkeypatch):
    monkeypatch.setattr(engine, "autocast_to_bfloat16", lambda: True)
    monkeypatch.setattr(engine.BACKENDS["cuda"], "usable", lambda problem: (problem.precision == "exact", "a T4"))
    run(**arguments(512), update=UPDATE)[0].sum().backward()
    assert served == [("forward", "exact"), ("backward", "exact")]


def test_what_differentiates_otherwise_says_so(served):
    given = arguments()

    def value(weight):
        return run(**given | {"weight": weight}, update=UPDATE, precision="tf32")[0].sum()

    with pytest.raises(RuntimeError, match="precision='tf32' does not support forward-mode derivatives"):
        torch.func.grad(value)(given["weight"].detach())


def test_where_no_grid_fits_it_says_that_it_is_exact(monkeypatch):
    """On a device with clusters and little else."""
    monkeypatch.setattr(nvrtc, "explain_missing", lambda: None)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: (9, 0))
    small = SimpleNamespace(multi_processor_count=8, shared_memory_per_block_optin=232_448)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: small)
    for cached in (cuda._needs_grid, cuda._grid):
        monkeypatch.setattr(cuda, cached.__name__, cached.__wrapped__)
    assert cuda.usable(problem(128, device="cuda"))[1].endswith("products in tf32")
    assert cuda.usable(problem(512, device="cuda"))[1].endswith("so many neurons do not fit on this device in tf32")
    assert cuda.usable(problem(512, "exact", "cuda"))[1].endswith("in exact fp32")
    assert not cuda.usable(problem(1024, "exact", "cuda"))[0]


def test_only_exact_blocks_make_the_drive():
    update = engine.UPDATES[UPDATE]
    assert cuda.makes_drive(update, 64, 3)
    assert not any(cuda.makes_drive(update, 64, 3, precision=precision) for precision in ("tf32", "bf16"))
    assert not cuda.makes_drive(update, 129, 3)


def test_every_layout_fits_the_smallest_chip():
    """99 KiB of shared memory a block: compute capability 8.6, 8.9 and 12.0."""
    for size in TENSOR_SIZES:
        for precision in ("tf32", "bf16"):
            for spans in (False, True):
                for for_parameters in (False, True):
                    for layout in tensor_plans(size, precision, spans, for_parameters):
                        for direction in ("forward", "backward"):
                            assert layout.shared(direction, spans, for_parameters) <= 99 * 1024


@pytest.mark.parametrize(("batch", "rows"), [(512, 8), (1024, 8), (1100, 16), (4096, 16)])
def test_a_block_takes_two_tiles_where_one_would_leave_a_rest(batch, rows):
    assert tensor_plan(128, 1, batch, 132, "bf16", False, False).rows == rows


@pytest.mark.parametrize("words", [32, 64, 128])
def test_shared_memory_has_no_bank_conflicts(words):
    """Vectors of a tile as tensor.cuh lays them out: 32 banks of a word, each touched once at a time."""
    stride = words + 8

    def position(column):
        return 4 + (column // 2 + 2) % 4 if column % 2 else column // 2

    assert sorted(position(column) for column in range(8)) == list(range(8))
    for first in range(0, 32, 8):  # a load of 16 bytes goes by quarters of a warp
        starts = [position(lane // 4) * stride + 4 * (lane % 4) for lane in range(first, first + 8)]
        assert len({(start + i) % 32 for start in starts for i in range(4)}) == 32
    for parity in (0, 1):
        for first in (0, 16):  # a store of 8 bytes (tf32) by halves
            starts = [position(2 * (lane % 4) + parity) * stride + 2 * (lane // 4) for lane in range(first, first + 16)]
            assert len({(start + i) % 32 for start in starts for i in range(2)}) == 32
        starts = [position(2 * (lane % 4) + parity) * stride + lane // 4 for lane in range(32)]  # of 4 (bf16)
        assert len({start % 32 for start in starts}) == 32
