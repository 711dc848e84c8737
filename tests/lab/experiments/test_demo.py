import json
import math
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from cornn.cli.demo import DemoCommand
from cornn.lab.experiments import demo
from cornn.lab.experiments.demo_page import render_page

RECORD = Path(__file__).parents[3] / "results" / "demo-rates.json"


def errors(curves):
    return [[(one.step, one.error) for one in curve.evaluations] for curve in curves]


@pytest.fixture(scope="module")
def curves():
    return demo.race(length=6, steps=20)


def test_the_same_seed_gives_the_same_curves(curves):
    assert errors(curves) == errors(demo.race(length=6, steps=20))
    assert errors(curves) != errors(demo.race(length=6, steps=20, seed=1))


def test_the_models_have_the_same_size_and_steps(curves):
    assert [curve.title for curve in curves] == ["coRNN", "LSTM", "GRU"]
    assert {tuple(one.step for one in curve.evaluations) for curve in curves} == {(10, 20)}
    for curve in curves:
        assert demo.configure(curve.model).model.hidden_size == demo.HIDDEN_SIZE
        assert 0 < curve.evaluations[0].seconds < curve.last.seconds


def test_the_number_of_threads_is_restored():
    before = torch.get_num_threads()
    demo.race(length=4, steps=1, models=("cornn",))
    assert torch.get_num_threads() == before


def test_every_evaluation_is_reported():
    reported = []
    (curve,) = demo.race(length=4, steps=20, models=("gru",), report=lambda model, one: reported.append((model, one)))
    assert reported == [("gru", one) for one in curve.evaluations]


def test_a_model_that_stays_below_the_goal_stops(monkeypatch):
    monkeypatch.setattr(demo, "GOAL", 10.0)
    config = demo.configure("cornn", length=4, steps=60)
    assert demo.train(config, patience=2).last.step == 20
    assert demo.train(config).last.step == 60


def test_an_invalid_length_is_an_error():
    with pytest.raises(ValueError, match="length is 1"):
        demo.race(length=1, steps=1)


def with_errors(curve, *values):
    evaluations = tuple(demo.Evaluation(step, step / 10, value) for step, value in enumerate(values, 1))
    return replace(curve, evaluations=evaluations)


def test_solved_is_where_the_curve_stays_below_the_goal(curves):
    solved = with_errors(curves[0], 0.2, 0.005, 0.02, 0.009, 0.004)
    assert solved.solved is not None
    assert solved.solved.step == 4
    assert with_errors(curves[0], 0.001, 0.2).solved is None
    assert with_errors(curves[0], 0.001, math.nan).solved is None


def test_the_verdict(curves):
    found = demo.summarise(
        [
            with_errors(curves[0], 0.2, 0.005),
            with_errors(curves[1], 0.2, 0.16),
            with_errors(curves[2], 0.2, math.nan),
        ]
    )
    assert found == [
        "coRNN solved it after 2 steps, 0.2 s; its final error is 0.0050.",
        "LSTM did not solve it in 2 steps, 0.2 s: its error is 0.160.",
        "GRU diverged.",
    ]


def test_the_limits_agree_with_the_record():
    record = json.loads(RECORD.read_text(encoding="utf8"))
    assert record["chosen"] == demo.RATES
    assert (record["hidden_size"], record["batch_size"], record["goal"]) == (
        demo.HIDDEN_SIZE,
        demo.BATCH_SIZE,
        demo.GOAL,
    )
    grid = record["grid"]
    assert {(row["length"], row["steps"]) for row in grid} == {(demo.LENGTH, demo.STEPS)}
    assert 0 not in {row["seed"] for row in grid}

    def chosen(model, name):
        return [row[name] for row in grid if row["model"] == model and row["rate"] == demo.RATES[model]]

    assert len(chosen("cornn", "seed")) == len(chosen("gru", "seed")) == 4
    assert len({row["rate"] for row in grid}) == 6
    for model in ("cornn", "gru"):
        assert None not in chosen(model, "solved_after_steps")
    assert sum(chosen("gru", "solved_after_steps")) < sum(chosen("cornn", "solved_after_steps"))
    assert sum(chosen("gru", "error")) < sum(chosen("cornn", "error"))
    lstm = [row for row in grid + record["longer"] if row["model"] == "lstm"]
    assert {row["solved_after_steps"] for row in lstm} == {None}
    assert {row["steps"] for row in record["longer"]} == {5 * demo.STEPS}


def test_the_page_needs_no_other_file(curves):
    page = render_page(curves, length=6, seed=0)
    assert page.startswith("<!doctype html>")
    assert 'src="data:image/svg+xml;base64,' in page
    assert "http" not in page
    for curve in curves:
        assert f"{curve.parameters:,}" in page


@pytest.fixture
def quick(monkeypatch, curves):
    monkeypatch.setattr("cornn.cli.demo.race", lambda **options: curves)


@pytest.mark.usefixtures("quick")
def test_the_command_prints_the_curves_and_writes_the_page(tmp_path, capsys):
    DemoCommand(out=tmp_path / "new" / "demo.html").run()
    printed = capsys.readouterr().out
    assert "● coRNN   ▲ LSTM   ■ GRU   ┄ goal 0.01" in printed
    assert "results/demo-rates.json" in printed.replace("\n", "")
    assert max(len(row) for row in printed.splitlines() if "page:" not in row) <= 80
    assert (tmp_path / "new" / "demo.html").read_text(encoding="utf8").startswith("<!doctype html>")


@pytest.mark.usefixtures("quick")
def test_without_jinja_there_is_no_page(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    DemoCommand(out=tmp_path / "demo.html").run()
    assert "no page: the demo's page needs Jinja2 and matplotlib" in capsys.readouterr().out
    assert not (tmp_path / "demo.html").exists()


def test_a_folder_is_not_a_page(tmp_path):
    with pytest.raises(ValueError, match="name a file with --out"):
        DemoCommand(out=tmp_path).run()


def test_an_interruption_writes_nothing(cornn, tmp_path, monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("cornn.cli.demo.race", interrupted)
    code, _, err = cornn("demo", "--out", tmp_path / "demo.html")
    assert code == 130
    assert err == "cornn: stopped; nothing was written.\n"
    assert not (tmp_path / "demo.html").exists()
