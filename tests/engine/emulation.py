"""A kernel that is emulated on the CPU, built, and held against the portable backend in float64."""

import ctypes
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch
from emulator import load
from test_tensor_emulated import HEADERS, changed, guarded
from torch import Tensor

from cornn import engine
from cornn.engine.backends import portable
from cornn.engine.backends.cuda.nvrtc import KERNELS
from cornn.engine.contract import BackwardInputs, Operands, Request, initial_state
from cornn.engine.updates import Spans

# Sums of as many products in fp32 as there are neurons, a few steps of them.
EMULATED = 5e-6

Run = Callable[[str, Sequence[Tensor | None], Sequence[int]], None]
"""(direction, tensors, numbers): one pass of the emulated kernel."""


def built(
    folder: Path,
    kernel: str,
    macros: Mapping[str, object],
    entry: str,
    instructions: Mapping[str, str],
    *,
    headers: Sequence[str] = (),
    emulation: str | None = None,
    optimisation: str = "-O0",
) -> ctypes.CDLL:
    """A kernel's own source, with the emulation in place of the instructions of a GPU.

    kernel: "block_forward" for block_forward.cu on emulated_block.h. entry: the C of `run`, which calls it.
    instructions: patterns, and what stands for them. headers: the kernel's, besides those that all have.
    emulation: its header, where it is not that of the kernel's kind.
    """
    kind, direction = kernel.split("_")
    emulation = emulation or f"emulated_{kind}.h"
    sources = {f"{direction}.cpp": f'#include "{emulation}"\n#include "{kernel}.cu"\n{entry}'}
    for name in (*HEADERS, "tile.cuh", *headers, f"{kernel}.cu"):
        text = (KERNELS / name).read_text(encoding="utf8")
        for pattern, replacement in instructions.items():
            text = re.sub(pattern, replacement, text)
        assert "asm" not in text.replace("assembler", "")
        sources[name] = text
    return load(folder, sources, macros, optimisation)


def assert_near(got: Tensor, want: Tensor, name: str) -> None:
    error = ((got.double() - want).norm() / want.norm().clamp_min(1e-30)).item()
    assert error <= EMULATED, f"{name} is off by {error:.1e}"


def assert_as_portable(
    update: str, given: Operands, gradients: Sequence[Tensor], run: Run, for_parameters: bool
) -> None:
    """Forward and backward, with NaN around every tensor and in all that is to be written.

    given: its input is the drive; without a state the kernels are given none. gradients: of the output and of the last
    state. What is kept of steps past the end of a block's sequences is not written, and nobody asks for it.
    """
    rule, (grad_output, grad_last) = engine.UPDATES[update], gradients
    drive, spans = given.input, given.timespans is not None
    state = initial_state(rule, given)
    sequence, sizes = grad_output.shape, list(grad_output.shape)

    def nothing(*shape: int) -> Tensor:
        return guarded(torch.full(shape, torch.nan))

    trail = torch.full((rule.trail, *drive.shape), torch.nan)
    trail[-1] = drive
    wanted_trail, doubles = trail.double(), changed(given._replace(state=state), Tensor.double)
    wanted = portable.forward_steps(doubles, wanted_trail, Request(rule, keep=True))
    trail, output, last = guarded(trail), nothing(*sequence), nothing(*state.shape)
    _, of_state, _, _, *others = changed(given, guarded)
    fixed = [of_state, *others]
    run("forward", [trail[-1], trail[0] if rule.states == 2 else None, output, last, *fixed], [1, *sizes])
    assert_near(output, wanted[0], "output")
    assert_near(last, wanted[1], "last")

    after = BackwardInputs(grad_output.double(), grad_last.double(), wanted[0], wanted_trail)
    found = portable.backward_steps(doubles, after, rule, True, spans)
    grad_drive, grad_state = nothing(*drive.shape), None if given.state is None else nothing(*state.shape)
    terms = nothing(len(given.parameters), *sequence[1:]) if for_parameters else None
    for_spans = nothing(*sequence) if for_parameters and spans else None
    tensors = [guarded(grad_output), guarded(grad_last), trail[-1], trail[0], output, *fixed]
    run("backward", [*tensors, grad_drive, grad_state, terms, for_spans], sizes)
    assert_near(grad_drive, found.drive, "gradient of the drive")
    if grad_state is not None:
        assert_near(grad_state, found.state, "gradient of the state")
    if terms is not None and not isinstance(rule, Spans):  # its kernels have no gradients of the parameters
        assert_near(terms.sum(-2), found.parameters, "gradients of the parameters")
    if for_spans is not None:
        assert_near(for_spans.sum(-1), found.timespans, "gradients of the timespans")
