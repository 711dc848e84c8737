"""Run a bank of uncoupled oscillators, coRNN with W = W_z = 0, and pool its states over time.

Neurons come in groups of `GROUP` that share a projection of the input; within a group they differ in gain, bias and
constants. The states are never kept: memory grows with sequences times neurons, not with steps. The C library runs the
bank on a CPU, a kernel on an NVIDIA GPU; `bank_portable` runs it in PyTorch where neither is available.
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

from cornn.engine import bank_cuda, bank_portable
from cornn.engine.backends import c
from cornn.engine.bank_data import GROUP, LEVEL_STATS, MOST_LEVELS, PLAIN_STATS, VARIABLES, Bank, Memory, Sequences
from cornn.functional import transition

__all__ = [
    "GROUP",
    "LEVEL_STATS",
    "MOST_LEVELS",
    "PLAIN_STATS",
    "VARIABLES",
    "Bank",
    "Memory",
    "Sequences",
    "backend",
    "compute_states",
    "compute_transitions",
    "pool",
]

TABLE_BYTES = 1 << 26  # of transitions at a time
DEVICE_BYTES = 1 << 30  # of features at a time on a GPU

NUMBERS = ("sequences", "groups", "channels", "width", "thresholds", "plain", "rows", "longest", "threads")
POINTERS = (
    *("input", "starts", "durations", "span", "transitions", "first", "direction", "gain", "bias", "constants"),
    *("levels", "row", "features", "states", "memory", "elapsed", "workspace"),
)


class Call(ctypes.Structure):
    """`Bank` of csrc/bank.c."""

    _fields_ = (*((name, ctypes.c_int64) for name in NUMBERS), *((name, ctypes.c_void_p) for name in POINTERS))


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
    run = {"c": _pool_c, "cuda": _pool_cuda, "portable": bank_portable.pool}[backend(device)[0]]
    return run(bank, data, memory, torch.device(device))


def _pool_c(bank: Bank, data: Sequences, memory: Memory | None, device: torch.device) -> NDArray[np.float32]:
    features = np.empty((len(data), bank.stats, bank.neurons), np.float32)
    before = None if memory is None else memory.elapsed.copy()
    for groups, table in _tables(bank, data, device):
        lanes = slice(groups.start * GROUP, groups.stop * GROUP)
        sums = {}
        if memory is not None:
            memory.elapsed[:] = before
            sums = {"memory": np.ascontiguousarray(memory.sums[:, :, lanes]), "elapsed": memory.elapsed}
        if groups.stop - groups.start == len(bank.first):
            _call("cornn_bank_pool", bank, data, table, features=features, **sums)
        else:
            part = bank.select(groups)
            into = np.empty((len(data), bank.stats, part.neurons), np.float32)
            _call("cornn_bank_pool", part, data, table, features=into, **sums)
            features[:, :, lanes] = into
        if memory is not None:
            memory.sums[:, :, lanes] = sums["memory"]
    return features


def _pool_cuda(bank: Bank, data: Sequences, memory: Memory | None, device: torch.device) -> NDArray[np.float32]:
    features = np.empty((len(data), bank.stats, bank.neurons), np.float32)
    count = max(1, DEVICE_BYTES // features[:1].nbytes)
    for start in range(0, len(data), count):
        stop = min(start + count, len(data))
        part = None if memory is None else memory.select(start, stop)
        features[start:stop] = _pool_cuda_part(bank, data.select(start, stop), part, device)
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
        times = [None] * 3 if table is None else [move(table.durations), move(table.span), table.transitions]
        weights = map(move, (part.first, part.direction, part.gain, part.bias, part.steps(), part.levels))
        features = torch.empty(len(data), bank.stats, part.neurons, device=device)
        bank_cuda.launch_pool(part, data, features.device, [input, starts, *times, *weights, features, sums, elapsed])
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
    return np.array([np.cumsum(np.r_[start, part])[-1] for start, part in zip(before, parts, strict=True)], np.float32)


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
        return bank_portable.compute_states(bank, data, rows)
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
    dt, gamma, epsilon = torch.from_numpy(np.ascontiguousarray(constants)).to(device)
    by = transition(dt, gamma, epsilon, torch.from_numpy(spans)[:, None].to(device))
    return torch.stack([part.float() for part in by], 1)


@functools.cache
def _function(name: str) -> Any:
    library, isa = c.load_library(), c.instruction_set()
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
