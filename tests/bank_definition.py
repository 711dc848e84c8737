"""A bank of uncoupled oscillators by its definition: the reference recurrence in float64, then sums over all states."""

from dataclasses import replace

import numpy as np
import torch

from cornn.engine.bank import GROUP, Bank, Sequences
from cornn.functional import step, step_by, transition

CHANNELS = 3


def draw(groups=3, levels=2, plain=True, seed=0) -> Bank:
    """Draw a bank of two channels per projection."""
    random = np.random.default_rng(seed)
    neurons = groups * GROUP
    return Bank(
        np.arange(groups) % 2,
        random.normal(size=(groups, 2)).astype(np.float32),
        random.uniform(0.3, 3, neurons).astype(np.float32),
        random.normal(size=neurons).astype(np.float32),
        np.stack([random.uniform(0.05, 0.8, neurons), np.ones(neurons), random.uniform(0.1, 0.8, neurons)]),
        random.normal(scale=0.3, size=(2, levels, neurons)).astype(np.float32),
        plain,
    )


def sequences(lengths=(1, 5, 40, 17), seed=1, spans=False) -> Sequences:
    """Draw sequences, with three kinds of steps if `spans`."""
    random = np.random.default_rng(seed)
    starts = np.r_[0, np.cumsum(lengths)].astype(np.int64)
    times = random.choice([0.5, 1.0, 2.25], starts[-1]) if spans else None
    return Sequences(random.normal(size=(starts[-1], CHANNELS)).astype(np.float32), starts, times)


def states_by_definition(bank: Bank, data: Sequences, number: int) -> np.ndarray:
    """Return y and z of one sequence by the reference recurrence, shape (time, 2, neurons)."""
    own = slice(data.starts[number], data.starts[number + 1])
    width = bank.direction.shape[1]
    drives = [data.input[own, first : first + width] @ d for first, d in zip(bank.first, bank.direction, strict=True)]
    drive = bank.gain * np.repeat(np.stack(drives, 1), GROUP, 1) + bank.bias
    none = torch.zeros(bank.neurons, bank.neurons, dtype=torch.float64)
    states = torch.zeros(1, bank.neurons, dtype=torch.float64), torch.zeros(1, bank.neurons, dtype=torch.float64)
    found = []
    for t, row in enumerate(torch.from_numpy(drive).double()):
        spans = None if data.spans is None else torch.tensor([[float(data.spans[own][t])]], dtype=torch.float64)
        constants = [torch.from_numpy(part) for part in bank.constants]
        if spans is None:
            states = step(row[None], *states, none, none, *constants)
        else:
            states = step_by(transition(*constants, spans), row[None], *states, none, none)
        found.append(torch.cat(states).numpy())
    return np.stack(found)


def pool_by_definition(bank: Bank, data: Sequences) -> np.ndarray:
    """Return what `pool` does, in float64, from all states at once."""
    found = []
    for number in range(len(data)):
        trajectory = states_by_definition(bank, data, number)
        own = slice(data.starts[number], data.starts[number + 1])
        weight = np.ones(len(trajectory)) if data.spans is None else data.spans[own]
        ends = np.cumsum(weight)
        middle, total, rows = ends - weight / 2, ends[-1], []
        for v in range(2):
            for level in bank.levels[v]:
                above = trajectory[:, v] > level
                share = (above * weight[:, None]).sum(0)
                run = longest = np.zeros(bank.neurons)
                for now, w in zip(above, weight, strict=True):
                    run = np.where(now, run + w, 0)
                    longest = np.maximum(longest, run)
                moment = (above * (weight * middle)[:, None]).sum(0)
                rows += [share / total, moment / np.where(share > 0, share, 1) / total, longest / total]
            if bank.plain:
                x = trajectory[:, v]
                mean, square = (np.average(part, axis=0, weights=weight) for part in (x, x**2))
                rows += [x.max(0), mean, np.sqrt(square), x[-1]]
        found.append(np.stack(rows))
    return np.stack(found)


def with_clear_levels(bank: Bank, data: Sequences) -> Bank:
    """Return the bank with levels far from all states, so that rounding moves no state across them.

    Each is in the widest gap between a few neighbouring states, at quantiles spread over all of them.
    """
    states = np.concatenate([states_by_definition(bank, data, number) for number in range(len(data))])
    states = np.sort(states, 0).transpose(1, 2, 0)  # (2, neurons, steps)
    gaps, count = np.diff(states), bank.levels.shape[1]
    bounds = np.linspace(0, gaps.shape[-1], count + 1).astype(int)
    levels = np.empty_like(bank.levels)
    for j in range(count):
        best = bounds[j] + gaps[:, :, bounds[j] : bounds[j + 1]].argmax(-1)[..., None]
        ends = (np.take_along_axis(states, place, -1)[..., 0] for place in (best, best + 1))
        levels[:, j] = sum(ends) / 2
    return replace(bank, levels=levels)
