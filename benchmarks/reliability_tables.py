"""The tables of the attacks on saved files and trainings, and of the changes to the source that tests notice."""

from collections import Counter
from pathlib import Path
from typing import Any

from cornn._json import read_json

RESULTS = Path(__file__).resolve().parents[1] / "results"

PROMISES: dict[str, tuple[str, str, str]] = {
    "kill": (
        "A training that is killed at any moment and resumed ends with the same weights, curve and result, to the bit",
        "`kill -9` at random moments, up to four times per training, then `cornn resume`",
        "{resumed} trainings ended, all compared",
    ),
    "power": (
        "So does one whose power is cut, or `cornn resume` reports the damage in a one-line error",
        "the same, with all bytes that were not synced cut off at random or replaced by NULs",
        "{noticed} cuts lost bytes; {resumed} trainings ended, {refused} refused",
    ),
    "bits": (
        "One wrong bit in a file that is read back is noticed or harmless",
        "a flipped bit in each file in turn of a finished run, an interrupted run and an estimator",
        "{noticed:,} noticed",
    ),
    "commands": (
        "Damage leads to a one-line error with exit code 2, never to a traceback or a different result",
        "files truncated, exchanged, overwritten or with other values, read by `evaluate`, `check`, `export`, `resume` "
        "and `predict`; folders of version 0.1.0 too, which have no checksums and count for tracebacks only",
        "{noticed} refused",
    ),
    "settings": (
        "A setting of a wrong type or size leads to a one-line error",
        "a setting removed or replaced in a file for `--config`",
        "{noticed} refused",
    ),
}
"""Attack -> the promise, how it is tested, and the outcome of the tries."""


def attacks() -> str:
    """Promises, how they are tested, and with how many tries."""
    path = RESULTS / "reliability.json"
    if not path.exists():
        return "There is no record yet."
    content = read_json(path)
    lines = [
        "| promise | test | tries | outcome | silent changes | tracebacks |",
        "| --- | --- | ---: | --- | ---: | ---: |",
    ]
    for row in content["rows"]:
        promise, test, outcome = PROMISES[row["attack"]]
        counts: dict[str, Any] = {"resumed": 0, "refused": 0, **row}
        lines.append(
            f"| {promise} | {test} | {row['tries']:,} | {outcome.format(**counts)} | {row['silent']} "
            f"| {row['tracebacks']} |"
        )
    lines += ["", f"{content['seconds'] / 60:.1f} minutes on the CPU, seed {content['seed']}."]
    return "\n".join(lines)


def mutations() -> str:
    """Single changes to the source, and how many of them the tests notice."""
    path = RESULTS / "mutations.json"
    if not path.exists():
        return "There is no record yet."
    content = read_json(path)
    counted = content["counted"]
    rows = [(f"drawn at random from {content['of']:,}", f"{content['tried']}")]
    kinds = Counter(row["why"] for row in content["rows"] if row["outcome"] == "equivalent")
    rows += [(f"equivalent: {kind}", f"{count}") for kind, count in kinds.most_common()]
    rows.append(("not equivalent", f"{counted}"))
    for words, count in (
        ("of these, noticed by the tests when the sample was drawn", content["noticed_at_first"]),
        ("of these, noticed now, also by tests that were written for this sample", content["noticed"]),
    ):
        rows.append((words, f"{count} ({100 * count / counted:.1f} %)"))
    lines = ["| single changes to the source | number |", "| --- | ---: |"]
    lines += [f"| {words} | {number} |" for words, number in rows]
    if content["survivors"]:
        lines += ["", "Not noticed: " + ", ".join(f"`{name}`" for name in content["survivors"]) + "."]
    return "\n".join(lines)


TABLES = {"reliability": attacks, "mutations": mutations}
