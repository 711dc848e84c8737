"""The tables of runs: our results and the paper's."""

import statistics
from itertools import pairwise
from pathlib import Path
from typing import Any

from coverage_items import MEANINGS
from paper_coverage import items

from cornn._json import read_json
from cornn.baselines import MODELS
from cornn.lab import intervals, records
from cornn.lab.config import as_dictionary
from cornn.lab.recipes import LOGS
from cornn.lab.report import tables
from cornn.lab.tasks import TASKS

RESULTS = Path(__file__).resolve().parents[1] / "results"


def runs() -> str:
    """Every benchmark that has records: our mean over seeds, the paper's best and mean, and whether they agree."""
    lines = [
        "| task | model | verdict | test, mean [95 % interval] | std | best | seeds | paper: best; mean ± std "
        "| difference |",
        "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for task in TASKS:
        for row in [] if task == "adding" else tables.rows(task, tables.group_runs(RESULTS, task)):
            ours, theirs = row.ours, row.published
            if ours is None:
                continue
            mean = "" if theirs is None or theirs.mean is None else f"; {theirs.mean:g} ± {theirs.deviation:g}"
            lines.append(
                f"| {task}{f' ({ours.case})' if ours.case else ''} | {row.model}-{row.units} | {_verdict(row)} "
                f"| {ours.summary} | {'-' if ours.deviation is None else ours.number(ours.deviation)} "
                f"| {ours.number(ours.best)} | {len(ours.tests)} "
                f"| {'-' if theirs is None else f'{theirs.value:g}{mean}'} | {_difference(row)} |"
            )
    return "\n".join(lines)


def _verdict(row: tables.Row) -> str:
    if row.ours is None or row.published is None:
        return "-"
    return intervals.compare(row.ours.tests, row.ours.better, row.published, row.ours.failed)


def _difference(row: tables.Row) -> str:
    """Return the 95 % interval of the difference of the means."""
    ours, theirs = row.ours, row.published
    if ours is None or theirs is None or _verdict(row) == "no mean published":
        return "-"
    mean = theirs.value if theirs.mean is None else theirs.mean
    interval = intervals.difference(ours.tests, mean, theirs.deviation, intervals.PAPER_RUNS)
    if interval is None:
        return ours.number(ours.mean - mean)
    return f"{ours.number(interval.low)} to {ours.number(interval.high)}"


def variants() -> str:
    """Runs that differ from the paper's in the damping or in the trained constants."""
    lines = [
        "| task | model | change | test, mean [95 % interval] | seeds | without the change | seeds |",
        "| --- | --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for task in TASKS:
        groups = [group for group in tables.group_runs(RESULTS, task) if group.records]
        for group in groups:
            if not group.settings or not group.settings.keys() <= {"damping", "trainable"}:
                continue
            key = (group.model, group.units, group.options)
            plain = next(x for x in groups if not x.settings and (x.model, x.units, x.options) == key)
            lines.append(
                f"| {task} | {MODELS[group.model].title}-{group.units} | {group.case} | {group.summary} "
                f"| {len(group.tests)} | {plain.summary} | {len(plain.tests)} |"
            )
    return "\n".join(lines)


MAPS = {"no change": "no change", "affine": "affine map of the last {states}"}


def lorenz_baselines() -> str:
    """Simple predictors of Lorenz-96."""
    rows = read_json(RESULTS / "lorenz96-baselines.json")["rows"]
    lines = [
        "| predictor | parameters | F = 0.9 | F = 0.9, single precision | F = 8 | F = 8, single precision |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    cases = [(force, kind) for force in (0.9, 8.0) for kind in ("float64", "float32")]
    for name, states in dict.fromkeys((row["map"], row["states"]) for row in rows):
        matches = [row for row in rows if (row["map"], row["states"]) == (name, states)]
        tests = {(row["force"], row["precision"]): row["test"] for row in matches}
        label = MAPS[name].format(states="state" if states == 1 else f"{states} states")
        cells = " | ".join(f"{tests[case]:.2g}" for case in cases)
        lines.append(f"| {label} | {matches[0].get('parameters', 0):,} | {cells} |")
    return "\n".join(lines)


STARTED = 50.0  # percent, well above chance
FALL = 5.0  # points of validation accuracy that a run loses from one epoch to the next
DROPPED = 100  # epochs before the learning rate drops


def _paper_runs(task: str, units: int) -> list[dict]:
    """Return the records of a task with the paper's settings, by seed."""
    groups = tables.group_runs(RESULTS, task)
    chosen = [group for group in groups if group.model == "cornn" and group.units == units and not group.case]
    return sorted((record for group in chosen for record in group.records), key=lambda record: record["config"]["seed"])


def logs() -> str:
    """Validation accuracy by epoch: the authors' logs and our runs with the paper's settings."""
    epochs = (1, 2, 5, 10, 20, 50, 100, 120)
    lines = [
        "| task | neurons | run | " + " | ".join(f"epoch {epoch}" for epoch in epochs) + " |",
        "| --- | ---: | --- |" + " ---: |" * len(epochs),
    ]
    for task, units in (*LOGS, ("psmnist", 128)):
        log, runs = LOGS.get((task, units)), _paper_runs(task, units)
        if log is not None:
            published = [f"{log[epoch]:.1f}" if epoch in log else "" for epoch in epochs]
            lines.append(f"| {task} | {units} | the authors' log | " + " | ".join(published) + " |")
        cells = []
        for epoch in epochs:
            values = [record["curve"]["metric"][epoch - 1] for record in runs]
            cells.append(f"{statistics.median(values):.1f} ({min(values):.1f} to {max(values):.1f})")
        lines.append(f"| {task} | {units} | ours: median (range) of {len(runs)} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def psmnist_seeds() -> str:
    """How each run of psMNIST with the paper's settings goes."""
    lines = [
        "| neurons | seed | first epoch above 50 % | falls by 5 points before the rate drops | best before the drop "
        "| gain at the drop | test |",
        "| ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for units in (128, 256):
        for record in _paper_runs("psmnist", units):
            curve = record["curve"]["metric"]
            before = curve[:DROPPED]
            first = next((epoch for epoch, value in enumerate(curve, 1) if value > STARTED), None)
            gain = max(curve[DROPPED:]) - before[-1]
            lines.append(
                f"| {units} | {record['config']['seed']} | {first or '-'} | {_count_falls(before)} | {max(before):.1f} "
                f"| {gain:+.1f} | {record['result']['test']:.2f} |"
            )
        tests = [record["result"]["test"] for record in _paper_runs("psmnist", units)]
        lines.append(
            f"| {units} | **best; median; mean of {len(tests)}** | | | | "
            f"| **{max(tests):.2f}; {statistics.median(tests):.2f}; {statistics.fmean(tests):.2f}** |"
        )
    return "\n".join(lines)


def ablation() -> str:
    """Test accuracy over the grids of gamma and epsilon, one table per number of epochs."""
    grids = tables.ablation_grids(tables.group_runs(RESULTS, "noisy-cifar10"))
    return "\n\n".join(_write_grid(epochs, grid) for epochs, grid in grids.items())


def _write_grid(epochs: int, grid: dict[tuple[float, float], list[float]]) -> str:
    gammas, epsilons = (sorted({point[i] for point in grid}) for i in (0, 1))
    lines = [
        f"| test accuracy after {epochs} epochs | " + " | ".join(f"epsilon {value:g}" for value in epsilons) + " |",
        "| --- |" + " ---: |" * len(epsilons),
    ]
    for gamma in gammas:
        row = [grid.get((gamma, epsilon)) for epsilon in epsilons]
        cells = ["not run" if tests is None else f"{statistics.fmean(tests):.1f}" for tests in row]
        lines.append(f"| gamma {gamma:g} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def psmnist_clipped() -> str:
    """The paper's settings for psMNIST-128 with clipped gradients, next to those without, epoch by epoch."""
    plain = {record["config"]["seed"]: record for record in _paper_runs("psmnist", 128)}
    epochs = (5, 10, 20, 40)
    lines = [
        "| seed | gradients | "
        + " | ".join(f"epoch {epoch}" for epoch in epochs)
        + " | falls by 5 points in 40 epochs |",
        "| ---: | --- |" + " ---: |" * (len(epochs) + 1),
    ]
    clipped = [
        record
        for group in tables.group_runs(RESULTS, "psmnist")
        if group.settings.keys() == {"clip", "epochs", "schedule", "drop_after"}
        for record in group.records
    ]
    for record in sorted(clipped, key=lambda record: record["config"]["seed"]):
        seed = record["config"]["seed"]
        for words, run in (("as in the paper", plain[seed]), ("clipped at 1", record)):
            curve = run["curve"]["metric"]
            cells = " | ".join(f"{curve[epoch - 1]:.1f}" for epoch in epochs)
            lines.append(f"| {seed} | {words} | {cells} | {_count_falls(curve[: epochs[-1]])} |")
    return "\n".join(lines)


CAUSES: dict[str, dict[str, Any]] = {
    "none": {},
    "gradients clipped at 1": {"clip": 1.0},
    "drop after 60 epochs": {"drop_after": 60},
}
"""Change to the paper's settings for psMNIST-256, in words -> settings."""


def causes() -> list[tuple[str, dict[str, Any], tables.RunGroup]]:
    """Return each change of `CAUSES` with its settings and its runs."""
    groups = [group for group in tables.group_runs(RESULTS, "psmnist") if (group.model, group.units) == ("cornn", 256)]
    return [
        (words, settings, next(group for group in groups if group.settings == settings))
        for words, settings in CAUSES.items()
    ]


def psmnist_causes() -> str:
    """The paper's settings for psMNIST-256 with one change each, and their difference to the runs without it."""
    lines = [
        "| change | seeds | first epoch above 50 % | falls by 5 points in 60 epochs | gain at the drop "
        "| test, mean [95 % interval] | difference |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    changes = causes()
    plain = changes[0][2]
    for words, settings, group in changes:
        curves = [record["curve"]["metric"] for record in group.records]
        drop = settings.get("drop_after", DROPPED)
        columns = (
            ([next(epoch for epoch, value in enumerate(curve, 1) if value > STARTED) for curve in curves], "g"),
            ([_count_falls(curve[:60]) for curve in curves], "g"),
            ([max(curve[drop:]) - curve[drop - 1] for curve in curves], "+.1f"),
        )
        cells = " | ".join(
            f"{statistics.median(values):{form}} ({min(values):{form}} to {max(values):{form}})"
            for values, form in columns
        )
        change = intervals.difference(group.tests, plain.mean, plain.deviation, len(plain.tests)) if settings else None
        difference = "" if change is None else f"{change.low:+.2f} to {change.high:+.2f}"
        lines.append(f"| {words} | {len(group.tests)} | {cells} | {group.summary} | {difference} |")
    return "\n".join(lines)


def _count_falls(curve: list[float]) -> int:
    """Count the epochs that end well below the one before."""
    return sum(later < earlier - FALL for earlier, later in pairwise(curve))


SEARCHED = ("learning_rate", "dt", "gamma", "epsilon")
"""The settings of the paper's random search."""


def har2_search() -> str:
    """The best trials of the paper's random search on HAR-2, and its own values."""
    content = read_json(RESULTS / "har2-random-search.json")
    lines, best = _search(content["rows"], "{:.2f}", highest=True)
    groups = [
        group for group in tables.group_runs(RESULTS, "har2") if group.units == content["neurons"] and not group.options
    ]
    tuned = next(group for group in groups if group.settings.keys() == {*SEARCHED, "epochs"})
    published = next(group for group in groups if not group.settings)
    for words, group in ((f"trial {best} with new seeds", tuned), ("the paper's values, 250 epochs", published)):
        lines.append(f"| {words}: test | | | | | {group.summary} ({len(group.tests)} seeds) |")
    return "\n".join(lines)


def lorenz_search() -> str:
    """The best trials of the random search on Lorenz-96 at F = 8, and the recipe's values."""
    content = read_json(RESULTS / "lorenz96-search.json")
    lines, _ = _search(content["rows"], "{:.4f}", highest=False)
    ours = next(
        group for group in tables.group_runs(RESULTS, "lorenz96") if group.model == "cornn" and not group.options
    )
    config = as_dictionary(records.read_config(ours.records[0]))
    values = config["optimiser"] | config["model"]
    cells = " | ".join(f"{values[name]:.3g}" for name in SEARCHED)
    lines.append(f"| the recipe `ours`, {len(ours.tests)} seeds | {cells} | {ours.validation:.4f} |")
    return "\n".join(lines)


def adding_search() -> str:
    """The best trials of the paper's random search on adding over 500 steps."""
    rows = read_json(RESULTS / "adding-random-search.json")["rows"]
    return "\n".join(_search(rows, "{:.4f}", highest=False, names=("dt", "gamma", "epsilon"))[0])


def _search(rows: list[dict], form: str, highest: bool, names: tuple[str, ...] = SEARCHED) -> tuple[list[str], int]:
    """Return the lines of the five best trials and the median, and the number of the best trial."""
    finished = [row for row in rows if row.get("validation") is not None]
    finished.sort(key=lambda row: row["validation"], reverse=highest)
    lines = ["| trial | " + " | ".join(names) + " | validation |", "| --- |" + " ---: |" * (len(names) + 1)]
    for row in finished[:5]:
        values = " | ".join(f"{row['values'][name]:.3g}" for name in names)
        lines.append(f"| {row['trial']} | {values} | {form.format(row['validation'])} |")
    failed = f", without {len(rows) - len(finished)} that diverged" if len(finished) < len(rows) else ""
    middle = form.format(statistics.median(row["validation"] for row in finished))
    lines.append(f"| median of {len(rows)} trials{failed} |{' |' * len(names)} {middle} |")
    return lines, finished[0]["trial"]


def coverage_status() -> str:
    """How often each status occurs, and what it means."""
    statuses = [item.status for item in items(RESULTS)]
    lines = ["| status | items | meaning |", "| --- | ---: | --- |"]
    lines += [f"| {name} | {statuses.count(name)} | {words} |" for name, words in MEANINGS.items() if name in statuses]
    return "\n".join(lines)


def coverage_items() -> str:
    """Every claim, figure, table and statement of the paper."""
    lines = ["| place | content | status | note | evidence |", "| --- | --- | --- | --- | --- |"]
    for item in items(RESULTS):
        evidence = ", ".join(_link(path) for path in item.evidence)
        content, note = (text.replace("|", "\\|").replace("*", "\\*") for text in (item.content, item.note))
        lines.append(f"| {item.place} | {content} | **{item.status}** | {note} | {evidence} |")
    return "\n".join(lines)


def _link(path: str) -> str:
    """Link to a page of the docs; other files are named."""
    return (
        f"[{Path(path).stem}]({Path(path).name})" if path.endswith(".md") and path.startswith("docs/") else f"`{path}`"
    )


TABLES = {
    "coverage-status": coverage_status,
    "coverage": coverage_items,
    "runs": runs,
    "variants": variants,
    "lorenz-baselines": lorenz_baselines,
    "logs": logs,
    "psmnist-seeds": psmnist_seeds,
    "psmnist-clipped": psmnist_clipped,
    "psmnist-causes": psmnist_causes,
    "ablation": ablation,
    "har2-random-search": har2_search,
    "adding-random-search": adding_search,
    "lorenz-search": lorenz_search,
}
