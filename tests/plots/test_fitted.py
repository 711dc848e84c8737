"""Figures of the report of a fit."""

from types import SimpleNamespace

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("sklearn")

from cornn.plots.fitted import draw_confusion, draw_losses


def test_the_loss_of_a_single_epoch_is_a_point():
    axes = draw_losses([{"epoch": 1, "training": 0.5}]).axes[0]
    assert [line.get_xdata().tolist() for line in axes.lines if line.get_marker() == "."] == [[1]]


@pytest.mark.filterwarnings("error")
def test_losses_of_zero_are_drawn_on_a_linear_scale():
    axes = draw_losses([{"epoch": epoch, "training": 0.0} for epoch in (1, 2)]).axes[0]
    assert axes.get_yscale() == "linear"


@pytest.mark.parametrize(("classes", "rotation"), [(("a", "b"), 0), (("walking downstairs", "walking upstairs"), 45)])
def test_long_names_of_two_classes_do_not_overlap(classes, rotation):
    evaluation = SimpleNamespace(classes=classes, confusion=((3, 1), (0, 4)))
    (label, _) = draw_confusion(evaluation).axes[0].get_xticklabels()
    assert label.get_rotation() == rotation
