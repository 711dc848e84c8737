"""The oscillator bank: what it is robust to, what it refuses, and what it agrees with."""

import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.utils.estimator_checks import check_estimator

from cornn.estimators import CoRNNClassifier, CoRNNRegressor, OscillatorBank, Series, load
from cornn.estimators import methods as methods_module
from cornn.estimators.bank import draw_bank
from cornn.estimators.bank_inputs import RunningInputs, fit_inputs
from cornn.estimators.bank_readout import (
    PENALTIES,
    Standardiser,
    calibrate,
    fit_from_chunks,
    fit_from_kernel,
    make_folds,
)
from cornn.estimators.frames import Columns
from cornn.estimators.sequences import read_sequences
from cornn.estimators.series import SequenceData

SMALL = {"neurons": 64, "random_state": 0, "device": "cpu"}
ROUNDING = 1e-4  # of scores in float32, from a thousand features
STEPS_ARE_NOT_FEATURES = dict.fromkeys(
    ("check_n_features_in_after_fitting", "check_n_features_in", "check_classifiers_train"),
    "a row of X is a sequence, its columns are steps: there may be another number of them",
)
RANDOM_THRESHOLDS = dict.fromkeys(
    ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"),
    "thresholds are taken from a random sample of the rows, which a repeated row changes",
)


def waves(count=60, steps=30, classes=3, seed=0):
    """Noisy sines of random phase: (count, steps), and which of several speeds each has."""
    random = np.random.default_rng(seed)
    label = np.arange(count) % classes
    clock = np.arange(steps) * (0.2 + 0.3 * label[:, None]) + random.uniform(0, 2 * np.pi, (count, 1))
    return np.sin(clock) + 0.1 * random.normal(size=(count, steps)), label


X, Y = waves()


@pytest.mark.parametrize(
    ("estimator", "expected"),
    [
        (CoRNNClassifier(**SMALL), RANDOM_THRESHOLDS),
        (CoRNNRegressor(**SMALL), RANDOM_THRESHOLDS),
        (
            OscillatorBank(neurons=32, random_state=0),
            {"check_transformer_general": "a row of X is a sequence: there may be another number of steps"},
        ),
    ],
    ids=["classifier", "regressor", "transformer"],
)
def test_scikit_learns_own_checks(estimator, expected):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        checked = check_estimator(
            estimator, expected_failed_checks=STEPS_ARE_NOT_FEATURES | expected, on_fail=None, on_skip=None
        )
    failed = [(one["check_name"], one["exception"]) for one in checked if one["status"] == "failed"]
    assert not failed
    assert sum(one["status"] == "passed" for one in checked) > 20


def test_the_default_is_the_bank_and_it_learns():
    X, y = waves(150)
    fitted = CoRNNClassifier(random_state=0, device="cpu").fit(X[:90], np.array(["a", "b", "c"])[y[:90]])
    assert fitted.method_ == "bank"
    assert fitted.score(X[90:], np.array(["a", "b", "c"])[y[90:]]) > 0.95
    chances = fitted.predict_proba(X[90:])
    np.testing.assert_allclose(chances.sum(1), 1)
    np.testing.assert_array_equal(fitted.classes_[chances.argmax(1)], fitted.predict(X[90:]))
    assert dict(fitted.describe())["method"].startswith("oscillator bank")
    assert fitted.count_parameters() > 0


def test_a_regressor_learns_in_the_units_of_its_targets():
    random = np.random.default_rng(0)
    speed, size = random.uniform(0.1, 0.6, 200), random.uniform(0.5, 2, 200)
    X = size[:, None] * np.sin(np.arange(60) * speed[:, None] + random.uniform(0, 6, (200, 1)))
    y = np.stack((1000 + 50 * speed, -size), 1)
    fitted = CoRNNRegressor(random_state=0, device="cpu").fit(X[:150], y[:150])
    assert fitted.score(X[150:], y[150:]) > 0.95
    assert CoRNNRegressor(**SMALL).fit(X, y[:, 0]).predict(X).shape == (200,)


def test_a_seed_gives_the_same_and_another_one_does_not():
    one, again, other = (CoRNNClassifier(**SMALL | {"random_state": seed}).fit(X, Y) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.decision_function(X), again.decision_function(X))
    assert (one.decision_function(X) != other.decision_function(X)).any()
    assert clone(one).get_params() == one.get_params()


def test_constants_have_the_periods_and_half_lives_drawn():
    drawn = draw_bank(
        read_sequences(X, Columns(None, None, None)),
        neurons=512,
        scalings=("set",),
        differences=True,
        thresholds=1,
        plain=False,
        seed=0,
    )
    dt, gamma, epsilon = (torch.from_numpy(part) for part in drawn.bank.constants)
    trace, determinant = 2 - dt * epsilon - dt**2 * gamma, 1 - dt * epsilon
    modulus = torch.where(
        trace**2 < 4 * determinant, determinant.sqrt(), (trace + (trace**2 - 4 * determinant).clamp(min=0).sqrt()) / 2
    )
    half_life = -np.log(2) / modulus.log()
    assert half_life.min() > 0.99
    assert half_life.max() < 30.1
    angle = torch.acos((trace / 2 / determinant.sqrt()).clamp(-1, 1))
    period = (2 * np.pi / angle)[trace**2 < 4 * determinant]
    assert period.min() > 2.19
    assert period.max() < 30.1
    assert 0.05 < (trace**2 >= 4 * determinant).float().mean() < 0.3


@pytest.mark.filterwarnings("ignore:X has 1 steps of 2 features")
@pytest.mark.parametrize("steps", [1, 2, 7])
def test_few_steps_constant_features_and_one_sequence_per_class(steps):
    random = np.random.default_rng(0)
    short = np.stack((random.normal(size=(3, steps)), np.ones((3, steps))), -1)
    fitted = CoRNNClassifier(**SMALL).fit(short, ["a", "b", "c"])
    assert np.isfinite(fitted.predict_proba(short)).all()
    constant = np.ones((6, steps, 2))
    np.testing.assert_allclose(
        CoRNNClassifier(**SMALL).fit(constant, [0, 0, 0, 0, 1, 1]).predict_proba(constant)[:, 0] > 0.5, True
    )
    assert np.isfinite(CoRNNRegressor(**SMALL).fit(short, np.arange(3.0)).predict(short)).all()


def test_missing_values_are_carried_forward_and_marked():
    random = np.random.default_rng(0)
    broken = np.where(random.random(X.shape) < 0.2, np.nan, X)
    fitted = CoRNNClassifier(**SMALL).fit(broken, Y)
    assert ("gaps", False) in fitted.bank_.bank.inputs.views
    assert fitted.score(broken, Y) > 0.9
    inputs = fit_inputs(read_sequences(broken, Columns(None, None, None)), ("set",), False)
    channels = inputs(read_sequences([[np.nan, 2.0, np.nan, 3.0]], Columns(None, None, None))).input
    scaled = ((np.array([inputs.mean[0], 2, 2, 3]) - inputs.mean[0]) / inputs.scale[0]).astype(np.float32)
    np.testing.assert_allclose(channels[:, 0], scaled, rtol=1e-6)
    np.testing.assert_array_equal(channels[:, 1], [1, 0, 1, 0])


def test_a_sample_that_comes_later_counts_for_longer():
    """A step of two units is two steps with the input held."""
    random = np.random.default_rng(0)
    values = random.normal(size=(20, 12))
    doubled = [np.repeat(row, np.r_[1, np.tile([1, 2], 6)[:11]]) for row in values]
    times = [np.cumsum(np.r_[1, np.tile([1, 2], 6)[:11]]).astype(float) for _ in values]
    settings = {"neurons": 64, "scaling": "set", "differences": False, "statistics": True, "random_state": 0}
    bank = OscillatorBank(**settings).fit([Series(row, np.arange(len(row))) for row in doubled])
    long = bank.transform([Series(row, np.arange(len(row))) for row in doubled])
    short = bank.transform([Series(*pair) for pair in zip(values, times, strict=True)])
    names = bank.get_feature_names_out()
    last = np.array([name.split("_")[1] == "last" for name in names])
    np.testing.assert_allclose(short[:, last], long[:, last], atol=1e-4)


def test_differences_are_per_time():
    sequences = read_sequences([Series([0.0, 1.0, 3.0], [0.0, 1.0, 3.0])] * 2, Columns(None, None, None))
    inputs = fit_inputs(sequences, ("set",), True)
    steps = inputs(sequences).input[:3, 1]
    assert steps[0] == 0
    assert steps[1] == pytest.approx(steps[2])


@pytest.mark.parametrize("scaling", ["set", "running", ("set", "running")])
@pytest.mark.parametrize("timed", [False, True])
def test_a_stream_gives_what_predict_gives(scaling, timed):
    random = np.random.default_rng(0)
    values = np.where(random.random((40, 15, 2)) < 0.1, np.nan, random.normal(size=(40, 15, 2)).cumsum(1))
    spans = random.choice([0.5, 1.0, 3.0], (40, 15)) if timed else None
    y = np.arange(40) % 3
    fitted = CoRNNClassifier(**SMALL, scaling=scaling).fit(values, y, timespans=spans)
    stream = fitted.stream("predict_proba")
    for t in range(15):
        found = stream(values[5, t], None if spans is None else spans[5, t])
        if t == 7:
            kept = stream.to_bytes()
        own = None if spans is None else spans[5:6, : t + 1]
        np.testing.assert_allclose(found, fitted.predict_proba(values[5:6, : t + 1], timespans=own)[0], atol=ROUNDING)
    again = fitted.stream("predict_proba")
    for kind in (bytes, bytearray, memoryview):
        again.restore(kind(kept))
        for t in range(8, 15):
            resumed = again(values[5, t], None if spans is None else spans[5, t])
        np.testing.assert_array_equal(resumed, found)
    many = fitted.stream(sensors=40)
    for t in range(15):
        labels = many(values[:, t], None if spans is None else spans[:, t])
    np.testing.assert_array_equal(labels, fitted.predict(values, timespans=spans))


@pytest.mark.parametrize(("name", "number"), [("steps", -1), ("elapsed", -0.5), ("elapsed", np.nan)])
def test_a_stream_rejects_a_state_with_negative_numbers_of_steps(name, number):
    values = np.random.default_rng(0).normal(size=(40, 15, 2))
    stream = CoRNNClassifier(**SMALL, causal=True).fit(values, np.arange(40) % 3).stream()
    stream(values[0, 0])
    before = stream.to_bytes()
    state = load_arrays(before)
    with pytest.raises(ValueError, match=f"{name} is .*, it must be at least 0"):
        stream.restore(save(state | {name: np.full_like(state[name], number)}))
    assert stream.to_bytes() == before


def test_the_transformer_reads_aeons_order_of_axes():
    values = np.random.default_rng(0).normal(size=(6, 12, 2))
    expected = OscillatorBank(neurons=32, random_state=0).fit_transform(values)
    found = OscillatorBank(neurons=32, layout="nct", random_state=0).fit_transform(values.swapaxes(1, 2))
    np.testing.assert_array_equal(found, expected)
    with pytest.warns(UserWarning, match="layout='nct'"):
        OscillatorBank(neurons=32).fit(values.swapaxes(1, 2))


@pytest.mark.filterwarnings("error")
def test_values_near_the_largest_number_do_not_overflow():
    fitted = CoRNNClassifier(**SMALL).fit(X * 1e300, Y)
    np.testing.assert_array_equal(fitted.predict(X * 1e300), CoRNNClassifier(**SMALL).fit(X, Y).predict(X))
    causal = CoRNNClassifier(**SMALL, causal=True).fit(X, Y)
    far = X * 1e200
    assert causal.predict(far[:1])[0] == [stream(value) for stream in [causal.stream()] for value in far[0]][-1]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", [CoRNNClassifier, CoRNNRegressor])
def test_very_long_gaps_count_as_a_billion_steps(kind, monkeypatch):
    spans = np.full(X.shape, 2.0)
    fitted = kind(**SMALL, causal=True).fit(X, Y, timespans=spans)
    answer = "predict_proba" if kind is CoRNNClassifier else "predict"
    for place in (0, 5, slice(5, 7)):
        spans[:, place] = 2e9
        expected = getattr(fitted, answer)(X, timespans=spans)
        assert np.isfinite(expected).all()
        for gap in (1e30, 1e300):
            spans[:, place] = gap
            np.testing.assert_array_equal(getattr(fitted, answer)(X, timespans=spans), expected)
            stream = fitted.stream(*[answer] * (kind is CoRNNClassifier))
            for value, span in zip(X[0], spans[0], strict=True):
                found = stream(value, span)
            np.testing.assert_allclose(found, expected[0], atol=ROUNDING)
            trained = kind(**SMALL).fit(X, Y, timespans=spans)
            assert np.isfinite(getattr(trained, answer)(X, timespans=spans)).all()
    monkeypatch.setattr("cornn.engine.bank.backend", lambda device="cpu": ("portable", ""))
    np.testing.assert_allclose(getattr(fitted, answer)(X, timespans=spans), expected, atol=1e-4)


def test_no_time_before_the_first_sample_counts_as_a_usual_step():
    spans = np.full(X.shape, 2.0)
    fitted = CoRNNClassifier(**SMALL, causal=True).fit(X, Y, timespans=spans)
    expected = fitted.predict_proba(X[:3, :1], timespans=np.full((3, 1), np.nan))
    assert np.isfinite(expected).all()
    np.testing.assert_array_equal(fitted.predict_proba(X[:3, :1], timespans=np.zeros((3, 1))), expected)
    stream = fitted.stream("predict_proba")
    np.testing.assert_allclose(stream(X[0, 0], 0.0), expected[0], atol=ROUNDING)
    stream.reset()
    np.testing.assert_allclose(stream(X[0, 0], np.nan), expected[0], atol=ROUNDING)


def test_what_needs_the_whole_sequence_is_not_streamed():
    fitted = CoRNNClassifier(**SMALL, scaling="sequence").fit(X, Y)
    with pytest.raises(ValueError, match="causal=True"):
        fitted.stream()
    causal = CoRNNClassifier(**SMALL, causal=True).fit(X, Y)
    assert all(scaling in ("set", "running") for scaling, _ in causal.bank_.bank.inputs.views)
    assert causal.stream()(0.5) in causal.classes_
    with pytest.raises(ValueError, match="needs the whole sequence"):
        CoRNNClassifier(**SMALL, causal=True, scaling="sequence").fit(X, Y)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"method": "bank", "hidden_size": 8},
            "`hidden_size` is an option of `method='network'`, not of `method='bank'`: pass `method='network'`",
        ),
        (
            {"method": "network", "neurons": 8},
            "`neurons` is an option of `method='bank'`, not of `method='network'`: pass `method='bank'`",
        ),
        (
            {"epochs": 2, "neurons": 8},
            "`neurons` is an option of `method='bank'`, and `epochs` of `method='network'`: omit one of them",
        ),
        ({"method": "tree"}, "unknown method 'tree': choose one of bank, network, auto"),
        ({"neurons": 0}, "neurons must be a positive integer"),
        ({"thresholds": 5}, "thresholds must be an integer from 1 to 4"),
        ({"thresholds": 0}, "thresholds must be an integer from 1 to 4"),
        ({"scaling": "all"}, "unknown scaling 'all'"),
        ({"causal": "no"}, "causal must be True or False, got 'no'"),
        ({"bidirectional": "no"}, "bidirectional must be True or False, got 'no'"),
        ({"dt": "large"}, "dt must be a number, or one per neuron, got 'large'"),
        ({"weight_decay": -1}, "weight_decay must be at least 0, got -1"),
        ({"weight_decay": "small"}, "weight_decay must be at least 0, got 'small'"),
        ({"scaling": "sequence", "causal": True}, "`scaling='sequence'` needs the whole sequence: .* or omit `causal`"),
    ],
)
def test_settings_that_cannot_be(settings, message):
    with pytest.raises(ValueError, match=message):
        CoRNNClassifier(**settings).fit(X, Y)


@pytest.mark.parametrize("kind", [CoRNNClassifier, CoRNNRegressor])
def test_a_setting_of_the_network_chooses_the_network(kind):
    fitted = kind(hidden_size=4, epochs=1, device="cpu", random_state=0).fit(X, Y)
    named = kind(method="network", hidden_size=4, epochs=1, device="cpu", random_state=0).fit(X, Y)
    assert fitted.method_ == "network"
    assert fitted.method is None
    np.testing.assert_array_equal(fitted.predict(X), named.predict(X))
    assert kind(**SMALL).fit(X, Y).method_ == "bank"


def test_a_fit_keeps_only_the_attributes_of_its_method():
    classifier = CoRNNClassifier(**SMALL).fit(X, Y)
    assert hasattr(classifier, "bank_")
    classifier.set_params(method="network", hidden_size=4, epochs=1, neurons=None).fit(X, Y)
    assert hasattr(classifier, "model_")
    assert not hasattr(classifier, "bank_")
    classifier.set_params(method="bank", hidden_size=None, epochs=None).fit(X, Y)
    assert not hasattr(classifier, "model_")


def test_settings_are_checked_before_anything_is_fitted():
    classifier = CoRNNClassifier(method="tree")
    with pytest.raises(ValueError, match="unknown method 'tree'"):
        classifier.fit(X, Y)
    assert not hasattr(classifier, "classes_")


def test_auto_keeps_the_better_by_validation(monkeypatch):
    assert CoRNNClassifier(method="auto", **SMALL).fit(X, Y).method_ == "bank"
    monkeypatch.setattr(methods_module, "AUTO_FEWEST", 30)
    fitted = CoRNNClassifier(method="auto", hidden_size=4, epochs=2, **SMALL).fit(X, Y)
    assert fitted.method_ == "bank"
    assert fitted.predict(X).shape == (60,)
    losses = iter([1.0, 0.0])  # of the bank, then of the network
    monkeypatch.setattr(CoRNNClassifier, "_validation_loss", lambda self, *_: next(losses))
    assert CoRNNClassifier(method="auto", hidden_size=4, epochs=2, **SMALL).fit(X, Y).method_ == "network"


@pytest.mark.parametrize("kind", [CoRNNClassifier, CoRNNRegressor])
def test_auto_weighs_the_sequences_that_it_compares_by(kind, monkeypatch):
    monkeypatch.setattr(methods_module, "AUTO_FEWEST", 30)
    calls, whole = [], kind._validation_loss
    monkeypatch.setattr(kind, "_validation_loss", lambda self, *given: calls.append(given) or whole(self, *given))
    weights = np.where(Y == 1, 5.0, 1.0)
    kind(method="auto", hidden_size=4, epochs=1, **SMALL).fit(X, Y, sample_weight=weights)
    assert len(calls) == 2  # the bank and the network
    for outputs, target, importance in calls:
        assert set(importance) == {1.0, 5.0}
        each = [whole(None, outputs[[row]], target[[row]], np.ones(1)) for row in range(len(target))]
        np.testing.assert_allclose(whole(None, outputs, target, importance), np.average(each, weights=importance))
    with pytest.raises(ValueError, match="groups has two values only, method='auto' needs three"):
        kind(method="auto").fit(X, Y, groups=Y == 0)


def test_saved_and_loaded(tmp_path):
    for kind, target in ((CoRNNClassifier, np.array(["a", "b", "c"])[Y]), (CoRNNRegressor, Y + 0.5)):
        fitted = kind(**SMALL).fit(X, target)
        fitted.save(tmp_path / "model.safetensors")
        again = load(tmp_path / "model.safetensors")
        assert again.get_params() == fitted.get_params()
        np.testing.assert_array_equal(again.predict(X), fitted.predict(X))
    fitted = CoRNNClassifier(**SMALL).fit(X, Y)
    fitted.save(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(load(tmp_path / "model.safetensors").predict_proba(X), fitted.predict_proba(X))


def test_frames_weights_and_groups():
    frame = pd.DataFrame({"who": np.repeat(np.arange(60), 30), "signal": X.ravel(), "kind": np.repeat(Y, 30)})
    long = CoRNNClassifier(id_column="who", **SMALL).fit(frame, "kind")
    np.testing.assert_array_equal(long.predict(frame), CoRNNClassifier(**SMALL).fit(X, Y).predict(X))
    plain, heavy = (
        CoRNNClassifier(**SMALL).fit(X, np.random.default_rng(0).integers(0, 2, 60), sample_weight=weight)
        for weight in (None, np.where(np.random.default_rng(0).integers(0, 2, 60), 30.0, 1.0))
    )
    assert heavy.predict_proba(X)[:, 1].mean() > plain.predict_proba(X)[:, 1].mean()
    assert CoRNNClassifier(**SMALL).fit(X, Y, groups=np.arange(60) // 6).score(X, Y) > 0.9
    with pytest.raises(ValueError, match="groups has one value only"):
        CoRNNClassifier(**SMALL).fit(X, Y, groups=np.zeros(60))
    with pytest.raises(ValueError, match=r"groups has shape \(3,\)"):
        CoRNNClassifier(**SMALL).fit(X, Y, groups=np.zeros(3))


@pytest.mark.parametrize(
    "settings", [SMALL, {"hidden_size": 4, "epochs": 2, "random_state": 0}], ids=["bank", "network"]
)
@pytest.mark.parametrize("kind", [CoRNNClassifier, CoRNNRegressor])
@pytest.mark.parametrize("grouped", [False, True])
def test_a_sequence_without_weight_is_as_if_it_were_not_there(kind, settings, grouped):
    weights, groups = np.where(np.arange(60) % 4, 1.0, 0.0), np.arange(60) // 6 if grouped else None
    used = weights > 0
    broken, y = np.where(used[:, None], X, 1e6), np.where(used, Y, 2)
    y = y if kind is CoRNNClassifier else np.where(used, y, 1e6)
    found = kind(**settings).fit(broken, y, weights, groups=groups)
    expected = kind(**settings).fit(X[used], y[used], groups=None if groups is None else groups[used])
    answer = "predict_proba" if kind is CoRNNClassifier else "predict"
    np.testing.assert_array_equal(getattr(found, answer)(X), getattr(expected, answer)(X))


def naive_held_out(features, target, weights, folds, penalty):
    """Refit without the rows of each fold; the scale of the features stays that of all rows."""
    found = np.empty_like(target)
    size = weights @ np.square(features).sum(1) / weights.sum()
    for fold in np.unique(folds):
        rest = folds != fold
        ridge = Ridge(alpha=penalty * weights.sum() * size).fit(features[rest], target[rest], weights[rest])
        found[~rest] = ridge.predict(features[~rest]).reshape(target[~rest].shape)
    return found


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("chunked", [False, True])
def test_held_out_scores_are_those_of_refits(grouped, chunked):
    random = np.random.default_rng(0)
    raw = random.normal(size=(40, 12)).astype(np.float32) * random.uniform(1, 5, 12).astype(np.float32) + 3
    target = raw[:, :2].astype(np.float64) + 0.3 * random.normal(size=(40, 2))
    weights = random.uniform(0.5, 2, 40)
    weights /= weights.mean()
    scaler = Standardiser.fit(raw, weights)
    near = scaler(raw).astype(np.float64)
    folds = make_folds(np.arange(40) // 3, 40, 0) if grouped else None
    if chunked:
        readout, held_out, penalty = fit_from_chunks(
            lambda: ((slice(at, at + 9), raw[at : at + 9]) for at in range(0, 36, 9)),
            target[:36],
            weights[:36],
            None if folds is None else folds[:36],
        )
        raw, near, target, weights = (
            raw[:36],
            Standardiser.fit(raw[:36], weights[:36])(raw[:36]),
            target[:36],
            weights[:36],
        )
        folds = None if folds is None else folds[:36]
        near = near.astype(np.float64)
    else:
        fit = fit_from_kernel(near @ near.T, target, weights, folds)
        held_out, penalty = fit.held_out, fit.penalty
    assert penalty in PENALTIES
    expected = naive_held_out(near, target, weights, np.arange(len(near)) if folds is None else folds, penalty)
    np.testing.assert_allclose(held_out, expected, atol=ROUNDING * np.abs(target).max())
    if chunked:
        size = weights @ np.square(near).sum(1) / weights.sum()
        ridge = Ridge(alpha=penalty * weights.sum() * size).fit(near, target, weights)
        np.testing.assert_allclose(readout(raw), ridge.predict(near), atol=1e-3)


def test_large_data_are_fitted_in_chunks(monkeypatch):
    from cornn.estimators import bank_model

    X, y = waves(120)
    small = CoRNNClassifier(**SMALL).fit(X[:90], y[:90])
    monkeypatch.setattr(bank_model, "LARGE", 50)
    monkeypatch.setattr(bank_model, "CHUNK_BYTES", 1 << 16)
    large = CoRNNClassifier(**SMALL).fit(X[:90], y[:90])
    assert large.score(X[90:], y[90:]) >= small.score(X[90:], y[90:]) - 0.1
    grouped = CoRNNClassifier(**SMALL).fit(X[:90], y[:90], groups=np.arange(90) // 5)
    assert grouped.score(X[90:], y[90:]) > 0.8


def test_calibration_recovers_the_scale_of_scores():
    random = np.random.default_rng(0)
    logits = random.normal(size=(5000, 3)) * 2
    chances = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    target = (random.random((5000, 1)) > np.cumsum(chances, 1)).sum(1)
    assert calibrate(logits / 7, target, np.ones(5000)) == pytest.approx(7, rel=0.1)


def test_running_inputs_are_those_of_the_whole():
    sequences = [SequenceData(values=np.random.default_rng(0).normal(size=(12, 3)).cumsum(0), gaps=None)]
    inputs = fit_inputs(sequences, ("set", "running"), True)
    running = RunningInputs(inputs, 1)
    found = np.concatenate([running(row[None], None) for row in sequences[0].values])
    np.testing.assert_allclose(found, inputs(sequences).input, atol=1e-6)
