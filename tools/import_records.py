"""Import records of runs into results/, and check the source of each against the history.

    python tools/import_records.py RECORD_OR_RUN_FOLDER...

A record may come from another machine, and may have the layout of version 0.1; a run folder becomes a record. The file
name is new, and an earlier record of the same run is replaced. The models of a comparison are added to its record. The
choice of a protocol goes next to its file. Other measurements keep their names. Exit code 1: the commit that a record
names does not contain the code that produced it; the record is marked in every table.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cornn._json import read_json
from cornn.lab import records
from cornn.lab.runs import Run, write_json

RESULTS = Path(__file__).resolve().parents[1] / "results"


def main(files: list[str]) -> int:
    """Import the files and return the exit code."""
    in_doubt = 0
    for file in files:
        path, source = import_record(Path(file), RESULTS)
        print(f"{path.relative_to(RESULTS.parent)}: {source}")
        in_doubt += source not in records.TRUSTED
    return int(in_doubt > 0)


def import_record(file: Path, results: Path) -> tuple[Path, str]:
    """Copy a record from elsewhere into `results` and check its source against the history.

    Args:
        file: A record of a run, in this or the former layout; the folder of a finished run; a comparison, whose models
            replace those of the same name; the choice of a protocol; or another measurement, which keeps its name.
        results: The folder of records.

    Returns:
        The new file, and what the check found: see `cornn.lab.records.TRUSTED`.
    """
    content = records.record(Run(file)) if file.is_dir() else read_json(file)
    if "config" in content and "result" in content:
        path = records.write(content, results)
        return path, read_json(path)["result"]["source"]
    if "contest" in content:
        return _import_comparison(content, results)
    path = results / ("protocols" if "protocol" in content else "") / file.name
    path.parent.mkdir(parents=True, exist_ok=True)
    checked = records.with_checked_source(content)
    write_json(path, checked, indent=1)
    return path, checked["source"]


def _import_comparison(content: Mapping[str, Any], results: Path) -> tuple[Path, str]:
    """Add the models of a comparison to its record, with the source of every new trial and run checked."""
    path = results / "compare" / f"{content['contest']}.json"
    previous = read_json(path) if path.exists() else {**content, "machines": [], "models": {}}
    merged = ("machines", "models")
    changed = [key for key in previous if key not in merged and previous[key] != content.get(key)]
    if changed:
        raise ValueError(f"{path} belongs to another comparison: {', '.join(changed)} differ")
    for name, entry in content["models"].items():
        recorded = previous["models"].get(name, {})
        if any(len(entry[kind]) < len(recorded.get(kind, ())) for kind in ("trials", "finals")):
            raise ValueError(f"{path} has more trials or runs of {name}: import the comparison once it is complete")
    checked = {
        name: entry | {kind: [records.with_checked_source(row) for row in entry[kind]] for kind in ("trials", "finals")}
        for name, entry in content["models"].items()
        if entry != previous["models"].get(name)
    }
    machines = previous["machines"] + [
        machine for machine in content["machines"] if machine not in previous["machines"]
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, previous | {"machines": machines, "models": previous["models"] | checked}, indent=None)
    sources = [row["source"] for entry in checked.values() for row in (*entry["trials"], *entry["finals"])]
    return path, next((source for source in sources if source not in records.TRUSTED), "verified")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
