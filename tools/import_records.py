"""Import records of runs into results/, and check the source of each against the history.

    python tools/import_records.py RECORD_OR_RUN_FOLDER...

A record may come from another machine, and may have the layout of version 0.1; a run folder becomes a record. The file
name is new, and an earlier record of the same run is replaced. The models of a comparison are added to its record. The
choice of a protocol goes next to its file. Other measurements keep their names. Exit code 1: the commit that a record
names does not contain the code that produced it; the record is marked in every table.
"""

import sys
from pathlib import Path

from cornn.lab.records import TRUSTED, import_record

RESULTS = Path(__file__).resolve().parents[1] / "results"


def main(files: list[str]) -> int:
    """Import the files and return the exit code."""
    in_doubt = 0
    for file in files:
        path, source = import_record(Path(file), RESULTS)
        print(f"{path.relative_to(RESULTS.parent)}: {source}")
        in_doubt += source not in TRUSTED
    return int(in_doubt > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
