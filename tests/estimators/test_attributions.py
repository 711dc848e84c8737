"""Attributions: equal to derivatives where there are some, concentrated where the information is, and validated."""

import numpy as np
import pytest
import torch
from bank_definition import draw, sequences, states_by_definition
from numpy.testing import assert_allclose

from cornn.engine import bank as engine
from cornn.engine.bank import Sequences
from cornn.estimators import CoRNNClassifier, CoRNNRegressor, Series, attributions
from cornn.functional import transition

STEPS, WINDOW = 60, 20
FINITE = 1e-2
"""Error of a finite difference, and of a path of finite length, relative to the largest attribution."""
ROUNDING = 2e-4
"""Error of slopes in float32 over tens of steps, relative to the largest."""


def windows(count: int, seed: int, features: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return weak noise with a bump or a dip in the first feature, the label, and the first step of the window."""
    random = np.random.default_rng(seed)
    X, y = 0.1 * random.normal(size=(count, STEPS, features)), np.arange(count) % 2
    start = random.integers(0, STEPS - WINDOW, count)
    for own, label, first in zip(X, y, start, strict=True):
        own[first : first + WINDOW, 0] += (2 * label - 1) * np.hanning(WINDOW)
    return X, y, start


def share_inside(found: np.ndarray, start: np.ndarray) -> float:
    """Return the mean share of the attributions, by size, that is inside the window."""
    size = np.abs(found).sum(2)
    return float(np.mean([own[s : s + WINDOW].sum() / own.sum() for own, s in zip(size, start, strict=True)]))


@pytest.mark.parametrize(
    "settings",
    [{"neurons": 256, "scaling": "set"}, {"method": "network", "hidden_size": 16, "epochs": 12, "learning_rate": 0.02}],
    ids=["bank", "network"],
)
def test_the_informative_window_gets_most(settings):
    """It is a third of the steps, and half of the features."""
    X, y, _ = windows(120, 0, features=2)
    new, labels, start = windows(20, 1, features=2)
    model = CoRNNClassifier(random_state=0, **settings).fit(X, y)
    assert model.score(new, labels) == 1
    found = model.attributions(new)
    assert found.shape == new.shape
    assert share_inside(found[:, :, :1], start) > 0.6
    # The window speaks for the predicted class, and the second feature is noise.
    assert all(own[s : s + WINDOW, 0].sum() > 0 for own, s in zip(found, start, strict=True))
    assert np.abs(found[:, :, 0]).sum() > 3 * np.abs(found[:, :, 1]).sum()


@pytest.mark.parametrize("timed", [False, True])
def test_near_the_mean_those_of_a_network_are_its_derivatives(timed):
    random = np.random.default_rng(2)
    X = [random.normal(size=(length, 2)) for length in random.integers(4, 12, 40)]
    times = [np.cumsum(random.uniform(0.5, 1.5, len(own))) if timed else None for own in X]
    model = CoRNNRegressor(method="network", hidden_size=8, epochs=5, random_state=0)
    model.fit([Series(*own) for own in zip(X, times, strict=True)], random.normal(size=40))
    mean = model.preparation_.mean
    near = [mean + 0.01 * own for own in X[:3]]
    found = model.attributions([Series(*own) for own in zip(near, times, strict=False)])
    assert found.shape == (3, max(map(len, near)), 2)
    for own, when, one in zip(near, times, found, strict=False):
        assert not one[len(own) :].any()
        expected = np.empty_like(own)
        for place in np.ndindex(own.shape):
            step = np.zeros_like(own)
            step[place] = 0.05
            high, low = model.predict([Series(own + step, when), Series(own - step, when)])
            expected[place] = (high - low) / 0.1 * (own - mean)[place]
        assert_allclose(one[: len(own)], expected, atol=FINITE * np.abs(expected).max())


def test_those_of_a_network_add_up():
    X, y, _ = windows(120, 3)
    model = CoRNNClassifier(method="network", hidden_size=16, epochs=10, random_state=0).fit(X, y)
    rest = np.broadcast_to(model.preparation_.mean, X.shape)
    change = model.decision_function(X) - model.decision_function(rest)
    assert np.abs(change).max() > 2
    assert_allclose(model.attributions(X, label=1).sum((1, 2)), change, atol=0.02 * np.abs(change).max())


def test_those_of_a_steep_network_add_up_too(monkeypatch):
    noise = np.random.default_rng(0).normal(size=(40, 12))
    model = CoRNNRegressor(hidden_size=16, epochs=60, random_state=1, device="cpu").fit(noise, noise[:, 0])
    constant = np.full((1, 12), model.preparation_.mean[0])
    change = model.predict(noise) - model.predict(constant)
    found = model.attributions(noise)
    assert_allclose(found.sum((1, 2)), change, atol=0.01 * np.abs(found).sum((1, 2)).max())
    assert_allclose(model.attributions(noise[5:6])[0], found[5], atol=1e-4 * np.abs(found).max())
    monkeypatch.setattr("cornn.estimators.attributions.MAX_POINTS", 8)
    with pytest.warns(UserWarning, match="of 40 sequences do not add up to the score"):
        model.attributions(noise)


def soft_features(bank, states: torch.Tensor, spans: np.ndarray, width: torch.Tensor, runs: list) -> torch.Tensor:
    """Return the features of states (steps, 2, neurons) with smooth thresholds; a run is the sum over its steps."""
    share = torch.from_numpy(spans / spans.sum())[:, None]
    middle, rows = share.cumsum(0) - share / 2, []
    for v in range(2):
        x = states[:, v]
        for level, run in zip(torch.from_numpy(bank.levels[v]).double(), runs[v], strict=True):
            above = torch.sigmoid((x - level) / width[v])
            total = (share * above).sum(0)
            rows += [total, (share * middle * above).sum(0) / total, (share * above * run).sum(0)]
        if bank.plain:
            rows += [x.max(0).values, (share * x).sum(0), (share * x**2).sum(0).sqrt(), x[-1]]
    return torch.stack(rows)


def case(spans: bool, number: int = 2):
    bank = draw()
    data = sequences(spans=spans).select(number, number + 1)
    rest = Sequences(np.zeros_like(data.input), data.starts, data.spans)
    states, still = (torch.from_numpy(states_by_definition(bank, own, 0)) for own in (data, rest))
    durations = np.ones(len(states)) if data.spans is None else data.spans
    width = attributions.SMOOTHING * states.std(0, correction=0)
    share = (durations / durations.sum()).astype(np.float32)[:, None]
    runs = [
        [torch.from_numpy(attributions._longest_run(states[:, v].numpy() > level, share)) for level in bank.levels[v]]
        for v in range(2)
    ]
    return bank, data, states, still, durations, width, runs


@pytest.mark.parametrize("spans", [False, True])
def test_slopes_of_the_features_add_up(spans):
    """Between two trajectories, for every feature whose slopes are exact by construction."""
    bank, _, states, still, durations, width, runs = case(spans)
    after, before = (soft_features(bank, own, durations, width, runs) for own in (states, still))
    checked = 0
    for stat in range(bank.stats):
        if stat % 10 == 6:  # the maximum, whose step differs
            continue
        weights = np.zeros((bank.stats, bank.neurons), np.float32)
        weights[stat] = 1
        slopes = attributions._pool_backward(
            bank, states.numpy().astype(np.float32), still.numpy().astype(np.float32), durations, weights
        )
        found = (slopes * (states - still).numpy()).sum((0, 1))
        # The mean time above a threshold is undefined for a state that is never near it.
        defined = before[stat - 1] * after[stat - 1] > 1e-6 if stat % 10 in (1, 4) else slice(None)
        assert_allclose(found[defined], (after - before)[stat][defined], rtol=1e-3, atol=1e-4)
        checked += 1
    assert checked == bank.stats - 2


@pytest.mark.parametrize("spans", [False, True])
def test_going_back_through_the_oscillators_is_autograd(spans):
    bank, _, states, _, durations, _, _ = case(spans)
    random = np.random.default_rng(4)
    weights = random.normal(size=states.shape).astype(np.float32)
    force = torch.zeros(len(states), bank.neurons, dtype=torch.float64, requires_grad=True)
    y = z = torch.zeros(bank.neurons, dtype=torch.float64)
    total = torch.zeros((), dtype=torch.float64)
    for step, own in enumerate(torch.from_numpy(weights).double()):
        by = transition(*map(torch.from_numpy, bank.constants), torch.tensor([durations[step]], dtype=torch.float64))
        y, z = by[0] * y + by[1] * z + by[2] * force[step], by[3] * y + by[4] * z + by[5] * force[step]
        total = total + (own[0] * y + own[1] * z).sum()
    (expected,) = torch.autograd.grad(total, force)
    found = attributions._force_gradient(bank, durations, weights)
    assert_allclose(found, expected, atol=ROUNDING * expected.abs().max().item())


def test_near_the_mean_those_of_a_bank_are_derivatives():
    """With small inputs a slope is a derivative: that of mean, root mean square and last value."""
    bank, data, *_ = case(False)
    weights = np.zeros((bank.stats, bank.neurons), np.float32)
    weights[[7, 8, 9, 17, 18, 19]] = 1
    small = Sequences(data.input * 1e-3, data.starts, None)
    found = attributions._input_gradient(bank, small, weights)
    for place in ((0, 0), (3, 1), (20, 2)):
        ends = []
        for sign in (1, -1):
            moved = small.input.copy()
            moved[place] += sign * 0.02
            ends.append((engine.pool(bank, Sequences(moved, data.starts, None))[0].astype(np.float64) * weights).sum())
        assert_allclose(found[place], (ends[0] - ends[1]) / 0.04, atol=0.01 * np.abs(found).max())


def test_the_longest_run_has_its_steps_and_their_neighbours():
    above = np.array([[0, 1, 1, 0, 0, 1, 0], [1, 1, 0, 1, 1, 1, 1], [0] * 7], bool).T
    found = attributions._longest_run(above, np.full((7, 1), 1 / 7, np.float32))
    assert found.T.astype(int).tolist() == [[1, 1, 1, 1, 0, 0, 0], [0, 0, 1, 1, 1, 1, 1], [0] * 7]


@pytest.mark.parametrize("method", ["bank", "network"])
def test_missing_values_lengths_and_times(method):
    random = np.random.default_rng(5)
    settings = {"neurons": 64} if method == "bank" else {"hidden_size": 8, "epochs": 3}
    X = []
    for length in random.integers(8, 20, 24):
        values = random.normal(size=(length, 2))
        values[random.random(values.shape) < 0.2] = np.nan
        X.append(Series(values, np.cumsum(random.uniform(0.5, 1.5, length))))
    y = np.array(["a", "b", "c"])[np.arange(24) % 3]
    model = CoRNNClassifier(method=method, random_state=0, **settings).fit(X, y)
    found = model.attributions(X)
    assert found.shape == (24, max(len(own.values) for own in X), 2)
    assert np.isfinite(found).all()
    for own, one in zip(X, found, strict=True):
        assert one[: len(own.values)].any()
        assert not one[len(own.values) :].any()
        missing = np.isnan(own.values)
        # A missing value acts through its mark and through the value that replaces it.
        assert np.abs(one[: len(own.values)][missing]).max(initial=0) > 0 or not missing.any()
    # One sequence alone gives the same, and the predicted label is the default.
    assert_allclose(model.attributions(X[:1])[0], found[0, : len(X[0].values)], atol=1e-4 * np.abs(found).max())
    label = model.predict(X[:1])[0]
    assert_allclose(model.attributions(X[:1], label=label), model.attributions(X[:1]))


def test_with_two_classes_the_labels_are_opposite():
    X, y, _ = windows(40, 6)
    model = CoRNNClassifier(neurons=64, random_state=0).fit(X, y)
    assert_allclose(model.attributions(X[:4], label=0), -model.attributions(X[:4], label=1))


def test_attributions_of_a_regressor_have_the_units_of_its_target():
    X, y, _ = windows(40, 7)
    small = CoRNNRegressor(neurons=64, random_state=0).fit(X, y.astype(float))
    large = CoRNNRegressor(neurons=64, random_state=0).fit(X, 1000.0 * y)
    assert_allclose(large.attributions(X[:4]), 1000 * small.attributions(X[:4]), rtol=1e-3)
    for size in (1e-300, 1e300):  # beyond float32
        sized = CoRNNRegressor(neurons=64, random_state=0).fit(X, size * y)
        assert_allclose(sized.attributions(X[:4]) / size, small.attributions(X[:4]), rtol=1e-3)
    both = CoRNNRegressor(neurons=64, random_state=0).fit(X, np.stack([y, -y], 1).astype(float))
    assert_allclose(both.attributions(X[:4], target=0), -both.attributions(X[:4], target=1), atol=1e-9)


def test_what_cannot_be_explained_is_named():
    X, y, _ = windows(24, 8)
    model = CoRNNClassifier(neurons=32, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="unknown label 3: the labels are 0, 1"):
        model.attributions(X, label=3)
    many = CoRNNClassifier(neurons=32, random_state=0).fit(X, np.arange(24) % 12)
    with pytest.raises(ValueError, match=r"the labels are 0, 1, .*, 9, …$"):
        many.attributions(X, label=12)
    numbers = CoRNNRegressor(neurons=32, random_state=0).fit(X, np.stack([y, y], 1).astype(float))
    with pytest.raises(ValueError, match="y has 2 columns: choose one with target=0 to 1"):
        numbers.attributions(X)
    with pytest.raises(ValueError, match="target must be from 0 to 1, got 2"):
        numbers.attributions(X, target=2)
    with pytest.raises(ValueError, match="features"):
        model.attributions(np.zeros((2, 5, 3)))


def test_the_model_is_left_as_it_was():
    X, y, _ = windows(24, 9)
    model = CoRNNClassifier(method="network", hidden_size=8, epochs=2, random_state=0).fit(X, y)
    model.model_.zero_grad()
    model.attributions(X)
    assert all(parameter.grad is None for parameter in model.model_.parameters())
