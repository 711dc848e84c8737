"""The tables of the rivals: speed on a GPU, sizes, and the comparison with equal tuning budgets."""

import statistics
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from cornn import CoRNN
from cornn._json import read_json
from cornn.baselines import LAYERS, MODELS
from cornn.lab import intervals
from cornn.lab.experiments.compare import CONTESTS
from cornn.lab.recipes import PUBLISHED
from cornn.lab.report import comparison
from cornn.models import SequenceModel, count_parameters

RESULTS = Path(__file__).resolve().parents[1] / "results"
RECORD = RESULTS / "speed-rivals.json"


def speed_rivals() -> str:
    """The kernels alone, the whole pass, and the cost of computing the recurrent matrix from the parameters."""
    if not RECORD.exists():
        return "There is no record yet."
    lines = [
        "| model | forward, µs per step | backward, µs per step | kernels ÷ coRNN | both, ms | ÷ coRNN | matrix, ms |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in read_json(RECORD)["rows"]:
        if "failed" in row:
            lines.append(f"| {row['model']} | - | - | - | - | - | - |")
            continue
        separate = "-" if row["apart_ms"] is None else f"{row['apart_ms']:.2f}"
        lines.append(
            f"| {row['model']} | {row['forward_us']:.3f} | {row['backward_us']:.3f} | {row['kernels_ratio']:.2f} "
            f"| {row['both_ms']:.3f} | {row['both_ratio']:.2f} | {separate} |"
        )
    return "\n".join(lines)


# Task -> inputs and outputs. The word embedding of IMDB, which all models share, is not counted.
SIZES = {
    "smnist": (1, 10),
    "psmnist": (1, 10),
    "noisy-cifar10": (96, 10),
    "har2": (9, 1),
    "imdb": (100, 1),
    "lorenz96": (5, 5),
}
OTHERS = {"cornn": lambda *sizes: CoRNN(*sizes, dt=0.1, gamma=1.0, epsilon=1.0), "lstm": nn.LSTM, "gru": nn.GRU}


def count_sizes() -> list[tuple[str, str, int, int, int]]:
    """Return task, model, units, parameters and parameters as printed of every model in the paper's tables."""
    keys = {model.title: name for name, model in MODELS.items()}
    counts = []
    for task, rows in PUBLISHED.items():
        for units, model, printed in dict.fromkeys((row.units, row.model, row.parameters) for row in rows):
            key, (inputs, outputs) = keys[model], SIZES[task]
            # The printed units of uRNN are complex, and hidden_size counts real numbers.
            hidden = 2 * units if key == "unitary" else units
            with torch.device("meta"):
                size = count_parameters(SequenceModel((OTHERS | LAYERS)[key](inputs, hidden), outputs))
            counts.append((task, model, units, size, printed))
    return counts


def rival_sizes() -> str:
    """The number of parameters of every model in the paper's tables, ours and as printed."""
    rows = ["| task | model | units | parameters | as printed |", "| --- | --- | ---: | ---: | ---: |"]
    rows += [
        f"| {task} | {model} | {units} | {size:,} | {printed // 1000}k |"
        for task, model, units, size, printed in count_sizes()
    ]
    return "\n".join(rows)


def compare(results: Path = RESULTS) -> str:
    """One table per contest, and the contests without records."""
    contests = {item.name: item for item in comparison.read(results)}
    parts = []
    for contest in contests.values():
        has_threshold = contest.record["solved"] is not None
        head = ["model", "parameters", "trials", "test, mean [95 % interval]", *(["solved"] if has_threshold else [])]
        head += ["seconds: all trials; one final run", "published", "commit", "chosen settings"]
        lines = [f"**{contest.name}** ({contest.record['metric']}). {contest.budget}.", ""]
        lines += ["| " + " | ".join(head) + " |", "| --- |" + " ---: |" * (len(head) - 2) + " --- |"]
        for row in contest.rows:
            size = row.entry["parameters"]
            cells = [row.title, "-" if size is None else f"{size:,}", row.trials, row.test_summary]
            cells += [row.solved] if has_threshold else []
            cells.append(f"{row.search_seconds:.0f}; {row.final_seconds:.0f}")
            cells += [row.published, row.commits, row.chosen]
            lines.append("| " + " | ".join(cells) + " |")
        entrants = CONTESTS[contest.name].entrants if contest.name in CONTESTS else ()
        absent = [comparison.title(name) for name in entrants if name not in contest.record["models"]]
        lines += [f"\nWithout a final run so far: {', '.join(contest.begun)}."] if contest.begun else []
        lines += [f"\nNot run: {', '.join(absent)}."] if absent else []
        parts.append("\n".join(lines))
    missing = [name for name in CONTESTS if name not in contests]
    parts += [f"Not run yet: {', '.join(missing)}."] if missing else []
    return "\n\n".join(parts)


def compare_adding(results: Path = RESULTS) -> str:
    """One row per model, one column per length: the mean test error, and how many seeds solved the task."""
    contests = [contest for contest in comparison.read(results) if contest.record["solved"] is not None]
    return _summary(contests, lambda row: f"{row.test_summary}; {row.solved_count}" if row.tests else row.test_summary)


def adding_trials(results: Path = RESULTS) -> str:
    """Say which error the best trials reach, which are not stopped once the task is solved."""
    (contest,) = (item for item in comparison.read(results) if item.name == "adding-500")
    best = {
        row.name: min(trial["validation"] for trial in row.entry["trials"] if trial["validation"] is not None)
        for row in contest.rows
    }
    errors = ", ".join(f"{comparison.title(name)} {best[name]:.5f}" for name in ("gru", "lem", "cornn-memory"))
    return (
        f"Trials continue after the task is solved. The best errors after {contest.record['trial']:,} steps: {errors}."
    )


def compare_accuracy(results: Path = RESULTS) -> str:
    """One row per model, one column per contest of several epochs: the test accuracy."""
    contests = [contest for contest in comparison.read(results) if contest.record["solved"] is None]
    return _summary(
        [contest for contest in contests if contest.record["unit"] == "epochs"], lambda row: row.test_summary
    )


def ranks(results: Path = RESULTS) -> str:
    """Show where coRNN with the paper's initialisation stands in each contest, and which models lead."""
    lines = ["| contest | final runs | coRNN | in the lead |", "| --- | ---: | ---: | --- |"]
    for contest in comparison.read(results):
        ours = next((row for row in contest.rows if row.name == "cornn" and row.tests), None)
        if ours is None:
            continue
        record = contest.record
        first = leaders(contest)
        if ours.solved_count is not None:
            place, lead = f"solved by {ours.solved_count} seeds", f"{first[0].solved_count} seeds" if first else "none"
        else:
            sign = 1 if record["better"] == "higher" else -1
            means = [sign * statistics.fmean(row.tests) for row in contest.rows if row.tests]
            rank = 1 + sum(value > sign * statistics.fmean(ours.tests) for value in means)
            place, lead = f"number {rank} of {len(means)}", first[0].test_summary
        budget = f"{record['final']:,} {record['unit']}"
        names = "; ".join(f"{row.title}{_solved_after(row)}" for row in first)
        lines.append(f"| {contest.name} | {budget} | {place} | {names}{': ' if names else ''}{lead} |")
    return "\n".join(lines)


def _solved_after(row: comparison.ModelResult) -> str:
    """Return after how many training steps a model solves its task, in brackets; empty if the task has no threshold."""
    ends = dict.fromkeys(f"{step:,}" for step in sorted(row.solved_steps or ()))
    return f" (after {' to '.join([*ends][:: max(len(ends) - 1, 1)])} steps)" if ends else ""


def gaps(results: Path = RESULTS) -> str:
    """Show by how much each contest of several epochs and seeds is led, and which models differ from coRNN."""
    lines = [
        "| contest | first minus second [95 % interval] | ahead of coRNN | behind coRNN |",
        "| --- | --- | --- | --- |",
    ]
    for contest in comparison.read(results):
        rows = sorted((row for row in contest.rows if row.tests), key=lambda row: -statistics.fmean(row.tests))
        ours = next((row for row in rows if row.name == "cornn"), None)
        ends = intervals.difference_of_runs(*(row.tests for row in rows[:2])) if len(rows) > 1 else None
        if ours is None or ends is None or contest.record["unit"] != "epochs":
            continue
        lead = statistics.fmean(rows[0].tests) - statistics.fmean(rows[1].tests)
        others = [(row.title, intervals.difference_of_runs(row.tests, ours.tests)) for row in rows if row is not ours]
        ahead = "; ".join(name for name, gap in others if gap is not None and gap.low > 0)
        behind = "; ".join(name for name, gap in others if gap is not None and gap.high < 0)
        first = f"{rows[0].title}; {rows[1].title}: {lead:+.1f} [{ends.low:.1f}, {ends.high:.1f}]"
        lines.append(f"| {contest.name} | {first} | {ahead or 'none'} | {behind or 'none'} |")
    return "\n".join(lines)


def leaders(contest: comparison.ContestResult) -> list[comparison.ModelResult]:
    """Return the model with the best mean, or those that solve the task from most seeds, the quickest first.

    A training ends when it has solved its task, so that errors below the threshold rank nothing.
    """
    tested = [row for row in contest.rows if row.tests]
    if contest.record["solved"] is None:
        best = max if contest.record["better"] == "higher" else min
        return [best(tested, key=lambda row: statistics.fmean(row.tests))]
    steps = {row.name: row.solved_steps or [] for row in tested}
    count = max(map(len, steps.values()))
    first = [row for row in tested if steps[row.name] and len(steps[row.name]) == count]
    return sorted(first, key=lambda row: statistics.fmean(steps[row.name]))


def leads(results: Path = RESULTS) -> str:
    """Say in how many contests coRNN with the paper's initialisation leads; one seed each is not counted."""
    several, single = [], []
    for contest in comparison.read(results):
        if any(row.name == "cornn" and row.tests for row in contest.rows):
            names = [row.name for row in leaders(contest)]
            (single if max(len(row.tests) for row in contest.rows) == 1 else several).append(names)
    alone, shared = several.count(["cornn"]), sum("cornn" in names and len(names) > 1 for names in several)
    with_others = f", and shares the lead in {shared}" if shared else ""
    one_seed = (
        f" Of {len(single)} further comparisons, with one seed each, it leads in {single.count(['cornn'])}."
        if single
        else ""
    )
    return (
        f"coRNN with the paper's initialisation leads in {alone} of {len(several)} comparisons at equal "
        f"tuning{with_others}.{one_seed}"
    )


def _summary(contests: list[comparison.ContestResult], cell: Callable[[comparison.ModelResult], str]) -> str:
    heads = [contest.name for contest in contests]
    lines = ["| model | " + " | ".join(heads) + " |", "| --- |" + " ---: |" * len(heads)]
    budgets = [
        f"{item.record['trial']:,}; {item.record['final']:,} {item.record['unit']}"  # of a trial, and of a final run
        for item in contests
    ]
    lines.append("| *one trial; one final run* | " + " | ".join(f"*{budget}*" for budget in budgets) + " |")
    for name in dict.fromkeys(row.name for contest in contests for row in contest.rows):
        rows = [next((row for row in contest.rows if row.name == name), None) for contest in contests]
        lines.append(f"| {comparison.title(name)} | " + " | ".join(cell(row) if row else "" for row in rows) + " |")
    return "\n".join(lines)


TABLES = {
    "adding-trials": adding_trials,
    "compare": compare,
    "compare-accuracy": compare_accuracy,
    "compare-adding": compare_adding,
    "gaps": gaps,
    "ranks": ranks,
    "leads": leads,
    "rival-sizes": rival_sizes,
    "speed-rivals": speed_rivals,
}
