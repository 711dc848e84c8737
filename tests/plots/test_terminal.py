import math

import pytest

from cornn.plots.terminal import draw_curves


def drawing(text):
    """A golden drawing, without the indentation of the source."""
    return "\n".join(line[4:].rstrip() for line in text.strip("\n").splitlines()).rstrip()


def test_one_curve():
    points = [(0, 1.0), (5, 0.3), (10, 0.02)]
    assert draw_curves({"": points}, width=20, height=6, goal=0.05, title="MSE", x_label="epoch") == drawing("""
    MSE
    ┄ goal 0.05
           1 ┤●··
         0.5 ┤   ·····
         0.2 ┤        ··●·
         0.1 ┤            ···
        0.05 ┤┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄···┄┄
        0.02 ┤                  ·●
             └────────────────────
              0      epoch      10
    """)


def test_two_curves():
    curves = {"one": [(1, 1.0), (2, 0.1), (3, 0.01)], "other": [(1, 1.0), (3, 1.0)]}
    assert draw_curves(curves, width=21, height=5) == drawing("""
    ● one   ▲ other
           1 ┤●···················▲
         0.2 ┤   ·····
         0.1 ┤        ··●··
        0.02 ┤             ·····
        0.01 ┤                  ··●
             └─────────────────────
              1                   3
    """)


def test_three_curves_with_a_logarithmic_x():
    curves = {
        "fast": [(0.1, 0.2), (0.2, 0.1), (0.4, 0.01)],
        "slow": [(1, 0.2), (10, 0.2)],
        "late": [(2, 0.2), (10, 0.008)],
    }
    assert draw_curves(curves, width=30, height=5, goal=0.01, x_label="seconds", log_x=True) == drawing("""
    ● fast   ▲ slow   ■ late   ┄ goal 0.01
         0.2 ┤●··           ▲····■·········▲
         0.1 ┤   ·●                ··
        0.05 ┤     ··                ···
        0.02 ┤       ··                 ··
        0.01 ┤┄┄┄┄┄┄┄┄┄●┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄·■
             └──────────────────────────────
              0.1         seconds         10
    """)


def test_two_evaluations_are_a_line_and_not_a_block():
    rows = draw_curves({"": [(100, 0.17), (200, 0.003)]}, width=40, height=8).splitlines()[:8]
    cells = [row.partition("│")[2] or row.partition("┤")[2] for row in rows]
    assert sum(cell.count("●") for cell in cells) == 2
    assert sum(cell.count("·") for cell in cells) == 38


def test_a_constant_is_a_flat_line():
    lines = draw_curves({"": [(1, 0.5), (2, 0.5), (3, 0.5)]}, width=9, height=5).splitlines()
    assert [line for line in lines if "●" in line] == ["     0.5 ┤●···●···●"]


def test_values_that_cannot_be_drawn_leave_a_gap():
    points = [(0, 1.0), (1, math.nan), (2, 0.1), (3, math.inf), (4, -1.0), (5, 0.0), (6, 0.1)]
    text = draw_curves({"": points}, width=13, height=4)
    assert text.count("●") == 3
    assert "·" not in text


@pytest.mark.parametrize("points", [[], [(1, math.nan), (2, -1.0)]])
def test_nothing_to_show(points):
    assert draw_curves({"": points}, title="MSE") == "MSE (nothing to show yet)"


def test_one_point():
    lines = draw_curves({"": [(100, 0.5)]}, width=10, height=3).splitlines()
    assert lines[1] == "     0.5 ┤●"
    assert lines[-1] == " " * 10 + "100"


def test_curves_on_top_of_each_other_take_turns():
    flat = [(step, 0.2) for step in range(10)]
    text = draw_curves({"one": flat, "other": flat}, width=40, height=3)
    body = text.partition("\n")[2]
    assert body.count("●") == body.count("▲") == 5


def test_it_fits_80_columns():
    text = draw_curves({name: [(1, 0.9), (400, 0.001)] for name in ("coRNN", "LSTM", "GRU")}, goal=0.01)
    assert max(map(len, text.splitlines())) <= 80
