"""A kernel that is emulated on the CPU, held against the portable backend in float64."""

from collections.abc import Callable, Mapping, Sequence

import torch
from test_tensor_emulated import guarded
from torch import Tensor

from cornn import engine
from cornn.engine import portable

# Sums of as many products in fp32 as there are neurons, a few steps of them.
EMULATED = 5e-6

FIXED = ("state", "weight", "parameters", "timespans", "lengths")

Run = Callable[[str, Sequence[Tensor | None], Sequence[int]], None]
"""(direction, tensors, numbers): one pass of the emulated kernel."""


def assert_near(got: Tensor, want: Tensor, name: str) -> None:
    error = ((got.double() - want).norm() / want.norm().clamp_min(1e-30)).item()
    assert error <= EMULATED, f"{name} is off by {error:.1e}"


def assert_as_portable(
    update: str, given: Mapping[str, Tensor | None], gradients: Sequence[Tensor], run: Run, for_parameters: bool
) -> None:
    """Forward and backward, with NaN around every tensor and in all that is to be written.

    given: the drive, and `FIXED`. gradients: of the output and of the last state. What is kept of steps past the end of
    a block's sequences is not written, and nobody asks for it.
    """
    rule, (grad_output, grad_last) = engine.UPDATES[update], gradients
    drive, state, spans = given["drive"], given["state"], given["timespans"] is not None
    sequence, sizes = grad_output.shape, list(grad_output.shape)

    def nothing(*shape: int) -> Tensor:
        return guarded(torch.full(shape, torch.nan))

    def real(name: str, change: Callable[[Tensor], Tensor]) -> Tensor | None:
        tensor = given[name]
        return change(tensor) if tensor is not None and tensor.is_floating_point() else tensor

    trail = torch.full((rule.trail, *drive.shape), torch.nan)
    trail[-1] = drive
    wanted_trail, doubles = trail.double(), [real(name, Tensor.double) for name in FIXED]
    wanted = portable.forward(wanted_trail, *doubles, update=update, every=True, keep=True)
    trail, output, last = guarded(trail), nothing(*sequence), nothing(*state.shape)
    fixed = [real(name, guarded) for name in FIXED]
    run("forward", [trail[-1], trail[0] if rule.states == 2 else None, output, last, *fixed], [1, *sizes])
    assert_near(output, wanted[0], "output")
    assert_near(last, wanted[1], "last")

    found = portable.backward(
        grad_output.double(),
        grad_last.double(),
        wanted[0],
        wanted_trail,
        *doubles,
        update=update,
        need_parameters=True,
        need_timespans=spans,
    )
    grad_drive, grad_state = nothing(*drive.shape), nothing(*state.shape)
    terms = nothing(len(given["parameters"]), *sequence[1:]) if for_parameters else None
    for_spans = nothing(*sequence) if for_parameters and spans else None
    tensors = [guarded(grad_output), guarded(grad_last), trail[-1], trail[0], output, *fixed]
    run("backward", [*tensors, grad_drive, grad_state, terms, for_spans], sizes)
    assert_near(grad_drive, found.drive, "gradient of the drive")
    assert_near(grad_state, found.state, "gradient of the state")
    if terms is not None:
        assert_near(terms.sum(-2), found.parameters, "gradients of the parameters")
    if for_spans is not None:
        assert_near(for_spans.sum(-1), found.timespans, "gradients of the timespans")
