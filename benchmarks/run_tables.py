"""The tables of runs: our results and the paper's."""

from pathlib import Path

from cornn.baselines import MODELS
from cornn.lab.report import intervals, tables
from cornn.lab.report.tables import RunGroup
from cornn.lab.tasks import TASKS

RESULTS = Path(__file__).resolve().parents[1] / "results"


def interval(one: RunGroup) -> str:
    """Return the mean and its 95 % confidence interval."""
    found = intervals.mean_interval(one.tests)
    ends = "" if found is None else f" [{one.number(found.low)}, {one.number(found.high)}]"
    return one.number(one.mean) + ends


def runs() -> str:
    """Every benchmark that has records: our mean over seeds, the paper's best and mean, and whether they agree."""
    lines = [
        "| task | model | test, mean [95 % interval] | std | best | seeds | paper: best; mean ± std | difference "
        "| verdict | parameters |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- | ---: |",
    ]
    for task in TASKS:
        for row in [] if task == "adding" else tables.rows(task, tables.group_runs(RESULTS, task)):
            ours, theirs = row.ours, row.published
            if ours is None:
                continue
            mean = "" if theirs is None or theirs.mean is None else f"; {theirs.mean:g} ± {theirs.deviation:g}"
            lines.append(
                f"| {task}{f' ({ours.case})' if ours.case else ''} | {row.model}-{row.units} | {interval(ours)} "
                f"| {'-' if ours.deviation is None else ours.number(ours.deviation)} | {ours.number(ours.best)} "
                f"| {len(ours.tests)} | {'-' if theirs is None else f'{theirs.figure:g}{mean}'} "
                f"| {_difference(row)} | {_verdict(row)} | {ours.parameters:,} |"
            )
    return "\n".join(lines)


def _verdict(row: tables.Row) -> str:
    if row.ours is None or row.published is None:
        return "-"
    return intervals.compare(row.ours.tests, row.ours.better, row.published)


def _difference(row: tables.Row) -> str:
    """Return the 95 % interval of the difference of the means."""
    ours, theirs = row.ours, row.published
    if ours is None or theirs is None or _verdict(row) == "no mean published":
        return "-"
    mean = theirs.figure if theirs.mean is None else theirs.mean
    found = intervals.difference(ours.tests, mean, theirs.deviation, intervals.PAPER_RUNS)
    if found is None:
        return ours.number(ours.mean - mean)
    return f"{ours.number(found.low)} to {ours.number(found.high)}"


def variants() -> str:
    """Runs that differ from the paper's in the damping or in the trained constants."""
    lines = [
        "| task | model | change | test, mean [95 % interval] | seeds | without the change | seeds |",
        "| --- | --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for task in TASKS:
        found = [one for one in tables.group_runs(RESULTS, task) if one.records]
        for one in found:
            if not one.settings or not one.settings.keys() <= {"damping", "trainable"}:
                continue
            same = (one.model, one.units, one.options)
            plain = next(x for x in found if not x.settings and (x.model, x.units, x.options) == same)
            lines.append(
                f"| {task} | {MODELS[one.model].title}-{one.units} | {one.case} | {interval(one)} "
                f"| {len(one.tests)} | {interval(plain)} | {len(plain.tests)} |"
            )
    return "\n".join(lines)


TABLES = {"runs": runs, "variants": variants}
