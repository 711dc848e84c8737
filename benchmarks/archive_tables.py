"""The tables of the comparison on the time-series archive."""

from itertools import groupby
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from cornn._json import read_json

RESULTS = Path(__file__).resolve().parents[1] / "results"
SHOWN = ("bank", "causal bank", "MiniRocket", "MultiRocket", "network", "statistics")
"""Classifiers of the tables, in their order; others in the record serve other tables."""
STUDENT = {2: 12.706, 8: 2.365}
"""Number of problems -> 97.5 % quantile of Student's t with one degree of freedom less."""
MISSING = "There is no record yet."


def _record() -> dict[str, Any] | None:
    path = RESULTS / "archive.json"
    return read_json(path) if path.exists() else None


def _values(record: dict[str, Any], field: str, classifier: str, data: str, resampled: bool) -> list[float]:
    """Return one value per split, the mean over the seeds; of the published split, or of the resampled ones."""
    rows = [
        row
        for row in record["rows"]
        if (row["data"], row["classifier"], row.get("split", 0) > 0) == (data, classifier, resampled) and field in row
    ]
    rows.sort(key=lambda row: row.get("split", 0))
    return [mean(row[field] for row in group) for _, group in groupby(rows, key=lambda row: row.get("split", 0))]


def _classifiers(record: dict[str, Any]) -> list[str]:
    classifiers = {row["classifier"] for row in record["rows"]}
    return [name for name in SHOWN if name in classifiers]


def _table(record: dict[str, Any], resampled: bool, head: str, describe: Any) -> str:
    names = _classifiers(record)
    lines = [f"| problem |{head} " + " | ".join(names) + " |", "| --- |" + " ---: |" * (len(names) + head.count("|"))]
    table = {name: [_values(record, "accuracy", name, data, resampled) for data in record["data"]] for name in names}
    for number, data in enumerate(record["data"]):
        results = [table[name][number] for name in names]
        best = max(round(100 * mean(values), 1) for values in results if values)
        lines.append(f"| {data} |{describe(data)} " + " | ".join(_cell(values, best) for values in results) + " |")
    for words, row in (("mean", _means(table)), ("mean rank", _ranks(table))):
        lines.append(f"| {words} |{' |' * head.count('|')} " + " | ".join(row) + " |")
    return "\n".join(lines)


def _cell(values: list[float], best: float) -> str:
    if not values:
        return "-"
    figure = f"{100 * mean(values):.1f}"
    figure = f"**{figure}**" if float(figure) == best else figure
    return figure + (f" ± {100 * stdev(values):.1f}" if len(values) > 1 else "")


def _means(table: dict[str, list[list[float]]]) -> list[str]:
    return [f"{100 * mean(map(mean, results)):.1f}" if all(results) else "-" for results in table.values()]


def _ranks(table: dict[str, list[list[float]]]) -> list[str]:
    """Return the mean rank over problems and splits, among the classifiers that have all of them; 1 is best."""
    count = max(sum(map(len, results)) for results in table.values())
    values_by_name = {name: [value for splits in results for value in splits] for name, results in table.items()}
    values_by_name = {name: values for name, values in values_by_name.items() if len(values) == count}

    def rank(value: float, rivals: list[float]) -> float:
        """Return the place of a value among all, where equal ones share their places."""
        return 1 + sum(other > value for other in rivals) + (sum(other == value for other in rivals) - 1) / 2

    columns = list(zip(*values_by_name.values(), strict=True))
    ranks = {
        name: mean(rank(value, list(column)) for value, column in zip(values, columns, strict=True))
        for name, values in values_by_name.items()
    }
    return [f"{ranks[name]:.2f}" if name in ranks else "-" for name in table]


def published() -> str:
    """Accuracy on the published splits."""
    record = _record()
    if record is None:
        return MISSING

    def describe(data: str) -> str:
        about = record["data"][data]
        low, high = about["steps"]
        steps = f"{low}" if low == high else f"{low} to {high}"
        return (
            f" {about['training']:,}, {about['test']:,} | {steps} | {about['features']}, {about['classes']} "
            f"| {100 * about['trivial']:.1f} |"
        )

    head = " training, test | steps | features, classes | most frequent class |"
    return _table(record, False, head, describe)


def resampled() -> str:
    """Accuracy on the resampled splits, with its standard deviation over the splits."""
    record = _record()
    return MISSING if record is None else _table(record, True, "", lambda data: "")


def verdict() -> str:
    """Compare the mean accuracies of the bank and of the ROCKETs in a sentence."""
    record = _record()
    if record is None:
        return MISSING
    parts = []
    for splits, is_resampled in (("published", False), ("resampled", True)):
        verdicts = []
        for rival in ("MiniRocket", "MultiRocket"):
            pairs = [
                [_values(record, "accuracy", name, data, is_resampled) for name in ("bank", rival)]
                for data in record["data"]
            ]
            if all(all(pair) for pair in pairs):
                verdicts.append(
                    _compare(
                        rival,
                        [100 * (mean(bank_accuracy) - mean(rival_accuracy)) for bank_accuracy, rival_accuracy in pairs],
                    )
                )
            else:
                verdicts.append(f"not compared with {rival}")
        parts.append(f"on their {splits} splits it is " + " and ".join(verdicts))
    count = len(record["data"])
    return (
        f"The default of `CoRNNClassifier` was compared on the {count} problems on which it was developed: "
        f"{'; '.join(parts)} (mean difference in points of accuracy, 95 % interval over the problems)."
    )


def _compare(rival: str, differences: list[float]) -> str:
    middle, width = mean(differences), STUDENT[len(differences)] * stdev(differences) / len(differences) ** 0.5
    words = "not distinguishable from" if abs(middle) <= width else "ahead of" if middle > 0 else "behind"
    return f"{words} {rival} ({middle:+.1f} ± {width:.1f})"


def seconds() -> str:
    """Processor seconds of one fit on the published split, mean over the seeds."""
    record = _record()
    if record is None:
        return MISSING
    names = _classifiers(record)
    lines = ["| problem | " + " | ".join(names) + " |", "| --- |" + " ---: |" * len(names)]
    times = {name: [_values(record, "cpu_seconds", name, data, False) for data in record["data"]] for name in names}
    for number, data in enumerate(record["data"]):
        cells = [f"{times[name][number][0]:.2f}" if times[name][number] else "-" for name in names]
        lines.append(f"| {data} | " + " | ".join(cells) + " |")
    sums = [f"{sum(values[0] for values in times[name]):.1f}" if all(times[name]) else "-" for name in names]
    return "\n".join([*lines, "| all | " + " | ".join(sums) + " |"])


def calibration() -> str:
    """Log loss on the resampled splits that both have: of the bank, and of scikit-learn's calibration of it."""
    record = _record()
    if record is None:
        return MISSING
    lines = ["| problem | splits | bank | CalibratedClassifierCV(bank, cv=5) |", "| --- | ---: | ---: | ---: |"]
    table = []
    for data in record["data"]:
        losses: list[dict[int, list[float]]] = [{}, {}]
        for row in record["rows"]:
            if row["data"] == data and row.get("split", 0) and "log_loss" in row:
                losses[row["classifier"] == "calibrated"].setdefault(row["split"], []).append(row["log_loss"])
        both = sorted(losses[0].keys() & losses[1].keys())
        if both:
            table.append([mean(mean(losses_of_data[split]) for split in both) for losses_of_data in losses])
            lines.append(f"| {data} | {len(both)} | {table[-1][0]:.3f} | {table[-1][1]:.3f} |")
    if not table:
        return MISSING
    bank, calibrated = (mean(column) for column in zip(*table, strict=True))
    return "\n".join([*lines, f"| mean | | {bank:.3f} | {calibrated:.3f} |"])


def search() -> str:
    """Ideas for the bank that were tried on resampled splits which no earlier choice had seen."""
    content = read_json(RESULTS / "bank-search.json")
    lines = ["| idea | mean accuracy | gain over the default | above MiniRocket |", "| --- | ---: | ---: | ---: |"]
    for row in content["rows"]:
        if row["protocol"] == "D":
            gain = f"{row['gain']:+.2f} ± {row['standard_error']:.2f}" if "gain" in row else ""
            wins = f"{100 * row['wins_against_minirocket']:.0f} %" if row["idea"] != "MiniRocket" else ""
            lines.append(f"| {row['idea']} | {row['mean_accuracy']:.2f} | {gain} | {wins} |")
    return "\n".join(lines)


def large() -> str:
    """Processor time and peak memory of the fit to many sequences, in a sentence."""
    path = RESULTS / "bank-large.json"
    if not path.exists():
        return MISSING
    row = read_json(path)
    return (
        f"Measured: {row['sequences']:,} sequences of {row['steps']} steps take {row['cpu_seconds']:.0f} s of "
        f"processor time on {row['machine']['threads']} threads and at most {row['peak_gigabytes']:.2f} GB, "
        "including Python, PyTorch and the data."
    )


TABLES = {
    "bank-search": search,
    "bank-large": large,
    "archive": published,
    "archive-resampled": resampled,
    "archive-verdict": verdict,
    "archive-time": seconds,
    "archive-calibration": calibration,
}
