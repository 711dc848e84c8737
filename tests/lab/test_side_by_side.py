"""tools/side_by_side.py: queues of commands, and the archive of their records."""

import json
import subprocess
import sys
import tarfile

import pytest
from scripts import ROOT, import_script

side_by_side = import_script("tools/side_by_side.py")
SHORT = "train adding --length 20 --steps 20 --hidden-size 8 --device cpu"


def test_the_missing_runs_are_commands_of_the_program():
    queues = side_by_side.read_queues(ROOT / "results" / "missing-runs.txt")
    assert all(command[0] in ("train", "compare") for commands in queues.values() for command in commands)


def test_a_line_without_a_command_is_an_error(tmp_path):
    (tmp_path / "queues.txt").write_text(f"a: {SHORT}\nb: report\n")
    with pytest.raises(SystemExit, match="line 2: expected 'QUEUE: train"):
        side_by_side.read_queues(tmp_path / "queues.txt")


def test_no_checkpoint_is_packed(tmp_path):
    run = tmp_path / "runs" / "a"
    run.mkdir(parents=True)
    for name in ("config.json", "result.json", "checkpoint.pt", "checkpoint-before.pt", ".lock"):
        (run / name).touch()
    side_by_side.pack(tmp_path, tmp_path / "records.tgz", None)
    with tarfile.open(tmp_path / "records.tgz") as packed:
        assert packed.getnames() == ["runs/a/config.json", "runs/a/result.json"]


@pytest.mark.slow
def test_records_travel_without_checkpoints(tmp_path):
    compare = "compare adding-500 --models cornn --trials 1 --trial 1 --final 1 --seeds 1 --device cpu"
    (tmp_path / "queues.txt").write_text(f"# two queues\na: {SHORT}\na: {SHORT} --seed 1\nb-: {compare}\n")
    folder, archive, unfinished = tmp_path / "work", tmp_path / "records.tgz", tmp_path / "unfinished.tgz"
    tool = ROOT / "tools" / "side_by_side.py"
    subprocess.run([sys.executable, tool, "start", tmp_path / "queues.txt", folder], check=True)
    side_by_side.wait(folder, 120)
    (folder / "runs" / "a-1" / "result.json").unlink()  # as if it had been interrupted
    side_by_side.pack(folder, archive, unfinished)
    with tarfile.open(archive) as packed:
        names = packed.getnames()
    assert {"runs/a-0/result.json", "results/b--0/compare/adding-500.json"} <= set(names)
    assert not any("a-1" in name or "checkpoint" in name for name in names)
    with tarfile.open(unfinished) as packed:
        assert "runs/a-1/checkpoint.pt" in packed.getnames()
    side_by_side.unpack(archive, tmp_path / "results")
    (record,) = (tmp_path / "results" / "adding").glob("*.json")
    assert json.loads(record.read_text())["config"]["seed"] == 0
    assert (tmp_path / "results" / "compare" / "adding-500.json").exists()
