"""The bank of uncoupled oscillators: C against PyTorch, against the layer's own equations, and in pieces."""

import numpy as np
import pytest
import torch

from cornn.engine import bank as banks
from cornn.engine.bank import GROUP, Bank, Memory, Sequences
from cornn.functional import unroll

ROUNDING = 2e-5  # of float32 over a few hundred steps
CHANNELS = 3

needs_library = pytest.mark.skipif(banks.backend()[0] != "c", reason="the C library was not built")


def draw(groups=3, levels=2, plain=True, seed=0) -> Bank:
    random = np.random.default_rng(seed)
    neurons = groups * GROUP
    # Levels lie off the trajectories' values, so that rounding moves no sample across them.
    return Bank(
        np.array([0, 1, 0][:groups]),
        random.normal(size=(groups, 2)).astype(np.float32),
        random.uniform(0.3, 3, neurons).astype(np.float32),
        random.normal(size=neurons).astype(np.float32),
        np.stack([random.uniform(0.05, 0.8, neurons), np.ones(neurons), random.uniform(0.1, 0.8, neurons)]),
        random.normal(scale=0.3, size=(2, levels, neurons)).astype(np.float32),
        plain,
    )


def sequences(lengths=(1, 5, 40, 17), seed=1, spans=False) -> Sequences:
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
            from cornn.functional import step

            states = step(row[None], *states, none, none, *constants)
        else:
            from cornn.functional import step_by, transition

            states = step_by(transition(*constants, spans), row[None], *states, none, none)
        found.append(torch.cat(states).numpy())
    return np.stack(found)


def pool_by_definition(bank: Bank, data: Sequences) -> np.ndarray:
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


@pytest.mark.parametrize("levels", [1, 2, 3, 4])
@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("spans", [False, True])
def test_pools_as_defined(levels, plain, spans):
    bank, data = draw(levels=levels, plain=plain), sequences(spans=spans)
    expected = pool_by_definition(bank, data)
    np.testing.assert_allclose(banks._pool_portable(bank, data, None, torch.device("cpu")), expected, atol=ROUNDING)
    np.testing.assert_allclose(banks.pool(bank, data), expected, atol=ROUNDING)


@pytest.mark.parametrize("spans", [False, True])
def test_states_as_defined(spans, monkeypatch):
    bank, data = draw(), sequences(spans=spans)
    expected = np.concatenate([states_by_definition(bank, data, number) for number in range(len(data))])
    rows = np.array([0, 3, 5, 20, 45, 60])
    np.testing.assert_allclose(banks.compute_states(bank, data), expected, atol=ROUNDING)
    np.testing.assert_allclose(banks.compute_states(bank, data, rows), expected[rows], atol=ROUNDING)
    np.testing.assert_allclose(banks._states_portable(bank, data, rows), expected[rows], atol=ROUNDING)


@pytest.mark.parametrize("spans", [False, True])
@pytest.mark.parametrize("portable", [False, True])
def test_in_pieces_is_as_in_one(spans, portable):
    bank, data = draw(), sequences((30, 30), spans=spans)
    memory = Memory.empty(bank, 2)

    def run(own):
        return (
            banks._pool_portable(bank, own, memory, torch.device("cpu")) if portable else banks.pool(bank, own, memory)
        )

    for start, stop in ((0, 1), (1, 12), (12, 30)):
        rows = np.r_[start:stop, 30 + start : 30 + stop]
        starts = np.array([0, stop - start, 2 * (stop - start)])
        found = run(Sequences(data.input[rows], starts, None if data.spans is None else data.spans[rows]))
    np.testing.assert_allclose(found, banks.pool(bank, data), atol=ROUNDING)


@needs_library
def test_threads_and_tables_change_nothing(monkeypatch):
    bank, data = draw(), sequences(tuple(range(1, 20)), spans=True)
    expected = banks.pool(bank, data)
    threads = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        assert (banks.pool(bank, data) == expected).all()
    finally:
        torch.set_num_threads(threads)
    monkeypatch.setattr(banks, "TABLE_BYTES", 1)
    assert (banks.pool(bank, data) == expected).all()
    assert (banks.compute_states(bank, data) == banks.compute_states(draw(), data)).all()


def test_a_bank_is_a_layer_without_coupling():
    bank, data = draw(), sequences((25,))
    drive = torch.from_numpy(data.input[:, :2] @ bank.direction[0])[:, None]
    drive = torch.from_numpy(bank.gain[:GROUP]) * drive + torch.from_numpy(bank.bias[:GROUP])
    none = torch.zeros(GROUP, GROUP)
    constants = torch.from_numpy(bank.constants[:, :GROUP]).float()
    state = torch.zeros(1, GROUP), torch.zeros(1, GROUP)
    output, _ = unroll(drive[:, None], *state, none, none, *constants)
    np.testing.assert_allclose(
        banks.compute_states(bank.select(slice(0, 1)), data)[:, 0], output[:, 0].numpy(), atol=ROUNDING
    )
