"""Figures: what they draw is right, and they are written as SVG and PNG."""

import base64
import json
import sys

import numpy as np
import pytest

from cornn.__main__ import main
from cornn.lab.config import as_dictionary
from cornn.lab.recipes import resolve
from cornn.lab.report.figures import FIGURES, save
from cornn.lab.report.figures import neurons as drawn
from cornn.lab.report.figures.ablation import ablation
from cornn.lab.report.figures.assumptions import assumptions, watched_rows
from cornn.plots.style import canvas, data_uri, styled

TIMES = np.arange(801) * drawn.DT


@pytest.mark.parametrize("name", ["SHO", "FDO", "coRNN"])
def test_the_recurrence_follows_the_ode(name):
    one = drawn.NEURONS[name]
    for input in (drawn.cosine, drawn.steps):
        np.testing.assert_allclose(
            drawn.recurrence(one, input, TIMES), drawn.solution(one, input, TIMES), atol=20 * drawn.DT
        )


def test_the_simple_oscillator_is_a_sine():
    np.testing.assert_allclose(
        drawn.solution(drawn.NEURONS["SHO"], drawn.cosine, TIMES)[:, 0], np.sin(TIMES), atol=1e-6
    )


def test_the_ordered_networks_first_neuron_is_the_uncoupled_one():
    first = {name: drawn.recurrence(one, drawn.cosine, TIMES)[:, 0] for name, one in drawn.NETWORKS.items()}
    np.testing.assert_array_equal(first["ORD"], first["UC"])
    assert np.abs(first["FC"] - first["UC"]).max() > 0.1


@pytest.mark.slow
def test_the_duffing_oscillator_blows_up_and_the_controlled_one_grows():
    times = np.arange(1501) * drawn.DT
    assert np.isnan(drawn.solution(drawn.NEURONS["DUFF"], drawn.cosine, times)[-1]).all()
    linear = drawn.solution(drawn.NEURONS["CFDO"], drawn.cosine, times)[:, 0]
    assert np.abs(linear[1000:]).max() > 4 * np.abs(linear[:500]).max()
    assert np.abs(drawn.solution(drawn.NEURONS["coRNN"], drawn.cosine, times)).max() < 2


def watched(path, name, seed, steps=5):
    rows = [
        {
            "step": 10 * number,
            "loss": 1.0,
            "theory": {
                "assumption": 0.2 + 0.1 * number,
                "assumption_limit": 0.3,
                "W_norm": 3.0,
                "W_z_norm": 4.0 + seed,
            },
        }
        for number in range(steps)
    ]
    config = as_dictionary(resolve("adding", "paper").override(recipe=name, length=50, hidden_size=8))
    path.write_text(json.dumps({"config": config, "rows": rows}), encoding="utf8")
    return path


def test_assumptions_are_averaged_over_runs_and_told_apart_by_task(tmp_path):
    paths = [watched(tmp_path / f"{name}{seed}.json", name, seed) for name in ("a", "b") for seed in (0, 2)]
    figure = assumptions(paths)
    left, right = figure.axes
    assert [line.get_label() for line in right.get_lines()] == [
        f"adding, T = 50, {name}, m = 8 (2 runs)" for name in ("a", "b")
    ]
    np.testing.assert_allclose(right.get_lines()[0].get_ydata(), 5.0)
    np.testing.assert_allclose(left.get_lines()[0].get_ydata()[0], 2 / 3)


def test_assumptions_say_what_they_need(tmp_path):
    path = watched(tmp_path / "run.json", "a", 0, steps=0)
    with pytest.raises(ValueError, match="contains no theory metrics"):
        assumptions([path])
    with pytest.raises(ValueError, match="give run folders"):
        assumptions([])


def test_figures_are_saved_twice_and_the_same_every_time(tmp_path):
    @styled
    def draw():
        figure, axes = canvas(1, 1, size=(2.0, 2.0))
        axes[0, 0].plot([0, 1], [0, 1])
        return figure

    first = [path.read_bytes() for path in save(draw(), tmp_path / "one" / "figure")]
    second = [path.read_bytes() for path in save(draw(), tmp_path / "two" / "figure")]
    assert first == second
    assert first[0].startswith(b"<?xml")
    assert first[1].startswith(b"\x89PNG")


def test_the_statements_are_drawn(tmp_path):
    figure = FIGURES["statements"]()
    assert len(figure.axes) == 4
    assert all(axes.get_xlabel() and axes.get_ylabel() and axes.get_title("left") for axes in figure.axes)


def test_lorenz96_is_drawn_for_both_forces():
    left, right = FIGURES["lorenz96"]().axes
    assert "F = 0.9" in left.get_title("left")
    assert "chaos" in right.get_title("left")
    assert np.ptp(right.get_lines()[0].get_xdata()) > 10 * np.ptp(left.get_lines()[0].get_xdata())


def run(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["cornn", "figure", *map(str, arguments)])
    try:
        main()
    except SystemExit as stop:
        return stop.code or 0
    return 0


def test_the_command_writes_both_files_and_names_them(monkeypatch, capsys, tmp_path):
    record = watched(tmp_path / "run.json", "a", 0)
    for out in ("figure", "figure.svg", "figure.png"):
        assert run(monkeypatch, "assumptions", record, "--out", tmp_path / out) == 0
        assert capsys.readouterr().out.split() == [str(tmp_path / "figure.svg"), str(tmp_path / "figure.png")]
    assert (tmp_path / "figure.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("portrait",), "cornn: unknown figure 'portrait': choose one of illustration, lorenz96"),
        (("lags", "here"), "cornn: the figure lags takes no run folders"),
        (("assumptions",), "cornn: give run folders"),
        (("assumptions", "nowhere"), "cornn: "),
    ],
)
def test_what_cannot_be_drawn_is_message_on_one_line(monkeypatch, capsys, arguments, sentence):
    assert run(monkeypatch, *arguments) == 2
    message = capsys.readouterr().err
    assert message.startswith(sentence)
    assert message.count("\n") == 1


def test_an_ablation_is_a_grid_of_means():
    figure = ablation({(1.0, 5.0): [50.0, 52.0], (1.0, 8.0): [58.0], (2.0, 5.0): [40.0]})
    panel = figure.axes[0]
    assert {text.get_text(): text.get_position() for text in panel.texts} == {
        "51.0": (0, 0),
        "58.0": (1, 0),
        "40.0": (0, 1),
    }
    assert [label.get_text() for label in panel.get_yticklabels()] == ["1", "2"]


def test_a_record_of_a_watched_training_is_read_row_by_row(tmp_path):
    content = json.loads(watched(tmp_path / "one.json", "a", 0).read_text(encoding="utf8"))
    rows = content.pop("rows")
    content["curve"] = {name: [row[name] for row in rows] for name in rows[0]}
    path = tmp_path / "record.json"
    path.write_text(json.dumps(content), encoding="utf8")
    assert watched_rows(path)[1] == rows


def test_underdamped_neurons_have_the_larger_effective_rank():
    overdamped, underdamped, values = FIGURES["spectrum"]().axes
    weights = [axes.images[0].get_array() for axes in (overdamped, underdamped)]
    assert [part.shape for part in weights] == [(128, 784)] * 2
    assert weights[0].min() >= 0 > weights[1].min()
    few, many = (int(text.get_text().split()[-1]) for text in values.texts)
    assert few < 10 < 50 < many


@pytest.mark.parametrize("content", ["[1]", "{}", "# no JSON"])
def test_what_is_no_record_is_not_drawn(tmp_path, content):
    (tmp_path / "file").write_text(content)
    with pytest.raises(ValueError, match="file is not a record of a run"):
        assumptions([tmp_path / "file"])


def test_names_in_any_alphabet_stay_text():
    figure, axes = canvas(size=(3.0, 2.0))
    axes[0][0].set_title("\u65e5\u672c")
    drawn = base64.b64decode(data_uri(figure).split(",")[1]).decode()
    assert "\u65e5\u672c" in drawn
