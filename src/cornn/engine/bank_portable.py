"""The bank of oscillators in PyTorch operations, on any device."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cornn._tf32 import no_tf32
from cornn.engine.bank_data import GROUP, VARIABLES, Bank, Memory, Sequences
from cornn.functional import transition

__all__ = ["compute_states", "pool"]

PORTABLE_BYTES = 1 << 28  # of sums at a time


class _Run:
    """The bank in PyTorch, one step of all sequences at a time."""

    def __init__(self, bank: Bank, data: Sequences, device: torch.device) -> None:
        self.lengths = torch.from_numpy(np.diff(data.starts)).to(device)
        self.starts = torch.from_numpy(data.starts[:-1]).to(device)
        self.input = torch.from_numpy(data.input).to(device)
        self.first = [int(first) for first in bank.first]
        self.direction, self.gain, self.bias = (
            torch.from_numpy(part).to(device) for part in (bank.direction, bank.gain, bank.bias)
        )
        self.constants = torch.from_numpy(bank.constants).to(device)  # dt, gamma and epsilon
        self.spans = None if data.spans is None else torch.from_numpy(data.spans).to(device)
        self.keep, self.push, self.pull, self.dt = torch.from_numpy(bank.steps()).to(device)
        self.weight = self._weight(data.input.shape[1], device)
        self.longest = int(self.lengths.max())

    def _weight(self, channels: int, device: torch.device) -> Tensor:
        """Return the projections as one matrix, shape `(channels, groups)`."""
        weight = torch.zeros(channels, len(self.first), device=device)
        for group, first in enumerate(self.first):
            weight[first : first + self.direction.shape[1], group] = self.direction[group]
        return weight

    def step(self, t: int, y: Tensor, z: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return y, z, which sequences have a step t, and its duration; the others keep their state."""
        active = t < self.lengths
        row = torch.where(active, self.starts + t, self.starts)
        drive = (self.input[row] @ self.weight).repeat_interleave(GROUP, 1)
        force = torch.tanh(self.gain * drive + self.bias)
        if self.spans is None:
            next_z = self.keep * z + self.push * force - self.pull * y
            next_y = y + self.dt * next_z
            duration = torch.ones_like(active, dtype=torch.float32)
        else:
            dt, gamma, epsilon = self.constants
            by = [part.float() for part in transition(dt, gamma, epsilon, self.spans[row][:, None])]
            next_y = by[0] * y + by[1] * z + by[2] * force
            next_z = by[3] * y + by[4] * z + by[5] * force
            duration = self.spans[row].float()
        column = active[:, None]
        duration = torch.where(active, duration, 0)[:, None]
        return torch.where(column, next_y, y), torch.where(column, next_z, z), column, duration


def pool(bank: Bank, data: Sequences, memory: Memory | None, device: torch.device) -> NDArray[np.float32]:
    """Pool as `engine.bank.pool` does: the naive version of csrc/bank.c."""
    size = 4 * bank.neurons * (4 * bank.stats + 8)
    count = max(1, PORTABLE_BYTES // size)
    parts = []
    for start in range(0, len(data), count):
        stop = min(start + count, len(data))
        part = None if memory is None else memory.select(start, stop)
        with no_tf32():
            parts.append(_pool_part(bank, data.select(start, stop), part, device))
    return np.concatenate(parts)


def _pool_part(bank: Bank, data: Sequences, memory: Memory | None, device: torch.device) -> NDArray[np.float32]:
    run, levels, plain = _Run(bank, data, device), bank.levels.shape[1], bank.plain
    before = Memory.empty(bank, len(data)) if memory is None else memory
    sums = torch.from_numpy(before.sums.copy()).to(device)
    time = torch.from_numpy(before.elapsed.copy()).to(device)[:, None]
    sizes = [1 + 4 * levels + 3 * plain] * 2
    variables = [list(part.unbind(1)) for part in sums.split(sizes, 1)]  # state, then sums, of y and of z
    height = torch.from_numpy(bank.levels).to(device)
    if plain:
        for values in variables:
            values[-3] = torch.where(time == 0, -torch.inf, values[-3])
    for t in range(run.longest):
        y, z, active, duration = run.step(t, variables[0][0], variables[1][0])
        moment = duration * (time + 0.5 * duration)
        time = time + duration
        for values, x, level in zip(variables, (y, z), height, strict=True):
            values[0] = x
            for j in range(levels):
                at = 1 + 4 * j
                over = (x > level[j]) & active
                values[at] = values[at] + over * duration
                values[at + 1] = values[at + 1] + over * moment
                values[at + 2] = torch.where(active, over * (values[at + 2] + duration), values[at + 2])
                values[at + 3] = torch.maximum(values[at + 2], values[at + 3])
            if plain:
                values[-3] = torch.where(active, torch.maximum(x, values[-3]), values[-3])
                values[-2] = values[-2] + x * duration
                values[-1] = values[-1] + x * x * duration
    features = []
    for values in variables:
        for j in range(levels):
            share, moment, _, longest = values[1 + 4 * j : 5 + 4 * j]
            features += [share / time, moment / torch.where(share > 0, share, 1) / time, longest / time]
        if plain:
            features += [values[-3], values[-2] / time, (values[-1] / time).sqrt(), values[0]]
    if memory is not None:
        memory.sums[:] = torch.stack([value for values in variables for value in values], 1).cpu().numpy()
        memory.elapsed[:] = time[:, 0].cpu().numpy()
    return torch.stack(features, 1).cpu().numpy()


def compute_states(bank: Bank, data: Sequences, rows: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return the states as `engine.bank.compute_states` does."""
    run = _Run(bank, data, torch.device("cpu"))
    y = z = torch.zeros(len(data), bank.neurons)
    states = np.empty((len(rows), len(VARIABLES), bank.neurons), np.float32)
    sequence = np.searchsorted(data.starts, rows, "right") - 1
    step = rows - data.starts[sequence]
    for t in range(run.longest):
        y, z, _, _ = run.step(t, y, z)
        now = step == t
        states[now, 0], states[now, 1] = y[sequence[now]].numpy(), z[sequence[now]].numpy()
    return states
