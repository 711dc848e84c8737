"""The tables of runs: what they reached, beside what the paper says."""

import statistics
from pathlib import Path

from cornn.paper import PUBLISHED
from cornn.report import records
from cornn.tasks import TASKS

RESULTS = Path(__file__).resolve().parents[1] / "results"


def adding() -> str:
    """Our recipe, seed by seed."""
    rows = [
        "| sequence | neurons | seed | training steps | time | test MSE |",
        "| ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for record in records.read(RESULTS, "adding"):
        config, result = record["config"], record["result"]
        if config["recipe"] != "ours":
            continue
        length, hidden = config["task"]["length"], config["settings"]["hidden_size"]
        rows.append(
            f"| {length} | {hidden} | {config['seed']} | {result['steps']:,} "
            f"| {result['seconds']:.0f} s | {result['test']:.4f} |"
        )
    return "\n".join(rows)


def _published(task: str, options: dict, model: str, units: int) -> str:
    case = {"lorenz96": f"F = {options.get('force', 8.0):g}"}.get(task, "")
    for row in PUBLISHED.get(task, ()):
        if (row.model.lower(), row.units) == (model, units) and row.case in ("", case):
            mean = "" if row.mean is None else f"; {row.mean:g} ± {row.deviation:g}"
            return f"{row.figure:g}{mean}"
    return "-"


def _figure(value: float, better: str) -> str:
    return f"{value:.2f}" if better == "higher" else f"{value:.4f}"


def runs() -> str:
    """Every benchmark that has records: ours over the seeds, and the paper's best and mean."""
    names = {"cornn": "coRNN", "lstm": "LSTM", "gru": "GRU", "rnn": "tanh RNN"}
    lines = [
        "| task | model | test, mean ± deviation | best | seeds | paper: best; mean ± deviation | parameters | time |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for task in TASKS:
        if task == "adding":
            continue
        groups: dict[tuple, list[dict]] = {}
        for record in records.read(RESULTS, task):
            config = record["config"]
            if records.changed_settings(config) or config.get("theory"):
                continue
            key = (tuple(records.changed_options(config).items()), config["model"], config["settings"]["hidden_size"])
            groups.setdefault(key, []).append(record)
        for (options, model, units), group in sorted(groups.items(), key=str):
            results = [record["result"] for record in group if "test" in record["result"]]
            if not results:
                continue
            better, tests = results[0]["better"], [result["test"] for result in results]
            changed = ", ".join(f"{name} {value}" for name, value in options)
            deviation = f" ± {_figure(statistics.stdev(tests), better)}" if len(tests) > 1 else ""
            best = max(tests) if better == "higher" else min(tests)
            together = results[0]["side_by_side"]
            time = f"{results[0]['seconds']:.0f} s" + (f" for {together} side by side" if together > 1 else "")
            where = "H200" if "H200" in str(results[0]["machine"].get("gpu")) else "CPU"
            lines.append(
                f"| {task}{f' ({changed})' if changed else ''} | {names.get(model, model)}-{units} "
                f"| {_figure(statistics.fmean(tests), better)}{deviation} | {_figure(best, better)} | {len(tests)} "
                f"| {_published(task, dict(options), names.get(model, model).lower(), units)} "
                f"| {results[0]['parameters']:,} | {time}, {where} |"
            )
    return "\n".join(lines)


TABLES = {"adding": adding, "runs": runs}
