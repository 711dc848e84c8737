import errno
import json
import os
import re
import subprocess
import sys
from functools import partial

import pytest
import torch

from cornn import CoRNN, SequenceModel
from cornn.lab import runs

FOLDER = ["artifact.json", "config.json"]


def small_model():
    torch.manual_seed(0)
    return SequenceModel(CoRNN(2, 3), outputs=1)


def test_a_folder_is_read_back_as_it_was_written(tmp_path):
    run = runs.create(tmp_path / "a" / "b", {"seed": 3})
    run.log({"step": 1, "metric": 0.5})
    model = small_model()
    run.save_model(model, model.state_dict())
    runs.save_checkpoints([(run, {"step": 1, "model": {"w": torch.ones(2)}})])
    run.save_result({"test": 0.25})
    again = runs.open_run(run.path)
    assert again.config == {"seed": 3}
    assert again.metrics() == [{"step": 1, "metric": 0.5}]
    for name, value in model.state_dict().items():
        assert torch.equal(again.weights()[name], value)
    input = torch.randn(5, 2, 2)
    assert torch.equal(again.model()(input), model(input))
    assert again.checkpoint()["step"] == 1
    assert again.result == {"test": 0.25}
    assert sorted(p.name for p in run.path.iterdir()) == sorted(
        [*FOLDER, "metrics.jsonl", "checkpoint.pt", "model.safetensors", "result.json"]
    )


def test_a_second_run_does_not_overwrite_the_first(tmp_path):
    run = runs.create(tmp_path, {"seed": 1})
    with pytest.raises(FileExistsError, match="already contains a run: choose another --out, or continue with"):
        runs.create(tmp_path, {"seed": 2})
    run.save_result({})
    with pytest.raises(FileExistsError, match="already contains a run: choose another --out, or remove it"):
        runs.create(tmp_path, {"seed": 2})
    assert runs.open_run(tmp_path).config == {"seed": 1}


def test_an_unwritable_folder_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"cannot write the run folder .*file/run .*: choose another with --out"):
        runs.create(tmp_path / "file" / "run", {})


def test_not_a_run_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"is not a saved folder: it has no config\.json"):
        runs.open_run(tmp_path)


@pytest.mark.parametrize("fails", ["replace", "fsync"])
def test_a_full_disk_is_said_and_leaves_the_old_files_and_no_other(tmp_path, monkeypatch, fails):
    run = runs.create(tmp_path, {})
    runs.save_checkpoints([(run, {"step": 1})])

    def full(*arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, fails, full)
    save_model = partial(run.save_model, small_model())
    save_checkpoint = lambda content: runs.save_checkpoints([(run, content)])  # noqa: E731
    for write in (save_checkpoint, run.save_result, save_model):
        with pytest.raises(OSError, match=r"cannot write .* \(No space left on device\): .*`cornn resume"):
            write({})
    monkeypatch.undo()
    assert run.checkpoint()["step"] == 1
    assert sorted(os.listdir(tmp_path)) == sorted([*FOLDER, "checkpoint.pt"])


def test_checkpoints_that_go_together_change_together(tmp_path, monkeypatch):
    pair = [runs.create(tmp_path / name, {}) for name in "ab"]
    runs.save_checkpoints([(run, {"step": 1}) for run in pair])

    class Unpicklable:
        def __reduce__(self):
            raise ValueError("not this")

    with pytest.raises(ValueError, match="not this"):
        runs.save_checkpoints([(pair[0], {"step": 2}), (pair[1], {"step": Unpicklable()})])
    assert [run.checkpoint()["step"] for run in pair] == [1, 1]
    assert sorted(os.listdir(tmp_path / "a")) == sorted([*FOLDER, "checkpoint.pt"])
    real, calls = os.replace, []

    def broken_off(*names):
        calls.append(names)
        if len(calls) == stop:
            raise KeyboardInterrupt
        real(*names)

    for stop in range(1, 5):
        calls.clear()
        monkeypatch.setattr(os, "replace", broken_off)
        with pytest.raises(KeyboardInterrupt):
            runs.save_checkpoints([(run, {"step": stop + 1}) for run in pair])
        monkeypatch.undo()
        kept = [
            {run.checkpoint()["step"]} | ({run.checkpoint(True)["step"]} if run.checkpoint(True) else set())
            for run in pair
        ]
        assert kept[0] & kept[1]
        runs.save_checkpoints([(run, {"step": stop + 1}) for run in pair])


def test_one_process_at_a_time(tmp_path):
    run = runs.create(tmp_path, {})
    code = (
        "import sys; from pathlib import Path; from cornn.lab.runs import Run\n"
        "with Run(Path(sys.argv[1])).lock(): print('held', flush=True); sys.stdin.read()"
    )
    other = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with other:
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(RuntimeError, match="another process is training in"), run.lock():
            pass
        (tmp_path / ".new-checkpoint.pt-x").write_text("half")
        other.kill()
        other.wait()
        with run.lock():
            assert not (tmp_path / ".new-checkpoint.pt-x").exists()


def test_a_torn_last_line_is_no_measurement(tmp_path):
    run = runs.create(tmp_path, {})
    run.log({"step": 1, "metric": 0.5})
    with open(tmp_path / "metrics.jsonl", "a") as file:
        file.write(json.dumps({"step": 2})[:-3])
    assert run.metrics() == [{"step": 1, "metric": 0.5}]
    run.drop_metrics_after(0)
    assert run.metrics() == []


def test_nothing_in_a_checkpoint_is_executed(tmp_path):
    run = runs.create(tmp_path, {})
    marker = tmp_path / "executed"

    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(marker),)

    torch.save({"step": Evil()}, tmp_path / "checkpoint.pt")
    with (
        pytest.warns(UserWarning, match="has no checksum"),
        pytest.raises(ValueError, match=r"checkpoint\.pt is damaged: remove checkpoint\.pt"),
    ):
        run.checkpoint()
    assert not marker.exists()


def test_damaged_files_are_named_with_a_remedy(tmp_path):
    run = runs.create(tmp_path, {})
    runs.save_checkpoints([(run, {"step": 1})])
    run.save_model(small_model(), {"w": torch.ones(300)})
    for name in ("checkpoint.pt", "model.safetensors"):
        (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:60])
    with pytest.raises(ValueError, match=r"checkpoint\.pt is damaged"):
        run.checkpoint()
    with pytest.raises(ValueError, match=r"model\.safetensors is not a valid"):
        run.weights()
    (tmp_path / "config.json").write_text("[1]")
    with pytest.raises(ValueError, match=r"config\.json is damaged: it does not match its checksum"):
        _ = run.config


def test_files_may_be_read_by_whom_the_users_others_may(tmp_path):
    run = runs.create(tmp_path, {})
    (tmp_path / "plain").touch()
    run.save_result({"test": 1.0})
    modes = {(tmp_path / name).stat().st_mode for name in ("plain", "config.json", "result.json")}
    assert len(modes) == 1


def test_a_line_that_was_cut_off_is_no_measurement(tmp_path):
    run = runs.create(tmp_path, {})
    run.log({"step": 1, "metric": 0.5, "theory": {"r": 1.0}})
    text = (tmp_path / "metrics.jsonl").read_text()
    (tmp_path / "metrics.jsonl").write_text(text + text.rstrip()[:-1])
    assert [row["step"] for row in run.metrics()] == [1]


def test_a_damaged_file_is_named(tmp_path):
    run = runs.create(tmp_path, {})
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ValueError, match=r"config.json is damaged"):
        _ = run.config


def test_a_read_only_folder_is_one_sentence(tmp_path, monkeypatch):
    run = runs.create(tmp_path, {})

    def refuse(*_, **__):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(tmp_path / ".lock"))

    monkeypatch.setattr("filelock.FileLock.acquire", refuse)
    with pytest.raises(OSError, match=r"^cannot write in .* \(Read-only file system\): copy the folder"), run.lock():
        pass


def test_an_error_of_writing_says_how_to_continue(tmp_path, monkeypatch):
    alone, several = runs.create(tmp_path / "alone", {}), runs.create(tmp_path / "several/seed-0", {})
    (tmp_path / "several/seeds.json").write_text("{}")

    def full(*arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "replace", full)
    for run, folder in ((alone, "alone"), (several, "several")):
        save_checkpoint = lambda content, run=run: runs.save_checkpoints([(run, content)])  # noqa: E731
        for write in (save_checkpoint, run.save_result):
            with pytest.raises(OSError, match=rf"then run `cornn resume {re.escape(str(tmp_path / folder))}`$"):
                write({})
    with pytest.raises(
        OSError, match=r"record\.json \(No space left on device\): .*, then run the same command again$"
    ):
        runs.write_json(tmp_path / "record.json", {})


def test_an_error_of_runs_that_are_saved_together_names_the_file_of_its_own_run(tmp_path):
    saved = [runs.create(tmp_path / name, {"seed": 0}) for name in ("a", "b")]
    for file in saved[1].path.iterdir():
        file.unlink()
    saved[1].path.rmdir()
    with pytest.raises(OSError, match=r"cannot write \S*b.checkpoint\.pt \(No such file or directory\): .*resume"):
        runs.save_checkpoints([(run, {"step": 1}) for run in saved])
    assert sorted(path.name for path in saved[0].path.iterdir()) == FOLDER
