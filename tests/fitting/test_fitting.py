"""`cornn fit` and `cornn predict`: from a file to a model, a report and predictions, and what is said when it fails."""

import csv
import inspect
import io
import itertools
import json
import os
import re
import shutil
import signal
import sys
from contextlib import nullcontext
from dataclasses import fields
from datetime import date, timedelta

import numpy as np
import pandas
import pytest

from cornn._extras import install_command
from cornn.estimators import CoRNNClassifier, load
from cornn.fitting import FitOptions, fit_file, plan_fit, predict_file
from cornn.fitting.fit import Splits
from cornn.fitting.readers import Layout, read
from cornn.fitting.readers.table import Table
from cornn.fitting.summary import summarise

NETWORK = ("--hidden-size", "4", "--epochs", "1")
QUICK = ("--method", "network", "--hidden-size", "8", "--epochs", "4", "--device", "cpu", "--quiet")
STEPS = 12


def waves(count=40):
    random = np.random.default_rng(0)
    label = np.arange(count) % 2
    clock = np.arange(STEPS) * (0.3 + 0.6 * label[:, None]) + random.uniform(0, 6, (count, 1))
    return np.round(np.sin(clock) + 0.1 * random.normal(size=clock.shape), 4), label


def write_csv(path, header, rows):
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([header, *rows])


@pytest.fixture
def tables(tmp_path):
    """The same waves in wide and in long form, and one series."""
    X, y = waves()
    names = np.array(["slow", "fast"])[y]
    write_csv(
        tmp_path / "wide.csv",
        [*(f"t{k}" for k in range(STEPS)), "kind"],
        [[*a, b] for a, b in zip(X, names, strict=True)],
    )
    rows = [[f"p{i}", k, v, names[i], 10 * y[i] + 0.5] for i, own in enumerate(X) for k, v in enumerate(own)]
    write_csv(tmp_path / "long.csv", ["who", "at", "signal", "kind", "size"], rows)
    clock = np.arange(150)
    series = zip(clock, np.sin(clock * 0.3).round(4), np.cos(clock * 0.2).round(4), strict=True)
    write_csv(tmp_path / "series.csv", ["day", "sales", "price"], series)
    return tmp_path


def predictions(text):
    return list(csv.DictReader(io.StringIO(text)))


@pytest.mark.parametrize(
    ("table", "options", "exports"),
    [
        pytest.param("wide.csv", (), ["onnx"], marks=pytest.mark.slow),
        ("wide.csv", ("--causal",), ["onnx", "c"]),
        ("long.csv", ("--id", "who", "--time", "at", "--ignore", "size"), ["onnx"]),
        ("long.csv", ("--id", "who", "--time", "at", "--ignore", "size", *NETWORK), ["onnx"]),
    ],
    ids=["default", "causal", "with times", "network with times"],
)
def test_the_page_suggests_only_exports_that_work(cornn, tables, table, options, exports):
    neurons = () if options[-len(NETWORK) :] == NETWORK else ("--neurons", "64")
    arguments = ("--target", "kind", *neurons, "--device", "cpu", "--quiet", "--out", "here")
    code, _, error = cornn("fit", table, *options, *arguments)
    assert code == 0, error
    page = (tables / "here" / "report.html").read_text(encoding="utf8")
    assert re.findall(r"cornn export here --to (\w+)", page) == exports
    assert ("Values count relative to the mean" in page) == bool(neurons)
    assert ("Series(values, times)" in page) == ("import Series, load" in page) == ("--time" in options)


def test_a_wide_table_to_a_model_a_report_and_predictions(cornn, tables):
    settings = [word for word in QUICK if word != "--quiet"]
    code, out, _ = cornn("fit", "wide.csv", "--target", "kind", *settings, "--epochs", "60", "--out", "here")
    assert code == 0
    assert "wide.csv, one row per sequence" in out
    assert "40, 32 for training and 8 for the test" in out
    assert "kind, 2 classes" in out
    assert "true \\ predicted" in out
    assert re.search(r"\ntest accuracy .* % \(95 % interval .* % to .* %\) after 60 epochs and .* s, compared", out)
    assert "ridge on simple statistics: " in out
    assert "page: here/report.html" in out
    assert "for always predicting fast" in out
    folder = tables / "here"
    names = {
        "artifact.json",
        "config.json",
        "metrics.jsonl",
        "model.safetensors",
        "predictions.csv",
        "report.html",
        "result.json",
    }
    assert {path.name for path in folder.iterdir()} == names
    result = json.loads((folder / "result.json").read_text())
    assert result["test"] >= 0.75
    assert result["trivial"] == 0.5
    assert sum(map(sum, result["confusion"])) == 8
    assert len((folder / "metrics.jsonl").read_text().splitlines()) == 60
    page = (folder / "report.html").read_text()
    words_of_the_page = ("Data", "Confusion matrix", "Training loss", "proven bound", "Test accuracy", "precision")
    for words in (*words_of_the_page, "speaks for the predicted class", "Use this model"):
        assert words in page
    assert not re.search(r'(src|href)="(?!data:)', page)
    assert re.findall(r"cornn export here --to (\w+)", page) == ["onnx", "c"]

    code, out, _ = cornn("predict", "here", "wide.csv")
    assert code == 0
    rows = predictions(out)
    assert list(rows[0]) == ["row", "prediction", "chance of fast", "chance of slow"]
    again = load(folder / "model.safetensors")
    data = read(tables / "wide.csv", Layout(target=("kind",)))
    assert [row["prediction"] for row in rows] == again.predict(data.sequences).tolist()
    held_out = predictions((folder / "predictions.csv").read_text())
    assert np.mean([row["target"] == row["prediction"] for row in held_out]) == result["test"]


def test_a_long_table_with_times_and_data_without_a_target(cornn, tables):
    arguments = ("fit", "long.csv", "--target", "kind", "--id", "who", "--time", "at", "--ignore", "size")
    assert cornn(*arguments, *QUICK, "--no-report")[0] == 0
    with open(tables / "long.csv") as file:
        rows = [row[:3] for row in csv.reader(file)]
    write_csv(tables / "new.csv", rows[0], rows[1 : 1 + 3 * STEPS])
    code, out, err = cornn("predict", "runs/long-0001", "new.csv", "--out", "answers.csv")
    assert (code, out) == (0, "")
    assert "wrote 3 rows to answers.csv" in err
    answers = predictions((tables / "answers.csv").read_text())
    assert [row["who"] for row in answers] == ["p0", "p1", "p2"]
    code, _, err = cornn("predict", "runs/long-0001", "wide.csv")
    assert code == 2
    assert err.startswith("cornn: wide.csv has no column 'who'")


def test_numbers_are_regressed(cornn, tables):
    arguments = ("fit", "long.csv", "--target", "size", "--id", "who", "--time", "at", "--ignore", "kind")
    code, out, _ = cornn(*arguments, *QUICK, "--out", "here")
    assert code == 0
    assert "compared with" in out
    assert "for always predicting the mean" in out
    result = json.loads((tables / "here/result.json").read_text())
    assert "size: R²" in result["more"]
    assert "residuals" in (tables / "here/report.html").read_text()
    code, out, err = cornn("predict", "here", "long.csv", "--attributions", "why.csv")
    rows = predictions(out)
    assert len(rows) == 40
    assert all(np.isfinite(float(row["prediction"])) for row in rows)
    assert f"wrote {40 * STEPS} rows to why.csv" in err
    why = predictions((tables / "why.csv").read_text())
    assert list(why[0]) == ["who", "step", "signal"]
    assert [row["step"] for row in why[:STEPS]] == [str(step) for step in range(STEPS)]
    found = load(tables / "here/model.safetensors").attributions(
        read(tables / "long.csv", Layout(id="who", time="at", ignore=("size", "kind"))).sequences
    )
    np.testing.assert_allclose([float(row["signal"]) for row in why], found.ravel())


def test_several_targets_are_explained_by_the_first(cornn, tables):
    X, y = waves()
    np.savez(tables / "two.npz", X=X, y=np.stack([y + 0.5, 2.0 * y], 1))
    code, _, err = cornn("fit", "two.npz", "--target", "y", "--task", "regress", "--out", "two", "--quiet")
    assert code == 0, err
    page = (tables / "two/report.html").read_text()
    assert "Colours are those of the first target." in page
    assert all(f"y {number}: mean absolute error" in page for number in (1, 2))
    assert cornn("predict", "two", "two.npz", "--attributions", "why.csv")[0] == 0
    found = load(tables / "two/model.safetensors").attributions(X, target=0)
    why = predictions((tables / "why.csv").read_text())
    np.testing.assert_allclose([float(list(row.values())[2]) for row in why], found.ravel())


def test_a_series_is_forecast(cornn, tables):
    arguments = ("fit", "series.csv", "--target", "sales", "--time", "day", "--horizon", "3")  # --horizon: a forecast
    code, out, _ = cornn(*arguments, *QUICK, "--no-report", "--out", "here")
    assert code == 0
    assert "for repeating the last season" in out
    result = json.loads((tables / "here/result.json").read_text())
    assert len(result["ahead"]) == 3
    assert result["count"] == 30 + 29 + 28  # origins from the first test step on
    rows = predictions(cornn("predict", "here", "series.csv")[1])
    assert [list(rows[0]), len(rows)] == [["series", "step", "day", "sales"], 3]
    days = [int(row["day"]) for row in predictions((tables / "series.csv").read_text())]  # whole, as those of forecasts
    assert [row["day"] for row in rows] == [str(days[-1] + step) for step in (1, 2, 3)]
    found = load(tables / "here/model.safetensors")
    assert (found.targets_, found.n_features_in_) == ([0], 2)
    code, out, _ = cornn(
        "fit", "long.csv", "--task", "forecast", "--target", "signal", "--id", "who", "--ignore", "kind", "size", "at",
        *QUICK, "--no-report", "--json",
    )  # fmt: skip
    assert code == 0
    assert json.loads(out)["folder"] == "runs/long-0001"
    assert not (tables / "runs/long-0001/report.html").exists()


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        (["2023-11", "2023-12"], "2024-01"),
        (["Nov 2023", "Dec 2023"], "2024-01"),
        (["2023 Q3", "2023 Q4"], "2024 Q1"),
        (["2023-12-31", "2024-01-31"], "2024-02-29"),
        (["2024-01-30", "2024-01-31"], "2024-02-01"),
        (["2023-12-31 22:30", "2023-12-31 23:15"], "2024-01-01 00:00:00"),
        (["2023-12-31T22:30+0200", "2023-12-31T23:15+0200"], "2024-01-01 00:00:00+02:00"),
        (["2023-12-31T00:00+02:00", "2024-01-01T00:00+02:00"], "2024-01-02 00:00:00+02:00"),
        (["2023-12-01T00:00+02:00", "2024-01-01T00:00+02:00"], "2024-02-01 00:00:00+02:00"),
        (["2026-03-29T00:00+01:00", "2026-03-30T00:00+02:00"], "2026-03-30 23:00:00+02:00"),
        (["2026-03-01T00:00+01:00", "2026-04-01T00:00+02:00"], "2026-05-01 00:00:00+02:00"),
        (["20231231", "20240101"], "20240102"),
        ([20231231, 20240131], "20240229"),
        ([date(2024, 1, 30), date(2024, 1, 31)], "2024-02-01"),
        (["30.01.2024", "31.1.2024"], "01.02.2024"),
        (["31.12.2023", "31.01.2024"], "29.02.2024"),
        (["31.12.2023 22:30", "31.12.2023 23:15"], "01.01.2024 00:00"),
        (["31.12.2023 22:30:30", "31.12.2023 23:15:30"], "01.01.2024 00:00:30"),
        (["9999-12-30", "9999-12-31"], ""),
    ],
)
def test_a_later_date_is_written_like_those_of_the_file(times, expected):
    for sequences in (1, 2):  # each with these times
        numbers, calendar = Table("x.csv", {"t": times * sequences}, None).times("t")
        assert calendar is not None
        assert calendar.format(2 * numbers[1] - numbers[0]) == expected


def test_the_summary_of_several_series_in_an_array(cornn, tmp_path):
    np.savez(tmp_path / "four.npz", X=np.arange(120.0).reshape(4, 30, 1) % 7)
    out = cornn("fit", "four.npz", "--horizon", "2", "--dry-run")[1]
    assert re.search(r"sequences:? +4", out)
    assert "one series" not in out


def test_a_feature_without_values_in_new_data_is_named(cornn, tmp_path):
    rows = [[k // 5, k % 7, k % 3, "xy"[k // 5 % 2]] for k in range(100)]
    write_csv(tmp_path / "data.csv", ["id", "a", "b", "kind"], rows)
    write_csv(tmp_path / "new.csv", ["id", "a", "b"], [[*row[:2], ""] for row in rows[:10]])
    arguments = ("--target", "kind", "--id", "id", "--neurons", "64", "--quiet", "--no-report", "--out", "here")
    assert cornn("fit", "data.csv", *arguments)[0] == 0
    with pytest.warns(UserWarning, match=r"new.csv: all values of b are missing: the predictions do without them"):
        assert predict_file(tmp_path / "here", tmp_path / "new.csv").rows


@pytest.mark.parametrize("known_in", ["a test sequence", "the training data", "nothing"])
def test_a_column_may_have_no_values_in_a_part_of_the_data(tmp_path, known_in):
    def write(name, known):
        rows = [[k // 5, k % 7, k % 3 if known(k) else "", "xy"[k // 5 % 2]] for k in range(100)]
        write_csv(tmp_path / name, ["id", "a", "b", "kind"], rows)
        return tmp_path / name

    data = write("data.csv", lambda k: known_in == "the training data")
    options = {"settings": {"neurons": 64}, "out": tmp_path / "here", "report": False}
    if known_in == "a test sequence":
        splits = plan_fit(data, FitOptions(target="kind", id="id", ignore=("b",))).splits
        assert splits.test is not None
        write("data.csv", lambda k: k // 5 == int(splits.test.ids[0]))
    elif known_in == "the training data":
        options["test"] = write("other.csv", lambda k: False)
    else:
        options["values"] = ("a", "b")
    warned = pytest.warns(UserWarning, match="the training data have no values of feature 'b': leave it out")
    with nullcontext() if known_in == "the training data" else warned:
        fitted = fit_file(data, target="kind", id="id", **options)
    assert fitted.evaluation is not None


def test_a_column_without_values_in_the_test_part(cornn, tables):
    rows = [[k % 7, k % 5 if k < 70 else "", k % 3] for k in range(100)]
    write_csv(tables / "late.csv", ["a", "b", "c"], rows)
    assert cornn("fit", "late.csv", "--task", "forecast", *QUICK, "--no-report", "--out", "here")[0] == 0
    result = json.loads((tables / "here/result.json").read_text(), parse_constant=pytest.fail)
    assert {name[0] for name in result["table"]} == {"a", "c"}


def test_numbers_that_are_not_finite_are_null():
    from cornn.fitting import folder

    assert folder._replace_non_finite({"a": (1.0, float("nan"), {"b": float("inf")}), "c": "nan"}) == {
        "a": [1.0, None, {"b": None}],
        "c": "nan",
    }


def test_a_pool_forecasts_with_intervals_and_what_is_known_in_advance(cornn, tables):
    random = np.random.default_rng(0)
    holiday = (random.random(130) < 0.2).astype(int)
    sales = 20 + np.sin(2 * np.pi * np.arange(130) / 7) + 5 * holiday + 0.2 * random.normal(size=130)
    rows = [
        [round(own, 3) if step < 120 else "", there]
        for step, (own, there) in enumerate(zip(sales, holiday, strict=True))
    ]
    first = date(2024, 2, 1)
    dated = [[first + timedelta(step), *row] for step, row in enumerate(rows)]
    write_csv(tables / "shop.csv", ["date", "sales", "holiday"], dated)
    arguments = ("fit", "shop.csv", "--time", "date", "--target", "sales", "--known-future", "holiday")
    code, out, err = cornn(*arguments, "--horizon", "10", "--out", "here")
    assert (code, err) == (0, "")
    assert "pinball loss" in out
    result = json.loads((tables / "here/result.json").read_text())
    assert list(result["table"]) == ["this model", "last value", "seasonal naive", "ridge on lags"]
    assert result["test"] < result["trivial"]
    page = (tables / "here/report.html").read_text()
    assert "Backtest: forecasts at earlier origins" in page
    assert "cornn export" not in page
    code, out, _ = cornn("predict", "here", "shop.csv", "--level", "0.8")
    table = list(csv.DictReader(out.splitlines()))
    assert list(table[0]) == ["series", "step", "date", "sales", "sales low", "sales high"]
    assert [row["date"] for row in table] == [str(row[0]) for row in dated[120:]]  # the rows without sales
    found = np.array([float(row["sales"]) for row in table])
    assert np.abs(found - sales[120:]).max() < 1.5
    assert all(float(row["sales low"]) < float(row["sales"]) < float(row["sales high"]) for row in table)


@pytest.mark.parametrize("with_times", [True, False])
def test_rows_without_a_target_at_the_end_are_steps_to_forecast(cornn, tables, with_times):
    days = [str(date(2026, 1, 1) + timedelta(step)) for step in range(64)]
    rows = [[own, step, 100 - step, step % 7] for step, own in enumerate(days)]
    whole = rows[:60]
    early = [*rows[:58], *([*row[:2], "", row[3]] for row in rows[58:60])]
    empty = [[own, "", "", ""] for own in days[60:]]
    for name, table in (("whole", whole), ("empty", whole + empty), ("early", early + empty)):
        kept = [row if with_times else row[1:] for row in table]
        write_csv(tables / f"{name}.csv", ["day", "up", "down", "week"][not with_times :], kept)
    arguments = ("--target", "up", "down", "--horizon", "3", "--test-share", "0.1")
    times = ("--time", "day") if with_times else ()
    tested = {}
    for name in ("whole", "empty"):
        assert cornn("fit", f"{name}.csv", *arguments, *times, "--out", name)[0] == 0
        tested[name] = json.loads((tables / name / "result.json").read_text())
        assert "Forecast of the steps after the data" in (tables / name / "report.html").read_text()
    assert tested["empty"]["test"] == tested["whole"]["test"]
    expected = cornn("predict", "whole", "whole.csv")
    assert expected[0] == 0
    assert cornn("predict", "whole", "empty.csv") == cornn("predict", "empty", "empty.csv") == expected
    early = predictions(cornn("predict", "whole", "early.csv")[1])
    for row, other in zip(predictions(expected[1]), early, strict=True):
        assert row.get("day") == other.get("day")
        assert float(other["down"]) == pytest.approx(float(row["down"]), abs=1e-6)


def test_more_rows_of_what_is_known_in_advance_than_steps_to_forecast(cornn, tables):
    random = np.random.default_rng(0)
    days = [str(date(2026, 1, 1) + timedelta(step)) for step in range(130)]
    holiday = (random.random(130) < 0.2).astype(int)
    sales = np.round(20 + 5 * holiday + 0.2 * random.normal(size=130), 3)
    rows = [[days[step], sales[step] if step < 120 else "", holiday[step]] for step in range(130)]
    write_csv(tables / "shop.csv", ["date", "sales", "holiday"], rows)
    write_csv(tables / "short.csv", ["date", "sales", "holiday"], rows[:124])
    arguments = (
        "fit",
        "shop.csv",
        "--time",
        "date",
        "--target",
        "sales",
        "--known-future",
        "holiday",
        "--horizon",
        "4",
    )
    assert cornn(*arguments, "--no-report", "--out", "here")[0] == 0
    code, out, _ = cornn("predict", "here", "shop.csv")
    assert code == 0
    assert [row["date"] for row in csv.DictReader(out.splitlines())] == days[120:124]
    assert cornn("predict", "here", "short.csv")[1] == out


def test_a_model_that_is_worse_than_a_rule_offers_it(cornn, tables):
    arguments = ("fit", "series.csv", "--task", "forecast", "--target", "sales", "--time", "day", "--no-report")
    code, out, _ = cornn(*arguments, *QUICK, "--out", "here")
    assert code == 0
    assert "Do not use this model" in out
    assert out.index("Do not use this model") < out.index("test mean absolute scaled error")
    assert (
        'To use that rule alone, set the candidates to "seasonal naive", and omit the settings of the network.' in out
    )
    code, out, _ = cornn(*arguments, "--candidates", "seasonal naive", "--out", "rule")
    assert code == 0
    assert "Do not use" not in out
    assert "that rule alone" not in out


def test_without_a_test_split_the_page_shows_the_forecast(cornn, tables):
    arguments = ("fit", "series.csv", "--task", "forecast", "--target", "sales", "--time", "day", "--test-share", "0")
    assert cornn(*arguments, "--candidates", "last value", "--out", "here")[0] == 0
    page = (tables / "here/report.html").read_text()
    assert "Forecast of the steps after the data" in page
    assert "Members of the pool" in page


def test_the_forecast_of_the_test_part_is_made_without_it(tables):
    """A jump right at the cut is not seen by the scaling, nor by the weights."""
    from cornn import fitting

    values = np.sin(np.arange(100) * 0.3)
    values[80:] += 100
    write_csv(tables / "jump.csv", ["v"], [[value] for value in values])
    data = read(tables / "jump.csv", Layout("series"))
    splits = fitting.split(data, "forecast", None, 0.2, 0)
    finished = fitting.fit("forecast", splits, {"hidden_size": 4, "epochs": 2, "random_state": 0, "device": "cpu"})
    assert splits.cuts == [80]
    assert abs(finished.estimator.preparation_.mean[0]) < 1
    assert finished.evaluation.count == 20


def test_arrays_and_the_archive_with_a_test_file(cornn, tables):
    X, y = waves()
    np.savez(tables / "train.npz", X=X, y=y)
    np.savez(tables / "test.npz", X=X[:6], y=y[:6])
    code, _, _ = cornn("fit", "train.npz", "--test", "test.npz", *QUICK, "--no-report", "--out", "here")
    assert code == 0
    result = json.loads((tables / "here/result.json").read_text())
    assert (result["evaluated_on"], result["sequences"], result["count"]) == ("test.npz", 40, 6)
    assert len(predictions(cornn("predict", "here", "test.npz")[1])) == 6
    lines = [",".join(map(str, own)) + f":{label}" for own, label in zip(X, y, strict=True)]
    (tables / "a.ts").write_text("@univariate true\n@classLabel true 0 1\n@data\n" + "\n".join(lines))
    assert cornn("fit", "a.ts", *QUICK, "--balanced", "--no-report", "--out", "there")[0] == 0
    assert cornn("predict", "there", "a.ts")[1] == cornn("predict", "there", "train.npz")[1]


@pytest.mark.filterwarnings("default::UserWarning")
def test_a_dry_run_prints_the_summary_and_writes_nothing(cornn, tables):
    before = sorted(tables.iterdir())
    code, out, _ = cornn("fit", "long.csv", "--target", "kind", "--id", "who", "--ignore", "at", "--dry-run")
    assert code == 0
    assert "values of signal" in out
    code, _, err = cornn("fit", "series.csv", "--task", "forecast", "--target", "nothing", "--dry-run")
    assert code == 2
    assert "series.csv has no values 'nothing' to forecast: the values are day, sales, price" in err
    assert err.startswith("cornn: warning: series.csv: 'day' looks like a time, but is read as a feature: name it")
    assert sorted(tables.iterdir()) == before


def test_an_estimator_that_was_saved_predicts_too(cornn, tables):
    X, y = waves()
    CoRNNClassifier(neurons=16, random_state=0).fit(X, y).save(tables / "mine.safetensors")
    np.savez(tables / "new.npz", X=X)
    assert len(predictions(cornn("predict", "mine.safetensors", "new.npz")[1])) == 40


def test_a_saved_estimator_reads_arrays_in_its_layout(cornn, tables):
    X, y = waves()
    X = np.stack([X, -X], 1)  # (sequences, features, time)
    fitted = CoRNNClassifier(neurons=16, random_state=0, layout="nct").fit(X, y)
    fitted.save(tables / "mine.safetensors")
    np.save(tables / "new.npy", X)
    rows = predictions(cornn("predict", "mine.safetensors", "new.npy")[1])
    assert [int(row["prediction"]) for row in rows] == fitted.predict(X).tolist()


@pytest.mark.parametrize(
    ("training", "test"),
    [(["1", "2", "x"], ["1", "2"]), (["1", "2"], ["1", "2", "x"]), (["1", "2"], ["1", "2"])],
    ids=["only-training-has-a-word", "only-test-has-a-word", "numbers"],
)
def test_a_label_is_the_same_class_in_training_and_test(tables, training, test):
    """Labels are integers if all are: a split without the words of the other one has other types."""
    for name, labels in (("training", training), ("test", test)):
        rows = [[label, *(np.full(STEPS, ord(label)) + 0.1 * k)] for label in labels for k in range(8)]
        write_csv(tables / f"{name}.csv", ["kind", *(f"t{k}" for k in range(STEPS))], rows)
    files = {"path": tables / "training.csv", "test": tables / "test.csv", "out": tables / "out"}
    result = fit_file(**files, target="kind", settings={"neurons": 96, "random_state": 0})
    assert result.evaluation is not None
    known = [label for label in test if label in training]
    assert result.evaluation.classes == tuple(dict.fromkeys([*training, *test]))
    assert result.evaluation.test == len(known) / len(test)
    assert result.evaluation.trivial > 0
    assert all(f"true {label}, predicted {label}" in (tables / "out/report.html").read_text() for label in known)


ONE = "a,b,y\n" + "1,2,x\n" * 6
NUMBERS = "a,b,y\n" + "".join(f"{k},{k + 1},{k / 3}\n" for k in range(30))
WRONG = {
    "no target": (NUMBERS, (), "nothing to learn: choose the column with --target"),
    "another target": (NUMBERS, ("--target", "z"), "data.csv has no column 'z': the columns are a, b, y"),
    "text": (NUMBERS + "1,two,3\n", ("--target", "y"), "data.csv, row 31 (line 32), column 'b': 'two' is not a number"),
    "one class": (ONE, ("--target", "y"), "data.csv: all 5 sequences, from row 1 (line 2) to row"),
    "a missing target": (NUMBERS + "1,2,\n", ("--target", "y"), "data.csv, row 31 (line 32): the target is missing"),
    "an empty sequence": (NUMBERS + ",,1\n", ("--target", "y"), "data.csv, row 31 (line 32) has no values"),
    "a cut file": (NUMBERS + "1,2", ("--target", "y"), "data.csv, row 31 (line 32) has 2 cells"),
    "classes as numbers": (ONE, ("--target", "y", "--task", "regress"), "the target 'x' is not a number"),
    "a horizon": (NUMBERS, ("--target", "y", "--task", "regress", "--horizon", "3"), "--horizon is only for forecasts"),
    "balance": (NUMBERS, ("--target", "y", "--balanced"), "--balanced is only for classes"),
    "a share": (NUMBERS, ("--target", "y", "--test-share", "1"), "the test share must be"),
    "the folder": (NUMBERS, ("--target", "y", "--out", "data.csv"), "data.csv already exists"),
    "under a file": (NUMBERS, ("--target", "y", "--out", "data.csv/x"), "cannot write the folder data.csv/x"),
    "a seed": (NUMBERS, ("--target", "y", "--seed", "-1"), "cornn: --seed must not be negative, got -1"),
    "a setting": (NUMBERS, ("--target", "y", "--neurons", "0"), "neurons must be a positive integer"),
    "values to forecast": (NUMBERS, ("--task", "forecast", "--target", "z"), "data.csv has no values 'z' to forecast"),
    "an empty column": (
        "id,a,b,c,y\n" + "".join(f"{k // 5},{k},,,{k // 5 % 2}\n" for k in range(50)),
        ("--target", "y", "--id", "id"),
        "data.csv: all values of b, c are missing: omit them with --ignore b c",
    ),
    "too short": ("a\n1\n", ("--task", "forecast"), "the longest series has one step, forecasts need at least two"),
}


@pytest.mark.parametrize("case", WRONG)
def test_mistakes_are_one_sentence_and_nothing_is_written(case, cornn, tmp_path):
    content, arguments, sentence = WRONG[case]
    (tmp_path / "data.csv").write_text(content)
    code, _, err = cornn("fit", "data.csv", *arguments, "--quiet", "--no-report")
    assert code == 2
    assert err.startswith("cornn: ")
    assert sentence in err
    assert err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir() if path.name != "runs"] == ["data.csv"]
    assert not list((tmp_path / "runs").glob("*")) if (tmp_path / "runs").exists() else True


@pytest.mark.filterwarnings("ignore:.*has no checksum")
def test_damaged_models_are_refused(cornn, tables):
    cornn("fit", "wide.csv", "--target", "kind", *QUICK, "--no-report", "--out", "here")
    model = tables / "here/model.safetensors"
    whole = model.read_bytes()
    model.write_bytes(whole[: len(whole) // 2])
    sentence = "here/model.safetensors is damaged: it does not match its checksum in artifact.json: fit the model again"
    assert sentence in cornn("predict", "here", "wide.csv")[2]
    model.write_bytes(whole)
    config = tables / "here/config.json"
    config.write_text(config.read_text()[:50])
    sentence = (
        "here/config.json is damaged: it does not match its checksum in artifact.json: here/model.safetensors can"
    )
    assert sentence in cornn("predict", "here", "wide.csv")[2]
    (tables / "here/artifact.json").unlink()  # as version 0.1.0 wrote folders
    assert "here/config.json is damaged: " in cornn("predict", "here", "wide.csv")[2]
    config.write_text('{"kind": "fit"}')
    assert (
        "here/config.json is damaged: layout must be an object with settings, got None"
        in cornn("predict", "here", "wide.csv")[2]
    )
    config.write_text('{"task_name": "adding"}')
    assert "was written by `cornn train`, not by `cornn fit`" in cornn("predict", "here", "wide.csv")[2]
    for damaged in ("[]", '{"kind": "fit", "layout": {"form": 3, "id": null}}'):
        config.write_text(damaged)
        code, _, err = cornn("predict", "here", "wide.csv")
        assert (code, err.count("\n")) == (2, 1)
    shutil.rmtree(tables / "here")
    assert "here does not exist: pass a folder" in cornn("predict", "here", "wide.csv")[2]
    (tables / "here").mkdir()
    assert "here is not a saved folder" in cornn("predict", "here", "wide.csv")[2]
    assert "here is a folder, not a data file" in cornn("fit", "here", "--target", "kind")[2]
    assert "missing.csv does not exist" in cornn("fit", "missing.csv", "--target", "kind")[2]


@pytest.mark.parametrize("last", [[], ["--dry-run"]])
def test_settings_are_checked_before_the_summary(cornn, tables, last):
    for option in ("--hidden-size", "--epochs"):
        code, out, err = cornn("fit", "wide.csv", "--target", "kind", "--method", "network", option, "0", *last)
        assert (code, out) == (2, "")
        assert err == f"cornn: {option} must be a positive integer, got 0\n"


def test_the_page_of_a_fit_is_in_its_folder(cornn, tables):
    cornn("fit", "wide.csv", "--target", "kind", *QUICK, "--no-report", "--out", "here")
    for command in ("report", "evaluate", "check"):
        code, _, err = cornn(command, "here")
        assert code == 2
        assert "here was written by `cornn fit`, this command needs a run of `cornn train`: use `cornn predict`" in err
        (tables / "here" / "report.html").write_text("")
        assert "its page is here/report.html" in cornn(command, "here")[2]
        (tables / "here" / "report.html").unlink()


def test_an_interruption_leaves_nothing(cornn, tables, monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    # The package has a function `fit`, so that the module of this name is not its attribute.
    monkeypatch.setattr(sys.modules["cornn.fitting.fit"], "evaluate", interrupted)
    code, _, err = cornn("fit", "wide.csv", "--target", "kind", *QUICK)
    assert code == 130
    assert err == "cornn: stopped; nothing was written.\n"
    assert not list((tables / "runs").iterdir())


@pytest.mark.slow
def test_dollars_in_names_set_no_formulas(cornn, tables):
    text = (tables / "wide.csv").read_text().replace("slow", "$^$").replace("fast", "$10 [b]")
    (tables / "wide.csv").write_text(text)
    code, out, err = cornn("fit", "wide.csv", "--target", "kind", *QUICK, "--out", "here")
    assert (code, err) == (0, "")
    assert "for always predicting $10 [b]" in out
    assert (tables / "here/report.html").exists()
    series = (tables / "series.csv").read_text().replace("sales", "US$^$")
    (tables / "series.csv").write_text(series)
    assert cornn("fit", "series.csv", "--task", "forecast", "--ignore", "day", *QUICK, "--out", "there")[0::2] == (
        0,
        "",
    )


def test_names_of_users_are_no_markup(cornn, tables):
    text = (tables / "wide.csv").read_text().replace("slow", "[/a]").replace("fast", "[red] :x:")
    (tables / "wide [b].csv").write_text(text)
    words = [word for word in QUICK if word != "--quiet"]
    code, out, _ = cornn("fit", "wide [b].csv", "--target", "kind", *words, "--no-report", "--out", "m [x]")
    assert code == 0
    for said in (
        "wide [b].csv, one row",
        "[/a] 20",
        "for always predicting [/a]",
        "folder: m [x];",
        "cornn predict 'm [x]' DATA",
        "[red] :x:",
    ):
        assert said in out
    assert cornn("predict", "m [x]", "wide [b].csv", "--out", "o [x].csv")[2] == "wrote 40 rows to o [x].csv\n"
    code, out, _ = cornn("export", "m [x]", "--to", "c", "--data", "wide [b].csv")
    assert code == 0
    assert "m [x]/c/model.h" in out


def test_a_report_that_fails_does_not_cost_the_model(cornn, tables, monkeypatch):
    from cornn.fitting import page

    def failing(*arguments):
        raise RuntimeError("no ink")

    monkeypatch.setattr(page, "render_page", failing)
    code, _, err = cornn("fit", "wide.csv", "--target", "kind", *QUICK, "--out", "here")
    assert code == 0
    assert "the report failed (RuntimeError: no ink): the model is written without it" in err
    assert not (tables / "here/report.html").exists()
    assert len(predictions(cornn("predict", "here", "wide.csv")[1])) == 40


def test_without_the_packages_of_the_report_the_model_is_written(cornn, tables, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    code, _, err = cornn("fit", "wide.csv", "--target", "kind", *QUICK, "--out", "here")
    assert code == 0
    assert f"no report.html: the report needs Jinja2 and matplotlib: {install_command('report')}" in err
    assert (tables / "here" / "model.safetensors").exists()
    assert not (tables / "here" / "report.html").exists()


def test_why_there_is_no_test_part_is_said(cornn, tmp_path):
    rows = ["t0,t1,t2,kind", *(f"{number},1,2,{'ab'[number % 2]}" for number in range(5))]
    (tmp_path / "few.csv").write_text("\n".join(rows))
    _, out, _ = cornn("fit", "few.csv", "--target", "kind", "--dry-run")
    assert "all for training, no test split: too few sequences per class" in out
    _, out, _ = cornn("fit", "few.csv", "--target", "kind", "--dry-run", "--test-share", "0.01")
    assert "all for training, no test split: too few sequences" in out
    _, out, _ = cornn("fit", "few.csv", "--target", "kind", "--dry-run", "--test-share", "0")
    assert "all for training:" not in out


def test_a_fit_without_a_test_says_so(cornn, tmp_path, recwarn):
    random = np.random.default_rng(0)
    rows = [[*random.normal(size=3).round(3), f"c{number}"] for number in range(30)]
    write_csv(tmp_path / "each.csv", ["t0", "t1", "t2", "kind"], rows)
    code, _, err = cornn("fit", "each.csv", "--target", "kind", "--neurons", "64", "--quiet", "--out", "here")
    sentence = "nothing is known about the performance on new data, as there is no test split: too few sequences per"
    assert code == 0
    assert sentence in err
    assert sentence in (tmp_path / "here/report.html").read_text()
    assert "unique classes" not in err
    assert not list(recwarn)


@pytest.mark.parametrize("size", [1e300, 1e-300])
def test_the_size_of_a_target_does_not_matter(cornn, tables, size):
    X, y = waves()
    target = X.mean(1) + y
    found = {}
    for name, factor in (("plain", 1.0), ("far", size)):
        rows = [[*own, factor * number] for own, number in zip(X, target, strict=True)]
        write_csv(tables / f"{name}.csv", [*(f"t{k}" for k in range(STEPS)), "y"], rows)
        arguments = ("--target", "y", "--neurons", "64", "--device", "cpu", "--quiet", "--out", name)
        code, _, err = cornn("fit", f"{name}.csv", *arguments)
        assert code == 0
        assert "warning" not in err
        found[name] = json.loads((tables / name / "result.json").read_text())
        assert "inf" not in str(found[name])
    assert found["far"]["more"]["y: R²"] == pytest.approx(found["plain"]["more"]["y: R²"], rel=1e-5)
    assert found["far"]["baselines"] == pytest.approx(found["plain"]["baselines"], rel=1e-5)
    error = "y: root mean square error"
    assert found["far"]["more"][error] == pytest.approx(size * found["plain"]["more"][error], rel=1e-5)


def test_equal_targets_of_the_test_have_no_r2(tmp_path):
    random = np.random.default_rng(0)
    for name, targets in (("data", random.normal(size=24)), ("test", [0.1] * 6)):  # the mean of 0.1 is rounded
        rows = [[*random.normal(size=3), target] for target in targets]
        write_csv(tmp_path / f"{name}.csv", ["t0", "t1", "t2", "y"], rows)
    options = {"settings": {"neurons": 64}, "out": tmp_path / "here", "report": False}
    fitted = fit_file(tmp_path / "data.csv", target="y", test=tmp_path / "test.csv", task="regress", **options)
    assert fitted.evaluation is not None
    assert list(fitted.evaluation.more) == ["y: mean absolute error", "y: root mean square error"]


def test_a_file_is_fitted_from_python(tables):
    from cornn.fitting import fit_file, page, predict_file

    settings = {"hidden_size": 4, "epochs": 2, "method": "network"}
    result = fit_file(tables / "wide.csv", target="kind", out=tables / "here", settings=settings)
    assert (result.folder, result.task) == (tables / "here", "classify")
    assert list(result.evaluation.baselines)[1] == "ridge on simple statistics"
    assert len(predict_file(tables / "here", tables / "wide.csv").rows) == 40
    for example in page._draw_examples(result):
        truth, found = re.search(r"true (\w+), predicted (\w+)", example["title"]).groups()
        assert example["right"] == (truth == found)
    with pytest.raises(FileExistsError, match="already exists"):
        fit_file(tables / "wide.csv", target="kind", out=tables / "here")


def test_fit_file_has_the_options_and_their_defaults():
    from cornn.fitting import FitOptions, fit_file

    arguments = inspect.signature(fit_file).parameters
    for field in fields(FitOptions):
        assert (arguments[field.name].default, arguments[field.name].annotation) == (field.default, field.type)


def test_fit_file_passes_every_option_on(tables, monkeypatch):
    from cornn.fitting import FitOptions, files

    class Planned(Exception):
        pass

    def plan_fit(path, options):
        raise Planned(options)

    monkeypatch.setattr(files, "plan_fit", plan_fit)
    given = {field.name: f"the {field.name}" for field in fields(FitOptions)}
    with pytest.raises(Planned) as caught:
        files.fit_file(tables / "wide.csv", **given)
    assert caught.value.args == (FitOptions(**given),)


def test_a_fifth_of_the_data_is_for_the_test(tables):
    plan = plan_fit(tables / "wide.csv", FitOptions(target="kind"))
    assert (len(plan.splits.training), len(plan.splits.test)) == (32, 8)
    plan = plan_fit(tables / "series.csv", FitOptions(target="sales", time="day", task="forecast"))
    assert dict(plan.facts)["sequences"] == "1, the last 30 steps for the test"
    frame = pandas.DataFrame({"shop": np.repeat(["a", "b"], [50, 100]), "sold": np.arange(150.0)})
    frame.to_csv(tables / "shops.csv", index=False)
    plan = plan_fit(tables / "shops.csv", FitOptions(target="sold", id="shop", task="forecast"))
    assert dict(plan.facts)["sequences"] == "2, the last 10 to 20 steps of each for the test"


def test_tables_that_are_cut_say_so_and_a_large_confusion_matrix_is_wide(cornn, tables):
    kinds = np.arange(70) % 14
    frame = pandas.DataFrame(np.sin(np.arange(20) * (kinds[:, None] + 1) / 10)).add_prefix("t")
    frame.assign(kind=[f"kind {kind}" for kind in kinds]).to_csv(tables / "many.csv", index=False)
    code, out, err = cornn("fit", tables / "many.csv", "--target", "kind", "--neurons", "64", "--out", "many")
    assert code == 0, err
    assert "… and 2 more" in out + err
    page = (tables / "many/report.html").read_text(encoding="utf8")
    assert '<div class="pair">' not in page
    assert '<figure class="wide">' in page


def test_groups_are_never_split(tables):
    X, y = waves()
    rows = [[f"g{k // 5}", *own, label] for k, (own, label) in enumerate(zip(X, y, strict=True))]
    write_csv(tables / "groups.csv", ["person", *(f"t{k}" for k in range(STEPS)), "kind"], rows)
    plan = plan_fit(tables / "groups.csv", FitOptions(target="kind", group="person"))
    training, test = set(plan.splits.training.groups), set(plan.splits.test.groups)
    assert training | test == {f"g{k}" for k in range(8)}
    assert not training & test
    assert len(test) in (1, 2)
    names = ["id", *(f"t{k}" for k in range(STEPS)), "kind"]
    for sizes, seed in itertools.product(((1, 1, 38), (19, 20, 1)), range(5)):
        own = np.repeat(["a", "b", "c"], sizes)
        write_csv(tables / "few.csv", names, [[who, *row[1:]] for who, row in zip(own, rows, strict=True)])
        plan = plan_fit(tables / "few.csv", FitOptions(target="kind", group="id", seed=seed))
        assert len(set(plan.splits.training.groups)) == 2
    write_csv(tables / "few.csv", names, [["ab"[k % 2], *row[1:]] for k, row in enumerate(rows)])
    with pytest.raises(ValueError, match="has 2 groups, but needs two for training and one for the test: provide at"):
        plan_fit(tables / "few.csv", FitOptions(target="kind", group="id"))
    sentence = r"`group` keeps the sequences of a group out of the test split, .* use `ignore=\['person'\]` instead"
    with pytest.raises(ValueError, match=sentence):
        plan_fit(tables / "groups.csv", FitOptions(group="person", task="forecast"))


def test_a_model_worse_than_the_trivial_answer_is_reported(cornn, tables):
    random = np.random.default_rng(0)
    rows = [[*random.normal(size=STEPS).round(3), "ab"[int(random.integers(10) > 7)]] for _ in range(40)]
    write_csv(tables / "noise.csv", [*(f"t{k}" for k in range(STEPS)), "kind"], rows)
    code, out, _ = cornn("fit", "noise.csv", "--target", "kind", *QUICK, "--balanced", "--out", "here")
    assert code == 0
    result = json.loads((tables / "here/result.json").read_text())
    assert result["test"] <= result["trivial"]
    assert "Do not use this model: it is not better than a trivial answer" in out
    assert "Do not use this model" in (tables / "here/report.html").read_text()


def test_a_place_that_is_lost_meanwhile_does_not_cost_the_model(cornn, tables, monkeypatch):
    from cornn import artifacts

    write = artifacts.write_folder

    def fails(out, *rest):
        if out.name == "here":
            raise OSError(28, "No space left on device")
        write(out, *rest)

    monkeypatch.setattr(artifacts, "write_folder", fails)
    code, out, err = cornn("fit", "wide.csv", "--target", "kind", *QUICK, "--no-report", "--out", "here")
    assert code == 0
    place = re.search(r"here cannot be written \(No space left on device\): the model is in (\S+)", err)[1]
    assert f"folder: {place}" in out
    assert not (tables / "here").exists()
    assert len(predictions(cornn("predict", place, "wide.csv")[1])) == 40


def test_the_folder_is_reserved_at_the_start(tables):
    from cornn.fitting import fit_file

    seen = []
    fit_file(
        tables / "wide.csv",
        target="kind",
        out=tables / "here",
        report=False,
        settings={"hidden_size": 4, "epochs": 1, "method": "network"},
        watch=lambda row: seen.append((tables / "here").is_dir()),
    )
    assert seen == [True]
    (tables / ".new-here-p999999999-x").mkdir()  # of a process that was killed
    fit_file(tables / "wide.csv", target="kind", out=tables / "there", report=False)
    assert not (tables / ".new-here-p999999999-x").exists()


def test_the_result_is_announced_before_the_report(cornn, tables, monkeypatch):
    from cornn.fitting import fit_file, page

    events = []
    monkeypatch.setattr(page, "render_page", lambda *_: events.append("report") or "page")
    told = fit_file(
        tables / "wide.csv", target="kind", out=tables / "here", announce=lambda own: events.append(own.evaluation.test)
    )
    assert events == [told.evaluation.test, "report"]
    monkeypatch.setattr(page, "render_page", lambda *_: print("drawing the report") or "page")
    out = cornn("fit", "wide.csv", "--target", "kind", "--out", "there")[1]
    assert out.index("test accuracy") < out.index("drawing the report") < out.index("folder: there")


@pytest.mark.parametrize("method", ["pool", "network"])
def test_errors_of_forecasts_name_the_column(cornn, tmp_path, method):
    rows = "".join(f"2020-01-{day:02},{day % 3},{'5' * (day == 1)}\n" for day in range(1, 29))
    (tmp_path / "wind.csv").write_text("day,sales,wind\n" + rows)
    arguments = ("fit", "wind.csv", "--time", "day", "--horizon", "2", "--method", method, "--no-report")
    code, _, err = cornn(*arguments, "--target", "wind", "--quiet")
    assert code == 2
    assert re.search(r"no training sequence has .* of wind", err)


def test_a_network_without_values_to_compare_it_with(tables):
    from cornn.fitting import fit_file

    rows = [[who, day, day % 7 if day in (3, 4) else "", day % 5] for who in "ab" for day in range(40)]
    write_csv(tables / "sparse.csv", ["who", "day", "wind", "rain"], rows)
    settings = {"method": "network", "epochs": 1}
    with pytest.raises(ValueError, match="no values are left to test the forecasts: use longer sequences"):
        fit_file(
            tables / "sparse.csv", id="who", time="day", target="wind", horizon=1, test_share=0.3, settings=settings
        )


def test_a_model_of_a_file_knows_its_columns(cornn, tmp_path):
    rows = "".join(f"2020-01-{day:02},{day % 3},{day % 4}\n" for day in range(1, 29))
    (tmp_path / "wind.csv").write_text("day,sales,wind\n" + rows)
    arguments = ("--time", "day", "--horizon", "2", "--target", "sales", "--no-report", "--out", "here")
    assert cornn("fit", "wind.csv", *arguments)[0] == 0
    (tmp_path / "new.csv").write_text(re.sub(r",\d,", ",,", "day,sales,wind\n" + rows))
    assert "has no known value of sales" in cornn("predict", "here", "new.csv")[2]
    assert load(tmp_path / "here/model.safetensors").feature_names_in_.tolist() == ["sales", "wind"]


def test_the_model_of_a_folder_is_read_as_the_folder(cornn, tables):
    arguments = ("--target", "kind", "--id", "who", "--ignore", "at", "size", "--no-report", "--out", "here")
    assert cornn("fit", "long.csv", *QUICK, *arguments)[0] == 0
    assert cornn("predict", "here/model.safetensors", "long.csv")[1] == cornn("predict", "here", "long.csv")[1] != ""


def test_a_model_of_frames_reads_a_file_as_one_sequence(tmp_path):
    from cornn.fitting import predict_file

    random = np.random.default_rng(0)
    frames = [pandas.DataFrame({"a": random.normal(size=20) + number % 2}) for number in range(8)]
    model = CoRNNClassifier(neurons=16, random_state=0).fit(frames, np.arange(8) % 2)
    model.save(tmp_path / "model.safetensors")
    frames[1].assign(b=0.0)[["b", "a"]].to_csv(tmp_path / "new.csv", index=False)
    ((_, answer, *chances),) = predict_file(tmp_path / "model.safetensors", tmp_path / "new.csv").rows
    assert answer == model.predict(frames[1:2])[0]
    assert chances == pytest.approx(model.predict_proba(frames[1:2])[0].tolist(), abs=1e-6)


def test_the_format_is_checked_before_the_target(cornn, tables):
    (tables / "a.xlsx").write_text("x")
    assert "ends with '.xlsx'" in cornn("fit", "a.xlsx")[2]
    assert "missing.csv does not exist" in cornn("fit", "missing.csv")[2]


def test_ctrl_c_keeps_the_best_model_so_far(tables):
    from cornn.fitting import fit_file

    settings = {"hidden_size": 4, "epochs": 50, "method": "network"}

    def interrupt(row):
        if row["epoch"] == 3:
            os.kill(os.getpid(), signal.SIGINT)

    result = fit_file(
        tables / "wide.csv", target="kind", out=tables / "here", report=False, settings=settings, watch=interrupt
    )
    assert result.interrupted
    assert result.estimator.n_iter_ == 3
    assert result.notes == ("stopped by Ctrl-C after 3 epochs: the best model so far is kept",)
    assert (tables / "here/model.safetensors").exists()


def test_errors_of_predict_advise_no_options_of_fit(cornn, tables):
    arguments = ("--target", "kind", "--id", "who", "--ignore", "at", "size", "--no-report", "--out", "here")
    assert cornn("fit", "long.csv", *QUICK, *arguments)[0] == 0
    text = (tables / "long.csv").read_text()
    for name, damaged in {"a": text.replace("who", "whom"), "b": text.replace("signal", "noise")}.items():
        (tables / f"{name}.csv").write_text(damaged)
        code, _, err = cornn("predict", "here", f"{name}.csv")
        assert code == 2
        assert "a model needs the columns that it was fitted with" in err
        assert "--" not in err
    (tables / "c.csv").write_text(text.replace("p3,2,", "p3,2,x", 1))
    assert "is not a number: correct it" in cornn("predict", "here", "c.csv")[2]


def test_forecasts_have_no_attributions(cornn, tables):
    arguments = ("--target", "sales", "--time", "day", "--horizon", "3", "--no-report", "--out", "here")
    assert cornn("fit", "series.csv", *arguments)[0] == 0
    code, _, err = cornn("predict", "here", "series.csv", "--attributions", "why.csv")
    assert code == 2
    assert "forecasts have no attributions: they are for classifiers and regressors" in err
    assert not (tables / "why.csv").exists()


def test_the_interval_of_a_share_is_wilsons():
    from cornn.fitting.evaluate import wilson_interval

    assert wilson_interval(8, 10) == pytest.approx((0.490162, 0.943318), abs=1e-6)
    assert wilson_interval(0, 10) == pytest.approx((0, 0.277533), abs=1e-6)
    assert wilson_interval(10, 10)[1] == 1


def test_columns_of_several_numbers_are_counted_from_one():
    from cornn.fitting.evaluate import _number_names

    assert (_number_names("y", 1), _number_names("y", 2)) == (["y"], ["y 1", "y 2"])


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        (["2023-11", "2023-12", "2024-01"], "1 month"),
        (["2024 Q1", "2024 Q2"], "3 months"),
        (["31.01.2024", "01.02.2024", "04.02.2024"], "1 to 3 days, median 2"),
        (["2024-01-01 00:00", "2024-01-01 00:15"], "15 minutes"),
        (["1", "2.5", "4"], "1.5"),
    ],
)
def test_the_page_has_the_time_between_samples_in_a_common_unit(times, expected, tmp_path):
    rows = "\n".join(f"{time},{number}" for number, time in enumerate(times))
    (tmp_path / "a.csv").write_text(f"t,v\n{rows}\n")
    data = read(tmp_path / "a.csv", Layout(form="series", time="t"))
    summary = dict(summarise(data, Splits(data, None), "forecast", horizon=12))
    assert summary["time between samples"] == expected
    assert summary["forecast"] == "v, 12 steps ahead"
