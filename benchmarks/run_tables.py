"""The tables of runs: what they reached, beside what the paper says."""

from pathlib import Path

from cornn.report import tables
from cornn.tasks import TASKS

RESULTS = Path(__file__).resolve().parents[1] / "results"


def runs() -> str:
    """Every benchmark that has records: ours over the seeds, and the paper's best and mean."""
    lines = [
        "| task | model | test, mean ± deviation | best | seeds | paper: best; mean ± deviation | parameters | time |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for task in TASKS:
        for row in [] if task == "adding" else tables.rows(task, tables.reached(RESULTS, task)):
            ours, theirs = row.ours, row.published
            if ours is None:
                continue
            deviation = "" if ours.deviation is None else f" ± {ours.number(ours.deviation)}"
            mean = "" if theirs is None or theirs.mean is None else f"; {theirs.mean:g} ± {theirs.deviation:g}"
            lines.append(
                f"| {task}{f' ({ours.case})' if ours.case else ''} | {row.model}-{row.units} "
                f"| {ours.number(ours.mean)}{deviation} | {ours.number(ours.best)} | {len(ours.tests)} "
                f"| {'-' if theirs is None else f'{theirs.figure:g}{mean}'} | {ours.parameters:,} | {ours.time} |"
            )
    return "\n".join(lines)


TABLES = {"runs": runs}
