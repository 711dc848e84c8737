"""What a fitted estimator remembers about its input: names of columns; and whether it is fitted."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from cornn import estimators
from cornn.estimators import CoRNNClassifier, CoRNNForecaster, CoRNNRegressor, OscillatorBank, Series, load
from cornn.export.load import wrap_model

RANDOM = np.random.default_rng(0)
SEQUENCES, STEPS = 12, 15
VALUES = RANDOM.normal(size=(SEQUENCES, STEPS, 2)) * (1, 20) + (0, 300)
LABELS = np.arange(SEQUENCES) % 2
LONG = pd.DataFrame(VALUES.reshape(-1, 2), columns=["a", "b"]).assign(id=np.repeat(np.arange(SEQUENCES), STEPS))
FRAMES = [pd.DataFrame(own, columns=["a", "b"]) for own in VALUES]
DATED = pd.DataFrame(VALUES.reshape(-1, 2), pd.date_range("2020", periods=SEQUENCES * STEPS), columns=["a", "b"])
TIMED = [Series(frame, np.arange(STEPS) ** 1.1) for frame in FRAMES]

ESTIMATORS = {
    "bank": OscillatorBank(neurons=16, random_state=0),
    "classifier": CoRNNClassifier(neurons=16, random_state=0),
    "regressor": CoRNNRegressor(neurons=16, random_state=0),
    "network": CoRNNClassifier(method="network", hidden_size=4, epochs=1, random_state=0),
    "pool": CoRNNForecaster(candidates=["ridge on lags", "last value"], period=1, horizon=2),
    "network forecaster": CoRNNForecaster(hidden_size=4, epochs=1, random_state=0),
}
NESTED = LONG.assign(at=np.tile(np.arange(STEPS), SEQUENCES)).set_index(["id", "at"])  # as sktime has it
CONTAINERS = {"long": LONG, "frames": FRAMES, "series": TIMED, "dated": DATED, "nested": NESTED}


def change(X, edit):
    """Apply a function to every frame in X."""
    if isinstance(X, pd.DataFrame):
        return edit(X)
    return [Series(edit(own.values), own.times) if isinstance(own, Series) else edit(own) for own in X]


def answer(estimator, X):
    return estimator.transform(X) if isinstance(estimator, OscillatorBank) else estimator.predict(X)


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("kind", ESTIMATORS)
def test_columns_are_found_by_their_names(kind, container, tmp_path):
    forecasts = isinstance(ESTIMATORS[kind], CoRNNForecaster)
    if container == "dated" and not forecasts:
        pytest.skip("only a forecaster reads one series by itself")
    X = CONTAINERS[container]
    fitted = ESTIMATORS[kind].__class__(**ESTIMATORS[kind].get_params())
    fitted.set_params(id_column="id" if container == "long" else None).fit(X, *([] if forecasts else [LABELS]))
    assert fitted.feature_names_in_.tolist() == ["a", "b"]
    readers = [fitted]
    if kind != "bank":
        fitted.save(tmp_path / "model.safetensors")
        readers.append(load(tmp_path / "model.safetensors"))
    expected = answer(fitted, X)
    for reader in readers:
        np.testing.assert_array_equal(answer(reader, change(X, lambda own: own[own.columns[::-1]])), expected)
        with_more = change(X, lambda own: pd.concat([own[["b"]].rename(columns={"b": "c"}), own], axis=1))
        np.testing.assert_array_equal(answer(reader, with_more), expected)
        with pytest.raises(ValueError, match="no column 'a': the columns are "):
            answer(reader, change(X, lambda own: own.rename(columns={"a": "d"})))
    if container != "dated":
        with pytest.raises(ValueError, match="two columns are named 'a': rename one"):
            answer(fitted, change(X, lambda own: own.assign(c=0.0).rename(columns={"c": "a"})))


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_an_index_of_two_levels_is_the_sequence_and_the_time(kind):
    forecasts = isinstance(ESTIMATORS[kind], CoRNNForecaster)
    answers = [] if forecasts else [pd.Series(LABELS, range(SEQUENCES))[::-1]]  # found by their index
    long = ESTIMATORS[kind].__class__(**ESTIMATORS[kind].get_params()).set_params(id_column="id", time_column="at")
    nested = ESTIMATORS[kind].__class__(**ESTIMATORS[kind].get_params())
    long.fit(NESTED.reset_index(), *answers)
    nested.fit(NESTED, *answers)
    expected = answer(long, NESTED.reset_index())
    assert len(expected) == SEQUENCES
    np.testing.assert_array_equal(answer(nested, NESTED), expected)
    np.testing.assert_array_equal(answer(nested, NESTED.rename_axis([None, None])), expected)
    np.testing.assert_array_equal(answer(long, NESTED), expected)  # settings may name levels
    mixed = NESTED.sample(frac=1, random_state=0)
    order = list(dict.fromkeys(mixed.index.get_level_values(0)))
    np.testing.assert_array_equal(answer(nested, mixed), expected[order])
    if isinstance(nested, CoRNNClassifier | CoRNNRegressor):
        assert nested.ids(mixed).tolist() == order
        named = nested.fit(NESTED.assign(kind=np.repeat(LABELS, STEPS)), "kind")
        np.testing.assert_array_equal(answer(named, NESTED), expected)
        assert named.score(mixed, *answers) == pytest.approx(named.score(NESTED, LABELS))
    with pytest.raises(ValueError, match="the index of X has 3 levels, expected two, sequence and time: omit the"):
        nested.fit(pd.concat({"all": NESTED}), *answers)
    with pytest.raises(ValueError, match="'at' is both a column of X and a level of its index: rename one"):
        nested.fit(NESTED.assign(at=0.0), *answers)


@pytest.mark.parametrize("name", ["long", "nested"])
def test_features_of_a_long_frame_are_indexed_by_its_ids(name):
    frame = CONTAINERS[name].iloc[::-1]
    bank = OscillatorBank(neurons=16, random_state=0, id_column="id")
    expected = bank.fit_transform(frame)
    found = bank.set_output(transform="pandas").fit_transform(frame)
    assert (found.index.name, found.index.tolist()) == ("id", list(range(SEQUENCES))[::-1])
    assert bank.ids(frame).tolist() == found.index.tolist()
    np.testing.assert_array_equal(found, expected)
    assert found.columns.tolist() == bank.get_feature_names_out().tolist()


def test_the_container_of_features_follows_scikit_learn():
    frame = CONTAINERS["long"]
    bank = OscillatorBank(neurons=16, random_state=0, id_column="id").fit(frame)
    assert isinstance(bank.transform(frame), np.ndarray)
    with config_context(transform_output="pandas"):
        assert bank.transform(frame).index.name == "id"
        assert isinstance(bank.set_output(transform="default").transform(frame), np.ndarray)
    found = clone(bank.set_output(transform="pandas")).fit_transform(frame)
    assert (found.index.name, len(found)) == ("id", SEQUENCES)
    assert make_pipeline(bank).set_output(transform="pandas").fit_transform(frame).equals(found)
    plain = bank.set_output(transform="pandas").transform(VALUES)
    assert plain.index.tolist() == list(range(SEQUENCES))


def test_only_public_modules_of_scikit_learn_are_used():
    private = re.compile(r"(from|import) sklearn[\w.]*\._|from sklearn[\w.]* import .*\b_")
    sources = Path(estimators.__file__).parent.rglob("*.py")
    assert not [path for path in sources if private.search(path.read_text(encoding="utf8"))]


def test_a_target_among_the_steps_is_an_error():
    wide = pd.DataFrame(VALUES[:, :, 0]).assign(kind=LABELS)
    with pytest.raises(ValueError, match=r"column 'kind' of X is the target y: pass X.drop\(columns=\['kind'\]\)"):
        ESTIMATORS["classifier"].fit(wide, wide["kind"])
    ESTIMATORS["classifier"].fit(wide.drop(columns="kind"), pd.Series(LABELS, name=0))  # a name is no column


@pytest.mark.parametrize("frame", [LONG, NESTED], ids=["long", "nested"])
def test_a_column_of_targets_is_no_feature(frame):
    by_id = frame["id"] if "id" in frame else frame.index.get_level_values("id").to_series(frame.index)
    frame = frame.assign(kind=by_id % 2)
    estimator = CoRNNClassifier(neurons=16, random_state=0, id_column="id")
    by_column = estimator.fit(frame, frame["kind"]).predict_proba(frame)
    assert estimator.columns_ == ["a", "b"]
    np.testing.assert_array_equal(by_column, estimator.fit(frame, "kind").predict_proba(frame))


def test_a_column_of_targets_may_have_an_index_of_two_levels():
    kinds = NESTED.index.get_level_values("id").to_series(NESTED.index) % 2
    by_row = ESTIMATORS["classifier"].fit(NESTED, kinds).predict_proba(NESTED)
    np.testing.assert_array_equal(by_row, ESTIMATORS["classifier"].fit(NESTED, LABELS).predict_proba(NESTED))


def test_an_index_of_two_levels_may_have_dates_or_periods():
    for times in (pd.date_range("2020", periods=STEPS, freq="h"), pd.period_range("2020-01", periods=STEPS, freq="M")):
        X = NESTED.set_axis(pd.MultiIndex.from_product([range(SEQUENCES), times], names=["series", "month"]))
        forecaster = CoRNNForecaster(horizon=2, targets="a", candidates="last value").fit(X)
        last = X["a"].groupby("series", sort=False).last().to_numpy()
        np.testing.assert_allclose(forecaster.predict(X)[:, :, 0], np.stack([last, last], 1))


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_steps_by_name_are_in_the_order_of_training(kind, tmp_path):
    names = ["morning", "noon", "evening", *(f"x{step}" for step in range(4)), *(f"y{step}" for step in range(3))]
    # With an index of names, the rows are series for a forecaster too.
    X = pd.DataFrame(VALUES[:, : len(names), 0], [f"p{row}" for row in range(SEQUENCES)], names)
    forecasts = isinstance(ESTIMATORS[kind], CoRNNForecaster)
    fitted = ESTIMATORS[kind].__class__(**ESTIMATORS[kind].get_params()).fit(X, *([] if forecasts else [LABELS]))
    readers = [fitted]
    if kind != "bank":
        fitted.save(tmp_path / "model.safetensors")
        readers.append(load(tmp_path / "model.safetensors"))
    expected = answer(fitted, X)
    for reader in readers:
        np.testing.assert_array_equal(answer(reader, X), expected)
        np.testing.assert_array_equal(answer(reader, X.to_numpy()), expected)
        for order in (names[::-1], ["noon", "morning", *names[2:]], [*names[7:], *names[:7]], ["y0", "x0"]):
            sentence = (
                r"column '\w+' of X comes before column '\w+', in training it came after it: .* order of training"
            )
            with pytest.raises(ValueError, match=sentence):
                answer(reader, X[order])
        assert len(answer(reader, X[["noon", "x1", "y2"]])) == SEQUENCES  # a shorter sequence
        assert len(answer(reader, X.set_axis([f"z{step}" for step in range(len(names))], axis=1))) == SEQUENCES
    with pytest.raises(ValueError, match=r"value_columns are features, but the columns .* are steps"):
        fitted.set_params(value_columns=["noon"]).fit(X, *([] if forecasts else [LABELS]))


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_numbered_steps_have_no_gaps_and_nothing_else_next_to_them(kind):
    names = [f"t{step}" for step in range(8, 18)]
    X = pd.DataFrame(VALUES[:, :10, 0], [f"p{row}" for row in range(SEQUENCES)], names)
    forecasts = isinstance(ESTIMATORS[kind], CoRNNForecaster)
    fitted = ESTIMATORS[kind].__class__(**ESTIMATORS[kind].get_params()).fit(X, *([] if forecasts else [LABELS]))
    with pytest.raises(ValueError, match=r"X has no column 't11' between 't10' and 't13', .*: add it, with NaN"):
        answer(fitted, X.drop(columns=["t11", "t12"]))
    for extra in (X.assign(age=1.0), X.assign(**{"2": 1.0})):
        with pytest.raises(
            ValueError, match=r"column '\w+' of X is not a step like 't8' to 't17' in training: omit it"
        ):
            answer(fitted, extra)
    for part in (
        X[names[2:]],
        X[names[:-2]],
        X.assign(t18=0.0),
        X.set_axis([f"s{step}" for step in range(10)], axis=1),
    ):
        assert len(answer(fitted, part)) == SEQUENCES


def test_columns_without_names_are_read_by_position():
    plain = [pd.DataFrame(own) for own in VALUES]
    bank = OscillatorBank(neurons=16, random_state=0).fit(plain)
    assert not hasattr(bank, "feature_names_in_")
    np.testing.assert_array_equal(bank.transform(FRAMES), bank.transform(list(VALUES)))
    # A long-form frame whose names are numbers is read by them, also from a file, which stores text.
    long = pd.DataFrame(VALUES.reshape(-1, 2)).assign(id=LONG["id"])
    bank = OscillatorBank(neurons=16, random_state=0, id_column="id").fit(long)
    np.testing.assert_array_equal(bank.transform(long[["id", 1, 0]]), bank.transform(long))


def test_value_columns_choose_features_of_all_frames():
    chosen = OscillatorBank(neurons=16, random_state=0, value_columns=["b"]).fit(FRAMES)
    only = OscillatorBank(neurons=16, random_state=0).fit(VALUES[:, :, 1])
    np.testing.assert_array_equal(chosen.transform(FRAMES), only.transform(VALUES[:, :, 1]))


def test_features_of_a_dated_frame_have_names_in_settings():
    both = CoRNNForecaster(candidates="last value").fit(DATED)
    first = CoRNNForecaster(targets=["b"], candidates="last value").fit(DATED)
    np.testing.assert_array_equal(first.predict(DATED), both.predict(DATED)[:, 1:])
    known = CoRNNForecaster(targets=["a"], known_future=["b"]).fit(DATED)
    assert known.predict(DATED, future=[300.0]).shape == (1, 1)
    with pytest.raises(ValueError, match="targets contains 'c', which is not a feature: the features are a, b"):
        CoRNNForecaster(targets=["c"]).fit(DATED)


@pytest.mark.parametrize("kind", [CoRNNClassifier, CoRNNRegressor])
def test_after_a_fit_that_fails_an_estimator_is_not_fitted(kind):
    estimator = kind(neurons=16)
    for _ in range(2):  # at first, and after a fit that succeeded
        with pytest.raises(ValueError, match="inconsistent number"):
            estimator.fit(VALUES, LABELS[:5])
        assert not estimator.is_fitted()
        with pytest.raises(ValueError, match="pass a SequenceModel or a fitted estimator"):
            wrap_model(estimator)
        assert estimator.fit(VALUES, LABELS).is_fitted()


def test_after_a_fit_that_fails_a_forecaster_is_not_fitted():
    forecaster = CoRNNForecaster(horizon=STEPS)
    for _ in range(2):
        with pytest.raises(ValueError, match="choose a horizon of at most"):
            forecaster.fit(VALUES)
        assert not forecaster.is_fitted()
        assert forecaster.set_params(horizon=1).fit(VALUES).is_fitted()
        forecaster.set_params(horizon=STEPS)


def test_an_input_that_cannot_be_read_leaves_an_earlier_fit():
    fitted = CoRNNClassifier(neurons=16, random_state=0).fit(FRAMES, LABELS)
    expected = fitted.predict_proba(FRAMES)
    with pytest.raises(ValueError, match="expected"):
        fitted.fit(np.zeros(3), LABELS)
    np.testing.assert_array_equal(fitted.predict_proba(FRAMES), expected)


@pytest.mark.parametrize("kind", [name for name in ESTIMATORS if name != "bank"])
def test_a_loaded_estimator_has_the_fitted_attributes(kind, tmp_path):
    fitted = ESTIMATORS[kind].__class__(**ESTIMATORS[kind].get_params())
    fitted.fit(VALUES, *([] if isinstance(fitted, CoRNNForecaster) else [LABELS]))
    fitted.save(tmp_path / "model.safetensors")
    again = load(tmp_path / "model.safetensors")
    # Backtests are those of the training data, which no file contains.
    assert vars(again).keys() == vars(fitted).keys() - {"backtests_"}
    for name in ("n_iter_", "n_features_in_", "columns_", "history_", "method_"):
        assert getattr(again, name) == getattr(fitted, name), name


@pytest.mark.parametrize("kind", [name for name in ESTIMATORS if name != "bank"])
def test_a_loaded_estimator_needs_its_device_only_to_compute(kind, tmp_path):
    fitted = ESTIMATORS[kind].__class__(**ESTIMATORS[kind].get_params())
    fitted.set_params(device="cpu").fit(VALUES, *([] if isinstance(fitted, CoRNNForecaster) else [LABELS]))
    fitted.set_params(device="cuda:99").save(tmp_path / "model.safetensors")
    assert load(tmp_path / "model.safetensors").count_parameters() == fitted.count_parameters()


@pytest.mark.parametrize(
    "settings",
    [{"period": [np.int64(5)]}, {"targets": list(np.arange(1))}, {"targets": (np.int32(0),)}, {"horizon": np.int64(2)}],
)
def test_settings_may_contain_numbers_of_numpy(settings, tmp_path):
    series = np.sin(np.arange(60))
    fitted = CoRNNForecaster(**{"candidates": "last value", "random_state": np.int64(3)} | settings).fit(series)
    fitted.save(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(load(tmp_path / "model.safetensors").predict(series), fitted.predict(series))


def test_a_setting_that_cannot_be_saved_is_named(tmp_path):
    fitted = CoRNNClassifier(neurons=16, random_state=0).fit(VALUES, LABELS)
    with pytest.raises(TypeError, match="class_weight is a object, which cannot be saved"):
        fitted.set_params(class_weight={0: [object()]}).save(tmp_path / "model.safetensors")


@pytest.mark.parametrize("method", ["bank", "network", "auto"])
@pytest.mark.parametrize("kind", [CoRNNClassifier, CoRNNRegressor])
def test_one_group_is_an_error_with_every_method(kind, method):
    with pytest.raises(ValueError, match="groups has one value only: pass at least two groups, or omit it"):
        kind(method=method).fit(VALUES, LABELS, groups=np.zeros(SEQUENCES))


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
def test_a_sequence_without_a_group_is_named(missing):
    groups = ["a", "b", missing] * (SEQUENCES // 3)
    with pytest.raises(ValueError, match="groups, sequence 2: the group is missing: fill it in"):
        CoRNNClassifier(neurons=16).fit(VALUES, LABELS, groups=pd.Series(groups, dtype=object))


@pytest.mark.parametrize("kind", [CoRNNClassifier, CoRNNRegressor])
def test_a_score_reads_answers_as_fit_does(kind):
    frame = LONG.assign(kind=np.repeat(LABELS, STEPS))
    fitted = kind(neurons=64, random_state=0, id_column="id").fit(frame, "kind")
    expected = fitted.score(frame, LABELS)
    assert fitted.score(frame, "kind") == expected
    assert fitted.score(frame, pd.Series(LABELS).sample(frac=1, random_state=0)) == expected
    with pytest.raises(ValueError, match="set id_column"):
        kind(neurons=16).fit(VALUES, LABELS).score(VALUES, "kind")


@pytest.mark.parametrize("kind", [CoRNNClassifier, CoRNNRegressor])
def test_a_score_takes_times_as_fit_does(kind):
    spans = RANDOM.uniform(0.5, 2, (SEQUENCES, STEPS))
    spans[:, 0] = np.nan
    fitted = kind(neurons=64, random_state=0).fit(VALUES, LABELS, timespans=spans)
    timed = [Series(own, np.nancumsum(gaps)) for own, gaps in zip(VALUES, spans, strict=True)]
    assert fitted.score(VALUES, LABELS, timespans=spans) == pytest.approx(fitted.score(timed, LABELS))


def test_a_transformer_fits_and_transforms_with_times():
    spans = RANDOM.uniform(0.5, 2, (SEQUENCES, STEPS))
    bank = OscillatorBank(neurons=16, random_state=0)
    found = bank.fit_transform(VALUES, LABELS, timespans=spans)
    np.testing.assert_array_equal(found, bank.transform(VALUES, timespans=spans))
    assert bank.set_output(transform="pandas").fit_transform(VALUES, timespans=spans).shape == found.shape


@pytest.mark.parametrize("kind", [name for name in ESTIMATORS if name != "bank"])
def test_settings_that_are_not_used_are_checked_too(kind):
    estimator = ESTIMATORS[kind].__class__(**ESTIMATORS[kind].get_params())
    with pytest.raises(ValueError, match="unknown backend 'foo': choose one of auto"):
        estimator.set_params(backend="foo").fit(VALUES, LABELS)
    with pytest.raises(ValueError, match="random_state must not be negative, got -1"):
        estimator.set_params(backend="auto", random_state=-1).fit(VALUES, LABELS)


def _frame(rows=80):
    return pd.DataFrame({"a": 100 + np.sin(np.arange(rows)), "b": -np.ones(rows)})


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (None, r"shape \(80, 2\) without dates: pass X.to_numpy\(\)\[None\] for one series"),
        (np.arange(80)[::-1], r"shape \(80, 2\) without dates"),
        (pd.date_range("2020", periods=80).strftime("%Y-%m-%d"), r"convert it with X.set_axis\(pandas.to_datetime"),
        (pd.date_range("2020", periods=80).date, r"convert it with X.set_axis\(pandas.to_datetime"),
    ],
)
def test_a_frame_whose_rows_may_be_steps_is_not_read_as_series(index, message):
    frame = _frame() if index is None else _frame().set_axis(index)
    with pytest.raises(ValueError, match=message):
        CoRNNForecaster(horizon=1, candidates="last value").fit(frame)


def test_rows_with_names_are_series():
    frame = _frame(3).set_axis(["2019-run", "x", "1001"])
    assert CoRNNForecaster(horizon=1, candidates="last value").fit(frame).predict(frame).shape == (3, 1)


@pytest.mark.parametrize("names", [["t0", "t10", "t2"], [2, 1, 0], ["x1", "x1", "x2"]])
def test_columns_of_a_wide_frame_must_be_in_order_of_time(names):
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(20, 3)), columns=names)
    model = CoRNNClassifier(neurons=16)
    with pytest.raises(ValueError, match=r"column .* of X comes before column .*: the columns are the steps"):
        model.fit(frame, np.arange(20) % 2)
    model.fit(frame.set_axis(["t0", "t1", "t2"], axis=1), np.arange(20) % 2)
    with pytest.raises(ValueError, match="pass them in order of time"):
        model.predict(frame)
    assert len(model.predict(frame.set_axis(["a1", "b0", "c"], axis=1))) == 20
