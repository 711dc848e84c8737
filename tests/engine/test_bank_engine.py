"""The bank of uncoupled oscillators: C against PyTorch, against the layer's own equations, and in pieces."""

import numpy as np
import pytest
import torch
from bank_definition import draw, pool_by_definition, sequences, states_by_definition

from cornn.engine import bank as banks
from cornn.engine import bank_portable
from cornn.engine.bank import GROUP, Memory, Sequences
from cornn.functional import unroll

ROUNDING = 2e-5  # of float32 over a few hundred steps

needs_library = pytest.mark.skipif(banks.backend()[0] != "c", reason="the C library was not built")


@pytest.mark.parametrize("levels", [1, 2, 3, 4])
@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("spans", [False, True])
def test_pools_as_defined(levels, plain, spans):
    bank, data = draw(levels=levels, plain=plain), sequences(spans=spans)
    expected = pool_by_definition(bank, data)
    np.testing.assert_allclose(bank_portable.pool(bank, data, None, torch.device("cpu")), expected, atol=ROUNDING)
    np.testing.assert_allclose(banks.pool(bank, data), expected, atol=ROUNDING)


@pytest.mark.parametrize("spans", [False, True])
def test_states_as_defined(spans, monkeypatch):
    bank, data = draw(), sequences(spans=spans)
    expected = np.concatenate([states_by_definition(bank, data, number) for number in range(len(data))])
    rows = np.array([0, 3, 5, 20, 45, 60])
    np.testing.assert_allclose(banks.compute_states(bank, data), expected, atol=ROUNDING)
    np.testing.assert_allclose(banks.compute_states(bank, data, rows), expected[rows], atol=ROUNDING)
    np.testing.assert_allclose(bank_portable.compute_states(bank, data, rows), expected[rows], atol=ROUNDING)


@pytest.mark.parametrize("spans", [False, True])
@pytest.mark.parametrize("portable", [False, True])
def test_in_pieces_is_as_in_one(spans, portable):
    bank, data = draw(), sequences((30, 30), spans=spans)
    memory = Memory.empty(bank, 2)

    def run(own):
        return bank_portable.pool(bank, own, memory, torch.device("cpu")) if portable else banks.pool(bank, own, memory)

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
