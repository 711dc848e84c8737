"""LEM, the long expressive memory: two states on time scales that are learned and depend on the input.

Source: Rusch, Mishra, Erichson and Mahoney, Long expressive memory for sequence modeling, ICLR 2022.

    d1 = dt * sigma(W_1 y + V_1 u + b_1),    d2 = dt * sigma(W_2 y + V_2 u + b_2)
    z <- (1 - d2) * z + d2 * tanh(W_z y + V_z u + b_z)
    y <- (1 - d1) * y + d1 * tanh(W_y z + V_y u + b_y)        with the new z
"""

from functools import partial

import torch
from torch import Tensor, nn

from cornn import engine
from cornn.baselines.layer import Layer
from cornn.baselines.stepwise import Step, StepwiseCell
from cornn.engine import lem, split_state
from cornn.engine.second_order import unroll_steps

__all__ = ["LEM", "LEMCell"]


class LEMCell(StepwiseCell):
    """Weights and step of `LEM`. All weights start in U(+-1 / sqrt(hidden_size)).

    weight_ih (4 * hidden, input) and bias: for d1, d2, z and y. weight_hh (3 * hidden, hidden): W_1, W_2 and W_z, on y.
    weight_zy (hidden, hidden): W_y, on z.
    """

    states = ("y", "z")
    timed = True

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, *, dt: float = 1.0, device=None, dtype=None
    ) -> None:
        super().__init__(input_size, hidden_size)
        if not 0 < dt <= 1:
            raise ValueError(f"dt must be above 0 and at most 1, got {dt}: LEM takes averages with weight dt")
        self.dt = dt
        where = {"device": device, "dtype": dtype}
        self.weight_ih = nn.Parameter(torch.empty(4 * hidden_size, input_size, **where))
        self.weight_hh = nn.Parameter(torch.empty(3 * hidden_size, hidden_size, **where))
        self.weight_zy = nn.Parameter(torch.empty(hidden_size, hidden_size, **where))
        self.bias = nn.Parameter(torch.empty(4 * hidden_size, **where)) if bias else None
        self.reset_parameters()

    def stepper(self) -> Step:
        return _stepper(self.weight_hh, self.weight_zy, self.dt)

    def sequence(self, input, state, *, timespans, lengths, every, backend, precision="exact"):
        """Run all steps, by kernels if they support the call, otherwise step by step."""
        if backend in ("auto", "cuda") and precision == "exact":
            state = self.state_before(input, state)
            inputs = lem.Operands(input, state, self.weight_ih, self.bias, self.weight_hh, self.weight_zy)
            plain = timespans is None and lengths is None
            reason = lem.unusable(inputs) if plain else "its kernel supports neither timespans nor lengths"
            if reason is None:
                with engine.no_autocast(input.device.type):
                    output, last = lem.run(inputs, self.dt, every, partial(_steps, self.dt))
                    return output, split_state(last)
            if backend == "cuda":
                raise RuntimeError(f"backend 'cuda' cannot run LEM here: {reason}; use auto or portable")
        options = {"timespans": timespans, "lengths": lengths, "every": every}
        return super().sequence(input, state, **options, backend=backend, precision=precision)


def _stepper(weight_hh: Tensor, weight_zy: Tensor, dt: float) -> Step:
    m = weight_zy.shape[0]
    W, W_y = weight_hh.T, weight_zy.T

    def step(drive: Tensor, state: tuple[Tensor, ...], span: Tensor | None) -> tuple[Tensor, ...]:
        y, z = state
        drive, drive_y = drive.split((3 * m, m), -1)
        gates, candidate = (drive + y @ W).split((2 * m, m), -1)
        longest = dt if span is None else dt * span
        d1, d2 = (longest * torch.sigmoid(gates)).chunk(2, -1)
        z = z + d2 * (torch.tanh(candidate) - z)
        y = y + d1 * (torch.tanh(drive_y + z @ W_y) - y)
        return y, z

    return step


def _steps(dt: float, inputs: lem.Operands) -> tuple[Tensor, Tensor]:
    """Run step by step; return y of every step and the last state."""
    drive = nn.functional.linear(inputs.input, inputs.weight_ih, inputs.bias)
    return unroll_steps(_stepper(inputs.weight_hh, inputs.weight_zy, dt), drive, inputs.state)


class LEM(Layer):
    """Long expressive memory: `output, (y, z) = layer(input)`, with the arguments and shapes of `nn.LSTM`.

    `timespans` are factors on dt, as in `CoRNN`.

    Args:
        dt: Longest time step, above 0 and at most 1; smaller values remember longer.
    """

    kind = LEMCell
