"""The tables of docs/forecasting.md."""

import math
from collections import defaultdict
from pathlib import Path
from statistics import mean
from typing import Any

from forecast_series import KINDS

from cornn._json import read_json
from cornn.lab.intervals import mean_interval

RESULTS = Path(__file__).resolve().parents[1] / "results"
METHODS = ("pool", "ETS", "ridge on lags", "seasonal naive", "last value")
WITHOUT = "pool without oscillators"
STEPS = ((1, 1), (2, 3), (4, 6), (7, 12), (13, 24), (25, 48))  # groups of steps ahead


def _record() -> dict[str, Any] | None:
    path = RESULTS / "forecast.json"
    return read_json(path) if path.exists() else None


def _kinds(record: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    by_kind = defaultdict(list)
    for row in record["series"]:
        by_kind[row["kind"]].append(row)
    return dict(by_kind)


def _ratio(rows: list[dict[str, Any]], method: str) -> float:
    """Geometric mean of the RMSE over that of seasonal naive."""
    return math.exp(
        mean(math.log(max(row["rmse"][method], 1e-9) / max(row["rmse"]["seasonal naive"], 1e-9)) for row in rows)
    )


def _ranks(row: dict[str, Any]) -> list[float]:
    """Rank of each method by RMSE; ties share their mean rank."""
    values = [row["rmse"][method] for method in METHODS]
    return [1 + sum(other < value for other in values) + (values.count(value) - 1) / 2 for value in values]


def scores() -> str:
    """RMSE relative to seasonal naive, and mean ranks, for every kind of series."""
    record = _record()
    if record is None:
        return "There is no record yet."
    columns = ("pool", WITHOUT, "ETS", "ridge on lags", "last value")
    lines = [
        "| series | number | " + " | ".join(columns) + " | mean rank: " + ", ".join(METHODS) + " |",
        "| --- | ---: |" + " ---: |" * (len(columns) + 1),
    ]
    every_ratio, every_rank = [], []
    for kind, rows in _kinds(record).items():
        ratios = [_ratio(rows, method) for method in columns]
        ranks = [mean(column) for column in zip(*map(_ranks, rows), strict=True)]
        every_ratio.append([math.log(ratio) for ratio in ratios])
        every_rank.append(ranks)
        lines.append(_line(kind, len(rows), ratios, ranks))
    ratios = [math.exp(mean(column)) for column in zip(*every_ratio, strict=True)]
    ranks = [mean(column) for column in zip(*every_rank, strict=True)]
    lines.append(_line("mean of the kinds", len(record["series"]), ratios, ranks))
    return "\n".join(lines)


def _line(name: str, count: int, ratios: list[float], ranks: list[float]) -> str:
    least = min(round(ratio, 2) for ratio in ratios)
    cells = [f"**{ratio:.2f}**" if round(ratio, 2) == least else f"{ratio:.2f}" for ratio in ratios]
    return f"| {name} | {count} | " + " | ".join(cells) + " | " + ", ".join(f"{rank:.1f}" for rank in ranks) + " |"


def seasonal() -> str:
    """On how many series with a season the pool is better than each rival."""
    record = _record()
    if record is None:
        return "There is no record yet."
    groups = {
        "with a season": [row for row in record["series"] if row["period"] > 1],
        "without": [row for row in record["series"] if row["period"] == 1],
    }
    lines = [
        "| series | number | better than: seasonal naive | last value | ETS | ridge on lags |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, rows in groups.items():
        wins = [
            f"{sum(row['rmse']['pool'] < row['rmse'][other] for row in rows)}"
            for other in ("seasonal naive", "last value", "ETS", "ridge on lags")
        ]
        lines.append(f"| {name} | {len(rows)} | " + " | ".join(wins) + " |")
    return "\n".join(lines)


def differences() -> str:
    """The error of the pool compared with each rival, in percent, with 95 % intervals."""
    record = _record()
    if record is None:
        return "There is no record yet."
    rivals = ("seasonal naive", "ETS", "ridge on lags", WITHOUT)
    generated = [rows for kind, rows in _kinds(record).items() if kind in KINDS]
    public = [[row] for kind, rows in _kinds(record).items() if kind not in KINDS for row in rows]
    lines = [
        "| error of the pool, mean over | " + " | ".join(f"minus {rival}" for rival in rivals) + " |",
        "| --- |" + " ---: |" * len(rivals),
    ]
    for name, groups in ((f"{len(generated)} generated kinds", generated), (f"{len(public)} public series", public)):
        cells = [_change([math.log(_ratio(rows, "pool") / _ratio(rows, rival)) for rows in groups]) for rival in rivals]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _change(logs: list[float]) -> str:
    """Write a mean change of the error and its 95 % interval, in percent, from logarithms of ratios."""
    interval = mean_interval(logs)
    assert interval is not None
    middle, low, high = (100 * math.expm1(value) for value in (mean(logs), interval.low, interval.high))
    return f"{middle:+.1f} % [{low:+.1f}, {high:+.1f}]"


def coverage() -> str:
    """Share of the later values in the intervals, pooled and by steps ahead."""
    record = _record()
    if record is None:
        return "There is no record yet."
    lines = [
        "| level | all | " + " | ".join(_steps(*group) for group in STEPS) + " |",
        "| ---: | ---: |" + " ---: |" * len(STEPS),
    ]
    for level in record["series"][0]["covered"]:
        cells = [_share(record["series"], level, 1, STEPS[-1][1])]
        cells += [_share(record["series"], level, *group) for group in STEPS]
        lines.append(f"| {100 * float(level):.0f} % | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _steps(first: int, last: int) -> str:
    return f"{first} ahead" if first == last else f"{first} to {last}"


def _share(rows: list[dict[str, Any]], level: str, first: int, last: int) -> str:
    """Share of the values inside, each series weighted alike."""
    shares = []
    for row in rows:
        inside = row["covered"][level][first - 1 : last]
        if inside:
            shares.append(sum(inside) / (len(inside) * row["origins"]))
    return f"{100 * mean(shares):.1f}" if shares else ""


def members() -> str:
    """Mean weight of each kind of member, in percent."""
    record = _record()
    if record is None:
        return "There is no record yet."
    names = list(record["series"][0]["weights"])
    lines = ["| series | " + " | ".join(names) + " |", "| --- |" + " ---: |" * len(names)]
    for kind, rows in _kinds(record).items():
        weights = [100 * mean(row["weights"][name] for row in rows) for name in names]
        lines.append(f"| {kind} | " + " | ".join(f"{weight:.0f}" for weight in weights) + " |")
    return "\n".join(lines)


def times() -> str:
    """Time of one fit of 500 points, and mean times over all series of the comparison."""
    record = _record()
    if record is None:
        return "There is no record yet."
    lines = ["| series of 500 points | season | horizon | seconds per fit |", "| --- | ---: | ---: | ---: |"]
    for row in record["fits_of_500_points"]:
        lines.append(f"| like {row['kind']} | {row['period']} | {row['horizon']} | {row['seconds']:.2f} |")
    return "\n".join(lines)


def ideas() -> str:
    """Ways to combine the members: error relative to seasonal naive, and to the pool as it is."""
    path = RESULTS / "forecast-ideas.json"
    if not path.exists():
        return "There is no record yet."
    kinds = _kinds(read_json(path))
    rows = [row for group in kinds.values() for row in group]
    lines = [
        "| combination | RMSE relative to seasonal naive | kinds better, worse by 1 % | seasonal series behind it |",
        "| --- | ---: | ---: | ---: |",
    ]
    means = {
        name: [mean(math.log(max(row["ratios"][name], 1e-9)) for row in group) for group in kinds.values()]
        for name in rows[0]["ratios"]
    }
    usual = next(iter(means.values()))
    for name, values in means.items():
        changes = [ratio - other for ratio, other in zip(values, usual, strict=True)]
        better, worse = sum(change < -0.01 for change in changes), sum(change > 0.01 for change in changes)
        behind = sum(row["period"] > 1 and row["ratios"][name] > 1 for row in rows)
        seasonal = sum(row["period"] > 1 for row in rows)
        lines.append(f"| {name} | {math.exp(mean(values)):.3f} | {better}, {worse} | {behind} of {seasonal} |")
    return "\n".join(lines)


TABLES = {
    "forecast-ideas": ideas,
    "forecast-scores": scores,
    "forecast-differences": differences,
    "forecast-seasonal": seasonal,
    "forecast-coverage": coverage,
    "forecast-members": members,
    "forecast-times": times,
}
