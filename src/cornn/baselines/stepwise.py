"""Recurrences that run step by step in PyTorch operations and are differentiated by autograd.

They serve the rivals with more than one matrix product per step, which the engine does not support. LEM also has GPU
kernels.
"""

from jaxtyping import Float
from torch import Tensor, nn

from cornn import engine
from cornn.baselines.layer import RecurrentCell
from cornn.engine import split_state
from cornn.engine.second_order import Step, unroll_steps

__all__ = ["Step", "StepwiseCell", "check_plain"]


def check_plain(model: str, backend: str, precision: str) -> None:
    """Raise RuntimeError for backends and precisions that only networks with one product per step have."""
    if backend not in ("auto", "portable", "reference"):
        raise RuntimeError(
            f"backend {backend!r} needs a network with one product per step, unlike {model}: use auto or portable"
        )
    if precision != "exact":
        raise RuntimeError(
            f"precision={precision!r} needs a network with one product per step, unlike {model}: use 'exact'"
        )


class StepwiseCell(RecurrentCell):
    """A cell that is defined by its step. The output is the first part of the state.

    A subclass names its `states`, has `weight_ih` (rows, input) and `bias` (rows) or None, and returns the function of
    one step in `stepper`, which computes everything that is constant during a sequence once.
    """

    timed = False
    """Whether the cell has a time step, which timespans scale."""

    bias: Tensor | None

    def initial_state(self) -> Tensor:
        """Return the default initial state, (states, hidden)."""
        return self.weight_ih.new_zeros(len(self.states), self.hidden_size)

    def state_before(self, input: Tensor, state: Tensor | None) -> Tensor:
        """Return the given state, or the default one for every sequence of the input, (states, batch, hidden)."""
        if state is not None:
            return state
        return self.initial_state().unsqueeze(1).expand(-1, input.shape[1], -1).contiguous()

    def stepper(self) -> Step:
        raise NotImplementedError

    def drive(self, input: Float[Tensor, "time batch input"]) -> Tensor:
        """Return V u + b of all steps, by one product."""
        return nn.functional.linear(input, self.weight_ih, self.bias)

    def sequence(self, input, state, *, timespans, lengths, every, backend, precision="exact"):
        """Run all steps; return the output of every step (empty if not `every`) and the parts of the last state."""
        model = type(self).__name__.removesuffix("Cell")
        check_plain(model, backend, precision)
        if timespans is not None and not self.timed:
            raise ValueError(
                f"{model} has no time step that timespans could scale: omit timespans, or add them as a feature"
            )
        with engine.no_autocast(input.device.type):
            start = self.state_before(input, state)
            output, last = unroll_steps(self.stepper(), self.drive(input), start, timespans, lengths, every)
            return output, split_state(last)
