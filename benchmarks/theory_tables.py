"""Tables of docs/theory.md and docs/appendix-theory.md, from the register and results/theory."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from cornn._json import read_json
from cornn.lab import records
from cornn.lab.config import Train, from_dictionary
from cornn.lab.tasks import TASKS, Adding
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
    rows = read_json(RESULTS / "counterexamples.json")["rows"]
    lines = ["| claim | counterexample | claimed | measured | reach |", "| --- | --- | ---: | ---: | --- |"]
    for row in rows:
        sign = ">=" if row["needs_more"] else "<="
        setting, reach = _plain(row["setting"]), _plain(row["reach"])
        claimed = f"{sign} {row['claimed']:.3g}"
        lines.append(f"| {row['label']} | {setting} | {claimed} | {row['measured']:.3g} | {reach} |")
    return "\n".join(lines)


def starts() -> str:
    """The paper's tasks before training: hypotheses, proven and measured products."""
    rows = read_json(RESULTS / "starts.json")["rows"]
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
    """Metrics of `theory.watch` during training with the paper's settings: complete trainings, then short ones."""
    groups: dict[str, list[Watched]] = {}
    for task in TASKS:
        for record in records.read(RESULTS.parent, task):
            config = records.read_config(record)
            if config.theory and record["curve"]:
                run = Watched(record["curve"]["step"][-1], record["curve"]["theory"])
                groups.setdefault(f"{_case(config)}, complete{records.mark([record['result']])}", []).append(run)
    for path in sorted(RESULTS.glob("watch-*.json")):
        record = read_json(path)
        rows = record["rows"]
        theory = [row["theory"] for row in rows]
        run = Watched(rows[-1]["step"], theory, record["exponents"][0], record["share_of_watching"])
        groups.setdefault(_case(from_dictionary(record["config"])), []).append(run)
    lines = [
        "| task, recipe | runs | training steps | eq:assm, left / right side: first | last "
        "| larger norm of W, W_z at the end | Lyapunov exponent per step | time spent on watching |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, runs in groups.items():
        first, last = ([run.rows[place] for run in runs] for place in (0, -1))
        exponents = [run.exponent for run in runs if run.exponent is not None]
        shares = [run.share for run in runs if run.share is not None]
        lines.append(
            f"| {name} | {len(runs)} | {runs[0].steps:,} "
            f"| {_range(map(_side, first))} | {_range(map(_side, last))} "
            f"| {_range(max(row['W_norm'], row['W_z_norm']) for row in last)} "
            f"| {_range(exponents)} | {f'{mean(shares):.1%}' if shares else '-'} |"
        )
    return "\n".join(lines)


@dataclass(frozen=True)
class Watched:
    """What a training recorded of the theory."""

    steps: int
    rows: list[dict]
    exponent: float | None = None
    share: float | None = None  # of the training time


def _case(config: Train) -> str:
    length = f", T = {config.task.length:,}" if isinstance(config.task, Adding) else ""
    return f"{config.task.name}{length}, {config.recipe}"


def _side(row: dict) -> float:
    return row["assumption"] / row["assumption_limit"]


def _range(values: Iterable[float]) -> str:
    ends = sorted(values)
    return " to ".join(dict.fromkeys(f"{end:.2g}" for end in (ends[0], ends[-1]))) if ends else "-"


TABLES: dict[str, Callable[[], str]] = {
    "theory-register": register,
    "theory-counterexamples": counterexamples,
    "theory-starts": starts,
    "theory-watched": watched,
}
