"""The recurrence on NVIDIA GPUs: one kernel forward and one backward, in the accuracy of fp32.

Up to 128 neurons, one block holds the weights in its registers for the whole sequence. Up to 512, a cluster of blocks
does, on devices that have clusters. Above that, a grid of blocks that fills the device holds them in shared memory.
With few features a block also computes the drive V u + b in each step: it reads the input, and no drive is stored.
This module chooses, compiles and launches the kernels; their sources explain how they work. The interface is in
`contract.py`.

With a precision other than "exact", the products of the steps run on tensor cores: weights, states and deltas are
rounded to tf32 or bf16 when they enter a product, everything else stays fp32. Above 128 neurons a grid of blocks runs
them, and with bf16 the products of the weight gradients are rounded too. Between 128 and 512 neurons small batches use
the exact cluster kernel, which is faster for them.

In "exact" precision every product has the accuracy of fp32. Where tensor cores are fast enough, they compute the
products of grids and of large weight gradients as sums of products of bf16 pieces (kernels/split.cuh).

On the same kind of device and with the same versions, the same input gives bitwise identical results: every sum has a
fixed order.
"""

import functools
from collections.abc import Sequence

import torch
from torch import Tensor

from cornn.engine import gemms
from cornn.engine.backends.cuda.launch import Launch, explain_unusable, launch, make_plain, prepare
from cornn.engine.backends.cuda.layout import (
    BLOCK_SIZES,
    INPUT_WEIGHTS,
    INPUT_WEIGHTS_WITH_SPANS,
    LARGEST_CLUSTER,
    ROWS,
    ROWS_WITH_PARAMETERS,
    TENSOR_SIZES,
    GridPlan,
    Plan,
    TensorPlan,
    grid_plan,
    plan,
    prefers_cluster,
    tensor_plan,
)
from cornn.engine.backends.cuda.weights import gradient_by_pieces, has_pieces, is_small, weight_gradients
from cornn.engine.contract import (
    BackwardInputs,
    ForwardResult,
    Gradients,
    Needs,
    Operands,
    Problem,
    Request,
    Scales,
    constant_when_traced,
)
from cornn.engine.gemms import StepGradients
from cornn.engine.updates import Oscillator, Spans, TimedUpdate, Update

__all__ = ["backward", "backward_steps", "forward", "kernel_kind", "makes_drive", "run_kernel", "usable"]

MIN_CAPABILITY, MIN_CAPABILITY_OF_OTHERS = (7, 5), (8, 0)
"""Smallest compute capability of the block kernels in exact fp32, and of all others."""
ACTIVATIONS = ("tanh", "identity", "relu", "duffing")
"""Activations that kernels/activation.cuh defines, in capitals."""
LARGEST_SPANS_WITH_DRIVE = 96
"""Most neurons for which a kernel of `Spans` has registers left to make the drive."""


def usable(problem: Problem) -> tuple[bool, str]:
    if problem.device.type != "cuda":
        return False, f"it needs an NVIDIA GPU, the input is on {problem.device.type}"
    if torch.version.hip is not None:
        return False, "it needs an NVIDIA GPU, this PyTorch is built for AMD GPUs"
    if problem.dtype != torch.float32:
        return False, f"it computes in float32, the input is {str(problem.dtype).removeprefix('torch.')}"
    rule = problem.update
    if isinstance(rule, TimedUpdate):
        if rule.activation not in ACTIVATIONS:
            return False, f"it has no kernel for the activation {rule.activation!r}, only for {', '.join(ACTIVATIONS)}"
    elif rule.code is None:
        return False, f"the update {rule.name!r} has no code"
    every_kernel = isinstance(rule, Oscillator)  # the other updates have block kernels in exact fp32 only
    if not every_kernel and problem.hidden > BLOCK_SIZES[-1]:
        return False, f"its kernels for {rule.name!r} support up to {BLOCK_SIZES[-1]} neurons, not {problem.hidden}"
    if not every_kernel and problem.precision != "exact":
        return False, f"its kernels for {rule.name!r} compute in exact float32, not in {problem.precision}"
    if problem.hidden > BLOCK_SIZES[-1] and problem.groups * problem.batch * problem.hidden >= 2**30:
        return False, "its cluster kernels count the bytes of a step with 32 bits: use smaller batches"
    return _usable_there(problem.device.index, problem.hidden, problem.precision)


@constant_when_traced
def _usable_there(index: int | None, hidden: int, precision: str) -> tuple[bool, str]:
    minimum = MIN_CAPABILITY if hidden <= BLOCK_SIZES[-1] and precision == "exact" else MIN_CAPABILITY_OF_OTHERS
    if reason := explain_unusable(index, minimum):
        return False, reason
    kernels = "one fused kernel forward and one backward"
    if precision != "exact" and (hidden <= TENSOR_SIZES[-1] or _grid(index, hidden, 1, precision)):
        small = TENSOR_SIZES[-1] < hidden <= LARGEST_CLUSTER and not _needs_grid(index, hidden)
        return True, f"{kernels}, products in {precision}" + (" for large batches" if small else "")
    if _needs_grid(index, hidden) and _grid(index, hidden, 1) is None:
        return False, f"the weights of {hidden} neurons do not fit on this device"
    largest = "" if precision == "exact" else f": so many neurons do not fit on this device in {precision}"
    return True, f"{kernels}, in exact fp32{largest}"


def kernel_kind(index: int | None, hidden: int, precision: str) -> str | None:
    """Return what holds the weights, "block", "cluster" or "grid"; None if the weights do not fit."""
    if hidden <= BLOCK_SIZES[-1]:
        return "block"
    if precision == "exact" and not _needs_grid(index, hidden):
        return "cluster"
    return None if _grid(index, hidden, 1, precision) is None else "grid"


@functools.cache
def _needs_grid(device: int | None, hidden: int) -> bool:
    """Return whether the weights fit neither into a block nor into a cluster of this device."""
    clusters = torch.cuda.get_device_capability(device)[0] in (9, 10)
    return hidden > (LARGEST_CLUSTER if clusters else BLOCK_SIZES[-1])


@functools.cache
def prefers_pieces(device: int | None) -> bool:
    """Return whether products of bf16 pieces on tensor cores are faster than products in fp32.

    They are on data-centre GPUs. On others, six products of pieces take longer than one in fp32.
    """
    return torch.cuda.get_device_capability(device) in ((8, 0), (9, 0), (10, 0))


@functools.cache
def _grid(device: int | None, hidden: int, batch: int, precision: str = "exact", rich: bool = False) -> GridPlan | None:
    properties = torch.cuda.get_device_properties(device)
    shared, count = properties.shared_memory_per_block_optin, properties.multi_processor_count
    return grid_plan(hidden, batch, count, shared, precision, split=prefers_pieces(device), rich=rich)


@functools.cache
def _choose_grid(
    device: int | None, groups: int, batch: int, hidden: int, precision: str, rich: bool
) -> GridPlan | None:
    """Return the grid for a problem of more than 128 neurons, or None if a cluster runs it."""
    exact = _grid(device, hidden, batch, rich=rich)
    grid = exact if precision == "exact" else _grid(device, hidden, batch, precision, rich) or exact
    if grid is None or _needs_grid(device, hidden):
        return grid
    if grid.precision in ("exact", "split"):  # a cluster is faster in fp32: results/exact-variants.json
        return None
    multiprocessors = torch.cuda.get_device_properties(device).multi_processor_count
    return None if prefers_cluster(hidden, groups, batch, multiprocessors, grid) else grid


def makes_drive(update: Update, hidden: int, features: int, spans: bool = False, precision: str = "exact") -> bool:
    """Return whether the forward kernel computes the drive itself, step by step."""
    if hidden > BLOCK_SIZES[-1] or precision != "exact" or features == 0:
        return False
    if isinstance(update, Spans) and hidden > LARGEST_SPANS_WITH_DRIVE:
        return False
    most = next(most for size, most in INPUT_WEIGHTS.items() if hidden <= size)
    return features * update.drives <= (min(most, INPUT_WEIGHTS_WITH_SPANS) if spans else most)


def _macros(layout: Plan | TensorPlan | GridPlan, macros: dict[str, object]) -> dict[str, object]:
    return {**layout.macros, **macros}


def _update_macros(update: Update, timespans: bool) -> dict[str, object]:
    return {**update.macros, "SPANS": int(timespans)}


@functools.cache
def _prepare(
    direction: str,
    update: Update,
    spans: bool,
    for_parameters: bool,
    precision: str,
    wide: bool,
    device: int,
    groups: int,
    batch: int,
    hidden: int,
    features: int = 0,
    scaled: bool = False,
) -> Launch:
    """Prepare a kernel of one block or of a cluster.

    features: number of features, if the kernel computes the drive. scaled: whether the weights have scales.
    """
    multiprocessors = torch.cuda.get_device_properties(device).multi_processor_count
    macros = _update_macros(update, spans)
    if precision == "exact":
        layout = plan(hidden, groups, batch, multiprocessors, ROWS_WITH_PARAMETERS if for_parameters else ROWS)
    else:
        layout = tensor_plan(hidden, groups, batch, multiprocessors, precision, spans, for_parameters)
        macros["WIDE"] = int(wide)
    macros = _macros(layout, macros)
    if direction == "backward":
        macros["FOR_PARAMETERS"] = int(for_parameters)
    if features:
        macros["FEATURES"] = features
    if scaled:
        macros["SCALED"] = 1
    shared = layout.shared(direction, spans, for_parameters)
    blocks = layout.blocks(groups, batch)
    return prepare(f"{layout.kind}_{direction}.cu", direction, macros, device, blocks, layout.threads, shared)


@functools.cache
def _prepare_grid(
    direction: str, update: Update, spans: bool, for_parameters: bool, device: int, layout: GridPlan
) -> Launch:
    macros = _macros(layout, _update_macros(update, spans))
    if direction == "backward":
        macros["FOR_PARAMETERS"] = int(for_parameters)
    blocks, shared = layout.bands * layout.teams, layout.shared()
    return prepare(f"grid_{direction}.cu", direction, macros, device, blocks, layout.threads, shared, cooperative=True)


def _run_grid(prepared: Launch, layout: GridPlan, operands: Operands, arguments: list, groups: int, batch: int) -> None:
    """Run a kernel in launches of as many sequences as fit on the device."""
    for group in range(groups):
        for begin in range(0, batch, layout.sequences * layout.teams):
            teams = min(layout.teams, -(-(batch - begin) // layout.sequences))
            values = operands.input.new_zeros(teams * layout.values)
            counters = torch.zeros(32 * teams, dtype=torch.int32, device=values.device)
            launch(prepared._replace(blocks=layout.bands * teams), [*arguments, values, counters, group, begin])


def run_kernel(
    direction: str,
    operands: Operands,
    first: Sequence[Tensor | None],
    then: Sequence[Tensor | int | None],
    request: Request,
    *,
    makes_drive: bool = False,
    for_parameters: bool = False,
    scales: Scales | None = None,
) -> None:
    """Run a kernel on the current stream of its device.

    Args:
        direction: "forward" or "backward".
        operands: The tensors of the recurrence.
        first: Arguments of this kernel before those that all kernels share.
        then: Arguments of this kernel after them.
        request: The options of the call.
        makes_drive: Whether the kernel computes the drive.
        for_parameters: Whether gradients of the parameters or timespans are needed.
        scales: Scales of R, and with `makes_drive` of V and b. Only block kernels support them.
    """
    update, _, _, precision = request
    input, state, input_weight, bias, weight, parameters, timespans, lengths = operands
    shape, spans = input.shape, timespans is not None
    hidden = weight.shape[-2] // update.products
    size = shape[1] if len(shape) == 4 else 1, shape[-2], hidden
    device = input.device.index
    if 0 in size:
        return
    rich = spans or for_parameters
    grid = _choose_grid(device, *size, precision, rich) if hidden > BLOCK_SIZES[-1] else None
    if state is None and direction == "forward" and hidden > BLOCK_SIZES[-1] and grid is None:
        # Cluster kernels have no registers left for the case without an initial state.
        state = input.new_zeros(update.states, *shape[1:-1], hidden)
    fixed = (make_plain(state), make_plain(weight), make_plain(parameters), make_plain(timespans))
    if lengths is not None:
        lengths = lengths.to(input.device, torch.int64).contiguous()
    arguments = [*first, *fixed, lengths, *then]
    wide = False
    if precision != "exact":
        if hidden > TENSOR_SIZES[-1]:
            precision = "exact"
        # Tensor core kernels move two neurons at a time if addresses are aligned.
        elif hidden % 2 == 0:
            wide = all(x.data_ptr() % 8 == 0 for x in arguments if isinstance(x, Tensor))
    if grid is not None:
        arguments += (shape[0], *size)
        if direction == "forward":
            arguments.append(None if state is None else make_plain(state[0] @ weight[..., :hidden].mT))
        prepared = _prepare_grid(direction, update, spans, for_parameters, device, grid)
        _run_grid(prepared, grid, operands, arguments, *size[:2])
        return
    features = shape[-1] if makes_drive else 0
    scaled = scales is not None
    prepared = _prepare(direction, update, spans, for_parameters, precision, wide, device, *size, features, scaled)
    arguments += (shape[0], *size)
    if scales is not None:
        arguments.append(make_plain(scales.weight))
    if makes_drive:
        arguments += (make_plain(input), make_plain(input_weight), make_plain(bias))
        if scales is not None:
            arguments += (make_plain(scales.input_weight), make_plain(scales.bias))
    launch(prepared, arguments)


def _multiplies_scales(hidden: int, precision: str) -> bool:
    """Return whether the kernels multiply R by its scale while reading it: only block kernels do."""
    return hidden <= BLOCK_SIZES[-1] and precision == "exact"


def forward(operands: Operands, request: Request, scales: Scales | None = None) -> ForwardResult:
    update, every, keep, precision = request
    (*shape, features), hidden = operands.input.shape, operands.weight.shape[-2] // update.products
    spans = operands.timespans is not None
    own_drive = operands.input_weight is not None and makes_drive(update, hidden, features, spans, precision)
    if scales is not None:
        block = _multiplies_scales(hidden, precision)
        operands = gemms.apply_scales(operands, scales, drive=not own_drive, weight=not block)
        scales = scales if block else None
    if not own_drive:
        trail = gemms.start_trail(operands, request)
    else:
        trail = operands.input.new_empty(update.trail, *shape, update.drives * hidden) if keep else None
    output = operands.input.new_empty((*shape, hidden) if keep or every else 0)
    last = operands.input.new_empty(update.states, *shape[1:], hidden)
    results = (
        None if trail is None else trail[-1],
        trail[0] if trail is not None and keep and update.states == 2 else None,
        output if keep or every else None,
        last,
    )
    run_kernel("forward", operands, results, (keep,), request, makes_drive=own_drive, scales=scales)
    return ForwardResult(output, last, trail if keep else None)


def backward_steps(
    operands: Operands, backward_inputs: BackwardInputs, request: Request, needs: Needs, scales: Scales | None = None
) -> StepGradients:
    """Return the gradients of the drive, the initial state, the parameters and the timespans.

    scales: Scales of R, by which the kernel multiplies. Only block kernels support them.
    """
    grad_output, grad_last, output, trail = map(make_plain, backward_inputs)
    assert output is not None
    assert trail is not None
    need = needs.parameters or needs.timespans
    places = output.shape[1:]
    grad_drive = output.new_empty(trail.shape[1:])
    grad_state = output.new_empty(request.update.states, *places) if needs.state else None
    # One term per neuron and sequence, summed below in a fixed order.
    terms = output.new_empty(len(operands.parameters), *places) if need else None
    for_spans = torch.empty_like(output) if needs.timespans else None
    read = (grad_output, grad_last, trail[-1], trail[0], output)
    results = (grad_drive, grad_state, terms, for_spans)
    run_kernel("backward", operands, read, results, request, for_parameters=need, scales=scales)
    return StepGradients(
        grad_drive,
        grad_state,
        terms.sum(-2) if needs.parameters and terms is not None else None,
        for_spans.sum(-1) if for_spans is not None else None,
    )


def backward(
    operands: Operands, backward_inputs: BackwardInputs, request: Request, needs: Needs, scales: Scales | None = None
) -> Gradients:
    block = _multiplies_scales(backward_inputs.output.shape[-1], request.precision)
    operands = gemms.apply_scales(operands, scales, drive=needs.input, weight=not block)
    steps = backward_steps(operands, backward_inputs, request, needs, scales if block else None)
    if needs.weight and is_small(operands, backward_inputs, request.update.drives):
        weights = weight_gradients(steps.drive, operands, backward_inputs, needs, scales)
        rest = gemms.gradients(
            operands, backward_inputs, steps, needs._replace(input_weight=False, bias=False, weight=False)
        )
        return Gradients(rest.input, rest.state, *weights, rest.parameters, rest.timespans)
    rounded = request.precision == "bf16" and backward_inputs.output.shape[-1] > BLOCK_SIZES[-1]
    if (
        needs.weight
        and not rounded
        and has_pieces(operands, backward_inputs)
        and prefers_pieces(steps.drive.device.index)
    ):
        weight = gradient_by_pieces(steps.drive, operands, backward_inputs, scales)
        rest = gemms.gradients(operands, backward_inputs, steps, needs._replace(weight=False), scales)
        return rest._replace(weight=weight)
    return gemms.gradients(operands, backward_inputs, steps, needs, scales, rounded)
