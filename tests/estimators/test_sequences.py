"""The inputs that estimators accept."""

import numpy as np
import pandas
import pytest
import torch
from sklearn.base import clone

from cornn.estimators import CoRNNClassifier, CoRNNForecaster, OscillatorBank, Series
from cornn.estimators.dated_index import check_future_dates
from cornn.estimators.frames import Columns, read_target
from cornn.estimators.sequences import read_sequences

SINGLE = Columns(single=True)
DAYS = pandas.date_range("2026-01-30", periods=3)


@pytest.mark.parametrize(
    "X",
    [
        np.arange(5.0),
        [0.0, 1.0, 2.0, 3.0, 4.0],
        pandas.Series(np.arange(5.0)),
        pandas.Series(np.arange(5.0), pandas.date_range("2020-01-31", periods=5, freq="ME")),
        pandas.Series(np.arange(5.0), pandas.period_range("2020-01", periods=5, freq="M")),
        pandas.DataFrame({"v": np.arange(5.0)}, pandas.date_range("2020", periods=5, freq="YS")),
        pandas.Series(range(5), dtype=object),
        range(5),
    ],
    ids=["array", "list", "series", "months", "periods", "frame", "objects", "range"],
)
def test_one_series_by_itself(X):
    (found,) = read_sequences(X, SINGLE)
    assert found.values[:, 0].tolist() == [0, 1, 2, 3, 4]
    assert found.gaps is None


@pytest.mark.parametrize("method", ["bank", "network"])
def test_times_in_another_unit_than_in_training_give_a_warning(method):
    X, y = np.random.default_rng(0).normal(size=(12, 9)), [0, 1] * 6
    settings = {"neurons": 64} if method == "bank" else {"hidden_size": 4, "epochs": 1}
    seconds = np.cumsum(np.random.default_rng(1).uniform(1e3, 5e3, X.shape), 1)
    fitted = CoRNNClassifier(**settings, random_state=0).fit(
        [Series(*pair) for pair in zip(X, seconds, strict=True)], y
    )
    expected = fitted.predict_proba([Series(*pair) for pair in zip(X, seconds, strict=True)])
    for resolution in ("ms", "us", "ns"):  # durations are in seconds, whatever their resolution is
        times = (1e3 * seconds).astype("timedelta64[ms]").astype(f"timedelta64[{resolution}]")
        found = fitted.predict_proba([Series(*pair) for pair in zip(X, times, strict=True)])
        np.testing.assert_allclose(found, expected, atol=1e-4)
    hours = [Series(*pair) for pair in zip(X, seconds / 3600, strict=True)]
    with pytest.warns(UserWarning, match=r"the median time between samples is .* give the times in the same unit"):
        fitted.predict(hours)
    assert len(fitted.predict([Series(X[0, :3], np.arange(3.0))])) == 1  # too few to compare


def test_a_sequence_of_the_training_data_can_be_predicted_by_itself():
    random = np.random.default_rng(0)
    gaps = [300.0, 2e6] * 12  # the first have most of the samples
    lengths = [40, 6] * 12
    X = [
        Series(random.normal(size=n), np.cumsum(random.exponential(gap, n)))
        for gap, n in zip(gaps, lengths, strict=True)
    ]
    fitted = CoRNNClassifier(neurons=64, random_state=0).fit(X, [0, 1] * 12)
    with pytest.warns(UserWarning, match="the median time between samples is"):
        assert fitted.predict(X[1:2]) == fitted.predict(X)[1]


def test_a_duration_is_not_a_feature():
    lasting = pandas.DataFrame({"id": [0, 0, 1, 1], "v": [1, 2, 3, 4], "t": pandas.to_timedelta([1, 2, 3, 4], "s")})
    with pytest.raises(ValueError, match="column 't' contains dates or durations"):
        CoRNNClassifier(id_column="id").fit(lasting, ["a", "b"])


def test_dates_that_are_not_evenly_spaced_are_times():
    X = pandas.Series(np.arange(3.0), pandas.to_datetime(["2020-01-01", "2020-01-02", "2020-01-05"]))
    (found,) = read_sequences(X, SINGLE)
    assert found.gaps[1:].tolist() == [86400, 3 * 86400]


def dated(values, dates):
    return pandas.DataFrame({"v": values}, dates)


@pytest.mark.parametrize("wrap", [lambda own: own, lambda own: own["v"], Series], ids=["frame", "series", "Series"])
@pytest.mark.parametrize("columns", [SINGLE, Columns()], ids=["forecasts", "classes"])
def test_floats_in_a_list_are_times_if_they_have_gaps(columns, wrap):
    def read(*indices):
        sequences = read_sequences([wrap(dated(np.arange(float(len(own))), own)) for own in indices], columns)
        return [None if own.gaps is None else own.gaps[1:].tolist() for own in sequences]

    even, uneven = np.arange(4) * 0.1, np.array([0.5, 1.0, 2.5])
    assert read(even, even + 7) == [None, None]
    assert read(uneven, 1 + 2 * np.arange(3.0)) == [[0.5, 1.5], [2, 2]]
    assert read([0, 1, 3], [5, 2, 4]) == [None, None]  # integers count rows
    for wrong in ([0.5, 0.5, 2], [0.5, 2, 1]):
        with pytest.raises(ValueError, match=r"the index of sequence 1 does not increase: sort .*reset_index"):
            read(uneven, wrong)


def test_floats_in_the_index_of_one_series_are_times():
    random = np.random.default_rng(0)
    times = np.cumsum(random.choice([1.0, 2.0], 60)) / 4
    values = np.sin(times) + 0.1 * random.normal(size=60)
    fitted = CoRNNForecaster(horizon=2).fit(pandas.Series(values, times))
    expected = CoRNNForecaster(horizon=2).fit([Series(values, times)]).predict([Series(values, times)])
    np.testing.assert_allclose(fitted.predict(pandas.Series(values, times)), expected[0, :, 0], rtol=1e-10)
    with pytest.raises(ValueError, match=r"shape \(60, 1\) without dates: .*\[Series\(X, X.index\)\] if its index is"):
        CoRNNForecaster(horizon=2).fit(pandas.DataFrame({"v": values}, times))


@pytest.mark.parametrize("wrap", [lambda own: own, lambda own: own["v"], Series], ids=["frame", "series", "Series"])
@pytest.mark.parametrize("columns", [SINGLE, Columns()], ids=["forecasts", "classes"])
def test_dates_in_a_list_are_times_if_they_have_gaps(columns, wrap):
    days = pandas.date_range("2026-01-30", periods=4)
    months = pandas.date_range("2026-01-31", periods=4, freq="ME")
    local = pandas.date_range("2026-03-27", periods=4, tz="Europe/Berlin")  # the clocks change
    for dates in (days, months, local, days.to_period("D"), days[:1]):
        even = [wrap(dated(np.arange(float(len(dates))), dates)), wrap(dated(np.arange(4.0), days))]
        assert [own.gaps for own in read_sequences(even, columns)] == [None, None]
    one, other = read_sequences([*even, wrap(dated(np.arange(3.0), days[[0, 1, 3]]))], columns)[-2:]
    assert other.gaps[1:].tolist() == [86400, 2 * 86400]
    assert one.gaps[1:].tolist() == [86400] * 3
    with pytest.raises(ValueError, match="only one of sequence 1 and sequence 0 has times"):
        read_sequences([wrap(dated(np.arange(3.0), days[[0, 1, 3]])), np.arange(3.0)], columns)
    with pytest.raises(ValueError, match="the index of sequence 1: times must increase"):
        read_sequences([even[1], wrap(dated(np.arange(4.0), days[::-1]))], columns)
    with pytest.raises(ValueError, match="the index of sequence 0 has no date in row 1"):
        read_sequences([wrap(dated(np.arange(2.0), pandas.DatetimeIndex(["2026-01-30", None])))], columns)
    (found,) = read_sequences([wrap(dated(np.arange(3.0), days[[0, 1, 3]]))], columns, [np.ones(3)])
    assert found.gaps.tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    "estimator", [CoRNNClassifier(neurons=16, random_state=0), OscillatorBank(neurons=16, random_state=0)]
)
def test_dates_of_a_list_are_read_like_those_of_training(estimator):
    estimator = clone(estimator)
    random = np.random.default_rng(0)
    days = pandas.date_range("2026-01-30", periods=20)
    values, labels = random.normal(size=(12, 20)), np.arange(12) % 2
    kept = np.delete(np.arange(20), [4, 5, 11])
    even = [dated(own, days) for own in values]
    gaps = [dated(own[kept], days[kept]) for own in values]
    run = estimator.predict_proba if isinstance(estimator, CoRNNClassifier) else estimator.transform

    estimator.fit(list(values), labels)
    expected = run(list(values))
    np.testing.assert_array_equal(run(even), expected)
    estimator.fit(even, labels)
    np.testing.assert_array_equal(run(even), expected)
    with pytest.raises(ValueError, match="fitted without times, but sequence 0 has them: fit with times too"):
        run(gaps)
    estimator.fit([Series(own[kept], kept) for own in values], labels)
    expected = [run([Series(own[rows], rows) for own in values]) for rows in (kept, np.arange(20))]
    estimator.fit(gaps, labels)
    for X, features in zip((gaps, even), expected, strict=True):
        np.testing.assert_allclose(run(X), features, rtol=1e-6)


def test_dates_in_the_wrong_order_are_named():
    sentence = "times must increase, but step 1 is at {} after {}: sort the rows by time, and keep one row per time"
    frame = pandas.DataFrame({"v": np.arange(3.0)}, pandas.to_datetime(["2020-03-20", "2020-03-19", "2020-03-21"]))
    with pytest.raises(ValueError, match="^the index of X: " + sentence.format("2020-03-19", "2020-03-20")):
        read_sequences(frame, SINGLE)
    for dates in (["2020-03-20"] * 2, pandas.to_datetime(["2020-03-20"] * 2)):
        long = pandas.DataFrame({"id": [7, 7], "at": dates, "v": [1.0, 2.0]})
        with pytest.raises(ValueError, match="^sequence 7: " + sentence.format("2020-03-20", "2020-03-20")):
            read_sequences(long, Columns(id="id", time="at"))


def test_without_forecasts_one_series_is_an_error():
    with pytest.raises(ValueError, match="Reshape your data"):
        read_sequences(np.arange(5.0), Columns())


def test_the_order_of_axes():
    X = np.arange(24.0).reshape(2, 3, 4)  # (sequences, features, time)
    assert read_sequences(X, Columns(layout="nct"))[0].values.tolist() == X[0].T.tolist()
    with pytest.warns(UserWarning, match="has 3 steps of 4 features.*use layout='nct'"):
        read_sequences(X, Columns(), warn=True)
    with pytest.raises(ValueError, match="unknown layout 'tnc': choose one of ntc, nct"):
        read_sequences(X, Columns(layout="tnc"))


@pytest.mark.parametrize("others", [0, 3])
def test_a_sequence_without_values_is_an_error_whatever_the_others_are(others):
    X = np.r_[np.ones((others, 4)), np.full((1, 4), np.nan)]
    with pytest.raises(ValueError, match=f"sequence {others} has no values, all are missing: remove it"):
        read_sequences(X, Columns())
    long = pandas.DataFrame({"id": np.repeat([f"s{own}" for own in range(others + 1)], 4), "v": X.ravel()})
    with pytest.raises(ValueError, match=f"sequence 's{others}' has no values"):
        read_sequences(long, Columns("id"))
    assert len(read_sequences(X, SINGLE)) == others + 1  # a forecaster skips it


@pytest.mark.parametrize("estimator", [CoRNNClassifier(neurons=64), CoRNNForecaster()])
def test_a_feature_without_values_gives_a_warning(estimator):
    X = np.random.default_rng(0).normal(size=(6, 9, 3))
    X[:, :, 1] = np.nan
    y = () if isinstance(estimator, CoRNNForecaster) else ([0, 1] * 3,)
    if y:  # without values it cannot be forecast
        with pytest.warns(UserWarning, match="the training data have no values of feature 1: leave it out"):
            assert len(estimator.fit(X, *y).predict(X)) == 6
    frames = [pandas.DataFrame(own, columns=["a", "b", "c"]) for own in X]
    with pytest.warns(UserWarning, match="no values of feature 'b'"):
        estimator.set_params(**({} if y else {"targets": [0]})).fit(frames, *y)
    X[3, :4, 1] = 1.0
    estimator.fit(X, *y)


def test_a_frame_of_steps_without_dates_is_not_taken_for_series():
    steps = pandas.DataFrame({"a": np.arange(80.0), "b": np.arange(80.0)})
    with pytest.raises(ValueError, match=r"shape \(80, 2\) without dates: pass X.to_numpy\(\)\[None\] for one series"):
        read_sequences(steps, SINGLE)
    assert len(read_sequences(steps.T, SINGLE)) == 2  # more steps than series
    assert len(read_sequences(steps.set_index(np.array([f"s{own}" for own in range(80)])), SINGLE)) == 80
    assert len(read_sequences(steps, Columns())) == 80  # no forecast: a row is a sequence


@pytest.mark.parametrize("ids", [["a", None, "b"], [1.0, np.nan, 2.0], pandas.Series(["a", pandas.NA, "b"])])
def test_a_row_without_an_id_is_named(ids):
    frame = pandas.DataFrame({"id": ids, "v": [1.0, 2.0, 3.0]})
    with pytest.raises(ValueError, match="column 'id', row 1: the id is missing: fill it in, or remove the row"):
        read_sequences(frame, Columns(id="id"))


@pytest.mark.parametrize(
    "times",
    [
        [1.0, np.nan, 3.0],
        ["2020-01-01", None, "2020-01-03"],
        pandas.to_datetime(["2020-01-01", None, "2020-01-03"]),
        pandas.to_timedelta([1, None, 3], unit="s"),
    ],
    ids=["numbers", "text", "dates", "durations"],
)
def test_a_row_without_a_time_is_named(times):
    frame = pandas.DataFrame({"id": [1, 1, 1], "at": times, "v": [1.0, 2.0, 3.0]})
    with pytest.raises(ValueError, match="column 'at', row 1: the time is missing: fill it in, or remove the row"):
        read_sequences(frame, Columns(id="id", time="at"))


def test_ids_of_several_types_are_an_error():
    frame = pandas.DataFrame({"id": ["a", 1, "b"], "v": [1.0, 2.0, 3.0]})
    with pytest.raises(ValueError, match="column 'id' contains both strings and other types: convert them"):
        read_sequences(frame, Columns(id="id"))


@pytest.mark.parametrize("container", [lambda X: X, list])
def test_masked_values_are_missing(container):
    X = np.ma.masked_equal(np.arange(6).reshape(2, 3), 4)
    found = read_sequences(container(X), Columns())
    np.testing.assert_array_equal([own.values[:, 0] for own in found], [[0, 1, 2], [3, np.nan, 5]])


def test_tensors_of_every_type():
    X = torch.arange(6.0, requires_grad=True).reshape(2, 3)
    for own in (X, X.bfloat16(), X.int()):
        for given in (own, list(own)):
            assert read_sequences(given, Columns())[1].values.tolist() == [[3], [4], [5]]


@pytest.mark.parametrize("missing", [None, np.nan, pandas.NA])
def test_a_sequence_without_a_target_is_named(missing):
    frame = pandas.DataFrame({"id": [1, 1, 2], "v": [1.0, 2.0, 3.0], "kind": ["a", "a", missing]})
    with pytest.raises(ValueError, match="column 'kind', row 2: the target is missing: fill it in, or remove the row"):
        read_target(frame, "kind", "id")


def test_a_target_for_some_of_the_ids_is_an_error():
    frame = pandas.DataFrame({"id": [3, 3, 5, 5], "value": 1.0})
    with pytest.raises(ValueError, match="the index of y has no target for sequence 5: index y by the ids"):
        read_target(frame, pandas.Series([1, 0], index=[3, 7]), "id")
    for index in ([0, 1], ["a", "b"]):  # as pandas numbers rows, or of something else: in order of the ids
        assert read_target(frame, pandas.Series([1, 0], index=index), "id").tolist() == [1, 0]
    frame["id"] = [1, 1, 2, 2]
    assert read_target(frame, pandas.Series([1, 0]), "id").tolist() == [1, 0]


def test_a_column_of_targets_belongs_to_the_rows():
    frame = pandas.DataFrame({"id": [2, 2, 0, 0, 1, 1], "value": 1.0, "kind": ["a", "a", "b", "b", "c", "c"]})
    later = frame[frame["id"] < 2]
    assert read_target(frame, frame["kind"], "id").tolist() == ["a", "b", "c"]  # not the rows 2, 0 and 1
    assert read_target(later, later["kind"], "id").tolist() == ["b", "c"]
    frame.loc[3, "kind"] = "a"
    with pytest.raises(ValueError, match="y changes within sequence 0: a target must be constant per sequence"):
        read_target(frame, frame["kind"], "id")


@pytest.mark.parametrize("labels", [["a", None, "b"], pandas.array([1, None, 2]), [0.0, np.nan, 1.0]])
def test_a_label_that_is_missing_is_named(labels):
    with pytest.raises(ValueError, match="y, sequence 1: the label is missing: fill it in, or remove the sequence"):
        CoRNNClassifier().fit(np.ones((3, 4)), labels)


@pytest.mark.parametrize("missing", [None, np.nan, pandas.NA])
def test_a_list_of_numbers_may_have_missing_ones(missing):
    (found,) = read_sequences([1, missing, 3.0], SINGLE)
    np.testing.assert_array_equal(found.values[:, 0], [1, np.nan, 3])


def test_texts_in_the_index_that_look_like_dates_are_an_error():
    series = pandas.Series([1.0, 2.0, 3.0], ["2020-01-01", "2020-01-02", "2020-01-09"])
    with pytest.raises(ValueError, match=r"the index of X looks like dates .* X.set_axis\(pandas.to_datetime"):
        read_sequences(series, SINGLE)


def test_a_date_that_is_missing_in_the_index_is_named():
    series = pandas.Series([1.0, 2.0, 3.0], pandas.to_datetime(["2020-01-01", None, "2020-01-03"]))
    with pytest.raises(ValueError, match="the index of X has no date in row 1: fill it in, or remove the row"):
        read_sequences(series, SINGLE)


@pytest.mark.parametrize(
    "times",
    [
        DAYS.to_numpy(),
        DAYS.tz_localize("UTC"),
        DAYS.to_period(),
        DAYS.to_pydatetime().tolist(),
        DAYS.strftime("%Y-%m-%d").tolist(),
    ],
    ids=["datetime64", "zone", "periods", "datetime", "text"],
)
def test_times_of_a_series_are_dates_of_any_kind(times):
    (found,) = read_sequences([Series([1.0, 2.0, 3.0], times)], Columns())
    assert found.gaps[1:].tolist() == [86400, 86400]


def test_periods_and_numbers_may_be_the_dates_of_rows():
    days = pandas.period_range("2026-01-30", periods=3)
    for times in (days, days.strftime("%Y%m%d"), days.strftime("%Y%m%d").astype(int)):
        frame = pandas.DataFrame({"id": "a", "day": times, "value": [1.0, 2.0, 3.0]})
        (found,) = read_sequences(frame, Columns(id="id", time="day"))
        assert found.gaps[1:].tolist() == [86400, 86400]


def test_a_frame_without_features_is_an_error():
    with pytest.raises(ValueError, match="the DataFrame has no feature columns next to 'id': add them"):
        read_sequences(pandas.DataFrame({"id": [1, 2]}), Columns(id="id"))


def test_dates_with_and_without_a_time_zone_are_an_error():
    days = ["2026-01-01T00:00+01:00", "2026-01-02T00:00+01:00", "2026-01-03"]
    error = "'2026-01-03' has no time zone, but '2026-01-01T00:00.01:00' has one: write all dates with a time zone"
    with pytest.raises(ValueError, match=f"sequence 0, step 2: {error}"):
        read_sequences([Series(np.arange(3.0), np.array(days))], Columns())
    frame = pandas.DataFrame({"who": [1] * 3, "day": days, "v": range(3)})
    with pytest.raises(ValueError, match=f"column 'day', row 2: {error}"):
        read_sequences(frame, Columns("who", "day"))
    mixed = [pandas.Timestamp("2026-01-01"), pandas.Timestamp("2026-01-02", tz="UTC")]
    with pytest.raises(ValueError, match=r"row 1: '2026-01-02 00:00:00.00:00' has a time zone, but .* has none"):
        read_sequences(frame[:2].assign(day=pandas.Series(mixed, dtype=object)), Columns("who", "day"))
    dates = pandas.date_range("2026", periods=4)
    past, future = pandas.Series(range(3), dates[:3]), pandas.DataFrame({"v": [1]}, dates[3:].tz_localize("UTC"))
    with pytest.raises(ValueError, match=r"the index of future: .* has a time zone, but .* has none"):
        check_future_dates(past, future)


@pytest.mark.parametrize("wrap", [lambda own: own, lambda own: own["v"], Series], ids=["frame", "series", "Series"])
@pytest.mark.parametrize("columns", [SINGLE, Columns()], ids=["forecasts", "classes"])
def test_texts_in_the_index_of_a_list_are_dates(columns, wrap):
    days = pandas.date_range("2026-01-30", periods=4)
    local = pandas.date_range("2026-03-27", periods=4, tz="Europe/Berlin")  # the clocks change
    even = [wrap(dated(np.arange(4.0), own)) for own in (days.strftime("%Y-%m-%d"), days.date, local.map(str))]
    assert [own.gaps for own in read_sequences(even, columns)] == [None] * 3
    months = ["2026-01", "2026-02", "2026-04"]
    one, other, third = read_sequences(
        [wrap(dated(np.arange(float(len(own))), own)) for own in (days[[0, 1, 3]].strftime("%Y-%m-%d"), months, days)],
        columns,
    )
    assert one.gaps[1:].tolist() == [86400, 2 * 86400]
    assert other.gaps[2] == 2 * other.gaps[1]
    assert third.gaps[1:].tolist() == [86400] * 3

    plain = [wrap(dated(np.arange(3.0), own)) for own in (["a", "b", "c"], ["0", "1", "2"], [("a", 1), ("a", 2), "b"])]
    assert [own.gaps for own in read_sequences(plain, columns)] == [None] * 3
    for texts, problem in (
        (["2026-01-30", "2026-01-31", "sum"], r"1 has 'sum' in row 2, which is not a date like '2026-01-30' in row 0"),
        (["2026-01-30", "", "2026-02-01"], r"1 has '' in row 1, which is not a date .*reset_index\(drop=True\)"),
        (["20260130", "20260131"], r"1 contains texts such as '20260130', which may be dates or .*pandas.to_datetime"),
        (["2026-01-31", "2026-01-30"], "1: times must increase, but step 1 is at 2026-01-30 after 2026-01-31"),
        (["2026-01-31", "2026-02-01T00:00Z"], "1, row 1: '2026-02-01T00:00Z' has a time zone"),
    ):
        with pytest.raises(ValueError, match=f"the index of sequence {problem}"):
            read_sequences([even[0], wrap(dated(np.arange(float(len(texts))), texts))], columns)


def test_a_classifier_reads_texts_in_the_index_like_dates():
    random = np.random.default_rng(0)
    days = pandas.date_range("2026-01-30", periods=20)[np.delete(np.arange(20), [4, 5, 11])]
    values, labels = random.normal(size=(12, 17)), np.arange(12) % 2
    dates = [dated(own, days) for own in values]
    texts = [dated(own, days.strftime("%Y-%m-%d")) for own in values]
    fitted = CoRNNClassifier(neurons=16, random_state=0).fit(texts, labels)
    expected = CoRNNClassifier(neurons=16, random_state=0).fit(dates, labels).predict_proba(dates)
    np.testing.assert_array_equal(fitted.predict_proba(texts), expected)
    np.testing.assert_array_equal(fitted.predict_proba(dates), expected)


def test_hours_with_a_gap_may_be_repeated_by_the_clocks():
    hours = pandas.date_range("2026-10-24", periods=48, freq="h", tz="Europe/Berlin")  # 02:00 comes twice
    for index in (hours.delete(5), hours.delete(5).map(str)):
        (found,) = read_sequences([dated(np.arange(47.0), index)], Columns())
        np.testing.assert_array_equal(found.gaps[1:], [*[3600] * 4, 7200, *[3600] * 41])
