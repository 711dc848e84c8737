"""A curve as text, for a terminal."""

import math
from collections.abc import Sequence

__all__ = ["curve"]

BLOCKS = " ▁▂▃▄▅▆▇█"


def curve(
    points: Sequence[tuple[float, float]],
    *,
    width: int = 60,
    height: int = 8,
    goal: float | None = None,
    title: str = "",
) -> str:
    """Bars of the values of (x, value) `points`, on a logarithmic scale, with a dotted line at `goal`."""
    points = [(x, value) for x, value in points if value > 0 and math.isfinite(value)]
    if not points:
        return f"{title} (nothing to show yet)"
    low = math.log10(min([value for _, value in points] + ([goal] if goal else [])))
    high = math.log10(max(value for _, value in points))
    low, high = low - 0.05, max(high, low + 0.1)
    last = points[-1][0]
    # One column shows the latest point at or before its x.
    columns = []
    for column in range(width):
        x = points[0][0] + (last - points[0][0]) * column / max(width - 1, 1)
        value = [value for at, value in points if at <= x + 1e-9][-1]
        columns.append((math.log10(value) - low) / (high - low) * height)
    goal_row = None if not goal else int((math.log10(goal) - low) / (high - low) * height)
    lines = []
    for row in reversed(range(height)):
        cells = [BLOCKS[max(0, min(8, math.ceil((level - row) * 8)))] for level in columns]
        if row == goal_row:
            cells = [cell if cell != " " else "┄" for cell in cells]
        label = 10 ** (low + (row + 0.5) / height * (high - low))
        mark = f" goal {goal:g}" if row == goal_row else ""
        lines.append(f"{label:8.2g} │{''.join(cells)}{mark}")
    lines.append(" " * 9 + "└" + "─" * width)
    lines.append(" " * 10 + f"{points[0][0]:<{width // 2}g}{last:>{width - width // 2}g}")
    return "\n".join(([title] if title else []) + lines)
