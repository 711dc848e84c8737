"""Tables of docs/theory.md and docs/appendix-theory.md, from the register and results/theory."""

import json
from collections.abc import Callable
from pathlib import Path
from statistics import mean

from cornn.lab.config import from_dictionary
from cornn.lab.tasks import Adding
from cornn.theory.register import REGISTER

RESULTS = Path(__file__).resolve().parents[1] / "results" / "theory"


def _plain(text: str) -> str:
    """Escape bars, which end a cell, and stars, which start italics."""
    return text.replace("|", "\\|").replace("*", "\\*")


def register() -> str:
    """Every claim with its verdict."""
    lines = ["| label | claim | verdict | remark |", "| --- | --- | --- | --- |"]
    for statement in REGISTER:
        cells = (statement.label, _plain(statement.claim), f"**{statement.verdict}**", _plain(statement.remark))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def counterexamples() -> str:
    """Counterexamples: claimed and measured values."""
    rows = json.loads((RESULTS / "counterexamples.json").read_text(encoding="utf8"))["rows"]
    lines = ["| claim | counterexample | claimed | measured | reach |", "| --- | --- | ---: | ---: | --- |"]
    for row in rows:
        sign = ">=" if row["needs_more"] else "<="
        setting, reach = _plain(row["setting"]), _plain(row["reach"])
        claimed = f"{sign} {row['claimed']:.3g}"
        lines.append(f"| {row['label']} | {setting} | {claimed} | {row['measured']:.3g} | {reach} |")
    return "\n".join(lines)


def starts() -> str:
    """The paper's tasks before training: hypotheses, proven and measured products."""
    rows = json.loads((RESULTS / "starts.json").read_text(encoding="utf8"))["rows"]
    lines = [
        "| task, steps | T dt | eq:assm, left / right side | C of eq:nassm | dt / stability limit "
        "| growth per step, bound | norm of the product, bound | measured |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, row in rows.items():
        lines.append(
            f"| {name}, {row['steps']:,} | {row['time']:.0f} | {row['assumption']:.2f} | {row['constant']:.2f} "
            f"| {row['share_of_limit']:.2f} | {row['rate']:.4f} "
            f"| 10^{row['bound']:.1f} | 10^{row['measured']:.1f} |"
        )
    return "\n".join(lines)


def watched() -> str:
    """Metrics of `theory.watch` during training with the paper's settings."""
    groups: dict[str, list[dict]] = {}
    for path in sorted(RESULTS.glob("watch-*.json")):
        record = json.loads(path.read_text(encoding="utf8"))
        config = from_dictionary(record["config"])
        length = f", T = {config.task.length}" if isinstance(config.task, Adding) else ""
        groups.setdefault(f"{config.task.name}{length}, {config.recipe}", []).append(record)
    lines = [
        "| task, recipe | runs | training steps | eq:assm, left / right side: start | end "
        "| larger norm of W, W_z at the end | Lyapunov exponent per step | time spent on watching |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, records in groups.items():
        first, last = ([record["rows"][place]["theory"] for record in records] for place in (0, -1))
        lines.append(
            f"| {name} | {len(records)} | {records[0]['rows'][-1]['step']:,} "
            f"| {_range(_side(row) for row in first)} | {_range(_side(row) for row in last)} "
            f"| {_range(max(row['W_norm'], row['W_z_norm']) for row in last)} "
            f"| {_range(record['exponents'][0] for record in records)} "
            f"| {mean(record['share_of_watching'] for record in records):.1%} |"
        )
    return "\n".join(lines)


def _side(row: dict) -> float:
    return row["assumption"] / row["assumption_limit"]


def _range(values) -> str:
    low, *_, high = sorted(values)
    return f"{low:.2g} to {high:.2g}"


TABLES: dict[str, Callable[[], str]] = {
    "theory-register": register,
    "theory-counterexamples": counterexamples,
    "theory-starts": starts,
    "theory-watched": watched,
}
