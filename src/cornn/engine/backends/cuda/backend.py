"""The recurrence on NVIDIA GPUs: one kernel forward and one backward, in exact fp32.

Up to 128 neurons a block holds the weights in its registers for the whole sequence, above that a cluster of blocks
does. With few features a block also makes the drive V u + b as it goes: nobody writes it down, and what is read is the
input. The kernels say how; here they are chosen, compiled and launched. The interface is in `contract.py`.

`reduced` is the same with the products of the steps on tensor cores, for large batches: weights, states and deltas are
rounded to tf32 or bf16 as they enter a product, everything else stays fp32. Above 128 neurons there is no such kernel,
and the exact one serves.

The same input gives the same result to the bit, on the same kind of device and with the same versions: nothing is
summed in an order that may change.
"""

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from cornn.engine.backends.cuda.launch import Launch, launch, prepare, unable
from cornn.engine.backends.cuda.layout import (
    BLOCK_SIZES,
    INPUT_WEIGHTS,
    LARGEST,
    ROWS,
    ROWS_WITH_PARAMETERS,
    TENSOR_SIZES,
    Plan,
    TensorPlan,
    plan,
    tensor_plan,
)
from cornn.engine.contract import After, Given, Gradients, Problem, about_this_machine
from cornn.engine.updates import UPDATES, Oscillator

__all__ = ["backward", "forward", "makes_drive", "reduced", "usable"]

ACTIVATIONS = ("tanh", "identity", "relu", "duffing")
"""Activations that kernels/activation.cuh defines, in capitals."""


def usable(problem: Problem) -> tuple[bool, str]:
    if problem.device.type != "cuda":
        return False, f"it needs an NVIDIA GPU, the input is on {problem.device.type}"
    if torch.version.hip is not None:
        return False, "it needs an NVIDIA GPU, this PyTorch is built for AMD GPUs"
    if problem.dtype != torch.float32:
        return False, f"it computes in float32, the input is {str(problem.dtype).removeprefix('torch.')}"
    rule = UPDATES[problem.update]
    if isinstance(rule, Oscillator) and rule.activation not in ACTIVATIONS:
        return False, f"it has no kernel for the activation {rule.activation!r}, only for {', '.join(ACTIVATIONS)}"
    if rule.states == 1 and problem.hidden > BLOCK_SIZES[-1]:
        return (
            False,
            f"its kernels for networks with one state support up to {BLOCK_SIZES[-1]} neurons, not {problem.hidden}",
        )
    if rule.states == 1 and problem.precision != "exact":
        return False, f"its kernels for networks with one state compute in exact float32, not in {problem.precision}"
    if problem.hidden > LARGEST:
        return False, f"{problem.hidden} neurons do not fit on the chip (at most {LARGEST})"
    if problem.hidden > BLOCK_SIZES[-1] and problem.groups * problem.batch * problem.hidden >= 2**30:
        return False, "its cluster kernels count the bytes of a step with 32 bits: use smaller batches"
    return _usable_there(problem.device.index, problem.hidden, problem.precision)


@about_this_machine
def _usable_there(index: int | None, hidden: int, precision: str) -> tuple[bool, str]:
    if reason := unable(index):
        return False, reason
    major, minor = torch.cuda.get_device_capability(index)
    if hidden > BLOCK_SIZES[-1] and major not in (9, 10):
        return False, f"above {BLOCK_SIZES[-1]} neurons it needs compute capability 9.0 or 10.0, not {major}.{minor}"
    kernels = "one fused kernel forward and one backward"
    if precision == "exact":
        return True, f"{kernels}, in exact fp32"
    if hidden > TENSOR_SIZES[-1]:
        return True, f"{kernels}, in exact fp32: no reduced-precision kernel above {TENSOR_SIZES[-1]} neurons"
    return True, f"{kernels}, products in {precision}"


def makes_drive(update: str, hidden: int, features: int) -> bool:
    return hidden <= BLOCK_SIZES[-1] and 1 <= features * UPDATES[update].drives <= INPUT_WEIGHTS


def _macros(layout: Plan | TensorPlan, macros: dict[str, object]) -> dict[str, object]:
    return {**layout.macros, **macros}


def _update_macros(update: str, timespans: bool) -> dict[str, object]:
    rule = UPDATES[update]
    coupled = isinstance(rule, Oscillator)
    return {
        "UPDATE": rule.kernel,
        "IMPLICIT": int(coupled and rule.damping == "implicit"),
        "ACTIVATION": rule.activation.upper() if coupled else "TANH",
        "SPANS": int(timespans),
    }


@functools.cache
def _prepared(
    direction: str,
    update: str,
    spans: bool,
    for_parameters: bool,
    precision: str,
    wide: bool,
    device: int,
    groups: int,
    batch: int,
    hidden: int,
    features: int = 0,
) -> Launch | None:
    """How to launch; None if there is nothing to compute. With `features` the kernel makes the drive of them."""
    multiprocessors = torch.cuda.get_device_properties(device).multi_processor_count
    macros = _update_macros(update, spans)
    if precision == "exact":
        layout = plan(hidden, groups, batch, multiprocessors, ROWS_WITH_PARAMETERS if for_parameters else ROWS)
    else:
        layout = tensor_plan(hidden, groups, batch, multiprocessors, precision, spans, for_parameters)
        macros["WIDE"] = int(wide)
    blocks = layout.blocks(groups, batch)
    if blocks == 0 or hidden == 0:
        return None
    macros = _macros(layout, macros)
    if direction == "backward":
        macros["FOR_PARAMETERS"] = int(for_parameters)
    if features:
        macros["FEATURES"] = features
    shared = layout.shared(direction, spans, for_parameters)
    return prepare(f"{layout.kind}_{direction}.cu", direction, macros, device, blocks, layout.threads, shared)


def _run(
    direction: str,
    given: Given,
    first: Sequence[Tensor | None],
    then: Sequence[Tensor | int | None],
    *,
    update: str,
    precision: str,
    for_parameters: bool = False,
) -> None:
    """Run a kernel on the current stream of its device: its own arguments stand around those that every kernel has."""
    state, spans = given.state, given.timespans is not None
    size = state.shape[1] if state.dim() == 4 else 1, state.shape[-2], state.shape[-1]
    fixed = (_read(x) for x in (state, given.weight, given.parameters, given.timespans))
    lengths = None if given.lengths is None else given.lengths.to(state.device, torch.int64).contiguous()
    arguments = [*first, *fixed, lengths, *then]
    if size[-1] > TENSOR_SIZES[-1]:
        precision = "exact"
    # Tensor core kernels move two neurons at a time where they may.
    wide = precision != "exact" and size[-1] % 2 == 0
    wide = wide and all(x.data_ptr() % 8 == 0 for x in arguments if isinstance(x, Tensor))
    made = direction == "forward" and given.input_weight is not None
    input_map = (given.input, given.input_weight, given.bias) if made else ()
    features = given.input.shape[-1] if made else 0
    kind = direction, update, spans, for_parameters, precision, wide, state.device.index
    prepared = _prepared(*kind, *size, features)
    if prepared is not None:
        launch(prepared, [*arguments, given.input.shape[0], *size, *map(_read, input_map)])


def _read(tensor: Tensor | None) -> Tensor | None:
    """As the kernels read it."""
    return None if tensor is None else tensor.float().contiguous()


def forward(
    given: Given, trail: Tensor, *, update: str, every: bool, keep: bool, precision: str = "exact"
) -> tuple[Tensor, Tensor]:
    if not trail.is_contiguous():
        raise ValueError("the trail must be contiguous, because saved values are written into it")
    state = given.state
    output = trail.new_empty((*trail.shape[1:-1], state.shape[-1]) if keep or every else 0)
    last = torch.empty_like(state, memory_format=torch.contiguous_format)
    results = [
        trail[-1] if len(trail) else None,
        trail[0] if keep and len(state) == 2 else None,
        output if keep or every else None,
        last,
    ]
    _run("forward", given, results, [keep], update=update, precision=precision)
    return output, last


def backward(
    given: Given,
    after: After,
    *,
    update: str,
    need_parameters: bool,
    need_timespans: bool,
    precision: str = "exact",
) -> Gradients:
    trail, output, state = after.trail.contiguous(), after.output.contiguous(), given.state
    need = need_parameters or need_timespans
    grad_drive = torch.empty_like(trail[-1])
    grad_state = torch.empty_like(state, memory_format=torch.contiguous_format)
    # For each neuron of each sequence, summed below in a fixed order.
    terms = state.new_empty(len(given.parameters), *state.shape[1:]) if need else None
    for_spans = torch.empty_like(output) if need_timespans else None
    read = [_read(after.grad_output), _read(after.grad_last), trail[-1], trail[0], output]
    results = [grad_drive, grad_state, terms, for_spans]
    _run("backward", given, read, results, update=update, precision=precision, for_parameters=need)
    return Gradients(
        drive=grad_drive,
        state=grad_state,
        parameters=terms.sum(-2) if need_parameters and terms is not None else None,
        timespans=for_spans.sum(-1) if for_spans is not None else None,
    )


class Passes(NamedTuple):
    """`forward` and `backward` of this module in one precision."""

    forward: Callable[..., tuple[Tensor, Tensor]]
    backward: Callable[..., Gradients]


@functools.cache
def reduced(precision: str) -> Passes:
    """The passes with products in "tf32" or "bf16"."""
    return Passes(functools.partial(forward, precision=precision), functools.partial(backward, precision=precision))
