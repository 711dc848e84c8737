"""A sequence is drawn with the colours of its attributions."""

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from matplotlib.colors import to_rgba

from cornn.plots.attributions import AGAINST, FOR, MAX_FEATURES, draw_attributions


def coloured(panel):
    (lines,) = panel.collections
    return lines


def test_every_value_has_the_colour_of_its_attribution():
    values, attributions = np.array([1.0, 3.0, 2.0]), np.array([[2.0], [-2.0], [0.0]])
    figure = draw_attributions(values, attributions, title="$ is no formula")
    lines = coloured(figure.axes[0])
    figure.canvas.draw()
    colours = lines.to_rgba(lines.get_array())
    np.testing.assert_allclose(colours[:2], [to_rgba(FOR), to_rgba(AGAINST)], atol=0.01)
    assert [path.vertices.tolist() for path in lines.get_paths()] == [
        [[0, 1], [0, 1], [0.5, 2]],
        [[0.5, 2], [1, 3], [1.5, 2.5]],
        [[1.5, 2.5], [2, 2], [2, 2]],
    ]


def test_missing_values_have_marks_and_padding_is_cut():
    values = np.array([[1.0, 0.0], [np.nan, 1.0], [3.0, 2.0]])
    figure = draw_attributions(values, np.ones((5, 2)), times=[0.0, 0.5, 2.0], features=["speed", "force"])
    first, second = figure.axes[:2]
    assert (first.get_ylabel(), second.get_ylabel(), second.get_xlabel()) == ("speed", "force", "time")
    assert len(coloured(first).get_paths()) == 2
    assert [line.get_xdata()[0] for line in first.lines if line.get_marker() == "|"] == [0.5]
    assert not [line for line in second.lines if line.get_marker() == "|"]


def test_of_many_features_those_with_the_largest_attributions_are_drawn():
    count = MAX_FEATURES + 3
    figure = draw_attributions(np.zeros((4, count)), np.tile(np.arange(count), (4, 1)))
    names = [panel.get_ylabel() for panel in figure.axes[:-1]]
    assert names == [f"feature {number}" for number in range(3, count)]


def test_a_sequence_without_effect_is_grey():
    figure = draw_attributions(np.arange(4.0), np.zeros((4, 1)))
    assert coloured(figure.axes[0]).get_clim() == (-1, 1)


def test_a_single_value_is_a_point_of_its_colour():
    figure = draw_attributions(np.array([3.0]), np.array([[2.0]]))
    _, point = figure.axes[0].collections
    assert point.get_offsets().tolist() == [[0.0, 3.0]]
    np.testing.assert_allclose(point.get_facecolor(), [to_rgba(FOR)], atol=0.01)


def test_dates_are_written_as_dates():
    times = np.datetime64("2026-03-01") + np.arange(4) * np.timedelta64(6, "h")
    figure = draw_attributions(np.arange(4.0), np.ones((4, 1)), times=times)
    figure.canvas.draw()
    assert "06:00" in [label.get_text() for label in figure.axes[0].get_xticklabels()]


def test_long_names_of_features_are_shortened():
    names = ["speed", "a name that is longer than its panel is high"]
    figure = draw_attributions(np.zeros((4, 2)), np.ones((4, 2)), features=names)
    assert [panel.get_ylabel() for panel in figure.axes[:2]] == ["speed", "a name that is longer t…"]
