"""Files that people bring: every form gives the same sequences, and what is wrong is said with its row."""

import contextlib
import sys
from datetime import datetime, timedelta

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from cornn.estimators import sequences
from cornn.estimators.frames import Columns
from cornn.estimators.sequences import read_sequences
from cornn.estimators.series import ValidSeries
from cornn.fitting import fit_file, predict_file
from cornn.fitting.readers import Layout, read

VALUES = np.round(np.random.default_rng(0).normal(size=(6, 4, 2)), 3)
LABELS = ["up", "down"] * 3
LONG = Layout(id="who", target=("kind",))


def rows_of(columns):
    return "\n".join([",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))])


def long_columns(values=VALUES):
    count, steps = values.shape[:2]
    return {
        "who": [f"p{number}" for number in range(count) for _ in range(steps)],
        "at": [step * 0.5 for _ in range(count) for step in range(steps)],
        "speed": values[..., 0].ravel().tolist(),
        "force": values[..., 1].ravel().tolist(),
        "kind": [label for label in LABELS for _ in range(steps)],
    }


def wide_columns(values=VALUES):
    named = {
        f"{name}_{step}": values[:, step, number].tolist()
        for number, name in enumerate(("speed", "force"))
        for step in range(values.shape[1])
    }
    return named | {"kind": LABELS}


def same(data, values=VALUES):
    assert len(data) == len(values)
    for series, expected in zip(data.sequences, values, strict=True):
        np.testing.assert_array_equal(series.values, expected)
        assert isinstance(series, ValidSeries)
        assert series.values.dtype == np.float64
    return data


def test_every_form_gives_the_same_sequences(tmp_path):
    path = tmp_path / "long.csv"
    path.write_text(rows_of(long_columns()))
    data = same(read(path, Layout(id="who", time="at", target=("kind",))))
    assert (data.layout.form, data.features, data.ids) == ("long", ("speed", "force"), [f"p{k}" for k in range(6)])
    np.testing.assert_array_equal(data.sequences[0].times, [0, 0.5, 1, 1.5])
    np.testing.assert_array_equal(data.labels(), LABELS)
    same(read(path, Layout(id="who", target=("kind",), ignore=("at",))))
    path.write_text(rows_of(long_columns()).replace(",", ";"), encoding="utf-8-sig")
    same(read(path, Layout(id="who", time="at", target=("kind",), values=("speed", "force"))))

    path = tmp_path / "wide.csv"
    path.write_text(rows_of(wide_columns()))
    data = same(read(path, Layout(target=("kind",))))
    assert (data.layout.form, data.features, data.ids) == ("wide", ("speed", "force"), [1, 2, 3, 4, 5, 6])
    only = read(path, Layout(target=("kind",), values=("force",)))
    np.testing.assert_array_equal(only.sequences[2].values, VALUES[2, :, 1:])
    named = read(path, Layout(target=("kind",), values=("speed_3", "speed_0")))
    np.testing.assert_array_equal(named.sequences[2].values[:, 0], VALUES[2, [3, 0], 0])

    pyarrow.parquet.write_table(pyarrow.table(long_columns()), tmp_path / "long.parquet")
    same(read(tmp_path / "long.parquet", Layout(id="who", time="at", target=("kind",))))
    pyarrow.parquet.write_table(pyarrow.table(wide_columns()), tmp_path / "wide.parquet")
    same(read(tmp_path / "wide.parquet", Layout(target=("kind",))))

    np.savez(tmp_path / "data.npz", X=VALUES, y=np.array(LABELS))
    data = same(read(tmp_path / "data.npz"))
    np.testing.assert_array_equal(data.labels(), LABELS)
    np.savez(tmp_path / "named.npz", signals=VALUES, answer=np.arange(6) / 4, ids=np.array(list("abcdef")))
    data = same(read(tmp_path / "named.npz", Layout(values=("signals",), target=("answer",))))
    assert (data.ids[1], data.infer_task()) == ("b", "regress")

    lines = [
        ":".join([*(",".join(map(str, own[:, k])) for k in (0, 1)), name])
        for own, name in zip(VALUES, LABELS, strict=True)
    ]
    head = "# made up\n@problemName Mine\n@univariate false\n@dimensions 2\n@classLabel true up down\n@data\n"
    (tmp_path / "data.ts").write_text(head + "\n".join(lines))
    data = same(read(tmp_path / "data.ts"))
    np.testing.assert_array_equal(data.labels(), LABELS)
    assert data.features == ("feature 0", "feature 1")  # as errors of the estimators name them


def test_a_parquet_file_keeps_the_levels_of_its_index(tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    index = pandas.MultiIndex.from_product([["p", "q"], range(3)], names=["who", "at"])
    pandas.DataFrame({"speed": np.arange(6.0)}, index).to_parquet(tmp_path / "levels.parquet")
    data = read(tmp_path / "levels.parquet", Layout(id="who", time="at"))
    assert (data.ids, data.features) == (["p", "q"], ("speed",))
    np.testing.assert_array_equal(data.sequences[1].values[:, 0], [3, 4, 5])


def test_the_sequences_of_a_file_are_validated_once(tmp_path, monkeypatch):
    (tmp_path / "long.csv").write_text(rows_of(long_columns()))
    data = read(tmp_path / "long.csv", Layout(id="who", time="at", target=("kind",)))
    again = read_sequences([sequences.Series(own.values, own.times) for own in data.sequences], Columns())

    def refuse(*_):
        raise AssertionError("validated again")

    for name in ("to_float_array", "compute_gaps"):
        monkeypatch.setattr(sequences, name, refuse)
    for own, series, expected in zip(read_sequences(data.sequences, Columns()), data.sequences, again, strict=True):
        assert own.values is series.values
        np.testing.assert_array_equal(own.values, expected.values)
        np.testing.assert_array_equal(own.gaps, expected.gaps)


def test_unequal_lengths_and_missing_values(tmp_path):
    (tmp_path / "wide.csv").write_text("a1,a2,a3,y\n1,,3,0\n4,5,,1\n6,,,0\n")
    data = read(tmp_path / "wide.csv", Layout(target=("y",)))
    assert [len(series.values) for series in data.sequences] == [3, 2, 1]
    np.testing.assert_array_equal(data.sequences[0].values[:, 0], [1, np.nan, 3])
    assert data.infer_task() == "classify"
    assert data.labels().tolist() == [0, 1, 0]
    (tmp_path / "data.ts").write_text("@univariate true\n@classLabel true a b\n@data\n1,?,3:a\n4,5:b\n")
    data = read(tmp_path / "data.ts")
    assert [len(series.values) for series in data.sequences] == [3, 2]
    assert np.isnan(data.sequences[0].values[1, 0])
    np.savez(tmp_path / "data.npz", X=np.arange(6.0).reshape(2, 3), lengths=np.array([3, 1]))
    assert [len(series.values) for series in read(tmp_path / "data.npz").sequences] == [3, 1]
    pyarrow.parquet.write_table(pyarrow.table({"id": [1, 1, 2], "v": [1.0, None, 2.0]}), tmp_path / "a.parquet")
    data = read(tmp_path / "a.parquet", Layout(id="id"))
    assert np.isnan(data.sequences[0].values[1, 0])


def test_times_are_numbers_or_dates_and_rows_are_sorted_by_them(tmp_path):
    start = datetime(2026, 1, 1)
    stamps = [start + timedelta(seconds=30 * step) for step in (2, 0, 1)]
    texts = {
        "iso": [stamp.isoformat() for stamp in stamps],
        "zoned": [f"{stamp:%Y-%m-%dT%H:%M:%SZ}" for stamp in stamps],
        "number": ["60", "0", "30"],
    }
    for name, column in texts.items():
        (tmp_path / f"{name}.csv").write_text(rows_of({"id": [1, 1, 1], "at": column, "v": [3, 1, 2]}))
        series = read(tmp_path / f"{name}.csv", Layout(form="long", id="id", time="at")).sequences[0]
        np.testing.assert_array_equal(series.values[:, 0], [1, 2, 3])
        np.testing.assert_array_equal(np.diff(series.times), [30, 30])
    pyarrow.parquet.write_table(pyarrow.table({"at": stamps, "v": [3, 1, 2]}), tmp_path / "a.parquet")
    series = read(tmp_path / "a.parquet", Layout(form="series", time="at")).sequences[0]
    np.testing.assert_array_equal(series.values[:, 0], [1, 2, 3])
    (tmp_path / "a.ts").write_text(
        "@timeStamps true\n@classLabel true x\n@data\n"
        "(2026-01-01 00:00:00,1),(2026-01-01 00:01:30,2):x\n(0,1),(1,?),(5,2):x\n"
    )
    data = read(tmp_path / "a.ts")
    np.testing.assert_array_equal(np.diff(data.sequences[0].times), [90])
    np.testing.assert_array_equal(data.sequences[1].times, [0, 1, 5])


def test_a_target_may_be_absent_where_it_is_not_wanted(tmp_path):
    columns = long_columns()
    del columns["kind"]
    (tmp_path / "new.csv").write_text(rows_of(columns))
    layout = Layout("long", "who", "at", ("speed", "force"), ("kind",))
    assert same(read(tmp_path / "new.csv", layout, require_target=False)).target is None
    with pytest.raises(ValueError, match="has no column 'kind'"):
        read(tmp_path / "new.csv", layout)


def test_the_columns_of_a_wide_table_are_read_as_those_of_the_first(tmp_path):
    def series(text, layout):
        (tmp_path / "a.csv").write_text(text)
        data = read(tmp_path / "a.csv", layout, require_target=False)
        return data.sequences[0].values.T.tolist(), data.layout

    # By number, of any count, with other columns beside them.
    found, layout = series("t0,t10,t2,y\n1,3,2,a\n", Layout(target=("y",)))
    assert (found, layout.values) == ([[1, 2, 3]], ("t",))
    assert series("age,t3,t1,t2,t0\n9,4,2,3,1\n", layout)[0] == [[1, 2, 3, 4]]
    with pytest.raises(ValueError, match=r"the columns are a, b; a model needs the columns that it was fitted with"):
        series("a,b\n1,2\n", layout)
    assert series("1,2\n5,6\n", Layout("wide"))[1].values == ("",)
    np.savez(tmp_path / "a.npz", X=VALUES[..., 0])
    assert len(read(tmp_path / "a.npz", layout, require_target=False)) == 6

    # By name, in the order of the first.
    for header in ("mon,tue,wed", "t-2,t-1,t-0"):
        first, second, third = header.split(",")
        found, layout = series(f"{header},y\n1,2,3,a\n", Layout(target=("y",)))
        assert found == [[1, 2, 3]]
        assert series(f"age,{third},{first},{second}\n9,3,1,2\n", layout)[0] == [[1, 2, 3]]
        with pytest.raises(ValueError, match=f"has no column '{third}': the columns are {first}, {second}, x"):
            series(f"{first},{second},x\n1,2,3\n", layout)


def test_a_model_of_numbered_columns_names_what_it_needs(tmp_path):
    (tmp_path / "first.csv").write_text("0,1,2,y\n1,2,3,a\n")
    (tmp_path / "second.csv").write_text("v,w\n1,2\n")
    layout = read(tmp_path / "first.csv", Layout(target=("y",))).layout
    with pytest.raises(
        ValueError, match=r"second.csv has no numbered columns \(0, 1, …\): the columns are v, w; a model"
    ):
        read(tmp_path / "second.csv", layout, require_target=False)


@pytest.mark.parametrize("start", [0, 1])
@pytest.mark.parametrize("name", ["", "Unnamed: 0"])
def test_a_column_without_a_name_that_counts_the_rows_is_no_data(name, start, tmp_path):
    rows = [f"{start + row},{row % 2},5,{'ab'[row % 2]}" for row in range(12)]
    (tmp_path / "pandas.csv").write_text("\n".join([f"{name},t0,t1,y", *rows]))
    data = read(tmp_path / "pandas.csv", Layout(target=("y",)))
    np.testing.assert_array_equal(data.sequences[3].values, [[1], [5]])


def test_labels_keep_their_spelling(tmp_path):
    (tmp_path / "a.csv").write_text("a,b,y\n1,2,01\n3,4,02\n")
    assert read(tmp_path / "a.csv", Layout(target=("y",))).labels().tolist() == ["01", "02"]


GOOD = rows_of(long_columns())
TS = "@univariate true\n@classLabel true a b\n@data\n"
WRONG = {
    "a column that is not there": (
        "a.csv",
        GOOD,
        Layout(id="name"),
        "no column 'name': the columns are who, at",
    ),
    "a target that is not there": ("a.csv", GOOD, Layout(target=("kin",)), "no column 'kin'.*choose one with `target`"),
    "text": ("a.csv", "id,v\n1,2\n1,two\n", Layout(id="id"), r"row 2 \(line 3\), column 'v': 'two' is not a number"),
    "text remedy": ("a.csv", "id,v\n1,2\n1,two\n", Layout(id="id"), r"omit the column with `ignore=\['v'\]`"),
    "a decimal comma": (
        "a.csv",
        'id,v\n1,"2,5"\n1,1\n',
        Layout(id="id"),
        "'2,5' is not a number: write decimals with a",
    ),
    "infinity": ("a.csv", "id,v\n1,2\n1,inf\n", Layout(id="id"), r"row 2 \(line 3\), column 'v' contains infinity"),
    "an empty sequence": ("a.csv", "a,b,y\n1,2,0\n,,1\n", Layout(target=("y",)), r"row 2 \(line 3\) has no values"),
    "an empty long one": ("a.csv", "id,v\n1,2\n1,3\n2,\n2,\n", Layout(id="id"), r"row 3 .*sequence 2 has no values"),
    "no id": ("a.csv", "id,v\n1,2\n,3\n1,2", Layout(id="id"), r"row 2 \(line 3\): the id in column 'id' is missing"),
    "a changing target": ("a.csv", "who,v,kind\n1,1,a\n1,2,b\n", LONG, r"row 2 .*'kind' is 'b' after 'a'"),
    "a time twice": ("a.csv", "id,t,v\n1,0,1\n1,0,2\n", Layout(id="id", time="t"), "row 1 .* and row 2 .* same time"),
    "no time": ("a.csv", "id,t,v\n1,,1\n1,0,2\n", Layout(id="id", time="t"), "the time in column 't' is missing"),
    "what is not a time": ("a.csv", "id,t,v\n1,x,1\n1,0,2\n", Layout(id="id", time="t"), "row 1 .*'x' is not a time"),
    "a cut row": ("a.csv", GOOD[:-8], LONG, r"row 24 \(line 25\) has 4 cells, but the header has 5.*truncated"),
    "a cut quotation": ("a.csv", 'id,v\n1,2\n1,"3', Layout(id="id"), "line 3 cannot be read.*truncated"),
    "no header": ("a.csv", "0.5,1.5\n2.5,3.5\n", Layout(), "starts with numbers"),
    "two of a name": ("a.csv", "a,a,y\n1,2,3\n", Layout(target=("y",)), "two columns named 'a'"),
    "no name": ("a.csv", ",a,b\n3,1,2\n9,1,2\n", Layout(), "column 1 has no name: name it, or remove it"),
    "two of a step": ("a.csv", "a_1,a1,a2\n1,2,3\n", Layout(), "columns 'a1' and 'a_1' are both step 1"),
    "no rows": ("a.csv", "a,b\n", Layout(), "has no rows"),
    "nothing": ("a.csv", "", Layout(), "is empty"),
    "another encoding": ("a.csv", "a,é\n1,2\n".encode("latin-1"), Layout(), "not UTF-8 text"),
    "another ending": ("a.xlsx", "x", Layout(), r"ends with '\.xlsx': supported .* save the sheet as CSV"),
    "no file": (None, "", Layout(), "does not exist"),
    "unknown features": ("a.csv", "a_0,a_1,y\n1,2,0\n", Layout(values=("b",), target=("y",)), "no columns b_0, b_1"),
    "long without id": ("a.csv", GOOD, Layout(form="long"), "needs `id`"),
    "time without id": ("a.csv", GOOD, Layout(time="at"), "choose the column of the sequence ids with `id`"),
    "only a target": ("a.csv", "y\n1\n", Layout(target=("y",)), "no columns of values"),
    "a damaged Parquet": ("a.parquet", b"PAR1 and then nothing", Layout(), "not a valid Parquet file"),
    "a damaged npz": ("a.npz", b"PK\x03\x04 and then nothing", Layout(), "is truncated or corrupt"),
    "what is no npz": ("a.npz", b"something else", Layout(), "not an .npz file|contains Python objects"),
    "a ts without data": ("a.ts", "1,2,3:a\n", Layout(), "line 1: no @data"),
    "a ts of a header": ("a.ts", TS, Layout(), "has no sequences"),
    "a ts with text": ("a.ts", TS + "1,2:a\n1,x:b\n", Layout(), r"row 2 \(line 5\), step 2: 'x' is not a number"),
    "a cut ts": ("a.ts", TS + "1,2:a\n1,2\n", Layout(), r"row 2 \(line 5\) ends with '1,2', which @classLabel"),
    "a ts of other features": ("a.ts", TS + "1,2:a\n1,2:3,4:b\n", Layout(), "row 2 .* has 2 features, but the first"),
    "an empty ts line": ("a.ts", TS + "1,2:a\n:b\n", Layout(), "row 2 .* has no values"),
    "a short ts": ("a.ts", "@seriesLength 3\n" + TS + "1,2:a\n", Layout(), "has 2 steps, but @seriesLength is 3"),
    "an open bracket": ("a.ts", TS + "(0,1),(1,2:a\n", Layout(), "row 1"),
    "a sample without time": ("a.ts", TS + "(?,1),(1,2):a\n", Layout(), "row 1 .*the time of step 0 is missing"),
    "endless time": ("a.ts", TS + "(0,1),(inf,2):a\n", Layout(), "row 1 .*contains infinity"),
    "falling times": ("a.ts", TS + "(1,1),(0,2):a\n", Layout(), "row 1 .*: times must increase, but step 1"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_said_with_its_row(case, tmp_path):
    name, content, layout, message = WRONG[case]
    path = tmp_path / (name or "nowhere.csv")
    if name:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        read(path, layout)


ARRAYS = {
    "objects": ({"X": np.array([[1.0], [1.0, 2.0]], dtype=object)}, "contains Python objects, which are not read"),
    "no X": ({"Z": VALUES}, "no array 'X': the arrays are Z"),
    "texts": ({"X": np.array([["a", "b"]])}, "expected numbers"),
    "lengths": ({"X": VALUES, "lengths": np.array([4, 4, 0, 4, 4, 4])}, "row 3: its length is 0"),
    "many lengths": ({"X": VALUES, "lengths": np.arange(3)}, r"lengths has shape \(3,\)"),
    "targets": ({"X": VALUES, "y": np.arange(5)}, r"y has shape \(5,\), but there are 6 sequences"),
    "empty": ({"X": np.where(np.arange(6)[:, None, None] == 4, np.nan, VALUES)}, "row 5 has no values"),
    "infinity": ({"X": np.where(VALUES[1, 2, 0] == VALUES, np.inf, VALUES)}, "row 2, step 3 contains infinity"),
    "times": ({"X": VALUES, "times": np.zeros((6, 4))}, "row 1: times must increase"),
}


@pytest.mark.parametrize("case", ARRAYS)
def test_what_is_wrong_in_arrays(case, tmp_path):
    content, message = ARRAYS[case]
    np.savez(tmp_path / "a.npz", **content)
    with pytest.raises(ValueError, match=message):
        read(tmp_path / "a.npz")


def test_a_truncated_file_is_refused_at_every_length(tmp_path):
    np.savez(tmp_path / "whole.npz", X=VALUES, y=np.arange(6))
    pyarrow.parquet.write_table(pyarrow.table(wide_columns()), tmp_path / "whole.parquet")
    for ending in ("npz", "parquet"):
        whole = (tmp_path / f"whole.{ending}").read_bytes()
        cut = tmp_path / f"cut.{ending}"
        for share in (0.2, 0.5, 0.9, 0.99):
            cut.write_bytes(whole[: int(share * len(whole))])
            with pytest.raises(ValueError, match=r"truncated or corrupt|not a valid Parquet"):
                read(cut)


class Named(Exception):
    """A complaint that names the file."""


def read_or_named(path, layout):
    try:
        return read(path, layout)
    except ValueError as error:
        if str(path) in str(error):
            raise Named from error
        raise


def test_damage_of_any_kind_is_a_sentence_or_no_damage(tmp_path):
    """Bytes changed, cut out or put in at random: a data set, or an error that the program shows on one line."""
    random = np.random.default_rng(0)
    (tmp_path / "a.csv").write_text(GOOD)
    (tmp_path / "a.ts").write_text("@seriesLength 3\n@dimensions 1\n" + TS + "1,2,?:a\n4,5,6:b\n(0,1),(1,2),(2,3):a\n")
    np.savez(tmp_path / "a.npz", X=VALUES, y=np.arange(6), lengths=np.full(6, 4))
    pyarrow.parquet.write_table(pyarrow.table(long_columns()), tmp_path / "a.parquet")
    layouts = {"csv": Layout(id="who", time="at", target=("kind",))}
    layouts["parquet"] = layouts["csv"]
    for ending in ("csv", "ts", "npz", "parquet"):
        whole = (tmp_path / f"a.{ending}").read_bytes()
        path = tmp_path / f"b.{ending}"
        for _ in range(80):
            at, length = random.integers(len(whole)), random.integers(1, 6)
            new = random.integers(0, 256, random.integers(0, 6), dtype=np.uint8).tobytes()
            path.write_bytes(whole[:at] + new + whole[at + length :])
            with contextlib.suppress(Named):
                read_or_named(path, layouts.get(ending, Layout()))


def test_ids_that_do_not_repeat_name_the_rows_of_a_wide_table(tmp_path):
    (tmp_path / "a.csv").write_text("name,t0,t1,y\nanna,1,2,0\nbert,3,4,1\n")
    data = read(tmp_path / "a.csv", Layout(id="name", target=("y",)))
    assert (data.layout.form, data.ids, data.id_name) == ("wide", ["anna", "bert"], "name")


def test_blanks_around_an_id_are_no_part_of_it(tmp_path):
    (tmp_path / "a.csv").write_text("who,v\nanna,1\n bert,2\nanna ,3\n")
    data = read(tmp_path / "a.csv", Layout(id="who"))
    assert (data.ids, [len(own.values) for own in data.sequences]) == (["anna", "bert"], [2, 1])


def test_without_pyarrow_a_sentence_says_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r'pip install "cornn\[parquet\]" .*, or save the table as CSV'):
        read(tmp_path / "a.parquet")


def refused(path, layout=Layout(target=("kind",))):  # noqa: B008
    with pytest.raises(ValueError, match=path.name) as error:
        read(path, layout)
    return str(error.value)


def test_columns_that_are_hardly_steps_are_refused_in_a_wide_table(tmp_path):
    path, count = tmp_path / "data.csv", 40
    steps = {f"t{step}": np.arange(count).tolist() for step in range(4)}
    kind = {"kind": ["up", "down"] * (count // 2)}
    path.write_text(rows_of({"age": [30] * count, "body mass": [1.5] * count} | steps | kind))
    said = refused(path)
    assert "age, body mass would be read as steps of the sequence, like t0 to t3" in said
    assert "`ignore=['age', 'body mass']`" in said
    layout = Layout(target=("kind",), ignore=("age", "body mass"))
    assert read(path, layout).sequences[0].values.shape == (4, 1)
    assert read(path, Layout(target=("kind",), values=("t",))).sequences[0].values.shape == (4, 1)
    assert read(path, Layout(target=("kind",), form="wide")).sequences[0].values.shape == (6, 1)


def test_features_with_other_steps_each_are_refused(tmp_path):
    path = tmp_path / "data.csv"
    names = [*(f"speed_{step}" for step in range(4)), *(f"force_{step}" for step in range(3))]
    path.write_text(rows_of({name: [1.0, 2.0] for name in names} | {"kind": ["up", "down"]}))
    assert "features 'speed' and 'force' have different steps, only one has step 3" in refused(path)


def test_samples_without_an_id_are_not_taken_for_sequences(tmp_path):
    path = tmp_path / "data.csv"
    subjects = [number for number in range(10) for _ in range(8)]
    columns = {"subject": subjects, "v": np.arange(80.0).tolist(), "kind": [f"k{own % 2}" for own in subjects]}
    path.write_text(rows_of(columns))
    assert "'subject' looks like an id, not like a step of a sequence. If each row is a sample, use `id=" in refused(
        path
    )
    assert len(read(path, Layout(id="subject", target=("kind",)))) == 10


def test_the_suggested_id_has_no_time_twice(tmp_path):
    path = tmp_path / "data.csv"
    columns = {
        "take": [f"r{number}" for number in range(10) for _ in range(8)],
        "person": [f"p{number // 2}" for number in range(10) for _ in range(8)],
        "seconds": [0.1 * step for _ in range(10) for step in range(8)],
        "v": np.arange(80.0).tolist(),
        "kind": [f"k{number % 2}" for number in range(10) for _ in range(8)],
    }
    path.write_text(rows_of(columns))
    assert "use `id='take'` and `time='seconds'`" in refused(path, Layout(target=("kind",)))
    columns["seconds"] = list(range(80))  # one series: any column would do, so the name decides
    path.write_text(rows_of(columns))
    assert "use `id='person'` and `time='seconds'`" in refused(path, Layout(target=("kind",)))


def test_the_only_column_of_dates_is_the_time(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("v,date\n2,2020-01-03\n3,2020-01-04\n1,2020-01-01\n")
    for layout in (Layout(form="series"), Layout(form="series", time="date")):
        found = read(path, layout)
        assert found.layout.time == "date"
        assert found.sequences[0].values.ravel().tolist() == [1, 2, 3]
        assert np.diff(found.sequences[0].times).tolist() == [2 * 86400, 86400]
    path.write_text("who,v,date\np,2,2020-01-03\np,1,2020-01-01\nq,3,2020-01-01\n")
    found = read(path, Layout(id="who"))
    assert (found.layout.time, found.sequences[0].values[:, 0].tolist()) == ("date", [1, 2])
    # Numbers are values, also if they look like dates.
    path.write_text("v,date\n1,20200101\n2,20200102\n")
    with pytest.warns(UserWarning, match="'date' looks like a time, but is read as a feature: name it as the time"):
        assert read(path, Layout(form="series")).layout.time is None
    assert read(path, Layout(form="series", values=("v", "date"))).layout.time is None  # chosen, so without a warning
    # Of two, none is.
    path.write_text("date,v,due\n2020-01-01,1,2020-02-01\n2020-01-02,2,2020-02-01\n")
    assert "if it is the time of a sample, use `time='date'`" in refused(path, Layout(form="series"))
    assert read(path, Layout(form="series", ignore=("due",))).layout.time == "date"
    # Nor is one that belongs to a sequence, not to a sample.
    path.write_text("id,born,v\na,1990-01-01,1\na,1990-01-01,2\nb,1991-01-01,3\nb,1991-01-01,4\n")
    assert "if it is the time of a sample, use `time='born'`" in refused(path, Layout(form="long", id="id"))
    path.write_text("id,day,v\na,1990-01-01,1\na,1990-01-02,2\nb,1990-01-01,3\nb,1990-01-02,4\n")
    assert read(path, Layout(form="long", id="id")).layout.time == "day"


@pytest.mark.parametrize(
    "names",
    [
        [f"2020-{month:02d}-{day:02d}" for month in (1, 2) for day in (5, 15, 25)],
        ["0.00", "0.25", "0.50", "0.75", "1.00"],
        ["8:00", "8:15", "8:30", "8:45", "9:00"],
        ["x", "x.1", "x.2", "x.3"],
        [f"{day}day" for day in range(5)],
    ],
    ids=["dates", "seconds", "hours", "equal names of pandas", "no numbers at the end"],
)
def test_names_that_are_times_are_steps_as_they_are(tmp_path, names):
    path = tmp_path / "data.csv"
    path.write_text(rows_of({name: [float(place), 1.0] for place, name in enumerate(names)} | {"kind": ["up", "down"]}))
    (first, _) = read(path, Layout(target=("kind",))).sequences
    assert first.values[:, 0].tolist() == list(map(float, range(len(names))))


@pytest.mark.parametrize(
    ("header", "rows", "options"),
    [
        (
            "id,time,v,kind",
            [f"{k // 3},{k % 3},{k},{'ab'[k // 3 % 2]}" for k in range(30)],
            "`id='id'` and `time='time'`",
        ),
        (
            "run,beat,v,kind",
            [f"{k // 3},{k % 3},{k * k},{'ab'[k // 3 % 2]}" for k in range(30)],
            "`id='run'` and `time='beat'`",
        ),
        ("when,v,w,kind", [f"2020-01-{k + 1:02d},{k},{k},{'ab'[k % 2]}" for k in range(9)], "`time='when'`"),
    ],
    ids=["names", "blocks", "dates"],
)
def test_samples_with_an_id_or_a_time_are_not_taken_for_sequences(tmp_path, header, rows, options):
    path = tmp_path / "long.csv"
    path.write_text("\n".join([header, *rows]))
    sentence = refused(path)
    assert options in sentence
    assert "`form='wide'`" in sentence
    assert len(sentence) < 500


def test_files_of_the_ucr_archive(tmp_path):
    (tmp_path / "a_TRAIN.tsv").write_text("1\t0.5\t0.7\t0.9\n2\t1.5\t1.7\tNaN\n")
    (tmp_path / "a_TRAIN.txt").write_text("  1.0000000e+00  5.0e-01  7.0e-01 9e-1\n  2.0000000e+00  1.5  1.7 NaN\n")
    for name in ("a_TRAIN.tsv", "a_TRAIN.txt"):
        data = read(tmp_path / name)
        assert data.labels().tolist() == [1, 2]
        assert [own.values[:, 0].tolist() for own in data.sequences] == [[0.5, 0.7, 0.9], [1.5, 1.7]]
    with pytest.raises(ValueError, match="has no column names, so it is read like a file of the UCR archive"):
        read(tmp_path / "a_TRAIN.tsv", Layout(target=("y",)))
    (tmp_path / "a_TRAIN.tsv").write_text("1\t0.5\t0.7\t0.9\n\n2\t1.5\tlow\t1.7\n")
    with pytest.raises(ValueError, match=r"row 2 \(line 3\) contains something that is not a number"):
        read(tmp_path / "a_TRAIN.tsv")


def test_arff(tmp_path):
    head = "% c\n@relation x\n@attribute a0 numeric\n@attribute a1 numeric\n@attribute 'the class' {u,v}\n@data\n"
    (tmp_path / "one.arff").write_text(head + "1,2,u\n3,?,v\n")
    data = read(tmp_path / "one.arff")
    assert (data.labels().tolist(), [own.values[:, 0].tolist() for own in data.sequences]) == (
        ["u", "v"],
        [[1, 2], [3]],
    )
    head = "@relation x\n@attribute r relational\n @attribute a0 numeric\n @attribute a1 numeric\n@end r\n"
    head += "@attribute class {u,v}\n@data\n"
    (tmp_path / "two.arff").write_text(head + "'1,2\\n5,6',u\n'3,4\\n7,8',v\n")
    data = read(tmp_path / "two.arff")
    assert data.sequences[0].values.tolist() == [[1, 5], [2, 6]]
    assert data.features == ("feature 0", "feature 1")
    for wrong, sentence in ((head + "'1,2\\n5,6'\n", "1 cells, but there are 2 attributes"), (head, "no sequences")):
        (tmp_path / "wrong.arff").write_text(wrong)
        assert sentence in refused(tmp_path / "wrong.arff", Layout())


def test_tsf(tmp_path):
    head = (
        "# c\n@relation x\n@attribute series_name string\n@attribute start_timestamp date\n@frequency monthly\n@data\n"
    )
    (tmp_path / "a.tsf").write_text(head + "T1:1979-01-01 00-00-00:1,2,?,4\nT2:1979-01-01 00-00-00:5,6\n")
    data = read(tmp_path / "a.tsf")
    assert (data.ids, data.id_name, [len(own.values) for own in data.sequences]) == (
        ["T1", "T2"],
        "series_name",
        [4, 2],
    )
    (tmp_path / "b.tsf").write_text(head + "T1:1,2\n")
    assert "has 1 attributes, but there are 2 @attribute lines" in refused(tmp_path / "b.tsf", Layout())


def test_npy_and_arrays_of_training_and_test(tmp_path):
    np.save(tmp_path / "one.npy", np.arange(5.0))
    assert read(tmp_path / "one.npy").sequences[0].values.shape == (5, 1)
    np.save(tmp_path / "three.npy", VALUES)
    assert len(read(tmp_path / "three.npy")) == 6
    with pytest.raises(ValueError, match="save X and y in an"):
        read(tmp_path / "three.npy").infer_task()
    np.savez(tmp_path / "a.npz", X_train=VALUES, y_train=np.arange(6), X_test=VALUES[:2], y_test=np.arange(2))
    data = read(tmp_path / "a.npz")
    assert (len(data), len(data.companion), data.numbers().tolist()) == (6, 2, list(range(6)))
    (tmp_path / "bad.npy").write_bytes(b"nothing")
    assert "is not an .npy file of numbers" in refused(tmp_path / "bad.npy", Layout())


def test_the_order_of_axes(tmp_path):
    np.savez(tmp_path / "a.npz", X=VALUES.swapaxes(1, 2))
    data = read(tmp_path / "a.npz")
    assert (
        "has 2 steps of 4 features: if its axes are (sequences, features, time), set the layout to nct" in data.notes[0]
    )
    data = read(tmp_path / "a.npz", Layout(axes="nct"))
    assert (data.notes, data.sequences[0].values.tolist()) == ((), VALUES[0].tolist())
    # Forecasts read every file as a series.
    data = read(tmp_path / "a.npz", Layout(form="series", axes="nct"))
    assert (data.notes, data.sequences[0].values.tolist()) == ((), VALUES[0].tolist())


def test_an_array_of_one_series(tmp_path):
    np.savez(tmp_path / "a.npz", X=np.arange(5.0))
    assert read(tmp_path / "a.npz", Layout(form="series")).sequences[0].values.shape == (5, 1)


@pytest.mark.parametrize(
    "dates",
    [
        ["1949-01", "1949-02", "1949-03"],
        ["1991 Jul", "1991 Aug", "1991 Sep"],
        ["1970 Q1", "1970 Q2", "1970 Q3"],
        ["2001-01-31", "2001-02-28", "2001-03-31"],
        ["2001-01-01", "2001-01-02", "2001-01-03"],
        ["31.01.2001", "01.02.2001", "2.2.2001"],  # the day first
    ],
)
def test_dates_of_all_kinds_are_evenly_spaced(tmp_path, dates):
    path = tmp_path / "a.csv"
    path.write_text("\n".join(["at,v", *(f"{own},{k}" for k, own in enumerate(dates))]))
    gaps = np.diff(read(path, Layout(form="series", time="at")).sequences[0].times)
    assert gaps[0] > 0
    np.testing.assert_allclose(gaps, gaps[0])


def test_an_index_of_dates_without_a_name(tmp_path):
    import pandas

    frame = pandas.DataFrame({"v": [1.0, 2.0, 3.0]}, pandas.date_range("2020-01-01", periods=3))
    frame.to_csv(tmp_path / "a.csv")
    frame.to_parquet(tmp_path / "a.parquet")
    for name in ("a.csv", "a.parquet"):
        data = read(tmp_path / name, Layout(form="series"))
        assert data.features == ("v",)
        np.testing.assert_allclose(np.diff(data.sequences[0].times), 86400)
    days = pandas.to_datetime(["2020-01-02", "2020-01-01", "2020-01-01", "2020-01-04"])
    pandas.DataFrame({"who": ["p", "p", "q", "q"], "v": [2.0, 1, 3, 4]}, days).to_csv(tmp_path / "long.csv")
    data = read(tmp_path / "long.csv", Layout(id="who"))
    assert [own.values[:, 0].tolist() for own in data.sequences] == [[1, 2], [3, 4]]
    assert [np.diff(own.times).tolist() for own in data.sequences] == [[86400], [3 * 86400]]


def test_groups_are_read(tmp_path):
    (tmp_path / "a.csv").write_text("who,t0,t1,t2,y\nanna,1,2,3,0\nbert,3,4,5,1\n")
    data = read(tmp_path / "a.csv", Layout(target=("y",), group="who"))
    assert (data.groups, data.sequences[0].values.shape) == (["anna", "bert"], (3, 1))


def test_groups_that_do_not_fit_their_sequences_are_named(tmp_path):
    path, layout = tmp_path / "a.csv", Layout(id="who", target=("y",), group="team")
    path.write_text("who,v,y,team\na,1,0,red\na,2,0,blue\nb,3,1,blue\n")
    sentence = "row 2 (line 3): the group 'team' is 'blue' after 'red' in the same sequence"
    assert sentence in refused(path, layout)
    path.write_text("who,v,y,team\na,1,0,red\na,2,0,red\nb,3,1,\n")
    assert "row 3 (line 4): the group in column 'team' is missing: fill it in" in refused(path, layout)
    assert len(read(path, layout, require_target=False)) == 2  # predictions need no groups


@pytest.mark.parametrize(
    ("layout", "words"),
    [
        (Layout(id="kind", target=("kind",)), "'kind' is named by `id` and by `target`"),
        (
            Layout(id="who", time="at", values=("at", "speed")),
            "'at' is named by `time` and by `values`",
        ),
        (
            Layout(id="who", values=("force",), target=("force",)),
            "'force' is named by `target` and by `values`",
        ),
        (Layout(id="who", target=("kind",), group="kind"), "'kind' is named by `target` and by `group`"),
    ],
)
def test_a_column_has_one_meaning(tmp_path, layout, words):
    (tmp_path / "a.csv").write_text(rows_of(long_columns()))
    assert words in refused(tmp_path / "a.csv", layout)


def test_a_blank_line_of_a_single_column_is_a_missing_value(tmp_path):
    path = tmp_path / "a.csv"
    for text in ("\nv\n1\n\n3\n\n\n", 'v\n1\n""\n3\n', "v\r\n1\r\n\r\n3\r\n"):
        path.write_bytes(text.encode())
        np.testing.assert_array_equal(read(path, Layout(form="series")).sequences[0].values[:, 0], [1, np.nan, 3])
    path.write_text("\nv;w\n1;2\n\n3;4\n\n5;x")
    assert "row 3 (line 7), column 'w': 'x' is not a number" in refused(path, Layout(form="series"))
    path.write_text("v\tw\n1\t2\n\n3\t\n")
    assert len(read(path, Layout(form="series")).sequences[0].values) == 2


def test_a_blank_table(tmp_path):
    (tmp_path / "a.csv").write_text("\n \n")
    assert "a.csv is blank: expected a header" in refused(tmp_path / "a.csv", LONG)


def test_a_line_of_the_archive_without_its_class(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("1 0.1 0.2 0.3\nNaN 0.1 0.2 0.3\n")
    with pytest.raises(ValueError, match=r"row 2 \(line 2\): the target is missing"):
        read(path).labels()
    tabs = tmp_path / "a.tsv"
    tabs.write_text("1\t0.1\t0.2\t0.3\n\t0.1\t0.2\t0.3\t\n")
    data = read(tabs)
    assert (data.target, [len(own.values) for own in data.sequences]) == ([("1",), (None,)], [3, 3])
    path.write_text("1 0.1 0.2 0.3\ninf 0.1 0.2 0.3\n")
    with pytest.raises(ValueError, match=r"row 2 \(line 2\): the target is infinite"):
        read(path).numbers()
    path.write_text("1 0.1 0.2 0.3\nup 0.1 0.2 0.3\n")
    assert "row 2 (line 2) contains something that is not a number" in refused(path, Layout())


@pytest.mark.parametrize("separator", ["\t", ","])
def test_an_empty_cell_of_the_archive_is_a_missing_value(tmp_path, separator):
    (tmp_path / "a.tsv").write_text(separator.join(["1", "0.1", "0.2", "0.3"]) + "\n2,0.1,,0.3".replace(",", separator))
    np.testing.assert_array_equal(read(tmp_path / "a.tsv").sequences[1].values[:, 0], [0.1, np.nan, 0.3])


def test_predictions_advise_no_options_of_a_fit(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(rows_of(wide_columns()))
    with pytest.raises(ValueError, match="keep the columns of the steps only") as error:
        read(path, Layout(), require_target=False)
    assert "ignore" not in str(error.value)


def test_a_model_of_a_table_reads_names_that_are_numbers(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("0\t1\t2\ty\n5\t6\t7\tup\n6\t7\t8\tdown\n")
    layout = read(path, Layout(target=("y",))).layout
    path.write_text("0\t1\t2\n5\t6\t7\n")  # without its target, the header consists of numbers
    (found,) = read(path, layout, require_target=False).sequences
    assert found.values[:, 0].tolist() == [5, 6, 7]


@pytest.mark.parametrize(
    "text",
    [
        "sep=;\na_0;a_1;a_2;y\n1;2;3;up\n",
        "sep=|\r\na_0|a_1|a_2|y\r\n1|2|3|up\r\n",
        "a_0,a_1,a_2,y,,\n1,2,3,up,,\n",
        '"a, b_0";"a, b_1";"a, b_2";y\n1;2;3;up\n',
        '"a_0", "a_1", "a_2", "y"\n1, 2, 3, "up"\n',
    ],
    ids=["delimiter", "other delimiter", "empty columns", "quoted delimiters", "blanks before quotes"],
)
def test_tables_of_spreadsheets(tmp_path, text):
    (tmp_path / "a.csv").write_bytes(text.encode())
    data = read(tmp_path / "a.csv", Layout(target=("y",)))
    assert (data.sequences[0].values[:, 0].tolist(), data.target) == ([1, 2, 3], [("up",)])


def test_the_line_of_a_delimiter_is_counted(tmp_path):
    (tmp_path / "a.csv").write_text("sep=;\na;b\n1;2\n3;x\n")
    assert "row 2 (line 4), column 'b': 'x' is not a number" in refused(tmp_path / "a.csv", Layout(form="series"))


def test_a_step_of_the_training_is_not_missing_between_others(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("t0,t10,t20,t30,y\n1,2,3,4,up\n")
    layout = read(path, Layout(target=("y",))).layout
    for header in ("t0,t10,t20", "t10,t20,t30", "t0,t10,t20,t30,t40,t50"):
        path.write_text(f"{header}\n{','.join(header[1::4])}\n")
        read(path, layout, require_target=False)
    path.write_text("t0,t20,t30\n1,3,4\n")
    with pytest.raises(ValueError, match="has no column of step 10 between 't0' and 't20', but the training data have"):
        read(path, layout, require_target=False)


def test_dates_that_are_numbers(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("day,v\n20260130,1\n20260131,2\n20260201,3\n")
    layout = Layout(form="series", time="day")
    np.testing.assert_array_equal(np.diff(read(path, layout).sequences[0].times), 86400)
    path.write_text("day,v\n20260131,1\n20260132,2\n20260133,3\n")  # counts, not dates
    np.testing.assert_array_equal(np.diff(read(path, layout).sequences[0].times), 1)
    path.write_text("day,v\n202511,1\n202512,2\n202601,3\n")
    assert "column 'day' contains months such as 202511: write them like 2026-01" in refused(path, layout)
    for months in ((202601, 202602, 202603), (200001, 200101, 200201), (200011, 200012, 200013)):  # evenly spaced
        path.write_text("day,v\n" + "".join(f"{own},1\n" for own in months))
        assert len(set(np.diff(read(path, layout).sequences[0].times))) == 1


def test_a_class_that_is_spelled_like_a_missing_value(tmp_path):
    (tmp_path / "a.csv").write_text("t0,t1,t2,y\n1,2,3,walk\n1,2,3,none\n")
    with pytest.raises(ValueError, match=r"row 2 \(line 3\): the target is missing: .* none, null and \? are missing"):
        read(tmp_path / "a.csv", Layout(target=("y",))).labels()


@pytest.mark.parametrize("lines", ["10.5\n11\n12\n", "112\n118\n132\n", "5,3\n6,4\n", "0.5,1.5\n2,3\n"])
def test_a_first_line_of_values_is_not_lost(tmp_path, lines):
    (tmp_path / "a.csv").write_text(lines)
    assert "a.csv starts with numbers: add a first line with column names" in refused(
        tmp_path / "a.csv", Layout(form="series")
    )


def test_names_that_are_numbers_are_names(tmp_path):
    path = tmp_path / "a.csv"
    for names in ("0", "0,1,2", "1990,1991,1992", "2021,2020,2019"):
        path.write_text(f"{names}\n{names}\n")
        assert read(path, Layout(form="series")).features == tuple(names.split(","))
    path.write_text("0.0,0.25,0.5,y\n1,2,3,up\n")
    layout = read(path, Layout(target=("y",))).layout
    path.write_text("0.0,0.25,0.5\n1,2,3\n")
    assert read(path, layout, require_target=False).sequences[0].values[:, 0].tolist() == [1, 2, 3]


def test_dates_with_and_without_a_time_zone_are_an_error(tmp_path):
    zoned, plain = "2026-01-01T00:00+01:00", "2026-01-02T00:00"
    for first, second, problem in (
        (zoned, plain, f"row 3 (line 4), column 'day': '{plain}' has no time zone, but '{zoned}' has one"),
        (plain, zoned, f"row 3 (line 4), column 'day': '{zoned}' has a time zone, but '{plain}' has none"),
    ):
        other = first.replace("-01T", "-03T").replace("-02T", "-03T")
        (tmp_path / "a.csv").write_text(f"day,v\n{first},1\n{other},2\n{second},3\n")
        error = refused(tmp_path / "a.csv", Layout(form="series", time="day"))
        assert problem in error
        assert error.endswith("write all dates with a time zone, or all without")
    (tmp_path / "a.csv").write_text("day,v\n2026-01-01T00:00Z,1\n2026-01-01T02:00+01:00,2\n")
    np.testing.assert_array_equal(np.diff(read(tmp_path / "a.csv", Layout(form="series")).sequences[0].times), 3600)
    head = "@problemName a\n@timeStamps true\n@univariate true\n@classLabel true a b\n@data\n"
    (tmp_path / "a.ts").write_text(f"{head}({zoned},1),({plain},2):a\n")
    assert f"row 1 (line 6), step 2: '{plain}' has no time zone" in refused(tmp_path / "a.ts", Layout())
    (tmp_path / "a.ts").write_text(f"{head}(soon,1),({plain},2):a\n")
    assert "row 1 (line 6), step 1: 'soon' is not a time" in refused(tmp_path / "a.ts", Layout())


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_decimal_commas_are_read_next_to_semicolons_and_tabs(tmp_path, delimiter):
    path, layout = tmp_path / "a.csv", Layout(form="series", time="at")
    rows = [["at", "v", "w"], ["0,25", "1,5", "1"], ["0,5", "", "-,5e1"], ["1", "+2,7", "?"]]
    path.write_text("\n".join(delimiter.join(row) for row in rows))
    (found,) = read(path, layout).sequences
    np.testing.assert_array_equal(found.times, [0.25, 0.5, 1])
    np.testing.assert_array_equal(found.values, [[1.5, 1], [np.nan, -5], [2.7, np.nan]])

    path.write_text("\n".join(["a b kind y", "1,5 2,5 1,5,2 0,5", "1 2 x 2"]).replace(" ", delimiter))
    data = read(path, Layout(target=("kind",), ignore=("y",), form="wide"))
    assert data.target == [("1,5,2",), ("x",)]  # a text stays as it is
    data = read(path, Layout(target=("y",), ignore=("kind",), form="wide"))
    assert (data.target, data.labels().tolist()) == ([("0,5",), ("2",)], ["0,5", "2"])
    assert (data.numbers().tolist(), data.infer_task()) == ([0.5, 2], "regress")

    path.write_text("\n".join(["id v w", "1 2 1,5", "1 4 1", "1 3 1.5"]).replace(" ", delimiter))
    np.testing.assert_array_equal(read(path, Layout(id="id", ignore=("w",))).sequences[0].values[:, 0], [2, 4, 3])
    mixed = "row 1 (line 2) and row 3 (line 4), column 'w': '1,5' has a decimal comma, but '1.5' a decimal point: write"
    for layout in (
        Layout(id="id", ignore=("v",)),
        Layout(id="id", time="w"),
        Layout(target=("w",), ignore=("v",), form="wide"),
        Layout(id="w", ignore=("v",)),
    ):
        assert mixed in refused(path, layout)
    path.write_text("\n".join(["id v g", "1,50 1,5 0,1", "1,50 2,5 0,1", "2,5 1 0,2"]).replace(" ", delimiter))
    data = read(path, Layout(id="id", group="g"))
    assert (data.ids, data.groups) == (["1,50", "2,5"], ["0,1", "0,2"])  # names stay as they are
    np.testing.assert_array_equal(data.sequences[0].values[:, 0], [1.5, 2.5])
    path.write_text("\n".join(["id v", "1 1,5", "1 two"]).replace(" ", delimiter))
    assert "row 2 (line 3), column 'v': 'two' is not a number" in refused(path, Layout(id="id"))
    path.write_text("\n".join(["0,5 1,5 2,5 kind", "1,5 0,2 1 x"]).replace(" ", delimiter))
    np.testing.assert_array_equal(read(path, Layout(target=("kind",))).sequences[0].values[:, 0], [1.5, 0.2, 1])
    path.write_text("\n".join(["0,5 1,5", "1,5 0,2"]).replace(" ", delimiter))
    assert "starts with numbers: add a first line" in refused(path, Layout())


def test_decimal_commas_of_the_ucr_archive(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("1\t0,5\t0,7\n2\t1\t,25\n")
    data = read(path)
    np.testing.assert_array_equal([own.values[:, 0] for own in data.sequences], [[0.5, 0.7], [1, 0.25]])
    assert data.target == [("1",), ("2",)]
    for lines, first, second in (("1\t0,5\t1\n2\t0.5\t1\n", 1, 2), ("1\t1\t1\n2\t0.5\t0,5\n", 2, 2)):
        path.write_text(lines)
        error = refused(path, Layout())
        assert f"commas in row {first} (line {first}), and decimal points in row {second} (line {second})" in error


def test_the_prefix_of_numbered_steps_is_not_the_name_of_a_column(tmp_path):
    (tmp_path / "a.csv").write_text("t0,t1,t2,y\n1,2,3,0\n3,4,5,1\n")
    layout = read(tmp_path / "a.csv", Layout(target=("y",))).layout
    (tmp_path / "b.csv").write_text("id,t,v\na,0,1\na,1,2\n")
    with pytest.raises(ValueError, match="has no columns t_0, t_1"):
        read(tmp_path / "b.csv", layout, require_target=False)


def test_a_fit_and_its_predictions_read_decimal_commas(tmp_path):
    for name, delimiter, comma in (("a", ";", ","), ("b", ",", ".")):
        rows = [("day", "sold"), *((f"2026-02-{day + 1:02}", f"{day}{comma}25") for day in range(28))]
        (tmp_path / f"{name}.csv").write_text("\n".join(map(delimiter.join, rows)))
    found = []
    for name in ("a", "b"):
        fit_file(tmp_path / f"{name}.csv", horizon=2, time="day", out=tmp_path / name, report=False)
        found += [predict_file(tmp_path / name, tmp_path / f"{other}.csv").rows for other in ("a", "b")]
    assert found[0] == found[1] == found[2] == found[3]


@pytest.mark.parametrize("target", ["kind", "size"])
def test_classes_are_written_like_those_of_the_file(tmp_path, target):
    random = np.random.default_rng(0)
    for name, comma in (("a", ","), ("b", ".")):
        rows = [["t0", "t1", "t2", target]]
        rows += [[*(f"{number:.3f}".replace(".", comma) for number in own), f"{k % 2}{comma}5"]
                 for k, own in enumerate(random.normal(size=(20, 3)))]  # fmt: skip
        (tmp_path / f"{name}.csv").write_text("\n".join(map(";".join, rows)))
    task = "classify" if target == "kind" else "regress"
    options = {"test": tmp_path / "b.csv", "out": tmp_path / "here", "settings": {"neurons": 64}, "report": False}
    result = fit_file(tmp_path / "a.csv", target=target, task=task, **options)
    assert result.evaluation is not None
    if task == "classify":
        assert result.evaluation.classes == ("0,5", "1,5")  # those of b.csv are the same
        assert {row[1] for row in predict_file(tmp_path / "here", tmp_path / "b.csv").rows} <= {"0,5", "1,5"}
    else:
        assert {number for _, truth, _ in result.evaluation.pairs for number in truth} == {0.5, 1.5}


def test_marks_of_thousands_are_not_read_as_decimals(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("id;sold;price\n1;1.234;2,5\n1;987;2,75\n")
    message = "numbers in column 'price' have commas, those in column 'sold' points: write all decimals in the same way"
    assert message in refused(path, Layout(id="id"))
    path.write_text("id\tsold\n1\t987\n1\t1,234\n")
    with pytest.warns(UserWarning, match=r"row 2 \(line 3\), column 'sold': '1,234' is read as a number below 1000"):
        read(path, Layout(id="id"))
    for cells in ("1,234 2,345", "0,234 1", "1,5 1,234 1", "1 2", "1,234 NA", "1,234 0", "1,234 1200"):
        path.write_text("\n".join(["id;v", *(f"1;{cell}" for cell in cells.split())]))
        read(path, Layout(id="id"))
    path.write_text("id;v;w\n1;2,5;1.25\n1;2,25;3\n")  # both are decimals
    np.testing.assert_array_equal(read(path, Layout(id="id")).sequences[0].values, [[2.5, 1.25], [2.25, 3]])
    path.write_text("t0;t1;t2\n1,234;12;1,5\n1,235;13;1,5\n")  # the columns are written in the same way
    read(path, Layout(form="wide"))
    path.write_text("t0;t1;t2\n1,234;12;987\n1,235;13;1,234\n")
    with pytest.warns(UserWarning, match=r"row 1 \(line 2\), column 't0': '1,234' is read") as found:
        read(path, Layout(form="wide"))
    assert len(found) == 1


def test_truth_values_are_numbers(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("id,on\n1,True\n1,\n1,FALSE\n")
    np.testing.assert_array_equal(read(path, Layout(id="id")).sequences[0].values[:, 0], [1, np.nan, 0])


@pytest.mark.parametrize("date", ["01/31/2026", "31.01.26", "31-1-2026 12:00"])
def test_a_date_in_another_format_is_advised_to_be_written_like_others(tmp_path, date):
    path = tmp_path / "a.csv"
    path.write_text(f"date,v\n{date},1\n{date},2\n")
    assert "if it is a date, write it like 2026-01-31" in refused(path, Layout(form="series"))


def test_times_of_new_data_are_dates_if_those_of_the_training_data_are(tmp_path):
    files = {"numbers": "t,v\n1,1\n2,1\n", "dates": "t,v\n2026-01-01,1\n2026-01-02,1\n"}
    layouts = {}
    for kind, content in files.items():
        (tmp_path / f"{kind}.csv").write_text(content)
        layouts[kind] = read(tmp_path / f"{kind}.csv", Layout(form="series", time="t")).layout
    for kind, other in (("numbers", "dates"), ("dates", "numbers")):
        assert read(tmp_path / f"{kind}.csv", layouts[kind], require_target=False).sequences[0].times is not None
        with pytest.raises(ValueError, match=f"column 't' are {kind}, those of the training data are {other}: write"):
            read(tmp_path / f"{kind}.csv", layouts[other], require_target=False)


def test_errors_of_the_first_line_say_what_it_contains(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a|b|kind\n1|2|x\n")
    assert "has no column 'kind': the columns are a|b|kind, if cells are separated by commas, semicolons" in refused(
        path
    )
    path.write_text("# device 7\na,b,kind\n1,2,x\n")
    assert (
        "has 3 cells, more than the first line, which has the names of the columns: correct or remove one"
        in refused(path)
    )


@pytest.mark.parametrize("cell", ["#N/A", "#NV", "<NA>", "n/a", "?"])
def test_missing_values_of_spreadsheets_and_pandas(tmp_path, cell):
    (tmp_path / "a.csv").write_text(f"id,v\n1,2\n1,{cell}\n")
    np.testing.assert_array_equal(read(tmp_path / "a.csv", Layout(id="id")).sequences[0].values[:, 0], [2, np.nan])
