"""The kernels on tensor cores, run on a CPU by an emulation of a block of threads, against the rounded recurrence.

What it can find: wrong fragments, wrong neurons or sequences, reads of what is not there yet, writes past an end. What
it cannot: how a GPU orders its memory.
"""

import ctypes
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import rounded
import torch
from emulator import COMPILER, load

from cornn.engine.backends.cuda.backend import _macros, _update_macros
from cornn.engine.backends.cuda.layout import TENSOR_SIZES, tensor_plans
from cornn.engine.backends.cuda.nvrtc import KERNELS
from cornn.engine.contract import BackwardInputs, Operands
from cornn.engine.updates import UPDATES

pytestmark = pytest.mark.skipif(
    COMPILER is None or sys.platform != "linux", reason="the emulation is built with g++, on Linux"
)

# Sums of 128 products in another order in fp32, and now and then a state that rounds the other way.
EMULATED = 2e-5
HEADERS = ("activation.cuh", "pointwise.cuh", "update.cuh")
GUARD = 64  # values before and after a tensor that nobody may touch

ENTRY = """
extern "C" void run(int blocks, int threads, void** pointers, const long long* numbers) {{
    run_blocks(blocks, threads, [&] {{ {call}; }});
}}
"""
CALLS = {
    "forward": "forward((float*)pointers[0], (float*)pointers[1], (float*)pointers[2], (float*)pointers[3], "
    + ", ".join(f"(const float*)pointers[{i}]" for i in range(4, 8))
    + ", (const long long*)pointers[8], "
    + ", ".join(f"numbers[{i}]" for i in range(5))
    + ")",
    "backward": "backward("
    + ", ".join(f"(const float*)pointers[{i}]" for i in range(9))
    + ", (const long long*)pointers[9], "
    + ", ".join(f"(float*)pointers[{i}]" for i in range(10, 14))
    + ", "
    + ", ".join(f"numbers[{i}]" for i in range(4))
    + ")",
}


def built(folder: Path, direction: str, macros: dict[str, object]) -> ctypes.CDLL:
    """The kernel's own source, with the emulation in place of the instructions of a GPU."""
    kernel = f"tensor_{direction}.cu"
    sources = {f"{direction}.cpp": f'#include "{kernel}"\n' + ENTRY.format(call=CALLS[direction])}
    for name in ("tensor.cuh", kernel):
        sources[name] = (KERNELS / name).read_text(encoding="utf8")
    sources["tensor_core.cuh"] = Path(__file__).with_name("emulated.h").read_text(encoding="utf8")
    for name in HEADERS:
        text = (KERNELS / name).read_text(encoding="utf8")
        for instruction, function in (("ex2", "exp2f"), ("rcp", "1.f / ")):
            pattern = rf'asm\("{instruction}[^"]*" : "=f"\((\w+)\) : "f"(\(.*\))\);'
            text = re.sub(pattern, rf"\1 = {function}\2;", text)
        assert "asm" not in text
        sources[name] = text
    return load(folder, sources, macros, "-O0")


def guarded(tensor: torch.Tensor) -> torch.Tensor:
    """A copy that lies amid NaN."""
    room = torch.full((tensor.numel() + 2 * GUARD,), torch.nan)
    room[GUARD:-GUARD] = tensor.flatten()
    return room[GUARD:-GUARD].view(tensor.shape)


def untouched(tensor: torch.Tensor) -> bool:
    room = torch.empty(0).set_(tensor.untyped_storage())
    return bool(room[:GUARD].isnan().all() and room[-GUARD:].isnan().all())


def call(library, layout, groups, batch, tensors, numbers) -> None:
    pointers = (ctypes.c_void_p * len(tensors))(*(None if x is None else x.data_ptr() for x in tensors))
    values = (ctypes.c_longlong * len(numbers))(*numbers)
    library.run(layout.blocks(groups, batch), layout.threads, pointers, values)
    assert all(untouched(x) for x in tensors if x is not None and x.is_floating_point())


def arguments(steps, groups, batch, hidden, spans, ragged):
    random = torch.Generator().manual_seed(steps + batch + hidden)

    def draw(*shape):
        return torch.randn(*shape, generator=random)

    dt = torch.rand(1, groups, hidden, generator=random) * 0.3 + 0.1
    given = Operands(
        draw(steps, groups, batch, hidden),
        draw(2, groups, batch, hidden),
        input_weight=None,
        bias=None,
        weight=draw(groups, hidden, 2 * hidden) / hidden**0.5,
        parameters=torch.cat((dt, torch.rand(2, groups, hidden, generator=random) + 0.5)),
        timespans=torch.rand(steps, groups, batch, generator=random) + 0.5 if spans else None,
        lengths=torch.randint(0, steps, (groups, batch), generator=random) if ragged else None,
    )
    return given, (draw(steps, groups, batch, hidden), draw(2, groups, batch, hidden))


def changed(given: Operands, change: Callable[[torch.Tensor], torch.Tensor]) -> Operands:
    """With its real numbers changed."""
    return Operands._make(change(x) if x is not None and x.is_floating_point() else x for x in given)


def assert_near(got: torch.Tensor, want: torch.Tensor, name: str) -> None:
    error = ((got.double() - want).norm() / want.norm().clamp_min(1e-30)).item()
    assert error <= EMULATED, f"{name} is off by {error:.1e}"


# precision, steps, groups, batch, hidden, spans, ragged, gradients of the parameters, tiles, update
CASES = [
    ("tf32", 7, 2, 11, 50, False, True, True, 1, "cornn/explicit/tanh"),
    ("bf16", 7, 2, 11, 50, False, True, True, 1, "cornn/implicit/tanh"),
    ("tf32", 6, 1, 9, 33, True, True, True, 1, "cornn/implicit/tanh"),
    ("bf16", 6, 1, 17, 64, False, False, False, 2, "cornn/implicit/tanh"),
    ("tf32", 5, 1, 5, 127, False, True, False, 1, "cornn/explicit/duffing"),
    ("bf16", 5, 1, 10, 128, True, False, True, 1, "cornn/explicit/tanh"),
    ("tf32", 1, 1, 1, 1, False, False, True, 1, "cornn/explicit/relu"),
]


def check(
    tmp_path, precision, steps, groups, batch, hidden, spans, ragged, for_parameters, tiles, update, with_state=True
):
    size = next(size for size in TENSOR_SIZES if hidden <= size)
    layout = tensor_plans(size, precision, spans, for_parameters)[tiles - 1]
    macros = _macros(layout, _update_macros(UPDATES[update], spans))
    macros |= {"WIDE": int(hidden % 2 == 0), "FOR_PARAMETERS": int(for_parameters)}
    given, (grad_output, grad_last) = arguments(steps, groups, batch, hidden, spans, ragged)
    shape = (steps, groups, batch, hidden)
    options = {"update": update, "precision": precision}
    sizes = [steps, groups, batch, hidden]

    if not with_state:
        given = given._replace(state=torch.zeros_like(given.state))
    want = rounded.forward(given, **options)
    _, state, _, _, *others = changed(given, guarded)
    state = state if with_state else None
    fixed = [state, *others]
    trail = guarded(torch.stack((torch.full(shape, torch.nan), given.input)))
    output, last = (
        guarded(torch.full(shape, torch.nan)),
        guarded(torch.full(shape[1:], torch.nan).expand(2, -1, -1, -1)),
    )
    call(
        built(tmp_path, "forward", macros),
        layout,
        groups,
        batch,
        [trail[1], trail[0], output, last, *fixed],
        [1, *sizes],
    )
    for name, got, expected in zip(
        ("output", "last", "z"), (output, last, trail[0]), (*want[:2], want[2][0]), strict=True
    ):
        assert_near(got, expected, name)

    # The activations of steps past the end of a block's sequences are not written, and nobody asks for them.
    kept = trail.double()
    live = torch.ones(shape, dtype=torch.bool)
    if ragged:
        live = (torch.arange(steps).view(-1, 1, 1) < given.lengths).unsqueeze(-1).expand(shape)
    assert_near(kept[1][live], want[2][1][live], "activation")

    wanted = rounded.backward(given, BackwardInputs(grad_output, grad_last, output, kept), **options)
    grad_drive = guarded(torch.full(shape, torch.nan))
    grad_state = guarded(torch.full_like(given.state, torch.nan)) if with_state else None
    terms = guarded(torch.full((3, *shape[1:]), torch.nan)) if for_parameters else None
    for_spans = guarded(torch.full(shape, torch.nan)) if for_parameters and spans else None
    results = [grad_drive, grad_state, terms, for_spans]
    tensors = [guarded(grad_output), guarded(grad_last), trail[1], trail[0], output, *fixed, *results]
    call(built(tmp_path, "backward", macros), layout, groups, batch, tensors, sizes)
    assert_near(grad_drive, wanted[0], "gradient of the drive")
    if grad_state is not None:
        assert_near(grad_state, wanted[1], "gradient of the state")
    if terms is not None:
        assert_near(terms.sum(-2), wanted[2], "gradients of the parameters")
    if for_spans is not None:
        assert_near(for_spans.sum(-1), wanted[3], "gradient of the timespans")


@pytest.mark.parametrize(
    ("precision", "steps", "groups", "batch", "hidden", "spans", "ragged", "for_parameters", "tiles", "update"), CASES
)
def test_the_kernels_do_what_the_rounded_recurrence_does(
    tmp_path, precision, steps, groups, batch, hidden, spans, ragged, for_parameters, tiles, update
):
    check(tmp_path, precision, steps, groups, batch, hidden, spans, ragged, for_parameters, tiles, update)


def test_without_a_state_they_start_from_zeros(tmp_path):
    check(tmp_path, "tf32", 5, 1, 9, 33, False, True, True, 1, "cornn/explicit/tanh", with_state=False)
