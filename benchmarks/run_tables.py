"""The tables of runs: our results and the paper's."""

from pathlib import Path

from cornn.baselines import MODELS
from cornn.lab.report import tables
from cornn.lab.tasks import TASKS

RESULTS = Path(__file__).resolve().parents[1] / "results"


def runs() -> str:
    """Every benchmark that has records: our mean over seeds, and the paper's best and mean."""
    lines = [
        "| task | model | test, mean ± std | best | seeds | paper: best; mean ± std | parameters | time |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for task in TASKS:
        for row in [] if task == "adding" else tables.rows(task, tables.group_runs(RESULTS, task)):
            ours, theirs = row.ours, row.published
            if ours is None:
                continue
            mean = "" if theirs is None or theirs.mean is None else f"; {theirs.mean:g} ± {theirs.deviation:g}"
            lines.append(
                f"| {task}{f' ({ours.case})' if ours.case else ''} | {row.model}-{row.units} "
                f"| {ours.summary} | {ours.number(ours.best)} | {len(ours.tests)} "
                f"| {'-' if theirs is None else f'{theirs.figure:g}{mean}'} | {ours.parameters:,} | {ours.time} |"
            )
    return "\n".join(lines)


def variants() -> str:
    """Runs that differ from the paper's in the damping or in the trained constants."""
    lines = [
        "| task | model | change | test, mean ± std | seeds | without the change |",
        "| --- | --- | --- | ---: | ---: | ---: |",
    ]
    for task in TASKS:
        found = [one for one in tables.group_runs(RESULTS, task) if one.records]
        for one in found:
            if not one.settings or not one.settings.keys() <= {"damping", "trainable"}:
                continue
            same = (one.model, one.units, one.options)
            plain = next(x for x in found if not x.settings and (x.model, x.units, x.options) == same)
            lines.append(
                f"| {task} | {MODELS[one.model].title}-{one.units} | {one.case} | {one.summary} "
                f"| {len(one.tests)} | {plain.summary} |"
            )
    return "\n".join(lines)


TABLES = {"runs": runs, "variants": variants}
