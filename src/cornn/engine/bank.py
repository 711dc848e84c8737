"""Run a bank of uncoupled oscillators, coRNN with W = W_z = 0, and pool its states over time.

Neurons come in groups of `GROUP` that share a projection of the input; within a group they differ in gain, bias and
constants. The states are never kept: memory grows with sequences times neurons, not with steps. The C library runs the
bank on a CPU, a kernel on an NVIDIA GPU; `_pool_portable` does the same in PyTorch, where there is neither.
"""

import ctypes
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cornn._tf32 import no_tf32
from cornn.engine import bank_cuda
from cornn.engine.backends import c
from cornn.functional import Transition, coefficients, transition

__all__ = [
    "GROUP",
    "LEVEL_STATS",
    "PLAIN_STATS",
    "Bank",
    "Memory",
    "Sequences",
    "backend",
    "compute_states",
    "compute_transitions",
    "pool",
]

GROUP = 16
VARIABLES = ("y", "z")
LEVEL_STATS = ("share", "time", "run")
"""Per threshold: share of the time above it, mean time above it, longest run above it, as shares of the duration."""
PLAIN_STATS = ("max", "mean", "rms", "last")
"""Per variable, if asked for."""
MOST_LEVELS = 4

TABLE_BYTES = 1 << 26  # of transitions at a time
PORTABLE_BYTES = 1 << 28  # of sums at a time
DEVICE_BYTES = 1 << 30  # of features at a time on a GPU

NUMBERS = ("sequences", "groups", "channels", "width", "thresholds", "plain", "rows", "longest", "threads")
POINTERS = (
    *("input", "starts", "durations", "span", "transitions", "first", "direction", "gain", "bias", "constants"),
    *("levels", "row", "features", "states", "memory", "elapsed", "workspace"),
)


class Call(ctypes.Structure):
    """`Bank` of csrc/bank.c."""

    _fields_ = (*((name, ctypes.c_int64) for name in NUMBERS), *((name, ctypes.c_void_p) for name in POINTERS))


@dataclass(frozen=True, eq=False)
class Bank:
    """The weights of a bank.

    Attributes:
        first: First input channel of each group's projection, shape `(groups)`.
        direction: Weights of the channels from there on, shape `(groups, width)`.
        gain: Factor on the projection, shape `(neurons)`.
        bias: Bias of the drive, shape `(neurons)`.
        constants: dt, gamma and epsilon in float64, shape `(3, neurons)`.
        levels: Thresholds of y and z, shape `(2, thresholds, neurons)`.
        plain: Whether to pool `PLAIN_STATS` too.
    """

    first: NDArray[np.int64]
    direction: NDArray[np.float32]
    gain: NDArray[np.float32]
    bias: NDArray[np.float32]
    constants: NDArray[np.float64]
    levels: NDArray[np.float32]
    plain: bool

    @property
    def neurons(self) -> int:
        """Number of neurons."""
        return len(self.gain)

    @property
    def stats(self) -> int:
        """Number of pooled numbers per neuron."""
        return len(VARIABLES) * (self.levels.shape[1] * len(LEVEL_STATS) + self.plain * len(PLAIN_STATS))

    def steps(self) -> NDArray[np.float32]:
        """Return keep, push, pull and dt of one step, shape `(4, neurons)`."""
        return np.stack(coefficients(*self.constants)).astype(np.float32)

    def select(self, groups: Any) -> "Bank":
        """Return the bank of some groups (an index or a slice)."""
        own = np.arange(self.neurons).reshape(-1, GROUP)[groups].ravel()
        return Bank(
            self.first[groups],
            self.direction[groups],
            self.gain[own],
            self.bias[own],
            self.constants[:, own],
            self.levels[:, :, own],
            self.plain,
        )


@dataclass(frozen=True, eq=False)
class Sequences:
    """Sequences one after the other.

    Attributes:
        input: Channels of all steps in float32, shape `(steps, channels)`.
        starts: First step of each sequence, and the number of steps, shape `(sequences + 1)`.
        spans: Duration of each step in units of the usual step, shape `(steps)`; None if all are 1.
    """

    input: NDArray[np.float32]
    starts: NDArray[np.int64]
    spans: NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return len(self.starts) - 1

    def select(self, start: int, stop: int) -> "Sequences":
        """Return the sequences from `start` to `stop`."""
        rows = slice(self.starts[start], self.starts[stop])
        starts = self.starts[start : stop + 1] - self.starts[start]
        return Sequences(self.input[rows], starts, None if self.spans is None else self.spans[rows])


@dataclass(frozen=True, eq=False)
class Memory:
    """What is known of sequences so far, so that their next steps can follow: states and sums, changed in place."""

    sums: NDArray[np.float32]  # (sequences, numbers, neurons)
    elapsed: NDArray[np.float32]  # (sequences)

    @classmethod
    def empty(cls, bank: Bank, sequences: int) -> "Memory":
        """Return the memory of sequences that have not begun."""
        size = len(VARIABLES) * (1 + 4 * bank.levels.shape[1] + 3 * bank.plain)
        return cls(np.zeros((sequences, size, bank.neurons), np.float32), np.zeros(sequences, np.float32))

    def select(self, start: int, stop: int) -> "Memory":
        """Return the memory of the sequences from `start` to `stop`, without a copy."""
        return Memory(self.sums[start:stop], self.elapsed[start:stop])


def backend(device: str = "cpu") -> tuple[str, str]:
    """Return the name of a device's backend, "c", "cuda" or "portable", and why."""
    if torch.device(device).type == "cuda":
        reason = bank_cuda.unusable(torch.device(device).index)
        return ("cuda", "CUDA kernel") if reason is None else ("portable", reason)
    try:
        _function("cornn_bank_pool")
    except c.Unusable as reason:
        return "portable", str(reason)
    return "c", f"C kernels ({c.instruction_set()})"


def pool(bank: Bank, data: Sequences, memory: Memory | None = None, device: str = "cpu") -> NDArray[np.float32]:
    """Run the bank over sequences and pool its states.

    Args:
        bank: The weights.
        data: The sequences.
        memory: State and sums of each sequence before its first step here; updated in place. None: all sequences
            start here.
        device: "cpu", or a CUDA device.

    Returns:
        The pooled numbers, shape `(sequences, stats, neurons)`: for y and then z, per threshold `LEVEL_STATS`, then
        `PLAIN_STATS` if the bank has them.
    """
    run = {"c": _pool_c, "cuda": _pool_cuda, "portable": _pool_portable}[backend(device)[0]]
    return run(bank, data, memory, torch.device(device))


def _pool_c(bank: Bank, data: Sequences, memory: Memory | None, device: torch.device) -> NDArray[np.float32]:
    features = np.empty((len(data), bank.stats, bank.neurons), np.float32)
    before = None if memory is None else memory.elapsed.copy()
    for groups, table in _tables(bank, data, device):
        lanes = slice(groups.start * GROUP, groups.stop * GROUP)
        held = {}
        if memory is not None:
            memory.elapsed[:] = before
            held = {"memory": np.ascontiguousarray(memory.sums[:, :, lanes]), "elapsed": memory.elapsed}
        if groups.stop - groups.start == len(bank.first):
            _call("cornn_bank_pool", bank, data, table, features=features, **held)
        else:
            part = bank.select(groups)
            into = np.empty((len(data), bank.stats, part.neurons), np.float32)
            _call("cornn_bank_pool", part, data, table, features=into, **held)
            features[:, :, lanes] = into
        if memory is not None and held["memory"] is not memory.sums:
            memory.sums[:, :, lanes] = held["memory"]
    return features


def _pool_cuda(bank: Bank, data: Sequences, memory: Memory | None, device: torch.device) -> NDArray[np.float32]:
    features = np.empty((len(data), bank.stats, bank.neurons), np.float32)
    count = max(1, DEVICE_BYTES // features[:1].nbytes)
    for start in range(0, len(data), count):
        stop = min(start + count, len(data))
        held = None if memory is None else memory.select(start, stop)
        features[start:stop] = _pool_cuda_part(bank, data.select(start, stop), held, device)
    return features


def _pool_cuda_part(bank: Bank, data: Sequences, memory: Memory | None, device: torch.device) -> NDArray[np.float32]:
    def move(array: NDArray) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(device)

    input, starts = move(data.input), move(data.starts)
    elapsed = None if memory is None else move(memory.elapsed)
    parts = []
    for groups, table in _tables(bank, data, device):
        part = bank.select(groups)
        lanes = slice(groups.start * GROUP, groups.stop * GROUP)
        sums = None if memory is None else move(memory.sums[:, :, lanes])
        times = None if table is None else (move(table.durations), move(table.span), table.transitions)
        features = torch.empty(len(data), bank.stats, part.neurons, device=device)
        given = bank_cuda.Arguments(
            input=input,
            starts=starts,
            times=times,
            first=move(part.first),
            direction=move(part.direction),
            gain=move(part.gain),
            bias=move(part.bias),
            constants=move(part.steps()),
            levels=move(part.levels),
            features=features,
            sums=sums,
            elapsed=elapsed,
        )
        bank_cuda.launch_pool(given, GROUP, bank.plain)
        if memory is not None and sums is not None:
            memory.sums[:, :, lanes] = sums.cpu().numpy()
        parts.append(features.cpu().numpy())
    if memory is not None:
        memory.elapsed[:] = _elapsed(data, memory.elapsed)
    return parts[0] if len(parts) == 1 else np.concatenate(parts, 2)


def _elapsed(data: Sequences, before: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the time since the start of each sequence, added up in float32 as the kernels do."""
    spans = np.ones(len(data.input)) if data.spans is None else data.spans
    parts = np.split(spans.astype(np.float32), data.starts[1:-1])
    return np.array([np.cumsum(np.r_[old, own])[-1] for old, own in zip(before, parts, strict=True)], np.float32)


def compute_states(bank: Bank, data: Sequences, rows: NDArray[np.int64] | None = None) -> NDArray[np.float32]:
    """Return the states y and z of a bank after some steps.

    Args:
        bank: The weights.
        data: The sequences.
        rows: Increasing numbers of steps, counted over all sequences, shape `(rows)`. None: all.

    Returns:
        The states, shape `(rows, 2, neurons)`.
    """
    rows = np.arange(len(data.input)) if rows is None else np.ascontiguousarray(rows, np.int64)
    if backend()[0] != "c":
        return _states_portable(bank, data, rows)
    states = np.empty((len(rows), len(VARIABLES), bank.neurons), np.float32)
    for groups, table in _tables(bank, data, torch.device("cpu")):
        if groups.stop - groups.start == len(bank.first):
            _call("cornn_bank_states", bank, data, table, row=rows, states=states)
        else:
            part = bank.select(groups)
            into = np.empty((len(rows), len(VARIABLES), part.neurons), np.float32)
            _call("cornn_bank_states", part, data, table, row=rows, states=into)
            states[:, :, groups.start * GROUP : groups.stop * GROUP] = into
    return states


def compute_transitions(bank: Bank, spans: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return the coefficients of `functional.transition` for some durations, shape `(spans, 6, neurons)`."""
    return _transitions(bank.constants, spans, torch.device("cpu")).numpy()


@dataclass(frozen=True, eq=False)
class _Table:
    """The transitions of all durations that occur."""

    span: NDArray[np.int32]
    transitions: Tensor  # (spans, 6, neurons), on the device
    durations: NDArray[np.float32]


def _tables(bank: Bank, data: Sequences, device: torch.device) -> Iterator[tuple[slice, _Table | None]]:
    """Yield slices of groups with the transitions of their neurons, a table at a time."""
    total = len(bank.first)
    if data.spans is None:
        yield slice(0, total), None
        return
    values, index = np.unique(data.spans, return_inverse=True)
    durations = data.spans.astype(np.float32)
    span = index.astype(np.int32).reshape(-1)
    groups = max(1, TABLE_BYTES // (4 * 6 * GROUP * len(values)))
    for start in range(0, total, groups):
        stop = min(start + groups, total)
        constants = bank.constants[:, start * GROUP : stop * GROUP]
        yield slice(start, stop), _Table(span, _transitions(constants, values, device), durations)


def _transitions(constants: NDArray[np.float64], spans: NDArray[np.float64], device: torch.device) -> Tensor:
    """Return the coefficients of `functional.transition`, shape `(spans, 6, neurons)`."""
    own = torch.from_numpy(np.ascontiguousarray(constants)).to(device)
    by = _transition(own, torch.from_numpy(spans)[:, None].to(device))
    return torch.stack([part.float() for part in by], 1)


def _transition(constants: Tensor, spans: Tensor) -> Transition:
    dt, gamma, epsilon = constants
    return transition(dt, gamma, epsilon, spans)


@functools.cache
def _function(name: str) -> Any:
    library, isa = c._library(), c.instruction_set()
    try:
        return library[f"{name}_{isa}"]
    except AttributeError:
        raise c.Unusable(f"{c.LIBRARY.name} was built without the oscillator bank: install cornn again") from None


def _call(name: str, bank: Bank, data: Sequences, table: _Table | None, **arrays: NDArray | None) -> None:
    longest = int(np.diff(data.starts).max())
    threads = torch.get_num_threads()
    kept: dict[str, NDArray | None] = {
        "input": data.input,
        "starts": data.starts,
        "first": bank.first,
        "direction": bank.direction,
        "gain": bank.gain,
        "bias": bank.bias,
        "constants": bank.steps(),
        "levels": bank.levels,
        "workspace": np.empty((threads, longest), np.float32),
        **arrays,
    }
    if table is not None:
        kept |= {"durations": table.durations, "span": table.span, "transitions": table.transitions.numpy()}
    kept = {key: None if value is None else np.ascontiguousarray(value) for key, value in kept.items()}
    call = Call(
        sequences=len(data),
        groups=len(bank.first),
        channels=data.input.shape[1],
        width=bank.direction.shape[1],
        thresholds=bank.levels.shape[1],
        plain=int(bank.plain),
        rows=len(arrays["row"]) if arrays.get("row") is not None else 0,  # pyright: ignore[reportArgumentType]
        longest=longest,
        threads=threads,
    )
    for key, value in kept.items():
        if value is not None:
            setattr(call, key, value.ctypes.data)
    _function(name)(ctypes.byref(call))


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
        self.constants = torch.from_numpy(bank.constants).to(device)
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
        there = t < self.lengths
        row = torch.where(there, self.starts + t, self.starts)
        drive = (self.input[row] @ self.weight).repeat_interleave(GROUP, 1)
        force = torch.tanh(self.gain * drive + self.bias)
        if self.spans is None:
            next_z = self.keep * z + self.push * force - self.pull * y
            next_y = y + self.dt * next_z
            duration = torch.ones_like(there, dtype=torch.float32)
        else:
            by = [part.float() for part in _transition(self.constants, self.spans[row][:, None])]
            next_y = by[0] * y + by[1] * z + by[2] * force
            next_z = by[3] * y + by[4] * z + by[5] * force
            duration = self.spans[row].float()
        own = there[:, None]
        return torch.where(own, next_y, y), torch.where(own, next_z, z), own, torch.where(there, duration, 0)[:, None]


def _pool_portable(bank: Bank, data: Sequences, memory: Memory | None, device: torch.device) -> NDArray[np.float32]:
    """The naive version of csrc/bank.c."""
    size = 4 * bank.neurons * (4 * bank.stats + 8)
    count = max(1, PORTABLE_BYTES // size)
    parts = []
    for start in range(0, len(data), count):
        stop = min(start + count, len(data))
        held = None if memory is None else memory.select(start, stop)
        with no_tf32():
            parts.append(_pool_part(bank, data.select(start, stop), held, device))
    return np.concatenate(parts)


def _pool_part(bank: Bank, data: Sequences, memory: Memory | None, device: torch.device) -> NDArray[np.float32]:
    run, levels, plain = _Run(bank, data, device), bank.levels.shape[1], bank.plain
    held = Memory.empty(bank, len(data)) if memory is None else memory
    sums = torch.from_numpy(held.sums.copy()).to(device)
    time = torch.from_numpy(held.elapsed.copy()).to(device)[:, None]
    sizes = [1 + 4 * levels + 3 * plain] * 2
    variables = [list(part.unbind(1)) for part in sums.split(sizes, 1)]  # state, then sums, of y and of z
    height = torch.from_numpy(bank.levels).to(device)
    if plain:
        for own in variables:
            own[-3] = torch.where(time == 0, -torch.inf, own[-3])
    for t in range(run.longest):
        y, z, there, duration = run.step(t, variables[0][0], variables[1][0])
        moment = duration * (time + 0.5 * duration)
        time = time + duration
        for own, x, level in zip(variables, (y, z), height, strict=True):
            own[0] = x
            for j in range(levels):
                at = 1 + 4 * j
                over = (x > level[j]) & there
                own[at] = own[at] + over * duration
                own[at + 1] = own[at + 1] + over * moment
                own[at + 2] = torch.where(there, over * (own[at + 2] + duration), own[at + 2])
                own[at + 3] = torch.maximum(own[at + 2], own[at + 3])
            if plain:
                own[-3] = torch.where(there, torch.maximum(x, own[-3]), own[-3])
                own[-2] = own[-2] + x * duration
                own[-1] = own[-1] + x * x * duration
    found = []
    for own in variables:
        for j in range(levels):
            share, moment, _, longest = own[1 + 4 * j : 5 + 4 * j]
            found += [share / time, moment / torch.where(share > 0, share, 1) / time, longest / time]
        if plain:
            found += [own[-3], own[-2] / time, (own[-1] / time).sqrt(), own[0]]
    if memory is not None:
        memory.sums[:] = torch.stack([part for own in variables for part in own], 1).cpu().numpy()
        memory.elapsed[:] = time[:, 0].cpu().numpy()
    return torch.stack(found, 1).cpu().numpy()


def _states_portable(bank: Bank, data: Sequences, rows: NDArray[np.int64]) -> NDArray[np.float32]:
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
