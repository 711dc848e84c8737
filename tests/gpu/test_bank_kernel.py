"""The bank's kernel against float64, against C, in odd sizes, with uneven times, and below the estimators."""

import numpy as np
import pytest
import torch
from bank_definition import draw, pool_by_definition, sequences, with_clear_levels

from cornn.engine import bank as banks
from cornn.engine.bank import Memory, Sequences
from cornn.estimators import CoRNNClassifier, CoRNNRegressor, OscillatorBank, Series

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")

ROUNDING = 2e-5  # of float32 over a few hundred steps
ODD = (1, 2, 31, 32, 33, 64, 65, 200)


def test_there_is_a_kernel():
    assert banks.backend("cuda") == ("cuda", "CUDA kernel")


@pytest.mark.parametrize("spans", [False, True])
@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize(("groups", "levels"), [(1, 1), (3, 2), (8, 3), (9, 4), (17, 2)])
def test_it_is_right(groups, levels, plain, spans):
    data = sequences(ODD, spans=spans)
    bank = with_clear_levels(draw(groups, levels, plain), data)
    poison = torch.full((1 << 24,), torch.nan, device="cuda")
    del poison
    found = banks.pool(bank, data, device="cuda")
    np.testing.assert_allclose(found, pool_by_definition(bank, data), atol=ROUNDING)
    np.testing.assert_allclose(found, banks.pool(bank, data), atol=ROUNDING)
    assert (banks.pool(bank, data, device="cuda") == found).all()


def test_many_sequences_and_long_ones():
    data = sequences((7,) * 5000 + (3000,) * 3)
    bank = with_clear_levels(draw(3), data.select(4995, 5003))
    found, expected = banks.pool(bank, data, device="cuda"), banks.pool(bank, data)
    np.testing.assert_allclose(found[-8:], expected[-8:], atol=ROUNDING)
    # Where a state is within rounding of a level, it may count as above for one and below for the other.
    assert (np.abs(found - expected) > ROUNDING).mean() < 1e-4


@pytest.mark.parametrize("spans", [False, True])
def test_in_pieces_and_parts_is_as_in_one(spans, monkeypatch):
    data = sequences((40, 40), spans=spans)
    bank = with_clear_levels(draw(), data)
    whole, memory = banks.pool(bank, data, device="cuda"), Memory.empty(bank, 2)
    monkeypatch.setattr(banks, "DEVICE_BYTES", 1)
    monkeypatch.setattr(banks, "TABLE_BYTES", 1)
    for start, stop in ((0, 1), (1, 12), (12, 40)):
        rows = np.r_[start:stop, 40 + start : 40 + stop]
        starts = np.array([0, stop - start, 2 * (stop - start)])
        own = Sequences(data.input[rows], starts, None if data.spans is None else data.spans[rows])
        found = banks.pool(bank, own, memory, device="cuda")
    np.testing.assert_allclose(found, whole, atol=ROUNDING)


@pytest.mark.skipif(banks.backend("cpu")[0] != "c", reason="no C library")
def test_missing_numbers_spread_as_in_c():
    data = sequences((20, 20, 20))
    data.input[25] = np.nan
    bank = draw()
    found, expected = banks.pool(bank, data, device="cuda"), banks.pool(bank, data)
    assert (np.isnan(found) == np.isnan(expected)).all()
    assert np.isfinite(found[[0, 2]]).all()


def test_without_the_kernel_pytorch_serves(monkeypatch):
    data = sequences(ODD, spans=True)
    bank = with_clear_levels(draw(), data)
    expected = banks.pool(bank, data, device="cuda")
    monkeypatch.setattr(banks.bank_cuda, "unusable", lambda device: "not here")
    np.testing.assert_allclose(banks.pool(bank, data, device="cuda"), expected, atol=ROUNDING)


def draw_series(gaps: bool, times: bool):
    random = np.random.default_rng(0)
    y = np.arange(80) % 2
    found = []
    for own in y:
        steps = random.integers(20, 60)
        time = np.cumsum(random.uniform(0.5, 1.5, steps)) if times else np.arange(steps)
        values = np.stack([np.sin(time * (0.5 if own else 0.3) + random.uniform(0, 6)), random.normal(size=steps)], 1)
        if gaps:
            values[random.random(values.shape) < 0.2] = np.nan
        found.append(Series(values, time if times else None))
    return found, y


@pytest.mark.parametrize(("gaps", "times"), [(False, False), (True, False), (False, True), (True, True)])
def test_the_estimators_agree_with_the_cpu(gaps, times):
    X, y = draw_series(gaps, times)
    on = {device: CoRNNClassifier(random_state=0, device=device).fit(X[:50], y[:50]) for device in ("cpu", "cuda")}
    assert (on["cpu"].predict(X[50:]) == on["cuda"].predict(X[50:])).all()
    chances = [own.predict_proba(X[50:]) for own in on.values()]
    np.testing.assert_allclose(*chances, atol=5e-3)
    numbers = [CoRNNRegressor(random_state=0, device=device).fit(X[:50], y[:50] * 1.0).predict(X[50:]) for device in on]
    np.testing.assert_allclose(*numbers, atol=5e-3)
    features = [OscillatorBank(neurons=64, random_state=0, device=device).fit_transform(X) for device in on]
    assert (np.abs(features[0] - features[1]) > ROUNDING).mean() < 1e-3
