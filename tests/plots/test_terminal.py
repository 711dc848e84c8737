from cornn.plots.terminal import curve


def test_a_falling_curve_falls():
    lines = curve([(1, 1.0), (2, 0.1), (3, 0.01)], width=30, height=6, goal=0.02, title="MSE").splitlines()
    assert lines[0] == "MSE"
    bars = [line.split("│")[1] for line in lines[1:7]]
    heights = [sum(row[column] not in " ┄" for row in bars) for column in range(30)]
    assert heights[0] == 6
    assert heights == sorted(heights, reverse=True)
    assert heights[-1] < heights[0]
    assert "goal 0.02" in "\n".join(lines)


def test_one_point_no_point_and_nonsense():
    assert "nothing to show yet" in curve([], title="MSE")
    assert "nothing to show yet" in curve([(1, float("nan")), (2, -1.0)], title="MSE")
    assert "│" in curve([(100, 0.5)])
