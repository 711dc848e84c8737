"""The tables of the comparison on the time-series archive."""

import json
from pathlib import Path
from statistics import mean, stdev
from typing import Any

RESULTS = Path(__file__).resolve().parents[1] / "results"
USUAL_SEEDS = 3


def _record() -> dict[str, Any] | None:
    path = RESULTS / "archive.json"
    return json.loads(path.read_text(encoding="utf8")) if path.exists() else None


def _values(record: dict[str, Any], data: str, classifier: str, field: str) -> list[float]:
    return [row[field] for row in record["rows"] if (row["data"], row["classifier"]) == (data, classifier)]


def _classifiers(record: dict[str, Any]) -> list[str]:
    return list(dict.fromkeys(row["classifier"] for row in record["rows"]))


def accuracy() -> str:
    """Of every classifier on every problem; the best is bold."""
    record = _record()
    if record is None:
        return "There is no record yet."
    names = _classifiers(record)
    lines = [
        "| problem | training, test | steps | features, classes | " + " | ".join(names) + " | most frequent class |",
        "| --- | ---: | ---: | ---: |" + " ---: |" * (len(names) + 1),
    ]
    for data, about in record["data"].items():
        low, high = about["steps"]
        found = {name: _values(record, data, name, "accuracy") for name in names}
        best = max(round(100 * mean(values), 1) for values in found.values() if values)
        cells = [_cell(found[name], best) for name in names]
        lines.append(
            f"| {data} | {about['training']:,}, {about['test']:,} | {low if low == high else f'{low} to {high}'} "
            f"| {about['features']}, {about['classes']} | " + " | ".join(cells) + f" | {100 * about['trivial']:.1f} |"
        )
    means = [[mean(values) for data in record["data"] if (values := _values(record, data, name, "accuracy"))]
             for name in names]  # fmt: skip
    whole = [f"{100 * mean(own):.1f}" if len(own) == len(record["data"]) else "-" for own in means]
    return "\n".join([*lines, "| mean of all | | | | " + " | ".join(whole) + " | |"])


def _cell(values: list[float], best: float) -> str:
    if not values:
        return "-"
    figure = f"{100 * mean(values):.1f}"
    figure = f"**{figure}**" if float(f"{100 * mean(values):.1f}") == best else figure
    spread = f" ± {100 * stdev(values):.1f}" if len(values) > 1 else ""
    return figure + spread + ("" if len(values) == USUAL_SEEDS else f" ({len(values)})")


def seconds() -> str:
    """Of one fit, the mean over the seeds."""
    record = _record()
    if record is None:
        return "There is no record yet."
    names = _classifiers(record)
    lines = ["| problem | " + " | ".join(names) + " |", "| --- |" + " ---: |" * len(names)]
    for data in record["data"]:
        found = [_values(record, data, name, "cpu_seconds") for name in names]
        lines.append(f"| {data} | " + " | ".join(_duration(own) for own in found) + " |")
    return "\n".join(lines)


def _duration(values: list[float]) -> str:
    if not values:
        return "-"
    return f"{mean(values):.1f}" if mean(values) >= 1 else f"{mean(values):.2f}"


TABLES = {"archive": accuracy, "archive-time": seconds}
