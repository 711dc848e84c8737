"""Every option of `cornn fit` with every task; and how errors name arguments, in Python and on the command line."""

import ast
import csv
import pickle
import re
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

import cornn as package
from cornn._arguments import Argument, ArgumentError, InPython
from cornn._counts import format_count
from cornn.cli.export import ExportCommand
from cornn.cli.fit import FitCommand
from cornn.cli.predict import PredictCommand
from cornn.cli.spelling import spell_option
from cornn.estimators import load
from cornn.fitting import fit_file, predict_file

PACKAGES = [Path(package.__file__).parent / name for name in ("estimators", "export", "fitting")]
SOURCES = sorted(path for folder in PACKAGES for path in folder.rglob("*.py"))

BASE = {
    "classify": {"id": "who", "ignore": "at size team", "target": "kind", "neurons": "8"},
    "regress": {"id": "who", "ignore": "at kind team", "target": "size", "neurons": "8"},
    "forecast": {"id": "who", "ignore": "at kind size team", "target": "v", "candidates": "ridge"},
}
OPTIONS = {
    "target": "w",
    "id": "team",
    "time": "at",
    "values": "v",
    "ignore": "at kind size team",
    "group": "team",
    "form": "long",
    "layout": "nct",
    "task": "regress",
    "horizon": "2",
    "period": "3",
    "known_future": "w",
    "candidates": "ridge",
    "test": "new.csv",
    "test_share": "0",
    "out": "here",
    "method": "auto",
    "neurons": "5",
    "scaling": "set",
    "causal": "",
    "hidden_size": "3",
    "num_layers": "2",
    "epochs": "1",
    "batch_size": "4",
    "learning_rate": "0.1",
    "validation_share": "0.3",
    "patience": "1",
    "dt": "0.1",
    "gamma": "1",
    "epsilon": "1",
    "balanced": "",
    "seed": "3",
    "device": "cpu",
    "report": None,
    "quiet": "",
    "json": "",
    "dry_run": "",
}
"""Option -> a value; None for a flag that is on by default."""
NETWORK = ("hidden_size", "num_layers", "epochs", "batch_size", "learning_rate", "validation_share", "patience")
NETWORK = (*NETWORK, "dt", "gamma", "epsilon")
REFUSED = {
    **dict.fromkeys(("horizon", "period", "known_future", "candidates"), ("classify", "regress")),
    **dict.fromkeys(("neurons", "scaling", "causal"), ("forecast",)),
    "balanced": ("regress", "forecast"),
}
"""Option -> tasks whose estimators do not have it."""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a table in long form: two features, classes, numbers and groups."""
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    rows = [
        [f"p{who}", at, *random.normal(size=2).round(3), "ab"[who % 2], who + 0.5, f"t{who % 3}"]
        for who in range(12)
        for at in range(10)
    ]
    for name in ("data.csv", "new.csv"):
        with open(name, "w", newline="") as file:
            csv.writer(file).writerows([["who", "at", "v", "w", "kind", "size", "team"], *rows])
    return tmp_path


def as_words(options):
    for name, value in options.items():
        dashed = name.replace("_", "-")
        yield from (f"--no-{dashed}",) if value is None else (f"--{dashed}", *value.split())


def test_every_option_of_fit_is_listed():
    assert {"data", *OPTIONS} == {field.name for field in fields(FitCommand)}


@pytest.mark.parametrize("option", OPTIONS)
# Numbers are predicted by the code that predicts classes.
@pytest.mark.parametrize(
    "task", [pytest.param(task, marks=pytest.mark.slow if task == "regress" else ()) for task in BASE]
)
def test_an_option_works_or_is_an_error_of_one_line(cornn, folder, task, option):
    options = {"task": task, **BASE[task], "report": None}
    if option in NETWORK:
        options = {name: value for name, value in options.items() if name not in ("neurons", "candidates")}
        options |= {"method": "network", "hidden_size": "4", "epochs": "2"}
    options[option] = OPTIONS[option]
    code, _, err = cornn("fit", "data.csv", *as_words(options))
    assert code in (0, 2)
    if code == 2:
        assert err.startswith("cornn: ")
        assert err.count("\n") == 1
    if task in REFUSED.get(option, ()):
        assert code == 2
        assert f"--{option.replace('_', '-')} is only for " in err
        assert f"but the task is to {task}: omit it" in err


def test_settings_are_those_of_the_estimator(folder):
    options = {"id": "who", "target": "kind", "ignore": ["at", "size", "team"], "task": "classify"}
    sentence = r"^unknown setting of CoRNNClassifier 'neuron': did you mean 'neurons'\? choose one of "
    with pytest.raises(ValueError, match=sentence):
        fit_file("data.csv", **options, settings={"neuron": 3})
    sentence = "^`period` is only for forecasts, but the task is to classify: omit it, or use `task='forecast'`$"
    with pytest.raises(ValueError, match=sentence):
        fit_file("data.csv", **options, settings={"period": (2,)})
    assert not (folder / "runs").exists()


@pytest.mark.parametrize(
    ("setting", "argument"),
    [
        ({"id_column": "who"}, "id"),
        ({"time_column": "at"}, "time"),
        ({"value_columns": ["v"]}, "values"),
        ({"layout": "nct"}, "layout"),
        ({"targets": [0]}, "target"),
    ],
)
def test_how_the_file_is_read_is_not_a_setting(folder, setting, argument):
    sentence = f"^{next(iter(setting))} is not a setting of fit_file, which reads the file: use `{argument}`$"
    with pytest.raises(ArgumentError, match=sentence):
        fit_file("data.csv", id="who", values="v", task="forecast", settings=setting)


def test_one_name_is_a_string(folder):
    settings = {"known_future": "w", "candidates": "last value"}
    options = {"id": "who", "ignore": "at", "values": ["v", "w"], "target": "v", "report": False}
    result = fit_file("data.csv", **options, settings=settings, out="here")
    assert result.estimator.known_future_ == [1]
    assert result.splits.training.layout.ignore == ("at",)
    result = fit_file("data.csv", id="who", values="size", task="forecast", report=False, out="there")
    assert result.splits.training.features == ("size",)


def test_a_horizon_among_the_settings_counts(folder):
    settings = {"horizon": 3, "candidates": ["last value"]}
    result = fit_file("data.csv", id="who", values=["v"], settings=settings, out="here", report=False)
    assert (result.task, result.estimator.horizon) == ("forecast", 3)


def test_a_fitted_estimator_does_not_keep_the_callback(folder):
    seen = []
    settings = {"method": "network", "hidden_size": 4, "epochs": 2}
    options = {"id": "who", "target": "kind", "ignore": ["at", "size", "team"], "report": False, "settings": settings}
    result = fit_file("data.csv", **options, out="here", watch=lambda row: seen.append(row))
    assert len(seen) == 2
    pickle.loads(pickle.dumps(result.estimator))
    result.estimator.fit(result.splits.training.sequences, result.splits.training.labels())
    assert len(seen) == 2


def test_an_argument_is_spelled_for_python_and_for_the_command_line():
    parts = (Argument("ignore", ["a", "b c"]), " or ", Argument("test_share"), InPython(", in Python"), ".")
    error = ArgumentError("use ", Argument("task", "forecast"), ", ", *parts)
    assert str(error) == "use `task='forecast'`, `ignore=['a', 'b c']` or `test_share`, in Python."
    assert error.spell(spell_option) == "use --task forecast, --ignore a 'b c' or --test-share."
    assert pickle.loads(pickle.dumps(error)).spell(spell_option) == error.spell(spell_option)
    assert [spell_option(Argument("horizon", value)) for value in (1, 2)] == ["--horizon 1", "--horizon 2"]
    renamed = [Argument("class_weight", "balanced"), Argument("random_state"), Argument("causal", True)]
    assert [spell_option(one) for one in renamed] == ["--balanced", "--seed", "--causal"]


def test_errors_name_arguments_in_python_and_options_on_the_command_line(cornn, folder):
    with pytest.raises(ArgumentError) as error:
        fit_file("data.csv")
    words = "nothing to learn: choose the column with {}, or use {} to predict the next values"
    assert str(error.value) == words.format("`target`", "`task='forecast'`")
    assert cornn("fit", "data.csv")[2] == f"cornn: {words.format('--target', '--task forecast')}\n"


def test_a_future_that_is_not_there(cornn, folder):
    arguments = ("--id", "who", "--values", "v", "w", "--target", "v", "--known-future", "w", "--no-report")
    assert cornn("fit", "data.csv", *arguments, "--out", "here")[0] == 0
    words = "sequence 0 has no rows for the steps to forecast: append 1 row with the features that are known in advance"
    assert cornn("predict", "here", "data.csv")[2] == f"cornn: {words} and missing targets\n"
    with pytest.raises(ValueError, match=r"and missing targets, or pass `future`$"):
        predict_file("here", "data.csv")
    one = Path("data.csv").read_text().splitlines()[:11]
    Path("one.csv").write_text("\n".join(one))
    assert cornn("predict", "here", "one.csv")[2].startswith("cornn: the series has no rows for the steps to forecast")


def test_the_training_data_is_no_test(cornn, folder):
    for name in ("data.csv", str(folder / "data.csv")):
        code, out, err = cornn("fit", "data.csv", "--target", "kind", "--test", name, "--out", "here")
        assert (code, out) == (2, "")
        assert err.startswith("cornn: --test names the training data")
        assert not (folder / "here").exists()


def test_a_file_to_write_is_not_one_to_read(cornn, folder):
    options = ("--id", "who", "--target", "kind", "--ignore", "at", "size", "team", "--neurons", "8", "--no-report")
    assert cornn("fit", "data.csv", *options, "--out", "here")[0] == 0
    table, model = Path("data.csv").read_bytes(), Path("here/model.safetensors")
    words = "{} is named twice, and writing it would overwrite it: choose another path"
    commands = {
        "./data.csv": ("predict", "here", "data.csv", "--out"),
        str(folder / "data.csv"): ("predict", "here", "data.csv", "--attributions"),
        "here/model.safetensors": ("export", str(model), "--to", "onnx", "--out"),
        "why.csv": ("predict", "here", "data.csv", "--attributions", "why.csv", "--out"),
    }
    weights = model.read_bytes()
    for path, command in commands.items():
        code, _, err = cornn(*command, path)
        assert (code, err) == (2, f"cornn: {words.format(Path(path))}\n")
    assert (Path("data.csv").read_bytes(), model.read_bytes()) == (table, weights)
    assert not Path("why.csv").exists()


def test_a_file_that_cannot_be_written_is_named_without_an_option(cornn, folder):
    options = ("--id", "who", "--target", "kind", "--ignore", "at", "size", "team", "--neurons", "8", "--no-report")
    assert cornn("fit", "data.csv", *options, "--out", "here")[0] == 0
    for option in ("--attributions", "--out"):
        code, _, err = cornn("predict", "here", "data.csv", option, "data.csv/why.csv")
        sentence = "cannot write data.csv/why.csv (Not a directory): choose another path"
        assert (code, err.splitlines()[-1]) == (2, f"cornn: {sentence}")
        assert cornn("predict", "here", "data.csv", option, "new/why.csv")[0] == 0
    sentence = "cannot write nowhere/why.csv (No such file or directory): choose another path"
    with pytest.raises(OSError, match=re.escape(sentence)):
        load("here/model.safetensors").save("nowhere/why.csv")
    assert cornn("fit", "data.csv", *options, "--out", "here")[2] == (
        "cornn: here already exists: choose another folder, or remove it\n"
    )


def test_one_is_singular(cornn, folder):
    arguments = ("--id", "who", "--target", "kind", "--ignore", "at", "size", "team", "--no-report", "--out", "here")
    network = ("--method", "network", "--hidden-size", "4", "--epochs", "1")
    assert " after 1 epoch and " in cornn("fit", "data.csv", *arguments, *network)[1]
    counts = [format_count(*given) for given in ((1, "row"), (0, "row"), (1234, "step"), (0.5, "epoch"))]
    assert counts == ["1 row", "0 rows", "1,234 steps", "0.5 epochs"]
    assert [format_count(number, "class", "classes") for number in (1, 2)] == ["1 class", "2 classes"]


def strings(path):
    """The texts in a module, but for docstrings."""
    tree = ast.parse(path.read_text(encoding="utf8"))
    skipped = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield node.value


def test_the_library_knows_no_options():
    # The page is about the command line: its examples are commands.
    sources = [path for path in SOURCES if path.name != "page.py"]
    found = [(path.name, text) for path in sources for text in strings(path) if re.search(r"(^|[ (])--[a-z]", text)]
    assert found == []


def test_every_argument_that_an_error_names_is_an_option():
    known = {field.name for command in (FitCommand, PredictCommand, ExportCommand) for field in fields(command)}
    named = set()
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf8"))):
            called = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Argument"
            if called and isinstance(node.args[0], ast.Constant):
                named.add(node.args[0].value)
    assert named <= known
    assert {"target", "task", "ignore", "level"} <= named
