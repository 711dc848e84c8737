import json
import os
import re
import signal
import subprocess
import sys
import threading
import types
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import fields
from pathlib import Path

import pytest
import torch
from rich.console import Console

from cornn import __version__, engine
from cornn._extras import install_command
from cornn.cli import COMMANDS, LAB, console, fit, parsing, progress, report, train
from cornn.cli.options import GROUPS, MAIN
from cornn.lab import records, runs, training
from cornn.lab.config import ALTERNATIVES, Budget, CoRNNSpec, Optimiser, Place, Train, as_dictionary
from cornn.lab.recipes import RECIPES, resolve
from cornn.lab.tasks import TASKS

SHORT = ["--length", "10", "--hidden-size", "8", "--steps", "20", "--evaluate-every", "10", "--device", "cpu"]


def test_train_leaves_a_run_folder_and_says_what_was_reached(cornn, tmp_path):
    code, out, _ = cornn("train", "adding", *SHORT)
    assert code == 0
    assert "coRNN with 8 neurons, 161 parameters; seed 0" in out
    assert "compared with 0.1667 for always answering 1" in out
    assert "└──" not in out  # two points are no curve
    assert "run folder: runs/adding-0001" in out
    assert (tmp_path / "runs/adding-0001/result.json").exists()
    assert "runs/adding-0002" in cornn("train", "adding", *SHORT, "--quiet")[1]
    assert cornn("train", "adding", *SHORT, "--until", "nan")[0] == 2
    assert cornn("train", "psmnist", "--data", "nowhere")[0] == 2
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["adding-0001", "adding-0002"]


def test_trainings_that_start_together_get_folders_of_their_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    commands = [train.parse(["adding", *SHORT, "--quiet"]) for _ in range(2)]
    both, begin = threading.Barrier(2, timeout=60), training.fit

    def fit(config, out, *more):
        both.wait()  # neither has written to its folder yet
        return begin(config, out, *more)

    monkeypatch.setattr(training, "fit", fit)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda command: command.run(), commands))
    assert sorted(path.parent.name for path in (tmp_path / "runs").glob("*/result.json")) == [
        "adding-0001",
        "adding-0002",
    ]


def test_a_curve_has_three_points_and_until_is_explained(cornn, monkeypatch):
    monkeypatch.setattr(console, "SECONDS_BETWEEN_LINES", 0.0)
    code, out, err = cornn("train", "adding", *SHORT, "--evaluate-every", "5")
    assert code == 0
    assert "└──" in out
    assert "stopped at" not in out
    assert re.search(r"^step 20 of 20, loss [\d.]+, validation [\d.]+, \d+ s$", err, re.MULTILINE)
    out = cornn("train", "adding", *SHORT, "--until", "9")[1]
    assert re.search(r"\nstopped at step 10 of 20: validation MSE [\d.]+ is below --until 9\n", out)


def test_evaluate_prints_the_figure_again(cornn):
    cornn("train", "adding", *SHORT, "--out", "here")
    code, out, _ = cornn("evaluate", "here")
    assert code == 0
    first, second = out.split("test MSE ")[1].split(", compared")[0], out.split("; recorded: ")[1]
    assert float(first) == pytest.approx(float(second), abs=1e-6)


def test_names_that_look_like_markup_are_printed_as_they_are(cornn):
    name = "a[bold]b[/red]:smile:"
    for arguments in (
        ("train", "adding", *SHORT, "--out", name),
        ("evaluate", name),
        ("check", name, "--html", name + "/page"),
    ):
        code, out, err = cornn(*arguments)
        assert code == 0, err
        assert name in out


def test_resume_goes_on(cornn, tmp_path, monkeypatch):
    from cornn.lab.training import loop

    real, calls = loop.metric, []

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(loop, "metric", interrupted)
    code, _, err = cornn("train", "adding", *SHORT, "--out", "here now")
    assert code == 130
    assert "cornn: stopped; `cornn resume 'here now'` continues from the last checkpoint.\n" in err
    monkeypatch.setattr(loop, "metric", real)
    code, out, _ = cornn("resume", "here now", "--quiet")
    assert code == 0
    assert "after 20 steps" in out


def test_an_interruption_names_the_folder_that_was_chosen(cornn, monkeypatch):
    from cornn.lab.training import loop

    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(loop, "metric", interrupted)
    assert "`cornn resume runs/adding-0001` continues" in cornn("train", "adding", *SHORT)[2]
    assert "`cornn resume runs/adding-0001` continues" in cornn("resume", "runs/adding-0001")[2]
    assert "`cornn resume runs/adding-0002` continues" in cornn("train", "adding", *SHORT, "--seeds", 2)[2]
    monkeypatch.setattr(training, "fit", interrupted)
    code, _, err = cornn("train", "adding", *SHORT)
    assert (code, err) == (130, "cornn: stopped; no run folder was written.\n")
    monkeypatch.setattr("cornn.cli.doctor.machine", interrupted)
    assert cornn("doctor") == (130, "", "cornn: stopped.\n")


def test_a_signal_exits_with_its_code_and_leaves_a_checkpoint(cornn, tmp_path, monkeypatch):
    from cornn.lab.training import loop

    def interrupted(*arguments):
        os.kill(os.getpid(), signal.SIGTERM)
        return torch.tensor(0.5)

    monkeypatch.setattr(loop, "metric", interrupted)
    code, _, err = cornn("train", "adding", *SHORT, "--out", "here")
    assert code == 143
    assert "`cornn resume here` continues from the last checkpoint" in err
    assert (tmp_path / "here/checkpoint.pt").exists()


def test_json_is_one_line_an_evaluation_and_one_for_the_result(cornn):
    code, out, err = cornn("train", "adding", *SHORT, "--json")
    assert code == 0
    rows = [json.loads(line) for line in out.splitlines()]
    assert [row.get("step") for row in rows] == [10, 20, None]
    assert {"seed", "loss", "metric", "seconds"} <= set(rows[0])
    assert rows[2]["test"] > 0
    assert "adding, 10 steps per sequence" in err


def test_a_dry_run_says_what_is_ahead_and_writes_nothing(cornn, tmp_path):
    code, out, _ = cornn("train", "adding", *SHORT, "--dry-run")
    assert code == 0
    assert '"learning_rate": 0.01' in out
    assert "coRNN with 8 neurons, 161 parameters" in out
    assert "20 steps of 50 sequences" in out
    code, out, _ = cornn("train", "lorenz96", "--force", "0.9", "--model", "lstm", "--hidden-size", "44", "--dry-run")
    assert "LSTM with 44 neurons, 9,201 parameters" in out
    assert "the paper's LSTM with 44 neurons (F = 0.9): 9k parameters, NRMSE 0.02" in out
    assert not (tmp_path / "runs").exists()
    code, out, _ = cornn("train", "psmnist", "--data", "nowhere", "--dry-run")
    assert code == 0
    assert "no MNIST in nowhere" in out


def test_seeds_have_a_folder_each_and_a_summary(cornn, tmp_path):
    code, out, _ = cornn("train", "adding", *SHORT, "--seeds", "3", "--out", "here")
    assert code == 0
    assert "3 of 3 seeds: mean " in out
    assert json.loads((tmp_path / "here/summary.json").read_text())["finished"] == 3
    assert "3 of 3 seeds" in cornn("resume", "here")[1]
    assert cornn("evaluate", "here/seed-1")[0] == 0


def test_a_configuration_from_a_file_with_changes(cornn):
    cornn("train", "adding", *SHORT, "--clip", "0.7", "--out", "here")
    code, out, _ = cornn("train", "adding", "--config", "here/config.json", "--seed", "3", "--dry-run")
    assert code == 0
    content = json.loads(out[: out.rindex("}") + 1])
    assert (content["optimiser"]["clip"], content["budget"]["steps"], content["seed"]) == (0.7, 20, 3)
    code, out, _ = cornn("train", "psmnist", "--data", "nowhere", "--steps", "7", "--dry-run")
    assert '"steps": 7' in out
    assert '"epochs": null' in out
    assert "is for the task adding, not for har2" in cornn("train", "har2", "--config", "here/config.json")[2]
    assert (
        "there.json does not exist: --config takes a configuration"
        in cornn("train", "adding", "--config", "there.json")[2]
    )


def test_tensorboard_is_written_or_explained(cornn, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    code, _, err = cornn("train", "adding", *SHORT, "--tensorboard")
    assert code == 2
    assert err == f"cornn: --tensorboard needs tensorboard: {install_command('tensorboard')}\n"
    written = []

    class SummaryWriter:
        def __init__(self, folder):
            self.folder = folder

        def add_scalar(self, *point):
            written.append((self.folder, *point[::2]))

        def close(self):
            written.append("closed")

    module = types.ModuleType("tensorboard")
    module.SummaryWriter = SummaryWriter
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    assert cornn("train", "adding", *SHORT, "--tensorboard", "--out", "here")[0] == 0
    assert written == [("here/tensorboard/seed-0", name, step) for step in (10, 20) for name in ("loss", "metric")] + [
        "closed"
    ]


def test_help_fits_on_one_screen(cornn):
    code, out, _ = cornn("--help")
    assert code == 0
    assert len(out.splitlines()) <= 23
    assert max(map(len, out.splitlines())) <= 79
    for word in (*COMMANDS, "cornn train adding"):
        assert word in out
    assert cornn("--version")[:2] == (0, f"cornn {__version__}\n")
    code, _, err = cornn()
    assert code == 2
    assert "usage: cornn" in err


def test_the_help_groups_experimental_commands_as_the_page_on_stability_does():
    page = (Path(__file__).parents[1] / "docs/stability.md").read_text(encoding="utf8")
    (experimental,) = re.findall(r"^\| experimental \| (.*) \|$", page, re.MULTILINE)
    listed = set(re.findall(r"`([a-z]+)`", experimental))
    assert listed == {name for name, command in COMMANDS.items() if command.group == LAB}


@pytest.mark.parametrize("argument", ["--help", "--version"])
def test_help_and_version_do_not_import_torch(argument):
    code = f"import sys; sys.argv[1:] = [{argument!r}]; from cornn.__main__ import main; main(); "
    code += "print([name for name in ('torch', 'numpy', 'tyro', 'rich') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_only_the_command_that_is_called_is_imported():
    code = "import sys; sys.argv[1:] = ['doctor']; from cornn.__main__ import main; main(); "
    code += "print([name for name in sys.modules if name.startswith(('cornn.lab', 'lightning'))])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(cornn, name):
    code, out, _ = cornn(name, "--help")
    assert code == 0
    assert out.startswith(f"usage: cornn {name} ")


def test_an_unknown_command_or_task_names_the_closest(cornn):
    code, _, err = cornn("trian", "adding")
    assert code == 2
    assert err.startswith("cornn: unknown command 'trian': did you mean 'train'? choose one of fit, predict, ")
    assert cornn("fly")[2].startswith("cornn: unknown command 'fly': choose one of fit, predict, ")
    for command in ("train", "search"):
        code, _, err = cornn(command, "addding")
        assert code == 2
        assert err.startswith("cornn: unknown task 'addding': did you mean 'adding'? choose one of adding, smnist")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("data", "get", "mnsit"), "unknown data set 'mnsit': did you mean 'mnist'? choose one of mnist, cifar10"),
        (("fit", "x.csv", "--epochs", "zero"), "--epochs must be a whole number, got 'zero'; `cornn fit --help` shows"),
        (("train", "adding", "--gamma", "big"), "--gamma must be a number, got 'big'; `cornn train adding --help`"),
        (("fit", "x.csv", "--form", "wid"), "unknown --form 'wid': choose one of long, series, wide; `cornn fit"),
        (("resume", "nowhere"), "nowhere does not exist"),
        (("fit",), "DATA is missing, for example `cornn fit waves.csv --target kind`; `cornn fit --help` shows the"),
        (("predict",), "MODEL is missing, for example `cornn predict runs/waves-0001 new.csv`; `cornn predict --help`"),
        (("predict", "here"), "DATA is missing, for example `cornn predict runs/waves-0001 new.csv`; `cornn predict"),
        (("export",), "RUN is missing, for example `cornn export runs/waves-0001 --to onnx`; `cornn export --help`"),
        (
            ("export", "here"),
            "--to is missing, for example `cornn export runs/waves-0001 --to onnx`; `cornn export",
        ),
        (("evaluate",), "RUN is missing, for example `cornn evaluate runs/adding-0001`; `cornn evaluate --help` shows"),
        (
            ("resume",),
            "RUN is missing, for example `cornn resume runs/adding-0001`; `cornn resume --help` shows the options",
        ),
        (("protocol",), "choose a protocol"),
        (("figure",), "NAME is missing, for example `cornn figure spectrum`; `cornn figure --help` shows the options"),
        (("data", "get"), "SET is missing, for example `cornn data get mnist`; `cornn data --help` shows the options"),
        (("check",), "nothing to check: pass one of a run folder, --task, or --dt with --gamma and --epsilon, such as"),
        (("fit", "x.csv", "more.csv"), "unexpected argument 'more.csv'; `cornn fit --help`"),
        (
            ("train", "adding", "--lerning-rate", "1"),
            "unknown option '--lerning-rate' (did you mean --learning-rate?); `cornn train adding --help`",
        ),
        (
            ("train", "adding", "--half-lives", "1"),
            "--half-lives takes 2 numbers, got '1'; `cornn train adding --help`",
        ),
        (
            ("train", "adding", "--half-lives", "1", "b"),
            "--half-lives takes 2 numbers, got '1' 'b'; `cornn train adding",
        ),
        (
            ("train", "adding", "--model", "lem", "--layer", "dt"),
            "--layer takes names, each with a value, got 'dt'; `cornn train adding --help`",
        ),
        (
            ("train", "adding", "--model", "lem", "--layer", "dt", "big"),
            "dt of the layer of lem must be a number, got 'big'",
        ),
        (("train", "adding", "--model", "lstm", "--dt", "1"), "--dt is an option of cornn, the model is lstm: leave"),
        (
            ("train", "adding", "--layer", "dt", "1"),
            "--layer is an option of a rival, the model is cornn",
        ),
        (("search", "adding", "--model", "lem", "--no-centre"), "--centre is an option of cornn, the model is lem"),
        (("reproduce", "--budget-minutes", "nan"), "--budget-minutes must be finite and at least 0, got nan"),
        (("compare", "--budget-seconds", "-1"), "--budget-seconds must be finite and at least 0, got -1"),
        (("fit", "x.csv", "--epochs"), "--epochs needs a value; `cornn fit --help` shows the options"),
        (("data", "gte", "mnist"), "unexpected argument 'gte': choose one of list, get; `cornn data --help` shows"),
        (("data", "--dat", "x"), "unknown option '--dat' (did you mean --data?); `cornn data --help` shows"),
    ],
)
@pytest.mark.parametrize("columns", ["60", "300"])
def test_wrong_values_are_explained_in_one_line(cornn, monkeypatch, arguments, sentence, columns):
    monkeypatch.setenv("COLUMNS", columns)
    code, out, err = cornn(*arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"cornn: {sentence}")


@pytest.mark.parametrize(("corners", "side", "rule"), [("╭╮╰╯", "│", "─"), ("++++", "|", "-")])
def test_an_unknown_message_of_the_parser_is_one_line(corners, side, rule):
    top, bottom = (f"{one}{rule} Odd {rule * 9}{two}" for one, two in (corners[:2], corners[2:]))
    lines = ["Something \x1b[1mis\x1b[0m  ", "wrong.      ", rule * 12, "For full helptext, see cornn --help"]
    text = "\n".join([top, *(f"{side} {line} {side}" for line in lines), bottom])
    assert parsing._in_plain_words(text, None) == "Odd Something is wrong."


def test_a_missing_protocol_is_chosen_from_those_there_are(cornn, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    example = "for example `cornn protocol results/protocols/"
    assert cornn("protocol")[2].startswith(f"cornn: choose a protocol file, {example}psmnist-128.json`; there are none")
    folder = tmp_path / "results" / "protocols"
    folder.mkdir(parents=True)
    for name in ("one", "one-chosen", "one-more"):
        (folder / f"{name}.json").write_text("{}")
    assert cornn("protocol")[2] == f"cornn: choose a protocol: one, one-more; {example}one.json`\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_no_empty_defaults_and_no_redundant_flags(cornn, name):
    _, out, _ = cornn(name, *(["adding"] if name in ("train", "search") else []), "--help")
    assert "(default: None)" not in out
    assert "(default: )" not in out
    assert not {"--no-quiet", "--no-json", "--no-dry-run", "--no-balanced", "--no-strict"} & set(out.split())
    if name == "predict":
        assert out.startswith("usage: cornn predict [-h] MODEL DATA ")
    if name == "fit":
        assert "--no-report" in out


@pytest.mark.parametrize("command", ["train", "search"])
def test_without_a_task_the_tasks_are_listed(cornn, command):
    code, out, _ = cornn(command, "--help")
    assert code == 0
    assert all(f"\n  {task} " in out for task in TASKS)
    code, _, err = cornn(command)
    assert code == 2
    assert err == out
    assert "no task is given: choose one of" in cornn(command, "--seed", "1")[2]


def test_help_of_a_task_shows_the_values_of_its_recipe(cornn, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    code, out, _ = cornn("train", "adding", "--help")
    assert code == 0
    for word in ("--length", "--hidden-size", "--half-lives", "--seed", "--recipe", "Other recipes: paper"):
        assert word in out
    order = ("Adam's learning rate", "task options", "oscillator options", "optimisation options", "output options")
    assert sorted(map(out.index, order)) == list(map(out.index, order))


def test_every_setting_is_an_option_of_one_group():
    parts = {"task", "model", "optimiser", "budget", "place"}
    settings = {field.name for kind in (Train, CoRNNSpec, Optimiser, Budget, Place) for field in fields(kind)}
    grouped = [*MAIN, *(name for _, names in GROUPS.values() for name in names)]
    assert sorted(grouped) == sorted(settings - parts - {"name", "recipe"} | {"layer", "optimiser"})


def test_options_may_come_before_the_task(cornn):
    code, out, _ = cornn("train", "--seed", "3", "adding", "--dry-run")
    assert code == 0
    assert '"seed": 3' in out


def printed_configuration(out):
    return json.loads(out[: out.rindex("\n}") + 2])


@pytest.mark.parametrize(
    ("task", "recipe"),
    [
        pytest.param(task, recipe, marks=() if recipe in ("default", "paper") else pytest.mark.slow)
        for task in RECIPES
        for recipe in RECIPES[task]
    ],
)
def test_a_recipe_on_the_command_line_is_the_complete_recipe(cornn, task, recipe):
    """With the options of the task and the model that belong to it, so that it gives the results of the docs."""
    code, out, err = cornn("train", task, "--recipe", recipe, "--data", "nowhere", "--dry-run")
    assert code == 0, err
    complete = as_dictionary(resolve(task, recipe, data="nowhere"))
    assert printed_configuration(out) == complete


def test_an_option_overrides_the_one_of_the_recipe(cornn, tmp_path):
    recipe = ("train", "psmnist", "--recipe", "better-128", "--data", "nowhere", "--dry-run")
    config = printed_configuration(cornn(*recipe)[1])
    assert config["task"]["shift"] == 1
    changed = printed_configuration(cornn(*recipe, "--shift", "0")[1])
    assert changed == {**config, "task": {**config["task"], "shift": 0}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    file = ("train", "psmnist", "--config", "config.json", "--dry-run")
    assert printed_configuration(cornn(*file)[1]) == config
    assert printed_configuration(cornn(*file, "--shift", "0")[1]) == changed
    lstm = ("train", "lorenz96", "--recipe", "ours-cycle-lstm", "--dry-run")
    assert printed_configuration(cornn(*lstm)[1])["model"]["name"] == "lstm"
    assert printed_configuration(cornn(*lstm, "--model", "gru", "--force", "8")[1])["task"]["force"] == 8


def test_a_given_option_counts_even_if_it_equals_the_recipe(cornn):
    """--beta2 0.99 is what the recipe has for Adam; RMSprop's own default is another."""
    recipe = ("train", "adding", "--recipe", "paper", "--dry-run", "--optimiser", "rmsprop")
    assert printed_configuration(cornn(*recipe)[1])["optimiser"]["beta2"] == 0.99
    assert printed_configuration(cornn(*recipe, "--beta2", "0.999")[1])["optimiser"]["beta2"] == 0.999
    assert "RMSprop has no first moment, but --beta1 is 0.9" in cornn(*recipe, "--beta1", "0.9")[2]
    both = ("train", "adding", "--dry-run", "--half-lives", "0.1", "10", "--gamma", "1")
    assert "--gamma, --half-lives and --periods each set the stiffness" in cornn(*both)[2]


def test_a_model_has_its_own_options(cornn, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    out = cornn("train", "adding", "--model", "lstm", "--help")[1]
    assert "--hidden-size" in out
    assert "--half-lives" not in out
    assert cornn("train", "adding", "--model", "lstm", "--dt", "0.1")[0] == 2
    code, out, _ = cornn("train", "adding", "--model", "lem", "--layer", "dt", "0.5", "--dry-run")
    assert code == 0
    assert printed_configuration(out)["model"]["constants"] == {"dt": 0.5}


def test_what_the_defaults_depend_on_is_given_once_and_completely(cornn, tmp_path):
    assert "--recipe: expected one argument; `cornn train adding --help`" in cornn("train", "adding", "--recipe")[2]
    (tmp_path / "x.json").write_text(cornn("train", "adding", "--steps", "3", "--dry-run")[1].partition("\n}")[0] + "}")
    both = ("train", "adding", "--config", "x.json", "--recipe", "paper")
    assert "--config replaces --recipe" in cornn(*both)[2]
    code, out, _ = cornn("train", "adding", "--config=x.json", "--model=gru", "--dry-run")
    assert code == 0
    assert printed_configuration(out)["model"] == {"name": "gru", "hidden_size": 128, "num_layers": 1}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_before_the_training_is_explained(cornn, monkeypatch, number):
    monkeypatch.setattr(training, "fit", lambda *_: os.kill(os.getpid(), number))
    handler = signal.getsignal(number)
    code, _, err = cornn("train", "adding", *SHORT)
    assert code == 128 + number
    assert err == "cornn: stopped; no run folder was written.\n"
    assert signal.getsignal(number) == handler


def test_doctor_names_every_backend_and_says_why(cornn):
    code, out, _ = cornn("doctor")
    assert code == 0
    for name in engine.BACKENDS:
        assert name in out
    assert "chosen" in out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("evaluate", "nowhere"), "cornn: nowhere does not exist: pass a run folder of `cornn train`\n"),
        (("resume", "nowhere"), "cornn: nowhere does not exist: pass a run folder of `cornn train`\n"),
        (
            ("evaluate", "."),
            "cornn: . is not a saved folder: it has no config.json; pass a run folder of `cornn train`\n",
        ),
        (("predict", "nowhere", "file"), "cornn: nowhere does not exist: pass a folder of `cornn fit`, or a file that"),
        (("protocol", "nowhere"), "cornn: nowhere does not exist: pass a protocol such as results/protocols/"),
        (("protocol", "file"), "cornn: file is not a protocol, since it is not a JSON object: pass a protocol such"),
        (("train", "adding", "--config", "file"), "cornn: file is damaged: "),
        (
            ("figure",),
            "cornn: NAME is missing, for example `cornn figure spectrum`; `cornn figure --help` shows the options",
        ),
        (("train", "adding", *SHORT, "--dt", "2"), "cornn: --dt must lie in (0, 1), got 2.0"),
        (("train", "adding", *SHORT, "--gamma", "-1"), "cornn: --gamma must not be below 0, got -1.0"),
        (("train", "adding", *SHORT, "--epsilon", "nan", "--gamma", "1"), "cornn: --epsilon must be finite"),
        (
            ("train", "adding", *SHORT, "--length", "1"),
            "cornn: --length is 1: the adding problem needs at least two",
        ),
        (("train", "adding", *SHORT, "--backend", "fast"), "cornn: unknown backend 'fast': choose one of auto"),
        (("train", "adding", *SHORT, "--out", "file/run"), "cornn: cannot write the run folder file/run"),
    ],
)
def test_errors_are_one_line_and_exit_code_2(cornn, tmp_path, arguments, sentence):
    (tmp_path / "file").write_text("")
    code, _, err = cornn(*arguments)
    assert code == 2
    assert err.startswith(sentence)
    assert err.count("\n") == 1
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (
            RuntimeError("[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory"),
            "DefaultCPUAllocator: can't allocate memory",
        ),
        (
            RuntimeError("[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by peer"),
            "Connection closed by peer",
        ),
        (MemoryError("Unable to allocate 8 EiB for an array"), "Unable to allocate 8 EiB for an array"),
        (ValueError("[1, 2] is no size: choose [a.b:3]"), "[1, 2] is no size: choose [a.b:3]"),
    ],
)
def test_errors_name_no_place_in_the_source_of_other_libraries(cornn, monkeypatch, error, sentence):
    def fail(arguments):
        raise error

    monkeypatch.setattr("cornn.cli.run", fail)
    assert cornn("doctor") == (2, "", f"cornn: {sentence}\n")


@pytest.mark.parametrize("arguments", [("train", "addition"), ("train", "adding", "--length", "long"), ("fly",)])
def test_what_cannot_be_parsed_exits_with_2(cornn, arguments):
    code, out, err = cornn(*arguments)
    assert code == 2
    assert "Traceback" not in out + err


def test_a_run_folder_is_not_overwritten(cornn):
    cornn("train", "adding", *SHORT, "--out", "here")
    code, _, err = cornn("train", "adding", *SHORT, "--out", "here")
    assert code == 2
    assert err == "cornn: here already contains a run: choose another --out, or remove it\n"


@pytest.mark.parametrize("given", [{"gamma": 1.0}, {"half_lives": (0.1, 1.0)}, {"periods": (0.1, 1.0)}])
def test_what_sets_the_stiffness_replaces_what_the_recipe_set_it_with(given):
    for recipe in RECIPES["psmnist"]:
        found = resolve("psmnist", recipe, **given).model
        names = ALTERNATIVES["the stiffness"]
        assert {name: getattr(found, name) for name in names} == dict.fromkeys(names) | given


def test_an_unknown_recipe_and_model(cornn):
    assert (
        "unknown recipe of adding 'mine': choose one of ours, paper" in cornn("train", "adding", "--recipe", "mine")[2]
    )
    assert (
        "unknown model 'lsmt': did you mean 'lstm'? choose one of cornn, lstm"
        in cornn("train", "adding", *SHORT, "--model", "lsmt")[2]
    )


def test_the_installed_program_answers():
    environment = {**os.environ, "PYTHONWARNINGS": ""}
    done = subprocess.run([sys.executable, "-m", "cornn", "--help"], capture_output=True, text=True, env=environment)
    assert done.returncode == 0
    assert "usage: cornn" in done.stdout


@pytest.mark.parametrize(
    ("part", "name", "value", "words"),
    [
        ("optimiser", "learning_rate", "0.1", "learning_rate must be a number, got '0.1'"),
        ("optimiser", "schedule", [], "unknown schedule []: choose one of constant, cosine, drop"),
        ("optimiser", "clip", True, "clip must be a number, got True"),
        ("optimiser", "clip", 10**400, "clip must be finite"),
        ("model", "dt", None, "dt must be a number, got None"),
        ("model", "half_lives", [1, 2, 3], "half_lives must be a list of 2 numbers, got [1, 2, 3]"),
        ("model", "name", [], "unknown model []: choose one of cornn, lstm"),
        ("budget", "steps", 1e29, "steps must be a whole number, got 1e+29"),
        ("budget", "steps", 10**29, "steps must be at most 1e+12"),
        ("budget", "keep", [], "unknown keep []: choose one of best, last"),
        ("task", "length", "100", "length must be a whole number, got '100'"),
        ("task", "name", ["adding"], "unknown task ['adding']: choose one of adding"),
        ("place", "devices", "x", "devices must be a whole number, got 'x'"),
        ("place", "devices", 1000000, "devices must be at most 1,024, got 1,000,000"),
        (None, "seed", "0/../../elsewhere", "seed must be a whole number"),
        (None, "optimiser", [], "not a configuration: it has no 'optimiser'"),
    ],
)
def test_a_configuration_with_values_of_another_kind(cornn, tmp_path, part, name, value, words):
    config = as_dictionary(resolve("adding"))
    (config if part is None else config[part])[name] = value
    (tmp_path / "changed.json").write_text(json.dumps(config))
    code, _, err = cornn("train", "adding", "--config", "changed.json", "--dry-run")
    assert code == 2
    assert err.startswith(f"cornn: changed.json: {words}")
    assert err.count("\n") == 1


def test_a_configuration_of_a_recipe_that_is_not_there_any_more(cornn, tmp_path):
    cornn("train", "adding", *SHORT, "--out", "here")
    config = json.loads((tmp_path / "here" / "config.json").read_text())
    (tmp_path / "changed.json").write_text(json.dumps(config | {"recipe": "gone"}))
    code, out, err = cornn("train", "adding", "--config", "changed.json", "--out", "there")
    assert code == 0, err
    assert "recipe: gone" in out
    assert cornn("train", "adding", "--config", "changed.json", "--help")[0] == 0


def test_quiet_is_the_closing_lines_only(cornn):
    _, out, _ = cornn("train", "adding", *SHORT, "--quiet")
    assert len(out.splitlines()) == 2


def test_several_seeds_are_not_one_run_and_all_of_a_report(cornn, tmp_path):
    cornn("train", "adding", *SHORT, "--seeds", "2", "--out", "both")
    code, _, err = cornn("evaluate", "both")
    assert code == 2
    assert "both contains the runs of several seeds: choose one of them, such as both/seed-0" in err
    sources = report._collect((tmp_path / "both",))
    assert [one["path"] for one in records.read(sources, "adding")] == sources
    assert records.read(sources, "psmnist") == []
    path = records.write(records.record(runs.Run(sources[0])), tmp_path / "results")
    both = records.read([tmp_path / "both/seed-1", tmp_path / "results"], "adding")
    assert [one["path"] for one in both] == [sources[1], path]
    assert len(records.read([tmp_path / "results", *sources], "adding")) == 2  # a run counts once
    (tmp_path / "nothing").mkdir()
    code, _, err = cornn("report", "nothing")
    assert code == 2
    assert "no records under nothing" in err


def test_a_report_has_the_seeds_that_are_done(tmp_path):
    for seed in (0, 1):
        (tmp_path / f"seed-{seed}").mkdir()
    (tmp_path / "seeds.json").write_text("{}")
    with pytest.raises(ValueError, match=r"no seed of .* has finished: continue with `cornn resume"):
        report._runs(tmp_path)
    (tmp_path / "seed-1").rmdir()
    runs.create(tmp_path / "seed-1", {}).save_result({})
    assert report._runs(tmp_path) == [tmp_path / "seed-1"]


def test_a_seed_that_did_not_finish_is_in_the_table(capsys):
    done = {"seed": 0, "test": 97.5, "validation": 96.5, "steps": 1200, "seconds": 3.0, "better": "higher"}
    runs = [
        types.SimpleNamespace(result=done, config={"seed": 0}),
        types.SimpleNamespace(result=None, config={"seed": 1}),
    ]
    summary = {
        "metric": "accuracy",
        "better": "higher",
        "failures": {},
        "interval_95": None,
        "deviation": None,
        "mean": 97.5,
        "best": 97.5,
    }
    screen = Console(width=120, force_terminal=False)
    progress.print_summary(screen, progress.OutputOptions(), Path("here"), summary | {"finished": 1, "seeds": 2}, runs)
    rows = capsys.readouterr().out.splitlines()
    assert rows[1].split()[:3] == ["0", "97.50", "96.50"]
    assert rows[2].split() == ["1", "not", "finished"]


def test_the_bar_shows_what_is_known(capsys):
    with ExitStack() as stack:
        watch = progress._bar(Console(width=120, force_terminal=True), stack)
        watch(training.Progress(4, 4, 1, 2, sequences=2, seconds=1.0, loss=0.25, metric=91.5, evaluations=()))
    assert "epoch 1/2  loss 0.2500  validation 91.5" in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", capsys.readouterr().out)


def test_the_source_of_a_recipe_is_not_printed_for_another_model(cornn):
    source = RECIPES["adding"]["ours"].source
    assert f"recipe: ours, {source}" in cornn("train", "adding", *SHORT)[1]
    out = cornn("train", "adding", "--model", "gru", *SHORT)[1]
    assert "recipe: ours with another model\n" in out
    assert source not in out


def test_the_bar_of_fit_counts_epochs_only_if_there_are_any(capsys):
    def show(*rows):
        terminal = Console(width=120, force_terminal=True)
        fit.FitCommand(Path("waves.csv"))._train_with_progress(
            terminal, lambda watch, describe: [watch(row) for row in rows]
        )
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", capsys.readouterr().out)

    bank = show()
    assert "reading and fitting" in bank
    assert "epoch" not in bank
    assert "left" not in bank
    assert "epoch 2 of 4, loss 0.25 training" in show({"epoch": 2, "epochs": 4, "training": 0.25})


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("train", "har2", "--held-people", 30), "--held-people must be below the 21 people to train on, got 30"),
        (("train", "har2", "--data", "nowhere", "--seeds", 0), "--seeds must be above 0, got 0"),
        (("train", "psmnist", "--shift", -1), "--shift must not be below 0, got -1"),
        (("train", "psmnist", "--backend", "fast"), "unknown backend 'fast': choose one of auto"),
        (("train", "psmnist", "--model", "unicornn", "--layer", "dt", 5), "dt=5.0 with alpha=30.65 diverges"),
        (
            ("train", "adding", "--epochs", 3),
            "adding draws new sequences at every step and has no epochs: give --steps",
        ),
        (("train", "adding", "--steps", 3, "--epochs", 3), "--steps and --epochs each set how long to train: give"),
        (("train", "adding", "--gamma", 1, "--periods", 1, 2), "--gamma, --half-lives and --periods each set the"),
        (("train", "adding", "--half-lives", 2, 1), "--half-lives must be the shortest and the longest, above 0"),
        (("train", "adding", "--learning-rate", 0), "--learning-rate must be above 0, got 0.0"),
        (("train", "adding", "--beta1", 1), "--beta1 must lie in [0, 1), got 1.0"),
        (("train", "adding", "--optimiser", "rmsprop", "--beta1", 0.5), "but --beta1 is 0.5: use --beta1 0"),
        (("train", "adding", "--schedule", "drop"), "the schedule drop needs --drop-after, and --drop-after the"),
        (
            ("train", "adding", "--model", "lstm", "--theory"),
            "--theory needs the model cornn, got lstm: use --no-theory",
        ),
        (("train", "adding", "--rebase-every", 9), "--rebase-every is for dtriv, the model is cornn: leave it at 0"),
        (("search", "adding", "--hidden-size", 0), "--hidden-size must be above 0, got 0"),
        (("search", "noisy-cifar10", "--standard", "--whiten", 0.1), "use --no-standard with --whiten"),
        (("search", "adding", "--trials", 0, "--dry-run"), "--trials must be above 0, got 0"),
        (("search", "adding", "--workers", 0), "--workers must be above 0, got 0"),
        (("compare", "har2", "--trial", 0), "--trial must be above 0, got 0"),
        (("reproduce", "har2", "--seeds", 0), "--seeds must be above 0, got 0"),
    ],
)
def test_errors_name_the_options_before_data_are_read(cornn, tmp_path, monkeypatch, arguments, sentence):
    monkeypatch.setenv("CORNN_DATA", str(tmp_path / "no data here"))
    code, _, err = cornn(*arguments)
    assert code == 2
    assert sentence in err
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["train", "search"])
def test_errors_of_a_configuration_file_name_its_settings(cornn, tmp_path, command):
    content = as_dictionary(resolve("har2"))
    content["task"]["held_people"] = 30
    (tmp_path / "mine.json").write_text(json.dumps(content))
    code, _, err = cornn(command, "har2", "--config", "mine.json")
    assert (code, err) == (2, "cornn: mine.json: held_people must be below the 21 people to train on, got 30\n")


@pytest.mark.parametrize(
    ("arguments", "work"),
    [
        (("report", ".", "--out", "file/page.html"), "cornn.cli.report.page"),
        (("figure", "spectrum", "--out", "file/figure"), "cornn.cli.figure.save"),
        (("check", "--dt", 0.1, "--gamma", 1, "--epsilon", 1, "--html", "file/page.html"), "cornn.cli.check.diagnose"),
        (("demo", "--out", "file/page.html"), "cornn.cli.demo.race"),
    ],
)
def test_a_file_that_cannot_be_written_is_an_error_before_the_work(cornn, tmp_path, monkeypatch, arguments, work):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(work, lambda *_, **__: pytest.fail("it has worked"))
    code, out, err = cornn(*arguments)
    assert (code, out) == (2, "")
    assert err == f"cornn: cannot write {arguments[-1]} (Not a directory): choose another path\n"


def test_a_wrong_length_of_the_demo_is_an_error_before_anything_is_printed(cornn):
    sentence = "cornn: --length is 1: the adding problem needs at least two steps\n"
    assert cornn("demo", "--length", 1) == (2, "", sentence)


def test_the_plan_names_its_experiments_in_a_narrow_terminal(cornn, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = cornn("reproduce", "har2", "--dry-run")
    assert code == 0
    assert "…" not in out
    assert "…" not in cornn("data")[1]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux")
def test_output_that_cannot_be_written_is_an_error_of_one_line():
    command = [sys.executable, "-m", "cornn", "--help"]
    environment = {**os.environ, "PYTHONUNBUFFERED": ""}
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, env=environment)
    words = "cornn: cannot write the output (No space left on device): choose another place\n"
    assert (done.returncode, done.stderr) == (2, words)


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX")
def test_a_closed_pipe_ends_the_program_without_a_message():
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "cornn", "--help"]
    with os.fdopen(writing, "w") as pipe:
        done = subprocess.run(command, stdout=pipe, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (141, "")


def test_a_bar_is_not_updated_at_every_step(monkeypatch):
    """An update takes longer than a training step of a small network on a GPU."""
    updates = []
    monkeypatch.setattr(progress.Bar, "update", lambda self, task, **fields: updates.append(fields["completed"]))
    monkeypatch.setattr(progress.time, "monotonic", lambda: 100.0)
    with ExitStack() as stack:
        watch = progress._bar(Console(), stack)
        for step in range(1, 11):
            watch(training.Progress(step, 10, None, None, 1, 0.0, None, None, ()))
    assert updates == [1, 10]
