"""Migrate the records under results/ to the layout with identities, and name the commit of each row of a comparison.

    python benchmarks/migrate_records.py

No measured number changes: every record is compared with its former content. What cannot be migrated is listed.
"""

import json
import subprocess
from pathlib import Path
from typing import Any

from cornn._source import check_source
from cornn.lab import records
from cornn.lab.tasks import TASKS

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results"


def migrate_runs() -> None:
    """Give every record of a run its identity, its complete configuration and the check of its source."""
    count, sources = 0, {}
    for folder in (RESULTS, RESULTS / "search", RESULTS / "cpu"):
        for task in TASKS:
            for before in records.read(folder, task):
                old = before.pop("path")
                path = records.write(before, folder)
                after = json.loads(path.read_text(encoding="utf8"))
                source = after["result"].pop("source")
                before["result"].pop("source", None)
                assert (after["result"], after["curve"]) == (before["result"], before.get("curve", {})), old
                assert records.read_config(after) == records.read_config(before), old
                if old != path:
                    old.unlink(missing_ok=True)
                count += 1
                sources.setdefault(source, []).append(path.relative_to(RESULTS))
    print(f"{count} records of runs")
    for source, paths in sources.items():
        print(f"  {source}: {len(paths)}")
        for path in paths if source not in records.TRUSTED else ():
            print(f"    {path}")


def migrate_comparisons() -> None:
    """Name the commit of each row: the one that the file named anew when the row first appeared in the history."""
    for path in sorted((RESULTS / "compare").glob("*.json")):
        record = json.loads(path.read_text(encoding="utf8"))
        known: dict[str, list[str]] = {}
        before: set[str] = set()
        for version in _history(path):
            named = {one["commit"] for one in version["machines"]}
            new = named - before or named
            for row in _rows(version):
                known.setdefault(_key(row), sorted(new))
            before |= named
        unknown = 0
        for row in _rows(record):
            values, possible = row[2], known.get(_key(row), [])
            if "commit" not in values:
                values["commit"] = possible[0] if len(possible) == 1 else None
                values |= {} if len(possible) < 2 else {"commit_one_of": possible}
            sources = {check_source({"commit": one}) for one in possible}
            several = len(possible) > 1 and sources == {"commit only"}
            values["source"] = "one of several commits" if several else check_source(values)
            unknown += values["commit"] is None
        path.write_text(json.dumps(record) + "\n", encoding="utf8")
        print(f"{path.relative_to(RESULTS)}: {len(_rows(record))} rows, {unknown} without a known commit")


def _history(path: Path) -> list[dict[str, Any]]:
    """Return all versions of a file that are in the history, the first one first."""

    def git(*arguments: str) -> str:
        return subprocess.run(("git", "-C", ROOT, *arguments), check=True, capture_output=True, text=True).stdout

    name = str(path.relative_to(ROOT))
    commits = git("log", "--format=%H", "--reverse", "--", name).split()
    return [json.loads(git("show", f"{commit}:{name}")) for commit in commits]


def _rows(record: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (entrant, kind, row)
        for entrant, entry in record["models"].items()
        for kind in ("trials", "finals")
        for row in entry[kind]
    ]


def _key(row: tuple[str, str, dict[str, Any]]) -> str:
    entrant, kind, values = row
    entrant = {"rnn": "tanh-rnn"}.get(entrant, entrant)  # its former name
    figures = [values.get(name) for name in ("trial", "seed", "validation", "test", "steps", "seconds")]
    return json.dumps([entrant, kind, figures])


if __name__ == "__main__":
    migrate_runs()
    migrate_comparisons()
