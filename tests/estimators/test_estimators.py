"""Fit, predict, score, save and stream on the user's own sequences."""

import importlib
import json
import pickle
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator
from tolerances import FLOAT32

from cornn import CoRNN, theory
from cornn.estimators import CoRNNClassifier, CoRNNForecaster, CoRNNRegressor, Series, load
from cornn.estimators.preparation import mean_and_scale
from cornn.estimators.saving import pack_file, read_file

QUICK = {"hidden_size": 8, "epochs": 6, "random_state": 0, "device": "cpu"}
LEARN = {"hidden_size": 16, "epochs": 40, "random_state": 0, "device": "cpu", "learning_rate": 0.02}
NETWORK = {"method": "network", **QUICK}
LEARN_NETWORK = {"method": "network", **LEARN}
# A row of X is a sequence here: its columns are steps, of which there may be any number.
ONE_SERIES = {
    "check_fit2d_1feature": "one column is one step, after which there is nothing to forecast",
    "check_fit1d": "a one-dimensional array is one series",
    "check_fit2d_predict1d": "a one-dimensional array is one series",
}
STEPS_ARE_NOT_FEATURES = dict.fromkeys(
    ("check_n_features_in_after_fitting", "check_n_features_in", "check_classifiers_train"),
    "a row of X is a sequence, its columns are steps: there may be another number of them",
)


def waves(count=60, steps=20, classes=2, seed=0):
    """Noisy sines of random phase: (count, steps), and which of several speeds each has."""
    random = np.random.default_rng(seed)
    label = np.arange(count) % classes
    clock = np.arange(steps) * (0.2 + 0.3 * label[:, None]) + random.uniform(0, 2 * np.pi, (count, 1))
    return np.sin(clock) + 0.1 * random.normal(size=(count, steps)), label


# A repeated sequence is in other batches than one of twice the weight: the result is near, not equal.
SHUFFLED = {"check_sample_weight_equivalence_on_dense_data": "the network is trained on shuffled batches"}


@pytest.mark.parametrize(
    ("estimator", "expected"),
    [
        (
            CoRNNClassifier(
                method="network", hidden_size=8, epochs=8, batch_size=64, learning_rate=0.05, random_state=0
            ),
            SHUFFLED,
        ),
        pytest.param(
            CoRNNRegressor(
                method="network",
                hidden_size=32,
                epochs=20,
                batch_size=32,
                learning_rate=0.1,
                random_state=0,
                validation_share=0,
            ),
            SHUFFLED,
            marks=pytest.mark.slow,
        ),
        pytest.param(
            CoRNNForecaster(hidden_size=4, epochs=2, random_state=0),
            ONE_SERIES,
            marks=pytest.mark.slow,
        ),
        pytest.param(CoRNNForecaster(), ONE_SERIES, marks=pytest.mark.slow),
    ],
    ids=["classifier", "regressor", "forecaster", "pool of forecasters"],
)
def test_scikit_learns_own_checks(estimator, expected):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        checked = check_estimator(
            estimator, expected_failed_checks=STEPS_ARE_NOT_FEATURES | expected, on_fail=None, on_skip=None
        )
    failed = [(one["check_name"], one["exception"]) for one in checked if one["status"] == "failed"]
    assert not failed
    assert sum(one["status"] == "passed" for one in checked) > 30


def test_a_classifier_learns():
    X, y = waves(120, classes=3)
    names = np.array(["slow", "middle", "fast"])[y]
    fitted = CoRNNClassifier(**LEARN_NETWORK, validation_share=0.1).fit(X[:90], names[:90])
    assert fitted.score(X[90:], names[90:]) > 0.9
    chances = fitted.predict_proba(X[90:])
    assert chances.shape == (30, 3)
    np.testing.assert_allclose(chances.sum(1), 1)
    np.testing.assert_array_equal(fitted.classes_[chances.argmax(1)], fitted.predict(X[90:]))
    assert fitted.history_[0]["validation"] > fitted.history_[-1]["validation"]


def test_a_regressor_learns_in_the_units_of_its_targets():
    X, _ = waves(120)
    y = 1000 + 50 * np.stack((X[:, -3:].sum(1), X[:, 0]), 1)
    fitted = CoRNNRegressor(**LEARN_NETWORK).fit(X[:90], y[:90])
    assert fitted.predict(X[90:]).shape == (30, 2)
    assert fitted.score(X[90:, :], y[90:]) > 0.8
    with pytest.raises(ValueError, match="y has 1 targets per sequence, expected 2 as in `fit`"):
        fitted.score(X[90:, :], y[90:, 0])
    assert CoRNNRegressor(**NETWORK).fit(X, y[:, 0]).predict(X).shape == (120,)


def test_a_forecaster_learns_from_one_long_series_and_beats_no_change():
    clock = np.arange(700)
    series = np.stack((np.sin(clock * 0.2), 5 + np.cos(clock * 0.31)), -1)
    fitted = CoRNNForecaster(horizon=4, window=50, **LEARN).fit(series[None, :500])
    assert fitted.score(series[None, 500:]) > 0.9
    ahead = fitted.predict(series[None, 500:690])
    assert ahead.shape == (1, 4, 2)
    assert np.abs(ahead[0] - series[690:694]).mean() < np.abs(series[689] - series[690:694]).mean()
    assert fitted.score(series[None, 500:690], series[None, 690:694]) > 0
    assert CoRNNForecaster(**QUICK).fit(series[:100, 0][None]).predict(series[:100, 0][None]).shape == (1, 1)


def test_some_features_are_forecast_and_the_others_looked_at():
    clock = np.arange(120)
    series = np.stack((np.cos(clock * 0.2), np.sin(clock * 0.2)), -1)
    fitted = CoRNNForecaster(horizon=3, targets=[1], **QUICK).fit(series[None])
    assert fitted.predict(series[None]).shape == (1, 3, 1)
    assert np.isfinite(fitted.score(series[None]))
    every = fitted.predict_every_step([series, series[:50]])
    assert [part.shape for part in every] == [(120, 3, 1), (50, 3, 1)]
    torch.testing.assert_close(
        torch.from_numpy(every[1][-1]), torch.from_numpy(fitted.predict(series[None, :50])[0]), **FLOAT32
    )
    assert fitted.stream()(series[0]).shape == (3, 1)
    frame = pd.DataFrame({"id": 0, "x": series[:, 0], "y": series[:, 1]})
    named = CoRNNForecaster(horizon=3, targets=["y"], id_column="id", **QUICK).fit(frame)
    np.testing.assert_array_equal(named.predict(frame), fitted.predict(series[None]))
    for wrong, message in (
        (["z"], "not a feature: the features are x, y"),
        ([], "targets is empty"),
        ([2], "targets contains 2"),
    ):
        with pytest.raises(ValueError, match=message):
            CoRNNForecaster(targets=wrong, id_column="id", **QUICK).fit(frame)


def test_all_layouts_of_the_same_sequences_give_the_same():
    X, y = waves(30)
    frame = pd.DataFrame({"who": np.repeat(np.arange(30) * 7 % 30, 20), "signal": X.ravel(), "kind": np.repeat(y, 20)})
    expected = CoRNNClassifier(**NETWORK).fit(X, y).predict_proba(X)
    for other in (
        X[..., None],
        list(X),
        [row[:, None].tolist() for row in X],
        [Series(row) for row in X],
        pd.DataFrame(X),
    ):
        np.testing.assert_array_equal(CoRNNClassifier(**NETWORK).fit(other, y).predict_proba(other), expected)
    long = CoRNNClassifier(id_column="who", **NETWORK)
    np.testing.assert_array_equal(long.fit(frame, "kind").predict_proba(frame), expected)
    np.testing.assert_array_equal(long.predict_proba(frame.drop(columns="kind")), expected)
    np.testing.assert_array_equal(long.ids(frame), np.arange(30) * 7 % 30)
    by_id = pd.Series(y, index=np.arange(30) * 7 % 30).sort_index()
    frame = frame.drop(columns="kind")
    np.testing.assert_array_equal(long.fit(frame, by_id).predict_proba(frame), expected)


def test_sequences_of_unequal_lengths_do_not_see_the_padding():
    X, y = waves(30)
    ragged = [row[: 5 + number % 16] for number, row in enumerate(X)]
    fitted = CoRNNClassifier(**NETWORK).fit(ragged, y)
    together = fitted.predict_proba(ragged)
    alone = np.concatenate([fitted.predict_proba([row]) for row in ragged])
    np.testing.assert_allclose(together, alone, rtol=1e-12)


def test_a_long_frame_is_sorted_by_its_time():
    X, y = waves(10)
    times = np.cumsum(np.random.default_rng(0).exponential(size=X.shape), 1)
    frame = pd.DataFrame({"id": np.repeat(np.arange(10), 20), "at": times.ravel(), "value": X.ravel()})
    expected = CoRNNClassifier(**NETWORK).fit([Series(*pair) for pair in zip(X, times, strict=True)], y)
    mixed = frame.sample(frac=1, random_state=0).sort_values("id", kind="stable")
    fitted = CoRNNClassifier(id_column="id", time_column="at", **NETWORK).fit(mixed, y)
    np.testing.assert_array_equal(
        fitted.predict_proba(mixed), expected.predict_proba([Series(*pair) for pair in zip(X, times, strict=True)])
    )
    dated = mixed.assign(at=pd.Timestamp("2026-01-01") + pd.to_timedelta(mixed["at"], unit="h"))
    again = CoRNNClassifier(id_column="id", time_column="at", **NETWORK).fit(dated, y)
    np.testing.assert_allclose(again.predict_proba(dated), fitted.predict_proba(mixed), atol=1e-5)
    assert again.preparation_.unit == pytest.approx(3600 * fitted.preparation_.unit, rel=1e-6)


@pytest.mark.slow
def test_irregular_times_help_where_they_matter():
    """Slow sines taken seldom look like fast ones taken often: only the times tell them apart."""
    random = np.random.default_rng(0)
    y = np.arange(200) % 2
    gaps = random.uniform(0.5, 1.5, (200, 20)) * (1 + 2 * random.integers(0, 2, (200, 1)))
    times = np.cumsum(gaps, 1)
    X = np.sin(times * np.where(y, 0.5, 0.17)[:, None] + random.uniform(0, 6, (200, 1)))
    both = [Series(*pair) for pair in zip(X, times, strict=True)]
    settings = LEARN_NETWORK | {"epochs": 60, "hidden_size": 32}
    blind = CoRNNClassifier(**settings).fit(X[:150], y[:150]).score(X[150:], y[150:])
    fitted = CoRNNClassifier(**settings).fit(both[:150], y[:150])
    assert fitted.score(both[150:], y[150:]) > blind + 0.05
    assert fitted.network_.damping == "implicit"


def test_damping_is_implicit_only_where_times_are_uneven():
    X, y = waves(30)
    even = CoRNNClassifier(**NETWORK).fit(X, y, timespans=np.full(X.shape, 0.1))
    assert even.network_.damping == "explicit"
    np.testing.assert_array_equal(
        even.predict_proba(X, timespans=np.full(X.shape, 0.1)), CoRNNClassifier(**NETWORK).fit(X, y).predict_proba(X)
    )
    spans = np.random.default_rng(0).uniform(0.5, 1.5, X.shape)
    network = CoRNNClassifier(**NETWORK).fit(X, y, timespans=spans).network_
    assert network.damping == "implicit"
    # A force moves a slow neuron as far as it does with explicit damping.
    usual = theory.suggest(20, 8)
    assert network.dt / network.epsilon == pytest.approx(usual.dt / usual.epsilon)


SAMPLING = 1e-3  # relative: what is learned from some sequences of an epoch does not hold for the rest of them


@pytest.mark.parametrize("steps", [3, 40])
@pytest.mark.parametrize("counts", [(16, 16, 16), (30, 6), (1, 1, 1, 1)], ids=str)
@pytest.mark.parametrize("learnable", [True, False])
def test_the_first_epoch_of_the_network_is_at_chance_level(steps, counts, learnable):
    label = np.repeat(np.arange(len(counts)), counts)
    random = np.random.default_rng(0)
    values = np.sin(np.arange(steps) * (0.2 + 0.3 * label[:, None])) + 0.1 * random.normal(size=(len(label), steps))
    fitted = CoRNNClassifier(method="network", random_state=0, device="cpu")
    fitted.watch = lambda row: True
    fitted.fit(values if learnable else random.normal(size=values.shape), label)
    share = np.array(counts) / len(label)
    assert len(fitted.history_) == 1
    assert fitted.history_[0]["training"] <= (1 + SAMPLING) * -(share * np.log(share)).sum()


def test_timespans_are_an_argument_too_and_long_gaps_are_borne():
    X, y = waves(30)
    times = np.cumsum(np.full(X.shape, 0.5), 1)
    spans = np.diff(times, prepend=0)
    series = [Series(*pair) for pair in zip(X, times, strict=True)]
    first = CoRNNClassifier(**NETWORK).fit(X, y, timespans=spans)
    second = CoRNNClassifier(**NETWORK).fit(series, y)
    np.testing.assert_array_equal(first.predict_proba(X, timespans=spans[0]), second.predict_proba(series))
    starts = np.diff(times[0], prepend=times[0, 0])  # nothing is known about the time before the first sample
    np.testing.assert_array_equal(first.predict_proba(X, timespans=starts), second.predict_proba(series))
    stream = first.stream("predict_proba")
    for sample, gap in zip(X[0], starts, strict=True):
        last = stream(sample, gap)
    np.testing.assert_allclose(last, second.predict_proba(series[:1])[0], rtol=1e-5)
    spans[:, 10] = 1e6
    assert np.isfinite(first.predict_proba(X, timespans=spans)).all()
    for damping in ("explicit", "implicit"):
        fitted = CoRNNClassifier(**NETWORK, damping=damping).fit(X, y, timespans=spans)
        assert np.isfinite(fitted.predict_proba(X, timespans=spans)).all()


def test_missing_values_are_filled_forward_and_marked():
    X, y = waves(30)
    X[::3, 5:8] = np.nan
    X[1, 0] = np.nan
    fitted = CoRNNClassifier(**NETWORK).fit(X, y)
    assert fitted.preparation_.masked
    data = fitted.preparation_(fitted.validate_input(X)).input
    mean, scale = np.nanmean(X), np.nanstd(X)
    np.testing.assert_allclose(data[5:8, 0, 0], np.full(3, (X[0, 4] - mean) / scale), rtol=1e-5)
    np.testing.assert_array_equal(data[:, 0, 1], np.isnan(X[0]))
    assert data[0, 1, 0] == 0
    assert np.isfinite(fitted.predict_proba(X)).all()
    whole = CoRNNClassifier(**NETWORK).fit(np.nan_to_num(X), y)
    assert not whole.preparation_.masked
    assert np.isfinite(whole.predict_proba(X)).all()


@pytest.mark.parametrize("unit", [1e-300, 1e-13, 1e300])
def test_the_unit_of_values_and_targets_does_not_matter(unit):
    X, y = waves(24)
    usual = CoRNNRegressor(**NETWORK).fit(X, y + 0.5)
    found = CoRNNRegressor(**NETWORK).fit(X * unit, (y + 0.5) * unit)
    assert found.preparation_.scale / unit == pytest.approx(usual.preparation_.scale, rel=1e-12)
    assert found.target_scale_ / unit == pytest.approx(usual.target_scale_, rel=1e-12)
    torch.testing.assert_close(
        torch.from_numpy(found.predict(X * unit) / unit), torch.from_numpy(usual.predict(X)), **FLOAT32
    )
    assert found.score(X * unit, (y + 0.5) * unit) == pytest.approx(usual.score(X, y + 0.5), rel=1e-4)


@pytest.mark.parametrize("dtype", [str, object])
def test_many_classes_that_are_strings_are_no_regression(dtype):
    X, _ = waves(24)
    y = np.array([f"c{number}" for number in range(24)], dtype)
    assert len(CoRNNClassifier(neurons=64).fit(X, y).classes_) == 24  # without scikit-learn's warning


def test_a_constant_is_not_blown_up():
    table = np.array([[0.1, 1e-13, 0.0, 1e200, np.nan]] * 1000)
    mean, scale = mean_and_scale(table)
    np.testing.assert_allclose(mean, [0.1, 1e-13, 0, 1e200, 0], rtol=1e-12)
    np.testing.assert_array_equal(scale, 1)


def test_missing_values_of_pandas():
    frame = pd.DataFrame({"id": np.repeat(np.arange(10), 3), "v": pd.array([1, None, 3] * 10, dtype="Int64")})
    fitted = CoRNNClassifier(id_column="id", **NETWORK).fit(frame, np.arange(10) % 2)
    assert fitted.preparation_.masked
    assert fitted.predict(frame).shape == (10,)


def test_a_missing_value_is_not_forecast():
    series = np.sin(np.arange(60) * 0.3)
    series[20:25] = np.nan
    fitted = CoRNNForecaster(horizon=2, **QUICK).fit(series[None])
    assert np.isfinite(fitted.predict(series[None])).all()
    assert np.isfinite(fitted.score(series[None]))


def test_a_horizon_that_nothing_was_known_of_is_refused():
    CoRNNForecaster(**QUICK, horizon=4).fit(X[:, :5])
    with pytest.raises(ValueError, match=r"feature 0 5 steps ahead: .*a horizon of at most 4, or pass longer"):
        CoRNNForecaster(**QUICK, horizon=5).fit(list(X[:, :5]))
    gone = np.stack([X, np.full_like(X, np.nan)], 2)
    gone[0, 0, 1] = 1.0
    with pytest.raises(ValueError, match=r"feature 1 1 steps ahead: .*remove it from targets"):
        CoRNNForecaster(**QUICK).fit(gone)


def test_the_constants_are_those_of_the_theory_unless_given():
    X, y = waves(30)
    found = theory.suggest(20, 8, shortest=0.2, longest=40.0)
    network = CoRNNClassifier(**NETWORK).fit(X, y).network_
    assert (network.dt, network.epsilon, network.damping) == (found.dt, found.epsilon, "explicit")
    assert network.gamma == found.gamma.tolist()
    network = CoRNNClassifier(**NETWORK, dt=0.1, gamma=[0.5] * 8).fit(X, y).network_
    assert (network.dt, network.gamma, network.epsilon) == (0.1, [0.5] * 8, theory.suggest(20, 8, dt=0.1).epsilon)


def test_the_same_random_state_gives_the_same_result():
    X, y = waves(40)
    same = [CoRNNClassifier(**NETWORK).fit(X, y).predict_proba(X) for _ in range(2)]
    np.testing.assert_array_equal(*same)
    other = CoRNNClassifier(**NETWORK | {"random_state": 1}).fit(X, y).predict_proba(X)
    assert not np.array_equal(same[0], other)
    drawn = [CoRNNClassifier(**NETWORK | {"random_state": np.random.RandomState(5)}).fit(X, y) for _ in range(2)]
    np.testing.assert_array_equal(drawn[0].predict_proba(X), drawn[1].predict_proba(X))
    before = torch.get_rng_state()
    CoRNNClassifier(**NETWORK).fit(X, y)
    assert torch.equal(before, torch.get_rng_state())


def test_class_weights_move_the_answer():
    X, y = waves(60)
    X, y = X[(y == 0) | (np.arange(60) < 12)], y[(y == 0) | (np.arange(60) < 12)]
    settings = NETWORK | {"epochs": 3}
    plain = CoRNNClassifier(**settings).fit(X, y).predict_proba(X)[:, 1].mean()
    heavy = CoRNNClassifier(**settings, class_weight={0: 1.0, 1: 50.0}).fit(X, y).predict_proba(X)[:, 1].mean()
    even = CoRNNClassifier(**settings, class_weight="balanced").fit(X, y).predict_proba(X)[:, 1].mean()
    assert plain < even < heavy


def test_training_ends_in_time_and_keeps_the_best_epoch(capsys):
    X, _ = waves(40)
    y = np.random.default_rng(0).integers(0, 2, 40)
    fitted = CoRNNClassifier(**LEARN_NETWORK | {"epochs": 300}, patience=3, validation_share=0.25, verbose=True).fit(
        X, y
    )
    losses = [row["validation"] for row in fitted.history_]
    assert fitted.n_iter_ == int(np.argmin(losses)) + 1 + 3 < 300
    assert "epoch 1 of 300: training loss" in capsys.readouterr().out
    assert "validation" not in CoRNNClassifier(**NETWORK, validation_share=0).fit(X, y).history_[0]
    assert "validation" not in CoRNNClassifier(**NETWORK).fit(X, y).history_[0]
    many, labels = np.repeat(X, 13, 0), np.repeat(y, 13)
    assert "validation" in CoRNNClassifier(**NETWORK | {"epochs": 1}).fit(many, labels).history_[0]


def test_selection_pipelines_and_clones():
    X, y = waves(36)
    quick = CoRNNClassifier(**NETWORK)
    assert cross_val_score(quick, X[..., None], y, cv=2).shape == (2,)
    assert cross_val_score(quick, [Series(row[: 10 + k % 5]) for k, row in enumerate(X)], y, cv=2).shape == (2,)
    assert cross_val_score(CoRNNForecaster(**QUICK), X, cv=2).shape == (2,)
    search = GridSearchCV(quick, {"hidden_size": np.array([4, 8]), "learning_rate": [0.01]}, cv=2).fit(X, y)
    assert search.best_params_["hidden_size"] in (4, 8)
    assert make_pipeline(StandardScaler(), quick).fit(X, y).predict(X).shape == (36,)
    assert clone(quick.set_params(hidden_size=5)).get_params()["hidden_size"] == 5


ESTIMATORS = {
    "classifier": CoRNNClassifier(**NETWORK, class_weight={"a": 1.0, "b": 2.0}),
    "regressor": CoRNNRegressor(**NETWORK, num_layers=2),
    "forecaster": CoRNNForecaster(**QUICK, horizon=3),
}


def fitted_with_gaps(kind):
    X, y = waves(24)
    X = np.stack((X, X**2), -1)
    X[0, 3:5, 1] = np.nan
    spans = np.random.default_rng(0).uniform(0.5, 1.5, X.shape[:2])
    target = np.array(["a", "b"])[y] if kind == "classifier" else X[:, -1, 0]
    return clone(ESTIMATORS[kind]).fit(X, target, timespans=spans), X, spans


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_what_is_saved_is_what_is_loaded(kind, tmp_path):
    fitted, X, spans = fitted_with_gaps(kind)
    fitted.save(tmp_path / "model.safetensors")
    for again in (load(tmp_path / "model.safetensors"), type(fitted).load(tmp_path / "model.safetensors")):
        np.testing.assert_array_equal(again.predict(X, timespans=spans), fitted.predict(X, timespans=spans))
        assert again.get_params() == fitted.get_params()
    assert [path.name for path in tmp_path.iterdir()] == ["model.safetensors"]
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(fitted)).predict(X, timespans=spans), fitted.predict(X, timespans=spans)
    )


@pytest.mark.parametrize("method", ["pool", "network"])
@pytest.mark.parametrize(
    "call",
    [
        lambda model, x: model.predict(x),
        lambda model, x: model.predict_quantiles(x),
        lambda model, x: model.predict_interval(x),
        lambda model, x: model.predict_every_step(x),
        lambda model, x: model.score(x),
        lambda model, x: model.evaluate(x, x),
        lambda model, x: model.stream(),
        lambda model, x: model.output_spec(),
    ],
    ids=["predict", "quantiles", "interval", "every step", "score", "evaluate", "stream", "output spec"],
)
def test_a_forecaster_says_that_it_is_not_fitted(call, method):
    with pytest.raises(NotFittedError):
        call(CoRNNForecaster(horizon=2, method=method), [np.arange(20.0).reshape(-1, 1)])


@pytest.mark.filterwarnings("ignore:.*has no checksum")
def test_what_is_not_a_saved_estimator(tmp_path):
    from safetensors.numpy import save_file

    path = tmp_path / "model.safetensors"
    with pytest.raises(FileNotFoundError, match="no file"):
        load(path)
    path.write_bytes(pickle.dumps({}))
    with pytest.raises(ValueError, match="not a valid safetensors file"):
        load(path)
    save_file({"x": np.zeros(1)}, path)
    with pytest.raises(ValueError, match="does not contain an estimator"):
        load(path)
    save_file({"x": np.zeros(1)}, path, {"cornn.estimator": json.dumps({"kind": "os.system"})})
    with pytest.raises(ValueError, match=r"unknown estimator 'os\.system'"):
        load(path)
    fitted_with_gaps("regressor")[0].save(path)
    with pytest.raises(ValueError, match="not a CoRNNClassifier"):
        CoRNNClassifier.load(path)
    with pytest.raises(NotFittedError):
        CoRNNClassifier().save(path)


@pytest.mark.filterwarnings("ignore:.*has no checksum")
@pytest.mark.parametrize("kind", ESTIMATORS)
def test_a_damaged_file_is_named(kind, tmp_path):
    from safetensors.numpy import save_file

    path = tmp_path / "model.safetensors"
    fitted_with_gaps(kind)[0].save(path)
    about, arrays = read_file(path)
    required = [name for name in about if name not in ("method", "steps")]  # version 0.1.0 did not write these
    learned = {"classes": ["a"], "mean": [0.0], "scale": [1.0], "targets": [0], "type": "<U1", "single": True}
    damages = [
        *(({key: part for key, part in about.items() if key != name}, arrays) for name in required),
        *((about | {name: wrong}, arrays) for name in ("network", "preparation") for wrong in ([], {})),
        *((about | {name: wrong}, arrays) for name in ("columns", "steps") for wrong in (1.5, "abc", [1])),
        *((about | {"method": wrong}, arrays) for wrong in (1.5, "abc", None)),
        (about | {"preparation": about["preparation"] | {"longest": "x"}}, arrays),
        (about | {"settings": about["settings"] | {"epochs": []}}, arrays),
        (about | {"settings": []}, arrays),
        (about | {"settings": about["settings"] | {"evil": 1}}, arrays),
        (about | {"network": about["network"] | {"outputs": 5}}, arrays),
        (about | {"learned": learned | {"mean": [0.0] * 9, "targets": [0] * 9}}, arrays),
        ([], arrays),
        *((about, {key: part for key, part in arrays.items() if key != name}) for name in arrays),
        (about, arrays | {"mean": arrays["mean"].repeat(3)}),
        (about, arrays | {"scale": arrays["scale"].repeat(3)}),
        (about, arrays | {"model.head.weight": arrays["model.head.weight"] * np.nan}),
    ]
    for header, content in damages:
        save_file(content, path, {"cornn.estimator": json.dumps(header)})
        with pytest.raises(ValueError, match=r"model\.safetensors is damaged: ") as caught:
            load(path)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("sizes", "problem"),
    [
        ({"hidden_size": 200}, r"head\.weight has shape \(2, 8\), expected \(2, 200\)"),
        ({"num_layers": 200}, "num_layers is 200, the file has"),
        ({"outputs": 10**15}, "head.weight has shape"),
    ],
)
def test_sizes_are_checked_before_memory_is_allocated(sizes, problem, tmp_path, monkeypatch):
    path = tmp_path / "model.safetensors"
    fitted_with_gaps("classifier")[0].save(path)
    about, arrays = read_file(path)

    def construct(*_, device, **__):
        pytest.fail(f"the network was constructed on the device {device}")

    monkeypatch.setattr("cornn.estimators.network.CoRNN", construct)
    path.write_bytes(pack_file(about | {"network": about["network"] | sizes}, arrays))
    with pytest.raises(ValueError, match=problem):
        load(path)


def test_weights_are_compared_before_memory_is_allocated(tmp_path, monkeypatch):
    path = tmp_path / "model.safetensors"
    fitted_with_gaps("classifier")[0].save(path)
    about, arrays = read_file(path)
    devices = []

    class Recorded(CoRNN):
        def __init__(self, *arguments, **settings):
            devices.append(settings.get("device"))
            super().__init__(*arguments, **settings)

    monkeypatch.setattr("cornn.estimators.network.CoRNN", Recorded)
    name = "model.layer.cells.l0.weight_ih"
    path.write_bytes(pack_file(about, arrays | {name: arrays[name][:, :1]}))
    with pytest.raises(ValueError, match="size mismatch"):
        load(path)
    assert devices == ["meta"]


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_a_stream_predicts_what_the_batch_does(kind):
    fitted, X, spans = fitted_with_gaps(kind)
    stream = fitted.stream()
    for steps in range(1, X.shape[1] + 1):
        found = stream(X[0, steps - 1], spans[0, steps - 1])
        whole = fitted.predict(X[:1, :steps], timespans=spans[:1, :steps])[0]
        if kind == "classifier":
            assert found == whole
        else:
            torch.testing.assert_close(torch.as_tensor(found), torch.as_tensor(whole), **FLOAT32, check_dtype=False)
    with pytest.raises(ValueError, match="timespan must be finite and not negative, got -1"):
        stream(X[0, 0], -1)
    before = stream.to_bytes()
    first = stream(X[0, 0], np.nan)
    stream.restore(before)
    np.testing.assert_array_equal(stream(X[0, 0]), first)
    stream.reset()


def test_a_stream_of_probabilities():
    fitted, X, spans = fitted_with_gaps("classifier")
    stream = fitted.stream("predict_proba")
    for sample, span in zip(X[3], spans[3], strict=True):
        chances = stream(sample, span)
    expected = fitted.predict_proba(X[3:4], timespans=spans[3:4])[0]
    torch.testing.assert_close(torch.from_numpy(chances), torch.from_numpy(expected), **FLOAT32)
    with pytest.raises(ValueError, match="choose one of predict, predict_proba"):
        fitted.stream("score")


X, Y = waves(24)
MIXED = pd.DataFrame({"id": [1, 1, 2], "at": [0.0, 0.0, 1.0], "v": ["1", "x", "2"], "kind": [0, 1, 0]})
FRAME = {"id_column": "id", "value_columns": ["v"]}
WRONG = {
    "one class": ({}, X, np.zeros(24), "of 1 class, "),
    "empty": ({}, [X[0], X[1, :0]], [0, 1], "sequence 1 is empty"),
    "none": ({}, [], [], "no sequences"),
    "text": ({}, [X[0], ["1", "two"]], [0, 1], "sequence 1, step 1: 'two' is not a number"),
    "infinity": ({}, [X[0], [1.0, np.inf]], [0, 1], "sequence 1, step 1 contains infinity"),
    "features": ({}, [X[:2], X[:3].T], [0, 1], "sequence 1 has 3 features, sequence 0 has 20"),
    "dimensions": ({}, [X[None]], [0], r"sequence 0 has shape \(1, 24, 20\)"),
    "targets": ({}, X, Y[:-1], "24 sequences and y has 23 targets"),
    "flat": ({}, X[0], Y, "expected \\(sequences, time, features\\)"),
    "times": ({}, [Series(X[0], np.zeros(20)), X[1]], [0, 1], "sequence 0: times must increase, but step 1"),
    "order": (
        {},
        [Series(X[0], np.r_[0, 2, 1, 3:20]), X[1]],
        [0, 1],
        "step 2 is at 1 after 2: sort the rows by time",
    ),
    "some times": ({}, [X[1], Series(X[0], np.arange(20))], [0, 1], "only one of sequence 1 and sequence 0 has times"),
    "few times": ({}, [Series(X[0], np.arange(3))], [0], "20 steps but 3 times"),
    "ragged spans": ({"timespans": np.ones((3, 20))}, X, Y, "24 sequences and timespans 3"),
    "short spans": ({"timespans": np.ones(19)}, X, Y, "timespans of sequence 0 have shape"),
    "negative spans": ({"timespans": -np.ones(20)}, X, Y, "timespans of sequence 0 must not be negative"),
    "negative first span": ({"timespans": np.r_[-1, np.ones(19)]}, X, Y, "must not be negative"),
    "epochs": ({"epochs": 0}, X, Y, "epochs must be a positive integer"),
    "share": ({"validation_share": 1.0}, X, Y, "validation_share must be"),
    "whole share": ({"validation_share": 0.99}, X, Y, "validation_share=0.99 leaves none of 24 sequences for training"),
    "named share": ({"validation_share": "all"}, X, Y, "validation_share must be at least 0 and below 1, got 'all'"),
    "rate": ({"learning_rate": "fast"}, X, Y, "learning_rate must be above 0, got 'fast'"),
    "constants": ({"gamma": [1.0, 2.0, 3.0]}, X, Y, r"gamma has shape \(3,\): pass a number, or one per neuron"),
    "device": ({"device": "cuda"}, X, Y, "no CUDA device"),
    "column": ({"id_column": "who"}, MIXED, "kind", "no column 'who': the columns are id, at, v, kind"),
    "changing target": (FRAME, MIXED.assign(v=1.0), "kind", "column 'kind' changes within sequence 1"),
    "text in a column": (FRAME, MIXED, [0, 1], "column 'v', row 1: 'x' is not a number"),
    "two at a time": (FRAME | {"time_column": "at"}, MIXED.assign(v=1.0), [0, 1], "sequence 1: times must increase"),
    "named target": ({}, X, "kind", "set id_column"),
}


@pytest.mark.parametrize("case", WRONG)
def test_mistakes_are_named_with_their_place(case):
    settings, sequences, target, message = WRONG[case]
    if case == "device" and torch.cuda.is_available():
        pytest.skip("there is a CUDA device here")
    settings = dict(settings)
    timespans = settings.pop("timespans", None)
    with pytest.raises(ValueError, match=message):
        CoRNNClassifier(**NETWORK | settings).fit(sequences, target, timespans=timespans)


def test_mistakes_after_fitting():
    fitted = CoRNNClassifier(**NETWORK).fit(X, Y)
    with pytest.raises(ValueError, match="sequence 0 of X has 20 features, but this estimator is expecting 1"):
        fitted.predict(X[None])
    with pytest.raises(ValueError, match="fitted without times, but sequence 0 has them"):
        fitted.predict(X, timespans=np.ones(20))
    with pytest.raises(ValueError, match=r"a forecaster must not see .* set bidirectional=False"):
        CoRNNForecaster(**QUICK, bidirectional=True).fit(X)
    with pytest.raises(ValueError, match="the target of sequence 2 is missing"):
        CoRNNRegressor(**NETWORK).fit(X, np.where(np.arange(24) == 2, np.nan, 1.0))
    with pytest.raises(ValueError, match="set id_column"):
        fitted.ids(MIXED)
    with pytest.raises(ValueError, match="bidirectional=False"):
        CoRNNClassifier(**NETWORK, bidirectional=True).fit(X, Y).stream()


@pytest.mark.parametrize("kind", [CoRNNClassifier, CoRNNRegressor, CoRNNForecaster])
def test_what_is_not_finite_is_no_answer(kind):
    fitted = kind(**QUICK if kind is CoRNNForecaster else NETWORK).fit(X, Y)
    far = X.copy()
    far[3, 7] = 1e300
    with pytest.raises(ValueError, match="sequence 3, step 7 is too far from the training data for float32"):
        fitted.predict(far)
    with torch.no_grad():
        fitted.model_.head.weight[0, 0] = torch.nan
    with pytest.raises(ValueError, match="the network's output is not finite"):
        fitted.stream()(X[0, 0])
    with pytest.raises(ValueError, match="the network's output for sequence 0 is not finite"):
        fitted.predict(X)
    if kind is CoRNNForecaster:
        with pytest.raises(ValueError, match="the network's output for sequence 0 is not finite"):
            fitted.predict_every_step(X)


def test_without_scikit_learn_a_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.delitem(sys.modules, "cornn.estimators")
    with pytest.raises(ImportError, match=r'pip install "cornn\[estimators\]"'):
        importlib.import_module("cornn.estimators")


def test_a_prediction_that_fails_leaves_the_model_on_the_cpu(monkeypatch):
    network = importlib.import_module("cornn.estimators.network")
    X, y = np.zeros((6, 5, 1)), [0, 1] * 3
    classifier = CoRNNClassifier(method="network", hidden_size=4, epochs=1, random_state=0).fit(X, y)
    moved, move = [], classifier.model_.to

    def full(*arguments):
        raise RuntimeError("no memory")

    monkeypatch.setattr(network, "read_out", full)
    monkeypatch.setattr(classifier.model_, "to", lambda device: moved.append(str(device)) or move(device))
    with pytest.raises(RuntimeError, match="no memory"):
        classifier.predict(X)
    assert moved == ["cpu", "cpu"]


@pytest.mark.parametrize("kind", ["numbers", "naive", "zone", "texts"])
def test_times_are_numbers_or_dates_of_any_kind(kind):
    pandas = pytest.importorskip("pandas")
    days = pandas.date_range("2020-01-01", periods=12)
    times = {
        "numbers": np.arange(12) * 86400.0,
        "naive": days,
        "zone": days.tz_localize("Europe/Berlin"),
        "texts": [str(day) for day in days],
    }[kind]
    frame = pandas.DataFrame({"who": [0] * 12 + [1] * 12, "at": [*times] * 2, "v": np.arange(24.0) % 5})
    settings = {"hidden_size": 4, "epochs": 1, "random_state": 0, "device": "cpu"}
    model = CoRNNForecaster(**settings, id_column="who", time_column="at").fit(frame)
    assert model.preparation_.unit == pytest.approx(86400.0)
    if kind == "texts":
        for wrong in ("01/02/2020", "soon"):
            with pytest.raises(
                ValueError, match="column 'at' contains values that are not times: use numbers, or dates"
            ):
                model.fit(frame.assign(at=[wrong] * 24))


def test_a_stream_refuses_infinity_and_what_is_no_state():
    model = CoRNNForecaster(hidden_size=4, epochs=1, random_state=0, device="cpu").fit(np.sin(np.arange(60.0))[None])
    stream = model.stream()
    stream(0.5)
    before = stream.to_bytes()
    for sample in (np.inf, [-np.inf], np.array([np.inf])):
        with pytest.raises(ValueError, match="the sample contains infinity"):
            stream(sample)
    with pytest.raises(ValueError, match="fitted without times: omit timespan"):
        stream(0.5, 2.0)
    assert stream.to_bytes() == before
    with pytest.raises(ValueError, match="this is not a stream's state"):
        stream.restore(b"abc")


def test_the_held_out_score_is_the_mean_r2_of_the_targets():
    target = np.array([[0.0, 1.0], [1.0, 3.0], [2.0, 8.0]])
    name, score = CoRNNRegressor().held_out_score(target + np.array([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]]), target)
    assert (name, score) == ("R²", pytest.approx(1 - (1 / 2 + 4 / 26) / 2))


def test_a_target_that_is_not_a_number_is_named_by_its_sequence():
    with pytest.raises(ValueError, match=r"^y, sequence 1: 'a' is not a number"):
        CoRNNRegressor().fit(X[:2], [1.0, "a"])
