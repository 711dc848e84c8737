"""Curves as text, for a terminal."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise

__all__ = ["MARKERS", "draw_curves"]

MARKERS = "●▲■◆"
"""The mark of each curve's points, in order; they tell the curves apart without colour."""

LABEL = 9  # columns left of the axis
TICKS = (1, 2, 5)  # leading digits of the labels
SMALLEST_RANGE = 0.2  # in decades: a constant is drawn as a flat line in the middle
MARGIN = 0.02  # share of the range above the largest value and below the smallest one


def draw_curves(
    curves: Mapping[str, Sequence[tuple[float, float]]],
    *,
    width: int = 64,
    height: int = 10,
    goal: float | None = None,
    title: str = "",
    x_label: str = "",
    log_x: bool = False,
) -> str:
    """Draw curves on a logarithmic scale: a marker per point, dots between points, a dashed line at the goal.

    Args:
        curves: The points (x, value) of each curve, by its name, x ascending. Values that are not finite or not
            positive leave a gap. A single curve needs no name: use `""`.
        width: Columns inside the axes; the text is ten columns wider.
        height: Rows inside the axes.
        goal: The value to reach, above 0.
        title: The first line.
        x_label: What x is.
        log_x: Whether the scale of x is logarithmic too; then every x must be above 0.

    Returns:
        Lines of text without colour, joined by newlines.

    Examples:
        >>> print(draw_curves({"a": [(0, 1.0), (9, 0.1)]}, width=10, height=3, x_label="step"))
        ● a
               1 ┤●··
             0.2 ┤   ····
             0.1 ┤       ··●
                 └──────────
                  0  step  9
    """
    points_shown = [point for points in curves.values() for point in points if _is_shown(point)]
    if not points_shown:
        return f"{title} (nothing to show yet)".strip()
    left, right = min(x for x, _ in points_shown), max(x for x, _ in points_shown)
    values = [value for _, value in points_shown] + ([goal] if goal else [])
    low, high = _range(min(values), max(values))

    def cell(x: float, value: float) -> tuple[int, int]:
        """Return the row, counted from the top, and the column of a point."""
        first, at, last = (math.log(value) if log_x else value for value in (left, x, right))
        column = 0 if right == left else round((at - first) / (last - first) * (width - 1))
        return round((high - math.log10(value)) / (high - low) * (height - 1)), column

    grid = [[" "] * width for _ in range(height)]
    if goal:
        grid[cell(left, goal)[0]] = ["┄"] * width
    for points in curves.values():
        for first, second in pairwise(points):
            if _is_shown(first) and _is_shown(second):
                for row, column in _line(cell(*first), cell(*second)):
                    grid[row][column] = "·"
    overlaps = 0
    for number, points in enumerate(curves.values()):
        marker = MARKERS[number % len(MARKERS)]
        for row, column in sorted({cell(*point) for point in points if _is_shown(point)}, key=lambda at: at[1]):
            if grid[row][column] in MARKERS:  # curves that lie on top of each other take turns
                overlaps += 1
                if overlaps % 2:
                    continue
            grid[row][column] = marker

    labels = _labels(min(values), max(values), lambda value: cell(left, value)[0])
    lines = [title] if title else []
    lines += [legend] if (legend := _legend(curves, goal)) else []
    for row, cells in enumerate(grid):
        edge = "┤" if row in labels else "│"
        lines.append(f"{labels.get(row, ''):>{LABEL - 1}} {edge}{''.join(cells)}".rstrip())
    lines.append(" " * LABEL + "└" + "─" * width)
    digits = ".3g" if log_x else "g"
    ends = f"{left:{digits}}", f"{right:{digits}}" if right > left else ""
    between = max(width - len(ends[0]) - len(ends[1]), 1)
    lines.append(" " * (LABEL + 1) + (ends[0] + f"{x_label:^{between}}" + ends[1]).rstrip())
    return "\n".join(lines)


def _is_shown(point: tuple[float, float]) -> bool:
    return math.isfinite(point[1]) and point[1] > 0


def _range(smallest: float, largest: float) -> tuple[float, float]:
    """Return the ends of the axis, as decimal logarithms."""
    low, high = math.log10(smallest), math.log10(largest)
    margin = max(MARGIN * (high - low), (SMALLEST_RANGE - (high - low)) / 2)
    return low - margin, high + margin


def _line(first: tuple[int, int], second: tuple[int, int]) -> Iterator[tuple[int, int]]:
    """Return the cells of a straight line, both ends included."""
    steps = max(abs(second[0] - first[0]), abs(second[1] - first[1]), 1)
    for step in range(steps + 1):
        share = step / steps
        yield round(first[0] + share * (second[0] - first[0])), round(first[1] + share * (second[1] - first[1]))


def _labels(smallest: float, largest: float, row_of: Callable[[float], int]) -> dict[int, str]:
    """Return row -> label: round values where at least two fit, else the smallest and the largest value."""
    labels = {}
    for power in range(math.floor(math.log10(smallest)), math.ceil(math.log10(largest)) + 1):
        for digit in TICKS:
            value = digit * 10.0**power
            if smallest <= value <= largest and (digit == 1 or row_of(value) not in labels):
                labels[row_of(value)] = f"{value:.3g}"
    return labels if len(labels) > 1 else {row_of(value): f"{value:.3g}" for value in (smallest, largest)}


def _legend(curves: Mapping[str, object], goal: float | None) -> str:
    names = [f"{MARKERS[number % len(MARKERS)]} {name}" for number, name in enumerate(curves) if name]
    return "   ".join(names + ([f"┄ goal {goal:g}"] if goal else []))
