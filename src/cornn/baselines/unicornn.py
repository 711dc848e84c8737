"""UnICORNN: undamped, independent oscillators, stepped so that the state can be computed backwards exactly.

Source: Rusch and Mishra, UnICORNN: a recurrent model for learning very long time dependencies, ICML 2021.

    s = dt * sigma(c)
    z <- z - s * (tanh(w * y + V u + b) + alpha * y)
    y <- y + s * z

This is the symplectic Euler method for a separable Hamiltonian, so y - s * z and then z + s * (...) undo a step. The
backward pass recomputes the states from the last one; it needs only the input, the output and the first and last state.
"""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from cornn import engine
from cornn._random import uniform_
from cornn._stacking import split_state
from cornn._torch_private import is_eager
from cornn.baselines.layer import Layer
from cornn.baselines.stepwise import Step, StepwiseCell, check_plain, find_active_steps

__all__ = ["UnICORNN", "UnICORNNCell"]

PIECE = 64
"""Number of steps whose drive is in memory at a time."""

SAFETY = 0.9
"""Share of the stable range of the stiffness that is used; at its edge rounding errors grow without bound."""


def _spans(spans: Tensor | None, steps: int) -> list[Tensor | None]:
    return [None] * steps if spans is None else list(spans.unsqueeze(-1).unbind(0))


def _states(input, state, V, bias, w, s, spans, alpha) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield y and z after every step."""
    y, z = state.unbind(0)
    parts = [None] * -(-input.shape[0] // PIECE) if spans is None else spans.split(PIECE)
    for piece, part in zip(input.split(PIECE), parts, strict=True):
        drive = nn.functional.linear(piece, V, bias)
        for drive_n, span in zip(drive.unbind(0), _spans(part, len(piece)), strict=True):
            s_n = s if span is None else s * span
            z = z - s_n * (torch.tanh(w * y + drive_n) + alpha * y)
            y = y + s_n * z
            yield y, z


def _run(*given) -> tuple[Tensor, Tensor]:
    """Return y of every step and the last state, for autograd, which keeps all states."""
    states = list(_states(*given))
    return torch.stack([y for y, _ in states]), torch.stack(states[-1])


class _Invertible(torch.autograd.Function):
    """The recurrence, with a backward pass that recomputes the states.

    input (time, batch, features), state (2, batch, hidden), V (hidden, features), bias (hidden) or None, w and s
    (hidden), spans (time, batch) or None: factors on s, zero past the end of a sequence.
    """

    @staticmethod
    def forward(ctx, input, state, V, bias, w, s, spans, alpha, every):
        output = input.new_empty(input.shape[0] if every else 0, *state.shape[1:])
        end = tuple(state)
        for n, end in enumerate(_states(input, state, V, bias, w, s, spans, alpha)):
            if every:
                output[n] = end[0]
        last = torch.stack(end)
        ctx.save_for_backward(input, state, V, bias, w, s, spans, output, last)
        ctx.alpha, ctx.every, ctx.device = alpha, every, input.device.type
        ctx.set_materialize_grads(False)
        return output, last

    @staticmethod
    def backward(ctx, grad_output, grad_last):
        if torch.is_grad_enabled() or not is_eager((grad_output, grad_last)):
            given, grads, needs = ctx.saved_tensors[:7], (grad_output, grad_last), ctx.needs_input_grad[:7]
            return *engine.by_autograd(lambda *given: _run(*given, ctx.alpha), given, grads, needs), None, None
        with engine.no_autocast(ctx.device):
            return _Invertible.backward_by_inversion(ctx, grad_output, grad_last)

    @staticmethod
    def backward_by_inversion(ctx, grad_output, grad_last):
        """Return the gradients of the arguments of `forward`."""
        input, state, V, bias, w, s, spans, output, last = ctx.saved_tensors
        alpha = ctx.alpha
        y, z = last.unbind(0)
        # If there is an output, y is read from it, so that rounding errors do not add up.
        known = (state[0], *output.unbind(0)) if ctx.every else None
        grad_y, grad_z = torch.zeros_like(last) if grad_last is None else grad_last
        grad_input = torch.empty_like(input) if ctx.needs_input_grad[0] else None
        grad_spans = torch.empty_like(spans) if ctx.needs_input_grad[6] else None
        grad_V, grad_bias = torch.zeros_like(V), torch.zeros_like(w)
        grad_w, grad_s = torch.zeros_like(y), torch.zeros_like(y)

        for first in reversed(range(0, input.shape[0], PIECE)):
            piece = input[first : first + PIECE]
            drive = nn.functional.linear(piece, V, bias)
            part = _spans(None if spans is None else spans[first : first + PIECE], len(piece))
            for n in reversed(range(len(piece))):
                s_n = s if part[n] is None else s * part[n]
                if ctx.every and grad_output is not None:
                    grad_y = grad_y + grad_output[first + n]
                before = y - s_n * z if known is None else known[first + n]
                activation = torch.tanh(w * before + drive[n])
                force = activation + alpha * before

                for_step = grad_y * z
                grad_z = grad_z + s_n * grad_y
                for_step = for_step - grad_z * force
                grad_force = -s_n * grad_z
                grad_drive = grad_force * (1 - activation * activation)
                grad_w += grad_drive * before
                grad_y = grad_y + grad_drive * w + alpha * grad_force
                grad_s += for_step if part[n] is None else for_step * part[n]
                if grad_spans is not None:
                    grad_spans[first + n] = (for_step * s).sum(-1)
                y, z = before, z + s_n * force
                # The gradient overwrites the drive, which is no longer needed.
                drive[n] = grad_drive
            flat = drive.flatten(0, 1)
            grad_V += flat.T @ piece.flatten(0, 1)
            grad_bias += flat.sum(0)
            if grad_input is not None:
                grad_input[first : first + PIECE] = drive @ V
        return (
            grad_input,
            torch.stack((grad_y, grad_z)),
            grad_V,
            None if bias is None else grad_bias,
            grad_w.sum(0),
            grad_s.sum(0),
            grad_spans,
            None,
            None,
        )


class UnICORNNCell(StepwiseCell):
    """Weights and step of `UnICORNN`: weight_ih (hidden, input), weight_hh (hidden), c (hidden), bias (hidden)."""

    states = ("y", "z")
    timed = True

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        *,
        dt: float = 0.1,
        alpha: float = 1.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size)
        if not dt > 0 or not alpha >= 0:
            raise ValueError(f"dt must be above 0 and alpha not below it, got dt={dt} and alpha={alpha}")
        if dt**2 * (alpha + 1) >= 4 * SAFETY:
            raise ValueError(
                f"dt={dt} with alpha={alpha} diverges: dt**2 * (alpha + 1) must be below {4 * SAFETY}, "
                f"for this alpha dt below {(4 * SAFETY / (alpha + 1)) ** 0.5:.3g}"
            )
        self.dt, self.alpha = dt, alpha
        where = {"device": device, "dtype": dtype}
        self.weight_ih = nn.Parameter(torch.empty(hidden_size, input_size, **where))
        self.weight_hh = nn.Parameter(torch.empty(hidden_size, **where))
        self.c = nn.Parameter(torch.empty(hidden_size, **where))
        self.bias = nn.Parameter(torch.empty(hidden_size, **where)) if bias else None
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Initialise as the authors do: V by He et al. for a leaky ReLU of slope 8, w in (0, 1), c in ±0.1, b = 0."""
        reach = (6 / ((1 + 8**2) * self.input_size)) ** 0.5
        uniform_(self.weight_ih, -reach, reach, generator)
        uniform_(self.weight_hh, 0, 1, generator)
        uniform_(self.c, -0.1, 0.1, generator)
        if self.bias is not None:
            self.bias.zero_()

    def constants(self) -> tuple[Tensor, Tensor]:
        """w and s as they act, (hidden) each.

        The stiffness alpha + w * tanh' of a neuron lies between alpha and alpha + w. w is kept where that is neither
        negative, which drives a neuron away from rest, nor more than the step can follow.
        """
        return self.weight_hh.clamp(-self.alpha, 4 * SAFETY / self.dt**2 - self.alpha), self.dt * torch.sigmoid(self.c)

    def stepper(self) -> Step:
        w, s = self.constants()

        def step(drive: Tensor, state: tuple[Tensor, ...], span: Tensor | None) -> tuple[Tensor, ...]:
            y, z = state
            s_n = s if span is None else s * span
            z = z - s_n * (torch.tanh(w * y + drive) + self.alpha * y)
            return y + s_n * z, z

        return step

    def sequence(
        self,
        input: Tensor,
        state: Tensor | None,
        *,
        timespans: Tensor | None,
        lengths: Tensor | None,
        every: bool,
        backend: str,
        precision: str = "exact",
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Run a sequence like `StepwiseCell.sequence`, without storing states.

        With the backend "reference", and under a compiler or function transform, which cannot follow a hand-written
        backward pass, it calls that method.
        """
        if backend == "reference" or (backend == "auto" and not is_eager((input, state, self.weight_ih))):
            options = {"every": every, "backend": backend, "precision": precision}
            return super().sequence(input, state, timespans=timespans, lengths=lengths, **options)
        check_plain("UnICORNN", backend, precision)
        if lengths is not None:
            runs = find_active_steps(lengths.to(input.device), input.shape[0]).squeeze(-1).to(input.dtype)
            timespans = runs if timespans is None else runs * timespans
        with engine.no_autocast(input.device.type):
            w, s = self.constants()
            given = input, self.state_before(input, state), self.weight_ih, self.bias, w, s, timespans
            output, last = _Invertible.apply(*given, self.alpha, every)  # pyright: ignore[reportGeneralTypeIssues]
            return output, split_state(last)


class UnICORNN(Layer):
    """Undamped, independent oscillators: `output, (y, z) = layer(input)`, with the arguments and shapes of `nn.LSTM`.

    Training stores no states: the backward pass reconstructs them from the last one. Neurons are not coupled
    within a layer, so use two or three layers. `timespans` are factors on dt, as in `CoRNN`.

    Args:
        dt: Longest time step. dt**2 * (alpha + 1) must stay below 3.6, or the oscillators diverge.
        alpha: Stiffness.
        backend: "reference" stores the states and differentiates by autograd.
    """

    kind = UnICORNNCell
