"""The pool of forecasters: accuracy, intervals, covariates, gaps, uneven times, streams, saving."""

import numpy as np
import pandas as pd
import pytest
import torch

from cornn import CoRNN
from cornn.estimators import CoRNNForecaster, Series, forecast_pool, load
from cornn.estimators.series import SequenceData
from cornn.forecasting import detect_periods, scores
from cornn.forecasting.series import fill_gaps, regular_steps


def monthly(length=144, seed=0, noise=0.03):
    random = np.random.default_rng(seed)
    time = np.arange(length)
    return 100 * np.exp(0.01 * time + 0.3 * np.sin(2 * np.pi * time / 12) + noise * random.normal(size=length))


def rmse(truth, found):
    return np.sqrt(np.mean(np.square(truth - found)))


def test_it_is_far_better_than_seasonal_naive():
    series = monthly()
    fitted = CoRNNForecaster(horizon=12).fit(series[None, :132])
    assert fitted.method_ == "pool"
    assert fitted.models_[0].pool.periods == (12,)
    found = fitted.predict(series[None, :132])
    assert found.shape == (1, 12)
    assert rmse(series[132:], found[0]) < 0.5 * rmse(series[132:], series[120:132])


@pytest.mark.parametrize("period", [4, 7, 12, 24, 52])
def test_a_season_is_detected(period):
    random = np.random.default_rng(period)
    wave = random.normal(size=period)
    values = np.tile(wave, 8) + 0.3 * random.normal(size=8 * period) + 0.05 * np.arange(8 * period)
    assert detect_periods(values) == [period]


@pytest.mark.parametrize(
    ("minutes", "seasons"),
    [
        (1, ("hour", "day")),
        (5, ("day", "week")),
        (15, ("day", "week")),
        (30, ("day", "week")),
        (60, ("day", "week")),
        (1440, ("week", "year")),
        (7 * 1440, ("year",)),
        (30.4 * 1440, ("year",)),
        (91.3 * 1440, ("year",)),
    ],
)
def test_dates_suggest_seasons(minutes, seasons):
    lengths = {"hour": 60, "day": 1440, "week": 7 * 1440, "year": 365 * 1440}
    assert forecast_pool._hints(60.0 * minutes) == tuple(round(lengths[name] / minutes) for name in seasons)


def test_the_index_of_a_series_suggests_seasons():
    random = np.random.default_rng(3)
    series = 10 + np.sin(np.arange(60) * 2 * np.pi / 7) + 0.9 * random.normal(size=60)
    days = pd.date_range("2024-01-01", periods=60)

    def periods(X):
        return CoRNNForecaster(candidates=["seasonal naive", "mean"]).fit(X).models_[0].pool.periods

    assert periods(series) == ()
    assert periods([Series(series, 86400.0 * np.arange(60))]) == (7,)
    for index in (days, days.to_period(), days.tz_localize("Europe/Berlin")):
        assert periods(pd.Series(series, index)) == (7,)
    assert periods(pd.DataFrame({"sold": series}, days)) == (7,)


def test_noise_and_random_walks_have_no_season():
    random = np.random.default_rng(0)
    found = [detect_periods(random.normal(size=200)) for _ in range(20)]
    found += [detect_periods(np.cumsum(random.normal(size=200))) for _ in range(20)]
    assert sum(map(bool, found)) <= 1


def test_a_stream_forecasts_what_predict_forecasts():
    series = monthly(60)
    series[[20, 21, 40]] = np.nan
    fitted = CoRNNForecaster(horizon=4).fit(series[None])
    stream, every = fitted.stream(), fitted.predict_every_step(series[None])[0]
    for step, value in enumerate(series):
        found = stream(value)
        np.testing.assert_allclose(found, every[step], rtol=1e-9)
        if step in (0, 5, 23, 24, 30, 59):
            np.testing.assert_allclose(found[:, 0], fitted.predict(series[None, : step + 1])[0], rtol=1e-9)
    again = fitted.stream()
    for kind in (bytes, bytearray, memoryview):
        again.reset()
        again.restore(kind(stream.to_bytes()))
        np.testing.assert_array_equal(again.forecast(), stream.forecast())
    with pytest.raises(ValueError, match="not a stream's state"):
        again.restore(b"nothing")
    with pytest.raises(ValueError, match="not the state of a forecaster's stream: 'rows' is missing"):
        again.restore(CoRNN(1, 2).stream().to_bytes())
    with pytest.raises(TypeError, match="a stream's state is bytes, got str"):
        again.restore("nothing")


def test_a_stream_with_gaps_forecasts_what_predict_forecasts():
    series, times = monthly(80), np.delete(np.arange(80.0), [5, 20, 21, 22, 50])
    series = series[times.astype(int)]
    fitted = CoRNNForecaster(horizon=4).fit([Series(series, times)])
    stream = fitted.stream()
    for step, (value, gap) in enumerate(zip(series, np.diff(times, prepend=np.nan), strict=True), 1):
        found = stream(value, gap)
        if step in (1, 5, 6, 18, 19, len(times)):
            expected = fitted.predict([Series(series[:step], times[:step])])[0]
            np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_times_that_cannot_be_are_errors_of_streams():
    series = monthly(40)
    timed, untimed = CoRNNForecaster().fit([Series(series, np.arange(40.0))]).stream(), CoRNNForecaster().fit(series)
    with pytest.raises(ValueError, match="fitted without times: omit timespan"):
        untimed.stream()(1.0, timespan=2.0)
    timed(1.0)
    for wrong in (-1.0, np.inf):
        with pytest.raises(ValueError, match="timespan must be finite and not negative"):
            timed(1.0, timespan=wrong)
    with pytest.raises(ValueError, match="span 1,000,000,001 steps of 1, the median time between samples"):
        timed.score(1.0, timespan=1e9)


def test_a_series_of_gaps_is_an_error():
    series = Series(monthly(40), np.append(np.arange(39.0), 1e9))
    with pytest.raises(ValueError, match=r"40 samples span .* steps of 1, .* before and after a long gap"):
        CoRNNForecaster().fit([series])


def test_an_unusual_sample_has_a_small_p_value():
    series = monthly(144)
    fitted = CoRNNForecaster(horizon=3).fit(series[None, :120])
    stream = fitted.stream()
    usual = [stream.score(value) for value in series]
    assert np.isnan(usual[0])
    assert 0.3 < np.mean(usual[60:]) < 0.8
    assert stream.score(3 * series[-1]) < 0.02
    assert np.isnan(stream.score(np.nan))


def test_p_values_are_even_until_the_series_changes():
    found = []
    for seed in range(3):
        series = np.random.default_rng(seed).normal(size=260)
        fitted = CoRNNForecaster(candidates=["mean", "smoothing"]).fit(series[:200])
        assert len(fitted.models_[0].errors.first) == 120
        stream = fitted.stream()
        found += [stream.score(value) for value in series][200:]
        assert stream.score(8.0) < 0.01
    for level in (0.1, 0.5, 0.9):
        assert abs(np.mean(np.array(found) <= level) - level) < 0.12  # three standard deviations of 180 values


@pytest.mark.parametrize("length", [2, 4, 8])
def test_a_handful_of_values_has_intervals_of_their_size(length):
    inside, widths = [], []
    for seed in range(10):
        series = 50 + np.random.default_rng(seed).normal(size=length + 1)
        low, high = CoRNNForecaster().fit(series[:-1]).predict_interval(series[:-1])
        inside.append(low[0] <= series[-1] <= high[0])
        widths.append(high[0] - low[0])
    assert np.mean(inside) >= 0.6
    assert 1 < np.median(widths) < 20


def test_intervals_cover_later_values():
    inside = []
    for seed in range(12):
        series = monthly(156, seed, noise=0.05)
        fitted = CoRNNForecaster(horizon=12).fit(series[None, :120])
        for origin in (120, 132, 144):
            low, high = fitted.predict_interval(series[None, :origin], level=0.9)
            assert (low <= fitted.predict(series[None, :origin])).all()
            inside.append((series[origin : origin + 12] >= low[0]) & (series[origin : origin + 12] <= high[0]))
    assert 0.85 < np.mean(inside) < 0.97
    quantiles = fitted.predict_quantiles(series[None], (0.1, 0.5, 0.9))
    assert (np.diff(quantiles, axis=0) >= 0).all()
    with pytest.raises(ValueError, match="level must be above 0"):
        fitted.predict_interval(series[None], level=90)


def test_forecasts_are_cut_off_at_0_only_if_no_value_is_negative():
    random = np.random.default_rng(0)
    counts = random.poisson(0.4, 80).astype(float)
    fitted = CoRNNForecaster(horizon=3).fit(counts)
    assert (fitted.predict_quantiles(counts, (0.01, 0.5)) >= 0).all()
    below = counts - 100
    assert (fitted.predict(below) < -90).all()
    low, high = fitted.predict_interval(below)
    assert ((low < -90) & (high < -90) & (low < high)).all()
    # The limit ends with the first negative value, at every step as in a stream.
    mixed = np.r_[counts[:40], np.nan, below[41:]]
    stream, every = fitted.stream(), fitted.predict_every_step(mixed)[0]
    np.testing.assert_allclose([stream(value) for value in mixed], every, rtol=1e-9)
    assert (every[:41] >= 0).all()
    assert (every[-20:] < 0).all()


def test_what_is_known_in_advance_is_used():
    random = np.random.default_rng(1)
    holiday = (random.random(160) < 0.2).astype(float)
    sales = 20 + np.sin(2 * np.pi * np.arange(160) / 7) + 5 * holiday + 0.2 * random.normal(size=160)
    X = np.stack([sales, holiday], 1)[None]
    with_it = CoRNNForecaster(horizon=10, targets=[0], known_future=[1]).fit(X[:, :150])
    without = CoRNNForecaster(horizon=10, targets=[0]).fit(X[:, :150])
    found = with_it.predict(X[:, :150], future=holiday[None, 150:])
    assert rmse(sales[150:], found[0, :, 0]) < 0.5 * rmse(sales[150:], without.predict(X[:, :150])[0, :, 0])
    gone = X.copy()
    gone[0, 150:, 0] = np.nan
    np.testing.assert_array_equal(with_it.predict(gone), found)
    with pytest.raises(ValueError, match=r"no rows for the steps to forecast: append 10 rows .*, or pass `future`"):
        with_it.predict(X[:, :150])
    with pytest.raises(ValueError, match=r"expected .* = \(1, 10, 1\)"):
        with_it.predict(X[:, :150], future=holiday[None, 155:])


def test_forecasts_follow_the_last_row_also_if_its_target_is_missing():
    line = np.arange(63.0)
    ended = np.r_[line[:57], [np.nan] * 3]
    fitted = CoRNNForecaster(horizon=3).fit(line[:60])
    frame = pd.DataFrame({"shop": ["a"] * 60, "sales": ended})
    by_shop = CoRNNForecaster(horizon=3, id_column="shop").fit(frame)
    dated = pd.Series(ended, pd.date_range("2026", periods=60))
    for forecaster, X in ((fitted, ended), (fitted, dated), (by_shop, frame)):
        np.testing.assert_allclose(np.ravel(forecaster.predict(X)), line[60:])

    with_price = CoRNNForecaster(horizon=2, targets=[0], known_future=[1])
    with_price.fit(np.stack([line, line % 7], 1)[None, :60])
    X = np.stack([ended, line[:60] % 7], 1)[None]
    np.testing.assert_allclose(with_price.predict(X).ravel(), line[58:60])
    np.testing.assert_allclose(with_price.predict(X, future=line[None, 60:62] % 7).ravel(), line[60:62])


def test_rows_after_the_last_target_teach_nothing():
    series = monthly()
    fitted = CoRNNForecaster(horizon=6).fit(series)
    longer = CoRNNForecaster(horizon=6).fit(np.r_[series, [np.nan] * 30])
    np.testing.assert_array_equal(longer.predict_interval(series), fitted.predict_interval(series))


@pytest.mark.parametrize("horizon", [1, 4, 6])
def test_a_target_that_ends_before_another_is_forecast_from_its_own_end(horizon):
    line = np.arange(60.0)
    X = np.stack([2 * line + 5, 100 - line], 1)[None]
    fitted = CoRNNForecaster(horizon=horizon).fit(X)
    early = X.copy()
    early[0, 55:, 1] = np.nan
    later = np.arange(60, 60 + horizon)
    np.testing.assert_allclose(fitted.predict(early)[0], np.stack([2 * later + 5, 100 - later], 1))
    stream = fitted.stream()
    for sample in early[0]:
        forecast = stream(sample)
    np.testing.assert_allclose(forecast, fitted.predict(early)[0])
    np.testing.assert_allclose(fitted.predict_every_step(early)[0][-1], forecast)
    early[0, 2:, 1] = np.nan
    if horizon == 1:
        early = np.concatenate([early] * 3, 1)
        early[0, 2:, 1] = np.nan
        with pytest.raises(ValueError, match="the last 178 values of feature 1 in sequence 0 are missing"):
            fitted.predict(early)


def test_intervals_are_wider_after_missing_values():
    random = np.random.default_rng(0)
    X = np.cumsum(random.normal(size=(1, 400, 2)), 1)
    fitted = CoRNNForecaster(horizon=5).fit(X)
    early = X.copy()
    early[0, 388:, 1] = np.nan
    width, wider = (np.diff(fitted.predict_interval(own), axis=0)[0, 0] for own in (X, early))
    np.testing.assert_allclose(wider[:, 0], width[:, 0])
    assert (wider[:, 1] > 1.5 * width[-1, 1]).all()
    assert (np.diff(wider[:, 1]) > 0).all()
    near = early.copy()
    near[0, :, 1] = np.r_[X[0, :398, 1], [np.nan] * 2]
    whole = np.diff(fitted.predict_interval(X[:, :398]), axis=0)[0, 0, :, 1]
    np.testing.assert_allclose(np.diff(fitted.predict_interval(near), axis=0)[0, 0, :3, 1], whole[2:])


def test_gaps_are_steps_that_forecasts_look_ahead_in_training_too():
    random = np.random.default_rng(0)
    line = 0.5 * np.arange(120.0)
    line[10:-1][random.random(109) < 0.3] = np.nan
    fitted = CoRNNForecaster(horizon=3).fit(line)
    backtest = fitted.backtests_[0][0]
    assert not np.isnan(line[backtest.origins - 1]).any()
    np.testing.assert_allclose(fitted.predict(line), [60.0, 60.5, 61.0], atol=1e-3)
    # Forecasts that started from filled values missed the line by up to a step per missing value.
    assert fitted.models_[0].errors.spread.max() < 0.01
    assert np.diff(fitted.predict_interval(line), axis=0).max() < 0.01
    # What is missing counts as no forecast.
    assert fitted.models_[0].errors.independent < 0.8 * (120 - backtest.origins[0]) / 3


@pytest.mark.parametrize("horizon", [1, 2, 4])
def test_errors_of_sparse_values_are_about_those_of_complete_ones(horizon):
    walk = np.cumsum(np.random.default_rng(0).normal(size=240))
    sparse = np.full(240, np.nan)
    sparse[::3] = walk[::3]
    spreads = []
    for own in (sparse, walk):
        fitted = CoRNNForecaster(horizon=horizon).fit(own)
        spreads.append(fitted.models_[0].errors.spread * np.median(fitted.backtests_[0][0].scale))
    # Every third value is known: with a horizon of 1 or 2 none is known that soon after another.
    ratio = spreads[0] / spreads[1]
    assert ratio.min() > 0.6
    assert ratio.max() < 1.2


def test_a_season_that_is_too_long_for_a_series_fills_no_gaps():
    random = np.random.default_rng(0)
    series = random.normal(size=20).cumsum()
    series[[14, 15]] = np.nan
    long, none = (CoRNNForecaster(horizon=2, period=own).fit(series) for own in (12, 1))
    np.testing.assert_array_equal(long.predict_interval(series), none.predict_interval(series))


def test_a_missing_value_has_no_error_of_seasonal_naive():
    values = np.array([0.0, 1, 3, np.nan, np.nan, 3, 7])
    assert scores._seasonal_error(values, 1) == np.mean([1, 2, 0, 4])
    assert scores._seasonal_error(np.array([5.0, np.nan]), 1) == 5


def test_an_interval_contains_its_forecast():
    # Each jump is larger than the one before, so that all forecasts were too low.
    series = np.arange(40.0) ** 3
    fitted = CoRNNForecaster(horizon=3, candidates="last value").fit(series)
    found = fitted.predict(series)
    assert (fitted.predict_quantiles(series, 0.2) > found).all()
    for level in (0.1, 0.6, 0.95):
        low, high = fitted.predict_interval(series, level)
        np.testing.assert_array_equal(low, np.minimum(found, fitted.predict_quantiles(series, (1 - level) / 2)))
        assert (high > found).all()


@pytest.mark.parametrize("known", [False, True])
def test_intervals_have_the_limits_of_the_forecasts(known):
    random = np.random.default_rng(0)
    X = np.stack([random.normal(size=12), np.arange(12) % 2], 1)
    settings = {"targets": [0], "known_future": [1]} if known else {}
    fitted = CoRNNForecaster(horizon=6, **settings).fit(X[None] if known else X[:, 0])
    own, future = (X[None], {"future": np.zeros((6, 1))}) if known else (X[:, 0], {})
    low, high = (np.ravel(end) for end in fitted.predict_interval(own, 0.9999, **future))
    least, most = X[:, 0].min(), X[:, 0].max()
    np.testing.assert_allclose(low, least - 10 * (most - least))
    np.testing.assert_allclose(high, most + 10 * (most - least))
    gone = own.copy()
    gone[(0, -1, 0) if known else -1] = np.nan
    missing = fitted.predict(gone, **future)
    low, high = fitted.predict_interval(gone, 0.9999, **future)
    assert (low <= missing).all()
    assert (missing <= high).all()
    assert np.abs(low).max() < 11 * (most - least)


def test_the_future_is_read_by_the_names_of_its_columns():
    random = np.random.default_rng(1)
    frame = pd.DataFrame(random.normal(size=(60, 3)), columns=["sales", "holiday", "price"])
    frame["sales"] += 3 * frame["holiday"] - frame["price"]
    frame.index = pd.date_range("2020", periods=60)
    past, future = frame[:55], frame[55:][["price", "holiday"]]
    fitted = CoRNNForecaster(horizon=5, targets="sales", known_future=["holiday", "price"]).fit(past)
    expected = fitted.predict(past, future=future[["holiday", "price"]].to_numpy())
    np.testing.assert_array_equal(fitted.predict(past, future=future), expected)
    np.testing.assert_array_equal(fitted.predict(past, future=[future]), expected)
    stream = fitted.stream()
    for row in past.to_numpy():
        stream(row)
    np.testing.assert_allclose(stream.forecast(future), expected, rtol=1e-9)
    with pytest.raises(ValueError, match="future, no column 'price': the columns are holiday"):
        fitted.predict(past, future=future[["holiday"]])
    with pytest.raises(ValueError, match="a DataFrame of future has 4 rows, expected 5"):
        fitted.predict(past, future=future[:4])
    with pytest.raises(ValueError, match="contains infinity"):
        fitted.predict(past, future=np.full((5, 2), np.inf))
    for wrong in (np.ones((4, 2)), np.ones(5)):
        with pytest.raises(ValueError, match=r"future has shape .*, expected .* = \(1, 5, 2\)"):
            stream.forecast(wrong)
    with pytest.raises(ValueError, match="future is only for forecasters with known_future"):
        CoRNNForecaster().fit(past).stream()(past.to_numpy()[0], future=np.ones((1, 1)))


def test_what_leads_the_target_is_used():
    random = np.random.default_rng(2)
    lead = np.cumsum(random.normal(size=300))
    follow = np.concatenate([np.zeros(1), lead[:-1]]) + 0.1 * random.normal(size=300)
    X = np.stack([follow, lead], 1)[None]
    both = CoRNNForecaster(targets=[0]).fit(X[:, :250]).predict_every_step(X)[0][250:-1, 0, 0]
    alone = CoRNNForecaster().fit(X[:, :250, :1]).predict_every_step(X[:, :, :1])[0][250:-1, 0, 0]
    assert rmse(follow[251:], both) < 0.4 * rmse(follow[251:], alone)


def test_one_series_by_itself():
    series = monthly(60)
    expected = CoRNNForecaster(horizon=6).fit(series[None]).predict(series[None])[0]
    dates = pd.date_range("2020-01-01", periods=60, freq="MS")
    for own in (series, list(series), pd.Series(series, index=dates)):
        fitted = CoRNNForecaster(horizon=6, period=12).fit(own)
        assert fitted.predict(own).shape == (6,)
        assert fitted.predict_quantiles(own, (0.1, 0.9)).shape == (2, 6)
        assert np.isfinite(fitted.score(own))
        np.testing.assert_allclose(fitted.predict(own), expected, rtol=0.05)
    frame = pd.DataFrame({"a": series, "b": series[::-1]}, index=dates)
    assert CoRNNForecaster(horizon=6).fit(frame).predict(frame).shape == (6, 2)


def test_dates_of_several_series_are_read_like_those_of_one():
    days = pd.date_range("2026-01-01", periods=84)
    waves = np.sin(2 * np.pi * np.arange(84) / 7) + 0.1 * np.random.default_rng(0).normal(size=(2, 84))
    even = [pd.Series(own, days) for own in waves]
    gaps = [own.drop(days[[40, 61, 62]]) for own in even]
    missing = [own.where(own.index.isin(gaps[0].index)) for own in even]
    for training, other in ((even, gaps[:1]), (gaps, missing[:1])):
        fitted = CoRNNForecaster(horizon=5).fit(training)
        assert fitted.models_[0].pool.periods == (7,)
        np.testing.assert_allclose(fitted.predict(gaps), fitted.predict(missing), rtol=1e-9)
        np.testing.assert_array_equal(fitted.predict(other)[0, :, 0], fitted.predict(other[0]))
    rates = [
        pd.Series(own, pd.date_range("2026", periods=84, freq=freq)) for own, freq in zip(waves, "hD", strict=True)
    ]
    fitted = CoRNNForecaster(horizon=5).fit(rates)  # steps, as each of them is evenly spaced
    np.testing.assert_array_equal(fitted.predict(rates), fitted.predict(list(waves)))
    known = CoRNNForecaster(horizon=5, targets=[0], known_future=[1])
    frames = [pd.DataFrame({"v": own, "w": np.arange(84) % 7}).set_index(days) for own in waves]
    known.fit(frames)
    with pytest.raises(ValueError, match="future starts at 2026-01-01"):
        known.predict(frames, future=[own[:5] for own in frames])


def test_several_series_share_one_model():
    series = [factor * monthly(length, seed) for seed, (factor, length) in enumerate([(1, 60), (100, 80), (0.01, 72)])]
    fitted = CoRNNForecaster(horizon=6).fit([own[:-6] for own in series])
    found = fitted.predict([own[:-6] for own in series])
    for own, answer in zip(series, found, strict=True):
        assert rmse(own[-6:], answer[:, 0]) < 0.2 * own.mean()
    new = 7 * monthly(90, 9)
    assert rmse(new[-6:], fitted.predict([new[:-6]])[0, :, 0]) < 0.2 * new.mean()


@pytest.mark.parametrize("size", [1e-9, 1e-5, 1e5])
def test_a_series_is_forecast_alike_whatever_the_size_of_the_others(size):
    random = np.random.default_rng(0)
    wave = 10 + 2 * np.sin(2 * np.pi * np.arange(80) / 8) + 0.1 * random.normal(size=(3, 80))
    sizes = np.array([size, 1.0, 1.0])
    alike, apart = (CoRNNForecaster(horizon=4, period=8).fit(own) for own in (wave, wave * sizes[:, None]))
    for method in ("predict", "predict_interval"):
        expected, found = (np.asarray(getattr(own, method)(wave)) for own in (alike, apart))
        np.testing.assert_allclose(found, expected, rtol=1e-3)
        found = np.asarray(getattr(apart, method)(wave * sizes[:, None])) / sizes[:, None]
        np.testing.assert_allclose(found, expected, rtol=1e-3)


@pytest.mark.parametrize("settings", [{"period": 7}, {"hidden_size": 4, "epochs": 2, "random_state": 0}])
def test_new_dates_may_have_gaps_or_none_whatever_the_training_dates_had(settings, tmp_path):
    days = pd.date_range("2026-01-01", periods=70)
    even = pd.Series(np.sin(np.arange(70) * 2 * np.pi / 7) + 0.01 * np.arange(70), days)
    gaps = even.drop(days[[40, 61]])
    missing = even.where(even.index.isin(gaps.index))
    for training in (even, gaps):
        forecaster = CoRNNForecaster(horizon=3, **settings).fit(training)
        forecaster.save(tmp_path / "model.safetensors")
        for own in (forecaster, load(tmp_path / "model.safetensors")):
            assert np.isfinite(own.predict(gaps)).all()
            if own.method_ == "pool":
                np.testing.assert_allclose(own.predict(gaps), own.predict(missing), rtol=1e-9)
            assert own.predict(even[30:]).shape == (3,)
    hours = pd.Series(np.repeat(even.to_numpy(), 24), pd.date_range("2026-01-01", periods=70 * 24, freq="h"))
    (found,) = CoRNNForecaster(horizon=3, **settings).fit(even).validate_input(hours)
    assert len(found.values) == 71  # the last hour is the last step


def test_the_dates_of_the_future_are_those_after_the_series():
    days = pd.date_range("2026-01-01", periods=40)
    frame = pd.DataFrame({"sold": np.arange(40.0) % 7, "holiday": np.arange(40) % 3}, days)
    forecaster = CoRNNForecaster(horizon=2, targets="sold", known_future="holiday").fit(frame[:38])
    forecaster.predict(frame[:38], future=frame[38:])
    with pytest.raises(ValueError, match=r"future starts at 2026-02-07 .* but X ends at 2026-02-07"):
        forecaster.predict(frame[:38], future=frame[37:39])
    with pytest.raises(ValueError, match="the index of future: times must increase"):
        forecaster.predict_interval(frame[:38], future=frame[38:][::-1])
    gapped = frame.drop(index=days[20])  # with times
    for own in (forecaster, CoRNNForecaster(horizon=2, targets="sold", known_future="holiday").fit(gapped[:37])):
        own.predict(gapped[:37], future=frame[38:])
        with pytest.raises(
            ValueError, match=r"row 0 of future, 2026-02-09 .*, is 2 steps after the end of X, 2026-02-07"
        ):
            own.predict(gapped[:37], future=frame[38:].shift(freq="D"))
        with pytest.raises(
            ValueError, match=r"row 1 of future, 2026-02-10 .*, is 3 steps after the end of X, 2026-02-07"
        ):
            own.predict([frame[:38]], future=[frame[38:].set_axis(pd.to_datetime(["2026-02-08", "2026-02-10"]))])


def test_earlier_forecasts_do_not_depend_on_later_values():
    random = np.random.default_rng(0)
    series = np.exp(0.02 * np.arange(90) + 0.1 * random.normal(size=90))
    forecaster = CoRNNForecaster(horizon=2, candidates=["smoothing", "theta", "ridge on lags"]).fit(series)
    assert any(member.log and weight for member, weight in forecaster.models_[0].pool.weights.items())
    other = np.concatenate([series[:60], -series[60:]])  # has no logarithms at its end
    (found,), (expected,) = forecaster.predict_every_step([other]), forecaster.predict_every_step([series])
    np.testing.assert_array_equal(found[:60], expected[:60])
    for count in (60, 61, 75):
        np.testing.assert_allclose(found[count - 1], forecaster.predict([other[:count]])[0], rtol=1e-9)


def test_missing_values_and_uneven_times():
    series, random = monthly(200), np.random.default_rng(3)
    broken = series.copy()
    broken[random.random(200) < 0.15] = np.nan
    fitted = CoRNNForecaster(horizon=6).fit(broken[None, :190])
    assert rmse(series[190:196], fitted.predict(broken[None, :190])[0]) < 0.2 * series[190:].mean()
    days = np.cumsum(random.choice([28, 30, 31], 200)).astype(float)
    keep = random.random(200) > 0.1
    keep[[0, 189]] = True
    uneven = Series(series[:190][keep[:190]], days[:190][keep[:190]])
    fitted = CoRNNForecaster(horizon=6).fit([uneven])
    assert fitted.models_[0].pool.periods == (12,)
    assert rmse(series[190:196], fitted.predict([uneven])[0, :, 0]) < 0.2 * series[190:].mean()


def test_steps_of_uneven_times():
    np.testing.assert_array_equal(regular_steps(np.array([np.nan, 30, 31, 62, 28]), 30.0), [0, 1, 2, 4, 5])
    steps = regular_steps(np.diff([0, 0.4, 1.7, 2.1, 3.0, 5.5], prepend=np.nan), 1.0)
    assert (np.diff(steps) >= 0).all()
    assert steps[-1] in (5, 6)
    hours = regular_steps(np.array([np.nan, *[1.0] * 95]), 24.0)  # as of a model of days
    assert (hours[-1], np.bincount(hours).max()) == (4, 25)
    np.testing.assert_array_equal(fill_gaps(np.array([1.0, 2, np.nan, 4]), 1), [1, 2, 2, 4])
    np.testing.assert_array_equal(fill_gaps(np.array([1.0, 5, 2, np.nan, 3]), 2), [1, 5, 2, 6, 3])


@pytest.mark.parametrize(
    "series",
    [
        np.full(30, 5.0),
        np.zeros(30),
        np.array([1.0, 2.0]),
        np.array([3.0, 1.0, 2.0]),
        np.concatenate([np.zeros(25), [0, 3, 0, 0, 1]]),
        1e-13 * np.arange(1.0, 40),
        1e12 + np.arange(40.0),
        -np.arange(40.0),
    ],
    ids=["constant", "zero", "two", "three", "intermittent", "tiny", "large", "negative"],
)
def test_odd_series(series):
    fitted = CoRNNForecaster(horizon=1).fit(series[None])
    found = fitted.predict(series[None])
    assert np.isfinite(found).all()
    assert abs(found[0, 0] - series[-1]) <= 2 * np.ptp(series) + 1e-9 * abs(series[-1])
    assert np.isfinite(fitted.predict_interval(series[None])).all()


def test_what_is_saved_is_what_is_loaded(tmp_path):
    random = np.random.default_rng(4)
    X = np.stack([monthly(100), random.normal(size=100), random.normal(size=100)], 1)[None]
    fitted = CoRNNForecaster(horizon=5, targets=[0, 1], known_future=[2]).fit(X)
    fitted.save(tmp_path / "model.safetensors")
    again = load(tmp_path / "model.safetensors")
    future = np.zeros((1, 5, 1))
    np.testing.assert_array_equal(again.predict(X, future=future), fitted.predict(X, future=future))
    np.testing.assert_array_equal(again.predict_interval(X, future=future), fitted.predict_interval(X, future=future))
    assert again.get_params() == fitted.get_params()
    assert again.count_parameters() == fitted.count_parameters() > 0


def test_settings_that_do_not_go_together():
    series = monthly(40)[None]
    with pytest.raises(ValueError, match="`hidden_size` is an option of `method='network'`, not of `method='pool'`"):
        CoRNNForecaster(method="pool", hidden_size=4, epochs=2).fit(series)
    with pytest.raises(ValueError, match="`period` is an option of `method='pool'`, and `epochs` of"):
        CoRNNForecaster(period=12, epochs=2).fit(series)
    for period in ("12", 12.0):
        with pytest.raises(ValueError, match="period must be a positive integer, or two of them, got"):
            CoRNNForecaster(period=period).fit(series)
    with pytest.raises(ValueError, match="targets contains feature 0 twice: name it once"):
        CoRNNForecaster(targets=[0, 0]).fit(series)
    with pytest.raises(ValueError, match="unknown method 'arima'"):
        CoRNNForecaster(method="arima").fit(series)
    with pytest.raises(ValueError, match="unknown candidates"):
        CoRNNForecaster(candidates=["arima"]).fit(series)
    with pytest.raises(ValueError, match="`dropout` is an option of `method='network'`"):
        CoRNNForecaster(method="pool", dropout=0.2).fit(series)
    with pytest.raises(ValueError, match="levels must be above 0 and below 1, at least one"):
        CoRNNForecaster().fit(series).predict_quantiles(series, [])
    with pytest.raises(ValueError, match="the network forecasts no quantiles"):
        CoRNNForecaster(epochs=1, hidden_size=2).fit(series).predict_interval(series)
    with pytest.raises(ValueError, match="a pool of forecasters cannot be exported: fit with `method='network'`"):
        CoRNNForecaster().fit(series).output_spec()
    from cornn.export.load import wrap_model

    with pytest.raises(ValueError, match="a pool of forecasters cannot be exported"):
        wrap_model(CoRNNForecaster().fit(series))


def test_a_series_without_values_trains_nothing_and_has_no_forecast():
    X = np.stack([monthly(40), np.full(40, np.nan)])
    for settings in ({}, {"hidden_size": 4, "epochs": 1}):
        fitted = CoRNNForecaster(**settings).fit(X)
        assert np.isfinite(fitted.predict(X[:1])).all()
        for own in (X, X[1:]):
            with pytest.raises(ValueError, match=f"sequence {len(own) - 1} has no"):
                fitted.predict(own)


def test_one_value_where_several_are_possible():
    X = np.stack([monthly(60), np.arange(60) % 5], 1)[None]
    fitted = CoRNNForecaster(targets=0, known_future=1).fit(X)
    several = CoRNNForecaster(targets=[0], known_future=[1]).fit(X)
    found = fitted.predict_quantiles(X, 0.5, future=[0.0])
    np.testing.assert_array_equal(found, several.predict_quantiles(X, [0.5], future=[0.0])[0])
    with pytest.raises(ValueError, match="levels must be above 0"):
        fitted.predict_quantiles(X, 50)
    with pytest.raises(ValueError, match="targets is empty"):
        CoRNNForecaster(targets=[]).fit(X)


def test_a_score_uses_what_is_known_in_advance():
    random = np.random.default_rng(1)
    price = random.normal(size=80)
    X = np.stack([10 + 3 * price + 0.1 * random.normal(size=80), price], 1)[None]
    fitted = CoRNNForecaster(horizon=10, targets=0, known_future=1).fit(X[:, :70])
    assert fitted.score(X[:, :70], X[:, 70:, :1], future=price[70:]) > 0.9
    assert fitted.score(X[:, :70], X[0, 70:, 0], future=price[70:]) > 0.9
    with pytest.raises(ValueError, match=r"y has shape \(2,\), expected that of the forecasts, \(1, 10, 1\)"):
        fitted.score(X[:, :70], [1, 2], future=price[70:])
    with pytest.raises(ValueError, match="pass y too, or omit future"):
        fitted.score(X[:, :70], future=price[70:])


def test_a_table_of_series_has_one_shape_of_forecasts():
    table = np.stack([monthly(40), monthly(40, 1)])
    fitted = CoRNNForecaster(horizon=3).fit(table)
    expected = fitted.predict(table)
    assert expected.shape == (2, 3)
    for own in (torch.from_numpy(table), pd.DataFrame(table)):
        np.testing.assert_array_equal(fitted.predict(own), expected)
    assert fitted.predict(list(table)).shape == (2, 3, 1)
    assert fitted.predict(table[:, :, None]).shape == (2, 3, 1)
    long = pd.DataFrame({"id": np.repeat([0, 1], 40), "v": table.ravel()})
    assert CoRNNForecaster(horizon=3, id_column="id").fit(long).predict(long).shape == (2, 3, 1)


def test_a_column_is_not_a_series():
    with pytest.raises(ValueError, match=r"pass one series as an array \(time,\)"):
        CoRNNForecaster().fit(monthly(40)[:, None])


def test_one_rule_alone():
    series = monthly(60)
    np.testing.assert_array_equal(
        CoRNNForecaster(horizon=2, candidates="last value").fit(series).predict(series), [series[-1]] * 2
    )
    fitted = CoRNNForecaster(horizon=12, period=12, candidates=["seasonal naive"]).fit(series[None])
    np.testing.assert_array_equal(fitted.predict(series[None])[0], series[-12:])


def test_a_score_counts_steps_not_samples():
    series = monthly(120)
    keep = np.random.default_rng(0).random(120) > 0.25
    keep[[0, -1]] = True
    times = np.arange(120.0)
    broken = np.where(keep, series, np.nan)
    forecaster = CoRNNForecaster(horizon=3, period=12).fit([Series(series, times)])
    found = forecaster.score([Series(series[keep], times[keep])])
    every = forecaster.predict_every_step([Series(series[keep], times[keep])])[0][:, :, 0]
    steps = np.flatnonzero(keep)
    pairs = [(broken[step + ahead], row[ahead - 1]) for step, row in zip(steps, every, strict=True)
             for ahead in (1, 2, 3) if step + ahead < 120 and keep[step + ahead]]  # fmt: skip
    truth, forecasts = np.array(pairs).T
    total = np.square(truth - truth.mean()).sum()
    assert found == pytest.approx(1 - np.square(truth - forecasts).sum() / total)
    assert found > 0.5


def test_an_index_of_durations_is_read_like_one_of_dates():
    keep = np.ones(96, bool)
    keep[[20, 41, 42, 70]] = False
    dates = pd.date_range("2026-01-01", periods=96)
    frame = pd.DataFrame({"a": monthly(96), "b": np.arange(96) % 5.0}, index=dates)[keep]
    elapsed = frame.set_axis(frame.index - dates[0])
    settings = {"horizon": 3, "targets": ["a"], "known_future": ["b"]}
    future = pd.DataFrame({"b": [1.0, 2, 3]}, index=dates[:3] - dates[0] + pd.Timedelta(days=96))
    expected = CoRNNForecaster(**settings).fit(frame).predict(frame, future=future["b"].to_numpy())
    fitted = CoRNNForecaster(**settings).fit(elapsed)
    np.testing.assert_array_equal(fitted.predict(elapsed, future=future), expected)
    np.testing.assert_array_equal(fitted.predict([elapsed], future=[future])[0], expected)
    with pytest.raises(ValueError, match="future starts at 0 days 00:00:00, but X ends at 95 days 00:00:00"):
        fitted.predict(elapsed, future=future.set_axis(elapsed.index[:3]))
    with pytest.raises(ValueError, match="step 1 is at 94 days 00:00:00 after 95 days 00:00:00"):
        CoRNNForecaster(horizon=3).fit(elapsed["a"][::-1])


def test_a_network_learns_to_forecast_steps_not_samples():
    times, values = np.array([0.0, 1, 2, 5, 6, 7]), np.array([0.0, 1, 2, 5, 6, 7])
    fitted = CoRNNForecaster(horizon=2, **NETWORK).fit([Series(values, times)])
    gaps = np.diff(times, prepend=np.nan)
    pieces = fitted._pieces(SequenceData(values[:, None], gaps), fitted._layout())
    expected = [[1, 2], [2, np.nan], [np.nan, np.nan], [6, 7], [7, np.nan]]
    np.testing.assert_array_equal(pieces[0][1][:, :, 0], expected)
    targets, known = fitted._targets(pieces, fitted.preparation_)
    assert known[:, 0].tolist() == [[1, 1], [1, 0], [0, 0], [1, 1], [1, 0]]
    changes = targets[:, 0][known[:, 0] > 0] * fitted.preparation_.scale[0]
    np.testing.assert_allclose(changes, [1, 2, 1, 1, 2, 1], rtol=1e-6)


def test_scores_next_to_those_of_simple_rules():
    series = monthly(144)
    fitted = CoRNNForecaster(horizon=6).fit(series[None, :110])
    table = fitted.evaluate(series[None, :110], series[None], [110])[0]
    assert set(table.baselines) == {"last value", "seasonal naive", "ridge on lags"}
    assert table.baselines["seasonal naive"].mase < table.baselines["last value"].mase
    assert table.model.mase < table.baselines["seasonal naive"].mase
    assert table.model.pinball < table.baselines["seasonal naive"].pinball
    assert len(table.coverage) == 6
    assert 0.6 < table.pooled_coverage <= 1
    assert fitted.evaluate(series[:110], series, 110)[0] == table
    for wrong in ([110, 110], -1):
        with pytest.raises(ValueError, match="expected one step of each of 1 series, not negative"):
            fitted.evaluate(series[:110], series, wrong)


def test_a_fit_keeps_only_the_attributes_of_its_method():
    forecaster = CoRNNForecaster(horizon=2).fit(np.sin(np.arange(40)))
    assert hasattr(forecaster, "pools_")
    forecaster.set_params(hidden_size=4, epochs=1).fit(np.sin(np.arange(40)))
    assert not hasattr(forecaster, "pools_")
    assert hasattr(forecaster, "model_")


NETWORK = {"method": "network", "hidden_size": 8, "epochs": 3, "random_state": 0, "device": "cpu"}


def with_gaps():
    random = np.random.default_rng(0)
    time = np.arange(70)
    X = np.stack([np.sin(time / 5), np.cos(time / 7), random.normal(size=70)], 1)
    X[random.random(X.shape) < 0.2] = np.nan
    X[:3, 1] = np.nan  # no value so far
    X[50:54, 0] = X[52:63, 1] = np.nan  # longer than the horizon, and beside each other
    return X


def test_a_network_forecasts_missing_values_at_the_end_first():
    series = monthly(60)
    fitted = CoRNNForecaster(horizon=4, **NETWORK).fit(series)
    ended = np.r_[series[:50], [np.nan] * 6]
    first = fitted.predict(series[:50])
    second = fitted.predict(np.r_[series[:50], first])
    expected = fitted.predict(np.r_[series[:50], first, second[:2]])
    np.testing.assert_allclose(fitted.predict(ended), expected, rtol=1e-6)
    assert (np.abs(expected - fitted.predict(np.r_[series[:50], [series[49]] * 6])) > 1e-3).all()

    # A target is forecast from its own end, next to the known values of the other.
    X = np.stack([series, 5 + series[::-1]], 1)
    both = CoRNNForecaster(horizon=4, **NETWORK).fit(X[None])
    early, filled = X.copy(), X.copy()
    early[57:, 1] = np.nan
    filled[57:, 1] = both.predict(X[None, :57])[0, :3, 1]
    np.testing.assert_allclose(both.predict(early[None]), both.predict(filled[None]), rtol=1e-6)

    with pytest.raises(ValueError, match="the last 401 values of feature 0 in sequence 0 are missing, too many"):
        fitted.predict(np.r_[series, [np.nan] * 401])
    every = fitted.predict_every_step(np.r_[series, [np.nan] * 401][None])[0]
    assert np.isnan(every[-1]).all()
    assert np.isfinite(every[:-1]).all()


@pytest.mark.parametrize("complete", [True, False])
@pytest.mark.parametrize("targets", [[0], [1], [0, 1]])
def test_a_network_forecasts_from_every_step_and_in_streams_what_it_predicts(targets, complete):
    X = with_gaps()
    fitted = CoRNNForecaster(horizon=3, targets=targets, **NETWORK).fit(np.nan_to_num(X)[None] if complete else X[None])
    expected = np.stack([fitted.predict(X[None, :length])[0] for length in range(1, len(X) + 1)])
    np.testing.assert_allclose(fitted.predict_every_step(X[None])[0], expected, rtol=1e-6, atol=1e-9)
    stream = fitted.stream()
    for step, sample in enumerate(X):
        np.testing.assert_allclose(stream(sample), expected[step], rtol=1e-4, atol=1e-6)
        if step in (30, 52, 53, 58):
            state, stream = stream.to_bytes(), fitted.stream()
            stream.restore(state)
    stream.reset()
    np.testing.assert_allclose(stream(X[0]), expected[0], rtol=1e-4, atol=1e-6)


def test_times_in_another_unit_are_an_error():
    series = monthly(60)
    days = pd.date_range("2024-01-01", periods=60)
    fitted = CoRNNForecaster(horizon=3).fit([Series(series, days)])
    even = CoRNNForecaster(horizon=3).fit(pd.Series(series, days))
    for model, X in (
        (fitted, [Series(series[:8], np.arange(8))]),
        (fitted, [Series(series[:8], 1000 * 86400 * np.arange(8.0))]),
        (even, pd.Series(series[:8], pd.date_range("2024-01-01", periods=8, freq="s"))),
    ):
        with pytest.raises(ValueError, match=r"the median time between samples is .* same unit"):
            model.predict(X)
    hours = pd.date_range("2024-01-01", periods=72, freq="h")  # averaged over days
    assert np.isfinite(fitted.predict([Series(series[:1].repeat(72), hours)])).all()


@pytest.mark.parametrize("horizon", [1, 3])
def test_a_network_counts_steps_not_samples_in_a_missing_end(horizon):
    X, times = with_gaps(), 0.5 * np.arange(70)
    X[55:, 0] = np.nan
    fitted = CoRNNForecaster(horizon=horizon, targets=[0, 1], **NETWORK).fit([Series(X[:50], times[:50])])
    rows = np.r_[np.arange(56), 57, 61, 64, 65]  # steps without a sample
    X[np.setdiff1d(np.arange(70), rows)] = np.nan
    whole, dropped = Series(X[:66], times[:66]), Series(X[rows], times[rows])
    expected = fitted.predict_every_step([whole])[0][rows]
    np.testing.assert_allclose(fitted.predict([dropped])[0], expected[-1], rtol=1e-6)
    np.testing.assert_allclose(fitted.predict_every_step([dropped])[0], expected, rtol=1e-6)
    stream = fitted.stream()
    for step, (sample, gap) in enumerate(zip(X[rows], np.diff(times[rows], prepend=np.nan), strict=True)):
        np.testing.assert_allclose(stream(sample, gap), expected[step], rtol=1e-4, atol=1e-6)
        state, stream = stream.to_bytes(), fitted.stream()
        stream.restore(state)
    late = Series(np.r_[X[:50], [[np.nan] * 3]], np.r_[times[:50], times[50] + 51 * horizon])
    with pytest.raises(
        ValueError, match=rf"the last {102 * horizon + 1} values of feature 0 in sequence 0 are missing"
    ):
        fitted.predict([late])
    assert np.isnan(fitted.predict_every_step([late])[0][-1]).all()
    stream.reset()
    assert np.isnan(
        [stream(*pair) for pair in zip(late.values, np.diff(late.times, prepend=np.nan), strict=True)][-1]
    ).all()


def test_a_stream_of_a_network_gives_up_after_a_hundred_horizons():
    series = monthly(60)
    fitted = CoRNNForecaster(horizon=1, **NETWORK).fit(series)
    stream = fitted.stream()
    for sample in series:
        stream(sample)
    found = [stream(np.nan) for _ in range(101)]
    assert np.isfinite(found[99])
    assert np.isnan(found[100])
    np.testing.assert_allclose(stream(5.0), fitted.predict(np.r_[series, [np.nan] * 101, 5.0])[None], rtol=1e-4)
    state = stream.stream.to_bytes()  # as of an earlier version
    again = fitted.stream()
    again.restore(state)
    np.testing.assert_array_equal(again(np.nan), stream(np.nan))
    other = CoRNNForecaster(horizon=1, **NETWORK).fit(np.stack([series, series], 1)[None])
    with pytest.raises(ValueError, match=r"this stream expects|other features"):
        other.stream().restore(stream.to_bytes())


def test_a_network_is_not_trained_to_forecast_from_missing_values():
    fitted = CoRNNForecaster(horizon=2, **NETWORK).fit(monthly(30))
    for values, expected in (
        ([1.0, 2, np.nan, 4, 5], [[1, 0], [0, 1], [0, 0], [1, 0]]),
        # Otherwise nothing would be known one step ahead.
        ([1.0, np.nan, 3, np.nan, 5], [[0, 1], [1, 0], [0, 1], [1, 0]]),
    ):
        sequence = SequenceData(np.array(values)[:, None], None)
        _, known = fitted._targets(fitted._pieces(sequence, fitted._layout()), fitted.preparation_)
        assert known[:, 0].tolist() == [[float(own) for own in row] for row in expected]


@pytest.mark.parametrize("targets", [["v"], ["v", "w"]], ids=["with a covariate", "two targets"])
@pytest.mark.parametrize("several", [False, True], ids=["one series", "several"])
def test_rows_that_are_not_there_are_like_rows_without_values(targets, several):
    random = np.random.default_rng(0)
    full = []
    for length, phase in ((200, 0), (150, 3), (180, 5)):
        steps = np.arange(length)
        values = 10 + 3 * np.sin(2 * np.pi * (steps + phase) / 12) + random.normal(0, 0.3, length)
        frame = pd.DataFrame({"v": values, "w": random.normal(size=length)}, pd.date_range("2024", periods=length))
        missing = np.flatnonzero(random.random(length - 2) < 0.25) + 1
        frame.iloc[missing] = np.nan
        full.append(frame)
    dropped = [frame.dropna() for frame in full]
    pair = (full, dropped) if several else (full[0], dropped[0])
    filled, gapped = (CoRNNForecaster(horizon=6, targets=targets, random_state=0).fit(X) for X in pair)
    for ask in ("predict", "predict_interval", "predict_quantiles", "score"):
        answers = (getattr(model, ask)(X) for model, X in zip((filled, gapped), pair, strict=True))
        np.testing.assert_allclose(*answers, rtol=1e-10, err_msg=ask)
    for frame, every, other in zip(
        full, filled.predict_every_step(pair[0]), gapped.predict_every_step(pair[1]), strict=False
    ):
        np.testing.assert_allclose(every[frame["v"].notna()], other, rtol=1e-10)


def test_an_array_of_one_series_with_features_is_told_from_many_short_series():
    message = r"X has 200 series of 3 steps, too short for a horizon of 12: .* 3 features, pass X\[np.newaxis\]"
    with pytest.raises(ValueError, match=message):
        CoRNNForecaster(horizon=12).fit(np.random.default_rng(0).normal(size=(200, 3)))
