"""The tables of the README and of the docs are those of the records."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_tables_are_those_of_the_records():
    """README and docs are generated from results/: `python benchmarks/tables.py` writes them anew."""
    tables = ROOT / "benchmarks" / "tables.py"
    done = subprocess.run([sys.executable, str(tables), "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
