"""Fast implementations of one recurrence. `run` is the entry point: weights are arguments, tensors are time-major.

All backends implement the same interface (`contract.py`). `choose` picks one and gives the reason; a backend that is
requested by name is never replaced by another.
"""

import functools

from torch import Tensor

from cornn._arguments import check_known
from cornn._autocast import autocast_to_bfloat16, no_autocast
from cornn._torch_private import is_eager, is_tracing, is_transformed
from cornn.engine import eager, vmap  # noqa: F401 (vmap registers itself)
from cornn.engine._buffer_pool import release_buffers
from cornn.engine.contract import (
    PRECISIONS,
    Operands,
    Problem,
    Request,
    Scales,
    check,
    check_scales,
    split_state,
    wants_gradient,
)
from cornn.engine.gemms import apply_scales
from cornn.engine.misuse import find_misuse
from cornn.engine.op import BACKENDS, options, recurrence
from cornn.engine.second_order import by_autograd, reference
from cornn.engine.updates import (
    OSCILLATORS,
    SPANS,
    UPDATES,
    Code,
    InPlace,
    Spans,
    UnknownUpdateError,
    Update,
    find_update,
    register,
)

__all__ = [
    "BACKENDS",
    "OSCILLATORS",
    "PRECISIONS",
    "SPANS",
    "UPDATES",
    "Code",
    "InPlace",
    "Problem",
    "Scales",
    "UnknownUpdateError",
    "Update",
    "by_autograd",
    "check_backend",
    "check_precision",
    "choose",
    "find_update",
    "no_autocast",
    "register",
    "release_buffers",
    "run",
    "split_state",
]

LARGE_BATCH = 512
"""Smallest batch for which autocast to bfloat16 applies to the recurrence; smaller ones leave tensor cores idle."""


def check_backend(backend: str) -> None:
    """Raise ValueError if there is no backend of this name."""
    check_known("backend", backend, ("auto", "reference", *BACKENDS))


def check_precision(precision: str) -> None:
    """Raise ValueError if there is no precision of this name."""
    check_known("precision", precision, PRECISIONS)


def choose(problem: Problem, backend: str = "auto") -> tuple[str, str]:
    """Choose the backend for a problem.

    Args:
        problem: Sizes, type, device and update of the recurrence.
        backend: "auto", "reference", or one of `BACKENDS`.

    Returns:
        The name of the backend and the reason. For "auto" the reason also says why each preferred backend was skipped.

    Raises:
        ValueError: If there is no such backend or precision, or the type is not a real floating type.
        RuntimeError: If the named backend cannot run this problem, or a precision other than "exact" is requested where
            the "cuda" backend, the only one that has others, cannot run.

    Examples:
        >>> relu = OSCILLATORS["explicit", "relu"]
        >>> problem = Problem(relu, torch.device("cpu"), torch.float32, 1, 100, 8, 64, False)
        >>> choose(problem)[0]
        'portable'
    """
    check_backend(backend)
    check_precision(problem.precision)
    if not problem.dtype.is_floating_point:
        raise ValueError(
            f"the recurrence computes with real numbers, not with {problem.dtype}: convert layer and input, for "
            "instance to torch.float32"
        )
    if problem.precision != "exact":
        usable, reason = BACKENDS["cuda"].usable(problem)
        if backend not in ("auto", "cuda"):
            usable, reason = False, f"backend {backend!r} was requested, which computes only in the type of its input"
        if not usable:
            raise RuntimeError(f"precision={problem.precision!r} needs the cuda backend: {reason}")
        return "cuda", reason
    if backend == "reference":
        return backend, "requested by name: the reference equations, differentiated by autograd"
    if backend == "auto":
        skipped = []
        for name, module in BACKENDS.items():
            usable, reason = module.usable(problem)
            if usable:
                return name, "; ".join((reason, *skipped))
            skipped.append(f"not {name}: {reason}")
    usable, reason = BACKENDS[backend].usable(problem)
    if not usable:
        raise RuntimeError(f"backend {backend!r} cannot be used here: {reason}")
    return backend, reason


# What is installed, and the hardware, do not change while a program runs.
_choose_once = functools.lru_cache(maxsize=4096)(choose)


def run(
    input: Tensor,
    state: Tensor | None,
    input_weight: Tensor | None,
    bias: Tensor | None,
    weight: Tensor,
    parameters: Tensor,
    *,
    update: Update,
    timespans: Tensor | None = None,
    lengths: Tensor | None = None,
    scales: Scales | None = None,
    every: bool = True,
    backend: str = "auto",
    precision: str = "exact",
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Run a recurrence over a sequence.

    Args:
        input: Shape `(time, batch, features)`; if `input_weight` is None the drive V u + b itself, shape
            `(time, batch, hidden)`.
        state: State before the first step, shape `(states, batch, hidden)`. For coRNN y, then z. Zeros if None.
        input_weight: V, shape `(hidden, features)`, or None.
        bias: b, shape `(hidden)`, or None.
        weight: R, shape `(hidden, states * hidden)`. For coRNN W and W_z side by side.
        parameters: Constants of the update, shape `(parameters, hidden)`. For coRNN dt, gamma, epsilon, or
            `functional.spectrum` of them for the updates in `SPANS`.
        update: One of `UPDATES.values()`. Updates with several pre-activations per neuron have more rows in
            `input_weight` and `bias`, and possibly in `weight`.
        timespans: Factors on dt, or numbers of steps for the updates in `SPANS`, shape `(time, batch)`; only coRNN has
            a time step.
        lengths: Number of steps of each sequence, shape `(batch)`.
        scales: Factors on `input_weight`, `bias` and `weight`, each of the shape of its weight; gradients are those
            before the factors. `input_weight` may not be None then.
        every: Whether to return the output of every step; otherwise `output` may be empty.
        backend: "auto", "reference", or one of `BACKENDS`.
        precision: "exact", or "tf32" or "bf16" for large batches: the products of the steps then run on tensor cores,
            which round weights and states. Sums and states stay float32; with "bf16" above 128 neurons the inputs of
            the products for weight gradients are rounded too. It needs the "cuda" backend. Under autocast to bfloat16
            on a GPU batches of 512 or more use "bf16" instead of "exact".

    Returns:
        The output of every step, shape `(time, batch, hidden)`, and the parts of the state after each sequence's last
        step, each of shape `(1, batch, hidden)`. They share no memory that anybody else sees, as the state of
        `nn.LSTM` does not.

    Raises:
        TypeError: If an argument is not a tensor, not an update, or not `Scales`.
        ValueError: If a tensor does not have the expected shape, device or type.
        RuntimeError: If the named backend cannot run this problem.
    """
    operands = Operands(input, state, input_weight, bias, weight, parameters, timespans, lengths)
    try:
        return _run(operands, scales, update, every, backend, precision)
    except (AttributeError, AssertionError, IndexError, TypeError, RuntimeError) as error:
        # Looking for wrong arguments only after a failure costs valid calls nothing.
        misuse = find_misuse(operands, scales, update, backend, precision)
        if misuse is None:
            raise
        raise misuse from error


def _run(
    operands: Operands, scales: Scales | None, update: Update, every: bool, backend: str, precision: str
) -> tuple[Tensor, tuple[Tensor, ...]]:
    input, weight, timespans = operands.input, operands.weight, operands.timespans
    if scales is not None and wants_gradient(scales):
        operands, scales = apply_scales(operands, scales), None  # the backends have no gradients of scales
    if timespans is not None and not update.timed:
        raise ValueError(f"timespans scale a time step, and the update {update.name} has none: omit timespans")
    requested = backend
    if isinstance(update, Spans) and wants_gradient((operands.parameters,)):
        backend = _backend_for_trained_constants(backend)
    shape, rows = input.shape, weight.shape
    problem = Problem(
        update,
        input.device,
        input.dtype,
        rows[0] if len(rows) == 3 else 1,
        shape[0],
        shape[-2],
        rows[-2] // update.products,
        timespans is not None,
        precision,
    )
    direct = is_eager(operands)
    name, _ = (_choose_once if direct else choose)(problem, backend)
    if not direct and is_transformed(operands):
        _check_transformed(requested, precision)
        name = "reference"
    if name == "reference":
        with no_autocast(input.device.type):
            output, last = reference(apply_scales(operands, scales), update)
            return output, split_state(last)
    if name == "cuda" and precision == "exact" and problem.batch >= LARGE_BATCH and autocast_to_bfloat16():
        # Not every device and not every update has such a kernel.
        precision = "bf16" if BACKENDS["cuda"].usable(problem._replace(precision="bf16"))[0] else "exact"
    # A traced program may be differentiated later, and the tracer checks itself without gradients.
    request = Request(update, every, wants_gradient(operands) or is_tracing(), precision)
    # Otherwise the recurrence runs in the type of its weights: autocast should not round the state a thousand times.
    # Even with "bf16" only the inputs of products are rounded, not the state.
    with no_autocast(input.device.type):
        if direct:
            check(update, operands)
            if scales is not None:
                check_scales(operands, scales)
            return eager.recur(operands, scales, name, request)
        output, last, _ = recurrence(*apply_scales(operands, scales), *options(name, request))
        return output, split_state(last)


def _backend_for_trained_constants(backend: str) -> str:
    """Return the backend for durations if the constants are trained, for which the fused kernels have no gradients."""
    if backend in ("c", "cuda"):
        raise RuntimeError(
            f"backend {backend!r} cannot train the constants of a layer with timespans in steps: use backend='auto', "
            "do not train the constants, or give dt, gamma and epsilon"
        )
    return "portable" if backend == "auto" else backend


def _check_transformed(backend: str, precision: str) -> None:
    if precision != "exact":
        raise RuntimeError(
            f"precision={precision!r} does not support forward-mode derivatives and torch.func.grad: use 'exact'"
        )
    if backend not in ("auto", "reference"):
        raise RuntimeError(
            f"backend {backend!r} does not support forward-mode derivatives and torch.func.grad: use auto or reference"
        )
