"""Rewrite the tables of the README and the docs from results/. With `--check`, only report whether they are current.

A table stands between `<!-- table: NAME -->` and `<!-- end -->`; nothing between them is written by hand.
"""

import argparse
import math
import re
import sys
from pathlib import Path

from adding_tables import TABLES as ADDING
from archive_tables import TABLES as ARCHIVE
from better_tables import TABLES as BETTER
from choosing_tables import TABLES as CHOOSING
from default_tables import TABLES as DEFAULT
from forecast_tables import TABLES as FORECAST
from headline_tables import TABLES as HEADLINES
from kernel_tables import TABLES as KERNELS
from microcontroller_tables import TABLES as MICROCONTROLLER
from reliability_tables import TABLES as RELIABILITY
from rival_tables import TABLES as RIVALS
from run_tables import TABLES as RUNS
from theory_tables import TABLES as THEORY

from cornn._json import read_json
from cornn.lab import records

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results"


def speed_cpu() -> str:
    """Forward and backward with all gradients: a plain loop, nn.LSTM and coRNN."""
    content = read_json(RESULTS / "speed-cpu.json")
    rows = content["rows"]
    keys = list(dict.fromkeys((row["batch"], row["hidden"], row["steps"], row["threads"]) for row in rows))
    names = [name for name in dict.fromkeys(row["contender"] for row in rows) if name.startswith("coRNN")]
    lines = [
        "| batch, neurons, steps | threads | plain loop | nn.LSTM | "
        + " | ".join(sorted(names))
        + " | plain loop ÷ best; nn.LSTM ÷ best |",
        "| --- | ---: | ---: | ---: | " + "---: | " * len(names) + "---: |",
    ]
    for key in keys:
        by_contender = {
            row["contender"]: row["seconds"] * 1e3
            for row in rows
            if (row["batch"], row["hidden"], row["steps"], row["threads"]) == key
        }
        best = min(by_contender[name] for name in names)
        cells = [f"{by_contender[name]:.1f} ms" for name in ("plain loop", "nn.LSTM", *sorted(names))]
        ratio = f"{by_contender['plain loop'] / best:.1f}; {by_contender['nn.LSTM'] / best:.1f}"
        lines.append(f"| {key[0]}, {key[1]}, {key[2]} | {key[3]} | " + " | ".join(cells) + f" | {ratio} |")
    return "\n".join(lines)


def _by_contender(record: str, field: str, scale: float, digits: int, threads: bool) -> str:
    """One value per contender of a record of `cornn bench`, one row per case and number of threads."""
    if not (RESULTS / record).exists():
        return "There is no record yet."
    rows = read_json(RESULTS / record)["rows"]
    names = sorted(dict.fromkeys(row["contender"] for row in rows), key=lambda name: (name.startswith("coRNN"), name))
    lines = [
        "| case | steps, batch, neurons, inputs | " + ("threads | " if threads else "") + " | ".join(names) + " |",
        "| --- | --- |" + " ---: |" * (len(names) + threads),
    ]
    for case, number in dict.fromkeys((row["case"], row["threads"]) for row in rows):
        by_contender = {row["contender"]: row for row in rows if (row["case"], row["threads"]) == (case, number)}
        if not threads and number != rows[0]["threads"]:
            continue
        sizes = next(iter(by_contender.values()))
        figures = [by_contender.get(name, {}).get(field) for name in names]
        cells = ["-" if figure is None else f"{figure * scale:,.{digits}f}" for figure in figures]
        lines.append(
            f"| {case} | {sizes['steps']}, {sizes['batch']}, {sizes['hidden']}, {sizes['inputs']} | "
            + (f"{number} | " if threads else "")
            + " | ".join(cells)
            + " |"
        )
    return "\n".join(lines)


def speed_cpu_both() -> str:
    """Milliseconds of forward and backward."""
    return _by_contender("speed-cpu.json", "seconds", 1e3, 1, threads=True)


CPU_GOALS = {"psmnist-128": (2.1, 3.6), "psmnist-256": (1.45, 3.0), "har2-64": (4.8, 3.1), "one-128": (30, None)}
THREADS_GOAL = 1.7  # two threads over one, from 50 sequences on


def speed_cpu_goals() -> str:
    """Speed-up of the C backend over a plain loop and nn.LSTM, and of two threads over one."""
    rows = read_json(RESULTS / "speed-cpu.json")["rows"]
    lines = [
        "| case | over a plain loop: target, measured | over nn.LSTM: target, measured "
        "| two threads over one: target, measured |",
        "| --- | ---: | ---: | ---: |",
    ]

    def cell(goal: float | None, value: float) -> str:
        return f"-, {value:.2f}" if goal is None else f"{goal:g}, {value:.2f}{'' if value >= goal else ' (missed)'}"

    for case in dict.fromkeys(row["case"] for row in rows):
        by_contender = {(row["contender"], row["threads"]): row["seconds"] for row in rows if row["case"] == case}
        batch = next(row["batch"] for row in rows if row["case"] == case)
        loop, lstm = CPU_GOALS.get(case, (None, None))
        single, double = by_contender["coRNN, c", 1], by_contender["coRNN, c", 2]
        cells = (
            cell(loop, by_contender["plain loop", 1] / single),
            cell(lstm, by_contender["nn.LSTM", 1] / single),
            cell(THREADS_GOAL if batch >= 50 else None, single / double),
        )
        lines.append(f"| {case} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def speed_cpu_forward() -> str:
    """Milliseconds of the forward pass alone."""
    return _by_contender("speed-cpu.json", "forward_seconds", 1e3, 1, threads=True)


def speed_cpu_memory() -> str:
    """Peak memory of forward and backward in megabytes, independent of the number of threads."""
    return _by_contender("speed-cpu.json", "memory", 1e-6, 1, threads=False)


def bench_cuda() -> str:
    """Milliseconds of forward and backward, launched and captured."""
    records = ("bench-cuda.json", "bench-cuda-batches.json")
    return "\n\n".join(_by_contender(record, "seconds", 1e3, 2, threads=False) for record in records)


def speed_against() -> str:
    """How the cost grows: a table per record, and its figure."""
    parts = []
    for path in sorted(RESULTS.glob("speed-against-*.json")):
        content = read_json(path)
        rows, title = content["rows"], content["measured"]
        values = sorted({row["value"] for row in rows})
        lines = [
            f"| {title} | " + " | ".join(f"{value:,}" for value in values) + " |",
            "| --- |" + " ---: |" * len(values),
        ]
        for name in dict.fromkeys(row["contender"] for row in rows):
            by_value = {row["value"]: row["seconds"] / row["steps"] * 1e6 for row in rows if row["contender"] == name}
            cells = [f"{by_value[value]:,.2f}" if value in by_value else "-" for value in values]
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
        picture = f"figures/{path.stem}.svg"
        if (ROOT / "docs" / picture).exists():
            lines += ["", f"![{title}, microseconds per step]({picture})"]
        parts.append("\n".join(lines))
    return "\n\n".join(parts) or "There is no record yet."


def _captured_lstm() -> dict[tuple[int, int, int], float]:
    """Return (steps, batch, neurons) -> milliseconds of cuDNN's LSTM, captured as a CUDA graph."""
    times = {}
    for record in ("bench-cuda.json", "bench-cuda-batches.json"):
        for row in read_json(RESULTS / record)["rows"]:
            if row["contender"] == "nn.LSTM (replayed)":
                times[row["steps"], row["batch"], row["hidden"]] = row["seconds"] * 1e3
    return times


MULTIPROCESSORS, LANES, CLOCK = 132, 128, 1980  # of an H200: multiply-adds per clock, clocks per microsecond


def _floor(hidden: int, batch: int) -> float:
    """Microseconds per step of the multiply-adds alone, with the sequences distributed as in the kernels."""
    blocks, sequences = (1, 1) if hidden <= 128 else (4, 4) if hidden <= 256 else (8, 8)
    rounds = math.ceil(math.ceil(batch / sequences) / (MULTIPROCESSORS // blocks))
    return rounds * sequences / blocks * 2 * hidden**2 / LANES / CLOCK


def kernels() -> str:
    """Every size that has a target: the lower bound, the target, the measurement."""
    content = read_json(RESULTS / "speed-cuda.json")
    captured = _captured_lstm()
    lines = [
        "| steps, batch, neurons | bound, µs per step | forward: target, measured | backward: target, measured "
        "| both, ms: target, measured | with gradients of dt, gamma, epsilon, ms | LSTM ÷ coRNN |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in content["times"]:
        if row["goals"][0] is None:
            continue
        measured = (row["forward"], row["backward"], row["both_graph"])
        cells = [
            f"{goal:g}, {value:.3g}{'' if value <= goal else ' (missed)'}"
            for goal, value in zip(row["goals"], measured, strict=True)
        ]
        size = row["steps"], row["batch"], row["hidden"]
        ratio = f"{captured[size] / row['both_graph']:.1f}" if size in captured else "-"
        lines.append(
            f"| {size[0]}, {size[1]}, {size[2]} | {_floor(row['hidden'], row['batch']):.3f} | "
            + " | ".join(cells)
            + f" | {row['both_all_graph']:.3g} | {ratio} |"
        )
    return "\n".join(lines)


OWN = {
    "speed-cpu": speed_cpu,
    "speed-cpu-both": speed_cpu_both,
    "speed-cpu-goals": speed_cpu_goals,
    "speed-cpu-forward": speed_cpu_forward,
    "speed-cpu-memory": speed_cpu_memory,
    "kernels": kernels,
    "bench-cuda": bench_cuda,
    "speed-against": speed_against,
}
GROUPS = (
    *(OWN, ADDING, ARCHIVE, BETTER, CHOOSING, DEFAULT, FORECAST),
    *(HEADLINES, KERNELS, MICROCONTROLLER, RELIABILITY, RIVALS, RUNS, THEORY),
)
TABLES = {name: table for group in GROUPS for name, table in group.items()}
if len(TABLES) < sum(map(len, GROUPS)):
    raise ValueError("two tables have the same name")


OPENED: list[Path] = []
"""Files that were read since the list was last emptied."""
sys.addaudithook(lambda event, given: OPENED.append(Path(str(given[0]))) if event == "open" else None)


def _with_footnotes(name: str) -> str:
    """Return a table, and below it which of its records do not come from the commit that they name."""
    OPENED.clear()
    text = TABLES[name]()
    notes = [records.FOOTNOTE] if records.MARK in text else []
    footnotes: dict[str, list[str]] = {}
    for path in dict.fromkeys(path for path in OPENED if path.suffix == ".json" and path.is_relative_to(RESULTS)):
        content = read_json(path)
        if isinstance(content, dict) and not content.keys() & {
            "result",
            "models",
            "space",
        }:  # runs are marked row by row
            rows = [row for row in content.get("rows", ()) if "commit" in row] or [content]
            why = f", because {content['not_repeated']}" if "not_repeated" in content else ""
            for wrong in dict.fromkeys(records.source_of(row) for row in rows if records.mark([row])):
                footnotes.setdefault(wrong + why, []).append(f"`results/{path.relative_to(RESULTS)}`")
    for wrong, paths in footnotes.items():
        more = f" and {len(paths) - 3} more files" if len(paths) > 3 else ""
        notes.append(f"*Source:* {', '.join(paths[:3])}{more}: {wrong}.")
    return "\n\n".join([text, *notes])


def rewritten(text: str) -> str:
    def table(match: re.Match) -> str:
        return f"<!-- table: {match[1]} -->\n{_with_footnotes(match[1])}\n<!-- end -->"

    return re.sub(r"<!-- table: ([\w-]+) -->\n.*?<!-- end -->", table, text, flags=re.DOTALL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    stale = []
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        text = path.read_text(encoding="utf8")
        if rewritten(text) != text:
            stale.append(path.name)
            if not options.check:
                path.write_text(rewritten(text), encoding="utf8")
    if options.check and stale:
        sys.exit(f"out of date: {', '.join(stale)}; run python benchmarks/tables.py")
    print(f"{len(stale)} files {'out of date' if options.check else 'rewritten'}")


if __name__ == "__main__":
    main()
