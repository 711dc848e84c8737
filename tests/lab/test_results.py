"""The records of this repository: each is the run that it says, and its source was checked."""

import subprocess
from pathlib import Path

import pytest

from cornn import _source
from cornn.lab import records
from cornn.lab.tasks import TASKS

RESULTS = Path(__file__).parents[2] / "results"
FOLDERS = [RESULTS, RESULTS / "search", RESULTS / "cpu"]


def has_history() -> bool:
    try:
        return _source._git("rev-parse", "--is-shallow-repository") == "false"
    except (OSError, subprocess.SubprocessError):
        return False


@pytest.mark.parametrize("task", TASKS)
def test_records_have_an_identity_of_their_own(task):
    for folder in FOLDERS:
        found = records.read(folder, task)
        identities = [one.get("identity") for one in found]
        wrong = [one["path"] for one in found if one.get("identity") != records.identity(records.read_config(one))]
        assert not wrong, "import them with tools/import_records.py"
        assert len(set(identities)) == len(identities)


@pytest.mark.skipif(not has_history(), reason="needs the history")
@pytest.mark.parametrize("task", TASKS)
def test_what_records_say_of_their_source_is_so(task):
    for folder in FOLDERS:
        for one in records.read(folder, task):
            assert one["result"].get("source") == _source.check_source(one["result"]), one["path"]
