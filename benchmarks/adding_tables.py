"""Tables of docs/adding.md and docs/appendix-adding.md: runs, searches and results/memory.json."""

from collections.abc import Callable
from pathlib import Path
from statistics import median

from cornn._counts import format_count
from cornn._json import read_json
from cornn.lab import intervals, records
from cornn.lab.recipes import resolve
from cornn.lab.report import tables

RESULTS = Path(__file__).resolve().parents[1] / "results"
RECIPES = {("ours", "cornn"): "ours", ("paper", "cornn"): "the paper's", ("paper", "lem"): "LEM"}
"""Recipe and model -> label."""
DIRECTIONS = {
    "the head's first": "initial weights of the head",
    "within the directions of V": "in the span of V",
    "orthogonal to V": "orthogonal to V",
}
"""Direction in results/memory.json -> label."""
SEARCHED = (500, 2000, 5000, 20000)
SOLVED = 0.01  # mean squared error
VARIANTS = {
    "": "baseline of the search: all half-lives 10 lengths, head initialised to 0",
    "shortest 0.1": "half-lives from 0.1 to 10 lengths (as in `cornn train adding`)",
    "shortest 1": "half-lives from 1 to 10 lengths",
    "head 1": "head initialised as by `nn.Linear` (as in `cornn train adding`)",
    "feedback 0": "no feedback",
    "feedback 0.03": "feedback 0.03 instead of 0.1",
    "feedback 0.3": "feedback 0.3",
    "V_rate 0, b_rate 0, recurrent_rate 0": "only the head trained",
    "V_rate 0, b_rate 0, recurrent_rate 0, feedback 0.03": "only the head trained, feedback 0.03",
    "V_rate 0, b_rate 0, recurrent_rate 0, feedback 0": "only the head trained, no feedback",
    "V_rate 0.002, b_rate 0.0002, recurrent_rate 0.0001": "learning rates of V, b, W divided by 10",
    "V_rate 0.2, b_rate 0.02, recurrent_rate 0.01": "learning rates of V, b, W times 10: those for 500 steps",
    "recurrent_rate 0.01": "learning rate of W times 10",
    "rate 0.03": "all learning rates times 3",
    "V 2": "V from U(±2) instead of U(±3)",
    "V 5": "V from U(±5)",
}
"""What is changed in a variant of results/adding-search/10-feedback-*.json -> its label, in the order of the table."""


def _runs() -> dict[tuple, list[dict]]:
    """Group the runs of all seeds by recipe and model, length, neurons, budget of training steps and machine."""
    runs: dict[tuple, list[dict]] = {}
    for record in [*records.read(RESULTS, "adding"), *records.read(RESULTS / "cpu", "adding")]:
        config, result = records.read_config(record), record["result"]
        if (config.recipe, config.model.name) not in RECIPES or config.theory:  # repeats a seed, and records more
            continue
        on_gpu = result["device"].startswith("cuda")
        where = result["machine"]["gpu"] if on_gpu else f"CPU, {result['machine']['threads']} threads"
        size, budget = config.model.hidden_size, config.budget.steps
        key = (config.recipe, config.model.name), config.task.length, size, budget, where
        runs.setdefault(key, []).append(record)
    # By recipe, then by length.
    return dict(sorted(runs.items()))


def adding() -> str:
    """Solved seeds and training steps per recipe and length, and what the others reached."""
    rows = [
        "| recipe | length | budget, training steps | seeds solved | training steps | time | worst test MSE if solved "
        "| test MSE if not | machine |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    for (recipe, length, _, budget, where), runs in _runs().items():
        solved = [run["result"] for run in runs if _solved(run["result"])]
        others = [run["result"] for run in runs if not _solved(run["result"])]
        left = ["diverged" if "failed" in result else f"{result['test']:.4f}" for result in others]
        cells = (
            RECIPES[recipe],
            f"{length:,}",
            f"{budget:,}",
            f"{len(solved)} of {len(runs)}" + records.mark(run["result"] for run in runs),
            _range(r["steps"] for r in solved) if solved else "-",
            _range((r["seconds"] for r in solved), "s") if solved else "-",
            f"{max(r['test'] for r in solved):.4f}" if solved else "-",
            ", ".join(sorted(left)) or "-",
            where,
        )
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows)


def adding_seeds() -> str:
    """Every run."""
    rows = [
        "| recipe | length | seed | training steps | time | test MSE | machine |",
        "| --- | ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    for (recipe, length, _, _, where), runs in _runs().items():
        for run in runs:
            result = run["result"]
            figures = (
                "- | - | diverged"
                if "failed" in result
                else f"{result['steps']:,} | {result['seconds']:.0f} s | {result['test']:.4f}"
            ) + records.mark([result])
            rows.append(f"| {RECIPES[recipe]} | {length:,} | {run['config']['seed']} | {figures} | {where} |")
    return "\n".join(rows)


def _solved(result: dict) -> bool:
    return "failed" not in result and result["test"] < SOLVED


def _range(values, unit: str = "") -> str:
    low, high = (f"{value:,.0f}" for value in _ends(values))
    return f"{low if low == high else f'{low} to {high}'}{f' {unit}' if unit else ''}"


def _ends(values) -> tuple[float, float]:
    ordered = sorted(values)
    return ordered[0], ordered[-1]


def _read_search(length: int) -> dict[str, tuple[str, str, str]]:
    """Return label of a variant -> number of solved seeds, median training steps, worst test MSE."""
    record = read_json(RESULTS / "adding-search" / f"10-feedback-{length}.json")
    values, seeds = record["settings"], record["options"]["seeds"]
    results = {}
    for first in range(0, len(record["test"]), seeds):
        changed = ", ".join(f"{name} {v[first]:.3g}" for name, v in values.items() if v[first] != v[0])
        steps = [step for step in record["solved_at"][first : first + seeds] if step]
        results[VARIANTS[changed]] = (
            f"{len(steps)} of {seeds}",
            f"{median(steps):,.0f}" if steps else "-",
            f"{max(record['test'][first : first + seeds]):.4f}",
        )
    return results


def adding_ablation() -> str:
    """Variants at 5,000 steps."""
    results = _read_search(5000)
    rows = ["| variant | seeds solved | median training steps | worst test MSE |", "| --- | ---: | ---: | ---: |"]
    rows += [f"| {words} | " + " | ".join(results[words]) + " |" for words in VARIANTS.values() if words in results]
    return "\n".join(rows)


def adding_lengths() -> str:
    """Variants tested at several lengths."""
    results = {length: _read_search(length) for length in SEARCHED}
    rows = [
        "| variant | " + " | ".join(f"{length:,} steps" for length in SEARCHED) + " |",
        "| --- |" + " ---: |" * len(SEARCHED),
    ]
    for words in VARIANTS.values():
        cells = [results[length].get(words) for length in SEARCHED]
        if sum(cell is not None for cell in cells) > 1:
            rows.append(f"| {words} | " + " | ".join("-" if c is None else f"{c[0]}, {c[2]}" for c in cells) + " |")
    return "\n".join(rows)


def _memory() -> dict:
    return read_json(RESULTS / "memory.json")


def adding_step() -> str:
    """Covariance of the contribution of one number."""
    rows = [
        "| number | largest eigenvalues of the covariance of tanh(V u + b) | variance outside the directions of V |",
        "| --- | ---: | ---: |",
    ]
    for name, row in _memory()["step"].items():
        values = ", ".join(f"{value:.2g}" for value in row["eigenvalues"])
        rows.append(f"| {name} | {values} | {row['share_outside_V']:.1%} |")
    return "\n".join(rows)


def adding_noise() -> str:
    """Covariance of the last states, with and without feedback."""
    rows = [
        "| steps | feedback | largest eigenvalues of the covariance of y | MSE of the best linear head |",
        "| ---: | ---: | ---: | ---: |",
    ]
    for row in _memory()["states"]:
        values = ", ".join(f"{value:.2g}" if value < 100 else f"{value:,.0f}" for value in row["eigenvalues"])
        rows.append(f"| {row['length']:,} | {row['feedback']:g} | {values} | {row['floor']:.5f} |")
    return "\n".join(rows)


def adding_gradients() -> str:
    """Gradient sizes by lag, before training."""
    rows_of_length = [row for row in _memory()["gradients"] if row["length"] == 2000]
    lags = list(rows_of_length[0]["sizes"])
    rows = [
        "| initialisation | direction of the loss | " + " | ".join(f"lag {int(lag):,}" for lag in lags) + " |",
        "| --- | --- |" + " ---: |" * len(lags),
    ]
    for row in rows_of_length:
        start = "the paper's" if row["start"] == "paper" else f"ours, feedback {row['start']:g}"
        sizes = (row["sizes"][lag] for lag in lags)
        rows.append(f"| {start} | {DIRECTIONS[row['asks']]} | " + " | ".join(f"{size:.2g}" for size in sizes) + " |")
    return "\n".join(rows)


def adding_watched() -> str:
    """Gradients during training with the two recipes."""
    runs = _memory()["training"]
    columns = ("MSE", "gradient, mid-sequence", "gradient, first step")
    names = [f"{RECIPES[name, 'cornn']}: {what}" for name in runs for what in columns]
    rows = ["| training step | " + " | ".join(names) + " |", "| ---: |" + " ---: |" * len(names)]
    tables = [{row["step"]: row for row in run["rows"]} for run in runs.values()]
    for step in dict.fromkeys(step for table in tables for step in table):
        if step % 100 and step != 50:
            continue
        cells = []
        for table in tables:
            row = table.get(step)
            metric = "-" if row is None or row["metric"] is None else f"{row['metric']:.4f}"
            powers = ("-", "-") if row is None else (_power(row[f"gradient_{x}"]) for x in ("half", "first"))
            cells += [metric, *powers]
        rows.append(f"| {step} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def memory_elsewhere() -> str:
    """Test accuracies and their 95 % intervals on other tasks, with our constants and with the paper's."""
    rows = [
        "| task | the paper's constants | `memory` (overdamped) | `ringing` (underdamped) |",
        "| --- | ---: | ---: | ---: |",
    ]
    for task, paper, size in (("har2", "paper", 64), ("smnist", "paper-128", 128), ("psmnist", "paper-128", 128)):
        cells = []
        groups = tables.group_runs(RESULTS, task)
        for recipe in (paper, "memory", "ringing"):
            identity = records.group_identity(resolve(task, recipe, hidden_size=size))
            tests = [test for group in groups if group.records and group.identity == identity for test in group.tests]
            seeds = format_count(len(tests), "seed")
            summary = intervals.describe(tests, "higher", "{:.2f}".format) if tests else ""
            cells.append(f"{summary} ({seeds})" if tests else "not run")
        rows.append(f"| {task} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def _power(logarithm: float) -> str:
    return f"{10**logarithm:.2g}" if logarithm > -3 else f"10^{logarithm:.0f}"


TABLES: dict[str, Callable[[], str]] = {
    "adding": adding,
    "adding-seeds": adding_seeds,
    "memory-elsewhere": memory_elsewhere,
    "adding-ablation": adding_ablation,
    "adding-lengths": adding_lengths,
    "adding-step": adding_step,
    "adding-noise": adding_noise,
    "adding-gradients": adding_gradients,
    "adding-watched": adding_watched,
}
