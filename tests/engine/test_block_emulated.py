"""The block kernels in exact fp32, run on a CPU by an emulation of a block of threads, against the portable backend.

What it can find is what test_tensor_emulated.py can: wrong neurons or sequences, wrong updates, reads of what is not
there yet, writes past an end.
"""

import pytest
import torch
from emulation import assert_as_portable, assert_near, built
from engine_calls import random_spectrum
from own_updates import OWN
from test_tensor_emulated import CALLS, ENTRY, call, changed, guarded, pytestmark  # noqa: F401

from cornn import engine
from cornn.engine.backends import portable
from cornn.engine.backends.cuda.backend import _macros, _update_macros
from cornn.engine.backends.cuda.layout import BLOCK_SIZES, Plan
from cornn.engine.contract import Operands, Request

# Where an instruction of a GPU stands, and what stands there on a CPU; what it reads like in the headers.
INSTRUCTIONS = {
    r'asm volatile\("cp.async.ca[^;]*;" ::[^;]*;': "copy_ahead<4>(into, from, wanted);",
    r'asm volatile\("cp.async.commit_group;"[^;]*;': "commit();",
    r'asm volatile\("cp.async.wait_group[^;]*;"[^;]*;': "::wait<AHEAD - 1 - LATER>();",
    r'asm volatile\("" :[^;]*;': ";",
    r'asm\("ex2[^"]*" : "=f"\((\w+)\) : "f"(\(.*\))\);': r"\1 = exp2f\2;",
    r'asm\("rcp[^"]*" : "=f"\((\w+)\) : "f"(\(.*\))\);': r"\1 = 1.f / \2;",
}


# A forward kernel that makes the drive is given input, input_weight and bias besides.
MAKES_DRIVE = CALLS["forward"].removesuffix(")") + "".join(f", (const float*)pointers[{i}]" for i in range(9, 12)) + ")"


@pytest.fixture(autouse=True)
def _registered(monkeypatch):
    for name, update in OWN.items():
        monkeypatch.setitem(engine.UPDATES, name, update)


# update, steps, groups, batch, hidden, sequences a block, ragged, gradients of the parameters
UPDATE = "cornn/explicit/tanh"
CASES = [
    ("leaky", 7, 2, 3, 33, 1, True, True),
    ("fastgrnn", 7, 2, 5, 20, 2, True, True),
    ("modrelu", 6, 1, 9, 20, 4, True, False),
    ("gated", 6, 2, 3, 33, 1, True, True),
    ("gated", 5, 1, 9, 20, 4, True, False),
    ("lipschitz", 7, 2, 3, 33, 1, True, True),
    ("lipschitz", 6, 1, 3, 128, 1, False, True),
    ("lipschitz", 5, 2, 5, 20, 2, True, True),
    ("lipschitz", 5, 1, 9, 100, 4, True, False),
    ("cornn/explicit/tanh", 6, 1, 3, 33, 1, True, True),
    ("smooth", 6, 2, 5, 20, 2, True, True),
    ("undamped", 7, 2, 3, 33, 1, True, True),
    ("undamped", 5, 1, 9, 20, 4, True, False),
]


OLDER = {"__CUDA_ARCH__": 750}
"""For a device whose copies do not arrive later."""


def with_scales(call: str, first: int, count: int) -> str:
    """The call of a kernel that is given scales, or what the drive is made of: `count` pointers from the `first` on."""
    return call.removesuffix(")") + "".join(f", (const float*)pointers[{first + i}]" for i in range(count)) + ")"


CALLS_WITH_SCALES = {"forward": with_scales(CALLS["forward"], 9, 1), "backward": with_scales(CALLS["backward"], 14, 1)}
MAKES_DRIVE_WITH_SCALES = with_scales(CALLS["forward"], 9, 6)


def check(
    tmp_path,
    update,
    steps,
    groups,
    batch,
    hidden,
    rows,
    ragged,
    for_parameters,
    with_state=True,
    device=None,
    durations=False,
):
    rule, random = engine.UPDATES[update], torch.Generator().manual_seed(steps + hidden)
    layout = Plan(next(size for size in BLOCK_SIZES if hidden <= size), rows)
    macros = _macros(layout, _update_macros(rule, durations))
    macros |= {"FOR_PARAMETERS": int(for_parameters), **(device or {})}
    sequence = (steps, groups, batch, hidden)
    driven = (*sequence[:-1], rule.drives * hidden)

    def draw(*shape):
        return torch.randn(*shape, generator=random)

    drive, state = draw(*driven), draw(rule.states, groups, batch, hidden)
    weight = draw(groups, rule.products * hidden, rule.states * hidden) / hidden**0.5
    parameters = torch.rand(len(rule.parameters), groups, hidden, generator=random) * 0.5 + 0.1
    timespans = None
    if durations:
        parameters = torch.stack(random_spectrum(random, groups, hidden)).float()
        timespans = 4 * torch.rand(steps, groups, batch, generator=random)
    lengths = torch.randint(0, steps, (groups, batch), generator=random) if ragged else None
    grad_output, grad_last = draw(*sequence), draw(*state.shape)

    def run(direction, tensors, numbers):
        entry = ENTRY.format(call=CALLS[direction])
        library = built(tmp_path, f"block_{direction}", macros, entry, INSTRUCTIONS)
        call(library, layout, groups, batch, tensors, numbers)

    given = Operands(drive, state if with_state else None, None, None, weight, parameters, timespans, lengths)
    assert_as_portable(update, given, (grad_output, grad_last), run, for_parameters)


@pytest.mark.parametrize(("update", "steps", "groups", "batch", "hidden", "rows", "ragged", "for_parameters"), CASES)
def test_the_kernels_do_what_the_portable_loop_does(
    tmp_path, update, steps, groups, batch, hidden, rows, ragged, for_parameters
):
    check(tmp_path, update, steps, groups, batch, hidden, rows, ragged, for_parameters)


@pytest.mark.parametrize(
    ("steps", "groups", "batch", "hidden", "rows", "ragged", "for_parameters"),
    [(6, 2, 3, 33, 1, True, True), (5, 1, 9, 20, 4, True, False), (4, 1, 2, 128, 1, False, True)],
)
def test_durations(tmp_path, steps, groups, batch, hidden, rows, ragged, for_parameters):
    sizes = steps, groups, batch, hidden, rows, ragged, for_parameters
    check(tmp_path, "cornn/spans/tanh", *sizes, durations=True)


@pytest.mark.parametrize(
    ("update", "rows", "for_parameters"), [(UPDATE, 1, True), (UPDATE, 2, False), ("gated", 1, True)]
)
def test_without_a_state_they_start_from_zeros(tmp_path, update, rows, for_parameters):
    check(tmp_path, update, 6, 2, 3, 20, rows, True, for_parameters, with_state=False)


@pytest.mark.parametrize(
    ("update", "steps", "groups", "batch", "hidden", "rows", "ragged", "for_parameters"),
    [
        (UPDATE, 6, 1, 3, 33, 1, True, True),
        (UPDATE, 7, 2, 9, 20, 4, True, False),
        ("gated", 6, 2, 3, 33, 2, True, True),
    ],
)
def test_they_do_so_without_copies_that_arrive_later(
    tmp_path, update, steps, groups, batch, hidden, rows, ragged, for_parameters
):
    check(tmp_path, update, steps, groups, batch, hidden, rows, ragged, for_parameters, device=OLDER)


# update, steps, groups, batch, hidden, features, sequences a block, and what else there is
MADE = [
    ("cornn/explicit/tanh", 6, 1, 3, 33, 1, 1, "bias trail"),
    ("cornn/implicit/tanh", 6, 2, 5, 20, 3, 2, "lengths timespans trail"),
    ("cornn/explicit/tanh", 5, 2, 9, 20, 2, 4, "bias lengths"),
    ("cornn/explicit/tanh", 5, 1, 2, 128, 4, 1, "bias timespans trail"),
    ("gated", 6, 2, 3, 33, 2, 1, "bias lengths trail"),
    ("lipschitz", 5, 2, 5, 20, 2, 2, "lengths trail"),
    ("leaky", 5, 1, 9, 40, 1, 4, "bias lengths"),
    ("cornn/explicit/tanh", 6, 2, 9, 20, 16, 4, "bias lengths trail"),
    ("cornn/explicit/tanh", 5, 1, 3, 50, 9, 1, "bias trail"),
    ("undamped", 5, 2, 3, 20, 2, 2, "bias lengths trail"),
    ("cornn/explicit/tanh", 6, 2, 9, 20, 3, 4, "bias lengths trail older"),
]


@pytest.mark.parametrize(("update", "steps", "groups", "batch", "hidden", "features", "rows", "there"), MADE)
def test_a_kernel_makes_the_drive_of_the_input(tmp_path, update, steps, groups, batch, hidden, features, rows, there):
    rule, random = engine.UPDATES[update], torch.Generator().manual_seed(steps + hidden + features)
    layout = Plan(next(size for size in BLOCK_SIZES if hidden <= size), rows)
    macros = _macros(layout, _update_macros(rule, "timespans" in there)) | {"FEATURES": features}
    macros |= OLDER if "older" in there else {}
    drives, keep = rule.drives * hidden, "trail" in there

    def draw(*shape):
        return torch.randn(*shape, generator=random)

    input, input_weight = draw(steps, groups, batch, features), draw(groups, drives, features)
    bias = draw(groups, drives) if "bias" in there else None
    state = draw(rule.states, groups, batch, hidden)
    weight = draw(groups, rule.products * hidden, rule.states * hidden) / hidden**0.5
    parameters = torch.rand(len(rule.parameters), groups, hidden, generator=random) * 0.5 + 0.1
    timespans = torch.rand(steps, groups, batch, generator=random) + 0.5 if "timespans" in there else None
    lengths = torch.randint(0, steps, (groups, batch), generator=random) if "lengths" in there else None

    wanted_trail = torch.full((rule.trail, steps, groups, batch, drives), torch.nan, dtype=torch.float64)
    wanted_trail[-1] = input.double() @ input_weight.double().mT
    if bias is not None:
        wanted_trail[-1] += bias.unsqueeze(-2)
    given = Operands(input, state, input_weight, bias, weight, parameters, timespans, lengths)
    wanted = portable.forward_steps(changed(given, torch.Tensor.double), wanted_trail, Request(rule, keep=True))

    trail = guarded(torch.full(wanted_trail.shape, torch.nan)) if keep else None
    output = guarded(torch.full((steps, groups, batch, hidden), torch.nan))
    last = guarded(torch.full(state.shape, torch.nan))
    results = [trail[-1] if keep else None, trail[0] if keep and rule.states == 2 else None, output, last]
    input, state, input_weight, bias, *others = changed(given, guarded)
    tensors = [*results, state, *others, input, input_weight, bias]
    library = built(tmp_path, "block_forward", macros, ENTRY.format(call=MAKES_DRIVE), INSTRUCTIONS)
    call(library, layout, groups, batch, tensors, [keep, steps, groups, batch, hidden])
    assert_near(output, wanted[0], "output")
    assert_near(last, wanted[1], "last")
    if trail is not None:
        # Of steps past the end of a block's sequences nothing is kept.
        ends = torch.full((groups, batch), steps) if lengths is None else lengths
        live = torch.arange(steps).view(-1, 1, 1) < ends
        assert_near(trail[-1][live], wanted_trail[-1][live], "what is kept")
