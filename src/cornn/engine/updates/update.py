"""`Update`: the pointwise part of a recurrence, for every backend."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from cornn.engine.updates.code import Code, Names, check_code, cuda_source, evaluate

__all__ = ["InPlace", "Update", "check_derivative", "check_reference", "pull_back"]

# A derivative is compared with autograd in float64: rounding is 1e-16, and a wrong one is off by more than this.
DERIVATIVE = 1e-9


class InPlace(NamedTuple):
    """An update and its derivative in PyTorch's in-place operations, which the portable backend prefers.

    Attributes:
        step_: Function of `(pre, state, k, after)`. Writes the next state to `after`; `pre`, of shape
            `(batch, drives * hidden)`, becomes what is kept of it. `k` contains the coefficients.
        adjoint_: Function of `(gradient, kept, before, after, k, delta, sums)`. The gradients of the next state become
            those of the state, without what comes through the product; `delta` becomes the gradient of the
            pre-activations; what the step gives for the coefficients is added to `sums`, unless it is None.
    """

    step_: Callable[[Tensor, Sequence[Tensor], Sequence[Tensor], Sequence[Tensor]], object]
    adjoint_: Callable[..., object]


@dataclass(frozen=True, eq=False)
class Update:
    """What happens to the state of a neuron once the matrix product of a step is done.

    A recurrence is  a_n = R s_{n-1} + drive_n,  s_n = update(a_n, s_{n-1}).  The state s has one or two blocks of
    `hidden` values, and R has the columns of the blocks side by side. An update of one state may have two
    pre-activations per neuron; R then has two blocks of rows (`products=2`), or one whose product goes to both.

    Attributes:
        name: Its key in `cornn.engine.UPDATES`, which saved models store.
        parameters: Name -> initial value of the constants of a neuron.
        reference: The step in PyTorch: a function of the pre-activations, the states and the parameters, in this order,
            that returns the next state, or a tuple of states. All other forms must agree with it.
        code: The step and its derivative as expressions, from which kernels for CPUs and GPUs are generated. None: the
            portable backend runs it, with autograd.
        state: Names of the states; the first one is the output.
        pre: Names of the pre-activations.
        products: Number of blocks of rows of R.
        onnx: The step in ONNX operators: a function of `op`, and of the names of the pre-activations, states and
            parameters, that returns the names of the next states. `op("Mul", a, b)` adds one operator. None: no export.
        in_place: Faster PyTorch operations for the portable backend.

    Examples:
        >>> leaky = Update(
        ...     "my-leaky",
        ...     {"leak": 0.5, "gain": 1.0},
        ...     lambda pre, h, leak, gain: leak * h + gain * torch.tanh(pre),
        ... )
    """

    name: str
    parameters: Mapping[str, float]
    reference: Callable[..., Tensor | tuple[Tensor, ...]]
    code: Code | None = None
    state: tuple[str, ...] = ("h",)
    pre: tuple[str, ...] = ("pre",)
    products: int = 1
    onnx: Callable[..., Sequence[str]] | None = None
    in_place: InPlace | None = None

    timed = False
    """Whether a step has a time, which a span multiplies."""

    def __post_init__(self) -> None:
        if not self.parameters:
            raise ValueError(f"the update {self.name!r} has no parameters: it needs at least one")
        if len(self.state) not in (1, 2):
            raise ValueError(f"the update {self.name!r} has {len(self.state)} states: it may have one or two")
        if len(self.pre) not in (1, 2) or len(self.state) * len(self.pre) > 2:
            raise ValueError(
                f"the update {self.name!r} has {len(self.pre)} pre-activations and {len(self.state)} states: only an "
                "update with one state may have two pre-activations"
            )
        if self.products not in (1, len(self.pre)):
            raise ValueError(f"the update {self.name!r} has {self.products} products: use 1, or one per pre-activation")
        names = [*self.pre, *self.state, *self.parameters]
        if len(set(names)) < len(names):
            raise ValueError(f"the update {self.name!r} uses a name twice: {', '.join(names)}")
        if self.code is not None:
            check_code(self.code, self.names)

    @functools.cached_property
    def names(self) -> Names:
        """Names of the states, the pre-activations and the parameters."""
        return Names(self.state, self.pre, tuple(self.parameters))

    @functools.cached_property
    def states(self) -> int:
        """Number of blocks of the state."""
        return len(self.state)

    @functools.cached_property
    def drives(self) -> int:
        """Number of pre-activations of a neuron."""
        return len(self.pre)

    @functools.cached_property
    def trail(self) -> int:
        """Number of blocks that the backward pass needs in addition to the output: other states and saved values."""
        return self.states

    @functools.cached_property
    def macros(self) -> Mapping[str, object]:
        """The macros of the CUDA kernels."""
        assert self.code is not None
        source = cuda_source(self.code, self.names, self.products)
        return {"UPDATE": "Pointwise", "UPDATE_CODE": source, "IMPLICIT": 0, "ACTIVATION": "TANH"}

    def step(
        self, drive: Tensor, state: Sequence[Tensor], weight: Tensor, parameters: Sequence[Tensor]
    ) -> tuple[Tensor, ...]:
        """Compute one step of the recurrence by the reference.

        Args:
            drive: Input part of the pre-activations, side by side, shape `(*batch, drives * hidden)`.
            state: The states, each of shape `(*batch, hidden)`.
            weight: R, shape `(products * hidden, states * hidden)`; leading dimensions broadcast.
            parameters: The parameters, each broadcasting against `(*batch, hidden)`.

        Returns:
            The next states.
        """
        product = torch.cat(tuple(state), -1) @ weight.mT
        pre = drive + torch.cat((product,) * (drive.shape[-1] // product.shape[-1]), -1)
        return _parts(self.reference(*pre.chunk(self.drives, -1), *state, *parameters))

    def coefficients(self, parameters: Tensor, span: Tensor | None) -> Sequence[Tensor]:
        """Return what a step needs of the parameters, of shape `(parameters, ..., 1, hidden)`."""
        return parameters.unbind(0)

    def parameter_gradients(
        self, parameters: Tensor, span: Tensor | None, gradient: Sequence[Tensor]
    ) -> tuple[Sequence[Tensor], Tensor | None]:
        """Turn gradients of the coefficients into those of the parameters and of the span, not yet summed."""
        return gradient, None

    @functools.cached_property
    def portable(self) -> InPlace:
        """The step and its derivative for the portable backend."""
        if self.in_place is not None:
            return self.in_place
        if self.code is not None:
            return InPlace(functools.partial(_step_, self), functools.partial(_adjoint_, self))
        return InPlace(functools.partial(_step_by_reference_, self), functools.partial(_adjoint_by_autograd_, self))


def _parts(state: Tensor | tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return (state,) if isinstance(state, Tensor) else tuple(state)


def _named(update: Update, pre: Tensor, state: Sequence[Tensor], k: Sequence[Tensor]) -> dict[str, Tensor]:
    parts = (*pre.chunk(update.drives, -1), *state, *k)
    return dict(zip((*update.pre, *update.state, *update.parameters), parts, strict=True))


def _step_(update: Update, pre, state, k, after) -> None:
    code = update.code
    assert code is not None
    values: dict[str, Any] = _named(update, pre, state, k)
    if code.kept is not None:
        kept = {name: evaluate(text, values) for name, text in code.kept.items()}
        for part, value in zip(pre.chunk(update.drives, -1), kept.values(), strict=True):
            part.copy_(value)
        values |= kept
    for name, text in code.where.items():
        values[name] = evaluate(text, values)
    for name, out in zip(update.state, after, strict=True):
        value = evaluate(code.step[name], values)
        out.copy_(value) if isinstance(value, Tensor) else out.fill_(value)


def _adjoint_(update: Update, gradient, kept, before, after, k, delta, sums) -> None:
    code = update.code
    assert code is not None
    values: dict[str, Any] = _named(update, kept, before, k)
    if code.kept is not None:
        values |= dict(zip(code.kept, kept.chunk(update.drives, -1), strict=True))
    for name, text in code.where.items():
        values[name] = evaluate(text, values)

    def total(name: str) -> Tensor:
        pairs = zip(update.state, gradient, strict=True)
        rows = ((code.derivative.get(state, {}), grad) for state, grad in pairs)
        terms = [grad * evaluate(row[name], values) for row, grad in rows if name in row]
        return sum(terms[1:], terms[0]) if terms else torch.zeros_like(gradient[0])

    for name, out in zip(update.pre, delta.chunk(update.drives, -1), strict=True):
        out.copy_(total(name))
    if sums is not None:
        for name, out in zip(update.parameters, sums, strict=True):
            out += total(name)
    for out, value in zip(gradient, [total(name) for name in update.state], strict=True):
        out.copy_(value)


def _step_by_reference_(update: Update, pre, state, k, after) -> None:
    results = update.reference(*pre.chunk(update.drives, -1), *state, *k)
    for out, value in zip(after, _parts(results), strict=True):
        out.copy_(value)


def pull_back(
    function: Callable[..., tuple[Tensor, ...]], arguments: Sequence[Tensor], gradient: Sequence[Tensor]
) -> Sequence[Tensor]:
    """Return the gradients of a function's arguments for those of its results, also inside a registered operator."""
    with torch.enable_grad():
        if not torch.zeros((), device="cpu", requires_grad=True).neg().requires_grad:
            # PyTorch records nothing for autograd inside an operator; `torch.func` does, and takes longer.
            return torch.func.vjp(function, *arguments)[1](tuple(gradient))
        leaves = [x.detach().requires_grad_() for x in arguments]
        results = function(*leaves)
        pairs = [pair for pair in zip(results, gradient, strict=True) if pair[0].requires_grad]
        if not pairs:
            return [torch.zeros_like(x) for x in leaves]
        outputs, grads = zip(*pairs, strict=True)
        gradients = torch.autograd.grad(outputs, leaves, grads, allow_unused=True)
    return [torch.zeros_like(x) if term is None else term for term, x in zip(gradients, leaves, strict=True)]


def _adjoint_by_autograd_(update: Update, gradient, kept, before, after, k, delta, sums) -> None:
    operands = (*kept.chunk(update.drives, -1), *before, *(x.expand(gradient[0].shape) for x in k))
    terms = pull_back(lambda *values: _parts(update.reference(*values)), operands, gradient)
    for out, term in zip((*delta.chunk(update.drives, -1), *gradient), terms, strict=False):
        out.copy_(term)
    if sums is not None:
        for out, term in zip(sums, terms[update.drives + update.states :], strict=True):
            out += term


def check_reference(update: Update) -> None:
    """Raise ValueError unless the reference is a function of its arguments that returns one new tensor per state."""
    batch, hidden, random = 2, 3, torch.Generator().manual_seed(0)
    blocks = (*update.pre, *update.state)
    operands = [torch.rand(batch, hidden, generator=random, dtype=torch.float64) for _ in blocks]
    operands += [torch.full((1, hidden), value, dtype=torch.float64) for value in update.parameters.values()]
    before = [x.clone() for x in operands]
    with torch.enable_grad():
        results = update.reference(*operands)
    parts = results if isinstance(results, tuple | list) else (results,)
    if len(parts) != len(update.state) or not all(isinstance(part, Tensor) for part in parts):
        kinds = ", ".join(type(part).__name__ for part in parts)
        raise ValueError(
            f"the reference of the update {update.name!r} returns ({kinds}), expected one tensor for each of "
            f"({', '.join(update.state)})"
        )
    for name, part in zip(update.state, parts, strict=True):
        if part.shape != (batch, hidden):
            raise ValueError(
                f"the reference of the update {update.name!r} returns {name} of shape {tuple(part.shape)} for states "
                f"of shape {(batch, hidden)}: it must have one value per sequence and neuron"
            )
        if part.dtype != operands[0].dtype:
            raise ValueError(
                f"the reference of the update {update.name!r} returns {name} as {part.dtype} for arguments of "
                f"{operands[0].dtype}: keep the type of the arguments"
            )
        if part.requires_grad:
            raise ValueError(
                f"the reference of the update {update.name!r} computes {name} from a tensor that is trained, but not "
                "an argument, so it would get no gradient: make it one of the parameters"
            )
    for name, x, old in zip((*blocks, *update.parameters), operands, before, strict=True):
        if not torch.equal(x, old):
            raise ValueError(f"the reference of the update {update.name!r} changes {name} in place: return new tensors")
    # The backward pass calls it again; other random numbers would give wrong gradients. Many values show rare ones.
    many = [torch.rand(64, 64, generator=random, dtype=torch.float64) for _ in blocks]
    many += [torch.full((1, 64), value, dtype=torch.float64) for value in update.parameters.values()]
    for name, one, other in zip(update.state, *(_parts(update.reference(*many)) for _ in range(2)), strict=True):
        if not torch.allclose(one, other, rtol=0, atol=0, equal_nan=True):
            raise ValueError(
                f"the reference of the update {update.name!r} gives another {name} when it is called again: it must "
                "depend on its arguments alone, without random numbers"
            )


def check_derivative(update: Update) -> None:
    """Raise ValueError if the code of an update disagrees with its reference, or is not finite at rest.

    Both are evaluated at random numbers in float64, in value and derivative. Kernels fill up a group of neurons with
    ones at rest, so their values must be finite.
    """
    if update.code is None:
        return
    hidden, random = 64, torch.Generator().manual_seed(0)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=random, dtype=torch.float64)

    pre, state = draw(2, update.drives * hidden), [draw(2, hidden) for _ in update.state]
    around = [(value, 0.1 * draw(1, hidden)) for value in update.parameters.values()]
    k = [value + change for value, change in around]
    gradient = [draw(2, hidden) for _ in update.state]
    by_reference = functools.partial(_step_by_reference_, update), functools.partial(_adjoint_by_autograd_, update)
    by_code = functools.partial(_step_, update), functools.partial(_adjoint_, update)
    if not all(found.isfinite().all() for found in _results(by_reference, pre, state, k, gradient)):
        # A small parameter may have to keep its sign, as in sqrt(gain).
        k = [value + change * (abs(value) or 1.0) for value, change in around]
    names = [f"the next {name}" for name in update.state]
    names += [f"the derivative with respect to {name}" for name in (*update.pre, *update.state, *update.parameters)]
    pairs = zip(*(_results(form, pre, state, k, gradient) for form in (by_reference, by_code)), strict=True)
    for name, (expected, actual) in zip(names, pairs, strict=True):
        if not torch.allclose(actual, expected, rtol=DERIVATIVE, atol=DERIVATIVE):
            worst = (actual - expected).abs().max().item()
            raise ValueError(
                f"the code of the update {update.name!r} gives {name} wrong: it is off by up to {worst:.1e}"
            )
    rest = [torch.zeros_like(x) for x in gradient]
    for name, actual in zip(names, _results(by_code, torch.zeros_like(pre), rest, k, rest), strict=True):
        if not actual.isfinite().all():
            raise ValueError(
                f"the code of the update {update.name!r} gives {name} as infinite or NaN where states and "
                "pre-activations are 0: kernels need finite values there"
            )


def _results(form, pre: Tensor, state: Sequence[Tensor], k: Sequence[Tensor], gradient: Sequence[Tensor]):
    """Return the next states, and the gradients of pre-activations, states and parameters."""
    step_, adjoint_ = form
    kept, delta, after = pre.clone(), torch.empty_like(pre), [torch.empty_like(x) for x in state]
    grads, sums = [x.clone() for x in gradient], [torch.zeros_like(gradient[0]) for _ in k]
    step_(kept, state, k, after)
    adjoint_(grads, kept, state, after, k, delta, sums)
    return *after, *delta.chunk(pre.shape[-1] // gradient[0].shape[-1], -1), *grads, *sums
